// The schedules: what each rank computes and what travels, step by step.
#include "methods.h"

#include <math.h>
#include <stdlib.h>

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        cudaError_t error_ = (call);                                                                                   \
        if (error_ != cudaSuccess)                                                                                     \
            return error_;                                                                                             \
    } while (0)

#define BF16_BYTES 2

const char *method_name(enum method_kind kind)
{
    static const char *const names[METHOD_KINDS] = {"allgather", "ulysses", "ring", "zigzag", "striped"};
    return names[kind];
}

// ---- sizes -------------------------------------------------------------------------------------------------------------

static bool has_chunks(const struct method_shape *s)
{
    return s->kind == METHOD_ZIGZAG || s->kind == METHOD_ALLGATHER;
}

static bool is_ring(const struct method_shape *s)
{
    return s->kind >= METHOD_RING;
}

static int shard_of(const struct method_shape *s)
{
    return s->tokens / s->ranks;
}

static size_t q_row(const struct method_shape *s)
{
    return (size_t)s->q_heads * (size_t)s->head_dim;
}

static size_t kv_row(const struct method_shape *s)
{
    return (size_t)s->kv_heads * (size_t)s->head_dim;
}

// Elements of a shard's queries, and of its keys.
static size_t q_elements(const struct method_shape *s)
{
    return (size_t)shard_of(s) * q_row(s);
}

static size_t k_elements(const struct method_shape *s)
{
    return (size_t)shard_of(s) * kv_row(s);
}

// Ulysses: a rank's heads; where there are fewer kv heads than ranks, each goes to several.
static int q_heads_here(const struct method_shape *s)
{
    return s->q_heads / s->ranks;
}

static int kv_heads_here(const struct method_shape *s)
{
    return s->kv_heads >= s->ranks ? s->kv_heads / s->ranks : 1;
}

// Elements of the keys of a rank's heads over the whole sequence.
static size_t ulysses_k_elements(const struct method_shape *s)
{
    return (size_t)s->tokens * (size_t)kv_heads_here(s) * (size_t)s->head_dim;
}

static size_t gradient_bytes(const struct method_shape *s)
{
    return s->gradient_float ? sizeof(float) : BF16_BYTES;
}

const char *method_refusal(const struct method_shape *s)
{
    int pieces = has_chunks(s) ? 2 * s->ranks : s->ranks;
    if (s->ranks < 1 || s->ranks > METHOD_MAX_RANKS)
        return "1 to 64 ranks";
    if (s->tokens < pieces || s->tokens % pieces != 0)
        return has_chunks(s) ? "the tokens do not divide by twice the ranks" : "the tokens do not divide by the ranks";
    if (s->kind == METHOD_ULYSSES && s->q_heads % s->ranks != 0)
        return "the heads do not divide by the ranks";
    if (s->kind == METHOD_ULYSSES && s->kv_heads % s->ranks != 0 && s->ranks % s->kv_heads != 0)
        return "the kv heads and the ranks do not divide";
    return "";
}

int64_t method_position(const struct method_shape *s, int rank, int i)
{
    int shard = shard_of(s), chunk = shard / 2;
    if (s->kind == METHOD_STRIPED)
        return (int64_t)i * s->ranks + rank;
    if (!has_chunks(s))
        return (int64_t)rank * shard + i;
    int piece = i < chunk ? rank : 2 * s->ranks - 1 - rank;
    return (int64_t)piece * chunk + i % chunk;
}

double method_bytes(const struct method_shape *s, bool backward)
{
    double others = s->ranks - 1, kv = 2.0 * (double)k_elements(s);
    double q = (double)q_elements(s), heads_kv = 2.0 * (double)ulysses_k_elements(s);
    if (s->ranks == 1)
        return 0;
    if (s->kind == METHOD_ULYSSES) // q, k, v there and o back; dO there and dq, dk, dv back
        return others / s->ranks * BF16_BYTES * (2 * q + heads_kv);
    if (!backward)
        return others * kv * BF16_BYTES;
    double hops = is_ring(s) ? s->ranks : others; // gradients go on until they are home
    return others * kv * BF16_BYTES + hops * kv * (double)gradient_bytes(s);
}

// ---- the block of a ring step --------------------------------------------------------------------------------------------

struct step_block {
    struct attention_block b;
    int q_start; // the keys begin with the shard's first
};

static struct attention_block whole_shard(const struct method_shape *s)
{
    struct attention_block b = {};
    b.q_tokens = b.k_tokens = shard_of(s);
    b.q_heads = s->q_heads;
    b.kv_heads = s->kv_heads;
    b.head_dim = s->head_dim;
    b.causal = s->causal;
    b.scale = (float)(1 / sqrt((double)s->head_dim));
    b.path = s->path;
    return b;
}

// false: the keys are all later than the queries. In step 0 a rank's own tokens are in order, so that even two joined
// chunks are one triangle.
static bool ring_block(const struct method_shape *s, int rank, int step, struct step_block *to)
{
    bool is_earlier = step <= rank; // the keys come from an earlier rank
    struct attention_block *b = &to->b;
    *b = whole_shard(s);
    to->q_start = 0;
    if (!s->causal || step == 0)
        return true;
    if (s->kind == METHOD_STRIPED) {
        b->k_offset = !is_earlier;
        return true;
    }
    b->causal = false;
    if (s->kind == METHOD_RING)
        return is_earlier;
    if (is_earlier) {
        b->k_tokens /= 2; // all queries see its first chunk only
    } else {
        b->q_tokens /= 2; // only the second chunk sees anything, but all of it
        to->q_start = b->q_tokens;
    }
    return true;
}

// One of the two chunks of a rank against the gathered keys.
static struct step_block gathered_block(const struct method_shape *s, int rank, int half)
{
    struct step_block x = {whole_shard(s), 0};
    int chunk = shard_of(s) / 2, piece = half == 0 ? rank : 2 * s->ranks - 1 - rank;
    x.q_start = half * chunk;
    x.b.q_tokens = chunk;
    x.b.k_tokens = s->causal ? (piece + 1) * chunk : s->tokens;
    x.b.q_offset = (int64_t)piece * chunk;
    return x;
}

static struct attention_block ulysses_block(const struct method_shape *s)
{
    struct attention_block b = whole_shard(s);
    b.q_tokens = b.k_tokens = s->tokens;
    b.q_heads = q_heads_here(s);
    b.kv_heads = kv_heads_here(s);
    return b;
}

double method_pairs(const struct method_shape *s, int rank)
{
    struct step_block x;
    double pairs = 0;
    if (s->kind == METHOD_ULYSSES) {
        struct attention_block b = ulysses_block(s);
        return attention_pairs(&b) / s->ranks;
    }
    for (int half = 0; s->kind == METHOD_ALLGATHER && half < 2; half++) {
        x = gathered_block(s, rank, half);
        pairs += attention_pairs(&x.b);
    }
    for (int step = 0; is_ring(s) && step < s->ranks; step++)
        if (ring_block(s, rank, step, &x))
            pairs += attention_pairs(&x.b);
    return pairs;
}

// ---- memory of a rank ----------------------------------------------------------------------------------------------------

struct allocator {
    method_alloc alloc;
    void *context;
    int gpu;
    bool full;
};

static void take(struct allocator *a, void *to, size_t bytes)
{
    void **p = (void **)to;
    if (!*p)
        *p = a->alloc(a->context, a->gpu, bytes);
    a->full |= !*p;
}

static void take_ring(struct allocator *a, struct method_rank *r, const struct method_shape *s)
{
    size_t kv = 2 * k_elements(s);
    struct attention_block b = whole_shard(s), late = b;
    late.q_tokens /= 2;
    take(a, &r->o_sum, q_elements(s) * sizeof(float));
    take(a, &r->part, kv * BF16_BYTES);
    for (int i = 0; i < 2; i++) {
        take(a, &r->kv[i], kv * BF16_BYTES);
        take(a, &r->travel[i], kv * gradient_bytes(s));
        if (i == 0 || s->kind == METHOD_ZIGZAG) {
            take(a, &r->rows[i], attention_rows_bytes(i == 0 ? &b : &late));
            take(a, &r->dq_sum[i], attention_dq_bytes(i == 0 ? &b : &late));
        }
    }
    if (s->kind == METHOD_ZIGZAG)
        take(a, &r->late_dq, q_elements(s) / 2 * BF16_BYTES);
}

static void take_gathered(struct allocator *a, struct method_rank *r, const struct method_shape *s)
{
    size_t whole = 2 * k_elements(s) * (size_t)s->ranks;
    struct attention_block chunk = gathered_block(s, r->rank, 0).b;
    take(a, &r->gathered, whole * gradient_bytes(s));
    take(a, &r->whole, whole * BF16_BYTES);
    take(a, &r->whole_sum, whole * sizeof(float));
    take(a, &r->travel[0], 2 * k_elements(s) * gradient_bytes(s));
    for (int i = 0; i < 2; i++) {
        take(a, &r->rows[i], attention_rows_bytes(&chunk));
        take(a, &r->dq_sum[i], attention_dq_bytes(&chunk));
    }
}

static void take_ulysses(struct allocator *a, struct method_rank *r, const struct method_shape *s)
{
    size_t q = q_elements(s) * BF16_BYTES, kv = 2 * ulysses_k_elements(s) * BF16_BYTES;
    struct attention_block b = ulysses_block(s);
    take(a, &r->sent, q + kv);
    take(a, &r->received, q + kv);
    take(a, &r->q_heads, q);
    take(a, &r->o_heads, q);
    take(a, &r->d_o_heads, q);
    take(a, &r->dq_heads, q);
    take(a, &r->kv_heads, kv);
    take(a, &r->dkv_heads, kv);
    take(a, &r->rows[0], attention_rows_bytes(&b));
    take(a, &r->dq_sum[0], attention_dq_bytes(&b));
}

static bool make_events(struct method_rank *r)
{
    cudaEvent_t *events[] = {&r->done, &r->arrived[0], &r->arrived[1]};
    bool fine = cudaSetDevice(r->gpu) == cudaSuccess;
    for (int i = 0; i < 3 && fine; i++)
        fine = cudaEventCreateWithFlags(events[i], cudaEventDisableTiming) == cudaSuccess;
    return fine;
}

bool method_rank_create(struct method_rank *r, const struct method_shape *s, method_alloc alloc, void *context)
{
    struct allocator a = {alloc, context, r->gpu, false};
    size_t q = q_elements(s) * BF16_BYTES, kv = 2 * k_elements(s) * BF16_BYTES;
    void *shards[] = {&r->t.q, &r->t.o, &r->t.d_o, &r->t.dq};
    for (size_t i = 0; i < sizeof shards / sizeof shards[0]; i++)
        take(&a, shards[i], q);
    take(&a, &r->t.kv, kv);
    take(&a, &r->t.d_kv, kv);
    // one number a row and head, whichever way these are cut
    take(&a, &r->lse, (size_t)shard_of(s) * (size_t)s->q_heads * sizeof(float));
    if (is_ring(s))
        take_ring(&a, r, s);
    else if (s->kind == METHOD_ALLGATHER)
        take_gathered(&a, r, s);
    else
        take_ulysses(&a, r, s);
    return !a.full && make_events(r);
}

void method_rank_destroy(struct method_rank *r)
{
    cudaEvent_t events[] = {r->done, r->arrived[0], r->arrived[1]};
    for (int i = 0; i < 3; i++)
        if (events[i])
            cudaEventDestroy(events[i]);
}

// ---- order between the streams -------------------------------------------------------------------------------------------

static cudaError_t mark(struct method_run *m)
{
    if (!m->marks || m->n_marks >= m->max_marks)
        return cudaSuccess;
    TRY(cudaSetDevice(m->at[0].gpu));
    return cudaEventRecord(m->marks[m->n_marks++], m->at[0].compute);
}

static cudaError_t step_done(struct method_rank *r)
{
    TRY(cudaSetDevice(r->gpu));
    return cudaEventRecord(r->done, r->compute);
}

static cudaError_t begin(struct method_run *m)
{
    m->n_marks = 0;
    TRY(mark(m));
    for (int i = 0; i < m->present; i++)
        TRY(step_done(&m->at[i]));
    return cudaSuccess;
}

// What is queued next on the copy streams begins when every rank here has done the step it recorded last.
static cudaError_t copies_wait(struct method_run *m)
{
    for (int i = 0; i < m->present; i++) {
        TRY(cudaSetDevice(m->at[i].gpu));
        TRY(cudaStreamWaitEvent(m->at[i].copy, m->at[i].done, 0));
    }
    return cudaSuccess;
}

static cudaError_t copies_arrive(struct method_run *m, int step)
{
    for (int i = 0; i < m->present; i++) {
        TRY(cudaSetDevice(m->at[i].gpu));
        TRY(cudaEventRecord(m->at[i].arrived[step % 2], m->at[i].copy));
    }
    return cudaSuccess;
}

static cudaError_t wait_arrived(struct method_rank *r, int step)
{
    return cudaStreamWaitEvent(r->compute, r->arrived[step % 2], 0);
}

static void *bf16_at(const void *p, size_t elements)
{
    return (uint16_t *)p + elements;
}

// ---- ring ----------------------------------------------------------------------------------------------------------------

// The keys and values that a rank holds in a step: its own, then what came.
static void *kv_at(const struct method_rank *r, int step)
{
    return step == 0 ? r->t.kv : r->kv[(step - 1) % 2];
}

// Where the last hop leaves the gradients of a rank's own keys and values.
static void *home_of(const struct method_run *m, const struct method_rank *r)
{
    if (!m->shape.gradient_float)
        return r->t.d_kv;
    return r->travel[m->shape.ranks == 1 ? 0 : m->shape.ranks % 2];
}

// Keys and values on to the next rank, beside the step that works on them; with `backward`, the gradients that the last
// step left go with them, beside this one.
static cudaError_t hop(struct method_run *m, int step, bool backward)
{
    struct transfer list[2 * METHOD_MAX_RANKS];
    int ranks = m->shape.ranks, n = 0;
    size_t kv = 2 * k_elements(&m->shape);
    for (int i = 0; i < m->present; i++) {
        struct method_rank *to = &m->at[i], *from = method_peer(m, (to->rank + ranks - 1) % ranks);
        void *gradients = step == ranks ? home_of(m, to) : to->travel[step % 2];
        struct transfer keys = {from, to, kv_at(from, step), to->kv[step % 2], kv * BF16_BYTES};
        struct transfer back = {from, to, from->travel[(step + 1) % 2], gradients, kv * gradient_bytes(&m->shape)};
        if (step + 1 < ranks)
            list[n++] = keys;
        if (backward && step > 0)
            list[n++] = back;
    }
    if (n == 0)
        return cudaSuccess;
    TRY(copies_wait(m));
    TRY(transfer_all(m, list, n));
    return copies_arrive(m, step);
}

static cudaError_t ring_forward_step(struct method_run *m, struct method_rank *r, int step)
{
    const struct method_shape *s = &m->shape;
    struct step_block x;
    const void *kv = kv_at(r, step);
    TRY(cudaSetDevice(r->gpu));
    if (step > 0)
        TRY(wait_arrived(r, step - 1));
    if (!m->no_attention && ring_block(s, r->rank, step, &x)) {
        size_t from = (size_t)x.q_start * q_row(s);
        struct attention_output out = {NULL, r->o_sum + from, r->lse + x.q_start, shard_of(s)};
        TRY(attention_forward(&x.b, bf16_at(r->t.q, from), kv, bf16_at(kv, k_elements(s)), &out, r->compute));
    }
    return step_done(r);
}

static cudaError_t ring_forward(struct method_run *m)
{
    const struct method_shape *s = &m->shape;
    struct attention_block b = whole_shard(s);
    if (s->ranks == 1) { // attention alone
        struct method_rank *r = &m->at[0];
        struct attention_output out = {r->t.o, NULL, r->lse, s->tokens};
        return attention_forward(&b, r->t.q, r->t.kv, bf16_at(r->t.kv, k_elements(s)), &out, r->compute);
    }
    for (int i = 0; i < m->present; i++) {
        struct attention_output out = {NULL, m->at[i].o_sum, m->at[i].lse, shard_of(s)};
        TRY(cudaSetDevice(m->at[i].gpu));
        TRY(attention_clear(&b, &out, m->at[i].compute));
    }
    for (int step = 0; step < s->ranks; step++) {
        TRY(hop(m, step, false));
        for (int i = 0; i < m->present; i++)
            TRY(ring_forward_step(m, &m->at[i], step));
        TRY(mark(m));
    }
    for (int i = 0; i < m->present; i++) {
        TRY(cudaSetDevice(m->at[i].gpu));
        TRY(attention_round(m->at[i].o_sum, m->at[i].t.o, q_elements(s), m->at[i].compute));
    }
    return cudaSuccess;
}

// Row statistics and cleared sums of the rank's queries, and, zig-zag, of their second half, which has steps of its own.
static cudaError_t ring_backward_begin(struct method_run *m, struct method_rank *r)
{
    const struct method_shape *s = &m->shape;
    TRY(cudaSetDevice(r->gpu));
    for (int late = 0; late < (s->kind == METHOD_ZIGZAG ? 2 : 1); late++) {
        struct attention_block b = whole_shard(s);
        int start = late ? b.q_tokens / 2 : 0;
        b.q_tokens -= start;
        size_t from = (size_t)start * q_row(s);
        TRY(cudaMemsetAsync(r->dq_sum[late], 0, attention_dq_bytes(&b), r->compute));
        TRY(attention_rows(&b, bf16_at(r->t.o, from), bf16_at(r->t.d_o, from), r->lse + start, shard_of(s),
                           r->rows[late], r->compute));
    }
    return cudaSuccess;
}

static cudaError_t ring_backward_step(struct method_run *m, struct method_rank *r, int step)
{
    const struct method_shape *s = &m->shape;
    struct step_block x;
    const void *kv = kv_at(r, step);
    size_t k = k_elements(s);
    bool direct = step == 0 && !s->gradient_float; // the first part starts its way as it is
    void *part = !direct ? r->part : s->ranks == 1 ? r->t.d_kv : r->travel[0];
    bool works = ring_block(s, r->rank, step, &x);

    TRY(cudaSetDevice(r->gpu));
    if (step > 0)
        TRY(wait_arrived(r, step - 1));
    if (works && !m->no_attention) {
        int late = x.q_start > 0;
        size_t from = (size_t)x.q_start * q_row(s);
        struct attention_gradients g = {r->dq_sum[late], part, bf16_at(part, k), NULL, NULL};
        TRY(attention_backward(&x.b, bf16_at(r->t.q, from), kv, bf16_at(kv, k), bf16_at(r->t.d_o, from), r->rows[late],
                               &g, r->compute));
    }
    if (step > 0)
        TRY(wait_arrived(r, step)); // the gradients that left with the last step
    if (works && !direct) {
        struct accumulate a = {
            part, r->travel[step % 2], (size_t)x.b.k_tokens * kv_row(s), k, false, s->gradient_float, step == 0};
        TRY(accumulate_run(&a, r->compute));
    }
    return step_done(r);
}

static cudaError_t ring_backward_end(struct method_run *m, struct method_rank *r)
{
    const struct method_shape *s = &m->shape;
    struct attention_block b = whole_shard(s);
    TRY(cudaSetDevice(r->gpu));
    TRY(attention_dq_finish(&b, r->dq_sum[0], r->t.dq, r->compute));
    if (s->kind == METHOD_ZIGZAG && s->causal && r->rank + 1 < s->ranks) { // the last rank has no later one
        size_t half = q_elements(s) / 2;
        struct accumulate a = {r->late_dq, bf16_at(r->t.dq, half), half / 2, half / 2, false, false, false};
        b.q_tokens /= 2;
        TRY(attention_dq_finish(&b, r->dq_sum[1], r->late_dq, r->compute));
        TRY(accumulate_run(&a, r->compute));
    }
    if (s->ranks > 1)
        TRY(wait_arrived(r, s->ranks));
    if (!s->gradient_float)
        return cudaSuccess;
    struct accumulate rounded = {home_of(m, r), r->t.d_kv, k_elements(s), k_elements(s), true, false, true};
    return accumulate_run(&rounded, r->compute);
}

static cudaError_t ring_backward(struct method_run *m)
{
    int ranks = m->shape.ranks;
    for (int i = 0; i < m->present; i++)
        TRY(ring_backward_begin(m, &m->at[i]));
    for (int step = 0; step < ranks; step++) {
        TRY(hop(m, step, true));
        for (int i = 0; i < m->present; i++)
            TRY(ring_backward_step(m, &m->at[i], step));
        TRY(mark(m));
    }
    if (ranks > 1)
        TRY(hop(m, ranks, true));
    for (int i = 0; i < m->present; i++)
        TRY(ring_backward_end(m, &m->at[i]));
    return cudaSuccess;
}

// ---- all-gather ------------------------------------------------------------------------------------------------------------

// Every rank's shards, in order of the sequence, on every rank.
static cudaError_t gather(struct method_run *m)
{
    const struct method_shape *s = &m->shape;
    struct reorder o = {s->ranks, s->tokens, (int)kv_row(s)};
    TRY(copies_wait(m));
    TRY(transfer_gather(m, 2 * k_elements(s) * BF16_BYTES));
    TRY(copies_arrive(m, 0));
    for (int i = 0; i < m->present; i++) {
        struct method_rank *r = &m->at[i];
        TRY(cudaSetDevice(r->gpu));
        TRY(wait_arrived(r, 0));
        TRY(reorder_to_sequence(&o, r->gathered, r->whole, r->compute));
    }
    return mark(m);
}

static cudaError_t gathered_forward(struct method_run *m, struct method_rank *r)
{
    const struct method_shape *s = &m->shape;
    const void *v = bf16_at(r->whole, k_elements(s) * (size_t)s->ranks);
    TRY(cudaSetDevice(r->gpu));
    for (int half = 0; half < 2; half++) {
        struct step_block x = gathered_block(s, r->rank, half);
        size_t from = (size_t)x.q_start * q_row(s);
        struct attention_output out = {bf16_at(r->t.o, from), NULL, r->lse + x.q_start, shard_of(s)};
        TRY(attention_forward(&x.b, bf16_at(r->t.q, from), r->whole, v, &out, r->compute));
    }
    return cudaSuccess;
}

static cudaError_t allgather_forward(struct method_run *m)
{
    TRY(gather(m));
    for (int i = 0; i < m->present && !m->no_attention; i++)
        TRY(gathered_forward(m, &m->at[i]));
    return mark(m);
}

static cudaError_t gathered_backward(struct method_run *m, struct method_rank *r)
{
    const struct method_shape *s = &m->shape;
    size_t whole = k_elements(s) * (size_t)s->ranks;
    TRY(cudaSetDevice(r->gpu));
    TRY(cudaMemsetAsync(r->whole_sum, 0, 2 * whole * sizeof(float), r->compute));
    for (int half = 0; half < 2; half++) {
        struct step_block x = gathered_block(s, r->rank, half);
        size_t from = (size_t)x.q_start * q_row(s);
        struct attention_gradients g = {r->dq_sum[half], NULL, NULL, r->whole_sum, r->whole_sum + whole};
        const void *d_o = bf16_at(r->t.d_o, from);
        TRY(cudaMemsetAsync(r->dq_sum[half], 0, attention_dq_bytes(&x.b), r->compute));
        TRY(attention_rows(&x.b, bf16_at(r->t.o, from), d_o, r->lse + x.q_start, shard_of(s), r->rows[half],
                           r->compute));
        TRY(attention_backward(&x.b, bf16_at(r->t.q, from), r->whole, bf16_at(r->whole, whole), d_o, r->rows[half], &g,
                               r->compute));
        TRY(attention_dq_finish(&x.b, r->dq_sum[half], bf16_at(r->t.dq, from), r->compute));
    }
    return cudaSuccess;
}

static cudaError_t allgather_backward(struct method_run *m)
{
    const struct method_shape *s = &m->shape;
    struct reorder o = {s->ranks, s->tokens, (int)kv_row(s)};
    size_t k = k_elements(s);
    TRY(gather(m));
    for (int i = 0; i < m->present; i++) {
        struct method_rank *r = &m->at[i];
        TRY(m->no_attention ? cudaSuccess : gathered_backward(m, r));
        TRY(cudaSetDevice(r->gpu));
        TRY(reorder_to_ranks(&o, r->whole_sum, r->gathered, s->gradient_float, r->compute));
        TRY(step_done(r));
    }
    TRY(mark(m));
    TRY(copies_wait(m));
    TRY(transfer_reduce_scatter(m, 2 * k, s->gradient_float));
    TRY(copies_arrive(m, 0));
    for (int i = 0; i < m->present; i++) {
        struct method_rank *r = &m->at[i];
        struct accumulate rounded = {r->travel[0], r->t.d_kv, k, k, s->gradient_float, false, true};
        TRY(cudaSetDevice(r->gpu));
        TRY(wait_arrived(r, 0));
        TRY(accumulate_run(&rounded, r->compute));
    }
    return mark(m);
}

// ---- Ulysses ---------------------------------------------------------------------------------------------------------------

#define ULYSSES_TENSORS 3 // that travel at once

struct exchange {
    struct transfer list[ULYSSES_TENSORS * METHOD_MAX_RANKS * METHOD_MAX_RANKS];
    int n;
};

// Piece b of what rank a has goes to place a of what rank b gets. `from` and `to` are fields of a rank, and an offset.
struct exchanged {
    size_t from, to;                      // offsetof the fields
    size_t from_offset, to_offset, piece; // bytes
};

#define FIELD(name) offsetof(struct method_rank, name)

static char *field_of(struct method_rank *r, size_t field)
{
    return *(char **)((char *)r + field);
}

static void add_exchange(struct method_run *m, struct exchange *e, const struct exchanged *x)
{
    for (int a = 0; a < m->present; a++)
        for (int b = 0; b < m->present; b++) {
            struct method_rank *from = &m->at[a], *to = &m->at[b];
            size_t bytes = m->present == 1 ? x->piece * (size_t)m->shape.ranks : x->piece;
            struct transfer t = {from, to, field_of(from, x->from) + x->from_offset + (size_t)b * x->piece,
                                 field_of(to, x->to) + x->to_offset + (size_t)a * x->piece, bytes};
            e->list[e->n++] = t;
        }
}

static cudaError_t exchange_all(struct method_run *m, const struct exchanged *x, int n)
{
    struct exchange *e = (struct exchange *)malloc(sizeof *e);
    if (!e)
        return cudaErrorMemoryAllocation;
    e->n = 0;
    for (int i = 0; i < n; i++)
        add_exchange(m, e, &x[i]);
    cudaError_t error = copies_wait(m);
    if (error == cudaSuccess)
        error = transfer_all(m, e->list, e->n);
    free(e);
    TRY(error);
    TRY(copies_arrive(m, 0));
    for (int i = 0; i < m->present; i++) {
        TRY(cudaSetDevice(m->at[i].gpu));
        TRY(wait_arrived(&m->at[i], 0));
    }
    return mark(m);
}

struct ulysses_sizes {
    struct head_split q, kv;
    size_t q_bytes, k_bytes; // of the packed tensors
};

static struct ulysses_sizes ulysses_sizes(const struct method_shape *s)
{
    struct ulysses_sizes z = {{s->ranks, shard_of(s), s->q_heads, s->head_dim},
                              {s->ranks, shard_of(s), s->kv_heads, s->head_dim},
                              q_elements(s) * BF16_BYTES,
                              ulysses_k_elements(s) * BF16_BYTES};
    return z;
}

static cudaError_t ulysses_forward(struct method_run *m)
{
    const struct method_shape *s = &m->shape;
    struct ulysses_sizes z = ulysses_sizes(s);
    struct attention_block b = ulysses_block(s);
    size_t q_piece = z.q_bytes / (size_t)s->ranks, k_piece = z.k_bytes / (size_t)s->ranks;
    struct exchanged there[] = {{FIELD(sent), FIELD(q_heads), 0, 0, q_piece},
                                {FIELD(sent), FIELD(kv_heads), z.q_bytes, 0, k_piece},
                                {FIELD(sent), FIELD(kv_heads), z.q_bytes + z.k_bytes, z.k_bytes, k_piece}};
    struct exchanged back[] = {{FIELD(o_heads), FIELD(received), 0, 0, q_piece}};

    for (int i = 0; i < m->present; i++) {
        struct method_rank *r = &m->at[i];
        char *sent = (char *)r->sent;
        TRY(cudaSetDevice(r->gpu));
        TRY(heads_pack(&z.q, r->t.q, sent, r->compute));
        TRY(heads_pack(&z.kv, r->t.kv, sent + z.q_bytes, r->compute));
        TRY(heads_pack(&z.kv, bf16_at(r->t.kv, k_elements(s)), sent + z.q_bytes + z.k_bytes, r->compute));
        TRY(step_done(r));
    }
    TRY(exchange_all(m, there, 3));
    for (int i = 0; i < m->present; i++) {
        struct method_rank *r = &m->at[i];
        struct attention_output out = {r->o_heads, NULL, r->lse, b.q_tokens};
        TRY(cudaSetDevice(r->gpu));
        if (!m->no_attention)
            TRY(attention_forward(&b, r->q_heads, r->kv_heads, (char *)r->kv_heads + z.k_bytes, &out, r->compute));
        TRY(step_done(r));
    }
    TRY(mark(m));
    TRY(exchange_all(m, back, 1));
    for (int i = 0; i < m->present; i++) {
        TRY(cudaSetDevice(m->at[i].gpu));
        TRY(heads_unpack(&z.q, m->at[i].received, m->at[i].t.o, m->at[i].compute));
    }
    return cudaSuccess;
}

static cudaError_t ulysses_attention_backward(struct method_run *m, struct method_rank *r)
{
    struct attention_block b = ulysses_block(&m->shape);
    size_t k_bytes = ulysses_sizes(&m->shape).k_bytes;
    struct attention_gradients g = {r->dq_sum[0], r->dkv_heads, (char *)r->dkv_heads + k_bytes, NULL, NULL};
    TRY(cudaMemsetAsync(r->dq_sum[0], 0, attention_dq_bytes(&b), r->compute));
    TRY(attention_rows(&b, r->o_heads, r->d_o_heads, r->lse, b.q_tokens, r->rows[0], r->compute));
    TRY(attention_backward(&b, r->q_heads, r->kv_heads, (char *)r->kv_heads + k_bytes, r->d_o_heads, r->rows[0], &g,
                           r->compute));
    return attention_dq_finish(&b, r->dq_sum[0], r->dq_heads, r->compute);
}

static cudaError_t ulysses_backward(struct method_run *m)
{
    const struct method_shape *s = &m->shape;
    struct ulysses_sizes z = ulysses_sizes(s);
    size_t q_piece = z.q_bytes / (size_t)s->ranks, k_piece = z.k_bytes / (size_t)s->ranks;
    struct exchanged there[] = {{FIELD(sent), FIELD(d_o_heads), 0, 0, q_piece}};
    struct exchanged back[] = {{FIELD(dq_heads), FIELD(received), 0, 0, q_piece},
                               {FIELD(dkv_heads), FIELD(received), 0, z.q_bytes, k_piece},
                               {FIELD(dkv_heads), FIELD(received), z.k_bytes, z.q_bytes + z.k_bytes, k_piece}};

    for (int i = 0; i < m->present; i++) {
        TRY(cudaSetDevice(m->at[i].gpu));
        TRY(heads_pack(&z.q, m->at[i].t.d_o, m->at[i].sent, m->at[i].compute));
        TRY(step_done(&m->at[i]));
    }
    TRY(exchange_all(m, there, 1));
    for (int i = 0; i < m->present; i++) {
        TRY(cudaSetDevice(m->at[i].gpu));
        TRY(m->no_attention ? cudaSuccess : ulysses_attention_backward(m, &m->at[i]));
        TRY(step_done(&m->at[i]));
    }
    TRY(mark(m));
    TRY(exchange_all(m, back, 3));
    for (int i = 0; i < m->present; i++) {
        struct method_rank *r = &m->at[i];
        char *received = (char *)r->received;
        TRY(cudaSetDevice(r->gpu));
        TRY(heads_unpack(&z.q, received, r->t.dq, r->compute));
        TRY(heads_unpack(&z.kv, received + z.q_bytes, r->t.d_kv, r->compute));
        TRY(heads_unpack(&z.kv, received + z.q_bytes + z.k_bytes, bf16_at(r->t.d_kv, k_elements(s)), r->compute));
    }
    return cudaSuccess;
}

// ---- either way ------------------------------------------------------------------------------------------------------------

cudaError_t method_forward(struct method_run *m)
{
    TRY(begin(m));
    return m->shape.kind == METHOD_ALLGATHER ? allgather_forward(m)
           : m->shape.kind == METHOD_ULYSSES ? ulysses_forward(m)
                                             : ring_forward(m);
}

cudaError_t method_backward(struct method_run *m)
{
    TRY(begin(m));
    return m->shape.kind == METHOD_ALLGATHER ? allgather_backward(m)
           : m->shape.kind == METHOD_ULYSSES ? ulysses_backward(m)
                                             : ring_backward(m);
}
