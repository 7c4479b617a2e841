// Backward attention for compute capability 9.0.
//
// A block of threads owns 128 keys of one kv head and goes over the queries of every head of its group, 64 at a time, so
// that dK and dV never leave the registers and need no sum over the group. Scores are computed transposed (keys are the
// rows): P^T and dS^T are then, as they lie in the registers, the left operands of dV += P^T dO and dK += dS^T Q. Only dQ
// = dS K crosses the two warpgroups: dS goes through shared memory, each warpgroup computes half of the columns and adds
// them to memory, four floats an instruction.
#include "hopper_host.cuh"

#include <limits.h>

#define BLOCK_KEYS 128
#define BLOCK_QUERIES 64
#define CONSUMERS 2
#define STAGES 3
#define BACKWARD_THREADS ((1 + CONSUMERS) * WARPGROUP)
#define SCORES (BLOCK_QUERIES / 2) // of a thread
#define DS_BARRIER 1               // both warpgroups have written their dS

template <int D> struct backward_shared {
    uint8_t k[BLOCK_KEYS * D * 2], v[BLOCK_KEYS * D * 2];
    uint8_t q[STAGES][BLOCK_QUERIES * D * 2], d_o[STAGES][BLOCK_QUERIES * D * 2];
    uint8_t ds[2][BLOCK_KEYS * TILE_ROW_BYTES];
    float lse[STAGES][BLOCK_QUERIES], delta[STAGES][BLOCK_QUERIES];
    uint64_t kv_full, q_full[STAGES], d_o_full[STAGES], empty[STAGES];
};

struct backward_maps {
    CUtensorMap q, k, v, d_o;
};

struct gradient_args {
    float *dq_sum;
    __nv_bfloat16 *dk, *dv;
    float *dk_sum, *dv_sum;
    const float *rows;
};

// The part of the queries that a block of keys is seen by: `heads` times `count` tiles, from tile `first` on.
struct query_range {
    int head, heads, first, count;
};

template <int D>
__device__ __forceinline__ void copy_tile(uint8_t *to, const CUtensorMap *map, uint64_t *barrier, int rows, int head,
                                          int token)
{
#pragma unroll
    for (int c = 0; c < D / TILE_COLUMNS; c++)
        copy_box(to + c * rows * TILE_ROW_BYTES, map, barrier, c * TILE_COLUMNS, head, token);
}

template <int D>
__device__ __forceinline__ void produce(struct backward_shared<D> *shared, const struct backward_maps *maps,
                                        const struct block_args &b, const float *rows, struct query_range r, int n,
                                        int kv_head)
{
    const int tile_bytes = BLOCK_QUERIES * D * 2, row_bytes = BLOCK_QUERIES * 4;
    size_t delta = (size_t)b.q_heads * (size_t)b.rows_pitch;
    int head = r.head, m = r.first;

    barrier_expect(&shared->kv_full, 2 * BLOCK_KEYS * D * 2);
    copy_tile<D>(shared->k, &maps->k, &shared->kv_full, BLOCK_KEYS, kv_head, n * BLOCK_KEYS);
    copy_tile<D>(shared->v, &maps->v, &shared->kv_full, BLOCK_KEYS, kv_head, n * BLOCK_KEYS);
    for (int i = 0; i < r.heads * r.count; i++) {
        int at = i % STAGES;
        const float *row = rows + (size_t)head * (size_t)b.rows_pitch + m * BLOCK_QUERIES;
        barrier_wait(&shared->empty[at], (i / STAGES & 1) ^ 1);
        barrier_expect(&shared->q_full[at], tile_bytes + row_bytes);
        copy_tile<D>(shared->q[at], &maps->q, &shared->q_full[at], BLOCK_QUERIES, head, m * BLOCK_QUERIES);
        copy_bytes(shared->lse[at], row, row_bytes, &shared->q_full[at]);
        barrier_expect(&shared->d_o_full[at], tile_bytes + row_bytes);
        copy_tile<D>(shared->d_o[at], &maps->d_o, &shared->d_o_full[at], BLOCK_QUERIES, head, m * BLOCK_QUERIES);
        copy_bytes(shared->delta[at], row + delta, row_bytes, &shared->d_o_full[at]);
        if (++m == r.first + r.count) {
            m = r.first;
            head++;
        }
    }
}

// s = a * b^T, 64 keys by 64 queries over the columns of a head, left in flight.
template <int D> __device__ __forceinline__ void start_scores(float (&s)[SCORES], uint32_t keys, uint32_t queries)
{
#pragma unroll
    for (int step = 0; step < D / 16; step++)
        wgmma_shared<0, 0>(s, operand(keys + step / 4 * BLOCK_KEYS * TILE_ROW_BYTES + step % 4 * 32, 0),
                           operand(queries + step / 4 * BLOCK_QUERIES * TILE_ROW_BYTES + step % 4 * 32, 0), step > 0);
    wgmma_commit();
}

// dv += P^T * dO, 64 keys by the columns of a head over 64 queries, left in flight.
template <int D>
__device__ __forceinline__ void start_dv(float (&dv)[D / 2], const uint32_t (&p)[SCORES / 2], uint32_t d_o)
{
#pragma unroll
    for (int step = 0; step < BLOCK_QUERIES / 16; step++)
        wgmma_registers<1>(dv, p + 4 * step, operand(d_o + step * 16 * TILE_ROW_BYTES, BLOCK_QUERIES * TILE_ROW_BYTES),
                           1);
    wgmma_commit();
}

// dk += dS^T * Q, likewise, dS^T from shared memory: its registers are needed for the next scores.
template <int D> __device__ __forceinline__ void start_dk(float (&dk)[D / 2], uint32_t ds, uint32_t q)
{
#pragma unroll
    for (int step = 0; step < BLOCK_QUERIES / 16; step++)
        wgmma_shared<0, 1>(dk, operand(ds + step * 32, 0),
                           operand(q + step * 16 * TILE_ROW_BYTES, BLOCK_QUERIES * TILE_ROW_BYTES), 1);
    wgmma_commit();
}

// dq = dS * K, 64 queries by half of the columns over 128 keys, left in flight.
template <int D> __device__ __forceinline__ void start_dq(float (&dq)[D / 4], uint32_t ds, uint32_t k)
{
#pragma unroll
    for (int step = 0; step < BLOCK_KEYS / 16; step++)
        wgmma_shared<1, 1>(dq, operand(ds + step * 16 * TILE_ROW_BYTES, 0), operand(k + step * 16 * TILE_ROW_BYTES, 0),
                           step > 0);
    wgmma_commit();
}

// Scores to probabilities. `lse` starts at the thread's first query.
__device__ __forceinline__ void probabilities(float (&s)[SCORES], const float *lse, float scale_log2)
{
#pragma unroll
    for (int i = 0; i < SCORES / 4; i++) {
        float2 l = *(const float2 *)(lse + 8 * i);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            s[4 * i + 2 * half] = exp2_fast(fmaf(s[4 * i + 2 * half], scale_log2, -l.x));
            s[4 * i + 2 * half + 1] = exp2_fast(fmaf(s[4 * i + 2 * half + 1], scale_log2, -l.y));
        }
    }
}

// `first`: first visible query of the two keys of a thread, counted from the thread's first query.
__device__ __forceinline__ void mask_probabilities(float (&s)[SCORES], const int (&first)[2])
{
#pragma unroll
    for (int i = 0; i < SCORES; i++)
        if (i / 4 * 8 + i % 2 < first[i / 2 % 2])
            s[i] = 0;
}

__device__ __forceinline__ void pack(uint32_t (&to)[SCORES / 2], const float (&s)[SCORES])
{
#pragma unroll
    for (int i = 0; i < SCORES / 2; i++)
        to[i] = pack_bf16(s[2 * i], s[2 * i + 1]);
}

// dp becomes dS = P * (dP - delta), packed.
__device__ __forceinline__ void score_gradient(uint32_t (&to)[SCORES / 2], const float (&p)[SCORES],
                                               const float (&dp)[SCORES], const float *delta)
{
#pragma unroll
    for (int i = 0; i < SCORES / 4; i++) {
        float2 x = *(const float2 *)(delta + 8 * i);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int at = 4 * i + 2 * half;
            to[at / 2] = pack_bf16(p[at] * (dp[at] - x.x), p[at + 1] * (dp[at + 1] - x.y));
        }
    }
}

// A warp's 16 keys by 64 queries to shared memory, a row of 128 bytes a key, swizzled.
__device__ __forceinline__ void store_ds(uint32_t to, const uint32_t (&ds)[SCORES / 2], int warp_row)
{
    int lane = threadIdx.x % 32, row = warp_row + lane % 16;
#pragma unroll
    for (int i = 0; i < SCORES / 8; i++) {
        int chunk = 2 * i + lane / 16;
        store_matrices(to + row * TILE_ROW_BYTES + ((chunk ^ (row & 7)) << 4), ds + 4 * i);
    }
}

// Waits for the queries of the next round and returns their stage. The last round multiplies its own ones again, for
// scores that nobody reads: a branch around a product in flight would cost more.
template <int D> __device__ __forceinline__ int next_queries(struct backward_shared<D> *shared, int round, int rounds)
{
    if (round + 1 == rounds)
        return round % STAGES;
    barrier_wait(&shared->q_full[(round + 1) % STAGES], (round + 1) / STAGES & 1);
    return (round + 1) % STAGES;
}

template <int D> __device__ __forceinline__ void add_dq(float *tiles, const float (&dq)[D / 4])
{
    float *to = tiles + 4 * (threadIdx.x % 32);
#pragma unroll
    for (int c = 0; c < D / 16; c++)
        add_four(to + c * 128, dq[4 * c], dq[4 * c + 1], dq[4 * c + 2], dq[4 * c + 3]);
}

// Longer than functions here should be: it is one pipeline, whose waits count what was started above them.
template <int D>
__device__ __forceinline__ void consume(struct backward_shared<D> *shared, const struct block_args &b,
                                        const struct gradient_args &out, struct query_range r, int n, int kv_head)
{
    int me = threadIdx.x / WARPGROUP - 1, warp = threadIdx.x % WARPGROUP / 32, lane = threadIdx.x % 32;
    int warp_row = me * 64 + warp * 16, key = n * BLOCK_KEYS + warp_row + lane / 4;
    uint32_t k_mine = shared_address(shared->k) + me * 64 * TILE_ROW_BYTES;
    uint32_t v_mine = shared_address(shared->v) + me * 64 * TILE_ROW_BYTES;
    // Columns of dQ of this warpgroup: a tile of 64, or half of one.
    uint32_t k_columns = shared_address(shared->k) + me * (D == 128 ? BLOCK_KEYS * TILE_ROW_BYTES : 64);
    // Queries from this one on see every key of the block, unless keys are missing from it.
    int last_key = n * BLOCK_KEYS + BLOCK_KEYS - 1;
    int unmasked_from = last_key < b.k_tokens ? max(0, last_key - b.diagonal) : INT_MAX;
    float dk[D / 2], dv[D / 2], s[SCORES], dp[SCORES], dq[D / 4];
    uint32_t p[SCORES / 2], ds[SCORES / 2];
    int head = r.head, m = r.first, total = r.heads * r.count;

#pragma unroll
    for (int i = 0; i < D / 2; i++)
        dk[i] = dv[i] = 0;
    barrier_wait(&shared->kv_full, 0);
    if (total > 0)
        barrier_wait(&shared->q_full[0], 0);
    wgmma_result(dk); // the zeros are written before anything is in flight
    wgmma_result(dv);
    wgmma_fence();
    start_scores<D>(s, k_mine, shared_address(shared->q[0]));
    for (int i = 0; i < total; i++) {
        int at = i % STAGES, row = m * BLOCK_QUERIES;
        uint32_t ds_at = shared_address(shared->ds[i & 1]);

        barrier_wait(&shared->d_o_full[at], i / STAGES & 1);
        wgmma_fence();
        start_scores<D>(dp, v_mine, shared_address(shared->d_o[at]));
        wgmma_wait<1>();
        wgmma_result(s);
        if (i > 0)
            barrier_arrive(&shared->empty[(i - 1) % STAGES]); // dK of the queries before has been read off them, too
        probabilities(s, shared->lse[at] + 2 * (lane % 4), b.scale_log2);
        if (row < unmasked_from) {
            int first[2];
            first_queries(first, b, key, row + 2 * (lane % 4), BLOCK_QUERIES);
            mask_probabilities(s, first);
        }
        pack(p, s);
        wgmma_fence();
        start_dv<D>(dv, p, shared_address(shared->d_o[at]));
        wgmma_wait<1>();
        wgmma_result(dp);
        score_gradient(ds, s, dp, shared->delta[at] + 2 * (lane % 4));
        store_ds(ds_at, ds, warp_row);
        shared_store_fence();
        named_sync(DS_BARRIER, CONSUMERS * WARPGROUP);
        wgmma_fence();
        start_dq<D>(dq, ds_at, k_columns);
        start_dk<D>(dk, ds_at + me * 64 * TILE_ROW_BYTES, shared_address(shared->q[at]));
        int next = next_queries(shared, i, total);
        wgmma_fence();
        start_scores<D>(s, k_mine, shared_address(shared->q[next]));
        wgmma_wait<2>();
        wgmma_result(dq);
        wgmma_operand(p);
        add_dq<D>(out.dq_sum + dq_tile(head, row + warp * 16, me * (D / 2), b.rows_pitch, D), dq);
        if (++m == r.first + r.count) {
            m = r.first;
            head++;
        }
    }
    wgmma_wait<0>();
    wgmma_result(dk);
    wgmma_result(dv);
    store_gradient<D>(dk, b.scale, out.dk, out.dk_sum, n * BLOCK_KEYS + warp_row, b.k_tokens, kv_head, b.kv_heads);
    store_gradient<D>(dv, 1, out.dv, out.dv_sum, n * BLOCK_KEYS + warp_row, b.k_tokens, kv_head, b.kv_heads);
}

template <int D>
__global__ void __launch_bounds__(BACKWARD_THREADS, 1)
    backward_kernel(const __grid_constant__ struct backward_maps maps, const __grid_constant__ struct block_args b,
                    const __grid_constant__ struct gradient_args out, const __grid_constant__ struct tile_order order)
{
    extern __shared__ __align__(1024) uint8_t bytes[];
    struct backward_shared<D> *shared = (struct backward_shared<D> *)bytes;
    if (shared_address(bytes) % TILE_GROUP_BYTES != 0)
        __trap(); // the swizzle counts from here
    int kv_head, n, group = b.q_heads / b.kv_heads;
    tile_of(order, (int)blockIdx.x, &kv_head, &n); // the first keys are seen by the most queries
    int tiles = (b.q_tokens + BLOCK_QUERIES - 1) / BLOCK_QUERIES;
    int first = min(tiles, max(0, n * BLOCK_KEYS - b.diagonal) / BLOCK_QUERIES);
    struct query_range r = {kv_head * group, group, first, tiles - first};

    if (threadIdx.x == 0) {
        barrier_init(&shared->kv_full, 1);
        for (int i = 0; i < STAGES; i++) {
            barrier_init(&shared->q_full[i], 1);
            barrier_init(&shared->d_o_full[i], 1);
            barrier_init(&shared->empty[i], CONSUMERS * WARPGROUP);
        }
        barrier_init_fence();
    }
    __syncthreads();
    if (threadIdx.x < WARPGROUP) {
        registers_less<24>();
        if (threadIdx.x == 0)
            produce<D>(shared, &maps, b, out.rows, r, n, kv_head);
    } else {
        registers_more<240>();
        consume<D>(shared, b, out, r, n, kv_head);
    }
}

template <int D>
static cudaError_t launch(const struct attention_block *b, const void *q, const void *k, const void *v, const void *d_o,
                          const void *rows, const struct attention_gradients *g, cudaStream_t stream)
{
    const size_t bytes = sizeof(struct backward_shared<D>);
    static_assert(sizeof(struct backward_shared<D>) <= 227 * 1024, "shared memory of a multiprocessor");
    struct backward_maps maps;
    struct gradient_args out = {g->dq_sum, (__nv_bfloat16 *)g->dk, (__nv_bfloat16 *)g->dv, g->dk_sum,
                                g->dv_sum, (const float *)rows};
    int n_blocks = ceiling(b->k_tokens, BLOCK_KEYS);
    cudaError_t error = tensor_map(&maps.q, q, b->q_tokens, b->q_heads, D, BLOCK_QUERIES);

    if (error == cudaSuccess)
        error = tensor_map(&maps.d_o, d_o, b->q_tokens, b->q_heads, D, BLOCK_QUERIES);
    if (error == cudaSuccess)
        error = tensor_map(&maps.k, k, b->k_tokens, b->kv_heads, D, BLOCK_KEYS);
    if (error == cudaSuccess)
        error = tensor_map(&maps.v, v, b->k_tokens, b->kv_heads, D, BLOCK_KEYS);
    if (error == cudaSuccess)
        error = cudaFuncSetAttribute(backward_kernel<D>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (error != cudaSuccess)
        return error;
    backward_kernel<D><<<(unsigned)(n_blocks * b->kv_heads), BACKWARD_THREADS, bytes, stream>>>(
        maps, block_args_of(b), out, tile_order_of(n_blocks, b->kv_heads, 1));
    return cudaGetLastError();
}

cudaError_t backward_hopper(const struct attention_block *b, const void *q, const void *k, const void *v,
                            const void *d_o, const void *rows, const struct attention_gradients *gradients,
                            cudaStream_t stream)
{
    return b->head_dim == 64 ? launch<64>(b, q, k, v, d_o, rows, gradients, stream)
                             : launch<128>(b, q, k, v, d_o, rows, gradients, stream);
}
