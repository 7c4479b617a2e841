/* Collectives over nodes: the latency of the network and the shares of its rate that rings, all-to-alls and single
 * transfers reach, through the same functions that price them. */
#include "fit/fit_internal.h"

#include <math.h>
#include <string.h>

/* The figures, and which operations need each. */
enum network_figure { FIGURE_LATENCY, FIGURE_RINGS, FIGURE_ALL_TO_ALL, FIGURE_TRANSFERS, N_FIGURES };
static const struct figure {
    const char *name, *path, *note;
    size_t offset;
} figures[N_FIGURES] = {
    {"network latency", "network.latency", "of one message between nodes", offsetof(struct network_spec, latency)},
    {"share that rings reach", "network.collective_efficiency", "of the NICs' rate",
     offsetof(struct network_spec, collective_efficiency)},
    {"share that an all-to-all reaches", "network.all_to_all_efficiency", "of the NICs' rate",
     offsetof(struct network_spec, all_to_all_efficiency)},
    {"share that one transfer reaches", "network.efficiency", "of the NICs' rate",
     offsetof(struct network_spec, efficiency)},
};

struct network_lines {
    struct hardware_spec hardware;
    int n;
    struct collective_point *points;
    double *log_seconds;
    bool is_fitted[N_FIGURES];
};

static double *figure_value(struct network_spec *network, int figure)
{
    return &((struct sp_figure *)(void *)((char *)network + figures[figure].offset))->value;
}

static enum network_figure figure_of(enum collective operation)
{
    return operation == COLLECTIVE_ALL_TO_ALL     ? FIGURE_ALL_TO_ALL
           : operation == COLLECTIVE_SEND_RECEIVE ? FIGURE_TRANSFERS
                                                  : FIGURE_RINGS;
}

static double log_time_of(const void *user, int at, const double *p)
{
    const struct network_lines *lines = user;
    struct hardware_spec hardware = lines->hardware;
    int next = 0;
    for (int f = 0; f < N_FIGURES; f++) {
        if (lines->is_fitted[f]) {
            *figure_value(&hardware.network, f) = exp(p[next++]);
        }
    }
    const struct collective_point *point = &lines->points[at];
    return log(collective_time(&hardware, &point->group, point->operation, point->bytes));
}

static void read_lines(struct calibration_work *work, struct network_lines *lines)
{
    lines->points = sp_arena_array(work->arena, work->n_lines + 1, sizeof(*lines->points));
    lines->log_seconds = sp_arena_array(work->arena, work->n_lines + 1, sizeof(*lines->log_seconds));
    for (size_t i = 0; i < work->n_lines; i++) {
        struct collective_point point;
        struct sp_error err;
        const struct measurement *line = work->lines[i];
        if (line->group == MEASUREMENT_COLLECTIVE && collective_point_read(work->out->before, line, &point, &err) &&
            point.group.nodes > 1 && strcmp(point.beside, "none") == 0) {
            lines->points[lines->n] = point;
            lines->log_seconds[lines->n++] = log(line->median_s);
            lines->is_fitted[FIGURE_LATENCY] = true;
            lines->is_fitted[figure_of(point.operation)] = true;
        }
    }
}

/* A file that names its network gets it inside, to hold what was fitted. */
static bool take_network_in(struct calibration_work *work, struct sp_error *err)
{
    const struct sp_json *network = sp_json_member(work->file, "network");
    if (network == NULL || network->type != SP_JSON_STRING) {
        return network != NULL;
    }
    const char *path = data_find(work->arena, "hardware/networks", network->string, err);
    const struct sp_json *inner = path == NULL ? NULL : sp_json_read(work->arena, path, err);
    if (inner == NULL) {
        return false;
    }
    work->file = json_with(work->arena, work->file, "network", inner);
    return true;
}

static bool fit_lines(struct calibration_work *work, const struct network_lines *lines, struct curve_fit *fit,
                      struct calibration_curve *curve)
{
    const char *names[N_FIGURES];
    struct curve_model model = {.log_value = log_time_of, .user = lines, .names = names};
    struct hardware_spec hardware = lines->hardware;
    *fit = (struct curve_fit){.n_points = 0};
    for (int f = 0; f < N_FIGURES; f++) {
        if (lines->is_fitted[f]) {
            names[model.n_parameters] = figures[f].name;
            fit->p[model.n_parameters++] = log(fmax(*figure_value(&hardware.network, f), 1e-9));
        }
    }
    if (model.n_parameters == 0) {
        return false;
    }
    const struct curve_points_measured points = {.n = lines->n, .log_y = lines->log_seconds};
    struct sp_error err = {.kind = SP_ERROR_NONE};
    if (!curve_fit_run(work->arena, &model, &points, fit, &err)) {
        curve->reason = sp_strdup(work->arena, err.text);
        return false;
    }
    return true;
}

/* All figures, or where they cannot be told apart the shares under the file's latency (long messages say nothing of that),
 * or the latency alone (short ones nothing of shares). */
static bool fit_what_is_determined(struct calibration_work *work, struct network_lines *lines, struct curve_fit *fit,
                                   struct calibration_curve *curve)
{
    if (fit_lines(work, lines, fit, curve)) {
        return true;
    }
    const char *why = curve->reason;
    struct network_lines shares = *lines;
    struct network_lines latency = *lines;
    shares.is_fitted[FIGURE_LATENCY] = false;
    memset(latency.is_fitted, 0, sizeof(latency.is_fitted));
    latency.is_fitted[FIGURE_LATENCY] = true;
    bool has_shares = fit_lines(work, &shares, fit, curve);
    *lines = has_shares ? shares : latency;
    if (!has_shares && !fit_lines(work, lines, fit, curve)) {
        curve->reason = why;
        return false;
    }
    curve->reason = NULL;
    curve->advice =
        sp_format(work->arena, "%s, and %s as it was: %s", why, has_shares ? "the latency stays" : "every share stays",
                  has_shares ? "messages of a few KiB tell it" : "messages of 100 MiB and more tell them");
    return true;
}

/* More than all of the file's NICs: the machine has others. */
static bool is_possible(struct calibration_work *work, const struct network_lines *lines, const struct curve_fit *fit,
                        struct calibration_curve *curve)
{
    static const double tolerance = 1.05; /* clocks and headers */
    int next = 0;
    for (int f = 0; f < N_FIGURES; f++) {
        double value = lines->is_fitted[f] ? exp(fit->p[next++]) : 0;
        if (f != FIGURE_LATENCY && value > tolerance) {
            const struct hardware_spec *hardware = &lines->hardware;
            curve->reason =
                sp_format(work->arena, "messages pass at %.2f times the rate of the %.0f NICs of %s, %s each", value,
                          hardware->node.nics.value, hardware->name,
                          sp_quantity_print(work->arena, hardware->network.bandwidth.value, SP_BYTES_PER_S));
            curve->advice = "a hardware file with the NICs of the machine that was measured";
            return false;
        }
    }
    return true;
}

static void write_figures(struct calibration_work *work, const struct network_lines *lines, const struct curve_fit *fit,
                          struct calibration_curve *curve)
{
    int next = 0;
    for (int f = 0; f < N_FIGURES; f++) {
        if (!lines->is_fitted[f]) {
            continue;
        }
        struct calibration_parameter figure =
            calibration_parameter_log(figures[f].name, fit->p[next], curve_fit_deviation(fit, next), fit->freedom);
        next++;
        figure.dimension = f == FIGURE_LATENCY ? SP_SECONDS : SP_FRACTION;
        if (f != FIGURE_LATENCY) { /* no share is more than all */
            figure.value = fmin(figure.value, 1);
            figure.low = fmin(figure.low, 1);
            figure.high = fmin(figure.high, 1);
        }
        calibration_parameter_add(curve, &figure);
        calibration_figure_set(work, figures[f].path, &figure, figures[f].note);
    }
}

void calibrate_network(struct calibration_work *work)
{
    struct network_lines lines = {.n = 0};
    struct sp_error err = {.kind = SP_ERROR_NONE};
    read_lines(work, &lines);
    if (lines.n == 0) {
        return;
    }
    struct calibration_curve *curve = calibration_curve_add(work, MEASUREMENT_COLLECTIVE, "collectives between nodes");
    curve->n_points = lines.n;
    curve->advice = "collectives of more sizes, from a few KiB to a GiB, over two nodes and more";
    if (work->out->before->network.name == NULL) {
        curve->reason = sp_format(work->arena, "%s has no network between nodes", work->out->before->name);
        return;
    }
    if (!take_network_in(work, &err) ||
        !hardware_from_json(work->arena, work->request->name, work->file, &lines.hardware, &err)) {
        curve->reason = sp_strdup(work->arena, err.text);
        return;
    }
    struct curve_fit fit;
    const char *advice = curve->advice;
    curve->advice = NULL;
    if (!fit_what_is_determined(work, &lines, &fit, curve)) {
        curve->advice = advice;
        return;
    }
    if (!is_possible(work, &lines, &fit, curve)) {
        return;
    }
    curve->model = "latency and shares of the NICs' rate";
    curve->spread = fit.sigma;
    curve->n_outliers = fit.n_outliers;
    curve->n_covariance = fit.n_parameters;
    curve->covariance_of = "logarithms of the parameters, in their order";
    size_t n = (size_t)fit.n_parameters * (size_t)fit.n_parameters;
    double *covariance = sp_arena_array(work->arena, n, sizeof(*covariance));
    memcpy(covariance, fit.covariance, n * sizeof(*covariance));
    curve->covariance = covariance;
    if (calibration_curve_holds(work->arena, curve)) {
        write_figures(work, &lines, &fit, curve);
    }
}
