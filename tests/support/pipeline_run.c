#include "support/pipeline_run.h"

#include <math.h>

struct running {
    const struct layout_spec *layout;
    const struct pipeline_times *times;
    int64_t m;
    int chunks;
    double part; /* of a stage: one chunk */
    struct schedule_order *orders;
    int64_t *next;                   /* by stage: its next action */
    double *clock_s;                 /* by stage */
    double *there_s[ACTION_WEIGHTS]; /* by kind, stage, chunk, micro-batch: when its output has arrived; NaN: not yet */
    double *holds;                   /* by stage, now */
};

static double *there(const struct running *running, enum action_kind kind, int64_t stage, int chunk, int64_t j)
{
    return &running->there_s[kind][(stage * running->chunks + chunk) * running->m + j];
}

static double duration_s(const struct running *running, enum action_kind kind)
{
    const struct pipeline_times *times = running->times;
    double whole = times->input_s + (schedule_puts_off_weights(running->layout) ? 0 : times->weights_s);
    double stage_s = kind == ACTION_FORWARD ? times->forward_s : kind == ACTION_BACKWARD ? whole : times->weights_s;
    return stage_s * running->part;
}

/* When what the action needs has arrived; NaN: nobody knows yet. */
static double ready_s(const struct running *running, int64_t stage, const struct schedule_action *action)
{
    const struct layout_spec *layout = running->layout;
    int64_t from;
    int chunk;
    if (action->kind == ACTION_FORWARD) {
        return schedule_previous(layout, stage, action->chunk, &from, &chunk)
                   ? *there(running, ACTION_FORWARD, from, chunk, action->micro_batch)
                   : 0;
    }
    if (action->kind == ACTION_WEIGHTS) {
        return *there(running, ACTION_BACKWARD, stage, action->chunk, action->micro_batch);
    }
    double own_s = *there(running, ACTION_FORWARD, stage, action->chunk, action->micro_batch);
    if (isnan(own_s) || !schedule_next(layout, stage, action->chunk, &from, &chunk)) {
        return own_s;
    }
    return *there(running, ACTION_BACKWARD, from, chunk, action->micro_batch);
}

static bool is_sent(const struct running *running, int64_t stage, const struct schedule_action *action)
{
    int64_t to;
    int chunk;
    if (action->kind == ACTION_WEIGHTS) {
        return false;
    }
    bool has = action->kind == ACTION_FORWARD ? schedule_next(running->layout, stage, action->chunk, &to, &chunk)
                                              : schedule_previous(running->layout, stage, action->chunk, &to, &chunk);
    return has && to != stage;
}

static void hold(struct running *running, int64_t stage, enum action_kind kind, struct pipeline_run *run)
{
    if (kind == ACTION_FORWARD) {
        running->holds[stage] += running->part;
        run->held[stage] = fmax(run->held[stage], running->holds[stage]);
    } else if (kind == ACTION_WEIGHTS || !schedule_puts_off_weights(running->layout)) {
        running->holds[stage] -= running->part;
    }
}

/* The next action of a stage, if all it needs is known. */
static bool advance(struct running *running, int64_t stage, struct pipeline_run *run)
{
    const struct schedule_order *order = &running->orders[stage];
    if (running->next[stage] == order->n_actions) {
        return false;
    }
    const struct schedule_action *action = &order->actions[running->next[stage]];
    double ready = ready_s(running, stage, action);
    if (isnan(ready)) {
        return false;
    }
    double end = fmax(ready, running->clock_s[stage]) + duration_s(running, action->kind);
    end += is_sent(running, stage, action) ? running->times->hop_s : 0;
    running->clock_s[stage] = end;
    if (action->kind != ACTION_WEIGHTS) {
        *there(running, action->kind, stage, action->chunk, action->micro_batch) = end;
    }
    hold(running, stage, action->kind, run);
    running->next[stage]++;
    return true;
}

static void begin(struct running *running, struct sp_arena *arena, struct pipeline_run *run)
{
    size_t p = (size_t)running->layout->pp;
    size_t n = p * (size_t)running->chunks * (size_t)running->m;
    running->orders = sp_arena_array(arena, p, sizeof(*running->orders));
    running->next = sp_arena_array(arena, p, sizeof(*running->next));
    running->clock_s = sp_arena_array(arena, p, sizeof(double));
    running->holds = sp_arena_array(arena, p, sizeof(double));
    run->held = sp_arena_array(arena, p, sizeof(double));
    for (int kind = 0; kind < ACTION_WEIGHTS; kind++) {
        running->there_s[kind] = sp_arena_array(arena, n, sizeof(double));
        for (size_t k = 0; k < n; k++) {
            running->there_s[kind][k] = NAN;
        }
    }
    schedule_orders(running->layout, running->m, arena, running->orders);
}

void pipeline_run(const struct layout_spec *layout, int64_t micro_batches, const struct pipeline_times *times,
                  struct sp_arena *arena, struct pipeline_run *run)
{
    *run = (struct pipeline_run){.is_finished = true};
    struct running running = {.layout = layout, .times = times, .m = micro_batches, .chunks = schedule_chunks(layout)};
    running.part = layout->schedule == SCHEDULE_DUALPIPE ? 1 : 1.0 / running.chunks;
    begin(&running, arena, run);
    for (bool moved = true; moved;) {
        moved = false;
        for (int64_t stage = 0; stage < layout->pp; stage++) {
            while (advance(&running, stage, run)) {
                moved = true;
            }
        }
    }
    for (int64_t stage = 0; stage < layout->pp; stage++) {
        run->is_finished = run->is_finished && running.next[stage] == running.orders[stage].n_actions;
        run->time_s = fmax(run->time_s, running.clock_s[stage]);
    }
}
