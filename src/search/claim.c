/* A claim against hard limits and against the model. */
#include "search/claim.h"

#include <assert.h>
#include <math.h>

/* Half a unit of the second digit is up to 5 %, of the third up to 0.5 %: on the mean of both 2 %. */
const double claim_rounding_frac = 0.02;

const char *const claim_limit_names[] = {"none",       "peak_flop_rate", "peak_flop_rate_recomputed",
                                         "state_read", "state_bytes",    "capacity",
                                         "state_fits", "datasheet",      NULL};
const char *const claim_verdict_names[] = {"plausible", "optimistic", "impossible", NULL};

static double state_bytes(const struct estimate *estimate)
{
    return estimate->memory_bytes[MEMORY_WEIGHTS] + estimate->memory_bytes[MEMORY_GRADIENTS] +
           estimate->memory_bytes[MEMORY_OPTIMIZER];
}

static bool is_better(const struct claim_judgement *judgement, double value)
{
    return judgement->quantity->better > 0 ? judgement->claimed > value : judgement->claimed < value;
}

/* ---- rates -------------------------------------------------------------------------------------------------------- */

/* The quantity of a step that takes so long. */
static double at_step_time(const struct claim_judgement *judgement, double step_time_s, double own_s)
{
    return judgement->quantity->better > 0 ? judgement->computed * step_time_s / own_s : own_s;
}

static void set_range(const struct claim_subject *subject, struct claim_judgement *judgement)
{
    const struct estimate *estimate = subject->estimate;
    const struct sp_figure *factor = &subject->bounds->step_time_factor;
    bool has_interval = estimate->step_time_low_s > 0;
    double fast_s = has_interval ? estimate->step_time_low_s : estimate->step_time_s * factor->low;
    double slow_s = has_interval ? estimate->step_time_high_s : estimate->step_time_s * factor->high;
    double at_fast = at_step_time(judgement, estimate->step_time_s, fast_s);
    double at_slow = at_step_time(judgement, estimate->step_time_s, slow_s);
    judgement->range = has_interval ? CLAIM_OF_INTERVAL : CLAIM_OF_PUBLISHED;
    judgement->low = fmin(at_fast, at_slow);
    judgement->high = fmax(at_fast, at_slow);
}

/* The FLOPs that the mask leaves are what has to be computed, whatever the question counts. */
static double useful_hfu_frac(const struct question *question, const struct estimate *estimate)
{
    if (!question->run.counts_full_attention) {
        return estimate->hfu_frac;
    }
    struct question causal = *question;
    struct estimate own;
    causal.run.counts_full_attention = false;
    step_estimate(&causal, &own);
    return own.hfu_frac;
}

/* The shortest step that each limit leaves, the most certain first. */
static void break_time_limits(const struct claim_subject *subject, struct claim_judgement *judgement)
{
    const struct estimate *estimate = subject->estimate;
    struct question causal = *subject->question;
    causal.run.counts_full_attention = false;
    const struct {
        enum claim_limit limit;
        double step_s;
    } limits[] = {
        {CLAIM_PEAK_RATE, step_time_at_mfu(&causal, 1)},
        {CLAIM_RECOMPUTED, estimate->step_time_s * useful_hfu_frac(subject->question, estimate)},
        {CLAIM_STATE_READ, state_bytes(estimate) / subject->question->hardware.gpu.hbm_bandwidth.value},
    };
    double shortest_s = 0;
    for (size_t i = 0; i < SP_COUNT_OF(limits) && judgement->limit == CLAIM_WITHIN_LIMITS; i++) {
        bool is_broken = judgement->implied_step_time_s < limits[i].step_s;
        judgement->limit = is_broken ? limits[i].limit : judgement->limit;
        shortest_s = is_broken ? limits[i].step_s : fmax(shortest_s, limits[i].step_s);
    }
    judgement->limit_value = at_step_time(judgement, estimate->step_time_s, shortest_s);
    if (judgement->limit == CLAIM_WITHIN_LIMITS && judgement->state_bytes > judgement->capacity_bytes) {
        judgement->limit = CLAIM_STATE_FITS;
    }
}

static void judge_rate(const struct claim_subject *subject, struct claim_judgement *judgement)
{
    const struct estimate *estimate = subject->estimate;
    double implied_s = judgement->quantity->better > 0
                           ? estimate->step_time_s * judgement->computed / judgement->claimed
                           : judgement->claimed;
    double faster = estimate->step_time_s / implied_s;
    judgement->implied_step_time_s = implied_s;
    judgement->implied_mfu_frac = estimate->mfu_frac * faster;
    judgement->implied_hfu_frac = estimate->hfu_frac * faster;
    judgement->implied_flop_per_s_per_gpu = estimate->model_flop_per_s_per_gpu * faster;
    judgement->peak_flop_per_s = estimate->model_flop_per_s_per_gpu / estimate->mfu_frac;
    set_range(subject, judgement);
    break_time_limits(subject, judgement);
}

/* ---- bytes -------------------------------------------------------------------------------------------------------- */

/* Of one GPU, or of all of them as if each held what the worst does. */
static void judge_bytes(const struct claim_subject *subject, struct claim_judgement *judgement)
{
    const struct estimate *estimate = subject->estimate;
    double gpus = judgement->computed / estimate->peak_bytes;
    double state = judgement->state_bytes * gpus;
    double capacity = judgement->capacity_bytes * gpus;
    judgement->range = CLAIM_OF_INTERVAL;
    judgement->low = step_peak_bytes(subject->question, estimate->peak_allocated_low_bytes) * gpus;
    judgement->high = step_peak_bytes(subject->question, estimate->peak_allocated_high_bytes) * gpus;
    judgement->implied_rest_bytes = judgement->claimed / gpus - judgement->state_bytes;
    bool is_below = judgement->claimed < state;
    bool is_above = judgement->claimed > capacity;
    judgement->limit = is_below ? CLAIM_STATE_BYTES : is_above ? CLAIM_CAPACITY : CLAIM_WITHIN_LIMITS;
    judgement->limit_value = is_above ? capacity : state;
}

/* From what kernels that only move memory reach, to the datasheet. */
static void judge_bandwidth(const struct claim_subject *subject, struct claim_judgement *judgement)
{
    const struct gpu_spec *gpu = &subject->question->hardware.gpu;
    double gpus = judgement->computed / gpu->hbm_bandwidth.value;
    judgement->range = CLAIM_OF_DATASHEET;
    judgement->low = gpu->elementwise_bandwidth.value * gpus;
    judgement->high = fmax(gpu->hbm_bandwidth.value, gpu->hbm_bandwidth.high) * gpus;
    judgement->limit_value = judgement->high;
    judgement->limit = judgement->claimed > judgement->high ? CLAIM_DATASHEET : CLAIM_WITHIN_LIMITS;
}

/* ---- figures ------------------------------------------------------------------------------------------------------ */

const char *const claim_finding_names[] = {"agrees",  "optimistic",  "pessimistic", "impossible",
                                           "differs", "no question", NULL};

enum claim_finding claim_find(const struct claim_judgement *judgement)
{
    return judgement->verdict == CLAIM_IMPOSSIBLE   ? CLAIM_BREAKS
           : judgement->verdict == CLAIM_OPTIMISTIC ? CLAIM_TOO_GOOD
           : judgement->agrees                      ? CLAIM_AGREES
                                                    : CLAIM_TOO_BAD;
}

enum claim_finding claim_compare(const struct claim_figure *figure)
{
    const struct claim_quantity *quantity = figure->quantity;
    double low = figure->claimed_low * (1 - claim_rounding_frac);
    double high = figure->claimed_high * (1 + claim_rounding_frac);
    bool is_one = !(figure->claimed_low < figure->claimed_high);
    bool is_reach = (quantity->flags & CLAIM_REACH) != 0 && !figure->is_ratio && is_one;
    bool is_most = (quantity->flags & CLAIM_MOST) != 0 && !figure->is_ratio;
    if (isnan(figure->computed)) {
        return is_reach ? CLAIM_TOO_GOOD : CLAIM_DIFFERS; /* it goes nowhere at all */
    }
    if (figure->computed >= low && figure->computed <= high) {
        return CLAIM_AGREES;
    }
    bool is_above = figure->computed < low; /* the claim */
    if (is_most && is_above) {
        return CLAIM_BREAKS;
    }
    if (quantity->better == 0) {
        return CLAIM_DIFFERS;
    }
    bool is_good = is_above == (quantity->better > 0);
    return is_good ? CLAIM_TOO_GOOD : is_reach ? CLAIM_AGREES : CLAIM_TOO_BAD;
}

/* ---- the verdict -------------------------------------------------------------------------------------------------- */

void claim_judge(const struct claim_subject *subject, const struct claim_quantity *quantity, double value,
                 struct claim_judgement *judgement)
{
    assert(quantity->kind != CLAIM_FIGURE && value > 0);
    double computed = quantity->compute(subject);
    *judgement = (struct claim_judgement){.quantity = quantity,
                                          .claimed = value,
                                          .computed = computed,
                                          .ratio = value / computed,
                                          .state_bytes = state_bytes(subject->estimate),
                                          .capacity_bytes = subject->estimate->capacity_bytes,
                                          .fits = subject->estimate->fits};
    if (quantity->kind == CLAIM_RATE) {
        judge_rate(subject, judgement);
    } else if (quantity->kind == CLAIM_BYTES) {
        judge_bytes(subject, judgement);
    } else {
        judge_bandwidth(subject, judgement);
    }
    judgement->agrees = value >= judgement->low && value <= judgement->high;
    bool is_too_good = is_better(judgement, quantity->better > 0 ? judgement->high : judgement->low);
    bool is_unfit = quantity->kind == CLAIM_RATE && !judgement->fits;
    judgement->verdict = judgement->limit != CLAIM_WITHIN_LIMITS ? CLAIM_IMPOSSIBLE
                         : is_too_good || is_unfit               ? CLAIM_OPTIMISTIC
                                                                 : CLAIM_PLAUSIBLE;
    claim_find_readings(subject, judgement);
}
