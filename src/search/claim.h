/* Claimed figures of a run, held against the model and against what no run can pass (docs/check.md).
 *
 * A claim is judged twice: it breaks a hard limit or not, and it lies inside or outside of what the model gives the same
 * layout. Pure: nothing is read or printed here.
 */
#ifndef SEQPLAN_CLAIM_H
#define SEQPLAN_CLAIM_H

#include "search/search.h"

/* What a claim is about. */
struct claim_subject {
    const struct request *request;
    const struct question *question; /* legal */
    const struct estimate *estimate; /* of it, with its intervals */
    const struct claim_bounds *bounds;
};

/* ---- quantities (claim_quantities.c) ----------------------------------------------------------------------------- */

enum claim_kind {
    CLAIM_RATE,      /* implies a step time: rates, shares of the peak, the time itself */
    CLAIM_BYTES,     /* what a GPU holds at its peak */
    CLAIM_BANDWIDTH, /* of memory */
    CLAIM_FIGURE     /* of an answer: right or not; only of files of claims */
};
enum claim_flag {
    CLAIM_MOST = 1, /* no claim can be above the figure */
    CLAIM_REACH = 2 /* how far a layout goes: a claim that it passes is right too */
};
struct claim_quantity {
    const char *name;
    const char *unit; /* behind a plain number: "tokens/s per GPU" */
    enum claim_kind kind;
    enum sp_dimension dimension; /* SP_PURE: a plain number */
    int better;                  /* 1: more of it is, -1: less; 0: neither */
    unsigned flags;              /* enum claim_flag */
    /* NAN: the question has none, as the longest sequence where nothing fits. */
    double (*compute)(const struct claim_subject *subject);
};
/* NULL: unknown. */
const struct claim_quantity *claim_quantity_find(const char *name);
/* Names, of those that --claim takes or of all. */
void claim_quantity_names(bool has_figures, struct sp_texts *names);
/* A plain number in SI units, or one with a unit: "42GB", "12.5s", "45%". Above 0, but for figures. */
bool claim_value_parse(struct sp_arena *arena, const struct claim_quantity *quantity, const char *text, double *value,
                       struct sp_error *err) SP_MUST_CHECK;

/* ---- judging (claim.c) ------------------------------------------------------------------------------------------- */

/* What no run can pass. */
enum claim_limit {
    CLAIM_WITHIN_LIMITS,
    CLAIM_PEAK_RATE,   /* the dense peak, with the FLOPs of the model alone */
    CLAIM_RECOMPUTED,  /* the same with what the layout computes again */
    CLAIM_STATE_READ,  /* weights, gradients and optimizer state through the memory once a step */
    CLAIM_STATE_BYTES, /* a peak below weights, gradients and optimizer state alone */
    CLAIM_CAPACITY,    /* a peak above the GPU's memory */
    CLAIM_STATE_FITS,  /* a speed of a layout whose state alone is above the GPU's memory */
    CLAIM_DATASHEET,   /* a bandwidth above the datasheet's */
    N_CLAIM_LIMITS
};
extern const char *const claim_limit_names[]; /* keys of answers, NULL-terminated */

enum claim_verdict { CLAIM_PLAUSIBLE, CLAIM_OPTIMISTIC, CLAIM_IMPOSSIBLE };
extern const char *const claim_verdict_names[]; /* "plausible", "optimistic", "impossible", NULL */

/* Where the range comes from that a claim agrees with. */
enum claim_range { CLAIM_OF_INTERVAL, CLAIM_OF_PUBLISHED, CLAIM_OF_DATASHEET };

/* Conventions that change a figure by a known factor (claim_causes.c). */
enum claim_cause {
    CLAIM_NODE_AS_ONE,      /* the GPUs of a node counted as one */
    CLAIM_CLUSTER_AS_ONE,   /* all GPUs counted as one */
    CLAIM_ONE_AS_ALL,       /* one GPU's figure called that of all */
    CLAIM_SPARSE_PEAK,      /* the peak with 2:4 sparsity in place of the dense one */
    CLAIM_ATTENTION_FULL,   /* causal attention counted in full */
    CLAIM_ATTENTION_HALVED, /* causal attention halved, where the question counts it in full */
    CLAIM_ATTENTION_LEFT,   /* attention left out of the FLOPs of a token */
    CLAIM_RECOMPUTATION,    /* recomputation counted as useful, or left out of a time */
    CLAIM_FULL_AND_RECOMPUTATION,
    CLAIM_BINARY_UNIT,  /* GiB called GB */
    CLAIM_DECIMAL_UNIT, /* GB called GiB */
    CLAIM_BITS,         /* bits called bytes */
    CLAIM_BYTES_AS_BITS,
    N_CLAIM_CAUSES
};
extern const char *const claim_cause_names[]; /* keys of answers, NULL-terminated */
struct claim_reading {
    enum claim_cause cause;
    double factor; /* of the model's figure to the claim's, under the convention */
    double left;   /* what is then left between them: claimed / (computed * factor) */
};

/* All figures in SI units. 0 stands for none. */
struct claim_judgement {
    const struct claim_quantity *quantity;
    double claimed, computed, ratio; /* claimed / computed */
    double low, high;                /* nine of ten runs of this layout lie there */
    enum claim_range range;
    bool agrees; /* the claim lies in it */
    enum claim_verdict verdict;
    enum claim_limit limit; /* the first that it breaks */
    double limit_value;     /* of the quantity, at that limit; or at the nearest one */
    /* Of CLAIM_RATE: what it would imply. */
    double implied_step_time_s, implied_mfu_frac, implied_hfu_frac, implied_flop_per_s_per_gpu;
    double peak_flop_per_s; /* dense, of the precision */
    /* Of CLAIM_BYTES. */
    double state_bytes, capacity_bytes; /* of a GPU */
    double implied_rest_bytes; /* of a GPU, beside weights, gradients and optimizer state; below 0: less than these */
    bool fits;                 /* the layout, by the model */
    int n_readings;
    struct claim_reading readings[N_CLAIM_CAUSES]; /* the nearest first */
};
/* quantity: not CLAIM_FIGURE. */
void claim_judge(const struct claim_subject *subject, const struct claim_quantity *quantity, double value,
                 struct claim_judgement *judgement);
/* A figure against a claimed one that may lie between two values: their order tells. */
struct claim_figure {
    const struct claim_quantity *quantity;
    double claimed_low, claimed_high;
    double computed; /* or the ratio of two */
    bool is_ratio;
};
enum claim_finding {
    CLAIM_AGREES,
    CLAIM_TOO_GOOD, /* better than the model's range, and possible */
    CLAIM_TOO_BAD,  /* worse than it */
    CLAIM_BREAKS,   /* a limit */
    CLAIM_DIFFERS,  /* a figure of which neither more nor less is better */
    CLAIM_UNASKED,  /* no question can be made of it */
    N_CLAIM_FINDINGS
};
extern const char *const claim_finding_names[]; /* "agrees", "optimistic", "pessimistic", "impossible", ..., NULL */
enum claim_finding claim_find(const struct claim_judgement *judgement);
enum claim_finding claim_compare(const struct claim_figure *figure);
extern const double claim_rounding_frac; /* of a figure that is claimed with two or three digits */
/* Fills the readings of a judgement: conventions under which the claim is the model's figure. */
void claim_find_readings(const struct claim_subject *subject, struct claim_judgement *judgement);

#endif
