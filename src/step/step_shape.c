/* Shapes of one rank, from the question (docs/model.md, section 5). */
#include "step/step_internal.h"

/* GELU between two products: see mlp_passes. */
static const double PLAIN_FORWARD_PASSES = 2;
static const double PLAIN_BACKWARD_PASSES = 3;
static const double PLAIN_SAVED_TENSORS = 2;

#include <math.h>

/* Megatron pads the vocabulary to a multiple of 128 x tp (arguments.py: make_vocab_size_divisible_by). */
static const double VOCAB_MULTIPLE = 128;

static void shape_heads(struct step_shape *shape, const struct model_spec *model)
{
    shape->heads = (double)model->n_heads / shape->tp;
    shape->kv_heads = fmax((double)model->n_kv_heads / shape->tp, 1);
    shape->head_dim = (double)model->head_dim;
    shape->value_head_dim = (double)model->value_head_dim;
    double q = shape->heads * shape->head_dim;
    double k = shape->kv_heads * shape->head_dim;
    double v = shape->kv_heads * shape->value_head_dim;
    shape->qk_bytes = shape->element * shape->tokens * (q + k);
    shape->qkv_bytes = shape->element * shape->tokens * (q + k + v);
}

/* Experts live on the same ranks as the rest, without the sp axis: ep x etp of them hold all experts once. Under TP + SP
 * each tp rank routes its own tokens; an etp group works on the tokens of all its ranks. */
static void shape_experts(struct step_shape *shape, const struct model_spec *model, const struct layout_spec *layout)
{
    shape->expert_shards = 1;
    if (model->n_experts == 0) {
        return;
    }
    shape->shared_ffn = (double)model->shared_expert_ffn / shape->tp;
    shape->expert_ffn = (double)model->expert_ffn / (double)layout->etp;
    shape->local_experts = (double)model->n_experts / (double)layout->ep;
    shape->routed_tokens = shape->tokens / shape->token_split;
    shape->expert_tokens = shape->routed_tokens * (double)model->experts_per_token * (double)layout->etp;
    shape->expert_shards = (double)shape->question->run.gpus / (double)(layout->pp * layout->ep * layout->etp);
}

static void shape_vocab(struct step_shape *shape, const struct question *question)
{
    double vocab = (double)question->model.vocab;
    if (question->run.is_vocab_parallel) {
        double multiple = question->software.framework.pads_vocabulary ? VOCAB_MULTIPLE * shape->tp : shape->tp;
        shape->vocab = ceil(vocab / multiple) * multiple / shape->tp;
        shape->head_tokens = shape->tokens;
    } else {
        shape->vocab = vocab;
        shape->head_tokens = shape->tokens / shape->token_split;
    }
}

static void shape_kinds(struct step_shape *shape, const struct question *question)
{
    const struct model_spec *model = &question->model;
    shape->n_kinds = model->n_kinds;
    for (int i = 0; i < model->n_kinds; i++) {
        enum mask_kind mask = question->run.mask;
        double own = mask == MASK_MODEL ? (double)model->kinds[i].window : 0;
        double window = mask == MASK_WINDOW ? (double)question->run.window : own;
        shape->kinds[i].is_moe = model->kinds[i].is_moe;
        shape->kinds[i].attention = method_problem(question, window);
        method_memory(&shape->kinds[i].attention, &shape->kinds[i].attention_memory);
    }
}

static void shape_clock(struct step_shape *shape)
{
    if (!gpu_has_clocks(shape->gpu) || shape->question->run.is_attention_only) {
        return; /* attention alone has its own clock */
    }
    shape->clock_hz = step_clock(shape);
    for (int k = 0; k < shape->n_kinds; k++) {
        shape->kinds[k].attention.clock_hz = shape->clock_hz;
    }
}

void step_shape_init(struct step_shape *shape, const struct question *question)
{
    const struct layout_spec *layout = &question->layout;
    const struct run_spec *run = &question->run;
    *shape = (struct step_shape){.question = question, .gpu = &question->hardware.gpu};
    shape->tp_group = layout_placement(layout, &question->hardware, AXIS_TP);
    shape->pp_group = layout_placement(layout, &question->hardware, AXIS_PP);
    shape->shard_group = layout_shard_placement(layout, &question->hardware);
    shape->etp_group = layout_expert_placement(layout, &question->hardware, AXIS_TP);
    shape->ep_group = layout_expert_placement(layout, &question->hardware, AXIS_EP);
    shape->expert_shard_group = layout_expert_placement(layout, &question->hardware, AXIS_DP);
    shape->tp = (double)layout->tp;
    shape->token_split = layout->has_tp_sp ? shape->tp : 1;
    shape->element = (double)dtype_bytes(activation_dtype(layout->precision));
    shape->tokens = (double)layout->micro_batch * (double)run->seq / (double)layout->sp;
    shape->hidden = (double)question->model.hidden;
    shape->ffn = (double)question->model.ffn / shape->tp;
    shape->mlp_inputs = question->model.has_plain_mlp ? 1 : GATED_INPUTS;
    shape->hidden_bytes = shape->element * shape->tokens * shape->hidden;
    shape->gradient_size = (double)dtype_bytes(run->gradient_dtype);
    shape->parameter_size = (double)dtype_bytes(run->parameter_dtype);
    shape->shards = (double)(layout->dp * layout->sp);
    /* ALST: as many pieces as tokens over hidden size (TiledMLP) */
    shape->mlp_tiles = run->is_mlp_tiled ? ceil(shape->tokens / shape->hidden) : 1;
    shape->micro_batches = run->global_batch / (layout->dp * layout->micro_batch);
    shape_heads(shape, &question->model);
    shape_experts(shape, &question->model, layout);
    shape_vocab(shape, question);
    shape_kinds(shape, question);
    count_parameters(shape);
    shape_clock(shape);
}

double kind_ffn_bytes(const struct step_shape *shape, const struct kind_shape *kind)
{
    double dense = shape->element * shape->tokens * (kind->is_moe ? shape->shared_ffn : shape->ffn);
    return dense + (kind->is_moe ? shape->element * shape->expert_tokens * shape->expert_ffn : 0);
}

double kind_mlp_inputs(const struct step_shape *shape, const struct kind_shape *kind)
{
    return kind->is_moe ? GATED_INPUTS : shape->mlp_inputs;
}

double model_kind_layers(const struct step_shape *shape, int kind)
{
    const struct model_spec *model = &shape->question->model;
    return model->n_kinds == 1 ? (double)model->n_layers : (double)model->prefixes[model->n_layers].counts[kind];
}

static bool is_plain(const struct step_shape *shape, const struct kind_shape *kind)
{
    return kind_mlp_inputs(shape, kind) < GATED_INPUTS;
}

double mlp_passes(const struct step_shape *shape, const struct kind_shape *kind, bool is_backward)
{
    const struct kernels_spec *kernels = &shape->question->software.kernels;
    if (is_plain(shape, kind)) {
        return is_backward ? PLAIN_BACKWARD_PASSES : PLAIN_FORWARD_PASSES;
    }
    return is_backward ? kernels->backward_ffn_passes.value : kernels->forward_ffn_passes.value;
}

double mlp_saved_tensors(const struct step_shape *shape, const struct kind_shape *kind)
{
    return is_plain(shape, kind) ? PLAIN_SAVED_TENSORS : shape->question->software.kernels.saved_ffn_tensors.value;
}

bool keeps_products(const struct step_shape *shape)
{
    return shape->question->layout.recompute == RECOMPUTE_SELECTIVE &&
           shape->question->software.framework.selective_keeps_products;
}

bool gathers_once(const struct step_shape *shape)
{
    const struct layout_spec *layout = &shape->question->layout;
    return layout->zero >= 3 && layout->pp > 1 && shape->question->software.framework.gathers_once_under_pp;
}
