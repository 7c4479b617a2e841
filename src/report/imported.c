/* What was brought in: a line for each file, why lines were skipped, and on request what became of each. */
#include "report/report.h"

#include <string.h>

/* How many lines were skipped, or halves of lines left out, for one reason. */
struct reason {
    const char *text;
    int64_t count;
};

static struct reason *count_reasons(struct sp_arena *arena, const struct import_result *result, bool is_of_halves,
                                    size_t *n_reasons)
{
    struct reason *reasons = sp_arena_array(arena, (size_t)result->n_notes + 1, sizeof(*reasons));
    *n_reasons = 0;
    for (int64_t i = 0; i < result->n_notes; i++) {
        size_t at = 0;
        if (result->notes[i].is_taken != is_of_halves || result->notes[i].reason[0] == '\0') {
            continue;
        }
        while (at < *n_reasons && strcmp(reasons[at].text, result->notes[i].reason) != 0) {
            at++;
        }
        *n_reasons += at == *n_reasons ? 1 : 0;
        reasons[at].text = result->notes[i].reason;
        reasons[at].count++;
    }
    return reasons;
}

static int64_t count_added(const struct import_result *result)
{
    int64_t n_added = 0;
    for (size_t i = 0; i < result->n_runs; i++) {
        n_added += result->runs[i].n_added;
    }
    return n_added;
}

/* "run 3", "runs 3, 4" */
static const char *runs_text(struct sp_arena *arena, const struct import_result *result)
{
    struct sp_texts ids = {.arena = arena};
    for (size_t i = 0; i < result->n_runs; i++) {
        sp_texts_add(&ids, "%lld", (long long)result->runs[i].id);
    }
    return sp_format(arena, "run%s %s", sp_plural((int64_t)ids.count), sp_join(arena, ids.items, ids.count, ", "));
}

/* " (1 an empty message, 1 cut off)" */
static const char *reasons_text(struct sp_arena *arena, const struct import_result *result, bool is_of_halves)
{
    size_t n_reasons = 0;
    const struct reason *reasons = count_reasons(arena, result, is_of_halves, &n_reasons);
    struct sp_texts texts = {.arena = arena};
    for (size_t i = 0; i < n_reasons; i++) {
        sp_texts_add(&texts, "%lld %s", (long long)reasons[i].count, reasons[i].text);
    }
    return texts.count == 0 ? "" : sp_format(arena, " (%s)", sp_join(arena, texts.items, texts.count, ", "));
}

/* "2 skipped (2 an empty message), 1 half left out (1 a wrong result)" */
static const char *skipped_text(struct sp_arena *arena, const struct import_result *result)
{
    const char *halves = result->n_parts == 0
                             ? ""
                             : sp_format(arena, ", %lld %s left out%s", (long long)result->n_parts,
                                         result->n_parts == 1 ? "half" : "halves", reasons_text(arena, result, true));
    return sp_format(arena, "%lld skipped%s%s", (long long)result->n_skipped, reasons_text(arena, result, false),
                     halves);
}

/* "64 measurements, 60 of them new, in run 3" */
static const char *stored_text(struct sp_arena *arena, const struct report_imported *imported)
{
    const struct import_result *result = imported->result;
    if (imported->output != NULL) {
        return sp_format(arena, "written to %s", imported->output);
    }
    int64_t n_added = count_added(result);
    const char *news = n_added == result->n_measurements ? "all new"
                       : n_added == 0                    ? "none new"
                                                         : sp_format(arena, "%lld of them new", (long long)n_added);
    return sp_format(arena, "%lld measurement%s, %s, in %s", (long long)result->n_measurements,
                     sp_plural(result->n_measurements), news, runs_text(arena, result));
}

/* Every line, or the first of those that have lost something they should not have. */
static void say_lines(FILE *file, const struct report_imported *imported)
{
    enum { MOST_NAMED = 5 };
    const struct import_result *result = imported->result;
    int64_t n_flawed = 0;
    for (int64_t i = 0; i < result->n_notes; i++) {
        const struct import_note *note = &result->notes[i];
        n_flawed += note->is_flawed ? 1 : 0;
        if (imported->is_verbose || (note->is_flawed && n_flawed <= MOST_NAMED)) {
            (void)fprintf(file, "seqplan: %s: line %lld: %s: %s\n", imported->name, (long long)note->line,
                          note->is_taken ? "taken" : "skipped", note->text);
        }
    }
    if (n_flawed > MOST_NAMED && !imported->is_verbose) {
        (void)fprintf(file, "seqplan: %s: and %lld lines more, which --verbose names\n", imported->name,
                      (long long)(n_flawed - MOST_NAMED));
    }
}

void report_imported_say(FILE *file, struct sp_arena *arena, const struct report_imported *imported)
{
    const struct import_result *result = imported->result;
    say_lines(file, imported);
    for (size_t i = 0; i < result->warnings.count; i++) {
        (void)fprintf(file, "seqplan: %s: %s\n", imported->name, result->warnings.items[i]);
    }
    (void)fprintf(file, "seqplan: %s: %s: %lld line%s taken, %s: %s\n", imported->name, imported->kind,
                  (long long)result->n_taken, sp_plural(result->n_taken), skipped_text(arena, result),
                  stored_text(arena, imported));
}

/* ---- tables ----------------------------------------------------------------------------------------------------- */

static void print_table(const struct report_style *style, struct sp_arena *arena,
                        const struct report_imported *imported, size_t n_imported)
{
    enum { FILE_COLUMN, KIND_COLUMN, TAKEN_COLUMN, SKIPPED_COLUMN, TIMED_COLUMN, NEW_COLUMN, RUN_COLUMN, N_COLUMNS };
    static const struct report_column columns[N_COLUMNS] = {
        [FILE_COLUMN] = {.heading = "file"},
        [KIND_COLUMN] = {.heading = "kind"},
        [TAKEN_COLUMN] = {.heading = "lines", .is_right = true},
        [SKIPPED_COLUMN] = {.heading = "skipped", .is_right = true},
        [TIMED_COLUMN] = {.heading = "measurements", .is_right = true},
        [NEW_COLUMN] = {.heading = "new", .is_right = true},
        [RUN_COLUMN] = {.heading = "stored as"},
    };
    struct report_grid grid;
    report_grid_init(&grid, arena, columns, N_COLUMNS);
    for (size_t i = 0; i < n_imported; i++) {
        const struct import_result *result = imported[i].result;
        report_grid_add(&grid);
        report_grid_text(&grid, FILE_COLUMN, "%s", imported[i].name);
        report_grid_text(&grid, KIND_COLUMN, "%s", imported[i].kind);
        report_grid_text(&grid, TAKEN_COLUMN, "%lld", (long long)result->n_taken);
        report_grid_text(&grid, SKIPPED_COLUMN, "%lld", (long long)result->n_skipped);
        report_grid_text(&grid, TIMED_COLUMN, "%lld", (long long)result->n_measurements);
        report_grid_text(&grid, NEW_COLUMN, "%lld", (long long)count_added(result));
        report_grid_text(&grid, RUN_COLUMN, "%s",
                         imported[i].output != NULL ? imported[i].output : runs_text(arena, result));
    }
    report_grid_print(style, &grid);
}

/* ---- trees ------------------------------------------------------------------------------------------------------ */

static void put_runs(struct report_tree *tree, const struct import_result *result)
{
    report_tree_begin(tree, "runs", SP_JSON_ARRAY);
    for (size_t i = 0; i < result->n_runs; i++) {
        const struct store_import *run = &result->runs[i];
        report_tree_begin(tree, NULL, SP_JSON_OBJECT);
        report_tree_number(tree, "id", (double)run->id);
        report_tree_string(tree, "key", run->run.key);
        report_tree_string(tree, "profile", run->run.profile[0] == '\0' ? NULL : run->run.profile);
        report_tree_number(tree, "measurements", (double)run->n_rows);
        report_tree_number(tree, "added", (double)run->n_added);
        report_tree_end(tree);
    }
    report_tree_end(tree);
}

static void put_lines(struct report_tree *tree, const struct import_result *result)
{
    report_tree_begin(tree, "lines", SP_JSON_ARRAY);
    for (int64_t i = 0; i < result->n_notes; i++) {
        const struct import_note *note = &result->notes[i];
        report_tree_begin(tree, NULL, SP_JSON_OBJECT);
        report_tree_number(tree, "line", (double)note->line);
        report_tree_bool(tree, "taken", note->is_taken);
        report_tree_string(tree, "text", note->text);
        report_tree_end(tree);
    }
    report_tree_end(tree);
}

static void put_reasons(struct report_tree *tree, struct sp_arena *arena, const struct import_result *result,
                        bool is_of_halves)
{
    size_t n_reasons = 0;
    const struct reason *reasons = count_reasons(arena, result, is_of_halves, &n_reasons);
    report_tree_begin(tree, is_of_halves ? "halves_left_out_for" : "skipped_for", SP_JSON_OBJECT);
    for (size_t i = 0; i < n_reasons; i++) {
        report_tree_number(tree, reasons[i].text, (double)reasons[i].count);
    }
    report_tree_end(tree);
}

static void put_file(struct report_tree *tree, struct sp_arena *arena, const struct report_imported *imported)
{
    const struct import_result *result = imported->result;
    report_tree_string(tree, "file", imported->name);
    report_tree_string(tree, "kind", imported->kind);
    report_tree_number(tree, "taken", (double)result->n_taken);
    report_tree_number(tree, "skipped", (double)result->n_skipped);
    put_reasons(tree, arena, result, false);
    report_tree_number(tree, "halves_left_out", (double)result->n_parts);
    put_reasons(tree, arena, result, true);
    report_tree_number(tree, "measurements", (double)result->n_measurements);
    report_tree_number(tree, "added", (double)count_added(result));
    put_runs(tree, result);
    report_tree_string(tree, "hardware", imported->output);
    report_tree_texts(tree, "warnings", &result->warnings);
    if (imported->is_verbose) {
        put_lines(tree, result);
    }
}

static const struct sp_json *imported_tree(struct sp_arena *arena, const struct report_imported *imported,
                                           size_t n_imported)
{
    struct report_tree tree;
    report_tree_open(&tree, arena);
    report_tree_string(&tree, "schema", "seqplan.import/1");
    report_tree_begin(&tree, "files", SP_JSON_ARRAY);
    for (size_t i = 0; i < n_imported; i++) {
        report_tree_begin(&tree, NULL, SP_JSON_OBJECT);
        put_file(&tree, arena, &imported[i]);
        report_tree_end(&tree);
    }
    report_tree_end(&tree);
    return report_tree_close(&tree);
}

static void write_csv(const struct report_style *style, struct sp_arena *arena, const struct report_imported *imported,
                      size_t n_imported)
{
    const struct sp_json *files = sp_json_member(imported_tree(arena, imported, n_imported), "files");
    const struct sp_json **objects = sp_arena_array(arena, n_imported + 1, sizeof(*objects));
    int n_objects = 0;
    for (const struct sp_json *file = files->first; file != NULL; file = file->next) {
        objects[n_objects++] = file;
    }
    report_csv_write(arena, objects, n_objects, style->file);
}

void report_imported(const struct report_style *style, struct sp_arena *arena, const struct report_imported *imported,
                     size_t n_imported)
{
    switch (style->format) {
    case REPORT_JSON:
        report_tree_write(imported_tree(arena, imported, n_imported), style->file);
        return;
    case REPORT_CSV:
        write_csv(style, arena, imported, n_imported);
        return;
    case REPORT_TABLE:
    case REPORT_MARKDOWN:
        break;
    }
    print_table(style, arena, imported, n_imported);
}
