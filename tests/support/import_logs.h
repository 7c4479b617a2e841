/* Logs for tests of the importers: files of tests/import, and texts. */
#ifndef SEQPLAN_TESTS_IMPORT_LOGS_H
#define SEQPLAN_TESTS_IMPORT_LOGS_H

#include "fit/import.h"

/* The file "tests/import/NAME" as lines; fails the test where it cannot be read. */
struct import_text import_log_text(struct sp_arena *arena, const char *name);
/* A text as lines. */
struct import_text import_log_lines(struct sp_arena *arena, const char *text);
/* Reads a row of a run as a measurement; fails the test where it is none. */
struct measurement import_log_row(struct sp_arena *arena, const struct store_import *run, size_t row);
/* A parameter of it; NULL: it has none of that name. */
const struct sp_json *import_log_parameter(const struct measurement *line, const char *name);

#endif
