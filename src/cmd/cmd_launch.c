/* launch: a layout as the arguments of the program that trains with it. */
#include "report/launch.h"

#include "cmd/command.h"

static const char launch_example[] =
    "seqplan launch --model llama-3.1-8b --hardware dgx-h100 --gpus 8 --sp 8 --seq 128K --for megatron-lm";

/* Where neither the command line nor a file says whose implementation it is, the launcher does. */
static void take_framework(const struct launcher *launcher, struct request *request)
{
    if (launcher == NULL || request->framework >= 0 || request->layout_file != NULL) {
        return;
    }
    bool is_split = request->sp.is_given && request->sp.value > 1;
    enum method_id usual = is_split ? METHOD_ZIGZAG : METHOD_NONE;
    enum method_id method = request->method >= 0 ? (enum method_id)request->method : usual;
    request->framework = (int)launcher_framework(launcher, method);
}

static const struct launcher *find_launcher(const struct command_options *options, const struct question *question,
                                            struct sp_error *err)
{
    if (options->launch_for >= 0) {
        return launcher_of(options->launch_for);
    }
    const struct launcher *launcher = launcher_home(question->layout.framework);
    if (launcher == NULL) {
        (void)sp_fail(err, SP_ERROR_USAGE,
                      "no launcher runs framework %s: it is a bound; name one with --for, or price another --framework",
                      framework_names[question->layout.framework]);
    }
    return launcher;
}

static bool check_options(const struct command_options *options, struct sp_arena *arena, struct sp_error *err)
{
    if (options->request.only != NULL) {
        return sp_fail(err, SP_ERROR_USAGE,
                       "--only prices a part of a layer, and launch is of whole layouts: leave it "
                       "out");
    }
    return request_is_complete(arena, &options->request, launch_example, err);
}

bool cmd_launch(struct command_context *context, int argc, char **argv, struct sp_error *err)
{
    struct command_options options;
    if (!command_options_parse(context, argc, argv, &options, NULL, err)) {
        return false;
    }
    if (options.wants_help) {
        return true;
    }
    struct priced *priced = sp_arena_alloc(context->arena, sizeof(*priced));
    const struct launcher *launcher = NULL;
    struct launch launch;
    take_framework(options.launch_for < 0 ? NULL : launcher_of(options.launch_for), &options.request);
    if (!check_options(&options, context->arena, err) ||
        !price_request(&options.request, context->arena, priced, err)) {
        return false;
    }
    launcher = find_launcher(&options, &priced->question, err);
    if (launcher == NULL || !launch_build(context->arena, &priced->question, launcher, &launch, err)) {
        return false;
    }
    const struct report_style style = command_style(context, &options);
    report_launch(&style, context->arena, &launch);
    if (!priced->estimate.fits) {
        (void)fprintf(stderr, "seqplan: the layout does not fit: seqplan estimate says what it lacks\n");
    }
    context->status = priced->estimate.fits ? 0 : 1;
    return true;
}

const struct sp_option launch_options[] = {
    {.name = "for",
     .type = SP_OPTION_CHOICE,
     .offset = offsetof(struct command_options, launch_for),
     .names = launcher_names,
     .argument = "LAUNCHER",
     .group = "The answer",
     .help = "whose arguments; default: the one that runs the layout's framework"},
    {.name = "framework",
     .type = SP_OPTION_CHOICE,
     .offset = offsetof(struct command_options, request.framework),
     .names = framework_names,
     .argument = "F",
     .group = "Software and memory",
     .help = "whose implementation is priced and launched; default: what the launcher runs"},
    {.name = "only",
     .type = SP_OPTION_TEXT,
     .offset = offsetof(struct command_options, request.only),
     .argument = "attention",
     .group = "The answer",
     .is_hidden = true},
    {.name = NULL},
};
