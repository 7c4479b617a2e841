/* Ring exchange: keys and values travel from neighbour to neighbour while each rank computes with what it holds
 * (docs/model.md, eq. 40-44).
 *
 * Every rank posts the hop of step i when the step begins and waits for it when the step's compute is done, so a step
 * lasts max(compute, hop) and the last one has no key-value hop. The slowest rank is P-1 in every token order: no rank
 * computes or merges more in any step, and its neighbour never starts a step later than it does. */
#include "method/method.h"

#include <assert.h>
#include <math.h>

/* What the slowest rank does in a step: its own block first, then P-1 blocks of keys from earlier ranks. */
struct ring_times {
    double first_kernel_s;
    double later_kernel_s;
    double mean_kernel_s; /* over ranks and steps, times P: a mean rank's kernels */
    double first_merge_s; /* inside the step, before its end */
    double later_merge_s;
    double end_merge_s;
    double kv_hop_s;
    double gradient_hop_s;
    double joined_hop_s; /* K, V and their gradients as one message */
};

struct ring_bytes {
    double kv;
    double gradient;
    double first_merge, later_merge, end_merge; /* slowest rank */
};

static const struct merge_traits *merges(const struct attention_problem *problem, bool is_backward)
{
    const struct method_traits *traits = problem->traits;
    return is_backward ? &traits->backward_merge : &traits->forward_merge;
}

static double output_elements(const struct attention_problem *problem)
{
    return problem->batch * problem->rows * problem->heads * problem->head_dim;
}

/* Bytes merged in one step of rank r; keys from a later rank make it a partial step. */
static double step_merge_bytes(const struct attention_problem *problem, bool is_backward, bool is_full)
{
    const struct merge_traits *merge = merges(problem, is_backward);
    double kv_elements = 2 * problem->batch * problem->rows * problem->kv_heads * problem->head_dim;
    double per_output = is_full ? merge->full_step : merge->partial_step;
    return per_output * output_elements(problem) + merge->kv_step * kv_elements;
}

static struct ring_bytes ring_bytes_of(const struct attention_problem *problem, bool is_backward)
{
    const struct merge_traits *merge = merges(problem, is_backward);
    double outputs = output_elements(problem);
    struct ring_bytes bytes = {.kv = problem_kv_bytes(problem)};
    bytes.gradient = bytes.kv * problem->traits->gradient_scale;
    double start = merge->start * outputs;
    double step = step_merge_bytes(problem, is_backward, true);
    double end = merge->end * outputs;
    if (merge->is_at_end) {
        bytes.end_merge = start + step * (double)(problem->ranks - 1) + end;
    } else {
        bytes.first_merge = start;
        bytes.later_merge = step;
        bytes.end_merge = end;
    }
    return bytes;
}

static double kernel_time(const struct attention_problem *problem, int64_t rank, int64_t step, bool is_backward)
{
    struct attention_block block = ring_block(problem->traits->order, problem->ranks, rank, step, problem->rows);
    struct attention_call call = problem_call(problem, block, is_backward);
    return attention_time(&problem->hardware->gpu, &call);
}

static struct ring_times ring_times_of(const struct attention_problem *problem, bool is_backward)
{
    const struct gpu_spec *gpu = &problem->hardware->gpu;
    int64_t p = problem->ranks;
    struct ring_bytes bytes = ring_bytes_of(problem, is_backward);
    struct ring_times times = {0};
    times.first_kernel_s = kernel_time(problem, p - 1, 0, is_backward);
    times.later_kernel_s = kernel_time(problem, p - 1, 1, is_backward);
    /* of all P (P-1) later steps half have keys from an earlier rank, half from a later one */
    double from_later_s = kernel_time(problem, 0, 1, is_backward);
    times.mean_kernel_s = times.first_kernel_s + (double)(p - 1) * (times.later_kernel_s + from_later_s) / 2;
    times.first_merge_s = elementwise_time(gpu, bytes.first_merge, 0);
    times.later_merge_s = elementwise_time(gpu, bytes.later_merge, 0);
    times.end_merge_s = elementwise_time(gpu, bytes.end_merge, 0);
    times.kv_hop_s = hop_time(problem->hardware, &problem->group, bytes.kv);
    times.gradient_hop_s = hop_time(problem->hardware, &problem->group, bytes.gradient);
    times.joined_hop_s = hop_time(problem->hardware, &problem->group, bytes.kv + bytes.gradient);
    return times;
}

static double forward_total(const struct ring_times *times, double later_steps)
{
    double first = times->first_kernel_s + times->first_merge_s;
    double later = times->later_kernel_s + times->later_merge_s;
    return fmax(first, times->kv_hop_s) + (later_steps - 1) * fmax(later, times->kv_hop_s) + later + times->end_merge_s;
}

static double backward_total(const struct ring_times *times, double later_steps, bool gradients_trail)
{
    double first = times->first_kernel_s + times->first_merge_s;
    double later = times->later_kernel_s + times->later_merge_s;
    double total = fmax(first, times->kv_hop_s);
    if (gradients_trail) {
        /* the gradient hop of step i-1 and the key-value hop of step i share the link while step i computes */
        total += (later_steps - 1) * fmax(later, times->kv_hop_s + times->gradient_hop_s);
        total += fmax(later, times->gradient_hop_s) + times->gradient_hop_s;
    } else {
        total += (later_steps - 1) * fmax(later, times->joined_hop_s) + fmax(later, times->gradient_hop_s);
    }
    return total + times->end_merge_s;
}

/* Work of the mean rank, for FLOPs and HBM traffic. */
static void count_work(const struct attention_problem *problem, bool is_backward, struct method_pass *pass)
{
    const struct gpu_spec *gpu = &problem->hardware->gpu;
    int64_t p = problem->ranks;
    double half = (double)(p - 1) / 2;
    const int64_t steps[3][2] = {{0, 0}, {p - 1, 1}, {0, 1}}; /* (rank, step): own, from earlier, from later */
    const double counts[3] = {1, half, half};
    for (int i = 0; i < 3; i++) {
        struct attention_block block = ring_block(problem->traits->order, p, steps[i][0], steps[i][1], problem->rows);
        if (block.pairs < 1) {
            continue;
        }
        struct attention_call call = problem_call(problem, block, is_backward);
        pass->flop += counts[i] * attention_flop(&call);
        pass->attention_hbm_bytes += counts[i] * attention_hbm_bytes(gpu, &call);
    }
}

static void price(const struct attention_problem *problem, bool is_backward, struct method_pass *pass)
{
    const struct method_traits *traits = problem->traits;
    double later_steps = (double)(problem->ranks - 1);
    struct ring_times times = ring_times_of(problem, is_backward);
    struct ring_bytes bytes = ring_bytes_of(problem, is_backward);
    double slowest_s = times.first_kernel_s + later_steps * times.later_kernel_s;
    pass->attention_s = times.mean_kernel_s;
    pass->imbalance_s = slowest_s - times.mean_kernel_s;
    pass->total_s = is_backward ? backward_total(&times, later_steps, traits->gradients_trail) : forward_total(&times, later_steps);
    pass->exposed_s = pass->total_s - slowest_s;
    pass->merge_bytes = bytes.first_merge + later_steps * bytes.later_merge + bytes.end_merge;
    pass->merge_s = times.first_merge_s + later_steps * times.later_merge_s + times.end_merge_s;

    double gradient_hops = !is_backward ? 0 : traits->gradients_trail ? later_steps + 1 : later_steps;
    struct transfer *transfer = &pass->transfers[0];
    transfer->operation = "ring";
    transfer->sent_bytes = later_steps * bytes.kv + gradient_hops * bytes.gradient;
    bool is_joined = is_backward && !traits->gradients_trail;
    transfer->messages = traits->messages * (is_joined ? later_steps + 1 : later_steps + gradient_hops);
    transfer->link_s = is_joined ? times.kv_hop_s + (later_steps - 1) * times.joined_hop_s + times.gradient_hop_s
                                 : later_steps * times.kv_hop_s + gradient_hops * times.gradient_hop_s;
    transfer->exposed_s = fmax(pass->exposed_s - pass->merge_s, 0);
    count_work(problem, is_backward, pass);
}

/* ---- tasks ------------------------------------------------------------------------------------------------------ */

/* What step i of every rank waits for, as task indexes; -1: nothing yet. */
struct ring_state {
    int *compute;  /* last compute task of the rank */
    int *kv;       /* hop that brought the keys and values in use */
    int *gradient; /* hop that brought the gradients so far */
};

static int add_attention(const struct attention_problem *problem, struct task_graph *graph, int64_t rank, int64_t step,
                         const int after[2], bool is_backward)
{
    struct attention_block block = ring_block(problem->traits->order, problem->ranks, rank, step, problem->rows);
    struct task task = {.kind = TASK_ATTENTION, .name = "attention", .rank = rank, .share = 1};
    task.attention = problem_call(problem, block, is_backward);
    return task_graph_add(graph, &task, after, 2);
}

static int add_merge(struct task_graph *graph, int64_t rank, double bytes, const int after[2])
{
    struct task task = {.kind = TASK_ELEMENTWISE, .name = "merge", .rank = rank, .bytes = bytes};
    return task_graph_add(graph, &task, after, 2);
}

/* A hop starts when both ends have begun the step: after[] of the sender and of the receiver. */
static int add_hop(struct task_graph *graph, const char *name, int64_t rank, double bytes, const int after[4])
{
    struct task task = {.kind = TASK_HOP, .name = name, .stream = STREAM_LINK, .rank = rank, .peer = (rank + 1) % graph->ranks, .bytes = bytes};
    return task_graph_add(graph, &task, after, 4);
}

static struct ring_state ring_state_new(struct task_graph *graph)
{
    size_t n = (size_t)graph->ranks;
    struct ring_state state = {sp_arena_array(graph->arena, n, sizeof(int)), sp_arena_array(graph->arena, n, sizeof(int)),
                               sp_arena_array(graph->arena, n, sizeof(int))};
    for (size_t i = 0; i < n; i++) {
        state.compute[i] = state.kv[i] = state.gradient[i] = -1;
    }
    return state;
}

/* One hop of every rank, begun at the current state of both its ends; arrived[receiver] becomes the hop. */
static void add_hops(struct task_graph *graph, const struct ring_state *state, const char *name, double bytes, int *arrived)
{
    int64_t p = graph->ranks;
    int *hops = sp_arena_array(graph->arena, (size_t)p, sizeof(int));
    for (int64_t r = 0; r < p; r++) {
        int64_t next = (r + 1) % p;
        int after[4] = {state->compute[r], arrived[r], state->compute[next], arrived[next]};
        hops[r] = add_hop(graph, name, r, bytes, after);
    }
    for (int64_t r = 0; r < p; r++) {
        arrived[(r + 1) % p] = hops[r];
    }
}

static double rank_step_merge(const struct attention_problem *problem, int64_t rank, int64_t step, bool is_backward)
{
    const struct merge_traits *merge = merges(problem, is_backward);
    struct attention_block block = ring_block(problem->traits->order, problem->ranks, rank, step, problem->rows);
    if (step == 0) {
        return merge->start * output_elements(problem);
    }
    return block.pairs < 1 ? 0 : step_merge_bytes(problem, is_backward, step <= rank);
}

/* The compute of step i on every rank: kernel, then the merge unless merges wait for the end. */
static void add_computes(const struct attention_problem *problem, struct task_graph *graph, struct ring_state *state, int64_t step,
                         bool is_backward)
{
    bool merges_now = !merges(problem, is_backward)->is_at_end;
    for (int64_t r = 0; r < graph->ranks; r++) {
        int after[2] = {state->compute[r], state->kv[r]};
        int kernel = add_attention(problem, graph, r, step, after, is_backward);
        int merge_after[2] = {kernel, -1};
        double bytes = merges_now ? rank_step_merge(problem, r, step, is_backward) : 0;
        state->compute[r] = add_merge(graph, r, bytes, merge_after);
    }
}

static void add_end_merges(const struct attention_problem *problem, struct task_graph *graph, struct ring_state *state, bool is_backward)
{
    const struct merge_traits *merge = merges(problem, is_backward);
    for (int64_t r = 0; r < graph->ranks; r++) {
        double bytes = merge->end * output_elements(problem);
        for (int64_t step = 0; merge->is_at_end && step < graph->ranks; step++) {
            bytes += rank_step_merge(problem, r, step, is_backward);
        }
        int after[2] = {state->compute[r], state->gradient[r]};
        state->compute[r] = add_merge(graph, r, bytes, after);
    }
}

/* A step of the ring ends when its compute is done and its hops have arrived. */
static void end_step(struct task_graph *graph, struct ring_state *state, bool waits_for_gradient)
{
    for (int64_t r = 0; r < graph->ranks; r++) {
        int after[2] = {state->compute[r], waits_for_gradient ? state->gradient[r] : state->kv[r]};
        state->compute[r] = add_merge(graph, r, 0, after);
    }
}

static void emit_forward(const struct attention_problem *problem, struct task_graph *graph, struct ring_state *state)
{
    double kv = problem_kv_bytes(problem);
    for (int64_t step = 0; step < graph->ranks; step++) {
        struct ring_state begun = *state;
        if (step + 1 < graph->ranks) { /* posted before the step's compute, from what the rank holds now */
            int *arrived = sp_arena_array(graph->arena, (size_t)graph->ranks, sizeof(int));
            for (int64_t r = 0; r < graph->ranks; r++) {
                arrived[r] = state->kv[r];
            }
            add_hops(graph, &begun, "key-value hop", kv, arrived);
            add_computes(problem, graph, state, step, false);
            state->kv = arrived;
        } else {
            add_computes(problem, graph, state, step, false);
        }
        end_step(graph, state, false);
    }
}

/* Gradients hide behind their own step: step 0 sends K and V, steps 1..P-2 send K, V, dK and dV, the last dK and dV. */
static void emit_backward_joined(const struct attention_problem *problem, struct task_graph *graph, struct ring_state *state)
{
    double kv = problem_kv_bytes(problem);
    double gradient = kv * problem->traits->gradient_scale;
    int64_t p = graph->ranks;
    for (int64_t step = 0; step < p; step++) {
        double bytes = step == 0 ? kv : step + 1 < p ? kv + gradient : gradient;
        int *arrived = sp_arena_array(graph->arena, (size_t)p, sizeof(int));
        for (int64_t r = 0; r < p; r++) {
            arrived[r] = state->kv[r];
        }
        add_hops(graph, state, "key-value and gradient hop", bytes, arrived);
        add_computes(problem, graph, state, step, true);
        state->kv = arrived;
        end_step(graph, state, false);
    }
}

/* Gradients trail: the hop of step i is posted at its end and waited for after the compute of step i+1; the merge of dK
 * and dV needs it. */
static void emit_backward_trailing(const struct attention_problem *problem, struct task_graph *graph, struct ring_state *state)
{
    double kv = problem_kv_bytes(problem);
    int64_t p = graph->ranks;
    for (int64_t step = 0; step < p; step++) {
        int *arrived = sp_arena_array(graph->arena, (size_t)p, sizeof(int));
        for (int64_t r = 0; r < p; r++) {
            arrived[r] = state->kv[r];
        }
        if (step + 1 < p) {
            add_hops(graph, state, "key-value hop", kv, arrived);
        }
        add_computes(problem, graph, state, step, true);
        state->kv = arrived;
        if (step > 0) {
            end_step(graph, state, true);
        }
        end_step(graph, state, false);
        add_hops(graph, state, "gradient hop", kv * problem->traits->gradient_scale, state->gradient);
    }
    end_step(graph, state, true);
}

static void emit(const struct attention_problem *problem, bool is_backward, struct task_graph *graph)
{
    struct ring_state state = ring_state_new(graph);
    if (!is_backward) {
        emit_forward(problem, graph, &state);
    } else if (problem->traits->gradients_trail) {
        emit_backward_trailing(problem, graph, &state);
    } else {
        emit_backward_joined(problem, graph, &state);
    }
    add_end_merges(problem, graph, &state, is_backward);
}

const struct exchange_ops exchange_ring = {.price = price, .emit = emit};
