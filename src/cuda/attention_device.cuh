// What the attention kernels of every path share: the block as a kernel sees it, and the layout of the scratch buffers.
#ifndef SEQPLAN_CUDA_ATTENTION_DEVICE_CUH
#define SEQPLAN_CUDA_ATTENTION_DEVICE_CUH

#include "attention.h"

#include <cuda_bf16.h>

#define LOG2_E 1.4426950408889634f
#define LN_2 0.6931471805599453f

// Rows of scratch are padded to this many queries, so that a tile is read whole.
#define ROWS_ALIGNMENT 128

struct block_args {
    int q_tokens, k_tokens, q_heads, kv_heads;
    int diagonal; // query i sees keys up to i + diagonal; large where there is no causal mask
    float scale, scale_log2;
    int rows_pitch;
};

// No causal mask: every key is left of this diagonal, and sums with it stay in range.
#define DIAGONAL_NONE (1 << 30)

struct block_args block_args_of(const struct attention_block *b);
bool attention_block_valid(const struct attention_block *b);

static inline int ceiling(int a, int b)
{
    return (a + b - 1) / b;
}

// The order in which tiles of unequal work start. The longest go first, or a multiprocessor that begins one late keeps all
// others waiting; but heads are taken a few at a time, just enough to fill the GPU, as those that run together share the
// cache: `heads` heads' longest tiles, then their next ones, and so on, then the next heads.
struct tile_order {
    int heads, per_bundle, tiles;
};

#define BUNDLE_TILES 128 // about one for each multiprocessor

// `tiles` a head, `heads` heads, of which each `together` next to each other always run side by side.
static inline struct tile_order tile_order_of(int tiles, int heads, int together)
{
    int64_t all = (int64_t)tiles * heads;
    int groups = heads / together, bundles = (int)(all / BUNDLE_TILES < 1 ? 1 : all / BUNDLE_TILES);
    int bundle = together * ceiling(groups, bundles < groups ? bundles : groups);
    struct tile_order o = {heads, bundle, tiles};
    return o;
}

// Scratch of rows: log-sum-exp in units of log2 (+infinity where a row sees nothing or does not exist, so that its
// probabilities are zero), then delta, each [q_heads][rows_pitch].
static inline int rows_pitch_of(int q_tokens)
{
    return ceiling(q_tokens, ROWS_ALIGNMENT) * ROWS_ALIGNMENT;
}

// dq_sum: [head][16 rows][8 columns] tiles, each in the order in which a warp holds an accumulator of the matrix
// instructions: 32 lanes with four floats each, so that a warp adds 512 contiguous bytes.
__host__ __device__ static inline size_t dq_tile(int head, int row, int column, int rows_pitch, int head_dim)
{
    return ((size_t)head * (size_t)(rows_pitch / 16) + (size_t)(row / 16)) * (size_t)(head_dim / 8) * 128 +
           (size_t)(column / 8) * 128;
}

cudaError_t forward_hopper(const struct attention_block *b, const void *q, const void *k, const void *v,
                           const struct attention_output *out, cudaStream_t stream);
cudaError_t forward_portable(const struct attention_block *b, const void *q, const void *k, const void *v,
                             const struct attention_output *out, cudaStream_t stream);
cudaError_t backward_hopper(const struct attention_block *b, const void *q, const void *k, const void *v,
                            const void *d_o, const void *rows, const struct attention_gradients *gradients,
                            cudaStream_t stream);
cudaError_t backward_portable(const struct attention_block *b, const void *q, const void *k, const void *v,
                              const void *d_o, const void *rows, const struct attention_gradients *gradients,
                              cudaStream_t stream);

#ifdef __CUDACC__

// Of the index-th tile to start: its head, and its rank by work (0: the longest).
__device__ __forceinline__ void tile_of(const struct tile_order &o, int index, int *head, int *rank)
{
    int first = index / (o.per_bundle * o.tiles) * o.per_bundle, here = min(o.per_bundle, o.heads - first);
    int within = index - first * o.tiles;
    *head = first + within % here;
    *rank = within / here;
}

struct output_args {
    __nv_bfloat16 *o;
    float *o_sum;
    float *lse;
    int64_t lse_pitch;
};

static inline struct output_args output_args_of(const struct attention_output *out)
{
    struct output_args a = {(__nv_bfloat16 *)out->o, out->o_sum, out->lse, out->lse_pitch};
    return a;
}

// Weights with which an earlier result and a new one are merged, and the log-sum-exp of both.
struct merge_weights {
    float old_weight, new_weight, lse;
};

__device__ __forceinline__ struct merge_weights merge_weights_of(float old_lse, float new_lse)
{
    struct merge_weights w = {1, 0, old_lse};
    if (new_lse > -INFINITY) {
        float high = fmaxf(old_lse, new_lse);
        float sum = expf(old_lse - high) + expf(new_lse - high);
        w.lse = high + logf(sum);
        w.old_weight = expf(old_lse - w.lse);
        w.new_weight = expf(new_lse - w.lse);
    }
    return w;
}

// Sums of a row from those of the four lanes that share it.
__device__ __forceinline__ void add_lanes(float (&sum)[2])
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        sum[half] += __shfl_xor_sync(~0u, sum[half], 1);
        sum[half] += __shfl_xor_sync(~0u, sum[half], 2);
    }
}

// The backward pass holds scores transposed: a lane has two keys, `key` and the eighth after it, and the queries from
// `query` on, two of every eight. Counted from there, the first query that sees each key; `none` where there is no key.
__device__ __forceinline__ void first_queries(int (&first)[2], const struct block_args &b, int key, int query, int none)
{
    first[0] = key < b.k_tokens ? key - b.diagonal - query : none;
    first[1] = key + 8 < b.k_tokens ? key + 8 - b.diagonal - query : none;
}

// Writes a warp's rows of a forward result: lane l holds rows l/4 and l/4 + 8 and, of every eight columns, 2(l%4) and the
// next. `maximum` and `sum` are those of the row's scores; sums already over the four lanes of a row.
template <int D>
__device__ __forceinline__ void store_rows(const struct block_args &b, const struct output_args &out, int head,
                                           int first_row, const float (&o)[D / 2], const float (&maximum)[2],
                                           const float (&sum)[2])
{
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int row = first_row + lane / 4 + 8 * half;
        bool there = row < b.q_tokens;
        float *lse_at = out.lse + (int64_t)head * out.lse_pitch + row;
        float lse = sum[half] > 0 ? maximum[half] * b.scale + logf(sum[half]) : -INFINITY;
        float factor = sum[half] > 0 ? 1 / sum[half] : 0;
        size_t at = ((size_t)row * (size_t)b.q_heads + (size_t)head) * D + 2 * (lane % 4);
        if (out.o_sum) {
            struct merge_weights w = merge_weights_of(there ? *lse_at : -INFINITY, lse);
            __syncwarp(); // the lanes of a row read the old value before one of them writes the new one
            if (there && lane % 4 == 0)
                *lse_at = w.lse;
            if (there && w.new_weight > 0)
#pragma unroll
                for (int i = 0; i < D / 8; i++) {
                    float2 *p = (float2 *)(out.o_sum + at + 8 * i);
                    float2 x = *p;
                    x.x = x.x * w.old_weight + o[4 * i + 2 * half] * factor * w.new_weight;
                    x.y = x.y * w.old_weight + o[4 * i + 2 * half + 1] * factor * w.new_weight;
                    *p = x;
                }
        } else if (there) {
            if (lane % 4 == 0)
                *lse_at = lse;
#pragma unroll
            for (int i = 0; i < D / 8; i++)
                *(__nv_bfloat162 *)(out.o + at + 8 * i) =
                    __floats2bfloat162_rn(o[4 * i + 2 * half] * factor, o[4 * i + 2 * half + 1] * factor);
        }
    }
}

// Writes a warp's 16 rows of dK or dV, held the same way.
template <int D>
__device__ __forceinline__ void store_gradient(const float (&x)[D / 2], float factor, __nv_bfloat16 *plain, float *sum,
                                               int first_row, int rows, int head, int heads)
{
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int row = first_row + lane / 4 + 8 * half;
        if (row >= rows)
            continue;
        size_t at = ((size_t)row * (size_t)heads + (size_t)head) * D + 2 * (lane % 4);
#pragma unroll
        for (int i = 0; i < D / 8; i++) {
            float low = x[4 * i + 2 * half] * factor, high = x[4 * i + 2 * half + 1] * factor;
            if (sum) {
                float2 *p = (float2 *)(sum + at + 8 * i);
                *p = make_float2(p->x + low, p->y + high);
            } else {
                *(__nv_bfloat162 *)(plain + at + 8 * i) = __floats2bfloat162_rn(low, high);
            }
        }
    }
}

#endif

#endif
