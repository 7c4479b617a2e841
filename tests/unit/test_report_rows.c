/* Tables of several layouts, from small answers written as JSON. */
#include "report/report.h"
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

static const struct sp_json *read_answer(struct sp_arena *arena, const char *text)
{
    struct sp_error err = {0};
    const struct sp_json *json = sp_json_parse(arena, "answer", text, &err);
    if (json == NULL) {
        fail_msg("%s", err.text);
    }
    return json;
}

#define ANSWER(seq, dp, step, rate, peak, fits, warnings)                                                              \
    "{\"model\": \"tiny\", \"seq\": " seq ", \"gpus\": 8, \"layout\": {\"sp_method\": \"ring\", \"dp\": " dp           \
    "}, \"fits\": " fits ", \"peak_bytes\": " peak ", \"capacity_bytes\": 1e11, \"headroom_bytes\": -" peak            \
    ", \"step_time_s\": " step ", \"tokens_per_s_per_gpu\": " rate                                                     \
    ", \"mfu_frac\": 0.25, \"bound\": \"gemm\", \"warnings\": [" warnings "], \"assumed\": [\"zero 1\"]}"

/* Three rows: one slow that fits, one that breaks a rule, one fast that does not fit. */
static struct report_rows sample(struct sp_arena *arena)
{
    static const char *const names[] = {"seq"};
    static const char *const values[3][1] = {{"64K"}, {"100001"}, {"128K"}};
    const struct sp_error err = {
        .kind = SP_ERROR_USAGE, .rule = "sequence_divides", .text = "sequence 100001 does not divide by 16"};
    const struct sp_json *layout = read_answer(arena, "{\"sp\": 8}");
    struct report_row *rows = sp_arena_array(arena, 3, sizeof(*rows));
    rows[0] = (struct report_row){values[0], read_answer(arena, ANSWER("65536", "2", "3.21", "1500", "53687091200",
                                                                       "true", "\"few micro-batches\""))};
    rows[1] = (struct report_row){values[1], report_error_tree(arena, layout, &err)};
    rows[2] = (struct report_row){values[2], read_answer(arena, ANSWER("131072", "2", "9.87", "1900", "107374182400",
                                                                       "false", "\"does not fit: 7 GiB short\""))};
    return (struct report_rows){.names = names, .n_names = 1, .rows = rows, .n_rows = 3};
}

static char *printed(enum report_format format, struct sp_arena *arena, const struct report_rows *rows)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    assert_non_null(file);
    const struct report_style style = {.file = file, .format = format};
    report_rows(&style, arena, rows);
    assert_int_equal(fclose(file), 0);
    return text;
}

static void expect(enum report_format format, const char *expected)
{
    struct sp_arena *arena = sp_arena_open();
    const struct report_rows rows = sample(arena);
    char *text = printed(format, arena, &rows);
    assert_string_equal(text, expected);
    free(text);
    sp_arena_close(arena);
}

static void the_table_names_the_best_and_says_what_is_the_same_once(void **state)
{
    (void)state;
    expect(REPORT_TABLE, "model tiny, gpus 8, sp-method ring, dp 2\n"
                         "\n"
                         "  fastest that fits: seq 64K (1500 tokens/s/GPU)\n"
                         "\n"
                         "     seq  step s  tokens/s/GPU  MFU %  peak GiB  fits  bound\n"
                         "     64K    3.21          1500   25.0      50.0  yes   gemm\n"
                         "  100001\n"
                         "      refused: sequence 100001 does not divide by 16\n"
                         "    128K    9.87          1900   25.0       100  no    gemm\n"
                         "\n"
                         "  warning  seq 64K: few micro-batches\n"
                         "  assumed  zero 1\n");
}

static void markdown_has_the_refusal_as_a_column(void **state)
{
    (void)state;
    expect(REPORT_MARKDOWN, "**fastest that fits: seq 64K (1500 tokens/s/GPU)**\n"
                            "\n"
                            "model tiny, gpus 8, sp-method ring, dp 2\n"
                            "\n"
                            "| seq | step s | tokens/s/GPU | MFU % | peak GiB | fits | bound | refused: |\n"
                            "| ---: | ---: | ---: | ---: | ---: | --- | --- | --- |\n"
                            "| 64K | 3.21 | 1500 | 25.0 | 50.0 | yes | gemm |  |\n"
                            "| 100001 |  |  |  |  |  |  | sequence 100001 does not divide by 16 |\n"
                            "| 128K | 9.87 | 1900 | 25.0 | 100 | no | gemm |  |\n"
                            "\n"
                            "- warning: seq 64K: few micro-batches\n"
                            "- assumed: zero 1\n");
}

static void json_rows_have_what_varies_and_the_answer(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    const struct report_rows rows = sample(arena);
    char *text = printed(REPORT_JSON, arena, &rows);
    const struct sp_json *json = read_answer(arena, text);
    assert_string_equal(report_tree_at(json, "schema")->string, "seqplan.table/1");
    const struct sp_json *row = report_tree_at(json, "rows")->first;
    assert_string_equal(report_tree_at(row, "vary.seq")->string, "64K");
    assert_close(report_tree_at(row, "step_time_s")->number, 3.21, 0.0);
    row = row->next;
    assert_string_equal(report_tree_at(row, "error.rule")->string, "sequence_divides");
    assert_close(report_tree_at(row, "layout.sp")->number, 8.0, 0.0);
    assert_null(row->next->next);
    free(text);
    sp_arena_close(arena);
}

static void csv_has_a_line_per_row(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    const struct report_rows rows = sample(arena);
    char *text = printed(REPORT_CSV, arena, &rows);
    assert_ptr_equal(strstr(text, "vary.seq,model,seq,gpus,layout.sp_method,layout.dp,fits,"), text);
    assert_non_null(strstr(text, "assumed,layout.sp,error.rule,error.text\n64K,tiny,"));
    assert_non_null(
        strstr(text, "\n100001,,,,,,,,,,,,,,,,8,sequence_divides,sequence 100001 does not divide by 16\n128K,tiny,"));
    free(text);
    sp_arena_close(arena);
}

static void what_differs_without_being_varied_is_a_column(void **state)
{
    (void)state;
    static const char *const names[] = {"cp"}; /* the alias of --sp */
    static const char *const values[2][1] = {{"2"}, {"4"}};
    struct sp_arena *arena = sp_arena_open();
    const struct report_row filled[] = {
        {values[0], read_answer(arena, ANSWER("1048576", "4", "2.5", "10", "1e11", "false", ""))},
        {values[1], read_answer(arena, ANSWER("1048576", "2", "2.5", "10", "2e11", "false", ""))},
    };
    const struct report_rows rows = {.names = names, .n_names = 1, .rows = filled, .n_rows = 2};
    char *text = printed(REPORT_TABLE, arena, &rows);
    assert_non_null(strstr(text, "  cp  dp  step s"));
    assert_non_null(strstr(text, "seq 1M, gpus 8")); /* in the heading, in short */
    assert_non_null(strstr(text, "none fits; nearest: cp 2 (peak 93.1 of 93.1 GiB)"));
    free(text);
    sp_arena_close(arena);
}

/* As a search adds it to its best layout. */
static void how_many_layouts_were_evaluated_is_a_column_where_rows_say_it(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    const struct report_rows rows = sample(arena);
    struct report_row *searched = sp_arena_array(arena, 3, sizeof(*searched));
    for (int i = 0; i < 3; i++) {
        struct report_tree tree;
        report_tree_open(&tree, arena);
        for (const struct sp_json *member = rows.rows[i].answer->first; member != NULL; member = member->next) {
            report_tree_value(&tree, member->key, member);
        }
        report_tree_number(&tree, "evaluated", 61234567);
        searched[i] = (struct report_row){rows.rows[i].values, report_tree_close(&tree)};
    }
    const struct report_rows table = {.names = rows.names, .n_names = 1, .rows = searched, .n_rows = 3};
    char *text = printed(REPORT_TABLE, arena, &table);
    assert_non_null(strstr(text, "fits  bound  evaluated\n"));
    assert_non_null(strstr(text, "yes   gemm    61234567\n"));
    free(text);
    sp_arena_close(arena);
}

static void a_table_of_refusals_says_so(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    struct report_rows rows = sample(arena);
    rows.rows = &rows.rows[1];
    rows.n_rows = 1;
    char *text = printed(REPORT_TABLE, arena, &rows);
    assert_string_equal(text, "  no row keeps the rules\n"
                              "\n"
                              "     seq\n"
                              "  100001\n"
                              "      refused: sequence 100001 does not divide by 16\n");
    free(text);
    sp_arena_close(arena);
}

/* A source that forgets each row after its visit. */
struct forgetful {
    const struct report_rows *rows;
    int fails_at; /* -1: never */
};

static bool each_forgotten(void *user, report_row_visit visit, void *visitor, struct sp_error *err)
{
    const struct forgetful *source = user;
    bool is_good = true;
    for (int i = 0; i < source->rows->n_rows && is_good; i++) {
        if (i == source->fails_at) {
            return sp_fail(err, SP_ERROR_IO, "row %d is gone", i);
        }
        struct sp_arena *scratch = sp_arena_open();
        const struct report_row row = {source->rows->rows[i].values,
                                       read_answer(scratch, report_tree_text(scratch, source->rows->rows[i].answer))};
        is_good = visit(visitor, &row, scratch, err);
        sp_arena_close(scratch);
    }
    return is_good;
}

static bool streamed(enum report_format format, struct forgetful *forgetful, int64_t n_missing, char **text,
                     struct sp_error *err)
{
    size_t size = 0;
    FILE *file = open_memstream(text, &size);
    assert_non_null(file);
    const struct report_style style = {.file = file, .format = format};
    const struct report_row_source source = {.names = forgetful->rows->names,
                                             .n_names = forgetful->rows->n_names,
                                             .n_missing = n_missing,
                                             .each = each_forgotten,
                                             .user = forgetful};
    struct sp_arena *arena = sp_arena_open();
    bool is_good = report_rows_stream(&style, arena, &source, err);
    sp_arena_close(arena);
    assert_int_equal(fclose(file), 0);
    return is_good;
}

static void rows_one_at_a_time_print_as_all_at_once(void **state)
{
    (void)state;
    static const enum report_format formats[] = {REPORT_JSON, REPORT_CSV};
    for (size_t i = 0; i < SP_COUNT_OF(formats); i++) {
        struct sp_arena *arena = sp_arena_open();
        const struct report_rows rows = sample(arena);
        struct forgetful source = {.rows = &rows, .fails_at = -1};
        struct sp_error err = {0};
        char *one_by_one = NULL;
        assert_true(streamed(formats[i], &source, 0, &one_by_one, &err));
        char *together = printed(formats[i], arena, &rows);
        assert_string_equal(one_by_one, together);
        free(together);
        free(one_by_one);
        sp_arena_close(arena);
    }
}

static void json_says_what_is_missing(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    struct report_rows rows = sample(arena);
    rows.n_rows = 1;
    struct forgetful source = {.rows = &rows, .fails_at = -1};
    struct sp_error err = {0};
    char *text = NULL;
    assert_true(streamed(REPORT_JSON, &source, 60, &text, &err));
    const struct sp_json *json = read_answer(arena, text);
    assert_true(report_tree_at(json, "partial")->boolean);
    assert_close(report_tree_at(json, "missing")->number, 60.0, 0.0);
    assert_int_equal(report_tree_at(json, "rows")->count, 1);
    free(text);
    sp_arena_close(arena);
}

static void a_source_that_fails_is_a_failure(void **state)
{
    (void)state;
    static const enum report_format formats[] = {REPORT_JSON, REPORT_CSV};
    for (size_t i = 0; i < SP_COUNT_OF(formats); i++) {
        struct sp_arena *arena = sp_arena_open();
        const struct report_rows rows = sample(arena);
        struct forgetful source = {.rows = &rows, .fails_at = 2};
        struct sp_error err = {0};
        char *text = NULL;
        assert_false(streamed(formats[i], &source, 0, &text, &err));
        assert_string_equal(err.text, "row 2 is gone");
        free(text);
        sp_arena_close(arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_names_the_best_and_says_what_is_the_same_once),
        cmocka_unit_test(markdown_has_the_refusal_as_a_column),
        cmocka_unit_test(json_rows_have_what_varies_and_the_answer),
        cmocka_unit_test(csv_has_a_line_per_row),
        cmocka_unit_test(what_differs_without_being_varied_is_a_column),
        cmocka_unit_test(a_table_of_refusals_says_so),
        cmocka_unit_test(how_many_layouts_were_evaluated_is_a_column_where_rows_say_it),
        cmocka_unit_test(rows_one_at_a_time_print_as_all_at_once),
        cmocka_unit_test(json_says_what_is_missing),
        cmocka_unit_test(a_source_that_fails_is_a_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
