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

/* Groups of ranks that an operation runs over. */
enum program_group {
    RANKS_TP,
    RANKS_SP,
    RANKS_SP_INNER, /* of a hybrid's all-to-all, of an inner ring */
    RANKS_SP_OUTER,
    RANKS_SHARD, /* dp x sp */
    RANKS_EP,
    RANKS_ETP,
    RANKS_EXPERT_SHARD,
    RANKS_PP,
    RANKS_ALL,
    N_PROGRAM_GROUPS
};

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
    enum collective collective; /* of a collective, with its group and its bytes, as enum collective defines them */
    enum program_group group;
    double collective_bytes;
    bool is_weight_gradient; /* can be put off by a schedule */
    bool is_of_layer;        /* belongs to a layer, not to the vocabulary or the end of the step */
    bool ends_layer;         /* backward needs nothing of what it makes */
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
    double step_time_low_s, step_time_high_s; /* step_interval(): 90 %; 0: not known */
    double peak_allocated_low_bytes, peak_allocated_high_bytes;
    double time_s[N_TIME_ITEMS];
    int64_t micro_batches;
    int64_t slowest_stage;                    /* 0-based */
    double stage_forward_s, stage_backward_s; /* of the slowest stage, one micro-batch */
    double clock_hz; /* at which the step's kernels settle; 0: the GPU's file does not say what that takes */
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
/* Largest spread of the tables of one operation inside a node (interval.c); 0 where one of them has none. */
double links_spread(const struct intra_spec *intra, enum collective operation);
/* Fills the intervals of an estimate (interval.c): of the step time where every table that it reads has a spread, else NULL is not
 * returned but what has none; of peak_allocated_bytes always. Prices the step some thirty times more. */
const char *step_interval(const struct question *question, struct estimate *estimate);
/* With what lies outside the allocator, and its slack: peak_bytes of an estimate from peak_allocated_bytes. */
double step_peak_bytes(const struct question *question, double allocated_bytes);
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

/* ---- the order of a pipeline (schedule_order.c) ------------------------------------------------------------------ */

enum action_kind {
    ACTION_FORWARD,
    ACTION_BACKWARD, /* weight gradients included, but where the schedule puts them off */
    ACTION_WEIGHTS   /* those put off */
};
/* One chunk of one micro-batch on one rank. Chunk: of the rank's layers, 0 but for interleaved (vpp of them), zbv (0 down the V,
 * 1 back up) and dualpipe (0: micro-batches that enter at the first rank, 1: at the last). */
struct schedule_action {
    enum action_kind kind;
    int chunk;
    int64_t micro_batch;
};
/* What the rank of one stage does in a step, in order. Without stages: each micro-batch forward, then backward. */
struct schedule_order {
    int64_t n_actions;
    struct schedule_action *actions;
};
/* orders: one for each stage. Copies into arena. */
void schedule_orders(const struct layout_spec *layout, int64_t micro_batches, struct sp_arena *arena,
                     struct schedule_order *orders);
bool schedule_puts_off_weights(const struct layout_spec *layout);
int schedule_chunks(const struct layout_spec *layout);
/* Where a chunk's output goes (and its input's gradient comes from): false after the model's last layer. */
bool schedule_next(const struct layout_spec *layout, int64_t stage, int chunk, int64_t *next_stage, int *next_chunk);
bool schedule_previous(const struct layout_spec *layout, int64_t stage, int chunk, int64_t *previous_stage,
                       int *previous_chunk);

/* ---- the step as tasks (program.c) ------------------------------------------------------------------------------- */

/* The second evaluator's input: the same rows that the estimate adds up, as what each rank does, sends and waits for. Plain
 * data: pieces of programs (segments) that stand for one layer, an end of the model or the optimizer, and for each kind of rank
 * the order in which it runs them. */

/* Streams of a rank. Operations of one stream run one after the other, in the order of the program. */
enum program_stream {
    STREAM_KERNELS,
    STREAM_EXCHANGE,        /* transfers of the attention method beside kernels: what it sends */
    STREAM_SECOND_EXCHANGE, /* of its outer ring */
    STREAM_ARRIVALS,        /* what it receives */
    STREAM_SECOND_ARRIVALS,
    STREAM_SHARDS,  /* gathers of weights and reductions of gradients over dp x sp */
    STREAM_TO_HOST, /* offload */
    STREAM_FROM_HOST,
    N_PROGRAM_STREAMS
};
extern const char *const program_stream_names[];

enum program_kind {
    OP_KERNEL,     /* seconds on the GPU; 0: a point of order */
    OP_COLLECTIVE, /* starts when every rank of the group has come to it */
    OP_SEND,       /* of a message to `peer` of the sp group: starts when the receiver has come to its OP_RECEIVE */
    OP_RECEIVE,    /* ends when that message has arrived */
    OP_TO_STAGE,   /* sends a micro-batch's activations or gradients on: begins at once, lasts as long as the hop */
    OP_FROM_STAGE, /* ends when they are there */
    OP_HOST_COPY   /* over the GPU's link to the host */
};

/* A kind of transfer: size, and what it takes alone. */
struct program_transfer {
    const char *name;
    enum axis axis;
    enum program_group group;
    enum collective operation; /* COLLECTIVE_SEND_RECEIVE: one message */
    double bytes;              /* as enum collective defines them, already times share */
    double time_s;             /* alone: collective_time() or hop_time(), times share */
    double sent_bytes;         /* by each rank */
    double sm_share;           /* of the GPU's SMs that it holds from kernels beside it */
};

/* What must have ended: operation `ordinal` of a stream, of the entry `back` entries before this one (0: this one); ordinal -1:
 * all of that stream before that entry. */
enum {
    PROGRAM_WAIT_GATHER = -1, /* as back: the entry that brings this one's weights, if any */
    PROGRAM_WAIT_FETCH =
        -2 /* the one that brings its activations from the host, if any; both wait for the whole entry */
};
struct program_wait {
    int16_t back;
    int16_t stream;
    int32_t ordinal;
};
enum { MAX_PROGRAM_WAITS = 6 };
struct program_op {
    enum program_kind kind;
    enum program_stream stream;
    enum time_item item;
    enum step_pass pass;
    const char *name;
    double time_s; /* OP_KERNEL, OP_HOST_COPY: alone */
    double bytes;  /* OP_HOST_COPY */
    bool is_to_host;
    int transfer; /* index; -1 none */
    int peer;   /* OP_SEND, OP_RECEIVE: how many positions of the sp group further (modulo its size) the other end is */
    int moment; /* enum moment whose memory is held while this is at work; -1: as before */
    int n_waits;
    struct program_wait waits[MAX_PROGRAM_WAITS];
};
struct program_ops { /* as the host issues them */
    int n;
    struct program_op *ops;
    int n_on_stream[N_PROGRAM_STREAMS];
};

/* One layer forward or backward, an end of the model, or a part of the optimizer, on the ranks of a stage. */
struct program_segment {
    const char *name; /* "layer forward", "head backward", ... */
    bool is_by_position;
    const struct program_ops *ops; /* one for all ranks, or one for each position of the sp group */
    double work_bytes[N_MOMENTS];  /* held beside state, gradients and saved activations at a moment of this segment */
    double saved_bytes;            /* activations: held from its beginning on (above 0), or let go at its end (below) */
    double saved_cap_bytes; /* offload: what the GPU holds of all saved activations at most; INFINITY: no offload */
    double first_gradient_bytes; /* exist from its beginning on */
    double gradient_bytes;       /* exist from its end on */
};
struct program_entry { /* one run of a segment */
    int32_t segment;
    int32_t micro_batch; /* -1: of none */
    int32_t layer;       /* of the model; -1 */
    int16_t gather_back; /* of PROGRAM_WAIT_GATHER; 0: none */
    int16_t fetch_back;
    int16_t other_stage; /* OP_TO_STAGE, OP_FROM_STAGE: the stage at the other end; -1 */
    int16_t key;         /* of the message: chunk and direction, the same at both ends */
};
/* What the ranks of a stage run. */
struct stage_program {
    int64_t n_entries;
    struct program_entry *entries;
    double state_bytes;    /* weights, optimizer state and workspaces: always there */
    double gradient_bytes; /* there from the beginning */
    double gradient_cap_bytes;
    double saved_bytes; /* of one micro-batch, all layers of the stage */
};
struct step_program {
    int n_transfers, n_segments;
    struct program_transfer *transfers;
    struct program_segment *segments;
    struct group_placement
        placements[N_PROGRAM_GROUPS]; /* where the groups of transfers lie; size 0: no transfer has it */
    bool is_by_position;              /* ranks of one sp group differ by their position */
    struct stage_program *stages;     /* pp of them */
};
/* Of a legal question; copies into arena. */
void step_program(const struct question *question, struct sp_arena *arena, struct step_program *program);

/* ---- what the closed form leaves open (doubts.c) ------------------------------------------------------------------- */

/* Where a simulation on links that nothing shares may differ from the estimate by more than half a percent. Names: doubt_names[]. */
enum doubt {
    DOUBT_BUBBLE,    /* idle time of schedules, by formulas for equal stages */
    DOUBT_HOPS,      /* hops of those schedules */
    DOUBT_OFFLOAD,   /* copies of activations: hidden layer by layer, but not those of the first and the last */
    DOUBT_SHARDS,    /* gathers and scatters of ZeRO 2 and 3: the same */
    DOUBT_OPTIMIZER, /* the end of the step on stages that train unequal shares */
    N_DOUBTS
};
extern const char *const doubt_names[];
/* Seconds that each can be at most; 0: it does not apply. */
void step_doubts(const struct question *question, const struct estimate *estimate, double doubts_s[N_DOUBTS]);

/* Transfers that can meet on links, which the estimate prices apart (contention.c). */
struct contention {
    const char *where; /* "the NICs", "the spine", ... */
    enum axis axes[2]; /* whose transfers; N_AXES: all that go there */
    double time_s;     /* that they are there at most, beyond what the estimate has */
};
enum { MAX_CONTENTIONS = 24 };
struct contentions {
    int n;
    struct contention items[MAX_CONTENTIONS];
};
void step_contentions(const struct question *question, const struct estimate *estimate,
                      struct contentions *contentions);

/* ---- remarks ---------------------------------------------------------------------------------------------------- */

/* Adds to question->warnings and ->assumed what only the finished estimate shows: bubble, nearly full memory, sibling
 * curves, extrapolation. */
void step_remarks(struct question *question, const struct estimate *estimate);

#endif
