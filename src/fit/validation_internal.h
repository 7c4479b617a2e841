/* What the files of the validation share. */
#ifndef SEQPLAN_VALIDATION_INTERNAL_H
#define SEQPLAN_VALIDATION_INTERNAL_H

#include "fit/validation.h"

/* One file that is being read. */
struct validation_reading {
    struct sp_arena *arena;
    const struct validation_pricer *pricer;
    const char *path;
    const char *folder; /* of the file: "models/NAME.json" is looked for there */
    const struct sp_json *defaults, *fitted, *rows, *measurements; /* of the file */
    struct validation_source *source;
    struct question *question; /* of the row at work */
    struct estimate *estimate;
};

/* An object of the file, and what errors call it. */
struct validation_place {
    const char *path;
    const char *name; /* "$.source" */
    const struct sp_json *object;
};
/* The member has this type where it is there; SP_ERROR_INPUT with the place. */
bool validation_check_member(const struct validation_place *place, const char *key, enum sp_json_type type,
                             struct sp_error *err) SP_MUST_CHECK;
/* Prices a row of the file ($.rows[3]) and adds what was measured in it to the source. */
bool validation_read_row(struct validation_reading *reading, const struct sp_json *run, int index,
                         struct sp_error *err) SP_MUST_CHECK;

/* What the file says is fitted, aimed at or explained is of rows that it has (validation_claims.c). */
bool validation_check_claims(const struct validation_reading *reading, struct sp_error *err) SP_MUST_CHECK;

/* What a terminal would obey; line ends and tabs are none. */
bool validation_has_control(const char *text);
/* Within what can be measured at all, so that no error overflows. */
bool validation_is_measurable(double value);
bool validation_is_option(const struct sp_option *options, const char *name);

/* A table that is made of something else (validation_build.c): an object or array under construction, and its last member. */
struct validation_builder {
    struct sp_json *group;
    struct sp_json *last;
};
struct sp_json *validation_append(struct sp_arena *arena, struct validation_builder *builder, const char *key,
                                  enum sp_json_type type);
void validation_append_text(struct sp_arena *arena, struct validation_builder *builder, const char *key,
                            const char *text);
/* A table of that origin without rows; where its rows go. */
struct sp_json *validation_begin_table(struct sp_arena *arena, const char *where, struct validation_builder *rows);

/* What is fitted to the lines of a run that do not judge, in words. */
extern const char validation_fit_half[];

/* A whole file; NULL and SP_ERROR_INPUT where it cannot be read as text. */
const char *validation_read_text(struct sp_arena *arena, const char *path, struct sp_error *err);
/* The lines of a measurement file beside the table as rows of its source. */
bool validation_read_lines(const struct validation_reading *reading, const char *name,
                           struct sp_error *err) SP_MUST_CHECK;

/* Sorts, and takes the middle one, or the mean of the two in the middle. */
double validation_median(double *values, int n);

#endif
