/* Kernels and transfers beside each other: the multiprocessors that a transfer takes from a kernel (equation 39), and what
 * the transfer itself loses. */
#include "fit/fit_internal.h"

#include <math.h>
#include <string.h>

enum { FEWEST_LINES = 3 };

struct beside_values {
    double *held;    /* share of the multiprocessors, of each line of a kernel beside a transfer */
    double *slowing; /* logarithm of the transfer's time beside over alone */
    int n_held, n_slowing;
};

static bool is_same_transfer(const struct collective_point *a, const struct collective_point *b)
{
    return a->operation == b->operation && a->group.size == b->group.size && a->group.nodes == b->group.nodes &&
           a->bytes <= b->bytes && a->bytes >= b->bytes;
}

/* The same transfer alone; 0: it was not measured. */
static double alone_time(const struct calibration_work *work, const struct collective_point *beside)
{
    for (size_t i = 0; i < work->n_lines; i++) {
        struct collective_point point;
        struct sp_error err;
        const struct measurement *line = work->lines[i];
        if (line->group == MEASUREMENT_COLLECTIVE && collective_point_read(work->out->before, line, &point, &err) &&
            strcmp(point.beside, "none") == 0 && is_same_transfer(&point, beside)) {
            return line->median_s;
        }
    }
    return 0;
}

static void add_line(const struct calibration_work *work, const struct fit_machine *machine,
                     const struct measurement *line, const struct collective_point *point, struct beside_values *values)
{
    struct sp_error err;
    double alone_s = 0;
    if (point->times_kernel) {
        if (beside_kernel_time(machine, point->beside, &alone_s, &err)) {
            values->held[values->n_held++] = 1 - alone_s / line->median_s;
        }
        return;
    }
    alone_s = alone_time(work, point);
    if (alone_s > 0) {
        values->slowing[values->n_slowing++] = log(line->median_s / alone_s);
    }
}

static struct beside_values values_beside(const struct calibration_work *work, const struct hardware_spec *hardware,
                                          const char *kernel)
{
    struct beside_values values = {.held = sp_arena_array(work->arena, work->n_lines + 1, sizeof(double)),
                                   .slowing = sp_arena_array(work->arena, work->n_lines + 1, sizeof(double))};
    const struct fit_machine machine = {hardware, work->request->kernel};
    for (size_t i = 0; i < work->n_lines; i++) {
        struct collective_point point;
        struct sp_error err;
        const struct measurement *line = work->lines[i];
        if (line->group == MEASUREMENT_COLLECTIVE && collective_point_read(work->out->before, line, &point, &err) &&
            strcmp(point.beside, kernel) == 0 && point.group.nodes == 1) {
            add_line(work, &machine, line, &point, &values);
        }
    }
    return values;
}

static void describe_slowing(struct calibration_work *work, const struct beside_values *values, const char *kernel,
                             struct calibration_curve *curve)
{
    if (values->n_slowing == 0) {
        return;
    }
    struct robust_mean mean = robust_mean_of(work->arena, values->slowing, values->n_slowing);
    struct calibration_parameter slowing = calibration_parameter_log(
        sp_format(work->arena, "transfer beside %s, over alone", kernel), mean.value, mean.deviation, mean.freedom);
    slowing.dimension = SP_PURE;
    slowing.is_known = values->n_slowing >= FEWEST_LINES;
    calibration_parameter_add(curve, &slowing);
}

static const char *slowing_text(struct calibration_work *work, const struct calibration_curve *curve)
{
    const struct calibration_parameter *last = &curve->parameters[curve->n_parameters - 1];
    bool is_slowing = curve->n_parameters > 0 && last->dimension == SP_PURE;
    return is_slowing
               ? sp_format(work->arena, "; the transfer itself takes %.2f times as long, which the model leaves out",
                           last->value)
               : "";
}

/* Attention decides: beside a matrix product a transfer waits for free multiprocessors and takes none from it. */
static void fit_held(struct calibration_work *work, const struct hardware_spec *hardware,
                     const struct beside_values *values, struct calibration_curve *curve)
{
    double sm_count = hardware->gpu.sm_count.value;
    curve->n_points = values->n_held;
    if (values->n_held < FEWEST_LINES) {
        curve->reason = sp_format(work->arena,
                                  "%d call%s of attention beside a transfer: expected %d or more, of a "
                                  "kernel whose time alone is known",
                                  values->n_held, sp_plural(values->n_held), (int)FEWEST_LINES);
        curve->advice = "seqplan measure --full --only attention,collective, on two GPUs or more";
        return;
    }
    struct robust_mean mean = robust_mean_of(work->arena, values->held, values->n_held);
    double wide = curve_fit_quantile(mean.freedom) * mean.deviation;
    const struct calibration_parameter sms = {"multiprocessors held",
                                              SP_COUNT,
                                              round(fmin(fmax(mean.value, 0), 1) * sm_count),
                                              floor(fmin(fmax(mean.value - wide, 0), 1) * sm_count),
                                              ceil(fmin(fmax(mean.value + wide, 0), 1) * sm_count),
                                              true};
    curve->model = "share of the multiprocessors";
    curve->spread = mean.sigma;
    calibration_parameter_add(curve, &sms);
    describe_slowing(work, values, "attention", curve);
    calibration_figure_set(work, "gpu.communication_sms", &sms,
                           sp_format(work->arena,
                                     "attention beside a transfer that lasts as long, over attention "
                                     "alone, %d calls%s",
                                     values->n_held, slowing_text(work, curve)));
}

void calibrate_overlap(struct calibration_work *work)
{
    struct hardware_spec hardware;
    struct sp_error err;
    if (!hardware_from_json(work->arena, work->request->name, work->file, &hardware, &err)) {
        return; /* calibrate() reads the whole file again, and says what is wrong with it */
    }
    struct beside_values attention = values_beside(work, &hardware, "attention");
    if (attention.n_held + attention.n_slowing > 0) {
        struct calibration_curve *curve =
            calibration_curve_add(work, MEASUREMENT_COLLECTIVE, "attention beside a transfer");
        fit_held(work, &hardware, &attention, curve);
    }
    struct beside_values gemm = values_beside(work, &hardware, "gemm");
    if (gemm.n_slowing >= FEWEST_LINES) {
        struct calibration_curve *curve =
            calibration_curve_add(work, MEASUREMENT_COLLECTIVE, "matrix product beside a transfer");
        curve->model = "shown only";
        curve->n_points = gemm.n_slowing;
        describe_slowing(work, &gemm, "a matrix product", curve);
    }
}
