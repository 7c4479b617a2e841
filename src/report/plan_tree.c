/* The object of "seqplan.plan/1", and its rows in CSV. */
#include "report/report.h"

static void put_rejections(struct report_tree *tree, const struct plan *plan)
{
    report_tree_begin(tree, "rejected", SP_JSON_ARRAY);
    for (int i = 0; i < plan->n_rejections; i++) {
        report_tree_begin(tree, NULL, SP_JSON_OBJECT);
        report_tree_string(tree, "reason", plan->rejections[i].reason);
        report_tree_number(tree, "count", (double)plan->rejections[i].count);
        report_tree_string(tree, "example", plan->rejections[i].example);
        report_tree_end(tree);
    }
    report_tree_end(tree);
}

static void put_plans(struct report_tree *tree, const struct report_plan *plan)
{
    int n_layouts = plan->plan->n_layouts;
    report_tree_begin(tree, "plans", SP_JSON_ARRAY);
    for (int i = 0; i < n_layouts; i++) {
        report_tree_value(tree, NULL, plan->answers[i]);
    }
    report_tree_end(tree);
    report_tree_begin(tree, "differs", SP_JSON_ARRAY);
    for (int i = 0; i < n_layouts; i++) {
        report_tree_string(tree, NULL, report_plan_differs(tree->arena, plan, i));
    }
    report_tree_end(tree);
    report_tree_begin(tree, "options", SP_JSON_ARRAY);
    for (int i = 0; i < n_layouts; i++) {
        report_tree_string(tree, NULL, report_layout_options(tree->arena, plan, &plan->plan->layouts[i]));
    }
    report_tree_end(tree);
    report_tree_begin(tree, "pareto", SP_JSON_ARRAY);
    for (int i = 0; i < n_layouts; i++) {
        if (plan->plan->layouts[i].is_on_front) {
            report_tree_number(tree, NULL, i);
        }
    }
    report_tree_end(tree);
}

/* When nothing fits: the whole answer of the layout that needs least, what it lacks, and what would make it fit. */
static void put_nearest_miss(struct report_tree *tree, const struct report_plan *plan)
{
    if (plan->nearest_miss == NULL) {
        report_tree_null(tree, "nearest_miss");
        return;
    }
    report_tree_begin(tree, "nearest_miss", SP_JSON_OBJECT);
    for (const struct sp_json *member = plan->nearest_miss->first; member != NULL; member = member->next) {
        report_tree_value(tree, member->key, member);
    }
    const struct report_missing missing = report_plan_missing(plan);
    report_tree_number(tree, "missing_bytes", missing.bytes);
    report_tree_string(tree, "missing", missing.bytes > 0.0 ? missing.is_of_host ? "host" : "gpu" : NULL);
    report_tree_string(tree, "options", report_layout_options(tree->arena, plan, &plan->plan->nearest_miss));
    report_tree_begin(tree, "changes", SP_JSON_ARRAY);
    for (size_t i = 0; plan->changes != NULL && i < plan->changes->count; i++) {
        report_tree_string(tree, NULL, plan->changes->items[i]);
    }
    report_tree_end(tree);
    report_tree_end(tree);
}

const struct sp_json *report_plan_tree(struct sp_arena *arena, const struct report_plan *plan)
{
    struct report_tree tree;
    report_tree_open(&tree, arena);
    report_tree_string(&tree, "schema", "seqplan.plan/1");
    report_tree_string(&tree, "objective", plan_objective_names[plan->asked->objective]);
    report_tree_number(&tree, "considered", (double)plan->plan->considered);
    report_tree_number(&tree, "evaluated", (double)plan->plan->evaluated);
    report_tree_bool(&tree, "interrupted", plan->plan->is_interrupted);
    put_rejections(&tree, plan->plan);
    report_tree_begin(&tree, "remarks", SP_JSON_ARRAY);
    struct sp_texts remarks = {.arena = arena};
    report_plan_remarks(plan, &remarks);
    for (size_t i = 0; i < remarks.count; i++) {
        report_tree_string(&tree, NULL, remarks.items[i]);
    }
    report_tree_end(&tree);
    report_tree_number(&tree, "elapsed_s", plan->plan->elapsed_s);
    put_plans(&tree, plan);
    put_nearest_miss(&tree, plan);
    if (plan->sensitivity != NULL) {
        report_tree_value(&tree, "sensitivity", report_sensitivity_tree(arena, plan->sensitivity));
    } else {
        report_tree_null(&tree, "sensitivity"); /* nothing fits */
    }
    return report_tree_close(&tree);
}
