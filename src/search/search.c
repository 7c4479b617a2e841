/* The search: units in waves, each wave knowing what the ones before it found (docs/search.md). Which units make a wave
 * does not depend on the number of threads, nor does anything that is found. */
#include "search/search_internal.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now_s(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- objective and constraints ----------------------------------------------------------------------------------- */

double plan_objective_of(const struct plan_question *asked, const struct question *base, struct step_bound figures)
{
    static const double seconds_per_hour = 3600;
    double gpus = (double)base->run.gpus;
    switch (asked->objective) {
    case PLAN_MEMORY:
        return figures.peak_bytes;
    case PLAN_GPUS:
        return gpus;
    case PLAN_COST: {
        double tokens = (double)base->run.global_batch * (double)base->run.seq;
        return figures.step_time_s / seconds_per_hour * gpus * base->hardware.gpu.price.value / tokens;
    }
    case PLAN_THROUGHPUT:
    case N_PLAN_OBJECTIVES:
        break;
    }
    return figures.step_time_s;
}

double plan_pace_of(const struct space *space, double step_time_s)
{
    bool is_one_size = space->asked->objective == PLAN_THROUGHPUT || space->asked->objective == PLAN_MEMORY;
    return is_one_size ? step_time_s : step_time_s * (double)space->gpus;
}

/* The largest step time that keeps --min-mfu and --deadline: both fall with it. MFU times step time is the same for all
 * layouts: it is taken from any one's estimate. */
static void limit_time(const struct space *space, struct constraints *constraints)
{
    const struct plan_question *asked = space->asked;
    const struct question *base = space_any_base(space);
    if (asked->min_mfu_frac > 0) {
        constraints->most_time_s = step_time_at_mfu(base, asked->min_mfu_frac);
        constraints->most_time_reason = "min_mfu";
    }
    double steps = (double)base->run.run_tokens / ((double)base->run.global_batch * (double)base->run.seq);
    if (asked->deadline_s > 0 && steps > 0 && asked->deadline_s / steps < constraints->most_time_s) {
        constraints->most_time_s = asked->deadline_s / steps;
        constraints->most_time_reason = "deadline";
    }
}

static void limit_bytes(struct constraints *constraints, double bytes, const char *reason)
{
    if (bytes < constraints->most_bytes) {
        constraints->most_bytes = bytes;
        constraints->most_bytes_reason = reason;
    }
}

struct constraints constraints_of(const struct space *space, enum relaxed relaxed)
{
    const struct plan_question *asked = space->asked;
    const struct question *base = space_any_base(space);
    double capacity = base->hardware.gpu.hbm_capacity.value;
    struct constraints constraints = {.capacity_bytes = capacity,
                                      .most_bytes = capacity,
                                      .most_bytes_reason = "memory",
                                      .host_bytes = base->hardware.node.host_memory.value,
                                      .most_time_s = INFINITY,
                                      .most_time_reason = "deadline"};
    if (asked->max_memory_bytes > 0) {
        limit_bytes(&constraints, asked->max_memory_bytes, "max_memory");
    }
    if (asked->headroom_bytes > 0 || asked->headroom_frac > 0) {
        double kept = fmax(asked->headroom_bytes, asked->headroom_frac * capacity);
        limit_bytes(&constraints, capacity - kept, "headroom");
    }
    if (relaxed == RELAXED_NOTHING) {
        limit_time(space, &constraints);
    }
    if (relaxed == RELAXED_MEMORY) {
        constraints.most_bytes = constraints.host_bytes = INFINITY;
    }
    return constraints;
}

/* ---- waves ------------------------------------------------------------------------------------------------------- */

/* One cluster size being searched. */
struct sweep_of_units {
    struct search search;
    struct sp_arena *arena; /* of what is kept */
    struct plan *plan;
    enum relaxed relaxed;
    uint64_t first_index; /* of the layouts of this cluster size */
    struct idle_values idle;
    struct crew crew;
};

/* What one unit found joins the rest. Units are merged in the order of their wave. */
static void merge(struct sweep_of_units *sweep, const struct findings *findings)
{
    struct plan *plan = sweep->plan;
    const struct plan *counts = &findings->counts;
    plan->evaluated += counts->evaluated;
    plan->n_ranks += counts->n_ranks;
    for (int i = 0; i < counts->n_rejections; i++) {
        rejections_add(plan, sweep->arena, counts->rejections[i].reason, counts->rejections[i].count,
                       counts->rejections[i].example);
    }
    bool has_front = sweep->search.space->asked->effort == PLAN_WHOLE;
    for (int i = 0; has_front && i < findings->front.n; i++) {
        front_add(&sweep->search.front, &findings->front.items[i]);
    }
    for (int i = 0; i < findings->n_families; i++) {
        families_add(&sweep->search.families, &findings->families[i]);
    }
}

static void run_wave(struct sweep_of_units *sweep, const struct unit *units, int n)
{
    struct findings *findings = calloc((size_t)n, sizeof(*findings));
    if (findings == NULL) {
        abort();
    }
    crew_search(&sweep->crew, &sweep->search, units, n, findings);
    for (int i = 0; i < n; i++) {
        merge(sweep, &findings[i]);
        sp_arena_close(findings[i].arena);
    }
    free(findings);
}

static int64_t size_of(const struct unit *units, int n)
{
    int64_t size = 0;
    for (int i = 0; i < n; i++) {
        size += units[i].size;
    }
    return size;
}

/* Even to sort the units costs: a space far beyond what may be considered is not begun. */
static bool is_too_large(struct sweep_of_units *sweep, int64_t n_layouts)
{
    static const int64_t most_times = 64;
    int64_t most = sweep->search.space->asked->most_considered;
    bool is_cut = most > 0 && n_layouts / most_times > most;
    sweep->plan->is_cut = sweep->plan->is_cut || is_cut;
    return is_cut;
}

/* Whether so many more are not to be considered. */
static bool is_spent(struct sweep_of_units *sweep, int64_t n_layouts)
{
    int64_t most = sweep->search.space->asked->most_considered;
    bool is_cut = most > 0 && sweep->plan->considered + n_layouts > most;
    sweep->plan->is_cut = sweep->plan->is_cut || is_cut;
    return is_cut;
}

static void run_waves(struct sweep_of_units *sweep, struct units *units)
{
    const struct plan_question *asked = sweep->search.space->asked;
    int64_t total = size_of(units->items, units->n);
    int64_t done = 0;
    if (is_too_large(sweep, total)) {
        return;
    }
    crew_sort(&sweep->crew, &sweep->search, units);
    sweep->plan->considered += units->n_refused;
    rejections_add(sweep->plan, sweep->arena, "gpus_product", units->n_refused, units->refused);
    int size = FIRST_WAVE;
    for (int first = 0; first < units->n; first += size, size = size < LARGEST_WAVE ? 2 * size : size) {
        int n = units->n - first < size ? units->n - first : size;
        int64_t n_layouts = size_of(&units->items[first], n);
        if (is_spent(sweep, n_layouts)) {
            break;
        }
        run_wave(sweep, &units->items[first], n);
        done += n_layouts;
        sweep->plan->considered += n_layouts;
        if (asked->progress != NULL) {
            asked->progress(asked->user, done, total);
        }
        sweep->plan->is_interrupted = asked->is_stopped != NULL && asked->is_stopped();
        bool is_enough = asked->effort == PLAN_ANY && sweep->search.families.n > 0;
        if (is_enough || sweep->plan->is_interrupted || first + size >= units->n) {
            break;
        }
    }
}

/* ---- cluster sizes ----------------------------------------------------------------------------------------------- */

static bool has_price(const struct space *space, struct sp_error *err)
{
    const struct gpu_spec *gpu = &space_any_base(space)->hardware.gpu;
    if (space->asked->objective != PLAN_COST || gpu->price.value > 0) {
        return true;
    }
    if (gpu->price.kind != SP_FIGURE_NONE) {
        return sp_fail(err, SP_ERROR_USAGE, "--objective cost: gpu.price is 0 and must be above 0");
    }
    return sp_fail(err, SP_ERROR_USAGE, "--objective cost: %s has no price; add --set gpu.price=2.50/h", gpu->name);
}

/* What a whole plan leaves, to be searched on other machines. */
static bool is_kept(const struct sweep_of_units *sweep)
{
    return sweep->relaxed == RELAXED_NOTHING && sweep->search.space->asked->effort == PLAN_WHOLE;
}

/* Adds what one cluster size has to the plan. */
static bool search_size(const struct plan_question *asked, int64_t gpus, struct sweep_of_units *sweep,
                        struct sp_error *err)
{
    struct space *space = sp_arena_alloc(sweep->arena, sizeof(*space));
    struct units units;
    struct grids grids;
    if (!space_open(asked, gpus, sweep->arena, space, err) || !has_price(space, err)) {
        return false;
    }
    units_open(space, sweep->first_index, &units, &grids);
    idle_values_use(&sweep->idle, &units, &grids);
    sweep->plan->n_grids += grids.n;
    for (int i = 0; i < units.n; i++) {
        sweep->first_index += (uint64_t)units.items[i].size;
    }
    sweep->search.space = space;
    sweep->search.grids = &grids;
    sweep->search.constraints = constraints_of(space, sweep->relaxed);
    sweep->search.prunes = !asked->is_exhaustive;
    sweep->search.rank_bounds = is_kept(sweep) ? rank_bounds_open(&units, sweep->arena) : NULL;
    crew_rebase(&sweep->crew);
    run_waves(sweep, &units);
    if (sweep->search.rank_bounds != NULL) {
        searched_add(&sweep->plan->searched, &sweep->search, &units, sweep->arena);
    }
    sweep->plan->global_batch = space->global_batch;
    sweep->plan->is_batch_assumed = space->is_batch_assumed;
    return true;
}

/* 1, 2, 4 ... of a node's GPUs, then 1, 2, 3, 4, 6, 8, 12 ... nodes, and the largest. */
enum { MAX_SIZES = 160 };
static int cluster_sizes(int64_t per_node, int64_t largest, int64_t sizes[MAX_SIZES])
{
    int n = 0;
    for (int64_t gpus = 1; gpus < per_node && gpus < largest; gpus++) {
        if (per_node % gpus == 0 && n < MAX_SIZES - 1) {
            sizes[n++] = gpus;
        }
    }
    for (int64_t nodes = 1; nodes * per_node < largest && n < MAX_SIZES - 2; nodes *= 2) {
        sizes[n++] = nodes * per_node;
        if (nodes > 1 && nodes / 2 * 3 * per_node < largest) {
            sizes[n++] = nodes / 2 * 3 * per_node;
        }
    }
    sizes[n++] = largest;
    return n;
}

/* Searches the cluster, or all sizes up to it where the objective asks; the smallest that has anything is the answer of
 * objective gpus. */
static bool search_sizes(const struct plan_question *asked, struct sweep_of_units *sweep, struct sp_error *err)
{
    int64_t per_node = 0;
    if (!space_node_size(asked, sweep->arena, &per_node, err)) {
        return false;
    }
    int64_t largest = asked->request.gpus.is_given ? asked->request.gpus.value : asked->request.nodes.value * per_node;
    largest = asked->max_gpus > 0 && (asked->max_gpus < largest || largest == 0) ? asked->max_gpus : largest;
    int64_t sizes[MAX_SIZES] = {largest};
    int n = 1;
    if (asked->objective == PLAN_GPUS || asked->objective == PLAN_COST) {
        n = cluster_sizes(per_node, largest, sizes);
    }
    for (int i = 0; i < n; i++) {
        if (!search_size(asked, sizes[i], sweep, err)) {
            return false;
        }
        bool is_answered = (asked->objective == PLAN_GPUS || asked->effort == PLAN_ANY) && sweep->search.families.n > 0;
        if (is_answered || sweep->plan->is_interrupted) {
            break;
        }
    }
    return true;
}

static bool run_search(const struct plan_question *asked, enum relaxed relaxed, struct sp_arena *arena,
                       struct plan *plan, struct sp_error *err)
{
    struct sweep_of_units *sweep = sp_arena_alloc(arena, sizeof(*sweep));
    *plan = (struct plan){0};
    sweep->arena = arena;
    sweep->plan = plan;
    sweep->relaxed = relaxed;
    sweep->search.front.arena = arena;
    families_init(&sweep->search.families, arena, asked->n_top > asked->n_kept ? asked->n_top : asked->n_kept);
    crew_open(&sweep->crew, asked);
    idle_values_open(&asked->axes, arena, &sweep->idle);
    bool is_good = search_sizes(asked, sweep, err);
    crew_close(&sweep->crew);
    if (is_good) {
        ranking_finish(&sweep->search.families, &sweep->search.front, asked->n_top, arena, plan);
        rejections_sort(plan);
        bool has_all_sizes = asked->objective != PLAN_GPUS; /* that one ends with the first that has anything */
        plan->idle_values = has_all_sizes && !plan->is_interrupted ? idle_values_text(&sweep->idle, arena) : NULL;
    }
    return is_good;
}

/* The layout that comes nearest: without the limits of time where memory is not what is missing, else the smallest peak. */
static bool find_nearest_miss(const struct plan_question *question, struct sp_arena *arena, struct plan *plan,
                              struct sp_error *err)
{
    struct plan_question asked = *question;
    struct plan near;
    asked.n_top = 1;
    asked.progress = NULL;
    bool has_time_limit = asked.min_mfu_frac > 0 || asked.deadline_s > 0;
    asked.objective = PLAN_THROUGHPUT;
    if (has_time_limit && !run_search(&asked, RELAXED_TIME, arena, &near, err)) {
        return false;
    }
    if (!has_time_limit || near.n_layouts == 0) {
        asked.objective = PLAN_MEMORY;
        if (!run_search(&asked, RELAXED_MEMORY, arena, &near, err)) {
            return false;
        }
    }
    plan->has_nearest_miss = near.n_layouts > 0;
    if (plan->has_nearest_miss) {
        plan->nearest_miss = near.kept[0];
    }
    return true;
}

bool plan_search(const struct plan_question *question, struct sp_arena *arena, struct plan *plan, struct sp_error *err)
{
    double start = now_s();
    if (!run_search(question, RELAXED_NOTHING, arena, plan, err) ||
        (plan->n_layouts == 0 && !plan->is_interrupted && question->effort == PLAN_WHOLE &&
         !find_nearest_miss(question, arena, plan, err))) {
        return false;
    }
    plan->elapsed_s = now_s() - start;
    return true;
}
