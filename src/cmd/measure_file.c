/* --from FILE: lines of a device program that ran elsewhere, or of a run that -o wrote. */
#include "cmd/measure.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

struct file_lines {
    struct sp_arena *arena;
    struct measure_intake intake;
    struct store_run run; /* key NULL: the file names none */
    const struct sp_json *machine;
    int64_t n_planned; /* -1: not known */
    bool is_finished;
    struct store_measurement *rows;
    size_t n_rows;
    size_t n_timed;
};

/* ---- lines ------------------------------------------------------------------------------------------------------ */

static void add_row(struct file_lines *lines, const struct line *text, const struct measurement *line)
{
    enum { FIRST_CAPACITY = 64 };
    size_t count = lines->n_rows;
    if (count == 0 || (count >= FIRST_CAPACITY && (count & (count - 1)) == 0)) {
        struct store_measurement *grown =
            sp_arena_array(lines->arena, count == 0 ? FIRST_CAPACITY : 2 * count, sizeof(*grown));
        if (count > 0) {
            memcpy(grown, lines->rows, count * sizeof(*grown));
        }
        lines->rows = grown;
    }
    lines->rows[lines->n_rows++] =
        (struct store_measurement){.key = line->key,
                                   .is_refused = line->kind == MEASUREMENT_REFUSED,
                                   .json = sp_strndup(lines->arena, text->text, text->length)};
    lines->n_timed += line->kind == MEASUREMENT_TIMED ? 1 : 0;
}

static void take_run(struct file_lines *lines, const struct measurement *line)
{
    if (lines->run.key != NULL || lines->machine != NULL) {
        measure_intake_skip(&lines->intake, "a file holds one run, named in its first line");
        return;
    }
    lines->run.key = line->run_key;
    lines->run.profile = line->profile;
    lines->run.version = line->version;
}

/* The lines of a program that was run again, with --done, go on where those before ended. */
static bool take_machine(struct file_lines *lines, const struct measurement *line, struct sp_error *err)
{
    if (lines->machine == NULL) {
        lines->machine = line->json;
        return true;
    }
    return measurement_is_same_machine(lines->machine, line->json) ||
           sp_fail(err, SP_ERROR_INPUT,
                   "%s: line %" PRId64 " is of another machine than those before: keep the lines of each machine in a "
                   "file of its own",
                   lines->intake.source, lines->intake.n_lines);
}

static bool take_line(struct file_lines *lines, const struct line *text, struct sp_error *err)
{
    struct measurement line;
    if (!measure_intake_read(&lines->intake, lines->arena, text, &line)) {
        return true;
    }
    if (lines->machine == NULL && line.kind != MEASUREMENT_RUN && line.kind != MEASUREMENT_MACHINE) {
        measure_intake_skip(&lines->intake, "it comes before the line of the machine");
        return true;
    }
    switch (line.kind) {
    case MEASUREMENT_RUN:
        take_run(lines, &line);
        break;
    case MEASUREMENT_MACHINE:
        return take_machine(lines, &line, err);
    case MEASUREMENT_PLAN:
        lines->n_planned = (int64_t)lines->n_timed + line.total;
        break;
    case MEASUREMENT_TIMED:
    case MEASUREMENT_REFUSED:
        add_row(lines, text, &line);
        break;
    case MEASUREMENT_DONE:
        lines->is_finished = true;
        break;
    }
    return true;
}

static bool read_lines(struct file_lines *lines, int descriptor, struct sp_error *err)
{
    struct line_reader reader;
    line_reader_open(&reader, lines->arena, descriptor);
    bool is_good = true;
    while (is_good && !reader.is_ended) {
        struct line line;
        if (!line_reader_fill(&reader)) {
            return sp_fail(err, SP_ERROR_INPUT, "%s: cannot be read: %s", lines->intake.source, strerror(errno));
        }
        while (is_good && line_reader_next(&reader, &line)) {
            is_good = take_line(lines, &line, err);
        }
    }
    measure_intake_close(&lines->intake);
    return is_good;
}

static bool check_machine(const struct file_lines *lines, struct sp_error *err)
{
    return lines->machine != NULL ||
           sp_fail(err, SP_ERROR_INPUT,
                   "%s: no line of a machine in %" PRId64 " lines: expected what 'seqplan-device measure' prints, or "
                   "'seqplan measure -o' wrote",
                   lines->intake.source, lines->intake.n_lines);
}

static bool read_file(struct file_lines *lines, const char *path, struct sp_error *err)
{
    bool is_input = strcmp(path, "-") == 0;
    int descriptor = is_input ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) {
        return sp_fail(err, SP_ERROR_INPUT,
                       "%s: cannot be opened: %s; name a file of lines that seqplan-device printed", path,
                       strerror(errno));
    }
    bool is_good = read_lines(lines, descriptor, err);
    if (!is_input) {
        (void)close(descriptor);
    }
    return is_good && check_machine(lines, err);
}

/* ---- storing ---------------------------------------------------------------------------------------------------- */

/* A file that names no run is known by its machine line, with its date. */
static bool complete_run(struct file_lines *lines, struct sp_error *err)
{
    struct store_run *run = &lines->run;
    run->machine = report_tree_text(lines->arena, lines->machine);
    if (run->machine == NULL) {
        return sp_fail(err, SP_ERROR_IO, "out of memory: close other programs and run the same again");
    }
    if (run->key == NULL) {
        run->key = sp_format(lines->arena, "%016" PRIx64, report_fnv1a(run->machine));
        run->profile = "";
        run->version = "";
    }
    return true;
}

static bool fill_import(struct file_lines *lines, struct store_import *import, struct sp_error *err)
{
    if (!complete_run(lines, err)) {
        return false;
    }
    *import = (struct store_import){.run = lines->run,
                                    .n_planned = lines->n_planned,
                                    .is_finished = lines->is_finished,
                                    .rows = lines->rows,
                                    .n_rows = lines->n_rows};
    return true;
}

static bool take_text(struct file_lines *lines, const struct measure_text *text, struct sp_error *err)
{
    size_t at = 0;
    while (at < text->n_bytes) {
        const char *newline = memchr(text->bytes + at, '\n', text->n_bytes - at);
        size_t length = newline == NULL ? text->n_bytes - at : (size_t)(newline - text->bytes) - at;
        const struct line line = {.text = text->bytes + at, .length = length, .is_whole = newline != NULL};
        size_t n_before = lines->n_rows;
        if (!take_line(lines, &line, err)) {
            return false;
        }
        if (lines->n_rows > n_before) {
            import_take(text->result, lines->intake.n_lines, "%s", lines->rows[n_before].key);
        }
        at += length + 1;
    }
    return true;
}

bool measure_text_read(const struct measure_text *text, struct sp_arena *arena, struct sp_error *err)
{
    struct import_result *result = text->result;
    struct file_lines lines = {.arena = arena, .intake = {.source = text->name, .notes = result}, .n_planned = -1};
    result->runs = sp_arena_alloc(arena, sizeof(*result->runs));
    if (!take_text(&lines, text, err) || !check_machine(&lines, err) || !fill_import(&lines, result->runs, err)) {
        return false;
    }
    result->n_runs = 1;
    result->n_measurements = (int64_t)lines.n_rows;
    return true;
}

bool measure_file_store(struct sp_arena *arena, struct store *store, const char *path, int64_t *id,
                        struct sp_error *err)
{
    struct file_lines lines = {
        .arena = arena, .intake = {.source = strcmp(path, "-") == 0 ? "standard input" : path}, .n_planned = -1};
    struct store_import import;
    if (!read_file(&lines, path, err) || !fill_import(&lines, &import, err) ||
        !store_runs_import(store, &import, 1, err)) {
        return false;
    }
    *id = import.id;
    if (import.n_added == 0) {
        (void)fprintf(stderr, "seqplan: %s: adds nothing to run %" PRId64 "\n", lines.intake.source, *id);
    } else {
        (void)fprintf(stderr, "seqplan: %s: adds %" PRId64 " measurement%s to run %" PRId64 "\n", lines.intake.source,
                      import.n_added, sp_plural(import.n_added), *id);
    }
    return true;
}

/* ---- reading alone ---------------------------------------------------------------------------------------------- */

bool measure_file_read(struct sp_arena *arena, const char *path, struct calibration_run *run, struct sp_error *err)
{
    struct file_lines lines = {
        .arena = arena, .intake = {.source = strcmp(path, "-") == 0 ? "standard input" : path}, .n_planned = -1};
    if (!read_file(&lines, path, err) || !complete_run(&lines, err)) {
        return false;
    }
    struct measurement *rows = sp_arena_array(arena, lines.n_rows + 1, sizeof(*rows));
    for (size_t i = 0; i < lines.n_rows; i++) {
        const char *text = lines.rows[i].json;
        if (!measurement_parse(arena, text, strlen(text), &rows[i], err)) {
            sp_error_prefix(err, "%s", lines.intake.source);
            return false;
        }
    }
    *run =
        (struct calibration_run){.key = lines.run.key, .machine = lines.machine, .rows = rows, .n_rows = lines.n_rows};
    return true;
}
