/* compare: every sequence-parallel method on one cluster, the same settings in every row. */
#include "cmd/command.h"

#include "method/method.h"

#include <string.h>

/* Without a split first, as what the others are measured against. */
static const enum method_id all_methods[N_METHODS] = {
    METHOD_NAIVE,  METHOD_NONE,    METHOD_ALLGATHER, METHOD_ULYSSES,     METHOD_RING,
    METHOD_ZIGZAG, METHOD_STRIPED, METHOD_USP,       METHOD_DOUBLE_RING, METHOD_FUSED_RING,
};

/* One run over the methods. */
struct comparison {
    struct command_context *context;
    const struct command_options *options;
    struct report_style style;
    struct sp_arena *scratch;
    enum method_id methods[N_METHODS];
    int n_methods;
    const char *global_batch; /* of every row; NULL: each row's own, they are alike */
    bool is_batch_assumed;
    bool splits; /* a row splits the sequence */
    bool fits;
};

/* ---- which methods ---------------------------------------------------------------------------------------------- */

static enum framework_id framework_of(const struct comparison *comparison, enum method_id method)
{
    int asked = comparison->options->request.framework;
    return asked >= 0 ? (enum framework_id)asked : method_home(method);
}

/* All that are built; a method that the user names is a row even if it can only say why not. */
static bool choose_methods(struct comparison *comparison, struct sp_error *err)
{
    if (comparison->options->methods != NULL) {
        return methods_parse(comparison->context->arena, comparison->options->methods, comparison->methods,
                             &comparison->n_methods, err);
    }
    for (size_t i = 0; i < SP_COUNT_OF(all_methods); i++) {
        if (method_is_built(all_methods[i], framework_of(comparison, all_methods[i]))) {
            comparison->methods[comparison->n_methods++] = all_methods[i];
        }
    }
    return true;
}

/* ---- rows ------------------------------------------------------------------------------------------------------- */

static struct request request_of(const struct comparison *comparison, enum method_id method, struct sp_arena *arena)
{
    const struct request *base = &comparison->options->request;
    struct request request = methods_request(base, method);
    if (comparison->global_batch != NULL) {
        request.global_batch = comparison->global_batch;
        request.assumed = (struct sp_texts){.arena = arena};
        for (size_t i = 0; i < base->assumed.count; i++) {
            sp_texts_add(&request.assumed, "%s", base->assumed.items[i]);
        }
        if (comparison->is_batch_assumed) {
            sp_texts_add(&request.assumed, "global batch %s", comparison->global_batch);
        }
    }
    return request;
}

/* A batch that follows from dp would be another one for what does not split: the largest is legal for all. */
static void agree_on_batch(struct comparison *comparison)
{
    int64_t largest = 0;
    int64_t smallest = INT64_MAX;
    for (int i = 0; i < comparison->n_methods; i++) {
        struct sp_arena_mark mark = sp_arena_mark(comparison->scratch);
        struct request request = request_of(comparison, comparison->methods[i], comparison->scratch);
        struct question *question = sp_arena_alloc(comparison->scratch, sizeof(*question));
        struct sp_error later = {.kind = SP_ERROR_NONE}; /* its row will say so */
        if (question_resolve(&request, comparison->scratch, question, &later)) {
            int64_t batch = question->run.global_batch;
            largest = batch > largest ? batch : largest;
            smallest = batch < smallest ? batch : smallest;
            comparison->splits = comparison->splits || question->layout.sp > 1;
        }
        sp_arena_rewind(comparison->scratch, mark);
    }
    if (smallest < largest) {
        comparison->global_batch = sp_format(comparison->context->arena, "%lld", (long long)largest);
        comparison->is_batch_assumed = comparison->options->request.global_batch == NULL;
    }
}

static bool fill_row(struct comparison *comparison, enum method_id method, struct report_row *row, struct sp_error *err)
{
    struct sp_arena *arena = comparison->context->arena;
    struct sp_arena_mark mark = sp_arena_mark(comparison->scratch);
    const struct row_pricing pricing = {&comparison->style, arena, comparison->scratch};
    struct request request = request_of(comparison, method, comparison->scratch);
    struct priced *priced = sp_arena_alloc(comparison->scratch, sizeof(*priced));
    const struct sp_json *answer = price_row(&pricing, &request, priced, err);
    bool is_priced = answer != NULL && sp_json_member(answer, "error") == NULL;
    if (is_priced) {
        struct report_link links[REPORT_MAX_LINKS];
        int n_links = price_links(&request, comparison->scratch, priced, links);
        answer = report_answer_with_links(arena, answer, links, n_links);
        comparison->fits = comparison->fits || priced->estimate.fits;
    }
    const char **values = sp_arena_array(arena, 1, sizeof(*values));
    values[0] = method_names[method];
    *row = (struct report_row){.values = values, .answer = answer};
    sp_arena_rewind(comparison->scratch, mark);
    return answer != NULL;
}

static bool names_a_split(const struct comparison *comparison)
{
    for (int i = 0; i < comparison->n_methods; i++) {
        if (method_splits(comparison->methods[i])) {
            return true;
        }
    }
    return false;
}

static bool price_methods(struct comparison *comparison, struct report_row *rows, struct sp_error *err)
{
    agree_on_batch(comparison);
    int64_t sp = comparison->options->request.sp.is_given ? comparison->options->request.sp.value : 1;
    if (!comparison->splits && sp == 1 && names_a_split(comparison)) {
        return sp_fail(err, SP_ERROR_USAGE,
                       "compare: with sp 1 no method splits the sequence and all are alike: give --sp above 1, for "
                       "example --sp 8");
    }
    bool is_good = true;
    for (int i = 0; i < comparison->n_methods && is_good; i++) {
        is_good = fill_row(comparison, comparison->methods[i], &rows[i], err);
    }
    return is_good;
}

static bool compare(struct comparison *comparison, struct sp_error *err)
{
    static const char *const names[] = {"sp-method"};
    struct sp_arena *arena = comparison->context->arena;
    if (!choose_methods(comparison, err)) {
        return false;
    }
    struct report_row *filled = sp_arena_array(arena, (size_t)comparison->n_methods + 1, sizeof(*filled));
    comparison->scratch = sp_arena_open();
    bool is_good = price_methods(comparison, filled, err);
    sp_arena_close(comparison->scratch);
    if (!is_good) {
        return false;
    }
    const struct report_rows rows = {.names = names,
                                     .n_names = (int)SP_COUNT_OF(names),
                                     .rows = filled,
                                     .n_rows = comparison->n_methods,
                                     .is_comparison = true};
    report_compare(&comparison->style, arena, &rows);
    comparison->context->status = comparison->fits ? 0 : 1;
    return true;
}

bool cmd_compare(struct command_context *context, int argc, char **argv, struct sp_error *err)
{
    struct command_options options;
    if (!command_options_parse(context, argc, argv, &options, NULL, err)) {
        return false;
    }
    if (options.wants_help) {
        return true;
    }
    const char *layout = options.request.layout_file;
    if (layout != NULL && strcmp(layout, "-") == 0) {
        return sp_fail(err, SP_ERROR_USAGE,
                       "compare reads the layout again for every row: give --layout a file, not -");
    }
    if (!request_is_complete(context->arena, &options.request, question_example, err)) {
        return false;
    }
    struct comparison comparison = {.context = context, .options = &options, .style = command_style(context, &options)};
    return compare(&comparison, err);
}
