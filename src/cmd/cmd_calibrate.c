/* calibrate: fits the curves of a machine to what was measured on it, and writes them as a hardware file. */
#include "cmd/measure.h"

#include <stdlib.h>
#include <string.h>

/* ---- options ---------------------------------------------------------------------------------------------------- */

/* What is fitted where nothing else is asked. A launch alone is left out: a framework's own launches take longer, and a
 * file may hold those. */
static const unsigned usual_groups = 1U << MEASUREMENT_COPY | 1U << MEASUREMENT_GEMM | 1U << MEASUREMENT_ATTENTION |
                                     1U << MEASUREMENT_ELEMENTWISE | 1U << MEASUREMENT_OPTIMIZER |
                                     1U << MEASUREMENT_COLLECTIVE;

static bool read_groups(const char *only, unsigned *groups, struct sp_error *err)
{
    *groups = usual_groups;
    if (only == NULL) {
        return true;
    }
    const struct option_list list = {.name = "only", .text = only, .example = "gemm,attention"};
    const char *fitted[N_MEASUREMENT_GROUPS + 1] = {NULL};
    int n_fitted = 0;
    while (((usual_groups | 1U << MEASUREMENT_LATENCY) >> (unsigned)n_fitted & 1U) != 0) { /* the first of all */
        fitted[n_fitted] = measurement_group_names[n_fitted];
        n_fitted++;
    }
    struct sp_error other;
    if (option_list_names(&list, measurement_group_names, groups, &other) && *groups >> (unsigned)n_fitted != 0) {
        return sp_fail(err, SP_ERROR_USAGE,
                       "--only: whole methods, layers and steps are not fitted, they judge: expected some of copy, "
                       "gemm, attention, "
                       "elementwise, optimizer, collective, latency");
    }
    return option_list_names(&list, fitted, groups, err);
}

/* "my-h200" of "out/my-h200.json". */
static const char *name_of_file(struct sp_arena *arena, const char *path)
{
    static const char ending[] = ".json";
    const char *slash = strrchr(path, '/');
    const char *name = slash == NULL ? path : slash + 1;
    size_t length = strlen(name);
    size_t tail = strlen(ending);
    bool has_ending = length > tail && strcmp(name + length - tail, ending) == 0;
    return sp_strndup(arena, name, has_ending ? length - tail : length);
}

static bool check_options(const struct command_options *options, const struct sp_texts *files, struct sp_error *err)
{
    const struct calibrate_typed *typed = &options->calibrate;
    if (options->request.hardware == NULL) {
        return sp_fail(err, SP_ERROR_USAGE,
                       "--hardware is missing: name the machine that was measured, e.g. --hardware dgx-h200");
    }
    if (files->count == 0 && typed->runs == NULL) {
        return sp_fail(
            err, SP_ERROR_USAGE,
            "no measurements: name files of them, or stored runs with --run ('seqplan show runs' lists them)");
    }
    return true;
}

/* Measurements, the store, the hardware that was named: -o overwrites none of them. */
static bool check_output(struct command_context *context, const struct command_options *options,
                         const struct sp_texts *files, struct sp_error *err)
{
    struct sp_texts inputs = {.arena = context->arena};
    struct sp_error ignored;
    for (size_t i = 0; i < files->count; i++) {
        sp_texts_add(&inputs, "%s", files->items[i]);
    }
    command_add_store(&inputs, options->db);
    const char *hardware = data_find(context->arena, "hardware", options->request.hardware, &ignored);
    if (hardware != NULL) {
        sp_texts_add(&inputs, "%s", hardware);
    }
    return command_check_output(options->calibrate.output, &inputs, err);
}

/* ---- runs ------------------------------------------------------------------------------------------------------- */

struct gathered_runs {
    struct calibration_run *items;
    size_t n;
};

/* "1,2" of "1,2,1": a run that is named again counts once, and is no mistake. */
static const char *once(struct sp_arena *arena, const char *list)
{
    struct sp_texts items = {.arena = arena};
    for (const char *at = list; at != NULL; at = strchr(at, ',')) {
        at += *at == ',' ? 1 : 0;
        const char *item = sp_strndup(arena, at, strcspn(at, ","));
        if (item[0] == '\0' || !sp_texts_has(&items, item)) { /* an empty one is a mistake */
            sp_texts_add(&items, "%s", item);
        }
    }
    return sp_join(arena, items.items, items.count, ",");
}

static bool read_stored(struct command_context *context, struct store *store, const char *text,
                        struct gathered_runs *runs, struct sp_error *err)
{
    const struct option_list list = {.name = "run", .text = once(context->arena, text), .example = "3,4"};
    struct plan_counts ids;
    if (!option_list_counts(&list, context->arena, &ids, err)) {
        return false;
    }
    struct calibration_run *items = sp_arena_array(context->arena, runs->n + (size_t)ids.n, sizeof(*items));
    for (size_t i = 0; i < runs->n; i++) {
        items[i] = runs->items[i];
    }
    runs->items = items;
    for (int i = 0; i < ids.n; i++) {
        struct measure_run_content content;
        if (!measure_run_read(store, context->arena, ids.values[i], &content, err)) {
            return false;
        }
        runs->items[runs->n++] = (struct calibration_run){
            .key = content.listing.run.key, .machine = content.machine, .rows = content.rows, .n_rows = content.n_rows};
    }
    return true;
}

static bool open_stored(struct command_context *context, const struct command_options *options,
                        struct gathered_runs *runs, struct sp_error *err)
{
    struct store *store = NULL;
    if (options->calibrate.runs == NULL) {
        return true;
    }
    if (!store_open_existing(context->arena, options->db, &store, err)) {
        return false;
    }
    if (store == NULL) {
        return sp_fail(err, SP_ERROR_INPUT, "no run %s: nothing is stored yet", options->calibrate.runs);
    }
    bool is_good = read_stored(context, store, options->calibrate.runs, runs, err);
    store_close(store);
    return is_good;
}

static bool gather_runs(struct command_context *context, const struct command_options *options,
                        const struct sp_texts *files, struct gathered_runs *runs, struct sp_error *err)
{
    runs->items = sp_arena_array(context->arena, files->count + 1, sizeof(*runs->items));
    for (size_t i = 0; i < files->count; i++) {
        if (!measure_file_read(context->arena, files->items[i], &runs->items[runs->n], err)) {
            return false;
        }
        runs->n++;
    }
    return open_stored(context, options, runs, err);
}

/* ---- the answer ------------------------------------------------------------------------------------------------- */

static void put_file(FILE *file, const struct calibration *calibration)
{
    report_tree_write(calibration->file, file);
}

static bool write_file(struct command_context *context, const char *path, const struct calibration *calibration,
                       struct sp_error *err)
{
    char *text = NULL;
    size_t length = 0;
    FILE *memory = open_memstream(&text, &length);
    struct whole_file *file = memory == NULL ? NULL : whole_file_open(context->arena, path, err);
    if (memory == NULL) {
        return sp_fail(err, SP_ERROR_IO, "out of memory: close other programs and run the same again");
    }
    put_file(memory, calibration);
    bool is_written = fclose(memory) == 0;
    if (file != NULL && is_written) {
        whole_file_write(file, text, length);
    }
    free(text);
    if (file == NULL) {
        return false;
    }
    if (!is_written) {
        whole_file_drop(file);
        return sp_fail(err, SP_ERROR_IO, "out of memory: close other programs and run the same again");
    }
    return whole_file_close(file, err);
}

static bool answer(struct command_context *context, const struct command_options *options,
                   const struct calibration *calibration, struct sp_error *err)
{
    const char *path = options->calibrate.output;
    if (path != NULL && strcmp(path, "-") == 0) {
        put_file(context->out, calibration);
        return true;
    }
    if (path != NULL && !write_file(context, path, calibration, err)) {
        return false;
    }
    const struct report_style style = command_style(context, options);
    const struct report_calibration report = {.calibration = calibration, .path = path};
    report_calibration(&style, context->arena, &report);
    if (path == NULL) {
        (void)fprintf(stderr, "seqplan: nothing is written: -o FILE keeps the fitted hardware\n");
    } else {
        (void)fprintf(stderr, "seqplan: wrote %s: use it with --hardware %s%s\n", path,
                      strchr(path, '/') == NULL ? "./" : "", path);
    }
    return true;
}

bool cmd_calibrate(struct command_context *context, int argc, char **argv, struct sp_error *err)
{
    struct command_options options;
    struct sp_texts files = {.arena = context->arena};
    if (!command_options_parse(context, argc, argv, &options, &files, err)) {
        return false;
    }
    if (options.wants_help) {
        return true;
    }
    struct gathered_runs runs = {.n = 0};
    const char *path = options.calibrate.output;
    struct calibration_request request = {.hardware = options.request.hardware, .kernel = "seqplan"};
    struct calibration calibration;
    if (!check_options(&options, &files, err) || !check_output(context, &options, &files, err) ||
        !read_groups(options.calibrate.only, &request.groups, err) ||
        !gather_runs(context, &options, &files, &runs, err)) {
        return false;
    }
    request.runs = runs.items;
    request.n_runs = runs.n;
    request.name = path == NULL || strcmp(path, "-") == 0
                       ? sp_format(context->arena, "%s-calibrated", name_of_file(context->arena, request.hardware))
                       : name_of_file(context->arena, path);
    return calibrate(context->arena, &request, &calibration, err) && answer(context, &options, &calibration, err);
}

/* ---- the table of options --------------------------------------------------------------------------------------- */

#define AT(member) offsetof(struct command_options, calibrate.member)

static const char what_group[] = "What is fitted";

const struct sp_option calibrate_options[] = {
    {.name = "hardware",
     .type = SP_OPTION_TEXT,
     .offset = offsetof(struct command_options, request.hardware),
     .argument = "NAME|PATH",
     .group = what_group,
     .help = "the machine that was measured; keeps its figures where nothing was measured"},
    {.name = "run",
     .type = SP_OPTION_TEXT,
     .offset = AT(runs),
     .argument = "ID,ID",
     .group = what_group,
     .help = "stored runs of measurements ('seqplan show runs'), beside the files that are named"},
    {.name = "only",
     .type = SP_OPTION_TEXT,
     .offset = AT(only),
     .argument = "GROUP,GROUP",
     .group = what_group,
     .help = "some of copy, gemm, attention, elementwise, optimizer, collective, latency; default: all but latency"},
    {.name = "output",
     .letter = 'o',
     .type = SP_OPTION_TEXT,
     .offset = AT(output),
     .argument = "FILE",
     .group = what_group,
     .help = "writes the fitted hardware to this file, which --hardware reads; - is standard output"},
    {.name = NULL},
};
