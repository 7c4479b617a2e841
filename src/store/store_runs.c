#include "store/store_internal.h"

#include <assert.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <string.h>

/* Columns of SELECT_RUN in store_query.c. */
enum { ID, KEY, PROFILE, VERSION, MACHINE, N_PLANNED, N_ROWS, N_REFUSED, IS_FINISHED, BEGUN_AT, CHANGED_AT, IS_INTACT };

/* The numbers of the row at hand, which is checked first. */
static void read_numbers(struct store_query *query, struct store_run_listing *listing)
{
    store_query_check(query, store_query_column_integer(query, IS_INTACT) == 1);
    listing->id = store_query_column_integer(query, ID);
    listing->n_planned = store_query_column_integer(query, N_PLANNED);
    listing->n_rows = store_query_column_integer(query, N_ROWS);
    listing->n_refused = store_query_column_integer(query, N_REFUSED);
    listing->is_finished = store_query_column_integer(query, IS_FINISHED) != 0;
}

static void read_texts(struct store_query *query, struct sp_arena *arena, struct store_run_listing *listing)
{
    listing->run.key = sp_strdup(arena, store_query_column_text(query, KEY));
    listing->run.profile = sp_strdup(arena, store_query_column_text(query, PROFILE));
    listing->run.version = sp_strdup(arena, store_query_column_text(query, VERSION));
    listing->run.machine = sp_strdup(arena, store_query_column_text(query, MACHINE));
    listing->begun_at = sp_strdup(arena, store_query_column_text(query, BEGUN_AT));
    listing->changed_at = sp_strdup(arena, store_query_column_text(query, CHANGED_AT));
}

bool store_run_read(struct store *store, int64_t id, struct store_run_listing *listing, struct sp_error *err)
{
    struct store_query query = store_query_begin(store, STORE_RUN_BY_ID);
    store_query_integer(&query, 1, id);
    bool is_found = store_query_row(&query);
    if (is_found) {
        read_numbers(&query, listing);
    }
    if (!store_query_end(&query, err)) {
        return false;
    }
    return is_found ||
           store_refuse(store, err, "holds no run of measurements %" PRId64 " (any more): measure again to begin one",
                        id);
}

bool store_run_write(struct store *store, const struct store_run_listing *listing, struct sp_error *err)
{
    const int64_t numbers[] = {listing->id, listing->n_planned, listing->n_rows, listing->n_refused,
                               listing->is_finished ? 1 : 0};
    struct store_query update = store_query_begin(store, STORE_RUN_UPDATE);
    for (size_t i = 0; i < SP_COUNT_OF(numbers); i++) {
        store_query_integer(&update, (int)i + 1, numbers[i]);
    }
    (void)store_query_row(&update);
    if (!store_query_end(&update, err)) {
        return false;
    }
    struct store_query seal = store_query_begin(store, STORE_RUN_SEAL);
    store_query_integer(&seal, 1, listing->id);
    (void)store_query_row(&seal);
    return store_query_end(&seal, err);
}

/* *id is 0 when there is none. */
static bool find_run(struct store *store, const struct store_run *run, int64_t *id, struct sp_error *err)
{
    struct store_query query = store_query_begin(store, STORE_RUN_BY_KEY);
    store_query_text(&query, 1, run->key);
    struct store_run_listing listing = {.id = 0};
    bool is_other = false;
    if (store_query_row(&query)) {
        read_numbers(&query, &listing);
        is_other = strcmp(store_query_column_text(&query, MACHINE), run->machine) != 0;
    }
    *id = listing.id;
    if (!store_query_end(&query, err)) {
        return false;
    }
    return !is_other || store_refuse(store, err,
                                     "run %" PRId64 " has the key '%.80s' but another machine: give another file with "
                                     "--db",
                                     listing.id, run->key);
}

static bool insert_run(struct store *store, const struct store_run *run, int64_t *id, struct sp_error *err)
{
    const char *const members[] = {run->key, run->profile, run->version, run->machine};
    struct store_query query = store_query_begin(store, STORE_RUN_INSERT);
    for (size_t i = 0; i < SP_COUNT_OF(members); i++) {
        store_query_text(&query, (int)i + 1, members[i]);
    }
    (void)store_query_row(&query);
    *id = sqlite3_last_insert_rowid(store->db);
    const struct store_run_listing listing = {.id = *id};
    return store_query_end(&query, err) && store_run_write(store, &listing, err);
}

bool store_run_find(struct store *store, const struct store_run *run, int64_t *id, struct sp_error *err)
{
    return find_run(store, run, id, err) && (*id != 0 || insert_run(store, run, id, err));
}

bool store_run_begin(struct store *store, const struct store_run *run, int64_t *id, struct sp_error *err)
{
    return store_run(store, STORE_BEGIN_WRITE, err) &&
           store_transaction_end(store, store_run_find(store, run, id, err), err);
}

bool store_run_note(struct store *store, int64_t id, int64_t n_planned, bool is_finished, struct sp_error *err)
{
    struct store_run_listing listing = {.id = 0};
    if (!store_run_read(store, id, &listing, err)) {
        return false;
    }
    int64_t planned = n_planned < 0 ? listing.n_planned : n_planned;
    bool is_same = planned == listing.n_planned && (listing.is_finished || !is_finished);
    listing.n_planned = planned;
    listing.is_finished = listing.is_finished || is_finished;
    return is_same || store_run_write(store, &listing, err);
}

bool store_run_progress(struct store *store, int64_t id, int64_t n_planned, bool is_finished, struct sp_error *err)
{
    return store_run(store, STORE_BEGIN_WRITE, err) &&
           store_transaction_end(store, store_run_note(store, id, n_planned, is_finished, err), err);
}

static void make_room(struct sp_arena *arena, struct store_run_listing **runs, size_t count)
{
    enum { FIRST_CAPACITY = 16 };
    bool is_full = count == 0 || (count >= FIRST_CAPACITY && (count & (count - 1)) == 0);
    if (is_full) {
        struct store_run_listing *grown =
            sp_arena_array(arena, count == 0 ? FIRST_CAPACITY : 2 * count, sizeof(**runs));
        if (count > 0) {
            memcpy(grown, *runs, count * sizeof(**runs));
        }
        *runs = grown;
    }
}

bool store_runs_list(struct store *store, struct sp_arena *arena, struct store_run_listing **runs, size_t *n_runs,
                     struct sp_error *err)
{
    *runs = NULL;
    *n_runs = 0;
    struct store_query query = store_query_begin(store, STORE_RUN_LIST);
    while (store_query_row(&query)) {
        make_room(arena, runs, *n_runs);
        struct store_run_listing *listing = &(*runs)[(*n_runs)++];
        read_numbers(&query, listing);
        read_texts(&query, arena, listing);
    }
    return store_query_end(&query, err);
}
