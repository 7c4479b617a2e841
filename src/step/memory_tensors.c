/* Named tensors of one rank: state and saved activations (docs/model.md, eq. 70-72). */
#include "step/step_internal.h"

#include <assert.h>
#include <math.h>

static const double FP32_BYTES = 4;

double memory_account_total(const struct memory_account *account)
{
    double total = 0;
    for (int item = 0; item < N_MEMORY_ITEMS; item++) {
        total += account->items[item];
    }
    return total;
}

void account_any(struct memory_account *account, enum memory_item item, const char *name, const char *formula,
                 double bytes)
{
    account->items[item] += bytes;
    if (account->rows != NULL) {
        assert(account->n < MAX_TENSORS);
        account->rows[account->n++] =
            (struct tensor_row){.name = name, .formula = formula, .item = item, .bytes = bytes};
    }
}

void account_add(struct memory_account *account, enum memory_item item, const char *name, const char *formula,
                 double bytes)
{
    if (bytes <= 0) {
        return;
    }
    account_any(account, item, name, formula, bytes);
}

void account_state(const struct step_shape *shape, const struct stage_class *stage, double gradient_share,
                   struct memory_account *account)
{
    const struct run_spec *run = &shape->question->run;
    const struct layout_spec *layout = &shape->question->layout;
    struct parameters all = rank_stage_parameters(shape, stage);
    struct parameters trained = rank_stage_trained(shape, stage);
    double adapters = run->lora_rank > 0 ? parameters_sum(trained) : 0;
    double weights = layout->offloads_parameters ? 0 : sharded(shape, all, layout->zero >= 3);
    double owned = layout->offloads_optimizer ? 0 : sharded(shape, trained, layout->zero >= 1);
    double moments = 2 * (double)dtype_bytes(run->moment_dtype);
    account_add(account, MEMORY_WEIGHTS, "weights", "stage parameters x bytes (/ dp sp from zero 3)",
                shape->parameter_size * weights);
    account_add(account, MEMORY_WEIGHTS, "adapters", "LoRA parameters x bytes", shape->parameter_size * adapters);
    account_add(account, MEMORY_GRADIENTS, "gradients", "trained parameters x bytes (/ dp sp from zero 2)",
                shape->gradient_size * gradient_share * sharded(shape, trained, layout->zero >= 2));
    account_add(account, MEMORY_OPTIMIZER, "Adam moments", "trained parameters x 2 x bytes (/ dp sp from zero 1)",
                moments * owned);
    account_add(account, MEMORY_OPTIMIZER, "master weights", "trained parameters x 4 (/ dp sp from zero 1)",
                run->has_master_weights ? FP32_BYTES * owned : 0);
}

/* Key-value heads repeated before attention, beside the projection's own. */
static double expanded_kv_bytes(const struct step_shape *shape, const struct kind_shape *kind)
{
    bool is_expanded = kind->attention.kv_heads > shape->kv_heads && kind->attention.traits->keeps_projected_kv;
    return is_expanded ? problem_kv_bytes(&kind->attention) : 0;
}

/* Tensors of attention kept for backward: q, k, v, the output, and under MLA the latents, before and after their norms. */
static double saved_attention(const struct step_shape *shape, const struct kind_shape *kind)
{
    const struct model_spec *model = &shape->question->model;
    const struct attention_problem *problem = &kind->attention;
    double query = shape->element * shape->tokens * shape->heads * shape->head_dim;
    double output = shape->element * shape->tokens * shape->heads * shape->value_head_dim;
    double kv_heads = problem->traits->keeps_projected_kv ? shape->kv_heads : problem->kv_heads;
    double key_value = shape->element * shape->tokens * kv_heads * (shape->head_dim + shape->value_head_dim);
    double log_sum_exp = FP32_BYTES * shape->tokens * shape->heads;
    double bytes = query + key_value + output + log_sum_exp + kind->attention_memory.saved_bytes;
    bytes += expanded_kv_bytes(shape, kind);
    if (model->has_qk_norm) {
        bytes += shape->qk_bytes;
    }
    if (model->kv_lora_rank > 0) {
        double latents = 2 * (double)(model->q_lora_rank + model->kv_lora_rank) + (double)model->rope_head_dim;
        bytes += shape->element * shape->tokens * latents / shape->token_split;
    }
    return bytes;
}

/* Gated products, and with experts the permuted inputs, the outputs before they are summed, and the router's logits. */
static double saved_mlp(const struct step_shape *shape, const struct kind_shape *kind)
{
    if (shape->mlp_tiles > 1 && !kind->is_moe) {
        return 0; /* a tiled MLP keeps its input only */
    }
    double bytes = mlp_saved_tensors(shape, kind) * kind_ffn_bytes(shape, kind);
    if (kind->is_moe) {
        double copies = shape->element * shape->expert_tokens * shape->hidden;
        bytes += 2 * copies + FP32_BYTES * shape->routed_tokens * (double)shape->question->model.n_experts;
    }
    return bytes;
}

/* Input, attention's output with its log-sum-exp, and the first, third, ... product: q, v, one of gate and up, down. */
static double kept_products(const struct step_shape *shape, const struct kind_shape *kind)
{
    double columns =
        shape->heads * shape->head_dim + shape->kv_heads * shape->value_head_dim + shape->heads * shape->value_head_dim;
    double hidden = 2 * shape->hidden_bytes / shape->token_split;
    return hidden + shape->element * shape->tokens * columns + FP32_BYTES * shape->tokens * shape->heads +
           kind_ffn_bytes(shape, kind);
}

/* Kept for backward, per token of the rank (eq. 72). With TP + SP hidden tensors are split over tp, except the inputs of
 * column-parallel layers where the framework keeps them gathered. */
struct saved_layer saved_layer_bytes(const struct step_shape *shape, int kind)
{
    double split = shape->hidden_bytes / shape->token_split;
    bool keeps_gathered = shape->question->software.framework.saves_gathered_input && shape->token_split > 1;
    double norm_output = keeps_gathered ? shape->hidden_bytes : split;
    double norm_statistics = FP32_BYTES * shape->tokens / shape->token_split;
    struct saved_layer saved = {.input = split};
    saved.attention = split + norm_statistics + norm_output + saved_attention(shape, &shape->kinds[kind]);
    saved.attention_inputs =
        split + norm_statistics + norm_output + shape->qkv_bytes + expanded_kv_bytes(shape, &shape->kinds[kind]);
    saved.mlp = split + norm_statistics + norm_output + saved_mlp(shape, &shape->kinds[kind]);
    saved.total = saved.attention + saved.mlp;
    saved.checkpoint = keeps_products(shape) ? fmin(kept_products(shape, &shape->kinds[kind]), saved.total) : split;
    return saved;
}
