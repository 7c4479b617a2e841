#include "store/store_internal.h"

#include <assert.h>
#include <inttypes.h>
#include <sqlite3.h>

static bool insert_row(struct store *store, int64_t sweep_id, const struct store_row *row, int64_t *n_added,
                       struct sp_error *err)
{
    struct store_query query = store_query_begin(store, STORE_ROW_INSERT);
    store_query_integer(&query, 1, sweep_id);
    store_query_integer(&query, 2, row->point);
    store_query_text(&query, 3, row->json);
    (void)store_query_row(&query);
    bool is_good = store_query_end(&query, err);
    if (is_good) {
        *n_added += sqlite3_changes(store->db); /* 0 where the row was there */
    }
    return is_good;
}

static bool add_rows(struct store *store, int64_t sweep_id, const struct store_row *rows, size_t n_rows,
                     struct sp_error *err)
{
    struct store_listing listing = {.id = 0};
    if (!store_sweep_read(store, sweep_id, &listing, err)) {
        return false;
    }
    int64_t n_added = 0;
    for (size_t i = 0; i < n_rows; i++) {
        assert(rows[i].point >= 0 && rows[i].point < listing.sweep.n_points);
        if (!insert_row(store, sweep_id, &rows[i], &n_added, err)) {
            return false;
        }
    }
    return n_added == 0 || store_sweep_grow(store, sweep_id, n_added, err);
}

bool store_rows_add(struct store *store, int64_t sweep_id, const struct store_row *rows, size_t n_rows,
                    struct sp_error *err)
{
    return n_rows == 0 || (store_run(store, STORE_BEGIN_WRITE, err) &&
                           store_transaction_end(store, add_rows(store, sweep_id, rows, n_rows, err), err));
}

/* Visits, and fails where a row is damaged, out of place, or missing. */
static bool visit_rows(struct store *store, const struct store_listing *listing, store_visit visit, void *user,
                       struct sp_error *err)
{
    struct store_query query = store_query_begin(store, STORE_ROW_SELECT);
    store_query_integer(&query, 1, listing->id);
    int64_t n_seen = 0;
    int64_t previous = -1;
    bool is_good = true;
    while (is_good && store_query_row(&query)) {
        int64_t point = store_query_column_integer(&query, 0);
        const char *json = store_query_column_text(&query, 1);
        bool is_intact = store_query_column_integer(&query, 2) == 1;
        store_query_check(&query, is_intact && point > previous && point < listing->sweep.n_points);
        previous = point;
        n_seen++;
        is_good = query.code == SQLITE_ROW && visit(user, point, json, err);
    }
    if (query.code == SQLITE_DONE && n_seen != listing->n_rows) {
        query.code = SQLITE_CORRUPT;
    }
    return store_query_end(&query, err) && is_good; /* where the visitor failed, it has set the error */
}

/* In one transaction: the number of rows and the rows are of one moment. */
static bool read_rows(struct store *store, int64_t sweep_id, struct store_listing *listing, struct sp_error *err)
{
    return store_run(store, STORE_BEGIN_READ, err) &&
           (store_sweep_read(store, sweep_id, listing, err) || store_transaction_end(store, false, err));
}

bool store_rows_visit(struct store *store, int64_t sweep_id, store_visit visit, void *user, struct sp_error *err)
{
    struct store_listing listing = {.id = 0};
    return read_rows(store, sweep_id, &listing, err) &&
           store_transaction_end(store, visit_rows(store, &listing, visit, user, err), err);
}

static bool mark_done(void *user, int64_t point, const char *json, struct sp_error *err)
{
    (void)json;
    (void)err;
    bool *done = user;
    done[point] = true;
    return true;
}

bool store_rows_done(struct store *store, int64_t sweep_id, bool *done, size_t n_points, struct sp_error *err)
{
    struct store_listing listing = {.id = 0};
    if (!read_rows(store, sweep_id, &listing, err)) {
        return false;
    }
    assert((size_t)listing.sweep.n_points == n_points);
    for (size_t i = 0; i < n_points; i++) {
        done[i] = false;
    }
    return store_transaction_end(store, visit_rows(store, &listing, mark_done, done, err), err);
}
