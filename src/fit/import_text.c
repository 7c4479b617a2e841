/* Logs as lines and words. They come through terminals, launchers and editors: with colours, carriage returns of progress
 * bars, tags before and inside lines. */
#include "fit/import_internal.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- lines ------------------------------------------------------------------------------------------------------ */

/* The length of a terminal's escape sequence at `at`, or 0. */
static size_t escape_length(const char *at, const char *end)
{
    static const char escape = '\x1b';
    if (*at != escape) {
        return 0;
    }
    const char *next = at + 1;
    if (next < end && *next == '[') {
        next++;
        while (next < end && (isdigit((unsigned char)*next) != 0 || *next == ';' || *next == '?')) {
            next++;
        }
        next += next < end && isalpha((unsigned char)*next) != 0 ? 1 : 0;
    }
    return (size_t)(next - at);
}

/* Copies what is to be read, with a NUL in place of each line break. Returns how many bytes that is. */
static size_t clean(char *copy, const char *bytes, size_t n_bytes)
{
    const char *end = bytes + n_bytes;
    char *to = copy;
    const char *from = bytes;
    while (from < end) {
        size_t n_escaped = escape_length(from, end);
        if (n_escaped > 0) {
            from += n_escaped;
        } else if (*from == '\n') {
            *to++ = '\0';
            from++;
        } else {
            bool is_control = (unsigned char)*from < ' ' || *from == '\x7f';
            *to = ' ';
            if (!is_control || *from == '\t') {
                *to = *from;
            }
            to++;
            from++;
        }
    }
    *to = '\0';
    return (size_t)(to - copy);
}

struct import_text import_text_open(struct sp_arena *arena, const char *name, const char *bytes, size_t n_bytes)
{
    char *copy = sp_arena_alloc(arena, n_bytes + 1);
    size_t n_clean = clean(copy, bytes, n_bytes);
    struct import_text text = {.name = name, .is_cut = n_bytes > 0 && bytes[n_bytes - 1] != '\n'};
    for (size_t i = 0; i < n_clean; i++) {
        text.n_lines += copy[i] == '\0' ? 1 : 0;
    }
    text.n_lines += text.is_cut ? 1 : 0;
    const char **lines = sp_arena_array(arena, (size_t)text.n_lines + 1, sizeof(*lines));
    const char *at = copy;
    for (int64_t i = 0; i < text.n_lines; i++) {
        lines[i] = at;
        at += strlen(at) + 1;
    }
    text.lines = lines;
    return text;
}

/* ---- words ------------------------------------------------------------------------------------------------------ */

struct import_words import_split(struct sp_arena *arena, const char *line)
{
    static const char blanks[] = " \t";
    struct import_words words = {.count = 0};
    const char *at = line + strspn(line, blanks);
    while (*at != '\0' && words.count < IMPORT_MOST_WORDS) {
        size_t length = strcspn(at, blanks);
        words.items[words.count++] = sp_strndup(arena, at, length);
        at += length;
        at += strspn(at, blanks);
    }
    return words;
}

const char *import_name(struct sp_arena *arena, const char *begin, size_t length)
{
    enum { MOST_BYTES = 120 };
    return sp_strndup(arena, begin, length < MOST_BYTES ? length : MOST_BYTES);
}

/* The length of a decimal number at the begin of a text, or 0; *n_decimals of its digits stand behind the point. */
static size_t number_length(const char *text, int *n_decimals)
{
    static const char digits[] = "0123456789";
    size_t sign = text[0] == '-' || text[0] == '+' ? 1 : 0;
    size_t whole = strspn(text + sign, digits);
    size_t length = sign + whole;
    *n_decimals = 0;
    if (text[length] == '.') {
        size_t decimals = strspn(text + length + 1, digits);
        *n_decimals = (int)decimals;
        length += whole + decimals > 0 ? 1 + decimals : 0;
        whole += decimals;
    }
    if (whole == 0) {
        return 0;
    }
    if (text[length] == 'e' || text[length] == 'E') {
        size_t exponent_sign = text[length + 1] == '-' || text[length + 1] == '+' ? 1 : 0;
        size_t exponent = strspn(text + length + 1 + exponent_sign, digits);
        length += exponent > 0 ? 1 + exponent_sign + exponent : 0;
    }
    return length;
}

bool import_number(const char *word, double *value, double *half_unit)
{
    static const double half = 0.5;
    static const double most = 1e30;
    int n_decimals = 0;
    size_t length = number_length(word, &n_decimals);
    if (length == 0 || word[length] != '\0') {
        return false;
    }
    *value = strtod(word, NULL);
    if (half_unit != NULL) {
        *half_unit = half;
        for (int i = 0; i < n_decimals; i++) {
            *half_unit /= 10;
        }
    }
    return *value <= most && *value >= -most;
}

bool import_integer(const char *word, int64_t *value)
{
    enum { MOST_DIGITS = 15 }; /* a double holds them all */
    size_t length = strspn(word, "0123456789");
    if (length == 0 || length > MOST_DIGITS || word[length] != '\0') {
        return false;
    }
    *value = strtoll(word, NULL, 10);
    return true;
}

/* Digits may be grouped with commas: "10,050". */
static size_t ungroup(const char *from, char *to, size_t size)
{
    size_t n_read = 0;
    size_t n_kept = 0;
    while (from[n_read] != '\0' && n_kept + 1 < size) {
        bool is_group = from[n_read] == ',' && n_read > 0 && isdigit((unsigned char)from[n_read - 1]) != 0 &&
                        strspn(from + n_read + 1, "0123456789") == 3;
        if (!is_group) {
            to[n_kept++] = from[n_read];
        }
        n_read++;
        if (!is_group && strchr("0123456789.-+eE", to[n_kept - 1]) == NULL) {
            break;
        }
    }
    to[n_kept] = '\0';
    return n_read;
}

const char *import_number_after(const char *line, const char *label, double *value)
{
    enum { NUMBER_BYTES = 64 };
    const char *found = strstr(line, label);
    if (found == NULL) {
        return NULL;
    }
    found += strlen(label);
    found += strspn(found, " \t");
    char plain[NUMBER_BYTES];
    (void)ungroup(found, plain, sizeof(plain));
    int n_decimals = 0;
    size_t length = number_length(plain, &n_decimals);
    plain[length] = '\0';
    if (!import_number(plain, value, NULL)) {
        return NULL;
    }
    /* as many bytes as the number has without its commas, and these */
    const char *end = found;
    for (size_t n_left = length; n_left > 0; end++) {
        n_left -= *end == ',' ? 0 : 1;
    }
    return end;
}

bool import_integer_after(const char *line, const char *label, int64_t *value)
{
    static const double most = 0x1p53;
    double number = 0;
    if (import_number_after(line, label, &number) == NULL || !(number >= 0) || number > most ||
        (double)(int64_t)number < number) {
        return false;
    }
    *value = (int64_t)number;
    return true;
}
