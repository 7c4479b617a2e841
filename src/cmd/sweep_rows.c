/* The rows of a sweep: where they are kept, and how they are printed in the order of their points. */
#include "cmd/sweep.h"

bool sweep_rows_open(struct sweep_rows *rows, struct sp_error *err)
{
    (void)err;
    struct sp_arena *arena = rows->sweep->context->arena;
    size_t n_points = (size_t)rows->points->n_points;
    rows->has = sp_arena_array(arena, n_points, sizeof(*rows->has));
    rows->texts = sp_arena_array(arena, n_points, sizeof(*rows->texts));
    return true;
}

bool sweep_rows_add(struct sweep_rows *rows, int64_t point, const char *json, struct sp_error *err)
{
    (void)err;
    rows->texts[point] = sp_strdup(rows->sweep->context->arena, json);
    rows->has[point] = true;
    rows->n_has++;
    return true;
}

void sweep_rows_close(struct sweep_rows *rows)
{
    (void)rows;
}

/* ---- printing --------------------------------------------------------------------------------------------------- */

static bool does_fit(const struct sp_json *answer)
{
    const struct sp_json *fits = sp_json_member(answer, "fits");
    return fits != NULL && fits->type == SP_JSON_BOOL && fits->boolean;
}

/* What a text says, with the values of its point. */
static bool read_row(const struct sweep_rows *rows, struct sp_arena *arena, int64_t point, struct report_row *row,
                     struct sp_error *err)
{
    const char *name = sp_format(arena, "row %lld", (long long)point);
    *row = (struct report_row){.values = points_values(rows->points, arena, point),
                               .answer = sp_json_parse(arena, name, rows->texts[point], err)};
    return row->answer != NULL;
}

/* A row after the other, for JSON and CSV. */
struct printing {
    const struct sweep_rows *rows;
    struct sp_arena *scratch;
    bool fits;
};

static bool each_row(void *user, report_row_visit visit, void *visitor, struct sp_error *err)
{
    struct printing *printing = user;
    bool is_good = true;
    for (int64_t point = 0; point < printing->rows->points->n_points && is_good; point++) {
        if (!printing->rows->has[point]) {
            continue;
        }
        struct sp_arena_mark mark = sp_arena_mark(printing->scratch);
        struct report_row row;
        is_good = read_row(printing->rows, printing->scratch, point, &row, err);
        if (is_good) {
            printing->fits = printing->fits || does_fit(row.answer);
            is_good = visit(visitor, &row, printing->scratch, err);
        }
        sp_arena_rewind(printing->scratch, mark);
    }
    return is_good;
}

static bool print_stream(const struct sweep_rows *rows, const struct report_style *style, bool *fits,
                         struct sp_error *err)
{
    struct printing printing = {.rows = rows, .scratch = sp_arena_open()};
    const struct report_row_source source = {.names = rows->points->names,
                                             .n_names = rows->points->n_varied,
                                             .n_missing = rows->points->n_points - rows->n_has,
                                             .each = each_row,
                                             .user = &printing};
    bool is_good = report_rows_stream(style, rows->sweep->context->arena, &source, err);
    sp_arena_close(printing.scratch);
    *fits = printing.fits;
    return is_good;
}

/* A table knows its columns only when it knows all rows. */
static bool print_table(const struct sweep_rows *rows, const struct report_style *style, bool *fits,
                        struct sp_error *err)
{
    struct sp_arena *arena = rows->sweep->context->arena;
    struct report_row *read = sp_arena_array(arena, (size_t)rows->n_has + 1, sizeof(*read));
    int n_read = 0;
    for (int64_t point = 0; point < rows->points->n_points; point++) {
        if (rows->has[point]) {
            if (!read_row(rows, arena, point, &read[n_read], err)) {
                return false;
            }
            *fits = *fits || does_fit(read[n_read].answer);
            n_read++;
        }
    }
    const struct report_rows table = {
        .names = rows->points->names, .n_names = rows->points->n_varied, .rows = read, .n_rows = n_read};
    if (n_read > 0) {
        report_rows(style, arena, &table);
    }
    return true;
}

bool sweep_rows_print(struct sweep_rows *rows, bool *fits, struct sp_error *err)
{
    const struct report_style style = command_style(rows->sweep->context, rows->sweep->options);
    bool is_readable = style.format == REPORT_TABLE || style.format == REPORT_MARKDOWN;
    *fits = false;
    return is_readable ? print_table(rows, &style, fits, err) : print_stream(rows, &style, fits, err);
}
