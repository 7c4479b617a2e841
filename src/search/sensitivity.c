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

static const enum sp_dimension figure_dimensions[N_SENSITIVITIES] = {SP_BYTES_PER_S, SP_BYTES_PER_S, SP_BYTES_PER_S,
                                                                     SP_FLOP_PER_S,  SP_SECONDS,     SP_BYTES};

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

void sensitivity_set(struct request *request, const struct hardware_spec *hardware, enum sensitivity_figure figure,
                     double factor)
{
    for (int i = 0; sensitivity_path(figure, i) != NULL; i++) {
        const char *at = (const char *)hardware + scaled_fields[figure][i].offset;
        const struct sp_figure *field = (const struct sp_figure *)(const void *)at;
        if (field->value > 0) {
            sp_texts_add(&request->set, "%s=%s", sensitivity_path(figure, i),
                         sp_quantity_exact(request->set.arena, field->value * factor, figure_dimensions[figure]));
        }
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

enum { MAX_JOINED = 160, MAX_ROUNDS = 12 };
/* Ranks that the searches on other machines price before crossings are left as bounds: about a second's, and in large spaces
 * about as long as the plan itself took (a rank costs less than half as much there). */
enum { RANKS_AT_LEAST = 65536, RANKS_TIMES = 2 };
static const double most_factor = 16;

/* Layouts, each as a question on today's machine: those that the plan kept, and those that a search of the whole space on
 * another machine has found to win there. */
struct contest {
    const struct plan_question *asked;
    struct sp_arena *arena;
    struct rematch *rematch; /* NULL: only what was kept is looked at */
    int n, capacity;
    struct plan_layout *layouts;
    struct question *questions;
    struct estimate *estimate; /* of the one being priced */
    enum sensitivity_figure figure;
    int today;          /* who wins now */
    int64_t most_ranks; /* that the rematch may price, about */
    bool is_cut;        /* it was not asked any more */
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

/* One of the layouts with the figure scaled; false where it breaks a constraint. */
static bool price_at(const struct contest *contest, int which, double factor, struct plan_layout *priced)
{
    struct question question = contest->questions[which];
    sensitivity_scale(&question.hardware, contest->figure, factor);
    step_estimate(&question, contest->estimate);
    struct step_bound figures = {contest->estimate->step_time_s, contest->estimate->peak_bytes};
    *priced = contest->layouts[which];
    priced->step_time_s = figures.step_time_s;
    priced->peak_bytes = figures.peak_bytes;
    priced->objective = plan_objective_of(contest->asked, &question, figures);
    return keeps_constraints(contest->asked, contest->estimate);
}

/* The best of those that keep the constraints with the figure scaled, or -1. */
static int winner_at(const struct contest *contest, double factor, struct plan_layout *best)
{
    int winner = -1;
    for (int i = 0; i < contest->n; i++) {
        struct plan_layout layout;
        if (price_at(contest, i, factor, &layout) && (winner < 0 || plan_layout_compare(&layout, best) < 0)) {
            winner = i;
            *best = layout;
        }
    }
    return winner;
}

/* Whom a crossing is between: today's winner and all others, or one of them. */
enum { ALL_OTHERS = -1 };
static bool does_today_win(const struct contest *contest, int against, double factor)
{
    struct plan_layout own;
    struct plan_layout other;
    if (against == ALL_OTHERS) {
        return winner_at(contest, factor, &own) == contest->today;
    }
    return price_at(contest, contest->today, factor, &own) &&
           (!price_at(contest, against, factor, &other) || plan_layout_compare(&own, &other) < 0);
}

/* The factors between which today's winner stops winning; far 0: it does not, up to near. */
struct bracket {
    double near, far;
};

static struct bracket bisect(const struct contest *contest, int against, struct bracket between)
{
    static const double tolerance = 5e-4; /* three digits */
    while (fabs(log(between.far / between.near)) > tolerance) {
        double middle = sqrt(between.near * between.far);
        bool is_near = does_today_win(contest, against, middle);
        between.near = is_near ? middle : between.near;
        between.far = is_near ? between.far : middle;
    }
    return between;
}

/* Away from 1 in steps, up to a limit, to the first at which today's winner has lost. */
static struct bracket bracket_of(const struct contest *contest, int against, double limit)
{
    static const double steps_per_octave = 4;
    int n_steps = (int)ceil(fabs(log2(limit)) * steps_per_octave - 1e-9);
    struct bracket between = {.near = 1};
    for (int i = 1; i <= n_steps; i++) {
        double far = i == n_steps ? limit : exp2((limit > 1 ? 1 : -1) * i / steps_per_octave);
        if (!does_today_win(contest, against, far)) {
            between.far = far;
            return bisect(contest, against, between);
        }
        between.near = far;
    }
    return between;
}

/* ---- the whole space against them -------------------------------------------------------------------------------- */

/* A layout joins, on today's machine. Its place; -1 when there are too many. */
static int join(struct contest *contest, const struct plan_layout *found)
{
    for (int i = 0; i < contest->n; i++) {
        if (contest->layouts[i].index == found->index && contest->layouts[i].gpus == found->gpus) {
            return i;
        }
    }
    if (contest->n == contest->capacity) {
        return -1;
    }
    int at = contest->n++;
    contest->questions[at] = *found->base;
    contest->questions[at].layout = found->layout;
    contest->layouts[at] = *found;
    struct estimate *estimate = contest->estimate;
    step_estimate(&contest->questions[at], estimate);
    contest->layouts[at].step_time_s = estimate->step_time_s;
    contest->layouts[at].peak_bytes = estimate->peak_bytes;
    contest->layouts[at].objective = plan_objective_of(
        contest->asked, &contest->questions[at], (struct step_bound){estimate->step_time_s, estimate->peak_bytes});
    return at;
}

/* The best on that machine of all that is asked for: where nothing of the contest keeps the constraints there, a larger
 * cluster may, which the plan did not come to. */
static int search_anew(struct contest *contest, double factor)
{
    struct plan_question asked = *contest->asked;
    struct plan *plan = sp_arena_alloc(contest->arena, sizeof(*plan));
    struct sp_error ignored = {.kind = SP_ERROR_NONE}; /* the inputs were read before */
    struct sp_texts set = asked.request.set;
    asked.request.set = (struct sp_texts){.arena = contest->arena};
    for (size_t i = 0; i < set.count; i++) {
        sp_texts_add(&asked.request.set, "%s", set.items[i]);
    }
    sensitivity_set(&asked.request, &contest->questions[0].hardware, contest->figure, factor);
    asked.effort = PLAN_RANKED;
    asked.progress = NULL;
    asked.n_top = asked.n_kept = 1;
    bool is_found = plan_search(&asked, contest->arena, plan, &ignored) && plan->n_layouts > 0;
    if (!is_found) {
        return -1;
    }
    const struct question *questions = plan_questions(contest->asked, plan->kept, 1, contest->arena, &ignored);
    struct plan_layout found = plan->kept[0];
    found.base = questions;
    return questions == NULL ? -1 : join(contest, &found);
}

/* Whether some layout of the space wins there against all of the contest; it joins then. */
static int challenge(struct contest *contest, double factor)
{
    struct plan_layout best;
    struct plan_layout found;
    if (contest->rematch == NULL) {
        return -1;
    }
    bool is_stopped = contest->asked->is_stopped != NULL && contest->asked->is_stopped();
    if (is_stopped || rematch_ranks(contest->rematch) > contest->most_ranks) {
        contest->is_cut = true;
        return -1;
    }
    int winner = winner_at(contest, factor, &best);
    if (winner < 0 && contest->asked->objective == PLAN_GPUS) {
        return search_anew(contest, factor);
    }
    struct rematch_call call = {contest->figure, factor, winner >= 0 ? &best : NULL, 0};
    return rematch_find(contest->rematch, &call, &found) ? join(contest, &found) : -1;
}

/* Of more memory: what is faster and needs the least of it. */
static int challenge_of_memory(struct contest *contest)
{
    struct plan_layout found;
    bool is_of_time = contest->asked->objective == PLAN_THROUGHPUT;
    const struct plan_layout *today = &contest->layouts[contest->today];
    struct rematch_call call = {contest->figure, most_factor, NULL, today->step_time_s};
    bool is_found = contest->rematch != NULL && is_of_time && rematch_find(contest->rematch, &call, &found);
    return is_found ? join(contest, &found) : -1;
}

/* Where today's winner stops winning against the contest, then against what a search finds to win there: once nothing is
 * found just before, nothing of the space wins there. */
static struct bracket settle(struct contest *contest, bool is_above)
{
    double limit = is_above ? most_factor : 1 / most_factor;
    struct bracket between = bracket_of(contest, ALL_OTHERS, limit);
    int found = is_above && contest->figure == SENSITIVITY_HBM_CAPACITY ? challenge_of_memory(contest) : -1;
    for (int round = 0; round < MAX_ROUNDS; round++) {
        found = found >= 0 ? found : challenge(contest, between.far > 0 ? between.near : limit);
        if (found < 0) {
            return between;
        }
        double until = between.far > 0 ? between.far : limit;
        struct bracket sooner = bracket_of(contest, found, until);
        between = sooner.far > 0 ? sooner : between;
        found = -1;
    }
    contest->is_cut = true;
    return between;
}

static struct sensitivity_crossing crossing_of(struct contest *contest, bool is_above)
{
    struct plan_layout best;
    struct sensitivity_crossing crossing = {.winner = -1};
    contest->is_cut = false;
    struct bracket between = settle(contest, is_above);
    crossing.is_bound = contest->is_cut;
    if (between.far > 0) {
        (void)challenge(contest, between.far);
        crossing.is_found = true;
        crossing.factor = between.far;
        crossing.value = between.far * figure_value(&contest->questions[0], contest->figure);
        crossing.winner = winner_at(contest, between.far, &best);
    }
    return crossing;
}

static struct sensitivity_change change_of_plan(struct contest *contest, double factor)
{
    struct plan_layout best = {0};
    (void)challenge(contest, factor);
    int winner = winner_at(contest, factor, &best);
    double step_time_s = contest->layouts[contest->today].step_time_s;
    struct sensitivity_change change =
        change_of(&contest->questions[contest->today], contest->figure, factor, step_time_s);
    if (contest->figure == SENSITIVITY_HBM_CAPACITY && winner >= 0) {
        change.step_time_frac = best.step_time_s / step_time_s - 1;
    }
    change.winner = winner;
    return change;
}

/* What the plan kept, and room for what joins; false when the inputs cannot be read. */
static bool open_contest(struct contest *contest, const struct plan *plan, struct sp_error *err)
{
    struct sp_arena *arena = contest->arena;
    const struct question *questions = plan_questions(contest->asked, plan->kept, plan->n_kept, arena, err);
    if (questions == NULL) {
        return false;
    }
    contest->n = plan->n_kept;
    contest->capacity = plan->n_kept + MAX_JOINED;
    contest->layouts = sp_arena_array(arena, (size_t)contest->capacity, sizeof(*contest->layouts));
    contest->questions = sp_arena_array(arena, (size_t)contest->capacity, sizeof(*contest->questions));
    memcpy(contest->layouts, plan->kept, (size_t)plan->n_kept * sizeof(*contest->layouts));
    memcpy(contest->questions, questions, (size_t)plan->n_kept * sizeof(*contest->questions));
    contest->estimate = sp_arena_alloc(arena, sizeof(*contest->estimate));
    return true;
}

bool sensitivity_of_plan(const struct plan_question *question, const struct plan *plan, struct sp_arena *arena,
                         struct sensitivity *sensitivity, struct sp_error *err)
{
    struct plan_layout best = {0};
    struct contest contest = {.asked = question, .arena = arena};
    *sensitivity = (struct sensitivity){.winner = -1};
    if (plan->n_kept == 0) {
        return true;
    }
    if (!open_contest(&contest, plan, err)) {
        return false;
    }
    contest.today = winner_at(&contest, 1, &best);
    contest.rematch = rematch_open(question, plan, arena);
    contest.most_ranks = RANKS_AT_LEAST + RANKS_TIMES * plan->n_ranks;
    for (int f = 0; f < N_SENSITIVITIES && contest.today >= 0; f++) {
        contest.figure = (enum sensitivity_figure)f;
        struct sensitivity_row *row = &sensitivity->rows[f];
        row->value = figure_value(&contest.questions[0], contest.figure);
        row->up = change_of_plan(&contest, 1 + sensitivity_change_frac);
        row->down = change_of_plan(&contest, 1 - sensitivity_change_frac);
    }
    for (int f = 0; f < N_SENSITIVITIES && contest.today >= 0; f++) {
        contest.figure = (enum sensitivity_figure)f;
        sensitivity->rows[f].above = crossing_of(&contest, true);
        sensitivity->rows[f].below = crossing_of(&contest, false);
    }
    rematch_close(contest.rematch);
    sensitivity->winner = contest.today;
    sensitivity->n_kept = contest.n;
    sensitivity->kept = contest.layouts;
    return true;
}
