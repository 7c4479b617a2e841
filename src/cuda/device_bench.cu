// seqplan-device bench-attention: time of the attention kernels, one line a shape and pass.
//
// Inputs are random (zeros run faster). The first calls are not counted; a backward pass is everything it takes: clearing
// the scratch of dQ, the rows' statistics, the kernel, dQ out of its scratch. FLOP: 4 a pair of tokens, query head and
// column forward, 10 backward, over the pairs that the mask leaves.
#include "attention_device.cuh"
#include "device_program.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WARM_UPS 3
#define MAX_REPEATS 101
#define FORWARD_FLOP 4.0
#define BACKWARD_FLOP 10.0

struct bench {
    const char *tokens, *heads, *masks, *passes, *output;
    int head_dim, repeats;
    enum attention_path path;
};

struct buffers {
    __nv_bfloat16 *q, *k, *v, *d_o, *o, *dq, *dk, *dv;
    float *lse, *dq_sum, *o_sum, *sum_lse;
    void *rows;
};

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        cudaError_t error_ = (call);                                                                                   \
        if (error_ != cudaSuccess)                                                                                     \
            return error_;                                                                                             \
    } while (0)

__device__ static uint32_t mixed(uint32_t x)
{
    x = (x ^ x >> 16) * 0x7feb352d;
    x = (x ^ x >> 15) * 0x846ca68b;
    return x ^ x >> 16;
}

// Close to normal: twelve uniform values, less their mean.
__global__ void random_kernel(__nv_bfloat16 *to, size_t n, uint32_t seed)
{
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    float sum = -6;
    if (i >= n)
        return;
    for (uint32_t j = 0; j < 12; j++)
        sum += (float)mixed((uint32_t)i * 12 + j + seed * 0x9e3779b9u) * 0x1p-32f;
    to[i] = __float2bfloat16_rn(sum);
}

static cudaError_t make_random(__nv_bfloat16 **to, size_t n, uint32_t seed)
{
    TRY(cudaMalloc((void **)to, n * sizeof **to));
    random_kernel<<<(unsigned)((n + 255) / 256), 256>>>(*to, n, seed);
    return cudaGetLastError();
}

static cudaError_t make_buffers(const struct attention_block *b, struct buffers *x)
{
    size_t nq = (size_t)b->q_tokens * (size_t)b->q_heads * (size_t)b->head_dim;
    size_t nk = (size_t)b->k_tokens * (size_t)b->kv_heads * (size_t)b->head_dim;
    TRY(make_random(&x->q, nq, 1));
    TRY(make_random(&x->k, nk, 2));
    TRY(make_random(&x->v, nk, 3));
    TRY(make_random(&x->d_o, nq, 4));
    TRY(cudaMalloc((void **)&x->o, nq * 2));
    TRY(cudaMalloc((void **)&x->dq, nq * 2));
    TRY(cudaMalloc((void **)&x->dk, nk * 2));
    TRY(cudaMalloc((void **)&x->dv, nk * 2));
    TRY(cudaMalloc((void **)&x->lse, (size_t)b->q_tokens * (size_t)b->q_heads * sizeof(float)));
    TRY(cudaMalloc((void **)&x->sum_lse, (size_t)b->q_tokens * (size_t)b->q_heads * sizeof(float)));
    TRY(cudaMalloc((void **)&x->o_sum, nq * sizeof(float)));
    TRY(cudaMalloc((void **)&x->dq_sum, attention_dq_bytes(b)));
    TRY(cudaMalloc(&x->rows, attention_rows_bytes(b)));
    return cudaDeviceSynchronize();
}

static void free_buffers(struct buffers *x)
{
    void *all[] = {x->q,  x->k,   x->v,      x->d_o,   x->o,       x->dq,  x->dk,
                   x->dv, x->lse, x->dq_sum, x->o_sum, x->sum_lse, x->rows};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        cudaFree(all[i]);
}

// What a forward pass writes: its own result, or one merged into an earlier one, at once or by the merge kernel.
static cudaError_t run_pass(const struct bench *o, const struct attention_block *b, const struct buffers *x,
                            bool backward)
{
    struct attention_output out = {x->o, NULL, x->lse, b->q_tokens};
    struct attention_output sum = {NULL, x->o_sum, x->sum_lse, b->q_tokens};
    struct attention_gradients g = {x->dq_sum, x->dk, x->dv, NULL, NULL};
    if (!backward && strcmp(o->output, "sum") == 0)
        return attention_forward(b, x->q, x->k, x->v, &sum, 0);
    if (!backward)
        TRY(attention_forward(b, x->q, x->k, x->v, &out, 0));
    if (!backward)
        return strcmp(o->output, "merge") == 0 ? attention_merge(b, x->o, x->lse, &sum, 0) : cudaSuccess;
    TRY(cudaMemsetAsync(x->dq_sum, 0, attention_dq_bytes(b), 0));
    TRY(attention_rows(b, x->o, x->d_o, x->lse, b->q_tokens, x->rows, 0));
    TRY(attention_backward(b, x->q, x->k, x->v, x->d_o, x->rows, &g, 0));
    return attention_dq_finish(b, x->dq_sum, x->dq, 0);
}

static int compare_floats(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static cudaError_t time_pass(const struct bench *o, const struct attention_block *b, const struct buffers *x,
                             bool backward, float *ms)
{
    struct attention_output sum = {NULL, x->o_sum, x->sum_lse, b->q_tokens};
    int repeats = o->repeats;
    cudaEvent_t start, end;
    TRY(cudaEventCreate(&start));
    TRY(cudaEventCreate(&end));
    TRY(attention_clear(b, &sum, 0));
    for (int i = 0; i < WARM_UPS; i++)
        TRY(run_pass(o, b, x, backward));
    TRY(cudaDeviceSynchronize());
    for (int i = 0; i < repeats; i++) {
        TRY(cudaEventRecord(start, 0));
        TRY(run_pass(o, b, x, backward));
        TRY(cudaEventRecord(end, 0));
        TRY(cudaEventSynchronize(end));
        TRY(cudaEventElapsedTime(&ms[i], start, end));
    }
    qsort(ms, (size_t)repeats, sizeof *ms, compare_floats);
    TRY(cudaEventDestroy(start));
    return cudaEventDestroy(end);
}

static cudaError_t bench_shape(const struct bench *o, const struct attention_block *b)
{
    float ms[MAX_REPEATS];
    struct buffers x = {};
    TRY(make_buffers(b, &x));
    struct bench plain = *o;
    plain.output = "plain";
    TRY(run_pass(&plain, b, &x, false)); // the backward pass needs its results
    for (int backward = 0; backward < 2; backward++) {
        if (!strstr(o->passes, backward ? "backward" : "forward"))
            continue;
        TRY(time_pass(o, b, &x, backward, ms));
        double flop = (backward ? BACKWARD_FLOP : FORWARD_FLOP) * attention_pairs(b) * b->q_heads * b->head_dim;
        double median = ms[o->repeats / 2];
        printf("%s\t%s\t%d\t%d/%d\t%d\t%s\t%.4f\t%.4f\t%.4f\t%.1f\n",
               o->path == ATTENTION_PORTABLE ? "portable" : "hopper", backward ? "backward" : "forward", b->q_tokens,
               b->q_heads, b->kv_heads, b->head_dim, b->causal ? "causal" : "full", median, (double)ms[0],
               (double)ms[o->repeats - 1], flop / median * 1e-9);
        fflush(stdout);
    }
    free_buffers(&x);
    return cudaSuccess;
}

static const char *next_item(const char *list)
{
    const char *comma = strchr(list, ',');
    return comma ? comma + 1 : list + strlen(list);
}

static cudaError_t bench_all(const struct bench *o)
{
    for (const char *t = o->tokens; *t; t = next_item(t))
        for (const char *h = o->heads; *h; h = next_item(h))
            for (int causal = 1; causal >= 0; causal--) {
                struct attention_block b = {};
                b.q_tokens = b.k_tokens = atoi(t);
                b.head_dim = o->head_dim;
                b.causal = causal;
                b.scale = (float)(1 / sqrt((double)b.head_dim));
                b.path = o->path;
                if (sscanf(h, "%d/%d", &b.q_heads, &b.kv_heads) != 2)
                    return cudaErrorInvalidValue;
                if (strstr(o->masks, causal ? "causal" : "full"))
                    TRY(bench_shape(o, &b));
            }
    return cudaSuccess;
}

static const char usage[] =
    "usage: seqplan-device bench-attention [--tokens 16384,32768] [--heads 32/8,32/32] [--head-dim 128]\n"
    "         [--mask causal,full] [--pass forward,backward] [--path hopper|portable] [--repeats 7]\n"
    "         [--output plain|sum|merge]\n"
    "Prints, tab-separated: path, pass, tokens, heads, head dimension, mask, median, least and most ms, TFLOP/s.\n";

int device_bench_attention(int argc, char **argv)
{
    struct bench o = {"16384", "32/8", "causal,full", "forward,backward", "plain", 128, 7, ATTENTION_HOPPER};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--tokens") == 0)
            o.tokens = value;
        else if (strcmp(argv[i], "--heads") == 0)
            o.heads = value;
        else if (strcmp(argv[i], "--mask") == 0)
            o.masks = value;
        else if (strcmp(argv[i], "--pass") == 0)
            o.passes = value;
        else if (strcmp(argv[i], "--output") == 0)
            o.output = value;
        else if (strcmp(argv[i], "--head-dim") == 0)
            o.head_dim = atoi(value);
        else if (strcmp(argv[i], "--repeats") == 0)
            o.repeats = atoi(value);
        else if (strcmp(argv[i], "--path") == 0)
            o.path = strcmp(value, "portable") == 0 ? ATTENTION_PORTABLE : ATTENTION_HOPPER;
        else {
            fputs(usage, strcmp(argv[i], "--help") == 0 ? stdout : stderr);
            return strcmp(argv[i], "--help") == 0 ? 0 : 2;
        }
        i++;
    }
    if (o.repeats < 1 || o.repeats > MAX_REPEATS) {
        fprintf(stderr, "seqplan-device: --repeats is 1 to %d\n", MAX_REPEATS);
        return 2;
    }
    cudaError_t error = bench_all(&o);
    if (error != cudaSuccess)
        fprintf(stderr, "seqplan-device: %s\n", cudaGetErrorString(error));
    return error != cudaSuccess;
}
