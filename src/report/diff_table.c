/* Two layouts for reading: what differs in settings, time, memory and traffic, the largest difference first. */
#include "report/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double GIB = 0x1p30;
static const double MB = 1e6;

/* One line of a list of differences. */
struct line {
    const char *name;
    const struct sp_json *values; /* {a, b, difference} */
    int at;                       /* place in the list, to keep the order of equals */
};

/* How a list is printed. */
struct list {
    const char *heading;
    double unit;
    const char *total; /* path of the sum, or NULL */
};

static double part_of(const struct sp_json *values, const char *key)
{
    return sp_json_member(values, key)->number;
}

static int compare_lines(const void *a, const void *b)
{
    const struct line *first = a;
    const struct line *second = b;
    double size_a = fabs(part_of(first->values, "difference"));
    double size_b = fabs(part_of(second->values, "difference"));
    if (size_a > size_b || size_a < size_b) {
        return size_a > size_b ? -1 : 1;
    }
    return first->at - second->at;
}

static const char *signed_text(struct sp_arena *arena, double value)
{
    const char *text = report_three(arena, fabs(value));
    return sp_format(arena, "%s%s", value > 0.0 ? "+" : value < 0.0 ? "-" : "", text);
}

enum { LINE_NAME, LINE_A, LINE_B, LINE_DIFFERENCE, N_LINE_COLUMNS };

static void add_line(struct report_grid *grid, const char *name, const struct sp_json *values, double unit)
{
    struct sp_arena *arena = grid->arena;
    report_grid_add(grid);
    report_grid_text(grid, LINE_NAME, "%s", name);
    report_grid_text(grid, LINE_A, "%s", report_three(arena, part_of(values, "a") / unit));
    report_grid_text(grid, LINE_B, "%s", report_three(arena, part_of(values, "b") / unit));
    report_grid_text(grid, LINE_DIFFERENCE, "%s", signed_text(arena, part_of(values, "difference") / unit));
}

/* The lines that differ, the largest difference first, and below them the sum. */
static struct report_grid grid_of(struct sp_arena *arena, const struct list *list, struct line *lines, int n_lines,
                                  const struct sp_json *total)
{
    struct report_column *columns = sp_arena_array(arena, N_LINE_COLUMNS, sizeof(*columns));
    columns[LINE_NAME] = (struct report_column){.heading = list->heading};
    columns[LINE_A] = (struct report_column){.heading = "A", .is_right = true};
    columns[LINE_B] = (struct report_column){.heading = "B", .is_right = true};
    columns[LINE_DIFFERENCE] = (struct report_column){.heading = "A - B", .is_right = true};
    struct report_grid grid;
    report_grid_init(&grid, arena, columns, N_LINE_COLUMNS);
    if (n_lines > 1) {
        qsort(lines, (size_t)n_lines, sizeof(*lines), compare_lines);
    }
    for (int i = 0; i < n_lines; i++) {
        if (fabs(part_of(lines[i].values, "difference")) > 0.0) {
            add_line(&grid, lines[i].name, lines[i].values, list->unit);
        }
    }
    if (total != NULL) {
        add_line(&grid, "all", total, list->unit);
    }
    return grid;
}

/* Two lists, side by side where they are short enough. */
static void print_pair(const struct report_style *style, const struct report_grid *first,
                       const struct report_grid *second)
{
    struct report_grid grids[2];
    int n_grids = 0;
    if (first->n_rows > 0) {
        grids[n_grids++] = *first;
    }
    if (second->n_rows > 0) {
        grids[n_grids++] = *second;
    }
    if (style->format == REPORT_TABLE && n_grids > 0) {
        (void)fputc('\n', style->file);
        report_grids_print(style, grids, n_grids);
        return;
    }
    for (int i = 0; i < n_grids; i++) {
        (void)fputc('\n', style->file);
        report_grid_print(style, &grids[i]);
    }
}

static struct report_grid item_grid(struct sp_arena *arena, const struct sp_json *tree, const char *path,
                                    const struct list *list)
{
    const struct sp_json *items = sp_json_member(tree, path);
    struct line *lines = sp_arena_array(arena, (size_t)items->count + 1, sizeof(*lines));
    int n_lines = 0;
    for (const struct sp_json *item = items->first; item != NULL; item = item->next) {
        lines[n_lines] = (struct line){report_words(arena, item->key), item, n_lines};
        n_lines++;
    }
    return grid_of(arena, list, lines, n_lines, sp_json_member(tree, list->total));
}

static struct report_grid communication_grid(struct sp_arena *arena, const struct sp_json *tree, const char *figure,
                                             const struct list *list)
{
    static const struct {
        const char *name;
        const char *brief;
    } passes[] = {{"forward", "fwd"}, {"backward", "bwd"}, {"recompute", "rec"}, {"optimizer", "opt"}};
    const struct sp_json *rows = sp_json_member(tree, "communication");
    struct line *lines = sp_arena_array(arena, (size_t)rows->count + 1, sizeof(*lines));
    int n_lines = 0;
    for (const struct sp_json *row = rows->first; row != NULL; row = row->next) {
        const char *pass = sp_json_member(row, "pass")->string;
        for (size_t i = 0; i < SP_COUNT_OF(passes); i++) {
            pass = strcmp(pass, passes[i].name) == 0 ? passes[i].brief : pass;
        }
        const char *name = sp_format(arena, "%s %s %s", sp_json_member(row, "axis")->string,
                                     sp_json_member(row, "operation")->string, pass);
        lines[n_lines] = (struct line){name, sp_json_member(row, figure), n_lines};
        n_lines++;
    }
    return grid_of(arena, list, lines, n_lines, NULL);
}

/* ---- settings --------------------------------------------------------------------------------------------------- */

static const char *value_text(struct sp_arena *arena, const struct sp_json *value)
{
    struct sp_texts texts = {.arena = arena};
    switch (value->type) {
    case SP_JSON_NULL:
        return "-";
    case SP_JSON_BOOL:
        return value->boolean ? "on" : "off";
    case SP_JSON_NUMBER:
        return sp_format(arena, "%.15g", value->number);
    case SP_JSON_STRING:
        return value->string;
    case SP_JSON_ARRAY:
        texts.items = sp_arena_array(arena, (size_t)value->count + 1, sizeof(*texts.items));
        for (const struct sp_json *member = value->first; member != NULL; member = member->next) {
            texts.items[texts.count++] = value_text(arena, member);
        }
        return sp_join(arena, texts.items, texts.count, ",");
    case SP_JSON_OBJECT:
        break;
    }
    return "";
}

static void add_settings(struct report_grid *grid, const struct sp_json *pairs)
{
    for (const struct sp_json *pair = pairs->first; pair != NULL; pair = pair->next) {
        report_grid_add(grid);
        bool is_path = strncmp(pair->key, "set.", strlen("set.")) == 0; /* as it is typed */
        report_grid_text(grid, 0, "%s", is_path ? pair->key : report_words(grid->arena, pair->key));
        report_grid_text(grid, 1, "%s", value_text(grid->arena, pair->first));
        report_grid_text(grid, 2, "%s", value_text(grid->arena, pair->first->next));
    }
}

static void print_settings(const struct report_style *style, struct sp_arena *arena, const struct sp_json *tree)
{
    static const struct report_column columns[] = {{.heading = "setting"}, {.heading = "A"}, {.heading = "B"}};
    struct report_grid grid;
    report_grid_init(&grid, arena, columns, (int)SP_COUNT_OF(columns));
    add_settings(&grid, sp_json_member(tree, "question"));
    add_settings(&grid, sp_json_member(tree, "layout"));
    if (grid.n_rows == 0) {
        (void)fputs(style->format == REPORT_TABLE ? "  A and B are the same layout\n" : "A and B are the same layout\n",
                    style->file);
        return;
    }
    report_grid_print(style, &grid);
}

/* ---- the answer ------------------------------------------------------------------------------------------------- */

static const char *name_text(const char *name)
{
    return name[0] == '\0' ? "the options beside it" : name;
}

static void print_names(const struct report_style *style, struct sp_arena *arena, const struct report_diff *diff)
{
    const struct report_row rows[] = {{NULL, diff->a}, {NULL, diff->b}};
    const struct report_rows both = {.rows = rows, .n_rows = (int)SP_COUNT_OF(rows)};
    const char *same = report_rows_heading(arena, &both);
    const char *overrides = report_rows_overrides(arena, &both);
    if (style->format == REPORT_MARKDOWN) {
        (void)fprintf(style->file, "**%s**\n\n- A: `%s`\n- B: `%s`\n- same: %s\n", report_diff_words(arena, diff),
                      name_text(diff->name_a), name_text(diff->name_b), same);
        report_overrides(style, overrides);
        (void)fputc('\n', style->file);
        return;
    }
    report_wrap(style->file, 0, "A   ", name_text(diff->name_a));
    report_wrap(style->file, 0, "B   ", name_text(diff->name_b));
    report_wrap(style->file, 0, "same", same);
    report_overrides(style, overrides);
    (void)fputc('\n', style->file);
}

void report_diff_table(const struct report_style *style, struct sp_arena *arena, const struct report_diff *diff)
{
    const struct sp_json *tree = report_diff_tree(arena, diff);
    bool is_short = part_of(sp_json_member(tree, "step_time_s"), "a") < 1.0;
    double time_unit = is_short ? 1e-3 : 1.0;
    const struct list times = {is_short ? "time ms" : "time s", time_unit, "step_time_s"};
    const struct list memory = {"memory GiB", GIB, "peak_bytes"};
    const struct list sent = {"sent per layer MB", MB, NULL};
    const struct list exposed = {is_short ? "exposed ms" : "exposed s", time_unit, NULL};
    print_names(style, arena, diff);
    print_settings(style, arena, tree);
    const struct report_grid items[] = {item_grid(arena, tree, "time_s", &times),
                                        item_grid(arena, tree, "memory_bytes", &memory)};
    const struct report_grid traffic[] = {communication_grid(arena, tree, "bytes_per_layer_per_gpu", &sent),
                                          communication_grid(arena, tree, "exposed_s", &exposed)};
    print_pair(style, &items[0], &items[1]);
    print_pair(style, &traffic[0], &traffic[1]);
    if (style->format == REPORT_TABLE) {
        (void)fputc('\n', style->file);
        report_wrap(style->file, 2, "", report_diff_words(arena, diff));
    }
}

void report_diff(const struct report_style *style, struct sp_arena *arena, const struct report_diff *diff)
{
    const struct sp_json *tree = NULL;
    switch (style->format) {
    case REPORT_TABLE:
    case REPORT_MARKDOWN:
        report_diff_table(style, arena, diff);
        break;
    case REPORT_CSV:
        tree = report_diff_tree(arena, diff);
        report_csv_write(arena, &tree, 1, style->file);
        break;
    case REPORT_JSON:
        report_tree_write(report_diff_tree(arena, diff), style->file);
        break;
    }
}
