/* Files that were truncated or changed: an error or the right rows, and nothing else. */
#include "support/stores.h"
#include "support/support.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct fixture {
    struct sp_arena *arena;
    char *folder;
    const char *path;
    unsigned char *bytes; /* of a whole store */
    size_t n_bytes;
    unsigned char *log; /* of one that was not closed, or NULL */
    size_t n_log;
};

static unsigned char *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    *size = (size_t)ftell(file);
    rewind(file);
    unsigned char *bytes = malloc(*size + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *size, file), *size);
    (void)fclose(file);
    return bytes;
}

static const char *side_file(const struct fixture *fixture, const char *end)
{
    return sp_format(fixture->arena, "%s%s", fixture->path, end);
}

static struct fixture *new_fixture(void)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    fixture->arena = sp_arena_open();
    fixture->folder = temp_folder_open();
    fixture->path = sp_format(fixture->arena, "%s/runs.db", fixture->folder);
    return fixture;
}

static int open_closed(void **state)
{
    struct fixture *fixture = new_fixture();
    struct sp_error err = {0};
    assert_true(stores_fill(&(struct stores_work){.path = fixture->path, .n_points = STORES_POINTS, .step = 1}, &err));
    fixture->bytes = read_file(fixture->path, &fixture->n_bytes);
    *state = fixture;
    return 0;
}

static int open_unclosed(void **state)
{
    struct fixture *fixture = new_fixture();
    stores_abandon(fixture->path, STORES_POINTS);
    fixture->bytes = read_file(fixture->path, &fixture->n_bytes);
    fixture->log = read_file(side_file(fixture, "-wal"), &fixture->n_log);
    assert_true(fixture->n_log > 61000);
    *state = fixture;
    return 0;
}

static int close_fixture(void **state)
{
    struct fixture *fixture = *state;
    temp_folder_close(fixture->folder);
    sp_arena_close(fixture->arena);
    free(fixture->bytes);
    free(fixture->log);
    free(fixture);
    return 0;
}

/* Lays the store down as it was, with nothing beside it but the log. */
static void put_back(const struct fixture *fixture, size_t n_bytes, size_t n_log)
{
    static const char *const ends[] = {"-wal", "-shm", "-journal"};
    for (size_t i = 0; i < SP_COUNT_OF(ends); i++) {
        assert_true(remove(side_file(fixture, ends[i])) == 0 || errno == ENOENT);
    }
    (void)temp_file(fixture->arena, fixture->folder, "runs.db", fixture->bytes, n_bytes);
    if (fixture->log != NULL) {
        (void)temp_file(fixture->arena, fixture->folder, "runs.db-wal", fixture->log, n_log);
    }
}

/* An error of the store, or the rows and as many as expected; -1: however many. Returns whether it was an error. */
static bool is_refused(const struct fixture *fixture, int64_t n_expected)
{
    int64_t n_rows = 0;
    struct sp_error err = {0};
    if (!stores_check(fixture->path, STORES_POINTS, &n_rows, &err)) {
        assert_int_equal(err.kind, SP_ERROR_IO);
        assert_error_contains(&err, fixture->path);
        return true;
    }
    if (n_expected >= 0) {
        assert_int_equal(n_rows, n_expected);
    }
    /* What is added to a file that seemed good comes back, or is an error. */
    const struct stores_work work = {.path = fixture->path, .n_points = STORES_POINTS, .step = 1};
    if (!stores_fill(&work, &err) || !stores_check(fixture->path, STORES_POINTS, &n_rows, &err)) {
        assert_int_equal(err.kind, SP_ERROR_IO);
        return true;
    }
    assert_int_equal(n_rows, STORES_POINTS);
    return false;
}

static void flip(unsigned char *bytes, size_t bit)
{
    bytes[bit / 8] = (unsigned char)(bytes[bit / 8] ^ (1U << bit % 8));
}

static void any_flipped_bit_of_the_header_is_met(void **state)
{
    struct fixture *fixture = *state;
    enum { HEADER_BITS = 100 * 8 };
    for (size_t bit = 0; bit < HEADER_BITS; bit++) {
        struct sp_arena_mark mark = sp_arena_mark(fixture->arena);
        flip(fixture->bytes, bit);
        put_back(fixture, fixture->n_bytes, 0);
        (void)is_refused(fixture, STORES_POINTS);
        flip(fixture->bytes, bit);
        sp_arena_rewind(fixture->arena, mark);
    }
}

static void flipped_bits_give_an_error_or_the_right_rows(void **state)
{
    struct fixture *fixture = *state;
    enum { ROUNDS = 1201 };
    uint64_t random = 3141592653;
    int n_refused = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct sp_arena_mark mark = sp_arena_mark(fixture->arena);
        size_t bit = next_random(&random) % (fixture->n_bytes * 8);
        flip(fixture->bytes, bit);
        put_back(fixture, fixture->n_bytes, 0);
        n_refused += is_refused(fixture, STORES_POINTS) ? 1 : 0;
        flip(fixture->bytes, bit);
        sp_arena_rewind(fixture->arena, mark);
    }
    assert_true(n_refused > ROUNDS / 3); /* the rest fell on free space */
}

/* Entries of the index then lead to another row, or to none. */
static void flipped_bits_of_the_index_give_an_error_or_the_right_rows(void **state)
{
    struct fixture *fixture = *state;
    enum { PAGE = 4096, HEADER = 8 };
    const char *sql = "SELECT rootpage FROM sqlite_schema WHERE name = 'sqlite_autoindex_sweep_rows_1'";
    size_t first = (size_t)(atoi(stores_sql(fixture->arena, fixture->path, sql)) - 1) * PAGE;
    size_t content = (size_t)fixture->bytes[first + 5] * 256 + fixture->bytes[first + 6]; /* where entries begin */
    assert_true(content > 61 && content < PAGE - 61);
    uint64_t random = 1414213562;
    for (size_t at = 0; at < PAGE; at += at == HEADER + 2 * STORES_POINTS ? content - at : 1) {
        struct sp_arena_mark mark = sp_arena_mark(fixture->arena);
        for (int turn = 0; turn < 2; turn++) {
            size_t bit = (first + at) * 8 + (turn == 0 ? 0 : next_random(&random) % 8);
            flip(fixture->bytes, bit);
            put_back(fixture, fixture->n_bytes, 0);
            (void)is_refused(fixture, STORES_POINTS);
            flip(fixture->bytes, bit);
        }
        sp_arena_rewind(fixture->arena, mark);
    }
}

/* Bursts, as of a bad sector. */
static void overwritten_ranges_give_an_error_or_the_right_rows(void **state)
{
    struct fixture *fixture = *state;
    enum { ROUNDS = 601, MOST = 700 };
    uint64_t random = 2718281828;
    unsigned char *whole = malloc(fixture->n_bytes);
    assert_non_null(whole);
    memcpy(whole, fixture->bytes, fixture->n_bytes);
    for (int round = 0; round < ROUNDS; round++) {
        struct sp_arena_mark mark = sp_arena_mark(fixture->arena);
        size_t size = 1 + next_random(&random) % MOST;
        size_t at = next_random(&random) % (fixture->n_bytes - size);
        bool is_zero = next_random(&random) % 3 == 0;
        for (size_t i = 0; i < size; i++) {
            fixture->bytes[at + i] = is_zero ? 0 : (unsigned char)next_random(&random);
        }
        put_back(fixture, fixture->n_bytes, 0);
        (void)is_refused(fixture, STORES_POINTS);
        memcpy(fixture->bytes, whole, fixture->n_bytes);
        sp_arena_rewind(fixture->arena, mark);
    }
    free(whole);
}

/* Pages swapped: each is whole, and in the wrong place. */
static void swapped_pages_give_an_error_or_the_right_rows(void **state)
{
    struct fixture *fixture = *state;
    enum { PAGE = 4096 };
    size_t n_pages = fixture->n_bytes / PAGE;
    unsigned char page[PAGE];
    for (size_t a = 1; a < n_pages; a++) {
        for (size_t b = a + 1; b < n_pages; b += 3) {
            struct sp_arena_mark mark = sp_arena_mark(fixture->arena);
            for (int turn = 0; turn < 2; turn++) {
                memcpy(page, fixture->bytes + a * PAGE, PAGE);
                memcpy(fixture->bytes + a * PAGE, fixture->bytes + b * PAGE, PAGE);
                memcpy(fixture->bytes + b * PAGE, page, PAGE);
                if (turn == 0) {
                    put_back(fixture, fixture->n_bytes, 0);
                    assert_true(is_refused(fixture, STORES_POINTS));
                }
            }
            sp_arena_rewind(fixture->arena, mark);
        }
    }
}

static void truncated_files_are_refused(void **state)
{
    struct fixture *fixture = *state;
    /* To SQLite a file of one byte is an empty one. */
    for (size_t size = 2; size < fixture->n_bytes; size += size < 200 ? 7 : 613) {
        struct sp_arena_mark mark = sp_arena_mark(fixture->arena);
        put_back(fixture, size, 0);
        assert_true(is_refused(fixture, STORES_POINTS));
        sp_arena_rewind(fixture->arena, mark);
    }
}

static void log_of_a_killed_run_is_read(void **state)
{
    struct fixture *fixture = *state;
    put_back(fixture, fixture->n_bytes, fixture->n_log);
    assert_false(is_refused(fixture, STORES_POINTS));
}

static void damaged_log_gives_an_error_or_right_rows(void **state)
{
    struct fixture *fixture = *state;
    enum { ROUNDS = 401 };
    uint64_t random = 1618033988;
    for (int round = 0; round < ROUNDS; round++) {
        struct sp_arena_mark mark = sp_arena_mark(fixture->arena);
        size_t bit = next_random(&random) % (fixture->n_log * 8);
        flip(fixture->log, bit);
        put_back(fixture, fixture->n_bytes, fixture->n_log);
        (void)is_refused(fixture, -1);
        flip(fixture->log, bit);
        sp_arena_rewind(fixture->arena, mark);
    }
    for (size_t size = 0; size < fixture->n_log; size += 1733) {
        struct sp_arena_mark mark = sp_arena_mark(fixture->arena);
        put_back(fixture, fixture->n_bytes, size);
        (void)is_refused(fixture, -1);
        sp_arena_rewind(fixture->arena, mark);
    }
}

static void damage_is_named_with_what_to_do(void **state)
{
    struct fixture *fixture = *state;
    const char *json = stores_text(fixture->arena, 37);
    for (size_t at = 0; at + strlen(json) <= fixture->n_bytes; at++) {
        if (memcmp(fixture->bytes + at, json, strlen(json)) == 0) {
            fixture->bytes[at + 15] ^= 1U;
        }
    }
    put_back(fixture, fixture->n_bytes, 0);
    int64_t n_rows = 0;
    struct sp_error err = {0};
    assert_false(stores_check(fixture->path, STORES_POINTS, &n_rows, &err));
    assert_error_contains(&err, "runs.db: is damaged: move it away and run again, or save what is left with sqlite3");
}

/* Rows that another program changed lack the checksum. */
static void rows_that_others_changed_are_refused(void **state)
{
    static const char *const changes[] = {
        "UPDATE sweep_rows SET json = '{}' WHERE point = 6",
        "UPDATE sweep_rows SET point = 61 - point WHERE point = 60",
        "DELETE FROM sweep_rows WHERE point = 6",
        "INSERT INTO sweep_rows (sweep_id, point, json, checksum) SELECT sweep_id, 61, json, checksum FROM sweep_rows "
        "WHERE point = 6",
        "UPDATE sweeps SET n_rows = 60",
        "UPDATE sweeps SET changed_at = 'today'",
        "UPDATE sweeps SET n_points = 62",
        "UPDATE sweep_rows SET sweep_id = 2 WHERE point = 6",
        "DROP TABLE sweep_rows",
        "ALTER TABLE sweeps RENAME COLUMN data_hash TO hash",
        "UPDATE measurements SET json = '{}' WHERE key = 'gemm m=7'",
        "UPDATE measurements SET position = 61 WHERE key = 'gemm m=7'",
        "UPDATE measurements SET key = 'gemm m=8' WHERE key = 'gemm m=7'",
        "UPDATE measurements SET is_refused = 1 - is_refused WHERE key = 'gemm m=7'",
        "DELETE FROM measurements WHERE key = 'gemm m=7'",
        "INSERT INTO measurements (run_id, key, position, is_refused, json, checksum) SELECT run_id, 'x', 11, 0, json, "
        "checksum FROM measurements WHERE key = 'gemm m=7'",
        "UPDATE measurement_runs SET n_rows = n_rows + 1",
        "UPDATE measurement_runs SET is_finished = 1",
        "UPDATE measurement_runs SET machine = '{}'",
        "UPDATE measurement_runs SET n_planned = 61",
        "DROP TABLE measurements",
    };
    struct fixture *fixture = *state;
    for (size_t i = 0; i < SP_COUNT_OF(changes); i++) {
        put_back(fixture, fixture->n_bytes, 0);
        if (strstr(changes[i], "point = 61 - point") != NULL) {
            (void)stores_sql(fixture->arena, fixture->path, "DELETE FROM sweep_rows WHERE point = 1");
        }
        (void)stores_sql(fixture->arena, fixture->path, changes[i]);
        if (!is_refused(fixture, STORES_POINTS)) {
            fail_msg("not refused: %s", changes[i]);
        }
    }
}

int main(void)
{
    temp_folders_in_memory();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(any_flipped_bit_of_the_header_is_met, open_closed, close_fixture),
        cmocka_unit_test_setup_teardown(flipped_bits_give_an_error_or_the_right_rows, open_closed, close_fixture),
        cmocka_unit_test_setup_teardown(flipped_bits_of_the_index_give_an_error_or_the_right_rows, open_closed,
                                        close_fixture),
        cmocka_unit_test_setup_teardown(overwritten_ranges_give_an_error_or_the_right_rows, open_closed, close_fixture),
        cmocka_unit_test_setup_teardown(swapped_pages_give_an_error_or_the_right_rows, open_closed, close_fixture),
        cmocka_unit_test_setup_teardown(truncated_files_are_refused, open_closed, close_fixture),
        cmocka_unit_test_setup_teardown(log_of_a_killed_run_is_read, open_unclosed, close_fixture),
        cmocka_unit_test_setup_teardown(damaged_log_gives_an_error_or_right_rows, open_unclosed, close_fixture),
        cmocka_unit_test_setup_teardown(damage_is_named_with_what_to_do, open_closed, close_fixture),
        cmocka_unit_test_setup_teardown(rows_that_others_changed_are_refused, open_closed, close_fixture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
