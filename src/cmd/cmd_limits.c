/* limits: the longest sequence, the largest micro-batch and the fewest GPUs that fit, of a layout or of any. */
#include "cmd/command.h"

#include <string.h>

/* ---- what is asked ---------------------------------------------------------------------------------------------- */

static bool check_request(struct sp_arena *arena, const struct request *request, struct sp_error *err)
{
    bool is_read = request->layout_file != NULL;
    bool has_scale = request->seq.is_given || request->gpus.is_given || request->nodes.is_given;
    if (request->only != NULL || request->tokens.is_given) {
        return sp_fail(
            err, SP_ERROR_USAGE,
            "limits are of whole steps, and the tokens/s beside one are of its own step: no part of a step or "
            "whole run is priced; leave out --only and --tokens");
    }
    if (is_read && strcmp(request->layout_file, "-") == 0) {
        return sp_fail(err, SP_ERROR_USAGE, "limits reads the layout more than once: give --layout a file, not -");
    }
    if (!is_read && (request->model == NULL || request->hardware == NULL || !has_scale)) {
        const char *missing = request->model == NULL      ? "--model"
                              : request->hardware == NULL ? "--hardware"
                                                          : "--gpus (for lengths) or --seq (for clusters)";
        return sp_fail(err, SP_ERROR_USAGE, "%s is missing; for example: %s", missing,
                       sp_format(arena, "seqplan limits --model llama-3.1-8b --hardware dgx-h100 --gpus 8 --sp 8"));
    }
    return true;
}

/* Degrees, method, framework and schedule make a layout; memory options alone leave it open. */
static bool names_layout(const struct command_options *options)
{
    const struct request *request = &options->request;
    const struct sp_option_count *const degrees[] = {&request->tp, &request->sp,       &request->sp_ulysses,
                                                     &request->pp, &request->sp_inner, &request->vpp,
                                                     &request->dp, &request->ep,       &request->etp};
    bool is_named = options->methods != NULL || request->framework >= 0 || request->schedule >= 0 ||
                    request->layout_file != NULL || request->pp_layers != NULL || request->tp_sp >= 0;
    for (size_t i = 0; i < SP_COUNT_OF(degrees); i++) {
        is_named = is_named || degrees[i]->is_given;
    }
    return is_named;
}

/* ---- any layout ------------------------------------------------------------------------------------------------- */

/* What restricts the search beside the model and the machine: options of memory, as a layout would read them. */
static bool restrict_axes(struct command_context *context, struct plan_question *asked, struct sp_error *err)
{
    static const struct sp_option_count one = {.is_given = true, .value = 1};
    struct request request = asked->request;
    struct question *read = sp_arena_alloc(context->arena, sizeof(*read));
    struct plan_recompute *recompute = sp_arena_alloc(context->arena, sizeof(*recompute));
    request.gpus = one;
    request.nodes.is_given = false;
    request.seq = request.seq.is_given ? request.seq : one;
    if (!question_resolve(&request, context->arena, read, err)) {
        return false;
    }
    const struct layout_spec *layout = &read->layout;
    asked->axes.zeros = request.zero >= 0 ? 1U << (unsigned)request.zero : 0;
    unsigned offload = (layout->offloads_activations ? PLAN_OFFLOAD_ACTIVATIONS : 0U) |
                       (layout->offloads_optimizer ? PLAN_OFFLOAD_OPTIMIZER : 0U) |
                       (layout->offloads_parameters ? PLAN_OFFLOAD_PARAMETERS : 0U);
    asked->axes.offloads = request.offload != NULL ? 1U << offload : 0;
    *recompute = (struct plan_recompute){.kind = layout->recompute, .layers = layout->recompute_layers};
    asked->axes.n_recomputes = request.recompute != NULL ? 1 : 0;
    asked->axes.recomputes = recompute;
    asked->axes.micro_batch =
        (struct plan_counts){.n = request.micro_batch.is_given ? 1 : 0, .values = &asked->request.micro_batch.value};
    return true;
}

static bool limit_any(struct command_context *context, const struct command_options *options,
                      struct report_limits *answer, struct sp_error *err)
{
    struct plan_question *asked = sp_arena_alloc(context->arena, sizeof(*asked));
    struct report_limits_row *row = sp_arena_alloc(context->arena, sizeof(*row));
    plan_question_init(asked, context->arena);
    asked->request = options->request;
    answer->rows = row;
    answer->n_rows = 1;
    answer->is_any = true;
    return restrict_axes(context, asked, err) && limits_of_any(asked, context->arena, &row->limits, err);
}

/* ---- layouts ---------------------------------------------------------------------------------------------------- */

/* A rule that a method of a list breaks is said in its row. */
static bool limit_method(struct command_context *context, const struct command_options *options,
                         struct report_limits_row *row, bool is_alone, struct sp_error *err)
{
    struct request request =
        row->method < 0 ? options->request : methods_request(&options->request, (enum method_id)row->method);
    struct sp_error own = {.kind = SP_ERROR_NONE};
    if (limits_of_layout(&request, context->arena, &row->limits, &own)) {
        return true;
    }
    if (is_alone || own.kind != SP_ERROR_USAGE || own.rule[0] == '\0') {
        *err = own;
        return false;
    }
    row->refusal = sp_strdup(context->arena, own.text);
    row->rule = sp_strdup(context->arena, own.rule);
    return true;
}

static bool limit_layouts(struct command_context *context, const struct command_options *options,
                          struct report_limits *answer, struct sp_error *err)
{
    enum method_id methods[N_METHODS];
    int n_methods = 0;
    if (options->methods != NULL && !methods_parse(context->arena, options->methods, methods, &n_methods, err)) {
        return false;
    }
    bool is_sp_given = options->request.sp.is_given || options->request.layout_file != NULL;
    for (int i = 0; i < n_methods; i++) {
        if (method_splits(methods[i]) && !is_sp_given) {
            return sp_fail(err, SP_ERROR_USAGE,
                           "limits: %s splits the sequence over --sp ranks: give --sp, for example --sp 8",
                           method_names[methods[i]]);
        }
    }
    answer->n_rows = n_methods > 0 ? n_methods : 1;
    struct report_limits_row *rows = sp_arena_array(context->arena, (size_t)answer->n_rows, sizeof(*rows));
    answer->rows = rows;
    bool is_good = true;
    for (int i = 0; i < answer->n_rows && is_good; i++) {
        rows[i].method = n_methods > 0 ? (int)methods[i] : -1;
        is_good = limit_method(context, options, &rows[i], answer->n_rows == 1, err);
    }
    return is_good;
}

bool cmd_limits(struct command_context *context, int argc, char **argv, struct sp_error *err)
{
    struct command_options options;
    if (!command_options_parse(context, argc, argv, &options, NULL, err)) {
        return false;
    }
    if (options.wants_help) {
        return true;
    }
    struct report_limits answer = {.request = &options.request};
    if (!check_request(context->arena, &options.request, err) ||
        !(names_layout(&options) ? limit_layouts(context, &options, &answer, err)
                                 : limit_any(context, &options, &answer, err))) {
        return false;
    }
    const struct report_style style = command_style(context, &options);
    context->status = report_limits(&style, context->arena, &answer) ? 0 : 1;
    return true;
}
