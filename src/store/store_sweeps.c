#include "store/store_internal.h"

#include <assert.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <string.h>

/* Columns of SELECT_SWEEP in store_query.c. */
enum { ID, KEY, COMMAND, VERSION, DATA_HASH, N_POINTS, N_ROWS, BEGUN_AT, CHANGED_AT, IS_INTACT };

/* The numbers of the row at hand, which is checked first. */
static void read_numbers(struct store_query *query, struct store_listing *listing)
{
    store_query_check(query, store_query_column_integer(query, IS_INTACT) == 1);
    listing->id = store_query_column_integer(query, ID);
    listing->sweep.n_points = store_query_column_integer(query, N_POINTS);
    listing->n_rows = store_query_column_integer(query, N_ROWS);
}

static void read_texts(struct store_query *query, struct sp_arena *arena, struct store_listing *listing)
{
    listing->sweep.key = sp_strdup(arena, store_query_column_text(query, KEY));
    listing->sweep.command = sp_strdup(arena, store_query_column_text(query, COMMAND));
    listing->sweep.version = sp_strdup(arena, store_query_column_text(query, VERSION));
    listing->sweep.data_hash = sp_strdup(arena, store_query_column_text(query, DATA_HASH));
    listing->begun_at = sp_strdup(arena, store_query_column_text(query, BEGUN_AT));
    listing->changed_at = sp_strdup(arena, store_query_column_text(query, CHANGED_AT));
}

bool store_sweep_read(struct store *store, int64_t id, struct store_listing *listing, struct sp_error *err)
{
    struct store_query query = store_query_begin(store, STORE_SWEEP_BY_ID);
    store_query_integer(&query, 1, id);
    bool is_found = store_query_row(&query);
    if (is_found) {
        read_numbers(&query, listing);
    }
    if (!store_query_end(&query, err)) {
        return false;
    }
    return is_found ||
           store_refuse(store, err, "holds no sweep %" PRId64 " (any more): run the same again to begin it anew", id);
}

bool store_sweep_grow(struct store *store, int64_t id, int64_t n_added, struct sp_error *err)
{
    struct store_query grow = store_query_begin(store, STORE_SWEEP_GROW);
    store_query_integer(&grow, 1, id);
    store_query_integer(&grow, 2, n_added);
    (void)store_query_row(&grow);
    if (!store_query_end(&grow, err)) {
        return false;
    }
    struct store_query seal = store_query_begin(store, STORE_SWEEP_SEAL);
    store_query_integer(&seal, 1, id);
    (void)store_query_row(&seal);
    return store_query_end(&seal, err);
}

static bool is_same(struct store_query *query, const struct store_sweep *sweep)
{
    return strcmp(store_query_column_text(query, COMMAND), sweep->command) == 0 &&
           strcmp(store_query_column_text(query, VERSION), sweep->version) == 0 &&
           strcmp(store_query_column_text(query, DATA_HASH), sweep->data_hash) == 0 &&
           store_query_column_integer(query, N_POINTS) == sweep->n_points;
}

/* *id is 0 when there is none. */
static bool find_sweep(struct store *store, const struct store_sweep *sweep, int64_t *id, struct sp_error *err)
{
    struct store_query query = store_query_begin(store, STORE_SWEEP_BY_KEY);
    store_query_text(&query, 1, sweep->key);
    struct store_listing listing = {.id = 0};
    bool is_other = false;
    if (store_query_row(&query)) {
        read_numbers(&query, &listing);
        is_other = !is_same(&query, sweep);
    }
    *id = listing.id;
    if (!store_query_end(&query, err)) {
        return false;
    }
    return !is_other ||
           store_refuse(store, err,
                        "sweep %" PRId64 " has the key '%.80s' but another command, version, data or "
                        "number of points (%" PRId64 ", expected %" PRId64 "): give another file with --db",
                        listing.id, sweep->key, listing.sweep.n_points, sweep->n_points);
}

static bool insert_sweep(struct store *store, const struct store_sweep *sweep, int64_t *id, struct sp_error *err)
{
    const char *const members[] = {sweep->key, sweep->command, sweep->version, sweep->data_hash};
    struct store_query query = store_query_begin(store, STORE_SWEEP_INSERT);
    int at = 1;
    for (size_t i = 0; i < SP_COUNT_OF(members); i++) {
        store_query_text(&query, at++, members[i]);
    }
    store_query_integer(&query, at, sweep->n_points);
    (void)store_query_row(&query);
    *id = sqlite3_last_insert_rowid(store->db);
    return store_query_end(&query, err) && store_sweep_grow(store, *id, 0, err);
}

bool store_sweep_begin(struct store *store, const struct store_sweep *sweep, int64_t *id, struct sp_error *err)
{
    assert(sweep->n_points > 0);
    /* Most often it is there: then nobody has to wait. */
    bool is_good = find_sweep(store, sweep, id, err);
    if (!is_good || *id != 0) {
        return is_good;
    }
    if (!store_run(store, STORE_BEGIN_WRITE, err)) {
        return false;
    }
    is_good = find_sweep(store, sweep, id, err);
    if (is_good && *id == 0) {
        is_good = insert_sweep(store, sweep, id, err);
    }
    return store_transaction_end(store, is_good, err);
}

static void add_listing(struct sp_arena *arena, struct store_listing **sweeps, size_t count)
{
    enum { FIRST_CAPACITY = 16 };
    bool is_full = count == 0 || (count >= FIRST_CAPACITY && (count & (count - 1)) == 0);
    if (is_full) {
        struct store_listing *grown = sp_arena_array(arena, count == 0 ? FIRST_CAPACITY : 2 * count, sizeof(**sweeps));
        if (count > 0) {
            memcpy(grown, *sweeps, count * sizeof(**sweeps));
        }
        *sweeps = grown;
    }
}

bool store_sweeps_list(struct store *store, struct sp_arena *arena, struct store_listing **sweeps, size_t *n_sweeps,
                       struct sp_error *err)
{
    *sweeps = NULL;
    *n_sweeps = 0;
    struct store_query query = store_query_begin(store, STORE_SWEEP_LIST);
    while (store_query_row(&query)) {
        add_listing(arena, sweeps, *n_sweeps);
        struct store_listing *listing = &(*sweeps)[(*n_sweeps)++];
        read_numbers(&query, listing);
        read_texts(&query, arena, listing);
    }
    return store_query_end(&query, err);
}

static bool delete_sweep(struct store *store, int64_t id, struct sp_error *err)
{
    struct store_listing listing = {.id = 0};
    if (!store_sweep_read(store, id, &listing, err)) {
        return false;
    }
    struct store_query query = store_query_begin(store, STORE_SWEEP_DELETE); /* its rows go with it */
    store_query_integer(&query, 1, id);
    (void)store_query_row(&query);
    return store_query_end(&query, err);
}

bool store_sweep_delete(struct store *store, int64_t id, struct sp_error *err)
{
    return store_run(store, STORE_BEGIN_WRITE, err) && store_transaction_end(store, delete_sweep(store, id, err), err);
}
