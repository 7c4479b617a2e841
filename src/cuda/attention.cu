// The entry points: checks, choice of the path, and the kernels around attention that only move memory: merging partial
// results, the rows' statistics for the backward pass, and dQ out of its scratch order.
#include "attention_device.cuh"

#define THREADS 256

static bool is_hopper(void)
{
    int device, major = 0;
    return cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess && major == 9;
}

bool attention_block_valid(const struct attention_block *b)
{
    return b->q_tokens > 0 && b->k_tokens > 0 && b->kv_heads > 0 && b->q_heads > 0 && b->q_heads % b->kv_heads == 0 &&
           (b->head_dim == 64 || b->head_dim == 128) && b->scale > 0;
}

struct block_args block_args_of(const struct attention_block *b)
{
    int64_t diagonal = b->causal ? b->q_offset - b->k_offset : DIAGONAL_NONE;
    struct block_args a = {b->q_tokens, b->k_tokens, b->q_heads, b->kv_heads, 0, b->scale, b->scale * LOG2_E, 0};
    a.diagonal = diagonal > DIAGONAL_NONE ? DIAGONAL_NONE : diagonal < -DIAGONAL_NONE ? -DIAGONAL_NONE : (int)diagonal;
    a.rows_pitch = rows_pitch_of(b->q_tokens);
    return a;
}

double attention_pairs(const struct attention_block *b)
{
    double pairs = 0;
    if (!b->causal)
        return (double)b->q_tokens * b->k_tokens;
    for (int64_t i = 0; i < b->q_tokens; i++) {
        int64_t seen = b->q_offset + i - b->k_offset + 1;
        pairs += (double)(seen < 0 ? 0 : seen > b->k_tokens ? b->k_tokens : seen);
    }
    return pairs;
}

cudaError_t attention_forward(const struct attention_block *b, const void *q, const void *k, const void *v,
                              const struct attention_output *out, cudaStream_t stream)
{
    if (!attention_block_valid(b) || !out->lse || (!out->o && !out->o_sum))
        return cudaErrorInvalidValue;
    if (b->path == ATTENTION_HOPPER && (!is_hopper() || b->no_maximum))
        return cudaErrorNotSupported;
    return b->path != ATTENTION_PORTABLE && !b->no_maximum && is_hopper() ? forward_hopper(b, q, k, v, out, stream)
                                                                          : forward_portable(b, q, k, v, out, stream);
}

cudaError_t attention_backward(const struct attention_block *b, const void *q, const void *k, const void *v,
                               const void *d_o, const void *rows, const struct attention_gradients *g,
                               cudaStream_t stream)
{
    if (!attention_block_valid(b) || !g->dq_sum || !(g->dk || g->dk_sum) || !(g->dv || g->dv_sum))
        return cudaErrorInvalidValue;
    if (b->path == ATTENTION_HOPPER && !is_hopper())
        return cudaErrorNotSupported;
    return b->path != ATTENTION_PORTABLE && is_hopper() ? backward_hopper(b, q, k, v, d_o, rows, g, stream)
                                                        : backward_portable(b, q, k, v, d_o, rows, g, stream);
}

// ---- forward: partial results --------------------------------------------------------------------------------------------

__global__ void clear_lse_kernel(struct block_args b, struct output_args out)
{
    int row = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (row < b.q_tokens)
        out.lse[blockIdx.y * out.lse_pitch + row] = -INFINITY;
}

static unsigned blocks_of(size_t n)
{
    return (unsigned)((n + THREADS - 1) / THREADS);
}

cudaError_t attention_clear(const struct attention_block *b, const struct attention_output *out, cudaStream_t stream)
{
    size_t n = (size_t)b->q_tokens * (size_t)b->q_heads * (size_t)b->head_dim;
    cudaError_t error = cudaMemsetAsync(out->o_sum, 0, n * sizeof(float), stream);

    if (error != cudaSuccess)
        return error;
    clear_lse_kernel<<<dim3(blocks_of((size_t)b->q_tokens), (unsigned)b->q_heads), THREADS, 0, stream>>>(
        block_args_of(b), output_args_of(out));
    return cudaGetLastError();
}

// A warp a row of a head. A row whose partial result saw no key is left as it is.
template <int D>
__global__ void merge_kernel(struct block_args b, const __nv_bfloat16 *partial, const float *partial_lse,
                             struct output_args into)
{
    int64_t at = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / 32, row = at / b.q_heads, head = at % b.q_heads;
    int lane = threadIdx.x % 32, column = lane * (D / 32);
    if (row >= b.q_tokens)
        return;
    float *lse = into.lse + head * into.lse_pitch + row;
    struct merge_weights w = merge_weights_of(*lse, partial_lse[head * into.lse_pitch + row]);
    __syncwarp(); // every lane has read the old value before one writes the new one
    if (w.new_weight <= 0)
        return;
    if (lane == 0)
        *lse = w.lse;
#pragma unroll
    for (int i = 0; i < D / 32; i += 2) {
        float2 *sum = (float2 *)(into.o_sum + at * D + column + i);
        float2 x = *sum, y = __bfloat1622float2(*(const __nv_bfloat162 *)(partial + at * D + column + i));
        x.x = x.x * w.old_weight + y.x * w.new_weight;
        x.y = x.y * w.old_weight + y.y * w.new_weight;
        *sum = x;
    }
}

cudaError_t attention_merge(const struct attention_block *b, const void *partial, const float *partial_lse,
                            const struct attention_output *into, cudaStream_t stream)
{
    unsigned blocks = blocks_of((size_t)b->q_tokens * (size_t)b->q_heads * 32);
    const __nv_bfloat16 *from = (const __nv_bfloat16 *)partial;
    if (b->head_dim == 64)
        merge_kernel<64><<<blocks, THREADS, 0, stream>>>(block_args_of(b), from, partial_lse, output_args_of(into));
    else
        merge_kernel<128><<<blocks, THREADS, 0, stream>>>(block_args_of(b), from, partial_lse, output_args_of(into));
    return cudaGetLastError();
}

__global__ void round_kernel(const float *from, __nv_bfloat16 *to, size_t n)
{
    size_t i = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) * 2;
    if (i + 1 < n)
        *(__nv_bfloat162 *)(to + i) = __float22bfloat162_rn(*(const float2 *)(from + i));
    else if (i < n)
        to[i] = __float2bfloat16_rn(from[i]);
}

cudaError_t attention_round(const float *from, void *to, size_t n, cudaStream_t stream)
{
    round_kernel<<<blocks_of((n + 1) / 2), THREADS, 0, stream>>>(from, (__nv_bfloat16 *)to, n);
    return cudaGetLastError();
}

// ---- backward: before and after ------------------------------------------------------------------------------------------

size_t attention_rows_bytes(const struct attention_block *b)
{
    return 2 * (size_t)b->q_heads * (size_t)rows_pitch_of(b->q_tokens) * sizeof(float);
}

size_t attention_dq_bytes(const struct attention_block *b)
{
    return (size_t)b->q_heads * (size_t)rows_pitch_of(b->q_tokens) * (size_t)b->head_dim * sizeof(float);
}

// A warp a row of a head, padding included.
template <int D>
__global__ void rows_kernel(struct block_args b, const __nv_bfloat16 *o, const __nv_bfloat16 *d_o, const float *lse,
                            int64_t lse_pitch, float *rows)
{
    int64_t at = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / 32, row = at / b.q_heads, head = at % b.q_heads;
    int lane = threadIdx.x % 32, column = lane * (D / 32);
    float delta = 0, log2_sum = INFINITY;
    if (row >= b.rows_pitch)
        return;
    if (row < b.q_tokens) {
        float l = lse[head * lse_pitch + row];
        if (l > -INFINITY)
            log2_sum = l * LOG2_E;
#pragma unroll
        for (int i = 0; i < D / 32; i += 2) {
            float2 x = __bfloat1622float2(*(const __nv_bfloat162 *)(o + at * D + column + i));
            float2 y = __bfloat1622float2(*(const __nv_bfloat162 *)(d_o + at * D + column + i));
            delta += x.x * y.x + x.y * y.y;
        }
    }
#pragma unroll
    for (int step = 16; step > 0; step /= 2)
        delta += __shfl_xor_sync(~0u, delta, step);
    if (lane == 0) {
        rows[head * b.rows_pitch + row] = log2_sum;
        rows[(b.q_heads + head) * b.rows_pitch + row] = delta;
    }
}

cudaError_t attention_rows(const struct attention_block *b, const void *o, const void *d_o, const float *lse,
                           int64_t lse_pitch, void *rows, cudaStream_t stream)
{
    struct block_args args = block_args_of(b);
    unsigned blocks = blocks_of((size_t)args.rows_pitch * (size_t)b->q_heads * 32);
    const __nv_bfloat16 *x = (const __nv_bfloat16 *)o, *y = (const __nv_bfloat16 *)d_o;
    if (b->head_dim == 64)
        rows_kernel<64><<<blocks, THREADS, 0, stream>>>(args, x, y, lse, lse_pitch, (float *)rows);
    else
        rows_kernel<128><<<blocks, THREADS, 0, stream>>>(args, x, y, lse, lse_pitch, (float *)rows);
    return cudaGetLastError();
}

// A warp a tile of 16 rows and 8 columns: lane l holds rows l/4 and l/4 + 8, columns 2(l%4) and the next.
template <int D> __global__ void dq_kernel(struct block_args b, const float *dq_sum, __nv_bfloat16 *dq)
{
    int64_t tile = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / 32;
    int lane = threadIdx.x % 32, column = (int)(tile % (D / 8)) * 8 + 2 * (lane % 4);
    int64_t tile_rows = b.rows_pitch / 16, head = tile / (D / 8) / tile_rows;
    int row = (int)(tile / (D / 8) % tile_rows) * 16 + lane / 4;
    if (head >= b.q_heads)
        return;
    float4 x = *(const float4 *)(dq_sum + tile * 128 + lane * 4);
    if (row < b.q_tokens)
        *(__nv_bfloat162 *)(dq + ((size_t)row * b.q_heads + head) * D + column) =
            __floats2bfloat162_rn(x.x * b.scale, x.y * b.scale);
    if (row + 8 < b.q_tokens)
        *(__nv_bfloat162 *)(dq + ((size_t)(row + 8) * b.q_heads + head) * D + column) =
            __floats2bfloat162_rn(x.z * b.scale, x.w * b.scale);
}

cudaError_t attention_dq_finish(const struct attention_block *b, const float *dq_sum, void *dq, cudaStream_t stream)
{
    struct block_args args = block_args_of(b);
    unsigned blocks = blocks_of(attention_dq_bytes(b) / sizeof(float) / 4);
    if (b->head_dim == 64)
        dq_kernel<64><<<blocks, THREADS, 0, stream>>>(args, dq_sum, (__nv_bfloat16 *)dq);
    else
        dq_kernel<128><<<blocks, THREADS, 0, stream>>>(args, dq_sum, (__nv_bfloat16 *)dq);
    return cudaGetLastError();
}
