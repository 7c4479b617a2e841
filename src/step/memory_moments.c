/* Peak memory: the maximum over the moments of a step, the layers whose backward runs, and the stages (docs/model.md,
 * eq. 75-79). Each moment is a list of named tensors. */
#include "step/step_internal.h"

#include <math.h>

static const double BF16_BYTES = 2;

const char *const moment_names[] = {"attention forward", "loss", "head backward", "layer rebuilt", "mlp backward", "attention backward", "optimizer", NULL};

/* One point of a step: which stage, and which of its layers (1 to n, from the input) is at work; saved and gradient_share
 * follow from them. */
struct point {
    int64_t stage;
    int64_t layer;
    bool is_first_stage, is_last_stage;
    bool is_recomputed;    /* this layer keeps its input only */
    double saved_bytes;    /* activations kept by all micro-batches in flight, this layer's included */
    double gradient_share; /* of the stage's gradients that exist */
    struct saved_layer saved;
};

/* Micro-batches whose activations a stage holds at once under 1F1B. */
static double in_flight(const struct step_shape *shape, int64_t stage)
{
    int64_t depth = shape->question->layout.pp - stage;
    return (double)(shape->micro_batches < depth ? shape->micro_batches : depth);
}

/* Layers 1..n of one micro-batch; the first `recomputed` of a stage keep their input only. */
static double saved_layers(const struct saved_layer *saved, int64_t layers, int64_t recomputed)
{
    double rebuilt = (double)(layers < recomputed ? layers : recomputed);
    return rebuilt * saved->input + ((double)layers - rebuilt) * saved->total;
}

static double gradient_share(const struct step_shape *shape, int64_t stage, int64_t layer)
{
    if (shape->question->software.framework.has_persistent_gradients || shape->micro_batches > 1) {
        return 1;
    }
    double done = (double)(stage_layers(shape, stage) - layer) * rank_layer_parameters(shape);
    if (stage == shape->question->layout.pp - 1) {
        done += rank_vocab_parameters(shape);
    }
    return fmin(done / rank_stage_parameters(shape, stage), 1);
}

static struct point point_at(const struct step_shape *shape, int64_t stage, int64_t layer)
{
    int64_t layers = stage_layers(shape, stage);
    int64_t recomputed = stage_recomputed_layers(shape, stage);
    struct point point = {.stage = stage, .layer = layer, .is_first_stage = stage == 0,
                          .is_last_stage = stage == shape->question->layout.pp - 1, .is_recomputed = layer <= recomputed,
                          .saved = saved_layer_bytes(shape)};
    if (shape->question->layout.recompute == RECOMPUTE_SELECTIVE) {
        /* FlashAttention recomputed: q, k, v and the output stay (the projection needs it), the log-sum-exp goes */
        double log_sum_exp = 2 * BF16_BYTES * shape->tokens * shape->heads;
        point.saved.attention -= log_sum_exp;
        point.saved.total -= log_sum_exp;
    }
    point.saved_bytes = (in_flight(shape, stage) - 1) * saved_layers(&point.saved, layers, recomputed) +
                        saved_layers(&point.saved, layer, recomputed);
    point.gradient_share = gradient_share(shape, stage, layer);
    return point;
}

/* ---- parts that several moments share ---------------------------------------------------------------------------- */

static void account_workspaces(const struct step_shape *shape, const struct point *point, struct memory_account *account)
{
    const struct question *question = shape->question;
    const struct framework_spec *framework = &question->software.framework;
    account_add(account, MEMORY_ACTIVATIONS, "attention workspace", "framework figure", framework->attention_workspace.value);
    /* TransformerEngine's GEMMs bring their own workspace; only the head runs through the library's */
    bool has_library_gemm = question->layout.kernels != KERNELS_TE || point->is_last_stage;
    account_add(account, MEMORY_ACTIVATIONS, "GEMM workspace", "framework figure", has_library_gemm ? framework->gemm_workspace.value : 0);
    if (framework->has_gradient_placeholders) {
        double distinct = shape->hidden * (shape->heads + 2 * shape->kv_heads) * shape->head_dim + shape->hidden * shape->heads * shape->head_dim +
                          3 * shape->hidden * shape->ffn;
        account_add(account, MEMORY_ACTIVATIONS, "weight gradient placeholders", "2 x each distinct weight shape of a layer (eq. 73)",
                    BF16_BYTES * distinct);
    }
}

/* ZeRO 3: the layer at work and the next one gathered, in backward the full gradient on its way to being scattered.
 * ZeRO 1 and 2: the bucket on its way. */
static void account_sharding(const struct step_shape *shape, bool is_backward, struct memory_account *account)
{
    int zero = shape->question->layout.zero;
    if (shape->shards <= 1) {
        return;
    }
    if (zero >= 3) {
        double parameters = rank_layer_parameters(shape);
        account_add(account, MEMORY_COMMUNICATION_BUFFERS, "gathered weights of two layers", "2 x 2 x layer parameters (eq. 74)", 2 * BF16_BYTES * parameters);
        account_add(account, MEMORY_COMMUNICATION_BUFFERS, "gradient to be scattered", "layer parameters x gradient bytes (eq. 74)",
                    is_backward ? shape->gradient_size * parameters : 0);
    } else if (zero >= 1 && is_backward) {
        account_add(account, MEMORY_COMMUNICATION_BUFFERS, "gradient bucket", "framework figure", shape->question->software.framework.bucket_bytes.value);
    }
}

static void account_common(const struct step_shape *shape, const struct point *point, bool is_backward, struct memory_account *account)
{
    *account = (struct memory_account){0};
    account_state(shape, point->stage, point->gradient_share, account);
    account_workspaces(shape, point, account);
    account_sharding(shape, is_backward, account);
    account_add(account, MEMORY_ACTIVATIONS, "saved activations", "micro-batches in flight x layers (eq. 72, 75)", point->saved_bytes);
}

static double split_hidden(const struct step_shape *shape)
{
    return shape->hidden_bytes / shape->token_split;
}

/* ---- moments ----------------------------------------------------------------------------------------------------- */

static void moment_forward(const struct step_shape *shape, const struct point *point, struct memory_account *account)
{
    account_common(shape, point, point->is_recomputed, account);
    /* the layer is half built: its MLP part does not exist yet; a recomputed one is being rebuilt beside its gradient */
    double built = point->is_recomputed ? point->saved.attention - point->saved.input : -point->saved.mlp;
    account->items[MEMORY_ACTIVATIONS] += built;
    account->rows[account->n++] = (struct tensor_row){"attention part of the layer at work", "saved tensors of attention, not yet those of the MLP (eq. 76)", MEMORY_ACTIVATIONS, built};
    account_add(account, MEMORY_ACTIVATIONS, "gradient of the layer's output", "2 T h / split", point->is_recomputed ? split_hidden(shape) : 0);
    account_add(account, MEMORY_ATTENTION_BUFFERS, "attention forward buffers", "traits row of the method (eq. 48)", shape->attention_memory.forward_buffer_bytes);
}

static void moment_rebuilt(const struct step_shape *shape, const struct point *point, struct memory_account *account)
{
    account_common(shape, point, true, account);
    account_add(account, MEMORY_ACTIVATIONS, "layer rebuilt", "saved tensors of a layer, its input aside (eq. 72)", point->saved.total - point->saved.input);
    account_add(account, MEMORY_ACTIVATIONS, "gradient of the layer's output", "2 T h / split", split_hidden(shape));
    account_add(account, MEMORY_COMMUNICATION_BUFFERS, "gathered output gradient", "2 T h", shape->token_split > 1 ? shape->hidden_bytes : 0);
}

static void moment_mlp_backward(const struct step_shape *shape, const struct point *point, struct memory_account *account)
{
    account_common(shape, point, true, account);
    double rebuilt = point->is_recomputed ? point->saved.total - point->saved.input : 0;
    account_add(account, MEMORY_ACTIVATIONS, "layer rebuilt", "saved tensors of a layer, its input aside (eq. 72)", rebuilt);
    account_add(account, MEMORY_ACTIVATIONS, "gradient of the layer's output", "2 T h / split", split_hidden(shape));
    /* Down projection: gathered output gradient and the product's gradient; gated activation: gradients of gate, up and
     * product while the product itself is gone. The larger of the two. */
    double gathered = shape->token_split > 1 ? shape->hidden_bytes : 0;
    bool is_down = gathered > shape->ffn_bytes;
    account_add(account, MEMORY_COMMUNICATION_BUFFERS, "gathered output gradient", "2 T h", is_down ? gathered : 0);
    account_add(account, MEMORY_ACTIVATIONS, "gradients of the gated activation", "2 or 1 x 2 T f / tp (eq. 77)", (is_down ? 1 : 2) * shape->ffn_bytes);
}

static void moment_attention_backward(const struct step_shape *shape, const struct point *point, struct memory_account *account)
{
    account_common(shape, point, true, account);
    double built = point->is_recomputed ? point->saved.attention - point->saved.input : -point->saved.mlp;
    account->items[MEMORY_ACTIVATIONS] += built;
    account->rows[account->n++] = (struct tensor_row){"attention part of the layer at work", "saved tensors of attention; those of the MLP are free again (eq. 78)", MEMORY_ACTIVATIONS, built};
    double output = BF16_BYTES * shape->tokens * shape->heads * shape->head_dim;
    account_add(account, MEMORY_ACTIVATIONS, "gradient of the residual", "2 T h / split", split_hidden(shape));
    account_add(account, MEMORY_ACTIVATIONS, "gradient of attention's output", "2 T H d", output);
    account_add(account, MEMORY_ATTENTION_BUFFERS, "attention backward buffers", "traits row of the method (eq. 48)", shape->attention_memory.backward_buffer_bytes);
}

static double loss_tokens(const struct step_shape *shape)
{
    const struct run_spec *run = &shape->question->run;
    return run->loss == LOSS_CHUNKED ? fmin((double)run->loss_chunk, shape->head_tokens) : shape->head_tokens;
}

static void account_head(const struct step_shape *shape, const struct point *point, struct memory_account *account)
{
    account_common(shape, point, true, account);
    account_add(account, MEMORY_ACTIVATIONS, "final norm, in and out", "2 x 2 T h / split", 2 * split_hidden(shape));
    account_add(account, MEMORY_COMMUNICATION_BUFFERS, "gradient sent to the stage before", "2 T h / split",
                point->is_first_stage ? 0 : split_hidden(shape));
    bool gathers = shape->token_split > 1 && shape->question->run.is_vocab_parallel;
    account_add(account, MEMORY_COMMUNICATION_BUFFERS, "gathered head input", "2 T h", gathers ? shape->hidden_bytes : 0);
    if (shape->question->layout.zero >= 3 && shape->shards > 1) {
        account_add(account, MEMORY_COMMUNICATION_BUFFERS, "gathered head weights", "2 V h / tp", BF16_BYTES * rank_vocab_parameters(shape));
    }
    bool has_chunks = loss_tokens(shape) < shape->head_tokens;
    account_add(account, MEMORY_LOGITS, "gradient of the hidden states", "2 T h, while chunks run", has_chunks ? split_hidden(shape) : 0);
}

static void moment_loss(const struct step_shape *shape, const struct point *point, struct memory_account *account)
{
    account_head(shape, point, account);
    double logits = loss_tokens(shape) * shape->vocab;
    account_add(account, MEMORY_LOGITS, "logits and loss", "peak bytes per logit x tokens x V / tp (eq. 79)",
                shape->question->software.loss.peak_bytes_per_logit.value * logits);
}

static void moment_head_backward(const struct step_shape *shape, const struct point *point, struct memory_account *account)
{
    account_head(shape, point, account);
    double logits = loss_tokens(shape) * shape->vocab;
    account_add(account, MEMORY_LOGITS, "gradient of the logits", "bytes per logit x tokens x V / tp (eq. 79)",
                shape->question->software.loss.gradient_bytes_per_logit.value * logits);
    account_add(account, MEMORY_LOGITS, "weight gradient of the head", "2 V h / tp", BF16_BYTES * rank_vocab_parameters(shape));
    account_add(account, MEMORY_ACTIVATIONS, "input gradient of the head", "2 T h", BF16_BYTES * shape->head_tokens * shape->hidden);
    bool scatters = shape->token_split > 1 && shape->question->run.is_vocab_parallel;
    account_add(account, MEMORY_COMMUNICATION_BUFFERS, "scattered input gradient", "2 T h / split", scatters ? split_hidden(shape) : 0);
}

static void moment_optimizer(const struct step_shape *shape, const struct point *point, struct memory_account *account)
{
    struct point empty = *point;
    empty.saved_bytes = 0;
    empty.gradient_share = 1;
    *account = (struct memory_account){0};
    account_state(shape, empty.stage, 1, account);
    account_workspaces(shape, &empty, account);
}

typedef void (*moment_fn)(const struct step_shape *, const struct point *, struct memory_account *);
static const moment_fn moment_functions[N_MOMENTS] = {moment_forward,      moment_loss,               moment_head_backward, moment_rebuilt,
                                                      moment_mlp_backward, moment_attention_backward, moment_optimizer};

static bool moment_occurs(enum moment moment, const struct point *point, int64_t layers)
{
    switch (moment) {
    case MOMENT_LOSS:
    case MOMENT_HEAD_BACKWARD:
        return point->is_last_stage && point->layer == layers;
    case MOMENT_RECOMPUTED:
        return point->is_recomputed;
    case MOMENT_OPTIMIZER:
        return point->layer == layers;
    case MOMENT_FORWARD:
    case MOMENT_MLP_BACKWARD:
    case MOMENT_ATTENTION_BACKWARD:
        return true;
    case N_MOMENTS:
        break;
    }
    return false;
}

/* ---- the worst ---------------------------------------------------------------------------------------------------- */

struct worst {
    double bytes;
    int64_t stage;
    enum moment moment;
    struct memory_account account;
};

static void consider_point(const struct step_shape *shape, int64_t stage, int64_t layer, struct estimate *estimate, struct worst *worst)
{
    struct point point = point_at(shape, stage, layer);
    int64_t layers = stage_layers(shape, stage);
    for (int m = 0; m < N_MOMENTS; m++) {
        if (!moment_occurs((enum moment)m, &point, layers)) {
            continue;
        }
        struct memory_account account;
        moment_functions[m](shape, &point, &account);
        double bytes = memory_account_total(&account);
        estimate->moment_bytes[m] = fmax(estimate->moment_bytes[m], bytes);
        if (bytes > worst->bytes) {
            *worst = (struct worst){bytes, stage, (enum moment)m, account};
        }
    }
}

/* Saved activations fall and finished gradients grow as backward moves towards the input, both linearly between the last
 * layer, the last recomputed one and the first: the maximum is at one of these. */
static void consider_stage(const struct step_shape *shape, int64_t stage, struct estimate *estimate, struct worst *worst)
{
    int64_t layers = stage_layers(shape, stage);
    int64_t recomputed = stage_recomputed_layers(shape, stage);
    consider_point(shape, stage, layers, estimate, worst);
    if (recomputed >= 1 && recomputed < layers) {
        consider_point(shape, stage, recomputed, estimate, worst);
    }
    if (layers > 1) {
        consider_point(shape, stage, 1, estimate, worst);
    }
}

static void account_runtime(const struct step_shape *shape, double allocated, struct estimate *estimate)
{
    const struct question *question = shape->question;
    const struct framework_spec *framework = &question->software.framework;
    struct memory_account runtime = {0};
    account_add(&runtime, MEMORY_RUNTIME, "CUDA context", "GPU figure context_memory", shape->gpu->context_memory.value);
    account_add(&runtime, MEMORY_RUNTIME, "NCCL buffers", "framework figure collective_buffers", question->run.gpus > 1 ? framework->collective_buffers.value : 0);
    account_add(&runtime, MEMORY_RUNTIME, "allocator slack", "allocated x framework figure allocator_slack", allocated * framework->allocator_slack.value);
    for (int i = 0; i < runtime.n; i++) {
        estimate->tensors[estimate->n_tensors++] = runtime.rows[i];
    }
    estimate->memory_bytes[MEMORY_RUNTIME] = runtime.items[MEMORY_RUNTIME];
}

void price_memory(const struct step_shape *shape, struct estimate *estimate)
{
    const struct hardware_spec *hardware = &shape->question->hardware;
    struct worst worst = {0};
    for (int64_t stage = 0; stage < shape->question->layout.pp; stage++) {
        /* a later stage with no more layers holds fewer micro-batches of the same: only ends and heavier stages can win */
        bool is_end = stage == 0 || stage == shape->question->layout.pp - 1;
        if (is_end || stage_layers(shape, stage) > stage_layers(shape, stage - 1)) {
            consider_stage(shape, stage, estimate, &worst);
        }
    }
    for (int item = 0; item < N_MEMORY_ITEMS; item++) {
        estimate->memory_bytes[item] = worst.account.items[item];
    }
    estimate->n_tensors = worst.account.n;
    for (int i = 0; i < worst.account.n; i++) {
        estimate->tensors[i] = worst.account.rows[i];
    }
    account_runtime(shape, worst.bytes, estimate);
    estimate->peak_stage = worst.stage;
    estimate->peak_moment = worst.moment;
    estimate->peak_allocated_bytes = worst.bytes;
    estimate->peak_reserved_bytes = worst.bytes * (1 + shape->question->software.framework.allocator_slack.value);
    estimate->peak_bytes = 0;
    for (int item = 0; item < N_MEMORY_ITEMS; item++) {
        estimate->peak_bytes += estimate->memory_bytes[item];
    }
    estimate->capacity_bytes = hardware->gpu.hbm_capacity.value;
    estimate->headroom_bytes = estimate->capacity_bytes - estimate->peak_bytes;
    estimate->host_bytes = 0; /* nothing is offloaded yet */
    estimate->host_capacity_bytes = hardware->node.host_memory.value;
    estimate->fits = estimate->peak_bytes <= estimate->capacity_bytes && estimate->host_bytes <= estimate->host_capacity_bytes;
}
