/* How far an answer depends on the machine, for reading. */
#include "report/report.h"

#include <math.h>
#include <string.h>

static const double PERCENT = 100;

const char *report_sensitivity_title(struct sp_arena *arena, const struct hardware_spec *hardware,
                                     enum sensitivity_figure figure)
{
    switch (figure) {
    case SENSITIVITY_HBM_BANDWIDTH:
        return "HBM bandwidth";
    case SENSITIVITY_INTRA:
        return strcmp(hardware->intra.medium, "pcie") == 0 ? "PCIe" : "NVLink";
    case SENSITIVITY_NETWORK:
        return hardware->network.name == NULL ? "network" : sp_format(arena, "network %s", hardware->network.name);
    case SENSITIVITY_FLOP_RATE:
        return "FLOP rate";
    case SENSITIVITY_LATENCY:
        return "latencies";
    case SENSITIVITY_HBM_CAPACITY:
    case N_SENSITIVITIES:
        break;
    }
    return "HBM capacity";
}

/* Latencies are several, and change together. */
static const char *value_text(struct sp_arena *arena, enum sensitivity_figure figure, double value)
{
    static const enum sp_dimension dimensions[N_SENSITIVITIES] = {SP_BYTES_PER_S, SP_BYTES_PER_S, SP_BYTES_PER_S,
                                                                  SP_FLOP_PER_S,  SP_SECONDS,     SP_BYTES};
    bool has_one = figure != SENSITIVITY_LATENCY && value > 0;
    return has_one ? sp_quantity_print(arena, value, dimensions[figure]) : "-";
}

static const char *change_text(struct sp_arena *arena, enum sensitivity_figure figure,
                               const struct sensitivity_change *change)
{
    static const double smallest_frac = 5e-4; /* less is shown as 0.0 % */
    static const double rounding = 1e-9;
    if (figure == SENSITIVITY_HBM_CAPACITY && change->winner < 0) {
        return change->fits ? "fits" : "does not fit";
    }
    if (fabs(change->step_time_frac) < smallest_frac) {
        return fabs(change->step_time_frac) < rounding ? "0" : change->step_time_frac < 0 ? "> -0.1 %" : "< 0.1 %";
    }
    return sp_format(arena, "%+.1f %%", PERCENT * change->step_time_frac);
}

static const char *crossing_text(struct sp_arena *arena, const struct sensitivity *sensitivity,
                                 enum sensitivity_figure figure, bool is_above)
{
    const struct sensitivity_row *row = &sensitivity->rows[figure];
    const struct sensitivity_crossing *crossing = is_above ? &row->above : &row->below;
    if (!crossing->is_found) {
        return crossing->is_bound ? "perhaps: not all layouts were searched" : NULL;
    }
    const char *at = figure == SENSITIVITY_LATENCY ? sp_format(arena, "%s x now", report_three(arena, crossing->factor))
                                                   : value_text(arena, figure, crossing->value);
    const char *winner =
        crossing->winner < 0 ? "nothing fits" : report_winner_text(arena, sensitivity, crossing->winner);
    return sp_format(arena, "%s %s%s: %s", is_above ? "above" : "below", at, crossing->is_bound ? " or sooner" : "",
                     winner);
}

/* A figure of links that nothing uses, as those between nodes within one, is none of this answer. */
static bool is_unused(enum sensitivity_figure figure, const struct sensitivity_row *row)
{
    bool is_of_links = figure == SENSITIVITY_NETWORK || figure == SENSITIVITY_INTRA;
    bool is_flat = !(fabs(row->up.step_time_frac) > 0) && !(fabs(row->down.step_time_frac) > 0);
    return is_of_links && is_flat && !row->above.is_found && !row->below.is_found;
}

enum { FIGURE_COLUMN, NOW_COLUMN, UP_COLUMN, DOWN_COLUMN, BELOW_COLUMN, ABOVE_COLUMN, N_COLUMNS };

static void put_crossing(struct report_grid *grid, int column, const char *text)
{
    if (text != NULL) {
        report_grid_text(grid, column, "%s", text);
    }
}

struct report_grid report_sensitivity_grid(struct sp_arena *arena, const struct hardware_spec *hardware,
                                           const struct sensitivity *sensitivity)
{
    static const struct report_column columns[N_COLUMNS] = {
        [FIGURE_COLUMN] = {.heading = "step time with"},
        [NOW_COLUMN] = {.heading = "now", .is_right = true},
        [UP_COLUMN] = {.heading = "10 % more", .is_right = true},
        [DOWN_COLUMN] = {.heading = "10 % less", .is_right = true},
        [BELOW_COLUMN] = {.heading = "another wins below", .is_note = true, .has_no_label = true},
        [ABOVE_COLUMN] = {.heading = "another wins above", .is_note = true, .has_no_label = true}};
    struct report_grid grid;
    report_grid_init(&grid, arena, columns, N_COLUMNS);
    for (int f = 0; f < N_SENSITIVITIES; f++) {
        enum sensitivity_figure figure = (enum sensitivity_figure)f;
        const struct sensitivity_row *row = &sensitivity->rows[f];
        report_grid_add(&grid);
        report_grid_text(&grid, FIGURE_COLUMN, "%s", report_sensitivity_title(arena, hardware, figure));
        report_grid_text(&grid, NOW_COLUMN, "%s", is_unused(figure, row) ? "-" : value_text(arena, figure, row->value));
        report_grid_text(&grid, UP_COLUMN, "%s", change_text(arena, figure, &row->up));
        report_grid_text(&grid, DOWN_COLUMN, "%s", change_text(arena, figure, &row->down));
        put_crossing(&grid, BELOW_COLUMN, crossing_text(arena, sensitivity, figure, false));
        put_crossing(&grid, ABOVE_COLUMN, crossing_text(arena, sensitivity, figure, true));
    }
    return grid;
}

void report_sensitivity_print(const struct report_style *style, struct sp_arena *arena, const struct answer *answer)
{
    if (answer->sensitivity != NULL) {
        const struct report_grid grid =
            report_sensitivity_grid(arena, &answer->question->hardware, answer->sensitivity);
        (void)fputc('\n', style->file);
        report_grid_print(style, &grid);
    }
}
