/* The object of "seqplan.limits/1". */
#include "report/report.h"

static const struct limit *limit_of(const struct report_limits *limits, int row, enum limit_kind kind)
{
    return &limits->rows[row].limits.items[kind];
}

int report_limits_best(const struct report_limits *limits)
{
    int best = -1;
    for (int i = 0; i < limits->n_rows; i++) {
        const struct limit *own = limit_of(limits, i, LIMIT_SEQ);
        if (own->is_found && (best < 0 || own->value > limit_of(limits, best, LIMIT_SEQ)->value)) {
            best = i;
        }
    }
    for (int i = 0; i < limits->n_rows && best < 0; i++) {
        bool has_any = limit_of(limits, i, LIMIT_MICRO_BATCH)->is_found || limit_of(limits, i, LIMIT_GPUS)->is_found;
        best = has_any ? i : best;
    }
    return best < 0 ? 0 : best;
}

/* How a reader of a table and one of the JSON know a limit. */
static const char *name_of(enum limit_kind kind, bool is_in_words)
{
    static const char *const words[N_LIMITS] = {"longest sequence", "largest micro-batch", "fewest GPUs"};
    return is_in_words ? words[kind] : limit_names[kind];
}

static void remark_length(const struct limit *limit, const char *name, struct sp_texts *warnings)
{
    if (!limit->is_found) {
        return;
    }
    int64_t positions = limit->question->model.max_position;
    if (limit->is_beyond) {
        sp_texts_add(warnings, "%s: every length up to this one fits; longer ones are not looked at", name);
    }
    if (limit->value > positions) {
        sp_texts_add(warnings, "%s is beyond the %lld positions of %s: needs longer rope settings and training", name,
                     (long long)positions, limit->question->model.name);
    }
}

void report_limits_remarks(const struct report_limits *limits, int row, bool is_in_words, struct sp_texts *warnings)
{
    const struct report_limits_row *own = &limits->rows[row];
    if (own->refusal != NULL) {
        sp_texts_add(warnings, "refused: %s", own->refusal);
        return;
    }
    for (int kind = 0; kind < N_LIMITS; kind++) {
        const struct limit *limit = &own->limits.items[kind];
        if (limit->reason != NULL) {
            sp_texts_add(warnings, "%s: %s", name_of((enum limit_kind)kind, is_in_words), limit->reason);
        }
        if (limit->is_at_most) {
            sp_texts_add(warnings, "%s: sizes are tried in steps; some below this one were left out and might fit",
                         name_of((enum limit_kind)kind, is_in_words));
        }
    }
    remark_length(&own->limits.items[LIMIT_SEQ], name_of(LIMIT_SEQ, is_in_words), warnings);
}

/* ---- keys ------------------------------------------------------------------------------------------------------- */

static void put_value(struct report_tree *tree, const char *key, const struct limit *limit)
{
    if (limit->is_found) {
        report_tree_number(tree, key, (double)limit->value);
    } else {
        report_tree_null(tree, key);
    }
}

static void put_binding(struct report_tree *tree, const struct limit *limit)
{
    report_tree_string(tree, "binding", limit->binding);
    if (limit->binding_bytes > 0) {
        report_tree_number(tree, "binding_bytes", limit->binding_bytes);
        report_tree_number(tree, "binding_capacity_bytes", limit->binding_capacity_bytes);
    }
}

/* At the limit, or at the smallest that does not fit. */
static void put_question(struct report_tree *tree, const struct limit *limit)
{
    const struct question *question = limit->question;
    const struct estimate *estimate = limit->estimate;
    report_tree_number(tree, "gpus", (double)question->run.gpus);
    report_tree_number(tree, "seq", (double)question->run.seq);
    report_tree_number(tree, "global_batch", (double)question->run.global_batch);
    report_tree_bool(tree, "fits", estimate->fits);
    report_tree_number(tree, "peak_bytes", estimate->peak_bytes);
    report_tree_number(tree, "capacity_bytes", estimate->capacity_bytes);
    report_tree_number(tree, "host_bytes", estimate->host_bytes);
    report_tree_number(tree, "host_capacity_bytes", estimate->host_capacity_bytes);
    report_tree_number(tree, "step_time_s", estimate->step_time_s);
    report_tree_number(tree, "tokens_per_s_per_gpu", estimate->tokens_per_s_per_gpu);
    report_tree_value(tree, "layout", report_layout_tree(tree->arena, question));
}

static void put_limit(struct report_tree *tree, const char *key, const struct limit *limit)
{
    report_tree_begin(tree, key, SP_JSON_OBJECT);
    put_value(tree, "value", limit);
    report_tree_bool(tree, "is_beyond", limit->is_beyond);
    report_tree_bool(tree, "is_at_most", limit->is_at_most);
    if (limit->unit > 0) {
        report_tree_number(tree, "unit", (double)limit->unit);
    }
    put_binding(tree, limit);
    if (limit->question != NULL) {
        put_question(tree, limit);
    }
    report_tree_end(tree);
}

/* What binds the first limit that there is. */
static const struct limit *binding_limit(const struct report_limits_row *row)
{
    for (int kind = 0; kind < N_LIMITS; kind++) {
        if (row->limits.items[kind].binding != NULL) {
            return &row->limits.items[kind];
        }
    }
    return &row->limits.items[LIMIT_SEQ];
}

static void put_row(struct report_tree *tree, const struct report_limits *limits, int row)
{
    const struct report_limits_row *own = &limits->rows[row];
    if (own->method >= 0 && !limits->is_any) {
        report_tree_string(tree, "sp_method", method_names[own->method]);
    }
    for (int kind = 0; kind < N_LIMITS; kind++) {
        put_value(tree, limit_names[kind], &own->limits.items[kind]);
    }
    put_binding(tree, binding_limit(own));
    report_tree_begin(tree, "limits", SP_JSON_OBJECT);
    for (int kind = 0; kind < N_LIMITS; kind++) {
        put_limit(tree, limit_names[kind], &own->limits.items[kind]);
    }
    report_tree_end(tree);
    struct sp_texts warnings = {.arena = tree->arena};
    report_limits_remarks(limits, row, false, &warnings);
    report_tree_texts(tree, "warnings", &warnings);
    if (own->refusal != NULL) {
        report_tree_begin(tree, "error", SP_JSON_OBJECT);
        report_tree_string(tree, "rule", own->rule);
        report_tree_string(tree, "text", own->refusal);
        report_tree_end(tree);
    }
}

/* A question of the limits: of any of them, or of one with a cluster that was asked for. */
static const struct question *find_question(const struct report_limits *limits, int n_kinds)
{
    for (int i = 0; i < limits->n_rows; i++) {
        for (int kind = 0; kind < n_kinds; kind++) {
            if (limits->rows[i].limits.items[kind].question != NULL) {
                return limits->rows[i].limits.items[kind].question;
            }
        }
    }
    return NULL;
}

static void put_number_or_null(struct report_tree *tree, const char *key, bool is_given, double value)
{
    if (is_given) {
        report_tree_number(tree, key, value);
    } else {
        report_tree_null(tree, key);
    }
}

/* What was asked, as estimate has it; what a limit looks for, or nobody gave, is null. */
static void put_asked(struct report_tree *tree, const struct report_limits *limits)
{
    const struct request *request = limits->request;
    const struct question *any = find_question(limits, N_LIMITS);
    const struct question *of_cluster = find_question(limits, LIMIT_GPUS); /* the kinds before it keep the cluster */
    bool has_cluster = (request->gpus.is_given || request->nodes.is_given) && of_cluster != NULL;
    bool has_gpus = request->gpus.is_given || has_cluster;
    bool is_batch_given = request->global_batch != NULL || /* or by the answer of --layout */
                          (limits->rows[0].refusal == NULL && !limits->rows[0].limits.is_batch_assumed);
    report_tree_string(tree, "model", any != NULL ? any->model.name : request->model);
    report_tree_string(tree, "hardware", any != NULL ? any->hardware.name : request->hardware);
    report_tree_string(tree, "network", any != NULL ? any->hardware.network.name : request->network);
    put_number_or_null(tree, "gpus", has_gpus,
                       (double)(request->gpus.is_given ? request->gpus.value
                                : has_cluster          ? of_cluster->run.gpus
                                                       : 0));
    put_number_or_null(tree, "seq", request->seq.is_given, (double)request->seq.value);
    put_number_or_null(tree, "global_batch", any != NULL && is_batch_given,
                       any != NULL ? (double)any->run.global_batch : 0);
}

const struct sp_json *report_limits_tree(const struct report_style *style, struct sp_arena *arena,
                                         const struct report_limits *limits)
{
    struct report_tree tree;
    report_tree_open(&tree, arena);
    report_tree_string(&tree, "schema", "seqplan.limits/1");
    report_tree_begin(&tree, "seqplan", SP_JSON_OBJECT);
    report_tree_string(&tree, "version", style->version);
    report_tree_end(&tree);
    put_asked(&tree, limits);
    report_tree_string(&tree, "of", limits->is_any ? "any layout" : "a layout");
    put_row(&tree, limits, report_limits_best(limits));
    if (limits->n_rows > 1) {
        report_tree_begin(&tree, "rows", SP_JSON_ARRAY);
        for (int i = 0; i < limits->n_rows; i++) {
            report_tree_begin(&tree, NULL, SP_JSON_OBJECT);
            put_row(&tree, limits, i);
            report_tree_end(&tree);
        }
        report_tree_end(&tree);
    }
    return report_tree_close(&tree);
}
