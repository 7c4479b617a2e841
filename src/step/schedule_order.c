/* Pipeline schedules as orders of work: what every rank runs, one action after the other. schedule.c has the closed forms of
 * the same schedules. p stages, m micro-batches, v chunks a rank, i the stage. */
#include "step/schedule_order.h"

#include <assert.h>

/* Without stages there is nothing to fill: every schedule is the same then. */
static bool is_one_stage(const struct layout_spec *layout)
{
    return layout->pp == 1;
}

bool schedule_puts_off_weights(const struct layout_spec *layout)
{
    bool is_split =
        layout->schedule == SCHEDULE_ZB_H1 || layout->schedule == SCHEDULE_ZBV || layout->schedule == SCHEDULE_DUALPIPE;
    return is_split && !is_one_stage(layout);
}

int schedule_chunks(const struct layout_spec *layout)
{
    if (is_one_stage(layout)) {
        return 1;
    }
    return layout->schedule == SCHEDULE_DUALPIPE ? 2 : (int)layout->vpp;
}

/* ---- from chunk to chunk ---------------------------------------------------------------------------------------- */

/* The V and the second direction of dualpipe run up the ranks with chunk 1. */
static bool runs_up(const struct layout_spec *layout, int chunk)
{
    return chunk == 1 && (layout->schedule == SCHEDULE_ZBV || layout->schedule == SCHEDULE_DUALPIPE);
}

/* The neighbour of (stage, chunk) `by` places (1 or -1) along the model. */
static bool neighbour(const struct layout_spec *layout, int64_t stage, int chunk, int by, struct schedule_place *place)
{
    int64_t to = runs_up(layout, chunk) ? stage - by : stage + by;
    *place = (struct schedule_place){to, chunk};
    if (to >= 0 && to < layout->pp) {
        return true;
    }
    int to_chunk = chunk + by;
    if (layout->schedule == SCHEDULE_DUALPIPE || to_chunk < 0 || to_chunk >= schedule_chunks(layout)) {
        return false;
    }
    /* the V turns on its last rank; interleaved chunks begin again at the other end */
    int64_t begins = by > 0 ? 0 : layout->pp - 1;
    *place = (struct schedule_place){layout->schedule == SCHEDULE_ZBV ? stage : begins, to_chunk};
    return true;
}

bool schedule_next(const struct layout_spec *layout, int64_t stage, int chunk, int64_t *next_stage, int *next_chunk)
{
    assert(stage >= 0 && stage < layout->pp && chunk >= 0 && chunk < schedule_chunks(layout));
    struct schedule_place place;
    bool has = neighbour(layout, stage, chunk, 1, &place);
    *next_stage = place.stage;
    *next_chunk = place.chunk;
    return has;
}

bool schedule_previous(const struct layout_spec *layout, int64_t stage, int chunk, int64_t *previous_stage,
                       int *previous_chunk)
{
    assert(stage >= 0 && stage < layout->pp && chunk >= 0 && chunk < schedule_chunks(layout));
    struct schedule_place place;
    bool has = neighbour(layout, stage, chunk, -1, &place);
    *previous_stage = place.stage;
    *previous_chunk = place.chunk;
    return has;
}

/* ---- whole backwards -------------------------------------------------------------------------------------------- */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void add(struct schedule_order *order, enum action_kind kind, int chunk, int64_t micro_batch)
{
    order->actions[order->n_actions++] =
        (struct schedule_action){.kind = kind, .chunk = chunk, .micro_batch = micro_batch};
}

static void one_stage(int64_t m, struct schedule_order *order)
{
    for (int64_t j = 0; j < m; j++) {
        add(order, ACTION_FORWARD, 0, j);
        add(order, ACTION_BACKWARD, 0, j);
    }
}

static void gpipe(int64_t m, struct schedule_order *order)
{
    for (int64_t j = 0; j < m; j++) {
        add(order, ACTION_FORWARD, 0, j);
    }
    for (int64_t j = 0; j < m; j++) {
        add(order, ACTION_BACKWARD, 0, j);
    }
}

/* `warm` forwards ahead, then a forward and a backward in turn; what is put off, if anything is, runs `late` backwards after its
 * own: 1F1B and ZB-H1 (Qi et al., Zero Bubble Pipeline Parallelism, fig. 2). With warm + 1 + late the same on all stages, so is
 * the number of micro-batches held until their weight gradients. */
struct turns {
    int64_t warm;
    bool puts_off;
    int64_t late;
};
static void in_turn(const struct turns *turns, int64_t m, struct schedule_order *order)
{
    for (int64_t j = 0; j < least(turns->warm, m); j++) {
        add(order, ACTION_FORWARD, 0, j);
    }
    for (int64_t j = 0; j < m; j++) {
        if (j + turns->warm < m) {
            add(order, ACTION_FORWARD, 0, j + turns->warm);
        }
        add(order, ACTION_BACKWARD, 0, j);
        if (turns->puts_off && j >= turns->late) {
            add(order, ACTION_WEIGHTS, 0, j - turns->late);
        }
    }
    for (int64_t j = m - least(turns->late, m); turns->puts_off && j < m; j++) {
        add(order, ACTION_WEIGHTS, 0, j);
    }
}

/* Megatron-LM, core/pipeline_parallel/schedules.py, forward_backward_pipelining_with_interleaving: p micro-batches through one
 * chunk, then the same ones through the next; k counts forwards or backwards of chunks. */
static void add_interleaved(const struct layout_spec *layout, enum action_kind kind, int64_t k,
                            struct schedule_order *order)
{
    int64_t p = layout->pp;
    int64_t v = layout->vpp;
    int64_t chunk = k / p % v;
    add(order, kind, (int)(kind == ACTION_FORWARD ? chunk : v - 1 - chunk), k / (p * v) * p + k % p);
}

static void interleaved(const struct layout_spec *layout, int64_t m, int64_t i, struct schedule_order *order)
{
    assert(m % layout->pp == 0); /* a rule */
    int64_t n = m * layout->vpp;
    int64_t warm = least(2 * (layout->pp - i - 1) + (layout->vpp - 1) * layout->pp, n);
    for (int64_t k = 0; k < warm; k++) {
        add_interleaved(layout, ACTION_FORWARD, k, order);
    }
    for (int64_t k = 0; k < n; k++) {
        if (k + warm < n) {
            add_interleaved(layout, ACTION_FORWARD, k + warm, order);
        }
        add_interleaved(layout, ACTION_BACKWARD, k, order);
    }
}

/* ---- all -------------------------------------------------------------------------------------------------------- */

static void write_order(const struct layout_spec *layout, int64_t m, int64_t i, struct schedule_order *order)
{
    if (is_one_stage(layout)) {
        one_stage(m, order);
        return;
    }
    struct turns turns = {.warm = layout->pp - i - 1};
    switch (layout->schedule) {
    case SCHEDULE_GPIPE:
        gpipe(m, order);
        return;
    case SCHEDULE_ZB_H1:
        turns.puts_off = true;
        turns.late = i;
        in_turn(&turns, m, order);
        return;
    case SCHEDULE_1F1B:
        in_turn(&turns, m, order);
        return;
    case SCHEDULE_INTERLEAVED:
        interleaved(layout, m, i, order);
        return;
    case SCHEDULE_ZBV:
        schedule_order_v(layout, m, i, order);
        return;
    case SCHEDULE_DUALPIPE:
        schedule_order_dual(layout, m, i, order);
        return;
    case N_SCHEDULES:
        break;
    }
    assert(!"schedule");
}

void schedule_orders(const struct layout_spec *layout, int64_t micro_batches, struct sp_arena *arena,
                     struct schedule_order *orders)
{
    assert(micro_batches >= 1);
    /* a micro-batch passes a rank once for each of its chunks, but for dualpipe, where it takes one of the two */
    int64_t passes = layout->schedule == SCHEDULE_DUALPIPE ? 1 : schedule_chunks(layout);
    int64_t n = micro_batches * passes * (schedule_puts_off_weights(layout) ? 3 : 2);
    for (int64_t i = 0; i < layout->pp; i++) {
        orders[i] = (struct schedule_order){
            .actions = (struct schedule_action *)sp_arena_array(arena, (size_t)n, sizeof(struct schedule_action))};
        write_order(layout, micro_batches, i, &orders[i]);
        assert(orders[i].n_actions == n);
    }
}
