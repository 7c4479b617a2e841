/* Clocks: what long calls ran at while the power limit held them. Rates and clocks belong together, for inside a step both
 * move (docs/model.md, "The clock of a step"); a file without clocks gets none. */
#include "fit/fit_internal.h"

#include <math.h>
#include <string.h>

static const double LONG_CALL_S = 1e-3; /* a shorter one may end before the clock has fallen */
enum { FEWEST_CALLS = 5, FEWEST_OF_A_KIND = 2, CLOCK_DIGITS = 4, MASKS = 2, PASSES = 2, N_KINDS = MASKS * PASSES };

static bool is_held(const struct measurement *line)
{
    return line->sm_clock_hz > 0 && line->median_s >= LONG_CALL_S && strcmp(line->throttle, "power") == 0;
}

static bool has_clocks(const struct calibration_work *work)
{
    return json_at(work->file, "gpu.max_clock") != NULL;
}

/* ---- matrix products -------------------------------------------------------------------------------------------- */

void calibrate_gemm_clock(struct calibration_work *work)
{
    double *clocks = sp_arena_array(work->arena, work->n_lines + 1, sizeof(*clocks));
    int n = 0;
    for (size_t i = 0; i < work->n_lines; i++) {
        if (work->lines[i]->group == MEASUREMENT_GEMM && is_held(work->lines[i])) {
            clocks[n++] = log(work->lines[i]->sm_clock_hz);
        }
    }
    if (n < FEWEST_CALLS || !has_clocks(work)) {
        return;
    }
    struct calibration_curve *curve =
        calibration_curve_add(work, MEASUREMENT_GEMM, "clock of matrix products at the power limit");
    struct robust_mean mean = robust_mean_of(work->arena, clocks, n);
    struct calibration_parameter clock = calibration_parameter_log("clock", mean.value, mean.deviation, mean.freedom);
    clock.dimension = SP_HERTZ;
    curve->model = "mean";
    curve->n_points = n;
    curve->spread = mean.sigma;
    calibration_parameter_add(curve, &clock);
    calibration_figure_set(work, "gpu.gemm.clock", &clock, "mean over calls of 1 ms and more, held at the power limit");
}

/* ---- attention -------------------------------------------------------------------------------------------------- */

struct clock_kind {
    bool is_backward, is_causal;
    int64_t head_dim;
};

static void add_row(const struct calibration_work *work, const struct clock_kind *kind, struct sp_json *rows)
{
    static const char *const passes[] = {"forward", "backward"};
    static const char *const masks[] = {"full", "causal"};
    struct sp_arena *arena = work->arena;
    double *clocks = sp_arena_array(arena, work->n_lines + 1, sizeof(*clocks));
    int n = 0;
    for (size_t i = 0; i < work->n_lines; i++) {
        struct attention_point point;
        if (attention_point_is_plain(work->lines[i], &point) && is_held(work->lines[i]) &&
            point.is_backward == kind->is_backward && point.is_causal == kind->is_causal &&
            (int64_t)point.head_dim == kind->head_dim) {
            clocks[n++] = work->lines[i]->sm_clock_hz;
        }
    }
    if (n < FEWEST_OF_A_KIND) {
        return;
    }
    struct sp_json *row = json_new(arena, SP_JSON_ARRAY);
    json_add(arena, row, NULL, json_text(arena, passes[kind->is_backward]));
    json_add(arena, row, NULL, json_text(arena, masks[kind->is_causal]));
    json_add(arena, row, NULL, json_number(arena, (double)kind->head_dim));
    json_add(arena, row, NULL, json_number(arena, json_rounded(median_of(arena, clocks, n), CLOCK_DIGITS)));
    json_add(arena, rows, NULL, row);
}

const struct sp_json *calibration_attention_clocks(struct calibration_work *work, const int64_t *head_dims, int n)
{
    static const char *const columns[] = {"pass", "mask", "head_dim", "clock_hz"};
    struct sp_arena *arena = work->arena;
    struct sp_json *rows = json_new(arena, SP_JSON_ARRAY);
    for (int i = 0; i < n * N_KINDS; i++) {
        const struct clock_kind kind = {i / MASKS % PASSES != 0, i % MASKS != 0, head_dims[i / N_KINDS]};
        add_row(work, &kind, rows);
    }
    if (rows->count == 0 || !has_clocks(work)) {
        return NULL;
    }
    struct sp_json *clock = json_new(arena, SP_JSON_OBJECT);
    struct sp_json *names = json_new(arena, SP_JSON_ARRAY);
    for (size_t i = 0; i < SP_COUNT_OF(columns); i++) {
        json_add(arena, names, NULL, json_text(arena, columns[i]));
    }
    json_add(arena, clock, "source", json_text(arena, work->out->source));
    json_add(
        arena, clock, "note",
        json_text(arena, "median of the calls of 1 ms and more, held at the power limit, by pass, mask and head_dim"));
    json_add(arena, clock, "columns", names);
    json_add(arena, clock, "rows", rows);
    return clock;
}
