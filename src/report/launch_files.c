/* The configuration file and the program's lines of a launcher; words of an argument. */
#include "report/launch.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

const char *launch_wrap(struct sp_arena *arena, const char *prefix, const char *text)
{
    size_t width = REPORT_COLUMNS - strlen(prefix);
    const char *lines = "";
    while (*text != '\0') {
        size_t length = strlen(text);
        if (length > width) {
            for (length = width; length > 0 && text[length] != ' '; length--) {
            }
            length = length == 0 ? strcspn(text, " ") : length;
        }
        lines = sp_format(arena, "%s%s%.*s\n", lines, prefix, (int)length, text);
        text += length;
        text += strspn(text, " ");
    }
    return lines;
}

int launch_words(struct sp_arena *arena, const struct launch *launch, const struct launch_item *item,
                 const char *words[LAUNCH_WORDS])
{
    if (launch->launcher->syntax == LAUNCH_OVERRIDES && item->place == LAUNCH_ARGUMENT) {
        words[0] = sp_format(arena, "%s=%s", item->key, item->value);
        return 1;
    }
    int count = 0;
    words[count++] = item->key;
    for (const char *at = item->value; at != NULL && *at != '\0'; at += strspn(at, " ")) {
        size_t length = strcspn(at, " ");
        assert(count < LAUNCH_WORDS);
        words[count++] = sp_strndup(arena, at, length);
        at += length;
    }
    return count;
}

/* ---- paths ------------------------------------------------------------------------------------------------------ */

/* Dots that two paths share from the start: "a.b.c" and "a.b.d" share 2. */
static int shared_depth(const char *a, const char *b)
{
    int depth = 0;
    while (*a != '\0' && *a == *b) {
        depth += *a == '.' ? 1 : 0;
        a++;
        b++;
    }
    return depth;
}

static int depth_of(const char *path)
{
    return shared_depth(path, path);
}

/* The part of a path behind `depth` dots, up to the next. */
static const char *part_of(struct sp_arena *arena, const char *path, int depth)
{
    for (; depth > 0; depth--) {
        path = strchr(path, '.') + 1;
    }
    return sp_strndup(arena, path, strcspn(path, "."));
}

/* ---- YAML ------------------------------------------------------------------------------------------------------- */

static const char *indent(struct sp_arena *arena, int depth)
{
    return sp_format(arena, "%*s", 2 * depth, "");
}

static const char *yaml_item(struct sp_arena *arena, const char *text, const char *before,
                             const struct launch_item *item)
{
    int depth = item->key == NULL ? 0 : depth_of(item->key);
    for (int i = item->key == NULL ? 0 : shared_depth(before, item->key); i < depth; i++) {
        text = sp_format(arena, "%s%s%s:\n", text, indent(arena, i), part_of(arena, item->key, i));
    }
    if (item->remark != NULL) {
        text = sp_format(arena, "%s%s", text,
                         launch_wrap(arena, sp_format(arena, "%s# ", indent(arena, depth)), item->remark));
    }
    return item->key == NULL ? text
                             : sp_format(arena, "%s%s%s: %s\n", text, indent(arena, depth),
                                         part_of(arena, item->key, depth), item->value);
}

static const char *yaml_text(struct sp_arena *arena, const struct launch *launch)
{
    const char *text = "";
    const char *before = "";
    for (int i = 0; i < launch->n_items; i++) {
        const struct launch_item *item = &launch->items[i];
        if (item->place == LAUNCH_SETTING || item->key == NULL) {
            text = yaml_item(arena, text, before, item);
            before = item->key == NULL ? before : item->key;
        }
    }
    return text;
}

/* ---- JSON ------------------------------------------------------------------------------------------------------- */

static void json_value(struct report_tree *tree, const char *key, const char *value)
{
    if (value[0] != '\0' && value[strspn(value, "0123456789")] == '\0') {
        report_tree_number(tree, key, strtod(value, NULL));
    } else if (strcmp(value, "true") == 0 || strcmp(value, "false") == 0) {
        report_tree_bool(tree, key, value[0] == 't');
    } else {
        report_tree_string(tree, key, value);
    }
}

static const struct sp_json *settings_tree(struct sp_arena *arena, const struct launch *launch)
{
    struct report_tree tree;
    report_tree_open(&tree, arena);
    const char *before = "";
    for (int i = 0; i < launch->n_items; i++) {
        const struct launch_item *item = &launch->items[i];
        if (item->place != LAUNCH_SETTING || item->key == NULL) {
            continue;
        }
        int shared = shared_depth(before, item->key);
        while (tree.depth > shared) {
            report_tree_end(&tree);
        }
        int depth = depth_of(item->key);
        for (int open = shared; open < depth; open++) {
            report_tree_begin(&tree, part_of(arena, item->key, open), SP_JSON_OBJECT);
        }
        json_value(&tree, part_of(arena, item->key, depth), item->value);
        before = item->key;
    }
    while (tree.depth > 0) {
        report_tree_end(&tree);
    }
    return report_tree_close(&tree);
}

static const char *json_text(struct sp_arena *arena, const struct launch *launch)
{
    char *text = NULL;
    size_t length = 0;
    FILE *memory = open_memstream(&text, &length);
    if (memory == NULL) {
        return NULL;
    }
    report_tree_write(settings_tree(arena, launch), memory);
    const char *copy = fclose(memory) == 0 ? sp_strdup(arena, text) : NULL;
    free(text);
    return copy;
}

/* ---- files ------------------------------------------------------------------------------------------------------ */

static bool has_items(const struct launch *launch, enum launch_place place)
{
    for (int i = 0; i < launch->n_items; i++) {
        if (launch->items[i].place == place && launch->items[i].key != NULL) {
            return true;
        }
    }
    return false;
}

const char *launch_file_text(struct sp_arena *arena, const struct launch *launch)
{
    if (!has_items(launch, LAUNCH_SETTING)) {
        return NULL;
    }
    return launch->launcher->syntax == LAUNCH_JSON ? json_text(arena, launch) : yaml_text(arena, launch);
}

const char *launch_code_text(struct sp_arena *arena, const struct launch *launch)
{
    if (!has_items(launch, LAUNCH_CODE)) {
        return NULL;
    }
    const char *text = "";
    for (int i = 0; i < launch->n_items; i++) {
        const struct launch_item *item = &launch->items[i];
        if (item->place == LAUNCH_CODE && item->key != NULL) {
            const char *remark = item->remark == NULL ? "" : launch_wrap(arena, "# ", item->remark);
            text = sp_format(arena, "%s%s%s%s\n", text, remark, item->key, item->value == NULL ? "" : item->value);
        }
    }
    return text;
}
