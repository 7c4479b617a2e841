/* Results of SQLite as errors of ours: what happened to which file, and what to do about it. */
#include "store/store_internal.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <string.h>

enum { PRIMARY_CODE = 0xff, MAX_DETAIL = 200 }; /* an extended code has its primary one in its lowest byte */

static const struct advice {
    int code;
    const char *text;
} advices[] = {
    {SQLITE_READONLY, "cannot be written: make the file and its folder writable, or give another file with --db"},
    {SQLITE_CANTOPEN, "cannot be opened: expected a file in a folder that exists and can be written; give another file "
                      "with --db"},
    {SQLITE_PERM, "access is refused: ask for permission, or give another file with --db"},
    {SQLITE_FULL, "the disk is full: make room and run the same again (what was stored is kept), or give another file "
                  "with --db"},
    {SQLITE_CORRUPT, "is damaged: move it away and run again, or save what is left with sqlite3 and its .recover"},
    {SQLITE_NOTADB, "is no SQLite database: give another file with --db"},
    {SQLITE_IOERR, "cannot be read or written: the disk failed, is full or is gone; check it and run the same again "
                   "(what was stored is kept), or give another file with --db"},
    {SQLITE_PROTOCOL, "cannot be locked: is it on a network drive? give a file on a local disk with --db"},
    {SQLITE_NOMEM, "out of memory: close other programs and run the same again (what was stored is kept)"},
    {SQLITE_TOOBIG, "a row is too large: expected at most 1 GB of text"},
};

/* A full disk is met in several ways; only the first of them has a code of its own. */
static int cause_of(const struct store *store, int code)
{
    int system_error = store->db == NULL ? 0 : sqlite3_system_errno(store->db);
    bool is_full = system_error == ENOSPC || system_error == EDQUOT;
    return (code & PRIMARY_CODE) == SQLITE_IOERR && is_full ? SQLITE_FULL : code & PRIMARY_CODE;
}

static const char *advice_for(int code)
{
    for (size_t i = 0; i < SP_COUNT_OF(advices); i++) {
        if (advices[i].code == code) {
            return advices[i].text;
        }
    }
    /* No such table, no such column, a constraint of ours broken: somebody else has been at the file. */
    return "is not as seqplan writes it: give another file with --db";
}

/* "disk I/O error, 1802: File too large" */
static void describe(const struct store *store, int code, char detail[MAX_DETAIL])
{
    bool is_of_last_call = store->db != NULL && (sqlite3_errcode(store->db) & PRIMARY_CODE) == (code & PRIMARY_CODE);
    int system_error = is_of_last_call ? sqlite3_system_errno(store->db) : 0;
    bool is_of_system = (code & PRIMARY_CODE) == SQLITE_IOERR || (code & PRIMARY_CODE) == SQLITE_CANTOPEN;
    (void)snprintf(detail, MAX_DETAIL, "%.120s, %d%s%.60s",
                   is_of_last_call ? sqlite3_errmsg(store->db) : sqlite3_errstr(code), code,
                   is_of_system && system_error != 0 ? ": " : "",
                   is_of_system && system_error != 0 ? strerror(system_error) : "");
}

bool store_refuse(const struct store *store, struct sp_error *err, const char *format, ...)
{
    char text[SP_ERROR_TEXT];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return sp_fail(err, SP_ERROR_IO, "%s: %s", store->path, text);
}

bool store_fail(const struct store *store, int code, struct sp_error *err)
{
    enum { MS_PER_S = 1000 };
    int primary = code & PRIMARY_CODE;
    if (primary == SQLITE_BUSY || primary == SQLITE_LOCKED) {
        return store_refuse(store, err,
                            "another seqplan is writing (waited %d s): run the same again when it is done, or give "
                            "another file with --db",
                            store->busy_ms / MS_PER_S);
    }
    char detail[MAX_DETAIL];
    describe(store, code, detail);
    return store_refuse(store, err, "%s (SQLite: %s)", advice_for(cause_of(store, code)), detail);
}
