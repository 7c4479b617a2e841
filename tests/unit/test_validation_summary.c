/* What is said of rows together: errors, coverage, headlines, which half of a run judges. Figures by hand. */
#include "fit/fit.h"
#include "support/support.h"

#include <string.h>

static struct validation_row row(const char *quantity, double measured, double predicted)
{
    return (struct validation_row){.name = "row",
                                   .group = "all",
                                   .quantity = validation_quantity_find(quantity),
                                   .measured = measured,
                                   .predicted = predicted,
                                   .error_frac = predicted / measured - 1.0};
}

static void errors_of_three_rows(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    struct validation_row rows[] = {row("step_time_s", 10.0, 9.0), row("step_time_s", 25.0, 26.0),
                                    row("step_time_s", 50.0, 51.0), row("step_time_s", 50.0, 100.0),
                                    row("step_time_s", 7.0, 0.0)};
    struct validation_source source = {.name = "s", .rows = rows, .n_rows = 5};
    const struct validation_set set = {.sources = &source, .n_sources = 1};
    struct validation_summary *summaries = NULL;
    rows[3].role = VALIDATION_FIT;
    rows[4].state = VALIDATION_REFUSED;
    rows[0].has_interval = rows[1].has_interval = true;
    rows[0].low = 8.1; /* 10 is inside of 8.1 to 10.8; 25 outside of 25.5 to 26.8 */
    rows[0].high = 10.8;
    rows[1].low = 25.5;
    rows[1].high = 26.8;
    assert_int_equal(validation_summarise(arena, &set, VALIDATION_BY_QUANTITY, VALIDATION_JUDGED, &summaries), 1);
    /* -10 %, +4 %, +2 % */
    assert_int_equal(summaries[0].n_compared, 3);
    assert_int_equal(summaries[0].n_refused, 1);
    assert_close(summaries[0].mape_frac, 0.16 / 3.0, 1e-12);
    assert_close(summaries[0].median_frac, 0.04, 1e-12);
    assert_close(summaries[0].max_frac, 0.10, 1e-12);
    assert_close(summaries[0].bias_frac, -0.04 / 3.0, 1e-12);
    assert_int_equal(summaries[0].n_intervals, 2);
    assert_int_equal(summaries[0].n_within, 1);
    assert_close(summaries[0].width_frac, (2.7 / 9.0 + 1.3 / 26.0) / 2.0, 1e-12);
    /* With the fitted row, +100 %, the median is between 4 and 10 %. */
    assert_int_equal(validation_summarise(arena, &set, VALIDATION_BY_SOURCE, VALIDATION_ALL, &summaries), 1);
    assert_int_equal(summaries[0].n_compared, 4);
    assert_close(summaries[0].median_frac, 0.07, 1e-12);
    sp_arena_close(arena);
}

static void lengths_stand_in_order(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    struct validation_row rows[] = {row("step_time_s", 1.0, 1.0), row("step_time_s", 1.0, 1.0),
                                    row("peak_allocated_bytes", 1.0, 1.0), row("step_time_s", 1.0, 1.0),
                                    row("step_time_s", 1.0, 1.0)};
    const int64_t lengths[] = {1048576, 4095, 393217, 4096, 0};
    const char *const keys[] = {"below 4K", "4K to 16K", "256K to 1M", "1M and longer", "not known"};
    for (int i = 0; i < 5; i++) {
        rows[i].seq = lengths[i];
    }
    struct validation_source source = {.name = "s", .rows = rows, .n_rows = 5};
    const struct validation_set set = {.sources = &source, .n_sources = 1};
    struct validation_summary *summaries = NULL;
    int n = validation_summarise(arena, &set, VALIDATION_BY_SEQ, VALIDATION_ALL, &summaries);
    assert_int_equal(n, 5);
    for (int i = 0; i < n; i++) {
        assert_string_equal(summaries[i].key, keys[i]);
    }
    sp_arena_close(arena);
}

static void what_has_one_key_stands_together(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    struct validation_row rows[] = {row("step_time_s", 1.0, 1.0), row("step_time_s", 1.0, 1.0),
                                    row("mfu_frac", 1.0, 1.0)};
    rows[0].method = "zigzag";
    rows[1].method = "usp";
    rows[2].method = "zigzag";
    struct validation_source source = {.name = "s", .rows = rows, .n_rows = 3};
    const struct validation_set set = {.sources = &source, .n_sources = 1};
    struct validation_summary *summaries = NULL;
    assert_int_equal(validation_summarise(arena, &set, VALIDATION_BY_METHOD, VALIDATION_ALL, &summaries), 3);
    assert_string_equal(summaries[0].key, "zigzag");
    assert_string_equal(summaries[1].key, "zigzag");
    assert_string_equal(summaries[1].quantity->name, "mfu_frac");
    assert_string_equal(summaries[2].key, "usp");
    sp_arena_close(arena);
}

/* Binomial sums by hand: of 10 at 0.9, P(8) = 0.1937102445, P(9) = 0.387420489, P(10) = 0.3486784401. */
static void p_values_by_hand(void **state)
{
    (void)state;
    assert_close(validation_binomial_p(7, 10, 0.9), 2.0 * (1.0 - 0.1937102445 - 0.387420489 - 0.3486784401), 1e-9);
    assert_close(validation_binomial_p(10, 10, 0.9), 2.0 * 0.3486784401, 1e-9);
    assert_close(validation_binomial_p(9, 10, 0.9), 1.0, 0.0); /* neither tail is below one half */
    assert_close(validation_binomial_p(0, 10, 0.9), 2e-10, 1e-6);
    assert_close(validation_binomial_p(0, 0, 0.9), 1.0, 0.0);
}

static void coverage_is_of_rows_that_judge(void **state)
{
    (void)state;
    struct validation_row rows[61];
    for (int i = 0; i < 61; i++) {
        rows[i] = row("step_time_s", 100.0, 102.0);
        rows[i].run = i;
        rows[i].has_interval = i != 60;
        rows[i].low = i % 10 == 3 ? 100.5 : 98.94; /* six of sixty are outside */
        rows[i].high = i % 10 == 3 ? 103.56 : 105.06;
        rows[i].role = i >= 44 ? VALIDATION_FIT : VALIDATION_JUDGE; /* rows 0 to 43: 3, 13, 23, 33, 43 are outside */
    }
    struct validation_source source = {.name = "s", .rows = rows, .n_rows = 61};
    const struct validation_set set = {.sources = &source, .n_sources = 1};
    struct validation_coverage coverage = validation_coverage(&set);
    assert_int_equal(coverage.n, 44);
    assert_int_equal(coverage.n_judged, 44);
    assert_int_equal(coverage.n_within, 39);
    assert_true(coverage.is_enough);
    assert_close(coverage.width_frac, (39 * 0.06 + 5 * 0.03) / 44.0, 1e-9);
    assert_close(coverage.p_value, validation_binomial_p(39, 44, 0.9), 0.0);
    rows[0].role = rows[1].role = rows[2].role = rows[3].role = rows[4].role = VALIDATION_FIT;
    coverage = validation_coverage(&set);
    assert_int_equal(coverage.n, 39);
    assert_false(coverage.is_enough);
}

/* Time, rate and MFU of run 0 are one event, its two peaks another; run 1 has a rate alone. The first quantity of the list decides: the
 * step time of run 0 is inside (95 to 105), its rate, read off another clock, is not. */
static void a_run_counts_once_a_family(void **state)
{
    (void)state;
    struct validation_row rows[] = {row("mfu_frac", 0.4, 0.39),
                                    row("tokens_per_s_per_gpu", 61.0, 77.0),
                                    row("step_time_s", 100.0, 101.0),
                                    row("peak_allocated_bytes", 7e9, 7.1e9),
                                    row("tokens_per_s_per_gpu", 61.0, 77.0),
                                    row("fits", 1.0, 1.0),
                                    row("fits", 1.0, 1.0)};
    for (int i = 0; i < 7; i++) {
        rows[i].run = i < 4 ? 0 : 1;
        rows[i].has_interval = true;
        rows[i].low = 0.95 * rows[i].predicted;
        rows[i].high = 1.05 * rows[i].predicted;
    }
    struct validation_source source = {.name = "s", .rows = rows, .n_rows = 7};
    const struct validation_set set = {.sources = &source, .n_sources = 1};
    struct validation_coverage coverage = validation_coverage(&set);
    assert_int_equal(coverage.n, 5); /* time and memory of run 0, the rate of run 1, two lines of no family */
    assert_int_equal(coverage.n_within, 4);
    rows[2].has_interval = false; /* now the rate decides, which is outside */
    coverage = validation_coverage(&set);
    assert_int_equal(coverage.n, 5);
    assert_int_equal(coverage.n_within, 3);
}

static void headlines_count_graded_sources_once(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    struct validation_row first[] = {row("tokens_per_s_per_gpu", 100.0, 150.0), row("step_time_s", 100.0, 103.0)};
    struct validation_row second[] = {row("tokens_per_s_per_gpu", 100.0, 93.0), row("peak_reserved_bytes", 61.0, 61.0)};
    struct validation_row third[] = {row("step_time_s", 100.0, 140.0)};
    struct validation_row fourth[] = {row("step_time_s", 100.0, 101.0)};
    struct validation_source sources[] = {{.name = "a", .grade = "A", .rows = first, .n_rows = 2},
                                          {.name = "b", .grade = "A", .rows = second, .n_rows = 2},
                                          {.name = "c", .grade = "B", .rows = third, .n_rows = 1},
                                          {.name = "d", .grade = "A", .is_own = true, .rows = fourth, .n_rows = 1}};
    const struct validation_set set = {.sources = sources, .n_sources = 4};
    struct validation_headline headline = validation_headline(arena, &set, VALIDATION_STEP, "A", VALIDATION_JUDGED);
    assert_int_equal(headline.n_sources, 2); /* 3 % of a, whose rate is not counted too, and 7 % of b */
    assert_close(headline.median_frac, 0.05, 1e-9);
    headline = validation_headline(arena, &set, VALIDATION_STEP, NULL, VALIDATION_JUDGED);
    assert_int_equal(headline.n_sources, 3);
    assert_close(headline.median_frac, 0.07, 1e-9);
    headline = validation_headline(arena, &set, VALIDATION_PEAK, "A", VALIDATION_JUDGED);
    assert_int_equal(headline.n_sources, 1);
    first[1].role = VALIDATION_FIT; /* then the rate counts for a */
    headline = validation_headline(arena, &set, VALIDATION_STEP, "A", VALIDATION_JUDGED);
    assert_close(headline.median_frac, (0.5 + 0.07) / 2.0, 1e-9);
    sp_arena_close(arena);
}

/* Of five rows of one question: zigzag 10 s, ulysses 9 s, ring 9.9 s measured; zigzag against ring differ by 1 %, the other
 * two pairs count, of which ulysses against ring is predicted the wrong way. usp was measured twice, and has no order. */
static void order_of_methods(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    struct validation_row rows[] = {row("step_time_s", 10.0, 12.0), row("step_time_s", 9.0, 11.0),
                                    row("step_time_s", 9.9, 10.0),  row("step_time_s", 5.0, 99.0),
                                    row("step_time_s", 5.5, 99.0),  row("step_time_s", 2.0, 99.0)};
    static const char *const methods[] = {"zigzag", "ulysses", "ring", "usp", "usp", "naive"};
    for (int i = 0; i < 6; i++) {
        rows[i].method_label = methods[i];
        rows[i].question_key = i == 5 ? "seq=393217" : "seq=393216";
    }
    struct validation_source source = {.name = "s", .rows = rows, .n_rows = 6};
    const struct validation_set set = {.sources = &source, .n_sources = 1};
    struct validation_order order = validation_order(arena, &set, VALIDATION_JUDGED);
    assert_int_equal(order.n, 2);
    assert_int_equal(order.n_right, 1);
    assert_int_equal(order.wrong.count, 1);
    rows[1].role = VALIDATION_FIT;
    order = validation_order(arena, &set, VALIDATION_JUDGED);
    assert_int_equal(order.n, 0);
    sp_arena_close(arena);
}

/* Keys and halves: bit 32 of FNV-1a, computed apart from this program. */
static void halves_of_a_run_are_stable(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        enum measurement_group group;
        enum validation_role role;
    } known[] = {
        {"method method=zigzag tokens=8192", MEASUREMENT_METHOD, VALIDATION_FIT},
        {"layer method=ulysses tokens=393217", MEASUREMENT_LAYER, VALIDATION_FIT},
        {"method method=ring tokens=393217", MEASUREMENT_METHOD, VALIDATION_JUDGE},
        {"layer 61", MEASUREMENT_LAYER, VALIDATION_JUDGE},
        {"layer 61", MEASUREMENT_GEMM, VALIDATION_FIT},
        {"layer 61", MEASUREMENT_COLLECTIVE, VALIDATION_FIT},
    };
    for (size_t i = 0; i < SP_COUNT_OF(known); i++) {
        const struct measurement line = {.group = known[i].group, .key = known[i].key};
        if (validation_role_of(&line) != known[i].role) {
            fail_msg("%s is of the other half", known[i].key);
        }
    }
}

static void a_bias_has_its_own_reason_or_those_of_its_groups(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    struct sp_error err = {0};
    struct validation_source source = {
        .misses = sp_json_parse(
            arena, "t",
            "{\"a\": {\"step_time_s\": \"one.\"}, \"b\": {\"mfu_frac\": \"x.\", \"step_time_s\": \"two.\"}}", &err)};
    assert_string_equal(validation_bias_reason(arena, &source, "step_time_s"), "a: one. b: two.");
    assert_null(validation_bias_reason(arena, &source, "fits"));
    source.biases = sp_json_parse(arena, "t", "{\"step_time_s\": \"own.\"}", &err);
    assert_string_equal(validation_bias_reason(arena, &source, "step_time_s"), "own.");
    sp_arena_close(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_of_three_rows),
        cmocka_unit_test(lengths_stand_in_order),
        cmocka_unit_test(what_has_one_key_stands_together),
        cmocka_unit_test(p_values_by_hand),
        cmocka_unit_test(coverage_is_of_rows_that_judge),
        cmocka_unit_test(a_run_counts_once_a_family),
        cmocka_unit_test(headlines_count_graded_sources_once),
        cmocka_unit_test(order_of_methods),
        cmocka_unit_test(halves_of_a_run_are_stable),
        cmocka_unit_test(a_bias_has_its_own_reason_or_those_of_its_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
