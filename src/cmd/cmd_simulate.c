/* simulate: one step of one layout in discrete events, beside the closed form and, when something is disturbed, beside itself. */
#include "cmd/sweep.h"

#include <signal.h>

/* What a run of the command puts together. */
struct simulation {
    struct command_context *context;
    const struct command_options *options;
    struct priced *priced;
    struct sim_options sim;
    struct sim_result result, undisturbed;
    bool is_disturbed;
    bool is_row;         /* of --vary: the sweep shows how far it is, and knows when to stop */
    struct trace *trace; /* or NULL */
    struct gantt *gantt;
    struct sim_sink sinks[2];
    int n_sinks;
};

/* ---- spans ------------------------------------------------------------------------------------------------------- */

static void pass_span(void *context, const struct sim_span *span)
{
    const struct simulation *simulation = context;
    for (int i = 0; i < simulation->n_sinks; i++) {
        simulation->sinks[i].span(simulation->sinks[i].context, span);
    }
}

static void pass_memory(void *context, int64_t rank, int64_t time_ps, double bytes)
{
    const struct simulation *simulation = context;
    for (int i = 0; i < simulation->n_sinks; i++) {
        simulation->sinks[i].memory(simulation->sinks[i].context, rank, time_ps, bytes);
    }
}

/* What is asked for and cannot be written fails before a long run. */
static bool open_sinks(struct simulation *simulation, struct sp_error *err)
{
    const struct simulate_typed *typed = &simulation->options->simulate;
    struct sp_arena *arena = simulation->context->arena;
    const struct question *question = &simulation->priced->question;
    if (typed->gantt != NULL) {
        if (!gantt_check(typed->gantt, err)) {
            return false;
        }
        const struct gantt_request request = {
            .path = typed->gantt,
            .of = typed->gantt_of < 0 ? GANTT_STEP : (enum gantt_of)typed->gantt_of,
            .question = question,
            .options = &simulation->sim,
            .expected_s = simulation->priced->estimate.step_time_s,
        };
        simulation->gantt = gantt_open(arena, &request);
        simulation->sinks[simulation->n_sinks++] = gantt_sink(simulation->gantt);
    }
    if (typed->trace != NULL) {
        simulation->trace = trace_open(arena, typed->trace, question, err);
        if (simulation->trace == NULL) {
            return false;
        }
        simulation->sinks[simulation->n_sinks++] = trace_sink(simulation->trace);
    }
    return true;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

struct run_progress {
    struct progress progress;
    struct simulation *simulation;
};

/* A run that is stopped leaves nothing behind: there is no half of a trace. */
static void show_progress(void *context, double done_frac)
{
    struct run_progress *run = context;
    progress_show_share(&run->progress, done_frac);
    if (interrupt_is_asked()) {
        progress_close(&run->progress);
        trace_drop(run->simulation->trace);
        interrupt_unwatch();
        (void)raise(interrupt_signal()); /* the one that came: the other may be ignored, as in a script's background */
    }
}

static bool run_once(struct simulation *simulation, const struct sim_options *sim, struct sim_result *result,
                     struct sp_error *err)
{
    struct run_progress run = {.simulation = simulation};
    struct sim_options own = *sim;
    progress_open_step(&run.progress, simulation->context->has_progress && !simulation->is_row);
    own.progress = simulation->is_row ? NULL : show_progress;
    own.progress_context = &run;
    bool is_good = sim_run(&simulation->priced->question, &own, simulation->context->arena, result, err);
    progress_close(&run.progress);
    return is_good;
}

/* The undisturbed step first: spans are of the disturbed one. */
static bool run_both(struct simulation *simulation, struct sp_error *err)
{
    const struct sim_sink sink = {simulation, pass_span, pass_memory};
    struct sim_options undisturbed = simulation->sim;
    undisturbed.jitter_frac = 0.0;
    undisturbed.background_frac = 0.0;
    undisturbed.n_slow_gpus = 0;
    undisturbed.n_slow_links = 0;
    simulation->sim.sink = simulation->n_sinks > 0 ? &sink : NULL;
    simulation->is_disturbed = simulate_is_disturbed(&simulation->sim);
    bool is_good = !simulation->is_disturbed || run_once(simulation, &undisturbed, &simulation->undisturbed, err);
    is_good = is_good && run_once(simulation, &simulation->sim, &simulation->result, err);
    simulation->sim.sink = NULL;
    return is_good;
}

static bool price_and_read(struct simulation *simulation, struct sp_error *err)
{
    struct sp_arena *arena = simulation->context->arena;
    const struct command_options *options = simulation->options;
    simulation->priced = sp_arena_alloc(arena, sizeof(*simulation->priced));
    return request_is_complete(arena, &options->request, question_example, err) &&
           price_request(&options->request, arena, simulation->priced, err) &&
           simulate_options_read(options, &simulation->priced->question, arena, &simulation->sim, err);
}

static struct report_simulation answer_of(const struct simulation *simulation)
{
    const struct priced *priced = simulation->priced;
    return (struct report_simulation){
        .answer = {.question = &priced->question, .estimate = &priced->estimate, .data_hash = priced->data_hash},
        .result = &simulation->result,
        .options = &simulation->sim,
        .undisturbed = simulation->is_disturbed ? &simulation->undisturbed : NULL,
        .spans_file = simulation->options->simulate.trace,
    };
}

/* ---- one step ---------------------------------------------------------------------------------------------------- */

static bool simulate_one(struct simulation *simulation, struct sp_error *err)
{
    struct command_context *context = simulation->context;
    if (!price_and_read(simulation, err)) {
        return false;
    }
    interrupt_watch();
    bool is_good = open_sinks(simulation, err) && run_both(simulation, err);
    interrupt_unwatch();
    if (!is_good) {
        trace_drop(simulation->trace);
        return false;
    }
    const struct report_style style = command_style(context, simulation->options);
    const char *chart = simulation->options->simulate.gantt;
    bool is_on_terminal = chart != NULL && chart[0] == '-' && chart[1] == '\0';
    if (simulation->gantt != NULL && !is_on_terminal &&
        !gantt_draw(simulation->gantt, &style, &simulation->result, err)) {
        trace_drop(simulation->trace);
        return false;
    }
    if (simulation->trace != NULL && !trace_close(simulation->trace, &simulation->result, err)) {
        return false;
    }
    const struct report_simulation answer = answer_of(simulation);
    report_simulation(&style, context->arena, &answer);
    context->status = simulation->priced->estimate.fits ? 0 : 1;
    return !is_on_terminal || gantt_draw(simulation->gantt, &style, &simulation->result, err);
}

/* ---- rows of --vary ---------------------------------------------------------------------------------------------- */

static const struct sp_json *simulate_tree(struct simulation *simulation, struct sp_error *err)
{
    if (!simulate_options_check(simulation->options, err) || !price_and_read(simulation, err) ||
        !run_both(simulation, err)) {
        return NULL;
    }
    struct report_simulation answer = answer_of(simulation);
    answer.is_row = simulation->is_row;
    const struct report_style style = command_style(simulation->context, simulation->options);
    return report_simulation_tree(&style, simulation->context->arena, &answer);
}

static bool simulate_row(void *user, struct command_options *options, struct sp_arena *scratch, const char **json,
                         struct sp_error *err)
{
    struct command_context context = *(const struct command_context *)user;
    struct sp_error row_err = {.kind = SP_ERROR_NONE};
    context.arena = scratch;
    struct simulation *simulation = sp_arena_alloc(scratch, sizeof(*simulation));
    simulation->context = &context;
    simulation->options = options;
    simulation->is_row = true;
    if (options->simulate.trace != NULL || options->simulate.gantt != NULL) {
        return sp_fail(err, SP_ERROR_USAGE, "--trace and --gantt are of one step: leave out --vary, or them");
    }
    const struct sp_json *row = simulate_tree(simulation, &row_err);
    if (row == NULL && row_err.kind == SP_ERROR_USAGE && row_err.rule[0] != '\0') {
        const struct priced *priced = simulation->priced;
        struct report_tree nothing;
        report_tree_open(&nothing, scratch);
        const struct sp_json *layout = priced != NULL && priced->is_resolved
                                           ? report_layout_tree(scratch, &priced->question)
                                           : report_tree_close(&nothing);
        row = report_error_tree(scratch, layout, &row_err);
    }
    if (row == NULL) {
        *err = row_err;
        return false;
    }
    *json = report_tree_text(scratch, row);
    return *json != NULL;
}

bool cmd_simulate(struct command_context *context, int argc, char **argv, struct sp_error *err)
{
    struct command_options options;
    if (!command_options_parse(context, argc, argv, &options, NULL, err)) {
        return false;
    }
    if (options.wants_help) {
        return true;
    }
    if (!sweep_options_check(&options, err) || !simulate_options_check(&options, err)) {
        return false;
    }
    if (options.vary.count > 0) {
        const struct sweep sweep = {
            .context = context, .command = "simulate", .options = &options, .row = simulate_row, .user = context};
        return sweep_run(&sweep, err);
    }
    struct simulation *simulation = sp_arena_alloc(context->arena, sizeof(*simulation));
    simulation->context = context;
    simulation->options = &options;
    return simulate_one(simulation, err);
}
