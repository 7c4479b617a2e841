// The kernels around a method's attention, all of which only move memory: 8 bf16 values a thread.
#include "methods.h"

#include <cuda_bf16.h>

#define THREADS 256
#define WIDE 8

struct wide {
    float v[WIDE];
};

static unsigned blocks_of(size_t n)
{
    return (unsigned)((n + THREADS - 1) / THREADS);
}

__device__ static struct wide load(const __nv_bfloat16 *from)
{
    uint4 raw = *(const uint4 *)from;
    const __nv_bfloat162 *pairs = (const __nv_bfloat162 *)&raw;
    struct wide w;
#pragma unroll
    for (int i = 0; i < WIDE / 2; i++) {
        float2 x = __bfloat1622float2(pairs[i]);
        w.v[2 * i] = x.x;
        w.v[2 * i + 1] = x.y;
    }
    return w;
}

__device__ static struct wide load(const float *from)
{
    float4 a = ((const float4 *)from)[0], b = ((const float4 *)from)[1];
    struct wide w = {{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
    return w;
}

__device__ static void store(__nv_bfloat16 *to, const struct wide &w)
{
    uint4 raw;
    __nv_bfloat162 *pairs = (__nv_bfloat162 *)&raw;
#pragma unroll
    for (int i = 0; i < WIDE / 2; i++)
        pairs[i] = __floats2bfloat162_rn(w.v[2 * i], w.v[2 * i + 1]);
    *(uint4 *)to = raw;
}

__device__ static void store(float *to, const struct wide &w)
{
    ((float4 *)to)[0] = make_float4(w.v[0], w.v[1], w.v[2], w.v[3]);
    ((float4 *)to)[1] = make_float4(w.v[4], w.v[5], w.v[6], w.v[7]);
}

template <typename From, typename To> __global__ void accumulate_kernel(struct accumulate a)
{
    size_t at = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) * WIDE;
    if (at >= a.n)
        return;
    at += blockIdx.y * a.pitch;
    struct wide x = load((const From *)a.from + at);
    if (!a.set) {
        struct wide y = load((const To *)a.to + at);
#pragma unroll
        for (int i = 0; i < WIDE; i++)
            x.v[i] += y.v[i];
    }
    store((To *)a.to + at, x);
}

cudaError_t accumulate_run(const struct accumulate *a, cudaStream_t stream)
{
    dim3 grid(blocks_of(a->n / WIDE), 2);
    if (a->n % WIDE != 0 || a->pitch % WIDE != 0)
        return cudaErrorInvalidValue;
    if (a->from_float && a->to_float)
        accumulate_kernel<float, float><<<grid, THREADS, 0, stream>>>(*a);
    else if (a->from_float)
        accumulate_kernel<float, __nv_bfloat16><<<grid, THREADS, 0, stream>>>(*a);
    else if (a->to_float)
        accumulate_kernel<__nv_bfloat16, float><<<grid, THREADS, 0, stream>>>(*a);
    else
        accumulate_kernel<__nv_bfloat16, __nv_bfloat16><<<grid, THREADS, 0, stream>>>(*a);
    return cudaGetLastError();
}

// Element of [2][tokens][row] at `at`, in [rank][2][shard][row].
__device__ static size_t rank_order(const struct reorder &o, size_t at)
{
    size_t row = (size_t)o.row, tokens = (size_t)o.tokens, ranks = (size_t)o.ranks;
    size_t shard = tokens / ranks, chunk = shard / 2;
    size_t half = at / (tokens * row), token = at / row % tokens, piece = token / chunk;
    size_t rank = piece < ranks ? piece : 2 * ranks - 1 - piece;
    size_t local = token % chunk + (piece < ranks ? 0 : chunk);
    return ((rank * 2 + half) * shard + local) * row + at % row;
}

template <typename From, typename To, bool BACK>
__global__ void reorder_kernel(struct reorder o, const From *from, To *to)
{
    size_t at = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) * WIDE;
    if (at >= 2 * (size_t)o.tokens * (size_t)o.row)
        return;
    size_t other = rank_order(o, at);
    store(to + (BACK ? other : at), load(from + (BACK ? at : other)));
}

cudaError_t reorder_to_sequence(const struct reorder *o, const void *from, void *to, cudaStream_t stream)
{
    unsigned blocks = blocks_of(2 * (size_t)o->tokens * (size_t)o->row / WIDE);
    reorder_kernel<__nv_bfloat16, __nv_bfloat16, false>
        <<<blocks, THREADS, 0, stream>>>(*o, (const __nv_bfloat16 *)from, (__nv_bfloat16 *)to);
    return cudaGetLastError();
}

cudaError_t reorder_to_ranks(const struct reorder *o, const float *from, void *to, bool to_float, cudaStream_t stream)
{
    unsigned blocks = blocks_of(2 * (size_t)o->tokens * (size_t)o->row / WIDE);
    if (to_float)
        reorder_kernel<float, float, true><<<blocks, THREADS, 0, stream>>>(*o, from, (float *)to);
    else
        reorder_kernel<float, __nv_bfloat16, true><<<blocks, THREADS, 0, stream>>>(*o, from, (__nv_bfloat16 *)to);
    return cudaGetLastError();
}

__host__ __device__ static int heads_of_rank(const struct head_split &h)
{
    return h.heads >= h.ranks ? h.heads / h.ranks : 1;
}

// Packing walks the packed side, unpacking the other one.
__global__ void pack_kernel(struct head_split h, const __nv_bfloat16 *from, __nv_bfloat16 *to)
{
    size_t at = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) * WIDE;
    size_t dim = (size_t)h.head_dim, few = (size_t)heads_of_rank(h), tokens = (size_t)h.tokens, heads = (size_t)h.heads;
    size_t column = at % dim, head = at / dim % few, token = at / dim / few % tokens, rank = at / dim / few / tokens;
    if (rank >= (size_t)h.ranks)
        return;
    size_t source = rank * heads / (size_t)h.ranks + head;
    store(to + at, load(from + (token * heads + source) * dim + column));
}

__global__ void unpack_kernel(struct head_split h, const __nv_bfloat16 *from, __nv_bfloat16 *to)
{
    size_t at = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) * WIDE;
    size_t dim = (size_t)h.head_dim, few = (size_t)heads_of_rank(h), tokens = (size_t)h.tokens, heads = (size_t)h.heads;
    size_t column = at % dim, head = at / dim % heads, token = at / dim / heads;
    size_t copies = heads < (size_t)h.ranks ? (size_t)h.ranks / heads : 1;
    if (token >= tokens)
        return;
    struct wide sum = {};
    for (size_t i = 0; i < copies; i++) {
        size_t rank = copies > 1 ? head * copies + i : head / few;
        struct wide x = load(from + ((rank * tokens + token) * few + head % few) * dim + column);
#pragma unroll
        for (int j = 0; j < WIDE; j++)
            sum.v[j] += x.v[j];
    }
    store(to + at, sum);
}

cudaError_t heads_pack(const struct head_split *h, const void *from, void *to, cudaStream_t stream)
{
    size_t n = (size_t)h->ranks * (size_t)h->tokens * (size_t)heads_of_rank(*h) * (size_t)h->head_dim;
    pack_kernel<<<blocks_of(n / WIDE), THREADS, 0, stream>>>(*h, (const __nv_bfloat16 *)from, (__nv_bfloat16 *)to);
    return cudaGetLastError();
}

cudaError_t heads_unpack(const struct head_split *h, const void *from, void *to, cudaStream_t stream)
{
    size_t n = (size_t)h->tokens * (size_t)h->heads * (size_t)h->head_dim;
    unpack_kernel<<<blocks_of(n / WIDE), THREADS, 0, stream>>>(*h, (const __nv_bfloat16 *)from, (__nv_bfloat16 *)to);
    return cudaGetLastError();
}

// A thread has 8 columns of the first half of a head, and the 8 of the second half that turn with them.
__global__ void split_rotary_kernel(struct split_rotary s)
{
    size_t half = (size_t)s.head_dim / 2, dim = (size_t)s.head_dim, tokens = (size_t)s.tokens;
    size_t heads = (size_t)(s.q_heads + 2 * s.kv_heads), q_heads = (size_t)s.q_heads, kv_heads = (size_t)s.kv_heads;
    size_t at = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) * WIDE;
    size_t column = at % half, head = at / half % heads, token = at / half / heads;
    if (token >= tokens)
        return;
    __nv_bfloat16 *joined = (__nv_bfloat16 *)s.qkv + (token * heads + head) * dim + column, *apart;
    if (head < q_heads)
        apart = (__nv_bfloat16 *)s.q + (token * q_heads + head) * dim + column;
    else if (head < q_heads + kv_heads)
        apart = (__nv_bfloat16 *)s.kv + (token * kv_heads + head - q_heads) * dim + column;
    else
        apart = (__nv_bfloat16 *)s.kv + ((tokens + token) * kv_heads + head - q_heads - kv_heads) * dim + column;
    struct wide x = load(s.back ? apart : joined), y = load((s.back ? apart : joined) + half);
    if (head < q_heads + kv_heads) {
        struct wide c = load(s.cos_sin + token * dim + column), d = load(s.cos_sin + token * dim + half + column);
#pragma unroll
        for (int i = 0; i < WIDE; i++) {
            float sine = s.back ? -d.v[i] : d.v[i], first = x.v[i];
            x.v[i] = first * c.v[i] - y.v[i] * sine;
            y.v[i] = y.v[i] * c.v[i] + first * sine;
        }
    }
    store(s.back ? joined : apart, x);
    store((s.back ? joined : apart) + half, y);
}

cudaError_t split_rotary_run(const struct split_rotary *s, cudaStream_t stream)
{
    size_t n = (size_t)s->tokens * (size_t)(s->q_heads + 2 * s->kv_heads) * (size_t)s->head_dim / 2;
    split_rotary_kernel<<<blocks_of(n / WIDE), THREADS, 0, stream>>>(*s);
    return cudaGetLastError();
}
