/* Measurements of one group for reading. Which parameters a group has is the device program's affair: the number that varies
 * most goes across, the rest names the lines. Where that gives no matrix, each measurement has a line. */
#include "report/report.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 10, MOST_COLUMNS = 6 };

static const double PERCENT = 100;

enum report_metric report_measured_metric(enum measurement_group group)
{
    switch (group) {
    case MEASUREMENT_GEMM:
    case MEASUREMENT_ATTENTION:
    case MEASUREMENT_LAYER:
        return REPORT_METRIC_FLOP;
    case MEASUREMENT_COPY:
    case MEASUREMENT_ELEMENTWISE:
    case MEASUREMENT_OPTIMIZER:
    case MEASUREMENT_COLLECTIVE:
        return REPORT_METRIC_BYTES;
    case MEASUREMENT_LATENCY:
    case MEASUREMENT_METHOD:
    case MEASUREMENT_STEP:
    case N_MEASUREMENT_GROUPS:
        break;
    }
    return REPORT_METRIC_TIME;
}

/* In units of a heading: TFLOP/s, GB/s, ms. 0 where the row has none. */
static double scaled(const struct measurement *row, enum report_metric metric)
{
    static const double tera = 1e12;
    static const double giga = 1e9;
    static const double ms_per_s = 1e3;
    switch (metric) {
    case REPORT_METRIC_FLOP:
        return row->flop / row->median_s / tera;
    case REPORT_METRIC_BYTES:
        return row->bytes / row->median_s / giga;
    case REPORT_METRIC_TIME:
        break;
    }
    return row->median_s * ms_per_s;
}

static const char *const units[] = {
    [REPORT_METRIC_FLOP] = "TFLOP/s", [REPORT_METRIC_BYTES] = "GB/s", [REPORT_METRIC_TIME] = "ms"};

/* The rows of a group. */
struct view {
    struct sp_arena *arena;
    enum measurement_group group;
    const struct measurement **rows;
    int n_rows;
    const char *axis; /* the number that varies most; NULL: none does */
};

/* ---- parameters ------------------------------------------------------------------------------------------------- */

static bool is_same(const struct sp_json *a, const struct sp_json *b)
{
    if (a == NULL || b == NULL || a->type != b->type) {
        return a == b;
    }
    return a->type == SP_JSON_STRING ? strcmp(a->string, b->string) == 0
                                     : !(a->number < b->number) && !(a->number > b->number);
}

static bool is_constant(const struct view *view, const char *name)
{
    const struct sp_json *first = sp_json_member(view->rows[0]->parameters, name);
    for (int i = 1; i < view->n_rows; i++) {
        if (!is_same(first, sp_json_member(view->rows[i]->parameters, name))) {
            return false;
        }
    }
    return true;
}

static int compare_numbers(const void *a, const void *b)
{
    double left = *(const double *)a;
    double right = *(const double *)b;
    return (left > right) - (left < right);
}

/* The values of a number, in order; *n_values is 0 where a row lacks it. */
static double *values_of(const struct view *view, const char *name, int *n_values)
{
    double *values = sp_arena_array(view->arena, (size_t)view->n_rows, sizeof(*values));
    *n_values = 0;
    for (int i = 0; i < view->n_rows; i++) {
        const struct sp_json *member = sp_json_member(view->rows[i]->parameters, name);
        if (member == NULL || member->type != SP_JSON_NUMBER) {
            return values;
        }
        values[i] = member->number;
    }
    qsort(values, (size_t)view->n_rows, sizeof(*values), compare_numbers);
    for (int i = 0; i < view->n_rows; i++) {
        if (i == 0 || values[i] > values[*n_values - 1]) {
            values[(*n_values)++] = values[i];
        }
    }
    return values;
}

static const char *find_axis(const struct view *view)
{
    const char *axis = NULL;
    int most = 1;
    for (const struct sp_json *member = view->rows[0]->parameters->first; member != NULL; member = member->next) {
        int n_values = 0;
        (void)values_of(view, member->key, &n_values);
        if (n_values > most) {
            most = n_values;
            axis = member->key;
        }
    }
    return axis;
}

static const char *number_text(struct sp_arena *arena, const char *name, double value)
{
    static const struct {
        double size;
        const char *unit;
    } sizes[] = {{0x1p30, "GiB"}, {0x1p20, "MiB"}, {0x1p10, "KiB"}};
    static const double most_exact = 0x1p53;
    bool is_whole = value >= 0.0 && value < most_exact && !((double)(int64_t)value < value);
    if (!is_whole) {
        return report_three(arena, value);
    }
    for (size_t i = 0; i < SP_COUNT_OF(sizes) && strstr(name, "bytes") != NULL; i++) {
        double scaled_value = value / sizes[i].size;
        if (value >= sizes[i].size) {
            bool is_round = !((double)(int64_t)scaled_value < scaled_value);
            return sp_format(arena, "%s %s",
                             is_round ? sp_format(arena, "%.0f", scaled_value) : report_three(arena, scaled_value),
                             sizes[i].unit);
        }
    }
    bool is_length = strcmp(name, "tokens") == 0 || strcmp(name, "seq") == 0;
    return is_length ? sp_tokens_print(arena, (int64_t)value) : sp_format(arena, "%.0f", value);
}

/* "ring", "ranks 8" */
static const char *parameter_text(struct sp_arena *arena, const struct sp_json *member)
{
    return member->type == SP_JSON_STRING ? member->string
                                          : sp_format(arena, "%s %s", report_words(arena, member->key),
                                                      number_text(arena, member->key, member->number));
}

static const char *constants_text(const struct view *view)
{
    struct sp_texts texts = {.arena = view->arena};
    for (const struct sp_json *member = view->rows[0]->parameters->first; member != NULL && view->n_rows > 1;
         member = member->next) {
        if (is_constant(view, member->key)) {
            const char *value =
                member->type == SP_JSON_STRING ? member->string : number_text(view->arena, member->key, member->number);
            sp_texts_add(&texts, "%s %s", report_words(view->arena, member->key), value);
        }
    }
    return sp_join(view->arena, texts.items, texts.count, ", ");
}

/* What names the line of a row in a matrix: what differs or, where nothing does, what is said in words. */
static const char *line_text(const struct view *view, const struct measurement *row)
{
    struct sp_texts texts = {.arena = view->arena};
    struct sp_texts words = {.arena = view->arena};
    for (const struct sp_json *member = row->parameters->first; member != NULL; member = member->next) {
        if (strcmp(member->key, view->axis) != 0 && !is_constant(view, member->key)) {
            sp_texts_add(&texts, "%s", parameter_text(view->arena, member));
        }
        if (member->type == SP_JSON_STRING) {
            sp_texts_add(&words, "%s", member->string);
        }
    }
    const struct sp_texts *said = texts.count > 0 ? &texts : &words;
    return sp_join(view->arena, said->items, said->count, " ");
}

/* Index i of n_shown among n, the first and the last included. */
static int spread_out(int i, int n_shown, int n)
{
    return n_shown >= n || n_shown < 2 ? i : i * (n - 1) / (n_shown - 1);
}

/* ---- a matrix --------------------------------------------------------------------------------------------------- */

struct matrix {
    const struct view *view;
    struct sp_texts lines;
    const double *values; /* of the axis */
    int n_values, n_columns;
};

static double value_at(const struct matrix *matrix, int column)
{
    return matrix->values[spread_out(column, matrix->n_columns, matrix->n_values)];
}

/* Worth it where more than half of the cells are filled and lines are fewer than measurements. */
static bool make_matrix(const struct view *view, struct matrix *matrix)
{
    *matrix = (struct matrix){.view = view, .lines = {.arena = view->arena}};
    bool is_listed = view->group == MEASUREMENT_GEMM || view->axis == NULL; /* shapes have three sizes */
    if (is_listed) {
        return false;
    }
    for (int i = 0; i < view->n_rows; i++) {
        sp_texts_add(&matrix->lines, "%s", line_text(view, view->rows[i]));
    }
    matrix->values = values_of(view, view->axis, &matrix->n_values);
    matrix->n_columns = matrix->n_values < MOST_COLUMNS ? matrix->n_values : MOST_COLUMNS;
    size_t n_cells = matrix->lines.count * (size_t)matrix->n_values;
    return matrix->lines.count < (size_t)view->n_rows && 2 * (size_t)view->n_rows > n_cells;
}

static const struct measurement *cell_of(const struct matrix *matrix, const char *line, double value)
{
    const struct view *view = matrix->view;
    const struct measurement *found = NULL;
    for (int i = 0; i < view->n_rows; i++) {
        double own = sp_json_member(view->rows[i]->parameters, view->axis)->number;
        if (!(own < value) && !(own > value) && strcmp(line_text(view, view->rows[i]), line) == 0) {
            found = view->rows[i];
        }
    }
    return found;
}

static struct report_column *matrix_columns(const struct matrix *matrix)
{
    const struct view *view = matrix->view;
    struct report_column *columns = sp_arena_array(view->arena, (size_t)matrix->n_columns + 1, sizeof(*columns));
    columns[0].heading = sp_format(view->arena, "%s, %s by %s", measurement_group_names[view->group],
                                   units[report_measured_metric(view->group)], report_words(view->arena, view->axis));
    for (int i = 0; i < matrix->n_columns; i++) {
        columns[i + 1] = (struct report_column){.heading = number_text(view->arena, view->axis, value_at(matrix, i)),
                                                .is_right = true};
    }
    return columns;
}

static void fill_matrix(const struct matrix *matrix, struct report_measured_group *shown)
{
    const struct view *view = matrix->view;
    struct report_grid *grid = &shown->grid;
    int n_lines = (int)matrix->lines.count < MOST_ROWS ? (int)matrix->lines.count : MOST_ROWS;
    report_grid_init(grid, view->arena, matrix_columns(matrix), matrix->n_columns + 1);
    for (int i = 0; i < n_lines; i++) {
        const char *line = matrix->lines.items[spread_out(i, n_lines, (int)matrix->lines.count)];
        report_grid_add(grid);
        report_grid_text(grid, 0, "%s", line[0] == '\0' ? "all" : line);
        for (int column = 0; column < matrix->n_columns; column++) {
            const struct measurement *row = cell_of(matrix, line, value_at(matrix, column));
            double value = row == NULL ? 0.0 : scaled(row, report_measured_metric(view->group));
            report_grid_text(grid, column + 1, "%s", value > 0.0 ? report_three(view->arena, value) : "-");
            shown->n_shown += row == NULL ? 0 : 1;
        }
    }
}

/* ---- a list ----------------------------------------------------------------------------------------------------- */

enum { KEY_COLUMN, TIME_COLUMN, FLOP_COLUMN, BYTES_COLUMN, SPREAD_COLUMN, COUNT_COLUMN, N_COLUMNS };

/* The heading already says the group, which keys begin with. */
static const char *short_key(const struct measurement *row)
{
    const char *group = measurement_group_names[row->group];
    size_t n = strlen(group);
    return strncmp(row->key, group, n) == 0 && row->key[n] == ' ' ? row->key + n + 1 : row->key;
}

static void add_listed(struct report_grid *grid, const struct measurement *row)
{
    struct sp_arena *arena = grid->arena;
    report_grid_add(grid);
    report_grid_text(grid, KEY_COLUMN, "%s", short_key(row));
    report_grid_text(grid, TIME_COLUMN, "%s", sp_quantity_print(arena, row->median_s, SP_SECONDS));
    if (row->flop > 0.0) {
        report_grid_text(grid, FLOP_COLUMN, "%s", report_three(arena, scaled(row, REPORT_METRIC_FLOP)));
    }
    if (row->bytes > 0.0 && report_measured_metric(row->group) != REPORT_METRIC_FLOP) {
        report_grid_text(grid, BYTES_COLUMN, "%s", report_three(arena, scaled(row, REPORT_METRIC_BYTES)));
    }
    report_grid_text(grid, SPREAD_COLUMN, "%.1f", PERCENT * (row->high_s - row->low_s) / row->median_s);
    report_grid_text(grid, COUNT_COLUMN, "%lld", (long long)row->count);
}

static void fill_list(const struct view *view, struct report_measured_group *shown)
{
    static const struct report_column usual[N_COLUMNS] = {[KEY_COLUMN] = {.heading = ""},
                                                          [TIME_COLUMN] = {.heading = "time", .is_right = true},
                                                          [FLOP_COLUMN] = {.heading = "TFLOP/s", .is_right = true},
                                                          [BYTES_COLUMN] = {.heading = "GB/s", .is_right = true},
                                                          [SPREAD_COLUMN] = {.heading = "spread %", .is_right = true},
                                                          [COUNT_COLUMN] = {.heading = "runs", .is_right = true}};
    struct report_column *columns = sp_arena_array(view->arena, N_COLUMNS, sizeof(*columns));
    memcpy(columns, usual, sizeof(usual));
    columns[KEY_COLUMN].heading = measurement_group_names[view->group];
    report_grid_init(&shown->grid, view->arena, columns, N_COLUMNS);
    shown->n_shown = view->n_rows < MOST_ROWS ? view->n_rows : MOST_ROWS;
    for (int i = 0; i < shown->n_shown; i++) {
        add_listed(&shown->grid, view->rows[spread_out(i, shown->n_shown, view->n_rows)]);
    }
}

bool report_measured_grid(struct sp_arena *arena, const struct report_measured *measured, enum measurement_group group,
                          struct report_measured_group *shown)
{
    struct view view = {.arena = arena, .group = group};
    view.rows = sp_arena_array(arena, measured->n_rows + 1, sizeof(*view.rows));
    for (size_t i = 0; i < measured->n_rows; i++) {
        if (measured->rows[i].kind == MEASUREMENT_TIMED && measured->rows[i].group == group) {
            view.rows[view.n_rows++] = &measured->rows[i];
        }
    }
    *shown = (struct report_measured_group){.n_timed = view.n_rows};
    if (view.n_rows == 0) {
        return false;
    }
    struct matrix matrix;
    view.axis = find_axis(&view);
    shown->constants = constants_text(&view);
    if (make_matrix(&view, &matrix)) {
        fill_matrix(&matrix, shown);
    } else {
        fill_list(&view, shown);
    }
    return true;
}
