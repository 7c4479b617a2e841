/* One unit of the space: its bounds and its layouts. */
#include "search/unit_walk.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* ---- layouts ----------------------------------------------------------------------------------------------------- */

/* Whether all layouts with these figures or larger ones rank below that one. */
static bool is_worse(const struct walk *walk, struct step_bound bound, const struct plan_layout *than)
{
    const struct space *space = walk->search->space;
    double objective = plan_objective_of(space->asked, walk->worker->base, bound);
    return objective > than->objective || (objective >= than->objective && bound.step_time_s > than->step_time_s);
}

/* Whether no layout with these figures or larger ones can matter: something is as good in both, and its family has or the
 * best families are better. */
static bool is_useless(const struct walk *walk, struct step_bound bound)
{
    const struct search *search = walk->search;
    bool has_front = search->space->asked->effort == PLAN_WHOLE;
    double pace_s = plan_pace_of(search->space, bound.step_time_s);
    if (!search->prunes) {
        return false;
    }
    if (has_front && !(front_dominates(&search->front, pace_s, bound.peak_bytes) ||
                       front_dominates(&walk->findings->front, pace_s, bound.peak_bytes))) {
        return false;
    }
    const struct families *families = &search->families;
    return (walk->has_best && is_worse(walk, bound, &walk->best)) ||
           (families->n == families->capacity && is_worse(walk, bound, &families->items[families->n - 1]));
}

static void set_order(const struct walk *walk, int order, struct layout_spec *layout)
{
    if (walk->grid->orders != NULL) {
        memcpy(layout->order, walk->grid->orders + (ptrdiff_t)order * N_AXES, sizeof(layout->order));
    }
}

static void found(struct walk *walk, const struct layout_spec *layout, const struct step_bound *figures, uint64_t index)
{
    struct plan_layout one = {.layout = *layout,
                              .base = walk->worker->base,
                              .gpus = walk->search->space->gpus,
                              .step_time_s = figures->step_time_s,
                              .peak_bytes = figures->peak_bytes,
                              .pace_s = plan_pace_of(walk->search->space, figures->step_time_s),
                              .objective = plan_objective_of(walk->search->space->asked, walk->worker->base, *figures),
                              .index = index};
    if (walk->search->space->asked->effort == PLAN_WHOLE) {
        front_add(&walk->findings->front, &one);
    }
    if (!walk->has_best || plan_layout_compare(&one, &walk->best) < 0) {
        walk->best = one;
        walk->has_best = true;
    }
}

/* A step time that what fits of the rank may have, and nothing else of it goes below. */
static void note_time(struct walk *walk, double time_s)
{
    walk->fitting_s = fmin(walk->fitting_s, time_s);
}

/* A schedule that moves work into bubbles takes it from them: on a faster machine less of it is there, and the whole may
 * even take longer. Its bound, which has no bubbles, does not. */
static bool fills_bubbles(enum schedule_id schedule)
{
    return schedule == SCHEDULE_ZB_H1 || schedule == SCHEDULE_ZBV || schedule == SCHEDULE_DUALPIPE;
}

/* One layout in the placements that are left. */
static void price(struct walk *walk, struct layout_spec *layout, uint64_t index)
{
    struct step_pricer *pricer = walk->worker->pricer;
    const struct constraints *constraints = &walk->search->constraints;
    struct step_memory memory = step_pricer_memory(pricer, layout);
    if (memory.peak_bytes > constraints->most_bytes) {
        const char *reason =
            memory.peak_bytes > constraints->capacity_bytes ? "memory" : constraints->most_bytes_reason;
        walk_reject_bytes(walk, reason, walk->n_alive, memory.peak_bytes, false);
        return;
    }
    if (memory.host_bytes > constraints->host_bytes) {
        walk_reject_bytes(walk, "host_memory", walk->n_alive, memory.host_bytes, false);
        return;
    }
    for (int i = 0; i < walk->n_alive; i++) {
        int order = walk->alive[i];
        double time_s = step_pricer_time(pricer, i);
        note_time(walk, fills_bubbles(layout->schedule) ? step_pricer_place_bound(pricer, i) : time_s);
        if (time_s > constraints->most_time_s) {
            walk_reject_time(walk, constraints->most_time_reason, 1, time_s);
            continue;
        }
        walk->findings->counts.evaluated++;
        set_order(walk, order, layout);
        found(walk, layout, &(struct step_bound){time_s, memory.peak_bytes},
              index + (uint64_t)order * (uint64_t)walk->n_order);
    }
}

static bool is_block_legal(struct walk *walk)
{
    bool is_given = walk->search->space->asked->axes.n_recomputes > 0;
    return !is_given || walk->at.recompute.kind != RECOMPUTE_BLOCK ||
           walk_keeps_theme(walk, RULES_PIPELINE, walk->n_alive);
}

/* Counted by reject_offloads() where it is not. */
static bool is_run_offloading(const struct walk *walk)
{
    return (walk->at.offload & PLAN_OFFLOAD_ACTIVATIONS) == 0 ||
           framework_offloads_activations(&walk->worker->question.software.framework, walk->at.recompute.kind);
}

/* index: of the first of them in the first placement. */
static void over_pipelines(struct walk *walk, uint64_t index)
{
    const struct space *space = walk->search->space;
    for (int i = 0; i < walk->n_pipelines; i++) {
        const struct pipeline *pipeline = &walk->pipelines[i];
        walk->at.schedule = pipeline->schedule;
        walk->at.vpp = pipeline->vpp;
        struct layout_spec layout = space_layout(space, &walk->at);
        for (int r = 0; pipeline->is_legal && r < pipeline->n_recomputes; r++) {
            walk->at.recompute = space_recompute(space, r);
            layout.recompute = walk->at.recompute.kind;
            layout.recompute_layers = walk->at.recompute.layers;
            if (is_run_offloading(walk) && is_block_legal(walk)) {
                price(walk, &layout, index + (uint64_t)r);
            }
        }
        index += (uint64_t)pipeline->n_recomputes;
    }
}

/* A bound of everything below that decides without pricing it: `count` legal layouts. */
static bool is_decided(struct walk *walk, struct step_bound bound, int64_t count)
{
    const struct constraints *constraints = &walk->search->constraints;
    bool prunes = walk->search->prunes;
    if (prunes && bound.peak_bytes > constraints->most_bytes) {
        const char *reason = bound.peak_bytes > constraints->capacity_bytes ? "memory" : constraints->most_bytes_reason;
        walk_reject_bytes(walk, reason, count, bound.peak_bytes, true);
        return true;
    }
    if (prunes && bound.step_time_s > constraints->most_time_s) {
        walk_reject_time(walk, constraints->most_time_reason, count, bound.step_time_s);
        note_time(walk, bound.step_time_s);
        return true;
    }
    if (is_useless(walk, bound)) {
        walk_reject_time(walk, "bound", count, bound.step_time_s);
        note_time(walk, bound.step_time_s);
        return true;
    }
    return false;
}

/* ---- shardings --------------------------------------------------------------------------------------------------- */

static void search_sharding(struct walk *walk, uint64_t index)
{
    struct layout_spec layout = space_layout(walk->search->space, &walk->at);
    step_pricer_shard(walk->worker->pricer, &layout);
    double peak_bytes = step_pricer_shard_bound(walk->worker->pricer);
    struct step_bound bound = {0, peak_bytes};
    for (int i = 0; i < walk->n_alive; i++) {
        double place_s = step_pricer_place_bound(walk->worker->pricer, i);
        bound.step_time_s = i == 0 ? place_s : fmin(bound.step_time_s, place_s);
    }
    if (!is_decided(walk, bound, walk->n_alive * walk_count_run(walk))) {
        over_pipelines(walk, index);
    }
}

static void over_shardings(struct walk *walk, const struct shardings *shardings)
{
    const struct space *space = walk->search->space;
    uint64_t index = walk->index;
    for (int zero = 0; zero < N_ZERO_STAGES; zero++) {
        for (unsigned offload = 0; offload < N_PLAN_OFFLOADS; offload++) {
            if (!space_has_sharding(space, zero, offload)) {
                continue;
            }
            walk->at.zero = zero;
            walk->at.offload = offload;
            if (shardings->is_legal[zero][offload]) {
                search_sharding(walk, index);
            }
            index += (uint64_t)walk->n_pipes;
        }
    }
}

/* ---- placements, micro-batches, grids ---------------------------------------------------------------------------- */

/* Prices the placements; those that a bound leaves out are counted. `count`: legal layouts of each. The bound of the one
 * that promises most. */
static double place_all(struct walk *walk, double peak_bytes, int64_t count)
{
    static const enum axis *const none = NULL;
    const struct grid *grid = walk->grid;
    struct step_pricer *pricer = walk->worker->pricer;
    double least_s = INFINITY;
    walk->n_alive = 0;
    for (int i = 0; i < grid->n_orders; i++) {
        walk->at.order = grid->orders != NULL ? grid->orders + (ptrdiff_t)i * N_AXES : none;
        struct layout_spec layout = space_layout(walk->search->space, &walk->at);
        int place = step_pricer_place(pricer, layout.order);
        struct step_bound bound = {step_pricer_place_bound(pricer, place), peak_bytes};
        least_s = fmin(least_s, bound.step_time_s);
        if (is_decided(walk, bound, count)) {
            step_pricer_unplace(pricer);
        } else {
            walk->alive[walk->n_alive++] = i;
        }
    }
    walk->at.order = NULL;
    return least_s;
}

/* Rounded to a float that is no larger. */
static float low_float(double value)
{
    static const double rounding = 1 - 1e-6; /* a float has 24 bits */
    return (float)(value * rounding);
}

/* For a rematch: what is known of the rank at work. */
static void keep_bound(const struct walk *walk)
{
    if (walk->search->rank_bounds != NULL) {
        walk->search->rank_bounds[walk->rank] =
            (struct rank_bound){.fitting_s = low_float(walk->fitting_s), .any_s = low_float(walk->any_s)};
    }
}

/* Prices the rank at work in its placements; false when a bound leaves out all of it. count: legal layouts of each. */
static bool price_rank(struct walk *walk, int64_t count)
{
    struct layout_spec layout = space_layout(walk->search->space, &walk->at);
    walk->findings->counts.n_ranks++;
    step_pricer_rank(walk->worker->pricer, &layout);
    struct step_bound bound = step_pricer_rank_bound(walk->worker->pricer);
    walk->fitting_s = INFINITY;
    walk->any_s = bound.step_time_s;
    if (is_decided(walk, bound, walk->grid->n_orders * count)) {
        return false;
    }
    walk->any_s = fmax(walk->any_s, place_all(walk, bound.peak_bytes, count));
    return walk->n_alive > 0;
}

/* The rules first, so that what breaks one is counted under it. */
static void search_batch(struct walk *walk)
{
    int64_t n_shardings = space_shardings(walk->search->space);
    int64_t n_orders = walk->grid->n_orders;
    struct shardings shardings;
    if (!walk_keeps_theme(walk, RULES_SEQUENCE, n_orders * walk->n_order)) {
        return;
    }
    walk_check_pipelines(walk, n_orders * n_shardings);
    walk_check_shardings(walk, n_orders, &shardings);
    if (shardings.n_layouts > 0) {
        if (price_rank(walk, shardings.n_layouts)) {
            over_shardings(walk, &shardings);
        }
        keep_bound(walk);
    }
}

/* Nothing is counted, and the rules of the rank are known to be kept: its bounds first. */
static void rematch_batch(struct walk *walk)
{
    struct shardings shardings;
    if (rank_is_out(walk->search, walk->search->rank_bounds[walk->rank])) {
        return;
    }
    if (price_rank(walk, 0)) {
        walk_check_pipelines(walk, 0);
        walk_check_shardings(walk, 0, &shardings);
        over_shardings(walk, &shardings);
    }
    keep_bound(walk);
}

/* Whether a rematch has nothing to look for in its n ranks. */
static bool is_grid_out(const struct walk *walk, int n)
{
    const struct search *search = walk->search;
    bool is_out = search->is_rematch;
    for (int i = 0; i < n && is_out; i++) {
        is_out = rank_is_out(search, search->rank_bounds[walk->rank + i]);
    }
    return is_out;
}

static bool keeps_grid(struct walk *walk, int64_t size)
{
    return walk->search->is_rematch || (walk_keeps_theme(walk, RULES_EXPERTS, size) && walk_is_run(walk, size));
}

static void search_batches(struct walk *walk, const struct values *batches)
{
    const struct space *space = walk->search->space;
    walk_list_pipelines(walk);
    walk->n_pipes = space_pipelines(space, walk->at.framework, walk->at.pp);
    walk->n_order = space_shardings(space) * walk->n_pipes;
    for (int b = 0; b < batches->n; b++) {
        walk->at.micro_batch = batches->items[b];
        walk->at.recompute = (struct plan_recompute){.kind = RECOMPUTE_NONE};
        walk->at.zero = 0;
        walk->at.offload = 0;
        if (walk->search->is_rematch) {
            rematch_batch(walk);
        } else {
            search_batch(walk);
        }
        walk->rank++;
        walk->index += (uint64_t)(walk->grid->n_orders * walk->n_order);
    }
}

static void search_grid(struct walk *walk)
{
    const struct space *space = walk->search->space;
    int64_t size = space_grid_size(space, walk->at.framework, walk->grid);
    uint64_t next = walk->index + (uint64_t)size;
    struct values batches;
    walk_begin(walk);
    walk->at.pp = walk->grid->pp;
    walk->at.dp = walk->grid->dp;
    walk->at.ep = walk->grid->ep;
    walk->at.etp = walk->grid->etp;
    walk->has_best = false;
    space_micro_batches(space, walk->at.dp, &batches);
    int64_t next_rank = walk->rank + batches.n;
    if (!is_grid_out(walk, batches.n) && keeps_grid(walk, size)) {
        search_batches(walk, &batches);
    }
    walk->rank = next_rank;
    walk->index = next;
}

/* ---- a unit ------------------------------------------------------------------------------------------------------ */

static void use_base(struct walk *walk)
{
    const struct question *base = walk->search->space->bases[walk->unit->framework];
    if (walk->worker->base != base) {
        step_pricer_base(walk->worker->pricer, base);
        walk->worker->question = *base;
        walk->worker->question.arena = walk->worker->scratch;
        walk->worker->base = base;
    }
    walk_begin(walk);
}

static void keep_best(struct walk *walk)
{
    struct findings *findings = walk->findings;
    if (!walk->has_best) {
        return;
    }
    assert(findings->n_families < findings->capacity);
    findings->families[findings->n_families++] = walk->best;
}

void unit_search(const struct search *search, struct worker *worker, const struct unit *unit, struct findings *findings)
{
    struct walk walk = {.search = search, .unit = unit, .worker = worker, .findings = findings};
    use_base(&walk);
    walk.index = unit->first_index;
    walk.rank = unit->first_rank;
    if (!search->is_rematch && !walk_unit_is_legal(&walk)) {
        return;
    }
    findings->capacity = unit->n_grids;
    findings->families = sp_arena_array(findings->arena, (size_t)unit->n_grids + 1, sizeof(*findings->families));
    for (int g = 0; g < unit->n_grids; g++) {
        walk.grid = &search->grids->items[unit->first_grid + g];
        search_grid(&walk);
        keep_best(&walk);
    }
}

/* The fastest that it could be, by the first placement and micro-batch of each grid: units that promise most go first. */
void unit_bound(const struct search *search, struct worker *worker, struct unit *unit)
{
    struct findings nothing = {.arena = worker->scratch};
    struct walk walk = {.search = search, .unit = unit, .worker = worker, .findings = &nothing};
    struct sp_arena_mark mark = sp_arena_mark(worker->scratch);
    use_base(&walk);
    unit->bound_s = INFINITY;
    bool is_legal = walk_unit_is_legal(&walk) && walk_keeps_theme(&walk, RULES_SEQUENCE, 0);
    sp_arena_rewind(worker->scratch, mark);
    for (int g = 0; is_legal && g < unit->n_grids; g++) {
        const struct grid *grid = &search->grids->items[unit->first_grid + g];
        walk.at.pp = grid->pp;
        walk.at.dp = grid->dp;
        walk.at.ep = grid->ep;
        walk.at.etp = grid->etp;
        walk.at.order = grid->orders;
        struct layout_spec layout = space_layout(search->space, &walk.at);
        bool is_split = grid->orders != NULL && search->space->global_batch % grid->dp == 0 &&
                        grid->pp <= worker->question.model.n_layers && walk_keeps_theme(&walk, RULES_EXPERTS, 0) &&
                        walk_keeps_theme(&walk, RULES_PIPELINE, 0);
        if (is_split) {
            step_pricer_rank(worker->pricer, &layout);
            int place = step_pricer_place(worker->pricer, layout.order);
            unit->bound_s = fmin(unit->bound_s, step_pricer_place_bound(worker->pricer, place));
        }
    }
}
