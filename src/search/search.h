/* search: which layout. The space of layouts of a question, an exact search of it, the Pareto front, why the rest was
 * dropped, how far the answer depends on the machine (docs/search.md).
 *
 * A layout's figures here are those of step_estimate(), bit for bit. The same space gives the same plan with any number
 * of threads.
 */
#ifndef SEQPLAN_SEARCH_H
#define SEQPLAN_SEARCH_H

#include "step/step.h"

/* ---- the space (space.c) ---------------------------------------------------------------------------------------- */

struct plan_counts { /* values of a degree; n 0: every legal one */
    int n;
    const int64_t *values;
};
struct plan_recompute {
    enum recompute_kind kind;
    int64_t layers; /* RECOMPUTE_BLOCK */
};
/* Offload as a set: 1 activations, 2 optimizer, 4 parameters. */
enum plan_offload { PLAN_OFFLOAD_ACTIVATIONS = 1, PLAN_OFFLOAD_OPTIMIZER = 2, PLAN_OFFLOAD_PARAMETERS = 4 };
enum { N_PLAN_OFFLOADS = 8, N_ZERO_STAGES = 4 };

/* What the user restricts. Sets of small enums are bits: 0 takes what goes without saying. */
struct plan_axes {
    struct plan_counts tp, sp, sp_ulysses, sp_inner, pp, vpp, dp, ep, etp, micro_batch;
    unsigned methods;    /* bit of enum method_id; 0: all */
    unsigned frameworks; /* bit of enum framework_id; 0: all that are real: not ideal */
    unsigned schedules;  /* bit of enum schedule_id; 0: those that the framework has */
    unsigned zeros;      /* bit of the stage; 0: all */
    unsigned offloads;   /* bit of the set of enum plan_offload: bit 0 none, bit 3 activations and optimizer; 0: all */
    int n_recomputes;    /* 0: none, selective, full and every block:N */
    const struct plan_recompute *recomputes;
    int n_orders; /* 0: every placement that differs from the others */
    const enum axis (*orders)[N_AXES];
};

enum plan_objective { PLAN_THROUGHPUT, PLAN_MEMORY, PLAN_GPUS, PLAN_COST, N_PLAN_OBJECTIVES };
extern const char *const plan_objective_names[]; /* "throughput", "memory", "gpus", "cost", NULL */

/* How much of an answer is wanted. */
enum plan_effort {
    PLAN_WHOLE,
    PLAN_RANKED, /* the best families, without the front and the nearest miss */
    PLAN_ANY     /* whether anything fits: ends with the first wave of units that holds something */
};

/* What is asked. Constraints of 0 are none. */
struct plan_question {
    struct request request; /* model, hardware, length, precision ...: everything but the axes */
    struct plan_axes axes;
    enum plan_objective objective;
    int n_top;               /* plans beside those of the front */
    int n_kept;              /* families whose best is kept */
    double max_memory_bytes; /* of peak_bytes */
    double headroom_bytes;   /* to be left of the capacity */
    double headroom_frac;    /* the same as a share of it */
    double min_mfu_frac;
    double deadline_s; /* of a run of request.tokens */
    int64_t max_gpus;  /* objectives gpus and cost try cluster sizes up to this; 0: up to that of the request */
    enum plan_effort effort;
    int64_t most_considered; /* PLAN_ANY looks at no more layouts, and says so (is_cut); 0: at all */
    /* The options that gave the cluster, as advice names them. */
    bool is_of_nodes;    /* --nodes */
    bool is_of_max_gpus; /* --max-gpus alone */
    bool is_exhaustive;  /* prices everything that a bound would leave out: for tests */
    int n_threads;       /* 0: as OpenMP has it */
    void (*progress)(void *user, int64_t done, int64_t total); /* may be NULL; from one thread */
    void *user;
    bool (*is_stopped)(void); /* may be NULL; whether to end with what was found so far (is_interrupted) */
};
void plan_question_init(struct plan_question *question, struct sp_arena *arena);

/* ---- the answer ------------------------------------------------------------------------------------------------- */

struct plan_layout { /* a layout with its two figures */
    struct layout_spec layout;
    const struct question *base; /* inputs, run and batch, shared by all layouts of its framework and cluster */
    int64_t gpus;
    double step_time_s, peak_bytes;
    double pace_s;    /* what the front weighs against memory: the step time; where clusters differ, times their GPUs */
    double objective; /* what it is ranked by, less is better: seconds, bytes, GPUs, cost of a token */
    uint64_t index;   /* in the order of the space: the earlier of two equals wins */
    bool is_on_front; /* nothing that fits is as fast in less memory, or faster in as little */
    bool is_ranked;   /* the best of its family, which is among the n_top best */
};

/* Reasons: names of rules ("batch_divides"), "not_in_framework", "memory", "host_memory", "max_memory", "headroom",
 * "min_mfu", "deadline", and "bound": a bound showed that it is neither on the front nor among the plans. */
struct plan_rejection {
    const char *reason;
    int64_t count;
    const char *example; /* the text of the rule, or the layout and its figures */
};
enum { MAX_REJECTIONS = 64 };

struct plan {
    int64_t considered, evaluated; /* considered = evaluated + the sum of rejections */
    int64_t n_ranks;               /* degrees with a micro-batch that were priced: what a search costs */
    int64_t n_grids;               /* of degrees that were laid out to begin with, which costs by itself */
    bool is_interrupted;           /* not all was considered: is_stopped() */
    bool is_cut;                   /* nothing fits of what was considered, which is not all: most_considered */
    int n_rejections;              /* by count, the largest first */
    struct plan_rejection rejections[MAX_REJECTIONS];
    const char *idle_values; /* degrees asked for that no layout has, "--tp 3, --dp 5"; or NULL */
    int n_layouts; /* ranked: the best of each of the n_top best families (framework, method, degrees), and the front */
    const struct plan_layout *layouts;
    int n_kept; /* ranked, for sensitivity: the best of each of more families, and the front, thinned where it is long */
    const struct plan_layout *kept;
    const struct searched *searched; /* of a whole plan: its space, to be searched on other machines; or NULL */
    bool has_nearest_miss;           /* when nothing fits: the layout with the smallest peak that keeps the rules */
    struct plan_layout nearest_miss;
    int64_t global_batch; /* of every layout */
    bool is_batch_assumed;
    double elapsed_s;
};

/* Fails when axes of the question leave nothing between them, or one is of a method that another leaves out (conflicts.c):
 * what a search would answer with no layout, or not look at. The request has its GPUs. */
bool plan_axes_check(const struct plan_question *question, struct sp_arena *arena, struct sp_error *err) SP_MUST_CHECK;

/* Searches. Errors are those of the inputs (SP_ERROR_USAGE, SP_ERROR_INPUT); a space in which nothing fits is none. */
bool plan_search(const struct plan_question *question, struct sp_arena *arena, struct plan *plan,
                 struct sp_error *err) SP_MUST_CHECK;

/* The question of one of its layouts, as step_check() leaves it, with warnings and what it assumes, and its estimate with
 * the remarks. The estimate's step time and peak are the plan's, bit for bit. */
bool plan_answer(const struct plan_question *question, const struct plan_layout *layout, struct sp_arena *arena,
                 struct question *resolved, struct estimate *estimate, struct sp_error *err) SP_MUST_CHECK;

/* ---- how far an answer depends on the machine (sensitivity.c) ---------------------------------------------------- */

/* Figures of a machine. Scaling one scales every field behind it as --set PATH=VALUE of each would: element-wise kernels
 * follow the memory, the measured curves follow the peaks and the links. */
enum sensitivity_figure {
    SENSITIVITY_HBM_BANDWIDTH, /* gpu.hbm_bandwidth */
    SENSITIVITY_INTRA,         /* intra.bandwidth: NVLink, or PCIe where a node has no other */
    SENSITIVITY_NETWORK,       /* network.bandwidth */
    SENSITIVITY_FLOP_RATE,     /* the peaks of every precision */
    SENSITIVITY_LATENCY,       /* kernels, launches, messages inside a node and between nodes */
    SENSITIVITY_HBM_CAPACITY,  /* gpu.hbm_capacity */
    N_SENSITIVITIES
};
extern const char *const sensitivity_names[]; /* "hbm_bandwidth", "intra_bandwidth", ..., NULL: keys of answers */
extern const double sensitivity_change_frac;  /* what is up and down: 10 % */
enum { MAX_SENSITIVITY_PATHS = 4 };
/* Paths of a figure as --set takes them, NULL after the last. */
const char *sensitivity_path(enum sensitivity_figure figure, int index);
/* In SI units; 0 where a machine has none. Of latencies: the network's, or the node's own links' without one. */
double sensitivity_value(const struct hardware_spec *hardware, enum sensitivity_figure figure);
void sensitivity_scale(struct hardware_spec *hardware, enum sensitivity_figure figure, double factor);
/* The same as --set of a request, from the figures of its hardware. */
void sensitivity_set(struct request *request, const struct hardware_spec *hardware, enum sensitivity_figure figure,
                     double factor);

struct sensitivity_change { /* with the figure 10 % up or down */
    double step_time_frac;  /* change of the layout's step time; of a plan's capacity: from winner to winner */
    bool fits;
    int winner; /* the best layout then, among the kept of struct sensitivity; -1: nothing fits, or there is no plan */
};
struct sensitivity_crossing { /* the nearest factor at which another layout wins */
    bool is_found;            /* between 1/16 and 16 */
    bool is_bound;            /* another one may win sooner, or at all: not all was searched */
    double factor, value;     /* of the figure, at which it has won */
    int winner;               /* -1: nothing fits any more */
};
struct sensitivity_row {
    double value;
    struct sensitivity_change up, down;
    struct sensitivity_crossing above, below;
};
/* Plain data. The kept layouts are those of the plan, then what wins on other machines. */
struct sensitivity {
    struct sensitivity_row rows[N_SENSITIVITIES];
    int winner; /* today's among the kept; -1: of one layout, there is no plan */
    int n_kept;
    const struct plan_layout *kept; /* borrowed */
};
/* Of one layout, from the question that step_check() passed. Pure re-estimates. */
void sensitivity_of_layout(const struct question *question, struct sensitivity *sensitivity);
/* Of the winner of a plan, and where another layout wins: of those that the plan kept, looked for in steps of 2^(1/4), then
 * bisected to three digits; then the whole space is searched just before, until nothing wins there (docs/limits.md). A plan
 * that was not searched as a whole has only what it kept. The constraints of the question hold throughout. A plan without
 * layouts has rows of zeros, winner -1. */
bool sensitivity_of_plan(const struct plan_question *question, const struct plan *plan, struct sp_arena *arena,
                         struct sensitivity *sensitivity, struct sp_error *err) SP_MUST_CHECK;

/* ---- limits (limits.c, limits_any.c) ------------------------------------------------------------------------------ */

enum limit_kind { LIMIT_SEQ, LIMIT_MICRO_BATCH, LIMIT_GPUS, N_LIMITS };
extern const char *const limit_names[]; /* "max_seq", "max_micro_batch", "min_gpus", NULL: keys of answers */

struct limit {
    bool is_found;
    bool is_at_most; /* of fewest GPUs: smaller clusters were left out that might fit too */
    bool is_beyond;  /* the largest value that is looked at fits: the limit is there or beyond */
    int64_t value;
    int64_t unit;                    /* of a length: the longest multiple of it that fits; else 1 */
    const char *reason;              /* why there is no value, or NULL */
    const struct question *question; /* at the limit, or the nearest that does not fit; NULL: nothing was priced */
    const struct estimate *estimate; /* of it */
    const char *binding;  /* what does not fit one step beyond: "hbm: activations", "host memory", a rule; or NULL */
    double binding_bytes; /* of it there; 0 of a rule */
    double binding_capacity_bytes; /* of the memory as a whole */
    int n_searches;
};
struct limits {
    struct limit items[N_LIMITS];
    bool is_batch_assumed; /* limits_batch() */
};

/* Lengths are looked for up to 1 Gi tokens, clusters up to 2^17 GPUs (of any layout 2^14). */
extern const int64_t limits_most_tokens;
/* The batch where none is given: two sequences for every GPU and micro-batch. Every dp divides it, every schedule can
 * run it, and no larger one takes more memory. */
int64_t limits_batch(int64_t gpus, int64_t micro_batch);
/* Why no cluster was found of up to `most` GPUs, or of as many as the links join. */
const char *limits_gpus_reason(struct sp_arena *arena, const struct hardware_spec *hardware, int64_t most);

/* Of the layout of a request, as estimate reads it; seq or gpus may be missing, and the limits that need them are then
 * not found, with a reason. A longest sequence is the longest multiple of `unit` that fits: 2 x sp x tp tokens (times 16
 * under fp8) as often as make 1024 or more, or once where that does not fit. Fewest GPUs: the same degrees with as little
 * dp as fits. A layout that breaks a rule at every value is an error. */
bool limits_of_layout(const struct request *request, struct sp_arena *arena, struct limits *limits,
                      struct sp_error *err) SP_MUST_CHECK;
/* Of any layout of a space: a search at one value tells whether anything fits there; the layouts it finds are followed as
 * far as they fit, and the search is asked again one step beyond, until it finds nothing. The unit of lengths is a
 * multiple of 2 x gpus tokens, in which no layout breaks the rule of lengths. Clusters are 1 GPU to a node, 1 node
 * to 8, then nodes in powers of two, the gap below the one that fits halved. */
bool limits_of_any(const struct plan_question *question, struct sp_arena *arena, struct limits *limits,
                   struct sp_error *err) SP_MUST_CHECK;

/* ---- what would fit (advice.c) ------------------------------------------------------------------------------------ */

/* When nothing fits: each of these changes that helps, the smallest first, as a sentence with its numbers: what the fastest
 * reaches; a batch that divides; an axis or a constraint of the question opened, one at a time; moments in bf16; a shorter
 * sequence; more GPUs; a machine with more memory, or more of the host's, for the nearest miss. One sentence says so when
 * none helps, or when not all were tried: the layouts that are considered are bounded (docs/limits.md). Nothing is added
 * where something fits. */
bool plan_advice(const struct plan_question *question, const struct plan *plan, struct sp_arena *arena,
                 struct sp_texts *changes, struct sp_error *err) SP_MUST_CHECK;

#endif
