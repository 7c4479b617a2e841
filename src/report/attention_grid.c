/* --only attention: one layer's attention, its passes side by side. */
#include "report/report.h"

#include <string.h>

static const double MS = 1e-3;
static const double MB = 1e6;
static const double TERA = 1e12;

/* Of one pass. */
struct pass_sums {
    double attention_s, imbalance_s, exposed_s;
    double flop;
    double sent_bytes, link_s;
};

enum { N_PASSES = 2, TOTAL_COLUMN = 3, N_COLUMNS = 4 };

static void add_row(struct pass_sums *sums, const struct operator_row *row)
{
    double time_s = row->count * row->time_s;
    sums->attention_s += row->item == TIME_ATTENTION ? time_s : 0.0;
    sums->imbalance_s += row->item == TIME_IMBALANCE ? time_s : 0.0;
    sums->exposed_s += row->item == TIME_SP_EXPOSED ? time_s : 0.0;
    sums->flop += row->count * row->flop;
    sums->sent_bytes += row->count * row->sent_bytes;
    sums->link_s += row->count * row->link_s;
}

static double total_s(const struct pass_sums *sums)
{
    return sums->attention_s + sums->imbalance_s + sums->exposed_s;
}

static double flop_rate(const struct pass_sums *sums)
{
    double time_s = total_s(sums);
    return time_s > 0.0 ? sums->flop / time_s : 0.0;
}

/* One figure of both passes and, where they add up, of their sum. */
struct line {
    const char *name;
    double values[N_PASSES];
    double total;
};

static void add_line(struct report_grid *grid, const struct line *line, double largest)
{
    report_grid_add(grid);
    report_grid_text(grid, 0, "%s", line->name);
    for (int i = 0; i < N_PASSES; i++) {
        report_grid_text(grid, i + 1, "%s", report_fixed(grid->arena, line->values[i], largest));
    }
    report_grid_text(grid, TOTAL_COLUMN, "%s", report_fixed(grid->arena, line->total, largest));
}

struct report_grid report_attention_grid(struct sp_arena *arena, const struct estimate *estimate)
{
    static const struct report_column columns[N_COLUMNS] = {{.heading = "attention of one layer"},
                                                            {.heading = "forward", .is_right = true},
                                                            {.heading = "backward", .is_right = true},
                                                            {.heading = "both", .is_right = true}};
    struct pass_sums passes[N_PASSES] = {{.flop = 0.0}};
    struct pass_sums both = {.flop = 0.0};
    for (int i = 0; i < estimate->n_operators; i++) {
        const struct operator_row *row = &estimate->operators[i];
        add_row(&passes[row->pass == STEP_FORWARD ? 0 : 1], row);
        add_row(&both, row);
    }
    const struct pass_sums *f = &passes[0];
    const struct pass_sums *b = &passes[1];
    const struct line lines[] = {
        {"attention ms", {f->attention_s / MS, b->attention_s / MS}, both.attention_s / MS},
        {"imbalance ms", {f->imbalance_s / MS, b->imbalance_s / MS}, both.imbalance_s / MS},
        {"exposed ms", {f->exposed_s / MS, b->exposed_s / MS}, both.exposed_s / MS},
        {"total ms", {total_s(f) / MS, total_s(b) / MS}, total_s(&both) / MS},
        {"on the link ms", {f->link_s / MS, b->link_s / MS}, both.link_s / MS},
        {"sent by a GPU MB", {f->sent_bytes / MB, b->sent_bytes / MB}, both.sent_bytes / MB},
        {"TFLOP/s per GPU", {flop_rate(f) / TERA, flop_rate(b) / TERA}, flop_rate(&both) / TERA},
    };
    enum { N_TIMES = 5 };
    struct report_grid grid;
    report_grid_init(&grid, arena, columns, N_COLUMNS);
    for (size_t i = 0; i < SP_COUNT_OF(lines); i++) {
        double largest = i < N_TIMES ? total_s(&both) / MS : lines[i].total;
        if (lines[i].total > 0.0) {
            add_line(&grid, &lines[i], largest);
        }
    }
    return grid;
}
