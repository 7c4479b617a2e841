// A transformer layer, over one rank and over virtual ones, beside the same layer in float64 on the CPU.
#include "device_program.h"
#include "layer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Of the layer's results: every tensor on the way, a dozen, is rounded to bf16 (2^-9).
#define LAYER_LIMIT 1.5e-2
#define MAX_BUFFERS 1024
#define MAX_RANKS 4
#define EPSILON 1e-5 // as in layer.cu, and the base of the positions
#define ROTARY_BASE 500000.0

static const int tokens = 168, hidden = 256, heads = 4, kv_heads = 2, dim = 64, ffn = 328;

// ---- float64 -------------------------------------------------------------------------------------------------------------

// Matrices are row-major; weights are [out][in].
struct layer_values {
    double *x, *d_out, *weight[LINEARS], *norm_weight[2];
    double *normed[2], *qkv, *q, *k, *v, *o, *lse, *middle, *gate_up, *act, *out;
    double *d_act, *d_gate_up, *d_normed, *d_middle, *d_o, *dq, *dk, *dv, *d_qkv, *dx, *d_weight[LINEARS], *d_norm[2];
};

static double *numbers(int rows, int columns)
{
    double *p = (double *)calloc((size_t)rows * (size_t)columns, sizeof *p);
    if (!p)
        abort();
    return p;
}

static int width_in(int which)
{
    return which == LINEAR_OUT ? heads * dim : which == LINEAR_DOWN ? ffn : hidden;
}

static int width_out(int which)
{
    return which == LINEAR_QKV ? (heads + 2 * kv_heads) * dim : which == LINEAR_GATE_UP ? 2 * ffn : hidden;
}

// y += x w^T
static void times_weight(const struct layer_values *l, int which, const double *x, double *y)
{
    int in = width_in(which), out = width_out(which);
    for (int t = 0; t < tokens; t++)
        for (int o = 0; o < out; o++)
            for (int i = 0; i < in; i++)
                y[t * out + o] += x[t * in + i] * l->weight[which][o * in + i];
}

// dx += dy w, dw += dy^T x
static void times_weight_back(const struct layer_values *l, int which, const double *dy, const double *x, double *dx)
{
    int in = width_in(which), out = width_out(which);
    for (int t = 0; t < tokens; t++)
        for (int o = 0; o < out; o++)
            for (int i = 0; i < in; i++) {
                dx[t * in + i] += dy[t * out + o] * l->weight[which][o * in + i];
                l->d_weight[which][o * in + i] += dy[t * out + o] * x[t * in + i];
            }
}

static double rstd_of(const double *x)
{
    double squares = 0;
    for (int i = 0; i < hidden; i++)
        squares += x[i] * x[i];
    return 1 / sqrt(squares / hidden + EPSILON);
}

static void norm(const double *x, const double *w, double *y)
{
    for (int t = 0; t < tokens; t++) {
        double rstd = rstd_of(x + t * hidden);
        for (int i = 0; i < hidden; i++)
            y[t * hidden + i] = x[t * hidden + i] * rstd * w[i];
    }
}

// dx = passing + what comes through the norm.
static void norm_back(struct layer_values *l, int which, const double *x, const double *passing, double *dx)
{
    const double *w = l->norm_weight[which], *dy = l->d_normed;
    for (int t = 0; t < tokens; t++) {
        const double *row = x + t * hidden, *d = dy + t * hidden;
        double rstd = rstd_of(row), dot = 0;
        for (int i = 0; i < hidden; i++)
            dot += d[i] * w[i] * row[i] * rstd;
        for (int i = 0; i < hidden; i++) {
            dx[t * hidden + i] = passing[t * hidden + i] + rstd * (d[i] * w[i] - row[i] * rstd * dot / hidden);
            l->d_norm[which][i] += d[i] * row[i] * rstd;
        }
    }
}

// Queries, keys and values out of qkv or, back, into it; `sign` turns the positions.
static void split(double *qkv, double *q, double *k, double *v, int sign)
{
    int all = heads + 2 * kv_heads;
    for (int t = 0; t < tokens; t++)
        for (int h = 0; h < all; h++)
            for (int c = 0; c < dim / 2; c++) {
                double *joined = qkv + (t * all + h) * dim + c;
                double *apart = h < heads              ? q + (t * heads + h) * dim + c
                                : h < heads + kv_heads ? k + (t * kv_heads + h - heads) * dim + c
                                                       : v + (t * kv_heads + h - heads - kv_heads) * dim + c;
                double angle = h < heads + kv_heads ? sign * t * pow(ROTARY_BASE, -2.0 * c / dim) : 0;
                double *from = sign > 0 ? joined : apart, *to = sign > 0 ? apart : joined;
                double a = from[0], b = from[dim / 2];
                to[0] = a * cos(angle) - b * sin(angle);
                to[dim / 2] = b * cos(angle) + a * sin(angle);
            }
}

static void reference_layer(struct layer_values *l)
{
    int64_t *position = (int64_t *)malloc(tokens * sizeof *position);
    for (int t = 0; t < tokens; t++)
        position[t] = t;
    struct reference r = {tokens, tokens, heads, kv_heads, dim, true, position, position, 1 / sqrt((double)dim),
                          l->q,   l->k,   l->v};
    norm(l->x, l->norm_weight[0], l->normed[0]);
    times_weight(l, LINEAR_QKV, l->normed[0], l->qkv);
    split(l->qkv, l->q, l->k, l->v, 1);
    reference_forward(&r, l->o, l->lse);
    memcpy(l->middle, l->x, sizeof(double) * (size_t)(tokens * hidden));
    times_weight(l, LINEAR_OUT, l->o, l->middle);
    norm(l->middle, l->norm_weight[1], l->normed[1]);
    times_weight(l, LINEAR_GATE_UP, l->normed[1], l->gate_up);
    for (int i = 0; i < tokens * ffn; i++) {
        double gate = l->gate_up[i / ffn * 2 * ffn + i % ffn], up = l->gate_up[i / ffn * 2 * ffn + ffn + i % ffn];
        l->act[i] = gate / (1 + exp(-gate)) * up;
    }
    memcpy(l->out, l->middle, sizeof(double) * (size_t)(tokens * hidden));
    times_weight(l, LINEAR_DOWN, l->act, l->out);

    times_weight_back(l, LINEAR_DOWN, l->d_out, l->act, l->d_act);
    for (int i = 0; i < tokens * ffn; i++) {
        size_t at = (size_t)(i / ffn * 2 * ffn + i % ffn);
        double gate = l->gate_up[at], up = l->gate_up[at + (size_t)ffn], s = 1 / (1 + exp(-gate));
        l->d_gate_up[at] = l->d_act[i] * up * s * (1 + gate * (1 - s));
        l->d_gate_up[at + (size_t)ffn] = l->d_act[i] * gate * s;
    }
    times_weight_back(l, LINEAR_GATE_UP, l->d_gate_up, l->normed[1], l->d_normed);
    norm_back(l, 1, l->middle, l->d_out, l->d_middle);
    times_weight_back(l, LINEAR_OUT, l->d_middle, l->o, l->d_o);
    reference_backward(&r, l->o, l->lse, l->d_o, l->dq, l->dk, l->dv);
    split(l->d_qkv, l->dq, l->dk, l->dv, -1);
    memset(l->d_normed, 0, sizeof(double) * (size_t)(tokens * hidden));
    times_weight_back(l, LINEAR_QKV, l->d_qkv, l->normed[0], l->d_normed);
    norm_back(l, 0, l->x, l->d_middle, l->dx);
    free(position);
}

// ---- the layer on the GPU --------------------------------------------------------------------------------------------------

struct layer_test {
    struct layer_shape shape;
    uint64_t random;
    char why[256];
    void *device[MAX_BUFFERS];
    int n_device;
    double *host[64];
    int n_host;
    struct layer_values l;
    struct method_rank rank[MAX_RANKS];
    struct layer_rank layer_rank[MAX_RANKS];
    struct layer_gpu gpu;
    struct layer_run run;
    cudaStream_t stream[2];
};

static bool fail(struct layer_test *t, const char *what, cudaError_t error)
{
    snprintf(t->why, sizeof t->why, "%s: %s", what, cudaGetErrorString(error));
    return false;
}

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        cudaError_t error_ = (call);                                                                                   \
        if (error_ != cudaSuccess)                                                                                     \
            return fail(t, #call, error_);                                                                             \
    } while (0)

static void *poisoned(void *context, int, size_t bytes)
{
    struct layer_test *t = (struct layer_test *)context;
    void *p = NULL;
    if (t->n_device == MAX_BUFFERS || cudaMalloc(&p, bytes) != cudaSuccess || cudaMemset(p, 0xff, bytes) != cudaSuccess)
        return NULL;
    return t->device[t->n_device++] = p;
}

static double *kept(struct layer_test *t, int rows, int columns)
{
    return t->host[t->n_host++] = numbers(rows, columns);
}

static void make_values(struct layer_test *t)
{
    struct layer_values *l = &t->l;
    double **wide[] = {&l->x,   &l->d_out,    &l->normed[0], &l->normed[1], &l->middle,
                       &l->out, &l->d_normed, &l->d_middle,  &l->dx};
    double **kv[] = {&l->k, &l->v, &l->dk, &l->dv}, **q[] = {&l->q, &l->o, &l->d_o, &l->dq};
    for (int i = 0; i < 9; i++)
        *wide[i] = kept(t, tokens, hidden);
    for (int i = 0; i < 4; i++) {
        *kv[i] = kept(t, tokens, kv_heads * dim);
        *q[i] = kept(t, tokens, heads * dim);
        l->weight[i] = kept(t, width_in(i), width_out(i));
        l->d_weight[i] = kept(t, width_in(i), width_out(i));
    }
    for (int i = 0; i < 2; i++) {
        l->norm_weight[i] = kept(t, 1, hidden);
        l->d_norm[i] = kept(t, 1, hidden);
    }
    l->qkv = kept(t, tokens, width_out(LINEAR_QKV));
    l->d_qkv = kept(t, tokens, width_out(LINEAR_QKV));
    l->gate_up = kept(t, tokens, 2 * ffn);
    l->d_gate_up = kept(t, tokens, 2 * ffn);
    l->act = kept(t, tokens, ffn);
    l->d_act = kept(t, tokens, ffn);
    l->lse = kept(t, tokens, heads);
}

// Random values, rounded, on the host in float64 and, whole, on the device.
static bool random_tensor(struct layer_test *t, int n, double scale, double *values, void **device)
{
    uint16_t *raw = (uint16_t *)malloc((size_t)n * 2);
    random_bf16(&t->random, scale, (size_t)n, raw, values);
    cudaError_t error = cudaErrorMemoryAllocation;
    if (!device)
        error = cudaSuccess;
    else if ((*device = poisoned(t, 0, (size_t)n * 2)) != NULL)
        error = cudaMemcpy(*device, raw, (size_t)n * 2, cudaMemcpyHostToDevice);
    free(raw);
    return error == cudaSuccess || fail(t, "copy to the device", error);
}

static bool deal_out(struct layer_test *t, const double *whole, int rank, void *device)
{
    int shard = tokens / t->shape.attention.ranks;
    uint16_t *raw = (uint16_t *)malloc((size_t)(shard * hidden) * 2);
    for (int i = 0; i < shard * hidden; i++)
        raw[i] = bf16_of(whole[method_position(&t->shape.attention, rank, i / hidden) * hidden + i % hidden]);
    cudaError_t error = cudaMemcpy(device, raw, (size_t)(shard * hidden) * 2, cudaMemcpyHostToDevice);
    free(raw);
    return error == cudaSuccess || fail(t, "copy to the device", error);
}

static bool make_layer(struct layer_test *t)
{
    struct method_shape *s = &t->shape.attention;
    for (int i = 0; i < LINEARS; i++)
        if (!random_tensor(t, width_in(i) * width_out(i), 1 / sqrt((double)width_in(i)), t->l.weight[i],
                           &t->gpu.weight[i]))
            return false;
    for (int i = 0; i < 2; i++)
        if (!random_tensor(t, hidden, 1, t->l.norm_weight[i], &t->gpu.norm_weight[i]))
            return false;
    if (!random_tensor(t, tokens * hidden, 1, t->l.x, NULL) || !random_tensor(t, tokens * hidden, 1, t->l.d_out, NULL))
        return false;
    const char *why = layer_gpu_open(&t->gpu, &t->shape, 0, poisoned, t);
    if (*why) {
        snprintf(t->why, sizeof t->why, "%s", why);
        return false;
    }
    for (int i = 0; i < s->ranks; i++) {
        t->rank[i].rank = i;
        t->rank[i].compute = t->stream[0];
        t->rank[i].copy = t->stream[1];
        t->layer_rank[i].method = &t->rank[i];
        t->layer_rank[i].gpu = &t->gpu;
        if (!method_rank_create(&t->rank[i], s, poisoned, t) ||
            !layer_rank_create(&t->layer_rank[i], &t->shape, poisoned, t))
            return fail(t, "memory", cudaErrorMemoryAllocation);
        if (!deal_out(t, t->l.x, i, t->layer_rank[i].x) || !deal_out(t, t->l.d_out, i, t->layer_rank[i].d_out))
            return false;
    }
    t->run.shape = t->shape;
    t->run.method.shape = *s;
    t->run.method.present = s->ranks;
    t->run.method.at = t->rank;
    t->run.at = t->layer_rank;
    return true;
}

// Error of a tensor [tokens][hidden] that is dealt out.
static bool shard_error(struct layer_test *t, void *layer_rank::*field, const double *expected, double *error)
{
    int shard = tokens / t->shape.attention.ranks;
    size_t n = (size_t)(shard * hidden);
    double *got = numbers(tokens, hidden);
    uint16_t *raw = (uint16_t *)malloc(n * 2);
    cudaError_t status = cudaSuccess;
    for (int r = 0; r < t->shape.attention.ranks && status == cudaSuccess; r++) {
        status = cudaMemcpy(raw, t->layer_rank[r].*field, n * 2, cudaMemcpyDeviceToHost);
        for (int i = 0; i < shard * hidden; i++)
            got[method_position(&t->shape.attention, r, i / hidden) * hidden + i % hidden] = bf16_value(raw[i]);
    }
    *error = error_of(got, expected, (size_t)(tokens * hidden));
    free(got);
    free(raw);
    return status == cudaSuccess || fail(t, "copy from the device", status);
}

// Of a weight's gradient: the sum over the ranks.
static bool weight_error(struct layer_test *t, int which, double *error)
{
    size_t n = (size_t)(width_in(which) * width_out(which));
    double *got = numbers(width_in(which), width_out(which));
    uint16_t *raw = (uint16_t *)malloc(n * 2);
    cudaError_t status = cudaSuccess;
    for (int r = 0; r < t->shape.attention.ranks && status == cudaSuccess; r++) {
        status = cudaMemcpy(raw, t->layer_rank[r].d_weight[which], n * 2, cudaMemcpyDeviceToHost);
        for (size_t i = 0; i < n; i++)
            got[i] += bf16_value(raw[i]);
    }
    *error = error_of(got, t->l.d_weight[which], n);
    free(got);
    free(raw);
    return status == cudaSuccess || fail(t, "copy from the device", status);
}

static bool norm_error(struct layer_test *t, int which, double *error)
{
    double got[hidden] = {};
    float raw[hidden];
    for (int r = 0; r < t->shape.attention.ranks; r++) {
        TRY(cudaMemcpy(raw, t->layer_rank[r].d_norm[which], sizeof raw, cudaMemcpyDeviceToHost));
        for (int i = 0; i < hidden; i++)
            got[i] += (double)raw[i];
    }
    *error = error_of(got, t->l.d_norm[which], (size_t)hidden);
    return true;
}

static bool check(struct layer_test *t)
{
    double e[4 + LINEARS];
    bool fine = true;
    make_values(t);
    TRY(cudaStreamCreateWithFlags(&t->stream[0], cudaStreamNonBlocking));
    TRY(cudaStreamCreateWithFlags(&t->stream[1], cudaStreamNonBlocking));
    if (!make_layer(t))
        return false;
    TRY(cudaDeviceSynchronize());
    TRY(layer_forward(&t->run));
    TRY(layer_backward(&t->run));
    reference_layer(&t->l);
    TRY(cudaDeviceSynchronize());
    fine = shard_error(t, &layer_rank::out, t->l.out, &e[0]) && shard_error(t, &layer_rank::dx, t->l.dx, &e[1]) &&
           norm_error(t, 0, &e[2]) && norm_error(t, 1, &e[3]);
    for (int i = 0; fine && i < LINEARS; i++)
        fine = weight_error(t, i, &e[4 + i]);
    if (!fine)
        return false;
    for (int i = 0; i < 4 + LINEARS; i++)
        fine &= e[i] <= LAYER_LIMIT;
    snprintf(t->why, sizeof t->why,
             "errors: out %.1e dx %.1e; gradients of the norms %.1e %.1e, of qkv %.1e, out %.1e, gate and up %.1e, "
             "down %.1e",
             e[0], e[1], e[2], e[3], e[4], e[5], e[6], e[7]);
    return fine;
}

static bool run_test(struct suite *s, enum method_kind kind, int ranks)
{
    char name[160];
    snprintf(name, sizeof name, "transformer layer, %d rank%s, %s: equals float64", ranks, ranks > 1 ? "s" : "",
             ranks > 1 ? method_name(kind) : "no split");
    if (!suite_wants(s, name))
        return true;
    struct layer_test *t = (struct layer_test *)calloc(1, sizeof *t);
    if (!t)
        abort();
    struct method_shape attention = {kind, ranks, tokens, heads, kv_heads, dim, true, ranks > 1, ATTENTION_BEST};
    t->shape.attention = attention;
    t->shape.hidden = hidden;
    t->shape.ffn = ffn;
    t->random = s->seed * 1000003 + (uint64_t)s->count;
    suite_result(s, name, check(t), t->why);
    layer_gpu_close(&t->gpu);
    for (int i = 0; i < ranks; i++)
        method_rank_destroy(&t->rank[i]);
    for (int i = 0; i < t->n_device; i++)
        cudaFree(t->device[i]);
    for (int i = 0; i < t->n_host; i++)
        free(t->host[i]);
    for (int i = 0; i < 2; i++)
        if (t->stream[i])
            cudaStreamDestroy(t->stream[i]);
    free(t);
    return cudaDeviceSynchronize() == cudaSuccess;
}

bool test_layers(struct suite *s)
{
    bool usable = run_test(s, METHOD_RING, 1);
    for (int kind = 0; usable && kind < METHOD_KINDS; kind++)
        usable = run_test(s, (enum method_kind)kind, MAX_RANKS);
    return usable;
}
