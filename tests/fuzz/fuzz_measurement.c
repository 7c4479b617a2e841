/* Bytes as lines of a measurement file: each is read or refused with a reason; what is read keeps the bounds that the rest
 * counts on, can be printed in any format, and is read again from its own text. */
#include "report/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_ROWS = 64 };

struct rows {
    struct measurement items[MOST_ROWS];
    size_t count;
    const struct sp_json *machine;
};

static void expect(bool is_true, const char *what)
{
    if (!is_true) {
        (void)fprintf(stderr, "%s\n", what);
        abort();
    }
}

static void check_timed(const struct measurement *line)
{
    expect(line->min_s > 0.0 && line->min_s <= line->median_s, "a minimum above the median");
    expect(line->low_s > 0.0 && line->low_s <= line->median_s && line->median_s <= line->high_s, "no interval");
    expect(line->count >= 1 && isfinite(line->flop / line->median_s) && isfinite(line->high_s), "not a rate");
    expect(line->throttle != NULL && line->parameters->type == SP_JSON_OBJECT, "half a measurement");
}

static void check_line(struct sp_arena *arena, const struct measurement *line)
{
    if (line->kind == MEASUREMENT_TIMED || line->kind == MEASUREMENT_REFUSED) {
        expect(line->group < N_MEASUREMENT_GROUPS, "no group");
        expect(line->key[0] != '\0' && strpbrk(line->key, "\n\r") == NULL, "a key of no line");
        expect(strlen(line->key) <= MEASUREMENT_KEY_BYTES, "a long key");
    }
    if (line->kind == MEASUREMENT_TIMED) {
        check_timed(line);
    }
    expect(line->kind != MEASUREMENT_REFUSED || line->reason != NULL, "no reason");
    expect(line->kind != MEASUREMENT_MACHINE || measurement_is_same_machine(line->json, line->json), "another machine");
    const char *text = report_tree_text(arena, line->json);
    struct measurement again;
    struct sp_error err = {0};
    expect(text != NULL &&
               (strlen(text) > MEASUREMENT_LINE_BYTES || measurement_parse(arena, text, strlen(text), &again, &err)),
           "its own text is refused");
}

static void take_line(struct sp_arena *arena, struct rows *rows, const char *text, size_t length)
{
    struct measurement line;
    struct sp_error err = {0};
    if (!measurement_parse(arena, text, length, &line, &err)) {
        expect(err.kind == SP_ERROR_INPUT && err.text[0] != '\0', "refused without a reason");
        expect(strchr(err.text, '\n') == NULL, "reason of several lines");
        return;
    }
    check_line(arena, &line);
    if (line.kind == MEASUREMENT_MACHINE) {
        rows->machine = line.json;
    } else if ((line.kind == MEASUREMENT_TIMED || line.kind == MEASUREMENT_REFUSED) && rows->count < MOST_ROWS) {
        rows->items[rows->count++] = line;
    }
}

static void print_rows(struct sp_arena *arena, const struct rows *rows)
{
    for (int format = REPORT_TABLE; format <= REPORT_JSON; format++) {
        char *text = NULL;
        size_t size = 0;
        FILE *file = open_memstream(&text, &size);
        expect(file != NULL, "no memory stream");
        const struct report_style style = {.file = file, .format = (enum report_format)format, .version = ""};
        const struct report_measured measured = {.id = 61,
                                                 .key = "",
                                                 .profile = "",
                                                 .version = "",
                                                 .begun_at = "",
                                                 .changed_at = "",
                                                 .machine = rows->machine,
                                                 .rows = rows->items,
                                                 .n_rows = rows->count};
        report_measured(&style, arena, &measured);
        expect(fclose(file) == 0, "the stream failed");
        free(text);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sp_arena *arena = sp_arena_open();
    struct rows *rows = sp_arena_alloc(arena, sizeof(*rows));
    const char *text = (const char *)data;
    while (size > 0) {
        const char *newline = memchr(text, '\n', size);
        size_t length = newline == NULL ? size : (size_t)(newline - text);
        take_line(arena, rows, text, length);
        length += newline == NULL ? 0 : 1;
        text += length;
        size -= length;
    }
    if (rows->machine != NULL) {
        print_rows(arena, rows);
    }
    sp_arena_close(arena);
    return 0;
}
