/* Embedding, output layer and loss, and what ends a step: gradient reduction and the optimizer (docs/model.md, eq. 53-57). */
#include "step/step_internal.h"

static const double BF16_BYTES = 2;
static const double FP32_BYTES = 4;
static const double ACCUMULATED_BYTES = 8;
/* Values per token that vocabulary-parallel cross entropy reduces over tp: maximum, sum of exponentials, target logit. */
static const double LOSS_VALUES_PER_TOKEN = 3;

static void set_pass(struct operator_list *list, enum step_pass pass)
{
    for (int i = 0; i < list->n; i++) {
        list->rows[i].pass = pass;
    }
}

/* A hidden tensor crosses between split and whole around a vocabulary that is split over tp. */
static void add_vocab_exchange(const struct step_shape *shape, struct operator_list *list, enum collective with_tp_sp, double count)
{
    if (shape->tp_group.size <= 1 || !shape->question->run.is_vocab_parallel) {
        return;
    }
    bool is_split = shape->question->layout.has_tp_sp;
    const char *name = !is_split ? "tp all-reduce (vocabulary)" : with_tp_sp == COLLECTIVE_ALL_GATHER ? "tp all-gather (vocabulary)" : "tp reduce-scatter (vocabulary)";
    operator_collective(shape, list, name, AXIS_TP, is_split ? with_tp_sp : COLLECTIVE_ALL_REDUCE, shape->hidden_bytes, count);
}

/* ZeRO 3 gathers a table before its use and scatters its gradient. */
static void add_sharded_table(const struct step_shape *shape, struct operator_list *list, bool scatters)
{
    if (shape->question->layout.zero < 3 || shape->shard_group.size <= 1) {
        return;
    }
    double parameters = rank_vocab_parameters(shape);
    operator_collective(shape, list, "dp all-gather of weights (vocabulary)", AXIS_DP, COLLECTIVE_ALL_GATHER, BF16_BYTES * parameters, 1);
    if (scatters) {
        operator_collective(shape, list, "dp reduce-scatter of gradients (vocabulary)", AXIS_DP, COLLECTIVE_REDUCE_SCATTER,
                            shape->gradient_size * parameters, 1);
    }
}

static void price_embedding(const struct step_shape *shape, struct end_operators *ends)
{
    double lookup = 2 * shape->hidden_bytes / shape->token_split; /* reads rows of the table, writes them */
    operator_elementwise(shape, &ends->embedding_forward, "embedding", STEP_FORWARD, lookup);
    add_vocab_exchange(shape, &ends->embedding_forward, COLLECTIVE_REDUCE_SCATTER, 1);
    add_sharded_table(shape, &ends->embedding_forward, false);
    /* reads the gradient, reads and writes rows of the table's gradient */
    operator_elementwise(shape, &ends->embedding_backward, "embedding gradient", STEP_BACKWARD, lookup + shape->hidden_bytes / shape->token_split);
    if (shape->question->layout.has_tp_sp) {
        add_vocab_exchange(shape, &ends->embedding_backward, COLLECTIVE_ALL_GATHER, 1);
    }
    add_sharded_table(shape, &ends->embedding_backward, true);
}

static void add_loss(const struct step_shape *shape, struct operator_list *list, enum step_pass pass, double bytes_per_logit)
{
    const struct loss_spec *loss = &shape->question->software.loss;
    struct operator_row *row = operator_elementwise(shape, list, "loss", pass, bytes_per_logit * shape->head_tokens * shape->vocab);
    if (row != NULL) {
        row->formula = "bytes per logit x logits / element-wise bandwidth (eq. 54)";
        row->source = loss->source;
    }
}

static struct gemm_call head_call(const struct step_shape *shape, enum pass pass)
{
    double tokens = shape->head_tokens;
    bool accumulates = shape->question->software.framework.has_persistent_gradients;
    switch (pass) {
    case PASS_INPUT_GRADIENT:
        return (struct gemm_call){.pass = pass, .m = tokens, .n = shape->hidden, .k = shape->vocab, .output_bytes = BF16_BYTES};
    case PASS_WEIGHT_GRADIENT:
        return (struct gemm_call){.pass = pass, .m = shape->vocab, .n = shape->hidden, .k = tokens,
                                  .output_bytes = accumulates ? ACCUMULATED_BYTES : BF16_BYTES};
    case PASS_FORWARD:
    case N_GEMM_PASSES:
        break;
    }
    return (struct gemm_call){.pass = PASS_FORWARD, .m = tokens, .n = shape->vocab, .k = shape->hidden, .output_bytes = BF16_BYTES};
}

static void price_head(const struct step_shape *shape, struct end_operators *ends)
{
    const struct loss_spec *loss = &shape->question->software.loss;
    const struct gemm_call forward = head_call(shape, PASS_FORWARD);
    const struct gemm_call input = head_call(shape, PASS_INPUT_GRADIENT);
    const struct gemm_call weight = head_call(shape, PASS_WEIGHT_GRADIENT);
    struct operator_list *list = &ends->head_forward;
    add_sharded_table(shape, list, false);
    add_vocab_exchange(shape, list, COLLECTIVE_ALL_GATHER, 1);
    operator_gemm(shape, list, "head", STEP_FORWARD, &forward);
    add_loss(shape, list, STEP_FORWARD, loss->forward_bytes_per_logit.value);
    if (shape->tp_group.size > 1 && shape->question->run.is_vocab_parallel) {
        double bytes = LOSS_VALUES_PER_TOKEN * FP32_BYTES * shape->head_tokens;
        operator_collective(shape, list, "tp all-reduce (loss)", AXIS_TP, COLLECTIVE_ALL_REDUCE, bytes, 1);
    }
    list = &ends->head_backward;
    if (loss->recomputes_logits) {
        operator_gemm(shape, list, "head again", STEP_RECOMPUTE, &forward);
    }
    add_loss(shape, list, STEP_BACKWARD, loss->backward_bytes_per_logit.value);
    operator_gemm(shape, list, "head input gradient", STEP_BACKWARD, &input);
    operator_gemm(shape, list, "head weight gradient", STEP_BACKWARD, &weight);
    add_vocab_exchange(shape, list, COLLECTIVE_REDUCE_SCATTER, 1);
    if (shape->question->layout.has_tp_sp) {
        add_vocab_exchange(shape, list, COLLECTIVE_ALL_GATHER, 1);
    }
    add_sharded_table(shape, list, true);
}

static int64_t heaviest_stage(const struct step_shape *shape)
{
    int64_t heaviest = 0;
    for (int64_t stage = 1; stage < shape->question->layout.pp; stage++) {
        if (rank_stage_parameters(shape, stage) > rank_stage_parameters(shape, heaviest)) {
            heaviest = stage;
        }
    }
    return heaviest;
}

/* Gradients over dp x sp: all-reduced (ZeRO 0), or scattered once a step (1) or every micro-batch (2), and the updated
 * parameters gathered. ZeRO 3 does both layer by layer. */
static void price_reduction(const struct step_shape *shape, double parameters, struct operator_list *list)
{
    int zero = shape->question->layout.zero;
    if (shape->shard_group.size <= 1 || zero >= 3) {
        return;
    }
    double gradients = shape->gradient_size * parameters;
    if (zero == 0) {
        operator_collective(shape, list, "dp all-reduce of gradients", AXIS_DP, COLLECTIVE_ALL_REDUCE, gradients, 1);
        return;
    }
    double times = zero == 2 ? (double)shape->micro_batches : 1;
    operator_collective(shape, list, "dp reduce-scatter of gradients", AXIS_DP, COLLECTIVE_REDUCE_SCATTER, gradients, times);
    operator_collective(shape, list, "dp all-gather of parameters", AXIS_DP, COLLECTIVE_ALL_GATHER, shape->parameter_size * parameters, 1);
}

static void add_optimizer_row(const struct step_shape *shape, struct operator_list *list, const char *name, const char *formula, double bytes)
{
    struct operator_row row = {.name = name, .formula = formula, .source = shape->gpu->elementwise_bandwidth.source, .item = TIME_OPTIMIZER,
                               .count = 1, .hbm_bytes = bytes, .time_s = elementwise_time(shape->gpu, bytes, 0)};
    operator_add(list, &row);
}

static void price_optimizer(const struct step_shape *shape, struct operator_list *list)
{
    const struct run_spec *run = &shape->question->run;
    const struct framework_spec *framework = &shape->question->software.framework;
    double parameters = rank_stage_parameters(shape, heaviest_stage(shape));
    double owned = shape->question->layout.zero >= 1 ? parameters / shape->shards : parameters;
    double moment = (double)dtype_bytes(run->moment_dtype);
    /* reads the gradient; reads and writes two moments and the master weights; writes the parameters (and reads them
     * when there are no masters) */
    double master = run->has_master_weights ? 2 * FP32_BYTES : shape->parameter_size;
    double per_parameter = shape->gradient_size + 4 * moment + master + shape->parameter_size;
    price_reduction(shape, parameters, list);
    add_optimizer_row(shape, list, "Adam", "owned parameters x (gradient + 4 moment + master + parameter) bytes / bandwidth (eq. 56)", owned * per_parameter);
    double reads = shape->gradient_size * owned; /* gradient norm */
    double clears = framework->has_persistent_gradients ? shape->gradient_size * (shape->question->layout.zero >= 2 ? owned : parameters) : 0;
    add_optimizer_row(shape, list, "gradient norm and clearing", "(owned gradients read + gradients written) / bandwidth (eq. 57)", reads + clears);
    struct operator_row tail = {.name = "host tail", .formula = "framework figure host_tail", .source = framework->host_tail.source,
                                .item = TIME_OTHER, .count = 1, .time_s = framework->host_tail.value};
    operator_add(list, &tail);
    set_pass(list, STEP_OPTIMIZER);
}

void price_ends(const struct step_shape *shape, struct end_operators *ends)
{
    ends->embedding_forward.n = ends->embedding_backward.n = 0;
    ends->head_forward.n = ends->head_backward.n = ends->optimizer.n = 0;
    price_embedding(shape, ends);
    price_head(shape, ends);
    price_optimizer(shape, &ends->optimizer);
    set_pass(&ends->embedding_forward, STEP_FORWARD);
    set_pass(&ends->embedding_backward, STEP_BACKWARD);
    set_pass(&ends->head_forward, STEP_FORWARD);
    for (int i = 0; i < ends->head_backward.n; i++) {
        if (ends->head_backward.rows[i].pass != STEP_RECOMPUTE) {
            ends->head_backward.rows[i].pass = STEP_BACKWARD;
        }
    }
}
