/* A plan in any format. */
#include "report/report.h"

void report_plan(const struct report_style *style, struct sp_arena *arena, const struct report_plan *plan)
{
    report_tree_write(report_plan_tree(arena, plan), style->file);
}
