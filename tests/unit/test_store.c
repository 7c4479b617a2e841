/* What a store holds, and what it gives back. */
#include "support/stores.h"
#include "support/support.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct fixture {
    struct sp_arena *arena;
    char *folder;
    const char *path;
    struct store *store;
};

static const struct store_sweep sweep_61 = {.key = "5f3a",
                                            .command = "sweep --vary 'seq=3K'",
                                            .version = "0.7.1+3ac",
                                            .data_hash = "9e3779b97f4a7c15",
                                            .n_points = 61};

static int open_fixture(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    fixture->arena = sp_arena_open();
    fixture->folder = temp_folder_open();
    fixture->path = sp_format(fixture->arena, "%s/runs.db", fixture->folder);
    struct sp_error err = {0};
    if (!store_open(fixture->arena, fixture->path, &fixture->store, &err)) {
        fail_msg("%s", err.text);
    }
    *state = fixture;
    return 0;
}

static int close_fixture(void **state)
{
    struct fixture *fixture = *state;
    store_close(fixture->store);
    temp_folder_close(fixture->folder);
    sp_arena_close(fixture->arena);
    free(fixture);
    return 0;
}

static void reopen(struct fixture *fixture)
{
    struct sp_error err = {0};
    store_close(fixture->store);
    assert_true(store_open(fixture->arena, fixture->path, &fixture->store, &err));
}

static int64_t begin(struct fixture *fixture, const struct store_sweep *sweep)
{
    struct sp_error err = {0};
    int64_t id = -1;
    if (!store_sweep_begin(fixture->store, sweep, &id, &err)) {
        fail_msg("%s", err.text);
    }
    assert_true(id > 0);
    return id;
}

static void add(struct fixture *fixture, int64_t id, int64_t point, const char *json)
{
    const struct store_row row = {point, json};
    struct sp_error err = {0};
    assert_true(store_rows_add(fixture->store, id, &row, 1, &err));
}

/* Collects "point:json;" of each row. */
struct collected {
    char text[2048];
    int64_t stop_at;
};

static bool collect(void *user, int64_t point, const char *json, struct sp_error *err)
{
    struct collected *collected = user;
    size_t length = strlen(collected->text);
    (void)snprintf(collected->text + length, sizeof(collected->text) - length, "%lld:%s;", (long long)point, json);
    return point != collected->stop_at || sp_fail(err, SP_ERROR_INPUT, "the visitor has had enough");
}

static void assert_rows(struct fixture *fixture, int64_t id, const char *expected)
{
    struct collected collected = {.stop_at = -1};
    struct sp_error err = {0};
    assert_true(store_rows_visit(fixture->store, id, collect, &collected, &err));
    assert_string_equal(collected.text, expected);
}

static void rows_come_back_in_order_of_point(void **state)
{
    struct fixture *fixture = *state;
    int64_t id = begin(fixture, &sweep_61);
    const struct store_row rows[] = {{37, "{\"a\": \"\xc3\xa9 \\u0000 'x'\"}"}, {0, "3"}, {60, ""}, {6, "[1,2]"}};
    struct sp_error err = {0};
    assert_true(store_rows_add(fixture->store, id, rows, SP_COUNT_OF(rows), &err));
    const char *expected = "0:3;6:[1,2];37:{\"a\": \"\xc3\xa9 \\u0000 'x'\"};60:;";
    assert_rows(fixture, id, expected);
    reopen(fixture);
    assert_rows(fixture, id, expected);
}

static void rows_done_are_marked_and_the_others_cleared(void **state)
{
    struct fixture *fixture = *state;
    int64_t id = begin(fixture, &sweep_61);
    add(fixture, id, 6, "{}");
    add(fixture, id, 60, "{}");
    bool done[61];
    memset(done, 1, sizeof(done));
    struct sp_error err = {0};
    assert_true(store_rows_done(fixture->store, id, done, SP_COUNT_OF(done), &err));
    for (size_t i = 0; i < SP_COUNT_OF(done); i++) {
        assert_int_equal(done[i], i == 6 || i == 60);
    }
}

static void row_that_is_there_stays_as_it_is(void **state)
{
    struct fixture *fixture = *state;
    int64_t id = begin(fixture, &sweep_61);
    add(fixture, id, 7, "\"first\"");
    const struct store_row rows[] = {{7, "\"second\""}, {11, "\"new\""}, {11, "\"twice\""}};
    struct sp_error err = {0};
    assert_true(store_rows_add(fixture->store, id, rows, SP_COUNT_OF(rows), &err));
    assert_rows(fixture, id, "7:\"first\";11:\"new\";");
}

static void no_rows_are_no_work(void **state)
{
    struct fixture *fixture = *state;
    int64_t id = begin(fixture, &sweep_61);
    struct sp_error err = {0};
    assert_true(store_rows_add(fixture->store, id, NULL, 0, &err));
    assert_rows(fixture, id, "");
}

static void visitor_ends_the_visit_with_its_error(void **state)
{
    struct fixture *fixture = *state;
    int64_t id = begin(fixture, &sweep_61);
    add(fixture, id, 3, "3");
    add(fixture, id, 5, "5");
    add(fixture, id, 9, "9");
    struct collected collected = {.stop_at = 5};
    struct sp_error err = {0};
    assert_false(store_rows_visit(fixture->store, id, collect, &collected, &err));
    assert_string_equal(err.text, "the visitor has had enough");
    assert_int_equal(err.kind, SP_ERROR_INPUT);
    assert_string_equal(collected.text, "3:3;5:5;");
    add(fixture, id, 10, "10"); /* no transaction is left open */
    assert_rows(fixture, id, "3:3;5:5;9:9;10:10;");
}

static void same_key_is_the_same_sweep(void **state)
{
    struct fixture *fixture = *state;
    int64_t id = begin(fixture, &sweep_61);
    struct store_sweep other = sweep_61;
    other.key = "5f3b";
    other.n_points = 7;
    int64_t other_id = begin(fixture, &other);
    assert_true(other_id != id);
    add(fixture, id, 6, "\"of 61\"");
    add(fixture, other_id, 6, "\"of 7\"");
    reopen(fixture);
    assert_int_equal(begin(fixture, &sweep_61), id);
    assert_int_equal(begin(fixture, &other), other_id);
    assert_rows(fixture, id, "6:\"of 61\";");
    assert_rows(fixture, other_id, "6:\"of 7\";");
}

static void same_key_of_other_work_is_refused(void **state)
{
    struct fixture *fixture = *state;
    (void)begin(fixture, &sweep_61);
    struct store_sweep others[] = {sweep_61, sweep_61, sweep_61, sweep_61};
    others[0].command = "plan";
    others[1].version = "0.7.2";
    others[2].data_hash = "00";
    others[3].n_points = 60;
    for (size_t i = 0; i < SP_COUNT_OF(others); i++) {
        struct sp_error err = {0};
        int64_t id = 0;
        assert_false(store_sweep_begin(fixture->store, &others[i], &id, &err));
        assert_int_equal(err.kind, SP_ERROR_IO);
        assert_error_contains(&err, fixture->path);
        assert_error_contains(&err,
                              "sweep 1 has the key '5f3a' but another command, version, data or number of points");
    }
}

static void list_tells_of_every_sweep(void **state)
{
    struct fixture *fixture = *state;
    struct store_listing *sweeps = NULL;
    size_t n_sweeps = 77;
    struct sp_error err = {0};
    assert_true(store_sweeps_list(fixture->store, fixture->arena, &sweeps, &n_sweeps, &err));
    assert_int_equal(n_sweeps, 0);
    enum { N = 37 }; /* more than the array holds at first, twice over */
    for (int i = 0; i < N; i++) {
        struct store_sweep sweep = sweep_61;
        sweep.key = sp_format(fixture->arena, "key %d", i);
        int64_t id = begin(fixture, &sweep);
        for (int point = 0; point < i % 3; point++) {
            add(fixture, id, 5 + point, "{}");
        }
    }
    assert_true(store_sweeps_list(fixture->store, fixture->arena, &sweeps, &n_sweeps, &err));
    assert_int_equal(n_sweeps, N);
    for (int i = 0; i < N; i++) {
        assert_int_equal(sweeps[i].id, i + 1);
        assert_string_equal(sweeps[i].sweep.key, sp_format(fixture->arena, "key %d", i));
        assert_string_equal(sweeps[i].sweep.command, sweep_61.command);
        assert_string_equal(sweeps[i].sweep.version, sweep_61.version);
        assert_string_equal(sweeps[i].sweep.data_hash, sweep_61.data_hash);
        assert_int_equal(sweeps[i].sweep.n_points, 61);
        assert_int_equal(sweeps[i].n_rows, i % 3);
        assert_int_equal(strlen(sweeps[i].begun_at), strlen("2026-11-29T18:57:16Z"));
        assert_int_equal(sweeps[i].begun_at[10], 'T');
        assert_true(strcmp(sweeps[i].begun_at, sweeps[i].changed_at) <= 0);
    }
}

static void deleted_sweep_takes_its_rows_along_and_no_others(void **state)
{
    struct fixture *fixture = *state;
    struct store_sweep other = sweep_61;
    other.key = "other";
    int64_t id = begin(fixture, &sweep_61);
    int64_t other_id = begin(fixture, &other);
    add(fixture, id, 3, "\"gone\"");
    add(fixture, other_id, 3, "\"stays\"");
    struct sp_error err = {0};
    assert_true(store_sweep_delete(fixture->store, other_id, &err));
    assert_true(begin(fixture, &other) > other_id); /* an id is not used twice */
    assert_true(store_sweep_delete(fixture->store, id, &err));
    assert_string_equal(stores_sql(fixture->arena, fixture->path, "SELECT count(*) FROM sweep_rows"), "0");
    int64_t again = begin(fixture, &sweep_61);
    assert_rows(fixture, again, "");
}

static void unknown_sweep_is_an_error_everywhere(void **state)
{
    struct fixture *fixture = *state;
    const struct store_row row = {3, "{}"};
    bool done[61];
    struct collected collected = {.stop_at = -1};
    for (int i = 0; i < 4; i++) {
        struct sp_error err = {0};
        bool is_good = i == 0   ? store_rows_add(fixture->store, 61, &row, 1, &err)
                       : i == 1 ? store_rows_done(fixture->store, 61, done, SP_COUNT_OF(done), &err)
                       : i == 2 ? store_rows_visit(fixture->store, 61, collect, &collected, &err)
                                : store_sweep_delete(fixture->store, 61, &err);
        assert_false(is_good);
        assert_int_equal(err.kind, SP_ERROR_IO);
        assert_string_equal(err.text, sp_format(fixture->arena,
                                                "%s: holds no sweep 61 (any more): run the same again to begin it anew",
                                                fixture->path));
    }
    (void)begin(fixture, &sweep_61); /* no transaction is left open */
}

static void large_rows_come_back_whole(void **state)
{
    struct fixture *fixture = *state;
    int64_t id = begin(fixture, &sweep_61);
    enum { SIZE = 3 * 1000 * 1000 + 7 };
    char *json = malloc(SIZE + 1);
    assert_non_null(json);
    for (size_t i = 0; i < SIZE; i++) {
        json[i] = (char)('a' + i % 23);
    }
    json[SIZE] = '\0';
    add(fixture, id, 59, json);
    struct collected collected = {.stop_at = -1};
    struct sp_error err = {0};
    assert_true(store_rows_visit(fixture->store, id, collect, &collected, &err));
    bool is_same = strncmp(collected.text + strlen("59:"), json, sizeof(collected.text) - 10) == 0;
    free(json);
    assert_true(is_same);
}

/* ---- measurements ----------------------------------------------------------------------------------------------- */

static int64_t begin_run(struct fixture *fixture, const struct store_run *run)
{
    struct sp_error err = {0};
    int64_t id = -1;
    if (!store_run_begin(fixture->store, run, &id, &err)) {
        fail_msg("%s", err.text);
    }
    return id;
}

static int64_t measure(struct fixture *fixture, int64_t id, const char *key, bool is_refused, const char *json)
{
    const struct store_measurement row = {key, is_refused, json};
    struct store_batch batch = {.run_id = id, .rows = &row, .n_rows = 1};
    struct sp_error err = {0};
    assert_true(store_measurements_add(fixture->store, &batch, &err));
    return batch.n_added;
}

static bool collect_measurement(void *user, const struct store_measurement *row, struct sp_error *err)
{
    struct collected *collected = user;
    size_t length = strlen(collected->text);
    (void)snprintf(collected->text + length, sizeof(collected->text) - length, "%s%s:%s;", row->key,
                   row->is_refused ? " refused" : "", row->json);
    return strcmp(row->key, "stop") != 0 || sp_fail(err, SP_ERROR_INPUT, "the visitor has had enough");
}

static void assert_measured(struct fixture *fixture, int64_t id, const char *expected)
{
    struct collected collected = {.stop_at = -1};
    struct sp_error err = {0};
    assert_true(store_measurements_visit(fixture->store, id, collect_measurement, &collected, &err));
    assert_string_equal(collected.text, expected);
}

static struct store_run_listing listing_of(struct fixture *fixture, int64_t id)
{
    struct store_run_listing *runs = NULL;
    size_t n_runs = 0;
    struct sp_error err = {0};
    assert_true(store_runs_list(fixture->store, fixture->arena, &runs, &n_runs, &err));
    for (size_t i = 0; i < n_runs; i++) {
        if (runs[i].id == id) {
            return runs[i];
        }
    }
    fail_msg("no run %lld", (long long)id);
    return (struct store_run_listing){.id = 0};
}

static void measurements_come_back_in_the_order_they_came(void **state)
{
    struct fixture *fixture = *state;
    int64_t id = begin_run(fixture, &stores_run);
    assert_int_equal(measure(fixture, id, "gemm m=61", false, "{\"a\": 1}"), 1);
    assert_int_equal(measure(fixture, id, "copy", false, "{\"b\": \"\xc3\xa9\"}"), 1);
    assert_int_equal(measure(fixture, id, "attention", true, "{\"c\": 3}"), 1);
    reopen(fixture);
    assert_measured(fixture, id, "gemm m=61:{\"a\": 1};copy:{\"b\": \"\xc3\xa9\"};attention refused:{\"c\": 3};");
    const struct store_run_listing listing = listing_of(fixture, id);
    assert_int_equal(listing.n_rows, 3);
    assert_int_equal(listing.n_refused, 1);
    assert_string_equal(listing.run.version, stores_run.version);
    assert_true(strcmp(listing.begun_at, listing.changed_at) <= 0);
}

static void measurement_stays_and_a_refusal_is_replaced(void **state)
{
    struct fixture *fixture = *state;
    int64_t id = begin_run(fixture, &stores_run);
    (void)measure(fixture, id, "a", true, "refused");
    (void)measure(fixture, id, "b", false, "first");
    assert_int_equal(measure(fixture, id, "b", false, "second"), 0);
    assert_int_equal(measure(fixture, id, "b", true, "late"), 0);
    assert_int_equal(measure(fixture, id, "a", true, "again"), 0);
    assert_int_equal(listing_of(fixture, id).n_refused, 1);
    assert_int_equal(measure(fixture, id, "a", false, "measured"), 1);
    assert_measured(fixture, id, "a:measured;b:first;");
    assert_int_equal(listing_of(fixture, id).n_refused, 0);
    assert_int_equal(listing_of(fixture, id).n_rows, 2);
}

static void run_is_found_by_its_key_and_keeps_its_end(void **state)
{
    struct fixture *fixture = *state;
    struct store_run other = stores_run;
    other.key = "other";
    int64_t id = begin_run(fixture, &stores_run);
    int64_t sweep = begin(fixture, &sweep_61);
    int64_t other_id = begin_run(fixture, &other);
    assert_true(id < sweep && sweep < other_id); /* a number names one thing */
    struct sp_error err = {0};
    assert_true(store_run_progress(fixture->store, id, 61, false, &err));
    assert_true(store_run_progress(fixture->store, id, -1, true, &err));
    assert_true(store_run_progress(fixture->store, id, 67, false, &err));
    reopen(fixture);
    assert_int_equal(begin_run(fixture, &stores_run), id);
    assert_int_equal(listing_of(fixture, id).n_planned, 67);
    assert_true(listing_of(fixture, id).is_finished);
    assert_false(listing_of(fixture, other_id).is_finished);
    struct store_run moved = stores_run;
    moved.machine = "{\"gpu\": \"H100\"}";
    assert_false(store_run_begin(fixture->store, &moved, &id, &err));
    assert_error_contains(&err, "run 1 has the key 'c0ffee61' but another machine");
}

static void unknown_run_and_a_visitor_that_has_had_enough(void **state)
{
    struct fixture *fixture = *state;
    struct store_batch batch = {.run_id = 61};
    struct collected collected = {.stop_at = -1};
    struct sp_error err = {0};
    assert_false(store_measurements_add(fixture->store, &batch, &err));
    assert_error_contains(&err, "holds no run of measurements 61 (any more): measure again to begin one");
    assert_false(store_measurements_visit(fixture->store, 61, collect_measurement, &collected, &err));
    assert_false(store_run_progress(fixture->store, 61, 3, true, &err));
    int64_t id = begin_run(fixture, &stores_run);
    (void)measure(fixture, id, "stop", false, "{}");
    (void)measure(fixture, id, "after", false, "{}");
    assert_false(store_measurements_visit(fixture->store, id, collect_measurement, &collected, &err));
    assert_string_equal(err.text, "the visitor has had enough");
    assert_string_equal(collected.text, "stop:{};");
    assert_int_equal(measure(fixture, id, "no transaction is left open", false, "{}"), 1);
}

static void list_tells_of_every_run(void **state)
{
    struct fixture *fixture = *state;
    enum { N = 37 };
    for (int i = 0; i < N; i++) {
        struct store_run run = stores_run;
        run.key = sp_format(fixture->arena, "key %d", i);
        assert_int_equal(begin_run(fixture, &run), i + 1);
    }
    for (int i = 0; i < N; i++) {
        assert_string_equal(listing_of(fixture, i + 1).run.key, sp_format(fixture->arena, "key %d", i));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rows_come_back_in_order_of_point, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(rows_done_are_marked_and_the_others_cleared, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(row_that_is_there_stays_as_it_is, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(no_rows_are_no_work, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(visitor_ends_the_visit_with_its_error, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(same_key_is_the_same_sweep, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(same_key_of_other_work_is_refused, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(list_tells_of_every_sweep, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(deleted_sweep_takes_its_rows_along_and_no_others, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(unknown_sweep_is_an_error_everywhere, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(large_rows_come_back_whole, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(measurements_come_back_in_the_order_they_came, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(measurement_stays_and_a_refusal_is_replaced, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(run_is_found_by_its_key_and_keeps_its_end, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(unknown_run_and_a_visitor_that_has_had_enough, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(list_tells_of_every_run, open_fixture, close_fixture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
