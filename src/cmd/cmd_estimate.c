#include "cmd/sweep.h"

static bool estimate_one(struct command_context *context, const struct command_options *options, struct sp_error *err)
{
    struct priced *priced = sp_arena_alloc(context->arena, sizeof(*priced));
    if (!request_is_complete(context->arena, &options->request, question_example, err) ||
        !price_request(&options->request, context->arena, priced, err)) {
        return false;
    }
    struct answer answer = {
        .question = &priced->question, .estimate = &priced->estimate, .data_hash = priced->data_hash};
    struct sensitivity sensitivity;
    if (options->wants_sensitivity) {
        sensitivity_of_layout(&priced->question, &sensitivity);
        answer.sensitivity = &sensitivity;
    }
    const struct report_style style = command_style(context, options);
    report_estimate(&style, context->arena, &answer);
    context->status = priced->estimate.fits ? 0 : 1;
    return true;
}

/* A row of --vary. */
static bool estimate_row(void *user, struct command_options *options, struct sp_arena *scratch, const char **json,
                         struct sp_error *err)
{
    if (!request_is_complete(scratch, &options->request, question_example, err)) {
        return false;
    }
    const struct command_context *context = user;
    const struct report_style style = command_style(context, options);
    const struct row_pricing pricing = {&style, scratch, scratch};
    struct priced *priced = sp_arena_alloc(scratch, sizeof(*priced));
    const struct sp_json *answer = price_row(&pricing, &options->request, priced, err);
    *json = answer == NULL ? NULL : report_tree_text(scratch, answer);
    return *json != NULL;
}

static bool estimate_rows(struct command_context *context, const struct command_options *options, struct sp_error *err)
{
    bool is_readable = options->format == REPORT_TABLE || options->format == REPORT_MARKDOWN;
    if (options->explains && is_readable) {
        return sp_fail(err, SP_ERROR_USAGE,
                       "--explain explains one layout: leave out --vary, or ask for --format json");
    }
    if (options->wants_sensitivity) {
        return sp_fail(err, SP_ERROR_USAGE, "--sensitivity is of one layout: leave out --vary, or --sensitivity");
    }
    const struct sweep sweep = {
        .context = context, .command = "estimate", .options = options, .row = estimate_row, .user = context};
    return sweep_run(&sweep, err);
}

bool cmd_estimate(struct command_context *context, int argc, char **argv, struct sp_error *err)
{
    struct command_options options;
    if (!command_options_parse(context, argc, argv, &options, NULL, err)) {
        return false;
    }
    if (options.wants_help) {
        return true;
    }
    if (!sweep_options_check(&options, err)) {
        return false;
    }
    return options.vary.count > 0 ? estimate_rows(context, &options, err) : estimate_one(context, &options, err);
}
