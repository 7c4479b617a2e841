/* The best interconnect of a layout: the slowest link that costs little against the fastest. */
#include "report/report.h"

#include <assert.h>

const double report_link_tolerance_frac = 0.05;

static double fastest_of(const struct report_link *links, int n_links)
{
    double fastest = links[0].step_time_s;
    for (int i = 1; i < n_links; i++) {
        fastest = links[i].step_time_s < fastest ? links[i].step_time_s : fastest;
    }
    return fastest;
}

/* Of the links that cost little the one with the lowest rate; when none does, the fastest of those that exist. */
static const struct report_link *best_of(const struct report_link *links, int n_links)
{
    double limit = (1.0 + report_link_tolerance_frac) * fastest_of(links, n_links);
    const struct report_link *best = NULL;
    for (int i = 0; i < n_links; i++) {
        const struct report_link *link = &links[i];
        if (link->is_bound) {
            continue;
        }
        bool is_cheap = link->step_time_s <= limit;
        bool was_cheap = best != NULL && best->step_time_s <= limit;
        bool is_better = is_cheap ? !was_cheap || link->bytes_per_s < best->bytes_per_s
                                  : !was_cheap && (best == NULL || link->step_time_s < best->step_time_s);
        best = is_better ? link : best;
    }
    return best;
}

static void put_link(struct report_tree *tree, const struct report_link *link, double fastest_s)
{
    report_tree_begin(tree, NULL, SP_JSON_OBJECT);
    report_tree_string(tree, "name", link->name);
    report_tree_number(tree, "step_time_s", link->step_time_s);
    report_tree_number(tree, "cost_frac", link->step_time_s / fastest_s - 1.0);
    report_tree_end(tree);
}

const struct sp_json *report_answer_with_links(struct sp_arena *arena, const struct sp_json *answer,
                                               const struct report_link *links, int n_links)
{
    assert(n_links > 0 && n_links <= REPORT_MAX_LINKS);
    const struct report_link *best = best_of(links, n_links);
    struct report_tree tree;
    report_tree_open(&tree, arena);
    for (const struct sp_json *member = answer->first; member != NULL; member = member->next) {
        report_tree_value(&tree, member->key, member);
    }
    report_tree_string(&tree, "best_interconnect", best == NULL ? NULL : best->name);
    report_tree_begin(&tree, "interconnects", SP_JSON_ARRAY);
    for (int i = 0; i < n_links; i++) {
        put_link(&tree, &links[i], fastest_of(links, n_links));
    }
    report_tree_end(&tree);
    return report_tree_close(&tree);
}
