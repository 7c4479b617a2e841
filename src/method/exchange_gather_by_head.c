/* All-gather of one group of key-value heads at a time (the "llama3" variant of ring-flash-attention; docs/model.md, eq.
 * 45a): the gather of the next group hides behind the attention of this one, the first is exposed; backward scatters each
 * group's gradients in line. */
#include "method/method.h"

#include <math.h>

/* heads_k_stride 1, the library's default: one key-value head a group. */
struct groups {
    double count;
    struct attention_problem one; /* the problem of one group's heads */
    double gather_s, scatter_s;
    double slowest_s, mean_s; /* attention of one group */
};

/* Bytes of K (0) or V (1) of all ranks. */
static double gathered_bytes(const struct attention_problem *one, int tensor)
{
    double all = problem_kv_bytes(one) * (double)one->ranks;
    double keys = all * one->head_dim / (one->head_dim + one->value_head_dim);
    return tensor == 0 ? keys : all - keys;
}

static double pair_time(const struct attention_problem *one, enum collective operation)
{
    return collective_time(one->hardware, &one->group, operation, gathered_bytes(one, 0)) +
           collective_time(one->hardware, &one->group, operation, gathered_bytes(one, 1));
}

static struct groups groups_of(const struct attention_problem *problem, bool is_backward)
{
    struct groups groups = {.count = fmax(problem->kv_heads, 1), .one = *problem};
    groups.one.heads /= groups.count;
    groups.one.kv_heads /= groups.count;
    struct token_layout tokens = problem_tokens(problem);
    struct attention_block mean = rank_block(&tokens, problem->ranks - 1);
    groups.slowest_s = problem_attention_time(&groups.one, mean, is_backward);
    mean.pairs = mean_pairs(&tokens);
    groups.mean_s = fmin(problem_attention_time(&groups.one, mean, is_backward), groups.slowest_s);
    groups.gather_s = pair_time(&groups.one, COLLECTIVE_ALL_GATHER);
    groups.scatter_s = is_backward ? pair_time(&groups.one, COLLECTIVE_REDUCE_SCATTER) : 0;
    return groups;
}

static void price(const struct attention_problem *problem, bool is_backward, struct method_pass *pass)
{
    struct groups groups = groups_of(problem, is_backward);
    double n = groups.count;
    pass->attention_s = n * groups.mean_s;
    pass->imbalance_s = n * (groups.slowest_s - groups.mean_s);
    pass->total_s = groups.gather_s + (n - 1) * problem_overlapped(problem, groups.slowest_s, groups.gather_s) +
                    groups.slowest_s + n * groups.scatter_s;
    pass->exposed_s = pass->total_s - n * groups.slowest_s;
    pass->kernels = n;
    struct token_layout tokens = problem_tokens(problem);
    struct attention_block mean = rank_block(&tokens, problem->ranks - 1);
    mean.pairs = mean_pairs(&tokens);
    struct attention_call call = problem_call(problem, mean, is_backward);
    pass->flop = attention_flop(&call);
    pass->attention_hbm_bytes = attention_hbm_bytes(&problem->hardware->gpu, &call);
    double sent = (double)(problem->ranks - 1) * problem_kv_bytes(problem);
    double scattered = n * groups.scatter_s;
    pass->transfers[0] = (struct transfer){
        "all-gather", sent, problem->traits->messages * n, n * groups.gather_s, pass->exposed_s - scattered, TIER_NONE};
    if (is_backward) {
        pass->transfers[1] =
            (struct transfer){"reduce-scatter", sent, problem->traits->messages * n, scattered, scattered, TIER_NONE};
    }
}

/* K and V of one group, as two collectives after `after` of every rank; returns the second. */
static int add_pair(const struct groups *groups, struct task_graph *graph, enum collective operation,
                    enum stream stream, const int *after)
{
    int last = -1;
    for (int i = 0; i < 2; i++) {
        struct task task = {.kind = TASK_COLLECTIVE,
                            .name = collective_names[operation],
                            .stream = stream,
                            .rank = TASK_ALL_RANKS,
                            .share = 1};
        task.operation = operation;
        task.bytes = gathered_bytes(&groups->one, i);
        last = task_graph_add(graph, &task, after, after != NULL ? (int)graph->ranks : 0);
    }
    return last;
}

static void emit(const struct attention_problem *problem, bool is_backward, struct task_graph *graph)
{
    struct groups groups = groups_of(problem, is_backward);
    struct token_layout tokens = problem_tokens(problem);
    size_t p = (size_t)graph->ranks;
    int *done = sp_arena_array(graph->arena, p, sizeof(int)); /* end of the group before, by rank */
    int arrived = add_pair(&groups, graph, COLLECTIVE_ALL_GATHER, STREAM_LINK, NULL);
    for (size_t r = 0; r < p; r++) {
        done[r] = arrived;
    }
    for (int group = 0; group < (int)groups.count; group++) {
        int begun = arrived;
        if (group + 1 < (int)groups.count) { /* the next gather starts with this group's attention */
            arrived = add_pair(&groups, graph, COLLECTIVE_ALL_GATHER, STREAM_LINK, done);
        }
        for (size_t r = 0; r < p; r++) {
            struct task kernel = {.kind = TASK_ATTENTION, .name = "attention", .rank = (int64_t)r, .share = 1};
            kernel.attention = problem_call(&groups.one, rank_block(&tokens, (int64_t)r), is_backward);
            int after[2] = {begun, done[r]};
            done[r] = task_graph_add(graph, &kernel, after, 2);
        }
        /* both the group's attention and the next group's keys are there before anything else */
        struct task wait = {.kind = TASK_ELEMENTWISE, .name = "wait", .rank = TASK_ALL_RANKS};
        int waited = task_graph_add(graph, &wait, &arrived, 1);
        if (is_backward) {
            waited = add_pair(&groups, graph, COLLECTIVE_REDUCE_SCATTER, STREAM_COMPUTE, NULL);
        }
        for (size_t r = 0; r < p; r++) {
            done[r] = waited;
        }
    }
}

const struct exchange_ops exchange_gather_by_head = {.price = price, .emit = emit};
