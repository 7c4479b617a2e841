#include "layer.h"

#include "elementwise.h"

#include <stdlib.h>

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        cudaError_t error_ = (call);                                                                                   \
        if (error_ != cudaSuccess)                                                                                     \
            return error_;                                                                                             \
    } while (0)

#define BF16_BYTES 2
#define EPSILON 1e-5f
#define ROTARY_BASE 500000.0f // of Llama 3
#define THREADS 256

static int shard_of(const struct layer_shape *s)
{
    return s->attention.tokens / s->attention.ranks;
}

size_t layer_linear_in(const struct layer_shape *s, enum layer_linear which)
{
    size_t heads = (size_t)s->attention.q_heads * (size_t)s->attention.head_dim;
    return which == LINEAR_OUT ? heads : which == LINEAR_DOWN ? (size_t)s->ffn : (size_t)s->hidden;
}

size_t layer_linear_out(const struct layer_shape *s, enum layer_linear which)
{
    size_t heads = (size_t)(s->attention.q_heads + 2 * s->attention.kv_heads) * (size_t)s->attention.head_dim;
    return which == LINEAR_QKV ? heads : which == LINEAR_GATE_UP ? 2 * (size_t)s->ffn : (size_t)s->hidden;
}

double layer_linear_flop(const struct layer_shape *s, bool backward)
{
    double weights = 0;
    for (int i = 0; i < LINEARS; i++)
        weights += (double)layer_linear_in(s, (enum layer_linear)i) * (double)layer_linear_out(s, (enum layer_linear)i);
    return (backward ? 4.0 : 2.0) * shard_of(s) * weights;
}

// ---- memory ------------------------------------------------------------------------------------------------------------

const char *layer_gpu_open(struct layer_gpu *g, const struct layer_shape *s, int gpu, method_alloc alloc, void *context)
{
    const char *why = "";
    bool full = false;
    for (int i = 0; i < 2; i++)
        if (!g->norm_weight[i])
            full |= !(g->norm_weight[i] = alloc(context, gpu, (size_t)s->hidden * BF16_BYTES));
    full |= !(g->workspace = alloc(context, gpu, GEMM_WORKSPACE_BYTES));
    if (cudaSetDevice(gpu) != cudaSuccess)
        return "the GPU does not answer";
    g->opened = true;
    for (int i = 0; i < LINEARS; i++) {
        size_t in = layer_linear_in(s, (enum layer_linear)i), out = layer_linear_out(s, (enum layer_linear)i);
        if (!g->weight[i])
            full |= !(g->weight[i] = alloc(context, gpu, in * out * BF16_BYTES));
        for (int pass = 0; pass < 3 && !*why; pass++) {
            why = gemm_open(&g->gemm[i][pass], (enum gemm_pass)pass, shard_of(s), (int)in, (int)out);
            g->gemm[i][pass].workspace = g->workspace;
        }
    }
    return *why ? why : full ? "out of memory" : "";
}

void layer_gpu_close(struct layer_gpu *g)
{
    for (int i = 0; g->opened && i < LINEARS; i++)
        for (int pass = 0; pass < 3; pass++)
            gemm_close(&g->gemm[i][pass]);
    g->opened = false;
}

__global__ void cos_sin_kernel(const int *positions, float *to, int tokens, int head_dim)
{
    int at = (int)(blockIdx.x * blockDim.x + threadIdx.x), half = head_dim / 2, token = at / half, column = at % half;
    float *row = to + (size_t)token * (size_t)head_dim;
    if (token >= tokens)
        return;
    double angle = (double)positions[token] * (double)powf(ROTARY_BASE, -2.0f * (float)column / (float)head_dim);
    row[column] = (float)cos(angle);
    row[half + column] = (float)sin(angle);
}

// Of the tokens of a shard, by where they are in the sequence.
static bool make_cos_sin(struct layer_rank *r, const struct layer_shape *s)
{
    int tokens = shard_of(s), dim = s->attention.head_dim, *device = NULL, *host;
    bool fine = (host = (int *)malloc((size_t)tokens * sizeof *host)) != NULL;
    for (int i = 0; fine && i < tokens; i++)
        host[i] = (int)method_position(&s->attention, r->method->rank, i);
    fine = fine && cudaSetDevice(r->method->gpu) == cudaSuccess &&
           cudaMalloc((void **)&device, (size_t)tokens * sizeof *host) == cudaSuccess &&
           cudaMemcpy(device, host, (size_t)tokens * sizeof *host, cudaMemcpyHostToDevice) == cudaSuccess;
    if (fine)
        cos_sin_kernel<<<(unsigned)((size_t)tokens * (size_t)dim / 2 / THREADS + 1), THREADS>>>(device, r->cos_sin,
                                                                                                tokens, dim);
    fine = fine && cudaDeviceSynchronize() == cudaSuccess;
    cudaFree(device);
    free(host);
    return fine;
}

bool layer_rank_create(struct layer_rank *r, const struct layer_shape *s, method_alloc alloc, void *context)
{
    size_t tokens = (size_t)shard_of(s), hidden = tokens * (size_t)s->hidden * BF16_BYTES;
    size_t ffn = tokens * (size_t)s->ffn * BF16_BYTES, norm = (size_t)s->hidden * sizeof(float);
    size_t qkv = tokens * layer_linear_out(s, LINEAR_QKV) * BF16_BYTES;
    struct {
        void *field;
        size_t bytes;
    } all[] = {
        {&r->x, hidden},
        {&r->out, hidden},
        {&r->d_out, hidden},
        {&r->dx, hidden},
        {&r->normed[0], hidden},
        {&r->normed[1], hidden},
        {&r->qkv, qkv},
        {&r->y, hidden},
        {&r->middle, hidden},
        {&r->d_middle, hidden},
        {&r->gate_up, 2 * ffn},
        {&r->act, ffn},
        {&r->d_gate_up, 2 * ffn},
        {&r->d_act, ffn},
        {&r->d_normed, hidden},
        {&r->d_norm[0], norm},
        {&r->d_norm[1], norm},
        {&r->rstd[0], tokens * sizeof(float)},
        {&r->rstd[1], tokens * sizeof(float)},
        {&r->partials, RMSNORM_PARTIALS * norm},
        {&r->cos_sin, tokens * (size_t)s->attention.head_dim * sizeof(float)},
    };
    bool full = false;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        void **field = (void **)all[i].field;
        if (!*field)
            *field = alloc(context, r->method->gpu, all[i].bytes);
        full |= !*field;
    }
    for (int i = 0; i < LINEARS; i++) {
        size_t n = layer_linear_in(s, (enum layer_linear)i) * layer_linear_out(s, (enum layer_linear)i);
        full |= !(r->d_weight[i] = alloc(context, r->method->gpu, n * BF16_BYTES));
    }
    return !full && make_cos_sin(r, s);
}

// ---- forward -----------------------------------------------------------------------------------------------------------

static struct rmsnorm norm_of(const struct layer_shape *s, const struct layer_rank *r, int which)
{
    struct rmsnorm n = {shard_of(s), s->hidden,        EPSILON,       r->x, NULL, r->gpu->norm_weight[which],
                        NULL,        r->normed[which], r->rstd[which]};
    if (which == 1) { // of what attention adds to its input
        n.x = r->y;
        n.residual = r->x;
        n.sum = r->middle;
    }
    return n;
}

static struct split_rotary rotary_of(const struct layer_shape *s, const struct layer_rank *r, bool back)
{
    const struct method_tensors *t = &r->method->t;
    struct split_rotary x = {shard_of(s),
                             s->attention.q_heads,
                             s->attention.kv_heads,
                             s->attention.head_dim,
                             r->qkv,
                             t->q,
                             t->kv,
                             r->cos_sin,
                             back};
    if (back) {
        x.q = t->dq;
        x.kv = t->d_kv;
    }
    return x;
}

static cudaError_t linear(const struct layer_rank *r, enum layer_linear which, const void *x, void *y)
{
    return gemm_run(&r->gpu->gemm[which][GEMM_FORWARD], x, r->gpu->weight[which], y, r->method->compute);
}

static cudaError_t before_attention(const struct layer_shape *s, struct layer_rank *r)
{
    struct rmsnorm n = norm_of(s, r, 0);
    struct split_rotary rotary = rotary_of(s, r, false);
    TRY(cudaSetDevice(r->method->gpu));
    TRY(rmsnorm_forward(&n, r->method->compute));
    TRY(linear(r, LINEAR_QKV, r->normed[0], r->qkv));
    return split_rotary_run(&rotary, r->method->compute);
}

static cudaError_t after_attention(const struct layer_shape *s, struct layer_rank *r)
{
    cudaStream_t stream = r->method->compute;
    struct rmsnorm n = norm_of(s, r, 1);
    TRY(cudaSetDevice(r->method->gpu));
    TRY(linear(r, LINEAR_OUT, r->method->t.o, r->y));
    TRY(rmsnorm_forward(&n, stream));
    TRY(linear(r, LINEAR_GATE_UP, r->normed[1], r->gate_up));
    TRY(swiglu_forward(r->gate_up, r->act, shard_of(s), s->ffn, stream));
    TRY(linear(r, LINEAR_DOWN, r->act, r->y));
    return residual_add(r->middle, r->y, r->out, (size_t)shard_of(s) * (size_t)s->hidden, stream);
}

cudaError_t layer_forward(struct layer_run *l)
{
    for (int i = 0; i < l->method.present; i++)
        TRY(before_attention(&l->shape, &l->at[i]));
    TRY(method_forward(&l->method));
    for (int i = 0; i < l->method.present; i++)
        TRY(after_attention(&l->shape, &l->at[i]));
    return cudaSuccess;
}

// ---- backward ----------------------------------------------------------------------------------------------------------

// Both gradients of a linear layer with input x.
static cudaError_t linear_backward(const struct layer_rank *r, enum layer_linear which, const void *dy, const void *x,
                                   void *dx)
{
    cudaStream_t stream = r->method->compute;
    TRY(gemm_run(&r->gpu->gemm[which][GEMM_INPUT_GRADIENT], dy, r->gpu->weight[which], dx, stream));
    return gemm_run(&r->gpu->gemm[which][GEMM_WEIGHT_GRADIENT], dy, x, r->d_weight[which], stream);
}

static cudaError_t norm_backward(const struct layer_shape *s, const struct layer_rank *r, int which)
{
    struct rmsnorm_gradient n = {};
    n.tokens = shard_of(s);
    n.hidden = s->hidden;
    n.x = which ? r->middle : r->x;
    n.weight = r->gpu->norm_weight[which];
    n.dy = r->d_normed;
    n.residual = which ? r->d_out : r->d_middle;
    n.rstd = r->rstd[which];
    n.dx = which ? r->d_middle : r->dx;
    n.partials = r->partials;
    n.d_weight = r->d_norm[which];
    return rmsnorm_backward(&n, r->method->compute);
}

static cudaError_t before_attention_backward(const struct layer_shape *s, struct layer_rank *r)
{
    TRY(cudaSetDevice(r->method->gpu));
    TRY(linear_backward(r, LINEAR_DOWN, r->d_out, r->act, r->d_act));
    TRY(swiglu_backward(r->gate_up, r->d_act, r->d_gate_up, shard_of(s), s->ffn, r->method->compute));
    TRY(linear_backward(r, LINEAR_GATE_UP, r->d_gate_up, r->normed[1], r->d_normed));
    TRY(norm_backward(s, r, 1));
    return linear_backward(r, LINEAR_OUT, r->d_middle, r->method->t.o, r->method->t.d_o);
}

static cudaError_t after_attention_backward(const struct layer_shape *s, struct layer_rank *r)
{
    struct split_rotary rotary = rotary_of(s, r, true);
    TRY(cudaSetDevice(r->method->gpu));
    TRY(split_rotary_run(&rotary, r->method->compute));
    TRY(linear_backward(r, LINEAR_QKV, r->qkv, r->normed[0], r->d_normed));
    return norm_backward(s, r, 0);
}

cudaError_t layer_backward(struct layer_run *l)
{
    for (int i = 0; i < l->method.present; i++)
        TRY(before_attention_backward(&l->shape, &l->at[i]));
    TRY(method_backward(&l->method));
    for (int i = 0; i < l->method.present; i++)
        TRY(after_attention_backward(&l->shape, &l->at[i]));
    return cudaSuccess;
}
