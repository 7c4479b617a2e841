/* How far any layout of a space fits. One search tells whether anything fits at one value; following what it finds as far
 * as that fits saves most of a bisection's searches. */
#include "search/probe.h"

#include <string.h>

enum { MOST_SEARCHES = 24 };
static const int64_t SHORT_LENGTH = 1024;
static const int64_t ANY_LENGTH = 1024;

struct any_run {
    const struct plan_question *asked;
    struct sp_arena *arena;
    struct question base; /* of one layout of it: what does not depend on the layout */
    bool has_seq, has_gpus, is_batch_given;
    struct probe probe;
    int n_searches;
};

static bool open_run(struct any_run *run, struct sp_error *err)
{
    struct request request = run->asked->request;
    run->has_seq = request.seq.is_given;
    run->has_gpus = request.gpus.is_given || request.nodes.is_given;
    run->is_batch_given = request.global_batch != NULL;
    if (!run->has_seq) {
        request.seq = (struct sp_option_count){.is_given = true, .value = ANY_LENGTH};
    }
    if (!run->has_gpus) {
        request.gpus = (struct sp_option_count){.is_given = true, .value = 1};
    }
    return question_resolve(&request, run->arena, &run->base, err);
}

/* ---- one search ------------------------------------------------------------------------------------------------- */

struct any_value {
    int64_t seq, micro_batch, gpus;
    int n_followed;          /* layouts that are wanted */
    enum plan_effort effort; /* PLAN_WHOLE where the nearest miss is wanted */
};

/* The question at a value; what is found of it is told with that question. */
static bool search_at(struct any_run *run, const struct any_value *value, struct plan_question *question,
                      struct plan *plan, struct sp_error *err)
{
    static const struct sp_option_count none = {.is_given = false};
    int64_t *micro_batch = sp_arena_alloc(run->arena, sizeof(*micro_batch));
    *micro_batch = value->micro_batch;
    *question = *run->asked;
    question->objective = PLAN_MEMORY;
    question->n_top = question->n_kept = value->n_followed;
    question->effort = value->effort;
    question->request.seq = (struct sp_option_count){.is_given = true, .value = value->seq};
    question->request.gpus = (struct sp_option_count){.is_given = true, .value = value->gpus};
    question->request.nodes = none;
    question->axes.micro_batch = (struct plan_counts){.n = 1, .values = micro_batch};
    if (!run->is_batch_given) {
        question->request.global_batch =
            sp_format(run->arena, "%lld", (long long)limits_batch(value->gpus, value->micro_batch));
    }
    run->n_searches++;
    return plan_search(question, run->arena, plan, err);
}

static struct any_value value_of(const struct any_run *run, enum limit_kind kind, int64_t value)
{
    enum { FOLLOWED = 16 };
    int64_t micro_batch = run->asked->axes.micro_batch.n > 0 ? run->asked->axes.micro_batch.values[0] : 1;
    return (struct any_value){.seq = kind == LIMIT_SEQ ? value : run->base.run.seq,
                              .micro_batch = kind == LIMIT_MICRO_BATCH ? value : micro_batch,
                              .gpus = kind == LIMIT_GPUS ? value : run->base.run.gpus,
                              .n_followed = kind == LIMIT_GPUS ? 1 : FOLLOWED,
                              .effort = PLAN_RANKED};
}

/* ---- lengths and micro-batches ---------------------------------------------------------------------------------- */

/* The layouts that a search found, each as far as it fits: the furthest, as the probe's base. At least `from`. */
static bool follow(struct any_run *run, const struct plan_question *question, const struct plan *plan,
                   const struct probe_values *values, int64_t *index, struct sp_error *err)
{
    int64_t from = *index;
    const struct question *questions = plan_questions(question, plan->layouts, plan->n_layouts, run->arena, err);
    const struct question *best = questions;
    for (int i = 0; questions != NULL && i < plan->n_layouts; i++) {
        bool has_legal = false;
        run->probe.base = &questions[i];
        int64_t own = probe_largest(&run->probe, values, from, &has_legal);
        if (own > *index) {
            *index = own;
            best = &questions[i];
        }
    }
    run->probe.base = best;
    return questions != NULL;
}

/* The smallest of a space that does not hold it, to tell what it needs. */
static bool bind_nothing(struct any_run *run, struct any_value value, struct sp_error *err)
{
    struct plan_question question;
    struct plan plan;
    value.effort = PLAN_WHOLE;
    run->probe.base = NULL;
    if (!search_at(run, &value, &question, &plan, err)) {
        return false;
    }
    if (!plan.has_nearest_miss) {
        return true;
    }
    run->probe.base = plan_questions(&question, &plan.nearest_miss, 1, run->arena, err);
    return run->probe.base != NULL;
}

/* From the value at index `first` on: what is shorter breaks a rule. */
static bool limit_values(struct any_run *run, int64_t first, const struct probe_values *values, struct limit *limit,
                         struct sp_error *err)
{
    int64_t index = first - 1;
    int n_before = run->n_searches;
    bool is_proven = false;
    run->probe.base = NULL;
    while (index + 1 < values->n && run->n_searches - n_before < MOST_SEARCHES) {
        struct plan_question question;
        struct plan plan;
        const struct question *followed = run->probe.base;
        struct any_value value = value_of(run, run->probe.kind, probe_value(values, index + 1));
        if (!search_at(run, &value, &question, &plan, err)) {
            return false;
        }
        if (plan.n_layouts == 0) {
            if (index < first && !bind_nothing(run, value, err)) {
                return false;
            }
            run->probe.base = index < first ? run->probe.base : followed;
            is_proven = true;
            break;
        }
        index++;
        if (!follow(run, &question, &plan, values, &index, err)) {
            return false;
        }
    }
    if (run->probe.base != NULL) {
        limit_fill(limit, &run->probe, values, index < first ? -1 : index, run->arena);
        limit->is_beyond = limit->is_beyond || (!is_proven && index + 1 < values->n);
    }
    limit->n_searches = run->n_searches - n_before;
    return true;
}

static bool limit_length(struct any_run *run, struct limit *limit, struct sp_error *err)
{
    if (!run->has_gpus) {
        limit->reason = "needs --gpus";
        return true;
    }
    /* as if every GPU were of one sp group: no layout of the cluster asks for more */
    struct layout_spec widest = run->base.layout;
    widest.tp = 1;
    widest.sp = run->base.run.gpus;
    const struct probe_values values = limit_lengths(&widest, SHORT_LENGTH);
    int64_t documents = run->base.run.document_tokens; /* no sequence is shorter */
    run->probe.kind = LIMIT_SEQ;
    if (!limit_values(run, documents > values.unit ? (documents - 1) / values.unit : 0, &values, limit, err)) {
        return false;
    }
    if (!limit->is_found) {
        limit->reason = sp_format(run->arena, "no layout holds even %lld tokens", (long long)values.unit);
    }
    return true;
}

static bool limit_micro_batch(struct any_run *run, struct limit *limit, struct sp_error *err)
{
    if (!run->has_seq || !run->has_gpus) {
        limit->reason = run->has_gpus ? "needs --seq" : "needs --gpus";
        return true;
    }
    const struct probe_values values = limit_micro_batches(run->arena, run->base.run.global_batch, run->is_batch_given);
    run->probe.kind = LIMIT_MICRO_BATCH;
    if (!limit_values(run, 0, &values, limit, err)) {
        return false;
    }
    limit->reason = limit->is_found ? NULL : "no layout holds even one sequence";
    return true;
}

/* ---- fewest GPUs ------------------------------------------------------------------------------------------------ */

struct cluster_search {
    struct any_run *run;
    struct limit *limit;
    int64_t per_node;
    int64_t below; /* the largest that was too small */
    bool has_gaps; /* sizes below the one that fits were left out */
};

/* Whether anything fits on as many; it is then the limit. */
static bool cluster_fits(struct cluster_search *search, int64_t gpus, bool *fits, struct sp_error *err)
{
    struct any_run *run = search->run;
    struct limit *limit = search->limit;
    struct plan_question question;
    struct plan plan;
    struct any_value value = value_of(run, LIMIT_GPUS, gpus);
    if (!search_at(run, &value, &question, &plan, err)) {
        return false;
    }
    *fits = plan.n_layouts > 0;
    if (!*fits) {
        search->below = gpus;
        return true;
    }
    run->probe.base = plan_questions(&question, plan.layouts, 1, run->arena, err);
    if (run->probe.base == NULL) {
        return false;
    }
    (void)probe_at(&run->probe, 0);
    limit->is_found = true;
    limit->value = gpus;
    limit_keep(limit, &run->probe, run->arena);
    return true;
}

/* What the largest that is too small lacks. */
static bool bind_cluster(struct cluster_search *search, struct sp_error *err)
{
    struct any_run *run = search->run;
    search->limit->binding = "gpus: one";
    if (search->below == 0) {
        return true;
    }
    if (!bind_nothing(run, value_of(run, LIMIT_GPUS, search->below), err)) {
        return false;
    }
    if (run->probe.base != NULL && probe_at(&run->probe, 0) == PROBE_TOO_LARGE) {
        limit_bind(search->limit, &run->probe.estimate, NULL);
    }
    return true;
}

/* A larger cluster need not hold what a smaller one does (its degrees may not divide the length), so the sizes are tried one
 * by one while searches are cheap: GPUs of a node, then nodes; from 8 nodes on they double. */
static int64_t next_size(int64_t gpus, int64_t per_node)
{
    enum { EVERY_GPU = 16, EVERY_NODE = 8 };
    if (gpus < per_node) {
        return gpus < EVERY_GPU ? gpus + 1 : 2 * gpus < per_node ? 2 * gpus : per_node;
    }
    return gpus < EVERY_NODE * per_node ? gpus + per_node : 2 * gpus;
}

/* Between the last that is too small and the one that fits, where sizes were left out: halves, in GPUs of a node or whole
 * nodes. */
static bool refine(struct cluster_search *search, struct sp_error *err)
{
    enum { MOST_HALVES = 8 };
    for (int i = 0; i < MOST_HALVES; i++) {
        int64_t unit = search->limit->value <= search->per_node ? 1 : search->per_node;
        int64_t low = search->below / unit;
        int64_t high = search->limit->value / unit;
        bool fits = false;
        if (high - low <= 1) {
            break;
        }
        search->has_gaps = true;
        if (!cluster_fits(search, (low + (high - low) / 2) * unit, &fits, err)) {
            return false;
        }
    }
    return true;
}

static bool limit_gpus(struct any_run *run, struct limit *limit, struct sp_error *err)
{
    static const int64_t most_tried = 1 << 14;
    int64_t largest = hardware_largest_cluster(&run->base.hardware);
    int64_t most = largest < most_tried ? largest : most_tried;
    if (!run->has_seq) {
        limit->reason = "needs --seq";
        return true;
    }
    struct cluster_search search = {.run = run, .limit = limit};
    search.per_node = (int64_t)run->base.hardware.node.gpus.value;
    int64_t before = 0;
    bool fits = false;
    int n_before = run->n_searches;
    run->probe.kind = LIMIT_GPUS;
    limit->unit = 1;
    for (int64_t gpus = 1; gpus <= most && !fits; gpus = next_size(gpus, search.per_node)) {
        if (!cluster_fits(&search, gpus, &fits, err)) {
            return false;
        }
        search.has_gaps = search.has_gaps || gpus - before > (gpus <= search.per_node ? 1 : search.per_node);
        before = gpus;
    }
    bool is_good = (!fits || refine(&search, err)) && bind_cluster(&search, err);
    limit->is_at_most = fits && search.has_gaps;
    limit->reason = fits ? NULL : limits_gpus_reason(run->arena, &run->base.hardware, most_tried);
    limit->n_searches = run->n_searches - n_before;
    return is_good;
}

bool limits_of_any(const struct plan_question *question, struct sp_arena *arena, struct limits *limits,
                   struct sp_error *err)
{
    *limits = (struct limits){.is_batch_assumed = question->request.global_batch == NULL};
    struct any_run *run = sp_arena_alloc(arena, sizeof(*run));
    run->asked = question;
    run->arena = arena;
    if (!limits_batch_is_count(&question->request, err) || !open_run(run, err)) {
        return false;
    }
    run->probe.is_batch_given = run->is_batch_given;
    run->probe.scratch = sp_arena_open();
    bool is_good = limit_length(run, &limits->items[LIMIT_SEQ], err) &&
                   limit_micro_batch(run, &limits->items[LIMIT_MICRO_BATCH], err) &&
                   limit_gpus(run, &limits->items[LIMIT_GPUS], err);
    sp_arena_close(run->probe.scratch);
    return is_good;
}
