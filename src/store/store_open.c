#include "store/store_internal.h"

#include <errno.h>
#include <sqlite3.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PRIMARY_CODE = 0xff };

/* Of the connection, not of the file. A commit waits for the disk; what a damaged file says is doubted. */
static const char settings[] = "PRAGMA foreign_keys = ON;"
                               "PRAGMA synchronous = FULL;"
                               "PRAGMA cell_size_check = ON;"
                               "PRAGMA trusted_schema = OFF;";

/* The number or name that a pragma answers, as a text: is it `expected`? Returns a result code. */
static int ask(struct store *store, const char *sql, const char *expected, bool *is_so)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(store->db, sql, -1, &statement, NULL);
    if (code == SQLITE_OK) {
        code = sqlite3_step(statement);
    }
    if (code == SQLITE_ROW) {
        const unsigned char *answer = sqlite3_column_text(statement, 0);
        *is_so = answer != NULL && strcmp((const char *)answer, expected) == 0;
    }
    (void)sqlite3_finalize(statement);
    return code == SQLITE_ROW ? SQLITE_OK : code;
}

/* SQLite does not wait here where two connections would wait for each other. */
static int switch_journal(struct store *store, bool *has_log)
{
    enum { PAUSE_MS = 20, NS_PER_MS = 1000000 };
    int code = sqlite3_busy_timeout(store->db, 0);
    for (int waited_ms = 0; waited_ms <= store->busy_ms; waited_ms += PAUSE_MS) {
        code = ask(store, "PRAGMA journal_mode = WAL", "wal", has_log);
        if ((code & PRIMARY_CODE) != SQLITE_BUSY) {
            break;
        }
        const struct timespec pause = {.tv_nsec = (long)PAUSE_MS * NS_PER_MS};
        (void)nanosleep(&pause, NULL);
    }
    int restored = sqlite3_busy_timeout(store->db, store->busy_ms);
    return code == SQLITE_OK ? restored : code;
}

/* Without a write-ahead log nothing is lost either, but readers and writers wait for each other. */
static bool use_log(struct sp_arena *arena, struct store *store, struct sp_error *err)
{
    bool has_log = false;
    int code = ask(store, "PRAGMA journal_mode", "wal", &has_log);
    if (code == SQLITE_OK && !has_log) {
        code = switch_journal(store, &has_log);
    }
    if (code != SQLITE_OK) {
        return store_fail(store, code, err);
    }
    if (!has_log) {
        store->remark = sp_format(arena,
                                  "%s: this filesystem takes no write-ahead log, so that reading waits for writing; a "
                                  "file on a local disk, given with --db, does not",
                                  store->path);
    }
    return true;
}

static int configure(struct store *store)
{
    int code = sqlite3_extended_result_codes(store->db, 1);
    if (code == SQLITE_OK) {
        code = sqlite3_busy_timeout(store->db, store->busy_ms);
    }
    if (code == SQLITE_OK) {
        code = sqlite3_db_config(store->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    }
    if (code == SQLITE_OK) {
        code = store_add_checksum(store->db);
    }
    return code == SQLITE_OK ? sqlite3_exec(store->db, settings, NULL, NULL, NULL) : code;
}

static struct store *new_store(struct sp_arena *arena, const char *path)
{
    struct store *store = sp_arena_alloc(arena, sizeof(*store));
    store->path = sp_strdup(arena, path);
    store->busy_ms = STORE_BUSY_MS;
    return store;
}

/* Opens and configures; nothing is read from the file yet. */
static bool connect(struct store *store, const char *name, int flags, struct sp_error *err)
{
    int code = sqlite3_open_v2(name, &store->db, flags, NULL);
    if (code == SQLITE_OK) {
        code = configure(store);
    }
    return code == SQLITE_OK || store_fail(store, code, err);
}

/* Gives the store out, or closes it. */
static bool hand_over(struct store *opened, bool is_good, struct store **store)
{
    if (!is_good) {
        store_close(opened);
    }
    *store = is_good ? opened : NULL;
    return is_good;
}

static bool open_to_write(struct sp_arena *arena, const char *path, struct store **store, struct sp_error *err)
{
    struct store *opened = new_store(arena, path);
    int version = 0;
    /* Identified before anything is changed: a file of somebody else stays as it is. */
    bool is_good = connect(opened, store_file_name(arena, path), SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, err) &&
                   store_identify(opened, &store_schema, &version, err) && use_log(arena, opened, err) &&
                   store_migrate(opened, &store_schema, err) && store_prepare(opened, err);
    return hand_over(opened, is_good, store);
}

/* A log that is there needs its shared memory beside it; a file without one is all there is, and never changes here. */
static bool open_to_read(struct sp_arena *arena, const char *path, struct store **store, struct sp_error *err)
{
    struct store *opened = new_store(arena, path);
    struct stat status;
    bool has_log = stat(sp_format(arena, "%s-wal", path), &status) == 0 && status.st_size > 0;
    const char *name = has_log ? store_file_name(arena, path) : store_immutable_name(arena, path);
    int flags = SQLITE_OPEN_READONLY | (has_log ? 0 : SQLITE_OPEN_URI);
    int version = 0;
    bool is_good = connect(opened, name, flags, err) && store_identify(opened, &store_schema, &version, err);
    if (is_good && version < store_schema.version) {
        is_good = store_refuse(opened, err,
                               "is a store of version %d that cannot be written, so it cannot be brought to version "
                               "%d: copy it to a folder that can be written, and give that with --db",
                               version, store_schema.version);
    }
    return hand_over(opened, is_good && store_prepare(opened, err), store);
}

static bool find_path(struct sp_arena *arena, const char **path, struct sp_error *err)
{
    if (*path == NULL) {
        return store_default_path(arena, path, err);
    }
    return (*path)[0] != '\0' || sp_fail(err, SP_ERROR_USAGE, "--db: expected a file, found \"\"");
}

bool store_open(struct sp_arena *arena, const char *path, struct store **store, struct sp_error *err)
{
    *store = NULL;
    bool is_default = path == NULL;
    return find_path(arena, &path, err) && (!is_default || store_make_folders(arena, path, err)) &&
           open_to_write(arena, path, store, err);
}

/* SQLite writes beside the file too. */
static bool can_write(struct sp_arena *arena, const char *path)
{
    char *folder = sp_strdup(arena, store_file_name(arena, path));
    *(strrchr(folder, '/') + 1) = '\0';
    return access(path, W_OK) == 0 && access(folder, W_OK) == 0;
}

bool store_open_existing(struct sp_arena *arena, const char *path, struct store **store, struct sp_error *err)
{
    *store = NULL;
    if (!find_path(arena, &path, err)) {
        return false;
    }
    struct stat status;
    bool is_there = stat(path, &status) == 0;
    if ((is_there && S_ISREG(status.st_mode) && status.st_size == 0) ||
        (!is_there && (errno == ENOENT || errno == ENOTDIR))) {
        return true;
    }
    return can_write(arena, path) ? open_to_write(arena, path, store, err) : open_to_read(arena, path, store, err);
}

void store_close(struct store *store)
{
    if (store == NULL) {
        return;
    }
    store_finalize(store);
    /* What was stored is in the log, if not yet in the file: a failure here loses nothing. */
    (void)sqlite3_close(store->db);
    store->db = NULL;
}

const char *store_path(const struct store *store)
{
    return store->path;
}

const char *store_remark(const struct store *store)
{
    return store->remark;
}
