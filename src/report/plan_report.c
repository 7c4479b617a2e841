/* A plan in any format. */
#include "report/report.h"

/* One line a layout: what it is in the plan, then its whole answer as estimate's CSV has it. */
static void report_plan_csv(const struct report_style *style, struct sp_arena *arena, const struct report_plan *plan)
{
    int n_layouts = plan->plan->n_layouts;
    if (n_layouts == 0) { /* the columns of an answer are known only from one */
        (void)fputs("rank,pareto,differs,options\n", style->file);
        return;
    }
    const struct sp_json **objects = sp_arena_array(arena, (size_t)n_layouts + 1, sizeof(*objects));
    for (int i = 0; i < n_layouts; i++) {
        struct report_tree tree;
        report_tree_open(&tree, arena);
        report_tree_number(&tree, "rank", i + 1);
        report_tree_bool(&tree, "pareto", plan->plan->layouts[i].is_on_front);
        report_tree_string(&tree, "differs", report_plan_differs(arena, plan, i));
        report_tree_string(&tree, "options", report_layout_options(arena, plan, &plan->plan->layouts[i]));
        const struct sp_json *answer = report_csv_answer(arena, plan->answers[i]);
        for (const struct sp_json *member = answer->first; member != NULL; member = member->next) {
            report_tree_value(&tree, member->key, member);
        }
        objects[i] = report_tree_close(&tree);
    }
    report_csv_write(arena, objects, n_layouts, style->file);
}

void report_plan(const struct report_style *style, struct sp_arena *arena, const struct report_plan *plan)
{
    switch (style->format) {
    case REPORT_TABLE:
    case REPORT_MARKDOWN:
        report_plan_table(style, arena, plan);
        break;
    case REPORT_CSV:
        report_plan_csv(style, arena, plan);
        break;
    case REPORT_JSON:
        report_tree_write(report_plan_tree(arena, plan), style->file);
        break;
    }
}
