#include "base/base.h"

#include <assert.h>
#include <ctype.h>
#include <stdarg.h>
#include <string.h>

/* Names longer than this are not compared: nobody needs a suggestion for them, and the rows fit on the stack. */
enum { NEAREST_LENGTH = 128 };

bool sp_texts_has(const struct sp_texts *texts, const char *text)
{
    for (size_t i = 0; i < texts->count; i++) {
        if (strcmp(texts->items[i], text) == 0) {
            return true;
        }
    }
    return false;
}

static void grow(struct sp_texts *texts)
{
    size_t capacity = texts->capacity == 0 ? 8 : texts->capacity * 2;
    const char **items = sp_arena_array(texts->arena, capacity, sizeof(*items));
    if (texts->count > 0) {
        memcpy(items, texts->items, texts->count * sizeof(*items));
    }
    texts->items = items;
    texts->capacity = capacity;
}

void sp_texts_add(struct sp_texts *texts, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    assert(length >= 0);

    struct sp_arena_mark mark = sp_arena_mark(texts->arena);
    size_t size = (size_t)length + 1;
    char *text = sp_arena_alloc(texts->arena, size);
    va_start(args, format);
    (void)vsnprintf(text, size, format, args);
    va_end(args);

    if (sp_texts_has(texts, text)) {
        sp_arena_rewind(texts->arena, mark);
        return;
    }
    if (texts->count == texts->capacity) {
        grow(texts);
    }
    texts->items[texts->count] = text;
    texts->count++;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* A difference in case costs nothing: "LLAMA" should find "llama". */
static bool same_letter(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* Insertions, deletions, replacements and swaps of neighbours cost 1 each (optimal string alignment). */
static size_t edit_distance(const char *a, const char *b)
{
    size_t n_a = strlen(a);
    size_t n_b = strlen(b);
    assert(n_a <= NEAREST_LENGTH && n_b <= NEAREST_LENGTH);
    size_t rows[3][NEAREST_LENGTH + 1];
    for (size_t j = 0; j <= n_b; j++) {
        rows[0][j] = j;
    }
    for (size_t i = 1; i <= n_a; i++) {
        size_t *row = rows[i % 3];
        const size_t *above = rows[(i + 2) % 3];
        const size_t *two_above = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= n_b; j++) {
            size_t replaced = above[j - 1] + (same_letter(a[i - 1], b[j - 1]) ? 0 : 1);
            row[j] = smaller(replaced, smaller(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) && same_letter(a[i - 2], b[j - 1])) {
                row[j] = smaller(row[j], two_above[j - 2] + 1);
            }
        }
    }
    return rows[n_a % 3][n_b];
}

const char *sp_nearest(const char *text, const char *const *names, size_t n_names)
{
    size_t length = strlen(text);
    if (length == 0 || length > NEAREST_LENGTH) {
        return NULL;
    }
    size_t limit = length / 3 > 1 ? length / 3 : 1;
    const char *nearest = NULL;
    for (size_t i = 0; i < n_names; i++) {
        if (strlen(names[i]) > NEAREST_LENGTH) {
            continue;
        }
        size_t distance = edit_distance(text, names[i]);
        size_t longest = strlen(names[i]) > length ? strlen(names[i]) : length;
        if (distance == longest) {
            continue; /* not a character of it is there: "4" is not nearly "0" */
        }
        if (distance < limit || (nearest == NULL && distance == limit)) {
            nearest = names[i];
            limit = distance;
        }
    }
    return nearest;
}

const char *sp_plural(int64_t count)
{
    return count == 1 ? "" : "s";
}

char *sp_join(struct sp_arena *arena, const char *const *names, size_t n_names, const char *separator)
{
    size_t size = 1;
    for (size_t i = 0; i < n_names; i++) {
        size += strlen(names[i]) + strlen(separator);
    }
    char *joined = sp_arena_alloc(arena, size);
    char *at = joined;
    for (size_t i = 0; i < n_names; i++) {
        size_t left = size - (size_t)(at - joined);
        int length = snprintf(at, left, "%s%s", i == 0 ? "" : separator, names[i]);
        assert(length >= 0 && (size_t)length < left);
        at += length;
    }
    return joined;
}

int sp_index_of(const char *text, const char *const *names)
{
    for (int i = 0; names[i] != NULL; i++) {
        if (strcmp(text, names[i]) == 0) {
            return i;
        }
    }
    return -1;
}

/* The well-formed sequences of Unicode 15, table 3-7: no overlong forms, no surrogates, nothing above U+10FFFF. */
size_t sp_utf8_length(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    if (at[0] < 0x80) {
        return at[0] == '\0' ? 0 : 1;
    }
    if (at[0] < 0xc2 || at[0] > 0xf4) {
        return 0;
    }
    unsigned char low = at[0] == 0xe0 ? 0xa0 : at[0] == 0xf0 ? 0x90 : 0x80;
    unsigned char high = at[0] == 0xed ? 0x9f : at[0] == 0xf4 ? 0x8f : 0xbf;
    size_t length = at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;
    if (at[1] < low || at[1] > high) {
        return 0;
    }
    for (size_t i = 2; i < length; i++) {
        if (at[i] < 0x80 || at[i] > 0xbf) {
            return 0;
        }
    }
    return length;
}

uint64_t sp_fnv1a(uint64_t hash, const void *bytes, size_t n_bytes)
{
    static const uint64_t prime = UINT64_C(0x100000001b3); /* of their page, as the basis */
    const unsigned char *at = bytes;
    for (size_t i = 0; i < n_bytes; i++) {
        hash = (hash ^ at[i]) * prime;
    }
    return hash;
}
