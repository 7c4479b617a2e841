#include "store/store_internal.h"

#include <sqlite3.h>

static uint64_t hash_number(uint64_t hash, int64_t number)
{
    unsigned char bytes[sizeof(number)];
    for (size_t i = 0; i < sizeof(number); i++) {
        bytes[i] = (unsigned char)((uint64_t)number >> (8 * i)); /* the same on every machine */
    }
    return sp_fnv1a(hash, bytes, sizeof(bytes));
}

/* The type and the length go in too, so that neither a text taken for a blob nor a moved border passes. False when there
 * is no memory. */
static bool hash_value(uint64_t *hash, sqlite3_value *value)
{
    int type = sqlite3_value_type(value);
    *hash = hash_number(*hash, type);
    if (type != SQLITE_TEXT && type != SQLITE_BLOB) {
        *hash = hash_number(*hash, sqlite3_value_int64(value));
        return true;
    }
    const void *bytes = sqlite3_value_blob(value);
    int n_bytes = sqlite3_value_bytes(value);
    *hash = hash_number(*hash, n_bytes);
    if (bytes != NULL) {
        *hash = sp_fnv1a(*hash, bytes, (size_t)n_bytes);
    }
    return bytes != NULL || n_bytes == 0;
}

/* FNV-1a changes with every change of one byte, and misses others once in 2^64: enough against accidents. */
static void check_function(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    uint64_t hash = SP_FNV1A_BASIS;
    for (int i = 0; i < argc; i++) {
        if (!hash_value(&hash, argv[i])) {
            sqlite3_result_error_nomem(context);
            return;
        }
    }
    sqlite3_result_int64(context, (sqlite3_int64)(hash & INT64_MAX));
}

int store_add_checksum(struct sqlite3 *db)
{
    /* Of statements only: a schema that used it could not be read by other programs. */
    static const int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_DIRECTONLY;
    return sqlite3_create_function_v2(db, "seqplan_check", -1, flags, NULL, check_function, NULL, NULL, NULL);
}
