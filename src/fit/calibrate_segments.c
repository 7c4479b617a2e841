/* Time of a collective by its bytes: one, two or three lines, the number chosen by how well sizes are predicted that the
 * fit did not see. */
#include "fit/fit_internal.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* Two parameters a segment; with fewer sizes in all nothing would be left to check a curve by. */
enum { POINTS_A_SEGMENT = 3, FEWEST_SIZES = 5, MOST_FOLDS = 12 };
/* A copy of a size between its neighbours: interpolation errs by its own noise and half of theirs, 1 + 2/4. */
static const double INTERPOLATION_VARIANCE = 1.5;
static const double WILD = 4; /* deviations: a held-out error beyond them counts as that much */

static double clamped(double t)
{
    return fmax(t, 1e-12);
}

/* ---- how noisy the points are ------------------------------------------------------------------------------------ */

/* From each point and the line, log-log, between its neighbours. */
static double noise_scale(struct sp_arena *arena, const struct measured_points *points)
{
    struct sp_arena_mark mark = sp_arena_mark(arena);
    double *residuals = sp_arena_array(arena, (size_t)points->n, sizeof(*residuals));
    int n = 0;
    for (int i = 1; i + 1 < points->n; i++) {
        double width = log(points->x[i + 1] / points->x[i - 1]);
        double t = width > 0 ? log(points->x[i] / points->x[i - 1]) / width : 0.5;
        residuals[n++] = (log(points->y[i]) - (1 - t) * log(points->y[i - 1]) - t * log(points->y[i + 1])) /
                         sqrt(INTERPOLATION_VARIANCE);
    }
    double scale = n > 0 ? robust_scale(arena, residuals, n, 0) : robust_scale(arena, &(double){0}, 1, 0);
    sp_arena_rewind(arena, mark);
    return scale;
}

/* ---- where segments begin ---------------------------------------------------------------------------------------- */

struct split {
    int n_segments;
    int first[MOST_SEGMENTS + 1]; /* index of the first point of each; the last: how many points */
    double loss;
};

/* The loss of every range of points. */
struct ranges {
    struct sp_arena *arena;
    const struct measured_points *points;
    double scale;
    double *losses; /* n x (n + 1): from, to; infinite where a range has too few sizes */
};

static int count_sizes(const struct measured_points *points, int from, int to)
{
    int n = from < to ? 1 : 0;
    for (int i = from + 1; i < to; i++) {
        n += points->x[i] > points->x[i - 1] ? 1 : 0;
    }
    return n;
}

static bool may_begin(const struct measured_points *points, int at)
{
    return at == 0 || at == points->n || points->x[at] > points->x[at - 1];
}

static double range_line(const struct ranges *ranges, int from, int to, double line[2])
{
    const struct measured_points part = {to - from, ranges->points->x + from, ranges->points->y + from};
    return segment_fit_line(ranges->arena, &part, ranges->scale, line);
}

static void price_ranges(struct ranges *ranges)
{
    int n = ranges->points->n;
    ranges->losses = sp_arena_array(ranges->arena, (size_t)n * (size_t)(n + 1), sizeof(*ranges->losses));
    for (int from = 0; from < n; from++) {
        for (int to = 0; to <= n; to++) {
            double line[2];
            bool is_range = to > from && may_begin(ranges->points, from) && may_begin(ranges->points, to) &&
                            count_sizes(ranges->points, from, to) >= POINTS_A_SEGMENT;
            ranges->losses[from * (n + 1) + to] = is_range ? range_line(ranges, from, to, line) : (double)INFINITY;
        }
    }
}

static void try_split(const struct ranges *ranges, const struct split *split, struct split *best)
{
    struct split tried = *split;
    tried.loss = 0;
    for (int s = 0; s < split->n_segments; s++) {
        tried.loss += ranges->losses[split->first[s] * (ranges->points->n + 1) + split->first[s + 1]];
    }
    if (tried.loss < best->loss) {
        *best = tried;
    }
}

/* The split with the least loss; false where there are too few sizes for as many segments. */
static bool best_split(const struct ranges *ranges, int n_segments, struct split *best)
{
    int n = ranges->points->n;
    *best = (struct split){.loss = INFINITY};
    struct split split = {.n_segments = n_segments};
    for (int a = n_segments > 1 ? 1 : n; a <= (n_segments > 1 ? n - 1 : n); a++) {
        split.first[1] = a;
        for (int b = n_segments > 2 ? a + 1 : n; b <= (n_segments > 2 ? n - 1 : n); b++) {
            if (n_segments > 1) {
                split.first[2] = b;
            }
            split.first[n_segments] = n;
            try_split(ranges, &split, best);
        }
    }
    return isfinite(best->loss);
}

/* Between the last size of one segment and the first of the next a protocol changes: in the middle, on the logarithm. */
static double boundary(const struct measured_points *points, int first)
{
    return sqrt(points->x[first - 1] * points->x[first]);
}

static double split_time(const struct ranges *ranges, const struct split *split, double x)
{
    int s = 0;
    while (s + 1 < split->n_segments && x >= boundary(ranges->points, split->first[s + 1])) {
        s++;
    }
    double line[2];
    (void)range_line(ranges, split->first[s], split->first[s + 1], line);
    return clamped(line[0] + line[1] * x);
}

/* ---- how many segments ------------------------------------------------------------------------------------------- */

static int distinct_before(const struct measured_points *points, int at)
{
    return count_sizes(points, 0, at + 1) - 1;
}

/* |log error| of every point predicted from the other folds, by number of segments; NAN where there were too few. */
static void hold_out(struct sp_arena *arena, const struct measured_points *points, double scale,
                     double *errors[MOST_SEGMENTS])
{
    int n_sizes = count_sizes(points, 0, points->n);
    int n_folds = n_sizes < MOST_FOLDS ? n_sizes : MOST_FOLDS;
    for (int fold = 0; fold < n_folds; fold++) {
        struct sp_arena_mark mark = sp_arena_mark(arena);
        double *x = sp_arena_array(arena, (size_t)points->n, sizeof(*x));
        double *y = sp_arena_array(arena, (size_t)points->n, sizeof(*y));
        struct measured_points kept = {0, x, y};
        for (int i = 0; i < points->n; i++) {
            if (distinct_before(points, i) % n_folds != fold) {
                x[kept.n] = points->x[i];
                y[kept.n++] = points->y[i];
            }
        }
        struct ranges ranges = {.arena = arena, .points = &kept, .scale = scale};
        price_ranges(&ranges);
        for (int k = 1; k <= MOST_SEGMENTS; k++) {
            struct split split;
            bool is_split = kept.n > 0 && best_split(&ranges, k, &split);
            for (int i = 0; i < points->n; i++) {
                if (distinct_before(points, i) % n_folds == fold) {
                    errors[k - 1][i] =
                        is_split ? fabs(log(split_time(&ranges, &split, points->x[i]) / points->y[i])) : (double)NAN;
                }
            }
        }
        sp_arena_rewind(arena, mark);
    }
}

/* A richer curve earns its parameters when held-out errors fall by more than the uncertainty of that fall. */
bool richer_is_better(const double *simple, const double *rich, int n, double scale)
{
    double sum = 0;
    double squares = 0;
    for (int i = 0; i < n; i++) {
        if (isnan(rich[i])) {
            return false;
        }
        double fall = pow(fmin(simple[i], WILD * scale), 2) - pow(fmin(rich[i], WILD * scale), 2);
        sum += fall;
        squares += fall * fall;
    }
    double mean = sum / n;
    double deviation = sqrt(fmax(squares / n - mean * mean, 0) / n);
    return mean > deviation;
}

static int choose(struct sp_arena *arena, const struct measured_points *points, double scale, struct segments *segments)
{
    double *errors[MOST_SEGMENTS];
    for (int k = 0; k < MOST_SEGMENTS; k++) {
        errors[k] = sp_arena_array(arena, (size_t)points->n, sizeof(double));
    }
    hold_out(arena, points, scale, errors);
    int chosen = 0;
    for (int k = 0; k < MOST_SEGMENTS; k++) {
        segments->held_out_by[k] = isnan(errors[k][0]) ? -1 : median_of(arena, errors[k], points->n);
        if (k > 0 && segments->held_out_by[k] >= 0 &&
            (segments->held_out_by[chosen] < 0 || richer_is_better(errors[chosen], errors[k], points->n, scale))) {
            chosen = k;
        }
    }
    segments->held_out = segments->held_out_by[chosen];
    segments->errors = errors[chosen];
    return chosen + 1;
}

/* Of a segment: the logarithm of the time at its first size, and behind it that at its last. */
static size_t parameter_of(int segment)
{
    return 2 * (size_t)segment;
}

/* ---- the curve --------------------------------------------------------------------------------------------------- */

static int segment_at(const struct segments *segments, double bytes)
{
    int s = 0;
    while (s + 1 < segments->n_segments && bytes >= segments->begin[s + 1]) {
        s++;
    }
    return s;
}

static double time_at(const struct segments *segments, const double *p, double bytes)
{
    int s = segment_at(segments, bytes);
    double y0 = exp(p[parameter_of(s)]);
    double y1 = exp(p[parameter_of(s) + 1]);
    return clamped(y0 + (y1 - y0) * (bytes - segments->x0[s]) / (segments->x1[s] - segments->x0[s]));
}

double segments_time(const struct segments *segments, double bytes)
{
    return time_at(segments, segments->fit.p, bytes);
}

double segments_spread(const struct segments *segments, double bytes)
{
    static const double step = 1e-5;
    double gradient[FIT_MAX_PARAMETERS] = {0};
    for (int j = 0; j < segments->fit.n_parameters; j++) {
        double p[FIT_MAX_PARAMETERS];
        memcpy(p, segments->fit.p, sizeof(p));
        p[j] += step;
        gradient[j] = log(time_at(segments, p, bytes) / segments_time(segments, bytes)) / step;
    }
    return hypot(curve_fit_spread(&segments->fit, gradient), segments->fit.sigma);
}

struct segment_line segments_line(const struct segments *segments, int s)
{
    const struct curve_fit *fit = &segments->fit;
    double y0 = exp(fit->p[parameter_of(s)]);
    double y1 = exp(fit->p[parameter_of(s) + 1]);
    double width = segments->x1[s] - segments->x0[s];
    double slope = (y1 - y0) / width;
    double by_slope[FIT_MAX_PARAMETERS] = {0};
    double by_latency[FIT_MAX_PARAMETERS] = {0};
    by_slope[parameter_of(s)] = -y0 / width;
    by_slope[parameter_of(s) + 1] = y1 / width;
    by_latency[parameter_of(s)] = y0 * (1 + segments->x0[s] / width);
    by_latency[parameter_of(s) + 1] = -y1 * segments->x0[s] / width;
    return (struct segment_line){.latency_s = y0 - slope * segments->x0[s],
                                 .latency_deviation_s = curve_fit_spread(fit, by_latency),
                                 .s_per_byte = slope,
                                 .s_per_byte_deviation = curve_fit_spread(fit, by_slope)};
}

struct at_sizes {
    const struct segments *segments;
    const double *x;
};

static double log_time_of(const void *user, int point, const double *p)
{
    const struct at_sizes *at = user;
    return log(time_at(at->segments, p, at->x[point]));
}

/* The lines of the split as the start of a fit of all of them together, whose covariance is that of the whole curve. */
static bool fit_split(struct ranges *ranges, const struct split *split, struct segments *segments, struct sp_error *err)
{
    static const char *const names[] = {"time at the first size of segment 1", "time at the last size of segment 1",
                                        "time at the first size of segment 2", "time at the last size of segment 2",
                                        "time at the first size of segment 3", "time at the last size of segment 3"};
    const struct measured_points *points = ranges->points;
    segments->n_segments = split->n_segments;
    for (int s = 0; s < split->n_segments; s++) {
        double line[2];
        segments->begin[s] = s == 0 ? 0 : boundary(points, split->first[s]);
        segments->x0[s] = points->x[split->first[s]];
        segments->x1[s] = points->x[split->first[s + 1] - 1];
        (void)range_line(ranges, split->first[s], split->first[s + 1], line);
        segments->fit.p[parameter_of(s)] = log(clamped(line[0] + line[1] * segments->x0[s]));
        segments->fit.p[parameter_of(s) + 1] = log(clamped(line[0] + line[1] * segments->x1[s]));
    }
    segments->begin[split->n_segments] = points->x[points->n - 1];
    double *log_y = sp_arena_array(ranges->arena, (size_t)points->n, sizeof(*log_y));
    for (int i = 0; i < points->n; i++) {
        log_y[i] = log(points->y[i]);
    }
    const struct at_sizes at = {segments, points->x};
    const struct curve_model model = {
        .n_parameters = 2 * split->n_segments, .log_value = log_time_of, .user = &at, .names = names};
    const struct curve_points_measured measured = {.n = points->n, .log_y = log_y};
    return curve_fit_run(ranges->arena, &model, &measured, &segments->fit, err);
}

bool segments_fit(struct sp_arena *arena, const struct measured_points *points, struct segments *segments,
                  struct sp_error *err)
{
    *segments = (struct segments){.n_segments = 0};
    int n_sizes = count_sizes(points, 0, points->n);
    if (n_sizes < FEWEST_SIZES) {
        return sp_fail(err, SP_ERROR_INPUT, "%d size%s: latency and bandwidth need %d or more to be fitted and checked",
                       n_sizes, sp_plural(n_sizes), (int)FEWEST_SIZES);
    }
    struct ranges ranges = {.arena = arena, .points = points, .scale = noise_scale(arena, points)};
    price_ranges(&ranges);
    struct split split;
    int n_segments = choose(arena, points, ranges.scale, segments);
    if (!best_split(&ranges, n_segments, &split)) {
        return sp_fail(err, SP_ERROR_INPUT, "%d sizes are too few for %d segments", n_sizes, n_segments);
    }
    return fit_split(&ranges, &split, segments, err);
}
