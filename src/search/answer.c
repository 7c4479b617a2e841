/* The whole answer of one layout of a plan. */
#include "search/search_internal.h"

/* What the search found must be what the estimate says. */
static bool check_figures(const struct plan_layout *layout, const struct estimate *estimate, struct sp_error *err)
{
    bool is_same = !(layout->step_time_s < estimate->step_time_s) && !(layout->step_time_s > estimate->step_time_s) &&
                   !(layout->peak_bytes < estimate->peak_bytes) && !(layout->peak_bytes > estimate->peak_bytes);
    return is_same ||
           sp_fail(err, SP_ERROR_BUG, "plan: a step of %.17g s in %.17g bytes is %.17g s in %.17g bytes in estimate",
                   layout->step_time_s, layout->peak_bytes, estimate->step_time_s, estimate->peak_bytes);
}

bool plan_answer(const struct plan_question *question, const struct plan_layout *layout, struct sp_arena *arena,
                 struct question *resolved, struct estimate *estimate, struct sp_error *err)
{
    const struct space space = {.asked = question, .gpus = layout->gpus};
    struct request request = space_request(&space, layout->layout.framework);
    question_with_layout(layout->base, &request, &layout->layout, arena, resolved);
    if (request.global_batch == NULL) {
        sp_texts_add(&resolved->assumed, "global batch %lld", (long long)resolved->run.global_batch);
    }
    if (!step_check(resolved, err)) {
        return false;
    }
    step_estimate(resolved, estimate);
    step_interval(resolved, estimate);
    step_remarks(resolved, estimate);
    return check_figures(layout, estimate, err);
}
