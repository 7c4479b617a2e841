/* Stages that are alike: the same layers in the same order, the same ends. Whatever is summed over stages is summed over
 * their classes. */
#include "step/step_internal.h"

#include <assert.h>
#include <string.h>

static bool is_alike(const struct model_spec *model, const struct stage_class *a, const struct stage_class *b)
{
    return a->layers == b->layers && a->has_embedding == b->has_embedding && a->has_head == b->has_head &&
           (model->n_kinds == 1 || memcmp(&model->kind_of_layer[a->first], &model->kind_of_layer[b->first],
                                          (size_t)a->layers * sizeof(model->kind_of_layer[0])) == 0);
}

static struct stage_class class_of(const struct question *question, int64_t stage)
{
    const struct layout_spec *layout = &question->layout;
    const struct model_spec *model = &question->model;
    struct stage_class class = {
        .stage = stage,
        .count = 1,
        .first = layout_stage_first(layout, model, stage),
        .layers = layout_stage_layers(layout, model, stage),
        .has_embedding = schedule_holds_embedding(layout, stage),
        .has_head = schedule_holds_head(layout, stage),
    };
    /* a later stage with no more layers holds fewer micro-batches of the same: only ends and heavier ones can be worst */
    bool is_end = stage == 0 || stage == layout->pp - 1;
    class.can_be_worst = model->n_kinds > 1 || is_end || class.layers > layout_stage_layers(layout, model, stage - 1);
    return class;
}

int stage_classes(const struct question *question, struct stage_class classes[MAX_STAGE_CLASSES])
{
    int n = 0;
    for (int64_t stage = 0; stage < question->layout.pp; stage++) {
        struct stage_class class = class_of(question, stage);
        int i = 0;
        while (i < n && !is_alike(&question->model, &classes[i], &class)) {
            i++;
        }
        if (i < n) {
            classes[i].count++;
            classes[i].can_be_worst = classes[i].can_be_worst || class.can_be_worst;
            continue;
        }
        assert(n < MAX_STAGE_CLASSES);
        classes[n++] = class;
    }
    return n;
}

int stage_runs(const struct question *question, const struct stage_class *classes, int n_classes,
               struct stage_run runs[MAX_STAGE_RUNS])
{
    int n = 0;
    for (int64_t stage = 0; stage < question->layout.pp; stage++) {
        struct stage_class class = class_of(question, stage);
        int i = 0;
        while (i + 1 < n_classes && !is_alike(&question->model, &classes[i], &class)) {
            i++;
        }
        if (n > 0 && runs[n - 1].class == i) {
            runs[n - 1].count++;
            continue;
        }
        assert(n < MAX_STAGE_RUNS);
        runs[n++] = (struct stage_run){.class = i, .count = 1};
    }
    return n;
}

void class_kinds(const struct step_shape *shape, const struct stage_class *class, int64_t layers,
                 double counts[MAX_LAYER_KINDS])
{
    const struct model_spec *model = &shape->question->model;
    if (model->n_kinds == 1) {
        counts[0] = (double)layers;
        return;
    }
    for (int k = 0; k < model->n_kinds; k++) {
        counts[k] =
            (double)(model->prefixes[class->first + layers].counts[k] - model->prefixes[class->first].counts[k]);
    }
}

int64_t class_recomputed_layers(const struct step_shape *shape, const struct stage_class *class)
{
    const struct layout_spec *layout = &shape->question->layout;
    switch (layout->recompute) {
    case RECOMPUTE_FULL:
        return class->layers;
    case RECOMPUTE_SELECTIVE:
        return keeps_products(shape) ? class->layers : 0;
    case RECOMPUTE_BLOCK: {
        int64_t wanted = layout->recompute_layers * layout->vpp; /* per virtual stage */
        return wanted < class->layers ? wanted : class->layers;
    }
    case RECOMPUTE_NONE:
        break;
    }
    return 0;
}

int64_t class_last_of_kind(const struct step_shape *shape, const struct stage_class *class, int64_t layer, int kind)
{
    const struct model_spec *model = &shape->question->model;
    if (layer < 1 || model->n_kinds == 1) {
        return layer;
    }
    int64_t last = model->prefixes[class->first + layer].lasts[kind] - class->first;
    return last > 0 ? last : 0;
}

int64_t class_first_of_kind(const struct step_shape *shape, const struct stage_class *class, int64_t layer, int kind)
{
    const struct layer_prefix *prefixes = shape->question->model.prefixes;
    int32_t before = prefixes[class->first + layer - 1].counts[kind];
    if (layer > class->layers || prefixes[class->first + class->layers].counts[kind] == before) {
        return 0;
    }
    int64_t low = layer; /* the smallest prefix with one more */
    int64_t high = class->layers;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (prefixes[class->first + middle].counts[kind] > before) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}
