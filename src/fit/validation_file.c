/* Validation files: where the shipped ones are, and what is in one. */
#include "fit/validation_internal.h"

#include <string.h>

const char *const validation_state_names[] = {"compared", "not built", "refused", "not expressible"};
const char *const validation_role_names[] = {"judge", "fit", NULL};

static const char schema[] = "seqplan.validation/1";

/* In an installed program and in folders of SEQPLAN_PATH, and in a checkout. */
static const char *const kinds[] = {"validation", "tests/validation"};

bool validation_shipped(struct sp_arena *arena, struct sp_texts *paths, struct sp_error *err)
{
    *paths = (struct sp_texts){.arena = arena};
    for (size_t i = 0; i < SP_COUNT_OF(kinds); i++) {
        struct sp_texts names = {.arena = arena};
        data_names(arena, kinds[i], &names);
        for (size_t j = 0; j < names.count; j++) {
            const char *path = data_find(arena, kinds[i], names.items[j], err);
            if (path == NULL) {
                return false;
            }
            sp_texts_add(paths, "%s", path);
        }
    }
    return paths->count > 0 || sp_fail(err, SP_ERROR_INPUT,
                                       "no validation tables found: name a file, or add their folder's parent to "
                                       "SEQPLAN_PATH");
}

/* A row's members are texts, all there, so that the page can print them as they stand. */
static bool check_peer(struct sp_arena *arena, const char *path, const struct sp_json *row, struct sp_error *err)
{
    static const char *const keys[] = {"tool", "year", "data", "rows", "time", "memory", "intervals", "where", NULL};
    for (int i = 0; keys[i] != NULL; i++) {
        const struct sp_json *member = row->type == SP_JSON_OBJECT ? sp_json_member(row, keys[i]) : NULL;
        if (member == NULL || member->type != SP_JSON_STRING) {
            return sp_fail(err, SP_ERROR_INPUT, "%s: $.rows: expected objects with the texts %s", path,
                           sp_join(arena, keys, SP_COUNT_OF(keys) - 1, ", "));
        }
    }
    return true;
}

bool validation_peers(struct sp_arena *arena, const struct sp_json **peers, struct sp_error *err)
{
    static const char name[] = "accuracy";
    *peers = NULL;
    for (size_t i = 0; i < SP_COUNT_OF(kinds); i++) {
        const char *kind = sp_format(arena, "%s/peers", kinds[i]);
        struct sp_texts names = {.arena = arena};
        data_names(arena, kind, &names);
        if (!sp_texts_has(&names, name)) {
            continue;
        }
        const char *path = data_find(arena, kind, name, err);
        const struct sp_json *file = path == NULL ? NULL : sp_json_read(arena, path, err);
        if (file == NULL) {
            return false;
        }
        const struct sp_json *rows = sp_json_member(file, "rows");
        if (rows == NULL || rows->type != SP_JSON_ARRAY) {
            return sp_fail(err, SP_ERROR_INPUT, "%s: expected an object of schema seqplan.peers/1 with rows", path);
        }
        for (const struct sp_json *row = rows->first; row != NULL; row = row->next) {
            if (!check_peer(arena, path, row, err)) {
                return false;
            }
        }
        *peers = rows;
        return true;
    }
    return true;
}

bool validation_is_option(const struct sp_option *options, const char *name)
{
    for (const struct sp_option *option = options; option->name != NULL; option++) {
        if (strcmp(option->name, name) == 0 || (option->alias != NULL && strcmp(option->alias, name) == 0)) {
            return true;
        }
    }
    return false;
}

/* ---- reading ------------------------------------------------------------------------------------------------------ */

static const char *type_text(enum sp_json_type type)
{
    static const char *const texts[] = {
        [SP_JSON_NULL] = "null",     [SP_JSON_BOOL] = "true or false", [SP_JSON_NUMBER] = "a number",
        [SP_JSON_STRING] = "a text", [SP_JSON_ARRAY] = "a list",       [SP_JSON_OBJECT] = "an object"};
    return texts[type];
}

bool validation_check_member(const struct validation_place *place, const char *key, enum sp_json_type type,
                             struct sp_error *err)
{
    const struct sp_json *member = sp_json_member(place->object, key);
    return member == NULL || member->type == type ||
           sp_fail(err, SP_ERROR_INPUT, "%s: %s.%s: expected %s, found %s", place->path, place->name, key,
                   type_text(type), type_text(member->type));
}

static bool check_keys(struct sp_arena *arena, const struct validation_place *place, const char *const *keys,
                       struct sp_error *err)
{
    size_t n_keys = 0;
    while (keys[n_keys] != NULL) {
        n_keys++;
    }
    for (const struct sp_json *item = place->object->first; item != NULL; item = item->next) {
        if (sp_index_of(item->key, keys) < 0) {
            const char *nearest = sp_nearest(item->key, keys, n_keys);
            return sp_fail(err, SP_ERROR_INPUT, "%s: %s: unknown key \"%.60s\": expected %s", place->path, place->name,
                           item->key, nearest == NULL ? sp_join(arena, keys, n_keys, ", ") : nearest);
        }
    }
    return true;
}

static bool read_about(const struct validation_reading *reading, const struct sp_json *file, struct sp_error *err)
{
    static const char *const keys[] = {"title", "where", "year", "grade", "own", NULL};
    struct validation_source *source = reading->source;
    const char **const texts[] = {&source->title, &source->where, &source->year, &source->grade};
    const struct validation_place about = {reading->path, "$.source", sp_json_member(file, "source")};
    if (about.object->type != SP_JSON_OBJECT) {
        return sp_fail(err, SP_ERROR_INPUT, "%s: $.source: expected an object with title, where and year",
                       reading->path);
    }
    if (!check_keys(reading->arena, &about, keys, err) || !validation_check_member(&about, "own", SP_JSON_BOOL, err)) {
        return false;
    }
    for (size_t i = 0; i < SP_COUNT_OF(texts); i++) {
        const struct sp_json *member = sp_json_member(about.object, keys[i]);
        if (!validation_check_member(&about, keys[i], SP_JSON_STRING, err)) {
            return false;
        }
        *texts[i] = member == NULL ? NULL : member->string;
    }
    static const char *const grades[] = {"A", "A-", "B", NULL};
    if (source->grade != NULL && sp_index_of(source->grade, grades) < 0) {
        return sp_fail(err, SP_ERROR_INPUT, "%s: $.source.grade: expected A, A- or B, found \"%.40s\"", reading->path,
                       source->grade);
    }
    const struct sp_json *own = sp_json_member(about.object, "own");
    source->is_own = own != NULL && own->boolean;
    return (source->title != NULL && source->where != NULL && source->year != NULL) ||
           sp_fail(err, SP_ERROR_INPUT, "%s: $.source: expected title, where and year", reading->path);
}

/* What was fitted to which rows: every entry says what. */
static bool check_fitted(const struct validation_reading *reading, struct sp_error *err)
{
    static const char *const keys[] = {"group", "quantity", "row", "what", NULL};
    int index = 0;
    const struct sp_json *first = reading->fitted == NULL ? NULL : reading->fitted->first;
    for (const struct sp_json *item = first; item != NULL; item = item->next) {
        const struct validation_place place = {reading->path, sp_format(reading->arena, "$.fitted[%d]", index++), item};
        if (item->type != SP_JSON_OBJECT || sp_json_member(item, "what") == NULL) {
            return sp_fail(err, SP_ERROR_INPUT, "%s: %s: expected an object that says \"what\" was fitted",
                           reading->path, place.name);
        }
        if (!check_keys(reading->arena, &place, keys, err)) {
            return false;
        }
        for (int i = 0; keys[i] != NULL; i++) {
            if (!validation_check_member(&place, keys[i], SP_JSON_STRING, err)) {
                return false;
            }
        }
    }
    return true;
}

/* group -> quantity -> a value of this type. */
static bool check_by_group(const struct validation_reading *reading, const struct sp_json *groups, const char *key,
                           enum sp_json_type type, struct sp_error *err)
{
    for (const struct sp_json *group = groups == NULL ? NULL : groups->first; group != NULL; group = group->next) {
        bool is_good = group->type == SP_JSON_OBJECT;
        for (const struct sp_json *item = is_good ? group->first : NULL; item != NULL; item = item->next) {
            is_good = is_good && item->type == type;
        }
        if (!is_good) {
            return sp_fail(err, SP_ERROR_INPUT, "%s: $.%s.%.60s: expected an object of quantities with %s each",
                           reading->path, key, group->key, type_text(type));
        }
    }
    return true;
}

static bool check_list(const struct validation_reading *reading, const struct sp_json *list, const char *key,
                       struct sp_error *err)
{
    for (const struct sp_json *item = list == NULL ? NULL : list->first; item != NULL; item = item->next) {
        if (item->type != SP_JSON_STRING) {
            return sp_fail(err, SP_ERROR_INPUT, "%s: $.%s: expected texts, found %s", reading->path, key,
                           type_text(item->type));
        }
    }
    return true;
}

/* Members of the file, with the place that each is kept in. */
static bool read_members(struct validation_reading *reading, const struct sp_json *file, struct sp_error *err)
{
    struct validation_source *source = reading->source;
    const struct {
        const char *key;
        enum sp_json_type type;
        const struct sp_json **member;
    } members[] = {{"unstated", SP_JSON_ARRAY, &source->unstated},
                   {"fitted", SP_JSON_ARRAY, &reading->fitted},
                   {"defaults", SP_JSON_OBJECT, &reading->defaults},
                   {"targets", SP_JSON_OBJECT, &source->targets},
                   {"misses", SP_JSON_OBJECT, &source->misses},
                   {"biases", SP_JSON_OBJECT, &source->biases},
                   {"measurements", SP_JSON_STRING, &reading->measurements},
                   {"rows", SP_JSON_ARRAY, &reading->rows}};
    const struct validation_place place = {reading->path, "$", file};
    for (size_t i = 0; i < SP_COUNT_OF(members); i++) {
        if (!validation_check_member(&place, members[i].key, members[i].type, err)) {
            return false;
        }
        *members[i].member = sp_json_member(file, members[i].key);
    }
    return true;
}

static bool read_head(struct validation_reading *reading, const struct sp_json *file, struct sp_error *err)
{
    static const char *const keys[] = {"schema", "source", "unstated", "fitted",       "defaults", "targets",
                                       "misses", "biases", "rows",     "measurements", NULL};
    const struct validation_source *source = reading->source;
    const struct validation_place place = {reading->path, "$", file};
    const struct sp_json *name = sp_json_member(file, "schema");
    if (file->type != SP_JSON_OBJECT || name == NULL || name->type != SP_JSON_STRING ||
        strcmp(name->string, schema) != 0 || sp_json_member(file, "source") == NULL ||
        (sp_json_member(file, "rows") == NULL) == (sp_json_member(file, "measurements") == NULL)) {
        return sp_fail(err, SP_ERROR_INPUT,
                       "%s: expected an object of schema %s with source and either rows or measurements", reading->path,
                       schema);
    }
    return check_keys(reading->arena, &place, keys, err) && read_about(reading, file, err) &&
           read_members(reading, file, err) && check_fitted(reading, err) &&
           check_list(reading, source->unstated, "unstated", err) &&
           check_list(reading, source->biases, "biases", err) &&
           check_by_group(reading, source->targets, "targets", SP_JSON_NUMBER, err) &&
           check_by_group(reading, source->misses, "misses", SP_JSON_STRING, err);
}

static bool read_rows(struct validation_reading *reading, struct sp_error *err)
{
    if (reading->measurements != NULL) {
        return validation_read_lines(reading, reading->measurements->string, err);
    }
    const struct sp_json *first = reading->rows == NULL ? NULL : reading->rows->first;
    int n_measured = 0;
    for (const struct sp_json *run = first; run != NULL; run = run->next) {
        const struct sp_json *measured = sp_json_member(run, "measured");
        n_measured += measured == NULL ? 0 : measured->count;
    }
    reading->source->rows = sp_arena_array(reading->arena, (size_t)n_measured + 1, sizeof(*reading->source->rows));
    int index = 0;
    for (const struct sp_json *row = first; row != NULL; row = row->next) {
        if (!validation_read_row(reading, row, index++, err)) {
            return false;
        }
    }
    return true;
}

/* "a/b/llama.json" -> "llama" */
static const char *name_of(struct sp_arena *arena, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash == NULL ? path : slash + 1;
    const char *dot = strrchr(name, '.');
    return dot == NULL || dot == name ? sp_strdup(arena, name) : sp_strndup(arena, name, (size_t)(dot - name));
}

bool validation_read_json(const struct validation_pricer *pricer, const char *path, const struct sp_json *file,
                          struct validation_source *source, struct sp_error *err)
{
    struct sp_arena *arena = pricer->arena;
    const char *slash = strrchr(path, '/');
    *source = (struct validation_source){.name = name_of(arena, path)};
    struct validation_reading reading = {.arena = arena,
                                         .pricer = pricer,
                                         .path = path,
                                         .folder =
                                             slash == NULL ? "." : sp_strndup(arena, path, (size_t)(slash - path)),
                                         .source = source,
                                         .question = sp_arena_alloc(arena, sizeof(struct question)),
                                         .estimate = sp_arena_alloc(arena, sizeof(struct estimate))};
    return read_head(&reading, file, err) && read_rows(&reading, err) && validation_check_claims(&reading, err);
}
