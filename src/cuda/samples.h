// What is said of a series of timed runs, and whether it can be believed. Plain C: the host's tests include it.
#ifndef SEQPLAN_CUDA_SAMPLES_H
#define SEQPLAN_CUDA_SAMPLES_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLES_MAX 400

struct samples_summary {
    double median, min, low, high; // low and high: the 10th and 90th percentile
    int count;
};

static inline int samples_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Between two values, by the straight line.
static inline double samples_quantile(const double *sorted, int n, double q)
{
    double at = q * (n - 1);
    int below = (int)at;
    if (below + 1 >= n)
        return sorted[n - 1];
    return sorted[below] + (at - below) * (sorted[below + 1] - sorted[below]);
}

static inline double samples_median(const double *x, int n)
{
    double sorted[SAMPLES_MAX];
    memcpy(sorted, x, (size_t)n * sizeof *x);
    qsort(sorted, (size_t)n, sizeof *sorted, samples_compare);
    return samples_quantile(sorted, n, 0.5);
}

static inline struct samples_summary samples_summarise(const double *x, int n)
{
    double sorted[SAMPLES_MAX];
    memcpy(sorted, x, (size_t)n * sizeof *x);
    qsort(sorted, (size_t)n, sizeof *sorted, samples_compare);
    struct samples_summary s = {samples_quantile(sorted, n, 0.5), sorted[0], samples_quantile(sorted, n, 0.1),
                                samples_quantile(sorted, n, 0.9), n};
    return s;
}

// Width of the middle 80 %, as a fraction of the median.
static inline double samples_spread(const struct samples_summary *s)
{
    return s->median > 0 ? (s->high - s->low) / s->median : 0;
}

// Both halves of the series agree on the median: more runs would not move it.
static inline bool samples_settled(const double *x, int n, double tolerance)
{
    if (n < 4)
        return false;
    double first = samples_median(x, n / 2), second = samples_median(x + n / 2, n - n / 2);
    double difference = first > second ? first - second : second - first;
    return difference <= tolerance * first;
}

// What the last third of a series is of its first: below 1, it fell.
static inline double samples_drift(const double *x, int n)
{
    int third = n / 3 > 0 ? n / 3 : 1;
    double first = samples_median(x, third);
    return first > 0 ? samples_median(x + n - third, third) / first : 1;
}

#endif
