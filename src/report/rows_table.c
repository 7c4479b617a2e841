/* Several layouts side by side. What is the same in all rows is said once above the table; what differs, asked for or
 * not, is a column. */
#include "report/report.h"

#include <assert.h>
#include <string.h>

/* A setting of an answer: where it stands, what options call it, and the value that goes without saying. */
struct setting {
    const char *path;
    const char *label;
    const char *usual;
};

static const struct setting settings[] = {
    {"model", "model", NULL},
    {"seq", "seq", NULL},
    {"gpus", "gpus", NULL},
    {"hardware", "hardware", NULL},
    {"network", "network", NULL},
    {"layout.tp", "tp", NULL},
    {"layout.sp", "sp", NULL},
    {"layout.sp_method", "sp-method", NULL},
    {"layout.sp_ulysses", "sp-ulysses", ""},
    {"layout.sp_inner", "sp-inner", ""},
    {"layout.pp", "pp", NULL},
    {"layout.dp", "dp", NULL},
    {"layout.ep", "ep", "1"},
    {"layout.vpp", "vpp", "1"},
    {"layout.schedule", "schedule", ""},
    {"global_batch", "global-batch", NULL},
    {"layout.micro_batch", "micro-batch", NULL},
    {"layout.recompute", "recompute", NULL},
    {"layout.zero", "zero", NULL},
    {"layout.precision", "precision", NULL},
    {"layout.framework", "framework", NULL},
    {"layout.attention", "attention", NULL},
    {"layout.kernels", "kernels", NULL},
    {"mask", "mask", "causal"},
};
enum { N_SETTINGS = (int)SP_COUNT_OF(settings), MAX_ROW_COLUMNS = 32 };

/* A figure of every row. */
struct figure_column {
    const char *path;
    struct report_column column;
    const char *(*text)(struct sp_arena *arena, const struct sp_json *value);
};

static const char *three_text(struct sp_arena *arena, const struct sp_json *value)
{
    return report_three(arena, value->number);
}

static const char *percent_text(struct sp_arena *arena, const struct sp_json *value)
{
    return report_percent(arena, value->number);
}

static const char *gib_text(struct sp_arena *arena, const struct sp_json *value)
{
    return report_three(arena, value->number / 0x1p30);
}

static const char *yes_text(struct sp_arena *arena, const struct sp_json *value)
{
    (void)arena;
    return value->boolean ? "yes" : "no";
}

static const char *word_text(struct sp_arena *arena, const struct sp_json *value)
{
    (void)arena;
    return value->string;
}

static const struct figure_column figures[] = {
    {"step_time_s", {.heading = "step s", .is_right = true}, three_text},
    {"tokens_per_s_per_gpu", {.heading = "tokens/s/GPU", .is_right = true}, three_text},
    {"mfu_frac", {.heading = "MFU %", .is_right = true}, percent_text},
    {"peak_bytes", {.heading = "peak GiB", .is_right = true}, gib_text},
    {"fits", {.heading = "fits"}, yes_text},
    {"bound", {.heading = "bound"}, word_text},
};
enum { N_FIGURES = (int)SP_COUNT_OF(figures) };

/* What the parts of the table share. */
struct view {
    const struct report_style *style;
    struct sp_arena *arena;
    const struct report_rows *rows;
    bool has_error;
    bool is_same[N_SETTINGS];  /* in all rows that are priced */
    bool is_shown[N_SETTINGS]; /* as a column */
};

static const char *setting_text(struct sp_arena *arena, const struct setting *setting, const struct sp_json *answer)
{
    const struct sp_json *value = report_tree_at(answer, setting->path);
    if (value == NULL || value->type == SP_JSON_NULL) {
        return "";
    }
    if (value->type == SP_JSON_STRING) {
        return value->string;
    }
    if (value->type == SP_JSON_BOOL) {
        return value->boolean ? "on" : "off";
    }
    return strcmp(setting->path, "seq") == 0 ? sp_tokens_print(arena, (int64_t)value->number)
                                             : sp_format(arena, "%.0f", value->number);
}

/* Options are typed with dashes, and --cp is --sp. */
static bool is_varied(const struct report_rows *rows, const struct setting *setting)
{
    for (int i = 0; i < rows->n_names; i++) {
        const char *name = strcmp(rows->names[i], "cp") == 0 ? "sp" : rows->names[i];
        if (strcmp(name, setting->label) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_same(const struct view *view, const struct setting *setting)
{
    const char *first = NULL;
    for (int row = 0; row < view->rows->n_rows; row++) {
        if (report_row_error(view->rows, row) != NULL) {
            continue;
        }
        const char *text = setting_text(view->arena, setting, view->rows->rows[row].answer);
        if (first != NULL && strcmp(first, text) != 0) {
            return false;
        }
        first = text;
    }
    return true;
}

static void look_through(struct view *view)
{
    for (int row = 0; row < view->rows->n_rows; row++) {
        view->has_error = view->has_error || report_row_error(view->rows, row) != NULL;
    }
    for (int i = 0; i < N_SETTINGS; i++) {
        view->is_same[i] = is_same(view, &settings[i]);
        view->is_shown[i] = !view->is_same[i] && !is_varied(view->rows, &settings[i]);
    }
}

static const struct sp_json *first_priced(const struct report_rows *rows)
{
    for (int row = 0; row < rows->n_rows; row++) {
        if (report_row_error(rows, row) == NULL) {
            return rows->rows[row].answer;
        }
    }
    return NULL;
}

/* "model llama-3.1-8b, seq 128K, gpus 8, ...": as options are called, so that it can be typed again. */
static const char *heading_text(const struct view *view)
{
    const struct sp_json *answer = first_priced(view->rows);
    struct sp_texts texts = {.arena = view->arena};
    for (int i = 0; i < N_SETTINGS && answer != NULL; i++) {
        if (!view->is_same[i] || is_varied(view->rows, &settings[i])) {
            continue;
        }
        const char *text = setting_text(view->arena, &settings[i], answer);
        const char *usual = settings[i].usual;
        if (text[0] != '\0' && (usual == NULL || (usual[0] != '\0' && strcmp(text, usual) != 0))) {
            sp_texts_add(&texts, "%s %s", settings[i].label, text);
        }
    }
    return sp_join(view->arena, texts.items, texts.count, ", ");
}

static double number_at(const struct report_rows *rows, int row, const char *path)
{
    const struct sp_json *value = report_tree_at(rows->rows[row].answer, path);
    assert(value != NULL);
    return value->number;
}

/* The fastest per GPU that fits or, when none does, the one that needs the least; -1 when no row is priced. */
static int best_row(const struct report_rows *rows, bool *fits)
{
    int best = -1;
    *fits = false;
    for (int row = 0; row < rows->n_rows; row++) {
        if (report_row_error(rows, row) != NULL) {
            continue;
        }
        bool row_fits = report_tree_at(rows->rows[row].answer, "fits")->boolean;
        const char *path = row_fits ? "tokens_per_s_per_gpu" : "headroom_bytes";
        bool is_better = best < 0 || (row_fits && !*fits) ||
                         (row_fits == *fits && number_at(rows, row, path) > number_at(rows, best, path));
        if (is_better) {
            best = row;
            *fits = row_fits;
        }
    }
    return best;
}

static const char *best_text(const struct view *view)
{
    bool fits = false;
    int best = best_row(view->rows, &fits);
    if (best < 0) {
        return "no row keeps the rules";
    }
    const char *name = report_row_name(view->arena, view->rows, best);
    if (fits) {
        return sp_format(view->arena, "fastest that fits: %s (%s tokens/s/GPU)", name,
                         report_three(view->arena, number_at(view->rows, best, "tokens_per_s_per_gpu")));
    }
    return sp_format(view->arena, "none fits; nearest: %s (peak %s of %s GiB)", name,
                     report_three(view->arena, number_at(view->rows, best, "peak_bytes") / 0x1p30),
                     report_three(view->arena, number_at(view->rows, best, "capacity_bytes") / 0x1p30));
}

/* ---- the table -------------------------------------------------------------------------------------------------- */

static bool is_number_column(const struct report_rows *rows, const char *path)
{
    const struct sp_json *answer = first_priced(rows);
    const struct sp_json *value = answer == NULL ? NULL : report_tree_at(answer, path);
    return value != NULL && value->type == SP_JSON_NUMBER;
}

static bool looks_like_number(const char *text)
{
    return text[0] >= '0' && text[0] <= '9';
}

static int collect_columns(const struct view *view, struct report_column *columns)
{
    int n_columns = 0;
    for (int i = 0; i < view->rows->n_names; i++) {
        bool is_right = looks_like_number(view->rows->rows[0].values[i]);
        columns[n_columns++] = (struct report_column){.heading = view->rows->names[i], .is_right = is_right};
    }
    for (int i = 0; i < N_SETTINGS && n_columns + N_FIGURES < MAX_ROW_COLUMNS - 1; i++) {
        if (view->is_shown[i]) {
            bool is_right = is_number_column(view->rows, settings[i].path);
            columns[n_columns++] = (struct report_column){.heading = settings[i].label, .is_right = is_right};
        }
    }
    for (int i = 0; i < N_FIGURES; i++) {
        columns[n_columns++] = figures[i].column;
    }
    if (view->has_error) {
        columns[n_columns++] = (struct report_column){.heading = "refused:", .is_note = true};
    }
    return n_columns;
}

static void fill_row(const struct view *view, struct report_grid *grid, int row)
{
    const struct sp_json *answer = view->rows->rows[row].answer;
    report_grid_add(grid);
    int column = 0;
    for (int i = 0; i < view->rows->n_names; i++) {
        report_grid_text(grid, column++, "%s", view->rows->rows[row].values[i]);
    }
    const struct sp_json *error = report_row_error(view->rows, row);
    if (error != NULL) {
        report_grid_text(grid, grid->n_columns - 1, "%s", error->string);
        return;
    }
    for (int i = 0; i < N_SETTINGS && column + N_FIGURES < MAX_ROW_COLUMNS - 1; i++) {
        if (view->is_shown[i]) {
            report_grid_text(grid, column++, "%s", setting_text(view->arena, &settings[i], answer));
        }
    }
    for (int i = 0; i < N_FIGURES; i++) {
        const struct sp_json *value = report_tree_at(answer, figures[i].path);
        assert(value != NULL);
        report_grid_text(grid, column++, "%s", figures[i].text(view->arena, value));
    }
}

static void print_rows(const struct view *view)
{
    struct report_column columns[MAX_ROW_COLUMNS];
    int n_columns = collect_columns(view, columns);
    struct report_grid grid;
    report_grid_init(&grid, view->arena, columns, n_columns);
    for (int row = 0; row < view->rows->n_rows; row++) {
        fill_row(view, &grid, row);
    }
    report_grid_print(view->style, &grid);
}

void report_rows_table(const struct report_style *style, struct sp_arena *arena, const struct report_rows *rows)
{
    struct view view = {.style = style, .arena = arena, .rows = rows};
    look_through(&view);
    const char *heading = heading_text(&view);
    if (style->format == REPORT_MARKDOWN) {
        (void)fprintf(style->file, "**%s**\n\n%s\n\n", best_text(&view), heading);
    } else {
        if (heading[0] != '\0') {
            report_wrap(style->file, 0, "", heading);
            (void)fputc('\n', style->file);
        }
        (void)fprintf(style->file, "  %s%s%s\n\n", report_color(style, REPORT_BOLD), best_text(&view),
                      report_color(style, REPORT_PLAIN));
    }
    print_rows(&view);
    report_rows_remarks(style, arena, rows);
}

void report_rows(const struct report_style *style, struct sp_arena *arena, const struct report_rows *rows)
{
    switch (style->format) {
    case REPORT_TABLE:
    case REPORT_MARKDOWN:
        report_rows_table(style, arena, rows);
        break;
    case REPORT_CSV:
        report_rows_csv(style, arena, rows);
        break;
    case REPORT_JSON:
        report_rows_json(style, arena, rows);
        break;
    }
}
