/* Stores for tests: one sweep whose rows are known by their point, and one run of measurements that has one for every
 * STORES_MEASURED-th of them, stored before it; so that whatever a file says can be judged. */
#ifndef SEQPLAN_TESTS_STORES_H
#define SEQPLAN_TESTS_STORES_H

#include "store/store.h"

enum { STORES_POINTS = 61, STORES_BATCH = 7, STORES_MEASURED = 6 };

/* The sweep of that many points. */
struct store_sweep stores_sweep(int64_t n_points);
/* The row of a point, of 20 to 9000 bytes. Copies into arena. */
const char *stores_text(struct sp_arena *arena, int64_t point);

/* The run of measurements beside it. */
extern const struct store_run stores_run;

/* Opens the store at `path`, finds the sweep and adds the rows that are missing, STORES_BATCH at a time. Whatever is
 * reported done is passed on: `report` gets how many rows are known to be stored, after each batch. */
struct stores_work {
    const char *path;
    int64_t n_points;
    int64_t first; /* only every step-th point, from here on */
    int64_t step;
    void (*report)(void *user, int64_t n_done); /* or NULL */
    void *user;
};
bool stores_fill(const struct stores_work *work, struct sp_error *err);

/* The same in a process that ends without closing the store, and leaves its log behind. Fails the test when it fails. */
void stores_abandon(const char *path, int64_t n_points);

/* What is found: how many rows. Every row must be that of its point, and done must agree: anything else fails the test.
 * False, with err set, when the store says so. */
bool stores_check(const char *path, int64_t n_points, int64_t *n_rows, struct sp_error *err);
/* Runs SQL on the file with SQLite itself; gives the text of the first row's first column in the arena, or NULL. */
const char *stores_sql(struct sp_arena *arena, const char *path, const char *sql);

/* A new folder with the path of a store that is not there yet: cmocka's setup and teardown. */
struct stores_fixture {
    struct sp_arena *arena;
    char *folder;
    const char *path;
};
int stores_open_fixture(void **state);
int stores_close_fixture(void **state);

#endif
