/* The estimate of one question: memory, time, rates, what bounds it (docs/model.md, eq. 80-86). */
#include "step/step_internal.h"

#include <assert.h>
#include <string.h>

const char *const time_names[] = {
    "attention",  "gemm",   "elementwise", "tp_exposed", "sp_exposed",      "dp_exposed", "pp_exposed",
    "ep_exposed", "bubble", "imbalance",   "optimizer",  "offload_exposed", "other",      NULL};
const char *const memory_names[] = {
    "weights", "gradients", "optimizer", "activations", "attention_buffers", "logits", "communication_buffers",
    "runtime", NULL};
const char *const step_pass_names[] = {"forward", "backward", "recompute", "optimizer", NULL};

/* Pairs of one sequence in layers of one kind, as the convention counts them. */
static double model_pairs(const struct step_shape *shape, int kind)
{
    struct token_layout tokens = problem_tokens(&shape->kinds[kind].attention);
    tokens.rows *= (double)tokens.ranks;
    tokens.ranks = 1;
    tokens.is_full = tokens.is_full || shape->question->run.counts_full_attention;
    double documents = (double)shape->question->run.seq / tokens.rows;
    return documents * mean_pairs(&tokens);
}

/* Forward attention FLOPs of one sequence and layer (eq. 80): 2 (d + dv) per pair and head. */
static double layer_attention_flop(const struct step_shape *shape, int kind)
{
    const struct model_spec *model = &shape->question->model;
    double width = (double)(model->n_heads * (model->head_dim + model->value_head_dim));
    return 2 * width * model_pairs(shape, kind);
}

static double attention_model_flop(const struct step_shape *shape)
{
    double flop = 0;
    for (int k = 0; k < shape->n_kinds; k++) {
        flop += model_kind_layers(shape, k) * layer_attention_flop(shape, k);
    }
    return flop;
}

/* Forward FLOPs that recomputation repeats, in the same convention (eq. 82). */
static double recomputed_flop(const struct step_shape *shape)
{
    const struct question *question = shape->question;
    struct model_size size = model_size(&question->model);
    bool is_selective = question->layout.recompute == RECOMPUTE_SELECTIVE;
    double flop = 0;
    for (int i = 0; i < shape->n_classes; i++) {
        const struct stage_class *stage = &shape->classes[i];
        double counts[MAX_LAYER_KINDS];
        class_kinds(shape, stage, is_selective ? stage->layers : class_recomputed_layers(shape, stage), counts);
        for (int k = 0; k < shape->n_kinds; k++) {
            double matrices = 2 * size.active_layer[k] * (double)question->run.seq;
            double matrix_share = !is_selective ? 1 : keeps_products(shape) ? dropped_products_share(shape, k) : 0;
            double attention_share = keeps_products(shape) ? 0 : 1;
            flop += (double)stage->count * counts[k] *
                    (matrix_share * matrices + attention_share * layer_attention_flop(shape, k));
        }
    }
    return flop;
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

static double step_model_flop(const struct step_shape *shape)
{
    const struct question *question = shape->question;
    double sequences = (double)question->run.global_batch;
    double tokens = sequences * (double)question->run.seq;
    /* frozen weights (LoRA) have no weight gradient: 4 FLOP a parameter and token instead of 6 */
    double per_parameter = question->run.lora_rank > 0 ? 4 : 6;
    return per_parameter * model_size(&question->model).active * tokens + 3 * sequences * attention_model_flop(shape);
}

double step_time_at_mfu(const struct question *question, double mfu_frac)
{
    struct step_shape shape;
    step_shape_init(&shape, question);
    return step_model_flop(&shape) / mfu_frac / (double)question->run.gpus / precision_peak(&shape);
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
    estimate->model_flop = step_model_flop(shape);
    estimate->model_flop_per_s_per_gpu = estimate->model_flop / estimate->step_time_s / gpus;
    estimate->mfu_frac = estimate->model_flop_per_s_per_gpu / precision_peak(shape);
    double executed = estimate->model_flop + sequences * recomputed_flop(shape);
    estimate->hfu_frac = executed / estimate->step_time_s / gpus / precision_peak(shape);
}

static const double SECONDS_PER_HOUR = 3600;
static const double HOURS_PER_DAY = 24;

/* A whole run of --tokens (eq. 86): energy as the nodes' power limit draws it. */
static void extend_to_run(const struct step_shape *shape, struct estimate *estimate)
{
    const struct question *question = shape->question;
    if (question->run.run_tokens == 0) {
        return;
    }
    double seconds = (double)question->run.run_tokens / estimate->tokens_per_s;
    double nodes = (double)question->run.gpus / question->hardware.node.gpus.value;
    estimate->run_days = seconds / SECONDS_PER_HOUR / HOURS_PER_DAY;
    estimate->run_gpu_hours = seconds / SECONDS_PER_HOUR * (double)question->run.gpus;
    estimate->run_cost = estimate->run_gpu_hours * question->hardware.gpu.price.value;
    estimate->run_energy_j = seconds * nodes * question->hardware.node.power.value;
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
        {"offload", estimate->time_s[TIME_OFFLOAD_EXPOSED]},
        {"host", estimate->time_s[TIME_OTHER]},
    };
    size_t largest = 0;
    for (size_t i = 1; i < SP_COUNT_OF(shares); i++) {
        largest = shares[i].time_s > shares[largest].time_s ? i : largest;
    }
    return shares[largest].name;
}

/* One layer's attention: its rates are those of one micro-batch through one layer. */
static void rate_attention_only(const struct step_shape *shape, struct estimate *estimate)
{
    const struct question *question = shape->question;
    double sequences = (double)question->layout.micro_batch;
    double gpus = (double)(question->layout.sp * question->layout.tp);
    estimate->tokens_per_s = sequences * (double)question->run.seq / estimate->step_time_s;
    estimate->tokens_per_s_per_gpu = estimate->tokens_per_s / gpus;
    estimate->model_flop = 3 * sequences * layer_attention_flop(shape, 0);
    estimate->model_flop_per_s_per_gpu = estimate->model_flop / estimate->step_time_s / gpus;
    estimate->mfu_frac = estimate->hfu_frac = estimate->model_flop_per_s_per_gpu / precision_peak(shape);
    struct model_size size = model_size(&question->model);
    estimate->parameters_total = size.total;
    estimate->parameters_active = size.active;
}

void step_estimate(const struct question *question, struct estimate *estimate)
{
    memset(estimate, 0, sizeof *estimate);
    struct step_shape shape;
    struct step_lists lists;
    struct stage_class classes[MAX_STAGE_CLASSES];
    struct stage_run runs[MAX_STAGE_RUNS];
    step_shape_init(&shape, question);
    shape.n_classes = stage_classes(question, classes);
    shape.classes = classes;
    shape.n_runs = stage_runs(question, classes, shape.n_classes, runs);
    shape.runs = runs;
    assert(shape.micro_batches >= 1);
    for (int k = 0; k < shape.n_kinds; k++) {
        price_layer_base(&shape, k, &lists.layers[k]);
        price_layer_rest(&shape, k, &lists.layers[k]);
    }
    price_memory(&shape, estimate);
    estimate->clock_hz = shape.clock_hz;
    if (question->run.is_attention_only) {
        price_attention_only(&lists.layers[0], estimate);
        list_communications(&shape, estimate);
        rate_attention_only(&shape, estimate);
    } else {
        price_ends(&shape, &lists.ends);
        price_optimizer(&shape, &lists.optimizer);
        price_step(&shape, &lists, estimate);
        list_communications(&shape, estimate);
        rate(&shape, estimate);
        extend_to_run(&shape, estimate);
    }
    count_hbm(&shape, estimate);
    estimate->bound = find_bound(estimate);
}
