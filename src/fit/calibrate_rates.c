/* Rates over one size: a saturating curve, or the measured sizes as a table; whichever predicts held-out points better. */
#include "fit/fit_internal.h"

#include <assert.h>
#include <math.h>
#include <string.h>

const char *const rate_model_names[] = {"table", "saturating", "saturating with an exponent", NULL};

static const double TABLE_TOLERANCE = 0.001;
static const double INTERPOLATION_VARIANCE = 1.5; /* a point and the line between its two neighbours: 1 + 2/4 */
enum { FEWEST_SIZES = 2 };

/* ---- saturating curves ------------------------------------------------------------------------------------------ */

static double saturating(const double *p, int n_parameters, double x)
{
    double q = n_parameters > 2 ? exp(p[2]) : 1;
    return p[0] - log1p(pow(exp(p[1]) / x, q));
}

struct at_points {
    const double *x;
    int n_parameters;
};

static double log_rate_of(const void *user, int point, const double *p)
{
    const struct at_points *at = user;
    return saturating(p, at->n_parameters, at->x[point]);
}

static bool fit_saturating(struct sp_arena *arena, const struct rate_points *points, int n_parameters,
                           struct curve_fit *fit, struct sp_error *err)
{
    static const char *const names[] = {"rate of long calls", "size of half of that rate", "exponent"};
    const struct at_points at = {points->x, n_parameters};
    const struct curve_model model = {
        .n_parameters = n_parameters, .log_value = log_rate_of, .user = &at, .names = names};
    const struct curve_points_measured measured = {.n = points->n, .log_y = points->log_rate};
    *fit = (struct curve_fit){.p = {points->log_rate[0], log(points->x[0] / 8), 0}};
    for (int i = 0; i < points->n; i++) {
        fit->p[0] = fmax(fit->p[0], points->log_rate[i]);
    }
    return curve_fit_run(arena, &model, &measured, fit, err);
}

/* ---- tables ----------------------------------------------------------------------------------------------------- */

/* The mean of each size, robust where there are enough calls of it. */
static void fill_table(struct sp_arena *arena, const struct rate_points *points, struct rate_curve *curve)
{
    double *x = sp_arena_array(arena, (size_t)points->n, sizeof(*x));
    double *log_rate = sp_arena_array(arena, (size_t)points->n, sizeof(*log_rate));
    curve->n_sizes = 0;
    for (int i = 0; i < points->n;) {
        int to = i + 1;
        while (to < points->n && points->x[to] <= points->x[i]) {
            to++;
        }
        x[curve->n_sizes] = points->x[i];
        log_rate[curve->n_sizes++] = robust_mean_of(arena, points->log_rate + i, to - i).value;
        i = to;
    }
    curve->x = x;
    curve->log_rate = log_rate;
}

static double table_at(const struct rate_curve *curve, double x)
{
    int n = curve->n_sizes;
    if (x <= curve->x[0] || n == 1) {
        return curve->log_rate[0];
    }
    if (x >= curve->x[n - 1]) {
        return curve->log_rate[n - 1];
    }
    int i = 1;
    while (curve->x[i] < x) {
        i++;
    }
    double t = log(x / curve->x[i - 1]) / log(curve->x[i] / curve->x[i - 1]);
    double low = curve->log_rate[i - 1];
    double high = curve->log_rate[i];
    return curve->is_linear ? log((1 - t) * exp(low) + t * exp(high)) : low + t * (high - low);
}

double rates_at(const struct rate_curve *curve, double x)
{
    return exp(curve->model == RATE_TABLE ? table_at(curve, x) : saturating(curve->fit.p, curve->fit.n_parameters, x));
}

/* ---- the choice ------------------------------------------------------------------------------------------------- */

static bool fit_model(struct sp_arena *arena, const struct rate_points *points, enum rate_model model,
                      struct rate_curve *curve, struct sp_error *err)
{
    *curve = (struct rate_curve){.model = model, .is_linear = points->is_linear};
    if (model == RATE_TABLE) {
        fill_table(arena, points, curve);
        return curve->n_sizes >= FEWEST_SIZES || sp_fail(err, SP_ERROR_INPUT, "%d size%s: expected %d or more",
                                                         curve->n_sizes, sp_plural(curve->n_sizes), (int)FEWEST_SIZES);
    }
    return fit_saturating(arena, points, model == RATE_SATURATING ? 2 : 3, &curve->fit, err);
}

/* |log error| of each point when the points of its size are left out; NAN where the rest bears no fit. The first and the
 * last size are not held out of a table, which says nothing beyond its ends. */
static void hold_out(struct sp_arena *arena, const struct rate_points *points, enum rate_model model, double *errors)
{
    for (int i = 0; i < points->n; i++) {
        struct sp_arena_mark mark = sp_arena_mark(arena);
        double *x = sp_arena_array(arena, (size_t)points->n, sizeof(*x));
        double *log_rate = sp_arena_array(arena, (size_t)points->n, sizeof(*log_rate));
        struct rate_points kept = {.x = x, .log_rate = log_rate, .is_linear = points->is_linear};
        for (int j = 0; j < points->n; j++) {
            if (points->x[j] < points->x[i] || points->x[j] > points->x[i]) {
                x[kept.n] = points->x[j];
                log_rate[kept.n++] = points->log_rate[j];
            }
        }
        struct rate_curve curve;
        struct sp_error err;
        bool is_inside = kept.n > 0 && points->x[i] > kept.x[0] && points->x[i] < kept.x[kept.n - 1];
        bool is_fitted = is_inside && fit_model(arena, &kept, model, &curve, &err);
        errors[i] = is_fitted ? fabs(log(rates_at(&curve, points->x[i])) - points->log_rate[i]) : (double)NAN;
        sp_arena_rewind(arena, mark);
    }
}

/* The errors of both where there is one of the first; how many. */
static int pair_errors(const double *first, const double *second, int n, double *pairs[2])
{
    int n_pairs = 0;
    for (int i = 0; i < n; i++) {
        if (!isnan(first[i])) {
            pairs[0][n_pairs] = first[i];
            pairs[1][n_pairs++] = second[i];
        }
    }
    return n_pairs;
}

/* From what repeated sizes differ by, of this line or others, and what is lost between two sizes: a quarter of the error of
 * a size that is left out, for the gap is then twice as wide and a curve's bend goes with its square. Where nothing is
 * known of repetitions the error of such a size stands for all. */
static double table_sigma(struct sp_arena *arena, const struct rate_points *points, const struct rate_curve *curve,
                          const double *errors)
{
    static const double gap = 0.25;
    double *residuals = sp_arena_array(arena, (size_t)points->n, sizeof(*residuals));
    int n = 0;
    for (int i = 0; i < points->n; i++) {
        if (!isnan(errors[i])) {
            residuals[n++] = errors[i] / sqrt(INTERPOLATION_VARIANCE);
        }
    }
    double left_out = n > 0 ? robust_scale(arena, residuals, n, 0) : 0;
    for (int i = 0; i < points->n; i++) {
        residuals[i] = points->log_rate[i] - table_at(curve, points->x[i]);
    }
    if (points->n >= 2 * curve->n_sizes) {
        return hypot(robust_scale(arena, residuals, points->n, curve->n_sizes), gap * left_out);
    }
    if (points->noise > 0) {
        return hypot(points->noise, gap * left_out);
    }
    return n > 0 ? left_out : robust_scale(arena, residuals, points->n, curve->n_sizes);
}

void rate_noise_add(struct rate_noise *noise, const struct rate_points *points)
{
    for (int i = 0; i < points->n;) {
        int to = i + 1;
        double sum = points->log_rate[i];
        while (to < points->n && points->x[to] <= points->x[i]) {
            sum += points->log_rate[to];
            to++;
        }
        for (int j = i; j < to && to > i + 1; j++) {
            if (noise->n == noise->capacity) {
                noise->residuals =
                    sp_arena_grow(noise->arena, noise->residuals, noise->n, &noise->capacity, sizeof(double));
            }
            noise->residuals[noise->n++] = points->log_rate[j] - sum / (to - i);
        }
        noise->n_sizes += to > i + 1 ? 1 : 0;
        i = to;
    }
}

double rate_noise_of(const struct rate_noise *noise)
{
    if (noise->n <= noise->n_sizes) {
        return 0;
    }
    /* a mean of few takes up part of what its calls differ by */
    double freedom = (double)noise->n / (double)(noise->n - noise->n_sizes);
    return sqrt(freedom) * robust_scale(noise->arena, noise->residuals, (int)noise->n, 0);
}

/* Whether a curve with few parameters stands for the table: it predicts held-out points no worse, scatters no more, and
 * passes by no size at a distance that noise does not explain. */
static bool stands_for_table(const struct rate_curve *table, const struct rate_curve *tried, double *const pairs[2],
                             const double medians[2], int n)
{
    static const double furthest = 3; /* deviations of one call */
    if (!(medians[1] <= medians[0]) || tried->fit.sigma > table->sigma ||
        richer_is_better(pairs[1], pairs[0], n, fmax(tried->fit.sigma, table->sigma))) {
        return false;
    }
    for (int i = 0; i < table->n_sizes; i++) {
        if (fabs(log(rates_at(tried, table->x[i])) - table->log_rate[i]) > furthest * table->sigma) {
            return false;
        }
    }
    return true;
}

bool rates_fit_table(struct sp_arena *arena, const struct rate_points *points, struct rate_curve *curve, double *errors,
                     struct sp_error *err)
{
    hold_out(arena, points, RATE_TABLE, errors);
    if (!fit_model(arena, points, RATE_TABLE, curve, err)) {
        return false;
    }
    curve->sigma = table_sigma(arena, points, curve, errors);
    return true;
}

bool rates_fit(struct sp_arena *arena, const struct rate_points *points, struct rate_curve *curve, struct sp_error *err)
{
    if (points->n == 0) {
        return sp_fail(err, SP_ERROR_INPUT, "no points");
    }
    double *errors[N_RATE_MODELS];
    double *pairs[2];
    for (int i = 0; i < N_RATE_MODELS; i++) {
        errors[i] = sp_arena_array(arena, (size_t)points->n, sizeof(double));
        if (i != RATE_TABLE) {
            hold_out(arena, points, (enum rate_model)i, errors[i]);
        }
    }
    for (int i = 0; i < 2; i++) {
        pairs[i] = sp_arena_array(arena, (size_t)points->n, sizeof(double));
    }
    if (!rates_fit_table(arena, points, curve, errors[RATE_TABLE], err)) {
        return false;
    }
    enum rate_model chosen = RATE_TABLE;
    /* A table has a parameter a size: a curve with fewer stands unless the table is better beyond doubt. */
    for (int i = N_RATE_MODELS - 1; i > RATE_TABLE; i--) {
        struct rate_curve tried;
        struct sp_error why;
        int n = pair_errors(errors[RATE_TABLE], errors[i], points->n, pairs);
        bool is_tried = n > 0 && curve->n_sizes > i + 1 && fit_model(arena, points, (enum rate_model)i, &tried, &why);
        double medians[2] = {is_tried ? median_of(arena, pairs[0], n) : 0,
                             is_tried ? median_of(arena, pairs[1], n) : 0};
        if (is_tried && stands_for_table(curve, &tried, pairs, medians, n)) {
            chosen = (enum rate_model)i;
        }
    }
    if (chosen != RATE_TABLE && !fit_model(arena, points, chosen, curve, err)) {
        return false;
    }
    if (chosen != RATE_TABLE) {
        curve->sigma = curve->fit.sigma;
        curve->n_outliers = curve->fit.n_outliers;
        fill_table(arena, points, curve);
    }
    int n = pair_errors(errors[chosen], errors[chosen], points->n, pairs);
    curve->held_out = n > 0 ? median_of(arena, pairs[0], n) : -1;
    return true;
}

/* ---- what is said of it ----------------------------------------------------------------------------------------- */

static void describe_saturating(struct sp_arena *arena, const struct rate_curve *rates, const char *size,
                                struct calibration_curve *curve)
{
    const char *const names[] = {"rate of long calls", sp_format(arena, "%s of half of it", size), "exponent"};
    static const enum sp_dimension dimensions[] = {SP_FLOP_PER_S, SP_COUNT, SP_PURE};
    const struct curve_fit *fit = &rates->fit;
    for (int j = 0; j < fit->n_parameters && j < (int)SP_COUNT_OF(names); j++) {
        struct calibration_parameter parameter =
            calibration_parameter_log(names[j], fit->p[j], curve_fit_deviation(fit, j), fit->freedom);
        parameter.dimension = dimensions[j];
        calibration_parameter_add(curve, &parameter);
    }
    size_t n = (size_t)fit->n_parameters * (size_t)fit->n_parameters;
    double *covariance = sp_arena_array(arena, n, sizeof(*covariance));
    memcpy(covariance, fit->covariance, n * sizeof(*covariance));
    curve->n_covariance = fit->n_parameters;
    curve->covariance_of = "logarithms of the parameters, in their order";
    curve->covariance = covariance;
}

void rates_describe(struct sp_arena *arena, const struct rate_curve *rates, const char *size,
                    struct calibration_curve *curve)
{
    if (rates->model != RATE_TABLE) {
        describe_saturating(arena, rates, size, curve);
        return;
    }
    enum { FEW_CALLS = 4 };
    for (int end = 0; end < 2; end++) {
        int i = end == 0 ? 0 : rates->n_sizes - 1;
        struct calibration_parameter parameter = calibration_parameter_log(
            sp_format(arena, "rate at %s %.0f", size, rates->x[i]), rates->log_rate[i], rates->sigma, FEW_CALLS);
        parameter.dimension = SP_FLOP_PER_S;
        calibration_parameter_add(curve, &parameter);
    }
}

/* ---- rows ------------------------------------------------------------------------------------------------------- */

static double rate_of(const void *user, double x)
{
    return rates_at(user, x);
}

struct curve_samples rates_sample(struct sp_arena *arena, const struct rate_curve *curve)
{
    struct curve_samples samples = {.arena = arena};
    const struct curve_sampling sampling = {
        .value = rate_of, .user = curve, .is_linear = curve->is_linear, .tolerance = TABLE_TOLERANCE};
    if (curve->model != RATE_TABLE) {
        curve_sample_range(&sampling, curve->x[0], curve->x[curve->n_sizes - 1], &samples);
        return samples;
    }
    for (int i = 0; i < curve->n_sizes; i++) {
        curve_sample_range(&sampling, curve->x[i], curve->x[i], &samples);
    }
    return samples;
}
