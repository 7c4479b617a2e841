/* Limits for reading: of one layout a row a limit, of several methods a row a method. */
#include "report/report.h"

static const double GIB = 0x1p30;

static const char *value_text(struct sp_arena *arena, const struct limit *limit, enum limit_kind kind)
{
    if (!limit->is_found) {
        return limit->binding == NULL ? "-" : "none"; /* not looked for, or nothing fits */
    }
    const char *text =
        kind == LIMIT_SEQ ? sp_tokens_print(arena, limit->value) : sp_format(arena, "%lld", (long long)limit->value);
    if (limit->is_at_most) {
        return sp_format(arena, "at most %s", text);
    }
    return limit->is_beyond ? sp_format(arena, "%s or more", text) : text;
}

/* "hbm: activations, 41.2 of 79.6 GiB" */
static const char *binding_text(struct sp_arena *arena, const struct limit *limit)
{
    if (limit->binding == NULL || !(limit->binding_bytes > 0)) {
        return limit->binding == NULL ? "" : limit->binding;
    }
    return sp_format(arena, "%s, %s of %s GiB", limit->binding, report_three(arena, limit->binding_bytes / GIB),
                     report_three(arena, limit->binding_capacity_bytes / GIB));
}

/* ---- one layout ------------------------------------------------------------------------------------------------- */

enum { LIMIT_COLUMN, VALUE_COLUMN, PEAK_COLUMN, RATE_COLUMN, BINDING_COLUMN, LAYOUT_COLUMN, N_COLUMNS };

static void add_limit(struct report_grid *grid, const struct report_limits *limits, enum limit_kind kind)
{
    static const char *const titles[N_LIMITS] = {"longest sequence", "largest micro-batch", "fewest GPUs"};
    struct sp_arena *arena = grid->arena;
    const struct limit *limit = &limits->rows[0].limits.items[kind];
    report_grid_add(grid);
    report_grid_text(grid, LIMIT_COLUMN, "%s", titles[kind]);
    report_grid_text(grid, VALUE_COLUMN, "%s", value_text(arena, limit, kind));
    report_grid_text(grid, BINDING_COLUMN, "%s", binding_text(arena, limit));
    if (limit->question == NULL) {
        return;
    }
    if (!limit->is_found) { /* the figures are of what does not fit */
        report_grid_text(grid, LAYOUT_COLUMN, "the smallest, %s GiB at its peak, which does not fit%s%s",
                         report_three(arena, limit->estimate->peak_bytes / GIB), limits->is_any ? ": " : "",
                         limits->is_any ? report_degrees_text(arena, limit->question) : "");
        return;
    }
    report_grid_text(grid, PEAK_COLUMN, "%s", report_three(arena, limit->estimate->peak_bytes / GIB));
    report_grid_text(grid, RATE_COLUMN, "%s", report_three(arena, limit->estimate->tokens_per_s_per_gpu));
    if (limits->is_any || kind == LIMIT_GPUS) {
        report_grid_text(grid, LAYOUT_COLUMN, "%s", report_degrees_text(arena, limit->question));
    }
    if (limits->is_any) {
        report_grid_text(grid, LAYOUT_COLUMN, "%s; %s", report_degrees_text(arena, limit->question),
                         report_settings_text(arena, limit->question));
    }
}

static struct report_grid layout_grid(struct sp_arena *arena, const struct report_limits *limits)
{
    static const struct report_column columns[N_COLUMNS] = {
        [LIMIT_COLUMN] = {.heading = "limit"},
        [VALUE_COLUMN] = {.heading = "value", .is_right = true},
        [PEAK_COLUMN] = {.heading = "peak GiB", .is_right = true},
        [RATE_COLUMN] = {.heading = "tokens/s/GPU", .is_right = true},
        [BINDING_COLUMN] = {.heading = "one step beyond it"},
        [LAYOUT_COLUMN] = {.heading = "with", .is_note = true}};
    struct report_grid grid;
    report_grid_init(&grid, arena, columns, N_COLUMNS);
    for (int kind = 0; kind < N_LIMITS; kind++) {
        add_limit(&grid, limits, (enum limit_kind)kind);
    }
    return grid;
}

/* ---- methods ---------------------------------------------------------------------------------------------------- */

enum {
    METHOD_COLUMN,
    FRAMEWORK_COLUMN,
    SEQ_COLUMN,
    MICRO_COLUMN,
    GPUS_COLUMN,
    BINDS_COLUMN,
    REFUSED_COLUMN,
    N_METHOD_COLUMNS
};

/* A limit that nobody asked for leaves its column empty. */
static void add_value(struct report_grid *grid, const struct limit *limit, enum limit_kind kind)
{
    static const int columns[N_LIMITS] = {SEQ_COLUMN, MICRO_COLUMN, GPUS_COLUMN};
    if (limit->is_found || limit->binding != NULL) {
        report_grid_text(grid, columns[kind], "%s", value_text(grid->arena, limit, kind));
    }
    if (limit->question != NULL) {
        report_grid_text(grid, FRAMEWORK_COLUMN, "%s", framework_names[limit->question->layout.framework]);
    }
}

static struct report_grid method_grid(struct sp_arena *arena, const struct report_limits *limits)
{
    static const struct report_column columns[N_METHOD_COLUMNS] = {
        [METHOD_COLUMN] = {.heading = "method"},
        [FRAMEWORK_COLUMN] = {.heading = "framework"},
        [SEQ_COLUMN] = {.heading = "longest sequence", .is_right = true},
        [MICRO_COLUMN] = {.heading = "micro-batch", .is_right = true},
        [GPUS_COLUMN] = {.heading = "fewest GPUs", .is_right = true},
        [BINDS_COLUMN] = {.heading = "one step beyond the longest"},
        [REFUSED_COLUMN] = {.heading = "refused", .is_note = true}};
    struct report_grid grid;
    report_grid_init(&grid, arena, columns, N_METHOD_COLUMNS);
    for (int i = 0; i < limits->n_rows; i++) {
        const struct report_limits_row *row = &limits->rows[i];
        const struct limit *items = row->limits.items;
        report_grid_add(&grid);
        report_grid_text(&grid, METHOD_COLUMN, "%s", method_names[row->method]);
        if (row->refusal != NULL) {
            report_grid_text(&grid, REFUSED_COLUMN, "%s", row->refusal);
            continue;
        }
        for (int kind = 0; kind < N_LIMITS; kind++) {
            add_value(&grid, &items[kind], (enum limit_kind)kind);
        }
        report_grid_text(&grid, BINDS_COLUMN, "%s", binding_text(arena, &items[LIMIT_SEQ]));
    }
    return grid;
}

/* ---- the answer ------------------------------------------------------------------------------------------------- */

/* A question of some limit, or NULL: model, cluster and settings are those of all. */
static const struct question *any_question(const struct report_limits *limits, enum limit_kind *kind)
{
    for (int i = 0; i < limits->n_rows; i++) {
        for (int k = 0; k < N_LIMITS; k++) {
            if (limits->rows[i].limits.items[k].question != NULL) {
                *kind = (enum limit_kind)k;
                return limits->rows[i].limits.items[k].question;
            }
        }
    }
    return NULL;
}

static void print_heading(const struct report_style *style, struct sp_arena *arena, const struct report_limits *limits)
{
    enum limit_kind kind = LIMIT_SEQ;
    const struct question *question = any_question(limits, &kind);
    if (question == NULL) {
        return;
    }
    const char *of = limits->is_any ? "of any layout" : limits->n_rows > 1 ? "by method" : "of one layout";
    const char *where = kind == LIMIT_GPUS ? question->hardware.gpu.title : report_cluster_text(arena, question);
    const char *title = sp_format(arena, "%s on %s: limits %s", question->model.name, where, of);
    bool is_markdown = style->format == REPORT_MARKDOWN;
    (void)fputs(report_color(style, REPORT_BOLD), style->file);
    report_wrap(style->file, 0, "", is_markdown ? sp_format(arena, "**%s**", title) : title);
    (void)fputs(report_color(style, REPORT_PLAIN), style->file);
    (void)fputs(is_markdown ? "\n" : "", style->file);
    const char *bullet = is_markdown ? "- " : "";
    if (!limits->is_any && limits->n_rows == 1 && kind != LIMIT_GPUS) {
        report_wrap_parts(style->file, 0, sp_format(arena, "%s%s", bullet, report_degrees_text(arena, question)));
    }
    if (!limits->is_any && limits->n_rows == 1) {
        report_wrap(style->file, 0, "", sp_format(arena, "%s%s", bullet, report_settings_text(arena, question)));
    }
    report_overrides(style, sp_join(arena, question->set.items, question->set.count, " "));
    (void)fputc('\n', style->file);
}

static void print_remarks(const struct report_style *style, struct sp_arena *arena, const struct report_limits *limits)
{
    struct sp_texts warnings = {.arena = arena};
    int best = report_limits_best(limits); /* of several rows the others say in their cells what they lack */
    if (limits->rows[best].refusal == NULL) {
        report_limits_remarks(limits, best, true, &warnings);
    }
    bool is_markdown = style->format == REPORT_MARKDOWN;
    (void)fputs(warnings.count > 0 ? "\n" : "", style->file);
    for (size_t i = 0; i < warnings.count; i++) {
        if (is_markdown) {
            (void)fprintf(style->file, "- warning: %s\n", warnings.items[i]);
        } else {
            report_wrap(style->file, 2, "warning ", warnings.items[i]);
        }
    }
}

void report_limits_table(const struct report_style *style, struct sp_arena *arena, const struct report_limits *limits)
{
    const struct report_grid grid = limits->n_rows > 1 ? method_grid(arena, limits) : layout_grid(arena, limits);
    print_heading(style, arena, limits);
    report_grid_print(style, &grid);
    print_remarks(style, arena, limits);
}

static void write_csv(const struct report_style *style, struct sp_arena *arena, const struct sp_json *tree)
{
    const struct sp_json *rows = sp_json_member(tree, "rows");
    int n_objects = rows == NULL ? 1 : rows->count;
    const struct sp_json **objects = sp_arena_array(arena, (size_t)n_objects, sizeof(*objects));
    objects[0] = tree;
    int i = 0;
    for (const struct sp_json *row = rows == NULL ? NULL : rows->first; row != NULL; row = row->next) {
        objects[i++] = row;
    }
    report_csv_write(arena, objects, n_objects, style->file);
}

bool report_limits(const struct report_style *style, struct sp_arena *arena, const struct report_limits *limits)
{
    switch (style->format) {
    case REPORT_TABLE:
    case REPORT_MARKDOWN:
        report_limits_table(style, arena, limits);
        break;
    case REPORT_CSV:
        write_csv(style, arena, report_limits_tree(style, arena, limits));
        break;
    case REPORT_JSON:
        report_tree_write(report_limits_tree(style, arena, limits), style->file);
        break;
    }
    const struct limit *items = limits->rows[report_limits_best(limits)].limits.items;
    bool has_cluster = items[LIMIT_SEQ].question != NULL || items[LIMIT_SEQ].is_found;
    return has_cluster ? items[LIMIT_SEQ].is_found : items[LIMIT_GPUS].is_found;
}
