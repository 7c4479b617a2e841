#include "support/faulty_vfs.h"

#include "support/support.h"

#include <signal.h>
#include <sqlite3.h>
#include <string.h>

static const char vfs_name[] = "faulty";

struct faulty_file {
    sqlite3_file base;
    struct faulty_vfs *faulty;
    sqlite3_file *real; /* behind this struct */
};

static sqlite3_file *real_of(sqlite3_file *file)
{
    return ((struct faulty_file *)file)->real;
}

/* Counts a change. SQLITE_OK: it may happen. */
static int change(struct faulty_vfs *faulty, bool is_write)
{
    int64_t n = ++faulty->n_changes;
    switch (faulty->fault) {
    case FAULT_NONE:
        return SQLITE_OK;
    case FAULT_FULL:
        return n >= faulty->at && is_write ? SQLITE_FULL : SQLITE_OK;
    case FAULT_IO:
        return n >= faulty->at ? SQLITE_IOERR_WRITE : SQLITE_OK;
    case FAULT_ONCE:
        return n == faulty->at ? SQLITE_IOERR_WRITE : SQLITE_OK;
    case FAULT_KILL:
    case FAULT_TORN:
        if (n == faulty->at) {
            (void)raise(SIGKILL);
        }
        return SQLITE_OK;
    }
    return SQLITE_OK;
}

static int faulty_close(sqlite3_file *file)
{
    return real_of(file)->pMethods->xClose(real_of(file));
}

static int faulty_read(sqlite3_file *file, void *bytes, int n_bytes, sqlite3_int64 offset)
{
    return real_of(file)->pMethods->xRead(real_of(file), bytes, n_bytes, offset);
}

static int faulty_write(sqlite3_file *file, const void *bytes, int n_bytes, sqlite3_int64 offset)
{
    struct faulty_vfs *faulty = ((struct faulty_file *)file)->faulty;
    sqlite3_file *real = real_of(file);
    if (faulty->fault == FAULT_TORN && faulty->n_changes + 1 == faulty->at) {
        (void)real->pMethods->xWrite(real, bytes, n_bytes / 2, offset);
    }
    int code = change(faulty, true);
    if (code == SQLITE_OK) {
        code = real->pMethods->xWrite(real, bytes, n_bytes, offset);
        faulty->n_unsynced++;
    }
    return code;
}

static int faulty_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    int code = change(((struct faulty_file *)file)->faulty, false);
    return code == SQLITE_OK ? real_of(file)->pMethods->xTruncate(real_of(file), size) : code;
}

static int faulty_sync(sqlite3_file *file, int flags)
{
    struct faulty_vfs *faulty = ((struct faulty_file *)file)->faulty;
    int code = change(faulty, false);
    if (code != SQLITE_OK) {
        return code;
    }
    faulty->n_unsynced = 0;
    return real_of(file)->pMethods->xSync(real_of(file), flags);
}

static int faulty_size(sqlite3_file *file, sqlite3_int64 *size)
{
    return real_of(file)->pMethods->xFileSize(real_of(file), size);
}

static int faulty_lock(sqlite3_file *file, int level)
{
    return real_of(file)->pMethods->xLock(real_of(file), level);
}

static int faulty_unlock(sqlite3_file *file, int level)
{
    return real_of(file)->pMethods->xUnlock(real_of(file), level);
}

static int faulty_reserved(sqlite3_file *file, int *is_reserved)
{
    return real_of(file)->pMethods->xCheckReservedLock(real_of(file), is_reserved);
}

static int faulty_control(sqlite3_file *file, int what, void *argument)
{
    return real_of(file)->pMethods->xFileControl(real_of(file), what, argument);
}

static int faulty_sector(sqlite3_file *file)
{
    return real_of(file)->pMethods->xSectorSize(real_of(file));
}

static int faulty_characteristics(sqlite3_file *file)
{
    return real_of(file)->pMethods->xDeviceCharacteristics(real_of(file));
}

static int faulty_map(sqlite3_file *file, int page, int size, int is_extended, void volatile **at)
{
    return real_of(file)->pMethods->xShmMap(real_of(file), page, size, is_extended, at);
}

static int faulty_memory_lock(sqlite3_file *file, int offset, int n, int flags)
{
    return real_of(file)->pMethods->xShmLock(real_of(file), offset, n, flags);
}

static void faulty_barrier(sqlite3_file *file)
{
    real_of(file)->pMethods->xShmBarrier(real_of(file));
}

static int faulty_unmap(sqlite3_file *file, int is_deleted)
{
    return real_of(file)->pMethods->xShmUnmap(real_of(file), is_deleted);
}

#define METHODS(version)                                                                                               \
    {                                                                                                                  \
        .iVersion = (version), .xClose = faulty_close, .xRead = faulty_read, .xWrite = faulty_write,                   \
        .xTruncate = faulty_truncate, .xSync = faulty_sync, .xFileSize = faulty_size, .xLock = faulty_lock,            \
        .xUnlock = faulty_unlock, .xCheckReservedLock = faulty_reserved, .xFileControl = faulty_control,               \
        .xSectorSize = faulty_sector, .xDeviceCharacteristics = faulty_characteristics, .xShmMap = faulty_map,         \
        .xShmLock = faulty_memory_lock, .xShmBarrier = faulty_barrier, .xShmUnmap = faulty_unmap                       \
    }
static const sqlite3_io_methods methods = METHODS(2);
static const sqlite3_io_methods methods_without_memory = METHODS(1); /* those of version 2 are not called */

static sqlite3_vfs *real_vfs(void)
{
    sqlite3_vfs *vfs = sqlite3_vfs_find("unix");
    assert_non_null(vfs);
    return vfs;
}

static int faulty_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out_flags)
{
    struct faulty_file *faulty_file = (struct faulty_file *)file;
    struct faulty_vfs *faulty = vfs->pAppData;
    memset(faulty_file, 0, sizeof(*faulty_file));
    faulty_file->faulty = faulty;
    faulty_file->real = (sqlite3_file *)(faulty_file + 1);
    int code = real_vfs()->xOpen(real_vfs(), name, faulty_file->real, flags, out_flags);
    bool is_open = faulty_file->real->pMethods != NULL;
    file->pMethods = !is_open ? NULL : faulty->has_no_memory ? &methods_without_memory : &methods;
    return code;
}

static int faulty_delete(sqlite3_vfs *vfs, const char *name, int is_synced)
{
    int code = change(vfs->pAppData, false);
    return code == SQLITE_OK ? real_vfs()->xDelete(real_vfs(), name, is_synced) : code;
}

static int faulty_access(sqlite3_vfs *vfs, const char *name, int flags, int *result)
{
    (void)vfs;
    return real_vfs()->xAccess(real_vfs(), name, flags, result);
}

static int faulty_path(sqlite3_vfs *vfs, const char *name, int size, char *path)
{
    (void)vfs;
    return real_vfs()->xFullPathname(real_vfs(), name, size, path);
}

/* SQLite keeps a pointer to it. */
static sqlite3_vfs faulty_vfs;

void faulty_vfs_install(struct faulty_vfs *faulty)
{
    faulty_vfs = *real_vfs(); /* what is not replaced does not look at its first argument */
    faulty_vfs.zName = vfs_name;
    faulty_vfs.pNext = NULL;
    faulty_vfs.szOsFile = (int)sizeof(struct faulty_file) + real_vfs()->szOsFile;
    faulty_vfs.pAppData = faulty;
    faulty_vfs.xOpen = faulty_open;
    faulty_vfs.xDelete = faulty_delete;
    faulty_vfs.xAccess = faulty_access;
    faulty_vfs.xFullPathname = faulty_path;
    assert_int_equal(sqlite3_vfs_register(&faulty_vfs, 1), SQLITE_OK);
}

void faulty_vfs_remove(void)
{
    assert_int_equal(sqlite3_vfs_unregister(&faulty_vfs), SQLITE_OK);
}
