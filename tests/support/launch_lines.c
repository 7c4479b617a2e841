#include "support/launch_lines.h"

#include "support/support.h"

#include <stdlib.h>
#include <string.h>

static void add(struct launch_lines *lines, const char *key, const char *value)
{
    assert_true(lines->n < LAUNCH_LINES_MAX);
    lines->keys[lines->n] = key;
    lines->values[lines->n] = value;
    lines->n++;
}

static void extend(struct launch_lines *lines, const char *word)
{
    assert_true(lines->n > 0);
    const char **value = &lines->values[lines->n - 1];
    *value = (*value)[0] == '\0' ? word : sp_format(lines->arena, "%s %s", *value, word);
}

/* ---- a shell's words -------------------------------------------------------------------------------------------- */

/* The next word of a line, quotes taken off; NULL at the end or at a comment. */
static const char *next_word(struct sp_arena *arena, const char **at)
{
    *at += strspn(*at, " ");
    if (**at == '\0' || **at == '#') {
        return NULL;
    }
    char *word = sp_arena_alloc(arena, strlen(*at) + 1);
    size_t length = 0;
    bool is_quoted = false;
    for (; **at != '\0' && (is_quoted || **at != ' '); (*at)++) {
        if (**at == '\'') {
            is_quoted = !is_quoted;
        } else {
            word[length++] = **at;
        }
    }
    assert_false(is_quoted);
    return word;
}

static void read_word(struct launch_lines *lines, const char *word)
{
    const char *equals = strchr(word, '=');
    if (strncmp(word, "--", 2) == 0) {
        add(lines, word, "");
    } else if (equals != NULL && equals > word) {
        add(lines, sp_strndup(lines->arena, word, (size_t)(equals - word)), equals + 1);
    } else {
        extend(lines, word);
    }
}

static void read_words(struct launch_lines *lines, const char *line)
{
    for (const char *word = next_word(lines->arena, &line); word != NULL; word = next_word(lines->arena, &line)) {
        read_word(lines, word);
    }
}

/* ---- files ------------------------------------------------------------------------------------------------------ */

static void flatten(struct launch_lines *lines, const char *prefix, const struct sp_json *value)
{
    for (const struct sp_json *member = value->first; member != NULL; member = member->next) {
        const char *key = sp_format(lines->arena, "%s%s%s", prefix, prefix[0] == '\0' ? "" : ".", member->key);
        if (member->type == SP_JSON_OBJECT) {
            flatten(lines, key, member);
        } else if (member->type == SP_JSON_NUMBER) {
            add(lines, key, sp_format(lines->arena, "%.0f", member->number));
        } else if (member->type == SP_JSON_BOOL) {
            add(lines, key, member->boolean ? "true" : "false");
        } else {
            assert_int_equal(member->type, SP_JSON_STRING);
            add(lines, key, member->string);
        }
    }
}

static void take_file(struct launch_lines *lines, const char *name, const char *content)
{
    if (strstr(name, ".json") == NULL) {
        lines->code = content;
        return;
    }
    struct sp_error err = {0};
    const struct sp_json *json = sp_json_parse(lines->arena, name, content, &err);
    if (json == NULL) {
        fail_msg("%s", err.text);
    }
    flatten(lines, "", json);
}

/* ---- lines ------------------------------------------------------------------------------------------------------ */

static const char *next_line(struct sp_arena *arena, const char **at)
{
    if (**at == '\0') {
        return NULL;
    }
    size_t length = strcspn(*at, "\n");
    const char *line = sp_strndup(arena, *at, length);
    *at += length + ((*at)[length] == '\n' ? 1 : 0);
    assert_true(length <= 110); /* a screen, but for lines of a program */
    return line;
}

static void read_here(struct launch_lines *lines, const char *heading, const char **at)
{
    const char *content = "";
    for (const char *line = next_line(lines->arena, at); strcmp(line, "EOF") != 0; line = next_line(lines->arena, at)) {
        content = sp_format(lines->arena, "%s%s\n", content, line);
    }
    take_file(lines, heading, content);
}

static void read_array(struct launch_lines *lines, const char **at)
{
    for (const char *line = next_line(lines->arena, at); strcmp(line, ")") != 0; line = next_line(lines->arena, at)) {
        read_words(lines, line);
    }
}

void launch_lines_shell(struct launch_lines *lines, struct sp_arena *arena, const char *text)
{
    *lines = (struct launch_lines){.arena = arena, .code = ""};
    for (const char *line = next_line(arena, &text); line != NULL; line = next_line(arena, &text)) {
        size_t length = strlen(line);
        if (strncmp(line, "export ", strlen("export ")) == 0) {
            read_words(lines, line + strlen("export "));
        } else if (strncmp(line, "cat > ", strlen("cat > ")) == 0) {
            read_here(lines, line, &text);
        } else if (length > 2 && strcmp(line + length - 2, "=(") == 0) {
            read_array(lines, &text);
        }
    }
}

void launch_lines_yaml(struct launch_lines *lines, struct sp_arena *arena, const char *text)
{
    enum { DEEPEST = 8 };
    const char *open[DEEPEST] = {""};
    *lines = (struct launch_lines){.arena = arena, .code = ""};
    for (const char *line = next_line(arena, &text); line != NULL; line = next_line(arena, &text)) {
        size_t depth = strspn(line, " ") / 2;
        const char *at = line + 2 * depth;
        if (*at == '#' || *at == '\0') {
            continue;
        }
        const char *colon = strchr(at, ':');
        assert_non_null(colon);
        assert_true(depth + 1 < DEEPEST);
        const char *key = sp_format(arena, "%s%.*s", open[depth], (int)(colon - at), at);
        if (colon[1] == '\0') {
            open[depth + 1] = sp_format(arena, "%s.", key);
        } else {
            add(lines, key, colon + 2);
        }
    }
}

/* ---- looking up ------------------------------------------------------------------------------------------------- */

const char *launch_lines_get(const struct launch_lines *lines, const char *key)
{
    const char *found = NULL;
    for (int i = 0; i < lines->n; i++) {
        if (strcmp(lines->keys[i], key) == 0) {
            if (found != NULL) {
                fail_msg("%s stands twice", key);
            }
            found = lines->values[i];
        }
    }
    return found;
}

bool launch_lines_has(const struct launch_lines *lines, const char *key)
{
    return launch_lines_get(lines, key) != NULL;
}

int64_t launch_lines_count(const struct launch_lines *lines, const char *key, int64_t usual)
{
    const char *value = launch_lines_get(lines, key);
    if (value == NULL) {
        return usual;
    }
    char *end = NULL;
    int64_t count = strtoll(value, &end, 10);
    if (end == value || *end != '\0') {
        fail_msg("%s: expected a whole number, found '%s'", key, value);
    }
    return count;
}

bool launch_lines_is(const struct launch_lines *lines, const char *key, const char *value)
{
    const char *found = launch_lines_get(lines, key);
    return found != NULL && strcmp(found, value) == 0;
}
