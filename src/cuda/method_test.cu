// Every method beside attention on one GPU: ranks that are all virtual, then the GPUs there are. Inputs are new each run,
// buffers are poisoned with NaN and lie between guards, the whole sequence is put together from the shards by the
// positions of their tokens.
#include "device_program.h"
#include "methods.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FORWARD_LIMIT 4e-3
#define BACKWARD_LIMIT 8e-3
// A sum that travels in bf16 is rounded once a hop.
#define TRAVEL_LIMIT(ranks) (BACKWARD_LIMIT + 1.5e-3 * sqrt((double)(ranks)))
#define GUARD_BYTES 4096
#define POISON 0xff
#define MAX_BUFFERS (40 * METHOD_MAX_RANKS)
#define MAX_SECONDS 60 // of one test

struct method_test {
    struct method_shape shape;
    bool on_gpus; // one rank a GPU; otherwise all on GPU 0
    uint64_t random;
    char why[256];
    struct {
        uint8_t *p;
        size_t bytes;
        int gpu;
    } buffer[MAX_BUFFERS];
    int buffers;
    struct method_rank rank[METHOD_MAX_RANKS];
    struct method_run run;
};

static bool fail(struct method_test *t, const char *what, cudaError_t error)
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

// ---- memory ------------------------------------------------------------------------------------------------------------

static void *guarded(void *context, int gpu, size_t bytes)
{
    struct method_test *t = (struct method_test *)context;
    uint8_t *p = NULL;
    if (t->buffers == MAX_BUFFERS || cudaSetDevice(gpu) != cudaSuccess ||
        cudaMalloc((void **)&p, bytes + 2 * GUARD_BYTES) != cudaSuccess ||
        cudaMemset(p, POISON, bytes + 2 * GUARD_BYTES) != cudaSuccess)
        return NULL;
    t->buffer[t->buffers].p = p;
    t->buffer[t->buffers].bytes = bytes;
    t->buffer[t->buffers++].gpu = gpu;
    return p + GUARD_BYTES;
}

static bool guards_untouched(struct method_test *t)
{
    uint8_t guard[2 * GUARD_BYTES];
    for (int i = 0; i < t->buffers; i++) {
        TRY(cudaMemcpy(guard, t->buffer[i].p, GUARD_BYTES, cudaMemcpyDeviceToHost));
        TRY(cudaMemcpy(guard + GUARD_BYTES, t->buffer[i].p + GUARD_BYTES + t->buffer[i].bytes, GUARD_BYTES,
                       cudaMemcpyDeviceToHost));
        for (size_t j = 0; j < sizeof guard; j++)
            if (guard[j] != POISON) {
                snprintf(t->why, sizeof t->why, "buffer %d of %zu bytes: written outside", i, t->buffer[i].bytes);
                return false;
            }
    }
    return true;
}

// Virtual ranks share the two streams of their GPU.
static bool make_ranks(struct method_test *t)
{
    const struct method_shape *s = &t->shape;
    for (int i = 0; i < s->ranks; i++) {
        struct method_rank *r = &t->rank[i];
        r->rank = i;
        r->gpu = t->on_gpus ? i : 0;
        if (i > 0 && !t->on_gpus) {
            r->compute = t->rank[0].compute;
            r->copy = t->rank[0].copy;
        } else {
            TRY(cudaSetDevice(r->gpu));
            TRY(cudaStreamCreateWithFlags(&r->compute, cudaStreamNonBlocking));
            TRY(cudaStreamCreateWithFlags(&r->copy, cudaStreamNonBlocking));
        }
        if (!method_rank_create(r, s, guarded, t))
            return fail(t, "memory of the ranks", cudaErrorMemoryAllocation);
    }
    t->run.shape = *s;
    t->run.present = s->ranks;
    t->run.at = t->rank;
    return true;
}

static void release(struct method_test *t)
{
    for (int i = 0; i < t->shape.ranks; i++) {
        struct method_rank *r = &t->rank[i];
        method_rank_destroy(r);
        if (r->compute && (i == 0 || t->on_gpus)) {
            cudaStreamDestroy(r->compute);
            cudaStreamDestroy(r->copy);
        }
    }
    for (int i = 0; i < t->buffers; i++) {
        cudaSetDevice(t->buffer[i].gpu);
        cudaFree(t->buffer[i].p);
    }
    cudaSetDevice(0);
}

static bool settle(struct method_test *t)
{
    for (int i = 0; i < t->shape.ranks; i++) {
        TRY(cudaSetDevice(t->rank[i].gpu));
        TRY(cudaDeviceSynchronize());
    }
    TRY(cudaSetDevice(0));
    return true;
}

// ---- the whole sequence --------------------------------------------------------------------------------------------------

// bf16 on the host, in order of the sequence.
struct whole {
    uint16_t *q, *k, *v, *d_o, *o, *dq, *dk, *dv, *got;
    double *a, *b;
};

static size_t q_row(const struct method_shape *s)
{
    return (size_t)s->q_heads * (size_t)s->head_dim;
}

static size_t kv_row(const struct method_shape *s)
{
    return (size_t)s->kv_heads * (size_t)s->head_dim;
}

static bool make_whole(struct method_test *t, struct whole *w)
{
    size_t nq = (size_t)t->shape.tokens * q_row(&t->shape), nk = (size_t)t->shape.tokens * kv_row(&t->shape);
    uint16_t **q_like[] = {&w->q, &w->d_o, &w->o, &w->dq, &w->got}, **k_like[] = {&w->k, &w->v, &w->dk, &w->dv};
    bool fine = true;
    for (int i = 0; i < 5; i++)
        fine &= (*q_like[i] = (uint16_t *)malloc(nq * 2)) != NULL;
    for (int i = 0; i < 4; i++)
        fine &= (*k_like[i] = (uint16_t *)malloc(nk * 2)) != NULL;
    w->a = (double *)malloc(nq * sizeof(double));
    w->b = (double *)malloc(nq * sizeof(double));
    if (!fine || !w->a || !w->b)
        return fail(t, "host memory", cudaErrorMemoryAllocation);
    random_bf16(&t->random, 1, nq, w->q, NULL);
    random_bf16(&t->random, 1, nq, w->d_o, NULL);
    random_bf16(&t->random, 1, nk, w->k, NULL);
    random_bf16(&t->random, 1, nk, w->v, NULL);
    return true;
}

static void free_whole(struct whole *w)
{
    uint16_t *all[] = {w->q, w->k, w->v, w->d_o, w->o, w->dq, w->dk, w->dv, w->got};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
    free(w->a);
    free(w->b);
}

static bool upload(struct method_test *t, const void *from, size_t bytes, void **to)
{
    *to = guarded(t, 0, bytes);
    TRY(*to ? cudaSuccess : cudaErrorMemoryAllocation);
    TRY(cudaMemcpy(*to, from, bytes, cudaMemcpyHostToDevice));
    return true;
}

// Attention on GPU 0, in one block.
static bool whole_attention(struct method_test *t, struct whole *w)
{
    const struct method_shape *s = &t->shape;
    struct attention_block b = {};
    size_t nq = (size_t)s->tokens * q_row(s) * 2, nk = (size_t)s->tokens * kv_row(s) * 2;
    void *q, *k, *v, *d_o, *o, *dq, *dk, *dv, *lse, *rows, *dq_sum;
    b.q_tokens = b.k_tokens = s->tokens;
    b.q_heads = s->q_heads;
    b.kv_heads = s->kv_heads;
    b.head_dim = s->head_dim;
    b.causal = s->causal;
    b.scale = (float)(1 / sqrt((double)s->head_dim));
    if (!upload(t, w->q, nq, &q) || !upload(t, w->k, nk, &k) || !upload(t, w->v, nk, &v) ||
        !upload(t, w->d_o, nq, &d_o))
        return false;
    void **outputs[] = {&o, &dq, &dk, &dv, &lse, &rows, &dq_sum};
    size_t bytes[] = {
        nq, nq, nk, nk, (size_t)s->tokens * (size_t)s->q_heads * 4, attention_rows_bytes(&b), attention_dq_bytes(&b)};
    for (int i = 0; i < 7; i++)
        TRY((*outputs[i] = guarded(t, 0, bytes[i])) ? cudaSuccess : cudaErrorMemoryAllocation);
    struct attention_output out = {o, NULL, (float *)lse, s->tokens};
    struct attention_gradients g = {(float *)dq_sum, dk, dv, NULL, NULL};
    TRY(cudaMemset(dq_sum, 0, bytes[6]));
    TRY(attention_forward(&b, q, k, v, &out, 0));
    TRY(attention_rows(&b, o, d_o, out.lse, s->tokens, rows, 0));
    TRY(attention_backward(&b, q, k, v, d_o, rows, &g, 0));
    TRY(attention_dq_finish(&b, g.dq_sum, dq, 0));
    TRY(cudaMemcpy(w->o, o, nq, cudaMemcpyDeviceToHost));
    TRY(cudaMemcpy(w->dq, dq, nq, cudaMemcpyDeviceToHost));
    TRY(cudaMemcpy(w->dk, dk, nk, cudaMemcpyDeviceToHost));
    TRY(cudaMemcpy(w->dv, dv, nk, cudaMemcpyDeviceToHost));
    return true;
}

// Between a rank's shard on its GPU and its tokens' places in the sequence.
static bool move_shard(struct method_test *t, int rank, void *device, uint16_t *whole, size_t row, bool to_device)
{
    const struct method_shape *s = &t->shape;
    int shard = s->tokens / s->ranks;
    size_t bytes = (size_t)shard * row * 2;
    uint16_t *packed = (uint16_t *)malloc(bytes);
    TRY(packed ? cudaSuccess : cudaErrorMemoryAllocation);
    cudaError_t error = cudaSetDevice(t->rank[rank].gpu);
    if (error == cudaSuccess && !to_device)
        error = cudaMemcpy(packed, device, bytes, cudaMemcpyDeviceToHost);
    for (int i = 0; i < shard; i++) {
        uint16_t *at = whole + (size_t)method_position(s, rank, i) * row;
        memcpy(to_device ? packed + (size_t)i * row : at, to_device ? at : packed + (size_t)i * row, row * 2);
    }
    if (error == cudaSuccess && to_device)
        error = cudaMemcpy(device, packed, bytes, cudaMemcpyHostToDevice);
    free(packed);
    return error == cudaSuccess || fail(t, "copy of a shard", error);
}

static void *values_of(const struct method_test *t, void *kv)
{
    return (uint16_t *)kv + (size_t)(t->shape.tokens / t->shape.ranks) * kv_row(&t->shape);
}

static bool deal_out(struct method_test *t, struct whole *w)
{
    size_t q = q_row(&t->shape), kv = kv_row(&t->shape);
    for (int r = 0; r < t->shape.ranks; r++) {
        struct method_tensors *x = &t->rank[r].t;
        if (!move_shard(t, r, x->q, w->q, q, true) || !move_shard(t, r, x->d_o, w->d_o, q, true) ||
            !move_shard(t, r, x->kv, w->k, kv, true) || !move_shard(t, r, values_of(t, x->kv), w->v, kv, true))
            return false;
    }
    return true;
}

enum output { OUT_O, OUT_DQ, OUT_DK, OUT_DV, OUTPUTS };

// Error of one output of all ranks, put together.
static bool error_of_output(struct method_test *t, struct whole *w, enum output which, double *error)
{
    size_t row = which <= OUT_DQ ? q_row(&t->shape) : kv_row(&t->shape), n = (size_t)t->shape.tokens * row;
    const uint16_t *expected[OUTPUTS] = {w->o, w->dq, w->dk, w->dv};
    memset(w->got, POISON, n * 2);
    for (int r = 0; r < t->shape.ranks; r++) {
        struct method_tensors *x = &t->rank[r].t;
        void *from[OUTPUTS] = {x->o, x->dq, x->d_kv, values_of(t, x->d_kv)};
        if (!move_shard(t, r, from[which], w->got, row, false))
            return false;
    }
    for (size_t i = 0; i < n; i++) {
        w->a[i] = bf16_value(w->got[i]);
        w->b[i] = bf16_value(expected[which][i]);
    }
    *error = error_of(w->a, w->b, n);
    return true;
}

static bool compare(struct method_test *t, struct whole *w, bool twice)
{
    double e[OUTPUTS], limit = t->shape.gradient_float ? BACKWARD_LIMIT : TRAVEL_LIMIT(t->shape.ranks);
    bool fine = true;
    for (int i = 0; i < OUTPUTS; i++)
        if (!error_of_output(t, w, (enum output)i, &e[i]))
            return false;
    fine = e[OUT_O] <= FORWARD_LIMIT && e[OUT_DQ] <= BACKWARD_LIMIT && e[OUT_DK] <= limit && e[OUT_DV] <= limit;
    snprintf(t->why, sizeof t->why, "%serrors: o %.1e dQ %.1e dK %.1e dV %.1e, of dK and dV at most %.1e",
             twice ? "second run, " : "", e[OUT_O], e[OUT_DQ], e[OUT_DK], e[OUT_DV], limit);
    return fine;
}

static bool check(struct method_test *t, struct whole *w)
{
    if (!make_ranks(t) || !make_whole(t, w) || !deal_out(t, w) || !whole_attention(t, w) || !settle(t))
        return false;
    if (t->on_gpus && !t->run.nccl) {
        snprintf(t->why, sizeof t->why, "no NCCL communicators");
        return false;
    }
    for (int i = 0; i < 2; i++) { // the second finds every buffer used
        TRY(method_forward(&t->run));
        TRY(method_backward(&t->run));
        if (!settle(t) || !compare(t, w, i > 0))
            return false;
    }
    char remark[sizeof t->why];
    memcpy(remark, t->why, sizeof remark);
    if (!guards_untouched(t))
        return false;
    memcpy(t->why, remark, sizeof remark);
    return true;
}

// ---- the cases -----------------------------------------------------------------------------------------------------------

// With `nccl` one rank a GPU, otherwise all on GPU 0.
static bool run_test(struct suite *s, const struct method_shape *shape, struct nccl_group *const *nccl,
                     const char *name)
{
    if (!suite_wants(s, name))
        return true;
    struct method_test *t = (struct method_test *)calloc(1, sizeof *t);
    struct whole w = {};
    if (!t)
        abort();
    t->shape = *shape;
    t->on_gpus = nccl != NULL;
    t->run.nccl = nccl ? *nccl : NULL;
    t->random = s->seed * 1000003 + (uint64_t)s->count;
    watchdog_start(name, MAX_SECONDS);
    bool fine = check(t, &w);
    suite_result(s, name, fine, t->why);
    free_whole(&w);
    release(t);
    watchdog_stop();
    free(t);
    return cudaDeviceSynchronize() == cudaSuccess;
}

// Ranks, tokens a rank, heads; Ulysses needs heads for every rank, and with fewer kv heads repeats them.
static const struct {
    int ranks, shard, q_heads, kv_heads, ulysses_heads, ulysses_kv_heads;
} sizes[] = {
    {2, 150, 6, 2, 4, 2}, {3, 134, 6, 2, 6, 3},  {4, 126, 6, 2, 8, 2},  {7, 86, 6, 2, 14, 7},
    {8, 66, 6, 2, 8, 4},  {16, 38, 6, 2, 16, 4}, {64, 18, 6, 2, 64, 8},
};
#define SIZES (int)(sizeof sizes / sizeof sizes[0])
#define SMALL_SIZES 4
#define LONG_SIZE 4 // and its shard
#define LONG_SHARD 1030

static struct method_shape shape_of(enum method_kind kind, int size, int head_dim)
{
    bool ulysses = kind == METHOD_ULYSSES;
    struct method_shape x = {};
    x.kind = kind;
    x.ranks = sizes[size].ranks;
    x.tokens = x.ranks * sizes[size].shard;
    x.q_heads = ulysses ? sizes[size].ulysses_heads : sizes[size].q_heads;
    x.kv_heads = ulysses ? sizes[size].ulysses_kv_heads : sizes[size].kv_heads;
    x.head_dim = head_dim;
    x.causal = true;
    x.gradient_float = true;
    return x;
}

static bool virtual_test(struct suite *s, const struct method_shape *x)
{
    char name[160];
    snprintf(name, sizeof name,
             "virtual ring of %d, %s, %d tokens, head dimension %d, %s, gradients in %s: equals one GPU", x->ranks,
             method_name(x->kind), x->tokens, x->head_dim, x->causal ? "causal" : "full",
             x->kind == METHOD_ULYSSES || !x->gradient_float ? "bf16" : "float32");
    return run_test(s, x, NULL, name);
}

static bool test_kind(struct suite *s, enum method_kind kind)
{
    bool usable = true;
    for (int i = 0; usable && i < (s->small ? SMALL_SIZES : SIZES); i++) {
        struct method_shape x = shape_of(kind, i, i % 3 == 2 ? 64 : 128);
        usable = virtual_test(s, &x);
        x.gradient_float = false;
        if (usable && kind != METHOD_ULYSSES)
            usable = virtual_test(s, &x);
    }
    struct method_shape full = shape_of(kind, 3, 128), big = shape_of(kind, LONG_SIZE, 128);
    full.causal = false;
    big.tokens = big.ranks * LONG_SHARD;
    usable = usable && virtual_test(s, &full);
    return usable && (s->small || virtual_test(s, &big));
}

static bool test_gpus(struct suite *s, enum method_kind kind, int gpus, struct nccl_group *nccl)
{
    char name[160];
    struct method_shape x = {};
    x.kind = kind;
    x.ranks = gpus < 2 ? 2 : gpus;
    x.tokens = x.ranks * LONG_SHARD;
    x.q_heads = 4 * x.ranks;
    x.kv_heads = x.ranks;
    x.head_dim = 128;
    x.causal = true;
    for (int i = 0; i < (kind == METHOD_ULYSSES ? 1 : 2); i++) {
        x.gradient_float = i == 0;
        snprintf(name, sizeof name, "%d GPUs, %s, %d tokens, gradients in %s: equals one GPU", x.ranks,
                 method_name(kind), x.tokens, kind == METHOD_ULYSSES || i ? "bf16" : "float32");
        if (gpus >= 2 || !s->gpu) {
            if (!run_test(s, &x, &nccl, name))
                return false;
        } else if (!s->only || strstr(name, s->only)) {
            printf("ok %d - %s # SKIP one GPU\n", ++s->count, name);
        }
    }
    return true;
}

bool test_methods(struct suite *s)
{
    struct nccl_group *nccl = NULL;
    const char *why = "";
    bool usable = true;
    int gpus = 0;
    if (s->gpu)
        cudaGetDeviceCount(&gpus);
    for (int kind = 0; usable && kind < METHOD_KINDS; kind++)
        usable = test_kind(s, (enum method_kind)kind);
    if (gpus > 1) {
        watchdog_start("NCCL communicators", MAX_SECONDS);
        nccl = nccl_group_open(gpus, &why);
        watchdog_stop();
        printf("# %d GPUs, NCCL %s\n", gpus, nccl ? "open" : why);
    }
    for (int kind = 0; usable && kind < METHOD_KINDS; kind++)
        usable = test_gpus(s, (enum method_kind)kind, gpus, nccl);
    nccl_group_close(nccl);
    return usable && test_layers(s);
}
