/* Figures that several lines determine together: element-wise kernels, the host's link and launches. */
#include "fit/fit_internal.h"

#include <math.h>
#include <string.h>

enum { FEWEST_CLUSTERS = 4 };

/* Lines that read and write so many bytes in one call. */
struct moved {
    int n;
    double *bytes, *log_seconds;
    int *cluster;
    int n_clusters;
};

static struct moved moved_new(const struct calibration_work *work)
{
    size_t n = work->n_lines + 1;
    return (struct moved){.bytes = sp_arena_array(work->arena, n, sizeof(double)),
                          .log_seconds = sp_arena_array(work->arena, n, sizeof(double)),
                          .cluster = sp_arena_array(work->arena, n, sizeof(int))};
}

static void moved_add(struct moved *moved, const struct measurement *line, int cluster)
{
    moved->bytes[moved->n] = line->bytes;
    moved->log_seconds[moved->n] = log(line->median_s);
    moved->cluster[moved->n++] = cluster;
    moved->n_clusters = cluster >= moved->n_clusters ? cluster + 1 : moved->n_clusters;
}

static double log_time_of(const void *user, int point, const double *p)
{
    const double *bytes = user;
    return log(bytes[point] / exp(p[0]) + exp(p[1]));
}

/* bytes / bandwidth + latency, as equation 26 has it. Kernels differ: their errors go together. */
static bool fit_moved(struct calibration_work *work, const struct moved *moved, struct curve_fit *fit,
                      struct calibration_curve *curve)
{
    static const char *const names[] = {"bandwidth", "latency"};
    const struct curve_model model = {
        .n_parameters = 2, .log_value = log_time_of, .user = moved->bytes, .names = names};
    const struct curve_points_measured points = {.n = moved->n,
                                                 .log_y = moved->log_seconds,
                                                 .cluster =
                                                     moved->n_clusters >= FEWEST_CLUSTERS ? moved->cluster : NULL};
    struct sp_error err = {.kind = SP_ERROR_NONE};
    double fastest = moved->bytes[0] / exp(moved->log_seconds[0]);
    double shortest = exp(moved->log_seconds[0]);
    for (int i = 1; i < moved->n; i++) {
        fastest = fmax(fastest, moved->bytes[i] / exp(moved->log_seconds[i]));
        shortest = fmin(shortest, exp(moved->log_seconds[i]));
    }
    *fit = (struct curve_fit){.p = {log(fastest), log(shortest / 2)}};
    curve->n_points = moved->n;
    if (!curve_fit_run(work->arena, &model, &points, fit, &err)) {
        curve->reason = sp_strdup(work->arena, err.text);
        return false;
    }
    curve->model = "latency and bandwidth";
    curve->n_outliers = fit->n_outliers;
    curve->spread = fit->sigma;
    curve->n_covariance = 2;
    curve->covariance_of = "logarithms of bandwidth and latency";
    double *covariance = sp_arena_array(work->arena, 4, sizeof(*covariance));
    memcpy(covariance, fit->covariance, 4 * sizeof(*covariance));
    curve->covariance = covariance;
    return calibration_curve_holds(work->arena, curve);
}

/* Median |log error| of each cluster predicted from the others. */
static double hold_out_clusters(struct calibration_work *work, const struct moved *moved)
{
    double *errors = sp_arena_array(work->arena, (size_t)moved->n + 1, sizeof(*errors));
    int n = 0;
    for (int c = 0; c < moved->n_clusters && moved->n_clusters >= FEWEST_CLUSTERS; c++) {
        struct moved kept = moved_new(work);
        struct calibration_curve curve = {0};
        struct curve_fit fit;
        for (int i = 0; i < moved->n; i++) {
            if (moved->cluster[i] != c) {
                kept.bytes[kept.n] = moved->bytes[i];
                kept.log_seconds[kept.n] = moved->log_seconds[i];
                kept.n++;
            }
        }
        if (!fit_moved(work, &kept, &fit, &curve)) {
            return -1;
        }
        for (int i = 0; i < moved->n; i++) {
            if (moved->cluster[i] == c) {
                errors[n++] = fabs(log_time_of(moved->bytes, i, fit.p) - moved->log_seconds[i]);
            }
        }
    }
    return n > 0 ? median_of(work->arena, errors, n) : -1;
}

/* ---- element-wise kernels --------------------------------------------------------------------------------------- */

static struct moved elementwise_lines(const struct calibration_work *work)
{
    struct moved moved = moved_new(work);
    struct sp_texts kernels = {.arena = work->arena};
    for (size_t i = 0; i < work->n_lines; i++) {
        const struct measurement *line = work->lines[i];
        bool is_taken = line->group == MEASUREMENT_ELEMENTWISE || line->group == MEASUREMENT_OPTIMIZER;
        struct sp_error err;
        if (!is_taken || !has_bytes(line, &err)) {
            continue;
        }
        const char *name = sp_format(work->arena, "%s %s%s", fit_text_or_none(line, "kernel"),
                                     fit_text_or_none(line, "pass"), fit_text_or_none(line, "gradient"));
        sp_texts_add(&kernels, "%s", name);
        int cluster = 0;
        while (strcmp(kernels.items[cluster], name) != 0) {
            cluster++;
        }
        moved_add(&moved, line, cluster);
    }
    return moved;
}

void calibrate_elementwise(struct calibration_work *work)
{
    struct moved moved = elementwise_lines(work);
    if (moved.n == 0) {
        return;
    }
    struct calibration_curve *curve =
        calibration_curve_add(work, MEASUREMENT_ELEMENTWISE, "element-wise kernels and the optimizer");
    struct curve_fit fit;
    if (!fit_moved(work, &moved, &fit, curve)) {
        curve->advice = "seqplan measure --full --only elementwise,optimizer";
        return;
    }
    curve->held_out = hold_out_clusters(work, &moved);
    struct calibration_parameter bandwidth =
        calibration_parameter_log("bandwidth", fit.p[0], curve_fit_deviation(&fit, 0), fit.freedom);
    struct calibration_parameter latency =
        calibration_parameter_log("latency", fit.p[1], curve_fit_deviation(&fit, 1), fit.freedom);
    bandwidth.dimension = SP_BYTES_PER_S;
    latency.dimension = SP_SECONDS;
    calibration_parameter_add(curve, &bandwidth);
    calibration_parameter_add(curve, &latency);
    const char *note = sp_format(work->arena,
                                 "bytes / bandwidth + latency over %d calls of %d kernels, which differ among "
                                 "themselves: one call lies within %.0f %% (a standard deviation)",
                                 moved.n, moved.n_clusters, 100 * fit.sigma);
    calibration_figure_set(work, "gpu.elementwise_bandwidth", &bandwidth, note);
    calibration_figure_set(work, "gpu.kernel_latency", &latency, note);
}

/* ---- the host --------------------------------------------------------------------------------------------------- */

void calibrate_pcie(struct calibration_work *work)
{
    struct moved moved = moved_new(work);
    for (size_t i = 0; i < work->n_lines; i++) {
        const struct measurement *line = work->lines[i];
        const char *by = fit_text_or_none(line, "by");
        struct sp_error err;
        if (line->group == MEASUREMENT_COPY && has_bytes(line, &err) &&
            (strcmp(by, "host-to-device") == 0 || strcmp(by, "device-to-host") == 0)) {
            moved_add(&moved, line, 0);
        }
    }
    if (moved.n == 0) {
        return;
    }
    struct calibration_curve *curve = calibration_curve_add(work, MEASUREMENT_COPY, "copies over the host's link");
    struct curve_fit fit;
    if (!fit_moved(work, &moved, &fit, curve)) {
        curve->advice = "seqplan measure --full --only copy";
        return;
    }
    struct calibration_parameter bandwidth =
        calibration_parameter_log("bandwidth", fit.p[0], curve_fit_deviation(&fit, 0), fit.freedom);
    struct calibration_parameter latency =
        calibration_parameter_log("latency", fit.p[1], curve_fit_deviation(&fit, 1), fit.freedom);
    bandwidth.dimension = SP_BYTES_PER_S;
    latency.dimension = SP_SECONDS;
    calibration_parameter_add(curve, &bandwidth);
    calibration_parameter_add(curve, &latency);
    calibration_figure_set(work, "gpu.pcie_bandwidth", &bandwidth, "pinned host memory, either way");
}

/* One line is the figure: its interval is that of its own samples. */
void calibrate_launch(struct calibration_work *work)
{
    for (size_t i = 0; i < work->n_lines; i++) {
        const struct measurement *line = work->lines[i];
        if (line->group != MEASUREMENT_LATENCY || strcmp(fit_text_or_none(line, "what"), "launch") != 0 ||
            strcmp(fit_text_or_none(line, "how"), "stream") != 0) {
            continue;
        }
        struct calibration_curve *curve = calibration_curve_add(work, MEASUREMENT_LATENCY, "launch of a kernel");
        const struct calibration_parameter launch = {"launch latency", SP_SECONDS,   line->median_s,
                                                     line->low_s,      line->high_s, true};
        curve->model = "as measured";
        curve->n_points = 1;
        calibration_parameter_add(curve, &launch);
        calibration_figure_set(
            work, "gpu.launch_latency", &launch,
            "empty kernels launched one after another by a C program; a framework adds its own time");
        return;
    }
}
