// Backward attention for compute capability 8.0 and newer, in the order of backward_hopper.cu: four warps own 64 keys of
// one kv head, 16 each, and go over the queries of its group, 64 at a time. Written to be plain, not to be fast.
#include "portable.cuh"

template <int D> struct portable_backward_shared {
    __nv_bfloat16 k[PORTABLE_TILE * D], v[PORTABLE_TILE * D], q[PORTABLE_TILE * D], d_o[PORTABLE_TILE * D];
    __nv_bfloat16 ds[PORTABLE_TILE * PORTABLE_TILE];
    float lse[PORTABLE_TILE], delta[PORTABLE_TILE];
};

struct backward_tensors {
    const __nv_bfloat16 *q, *k, *v, *d_o;
    const float *rows;
    float *dq_sum;
    __nv_bfloat16 *dk, *dv;
    float *dk_sum, *dv_sum;
};

__device__ __forceinline__ void add_tile(float *to, const float *x)
{
#if __CUDA_ARCH__ >= 900
    atomicAdd((float4 *)to, make_float4(x[0], x[1], x[2], x[3]));
#else
    for (int i = 0; i < 4; i++)
        atomicAdd(to + i, x[i]);
#endif
}

// dq (64 queries) += dS * K; this warp's 16 queries. dS lies in shared memory as [key][query].
template <int D>
__device__ __forceinline__ void add_dq(float *dq_sum, const struct block_args &b, uint32_t ds_tile, uint32_t k_tile,
                                       int head, int row)
{
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    uint32_t ds[16];
#pragma unroll
    for (int step = 0; step < 4; step++) {
        uint32_t a[4];
        int key = step * 16 + lane / 16 * 8 + lane % 8;
        load_matrices_transposed(a, ds_tile + chunk_at(key, 2 * warp + lane / 8 % 2, PORTABLE_TILE / 8));
        for (int i = 0; i < 4; i++)
            ds[4 * step + i] = a[i];
    }
#pragma unroll
    for (int column = 0; column < D; column += 32) {
        float dq[16] = {0};
        accumulate<D, 2>(dq, ds, k_tile, column / 8);
        float *to = dq_sum + dq_tile(head, row + warp * 16, column, b.rows_pitch, D) + 4 * lane;
#pragma unroll
        for (int c = 0; c < 4; c++)
            add_tile(to + 128 * c, dq + 4 * c);
    }
}

template <int D>
__global__ void __launch_bounds__(PORTABLE_THREADS)
    portable_backward_kernel(struct block_args b, struct backward_tensors t, int n_blocks)
{
    extern __shared__ __align__(16) uint8_t bytes[];
    struct portable_backward_shared<D> *shared = (struct portable_backward_shared<D> *)bytes;
    int kv_head = blockIdx.x / n_blocks, n = blockIdx.x % n_blocks, group = b.q_heads / b.kv_heads;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, key = n * PORTABLE_TILE + warp * 16 + lane / 4;
    int tiles = (b.q_tokens + PORTABLE_TILE - 1) / PORTABLE_TILE;
    int first_tile = min(tiles, max(0, n * PORTABLE_TILE - b.diagonal) / PORTABLE_TILE);
    float dk[D / 2], dv[D / 2], s[32], dp[32];
    uint32_t p[16];

#pragma unroll
    for (int i = 0; i < D / 2; i++)
        dk[i] = dv[i] = 0;
    copy_rows<D>(shared_at(shared->k), t.k, n * PORTABLE_TILE, b.k_tokens, kv_head, b.kv_heads);
    copy_rows<D>(shared_at(shared->v), t.v, n * PORTABLE_TILE, b.k_tokens, kv_head, b.kv_heads);
    for (int head = kv_head * group; head < (kv_head + 1) * group; head++)
        for (int m = first_tile; m < tiles; m++) {
            int row = m * PORTABLE_TILE;
            __syncthreads(); // the tiles of the round before are no longer read
            copy_rows<D>(shared_at(shared->q), t.q, row, b.q_tokens, head, b.q_heads);
            copy_rows<D>(shared_at(shared->d_o), t.d_o, row, b.q_tokens, head, b.q_heads);
            if (threadIdx.x < PORTABLE_TILE) {
                const float *from = t.rows + (size_t)head * (size_t)b.rows_pitch + row + threadIdx.x;
                shared->lse[threadIdx.x] = from[0];
                shared->delta[threadIdx.x] = from[(size_t)b.q_heads * (size_t)b.rows_pitch];
            }
            copy_commit();
            copy_wait<0>();
            __syncthreads();
            scores<D>(s, shared_at(shared->k), warp * 16, shared_at(shared->q));
            int first[2];
            first_queries(first, b, key, row + 2 * (lane % 4), PORTABLE_TILE);
#pragma unroll
            for (int i = 0; i < 32; i++) {
                int column = i / 4 * 8 + i % 2;
                float x = exp2f(s[i] * b.scale_log2 - shared->lse[column + 2 * (lane % 4)]);
                s[i] = column < first[i / 2 % 2] ? 0 : x;
            }
#pragma unroll
            for (int i = 0; i < 16; i++)
                p[i] = pack_pair(s[2 * i], s[2 * i + 1]);
            accumulate<D, D / 16>(dv, p, shared_at(shared->d_o), 0);
            scores<D>(dp, shared_at(shared->v), warp * 16, shared_at(shared->d_o));
#pragma unroll
            for (int i = 0; i < 32; i++)
                s[i] *= dp[i] - shared->delta[i / 4 * 8 + i % 2 + 2 * (lane % 4)];
#pragma unroll
            for (int i = 0; i < 16; i++) {
                int at = warp * 16 + lane / 4 + i % 2 * 8;
                p[i] = pack_pair(s[2 * i], s[2 * i + 1]);
                *(uint32_t *)((uint8_t *)shared->ds + chunk_at(at, i / 2, PORTABLE_TILE / 8) + 4 * (lane % 4)) = p[i];
            }
            accumulate<D, D / 16>(dk, p, shared_at(shared->q), 0);
            __syncthreads();
            add_dq<D>(t.dq_sum, b, shared_at(shared->ds), shared_at(shared->k), head, row);
        }
    copy_wait<0>();
    store_gradient<D>(dk, b.scale, t.dk, t.dk_sum, n * PORTABLE_TILE + warp * 16, b.k_tokens, kv_head, b.kv_heads);
    store_gradient<D>(dv, 1, t.dv, t.dv_sum, n * PORTABLE_TILE + warp * 16, b.k_tokens, kv_head, b.kv_heads);
}

template <int D>
static cudaError_t launch(const struct attention_block *b, const struct backward_tensors *t, cudaStream_t stream)
{
    const size_t bytes = sizeof(struct portable_backward_shared<D>);
    int n_blocks = ceiling(b->k_tokens, PORTABLE_TILE);
    cudaError_t error =
        cudaFuncSetAttribute(portable_backward_kernel<D>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (error != cudaSuccess)
        return error;
    portable_backward_kernel<D>
        <<<(unsigned)(n_blocks * b->kv_heads), PORTABLE_THREADS, bytes, stream>>>(block_args_of(b), *t, n_blocks);
    return cudaGetLastError();
}

cudaError_t backward_portable(const struct attention_block *b, const void *q, const void *k, const void *v,
                              const void *d_o, const void *rows, const struct attention_gradients *g,
                              cudaStream_t stream)
{
    struct backward_tensors t = {(const __nv_bfloat16 *)q,
                                 (const __nv_bfloat16 *)k,
                                 (const __nv_bfloat16 *)v,
                                 (const __nv_bfloat16 *)d_o,
                                 (const float *)rows,
                                 g->dq_sum,
                                 (__nv_bfloat16 *)g->dk,
                                 (__nv_bfloat16 *)g->dv,
                                 g->dk_sum,
                                 g->dv_sum};
    return b->head_dim == 64 ? launch<64>(b, &t, stream) : launch<128>(b, &t, stream);
}
