/* Several layouts side by side. What is the same in all rows is said once above the table; what differs, asked for or
 * not, is a column. */
#include "report/report.h"

#include <assert.h>
#include <string.h>

enum { MAX_ROW_COLUMNS = 32 };

/* A figure of every row; an optional one is a column where the first priced row has it. */
struct figure_column {
    const char *path;
    struct report_column column;
    const char *(*text)(struct sp_arena *arena, const struct sp_json *value, const struct sp_json *answer);
    bool is_optional;
};

static const char *three_text(struct sp_arena *arena, const struct sp_json *value, const struct sp_json *answer)
{
    (void)answer;
    return report_three(arena, value->number);
}

static const char *count_text(struct sp_arena *arena, const struct sp_json *value, const struct sp_json *answer)
{
    (void)answer;
    return sp_format(arena, "%.0f", value->number);
}

static const char *percent_text(struct sp_arena *arena, const struct sp_json *value, const struct sp_json *answer)
{
    (void)answer;
    return report_percent(arena, value->number);
}

static const char *gib_text(struct sp_arena *arena, const struct sp_json *value, const struct sp_json *answer)
{
    (void)answer;
    return report_three(arena, value->number / 0x1p30);
}

static const char *yes_text(struct sp_arena *arena, const struct sp_json *value, const struct sp_json *answer)
{
    (void)arena;
    (void)answer;
    return value->boolean ? "yes" : "no";
}

static const char *word_text(struct sp_arena *arena, const struct sp_json *value, const struct sp_json *answer)
{
    (void)arena;
    (void)answer;
    return value->string;
}

/* Half of the interval of the step time, in percent of the step time. */
static const char *half_width_text(struct sp_arena *arena, const struct sp_json *high, const struct sp_json *answer)
{
    static const double percent = 100;
    double low = report_tree_at(answer, "step_time_low_s")->number;
    double step = report_tree_at(answer, "step_time_s")->number;
    return sp_format(arena, "%.1f", percent * (high->number - low) / 2 / step);
}

static const struct figure_column figures[] = {
    {"step_time_s", {.heading = "step s", .is_right = true}, three_text, false},
    {"step_time_high_s", {.heading = "+-%", .is_right = true}, half_width_text, true}, /* of the step time */
    {"tokens_per_s_per_gpu", {.heading = "tokens/s/GPU", .is_right = true}, three_text, false},
    {"mfu_frac", {.heading = "MFU %", .is_right = true}, percent_text, false},
    {"peak_bytes", {.heading = "peak GiB", .is_right = true}, gib_text, false},
    {"fits", {.heading = "fits"}, yes_text, false},
    {"bound", {.heading = "bound"}, word_text, false},
    {"evaluated", {.heading = "evaluated", .is_right = true}, count_text, true}, /* layouts, for the best of them */
};
enum { N_FIGURES = (int)SP_COUNT_OF(figures) };

/* What the parts of the table share. */
struct view {
    const struct report_style *style;
    struct sp_arena *arena;
    const struct report_rows *rows;
    bool has_error;
    bool is_shown[REPORT_SETTINGS]; /* a setting as a column */
    bool has_figure[N_FIGURES];
};

static void look_through(struct view *view)
{
    for (int row = 0; row < view->rows->n_rows; row++) {
        view->has_error = view->has_error || report_row_error(view->rows, row) != NULL;
    }
    for (int i = 0; i < REPORT_SETTINGS; i++) {
        view->is_shown[i] =
            !report_setting_is_same(view->arena, view->rows, i) && !report_setting_is_varied(view->rows, i);
    }
}

static bool is_known(const struct sp_json *value)
{
    return value != NULL && value->type != SP_JSON_NULL;
}

static void look_for_figures(struct view *view)
{
    const struct sp_json *answer = report_rows_first_priced(view->rows);
    for (int i = 0; i < N_FIGURES; i++) {
        const struct sp_json *value = answer == NULL ? NULL : report_tree_at(answer, figures[i].path);
        view->has_figure[i] = is_known(value) || !figures[i].is_optional;
    }
}

static double number_at(const struct report_rows *rows, int row, const char *path)
{
    const struct sp_json *value = report_tree_at(rows->rows[row].answer, path);
    assert(value != NULL);
    return value->number;
}

static const char *best_text(const struct view *view)
{
    bool fits = false;
    int best = report_rows_best(view->rows, &fits);
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
    const struct sp_json *answer = report_rows_first_priced(rows);
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
    for (int i = 0; i < REPORT_SETTINGS && n_columns + N_FIGURES < MAX_ROW_COLUMNS - 1; i++) {
        if (view->is_shown[i]) {
            const char *path = report_settings[i].path;
            columns[n_columns++] = (struct report_column){.heading = report_settings[i].label,
                                                          .is_right = is_number_column(view->rows, path),
                                                          .is_note = strcmp(path, "set") == 0};
        }
    }
    for (int i = 0; i < N_FIGURES; i++) {
        if (view->has_figure[i]) {
            columns[n_columns++] = figures[i].column;
        }
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
    for (int i = 0; i < REPORT_SETTINGS && column + N_FIGURES < MAX_ROW_COLUMNS - 1; i++) {
        if (view->is_shown[i]) {
            report_grid_text(grid, column++, "%s", report_row_setting_text(view->arena, view->rows, row, i));
        }
    }
    for (int i = 0; i < N_FIGURES; i++) {
        const struct sp_json *value = report_tree_at(answer, figures[i].path);
        assert(is_known(value) || figures[i].is_optional);
        if (view->has_figure[i]) {
            report_grid_text(grid, column++, "%s",
                             is_known(value) ? figures[i].text(view->arena, value, answer) : "");
        }
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

static void print_markdown_heading(const struct view *view)
{
    const char *overrides = report_rows_overrides(view->arena, view->rows);
    (void)fprintf(view->style->file, "**%s**\n\n%s\n\n", best_text(view), report_rows_heading(view->arena, view->rows));
    report_overrides(view->style, overrides);
    (void)fputs(overrides[0] == '\0' ? "" : "\n", view->style->file);
}

static void print_heading(const struct view *view)
{
    const char *heading = report_rows_heading(view->arena, view->rows);
    const char *overrides = report_rows_overrides(view->arena, view->rows);
    if (heading[0] != '\0') {
        report_wrap(view->style->file, 0, "", heading);
    }
    report_overrides(view->style, overrides);
    (void)fputs(heading[0] == '\0' && overrides[0] == '\0' ? "" : "\n", view->style->file);
    (void)fputs(report_color(view->style, REPORT_BOLD), view->style->file);
    report_wrap(view->style->file, 2, "", best_text(view));
    (void)fprintf(view->style->file, "%s\n", report_color(view->style, REPORT_PLAIN));
}

void report_rows_table(const struct report_style *style, struct sp_arena *arena, const struct report_rows *rows)
{
    struct view view = {.style = style, .arena = arena, .rows = rows};
    look_through(&view);
    look_for_figures(&view);
    if (style->format == REPORT_MARKDOWN) {
        print_markdown_heading(&view);
    } else {
        print_heading(&view);
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
    case REPORT_JSON:
        report_rows_listed(style, arena, rows);
        break;
    }
}
