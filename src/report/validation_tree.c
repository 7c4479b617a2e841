/* "seqplan.validate/1". */
#include "report/report.h"

static void put_text(struct report_tree *tree, const char *key, const char *text)
{
    if (text == NULL) {
        report_tree_null(tree, key);
    } else {
        report_tree_string(tree, key, text);
    }
}

static void put_known(struct report_tree *tree, const char *key, bool is_known, double value)
{
    if (is_known) {
        report_tree_number(tree, key, value);
    } else {
        report_tree_null(tree, key);
    }
}

const struct sp_json *report_validation_row(struct sp_arena *arena, const struct validation_source *source,
                                            const struct validation_row *row)
{
    bool is_compared = row->state == VALIDATION_COMPARED;
    struct report_tree tree;
    report_tree_open(&tree, arena);
    report_tree_string(&tree, "source", source->name);
    report_tree_string(&tree, "name", row->name);
    report_tree_string(&tree, "group", row->group);
    report_tree_string(&tree, "quantity", row->quantity->name);
    report_tree_string(&tree, "role", validation_role_names[row->role]);
    put_text(&tree, "framework", row->framework);
    put_text(&tree, "method", row->method);
    put_known(&tree, "seq", row->seq > 0, (double)row->seq);
    report_tree_number(&tree, "measured", row->measured);
    put_known(&tree, "predicted", is_compared, row->predicted);
    put_known(&tree, "error_frac", is_compared, row->error_frac);
    put_known(&tree, "low", row->has_interval, row->low);
    put_known(&tree, "high", row->has_interval, row->high);
    if (row->has_interval) {
        report_tree_bool(&tree, "within", row->measured >= row->low && row->measured <= row->high);
    } else {
        report_tree_null(&tree, "within");
    }
    return report_tree_close(&tree);
}

static const struct sp_json *left_out(struct sp_arena *arena, const struct validation_source *source,
                                      const struct validation_row *row)
{
    struct report_tree tree;
    report_tree_open(&tree, arena);
    report_tree_string(&tree, "source", source->name);
    report_tree_string(&tree, "name", row->name);
    report_tree_string(&tree, "quantity", row->quantity->name);
    report_tree_string(&tree, "role", validation_role_names[row->role]);
    report_tree_number(&tree, "measured", row->measured);
    report_tree_string(&tree, "state", validation_state_names[row->state]);
    put_text(&tree, "reason", row->reason);
    return report_tree_close(&tree);
}

static void put_rows(struct report_tree *tree, const struct report_validation *validation, bool is_compared)
{
    report_tree_begin(tree, is_compared ? "rows" : "left_out", SP_JSON_ARRAY);
    for (int i = 0; i < validation->set->n_sources; i++) {
        const struct validation_source *source = &validation->set->sources[i];
        for (int j = 0; j < source->n_rows; j++) {
            const struct validation_row *row = &source->rows[j];
            bool is_asked = (validation->roles >> (unsigned)row->role & 1U) != 0;
            if (is_asked && (row->state == VALIDATION_COMPARED) == is_compared) {
                report_tree_value(tree, NULL,
                                  is_compared ? report_validation_row(tree->arena, source, row)
                                              : left_out(tree->arena, source, row));
            }
        }
    }
    report_tree_end(tree);
}

static void put_figures(struct report_tree *tree, const struct validation_summary *summary)
{
    report_tree_number(tree, "n", summary->n_compared);
    put_known(tree, "mape_frac", summary->n_compared > 0, summary->mape_frac);
    put_known(tree, "median_frac", summary->n_compared > 0, summary->median_frac);
    put_known(tree, "max_frac", summary->n_compared > 0, summary->max_frac);
    put_known(tree, "bias_frac", summary->n_compared > 0, summary->bias_frac);
    put_known(tree, "coverage_frac", summary->n_intervals > 0,
              (double)summary->n_within / (summary->n_intervals > 0 ? summary->n_intervals : 1));
    put_known(tree, "width_frac", summary->n_intervals > 0, summary->width_frac);
}

/* By quantity, as an object. */
static void put_summary(struct report_tree *tree, const struct report_validation *validation, const char *key,
                        unsigned roles)
{
    struct validation_summary *summaries = NULL;
    int n = validation_summarise(tree->arena, validation->set, VALIDATION_BY_QUANTITY, roles, &summaries);
    report_tree_begin(tree, key, SP_JSON_OBJECT);
    for (int i = 0; i < n; i++) {
        if (summaries[i].n_compared > 0) {
            report_tree_begin(tree, summaries[i].quantity->name, SP_JSON_OBJECT);
            put_figures(tree, &summaries[i]);
            report_tree_end(tree);
        }
    }
    report_tree_end(tree);
}

/* By what --by asks for, as a list. */
static void put_by(struct report_tree *tree, const struct report_validation *validation)
{
    struct validation_summary *summaries = NULL;
    unsigned roles = (validation->roles & VALIDATION_JUDGED) != 0 ? VALIDATION_JUDGED : VALIDATION_FITTED;
    int n = validation_summarise(tree->arena, validation->set, validation->by, roles, &summaries);
    report_tree_begin(tree, sp_format(tree->arena, "by_%s", validation_by_names[validation->by]), SP_JSON_ARRAY);
    for (int i = 0; i < n; i++) {
        if (summaries[i].n_compared > 0) {
            report_tree_begin(tree, NULL, SP_JSON_OBJECT);
            report_tree_string(tree, validation_by_names[validation->by], summaries[i].key);
            report_tree_string(tree, "quantity", summaries[i].quantity->name);
            put_figures(tree, &summaries[i]);
            report_tree_end(tree);
        }
    }
    report_tree_end(tree);
}

static void put_sources(struct report_tree *tree, const struct validation_set *set)
{
    report_tree_begin(tree, "sources", SP_JSON_ARRAY);
    for (int i = 0; i < set->n_sources; i++) {
        const struct validation_source *source = &set->sources[i];
        const struct report_validation_counts counts = report_validation_count(source);
        struct sp_texts fitted = {.arena = tree->arena};
        report_validation_fitted(source, &fitted);
        report_tree_begin(tree, NULL, SP_JSON_OBJECT);
        report_tree_string(tree, "name", source->name);
        report_tree_string(tree, "title", source->title);
        report_tree_string(tree, "year", source->year);
        put_text(tree, "grade", source->grade);
        report_tree_bool(tree, "own", source->is_own);
        report_tree_number(tree, "n_judge", counts.n_judged);
        report_tree_number(tree, "n_fit", counts.n_fitted);
        report_tree_number(tree, "n_left_out", counts.n_left_out);
        report_tree_texts(tree, "fitted", &fitted);
        report_tree_end(tree);
    }
    report_tree_end(tree);
}

static void put_coverage(struct report_tree *tree, const struct validation_set *set)
{
    const struct validation_coverage coverage = validation_coverage(set);
    report_tree_begin(tree, "coverage", SP_JSON_OBJECT);
    report_tree_number(tree, "n", coverage.n);
    report_tree_number(tree, "n_within", coverage.n_within);
    report_tree_number(tree, "expected_frac", coverage.expected_frac);
    put_known(tree, "coverage_frac", coverage.n > 0, (double)coverage.n_within / (coverage.n > 0 ? coverage.n : 1));
    put_known(tree, "p_value", coverage.n > 0, coverage.p_value);
    put_known(tree, "width_frac", coverage.n > 0, coverage.width_frac);
    report_tree_bool(tree, "is_enough", coverage.is_enough);
    report_tree_end(tree);
}

static void put_order(struct report_tree *tree, const struct validation_set *set, const char *key, unsigned roles)
{
    const struct validation_order order = validation_order(tree->arena, set, roles);
    report_tree_begin(tree, key, SP_JSON_OBJECT);
    report_tree_number(tree, "n", order.n);
    report_tree_number(tree, "n_right", order.n_right);
    put_known(tree, "right_frac", order.n > 0, (double)order.n_right / (order.n > 0 ? order.n : 1));
    report_tree_number(tree, "least_gap_frac", order.least_gap_frac);
    report_tree_texts(tree, "wrong", &order.wrong);
    report_tree_end(tree);
}

static void put_headline(struct report_tree *tree, const char *key, const struct report_validation *validation,
                         enum validation_family family)
{
    static const struct {
        const char *key;
        unsigned roles;
    } kinds[] = {{"judge", VALIDATION_JUDGED}, {"all", VALIDATION_ALL}};
    report_tree_begin(tree, key, SP_JSON_OBJECT);
    for (size_t i = 0; i < SP_COUNT_OF(kinds); i++) {
        const struct validation_headline headline =
            validation_headline(tree->arena, validation->set, family, "A", kinds[i].roles);
        report_tree_begin(tree, kinds[i].key, SP_JSON_OBJECT);
        report_tree_number(tree, "n_sources", headline.n_sources);
        put_known(tree, "median_frac", headline.n_sources > 0, headline.median_frac);
        report_tree_end(tree);
    }
    report_tree_end(tree);
}

const struct sp_json *report_validation_tree(const struct report_style *style, struct sp_arena *arena,
                                             const struct report_validation *validation)
{
    struct report_tree tree;
    report_tree_open(&tree, arena);
    report_tree_string(&tree, "schema", "seqplan.validate/1");
    report_tree_begin(&tree, "seqplan", SP_JSON_OBJECT);
    report_tree_string(&tree, "version", style->version);
    report_tree_end(&tree);
    put_rows(&tree, validation, true);
    put_rows(&tree, validation, false);
    put_summary(&tree, validation, "summary", VALIDATION_JUDGED);
    put_summary(&tree, validation, "summary_fit", VALIDATION_FITTED);
    if (validation->by != VALIDATION_BY_QUANTITY) {
        put_by(&tree, validation);
    }
    put_coverage(&tree, validation->set);
    report_tree_begin(&tree, "headline", SP_JSON_OBJECT);
    put_headline(&tree, "step", validation, VALIDATION_STEP);
    put_headline(&tree, "peak", validation, VALIDATION_PEAK);
    report_tree_end(&tree);
    put_order(&tree, validation->set, "order", VALIDATION_JUDGED);
    put_order(&tree, validation->set, "order_all", VALIDATION_ALL);
    put_sources(&tree, validation->set);
    return report_tree_close(&tree);
}
