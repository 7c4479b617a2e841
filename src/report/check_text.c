/* Claims in words: why a verdict is what it is, what a claim would imply, which convention may lie behind it. */
#include "report/report.h"

#include <math.h>

static const double GIB = 0x1p30;
static const double GIGA = 1e9;
static const double TERA = 1e12;
static const double PER_CENT = 100;

/* "34.8 %", "693 %" */
static const char *share_text(struct sp_arena *arena, double frac)
{
    return frac < 1 ? sp_format(arena, "%s %%", report_percent(arena, frac))
                    : sp_format(arena, "%s %%", report_three(arena, frac * PER_CENT));
}

const char *report_claim_value(struct sp_arena *arena, const struct claim_quantity *quantity, double value)
{
    if (isnan(value)) {
        return "none";
    }
    switch (quantity->dimension) {
    case SP_FRACTION:
        return share_text(arena, value);
    case SP_SECONDS:
        return report_step_time(arena, value);
    case SP_BYTES:
        return sp_format(arena, "%s GiB", report_three(arena, value / GIB));
    case SP_BYTES_PER_S:
        return sp_format(arena, "%s GB/s", report_three(arena, value / GIGA));
    case SP_TOKENS:
        return sp_tokens_print(arena, (int64_t)value);
    case SP_COUNT:
        return report_count(arena, (int64_t)value);
    case SP_PURE:
    case SP_FLOP_PER_S:
    case SP_WATT:
    case SP_HERTZ:
    case SP_PER_HOUR:
    case SP_N_DIMENSIONS:
        break;
    }
    return report_three(arena, value);
}

/* "2410 tokens/s per GPU", "34.8 % MFU", "12.3 s a step", "32.1 GiB at the peak of a GPU" */
static const char *value_of(struct sp_arena *arena, const struct claim_judgement *judgement, double value)
{
    const struct claim_quantity *quantity = judgement->quantity;
    const char *text = report_claim_value(arena, quantity, value);
    return quantity->dimension == SP_PURE ? sp_format(arena, "%s %s", text, quantity->unit) : text;
}

/* ---- what it would imply ------------------------------------------------------------------------------------------ */

static const char *implied_rate(struct sp_arena *arena, const struct answer *answer,
                                const struct claim_judgement *judgement)
{
    const struct layout_spec *layout = &answer->question->layout;
    return sp_format(arena, "implies an MFU of %s, %s TFLOP/s per GPU beside a dense %s peak of %s",
                     share_text(arena, judgement->implied_mfu_frac),
                     report_three(arena, judgement->implied_flop_per_s_per_gpu / TERA), dtype_names[layout->precision],
                     report_three(arena, judgement->peak_flop_per_s / TERA));
}

static const char *implied(struct sp_arena *arena, const struct answer *answer, const struct claim_judgement *judgement)
{
    switch (judgement->quantity->kind) {
    case CLAIM_RATE:
        return implied_rate(arena, answer, judgement);
    case CLAIM_BYTES:
        return judgement->implied_rest_bytes > 0
                   ? sp_format(arena, "leaves %s GiB a GPU beside weights, gradients and optimizer state, %s GiB",
                               report_three(arena, judgement->implied_rest_bytes / GIB),
                               report_three(arena, judgement->state_bytes / GIB))
                   : "leaves nothing for activations";
    case CLAIM_BANDWIDTH:
        return sp_format(arena, "%s of the datasheet's %s", share_text(arena, judgement->ratio),
                         value_of(arena, judgement, judgement->computed));
    case CLAIM_FIGURE:
        break;
    }
    return "";
}

/* ---- why ---------------------------------------------------------------------------------------------------------- */

static const char *limit_text(struct sp_arena *arena, const struct answer *answer,
                              const struct claim_judgement *judgement)
{
    const char *limit = value_of(arena, judgement, judgement->limit_value);
    const char *most = judgement->quantity->better > 0 ? "at most" : "at least";
    switch (judgement->limit) {
    case CLAIM_PEAK_RATE:
        return sp_format(arena, "more than the dense peak computes; %s %s", most, limit);
    case CLAIM_RECOMPUTED:
        return sp_format(arena, "more than the dense peak computes, with what recompute %s computes again; %s %s",
                         report_recompute_text(arena, &answer->question->layout), most, limit);
    case CLAIM_STATE_READ:
        return sp_format(arena, "faster than the memory passes weights, gradients and optimizer state once; %s %s",
                         most, limit);
    case CLAIM_STATE_BYTES:
        return sp_format(arena, "less than weights, gradients and optimizer state alone, %s", limit);
    case CLAIM_CAPACITY:
        return sp_format(arena, "more than the GPU has, %s", limit);
    case CLAIM_STATE_FITS:
        return sp_format(arena, "weights, gradients and optimizer state alone take %s of %s GiB",
                         report_three(arena, judgement->state_bytes / GIB),
                         report_three(arena, judgement->capacity_bytes / GIB));
    case CLAIM_DATASHEET:
        return "more than the memory passes";
    case CLAIM_WITHIN_LIMITS:
    case N_CLAIM_LIMITS:
        break;
    }
    return NULL;
}

/* Where nine of ten runs lie, and how that is known. */
static const char *range_text(struct sp_arena *arena, const struct claim_judgement *judgement)
{
    static const char *const origins[] = {
        [CLAIM_OF_INTERVAL] = "the model's 90 % interval",
        [CLAIM_OF_PUBLISHED] = "where 9 of 10 published runs lie about the model",
        [CLAIM_OF_DATASHEET] = "what kernels that only move memory reach, to the datasheet",
    };
    const char *side = judgement->agrees ? "within" : judgement->claimed < judgement->low ? "below" : "above";
    return sp_format(arena, "%s %s to %s (%s)", side, report_claim_value(arena, judgement->quantity, judgement->low),
                     value_of(arena, judgement, judgement->high), origins[judgement->range]);
}

const char *report_claim_reason(struct sp_arena *arena, const struct answer *answer,
                                const struct claim_judgement *judgement)
{
    const char *limit = limit_text(arena, answer, judgement);
    const char *text = sp_format(arena, "%s; %s", limit != NULL ? limit : range_text(arena, judgement),
                                 implied(arena, answer, judgement));
    bool is_unfit = judgement->quantity->kind == CLAIM_RATE && !judgement->fits && judgement->limit != CLAIM_STATE_FITS;
    return is_unfit ? sp_format(arena, "%s; the layout does not fit: %s of %s GiB", text,
                                report_three(arena, answer->estimate->peak_bytes / GIB),
                                report_three(arena, judgement->capacity_bytes / GIB))
                    : text;
}

const char *report_claim_cause(struct sp_arena *arena, const struct claim_judgement *judgement)
{
    static const char *const texts[N_CLAIM_CAUSES] = {
        [CLAIM_NODE_AS_ONE] = "the GPUs of a node counted as one",
        [CLAIM_CLUSTER_AS_ONE] = "all GPUs counted as one",
        [CLAIM_ONE_AS_ALL] = "the figure of one GPU called that of all",
        [CLAIM_SPARSE_PEAK] = "the sparse peak in place of the dense one",
        [CLAIM_ATTENTION_FULL] = "causal attention counted in full",
        [CLAIM_ATTENTION_HALVED] = "causal attention counted by half",
        [CLAIM_ATTENTION_LEFT] = "attention left out of the FLOPs",
        [CLAIM_RECOMPUTATION] = "recomputation counted as useful work",
        [CLAIM_FULL_AND_RECOMPUTATION] = "causal attention in full and recomputation counted",
        [CLAIM_BINARY_UNIT] = "GiB called GB",
        [CLAIM_DECIMAL_UNIT] = "GB called GiB",
        [CLAIM_BITS] = "bits called bytes",
        [CLAIM_BYTES_AS_BITS] = "bytes called bits",
    };
    if (judgement->n_readings == 0) {
        return NULL;
    }
    const struct claim_reading *reading = &judgement->readings[0];
    bool is_slow = judgement->verdict == CLAIM_PLAUSIBLE; /* a worse run needs no convention */
    return sp_format(arena, "%s%s, a factor of %s: divided by it the claim is %s of the model's figure",
                     is_slow ? "perhaps " : "", texts[reading->cause], report_three(arena, reading->factor),
                     report_three(arena, reading->left));
}
