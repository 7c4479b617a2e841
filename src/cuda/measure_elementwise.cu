// The kernels of a layer that only move memory, and the optimizer's step. Bytes: each input once, each output once.
#include "elementwise.h"
#include "measure.h"

#include <math.h>
#include <stdio.h>

#define EPSILON 1e-5f
#define BF16 2.0
#define FLOAT32 4.0
#define MAX_PARTS 6

// A kernel's buffers, by what a token of them holds; bytes a token moves over all of them.
struct shape {
    size_t part_bytes[MAX_PARTS]; // for all tokens
    double bytes;
};

struct elementwise {
    const struct kernel *kernel;
    struct model_shapes model;
    int tokens;
    struct buffer_sets sets;
    size_t part[MAX_PARTS]; // offsets in a set
    cudaStream_t stream;
};

struct kernel {
    const char *name, *pass;
    // Columns of each buffer and bytes of a value, and the columns' name in the parameters.
    struct shape (*shape)(const struct model_shapes *model, double tokens);
    cudaError_t (*launch)(const struct elementwise *e, char *const *part);
};

// ---- shapes --------------------------------------------------------------------------------------------------------------

static struct shape shape_of(double bytes, double a, double b, double c, double d)
{
    struct shape s = {{(size_t)a, (size_t)b, (size_t)c, (size_t)d}, bytes};
    return s;
}

static struct shape norm_shape(const struct model_shapes *m, double t)
{
    double row = BF16 * m->hidden;
    return shape_of(2 * t * row + t * FLOAT32 + row, t * row, t * row, row, t * FLOAT32);
}

static struct shape norm_residual_shape(const struct model_shapes *m, double t)
{
    double row = BF16 * m->hidden;
    struct shape s = shape_of(4 * t * row + t * FLOAT32 + row, t * row, t * row, row, t * FLOAT32);
    s.part_bytes[4] = s.part_bytes[5] = (size_t)(t * row);
    return s;
}

static struct shape norm_gradient_shape(const struct model_shapes *m, double t)
{
    double row = BF16 * m->hidden;
    struct shape s = shape_of(4 * t * row + t * FLOAT32 + row, t * row, t * row, row, t * FLOAT32);
    s.part_bytes[4] = (size_t)(t * row);
    s.part_bytes[5] = (size_t)(FLOAT32 * m->hidden * (RMSNORM_PARTIALS + 1));
    return s;
}

static struct shape swiglu_shape(const struct model_shapes *m, double t)
{
    double row = BF16 * m->ffn;
    return shape_of(3 * t * row, 2 * t * row, t * row, 0, 0);
}

static struct shape swiglu_gradient_shape(const struct model_shapes *m, double t)
{
    double row = BF16 * m->ffn;
    return shape_of(5 * t * row, 2 * t * row, t * row, 2 * t * row, 0);
}

static struct shape rotary_shape(const struct model_shapes *m, double t)
{
    double row = BF16 * (m->heads + m->kv_heads) * m->head_dim, table = FLOAT32 * m->head_dim;
    return shape_of(2 * t * row + t * table, t * row, t * table, 0, 0);
}

static struct shape residual_shape(const struct model_shapes *m, double t)
{
    double row = BF16 * m->hidden;
    return shape_of(3 * t * row, t * row, t * row, t * row, 0);
}

static struct shape cast_shape(const struct model_shapes *m, double t)
{
    double values = t * m->hidden;
    return shape_of(values * (BF16 + FLOAT32), values * FLOAT32, values * BF16, 0, 0);
}

// ---- launches --------------------------------------------------------------------------------------------------------------

static cudaError_t norm(const struct elementwise *e, char *const *part)
{
    struct rmsnorm n = {e->tokens, e->model.hidden, EPSILON, part[0], NULL, part[2], NULL, part[1], (float *)part[3]};
    return rmsnorm_forward(&n, e->stream);
}

static cudaError_t norm_residual(const struct elementwise *e, char *const *part)
{
    struct rmsnorm n = {e->tokens, e->model.hidden, EPSILON, part[0],         part[4],
                        part[2],   part[5],         part[1], (float *)part[3]};
    return rmsnorm_forward(&n, e->stream);
}

static cudaError_t norm_gradient(const struct elementwise *e, char *const *part)
{
    float *partials = (float *)part[5], *d_weight = partials + (size_t)RMSNORM_PARTIALS * (size_t)e->model.hidden;
    struct rmsnorm_gradient n = {e->tokens, e->model.hidden,        part[0], part[2],  part[1],
                                 part[4],   (const float *)part[3], part[4], partials, d_weight};
    return rmsnorm_backward(&n, e->stream);
}

static cudaError_t swiglu(const struct elementwise *e, char *const *part)
{
    return swiglu_forward(part[0], part[1], e->tokens, e->model.ffn, e->stream);
}

static cudaError_t swiglu_gradient(const struct elementwise *e, char *const *part)
{
    return swiglu_backward(part[0], part[1], part[2], e->tokens, e->model.ffn, e->stream);
}

static cudaError_t rotary(const struct elementwise *e, char *const *part)
{
    struct rotary r = {e->tokens, e->model.heads + e->model.kv_heads, e->model.head_dim, 1, part[0], (float *)part[1]};
    return rotary_run(&r, e->stream);
}

static cudaError_t add(const struct elementwise *e, char *const *part)
{
    return residual_add(part[0], part[1], part[2], (size_t)e->tokens * (size_t)e->model.hidden, e->stream);
}

static cudaError_t round_values(const struct elementwise *e, char *const *part)
{
    return cast_to_bf16((const float *)part[0], part[1], (size_t)e->tokens * (size_t)e->model.hidden, e->stream);
}

static cudaError_t widen_values(const struct elementwise *e, char *const *part)
{
    return cast_to_float(part[1], (float *)part[0], (size_t)e->tokens * (size_t)e->model.hidden, e->stream);
}

static const struct kernel kernels[] = {
    {"rmsnorm", "forward", norm_shape, norm},
    {"rmsnorm-residual", "forward", norm_residual_shape, norm_residual},
    {"rmsnorm-residual", "backward", norm_gradient_shape, norm_gradient},
    {"swiglu", "forward", swiglu_shape, swiglu},
    {"swiglu", "backward", swiglu_gradient_shape, swiglu_gradient},
    {"rotary", "forward", rotary_shape, rotary}, // the backward pass is the same kernel
    {"residual-add", "forward", residual_shape, add},
    {"cast-to-bf16", "forward", cast_shape, round_values},
    {"cast-to-float32", "forward", cast_shape, widen_values},
};

static cudaError_t launch(void *context, int run)
{
    const struct elementwise *e = (const struct elementwise *)context;
    char *part[MAX_PARTS];
    for (int i = 0; i < MAX_PARTS; i++)
        part[i] = set_of(&e->sets, run) + e->part[i];
    return e->kernel->launch(e, part);
}

static void measure_one(struct measure *m, const struct kernel *k, int tokens)
{
    struct point p;
    struct elementwise e = {k, m->model, tokens, {}, {}, m->stream[0]};
    struct shape s = k->shape(&m->model, tokens);
    size_t at = 0;
    point_start(&p, "elementwise");
    point_text(&p, "kernel", k->name);
    point_text(&p, "pass", k->pass);
    point_number(&p, "tokens", tokens);
    if (k->shape == swiglu_shape || k->shape == swiglu_gradient_shape)
        point_number(&p, "ffn", m->model.ffn);
    else if (k->shape == rotary_shape)
        point_number(&p, "columns", (m->model.heads + m->model.kv_heads) * m->model.head_dim);
    else
        point_number(&p, "hidden", m->model.hidden);
    p.bytes = s.bytes;
    if (!measure_wanted(m, &p))
        return;
    for (int i = 0; i < MAX_PARTS; i++)
        e.part[i] = set_take(&at, s.part_bytes[i]);
    e.sets = measure_sets(m, 0, at);
    struct work w = measure_work(m, launch, &e);
    measure_time(m, &p, &w);
}

void measure_elementwise(struct measure *m)
{
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++)
        for (int tokens = 1024; tokens <= 65536; tokens *= m->quick ? 8 : 2)
            measure_one(m, &kernels[i], tokens);
}

// ---- optimizer -----------------------------------------------------------------------------------------------------------

struct optimizer {
    struct adam adam;
    struct buffer_sets sets;
    size_t master, first, second, weight, gradient; // offsets in a set
    cudaStream_t stream;
};

static cudaError_t launch_adam(void *context, int run)
{
    const struct optimizer *o = (const struct optimizer *)context;
    struct adam a = o->adam;
    char *set = set_of(&o->sets, run);
    a.master = (float *)(set + o->master);
    a.first = (float *)(set + o->first);
    a.second = (float *)(set + o->second);
    a.weight = set + o->weight;
    a.gradient = set + o->gradient;
    return adam_step(&a, o->stream);
}

static void measure_adam(struct measure *m, double parameters, bool gradient_float)
{
    struct point p;
    struct optimizer o = {};
    size_t n = (size_t)parameters, at = 0;
    point_start(&p, "optimizer");
    point_text(&p, "kernel", "adam");
    point_text(&p, "gradient", gradient_float ? "float32" : "bf16");
    point_number(&p, "parameters", parameters);
    // Master and both moments read and written, the gradient read, the bf16 weight written.
    p.bytes = parameters * (6 * FLOAT32 + (gradient_float ? FLOAT32 : BF16) + BF16);
    if (!measure_wanted(m, &p))
        return;
    o.adam = {n, NULL, NULL, NULL, NULL, NULL, gradient_float, 1e-4f, 0.9f, 0.95f, 1e-8f, 0.1f, 100};
    o.stream = m->stream[0];
    o.master = set_take(&at, n * sizeof(float));
    o.first = set_take(&at, n * sizeof(float));
    o.second = set_take(&at, n * sizeof(float));
    o.weight = set_take(&at, n * 2);
    o.gradient = set_take(&at, n * (gradient_float ? 4 : 2));
    o.sets = measure_sets(m, 0, at);
    for (int i = 0; o.sets.base && i < o.sets.count; i++) // squares: never negative
        cudaMemsetAsync(set_of(&o.sets, i) + o.second, 0, n * sizeof(float), o.stream);
    struct work w = measure_work(m, launch_adam, &o);
    measure_time(m, &p, &w);
}

void measure_optimizer(struct measure *m)
{
    static const double millions[] = {1, 4, 16, 64, 256, 1024};
    for (int gradient_float = 0; gradient_float < 2; gradient_float++)
        for (size_t i = 0; i < sizeof millions / sizeof millions[0]; i++)
            if (!m->quick || (i % 2 == 0 && gradient_float))
                measure_adam(m, millions[i] * 1048576, gradient_float);
}
