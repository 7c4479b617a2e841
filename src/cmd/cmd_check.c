/* check: claimed figures against the model and against what no run can pass. */
#include "cmd/check.h"

#include <string.h>

static const char check_example[] = "seqplan check --model llama-2-7b --hardware dgx-h100 --gpus 8 --sp 8 --seq 128K "
                                    "--claim tokens_per_s_per_gpu=1200";

/* ---- "--claim QUANTITY=VALUE" ------------------------------------------------------------------------------------- */

static bool unknown_quantity(struct sp_arena *arena, const char *name, struct sp_error *err)
{
    struct sp_texts names = {.arena = arena};
    claim_quantity_names(false, &names);
    const char *nearest = sp_nearest(name, names.items, names.count);
    return nearest != NULL ? sp_fail(err, SP_ERROR_USAGE, "--claim: unknown quantity \"%.60s\": did you mean \"%s\"?",
                                     name, nearest)
                           : sp_fail(err, SP_ERROR_USAGE, "--claim: unknown quantity \"%.60s\": expected one of %s",
                                     name, sp_join(arena, names.items, names.count, ", "));
}

static bool parse_claim(struct sp_arena *arena, const char *text, const struct claim_quantity **quantity, double *value,
                        struct sp_error *err)
{
    const char *equals = strchr(text, '=');
    if (equals == NULL || equals == text) {
        return sp_fail(err, SP_ERROR_USAGE,
                       "--claim: expected WHAT=VALUE such as tokens_per_s_per_gpu=1200, found "
                       "\"%.60s\"",
                       text);
    }
    const char *name = sp_strndup(arena, text, (size_t)(equals - text));
    *quantity = claim_quantity_find(name);
    if (*quantity == NULL || (*quantity)->kind == CLAIM_FIGURE) {
        return unknown_quantity(arena, name, err);
    }
    if (!claim_value_parse(arena, *quantity, equals + 1, value, err)) {
        sp_error_prefix(err, "--claim %s", name);
        return false;
    }
    return true;
}

/* ---- the command -------------------------------------------------------------------------------------------------- */

static bool check_options(struct sp_arena *arena, const struct command_options *options, struct sp_error *err)
{
    if (options->request.only != NULL || options->request.tokens.is_given) {
        return sp_fail(err, SP_ERROR_USAGE, "claims are of whole steps: leave out --only and --tokens");
    }
    if (options->claims.count == 0) {
        return sp_fail(err, SP_ERROR_USAGE, "--claim is missing; for example: %s", check_example);
    }
    return request_is_complete(arena, &options->request, check_example, err);
}

static bool judge(struct command_context *context, const struct command_options *options, struct sp_error *err)
{
    struct sp_arena *arena = context->arena;
    struct priced *priced = sp_arena_alloc(arena, sizeof(*priced));
    struct claim_bounds bounds;
    struct report_claim *claims = sp_arena_array(arena, options->claims.count, sizeof(*claims));
    struct report_check check = {.claims = claims, .n_claims = (int)options->claims.count};
    if (!claim_bounds_read(arena, &bounds, err) || !price_request(&options->request, arena, priced, err)) {
        return false;
    }
    check.answer =
        (struct answer){.question = &priced->question, .estimate = &priced->estimate, .data_hash = priced->data_hash};
    const struct claim_subject subject = {&options->request, &priced->question, &priced->estimate, &bounds};
    for (size_t i = 0; i < options->claims.count; i++) {
        const struct claim_quantity *quantity = NULL;
        double value = 0;
        if (!parse_claim(arena, options->claims.items[i], &quantity, &value, err)) {
            return false;
        }
        claims[i].text = options->claims.items[i];
        claim_judge(&subject, quantity, value, &claims[i].judgement);
    }
    const struct report_style style = command_style(context, options);
    report_check(&style, arena, &check);
    context->status = claims[report_check_worst(&check)].judgement.verdict == CLAIM_IMPOSSIBLE ? 1 : 0;
    return true;
}

/* ---- files -------------------------------------------------------------------------------------------------------- */

enum { FORMAT_PAGE = REPORT_JSON + 1 };
static const char *const format_names[] = {"table", "markdown", "csv", "json", "page", NULL};

static bool has_impossible(const struct report_claim_document *document)
{
    for (int i = 0; i < document->n_rows; i++) {
        if (document->rows[i].finding == CLAIM_BREAKS) {
            return true;
        }
    }
    return false;
}

static bool judge_files(struct command_context *context, const struct command_options *options,
                        const struct sp_texts *paths, struct sp_error *err)
{
    struct sp_arena *arena = context->arena;
    struct claim_bounds bounds;
    struct report_claim_document *documents = sp_arena_array(arena, paths->count, sizeof(*documents));
    if (!claim_bounds_read(arena, &bounds, err)) {
        return false;
    }
    for (size_t i = 0; i < paths->count; i++) {
        if (!check_file_read(arena, paths->items[i], &bounds, &documents[i], err)) {
            return false;
        }
        context->status = has_impossible(&documents[i]) ? 1 : context->status;
    }
    const struct report_style style = command_style(context, options);
    if (options->format == (int)FORMAT_PAGE) {
        report_claims_page(&style, arena, documents, (int)paths->count);
    } else {
        report_claims(&style, arena, documents, (int)paths->count);
    }
    return true;
}

/* A file holds its own questions. */
static bool check_alone(const struct command_options *options, struct sp_error *err)
{
    const struct request *request = &options->request;
    bool has_question = request->model != NULL || request->hardware != NULL || request->seq.is_given ||
                        request->gpus.is_given || request->nodes.is_given || request->layout_file != NULL;
    return (options->claims.count == 0 && !has_question) ||
           sp_fail(err, SP_ERROR_USAGE,
                   "claims of a file have their own questions: leave out --claim and the options "
                   "of a question, or the file");
}

bool cmd_check(struct command_context *context, int argc, char **argv, struct sp_error *err)
{
    struct command_options options;
    struct sp_texts paths = {.arena = context->arena};
    if (!command_options_parse(context, argc, argv, &options, &paths, err)) {
        return false;
    }
    if (options.wants_help) {
        return true;
    }
    if (paths.count > 0) {
        return check_alone(&options, err) && judge_files(context, &options, &paths, err);
    }
    if (options.format == (int)FORMAT_PAGE) {
        return sp_fail(err, SP_ERROR_USAGE, "--format page is of files of claims: name one");
    }
    return check_options(context->arena, &options, err) && judge(context, &options, err);
}

/* ---- the table of options ----------------------------------------------------------------------------------------- */

const struct sp_option check_options_table[] = {
    {.name = "claim",
     .type = SP_OPTION_LIST,
     .offset = offsetof(struct command_options, claims),
     .argument = "WHAT=VALUE",
     .group = "The claim",
     .help = "a claimed figure, as in tokens_per_s_per_gpu=1200; may be given several times"},
    {.name = "format",
     .type = SP_OPTION_CHOICE,
     .offset = offsetof(struct command_options, format),
     .names = format_names,
     .argument = "F",
     .group = "The answer",
     .help = "default table; page is docs/claims.md, of files"},
    {.name = "only",
     .type = SP_OPTION_TEXT,
     .offset = offsetof(struct command_options, request.only),
     .argument = "attention",
     .group = "The answer",
     .is_hidden = true},
    {.name = "tokens",
     .type = SP_OPTION_TEXT,
     .offset = offsetof(struct command_options, tokens),
     .argument = "N",
     .group = "The run",
     .is_hidden = true},
    {.name = NULL},
};
