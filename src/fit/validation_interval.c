#include "fit/validation.h"

#include <string.h>

/* What is allocated has the framework's spread; reserved memory and the device's have an allocator in them that none knows. */
static bool memory_interval(const struct validation_quantity *quantity, const struct estimate *estimate,
                            double interval[2])
{
    interval[0] = estimate->peak_allocated_low_bytes;
    interval[1] = estimate->peak_allocated_high_bytes;
    return strcmp(quantity->name, "peak_allocated_bytes") == 0;
}

/* A rate is the inverse of the step time, so its ends change places. */
bool validation_interval(const struct validation_quantity *quantity, const struct estimate *estimate, double predicted,
                         double interval[2])
{
    if (quantity->family == VALIDATION_PEAK) {
        return memory_interval(quantity, estimate, interval);
    }
    if (quantity->family != VALIDATION_STEP || estimate->step_time_low_s <= 0) {
        return false;
    }
    bool is_time = quantity->unit == VALIDATION_SECONDS;
    interval[0] = is_time ? estimate->step_time_low_s : predicted * estimate->step_time_s / estimate->step_time_high_s;
    interval[1] = is_time ? estimate->step_time_high_s : predicted * estimate->step_time_s / estimate->step_time_low_s;
    return true;
}
