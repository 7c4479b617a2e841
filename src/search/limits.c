/* How far one layout fits: longest sequence, largest micro-batch, fewest GPUs. */
#include "search/probe.h"

#include <assert.h>
#include <string.h>

const char *const limit_names[] = {"max_seq", "max_micro_batch", "min_gpus", NULL};
const int64_t limits_most_tokens = (int64_t)1 << 30;
static const int64_t MOST_GPUS = (int64_t)1 << 17;
static const int64_t SHORT_LENGTH = 1024; /* lengths are told in no finer steps where the rules allow */

int64_t limits_batch(int64_t gpus, int64_t micro_batch)
{
    return 2 * gpus * micro_batch;
}

/* ---- values ----------------------------------------------------------------------------------------------------- */

struct probe_values limit_lengths(const struct layout_spec *layout, int64_t least_unit)
{
    enum { FP8_ROWS = 16 };
    int64_t step = 2 * layout->sp * layout->tp * (layout->precision == DTYPE_FP8 ? FP8_ROWS : 1);
    int64_t unit = (least_unit + step - 1) / step * step;
    return (struct probe_values){.n = limits_most_tokens / unit, .unit = unit};
}

struct probe_values limit_micro_batches(struct sp_arena *arena, int64_t sequences, bool is_batch_given)
{
    if (!is_batch_given) {
        return (struct probe_values){.n = largest_micro_batch, .unit = 1};
    }
    static const struct plan_counts all = {.n = 0};
    struct values divisors;
    space_degrees(&all, sequences, &divisors);
    int64_t *list = sp_arena_array(arena, (size_t)divisors.n, sizeof(*list));
    memcpy(list, divisors.items, (size_t)divisors.n * sizeof(*list));
    return (struct probe_values){.n = divisors.n, .unit = 1, .list = list};
}

/* ---- what binds ------------------------------------------------------------------------------------------------- */

static const char *const hbm_bindings[N_MEMORY_ITEMS] = {
    [MEMORY_WEIGHTS] = "hbm: weights",
    [MEMORY_GRADIENTS] = "hbm: gradients",
    [MEMORY_OPTIMIZER] = "hbm: optimizer",
    [MEMORY_ACTIVATIONS] = "hbm: activations",
    [MEMORY_ATTENTION_BUFFERS] = "hbm: attention buffers",
    [MEMORY_LOGITS] = "hbm: logits",
    [MEMORY_COMMUNICATION_BUFFERS] = "hbm: communication buffers",
    [MEMORY_RUNTIME] = "hbm: runtime",
};

void limit_bind(struct limit *limit, const struct estimate *larger, const struct estimate *smaller)
{
    if (larger->peak_bytes <= larger->capacity_bytes) {
        limit->binding = "host memory";
        limit->binding_bytes = larger->host_bytes;
        limit->binding_capacity_bytes = larger->host_capacity_bytes;
        return;
    }
    int most = 0;
    double growth = 0;
    for (int i = 0; i < N_MEMORY_ITEMS; i++) {
        double own = larger->memory_bytes[i] - (smaller == NULL ? 0 : smaller->memory_bytes[i]);
        if (own > growth) {
            most = i;
            growth = own;
        }
    }
    limit->binding = hbm_bindings[most];
    limit->binding_bytes = larger->memory_bytes[most];
    limit->binding_capacity_bytes = larger->capacity_bytes;
}

void limit_keep(struct limit *limit, const struct probe *probe, struct sp_arena *arena)
{
    struct question *question = sp_arena_alloc(arena, sizeof(*question));
    struct estimate *estimate = sp_arena_alloc(arena, sizeof(*estimate));
    *question = probe->question;
    question->arena = arena;
    question->warnings = (struct sp_texts){.arena = arena};
    *estimate = probe->estimate;
    limit->question = question;
    limit->estimate = estimate;
}

/* One step beyond the limit against half of it. */
static void bind_beyond(struct limit *limit, struct probe *probe, const struct probe_values *values, int64_t index,
                        struct sp_arena *arena)
{
    enum probe_state state = probe_at(probe, probe_value(values, index + 1));
    if (state == PROBE_REFUSED) {
        limit->binding = sp_strdup(arena, probe->err.rule);
        return;
    }
    struct estimate *larger = sp_arena_alloc(arena, sizeof(*larger));
    *larger = probe->estimate;
    bool has_half = index >= 0 && probe_at(probe, probe_value(values, index / 2)) != PROBE_REFUSED;
    limit_bind(limit, larger, has_half ? &probe->estimate : NULL);
    if (index < 0) { /* nothing fits: the smallest shows what it needs */
        (void)probe_at(probe, probe_value(values, 0));
        limit_keep(limit, probe, arena);
    }
}

void limit_fill(struct limit *limit, struct probe *probe, const struct probe_values *values, int64_t index,
                struct sp_arena *arena)
{
    limit->is_found = index >= 0;
    limit->unit = values->unit;
    limit->is_beyond = index + 1 == values->n && values->list == NULL;
    if (index >= 0) {
        limit->value = probe_value(values, index);
        (void)probe_at(probe, limit->value);
        limit_keep(limit, probe, arena);
    }
    if (index + 1 < values->n) {
        bind_beyond(limit, probe, values, index, arena);
    } else if (values->list != NULL) {
        limit->binding = "global batch";
    }
}

/* ---- a layout --------------------------------------------------------------------------------------------------- */

/* One request, and what of it is known. */
struct layout_run {
    const struct request *request;
    struct sp_arena *arena;
    struct question base; /* with a length and a cluster made up where none is given */
    bool has_seq, has_gpus, is_batch_given;
    struct probe probe;
};

bool limits_batch_is_count(const struct request *request, struct sp_error *err)
{
    if (request->global_batch == NULL || strstr(request->global_batch, "tok") == NULL) {
        return true;
    }
    return sp_fail(err, SP_ERROR_USAGE,
                   "limits: expected --global-batch in sequences, found \"%.40s\", which is another number of them at "
                   "every length; give sequences",
                   request->global_batch);
}

/* With --layout the file may hold length and cluster: only resolving tells. */
static bool open_run(struct layout_run *run, struct sp_error *err)
{
    static const int64_t any_length = 1024;
    struct request request = *run->request;
    struct sp_error missing = {.kind = SP_ERROR_NONE};
    run->has_seq = request.seq.is_given;
    run->has_gpus = request.gpus.is_given || request.nodes.is_given;
    if (request.layout_file != NULL && question_resolve(&request, run->arena, &run->base, &missing)) {
        run->has_seq = run->has_gpus = true;
        return true;
    }
    if (!run->has_seq) {
        request.seq = (struct sp_option_count){.is_given = true, .value = any_length};
    }
    if (!run->has_gpus) {
        request.gpus = (struct sp_option_count){.is_given = true, .value = 1};
    }
    return question_resolve(&request, run->arena, &run->base, err);
}

/* Products of degrees are formed before the rules see them. */
static bool check_degrees(const struct layout_spec *layout, struct sp_error *err)
{
    bool is_small = layout->tp <= MOST_GPUS && layout->sp <= MOST_GPUS / layout->tp &&
                    layout->pp <= MOST_GPUS / layout->tp / layout->sp;
    return is_small ||
           sp_fail_rule(err, "degrees", "tp %lld x sp %lld x pp %lld: expected at most %lld ranks together; lower them",
                        (long long)layout->tp, (long long)layout->sp, (long long)layout->pp, (long long)MOST_GPUS);
}

static bool limit_length(struct layout_run *run, struct limit *limit, struct sp_error *err)
{
    if (!run->has_gpus) {
        limit->reason = "needs --gpus";
        return true;
    }
    bool has_legal = false;
    run->probe.kind = LIMIT_SEQ;
    struct probe_values values = limit_lengths(&run->base.layout, SHORT_LENGTH);
    int64_t index = probe_largest(&run->probe, &values, 0, &has_legal);
    if (!has_legal) {
        *err = run->probe.err;
        return false;
    }
    if (index < 0) {
        values = limit_lengths(&run->base.layout, 1);
        index = probe_largest(&run->probe, &values, 0, &has_legal);
    }
    limit_fill(limit, &run->probe, &values, index, run->arena);
    if (index < 0) {
        limit->reason = sp_format(run->arena, "not even %lld tokens fit", (long long)values.unit);
    }
    return true;
}

/* A length that breaks a rule spoils the limits at that length, not the longest one. */
static bool refuse(const struct layout_run *run, struct limit *limit, const struct sp_error *refusal,
                   struct sp_error *err)
{
    if (run->has_gpus) {
        limit->reason = sp_strdup(run->arena, refusal->text);
        return true;
    }
    *err = *refusal;
    return false;
}

static bool limit_micro_batch(struct layout_run *run, struct limit *limit, struct sp_error *err)
{
    if (!run->has_seq || !run->has_gpus) {
        limit->reason = run->has_gpus ? "needs --seq" : "needs --gpus";
        return true;
    }
    bool has_legal = false;
    run->probe.kind = LIMIT_MICRO_BATCH;
    int64_t dp = run->base.layout.dp;
    int64_t sequences = run->base.run.global_batch % dp == 0 ? run->base.run.global_batch / dp : 1;
    struct probe_values values = limit_micro_batches(run->arena, sequences, run->is_batch_given);
    int64_t index = probe_largest(&run->probe, &values, 0, &has_legal);
    if (!has_legal) {
        return refuse(run, limit, &run->probe.err, err);
    }
    limit_fill(limit, &run->probe, &values, index, run->arena);
    limit->reason = index < 0 ? "not even one sequence fits" : NULL;
    return true;
}

/* ---- fewest GPUs ------------------------------------------------------------------------------------------------ */

static int64_t gcd(int64_t a, int64_t b)
{
    return b == 0 ? a : gcd(b, a % b);
}

/* Cluster sizes that hold whole replicas: any within a node, then whole nodes. */
struct cluster_sizes {
    int64_t replica, n_within, unit, n;
};

static struct cluster_sizes cluster_sizes(const struct layout_spec *layout, int64_t per_node)
{
    struct cluster_sizes sizes = {.replica = layout->tp * layout->sp * layout->pp};
    sizes.n_within = per_node / sizes.replica;
    sizes.unit = sizes.replica / gcd(sizes.replica, per_node) * per_node;
    assert(sizes.unit > 0);
    int64_t before = per_node / sizes.unit; /* of the units, those that are within a node */
    sizes.n = sizes.n_within + (MOST_GPUS / sizes.unit > before ? MOST_GPUS / sizes.unit - before : 0);
    return sizes;
}

static int64_t cluster_size(const struct cluster_sizes *sizes, int64_t index)
{
    int64_t first = sizes->n_within * sizes->replica == sizes->unit ? 1 : 0;
    return index < sizes->n_within ? sizes->replica * (index + 1) : sizes->unit * (first + index - sizes->n_within + 1);
}

/* The same degrees on a cluster of another size, dp what is left. */
static enum probe_state probe_cluster(struct layout_run *run, int64_t gpus, struct sp_arena *arena)
{
    static const struct sp_option_count none = {.is_given = false};
    struct probe *probe = &run->probe;
    struct request request = *run->request;
    struct question *question = sp_arena_alloc(arena, sizeof(*question));
    request.gpus = (struct sp_option_count){.is_given = true, .value = gpus};
    request.nodes = request.dp = none;
    probe->err = (struct sp_error){.kind = SP_ERROR_NONE};
    if (!question_resolve(&request, arena, question, &probe->err)) {
        return PROBE_REFUSED;
    }
    probe->base = question;
    return probe_at(probe, 0); /* of kind LIMIT_GPUS: nothing else changes */
}

/* What was met on the way to the smallest cluster. */
struct cluster_walk {
    bool has_legal;
    struct sp_error refusal; /* the first */
    struct estimate *misfit; /* of the largest cluster that is too small, or NULL */
    struct estimate misfits; /* its place */
};

static bool cluster_fits(struct layout_run *run, struct cluster_walk *walk, int64_t gpus)
{
    struct sp_arena_mark mark = sp_arena_mark(run->probe.scratch);
    enum probe_state state = probe_cluster(run, gpus, run->probe.scratch);
    sp_arena_rewind(run->probe.scratch, mark);
    walk->has_legal = walk->has_legal || state != PROBE_REFUSED;
    if (state == PROBE_REFUSED && walk->refusal.kind == SP_ERROR_NONE) {
        walk->refusal = run->probe.err;
    }
    if (state == PROBE_TOO_LARGE) {
        walk->misfits = run->probe.estimate;
        walk->misfit = &walk->misfits;
    }
    return state == PROBE_FITS;
}

/* One size after the other, as rules refuse some between others; far out by doubling, then bisected. -1: none. */
static int64_t first_cluster(struct layout_run *run, struct cluster_walk *walk, const struct cluster_sizes *sizes)
{
    enum { EVERY = 96 };
    int64_t index = 0;
    int64_t before = -1;
    while (index < sizes->n && !cluster_fits(run, walk, cluster_size(sizes, index))) {
        before = index;
        index = index < EVERY ? index + 1 : 2 * index;
    }
    if (index >= sizes->n) {
        return -1;
    }
    while (index - before > 1) {
        int64_t middle = before + (index - before) / 2;
        if (cluster_fits(run, walk, cluster_size(sizes, middle))) {
            index = middle;
        } else {
            before = middle;
        }
    }
    return index;
}

const char *limits_gpus_reason(struct sp_arena *arena, const struct hardware_spec *hardware, int64_t most)
{
    int64_t largest = hardware_largest_cluster(hardware);
    return largest < most
               ? sp_format(arena, "nothing fits on up to %lld GPUs, and more need a network: add --network NAME",
                           (long long)largest)
               : sp_format(arena, "nothing fits on up to %lld GPUs", (long long)most);
}

static bool limit_gpus(struct layout_run *run, struct limit *limit, struct sp_error *err)
{
    if (!run->has_seq) {
        limit->reason = "needs --seq";
        return true;
    }
    struct cluster_walk *walk = sp_arena_alloc(run->arena, sizeof(*walk));
    const struct cluster_sizes sizes = cluster_sizes(&run->base.layout, (int64_t)run->base.hardware.node.gpus.value);
    run->probe.kind = LIMIT_GPUS;
    int64_t index = first_cluster(run, walk, &sizes);
    if (!walk->has_legal) {
        return refuse(run, limit, &walk->refusal, err);
    }
    if (index >= 0) {
        *limit = (struct limit){.is_found = true, .value = cluster_size(&sizes, index), .unit = 1};
        (void)probe_cluster(run, limit->value, run->arena);
        limit_keep(limit, &run->probe, run->arena);
    } else {
        limit->reason = limits_gpus_reason(run->arena, &run->base.hardware, MOST_GPUS);
    }
    if (walk->misfit != NULL) {
        limit_bind(limit, walk->misfit, NULL);
    } else {
        limit->binding = "gpus: tp x sp x pp";
    }
    return true;
}

/* By an option, or by an answer that did not work it out itself. */
static bool has_given_batch(const struct question *question)
{
    static const char prefix[] = "global batch ";
    for (size_t i = 0; i < question->assumed.count; i++) {
        if (strncmp(question->assumed.items[i], prefix, strlen(prefix)) == 0) {
            return false;
        }
    }
    return true;
}

bool limits_of_layout(const struct request *request, struct sp_arena *arena, struct limits *limits,
                      struct sp_error *err)
{
    *limits = (struct limits){.is_batch_assumed = true};
    struct layout_run *run = sp_arena_alloc(arena, sizeof(*run));
    run->request = request;
    run->arena = arena;
    if (!limits_batch_is_count(request, err) || !open_run(run, err) || !check_degrees(&run->base.layout, err)) {
        return false;
    }
    run->is_batch_given = has_given_batch(&run->base);
    limits->is_batch_assumed = !run->is_batch_given;
    run->probe.base = &run->base;
    run->probe.is_batch_given = run->is_batch_given;
    run->probe.scratch = sp_arena_open();
    bool is_good = limit_length(run, &limits->items[LIMIT_SEQ], err) &&
                   limit_micro_batch(run, &limits->items[LIMIT_MICRO_BATCH], err) &&
                   limit_gpus(run, &limits->items[LIMIT_GPUS], err);
    sp_arena_close(run->probe.scratch);
    return is_good;
}
