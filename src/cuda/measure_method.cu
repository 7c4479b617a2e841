// The groups `method` and `layer`: attention by each method, and a whole transformer layer on it, end to end. On one GPU
// one rank of a virtual ring; where there are several GPUs, all of these as well.
#include "layer.h"
#include "measure.h"
#include "methods.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define FORWARD_FLOP 4.0 // a pair, head and column
#define BACKWARD_FLOP 10.0
#define GUESSED_RATE 5e14   // FLOP/s, to leave out what would take too long
#define LONGEST_S 0.25      // of one run; between GPUs, four times that
#define SHORTEST_SHARD 1024 // below, a step is over before the host has queued the next
#define STEP_RUNS 3
#define GPUS_SPREAD_LIMIT 0.25 // each GPU swings at its own power limit, and all wait for the slowest
#define STEPS_NAMED 8
#define WATCHDOG_SECONDS 100 // for a measurement between GPUs

enum part { PART_ALL, PART_ATTENTION, PART_TRANSFERS };

// What is measured: `rank` of a virtual ring, or every GPU.
struct method_case {
    struct method_shape shape;
    int rank;
    bool backward, on_gpus;
    enum part part;
    int hidden, ffn; // of a layer
};

struct method_bench {
    struct measure *m;
    const struct method_case *c;
    struct method_run *run;   // of the attention
    struct layer_run layer;   // the group `layer`
    struct method_run method; // the group `method`
    struct method_rank rank[MEASURE_MAX_GPUS];
    struct layer_rank layer_rank[MEASURE_MAX_GPUS];
    struct layer_gpu layer_gpu[MEASURE_MAX_GPUS];
    int present;
};

static cudaError_t launch_method(void *context, int)
{
    struct method_bench *b = (struct method_bench *)context;
    return b->c->backward ? method_backward(&b->method) : method_forward(&b->method);
}

static cudaError_t launch_layer(void *context, int)
{
    struct method_bench *b = (struct method_bench *)context;
    return b->c->backward ? layer_backward(&b->layer) : layer_forward(&b->layer);
}

static void *take_memory(void *context, int gpu, size_t bytes)
{
    return measure_alloc((struct measure *)context, gpu, bytes);
}

static bool make_ranks(struct method_bench *b)
{
    const struct method_shape *s = &b->c->shape;
    size_t shard = (size_t)(s->tokens / s->ranks), width = (size_t)s->head_dim * 2;
    bool fine = true;
    b->present = b->c->on_gpus ? s->ranks : 1;
    for (int i = 0; i < b->present; i++) {
        struct method_rank *r = &b->rank[i];
        r->rank = b->c->on_gpus ? i : b->c->rank;
        r->gpu = i;
        r->compute = b->m->stream[i];
        r->copy = b->m->second[i];
        r->t.q = measure_random(b->m, i, shard * (size_t)s->q_heads * width, 1);
        r->t.kv = measure_random(b->m, i, 2 * shard * (size_t)s->kv_heads * width, 1);
        r->t.d_o = measure_random(b->m, i, shard * (size_t)s->q_heads * width, 1);
        fine &= method_rank_create(r, s, take_memory, b->m);
    }
    b->method.shape = *s;
    b->method.present = b->present;
    b->method.at = b->rank;
    return fine;
}

static cudaError_t settle(struct method_bench *b)
{
    cudaError_t error = cudaSuccess;
    for (int i = 0; i < b->present && error == cudaSuccess; i++) {
        error = cudaSetDevice(i);
        if (error == cudaSuccess)
            error = cudaDeviceSynchronize();
    }
    cudaSetDevice(0);
    return error;
}

// ---- a point -----------------------------------------------------------------------------------------------------------

static double run_flop(const struct method_case *c, int rank)
{
    double pairs = method_pairs(&c->shape, rank) * c->shape.q_heads * c->shape.head_dim;
    return pairs * (c->backward ? BACKWARD_FLOP : FORWARD_FLOP);
}

static double most_flop(const struct method_case *c)
{
    double most = 0;
    for (int rank = c->on_gpus ? 0 : c->rank; rank < (c->on_gpus ? c->shape.ranks : c->rank + 1); rank++)
        most = fmax(most, run_flop(c, rank));
    return most;
}

static void describe(struct point *p, const char *group, const struct method_case *c)
{
    static const char *const parts[] = {"all", "attention", "transfers"};
    const struct method_shape *s = &c->shape;
    bool bf16 = s->kind == METHOD_ULYSSES || !s->gradient_float;
    point_start(p, group);
    point_text(p, "method", s->ranks == 1 ? "none" : method_name(s->kind));
    point_text(p, "pass", c->backward ? "backward" : "forward");
    point_text(p, "ranks_are", c->on_gpus ? "gpus" : "virtual");
    point_number(p, "ranks", s->ranks);
    if (!c->on_gpus)
        point_number(p, "rank", c->rank);
    point_number(p, "tokens", s->tokens);
    point_number(p, "q_heads", s->q_heads);
    point_number(p, "kv_heads", s->kv_heads);
    point_number(p, "head_dim", s->head_dim);
    if (c->hidden) {
        point_number(p, "hidden", c->hidden);
        point_number(p, "ffn", c->ffn);
    }
    if (c->backward)
        point_text(p, "gradients", bf16 ? "bf16" : "float32");
    point_text(p, "part", parts[c->part]);
    if (c->on_gpus)
        p->spread_limit = GPUS_SPREAD_LIMIT;
    p->flop = c->part == PART_TRANSFERS ? 0 : most_flop(c);
    p->bytes = c->part == PART_ATTENTION ? 0 : method_bytes(s, c->backward);
}

static double rounded(double x)
{
    char text[32];
    double value = 0;
    snprintf(text, sizeof text, "%.4g", x);
    sscanf(text, "%lf", &value);
    return value;
}

// Times between the marks of the first rank, the median of a few runs each: a ring's steps; gather and attention;
// exchange, attention and exchange. Where there are many, the quartiles.
static void note_steps(struct point *p, const double *step_s, int n)
{
    char name[32];
    if (n <= 0)
        return;
    point_note_number(p, "steps", n);
    for (int i = 0; i < n && n <= STEPS_NAMED; i++) {
        snprintf(name, sizeof name, "step_%d_s", i);
        point_note_number(p, name, rounded(step_s[i]));
    }
    for (int i = 0; n > STEPS_NAMED && i <= 4; i++) {
        static const char *const names[] = {"step_min_s", "step_quarter_s", "step_median_s", "step_three_quarters_s",
                                            "step_max_s"};
        struct samples_summary all = samples_summarise(step_s, n);
        double sorted[METHOD_MAX_RANKS + 1];
        memcpy(sorted, step_s, (size_t)n * sizeof *sorted);
        qsort(sorted, (size_t)n, sizeof *sorted, samples_compare);
        point_note_number(p, names[i], rounded(i == 2 ? all.median : samples_quantile(sorted, n, i / 4.0)));
    }
    if (n > STEPS_NAMED) {
        point_note_number(p, "step_first_s", rounded(step_s[0]));
        point_note_number(p, "step_last_s", rounded(step_s[n - 1]));
    }
}

static cudaError_t time_steps(struct method_bench *b, struct point *p, struct work *w)
{
    cudaEvent_t marks[METHOD_MAX_RANKS + 1] = {};
    double times[METHOD_MAX_RANKS][STEP_RUNS], step_s[METHOD_MAX_RANKS];
    cudaError_t error = cudaSuccess;
    int n = 0;
    for (int i = 0; i <= METHOD_MAX_RANKS && error == cudaSuccess; i++)
        error = cudaEventCreate(&marks[i]);
    b->run->marks = marks;
    b->run->max_marks = METHOD_MAX_RANKS + 1;
    for (int run = -1; run < STEP_RUNS && error == cudaSuccess; run++) { // the first does not count
        error = w->launch(w->context, run);
        if (error == cudaSuccess)
            error = settle(b);
        n = b->run->n_marks - 1;
        for (int i = 0; i < n && run >= 0 && error == cudaSuccess; i++) {
            float ms = 0;
            error = cudaEventElapsedTime(&ms, marks[i], marks[i + 1]);
            times[i][run] = ms * 1e-3;
        }
    }
    b->run->marks = NULL;
    for (int i = 0; i < n && error == cudaSuccess; i++)
        step_s[i] = samples_median(times[i], STEP_RUNS);
    if (error == cudaSuccess)
        note_steps(p, step_s, n);
    for (int i = 0; i <= METHOD_MAX_RANKS; i++)
        if (marks[i])
            cudaEventDestroy(marks[i]);
    return error;
}

static cudaError_t forward_once(struct method_bench *b)
{
    cudaError_t error = b->c->hidden ? layer_forward(&b->layer) : method_forward(&b->method);
    if (error == cudaSuccess && b->c->backward) // so that the buffers of transfers hold what comes in them
        error = b->c->hidden ? layer_backward(&b->layer) : method_backward(&b->method);
    return error == cudaSuccess ? settle(b) : error;
}

static void measure_made(struct method_bench *b, struct point *p)
{
    struct work w = measure_work(b->m, b->c->hidden ? launch_layer : launch_method, b);
    cudaError_t error = settle(b);
    w.gpus = b->present;
    w.no_graph = true;
    if (error == cudaSuccess)
        error = forward_once(b);
    b->run->no_transfers = b->c->part == PART_ATTENTION;
    b->run->no_attention = b->c->part == PART_TRANSFERS;
    if (error == cudaSuccess)
        error = time_steps(b, p, &w);
    if (error == cudaSuccess)
        measure_time(b->m, p, &w);
    else
        measure_refuse(b->m, p, "%s", cudaGetErrorString(error));
}

static const char *make_layer(struct method_bench *b)
{
    const struct method_case *c = b->c;
    struct layer_shape s = {c->shape, c->hidden, c->ffn};
    size_t shard = (size_t)(c->shape.tokens / c->shape.ranks);
    const char *why = "";
    bool fine = true;
    for (int i = 0; i < b->present && !*why; i++) {
        struct layer_gpu *g = &b->layer_gpu[i];
        struct layer_rank *r = &b->layer_rank[i];
        for (int j = 0; j < LINEARS; j++) {
            size_t in = layer_linear_in(&s, (enum layer_linear)j), out = layer_linear_out(&s, (enum layer_linear)j);
            g->weight[j] = measure_random(b->m, i, in * out * 2, (float)(1 / sqrt((double)in)));
        }
        g->norm_weight[0] = measure_random(b->m, i, (size_t)c->hidden * 2, 1);
        g->norm_weight[1] = measure_random(b->m, i, (size_t)c->hidden * 2, 1);
        r->method = &b->rank[i];
        r->gpu = g;
        r->x = measure_random(b->m, i, shard * (size_t)c->hidden * 2, 1);
        r->d_out = measure_random(b->m, i, shard * (size_t)c->hidden * 2, 1);
        why = layer_gpu_open(g, &s, i, take_memory, b->m);
        fine &= layer_rank_create(r, &s, take_memory, b->m);
    }
    b->layer.shape = s;
    b->layer.method = b->method;
    b->layer.at = b->layer_rank;
    b->run = &b->layer.method;
    return *why ? why : fine ? "" : "out of memory";
}

// Kept from point to point: opening it takes longer than most of these.
static struct nccl_group *nccl_of(int gpus, const char **why)
{
    static struct nccl_group *group;
    if (!group)
        group = nccl_group_open(gpus, why);
    return group;
}

static void measure_case(struct measure *m, const char *group, const struct method_case *c)
{
    static struct method_bench b; // large
    struct point p;
    const char *why = method_refusal(&c->shape);
    double limit_s = c->on_gpus ? 4 * LONGEST_S : LONGEST_S;
    if (c->shape.tokens / c->shape.ranks < SHORTEST_SHARD || most_flop(c) / GUESSED_RATE > limit_s)
        return;
    describe(&p, group, c);
    if (!measure_wanted(m, &p))
        return;
    if (*why) {
        measure_refuse(m, &p, "%s", why);
        return;
    }
    b = {};
    b.m = m;
    b.c = c;
    b.run = &b.method;
    bool fine = make_ranks(&b);
    if (c->hidden) {
        struct layer_shape s = {c->shape, c->hidden, c->ffn};
        p.flop += layer_linear_flop(&s, c->backward);
        why = make_layer(&b);
        fine = fine && !*why;
    }
    if (c->on_gpus) {
        watchdog_start(p.key, WATCHDOG_SECONDS);
        b.run->nccl = nccl_of(b.present, &why);
        fine = fine && b.run->nccl;
    }
    if (fine)
        measure_made(&b, &p);
    else if (m->memory_short > 0) // says how much
        measure_time(m, &p, NULL);
    else
        measure_refuse(m, &p, "%s", why);
    watchdog_stop();
    for (int i = 0; i < b.present; i++) {
        method_rank_destroy(&b.rank[i]);
        layer_gpu_close(&b.layer_gpu[i]);
    }
    cudaSetDevice(0);
}

// ---- the points --------------------------------------------------------------------------------------------------------

static struct method_case case_of(const struct measure *m, int ranks, int tokens)
{
    struct method_case c = {};
    c.shape.ranks = ranks;
    c.shape.tokens = tokens;
    c.shape.q_heads = m->model.heads;
    c.shape.kv_heads = m->model.kv_heads;
    c.shape.head_dim = m->model.head_dim;
    c.shape.causal = true;
    c.shape.gradient_float = true;
    c.rank = ranks - 1; // where tokens lie contiguously it works most
    return c;
}

static void both_passes(struct measure *m, const char *group, struct method_case *c)
{
    for (int backward = 0; backward < 2; backward++) {
        c->backward = backward;
        measure_case(m, group, c);
    }
}

static void every_method(struct measure *m, const char *group, struct method_case *c)
{
    for (int kind = 0; kind < METHOD_KINDS; kind++) {
        c->shape.kind = (enum method_kind)kind;
        both_passes(m, group, c);
    }
}

// One length and size more closely: other ranks, the parts alone, gradients in bf16.
static void look_closely(struct measure *m, struct method_case c)
{
    enum method_kind rings[] = {METHOD_RING, METHOD_ZIGZAG, METHOD_STRIPED};
    for (int i = 0; i < 3; i++) {
        struct method_case x = c;
        x.shape.kind = rings[i];
        for (int part = PART_ATTENTION; part <= PART_TRANSFERS; part++) {
            x.part = (enum part)part;
            both_passes(m, "method", &x);
        }
        x.part = PART_ALL;
        x.backward = true;
        x.shape.gradient_float = false;
        measure_case(m, "method", &x);
        x.shape.gradient_float = true;
        for (int rank = 0; rank + 1 < c.shape.ranks && !c.on_gpus; rank += c.shape.ranks / 2) {
            x.rank = rank;
            both_passes(m, "method", &x);
        }
    }
}

#define CLOSE_RANKS 8
#define CLOSE_TOKENS 65536

void measure_method(struct measure *m)
{
    static const int ranks[] = {2, 4, 8, 16, 64}, tokens[] = {16384, 65536, 262144};
    static const int gpu_tokens[] = {8192, 16384, 32768, 65536, 131072, 262144, 524288};
    struct method_case c;
    for (int t = 0; m->gpus > 1 && t < 7; t++) {
        if (m->quick && gpu_tokens[t] != CLOSE_TOKENS)
            continue;
        c = case_of(m, m->gpus, gpu_tokens[t]);
        c.on_gpus = true;
        every_method(m, "method", &c);
        c.shape.kind = METHOD_ZIGZAG; // the same work without transfers
        c.part = PART_ATTENTION;
        if (m->quick || gpu_tokens[t] != CLOSE_TOKENS) // there below
            both_passes(m, "method", &c);
    }
    if (m->gpus > 1 && !m->quick) {
        c = case_of(m, m->gpus, CLOSE_TOKENS);
        c.on_gpus = true;
        look_closely(m, c);
    }
    for (int r = 0; r < 5; r++)
        for (int t = 0; t < 3; t++) {
            if (m->quick && (ranks[r] != CLOSE_RANKS || tokens[t] != CLOSE_TOKENS))
                continue;
            c = case_of(m, ranks[r], tokens[t]);
            every_method(m, "method", &c);
        }
    if (!m->quick)
        look_closely(m, case_of(m, CLOSE_RANKS, CLOSE_TOKENS));
}

void measure_layer(struct measure *m)
{
    static const int shards[] = {8192, 16384};
    for (int tokens = 16384; m->gpus > 1 && tokens <= 131072; tokens *= m->quick ? 16 : 2) {
        struct method_case c = case_of(m, m->gpus, tokens);
        c.hidden = m->model.hidden;
        c.ffn = m->model.ffn;
        c.on_gpus = true;
        every_method(m, "layer", &c);
    }
    for (int i = 0; i < (m->quick ? 1 : 2); i++)
        for (int ranks = 1; ranks <= CLOSE_RANKS; ranks *= CLOSE_RANKS) {
            struct method_case c = case_of(m, ranks, ranks * shards[i]);
            c.hidden = m->model.hidden;
            c.ffn = m->model.ffn;
            c.shape.kind = METHOD_RING;
            c.shape.gradient_float = ranks > 1;
            if (ranks == 1)
                both_passes(m, "layer", &c);
            else
                every_method(m, "layer", &c);
        }
}
