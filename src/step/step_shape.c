/* Shapes of one rank, from the question (docs/model.md, section 5). */
#include "step/step_internal.h"

#include <math.h>

static const double BF16_BYTES = 2;
/* Megatron pads the vocabulary to a multiple of 128 x tp (arguments.py: make_vocab_size_divisible_by). */
static const double VOCAB_MULTIPLE = 128;

static void shape_heads(struct step_shape *shape, const struct model_spec *model)
{
    shape->heads = (double)model->n_heads / shape->tp;
    shape->kv_heads = fmax((double)model->n_kv_heads / shape->tp, 1);
    shape->head_dim = (double)model->head_dim;
    shape->qk_bytes = BF16_BYTES * shape->tokens * (shape->heads + shape->kv_heads) * shape->head_dim;
    shape->qkv_bytes = BF16_BYTES * shape->tokens * (shape->heads + 2 * shape->kv_heads) * shape->head_dim;
}

static void shape_vocab(struct step_shape *shape, const struct question *question)
{
    double vocab = (double)question->model.vocab;
    if (question->run.is_vocab_parallel) {
        double multiple = VOCAB_MULTIPLE * shape->tp;
        bool is_padded = question->software.framework.has_gradient_placeholders || shape->tp > 1;
        double padded = is_padded ? ceil(vocab / multiple) * multiple : vocab;
        shape->vocab = padded / shape->tp;
        shape->head_tokens = shape->tokens;
    } else {
        shape->vocab = vocab;
        shape->head_tokens = shape->tokens / shape->token_split;
    }
}

void step_shape_init(struct step_shape *shape, const struct question *question)
{
    const struct layout_spec *layout = &question->layout;
    const struct run_spec *run = &question->run;
    *shape = (struct step_shape){.question = question, .gpu = &question->hardware.gpu};
    shape->attention = method_problem(question);
    method_memory(&shape->attention, &shape->attention_memory);
    shape->tp_group = layout_placement(layout, &question->hardware, AXIS_TP);
    shape->pp_group = layout_placement(layout, &question->hardware, AXIS_PP);
    shape->shard_group = layout_shard_placement(layout, &question->hardware);
    shape->tp = (double)layout->tp;
    shape->token_split = layout->has_tp_sp ? shape->tp : 1;
    shape->tokens = (double)layout->micro_batch * (double)run->seq / (double)layout->sp;
    shape->hidden = (double)question->model.hidden;
    shape->ffn = (double)question->model.ffn / shape->tp;
    shape->hidden_bytes = BF16_BYTES * shape->tokens * shape->hidden;
    shape->ffn_bytes = BF16_BYTES * shape->tokens * shape->ffn;
    shape->gradient_size = (double)dtype_bytes(run->gradient_dtype);
    shape->parameter_size = (double)dtype_bytes(run->parameter_dtype);
    shape->shards = (double)(layout->dp * layout->sp);
    shape->micro_batches = run->global_batch / (layout->dp * layout->micro_batch);
    shape_heads(shape, &question->model);
    shape_vocab(shape, question);
}

double rank_layer_parameters(const struct step_shape *shape)
{
    const struct model_spec *model = &shape->question->model;
    double qkv_columns = (shape->heads + 2 * shape->kv_heads) * shape->head_dim;
    double matrices = shape->hidden * qkv_columns + shape->heads * shape->head_dim * shape->hidden + 3 * shape->hidden * shape->ffn;
    double norms = 2 * shape->hidden + (model->has_qk_norm ? 2 * shape->head_dim : 0);
    double biases = (model->has_qkv_bias ? qkv_columns : 0) + (model->has_o_bias ? shape->hidden : 0) +
                    (model->has_mlp_bias ? 2 * shape->ffn + shape->hidden : 0);
    return matrices + norms + biases;
}

double rank_vocab_parameters(const struct step_shape *shape)
{
    return shape->vocab * shape->hidden;
}

int64_t stage_layers(const struct step_shape *shape, int64_t stage)
{
    return layout_stage_layers(&shape->question->layout, &shape->question->model, stage);
}

double rank_stage_parameters(const struct step_shape *shape, int64_t stage)
{
    int64_t last = shape->question->layout.pp - 1;
    double parameters = (double)stage_layers(shape, stage) * rank_layer_parameters(shape);
    if (stage == 0) {
        parameters += rank_vocab_parameters(shape);
    }
    if (stage == last) {
        bool shares_table = shape->question->model.has_tied_embeddings && last == 0;
        parameters += shape->hidden + (shares_table ? 0 : rank_vocab_parameters(shape));
    }
    return parameters;
}

int64_t stage_recomputed_layers(const struct step_shape *shape, int64_t stage)
{
    const struct layout_spec *layout = &shape->question->layout;
    int64_t layers = stage_layers(shape, stage);
    switch (layout->recompute) {
    case RECOMPUTE_FULL:
        return layers;
    case RECOMPUTE_BLOCK:
        return layout->recompute_layers < layers ? layout->recompute_layers : layers;
    case RECOMPUTE_NONE:
    case RECOMPUTE_SELECTIVE:
        break;
    }
    return 0;
}
