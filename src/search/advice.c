/* When nothing fits: which change would. Each is tried by a search. */
#include "search/probe.h"

#include <string.h>

enum { MOST_AXES = 6, MOST_HALVINGS = 4, LENGTH_STEPS = 3, MOST_DOUBLINGS = 4, CLUSTER_STEPS = 2 };
static const double GIB = 0x1p30;

struct advice_run {
    const struct plan_question *asked;
    const struct plan *plan; /* in which nothing fits */
    struct sp_arena *arena;
    struct sp_texts *changes;
    struct plan_layout found; /* by the last search that found something */
};

/* "tp 4 sp 8 zigzag pp 2 dp 1, megatron, 71.2 GiB" */
static const char *found_text(const struct advice_run *run)
{
    const struct layout_spec *layout = &run->found.layout;
    return sp_format(run->arena, "tp %lld sp %lld %s pp %lld dp %lld, %s, %.1f GiB", (long long)layout->tp,
                     (long long)layout->sp, method_names[layout->method], (long long)layout->pp, (long long)layout->dp,
                     framework_names[layout->framework], run->found.peak_bytes / GIB);
}

static bool try_question(struct advice_run *run, struct plan_question *question, bool *fits, struct sp_error *err)
{
    struct plan plan;
    question->n_top = 1;
    question->progress = NULL; /* of the one search that the user asked for */
    *fits = false;
    if (!plan_search(question, run->arena, &plan, err)) {
        return false;
    }
    *fits = plan.n_layouts > 0;
    if (*fits) {
        run->found = plan.layouts[0];
    }
    return true;
}

/* A value that no layout can have (a cluster that is no whole nodes, a batch that is no multiple) does not help. */
static bool try_value(struct advice_run *run, struct plan_question *question, bool *fits, struct sp_error *err)
{
    struct sp_error own = {.kind = SP_ERROR_NONE};
    if (try_question(run, question, fits, &own)) {
        return true;
    }
    if (own.kind == SP_ERROR_USAGE) {
        return true;
    }
    *err = own;
    return false;
}

/* ---- axes and constraints --------------------------------------------------------------------------------------- */

enum restriction_kind { RESTRICTS_COUNTS, RESTRICTS_SET, RESTRICTS_RECOMPUTE, RESTRICTS_ORDER, RESTRICTS_FIGURE };

struct restriction {
    const char *option;
    enum restriction_kind kind;
    size_t offset; /* in struct plan_question; of nothing for recompute and order */
};
#define RESTRICTION(name, kind_of, member)                                                                             \
    {                                                                                                                  \
        .option = (name), .kind = (kind_of), .offset = offsetof(struct plan_question, member)                          \
    }
static const struct restriction restrictions[] = {
    /* those that cost least first */
    RESTRICTION("--micro-batch", RESTRICTS_COUNTS, axes.micro_batch),
    RESTRICTION("--recompute", RESTRICTS_RECOMPUTE, axes.n_recomputes),
    RESTRICTION("--zero", RESTRICTS_SET, axes.zeros),
    RESTRICTION("--offload", RESTRICTS_SET, axes.offloads),
    RESTRICTION("--sp", RESTRICTS_COUNTS, axes.sp),
    RESTRICTION("--tp", RESTRICTS_COUNTS, axes.tp),
    RESTRICTION("--pp", RESTRICTS_COUNTS, axes.pp),
    RESTRICTION("--dp", RESTRICTS_COUNTS, axes.dp),
    RESTRICTION("--ep", RESTRICTS_COUNTS, axes.ep),
    RESTRICTION("--etp", RESTRICTS_COUNTS, axes.etp),
    RESTRICTION("--sp-method", RESTRICTS_SET, axes.methods),
    RESTRICTION("--framework", RESTRICTS_SET, axes.frameworks),
    RESTRICTION("--sp-ulysses", RESTRICTS_COUNTS, axes.sp_ulysses),
    RESTRICTION("--sp-inner", RESTRICTS_COUNTS, axes.sp_inner),
    RESTRICTION("--schedule", RESTRICTS_SET, axes.schedules),
    RESTRICTION("--vpp", RESTRICTS_COUNTS, axes.vpp),
    RESTRICTION("layout.order", RESTRICTS_ORDER, axes.n_orders),
    RESTRICTION("the limit of memory", RESTRICTS_FIGURE, max_memory_bytes),
    RESTRICTION("the headroom in bytes", RESTRICTS_FIGURE, headroom_bytes),
    RESTRICTION("the headroom as a share", RESTRICTS_FIGURE, headroom_frac),
    RESTRICTION("the least MFU", RESTRICTS_FIGURE, min_mfu_frac),
    RESTRICTION("the deadline", RESTRICTS_FIGURE, deadline_s),
};

/* Takes it away; false: there was none. */
static bool open_restriction(const struct restriction *restriction, struct plan_question *question)
{
    void *at = (char *)question + restriction->offset;
    bool is_restricted = false;
    switch (restriction->kind) {
    case RESTRICTS_COUNTS:
        is_restricted = ((struct plan_counts *)at)->n > 0;
        *(struct plan_counts *)at = (struct plan_counts){.n = 0};
        break;
    case RESTRICTS_SET:
        is_restricted = *(unsigned *)at != 0;
        *(unsigned *)at = 0;
        break;
    case RESTRICTS_RECOMPUTE:
    case RESTRICTS_ORDER:
        is_restricted = *(int *)at > 0;
        *(int *)at = 0;
        break;
    case RESTRICTS_FIGURE:
        is_restricted = *(double *)at > 0;
        *(double *)at = 0;
        break;
    }
    return is_restricted;
}

/* What of the found layout the opened axis decided: "--zero 3". */
static const char *opened_text(const struct advice_run *run, const struct restriction *restriction)
{
    const struct layout_spec *layout = &run->found.layout;
    if (restriction->offset == offsetof(struct plan_question, axes.zeros)) {
        return sp_format(run->arena, "--zero %d", layout->zero);
    }
    if (restriction->offset == offsetof(struct plan_question, axes.offloads)) {
        return sp_format(run->arena, "--offload %s", layout_offload_text(run->arena, layout));
    }
    if (restriction->kind == RESTRICTS_RECOMPUTE) {
        static const char *const names[] = {"none", "selective", "full", "block:"};
        bool is_block = layout->recompute == RECOMPUTE_BLOCK;
        const char *layers = is_block ? sp_format(run->arena, "%lld", (long long)layout->recompute_layers) : "";
        return sp_format(run->arena, "--recompute %s%s", names[layout->recompute], layers);
    }
    return sp_format(run->arena, "without the restriction of %s", restriction->option);
}

static bool advise_axes(struct advice_run *run, struct sp_error *err)
{
    int n_tried = 0;
    for (size_t i = 0; i < SP_COUNT_OF(restrictions) && n_tried < MOST_AXES; i++) {
        struct plan_question question = *run->asked;
        bool fits = false;
        if (!open_restriction(&restrictions[i], &question)) {
            continue;
        }
        n_tried++;
        if (!try_value(run, &question, &fits, err)) {
            return false;
        }
        if (fits) {
            sp_texts_add(run->changes, "%s fits: %s", opened_text(run, &restrictions[i]), found_text(run));
        }
    }
    return true;
}

/* ---- the optimizer's moments ------------------------------------------------------------------------------------ */

static bool advise_moments(struct advice_run *run, struct sp_error *err)
{
    static const char setting[] = "run.moment_dtype=bf16";
    struct plan_question question = *run->asked;
    bool fits = false;
    question.request.set = (struct sp_texts){.arena = run->arena};
    for (size_t i = 0; i < run->asked->request.set.count; i++) {
        sp_texts_add(&question.request.set, "%s", run->asked->request.set.items[i]);
    }
    sp_texts_add(&question.request.set, "%s", setting);
    bool is_new = question.request.set.count > run->asked->request.set.count;
    if (!is_new) {
        return true;
    }
    if (!try_value(run, &question, &fits, err)) {
        return false;
    }
    if (fits) {
        sp_texts_add(run->changes, "--set %s fits: %s", setting, found_text(run));
    }
    return true;
}

/* ---- the sequence ----------------------------------------------------------------------------------------------- */

static bool try_length(struct advice_run *run, int64_t seq, bool *fits, struct sp_error *err)
{
    struct plan_question question = *run->asked;
    question.request.seq.value = seq;
    return try_value(run, &question, fits, err);
}

/* Halved until it fits, then bisected towards what does not, in lengths that every layout of the cluster can cut. */
static bool advise_length(struct advice_run *run, struct sp_error *err)
{
    int64_t gpus = run->asked->request.gpus.value;
    struct layout_spec widest = {.tp = 1, .sp = gpus > 0 ? gpus : 1, .precision = DTYPE_FP8};
    int64_t unit = limit_lengths(&widest, 1).unit;
    int64_t above = run->asked->request.seq.value / unit; /* does not fit */
    int64_t below = above;
    bool fits = false;
    for (int i = 0; i < MOST_HALVINGS && !fits && below > 1; i++) {
        above = below;
        below /= 2;
        if (!try_length(run, below * unit, &fits, err)) {
            return false;
        }
    }
    if (!fits) {
        return true;
    }
    struct plan_layout best = run->found;
    for (int i = 0; i < LENGTH_STEPS && above - below > 1; i++) {
        int64_t middle = below + (above - below) / 2;
        if (!try_length(run, middle * unit, &fits, err)) {
            return false;
        }
        best = fits ? run->found : best;
        below = fits ? middle : below;
        above = fits ? above : middle;
    }
    run->found = best;
    sp_texts_add(run->changes, "--seq %s fits: %s", sp_tokens_print(run->arena, below * unit), found_text(run));
    return true;
}

/* ---- the cluster ------------------------------------------------------------------------------------------------ */

static bool try_cluster(struct advice_run *run, int64_t gpus, bool *fits, struct sp_error *err)
{
    struct plan_question question = *run->asked;
    question.request.gpus = (struct sp_option_count){.is_given = true, .value = gpus};
    question.request.nodes.is_given = false;
    question.max_gpus = 0; /* the cluster of the request */
    return try_value(run, &question, fits, err);
}

/* Doubled until it fits, then in quarters of the last size that does not. */
static bool advise_cluster(struct advice_run *run, int64_t gpus, struct sp_error *err)
{
    static const int64_t parts = 4;
    bool fits = false;
    int64_t below = gpus;
    for (int i = 0; i < MOST_DOUBLINGS && !fits; i++) {
        below = i == 0 ? gpus : 2 * below;
        if (!try_cluster(run, 2 * below, &fits, err)) {
            return false;
        }
    }
    if (!fits) {
        return true;
    }
    struct plan_layout best = run->found;
    int64_t low = parts; /* quarters of `below` */
    int64_t high = 2 * parts;
    for (int i = 0; i < CLUSTER_STEPS && below % parts == 0; i++) {
        int64_t middle = (low + high) / 2;
        if (!try_cluster(run, below / parts * middle, &fits, err)) {
            return false;
        }
        best = fits ? run->found : best;
        low = fits ? low : middle;
        high = fits ? middle : high;
    }
    run->found = best;
    sp_texts_add(run->changes, "--gpus %lld fits: %s", (long long)best.gpus, found_text(run));
    return true;
}

/* ---- another machine -------------------------------------------------------------------------------------------- */

/* The shipped machine whose GPU has the least memory that is enough, or NULL. */
static const char *larger_hardware(struct advice_run *run, double bytes, struct gpu_spec *gpu)
{
    struct sp_texts names = {.arena = run->arena};
    const char *best = NULL;
    data_names(run->arena, "hardware", &names);
    for (size_t i = 0; i < names.count; i++) {
        struct hardware_spec *hardware = sp_arena_alloc(run->arena, sizeof(*hardware));
        struct sp_error ignored = {0};
        if (!hardware_read(run->arena, names.items[i], NULL, hardware, &ignored)) {
            continue;
        }
        double own = hardware->gpu.hbm_capacity.value;
        if (own >= bytes && (best == NULL || own < gpu->hbm_capacity.value)) {
            best = names.items[i];
            *gpu = hardware->gpu;
        }
    }
    return best;
}

static void advise_machine(struct advice_run *run, const struct question *miss, const struct estimate *estimate)
{
    run->found = run->plan->nearest_miss;
    if (estimate->host_bytes > estimate->host_capacity_bytes) {
        sp_texts_add(run->changes,
                     "--set node.host_memory=%.0fGB holds the nearest miss: a node's %.0f GB are too few for %s",
                     estimate->host_bytes / 1e9 + 1, estimate->host_capacity_bytes / 1e9, found_text(run));
    }
    if (estimate->peak_bytes <= miss->hardware.gpu.hbm_capacity.value) {
        return;
    }
    struct gpu_spec *gpu = sp_arena_alloc(run->arena, sizeof(*gpu));
    const char *name = larger_hardware(run, estimate->peak_bytes, gpu);
    if (name != NULL) {
        sp_texts_add(run->changes, "GPUs of %.1f GiB, such as %s (--hardware %s), hold the nearest miss: %s",
                     gpu->hbm_capacity.value / GIB, gpu->title, name, found_text(run));
    }
}

bool plan_advice(const struct plan_question *question, const struct plan *plan, struct sp_arena *arena,
                 struct sp_texts *changes, struct sp_error *err)
{
    struct advice_run run = {.asked = question, .plan = plan, .arena = arena, .changes = changes};
    size_t n_before = changes->count;
    if (plan->n_layouts > 0) {
        return true;
    }
    struct question *miss = sp_arena_alloc(arena, sizeof(*miss));
    struct estimate *estimate = sp_arena_alloc(arena, sizeof(*estimate));
    if (!advise_axes(&run, err) || !advise_moments(&run, err) || !advise_length(&run, err) ||
        !advise_cluster(&run, question->request.gpus.value, err)) {
        return false;
    }
    if (plan->has_nearest_miss) {
        if (!plan_answer(question, &plan->nearest_miss, arena, miss, estimate, err)) {
            return false;
        }
        advise_machine(&run, miss, estimate);
    }
    if (changes->count == n_before) {
        sp_texts_add(changes, "no change of these helps: one restriction less, moments in bf16, a sixteenth of the "
                              "sequence, 16 times the GPUs, a GPU with more memory");
    }
    return true;
}
