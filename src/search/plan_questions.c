/* Many layouts of a plan as questions. */
#include "search/search_internal.h"

static const struct question *open_base(const struct plan_question *asked, const struct plan_layout *layout,
                                        struct sp_arena *arena, struct sp_error *err)
{
    struct plan_question own = *asked;
    own.axes.frameworks = 1U << (unsigned)layout->layout.framework;
    struct space *space = sp_arena_alloc(arena, sizeof(*space));
    return space_open(&own, layout->gpus, arena, space, err) ? space->bases[layout->layout.framework] : NULL;
}

/* One before it of the same framework and cluster, or its own index. */
static int find_alike(const struct plan_layout *layouts, int index)
{
    int alike = 0;
    while (alike < index && (layouts[alike].gpus != layouts[index].gpus ||
                             layouts[alike].layout.framework != layouts[index].layout.framework)) {
        alike++;
    }
    return alike;
}

const struct question *plan_questions(const struct plan_question *asked, const struct plan_layout *layouts, int n,
                                      struct sp_arena *arena, struct sp_error *err)
{
    struct question *questions = sp_arena_array(arena, (size_t)n + 1, sizeof(*questions));
    for (int i = 0; i < n; i++) {
        int alike = find_alike(layouts, i);
        const struct question *base = alike < i ? &questions[alike] : open_base(asked, &layouts[i], arena, err);
        if (base == NULL) {
            return NULL;
        }
        questions[i] = *base;
        questions[i].layout = layouts[i].layout;
    }
    return questions;
}
