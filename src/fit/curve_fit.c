/* One curve through measured points: nonlinear least squares on logarithms (GSL), reweighted so that a few wild points do
 * not bend it, with a covariance that knows of the reweighting. The only file that includes GSL. */
#include "fit/fit_internal.h"

#include <gsl/gsl_cdf.h>
#include <gsl/gsl_errno.h>
#include <gsl/gsl_fit.h>
#include <gsl/gsl_linalg.h>
#include <gsl/gsl_matrix.h>
#include <gsl/gsl_multifit_nlinear.h>
#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <gsl/gsl_vector.h>

#include <assert.h>
#include <math.h>
#include <string.h>

/* Usual constants of both weights: 95 % efficiency where errors are normal (Huber 1964; Beaton and Tukey 1974). */
static const double HUBER_LIMIT = 1.345;
static const double BISQUARE_LIMIT = 4.685;
static const double MEDIAN_TO_DEVIATION = 0.6744897501960817; /* of a normal distribution: its upper quartile */
/* Two runs of one measurement differ by this much: the device program asks its samples to agree to half a percent. */
static const double REPEATABILITY = 0.002;
/* A parameter that is not known to a factor of two, in either direction, is not known. */
static const double LARGEST_DEVIATION = 0.5;
static const double SINGULAR = 1e-7; /* of singular values to the largest one */
enum { MOST_ROUNDS = 60, MOST_STEPS = 100, BISQUARE_FREEDOM = 5 };

/* ---- scale and weights ------------------------------------------------------------------------------------------ */

double robust_scale(struct sp_arena *arena, const double *residuals, int n, int n_parameters)
{
    struct sp_arena_mark mark = sp_arena_mark(arena);
    double *sizes = sp_arena_array(arena, (size_t)n, sizeof(*sizes));
    for (int i = 0; i < n; i++) {
        sizes[i] = fabs(residuals[i]);
    }
    gsl_sort(sizes, 1, (size_t)n);
    /* Of the residuals of a fit with p parameters p could be made zero: they say nothing of the scale. */
    int skip = n_parameters < n ? n_parameters : n - 1;
    double median = gsl_stats_median_from_sorted_data(sizes + skip, 1, (size_t)(n - skip));
    sp_arena_rewind(arena, mark);
    return fmax(median / MEDIAN_TO_DEVIATION, REPEATABILITY);
}

struct weighting {
    bool is_bisquare;
    double scale;
};

static double weight_of(const struct weighting *how, double residual)
{
    double u = fabs(residual) / how->scale;
    if (!how->is_bisquare) {
        return u <= HUBER_LIMIT ? 1 : HUBER_LIMIT / u;
    }
    double t = u / BISQUARE_LIMIT;
    return t >= 1 ? 0 : (1 - t * t) * (1 - t * t);
}

/* Slope of residual x weight: how much a point still pulls when it moves. */
static double pull_of(const struct weighting *how, double residual)
{
    double u = fabs(residual) / how->scale;
    if (!how->is_bisquare) {
        return u <= HUBER_LIMIT ? 1 : 0;
    }
    double t = u / BISQUARE_LIMIT;
    return t >= 1 ? 0 : (1 - t * t) * (1 - 5 * t * t);
}

/* ---- least squares ---------------------------------------------------------------------------------------------- */

struct problem {
    const struct curve_model *model;
    const struct curve_points_measured *points;
};

static int residuals_of(const gsl_vector *p, void *user, gsl_vector *f)
{
    const struct problem *problem = user;
    for (int i = 0; i < problem->points->n; i++) {
        double value = problem->model->log_value(problem->model->user, i, p->data);
        if (!isfinite(value)) {
            return GSL_EDOM;
        }
        gsl_vector_set(f, (size_t)i, value - problem->points->log_y[i]);
    }
    return GSL_SUCCESS;
}

/* What a run of the solver works with. */
struct solver {
    struct problem problem;
    gsl_multifit_nlinear_fdf fdf;
    gsl_multifit_nlinear_workspace *work;
    gsl_vector *start, *weights;
    gsl_matrix *jacobian, *turned; /* by the parameters; and its right singular vectors */
    gsl_vector *singular;
};

static void solver_close(struct solver *solver)
{
    if (solver->work != NULL) {
        gsl_multifit_nlinear_free(solver->work);
    }
    gsl_vector_free(solver->start);
    gsl_vector_free(solver->weights);
    gsl_vector_free(solver->singular);
    gsl_matrix_free(solver->jacobian);
    gsl_matrix_free(solver->turned);
}

static bool solver_open(struct solver *solver, const struct curve_model *model,
                        const struct curve_points_measured *points, struct sp_error *err)
{
    size_t n = (size_t)points->n;
    size_t p = (size_t)model->n_parameters;
    const gsl_multifit_nlinear_parameters parameters = gsl_multifit_nlinear_default_parameters();
    *solver = (struct solver){.problem = {model, points}};
    solver->work = gsl_multifit_nlinear_alloc(gsl_multifit_nlinear_trust, &parameters, n, p);
    solver->start = gsl_vector_alloc(p);
    solver->weights = gsl_vector_alloc(n);
    solver->singular = gsl_vector_alloc(p);
    solver->jacobian = gsl_matrix_alloc(n, p);
    solver->turned = gsl_matrix_alloc(p, p);
    if (solver->work == NULL || solver->start == NULL || solver->weights == NULL || solver->singular == NULL ||
        solver->jacobian == NULL || solver->turned == NULL) {
        solver_close(solver);
        return sp_fail(err, SP_ERROR_IO, "out of memory: close other programs and run the same again");
    }
    solver->fdf = (gsl_multifit_nlinear_fdf){.f = residuals_of, .n = n, .p = p, .params = &solver->problem};
    return true;
}

/* One weighted solution from p on, into p and the residuals. */
static bool solve(struct solver *solver, double *p, double *residuals)
{
    static const double tolerance = 1e-11;
    int info = 0;
    memcpy(solver->start->data, p, solver->start->size * sizeof(*p));
    if (gsl_multifit_nlinear_winit(solver->start, solver->weights, &solver->fdf, solver->work) != GSL_SUCCESS) {
        return false;
    }
    int status =
        gsl_multifit_nlinear_driver(MOST_STEPS, tolerance, tolerance, tolerance, NULL, NULL, &info, solver->work);
    if (status != GSL_SUCCESS && status != GSL_EMAXITER && status != GSL_ENOPROG) {
        return false;
    }
    const gsl_vector *at = gsl_multifit_nlinear_position(solver->work);
    for (size_t i = 0; i < at->size; i++) {
        p[i] = gsl_vector_get(at, i);
    }
    gsl_vector_view view = gsl_vector_view_array(residuals, solver->weights->size);
    return residuals_of(at, &solver->problem, &view.vector) == GSL_SUCCESS;
}

/* ---- what the points determine ----------------------------------------------------------------------------------- */

/* Derivatives of the model by its parameters at p: differences on both sides. */
static void differentiate(struct solver *solver, const double *p)
{
    static const double step = 1e-5; /* of logarithms: smooth far beyond it */
    const struct curve_model *model = solver->problem.model;
    double at[FIT_MAX_PARAMETERS];
    for (int j = 0; j < model->n_parameters; j++) {
        memcpy(at, p, (size_t)model->n_parameters * sizeof(*at));
        for (int i = 0; i < solver->problem.points->n; i++) {
            at[j] = p[j] + step;
            double above = model->log_value(model->user, i, at);
            at[j] = p[j] - step;
            double below = model->log_value(model->user, i, at);
            gsl_matrix_set(solver->jacobian, (size_t)i, (size_t)j, (above - below) / (2 * step));
        }
    }
}

/* (J^T J)^-1 into inverse; false where it has none, *loose being the parameter that is least determined. */
static bool invert(struct solver *solver, double *inverse, int *loose)
{
    int p = solver->problem.model->n_parameters;
    gsl_vector *work = solver->start; /* what it held is used up */
    if (gsl_linalg_SV_decomp(solver->jacobian, solver->turned, solver->singular, work) != GSL_SUCCESS) {
        *loose = 0;
        return false;
    }
    double least = gsl_vector_get(solver->singular, (size_t)p - 1);
    if (!(least > SINGULAR * gsl_vector_get(solver->singular, 0))) {
        *loose = 0;
        for (int j = 1; j < p; j++) {
            double here = fabs(gsl_matrix_get(solver->turned, (size_t)j, (size_t)p - 1));
            if (here > fabs(gsl_matrix_get(solver->turned, (size_t)*loose, (size_t)p - 1))) {
                *loose = j;
            }
        }
        return false;
    }
    for (int a = 0; a < p; a++) {
        for (int b = 0; b < p; b++) {
            double sum = 0;
            for (int s = 0; s < p; s++) {
                double size = gsl_vector_get(solver->singular, (size_t)s);
                sum += gsl_matrix_get(solver->turned, (size_t)a, (size_t)s) *
                       gsl_matrix_get(solver->turned, (size_t)b, (size_t)s) / (size * size);
            }
            inverse[a * p + b] = sum;
        }
    }
    return true;
}

/* Variance of a point from weighted residuals, corrected for the weights (Huber 1981, section 7.6). */
static double weighted_variance(const struct weighting *how, const double *residuals, int n, int p)
{
    double squares = 0;
    double pull = 0;
    for (int i = 0; i < n; i++) {
        double psi = residuals[i] * weight_of(how, residuals[i]);
        squares += psi * psi;
        pull += pull_of(how, residuals[i]) / n;
    }
    pull = fmax(pull, 0.3); /* fewer points than that in the middle: no curve at all */
    double correction = 1 + (double)p / n * (1 - pull) / pull;
    return squares / fmax(n - p, 1) / (pull * pull) * correction * correction;
}

/* Errors that go together within a cluster: (J^T J)^-1 sum(g g^T) (J^T J)^-1, g the sum of a cluster's gradients times
 * residuals, with a correction for few clusters (Cameron and Miller 2015, section VI), as of p parameters among
 * so many points. */
static int cluster_covariance(struct sp_arena *arena, const struct solver *solver, const struct weighting *how,
                              const double *residuals, struct curve_fit *fit)
{
    const struct curve_points_measured *points = solver->problem.points;
    int p = fit->n_parameters;
    int n_clusters = 0;
    for (int i = 0; i < points->n; i++) {
        n_clusters = points->cluster[i] >= n_clusters ? points->cluster[i] + 1 : n_clusters;
    }
    struct sp_arena_mark mark = sp_arena_mark(arena);
    size_t n_sums = (size_t)n_clusters * (size_t)p;
    double *sums = sp_arena_array(arena, n_sums, sizeof(*sums));
    for (int i = 0; i < points->n; i++) {
        for (int j = 0; j < p; j++) {
            sums[points->cluster[i] * p + j] +=
                gsl_matrix_get(solver->jacobian, (size_t)i, (size_t)j) * residuals[i] * weight_of(how, residuals[i]);
        }
    }
    double *turned = sp_arena_array(arena, n_sums, sizeof(*turned));
    for (int c = 0; c < n_clusters; c++) {
        for (int a = 0; a < p; a++) {
            for (int b = 0; b < p; b++) {
                turned[c * p + a] += fit->covariance[a * p + b] * sums[c * p + b];
            }
        }
    }
    double factor = (double)n_clusters / fmax(n_clusters - p, 1);
    memset(fit->covariance, 0, sizeof(fit->covariance));
    for (int c = 0; c < n_clusters; c++) {
        for (int a = 0; a < p * p; a++) {
            fit->covariance[a] += factor * turned[c * p + a / p] * turned[c * p + a % p];
        }
    }
    sp_arena_rewind(arena, mark);
    return n_clusters;
}

static bool find_covariance(struct sp_arena *arena, struct solver *solver, const struct weighting *how,
                            const double *residuals, struct curve_fit *fit, struct sp_error *err)
{
    const struct curve_model *model = solver->problem.model;
    int p = fit->n_parameters;
    int loose = 0;
    double variance = weighted_variance(how, residuals, fit->n_points, p);
    fit->sigma = fmax(sqrt(variance), REPEATABILITY);
    differentiate(solver, fit->p);
    if (!invert(solver, fit->covariance, &loose)) {
        return sp_fail(err, SP_ERROR_INPUT, "%s cannot be told from the rest by these points", model->names[loose]);
    }
    if (solver->problem.points->cluster != NULL) {
        differentiate(solver, fit->p);
        fit->freedom = fmax(cluster_covariance(arena, solver, how, residuals, fit) - p, 1);
    } else {
        for (int i = 0; i < p * p; i++) {
            fit->covariance[i] *= fit->sigma * fit->sigma;
        }
    }
    for (int j = 0; j < p; j++) {
        if (!(curve_fit_deviation(fit, j) < LARGEST_DEVIATION)) {
            return sp_fail(err, SP_ERROR_INPUT, "%s is not determined by these %d points (known to a factor of %.3g)",
                           model->names[j], fit->n_points, exp(fmin(curve_fit_deviation(fit, j), 20)));
        }
    }
    return true;
}

/* ---- the fit ---------------------------------------------------------------------------------------------------- */

static bool reweight(struct sp_arena *arena, struct solver *solver, struct weighting *how, struct curve_fit *fit,
                     double *residuals)
{
    static const double still = 1e-9;
    for (int round = 0; round < MOST_ROUNDS; round++) {
        double before[FIT_MAX_PARAMETERS];
        memcpy(before, fit->p, sizeof(before));
        how->scale = robust_scale(arena, residuals, fit->n_points, fit->n_parameters);
        for (int i = 0; i < fit->n_points; i++) {
            gsl_vector_set(solver->weights, (size_t)i, weight_of(how, residuals[i]));
        }
        if (!solve(solver, fit->p, residuals)) {
            return false;
        }
        double moved = 0;
        for (int j = 0; j < fit->n_parameters; j++) {
            moved = fmax(moved, fabs(fit->p[j] - before[j]));
        }
        if (moved < still) {
            break;
        }
    }
    return true;
}

static bool run(struct sp_arena *arena, struct solver *solver, struct curve_fit *fit, struct sp_error *err)
{
    double *residuals = sp_arena_array(arena, (size_t)fit->n_points, sizeof(*residuals));
    struct weighting how = {.is_bisquare = false, .scale = 1};
    gsl_vector_set_all(solver->weights, 1);
    bool is_good = solve(solver, fit->p, residuals) && reweight(arena, solver, &how, fit, residuals);
    if (is_good && fit->n_points >= fit->n_parameters + BISQUARE_FREEDOM) {
        how.is_bisquare = true;
        is_good = reweight(arena, solver, &how, fit, residuals);
    }
    if (!is_good) {
        return sp_fail(err, SP_ERROR_INPUT, "no curve of the model goes through these %d points", fit->n_points);
    }
    for (int i = 0; i < fit->n_points; i++) {
        fit->n_outliers += fabs(residuals[i]) >= BISQUARE_LIMIT * how.scale ? 1 : 0;
    }
    fit->freedom = fmax(fit->n_points - fit->n_parameters - fit->n_outliers, 1);
    return find_covariance(arena, solver, &how, residuals, fit, err);
}

bool curve_fit_run(struct sp_arena *arena, const struct curve_model *model, const struct curve_points_measured *points,
                   struct curve_fit *fit, struct sp_error *err)
{
    assert(model->n_parameters > 0 && model->n_parameters <= FIT_MAX_PARAMETERS);
    struct curve_fit start = *fit;
    *fit = (struct curve_fit){.n_parameters = model->n_parameters, .n_points = points->n};
    memcpy(fit->p, start.p, sizeof(fit->p));
    if (points->n <= model->n_parameters) {
        return sp_fail(err, SP_ERROR_INPUT, "%d point%s for %d parameters: expected %d or more", points->n,
                       sp_plural(points->n), model->n_parameters, model->n_parameters + 1);
    }
    gsl_error_handler_t *handler = gsl_set_error_handler_off();
    struct sp_arena_mark mark = sp_arena_mark(arena);
    struct solver solver;
    bool is_good = solver_open(&solver, model, points, err);
    if (is_good) {
        is_good = run(arena, &solver, fit, err);
        solver_close(&solver);
    }
    sp_arena_rewind(arena, mark);
    (void)gsl_set_error_handler(handler);
    return is_good;
}

double curve_fit_deviation(const struct curve_fit *fit, int parameter)
{
    return sqrt(fmax(fit->covariance[parameter * fit->n_parameters + parameter], 0));
}

double curve_fit_quantile(double freedom)
{
    static const double upper = 0.95; /* of a two-sided interval of 90 % */
    return gsl_cdf_tdist_Pinv(upper, freedom);
}

double curve_fit_spread(const struct curve_fit *fit, const double *gradient)
{
    double variance = 0;
    for (int a = 0; a < fit->n_parameters; a++) {
        for (int b = 0; b < fit->n_parameters; b++) {
            variance += gradient[a] * fit->covariance[a * fit->n_parameters + b] * gradient[b];
        }
    }
    return sqrt(fmax(variance, 0));
}

double median_of(struct sp_arena *arena, const double *values, int n)
{
    struct sp_arena_mark mark = sp_arena_mark(arena);
    double *sorted = sp_arena_array(arena, (size_t)n, sizeof(*sorted));
    memcpy(sorted, values, (size_t)n * sizeof(*sorted));
    gsl_sort(sorted, 1, (size_t)n);
    double median = gsl_stats_median_from_sorted_data(sorted, 1, (size_t)n);
    sp_arena_rewind(arena, mark);
    return median;
}

/* ---- means ------------------------------------------------------------------------------------------------------ */

struct robust_mean robust_mean_of(struct sp_arena *arena, const double *values, int n)
{
    struct sp_arena_mark mark = sp_arena_mark(arena);
    double *sorted = sp_arena_array(arena, (size_t)n, sizeof(*sorted));
    double *residuals = sp_arena_array(arena, (size_t)n, sizeof(*residuals));
    memcpy(sorted, values, (size_t)n * sizeof(*sorted));
    gsl_sort(sorted, 1, (size_t)n);
    struct robust_mean mean = {.n = n, .value = gsl_stats_median_from_sorted_data(sorted, 1, (size_t)n)};
    struct weighting how = {.is_bisquare = n > BISQUARE_FREEDOM};
    for (int round = 0; round < MOST_ROUNDS; round++) {
        double total = 0;
        double sum = 0;
        for (int i = 0; i < n; i++) {
            residuals[i] = values[i] - mean.value;
        }
        how.scale = n > 1 ? robust_scale(arena, residuals, n, 1) : REPEATABILITY;
        for (int i = 0; i < n; i++) {
            double weight = weight_of(&how, residuals[i]);
            total += weight;
            sum += weight * residuals[i];
        }
        mean.value += sum / total;
    }
    mean.sigma = n > 1 ? fmax(sqrt(weighted_variance(&how, residuals, n, 1)), REPEATABILITY) : REPEATABILITY;
    mean.deviation = mean.sigma / sqrt(n);
    mean.freedom = fmax(n - 1, 1);
    sp_arena_rewind(arena, mark);
    return mean;
}

/* ---- a line ----------------------------------------------------------------------------------------------------- */

/* Huber's loss of a residual in units of the scale. */
static double loss_of(double u)
{
    u = fabs(u);
    return u <= HUBER_LIMIT ? u * u / 2 : HUBER_LIMIT * (u - HUBER_LIMIT / 2);
}

double segment_fit_line(struct sp_arena *arena, const struct measured_points *points, double scale, double line[2])
{
    enum { ROUNDS = 12 };
    struct sp_arena_mark mark = sp_arena_mark(arena);
    double *weights = sp_arena_array(arena, (size_t)points->n, sizeof(*weights));
    const double *x = points->x;
    const double *y = points->y;
    const struct weighting how = {.is_bisquare = false, .scale = scale};
    for (int i = 0; i < points->n; i++) {
        weights[i] = 1 / (y[i] * y[i]);
    }
    double loss = 0;
    for (int round = 0; round < ROUNDS; round++) {
        double c00 = 0;
        double c01 = 0;
        double c11 = 0;
        double chi = 0;
        size_t n = (size_t)points->n;
        (void)gsl_fit_wlinear(x, 1, weights, 1, y, 1, n, &line[0], &line[1], &c00, &c01, &c11, &chi);
        loss = 0;
        for (int i = 0; i < points->n; i++) {
            double residual = (line[0] + line[1] * x[i]) / y[i] - 1;
            weights[i] = weight_of(&how, residual) / (y[i] * y[i]);
            loss += loss_of(residual / scale);
        }
    }
    sp_arena_rewind(arena, mark);
    return loss;
}
