#include "fit/validation.h"

#include <string.h>

/* A rate is the inverse of the step time, so its ends change places. What the allocator holds beyond what is allocated, and parts
 * of a step, have no interval of their own. */
bool validation_interval(const struct validation_quantity *quantity, const struct estimate *estimate, double predicted,
                         double interval[2])
{
    if (quantity->family == VALIDATION_STEP && estimate->step_time_low_s > 0.0) {
        bool is_time = quantity->unit == VALIDATION_SECONDS;
        interval[0] =
            is_time ? estimate->step_time_low_s : predicted * estimate->step_time_s / estimate->step_time_high_s;
        interval[1] =
            is_time ? estimate->step_time_high_s : predicted * estimate->step_time_s / estimate->step_time_low_s;
        return true;
    }
    if (strcmp(quantity->name, "peak_allocated_bytes") == 0 &&
        estimate->peak_allocated_high_bytes > estimate->peak_allocated_low_bytes) {
        interval[0] = estimate->peak_allocated_low_bytes;
        interval[1] = estimate->peak_allocated_high_bytes;
        return true;
    }
    return false;
}
