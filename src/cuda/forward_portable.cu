// Forward attention for compute capability 8.0 and newer: four warps own 64 queries of one head, 16 each; keys and values
// come 64 at a time, the next ones copied while these are multiplied. Written to be plain, not to be fast.
#include "portable.cuh"

template <int D> struct portable_forward_shared {
    __nv_bfloat16 q[PORTABLE_TILE * D], k[2][PORTABLE_TILE * D], v[2][PORTABLE_TILE * D];
};

// Scores to probabilities against the running maximum; what was summed before shrinks with it. Without `running`, the
// maximum is taken to be zero: the fault that the tests show.
template <int D>
__device__ __forceinline__ void softmax_step(float (&s)[32], float (&o)[D / 2], float (&maximum)[2], float (&sum)[2],
                                             float scale_log2, bool running)
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float high = maximum[half], added = 0;
#pragma unroll
        for (int i = 0; i < 8; i++)
            high = fmaxf(high, fmaxf(s[4 * i + 2 * half], s[4 * i + 2 * half + 1]));
        high = fmaxf(high, __shfl_xor_sync(~0u, high, 1));
        high = fmaxf(high, __shfl_xor_sync(~0u, high, 2));
        if (!running)
            high = high > -INFINITY ? 0 : high;
        float base = high > -INFINITY ? high * scale_log2 : 0;
        float factor = running || maximum[half] == -INFINITY ? exp2f(maximum[half] * scale_log2 - base) : 1;
        maximum[half] = high;
#pragma unroll
        for (int i = 0; i < 8; i++)
#pragma unroll
            for (int j = 0; j < 2; j++) {
                float &x = s[4 * i + 2 * half + j];
                x = exp2f(x * scale_log2 - base);
                added += x;
            }
        sum[half] = sum[half] * factor + added;
#pragma unroll
        for (int i = 0; i < D / 8; i++) {
            o[4 * i + 2 * half] *= factor;
            o[4 * i + 2 * half + 1] *= factor;
        }
    }
}

template <int D>
__global__ void __launch_bounds__(PORTABLE_THREADS)
    portable_forward_kernel(struct block_args b, struct output_args out, const __nv_bfloat16 *q, const __nv_bfloat16 *k,
                            const __nv_bfloat16 *v, int m_blocks, bool running)
{
    extern __shared__ __align__(16) uint8_t bytes[];
    struct portable_forward_shared<D> *shared = (struct portable_forward_shared<D> *)bytes;
    int head = blockIdx.x / m_blocks, m = m_blocks - 1 - blockIdx.x % m_blocks,
        kv_head = head / (b.q_heads / b.kv_heads);
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = m * PORTABLE_TILE + warp * 16 + lane / 4;
    int last_row = min((m + 1) * PORTABLE_TILE, b.q_tokens) - 1, seen = min(b.k_tokens, last_row + b.diagonal + 1);
    int n_blocks = seen > 0 ? (seen + PORTABLE_TILE - 1) / PORTABLE_TILE : 0;
    float o[D / 2], s[32], maximum[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};
    uint32_t p[16];

#pragma unroll
    for (int i = 0; i < D / 2; i++)
        o[i] = 0;
    copy_rows<D>(shared_at(shared->q), q, m * PORTABLE_TILE, b.q_tokens, head, b.q_heads);
    if (n_blocks > 0) {
        copy_rows<D>(shared_at(shared->k[0]), k, 0, b.k_tokens, kv_head, b.kv_heads);
        copy_rows<D>(shared_at(shared->v[0]), v, 0, b.k_tokens, kv_head, b.kv_heads);
    }
    copy_commit();
    for (int n = 0; n < n_blocks; n++) {
        if (n + 1 < n_blocks) {
            int next = (n + 1) % 2;
            copy_rows<D>(shared_at(shared->k[next]), k, (n + 1) * PORTABLE_TILE, b.k_tokens, kv_head, b.kv_heads);
            copy_rows<D>(shared_at(shared->v[next]), v, (n + 1) * PORTABLE_TILE, b.k_tokens, kv_head, b.kv_heads);
        }
        copy_commit();
        copy_wait<1>();
        __syncthreads();
        scores<D>(s, shared_at(shared->q), warp * 16, shared_at(shared->k[n % 2]));
        int first = n * PORTABLE_TILE + 2 * (lane % 4);
        int limit[2] = {min(b.k_tokens - 1, row + b.diagonal) - first,
                        min(b.k_tokens - 1, row + 8 + b.diagonal) - first};
#pragma unroll
        for (int i = 0; i < 32; i++)
            if (i / 4 * 8 + i % 2 > limit[i / 2 % 2])
                s[i] = -INFINITY;
        softmax_step<D>(s, o, maximum, sum, b.scale_log2, running);
#pragma unroll
        for (int i = 0; i < 16; i++)
            p[i] = pack_pair(s[2 * i], s[2 * i + 1]);
        accumulate<D, D / 16>(o, p, shared_at(shared->v[n % 2]), 0);
        __syncthreads();
    }
    add_lanes(sum);
    store_rows<D>(b, out, head, m * PORTABLE_TILE + warp * 16, o, maximum, sum);
}

template <int D>
static cudaError_t launch(const struct attention_block *b, const void *q, const void *k, const void *v,
                          const struct attention_output *out, cudaStream_t stream)
{
    const size_t bytes = sizeof(struct portable_forward_shared<D>);
    int m_blocks = ceiling(b->q_tokens, PORTABLE_TILE);
    cudaError_t error =
        cudaFuncSetAttribute(portable_forward_kernel<D>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (error != cudaSuccess)
        return error;
    portable_forward_kernel<D><<<(unsigned)(m_blocks * b->q_heads), PORTABLE_THREADS, bytes, stream>>>(
        block_args_of(b), output_args_of(out), (const __nv_bfloat16 *)q, (const __nv_bfloat16 *)k,
        (const __nv_bfloat16 *)v, m_blocks, !b->no_maximum);
    return cudaGetLastError();
}

cudaError_t forward_portable(const struct attention_block *b, const void *q, const void *k, const void *v,
                             const struct attention_output *out, cudaStream_t stream)
{
    return b->head_dim == 64 ? launch<64>(b, q, k, v, out, stream) : launch<128>(b, q, k, v, out, stream);
}
