// Forward attention for compute capability 9.0.
//
// A block of threads owns 128 or 192 queries of one head: one warpgroup asks the copy engine for keys and values, two
// stages ahead; the others own 64 queries each and take turns, so that the softmax of one runs while the tensor cores work
// for another. Within a warpgroup the scores of the next keys are multiplied before the softmax of these is needed.
#include "hopper_host.cuh"

#define GROUP_QUERIES 64
#define STAGES 2
#define TURN_BARRIER 1 // and the next ones: whose turn it is at the tensor cores

template <int D, int KEYS, int GROUPS> struct forward_shared {
    uint8_t q[GROUPS * GROUP_QUERIES * D * 2];
    uint8_t k[STAGES][KEYS * D * 2];
    uint8_t v[STAGES][KEYS * D * 2];
    uint64_t q_full, k_full[STAGES], k_empty[STAGES], v_full[STAGES], v_empty[STAGES];
};

template <int D>
__device__ __forceinline__ void copy_tile(uint8_t *to, const CUtensorMap *map, uint64_t *barrier, int rows, int head,
                                          int token)
{
    barrier_expect(barrier, rows * D * 2);
#pragma unroll
    for (int c = 0; c < D / TILE_COLUMNS; c++)
        copy_box(to + c * rows * TILE_ROW_BYTES, map, barrier, c * TILE_COLUMNS, head, token);
}

template <int D, int KEYS, int GROUPS>
__device__ __forceinline__ void produce(struct forward_shared<D, KEYS, GROUPS> *shared, const CUtensorMap *q_map,
                                        const CUtensorMap *k_map, const CUtensorMap *v_map, int m, int head,
                                        int kv_head, int n_blocks)
{
    if (n_blocks == 0) // nobody waits: nothing may be on its way when the block ends
        return;
    copy_tile<D>(shared->q, q_map, &shared->q_full, GROUPS * GROUP_QUERIES, head, m * GROUPS * GROUP_QUERIES);
    for (int i = 0; i <= n_blocks; i++) { // keys run one block ahead of values
        if (i < n_blocks) {
            barrier_wait(&shared->k_empty[i % STAGES], (i / STAGES & 1) ^ 1);
            copy_tile<D>(shared->k[i % STAGES], k_map, &shared->k_full[i % STAGES], KEYS, kv_head,
                         (n_blocks - 1 - i) * KEYS);
        }
        int j = i - 1;
        if (j >= 0) {
            barrier_wait(&shared->v_empty[j % STAGES], (j / STAGES & 1) ^ 1);
            copy_tile<D>(shared->v[j % STAGES], v_map, &shared->v_full[j % STAGES], KEYS, kv_head,
                         (n_blocks - 1 - j) * KEYS);
        }
    }
}

// s = q * k^T, left in flight.
template <int D, int KEYS, int GROUPS>
__device__ __forceinline__ void start_scores(float (&s)[KEYS / 2], uint32_t q, uint32_t k)
{
#pragma unroll
    for (int step = 0; step < D / 16; step++)
        wgmma_shared<0, 0>(s, operand(q + step / 4 * GROUPS * GROUP_QUERIES * TILE_ROW_BYTES + step % 4 * 32, 0),
                           operand(k + step / 4 * KEYS * TILE_ROW_BYTES + step % 4 * 32, 0), step > 0);
    wgmma_commit();
}

// o += p * v, left in flight.
template <int D, int KEYS>
__device__ __forceinline__ void start_output(float (&o)[D / 2], const uint32_t (&p)[KEYS / 4], uint32_t v)
{
#pragma unroll
    for (int step = 0; step < KEYS / 16; step++)
        wgmma_registers<1>(o, p + 4 * step, operand(v + step * 16 * TILE_ROW_BYTES, KEYS * TILE_ROW_BYTES), 1);
    wgmma_commit();
}

// `limit`: last visible column of the two rows of a thread, counted from the thread's first column.
template <int KEYS> __device__ __forceinline__ void mask_scores(float (&s)[KEYS / 2], const int (&limit)[2])
{
#pragma unroll
    for (int i = 0; i < KEYS / 2; i++)
        if (i / 4 * 8 + i % 2 > limit[i / 2 % 2])
            s[i] = -INFINITY;
}

// Masks block n of the keys, if any row of the warpgroup does not see all of it.
template <int KEYS>
__device__ __forceinline__ void mask_block(float (&s)[KEYS / 2], const struct block_args &b, int n, int whole,
                                           int warp_row)
{
    if (n >= whole) {
        int lane = threadIdx.x % 32, first = n * KEYS + 2 * (lane % 4), row = warp_row + lane / 4;
        int limit[2] = {min(b.k_tokens - 1, row + b.diagonal) - first,
                        min(b.k_tokens - 1, row + 8 + b.diagonal) - first};
        mask_scores<KEYS>(s, limit);
    }
}

// Scores to probabilities, not yet normalised, against the running maximum; `factor`: what older results shrink by.
template <int KEYS>
__device__ __forceinline__ void softmax_scores(float (&s)[KEYS / 2], float (&maximum)[2], float (&sum)[2],
                                               float (&factor)[2], float scale_log2)
{
    float base[2], added[2] = {0, 0}, added_too[2] = {0, 0};
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float high = maximum[half], high_too = -INFINITY;
#pragma unroll
        for (int i = 0; i < KEYS / 8; i++) {
            high = fmaxf(high, s[4 * i + 2 * half]);
            high_too = fmaxf(high_too, s[4 * i + 2 * half + 1]);
        }
        high = fmaxf(high, high_too);
        high = fmaxf(high, __shfl_xor_sync(~0u, high, 1));
        high = fmaxf(high, __shfl_xor_sync(~0u, high, 2));
        base[half] = high > -INFINITY ? high * scale_log2 : 0;
        factor[half] = exp2_fast(maximum[half] * scale_log2 - base[half]);
        maximum[half] = high;
    }
#pragma unroll
    for (int i = 0; i < KEYS / 8; i++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float &low = s[4 * i + 2 * half], &next = s[4 * i + 2 * half + 1];
            low = exp2_fast(fmaf(low, scale_log2, -base[half]));
            next = exp2_fast(fmaf(next, scale_log2, -base[half]));
            added[half] += low;
            added_too[half] += next;
        }
#pragma unroll
    for (int half = 0; half < 2; half++)
        sum[half] = sum[half] * factor[half] + added[half] + added_too[half];
}

template <int KEYS> __device__ __forceinline__ void pack_scores(uint32_t (&p)[KEYS / 4], const float (&s)[KEYS / 2])
{
#pragma unroll
    for (int i = 0; i < KEYS / 4; i++)
        p[i] = pack_bf16(s[2 * i], s[2 * i + 1]);
}

template <int D> __device__ __forceinline__ void scale_output(float (&o)[D / 2], const float (&factor)[2])
{
#pragma unroll
    for (int i = 0; i < D / 2; i++)
        o[i] *= factor[i / 2 % 2];
}

template <int D, int KEYS, int GROUPS>
__device__ __forceinline__ void consume(struct forward_shared<D, KEYS, GROUPS> *shared, const struct block_args &b,
                                        const struct output_args &out, int m, int head, int n_blocks)
{
    int me = threadIdx.x / WARPGROUP - 1, warp = threadIdx.x % WARPGROUP / 32;
    int group_row = (m * GROUPS + me) * GROUP_QUERIES, warp_row = group_row + warp * 16;
    // Blocks of keys before this one are seen whole by every row of the warpgroup.
    int whole = max(0, min(b.k_tokens, group_row + b.diagonal + 1)) / KEYS;
    uint32_t q = shared_address(shared->q) + me * GROUP_QUERIES * TILE_ROW_BYTES;
    float o[D / 2], s[KEYS / 2], maximum[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0}, factor[2];
    uint32_t p[KEYS / 4];

#pragma unroll
    for (int i = 0; i < D / 2; i++)
        o[i] = 0;
    if (n_blocks > 0) {
        int n = n_blocks - 1;
        if (me == GROUPS - 1)
            named_arrive(TURN_BARRIER, 2 * WARPGROUP);
        barrier_wait(&shared->q_full, 0);
        barrier_wait(&shared->k_full[0], 0);
        named_sync(TURN_BARRIER + me, 2 * WARPGROUP);
        wgmma_fence();
        start_scores<D, KEYS, GROUPS>(s, q, shared_address(shared->k[0]));
        named_arrive(TURN_BARRIER + (me + 1) % GROUPS, 2 * WARPGROUP);
        wgmma_wait<0>();
        wgmma_result(s);
        barrier_arrive(&shared->k_empty[0]);
        mask_block<KEYS>(s, b, n, whole, warp_row);
        softmax_scores<KEYS>(s, maximum, sum, factor, b.scale_log2);
        pack_scores<KEYS>(p, s);
        for (int i = 1; i < n_blocks; i++) {
            int at = i % STAGES, before = (i - 1) % STAGES;
            barrier_wait(&shared->k_full[at], i / STAGES & 1);
            barrier_wait(&shared->v_full[before], (i - 1) / STAGES & 1);
            named_sync(TURN_BARRIER + me, 2 * WARPGROUP);
            wgmma_fence();
            start_scores<D, KEYS, GROUPS>(s, q, shared_address(shared->k[at]));
            start_output<D, KEYS>(o, p, shared_address(shared->v[before]));
            named_arrive(TURN_BARRIER + (me + 1) % GROUPS, 2 * WARPGROUP);
            wgmma_wait<1>();
            wgmma_result(s);
            barrier_arrive(&shared->k_empty[at]);
            mask_block<KEYS>(s, b, n_blocks - 1 - i, whole, warp_row);
            softmax_scores<KEYS>(s, maximum, sum, factor, b.scale_log2);
            wgmma_wait<0>();
            wgmma_result(o);
            wgmma_operand(p);
            barrier_arrive(&shared->v_empty[before]);
            pack_scores<KEYS>(p, s);
            scale_output<D>(o, factor);
        }
        if (me == 0) // the turn that the other handed over last
            named_sync(TURN_BARRIER, 2 * WARPGROUP);
        int last = (n_blocks - 1) % STAGES;
        barrier_wait(&shared->v_full[last], (n_blocks - 1) / STAGES & 1);
        wgmma_fence();
        start_output<D, KEYS>(o, p, shared_address(shared->v[last]));
        wgmma_wait<0>();
        wgmma_result(o);
    }
    add_lanes(sum);
    store_rows<D>(b, out, head, warp_row, o, maximum, sum);
}

template <int D, int KEYS, int GROUPS>
__global__ void __launch_bounds__((1 + GROUPS) * WARPGROUP, 1)
    forward_kernel(const __grid_constant__ CUtensorMap q_map, const __grid_constant__ CUtensorMap k_map,
                   const __grid_constant__ CUtensorMap v_map, const __grid_constant__ struct block_args b,
                   const __grid_constant__ struct output_args out, const __grid_constant__ struct tile_order order)
{
    extern __shared__ __align__(1024) uint8_t bytes[];
    struct forward_shared<D, KEYS, GROUPS> *shared = (struct forward_shared<D, KEYS, GROUPS> *)bytes;
    if (shared_address(bytes) % TILE_GROUP_BYTES != 0)
        __trap(); // the swizzle counts from here
    int head, rank, kv_head, m;
    tile_of(order, (int)blockIdx.x, &head, &rank);
    kv_head = head / (b.q_heads / b.kv_heads);
    m = order.tiles - 1 - rank; // with a diagonal the last rows see the most keys
    int last_row = min((m + 1) * GROUPS * GROUP_QUERIES, b.q_tokens) - 1;
    int seen = min(b.k_tokens, last_row + b.diagonal + 1), n_blocks = seen > 0 ? (seen + KEYS - 1) / KEYS : 0;

    if (threadIdx.x == 0) {
        barrier_init(&shared->q_full, 1);
        for (int i = 0; i < STAGES; i++) {
            barrier_init(&shared->k_full[i], 1);
            barrier_init(&shared->v_full[i], 1);
            barrier_init(&shared->k_empty[i], GROUPS * WARPGROUP);
            barrier_init(&shared->v_empty[i], GROUPS * WARPGROUP);
        }
        barrier_init_fence();
    }
    __syncthreads();
    if (threadIdx.x < WARPGROUP) {
        registers_less<GROUPS == 2 ? 24 : 32>();
        if (threadIdx.x == 0)
            produce<D, KEYS, GROUPS>(shared, &q_map, &k_map, &v_map, m, head, kv_head, n_blocks);
    } else {
        registers_more<GROUPS == 2 ? 240 : 160>();
        consume<D, KEYS, GROUPS>(shared, b, out, m, head, n_blocks);
    }
}

template <int D, int KEYS, int GROUPS>
static cudaError_t launch(const struct attention_block *b, const void *q, const void *k, const void *v,
                          const struct attention_output *out, cudaStream_t stream)
{
    const size_t bytes = sizeof(struct forward_shared<D, KEYS, GROUPS>);
    static_assert(sizeof(struct forward_shared<D, KEYS, GROUPS>) <= 227 * 1024, "shared memory of a multiprocessor");
    CUtensorMap q_map, k_map, v_map;
    cudaError_t error = tensor_map(&q_map, q, b->q_tokens, b->q_heads, D, GROUPS * GROUP_QUERIES);
    int m_blocks = ceiling(b->q_tokens, GROUPS * GROUP_QUERIES);

    if (error == cudaSuccess)
        error = tensor_map(&k_map, k, b->k_tokens, b->kv_heads, D, KEYS);
    if (error == cudaSuccess)
        error = tensor_map(&v_map, v, b->k_tokens, b->kv_heads, D, KEYS);
    if (error == cudaSuccess)
        error = cudaFuncSetAttribute(forward_kernel<D, KEYS, GROUPS>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     (int)bytes);
    if (error != cudaSuccess)
        return error;
    forward_kernel<D, KEYS, GROUPS><<<(unsigned)(m_blocks * b->q_heads), (1 + GROUPS) * WARPGROUP, bytes, stream>>>(
        q_map, k_map, v_map, block_args_of(b), output_args_of(out),
        tile_order_of(m_blocks, b->q_heads, b->q_heads / b->kv_heads));
    return cudaGetLastError();
}

cudaError_t forward_hopper(const struct attention_block *b, const void *q, const void *k, const void *v,
                           const struct attention_output *out, cudaStream_t stream)
{
    // As many keys as the registers and the shared memory of a multiprocessor hold. The narrow heads leave room for a
    // third warpgroup: there it is the exponentials that a multiprocessor has too few units for.
    return b->head_dim == 64 ? launch<64, 128, 3>(b, q, k, v, out, stream)
                             : launch<128, 176, 2>(b, q, k, v, out, stream);
}
