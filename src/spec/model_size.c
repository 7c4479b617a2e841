/* Parameters, matrix by matrix: docs/model.md, eq. 1-6. */
#include "spec/spec_internal.h"

/* Query, key, value and output projections without biases. Under latent attention: down to the latents, whose norms
 * count here too, and up again to every head. */
static double projections(const struct model_spec *model)
{
    double hidden = (double)model->hidden;
    double q_width = (double)(model->n_heads * model->head_dim);
    double o_width = (double)(model->n_heads * model->value_head_dim);
    if (model->kv_lora_rank == 0) {
        return hidden * (q_width + o_width) +
               hidden * (double)(model->n_kv_heads * (model->head_dim + model->value_head_dim));
    }
    double q_rank = (double)model->q_lora_rank;
    double kv_rank = (double)model->kv_lora_rank;
    double rope = (double)model->rope_head_dim;
    double nope_width = (double)model->n_heads * ((double)model->head_dim - rope);
    double queries = model->q_lora_rank > 0 ? hidden * q_rank + q_rank + q_rank * q_width : hidden * q_width;
    double keys_values = hidden * (kv_rank + rope) + kv_rank + kv_rank * (nope_width + o_width);
    return queries + keys_values + o_width * hidden;
}

/* Latent attention has its bias on the projections down. */
static double qkv_biases(const struct model_spec *model)
{
    if (model->kv_lora_rank > 0) {
        return (double)(model->q_lora_rank + model->kv_lora_rank + model->rope_head_dim);
    }
    return (double)((model->n_heads + model->n_kv_heads) * model->head_dim + model->n_kv_heads * model->value_head_dim);
}

/* Of one norm over the hidden width: RMSNorm has a weight only. */
static double norm_size(const struct model_spec *model)
{
    return (double)model->hidden * (model->has_norm_bias ? 2 : 1);
}

static double attention_size(const struct model_spec *model)
{
    double hidden = (double)model->hidden;
    double size = projections(model) + norm_size(model);
    size += model->has_qkv_bias ? qkv_biases(model) : 0;
    size += model->has_o_bias ? hidden : 0;
    size += model->has_qk_norm ? 2 * (double)model->head_dim : 0;
    size += model->has_sinks ? (double)model->n_heads : 0;
    return size;
}

/* Gate, up and down. */
static double gated_mlp(const struct model_spec *model, int64_t width, bool has_bias)
{
    double hidden = (double)model->hidden;
    return 3 * hidden * (double)width + (has_bias ? 2 * (double)width + hidden : 0);
}

/* The dense MLP: gated, or up and down only. */
static double dense_mlp(const struct model_spec *model)
{
    if (!model->has_plain_mlp) {
        return gated_mlp(model, model->ffn, model->has_mlp_bias);
    }
    double hidden = (double)model->hidden;
    double width = (double)model->ffn;
    return 2 * hidden * width + (model->has_mlp_bias ? width + hidden : 0);
}

/* Everything of an expert layer but the routed experts: router, shared experts with their gate, the norm before. */
static double around_experts(const struct model_spec *model)
{
    double hidden = (double)model->hidden;
    double experts = (double)model->n_experts;
    double shared = model->shared_expert_ffn > 0 ? gated_mlp(model, model->shared_expert_ffn, false) : 0;
    return hidden * experts + (model->has_router_bias ? experts : 0) + shared +
           (model->has_shared_expert_gate ? hidden : 0) + norm_size(model);
}

static void size_layers(const struct model_spec *model, struct model_size *size)
{
    for (int i = 0; i < model->n_kinds; i++) {
        bool is_moe = model->kinds[i].is_moe;
        size->layer[i] = size->attention + (is_moe ? size->moe : size->mlp);
        size->active_layer[i] = size->attention + (is_moe ? size->moe_active : size->mlp);
    }
    int64_t n_layers[MAX_LAYER_KINDS] = {0};
    for (int64_t layer = 0; layer < model->n_layers; layer++) {
        n_layers[model->kind_of_layer[layer]]++;
    }
    for (int i = 0; i < model->n_kinds; i++) {
        size->layers += (double)n_layers[i] * size->layer[i];
        size->active_layers += (double)n_layers[i] * size->active_layer[i];
    }
}

struct model_size model_size(const struct model_spec *model)
{
    double hidden = (double)model->hidden;
    struct model_size size = {0};
    size.attention = attention_size(model);
    size.mlp = dense_mlp(model) + norm_size(model);
    if (model->n_experts > 0) {
        size.expert = gated_mlp(model, model->expert_ffn, model->has_expert_bias);
        size.moe = (double)model->n_experts * size.expert + around_experts(model);
        size.moe_active = (double)model->experts_per_token * size.expert + around_experts(model);
    }
    size_layers(model, &size);
    size.head = (double)model->vocab * hidden;
    size.embedding = size.head + (double)model->position_rows * hidden;
    size.final_norm = norm_size(model);
    size.total = size.layers + size.embedding + size.final_norm + (model->has_tied_embeddings ? 0 : size.head);
    size.active = size.active_layers + size.final_norm + size.head;
    return size;
}
