#include "spec/spec_internal.h"

#include <string.h>

static const char *const pass_names[] = {"forward", "input_gradient", "weight_gradient", NULL};
static const char *const direction_names[] = {"forward", "backward", NULL};
static const char *const mask_names[] = {"full", "causal", NULL};

static const struct curve_column gemm_columns[] = {{"pass", pass_names}, {"k", NULL}, {"flop_per_s", NULL}};
static const struct curve_column copy_columns[] = {{"bytes", NULL}, {"seconds", NULL}};
static const struct curve_column attention_columns[] = {{"pass", direction_names}, {"mask", mask_names},
                                                        {"head_dim", NULL},        {"heads", NULL},
                                                        {"sequence", NULL},        {"flop_per_s", NULL}};
static const struct curve_column collective_columns[] = {
    {"operation", collective_names}, {"ranks", NULL}, {"bytes", NULL}, {"seconds", NULL}};

/* The members that every table has; `owner` holds a struct curve_table named table. */
#define TABLE_FIELDS(owner)                                                                                            \
    {.key = "kind",                                                                                                    \
     .type = SP_FIELD_ENUM,                                                                                            \
     .offset = offsetof(struct owner, table.from.kind),                                                                \
     .is_required = true,                                                                                              \
     .help = "where the table comes from",                                                                             \
     .names = sp_figure_kind_names},                                                                                   \
        {.key = "source",                                                                                              \
         .type = SP_FIELD_STRING,                                                                                      \
         .offset = offsetof(struct owner, table.from.source),                                                          \
         .is_required = true,                                                                                          \
         .help = "who measured it"},                                                                                   \
        {.key = "note",                                                                                                \
         .type = SP_FIELD_STRING,                                                                                      \
         .offset = offsetof(struct owner, table.from.note),                                                            \
         .help = "and how"},                                                                                           \
        {.key = "columns",                                                                                             \
         .type = SP_FIELD_CUSTOM,                                                                                      \
         .offset = offsetof(struct owner, table.columns),                                                              \
         .is_required = true,                                                                                          \
         .help = "names of the columns",                                                                               \
         .decode = curve_keep_array},                                                                                  \
    {                                                                                                                  \
        .key = "rows", .type = SP_FIELD_CUSTOM, .offset = offsetof(struct owner, table.rows), .is_required = true,     \
        .help = "arrays of the columns' values", .decode = curve_keep_array                                            \
    }

static void fill_time_curve(struct sp_arena *arena, const struct curve_point *points, size_t count,
                            struct time_curve *curve)
{
    struct curve_provenance from = curve_joined(arena, points, count);
    *curve = (struct time_curve){
        .kind = (enum sp_figure_kind)from.kind,
        .source = from.source,
        .note = from.note,
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
    TABLE_FIELDS(gemm_file),
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
    *(struct gemm_curve *)target = file.curve;
    return true;
}

/* ---- copy ------------------------------------------------------------------------------------------------------- */

struct table_file {
    struct curve_table table;
};
static const struct sp_field table_fields[] = {TABLE_FIELDS(table_file), {.key = NULL}};

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

/* ---- attention -------------------------------------------------------------------------------------------------- */

struct attention_file {
    struct curve_table table;
    const char *kernel;
};
static const struct sp_field attention_fields[] = {
    {.key = "kernel",
     .type = SP_FIELD_STRING,
     .offset = offsetof(struct attention_file, kernel),
     .is_required = true,
     .help = "\"cudnn\", \"fa2\", \"fa3\", ..."},
    TABLE_FIELDS(attention_file),
    {.key = NULL},
};

/* Lines of one kernel: the points from `first` on whose first key is its index. Returns how many points it took. */
static size_t fill_attention(const struct curve_points *points, size_t first, struct attention_curve *curve)
{
    const struct curve_point *items = &points->items[first];
    size_t count = 0;
    size_t n_lines = 0;
    while (first + count < points->count && items[count].keys[0] == items[0].keys[0]) {
        count += curve_run(points, first + count);
        n_lines++;
    }
    struct attention_line *lines = sp_arena_array(points->arena, n_lines, sizeof(*lines));
    size_t length = 0;
    size_t line = 0;
    for (size_t at = 0; at < count; at += length) {
        length = curve_run(points, first + at);
        lines[line] = (struct attention_line){
            .is_backward = items[at].keys[1] == 1,
            .is_causal = items[at].keys[2] == 1,
            .head_dim = items[at].keys[3],
            .heads = items[at].keys[4],
            .n_points = (int)length,
            .log_sequence = curve_log_x(points->arena, &items[at], length),
            .flop_per_s = curve_y(points->arena, &items[at], length),
        };
        line++;
    }
    struct curve_provenance from = curve_joined(points->arena, items, count);
    curve->kind = (enum sp_figure_kind)from.kind;
    curve->source = from.source;
    curve->note = from.note;
    curve->n_lines = (int)n_lines;
    curve->lines = lines;
    return count;
}

/* Index of the kernel in the list, which it joins when it is new. */
static int kernel_index(struct sp_texts *kernels, const char *kernel)
{
    sp_texts_add(kernels, "%s", kernel);
    for (size_t i = 0; i < kernels->count; i++) {
        if (strcmp(kernels->items[i], kernel) == 0) {
            return (int)i;
        }
    }
    return -1;
}

static bool read_attention(const struct sp_decoder *decoder, const struct sp_json *json, const char *path,
                           struct sp_texts *kernels, struct curve_points *points, struct sp_error *err)
{
    int at = 0;
    for (const struct sp_json *entry = json->first; entry != NULL; entry = entry->next, at++) {
        struct attention_file file = {0};
        const char *entry_path = sp_format(decoder->arena, "%s[%d]", path, at);
        const struct curve_reading reading = {decoder, entry_path, attention_columns, SP_COUNT_OF(attention_columns)};
        if (!sp_fields_decode(attention_fields, decoder, entry, entry_path, &file, err) ||
            !curve_points_read(&reading, &file.table, kernel_index(kernels, file.kernel), points, err)) {
            return false;
        }
    }
    if (at == 0) {
        return sp_fail(err, SP_ERROR_INPUT, "%s: %s: expected the table of at least one kernel", decoder->file, path);
    }
    return true;
}

bool attention_curves_decode(const struct sp_decoder *decoder, const struct sp_json *json, const char *path,
                             void *target, struct sp_error *err)
{
    struct gpu_spec *gpu = target;
    const struct sp_json *array = NULL;
    struct sp_texts kernels = {.arena = decoder->arena};
    struct curve_points points = {.arena = decoder->arena};
    if (!curve_keep_array(decoder, json, path, &array, err) ||
        !read_attention(decoder, array, path, &kernels, &points, err) ||
        !curve_points_sort(decoder, path, &points, err)) {
        return false;
    }
    struct attention_curve *curves = sp_arena_array(decoder->arena, kernels.count, sizeof(*curves));
    size_t at = 0;
    for (size_t i = 0; i < kernels.count; i++) {
        curves[i].kernel = kernels.items[i];
        at += fill_attention(&points, at, &curves[i]);
    }
    gpu->n_attention = (int)kernels.count;
    gpu->attention = curves;
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
