/* Attention by thread blocks: the cycles are the kernel's own, the clock is the machine's. Where a kernel's entry says how it
 * cuts its work, the power that its products draw is fitted again, pass by pass, and with it the clock that the limit
 * leaves (docs/model.md, eq. 29). */
#include "fit/fit_internal.h"

#include <math.h>
#include <string.h>

enum { FEWEST_CALLS = 5 };

/* Lines of one (pass, head dimension), and a machine whose figure can be turned. */
struct turned {
    struct sp_arena *arena;
    struct fit_machine machine;
    struct hardware_spec hardware;
    struct attention_tiling *tiling; /* of that machine */
    const struct measurement **lines;
    int n;
};

static double log_time_of(const void *user, int point, const double *p)
{
    const struct turned *turned = user;
    struct sp_error err;
    double seconds = 0;
    turned->tiling->power.value = exp(p[0]);
    bool is_priced = fit_predict(turned->arena, &turned->machine, turned->lines[point], &seconds, &err);
    return is_priced ? log(seconds) : (double)NAN;
}

static bool is_of(const struct measurement *line, const struct attention_tiling *tiling)
{
    struct attention_point point;
    struct sp_error err;
    const char *pass = fit_text_or_none(line, "pass");
    return line->group == MEASUREMENT_ATTENTION && attention_point_read(line, &point, &err) &&
           strcmp(pass, tiling->is_backward ? "backward" : "forward") == 0 &&
           fabs(point.head_dim - (double)tiling->head_dim) < 0.5;
}

/* The machine of the file, with a tiling of its own to turn. False: the kernel's entry has none of that number. */
static bool turn(struct calibration_work *work, int number, struct turned *turned)
{
    struct sp_error err;
    turned->arena = work->arena;
    if (!hardware_from_json(work->arena, work->request->name, work->file, &turned->hardware, &err)) {
        return false; /* calibrate() reads the whole file again, and says what is wrong with it */
    }
    struct gpu_spec *gpu = &turned->hardware.gpu;
    struct attention_curve *curves = sp_arena_array(work->arena, (size_t)gpu->n_attention, sizeof(*curves));
    memcpy(curves, gpu->attention, (size_t)gpu->n_attention * sizeof(*curves));
    gpu->attention = curves;
    turned->machine = (struct fit_machine){&turned->hardware, work->request->kernel};
    for (int i = 0; i < gpu->n_attention; i++) {
        if (strcmp(curves[i].kernel, work->request->kernel) == 0 && number < curves[i].n_tilings) {
            size_t n = (size_t)curves[i].n_tilings;
            struct attention_tiling *tilings = sp_arena_array(work->arena, n, sizeof(*tilings));
            memcpy(tilings, curves[i].tilings, n * sizeof(*tilings));
            curves[i].tilings = tilings;
            turned->tiling = &tilings[number];
            return true;
        }
    }
    return false;
}

static const struct sp_json *array_with(struct sp_arena *arena, const struct sp_json *array, int at,
                                        const struct sp_json *value)
{
    struct sp_json *changed = json_new(arena, SP_JSON_ARRAY);
    int i = 0;
    for (const struct sp_json *item = array->first; item != NULL; item = item->next, i++) {
        json_add(arena, changed, NULL, i == at ? value : item);
    }
    return changed;
}

static const struct sp_json *item_at(const struct sp_json *array, int at)
{
    const struct sp_json *item = array->first;
    while (at-- > 0) {
        item = item->next;
    }
    return item;
}

/* The kernel's entry that has tiles; -1: none. */
static int tiled_entry(const struct calibration_work *work)
{
    int at = 0;
    for (const struct sp_json *entry = json_at(work->file, "gpu.attention")->first; entry != NULL;
         entry = entry->next, at++) {
        if (strcmp(sp_json_member(entry, "kernel")->string, work->request->kernel) == 0 &&
            sp_json_member(entry, "tiles") != NULL) {
            return at;
        }
    }
    return -1;
}

/* The figure lies in a list in a list: "attention[2].tiles.passes[0].figures.power". */
static void write_power(struct calibration_work *work, int number, const struct calibration_parameter *power)
{
    struct sp_arena *arena = work->arena;
    int at = tiled_entry(work);
    const struct sp_json *entries = json_at(work->file, "gpu.attention");
    const struct sp_json *entry = item_at(entries, at);
    const struct sp_json *passes = json_at(entry, "tiles.passes");
    const struct sp_json *pass = item_at(passes, number);
    const struct sp_json *figure = calibration_figure_json(
        work, power, "at the power limit of the machine: only the clock that it leaves is seen");
    pass = json_with_at(arena, pass, "figures.power", figure);
    entry = json_with_at(arena, entry, "tiles.passes", array_with(arena, passes, number, pass));
    work->file = json_with_at(arena, work->file, "gpu.attention", array_with(arena, entries, at, entry));
}

/* What calls through the thread blocks differ by, over all that were fitted. */
struct pooled {
    double squares;
    int n;
};

static void fit_power(struct calibration_work *work, int number, struct turned *turned, struct pooled *pooled)
{
    static const char *const names[] = {"power of the products"};
    double *log_y = sp_arena_array(work->arena, work->n_lines + 1, sizeof(*log_y));
    turned->lines = sp_arena_array(work->arena, work->n_lines + 1, sizeof(const struct measurement *));
    for (size_t i = 0; i < work->n_lines; i++) {
        if (is_of(work->lines[i], turned->tiling)) {
            log_y[turned->n] = log(work->lines[i]->median_s);
            turned->lines[turned->n++] = work->lines[i];
        }
    }
    if (turned->n < FEWEST_CALLS) {
        return;
    }
    struct calibration_curve *curve = calibration_curve_add(
        work, MEASUREMENT_ATTENTION,
        sp_format(work->arena, "clock of attention %s, heads of %lld",
                  turned->tiling->is_backward ? "backward" : "forward", (long long)turned->tiling->head_dim));
    const struct curve_model model = {1, log_time_of, turned, names};
    const struct curve_points_measured points = {.n = turned->n, .log_y = log_y};
    struct curve_fit fit = {.p = {log(turned->tiling->power.value)}};
    struct sp_error err = {.kind = SP_ERROR_NONE};
    curve->n_points = turned->n;
    if (!curve_fit_run(work->arena, &model, &points, &fit, &err)) {
        curve->reason = sp_strdup(work->arena, err.text);
        curve->advice = "longer calls, which reach the power limit: seqplan measure --full --only attention";
        return;
    }
    struct calibration_parameter power =
        calibration_parameter_log("power of the products", fit.p[0], curve_fit_deviation(&fit, 0), fit.freedom);
    power.dimension = SP_WATT;
    curve->model = "thread blocks";
    curve->spread = fit.sigma;
    curve->n_outliers = fit.n_outliers;
    calibration_parameter_add(curve, &power);
    if (!calibration_curve_holds(work->arena, curve)) {
        return;
    }
    write_power(work, number, &power);
    pooled->squares += fit.sigma * fit.sigma * turned->n;
    pooled->n += turned->n;
}

/* Where thread blocks price the calls, the entry's spread is theirs and not that of its rows. */
static void write_spread(struct calibration_work *work, const struct pooled *pooled)
{
    int at = tiled_entry(work);
    const struct sp_json *entries = json_at(work->file, "gpu.attention");
    const struct sp_json *spread = json_number(work->arena, json_rounded(sqrt(pooled->squares / pooled->n), 3));
    const struct sp_json *entry = json_with(work->arena, item_at(entries, at), "spread", spread);
    work->file = json_with_at(work->arena, work->file, "gpu.attention", array_with(work->arena, entries, at, entry));
}

void calibrate_tiles(struct calibration_work *work)
{
    struct pooled pooled = {0};
    struct turned turned = {.n = 0};
    for (int number = 0; tiled_entry(work) >= 0 && turn(work, number, &turned); number++) {
        fit_power(work, number, &turned, &pooled);
        turned = (struct turned){.n = 0};
    }
    if (pooled.n > 0) {
        write_spread(work, &pooled);
    }
}
