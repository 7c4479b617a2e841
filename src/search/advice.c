/* When nothing fits: which change would. Each is tried by a search. */
#include "search/probe.h"

#include <math.h>
#include <string.h>

enum { MOST_AXES = 6, MOST_HALVINGS = 4, LENGTH_STEPS = 3, MOST_DOUBLINGS = 4, CLUSTER_STEPS = 2 };
static const double GIB = 0x1p30;

struct advice_run {
    const struct plan_question *asked;
    const struct plan *plan; /* in which nothing fits */
    struct sp_arena *arena;
    struct sp_texts *changes;
    int64_t budget;            /* layouts that may still be considered */
    bool is_cut;               /* it did not suffice for all changes */
    struct layout_spec layout; /* what the last search that found something found; lists in it are gone */
    int64_t gpus;
    const char *found; /* as text */
};

/* "tp 4 sp 8 zigzag pp 2 dp 1, megatron, 71.2 GiB" */
static void keep_found(struct advice_run *run, const struct plan_layout *found)
{
    const struct layout_spec *layout = &found->layout;
    run->layout = *layout;
    run->gpus = found->gpus;
    run->found = sp_format(run->arena, "tp %lld sp %lld %s pp %lld dp %lld, %s, %.1f GiB", (long long)layout->tp,
                           (long long)layout->sp, method_names[layout->method], (long long)layout->pp,
                           (long long)layout->dp, framework_names[layout->framework], found->peak_bytes / GIB);
}

/* In memory of its own: spaces of many GPUs are large. A value that no layout can have (a cluster that is no whole nodes,
 * a batch that is no multiple) does not help. */
static bool try_value(struct advice_run *run, struct plan_question *question, bool *fits, struct sp_error *err)
{
    static const int64_t per_grid = 20000; /* layouts that are dropped in the time that it takes to place one grid */
    struct sp_error own = {.kind = SP_ERROR_NONE};
    *fits = false;
    if (run->budget <= 0) {
        run->is_cut = true;
        return true;
    }
    struct sp_arena *scratch = sp_arena_open();
    struct plan plan = {0};
    question->effort = PLAN_ANY;
    question->most_considered = run->budget;
    question->n_top = question->n_kept = 1;
    question->progress = NULL; /* of the one search that the user asked for */
    bool is_good = plan_search(question, scratch, &plan, &own);
    *fits = is_good && plan.n_layouts > 0;
    if (*fits) {
        keep_found(run, &plan.layouts[0]);
    }
    run->budget = plan.is_cut ? 0 : run->budget - plan.considered - per_grid * plan.n_grids;
    run->is_cut = run->is_cut || plan.is_cut;
    sp_arena_close(scratch);
    if (!is_good && own.kind != SP_ERROR_USAGE) {
        *err = own;
        return false;
    }
    return true;
}

/* Settings of the request but those of `path`, and that one set anew. */
static void change_setting(const struct advice_run *run, struct plan_question *question, const char *path,
                           const char *value)
{
    const struct sp_texts *old = &run->asked->request.set;
    question->request.set = (struct sp_texts){.arena = run->arena};
    for (size_t i = 0; i < old->count; i++) {
        if (strncmp(old->items[i], path, strlen(path)) != 0 || old->items[i][strlen(path)] != '=') {
            sp_texts_add(&question->request.set, "%s", old->items[i]);
        }
    }
    sp_texts_add(&question->request.set, "%s=%s", path, value);
}

static bool has_setting(const struct advice_run *run, const char *path)
{
    const struct sp_texts *set = &run->asked->request.set;
    for (size_t i = 0; i < set->count; i++) {
        if (strncmp(set->items[i], path, strlen(path)) == 0 && set->items[i][strlen(path)] == '=') {
            return true;
        }
    }
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
    RESTRICTION("--order", RESTRICTS_ORDER, axes.n_orders),
    RESTRICTION("--max-memory", RESTRICTS_FIGURE, max_memory_bytes),
    RESTRICTION("--headroom", RESTRICTS_FIGURE, headroom_bytes),
    RESTRICTION("--headroom", RESTRICTS_FIGURE, headroom_frac),
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

/* Sets of estimate are joined by commas, in a plan by "+". */
static const char *offload_text(struct sp_arena *arena, const struct layout_spec *layout)
{
    char *text = sp_strdup(arena, layout_offload_text(arena, layout));
    for (char *at = text; *at != '\0'; at++) {
        if (*at == ',') {
            *at = '+';
        }
    }
    return text;
}

/* What of the found layout the opened axis decided: "--zero 3". */
static const char *opened_text(const struct advice_run *run, const struct restriction *restriction)
{
    const struct layout_spec *layout = &run->layout;
    if (restriction->offset == offsetof(struct plan_question, axes.zeros)) {
        return sp_format(run->arena, "--zero %d", layout->zero);
    }
    if (restriction->offset == offsetof(struct plan_question, axes.offloads)) {
        return sp_format(run->arena, "--offload %s", offload_text(run->arena, layout));
    }
    if (restriction->kind == RESTRICTS_RECOMPUTE) {
        static const char *const names[] = {"none", "selective", "full", "block:"};
        bool is_block = layout->recompute == RECOMPUTE_BLOCK;
        const char *layers = is_block ? sp_format(run->arena, "%lld", (long long)layout->recompute_layers) : "";
        return sp_format(run->arena, "--recompute %s%s", names[layout->recompute], layers);
    }
    bool is_set = restriction->kind == RESTRICTS_ORDER && has_setting(run, "layout.order");
    return sp_format(run->arena, "without %s", is_set ? "--set layout.order" : restriction->option);
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
            sp_texts_add(run->changes, "%s fits: %s", opened_text(run, &restrictions[i]), run->found);
        }
    }
    return true;
}

/* ---- time ------------------------------------------------------------------------------------------------------- */

/* Of a node and a GPU that the question allows. */
static double allowed_bytes(const struct plan_question *asked, double capacity_bytes)
{
    double kept = fmax(asked->headroom_bytes, asked->headroom_frac * capacity_bytes);
    double allowed = capacity_bytes - kept;
    return asked->max_memory_bytes > 0 ? fmin(asked->max_memory_bytes, allowed) : allowed;
}

/* Rounded up, as --deadline takes it. */
static const char *deadline_text(struct sp_arena *arena, double time_s)
{
    static const double hour_s = 3600;
    static const double day_s = 86400;
    static const double tenths = 10;
    if (time_s >= 2 * day_s) {
        return sp_format(arena, "%.1fd", (floor(time_s / day_s * tenths) + 1) / tenths);
    }
    return time_s >= hour_s ? sp_format(arena, "%.1fh", (floor(time_s / hour_s * tenths) + 1) / tenths)
                            : sp_format(arena, "%.0fs", floor(time_s) + 1);
}

/* Where memory suffices the nearest miss is the fastest that fits: what it reaches can be asked for. */
static void advise_time(struct advice_run *run, const struct question *miss, const struct estimate *estimate)
{
    static const double permille = 1000;
    static const double parts = 10; /* of a percent in one part in a thousand */
    const struct plan_question *asked = run->asked;
    struct sp_texts options = {.arena = run->arena};
    double reached = floor(step_time_at_mfu(miss, 1.0) / estimate->step_time_s * permille) / parts;
    if (asked->min_mfu_frac > 0 && estimate->step_time_s > step_time_at_mfu(miss, asked->min_mfu_frac)) {
        sp_texts_add(&options, "--min-mfu %.1f%%", reached);
    }
    double steps = (double)miss->run.run_tokens / ((double)miss->run.global_batch * (double)miss->run.seq);
    if (asked->deadline_s > 0 && estimate->step_time_s * steps > asked->deadline_s) {
        sp_texts_add(&options, "--deadline %s", deadline_text(run->arena, estimate->step_time_s * steps));
    }
    keep_found(run, &run->plan->nearest_miss);
    if (options.count > 0 && reached > 0) {
        sp_texts_add(run->changes, "%s is what the fastest that fits reaches: %s",
                     sp_join(run->arena, (const char *const *)options.items, options.count, " "), run->found);
    }
}

/* ---- the batch -------------------------------------------------------------------------------------------------- */

/* Where many layouts were dropped because the batch does not divide: the next one that divides over all GPUs. */
static bool advise_batch(struct advice_run *run, struct sp_error *err)
{
    enum { FIRST_REASONS = 3 };
    bool is_reason = false;
    for (int i = 0; i < run->plan->n_rejections && i < FIRST_REASONS; i++) {
        is_reason = is_reason || strcmp(run->plan->rejections[i].reason, "batch_divides") == 0;
    }
    struct plan_question question = *run->asked;
    int64_t gpus = question.request.gpus.value;
    if (!is_reason || question.request.global_batch == NULL || gpus <= 0 || run->plan->global_batch % gpus == 0) {
        return true;
    }
    bool fits = false;
    int64_t batch = (run->plan->global_batch / gpus + 1) * gpus;
    question.request.global_batch = sp_format(run->arena, "%lld", (long long)batch);
    if (!try_value(run, &question, &fits, err)) {
        return false;
    }
    if (fits) {
        sp_texts_add(run->changes, "--global-batch %lld fits, %lld divides over few ranks: %s", (long long)batch,
                     (long long)run->plan->global_batch, run->found);
    }
    return true;
}

/* ---- the optimizer's moments ------------------------------------------------------------------------------------ */

static bool advise_moments(struct advice_run *run, struct sp_error *err)
{
    static const char path[] = "run.moment_dtype";
    struct plan_question question = *run->asked;
    bool fits = false;
    if (sp_texts_has(&run->asked->request.set, "run.moment_dtype=bf16")) {
        return true;
    }
    change_setting(run, &question, path, "bf16");
    if (!try_value(run, &question, &fits, err)) {
        return false;
    }
    if (fits) {
        sp_texts_add(run->changes, "--set %s=bf16 fits: %s", path, run->found);
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

/* From a sixteenth on doubled as long as it fits (a search that finds something soon ends), then bisected towards what does
 * not, in lengths that every layout of the cluster can cut. */
static bool advise_length(struct advice_run *run, struct sp_error *err)
{
    int64_t gpus = run->asked->request.gpus.value;
    struct layout_spec widest = {.tp = 1, .sp = gpus > 0 ? gpus : 1, .precision = DTYPE_FP8};
    int64_t unit = limit_lengths(&widest, 1).unit;
    int64_t above = run->asked->request.seq.value / unit; /* does not fit */
    int64_t below = above >> MOST_HALVINGS > 0 ? above >> MOST_HALVINGS : 1;
    bool fits = false;
    if (above <= 1) {
        return true;
    }
    if (!try_length(run, below * unit, &fits, err)) {
        return false;
    }
    if (!fits) {
        return true;
    }
    const char *best = run->found;
    while (fits && 2 * below < above) {
        if (!try_length(run, 2 * below * unit, &fits, err)) {
            return false;
        }
        best = fits ? run->found : best;
        above = fits ? above : 2 * below;
        below = fits ? 2 * below : below;
    }
    for (int i = 0; i < LENGTH_STEPS && above - below > 1; i++) {
        int64_t middle = below + (above - below) / 2;
        if (!try_length(run, middle * unit, &fits, err)) {
            return false;
        }
        best = fits ? run->found : best;
        below = fits ? middle : below;
        above = fits ? above : middle;
    }
    sp_texts_add(run->changes, "--seq %s fits: %s", sp_tokens_print(run->arena, below * unit), best);
    return true;
}

/* ---- the cluster ------------------------------------------------------------------------------------------------ */

static bool try_cluster(struct advice_run *run, int64_t gpus, bool *fits, struct sp_error *err)
{
    struct plan_question question = *run->asked;
    int64_t own = question.request.gpus.value;
    bool is_part = question.max_gpus > 0 && !question.is_of_max_gpus && own > gpus;
    question.request.gpus = (struct sp_option_count){.is_given = true, .value = is_part ? own : gpus};
    question.max_gpus = is_part ? gpus : 0;
    question.objective = PLAN_THROUGHPUT; /* smaller ones were tried */
    return try_value(run, &question, fits, err);
}

/* In the options that gave the cluster. */
static const char *cluster_text(const struct advice_run *run, int64_t gpus, int64_t per_node)
{
    const struct plan_question *asked = run->asked;
    if (asked->is_of_max_gpus || (asked->max_gpus > 0 && gpus <= asked->request.gpus.value)) {
        return sp_format(run->arena, "--max-gpus %lld", (long long)gpus);
    }
    const char *size = asked->is_of_nodes && gpus % per_node == 0
                           ? sp_format(run->arena, "--nodes %lld", (long long)(gpus / per_node))
                           : sp_format(run->arena, "--gpus %lld", (long long)gpus);
    return asked->max_gpus > 0 ? sp_format(run->arena, "%s --max-gpus %lld", size, (long long)gpus) : size;
}

/* Doubled until it fits, then in quarters of the last size that does not. */
static bool advise_cluster(struct advice_run *run, struct sp_error *err)
{
    const struct plan_question *asked = run->asked;
    int64_t gpus = asked->max_gpus > 0 ? asked->max_gpus : asked->request.gpus.value;
    int64_t per_node = 0;
    if (!space_node_size(asked, run->arena, &per_node, err)) {
        return false;
    }
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
    const char *best = run->found;
    int64_t most = run->gpus;
    int64_t low = parts; /* quarters of `below` */
    int64_t high = 2 * parts;
    for (int i = 0; i < CLUSTER_STEPS && below % parts == 0; i++) {
        int64_t middle = (low + high) / 2;
        if (!try_cluster(run, below / parts * middle, &fits, err)) {
            return false;
        }
        best = fits ? run->found : best;
        most = fits ? run->gpus : most;
        low = fits ? low : middle;
        high = fits ? middle : high;
    }
    sp_texts_add(run->changes, "%s fits: %s", cluster_text(run, most, per_node), best);
    return true;
}

/* ---- another machine -------------------------------------------------------------------------------------------- */

/* The degrees, the method and the framework of the nearest miss alone. */
static void pin_family(const struct advice_run *run, struct plan_question *question)
{
    struct layout_spec *layout = sp_arena_alloc(run->arena, sizeof(*layout));
    struct plan_axes *axes = &question->axes;
    *layout = run->plan->nearest_miss.layout;
    const struct {
        struct plan_counts *counts;
        const int64_t *value;
    } degrees[] = {{&axes->tp, &layout->tp}, {&axes->sp, &layout->sp}, {&axes->pp, &layout->pp},
                   {&axes->dp, &layout->dp}, {&axes->ep, &layout->ep}, {&axes->etp, &layout->etp}};
    for (size_t i = 0; i < SP_COUNT_OF(degrees); i++) {
        *degrees[i].counts = (struct plan_counts){.n = 1, .values = degrees[i].value};
    }
    if (layout->method == METHOD_USP) {
        axes->sp_ulysses = (struct plan_counts){.n = 1, .values = &layout->sp_ulysses};
    }
    axes->methods = 1U << (unsigned)layout->method;
    axes->frameworks = 1U << (unsigned)layout->framework;
    int64_t gpus = run->plan->nearest_miss.gpus;
    question->request.gpus = (struct sp_option_count){.is_given = true, .value = gpus};
    question->request.nodes.is_given = false;
    question->max_gpus = 0;
}

/* The shipped machine whose GPU has the least memory from `bytes` on, of those after `before` in that order; or NULL. */
static const char *next_hardware(const struct advice_run *run, double bytes, const struct sp_texts *tried,
                                 struct gpu_spec *gpu)
{
    struct sp_texts names = {.arena = run->arena};
    const char *best = NULL;
    data_names(run->arena, "hardware", &names);
    for (size_t i = 0; i < names.count; i++) {
        struct hardware_spec *hardware = sp_arena_alloc(run->arena, sizeof(*hardware));
        struct sp_error ignored = {0};
        if (sp_texts_has(tried, names.items[i]) ||
            !hardware_read(run->arena, names.items[i], NULL, hardware, &ignored)) {
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

/* Searched with the other machine as a whole: its host memory, its nodes and its speed count too. */
static void advise_hardware(struct advice_run *run, double bytes, struct sp_texts *changes)
{
    enum { MOST_MACHINES = 4 };
    struct sp_texts tried = {.arena = run->arena};
    struct gpu_spec *gpu = sp_arena_alloc(run->arena, sizeof(*gpu));
    bool fits = false;
    for (int i = 0; i < MOST_MACHINES && !fits; i++) {
        struct plan_question question = *run->asked;
        struct sp_error ignored = {0};
        const char *name = next_hardware(run, bytes, &tried, gpu);
        if (name == NULL) {
            return;
        }
        sp_texts_add(&tried, "%s", name);
        question.request.hardware = name;
        pin_family(run, &question);
        fits = try_value(run, &question, &fits, &ignored) && fits; /* one that lacks a figure is no help */
        if (fits) {
            bool is_of_nodes = run->asked->is_of_nodes;
            const char *gpus = sp_format(run->arena, " --gpus %lld in place of --nodes", (long long)run->gpus);
            sp_texts_add(changes, "GPUs of %.1f GiB, such as %s (--hardware %s%s), hold the nearest miss: %s",
                         gpu->hbm_capacity.value / GIB, gpu->title, name, is_of_nodes ? gpus : "", run->found);
        }
    }
}

/* More memory of the host where that alone is missing; else of the GPU, unless --set would take it away again. */
static bool advise_machine(struct advice_run *run, const struct question *miss, const struct estimate *estimate,
                           struct sp_texts *changes, struct sp_error *err)
{
    static const double giga = 1e9;
    double capacity_bytes = miss->hardware.gpu.hbm_capacity.value;
    struct plan_question question = *run->asked;
    bool fits = false;
    if (estimate->peak_bytes > allowed_bytes(run->asked, capacity_bytes)) {
        if (estimate->peak_bytes > capacity_bytes && !has_setting(run, "gpu.hbm_capacity")) {
            advise_hardware(run, estimate->peak_bytes, changes);
        }
        return true;
    }
    if (estimate->host_bytes <= estimate->host_capacity_bytes) {
        return true;
    }
    const char *size = sp_format(run->arena, "%.0fGB", estimate->host_bytes / giga + 1);
    change_setting(run, &question, "node.host_memory", size);
    pin_family(run, &question);
    if (!try_value(run, &question, &fits, err)) {
        return false;
    }
    if (fits) {
        sp_texts_add(changes, "--set node.host_memory=%s holds the nearest miss: a node's %.0f GB are too few for %s",
                     size, estimate->host_capacity_bytes / giga, run->found);
    }
    return true;
}

/* ---- all of them ------------------------------------------------------------------------------------------------ */

/* What the nearest miss lacks: time, or a machine with more memory, which is told last. */
static bool advise_miss(struct advice_run *run, struct sp_texts *machines, struct sp_error *err)
{
    if (!run->plan->has_nearest_miss) {
        return true;
    }
    struct question *miss = sp_arena_alloc(run->arena, sizeof(*miss));
    struct estimate *estimate = sp_arena_alloc(run->arena, sizeof(*estimate));
    if (!plan_answer(run->asked, &run->plan->nearest_miss, run->arena, miss, estimate, err)) {
        return false;
    }
    bool is_of_time = run->asked->min_mfu_frac > 0 || run->asked->deadline_s > 0;
    double allowed = allowed_bytes(run->asked, miss->hardware.gpu.hbm_capacity.value);
    if (is_of_time && estimate->peak_bytes <= allowed && estimate->host_bytes <= estimate->host_capacity_bytes) {
        advise_time(run, miss, estimate);
        return true;
    }
    return advise_machine(run, miss, estimate, machines, err);
}

/* The nearest miss is of the hardware that is asked about. */
static bool needs_network(const struct advice_run *run)
{
    const struct plan_layout *miss = &run->plan->nearest_miss;
    return run->plan->has_nearest_miss && hardware_largest_cluster(&miss->base->hardware) <= miss->gpus;
}

static void tell_rest(struct advice_run *run, size_t n_before)
{
    bool is_none = run->changes->count == n_before;
    if (needs_network(run)) {
        sp_texts_add(run->changes, "more GPUs than these need a network between nodes: --network NAME was not tried");
    }
    if (run->is_cut) {
        sp_texts_add(run->changes, "%s",
                     is_none ? "no change that was tried helps; not all were tried, which would take many times as long"
                             : "other changes: not all were tried, which would take many times as long");
    } else if (is_none) {
        sp_texts_add(run->changes,
                     "no change of these helps: one restriction less, moments in bf16, a sixteenth of the "
                     "sequence%s, a GPU with more memory",
                     needs_network(run) ? "" : ", 16 times the GPUs");
    }
}

bool plan_advice(const struct plan_question *question, const struct plan *plan, struct sp_arena *arena,
                 struct sp_texts *changes, struct sp_error *err)
{
    static const int64_t least_budget = 500000000; /* some seconds */
    static const int64_t most_searches = 4;        /* as large as the first */
    if (plan->n_layouts > 0) {
        return true;
    }
    int64_t budget = most_searches * plan->considered;
    struct advice_run run = {.asked = question,
                             .plan = plan,
                             .arena = arena,
                             .changes = changes,
                             .budget = budget > least_budget ? budget : least_budget};
    size_t n_before = changes->count;
    struct sp_texts machines = {.arena = arena};
    if (!advise_miss(&run, &machines, err) || !advise_batch(&run, err) || !advise_axes(&run, err) ||
        !advise_moments(&run, err) || !advise_length(&run, err) || !advise_cluster(&run, err)) {
        return false;
    }
    for (size_t i = 0; i < machines.count; i++) {
        sp_texts_add(changes, "%s", machines.items[i]);
    }
    tell_rest(&run, n_before);
    return true;
}
