/* Time by bytes: collectives inside a node, each over its number of ranks, and copies inside the device memory. */
#include "fit/fit_internal.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double TABLE_TOLERANCE =
    0.001;                                  /* what a table may differ from its fit: far below what fits are known to */
static const double SMALLEST_MESSAGE = 256; /* bytes; nothing in a step is smaller */
enum { TABLE_DIGITS = 6 };

struct sized {
    double bytes, seconds;
};

static int by_bytes(const void *a, const void *b)
{
    const struct sized *x = a;
    const struct sized *y = b;
    if (x->bytes < y->bytes || x->bytes > y->bytes) {
        return x->bytes < y->bytes ? -1 : 1;
    }
    return (x->seconds > y->seconds) - (x->seconds < y->seconds);
}

/* Points by size, as two columns. */
static struct measured_points sorted_points(struct sp_arena *arena, struct sized *points, int n)
{
    double *x = sp_arena_array(arena, (size_t)n + 1, sizeof(*x));
    double *y = sp_arena_array(arena, (size_t)n + 1, sizeof(*y));
    if (n > 0) {
        qsort(points, (size_t)n, sizeof(*points), by_bytes);
    }
    for (int i = 0; i < n; i++) {
        x[i] = points[i].bytes;
        y[i] = points[i].seconds;
    }
    return (struct measured_points){n, x, y};
}

/* ---- what is said of the segments ------------------------------------------------------------------------------- */

static const char *segment_name(struct sp_arena *arena, const struct segments *segments, int s, const char *what)
{
    return segments->n_segments == 1
               ? what
               : sp_format(arena, "%s %s %s", what, s == 0 ? "up to" : "from",
                           sp_quantity_print(arena, s == 0 ? segments->begin[1] : segments->begin[s], SP_BYTES));
}

/* Intervals of the line's own coefficients; a latency that may be nothing is not known, nor a rate that may be endless. */
static void describe_segments(struct calibration_work *work, const struct segments *segments,
                              struct calibration_curve *curve)
{
    double t = curve_fit_quantile(segments->fit.freedom);
    for (int s = 0; s < segments->n_segments; s++) {
        struct segment_line line = segments_line(segments, s);
        double wide = t * line.latency_deviation_s;
        struct calibration_parameter latency = {segment_name(work->arena, segments, s, "latency"),
                                                SP_SECONDS,
                                                line.latency_s,
                                                line.latency_s - wide,
                                                line.latency_s + wide,
                                                line.latency_s - wide > 0};
        double steep = t * line.s_per_byte_deviation;
        bool is_known = line.s_per_byte - steep > 0;
        struct calibration_parameter rate = {segment_name(work->arena, segments, s, "bandwidth"),
                                             SP_BYTES_PER_S,
                                             1 / line.s_per_byte,
                                             1 / (line.s_per_byte + steep),
                                             is_known ? 1 / (line.s_per_byte - steep) : 0,
                                             is_known};
        calibration_parameter_add(curve, &latency);
        calibration_parameter_add(curve, &rate);
    }
}

/* Times by bytes: segments, or where these describe the points too poorly the measured sizes as they stand. */
struct times {
    struct segments segments;
    bool is_table;
    struct rate_curve table;
};

/* Held-out errors of both at the sizes between the ends: a table has no others. */
static bool table_is_better(struct sp_arena *arena, const struct measured_points *points, struct times *times)
{
    size_t n = (size_t)points->n;
    double *log_y = sp_arena_array(arena, n, sizeof(*log_y));
    double *errors = sp_arena_array(arena, n, sizeof(*errors));
    double *pairs[2] = {sp_arena_array(arena, n, sizeof(double)), sp_arena_array(arena, n, sizeof(double))};
    const struct rate_points as_rates = {.n = points->n, .x = points->x, .log_rate = log_y};
    struct sp_error err;
    int n_pairs = 0;
    for (int i = 0; i < points->n; i++) {
        log_y[i] = log(points->y[i]);
    }
    if (!rates_fit_table(arena, &as_rates, &times->table, errors, &err)) {
        return false;
    }
    for (int i = 0; i < points->n; i++) {
        if (!isnan(errors[i])) {
            pairs[0][n_pairs] = times->segments.errors[i];
            pairs[1][n_pairs++] = errors[i];
        }
    }
    times->table.held_out = n_pairs > 0 ? median_of(arena, pairs[1], n_pairs) : -1;
    return n_pairs > 0 && times->table.sigma < times->segments.fit.sigma &&
           richer_is_better(pairs[0], pairs[1], n_pairs, times->segments.fit.sigma);
}

static void describe_table(struct calibration_work *work, const struct times *times, struct calibration_curve *curve)
{
    enum { FEW_CALLS = 4 };
    const struct rate_curve *table = &times->table;
    curve->model = sp_format(work->arena, "table of %d sizes", table->n_sizes);
    curve->spread = table->sigma;
    curve->held_out = table->held_out;
    for (int end = 0; end < 2; end++) {
        int i = end == 0 ? 0 : table->n_sizes - 1;
        struct calibration_parameter time = calibration_parameter_log(
            sp_format(work->arena, "time of %s", sp_quantity_print(work->arena, table->x[i], SP_BYTES)),
            table->log_rate[i], table->sigma, FEW_CALLS);
        time.dimension = SP_SECONDS;
        calibration_parameter_add(curve, &time);
    }
}

static bool fit_points(struct calibration_work *work, const struct measured_points *points, struct times *times,
                       struct calibration_curve *curve)
{
    struct sp_error err = {.kind = SP_ERROR_NONE};
    struct segments *segments = &times->segments;
    curve->n_points = points->n;
    if (!segments_fit(work->arena, points, segments, &err)) {
        curve->reason = sp_strdup(work->arena, err.text);
        return false;
    }
    times->is_table = table_is_better(work->arena, points, times);
    if (times->is_table) {
        describe_table(work, times, curve);
        return calibration_curve_holds(work->arena, curve);
    }
    curve->model =
        segments->n_segments == 1 ? "1 segment" : sp_format(work->arena, "%d segments", segments->n_segments);
    curve->n_outliers = segments->fit.n_outliers;
    curve->held_out = segments->held_out;
    double squares = 0;
    for (int i = 0; i < points->n; i++) {
        squares += pow(segments_spread(segments, points->x[i]), 2) / points->n;
    }
    curve->spread = sqrt(squares);
    curve->n_covariance = segments->fit.n_parameters;
    curve->covariance_of = "log seconds at the first and the last size of each segment";
    size_t n = (size_t)curve->n_covariance * (size_t)curve->n_covariance;
    double *covariance = sp_arena_array(work->arena, n, sizeof(*covariance));
    memcpy(covariance, segments->fit.covariance, n * sizeof(*covariance));
    curve->covariance = covariance;
    describe_segments(work, segments, curve);
    return calibration_curve_holds(work->arena, curve);
}

/* ---- segments as rows ------------------------------------------------------------------------------------------- */

static double time_of(const void *user, double bytes)
{
    return segments_time(user, bytes);
}

/* Every segment on its own, so that a step between two stays one. */
static struct curve_samples sample_times(struct sp_arena *arena, const struct times *times, double first)
{
    struct curve_samples samples = {.arena = arena};
    const struct segments *segments = &times->segments;
    if (times->is_table) {
        return rates_sample(arena, &times->table);
    }
    const struct curve_sampling sampling = {.value = time_of, .user = segments, .tolerance = TABLE_TOLERANCE};
    for (int s = 0; s < segments->n_segments; s++) {
        double from = s == 0 ? first : ceil(segments->begin[s]);
        double to = s + 1 < segments->n_segments ? ceil(segments->begin[s + 1]) - 1 : segments->begin[s + 1];
        if (to >= from) {
            curve_sample_range(&sampling, from, to, &samples);
        }
    }
    return samples;
}

/* Below the smallest measured size the first line goes on, where its latency is known. */
static double first_size(const struct measured_points *points, const struct calibration_curve *curve)
{
    bool goes_on = curve->n_covariance > 0 && curve->parameters[0].is_known;
    return goes_on ? fmin(SMALLEST_MESSAGE, points->x[0]) : points->x[0];
}

static void add_texts(struct sp_arena *arena, struct sp_json *table, const char *const *columns, size_t n)
{
    struct sp_json *list = json_new(arena, SP_JSON_ARRAY);
    for (size_t i = 0; i < n; i++) {
        json_add(arena, list, NULL, json_text(arena, columns[i]));
    }
    json_add(arena, table, "columns", list);
}

/* ---- collectives ------------------------------------------------------------------------------------------------ */

struct link_key {
    enum collective operation;
    int64_t ranks;
};

static bool is_link_point(const struct calibration_work *work, const struct measurement *line,
                          struct collective_point *point)
{
    struct sp_error err;
    return line->group == MEASUREMENT_COLLECTIVE && collective_point_read(work->out->before, line, point, &err) &&
           strcmp(point->beside, "none") == 0 && !point->times_kernel && point->group.nodes == 1;
}

static struct measured_points link_points(const struct calibration_work *work, const struct link_key *key)
{
    struct sized *points = sp_arena_array(work->arena, work->n_lines + 1, sizeof(*points));
    int n = 0;
    for (size_t i = 0; i < work->n_lines; i++) {
        struct collective_point point;
        if (is_link_point(work, work->lines[i], &point) && point.operation == key->operation &&
            point.group.size == key->ranks) {
            points[n++] = (struct sized){point.bytes, work->lines[i]->median_s};
        }
    }
    return sorted_points(work->arena, points, n);
}

/* Whether a row of an old table is replaced: of the operation and ranks, and of a size that the fit covers. */
static bool is_replaced(const struct sp_json *row, const struct link_key *key, double first)
{
    const struct sp_json *operation = row->first;
    return operation != NULL && operation->next != NULL && operation->next->next != NULL &&
           operation->type == SP_JSON_STRING && strcmp(operation->string, collective_names[key->operation]) == 0 &&
           operation->next->number >= (double)key->ranks && operation->next->number <= (double)key->ranks &&
           operation->next->next->number >= first;
}

/* The old tables without what is replaced; those that keep no row are left out. */
static struct sp_json *kept_tables(struct sp_arena *arena, const struct sp_json *tables, const struct link_key *key,
                                   double first)
{
    struct sp_json *kept = json_new(arena, SP_JSON_ARRAY);
    for (const struct sp_json *table = tables == NULL ? NULL : tables->first; table != NULL; table = table->next) {
        struct sp_json *rows = json_new(arena, SP_JSON_ARRAY);
        const struct sp_json *old = sp_json_member(table, "rows");
        for (const struct sp_json *row = old->first; row != NULL; row = row->next) {
            if (!is_replaced(row, key, first)) {
                json_add(arena, rows, NULL, row);
            }
        }
        if (rows->count > 0) {
            json_add(arena, kept, NULL, rows->count == old->count ? table : json_with(arena, table, "rows", rows));
        }
    }
    return kept;
}

static bool has_smaller_rows(const struct sp_json *tables, const struct link_key *key, double first)
{
    for (const struct sp_json *table = tables == NULL ? NULL : tables->first; table != NULL; table = table->next) {
        for (const struct sp_json *row = sp_json_member(table, "rows")->first; row != NULL; row = row->next) {
            if (is_replaced(row, key, 0) && !is_replaced(row, key, first)) {
                return true;
            }
        }
    }
    return false;
}

static void write_link(struct calibration_work *work, const struct link_key *key, const struct times *times,
                       const struct calibration_curve *curve, double first)
{
    static const char *const columns[] = {"operation", "ranks", "bytes", "seconds"};
    struct sp_arena *arena = work->arena;
    struct sp_json *tables = kept_tables(arena, json_at(work->file, "intra.tables"), key, first);
    struct sp_json *table = calibration_table_json(
        work, curve, "bytes as nccl-tests counts them: the whole result, input or buffer, or one message");
    add_texts(arena, table, columns, SP_COUNT_OF(columns));
    struct sp_json *rows = json_new(arena, SP_JSON_ARRAY);
    struct curve_samples samples = sample_times(arena, times, first);
    for (int64_t i = 0; i < samples.n; i++) {
        struct sp_json *row = json_new(arena, SP_JSON_ARRAY);
        json_add(arena, row, NULL, json_text(arena, collective_names[key->operation]));
        json_add(arena, row, NULL, json_number(arena, (double)key->ranks));
        json_add(arena, row, NULL, json_number(arena, samples.items[i].x));
        json_add(arena, row, NULL, json_number(arena, json_rounded(samples.items[i].y, TABLE_DIGITS)));
        json_add(arena, rows, NULL, row);
    }
    json_add(arena, table, "rows", rows);
    json_add(arena, tables, NULL, table);
    work->file = json_with_at(arena, work->file, "intra.tables", tables);
}

/* ---- too few sizes: the file's own table, all of it faster or slower -------------------------------------------- */

/* Logarithms of measured over predicted, where the file has a table of just this operation and number of ranks. */
static int ratios_of(const struct calibration_work *work, const struct link_key *key,
                     const struct measured_points *points, double *ratios)
{
    const struct hardware_spec *before = work->out->before;
    const struct group_placement group = {
        .size = key->ranks, .stride = 1, .nodes = 1, .ranks_per_node = key->ranks, .tier = TIER_NVLINK};
    for (int i = 0; i < before->intra.n_lines; i++) {
        if (before->intra.lines[i].operation == key->operation && before->intra.lines[i].ranks == key->ranks) {
            for (int j = 0; j < points->n; j++) {
                ratios[j] = log(points->y[j] / collective_time(before, &group, key->operation, points->x[j]));
            }
            return points->n;
        }
    }
    return 0;
}

static const struct sp_json *scaled_row(struct sp_arena *arena, const struct sp_json *row, double factor)
{
    struct sp_json *scaled = json_new(arena, SP_JSON_ARRAY);
    for (const struct sp_json *value = row->first; value != NULL; value = value->next) {
        bool is_time = value->next == NULL;
        json_add(arena, scaled, NULL,
                 is_time ? json_number(arena, json_rounded(value->number * factor, TABLE_DIGITS)) : value);
    }
    return scaled;
}

static void write_scaled(struct calibration_work *work, const struct link_key *key,
                         const struct calibration_curve *curve, double factor)
{
    struct sp_arena *arena = work->arena;
    const struct sp_json *old = json_at(work->file, "intra.tables");
    struct sp_json *tables = kept_tables(arena, old, key, 0);
    for (const struct sp_json *table = old->first; table != NULL; table = table->next) {
        struct sp_json *rows = json_new(arena, SP_JSON_ARRAY);
        for (const struct sp_json *row = sp_json_member(table, "rows")->first; row != NULL; row = row->next) {
            if (is_replaced(row, key, 0)) {
                json_add(arena, rows, NULL, scaled_row(arena, row, factor));
            }
        }
        if (rows->count > 0) {
            const char *note =
                sp_format(arena, "times x %.4g, from %s", factor, sp_json_member(table, "source")->string);
            struct sp_json *scaled = calibration_table_json(work, curve, note);
            json_add(arena, scaled, "columns", sp_json_member(table, "columns"));
            json_add(arena, scaled, "rows", rows);
            json_add(arena, tables, NULL, scaled);
        }
    }
    work->file = json_with_at(arena, work->file, "intra.tables", tables);
}

/* |log error| of each point from the factor of the others. */
static double *hold_out_ratios(struct sp_arena *arena, const double *ratios, int n)
{
    double *errors = sp_arena_array(arena, (size_t)n, sizeof(*errors));
    double *others = sp_arena_array(arena, (size_t)n, sizeof(*others));
    for (int i = 0; i < n; i++) {
        int n_others = 0;
        for (int j = 0; j < n; j++) {
            if (j != i) {
                others[n_others++] = ratios[j];
            }
        }
        errors[i] = fabs(ratios[i] - robust_mean_of(arena, others, n_others).value);
    }
    return errors;
}

/* One factor on the table that is there. */
struct scaling {
    int n; /* 0: there is no table */
    struct robust_mean mean;
    const double *errors; /* of each point */
};

static struct scaling scaling_of(struct calibration_work *work, const struct link_key *key,
                                 const struct measured_points *points)
{
    enum { FEWEST = 2 };
    double *ratios = sp_arena_array(work->arena, (size_t)points->n + 1, sizeof(*ratios));
    int n = ratios_of(work, key, points, ratios);
    if (n < FEWEST) {
        return (struct scaling){.n = 0};
    }
    return (struct scaling){
        .n = n, .mean = robust_mean_of(work->arena, ratios, n), .errors = hold_out_ratios(work->arena, ratios, n)};
}

static void scale_link(struct calibration_work *work, const struct link_key *key, const struct scaling *scaling,
                       struct calibration_curve *curve)
{
    const struct robust_mean *mean = &scaling->mean;
    struct calibration_parameter factor =
        calibration_parameter_log("factor on its times", mean->value, mean->deviation, mean->freedom);
    factor.dimension = SP_PURE;
    curve->model = "the file's table, scaled";
    curve->reason = NULL;
    curve->spread = hypot(mean->sigma, mean->deviation);
    curve->held_out = median_of(work->arena, scaling->errors, scaling->n);
    curve->n_parameters = 0;
    curve->n_covariance = 0;
    calibration_parameter_add(curve, &factor);
    if (calibration_curve_holds(work->arena, curve)) {
        write_scaled(work, key, curve, factor.value);
    }
}

/* Where sizes are too few for a curve of their own: the scaled table, if they agree on it. */
static void scale_few(struct calibration_work *work, const struct link_key *key, const struct scaling *scaling,
                      struct calibration_curve *curve)
{
    static const double most_spread = 0.1;
    curve->advice = "more sizes, for latency and bandwidth of their own: seqplan measure --full --only collective";
    if (scaling->n > 0 && scaling->mean.sigma <= most_spread) {
        scale_link(work, key, scaling, curve);
    } else if (scaling->n > 0) {
        curve->reason = sp_format(
            work->arena, "%s, and they do not follow the file's table either (%.0f %% around a factor of %.2f)",
            curve->reason, 100 * scaling->mean.sigma, exp(scaling->mean.value));
    }
}

/* A curve of several parameters must earn them: not where one factor on what is there predicts as well. A table that was
 * itself fitted has seen such points, perhaps these: it is fitted anew. */
static bool is_scaled_enough(const struct calibration_work *work, const struct link_key *key,
                             const struct scaling *scaling, const struct times *times)
{
    const struct segments *segments = &times->segments;
    for (int i = 0; i < work->out->before->intra.n_lines; i++) {
        const struct collective_line *line = &work->out->before->intra.lines[i];
        if (line->operation == key->operation && line->ranks == key->ranks && line->curve.kind == SP_FIGURE_FITTED) {
            return false;
        }
    }
    double held_out = times->is_table ? times->table.held_out : segments->held_out;
    return scaling->n > 0 && median_of(work->arena, scaling->errors, scaling->n) <= held_out &&
           !richer_is_better(scaling->errors, segments->errors, scaling->n, segments->fit.sigma);
}

static void fit_link(struct calibration_work *work, const struct link_key *key)
{
    struct sp_arena *arena = work->arena;
    struct calibration_curve *curve = calibration_curve_add(
        work, MEASUREMENT_COLLECTIVE,
        sp_format(arena, "%s over %lld GPUs", collective_names[key->operation], (long long)key->ranks));
    struct measured_points points = link_points(work, key);
    struct scaling scaling = scaling_of(work, key, &points);
    struct times times;
    if (!fit_points(work, &points, &times, curve)) {
        scale_few(work, key, &scaling, curve);
        return;
    }
    if (is_scaled_enough(work, key, &scaling, &times)) {
        scale_link(work, key, &scaling, curve);
        return;
    }
    /* sizes below the smallest that was measured stay as the file had them */
    bool keeps_small = has_smaller_rows(json_at(work->file, "intra.tables"), key, points.x[0]);
    if (!times.is_table && !curve->parameters[0].is_known) {
        curve->advice = sp_format(arena, "messages under %s, for the latency: seqplan measure --full --only collective",
                                  sp_quantity_print(arena, points.x[0], SP_BYTES));
    }
    write_link(work, key, &times, curve, keeps_small ? points.x[0] : first_size(&points, curve));
}

void calibrate_collectives(struct calibration_work *work)
{
    for (int operation = 0; operation < N_COLLECTIVES; operation++) {
        int64_t ranks = 1;
        int64_t next = 0;
        do { /* numbers of ranks, ascending */
            next = INT64_MAX;
            for (size_t i = 0; i < work->n_lines; i++) {
                struct collective_point point;
                if (is_link_point(work, work->lines[i], &point) && (int)point.operation == operation &&
                    point.group.size > ranks && point.group.size < next) {
                    next = point.group.size;
                }
            }
            ranks = next;
            const struct link_key key = {(enum collective)operation, ranks};
            if (ranks != INT64_MAX) {
                fit_link(work, &key);
            }
        } while (next != INT64_MAX);
    }
}

/* ---- copies ----------------------------------------------------------------------------------------------------- */

void calibrate_copy(struct calibration_work *work)
{
    static const char *const columns[] = {"bytes", "seconds"};
    struct sp_arena *arena = work->arena;
    struct sized *sizes = sp_arena_array(arena, work->n_lines + 1, sizeof(*sizes));
    int n = 0;
    for (size_t i = 0; i < work->n_lines; i++) {
        const struct measurement *line = work->lines[i];
        if (line->group == MEASUREMENT_COPY && line->bytes > 0 && strcmp(fit_text_or_none(line, "by"), "memcpy") == 0) {
            sizes[n++] = (struct sized){line->bytes, line->median_s};
        }
    }
    if (n == 0) {
        return;
    }
    struct calibration_curve *curve = calibration_curve_add(work, MEASUREMENT_COPY, "copy inside device memory");
    struct measured_points points = sorted_points(arena, sizes, n);
    struct times times;
    if (!fit_points(work, &points, &times, curve)) {
        curve->advice = "seqplan measure --full --only copy";
        return;
    }
    struct sp_json *table = calibration_table_json(work, curve, "bytes read plus bytes written, by the driver");
    add_texts(arena, table, columns, SP_COUNT_OF(columns));
    struct sp_json *rows = json_new(arena, SP_JSON_ARRAY);
    struct curve_samples samples = sample_times(arena, &times, first_size(&points, curve));
    for (int64_t i = 0; i < samples.n; i++) {
        struct sp_json *row = json_new(arena, SP_JSON_ARRAY);
        json_add(arena, row, NULL, json_number(arena, samples.items[i].x));
        json_add(arena, row, NULL, json_number(arena, json_rounded(samples.items[i].y, TABLE_DIGITS)));
        json_add(arena, rows, NULL, row);
    }
    json_add(arena, table, "rows", rows);
    work->file = json_with_at(arena, work->file, "gpu.copy", table);
}
