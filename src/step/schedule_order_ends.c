/* Orders of the two schedules in which a rank holds a chunk from either end of the model, or works for micro-batches from either
 * end of the pipeline: zbv and dualpipe. Both are static, and keep what they put off at hand to fill gaps. */
#include "step/schedule_order.h"

#include <assert.h>

/* An order as it grows: how far each of the two chunks has come. */
struct growing {
    struct schedule_order *order;
    int64_t n_micro_batches[2]; /* of each chunk; what a phase asks for beyond is left out */
    int64_t first[2];           /* number of its first one */
    int64_t done[2][ACTION_WEIGHTS + 1];
    int64_t looked; /* actions of the order before which nothing is put off any more */
};

static void add(struct growing *growing, enum action_kind kind, int chunk)
{
    int64_t j = growing->done[chunk][kind]++;
    if (j < growing->n_micro_batches[chunk]) {
        struct schedule_order *order = growing->order;
        order->actions[order->n_actions++] =
            (struct schedule_action){.kind = kind, .chunk = chunk, .micro_batch = growing->first[chunk] + j};
    }
}

static void add_whole_backward(struct growing *growing, int chunk)
{
    add(growing, ACTION_BACKWARD, chunk);
    add(growing, ACTION_WEIGHTS, chunk);
}

/* ---- zbv -------------------------------------------------------------------------------------------------------- */

static void v_warm_up(struct growing *growing, int64_t p, int64_t i)
{
    for (int64_t k = 0; k < 2 * (p - i) - 1; k++) {
        add(growing, ACTION_FORWARD, 0);
    }
    for (int64_t k = 0; k < i; k++) {
        add(growing, ACTION_FORWARD, 1);
        add(growing, ACTION_FORWARD, 0);
    }
    for (int64_t k = 0; k < p - i; k++) {
        add(growing, ACTION_FORWARD, 1);
        add_whole_backward(growing, 1);
    }
}

static void v_drain(struct growing *growing, int64_t p, int64_t i)
{
    for (int64_t k = 0; k < i; k++) {
        add(growing, ACTION_BACKWARD, 0);
        add(growing, ACTION_BACKWARD, 1);
    }
    for (int64_t k = 0; k < p - i; k++) {
        add(growing, ACTION_BACKWARD, 0);
        add(growing, ACTION_WEIGHTS, 0);
    }
    for (int chunk = 1; chunk >= 0; chunk--) {
        while (growing->done[chunk][ACTION_WEIGHTS] < growing->done[chunk][ACTION_BACKWARD]) {
            add(growing, ACTION_WEIGHTS, chunk);
        }
    }
}

/* Qi et al., Pipeline Parallelism with Controllable Memory, as torch.distributed.pipelining writes it down
 * (ScheduleZBVZeroBubble). With fewer micro-batches than 2 p - 1 the order is that of 2 p - 1 without the last ones. */
void schedule_order_v(const struct layout_spec *layout, int64_t m, int64_t i, struct schedule_order *order)
{
    int64_t p = layout->pp;
    int64_t n = m < 2 * p - 1 ? 2 * p - 1 : m;
    struct growing growing = {.order = order, .n_micro_batches = {m, m}};
    v_warm_up(&growing, p, i);
    while (growing.done[0][ACTION_FORWARD] < n || growing.done[1][ACTION_FORWARD] < growing.done[0][ACTION_FORWARD]) {
        if (growing.done[0][ACTION_FORWARD] < n) {
            add(&growing, ACTION_FORWARD, 0);
        }
        add_whole_backward(&growing, 0);
        add(&growing, ACTION_FORWARD, 1);
        add_whole_backward(&growing, 1);
    }
    v_drain(&growing, p, i);
}

/* ---- dualpipe --------------------------------------------------------------------------------------------------- */

/* The next of the weight gradients that were put off, the oldest first: they lie in the order of their backwards. */
static void add_put_off(struct growing *growing)
{
    const struct schedule_order *order = growing->order;
    for (; growing->looked < order->n_actions; growing->looked++) {
        const struct schedule_action *action = &order->actions[growing->looked];
        int64_t j = action->micro_batch - growing->first[action->chunk];
        if (action->kind == ACTION_BACKWARD && j == growing->done[action->chunk][ACTION_WEIGHTS]) {
            add(growing, ACTION_WEIGHTS, action->chunk);
            return;
        }
    }
    assert(!"something put off");
}

/* DeepSeek, DualPipe (dualpipe/dualpipe.py), steps 1 to 3. near: the chunk whose micro-batches have come a shorter way to this
 * rank; half: ranks between it and the nearer end; rest: those from it to the middle. */
struct dual {
    int near;
    int64_t half, rest;
};
static void dual_warm_up(struct growing *growing, const struct dual *dual)
{
    int far = 1 - dual->near;
    for (int64_t k = 0; k < 2 * dual->rest; k++) {
        add(growing, ACTION_FORWARD, dual->near);
    }
    for (int64_t k = 0; k < dual->half + 1; k++) {
        add(growing, ACTION_FORWARD, dual->near);
        add(growing, ACTION_FORWARD, far);
    }
    for (int64_t k = 0; k < dual->rest; k++) {
        add_whole_backward(growing, far);
        add(growing, ACTION_FORWARD, far);
    }
}

/* Steps 5 to 8. */
static void dual_drain(struct growing *growing, const struct dual *dual)
{
    int far = 1 - dual->near;
    for (int64_t k = 0; k < dual->rest; k++) {
        add_whole_backward(growing, far);
        add(growing, ACTION_FORWARD, far);
        add_whole_backward(growing, dual->near);
    }
    /* the second half of these puts off */
    for (int64_t k = 0; k < 2 * (dual->half + 1); k++) {
        int chunk = k % 2 == 0 ? far : dual->near;
        if (k <= dual->half) {
            add_whole_backward(growing, chunk);
        } else {
            add(growing, ACTION_BACKWARD, chunk);
        }
    }
    for (int64_t k = 0; k < dual->rest; k++) {
        add_put_off(growing);
        add(growing, ACTION_BACKWARD, dual->near);
    }
    for (int64_t k = 0; k < dual->half + 1; k++) {
        add_put_off(growing);
    }
}

void schedule_order_dual(const struct layout_spec *layout, int64_t m, int64_t i, struct schedule_order *order)
{
    int64_t p = layout->pp;
    assert(p % 2 == 0 && m % 2 == 0 && m >= 2 * p); /* rules */
    struct dual dual = {.near = i < p / 2 ? 0 : 1, .half = i < p / 2 ? i : p - 1 - i};
    dual.rest = p / 2 - 1 - dual.half;
    struct growing growing = {.order = order, .n_micro_batches = {m / 2, m / 2}, .first = {0, m / 2}};
    dual_warm_up(&growing, &dual);
    for (int64_t k = 0; k < m / 2 - p + dual.half + 1; k++) { /* step 4 */
        add(&growing, ACTION_FORWARD, dual.near);
        add_whole_backward(&growing, 1 - dual.near);
        add(&growing, ACTION_FORWARD, 1 - dual.near);
        add_whole_backward(&growing, dual.near);
    }
    dual_drain(&growing, &dual);
}
