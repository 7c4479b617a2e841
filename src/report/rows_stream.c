/* Rows one after another: "seqplan.table/1" and CSV of as many as there are, with one of them in memory at a time. */
#include "report/report.h"

#include <assert.h>

/* What a visit of a row needs. */
struct stream {
    const struct report_style *style;
    const struct report_row_source *source;
    struct sp_json_writer writer;
    struct report_csv csv;
};

static const struct sp_json *row_tree(const struct stream *stream, const struct report_row *row,
                                      struct sp_arena *scratch)
{
    const struct report_rows one = {.names = stream->source->names,
                                    .n_names = stream->source->n_names,
                                    .rows = row,
                                    .n_rows = 1,
                                    .is_comparison = stream->source->is_comparison};
    return report_row_tree(scratch, &one, 0);
}

static bool put_json(void *user, const struct report_row *row, struct sp_arena *scratch, struct sp_error *err)
{
    (void)err;
    struct stream *stream = user;
    report_tree_put(&stream->writer, row_tree(stream, row, scratch), true);
    return true;
}

static bool stream_json(struct stream *stream, struct sp_error *err)
{
    struct sp_json_writer *writer = &stream->writer;
    writer->file = stream->style->file;
    sp_json_begin_object(writer, NULL);
    sp_json_put_string(writer, "schema", "seqplan.table/1");
    if (stream->source->n_missing > 0) {
        sp_json_put_bool(writer, "partial", true);
        sp_json_put_integer(writer, "missing", stream->source->n_missing);
    }
    sp_json_begin_array(writer, "rows");
    bool is_good = stream->source->each(stream->source->user, put_json, stream, err);
    sp_json_end_array(writer);
    sp_json_end_object(writer);
    return is_good;
}

static bool see_columns(void *user, const struct report_row *row, struct sp_arena *scratch, struct sp_error *err)
{
    (void)err;
    struct stream *stream = user;
    report_csv_columns(&stream->csv, scratch, report_csv_answer(scratch, row_tree(stream, row, scratch)));
    return true;
}

static bool put_line(void *user, const struct report_row *row, struct sp_arena *scratch, struct sp_error *err)
{
    (void)err;
    struct stream *stream = user;
    const struct sp_json *answer = report_csv_answer(scratch, row_tree(stream, row, scratch));
    report_csv_line(&stream->csv, scratch, answer, stream->style->file);
    return true;
}

/* Twice over the rows: the heading has the columns of all of them. */
static bool stream_csv(struct stream *stream, struct sp_arena *arena, struct sp_error *err)
{
    const struct report_row_source *source = stream->source;
    report_csv_open(&stream->csv, arena);
    if (!source->each(source->user, see_columns, stream, err)) {
        return false;
    }
    report_csv_heading(&stream->csv, stream->style->file);
    return source->each(source->user, put_line, stream, err);
}

bool report_rows_stream(const struct report_style *style, struct sp_arena *arena,
                        const struct report_row_source *source, struct sp_error *err)
{
    assert(style->format == REPORT_JSON || style->format == REPORT_CSV);
    struct stream stream = {.style = style, .source = source};
    return style->format == REPORT_JSON ? stream_json(&stream, err) : stream_csv(&stream, arena, err);
}

/* ---- rows that stand in memory ---------------------------------------------------------------------------------- */

struct listed {
    const struct report_rows *rows;
    struct sp_arena *arena;
};

static bool each_listed(void *user, report_row_visit visit, void *visitor, struct sp_error *err)
{
    const struct listed *listed = user;
    bool is_good = true;
    for (int i = 0; i < listed->rows->n_rows && is_good; i++) {
        struct sp_arena_mark mark = sp_arena_mark(listed->arena);
        is_good = visit(visitor, &listed->rows->rows[i], listed->arena, err);
        sp_arena_rewind(listed->arena, mark);
    }
    return is_good;
}

void report_rows_listed(const struct report_style *style, struct sp_arena *arena, const struct report_rows *rows)
{
    struct listed listed = {.rows = rows, .arena = sp_arena_open()};
    const struct report_row_source source = {.names = rows->names,
                                             .n_names = rows->n_names,
                                             .is_comparison = rows->is_comparison,
                                             .each = each_listed,
                                             .user = &listed};
    struct sp_error never = {.kind = SP_ERROR_NONE}; /* nothing is read: no visit can fail */
    bool is_good = report_rows_stream(style, arena, &source, &never);
    assert(is_good);
    (void)is_good;
    sp_arena_close(listed.arena);
}
