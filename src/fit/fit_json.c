/* JSON trees with members replaced: a hardware file keeps every word that was not fitted. */
#include "fit/fit_internal.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct sp_json *json_new(struct sp_arena *arena, enum sp_json_type type)
{
    struct sp_json *value = sp_arena_alloc(arena, sizeof(*value));
    value->type = type;
    return value;
}

struct sp_json *json_number(struct sp_arena *arena, double number)
{
    struct sp_json *value = json_new(arena, SP_JSON_NUMBER);
    value->number = number;
    return value;
}

struct sp_json *json_text(struct sp_arena *arena, const char *text)
{
    struct sp_json *value = json_new(arena, SP_JSON_STRING);
    value->string = sp_strdup(arena, text);
    return value;
}

/* Values that this file made are its to change, although lists show them as constant. */
static struct sp_json *own(const struct sp_json *value)
{
    struct sp_json *made = NULL;
    memcpy(&made, &value, sizeof(made));
    return made;
}

/* The link that ends a list. */
static const struct sp_json **end_of(struct sp_json *group)
{
    const struct sp_json **end = &group->first;
    while (*end != NULL) {
        end = &own(*end)->next;
    }
    return end;
}

static struct sp_json *copy_of(struct sp_arena *arena, const char *key, const struct sp_json *value)
{
    struct sp_json *copy = sp_arena_alloc(arena, sizeof(*copy));
    *copy = *value;
    copy->key = key == NULL ? NULL : sp_strdup(arena, key);
    copy->next = NULL;
    return copy;
}

void json_add(struct sp_arena *arena, struct sp_json *group, const char *key, const struct sp_json *value)
{
    assert((key != NULL) == (group->type == SP_JSON_OBJECT));
    *end_of(group) = copy_of(arena, key, value);
    group->count++;
}

const struct sp_json *json_with(struct sp_arena *arena, const struct sp_json *object, const char *key,
                                const struct sp_json *value)
{
    struct sp_json *changed = json_new(arena, SP_JSON_OBJECT);
    const struct sp_json **end = &changed->first;
    bool is_there = false;
    for (const struct sp_json *member = object->first; member != NULL; member = member->next) {
        bool is_it = strcmp(member->key, key) == 0;
        is_there = is_there || is_it;
        if (is_it && value == NULL) {
            continue;
        }
        struct sp_json *copy = copy_of(arena, member->key, is_it ? value : member);
        *end = copy;
        end = &copy->next;
        changed->count++;
    }
    if (!is_there && value != NULL) {
        *end = copy_of(arena, key, value);
        changed->count++;
    }
    changed->key = object->key;
    return changed;
}

const struct sp_json *json_with_at(struct sp_arena *arena, const struct sp_json *object, const char *path,
                                   const struct sp_json *value)
{
    const char *dot = strchr(path, '.');
    if (dot == NULL) {
        return json_with(arena, object, path, value);
    }
    const char *key = sp_strndup(arena, path, (size_t)(dot - path));
    const struct sp_json *inner = sp_json_member(object, key);
    assert(inner != NULL && inner->type == SP_JSON_OBJECT);
    return json_with(arena, object, key, json_with_at(arena, inner, dot + 1, value));
}

const struct sp_json *json_at(const struct sp_json *object, const char *path)
{
    char key[64];
    while (object != NULL && object->type == SP_JSON_OBJECT) {
        size_t length = strcspn(path, ".");
        assert(length < sizeof(key));
        memcpy(key, path, length);
        key[length] = '\0';
        object = sp_json_member(object, key);
        if (path[length] == '\0') {
            return object;
        }
        path += length + 1;
    }
    return NULL;
}

double json_rounded(double value, int digits)
{
    char text[40];
    (void)snprintf(text, sizeof(text), "%.*e", digits - 1, value);
    return strtod(text, NULL);
}
