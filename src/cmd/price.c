#include "cmd/command.h"

bool price_request(const struct request *request, struct sp_arena *arena, struct priced *priced, struct sp_error *err)
{
    *priced = (struct priced){.is_resolved = false};
    if (!question_resolve(request, arena, &priced->question, err)) {
        return false;
    }
    priced->is_resolved = true;
    if (!step_check(&priced->question, err)) {
        return false;
    }
    step_estimate(&priced->question, &priced->estimate);
    step_interval(&priced->question, &priced->estimate);
    step_remarks(&priced->question, &priced->estimate);
    priced->data_hash = report_data_hash(arena, &priced->question, err);
    return priced->data_hash != NULL;
}

/* What is known of a layout when the question could not even be completed. */
static const struct sp_json *asked_layout(struct sp_arena *arena, const struct request *request)
{
    const struct {
        const char *key;
        const struct sp_option_count *count;
    } counts[] = {{"tp", &request->tp},
                  {"sp", &request->sp},
                  {"pp", &request->pp},
                  {"vpp", &request->vpp},
                  {"dp", &request->dp},
                  {"ep", &request->ep},
                  {"etp", &request->etp},
                  {"sp_ulysses", &request->sp_ulysses},
                  {"sp_inner", &request->sp_inner},
                  {"micro_batch", &request->micro_batch}};
    struct report_tree tree;
    report_tree_open(&tree, arena);
    for (size_t i = 0; i < SP_COUNT_OF(counts); i++) {
        if (counts[i].count->is_given) {
            report_tree_number(&tree, counts[i].key, (double)counts[i].count->value);
        }
    }
    if (request->method >= 0) {
        report_tree_string(&tree, "sp_method", method_names[request->method]);
    }
    if (request->framework >= 0) {
        report_tree_string(&tree, "framework", framework_names[request->framework]);
    }
    return report_tree_close(&tree);
}

const struct sp_json *price_row(const struct row_pricing *pricing, const struct request *request, struct priced *priced,
                                struct sp_error *err)
{
    struct sp_error row_err = {.kind = SP_ERROR_NONE};
    if (price_request(request, pricing->scratch, priced, &row_err)) {
        const struct answer answer = {
            .question = &priced->question, .estimate = &priced->estimate, .data_hash = priced->data_hash};
        return report_answer_tree(pricing->style, pricing->kept, &answer);
    }
    if (row_err.kind != SP_ERROR_USAGE || row_err.rule[0] == '\0') {
        *err = row_err;
        return NULL;
    }
    const struct sp_json *layout = priced->is_resolved ? report_layout_tree(pricing->kept, &priced->question)
                                                       : asked_layout(pricing->kept, request);
    return report_error_tree(pricing->kept, layout, &row_err);
}
