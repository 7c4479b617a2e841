#include "base/base.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

static const double LARGEST_INTEGER = 9007199254740992.0; /* 2^53: every integer up to it is a double */

static void put(struct sp_json_writer *writer, const char *text)
{
    (void)fputs(text, writer->file); /* write errors stay in the FILE: its owner asks ferror() before closing */
}

static void put_escaped(struct sp_json_writer *writer, unsigned char byte)
{
    static const char *const short_forms[] = {['\b'] = "\\b", ['\f'] = "\\f", ['\n'] = "\\n", ['\r'] = "\\r",
                                              ['\t'] = "\\t", ['"'] = "\\\"", ['\\'] = "\\\\"};
    if (byte < SP_COUNT_OF(short_forms) && short_forms[byte] != NULL) {
        put(writer, short_forms[byte]);
    } else if (byte < 0x20) {
        (void)fprintf(writer->file, "\\u%04x", (unsigned)byte);
    } else {
        (void)fputc(byte, writer->file);
    }
}

/* Bytes that are not UTF-8 (a file name, say) become U+FFFD: the output is JSON whatever comes in. */
static void put_quoted(struct sp_json_writer *writer, const char *text)
{
    put(writer, "\"");
    while (*text != '\0') {
        size_t length = sp_utf8_length(text);
        if (length == 0) {
            put(writer, "\xef\xbf\xbd");
            text++;
        } else if (length == 1) {
            put_escaped(writer, (unsigned char)*text);
            text++;
        } else {
            (void)fwrite(text, 1, length, writer->file);
            text += length;
        }
    }
    put(writer, "\"");
}

static void new_line(struct sp_json_writer *writer)
{
    put(writer, "\n");
    for (int i = 0; i < writer->depth; i++) {
        put(writer, "  ");
    }
}

/* Everything that stands before a value: comma, line break, key. */
static void begin_value(struct sp_json_writer *writer, const char *key)
{
    if (writer->depth > 0) {
        if (!writer->is_first) {
            put(writer, writer->is_compact ? ", " : ",");
        }
        if (!writer->is_compact) {
            new_line(writer);
        }
    }
    writer->is_first = false;
    if (key != NULL) {
        put_quoted(writer, key);
        put(writer, ": ");
    }
}

/* A whole document ends with a line break, as text files do. */
static void end_value(struct sp_json_writer *writer)
{
    if (writer->depth == 0) {
        put(writer, "\n");
    }
}

static void begin_group(struct sp_json_writer *writer, const char *key, const char *bracket)
{
    begin_value(writer, key);
    put(writer, bracket);
    if (writer->is_compact && writer->compact_depth == 0) {
        writer->compact_depth = writer->depth;
    }
    writer->depth++;
    writer->is_first = true;
}

static void end_group(struct sp_json_writer *writer, const char *bracket)
{
    assert(writer->depth > 0);
    /* What is nested in a compact group is compact as well, and its end must not end the outer one's compactness. */
    bool is_end_of_compact =
        writer->is_compact && (writer->compact_depth == 0 || writer->compact_depth == writer->depth);
    writer->depth--;
    if (!writer->is_first && !writer->is_compact) {
        new_line(writer);
    }
    put(writer, bracket);
    writer->is_first = false;
    if (is_end_of_compact) {
        writer->is_compact = false;
        writer->compact_depth = 0;
    }
    end_value(writer);
}

void sp_json_begin_object(struct sp_json_writer *writer, const char *key)
{
    begin_group(writer, key, "{");
}

void sp_json_end_object(struct sp_json_writer *writer)
{
    end_group(writer, "}");
}

void sp_json_begin_array(struct sp_json_writer *writer, const char *key)
{
    begin_group(writer, key, "[");
}

void sp_json_end_array(struct sp_json_writer *writer)
{
    end_group(writer, "]");
}

void sp_json_put_string(struct sp_json_writer *writer, const char *key, const char *value)
{
    if (value == NULL) {
        sp_json_put_null(writer, key);
        return;
    }
    begin_value(writer, key);
    put_quoted(writer, value);
    end_value(writer);
}

/* The fewest of 15, 16 and 17 digits that read back as exactly the same value. */
static void put_shortest(struct sp_json_writer *writer, double value)
{
    char text[40];
    for (int digits = 15; digits <= 17; digits++) {
        (void)snprintf(text, sizeof(text), "%.*g", digits, value);
        double back = strtod(text, NULL);
        if (!(back < value) && !(back > value)) {
            break;
        }
    }
    put(writer, text);
}

void sp_json_put_number(struct sp_json_writer *writer, const char *key, double value)
{
    assert(isfinite(value)); /* a result that is not a number is a bug of the caller, and not JSON either */
    begin_value(writer, key);
    bool is_whole = !(fabs(value - floor(value)) > 0.0);
    if (is_whole && fabs(value) <= LARGEST_INTEGER) {
        (void)fprintf(writer->file, "%.0f", value);
    } else {
        put_shortest(writer, value);
    }
    end_value(writer);
}

void sp_json_put_integer(struct sp_json_writer *writer, const char *key, int64_t value)
{
    begin_value(writer, key);
    (void)fprintf(writer->file, "%" PRId64, value);
    end_value(writer);
}

void sp_json_put_bool(struct sp_json_writer *writer, const char *key, bool value)
{
    begin_value(writer, key);
    put(writer, value ? "true" : "false");
    end_value(writer);
}

void sp_json_put_null(struct sp_json_writer *writer, const char *key)
{
    begin_value(writer, key);
    put(writer, "null");
    end_value(writer);
}
