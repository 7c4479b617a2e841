/* An import on its way into the store: all of a file is there or nothing of it, whatever fails and whenever; the same file
 * again adds nothing. */
#include "support/faulty_vfs.h"
#include "support/import_logs.h"
#include "support/stores.h"
#include "support/support.h"

#include <errno.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Of the file below: two runs of 64 and 46 measurements. */
enum { N_RUNS = 2, N_MEASUREMENTS = 110 };

/* Two tables of two machines in one text. */
static struct import_result read_two_tables(struct sp_arena *arena)
{
    static const char *const files[] = {"nccl/h100_x8_nvlink_allreduce_dgxc.txt",
                                        "nccl/gb300_2xa4xmax_x8_crossdomain_allgather_gcp.txt"};
    struct sp_texts all = {.arena = arena};
    for (size_t i = 0; i < SP_COUNT_OF(files); i++) {
        const struct import_text text = import_log_text(arena, files[i]);
        sp_texts_add(&all, "%s\n", sp_join(arena, text.lines, (size_t)text.n_lines, "\n"));
    }
    const struct import_text text = import_log_lines(arena, sp_join(arena, all.items, all.count, ""));
    struct import_result result;
    struct sp_error err = {0};
    const struct import_given given = {.ranks = 0};
    if (!import_nccl(arena, &text, &given, &result, &err)) {
        fail_msg("%s", err.text);
    }
    assert_int_equal(result.n_runs, N_RUNS);
    assert_int_equal(result.n_measurements, N_MEASUREMENTS);
    return result;
}

static bool store_two_tables(struct sp_arena *arena, const char *path, int64_t *n_added, struct sp_error *err)
{
    struct import_result result = read_two_tables(arena);
    struct store *store = NULL;
    *n_added = 0;
    if (!store_open(arena, path, &store, err)) {
        return false;
    }
    bool is_good = store_runs_import(store, result.runs, result.n_runs, err);
    store_close(store);
    for (size_t i = 0; i < result.n_runs; i++) {
        *n_added += result.runs[i].n_added;
    }
    return is_good;
}

static bool count_row(void *user, const struct store_measurement *row, struct sp_error *err)
{
    int64_t *n_rows = user;
    (void)row;
    (void)err;
    ++*n_rows;
    return true;
}

/* How many measurements are there; every run must be whole. */
static int64_t count_stored(const struct stores_fixture *fixture)
{
    struct store *store = NULL;
    struct sp_error err = {0};
    struct store_run_listing *runs = NULL;
    size_t n_runs = 0;
    int64_t n_rows = 0;
    assert_true(store_open_existing(fixture->arena, fixture->path, &store, &err));
    if (store == NULL) {
        return 0;
    }
    assert_true(store_runs_list(store, fixture->arena, &runs, &n_runs, &err));
    for (size_t i = 0; i < n_runs; i++) {
        int64_t n_own = 0;
        if (!store_measurements_visit(store, runs[i].id, count_row, &n_own, &err)) {
            fail_msg("%s", err.text);
        }
        assert_true(runs[i].is_finished);
        assert_int_equal(n_own, runs[i].n_planned);
        n_rows += n_own;
    }
    store_close(store);
    assert_true((n_runs == 0 && n_rows == 0) || (n_runs == N_RUNS && n_rows == N_MEASUREMENTS));
    return n_rows;
}

static void assert_goes_on(const struct stores_fixture *fixture, int64_t n_stored)
{
    struct sp_error err = {0};
    int64_t n_added = 0;
    if (!store_two_tables(fixture->arena, fixture->path, &n_added, &err)) {
        fail_msg("%s", err.text);
    }
    assert_int_equal(n_added, N_MEASUREMENTS - n_stored);
    assert_int_equal(count_stored(fixture), N_MEASUREMENTS);
    assert_string_equal(stores_sql(fixture->arena, fixture->path, "PRAGMA integrity_check"), "ok");
}

static void remove_store(const struct stores_fixture *fixture)
{
    static const char *const ends[] = {"", "-wal", "-shm", "-journal"};
    for (size_t i = 0; i < SP_COUNT_OF(ends); i++) {
        const char *path = sp_format(fixture->arena, "%s%s", fixture->path, ends[i]);
        assert_true(remove(path) == 0 || errno == ENOENT);
    }
}

/* ---- a disk that fails ------------------------------------------------------------------------------------------ */

static int64_t fail_at_every_change(const struct stores_fixture *fixture, enum fault fault, const char *text)
{
    int64_t n_failed = 0;
    for (int64_t at = 1;; at++) {
        struct faulty_vfs faulty = {.fault = fault, .at = at};
        struct sp_error err = {0};
        int64_t n_added = 0;
        struct sp_arena_mark mark = sp_arena_mark(fixture->arena);
        remove_store(fixture);
        faulty_vfs_install(&faulty);
        bool is_good = store_two_tables(fixture->arena, fixture->path, &n_added, &err);
        faulty_vfs_remove();
        int64_t n_stored = count_stored(fixture);
        if (is_good) {
            assert_int_equal(n_stored, N_MEASUREMENTS);
        } else {
            assert_int_equal(err.kind, SP_ERROR_IO);
            assert_error_contains(&err, fixture->path);
            assert_error_contains(&err, text);
            n_failed++;
        }
        assert_goes_on(fixture, n_stored);
        sp_arena_rewind(fixture->arena, mark);
        if (faulty.n_changes < at) {
            return n_failed;
        }
    }
}

static void full_disk_stores_all_or_nothing(void **state)
{
    assert_true(fail_at_every_change(*state, FAULT_FULL, "the disk is full: make room and run the same again") > 17);
}

static void broken_disk_stores_all_or_nothing(void **state)
{
    assert_true(fail_at_every_change(*state, FAULT_IO, "cannot be read or written: the disk failed") > 17);
}

static void one_failing_change_stores_all_or_nothing(void **state)
{
    assert_true(fail_at_every_change(*state, FAULT_ONCE, "cannot be ") > 17);
}

/* ---- a process that ends ---------------------------------------------------------------------------------------- */

struct child {
    const char *path;
    struct faulty_vfs *faulty; /* or NULL */
};

static pid_t start_import(const struct child *child)
{
    (void)fflush(NULL);
    pid_t process = fork();
    assert_true(process >= 0);
    if (process == 0) {
        (void)signal(SIGABRT, SIG_DFL);
        if (child->faulty != NULL) {
            faulty_vfs_install(child->faulty);
        }
        struct sp_error err = {0};
        int64_t n_added = 0;
        bool is_good = store_two_tables(sp_arena_open(), child->path, &n_added, &err);
        if (!is_good) {
            (void)fprintf(stderr, "# import: %s\n", err.text);
        }
        _exit(is_good ? 0 : 1);
    }
    return process;
}

static int end_of(pid_t process)
{
    int status = 0;
    assert_true(waitpid(process, &status, 0) == process);
    return status;
}

static void kill_at_every_change(const struct stores_fixture *fixture, enum fault fault)
{
    int64_t n_killed = 0;
    for (int64_t at = 1;; at++) {
        struct faulty_vfs faulty = {.fault = fault, .at = at};
        const struct child child = {.path = fixture->path, .faulty = &faulty};
        struct sp_arena_mark mark = sp_arena_mark(fixture->arena);
        remove_store(fixture);
        int status = end_of(start_import(&child));
        assert_goes_on(fixture, count_stored(fixture));
        sp_arena_rewind(fixture->arena, mark);
        if (WIFEXITED(status)) {
            assert_int_equal(WEXITSTATUS(status), 0);
            break;
        }
        assert_int_equal(WTERMSIG(status), SIGKILL);
        n_killed++;
    }
    assert_true(n_killed > 17);
}

static void killed_import_is_there_or_not(void **state)
{
    kill_at_every_change(*state, FAULT_KILL);
}

static void import_killed_in_a_write_is_there_or_not(void **state)
{
    kill_at_every_change(*state, FAULT_TORN);
}

static void imports_at_once_store_it_once(void **state)
{
    const struct stores_fixture *fixture = *state;
    enum { N_IMPORTS = 5, N_ROUNDS = 7 };
    for (int round = 0; round < N_ROUNDS; round++) {
        const struct child child = {.path = fixture->path};
        pid_t processes[N_IMPORTS];
        remove_store(fixture);
        for (int i = 0; i < N_IMPORTS; i++) {
            processes[i] = start_import(&child);
        }
        for (int i = 0; i < N_IMPORTS; i++) {
            assert_int_equal(end_of(processes[i]), 0);
        }
        assert_int_equal(count_stored(fixture), N_MEASUREMENTS);
    }
}

/* ---- memory that fails ------------------------------------------------------------------------------------------ */

/* SQLite's own allocation, of which the n-th fails. SQLite gives its functions no argument to find this by. */
static struct {
    sqlite3_mem_methods real;
    int64_t n_allocations;
    int64_t fails_at; /* 0: never */
} memory;

static bool fails_now(void)
{
    return ++memory.n_allocations == memory.fails_at;
}

static void *failing_malloc(int size)
{
    return fails_now() ? NULL : memory.real.xMalloc(size);
}

static void *failing_realloc(void *at, int size)
{
    return fails_now() ? NULL : memory.real.xRealloc(at, size);
}

static void failing_allocation_stores_all_or_nothing(void **state)
{
    const struct stores_fixture *fixture = *state;
    int64_t n_failed = 0;
    bool is_reached = true;
    for (int64_t at = 1; is_reached; at += 1 + at / 61) {
        struct sp_error err = {0};
        int64_t n_added = 0;
        struct sp_arena_mark mark = sp_arena_mark(fixture->arena);
        remove_store(fixture);
        memory.n_allocations = 0;
        memory.fails_at = at;
        bool is_good = store_two_tables(fixture->arena, fixture->path, &n_added, &err);
        is_reached = memory.n_allocations >= at;
        memory.fails_at = 0;
        if (!is_good) {
            assert_int_equal(err.kind, SP_ERROR_IO);
            assert_error_contains(&err, "out of memory: close other programs and run the same again");
            n_failed++;
        }
        assert_goes_on(fixture, count_stored(fixture));
        sp_arena_rewind(fixture->arena, mark);
    }
    assert_true(n_failed > 61);
}

#if !defined(__SANITIZE_ADDRESS__) /* whose shadow takes any address space */
struct starved {
    const char *path;
    size_t more_bytes; /* beside what the process has */
};

static size_t address_space(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long n_pages = 0;
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu", &n_pages), 1); /* NOLINT(cert-err34-c): of the kernel */
    assert_int_equal(fclose(file), 0);
    return n_pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* The log grows to many times its size, so that each limit strikes somewhere else. */
static void import_starved(void *data)
{
    const struct starved *starved = data;
    const struct rlimit limit = {.rlim_cur = address_space() + starved->more_bytes, .rlim_max = RLIM_INFINITY};
    if (setrlimit(RLIMIT_AS, &limit) != 0) {
        _exit(61);
    }
    struct sp_error err = {0};
    int64_t n_added = 0;
    struct sp_arena *arena = sp_arena_open();
    bool is_good = store_two_tables(arena, starved->path, &n_added, &err);
    for (int round = 0; round < 17 && is_good; round++) {
        (void)read_two_tables(arena); /* which stores nothing more */
    }
    if (!is_good) {
        (void)fprintf(stderr, "seqplan: %s\n", err.text);
    }
    _exit(is_good ? 0 : (int)err.kind);
}

static void process_without_memory_says_so(void **state)
{
    const struct stores_fixture *fixture = *state;
    int n_failed = 0;
    int n_good = 0;
    for (size_t kib = 64; kib < (64U << 10); kib += 61 + kib / 5) {
        struct starved starved = {.path = fixture->path, .more_bytes = kib << 10};
        char output[4096];
        struct sp_arena_mark mark = sp_arena_mark(fixture->arena);
        remove_store(fixture);
        int code = run_in_child(import_starved, &starved, output, sizeof(output));
        if (code != 0) {
            assert_int_equal(code, SP_ERROR_IO);
            assert_non_null(strstr(output, "out of memory"));
            n_failed++;
        } else {
            n_good++;
        }
        assert_goes_on(fixture, count_stored(fixture));
        sp_arena_rewind(fixture->arena, mark);
    }
    assert_true(n_failed > 3 && n_good > 1);
}
#endif

int main(void)
{
    temp_folders_in_memory();
    /* Before SQLite is first used. */
    if (sqlite3_config(SQLITE_CONFIG_GETMALLOC, &memory.real) != SQLITE_OK) {
        return 1;
    }
    sqlite3_mem_methods failing = memory.real;
    failing.xMalloc = failing_malloc;
    failing.xRealloc = failing_realloc;
    if (sqlite3_config(SQLITE_CONFIG_MALLOC, &failing) != SQLITE_OK || sqlite3_initialize() != SQLITE_OK) {
        return 1;
    }
#define TEST(name) cmocka_unit_test_setup_teardown(name, stores_open_fixture, stores_close_fixture)
    const struct CMUnitTest tests[] = {
        TEST(full_disk_stores_all_or_nothing),
        TEST(broken_disk_stores_all_or_nothing),
        TEST(one_failing_change_stores_all_or_nothing),
        TEST(killed_import_is_there_or_not),
        TEST(import_killed_in_a_write_is_there_or_not),
        TEST(imports_at_once_store_it_once),
        TEST(failing_allocation_stores_all_or_nothing),
#if !defined(__SANITIZE_ADDRESS__)
        TEST(process_without_memory_says_so),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
