/* A calibration for reading: errors before and after, what each curve became, what to measure next. */
#include "report/report.h"

/* ---- before and after ------------------------------------------------------------------------------------------- */

enum {
    GROUP_COLUMN,
    LINES_COLUMN,
    BEFORE_COLUMN,
    BEFORE_WORST_COLUMN,
    AFTER_COLUMN,
    AFTER_WORST_COLUMN,
    BIAS_COLUMN,
    HELD_OUT_COLUMN,
    WORST_COLUMN,
    N_GROUP_COLUMNS
};

static void put_share(struct report_grid *grid, int column, bool is_known, double share)
{
    report_grid_text(grid, column, "%s", is_known ? report_percent(grid->arena, share) : "-");
}

static struct report_grid group_grid(struct sp_arena *arena, const struct calibration *calibration)
{
    static const struct report_column columns[N_GROUP_COLUMNS] = {
        [GROUP_COLUMN] = {.heading = "|error| %"},
        [LINES_COLUMN] = {.heading = "lines", .is_right = true},
        [BEFORE_COLUMN] = {.heading = "before", .is_right = true},
        [BEFORE_WORST_COLUMN] = {.heading = "worst", .is_right = true},
        [AFTER_COLUMN] = {.heading = "after", .is_right = true},
        [AFTER_WORST_COLUMN] = {.heading = "worst", .is_right = true},
        [BIAS_COLUMN] = {.heading = "bias", .is_right = true},
        [HELD_OUT_COLUMN] = {.heading = "held out", .is_right = true},
        [WORST_COLUMN] = {.heading = "worst after", .is_note = true},
    };
    struct report_grid grid;
    report_grid_init(&grid, arena, columns, N_GROUP_COLUMNS);
    for (int i = 0; i < CALIBRATION_GROUPS; i++) {
        const struct calibration_group *group = &calibration->groups[i];
        if (group->n_lines == 0) {
            continue;
        }
        report_grid_add(&grid);
        report_grid_text(&grid, GROUP_COLUMN, "%s", group->name);
        report_grid_text(&grid, LINES_COLUMN, "%d", group->n_lines);
        put_share(&grid, BEFORE_COLUMN, group->before.n > 0, group->before.median);
        put_share(&grid, BEFORE_WORST_COLUMN, group->before.n > 0, group->before.worst);
        put_share(&grid, AFTER_COLUMN, group->after.n > 0, group->after.median);
        put_share(&grid, AFTER_WORST_COLUMN, group->after.n > 0, group->after.worst);
        put_share(&grid, BIAS_COLUMN, group->after.n > 0, group->after.bias);
        put_share(&grid, HELD_OUT_COLUMN, group->held_out >= 0, group->held_out);
        if (group->after.n > 0) {
            report_grid_text(&grid, WORST_COLUMN, "%s", group->worst_key);
        }
    }
    return grid;
}

/* ---- curves ----------------------------------------------------------------------------------------------------- */

enum {
    CURVE_COLUMN,
    MODEL_COLUMN,
    POINTS_COLUMN,
    OUTLIERS_COLUMN,
    SPREAD_COLUMN,
    CURVE_HELD_OUT_COLUMN,
    FIGURES_COLUMN,
    N_CURVE_COLUMNS
};

static const char *parameter_text(struct sp_arena *arena, const struct calibration_parameter *parameter)
{
    if (!parameter->is_known) {
        return sp_format(arena, "%s not determined", parameter->name);
    }
    return sp_format(arena, "%s %s (%s to %s)", parameter->name,
                     sp_quantity_print(arena, parameter->value, parameter->dimension),
                     sp_quantity_print(arena, parameter->low, parameter->dimension),
                     sp_quantity_print(arena, parameter->high, parameter->dimension));
}

static const char *parameters_text(struct sp_arena *arena, const struct calibration_curve *curve)
{
    struct sp_texts texts = {.arena = arena};
    for (int i = 0; i < curve->n_parameters; i++) {
        sp_texts_add(&texts, "%s", parameter_text(arena, &curve->parameters[i]));
    }
    return report_join_texts(arena, &texts);
}

static struct report_grid curve_grid(struct sp_arena *arena, const struct calibration *calibration)
{
    static const struct report_column columns[N_CURVE_COLUMNS] = {
        [CURVE_COLUMN] = {.heading = "curve"},
        [MODEL_COLUMN] = {.heading = "model"},
        [POINTS_COLUMN] = {.heading = "points", .is_right = true},
        [OUTLIERS_COLUMN] = {.heading = "wild", .is_right = true},
        [SPREAD_COLUMN] = {.heading = "spread %", .is_right = true},
        [CURVE_HELD_OUT_COLUMN] = {.heading = "held out %", .is_right = true},
        [FIGURES_COLUMN] = {.heading = "figures", .is_note = true, .has_no_label = true},
    };
    struct report_grid grid;
    report_grid_init(&grid, arena, columns, N_CURVE_COLUMNS);
    for (int64_t i = 0; i < calibration->n_curves; i++) {
        const struct calibration_curve *curve = &calibration->curves[i];
        if (curve->model == NULL) {
            continue;
        }
        report_grid_add(&grid);
        report_grid_text(&grid, CURVE_COLUMN, "%s", curve->what);
        report_grid_text(&grid, MODEL_COLUMN, "%s", curve->model);
        report_grid_text(&grid, POINTS_COLUMN, "%d", curve->n_points);
        report_grid_text(&grid, OUTLIERS_COLUMN, "%d", curve->n_outliers);
        put_share(&grid, SPREAD_COLUMN, curve->spread > 0, curve->spread);
        put_share(&grid, CURVE_HELD_OUT_COLUMN, curve->held_out >= 0, curve->held_out);
        report_grid_text(&grid, FIGURES_COLUMN, "%s", parameters_text(arena, curve));
    }
    return grid;
}

/* ---- below ------------------------------------------------------------------------------------------------------ */

static void print_remarks(const struct report_style *style, struct sp_arena *arena,
                          const struct calibration *calibration)
{
    for (size_t i = 0; i < calibration->remarks.count; i++) {
        report_wrap(style->file, 2, "left out", calibration->remarks.items[i]);
    }
    for (int64_t i = 0; i < calibration->n_curves; i++) {
        const struct calibration_curve *curve = &calibration->curves[i];
        if (curve->model == NULL) {
            report_wrap(style->file, 2, "kept    ", sp_format(arena, "%s as it was: %s", curve->what, curve->reason));
        }
    }
    for (int i = 0; i < CALIBRATION_GROUPS; i++) {
        const struct calibration_group *group = &calibration->groups[i];
        if (group->n_unpriced > 0) {
            report_wrap(style->file, 2, "left out",
                        sp_format(arena, "%d line%s of %s: %s", group->n_unpriced, sp_plural(group->n_unpriced),
                                  group->name, group->unpriced));
        }
    }
    for (size_t i = 0; i < calibration->advice.count; i++) {
        report_wrap(style->file, 2, "next    ", calibration->advice.items[i]);
    }
}

void report_calibration_table(const struct report_style *style, struct sp_arena *arena,
                              const struct report_calibration *report)
{
    const struct calibration *calibration = report->calibration;
    struct report_grid groups = group_grid(arena, calibration);
    struct report_grid curves = curve_grid(arena, calibration);
    report_wrap(style->file, 0, calibration->before->title, calibration->source);
    (void)fputc('\n', style->file);
    report_grid_print(style, &groups);
    (void)fputc('\n', style->file);
    report_grid_print(style, &curves);
    (void)fputc('\n', style->file);
    print_remarks(style, arena, calibration);
}

/* ---- any format ------------------------------------------------------------------------------------------------- */

static void write_csv(const struct report_style *style, struct sp_arena *arena, const struct sp_json *tree)
{
    const struct sp_json *curves = sp_json_member(tree, "curves");
    const struct sp_json **rows = sp_arena_array(arena, (size_t)curves->count + 1, sizeof(*rows));
    int n = 0;
    for (const struct sp_json *curve = curves->first; curve != NULL; curve = curve->next) {
        rows[n++] = curve;
    }
    report_csv_write(arena, rows, n, style->file);
}

void report_calibration(const struct report_style *style, struct sp_arena *arena,
                        const struct report_calibration *report)
{
    switch (style->format) {
    case REPORT_JSON:
        report_tree_write(report_calibration_tree(arena, report), style->file);
        return;
    case REPORT_CSV:
        write_csv(style, arena, report_calibration_tree(arena, report));
        return;
    case REPORT_TABLE:
    case REPORT_MARKDOWN:
        break;
    }
    report_calibration_table(style, arena, report);
}
