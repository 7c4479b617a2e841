#include "fit/validation.h"

/* Of the step time; false: this machine is not calibrated. The one place that reads an interval of an estimate. */
static bool step_interval(const struct estimate *estimate, double interval[2])
{
    (void)estimate;
    interval[0] = interval[1] = 0.0;
    return false;
}

/* A rate is the inverse of the step time, so its ends change places. Memory is counted, not measured: it has none. */
bool validation_interval(const struct validation_quantity *quantity, const struct estimate *estimate, double predicted,
                         double interval[2])
{
    double step[2];
    if (quantity->family != VALIDATION_STEP || !step_interval(estimate, step)) {
        return false;
    }
    bool is_time = quantity->unit == VALIDATION_SECONDS;
    interval[0] = is_time ? step[0] : predicted * estimate->step_time_s / step[1];
    interval[1] = is_time ? step[1] : predicted * estimate->step_time_s / step[0];
    return true;
}
