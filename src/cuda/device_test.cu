// seqplan-device test: the attention kernels against float64 on the CPU. TAP.
//
// Inputs are random and fresh (the seed is printed; --seed repeats a run), rounded to bf16 before either side sees them.
// Outputs are poisoned with NaN first and lie between guards, which must be untouched after. Errors are norm of the
// difference over norm of the reference; bf16 has a unit roundoff of 2^-9 = 0.002, and both the probabilities and the
// result are rounded to it.
#include "device_program.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FORWARD_LIMIT 4e-3
#define BACKWARD_LIMIT 8e-3
#define LSE_LIMIT 2e-4 // absolute: a sum of float32 exponentials
#define GUARD_BYTES 4096
#define POISON 0xff // a NaN in every format

enum split { WHOLE, CONTIGUOUS, ZIGZAG, STRIPED };

struct test_case {
    const char *name;
    int q_tokens, k_tokens, q_heads, kv_heads, head_dim;
    bool causal;
    int64_t q_offset, k_offset;
    enum split split;
    int ranks;
    double logits;       // factor on q, to make scores large
    bool separate_merge; // plain results merged by the merge kernel, in place of accumulating ones
};

struct run {
    const struct test_case *c;
    enum attention_path path;
    uint64_t random;
    char why[256], remark[128];
    void *device[24];
    size_t bytes[24];
    int n_device;
    void *host[24];
    int n_host;
};

static bool fail(struct run *r, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(r->why, sizeof r->why, format, arguments);
    va_end(arguments);
    return false;
}

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        cudaError_t error_ = (call);                                                                                   \
        if (error_ != cudaSuccess)                                                                                     \
            return fail(r, "%s: %s", #call, cudaGetErrorString(error_));                                               \
    } while (0)

// ---- memory of a test ------------------------------------------------------------------------------------------------

static void *host_alloc(struct run *r, size_t bytes)
{
    void *p = calloc(1, bytes ? bytes : 1);
    if (!p || r->n_host == 24)
        abort();
    return r->host[r->n_host++] = p;
}

// Poisoned, between two guards.
static bool device_alloc(struct run *r, void *to, size_t bytes)
{
    uint8_t *p;
    if (r->n_device == 24)
        return fail(r, "too many buffers");
    TRY(cudaMalloc((void **)&p, bytes + 2 * GUARD_BYTES));
    r->device[r->n_device] = p;
    r->bytes[r->n_device++] = bytes;
    TRY(cudaMemset(p, POISON, bytes + 2 * GUARD_BYTES));
    *(void **)to = p + GUARD_BYTES;
    return true;
}

static bool guards_untouched(struct run *r)
{
    static const size_t at_end = GUARD_BYTES;
    uint8_t guard[2 * GUARD_BYTES];
    for (int i = 0; i < r->n_device; i++) {
        const uint8_t *p = (const uint8_t *)r->device[i];
        TRY(cudaMemcpy(guard, p, GUARD_BYTES, cudaMemcpyDeviceToHost));
        TRY(cudaMemcpy(guard + at_end, p + GUARD_BYTES + r->bytes[i], GUARD_BYTES, cudaMemcpyDeviceToHost));
        for (size_t j = 0; j < sizeof guard; j++)
            if (guard[j] != POISON)
                return fail(r, "buffer %d of %zu bytes: written %s it", i, r->bytes[i],
                            j < at_end ? "before" : "after");
    }
    return true;
}

static void release_memory(struct run *r)
{
    for (int i = 0; i < r->n_device; i++)
        cudaFree(r->device[i]);
    for (int i = 0; i < r->n_host; i++)
        free(r->host[i]);
    r->n_device = r->n_host = 0;
}

// ---- comparison ----------------------------------------------------------------------------------------------------------

double error_of(const double *x, const double *reference, size_t n)
{
    double difference = 0, norm = 0;
    for (size_t i = 0; i < n; i++) {
        difference += (x[i] - reference[i]) * (x[i] - reference[i]);
        norm += reference[i] * reference[i];
    }
    return norm > 0 ? sqrt(difference / norm) : sqrt(difference);
}

// Of rows that see something; the others must be -infinity on both sides.
static double lse_error_of(const float *x, const double *reference, size_t n)
{
    double worst = 0;
    for (size_t i = 0; i < n; i++) {
        double error = fabs((double)x[i] - reference[i]) / fmax(1, fabs(reference[i]));
        if (isinf(reference[i]))
            error = isinf(x[i]) && x[i] < 0 ? 0 : INFINITY;
        if (!(error <= worst))
            worst = isnan(error) ? INFINITY : error;
    }
    return worst;
}

static bool fetch_bf16(struct run *r, const void *device, size_t n, double *values)
{
    uint16_t *raw = (uint16_t *)malloc(n * sizeof *raw);
    cudaError_t error =
        raw ? cudaMemcpy(raw, device, n * sizeof *raw, cudaMemcpyDeviceToHost) : cudaErrorMemoryAllocation;
    for (size_t i = 0; error == cudaSuccess && i < n; i++)
        values[i] = bf16_value(raw[i]);
    free(raw);
    return error == cudaSuccess || fail(r, "copy from the device: %s", cudaGetErrorString(error));
}

// ---- one case ------------------------------------------------------------------------------------------------------------

struct tensors {
    void *q, *k, *v, *d_o, *o, *dq, *dk, *dv, *rows, *partial;
    float *lse, *partial_lse, *o_sum, *dq_sum, *dk_sum, *dv_sum;
};

struct values {
    double *q, *k, *v, *d_o, *o, *lse, *got;
    double *dq, *dk, *dv;
    float *got_lse;
    int64_t *q_position, *k_position;
};

static size_t q_elements(const struct test_case *c)
{
    return (size_t)c->q_tokens * (size_t)c->q_heads * (size_t)c->head_dim;
}

static size_t k_elements(const struct test_case *c)
{
    return (size_t)c->k_tokens * (size_t)c->kv_heads * (size_t)c->head_dim;
}

static bool random_tensor(struct run *r, double scale, size_t n, void *device, double **values)
{
    uint16_t *raw = (uint16_t *)malloc(n * sizeof *raw);
    *values = (double *)host_alloc(r, n * sizeof **values);
    if (!raw)
        return fail(r, "out of memory");
    random_bf16(&r->random, scale, n, raw, *values);
    bool fine = device_alloc(r, device, n * sizeof *raw);
    cudaError_t error = fine ? cudaMemcpy(*(void **)device, raw, n * sizeof *raw, cudaMemcpyHostToDevice) : cudaSuccess;
    free(raw);
    return fine && (error == cudaSuccess || fail(r, "copy to the device: %s", cudaGetErrorString(error)));
}

// A piece is a run of tokens as they lie in memory.
static int pieces_of(const struct test_case *c)
{
    return c->split == ZIGZAG ? 2 * c->ranks : c->ranks;
}

static int piece_start(const struct test_case *c, int piece)
{
    return (int)((int64_t)c->q_tokens * piece / pieces_of(c));
}

// Positions of the tokens in the sequence. Striped shards hold every ranks-th token; the lengths of striped cases divide.
static void positions(const struct test_case *c, struct values *x)
{
    for (int i = 0; i < c->q_tokens; i++)
        x->q_position[i] = c->q_offset + i;
    for (int j = 0; j < c->k_tokens; j++)
        x->k_position[j] = c->k_offset + j;
    for (int i = 0; c->split == STRIPED && i < c->q_tokens; i++) {
        int shard = c->q_tokens / c->ranks;
        x->q_position[i] = x->k_position[i] = (int64_t)(i % shard) * c->ranks + i / shard;
    }
}

static bool prepare(struct run *r, struct tensors *t, struct values *x)
{
    const struct test_case *c = r->c;
    size_t nq = q_elements(c), nk = k_elements(c), rows = (size_t)c->q_tokens * (size_t)c->q_heads;
    size_t dq_bytes = 0, rows_bytes = 0;
    for (int p = 0; p < pieces_of(c); p++) { // each piece has scratch of its own, padded
        struct attention_block b = {};
        b.q_tokens = piece_start(c, p + 1) - piece_start(c, p);
        b.q_heads = c->q_heads;
        b.head_dim = c->head_dim;
        dq_bytes += attention_dq_bytes(&b);
        rows_bytes += attention_rows_bytes(&b);
    }
    if (!random_tensor(r, c->logits, nq, &t->q, &x->q) || !random_tensor(r, 1, nk, &t->k, &x->k) ||
        !random_tensor(r, 1, nk, &t->v, &x->v) || !random_tensor(r, 1, nq, &t->d_o, &x->d_o) ||
        !device_alloc(r, &t->o, nq * 2) || !device_alloc(r, &t->dq, nq * 2) || !device_alloc(r, &t->dk, nk * 2) ||
        !device_alloc(r, &t->dv, nk * 2) || !device_alloc(r, &t->lse, rows * 4) ||
        !device_alloc(r, &t->rows, rows_bytes) || !device_alloc(r, &t->dq_sum, dq_bytes))
        return false;
    if (c->split != WHOLE && (!device_alloc(r, &t->o_sum, nq * 4) || !device_alloc(r, &t->dk_sum, nk * 4) ||
                              !device_alloc(r, &t->dv_sum, nk * 4) || !device_alloc(r, &t->partial, nq * 2) ||
                              !device_alloc(r, &t->partial_lse, rows * 4)))
        return false;
    TRY(cudaMemset(t->dq_sum, 0, dq_bytes));
    if (c->split != WHOLE) {
        TRY(cudaMemset(t->dk_sum, 0, nk * 4));
        TRY(cudaMemset(t->dv_sum, 0, nk * 4));
    }
    x->o = (double *)host_alloc(r, nq * sizeof(double));
    x->dq = (double *)host_alloc(r, nq * sizeof(double));
    x->dk = (double *)host_alloc(r, nk * sizeof(double));
    x->dv = (double *)host_alloc(r, nk * sizeof(double));
    x->got = (double *)host_alloc(r, (nq > nk ? nq : nk) * sizeof(double));
    x->lse = (double *)host_alloc(r, rows * sizeof(double));
    x->got_lse = (float *)host_alloc(r, rows * sizeof(float));
    x->q_position = (int64_t *)host_alloc(r, (size_t)c->q_tokens * sizeof(int64_t));
    x->k_position = (int64_t *)host_alloc(r, (size_t)c->k_tokens * sizeof(int64_t));
    positions(c, x);
    return true;
}

static struct attention_block whole_block(const struct run *r)
{
    const struct test_case *c = r->c;
    struct attention_block b = {};
    b.q_tokens = c->q_tokens;
    b.k_tokens = c->k_tokens;
    b.q_heads = c->q_heads;
    b.kv_heads = c->kv_heads;
    b.head_dim = c->head_dim;
    b.causal = c->causal;
    b.q_offset = c->q_offset;
    b.k_offset = c->k_offset;
    b.scale = (float)(1 / sqrt((double)c->head_dim));
    b.path = r->path;
    return b;
}

// Queries of one piece against keys of another.
static struct attention_block piece_block(const struct run *r, int q_piece, int k_piece)
{
    const struct test_case *c = r->c;
    struct attention_block b = whole_block(r);
    b.q_offset = piece_start(c, q_piece);
    b.k_offset = piece_start(c, k_piece);
    b.q_tokens = piece_start(c, q_piece + 1) - (int)b.q_offset;
    b.k_tokens = piece_start(c, k_piece + 1) - (int)b.k_offset;
    if (c->split == STRIPED) {
        b.q_offset = 0;
        b.k_offset = k_piece > q_piece;
    }
    return b;
}

static void *bf16_at(void *p, size_t elements)
{
    return (uint16_t *)p + elements;
}

// The pieces of a rank, and of the rank whose keys it holds in a step of the ring.
static int piece_of(const struct test_case *c, int rank, int half)
{
    return half == 0 ? rank : 2 * c->ranks - 1 - rank;
}

static bool ring_forward(struct run *r, const struct tensors *t)
{
    const struct test_case *c = r->c;
    int halves = c->split == ZIGZAG ? 2 : 1;
    size_t q_row = (size_t)c->q_heads * (size_t)c->head_dim, k_row = (size_t)c->kv_heads * (size_t)c->head_dim;
    struct attention_block all = whole_block(r);
    struct attention_output sums = {NULL, t->o_sum, t->lse, c->q_tokens};

    TRY(attention_clear(&all, &sums, 0));
    for (int rank = 0; rank < c->ranks; rank++)
        for (int step = 0; step < c->ranks; step++)
            for (int pair = 0; pair < halves * halves; pair++) {
                int qp = piece_of(c, rank, pair / halves);
                int kp = piece_of(c, (rank - step + c->ranks) % c->ranks, pair % halves);
                size_t qs = (size_t)piece_start(c, qp), ks = (size_t)piece_start(c, kp);
                struct attention_block b = piece_block(r, qp, kp);
                struct attention_output into = {NULL, t->o_sum + qs * q_row, t->lse + qs, c->q_tokens};
                struct attention_output plain = {bf16_at(t->partial, qs * q_row), NULL, t->partial_lse + qs,
                                                 c->q_tokens};
                TRY(attention_forward(&b, bf16_at(t->q, qs * q_row), bf16_at(t->k, ks * k_row),
                                      bf16_at(t->v, ks * k_row), c->separate_merge ? &plain : &into, 0));
                if (c->separate_merge)
                    TRY(attention_merge(&b, plain.o, plain.lse, &into, 0));
            }
    TRY(attention_round(t->o_sum, t->o, q_elements(c), 0));
    return true;
}

static bool ring_backward(struct run *r, const struct tensors *t)
{
    const struct test_case *c = r->c;
    int halves = c->split == ZIGZAG ? 2 : 1;
    size_t q_row = (size_t)c->q_heads * (size_t)c->head_dim, k_row = (size_t)c->kv_heads * (size_t)c->head_dim;
    uint8_t *rows = (uint8_t *)t->rows, *dq_sum = (uint8_t *)t->dq_sum;

    for (int qp = 0; qp < pieces_of(c); qp++) {
        size_t qs = (size_t)piece_start(c, qp);
        struct attention_block own = piece_block(r, qp, qp);
        int rank = qp < c->ranks ? qp : 2 * c->ranks - 1 - qp;
        TRY(attention_rows(&own, bf16_at(t->o, qs * q_row), bf16_at(t->d_o, qs * q_row), t->lse + qs, c->q_tokens, rows,
                           0));
        for (int step = 0; step < c->ranks; step++)
            for (int half = 0; half < halves; half++) {
                int kp = piece_of(c, (rank - step + c->ranks) % c->ranks, half);
                size_t ks = (size_t)piece_start(c, kp);
                struct attention_block b = piece_block(r, qp, kp);
                struct attention_gradients g = {(float *)dq_sum, NULL, NULL, t->dk_sum + ks * k_row,
                                                t->dv_sum + ks * k_row};
                TRY(attention_backward(&b, bf16_at(t->q, qs * q_row), bf16_at(t->k, ks * k_row),
                                       bf16_at(t->v, ks * k_row), bf16_at(t->d_o, qs * q_row), rows, &g, 0));
            }
        TRY(attention_dq_finish(&own, (const float *)dq_sum, bf16_at(t->dq, qs * q_row), 0));
        rows += attention_rows_bytes(&own);
        dq_sum += attention_dq_bytes(&own);
    }
    TRY(attention_round(t->dk_sum, t->dk, k_elements(c), 0));
    TRY(attention_round(t->dv_sum, t->dv, k_elements(c), 0));
    return true;
}

static bool whole_forward(struct run *r, const struct tensors *t, bool no_maximum)
{
    struct attention_block b = whole_block(r);
    struct attention_output out = {t->o, NULL, t->lse, b.q_tokens};
    b.no_maximum = no_maximum;
    TRY(attention_forward(&b, t->q, t->k, t->v, &out, 0));
    TRY(cudaDeviceSynchronize());
    return true;
}

static bool whole_backward(struct run *r, const struct tensors *t)
{
    struct attention_block b = whole_block(r);
    struct attention_gradients g = {t->dq_sum, t->dk, t->dv, NULL, NULL};
    TRY(attention_rows(&b, t->o, t->d_o, t->lse, b.q_tokens, t->rows, 0));
    TRY(attention_backward(&b, t->q, t->k, t->v, t->d_o, t->rows, &g, 0));
    TRY(attention_dq_finish(&b, t->dq_sum, t->dq, 0));
    return true;
}

static struct reference reference_of(const struct test_case *c, const struct values *x)
{
    struct reference f = {c->q_tokens,   c->k_tokens,   c->q_heads, c->kv_heads, c->head_dim, c->causal,
                          x->q_position, x->k_position, 0,          x->q,        x->k,        x->v};
    f.scale = (double)(float)(1 / sqrt((double)c->head_dim));
    return f;
}

struct errors {
    double o, lse, dq, dk, dv;
};

static bool compare_forward(struct run *r, const struct tensors *t, const struct values *x, struct errors *e)
{
    const struct test_case *c = r->c;
    size_t rows = (size_t)c->q_tokens * (size_t)c->q_heads;
    if (!fetch_bf16(r, t->o, q_elements(c), x->got))
        return false;
    TRY(cudaMemcpy(x->got_lse, t->lse, rows * sizeof(float), cudaMemcpyDeviceToHost));
    e->o = error_of(x->got, x->o, q_elements(c));
    e->lse = lse_error_of(x->got_lse, x->lse, rows);
    return true;
}

static bool compare_backward(struct run *r, const struct tensors *t, const struct values *x, struct errors *e)
{
    const struct test_case *c = r->c;
    if (!fetch_bf16(r, t->dq, q_elements(c), x->got))
        return false;
    e->dq = error_of(x->got, x->dq, q_elements(c));
    if (!fetch_bf16(r, t->dk, k_elements(c), x->got))
        return false;
    e->dk = error_of(x->got, x->dk, k_elements(c));
    if (!fetch_bf16(r, t->dv, k_elements(c), x->got))
        return false;
    e->dv = error_of(x->got, x->dv, k_elements(c));
    return true;
}

static bool check_case(struct run *r, struct errors *e)
{
    struct tensors t = {};
    struct values x = {};
    if (!prepare(r, &t, &x))
        return false;
    struct reference f = reference_of(r->c, &x);
    bool ring = r->c->split != WHOLE;

    reference_forward(&f, x.o, x.lse);
    if (!(ring ? ring_forward(r, &t) : whole_forward(r, &t, false)))
        return false;
    TRY(cudaDeviceSynchronize());
    if (!compare_forward(r, &t, &x, e))
        return false;
    if (!(e->o <= FORWARD_LIMIT) || !(e->lse <= LSE_LIMIT))
        return fail(r, "forward: error %.2e of the output, %.2e of the log-sum-exp", e->o, e->lse);
    reference_backward(&f, x.got, x.lse, x.d_o, x.dq, x.dk, x.dv);
    if (!(ring ? ring_backward(r, &t) : whole_backward(r, &t)))
        return false;
    TRY(cudaDeviceSynchronize());
    if (!compare_backward(r, &t, &x, e))
        return false;
    if (!(e->dq <= BACKWARD_LIMIT) || !(e->dk <= BACKWARD_LIMIT) || !(e->dv <= BACKWARD_LIMIT))
        return fail(r, "backward: error %.2e of dQ, %.2e of dK, %.2e of dV", e->dq, e->dk, e->dv);
    return guards_untouched(r);
}

// Leaving out the running maximum must be seen: the sums overflow.
static bool check_no_maximum(struct run *r, struct errors *e)
{
    struct tensors t = {};
    struct values x = {};
    if (!prepare(r, &t, &x))
        return false;
    struct reference f = reference_of(r->c, &x);

    reference_forward(&f, x.o, x.lse);
    if (!whole_forward(r, &t, false) || !compare_forward(r, &t, &x, e))
        return false;
    if (!(e->o <= FORWARD_LIMIT))
        return fail(r, "with the maximum: error %.2e", e->o);
    struct errors broken = {};
    if (!whole_forward(r, &t, true) || !compare_forward(r, &t, &x, &broken))
        return false;
    snprintf(r->remark, sizeof r->remark, "# without the running maximum: o %.1e lse %.1e\n", broken.o, broken.lse);
    return !(broken.o <= FORWARD_LIMIT) || fail(r, "without the maximum: error %.2e, not seen", broken.o);
}

// Three runs on the same input: what is not summed by atomics must come out the same to the last bit.
static bool check_repeats(struct run *r, struct errors *e)
{
    struct tensors t = {};
    struct values x = {};
    size_t nq = q_elements(r->c), nk = k_elements(r->c);
    if (!prepare(r, &t, &x))
        return false;
    struct attention_block b = whole_block(r);
    double *first[3] = {x.o, x.dk, x.dv};
    for (int repeat = 0; repeat < 3; repeat++) {
        TRY(cudaMemset(t.o, POISON, nq * 2));
        TRY(cudaMemset(t.dk, POISON, nk * 2));
        TRY(cudaMemset(t.dv, POISON, nk * 2));
        TRY(cudaMemset(t.dq_sum, 0, attention_dq_bytes(&b)));
        if (!whole_forward(r, &t, false) || !whole_backward(r, &t))
            return false;
        const void *results[3] = {t.o, t.dk, t.dv};
        for (int i = 0; i < 3; i++) {
            size_t n = i == 0 ? nq : nk;
            if (!fetch_bf16(r, results[i], n, repeat == 0 ? first[i] : x.got))
                return false;
            if (repeat > 0 && memcmp(first[i], x.got, n * sizeof(double)) != 0)
                return fail(r, "run %d: another %s, error %.2e", repeat,
                            i == 0   ? "output"
                            : i == 1 ? "dK"
                                     : "dV",
                            error_of(x.got, first[i], n));
        }
        if (!fetch_bf16(r, t.dq, nq, repeat == 0 ? x.dq : x.got))
            return false;
        e->dq = error_of(repeat == 0 ? x.dq : x.got, x.dq, nq);
        if (!(e->dq <= BACKWARD_LIMIT))
            return fail(r, "run %d: another dQ, error %.2e", repeat, e->dq);
    }
    return guards_untouched(r);
}

// Long enough for every stage of every pipeline to come around many times; one path against the other.
static bool check_paths_agree(struct run *r, struct errors *e)
{
    struct tensors t = {};
    struct values x = {};
    size_t nq = q_elements(r->c), nk = k_elements(r->c);
    if (!prepare(r, &t, &x))
        return false;
    struct attention_block b = whole_block(r);
    double *expected[4] = {x.o, x.dq, x.dk, x.dv}, *errors[4] = {&e->o, &e->dq, &e->dk, &e->dv};
    for (int pass = 0; pass < 2; pass++) {
        r->path = pass == 0 ? ATTENTION_PORTABLE : ATTENTION_HOPPER;
        void *outputs[4] = {t.o, t.dq, t.dk, t.dv};
        for (int i = 0; i < 4; i++)
            TRY(cudaMemset(outputs[i], POISON, (i < 2 ? nq : nk) * 2));
        TRY(cudaMemset(t.dq_sum, 0, attention_dq_bytes(&b)));
        if (!whole_forward(r, &t, false) || !whole_backward(r, &t))
            return false;
        const void *results[4] = {t.o, t.dq, t.dk, t.dv};
        for (int i = 0; i < 4; i++) {
            size_t n = i < 2 ? nq : nk;
            if (!fetch_bf16(r, results[i], n, pass == 0 ? expected[i] : x.got))
                return false;
            if (pass == 1)
                *errors[i] = error_of(x.got, expected[i], n);
        }
    }
    if (!(e->o <= FORWARD_LIMIT) || !(e->dq <= BACKWARD_LIMIT) || !(e->dk <= BACKWARD_LIMIT) ||
        !(e->dv <= BACKWARD_LIMIT))
        return fail(r, "paths differ: o %.2e, dQ %.2e, dK %.2e, dV %.2e", e->o, e->dq, e->dk, e->dv);
    return guards_untouched(r);
}

// ---- the cases -----------------------------------------------------------------------------------------------------------

// name, queries, keys, heads, kv heads, width, causal, offsets, split, ranks, logits, separate merge
static const struct test_case cases[] = {
    {"one token", 1, 1, 3, 1, 128, true, 0, 0, WHOLE, 1, 1, false},
    {"17 tokens, causal", 17, 17, 3, 3, 128, true, 0, 0, WHOLE, 1, 1, false},
    {"333 tokens, causal", 333, 333, 6, 2, 128, true, 0, 0, WHOLE, 1, 1, false},
    {"333 tokens, full", 333, 333, 6, 2, 128, false, 0, 0, WHOLE, 1, 1, false},
    {"512 tokens, causal, as many kv heads", 512, 512, 3, 3, 128, true, 0, 0, WHOLE, 1, 1, false},
    {"515 tokens, full, one kv head", 515, 515, 5, 1, 128, false, 0, 0, WHOLE, 1, 1, false},
    {"1031 tokens, causal", 1031, 1031, 4, 2, 128, true, 0, 0, WHOLE, 1, 1, false},
    {"fewer queries than keys, full", 77, 391, 4, 2, 128, false, 0, 0, WHOLE, 1, 1, false},
    {"more queries than keys, full", 391, 77, 4, 2, 128, false, 0, 0, WHOLE, 1, 1, false},
    {"keys behind the queries", 150, 201, 4, 2, 128, true, 120, 57, WHOLE, 1, 1, false},
    {"keys ahead: rows that see nothing", 301, 222, 4, 2, 128, true, 0, 101, WHOLE, 1, 1, false},
    {"keys ahead of every query", 130, 130, 2, 2, 128, true, 0, 130, WHOLE, 1, 1, false},
    {"striped step, diagonal left out", 200, 200, 4, 2, 128, true, 0, 1, WHOLE, 1, 1, false},
    {"large logits, causal", 389, 389, 4, 2, 128, true, 0, 0, WHOLE, 1, 60, false},
    {"large logits, full", 389, 389, 4, 2, 128, false, 0, 0, WHOLE, 1, 60, false},
    {"333 tokens, causal", 333, 333, 6, 2, 64, true, 0, 0, WHOLE, 1, 1, false},
    {"515 tokens, full", 515, 515, 5, 1, 64, false, 0, 0, WHOLE, 1, 1, false},
    {"keys ahead: rows that see nothing", 301, 222, 4, 2, 64, true, 0, 101, WHOLE, 1, 1, false},
    {"large logits, causal", 389, 389, 4, 2, 64, true, 0, 0, WHOLE, 1, 60, false},
    {"ring of 1, causal", 451, 451, 4, 2, 128, true, 0, 0, CONTIGUOUS, 1, 1, false},
    {"ring of 2, causal", 451, 451, 4, 2, 128, true, 0, 0, CONTIGUOUS, 2, 1, false},
    {"ring of 3, full", 451, 451, 4, 2, 128, false, 0, 0, CONTIGUOUS, 3, 1, false},
    {"ring of 7, causal", 901, 901, 4, 2, 128, true, 0, 0, CONTIGUOUS, 7, 1, false},
    {"ring of 64, causal", 1031, 1031, 2, 1, 128, true, 0, 0, CONTIGUOUS, 64, 1, false},
    {"ring of 64, full", 1031, 1031, 2, 1, 128, false, 0, 0, CONTIGUOUS, 64, 1, false},
    {"ring of 5, causal, large logits", 645, 645, 4, 2, 128, true, 0, 0, CONTIGUOUS, 5, 60, false},
    {"ring of 5, causal, merge kernel", 645, 645, 4, 2, 128, true, 0, 0, CONTIGUOUS, 5, 1, true},
    {"zig-zag ring of 4", 1003, 1003, 4, 2, 128, true, 0, 0, ZIGZAG, 4, 1, false},
    {"zig-zag ring of 3", 777, 777, 4, 2, 64, true, 0, 0, ZIGZAG, 3, 1, false},
    {"striped ring of 4", 804, 804, 4, 2, 128, true, 0, 0, STRIPED, 4, 1, false},
    {"striped ring of 6", 822, 822, 4, 2, 64, true, 0, 0, STRIPED, 6, 1, false},
    {"ring of 5, full, merge kernel", 645, 645, 4, 2, 64, false, 0, 0, CONTIGUOUS, 5, 1, true},
};
static const struct test_case broken = {
    "without the running maximum large logits fail", 200, 200, 2, 2, 128, true, 0, 0, WHOLE, 1, 60, false};
static const struct test_case repeated[] = {
    {"three runs agree, causal", 2050, 2050, 8, 2, 128, true, 0, 0, WHOLE, 1, 1, false},
    {"three runs agree, full", 2050, 2050, 8, 2, 64, false, 0, 0, WHOLE, 1, 1, false},
};
static const struct test_case agreeing[] = {
    {"Hopper and portable agree on 8191 tokens, causal", 8191, 8191, 8, 2, 128, true, 0, 0, WHOLE, 1, 1, false},
    {"Hopper and portable agree on 8191 tokens, full", 8191, 8191, 4, 4, 128, false, 0, 0, WHOLE, 1, 1, false},
    {"Hopper and portable agree on 8191 tokens, causal", 8191, 8191, 8, 2, 64, true, 0, 0, WHOLE, 1, 1, false},
};

bool suite_wants(struct suite *s, const char *name)
{
    if (s->only && !strstr(name, s->only))
        return false;
    s->count++;
    if (!s->gpu)
        printf("ok %d - %s # SKIP no GPU\n", s->count, name);
    return s->gpu;
}

void suite_result(struct suite *s, const char *name, bool fine, const char *remark)
{
    printf("%s %d - %s\n# %s\n", fine ? "ok" : "not ok", s->count, name, remark);
    fflush(stdout);
    s->failed += !fine;
}

typedef bool (*check)(struct run *, struct errors *);

// Returns false when the device is beyond use, so that what follows would only repeat the error.
static bool run_test(struct suite *s, const struct test_case *c, enum attention_path path, check what)
{
    const char *where = path == ATTENTION_HOPPER ? "hopper" : path == ATTENTION_PORTABLE ? "portable" : "both";
    struct run r = {};
    struct errors e = {};
    char name[160];

    snprintf(name, sizeof name, "%s: head dimension %d: %s", where, c->head_dim, c->name);
    if (s->only && !strstr(name, s->only))
        return true;
    r.c = c;
    r.path = path;
    r.random = s->seed * 1000003 + (uint64_t)++s->count;
    if (!s->gpu || (path != ATTENTION_PORTABLE && !s->hopper)) {
        printf("ok %d - %s # SKIP no GPU%s\n", s->count, name, s->gpu ? " of compute capability 9.0" : "");
        return true;
    }
    bool fine = what(&r, &e);
    printf("%s %d - %s\n", fine ? "ok" : "not ok", s->count, name);
    if (fine)
        printf("# errors: o %.1e lse %.1e dQ %.1e dK %.1e dV %.1e\n%s", e.o, e.lse, e.dq, e.dk, e.dv, r.remark);
    else
        printf("# %s\n", r.why);
    fflush(stdout);
    s->failed += !fine;
    release_memory(&r);
    return cudaDeviceSynchronize() == cudaSuccess;
}

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define FIRST_MAJOR 8    // compute capability of the portable kernels
#define SMALL_TOKENS 700 // a memory checker is a hundred times slower

static bool run_path(struct suite *s, enum attention_path path)
{
    bool usable = true;
    for (size_t i = 0; usable && i < COUNT(cases); i++)
        if (!s->small || (cases[i].q_tokens <= SMALL_TOKENS && cases[i].ranks <= 7))
            usable = run_test(s, &cases[i], path, check_case);
    for (size_t i = 0; usable && !s->small && i < COUNT(repeated); i++)
        usable = run_test(s, &repeated[i], path, check_repeats);
    return usable;
}

int device_test(int argc, char **argv)
{
    struct suite s = {};
    struct cudaDeviceProp device = {};
    s.seed = (uint64_t)time(NULL);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--small") == 0)
            s.small = true;
        else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc)
            s.only = argv[++i];
        else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            s.seed = strtoull(argv[++i], NULL, 10);
        else {
            fprintf(stderr, "seqplan-device test: %s: not an option\n", argv[i]);
            return 2;
        }
    }
    s.gpu = cudaGetDeviceProperties(&device, 0) == cudaSuccess && device.major >= FIRST_MAJOR;
    s.hopper = s.gpu && device.major == 9;
    if (s.gpu)
        printf("# %s, compute capability %d.%d, seed %llu\n", device.name, device.major, device.minor,
               (unsigned long long)s.seed);
    bool usable = run_path(&s, ATTENTION_PORTABLE) && run_test(&s, &broken, ATTENTION_PORTABLE, check_no_maximum) &&
                  run_path(&s, ATTENTION_HOPPER);
    for (size_t i = 0; usable && !s.small && i < COUNT(agreeing); i++)
        usable = run_test(&s, &agreeing[i], ATTENTION_BEST, check_paths_agree);
    usable = usable && test_methods(&s);
    if (!usable)
        printf("Bail out! the device no longer answers\n");
    printf("1..%d\n", s.count);
    return s.failed > 0 || !usable;
}
