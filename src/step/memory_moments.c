/* What each moment of a step holds, as lists of named tensors (docs/model.md, eq. 73-79): in three parts, which stages share
 * more or less of. common: state, workspaces, what is saved; sharding: buffers of ZeRO; own: the moment's. */
#include "step/step_internal.h"

#include <math.h>

static const double FP32_BYTES = 4;

const char *const moment_names[] = {
    "attention forward", "loss", "head backward", "layer rebuilt", "mlp backward", "attention backward",
    "optimizer",         NULL};

static double loss_tokens(const struct step_shape *shape)
{
    const struct run_spec *run = &shape->question->run;
    return run->loss == LOSS_CHUNKED ? fmin((double)run->loss_chunk, shape->head_tokens) : shape->head_tokens;
}

bool loss_has_chunks(const struct step_shape *shape)
{
    return loss_tokens(shape) < shape->head_tokens;
}

bool is_sharded(const struct step_shape *shape)
{
    return shape->question->layout.zero >= 3 && shape->shards > 1;
}

struct saved_layer kept_layer_bytes(const struct step_shape *shape, int kind)
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

/* ---- common and sharding ---------------------------------------------------------------------------- */

void account_workspaces(const struct step_shape *shape, bool has_head, struct memory_account *account)
{
    const struct question *question = shape->question;
    const struct framework_spec *framework = &question->software.framework;
    account_add(account, MEMORY_ACTIVATIONS, "attention workspace", "framework figure",
                framework->attention_workspace.value);
    /* TransformerEngine's GEMMs bring their own workspace; only the head runs through the library's */
    bool has_library_gemm = question->layout.kernels != KERNELS_TE || has_head;
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
static double root_parameters(const struct step_shape *shape, const struct stage_class *stage)
{
    double tables = (stage->has_embedding ? 1 : 0) + (stage->has_head ? 1 : 0);
    bool is_tied = shape->question->model.has_tied_embeddings && stage->has_embedding && stage->has_head;
    return (is_tied ? 1 : tables) * rank_vocab_parameters(shape) + (stage->has_head ? shape->hidden : 0);
}

/* ZeRO 3: the root where it stays gathered; the layer at work and the one prefetched; in backward the gradient of the
 * layer before on its way to being scattered. ZeRO 1 and 2: the bucket on its way. */
static void account_zero(const struct step_shape *shape, const struct point *point, double gathered_layers,
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
        double root = framework->keeps_root_gathered ? root_parameters(shape, point->stage) : 0;
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
static void account_root_gradient(const struct step_shape *shape, const struct stage_class *stage,
                                  struct memory_account *account)
{
    bool waits = is_sharded(shape) && !gathers_once(shape) && shape->question->software.framework.keeps_root_gathered &&
                 stage->has_head && shape->question->run.lora_rank == 0;
    account_add(account, MEMORY_GRADIENTS, "gradient of the head, whole", "2 V h",
                waits ? shape->element * rank_vocab_parameters(shape) : 0);
}

static bool is_of_head(enum moment moment)
{
    return moment == MOMENT_LOSS || moment == MOMENT_HEAD_BACKWARD;
}

void account_sharding(const struct step_shape *shape, const struct point *point, enum moment moment,
                      struct memory_account *account)
{
    const struct framework_spec *framework = &shape->question->software.framework;
    if (moment == MOMENT_OPTIMIZER) {
        return;
    }
    if (is_of_head(moment)) {
        if (loss_has_chunks(shape)) { /* an earlier chunk of the loss has left the head's gradient */
            account_root_gradient(shape, point->stage, account);
        }
        account_zero(shape, point, 1, false, account); /* the backward of the root prefetches the last layer */
        bool gathers_table = is_sharded(shape) && !framework->keeps_root_gathered;
        account_add(account, MEMORY_COMMUNICATION_BUFFERS, "gathered head weights", "2 V h / tp",
                    gathers_table ? shape->element * rank_vocab_parameters(shape) : 0);
        return;
    }
    bool is_backward = moment != MOMENT_FORWARD;
    bool scatters = is_backward && (!point->is_first_backward || framework->has_persistent_gradients);
    account_zero(shape, point, is_backward && point->is_last_backward ? 1 : 2, scatters, account);
    if (is_backward) {
        account_root_gradient(shape, point->stage, account);
    }
}

/* ---- own -------------------------------------------------------------------------------------------------------- */

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

static void own_forward(const struct step_shape *shape, const struct point *point, struct memory_account *account)
{
    /* the layer is half built: its MLP part does not exist yet; a recomputed one is being rebuilt beside its gradient */
    double built = point->is_recomputed ? point->saved.attention - point->saved.checkpoint : -point->saved.mlp;
    account_any(account, MEMORY_ACTIVATIONS, "layer at work, less what its MLP has not kept yet",
                "saved tensors of attention, not yet those of the MLP (eq. 76)", built);
    account_add(account, MEMORY_ACTIVATIONS, "gradient of the layer's output", "2 T h / split",
                point->is_recomputed ? split_hidden(shape) : 0);
    account_add(account, MEMORY_ATTENTION_BUFFERS, "attention forward buffers", "traits row of the method (eq. 48)",
                shape->kinds[point->kind].attention_memory.forward_buffer_bytes);
}

static void own_rebuilt(const struct step_shape *shape, const struct point *point, struct memory_account *account)
{
    account_add(account, MEMORY_ACTIVATIONS, "layer rebuilt", "saved tensors of a layer, what it kept aside (eq. 72)",
                point->saved.total - point->saved.checkpoint);
    account_add(account, MEMORY_ACTIVATIONS, "gradient of the layer's output", "2 T h / split", split_hidden(shape));
    double gathered = shape->token_split > 1 ? shape->hidden_bytes : 0;
    account_add(account, MEMORY_COMMUNICATION_BUFFERS, "gathered output gradient and unscattered output", "2 x 2 T h",
                2 * gathered);
}

static void own_mlp_backward(const struct step_shape *shape, const struct point *point, struct memory_account *account)
{
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

static void own_attention_backward(const struct step_shape *shape, const struct point *point,
                                   struct memory_account *account)
{
    const struct kind_shape *kind = &shape->kinds[point->kind];
    double attention = kind->attention.traits->backward_is_whole && kind->attention.ranks > 1
                           ? point->saved.attention_inputs
                           : point->saved.attention;
    double held = point->is_recomputed ? point->saved.checkpoint : point->saved.total;
    account_any(account, MEMORY_ACTIVATIONS, "layer at work, less what is free again",
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

static void account_head(const struct step_shape *shape, const struct point *point, struct memory_account *account)
{
    account_add(account, MEMORY_ACTIVATIONS, "final norm, in and out", "2 x 2 T h / split", 2 * split_hidden(shape));
    account_add(account, MEMORY_COMMUNICATION_BUFFERS, "gradient sent to the stage before", "2 T h / split",
                point->stage->has_embedding ? 0 : split_hidden(shape));
    bool gathers = shape->token_split > 1 && shape->question->run.is_vocab_parallel;
    account_add(account, MEMORY_COMMUNICATION_BUFFERS, "gathered head input", "2 T h",
                gathers ? shape->hidden_bytes : 0);
    account_add(account, MEMORY_LOGITS, "gradient of the hidden states", "2 T h, while chunks run",
                loss_has_chunks(shape) ? split_hidden(shape) : 0);
}

static void own_loss(const struct step_shape *shape, const struct point *point, struct memory_account *account)
{
    account_head(shape, point, account);
    double logits = loss_tokens(shape) * shape->vocab;
    account_add(account, MEMORY_LOGITS, "logits and loss", "peak bytes per logit x tokens x V / tp (eq. 79)",
                shape->question->software.loss.peak_bytes_per_logit.value * logits);
}

static void own_head_backward(const struct step_shape *shape, const struct point *point, struct memory_account *account)
{
    account_head(shape, point, account);
    double logits = loss_tokens(shape) * shape->vocab;
    account_add(account, MEMORY_LOGITS, "gradient of the logits", "bytes per logit x tokens x V / tp (eq. 79)",
                shape->question->software.loss.gradient_bytes_per_logit.value * logits);
    bool is_new = shape->question->run.lora_rank == 0 && !loss_has_chunks(shape);
    account_add(account, MEMORY_LOGITS, "weight gradient of the head", "2 V h / tp",
                is_new ? shape->element * rank_vocab_parameters(shape) : 0);
    account_add(account, MEMORY_ACTIVATIONS, "input gradient of the head", "2 T h",
                shape->element * loss_tokens(shape) * shape->hidden);
    bool scatters = shape->token_split > 1 && shape->question->run.is_vocab_parallel;
    account_add(account, MEMORY_COMMUNICATION_BUFFERS, "scattered input gradient", "2 T h / split",
                scatters ? split_hidden(shape) : 0);
}

void account_own(const struct step_shape *shape, const struct point *point, enum moment moment,
                 struct memory_account *account)
{
    typedef void (*moment_fn)(const struct step_shape *, const struct point *, struct memory_account *);
    static const moment_fn functions[N_MOMENTS] = {own_forward,
                                                   own_loss,
                                                   own_head_backward,
                                                   own_rebuilt,
                                                   own_mlp_backward,
                                                   own_attention_backward,
                                                   [MOMENT_OPTIMIZER] = NULL};
    if (functions[moment] != NULL) {
        functions[moment](shape, point, account);
    }
}

bool moment_occurs(enum moment moment, const struct point *point)
{
    switch (moment) {
    case MOMENT_LOSS:
    case MOMENT_HEAD_BACKWARD:
        return point->stage->has_head && point->is_last_layer;
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
