// seqplan-device test-elementwise: what `measure` times besides attention, against float64 on the CPU. TAP.
//
// Inputs are random and fresh (the seed is printed; --seed repeats a run), outputs poisoned with NaN. Errors are norm of
// the difference over norm of the reference; results are rounded to bf16, whose unit roundoff is 2^-9 = 0.002.
#include "device_program.h"
#include "elementwise.h"
#include "gemm.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BF16_LIMIT 3e-3
#define FLOAT_LIMIT 1e-5
#define EPSILON 1e-5
#define POISON 0xff // a NaN in every format
#define MAX_ARRAYS 16

// An array on both sides. Inputs: `value` is what the rounded ones on the device stand for. Outputs: what should come.
struct array {
    size_t n;
    bool is_float;
    double *value;
    void *device;
};

struct test {
    uint64_t random;
    struct array array[MAX_ARRAYS];
    int arrays;
    cudaError_t error;
    double worst_bf16, worst_float;
};

static struct array *new_array(struct test *t, size_t n, bool is_float)
{
    struct array *a = &t->array[t->arrays++];
    a->n = n;
    a->is_float = is_float;
    a->value = (double *)calloc(n, sizeof *a->value);
    if (t->arrays > MAX_ARRAYS || !a->value)
        abort();
    if (t->error == cudaSuccess)
        t->error = cudaMalloc(&a->device, n * (is_float ? 4 : 2));
    if (t->error == cudaSuccess)
        t->error = cudaMemset(a->device, POISON, n * (is_float ? 4 : 2));
    return a;
}

static void upload(struct test *t, struct array *a)
{
    void *raw = malloc(a->n * 4);
    if (!raw)
        abort();
    for (size_t i = 0; i < a->n; i++)
        if (a->is_float)
            ((float *)raw)[i] = (float)a->value[i], a->value[i] = ((float *)raw)[i];
        else
            ((uint16_t *)raw)[i] = bf16_of(a->value[i]), a->value[i] = bf16_value(((uint16_t *)raw)[i]);
    if (t->error == cudaSuccess)
        t->error = cudaMemcpy(a->device, raw, a->n * (a->is_float ? 4 : 2), cudaMemcpyHostToDevice);
    free(raw);
}

static struct array *input(struct test *t, size_t n, bool is_float, double scale)
{
    struct array *a = new_array(t, n, is_float);
    for (size_t i = 0; i < n; i++)
        a->value[i] = scale * random_normal(&t->random);
    upload(t, a);
    return a;
}

// The error of what is on the device; a NaN is infinitely wrong.
static void compare(struct test *t, const struct array *a)
{
    void *raw = malloc(a->n * 4);
    double difference = 0, norm = 0;
    if (!raw)
        abort();
    if (t->error == cudaSuccess)
        t->error = cudaMemcpy(raw, a->device, a->n * (a->is_float ? 4 : 2), cudaMemcpyDeviceToHost);
    for (size_t i = 0; i < a->n && t->error == cudaSuccess; i++) {
        double got = a->is_float ? (double)((float *)raw)[i] : bf16_value(((uint16_t *)raw)[i]);
        difference += (got - a->value[i]) * (got - a->value[i]);
        norm += a->value[i] * a->value[i];
    }
    free(raw);
    double error = norm > 0 ? sqrt(difference / norm) : INFINITY;
    double *worst = a->is_float ? &t->worst_float : &t->worst_bf16;
    *worst = error <= *worst ? *worst : error; // also when it is no number
}

static void ran(struct test *t, cudaError_t launched)
{
    if (t->error == cudaSuccess)
        t->error = launched;
    if (t->error == cudaSuccess)
        t->error = cudaDeviceSynchronize();
}

// ---- tests ---------------------------------------------------------------------------------------------------------------

static void rmsnorm_rows(const struct rmsnorm *s, const double *x, const double *w, struct array *y, struct array *rstd)
{
    for (int i = 0; i < s->tokens; i++) {
        const double *row = x + (size_t)i * (size_t)s->hidden;
        double squares = 0;
        for (int j = 0; j < s->hidden; j++)
            squares += row[j] * row[j];
        rstd->value[i] = 1 / sqrt(squares / s->hidden + EPSILON);
        for (int j = 0; j < s->hidden; j++)
            y->value[(size_t)i * (size_t)s->hidden + (size_t)j] = row[j] * rstd->value[i] * w[j];
    }
}

static void test_rmsnorm(struct test *t, int tokens, int hidden, bool with_residual)
{
    size_t n = (size_t)tokens * (size_t)hidden;
    struct array *x = input(t, n, false, 2), *w = input(t, (size_t)hidden, false, 1), *r = input(t, n, false, 1);
    struct array *sum = new_array(t, n, false), *y = new_array(t, n, false), *rstd = new_array(t, (size_t)tokens, true);
    struct rmsnorm s = {
        tokens,      hidden,    (float)EPSILON,       x->device, with_residual ? r->device : NULL, w->device,
        sum->device, y->device, (float *)rstd->device};
    ran(t, rmsnorm_forward(&s, 0));
    for (size_t i = 0; i < n; i++)
        sum->value[i] = with_residual ? bf16_value(bf16_of(x->value[i] + r->value[i])) : x->value[i];
    rmsnorm_rows(&s, sum->value, w->value, y, rstd);
    if (with_residual)
        compare(t, sum);
    compare(t, y);
    compare(t, rstd);
}

static void test_rmsnorm_gradient(struct test *t, int tokens, int hidden, bool with_residual)
{
    size_t n = (size_t)tokens * (size_t)hidden, h = (size_t)hidden;
    struct array *x = input(t, n, false, 2), *w = input(t, h, false, 1), *dy = input(t, n, false, 1);
    struct array *r = input(t, n, false, 1), *dx = new_array(t, n, false), *dw = new_array(t, h, true);
    struct array *partials = new_array(t, h * RMSNORM_PARTIALS, true), *rstd = new_array(t, (size_t)tokens, true);
    for (int i = 0; i < tokens; i++) {
        double squares = 0, dot = 0;
        for (size_t j = 0, at = (size_t)i * h; j < h; j++, at++)
            squares += x->value[at] * x->value[at];
        double inverse = rstd->value[i] = 1 / sqrt(squares / hidden + EPSILON);
        for (size_t j = 0, at = (size_t)i * h; j < h; j++, at++) {
            dot += dy->value[at] * w->value[j] * x->value[at] * inverse;
            dw->value[j] += dy->value[at] * x->value[at] * inverse;
        }
        for (size_t j = 0, at = (size_t)i * h; j < h; j++, at++)
            dx->value[at] = inverse * (dy->value[at] * w->value[j] - x->value[at] * inverse * dot / hidden) +
                            (with_residual ? r->value[at] : 0);
    }
    upload(t, rstd);
    struct rmsnorm_gradient s = {tokens,
                                 hidden,
                                 x->device,
                                 w->device,
                                 dy->device,
                                 with_residual ? r->device : NULL,
                                 (const float *)rstd->device,
                                 dx->device,
                                 (float *)partials->device,
                                 (float *)dw->device};
    ran(t, rmsnorm_backward(&s, 0));
    compare(t, dx);
    compare(t, dw);
}

static void test_swiglu(struct test *t, int tokens, int ffn, bool unused)
{
    size_t n = (size_t)tokens * (size_t)ffn;
    struct array *x = input(t, 2 * n, false, 2), *y = new_array(t, n, false), *dy = input(t, n, false, 1);
    struct array *dx = new_array(t, 2 * n, false);
    (void)unused;
    ran(t, swiglu_forward(x->device, y->device, tokens, ffn, 0));
    ran(t, swiglu_backward(x->device, dy->device, dx->device, tokens, ffn, 0));
    for (size_t i = 0; i < n; i++) {
        size_t gate = i / (size_t)ffn * 2 * (size_t)ffn + i % (size_t)ffn, up = gate + (size_t)ffn;
        double g = x->value[gate], s = 1 / (1 + exp(-g));
        y->value[i] = g * s * x->value[up];
        dx->value[gate] = dy->value[i] * x->value[up] * (s + g * s * (1 - s));
        dx->value[up] = dy->value[i] * g * s;
    }
    compare(t, y);
    compare(t, dx);
}

static void test_rotary(struct test *t, int tokens, int heads, bool back)
{
    int head_dim = 96, half = head_dim / 2, direction = back ? -1 : 1;
    struct array *x = input(t, (size_t)(tokens * heads * head_dim), false, 1);
    struct array *table = new_array(t, (size_t)(tokens * head_dim), true);
    for (int i = 0; i < tokens * half; i++) {
        double angle = 10 * random_normal(&t->random);
        table->value[i / half * head_dim + i % half] = cos(angle);
        table->value[i / half * head_dim + half + i % half] = sin(angle);
    }
    upload(t, table);
    struct rotary r = {tokens, heads, head_dim, direction, x->device, (const float *)table->device};
    ran(t, rotary_run(&r, 0));
    for (int i = 0; i < tokens * heads * half; i++) {
        double *low = &x->value[i / half * head_dim + i % half], *high = low + half, a = *low, b = *high;
        const double *c = &table->value[i / half / heads * head_dim + i % half], *s = c + half;
        *low = a * *c - b * *s * direction;
        *high = b * *c + a * *s * direction;
    }
    compare(t, x);
}

static void test_plain(struct test *t, int rows, int columns, bool unused)
{
    size_t n = (size_t)rows * (size_t)columns;
    struct array *x = input(t, n, false, 1), *y = input(t, n, false, 1), *z = new_array(t, n, false);
    struct array *f = input(t, n, true, 1), *rounded = new_array(t, n, false), *wide = new_array(t, n, true);
    (void)unused;
    ran(t, residual_add(x->device, y->device, z->device, n, 0));
    ran(t, cast_to_bf16((const float *)f->device, rounded->device, n, 0));
    ran(t, cast_to_float(x->device, (float *)wide->device, n, 0));
    for (size_t i = 0; i < n; i++) {
        z->value[i] = x->value[i] + y->value[i];
        rounded->value[i] = f->value[i];
        wide->value[i] = x->value[i];
    }
    compare(t, z);
    compare(t, rounded);
    compare(t, wide);
}

static void test_adam(struct test *t, int rows, int columns, bool gradient_float)
{
    size_t n = (size_t)rows * (size_t)columns;
    struct array *master = input(t, n, true, 1), *first = input(t, n, true, 0.1), *second = input(t, n, true, 0.1);
    struct array *g = input(t, n, gradient_float, 1), *w = new_array(t, n, false);
    struct adam a = {n,
                     (float *)master->device,
                     (float *)first->device,
                     (float *)second->device,
                     w->device,
                     g->device,
                     gradient_float,
                     0.03f,
                     0.9f,
                     0.95f,
                     1e-8f,
                     0.1f,
                     7};
    for (size_t i = 0; i < n; i++)
        second->value[i] = second->value[i] * second->value[i];
    upload(t, second);
    ran(t, adam_step(&a, 0));
    for (size_t i = 0; i < n; i++) {
        double *m = &first->value[i], *v = &second->value[i], b1 = a.beta1, b2 = a.beta2;
        *m = b1 * *m + (1 - b1) * g->value[i];
        *v = b2 * *v + (1 - b2) * g->value[i] * g->value[i];
        double step = *m / (1 - pow(b1, a.step)) / (sqrt(*v / (1 - pow(b2, a.step))) + a.epsilon);
        w->value[i] = master->value[i] -= a.rate * (step + a.decay * master->value[i]);
    }
    compare(t, master);
    compare(t, first);
    compare(t, second);
    compare(t, w);
}

// x [tokens][in], w [out][in]: the three products of a linear layer.
static void test_gemm(struct test *t, int tokens, int in, bool unused)
{
    int out = in + 40;
    size_t nx = (size_t)(tokens * in), nw = (size_t)(in * out), ny = (size_t)(tokens * out);
    struct array *x = input(t, nx, false, 1), *w = input(t, nw, false, 1), *dy = input(t, ny, false, 1);
    struct array *to[3] = {new_array(t, ny, false), new_array(t, nx, false), new_array(t, nw, false)};
    struct array *workspace = new_array(t, GEMM_WORKSPACE_BYTES / 4, true);
    const struct array *a[3] = {x, dy, dy}, *b[3] = {w, w, x};
    (void)unused;
    for (int i = 0; i < tokens; i++)
        for (int o = 0; o < out; o++)
            for (int j = 0; j < in; j++) {
                to[0]->value[i * out + o] += x->value[i * in + j] * w->value[o * in + j];
                to[1]->value[i * in + j] += dy->value[i * out + o] * w->value[o * in + j];
                to[2]->value[o * in + j] += dy->value[i * out + o] * x->value[i * in + j];
            }
    for (int pass = 0; pass < 3; pass++) {
        struct gemm g = {NULL, workspace->device};
        const char *lacking = gemm_open(&g, (enum gemm_pass)pass, tokens, in, out);
        if (lacking[0])
            printf("# %s\n", lacking);
        ran(t,
            lacking[0] ? cudaErrorNotSupported : gemm_run(&g, a[pass]->device, b[pass]->device, to[pass]->device, 0));
        compare(t, to[pass]);
        gemm_close(&g);
    }
}

static const struct {
    const char *name;
    void (*run)(struct test *t, int rows, int columns, bool flag);
    int rows, columns;
    bool flag;
} tests[] = {
    {"RMSNorm, 61 rows of 488", test_rmsnorm, 61, 488, false},
    {"RMSNorm of a sum, 7 rows of 5120", test_rmsnorm, 7, 5120, true},
    {"RMSNorm of a sum, 3 rows of 16384", test_rmsnorm, 3, 16384, true},
    {"RMSNorm backward, 7 rows of 488", test_rmsnorm_gradient, 7, 488, false},
    {"RMSNorm backward with a residual, 1061 rows of 2056", test_rmsnorm_gradient, 1061, 2056, true},
    {"RMSNorm backward, 300 rows of 16384", test_rmsnorm_gradient, 300, 16384, true},
    {"SwiGLU, 61 rows of 2760", test_swiglu, 61, 2760, false},
    {"SwiGLU, 65536 rows of 8", test_swiglu, 65536, 8, false},
    {"rotary, 37 tokens of 11 heads", test_rotary, 37, 11, false},
    {"rotary backward, 37 tokens of 11 heads", test_rotary, 37, 11, true},
    {"residual and casts, 61 rows of 1000", test_plain, 61, 1000, false},
    {"Adam, bf16 gradients", test_adam, 61, 1004, false},
    {"Adam, float32 gradients", test_adam, 61, 1004, true},
    {"products of a linear layer, 104 by 72 by 112", test_gemm, 104, 72, false},
    {"products of a linear layer, 376 by 200 by 240", test_gemm, 376, 200, false},
};

static bool run_test(size_t i, uint64_t seed, bool gpu)
{
    struct test t = {};
    if (!gpu) {
        printf("ok %zu - %s # SKIP no GPU\n", i + 1, tests[i].name);
        return true;
    }
    t.random = seed * 1000003 + i;
    tests[i].run(&t, tests[i].rows, tests[i].columns, tests[i].flag);
    bool fine = t.error == cudaSuccess && t.worst_bf16 < BF16_LIMIT && t.worst_float < FLOAT_LIMIT;
    printf("%s %zu - %s\n# errors: bf16 %.1e float32 %.1e %s\n", fine ? "ok" : "not ok", i + 1, tests[i].name,
           t.worst_bf16, t.worst_float, t.error == cudaSuccess ? "" : cudaGetErrorString(t.error));
    for (int j = 0; j < t.arrays; j++) {
        free(t.array[j].value);
        cudaFree(t.array[j].device);
    }
    fflush(stdout);
    return fine;
}

int device_test_elementwise(int argc, char **argv)
{
    uint64_t seed = argc == 3 && strcmp(argv[1], "--seed") == 0 ? strtoull(argv[2], NULL, 10) : (uint64_t)time(NULL);
    size_t count = sizeof tests / sizeof tests[0], failed = 0;
    int gpus = 0;
    bool gpu = cudaGetDeviceCount(&gpus) == cudaSuccess && gpus > 0;
    printf("1..%zu\n# seed %llu\n", count, (unsigned long long)seed);
    for (size_t i = 0; i < count; i++)
        failed += !run_test(i, seed, gpu);
    return failed > 0;
}
