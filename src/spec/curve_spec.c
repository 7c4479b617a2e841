#include "spec/spec_internal.h"

#include <string.h>

static const char *const pass_names[] = {"forward", "input_gradient", "weight_gradient", NULL};

static const struct curve_column gemm_columns[] = {{"pass", pass_names}, {"k", NULL}, {"flop_per_s", NULL}};
static const struct curve_column copy_columns[] = {{"bytes", NULL}, {"seconds", NULL}};
static const struct curve_column collective_columns[] = {
    {"operation", collective_names}, {"ranks", NULL}, {"bytes", NULL}, {"seconds", NULL}};

static void fill_time_curve(struct sp_arena *arena, const struct curve_point *points, size_t count,
                            struct time_curve *curve)
{
    struct curve_provenance from = curve_joined(arena, points, count);
    *curve = (struct time_curve){
        .kind = (enum sp_figure_kind)from.kind,
        .source = from.source,
        .note = from.note,
        .spread = from.spread,
        .n_points = (int)count,
        .log_bytes = curve_log_x(arena, points, count),
        .log_seconds = curve_log_y(arena, points, count),
    };
}

/* ---- gemm ------------------------------------------------------------------------------------------------------- */

#define CEILING(name, pass)                                                                                            \
    {                                                                                                                  \
        .key = (name), .type = SP_FIELD_FIGURE, .dimension = SP_FLOP_PER_S,                                            \
        .offset = sizeof(struct sp_figure) * (pass), .min = 1e9, .max = 1e18, .is_required = true,                     \
        .help = "rate that long calls sustain at the power limit"                                                      \
    }
static const struct sp_field ceiling_fields[] = {
    CEILING("forward", PASS_FORWARD),
    CEILING("input_gradient", PASS_INPUT_GRADIENT),
    CEILING("weight_gradient", PASS_WEIGHT_GRADIENT),
    {.key = NULL},
};

#define GEMM_FIGURES(base)                                                                                             \
    {.key = "ceiling",                                                                                                 \
     .type = SP_FIELD_OBJECT,                                                                                          \
     .offset = (base) + offsetof(struct gemm_curve, ceiling),                                                          \
     .is_required = true,                                                                                              \
     .help = "by pass",                                                                                                \
     .fields = ceiling_fields},                                                                                        \
        {.key = "clock",                                                                                               \
         .type = SP_FIELD_FIGURE,                                                                                      \
         .dimension = SP_HERTZ,                                                                                        \
         .offset = (base) + offsetof(struct gemm_curve, clock),                                                        \
         .min = 1e8,                                                                                                   \
         .max = 1e10,                                                                                                  \
         .help = "clock at which a long run of products alone settles"},                                               \
    {                                                                                                                  \
        .key = "sustained_factor", .type = SP_FIELD_FIGURE, .dimension = SP_FRACTION,                                  \
        .offset = (base) + offsetof(struct gemm_curve, sustained), .min = 0.1, .max = 1, .is_required = true,          \
        .help = "share of the table and the ceiling that a training step keeps"                                        \
    }
const struct sp_field gemm_figure_fields[] = {GEMM_FIGURES(0), {.key = NULL}};

struct gemm_file {
    struct curve_table table;
    struct gemm_curve curve;
};
static const struct sp_field gemm_fields[] = {
    CURVE_TABLE_FIELDS(gemm_file),
    {.key = "tile_rows",
     .type = SP_FIELD_INTEGER,
     .offset = offsetof(struct gemm_file, curve.tile_rows),
     .min = 1,
     .max = 65536,
     .is_required = true,
     .help = "rows of an output tile"},
    {.key = "tile_columns",
     .type = SP_FIELD_INTEGER,
     .offset = offsetof(struct gemm_file, curve.tile_columns),
     .min = 1,
     .max = 65536,
     .is_required = true,
     .help = "columns of an output tile"},
    GEMM_FIGURES(offsetof(struct gemm_file, curve)),
    {.key = NULL},
};

static bool fill_gemm(const struct sp_decoder *decoder, const char *path, const struct curve_points *points,
                      struct gemm_curve *curve, struct sp_error *err)
{
    size_t length = 0;
    for (size_t at = 0; at < points->count; at += length) {
        length = curve_run(points, at);
        int64_t pass = points->items[at].keys[1];
        curve->n_points[pass] = (int)length;
        curve->log_k[pass] = curve_log_x(decoder->arena, &points->items[at], length);
        curve->flop_per_s[pass] = curve_y(decoder->arena, &points->items[at], length);
    }
    for (int pass = 0; pass < N_GEMM_PASSES; pass++) {
        if (curve->n_points[pass] == 0) {
            return sp_fail(err, SP_ERROR_INPUT, "%s: %s.rows: expected rows of every pass, found none of %s",
                           decoder->file, path, pass_names[pass]);
        }
    }
    return true;
}

bool gemm_curve_decode(const struct sp_decoder *decoder, const struct sp_json *json, const char *path, void *target,
                       struct sp_error *err)
{
    struct gemm_file file = {0};
    struct curve_points points = {.arena = decoder->arena};
    const struct curve_reading reading = {decoder, path, gemm_columns, SP_COUNT_OF(gemm_columns)};
    if (!sp_fields_decode(gemm_fields, decoder, json, path, &file, err) ||
        !curve_points_read(&reading, &file.table, 0, &points, err) || !curve_points_sort(decoder, path, &points, err) ||
        !fill_gemm(decoder, path, &points, &file.curve, err)) {
        return false;
    }
    file.curve.kind = (enum sp_figure_kind)file.table.from.kind;
    file.curve.source = file.table.from.source;
    file.curve.note = file.table.from.note;
    file.curve.spread = file.table.from.spread;
    *(struct gemm_curve *)target = file.curve;
    return true;
}

bool gemm_fp8_decode(const struct sp_decoder *decoder, const struct sp_json *json, const char *path, void *target,
                     struct sp_error *err)
{
    struct gpu_spec *gpu = target;
    gpu->has_gemm_fp8 = gemm_curve_decode(decoder, json, path, &gpu->gemm_fp8, err);
    return gpu->has_gemm_fp8;
}

/* ---- copy ------------------------------------------------------------------------------------------------------- */

struct table_file {
    struct curve_table table;
};
static const struct sp_field table_fields[] = {CURVE_TABLE_FIELDS(table_file), {.key = NULL}};

bool copy_curve_decode(const struct sp_decoder *decoder, const struct sp_json *json, const char *path, void *target,
                       struct sp_error *err)
{
    struct table_file file = {0};
    struct curve_points points = {.arena = decoder->arena};
    const struct curve_reading reading = {decoder, path, copy_columns, SP_COUNT_OF(copy_columns)};
    if (!sp_fields_decode(table_fields, decoder, json, path, &file, err) ||
        !curve_points_read(&reading, &file.table, 0, &points, err) || !curve_points_sort(decoder, path, &points, err)) {
        return false;
    }
    fill_time_curve(decoder->arena, points.items, points.count, target);
    return true;
}

/* ---- collectives inside a node ---------------------------------------------------------------------------------- */

static bool read_collectives(const struct sp_decoder *decoder, const struct sp_json *json, const char *path,
                             struct curve_points *points, struct sp_error *err)
{
    int at = 0;
    for (const struct sp_json *entry = json->first; entry != NULL; entry = entry->next, at++) {
        struct table_file file = {0};
        const char *entry_path = sp_format(decoder->arena, "%s[%d]", path, at);
        const struct curve_reading reading = {decoder, entry_path, collective_columns, SP_COUNT_OF(collective_columns)};
        if (!sp_fields_decode(table_fields, decoder, entry, entry_path, &file, err) ||
            !curve_points_read(&reading, &file.table, 0, points, err)) {
            return false;
        }
    }
    return true;
}

bool collective_lines_decode(const struct sp_decoder *decoder, const struct sp_json *json, const char *path,
                             void *target, struct sp_error *err)
{
    struct intra_spec *intra = target;
    const struct sp_json *array = NULL;
    struct curve_points points = {.arena = decoder->arena};
    if (!curve_keep_array(decoder, json, path, &array, err) || !read_collectives(decoder, array, path, &points, err) ||
        !curve_points_sort(decoder, path, &points, err)) {
        return false;
    }
    if (points.count == 0) {
        return true;
    }
    struct collective_line *lines = sp_arena_array(decoder->arena, points.count, sizeof(*lines));
    size_t length = 0;
    for (size_t at = 0; at < points.count; at += length) {
        length = curve_run(&points, at);
        struct collective_line *line = &lines[intra->n_lines];
        line->operation = (enum collective)points.items[at].keys[1];
        line->ranks = points.items[at].keys[2];
        fill_time_curve(decoder->arena, &points.items[at], length, &line->curve);
        intra->n_lines++;
    }
    intra->lines = lines;
    return true;
}
