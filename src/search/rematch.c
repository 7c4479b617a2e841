/* A space that was searched, searched again on a machine with one figure scaled, for what ranks before a layout that is
 * known (docs/limits.md, "sensitivity"). What the first search found of each rank leaves most of it out. */
#include "search/search_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A cluster size, and what is known of its ranks on the machine of the last call. */
struct ground {
    const struct searched *searched;
    struct rank_bound *rank_bounds;
};
struct rematch {
    const struct plan_question *asked;
    int n;
    struct ground *grounds;
    int64_t n_ranks; /* that all calls have priced */
    bool has_last;
    enum sensitivity_figure last_figure;
    double last_factor;
    struct sp_arena *scratch; /* of one call */
    struct crew crew;
};

static const struct rank_bound nothing = {.fitting_s = INFINITY, .any_s = INFINITY};

struct rank_bound *rank_bounds_open(const struct units *units, struct sp_arena *arena)
{
    struct rank_bound *bounds = sp_arena_array(arena, (size_t)units->n_ranks + 1, sizeof(*bounds));
    for (int64_t i = 0; i < units->n_ranks; i++) {
        bounds[i] = nothing;
    }
    return bounds;
}

void searched_add(const struct searched **all, const struct search *search, const struct units *units,
                  struct sp_arena *arena)
{
    struct searched *one = sp_arena_alloc(arena, sizeof(*one));
    *one = (struct searched){.space = search->space,
                             .units = *units,
                             .grids = *search->grids,
                             .rank_bounds = search->rank_bounds,
                             .next = *all};
    *all = one;
}

struct rematch *rematch_open(const struct plan_question *asked, const struct plan *plan, struct sp_arena *arena)
{
    if (plan->searched == NULL) {
        return NULL;
    }
    struct rematch *rematch = sp_arena_alloc(arena, sizeof(*rematch));
    rematch->asked = asked;
    rematch->scratch = sp_arena_open();
    int n = 0;
    for (const struct searched *one = plan->searched; one != NULL; one = one->next) {
        n++;
    }
    rematch->grounds = sp_arena_array(arena, (size_t)n, sizeof(*rematch->grounds));
    for (const struct searched *one = plan->searched; one != NULL; one = one->next) {
        rematch->grounds[rematch->n++] = (struct ground){one, rank_bounds_open(&one->units, arena)};
    }
    crew_open(&rematch->crew, asked);
    return rematch;
}

void rematch_close(struct rematch *rematch)
{
    if (rematch != NULL) {
        crew_close(&rematch->crew);
        sp_arena_close(rematch->scratch);
    }
}

/* The least share of its time on a machine that a step takes on another, by their factors of the figure. Every time is a
 * sum, a maximum or a minimum of times that go with the figure or do not: none falls by more than the figure's own share,
 * and none where the machine gets worse. */
static double least_ratio(enum sensitivity_figure figure, double from, double to)
{
    switch (figure) {
    case SENSITIVITY_HBM_CAPACITY:
        return 1;
    case SENSITIVITY_LATENCY:
        return fmin(1, to / from);
    case SENSITIVITY_HBM_BANDWIDTH:
    case SENSITIVITY_INTRA:
    case SENSITIVITY_NETWORK:
    case SENSITIVITY_FLOP_RATE:
    case N_SENSITIVITIES:
        break;
    }
    return fmin(1, from / to);
}

/* What is known of a rank on the machine of a call: from today's, and from the machine of the call before. */
static float carried(const struct rematch *rematch, const struct rematch_call *call, struct rank_bound today,
                     float last_s)
{
    /* double-ring on its ideal links takes up to 2e-4 longer where the inner ones get faster; and floats round */
    static const double rounding = 1 - 1e-3;
    bool frees_memory = call->figure == SENSITIVITY_HBM_CAPACITY && call->factor > 1;
    double least = (double)(frees_memory ? today.any_s : today.fitting_s) * least_ratio(call->figure, 1, call->factor);
    if (rematch->has_last && rematch->last_figure == call->figure && call->figure != SENSITIVITY_HBM_CAPACITY) {
        least = fmax(least, (double)last_s * least_ratio(call->figure, rematch->last_factor, call->factor));
    }
    return (float)(least * rounding);
}

bool rank_is_out(const struct search *search, struct rank_bound bound)
{
    double time_s = (double)bound.fitting_s;
    if (isinf(time_s) || time_s > search->constraints.most_time_s) {
        return true;
    }
    const struct families *families = &search->families;
    if (families->n == 0) {
        return false;
    }
    const struct plan_layout *known = &families->items[0];
    double objective = plan_objective_of(search->space->asked, space_any_base(search->space),
                                         (struct step_bound){.step_time_s = time_s, .peak_bytes = 0});
    return objective > known->objective || (objective >= known->objective && time_s > known->step_time_s);
}

/* The space with its figures scaled. */
static struct space scaled_space(struct rematch *rematch, const struct searched *searched,
                                 const struct rematch_call *call, const struct plan_question *asked)
{
    struct space space = *searched->space;
    space.asked = asked;
    space.arena = rematch->scratch;
    for (int f = 0; f < N_FRAMEWORKS; f++) {
        if (space.bases[f] != NULL) {
            struct question *base = sp_arena_alloc(rematch->scratch, sizeof(*base));
            *base = *space.bases[f];
            sensitivity_scale(&base->hardware, call->figure, call->factor);
            space.bases[f] = base;
        }
    }
    return space;
}

/* What is left of the units, the most promising first; the bounds of all ranks are carried to the machine of the call. */
static int units_left(const struct rematch *rematch, const struct rematch_call *call, const struct search *search,
                      const struct searched *searched, struct unit *left)
{
    int n = 0;
    for (int i = 0; i < searched->units.n; i++) {
        const struct unit *unit = &searched->units.items[i];
        struct rank_bound least = nothing;
        for (int64_t r = unit->first_rank; r < unit->first_rank + unit->n_ranks; r++) {
            struct rank_bound *bound = &search->rank_bounds[r];
            bound->fitting_s = carried(rematch, call, searched->rank_bounds[r], bound->fitting_s);
            least.fitting_s = fminf(least.fitting_s, bound->fitting_s);
        }
        if (!rank_is_out(search, least)) {
            left[n++] = *unit;
        }
    }
    return n;
}

static void run_units(struct rematch *rematch, struct search *search, const struct unit *units, int n)
{
    struct findings *findings = sp_arena_array(rematch->scratch, LARGEST_WAVE, sizeof(*findings));
    int size = FIRST_WAVE;
    for (int first = 0; first < n; first += size, size = size < LARGEST_WAVE ? 2 * size : size) {
        int n_wave = n - first < size ? n - first : size;
        memset(findings, 0, (size_t)n_wave * sizeof(*findings));
        crew_search(&rematch->crew, search, &units[first], n_wave, findings);
        for (int i = 0; i < n_wave; i++) {
            rematch->n_ranks += findings[i].counts.n_ranks;
            for (int j = 0; j < findings[i].n_families; j++) {
                families_add(&search->families, &findings[i].families[j]);
            }
            sp_arena_close(findings[i].arena);
        }
    }
}

static void search_size(struct rematch *rematch, struct ground *ground, const struct rematch_call *call,
                        const struct plan_question *asked, struct families *families)
{
    const struct searched *searched = ground->searched;
    struct space space = scaled_space(rematch, searched, call, asked);
    struct search search = {.space = &space,
                            .grids = &searched->grids,
                            .constraints = constraints_of(&space, RELAXED_NOTHING),
                            .families = *families,
                            .prunes = true,
                            .rank_bounds = ground->rank_bounds,
                            .is_rematch = true};
    if (call->below_s > 0) {
        search.constraints.most_time_s = fmin(search.constraints.most_time_s, nextafter(call->below_s, 0));
    }
    struct unit *left = sp_arena_array(rematch->scratch, (size_t)searched->units.n + 1, sizeof(*left));
    int n = units_left(rematch, call, &search, searched, left);
    crew_rebase(&rematch->crew);
    run_units(rematch, &search, left, n);
    *families = search.families;
}

int64_t rematch_ranks(const struct rematch *rematch)
{
    return rematch->n_ranks;
}

/* The base as it was: a layout's own is gone with the call. */
static const struct question *own_base(const struct rematch *rematch, const struct plan_layout *layout)
{
    int i = 0;
    while (i < rematch->n - 1 && rematch->grounds[i].searched->space->gpus != layout->gpus) {
        i++;
    }
    return rematch->grounds[i].searched->space->bases[layout->layout.framework];
}

bool rematch_find(struct rematch *rematch, const struct rematch_call *call, struct plan_layout *best)
{
    struct sp_arena_mark mark = sp_arena_mark(rematch->scratch);
    struct plan_question asked = *rematch->asked;
    struct families families;
    asked.effort = PLAN_RANKED;
    asked.progress = NULL;
    asked.objective = call->below_s > 0 ? PLAN_MEMORY : asked.objective;
    families_init(&families, rematch->scratch, 1);
    if (call->known != NULL && !(call->below_s > 0)) {
        families_add(&families, call->known);
    }
    for (int i = 0; i < rematch->n; i++) {
        search_size(rematch, &rematch->grounds[i], call, &asked, &families);
    }
    rematch->has_last = true;
    rematch->last_figure = call->figure;
    rematch->last_factor = call->factor;
    bool is_known = families.n > 0 && call->known != NULL && families.items[0].gpus == call->known->gpus &&
                    families.items[0].index == call->known->index;
    bool is_found = families.n > 0 && !is_known;
    if (is_found) {
        *best = families.items[0];
        best->base = own_base(rematch, best);
        best->is_on_front = best->is_ranked = false;
    }
    sp_arena_rewind(rematch->scratch, mark);
    return is_found;
}
