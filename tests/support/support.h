/* What the tests share. Includes cmocka with the headers that it needs before it. */
#ifndef SEQPLAN_TEST_SUPPORT_H
#define SEQPLAN_TEST_SUPPORT_H

#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* |a - b| <= rel * max(|a|, |b|); rel 0 asks for the same double. cmocka's own assert_float_equal goes through float,
 * where 1.0 and 1.0 + 1e-9 are equal. */
#define assert_close(a, b, rel) assert_close_at((a), (b), (rel), __FILE__, __LINE__)
/* The text of the error has `part` in it, and reads as errors should: one line, no full stop at the end. */
#define assert_error_contains(err, part) assert_error_contains_at((err), (part), __FILE__, __LINE__)

void assert_close_at(double a, double b, double rel, const char *file, int line);
void assert_error_contains_at(const struct sp_error *err, const char *part, const char *file, int line);

/* A new empty folder; temp_folder_close removes it with the files in it and frees the name. */
char *temp_folder_open(void);
void temp_folder_close(char *folder);
/* Temporary folders in memory where there is such a place and the user names no other: for tests that wait for the disk
 * thousands of times and do not care which it is. Call it first. */
void temp_folders_in_memory(void);
/* Writes `size` bytes to `name` in the folder. Copies the path into the arena. */
const char *temp_file(struct sp_arena *arena, const char *folder, const char *name, const void *bytes, size_t size);

/* Runs `body` in a child process. Returns its exit code, or 128 plus the signal that ended it; what it wrote to
 * standard error comes to `output`. A body that returns exits with 0. */
int run_in_child(void (*body)(void *), void *data, char *output, size_t size);

/* The same sequence on every machine, for tests over many values. Never 0. */
uint64_t next_random(uint64_t *state);

#endif
