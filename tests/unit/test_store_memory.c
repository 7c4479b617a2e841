/* A store that runs out of memory at any allocation says so, and holds what it reported. */
#include "support/stores.h"
#include "support/support.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

/* SQLite's own allocation, of which the n-th fails. SQLite gives its functions no argument to find this by. */
static struct {
    sqlite3_mem_methods real;
    int64_t n_allocations;
    int64_t fails_at; /* 0: never */
    bool is_lasting;
} memory;

static bool fails_now(void)
{
    int64_t n = ++memory.n_allocations;
    return memory.fails_at > 0 && (n == memory.fails_at || (memory.is_lasting && n > memory.fails_at));
}

static void *failing_malloc(int size)
{
    return fails_now() ? NULL : memory.real.xMalloc(size);
}

static void *failing_realloc(void *at, int size)
{
    return fails_now() ? NULL : memory.real.xRealloc(at, size);
}

static void note_report(void *user, int64_t n_done)
{
    int64_t *n_reported = user;
    *n_reported = n_done;
}

static void assert_holds(const struct stores_fixture *fixture, int64_t n_reported)
{
    int64_t n_rows = 0;
    struct sp_error err = {0};
    if (!stores_check(fixture->path, STORES_POINTS, &n_rows, &err)) {
        fail_msg("%s", err.text);
    }
    assert_true(n_rows >= n_reported);
}

/* Returns how often it failed. */
static int64_t fail_at_every_allocation(const struct stores_fixture *fixture, bool is_lasting)
{
    int64_t n_failed = 0;
    memory.is_lasting = is_lasting;
    for (int64_t at = 1;; at += 1 + at / 61) {
        assert_true(remove(fixture->path) == 0 || errno == ENOENT);
        int64_t n_reported = 0;
        struct sp_error err = {0};
        memory.n_allocations = 0;
        memory.fails_at = at;
        bool is_good = stores_fill(&(struct stores_work){.path = fixture->path,
                                                         .n_points = STORES_POINTS,
                                                         .step = 1,
                                                         .report = note_report,
                                                         .user = &n_reported},
                                   &err);
        bool is_reached = memory.n_allocations >= at;
        memory.fails_at = 0;
        if (!is_good) {
            assert_int_equal(err.kind, SP_ERROR_IO);
            assert_error_contains(&err, fixture->path);
            assert_error_contains(&err, "out of memory: close other programs and run the same again");
            n_failed++;
        }
        assert_holds(fixture, n_reported);
        if (!is_reached) {
            return n_failed;
        }
    }
}

static void one_failed_allocation_is_an_error_or_nothing(void **state)
{
    assert_true(fail_at_every_allocation(*state, false) > 61);
}

static void memory_that_is_gone_for_good_is_named(void **state)
{
    assert_true(fail_at_every_allocation(*state, true) > 61);
}

int main(void)
{
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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_failed_allocation_is_an_error_or_nothing, stores_open_fixture,
                                        stores_close_fixture),
        cmocka_unit_test_setup_teardown(memory_that_is_gone_for_good_is_named, stores_open_fixture,
                                        stores_close_fixture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
