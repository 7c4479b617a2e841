/* store: what outlives a run, in one SQLite file (docs/store.md). Knows no models and no commands: a row is a JSON text
 * that somebody else wrote.
 *
 * What a function reports as done is on disk, whatever happens next. Every row and every sweep carries a checksum, and a
 * sweep the number of its rows, so that a damaged file is an error and never a wrong answer. Errors are SP_ERROR_IO
 * (an empty path: SP_ERROR_USAGE), begin with the path of the file and say what to do.
 *
 * A store is of one thread. Two processes may share a file: writers wait for each other, readers for nobody.
 */
#ifndef SEQPLAN_STORE_H
#define SEQPLAN_STORE_H

#include "base/base.h"

struct store;

/* ---- the file (store_open.c, store_path.c) ---------------------------------------------------------------------- */

/* The store that is used when --db names none: seqplan/seqplan.db in $XDG_DATA_HOME, or else in ~/.local/share. Fails
 * where neither is set. Copies into arena. */
bool store_default_path(struct sp_arena *arena, const char **path, struct sp_error *err) SP_MUST_CHECK;
/* path NULL: the default, its folders made. Makes the file when there is none and brings an older one up to date; a
 * file that is not ours is refused and left as it is. Caller closes, before the arena. */
bool store_open(struct sp_arena *arena, const char *path, struct store **store, struct sp_error *err) SP_MUST_CHECK;
/* To look only: makes nothing, *store is NULL when there is no file or an empty one, and one that cannot be written is read. An older one that can be is brought up to date. */
bool store_open_existing(struct sp_arena *arena, const char *path, struct store **store,
                         struct sp_error *err) SP_MUST_CHECK;
void store_close(struct store *store); /* NULL is fine */
const char *store_path(const struct store *store);
/* What the user should know of a store that works all the same (the filesystem has no shared memory for a write-ahead
 * log, say), one line; NULL: nothing. */
const char *store_remark(const struct store *store);

/* ---- sweeps (store_sweeps.c) ------------------------------------------------------------------------------------ */

/* A piece of work of n_points points, numbered from 0. */
struct store_sweep {
    const char *key; /* identifies the work: the same key means the same rows */
    const char *command;
    const char *version;
    const char *data_hash;
    int64_t n_points; /* at least 1 */
};

struct store_listing {
    int64_t id;
    struct store_sweep sweep;
    int64_t n_rows;         /* stored so far */
    const char *begun_at;   /* "2026-11-29T18:57:16Z", of SQLite's clock */
    const char *changed_at; /* the last row */
};

/* Finds the sweep of that key, or begins it. One of that key but with other members is an error. Ids are not used
 * twice. */
bool store_sweep_begin(struct store *store, const struct store_sweep *sweep, int64_t *id,
                       struct sp_error *err) SP_MUST_CHECK;
/* All of them, by id. Copies into arena. */
bool store_sweeps_list(struct store *store, struct sp_arena *arena, struct store_listing **sweeps, size_t *n_sweeps,
                       struct sp_error *err) SP_MUST_CHECK;
/* With its rows. */
bool store_sweep_delete(struct store *store, int64_t id, struct sp_error *err) SP_MUST_CHECK;

/* ---- rows (store_rows.c) ---------------------------------------------------------------------------------------- */

struct store_row {
    int64_t point;
    const char *json;
};

/* Writes the rows in one transaction: all of them, or none. A row that is there already is left as it is. */
bool store_rows_add(struct store *store, int64_t sweep_id, const struct store_row *rows, size_t n_rows,
                    struct sp_error *err) SP_MUST_CHECK;
/* done: an array of n_points, the sweep's own number; true where a row is stored, and intact. */
bool store_rows_done(struct store *store, int64_t sweep_id, bool *done, size_t n_points,
                     struct sp_error *err) SP_MUST_CHECK;
/* In order of point, as they stood when the visit began. The text is valid during the call, which must not write to the
 * store; false, with err set, ends the visit. */
typedef bool (*store_visit)(void *user, int64_t point, const char *json, struct sp_error *err);
bool store_rows_visit(struct store *store, int64_t sweep_id, store_visit visit, void *user,
                      struct sp_error *err) SP_MUST_CHECK;

/* ---- runs of measurements (store_runs.c) ------------------------------------------------------------------------ */

/* What was measured on one machine under one profile. Its number is none of a sweep's. */
struct store_run {
    const char *key; /* identifies it, in other stores too */
    const char *profile;
    const char *version;
    const char *machine; /* JSON text */
};

struct store_run_listing {
    int64_t id;
    struct store_run run;
    int64_t n_planned; /* 0: not known */
    int64_t n_rows;    /* stored so far, refusals too */
    int64_t n_refused; /* of these */
    bool is_finished;
    const char *begun_at;
    const char *changed_at;
};

/* Finds the run of that key, or begins it. One of that key but of another machine is an error. */
bool store_run_begin(struct store *store, const struct store_run *run, int64_t *id, struct sp_error *err) SP_MUST_CHECK;
/* How many are planned (negative: as before), and whether it has come to its end; what is finished stays finished. */
bool store_run_progress(struct store *store, int64_t id, int64_t n_planned, bool is_finished,
                        struct sp_error *err) SP_MUST_CHECK;
/* All of them, by id. Copies into arena. */
bool store_runs_list(struct store *store, struct sp_arena *arena, struct store_run_listing **runs, size_t *n_runs,
                     struct sp_error *err) SP_MUST_CHECK;

/* ---- measurements (store_measurements.c) ------------------------------------------------------------------------ */

struct store_measurement {
    const char *key; /* one of a run */
    bool is_refused; /* it could not be measured, and json says why */
    const char *json;
};

struct store_batch {
    int64_t run_id;
    const struct store_measurement *rows;
    size_t n_rows;
    int64_t n_added; /* set: how many say what was not known before */
};
/* Writes the rows in one transaction: all of them, or none. What is measured already is left as it is; a refusal is
 * replaced. */
bool store_measurements_add(struct store *store, struct store_batch *batch, struct sp_error *err) SP_MUST_CHECK;
/* A whole run with its measurements, as a file brings it. */
struct store_import {
    struct store_run run;
    int64_t n_planned; /* negative: not known */
    bool is_finished;
    const struct store_measurement *rows;
    size_t n_rows;
    int64_t id;      /* set */
    int64_t n_added; /* set: how many say what was not known before */
};
/* Finds or begins each of the runs and adds its rows, in one transaction for all: half a run, or some of the runs, is
 * never seen. */
bool store_runs_import(struct store *store, struct store_import *imports, size_t n_imports,
                       struct sp_error *err) SP_MUST_CHECK;
/* In the order in which they came, as they stood when the visit began. The texts are valid during the call, which must not
 * write to the store; false, with err set, ends the visit. */
typedef bool (*store_measurement_visit)(void *user, const struct store_measurement *row, struct sp_error *err);
bool store_measurements_visit(struct store *store, int64_t run_id, store_measurement_visit visit, void *user,
                              struct sp_error *err) SP_MUST_CHECK;

#endif
