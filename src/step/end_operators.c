/* Embedding, output layer and loss, and what ends a step: gradient reduction and the optimizer (docs/model.md, eq. 54-57). */
#include "step/step_internal.h"

static const double FP32_BYTES = 4;
static const double ACCUMULATED_BYTES = 8;
/* Values per token that vocabulary-parallel cross entropy reduces over tp: maximum, sum of exponentials, target logit. */
static const double LOSS_VALUES_PER_TOKEN = 3;

/* A hidden tensor crosses between split and whole around a vocabulary that is split over tp. Without TP + SP only a sum
 * over the ranks is needed: an all-reduce where parts of a result meet. */
static void add_vocab_exchange(const struct step_shape *shape, struct operator_list *list, enum collective operation)
{
    if (!shape->question->run.is_vocab_parallel) {
        return;
    }
    const char *name = operation == COLLECTIVE_ALL_GATHER   ? "tp all-gather (vocabulary)"
                       : operation == COLLECTIVE_ALL_REDUCE ? "tp all-reduce (vocabulary)"
                                                            : "tp reduce-scatter (vocabulary)";
    operator_collective(shape, list,
                        &(struct collective_call){name, AXIS_TP, &shape->tp_group, operation, shape->hidden_bytes, 1});
}

static bool has_tp_sp(const struct step_shape *shape)
{
    return shape->question->layout.has_tp_sp;
}

static bool is_frozen(const struct step_shape *shape)
{
    return shape->question->run.lora_rank > 0;
}

/* ZeRO 3 gathers a table before its use, again in backward unless the framework keeps it whole till then, and scatters its
 * gradient. Where weights stay whole through the step, once for all micro-batches. */
static void add_sharded_table(const struct step_shape *shape, struct operator_list *list, bool is_backward)
{
    if (shape->question->layout.zero < 3) {
        return;
    }
    double parameters = rank_vocab_parameters(shape);
    double times = gathers_once(shape) ? 1 / (double)shape->micro_batches : 1; /* of a micro-batch */
    bool is_whole = is_backward && (shape->question->software.framework.keeps_root_gathered || gathers_once(shape));
    bool scatters = is_backward && !is_frozen(shape);
    bool is_shared = shape->shards > 1;
    const struct sharding_copies copies = {is_shared && !is_whole ? parameters : 0,
                                           is_shared && scatters ? parameters : 0, times};
    add_sharding_copies(shape, list, &copies);
    if (!is_whole) {
        operator_collective(shape, list,
                            &(struct collective_call){"dp all-gather of weights (vocabulary)", AXIS_DP,
                                                      &shape->shard_group, COLLECTIVE_ALL_GATHER,
                                                      shape->element * parameters, times});
    }
    if (scatters) {
        operator_collective(shape, list,
                            &(struct collective_call){"dp reduce-scatter of gradients (vocabulary)", AXIS_DP,
                                                      &shape->shard_group, COLLECTIVE_REDUCE_SCATTER,
                                                      shape->gradient_size * parameters, times});
    }
}

static void price_embedding(const struct step_shape *shape, struct end_operators *ends)
{
    double lookup = 2 * shape->hidden_bytes / shape->token_split; /* reads rows of the table, writes them */
    operator_elementwise(shape, &ends->embedding_forward, "embedding", lookup);
    add_vocab_exchange(shape, &ends->embedding_forward,
                       has_tp_sp(shape) ? COLLECTIVE_REDUCE_SCATTER : COLLECTIVE_ALL_REDUCE);
    add_sharded_table(shape, &ends->embedding_forward, false);
    if (is_frozen(shape)) {
        return;
    }
    /* reads the gradient, reads and writes rows of the table's gradient */
    operator_elementwise(shape, &ends->embedding_backward, "embedding gradient",
                         lookup + shape->hidden_bytes / shape->token_split);
    if (has_tp_sp(shape)) {
        add_vocab_exchange(shape, &ends->embedding_backward, COLLECTIVE_ALL_GATHER);
    }
    add_sharded_table(shape, &ends->embedding_backward, true);
}

static void add_loss(const struct step_shape *shape, struct operator_list *list, double bytes_per_logit)
{
    const struct loss_spec *loss = &shape->question->software.loss;
    struct operator_row *row =
        operator_elementwise(shape, list, "loss", bytes_per_logit * shape->head_tokens * shape->vocab);
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
        return (struct gemm_call){
            .pass = pass, .m = tokens, .n = shape->hidden, .k = shape->vocab, .output_bytes = shape->element};
    case PASS_WEIGHT_GRADIENT:
        return (struct gemm_call){.pass = pass,
                                  .m = shape->vocab,
                                  .n = shape->hidden,
                                  .k = tokens,
                                  .output_bytes = accumulates ? ACCUMULATED_BYTES : shape->element};
    case PASS_FORWARD:
    case N_GEMM_PASSES:
        break;
    }
    return (struct gemm_call){
        .pass = PASS_FORWARD, .m = tokens, .n = shape->vocab, .k = shape->hidden, .output_bytes = shape->element};
}

static void add_head_gemm(const struct step_shape *shape, struct operator_list *list, const char *name, enum pass pass)
{
    struct gemm_call call = head_call(shape, pass);
    operator_gemm(shape, list, name, &call);
}

static void price_head(const struct step_shape *shape, struct end_operators *ends)
{
    const struct loss_spec *loss = &shape->question->software.loss;
    struct operator_list *list = &ends->head_forward;
    add_sharded_table(shape, list, false);
    if (has_tp_sp(shape)) {
        add_vocab_exchange(shape, list, COLLECTIVE_ALL_GATHER);
    }
    add_head_gemm(shape, list, "head", PASS_FORWARD);
    add_loss(shape, list, loss->forward_bytes_per_logit.value);
    if (shape->question->run.is_vocab_parallel) {
        double bytes = LOSS_VALUES_PER_TOKEN * FP32_BYTES * shape->head_tokens;
        operator_collective(shape, list,
                            &(struct collective_call){"tp all-reduce (loss)", AXIS_TP, &shape->tp_group,
                                                      COLLECTIVE_ALL_REDUCE, bytes, 1});
    }
    list = &ends->head_backward;
    if (loss->recomputes_logits) {
        add_head_gemm(shape, list, "head again", PASS_FORWARD);
    }
    add_loss(shape, list, loss->backward_bytes_per_logit.value);
    add_head_gemm(shape, list, "head input gradient", PASS_INPUT_GRADIENT);
    if (!is_frozen(shape)) {
        add_head_gemm(shape, list, "head weight gradient", PASS_WEIGHT_GRADIENT);
    }
    add_vocab_exchange(shape, list, has_tp_sp(shape) ? COLLECTIVE_REDUCE_SCATTER : COLLECTIVE_ALL_REDUCE);
    if (has_tp_sp(shape) && !is_frozen(shape)) {
        add_vocab_exchange(shape, list, COLLECTIVE_ALL_GATHER);
    }
    add_sharded_table(shape, list, true);
}

/* What the stage with most parameters trains. */
static struct parameters most_trained(const struct step_shape *shape)
{
    struct parameters most = rank_stage_trained(shape, &shape->classes[0]);
    for (int i = 1; i < shape->n_classes; i++) {
        struct parameters trained = rank_stage_trained(shape, &shape->classes[i]);
        most = parameters_sum(trained) > parameters_sum(most) ? trained : most;
    }
    return most;
}

/* Gradients over the ranks that hold the same: all-reduced (ZeRO 0) or scattered, and the updated parameters gathered.
 * ZeRO 2 also scatters those of earlier micro-batches, beside later ones (pipeline.c). ZeRO 3 does both layer by layer. */
static void price_reduction(const struct step_shape *shape, const struct group_placement *group, double parameters,
                            struct operator_list *list)
{
    int zero = shape->question->layout.zero;
    double gradients = shape->gradient_size * parameters;
    double gathered = shape->parameter_size * parameters;
    if (zero == 0) {
        operator_collective(shape, list,
                            &(struct collective_call){"dp all-reduce of gradients", AXIS_DP, group,
                                                      COLLECTIVE_ALL_REDUCE, gradients, 1});
    } else if (zero < 3) {
        operator_collective(shape, list,
                            &(struct collective_call){"dp reduce-scatter of gradients", AXIS_DP, group,
                                                      COLLECTIVE_REDUCE_SCATTER, gradients, 1});
        operator_collective(shape, list,
                            &(struct collective_call){"dp all-gather of parameters", AXIS_DP, group,
                                                      COLLECTIVE_ALL_GATHER, gathered, 1});
    }
}

static void add_optimizer_row(const struct step_shape *shape, struct operator_list *list, const char *name,
                              const char *formula, double bytes, double bandwidth_share)
{
    struct operator_row row = {.name = name,
                               .formula = formula,
                               .source = shape->gpu->elementwise_bandwidth.source,
                               .item = TIME_OPTIMIZER,
                               .count = 1,
                               .hbm_bytes = bytes,
                               .time_s = elementwise_time(shape->gpu, bytes, 0) / bandwidth_share};
    operator_add(list, &row);
}

void price_optimizer(const struct step_shape *shape, struct operator_list *list)
{
    price_stage_optimizer(shape, most_trained(shape), list);
}

void price_stage_optimizer(const struct step_shape *shape, struct parameters trained, struct operator_list *list)
{
    operator_list_begin(list, NULL);
    const struct run_spec *run = &shape->question->run;
    const struct layout_spec *layout = &shape->question->layout;
    const struct framework_spec *framework = &shape->question->software.framework;
    double all = parameters_sum(trained);
    double owned = sharded(shape, trained, layout->zero >= 1);
    double moment = (double)dtype_bytes(run->moment_dtype);
    /* reads the gradient; reads and writes two moments and the master weights; writes the parameters (and reads them
     * when there are no masters) */
    double master = run->has_master_weights ? 2 * FP32_BYTES : shape->parameter_size;
    double per_parameter = shape->gradient_size + 4 * moment + master + shape->parameter_size;
    price_reduction(shape, &shape->shard_group, trained.dense, list);
    price_reduction(shape, &shape->expert_shard_group, trained.expert, list);
    if (layout->offloads_optimizer) {
        add_offload_optimizer(shape, list, owned);
    } else {
        add_optimizer_row(shape, list, "Adam",
                          "owned parameters x (gradient + 4 moment + master + parameter) bytes / bandwidth (eq. 56)",
                          owned * per_parameter, framework->optimizer_bandwidth.value);
    }
    double reads = shape->gradient_size * owned; /* gradient norm */
    double clears = framework->has_persistent_gradients ? shape->gradient_size * (layout->zero >= 2 ? owned : all) : 0;
    add_optimizer_row(shape, list, "gradient norm and clearing",
                      "(owned gradients read + gradients written) / bandwidth (eq. 57)", reads + clears, 1);
    struct operator_row tail = {.name = "host tail",
                                .formula = "framework figure host_tail",
                                .source = framework->host_tail.source,
                                .item = TIME_OTHER,
                                .count = 1,
                                .time_s = framework->host_tail.value};
    operator_add(list, &tail);
    operator_list_pass(list, STEP_OPTIMIZER, false);
}

void price_ends(const struct step_shape *shape, struct end_operators *ends)
{
    struct operator_list *const lists[] = {&ends->embedding_forward, &ends->embedding_backward, &ends->head_forward,
                                           &ends->head_backward};
    for (size_t i = 0; i < SP_COUNT_OF(lists); i++) {
        operator_list_begin(lists[i], NULL);
    }
    price_embedding(shape, ends);
    price_head(shape, ends);
    operator_list_pass(&ends->embedding_forward, STEP_FORWARD, false);
    operator_list_pass(&ends->embedding_backward, STEP_BACKWARD, false);
    operator_list_pass(&ends->head_forward, STEP_FORWARD, false);
    operator_list_pass(&ends->head_backward, STEP_BACKWARD, false);
}
