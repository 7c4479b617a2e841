/* measure: what this machine does, measured, stored and shown. */
#include "cmd/measure.h"

#include <inttypes.h>
#include <string.h>

/* ---- options ---------------------------------------------------------------------------------------------------- */

static bool has_selection(const struct command_options *options)
{
    const struct measure_typed *typed = &options->measure;
    return typed->is_quick || typed->is_full || typed->only != NULL || options->request.model != NULL;
}

static bool has_start(const struct measure_typed *typed)
{
    return typed->resume.is_given || typed->is_new || typed->device != NULL;
}

static bool check_options(const struct command_options *options, struct sp_error *err)
{
    const struct measure_typed *typed = &options->measure;
    if (typed->from != NULL && typed->run.is_given) {
        return sp_fail(err, SP_ERROR_USAGE, "--from stores a file, --run shows what is stored: give one of them");
    }
    const char *stored = typed->from != NULL ? "--from" : typed->run.is_given ? "--run" : NULL;
    if (stored != NULL && (has_selection(options) || has_start(typed))) {
        return sp_fail(err, SP_ERROR_USAGE,
                       "%s measures nothing: leave out --quick, --full, --only, --model, --resume, --new and --device",
                       stored);
    }
    if (typed->is_quick && typed->is_full) {
        return sp_fail(err, SP_ERROR_USAGE, "--quick and --full: give one of them");
    }
    if (typed->resume.is_given && (typed->is_new || has_selection(options))) {
        return sp_fail(
            err, SP_ERROR_USAGE,
            "--resume goes on with what that run was to measure: leave out --new, --quick, --full, --only and "
            "--model");
    }
    return true;
}

/* "--only copy,gemm", in the order of the groups; "" for all. */
static bool read_groups(struct sp_arena *arena, const char *only, const char **text, struct sp_error *err)
{
    *text = "";
    if (only == NULL) {
        return true;
    }
    const struct option_list list = {.name = "only", .text = only, .example = "copy,gemm"};
    unsigned bits = 0;
    if (!option_list_names(&list, measurement_group_names, &bits, err)) {
        return false;
    }
    if ((bits >> (unsigned)MEASUREMENT_STEP & 1U) != 0) {
        return sp_fail(err, SP_ERROR_USAGE,
                       "--only: no GPU program measures %s: 'seqplan import' brings in the steps of a training log",
                       measurement_group_names[MEASUREMENT_STEP]);
    }
    struct sp_texts groups = {.arena = arena};
    for (int i = 0; i < N_MEASUREMENT_GROUPS; i++) {
        if ((bits >> (unsigned)i & 1U) != 0) {
            sp_texts_add(&groups, "%s", measurement_group_names[i]);
        }
    }
    *text = sp_format(arena, " --only %s", sp_join(arena, groups.items, groups.count, ","));
    return true;
}

/* " --model-shapes hidden,heads,kv,head dimension,ffn,vocabulary". */
static bool read_shapes(struct sp_arena *arena, const char *name, const char **text, struct sp_error *err)
{
    *text = "";
    struct model_spec model;
    struct sp_texts warnings = {.arena = arena};
    if (name == NULL) {
        return true;
    }
    if (!model_read(arena, name, &model, &warnings, err)) {
        return false;
    }
    if (model.kv_lora_rank > 0) {
        return sp_fail(err, SP_ERROR_USAGE,
                       "--model: %s has latent attention, whose matrix products are not measured yet: name a model "
                       "without it",
                       model.name);
    }
    *text = sp_format(arena, " --model-shapes %" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64,
                      model.hidden, model.n_heads, model.n_kv_heads, model.head_dim,
                      model.n_experts > 0 ? model.expert_ffn : model.ffn, model.vocab);
    return true;
}

static bool new_profile(struct sp_arena *arena, const struct command_options *options, const char **profile,
                        struct sp_error *err)
{
    const char *groups = NULL;
    const char *shapes = NULL;
    if (!read_groups(arena, options->measure.only, &groups, err) ||
        !read_shapes(arena, options->request.model, &shapes, err)) {
        return false;
    }
    *profile = sp_format(arena, "%s%s%s", options->measure.is_full ? "--full" : "--quick", groups, shapes);
    return true;
}

/* Of the run that --resume names. A file that was brought in may say anything. */
static bool old_profile(struct sp_arena *arena, struct store *store, int64_t id, const char **profile,
                        struct sp_error *err)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789,- ";
    struct store_run_listing run;
    if (!measure_run_find(store, arena, id, &run, err)) {
        return false;
    }
    *profile = run.run.profile;
    bool has_profile =
        strncmp(*profile, "--quick", strlen("--quick")) == 0 || strncmp(*profile, "--full", strlen("--full")) == 0;
    return (has_profile && strspn(*profile, allowed) == strlen(*profile)) ||
           sp_fail(err, SP_ERROR_USAGE,
                   "--resume: run %" PRId64 " came from a file that does not say what was to be measured: leave it out "
                   "to begin a run",
                   id);
}

/* ---- running ---------------------------------------------------------------------------------------------------- */

/* -o, then the answer; with -o - the lines are the answer. */
static bool print_run(struct command_context *context, const struct command_options *options, struct store *store,
                      int64_t id, struct sp_error *err)
{
    const struct measure_output output = {.path = options->measure.output, .out = context->out};
    if (output.path != NULL && !measure_run_write(store, context->arena, id, &output, err)) {
        return false;
    }
    if (output.path != NULL && strcmp(output.path, "-") == 0) {
        return true;
    }
    const struct report_style style = command_style(context, options);
    return measure_run_print(store, context->arena, id, &style, err);
}

static void say_interrupted(struct command_context *context, const struct measure_outcome *outcome)
{
    context->status = SP_ERROR_IO;
    (void)fflush(context->out);
    if (outcome->id == 0) {
        (void)fprintf(stderr, "seqplan: interrupted before anything was measured\n");
        return;
    }
    (void)fprintf(stderr,
                  "seqplan: interrupted: run %" PRId64 " keeps %" PRId64 " of %" PRId64
                  " measurements ('seqplan measure --resume %" PRId64 "' goes on)\n",
                  outcome->id, outcome->n_done, outcome->n_total, outcome->id);
}

/* What cannot be written fails before a long run. */
static bool check_output(struct sp_arena *arena, const char *path, struct sp_error *err)
{
    if (path == NULL || strcmp(path, "-") == 0) {
        return true;
    }
    struct whole_file *file = whole_file_open(arena, path, err);
    whole_file_drop(file);
    return file != NULL;
}

static bool measure_here(struct command_context *context, const struct command_options *options, struct store *store,
                         const char *program, struct sp_error *err)
{
    const struct measure_typed *typed = &options->measure;
    struct measure_request request = {.context = context, .store = store, .program = program, .is_new = typed->is_new};
    bool is_good = true;
    if (typed->resume.is_given) {
        request.resumed = typed->resume.value;
        is_good = old_profile(context->arena, store, request.resumed, &request.profile, err);
    } else {
        is_good = new_profile(context->arena, options, &request.profile, err);
    }
    struct measure_outcome outcome;
    if (!is_good || !check_output(context->arena, typed->output, err) || !measure_device_run(&request, &outcome, err)) {
        return false;
    }
    if (outcome.id != 0 && !print_run(context, options, store, outcome.id, err)) {
        return false;
    }
    if (outcome.is_interrupted) {
        say_interrupted(context, &outcome);
    } else {
        (void)fprintf(stderr, "seqplan: stored as run %" PRId64 " in %s\n", outcome.id, store_path(store));
    }
    return true;
}

static bool measure_in(struct command_context *context, const struct command_options *options, struct store *store,
                       const char *program, struct sp_error *err)
{
    int64_t id = options->measure.run.value;
    if (program != NULL) {
        return measure_here(context, options, store, program, err);
    }
    if (options->measure.from != NULL && !measure_file_store(context->arena, store, options->measure.from, &id, err)) {
        return false;
    }
    return print_run(context, options, store, id, err);
}

static bool open_store(struct command_context *context, const struct command_options *options, struct store **store,
                       struct sp_error *err)
{
    if (!options->measure.run.is_given) {
        bool is_good = store_open(context->arena, options->db, store, err);
        if (is_good && store_remark(*store) != NULL) {
            (void)fprintf(stderr, "seqplan: %s\n", store_remark(*store));
        }
        return is_good;
    }
    return store_open_existing(context->arena, options->db, store, err) &&
           (*store != NULL ||
            sp_fail(err, SP_ERROR_INPUT, "no run %" PRId64 ": nothing is stored yet", options->measure.run.value));
}

static bool check_inputs(struct command_context *context, const struct command_options *options, struct sp_error *err)
{
    struct sp_texts inputs = {.arena = context->arena};
    if (options->measure.from != NULL) {
        sp_texts_add(&inputs, "%s", options->measure.from);
    }
    command_add_store(&inputs, options->db);
    return command_check_output(options->measure.output, &inputs, err);
}

bool cmd_measure(struct command_context *context, int argc, char **argv, struct sp_error *err)
{
    struct command_options options;
    if (!command_options_parse(context, argc, argv, &options, NULL, err)) {
        return false;
    }
    if (options.wants_help) {
        return true;
    }
    const char *program = NULL;
    bool measures = options.measure.from == NULL && !options.measure.run.is_given;
    struct store *store = NULL;
    if (!check_options(&options, err) || !check_inputs(context, &options, err) ||
        (measures && !measure_device_find(context->arena, options.measure.device, &program, err)) ||
        !open_store(context, &options, &store, err)) {
        return false;
    }
    bool is_good = measure_in(context, &options, store, program, err);
    store_close(store);
    return is_good;
}

/* ---- the table of options --------------------------------------------------------------------------------------- */

#define AT(member) offsetof(struct command_options, measure.member)

static const char what_group[] = "What is measured";
static const char run_group[] = "The run";

const struct sp_option measure_options[] = {
    {.name = "quick",
     .type = SP_OPTION_FLAG,
     .offset = AT(is_quick),
     .group = what_group,
     .help = "a few sizes of everything, in about 2 minutes; the default"},
    {.name = "full",
     .type = SP_OPTION_FLAG,
     .offset = AT(is_full),
     .group = what_group,
     .help = "all sizes, with more repetitions"},
    {.name = "only",
     .type = SP_OPTION_TEXT,
     .offset = AT(only),
     .argument = "GROUP,GROUP",
     .group = what_group,
     .help = "some of copy, gemm, attention, elementwise, optimizer, collective, latency, method, layer"},
    {.name = "model",
     .type = SP_OPTION_TEXT,
     .offset = offsetof(struct command_options, request.model),
     .argument = "NAME|PATH",
     .group = what_group,
     .help = "the matrix products and the layer of this model; default: usual sizes"},
    {.name = "device",
     .type = SP_OPTION_TEXT,
     .offset = AT(device),
     .argument = "PROGRAM",
     .group = what_group,
     .help = "what measures; default: seqplan-device beside seqplan"},
    {.name = "resume",
     .type = SP_OPTION_COUNT,
     .offset = AT(resume),
     .argument = "ID",
     .group = run_group,
     .help = "goes on with this run, and tries again what it refused; default: the last one of this machine and "
             "profile that is not finished"},
    {.name = "new",
     .type = SP_OPTION_FLAG,
     .offset = AT(is_new),
     .group = run_group,
     .help = "begins a run, whatever is unfinished"},
    {.name = "from",
     .type = SP_OPTION_TEXT,
     .offset = AT(from),
     .argument = "FILE",
     .group = run_group,
     .help = "measures nothing: stores the lines of this file; - is standard input"},
    {.name = "run",
     .type = SP_OPTION_COUNT,
     .offset = AT(run),
     .argument = "ID",
     .group = run_group,
     .help = "measures nothing: shows this stored run"},
    {.name = "output",
     .letter = 'o',
     .type = SP_OPTION_TEXT,
     .offset = AT(output),
     .argument = "FILE",
     .group = run_group,
     .help = "writes the lines of the run to this file, which --from reads; - is standard output"},
    {.name = NULL},
};
