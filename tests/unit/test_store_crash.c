/* What was reported as done is there, however the program ended: killed at any moment, by a full disk or a broken one,
 * beside another writer. */
#include "support/faulty_vfs.h"
#include "support/stores.h"
#include "support/support.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void remove_store(const struct stores_fixture *fixture)
{
    static const char *const ends[] = {"", "-wal", "-shm", "-journal"};
    for (size_t i = 0; i < SP_COUNT_OF(ends); i++) {
        const char *path = sp_format(fixture->arena, "%s%s", fixture->path, ends[i]);
        assert_true(remove(path) == 0 || errno == ENOENT);
    }
}

/* At least so many rows, all right, in a file that SQLite finds nothing wrong with. */
static void assert_holds(const struct stores_fixture *fixture, int64_t n_points, int64_t n_reported)
{
    struct sp_error err = {0};
    int64_t n_rows = 0;
    if (!stores_check(fixture->path, n_points, &n_rows, &err)) {
        fail_msg("%s", err.text);
    }
    if (n_rows < n_reported) {
        fail_msg("%lld rows were reported done, and %lld are there", (long long)n_reported, (long long)n_rows);
    }
    assert_string_equal(stores_sql(fixture->arena, fixture->path, "PRAGMA integrity_check"), "ok");
    assert_null(stores_sql(fixture->arena, fixture->path, "PRAGMA foreign_key_check"));
}

/* The rest can be done afterwards. */
static void assert_goes_on(const struct stores_fixture *fixture, int64_t n_points)
{
    struct sp_error err = {0};
    const struct stores_work work = {.path = fixture->path, .n_points = n_points, .step = 1};
    if (!stores_fill(&work, &err)) {
        fail_msg("%s", err.text);
    }
    assert_holds(fixture, n_points, n_points);
}

/* ---- a writer in a process of its own --------------------------------------------------------------------------- */

struct writer {
    pid_t process;
    int reports; /* end of a pipe: one int64_t a batch */
};

static void write_report(void *user, int64_t n_done)
{
    const int *pipe_end = user;
    if (write(*pipe_end, &n_done, sizeof(n_done)) != (ssize_t)sizeof(n_done)) {
        _exit(61);
    }
}

static struct writer start_writer(struct stores_work work, struct faulty_vfs *faulty)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    (void)fflush(NULL);
    pid_t process = fork();
    assert_true(process >= 0);
    if (process == 0) {
        (void)signal(SIGABRT, SIG_DFL);
        (void)close(ends[0]);
        work.report = write_report;
        work.user = &ends[1];
        if (faulty != NULL) {
            faulty_vfs_install(faulty);
        }
        struct sp_error err = {0};
        bool is_good = stores_fill(&work, &err);
        if (!is_good) {
            (void)fprintf(stderr, "# writer: %s\n", err.text);
        }
        _exit(is_good ? 0 : 1);
    }
    (void)close(ends[1]);
    return (struct writer){process, ends[0]};
}

/* Waits for its end. *n_reported: the last report. */
static int end_of_writer(const struct writer *writer, int64_t *n_reported)
{
    int64_t n_done = 0;
    *n_reported = 0;
    while (read(writer->reports, &n_done, sizeof(n_done)) == (ssize_t)sizeof(n_done)) {
        *n_reported = n_done;
    }
    (void)close(writer->reports);
    int status = 0;
    assert_true(waitpid(writer->process, &status, 0) == writer->process);
    return status;
}

static void pause_us(long us)
{
    const struct timespec pause = {.tv_nsec = us * 1000};
    (void)nanosleep(&pause, NULL);
}

/* ---- tests ------------------------------------------------------------------------------------------------------ */

static void kill_at_every_change_of_a_file(const struct stores_fixture *fixture, enum fault fault)
{
    int64_t n_killed = 0;
    for (int64_t at = 1;; at++) {
        struct faulty_vfs faulty = {.fault = fault, .at = at};
        remove_store(fixture);
        const struct writer writer =
            start_writer((struct stores_work){.path = fixture->path, .n_points = STORES_POINTS, .step = 1}, &faulty);
        int64_t n_reported = 0;
        int status = end_of_writer(&writer, &n_reported);
        assert_holds(fixture, STORES_POINTS, n_reported);
        assert_goes_on(fixture, STORES_POINTS);
        if (WIFEXITED(status)) {
            assert_int_equal(WEXITSTATUS(status), 0);
            break;
        }
        assert_int_equal(WTERMSIG(status), SIGKILL);
        n_killed++;
    }
    assert_true(n_killed > 61); /* else nothing was tested */
}

static void kill_in_place_of_any_change_loses_nothing(void **state)
{
    kill_at_every_change_of_a_file(*state, FAULT_KILL);
}

static void kill_in_the_middle_of_any_write_loses_nothing(void **state)
{
    kill_at_every_change_of_a_file(*state, FAULT_TORN);
}

/* The same sweep over and over, which goes on each time. */
static void kill_at_random_moments_loses_nothing(void **state)
{
    const struct stores_fixture *fixture = *state;
    enum { N_POINTS = 3001, MAX_PAUSE_US = 7000, MAX_ROUNDS = 61 };
    uint64_t random = 20261129;
    int64_t n_killed = 0;
    for (int round = 0; round < MAX_ROUNDS; round++) {
        const struct writer writer =
            start_writer((struct stores_work){.path = fixture->path, .n_points = N_POINTS, .step = 1}, NULL);
        pause_us((long)(next_random(&random) % MAX_PAUSE_US));
        (void)kill(writer.process, SIGKILL);
        int64_t n_reported = 0;
        int status = end_of_writer(&writer, &n_reported);
        n_killed += WIFSIGNALED(status) ? 1 : 0;
        assert_holds(fixture, N_POINTS, n_reported);
        if (n_reported == N_POINTS) {
            break;
        }
    }
    assert_true(n_killed > 0);
}

/* In this process, with an error in place of the end. */
struct progress {
    int64_t n_reported;
};

static void note_report(void *user, int64_t n_done)
{
    struct progress *progress = user;
    progress->n_reported = n_done;
}

/* Returns how often the work failed. */
static int64_t fail_at_every_change(const struct stores_fixture *fixture, enum fault fault, bool has_no_memory,
                                    const char *text)
{
    int64_t n_failed = 0;
    for (int64_t at = 1;; at++) {
        struct faulty_vfs faulty = {.fault = fault, .at = at, .has_no_memory = has_no_memory};
        struct progress progress = {0};
        struct sp_error err = {0};
        remove_store(fixture);
        faulty_vfs_install(&faulty);
        bool is_good = stores_fill(
            &(struct stores_work){
                .path = fixture->path, .n_points = STORES_POINTS, .step = 1, .report = note_report, .user = &progress},
            &err);
        faulty_vfs_remove();
        if (!is_good) {
            assert_int_equal(err.kind, SP_ERROR_IO);
            assert_error_contains(&err, fixture->path);
            assert_error_contains(&err, text);
            n_failed++;
        }
        assert_holds(fixture, STORES_POINTS, progress.n_reported);
        assert_goes_on(fixture, STORES_POINTS);
        if (faulty.n_changes < at) {
            return n_failed;
        }
    }
}

static void full_disk_is_named_and_loses_nothing(void **state)
{
    int64_t n_failed =
        fail_at_every_change(*state, FAULT_FULL, false, "the disk is full: make room and run the same again");
    assert_true(n_failed > 31);
}

static void broken_disk_is_named_and_loses_nothing(void **state)
{
    int64_t n_failed = fail_at_every_change(*state, FAULT_IO, false, "cannot be read or written: the disk failed");
    assert_true(n_failed > 31);
}

static void one_failing_change_loses_nothing(void **state)
{
    int64_t n_failed = fail_at_every_change(*state, FAULT_ONCE, false, "cannot be ");
    assert_true(n_failed > 31);
}

static void rollback_journal_loses_nothing_either(void **state)
{
    assert_true(fail_at_every_change(*state, FAULT_FULL, true, "the disk is full") > 61);
    assert_true(fail_at_every_change(*state, FAULT_IO, true, "cannot be ") > 61);
}

static void rows_are_synced_before_they_are_reported(void **state)
{
    const struct stores_fixture *fixture = *state;
    struct faulty_vfs faulty = {.fault = FAULT_NONE};
    faulty_vfs_install(&faulty);
    struct store *store = NULL;
    struct sp_error err = {0};
    const struct store_sweep sweep = stores_sweep(STORES_POINTS);
    int64_t id = 0;
    assert_true(store_open(fixture->arena, fixture->path, &store, &err));
    assert_true(store_sweep_begin(store, &sweep, &id, &err));
    assert_int_equal(faulty.n_unsynced, 0);
    for (int64_t point = 0; point < STORES_POINTS; point += 3) {
        int64_t n_before = faulty.n_changes;
        const struct store_row row = {point, stores_text(fixture->arena, point)};
        assert_true(store_rows_add(store, id, &row, 1, &err));
        assert_true(faulty.n_changes > n_before + 1);
        assert_int_equal(faulty.n_unsynced, 0);
    }
    store_close(store);
    faulty_vfs_remove();
}

/* A sweep is deleted with all its rows, or not at all; the other one stays whole. */
static void failing_deletion_leaves_all_or_nothing(void **state)
{
    const struct stores_fixture *fixture = *state;
    struct store_sweep other = stores_sweep(3);
    other.key = "other";
    int64_t n_failed = 0;
    for (int64_t at = 1;; at++) {
        struct faulty_vfs faulty = {.fault = FAULT_IO, .at = INT64_MAX};
        struct sp_error err = {0};
        struct store *store = NULL;
        int64_t id = 0;
        remove_store(fixture);
        assert_goes_on(fixture, STORES_POINTS);
        faulty_vfs_install(&faulty);
        assert_true(store_open(fixture->arena, fixture->path, &store, &err));
        assert_true(store_sweep_begin(store, &other, &id, &err));
        assert_true(store_rows_add(store, id, &(struct store_row){2, "{}"}, 1, &err));
        faulty.at = faulty.n_changes + at;
        bool is_good = store_sweep_delete(store, 1, &err);
        store_close(store);
        faulty_vfs_remove();
        const char *n_rows = stores_sql(fixture->arena, fixture->path, "SELECT count(*) FROM sweep_rows");
        const char *n_sweeps = stores_sql(fixture->arena, fixture->path, "SELECT count(*) FROM sweeps");
        const char *found = sp_format(fixture->arena, "%s of %s", n_rows, n_sweeps);
        assert_true(strcmp(found, "1 of 1") == 0 || (!is_good && strcmp(found, "62 of 2") == 0));
        n_failed += is_good ? 0 : 1;
        if (faulty.n_changes < faulty.at) {
            break;
        }
    }
    assert_true(n_failed > 0);
}

/* Both make the file, and both write every row of their half. */
static void two_writers_at_once_both_succeed(void **state)
{
    const struct stores_fixture *fixture = *state;
    for (int round = 0; round < 7; round++) {
        remove_store(fixture);
        struct writer writers[2];
        for (int i = 0; i < 2; i++) {
            writers[i] = start_writer(
                (struct stores_work){.path = fixture->path, .n_points = 2 * STORES_POINTS, .first = i, .step = 2},
                NULL);
        }
        for (int i = 0; i < 2; i++) {
            int64_t n_reported = 0;
            assert_int_equal(end_of_writer(&writers[i], &n_reported), 0);
            assert_true(n_reported >= STORES_POINTS);
        }
        assert_holds(fixture, 2 * STORES_POINTS, 2 * STORES_POINTS);
    }
}

/* Nine at once, one of them killed, all at the same rows. */
static void many_writers_of_the_same_rows_agree(void **state)
{
    const struct stores_fixture *fixture = *state;
    enum { N_WRITERS = 9 };
    struct writer writers[N_WRITERS];
    for (int i = 0; i < N_WRITERS; i++) {
        writers[i] =
            start_writer((struct stores_work){.path = fixture->path, .n_points = 3 * STORES_POINTS, .step = 1}, NULL);
    }
    pause_us(7000);
    (void)kill(writers[4].process, SIGKILL);
    for (int i = 0; i < N_WRITERS; i++) {
        int64_t n_reported = 0;
        int status = end_of_writer(&writers[i], &n_reported);
        assert_true(i == 4 || (status == 0 && n_reported == 3 * STORES_POINTS));
    }
    assert_holds(fixture, 3 * STORES_POINTS, 3 * STORES_POINTS);
}

int main(void)
{
    temp_folders_in_memory();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(kill_in_place_of_any_change_loses_nothing, stores_open_fixture,
                                        stores_close_fixture),
        cmocka_unit_test_setup_teardown(kill_in_the_middle_of_any_write_loses_nothing, stores_open_fixture,
                                        stores_close_fixture),
        cmocka_unit_test_setup_teardown(kill_at_random_moments_loses_nothing, stores_open_fixture,
                                        stores_close_fixture),
        cmocka_unit_test_setup_teardown(full_disk_is_named_and_loses_nothing, stores_open_fixture,
                                        stores_close_fixture),
        cmocka_unit_test_setup_teardown(broken_disk_is_named_and_loses_nothing, stores_open_fixture,
                                        stores_close_fixture),
        cmocka_unit_test_setup_teardown(one_failing_change_loses_nothing, stores_open_fixture, stores_close_fixture),
        cmocka_unit_test_setup_teardown(rollback_journal_loses_nothing_either, stores_open_fixture,
                                        stores_close_fixture),
        cmocka_unit_test_setup_teardown(rows_are_synced_before_they_are_reported, stores_open_fixture,
                                        stores_close_fixture),
        cmocka_unit_test_setup_teardown(failing_deletion_leaves_all_or_nothing, stores_open_fixture,
                                        stores_close_fixture),
        cmocka_unit_test_setup_teardown(two_writers_at_once_both_succeed, stores_open_fixture, stores_close_fixture),
        cmocka_unit_test_setup_teardown(many_writers_of_the_same_rows_agree, stores_open_fixture, stores_close_fixture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
