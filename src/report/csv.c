/* CSV as RFC 4180 has it, but for line ends: LF, as the other formats. */
#include "report/report.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void grow(struct report_csv *sheet)
{
    int capacity = sheet->capacity == 0 ? 256 : 2 * sheet->capacity;
    const char **names = sp_arena_array(sheet->arena, (size_t)capacity, sizeof(*names));
    const struct sp_json **cells = sp_arena_array(sheet->arena, (size_t)capacity, sizeof(*cells));
    if (sheet->n_columns > 0) {
        memcpy(names, sheet->names, (size_t)sheet->n_columns * sizeof(*names));
        memcpy(cells, sheet->cells, (size_t)sheet->n_columns * sizeof(*cells));
    }
    sheet->names = names;
    sheet->cells = cells;
    sheet->capacity = capacity;
}

static int find_column(const struct report_csv *sheet, const char *name)
{
    if (sheet->expected < sheet->n_columns && strcmp(sheet->names[sheet->expected], name) == 0) {
        return sheet->expected;
    }
    for (int i = 0; i < sheet->n_columns; i++) {
        if (strcmp(sheet->names[i], name) == 0) {
            return i;
        }
    }
    return -1;
}

static void put_cell(struct report_csv *sheet, const char *name, const struct sp_json *value)
{
    int column = find_column(sheet, name);
    if (column < 0) {
        if (sheet->n_columns == sheet->capacity) {
            grow(sheet);
        }
        column = sheet->n_columns++;
        sheet->names[column] = sp_strdup(sheet->arena, name);
    }
    assert(sheet->cells != NULL);
    sheet->cells[column] = value;
    sheet->expected = column + 1;
}

/* An empty list is a list of texts: one empty cell. */
static bool is_list_of_texts(const struct sp_json *value)
{
    bool is_scalar =
        value->first == NULL || (value->first->type != SP_JSON_OBJECT && value->first->type != SP_JSON_ARRAY);
    return value->type == SP_JSON_ARRAY && is_scalar;
}

static void flatten(struct report_csv *sheet, const char *prefix, const struct sp_json *value)
{
    bool is_leaf = (value->type != SP_JSON_OBJECT && value->type != SP_JSON_ARRAY) || is_list_of_texts(value);
    if (is_leaf) {
        put_cell(sheet, prefix, value);
        return;
    }
    int index = 0;
    for (const struct sp_json *member = value->first; member != NULL; member = member->next) {
        const char *dot = prefix[0] == '\0' ? "" : ".";
        char *name = value->type == SP_JSON_ARRAY ? sp_format(sheet->scratch, "%s%s%d", prefix, dot, index)
                                                  : sp_format(sheet->scratch, "%s%s%s", prefix, dot, member->key);
        flatten(sheet, name, member);
        index++;
    }
}

static void write_quoted(const char *text, FILE *file)
{
    if (strpbrk(text, ",\"\r\n") == NULL) {
        (void)fputs(text, file);
        return;
    }
    (void)fputc('"', file);
    for (; *text != '\0'; text++) {
        if (*text == '"') {
            (void)fputc('"', file);
        }
        (void)fputc(*text, file);
    }
    (void)fputc('"', file);
}

/* As in JSON: whole numbers plain, others with the fewest digits that read back exactly. */
static const char *number_text(struct sp_arena *arena, double value)
{
    assert(isfinite(value));
    if (!(fabs(value - floor(value)) > 0.0) && fabs(value) <= 0x1p53) {
        return sp_format(arena, "%.0f", value);
    }
    for (int digits = 15; digits < 17; digits++) {
        const char *text = sp_format(arena, "%.*g", digits, value);
        double back = strtod(text, NULL);
        if (!(back < value) && !(back > value)) {
            return text;
        }
    }
    return sp_format(arena, "%.17g", value);
}

static const char *cell_text(struct sp_arena *arena, const struct sp_json *value);

static const char *list_text(struct sp_arena *arena, const struct sp_json *list)
{
    const char **elements = sp_arena_array(arena, (size_t)list->count + 1, sizeof(*elements));
    size_t n_elements = 0;
    for (const struct sp_json *element = list->first; element != NULL; element = element->next) {
        elements[n_elements++] = cell_text(arena, element);
    }
    return sp_join(arena, elements, n_elements, "; ");
}

static const char *cell_text(struct sp_arena *arena, const struct sp_json *value)
{
    switch (value->type) {
    case SP_JSON_BOOL:
        return value->boolean ? "true" : "false";
    case SP_JSON_NUMBER:
        return number_text(arena, value->number);
    case SP_JSON_STRING:
        return value->string;
    case SP_JSON_ARRAY:
        return list_text(arena, value);
    case SP_JSON_NULL:
    case SP_JSON_OBJECT:
        break;
    }
    return "";
}

static void read_object(struct report_csv *sheet, struct sp_arena *scratch, const struct sp_json *object)
{
    if (sheet->n_columns > 0) {
        memset(sheet->cells, 0, (size_t)sheet->n_columns * sizeof(*sheet->cells));
    }
    sheet->scratch = scratch;
    sheet->expected = 0;
    flatten(sheet, "", object);
}

void report_csv_open(struct report_csv *sheet, struct sp_arena *arena)
{
    *sheet = (struct report_csv){.arena = arena};
}

void report_csv_columns(struct report_csv *sheet, struct sp_arena *scratch, const struct sp_json *object)
{
    read_object(sheet, scratch, object);
}

void report_csv_heading(const struct report_csv *sheet, FILE *file)
{
    for (int i = 0; i < sheet->n_columns; i++) {
        (void)fputs(i == 0 ? "" : ",", file);
        write_quoted(sheet->names[i], file);
    }
    (void)fputc('\n', file);
}

void report_csv_line(struct report_csv *sheet, struct sp_arena *scratch, const struct sp_json *object, FILE *file)
{
    read_object(sheet, scratch, object);
    for (int i = 0; i < sheet->n_columns; i++) {
        (void)fputs(i == 0 ? "" : ",", file);
        if (sheet->cells[i] != NULL) {
            write_quoted(cell_text(scratch, sheet->cells[i]), file);
        }
    }
    (void)fputc('\n', file);
}

void report_csv_write(struct sp_arena *arena, const struct sp_json *const *objects, int n_objects, FILE *file)
{
    struct report_csv sheet;
    report_csv_open(&sheet, arena);
    for (int i = 0; i < n_objects; i++) {
        report_csv_columns(&sheet, arena, objects[i]);
    }
    report_csv_heading(&sheet, file);
    for (int i = 0; i < n_objects; i++) {
        report_csv_line(&sheet, arena, objects[i], file);
    }
}
