/* All-to-all inside groups of neighbours, ring between them (USP, Megatron a2a+p2p; docs/model.md, eq. 46a): the ring
 * carries the same bytes per hop, but each of its fewer steps computes as many times more. */
#include "method/exchange_ring.h"

/* The ring that one rank takes part in after the all-to-all: longer shards, fewer heads. */
static struct attention_problem ring_problem(const struct attention_problem *problem)
{
    struct attention_problem ring = *problem;
    double inner = (double)problem->inner_ranks;
    ring.group = problem->outer_group;
    ring.ranks = problem->ranks / problem->inner_ranks;
    ring.rows = problem->rows * inner;
    ring.heads = problem->heads / inner;
    ring.kv_heads = problem->kv_heads / inner;
    return ring;
}

/* q, k, v and o, or their gradients: the same bytes both ways. */
static double exchanged_bytes(const struct attention_problem *problem, int tensor)
{
    double keys = problem_kv_bytes(problem) * problem->head_dim / (problem->head_dim + problem->value_head_dim);
    const double bytes[4] = {problem_query_bytes(problem), keys, problem_kv_bytes(problem) - keys,
                             problem_output_bytes(problem)};
    return bytes[tensor];
}

static void price(const struct attention_problem *problem, bool is_backward, struct method_pass *pass)
{
    struct attention_problem ring = ring_problem(problem);
    if (ring.ranks > 1) {
        exchange_ring.price(&ring, is_backward, pass);
    } else {
        exchange_local.price(&ring, is_backward, pass);
    }
    struct transfer exchange = {.operation = "all-to-all", .messages = 4}; /* q, k, v and o */
    double bytes = 0;
    for (int i = 0; i < 4; i++) {
        bytes += exchanged_bytes(problem, i);
        exchange.link_s += collective_time(problem->hardware, &problem->inner_group, COLLECTIVE_ALL_TO_ALL,
                                           exchanged_bytes(problem, i));
    }
    double copies = problem->inner_ranks > 1 ? problem->traits->copy_passes * bytes : 0;
    double copies_s = elementwise_time(&problem->hardware->gpu, copies, 0);
    exchange.sent_bytes = collective_sent_bytes(COLLECTIVE_ALL_TO_ALL, problem->inner_ranks, bytes);
    exchange.exposed_s = exchange.link_s;
    pass->merge_bytes += copies;
    pass->merge_s += copies_s;
    pass->exposed_s += exchange.link_s + copies_s;
    pass->total_s += exchange.link_s + copies_s;
    exchange.tier = problem->inner_group.tier;
    pass->transfers[1] = pass->transfers[0];
    pass->transfers[1].tier = problem->outer_group.tier;
    pass->transfers[0] = exchange;
}

static int emit_exchange(const struct attention_problem *problem, struct task_graph *graph, int first, int last,
                         int after)
{
    for (int i = first; i < last; i++) {
        struct task exchange = {.kind = TASK_COLLECTIVE,
                                .name = "all-to-all",
                                .group = GROUP_INNER,
                                .rank = TASK_ALL_RANKS,
                                .share = 1,
                                .operation = COLLECTIVE_ALL_TO_ALL,
                                .bytes = exchanged_bytes(problem, i)};
        after = task_graph_add(graph, &exchange, &after, 1);
        double copies = problem->inner_ranks > 1 ? problem->traits->copy_passes * exchange.bytes : 0;
        struct task copy = {
            .kind = TASK_ELEMENTWISE, .name = "pack and unpack", .rank = TASK_ALL_RANKS, .bytes = copies};
        after = task_graph_add(graph, &copy, &after, 1);
    }
    return after;
}

static void emit(const struct attention_problem *problem, bool is_backward, struct task_graph *graph)
{
    struct attention_problem ring = ring_problem(problem);
    /* forward: q, k, v before, o after; backward: dO before, dq, dk, dv after */
    int after = is_backward ? emit_exchange(problem, graph, 3, 4, -1) : emit_exchange(problem, graph, 0, 3, -1);
    if (ring.ranks > 1) {
        ring_emit(&ring, is_backward, graph, after);
    } else {
        exchange_local.emit(&ring, is_backward, graph);
    }
    emit_exchange(problem, graph, is_backward ? 0 : 3, is_backward ? 3 : 4, -1);
}

const struct exchange_ops exchange_hybrid = {.price = price, .emit = emit};
