/* The rows of a sweep in the store: found again by the next run of the same command, and added in batches. */
#include "cmd/sweep.h"

/* A transaction waits for the disk, so rows go into one together: as many as come in this time, at most so many. */
static const double BATCH_S = 1.0;
enum { BATCH_ROWS = 256 };

struct sweep_store {
    struct store *store;
    int64_t id;             /* of the sweep */
    struct sp_arena *texts; /* of the batch */
    struct store_row batch[BATCH_ROWS];
    size_t n_batch;
    double stored_s; /* when the last batch was */
};

static bool begin(struct sweep_store *store, const struct sweep_rows *rows, struct sp_error *err)
{
    struct store_sweep identity;
    return sweep_identify(rows->sweep, rows->points, &identity, err) &&
           store_sweep_begin(store->store, &identity, &store->id, err) &&
           store_rows_done(store->store, store->id, rows->has, (size_t)rows->points->n_points, err);
}

bool sweep_store_open(struct sweep_rows *rows, struct sp_error *err)
{
    struct sp_arena *arena = rows->sweep->context->arena;
    struct sweep_store *store = sp_arena_alloc(arena, sizeof(*store));
    if (!store_open(arena, rows->sweep->options->db, &store->store, err)) {
        return false;
    }
    if (store_remark(store->store) != NULL) {
        (void)fprintf(stderr, "seqplan: %s\n", store_remark(store->store));
    }
    if (!begin(store, rows, err)) {
        store_close(store->store);
        return false;
    }
    store->texts = sp_arena_open();
    store->stored_s = progress_clock_s();
    rows->store = store;
    return true;
}

bool sweep_store_flush(struct sweep_store *store, struct sp_error *err)
{
    bool is_good = store->n_batch == 0 || store_rows_add(store->store, store->id, store->batch, store->n_batch, err);
    store->n_batch = 0;
    sp_arena_close(store->texts);
    store->texts = sp_arena_open();
    store->stored_s = progress_clock_s();
    return is_good;
}

bool sweep_store_add(struct sweep_store *store, int64_t point, const char *json, struct sp_error *err)
{
    store->batch[store->n_batch++] = (struct store_row){.point = point, .json = sp_strdup(store->texts, json)};
    bool is_due = store->n_batch == BATCH_ROWS || progress_clock_s() - store->stored_s >= BATCH_S;
    return !is_due || sweep_store_flush(store, err);
}

bool sweep_store_visit(struct sweep_store *store, store_visit visit, void *user, struct sp_error *err)
{
    return store_rows_visit(store->store, store->id, visit, user, err);
}

void sweep_store_close(struct sweep_store *store)
{
    sp_arena_close(store->texts);
    store_close(store->store);
}
