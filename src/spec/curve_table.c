/* Measured tables: "columns" names what a row holds, "rows" are arrays. A row becomes a point: keys (which curve it
 * belongs to), x (bytes, k, sequence) and y (seconds, FLOP per second). */
#include "spec/spec_internal.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double SMALLEST_VALUE = 1e-15; /* seconds; and rates are not below one FLOP a second by as much */
static const double LARGEST_VALUE = 1e24;
static const double LARGEST_X = 1e15; /* bytes, tokens or widths beyond this are mistakes */

/* ---- rows -> points --------------------------------------------------------------------------------------------- */

bool curve_keep_array(const struct sp_decoder *decoder, const struct sp_json *json, const char *path, void *target,
                      struct sp_error *err)
{
    if (json->type != SP_JSON_ARRAY) {
        return sp_fail(err, SP_ERROR_INPUT, "%s: %s: expected an array", decoder->file, path);
    }
    *(const struct sp_json **)target = json;
    return true;
}

bool curve_keep_object(const struct sp_decoder *decoder, const struct sp_json *json, const char *path, void *target,
                       struct sp_error *err)
{
    if (json->type != SP_JSON_OBJECT) {
        return sp_fail(err, SP_ERROR_INPUT, "%s: %s: expected an object", decoder->file, path);
    }
    *(const struct sp_json **)target = json;
    return true;
}

static bool check_columns(const struct curve_reading *reading, const struct curve_table *table, struct sp_error *err)
{
    const struct sp_json *name = table->columns->first;
    for (size_t i = 0; i < reading->n_columns; i++) {
        const char *expected = reading->columns[i].name;
        bool is_text = name != NULL && name->type == SP_JSON_STRING;
        if (!is_text || strcmp(name->string, expected) != 0) {
            return sp_fail(err, SP_ERROR_INPUT, "%s: %s.columns[%zu]: expected \"%s\", found %.40s",
                           reading->decoder->file, reading->path, i, expected, is_text ? name->string : "none");
        }
        name = name->next;
    }
    if (name != NULL) {
        return sp_fail(err, SP_ERROR_INPUT, "%s: %s.columns: expected %zu names, found %d", reading->decoder->file,
                       reading->path, reading->n_columns, table->columns->count);
    }
    return true;
}

/* What the value in a column must be; a key or x without names is a whole number. */
static const char *expected_value(struct sp_arena *arena, const struct curve_column *column, bool is_whole)
{
    if (column->names == NULL) {
        return is_whole ? "a whole number from 1 to 1e15" : "a number from 1e-15 to 1e24";
    }
    size_t n_names = 0;
    while (column->names[n_names] != NULL) {
        n_names++;
    }
    return sp_format(arena, "one of %s", sp_join(arena, column->names, n_names, ", "));
}

static bool read_value(const struct curve_column *column, const struct sp_json *json, bool is_whole, double *value)
{
    if (column->names != NULL) {
        int index = json->type == SP_JSON_STRING ? sp_index_of(json->string, column->names) : -1;
        *value = index;
        return index >= 0;
    }
    *value = json->number;
    bool is_positive = json->type == SP_JSON_NUMBER && json->number >= SMALLEST_VALUE && json->number <= LARGEST_VALUE;
    return is_positive && (!is_whole || (json->number <= LARGEST_X && floor(json->number) >= json->number));
}

static bool read_row(const struct curve_reading *reading, int at_row, const struct sp_json *row,
                     struct curve_point *point, struct sp_error *err)
{
    const char *file = reading->decoder->file;
    size_t n_columns = reading->n_columns;
    if (row->type != SP_JSON_ARRAY || (size_t)row->count != n_columns) {
        return sp_fail(err, SP_ERROR_INPUT, "%s: %s.rows[%d]: expected an array of %zu values", file, reading->path,
                       at_row, n_columns);
    }
    double values[CURVE_MAX_COLUMNS] = {0};
    size_t at = 0;
    for (const struct sp_json *json = row->first; json != NULL; json = json->next, at++) {
        const struct curve_column *column = &reading->columns[at];
        bool is_whole = at + 1 < n_columns;
        if (!read_value(column, json, is_whole, &values[at])) {
            return sp_fail(err, SP_ERROR_INPUT, "%s: %s.rows[%d][%zu]: expected %s (%s)", file, reading->path, at_row,
                           at, expected_value(reading->decoder->arena, column, is_whole), column->name);
        }
    }
    for (size_t key = 0; key + 2 < n_columns; key++) {
        point->keys[key + 1] = (int64_t)values[key];
    }
    point->x = values[n_columns - 2];
    point->y = values[n_columns - 1];
    return true;
}

static void add_point(struct curve_points *points, const struct curve_point *point)
{
    if (points->count == points->capacity) {
        size_t capacity = points->capacity == 0 ? 64 : 2 * points->capacity;
        struct curve_point *items = sp_arena_array(points->arena, capacity, sizeof(*items));
        if (points->count > 0) {
            memcpy(items, points->items, points->count * sizeof(*items));
        }
        points->items = items;
        points->capacity = capacity;
    }
    points->items[points->count] = *point;
    points->count++;
}

bool curve_points_read(const struct curve_reading *reading, const struct curve_table *table, int64_t group,
                       struct curve_points *points, struct sp_error *err)
{
    assert(reading->n_columns >= 2 && reading->n_columns <= CURVE_MAX_COLUMNS);
    if (table->from.kind == (int)SP_FIGURE_NONE || table->from.kind == (int)SP_FIGURE_SET) {
        return sp_fail(err, SP_ERROR_INPUT, "%s: %s.kind: expected datasheet, measured, derived, fitted or assumed",
                       reading->decoder->file, reading->path);
    }
    if (!check_columns(reading, table, err)) {
        return false;
    }
    struct curve_provenance *from = sp_arena_alloc(points->arena, sizeof(*from));
    *from = table->from;
    from->order = points->n_tables;
    points->n_tables++;
    int at = 0;
    for (const struct sp_json *row = table->rows->first; row != NULL; row = row->next, at++) {
        struct curve_point point = {.from = from, .keys = {group}};
        if (!read_row(reading, at, row, &point, err)) {
            return false;
        }
        add_point(points, &point);
    }
    if (at == 0) {
        return sp_fail(err, SP_ERROR_INPUT, "%s: %s.rows: expected at least one row", reading->decoder->file,
                       reading->path);
    }
    return true;
}

/* ---- points -> runs --------------------------------------------------------------------------------------------- */

static int compare_keys(const struct curve_point *a, const struct curve_point *b)
{
    for (int i = 0; i < CURVE_MAX_KEYS; i++) {
        if (a->keys[i] != b->keys[i]) {
            return a->keys[i] < b->keys[i] ? -1 : 1;
        }
    }
    return 0;
}

static int compare_points(const void *left, const void *right)
{
    const struct curve_point *a = left;
    const struct curve_point *b = right;
    int by_key = compare_keys(a, b);
    if (by_key != 0) {
        return by_key;
    }
    if (a->x < b->x) {
        return -1;
    }
    return a->x > b->x ? 1 : 0;
}

bool curve_points_sort(const struct sp_decoder *decoder, const char *path, struct curve_points *points,
                       struct sp_error *err)
{
    if (points->count > 1) {
        qsort(points->items, points->count, sizeof(*points->items), compare_points);
    }
    for (size_t i = 1; i < points->count; i++) {
        if (compare_points(&points->items[i - 1], &points->items[i]) == 0) {
            return sp_fail(err, SP_ERROR_INPUT, "%s: %s: expected one row for a point, found two at %.0f",
                           decoder->file, path, points->items[i].x);
        }
    }
    return true;
}

size_t curve_run(const struct curve_points *points, size_t first)
{
    size_t length = 1;
    while (first + length < points->count && compare_keys(&points->items[first], &points->items[first + length]) == 0) {
        length++;
    }
    return length;
}

const double *curve_log_x(struct sp_arena *arena, const struct curve_point *points, size_t count)
{
    double *logs = sp_arena_array(arena, count, sizeof(*logs));
    for (size_t i = 0; i < count; i++) {
        logs[i] = log(points[i].x);
    }
    return logs;
}

const double *curve_y(struct sp_arena *arena, const struct curve_point *points, size_t count)
{
    double *values = sp_arena_array(arena, count, sizeof(*values));
    for (size_t i = 0; i < count; i++) {
        values[i] = points[i].y;
    }
    return values;
}

const double *curve_log_y(struct sp_arena *arena, const struct curve_point *points, size_t count)
{
    double *logs = sp_arena_array(arena, count, sizeof(*logs));
    for (size_t i = 0; i < count; i++) {
        logs[i] = log(points[i].y);
    }
    return logs;
}

/* The table that comes first in the file among those after `order`. */
static const struct curve_provenance *next_table(const struct curve_point *points, size_t count, int order)
{
    const struct curve_provenance *next = NULL;
    for (size_t i = 0; i < count; i++) {
        const struct curve_provenance *from = points[i].from;
        if (from->order > order && (next == NULL || from->order < next->order)) {
            next = from;
        }
    }
    return next;
}

struct curve_provenance curve_joined(struct sp_arena *arena, const struct curve_point *points, size_t count)
{
    const struct curve_provenance *first = next_table(points, count, -1);
    assert(first != NULL);
    struct sp_texts sources = {.arena = arena};
    struct curve_provenance joined = *first;
    for (const struct curve_provenance *from = first; from != NULL; from = next_table(points, count, from->order)) {
        sp_texts_add(&sources, "%s", from->source);
        bool is_known = joined.spread > 0 && from->spread > 0;
        joined.spread = is_known ? fmax(joined.spread, from->spread) : 0;
    }
    joined.source = sp_join(arena, sources.items, sources.count, "; ");
    return joined;
}
