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
    step_remarks(&priced->question, &priced->estimate);
    priced->data_hash = report_data_hash(arena, &priced->question, err);
    return priced->data_hash != NULL;
}
