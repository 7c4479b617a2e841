/* One attention layer of a question: the problem, its rules, its price and its memory. */
#include "method/method.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static const double FP32_BYTES = 4;

static const struct exchange_ops *const exchanges[N_EXCHANGES] = {
    [EXCHANGE_NONE] = &exchange_local,
    [EXCHANGE_SCORES] = &exchange_scores,
    [EXCHANGE_RING] = &exchange_ring,
    [EXCHANGE_GATHER] = &exchange_gather,
    [EXCHANGE_GATHER_BY_HEAD] = &exchange_gather_by_head,
    [EXCHANGE_ALL_TO_ALL] = &exchange_all_to_all,
    [EXCHANGE_HYBRID] = &exchange_hybrid,
    [EXCHANGE_DOUBLE_RING] = &exchange_double_ring,
    [EXCHANGE_FUSED_RING] = &exchange_fused_ring,
};

/* Ranks of the inner group: neighbours on the sp axis. */
static int64_t inner_ranks(const struct layout_spec *layout)
{
    if (layout->method == METHOD_USP) {
        return layout->sp_ulysses;
    }
    return layout->method == METHOD_DOUBLE_RING ? layout->sp_inner : 1;
}

static void place_groups(const struct question *question, struct attention_problem *problem)
{
    problem->inner_ranks = inner_ranks(&question->layout);
    problem->group = layout_placement(&question->layout, &question->hardware, AXIS_CP);
    problem->inner_group =
        layout_part_placement(&question->layout, &question->hardware, AXIS_CP, problem->inner_ranks, 1);
    problem->outer_group = layout_part_placement(&question->layout, &question->hardware, AXIS_CP,
                                                 problem->ranks / problem->inner_ranks, problem->inner_ranks);
}

/* Share of the SMs that a transfer's kernels hold while attention runs beside them: the hop that decides crosses the
 * network where the group does. */
static double link_sm_share(const struct gpu_spec *gpu, const struct attention_problem *problem)
{
    if (problem->traits->exposes_hops) {
        return 1;
    }
    if (problem->traits->framework == FRAMEWORK_IDEAL) {
        return 0; /* the bound: copy engines move the bytes */
    }
    const struct group_placement *group =
        problem->traits->exchange == EXCHANGE_HYBRID ? &problem->outer_group : &problem->group;
    const struct sp_figure *sms = group->nodes > 1 ? &gpu->network_communication_sms : &gpu->communication_sms;
    return sms->value / gpu->sm_count.value;
}

/* Documents packed into a sequence are sequences of their own: as many more, as much shorter (docs/model.md, eq. 15). */
static void split_documents(const struct run_spec *run, struct attention_problem *problem)
{
    double tokens = problem->rows * (double)problem->ranks;
    if (run->document_tokens > 0 && (double)run->document_tokens < tokens) {
        double documents = tokens / (double)run->document_tokens;
        problem->batch *= documents;
        problem->rows /= documents;
    }
}

struct attention_problem method_problem(const struct question *question, double window)
{
    const struct layout_spec *layout = &question->layout;
    const struct model_spec *model = &question->model;
    struct attention_problem problem = {
        .hardware = &question->hardware,
        .curve = gpu_attention_curve(&question->hardware.gpu, layout->attention),
        .traits = method_traits(layout->method, layout->framework),
        .ranks = layout->sp,
        .batch = (double)layout->micro_batch,
        .rows = (double)question->run.seq / (double)layout->sp,
        .heads = (double)model->n_heads / (double)layout->tp,
        .kv_heads = fmax((double)model->n_kv_heads / (double)layout->tp, 1),
        .head_dim = (double)model->head_dim,
        .value_head_dim = (double)model->value_head_dim,
        .element_bytes = (double)dtype_bytes(activation_dtype(layout->precision)),
        .is_full = question->run.mask == MASK_FULL,
        .window = window,
    };
    assert(problem.traits != NULL);
    if (question->run.expands_kv) {
        problem.kv_heads = problem.heads;
    }
    if (problem.traits->repeats_kv_heads) {
        problem.kv_heads = fmax(problem.kv_heads, (double)problem.ranks);
    }
    place_groups(question, &problem);
    problem.link_sm_share = link_sm_share(&question->hardware.gpu, &problem);
    split_documents(&question->run, &problem);
    return problem;
}

double problem_output_elements(const struct attention_problem *problem)
{
    return problem->batch * problem->rows * problem->heads * problem->value_head_dim;
}

double problem_kv_elements(const struct attention_problem *problem)
{
    return problem->batch * problem->rows * problem->kv_heads * (problem->head_dim + problem->value_head_dim);
}

double problem_query_bytes(const struct attention_problem *problem)
{
    return problem->element_bytes * problem->batch * problem->rows * problem->heads * problem->head_dim;
}

double problem_output_bytes(const struct attention_problem *problem)
{
    return problem->element_bytes * problem_output_elements(problem);
}

double problem_kv_bytes(const struct attention_problem *problem)
{
    return problem->element_bytes * problem_kv_elements(problem);
}

struct token_layout problem_tokens(const struct attention_problem *problem)
{
    return (struct token_layout){.order = problem->traits->order,
                                 .ranks = problem->ranks,
                                 .rows = problem->rows,
                                 .is_full = problem->is_full,
                                 .window = problem->window};
}

struct attention_call problem_call(const struct attention_problem *problem, struct attention_block block,
                                   bool is_backward)
{
    return (struct attention_call){.curve = problem->curve,
                                   .block = block,
                                   .batch = problem->batch,
                                   .heads = problem->heads,
                                   .kv_heads = problem->kv_heads,
                                   .head_dim = problem->head_dim,
                                   .value_head_dim = problem->value_head_dim,
                                   .element_bytes = problem->element_bytes,
                                   .is_backward = is_backward,
                                   .clock_hz = problem->clock_hz,
                                   .is_step = problem->traits->kernel_merges && problem->ranks > 1,
                                   .sums_gradients = problem->traits->calls_by_chunk && problem->ranks > 1};
}

double problem_attention_time(const struct attention_problem *problem, struct attention_block block, bool is_backward)
{
    struct attention_call call = problem_call(problem, block, is_backward);
    return attention_time(&problem->hardware->gpu, &call);
}

double problem_overlapped(const struct attention_problem *problem, double compute_s, double link_s)
{
    return fmax(link_s, compute_s + problem->link_sm_share * link_s);
}

struct shared_gpu { /* a kernel of equal blocks beside a transfer that takes some multiprocessors until it is over */
    double blocks, block_s;
    double sm_count, taken, link_s;
};

static bool has_ended(const struct shared_gpu *gpu, double time_s)
{
    static const double slip = 1e-9; /* of the division of a multiple */
    double others = floor(time_s / gpu->block_s + slip) * (gpu->sm_count - gpu->taken);
    double late = floor(fmax(time_s - gpu->link_s, 0) / gpu->block_s + slip) * gpu->taken;
    return others + late >= gpu->blocks - slip;
}

/* The first moment by which enough whole blocks have begun and ended: a multiple of a block's time from the start, or from the end of
 * the transfer. */
static double whole_blocks_time(const struct shared_gpu *gpu)
{
    double from_start_s = gpu->block_s;
    double from_link_s = gpu->link_s + gpu->block_s;
    while (!has_ended(gpu, from_start_s) && from_start_s < from_link_s + gpu->blocks * gpu->block_s) {
        from_start_s += gpu->block_s;
    }
    while (from_link_s < from_start_s && !has_ended(gpu, from_link_s)) {
        from_link_s += gpu->block_s;
    }
    return fmin(from_start_s, from_link_s);
}

/* A kernel of NCCL and one of a few long blocks: what finds its multiprocessor taken begins when the transfer is over. */
static double beside_transfer(const struct attention_problem *problem, const struct beside *beside, double blocks,
                              double link_s)
{
    enum { FEW_WAVES = 4 };
    double sm_count = problem->hardware->gpu.sm_count.value;
    double taken = problem->link_sm_share * sm_count;
    double waves = ceil(blocks / sm_count);
    double shared_s = beside->kernel_s + problem->link_sm_share * link_s;
    bool is_even = !beside->block.is_causal && beside->kernel_s > 0;
    if (is_even && waves <= FEW_WAVES && taken > 0) {
        const struct shared_gpu gpu = {blocks, beside->kernel_s / waves, sm_count, taken, link_s};
        shared_s = fmax(beside->kernel_s, whole_blocks_time(&gpu));
    }
    return fmax(link_s, shared_s + beside->other_s);
}

/* A copy inside the GPU runs on some of its multiprocessors, at a higher priority: they are its own as soon as a block ends, or at
 * once where enough are idle; and for nothing while the kernel starts. */
static double beside_copy(const struct attention_problem *problem, const struct attention_tiling *tiling,
                          const struct attention_call *call, const struct beside *beside, double link_s)
{
    const struct gpu_spec *gpu = &problem->hardware->gpu;
    const struct attention_harness *harness = &problem->curve->harness;
    double waited_s = link_s >= beside->kernel_s && link_s > 0 ? harness->wait.value : 0;
    if (beside->kernel_s <= 0) {
        return link_s + waited_s + beside->other_s;
    }
    double cycles = attention_cycles(gpu, tiling, call);
    double hz = cycles / beside->kernel_s;
    const struct guest_blocks copies = {harness->copy_sms.value, fmax(link_s * hz - tiling->start.value, 0)};
    double busy_s = attention_cycles_beside(gpu, tiling, call, &copies) / hz;
    return fmax(link_s, busy_s) + waited_s + beside->other_s;
}

double problem_beside(const struct attention_problem *problem, const struct beside *beside, double link_s)
{
    struct attention_call call = problem_call(problem, beside->block, beside->is_backward);
    const struct attention_tiling *tiling = attention_tiling_of(&call);
    if (tiling == NULL) {
        return problem_overlapped(problem, beside->kernel_s + beside->other_s, link_s);
    }
    return problem->is_local ? beside_copy(problem, tiling, &call, beside, link_s)
                             : beside_transfer(problem, beside, attention_thread_blocks(tiling, &call), link_s);
}

/* On one rank every exchange but the materialised scores is the plain kernel. */
static const struct exchange_ops *exchange_of(const struct attention_problem *problem)
{
    enum exchange exchange = problem->traits->exchange;
    return exchanges[problem->ranks == 1 && exchange != EXCHANGE_SCORES ? EXCHANGE_NONE : exchange];
}

void method_price(const struct attention_problem *problem, bool is_backward, struct method_pass *pass)
{
    *pass = (struct method_pass){0};
    exchange_of(problem)->price(problem, is_backward, pass);
    for (int i = 0; i < MAX_TRANSFERS; i++) { /* exchanges with groups of their own have said so */
        if (pass->transfers[i].tier == TIER_NONE) {
            pass->transfers[i].tier = problem->group.tier;
        }
    }
}

void method_emit(const struct attention_problem *problem, bool is_backward, struct task_graph *graph)
{
    exchange_of(problem)->emit(problem, is_backward, graph);
}

double attention_workspace_bytes(const struct attention_problem *problem)
{
    return FP32_BYTES * problem->batch * problem->rows * problem->heads * (problem->head_dim + 1);
}

static double buffer_bytes(const struct attention_problem *problem, const struct buffer_traits *buffers)
{
    double sequence = problem->rows * (double)problem->ranks;
    /* the ring of a hybrid has fewer ranks; an all-to-all conserves the bytes of q, k, v and o */
    bool is_hybrid = problem->traits->exchange == EXCHANGE_HYBRID;
    double p = (double)(is_hybrid ? problem->ranks / problem->inner_ranks : problem->ranks);
    double kv = problem_kv_bytes(problem);
    double scores = problem->batch * problem->heads * sequence * sequence;
    double hop_kv = p > 2 ? buffers->kv_after_first_hop : 0;
    return buffers->q * problem_query_bytes(problem) + (buffers->kv + hop_kv + buffers->gathered_kv * p) * kv +
           buffers->gathered_head * p * kv / problem->kv_heads +
           buffers->step_output * p * problem_output_bytes(problem) +
           buffers->log_sum_exp * FP32_BYTES * problem->batch * problem->rows * problem->heads +
           buffers->score * problem->element_bytes * scores;
}

/* Fewer key-value heads than query heads: FlashAttention-2 forms dK and dV of every query head before it sums them, the
 * later ones accumulate them in float32 (sources of both: flash_api.cpp, backward). One kernel's keys: an exchange of
 * gathered ones has all P shards before it at once, by head a group of them. */
static double grouped_gradient_bytes(const struct attention_problem *problem, bool is_alone)
{
    enum exchange exchange = problem->traits->exchange;
    const char *kernel = problem->curve->kernel;
    if (problem->kv_heads >= problem->heads) {
        return 0;
    }
    bool is_gathered = !is_alone && (exchange == EXCHANGE_GATHER || exchange == EXCHANGE_GATHER_BY_HEAD);
    double shards = is_gathered ? (double)problem->ranks : 1;
    double groups = !is_alone && exchange == EXCHANGE_GATHER_BY_HEAD ? problem->kv_heads : 1;
    double keys = shards / groups * problem_kv_elements(problem);
    if (strcmp(kernel, "fa2") == 0) {
        return problem->element_bytes * keys * problem->heads / problem->kv_heads;
    }
    return strcmp(kernel, "fa3") == 0 || strcmp(kernel, "fa4") == 0 ? FP32_BYTES * keys : 0;
}

void method_memory(const struct attention_problem *problem, struct method_memory *memory)
{
    const struct method_traits *traits = problem->traits;
    bool is_alone = problem->ranks == 1 && traits->exchange != EXCHANGE_SCORES;
    struct buffer_traits plain_backward = {.q = 1, .kv = 1}; /* dq, dk, dv */
    struct buffer_traits none = {0};
    double sequence = problem->rows * (double)problem->ranks;
    memory->forward_buffer_bytes = buffer_bytes(problem, is_alone ? &none : &traits->forward_buffers);
    memory->backward_buffer_bytes = buffer_bytes(problem, is_alone ? &plain_backward : &traits->backward_buffers);
    if (traits->exchange == EXCHANGE_HYBRID && problem->inner_ranks > 1) {
        /* the ring runs on exchanged copies while the caller still holds q, k and v */
        memory->forward_buffer_bytes += problem_query_bytes(problem) + problem_kv_bytes(problem);
    }
    if (traits->exchange != EXCHANGE_SCORES && (is_alone || !traits->backward_is_whole)) {
        /* the same for every split: rows x heads are conserved by an all-to-all */
        memory->backward_buffer_bytes += attention_workspace_bytes(problem);
    }
    if (traits->exchange != EXCHANGE_SCORES && (is_alone || !traits->backward_is_whole)) {
        memory->backward_buffer_bytes += grouped_gradient_bytes(problem, is_alone);
    }
    memory->saved_bytes = is_alone ? 0 : traits->saved_output * problem_output_bytes(problem);
    memory->saved_bytes +=
        traits->saved_score * problem->element_bytes * problem->batch * problem->heads * sequence * sequence;
}
