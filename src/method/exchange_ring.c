/* Ring exchange: keys and values travel from neighbour to neighbour while each rank computes with what it holds
 * (docs/model.md, eq. 40-44).
 *
 * Every rank posts the hop of step i when the step begins and waits for it when the step's compute is done, so a step
 * lasts max(compute, hop) and the last one has no key-value hop. The slowest rank is one that does the dearer kind of step
 * throughout: P-1, all of whose later steps have keys from earlier ranks, or 0, all of whose have keys from later ones. No
 * rank computes or merges more in any step, and its neighbour never starts a step later than it does. */
#include "method/exchange_ring.h"

#include <assert.h>
#include <math.h>

/* What one rank does: its own block first, then blocks with the keys of earlier ranks, then of later ones. */
struct ring_times {
    int64_t rank; /* the slowest, P-1 or 0, or the one asked for */
    double first_kernel_s;
    double earlier_kernel_s, later_kernel_s;
    double mean_kernel_s; /* a mean rank's kernels, all steps */
    double first_merge_s; /* inside the step, before its end */
    double earlier_merge_s, later_merge_s;
    double end_merge_s;
    double first_link_s; /* beside the first step: the hop of K and V, or the gather of all of them */
    double kv_hop_s;     /* beside a later step */
    double gradient_hop_s;
    double joined_hop_s; /* K, V and their gradients as one message */
};

struct ring_bytes {
    double kv;
    double gradient;
    double first_merge, earlier_merge, later_merge, end_merge; /* of the rank */
};

static const struct merge_traits *merges(const struct attention_problem *problem, bool is_backward)
{
    const struct method_traits *traits = problem->traits;
    return is_backward ? &traits->backward_merge : &traits->forward_merge;
}

static double gradient_hop_bytes(const struct attention_problem *problem)
{
    double per_element = problem->traits->gradient_bytes > 0 ? problem->traits->gradient_bytes : problem->element_bytes;
    return per_element * problem_kv_elements(problem);
}

/* A step with keys of an earlier rank, or of a later one. */
static struct attention_block step_block(const struct attention_problem *problem, bool is_earlier)
{
    struct token_layout tokens = problem_tokens(problem);
    return ring_block(&tokens, is_earlier ? problem->ranks - 1 : 0, 1);
}

/* Bytes merged in one later step; keys from a later rank make it a partial step under a causal mask. */
static double step_merge_bytes(const struct attention_problem *problem, bool is_backward, bool is_earlier)
{
    const struct merge_traits *merge = merges(problem, is_backward);
    double per_output = is_earlier || problem->is_full ? merge->full_step : merge->partial_step;
    double keys = merge->kv_is_of_block ? step_block(problem, is_earlier).key_rows / problem->rows : 1;
    return per_output * problem_output_elements(problem) + merge->kv_step * keys * problem_kv_elements(problem);
}

static bool step_is_skipped(const struct attention_problem *problem, bool is_earlier)
{
    return step_block(problem, is_earlier).pairs < 1;
}

/* With the first step and with the last one. */
static double start_bytes(const struct attention_problem *problem, bool is_backward)
{
    const struct merge_traits *merge = merges(problem, is_backward);
    return merge->start * problem_output_elements(problem) + merge->kv_start * problem_kv_elements(problem);
}

static double end_bytes(const struct attention_problem *problem, bool is_backward, int64_t rank)
{
    const struct merge_traits *merge = merges(problem, is_backward);
    bool had_partial = rank + 1 < problem->ranks && !problem->is_full;
    double per_output = merge->end + (had_partial ? merge->partial_end : 0);
    return per_output * problem_output_elements(problem) + merge->kv_end * problem_kv_elements(problem);
}

static struct ring_bytes ring_bytes_of(const struct attention_problem *problem, bool is_backward, int64_t rank)
{
    const struct merge_traits *merge = merges(problem, is_backward);
    double earlier = step_merge_bytes(problem, is_backward, true);
    double later = step_is_skipped(problem, false) ? 0 : step_merge_bytes(problem, is_backward, false);
    struct ring_bytes bytes = {.kv = problem_kv_bytes(problem), .gradient = gradient_hop_bytes(problem)};
    double start = start_bytes(problem, is_backward);
    double end = end_bytes(problem, is_backward, rank);
    if (merge->is_at_end) {
        double n_earlier = (double)rank;
        double n_later = (double)(problem->ranks - 1 - rank);
        bytes.end_merge = start + (earlier * n_earlier + later * n_later) + end;
    } else {
        bytes.first_merge = start;
        bytes.earlier_merge = earlier;
        bytes.later_merge = later;
        bytes.end_merge = end;
    }
    return bytes;
}

static double merge_time(const struct attention_problem *problem, double bytes, double kernels)
{
    return elementwise_time(&problem->hardware->gpu, bytes, bytes > 0 ? kernels : 0);
}

/* Kernels that merge with the first step: the start, and the first gradients where they are converted. */
static double first_kernels(const struct merge_traits *merge)
{
    return merge->start_kernels + (merge->kv_start > 0 ? merge->step_kernels : 0);
}

static double kernel_time(const struct attention_problem *problem, int64_t rank, int64_t step, bool is_backward)
{
    struct token_layout tokens = problem_tokens(problem);
    struct attention_call call = problem_call(problem, ring_block(&tokens, rank, step), is_backward);
    return attention_time(&problem->hardware->gpu, &call);
}

static double gather_bytes(const struct attention_problem *problem)
{
    return problem_kv_bytes(problem) * (double)problem->ranks;
}

/* The slowest rank: 0 where a step with keys from a later rank takes longer, its merge included, than one with keys from an
 * earlier rank. */
static int64_t rank_of(const struct attention_problem *problem, const struct ring_times *times)
{
    if (problem->has_rank) {
        return problem->rank;
    }
    double earlier_s = times->earlier_kernel_s + times->earlier_merge_s;
    double later_s = times->later_kernel_s + times->later_merge_s;
    return times->later_kernel_s > 0 && later_s > earlier_s ? 0 : problem->ranks - 1;
}

static void time_merges(const struct attention_problem *problem, bool is_backward, struct ring_times *times)
{
    const struct merge_traits *merge = merges(problem, is_backward);
    times->earlier_merge_s = merge_time(problem, step_merge_bytes(problem, is_backward, true), merge->step_kernels);
    times->later_merge_s = merge_time(problem, step_merge_bytes(problem, is_backward, false), merge->step_kernels);
    times->rank = rank_of(problem, times);
    struct ring_bytes bytes = ring_bytes_of(problem, is_backward, times->rank);
    times->first_merge_s = merge_time(problem, bytes.first_merge, first_kernels(merge));
    times->earlier_merge_s = merge_time(problem, bytes.earlier_merge, merge->step_kernels);
    times->later_merge_s = merge_time(problem, bytes.later_merge, merge->step_kernels);
    times->end_merge_s = merge_time(problem, bytes.end_merge, merge->end_kernels);
}

static struct ring_times ring_times_of(const struct attention_problem *problem, bool is_backward)
{
    const struct hardware_spec *hardware = problem->hardware;
    int64_t p = problem->ranks;
    struct ring_times times = {0};
    times.first_kernel_s = kernel_time(problem, p - 1, 0, is_backward);
    /* of all P (P-1) later steps half have keys from an earlier rank, half from a later one */
    times.earlier_kernel_s = kernel_time(problem, p - 1, 1, is_backward);
    times.later_kernel_s = kernel_time(problem, 0, 1, is_backward);
    times.mean_kernel_s = times.first_kernel_s + (double)(p - 1) * (times.earlier_kernel_s + times.later_kernel_s) / 2;
    time_merges(problem, is_backward, &times);
    double kv = problem_kv_bytes(problem);
    double gradient = gradient_hop_bytes(problem);
    times.gradient_hop_s = hop_time(hardware, &problem->group, gradient);
    if (problem->traits->gathers_first) {
        times.first_link_s = collective_time(hardware, &problem->group, COLLECTIVE_ALL_GATHER, gather_bytes(problem));
    } else {
        times.first_link_s = times.kv_hop_s = hop_time(hardware, &problem->group, kv);
        times.joined_hop_s = hop_time(hardware, &problem->group, kv + gradient);
    }
    return times;
}

/* A step with keys of an earlier or a later rank beside a transfer of so long. */
static double later_step(const struct attention_problem *problem, const struct ring_times *times, bool is_backward,
                         bool is_earlier, double link_s)
{
    struct beside beside = {.block = step_block(problem, is_earlier),
                            .is_backward = is_backward,
                            .kernel_s = is_earlier ? times->earlier_kernel_s : times->later_kernel_s,
                            .other_s = is_earlier ? times->earlier_merge_s : times->later_merge_s};
    return problem_beside(problem, &beside, link_s);
}

/* `beside` is the link's time beside each later step but the last, `last` beside that one. */
static double steps_total(const struct attention_problem *problem, const struct ring_times *times, bool is_backward,
                          const double links[2])
{
    struct token_layout tokens = problem_tokens(problem);
    struct beside first = {.block = ring_block(&tokens, times->rank, 0),
                           .is_backward = is_backward,
                           .kernel_s = times->first_kernel_s,
                           .other_s = times->first_merge_s};
    bool ends_earlier = times->rank == problem->ranks - 1;
    double earlier = (double)(times->rank - (ends_earlier ? 1 : 0));
    double later = (double)(problem->ranks - 1 - times->rank - (ends_earlier ? 0 : 1));
    double total = problem_beside(problem, &first, times->first_link_s);
    if (earlier > 0) {
        total += earlier * later_step(problem, times, is_backward, true, links[0]);
    }
    if (later > 0) {
        total += later * later_step(problem, times, is_backward, false, links[0]);
    }
    return total + later_step(problem, times, is_backward, ends_earlier, links[1]) + times->end_merge_s;
}

static double ring_total(const struct attention_problem *problem, const struct ring_times *times, bool is_backward)
{
    if (!is_backward) {
        return steps_total(problem, times, is_backward, (const double[2]){times->kv_hop_s, 0});
    }
    if (problem->traits->gradients_trail) {
        /* the gradient hop of step i-1 and the key-value hop of step i share the link while step i computes */
        const double links[2] = {times->kv_hop_s + times->gradient_hop_s, times->gradient_hop_s};
        return steps_total(problem, times, is_backward, links) + times->gradient_hop_s;
    }
    return steps_total(problem, times, is_backward, (const double[2]){times->joined_hop_s, times->gradient_hop_s});
}

/* Work of the mean rank, for FLOPs and HBM traffic. */
static void count_work(const struct attention_problem *problem, bool is_backward, struct method_pass *pass)
{
    int64_t p = problem->ranks;
    double half = (double)(p - 1) / 2;
    const int64_t steps[3][2] = {{0, 0}, {p - 1, 1}, {0, 1}}; /* (rank, step): own, from earlier, from later */
    const double counts[3] = {1, half, half};
    struct token_layout tokens = problem_tokens(problem);
    for (int i = 0; i < 3; i++) {
        struct attention_block block = ring_block(&tokens, steps[i][0], steps[i][1]);
        if (block.pairs < 1) {
            continue;
        }
        struct attention_call call = problem_call(problem, block, is_backward);
        pass->flop += counts[i] * attention_flop(&call);
        pass->attention_hbm_bytes += counts[i] * attention_hbm_bytes(&problem->hardware->gpu, &call);
    }
    double merge_kernels = merges(problem, is_backward)->full_step > 0 ? (double)(p - 1) : 0;
    pass->kernels = (double)p + merge_kernels;
}

static void count_transfers(const struct attention_problem *problem, bool is_backward, const struct ring_times *times,
                            struct method_pass *pass)
{
    const struct method_traits *traits = problem->traits;
    double later = (double)(problem->ranks - 1);
    struct ring_bytes bytes = ring_bytes_of(problem, is_backward, times->rank);
    double gradient_hops = !is_backward ? 0 : traits->gradients_trail ? later + 1 : later;
    bool is_joined = is_backward && !traits->gradients_trail;
    struct transfer ring = {.operation = "ring", .sent_bytes = later * bytes.kv + gradient_hops * bytes.gradient};
    ring.messages = traits->messages * (is_joined ? later + 1 : later + gradient_hops);
    ring.link_s = is_joined
                      ? times->first_link_s + (later - 1) * times->joined_hop_s + times->gradient_hop_s
                      : times->first_link_s + (later - 1) * times->kv_hop_s + gradient_hops * times->gradient_hop_s;
    double exposed = fmax(pass->exposed_s - pass->merge_s, 0);
    if (!traits->gathers_first) {
        ring.exposed_s = exposed;
        pass->transfers[0] = ring;
        return;
    }
    struct transfer gather = {"all-gather", later * bytes.kv, 1, times->first_link_s, exposed, TIER_NONE};
    if (is_backward) {
        ring.sent_bytes = gradient_hops * bytes.gradient;
        ring.messages = gradient_hops;
        ring.link_s = gradient_hops * times->gradient_hop_s;
        double first = times->first_kernel_s + times->first_merge_s;
        gather.exposed_s = fmin(exposed, problem_overlapped(problem, first, times->first_link_s) - first);
        ring.exposed_s = exposed - gather.exposed_s;
        pass->transfers[1] = ring;
    }
    pass->transfers[0] = gather;
}

static void price(const struct attention_problem *problem, bool is_backward, struct method_pass *pass)
{
    struct ring_times times = ring_times_of(problem, is_backward);
    struct ring_bytes bytes = ring_bytes_of(problem, is_backward, times.rank);
    double n_earlier = (double)times.rank;
    double n_later = (double)(problem->ranks - 1 - times.rank);
    double rank_s = times.first_kernel_s + (n_earlier * times.earlier_kernel_s + n_later * times.later_kernel_s);
    pass->attention_s = fmin(times.mean_kernel_s, rank_s); /* rank 0 may compute less and merge more */
    pass->imbalance_s = rank_s - pass->attention_s;
    pass->total_s = ring_total(problem, &times, is_backward);
    pass->exposed_s = pass->total_s - rank_s;
    pass->merge_bytes =
        bytes.first_merge + (n_earlier * bytes.earlier_merge + n_later * bytes.later_merge) + bytes.end_merge;
    pass->merge_s =
        times.first_merge_s + (n_earlier * times.earlier_merge_s + n_later * times.later_merge_s) + times.end_merge_s;
    count_transfers(problem, is_backward, &times, pass);
    count_work(problem, is_backward, pass);
}

/* ---- tasks ------------------------------------------------------------------------------------------------------ */

/* What the next step of every rank waits for, as task indexes; -1: nothing yet. */
struct ring_state {
    const struct attention_problem *problem;
    struct task_graph *graph;
    bool is_backward;
    int *compute;  /* last compute task of the rank */
    int *kv;       /* hop that brought the keys and values in use */
    int *gradient; /* hop that brought the gradients so far */
};

static int *indexes(struct task_graph *graph, int value)
{
    int *array = sp_arena_array(graph->arena, (size_t)graph->ranks, sizeof(int));
    for (int64_t i = 0; i < graph->ranks; i++) {
        array[i] = value;
    }
    return array;
}

static enum link_group ring_group(const struct attention_problem *problem)
{
    return problem->traits->exchange == EXCHANGE_HYBRID ? GROUP_OUTER : GROUP_ALL;
}

struct merge { /* bytes of a rank, and the kernels that move them */
    double bytes, kernels;
};

static int add_elementwise(struct ring_state *state, const char *name, int64_t rank, struct merge merge,
                           const int after[2])
{
    struct task task = {.kind = TASK_ELEMENTWISE,
                        .name = name,
                        .rank = rank,
                        .bytes = merge.bytes,
                        .kernels = merge.bytes > 0 ? merge.kernels : 0};
    return task_graph_add(state->graph, &task, after, 2);
}

/* One hop of every rank, begun when both its ends have come to this point: `held` is what a rank passes on. Returns the
 * hop that brings each receiver its next. */
static int *add_hops(struct ring_state *state, const char *name, double bytes, const int *held)
{
    int64_t p = state->graph->ranks;
    int *arrived = indexes(state->graph, -1);
    for (int64_t r = 0; r < p; r++) {
        int64_t next = (r + 1) % p;
        struct task task = {.kind = TASK_HOP,
                            .name = name,
                            .stream = STREAM_LINK,
                            .group = ring_group(state->problem),
                            .rank = r,
                            .peer = next,
                            .bytes = bytes};
        int after[4] = {state->compute[r], held[r], state->compute[next], held[next]};
        arrived[next] = task_graph_add(state->graph, &task, after, 4);
    }
    return arrived;
}

static int *add_gather(struct ring_state *state)
{
    struct task task = {.kind = TASK_COLLECTIVE,
                        .name = "all-gather",
                        .stream = STREAM_LINK,
                        .rank = TASK_ALL_RANKS,
                        .share = 1,
                        .operation = COLLECTIVE_ALL_GATHER,
                        .bytes = gather_bytes(state->problem)};
    return indexes(state->graph, task_graph_add(state->graph, &task, NULL, 0));
}

static struct merge rank_step_merge(const struct ring_state *state, int64_t rank, int64_t step)
{
    const struct attention_problem *problem = state->problem;
    const struct merge_traits *merge = merges(problem, state->is_backward);
    struct token_layout tokens = problem_tokens(problem);
    if (step == 0) {
        return (struct merge){start_bytes(problem, state->is_backward), first_kernels(merge)};
    }
    bool is_skipped = ring_block(&tokens, rank, step).pairs < 1;
    double bytes = is_skipped ? 0 : step_merge_bytes(problem, state->is_backward, step <= rank);
    return (struct merge){bytes, merge->step_kernels};
}

/* The compute of a step on every rank: kernel, then the merge unless merges wait for the end. */
static void add_computes(struct ring_state *state, int64_t step)
{
    struct token_layout tokens = problem_tokens(state->problem);
    bool merges_now = !merges(state->problem, state->is_backward)->is_at_end;
    for (int64_t r = 0; r < state->graph->ranks; r++) {
        struct task kernel = {.kind = TASK_ATTENTION, .name = "attention", .rank = r, .share = 1};
        kernel.attention = problem_call(state->problem, ring_block(&tokens, r, step), state->is_backward);
        int after[2] = {state->compute[r], state->kv[r]};
        int merge_after[2] = {task_graph_add(state->graph, &kernel, after, 2), -1};
        struct merge merge = merges_now ? rank_step_merge(state, r, step) : (struct merge){0, 0};
        state->compute[r] = add_elementwise(state, "merge", r, merge, merge_after);
    }
}

/* A point where every rank waits for its hop. */
static void add_waits(struct ring_state *state, const int *hops)
{
    for (int64_t r = 0; r < state->graph->ranks; r++) {
        int after[2] = {state->compute[r], hops[r]};
        state->compute[r] = add_elementwise(state, "wait", r, (struct merge){0, 0}, after);
    }
}

static void add_end_merges(struct ring_state *state)
{
    const struct merge_traits *merge = merges(state->problem, state->is_backward);
    for (int64_t r = 0; r < state->graph->ranks; r++) {
        struct merge end = {end_bytes(state->problem, state->is_backward, r), merge->end_kernels};
        for (int64_t step = 0; merge->is_at_end && step < state->graph->ranks; step++) {
            end.bytes += rank_step_merge(state, r, step).bytes;
        }
        int after[2] = {state->compute[r], state->gradient[r]};
        state->compute[r] = add_elementwise(state, "merge", r, end, after);
    }
}

/* What travels beside a step in the joined scheme: K and V first, then K, V and gradients, at last gradients. */
static double joined_bytes(const struct ring_state *state, int64_t step)
{
    double kv = problem_kv_bytes(state->problem);
    if (!state->is_backward) {
        return kv;
    }
    double gradient = gradient_hop_bytes(state->problem);
    return step == 0 ? kv : step + 1 < state->graph->ranks ? kv + gradient : gradient;
}

/* Forward, and backward whose gradients hide behind their own step. */
static void emit_joined(struct ring_state *state)
{
    int64_t p = state->graph->ranks;
    for (int64_t step = 0; step < p; step++) {
        bool travels = state->is_backward || step + 1 < p;
        int *next = state->kv;
        if (state->problem->traits->gathers_first) {
            next = step == 0 ? add_gather(state) : state->kv;
        } else if (travels) {
            next = add_hops(state, "hop", joined_bytes(state, step), state->kv);
        }
        add_computes(state, step);
        state->kv = next;
        add_waits(state, state->kv);
    }
}

/* Backward whose gradients trail: the hop of step i is posted at its end and waited for after the compute of step i+1. */
static void emit_trailing(struct ring_state *state)
{
    int64_t p = state->graph->ranks;
    for (int64_t step = 0; step < p; step++) {
        int *next = state->kv;
        if (state->problem->traits->gathers_first) {
            next = step == 0 ? add_gather(state) : state->kv;
        } else if (step + 1 < p) {
            next = add_hops(state, "key-value hop", problem_kv_bytes(state->problem), state->kv);
        }
        add_computes(state, step);
        state->kv = next;
        add_waits(state, state->gradient);
        add_waits(state, state->kv);
        state->gradient = add_hops(state, "gradient hop", gradient_hop_bytes(state->problem), state->gradient);
    }
    add_waits(state, state->gradient);
}

void ring_emit(const struct attention_problem *problem, bool is_backward, struct task_graph *graph, int after)
{
    struct ring_state state = {.problem = problem,
                               .graph = graph,
                               .is_backward = is_backward,
                               .compute = indexes(graph, after),
                               .kv = indexes(graph, -1),
                               .gradient = indexes(graph, -1)};
    if (is_backward && problem->traits->gradients_trail) {
        emit_trailing(&state);
    } else {
        emit_joined(&state);
    }
    add_end_merges(&state);
}

static void emit(const struct attention_problem *problem, bool is_backward, struct task_graph *graph)
{
    ring_emit(problem, is_backward, graph, -1);
}

const struct exchange_ops exchange_ring = {.price = price, .emit = emit};
