/* What the space is cut into: units (a method in a framework on tp x sp ranks) and, under each, grids (pp, dp, ep, etp with
 * their placements). */
#include "search/search_internal.h"

#include <string.h>

/* ---- grids ------------------------------------------------------------------------------------------------------- */

static void append(struct sp_arena *arena, struct grids *grids, const struct grid *grid)
{
    enum { FIRST_CAPACITY = 256 };
    if (grids->n == grids->capacity) {
        int capacity = grids->capacity > 0 ? 2 * grids->capacity : FIRST_CAPACITY;
        struct grid *items = sp_arena_array(arena, (size_t)capacity, sizeof(*items));
        if (grids->n > 0) {
            memcpy(items, grids->items, (size_t)grids->n * sizeof(*items));
        }
        grids->items = items;
        grids->capacity = capacity;
    }
    grids->items[grids->n++] = *grid;
}

/* Any layout of these degrees. */
static struct layout_spec grid_layout(const struct space *space, int64_t tp, int64_t sp, const struct grid *grid)
{
    struct layout_spec layout = space_any_base(space)->layout;
    layout.tp = tp;
    layout.sp = sp;
    layout.pp = grid->pp;
    layout.dp = grid->dp;
    layout.ep = grid->ep;
    layout.etp = grid->etp;
    return layout;
}

static void place_grid(const struct space *space, int64_t tp, int64_t sp, struct grid *grid)
{
    enum axis orders[MAX_ORDERS][N_AXES];
    struct layout_spec layout = grid_layout(space, tp, sp, grid);
    grid->n_orders = 1;
    grid->orders = NULL;
    if (!layout_splits_experts(&layout)) {
        return; /* a rule refuses it; its one order is the base's */
    }
    grid->n_orders = space_orders(space, &layout, orders);
    enum axis *kept = sp_arena_array(space->arena, (size_t)grid->n_orders * N_AXES, sizeof(*kept));
    memcpy(kept, orders, (size_t)grid->n_orders * sizeof(orders[0]));
    grid->orders = kept;
}

static void add_experts(const struct space *space, int64_t tp, int64_t sp, struct grid *grid, struct grids *grids)
{
    struct values eps;
    struct values etps;
    space_expert_degrees(space, &eps, &etps);
    for (int e = 0; e < eps.n; e++) {
        for (int t = 0; t < etps.n; t++) {
            grid->ep = eps.items[e];
            grid->etp = etps.items[t];
            place_grid(space, tp, sp, grid);
            append(space->arena, grids, grid);
        }
    }
}

/* A value that does not multiply to the cluster with those before it. The example is of one that divides no cluster, if
 * there is one. */
static void refuse(const struct space *space, struct units *units, const char *axis, int64_t value)
{
    bool is_foreign = space->gpus % value != 0;
    bool is_example = units->n_refused++ == 0 || (is_foreign && !units->is_refused_foreign);
    units->is_refused_foreign = units->is_refused_foreign || is_foreign;
    if (is_example && is_foreign) {
        units->refused = sp_format(space->arena, "%s %lld does not divide %lld gpus", axis, (long long)value,
                                   (long long)space->gpus);
    } else if (is_example) {
        units->refused = sp_format(space->arena, "%s %lld leaves no whole number for the other degrees of %lld gpus",
                                   axis, (long long)value, (long long)space->gpus);
    }
}

/* pp and the dp that is left; a dp that is asked for and not left makes no grid. */
static void add_stages(const struct space *space, int64_t tp, int64_t sp, struct grids *grids, struct units *units)
{
    int64_t left = space->gpus / tp / sp;
    const struct plan_axes *axes = &space->asked->axes;
    struct values pps;
    space_stages(space, left, &pps);
    for (int p = 0; p < pps.n; p++) {
        struct grid grid = {.pp = pps.items[p]};
        if (left % grid.pp != 0) {
            refuse(space, units, "pp", grid.pp);
            continue;
        }
        grid.dp = left / grid.pp;
        struct values dps;
        space_degrees(&axes->dp, grid.dp, &dps);
        for (int d = 0; d < dps.n; d++) {
            if (dps.items[d] == grid.dp) {
                add_experts(space, tp, sp, &grid, grids);
                break;
            }
            if (axes->dp.n > 0) {
                refuse(space, units, "dp", dps.items[d]);
            }
        }
    }
}

/* ---- units ------------------------------------------------------------------------------------------------------- */

static void append_unit(struct sp_arena *arena, struct units *units, const struct unit *unit)
{
    enum { FIRST_CAPACITY = 256 };
    if (units->n == units->capacity) {
        int capacity = units->capacity > 0 ? 2 * units->capacity : FIRST_CAPACITY;
        struct unit *items = sp_arena_array(arena, (size_t)capacity, sizeof(*items));
        if (units->n > 0) {
            memcpy(items, units->items, (size_t)units->n * sizeof(*items));
        }
        units->items = items;
        units->capacity = capacity;
    }
    units->items[units->n++] = *unit;
}

static void size_unit(const struct space *space, const struct grids *grids, struct unit *unit)
{
    unit->size = 0;
    unit->n_ranks = 0;
    for (int g = 0; g < unit->n_grids; g++) {
        const struct grid *grid = &grids->items[unit->first_grid + g];
        struct values batches;
        space_micro_batches(space, grid->dp, &batches);
        unit->size += space_grid_size(space, unit->framework, grid);
        unit->n_ranks += batches.n;
    }
}

static void add_methods(const struct space *space, struct unit *unit, struct units *units, const struct grids *grids)
{
    for (int f = 0; f < N_FRAMEWORKS; f++) {
        for (int m = 0; m < N_METHODS; m++) {
            struct values parts;
            unit->framework = (enum framework_id)f;
            unit->method = (enum method_id)m;
            if (space->bases[f] == NULL || !space_has_method(space, unit->framework, unit->method, unit->sp)) {
                continue;
            }
            space_parts(space, unit->method, unit->sp, &parts);
            for (int i = 0; i < parts.n; i++) {
                unit->part = parts.items[i];
                size_unit(space, grids, unit);
                append_unit(space->arena, units, unit);
            }
        }
    }
}

void units_open(const struct space *space, uint64_t first_index, struct units *units, struct grids *grids)
{
    const struct plan_axes *axes = &space->asked->axes;
    struct values tps;
    struct values sps;
    *units = (struct units){0};
    *grids = (struct grids){0};
    space_degrees(&axes->tp, space->gpus, &tps);
    for (int t = 0; t < tps.n; t++) {
        struct unit unit = {.tp = tps.items[t]};
        if (space->gpus % unit.tp != 0) {
            refuse(space, units, "tp", unit.tp);
            continue;
        }
        space_degrees(&axes->sp, space->gpus / unit.tp, &sps);
        for (int s = 0; s < sps.n; s++) {
            unit.sp = sps.items[s];
            if (space->gpus / unit.tp % unit.sp != 0) {
                refuse(space, units, "sp", unit.sp);
            } else {
                unit.first_grid = grids->n;
                add_stages(space, unit.tp, unit.sp, grids, units);
                unit.n_grids = grids->n - unit.first_grid;
                add_methods(space, &unit, units, grids);
            }
        }
    }
    uint64_t first = first_index;
    for (int i = 0; i < units->n; i++) {
        units->items[i].first_index = first;
        units->items[i].first_rank = units->n_ranks;
        first += (uint64_t)units->items[i].size;
        units->n_ranks += units->items[i].n_ranks;
    }
}

/* ---- values that no layout has ------------------------------------------------------------------------------------ */

void idle_values_open(const struct plan_axes *axes, struct sp_arena *arena, struct idle_values *idle)
{
    const struct {
        const char *axis;
        const struct plan_counts *given;
    } lists[] = {{"tp", &axes->tp}, {"sp", &axes->sp}, {"pp", &axes->pp}, {"dp", &axes->dp}};
    size_t n = 0;
    for (size_t i = 0; i < SP_COUNT_OF(lists); i++) {
        n += (size_t)lists[i].given->n;
    }
    *idle = (struct idle_values){.items = sp_arena_array(arena, n + 1, sizeof(*idle->items))};
    for (size_t i = 0; i < SP_COUNT_OF(lists); i++) {
        for (int j = 0; j < lists[i].given->n; j++) {
            idle->items[idle->n++] =
                (struct idle_value){.axis = lists[i].axis, .value = lists[i].given->values[j], .is_used = false};
        }
    }
}

static bool unit_has(const struct unit *unit, const struct grids *grids, const struct idle_value *value)
{
    for (int g = unit->first_grid; g < unit->first_grid + unit->n_grids; g++) {
        int64_t of = strcmp(value->axis, "tp") == 0   ? unit->tp
                     : strcmp(value->axis, "sp") == 0 ? unit->sp
                     : strcmp(value->axis, "pp") == 0 ? grids->items[g].pp
                                                      : grids->items[g].dp;
        if (of == value->value) {
            return true;
        }
    }
    return false;
}

void idle_values_use(struct idle_values *idle, const struct units *units, const struct grids *grids)
{
    for (int i = 0; i < idle->n; i++) {
        for (int u = 0; u < units->n && !idle->items[i].is_used; u++) {
            idle->items[i].is_used = unit_has(&units->items[u], grids, &idle->items[i]);
        }
    }
}

const char *idle_values_text(const struct idle_values *idle, struct sp_arena *arena)
{
    struct sp_texts texts = {.arena = arena};
    for (int i = 0; i < idle->n; i++) {
        if (!idle->items[i].is_used) {
            sp_texts_add(&texts, "--%s %lld", idle->items[i].axis, (long long)idle->items[i].value);
        }
    }
    return texts.count > 0 ? sp_join(arena, texts.items, texts.count, ", ") : NULL;
}
