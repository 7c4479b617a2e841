/* Lines of measurement files: what is read, and what is refused with which reason. */
#include "support/support.h"

#include "spec/spec.h"

#include <stdlib.h>
#include <string.h>

static const char timed[] = "{\"kind\":\"measurement\",\"group\":\"gemm\",\"key\":\"gemm "
                            "61x40x7\",\"parameters\":{\"m\":61,\"pass\":\"forward\"},"
                            "\"unit\":\"s\",\"median\":0.0061,\"min\":0.0059,\"low\":0.006,\"high\":0.0063,\"count\":"
                            "23,\"flop\":34160,\"bytes\":61e3,"
                            "\"sm_clock_hz\":1755e6,\"power_w\":650.5,\"temperature_c\":41,\"throttle\":\"power\"}";
static const char machine[] =
    "{\"kind\":\"machine\",\"schema\":\"seqplan.device/1\",\"gpu\":\"H200\",\"gpus\":3,\"driver\":"
    "\"570.86\",\"host\":\"node61\",\"date\":\"2026-11-29T23:30:00Z\",\"sm_clock_hz\":1980e6}";

static int open_arena(void **state)
{
    *state = sp_arena_open();
    return 0;
}

static int close_arena(void **state)
{
    sp_arena_close(*state);
    return 0;
}

static struct measurement read_line(struct sp_arena *arena, const char *text)
{
    struct measurement line;
    struct sp_error err = {0};
    if (!measurement_parse(arena, text, strlen(text), &line, &err)) {
        fail_msg("%s", err.text);
    }
    return line;
}

static void assert_refused(struct sp_arena *arena, const char *text, const char *reason)
{
    struct measurement line;
    struct sp_error err = {0};
    if (measurement_parse(arena, text, strlen(text), &line, &err)) {
        fail_msg("not refused: %s", text);
    }
    assert_int_equal(err.kind, SP_ERROR_INPUT);
    assert_error_contains(&err, reason);
}

/* The line with one text in it replaced. */
static const char *changed(struct sp_arena *arena, const char *line, const char *from, const char *to)
{
    const char *at = strstr(line, from);
    assert_non_null(at);
    return sp_format(arena, "%.*s%s%s", (int)(at - line), line, to, at + strlen(from));
}

static void timed_line_is_read_with_all_its_figures(void **state)
{
    const struct measurement line = read_line(*state, timed);
    assert_int_equal(line.kind, MEASUREMENT_TIMED);
    assert_int_equal(line.group, MEASUREMENT_GEMM);
    assert_string_equal(line.key, "gemm 61x40x7");
    assert_close(line.median_s, 0.0061, 0);
    assert_close(line.min_s, 0.0059, 0);
    assert_close(line.low_s, 0.006, 0);
    assert_close(line.high_s, 0.0063, 0);
    assert_int_equal(line.count, 23);
    assert_close(line.flop, 34160, 0);
    assert_close(line.bytes, 61000, 0);
    assert_close(line.sm_clock_hz, 1755e6, 0);
    assert_close(line.power_w, 650.5, 0);
    assert_close(line.temperature_c, 41, 0);
    assert_string_equal(line.throttle, "power");
    assert_close(sp_json_member(line.parameters, "m")->number, 61, 0);
}

static void other_kinds_are_read(void **state)
{
    struct measurement line = read_line(*state, machine);
    assert_int_equal(line.kind, MEASUREMENT_MACHINE);
    line = read_line(*state, "{\"kind\": \"plan\", \"total\": 61}");
    assert_int_equal(line.kind, MEASUREMENT_PLAN);
    assert_int_equal(line.total, 61);
    line = read_line(*state, "{\"kind\":\"refused\",\"group\":\"layer\",\"key\":\"x\",\"reason\":\"spread of 14 %\"}");
    assert_int_equal(line.kind, MEASUREMENT_REFUSED);
    assert_int_equal(line.group, MEASUREMENT_LAYER);
    assert_string_equal(line.reason, "spread of 14 %");
    line = read_line(*state, "{\"kind\":\"run\",\"schema\":\"seqplan.measurements/1\",\"key\":\"c0ffee\",\"profile\":"
                             "\"--full\",\"version\":\"\"}");
    assert_int_equal(line.kind, MEASUREMENT_RUN);
    assert_string_equal(line.run_key, "c0ffee");
    assert_string_equal(line.profile, "--full");
    assert_int_equal(read_line(*state, "{\"kind\":\"done\"}").kind, MEASUREMENT_DONE);
}

static void what_is_not_known_may_be_left_out(void **state)
{
    const struct measurement line = read_line(
        *state, "{\"kind\":\"measurement\",\"group\":\"latency\",\"key\":\"x\",\"parameters\":{},\"unit\":\"s\","
                "\"median\":3,\"min\":3,\"low\":3,\"high\":3,\"count\":1,\"flop\":null,\"power_w\":null,"
                "\"new\":[1]}");
    assert_close(line.flop, 0, 0);
    assert_close(line.bytes, 0, 0);
    assert_close(line.power_w, 0, 0);
    assert_string_equal(line.throttle, "none");
}

static void lines_that_are_wrong_say_why(void **state)
{
    static const struct {
        const char *from, *to, *reason;
    } changes[] = {
        {"\"unit\":\"s\"", "\"unit\":\"ms\"", "\"unit\": expected \"s\", found \"ms\""},
        {"\"median\":0.0061", "\"median\":0", "\"median\": expected a number from 1e-12 to 1e+30, found 0"},
        {"\"median\":0.0061", "\"median\":\"fast\"", "\"median\": expected a number, found a text"},
        {"\"median\":0.0061,", "", "\"median\" is missing"},
        {"\"median\":0.0061", "\"median\":1e31", "\"median\": expected a number from 1e-12 to 1e+30, found 1e+31"},
        {"\"high\":0.0063", "\"high\":0.0060", "expected min <= median and low <= median <= high, found min 0.0059"},
        {"\"min\":0.0059", "\"min\":0.0062", "expected min <= median"},
        {"\"low\":0.006", "\"low\":0.0062", "expected min <= median"},
        {"\"count\":23", "\"count\":0", "\"count\": expected a whole number from 1 on, found 0"},
        {"\"count\":23", "\"count\":2.5", "\"count\": expected a whole number from 1 on, found 2.5"},
        {"\"flop\":34160", "\"flop\":-1", "\"flop\": expected a number from 0 to 1e+30, found -1"},
        {"{\"m\":61", "{\"m\":[61]", "\"parameters\": \"m\": expected a number or a text, found a list"},
        {"{\"m\":61,\"pass\":\"forward\"}", "61", "\"parameters\": expected an object, found a number"},
        {"\"group\":\"gemm\"", "\"group\":\"gem\"", "unknown group \"gem\""},
        {"\"key\":\"gemm 61x40x7\"", "\"key\":\"\"", "\"key\": expected 1 to 512 bytes, found 0"},
        {"gemm 61x40x7", "gemm\\n61", "\"key\" has a control character"},
        {"\"throttle\":\"power\"", "\"throttle\":7", "\"throttle\": expected a text, found a number"},
        {"\"kind\":\"measurement\"", "\"kind\":\"surprise\"", "unknown kind \"surprise\""},
        {"\"kind\":\"measurement\",", "", "\"kind\" is missing"},
        {"\"count\":23", "\"count\":23,\"count\":24", "count"},
    };
    for (size_t i = 0; i < SP_COUNT_OF(changes); i++) {
        assert_refused(*state, changed(*state, timed, changes[i].from, changes[i].to), changes[i].reason);
    }
    assert_refused(*state, changed(*state, machine, "device/1", "device/2"),
                   "\"schema\": expected \"seqplan.device/1\", found \"seqplan.device/2\"");
    assert_refused(*state, changed(*state, machine, "\"H200\"", "200"), "\"gpu\": expected a text, found a number");
    assert_refused(*state, "{\"kind\":\"plan\",\"total\":-3}",
                   "\"total\": expected a whole number from 0 on, found -3");
    assert_refused(*state, "[61]", "expected an object, found a list");
}

static void cut_off_and_foreign_bytes_are_refused_without_a_line_number(void **state)
{
    for (size_t length = 1; length < strlen(timed); length++) {
        struct measurement line;
        struct sp_error err = {0};
        assert_false(measurement_parse(*state, timed, length, &line, &err));
        assert_null(strstr(err.text, "line 1"));
    }
    assert_refused(*state, "NVRM: Xid 61", "column 1: expected a JSON value");
    struct measurement line;
    struct sp_error err = {0};
    assert_false(measurement_parse(*state, "{\0}", 3, &line, &err));
    assert_error_contains(&err, "has a NUL byte");
    char *text = sp_arena_alloc(*state, MEASUREMENT_LINE_BYTES + 2);
    memset(text, ' ', MEASUREMENT_LINE_BYTES + 1);
    assert_false(measurement_parse(*state, text, MEASUREMENT_LINE_BYTES + 1, &line, &err));
    assert_error_contains(&err, "longer than 65536 bytes");
}

static void machine_is_the_same_but_for_date_and_clocks(void **state)
{
    const struct sp_json *base = read_line(*state, machine).json;
    const char *later = changed(*state, changed(*state, machine, "23:30", "23:59"), "1980e6", "345e6");
    assert_true(measurement_is_same_machine(base, read_line(*state, later).json));
    static const char *const others[][2] = {{"\"H200\"", "\"H100\""},
                                            {"570.86", "580.1"},
                                            {"node61", "node7"},
                                            {"\"gpus\":3", "\"gpus\":7"},
                                            {"\"gpus\":3", "\"gpus\":\"3\""},
                                            {"\"gpus\":3,", ""},
                                            {"\"gpus\":3", "\"gpus\":3,\"power_limit_w\":500"}};
    for (size_t i = 0; i < SP_COUNT_OF(others); i++) {
        const char *other = changed(*state, machine, others[i][0], others[i][1]);
        assert_false(measurement_is_same_machine(base, read_line(*state, other).json));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(timed_line_is_read_with_all_its_figures, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(other_kinds_are_read, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(what_is_not_known_may_be_left_out, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(lines_that_are_wrong_say_why, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(cut_off_and_foreign_bytes_are_refused_without_a_line_number, open_arena,
                                        close_arena),
        cmocka_unit_test_setup_teardown(machine_is_the_same_but_for_date_and_clocks, open_arena, close_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
