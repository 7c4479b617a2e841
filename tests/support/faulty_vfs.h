/* A disk that fails when a test says so: a file system of SQLite's over its own, in which the n-th change of a file
 * goes wrong. Stands before the default one from faulty_vfs_install() to faulty_vfs_remove(). */
#ifndef SEQPLAN_TESTS_FAULTY_VFS_H
#define SEQPLAN_TESTS_FAULTY_VFS_H

#include <stdbool.h>
#include <stdint.h>

enum fault {
    FAULT_NONE,
    FAULT_FULL, /* from the n-th change on there is no room for any write */
    FAULT_IO,   /* from the n-th change on nothing works */
    FAULT_ONCE, /* the n-th change fails, and later ones work */
    FAULT_KILL, /* kill -9 in place of the n-th change */
    FAULT_TORN  /* kill -9 after the first half of a write, or in place of another change */
};

struct faulty_vfs {
    enum fault fault;
    int64_t at;         /* which change, from 1 */
    int64_t n_changes;  /* so far: writes, truncations, syncs, deletions */
    int64_t n_unsynced; /* writes since the last sync */
    bool has_no_memory; /* shared memory is not to be had, as on some network drives */
};

void faulty_vfs_install(struct faulty_vfs *faulty);
void faulty_vfs_remove(void);

#endif
