/* Named tensors of one rank: state, saved activations, fixed workspaces (docs/model.md, eq. 70-74). */
#include "step/step_internal.h"

#include <assert.h>

static const double BF16_BYTES = 2;
static const double FP32_BYTES = 4;

double memory_account_total(const struct memory_account *account)
{
    double total = 0;
    for (int item = 0; item < N_MEMORY_ITEMS; item++) {
        total += account->items[item];
    }
    return total;
}

void account_add(struct memory_account *account, enum memory_item item, const char *name, const char *formula, double bytes)
{
    if (bytes <= 0) {
        return;
    }
    assert(account->n < MAX_TENSORS);
    account->rows[account->n++] = (struct tensor_row){.name = name, .formula = formula, .item = item, .bytes = bytes};
    account->items[item] += bytes;
}

void account_state(const struct step_shape *shape, int64_t stage, double gradient_share, struct memory_account *account)
{
    const struct run_spec *run = &shape->question->run;
    int zero = shape->question->layout.zero;
    double parameters = rank_stage_parameters(shape, stage);
    double weight_shards = zero >= 3 ? shape->shards : 1;
    double gradient_shards = zero >= 2 ? shape->shards : 1;
    double optimizer_shards = zero >= 1 ? shape->shards : 1;
    double moments = 2 * (double)dtype_bytes(run->moment_dtype);
    account_add(account, MEMORY_WEIGHTS, "weights", "stage parameters x bytes (/ dp sp from zero 3)",
                parameters * shape->parameter_size / weight_shards);
    account_add(account, MEMORY_GRADIENTS, "gradients", "stage parameters x bytes (/ dp sp from zero 2)",
                parameters * shape->gradient_size * gradient_share / gradient_shards);
    account_add(account, MEMORY_OPTIMIZER, "Adam moments", "stage parameters x 2 x bytes (/ dp sp from zero 1)",
                parameters * moments / optimizer_shards);
    account_add(account, MEMORY_OPTIMIZER, "master weights", "stage parameters x 4 (/ dp sp from zero 1)",
                run->has_master_weights ? parameters * FP32_BYTES / optimizer_shards : 0);
}

/* Kept for backward, per token of the rank (eq. 72). With TP + SP hidden tensors are split over tp, except the inputs of
 * column-parallel layers where the framework keeps them gathered. */
struct saved_layer saved_layer_bytes(const struct step_shape *shape)
{
    const struct question *question = &shape->question[0];
    const struct model_spec *model = &question->model;
    double split = shape->hidden_bytes / shape->token_split;
    bool keeps_gathered = question->software.framework.saves_gathered_input && shape->token_split > 1;
    double norm_output = keeps_gathered ? shape->hidden_bytes : split;
    double norm_statistics = FP32_BYTES * shape->tokens / shape->token_split;
    double query = BF16_BYTES * shape->tokens * shape->heads * shape->head_dim;
    double key_value = 2 * BF16_BYTES * shape->tokens * shape->attention.kv_heads * shape->head_dim;
    double log_sum_exp = FP32_BYTES * shape->tokens * shape->heads;
    struct saved_layer saved = {.input = split};
    saved.attention = split + norm_statistics + norm_output + query + key_value + query + log_sum_exp + shape->attention_memory.saved_bytes;
    if (model->has_qk_norm) {
        saved.attention += shape->qk_bytes;
    }
    saved.mlp = split + norm_statistics + norm_output + question->software.kernels.saved_ffn_tensors.value * shape->ffn_bytes;
    saved.total = saved.attention + saved.mlp;
    return saved;
}
