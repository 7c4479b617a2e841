/* A validation as a table or Markdown, and as CSV. */
#include "report/report.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* ---- errors ------------------------------------------------------------------------------------------------------- */

enum { KEY, QUANTITY, COUNT, MEDIAN, MEAN, LARGEST, BIAS, INSIDE, WIDTH, TARGET, VERDICT, LEFT_OUT, N_ERROR_COLUMNS };

static const struct report_column error_columns[N_ERROR_COLUMNS] = {
    [KEY] = {.heading = "source"},
    [QUANTITY] = {.heading = "quantity"},
    [COUNT] = {.heading = "n", .is_right = true},
    [MEDIAN] = {.heading = "median", .is_right = true},
    [MEAN] = {.heading = "mean", .is_right = true},
    [LARGEST] = {.heading = "largest", .is_right = true},
    [BIAS] = {.heading = "bias", .is_right = true},
    [INSIDE] = {.heading = "inside", .is_right = true},
    [WIDTH] = {.heading = "width", .is_right = true},
    [TARGET] = {.heading = "target", .is_right = true},
    [VERDICT] = {.heading = "verdict"},
    [LEFT_OUT] = {.heading = "left out"},
};

static void add_errors(struct report_grid *grid, const struct validation_summary *summary)
{
    struct sp_arena *arena = grid->arena;
    report_grid_text(grid, COUNT, "%d", summary->n_compared);
    if (summary->n_compared > 0) {
        report_grid_text(grid, MEDIAN, "%s", report_validation_percent(arena, summary->median_frac, false));
        report_grid_text(grid, MEAN, "%s", report_validation_percent(arena, summary->mape_frac, false));
        report_grid_text(grid, LARGEST, "%s", report_validation_percent(arena, summary->max_frac, false));
        report_grid_text(grid, BIAS, "%s", report_validation_percent(arena, summary->bias_frac, true));
    }
    if (summary->n_intervals > 0) {
        report_grid_text(grid, INSIDE, "%d of %d", summary->n_within, summary->n_intervals);
        report_grid_text(grid, WIDTH, "%s", report_validation_percent(arena, summary->width_frac, false));
    }
    if (summary->target_frac > 0.0) {
        report_grid_text(grid, TARGET, "%s", report_validation_percent(arena, summary->target_frac, false));
        report_grid_text(grid, VERDICT, "%s",
                         summary->n_compared == 0                       ? ""
                         : summary->median_frac <= summary->target_frac ? "reached"
                                                                        : "missed");
    }
}

struct report_grid report_validation_grid(struct sp_arena *arena, const struct validation_summary *summaries, int n,
                                          enum validation_by by)
{
    struct report_column *columns = sp_arena_array(arena, N_ERROR_COLUMNS, sizeof(*columns));
    memcpy(columns, error_columns, sizeof(error_columns));
    columns[KEY].heading = by == VALIDATION_BY_GROUP ? "group" : validation_by_names[by];
    bool has_intervals = false;
    for (int i = 0; i < n; i++) {
        has_intervals = has_intervals || summaries[i].n_intervals > 0;
    }
    columns[LEFT_OUT].is_note =
        has_intervals || by != VALIDATION_BY_QUANTITY; /* else there is no room for what names a row */
    struct report_grid grid;
    report_grid_init(&grid, arena, columns, N_ERROR_COLUMNS);
    grid.gap = by == VALIDATION_BY_SOURCE ? 1 : 0;
    for (int i = 0; i < n; i++) {
        report_grid_add(&grid);
        if (by != VALIDATION_BY_QUANTITY) {
            report_grid_text(&grid, KEY, "%s", summaries[i].key);
        }
        report_grid_text(&grid, QUANTITY, "%s", summaries[i].quantity->name);
        add_errors(&grid, &summaries[i]);
        report_grid_text(&grid, LEFT_OUT, "%s", report_validation_left_out(arena, &summaries[i]));
    }
    return grid;
}

/* ---- rows --------------------------------------------------------------------------------------------------------- */

enum { ROW_SOURCE, ROW_NAME, ROW_QUANTITY, ROW_ROLE, ROW_MEASURED, ROW_PREDICTED, ROW_ERROR, ROW_RANGE, N_ROW_COLUMNS };

static const struct report_column row_columns[N_ROW_COLUMNS] = {
    [ROW_SOURCE] = {.heading = "source"},
    [ROW_NAME] = {.heading = "row"},
    [ROW_QUANTITY] = {.heading = "quantity"},
    [ROW_ROLE] = {.heading = "role"},
    [ROW_MEASURED] = {.heading = "measured", .is_right = true},
    [ROW_PREDICTED] = {.heading = "predicted", .is_right = true},
    [ROW_ERROR] = {.heading = "error %", .is_right = true},
    [ROW_RANGE] = {.heading = "90 % interval", .is_right = true},
};

static void add_row(struct report_grid *grid, const struct validation_source *source, const struct validation_row *row)
{
    struct sp_arena *arena = grid->arena;
    enum validation_unit unit = row->quantity->unit;
    report_grid_add(grid);
    report_grid_text(grid, ROW_SOURCE, "%s", source->name);
    report_grid_text(grid, ROW_NAME, "%s", row->name);
    report_grid_text(grid, ROW_QUANTITY, "%s", row->quantity->name);
    report_grid_text(grid, ROW_ROLE, "%s", validation_role_names[row->role]);
    report_grid_text(grid, ROW_MEASURED, "%s", report_validation_value(arena, unit, row->measured));
    report_grid_text(grid, ROW_PREDICTED, "%s", report_validation_value(arena, unit, row->predicted));
    report_grid_text(grid, ROW_ERROR, "%s",
                     unit != VALIDATION_YES_NO ? report_validation_percent(arena, row->error_frac, true)
                     : row->error_frac > 0.0   ? "wrong"
                                               : "right");
    if (row->has_interval) {
        report_grid_text(grid, ROW_RANGE, "%s to %s", report_validation_value(arena, unit, row->low),
                         report_validation_value(arena, unit, row->high));
    }
}

/* Rows that are listed, by their place. */
struct listed {
    const struct validation_source *source;
    const struct validation_row *row;
};

static int list_rows(struct sp_arena *arena, const struct validation_set *set, unsigned roles, struct listed **rows)
{
    size_t most = 1;
    for (int i = 0; i < set->n_sources; i++) {
        most += (size_t)set->sources[i].n_rows;
    }
    *rows = sp_arena_array(arena, most, sizeof(**rows));
    int n = 0;
    for (int i = 0; i < set->n_sources; i++) {
        for (int j = 0; j < set->sources[i].n_rows; j++) {
            const struct validation_row *row = &set->sources[i].rows[j];
            if (row->state == VALIDATION_COMPARED && (roles >> (unsigned)row->role & 1U) != 0) {
                (*rows)[n++] = (struct listed){&set->sources[i], row};
            }
        }
    }
    return n;
}

/* The worst first; of equal ones, as they stand. Only as many as are shown are sorted to the front. */
static void worst_first(struct listed *rows, int n, int n_shown)
{
    for (int i = 0; i < n_shown; i++) {
        int worst = i;
        for (int j = i + 1; j < n; j++) {
            worst = fabs(rows[j].row->error_frac) > fabs(rows[worst].row->error_frac) ? j : worst;
        }
        struct listed moved = rows[worst];
        memmove(&rows[i + 1], &rows[i], (size_t)(worst - i) * sizeof(*rows));
        rows[i] = moved;
    }
}

static void print_rows(const struct report_style *style, struct sp_arena *arena,
                       const struct report_validation *validation)
{
    enum { MOST_ROWS = 24, N_WORST = 10 };
    struct listed *rows = NULL;
    int n = list_rows(arena, validation->set, validation->roles, &rows);
    bool has_all = validation->has_rows || n <= MOST_ROWS;
    int n_shown = has_all ? n : N_WORST;
    if (n == 0) {
        return;
    }
    if (!has_all) {
        struct listed *judged = NULL;
        int n_judged = list_rows(arena, validation->set, validation->roles & VALIDATION_JUDGED, &judged);
        rows = n_judged > 0 ? judged : rows;
        n_shown = n_judged > 0 && n_judged < n_shown ? n_judged : n_shown;
        worst_first(rows, n_judged > 0 ? n_judged : n, n_shown);
        (void)fprintf(style->file, "\nThe %d worst of them (--rows or --format csv has all %d rows):\n%s", n_shown, n,
                      style->format == REPORT_MARKDOWN ? "\n" : "");
    } else {
        (void)fputc('\n', style->file);
    }
    struct report_grid grid;
    report_grid_init(&grid, arena, row_columns, N_ROW_COLUMNS);
    for (int i = 0; i < n_shown; i++) {
        add_row(&grid, rows[i].source, rows[i].row);
    }
    report_grid_print(style, &grid);
}

/* ---- sources ------------------------------------------------------------------------------------------------------ */

enum { SOURCE_NAME, SOURCE_GRADE, SOURCE_JUDGED, SOURCE_FITTED, SOURCE_LEFT_OUT, SOURCE_WHAT, N_SOURCE_COLUMNS };

static const struct report_column source_columns[N_SOURCE_COLUMNS] = {
    [SOURCE_NAME] = {.heading = "source"},
    [SOURCE_GRADE] = {.heading = "grade"},
    [SOURCE_JUDGED] = {.heading = "judge", .is_right = true},
    [SOURCE_FITTED] = {.heading = "fit", .is_right = true},
    [SOURCE_LEFT_OUT] = {.heading = "left out", .is_right = true},
    [SOURCE_WHAT] = {.heading = "fitted", .is_note = true},
};

static void print_sources(const struct report_style *style, struct sp_arena *arena, const struct validation_set *set)
{
    struct report_grid grid;
    report_grid_init(&grid, arena, source_columns, N_SOURCE_COLUMNS);
    for (int i = 0; i < set->n_sources; i++) {
        const struct validation_source *source = &set->sources[i];
        const struct report_validation_counts counts = report_validation_count(source);
        struct sp_texts fitted = {.arena = arena};
        report_validation_fitted(source, &fitted);
        report_grid_add(&grid);
        report_grid_text(&grid, SOURCE_NAME, "%s", source->name);
        report_grid_text(&grid, SOURCE_GRADE, "%s",
                         source->is_own          ? "own"
                         : source->grade == NULL ? ""
                                                 : source->grade);
        report_grid_text(&grid, SOURCE_JUDGED, "%d", counts.n_judged);
        report_grid_text(&grid, SOURCE_FITTED, "%d", counts.n_fitted);
        report_grid_text(&grid, SOURCE_LEFT_OUT, "%d", counts.n_left_out);
        report_grid_text(&grid, SOURCE_WHAT, "%s", report_join_texts(arena, &fitted));
    }
    (void)fputc('\n', style->file);
    report_grid_print(style, &grid);
}

/* ---- lines -------------------------------------------------------------------------------------------------------- */

static void print_line(const struct report_style *style, const char *label, const char *text)
{
    if (style->format == REPORT_MARKDOWN) {
        (void)fprintf(style->file, "- %s: %s\n", label, text);
        return;
    }
    char padded[16];
    (void)snprintf(padded, sizeof(padded), "%-9s", label);
    report_wrap(style->file, 2, padded, text);
}

static void print_headline(const struct report_style *style, struct sp_arena *arena,
                           const struct report_validation *validation, enum validation_family family)
{
    const struct validation_headline judged =
        validation_headline(arena, validation->set, family, "A", VALIDATION_JUDGED);
    const struct validation_headline all = validation_headline(arena, validation->set, family, "A", VALIDATION_ALL);
    if (all.n_sources > 0) {
        print_line(style, family == VALIDATION_STEP ? "time" : "memory",
                   sp_format(arena,
                             "%s graded A, their rows that judge; with the fitted rows %s. Medians of their medians",
                             report_validation_headline(arena, &judged, "published source"),
                             report_validation_headline(arena, &all, "source")));
    }
}

/* Why rows have no price: each reason once, with the first row that has it. What no option can say is counted alone. */
static void print_reasons(const struct report_style *style, struct sp_arena *arena,
                          const struct report_validation *validation)
{
    const struct validation_set *set = validation->set;
    enum { MOST_REASONS = 8 };
    struct sp_texts reasons = {.arena = arena};
    for (int i = 0; i < set->n_sources; i++) {
        for (int j = 0; j < set->sources[i].n_rows; j++) {
            const struct validation_row *row = &set->sources[i].rows[j];
            bool is_refused = row->state == VALIDATION_REFUSED || row->state == VALIDATION_NOT_BUILT;
            bool is_asked = (validation->roles >> (unsigned)row->role & 1U) != 0;
            if (!is_refused || !is_asked || sp_texts_has(&reasons, row->reason)) {
                continue;
            }
            sp_texts_add(&reasons, "%s", row->reason);
            if (reasons.count <= MOST_REASONS) {
                print_line(style, "left out",
                           sp_format(arena, "%s, %s: %s", set->sources[i].name, row->name, row->reason));
            }
        }
    }
    if (reasons.count > MOST_REASONS) {
        print_line(style, "left out",
                   sp_format(arena, "for %zu other reasons: --format json has them", reasons.count - MOST_REASONS));
    }
}

static void print_lines(const struct report_style *style, struct sp_arena *arena,
                        const struct report_validation *validation)
{
    struct sp_texts biases = {.arena = arena};
    const struct validation_coverage coverage = validation_coverage(validation->set);
    (void)fputc('\n', style->file);
    if ((validation->roles & VALIDATION_JUDGED) == 0) { /* what follows is of rows that judge */
        print_reasons(style, arena, validation);
        return;
    }
    print_headline(style, arena, validation, VALIDATION_STEP);
    print_headline(style, arena, validation, VALIDATION_PEAK);
    const struct validation_order order = validation_order(arena, validation->set, VALIDATION_JUDGED);
    if (order.n > 0) {
        print_line(style, "order", report_validation_order(arena, &order));
    }
    print_line(style, "intervals", report_validation_coverage(arena, &coverage));
    report_validation_biases(arena, validation->set, false, &biases);
    for (size_t i = 0; i < biases.count; i++) {
        print_line(style, "bias", biases.items[i]);
    }
    print_reasons(style, arena, validation);
}

static void print_title(const struct report_style *style, struct sp_arena *arena, const struct validation_set *set)
{
    struct report_validation_counts sum = {.n_judged = 0};
    for (int i = 0; i < set->n_sources; i++) {
        const struct report_validation_counts counts = report_validation_count(&set->sources[i]);
        sum.n_judged += counts.n_judged;
        sum.n_fitted += counts.n_fitted;
        sum.n_left_out += counts.n_left_out;
    }
    const char *mark = style->format == REPORT_MARKDOWN ? "**" : "";
    (void)fputs(report_color(style, REPORT_BOLD), style->file);
    report_wrap(
        style->file, 0, "",
        sp_format(arena,
                  "%sPredicted beside measured%s: %d row%s judge%s, %d had something fitted to them, %d left out, "
                  "of %d source%s",
                  mark, mark, sum.n_judged, sp_plural(sum.n_judged), sum.n_judged == 1 ? "s" : "", sum.n_fitted,
                  sum.n_left_out, set->n_sources, sp_plural(set->n_sources)));
    (void)fputs(report_color(style, REPORT_PLAIN), style->file);
}

/* The errors of rows that judge or, where there are none or only the others are asked for, of those, said so. */
static void print_errors(const struct report_style *style, struct sp_arena *arena,
                         const struct report_validation *validation)
{
    const struct validation_set *set = validation->set;
    struct validation_summary *summaries = NULL;
    bool is_judged = (validation->roles & VALIDATION_JUDGED) != 0;
    int n = is_judged ? validation_summarise(arena, set, validation->by, VALIDATION_JUDGED, &summaries) : 0;
    is_judged = n > 0;
    if (n == 0) {
        n = validation_summarise(arena, set, validation->by, validation->roles, &summaries);
    }
    const struct report_grid grid = report_validation_grid(arena, summaries, n, validation->by);
    (void)fprintf(style->file, "\n%s\n%s",
                  n == 0      ? "No row has a figure."
                  : is_judged ? "Errors in % of the rows that judge:"
                              : "Errors in % of the rows that something was fitted to (they judge nothing):",
                  style->format == REPORT_MARKDOWN ? "\n" : "");
    if (n > 0) {
        report_grid_print(style, &grid);
    }
}

static void print_csv(const struct report_style *style, struct sp_arena *arena,
                      const struct report_validation *validation)
{
    struct listed *rows = NULL;
    int n = list_rows(arena, validation->set, validation->roles, &rows);
    const struct sp_json **objects = sp_arena_array(arena, (size_t)n + 1, sizeof(*objects));
    for (int i = 0; i < n; i++) {
        objects[i] = report_validation_row(arena, rows[i].source, rows[i].row);
    }
    if (n > 0) {
        report_csv_write(arena, objects, n, style->file);
        return;
    }
    const struct validation_row none = {.name = "", .quantity = validation_quantity_find("step_time_s")};
    const struct validation_source nowhere = {.name = ""};
    struct report_csv sheet;
    report_csv_open(&sheet, arena);
    report_csv_columns(&sheet, arena, report_validation_row(arena, &nowhere, &none));
    report_csv_heading(&sheet, style->file);
}

void report_validation(const struct report_style *style, struct sp_arena *arena,
                       const struct report_validation *validation)
{
    switch (style->format) {
    case REPORT_JSON:
        report_tree_write(report_validation_tree(style, arena, validation), style->file);
        return;
    case REPORT_CSV:
        print_csv(style, arena, validation);
        return;
    case REPORT_TABLE:
    case REPORT_MARKDOWN:
        break;
    }
    print_title(style, arena, validation->set);
    print_errors(style, arena, validation);
    print_lines(style, arena, validation);
    print_rows(style, arena, validation);
    print_sources(style, arena, validation->set);
}
