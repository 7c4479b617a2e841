/* Matrix products: the rate by k that many waves of tiles reach, pass by pass, and what long calls sustain. */
#include "fit/fit_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double LONG_CALL_S = 3e-3; /* what runs longer is at the power limit (equation 25) */
/* Closer than this to what its bytes take, a call says nothing of the tensor cores. */
static const double MEMORY_SHARE = 0.9;
enum { RATE_DIGITS = 6, FEWEST_LONG_CALLS = 3 };

static const char *const pass_names[] = {"forward", "input_gradient", "weight_gradient"};

struct call {
    double k, log_rate, seconds;
};

static int by_k(const void *a, const void *b)
{
    const struct call *x = a;
    const struct call *y = b;
    if (x->k < y->k || x->k > y->k) {
        return x->k < y->k ? -1 : 1;
    }
    return (x->log_rate > y->log_rate) - (x->log_rate < y->log_rate);
}

struct calls {
    int n;
    struct call *items; /* by k */
};

/* Calls of a pass that the tensor cores bound, with the rate that full waves would reach (equation 24 divided out). */
static struct calls calls_of(const struct calibration_work *work, int pass)
{
    const struct gpu_spec *gpu = &work->out->before->gpu;
    struct calls calls = {.items = sp_arena_array(work->arena, work->n_lines + 1, sizeof(struct call))};
    for (size_t i = 0; i < work->n_lines; i++) {
        struct gemm_point point;
        struct sp_error err;
        const struct measurement *line = work->lines[i];
        if (line->group != MEASUREMENT_GEMM || !gemm_point_read(line, &point, &err) || (int)point.call.pass != pass) {
            continue;
        }
        double memory_s = gemm_hbm_bytes(&point.call) / gpu->elementwise_bandwidth.value;
        if (memory_s < MEMORY_SHARE * line->median_s) {
            double waves = gemm_wave_efficiency(gpu, point.call.m, point.call.n, 1);
            calls.items[calls.n++] =
                (struct call){point.call.k, log(gemm_flop(&point.call) / line->median_s / waves), line->median_s};
        }
    }
    if (calls.n > 0) {
        qsort(calls.items, (size_t)calls.n, sizeof(*calls.items), by_k);
    }
    return calls;
}

static bool fit_pass(struct calibration_work *work, const struct calls *calls, struct rate_curve *rates,
                     struct sp_error *err)
{
    double *x = sp_arena_array(work->arena, (size_t)calls->n + 1, sizeof(*x));
    double *log_rate = sp_arena_array(work->arena, (size_t)calls->n + 1, sizeof(*log_rate));
    for (int i = 0; i < calls->n; i++) {
        x[i] = calls->items[i].k;
        log_rate[i] = calls->items[i].log_rate;
    }
    const struct rate_points points = {.n = calls->n, .x = x, .log_rate = log_rate, .is_linear = true};
    return rates_fit(work->arena, &points, rates, err);
}

/* What long calls sustain, where there are enough of them. */
static bool ceiling_of(struct calibration_work *work, const struct calls *calls, struct calibration_parameter *ceiling)
{
    double *rates = sp_arena_array(work->arena, (size_t)calls->n + 1, sizeof(*rates));
    int n = 0;
    for (int i = 0; i < calls->n; i++) {
        if (calls->items[i].seconds >= LONG_CALL_S) {
            rates[n++] = calls->items[i].log_rate;
        }
    }
    if (n < FEWEST_LONG_CALLS) {
        return false;
    }
    struct robust_mean mean = robust_mean_of(work->arena, rates, n);
    *ceiling = calibration_parameter_log("ceiling", mean.value, mean.deviation, mean.freedom);
    ceiling->dimension = SP_FLOP_PER_S;
    return true;
}

static void describe(struct calibration_work *work, const struct rate_curve *rates, struct calibration_curve *curve)
{
    curve->model = rates->model == RATE_TABLE ? sp_format(work->arena, "table of %d sizes", rates->n_sizes)
                                              : rate_model_names[rates->model];
    curve->spread = rates->sigma;
    curve->held_out = rates->held_out;
    curve->n_outliers = rates->n_outliers;
    rates_describe(work->arena, rates, "k", curve);
}

/* Spread of calls as the program prices them: the curve under its ceiling. */
static double priced_spread(struct calibration_work *work, const struct calls *calls, const struct rate_curve *rates,
                            double ceiling)
{
    double *residuals = sp_arena_array(work->arena, (size_t)calls->n, sizeof(*residuals));
    for (int i = 0; i < calls->n; i++) {
        residuals[i] = calls->items[i].log_rate - log(fmin(rates_at(rates, calls->items[i].k), ceiling));
    }
    int n_parameters = rates->model == RATE_TABLE ? rates->n_sizes : rates->fit.n_parameters;
    return robust_scale(work->arena, residuals, calls->n, n_parameters);
}

static void add_rows(struct calibration_work *work, int pass, const struct rate_curve *rates, struct sp_json *rows)
{
    struct curve_samples samples = rates_sample(work->arena, rates);
    for (int64_t i = 0; i < samples.n; i++) {
        struct sp_json *row = json_new(work->arena, SP_JSON_ARRAY);
        json_add(work->arena, row, NULL, json_text(work->arena, pass_names[pass]));
        json_add(work->arena, row, NULL, json_number(work->arena, samples.items[i].x));
        json_add(work->arena, row, NULL, json_number(work->arena, json_rounded(samples.items[i].y, RATE_DIGITS)));
        json_add(work->arena, rows, NULL, row);
    }
}

static void keep_rows(struct calibration_work *work, int pass, const struct sp_json *old, struct sp_json *rows)
{
    for (const struct sp_json *row = old->first; row != NULL; row = row->next) {
        if (row->first->type == SP_JSON_STRING && strcmp(row->first->string, pass_names[pass]) == 0) {
            json_add(work->arena, rows, NULL, row);
        }
    }
}

/* Of all calls. */
struct pooled_spread {
    double squares;
    int n;
};

/* One pass: its curve in the list, its rows, and its ceiling in the file. False: it stays as it was. */
static bool calibrate_pass(struct calibration_work *work, int pass, struct sp_json *rows, struct pooled_spread *pooled)
{
    static const char next[] = "seqplan measure --full --only gemm";
    struct sp_arena *arena = work->arena;
    struct calls calls = calls_of(work, pass);
    struct calibration_curve *curve =
        calibration_curve_add(work, MEASUREMENT_GEMM, sp_format(arena, "matrix products, %s", pass_names[pass]));
    struct rate_curve rates;
    struct sp_error err = {.kind = SP_ERROR_NONE};
    curve->n_points = calls.n;
    if (!fit_pass(work, &calls, &rates, &err)) {
        curve->reason = sp_strdup(arena, err.text);
        curve->advice = next;
        return false;
    }
    describe(work, &rates, curve);
    struct calibration_parameter ceiling;
    bool has_ceiling = ceiling_of(work, &calls, &ceiling);
    double most = has_ceiling ? ceiling.value : work->out->before->gpu.gemm.ceiling[pass].value;
    curve->spread = priced_spread(work, &calls, &rates, most);
    if (!calibration_curve_holds(arena, curve)) {
        return false;
    }
    if (has_ceiling) {
        calibration_parameter_add(curve, &ceiling);
        calibration_figure_set(work, sp_format(arena, "gpu.gemm.ceiling.%s", pass_names[pass]), &ceiling,
                               "mean of the calls of 3 ms and more, their last wave counted as full");
    } else {
        curve->advice = sp_format(arena, "calls of 3 ms and more, for the ceiling: %s", next);
    }
    pooled->squares += curve->spread * curve->spread * calls.n;
    pooled->n += calls.n;
    add_rows(work, pass, &rates, rows);
    return true;
}

static bool has_lines(const struct calibration_work *work)
{
    for (size_t i = 0; i < work->n_lines; i++) {
        if (work->lines[i]->group == MEASUREMENT_GEMM) {
            return true;
        }
    }
    return false;
}

void calibrate_gemm(struct calibration_work *work)
{
    if (!has_lines(work)) {
        return;
    }
    struct sp_arena *arena = work->arena;
    const struct sp_json *old = json_at(work->file, "gpu.gemm");
    struct sp_json *rows = json_new(arena, SP_JSON_ARRAY);
    struct sp_json *fits = json_new(arena, SP_JSON_OBJECT);
    struct sp_texts kept = {.arena = arena};
    struct pooled_spread pooled = {0};
    for (int pass = 0; pass < N_GEMM_PASSES; pass++) {
        if (calibrate_pass(work, pass, rows, &pooled)) {
            json_add(arena, fits, pass_names[pass],
                     calibration_fit_json(arena, &work->out->curves[work->out->n_curves - 1]));
        } else {
            keep_rows(work, pass, sp_json_member(old, "rows"), rows);
            sp_texts_add(&kept, "%s", pass_names[pass]);
        }
    }
    if (fits->count == 0) {
        return;
    }
    const char *source = work->out->source;
    if (kept.count > 0) {
        source = sp_format(arena, "%s; %s as before: %s", source, sp_join(arena, kept.items, kept.count, ", "),
                           sp_json_member(old, "source")->string);
    }
    const struct sp_json *table = json_at(work->file, "gpu.gemm");
    table = json_with(arena, table, "kind", json_text(arena, "fitted"));
    table = json_with(arena, table, "source", json_text(arena, source));
    table = json_with(arena, table, "note",
                      json_text(arena, "rate of calls divided by the share of tensor cores that whole waves of tiles "
                                       "keep busy"));
    table = json_with(arena, table, "spread", json_number(arena, json_rounded(sqrt(pooled.squares / pooled.n), 3)));
    table = json_with(arena, table, "fit", fits);
    table = json_with(arena, table, "rows", rows);
    work->file = json_with_at(arena, work->file, "gpu.gemm", table);
    calibrate_gemm_clock(work);
}
