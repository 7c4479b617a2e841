/* Parameters of one rank (docs/model.md, eq. 50, 51). */
#include "step/step_internal.h"

double parameters_sum(struct parameters parameters)
{
    return parameters.dense + parameters.expert;
}

double sharded(const struct step_shape *shape, struct parameters parameters, bool is_sharded)
{
    return is_sharded ? parameters.dense / shape->shards + parameters.expert / shape->expert_shards
                      : parameters_sum(parameters);
}

/* RMSNorm scales; LayerNorm also shifts. */
static double norm_parameters(const struct step_shape *shape)
{
    return shape->question->model.has_norm_bias ? 2 * shape->hidden : shape->hidden;
}

static double attention_parameters(const struct step_shape *shape)
{
    const struct model_spec *model = &shape->question->model;
    double h = shape->hidden;
    double q_columns = shape->heads * shape->head_dim;
    double norms =
        norm_parameters(shape) + (model->has_qk_norm ? 2 * shape->head_dim : 0) + (model->has_sinks ? shape->heads : 0);
    double output = shape->heads * shape->value_head_dim * h + (model->has_o_bias ? h : 0);
    if (model->kv_lora_rank == 0) {
        double columns = q_columns + shape->kv_heads * (shape->head_dim + shape->value_head_dim);
        return h * columns + (model->has_qkv_bias ? columns : 0) + output + norms;
    }
    /* latents are projected whole on every tp rank; only the expansion is split over heads */
    double q_lora = (double)model->q_lora_rank;
    double kv_lora = (double)model->kv_lora_rank;
    double nope = shape->head_dim - (double)model->rope_head_dim;
    double query = q_lora > 0 ? h * q_lora + q_lora + q_lora * q_columns : h * q_columns;
    double key_value = h * (kv_lora + (double)model->rope_head_dim) + kv_lora +
                       kv_lora * shape->heads * (nope + shape->value_head_dim);
    return query + key_value + output + norms;
}

/* `inputs` products from the hidden size to the width, one back; a bias for each. */
static double mlp_parameters(const struct step_shape *shape, double inputs, double width, bool has_bias)
{
    return (inputs + 1) * shape->hidden * width + (has_bias ? inputs * width + shape->hidden : 0);
}

static struct parameters layer_parameters(const struct step_shape *shape, int kind)
{
    const struct model_spec *model = &shape->question->model;
    struct parameters parameters = {.dense = attention_parameters(shape) + norm_parameters(shape)};
    if (!shape->kinds[kind].is_moe) {
        parameters.dense += mlp_parameters(shape, shape->mlp_inputs, shape->ffn, model->has_mlp_bias);
        return parameters;
    }
    double experts = (double)model->n_experts;
    parameters.dense += shape->hidden * experts + (model->has_router_bias ? experts : 0);
    parameters.dense += shape->shared_ffn > 0 ? mlp_parameters(shape, GATED_INPUTS, shape->shared_ffn, false) : 0;
    parameters.dense += model->has_shared_expert_gate ? shape->hidden : 0;
    parameters.expert =
        shape->local_experts * mlp_parameters(shape, GATED_INPUTS, shape->expert_ffn, model->has_expert_bias);
    return parameters;
}

double rank_vocab_parameters(const struct step_shape *shape)
{
    return shape->vocab * shape->hidden;
}

static struct parameters all_layers(const struct step_shape *shape, const struct stage_class *stage, bool only_trained)
{
    double counts[MAX_LAYER_KINDS];
    struct parameters sum = {0};
    class_kinds(shape, stage, stage->layers, counts);
    for (int i = 0; i < shape->n_kinds; i++) {
        struct parameters one = only_trained ? rank_layer_trained(shape, i) : rank_layer_parameters(shape, i);
        sum.dense += counts[i] * one.dense;
        sum.expert += counts[i] * one.expert;
    }
    return sum;
}

/* Tables and final norm of the stages at the ends; a tied table that both use exists once on a single stage. */
static double end_parameters(const struct step_shape *shape, const struct stage_class *stage)
{
    double positions = (double)shape->question->model.position_rows * shape->hidden; /* whole on every tp rank */
    double parameters = stage->has_embedding ? rank_vocab_parameters(shape) + positions : 0;
    if (stage->has_head) {
        bool shares_table = shape->question->model.has_tied_embeddings && stage->has_embedding;
        parameters += norm_parameters(shape) + (shares_table ? 0 : rank_vocab_parameters(shape));
    }
    return parameters;
}

struct parameters rank_stage_parameters(const struct step_shape *shape, const struct stage_class *stage)
{
    struct parameters parameters = all_layers(shape, stage, false);
    double copies = schedule_parameter_copies(&shape->question->layout);
    parameters.dense = copies * parameters.dense + end_parameters(shape, stage);
    parameters.expert *= copies;
    return parameters;
}

/* LoRA: two thin matrices beside every projection, rank x (in + out); routed experts are left alone, as PEFT's
 * all-linear does for fused experts. The input side of a column-parallel layer is whole on every tp rank. */
static double layer_adapters(const struct step_shape *shape, int kind)
{
    const struct model_spec *model = &shape->question->model;
    double rank = (double)shape->question->run.lora_rank;
    double q = shape->heads * shape->head_dim;
    double kv = shape->kv_heads * (shape->head_dim + shape->value_head_dim);
    double o = shape->heads * shape->value_head_dim;
    double width = shape->kinds[kind].is_moe ? shape->shared_ffn : shape->ffn;
    double attention_inputs = model->kv_lora_rank > 0 ? 2 : 3; /* q, k, v, or q and the latent */
    double attention = attention_inputs * shape->hidden + q + kv + o + shape->hidden;
    double inputs = kind_mlp_inputs(shape, &shape->kinds[kind]);
    double mlp = width > 0 ? (inputs + 1) * (shape->hidden + width) : 0;
    return rank * (attention + mlp);
}

void count_parameters(struct step_shape *shape)
{
    for (int k = 0; k < shape->n_kinds; k++) {
        struct parameters adapters = {.dense = layer_adapters(shape, k)};
        shape->kinds[k].parameters = layer_parameters(shape, k);
        shape->kinds[k].trained = shape->question->run.lora_rank > 0 ? adapters : shape->kinds[k].parameters;
    }
}

struct parameters rank_layer_parameters(const struct step_shape *shape, int kind)
{
    return shape->kinds[kind].parameters;
}

struct parameters rank_layer_trained(const struct step_shape *shape, int kind)
{
    return shape->kinds[kind].trained;
}

struct parameters rank_stage_trained(const struct step_shape *shape, const struct stage_class *stage)
{
    return shape->question->run.lora_rank > 0 ? all_layers(shape, stage, true) : rank_stage_parameters(shape, stage);
}
