/* A hardware file fitted to measurements: what the lines determine is replaced, with its interval and its source, and the
 * rest stays word for word. */
#include "fit/fit_internal.h"
#include "fit/gpu_name.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { FIGURE_DIGITS = 4, FIT_DIGITS = 5 };
static const int overlap_group = N_MEASUREMENT_GROUPS;

bool calibration_has(const struct calibration_work *work, enum measurement_group group)
{
    return (work->request->groups >> (unsigned)group & 1U) != 0;
}

/* ---- what was fitted -------------------------------------------------------------------------------------------- */

struct calibration_curve *calibration_curve_add(struct calibration_work *work, enum measurement_group group,
                                                const char *what)
{
    struct calibration *out = work->out;
    if (out->n_curves == out->capacity) {
        out->curves = sp_arena_grow(work->arena, out->curves, out->n_curves, &out->capacity, sizeof(*out->curves));
    }
    struct calibration_curve *curve = &out->curves[out->n_curves++];
    *curve = (struct calibration_curve){.group = group, .what = what, .held_out = -1};
    return curve;
}

void calibration_curve_refuse(struct calibration_curve *curve, const char *reason)
{
    curve->model = NULL;
    curve->reason = reason;
    curve->held_out = -1;
    curve->n_parameters = 0;
    curve->n_covariance = 0;
}

bool calibration_curve_holds(struct sp_arena *arena, struct calibration_curve *curve)
{
    static const double most_spread = 0.5; /* as far as a parameter may be from its value */
    if (curve->spread <= most_spread) {
        return true;
    }
    calibration_curve_refuse(curve, sp_format(arena,
                                              "calls scatter by %.0f %% around any curve (a standard deviation), more "
                                              "than %.0f %%",
                                              100 * curve->spread, 100 * most_spread));
    curve->advice =
        sp_format(arena, "a machine that does nothing else meanwhile: seqplan measure --full --new --only %s",
                  measurement_group_names[curve->group]);
    return false;
}

void calibration_parameter_add(struct calibration_curve *curve, const struct calibration_parameter *parameter)
{
    assert(curve->n_parameters < CALIBRATION_PARAMETERS);
    curve->parameters[curve->n_parameters++] = *parameter;
}

struct calibration_parameter calibration_parameter_log(const char *name, double log_value, double deviation,
                                                       double freedom)
{
    static const double widest = 3; /* a factor of 20 either way says nothing */
    double wide = curve_fit_quantile(freedom) * deviation;
    return (struct calibration_parameter){.name = name,
                                          .value = exp(log_value),
                                          .low = exp(log_value - wide),
                                          .high = exp(log_value + wide),
                                          .is_known = wide < widest};
}

/* A plain number, or a text with its unit, as files hold it. */
static const struct sp_json *quantity_json(struct sp_arena *arena, double value, enum sp_dimension dimension)
{
    double rounded = json_rounded(value, FIGURE_DIGITS);
    bool is_plain = dimension == SP_PURE || dimension == SP_COUNT || dimension == SP_FRACTION;
    return is_plain ? json_number(arena, rounded) : json_text(arena, sp_quantity_exact(arena, rounded, dimension));
}

const struct sp_json *calibration_figure_json(const struct calibration_work *work,
                                              const struct calibration_parameter *parameter, const char *note)
{
    struct sp_arena *arena = work->arena;
    struct sp_json *figure = json_new(arena, SP_JSON_OBJECT);
    json_add(arena, figure, "value", quantity_json(arena, parameter->value, parameter->dimension));
    json_add(arena, figure, "kind", json_text(arena, "fitted"));
    json_add(arena, figure, "source", json_text(arena, work->out->source));
    json_add(arena, figure, "note", json_text(arena, note));
    json_add(arena, figure, "low", quantity_json(arena, fmin(parameter->low, parameter->value), parameter->dimension));
    json_add(arena, figure, "high",
             quantity_json(arena, fmax(parameter->high, parameter->value), parameter->dimension));
    return figure;
}

void calibration_figure_set(struct calibration_work *work, const char *path,
                            const struct calibration_parameter *parameter, const char *note)
{
    if (parameter->is_known) {
        work->file = json_with_at(work->arena, work->file, path, calibration_figure_json(work, parameter, note));
    }
}

static const struct sp_json *parameter_json(struct sp_arena *arena, const struct calibration_parameter *parameter)
{
    struct sp_json *json = json_new(arena, SP_JSON_OBJECT);
    json_add(arena, json, "name", json_text(arena, parameter->name));
    if (!parameter->is_known) {
        json_add(arena, json, "known", json_new(arena, SP_JSON_BOOL));
        return json;
    }
    json_add(arena, json, "value", json_number(arena, json_rounded(parameter->value, FIT_DIGITS)));
    json_add(arena, json, "low", json_number(arena, json_rounded(parameter->low, FIT_DIGITS)));
    json_add(arena, json, "high", json_number(arena, json_rounded(parameter->high, FIT_DIGITS)));
    return json;
}

const struct sp_json *calibration_fit_json(struct sp_arena *arena, const struct calibration_curve *curve)
{
    struct sp_json *fit = json_new(arena, SP_JSON_OBJECT);
    json_add(arena, fit, "model", json_text(arena, curve->model));
    json_add(arena, fit, "points", json_number(arena, curve->n_points));
    json_add(arena, fit, "outliers", json_number(arena, curve->n_outliers));
    if (curve->held_out >= 0) {
        json_add(arena, fit, "held_out_frac", json_number(arena, json_rounded(curve->held_out, 3)));
    }
    struct sp_json *parameters = json_new(arena, SP_JSON_ARRAY);
    for (int i = 0; i < curve->n_parameters; i++) {
        json_add(arena, parameters, NULL, parameter_json(arena, &curve->parameters[i]));
    }
    json_add(arena, fit, "parameters", parameters);
    if (curve->n_covariance == 0) {
        return fit;
    }
    struct sp_json *matrix = json_new(arena, SP_JSON_ARRAY);
    for (int a = 0; a < curve->n_covariance; a++) {
        struct sp_json *row = json_new(arena, SP_JSON_ARRAY);
        for (int b = 0; b < curve->n_covariance; b++) {
            json_add(arena, row, NULL,
                     json_number(arena, json_rounded(curve->covariance[a * curve->n_covariance + b], FIT_DIGITS)));
        }
        json_add(arena, matrix, NULL, row);
    }
    json_add(arena, fit, "covariance_of", json_text(arena, curve->covariance_of));
    json_add(arena, fit, "covariance", matrix);
    return fit;
}

struct sp_json *calibration_table_json(const struct calibration_work *work, const struct calibration_curve *curve,
                                       const char *note)
{
    struct sp_arena *arena = work->arena;
    struct sp_json *table = json_new(arena, SP_JSON_OBJECT);
    json_add(arena, table, "kind", json_text(arena, "fitted"));
    json_add(arena, table, "source", json_text(arena, work->out->source));
    json_add(arena, table, "note", json_text(arena, note));
    json_add(arena, table, "spread", json_number(arena, json_rounded(fmin(curve->spread, 1), 3)));
    json_add(arena, table, "fit", calibration_fit_json(arena, curve));
    return table;
}

/* ---- the lines -------------------------------------------------------------------------------------------------- */

static const char *machine_text(const struct sp_json *machine, const char *key)
{
    const struct sp_json *member = sp_json_member(machine, key);
    return member != NULL && member->type == SP_JSON_STRING ? member->string : "";
}

static double machine_number(const struct sp_json *machine, const char *key)
{
    const struct sp_json *member = sp_json_member(machine, key);
    return member != NULL && member->type == SP_JSON_NUMBER ? member->number : 0;
}

/* "run 0123, NVIDIA H200 of node61, 2026-11-29": the day is enough, the run's key says which. */
static const char *run_text(struct sp_arena *arena, const struct calibration_run *run)
{
    enum { DAY = 10 };
    const char *host = machine_text(run->machine, "host");
    const char *date = machine_text(run->machine, "date");
    return sp_format(arena, "run %s, %s%s%s%s%.*s", run->key, machine_text(run->machine, "gpu"),
                     host[0] == '\0' ? "" : " of ", host, date[0] == '\0' ? "" : ", ", DAY, date);
}

static bool is_repeated(const struct calibration_request *request, size_t run)
{
    for (size_t i = 0; i < run; i++) {
        if (strcmp(request->runs[i].key, request->runs[run].key) == 0) {
            return true;
        }
    }
    return false;
}

static void name_source(struct calibration_work *work)
{
    const struct calibration_request *request = work->request;
    struct sp_texts sources = {.arena = work->arena};
    for (size_t i = 0; i < request->n_runs; i++) {
        if (!is_repeated(request, i)) {
            sp_texts_add(&sources, "%s", run_text(work->arena, &request->runs[i]));
        }
    }
    work->out->source =
        sp_format(work->arena, "fitted to %s", sp_join(work->arena, sources.items, sources.count, "; "));
}

/* What a log of another program does not say of its machine is taken on trust. */
static bool check_machine(const struct calibration_work *work, const struct calibration_run *run, struct sp_error *err)
{
    static const double memory_tolerance = 0.05; /* drivers report a little less than chips hold */
    const struct gpu_spec *gpu = &work->out->before->gpu;
    double sms = machine_number(run->machine, "sm_count");
    double memory = machine_number(run->machine, "hbm_bytes");
    bool is_other = (sms > 0 && fabs(sms - gpu->sm_count.value) > 0.5) ||
                    (memory > 0 && fabs(memory / gpu->hbm_capacity.value - 1) > memory_tolerance);
    if (!is_other && gpu_name_is_other(machine_text(run->machine, "gpu"), gpu->title)) {
        return sp_fail(err, SP_ERROR_INPUT, "run %s is of an %s, but %s has %s: name the hardware that was measured",
                       run->key, machine_text(run->machine, "gpu"), work->out->before->name, gpu->title);
    }
    if (!is_other) {
        return true;
    }
    return sp_fail(err, SP_ERROR_INPUT,
                   "run %s is of an %s with %.0f multiprocessors and %s, but %s has %s with %.0f and %s: name the "
                   "hardware that was measured",
                   run->key, machine_text(run->machine, "gpu"), sms, sp_quantity_print(work->arena, memory, SP_BYTES),
                   work->out->before->name, gpu->title, gpu->sm_count.value,
                   sp_quantity_print(work->arena, gpu->hbm_capacity.value, SP_BYTES));
}

/* Hardware whose title names no chip is no help: the runs must then be of one GPU among themselves. */
static bool check_one_machine(const struct calibration_request *request, struct sp_error *err)
{
    const char *first = "";
    for (size_t i = 0; i < request->n_runs; i++) {
        const char *gpu = machine_text(request->runs[i].machine, "gpu");
        if (gpu_name_has_chip(gpu) && gpu_name_is_other(gpu, first)) {
            return sp_fail(err, SP_ERROR_INPUT, "the runs are of different GPUs, %s and %s: calibrate each on its own",
                           first, gpu);
        }
        first = gpu_name_has_chip(first) ? first : gpu;
    }
    return true;
}

/* Curves belong to the power limit that they were measured under. */
static void take_power_limit(struct calibration_work *work)
{
    static const double tolerance = 0.01;
    const struct gpu_spec *gpu = &work->out->before->gpu;
    for (size_t i = 0; i < work->request->n_runs; i++) {
        double watts = machine_number(work->request->runs[i].machine, "power_limit_w");
        if (watts > 0 && fabs(watts / gpu->power_limit.value - 1) > tolerance) {
            const struct calibration_parameter limit = {"power limit", SP_WATT, watts, watts, watts, true};
            calibration_figure_set(work, "gpu.curve_power_limit", &limit, "of the machine that was measured");
            sp_texts_add(
                &work->out->advice,
                "run %s was measured under %.0f W, the hardware's limit is %.0f W: set gpu.power_limit to what "
                "your GPUs run under",
                work->request->runs[i].key, watts, gpu->power_limit.value);
            return;
        }
    }
}

/* ---- the file --------------------------------------------------------------------------------------------------- */

static const struct sp_json *read_inside(struct sp_arena *arena, const char *kind, const struct sp_json *member,
                                         struct sp_error *err)
{
    if (member->type != SP_JSON_STRING) {
        return member;
    }
    const char *path = data_find(arena, kind, member->string, err);
    return path == NULL ? NULL : sp_json_read(arena, path, err);
}

static bool open_file(struct calibration_work *work, struct sp_error *err)
{
    struct sp_arena *arena = work->arena;
    struct hardware_spec *before = sp_arena_alloc(arena, sizeof(*before));
    work->out->before = before;
    if (!hardware_read(arena, work->request->hardware, NULL, before, err)) {
        return false;
    }
    const struct sp_json *json = sp_json_read(arena, before->path, err);
    const struct sp_json *gpu =
        json == NULL ? NULL : read_inside(arena, "hardware/gpus", sp_json_member(json, "gpu"), err);
    if (gpu == NULL) {
        return false;
    }
    json = json_with(arena, json, "gpu", gpu);
    json = json_with(arena, json, "name", json_text(arena, work->request->name));
    work->file = json_with(arena, json, "title", json_text(arena, sp_format(arena, "%s, calibrated", before->title)));
    return true;
}

/* ---- before and after ------------------------------------------------------------------------------------------- */

static int group_of(const struct measurement *line)
{
    const char *beside = fit_text_or_none(line, "beside");
    bool is_overlap = line->group == MEASUREMENT_COLLECTIVE && beside[0] != '\0' && strcmp(beside, "none") != 0;
    return is_overlap ? overlap_group : (int)line->group;
}

/* Lines of a group on one machine; *worst: the key of the line with the largest error. */
static struct calibration_errors errors_of(const struct calibration_work *work, int group,
                                           const struct hardware_spec *hardware, const char **worst)
{
    struct calibration_errors errors = {.n = 0};
    double *sizes = sp_arena_array(work->arena, work->n_lines + 1, sizeof(*sizes));
    double *signs = sp_arena_array(work->arena, work->n_lines + 1, sizeof(*signs));
    const struct fit_machine machine = {hardware, work->request->kernel};
    *worst = "";
    for (size_t i = 0; i < work->n_lines; i++) {
        const struct measurement *line = work->lines[i];
        struct sp_error err;
        double seconds = 0;
        if (group_of(line) != group || !fit_predict(work->arena, &machine, line, &seconds, &err)) {
            continue;
        }
        signs[errors.n] = seconds / line->median_s - 1;
        sizes[errors.n] = fabs(signs[errors.n]);
        if (sizes[errors.n] >= errors.worst) {
            errors.worst = sizes[errors.n];
            *worst = line->key;
        }
        errors.n++;
    }
    if (errors.n > 0) {
        errors.median = median_of(work->arena, sizes, errors.n);
        errors.bias = median_of(work->arena, signs, errors.n);
    }
    return errors;
}

static void count_unpriced(const struct calibration_work *work, int index, struct calibration_group *group)
{
    const struct fit_machine machine = {work->out->after, work->request->kernel};
    for (size_t i = 0; i < work->n_lines; i++) {
        struct sp_error err;
        double seconds = 0;
        if (group_of(work->lines[i]) != index) {
            continue;
        }
        group->n_lines++;
        if (!fit_predict(work->arena, &machine, work->lines[i], &seconds, &err)) {
            group->unpriced = group->n_unpriced == 0 ? sp_strdup(work->arena, err.text) : group->unpriced;
            group->n_unpriced++;
        }
    }
}

static double held_out_of(const struct calibration *out, int index)
{
    double sum = 0;
    double n = 0;
    for (int64_t i = 0; i < out->n_curves; i++) {
        const struct calibration_curve *curve = &out->curves[i];
        if ((int)curve->group == index && curve->model != NULL && curve->held_out >= 0) {
            sum += curve->held_out * curve->n_points;
            n += curve->n_points;
        }
    }
    return n > 0 ? sum / n : -1;
}

static void compare_groups(struct calibration_work *work)
{
    struct calibration *out = work->out;
    for (int i = 0; i < CALIBRATION_GROUPS; i++) {
        struct calibration_group *group = &out->groups[i];
        const char *worst_before = NULL;
        group->name = i == overlap_group ? "overlap" : measurement_group_names[i];
        if (i != overlap_group && !calibration_has(work, (enum measurement_group)i)) {
            continue;
        }
        if (i == overlap_group && !calibration_has(work, MEASUREMENT_COLLECTIVE)) {
            continue;
        }
        count_unpriced(work, i, group);
        group->before = errors_of(work, i, out->before, &worst_before);
        group->after = errors_of(work, i, out->after, &group->worst_key);
        group->held_out = held_out_of(out, i);
    }
}

/* ---- what to measure next --------------------------------------------------------------------------------------- */

static bool is_same_advice(const struct calibration_curve *a, const struct calibration_curve *b)
{
    return a->advice != NULL && b->advice != NULL && strcmp(a->advice, b->advice) == 0;
}

static bool is_said_before(const struct calibration *out, int64_t at)
{
    for (int64_t i = 0; i < at; i++) {
        if (is_same_advice(&out->curves[i], &out->curves[at])) {
            return true;
        }
    }
    return false;
}

/* The curves from `first` on that one piece of advice is for. */
static const char *curves_with(const struct calibration *out, int64_t first)
{
    struct sp_texts names = {.arena = out->advice.arena};
    for (int64_t i = first; i < out->n_curves; i++) {
        if (is_same_advice(&out->curves[i], &out->curves[first])) {
            sp_texts_add(&names, "%s", out->curves[i].what);
        }
    }
    return sp_join(names.arena, names.items, names.count, ", ");
}

static void advise(struct calibration *out)
{
    const struct calibration_curve *widest = NULL;
    for (int64_t i = 0; i < out->n_curves; i++) {
        const struct calibration_curve *curve = &out->curves[i];
        if (curve->model != NULL && (widest == NULL || curve->spread > widest->spread)) {
            widest = curve;
        }
    }
    if (widest != NULL && widest->spread > 0) {
        sp_texts_add(&out->advice,
                     "the widest curve is %s: one call lies within %.0f %% (a standard deviation); more of it narrows "
                     "predictions most: seqplan measure --full --new --only %s",
                     widest->what, 100 * widest->spread, measurement_group_names[widest->group]);
    }
    for (int64_t i = 0; i < out->n_curves; i++) {
        if (out->curves[i].advice != NULL && !is_said_before(out, i)) {
            sp_texts_add(&out->advice, "%s: %s", curves_with(out, i), out->curves[i].advice);
        }
    }
}

/* ---- all of it -------------------------------------------------------------------------------------------------- */

/* What a fit made of the file must be a machine; else the file stays as it was, and what was fitted says why. */
static void fit_whole_or_not(struct calibration_work *work, void (*fit)(struct calibration_work *))
{
    struct calibration *out = work->out;
    const struct sp_json *file = work->file;
    const int64_t n_curves = out->n_curves;
    struct hardware_spec *read = sp_arena_alloc(work->arena, sizeof(*read));
    struct sp_error err = {.kind = SP_ERROR_NONE};
    fit(work);
    if (work->file == file || hardware_from_json(work->arena, work->request->name, work->file, read, &err)) {
        return;
    }
    work->file = file;
    for (int64_t i = n_curves; i < out->n_curves; i++) {
        if (out->curves[i].model != NULL) {
            calibration_curve_refuse(
                &out->curves[i],
                sp_format(work->arena, "what was fitted is no machine (%s): are the lines in seconds, bytes and FLOP?",
                          err.text));
        }
    }
}

static void fit_groups(struct calibration_work *work)
{
    static const struct {
        enum measurement_group group;
        void (*fit)(struct calibration_work *);
    } fits[] = {
        {MEASUREMENT_COPY, calibrate_copy},
        {MEASUREMENT_GEMM, calibrate_gemm},
        {MEASUREMENT_ATTENTION, calibrate_attention},
        {MEASUREMENT_ELEMENTWISE, calibrate_elementwise},
        {MEASUREMENT_COPY, calibrate_pcie},
        {MEASUREMENT_LATENCY, calibrate_launch},
        {MEASUREMENT_COLLECTIVE, calibrate_collectives},
        {MEASUREMENT_COLLECTIVE, calibrate_overlap}, /* after attention and matrix products */
        {MEASUREMENT_COLLECTIVE, calibrate_network}, /* after those inside a node */
    };
    take_power_limit(work);
    for (size_t i = 0; i < SP_COUNT_OF(fits); i++) {
        if (calibration_has(work, fits[i].group)) {
            fit_whole_or_not(work, fits[i].fit);
        }
    }
}

/* Why nothing was tried: the lines cannot be, or the model has no use for them, or there are none. */
static bool fail_without_curves(const struct calibration_work *work, struct sp_error *err)
{
    const struct calibration *out = work->out;
    const struct fit_machine machine = {out->before, work->request->kernel};
    int64_t n_lines = 0;
    const char *reason = out->remarks.count > 0 ? out->remarks.items[out->remarks.count - 1] : NULL;
    for (size_t i = 0; i < work->n_lines; i++) {
        struct sp_error why;
        double seconds = 0;
        const struct measurement *line = work->lines[i];
        if (!calibration_has(work, line->group)) {
            continue;
        }
        if (n_lines++ == 0) {
            bool is_priced = fit_predict(work->arena, &machine, line, &seconds, &why);
            reason = sp_format(work->arena, "%s: %s", line->key, is_priced ? "no curve is fitted to such" : why.text);
        }
    }
    if (reason != NULL) {
        return sp_fail(err, SP_ERROR_INPUT, "nothing to fit: no line of the groups asked for can be used: %s", reason);
    }
    return sp_fail(err, SP_ERROR_INPUT,
                   "nothing to fit: the runs hold no timed line of the groups asked for; 'seqplan measure --full' "
                   "makes them");
}

static bool check_fitted(const struct calibration_work *work, struct sp_error *err)
{
    struct calibration *out = work->out;
    for (int64_t i = 0; i < out->n_curves; i++) {
        out->n_fitted += out->curves[i].model != NULL ? 1 : 0;
    }
    if (out->n_fitted > 0) {
        return true;
    }
    if (out->n_curves == 0) {
        return fail_without_curves(work, err);
    }
    return sp_fail(err, SP_ERROR_INPUT, "nothing can be fitted: %s: %s; measure more: %s", out->curves[0].what,
                   out->curves[0].reason,
                   out->curves[0].advice != NULL ? out->curves[0].advice : "seqplan measure --full");
}

bool calibrate(struct sp_arena *arena, const struct calibration_request *request, struct calibration *calibration,
               struct sp_error *err)
{
    *calibration = (struct calibration){.advice = {.arena = arena}, .remarks = {.arena = arena}};
    struct calibration_work work = {.arena = arena, .request = request, .out = calibration};
    if (!open_file(&work, err)) {
        return false;
    }
    for (size_t i = 0; i < request->n_runs; i++) {
        if (!check_machine(&work, &request->runs[i], err)) {
            return false;
        }
    }
    if (!check_one_machine(request, err)) {
        return false;
    }
    name_source(&work);
    calibration_take_lines(&work);
    fit_groups(&work);
    if (!check_fitted(&work, err)) {
        return false;
    }
    calibration->file = work.file;
    calibration->after = sp_arena_alloc(arena, sizeof(*calibration->after));
    if (!hardware_from_json(arena, request->name, work.file, calibration->after, err)) {
        sp_error_prefix(err, "what was fitted is no machine (are the lines in seconds, bytes and FLOP?)");
        err->kind = SP_ERROR_INPUT;
        return false;
    }
    compare_groups(&work);
    advise(calibration);
    return true;
}
