/* Projections of a layer: forward, and the two products of backward, with LoRA's thin ones and fp8's casts beside them
 * (docs/model.md, eq. 52). */
#include "step/step_internal.h"

/* A weight gradient accumulated in place in float32 is read and written. */
static const double ACCUMULATED_BYTES = 8;
/* fp8: the operand is read in bf16 and written twice, once transposed for the other product (TransformerEngine). */
static const double FP8_CAST_BYTES = 2 + 1 + 1;

static double all_tokens(const struct projection *projection)
{
    return projection->tokens * projection->groups;
}

static void add_cast(const struct step_shape *shape, struct operator_list *list, const struct projection *projection,
                     double columns)
{
    if (shape->question->layout.precision != DTYPE_FP8) {
        return;
    }
    double bytes = FP8_CAST_BYTES * all_tokens(projection) * columns;
    struct operator_row row = {.name = "fp8 casts",
                               .formula = "4 bytes an operand element / bandwidth (eq. 26)",
                               .source = shape->gpu->elementwise_bandwidth.source,
                               .item = TIME_ELEMENTWISE,
                               .count = 1,
                               .is_attention_class = projection->is_attention,
                               .is_ffn_class = !projection->is_attention,
                               .hbm_bytes = bytes,
                               .time_s = elementwise_time(shape->gpu, bytes, 0)};
    operator_accumulate(list, &row);
}

/* x A and (x A) B of an adapter of rank R, or their gradients. */
static void add_adapter(const struct step_shape *shape, struct operator_list *list, const struct projection *projection,
                        bool is_backward)
{
    double rank = (double)shape->question->run.lora_rank;
    if (rank <= 0) {
        return;
    }
    double size = shape->element;
    const struct gemm_call calls[4] = {
        {.pass = PASS_FORWARD, .m = projection->tokens, .n = rank, .k = projection->in, .output_bytes = size},
        {.pass = PASS_FORWARD, .m = projection->tokens, .n = projection->out, .k = rank, .output_bytes = size},
        {.pass = PASS_WEIGHT_GRADIENT, .m = projection->out, .n = rank, .k = projection->tokens, .output_bytes = size},
        {.pass = PASS_WEIGHT_GRADIENT, .m = rank, .n = projection->in, .k = projection->tokens, .output_bytes = size},
    };
    for (int i = 0; i < (is_backward ? 4 : 2); i++) {
        struct operator_row row = {.name = "LoRA adapters",
                                   .formula = "2 m n k / (rate(k) x waves), or bytes / bandwidth (eq. 23)",
                                   .source = shape->gpu->gemm.source,
                                   .item = TIME_GEMM,
                                   .count = 1,
                                   .is_attention_class = projection->is_attention,
                                   .is_ffn_class = !projection->is_attention,
                                   .flop = gemm_flop(&calls[i]),
                                   .hbm_bytes = gemm_hbm_bytes(&calls[i]),
                                   .time_s = product_time(shape, &calls[i])};
        operator_accumulate(list, &row);
    }
}

void project_forward_frozen(const struct step_shape *shape, struct operator_list *list,
                            const struct projection *projection)
{
    struct gemm_call call = {.pass = PASS_FORWARD,
                             .precision = shape->question->layout.precision,
                             .m = projection->tokens,
                             .n = projection->out,
                             .k = projection->in,
                             .groups = projection->groups,
                             .output_bytes = shape->element};
    operator_mark(operator_gemm(shape, list, projection->forward, &call), projection->is_attention);
    add_cast(shape, list, projection, projection->in);
}

void project_backward_frozen(const struct step_shape *shape, struct operator_list *list,
                             const struct projection *projection)
{
    const struct question *question = &shape->question[0];
    struct gemm_call input = {.pass = PASS_INPUT_GRADIENT,
                              .precision = question->layout.precision,
                              .m = projection->tokens,
                              .n = projection->in,
                              .k = projection->out,
                              .groups = projection->groups,
                              .output_bytes = shape->element};
    bool accumulates = question->software.framework.has_persistent_gradients;
    struct gemm_call weight = {.pass = PASS_WEIGHT_GRADIENT,
                               .precision = question->layout.precision,
                               .m = projection->out,
                               .n = projection->in,
                               .k = projection->tokens,
                               .groups = projection->groups,
                               .output_bytes = accumulates ? ACCUMULATED_BYTES : shape->element};
    operator_mark(operator_gemm(shape, list, projection->input_gradient, &input), projection->is_attention);
    if (question->run.lora_rank == 0) { /* frozen weights have no gradient */
        operator_mark(operator_gemm(shape, list, projection->weight_gradient, &weight), projection->is_attention);
    }
    add_cast(shape, list, projection, projection->out);
}

void project_forward(const struct step_shape *shape, struct operator_list *list, const struct projection *projection)
{
    project_forward_frozen(shape, list, projection);
    add_adapter(shape, list, projection, false);
}

void project_backward(const struct step_shape *shape, struct operator_list *list, const struct projection *projection)
{
    project_backward_frozen(shape, list, projection);
    add_adapter(shape, list, projection, true);
}
