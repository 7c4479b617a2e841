/* Fits of data that are made: the figures they were made from must come back, inside the interval as often as it says, and
 * a curve with more parameters only where the data have them. */
#include "fit/fit_internal.h"

#include "support/support.h"

#include <math.h>

enum { DRAWS = 200 };
/* Of 200 draws a 90 % interval holds the truth in 180, give or take 4.2: three deviations of that. */
static const double LEAST_COVERAGE = 0.835;
static const double MOST_COVERAGE = 0.965;

/* In (0, 1): the high bits of a product, for neighbouring draws of the generator itself are alike (Vigna 2016). */
static double uniform(uint64_t *state)
{
    return ((double)(next_random(state) * UINT64_C(2685821657736338717) >> 11) + 0.5) * 0x1p-53;
}

/* Of a normal distribution (Box and Muller). */
static double normal(uint64_t *state)
{
    double u = uniform(state);
    double v = uniform(state);
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

static bool is_covered(int n_covered)
{
    double share = (double)n_covered / DRAWS;
    return share >= LEAST_COVERAGE && share <= MOST_COVERAGE;
}

/* ---- latency and bandwidth -------------------------------------------------------------------------------------- */

enum { SIZES = 15 };
static const double sizes[SIZES] = {1021,    3000,    9001, 27e3, 70001, 200e3,     500e3, 1.3e6,
                                    3000001, 9000001, 27e6, 65e6, 150e6, 350000001, 900e6};

static void made_of(const struct segment_line *truth, double noise, uint64_t *state, double *y)
{
    for (int i = 0; i < SIZES; i++) {
        y[i] = (truth->latency_s + truth->s_per_byte * sizes[i]) * exp(noise * normal(state));
    }
}

/* One line: 6.1 us and 377 GB/s, 3 % of noise. */
static void latency_and_bandwidth_come_back(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    const struct segment_line truth = {.latency_s = 6.1e-6, .s_per_byte = 1 / 377e9};
    uint64_t random = 61;
    int n_latency = 0;
    int n_rate = 0;
    int n_single = 0;
    for (int draw = 0; draw < DRAWS; draw++) {
        struct sp_arena_mark mark = sp_arena_mark(arena);
        double y[SIZES];
        struct segments segments;
        struct sp_error err;
        made_of(&truth, 0.03, &random, y);
        const struct measured_points points = {SIZES, sizes, y};
        assert_true(segments_fit(arena, &points, &segments, &err));
        struct segment_line line = segments_line(&segments, 0);
        double t = curve_fit_quantile(segments.fit.freedom);
        n_single += segments.n_segments == 1 ? 1 : 0;
        if (segments.n_segments == 1) {
            n_latency += fabs(line.latency_s - truth.latency_s) <= t * line.latency_deviation_s ? 1 : 0;
            n_rate += fabs(line.s_per_byte - truth.s_per_byte) <= t * line.s_per_byte_deviation ? 1 : 0;
        }
        sp_arena_rewind(arena, mark);
    }
    print_message("one segment: %d of %d; inside: latency %d, bandwidth %d\n", n_single, DRAWS, n_latency, n_rate);
    assert_true(n_single >= DRAWS * 9 / 10);
    assert_true((double)n_latency / n_single >= LEAST_COVERAGE && (double)n_latency / n_single <= MOST_COVERAGE);
    assert_true((double)n_rate / n_single >= LEAST_COVERAGE && (double)n_rate / n_single <= MOST_COVERAGE);
    sp_arena_close(arena);
}

/* 5 us and 60 GB/s up to 2 MB, then 21 us and 371 GB/s: at 2 MB the time falls from 38 to 26 us. */
static void a_change_of_protocol_is_found(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    uint64_t random = 7;
    double y[SIZES];
    for (int i = 0; i < SIZES; i++) {
        bool is_small = sizes[i] < 2e6;
        double exact = (is_small ? 5e-6 : 21e-6) + sizes[i] / (is_small ? 60e9 : 371e9);
        y[i] = exact * exp(0.01 * normal(&random));
    }
    struct segments segments;
    struct sp_error err;
    const struct measured_points points = {SIZES, sizes, y};
    assert_true(segments_fit(arena, &points, &segments, &err));
    assert_int_equal(segments.n_segments, 2);
    assert_true(segments.held_out_by[1] < segments.held_out_by[0] / 3);
    assert_close(segments.begin[1], sqrt(1.3e6 * 3000001), 1e-9); /* between the last size before and the first after */
    assert_close(segments_line(&segments, 0).latency_s, 5e-6, 0.05);
    assert_close(1 / segments_line(&segments, 0).s_per_byte, 60e9, 0.03);
    assert_close(1 / segments_line(&segments, 1).s_per_byte, 371e9, 0.03);
    sp_arena_close(arena);
}

/* A size that took five times as long, in the middle: the line stays, and says that there is a wild point. */
static void a_wild_point_bends_nothing(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    const struct segment_line truth = {.latency_s = 6.1e-6, .s_per_byte = 1 / 377e9};
    for (int wild = 3; wild < SIZES; wild += 4) {
        uint64_t random = 77;
        double y[SIZES];
        struct segments segments;
        struct sp_error err;
        made_of(&truth, 0.01, &random, y);
        y[wild] *= 5;
        const struct measured_points points = {SIZES, sizes, y};
        assert_true(segments_fit(arena, &points, &segments, &err));
        assert_int_equal(segments.n_segments, 1);
        assert_int_equal(segments.fit.n_outliers, 1);
        assert_close(segments_line(&segments, 0).latency_s, truth.latency_s, 0.04);
        assert_close(segments_line(&segments, 0).s_per_byte, truth.s_per_byte, 0.04);
        assert_true(segments.fit.sigma < 0.02);
    }
    sp_arena_close(arena);
}

static void few_sizes_are_refused(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    const double y[] = {1e-5, 1.1e-5, 2e-5, 9e-5, 9.2e-5, 9.1e-5};
    const double x[] = {1000, 1000, 100000, 3e6, 3e6, 3e6};
    struct segments segments;
    struct sp_error err;
    const struct measured_points points = {6, x, y};
    assert_false(segments_fit(arena, &points, &segments, &err));
    assert_error_contains(&err, "3 sizes: latency and bandwidth need 5 or more");
    sp_arena_close(arena);
}

/* ---- any curve -------------------------------------------------------------------------------------------------- */

/* log(exp(a) x^exp(b)), and the same with a third parameter that does nothing. */
static double power_of(const void *user, int point, const double *p)
{
    const double *x = user;
    return p[0] + exp(p[1]) * log(x[point]);
}
static double idle_of(const void *user, int point, const double *p)
{
    return power_of(user, point, p) + 0 * p[2];
}
static const char *const power_names[] = {"factor", "exponent", "idle one"};

static void parameters_lie_in_their_intervals(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    const double truth[] = {0.4, log(1.3)};
    uint64_t random = 5;
    int n_covered[2] = {0};
    int n_wide = 0;
    for (int draw = 0; draw < DRAWS; draw++) {
        struct sp_arena_mark mark = sp_arena_mark(arena);
        double log_y[SIZES];
        struct curve_fit fit = {.p = {0, 0}};
        struct sp_error err;
        const struct curve_model model = {2, power_of, sizes, power_names};
        const struct curve_points_measured points = {.n = SIZES, .log_y = log_y};
        for (int i = 0; i < SIZES; i++) {
            log_y[i] = power_of(sizes, i, truth) + 0.05 * normal(&random);
        }
        assert_true(curve_fit_run(arena, &model, &points, &fit, &err));
        double t = curve_fit_quantile(fit.freedom);
        for (int j = 0; j < 2; j++) {
            n_covered[j] += fabs(fit.p[j] - truth[j]) <= t * curve_fit_deviation(&fit, j) ? 1 : 0;
        }
        n_wide += fit.sigma > 0.1 ? 1 : 0;
        sp_arena_rewind(arena, mark);
    }
    print_message("inside: factor %d, exponent %d of %d\n", n_covered[0], n_covered[1], DRAWS);
    assert_true(is_covered(n_covered[0]));
    assert_true(is_covered(n_covered[1]));
    assert_int_equal(n_wide, 0);
    sp_arena_close(arena);
}

static void what_points_do_not_determine_is_named(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    double log_y[SIZES];
    double same[SIZES];
    const double truth[] = {0.4, log(1.3)};
    for (int i = 0; i < SIZES; i++) {
        log_y[i] = power_of(sizes, i, truth) + 0.01 * (i % 3 - 1);
        same[i] = 6001;
    }
    struct curve_fit fit = {.p = {0, 0, 0}};
    struct sp_error err;
    const struct curve_points_measured points = {.n = SIZES, .log_y = log_y};
    const struct curve_model idle = {3, idle_of, sizes, power_names};
    assert_false(curve_fit_run(arena, &idle, &points, &fit, &err));
    assert_error_contains(&err, "idle one cannot be told from the rest");
    const struct curve_model one_size = {2, power_of, same, power_names};
    assert_false(curve_fit_run(arena, &one_size, &points, &fit, &err));
    assert_error_contains(&err, "cannot be told from the rest by these points");
    const struct curve_points_measured two = {.n = 2, .log_y = log_y};
    const struct curve_model model = {2, power_of, sizes, power_names};
    assert_false(curve_fit_run(arena, &model, &two, &fit, &err));
    assert_error_contains(&err, "2 points for 2 parameters: expected 3 or more");
    sp_arena_close(arena);
}

/* Six kernels with factors of their own (10 %), fifteen calls each that agree within 1 %: taken for 90 points the factor
 * would be known to 1 %, taken for 6 kernels it is known to 4 %. */
static void errors_that_go_together_are_counted_once(void **state)
{
    (void)state;
    enum { KERNELS = 6, POINTS = KERNELS * SIZES };
    struct sp_arena *arena = sp_arena_open();
    const double truth[] = {0.4, log(1.3)};
    uint64_t random = 13;
    int n_covered = 0;
    for (int draw = 0; draw < DRAWS; draw++) {
        struct sp_arena_mark mark = sp_arena_mark(arena);
        double x[POINTS];
        double log_y[POINTS];
        int cluster[POINTS];
        struct curve_fit fit = {.p = {0, 0}};
        struct sp_error err;
        for (int k = 0; k < KERNELS; k++) {
            double own = 0.1 * normal(&random);
            for (int i = 0; i < SIZES; i++) {
                x[k * SIZES + i] = sizes[i] / 1e6; /* the factor is that of a megabyte, in the middle */
                cluster[k * SIZES + i] = k;
                log_y[k * SIZES + i] = power_of(x, k * SIZES + i, truth) + own + 0.01 * normal(&random);
            }
        }
        const struct curve_model model = {2, power_of, x, power_names};
        const struct curve_points_measured points = {.n = POINTS, .log_y = log_y, .cluster = cluster};
        assert_true(curve_fit_run(arena, &model, &points, &fit, &err));
        double t = curve_fit_quantile(fit.freedom);
        n_covered += fabs(fit.p[0] - truth[0]) <= t * curve_fit_deviation(&fit, 0) ? 1 : 0;
        sp_arena_rewind(arena, mark);
    }
    print_message("inside: factor %d of %d\n", n_covered, DRAWS);
    assert_true(n_covered >=
                DRAWS * 4 / 5); /* of few clusters a little narrow; taken for 90 points it would be some 60 */
    sp_arena_close(arena);
}

static void means_and_scales_shrug_off_a_wild_value(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    const double values[] = {1.01, 0.99, 1.02, 0.98, 1.00, 1.01, 0.99, 5.0};
    struct robust_mean mean = robust_mean_of(arena, values, 8);
    assert_close(mean.value, 1.0, 0.005);
    assert_true(mean.sigma < 0.05);
    /* sizes 1, 2, 3, 4, 1000: the median is 3, and a normal distribution has half of its values within 0.6745 */
    const double residuals[] = {0.03, -0.01, 10, 0.02, -0.04};
    assert_close(robust_scale(arena, residuals, 5, 0), 0.03 / 0.6744897501960817, 1e-12);
    /* the smallest could have been made zero by a parameter: the median of 2, 3, 4, 1000 is 3.5 */
    assert_close(robust_scale(arena, residuals, 5, 1), 0.035 / 0.6744897501960817, 1e-12);
    /* Student's t: 5 % lie beyond 6.3138 of one degree of freedom, beyond 1.8125 of ten */
    assert_close(curve_fit_quantile(1), 6.3138, 1e-4);
    assert_close(curve_fit_quantile(10), 1.8125, 1e-4);
    sp_arena_close(arena);
}

/* ---- rates ------------------------------------------------------------------------------------------------------ */

static void a_saturating_rate_is_told_from_a_table(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    uint64_t random = 3;
    double log_rate[SIZES];
    struct rate_curve curve;
    struct sp_error err;
    const struct rate_points points = {.n = SIZES, .x = sizes, .log_rate = log_rate};
    for (int i = 0; i < SIZES; i++) {
        log_rate[i] = log(637e12 / (1 + 5000 / sizes[i])) + 0.01 * normal(&random);
    }
    assert_true(rates_fit(arena, &points, &curve, &err));
    assert_int_equal(curve.model, RATE_SATURATING);
    assert_close(rates_at(&curve, 40e3), 637e12 / (1 + 5000 / 40e3), 0.02);
    assert_true(curve.held_out < 0.02);
    log_rate[0] += 0.4; /* a size of its own: no curve may pass it by */
    assert_true(rates_fit(arena, &points, &curve, &err));
    assert_int_equal(curve.model, RATE_TABLE);
    for (int i = 0; i < SIZES; i++) { /* up, and down again: no curve that saturates */
        log_rate[i] = log(637e12) - 0.05 * (i - 6) * (i - 6) + 0.01 * normal(&random);
    }
    assert_true(rates_fit(arena, &points, &curve, &err));
    assert_int_equal(curve.model, RATE_TABLE);
    assert_close(rates_at(&curve, sizes[6]), exp(log_rate[6]), 1e-12);
    sp_arena_close(arena);
}

/* The median of pairs that differ by d is off each by d/2, and one value of two by d/sqrt(2). */
static void repeated_sizes_tell_the_noise(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    const double x[] = {10, 10, 20, 30, 30, 40};
    const double log_rate[] = {1.00, 1.04, 2, 3.00, 3.04, 4};
    struct rate_noise noise = {.arena = arena};
    const struct rate_points points = {.n = 6, .x = x, .log_rate = log_rate};
    assert_close(rate_noise_of(&noise), 0, 0);
    rate_noise_add(&noise, &points);
    assert_int_equal(noise.n, 4);
    assert_int_equal(noise.n_sizes, 2);
    assert_close(rate_noise_of(&noise), sqrt(2) * 0.02 / 0.6744897501960817, 1e-9);
    sp_arena_close(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(latency_and_bandwidth_come_back),
        cmocka_unit_test(a_change_of_protocol_is_found),
        cmocka_unit_test(a_wild_point_bends_nothing),
        cmocka_unit_test(few_sizes_are_refused),
        cmocka_unit_test(parameters_lie_in_their_intervals),
        cmocka_unit_test(what_points_do_not_determine_is_named),
        cmocka_unit_test(errors_that_go_together_are_counted_once),
        cmocka_unit_test(means_and_scales_shrug_off_a_wild_value),
        cmocka_unit_test(a_saturating_rate_is_told_from_a_table),
        cmocka_unit_test(repeated_sizes_tell_the_noise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
