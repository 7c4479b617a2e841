/* Prepared statements: every SQL text that reads or writes rows stands here, and nothing of the user's goes into one. */
#include "store/store_internal.h"

#include <assert.h>
#include <sqlite3.h>

#define CHECKED_OF_SWEEP "id, key, command, version, data_hash, n_points, n_rows, begun_at, changed_at"
#define SELECT_SWEEP "SELECT " CHECKED_OF_SWEEP ", checksum = seqplan_check(" CHECKED_OF_SWEEP ") FROM sweeps "
#define CHECKED_OF_RUN                                                                                                 \
    "id, key, profile, version, machine, n_planned, n_rows, n_refused, is_finished, begun_at, changed_at"
#define SELECT_RUN "SELECT " CHECKED_OF_RUN ", checksum = seqplan_check(" CHECKED_OF_RUN ") FROM measurement_runs "
#define CHECKED_OF_MEASUREMENT "run_id, key, position, is_refused, json"
#define SELECT_MEASUREMENT                                                                                             \
    "SELECT key, position, is_refused, json, checksum = seqplan_check(" CHECKED_OF_MEASUREMENT ") FROM measurements "
/* Sweeps and runs of measurements are numbered together, so that a number names one thing; none is used twice. */
#define NEXT_ID                                                                                                        \
    "1 + max(coalesce((SELECT max(seq) FROM sqlite_sequence), 0), coalesce((SELECT max(id) FROM sweeps), 0), "         \
    "coalesce((SELECT max(id) FROM measurement_runs), 0))"
#define NOW "strftime('%Y-%m-%dT%H:%M:%SZ', 'now')"

static const char *const texts[STORE_N_STATEMENTS] = {
    [STORE_BEGIN_READ] = "BEGIN",
    [STORE_BEGIN_WRITE] = "BEGIN IMMEDIATE",
    [STORE_COMMIT] = "COMMIT",
    [STORE_SWEEP_BY_KEY] = SELECT_SWEEP "WHERE key = ?1",
    [STORE_SWEEP_BY_ID] = SELECT_SWEEP "WHERE id = ?1",
    [STORE_SWEEP_LIST] = SELECT_SWEEP "ORDER BY id",
    [STORE_SWEEP_INSERT] = "INSERT INTO sweeps (id, key, command, version, data_hash, n_points, n_rows, begun_at, "
                           "changed_at, checksum) VALUES (" NEXT_ID ", ?1, ?2, ?3, ?4, ?5, 0, " NOW ", " NOW ", 0)",
    [STORE_SWEEP_GROW] = "UPDATE sweeps SET n_rows = n_rows + ?2, changed_at = " NOW " WHERE id = ?1",
    [STORE_SWEEP_SEAL] = "UPDATE sweeps SET checksum = seqplan_check(" CHECKED_OF_SWEEP ") WHERE id = ?1",
    [STORE_SWEEP_DELETE] = "DELETE FROM sweeps WHERE id = ?1",
    [STORE_ROW_INSERT] = "INSERT INTO sweep_rows (sweep_id, point, json, checksum) VALUES (?1, ?2, ?3, "
                         "seqplan_check(?1, ?2, ?3)) ON CONFLICT DO NOTHING",
    [STORE_ROW_SELECT] = "SELECT point, json, checksum = seqplan_check(sweep_id, point, json) FROM sweep_rows "
                         "WHERE sweep_id = ?1 ORDER BY point",
    [STORE_RUN_BY_KEY] = SELECT_RUN "WHERE key = ?1",
    [STORE_RUN_BY_ID] = SELECT_RUN "WHERE id = ?1",
    [STORE_RUN_LIST] = SELECT_RUN "ORDER BY id",
    [STORE_RUN_INSERT] = "INSERT INTO measurement_runs (id, key, profile, version, machine, n_planned, n_rows, "
                         "n_refused, is_finished, begun_at, changed_at, checksum) VALUES (" NEXT_ID
                         ", ?1, ?2, ?3, ?4, 0, 0, 0, 0, " NOW ", " NOW ", 0)",
    [STORE_RUN_UPDATE] = "UPDATE measurement_runs SET n_planned = ?2, n_rows = ?3, n_refused = ?4, is_finished = ?5, "
                         "changed_at = " NOW " WHERE id = ?1",
    [STORE_RUN_SEAL] = "UPDATE measurement_runs SET checksum = seqplan_check(" CHECKED_OF_RUN ") WHERE id = ?1",
    [STORE_MEASUREMENT_BY_KEY] = SELECT_MEASUREMENT "WHERE run_id = ?1 AND key = ?2",
    [STORE_MEASUREMENT_INSERT] = "INSERT INTO measurements (" CHECKED_OF_MEASUREMENT
                                 ", checksum) VALUES (?1, ?2, ?3, ?4, ?5, seqplan_check(?1, ?2, ?3, ?4, ?5))",
    [STORE_MEASUREMENT_REPLACE] = "UPDATE measurements SET is_refused = ?4, json = ?5, checksum = seqplan_check(?1, "
                                  "?2, ?3, ?4, ?5) WHERE run_id = ?1 AND key = ?2 AND position = ?3",
    [STORE_MEASUREMENT_SELECT] = SELECT_MEASUREMENT "WHERE run_id = ?1 ORDER BY position",
};

bool store_prepare(struct store *store, struct sp_error *err)
{
    for (int i = 0; i < STORE_N_STATEMENTS; i++) {
        int code = sqlite3_prepare_v3(store->db, texts[i], -1, SQLITE_PREPARE_PERSISTENT, &store->statements[i], NULL);
        if (code != SQLITE_OK) {
            return store_fail(store, code, err);
        }
    }
    return true;
}

void store_finalize(struct store *store)
{
    for (int i = 0; i < STORE_N_STATEMENTS; i++) {
        (void)sqlite3_finalize(store->statements[i]); /* its code is that of the last step, reported then */
        store->statements[i] = NULL;
    }
}

struct store_query store_query_begin(struct store *store, enum store_statement which)
{
    return (struct store_query){.store = store, .statement = store->statements[which], .code = SQLITE_OK};
}

void store_query_integer(struct store_query *query, int at, int64_t value)
{
    if (query->code == SQLITE_OK) {
        query->code = sqlite3_bind_int64(query->statement, at, value);
    }
}

void store_query_text(struct store_query *query, int at, const char *text)
{
    if (query->code == SQLITE_OK) {
        query->code = sqlite3_bind_text(query->statement, at, text, -1, SQLITE_STATIC);
    }
}

bool store_query_row(struct store_query *query)
{
    if (query->code == SQLITE_OK || query->code == SQLITE_ROW) {
        query->code = sqlite3_step(query->statement);
    }
    return query->code == SQLITE_ROW;
}

int64_t store_query_column_integer(struct store_query *query, int column)
{
    return sqlite3_column_int64(query->statement, column);
}

const char *store_query_column_text(struct store_query *query, int column)
{
    const unsigned char *text = sqlite3_column_text(query->statement, column);
    if (text == NULL) {
        bool is_memory = sqlite3_errcode(query->store->db) == SQLITE_NOMEM;
        query->code = is_memory ? SQLITE_NOMEM : SQLITE_CORRUPT;
        return "";
    }
    return (const char *)text;
}

void store_query_check(struct store_query *query, bool is_intact)
{
    if (!is_intact && query->code == SQLITE_ROW) {
        query->code = SQLITE_CORRUPT;
    }
}

bool store_query_end(struct store_query *query, struct sp_error *err)
{
    bool is_good = query->code == SQLITE_OK || query->code == SQLITE_ROW || query->code == SQLITE_DONE;
    if (!is_good) {
        (void)store_fail(query->store, query->code, err);
    }
    (void)sqlite3_reset(query->statement); /* its code is that of the last step */
    (void)sqlite3_clear_bindings(query->statement);
    return is_good;
}

bool store_run(struct store *store, enum store_statement which, struct sp_error *err)
{
    struct store_query query = store_query_begin(store, which);
    (void)store_query_row(&query);
    return store_query_end(&query, err);
}

bool store_transaction_end(struct store *store, bool is_good, struct sp_error *err)
{
    bool is_committed = is_good && store_run(store, STORE_COMMIT, err);
    /* After a full disk or a failed write SQLite may have rolled back by itself. */
    if (!is_committed && sqlite3_get_autocommit(store->db) == 0) {
        (void)sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
    }
    return is_committed;
}
