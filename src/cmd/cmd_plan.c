/* plan: searches the layouts of a question, and ranks what fits. */
#include "cmd/sweep.h"

/* ---- progress ---------------------------------------------------------------------------------------------------- */

/* One line on a terminal's standard error, written over and over, gone at the end. */
struct progress_line {
    FILE *file;
    int64_t shown_percent; /* -1: none yet */
};

static void show_progress(void *user, int64_t done, int64_t total)
{
    enum { WHOLE = 100 };
    struct progress_line *line = user;
    int64_t percent = total > 0 ? (int64_t)((double)done / (double)total * WHOLE) : 0;
    if (percent == line->shown_percent) {
        return;
    }
    line->shown_percent = percent;
    (void)fprintf(line->file, "\r  searched %lld %% of %lld layouts\033[K", (long long)percent, (long long)total);
    (void)fflush(line->file);
}

static void clear_progress(const struct progress_line *line)
{
    if (line->shown_percent >= 0) {
        (void)fputs("\r\033[K", line->file);
        (void)fflush(line->file);
    }
}

/* ---- the question ------------------------------------------------------------------------------------------------ */

static bool check_headroom(struct sp_arena *arena, const struct plan_question *question, const struct question *base,
                           struct sp_error *err)
{
    double capacity_bytes = base->hardware.gpu.hbm_capacity.value;
    bool is_all = question->headroom_frac >= 1.0 || question->headroom_bytes >= capacity_bytes;
    const char *asked =
        question->headroom_frac > 0.0 ? "100%" : sp_quantity_print(arena, question->headroom_bytes, SP_BYTES);
    return !is_all || sp_fail_rule(err, "headroom", "--headroom: %s is all that a GPU has: expected less than its %s",
                                   asked, sp_quantity_print(arena, capacity_bytes, SP_BYTES));
}

/* The cluster in GPUs, and the question of any layout of the space, for what all have in common. */
static bool resolve_cluster(const struct command_context *context, struct plan_question *question,
                            struct question *base, struct sp_error *err)
{
    static const char example[] = "seqplan plan --model llama-3.1-8b --hardware dgx-h100 --gpus 8 --seq 128K";
    struct request *request = &question->request;
    question->is_of_nodes = request->nodes.is_given;
    question->is_of_max_gpus = !request->gpus.is_given && !request->nodes.is_given;
    if (!request->gpus.is_given && !request->nodes.is_given && question->max_gpus > 0) {
        request->gpus = (struct sp_option_count){.is_given = true, .value = question->max_gpus};
    }
    if (!request_is_complete(context->arena, request, example, err) ||
        !question_resolve(request, context->arena, base, err)) {
        return false;
    }
    request->gpus = (struct sp_option_count){.is_given = true, .value = base->run.gpus};
    request->nodes.is_given = false;
    if (question->max_gpus > base->run.gpus) {
        return sp_fail(err, SP_ERROR_USAGE, "--max-gpus: expected at most the %lld of the cluster, found %lld",
                       (long long)base->run.gpus, (long long)question->max_gpus);
    }
    if (question->objective == PLAN_COST && base->hardware.gpu.price.kind == SP_FIGURE_NONE) {
        return sp_fail(err, SP_ERROR_USAGE,
                       "--objective cost: the price of a %s is not known: add it, as in --set gpu.price=3/h",
                       base->hardware.gpu.title);
    }
    return check_headroom(context->arena, question, base, err) && plan_options_check(question, context->arena, err) &&
           plan_axes_check(question, context->arena, err);
}

/* ---- the answer -------------------------------------------------------------------------------------------------- */

/* What answering takes. */
struct answering {
    struct sp_arena *arena; /* of the answers */
    const struct report_style *style;
    const struct plan_question *question;
};

/* Prices a layout anew, with all that the search leaves out. */
static bool price_layout(const struct answering *answering, const struct plan_layout *layout, struct sp_arena *arena,
                         struct answer *answer, struct sp_error *err)
{
    struct question *resolved = sp_arena_alloc(arena, sizeof(*resolved));
    struct estimate *estimate = sp_arena_alloc(arena, sizeof(*estimate));
    *answer = (struct answer){.question = resolved, .estimate = estimate};
    if (!plan_answer(answering->question, layout, arena, resolved, estimate, err)) {
        return false;
    }
    answer->data_hash = report_data_hash(arena, resolved, err);
    return answer->data_hash != NULL;
}

/* The whole answer of a layout; NULL and *err when it has none. */
static const struct sp_json *answer_layout(const struct answering *answering, const struct plan_layout *layout,
                                           struct sp_error *err)
{
    struct sp_arena *scratch = sp_arena_open();
    struct answer answer;
    const struct sp_json *tree = NULL;
    if (price_layout(answering, layout, scratch, &answer, err)) {
        tree = report_answer_tree(answering->style, answering->arena, &answer);
    }
    sp_arena_close(scratch);
    return tree;
}

static bool answer_layouts(const struct answering *answering, struct report_plan *report, struct sp_error *err)
{
    const struct plan *plan = report->plan;
    const struct sp_json **answers = sp_arena_array(answering->arena, (size_t)plan->n_layouts + 1, sizeof(*answers));
    for (int i = 0; i < plan->n_layouts; i++) {
        answers[i] = answer_layout(answering, &plan->layouts[i], err);
        if (answers[i] == NULL) {
            return false;
        }
    }
    report->answers = answers;
    const struct plan_layout *best = plan->n_layouts > 0      ? &plan->layouts[0]
                                     : plan->has_nearest_miss ? &plan->nearest_miss
                                                              : NULL;
    if (best == NULL) {
        return true;
    }
    struct answer *answer = sp_arena_alloc(answering->arena, sizeof(*answer));
    if (!price_layout(answering, best, answering->arena, answer, err)) {
        return false;
    }
    report->best = answer;
    if (plan->n_layouts == 0) {
        report->nearest_miss = report_answer_tree(answering->style, answering->arena, answer);
    }
    return true;
}

/* Beside the layouts: how far the answer depends on the machine or, when nothing fits, what would. */
static bool look_around(struct command_context *context, const struct plan_question *question,
                        struct report_plan *report, struct sp_error *err)
{
    struct sensitivity *sensitivity = sp_arena_alloc(context->arena, sizeof(*sensitivity));
    struct sp_texts *changes = sp_arena_alloc(context->arena, sizeof(*changes));
    *changes = (struct sp_texts){.arena = context->arena};
    if (report->plan->is_interrupted) {
        return true; /* what is asked for is the answer so far */
    }
    if (report->plan->n_layouts == 0) {
        report->changes = changes;
        return plan_advice(question, report->plan, context->arena, changes, err);
    }
    report->sensitivity = sensitivity;
    return sensitivity_of_plan(question, report->plan, context->arena, sensitivity, err);
}

static bool search(struct command_context *context, struct plan_question *question, struct plan *plan,
                   struct sp_error *err)
{
    struct progress_line *line = sp_arena_alloc(context->arena, sizeof(*line)); /* the question keeps its address */
    *line = (struct progress_line){.file = stderr, .shown_percent = -1};
    if (context->has_progress) {
        question->progress = show_progress;
        question->user = line;
    }
    bool is_good = plan_search(question, context->arena, plan, err);
    clear_progress(line);
    return is_good;
}

/* Printed as far as it is. The exit code is that of a sweep that was interrupted. */
static void end_plan(struct command_context *context, const struct plan *plan)
{
    context->status = plan->n_layouts > 0 ? 0 : 1;
    if (plan->is_interrupted) {
        context->status = SP_ERROR_IO;
        (void)fflush(context->out);
        (void)fprintf(stderr, "seqplan: interrupted after %lld layouts, the rest was not considered\n",
                      (long long)plan->considered);
    }
}

/* Searches and prints; the question is complete. */
static bool answer_plan(struct command_context *context, const struct command_options *options,
                        struct plan_question *question, const struct question *base, struct sp_error *err)
{
    struct sp_arena *arena = context->arena;
    struct plan *plan = sp_arena_alloc(arena, sizeof(*plan));
    const struct report_style style = command_style(context, options);
    const struct answering answering = {arena, &style, question};
    struct report_plan report = {.asked = question, .base = base, .plan = plan};
    bool is_good = search(context, question, plan, err) &&
                   (plan->is_interrupted || plan_single_check(question, &options->plan, plan, arena, err)) &&
                   answer_layouts(&answering, &report, err) && look_around(context, question, &report, err);
    if (is_good) {
        report_plan(&style, arena, &report);
        end_plan(context, plan);
    }
    return is_good;
}

static bool plan_one(struct command_context *context, const struct command_options *options, struct sp_error *err)
{
    struct plan_question *question = sp_arena_alloc(context->arena, sizeof(*question));
    struct question *base = sp_arena_alloc(context->arena, sizeof(*base));
    if (!plan_options_read(options, context->arena, question, err) || !resolve_cluster(context, question, base, err)) {
        return false;
    }
    question->is_stopped = interrupt_is_asked;
    interrupt_watch();
    bool is_good = answer_plan(context, options, question, base, err);
    interrupt_unwatch();
    return is_good;
}

/* ---- a row of --vary --------------------------------------------------------------------------------------------- */

/* An answer, and of how many layouts it is the best. */
static const struct sp_json *with_count(struct sp_arena *arena, const struct sp_json *answer, const struct plan *plan)
{
    struct report_tree tree;
    report_tree_open(&tree, arena);
    for (const struct sp_json *member = answer->first; member != NULL; member = member->next) {
        report_tree_value(&tree, member->key, member);
    }
    report_tree_number(&tree, "evaluated", (double)plan->evaluated);
    return report_tree_close(&tree);
}

/* What no layout of the space keeps: the reason that dropped most. */
static const struct sp_json *no_layout(struct sp_arena *arena, const struct sp_json *layout, const struct plan *plan)
{
    struct sp_error why = {.kind = SP_ERROR_NONE};
    const struct plan_rejection *most = plan->n_rejections > 0 ? &plan->rejections[0] : NULL;
    (void)sp_fail_rule(&why, most == NULL ? "no_layout" : most->reason,
                       "none of %lld layouts keeps what is asked; %lld of them, %s: %s", (long long)plan->considered,
                       most == NULL ? 0LL : (long long)most->count, most == NULL ? "no layout" : most->reason,
                       most == NULL || most->example == NULL ? "" : most->example);
    return report_error_tree(arena, layout, &why);
}

/* The best layout. Where none fits, the nearest miss if it is the memory of a GPU or node that it lacks: priced in full,
 * as in estimate; it may also fit there and miss what is asked beyond that. */
static const struct sp_json *best_of(const struct answering *answering, const struct plan *plan, struct sp_error *err)
{
    const struct plan_layout *best = plan->n_layouts > 0 ? &plan->layouts[0] : &plan->nearest_miss;
    if (plan->n_layouts == 0 && !plan->has_nearest_miss) {
        struct report_tree nothing;
        report_tree_open(&nothing, answering->arena);
        return no_layout(answering->arena, report_tree_close(&nothing), plan);
    }
    const struct sp_json *answer = answer_layout(answering, best, err);
    if (answer != NULL && plan->n_layouts == 0 && report_tree_at(answer, "fits")->boolean) {
        return no_layout(answering->arena, report_tree_at(answer, "layout"), plan);
    }
    return answer;
}

/* In the memory of the row, and without a progress line of its own. */
static const struct sp_json *plan_tree(struct command_context *context, const struct command_options *options,
                                       struct sp_error *err)
{
    struct plan_question *question = sp_arena_alloc(context->arena, sizeof(*question));
    struct question *base = sp_arena_alloc(context->arena, sizeof(*base));
    struct plan *plan = sp_arena_alloc(context->arena, sizeof(*plan));
    const struct report_style style = command_style(context, options);
    if (!plan_options_read(options, context->arena, question, err) || !resolve_cluster(context, question, base, err) ||
        !search(context, question, plan, err)) {
        return NULL;
    }
    const struct answering answering = {context->arena, &style, question};
    const struct sp_json *answer = best_of(&answering, plan, err);
    return answer == NULL ? NULL : with_count(context->arena, answer, plan);
}

static bool plan_row(void *user, struct command_options *options, struct sp_arena *scratch, const char **json,
                     struct sp_error *err)
{
    struct command_context context = *(const struct command_context *)user;
    struct sp_error row_err = {.kind = SP_ERROR_NONE};
    context.arena = scratch;
    context.has_progress = false;
    const struct sp_json *row = plan_tree(&context, options, &row_err);
    if (row == NULL && row_err.kind == SP_ERROR_USAGE && row_err.rule[0] != '\0') {
        struct report_tree nothing;
        report_tree_open(&nothing, scratch);
        row = report_error_tree(scratch, report_tree_close(&nothing), &row_err);
    }
    if (row == NULL) {
        *err = row_err;
        return false;
    }
    *json = report_tree_text(scratch, row);
    return *json != NULL;
}

bool cmd_plan(struct command_context *context, int argc, char **argv, struct sp_error *err)
{
    struct command_options options;
    if (!command_options_parse(context, argc, argv, &options, NULL, err)) {
        return false;
    }
    const struct sweep sweep = {
        .context = context, .command = "plan", .options = &options, .row = plan_row, .user = context};
    if (options.wants_help) {
        return true;
    }
    return sweep_options_check(&options, err) &&
           (options.vary.count > 0 ? sweep_run(&sweep, err) : plan_one(context, &options, err));
}
