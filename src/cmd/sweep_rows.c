/* The rows of a sweep: where they are kept, and how they are printed in the order of their points. */
#include "cmd/sweep.h"

static bool is_table(const struct sweep_rows *rows)
{
    int format = rows->sweep->options->format;
    return format == REPORT_TABLE || format == REPORT_MARKDOWN;
}

/* Before the first row is filled: hours later would be late. */
static bool check_size(const struct sweep_rows *rows, struct sp_error *err)
{
    long long n_points = (long long)rows->points->n_points;
    if (n_points <= SWEEP_KEPT_ROWS) {
        return true;
    }
    if (is_table(rows)) {
        return sp_fail(err, SP_ERROR_USAGE,
                       "--vary: a table has at most %d rows, found %lld: ask for --format csv or json",
                       (int)SWEEP_KEPT_ROWS, n_points);
    }
    return rows->sweep->options->db != NULL ||
           sp_fail(err, SP_ERROR_USAGE,
                   "--vary: without a store at most %d rows, found %lld: give --db FILE, which keeps them, and from "
                   "which an interrupted sweep goes on",
                   (int)SWEEP_KEPT_ROWS, n_points);
}

static bool open_store(struct sweep_rows *rows, struct sp_error *err)
{
    if (!sweep_store_open(rows, err)) {
        return false;
    }
    for (int64_t point = 0; point < rows->points->n_points; point++) {
        rows->n_has += rows->has[point] ? 1 : 0;
    }
    if (rows->n_has > 0) {
        (void)fprintf(stderr, "seqplan: %lld of %lld rows were there already\n", (long long)rows->n_has,
                      (long long)rows->points->n_points);
    }
    return true;
}

bool sweep_rows_open(struct sweep_rows *rows, struct sp_error *err)
{
    struct sp_arena *arena = rows->sweep->context->arena;
    size_t n_points = (size_t)rows->points->n_points;
    if (!check_size(rows, err)) {
        return false;
    }
    rows->has = sp_arena_array(arena, n_points, sizeof(*rows->has));
    if (rows->sweep->options->db != NULL) {
        return open_store(rows, err);
    }
    rows->texts = sp_arena_array(arena, n_points, sizeof(*rows->texts));
    return true;
}

bool sweep_rows_add(struct sweep_rows *rows, int64_t point, const char *json, struct sp_error *err)
{
    rows->has[point] = true;
    rows->n_has++;
    if (rows->store != NULL) {
        return sweep_store_add(rows->store, point, json, err);
    }
    rows->texts[point] = sp_strdup(rows->sweep->context->arena, json);
    return true;
}

bool sweep_rows_flush(struct sweep_rows *rows, struct sp_error *err)
{
    return rows->store == NULL || sweep_store_flush(rows->store, err);
}

void sweep_rows_close(struct sweep_rows *rows)
{
    if (rows->store != NULL) {
        sweep_store_close(rows->store);
    }
}

/* ---- printing --------------------------------------------------------------------------------------------------- */

/* The rows in the order of their points, wherever they are kept. */
struct reading {
    const struct sweep_rows *rows;
    struct sp_arena *arena;
    bool keeps; /* else what was read is gone after its visit */
    bool fits;  /* any of them */
};

/* Each of them is shown to the visitor. */
struct row_visit {
    struct reading *reading;
    report_row_visit visit;
    void *visitor;
};

static bool does_fit(const struct sp_json *answer)
{
    const struct sp_json *fits = sp_json_member(answer, "fits");
    return fits != NULL && fits->type == SP_JSON_BOOL && fits->boolean;
}

static bool read_row(void *user, int64_t point, const char *json, struct sp_error *err)
{
    const struct row_visit *visit = user;
    struct reading *reading = visit->reading;
    if (!reading->rows->has[point]) { /* another process goes on with the same sweep */
        return true;
    }
    struct sp_arena_mark mark = sp_arena_mark(reading->arena);
    const char *name = sp_format(reading->arena, "row %lld", (long long)point);
    const struct report_row row = {.values = points_values(reading->rows->points, reading->arena, point),
                                   .answer = sp_json_parse(reading->arena, name, json, err)};
    bool is_good = row.answer != NULL;
    if (is_good) {
        reading->fits = reading->fits || does_fit(row.answer);
        is_good = visit->visit(visit->visitor, &row, reading->arena, err);
    }
    if (!reading->keeps) {
        sp_arena_rewind(reading->arena, mark);
    }
    return is_good;
}

static bool each_row(void *user, report_row_visit visit, void *visitor, struct sp_error *err)
{
    struct reading *reading = user;
    const struct sweep_rows *rows = reading->rows;
    struct row_visit row_visit = {.reading = reading, .visit = visit, .visitor = visitor};
    if (rows->store != NULL) {
        return sweep_store_visit(rows->store, read_row, &row_visit, err);
    }
    bool is_good = true;
    for (int64_t point = 0; point < rows->points->n_points && is_good; point++) {
        is_good = read_row(&row_visit, point, rows->texts[point], err);
    }
    return is_good;
}

static bool print_stream(struct reading *reading, const struct report_style *style, struct sp_error *err)
{
    const struct sweep_rows *rows = reading->rows;
    const struct report_row_source source = {.names = rows->points->names,
                                             .n_names = rows->points->n_varied,
                                             .n_missing = rows->points->n_points - rows->n_has,
                                             .each = each_row,
                                             .user = reading};
    return report_rows_stream(style, rows->sweep->context->arena, &source, err);
}

struct collected {
    struct report_row *rows;
    int n_rows;
};

static bool collect_row(void *visitor, const struct report_row *row, struct sp_arena *scratch, struct sp_error *err)
{
    (void)scratch;
    (void)err;
    struct collected *collected = visitor;
    collected->rows[collected->n_rows++] = *row;
    return true;
}

/* A table knows its columns only when it knows all rows. */
static bool print_table(struct reading *reading, const struct report_style *style, struct sp_error *err)
{
    const struct sweep_rows *rows = reading->rows;
    struct collected collected = {.rows =
                                      sp_arena_array(reading->arena, (size_t)rows->n_has + 1, sizeof(*collected.rows))};
    reading->keeps = true;
    if (!each_row(reading, collect_row, &collected, err)) {
        return false;
    }
    const struct report_rows table = {.names = rows->points->names,
                                      .n_names = rows->points->n_varied,
                                      .rows = collected.rows,
                                      .n_rows = collected.n_rows};
    if (collected.n_rows > 0) {
        report_rows(style, rows->sweep->context->arena, &table);
    }
    return true;
}

bool sweep_rows_print(struct sweep_rows *rows, bool *fits, struct sp_error *err)
{
    const struct report_style style = command_style(rows->sweep->context, rows->sweep->options);
    struct reading reading = {.rows = rows, .arena = sp_arena_open()};
    bool is_good = is_table(rows) ? print_table(&reading, &style, err) : print_stream(&reading, &style, err);
    sp_arena_close(reading.arena);
    *fits = reading.fits;
    return is_good;
}
