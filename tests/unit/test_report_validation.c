/* What is printed of a validation: intervals, coverage in words, biases, what was fitted; the picture's refusals. */
#include "report/report.h"
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

static struct validation_row row(const char *name, double measured, double predicted)
{
    return (struct validation_row){.name = name,
                                   .group = "g",
                                   .quantity = validation_quantity_find("step_time_s"),
                                   .measured = measured,
                                   .predicted = predicted,
                                   .error_frac = predicted / measured - 1.0,
                                   .has_interval = true,
                                   .low = predicted * 0.97,
                                   .high = predicted * 1.04,
                                   .method = "zigzag",
                                   .framework = "megatron",
                                   .seq = 393216};
}

/* In a format, copied into the arena. */
static const char *printed(struct sp_arena *arena, const struct report_validation *validation,
                           enum report_format format)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    assert_non_null(file);
    const struct report_style style = {.file = file, .format = format, .version = "1"};
    report_validation(&style, arena, validation);
    assert_int_equal(fclose(file), 0);
    const char *copy = sp_strdup(arena, text);
    free(text);
    return copy;
}

static void expect_part(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("no '%s' in:\n%s", part, text);
    }
}

static void coverage_in_words(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    /* 41 of 44 at 0.9: P(41 or fewer) = 0.8296, P(41 or more) = 0.3466, so p = 0.69. */
    struct validation_coverage coverage = {.n = 44,
                                           .n_within = 41,
                                           .expected_frac = 0.9,
                                           .p_value = validation_binomial_p(41, 44, 0.9),
                                           .width_frac = 0.071,
                                           .is_enough = true};
    assert_string_equal(report_validation_coverage(arena, &coverage),
                        "0.90 expected, 41 of 44 inside, p 0.69; mean width 7.1 %");
    coverage = (struct validation_coverage){.n = 3, .n_within = 1, .expected_frac = 0.9, .p_value = 0.056};
    assert_string_equal(report_validation_coverage(arena, &coverage),
                        "0.90 expected, 1 of 3 inside, p 0.056 (fewer than 40: too few for a verdict); mean width "
                        "0.000 %");
    coverage = (struct validation_coverage){.n = 0};
    assert_string_equal(report_validation_coverage(arena, &coverage), "no row that judges is compared");
    coverage.n_judged = 7;
    assert_non_null(strstr(report_validation_coverage(arena, &coverage), "no row that judges has an interval: steps"));
    sp_arena_close(arena);
}

static void intervals_stand_in_tables_and_json(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    struct validation_row rows[] = {row("inside", 100.0, 102.0), row("outside", 100.0, 112.0),
                                    row("not counted", 100.0, 200.0)};
    rows[1].run = 1;
    rows[2].run = 2;
    rows[2].role = VALIDATION_FIT;
    struct validation_source source = {
        .name = "s", .title = "t", .where = "w", .year = "2026", .grade = "A", .rows = rows, .n_rows = 3};
    const struct validation_set set = {.sources = &source, .n_sources = 1};
    const struct report_validation validation = {.set = &set, .roles = VALIDATION_ALL};
    const char *table = printed(arena, &validation, REPORT_TABLE);
    expect_part(table, "2 rows judge, 1 had something fitted to them");
    expect_part(table, "step_time_s  2     7.0   7.0       12  +7.0  1 of 2    7.0"); /* 2 and 12 %; 97 to 104 % */
    expect_part(table, "98.94 s to 106.1 s");
    expect_part(table, "bias      s, step_time_s: +7.0 % over 2 rows. Not explained.");
    struct sp_error err = {0};
    const struct sp_json *json = sp_json_parse(arena, "json", printed(arena, &validation, REPORT_JSON), &err);
    assert_close(report_tree_at(json, "summary.step_time_s.coverage_frac")->number, 0.5, 0.0);
    assert_close(report_tree_at(json, "summary.step_time_s.width_frac")->number, 0.07, 1e-12);
    assert_close(report_tree_at(json, "summary_fit.step_time_s.bias_frac")->number, 1.0, 1e-12);
    assert_int_equal((int)report_tree_at(json, "coverage.n")->number, 2);
    const struct sp_json *first = sp_json_member(json, "rows")->first;
    assert_true(sp_json_member(first, "within")->boolean);
    assert_false(sp_json_member(first->next, "within")->boolean);
    assert_close(sp_json_member(first, "low")->number, 98.94, 1e-12);
    sp_arena_close(arena);
}

static void what_was_fitted_is_said_once(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    struct validation_row rows[] = {row("a", 1.0, 1.0), row("b", 1.0, 1.0), row("c", 1.0, 1.0)};
    struct validation_source source = {.name = "s", .rows = rows, .n_rows = 3};
    struct sp_texts texts = {.arena = arena};
    rows[0].role = rows[1].role = VALIDATION_FIT;
    rows[0].fitted = rows[1].fitted = "host tail";
    rows[0].group = "h";
    report_validation_fitted(&source, &texts);
    assert_int_equal(texts.count, 1);
    assert_string_equal(texts.items[0], "step_time_s of a; b: host tail"); /* not all of group g: by name */
    rows[2].group = "k";
    texts = (struct sp_texts){.arena = arena};
    report_validation_fitted(&source, &texts);
    assert_string_equal(texts.items[0], "step_time_s of h; g: host tail");
    rows[2].role = VALIDATION_FIT;
    rows[2].fitted = "host tail";
    texts = (struct sp_texts){.arena = arena};
    report_validation_fitted(&source, &texts);
    assert_string_equal(texts.items[0], "all rows: host tail");
    sp_arena_close(arena);
}

/* Asked for fitted rows alone, nothing is said of those that judge; no row is still a heading. */
static void fitted_rows_alone(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    struct validation_row rows[] = {row("a", 100.0, 112.0)};
    struct validation_source source = {
        .name = "s", .title = "t", .where = "w", .year = "2026", .rows = rows, .n_rows = 1};
    const struct validation_set set = {.sources = &source, .n_sources = 1};
    const struct report_validation validation = {.set = &set, .roles = VALIDATION_FITTED};
    const char *table = printed(arena, &validation, REPORT_TABLE);
    expect_part(table, "No row has a figure.");
    assert_null(strstr(table, "intervals"));
    assert_null(strstr(table, "bias "));
    assert_string_equal(
        printed(arena, &validation, REPORT_CSV),
        "source,name,group,quantity,role,framework,method,seq,measured,predicted,error_frac,low,high,within\n");
    sp_arena_close(arena);
}

static void percentages_have_few_digits(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    static const struct {
        double frac;
        bool has_sign;
        const char *text;
    } known[] = {{0.00004, false, "0.004"}, {-0.0061, true, "-0.61"}, {0.061, true, "+6.1"}, {1.187, true, "+119"}};
    for (size_t i = 0; i < SP_COUNT_OF(known); i++) {
        assert_string_equal(report_validation_percent(arena, known[i].frac, known[i].has_sign), known[i].text);
    }
    sp_arena_close(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(coverage_in_words),
        cmocka_unit_test(intervals_stand_in_tables_and_json),
        cmocka_unit_test(what_was_fitted_is_said_once),
        cmocka_unit_test(fitted_rows_alone),
        cmocka_unit_test(percentages_have_few_digits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
