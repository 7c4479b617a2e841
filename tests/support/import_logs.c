#include "support/import_logs.h"

#include "support/support.h"

#include <stdio.h>
#include <string.h>

struct import_text import_log_text(struct sp_arena *arena, const char *name)
{
    enum { MOST_BYTES = 1 << 20 };
    const char *path = sp_format(arena, "tests/import/%s", name);
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        fail_msg("%s cannot be opened", path);
    }
    char *bytes = sp_arena_alloc(arena, MOST_BYTES);
    size_t n_bytes = fread(bytes, 1, MOST_BYTES, file);
    assert_int_equal(ferror(file), 0);
    assert_int_equal(fclose(file), 0);
    assert_true(n_bytes > 0 && n_bytes < MOST_BYTES);
    return import_text_open(arena, path, bytes, n_bytes);
}

struct import_text import_log_lines(struct sp_arena *arena, const char *text)
{
    return import_text_open(arena, "log", text, strlen(text));
}

struct measurement import_log_row(struct sp_arena *arena, const struct store_import *run, size_t row)
{
    struct measurement line;
    struct sp_error err = {0};
    assert_true(row < run->n_rows);
    if (!measurement_parse(arena, run->rows[row].json, strlen(run->rows[row].json), &line, &err)) {
        fail_msg("row %zu: %s", row, err.text);
    }
    assert_int_equal(line.kind, MEASUREMENT_TIMED);
    assert_string_equal(line.key, run->rows[row].key);
    return line;
}

const struct sp_json *import_log_parameter(const struct measurement *line, const char *name)
{
    return sp_json_member(line->parameters, name);
}
