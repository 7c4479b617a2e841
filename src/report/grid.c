#include "report/report.h"

#include <assert.h>
#include <stdarg.h>
#include <string.h>

enum { GAP = 2, MAX_GRID_COLUMNS = 32 };

void report_grid_init(struct report_grid *grid, struct sp_arena *arena, const struct report_column *columns,
                      int n_columns)
{
    assert(n_columns > 0 && n_columns <= MAX_GRID_COLUMNS);
    *grid = (struct report_grid){.arena = arena, .columns = columns, .n_columns = n_columns};
}

static size_t n_cells(const struct report_grid *grid, int n_rows)
{
    return (size_t)n_rows * (size_t)grid->n_columns;
}

void report_grid_add(struct report_grid *grid)
{
    if (grid->n_rows == grid->capacity) {
        enum { FIRST_CAPACITY = 16 };
        int capacity = grid->capacity == 0 ? FIRST_CAPACITY : 2 * grid->capacity;
        struct report_cell *cells = sp_arena_array(grid->arena, n_cells(grid, capacity), sizeof(*cells));
        if (grid->n_rows > 0) {
            memcpy(cells, grid->cells, n_cells(grid, grid->n_rows) * sizeof(*cells));
        }
        grid->cells = cells;
        grid->capacity = capacity;
    }
    grid->n_rows++;
}

static struct report_cell *cell_at(const struct report_grid *grid, int row, int column)
{
    assert(row >= 0 && row < grid->n_rows && column >= 0 && column < grid->n_columns);
    return &grid->cells[n_cells(grid, row) + (size_t)column];
}

void report_grid_text(struct report_grid *grid, int column, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    assert(length >= 0);
    char *copy = sp_arena_alloc(grid->arena, (size_t)length + 1);
    va_start(args, format);
    (void)vsnprintf(copy, (size_t)length + 1, format, args);
    va_end(args);
    cell_at(grid, grid->n_rows - 1, column)->text = copy;
}

static void set_value(struct report_grid *grid, int column, const struct sp_json *value, const char *text)
{
    struct sp_json *copy = sp_arena_alloc(grid->arena, sizeof(*copy));
    *copy = *value;
    struct report_cell *cell = cell_at(grid, grid->n_rows - 1, column);
    cell->value = copy;
    cell->text = sp_strdup(grid->arena, text);
}

void report_grid_number(struct report_grid *grid, int column, double value, const char *text)
{
    const struct sp_json number = {.type = SP_JSON_NUMBER, .number = value};
    set_value(grid, column, &number, text);
}

void report_grid_bool(struct report_grid *grid, int column, bool value, const char *text)
{
    const struct sp_json boolean = {.type = SP_JSON_BOOL, .boolean = value};
    set_value(grid, column, &boolean, text);
}

/* Row -1 is the heading. */
static const char *text_at(const struct report_grid *grid, int row, int column)
{
    const char *text = row < 0 ? grid->columns[column].heading : cell_at(grid, row, column)->text;
    return text == NULL ? "" : text;
}

static int column_width(const struct report_grid *grid, int column)
{
    int width = 0;
    for (int row = -1; row < grid->n_rows; row++) {
        int own = report_text_width(text_at(grid, row, column));
        width = own > width ? own : width;
    }
    return width;
}

/* A column without a single text says nothing. */
static bool is_empty(const struct report_grid *grid, int column)
{
    for (int row = 0; row < grid->n_rows; row++) {
        if (text_at(grid, row, column)[0] != '\0') {
            return false;
        }
    }
    return grid->n_rows > 0;
}

/* Columns that stand side by side in a table. */
static bool is_shown(const struct report_grid *grid, int column)
{
    return !grid->columns[column].is_note && !grid->columns[column].is_lowered && !grid->columns[column].is_hidden &&
           !is_empty(grid, column);
}

static int gap_of(const struct report_grid *grid)
{
    return grid->gap > 0 ? grid->gap : GAP;
}

int report_grid_width(const struct report_grid *grid)
{
    int width = -gap_of(grid);
    for (int i = 0; i < grid->n_columns; i++) {
        width += is_shown(grid, i) ? gap_of(grid) + column_width(grid, i) : 0;
    }
    return width < 0 ? 0 : width;
}

/* Widths are -1 for columns that are not shown. Spaces are written by count, since printf counts bytes and not
 * characters. */
static const char *grid_line(const struct report_grid *grid, int row, const int *widths)
{
    const char *line = "";
    for (int i = 0; i < grid->n_columns; i++) {
        if (widths[i] < 0) {
            continue;
        }
        const char *text = text_at(grid, row, i);
        int padding = widths[i] - report_text_width(text);
        int left = (line[0] == '\0' ? 0 : gap_of(grid)) + (grid->columns[i].is_right ? padding : 0);
        int right = grid->columns[i].is_right ? 0 : padding;
        line = sp_format(grid->arena, "%s%*s%s%*s", line, left, "", text, right, "");
    }
    return line;
}

/* -1 for what is not shown. Returns the last column that is. */
static int measure(const struct report_grid *grid, int *widths)
{
    int last = 0;
    for (int i = 0; i < grid->n_columns; i++) {
        widths[i] = is_shown(grid, i) ? column_width(grid, i) : -1;
        last = widths[i] < 0 ? last : i;
    }
    return last;
}

static const char **all_lines(const struct report_grid *grid, const int *widths)
{
    const char **lines = sp_arena_array(grid->arena, (size_t)grid->n_rows + 1, sizeof(*lines));
    for (int row = -1; row < grid->n_rows; row++) {
        lines[row + 1] = grid_line(grid, row, widths);
    }
    return lines;
}

const char **report_grid_lines(const struct report_grid *grid)
{
    int widths[MAX_GRID_COLUMNS] = {0};
    (void)measure(grid, widths);
    return all_lines(grid, widths);
}

static void print_notes(const struct report_grid *grid, int row, FILE *file)
{
    enum { NOTE_INDENT = 6 };
    struct sp_texts lowered = {.arena = grid->arena};
    for (int i = 0; i < grid->n_columns; i++) {
        if (grid->columns[i].is_lowered && text_at(grid, row, i)[0] != '\0') {
            sp_texts_add(&lowered, "%s %s", grid->columns[i].heading, text_at(grid, row, i));
        }
    }
    if (lowered.count > 0) {
        report_wrap(file, NOTE_INDENT, "", sp_join(grid->arena, lowered.items, lowered.count, ", "));
    }
    for (int i = 0; i < grid->n_columns; i++) {
        bool is_printed = grid->columns[i].is_note && !grid->columns[i].is_hidden;
        if (is_printed && text_at(grid, row, i)[0] != '\0') {
            const char *label = grid->columns[i].has_no_label ? "" : grid->columns[i].heading;
            report_wrap(file, NOTE_INDENT, label, text_at(grid, row, i));
        }
    }
}

enum { INDENT = 2, LEAST_WRAPPED = 20 };

static bool is_too_wide(const struct report_grid *grid)
{
    return INDENT + report_grid_width(grid) > REPORT_COLUMNS;
}

/* The last column can break into lines. */
static bool can_wrap_last(const struct report_grid *grid)
{
    int widths[MAX_GRID_COLUMNS] = {0};
    int last = measure(grid, widths);
    int left = INDENT + report_grid_width(grid) - widths[last];
    return left + LEAST_WRAPPED <= REPORT_COLUMNS && widths[last] > LEAST_WRAPPED && !grid->columns[last].is_right;
}

/* The widest column but the first, of texts if there is one, since figures are compared down the page. The first names
 * the rows, but for a name that leaves little room. */
static int column_to_lower(const struct report_grid *grid)
{
    enum { LONG_NAME = REPORT_COLUMNS / 2 };
    int lowered = -1;
    for (int i = column_width(grid, 0) > LONG_NAME ? 0 : 1; i < grid->n_columns; i++) {
        if (!is_shown(grid, i)) {
            continue;
        }
        bool is_better = lowered < 0 || (grid->columns[lowered].is_right && !grid->columns[i].is_right);
        bool is_same_kind = lowered >= 0 && grid->columns[lowered].is_right == grid->columns[i].is_right;
        if (is_better || (is_same_kind && column_width(grid, i) > column_width(grid, lowered))) {
            lowered = i;
        }
    }
    return lowered;
}

/* What does not fit side by side comes closer, then goes below its row, column by column. */
static struct report_grid fitted(const struct report_grid *grid)
{
    struct report_grid narrow = *grid;
    struct report_column *columns = sp_arena_array(grid->arena, (size_t)grid->n_columns, sizeof(*columns));
    memcpy(columns, grid->columns, (size_t)grid->n_columns * sizeof(*columns));
    narrow.columns = columns;
    if (is_too_wide(&narrow) && !can_wrap_last(&narrow)) {
        narrow.gap = 1;
    }
    while (is_too_wide(&narrow) && !can_wrap_last(&narrow)) {
        int lowered = column_to_lower(&narrow);
        if (lowered < 0) {
            break;
        }
        columns[lowered].is_lowered = true;
    }
    return narrow;
}

/* Where the table is too wide, its last column breaks into lines. */
static void print_fitted(const struct report_style *style, const struct report_grid *grid)
{
    int widths[MAX_GRID_COLUMNS] = {0};
    int last = measure(grid, widths);
    int left = INDENT + report_grid_width(grid) - widths[last];
    bool is_wrapped = left + widths[last] > REPORT_COLUMNS && can_wrap_last(grid);
    widths[last] = is_wrapped ? -1 : widths[last];
    const char **lines = all_lines(grid, widths);
    for (int row = -1; row < grid->n_rows; row++) {
        (void)fputs(row < 0 ? report_color(style, REPORT_BOLD) : "", style->file);
        if (is_wrapped) {
            const char *label = sp_format(grid->arena, "%s ", lines[row + 1]);
            report_wrap(style->file, INDENT, label, text_at(grid, row, last));
        } else {
            (void)fprintf(style->file, "%*s%.*s\n", INDENT, "", report_trimmed_length(lines[row + 1]), lines[row + 1]);
        }
        (void)fputs(row < 0 ? report_color(style, REPORT_PLAIN) : "", style->file);
        if (row >= 0) {
            print_notes(grid, row, style->file);
        }
    }
}

static void print_table(const struct report_style *style, const struct report_grid *grid)
{
    const struct report_grid narrow = fitted(grid);
    print_fitted(style, &narrow);
}

/* A bar inside a cell would end it. */
static void print_markdown_cell(const char *text, FILE *file)
{
    for (; *text != '\0'; text++) {
        if (*text == '|') {
            (void)fputc('\\', file);
        }
        (void)fputc(*text, file);
    }
}

static bool is_left_out(const struct report_grid *grid, int column)
{
    return grid->columns[column].is_hidden || is_empty(grid, column);
}

static void print_markdown(const struct report_style *style, const struct report_grid *grid)
{
    for (int row = -1; row < grid->n_rows; row++) {
        for (int i = 0; i < grid->n_columns; i++) {
            if (!is_left_out(grid, i)) {
                (void)fputs("| ", style->file);
                print_markdown_cell(text_at(grid, row, i), style->file);
                (void)fputc(' ', style->file);
            }
        }
        (void)fputs("|\n", style->file);
        for (int i = 0; i < grid->n_columns && row < 0; i++) {
            const char *rule = grid->columns[i].is_right ? "| ---: " : "| --- ";
            (void)fputs(is_left_out(grid, i) ? "" : rule, style->file);
        }
        (void)fputs(row < 0 ? "|\n" : "", style->file);
    }
}

void report_grid_print(const struct report_style *style, const struct report_grid *grid)
{
    if (style->format == REPORT_TABLE) {
        print_table(style, grid);
    } else if (style->format == REPORT_MARKDOWN) {
        print_markdown(style, grid);
    }
}

static void put_row(struct report_tree *tree, const struct report_grid *grid, int row)
{
    for (int i = 0; i < grid->n_columns; i++) {
        const struct report_cell *cell = cell_at(grid, row, i);
        if (grid->columns[i].key == NULL) {
            continue;
        }
        if (cell->value != NULL) {
            report_tree_value(tree, grid->columns[i].key, cell->value);
        } else {
            report_tree_string(tree, grid->columns[i].key, cell->text);
        }
    }
}

static void print_json(const struct report_style *style, const struct report_grid *grid, const char *show)
{
    struct report_tree tree;
    report_tree_open(&tree, grid->arena);
    report_tree_string(&tree, "schema", "seqplan.show/1");
    report_tree_string(&tree, "show", show);
    report_tree_begin(&tree, "rows", SP_JSON_ARRAY);
    for (int row = 0; row < grid->n_rows; row++) {
        report_tree_begin(&tree, NULL, SP_JSON_OBJECT);
        put_row(&tree, grid, row);
        report_tree_end(&tree);
    }
    report_tree_end(&tree);
    report_tree_write(report_tree_close(&tree), style->file);
}

static void print_csv(const struct report_style *style, const struct report_grid *grid)
{
    const struct sp_json **objects = sp_arena_array(grid->arena, (size_t)grid->n_rows + 1, sizeof(*objects));
    for (int row = 0; row < grid->n_rows; row++) {
        struct report_tree tree;
        report_tree_open(&tree, grid->arena);
        put_row(&tree, grid, row);
        objects[row] = report_tree_close(&tree);
    }
    report_csv_write(grid->arena, objects, grid->n_rows, style->file);
}

void report_grid_document(const struct report_style *style, const struct report_grid *grid, const char *show,
                          const char *title)
{
    switch (style->format) {
    case REPORT_JSON:
        print_json(style, grid, show);
        return;
    case REPORT_CSV:
        print_csv(style, grid);
        return;
    case REPORT_TABLE:
    case REPORT_MARKDOWN:
        break;
    }
    bool is_table = style->format == REPORT_TABLE;
    const char *mark = is_table ? "" : "**";
    if (title != NULL && is_table) {
        report_wrap(style->file, 0, "", title);
        (void)fputc('\n', style->file);
    } else if (title != NULL) {
        (void)fprintf(style->file, "%s%s%s\n\n", mark, title, mark);
    }
    report_grid_print(style, grid);
}
