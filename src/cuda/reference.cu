// Random inputs, and attention in float64 on the CPU: what the kernels are compared with.
#include "device_program.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// splitmix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014.
uint64_t random_next(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

double random_normal(uint64_t *state)
{
    const double unit = 1.0 / 9007199254740992.0, two_pi = 6.283185307179586; // 2^-53
    double u = ((double)(random_next(state) >> 11) + 1) * unit, v = (double)(random_next(state) >> 11) * unit;
    return sqrt(-2 * log(u)) * cos(two_pi * v);
}

uint16_t bf16_of(double x)
{
    float f = (float)x;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

double bf16_value(uint16_t x)
{
    uint32_t bits = (uint32_t)x << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

void random_bf16(uint64_t *state, double scale, size_t n, uint16_t *rounded, double *values)
{
    for (size_t i = 0; i < n; i++) {
        rounded[i] = bf16_of(scale * random_normal(state));
        if (values)
            values[i] = bf16_value(rounded[i]);
    }
}

static double dot(const double *a, const double *b, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

static bool sees(const struct reference *r, int i, int j)
{
    return !r->causal || r->k_position[j] <= r->q_position[i];
}

static size_t at(int token, int head, int heads, int head_dim)
{
    return ((size_t)token * (size_t)heads + (size_t)head) * (size_t)head_dim;
}

static void forward_row(const struct reference *r, int i, int head, double *scores, double *o, double *lse)
{
    int d = r->head_dim, kv_head = head / (r->q_heads / r->kv_heads);
    const double *q = r->q + at(i, head, r->q_heads, d);
    double high = -INFINITY, sum = 0;
    double *out = o + at(i, head, r->q_heads, d);

    for (int j = 0; j < r->k_tokens; j++) {
        scores[j] = sees(r, i, j) ? r->scale * dot(q, r->k + at(j, kv_head, r->kv_heads, d), d) : -INFINITY;
        high = fmax(high, scores[j]);
    }
    for (int c = 0; c < d; c++)
        out[c] = 0;
    for (int j = 0; j < r->k_tokens; j++) {
        double p = scores[j] > -INFINITY ? exp(scores[j] - high) : 0;
        const double *v = r->v + at(j, kv_head, r->kv_heads, d);
        sum += p;
        for (int c = 0; p > 0 && c < d; c++)
            out[c] += p * v[c];
    }
    for (int c = 0; sum > 0 && c < d; c++)
        out[c] /= sum;
    lse[(size_t)head * (size_t)r->q_tokens + (size_t)i] = sum > 0 ? high + log(sum) : -INFINITY;
}

void reference_forward(const struct reference *r, double *o, double *lse)
{
#pragma omp parallel
    {
        double *scores = (double *)malloc((size_t)r->k_tokens * sizeof *scores);
#pragma omp for collapse(2) schedule(dynamic, 8)
        for (int i = 0; i < r->q_tokens; i++)
            for (int head = 0; head < r->q_heads; head++)
                forward_row(r, i, head, scores, o, lse);
        free(scores);
    }
}

// Adds one query head's part of dK and dV of its kv head.
static void backward_row(const struct reference *r, int i, int head, const double *o, const double *lse,
                         const double *d_o, double *dq, double *dk, double *dv)
{
    int d = r->head_dim, kv_head = head / (r->q_heads / r->kv_heads);
    size_t row = at(i, head, r->q_heads, d);
    double delta = dot(o + row, d_o + row, d), l = lse[(size_t)head * (size_t)r->q_tokens + (size_t)i];

    for (int c = 0; c < d; c++)
        dq[row + (size_t)c] = 0;
    for (int j = 0; j < r->k_tokens; j++) {
        size_t key = at(j, kv_head, r->kv_heads, d);
        if (!sees(r, i, j))
            continue;
        double p = exp(r->scale * dot(r->q + row, r->k + key, d) - l);
        double ds = r->scale * p * (dot(d_o + row, r->v + key, d) - delta);
        for (int c = 0; c < d; c++) {
            dq[row + (size_t)c] += ds * r->k[key + (size_t)c];
            dk[key + (size_t)c] += ds * r->q[row + (size_t)c];
            dv[key + (size_t)c] += p * d_o[row + (size_t)c];
        }
    }
}

void reference_backward(const struct reference *r, const double *o, const double *lse, const double *d_o, double *dq,
                        double *dk, double *dv)
{
    size_t n = at(r->k_tokens, 0, r->kv_heads, r->head_dim);
    int group = r->q_heads / r->kv_heads;

    memset(dk, 0, n * sizeof *dk);
    memset(dv, 0, n * sizeof *dv);
#pragma omp parallel for schedule(dynamic, 1)
    for (int kv_head = 0; kv_head < r->kv_heads; kv_head++)
        for (int head = kv_head * group; head < (kv_head + 1) * group; head++)
            for (int i = 0; i < r->q_tokens; i++)
                backward_row(r, i, head, o, lse, d_o, dq, dk, dv);
}
