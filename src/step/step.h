/* step: layers -> stage -> pipeline -> optimizer step. The closed-form estimate, itemised.
 *
 * An estimate is plain data of fixed size: pricing allocates nothing. Every sum in it is a sum over rows that are kept,
 * so that `--explain` walks the structure that computed the figure. docs/model.md numbers the equations.
 */
#ifndef SEQPLAN_STEP_H
#define SEQPLAN_STEP_H

#include "spec/spec.h"

/* Categories of time on the critical path; they add up to the step time. Names: time_names[]. */
enum time_item {
    TIME_ATTENTION,
    TIME_GEMM,
    TIME_ELEMENTWISE,
    TIME_TP_EXPOSED,
    TIME_SP_EXPOSED,
    TIME_DP_EXPOSED,
    TIME_PP_EXPOSED,
    TIME_EP_EXPOSED,
    TIME_BUBBLE,
    TIME_IMBALANCE,
    TIME_OPTIMIZER,
    TIME_OFFLOAD_EXPOSED,
    TIME_OTHER,
    N_TIME_ITEMS
};
extern const char *const time_names[]; /* "attention", "gemm", ..., NULL: the keys of time_s */

/* Categories of memory of the worst rank at its worst moment; they add up to the peak. Names: memory_names[]. */
enum memory_item {
    MEMORY_WEIGHTS,
    MEMORY_GRADIENTS,
    MEMORY_OPTIMIZER,
    MEMORY_ACTIVATIONS,
    MEMORY_ATTENTION_BUFFERS,
    MEMORY_LOGITS,
    MEMORY_COMMUNICATION_BUFFERS,
    MEMORY_RUNTIME,
    N_MEMORY_ITEMS
};
extern const char *const memory_names[];

/* Passes over the model, as communication rows name them. */
enum step_pass { STEP_FORWARD, STEP_BACKWARD, STEP_RECOMPUTE, STEP_OPTIMIZER, N_STEP_PASSES };
extern const char *const step_pass_names[];

/* Moments at which the peak can stand. Names: moment_names[]. */
enum moment {
    MOMENT_FORWARD,
    MOMENT_LOSS,
    MOMENT_HEAD_BACKWARD,
    MOMENT_RECOMPUTED,
    MOMENT_MLP_BACKWARD,
    MOMENT_ATTENTION_BACKWARD,
    MOMENT_OPTIMIZER,
    N_MOMENTS
};
extern const char *const moment_names[];

/* One operator's share: what --explain prints. `count` times `time_s` is its part of the step. */
struct operator_row {
    const char *name;    /* "qkv projection", "attention", "tp all-gather" ... */
    const char *formula; /* "2 m n k / rate(k)" and the number of the equation in docs/model.md */
    const char *source;  /* of the rate or figure that decides it; borrows from the specs */
    enum step_pass pass;
    enum time_item item;
    bool is_attention_class; /* counts into hbm.attention_share: qkv and output projections, attention itself */
    bool is_ffn_class;
    double count;
    double m, n, k; /* GEMM and attention shapes (attention: query rows, key rows, heads), else 0 */
    double flop;
    double hbm_bytes;
    double time_s; /* of one; of communication: the part on the critical path */
    /* communication, else operation is NULL */
    const char *operation; /* "all-gather", "ring", ... */
    enum axis axis;
    enum tier tier;
    bool is_weight_gradient; /* can be put off by a schedule */
    bool is_of_layer;        /* belongs to a layer, not to the vocabulary or the end of the step */
    double sent_bytes;
    double messages;
    double link_s; /* on the link, hidden or not */
};

struct communication_row {
    enum axis axis;        /* AXIS_CP prints as "sp" */
    const char *operation; /* "all-gather", "ring", "all-to-all", "reduce-scatter", "send-receive" */
    enum step_pass pass;
    double bytes_per_layer; /* sent by the busiest GPU for one micro-batch, mean over the layers of its stage */
    double messages_per_layer;
    double bytes_per_step;
    enum tier tier;
    double time_s;    /* on the link, whole step */
    double exposed_s; /* of it on the critical path */
};

struct tensor_row { /* of the worst rank at its worst moment */
    const char *name;
    const char *formula;
    enum memory_item item;
    double bytes;
};

enum { MAX_OPERATORS = 512, MAX_COMMUNICATIONS = 48, MAX_TENSORS = 48 };

struct estimate {
    /* memory */
    bool fits;
    double peak_bytes, capacity_bytes, headroom_bytes;
    double host_bytes, host_capacity_bytes; /* of one node */
    double peak_allocated_bytes, peak_reserved_bytes;
    int64_t peak_stage; /* 0-based */
    enum moment peak_moment;
    double memory_bytes[N_MEMORY_ITEMS];
    double moment_bytes[N_MOMENTS]; /* peak of each moment on the worst stage; 0 where it does not occur */
    int n_tensors;
    struct tensor_row tensors[MAX_TENSORS];
    /* time */
    double step_time_s;
    double time_s[N_TIME_ITEMS];
    int64_t micro_batches;
    int64_t slowest_stage;                    /* 0-based */
    double stage_forward_s, stage_backward_s; /* of the slowest stage, one micro-batch */
    int n_operators;
    struct operator_row operators[MAX_OPERATORS];
    int n_communications;
    struct communication_row communications[MAX_COMMUNICATIONS];
    /* rates */
    double tokens_per_s, tokens_per_s_per_gpu;
    double model_flop; /* of one step, all GPUs */
    double model_flop_per_s_per_gpu, mfu_frac, hfu_frac;
    double hbm_utilisation_frac, hbm_attention_share_frac, hbm_ffn_share_frac;
    /* a whole run (--tokens); 0 when not asked */
    double run_days, run_gpu_hours, run_cost, run_energy_j;
    const char *bound; /* "attention", "gemm", "hbm", "nvlink", "network", "bubble", ... */
    double parameters_total, parameters_active;
};

/* All rules of a question, the method's included; several broken ones are joined. SP_ERROR_USAGE. Adds warnings. */
bool step_check(struct question *question, struct sp_error *err) SP_MUST_CHECK;
/* Those of the method alone: method, framework, tp, sp and its parts. */
bool step_check_method(struct question *question, struct sp_error *err) SP_MUST_CHECK;
/* Prices a legal question (asserts that it is). Pure: same question, same bits. */
void step_estimate(const struct question *question, struct estimate *estimate);
/* The step time at which a layout of this model, cluster and batch has that MFU: the same for all of them. */
double step_time_at_mfu(const struct question *question, double mfu_frac);

/* ---- many layouts (pricer.c) ------------------------------------------------------------------------------------ */

/* An estimate by parts, for who prices many layouts that share some: what depends on the degrees, the method, the
 * placement and the micro-batch is priced once, then what sharding and offload change, then a schedule and a
 * recomputation, which is quick. The two figures are those of step_estimate() on the same layout, bit for bit. Between the
 * calls nothing is allocated. Layouts are legal ones. Not for --only attention. */
struct step_pricer;
struct step_pricer *step_pricer_open(struct sp_arena *arena);
/* Model, hardware, software and run of what follows. The model and the split of its layers stay those of the first one. */
void step_pricer_base(struct step_pricer *pricer, const struct question *question);
/* Degrees, method, micro-batch, split of layers; placement, sharding, schedule and recomputation wait for the next calls. */
void step_pricer_rank(struct step_pricer *pricer, const struct layout_spec *layout);
/* No layout of that rank takes less time or memory, whatever waits (docs/search.md has the proof). */
struct step_bound {
    double step_time_s, peak_bytes;
};
struct step_bound step_pricer_rank_bound(const struct step_pricer *pricer);
/* One more placement order of the rank: its number, from 0, and the time below which no layout in it comes. Memory does not
 * depend on it. */
enum { STEP_PRICER_PLACES = 120 };
int step_pricer_place(struct step_pricer *pricer, const enum axis order[N_AXES]);
void step_pricer_unplace(struct step_pricer *pricer); /* forgets the last one */
double step_pricer_place_bound(const struct step_pricer *pricer, int place);
/* zero, offloads_*: of the layout; and the memory that all its schedules and recomputations take at least. */
void step_pricer_shard(struct step_pricer *pricer, const struct layout_spec *layout);
double step_pricer_shard_bound(const struct step_pricer *pricer);
/* schedule, vpp, recompute, recompute_layers: of the layout. */
struct step_memory {
    double peak_bytes;
    double host_bytes; /* of one node */
};
struct step_memory step_pricer_memory(struct step_pricer *pricer, const struct layout_spec *layout);
/* Of the layout that memory was last asked of, in a placement. */
double step_pricer_time(struct step_pricer *pricer, int place);

/* ---- remarks ---------------------------------------------------------------------------------------------------- */

/* Adds to question->warnings and ->assumed what only the finished estimate shows: bubble, nearly full memory, sibling
 * curves, extrapolation. */
void step_remarks(struct question *question, const struct estimate *estimate);

#endif
