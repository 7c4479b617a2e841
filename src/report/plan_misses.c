/* Why the rest was dropped and, when nothing fits, what lacks least. */
#include "report/report.h"

/* Bytes of a GPU that a layout may use: its capacity, less what is to stay free, and at most --max-memory. */
static double allowed_bytes(const struct report_plan *plan, double capacity_bytes)
{
    const struct plan_question *asked = plan->asked;
    double allowed = capacity_bytes * (1.0 - asked->headroom_frac) - asked->headroom_bytes;
    bool is_limited = asked->max_memory_bytes > 0.0 && asked->max_memory_bytes < allowed;
    return is_limited ? asked->max_memory_bytes : allowed;
}

double report_plan_missing_bytes(const struct report_plan *plan)
{
    const struct sp_json *miss = plan->nearest_miss;
    double peak = sp_json_member(miss, "peak_bytes")->number;
    double missing = peak - allowed_bytes(plan, sp_json_member(miss, "capacity_bytes")->number);
    double host = sp_json_member(miss, "host_bytes")->number - sp_json_member(miss, "host_capacity_bytes")->number;
    return missing > 0.0 ? missing : host > 0.0 ? host : 0.0;
}
