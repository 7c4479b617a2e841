/* What the files of the store share. */
#ifndef SEQPLAN_STORE_INTERNAL_H
#define SEQPLAN_STORE_INTERNAL_H

#include "store/store.h"

struct sqlite3;
struct sqlite3_stmt;

/* Prepared once, when the store is opened (store_query.c). */
enum store_statement {
    STORE_BEGIN_READ,
    STORE_BEGIN_WRITE,
    STORE_COMMIT,
    STORE_SWEEP_BY_KEY,
    STORE_SWEEP_BY_ID,
    STORE_SWEEP_LIST,
    STORE_SWEEP_INSERT,
    STORE_SWEEP_GROW,
    STORE_SWEEP_SEAL,
    STORE_SWEEP_DELETE,
    STORE_ROW_INSERT,
    STORE_ROW_SELECT,
    STORE_RUN_BY_KEY,
    STORE_RUN_BY_ID,
    STORE_RUN_LIST,
    STORE_RUN_INSERT,
    STORE_RUN_UPDATE,
    STORE_RUN_SEAL,
    STORE_MEASUREMENT_BY_KEY,
    STORE_MEASUREMENT_INSERT,
    STORE_MEASUREMENT_REPLACE,
    STORE_MEASUREMENT_SELECT,
    STORE_N_STATEMENTS
};

struct store {
    const char *path;
    const char *remark; /* or NULL */
    int busy_ms;        /* how long to wait for another writer */
    struct sqlite3 *db;
    struct sqlite3_stmt *statements[STORE_N_STATEMENTS];
};

enum { STORE_BUSY_MS = 10000, STORE_APPLICATION_ID = 0x7371706c /* "sqpl" in the file's header */ };

/* ---- errors (store_failure.c) ----------------------------------------------------------------------------------- */

/* Words a result code of SQLite, with advice. Returns false. */
bool store_fail(const struct store *store, int code, struct sp_error *err);
/* SP_ERROR_IO with the path before the text. Returns false. */
bool store_refuse(const struct store *store, struct sp_error *err, const char *format, ...) SP_PRINTF(3, 4);

/* ---- statements (store_query.c) --------------------------------------------------------------------------------- */

bool store_prepare(struct store *store, struct sp_error *err) SP_MUST_CHECK;
void store_finalize(struct store *store);

/* A statement under way. The first failure sticks, and store_query_end() reports it. */
struct store_query {
    struct store *store;
    struct sqlite3_stmt *statement;
    int code;
};
struct store_query store_query_begin(struct store *store, enum store_statement which);
void store_query_integer(struct store_query *query, int at, int64_t value);
void store_query_text(struct store_query *query, int at, const char *text); /* borrowed until the end */
/* Takes a step: true when there is a row. */
bool store_query_row(struct store_query *query);
int64_t store_query_column_integer(struct store_query *query, int column);
/* Never NULL: where there is no text the file is damaged, and the query fails. Valid until the next step. */
const char *store_query_column_text(struct store_query *query, int column);
/* Marks the file as damaged when `is_intact` is false. */
void store_query_check(struct store_query *query, bool is_intact);
bool store_query_end(struct store_query *query, struct sp_error *err) SP_MUST_CHECK;
/* Runs a statement that has neither parameters nor rows. */
bool store_run(struct store *store, enum store_statement which, struct sp_error *err) SP_MUST_CHECK;
/* Ends a transaction: commits when is_good, else (and when the commit fails) rolls back. Returns whether it is
 * committed. */
bool store_transaction_end(struct store *store, bool is_good, struct sp_error *err) SP_MUST_CHECK;

/* ---- the layout of the file (store_schema.c) -------------------------------------------------------------------- */

/* migrations[i] leads from version i to i + 1. */
struct store_schema {
    const char *const *migrations;
    int version; /* how many there are */
};
extern const struct store_schema store_schema;
/* Is it ours and not newer, or empty? Changes nothing. */
bool store_identify(struct store *store, const struct store_schema *schema, int *version,
                    struct sp_error *err) SP_MUST_CHECK;
/* Each migration in a transaction of its own; another process may do the same at the same time. */
bool store_migrate(struct store *store, const struct store_schema *schema, struct sp_error *err) SP_MUST_CHECK;

/* ---- paths (store_path.c) --------------------------------------------------------------------------------------- */

/* Makes the folders above the file. */
bool store_make_folders(struct sp_arena *arena, const char *path, struct sp_error *err) SP_MUST_CHECK;
/* A name for SQLite: no path has a meaning of its own (":memory:"). */
const char *store_file_name(struct sp_arena *arena, const char *path);
/* The same for a file on read-only media, whose log is not there: "file:...?immutable=1". */
const char *store_immutable_name(struct sp_arena *arena, const char *path);

/* ---- checksums (store_checksum.c) ------------------------------------------------------------------------------- */

/* Adds the SQL function seqplan_check(...). Returns a result code. */
int store_add_checksum(struct sqlite3 *db);

/* ---- sweeps (store_sweeps.c) ------------------------------------------------------------------------------------ */

/* Reads the sweep of an id, inside a transaction; only the numbers of the listing are set. An unknown id is an error. */
bool store_sweep_read(struct store *store, int64_t id, struct store_listing *listing,
                      struct sp_error *err) SP_MUST_CHECK;
/* Counts rows that were added to a sweep. */
bool store_sweep_grow(struct store *store, int64_t id, int64_t n_added, struct sp_error *err) SP_MUST_CHECK;

/* ---- runs of measurements (store_runs.c) ------------------------------------------------------------------------ */

/* Reads the run of an id, inside a transaction; only the numbers of the listing are set. An unknown id is an error. */
bool store_run_read(struct store *store, int64_t id, struct store_run_listing *listing,
                    struct sp_error *err) SP_MUST_CHECK;
/* The run of that key, begun where there is none, inside a transaction. */
bool store_run_find(struct store *store, const struct store_run *run, int64_t *id, struct sp_error *err) SP_MUST_CHECK;
/* What store_run_progress() says, inside a transaction. */
bool store_run_note(struct store *store, int64_t id, int64_t n_planned, bool is_finished,
                    struct sp_error *err) SP_MUST_CHECK;
/* Writes the numbers of the listing, and when. */
bool store_run_write(struct store *store, const struct store_run_listing *listing, struct sp_error *err) SP_MUST_CHECK;

#endif
