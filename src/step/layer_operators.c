/* The operators of one decoder layer, forward and backward (docs/model.md, section 5). */
#include "step/step_internal.h"

static const double BF16_BYTES = 2;
/* A weight gradient accumulated in place in float32 is read and written. */
static const double ACCUMULATED_BYTES = 8;

struct projection {
    const char *forward, *input_gradient, *weight_gradient; /* names */
    double out, in;                                         /* columns out, columns in */
    bool is_attention;
};

static void mark_class(struct operator_row *row, bool is_attention)
{
    if (row != NULL) {
        row->is_attention_class = is_attention;
        row->is_ffn_class = !is_attention;
    }
}

enum { N_PROJECTIONS = 4 };

static void projections(const struct step_shape *shape, struct projection out[N_PROJECTIONS])
{
    double query = shape->heads * shape->head_dim;
    double key_value = 2 * shape->kv_heads * shape->head_dim;
    out[0] = (struct projection){"qkv projection", "qkv input gradient", "qkv weight gradient", query + key_value, shape->hidden, true};
    out[1] = (struct projection){"output projection", "output input gradient", "output weight gradient", shape->hidden, query, true};
    out[2] = (struct projection){"gate and up", "gate and up input gradient", "gate and up weight gradient", 2 * shape->ffn, shape->hidden, false};
    out[3] = (struct projection){"down", "down input gradient", "down weight gradient", shape->hidden, shape->ffn, false};
}

static void add_projections_forward(const struct step_shape *shape, struct operator_list *list)
{
    struct projection all[N_PROJECTIONS];
    projections(shape, all);
    for (int i = 0; i < N_PROJECTIONS; i++) {
        struct gemm_call call = {.pass = PASS_FORWARD, .m = shape->tokens, .n = all[i].out, .k = all[i].in, .output_bytes = BF16_BYTES};
        mark_class(operator_gemm(shape, list, all[i].forward, STEP_FORWARD, &call), all[i].is_attention);
    }
}

static void add_projections_backward(const struct step_shape *shape, struct operator_list *list)
{
    struct projection all[N_PROJECTIONS];
    projections(shape, all);
    bool accumulates = shape->question->software.framework.has_persistent_gradients;
    for (int i = N_PROJECTIONS - 1; i >= 0; i--) {
        struct gemm_call input = {.pass = PASS_INPUT_GRADIENT, .m = shape->tokens, .n = all[i].in, .k = all[i].out, .output_bytes = BF16_BYTES};
        struct gemm_call weight = {.pass = PASS_WEIGHT_GRADIENT, .m = all[i].out, .n = all[i].in, .k = shape->tokens,
                                   .output_bytes = accumulates ? ACCUMULATED_BYTES : BF16_BYTES};
        mark_class(operator_gemm(shape, list, all[i].input_gradient, STEP_BACKWARD, &input), all[i].is_attention);
        mark_class(operator_gemm(shape, list, all[i].weight_gradient, STEP_BACKWARD, &weight), all[i].is_attention);
    }
}

static void add_latencies(const struct step_shape *shape, struct operator_list *list, enum step_pass pass, double kernels)
{
    struct operator_row row = {.name = "latency of element-wise kernels", .formula = "kernels x kernel latency (eq. 26)",
                               .source = shape->gpu->kernel_latency.source, .pass = pass, .item = TIME_ELEMENTWISE, .count = kernels,
                               .time_s = shape->gpu->kernel_latency.value};
    operator_add(list, &row);
}

static void add_elementwise(const struct step_shape *shape, struct operator_list *list, enum step_pass pass)
{
    const struct kernels_spec *kernels = &shape->question->software.kernels;
    bool is_forward = pass == STEP_FORWARD;
    double hidden = is_forward ? kernels->forward_hidden_passes.value : kernels->backward_hidden_passes.value;
    double ffn = is_forward ? kernels->forward_ffn_passes.value : kernels->backward_ffn_passes.value;
    double rope = is_forward ? kernels->forward_rope_passes.value : kernels->backward_rope_passes.value;
    double join = is_forward ? 0 : kernels->backward_qkv_passes.value;
    operator_elementwise(shape, list, "norms and residual additions", pass, hidden * shape->hidden_bytes / shape->token_split);
    if (shape->question->model.has_qk_norm) { /* one more norm over q and k: as many passes as one of the two above */
        mark_class(operator_elementwise(shape, list, "norm of q and k", pass, (is_forward ? 2 : 3) * shape->qk_bytes), true);
    }
    mark_class(operator_elementwise(shape, list, "rotary embedding", pass, rope * shape->qk_bytes), true);
    mark_class(operator_elementwise(shape, list, "join q, k, v gradients", pass, join * shape->qkv_bytes), true);
    mark_class(operator_elementwise(shape, list, "gated activation", pass, ffn * shape->ffn_bytes), false);
    add_latencies(shape, list, pass, is_forward ? kernels->forward_kernels.value : kernels->backward_kernels.value);
}

static void add_attention(const struct step_shape *shape, struct operator_list *list, enum step_pass pass, const struct method_pass *cost)
{
    const struct attention_problem *problem = &shape->attention;
    double ranks = (double)problem->ranks;
    struct operator_row kernels = {.name = "attention", .formula = "4 (forward) or 10 (backward) B H d pairs / rate (eq. 20, 21)",
                                   .source = problem->curve->source, .pass = pass, .item = TIME_ATTENTION, .is_attention_class = true,
                                   .count = 1, .m = problem->rows, .n = problem->rows * ranks, .k = problem->heads, .flop = cost->flop,
                                   .hbm_bytes = cost->attention_hbm_bytes, .time_s = cost->attention_s};
    struct operator_row imbalance = {.name = "attention of the slowest rank beyond the mean", .formula = "slowest - mean (eq. 13)",
                                     .source = problem->traits->source, .pass = pass, .item = TIME_IMBALANCE, .count = 1,
                                     .time_s = cost->imbalance_s};
    struct operator_row merges = {.name = "merges and copies of the method", .formula = "bytes of the traits row / bandwidth (eq. 43)",
                                  .source = problem->traits->source, .pass = pass, .item = TIME_SP_EXPOSED, .is_attention_class = true,
                                  .count = 1, .hbm_bytes = cost->merge_bytes, .time_s = cost->merge_s};
    operator_add(list, &kernels);
    operator_add(list, &imbalance);
    operator_add(list, &merges);
    for (int i = 0; i < MAX_TRANSFERS && cost->transfers[i].operation != NULL; i++) {
        const struct transfer *t = &cost->transfers[i];
        struct operator_row exchange = {.name = "exchange of the method", .formula = "what its kernels do not hide (eq. 40-46)",
                                        .source = problem->traits->source, .pass = pass, .item = TIME_SP_EXPOSED,
                                        .is_attention_class = true, .count = 1, .hbm_bytes = 2 * t->sent_bytes, .time_s = t->exposed_s,
                                        .operation = t->operation, .axis = AXIS_CP, .tier = problem->group.tier,
                                        .sent_bytes = t->sent_bytes, .messages = t->messages, .link_s = t->link_s};
        operator_add(list, &exchange);
    }
}

/* Megatron's tensor parallelism (eq. 52): with sequence parallelism each block gathers its input and scatters its output;
 * backward gathers the output gradient, scatters the input gradient, and gathers the saved input again unless it was
 * kept. Without it each block all-reduces once per pass. */
static void add_tensor_parallel(const struct step_shape *shape, struct operator_list *list, enum step_pass pass)
{
    if (shape->tp_group.size <= 1) {
        return;
    }
    double bytes = shape->hidden_bytes;
    if (!shape->question->layout.has_tp_sp) {
        operator_collective(shape, list, "tp all-reduce", AXIS_TP, COLLECTIVE_ALL_REDUCE, bytes, 2);
    } else {
        bool gathers_again = pass == STEP_BACKWARD && !shape->question->software.framework.saves_gathered_input;
        operator_collective(shape, list, "tp all-gather", AXIS_TP, COLLECTIVE_ALL_GATHER, bytes, gathers_again ? 4 : 2);
        operator_collective(shape, list, "tp reduce-scatter", AXIS_TP, COLLECTIVE_REDUCE_SCATTER, bytes, 2);
    }
}

/* ZeRO 3: weights gathered before each pass of the layer, gradients scattered after it, every micro-batch (eq. 55). */
static void add_sharded_weights(const struct step_shape *shape, struct operator_list *list, enum step_pass pass)
{
    if (shape->question->layout.zero < 3 || shape->shard_group.size <= 1) {
        return;
    }
    double parameters = rank_layer_parameters(shape);
    operator_collective(shape, list, "dp all-gather of weights", AXIS_DP, COLLECTIVE_ALL_GATHER, BF16_BYTES * parameters, 1);
    if (pass == STEP_BACKWARD) {
        operator_collective(shape, list, "dp reduce-scatter of gradients", AXIS_DP, COLLECTIVE_REDUCE_SCATTER,
                            shape->gradient_size * parameters, 1);
    }
}

static void set_pass(struct operator_list *list, enum step_pass pass)
{
    for (int i = 0; i < list->n; i++) {
        list->rows[i].pass = pass;
        list->rows[i].is_of_layer = true;
    }
}

/* What backward repeats. Full and block: the forward pass with its exchanges; its weights are gathered once for both, so
 * that gather stays with the backward. Selective: attention and its exchange. */
static void copy_repeated(const struct layer_operators *layer, bool is_selective, struct operator_list *list)
{
    const struct operator_list *forward = &layer->forward;
    for (int i = 0; i < forward->n; i++) {
        enum time_item item = forward->rows[i].item;
        bool is_attention = item == TIME_ATTENTION || item == TIME_IMBALANCE || item == TIME_SP_EXPOSED;
        if (item != TIME_DP_EXPOSED && (is_attention || !is_selective)) {
            operator_add(list, &forward->rows[i]);
        }
    }
}

void price_layer(const struct step_shape *shape, struct layer_operators *layer)
{
    enum recompute_kind recompute = shape->question->layout.recompute;
    layer->forward.n = layer->backward.n = layer->reforward.n = 0;
    method_price(&shape->attention, false, &layer->attention_forward);
    method_price(&shape->attention, true, &layer->attention_backward);
    add_projections_forward(shape, &layer->forward);
    add_attention(shape, &layer->forward, STEP_FORWARD, &layer->attention_forward);
    add_elementwise(shape, &layer->forward, STEP_FORWARD);
    add_tensor_parallel(shape, &layer->forward, STEP_FORWARD);
    add_sharded_weights(shape, &layer->forward, STEP_FORWARD);
    set_pass(&layer->forward, STEP_FORWARD);
    add_projections_backward(shape, &layer->backward);
    add_attention(shape, &layer->backward, STEP_BACKWARD, &layer->attention_backward);
    add_elementwise(shape, &layer->backward, STEP_BACKWARD);
    add_tensor_parallel(shape, &layer->backward, STEP_BACKWARD);
    add_sharded_weights(shape, &layer->backward, STEP_BACKWARD);
    set_pass(&layer->backward, STEP_BACKWARD);
    if (recompute != RECOMPUTE_NONE) {
        copy_repeated(layer, recompute == RECOMPUTE_SELECTIVE, &layer->reforward);
        set_pass(&layer->reforward, STEP_RECOMPUTE);
    }
}
