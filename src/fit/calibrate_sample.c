/* A fitted curve as the rows of a table: as few as the program's interpolation needs to follow it. */
#include "fit/fit_internal.h"

#include <math.h>

enum { DEEPEST = 12 };

static void add(struct curve_samples *samples, double x, double y)
{
    if (samples->n == samples->capacity) {
        samples->items =
            sp_arena_grow(samples->arena, samples->items, samples->n, &samples->capacity, sizeof(*samples->items));
    }
    samples->items[samples->n++] = (struct curve_sample){x, y};
}

static double between(const struct curve_sampling *sampling, const struct curve_sample *a, const struct curve_sample *b,
                      double x)
{
    double t = log(x / a->x) / log(b->x / a->x);
    return sampling->is_linear ? a->y + t * (b->y - a->y) : a->y * pow(b->y / a->y, t);
}

static bool is_followed(const struct curve_sampling *sampling, const struct curve_sample *a,
                        const struct curve_sample *b)
{
    enum { PARTS = 8 };
    for (int i = 1; i < PARTS; i++) {
        double x = a->x * pow(b->x / a->x, (double)i / PARTS);
        double exact = sampling->value(sampling->user, x);
        if (!(fabs(between(sampling, a, b, x) / exact - 1) <= sampling->tolerance)) {
            return false;
        }
    }
    return true;
}

/* The points behind a, b included. */
static void sample(const struct curve_sampling *sampling, const struct curve_sample *a, const struct curve_sample *b,
                   int depth, struct curve_samples *samples)
{
    double middle = floor(sqrt(a->x * b->x));
    if (depth < DEEPEST && middle > a->x && middle < b->x && !is_followed(sampling, a, b)) {
        const struct curve_sample m = {middle, sampling->value(sampling->user, middle)};
        sample(sampling, a, &m, depth + 1, samples);
        sample(sampling, &m, b, depth + 1, samples);
        return;
    }
    add(samples, b->x, b->y);
}

void curve_sample_range(const struct curve_sampling *sampling, double first, double last, struct curve_samples *samples)
{
    const struct curve_sample a = {first, sampling->value(sampling->user, first)};
    const struct curve_sample b = {last, sampling->value(sampling->user, last)};
    add(samples, a.x, a.y);
    if (last > first) {
        sample(sampling, &a, &b, 0, samples);
    }
}
