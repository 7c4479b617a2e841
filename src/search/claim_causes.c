/* Conventions that change a figure by a known factor: which of them turns the model's figure into the claim. */
#include "search/claim.h"

#include <math.h>
#include <stdlib.h>

const char *const claim_cause_names[] = {"node_as_one",
                                         "cluster_as_one",
                                         "one_as_all",
                                         "sparse_peak",
                                         "attention_in_full",
                                         "attention_halved",
                                         "attention_left_out",
                                         "recomputation",
                                         "attention_in_full_and_recomputation",
                                         "binary_unit",
                                         "decimal_unit",
                                         "bits",
                                         "bytes_as_bits",
                                         NULL};

/* The peaks that NVIDIA prints with 2:4 structured sparsity are twice the dense ones (notes of peak_bf16 in
 * hardware/gpus/). */
static const double SPARSE_OVER_DENSE = 2;
static const double BITS_PER_BYTE = 8;
static const double GIB_OVER_GB = 0x1p30 / 1e9;

struct factors {
    const struct claim_subject *subject;
    double of[N_CLAIM_CAUSES]; /* claim over model; 0: does not apply */
};

/* FLOPs of a step as the other conventions count them, over those of the question. */
struct flop_counts {
    double other_attention; /* full instead of causal, or the reverse */
    double no_attention;
    double executed;       /* with recomputation */
    double other_executed; /* both */
};

static struct flop_counts count_flop(const struct claim_subject *subject)
{
    const struct question *question = subject->question;
    const struct estimate *estimate = subject->estimate;
    struct question turned = *question;
    struct estimate other;
    turned.run.counts_full_attention = !question->run.counts_full_attention;
    step_estimate(&turned, &other);
    double per_parameter = question->run.lora_rank > 0 ? 4 : 6; /* as in equation 81 */
    double tokens = (double)question->run.global_batch * (double)question->run.seq;
    return (struct flop_counts){
        .other_attention = other.model_flop / estimate->model_flop,
        .no_attention = per_parameter * estimate->parameters_active * tokens / estimate->model_flop,
        .executed = estimate->hfu_frac / estimate->mfu_frac,
        .other_executed = other.hfu_frac / estimate->mfu_frac,
    };
}

static void add_flop_factors(struct factors *factors, const struct claim_quantity *quantity)
{
    const struct claim_subject *subject = factors->subject;
    const struct flop_counts counts = count_flop(subject);
    double *of = factors->of;
    bool is_share = quantity->dimension == SP_FRACTION;
    bool is_causal = !subject->question->run.counts_full_attention;
    /* A share counts FLOPs above the line; a rate is a FLOP rate over the FLOPs of a token. */
    of[is_causal ? CLAIM_ATTENTION_FULL : CLAIM_ATTENTION_HALVED] =
        is_share ? counts.other_attention : 1 / counts.other_attention;
    of[CLAIM_ATTENTION_LEFT] = is_share ? counts.no_attention : 1 / counts.no_attention;
    of[CLAIM_SPARSE_PEAK] = is_share ? 1 / SPARSE_OVER_DENSE : SPARSE_OVER_DENSE;
    of[CLAIM_RECOMPUTATION] = counts.executed;
    of[CLAIM_FULL_AND_RECOMPUTATION] = is_share && is_causal ? counts.other_executed : 0;
    for (int i = 0; i < N_CLAIM_CAUSES && quantity->better < 0; i++) {
        of[i] = of[i] > 0 ? 1 / of[i] : 0; /* a time */
    }
}

static void add_rate_factors(struct factors *factors, const struct claim_quantity *quantity)
{
    const struct question *question = factors->subject->question;
    double gpus = (double)question->run.gpus;
    double in_node = fmin(gpus, question->hardware.node.gpus.value);
    add_flop_factors(factors, quantity);
    if (quantity->dimension != SP_PURE) {
        return;
    }
    bool is_aggregate = quantity->compute(factors->subject) > factors->subject->estimate->tokens_per_s_per_gpu;
    factors->of[CLAIM_NODE_AS_ONE] = is_aggregate ? 0 : in_node;
    factors->of[CLAIM_CLUSTER_AS_ONE] = is_aggregate || gpus <= in_node ? 0 : gpus;
    factors->of[CLAIM_ONE_AS_ALL] = is_aggregate ? 1 / gpus : 0;
}

static void add_byte_factors(struct factors *factors, const struct claim_judgement *judgement)
{
    const struct question *question = factors->subject->question;
    double *of = factors->of;
    bool is_peak = judgement->quantity->kind == CLAIM_BYTES;
    double one = is_peak ? factors->subject->estimate->peak_bytes : question->hardware.gpu.hbm_bandwidth.value;
    double gpus = (double)question->run.gpus;
    double in_node = is_peak ? fmin(gpus, question->hardware.node.gpus.value) : question->hardware.node.gpus.value;
    bool is_of_all = judgement->computed > one;
    of[CLAIM_NODE_AS_ONE] = is_of_all ? 0 : in_node;
    of[CLAIM_CLUSTER_AS_ONE] = is_peak && !is_of_all && gpus > in_node ? gpus : 0;
    of[CLAIM_ONE_AS_ALL] = is_of_all ? one / judgement->computed : 0;
    of[CLAIM_BINARY_UNIT] = 1 / GIB_OVER_GB;
    of[CLAIM_DECIMAL_UNIT] = GIB_OVER_GB;
    of[CLAIM_BITS] = BITS_PER_BYTE;
    of[CLAIM_BYTES_AS_BITS] = 1 / BITS_PER_BYTE;
}

static int nearer_first(const void *a, const void *b)
{
    double left = fabs(log(((const struct claim_reading *)a)->left));
    double right = fabs(log(((const struct claim_reading *)b)->left));
    return left < right ? -1 : left > right ? 1 : 0;
}

/* Whether the model gives this figure: within its range, and the rounding of a claim. Bandwidths have no range: kernels that
 * fall short of the datasheet are no other convention. */
static bool is_given(const struct claim_judgement *judgement, double value)
{
    bool has_range = judgement->range != CLAIM_OF_DATASHEET;
    double low = has_range ? judgement->low : judgement->computed;
    double high = has_range ? judgement->high : judgement->computed;
    return value >= low * (1 - claim_rounding_frac) && value <= high * (1 + claim_rounding_frac);
}

void claim_find_readings(const struct claim_subject *subject, struct claim_judgement *judgement)
{
    struct factors factors = {.subject = subject};
    if (judgement->quantity->kind == CLAIM_RATE) {
        add_rate_factors(&factors, judgement->quantity);
    } else {
        add_byte_factors(&factors, judgement);
    }
    judgement->n_readings = 0;
    if (is_given(judgement, judgement->claimed)) {
        return;
    }
    for (int i = 0; i < N_CLAIM_CAUSES; i++) {
        double factor = factors.of[i];
        if (factor > 0 && is_given(judgement, judgement->claimed / factor)) {
            judgement->readings[judgement->n_readings++] =
                (struct claim_reading){(enum claim_cause)i, factor, judgement->ratio / factor};
        }
    }
    qsort(judgement->readings, (size_t)judgement->n_readings, sizeof(judgement->readings[0]), nearer_first);
}
