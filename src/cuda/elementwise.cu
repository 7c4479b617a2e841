#include "elementwise.h"

#include <cuda_bf16.h>
#include <math.h>
#include <stdint.h>

#define THREADS 256
#define WIDE 8     // bf16 values in 16 bytes
#define MIN_ROWS 4 // of a block of the backward RMSNorm: it also writes a row of float32

static unsigned blocks_of(size_t n)
{
    return (unsigned)((n + THREADS - 1) / THREADS);
}

struct wide {
    float v[WIDE];
};

__device__ static struct wide load_wide(const void *from, size_t at)
{
    uint4 raw = ((const uint4 *)from)[at];
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

__device__ static void store_wide(void *to, size_t at, const struct wide &w)
{
    uint4 raw;
    __nv_bfloat162 *pairs = (__nv_bfloat162 *)&raw;
#pragma unroll
    for (int i = 0; i < WIDE / 2; i++)
        pairs[i] = __floats2bfloat162_rn(w.v[2 * i], w.v[2 * i + 1]);
    ((uint4 *)to)[at] = raw;
}

// The sum over the block, in every thread.
__device__ static float block_sum(float x)
{
    __shared__ float warps[THREADS / 32];
#pragma unroll
    for (int step = 16; step > 0; step /= 2)
        x += __shfl_xor_sync(~0u, x, step);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = x;
    __syncthreads();
    x = 0;
#pragma unroll
    for (int i = 0; i < THREADS / 32; i++)
        x += warps[i];
    return x;
}

// ---- RMSNorm: a block a row, the row in registers ------------------------------------------------------------------------

template <int ITEMS> __global__ void __launch_bounds__(THREADS) rmsnorm_kernel(struct rmsnorm n)
{
    int width = n.hidden / WIDE;
    size_t row = (size_t)blockIdx.x * width;
    struct wide x[ITEMS];
    float squares = 0;
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        int at = threadIdx.x + i * THREADS;
        if (at >= width)
            continue;
        x[i] = load_wide(n.x, row + at);
        if (n.residual) {
            struct wide r = load_wide(n.residual, row + at);
#pragma unroll
            for (int j = 0; j < WIDE; j++)
                x[i].v[j] = __bfloat162float(__float2bfloat16_rn(x[i].v[j] + r.v[j])); // as the next reader sees it
            store_wide(n.sum, row + at, x[i]);
        }
#pragma unroll
        for (int j = 0; j < WIDE; j++)
            squares += x[i].v[j] * x[i].v[j];
    }
    float rstd = rsqrtf(block_sum(squares) / (float)n.hidden + n.epsilon);
    if (threadIdx.x == 0)
        n.rstd[blockIdx.x] = rstd;
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        int at = threadIdx.x + i * THREADS;
        if (at >= width)
            continue;
        struct wide w = load_wide(n.weight, at);
#pragma unroll
        for (int j = 0; j < WIDE; j++)
            x[i].v[j] *= rstd * w.v[j];
        store_wide(n.y, row + at, x[i]);
    }
}

// Number of 16-byte items that a thread holds of a row.
static int items_of(int hidden)
{
    int items = 1;
    while (items * THREADS * WIDE < hidden)
        items *= 2;
    return items;
}

cudaError_t rmsnorm_forward(const struct rmsnorm *n, cudaStream_t stream)
{
    unsigned rows = (unsigned)n->tokens;
    if (n->hidden % WIDE != 0 || n->hidden > RMSNORM_MAX_HIDDEN)
        return cudaErrorInvalidValue;
    switch (items_of(n->hidden)) {
    case 1:
        rmsnorm_kernel<1><<<rows, THREADS, 0, stream>>>(*n);
        break;
    case 2:
        rmsnorm_kernel<2><<<rows, THREADS, 0, stream>>>(*n);
        break;
    case 4:
        rmsnorm_kernel<4><<<rows, THREADS, 0, stream>>>(*n);
        break;
    default:
        rmsnorm_kernel<8><<<rows, THREADS, 0, stream>>>(*n);
    }
    return cudaGetLastError();
}

// A block takes many rows, and keeps its part of the weight's gradient in registers meanwhile.
template <int ITEMS>
__global__ void __launch_bounds__(THREADS, ITEMS <= 2   ? 4
                                           : ITEMS == 4 ? 2
                                                        : 1) rmsnorm_gradient_kernel(struct rmsnorm_gradient n)
{
    int width = n.hidden / WIDE;
    struct wide dw[ITEMS] = {};
    for (int token = blockIdx.x; token < n.tokens; token += gridDim.x) {
        size_t row = (size_t)token * width;
        struct wide x[ITEMS], g[ITEMS];
        float rstd = n.rstd[token], dot = 0;
#pragma unroll
        for (int i = 0; i < ITEMS; i++) {
            int at = threadIdx.x + i * THREADS;
            if (at >= width)
                continue;
            struct wide w = load_wide(n.weight, at);
            x[i] = load_wide(n.x, row + at);
            g[i] = load_wide(n.dy, row + at);
#pragma unroll
            for (int j = 0; j < WIDE; j++) {
                x[i].v[j] *= rstd;
                dw[i].v[j] += g[i].v[j] * x[i].v[j];
                g[i].v[j] *= w.v[j];
                dot += g[i].v[j] * x[i].v[j];
            }
        }
        dot = block_sum(dot) / (float)n.hidden;
#pragma unroll
        for (int i = 0; i < ITEMS; i++) {
            int at = threadIdx.x + i * THREADS;
            if (at >= width)
                continue;
            struct wide r = {};
            if (n.residual)
                r = load_wide(n.residual, row + at);
#pragma unroll
            for (int j = 0; j < WIDE; j++)
                r.v[j] += rstd * (g[i].v[j] - x[i].v[j] * dot);
            store_wide(n.dx, row + at, r);
        }
    }
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        int at = threadIdx.x + i * THREADS;
        float4 *to = (float4 *)(n.partials + ((size_t)blockIdx.x * width + at) * WIDE);
        if (at >= width)
            continue;
        to[0] = make_float4(dw[i].v[0], dw[i].v[1], dw[i].v[2], dw[i].v[3]);
        to[1] = make_float4(dw[i].v[4], dw[i].v[5], dw[i].v[6], dw[i].v[7]);
    }
}

// 32 columns a block, 32 rows at a time.
__global__ void column_sum_kernel(const float *partials, float *to, int rows, int columns)
{
    __shared__ float part[32][33];
    int column = blockIdx.x * 32 + threadIdx.x;
    float sum = 0;
    for (int row = threadIdx.y; row < rows && column < columns; row += 32)
        sum += partials[(size_t)row * columns + column];
    part[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    sum = part[threadIdx.x][threadIdx.y];
#pragma unroll
    for (int step = 16; step > 0; step /= 2)
        sum += __shfl_xor_sync(~0u, sum, step);
    column = blockIdx.x * 32 + threadIdx.y;
    if (threadIdx.x == 0 && column < columns)
        to[column] = sum;
}

cudaError_t rmsnorm_backward(const struct rmsnorm_gradient *n, cudaStream_t stream)
{
    int wanted = (n->tokens + MIN_ROWS - 1) / MIN_ROWS;
    unsigned blocks = (unsigned)(wanted < RMSNORM_PARTIALS ? wanted : RMSNORM_PARTIALS);
    if (n->hidden % WIDE != 0 || n->hidden > RMSNORM_MAX_HIDDEN)
        return cudaErrorInvalidValue;
    switch (items_of(n->hidden)) {
    case 1:
        rmsnorm_gradient_kernel<1><<<blocks, THREADS, 0, stream>>>(*n);
        break;
    case 2:
        rmsnorm_gradient_kernel<2><<<blocks, THREADS, 0, stream>>>(*n);
        break;
    case 4:
        rmsnorm_gradient_kernel<4><<<blocks, THREADS, 0, stream>>>(*n);
        break;
    default:
        rmsnorm_gradient_kernel<8><<<blocks, THREADS, 0, stream>>>(*n);
    }
    column_sum_kernel<<<(unsigned)((n->hidden + 31) / 32), dim3(32, 32), 0, stream>>>(n->partials, n->d_weight,
                                                                                      (int)blocks, n->hidden);
    return cudaGetLastError();
}

// ---- SwiGLU ----------------------------------------------------------------------------------------------------------

__device__ static float sigmoid(float x)
{
    return 1 / (1 + __expf(-x));
}

// A row of blocks a token: no division.
__global__ void swiglu_kernel(const void *gate_up, void *y, int width)
{
    int at = blockIdx.x * THREADS + threadIdx.x;
    size_t token = blockIdx.y + (size_t)gridDim.y * blockIdx.z;
    if (at >= width)
        return;
    struct wide g = load_wide(gate_up, token * 2 * width + at), u = load_wide(gate_up, (token * 2 + 1) * width + at);
#pragma unroll
    for (int j = 0; j < WIDE; j++)
        u.v[j] *= g.v[j] * sigmoid(g.v[j]);
    store_wide(y, token * width + at, u);
}

__global__ void swiglu_gradient_kernel(const void *gate_up, const void *dy, void *d_gate_up, int width)
{
    int at = blockIdx.x * THREADS + threadIdx.x;
    size_t token = blockIdx.y + (size_t)gridDim.y * blockIdx.z;
    if (at >= width)
        return;
    struct wide g = load_wide(gate_up, token * 2 * width + at), u = load_wide(gate_up, (token * 2 + 1) * width + at);
    struct wide d = load_wide(dy, token * width + at);
#pragma unroll
    for (int j = 0; j < WIDE; j++) {
        float s = sigmoid(g.v[j]), silu = g.v[j] * s;
        g.v[j] = d.v[j] * u.v[j] * (s + silu * (1 - s));
        u.v[j] = d.v[j] * silu;
    }
    store_wide(d_gate_up, token * 2 * width + at, g);
    store_wide(d_gate_up, (token * 2 + 1) * width + at, u);
}

#define MAX_GRID_Y 32768

// tokens as rows y and z of a grid; false where they do not split.
static bool token_grid(int tokens, int width, dim3 *grid)
{
    unsigned y = (unsigned)tokens, z = 1;
    while (y > MAX_GRID_Y && y % 2 == 0) {
        y /= 2;
        z *= 2;
    }
    *grid = dim3(blocks_of((size_t)width), y, z);
    return y <= MAX_GRID_Y;
}

cudaError_t swiglu_forward(const void *gate_up, void *y, int tokens, int ffn, cudaStream_t stream)
{
    dim3 grid;
    if (ffn % WIDE != 0 || !token_grid(tokens, ffn / WIDE, &grid))
        return cudaErrorInvalidValue;
    swiglu_kernel<<<grid, THREADS, 0, stream>>>(gate_up, y, ffn / WIDE);
    return cudaGetLastError();
}

cudaError_t swiglu_backward(const void *gate_up, const void *dy, void *d_gate_up, int tokens, int ffn,
                            cudaStream_t stream)
{
    dim3 grid;
    if (ffn % WIDE != 0 || !token_grid(tokens, ffn / WIDE, &grid))
        return cudaErrorInvalidValue;
    swiglu_gradient_kernel<<<grid, THREADS, 0, stream>>>(gate_up, dy, d_gate_up, ffn / WIDE);
    return cudaGetLastError();
}

// ---- rotary, residual, casts ---------------------------------------------------------------------------------------------

__global__ void rotary_kernel(struct rotary r)
{
    int half = r.head_dim / 2 / WIDE, at = blockIdx.x * THREADS + threadIdx.x;
    size_t token = blockIdx.y + (size_t)gridDim.y * blockIdx.z;
    if (at >= r.heads * half)
        return;
    size_t low = (token * r.heads + at / half) * 2 * half + at % half;
    const float4 *cosines = (const float4 *)(r.cos_sin + token * r.head_dim) + at % half * 2;
    const float4 *sines = cosines + half * 2;
    float4 cos_parts[2] = {cosines[0], cosines[1]}, sin_parts[2] = {sines[0], sines[1]};
    const float *c = (const float *)cos_parts, *s = (const float *)sin_parts;
    struct wide x = load_wide(r.x, low), y = load_wide(r.x, low + half);
#pragma unroll
    for (int j = 0; j < WIDE; j++) {
        float a = x.v[j], b = y.v[j], sine = s[j] * (float)r.direction;
        x.v[j] = a * c[j] - b * sine;
        y.v[j] = b * c[j] + a * sine;
    }
    store_wide(r.x, low, x);
    store_wide(r.x, low + half, y);
}

cudaError_t rotary_run(const struct rotary *r, cudaStream_t stream)
{
    dim3 grid;
    if (r->head_dim % (2 * WIDE) != 0 || !token_grid(r->tokens, r->heads * r->head_dim / 2 / WIDE, &grid))
        return cudaErrorInvalidValue;
    rotary_kernel<<<grid, THREADS, 0, stream>>>(*r);
    return cudaGetLastError();
}

__global__ void add_kernel(const void *x, const void *y, void *z, size_t n)
{
    size_t at = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (at >= n)
        return;
    struct wide a = load_wide(x, at), b = load_wide(y, at);
#pragma unroll
    for (int j = 0; j < WIDE; j++)
        a.v[j] += b.v[j];
    store_wide(z, at, a);
}

cudaError_t residual_add(const void *x, const void *y, void *z, size_t n, cudaStream_t stream)
{
    add_kernel<<<blocks_of(n / WIDE), THREADS, 0, stream>>>(x, y, z, n / WIDE);
    return n % WIDE == 0 ? cudaGetLastError() : cudaErrorInvalidValue;
}

__global__ void to_bf16_kernel(const float4 *x, void *y, size_t n)
{
    size_t at = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (at >= n)
        return;
    float4 a = x[2 * at], b = x[2 * at + 1];
    struct wide w = {{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
    store_wide(y, at, w);
}

cudaError_t cast_to_bf16(const float *x, void *y, size_t n, cudaStream_t stream)
{
    to_bf16_kernel<<<blocks_of(n / WIDE), THREADS, 0, stream>>>((const float4 *)x, y, n / WIDE);
    return n % WIDE == 0 ? cudaGetLastError() : cudaErrorInvalidValue;
}

// Two items of 4 values a thread, THREADS apart: each store of a warp is one piece.
__global__ void to_float_kernel(const void *x, float4 *y, size_t n)
{
    size_t at = (size_t)blockIdx.x * THREADS * 2 + threadIdx.x;
    uint2 raw[2];
#pragma unroll
    for (int i = 0; i < 2; i++)
        if (at + i * THREADS < n)
            raw[i] = ((const uint2 *)x)[at + i * THREADS];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float2 low = __bfloat1622float2(*(__nv_bfloat162 *)&raw[i].x),
               high = __bfloat1622float2(*(__nv_bfloat162 *)&raw[i].y);
        if (at + i * THREADS < n)
            y[at + i * THREADS] = make_float4(low.x, low.y, high.x, high.y);
    }
}

cudaError_t cast_to_float(const void *x, float *y, size_t n, cudaStream_t stream)
{
    to_float_kernel<<<blocks_of((n / 4 + 1) / 2), THREADS, 0, stream>>>(x, (float4 *)y, n / 4);
    return n % WIDE == 0 ? cudaGetLastError() : cudaErrorInvalidValue;
}

// ---- Adam ------------------------------------------------------------------------------------------------------------

struct adam_corrections {
    float first, second; // 1 / (1 - beta^step)
};

__device__ static float adam_one(const struct adam &a, struct adam_corrections c, float g, float *state)
{
    float *master = &state[0], *first = &state[1], *second = &state[2];
    *first = a.beta1 * *first + (1 - a.beta1) * g;
    *second = a.beta2 * *second + (1 - a.beta2) * g * g;
    float step = *first * c.first / (sqrtf(*second * c.second) + a.epsilon);
    *master -= a.rate * (step + a.decay * *master);
    return *master;
}

template <bool FLOAT> __global__ void adam_kernel(struct adam a, struct adam_corrections c)
{
    size_t at = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (at >= a.n / 4)
        return;
    float4 master = ((float4 *)a.master)[at], first = ((float4 *)a.first)[at], second = ((float4 *)a.second)[at], g;
    if (FLOAT) {
        g = ((const float4 *)a.gradient)[at];
    } else {
        uint2 raw = ((const uint2 *)a.gradient)[at];
        float2 low = __bfloat1622float2(*(__nv_bfloat162 *)&raw.x),
               high = __bfloat1622float2(*(__nv_bfloat162 *)&raw.y);
        g = make_float4(low.x, low.y, high.x, high.y);
    }
    float w[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float state[3] = {((float *)&master)[i], ((float *)&first)[i], ((float *)&second)[i]};
        w[i] = adam_one(a, c, ((float *)&g)[i], state);
        ((float *)&master)[i] = state[0];
        ((float *)&first)[i] = state[1];
        ((float *)&second)[i] = state[2];
    }
    ((float4 *)a.master)[at] = master;
    ((float4 *)a.first)[at] = first;
    ((float4 *)a.second)[at] = second;
    __nv_bfloat162 rounded[2] = {__floats2bfloat162_rn(w[0], w[1]), __floats2bfloat162_rn(w[2], w[3])};
    ((uint2 *)a.weight)[at] = *(uint2 *)rounded;
}

cudaError_t adam_step(const struct adam *a, cudaStream_t stream)
{
    struct adam_corrections c = {(float)(1 / (1 - pow(a->beta1, a->step))), (float)(1 / (1 - pow(a->beta2, a->step)))};
    if (a->n % 4 != 0)
        return cudaErrorInvalidValue;
    if (a->gradient_float)
        adam_kernel<true><<<blocks_of(a->n / 4), THREADS, 0, stream>>>(*a, c);
    else
        adam_kernel<false><<<blocks_of(a->n / 4), THREADS, 0, stream>>>(*a, c);
    return cudaGetLastError();
}
