/* Layouts of a plan as a table: only the settings in which its rows differ are columns. */
#include "report/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double GIB = 0x1p30;

/* ---- which rows -------------------------------------------------------------------------------------------------- */

int report_plan_ranked(const struct report_plan *plan, int *rows)
{
    int n_rows = 0;
    for (int i = 0; i < plan->plan->n_layouts; i++) {
        if (plan->plan->layouts[i].is_ranked) {
            rows[n_rows++] = i;
        }
    }
    return n_rows;
}

static int compare_times(const void *a, const void *b)
{
    const struct plan_layout *x = *(const struct plan_layout *const *)a;
    const struct plan_layout *y = *(const struct plan_layout *const *)b;
    return (x->step_time_s > y->step_time_s) - (x->step_time_s < y->step_time_s);
}

/* How far apart the neighbours of a point are, as a share of the whole front in either figure. */
static double gap_at(const struct plan_layout *const *points, int n, int at)
{
    const struct plan_layout *before = points[at - 1];
    const struct plan_layout *after = points[at + 1];
    double time_s = points[n - 1]->step_time_s - points[0]->step_time_s;
    double bytes = points[0]->peak_bytes - points[n - 1]->peak_bytes;
    return (after->step_time_s - before->step_time_s) / time_s + (before->peak_bytes - after->peak_bytes) / bytes;
}

/* Takes out the point that says least, until `most` are left. */
static int thin(const struct plan_layout **points, int n, int most)
{
    for (; n > most; n--) {
        int least = 1;
        for (int i = 2; i < n - 1; i++) {
            least = gap_at(points, n, i) < gap_at(points, n, least) ? i : least;
        }
        memmove(&points[least], &points[least + 1], (size_t)(n - 1 - least) * sizeof(points[0]));
    }
    return n;
}

int report_plan_front(struct sp_arena *arena, const struct report_plan *plan, int *rows, int *n_whole)
{
    enum { FRONT_ROWS = 8 };
    const struct plan_layout *layouts = plan->plan->layouts;
    const struct plan_layout **points = sp_arena_array(arena, (size_t)plan->plan->n_layouts + 1, sizeof(*points));
    int n_points = 0;
    for (int i = 0; i < plan->plan->n_layouts; i++) {
        if (layouts[i].is_on_front) {
            points[n_points++] = &layouts[i];
        }
    }
    qsort(points, (size_t)n_points, sizeof(*points), compare_times);
    *n_whole = n_points;
    n_points = thin(points, n_points, FRONT_ROWS);
    for (int i = 0; i < n_points; i++) {
        rows[i] = (int)(points[i] - layouts);
    }
    return n_points;
}

/* ---- columns ----------------------------------------------------------------------------------------------------- */

static const struct {
    const char *path;
    const char *heading;
    bool is_right;
} settings[] = {
    {"gpus", "GPUs", true},
    {"layout.tp", "tp", true},
    {"layout.sp", "sp", true},
    {"layout.sp_method", "method", false},
    {"layout.sp_ulysses", "ulysses", true},
    {"layout.sp_inner", "inner", true},
    {"layout.pp", "pp", true},
    {"layout.vpp", "vpp", true},
    {"layout.schedule", "schedule", false},
    {"layout.dp", "dp", true},
    {"layout.ep", "ep", true},
    {"layout.etp", "etp", true},
    {"layout.micro_batch", "micro", true},
    {"layout.recompute", "recompute", false},
    {"layout.zero", "zero", true},
    {"layout.offload", "offload", false},
    {"layout.framework", "framework", false},
    {"layout.order", "order", false},
};
enum { N_SETTINGS = (int)SP_COUNT_OF(settings) };

enum figure { FIGURE_STEP, FIGURE_SLOWER, FIGURE_COST, FIGURE_MFU, FIGURE_PEAK, FIGURE_FRONT, FIGURE_WORDS, N_FIGURES };
static const struct report_column figures[N_FIGURES] = {
    [FIGURE_STEP] = {.heading = "step s", .is_right = true},
    [FIGURE_SLOWER] = {.heading = "slower %", .is_right = true},
    [FIGURE_COST] = {.heading = "$/Gtoken", .is_right = true},
    [FIGURE_MFU] = {.heading = "MFU %", .is_right = true},
    [FIGURE_PEAK] = {.heading = "GiB", .is_right = true},
    [FIGURE_FRONT] = {.heading = "front"},
    [FIGURE_WORDS] = {.heading = "differs", .is_note = true, .has_no_label = true},
};

/* A table being filled. */
struct view {
    struct sp_arena *arena;
    const struct report_plan *plan;
    const int *rows;
    int n_rows;
    bool is_shown[N_SETTINGS];
};

/* Sets of offload in short, and no word of the usual order: they are the longest of texts. */
static const char *cell_text(const struct view *view, int row, int setting)
{
    static const struct {
        const char *name;
        const char *brief;
    } sets[] = {{"activations", "act"}, {"optimizer", "opt"}, {"parameters", "par"}};
    const char *path = settings[setting].path;
    const char *text = report_layout_setting(view->arena, view->plan->answers[row], path);
    if (strcmp(path, "layout.order") == 0) {
        return strcmp(text, report_usual_order) == 0 ? "" : text;
    }
    if (strcmp(path, "layout.offload") != 0) {
        return text;
    }
    struct sp_texts parts = {.arena = view->arena};
    for (size_t i = 0; i < SP_COUNT_OF(sets); i++) {
        if (strstr(text, sets[i].name) != NULL) {
            sp_texts_add(&parts, "%s", sets[i].brief);
        }
    }
    return parts.count == 0 ? text : sp_join(view->arena, parts.items, parts.count, "+");
}

static void look_through(struct view *view)
{
    for (int i = 0; i < N_SETTINGS; i++) {
        const char *first = view->n_rows > 0 ? cell_text(view, 0, i) : ""; /* of the plan, which may be in no row */
        for (int row = 0; row < view->n_rows; row++) {
            view->is_shown[i] = view->is_shown[i] || strcmp(first, cell_text(view, view->rows[row], i)) != 0;
        }
    }
}

static int collect_columns(const struct view *view, struct report_column *columns)
{
    int n_columns = 0;
    columns[n_columns++] = (struct report_column){.heading = "#", .is_right = true};
    for (int i = 0; i < N_SETTINGS; i++) {
        if (view->is_shown[i]) {
            columns[n_columns++] =
                (struct report_column){.heading = settings[i].heading, .is_right = settings[i].is_right};
        }
    }
    for (int i = 0; i < N_FIGURES; i++) {
        columns[n_columns++] = figures[i];
    }
    return n_columns;
}

/* ---- figures ----------------------------------------------------------------------------------------------------- */

/* Against the first: "2.1", "-0.4"; of the first itself nothing. */
static const char *slower_text(const struct view *view, int row)
{
    enum { PERCENT = 100 };
    double first_s = view->plan->plan->layouts[0].step_time_s;
    double percent = PERCENT * (view->plan->plan->layouts[row].step_time_s / first_s - 1.0);
    bool is_nothing = fabs(percent) < 0.05; /* also when negative: no "-0.0" */
    return row == 0 ? "" : sp_format(view->arena, "%.1f", is_nothing ? 0.0 : percent);
}

/* Dollars for 1e9 tokens at the price of the hardware file; "" unless asked for. */
static const char *cost_text(const struct view *view, int row)
{
    static const double hour_s = 3600.0;
    static const double many_tokens = 1e9;
    const struct report_plan *plan = view->plan;
    const struct plan_layout *layout = &plan->plan->layouts[row];
    if (plan->asked->objective != PLAN_COST) {
        return "";
    }
    double tokens = (double)plan->plan->global_batch * (double)plan->base->run.seq;
    double gpu_hours = (double)layout->gpus * layout->step_time_s / hour_s;
    return report_three(view->arena, gpu_hours * plan->base->hardware.gpu.price.value / tokens * many_tokens);
}

static void fill_figures(const struct view *view, struct report_grid *grid, int row, int column)
{
    struct sp_arena *arena = view->arena;
    const struct plan_layout *layout = &view->plan->plan->layouts[row];
    double mfu_frac = sp_json_member(view->plan->answers[row], "mfu_frac")->number;
    report_grid_text(grid, column + FIGURE_STEP, "%s", report_three(arena, layout->step_time_s));
    report_grid_text(grid, column + FIGURE_SLOWER, "%s", slower_text(view, row));
    report_grid_text(grid, column + FIGURE_COST, "%s", cost_text(view, row));
    report_grid_text(grid, column + FIGURE_MFU, "%s", report_percent(arena, mfu_frac));
    report_grid_text(grid, column + FIGURE_PEAK, "%s", report_three(arena, layout->peak_bytes / GIB));
}

/* The MFU follows from the step time: it goes first where the width is short. */
static void make_room(const struct report_grid *grid, struct report_column *mfu)
{
    enum { INDENT = 2 };
    struct report_grid narrow = *grid;
    narrow.gap = 1;
    mfu->is_hidden = INDENT + report_grid_width(&narrow) > REPORT_COLUMNS;
}

bool report_plan_shows_orders(const struct report_plan *plan, const int *rows, int n_rows)
{
    const char *first = report_tree_at(plan->answers[0], "layout.order")->string;
    for (int i = 0; i < n_rows; i++) {
        if (strcmp(first, report_tree_at(plan->answers[rows[i]], "layout.order")->string) != 0) {
            return true;
        }
    }
    return false;
}

struct report_grid report_plan_grid(struct sp_arena *arena, const struct report_plan *plan, const int *rows, int n_rows,
                                    bool has_words)
{
    struct view view = {.arena = arena, .plan = plan, .rows = rows, .n_rows = n_rows};
    struct report_column *columns = sp_arena_array(arena, 1 + N_SETTINGS + N_FIGURES, sizeof(*columns));
    look_through(&view);
    struct report_grid grid;
    report_grid_init(&grid, arena, columns, collect_columns(&view, columns));
    int first_figure = grid.n_columns - N_FIGURES;
    for (int i = 0; i < n_rows; i++) {
        int column = 0;
        report_grid_add(&grid);
        report_grid_text(&grid, column++, "%d", rows[i] + 1);
        for (int setting = 0; setting < N_SETTINGS; setting++) {
            if (view.is_shown[setting]) {
                report_grid_text(&grid, column++, "%s", cell_text(&view, rows[i], setting));
            }
        }
        fill_figures(&view, &grid, rows[i], first_figure);
        if (has_words) {
            bool is_on_front = plan->plan->layouts[rows[i]].is_on_front;
            report_grid_text(&grid, first_figure + FIGURE_FRONT, "%s", is_on_front ? "*" : "");
            report_grid_text(&grid, first_figure + FIGURE_WORDS, "%s", report_plan_brief(arena, plan, rows[i]));
        }
    }
    make_room(&grid, &columns[first_figure + FIGURE_MFU]);
    return grid;
}
