/* --set model.FIELD=VALUE: a config.json with some members replaced, decoded like any other. Setting the struct instead
 * would leave what a file derives (head_dim from hidden_size) behind. */
#include "spec/spec_internal.h"

#include <string.h>

/* The text as JSON, so that 4, true and null have their type; anything else is a string. */
static const struct sp_json *value_of(struct sp_arena *arena, const struct setting *setting)
{
    struct sp_error ignored = {0};
    const struct sp_json *parsed = sp_json_parse(arena, setting->path, setting->value, &ignored);
    struct sp_json *value = sp_arena_alloc(arena, sizeof(*value));
    *value = parsed != NULL ? *parsed : (struct sp_json){.type = SP_JSON_STRING, .string = setting->value};
    value->key = setting->path;
    return value;
}

static bool check_name(const char *name, struct sp_error *err)
{
    if (config_field_is_known(name)) {
        return true;
    }
    size_t n_names = 0;
    while (model_config_names[n_names] != NULL) {
        n_names++;
    }
    const char *nearest = sp_nearest(name, model_config_names, n_names);
    if (nearest != NULL) {
        return sp_fail(err, SP_ERROR_USAGE, "--set model.%s: unknown field of a config.json; did you mean model.%s?",
                       name, nearest);
    }
    return sp_fail(
        err, SP_ERROR_USAGE,
        "--set model.%s: unknown field of a config.json; seqplan show fields model lists those that are read", name);
}

/* A copy of the object without `key`, with value at its end. */
static const struct sp_json *replaced(struct sp_arena *arena, const struct sp_json *object, const struct sp_json *value)
{
    struct sp_json *copy = sp_arena_alloc(arena, sizeof(*copy));
    *copy = *object;
    copy->first = NULL;
    copy->count = 0;
    const struct sp_json **link = &copy->first;
    for (const struct sp_json *at = object->first; at != NULL; at = at->next) {
        if (strcmp(at->key, value->key) == 0) {
            continue;
        }
        struct sp_json *kept = sp_arena_alloc(arena, sizeof(*kept));
        *kept = *at;
        kept->next = NULL;
        *link = kept;
        link = &kept->next;
        copy->count++;
    }
    *link = value;
    copy->count++;
    return copy;
}

bool model_read_with(struct sp_arena *arena, const char *name_or_path, const struct sp_texts *settings,
                     struct model_spec *model, struct sp_texts *warnings, struct sp_error *err)
{
    const char *path = data_find(arena, "models", name_or_path, err);
    const struct sp_json *json = path == NULL ? NULL : sp_json_read(arena, path, err);
    if (json == NULL) {
        return false;
    }
    const struct sp_json *set = json;
    for (size_t i = 0; i < settings->count && set->type == SP_JSON_OBJECT; i++) {
        struct setting setting = {0};
        if (!setting_split(arena, settings->items[i], &setting, err) || !check_name(setting.path, err)) {
            return false;
        }
        set = replaced(arena, set, value_of(arena, &setting));
    }
    if (model_decode(arena, path, set, model, warnings, err)) {
        return true;
    }
    /* The setting is to blame when the file alone is fine. */
    struct model_spec as_it_stands = {0};
    struct sp_texts unread = {.arena = arena};
    struct sp_error ignored = {0};
    if (set != json && model_decode(arena, path, json, &as_it_stands, &unread, &ignored)) {
        err->kind = SP_ERROR_USAGE;
        sp_error_prefix(err, "--set model");
    }
    return false;
}
