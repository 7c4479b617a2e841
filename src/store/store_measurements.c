#include "store/store_internal.h"

#include <sqlite3.h>

/* Columns of SELECT_MEASUREMENT in store_query.c. */
enum { KEY, POSITION, IS_REFUSED, JSON, IS_INTACT };

/* What is stored of a key. */
struct stored {
    bool is_there;
    bool is_refused;
    int64_t position;
};

static bool find_measurement(struct store *store, int64_t run_id, const char *key, struct stored *stored,
                             struct sp_error *err)
{
    struct store_query query = store_query_begin(store, STORE_MEASUREMENT_BY_KEY);
    store_query_integer(&query, 1, run_id);
    store_query_text(&query, 2, key);
    *stored = (struct stored){.is_there = store_query_row(&query)};
    if (stored->is_there) {
        stored->is_refused = store_query_column_integer(&query, IS_REFUSED) != 0;
        stored->position = store_query_column_integer(&query, POSITION);
        store_query_check(&query, store_query_column_integer(&query, IS_INTACT) == 1);
    }
    return store_query_end(&query, err);
}

static bool put_measurement(struct store *store, const struct store_run_listing *run,
                            const struct store_measurement *row, const struct stored *stored, struct sp_error *err)
{
    struct store_query query =
        store_query_begin(store, stored->is_there ? STORE_MEASUREMENT_REPLACE : STORE_MEASUREMENT_INSERT);
    int at = 0;
    store_query_integer(&query, ++at, run->id);
    store_query_text(&query, ++at, row->key);
    store_query_integer(&query, ++at, stored->is_there ? stored->position : run->n_rows);
    store_query_integer(&query, ++at, row->is_refused ? 1 : 0);
    store_query_text(&query, ++at, row->json);
    (void)store_query_row(&query);
    return store_query_end(&query, err);
}

/* Counts the row in the run. */
static bool add_row(struct store *store, struct store_run_listing *run, const struct store_measurement *row,
                    int64_t *n_added, struct sp_error *err)
{
    struct stored stored;
    if (!find_measurement(store, run->id, row->key, &stored, err)) {
        return false;
    }
    if (stored.is_there && !stored.is_refused) {
        return true;
    }
    if (!put_measurement(store, run, row, &stored, err)) {
        return false;
    }
    bool is_news = !stored.is_there || !row->is_refused; /* a refusal that is repeated is none */
    *n_added += is_news ? 1 : 0;
    run->n_refused += (row->is_refused ? 1 : 0) - (stored.is_there ? 1 : 0);
    run->n_rows += stored.is_there ? 0 : 1;
    return true;
}

/* Inside a transaction. */
static bool add_rows(struct store *store, struct store_batch *batch, struct sp_error *err)
{
    struct store_run_listing run = {.id = 0};
    if (!store_run_read(store, batch->run_id, &run, err)) {
        return false;
    }
    for (size_t i = 0; i < batch->n_rows; i++) {
        if (!add_row(store, &run, &batch->rows[i], &batch->n_added, err)) {
            return false;
        }
    }
    return batch->n_added == 0 || store_run_write(store, &run, err);
}

bool store_measurements_add(struct store *store, struct store_batch *batch, struct sp_error *err)
{
    batch->n_added = 0;
    return store_run(store, STORE_BEGIN_WRITE, err) && store_transaction_end(store, add_rows(store, batch, err), err);
}

static bool import_run(struct store *store, struct store_import *import, struct sp_error *err)
{
    struct store_batch batch = {.rows = import->rows, .n_rows = import->n_rows};
    bool is_good = store_run_find(store, &import->run, &batch.run_id, err) && add_rows(store, &batch, err) &&
                   store_run_note(store, batch.run_id, import->n_planned, import->is_finished, err);
    import->id = batch.run_id;
    import->n_added = batch.n_added;
    return is_good;
}

static bool import_runs(struct store *store, struct store_import *imports, size_t n_imports, struct sp_error *err)
{
    for (size_t i = 0; i < n_imports; i++) {
        if (!import_run(store, &imports[i], err)) {
            return false;
        }
    }
    return true;
}

bool store_runs_import(struct store *store, struct store_import *imports, size_t n_imports, struct sp_error *err)
{
    return store_run(store, STORE_BEGIN_WRITE, err) &&
           store_transaction_end(store, import_runs(store, imports, n_imports, err), err);
}

/* Visits, and fails where a row is damaged, out of place, or missing. */
static bool visit_rows(struct store *store, const struct store_run_listing *run, store_measurement_visit visit,
                       void *user, struct sp_error *err)
{
    struct store_query query = store_query_begin(store, STORE_MEASUREMENT_SELECT);
    store_query_integer(&query, 1, run->id);
    int64_t n_seen = 0;
    int64_t n_refused = 0;
    bool is_good = true;
    while (is_good && store_query_row(&query)) {
        const struct store_measurement row = {.key = store_query_column_text(&query, KEY),
                                              .is_refused = store_query_column_integer(&query, IS_REFUSED) != 0,
                                              .json = store_query_column_text(&query, JSON)};
        bool is_intact = store_query_column_integer(&query, IS_INTACT) == 1;
        store_query_check(&query, is_intact && store_query_column_integer(&query, POSITION) == n_seen);
        n_seen++;
        n_refused += row.is_refused ? 1 : 0;
        is_good = query.code == SQLITE_ROW && visit(user, &row, err);
    }
    if (query.code == SQLITE_DONE && (n_seen != run->n_rows || n_refused != run->n_refused)) {
        query.code = SQLITE_CORRUPT;
    }
    return store_query_end(&query, err) && is_good; /* where the visitor failed, it has set the error */
}

bool store_measurements_visit(struct store *store, int64_t run_id, store_measurement_visit visit, void *user,
                              struct sp_error *err)
{
    struct store_run_listing run = {.id = 0};
    if (!store_run(store, STORE_BEGIN_READ, err)) {
        return false;
    }
    bool is_good = store_run_read(store, run_id, &run, err) && visit_rows(store, &run, visit, user, err);
    return store_transaction_end(store, is_good, err);
}
