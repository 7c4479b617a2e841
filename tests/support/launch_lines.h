/* What a launcher would understand of the lines that are pasted: keys with their values. Knows no launcher. */
#ifndef SEQPLAN_TESTS_LAUNCH_LINES_H
#define SEQPLAN_TESTS_LAUNCH_LINES_H

#include "base/base.h"

enum { LAUNCH_LINES_MAX = 160 };
struct launch_lines {
    struct sp_arena *arena;
    int n;
    const char *keys[LAUNCH_LINES_MAX];   /* "--tp", "model.tp", a variable's name, a path of a file */
    const char *values[LAUNCH_LINES_MAX]; /* "" where the key stands alone; several words with blanks between */
    const char *code;                     /* lines of a program, or "" */
};

/* A shell's lines: exported variables, arrays of words, a JSON file and a program in here-documents. Words that begin with
 * "--" are keys; a word with '=' in the middle is a key and its value. Fails the test on what it cannot read. */
void launch_lines_shell(struct launch_lines *lines, struct sp_arena *arena, const char *text);
/* A YAML file of nested keys with plain values. */
void launch_lines_yaml(struct launch_lines *lines, struct sp_arena *arena, const char *text);

/* NULL where there is none; fails where there are two. */
const char *launch_lines_get(const struct launch_lines *lines, const char *key);
bool launch_lines_has(const struct launch_lines *lines, const char *key);
/* A whole number, `usual` where there is none. */
int64_t launch_lines_count(const struct launch_lines *lines, const char *key, int64_t usual);
/* Whether the value is this text; a key that is not there is not. */
bool launch_lines_is(const struct launch_lines *lines, const char *key, const char *value);

#endif
