/* Members of a config.json, with the place of what is wrong. */
#include "spec/spec_internal.h"

const char *config_found_text(struct sp_arena *arena, const struct sp_json *value)
{
    switch (value->type) {
    case SP_JSON_NULL:
        return "null";
    case SP_JSON_BOOL:
        return value->boolean ? "true" : "false";
    case SP_JSON_NUMBER:
        return sp_format(arena, "%.15g", value->number);
    case SP_JSON_STRING:
        return sp_format(arena, "\"%.40s\"", value->string);
    case SP_JSON_ARRAY:
        return "an array";
    case SP_JSON_OBJECT:
        return "an object";
    }
    return "nothing";
}

const struct sp_json *config_member(const struct config_reader *reader, const char *key)
{
    const struct sp_json *value = sp_json_member(reader->json, key);
    return value == NULL || value->type == SP_JSON_NULL ? NULL : value;
}

bool config_fail_missing(const struct config_reader *reader, const char *key)
{
    return sp_fail(reader->err, SP_ERROR_INPUT, "%s: $.%s: expected a value, found none (the model's size needs it)",
                   reader->file, key);
}

bool config_read_integer(const struct config_reader *reader, const struct config_integer *field, int64_t *integer)
{
    const struct sp_json *value = config_member(reader, field->key);
    if (value == NULL && field->is_required) {
        return config_fail_missing(reader, field->key);
    }
    if (value == NULL) {
        *integer = field->value_if_absent;
        return true;
    }
    if (value->type != SP_JSON_NUMBER || !sp_json_integer(value, integer) || *integer < field->min ||
        *integer > field->max) {
        return sp_fail(reader->err, SP_ERROR_INPUT, "%s: $.%s: expected a whole number from %lld to %lld, found %s",
                       reader->file, field->key, (long long)field->min, (long long)field->max,
                       config_found_text(reader->arena, value));
    }
    return true;
}

bool config_read_bool(const struct config_reader *reader, const char *key, bool value_if_absent, bool *flag)
{
    const struct sp_json *value = config_member(reader, key);
    *flag = value_if_absent;
    if (value == NULL) {
        return true;
    }
    if (value->type != SP_JSON_BOOL) {
        return sp_fail(reader->err, SP_ERROR_INPUT, "%s: $.%s: expected true or false, found %s", reader->file, key,
                       config_found_text(reader->arena, value));
    }
    *flag = value->boolean;
    return true;
}
