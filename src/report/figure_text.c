#include "report/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const report_format_names[] = {"table", "markdown", "csv", "json", NULL};

/* Decimals that give the value three significant digits once it is rounded: 0 from 100 on. */
static int three_decimals(double value)
{
    char text[32];
    (void)snprintf(text, sizeof(text), "%.2e", fabs(value));
    const char *exponent = strchr(text, 'e');
    int decimals = 2 - (exponent == NULL ? 0 : (int)strtol(exponent + 1, NULL, 10));
    return decimals < 0 ? 0 : decimals;
}

const char *report_three(struct sp_arena *arena, double value)
{
    enum { MOST_DECIMALS = 6 };
    double magnitude = fabs(value);
    if (!(magnitude > 0.0)) {
        return "0";
    }
    int decimals = three_decimals(value);
    if (magnitude >= 1e9 || decimals > MOST_DECIMALS) {
        return sp_format(arena, "%.2e", value);
    }
    char text[32];
    (void)snprintf(text, sizeof(text), "%.2e", value); /* 1234 becomes 1230 */
    return sp_format(arena, "%.*f", decimals, strtod(text, NULL));
}

const char *report_fixed(struct sp_arena *arena, double value, double largest)
{
    static const double many = 1000.0;
    int decimals = three_decimals(largest);
    if (decimals < 1 && largest < many) {
        decimals = 1; /* else a small item of a large sum would be "<1" */
    }
    double smallest = pow(10.0, -decimals);
    if (value > 0.0 && value < smallest / 2.0) {
        return sp_format(arena, "<%.*f", decimals, smallest);
    }
    return sp_format(arena, "%.*f", decimals, value);
}

const char *report_step_time(struct sp_arena *arena, double seconds)
{
    return seconds < 1.0 ? sp_quantity_print(arena, seconds, SP_SECONDS)
                         : sp_format(arena, "%s s", report_three(arena, seconds));
}

const char *report_percent(struct sp_arena *arena, double frac)
{
    enum { PERCENT = 100 };
    double percent = frac * PERCENT;
    return percent > 0.0 && percent < 0.05 ? "<0.1" : sp_format(arena, "%.1f", percent);
}

const char *report_scaled(struct sp_arena *arena, double value)
{
    static const struct {
        double size;
        const char *unit;
    } scales[] = {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
    for (size_t i = 0; i < SP_COUNT_OF(scales); i++) {
        double most = 0.9995 * scales[i].size; /* rounds to 1.00 of it */
        if (fabs(value) >= most) {
            return sp_format(arena, "%s%s", report_three(arena, value / scales[i].size), scales[i].unit);
        }
    }
    return report_three(arena, value);
}

const char *report_count(struct sp_arena *arena, int64_t count)
{
    static const int64_t most_exact = 100000;
    return count < most_exact ? sp_format(arena, "%lld", (long long)count) : report_scaled(arena, (double)count);
}

/* Bytes that continue a UTF-8 sequence take no place of their own. */
static bool is_continuation(char byte)
{
    return ((unsigned char)byte & 0xc0U) == 0x80U;
}

static int width_of(const char *text, size_t length)
{
    int width = 0;
    for (size_t i = 0; i < length; i++) {
        width += is_continuation(text[i]) ? 0 : 1;
    }
    return width;
}

int report_text_width(const char *text)
{
    return width_of(text, strlen(text));
}

/* How a text breaks into lines. */
struct wrapping {
    int indent;
    const char *label;
    const char *gap; /* between the pieces that stay whole */
};

enum { LEAST_ROOM = 20 }; /* columns of text beside a label, however long that is */

/* Bytes of the text's first piece that go on a line of `room` columns: all of it or, where it is longer than a whole
 * line (a path), up to the last '/' or ',' that fits, else as many characters as do. */
static size_t piece_length(const char *text, size_t length, int room)
{
    size_t fitting = 0;
    size_t at_mark = 0;
    int width = 0;
    for (size_t i = 0; i < length; i++) {
        width += is_continuation(text[i]) ? 0 : 1;
        if (width > room) {
            return at_mark > 0 ? at_mark : fitting;
        }
        fitting = i + 1;
        at_mark = text[i] == '/' || text[i] == ',' ? fitting : at_mark;
    }
    return length;
}

static void print_wrapped(FILE *file, const struct wrapping *wrapping, const char *text)
{
    const int left = wrapping->indent + report_text_width(wrapping->label) + (wrapping->label[0] == '\0' ? 0 : 1);
    (void)fprintf(file, "%*s%s%s", wrapping->indent, "", wrapping->label, wrapping->label[0] == '\0' ? "" : " ");
    const int room = REPORT_COLUMNS - left > LEAST_ROOM ? REPORT_COLUMNS - left : LEAST_ROOM;
    const char *gap = ""; /* owed before the next piece */
    int column = left;
    while (*text != '\0') {
        const char *end = strstr(text, wrapping->gap);
        size_t whole = end == NULL ? strlen(text) : (size_t)(end - text);
        size_t length = piece_length(text, whole, room);
        int width = width_of(text, length);
        if (column > left && column + (int)strlen(gap) + width > REPORT_COLUMNS) {
            (void)fprintf(file, "\n%*s", left, "");
            column = left;
            gap = "";
        }
        (void)fprintf(file, "%s%.*s", gap, (int)length, text);
        column += width + (int)strlen(gap);
        text += length;
        if (length < whole) {
            column = REPORT_COLUMNS; /* the rest of a long word begins a line */
            continue;
        }
        text += strspn(text, " ");
        gap = wrapping->gap;
    }
    (void)fputc('\n', file);
}

void report_wrap(FILE *file, int indent, const char *label, const char *text)
{
    const struct wrapping by_word = {indent, label, " "};
    text += strspn(text, " ");
    if (text[0] == '\0') { /* no blanks before nothing */
        (void)fprintf(file, "%*s%.*s\n", label[0] == '\0' ? 0 : indent, "", report_trimmed_length(label), label);
        return;
    }
    print_wrapped(file, &by_word, text);
}

void report_wrap_parts(FILE *file, int indent, const char *text)
{
    const struct wrapping by_part = {indent, "", REPORT_PART_GAP};
    print_wrapped(file, &by_part, text);
}

int report_trimmed_length(const char *line)
{
    size_t length = strlen(line);
    while (length > 0 && line[length - 1] == ' ') {
        length--;
    }
    return (int)length;
}

const char *report_join_texts(struct sp_arena *arena, const struct sp_texts *texts)
{
    return sp_join(arena, texts->items, texts->count, "; ");
}

const char *report_color(const struct report_style *style, enum report_color color)
{
    static const char *const sequences[] = {
        [REPORT_PLAIN] = "\033[0m", [REPORT_BOLD] = "\033[1m",   [REPORT_DIM] = "\033[2m",
        [REPORT_RED] = "\033[31m",  [REPORT_GREEN] = "\033[32m", [REPORT_YELLOW] = "\033[33m",
    };
    return style->has_color ? sequences[color] : "";
}
