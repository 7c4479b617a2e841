/* A run of measurements in the store: found, read, printed, and written as a file. */
#include "cmd/measure.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

bool measure_run_find(struct store *store, struct sp_arena *arena, int64_t id, struct store_run_listing *listing,
                      struct sp_error *err)
{
    struct store_run_listing *runs = NULL;
    size_t n_runs = 0;
    *listing = (struct store_run_listing){.run = {.key = "", .profile = "", .version = "", .machine = ""}};
    if (!store_runs_list(store, arena, &runs, &n_runs, err)) {
        return false;
    }
    for (size_t i = 0; i < n_runs; i++) {
        if (runs[i].id == id) {
            *listing = runs[i];
            return true;
        }
    }
    return sp_fail(err, SP_ERROR_INPUT,
                   "%s: no run of measurements %" PRId64 ": 'seqplan show runs' lists what there is", store_path(store),
                   id);
}

static const char *name_of(struct sp_arena *arena, const struct store *store, int64_t id)
{
    return sp_format(arena, "%s: run %" PRId64, store_path(store), id);
}

const struct sp_json *measure_run_machine(struct store *store, struct sp_arena *arena,
                                          const struct store_run_listing *listing, struct sp_error *err)
{
    struct measurement line;
    if (measurement_parse(arena, listing->run.machine, strlen(listing->run.machine), &line, err)) {
        return line.json;
    }
    sp_error_prefix(err, "%s, its machine", name_of(arena, store, listing->id));
    err->kind = SP_ERROR_IO; /* no file of the user's: the store holds what it should not */
    return NULL;
}

const char *measure_machine_name(struct sp_arena *arena, const struct sp_json *machine)
{
    const struct sp_json *gpu = sp_json_member(machine, "gpu");
    const struct sp_json *host = sp_json_member(machine, "host");
    return host == NULL || host->type != SP_JSON_STRING ? sp_format(arena, "%s", gpu->string)
                                                        : sp_format(arena, "%s of %s", gpu->string, host->string);
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

struct reading {
    struct sp_arena *arena;
    const char *name; /* of the run, in errors */
    struct measurement *rows;
    size_t n_rows, capacity;
};

static bool read_row(void *user, const struct store_measurement *row, struct sp_error *err)
{
    struct reading *reading = user;
    assert(reading->n_rows < reading->capacity);
    if (measurement_parse(reading->arena, row->json, strlen(row->json), &reading->rows[reading->n_rows], err)) {
        reading->n_rows++;
        return true;
    }
    sp_error_prefix(err, "%s, \"%.80s\"", reading->name, row->key);
    err->kind = SP_ERROR_IO;
    return false;
}

bool measure_run_read(struct store *store, struct sp_arena *arena, int64_t id, struct measure_run_content *content,
                      struct sp_error *err)
{
    if (!measure_run_find(store, arena, id, &content->listing, err)) {
        return false;
    }
    content->machine = measure_run_machine(store, arena, &content->listing, err);
    size_t capacity = (size_t)content->listing.n_rows;
    struct reading reading = {.arena = arena,
                              .name = name_of(arena, store, id),
                              .rows = sp_arena_array(arena, capacity + 1, sizeof(struct measurement)),
                              .capacity = capacity};
    if (content->machine == NULL || !store_measurements_visit(store, id, read_row, &reading, err)) {
        return false;
    }
    content->rows = reading.rows;
    content->n_rows = reading.n_rows;
    return true;
}

bool measure_run_print(struct store *store, struct sp_arena *arena, int64_t id, const struct report_style *style,
                       struct sp_error *err)
{
    struct measure_run_content content;
    if (!measure_run_read(store, arena, id, &content, err)) {
        return false;
    }
    const struct store_run_listing *listing = &content.listing;
    const struct report_measured measured = {.id = id,
                                             .key = listing->run.key,
                                             .profile = listing->run.profile,
                                             .version = listing->run.version,
                                             .begun_at = listing->begun_at,
                                             .changed_at = listing->changed_at,
                                             .n_planned = listing->n_planned,
                                             .is_finished = listing->is_finished,
                                             .machine = content.machine,
                                             .rows = content.rows,
                                             .n_rows = content.n_rows};
    report_measured(style, arena, &measured);
    return true;
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

struct writing {
    struct whole_file *file; /* or NULL: out */
    FILE *out;
};

static void write_line(const struct writing *writing, const char *text)
{
    if (writing->file == NULL) {
        (void)fprintf(writing->out, "%s\n", text);
        return;
    }
    whole_file_write(writing->file, text, strlen(text));
    whole_file_write(writing->file, "\n", 1);
}

static bool write_row(void *user, const struct store_measurement *row, struct sp_error *err)
{
    (void)err;
    write_line(user, row->json);
    return true;
}

static const char *run_line(struct sp_arena *arena, const struct store_run_listing *listing)
{
    struct report_tree tree;
    report_tree_open(&tree, arena);
    report_tree_string(&tree, "kind", "run");
    report_tree_string(&tree, "schema", "seqplan.measurements/1");
    report_tree_string(&tree, "key", listing->run.key);
    report_tree_string(&tree, "profile", listing->run.profile);
    report_tree_string(&tree, "version", listing->run.version);
    return report_tree_text(arena, report_tree_close(&tree));
}

static bool write_lines(struct store *store, struct sp_arena *arena, const struct store_run_listing *listing,
                        struct writing *writing, struct sp_error *err)
{
    const char *first = run_line(arena, listing);
    if (first == NULL) {
        return sp_fail(err, SP_ERROR_IO, "out of memory: close other programs and run the same again");
    }
    write_line(writing, first);
    write_line(writing, listing->run.machine);
    if (listing->n_planned > 0) {
        write_line(writing, sp_format(arena, "{\"kind\": \"plan\", \"total\": %" PRId64 "}", listing->n_planned));
    }
    if (!store_measurements_visit(store, listing->id, write_row, writing, err)) {
        return false;
    }
    if (listing->is_finished) {
        write_line(writing, "{\"kind\": \"done\"}");
    }
    return true;
}

bool measure_run_write(struct store *store, struct sp_arena *arena, int64_t id, const struct measure_output *output,
                       struct sp_error *err)
{
    struct store_run_listing listing;
    if (!measure_run_find(store, arena, id, &listing, err)) {
        return false;
    }
    struct writing writing = {.out = output->out};
    if (strcmp(output->path, "-") == 0) {
        return write_lines(store, arena, &listing, &writing, err);
    }
    writing.file = whole_file_open(arena, output->path, err);
    if (writing.file == NULL) {
        return false;
    }
    if (!write_lines(store, arena, &listing, &writing, err)) {
        whole_file_drop(writing.file);
        return false;
    }
    return whole_file_close(writing.file, err);
}
