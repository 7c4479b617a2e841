/* What a simulation found, as sentences. */
#include "report/report.h"

#include <math.h>

/* Less than this share of the step is no difference: what an answer rounds to. */
static const double SAME_FRAC = 5e-4;
/* Of a difference: what is less of it is not named as its cause. */
static const double CAUSE_FRAC = 0.05;

/* ---- simulation against closed form ------------------------------------------------------------------------------ */

const struct sim_rank *report_busiest_rank(const struct report_simulation *simulation)
{
    const struct sim_result *result = simulation->result;
    int busiest = 0;
    for (int i = 1; i < result->n_ranks; i++) {
        busiest = result->ranks[i].busy_s > result->ranks[busiest].busy_s ? i : busiest;
    }
    return &result->ranks[busiest];
}

/* The closed form says of the slowest stage what it does and waits for; so does the simulation of each rank. */
void report_time_parts(const struct report_simulation *simulation, struct report_time_part parts[REPORT_TIME_PARTS])
{
    const struct sim_rank *rank = report_busiest_rank(simulation);
    const double *waits = rank->waits_s;
    const double *time = simulation->answer.estimate->time_s;
    double kernels = time[TIME_ATTENTION] + time[TIME_GEMM] + time[TIME_ELEMENTWISE] + time[TIME_OPTIMIZER];
    double bubble = waits[SIM_WAIT_STAGE] + waits[SIM_WAIT_END];
    const struct report_time_part filled[REPORT_TIME_PARTS] = {
        {"kernels", "kernels", rank->busy_s, kernels, -1},
        {"tp transfers", "tp", waits[SIM_WAIT_TP], time[TIME_TP_EXPOSED], AXIS_TP},
        {"sp transfers", "sp", waits[SIM_WAIT_SP], time[TIME_SP_EXPOSED], AXIS_CP},
        {"ep transfers", "ep", waits[SIM_WAIT_EP], time[TIME_EP_EXPOSED], AXIS_EP},
        {"dp transfers", "dp", waits[SIM_WAIT_DP], time[TIME_DP_EXPOSED], AXIS_DP},
        {"pp transfers", "pp", waits[SIM_WAIT_PP], time[TIME_PP_EXPOSED], AXIS_PP},
        {"waiting for late ranks of a group", "late ranks", waits[SIM_WAIT_PEER], time[TIME_IMBALANCE], -1},
        {"waiting for other stages", "bubble", bubble, time[TIME_BUBBLE], -1},
        {"offload", "offload", waits[SIM_WAIT_OFFLOAD], time[TIME_OFFLOAD_EXPOSED], -1},
        {"host", "host", waits[SIM_WAIT_HOST], time[TIME_OTHER], -1},
    };
    for (int i = 0; i < (int)REPORT_TIME_PARTS; i++) {
        parts[i] = filled[i];
    }
}

static double excess_of(const struct report_time_part *part)
{
    return part->simulated_s - part->estimated_s;
}

static const char *cause_text(struct sp_arena *arena, const struct report_simulation *simulation,
                              const struct report_time_part *part)
{
    double excess_s = excess_of(part);
    const char *text =
        sp_format(arena, "%s %s%s", part->name, excess_s < 0.0 ? "-" : "+", report_step_time(arena, fabs(excess_s)));
    double delayed_s = part->axis < 0 ? 0.0 : simulation->result->delays[part->axis].delayed_s;
    if (excess_s > 0.0 && delayed_s > CAUSE_FRAC * excess_s) {
        text = sp_format(arena, "%s (shared links slow them by %s)", text, report_step_time(arena, delayed_s));
    }
    return text;
}

/* The part that pulls most in the direction of `sign` and is not named yet, or -1. */
static int largest_part(const struct report_time_part *parts, double sign, const bool *is_named)
{
    int largest = -1;
    for (int i = 0; i < (int)REPORT_TIME_PARTS; i++) {
        double excess = sign * excess_of(&parts[i]);
        if (!is_named[i] && excess > 0.0 && (largest < 0 || excess > sign * excess_of(&parts[largest]))) {
            largest = i;
        }
    }
    return largest;
}

const char *report_simulation_causes(struct sp_arena *arena, const struct report_simulation *simulation)
{
    enum { MOST_CAUSES = 3 };
    double estimated_s = simulation->answer.estimate->step_time_s;
    double difference_s = simulation->result->step_time_s - estimated_s;
    if (fabs(difference_s) < SAME_FRAC * estimated_s) {
        return "";
    }
    struct report_time_part parts[REPORT_TIME_PARTS];
    report_time_parts(simulation, parts);
    bool is_named[REPORT_TIME_PARTS] = {false};
    double sign = difference_s > 0.0 ? 1.0 : -1.0;
    struct sp_texts causes = {.arena = arena};
    for (int i = 0; i < (int)MOST_CAUSES; i++) {
        int part = largest_part(parts, sign, is_named);
        if (part < 0 || sign * excess_of(&parts[part]) < CAUSE_FRAC * fabs(difference_s)) {
            break;
        }
        is_named[part] = true;
        sp_texts_add(&causes, "%s", cause_text(arena, simulation, &parts[part]));
    }
    return sp_join(arena, causes.items, causes.count, ", ");
}

/* ---- disturbances ------------------------------------------------------------------------------------------------ */

static const char *percent(struct sp_arena *arena, double frac)
{
    enum { PERCENT = 100 };
    return sp_format(arena, "%.3g %%", frac * PERCENT);
}

static void add_slow_link(const struct sim_slow_link *link, struct sp_texts *texts)
{
    struct sp_arena *arena = texts->arena;
    if (!(link->period_s > 0.0)) {
        sp_texts_add(texts, "link %s at %s of its rate", link->links, percent(arena, link->share));
        return;
    }
    sp_texts_add(texts, "link %s at %s of its rate for %s in every %s", link->links, percent(arena, link->share),
                 sp_quantity_print(arena, link->slow_s, SP_SECONDS),
                 sp_quantity_print(arena, link->period_s, SP_SECONDS));
}

void report_disturbances(const struct sim_options *options, struct sp_texts *texts)
{
    struct sp_arena *arena = texts->arena;
    for (int i = 0; i < options->n_slow_gpus; i++) {
        sp_texts_add(texts, "GPU %lld at %s of its speed", (long long)options->slow_gpus[i].gpu,
                     percent(arena, options->slow_gpus[i].speed));
    }
    for (int i = 0; i < options->n_slow_links; i++) {
        add_slow_link(&options->slow_links[i], texts);
    }
    if (options->jitter_frac > 0.0) {
        sp_texts_add(texts, "kernels that take %s longer on average (jitter, seed %llu)",
                     percent(arena, options->jitter_frac), (unsigned long long)options->seed);
    }
    if (options->background_frac > 0.0) {
        sp_texts_add(texts, "others on %s of the network", percent(arena, options->background_frac));
    }
}

/* Several are a list with "and" before the last. */
const char *report_disturbance_text(struct sp_arena *arena, const struct report_simulation *simulation)
{
    if (simulation->undisturbed == NULL) {
        return NULL;
    }
    struct sp_texts texts = {.arena = arena};
    report_disturbances(simulation->options, &texts);
    const char *what = texts.count == 0 ? "" : texts.items[texts.count - 1];
    if (texts.count > 1) {
        what = sp_format(arena, "%s and %s", sp_join(arena, texts.items, texts.count - 1, ", "), what);
    }
    const char *verb = texts.count == 1 ? "costs" : "together cost";
    double whole_s = simulation->undisturbed->step_time_s;
    double cost_frac = simulation->result->step_time_s / whole_s - 1.0;
    if (fabs(cost_frac) < SAME_FRAC) {
        return sp_format(arena, "%s %s nothing: %s with and without", what, verb, report_step_time(arena, whole_s));
    }
    return sp_format(arena, "%s %s %s%s %%: %s instead of %s", what, verb, cost_frac < 0.0 ? "-" : "",
                     report_percent(arena, fabs(cost_frac)), report_step_time(arena, simulation->result->step_time_s),
                     report_step_time(arena, whole_s));
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

const char *report_peak_text(struct sp_arena *arena, const struct sim_peak *peak, bool has_stages)
{
    const char *stage = has_stages ? sp_format(arena, "stage %lld, ", (long long)peak->stage + 1) : "";
    const char *text = sp_format(arena, "%srank %lld, %s into the step: %s", stage, (long long)peak->rank,
                                 report_step_time(arena, peak->time_s), moment_names[peak->moment]);
    if (peak->layer >= 0) {
        text = sp_format(arena, "%s, layer %lld", text, (long long)peak->layer);
    }
    if (peak->micro_batch >= 0) {
        text = sp_format(arena, "%s of micro-batch %lld", text, (long long)peak->micro_batch);
    }
    return sp_format(arena, "%s; activations of %.3g micro-batch%s are held", text, peak->micro_batches_held,
                     peak->micro_batches_held > 1.0 ? "es" : "");
}

const char *report_axes_text(struct sp_arena *arena, unsigned axes)
{
    struct sp_texts texts = {.arena = arena};
    for (int axis = 0; axis < (int)N_AXES; axis++) {
        if ((axes >> (unsigned)axis & 1U) != 0) {
            sp_texts_add(&texts, "%s", report_axis_names[axis]);
        }
    }
    return sp_join(arena, texts.items, texts.count, " + ");
}
