/* The whole answer of one layout of a plan. */
#include "search/search_internal.h"

bool plan_answer(const struct plan_question *question, const struct plan_layout *layout, struct sp_arena *arena,
                 struct question *resolved, struct estimate *estimate, struct sp_error *err)
{
    struct plan_question asked = *question;
    asked.axes.frameworks = 1U << (unsigned)layout->layout.framework;
    struct space space;
    if (!space_open(&asked, layout->gpus, arena, &space, err)) {
        return false;
    }
    const struct question *base = space.bases[layout->layout.framework];
    struct request request = space_request(&space, layout->layout.framework);
    question_with_layout(base, &request, &layout->layout, resolved);
    if (space.is_batch_assumed) {
        sp_texts_add(&resolved->assumed, "global batch %lld", (long long)space.global_batch);
    }
    if (!step_check(resolved, err)) {
        return false;
    }
    step_estimate(resolved, estimate);
    step_remarks(resolved, estimate);
    return true;
}
