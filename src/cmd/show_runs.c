/* The sweeps and the runs of measurements of the store, and one of them. */
#include "cmd/measure.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const double BYTES_PER_GIB = 0x1p30;

/* ---- all of them ------------------------------------------------------------------------------------------------ */

enum { LIST_ID, LIST_ROWS, LIST_POINTS, LIST_BEGUN, LIST_CHANGED, LIST_COMMAND, LIST_VERSION, LIST_HASH, LIST_KEY };

static const struct report_column list_columns[] = {
    [LIST_ID] = {.heading = "run", .key = "id", .is_right = true},
    [LIST_ROWS] = {.heading = "rows", .key = "rows", .is_right = true},
    [LIST_POINTS] = {.heading = "of", .key = "points", .is_right = true},
    [LIST_BEGUN] = {.heading = "begun", .key = "begun"},
    [LIST_CHANGED] = {.heading = "last row", .key = "changed"},
    [LIST_COMMAND] = {.heading = "command", .key = "command"},
    [LIST_VERSION] = {.heading = "version", .key = "version", .is_hidden = true},
    [LIST_HASH] = {.heading = "data hash", .key = "data_hash", .is_hidden = true},
    [LIST_KEY] = {.heading = "key", .key = "key", .is_hidden = true},
};

static void put_integer(struct report_grid *grid, int column, int64_t value)
{
    report_grid_number(grid, column, (double)value, sp_format(grid->arena, "%" PRId64, value));
}

static void list_sweep(struct report_grid *grid, const struct store_listing *listing)
{
    report_grid_add(grid);
    put_integer(grid, LIST_ID, listing->id);
    put_integer(grid, LIST_ROWS, listing->n_rows);
    put_integer(grid, LIST_POINTS, listing->sweep.n_points);
    report_grid_text(grid, LIST_BEGUN, "%s", listing->begun_at);
    report_grid_text(grid, LIST_CHANGED, "%s", listing->changed_at);
    report_grid_text(grid, LIST_COMMAND, "%s", listing->sweep.command);
    report_grid_text(grid, LIST_VERSION, "%s", listing->sweep.version);
    report_grid_text(grid, LIST_HASH, "%s", listing->sweep.data_hash);
    report_grid_text(grid, LIST_KEY, "%s", listing->sweep.key);
}

/* "measure --quick: H200 of node61", "import megatron training log: H200" */
static bool list_measured(struct report_grid *grid, struct store *store, const struct store_run_listing *run,
                          struct sp_error *err)
{
    const struct sp_json *machine = measure_run_machine(store, grid->arena, run, err);
    if (machine == NULL) {
        return false;
    }
    report_grid_add(grid);
    put_integer(grid, LIST_ID, run->id);
    put_integer(grid, LIST_ROWS, run->n_rows);
    if (run->n_planned > 0) {
        put_integer(grid, LIST_POINTS, run->n_planned);
    }
    report_grid_text(grid, LIST_BEGUN, "%s", run->begun_at);
    report_grid_text(grid, LIST_CHANGED, "%s", run->changed_at);
    const char *command = sp_json_member(machine, "imported_from") != NULL ? "import" : "measure";
    report_grid_text(grid, LIST_COMMAND, "%s%s%s: %s%s", command, run->run.profile[0] == '\0' ? "" : " ",
                     run->run.profile, measure_machine_name(grid->arena, machine),
                     run->is_finished ? "" : " (not finished)");
    report_grid_text(grid, LIST_VERSION, "%s", run->run.version);
    report_grid_text(grid, LIST_KEY, "%s", run->run.key);
    return true;
}

/* *store is NULL, and *path where it would be, when nothing has been stored yet. */
static bool open_store(const struct show_request *request, struct store **store, const char **path,
                       struct sp_error *err)
{
    *path = request->db;
    return (request->db != NULL || store_default_path(request->arena, path, err)) &&
           store_open_existing(request->arena, *path, store, err);
}

/* By their numbers, which they share. */
static bool list_all(struct report_grid *grid, struct store *store, size_t *n_listed, struct sp_error *err)
{
    struct store_listing *sweeps = NULL;
    struct store_run_listing *runs = NULL;
    size_t n_sweeps = 0;
    size_t n_runs = 0;
    if (!store_sweeps_list(store, grid->arena, &sweeps, &n_sweeps, err) ||
        !store_runs_list(store, grid->arena, &runs, &n_runs, err)) {
        return false;
    }
    size_t sweep = 0;
    size_t run = 0;
    while (sweep < n_sweeps || run < n_runs) {
        bool is_sweep = run == n_runs || (sweep < n_sweeps && sweeps[sweep].id < runs[run].id);
        if (is_sweep) {
            list_sweep(grid, &sweeps[sweep++]);
        } else if (!list_measured(grid, store, &runs[run++], err)) {
            return false;
        }
    }
    *n_listed = n_sweeps + n_runs;
    return true;
}

bool show_runs(const struct show_request *request, struct show_answer *answer, struct sp_error *err)
{
    report_grid_init(&answer->grid, request->arena, list_columns, (int)SP_COUNT_OF(list_columns));
    struct store *store = NULL;
    const char *path = NULL;
    if (!open_store(request, &store, &path, err)) {
        return false;
    }
    if (store == NULL) {
        answer->title = sp_format(request->arena, "no runs are stored yet in %s", path);
        return true;
    }
    size_t n_listed = 0;
    bool is_good = list_all(&answer->grid, store, &n_listed, err);
    store_close(store);
    answer->title = sp_format(request->arena, n_listed == 0 ? "no runs are stored yet in %s" : "Runs in %s", path);
    return is_good;
}

/* ---- the rows of one -------------------------------------------------------------------------------------------- */

enum row_kind { ROW_TEXT, ROW_COUNT, ROW_FIGURE, ROW_GIB, ROW_PERCENT, ROW_BOOL };

/* What is shown of a row, from wherever it stands in it; the point comes first. */
static const struct row_member {
    const char *path;
    enum row_kind kind;
    struct report_column column;
} members[] = {
    {"seq", ROW_COUNT, {.heading = "seq", .key = "seq", .is_right = true}},
    {"layout.tp", ROW_COUNT, {.heading = "tp", .key = "tp", .is_right = true}},
    {"layout.sp", ROW_COUNT, {.heading = "sp", .key = "sp", .is_right = true}},
    {"layout.sp_method", ROW_TEXT, {.heading = "method", .key = "sp_method"}},
    {"layout.pp", ROW_COUNT, {.heading = "pp", .key = "pp", .is_right = true}},
    {"layout.dp", ROW_COUNT, {.heading = "dp", .key = "dp", .is_right = true}},
    {"global_batch", ROW_COUNT, {.heading = "batch", .key = "global_batch", .is_right = true}},
    {"step_time_s", ROW_FIGURE, {.heading = "step s", .key = "step_time_s", .is_right = true}},
    {"tokens_per_s_per_gpu", ROW_FIGURE, {.heading = "tokens/s/GPU", .key = "tokens_per_s_per_gpu", .is_right = true}},
    {"mfu_frac", ROW_PERCENT, {.heading = "MFU %", .key = "mfu_frac", .is_right = true}},
    {"peak_bytes", ROW_GIB, {.heading = "peak GiB", .key = "peak_bytes", .is_right = true}},
    {"fits", ROW_BOOL, {.heading = "fits", .key = "fits"}},
    {"bound", ROW_TEXT, {.heading = "bound", .key = "bound"}},
    {"error.text", ROW_TEXT, {.heading = "error", .key = "error", .is_note = true}},
};

static const char *number_text(struct sp_arena *arena, enum row_kind kind, double value)
{
    enum { PERCENT = 100 };
    switch (kind) {
    case ROW_COUNT:
        return sp_format(arena, "%.0f", value);
    case ROW_GIB:
        return report_three(arena, value / BYTES_PER_GIB);
    case ROW_PERCENT:
        return report_three(arena, value * PERCENT);
    case ROW_FIGURE:
    case ROW_TEXT:
    case ROW_BOOL:
        break;
    }
    return report_three(arena, value);
}

static void put_member(struct report_grid *grid, int column, const struct row_member *member, const struct sp_json *row)
{
    const struct sp_json *value = row->type == SP_JSON_OBJECT ? report_tree_at(row, member->path) : NULL;
    if (value == NULL) {
        return;
    }
    if (value->type == SP_JSON_NUMBER && member->kind != ROW_TEXT && member->kind != ROW_BOOL) {
        report_grid_number(grid, column, value->number, number_text(grid->arena, member->kind, value->number));
    } else if (value->type == SP_JSON_BOOL) {
        report_grid_bool(grid, column, value->boolean, value->boolean ? "yes" : "no");
    } else if (value->type == SP_JSON_STRING) {
        report_grid_text(grid, column, "%s", value->string);
    }
}

/* What a visit of the rows of one sweep needs. */
struct reading {
    struct sp_arena *scratch; /* of the row at hand */
    const char *name;         /* of the sweep, in errors */
    struct report_grid *grid; /* or NULL */
    FILE *file;               /* or NULL */
};

static bool read_row(void *user, int64_t point, const char *json, struct sp_error *err)
{
    struct reading *reading = user;
    struct sp_arena_mark mark = sp_arena_mark(reading->scratch);
    const char *name = sp_format(reading->scratch, "%s, point %" PRId64, reading->name, point);
    const struct sp_json *row = sp_json_parse(reading->scratch, name, json, err);
    if (row == NULL) {
        err->kind = SP_ERROR_IO; /* no file of the user's: the store holds what it should not */
    } else if (reading->grid != NULL) {
        report_grid_add(reading->grid);
        put_integer(reading->grid, 0, point);
        for (size_t i = 0; i < SP_COUNT_OF(members); i++) {
            put_member(reading->grid, 1 + (int)i, &members[i], row);
        }
    }
    sp_arena_rewind(reading->scratch, mark);
    return row != NULL;
}

/* Line breaks stand only between the tokens of a JSON text. */
static bool write_row(void *user, int64_t point, const char *json, struct sp_error *err)
{
    (void)err;
    const struct reading *reading = user;
    (void)fprintf(reading->file, "{\"point\": %" PRId64 ", \"row\": ", point);
    for (const char *at = json; *at != '\0'; at++) {
        (void)fputc(*at == '\n' || *at == '\r' ? ' ' : *at, reading->file);
    }
    (void)fputs("}\n", reading->file);
    return true;
}

static bool read_id(const char *text, int64_t *id, struct sp_error *err)
{
    enum { DECIMAL = 10 };
    char *end = NULL;
    errno = 0;
    *id = strtoll(text, &end, DECIMAL);
    bool is_number = text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0;
    return is_number ||
           sp_fail(err, SP_ERROR_USAGE,
                   "show run: expected the number of a run, as 'seqplan show runs' lists them, found \"%.40s\"", text);
}

/* What a number names: a sweep, or a run of measurements. */
struct found {
    bool is_measured;
    int64_t id;
    struct store_listing sweep;
};

static bool find_listing(struct store *store, struct sp_arena *arena, struct found *found, struct sp_error *err)
{
    struct store_listing *sweeps = NULL;
    struct store_run_listing *runs = NULL;
    size_t n_sweeps = 0;
    size_t n_runs = 0;
    if (!store_sweeps_list(store, arena, &sweeps, &n_sweeps, err) ||
        !store_runs_list(store, arena, &runs, &n_runs, err)) {
        return false;
    }
    for (size_t i = 0; i < n_sweeps; i++) {
        if (sweeps[i].id == found->id) {
            found->sweep = sweeps[i];
            return true;
        }
    }
    for (size_t i = 0; i < n_runs && !found->is_measured; i++) {
        found->is_measured = runs[i].id == found->id;
    }
    return found->is_measured ||
           sp_fail(err, SP_ERROR_INPUT, "%s: no run %" PRId64 ": 'seqplan show runs' lists the %zu there are",
                   store_path(store), found->id, n_sweeps + n_runs);
}

/* Caller closes the store when this succeeds. */
static bool open_run(const struct show_request *request, struct store **store, struct found *found,
                     struct sp_error *err)
{
    const char *path = NULL;
    *found = (struct found){.id = 0};
    if (!read_id(request->name, &found->id, err) || !open_store(request, store, &path, err)) {
        return false;
    }
    if (*store == NULL) {
        return sp_fail(err, SP_ERROR_INPUT, "no run %" PRId64 ": no runs are stored yet in %s", found->id, path);
    }
    if (!find_listing(*store, request->arena, found, err)) {
        store_close(*store);
        return false;
    }
    return true;
}

/* Reads everything once before the first line is written. */
static bool write_sweep(const struct show_request *request, struct store *store, const struct store_listing *listing,
                        FILE *file, struct sp_error *err)
{
    struct reading reading = {.scratch = sp_arena_open(),
                              .name = sp_format(request->arena, "%s: run %" PRId64, store_path(store), listing->id),
                              .file = file};
    bool is_good = store_rows_visit(store, listing->id, read_row, &reading, err) &&
                   store_rows_visit(store, listing->id, write_row, &reading, err);
    sp_arena_close(reading.scratch);
    return is_good;
}

/* A sweep in JSON, or measurements in any format. */
static bool write_run(const struct show_request *request, FILE *file, struct sp_error *err)
{
    struct store *store = NULL;
    struct found found;
    if (!open_run(request, &store, &found, err)) {
        return false;
    }
    bool is_good = found.is_measured ? measure_run_print(store, request->arena, found.id, request->style, err)
                                     : write_sweep(request, store, &found.sweep, file, err);
    store_close(store);
    return is_good;
}

static const struct report_column *run_columns(struct sp_arena *arena)
{
    struct report_column *columns = sp_arena_array(arena, 1 + SP_COUNT_OF(members), sizeof(*columns));
    columns[0] = (struct report_column){.heading = "point", .key = "point", .is_right = true};
    for (size_t i = 0; i < SP_COUNT_OF(members); i++) {
        columns[1 + i] = members[i].column;
    }
    return columns;
}

static bool fill_rows(const struct show_request *request, struct store *store, const struct store_listing *listing,
                      struct show_answer *answer, struct sp_error *err)
{
    report_grid_init(&answer->grid, request->arena, run_columns(request->arena), 1 + (int)SP_COUNT_OF(members));
    answer->title = sp_format(request->arena, "Run %" PRId64 ": %s, %" PRId64 " of %" PRId64 " points stored",
                              listing->id, listing->sweep.command, listing->n_rows, listing->sweep.n_points);
    struct reading reading = {.scratch = sp_arena_open(),
                              .name = sp_format(request->arena, "%s: run %" PRId64, store_path(store), listing->id),
                              .grid = &answer->grid};
    bool is_good = store_rows_visit(store, listing->id, read_row, &reading, err);
    sp_arena_close(reading.scratch);
    return is_good;
}

bool show_run(const struct show_request *request, struct show_answer *answer, struct sp_error *err)
{
    struct store *store = NULL;
    struct found found;
    if (!open_run(request, &store, &found, err)) {
        return false;
    }
    bool is_written = found.is_measured || request->format == REPORT_JSON;
    bool is_good = is_written || fill_rows(request, store, &found.sweep, answer, err);
    answer->write = is_written ? write_run : NULL;
    store_close(store);
    return is_good;
}
