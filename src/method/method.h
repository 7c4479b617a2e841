/* method: how attention is spread over the ranks of a sequence-parallel group.
 *
 * A method is a token order plus an exchange (ring, all-gather, all-to-all, ...); what a framework's implementation of it
 * really sends, keeps, hides and copies is one row of traits (traits.c), never a branch on the framework. From that row
 * come both evaluations of one attention layer: the closed form (method_price) and the tasks (method_emit), plain data
 * that say what every rank computes, sends and waits for. On links without contention the two agree
 * (tests/property/method_agreement.c).
 *
 * Symbols: P ranks, s = S/P tokens a rank, H and K query and key-value heads of one TP rank, d and dv head dimensions,
 * e bytes of an element. Local tensors: Q = B s H d e bytes, O = B s H dv e, KV = B s K (d + dv) e, F = P KV.
 */
#ifndef SEQPLAN_METHOD_H
#define SEQPLAN_METHOD_H

#include "cost/cost.h"

/* ---- traits ----------------------------------------------------------------------------------------------------- */

enum exchange {
    EXCHANGE_NONE,
    EXCHANGE_SCORES,         /* no split: materialised scores */
    EXCHANGE_RING,           /* keys and values travel step by step */
    EXCHANGE_GATHER,         /* all keys and values gathered, then one attention */
    EXCHANGE_GATHER_BY_HEAD, /* the same, one group of key-value heads at a time */
    EXCHANGE_ALL_TO_ALL,     /* heads traded for tokens */
    EXCHANGE_HYBRID,         /* all-to-all inside, ring between */
    EXCHANGE_DOUBLE_RING,    /* rings inside, a ring of rings between */
    EXCHANGE_FUSED_RING,     /* one kernel that exchanges while it computes */
    N_EXCHANGES
};

/* Transient bytes above the tensors that are saved anyway, in multiples of local tensors. */
struct buffer_traits {
    double q;                  /* x Q (and O) */
    double kv;                 /* x KV */
    double kv_after_first_hop; /* x KV, where there is a second hop */
    double gathered_kv;        /* x F */
    double gathered_head;      /* x F / K: of one key-value head */
    double step_output;        /* x P O: one partial output per ring step */
    double log_sum_exp;        /* x 4 B s H */
    double score;              /* x B H S^2 elements */
};

/* HBM bytes per element of the merges of partial results, on the compute stream. */
struct merge_traits {
    double start;        /* per element of O, once */
    double full_step;    /* per element of O, for a step whose queries are all there */
    double partial_step; /* the same for a step of half of the queries, counted over all elements of O */
    double end;          /* per element of O, once */
    double partial_end;  /* the same on ranks that had steps of half of the queries */
    double kv_start;     /* backward: per element of K and V, with the first step */
    double kv_step;      /* backward: per element of K and V and step, accumulation of dK and dV */
    double kv_end;       /* backward: per element of K and V, once */
    bool kv_is_of_block; /* kv_step counts the keys that the step saw, not all of the shard */
    bool is_at_end;      /* all steps' merges run after the last step instead of inside their own */
    double start_kernels, step_kernels, end_kernels; /* that move these bytes, where their latency counts */
};

struct method_traits {
    enum method_id method;
    enum framework_id framework;
    const char *name_there; /* what the framework calls it */
    const char *source;     /* where the row was read */
    enum exchange exchange;
    enum token_order order;
    int messages;          /* per hop, or collectives per pass over q, k, v, o */
    double gradient_bytes; /* ring, gather: of an element of dK, dV on the wire: 0 as K and V, 4 float32 */
    bool gradients_trail;  /* ring: the gradient hop of a step hides behind the next step, the last is exposed: P
                                     hops; else it hides behind its own step, in one message with K and V: P - 1 hops */
    bool gathers_first;    /* ring: keys and values come by one all-gather behind the first step instead of hops */
    bool exposes_hops;     /* ring: a hop lengthens the step that it runs beside by all its time */
    bool is_overlapped;    /* gather, all-to-all: pieces travel while others are computed */
    bool kernel_merges;    /* ring: the attention kernel adds its result to float32 sums; backward its work around the
                                     steps is in the merges */
    bool
        calls_by_chunk; /* gather: a call for each of the two chunks of a zig-zag shard, dK and dV added to float32 sums */
    bool joins_exchanges;        /* all-to-all: the tensors of a direction in one exchange */
    bool repeats_kv_heads;       /* all-to-all: P > K allowed by sending every key-value head P / K times */
    bool gathers_positions;      /* 8 bytes per token of the sequence gathered in every forward */
    double backward_copy_passes; /* gather: over F in backward; 0: twice copy_passes */
    double copy_kernels;         /* of a pass, where their latency counts */
    double copy_passes; /* gather: passes over F per gather or scatter; all-to-all: per tensor, pack and unpack */
    struct merge_traits forward_merge;
    struct merge_traits backward_merge;
    struct buffer_traits forward_buffers;
    struct buffer_traits backward_buffers; /* dq, dk, dv of the local tokens included */
    bool keeps_projected_kv; /* where key-value heads are repeated, both the projection's and the repeated are kept */
    bool backward_is_whole;  /* backward_buffers hold the saved tensors of attention too: measured as one transient */
    double saved_output;     /* extra saved tensors x O: the output projection's input is another tensor */
    double saved_score;      /* x B H S^2 elements: naive attention keeps its probabilities */
};

/* The row of a pair, or NULL when the pair is illegal or not built yet. */
const struct method_traits *method_traits(enum method_id method, enum framework_id framework);
bool method_is_built(enum method_id method, enum framework_id framework);
/* What the project's own kernels do when they are measured (src/cuda/methods.cu): rows apart, since nobody trains with them.
 * `sends_float32`: the gradients of keys and values travel in float32, else in bf16. NULL: not there. */
const struct method_traits *method_harness_traits(enum method_id method, bool sends_float32);

/* ---- one attention layer ---------------------------------------------------------------------------------------- */

struct attention_problem {
    const struct hardware_spec *hardware;
    const struct attention_curve *curve;
    const struct method_traits *traits;
    struct group_placement group;       /* of all sequence-parallel ranks */
    struct group_placement inner_group; /* hybrid: the all-to-all's; double ring: the inner ring's */
    struct group_placement outer_group; /* hybrid: the ring's; double ring: between the inner rings */
    int64_t ranks;
    int64_t inner_ranks; /* hybrid: Ulysses degree; double ring: inner ring; else 1 */
    double batch;        /* sequences; documents packed into one sequence count as sequences of their own */
    double rows;         /* tokens of one sequence on a rank */
    double heads;        /* of one TP rank */
    double kv_heads;     /* the same, at least 1; repeated heads counted when the framework repeats them */
    double head_dim;
    double value_head_dim;
    double element_bytes;
    bool is_full;
    double window;
    double link_sm_share; /* of the SMs that a transfer's kernels take from the attention they run beside */
    double clock_hz;      /* of the step around it; 0: what long runs of attention alone settle at */
    bool is_local;        /* the ranks are on one GPU: a transfer is a copy inside it (eq. 39a) */
    bool has_rank;        /* price this rank instead of the slowest */
    int64_t rank;
};

/* The problem of one layer; window: keys that a query of this layer sees, 0 all. */
struct attention_problem method_problem(const struct question *question, double window);
/* The method's own rules: pair built, heads over the group, degrees, what the mask allows. Adds every broken rule. */
bool method_check(struct question *question, struct sp_error *err);

enum { MAX_TRANSFERS = 2 };
struct transfer {          /* one kind of communication of a pass, on the busiest rank */
    const char *operation; /* "ring", "all-gather", "reduce-scatter", "all-to-all"; NULL: unused */
    double sent_bytes;
    double messages;
    double link_s;
    double exposed_s;
    enum tier tier; /* of the links that carry it */
};

/* One pass (forward or backward) of one layer and micro-batch on the slowest rank.
 * total_s = attention_s + imbalance_s + exposed_s. */
struct method_pass {
    double attention_s; /* attention kernels, mean over the ranks */
    double imbalance_s; /* what the slowest rank computes beyond the mean */
    double exposed_s;   /* transfers that nothing hides, what they slow down, merges, pack and unpack copies */
    double total_s;
    double merge_s; /* merges and copies, part of exposed_s */
    double flop;    /* executed, mean over the ranks */
    double attention_hbm_bytes;
    double merge_bytes;
    double kernels; /* attention kernels and merges launched by one rank, for the host's floor */
    struct transfer transfers[MAX_TRANSFERS];
};
void method_price(const struct attention_problem *problem, bool is_backward, struct method_pass *pass);

struct method_memory {
    double forward_buffer_bytes; /* at the worst moment of attention's forward, above saved tensors */
    double backward_buffer_bytes;
    double saved_bytes; /* per layer, beyond q, k, v, o and log-sum-exp */
};
void method_memory(const struct attention_problem *problem, struct method_memory *memory);
/* dQ accumulator and row sums that the attention kernel's backward keeps, bytes (FlashAttention-2's mha_bwd: 4 B per
 * element of the query block and 4 B per row and head). */
double attention_workspace_bytes(const struct attention_problem *problem);

/* ---- tasks ------------------------------------------------------------------------------------------------------ */

enum task_kind { TASK_ATTENTION, TASK_GEMM, TASK_ELEMENTWISE, TASK_COLLECTIVE, TASK_HOP };
enum stream { STREAM_COMPUTE, STREAM_LINK, STREAM_SECOND_LINK, N_STREAMS };
enum link_group { GROUP_ALL, GROUP_INNER, GROUP_OUTER };
enum { TASK_ALL_RANKS = -1 };

/* What to do, no times. Tasks of one rank and stream run in the order of their index; a task starts when those and all
 * its `after` tasks have ended. A TASK_COLLECTIVE of all ranks occupies that stream on every rank. */
struct task {
    enum task_kind kind;
    enum stream stream;
    enum link_group group;
    const char *name;
    int64_t rank; /* or TASK_ALL_RANKS */
    int64_t peer; /* TASK_HOP: receiver */
    struct attention_call attention;
    struct gemm_call gemm;
    double share;   /* of the kernel's or collective's time: 1, or 1/n of one split in n pieces */
    double kernels; /* TASK_ELEMENTWISE: whose latency counts */
    enum collective operation;
    double bytes; /* TASK_HOP, TASK_COLLECTIVE (as enum collective), TASK_ELEMENTWISE */
    int first_after;
    int n_after;
};
struct task_graph {
    struct sp_arena *arena;
    int64_t ranks; /* of the graph: those of the ring for a hybrid, whose all-to-all groups act as one */
    struct task *tasks;
    int n_tasks;
    int64_t capacity;
    int *after; /* pool of task indexes */
    int n_after;
    int64_t after_capacity;
};
void task_graph_init(struct task_graph *graph, struct sp_arena *arena, const struct attention_problem *problem);
/* Copies the task; returns its index. after: indexes of earlier tasks, negative ones are skipped. */
int task_graph_add(struct task_graph *graph, const struct task *task, const int *after, int n_after);
/* Uncontended time of one task. */
double task_time(const struct attention_problem *problem, const struct task *task);
/* Bytes that each rank taking part sends in the task. */
double task_sent_bytes(const struct attention_problem *problem, const struct task *task);
/* The tasks of every rank for one pass of one layer. */
void method_emit(const struct attention_problem *problem, bool is_backward, struct task_graph *graph);

/* ---- inside the layer: what a file of an exchange provides ------------------------------------------------------- */

struct exchange_ops {
    void (*price)(const struct attention_problem *problem, bool is_backward, struct method_pass *pass);
    void (*emit)(const struct attention_problem *problem, bool is_backward, struct task_graph *graph);
};
extern const struct exchange_ops exchange_local, exchange_scores, exchange_ring, exchange_gather,
    exchange_gather_by_head, exchange_all_to_all, exchange_hybrid, exchange_double_ring, exchange_fused_ring;

double problem_query_bytes(const struct attention_problem *problem);  /* Q of the local tokens */
double problem_output_bytes(const struct attention_problem *problem); /* O of the local tokens */
double problem_kv_bytes(const struct attention_problem *problem);     /* KV of the local tokens */
double problem_output_elements(const struct attention_problem *problem);
double problem_kv_elements(const struct attention_problem *problem);
struct token_layout problem_tokens(const struct attention_problem *problem);
/* A call on one block with the problem's heads. */
struct attention_call problem_call(const struct attention_problem *problem, struct attention_block block,
                                   bool is_backward);
double problem_attention_time(const struct attention_problem *problem, struct attention_block block, bool is_backward);
/* Compute beside a transfer: the transfer's kernels hold some SMs while it lasts (eq. 39). */
double problem_overlapped(const struct attention_problem *problem, double compute_s, double link_s);
/* The same where the kernel beside it is known by its thread blocks (eq. 39a); other_s: what follows it in the step. */
struct beside {
    struct attention_block block;
    bool is_backward;
    double kernel_s, other_s;
};
double problem_beside(const struct attention_problem *problem, const struct beside *beside, double link_s);

#endif
