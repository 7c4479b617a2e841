#include "base/base.h"

#include <assert.h>
#include <stdarg.h>
#include <string.h>

/* An error is one line on a terminal: line breaks and other control characters from file contents or arguments must
 * not break it up. Bytes of UTF-8 sequences are 0x80 and up and stay. */
static void keep_on_one_line(char *text)
{
    for (char *at = text; *at != '\0'; at++) {
        unsigned char byte = (unsigned char)*at;
        if (byte < 0x20 || byte == 0x7f) {
            *at = ' ';
        }
    }
}

/* Marks a text that was cut off, without leaving half a UTF-8 sequence before the dots. */
static void end_with_dots(char *text, size_t size)
{
    static const char dots[] = "...";
    size_t end = size - sizeof(dots);
    while (end > 0 && ((unsigned char)text[end] & 0xc0U) == 0x80U) {
        end--;
    }
    memcpy(text + end, dots, sizeof(dots));
}

/* Formats into a buffer of its own first, because the arguments may point into the error that is being set. */
SP_PRINTF(2, 0) static void set_text(char text[SP_ERROR_TEXT], const char *format, va_list args)
{
    char line[SP_ERROR_TEXT];
    int length = vsnprintf(line, sizeof(line), format, args);
    assert(length >= 0);
    if ((size_t)length >= sizeof(line)) {
        end_with_dots(line, sizeof(line));
    }
    keep_on_one_line(line);
    memcpy(text, line, sizeof(line));
}

/* first + separator + second, cut off with dots where it does not fit. */
static void join_texts(char text[SP_ERROR_TEXT], const char *first, const char *separator, const char *second)
{
    char line[SP_ERROR_TEXT];
    int length = snprintf(line, sizeof(line), "%s%s%s", first, separator, second);
    assert(length >= 0);
    if ((size_t)length >= sizeof(line)) {
        end_with_dots(line, sizeof(line));
    }
    memcpy(text, line, sizeof(line));
}

bool sp_fail(struct sp_error *err, enum sp_error_kind kind, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    set_text(err->text, format, args);
    va_end(args);
    err->kind = kind;
    err->rule[0] = '\0';
    return false;
}

bool sp_fail_rule(struct sp_error *err, const char *rule, const char *format, ...)
{
    char text[SP_ERROR_TEXT];
    va_list args;
    va_start(args, format);
    set_text(text, format, args);
    va_end(args);

    /* Only broken rules are joined: an error of another kind, or none, is replaced. */
    if (err->kind == SP_ERROR_USAGE && err->rule[0] != '\0') {
        join_texts(err->text, err->text, "; ", text);
        return false;
    }
    assert(strlen(rule) < sizeof(err->rule));
    err->kind = SP_ERROR_USAGE;
    (void)snprintf(err->rule, sizeof(err->rule), "%s", rule);
    memcpy(err->text, text, sizeof(text));
    return false;
}

void sp_error_prefix(struct sp_error *err, const char *format, ...)
{
    char prefix[SP_ERROR_TEXT];
    va_list args;
    va_start(args, format);
    set_text(prefix, format, args);
    va_end(args);
    join_texts(err->text, prefix, ": ", err->text);
}
