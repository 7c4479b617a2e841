/* The estimate of one question: memory, time, rates, what bounds it (docs/model.md, eq. 80-85). */
#include "step/step_internal.h"

#include <assert.h>
#include <string.h>

const char *const time_names[] = {"attention", "gemm", "elementwise", "tp_exposed", "sp_exposed", "dp_exposed", "pp_exposed",
                                  "ep_exposed", "bubble", "imbalance", "optimizer", "offload_exposed", "other", NULL};
const char *const memory_names[] = {"weights", "gradients", "optimizer", "activations", "attention_buffers", "logits",
                                    "communication_buffers", "runtime", NULL};
const char *const step_pass_names[] = {"forward", "backward", "recompute", "optimizer", NULL};

/* Model FLOPs of one sequence (eq. 80): 6 per active parameter and token, attention 4 forward and 8 backward per pair,
 * head and dimension; --flops full counts the pairs above the diagonal too. */
static double attention_model_flop(const struct question *question)
{
    double s = (double)question->run.seq;
    double pairs = question->run.counts_full_attention ? s * s : s * (s + 1) / 2;
    double width = (double)(question->model.n_heads * question->model.head_dim);
    return 4 * width * pairs * (double)question->model.n_layers;
}

/* Forward FLOPs that recomputation repeats, in the same convention (eq. 82). */
static double recomputed_flop(const struct step_shape *shape)
{
    const struct question *question = shape->question;
    double layers = 0;
    for (int64_t stage = 0; stage < question->layout.pp; stage++) {
        layers += (double)stage_recomputed_layers(shape, stage);
    }
    double share = layers / (double)question->model.n_layers;
    struct model_size size = model_size(&question->model);
    double matrices = 2 * size.layer * layers * (double)question->run.seq;
    double attention_share = question->layout.recompute == RECOMPUTE_SELECTIVE ? 1 : share;
    return matrices + attention_share * attention_model_flop(question);
}

static double precision_peak(const struct step_shape *shape)
{
    switch (shape->question->layout.precision) {
    case DTYPE_FP8:
        return shape->gpu->peak_fp8.value;
    case DTYPE_FP16:
        return shape->gpu->peak_fp16.value;
    case DTYPE_FP32:
        return shape->gpu->peak_fp32.value;
    case DTYPE_BF16:
    case N_DTYPES:
        break;
    }
    return shape->gpu->peak_bf16.value;
}

static void rate(const struct step_shape *shape, struct estimate *estimate)
{
    const struct question *question = shape->question;
    double gpus = (double)question->run.gpus;
    double sequences = (double)question->run.global_batch;
    double tokens = sequences * (double)question->run.seq;
    struct model_size size = model_size(&question->model);
    estimate->parameters_total = size.total;
    estimate->parameters_active = size.active;
    estimate->tokens_per_s = tokens / estimate->step_time_s;
    estimate->tokens_per_s_per_gpu = estimate->tokens_per_s / gpus;
    estimate->model_flop = 6 * size.active * tokens + 3 * sequences * attention_model_flop(question);
    estimate->model_flop_per_s_per_gpu = estimate->model_flop / estimate->step_time_s / gpus;
    estimate->mfu_frac = estimate->model_flop_per_s_per_gpu / precision_peak(shape);
    double executed = estimate->model_flop + sequences * recomputed_flop(shape);
    estimate->hfu_frac = executed / estimate->step_time_s / gpus / precision_peak(shape);
}

static void count_hbm(const struct step_shape *shape, struct estimate *estimate)
{
    double all = 0;
    double attention = 0;
    double ffn = 0;
    for (int i = 0; i < estimate->n_operators; i++) {
        const struct operator_row *row = &estimate->operators[i];
        double bytes = row->count * row->hbm_bytes;
        all += bytes;
        attention += row->is_attention_class ? bytes : 0;
        ffn += row->is_ffn_class ? bytes : 0;
    }
    estimate->hbm_utilisation_frac = all / estimate->step_time_s / shape->gpu->hbm_bandwidth.value;
    estimate->hbm_attention_share_frac = attention / all;
    estimate->hbm_ffn_share_frac = ffn / all;
}

/* The largest share of the step, exposed communication counted by the link that carries it. */
static const char *find_bound(const struct estimate *estimate)
{
    double links[TIER_MIXED + 1] = {0};
    for (int i = 0; i < estimate->n_communications; i++) {
        links[estimate->communications[i].tier] += estimate->communications[i].exposed_s;
    }
    const struct {
        const char *name;
        double time_s;
    } shares[] = {
        {"attention", estimate->time_s[TIME_ATTENTION]},
        {"gemm", estimate->time_s[TIME_GEMM]},
        {"hbm", estimate->time_s[TIME_ELEMENTWISE] + estimate->time_s[TIME_OPTIMIZER]},
        {"nvlink", links[TIER_NVLINK]},
        {"pcie", links[TIER_PCIE]},
        {"network", links[TIER_NETWORK] + links[TIER_MIXED]},
        {"bubble", estimate->time_s[TIME_BUBBLE]},
        {"imbalance", estimate->time_s[TIME_IMBALANCE]},
        {"host", estimate->time_s[TIME_OTHER]},
    };
    size_t largest = 0;
    for (size_t i = 1; i < SP_COUNT_OF(shares); i++) {
        largest = shares[i].time_s > shares[largest].time_s ? i : largest;
    }
    return shares[largest].name;
}

void step_estimate(const struct question *question, struct estimate *estimate)
{
    memset(estimate, 0, sizeof *estimate);
    struct step_shape shape;
    struct layer_operators layer;
    struct end_operators ends;
    step_shape_init(&shape, question);
    assert(shape.micro_batches >= 1);
    price_layer(&shape, &layer);
    price_ends(&shape, &ends);
    price_memory(&shape, estimate);
    price_step(&shape, &layer, &ends, estimate);
    list_communications(&shape, estimate);
    rate(&shape, estimate);
    count_hbm(&shape, estimate);
    estimate->bound = find_bound(estimate);
}
