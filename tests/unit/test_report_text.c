#include "report/report.h"
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

static void figures_have_three_digits(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *expected;
    } rows[] = {
        {0.0, "0"},        {1.0, "1.00"},         {9.994, "9.99"},       {9.996, "10.0"},
        {12.34, "12.3"},   {99.96, "100"},        {123.4, "123"},        {1234.0, "1230"},
        {1235.1, "1240"},  {987654.0, "988000"},  {0.01234, "0.0123"},   {0.00098765, "0.000988"},
        {-3.456, "-3.46"}, {1.234e9, "1.23e+09"}, {1.7e-15, "1.70e-15"},
    };
    struct sp_arena *arena = sp_arena_open();
    for (size_t i = 0; i < SP_COUNT_OF(rows); i++) {
        assert_string_equal(report_three(arena, rows[i].value), rows[i].expected);
    }
    sp_arena_close(arena);
}

static void a_column_aligns_on_its_largest_figure(void **state)
{
    (void)state;
    static const struct {
        double value;
        double largest;
        const char *expected;
    } rows[] = {
        {8.214, 8.214, "8.21"},     {0.3, 8.214, "0.30"},     {0.004, 8.214, "<0.01"}, {0.0051, 8.214, "0.01"},
        {355.66, 355.66, "355.7"},  {1.2, 355.66, "1.2"},     {0.02, 355.66, "<0.1"},  {0.0, 355.66, "0.0"},
        {0.0712, 0.0712, "0.0712"}, {1422.6, 1422.6, "1423"}, {5.7, 1422.6, "6"},      {0.3, 1422.6, "<1"},
    };
    struct sp_arena *arena = sp_arena_open();
    for (size_t i = 0; i < SP_COUNT_OF(rows); i++) {
        assert_string_equal(report_fixed(arena, rows[i].value, rows[i].largest), rows[i].expected);
    }
    sp_arena_close(arena);
}

static void shares_and_step_times_are_short(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    assert_string_equal(report_percent(arena, 0.4123), "41.2");
    assert_string_equal(report_percent(arena, 0.0004), "<0.1");
    assert_string_equal(report_percent(arena, 0.0), "0.0");
    assert_string_equal(report_step_time(arena, 0.0123), "12.3 ms");
    assert_string_equal(report_step_time(arena, 574.56), "575 s"); /* not 9.58 min */
    assert_string_equal(report_step_time(arena, 12.34), "12.3 s");
    assert_string_equal(report_words(arena, "tp_exposed"), "tp exposed");
    sp_arena_close(arena);
}

static void width_counts_characters(void **state)
{
    (void)state;
    assert_int_equal(report_text_width(""), 0);
    assert_int_equal(report_text_width("GiB"), 3);
    assert_int_equal(report_text_width("\xce\xbcs"), 2); /* Greek mu */
}

static const char *wrapped(char *text, size_t size, const char *label, const char *words)
{
    FILE *file = fmemopen(text, size, "w");
    assert_non_null(file);
    report_wrap(file, 2, label, words);
    assert_int_equal(fclose(file), 0);
    return text;
}

static void long_texts_break_at_spaces(void **state)
{
    (void)state;
    char text[1024] = "";
    assert_string_equal(wrapped(text, sizeof(text), "try", "sp 16"), "  try sp 16\n");
    assert_string_equal(wrapped(text, sizeof(text), "try", ""), "  try\n");
    assert_string_equal(wrapped(text, sizeof(text), "", "a  b"), "  a b\n");

    /* 2 + "assumed" + 1 = 10 columns, so that 90 are left: 8 words of 10 and their spaces are 87, a ninth is too much */
    const char *words =
        "aaaaaaaaaa bbbbbbbbbb cccccccccc dddddddddd eeeeeeeeee ffffffffff gggggggggg hhhhhhhhhh iiiiiiiiii";
    wrapped(text, sizeof(text), "assumed", words);
    const char *line_end = strchr(text, '\n');
    assert_non_null(line_end);
    assert_int_equal(line_end - text, 10 + 87);
    assert_string_equal(line_end, "\n          iiiiiiiiii\n");
}

static void long_words_break_too(void **state)
{
    (void)state;
    enum { ROOM = REPORT_COLUMNS - 2 };
    char word[ROOM + 8];
    char text[1024] = "";
    char expected[1024];
    memset(word, 'a', ROOM + 2);
    word[ROOM + 2] = '\0';
    (void)snprintf(expected, sizeof(expected), "  %.*s\n  aa\n", ROOM, word);
    assert_string_equal(wrapped(text, sizeof(text), "", word), expected);
    word[ROOM - 3] = '/'; /* a path breaks behind its folders */
    (void)snprintf(expected, sizeof(expected), "  %.*s\n  aaaa b\n", ROOM - 2, word);
    memcpy(word + ROOM + 2, " b", sizeof(" b"));
    assert_string_equal(wrapped(text, sizeof(text), "", word), expected);
}

static void color_is_only_for_who_wants_it(void **state)
{
    (void)state;
    const struct report_style plain = {.has_color = false};
    const struct report_style colored = {.has_color = true};
    assert_string_equal(report_color(&plain, REPORT_RED), "");
    assert_string_equal(report_color(&plain, REPORT_PLAIN), "");
    assert_string_equal(report_color(&colored, REPORT_RED), "\033[31m");
    assert_string_equal(report_color(&colored, REPORT_PLAIN), "\033[0m");
}

static void large_figures_have_a_prefix(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    assert_string_equal(report_scaled(arena, 506123.0), "506k");
    assert_string_equal(report_scaled(arena, 1518369.0), "1.52M");
    assert_string_equal(report_scaled(arena, 999.4), "999");
    assert_string_equal(report_scaled(arena, 999.6), "1.00k");
    assert_string_equal(report_scaled(arena, 999999.0), "1.00M");
    assert_string_equal(report_scaled(arena, 2e13), "20.0T");
    assert_string_equal(report_scaled(arena, 0.0), "0");
    sp_arena_close(arena);
}

/* Test vectors of the authors: http://www.isthe.com/chongo/src/fnv/test_fnv.c */
static void hash_is_fnv1a(void **state)
{
    (void)state;
    assert_true(report_fnv1a("") == UINT64_C(0xcbf29ce484222325));
    assert_true(report_fnv1a("a") == UINT64_C(0xaf63dc4c8601ec8c));
    assert_true(report_fnv1a("foobar") == UINT64_C(0x85944171f73967e8));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_have_three_digits),
        cmocka_unit_test(a_column_aligns_on_its_largest_figure),
        cmocka_unit_test(shares_and_step_times_are_short),
        cmocka_unit_test(large_figures_have_a_prefix),
        cmocka_unit_test(width_counts_characters),
        cmocka_unit_test(long_texts_break_at_spaces),
        cmocka_unit_test(long_words_break_too),
        cmocka_unit_test(color_is_only_for_who_wants_it),
        cmocka_unit_test(hash_is_fnv1a),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
