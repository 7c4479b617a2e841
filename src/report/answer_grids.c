#include "report/report.h"

#include <math.h>
#include <string.h>

static const double GIB = 0x1p30;
static const double MB = 1e6;

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

const char *report_fit_text(struct sp_arena *arena, const struct estimate *estimate)
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

const char *report_step_text(struct sp_arena *arena, const struct estimate *estimate)
{
    static const double second = 1;
    static const double millisecond = 1e-3;
    const char *step = report_step_time(arena, estimate->step_time_s);
    if (estimate->step_time_low_s <= 0) {
        return step;
    }
    double unit = estimate->step_time_s < second ? millisecond : second;
    if (estimate->step_time_s < millisecond) {
        return sp_format(arena, "%s (%s-%s)", step, report_step_time(arena, estimate->step_time_low_s),
                         report_step_time(arena, estimate->step_time_high_s));
    }
    return sp_format(arena, "%s (%s-%s)", step, report_three(arena, estimate->step_time_low_s / unit),
                     report_three(arena, estimate->step_time_high_s / unit));
}

void report_headline(struct sp_arena *arena, const struct answer *answer, struct report_headline *headline)
{
    const struct estimate *estimate = answer->estimate;
    const char *stage = "";
    if (answer->question->layout.pp > 1) {
        stage = sp_format(arena, "stage %lld, ", (long long)estimate->peak_stage + 1);
    }
    *headline = (struct report_headline){
        .step =
            {
                report_step_text(arena, estimate),
                sp_format(arena, "%s tokens/s/GPU", report_three(arena, estimate->tokens_per_s_per_gpu)),
                sp_format(arena, "MFU %s %%  HFU %s %%", report_percent(arena, estimate->mfu_frac),
                          report_percent(arena, estimate->hfu_frac)),
                sp_format(arena, "bound: %s", report_words(arena, estimate->bound)),
            },
        .memory =
            {
                sp_format(arena, "%s of %s GiB", gib(arena, estimate->peak_bytes),
                          gib(arena, estimate->capacity_bytes)),
                report_fit_text(arena, estimate),
                sp_format(arena, "peak: %s%s", stage, report_words(arena, moment_names[estimate->peak_moment])),
                "",
            },
    };
}

/* ---- tables ----------------------------------------------------------------------------------------------------- */

/* Whole percent: the seconds beside it have the digits. */
static const char *share_text(struct sp_arena *arena, double frac)
{
    enum { PERCENT = 100 };
    return frac * PERCENT < 0.5 ? "<1" : sp_format(arena, "%.0f", frac * PERCENT);
}

struct report_grid report_time_grid(struct sp_arena *arena, const struct estimate *estimate)
{
    static const struct report_column seconds[] = {
        {.heading = "time"}, {.heading = "s", .is_right = true}, {.heading = "%", .is_right = true}};
    static const struct report_column milliseconds[] = {
        {.heading = "time"}, {.heading = "ms", .is_right = true}, {.heading = "%", .is_right = true}};
    bool is_short = estimate->step_time_s < 1.0;
    double unit = is_short ? 1e-3 : 1.0;
    double largest = largest_of(estimate->time_s, N_TIME_ITEMS) / unit;
    struct report_grid grid;
    report_grid_init(&grid, arena, is_short ? milliseconds : seconds, (int)SP_COUNT_OF(seconds));
    for (int i = 0; i < (int)N_TIME_ITEMS; i++) {
        if (estimate->time_s[i] > 0.0) {
            report_grid_add(&grid);
            report_grid_text(&grid, 0, "%s", report_words(arena, time_names[i]));
            report_grid_text(&grid, 1, "%s", report_fixed(arena, estimate->time_s[i] / unit, largest));
            report_grid_text(&grid, 2, "%s", share_text(arena, estimate->time_s[i] / estimate->step_time_s));
        }
    }
    return grid;
}

/* Three tables share a line: long names are cut. */
static const char *memory_label(struct sp_arena *arena, enum memory_item item)
{
    if (item == MEMORY_COMMUNICATION_BUFFERS) {
        return "comm buffers";
    }
    return item == MEMORY_ATTENTION_BUFFERS ? "attn buffers" : report_words(arena, memory_names[item]);
}

struct report_grid report_memory_grid(struct sp_arena *arena, const struct estimate *estimate)
{
    static const struct report_column columns[] = {{.heading = "memory"}, {.heading = "GiB", .is_right = true}};
    double largest = largest_of(estimate->memory_bytes, N_MEMORY_ITEMS) / GIB;
    struct report_grid grid;
    report_grid_init(&grid, arena, columns, (int)SP_COUNT_OF(columns));
    for (int i = 0; i < (int)N_MEMORY_ITEMS; i++) {
        if (estimate->memory_bytes[i] > 0.0) {
            report_grid_add(&grid);
            report_grid_text(&grid, 0, "%s", memory_label(arena, (enum memory_item)i));
            report_grid_text(&grid, 1, "%s", report_fixed(arena, estimate->memory_bytes[i] / GIB, largest));
        }
    }
    return grid;
}

/* A link time of zero hides nothing and shows nothing. */
static const char *hidden_text(struct sp_arena *arena, double time_s, double exposed_s)
{
    if (!(time_s > 0.0)) {
        return "-";
    }
    enum { PERCENT = 100 };
    return sp_format(arena, "%.0f %%", fmax(1.0 - exposed_s / time_s, 0.0) * PERCENT);
}

static bool is_same_number(double a, double b)
{
    return !(a < b) && !(a > b);
}

/* The row of the recomputation that repeats this forward one, or NULL. */
static const struct communication_row *repetition_of(const struct estimate *estimate,
                                                     const struct communication_row *forward)
{
    for (int i = 0; i < estimate->n_communications && forward->pass == STEP_FORWARD; i++) {
        const struct communication_row *row = &estimate->communications[i];
        if (row->pass == STEP_RECOMPUTE && row->axis == forward->axis &&
            strcmp(row->operation, forward->operation) == 0 &&
            is_same_number(row->bytes_per_layer, forward->bytes_per_layer)) {
            return row;
        }
    }
    return NULL;
}

static bool is_repetition(const struct estimate *estimate, const struct communication_row *row)
{
    for (int i = 0; i < estimate->n_communications; i++) {
        if (repetition_of(estimate, &estimate->communications[i]) == row) {
            return true;
        }
    }
    return false;
}

static void add_communication(struct report_grid *grid, const struct communication_row *row,
                              const struct communication_row *repetition)
{
    static const char *const passes[] = {
        [STEP_FORWARD] = "fwd", [STEP_BACKWARD] = "bwd", [STEP_RECOMPUTE] = "rec", [STEP_OPTIMIZER] = "opt"};
    struct sp_arena *arena = grid->arena;
    const char *pass = repetition == NULL ? passes[row->pass] : "fwd+rec";
    double time_s = row->time_s + (repetition == NULL ? 0.0 : repetition->time_s);
    double exposed_s = row->exposed_s + (repetition == NULL ? 0.0 : repetition->exposed_s);
    report_grid_add(grid);
    report_grid_text(grid, 0, "%s %s %s", report_axis_names[row->axis], row->operation, pass);
    report_grid_text(grid, 1, "%s", report_three(arena, row->bytes_per_layer / MB));
    report_grid_text(grid, 2, "%s", report_tier_title(row->tier));
    report_grid_text(grid, 3, "%s", hidden_text(arena, time_s, exposed_s));
}

struct report_grid report_communication_grid(struct sp_arena *arena, const struct estimate *estimate)
{
    static const struct report_column columns[] = {{.heading = "communication"},
                                                   {.heading = "MB/layer", .is_right = true},
                                                   {.heading = "link"},
                                                   {.heading = "hidden", .is_right = true}};
    static const enum axis axes[] = {AXIS_CP, AXIS_TP, AXIS_EP, AXIS_PP, AXIS_DP};
    struct report_grid grid;
    report_grid_init(&grid, arena, columns, (int)SP_COUNT_OF(columns));
    for (size_t axis = 0; axis < SP_COUNT_OF(axes); axis++) {
        for (int i = 0; i < estimate->n_communications; i++) {
            const struct communication_row *row = &estimate->communications[i];
            if (row->axis == axes[axis] && row->bytes_per_layer > 0.0 && !is_repetition(estimate, row)) {
                add_communication(&grid, row, repetition_of(estimate, row));
            }
        }
    }
    return grid;
}
