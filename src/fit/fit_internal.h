/* What the files of src/fit share. */
#ifndef SEQPLAN_FIT_INTERNAL_H
#define SEQPLAN_FIT_INTERNAL_H

#include "fit/fit.h"

#include "cost/cost.h"

/* ---- lines (fit_predict.c) -------------------------------------------------------------------------------------- */

/* A parameter of a timed line. The error says which is missing. */
bool fit_number(const struct measurement *line, const char *name, double *value, struct sp_error *err) SP_MUST_CHECK;
bool fit_whole(const struct measurement *line, const char *name, double most, double *value,
               struct sp_error *err) SP_MUST_CHECK;
bool fit_text(const struct measurement *line, const char *name, const char **text, struct sp_error *err) SP_MUST_CHECK;
/* "" where there is none. */
const char *fit_text_or_none(const struct measurement *line, const char *name);
double fit_number_or(const struct measurement *line, const char *name, double otherwise);

/* Of the groups copy to latency (fit_predict_kernels.c), and of method and layer (fit_predict_methods.c). */
bool fit_predict_kernel(const struct fit_machine *machine, const struct measurement *line, double *seconds,
                        struct sp_error *err) SP_MUST_CHECK;
bool fit_predict_method(struct sp_arena *arena, const struct fit_machine *machine, const struct measurement *line,
                        double *seconds, struct sp_error *err) SP_MUST_CHECK;

/* What a line of a method or layer spends where: an error of one table moves its share. */
struct method_parts {
    double total_s;
    double compute_s;           /* at the clock that the power limit sets: attention and products */
    double attention_s;         /* of one kernel: one error */
    double products_squared_s2; /* sum of squares: every product has an error of its own */
    double ranks;
    bool is_virtual; /* transfers are copies inside the GPU, which no table of links prices */
};
bool fit_method_parts(struct sp_arena *arena, const struct fit_machine *machine, const struct measurement *line,
                      struct method_parts *parts, struct sp_error *err) SP_MUST_CHECK;

/* ---- what a line is of (fit_predict_kernels.c) ------------------------------------------------------------------ */

struct collective_point {
    enum collective operation;
    struct group_placement group;
    double bytes;       /* as enum collective counts them */
    const char *beside; /* "none", "attention", "gemm" */
    bool times_kernel;  /* the kernel beside the operation is timed, not the operation */
};
/* On that hardware: nodes of one NVLink domain, as of a rack, count as one. */
bool collective_point_read(const struct hardware_spec *hardware, const struct measurement *line,
                           struct collective_point *point, struct sp_error *err) SP_MUST_CHECK;

struct gemm_point {
    struct gemm_call call;
};
bool gemm_point_read(const struct measurement *line, struct gemm_point *point, struct sp_error *err) SP_MUST_CHECK;

/* A call of a kernel alone: "forward" and "backward". */
struct attention_point {
    bool is_backward, is_causal;
    double tokens, heads, kv_heads, head_dim;
    double runs_per_sample; /* between which the device program pauses */
};
bool attention_point_read(const struct measurement *line, struct attention_point *point,
                          struct sp_error *err) SP_MUST_CHECK;

/* ---- one curve (curve_fit.c: the only file that includes GSL) --------------------------------------------------- */

enum { FIT_MAX_PARAMETERS = 6 };

/* A model of the logarithm of what was measured. Parameters are themselves logarithms of positive figures, so that no
 * fit leaves what is possible, and a standard deviation is a relative one. */
struct curve_model {
    int n_parameters;
    double (*log_value)(const void *user, int point, const double *p);
    const void *user; /* what the points are at */
    const char *const *names;
};
struct curve_points_measured {
    int n;
    const double *log_y;
    const int *cluster; /* points whose errors go together; NULL: each its own */
};
struct curve_fit {
    int n_parameters, n_points, n_outliers;
    double p[FIT_MAX_PARAMETERS];
    double covariance[FIT_MAX_PARAMETERS * FIT_MAX_PARAMETERS];
    double sigma; /* relative standard deviation of a point around the curve, outliers aside */
    double freedom;
};
/* From p (the start) on: least squares of the logarithms, reweighted (Huber, then bisquare where there are enough points)
 * until it stands. SP_ERROR_INPUT where the points cannot determine a parameter, naming it. */
bool curve_fit_run(struct sp_arena *arena, const struct curve_model *model, const struct curve_points_measured *points,
                   struct curve_fit *fit, struct sp_error *err) SP_MUST_CHECK;
double curve_fit_deviation(const struct curve_fit *fit, int parameter); /* of a parameter */
double curve_fit_quantile(double freedom);                              /* deviations on each side of a 90 % interval */
/* Standard deviation of the model's value where its gradient by the parameters is g; the parameters' part alone. */
double curve_fit_spread(const struct curve_fit *fit, const double *gradient);
/* Of a robust mean: the value, its deviation, and that of one point around it. */
struct robust_mean {
    int n;
    double value, deviation, sigma, freedom;
};
struct robust_mean robust_mean_of(struct sp_arena *arena, const double *values, int n);
/* Scale of residuals around zero by their median size, at least what a repeated measurement differs by. */
double robust_scale(struct sp_arena *arena, const double *residuals, int n, int n_parameters);

double median_of(struct sp_arena *arena, const double *values, int n);
/* Whether the fall of held-out errors |log error| from a simple curve to a rich one is more than its own uncertainty;
 * NAN in `rich`: it could not be tried. (calibrate_segments.c) */
bool richer_is_better(const double *simple, const double *rich, int n, double scale);

/* ---- latency and bandwidth in segments (calibrate_segments.c, curve_fit.c) --------------------------------------- */

/* Points by x; several may share one. */
struct measured_points {
    int n;
    const double *x, *y;
};
/* Line y = a + b x, robust on relative residuals of that scale. Returns the loss. */
double segment_fit_line(struct sp_arena *arena, const struct measured_points *points, double scale, double line[2]);

enum { MOST_SEGMENTS = 3 };
/* Time by bytes: a line over each range of sizes, as a library that changes its protocol with size has it. */
struct segments {
    int n_segments;
    double begin[MOST_SEGMENTS + 1];             /* bytes from which a segment counts; the last: the end */
    double x0[MOST_SEGMENTS], x1[MOST_SEGMENTS]; /* first and last measured size of each */
    struct curve_fit fit;                        /* logarithms of the times at x0 and x1, segment by segment */
    double held_out;                             /* median |error| of sizes that the fit did not see */
    double held_out_by[MOST_SEGMENTS];           /* of each number of segments; negative: not tried */
    double *errors;                              /* of each point when its size is left out */
};
bool segments_fit(struct sp_arena *arena, const struct measured_points *points, struct segments *segments,
                  struct sp_error *err) SP_MUST_CHECK;
double segments_time(const struct segments *segments, double bytes);
double segments_spread(const struct segments *segments, double bytes); /* relative deviation of one call there */
/* Latency (a) and seconds a byte (b) of a segment, with their deviations. */
struct segment_line {
    double latency_s, latency_deviation_s;
    double s_per_byte, s_per_byte_deviation;
};
struct segment_line segments_line(const struct segments *segments, int segment);

/* ---- curves as tables (calibrate_sample.c) ----------------------------------------------------------------------- */

/* A function of x as few points that the program's own interpolation follows within `tolerance`. */
struct curve_sampling {
    double (*value)(const void *user, double x);
    const void *user;
    bool is_linear; /* interpolated linearly in log x (matrix products), not in log-log */
    double tolerance;
};
struct curve_sample {
    double x, y; /* x is whole */
};
struct curve_samples {
    struct sp_arena *arena;
    struct curve_sample *items;
    int64_t n, capacity;
};
/* Adds the points of a range, both ends included, by x. */
void curve_sample_range(const struct curve_sampling *sampling, double first, double last,
                        struct curve_samples *samples);

/* ---- rates that grow with a size (calibrate_rates.c) ------------------------------------------------------------- */

/* Rate over one size (k of a matrix product, tokens of attention): the mean of each measured size as it stands, or a
 * curve that saturates, R / (1 + (x0 / x)^q), where that predicts what it did not see no worse. */
enum rate_model { RATE_TABLE, RATE_SATURATING, RATE_SATURATING_POWER, N_RATE_MODELS };
extern const char *const rate_model_names[];
struct rate_points {
    int n;
    const double *x, *log_rate; /* by x */
    bool is_linear;             /* how the program interpolates: rate in log x, not log rate in log x */
    double noise;               /* what calls of one size differ by, as other lines show it; 0: not known */
};
/* From the sizes of which there are several calls, of many lines together; 0: there are none. */
struct rate_noise {
    struct sp_arena *arena;
    double *residuals;
    int64_t n, capacity;
    int n_sizes;
};
void rate_noise_add(struct rate_noise *noise, const struct rate_points *points);
double rate_noise_of(const struct rate_noise *noise);
struct rate_curve {
    enum rate_model model;
    int n_sizes;
    const double *x, *log_rate; /* of the table */
    struct curve_fit fit;       /* of a saturating curve: log R, log x0, log q */
    bool is_linear;
    double sigma;    /* relative deviation of one call around it */
    double held_out; /* median |error|; negative: too few sizes to hold one out */
    int n_outliers;
};
bool rates_fit(struct sp_arena *arena, const struct rate_points *points, struct rate_curve *curve,
               struct sp_error *err) SP_MUST_CHECK;
/* The table alone, with |log error| of each point when its size is left out (NAN of the first and the last size). */
bool rates_fit_table(struct sp_arena *arena, const struct rate_points *points, struct rate_curve *curve, double *errors,
                     struct sp_error *err) SP_MUST_CHECK;
double rates_at(const struct rate_curve *curve, double x); /* the rate, not its logarithm */
/* Its parameters into the list; `size` is what x is called. */
struct calibration_curve;
void rates_describe(struct sp_arena *arena, const struct rate_curve *rates, const char *size,
                    struct calibration_curve *curve);
/* As rows of a table. */
struct curve_samples rates_sample(struct sp_arena *arena, const struct rate_curve *curve);

/* ---- JSON as it changes (fit_json.c) ----------------------------------------------------------------------------- */

/* Values in the arena; add() appends to an object (with a key) or an array (key NULL) that new_*() made. */
struct sp_json *json_new(struct sp_arena *arena, enum sp_json_type type);
struct sp_json *json_number(struct sp_arena *arena, double number);
struct sp_json *json_text(struct sp_arena *arena, const char *text);
void json_add(struct sp_arena *arena, struct sp_json *group, const char *key, const struct sp_json *value);
/* A copy of the object with one member replaced, or added at its end; value NULL: left out. Members are borrowed. */
const struct sp_json *json_with(struct sp_arena *arena, const struct sp_json *object, const char *key,
                                const struct sp_json *value);
/* The same at the end of a path: "gpu.gemm.ceiling". What lies on the way is an object. */
const struct sp_json *json_with_at(struct sp_arena *arena, const struct sp_json *object, const char *path,
                                   const struct sp_json *value);
const struct sp_json *json_at(const struct sp_json *object, const char *path); /* NULL: not there */
double json_rounded(double value, int digits); /* to as many significant digits: what a table holds */

/* ---- the work of a calibration (calibrate.c) --------------------------------------------------------------------- */

/* A hardware file on its way from what it was to what was fitted. */
struct calibration_work {
    struct sp_arena *arena;
    const struct calibration_request *request;
    struct calibration *out;
    const struct sp_json *file;       /* the hardware file, its GPU (and network, when fitted) inside */
    const struct measurement **lines; /* timed, of all runs, without what repeats and what cannot be */
    size_t n_lines;
};
/* Fills the lines, and remarks of what is left out (calibrate_lines.c). */
void calibration_take_lines(struct calibration_work *work);
bool calibration_has(const struct calibration_work *work, enum measurement_group group);
/* A new curve in the list, refused until it has a model. */
struct calibration_curve *calibration_curve_add(struct calibration_work *work, enum measurement_group group,
                                                const char *what);
/* Back to a curve that is kept as it stood. */
void calibration_curve_refuse(struct calibration_curve *curve, const char *reason);
/* Refuses a curve whose calls scatter so much that it says nothing; false: it is refused. */
bool calibration_curve_holds(struct sp_arena *arena, struct calibration_curve *curve);
void calibration_parameter_add(struct calibration_curve *curve, const struct calibration_parameter *parameter);
/* The figure at path with a fitted value, its interval and a note; `is_known` false leaves it as it was. */
void calibration_figure_set(struct calibration_work *work, const char *path,
                            const struct calibration_parameter *parameter, const char *note);
const struct sp_json *calibration_figure_json(const struct calibration_work *work,
                                              const struct calibration_parameter *parameter, const char *note);
/* "fit" of a table: model, points, held-out error, parameters, covariance. */
const struct sp_json *calibration_fit_json(struct sp_arena *arena, const struct calibration_curve *curve);
/* kind, source, note, spread, fit: the members of a fitted table before its columns. */
struct sp_json *calibration_table_json(const struct calibration_work *work, const struct calibration_curve *curve,
                                       const char *note);
/* A positive figure from the logarithm of its value and the deviation of that. */
struct calibration_parameter calibration_parameter_log(const char *name, double log_value, double deviation,
                                                       double freedom);

/* Each fits what its lines determine, into the file and the list of curves. */
void calibrate_copy(struct calibration_work *work);        /* calibrate_links.c: time by bytes */
void calibrate_collectives(struct calibration_work *work); /* inside a node */
void calibrate_gemm(struct calibration_work *work);
void calibrate_attention(struct calibration_work *work);
void calibrate_tiles(struct calibration_work *work); /* part of it */
/* Clocks of long calls at the power limit (calibrate_clock.c), where the file has such figures; NULL: none. */
void calibrate_gemm_clock(struct calibration_work *work);
const struct sp_json *calibration_attention_clocks(struct calibration_work *work, const int64_t *head_dims, int n);
/* A forward or backward call: what adds to a sum or merges two is priced beside them. */
bool attention_point_is_plain(const struct measurement *line, struct attention_point *point);
void calibrate_elementwise(struct calibration_work *work); /* calibrate_figures.c */
void calibrate_pcie(struct calibration_work *work);
void calibrate_launch(struct calibration_work *work);
void calibrate_overlap(struct calibration_work *work); /* after attention and gemm */
void calibrate_network(struct calibration_work *work); /* collectives over nodes; after those inside */

/* Whether the line says how many bytes it moved. */
bool has_bytes(const struct measurement *line, struct sp_error *err) SP_MUST_CHECK;

/* The call that runs beside a collective, alone: seconds on this machine. */
bool beside_kernel_time(const struct fit_machine *machine, const char *beside, double *seconds,
                        struct sp_error *err) SP_MUST_CHECK;

#endif
