/* A plan in any format. */
#include "report/report.h"

/* What a line begins with; a rank of 0 is none: of what only comes near. */
static void put_place(struct report_tree *tree, int rank, bool is_on_front, const char *differs, const char *options)
{
    if (rank > 0) {
        report_tree_number(tree, "rank", rank);
        report_tree_bool(tree, "pareto", is_on_front);
    } else {
        report_tree_null(tree, "rank");
        report_tree_null(tree, "pareto");
    }
    report_tree_string(tree, "differs", differs);
    report_tree_string(tree, "options", options);
}

static void put_answer(struct report_tree *tree, const struct sp_json *whole)
{
    const struct sp_json *answer = report_csv_answer(tree->arena, whole);
    for (const struct sp_json *member = answer->first; member != NULL; member = member->next) {
        report_tree_value(tree, member->key, member);
    }
}

static const struct sp_json *line_of(struct sp_arena *arena, const struct report_plan *plan, int row)
{
    const struct plan_layout *layout = &plan->plan->layouts[row];
    struct report_tree tree;
    report_tree_open(&tree, arena);
    put_place(&tree, row + 1, layout->is_on_front, report_plan_differs(arena, plan, row),
              report_layout_options(arena, plan, layout));
    put_answer(&tree, plan->answers[row]);
    return report_tree_close(&tree);
}

/* No layout keeps what is asked: what the nearest lacks; without a nearest one the columns of its answer are not known. */
static const struct sp_json *line_of_miss(struct sp_arena *arena, const struct report_plan *plan)
{
    bool has_miss = plan->nearest_miss != NULL;
    struct report_tree tree;
    report_tree_open(&tree, arena);
    put_place(&tree, 0, false, report_plan_miss_text(arena, plan),
              has_miss ? report_layout_options(arena, plan, &plan->plan->nearest_miss) : NULL);
    if (has_miss) {
        put_answer(&tree, plan->nearest_miss);
    }
    return report_tree_close(&tree);
}

/* One line a layout: what it is in the plan, then its whole answer as estimate's CSV has it. */
static void report_plan_csv(const struct report_style *style, struct sp_arena *arena, const struct report_plan *plan)
{
    int n_layouts = plan->plan->n_layouts;
    const struct sp_json **objects = sp_arena_array(arena, (size_t)n_layouts + 1, sizeof(*objects));
    for (int i = 0; i < n_layouts; i++) {
        objects[i] = line_of(arena, plan, i);
    }
    if (n_layouts == 0) {
        objects[0] = line_of_miss(arena, plan);
    }
    report_csv_write(arena, objects, n_layouts > 0 ? n_layouts : 1, style->file);
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
