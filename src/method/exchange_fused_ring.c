/* Fused ring: one kernel that sends and receives while it computes (docs/model.md, eq. 49a). The softmax state stays in
 * registers, so nothing is merged; the next rank's keys arrive while this one's are used, chunk by chunk, so the pass
 * lasts as long as the slower of compute and link; a chunk is too small for its latency to count. Backward: gradients leave the same
 * way, both directions of the link in use. */
#include "method/method.h"

#include <math.h>

static struct attention_call whole_call(const struct attention_problem *problem, int64_t rank, bool is_backward)
{
    struct token_layout tokens = problem_tokens(problem);
    return problem_call(problem, rank_block(&tokens, rank), is_backward);
}

/* All hops of the pass on one link, as fast as they can follow each other. */
static double link_time(const struct attention_problem *problem, bool is_backward)
{
    double hops = (double)(problem->ranks - 1);
    double kv = problem_kv_bytes(problem);
    return hops * hop_time(problem->hardware, &problem->group, is_backward ? 2 * kv : kv);
}

static void price(const struct attention_problem *problem, bool is_backward, struct method_pass *pass)
{
    const struct gpu_spec *gpu = &problem->hardware->gpu;
    struct token_layout tokens = problem_tokens(problem);
    struct attention_call slowest = whole_call(problem, problem->ranks - 1, is_backward);
    struct attention_call mean = slowest;
    mean.block.pairs = mean_pairs(&tokens);
    double slowest_s = attention_time(gpu, &slowest);
    double link_s = link_time(problem, is_backward);
    pass->attention_s = fmin(attention_time(gpu, &mean), slowest_s);
    pass->imbalance_s = slowest_s - pass->attention_s;
    pass->total_s = problem_overlapped(problem, slowest_s, link_s);
    pass->exposed_s = pass->total_s - slowest_s;
    pass->flop = attention_flop(&mean);
    pass->attention_hbm_bytes = attention_hbm_bytes(gpu, &mean);
    pass->kernels = 1;
    double hops = (double)(problem->ranks - 1) * (is_backward ? 2 : 1);
    pass->transfers[0] =
        (struct transfer){"ring", hops * problem_kv_bytes(problem), hops, link_s, pass->exposed_s, TIER_NONE};
}

static void emit(const struct attention_problem *problem, bool is_backward, struct task_graph *graph)
{
    double kv = problem_kv_bytes(problem);
    for (int64_t r = 0; r < graph->ranks; r++) {
        struct task kernel = {.kind = TASK_ATTENTION,
                              .name = "attention",
                              .rank = r,
                              .share = 1,
                              .attention = whole_call(problem, r, is_backward)};
        task_graph_add(graph, &kernel, NULL, 0);
        for (int64_t hop = 0; hop + 1 < graph->ranks; hop++) {
            struct task send = {.kind = TASK_HOP,
                                .name = "hop",
                                .stream = STREAM_LINK,
                                .rank = r,
                                .peer = (r + 1) % graph->ranks,
                                .bytes = is_backward ? 2 * kv : kv};
            task_graph_add(graph, &send, NULL, 0);
        }
    }
}

const struct exchange_ops exchange_fused_ring = {.price = price, .emit = emit};
