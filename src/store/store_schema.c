/* Whose file it is, of which version, and how it gets to the present one. */
#include "store/store_internal.h"

#include <sqlite3.h>

/* Strict tables. */
#if SQLITE_VERSION_NUMBER < 3037000
#error "SQLite 3.37 or newer is needed"
#endif

/* A text that was released is never changed: files of its version exist. A change of the tables is one more text.
 * Rows stand in a table of their own key and not WITHOUT ROWID, which is for rows much smaller than an answer. */
static const char *const migrations[] = {
    "PRAGMA application_id = 0x7371706c;"
    "CREATE TABLE sweeps ("
    " id INTEGER PRIMARY KEY AUTOINCREMENT,"
    " key TEXT NOT NULL UNIQUE,"
    " command TEXT NOT NULL,"
    " version TEXT NOT NULL,"
    " data_hash TEXT NOT NULL,"
    " n_points INTEGER NOT NULL CHECK (n_points > 0),"
    " n_rows INTEGER NOT NULL CHECK (n_rows BETWEEN 0 AND n_points),"
    " begun_at TEXT NOT NULL,"
    " changed_at TEXT NOT NULL,"
    " checksum INTEGER NOT NULL) STRICT;"
    "CREATE TABLE sweep_rows ("
    " sweep_id INTEGER NOT NULL REFERENCES sweeps (id) ON DELETE CASCADE,"
    " point INTEGER NOT NULL CHECK (point >= 0),"
    " json TEXT NOT NULL,"
    " checksum INTEGER NOT NULL,"
    " PRIMARY KEY (sweep_id, point)) STRICT;",

    "CREATE TABLE measurement_runs ("
    " id INTEGER PRIMARY KEY AUTOINCREMENT,"
    " key TEXT NOT NULL UNIQUE,"
    " profile TEXT NOT NULL,"
    " version TEXT NOT NULL,"
    " machine TEXT NOT NULL,"
    " n_planned INTEGER NOT NULL CHECK (n_planned >= 0),"
    " n_rows INTEGER NOT NULL CHECK (n_rows >= 0),"
    " n_refused INTEGER NOT NULL CHECK (n_refused BETWEEN 0 AND n_rows),"
    " is_finished INTEGER NOT NULL CHECK (is_finished IN (0, 1)),"
    " begun_at TEXT NOT NULL,"
    " changed_at TEXT NOT NULL,"
    " checksum INTEGER NOT NULL) STRICT;"
    "CREATE TABLE measurements ("
    " run_id INTEGER NOT NULL REFERENCES measurement_runs (id) ON DELETE CASCADE,"
    " key TEXT NOT NULL,"
    " position INTEGER NOT NULL CHECK (position >= 0),"
    " is_refused INTEGER NOT NULL CHECK (is_refused IN (0, 1)),"
    " json TEXT NOT NULL,"
    " checksum INTEGER NOT NULL,"
    " PRIMARY KEY (run_id, key)) STRICT;",
};

const struct store_schema store_schema = {migrations, (int)SP_COUNT_OF(migrations)};

/* The integer that a statement without parameters gives. */
static bool read_integer(struct store *store, const char *sql, int64_t *value, struct sp_error *err)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(store->db, sql, -1, &statement, NULL);
    if (code == SQLITE_OK) {
        code = sqlite3_step(statement);
    }
    bool is_good = code == SQLITE_ROW;
    if (is_good) {
        *value = sqlite3_column_int64(statement, 0);
    } else {
        (void)store_fail(store, code, err);
    }
    (void)sqlite3_finalize(statement);
    return is_good;
}

static bool execute(struct store *store, const char *sql, struct sp_error *err)
{
    int code = sqlite3_exec(store->db, sql, NULL, NULL, NULL);
    return code == SQLITE_OK || store_fail(store, code, err);
}

/* What the header of the file says, and whether anything is in it. */
struct identity {
    int64_t application_id;
    int64_t version;
    int64_t n_tables;
};

/* In one transaction: another process may be making the file. */
static bool read_identity(struct store *store, struct identity *identity, struct sp_error *err)
{
    if (!execute(store, "BEGIN", err)) {
        return false;
    }
    bool is_good = read_integer(store, "SELECT count(*) FROM sqlite_schema", &identity->n_tables, err) &&
                   read_integer(store, "PRAGMA application_id", &identity->application_id, err) &&
                   read_integer(store, "PRAGMA user_version", &identity->version, err);
    struct sp_error ignored = {.kind = SP_ERROR_NONE};
    return execute(store, "ROLLBACK", is_good ? err : &ignored) && is_good;
}

bool store_identify(struct store *store, const struct store_schema *schema, int *version, struct sp_error *err)
{
    struct identity found = {.version = 0};
    *version = 0;
    if (!read_identity(store, &found, err)) {
        return false;
    }
    if (found.application_id == 0 && found.version == 0 && found.n_tables == 0) {
        return true;
    }
    if (found.application_id != STORE_APPLICATION_ID) {
        return store_refuse(store, err,
                            "is a SQLite database of another program (application id %lld, expected %d): give another "
                            "file with --db",
                            (long long)found.application_id, STORE_APPLICATION_ID);
    }
    if (found.version > schema->version) {
        return store_refuse(store, err,
                            "is a store of version %lld, and this seqplan knows versions up to %d: use a newer "
                            "seqplan, or give another file with --db",
                            (long long)found.version, schema->version);
    }
    if (found.version < 1) {
        return store_fail(store, SQLITE_CORRUPT, err);
    }
    *version = (int)found.version;
    return true;
}

/* A version below the present one leads up; the same again by another process in the meantime is no step. */
static bool take_step(struct store *store, const struct store_schema *schema, int from, struct sp_error *err)
{
    int64_t version = 0;
    if (!execute(store, "BEGIN IMMEDIATE", err)) {
        return false;
    }
    bool is_good = read_integer(store, "PRAGMA user_version", &version, err);
    if (is_good && version == from) {
        char set_version[64];
        (void)snprintf(set_version, sizeof(set_version), "PRAGMA user_version = %d", from + 1);
        is_good = execute(store, schema->migrations[from], err) && execute(store, set_version, err);
    }
    bool is_committed = is_good && execute(store, "COMMIT", err);
    if (!is_committed && sqlite3_get_autocommit(store->db) == 0) {
        (void)sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
    }
    return is_committed;
}

bool store_migrate(struct store *store, const struct store_schema *schema, struct sp_error *err)
{
    int version = 0;
    if (!store_identify(store, schema, &version, err)) {
        return false;
    }
    for (; version < schema->version; version++) {
        if (!take_step(store, schema, version, err)) {
            return false;
        }
    }
    return true;
}
