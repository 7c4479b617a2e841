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

static double duration_s(const struct running *running, int64_t stage, enum action_kind kind)
{
    const struct pipeline_times *times = running->times;
    double whole = times->input_s + (schedule_puts_off_weights(running->layout) ? 0 : times->weights_s);
    double stage_s = kind == ACTION_FORWARD ? times->forward_s : kind == ACTION_BACKWARD ? whole : times->weights_s;
    return stage_s * running->part * (times->scale != NULL ? times->scale[stage] : 1);
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

static bool is_whole_backward(const struct schedule_action *actions)
{
    return actions[0].kind == ACTION_BACKWARD && actions[1].kind == ACTION_WEIGHTS &&
           actions[0].chunk == actions[1].chunk && actions[0].micro_batch == actions[1].micro_batch;
}

/* How many of a stage's next actions run as one: of dualpipe a pair (3), a whole backward (2). The middle ranks' first backward is
 * in no pair, and in the warm-up gradients leave before the weights: it is the far chunk's first backwards, one for each rank from
 * this one to the middle. */
static int together(const struct running *running, int64_t stage)
{
    const struct schedule_order *order = &running->orders[stage];
    const struct schedule_action *actions = &order->actions[running->next[stage]];
    int64_t left = order->n_actions - running->next[stage];
    int64_t half = running->layout->pp / 2;
    int near = stage < half ? 0 : 1;
    int64_t rest = stage < half ? half - 1 - stage : stage - half;
    if (!running->times->is_paired || left < 2) {
        return 1;
    }
    if (is_whole_backward(actions)) {
        return actions->chunk != near && actions->micro_batch % (running->m / 2) < rest ? 1 : 2;
    }
    bool is_pair = left > 2 && actions[0].kind == ACTION_FORWARD && is_whole_backward(&actions[1]) &&
                   actions[0].chunk != actions[1].chunk;
    bool is_first = rest == 0 && actions[1].chunk != near && actions[1].micro_batch % (running->m / 2) == 0;
    return is_pair && !is_first ? 3 : 1;
}

/* When all that the next n actions need is there; NaN: not known. */
static double all_ready_s(const struct running *running, int64_t stage, int n)
{
    const struct schedule_action *actions = &running->orders[stage].actions[running->next[stage]];
    double ready = running->clock_s[stage];
    for (int k = 0; k < n; k++) {
        bool is_own = k > 0 && actions[k].kind == ACTION_WEIGHTS; /* its backward is one of the n */
        double one = is_own ? 0 : ready_s(running, stage, &actions[k]);
        if (isnan(one)) {
            return (double)NAN;
        }
        ready = fmax(ready, one);
    }
    return ready;
}

/* The next action of a stage, or those that run with it, if all they need is known. */
static bool advance(struct running *running, int64_t stage, struct pipeline_run *run)
{
    const struct schedule_order *order = &running->orders[stage];
    const struct schedule_action *actions = &order->actions[running->next[stage]];
    if (running->next[stage] == order->n_actions) {
        return false;
    }
    int n = together(running, stage);
    double end = all_ready_s(running, stage, n);
    if (isnan(end)) {
        return false;
    }
    for (int k = 0; k < n; k++) {
        end += duration_s(running, stage, actions[k].kind);
        end += is_sent(running, stage, &actions[k]) ? running->times->hop_s : 0;
        hold(running, stage, actions[k].kind, run);
    }
    for (int k = 0; k < n; k++) {
        if (actions[k].kind != ACTION_WEIGHTS) {
            *there(running, actions[k].kind, stage, actions[k].chunk, actions[k].micro_batch) = end;
        }
    }
    running->clock_s[stage] = end;
    running->next[stage] += n;
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
            running->there_s[kind][k] = (double)NAN;
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
