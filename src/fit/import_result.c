/* What an importer says of each line, and the runs that it makes. */
#include "fit/gpu_name.h"
#include "fit/import_internal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void import_result_open(struct import_result *result, struct sp_arena *arena)
{
    *result = (struct import_result){.arena = arena, .warnings = {.arena = arena}};
}

SP_PRINTF(4, 0)
static void add_note(struct import_result *result, int64_t line, const char *reason, const char *format, va_list args)
{
    enum { NOTE_BYTES = 512 };
    char text[NOTE_BYTES];
    (void)vsnprintf(text, sizeof(text), format, args);
    if (result->n_notes == result->capacity) {
        result->notes =
            sp_arena_grow(result->arena, result->notes, result->n_notes, &result->capacity, sizeof(*result->notes));
    }
    result->notes[result->n_notes++] = (struct import_note){
        .line = line, .is_taken = reason[0] == '\0', .reason = reason, .text = sp_strdup(result->arena, text)};
}

static void mark_flawed(struct import_result *result, bool is_taken)
{
    struct import_note *note = &result->notes[result->n_notes - 1];
    note->is_flawed = true;
    note->is_taken = is_taken;
}

void import_take(struct import_result *result, int64_t line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add_note(result, line, "", format, args);
    va_end(args);
    result->n_taken++;
}

void import_skip(struct import_result *result, int64_t line, const char *reason, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add_note(result, line, reason, format, args);
    va_end(args);
    result->n_skipped++;
}

void import_reject(struct import_result *result, int64_t line, const char *reason, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add_note(result, line, reason, format, args);
    va_end(args);
    mark_flawed(result, false);
    result->n_skipped++;
}

void import_take_half(struct import_result *result, int64_t line, const char *reason, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add_note(result, line, reason, format, args);
    va_end(args);
    mark_flawed(result, true);
    result->n_taken++;
    result->n_parts++;
}

static int compare_notes(const void *a, const void *b)
{
    const struct import_note *left = a;
    const struct import_note *right = b;
    return (left->line > right->line) - (left->line < right->line);
}

void import_sort_notes(struct import_result *result)
{
    if (result->n_notes > 1) {
        qsort(result->notes, (size_t)result->n_notes, sizeof(*result->notes), compare_notes);
    }
}

/* The same machine with the same rows is the same run, whatever the file is called and whatever stands around the rows. */
static const char *content_key(struct sp_arena *arena, const struct store_import *run)
{
    uint64_t hash = sp_fnv1a(SP_FNV1A_BASIS, run->run.machine, strlen(run->run.machine) + 1);
    for (size_t i = 0; i < run->n_rows; i++) {
        hash = sp_fnv1a(hash, run->rows[i].json, strlen(run->rows[i].json) + 1);
    }
    return sp_format(arena, "import-%016" PRIx64, hash);
}

void import_add_run(struct import_result *result, const struct store_import *run)
{
    struct store_import *runs = sp_arena_array(result->arena, result->n_runs + 1, sizeof(*runs));
    if (result->n_runs > 0) {
        memcpy(runs, result->runs, result->n_runs * sizeof(*runs));
    }
    result->runs = runs;
    struct store_import *added = &runs[result->n_runs++];
    *added = *run;
    added->run.key = content_key(result->arena, run);
    added->run.version = "";
    added->n_planned = (int64_t)run->n_rows;
    added->is_finished = true;
    result->n_measurements += (int64_t)run->n_rows;
}

bool import_settle_gpu(struct import_result *result, const char *logged, const char *given, const char **gpu,
                       struct sp_error *err)
{
    *gpu = given != NULL ? given : logged;
    if (given == NULL || logged == NULL || strcmp(given, logged) == 0) {
        return true;
    }
    if (!gpu_name_has_chip(given) || !gpu_name_has_chip(logged)) {
        sp_texts_add(&result->warnings, "the log names the GPU %s, --gpu says %s: kept as %s", logged, given, given);
        return true;
    }
    return !gpu_name_is_other(given, logged) ||
           sp_fail(err, SP_ERROR_INPUT, "the log names the GPU %s, --gpu says %s: leave --gpu out", logged, given);
}

/* ---- JSON ------------------------------------------------------------------------------------------------------- */

static bool fail_memory(struct sp_error *err)
{
    return sp_fail(err, SP_ERROR_IO, "out of memory: close other programs and run the same again");
}

bool import_json_open_lines(struct import_json *json, struct sp_error *err)
{
    *json = (struct import_json){.text = NULL};
    json->file = open_memstream(&json->text, &json->size);
    if (json->file == NULL) {
        return fail_memory(err);
    }
    json->writer = (struct sp_json_writer){.file = json->file};
    sp_json_begin_object(&json->writer, NULL);
    return true;
}

bool import_json_open(struct import_json *json, struct sp_error *err)
{
    bool is_open = import_json_open_lines(json, err);
    json->writer.is_compact = is_open;
    return is_open;
}

const char *import_json_close(struct import_json *json, struct sp_arena *arena, struct sp_error *err)
{
    sp_json_end_object(&json->writer);
    bool is_written = ferror(json->file) == 0;
    is_written = fclose(json->file) == 0 && is_written;
    /* a document ends with a line break, a line of a file gets its own */
    const char *line = is_written ? sp_strndup(arena, json->text, json->size - 1) : NULL;
    free(json->text);
    if (line == NULL) {
        (void)fail_memory(err);
    }
    return line;
}

void import_json_value(struct sp_json_writer *writer, const struct sp_json *value)
{
    switch (value->type) {
    case SP_JSON_NULL:
        sp_json_put_null(writer, value->key);
        return;
    case SP_JSON_BOOL:
        sp_json_put_bool(writer, value->key, value->boolean);
        return;
    case SP_JSON_NUMBER:
        sp_json_put_number(writer, value->key, value->number);
        return;
    case SP_JSON_STRING:
        sp_json_put_string(writer, value->key, value->string);
        return;
    case SP_JSON_ARRAY:
    case SP_JSON_OBJECT:
        break;
    }
    bool is_array = value->type == SP_JSON_ARRAY;
    is_array ? sp_json_begin_array(writer, value->key) : sp_json_begin_object(writer, value->key);
    bool is_row = is_array && value->first != NULL && value->first->type != SP_JSON_OBJECT &&
                  value->first->type != SP_JSON_ARRAY && !writer->is_compact;
    writer->is_compact = writer->is_compact || is_row;
    for (const struct sp_json *member = value->first; member != NULL; member = member->next) {
        import_json_value(writer, member);
    }
    is_array ? sp_json_end_array(writer) : sp_json_end_object(writer);
}

void import_json_times(struct sp_json_writer *writer, const struct import_times *times)
{
    sp_json_put_string(writer, "unit", "s");
    sp_json_put_number(writer, "median", times->median_s);
    sp_json_put_number(writer, "min", times->min_s);
    sp_json_put_number(writer, "low", times->low_s);
    sp_json_put_number(writer, "high", times->high_s);
    sp_json_put_integer(writer, "count", times->count);
    if (times->bytes > 0) {
        sp_json_put_number(writer, "bytes", times->bytes);
    }
}
