// Matrix products of a transformer layer and its head, forward and both gradients, and a sweep over the inner dimension.
#include "gemm.h"
#include "measure.h"

#include <math.h>
#include <stdio.h>

#define BF16 2.0
#define SWEEP_SIZE 8192 // rows and columns of the sweep's result

static const char *const pass_names[] = {"forward", "input-gradient", "weight-gradient"};

struct product {
    struct gemm gemm;
    struct buffer_sets sets;
    size_t a, b, to; // offsets in a set
    cudaStream_t stream;
};

static cudaError_t launch(void *context, int run)
{
    const struct product *g = (const struct product *)context;
    char *set = set_of(&g->sets, run);
    return gemm_run(&g->gemm, set + g->a, set + g->b, set + g->to, g->stream);
}

struct linear {
    const char *part;
    int tokens, in, out;
};

static void measure_one(struct measure *m, const struct linear *l, enum gemm_pass pass)
{
    struct point p;
    struct product g = {};
    double x = (double)l->tokens * l->in, w = (double)l->in * l->out, y = (double)l->tokens * l->out;
    size_t at = 0;
    point_start(&p, "gemm");
    point_text(&p, "part", l->part);
    point_text(&p, "pass", pass_names[pass]);
    point_number(&p, "tokens", l->tokens);
    point_number(&p, "in", l->in);
    point_number(&p, "out", l->out);
    // As a plain product: m by n, over k.
    point_note_number(&p, "m", pass == GEMM_WEIGHT_GRADIENT ? l->out : l->tokens);
    point_note_number(&p, "n", pass == GEMM_FORWARD ? l->out : l->in);
    point_note_number(&p, "k", pass == GEMM_FORWARD ? l->in : pass == GEMM_INPUT_GRADIENT ? l->out : l->tokens);
    p.flop = 2.0 * l->tokens * l->in * l->out;
    p.bytes = BF16 * (x + w + y);
    if (!measure_wanted(m, &p))
        return;
    double a = pass == GEMM_FORWARD ? x : y, b = pass == GEMM_WEIGHT_GRADIENT ? x : w;
    g.a = set_take(&at, (size_t)(BF16 * a));
    g.b = set_take(&at, (size_t)(BF16 * b));
    g.to = set_take(&at, (size_t)(BF16 * (x + w + y - a - b)));
    g.stream = m->stream[0];
    g.sets = measure_sets(m, 0, at);
    g.gemm.workspace = measure_alloc(m, 0, GEMM_WORKSPACE_BYTES);
    const char *lacking = gemm_open(&g.gemm, pass, l->tokens, l->in, l->out);
    if (lacking[0]) {
        measure_refuse(m, &p, "%s", lacking);
        return;
    }
    struct work work = measure_work(m, launch, &g);
    measure_time(m, &p, &work);
    gemm_close(&g.gemm);
}

static void measure_layer(struct measure *m, int tokens)
{
    const struct model_shapes *s = &m->model;
    int heads = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    struct linear parts[] = {
        {"qkv", tokens, s->hidden, heads + 2 * kv}, {"output", tokens, heads, s->hidden},
        {"gate-up", tokens, s->hidden, 2 * s->ffn}, {"down", tokens, s->ffn, s->hidden},
        {"head", tokens, s->hidden, s->vocab},
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        for (int pass = GEMM_FORWARD; pass <= GEMM_WEIGHT_GRADIENT; pass++)
            measure_one(m, &parts[i], (enum gemm_pass)pass);
}

void measure_gemm(struct measure *m)
{
    static const int inner[] = {64, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 8192, 16384};
    for (int tokens = 1024; tokens <= 32768; tokens *= m->quick ? 4 : 2)
        measure_layer(m, tokens);
    for (size_t i = 0; i < sizeof inner / sizeof inner[0]; i += m->quick ? 3 : 1) {
        struct linear l = {"sweep", SWEEP_SIZE, inner[i], SWEEP_SIZE};
        measure_one(m, &l, GEMM_FORWARD);
    }
}
