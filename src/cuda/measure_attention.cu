// The attention kernels by shape. A backward pass is everything it takes: clearing the scratch of dQ, the rows'
// statistics, the kernel, and dQ out of its scratch. FLOP: 4 for each pair of tokens that the mask leaves, query head and
// column forward, 10 backward.
#include "attention.h"
#include "measure.h"

#include <math.h>
#include <stdio.h>

#define FORWARD_FLOP 4.0
#define BACKWARD_FLOP 10.0
#define BF16 2.0

enum pass { FORWARD, ACCUMULATE, MERGE, BACKWARD, PASSES };
static const char *const pass_names[PASSES] = {"forward", "forward-accumulate", "merge", "backward"};

struct attention {
    struct attention_block block;
    enum pass pass;
    struct buffer_sets sets;
    size_t q, k, v, o, lse, o_sum, d_o, dq, dk, dv, dq_sum, rows; // offsets in a set
    cudaStream_t stream;
};

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        cudaError_t error_ = (call);                                                                                   \
        if (error_ != cudaSuccess)                                                                                     \
            return error_;                                                                                             \
    } while (0)

static cudaError_t backward(const struct attention *a, char *set)
{
    const struct attention_block *b = &a->block;
    struct attention_gradients g = {(float *)(set + a->dq_sum), set + a->dk, set + a->dv, NULL, NULL};
    const float *lse = (const float *)(set + a->lse);
    TRY(cudaMemsetAsync(g.dq_sum, 0, attention_dq_bytes(b), a->stream));
    TRY(attention_rows(b, set + a->o, set + a->d_o, lse, b->q_tokens, set + a->rows, a->stream));
    TRY(attention_backward(b, set + a->q, set + a->k, set + a->v, set + a->d_o, set + a->rows, &g, a->stream));
    return attention_dq_finish(b, g.dq_sum, set + a->dq, a->stream);
}

static cudaError_t launch_pass(const struct attention *a, enum pass pass, int run)
{
    char *set = set_of(&a->sets, run);
    struct attention_output plain = {set + a->o, NULL, (float *)(set + a->lse), a->block.q_tokens};
    struct attention_output sum = {NULL, (float *)(set + a->o_sum), (float *)(set + a->lse), a->block.q_tokens};
    switch (pass) {
    case FORWARD:
        return attention_forward(&a->block, set + a->q, set + a->k, set + a->v, &plain, a->stream);
    case ACCUMULATE:
        return attention_forward(&a->block, set + a->q, set + a->k, set + a->v, &sum, a->stream);
    case MERGE:
        return attention_merge(&a->block, set + a->o, (const float *)(set + a->rows), &sum, a->stream);
    default:
        return backward(a, set);
    }
}

static cudaError_t launch(void *context, int run)
{
    const struct attention *a = (const struct attention *)context;
    return launch_pass(a, a->pass, run);
}

// Results of a forward pass in every set: what the other passes read.
static cudaError_t prepare(const struct attention *a)
{
    size_t lse_bytes = (size_t)a->block.q_tokens * (size_t)a->block.q_heads * sizeof(float);
    for (int i = 0; i < a->sets.count; i++) {
        char *set = set_of(&a->sets, i);
        TRY(launch_pass(a, FORWARD, i));
        if (a->pass == MERGE)
            TRY(cudaMemcpyAsync(set + a->rows, set + a->lse, lse_bytes, cudaMemcpyDeviceToDevice, a->stream));
    }
    return cudaStreamSynchronize(a->stream);
}

static void lay_out(struct measure *m, struct attention *a)
{
    const struct attention_block *b = &a->block;
    size_t q = (size_t)b->q_tokens * (size_t)b->q_heads * (size_t)b->head_dim * 2, at = 0;
    size_t k = (size_t)b->k_tokens * (size_t)b->kv_heads * (size_t)b->head_dim * 2;
    bool gradients = a->pass == BACKWARD, sums = a->pass == ACCUMULATE || a->pass == MERGE;
    a->q = set_take(&at, q);
    a->k = set_take(&at, k);
    a->v = set_take(&at, k);
    a->o = set_take(&at, q);
    a->lse = set_take(&at, (size_t)b->q_tokens * (size_t)b->q_heads * sizeof(float));
    a->rows = set_take(&at, attention_rows_bytes(b));
    a->o_sum = set_take(&at, sums ? 2 * q : 0);
    a->d_o = set_take(&at, gradients ? q : 0);
    a->dq = set_take(&at, gradients ? q : 0);
    a->dk = set_take(&at, gradients ? k : 0);
    a->dv = set_take(&at, gradients ? k : 0);
    a->dq_sum = set_take(&at, gradients ? attention_dq_bytes(b) : 0);
    a->sets = measure_sets(m, 0, at);
    a->stream = m->stream[0];
}

// Bytes that must move: inputs once, outputs once.
static double bytes_of(const struct attention_block *b, enum pass pass)
{
    double q = (double)b->q_tokens * b->q_heads * b->head_dim, k = (double)b->k_tokens * b->kv_heads * b->head_dim;
    double lse = 4.0 * b->q_tokens * b->q_heads;
    switch (pass) {
    case FORWARD:
        return BF16 * (2 * q + 2 * k) + lse;
    case ACCUMULATE:
        return BF16 * (q + 2 * k) + 2 * (4 * q + lse);
    case MERGE:
        return BF16 * q + 2 * 4 * q + 3 * lse;
    default:
        return BF16 * (4 * q + 4 * k) + lse;
    }
}

static void measure_one(struct measure *m, const struct attention_block *b, enum pass pass)
{
    struct point p;
    struct attention a = {};
    a.block = *b;
    a.pass = pass;
    point_start(&p, "attention");
    point_text(&p, "pass", pass_names[pass]);
    point_text(&p, "mask", b->causal ? "causal" : "full");
    point_number(&p, "tokens", b->q_tokens);
    point_number(&p, "heads", b->q_heads);
    point_number(&p, "kv_heads", b->kv_heads);
    point_number(&p, "head_dim", b->head_dim);
    p.flop = (pass == MERGE      ? 0
              : pass == BACKWARD ? BACKWARD_FLOP
                                 : FORWARD_FLOP) *
             b->q_heads * b->head_dim * ((double)b->q_tokens * (b->causal ? b->q_tokens + 1.0 : 2.0 * b->q_tokens) / 2);
    p.bytes = bytes_of(b, pass);
    if (!measure_wanted(m, &p))
        return;
    lay_out(m, &a);
    cudaError_t error = m->memory_short ? cudaSuccess : prepare(&a);
    struct work w = measure_work(m, launch, &a);
    if (error == cudaSuccess)
        measure_time(m, &p, &w);
    else
        measure_refuse(m, &p, "%s", cudaGetErrorString(error));
}

struct heads {
    int q, kv, dim, least, most; // from `least` to `most` tokens
};

static void measure_heads(struct measure *m, const struct heads *h)
{
    for (int tokens = h->least; tokens <= h->most; tokens *= m->quick ? 4 : 2)
        for (int causal = 1; causal >= 0; causal--)
            for (int pass = 0; pass < PASSES; pass++) {
                struct attention_block b = {tokens, tokens, h->q, h->kv,          h->dim, causal != 0,
                                            0,      0,      0,    ATTENTION_BEST, false};
                // What a ring adds: results summed in float32, by the kernel itself or by another.
                bool ring = pass == ACCUMULATE || pass == MERGE;
                b.scale = (float)(1 / sqrt((double)h->dim));
                if (!ring || (!causal && tokens <= 16384 && h->q == m->model.heads && h->dim == m->model.head_dim))
                    measure_one(m, &b, (enum pass)pass);
            }
}

#define ULYSSES 8 // a degree that leaves a rank few heads

void measure_attention(struct measure *m)
{
    const struct model_shapes *s = &m->model;
    int few_kv = s->kv_heads % ULYSSES == 0 ? s->kv_heads / ULYSSES : 1;
    struct heads model = {s->heads, s->kv_heads, s->head_dim, m->quick ? 2048 : 1024, m->quick ? 32768 : 65536};
    struct heads even = {s->heads, s->heads, s->head_dim, 2048, 32768};
    struct heads few = {s->heads / ULYSSES, few_kv, s->head_dim, 4096, 65536};
    struct heads narrow = {s->heads, s->kv_heads, s->head_dim == 64 ? 128 : 64, m->quick ? 8192 : 1024,
                           m->quick ? 8192 : 65536};
    measure_heads(m, &model);
    measure_heads(m, &narrow);
    if (!m->quick && s->kv_heads != s->heads)
        measure_heads(m, &even);
    if (!m->quick && s->heads % ULYSSES == 0 && s->heads / ULYSSES % few_kv == 0)
        measure_heads(m, &few);
}
