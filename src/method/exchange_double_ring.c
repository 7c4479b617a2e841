/* Double ring (LoongTrain): inner rings of w neighbours, keys and values of a whole inner ring moving to the next one while
 * it is worked through (docs/model.md, eq. 49). The same bytes as one ring, but a hop between nodes has w steps of compute
 * to hide behind, and every rank of a node sends at once through its own NICs.
 *
 * Windows j = 0 .. P/w - 1 of w steps each. The outer hop of a window's original keys starts with the window and must be
 * there when the next begins. Backward: gradients take w - 1 inner hops in every window; their outer hop hides behind the
 * first step of the next window, the last one is exposed. */
#include "method/method.h"

#include <assert.h>
#include <math.h>

struct double_ring {
    double windows;        /* P / w */
    double steps;          /* w */
    double first_s;        /* own block */
    double later_s;        /* of the slowest rank */
    double mean_s;         /* of a mean rank, all steps */
    double inner_s;        /* K and V to the neighbour */
    double outer_s;        /* K and V to the next inner ring */
    double inner_joined_s; /* with their gradients */
    double outer_gradient_s;
    double inner_gradient_s;
};

static struct double_ring measure(const struct attention_problem *problem, bool is_backward)
{
    struct token_layout tokens = problem_tokens(problem);
    const struct hardware_spec *hardware = problem->hardware;
    int64_t p = problem->ranks;
    double kv = problem_kv_bytes(problem);
    struct double_ring d = {.windows = (double)p / (double)problem->inner_ranks, .steps = (double)problem->inner_ranks};
    d.first_s = problem_attention_time(problem, ring_block(&tokens, p - 1, 0), is_backward);
    d.later_s = problem_attention_time(problem, ring_block(&tokens, p - 1, 1), is_backward);
    double from_later_s = problem_attention_time(problem, ring_block(&tokens, 0, 1), is_backward);
    d.mean_s = d.first_s + (double)(p - 1) * (d.later_s + from_later_s) / 2;
    d.inner_s = hop_time(hardware, &problem->inner_group, kv);
    d.outer_s = hop_time(hardware, &problem->outer_group, kv);
    d.inner_joined_s = hop_time(hardware, &problem->inner_group, 2 * kv);
    d.inner_gradient_s = d.inner_s;
    d.outer_gradient_s = d.outer_s;
    return d;
}

/* One window: its steps with what travels beside them, but not before the outer hop that the next window needs. */
static double window_time(const struct attention_problem *problem, const struct double_ring *d, bool is_backward,
                          bool is_first, bool is_last)
{
    double first = is_first ? d->first_s : d->later_s;
    double middle = is_backward ? d->inner_joined_s : d->inner_s;
    double beside_first = d->inner_s;
    if (is_backward && !is_first) { /* the gradients arrive from the window before */
        beside_first = fmax(beside_first, d->outer_gradient_s);
    }
    double total;
    if (d->steps < 1.5) {
        double alone = is_backward && !is_first ? d->outer_gradient_s : 0;
        total = problem_overlapped(problem, first, alone);
    } else {
        total = problem_overlapped(problem, first, beside_first) +
                (d->steps - 2) * problem_overlapped(problem, d->later_s, middle) +
                problem_overlapped(problem, d->later_s, is_backward ? d->inner_gradient_s : 0);
    }
    if (is_last) { /* gradients go home to the first window's owner */
        return is_backward ? total + d->outer_gradient_s : total;
    }
    double gradient_before = is_backward && !is_first ? d->outer_gradient_s : 0; /* the same NIC carries both */
    return fmax(total, gradient_before + d->outer_s);
}

static double all_windows_time(const struct attention_problem *problem, const struct double_ring *d, bool is_backward)
{
    bool is_one = d->windows < 1.5;
    double first_s = window_time(problem, d, is_backward, true, is_one);
    return is_one ? first_s
                  : first_s + (d->windows - 2) * window_time(problem, d, is_backward, false, false) +
                        window_time(problem, d, is_backward, false, true);
}

/* What would be exposed if the hops between the inner rings took no time is the inner rings' own. */
static double inner_exposed(const struct attention_problem *problem, const struct double_ring *d, bool is_backward,
                            double kernels_s)
{
    struct double_ring without = *d;
    without.outer_s = without.outer_gradient_s = 0;
    return all_windows_time(problem, &without, is_backward) - kernels_s;
}

static void price(const struct attention_problem *problem, bool is_backward, struct method_pass *pass)
{
    struct double_ring d = measure(problem, is_backward);
    double p = (double)problem->ranks;
    double kernels_s = d.first_s + (p - 1) * d.later_s;
    bool is_one = d.windows < 1.5;
    pass->total_s = all_windows_time(problem, &d, is_backward);
    pass->attention_s = d.mean_s;
    pass->imbalance_s = kernels_s - d.mean_s;
    pass->exposed_s = pass->total_s - kernels_s;
    pass->kernels = p;
    struct token_layout tokens = problem_tokens(problem);
    struct attention_call call = problem_call(problem, rank_block(&tokens, 0), is_backward);
    call.block.pairs = mean_pairs(&tokens);
    pass->flop = attention_flop(&call);
    pass->attention_hbm_bytes = attention_hbm_bytes(&problem->hardware->gpu, &call);
    double kv = problem_kv_bytes(problem);
    double inner_hops = d.windows * (d.steps - 1);
    double outer_hops = d.windows - 1;
    double gradient_inner = is_backward ? d.windows * (d.steps - 1) : 0;
    double gradient_outer = is_backward && !is_one ? d.windows : 0;
    double inner_s = fmax(inner_exposed(problem, &d, is_backward, kernels_s), 0);
    pass->transfers[0] = (struct transfer){"ring",
                                           (inner_hops + gradient_inner) * kv,
                                           inner_hops + gradient_inner,
                                           inner_hops * d.inner_s + gradient_inner * d.inner_gradient_s,
                                           inner_s,
                                           TIER_NONE};
    pass->transfers[0].tier = problem->inner_group.tier;
    pass->transfers[1] = (struct transfer){"ring of rings",
                                           (outer_hops + gradient_outer) * kv,
                                           outer_hops + gradient_outer,
                                           outer_hops * d.outer_s + gradient_outer * d.outer_gradient_s,
                                           fmax(pass->exposed_s - inner_s, 0),
                                           problem->outer_group.tier};
}

/* ---- tasks ------------------------------------------------------------------------------------------------------ */

struct windows_state {
    const struct attention_problem *problem;
    struct task_graph *graph;
    bool is_backward;
    int *compute; /* by rank: last compute task */
};

static int *indexes(struct task_graph *graph)
{
    int *array = sp_arena_array(graph->arena, (size_t)graph->ranks, sizeof(int));
    for (int64_t i = 0; i < graph->ranks; i++) {
        array[i] = -1;
    }
    return array;
}

static int64_t neighbour(const struct windows_state *state, int64_t rank, bool is_outer)
{
    int64_t w = state->problem->inner_ranks;
    return is_outer ? (rank + w) % state->graph->ranks : rank / w * w + (rank % w + 1) % w;
}

/* A hop of every rank from this point on; by receiver. */
static int *add_hops(struct windows_state *state, bool is_outer, double bytes)
{
    int *arrived = indexes(state->graph);
    for (int64_t r = 0; r < state->graph->ranks; r++) {
        int64_t next = neighbour(state, r, is_outer);
        struct task task = {.kind = TASK_HOP,
                            .name = "hop",
                            .stream = is_outer ? STREAM_SECOND_LINK : STREAM_LINK,
                            .group = is_outer ? GROUP_OUTER : GROUP_INNER,
                            .rank = r,
                            .peer = next,
                            .bytes = next == r ? 0 : bytes};
        int after[2] = {state->compute[r], state->compute[next]};
        arrived[next] = task_graph_add(state->graph, &task, after, 2);
    }
    return arrived;
}

static void add_computes(struct windows_state *state, int64_t window, int64_t step)
{
    struct token_layout tokens = problem_tokens(state->problem);
    int64_t p = state->graph->ranks;
    int64_t w = state->problem->inner_ranks;
    assert(w > 0 && p >= w);
    for (int64_t r = 0; r < p; r++) {
        int64_t inner = (r % w - step + w) % w;
        int64_t outer = (r / w - window + p / w) % (p / w);
        int64_t keys = outer * w + inner;
        struct task kernel = {.kind = TASK_ATTENTION, .name = "attention", .rank = r, .share = 1};
        kernel.attention = problem_call(state->problem, ring_block(&tokens, r, (r - keys + p) % p), state->is_backward);
        state->compute[r] = task_graph_add(state->graph, &kernel, &state->compute[r], 1);
    }
}

static void add_waits(struct windows_state *state, const int *hops)
{
    for (int64_t r = 0; hops != NULL && r < state->graph->ranks; r++) {
        struct task wait = {.kind = TASK_ELEMENTWISE, .name = "wait", .rank = r};
        int after[2] = {state->compute[r], hops[r]};
        state->compute[r] = task_graph_add(state->graph, &wait, after, 2);
    }
}

/* Beside a step of a window, forward: K and V but beside the last; backward: K and V, both, gradients. */
static double inner_bytes(const struct windows_state *state, int64_t step)
{
    double kv = problem_kv_bytes(state->problem);
    bool is_last = step + 1 == state->problem->inner_ranks;
    if (!state->is_backward) {
        return is_last ? 0 : kv;
    }
    if (state->problem->inner_ranks == 1) {
        return 0;
    }
    return step == 0 || is_last ? kv : 2 * kv;
}

static void emit(const struct attention_problem *problem, bool is_backward, struct task_graph *graph)
{
    struct windows_state state = {problem, graph, is_backward, indexes(graph)};
    int64_t windows = graph->ranks / problem->inner_ranks;
    double kv = problem_kv_bytes(problem);
    for (int64_t j = 0; j < windows; j++) {
        const int *gradients = is_backward && j > 0 ? add_hops(&state, true, kv) : NULL;
        const int *next_keys = j + 1 < windows ? add_hops(&state, true, kv) : NULL;
        for (int64_t i = 0; i < problem->inner_ranks; i++) {
            const int *hops = inner_bytes(&state, i) > 0 ? add_hops(&state, false, inner_bytes(&state, i)) : NULL;
            add_computes(&state, j, i);
            add_waits(&state, i == 0 ? gradients : NULL);
            add_waits(&state, hops);
        }
        add_waits(&state, next_keys);
    }
    if (is_backward) {
        add_waits(&state, add_hops(&state, true, kv));
    }
}

const struct exchange_ops exchange_double_ring = {.price = price, .emit = emit};
