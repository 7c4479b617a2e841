#include "support/stores.h"

#include "support/support.h"

#include <inttypes.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct store_sweep stores_sweep(int64_t n_points)
{
    return (struct store_sweep){.key = "5f3ac0de",
                                .command = "estimate --vary seq=3K",
                                .version = "0.7.1+3ac",
                                .data_hash = "9e3779b97f4a7c15",
                                .n_points = n_points};
}

const char *stores_text(struct sp_arena *arena, int64_t point)
{
    /* Every 23rd is larger than two pages of SQLite, every 9th than a quarter of one. */
    size_t size = point % 23 == 7 ? 9000 : point % 9 == 4 ? 1300 : 20 + (size_t)(point % 41);
    char *text = sp_arena_alloc(arena, size + 1);
    (void)snprintf(text, size + 1, "{\"point\": %lld, \"x\": \"", (long long)point);
    uint64_t state = (uint64_t)point * 2654435761U + 61;
    for (size_t i = strlen(text); i + 2 < size; i++) {
        text[i] = (char)('a' + next_random(&state) % 23);
    }
    text[size - 2] = '"';
    text[size - 1] = '}';
    return text;
}

const struct store_run stores_run = {
    .key = "c0ffee61", .profile = "--quick", .version = "0.7.1+3ac", .machine = "{\"gpu\": \"H200\", \"gpus\": 3}"};

static const char *measured_key(struct sp_arena *arena, int64_t point)
{
    return sp_format(arena, "gemm m=%lld", (long long)point);
}

/* Every third of them is a refusal. */
static bool is_refused(int64_t point)
{
    return point / STORES_MEASURED % 3 == 2;
}

/* Those of a batch of rows, as far as they are missing. */
static bool add_measurements(struct store *store, struct sp_arena *arena, const struct store_row *rows, size_t n_rows,
                             struct sp_error *err)
{
    struct store_measurement measured[STORES_BATCH];
    struct store_batch batch = {.rows = measured};
    for (size_t i = 0; i < n_rows; i++) {
        if (rows[i].point % STORES_MEASURED == 1) {
            measured[batch.n_rows++] =
                (struct store_measurement){measured_key(arena, rows[i].point), is_refused(rows[i].point), rows[i].json};
        }
    }
    return batch.n_rows == 0 ||
           (store_run_begin(store, &stores_run, &batch.run_id, err) && store_measurements_add(store, &batch, err));
}

/* Adds up to STORES_BATCH missing rows. */
static bool add_batch(struct store *store, int64_t id, const struct stores_work *work, int64_t *point, bool *done,
                      struct sp_error *err)
{
    struct sp_arena *arena = sp_arena_open();
    struct store_row rows[STORES_BATCH];
    size_t n_rows = 0;
    for (; *point < work->n_points && n_rows < STORES_BATCH; *point += work->step) {
        if (!done[*point]) {
            rows[n_rows++] = (struct store_row){*point, stores_text(arena, *point)};
        }
    }
    bool is_good = add_measurements(store, arena, rows, n_rows, err) && store_rows_add(store, id, rows, n_rows, err);
    for (size_t i = 0; i < n_rows && is_good; i++) {
        done[rows[i].point] = true;
    }
    sp_arena_close(arena);
    return is_good;
}

static void report(const struct stores_work *work, const bool *done)
{
    int64_t n_done = 0;
    for (int64_t i = 0; i < work->n_points; i++) {
        n_done += done[i] ? 1 : 0;
    }
    if (work->report != NULL) {
        work->report(work->user, n_done);
    }
}

bool stores_fill(const struct stores_work *work, struct sp_error *err)
{
    struct sp_arena *arena = sp_arena_open();
    struct store *store = NULL;
    const struct store_sweep sweep = stores_sweep(work->n_points);
    bool *done = sp_arena_array(arena, (size_t)work->n_points, sizeof(*done));
    int64_t id = 0;
    bool is_good = store_open(arena, work->path, &store, err) && store_sweep_begin(store, &sweep, &id, err) &&
                   store_rows_done(store, id, done, (size_t)work->n_points, err);
    for (int64_t point = work->first; is_good && point < work->n_points;) {
        is_good = add_batch(store, id, work, &point, done, err);
        if (is_good) {
            report(work, done);
        }
    }
    store_close(store);
    sp_arena_close(arena);
    return is_good;
}

struct abandoned {
    const char *path;
    int64_t n_points;
};

static void fill_and_end(void *data)
{
    const struct abandoned *abandoned = data;
    struct sp_arena *arena = sp_arena_open();
    struct store *store = NULL;
    struct sp_error err = {0};
    const struct store_sweep sweep = stores_sweep(abandoned->n_points);
    int64_t id = 0;
    bool is_good = store_open(arena, abandoned->path, &store, &err) && store_sweep_begin(store, &sweep, &id, &err);
    for (int64_t point = 0; point < abandoned->n_points && is_good; point++) {
        const struct store_row row = {point, stores_text(arena, point)};
        is_good = add_measurements(store, arena, &row, 1, &err) && store_rows_add(store, id, &row, 1, &err);
    }
    _exit(is_good ? 0 : 1);
}

void stores_abandon(const char *path, int64_t n_points)
{
    struct abandoned abandoned = {path, n_points};
    char output[2048];
    assert_int_equal(run_in_child(fill_and_end, &abandoned, output, sizeof(output)), 0);
}

struct checking {
    struct sp_arena *arena;
    bool *seen;
    int64_t n_rows;
};

static bool check_row(void *user, int64_t point, const char *json, struct sp_error *err)
{
    (void)err;
    struct checking *checking = user;
    assert_false(checking->seen[point]);
    checking->seen[point] = true;
    checking->n_rows++;
    assert_string_equal(json, stores_text(checking->arena, point));
    return true;
}

/* Marks what is measured: checking->seen is by point. */
static bool check_measurement(void *user, const struct store_measurement *row, struct sp_error *err)
{
    (void)err;
    struct checking *checking = user;
    int64_t point = -1;
    assert_int_equal(sscanf(row->key, "gemm m=%" SCNd64, &point), 1);
    assert_int_equal(point % STORES_MEASURED, 1);
    assert_false(checking->seen[point]);
    checking->seen[point] = true;
    assert_string_equal(row->key, measured_key(checking->arena, point));
    assert_string_equal(row->json, stores_text(checking->arena, point));
    assert_int_equal(row->is_refused, is_refused(point));
    return true;
}

/* There is the measurement of every row that is there. */
static bool check_run(struct store *store, struct sp_arena *arena, const bool *done, int64_t n_points,
                      struct sp_error *err)
{
    struct store_run_listing *runs = NULL;
    size_t n_runs = 0;
    struct checking checking = {.arena = arena, .seen = sp_arena_array(arena, (size_t)n_points, sizeof(bool))};
    int64_t id = 0;
    if (!store_run_begin(store, &stores_run, &id, err) || !store_runs_list(store, arena, &runs, &n_runs, err) ||
        !store_measurements_visit(store, id, check_measurement, &checking, err)) {
        return false;
    }
    assert_int_equal(n_runs, 1);
    assert_int_equal(runs[0].id, id);
    for (int64_t i = 1; i < n_points; i += STORES_MEASURED) {
        assert_true(checking.seen[i] || !done[i]);
    }
    assert_string_equal(runs[0].run.key, stores_run.key);
    assert_string_equal(runs[0].run.machine, stores_run.machine);
    assert_string_equal(runs[0].run.profile, stores_run.profile);
    return true;
}

static bool check_sweep(struct store *store, struct sp_arena *arena, int64_t n_points, int64_t *n_rows,
                        struct sp_error *err)
{
    const struct store_sweep sweep = stores_sweep(n_points);
    struct checking checking = {.arena = arena, .seen = sp_arena_array(arena, (size_t)n_points, sizeof(bool))};
    bool *done = sp_arena_array(arena, (size_t)n_points, sizeof(*done));
    int64_t id = 0;
    if (!store_sweep_begin(store, &sweep, &id, err) || !store_rows_visit(store, id, check_row, &checking, err) ||
        !store_rows_done(store, id, done, (size_t)n_points, err)) {
        return false;
    }
    assert_memory_equal(done, checking.seen, (size_t)n_points * sizeof(*done));
    *n_rows = checking.n_rows;
    return check_run(store, arena, done, n_points, err);
}

bool stores_check(const char *path, int64_t n_points, int64_t *n_rows, struct sp_error *err)
{
    struct sp_arena *arena = sp_arena_open();
    struct store *store = NULL;
    *n_rows = 0;
    bool is_good = store_open(arena, path, &store, err) && check_sweep(store, arena, n_points, n_rows, err);
    store_close(store);
    sp_arena_close(arena);
    return is_good;
}

const char *stores_sql(struct sp_arena *arena, const char *path, const char *sql)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL), SQLITE_OK);
    const char *answer = NULL;
    while (*sql != '\0') {
        sqlite3_stmt *statement = NULL;
        if (sqlite3_prepare_v2(db, sql, -1, &statement, &sql) != SQLITE_OK) {
            print_error("%s\n", sqlite3_errmsg(db));
            fail();
        }
        int code = sqlite3_step(statement);
        if (code == SQLITE_ROW && answer == NULL && sqlite3_column_text(statement, 0) != NULL) {
            answer = sp_strdup(arena, (const char *)sqlite3_column_text(statement, 0));
        }
        while (code == SQLITE_ROW) {
            code = sqlite3_step(statement);
        }
        assert_int_equal(sqlite3_finalize(statement), SQLITE_OK);
    }
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    return answer;
}

int stores_open_fixture(void **state)
{
    struct stores_fixture *fixture = calloc(1, sizeof(*fixture));
    fixture->arena = sp_arena_open();
    fixture->folder = temp_folder_open();
    fixture->path = sp_format(fixture->arena, "%s/runs.db", fixture->folder);
    *state = fixture;
    return 0;
}

int stores_close_fixture(void **state)
{
    struct stores_fixture *fixture = *state;
    temp_folder_close(fixture->folder);
    sp_arena_close(fixture->arena);
    free(fixture);
    return 0;
}
