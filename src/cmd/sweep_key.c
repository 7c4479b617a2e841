/* What makes two sweeps the same: command, version, options, values and the bytes of every file that rows are made from. */
#include "cmd/sweep.h"

#include <string.h>

/* Files that name files: a layout its model, a machine its GPU. */
enum { MAX_FILE_DEPTH = 4 };

/* They change how rows are shown, what is said beside them, or how they are found, but no row. */
static const char *const immaterial[] = {"format", "no-color", "help", "db", "vary", "threads", NULL};

static void add_text(uint64_t *hash, const char *text)
{
    *hash = sp_fnv1a(*hash, text, strlen(text) + 1);
}

/* As data_find() tells a path from a name. */
static bool is_path(const char *text)
{
    static const char extension[] = ".json";
    size_t length = strlen(text);
    size_t end = strlen(extension);
    return strchr(text, '/') != NULL || (length > end && strcmp(text + length - end, extension) == 0);
}

static void add_file(struct sp_arena *arena, uint64_t *hash, const char *path, int depth);

static void add_named_files(struct sp_arena *arena, uint64_t *hash, const struct sp_json *value, int depth)
{
    if (value->type == SP_JSON_STRING && is_path(value->string)) {
        add_file(arena, hash, value->string, depth);
    }
    for (const struct sp_json *member = value->first; member != NULL; member = member->next) {
        add_named_files(arena, hash, member, depth);
    }
}

/* What cannot be read is left out: the rows that need it will say so. */
static void add_file(struct sp_arena *arena, uint64_t *hash, const char *path, int depth)
{
    struct sp_error ignored = {.kind = SP_ERROR_NONE};
    if (depth == MAX_FILE_DEPTH || !report_hash_file(hash, path, &ignored)) {
        return;
    }
    const struct sp_json *json = sp_json_read(arena, path, &ignored);
    if (json != NULL) {
        add_named_files(arena, hash, json, depth + 1);
    }
}

/* Of the options at the first point and of every value: a file among them counts with its bytes. */
static void add_given_files(struct sp_arena *arena, uint64_t *hash, const struct points *points,
                            const struct request *request)
{
    const char *const given[] = {request->model, request->hardware, request->network, request->layout_file};
    for (size_t i = 0; i < SP_COUNT_OF(given); i++) {
        if (given[i] != NULL && (is_path(given[i]) || given[i] == request->layout_file)) {
            add_file(arena, hash, given[i], 0);
        }
    }
    for (int i = 0; i < points->n_varied; i++) {
        bool is_layout = strcmp(points->varied[i].name, "layout") == 0;
        for (int value = 0; value < points->varied[i].n_values; value++) {
            if (is_layout || is_path(points->varied[i].values[value])) {
                add_file(arena, hash, points->varied[i].values[value], 0);
            }
        }
    }
}

static void add_varied(uint64_t *hash, const struct varied *varied)
{
    add_text(hash, varied->name);
    for (int i = 0; i < varied->n_values; i++) {
        add_text(hash, varied->values[i]);
    }
    add_text(hash, ""); /* no value is empty: here the list ends */
}

static const char *hash_text(struct sp_arena *arena, uint64_t hash)
{
    return sp_format(arena, "%016llx", (unsigned long long)hash);
}

bool sweep_identify(const struct sweep *sweep, const struct points *points, struct store_sweep *identity,
                    struct sp_error *err)
{
    struct sp_arena *arena = sweep->context->arena;
    struct command_options first;
    uint64_t data = SP_FNV1A_BASIS;
    if (!points_options(points, arena, 0, &first, err) || !report_hash_all(arena, &data, err)) {
        return false;
    }
    add_given_files(arena, &data, points, &first.request);
    *identity = (struct store_sweep){.command = sweep->command,
                                     .version = sweep->context->version,
                                     .data_hash = hash_text(arena, data),
                                     .n_points = points->n_points};
    uint64_t key = SP_FNV1A_BASIS;
    add_text(&key, identity->command);
    add_text(&key, identity->version);
    add_text(&key, identity->data_hash);
    const struct sp_option *table = command_option_table(arena, command_find(sweep->command));
    add_text(&key, sp_options_text(table, &first, immaterial, arena));
    for (int i = 0; i < points->n_varied; i++) {
        add_varied(&key, &points->varied[i]);
    }
    identity->key = hash_text(arena, key);
    return true;
}
