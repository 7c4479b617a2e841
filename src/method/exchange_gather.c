/* All-gather exchange: every rank collects the keys and values of the whole sequence; backward gathers them again and
 * scatters the summed gradients (docs/model.md, eq. 45). Synchronous as TransformerEngine does it, or in pieces that
 * travel while earlier ones are computed (the bound). */
#include "method/method.h"

#include <math.h>

struct gather_times {
    double kernel_s; /* of the slowest rank, whole pass */
    double mean_kernel_s;
    double gather_s;      /* all collectives of keys and values */
    double scatter_s;     /* of their gradients; 0 forward */
    double copy_bytes;    /* reordering after a gather, before a scatter */
    double first_piece_s; /* overlapped: kernels on the rank's own keys, and on one other rank's */
    double later_piece_s;
};

static double gathered_bytes(const struct attention_problem *problem)
{
    return problem_kv_bytes(problem) * (double)problem->ranks;
}

/* One call for all that a rank does: its kernels run side by side, so the work counts, not how it is cut. */
static struct attention_call rank_call(const struct attention_problem *problem, int64_t rank, bool is_backward)
{
    struct token_layout tokens = problem_tokens(problem);
    return problem_call(problem, rank_block(&tokens, rank), is_backward);
}

static struct attention_call mean_call(const struct attention_problem *problem, bool is_backward)
{
    struct token_layout tokens = problem_tokens(problem);
    struct attention_call call = rank_call(problem, 0, is_backward);
    call.block.pairs = mean_pairs(&tokens);
    return call;
}

/* One of the two chunks of a zig-zag shard, which lie apart in the sequence, against all keys up to its end. */
static struct attention_call chunk_call(const struct attention_problem *problem, int64_t rank, int half,
                                        bool is_backward)
{
    double rows = problem->rows / 2;
    double chunk = (double)(half == 0 ? rank : 2 * problem->ranks - 1 - rank);
    double keys = problem->is_full ? problem->rows * (double)problem->ranks : (chunk + 1) * rows;
    double hidden =
        problem->is_full ? 0 : rows * (rows - 1) / 2; /* pairs of the chunk with itself that the mask leaves out */
    struct attention_block block = {.query_rows = rows, .key_rows = keys, .pairs = rows * keys - hidden};
    return problem_call(problem, block, is_backward);
}

static double chunks_time(const struct attention_problem *problem, int64_t rank, bool is_backward)
{
    const struct gpu_spec *gpu = &problem->hardware->gpu;
    struct attention_call first = chunk_call(problem, rank, 0, is_backward);
    struct attention_call second = chunk_call(problem, rank, 1, is_backward);
    return attention_time(gpu, &first) + attention_time(gpu, &second);
}

/* Kernels of the slowest rank, or of the one asked for, and of the mean. */
static void time_chunks(const struct attention_problem *problem, bool is_backward, struct gather_times *times)
{
    if (problem->has_rank) {
        times->kernel_s = times->mean_kernel_s = chunks_time(problem, problem->rank, is_backward);
        return;
    }
    times->kernel_s = times->mean_kernel_s = 0;
    for (int64_t r = 0; r < problem->ranks; r++) {
        double rank_s = chunks_time(problem, r, is_backward);
        times->kernel_s = fmax(times->kernel_s, rank_s);
        times->mean_kernel_s += rank_s / (double)problem->ranks;
    }
}

static double scattered_bytes(const struct attention_problem *problem)
{
    double per_element = problem->traits->gradient_bytes > 0 ? problem->traits->gradient_bytes : problem->element_bytes;
    return problem->traits->gradient_bytes > 0 ? per_element * problem_kv_elements(problem) * (double)problem->ranks
                                               : gathered_bytes(problem);
}

static double copied_bytes(const struct attention_problem *problem, bool is_backward)
{
    const struct method_traits *traits = problem->traits;
    double backward = traits->backward_copy_passes > 0 ? traits->backward_copy_passes : 2 * traits->copy_passes;
    return (is_backward ? backward : traits->copy_passes) * gathered_bytes(problem);
}

static double collectives_time(const struct attention_problem *problem, enum collective operation)
{
    double count = problem->traits->messages;
    double bytes = operation == COLLECTIVE_REDUCE_SCATTER ? scattered_bytes(problem) : gathered_bytes(problem);
    return count * collective_time(problem->hardware, &problem->group, operation, bytes / count);
}

static double piece_time(const struct attention_problem *problem, int64_t step, bool is_backward)
{
    struct token_layout tokens = problem_tokens(problem);
    return problem_attention_time(problem, ring_block(&tokens, problem->ranks - 1, step), is_backward);
}

/* Where their latency counts: one that reorders; backward also one that clears, one that reorders back and one that rounds. */
static double copy_kernels(const struct attention_problem *problem, bool is_backward)
{
    enum { BACKWARD_TIMES = 4 };
    return problem->traits->copy_kernels * (is_backward ? BACKWARD_TIMES : 1);
}

static struct gather_times gather_times_of(const struct attention_problem *problem, bool is_backward)
{
    const struct gpu_spec *gpu = &problem->hardware->gpu;
    const struct method_traits *traits = problem->traits;
    int64_t p = problem->ranks;
    struct gather_times times = {0};
    times.gather_s = collectives_time(problem, COLLECTIVE_ALL_GATHER);
    times.scatter_s = is_backward ? collectives_time(problem, COLLECTIVE_REDUCE_SCATTER) : 0;
    times.copy_bytes = copied_bytes(problem, is_backward);
    if (traits->is_overlapped) {
        times.first_piece_s = piece_time(problem, 0, is_backward);
        times.later_piece_s = piece_time(problem, 1, is_backward);
        times.kernel_s = times.mean_kernel_s = times.first_piece_s + (double)(p - 1) * times.later_piece_s;
    } else if (traits->calls_by_chunk) {
        time_chunks(problem, is_backward, &times);
    } else {
        struct attention_call slowest = rank_call(problem, p - 1, is_backward);
        struct attention_call mean = mean_call(problem, is_backward);
        times.kernel_s = attention_time(gpu, &slowest);
        times.mean_kernel_s = fmin(attention_time(gpu, &mean), times.kernel_s);
    }
    return times;
}

/* Pieces of the gather run ahead of the compute: piece i has arrived after i pieces' time, and what remains follows. */
static double overlapped_forward(const struct gather_times *times, double later)
{
    double piece = times->gather_s / later;
    double compute_bound = times->kernel_s;
    double first_arrival = piece + later * times->later_piece_s;
    double last_arrival = times->gather_s + times->later_piece_s;
    return fmax(compute_bound, fmax(first_arrival, last_arrival));
}

/* As the ring with joined messages: the gradient of a piece leaves while the next one is computed. */
static double overlapped_backward(const struct gather_times *times, double later)
{
    double gather = times->gather_s / later;
    double scatter = times->scatter_s / later;
    return fmax(times->first_piece_s, gather) + (later - 1) * fmax(times->later_piece_s, gather + scatter) +
           fmax(times->later_piece_s, scatter);
}

static void price(const struct attention_problem *problem, bool is_backward, struct method_pass *pass)
{
    const struct gpu_spec *gpu = &problem->hardware->gpu;
    double later = (double)(problem->ranks - 1);
    struct gather_times times = gather_times_of(problem, is_backward);
    pass->merge_bytes = times.copy_bytes;
    pass->merge_s = elementwise_time(gpu, times.copy_bytes, copy_kernels(problem, is_backward));
    if (!problem->traits->is_overlapped) {
        pass->total_s = times.gather_s + times.kernel_s + times.scatter_s + pass->merge_s;
    } else {
        pass->total_s = is_backward ? overlapped_backward(&times, later) : overlapped_forward(&times, later);
    }
    pass->attention_s = times.mean_kernel_s;
    pass->imbalance_s = times.kernel_s - times.mean_kernel_s;
    pass->exposed_s = pass->total_s - times.kernel_s;
    pass->kernels = problem->traits->messages;
    struct attention_call mean = mean_call(problem, is_backward);
    pass->flop = attention_flop(&mean);
    pass->attention_hbm_bytes = attention_hbm_bytes(gpu, &mean);

    double exposed = fmax(pass->exposed_s - pass->merge_s, 0);
    double link = times.gather_s + times.scatter_s;
    double sent = later * problem_kv_bytes(problem);
    double scattered = later * scattered_bytes(problem) / (double)problem->ranks;
    double messages = problem->traits->messages;
    pass->transfers[0] = (struct transfer){
        "all-gather", sent, messages, times.gather_s, exposed * times.gather_s / fmax(link, 1e-300), TIER_NONE};
    if (is_backward) {
        pass->transfers[1] = (struct transfer){
            "reduce-scatter", scattered, messages, times.scatter_s, exposed - pass->transfers[0].exposed_s, TIER_NONE};
    }
}

/* ---- tasks ------------------------------------------------------------------------------------------------------ */

static void emit_collectives(const struct attention_problem *problem, enum collective operation,
                             struct task_graph *graph)
{
    for (int i = 0; i < problem->traits->messages; i++) {
        struct task task = {
            .kind = TASK_COLLECTIVE, .name = collective_names[operation], .rank = TASK_ALL_RANKS, .share = 1};
        task.operation = operation;
        double bytes = operation == COLLECTIVE_REDUCE_SCATTER ? scattered_bytes(problem) : gathered_bytes(problem);
        task.bytes = bytes / problem->traits->messages;
        task_graph_add(graph, &task, NULL, 0);
    }
}

static void add_rank_kernels(const struct attention_problem *problem, int64_t rank, bool is_backward,
                             struct task_graph *graph)
{
    struct task kernel = {.kind = TASK_ATTENTION, .name = "attention", .rank = rank, .share = 1};
    if (!problem->traits->calls_by_chunk) {
        kernel.attention = rank_call(problem, rank, is_backward);
        task_graph_add(graph, &kernel, NULL, 0);
        return;
    }
    for (int half = 0; half < 2; half++) {
        kernel.attention = chunk_call(problem, rank, half, is_backward);
        task_graph_add(graph, &kernel, NULL, 0);
    }
}

static void emit_synchronous(const struct attention_problem *problem, bool is_backward, struct task_graph *graph)
{
    emit_collectives(problem, COLLECTIVE_ALL_GATHER, graph);
    /* those before attention, and backward the rest of them after it */
    double before = problem->traits->copy_passes * gathered_bytes(problem);
    double after = copied_bytes(problem, is_backward) - before;
    double kernels = copy_kernels(problem, false);
    for (int64_t r = 0; r < problem->ranks; r++) {
        struct task copy = {
            .kind = TASK_ELEMENTWISE, .name = "reorder", .rank = r, .bytes = before, .kernels = kernels};
        task_graph_add(graph, &copy, NULL, 0);
        add_rank_kernels(problem, r, is_backward, graph);
        if (is_backward) {
            copy.bytes = after;
            copy.kernels = copy_kernels(problem, true) - kernels;
            task_graph_add(graph, &copy, NULL, 0);
        }
    }
    if (is_backward) {
        emit_collectives(problem, COLLECTIVE_REDUCE_SCATTER, graph);
    }
}

/* One piece of the gather, of the scatter, or both in one turn of the link, on all ranks. */
static int add_piece(const struct attention_problem *problem, struct task_graph *graph, bool gathers, bool scatters,
                     const int *after)
{
    int last = -1;
    for (int i = 0; i < 2; i++) {
        if (!(i == 0 ? gathers : scatters)) {
            continue;
        }
        struct task task = {.kind = TASK_COLLECTIVE, .name = "piece", .stream = STREAM_LINK, .rank = TASK_ALL_RANKS};
        task.operation = i == 0 ? COLLECTIVE_ALL_GATHER : COLLECTIVE_REDUCE_SCATTER;
        task.bytes = gathered_bytes(problem);
        task.share = 1 / (double)(problem->ranks - 1);
        last = task_graph_add(graph, &task, after, after != NULL ? (int)problem->ranks : 0);
    }
    return last;
}

static void add_piece_computes(const struct attention_problem *problem, struct task_graph *graph, int64_t step,
                               int piece, bool is_backward, int *computed)
{
    struct token_layout tokens = problem_tokens(problem);
    for (int64_t r = 0; r < problem->ranks; r++) {
        struct task task = {.kind = TASK_ATTENTION, .name = "attention", .rank = r, .share = 1};
        task.attention = problem_call(problem, ring_block(&tokens, r, step), is_backward);
        computed[r] = task_graph_add(graph, &task, &piece, 1);
    }
}

static void emit_overlapped(const struct attention_problem *problem, bool is_backward, struct task_graph *graph)
{
    int64_t p = problem->ranks;
    int *computed = sp_arena_array(graph->arena, (size_t)p, sizeof(int));
    int *before = sp_arena_array(graph->arena, (size_t)p, sizeof(int));
    int arrived = -1;
    for (int64_t step = 0; step < p; step++) {
        int piece = -1;
        for (int64_t r = 0; r < p; r++) {
            before[r] = step == 0 ? -1 : computed[r];
        }
        if (is_backward) { /* a turn of the link belongs to a step: it begins with it, and the step waits for it */
            piece = add_piece(problem, graph, step + 1 < p, step > 0, before);
        } else if (step + 1 < p) {
            piece = add_piece(problem, graph, true, false, NULL);
        }
        add_piece_computes(problem, graph, step, arrived, is_backward, computed);
        if (is_backward) {
            for (int64_t r = 0; r < p; r++) {
                struct task wait = {.kind = TASK_ELEMENTWISE, .name = "wait", .rank = r};
                int after[2] = {computed[r], piece};
                computed[r] = task_graph_add(graph, &wait, after, 2);
            }
        }
        arrived = piece;
    }
}

static void emit(const struct attention_problem *problem, bool is_backward, struct task_graph *graph)
{
    if (problem->traits->is_overlapped) {
        emit_overlapped(problem, is_backward, graph);
    } else {
        emit_synchronous(problem, is_backward, graph);
    }
}

const struct exchange_ops exchange_gather = {.price = price, .emit = emit};
