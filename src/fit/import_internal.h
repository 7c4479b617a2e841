/* What the importers share. */
#ifndef SEQPLAN_IMPORT_INTERNAL_H
#define SEQPLAN_IMPORT_INTERNAL_H

#include "fit/import.h"

/* ---- words and numbers of a line (import_text.c) ---------------------------------------------------------------- */

/* A line split at blanks. What does not fit is left out. */
enum { IMPORT_MOST_WORDS = 64 };
struct import_words {
    const char *items[IMPORT_MOST_WORDS];
    int count;
};
/* Copies into arena. */
struct import_words import_split(struct sp_arena *arena, const char *line);
/* A name in a log, as far as names go: a line of ours has room for it. Copies into arena. */
const char *import_name(struct sp_arena *arena, const char *begin, size_t length);
/* A plain decimal number and nothing else: no hexadecimal, no infinity. half_unit, where it is not NULL: half of the last
 * digit that was printed, what rounding may have taken or added. */
bool import_number(const char *word, double *value, double *half_unit);
/* A whole number from 0 to 2^53 and nothing else. */
bool import_integer(const char *word, int64_t *value);
/* The number behind a label in a line, after blanks: "loss: 1,234.5" gives 1234.5; *end is what follows it. NULL: there is
 * none. */
const char *import_number_after(const char *line, const char *label, double *value);
bool import_integer_after(const char *line, const char *label, int64_t *value);

/* The GPU of a log, by its own words or the user's: NULL where neither says. Fails where they name different ones; a name of no
 * chip stands with a warning. (import_result.c) */
bool import_settle_gpu(struct import_result *result, const char *logged, const char *given, const char **gpu,
                       struct sp_error *err) SP_MUST_CHECK;

/* ---- results (import_result.c) ---------------------------------------------------------------------------------- */

void import_sort_notes(struct import_result *result); /* by line */
/* Adds a run to the result. The key of the run comes from its machine and its rows. */
void import_add_run(struct import_result *result, const struct store_import *run);

/* A JSON object, on one line or on many. */
struct import_json {
    FILE *file;
    char *text;
    size_t size;
    struct sp_json_writer writer;
};
bool import_json_open(struct import_json *json, struct sp_error *err) SP_MUST_CHECK;
bool import_json_open_lines(struct import_json *json, struct sp_error *err) SP_MUST_CHECK;
void import_json_value(struct sp_json_writer *writer, const struct sp_json *value); /* under its own key */
/* NULL: out of memory. Copies into arena. */
const char *import_json_close(struct import_json *json, struct sp_arena *arena, struct sp_error *err);
/* The members that a timed line has after its parameters. */
struct import_times {
    double median_s, min_s, low_s, high_s;
    int64_t count;
    double bytes;
};
void import_json_times(struct sp_json_writer *writer, const struct import_times *times);

#endif
