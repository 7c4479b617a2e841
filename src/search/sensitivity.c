/* How far an answer depends on the machine: the same layouts on a machine with one figure scaled. */
#include "search/search_internal.h"

#include <assert.h>
#include <math.h>
#include <string.h>

const char *const sensitivity_names[] = {
    "hbm_bandwidth", "intra_bandwidth", "network_bandwidth", "flop_rate", "latency", "hbm_capacity", NULL};
const double sensitivity_change_frac = 0.1;

/* ---- figures ---------------------------------------------------------------------------------------------------- */

struct scaled_field {
    const char *path;
    size_t offset;
};
#define FIELD(name)                                                                                                    \
    {                                                                                                                  \
        .path = #name, .offset = offsetof(struct hardware_spec, name)                                                  \
    }
static const struct scaled_field scaled_fields[N_SENSITIVITIES][MAX_SENSITIVITY_PATHS] = {
    [SENSITIVITY_HBM_BANDWIDTH] = {FIELD(gpu.hbm_bandwidth)},
    [SENSITIVITY_INTRA] = {FIELD(intra.bandwidth)},
    [SENSITIVITY_NETWORK] = {FIELD(network.bandwidth)},
    [SENSITIVITY_FLOP_RATE] = {FIELD(gpu.peak_bf16), FIELD(gpu.peak_fp16), FIELD(gpu.peak_fp8), FIELD(gpu.peak_fp32)},
    [SENSITIVITY_LATENCY] = {FIELD(network.latency), FIELD(intra.latency), FIELD(gpu.kernel_latency),
                             FIELD(gpu.launch_latency)},
    [SENSITIVITY_HBM_CAPACITY] = {FIELD(gpu.hbm_capacity)},
};

const char *sensitivity_path(enum sensitivity_figure figure, int index)
{
    return index < MAX_SENSITIVITY_PATHS ? scaled_fields[figure][index].path : NULL;
}

double sensitivity_value(const struct hardware_spec *hardware, enum sensitivity_figure figure)
{
    for (int i = 0; sensitivity_path(figure, i) != NULL; i++) {
        const char *at = (const char *)hardware + scaled_fields[figure][i].offset;
        double value = ((const struct sp_figure *)(const void *)at)->value;
        if (value > 0) {
            return value;
        }
    }
    return 0;
}

/* Of the FLOP rate the peak that the question's products run at. */
static double figure_value(const struct question *question, enum sensitivity_figure figure)
{
    bool is_fp8 = figure == SENSITIVITY_FLOP_RATE && question->layout.precision == DTYPE_FP8;
    return is_fp8 ? question->hardware.gpu.peak_fp8.value : sensitivity_value(&question->hardware, figure);
}

void sensitivity_scale(struct hardware_spec *hardware, enum sensitivity_figure figure, double factor)
{
    for (int i = 0; sensitivity_path(figure, i) != NULL; i++) {
        char *at = (char *)hardware + scaled_fields[figure][i].offset;
        ((struct sp_figure *)(void *)at)->value *= factor;
    }
}

/* ---- one layout ------------------------------------------------------------------------------------------------- */

static struct sensitivity_change change_of(const struct question *question, enum sensitivity_figure figure,
                                           double factor, double step_time_s)
{
    struct question scaled = *question;
    struct estimate estimate;
    sensitivity_scale(&scaled.hardware, figure, factor);
    step_estimate(&scaled, &estimate);
    return (struct sensitivity_change){
        .step_time_frac = estimate.step_time_s / step_time_s - 1, .fits = estimate.fits, .winner = -1};
}

void sensitivity_of_layout(const struct question *question, struct sensitivity *sensitivity)
{
    struct estimate estimate;
    step_estimate(question, &estimate);
    *sensitivity = (struct sensitivity){.winner = -1};
    for (int f = 0; f < N_SENSITIVITIES; f++) {
        enum sensitivity_figure figure = (enum sensitivity_figure)f;
        sensitivity->rows[f] = (struct sensitivity_row){
            .value = figure_value(question, figure),
            .up = change_of(question, figure, 1 + sensitivity_change_frac, estimate.step_time_s),
            .down = change_of(question, figure, 1 - sensitivity_change_frac, estimate.step_time_s)};
    }
}

/* ---- layouts against each other --------------------------------------------------------------------------------- */

/* The kept layouts, each as a question on today's machine. */
struct contest {
    const struct plan_question *asked;
    const struct plan *plan;
    const struct question *questions;
    struct estimate *estimate; /* of the one being priced */
    enum sensitivity_figure figure;
    int today; /* who wins now */
};

static bool keeps_constraints(const struct plan_question *asked, const struct estimate *estimate)
{
    static const double seconds_per_day = 86400;
    double peak = estimate->peak_bytes;
    double capacity = estimate->capacity_bytes;
    return estimate->fits && (asked->max_memory_bytes <= 0 || peak <= asked->max_memory_bytes) &&
           peak <= capacity - asked->headroom_bytes && peak <= capacity - asked->headroom_frac * capacity &&
           estimate->mfu_frac >= asked->min_mfu_frac &&
           (asked->deadline_s <= 0 || estimate->run_days * seconds_per_day <= asked->deadline_s);
}

/* Less is better. The same global batch everywhere: GPU-seconds of a step rank as the cost of a token does. */
static double objective_of(enum plan_objective objective, const struct plan_layout *layout)
{
    switch (objective) {
    case PLAN_MEMORY:
        return layout->peak_bytes;
    case PLAN_GPUS:
        return (double)layout->gpus;
    case PLAN_COST:
        return (double)layout->gpus * layout->step_time_s;
    case PLAN_THROUGHPUT:
    case N_PLAN_OBJECTIVES:
        break;
    }
    return layout->step_time_s;
}

/* The best of those that keep the constraints with the figure scaled, or -1. */
static int winner_at(const struct contest *contest, double factor, struct plan_layout *best)
{
    int winner = -1;
    struct hardware_spec scaled = contest->questions[0].hardware;
    sensitivity_scale(&scaled, contest->figure, factor);
    for (int i = 0; i < contest->plan->n_kept; i++) {
        struct question question = contest->questions[i];
        question.hardware = scaled;
        step_estimate(&question, contest->estimate);
        struct plan_layout layout = contest->plan->kept[i];
        layout.step_time_s = contest->estimate->step_time_s;
        layout.peak_bytes = contest->estimate->peak_bytes;
        layout.objective = objective_of(contest->asked->objective, &layout);
        bool is_better = winner < 0 || plan_layout_compare(&layout, best) < 0;
        if (is_better && keeps_constraints(contest->asked, contest->estimate)) {
            winner = i;
            *best = layout;
        }
    }
    return winner;
}

/* `near` keeps today's winner, `far` does not. */
static struct sensitivity_crossing bisect(const struct contest *contest, double near, double far)
{
    static const double tolerance = 5e-4; /* three digits */
    struct plan_layout best = {0};
    int found = winner_at(contest, far, &best);
    while (fabs(log(far / near)) > tolerance) {
        double middle = sqrt(near * far);
        int winner = winner_at(contest, middle, &best);
        if (winner == contest->today) {
            near = middle;
        } else {
            far = middle;
            found = winner;
        }
    }
    double value = far * figure_value(&contest->questions[0], contest->figure);
    return (struct sensitivity_crossing){.is_found = true, .factor = far, .value = value, .winner = found};
}

/* Away from 1 in steps, to the first at which another one wins. */
static struct sensitivity_crossing crossing_of(const struct contest *contest, bool is_above)
{
    enum { STEPS = 16, STEPS_PER_OCTAVE = 4 };
    double near = 1;
    struct plan_layout best = {0};
    for (int i = 1; i <= STEPS; i++) {
        double far = exp2((is_above ? 1.0 : -1.0) * i / STEPS_PER_OCTAVE);
        if (winner_at(contest, far, &best) != contest->today) {
            return bisect(contest, near, far);
        }
        near = far;
    }
    return (struct sensitivity_crossing){.is_found = false, .winner = -1};
}

static struct sensitivity_change change_of_plan(const struct contest *contest, double factor)
{
    struct plan_layout best = {0};
    int winner = winner_at(contest, factor, &best);
    double step_time_s = contest->plan->kept[contest->today].step_time_s;
    struct sensitivity_change change =
        change_of(&contest->questions[contest->today], contest->figure, factor, step_time_s);
    if (contest->figure == SENSITIVITY_HBM_CAPACITY && winner >= 0) {
        change.step_time_frac = best.step_time_s / step_time_s - 1;
    }
    change.winner = winner;
    return change;
}

bool sensitivity_of_plan(const struct plan_question *question, const struct plan *plan, struct sp_arena *arena,
                         struct sensitivity *sensitivity, struct sp_error *err)
{
    *sensitivity = (struct sensitivity){.winner = -1, .n_kept = plan->n_kept, .kept = plan->kept};
    struct contest contest = {.asked = question, .plan = plan};
    contest.questions = plan_questions(question, plan->kept, plan->n_kept, arena, err);
    contest.estimate = sp_arena_alloc(arena, sizeof(*contest.estimate));
    if (contest.questions == NULL || plan->n_kept == 0) {
        return contest.questions != NULL;
    }
    struct plan_layout best = {0};
    contest.today = winner_at(&contest, 1, &best);
    sensitivity->winner = contest.today;
    for (int f = 0; f < N_SENSITIVITIES && contest.today >= 0; f++) {
        contest.figure = (enum sensitivity_figure)f;
        sensitivity->rows[f] = (struct sensitivity_row){.value = figure_value(&contest.questions[0], contest.figure),
                                                        .up = change_of_plan(&contest, 1 + sensitivity_change_frac),
                                                        .down = change_of_plan(&contest, 1 - sensitivity_change_frac),
                                                        .above = crossing_of(&contest, true),
                                                        .below = crossing_of(&contest, false)};
    }
    return true;
}
