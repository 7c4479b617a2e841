#include "report/report.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void report_tree_open(struct report_tree *tree, struct sp_arena *arena)
{
    *tree = (struct report_tree){.arena = arena};
    struct sp_json *root = sp_arena_alloc(arena, sizeof(*root));
    root->type = SP_JSON_OBJECT;
    tree->groups[0] = root;
}

const struct sp_json *report_tree_close(struct report_tree *tree)
{
    assert(tree->depth == 0);
    return tree->groups[0];
}

static struct sp_json *append(struct report_tree *tree, const char *key, enum sp_json_type type)
{
    struct sp_json *group = tree->groups[tree->depth];
    assert((key != NULL) == (group->type == SP_JSON_OBJECT));
    struct sp_json *value = sp_arena_alloc(tree->arena, sizeof(*value));
    value->type = type;
    value->key = key == NULL ? NULL : sp_strdup(tree->arena, key);
    if (group->count == 0) {
        group->first = value;
    } else {
        tree->last[tree->depth]->next = value;
    }
    tree->last[tree->depth] = value;
    group->count++;
    return value;
}

void report_tree_begin(struct report_tree *tree, const char *key, enum sp_json_type type)
{
    assert(type == SP_JSON_OBJECT || type == SP_JSON_ARRAY);
    assert(tree->depth + 1 < REPORT_TREE_DEPTH);
    struct sp_json *group = append(tree, key, type);
    tree->depth++;
    tree->groups[tree->depth] = group;
}

void report_tree_end(struct report_tree *tree)
{
    assert(tree->depth > 0);
    tree->depth--;
}

void report_tree_string(struct report_tree *tree, const char *key, const char *value)
{
    struct sp_json *string = append(tree, key, value == NULL ? SP_JSON_NULL : SP_JSON_STRING);
    string->string = value == NULL ? NULL : sp_strdup(tree->arena, value);
}

void report_tree_number(struct report_tree *tree, const char *key, double value)
{
    append(tree, key, SP_JSON_NUMBER)->number = value;
}

void report_tree_bool(struct report_tree *tree, const char *key, bool value)
{
    append(tree, key, SP_JSON_BOOL)->boolean = value;
}

void report_tree_null(struct report_tree *tree, const char *key)
{
    (void)append(tree, key, SP_JSON_NULL);
}

void report_tree_texts(struct report_tree *tree, const char *key, const struct sp_texts *texts)
{
    report_tree_begin(tree, key, SP_JSON_ARRAY);
    for (size_t i = 0; i < texts->count; i++) {
        report_tree_string(tree, NULL, texts->items[i]);
    }
    report_tree_end(tree);
}

void report_tree_value(struct report_tree *tree, const char *key, const struct sp_json *value)
{
    struct sp_json *copy = append(tree, key, value->type);
    const char *own_key = copy->key;
    *copy = *value;
    copy->key = own_key;
    copy->next = NULL;
}

static int read_int(const void *at)
{
    int value;
    memcpy(&value, at, sizeof(value)); /* also of enums, which are int or unsigned */
    return value;
}

static void put_key(struct report_tree *tree, const struct report_key *key, const void *at)
{
    switch (key->type) {
    case REPORT_KEY_STRING:
        report_tree_string(tree, key->key, *(const char *const *)at);
        break;
    case REPORT_KEY_INTEGER:
        report_tree_number(tree, key->key, (double)*(const int64_t *)at);
        break;
    case REPORT_KEY_INT:
        report_tree_number(tree, key->key, read_int(at));
        break;
    case REPORT_KEY_NUMBER:
        report_tree_number(tree, key->key, *(const double *)at);
        break;
    case REPORT_KEY_BOOL:
        report_tree_bool(tree, key->key, *(const bool *)at);
        break;
    case REPORT_KEY_NAME:
        report_tree_string(tree, key->key, key->names[read_int(at)]);
        break;
    }
}

void report_tree_keys(struct report_tree *tree, const struct report_key *keys, const void *object)
{
    for (const struct report_key *key = keys; key->key != NULL; key++) {
        put_key(tree, key, (const char *)object + key->offset);
    }
}

static bool is_group(const struct sp_json *value)
{
    return value->type == SP_JSON_OBJECT || value->type == SP_JSON_ARRAY;
}

/* Rows of lists and lists of numbers stand on one line. */
static bool is_one_line(const struct sp_json *group, bool is_in_array)
{
    for (const struct sp_json *member = group->first; member != NULL; member = member->next) {
        bool is_text_of_list = group->type == SP_JSON_ARRAY && member->type == SP_JSON_STRING;
        if (is_group(member) || is_text_of_list) {
            return false;
        }
    }
    return is_in_array || group->type == SP_JSON_ARRAY;
}

void report_tree_put(struct sp_json_writer *writer, const struct sp_json *value, bool is_in_array)
{
    const char *key = value->key;
    switch (value->type) {
    case SP_JSON_NULL:
        sp_json_put_null(writer, key);
        return;
    case SP_JSON_BOOL:
        sp_json_put_bool(writer, key, value->boolean);
        return;
    case SP_JSON_NUMBER:
        sp_json_put_number(writer, key, value->number);
        return;
    case SP_JSON_STRING:
        sp_json_put_string(writer, key, value->string);
        return;
    case SP_JSON_ARRAY:
        sp_json_begin_array(writer, key);
        break;
    case SP_JSON_OBJECT:
        sp_json_begin_object(writer, key);
        break;
    }
    writer->is_compact = writer->is_compact || is_one_line(value, is_in_array);
    for (const struct sp_json *member = value->first; member != NULL; member = member->next) {
        report_tree_put(writer, member, value->type == SP_JSON_ARRAY);
    }
    if (value->type == SP_JSON_ARRAY) {
        sp_json_end_array(writer);
    } else {
        sp_json_end_object(writer);
    }
}

void report_tree_write(const struct sp_json *value, FILE *file)
{
    struct sp_json_writer writer = {.file = file};
    report_tree_put(&writer, value, false);
}

/* Compactness is set after the root has begun: everything below it keeps to the line. */
char *report_tree_text(struct sp_arena *arena, const struct sp_json *object)
{
    assert(object->type == SP_JSON_OBJECT);
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    if (file == NULL) {
        return NULL;
    }
    struct sp_json_writer writer = {.file = file};
    sp_json_begin_object(&writer, NULL);
    writer.is_compact = true;
    for (const struct sp_json *member = object->first; member != NULL; member = member->next) {
        report_tree_put(&writer, member, false);
    }
    sp_json_end_object(&writer);
    bool is_written = fclose(file) == 0;
    char *line = is_written ? sp_strndup(arena, text, size - 1) : NULL; /* without the line break of a document */
    free(text);
    return line;
}

const struct sp_json *report_tree_at(const struct sp_json *object, const char *path)
{
    const struct sp_json *value = object;
    while (value != NULL && path[0] != '\0') {
        char key[64];
        size_t length = strcspn(path, ".");
        if (length >= sizeof(key) || value->type != SP_JSON_OBJECT) {
            return NULL;
        }
        memcpy(key, path, length);
        key[length] = '\0';
        value = sp_json_member(value, key);
        path += path[length] == '.' ? length + 1 : length;
    }
    return value;
}
