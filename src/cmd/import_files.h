/* import: the files that are brought in. */
#ifndef SEQPLAN_IMPORT_FILES_H
#define SEQPLAN_IMPORT_FILES_H

#include "cmd/measure.h"
#include "fit/import.h"

struct import_file {
    const char *path; /* as typed; "-" is standard input */
    const char *name; /* in messages */
    const char *bytes;
    size_t n_bytes;
    enum import_kind kind;
    struct import_result result;
    const char *node; /* of a topology: the text of a hardware file */
};
/* Reads the whole of it. Fails on what cannot be read, is empty or larger than a log (import_files.c). */
bool import_file_read(struct import_file *file, struct sp_arena *arena, struct sp_error *err) SP_MUST_CHECK;

#endif
