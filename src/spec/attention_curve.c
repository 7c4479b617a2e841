/* "attention" of a GPU file: measured rates of its attention kernels. Several entries of one kernel are one curve. */
#include "spec/spec_internal.h"

#include <string.h>

static const char *const direction_names[] = {"forward", "backward", NULL};
static const char *const mask_names[] = {"full", "causal", NULL};

static const struct curve_column rate_columns[] = {{"pass", direction_names}, {"mask", mask_names},
                                                   {"head_dim", NULL},        {"heads", NULL},
                                                   {"sequence", NULL},        {"flop_per_s", NULL}};
static const struct curve_column ceiling_columns[] = {
    {"pass", direction_names}, {"mask", mask_names}, {"head_dim", NULL}, {"flop_per_s", NULL}};
static const struct curve_column clock_columns[] = {
    {"pass", direction_names}, {"mask", mask_names}, {"head_dim", NULL}, {"clock_hz", NULL}};

/* Keys of both kinds of points, as curve_points_read() stores them. */
enum { KEY_KERNEL, KEY_PASS, KEY_MASK, KEY_HEAD_DIM, KEY_HEADS };

struct attention_file {
    struct curve_table table;
    const char *kernel;
    struct curve_table ceiling; /* without rows: none */
    struct curve_table clock;   /* the same */
    struct tiling_file tiling;  /* without tilings: none */
};
static const struct sp_field ceiling_fields[] = {
    CURVE_DATA_FIELDS(0),
    {.key = "source",
     .type = SP_FIELD_STRING,
     .offset = offsetof(struct curve_table, from.source),
     .help = "where these come from"},
    {.key = "note", .type = SP_FIELD_STRING, .offset = offsetof(struct curve_table, from.note), .help = "and how"},
    {.key = NULL}};
static const struct sp_field attention_fields[] = {
    {.key = "kernel",
     .type = SP_FIELD_STRING,
     .offset = offsetof(struct attention_file, kernel),
     .is_required = true,
     .help = "\"cudnn\", \"fa2\", \"fa3\", ..."},
    CURVE_TABLE_FIELDS(attention_file),
    {.key = "ceiling",
     .type = SP_FIELD_OBJECT,
     .offset = offsetof(struct attention_file, ceiling),
     .help = "rates that long calls sustain at the power limit, by pass, mask and head_dim",
     .fields = ceiling_fields},
    {.key = "clock",
     .type = SP_FIELD_OBJECT,
     .offset = offsetof(struct attention_file, clock),
     .help = "clocks at which a long run of these calls alone settles, by pass, mask and head_dim",
     .fields = ceiling_fields},
    {.key = "tiles",
     .type = SP_FIELD_CUSTOM,
     .offset = offsetof(struct attention_file, tiling),
     .help = "how the kernel cuts its work into thread blocks, in cycles, and the clock that the power limit leaves",
     .decode = attention_tiling_decode},
    {.key = NULL},
};

/* What one array of entries holds. */
struct attention_reading {
    const struct sp_decoder *decoder;
    const char *path;
    struct sp_texts kernels;
    struct tiling_file *tilings; /* by kernel */
    struct curve_points rates;
    struct curve_points ceilings;
    struct curve_points clocks;
};

/* ---- entries ---------------------------------------------------------------------------------------------------- */

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

/* "ceiling" or "clock" of an entry. */
struct limit_reading {
    const struct curve_table *table;
    const struct curve_column *columns;
    const char *path;
    struct curve_points *points;
};
static bool read_limits(const struct attention_reading *all, const struct limit_reading *limit, int64_t kernel,
                        int kind, struct sp_error *err)
{
    if (limit->table->rows == NULL) {
        return true;
    }
    const struct curve_reading reading = {all->decoder, limit->path, limit->columns, SP_COUNT_OF(ceiling_columns)};
    struct curve_table table = *limit->table;
    table.from.kind = kind;
    return curve_points_read(&reading, &table, kernel, limit->points, err);
}

static bool read_entry(struct attention_reading *all, const struct sp_json *json, const char *path,
                       struct sp_error *err)
{
    struct attention_file file = {0};
    const struct curve_reading rates = {all->decoder, path, rate_columns, SP_COUNT_OF(rate_columns)};
    if (!sp_fields_decode(attention_fields, all->decoder, json, path, &file, err)) {
        return false;
    }
    int64_t kernel = kernel_index(&all->kernels, file.kernel);
    if (!curve_points_read(&rates, &file.table, kernel, &all->rates, err)) {
        return false;
    }
    if (file.tiling.n_tilings > 0) {
        if (all->tilings[kernel].n_tilings > 0) {
            return sp_fail(err, SP_ERROR_INPUT,
                           "%s: %s.tiles: expected tiles in one entry of a kernel, found some of %s "
                           "before",
                           all->decoder->file, path, file.kernel);
        }
        all->tilings[kernel] = file.tiling;
    }
    struct sp_arena *arena = all->decoder->arena;
    const struct limit_reading ceiling = {&file.ceiling, ceiling_columns, sp_format(arena, "%s.ceiling", path),
                                          &all->ceilings};
    const struct limit_reading clock = {&file.clock, clock_columns, sp_format(arena, "%s.clock", path), &all->clocks};
    return read_limits(all, &ceiling, kernel, file.table.from.kind, err) &&
           read_limits(all, &clock, kernel, file.table.from.kind, err);
}

static bool read_entries(struct attention_reading *all, const struct sp_json *json, struct sp_error *err)
{
    const struct sp_json *array = NULL;
    if (!curve_keep_array(all->decoder, json, all->path, &array, err)) {
        return false;
    }
    int at = 0;
    all->tilings = sp_arena_array(all->decoder->arena, (size_t)array->count + 1, sizeof(*all->tilings));
    memset(all->tilings, 0, ((size_t)array->count + 1) * sizeof(*all->tilings));
    for (const struct sp_json *entry = array->first; entry != NULL; entry = entry->next, at++) {
        if (!read_entry(all, entry, sp_format(all->decoder->arena, "%s[%d]", all->path, at), err)) {
            return false;
        }
    }
    if (at == 0) {
        return sp_fail(err, SP_ERROR_INPUT, "%s: %s: expected the table of at least one kernel", all->decoder->file,
                       all->path);
    }
    return curve_points_sort(all->decoder, all->path, &all->rates, err) &&
           curve_points_sort(all->decoder, all->path, &all->ceilings, err) &&
           curve_points_sort(all->decoder, all->path, &all->clocks, err);
}

/* ---- what must be there ----------------------------------------------------------------------------------------- */

static bool has_rates(const struct attention_reading *all, const int64_t keys[KEY_HEADS])
{
    for (size_t i = 0; i < all->rates.count; i++) {
        if (memcmp(all->rates.items[i].keys, keys, KEY_HEADS * sizeof(*keys)) == 0) {
            return true;
        }
    }
    return false;
}

/* A method needs both passes and both masks, zig-zag even of one layer: a head_dim has all four or none. */
static bool check_rates(const struct attention_reading *all, struct sp_error *err)
{
    for (size_t i = 0; i < all->rates.count; i += curve_run(&all->rates, i)) {
        const int64_t *found = all->rates.items[i].keys;
        for (int which = 0; which < 4; which++) {
            const int64_t keys[KEY_HEADS] = {found[KEY_KERNEL], which / 2, which % 2, found[KEY_HEAD_DIM]};
            if (!has_rates(all, keys)) {
                return sp_fail(
                    err, SP_ERROR_INPUT,
                    "%s: %s: expected rows of both passes and both masks for head_dim %lld of %s, found none "
                    "of %s %s",
                    all->decoder->file, all->path, (long long)found[KEY_HEAD_DIM],
                    all->kernels.items[found[KEY_KERNEL]], direction_names[keys[KEY_PASS]], mask_names[keys[KEY_MASK]]);
            }
        }
    }
    return true;
}

/* what: "ceiling" or "clock". */
static bool check_limits(const struct attention_reading *all, const struct curve_points *limits, const char *what,
                         struct sp_error *err)
{
    for (size_t i = 0; i < limits->count; i++) {
        const struct curve_point *point = &limits->items[i];
        const int64_t keys[KEY_HEADS] = {point->keys[KEY_KERNEL], point->keys[KEY_PASS], point->keys[KEY_MASK],
                                         (int64_t)point->x};
        if (!has_rates(all, keys)) {
            return sp_fail(err, SP_ERROR_INPUT, "%s: %s: a %s of head_dim %lld of %s has no rows that it is of",
                           all->decoder->file, all->path, what, (long long)keys[KEY_HEAD_DIM],
                           all->kernels.items[keys[KEY_KERNEL]]);
        }
    }
    return true;
}

/* ---- curves ----------------------------------------------------------------------------------------------------- */

/* Of a line; 0: there is none. */
static double limit_of(const struct curve_points *limits, const int64_t keys[CURVE_MAX_KEYS])
{
    for (size_t i = 0; i < limits->count; i++) {
        const struct curve_point *point = &limits->items[i];
        if (memcmp(point->keys, keys, KEY_HEAD_DIM * sizeof(*keys)) == 0 && (int64_t)point->x == keys[KEY_HEAD_DIM]) {
            return point->y;
        }
    }
    return 0;
}

/* Lines of one kernel: the points from `first` on whose first key is its index. Returns how many points it took. */
static size_t fill_curve(const struct attention_reading *all, size_t first, struct attention_curve *curve)
{
    struct sp_arena *arena = all->decoder->arena;
    const struct curve_point *items = &all->rates.items[first];
    size_t count = 0;
    size_t n_lines = 0;
    while (first + count < all->rates.count && items[count].keys[KEY_KERNEL] == items[0].keys[KEY_KERNEL]) {
        count += curve_run(&all->rates, first + count);
        n_lines++;
    }
    struct attention_line *lines = sp_arena_array(arena, n_lines, sizeof(*lines));
    size_t length = 0;
    size_t line = 0;
    for (size_t at = 0; at < count; at += length) {
        length = curve_run(&all->rates, first + at);
        lines[line] = (struct attention_line){
            .is_backward = items[at].keys[KEY_PASS] == 1,
            .is_causal = items[at].keys[KEY_MASK] == 1,
            .head_dim = items[at].keys[KEY_HEAD_DIM],
            .heads = items[at].keys[KEY_HEADS],
            .n_points = (int)length,
            .log_sequence = curve_log_x(arena, &items[at], length),
            .flop_per_s = curve_y(arena, &items[at], length),
            .ceiling = limit_of(&all->ceilings, items[at].keys),
            .clock_hz = limit_of(&all->clocks, items[at].keys),
        };
        line++;
    }
    struct curve_provenance from = curve_joined(arena, items, count);
    curve->kind = (enum sp_figure_kind)from.kind;
    curve->source = from.source;
    curve->note = from.note;
    curve->spread = from.spread;
    curve->n_lines = (int)n_lines;
    curve->lines = lines;
    return count;
}

bool attention_curves_decode(const struct sp_decoder *decoder, const struct sp_json *json, const char *path,
                             void *target, struct sp_error *err)
{
    struct gpu_spec *gpu = target;
    struct sp_arena *arena = decoder->arena;
    struct attention_reading all = {.decoder = decoder,
                                    .path = path,
                                    .kernels = {.arena = arena},
                                    .rates = {.arena = arena},
                                    .ceilings = {.arena = arena},
                                    .clocks = {.arena = arena}};
    if (!read_entries(&all, json, err) || !check_rates(&all, err) ||
        !check_limits(&all, &all.ceilings, "ceiling", err) || !check_limits(&all, &all.clocks, "clock", err)) {
        return false;
    }
    struct attention_curve *curves = sp_arena_array(arena, all.kernels.count, sizeof(*curves));
    size_t at = 0;
    for (size_t i = 0; i < all.kernels.count; i++) {
        curves[i].kernel = all.kernels.items[i];
        at += fill_curve(&all, at, &curves[i]);
        curves[i].n_tilings = all.tilings[i].n_tilings;
        curves[i].tilings = all.tilings[i].tilings;
        curves[i].clock = all.tilings[i].clock;
        curves[i].harness = all.tilings[i].harness;
    }
    gpu->n_attention = (int)all.kernels.count;
    gpu->attention = curves;
    return true;
}
