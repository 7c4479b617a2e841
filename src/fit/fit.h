/* fit: what was measured beside what the model says. Predictions of timed lines, and fits of a machine's curves to them,
 * with error bars (docs/calibration.md).
 *
 * Nothing here prints or opens a store: who calls brings the lines.
 */
#ifndef SEQPLAN_FIT_H
#define SEQPLAN_FIT_H

#include "fit/validation.h"
#include "step/step.h"

/* ---- predictions (fit_predict.c) -------------------------------------------------------------------------------- */

/* What seqplan predicts for one timed line of a measurement file, on this hardware: seconds of its median. `kernel`:
 * whose attention curve ("seqplan" for our own kernels). SP_ERROR_INPUT with the reason when a line has no prediction (a
 * group or shape that the model lacks). Copies into arena. */
struct fit_machine {
    const struct hardware_spec *hardware;
    const char *kernel;
};
bool fit_predict(struct sp_arena *arena, const struct fit_machine *machine, const struct measurement *line,
                 double *seconds, struct sp_error *err) SP_MUST_CHECK;
/* The 90 % interval of what fit_predict() answered for the line, from the spreads of the tables and figures that price it
 * (docs/model.md, section 9); false: one that counts has none. (fit_interval.c) */
bool fit_interval(struct sp_arena *arena, const struct fit_machine *machine, const struct measurement *line,
                  double seconds, double interval[2]);

/* ---- calibration (calibrate.c) ---------------------------------------------------------------------------------- */

/* Timed lines of one run on one machine. Borrowed. */
struct calibration_run {
    const char *key;
    const struct sp_json *machine; /* its line */
    const struct measurement *rows;
    size_t n_rows;
};

struct calibration_request {
    const char *hardware; /* name or file: what is kept where nothing was measured */
    const char *name;     /* of the hardware that is written */
    const char *kernel;   /* whose attention the lines are of: "seqplan" */
    unsigned groups;      /* bits of enum measurement_group: which are fitted */
    const struct calibration_run *runs;
    size_t n_runs;
};

/* A figure of a fitted curve with its 90 % interval. */
struct calibration_parameter {
    const char *name;
    enum sp_dimension dimension;
    double value, low, high;
    bool is_known; /* else the points do not determine it */
};
enum { CALIBRATION_PARAMETERS = 8 };

/* What became of one curve, or of the figures that go together. */
struct calibration_curve {
    enum measurement_group group;
    const char *what;   /* "all_gather over 2 GPUs" */
    const char *model;  /* "2 segments"; NULL: it could not be fitted */
    const char *reason; /* why not; or NULL */
    const char *advice; /* what to measure next for it; or NULL */
    int n_points, n_outliers;
    double spread;   /* relative standard deviation of one call */
    double held_out; /* median |error| of points that a fit did not see; negative: not known */
    int n_parameters;
    struct calibration_parameter parameters[CALIBRATION_PARAMETERS];
    int n_covariance; /* of the parameters as they were fitted: names and matrix, by rows */
    const char *covariance_of;
    const double *covariance;
};

/* Lines of a group beside the model's answers. */
struct calibration_errors {
    int n;                      /* priced */
    double median, worst, bias; /* of |predicted / measured - 1|; bias: the median with its sign */
};
struct calibration_group {
    const char *name; /* of the group; "overlap": collectives beside kernels */
    int n_lines;
    struct calibration_errors before, after;
    double held_out;       /* mean of its curves' medians, by their points; negative: not known */
    const char *worst_key; /* of the worst line after */
    int n_unpriced;        /* lines that the model has no answer for */
    const char *unpriced;  /* why the first of them has none */
};
enum { CALIBRATION_GROUPS = N_MEASUREMENT_GROUPS + 1 };

struct calibration {
    const struct sp_json *file; /* the hardware file: schema seqplan.hardware/1, its GPU inside */
    struct hardware_spec *before, *after;
    const char *source; /* of what was fitted: run, machine, date */
    struct calibration_curve *curves;
    int64_t n_curves, capacity;
    int n_fitted;
    struct calibration_group groups[CALIBRATION_GROUPS]; /* those with lines have n_lines > 0 */
    struct sp_texts remarks;                             /* which lines were left out before any fit, and why */
    struct sp_texts advice;
};
/* Fits what the lines determine and keeps the rest of the hardware as it stood. SP_ERROR_INPUT where nothing can be
 * fitted, or where the lines are of another GPU than the hardware. Copies into arena. */
bool calibrate(struct sp_arena *arena, const struct calibration_request *request, struct calibration *calibration,
               struct sp_error *err) SP_MUST_CHECK;

#endif
