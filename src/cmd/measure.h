/* measure: runs the device program, keeps what it prints in the store, and shows it. The rest of this header is what the
 * files of the command share.
 */
#ifndef SEQPLAN_MEASURE_H
#define SEQPLAN_MEASURE_H

#include "cmd/sweep.h"
#include "fit/fit.h"

/* ---- lines of a file or pipe (line_reader.c) -------------------------------------------------------------------- */

/* A line that is longer than MEASUREMENT_LINE_BYTES loses its middle, and stays longer than that. */
struct line_reader {
    int descriptor;
    char *buffer;
    size_t begin, end; /* what is not given out yet */
    bool is_ended;     /* nothing more is read */
};
void line_reader_open(struct line_reader *reader, struct sp_arena *arena, int descriptor);
/* Reads what there is, once. False: a failure, in errno; an interruption and the end are none. */
bool line_reader_fill(struct line_reader *reader) SP_MUST_CHECK;
struct line {
    const char *text; /* without its end; valid until more is read */
    size_t length;
    bool is_whole; /* it had an end: only the last one may lack it */
};
/* The next line of what was read; false: there is none yet. */
bool line_reader_next(struct line_reader *reader, struct line *line);

/* ---- the device program (device_process.c) ---------------------------------------------------------------------- */

struct device_process;
/* argv: with the program's name first. done: descriptor of what the program finds as DEVICE_DONE_FILE, or -1. NULL: it
 * cannot be started; SP_ERROR_IO with the reason. Caller closes, before the arena. */
#define DEVICE_DONE_FILE "/dev/fd/3"
struct device_process *device_open(struct sp_arena *arena, char *const *argv, int done, struct sp_error *err);
enum device_event {
    DEVICE_QUIET,   /* nothing came for a tenth of a second */
    DEVICE_LINE,    /* on its standard output */
    DEVICE_MESSAGE, /* on its standard error */
    DEVICE_ENDED    /* no more of either will come */
};
enum device_event device_next(struct device_process *device, struct line *line);
void device_stop(struct device_process *device); /* asks it to end, and does not wait */
/* Waits for its end, forcing it after a while. NULL: it exited with 0; else how it ended: "ended with exit code 4". */
const char *device_close(struct device_process *device);

/* ---- a run of the store (measure_run.c) ------------------------------------------------------------------------- */

/* The listing of an id; SP_ERROR_INPUT where there is none. Copies into arena. */
bool measure_run_find(struct store *store, struct sp_arena *arena, int64_t id, struct store_run_listing *listing,
                      struct sp_error *err) SP_MUST_CHECK;
/* Its machine. What a store holds and cannot be read is SP_ERROR_IO. */
const struct sp_json *measure_run_machine(struct store *store, struct sp_arena *arena,
                                          const struct store_run_listing *listing, struct sp_error *err);
const char *measure_machine_name(struct sp_arena *arena, const struct sp_json *machine); /* "H200 of node61" */
/* All that a run has. */
struct measure_run_content {
    struct store_run_listing listing;
    const struct sp_json *machine;
    struct measurement *rows; /* timed or refused, in the order they came */
    size_t n_rows;
};
bool measure_run_read(struct store *store, struct sp_arena *arena, int64_t id, struct measure_run_content *content,
                      struct sp_error *err) SP_MUST_CHECK;
/* The same, in the style's format. */
bool measure_run_print(struct store *store, struct sp_arena *arena, int64_t id, const struct report_style *style,
                       struct sp_error *err) SP_MUST_CHECK;
/* As a measurement file, which --from reads back; path "-": to out. */
struct measure_output {
    const char *path;
    FILE *out;
};
bool measure_run_write(struct store *store, struct sp_arena *arena, int64_t id, const struct measure_output *output,
                       struct sp_error *err) SP_MUST_CHECK;

/* ---- lines on their way into the store (measure_intake.c) ------------------------------------------------------- */

/* Lines that cannot be read are skipped, and the first of them named on standard error. */
struct measure_intake {
    const char *source; /* what the lines are of */
    struct progress *progress;
    struct import_result *notes; /* or NULL: gets what is skipped, in place of standard error */
    int64_t n_lines;
    int64_t n_skipped;
};
/* False: it is skipped. A last line that is cut off is skipped in silence. Copies into arena. */
bool measure_intake_read(struct measure_intake *intake, struct sp_arena *arena, const struct line *text,
                         struct measurement *line);
/* Skips the line that was read last. */
void measure_intake_skip(struct measure_intake *intake, const char *reason);
void measure_intake_close(const struct measure_intake *intake);

/* Lines of a measurement file that is in memory. Fails where none is of a machine, or some are of another. Copies into
 * arena. */
struct measure_text {
    const char *name;
    const char *bytes;
    size_t n_bytes;
    struct import_result *result; /* gets the run, and a note of each measurement and of what is skipped */
};
bool measure_text_read(const struct measure_text *text, struct sp_arena *arena, struct sp_error *err) SP_MUST_CHECK;
/* Stores the lines of --from FILE (measure_file.c); "-" is standard input. *id: of the run that has them now. */
bool measure_file_store(struct sp_arena *arena, struct store *store, const char *path, int64_t *id,
                        struct sp_error *err) SP_MUST_CHECK;

/* The lines of such a file without a store. Copies into arena. */
bool measure_file_read(struct sp_arena *arena, const char *path, struct calibration_run *run,
                       struct sp_error *err) SP_MUST_CHECK;

/* ---- measuring (measure_device.c) ------------------------------------------------------------------------------- */

struct measure_request {
    struct command_context *context;
    struct store *store;
    const char *program; /* of the device */
    const char *profile; /* its options, separated by blanks: "--quick --only copy" */
    int64_t resumed;     /* the run to go on with; 0: the last of this machine and profile that is not finished */
    bool is_new;         /* go on with none */
};
struct measure_outcome {
    int64_t id; /* 0: nothing was begun */
    int64_t n_done, n_total;
    bool is_interrupted; /* by a signal */
};
bool measure_device_run(const struct measure_request *request, struct measure_outcome *outcome,
                        struct sp_error *err) SP_MUST_CHECK;
/* The path of the device program; given: what --device says, or NULL. Fails, saying what is missing. */
bool measure_device_find(struct sp_arena *arena, const char *given, const char **program,
                         struct sp_error *err) SP_MUST_CHECK;

#endif
