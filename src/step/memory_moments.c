/* Peak memory: the maximum over the moments of a step, the layers whose backward runs, and the stages (docs/model.md,
 * eq. 73-79). Each moment is a list of named tensors. */
#include "step/step_internal.h"

#include <math.h>

static const double FP32_BYTES = 4;

const char *const moment_names[] = {
    "attention forward", "loss", "head backward", "layer rebuilt", "mlp backward", "attention backward",
    "optimizer",         NULL};

/* One point of a step: which stage, and which of its layers (1 to n, from the input) is at work; saved and gradient_share
 * follow from them. */
struct point {
    int64_t stage;
    int64_t layer;
    int kind;
    bool is_first_stage, has_head, is_last_layer;
    bool is_recomputed;    /* this layer keeps its input only */
    double saved_bytes;    /* activations kept by all micro-batches in flight, this layer's included */
    double gradient_share; /* of the stage's gradients that exist */
    struct saved_layer saved;
};

static bool is_sharded(const struct step_shape *shape)
{
    return shape->question->layout.zero >= 3 && shape->shards > 1;
}

static struct saved_layer saved_of(const struct step_shape *shape, int kind)
{
    struct saved_layer saved = saved_layer_bytes(shape, kind);
    if (shape->question->layout.recompute == RECOMPUTE_SELECTIVE && !keeps_products(shape)) {
        /* FlashAttention recomputed: q, k, v and the output stay (the projection needs it), the log-sum-exp goes */
        double log_sum_exp = FP32_BYTES * shape->tokens * shape->heads;
        saved.attention -= log_sum_exp;
        saved.total -= log_sum_exp;
    }
    return saved;
}

/* Layers 1..n of one micro-batch; the first `recomputed` of a stage keep their input only. */
static double saved_layers(const struct step_shape *shape, int64_t stage, int64_t layers, int64_t recomputed)
{
    double all[MAX_LAYER_KINDS];
    double rebuilt[MAX_LAYER_KINDS];
    double bytes = 0;
    stage_kinds(shape, stage, layers, all);
    stage_kinds(shape, stage, layers < recomputed ? layers : recomputed, rebuilt);
    for (int k = 0; k < shape->n_kinds; k++) {
        struct saved_layer saved = saved_of(shape, k);
        bytes += rebuilt[k] * saved.checkpoint + (all[k] - rebuilt[k]) * saved.total;
    }
    return bytes;
}

/* Gradients that exist when backward has come to a layer: all where they are persistent or an earlier micro-batch has
 * left them; else those of the layers after it, and of the head unless it is scattered with the root at the end. */
static double gradient_share(const struct step_shape *shape, const struct point *point, bool has_head_gradient)
{
    const struct framework_spec *framework = &shape->question->software.framework;
    if (framework->has_persistent_gradients || shape->micro_batches > 1) {
        return 1;
    }
    double counts[MAX_LAYER_KINDS];
    double before[MAX_LAYER_KINDS];
    int64_t layers = stage_layers(shape, point->stage);
    double done = 0;
    stage_kinds(shape, point->stage, layers, counts);
    stage_kinds(shape, point->stage, point->layer, before);
    for (int k = 0; k < shape->n_kinds; k++) {
        done += (counts[k] - before[k]) * parameters_sum(rank_layer_trained(shape, k));
    }
    if (has_head_gradient && point->has_head && !(framework->keeps_root_gathered && is_sharded(shape)) &&
        shape->question->run.lora_rank == 0) {
        done += rank_vocab_parameters(shape);
    }
    double all = parameters_sum(rank_stage_trained(shape, point->stage));
    return all > 0 ? fmin(done / all, 1) : 0;
}

static int kind_of(const struct step_shape *shape, int64_t stage, int64_t layer)
{
    const struct model_spec *model = &shape->question->model;
    int64_t first = layout_stage_first(&shape->question->layout, model, stage);
    return model->n_kinds == 1 ? 0 : model->kind_of_layer[first + layer - 1];
}

static struct point point_at(const struct step_shape *shape, int64_t stage, int64_t layer)
{
    int64_t layers = stage_layers(shape, stage);
    int64_t recomputed = stage_recomputed_layers(shape, stage);
    struct point point = {.stage = stage,
                          .layer = layer,
                          .kind = kind_of(shape, stage, layer),
                          .is_first_stage = schedule_holds_embedding(&shape->question->layout, stage),
                          .has_head = schedule_holds_head(&shape->question->layout, stage),
                          .is_last_layer = layer == layers,
                          .is_recomputed = layer <= recomputed};
    double in_flight = schedule_in_flight(&shape->question->layout, shape->micro_batches, stage);
    point.saved = saved_of(shape, point.kind);
    point.saved_bytes = fmax(in_flight - 1, 0) * saved_layers(shape, stage, layers, recomputed) +
                        saved_layers(shape, stage, layer, recomputed);
    if (shape->question->layout.offloads_activations) { /* on the GPU: the layer at work and the one on its way */
        point.saved_bytes =
            fmin(point.saved_bytes, 2 * (point.is_recomputed ? point.saved.checkpoint : point.saved.total));
    }
    point.gradient_share = gradient_share(shape, &point, true);
    return point;
}

/* ---- parts that several moments share ---------------------------------------------------------------------------- */

static void account_workspaces(const struct step_shape *shape, const struct point *point,
                               struct memory_account *account)
{
    const struct question *question = shape->question;
    const struct framework_spec *framework = &question->software.framework;
    account_add(account, MEMORY_ACTIVATIONS, "attention workspace", "framework figure",
                framework->attention_workspace.value);
    /* TransformerEngine's GEMMs bring their own workspace; only the head runs through the library's */
    bool has_library_gemm = question->layout.kernels != KERNELS_TE || point->has_head;
    account_add(account, MEMORY_ACTIVATIONS, "GEMM workspace", "framework figure",
                has_library_gemm ? framework->gemm_workspace.value : 0);
    if (framework->has_gradient_placeholders && question->run.lora_rank == 0) {
        double layer = 0;
        for (int k = 0; k < shape->n_kinds; k++) { /* shapes of one kind's layers are distinct, experts share theirs */
            struct parameters one = rank_layer_parameters(shape, k);
            layer = fmax(layer, one.dense - 2 * shape->hidden + one.expert / fmax(shape->local_experts, 1));
        }
        account_add(account, MEMORY_ACTIVATIONS, "weight gradient placeholders",
                    "2 x each distinct weight shape of a layer (eq. 73)", shape->element * layer);
    }
}

/* Whole tables of the root that FSDP keeps gathered during the step. */
static double root_parameters(const struct step_shape *shape, const struct point *point)
{
    double tables = (point->is_first_stage ? 1 : 0) + (point->has_head ? 1 : 0);
    bool is_tied = shape->question->model.has_tied_embeddings && point->is_first_stage && point->has_head;
    return (is_tied ? 1 : tables) * rank_vocab_parameters(shape) + (point->has_head ? shape->hidden : 0);
}

/* ZeRO 3: the root where it stays gathered; the layer at work and the one prefetched; in backward the gradient of the
 * layer before on its way to being scattered. ZeRO 1 and 2: the bucket on its way. */
static void account_sharding(const struct step_shape *shape, const struct point *point, double gathered_layers,
                             bool scatters, struct memory_account *account)
{
    const struct question *question = shape->question;
    const struct framework_spec *framework = &question->software.framework;
    double layer = parameters_sum(rank_layer_parameters(shape, point->kind));
    double trained = parameters_sum(rank_layer_trained(shape, point->kind));
    if (is_sharded(shape) && gathers_once(shape)) {
        double stage = parameters_sum(rank_stage_parameters(shape, point->stage));
        double gradients = parameters_sum(rank_stage_trained(shape, point->stage));
        account_add(account, MEMORY_COMMUNICATION_BUFFERS, "weights of the stage, whole",
                    "2 x stage parameters (eq. 74)", shape->element * stage);
        account_add(account, MEMORY_COMMUNICATION_BUFFERS, "gradients of the stage, whole",
                    "stage parameters x gradient bytes (eq. 74)", shape->gradient_size * gradients);
    } else if (is_sharded(shape)) {
        double root = framework->keeps_root_gathered ? root_parameters(shape, point) : 0;
        account_add(account, MEMORY_COMMUNICATION_BUFFERS, "gathered root", "2 x (tables + norm) (eq. 74)",
                    shape->element * root);
        account_add(account, MEMORY_COMMUNICATION_BUFFERS, "gathered weights of layers",
                    "1 or 2 x 2 x layer parameters (eq. 74)", gathered_layers * shape->element * layer);
        account_add(account, MEMORY_COMMUNICATION_BUFFERS, "gradient to be scattered",
                    "layer parameters x gradient bytes (eq. 74)", scatters ? shape->gradient_size * trained : 0);
    } else if (question->layout.zero >= 1 && shape->shards > 1 && scatters) {
        account_add(account, MEMORY_COMMUNICATION_BUFFERS, "gradient bucket", "framework figure",
                    framework->bucket_bytes.value);
    }
}

/* The head's gradient where it waits, whole, to be scattered with the root. */
static void account_root_gradient(const struct step_shape *shape, const struct point *point,
                                  struct memory_account *account)
{
    bool waits = is_sharded(shape) && !gathers_once(shape) && shape->question->software.framework.keeps_root_gathered &&
                 point->has_head && shape->question->run.lora_rank == 0;
    account_add(account, MEMORY_GRADIENTS, "gradient of the head, whole", "2 V h",
                waits ? shape->element * rank_vocab_parameters(shape) : 0);
}

/* State, workspaces and everything saved; then the moment adds what it holds itself. */
static void account_common(const struct step_shape *shape, const struct point *point, struct memory_account *account)
{
    *account = (struct memory_account){0};
    account_state(shape, point->stage, point->gradient_share, account);
    account_workspaces(shape, point, account);
    account_add(account, MEMORY_ACTIVATIONS, "saved activations", "micro-batches in flight x layers (eq. 72, 75)",
                point->saved_bytes);
}

static void account_layer(const struct step_shape *shape, const struct point *point, struct memory_account *account)
{
    account_common(shape, point, account);
    account_sharding(shape, point, 2,
                     !point->is_last_layer || shape->question->software.framework.has_persistent_gradients, account);
    account_root_gradient(shape, point, account);
}

static double split_hidden(const struct step_shape *shape)
{
    return shape->hidden_bytes / shape->token_split;
}

/* Weight gradients of the layer at work that backward has formed so far, where no buffer exists beforehand. */
static void account_layer_gradients(const struct step_shape *shape, double elements, struct memory_account *account)
{
    const struct question *question = shape->question;
    bool appears = !question->software.framework.has_persistent_gradients && question->run.lora_rank == 0;
    account_add(account, MEMORY_GRADIENTS, "weight gradients of the layer at work", "2 B x those formed so far",
                appears ? shape->element * elements : 0);
}

static double mlp_elements(const struct step_shape *shape, const struct point *point)
{
    double width =
        shape->kinds[point->kind].is_moe ? shape->shared_ffn + shape->local_experts * shape->expert_ffn : shape->ffn;
    return shape->hidden * width;
}

/* Adds rows that can be negative: what the layer at work does not hold yet, or no longer. */
static void account_built(struct memory_account *account, const char *name, const char *formula, double bytes)
{
    account->items[MEMORY_ACTIVATIONS] += bytes;
    account->rows[account->n++] = (struct tensor_row){name, formula, MEMORY_ACTIVATIONS, bytes};
}

/* ---- moments ----------------------------------------------------------------------------------------------------- */

static void moment_forward(const struct step_shape *shape, const struct point *point, struct memory_account *account)
{
    account_common(shape, point, account);
    account_sharding(shape, point, 2, false, account);
    /* the layer is half built: its MLP part does not exist yet; a recomputed one is being rebuilt beside its gradient */
    double built = point->is_recomputed ? point->saved.attention - point->saved.checkpoint : -point->saved.mlp;
    account_built(account, "layer at work, less what its MLP has not kept yet",
                  "saved tensors of attention, not yet those of the MLP (eq. 76)", built);
    account_add(account, MEMORY_ACTIVATIONS, "gradient of the layer's output", "2 T h / split",
                point->is_recomputed ? split_hidden(shape) : 0);
    account_add(account, MEMORY_ATTENTION_BUFFERS, "attention forward buffers", "traits row of the method (eq. 48)",
                shape->kinds[point->kind].attention_memory.forward_buffer_bytes);
}

static void moment_rebuilt(const struct step_shape *shape, const struct point *point, struct memory_account *account)
{
    account_layer(shape, point, account);
    account_add(account, MEMORY_ACTIVATIONS, "layer rebuilt", "saved tensors of a layer, what it kept aside (eq. 72)",
                point->saved.total - point->saved.checkpoint);
    account_add(account, MEMORY_ACTIVATIONS, "gradient of the layer's output", "2 T h / split", split_hidden(shape));
    double gathered = shape->token_split > 1 ? shape->hidden_bytes : 0;
    account_add(account, MEMORY_COMMUNICATION_BUFFERS, "gathered output gradient and unscattered output", "2 x 2 T h",
                2 * gathered);
}

static void moment_mlp_backward(const struct step_shape *shape, const struct point *point,
                                struct memory_account *account)
{
    account_layer(shape, point, account);
    double ffn_bytes = kind_ffn_bytes(shape, &shape->kinds[point->kind]) / shape->mlp_tiles;
    double rebuilt = point->is_recomputed ? point->saved.total - point->saved.checkpoint : 0;
    if (shape->mlp_tiles > 1) { /* one tile's products are rebuilt, and the gradient of the whole input grows */
        rebuilt += mlp_saved_tensors(shape, &shape->kinds[point->kind]) * ffn_bytes + shape->hidden_bytes;
    }
    account_add(account, MEMORY_ACTIVATIONS, "layer rebuilt", "saved tensors of a layer, what it kept aside (eq. 72)",
                rebuilt);
    account_add(account, MEMORY_ACTIVATIONS, "gradient of the layer's output", "2 T h / split", split_hidden(shape));
    /* Down projection: gathered output gradient and the product's gradient; gated activation: gradients of gate, up and
     * product (plain: of up and product) while the product itself is gone. The larger of the two. */
    double gathered = shape->token_split > 1 ? shape->hidden_bytes : 0;
    bool is_down = gathered > ffn_bytes;
    account_add(account, MEMORY_COMMUNICATION_BUFFERS, "gathered output gradient", "2 T h", is_down ? gathered : 0);
    account_add(account, MEMORY_ACTIVATIONS, "gradients of the MLP's activation", "2 or 1 x 2 T f / tp (eq. 77)",
                (is_down ? 1 : kind_mlp_inputs(shape, &shape->kinds[point->kind])) * ffn_bytes);
    account_layer_gradients(shape, mlp_elements(shape, point), account);
}

static void moment_attention_backward(const struct step_shape *shape, const struct point *point,
                                      struct memory_account *account)
{
    const struct kind_shape *kind = &shape->kinds[point->kind];
    account_layer(shape, point, account);
    double attention = kind->attention.traits->backward_is_whole && kind->attention.ranks > 1
                           ? point->saved.attention_inputs
                           : point->saved.attention;
    double held = point->is_recomputed ? point->saved.checkpoint : point->saved.total;
    account_built(account, "layer at work, less what is free again",
                  "saved tensors of attention; those of the MLP are free again (eq. 78)", attention - held);
    double output = shape->element * shape->tokens * shape->heads * shape->value_head_dim;
    account_add(account, MEMORY_ACTIVATIONS, "gradient of the residual", "2 T h / split", split_hidden(shape));
    account_add(account, MEMORY_ACTIVATIONS, "gradient of attention's output", "2 T H d", output);
    account_add(account, MEMORY_ATTENTION_BUFFERS, "attention backward buffers", "traits row of the method (eq. 48)",
                kind->attention_memory.backward_buffer_bytes);
    account_layer_gradients(shape,
                            (kind_mlp_inputs(shape, kind) + 1) * mlp_elements(shape, point) +
                                shape->hidden * shape->heads * shape->value_head_dim,
                            account);
}

static double loss_tokens(const struct step_shape *shape)
{
    const struct run_spec *run = &shape->question->run;
    return run->loss == LOSS_CHUNKED ? fmin((double)run->loss_chunk, shape->head_tokens) : shape->head_tokens;
}

static void account_head(const struct step_shape *shape, const struct point *point, struct memory_account *account)
{
    /* an earlier chunk of the loss has left the head's gradient; the first has none */
    bool has_chunks = loss_tokens(shape) < shape->head_tokens;
    struct point before = *point;
    before.gradient_share = gradient_share(shape, point, has_chunks);
    account_common(shape, &before, account);
    if (has_chunks) {
        account_root_gradient(shape, point, account);
    }
    account_sharding(shape, point, 1, false, account); /* the backward of the root prefetches the last layer */
    account_add(account, MEMORY_ACTIVATIONS, "final norm, in and out", "2 x 2 T h / split", 2 * split_hidden(shape));
    account_add(account, MEMORY_COMMUNICATION_BUFFERS, "gradient sent to the stage before", "2 T h / split",
                point->is_first_stage ? 0 : split_hidden(shape));
    bool gathers = shape->token_split > 1 && shape->question->run.is_vocab_parallel;
    account_add(account, MEMORY_COMMUNICATION_BUFFERS, "gathered head input", "2 T h",
                gathers ? shape->hidden_bytes : 0);
    bool gathers_table = is_sharded(shape) && !shape->question->software.framework.keeps_root_gathered;
    account_add(account, MEMORY_COMMUNICATION_BUFFERS, "gathered head weights", "2 V h / tp",
                gathers_table ? shape->element * rank_vocab_parameters(shape) : 0);
    account_add(account, MEMORY_LOGITS, "gradient of the hidden states", "2 T h, while chunks run",
                has_chunks ? split_hidden(shape) : 0);
}

static void moment_loss(const struct step_shape *shape, const struct point *point, struct memory_account *account)
{
    account_head(shape, point, account);
    double logits = loss_tokens(shape) * shape->vocab;
    account_add(account, MEMORY_LOGITS, "logits and loss", "peak bytes per logit x tokens x V / tp (eq. 79)",
                shape->question->software.loss.peak_bytes_per_logit.value * logits);
}

static void moment_head_backward(const struct step_shape *shape, const struct point *point,
                                 struct memory_account *account)
{
    account_head(shape, point, account);
    double logits = loss_tokens(shape) * shape->vocab;
    account_add(account, MEMORY_LOGITS, "gradient of the logits", "bytes per logit x tokens x V / tp (eq. 79)",
                shape->question->software.loss.gradient_bytes_per_logit.value * logits);
    bool is_new = shape->question->run.lora_rank == 0 && loss_tokens(shape) >= shape->head_tokens;
    account_add(account, MEMORY_LOGITS, "weight gradient of the head", "2 V h / tp",
                is_new ? shape->element * rank_vocab_parameters(shape) : 0);
    account_add(account, MEMORY_ACTIVATIONS, "input gradient of the head", "2 T h",
                shape->element * loss_tokens(shape) * shape->hidden);
    bool scatters = shape->token_split > 1 && shape->question->run.is_vocab_parallel;
    account_add(account, MEMORY_COMMUNICATION_BUFFERS, "scattered input gradient", "2 T h / split",
                scatters ? split_hidden(shape) : 0);
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
static const moment_fn moment_functions[N_MOMENTS] = {moment_forward,  moment_loss,         moment_head_backward,
                                                      moment_rebuilt,  moment_mlp_backward, moment_attention_backward,
                                                      moment_optimizer};

static bool moment_occurs(enum moment moment, const struct point *point)
{
    switch (moment) {
    case MOMENT_LOSS:
    case MOMENT_HEAD_BACKWARD:
        return point->has_head && point->is_last_layer;
    case MOMENT_RECOMPUTED:
        return point->is_recomputed;
    case MOMENT_OPTIMIZER:
        return point->is_last_layer;
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

static void consider_point(const struct step_shape *shape, int64_t stage, int64_t layer, struct estimate *estimate,
                           struct worst *worst)
{
    struct point point = point_at(shape, stage, layer);
    for (int m = 0; m < N_MOMENTS; m++) {
        if (!moment_occurs((enum moment)m, &point)) {
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

/* The last layer of a kind at or before a layer of the stage; 0: none. */
static int64_t last_of_kind(const struct step_shape *shape, int64_t stage, int64_t layer, int kind)
{
    while (layer >= 1 && kind_of(shape, stage, layer) != kind) {
        layer--;
    }
    return layer;
}

/* Saved activations fall and finished gradients grow as backward moves towards the input, both linearly between the last
 * layer, the last recomputed one and the first, for each kind of layer; the layer before the last is the first that finds
 * another's gradient being scattered. The maximum is at one of these. */
static void consider_stage(const struct step_shape *shape, int64_t stage, struct estimate *estimate,
                           struct worst *worst)
{
    int64_t layers = stage_layers(shape, stage);
    const int64_t tops[4] = {layers, layers - 1, stage_recomputed_layers(shape, stage), 1};
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < shape->n_kinds; k++) {
            int64_t layer = last_of_kind(shape, stage, tops[i], k);
            if (layer >= 1) {
                consider_point(shape, stage, layer, estimate, worst);
            }
        }
    }
}

static void account_runtime(const struct step_shape *shape, double allocated, struct estimate *estimate)
{
    const struct question *question = shape->question;
    const struct framework_spec *framework = &question->software.framework;
    struct memory_account runtime = {0};
    account_add(&runtime, MEMORY_RUNTIME, "CUDA context", "GPU figure context_memory",
                shape->gpu->context_memory.value);
    account_add(&runtime, MEMORY_RUNTIME, "NCCL buffers", "framework figure collective_buffers",
                question->run.gpus > 1 ? framework->collective_buffers.value : 0);
    account_add(&runtime, MEMORY_RUNTIME, "allocator slack", "allocated x framework figure allocator_slack",
                allocated * framework->allocator_slack.value);
    for (int i = 0; i < runtime.n; i++) {
        estimate->tensors[estimate->n_tensors++] = runtime.rows[i];
    }
    estimate->memory_bytes[MEMORY_RUNTIME] = runtime.items[MEMORY_RUNTIME];
}

/* What the first stage's micro-batches in flight keep, all of it on the host. */
static double offloaded_activations(const struct step_shape *shape)
{
    double in_flight = schedule_in_flight(&shape->question->layout, shape->micro_batches, 0);
    return in_flight * saved_layers(shape, 0, stage_layers(shape, 0), stage_recomputed_layers(shape, 0));
}

void price_memory(const struct step_shape *shape, struct estimate *estimate)
{
    const struct hardware_spec *hardware = &shape->question->hardware;
    struct worst worst = {0};
    for (int64_t stage = 0; stage < shape->question->layout.pp; stage++) {
        /* a later stage with no more layers holds fewer micro-batches of the same: only ends and heavier stages can win */
        bool is_end = stage == 0 || stage == shape->question->layout.pp - 1;
        bool is_alike = shape->n_kinds == 1 && !is_end && stage_layers(shape, stage) <= stage_layers(shape, stage - 1);
        if (!is_alike) {
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
    estimate->host_bytes = offload_host_bytes(shape, offloaded_activations(shape));
    estimate->host_capacity_bytes = hardware->node.host_memory.value;
    estimate->fits =
        estimate->peak_bytes <= estimate->capacity_bytes && estimate->host_bytes <= estimate->host_capacity_bytes;
}
