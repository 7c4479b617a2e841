/* cost: pure primitives. FLOPs, bytes, kernel time, collective time, causal work per rank.
 *
 * Every function is total on validated input (it asserts), allocates nothing and has no state: the search calls these
 * millions of times. Times in seconds, sizes in bytes, work in FLOP. Equation numbers are those of docs/model.md.
 */
#ifndef SEQPLAN_COST_H
#define SEQPLAN_COST_H

#include "spec/spec.h"

/* ---- causal work (causal_work.c) -------------------------------------------------------------------------------- */

/* How the tokens of a sequence lie on the ranks of a sequence-parallel group. */
enum token_order {
    ORDER_WHOLE,      /* every rank sees the whole sequence (its own heads, or no split) */
    ORDER_CONTIGUOUS, /* rank r owns [r s, (r+1) s) */
    ORDER_ZIGZAG,     /* chunks r and 2P-1-r of 2P */
    ORDER_STRIPED     /* tokens r, r+P, r+2P, ... */
};

struct token_layout {
    enum token_order order;
    int64_t ranks;
    double rows;   /* tokens of one sequence (or document) on a rank */
    bool is_full;  /* no causal mask */
    double window; /* each query sees this many keys up to its own; 0: all. Only where the whole sequence is at hand */
};

/* One attention kernel call: rows of queries against rows of keys. `pairs` is the number of (query, key) pairs that the
 * mask lets through, which is what the FLOP count is made of. */
struct attention_block {
    double query_rows;
    double key_rows;
    double pairs;
    bool is_causal; /* square with the diagonal inside; else every pair is computed */
};

/* The block that rank `rank` computes at ring step `step` (its key-value come from rank - step) (eq. 10-12). pairs = 0:
 * the step is skipped. No window. */
struct attention_block ring_block(const struct token_layout *layout, int64_t rank, int64_t step);
/* All that a rank computes when the keys of the whole sequence are at hand, as one block (eq. 13, 14). With a window
 * every rank has the mean: only the first `window` queries see less. */
struct attention_block rank_block(const struct token_layout *layout, int64_t rank);
/* The whole sequence of rows x ranks tokens on one rank. */
struct attention_block whole_block(const struct token_layout *layout);
/* Pairs of the whole sequence over the ranks. */
double mean_pairs(const struct token_layout *layout);

/* ---- kernels (kernel_time.c) ------------------------------------------------------------------------------------ */

struct attention_call {
    const struct attention_curve *curve;
    struct attention_block block;
    double batch;
    double heads; /* query heads computed here */
    double kv_heads;
    double head_dim;       /* of queries and keys */
    double value_head_dim; /* of values and the output */
    double element_bytes;  /* of q, k, v, o: 2 in bf16 */
    bool is_backward;
    double clock_hz; /* of the step around it; 0: that of a long run of such calls */
    /* Of kernels whose tiles are known; the others' curves do not tell these apart. */
    bool is_step;        /* a step of several over the same queries: forward merges into float32 sums, backward is the
                           kernel alone, without what is done once for all steps */
    bool sums_gradients; /* backward adds dK and dV to float32 sums */
};

/* 2 B H (d + dv) pairs forward, 2 B H (3 d + 2 dv) pairs backward: 4 and 10 B H d when both are equal (eq. 20). */
double attention_flop(const struct attention_call *call);
/* FLOP / rate(kernel, pass, mask, head_dim, heads, length), never under one kernel latency. The length of a block is the
 * side of the square with as many pairs (eq. 21). Of a kernel whose tiles are known: their cycles over the clock (eq. 28, 29). */
double attention_time(const struct gpu_spec *gpu, const struct attention_call *call);
/* q, k, v in, o out (backward: also dO in, dq, dk, dv out); keys and values are read again for every wave of query tiles
 * once they outgrow the L2 (eq. 22). */
double attention_hbm_bytes(const struct gpu_spec *gpu, const struct attention_call *call);
/* Distance of a call from what the curve was measured on: true when head_dim has no line of its own. */
bool attention_is_extrapolated(const struct attention_curve *curve, double head_dim);
/* How the kernel cuts the call (attention_tiles.c); NULL: not known of this pass and head dimension. */
const struct attention_tiling *attention_tiling_of(const struct attention_call *call);
/* Its thread blocks, and the cycles until the last of them ends (eq. 28). */
double attention_thread_blocks(const struct attention_tiling *tiling, const struct attention_call *call);
double attention_cycles(const struct gpu_spec *gpu, const struct attention_tiling *tiling,
                        const struct attention_call *call);
/* The same where blocks of another kernel, of higher priority, come when every multiprocessor has its first block: each takes
 * one that is free. */
struct guest_blocks {
    double count;
    double cycles; /* of each */
};
double attention_cycles_beside(const struct gpu_spec *gpu, const struct attention_tiling *tiling,
                               const struct attention_call *call, const struct guest_blocks *guests);
/* Those over the clock (eq. 29), and backward, but in a step, what goes before and after the kernel (eq. 28a). */
double attention_tiled_time(const struct gpu_spec *gpu, const struct attention_tiling *tiling,
                            const struct attention_call *call);

struct gemm_call { /* C[m, n] = A[m, k] B[k, n] */
    enum pass pass;
    enum dtype precision; /* of A and B */
    double m, n, k;
    double groups;       /* equal products in one call (experts); 0 and 1: one */
    double output_bytes; /* per element written (and read again when accumulating): 2, or 8 for fp32 accumulation */
    double clock_hz;     /* as in struct attention_call */
};
double gemm_flop(const struct gemm_call *call); /* 2 m n k groups */
double gemm_hbm_bytes(const struct gemm_call *call);
/* max(FLOP / (min(rate(k), sustained ceiling) x wave efficiency), bytes / bandwidth, kernel latency) (eq. 23-25). */
double gemm_time(const struct gpu_spec *gpu, const struct gemm_call *call);
/* Share of the tensor cores that whole waves of output tiles keep busy (eq. 24). */
double gemm_wave_efficiency(const struct gpu_spec *gpu, double m, double n, double groups);

/* Clock at which a long run of such calls alone settles under the power limit; 0: not known. */
double attention_clock_hz(const struct gpu_spec *gpu, const struct attention_call *call);
double attention_tiled_clock_hz(const struct gpu_spec *gpu, const struct attention_tiling *tiling,
                                const struct attention_call *call);
/* Seconds that kinds of kernels take in a step, each at the clock at which it settles alone, and the clock at which they
 * settle together: the mean power over the step is the limit (eq. 27b). Kernels that only move memory keep their time at any
 * clock. 0: the GPU's file does not say what that takes. */
struct clock_share {
    double time_s;
    double clock_hz; /* 0: not known; such kernels are left out */
};
double common_clock(const struct gpu_spec *gpu, const struct clock_share *shares, int n_shares, double memory_s);
bool gpu_has_clocks(const struct gpu_spec *gpu);
/* Ranks that wait for each other go at the pace of the slowest: of `gpus` clocks the lowest, as a share of the mean one (eq. 27c).
 * 1 where the GPU's file has no clock_spread. */
double slowest_clock_share(const struct gpu_spec *gpu, double gpus);

/* bytes / element-wise bandwidth + kernels x kernel latency (eq. 26). */
double elementwise_time(const struct gpu_spec *gpu, double bytes, double kernels);
/* A copy inside the device memory, from its table; bytes read plus written. Of measured points, log-log between them, the
 * first below them, the bandwidth of the last two beyond. */
double copy_time(const struct gpu_spec *gpu, double bytes);

/* ---- links (collective_time.c) ---------------------------------------------------------------------------------- */

/* Time of a collective over one group of the placement; `bytes` as enum collective defines it. Inside a domain from the
 * measured table of (operation, ranks, bytes); across nodes from the algorithm's steps (eq. 30-35). A group of one
 * takes no time. */
double collective_time(const struct hardware_spec *hardware, const struct group_placement *group,
                       enum collective operation, double bytes);
/* One ring or pipeline hop: every rank sends `bytes` to its neighbour and receives as many. The slowest hop of the ring
 * decides: across nodes it is one GPU's own share of the NICs (eq. 36). */
double hop_time(const struct hardware_spec *hardware, const struct group_placement *group, double bytes);
/* How an all-reduce over nodes runs: the quickest of one ring over all ranks, and of three parts, inside the nodes, between them
 * and inside again, where the part between is a ring of each rank's share or a pair of trees (eq. 32-33a). */
enum all_reduce_kind { ALL_REDUCE_RING, ALL_REDUCE_HIERARCHICAL, ALL_REDUCE_TREES };
struct all_reduce_plan {
    enum all_reduce_kind kind;
    double time_s;
    double inside_share; /* of that time */
    int pieces, depth;   /* of trees: what each passes on piece by piece, and nodes from a leaf to the root */
};
struct all_reduce_plan all_reduce_plan(const struct hardware_spec *hardware, const struct group_placement *group,
                                       double bytes);
/* Bytes that one rank sends (eq. 30). */
double collective_sent_bytes(enum collective operation, int64_t ranks, double bytes);
/* Network rate that one GPU owns: NIC rate x NICs / GPUs of the node. */
double network_bytes_per_s_per_gpu(const struct hardware_spec *hardware);

#endif
