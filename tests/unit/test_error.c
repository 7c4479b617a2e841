#include "support/support.h"

#include <string.h>

static void fail_sets_kind_and_text(void **state)
{
    (void)state;
    static const enum sp_error_kind kinds[] = {SP_ERROR_USAGE, SP_ERROR_INPUT, SP_ERROR_IO, SP_ERROR_BUG};
    for (size_t i = 0; i < SP_COUNT_OF(kinds); i++) {
        struct sp_error err = {.rule = "old_rule", .text = "old text"};
        assert_false(sp_fail(&err, kinds[i], "expected %s, found %d", "a rate", 8317));
        assert_int_equal(err.kind, kinds[i]);
        assert_string_equal(err.text, "expected a rate, found 8317");
        assert_string_equal(err.rule, "");
    }
}

static void kinds_are_exit_codes(void **state)
{
    (void)state;
    assert_int_equal(SP_ERROR_NONE, 0);
    assert_int_equal(SP_ERROR_USAGE, 2);
    assert_int_equal(SP_ERROR_INPUT, 3);
    assert_int_equal(SP_ERROR_IO, 4);
    assert_int_equal(SP_ERROR_BUG, 70);
}

static void line_breaks_become_spaces(void **state)
{
    (void)state;
    struct sp_error err = {0};
    sp_fail(&err, SP_ERROR_INPUT, "found \"%s\"", "a\nb\r\nc\td\x1b[31m\x7f µs");
    assert_string_equal(err.text, "found \"a b  c d [31m  µs\"");
    sp_error_prefix(&err, "odd\nname");
    assert_string_equal(err.text, "odd name: found \"a b  c d [31m  µs\"");
    sp_fail_rule(&err, "rule_a", "one\ntwo");
    assert_string_equal(err.text, "one two");
}

static void the_old_text_may_be_an_argument(void **state)
{
    (void)state;
    struct sp_error err = {0};
    sp_fail(&err, SP_ERROR_INPUT, "no such model");
    sp_fail(&err, SP_ERROR_IO, "retried: %s (twice)", err.text);
    assert_string_equal(err.text, "retried: no such model (twice)");
    sp_error_prefix(&err, "%s", err.text);
    assert_string_equal(err.text, "retried: no such model (twice): retried: no such model (twice)");
}

static void long_texts_are_cut_with_dots(void **state)
{
    (void)state;
    char text[3 * SP_ERROR_TEXT];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    struct sp_error err = {0};
    sp_fail(&err, SP_ERROR_INPUT, "%s", text);
    assert_int_equal(strlen(err.text), SP_ERROR_TEXT - 1);
    assert_string_equal(err.text + SP_ERROR_TEXT - 5, "x...");

    sp_error_prefix(&err, "front");
    assert_int_equal(strlen(err.text), SP_ERROR_TEXT - 1);
    assert_memory_equal(err.text, "front: xxx", 10);
    assert_string_equal(err.text + SP_ERROR_TEXT - 5, "x...");
}

static void text_that_just_fits_is_not_cut(void **state)
{
    (void)state;
    char text[SP_ERROR_TEXT];
    memset(text, 'y', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    struct sp_error err = {0};
    sp_fail(&err, SP_ERROR_INPUT, "%s", text);
    assert_string_equal(err.text, text);
    sp_error_prefix(&err, "%s", ""); /* two more */
    assert_string_equal(err.text + SP_ERROR_TEXT - 5, "y...");
}

static void text_one_too_long_is_cut(void **state)
{
    (void)state;
    char text[SP_ERROR_TEXT + 1];
    memset(text, 'w', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    struct sp_error err = {0};
    sp_fail(&err, SP_ERROR_INPUT, "%s", text);
    assert_int_equal(strlen(err.text), SP_ERROR_TEXT - 1);
    assert_string_equal(err.text + SP_ERROR_TEXT - 5, "w...");

    sp_fail(&err, SP_ERROR_INPUT, "%s", text + 3); /* with a prefix of three, as long again */
    sp_error_prefix(&err, "a");
    assert_int_equal(strlen(err.text), SP_ERROR_TEXT - 1);
    assert_string_equal(err.text + SP_ERROR_TEXT - 5, "w...");
}

static void cutting_leaves_no_half_character(void **state)
{
    (void)state;
    char text[2 * SP_ERROR_TEXT];
    for (size_t start = 0; start < 4; start++) {
        memset(text, 'z', start);
        size_t end = start;
        while (end + 4 < sizeof(text)) {
            memcpy(text + end, "\xf0\x9f\x9a\x80", 4);
            end += 4;
        }
        text[end] = '\0';
        struct sp_error err = {0};
        sp_fail(&err, SP_ERROR_INPUT, "%s", text);
        size_t length = strlen(err.text);
        assert_string_equal(err.text + length - 3, "...");
        assert_int_equal((length - 3 - start) % 4, 0);
        assert_true(length > SP_ERROR_TEXT - 8);
    }
}

static void broken_rules_are_joined(void **state)
{
    (void)state;
    struct sp_error err = {0};
    assert_false(sp_fail_rule(&err, "heads_divide", "32 query heads do not divide by %d", 24));
    assert_int_equal(err.kind, SP_ERROR_USAGE);
    assert_string_equal(err.rule, "heads_divide");
    assert_false(sp_fail_rule(&err, "sequence_divides", "131072 tokens do not divide by 48"));
    assert_false(sp_fail_rule(&err, "layers_divide", "80 layers do not divide by 7"));
    assert_string_equal(err.rule, "heads_divide");
    assert_string_equal(err.text, "32 query heads do not divide by 24; 131072 tokens do not divide by 48; "
                                  "80 layers do not divide by 7");
}

static void a_rule_replaces_other_errors(void **state)
{
    (void)state;
    struct sp_error err = {0};
    sp_fail(&err, SP_ERROR_USAGE, "unknown option");
    sp_fail_rule(&err, "degrees", "needs 8 GPUs");
    assert_string_equal(err.text, "needs 8 GPUs");
    assert_string_equal(err.rule, "degrees");

    sp_fail(&err, SP_ERROR_INPUT, "bad file");
    assert_string_equal(err.rule, "");
    assert_string_equal(err.text, "bad file");
}

static void joined_rules_are_cut_too(void **state)
{
    (void)state;
    struct sp_error err = {0};
    for (int i = 0; i < 400; i++) {
        sp_fail_rule(&err, "many", "rule number %d is broken", i);
    }
    assert_int_equal(strlen(err.text), SP_ERROR_TEXT - 1);
    assert_string_equal(err.text + SP_ERROR_TEXT - 4, "...");
}

static void prefixes_stack_from_the_outside(void **state)
{
    (void)state;
    struct sp_error err = {0};
    sp_fail(&err, SP_ERROR_INPUT, "expected a number");
    sp_error_prefix(&err, "$.gpu.%s", "sm_count");
    sp_error_prefix(&err, "hardware/%s.json", "dgx-h200");
    assert_string_equal(err.text, "hardware/dgx-h200.json: $.gpu.sm_count: expected a number");
    assert_int_equal(err.kind, SP_ERROR_INPUT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fail_sets_kind_and_text),      cmocka_unit_test(kinds_are_exit_codes),
        cmocka_unit_test(line_breaks_become_spaces),    cmocka_unit_test(the_old_text_may_be_an_argument),
        cmocka_unit_test(long_texts_are_cut_with_dots), cmocka_unit_test(text_that_just_fits_is_not_cut),
        cmocka_unit_test(text_one_too_long_is_cut),     cmocka_unit_test(cutting_leaves_no_half_character),
        cmocka_unit_test(broken_rules_are_joined),      cmocka_unit_test(a_rule_replaces_other_errors),
        cmocka_unit_test(joined_rules_are_cut_too),     cmocka_unit_test(prefixes_stack_from_the_outside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
