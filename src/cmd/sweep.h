/* sweep: a question repeated over the points of --vary, by one process or by ranks, and its rows: kept, stored, printed.
 * Which command fills a row is its own affair: it gives sweep_run() a function. The rest of this header is what the
 * files of a sweep share.
 */
#ifndef SEQPLAN_SWEEP_H
#define SEQPLAN_SWEEP_H

#include "cmd/command.h"
#include "store/store.h"

/* The row of a point as JSON text of one object: an answer with "fits", or {layout, error: {rule, text}}. It depends on
 * the options alone: no time that passed, nothing of earlier rows. False: what is wrong is wrong with all rows. The text
 * is in scratch, as whatever else a row needs. */
typedef bool (*sweep_row_function)(void *user, struct command_options *options, struct sp_arena *scratch,
                                   const char **json, struct sp_error *err);
struct sweep {
    struct command_context *context;
    const char *command; /* its name */
    const struct command_options *options;
    sweep_row_function row;
    void *user;
};
/* --db without --vary would keep nothing: refused. */
bool sweep_options_check(const struct command_options *options, struct sp_error *err) SP_MUST_CHECK;
/* Fills the rows, prints them in the style of the options, and sets the exit code: 0 when a row fits, 1 when none does,
 * SP_ERROR_IO when a signal ended it early and rows are missing. A rank other than 0 fills rows for rank 0 and prints
 * nothing. */
bool sweep_run(const struct sweep *sweep, struct sp_error *err) SP_MUST_CHECK;

/* ---- points (points.c) ------------------------------------------------------------------------------------------ */

enum { POINTS_MAX_VARIED = 8, POINTS_MAX = 1000000 };

struct varied {
    const char *name;
    const char **values;
    int n_values;
    bool is_option; /* else a path of --set */
};

/* Every combination of what varies; the last --vary varies fastest. */
struct points {
    const struct command_options *base;
    const struct sp_option *table; /* what may vary */
    struct varied varied[POINTS_MAX_VARIED];
    const char *names[POINTS_MAX_VARIED];
    int n_varied;
    int64_t n_points;
};
/* Reads --vary. A value that no option would take fails now, not after hours. Borrows the options. */
bool points_read(const struct sweep *sweep, struct points *points, struct sp_error *err) SP_MUST_CHECK;
/* "64K", "8": one value for each of what varies. The array is in the arena, its texts are borrowed. */
const char **points_values(const struct points *points, struct sp_arena *arena, int64_t point);
/* The options as if the point's values had been typed last. */
bool points_options(const struct points *points, struct sp_arena *arena, int64_t point, struct command_options *options,
                    struct sp_error *err) SP_MUST_CHECK;

/* ---- rows (sweep_rows.c) ---------------------------------------------------------------------------------------- */

/* So many rows are kept in memory, or printed as a table; more need a store, and another format. */
enum { SWEEP_KEPT_ROWS = 20000 };

struct sweep_store;
struct sweep_rows {
    const struct sweep *sweep;
    const struct points *points;
    bool *has; /* by point */
    int64_t n_has;
    struct sweep_store *store; /* with --db; else NULL */
    const char **texts;        /* by point, without --db */
};
/* With --db: with the rows that are stored already. */
bool sweep_rows_open(struct sweep_rows *rows, struct sp_error *err) SP_MUST_CHECK;
bool sweep_rows_add(struct sweep_rows *rows, int64_t point, const char *json, struct sp_error *err) SP_MUST_CHECK;
/* What was added is stored when this is true. */
bool sweep_rows_flush(struct sweep_rows *rows, struct sp_error *err) SP_MUST_CHECK;
/* Prints the rows that are there; *fits is true when any of them does. */
bool sweep_rows_print(struct sweep_rows *rows, bool *fits, struct sp_error *err) SP_MUST_CHECK;
void sweep_rows_close(struct sweep_rows *rows);

/* The same in the store (sweep_store.c). Sets rows->has. */
bool sweep_store_open(struct sweep_rows *rows, struct sp_error *err) SP_MUST_CHECK;
bool sweep_store_add(struct sweep_store *store, int64_t point, const char *json, struct sp_error *err) SP_MUST_CHECK;
bool sweep_store_flush(struct sweep_store *store, struct sp_error *err) SP_MUST_CHECK;
bool sweep_store_visit(struct sweep_store *store, store_visit visit, void *user, struct sp_error *err) SP_MUST_CHECK;
void sweep_store_close(struct sweep_store *store);
/* What makes it this sweep (sweep_key.c). Copies into the run's arena. */
bool sweep_identify(const struct sweep *sweep, const struct points *points, struct store_sweep *identity,
                    struct sp_error *err) SP_MUST_CHECK;

/* ---- progress (progress.c) -------------------------------------------------------------------------------------- */

double progress_clock_s(void);

/* A line on a terminal that is drawn over and over; elsewhere nothing. */
struct progress {
    bool is_shown;
    bool is_of_step; /* thousandths of one step, not rows */
    int64_t n_total;
    int64_t n_before; /* done before it began: no measure of how fast it goes */
    const char *note; /* in place of how fast it goes, or NULL */
    double begun_s;
    double drawn_s;
};
void progress_open(struct progress *progress, bool is_terminal, int64_t n_total, int64_t n_before);
/* Of one long run that knows what share of it is done. */
void progress_open_step(struct progress *progress, bool is_terminal);
void progress_show_share(struct progress *progress, double done_frac);
void progress_show(struct progress *progress, int64_t n_done);
void progress_clear(struct progress *progress); /* something else is printed; it is drawn again later */
void progress_close(struct progress *progress);

/* ---- running (sweep.c, sweep_ranks.c) --------------------------------------------------------------------------- */

/* One run over the points. */
struct sweep_run {
    const struct sweep *sweep;
    struct points points;
    struct sweep_rows rows;
    struct sp_arena *scratch; /* of the row that is being filled */
    bool is_stopped;          /* by a signal */
};
/* The text of a row, in the run's scratch; the caller rewinds it. */
bool sweep_fill(struct sweep_run *run, int64_t point, const char **json, struct sp_error *err) SP_MUST_CHECK;
/* Rank 0: hands out what is missing, and adds what comes back. */
bool sweep_hand_out(struct sweep_run *run, struct progress *progress, struct sp_error *err) SP_MUST_CHECK;
/* The other ranks: fill what they are given. */
bool sweep_compute(struct sweep_run *run, struct sp_error *err) SP_MUST_CHECK;

/* What a rank other than 0 does while rank 0 runs the command: nothing, until there is a sweep. */
typedef bool (*sweep_command)(void *user, struct sp_error *err);
void sweep_serve(sweep_command command, void *user);
/* Rank 0, at the end: the others may go. */
void sweep_dismiss(void);

/* ---- interruption (interrupt.c) --------------------------------------------------------------------------------- */

/* From here on SIGINT and SIGTERM are noted, and the second of them ends the program at once. */
void interrupt_watch(void);
void interrupt_unwatch(void);
bool interrupt_is_asked(void);
int interrupt_signal(void); /* which; 0 none */

#endif
