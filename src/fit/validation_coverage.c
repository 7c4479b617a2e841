/* Whether intervals are as wide as they say. */
#include "fit/validation_internal.h"

#include <gsl/gsl_cdf.h>
#include <math.h>

/* What intervals of estimates are made for. */
static const double expected_frac = 0.90;

/* Twice the smaller tail, the count itself in it; 1 at most. */
double validation_binomial_p(int n_within, int n, double expected)
{
    if (n == 0) {
        return 1.0;
    }
    double at_most = gsl_cdf_binomial_P((unsigned)n_within, expected, (unsigned)n);
    double at_least = n_within == 0 ? 1.0 : gsl_cdf_binomial_Q((unsigned)n_within - 1U, expected, (unsigned)n);
    return fmin(1.0, 2.0 * fmin(at_most, at_least));
}

static bool is_judged(const struct validation_row *row)
{
    return row->role == VALIDATION_JUDGE && row->state == VALIDATION_COMPARED && row->has_interval;
}

/* Quantities stand in one table, in the order in which a run is counted by them. */
static bool is_event(const struct validation_source *source, int index)
{
    const struct validation_row *row = &source->rows[index];
    bool is_first = is_judged(row);
    for (int i = 0; i < source->n_rows && is_first && row->quantity->family != VALIDATION_OTHER; i++) {
        const struct validation_row *other = &source->rows[i];
        bool is_same = other->run == row->run && other->quantity->family == row->quantity->family;
        is_first = !is_same || !is_judged(other) || other->quantity >= row->quantity;
    }
    return is_first;
}

struct validation_coverage validation_coverage(const struct validation_set *set)
{
    struct validation_coverage coverage = {.expected_frac = expected_frac};
    double width = 0.0;
    for (int i = 0; i < set->n_sources; i++) {
        for (int j = 0; j < set->sources[i].n_rows; j++) {
            const struct validation_row *row = &set->sources[i].rows[j];
            coverage.n_judged += row->role == VALIDATION_JUDGE && row->state == VALIDATION_COMPARED ? 1 : 0;
            if (is_event(&set->sources[i], j)) {
                coverage.n++;
                coverage.n_within += row->measured >= row->low && row->measured <= row->high ? 1 : 0;
                width += (row->high - row->low) / row->predicted;
            }
        }
    }
    coverage.width_frac = coverage.n > 0 ? width / coverage.n : 0.0;
    coverage.p_value = validation_binomial_p(coverage.n_within, coverage.n, expected_frac);
    coverage.is_enough = coverage.n >= VALIDATION_COVERAGE_LEAST;
    return coverage;
}
