#include "report/report.h"

#include <string.h>

static const double GIB = 0x1p30;
static const double MB = 1e6;

/* "peak_moment" -> "peak moment" */
static const char *words(struct sp_arena *arena, const char *name)
{
    char *text = sp_strdup(arena, name);
    for (char *at = text; *at != '\0'; at++) {
        *at = *at == '_' ? ' ' : *at;
    }
    return text;
}

static double largest_of(const double *values, int n_values)
{
    double largest = 0.0;
    for (int i = 0; i < n_values; i++) {
        largest = values[i] > largest ? values[i] : largest;
    }
    return largest;
}

static const char *gib(struct sp_arena *arena, double bytes)
{
    return report_three(arena, bytes / GIB);
}

/* ---- headline --------------------------------------------------------------------------------------------------- */

static const char *fit_text(struct sp_arena *arena, const struct estimate *estimate)
{
    if (estimate->fits) {
        return sp_format(arena, "fits, %s GiB left", gib(arena, estimate->headroom_bytes));
    }
    if (estimate->headroom_bytes < 0.0) {
        return sp_format(arena, "does not fit, %s GiB over", gib(arena, -estimate->headroom_bytes));
    }
    return sp_format(arena, "does not fit: host memory %s of %s GiB", gib(arena, estimate->host_bytes),
                     gib(arena, estimate->host_capacity_bytes));
}

void report_headline(struct sp_arena *arena, const struct answer *answer, struct report_headline *headline)
{
    const struct estimate *estimate = answer->estimate;
    const char *stage = "";
    if (answer->question->layout.pp > 1) {
        stage = sp_format(arena, "stage %lld, ", (long long)(estimate->peak_stage + 1));
    }
    *headline = (struct report_headline){
        .step =
            {
                sp_quantity_print(arena, estimate->step_time_s, SP_SECONDS),
                sp_format(arena, "%s tokens/s/GPU", report_three(arena, estimate->tokens_per_s_per_gpu)),
                sp_format(arena, "MFU %s %%  HFU %s %%", report_percent(arena, estimate->mfu_frac),
                          report_percent(arena, estimate->hfu_frac)),
                sp_format(arena, "bound: %s", words(arena, estimate->bound)),
            },
        .memory =
            {
                sp_format(arena, "%s of %s GiB", gib(arena, estimate->peak_bytes),
                          gib(arena, estimate->capacity_bytes)),
                fit_text(arena, estimate),
                sp_format(arena, "peak: %s%s", stage, words(arena, moment_names[estimate->peak_moment])),
                "",
            },
    };
}

/* ---- tables ----------------------------------------------------------------------------------------------------- */

struct report_grid report_time_grid(struct sp_arena *arena, const struct estimate *estimate)
{
    static const struct report_column seconds[] = {{.heading = "time"},
                                                   {.heading = "s", .is_right = true},
                                                   {.heading = "%", .is_right = true}};
    static const struct report_column milliseconds[] = {{.heading = "time"},
                                                        {.heading = "ms", .is_right = true},
                                                        {.heading = "%", .is_right = true}};
    bool is_short = estimate->step_time_s < 1.0;
    double unit = is_short ? 1e-3 : 1.0;
    double largest = largest_of(estimate->time_s, N_TIME_ITEMS) / unit;
    struct report_grid grid;
    report_grid_init(&grid, arena, is_short ? milliseconds : seconds, (int)SP_COUNT_OF(seconds));
    for (int i = 0; i < (int)N_TIME_ITEMS; i++) {
        if (estimate->time_s[i] > 0.0) {
            report_grid_add(&grid);
            report_grid_text(&grid, 0, "%s", words(arena, time_names[i]));
            report_grid_text(&grid, 1, "%s", report_fixed(arena, estimate->time_s[i] / unit, largest));
            report_grid_text(&grid, 2, "%s", report_percent(arena, estimate->time_s[i] / estimate->step_time_s));
        }
    }
    return grid;
}

struct report_grid report_memory_grid(struct sp_arena *arena, const struct estimate *estimate)
{
    static const struct report_column columns[] = {{.heading = "memory"}, {.heading = "GiB", .is_right = true}};
    double largest = largest_of(estimate->memory_bytes, N_MEMORY_ITEMS) / GIB;
    struct report_grid grid;
    report_grid_init(&grid, arena, columns, (int)SP_COUNT_OF(columns));
    for (int i = 0; i < (int)N_MEMORY_ITEMS; i++) {
        if (estimate->memory_bytes[i] > 0.0) {
            bool is_long = i == (int)MEMORY_COMMUNICATION_BUFFERS; /* three tables share a line */
            report_grid_add(&grid);
            report_grid_text(&grid, 0, "%s", is_long ? "comm. buffers" : words(arena, memory_names[i]));
            report_grid_text(&grid, 1, "%s", report_fixed(arena, estimate->memory_bytes[i] / GIB, largest));
        }
    }
    return grid;
}

/* A link time of zero hides nothing and shows nothing. */
static const char *hidden_text(struct sp_arena *arena, const struct communication_row *row)
{
    if (!(row->time_s > 0.0)) {
        return "-";
    }
    enum { PERCENT = 100 };
    return sp_format(arena, "%.0f %%", (1.0 - row->exposed_s / row->time_s) * PERCENT);
}

struct report_grid report_communication_grid(struct sp_arena *arena, const struct estimate *estimate)
{
    static const struct report_column columns[] = {{.heading = "communication"},
                                                   {.heading = "MB/layer", .is_right = true},
                                                   {.heading = "link"},
                                                   {.heading = "hidden", .is_right = true}};
    static const char *const passes[] = {
        [STEP_FORWARD] = "fwd", [STEP_BACKWARD] = "bwd", [STEP_RECOMPUTE] = "rec", [STEP_OPTIMIZER] = "opt"};
    struct report_grid grid;
    report_grid_init(&grid, arena, columns, (int)SP_COUNT_OF(columns));
    for (int i = 0; i < estimate->n_communications; i++) {
        const struct communication_row *row = &estimate->communications[i];
        report_grid_add(&grid);
        report_grid_text(&grid, 0, "%s %s %s", report_axis_names[row->axis], row->operation, passes[row->pass]);
        report_grid_text(&grid, 1, "%s", report_three(arena, row->bytes_per_layer / MB));
        report_grid_text(&grid, 2, "%s", report_tier_title(row->tier));
        report_grid_text(&grid, 3, "%s", hidden_text(arena, row));
    }
    return grid;
}
