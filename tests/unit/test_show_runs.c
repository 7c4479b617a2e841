/* show runs, over a store that was filled here. */
#include "support/support.h"

#include "cmd/command.h"
#include "store/store.h"

#include <stdlib.h>
#include <string.h>

struct fixture {
    struct sp_arena *arena;
    char *folder;
    const char *path;
    char *text; /* what was printed last */
};

static void store_rows(struct fixture *fixture, const struct store_sweep *sweep, const struct store_row *rows,
                       size_t n_rows)
{
    struct store *store = NULL;
    struct sp_error err = {0};
    int64_t id = 0;
    bool is_good = store_open(fixture->arena, fixture->path, &store, &err) &&
                   store_sweep_begin(store, sweep, &id, &err) && store_rows_add(store, id, rows, n_rows, &err);
    if (!is_good) {
        fail_msg("%s", err.text);
    }
    store_close(store);
}

static int open_fixture(void **state)
{
    static const struct store_sweep first = {.key = "17c0ffee",
                                             .command = "estimate --vary seq=3K,61K",
                                             .version = "0.7.1",
                                             .data_hash = "9e37",
                                             .n_points = 61};
    static const struct store_row rows[] = {
        {0, "{\"seq\": 3072, \"layout\": {\"tp\": 3, \"sp\": 6, \"sp_method\": \"zigzag\"},\n \"step_time_s\": 1.25,"
            " \"peak_bytes\": 3221225472, \"mfu_frac\": 0.417, \"fits\": true, \"bound\": \"gemm\"}"},
        {37, "{\"layout\": {\"tp\": 7}, \"error\": {\"rule\": \"heads\", \"text\": \"40 heads do not divide by 7\"}}"},
    };
    static const struct store_sweep second = {
        .key = "1", .command = "plan", .version = "0.7.1", .data_hash = "9e37", .n_points = 3};
    static const struct store_row other[] = {{1, "[3, 5]"}, {2, "{\"fits\": "}};
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    fixture->arena = sp_arena_open();
    fixture->folder = temp_folder_open();
    fixture->path = sp_format(fixture->arena, "%s/runs.db", fixture->folder);
    store_rows(fixture, &first, rows, SP_COUNT_OF(rows));
    store_rows(fixture, &second, other, SP_COUNT_OF(other));
    *state = fixture;
    return 0;
}

static int close_fixture(void **state)
{
    struct fixture *fixture = *state;
    free(fixture->text);
    temp_folder_close(fixture->folder);
    sp_arena_close(fixture->arena);
    free(fixture);
    return 0;
}

/* show TOPIC [ID] --db PATH --format FORMAT; what it prints goes to fixture->text. */
static bool show(struct fixture *fixture, const char *topic, const char *id, const char *format, struct sp_error *err)
{
    const char *const words[] = {"show", "--db", fixture->path, "--format", format, topic, id};
    char *argv[SP_COUNT_OF(words)] = {NULL};
    int argc = id == NULL ? (int)SP_COUNT_OF(words) - 1 : (int)SP_COUNT_OF(words);
    for (int i = 0; i < argc; i++) {
        argv[i] = sp_strdup(fixture->arena, words[i]);
    }
    free(fixture->text);
    size_t size = 0;
    struct command_context context = {
        .arena = fixture->arena, .version = "0.7.1", .out = open_memstream(&fixture->text, &size)};
    bool is_good = cmd_show(&context, argc, argv, err);
    assert_int_equal(fclose(context.out), 0);
    return is_good;
}

static void assert_shows(struct fixture *fixture, const char *topic, const char *id, const char *format)
{
    struct sp_error err = {0};
    if (!show(fixture, topic, id, format, &err)) {
        fail_msg("%s", err.text);
    }
}

static void list_has_a_line_for_each(void **state)
{
    struct fixture *fixture = *state;
    assert_shows(fixture, "runs", NULL, "table");
    assert_non_null(strstr(fixture->text, "Runs in "));
    assert_non_null(strstr(fixture->text, "    1     2  61  20"));
    assert_non_null(strstr(fixture->text, "Z  estimate --vary seq=3K,61K\n"));
    assert_non_null(strstr(fixture->text, "    2     2   3  20"));
    assert_shows(fixture, "runs", NULL, "csv");
    assert_non_null(strstr(fixture->text, "id,rows,points,begun,changed,command,version,data_hash,key\n1,2,61,20"));
    assert_non_null(strstr(fixture->text, "Z,\"estimate --vary seq=3K,61K\",0.7.1,9e37,17c0ffee\n2,2,3,20"));
}

static void rows_of_one_are_a_table_of_what_they_have(void **state)
{
    struct fixture *fixture = *state;
    assert_shows(fixture, "run", "1", "table");
    assert_non_null(strstr(fixture->text, "Run 1: estimate --vary seq=3K,61K, 2 of 61 points stored\n"));
    assert_non_null(strstr(fixture->text, "  point   seq  tp  sp  method  step s  MFU %  peak GiB  fits  bound\n"));
    assert_non_null(strstr(fixture->text, "      0  3072   3   6  zigzag    1.25   41.7      3.00  yes   gemm\n"));
    assert_non_null(strstr(fixture->text, "     37         7\n      error 40 heads do not divide by 7\n"));
    assert_shows(fixture, "runs", "1", "csv");
    assert_non_null(strstr(fixture->text, "point,seq,tp,sp,sp_method"));
    assert_non_null(strstr(fixture->text, "\n0,3072,3,6,zigzag,"));
}

static void rows_of_one_in_json_are_lines(void **state)
{
    struct fixture *fixture = *state;
    assert_shows(fixture, "run", "1", "json");
    assert_string_equal(
        fixture->text,
        "{\"point\": 0, \"row\": {\"seq\": 3072, \"layout\": {\"tp\": 3, \"sp\": 6, \"sp_method\": \"zigzag\"},  "
        "\"step_time_s\": 1.25, \"peak_bytes\": 3221225472, \"mfu_frac\": 0.417, \"fits\": true, \"bound\": "
        "\"gemm\"}}\n"
        "{\"point\": 37, \"row\": {\"layout\": {\"tp\": 7}, \"error\": {\"rule\": \"heads\", \"text\": \"40 heads do "
        "not "
        "divide by 7\"}}}\n");
}

static void row_that_is_no_json_prints_nothing(void **state)
{
    struct fixture *fixture = *state;
    static const char *const formats[] = {"table", "markdown", "csv", "json"};
    for (size_t i = 0; i < SP_COUNT_OF(formats); i++) {
        struct sp_error err = {0};
        assert_false(show(fixture, "run", "2", formats[i], &err));
        assert_int_equal(err.kind, SP_ERROR_IO);
        assert_error_contains(&err, "runs.db: run 2, point 2: ");
        assert_string_equal(fixture->text, "");
    }
}

static void unknown_run_is_an_error(void **state)
{
    struct fixture *fixture = *state;
    struct sp_error err = {0};
    assert_false(show(fixture, "run", "61", "table", &err));
    assert_int_equal(err.kind, SP_ERROR_INPUT);
    assert_error_contains(&err, "runs.db: no run 61: 'seqplan show runs' lists the 2 there are");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(list_has_a_line_for_each, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(rows_of_one_are_a_table_of_what_they_have, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(rows_of_one_in_json_are_lines, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(row_that_is_no_json_prints_nothing, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(unknown_run_is_an_error, open_fixture, close_fixture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
