#include "spec/spec_internal.h"

#include <assert.h>

/* `count` layers over pp stages; the remainder goes one each to the middle stages. With an odd number left over, the
 * first stage takes it rather than the last, which also holds the output layer and the loss. */
static int64_t spread(int64_t count, int64_t pp, int64_t stage)
{
    int64_t remainder = count % pp;
    int64_t first = (pp - remainder) / 2;
    bool takes_one = stage >= first && stage < first + remainder;
    return count / pp + (takes_one ? 1 : 0);
}

/* Layers before a stage, of those that spread() gives. */
static int64_t spread_before(int64_t count, int64_t pp, int64_t stage)
{
    int64_t remainder = count % pp;
    int64_t first = (pp - remainder) / 2;
    int64_t passed = stage > first ? stage - first : 0;
    return count / pp * stage + (passed < remainder ? passed : remainder);
}

int64_t layout_stage_layers(const struct layout_spec *layout, const struct model_spec *model, int64_t stage)
{
    assert(stage >= 0 && stage < layout->pp);
    switch (layout->pp_layers) {
    case PP_LAYERS_EVEN:
    case PP_LAYERS_AUTO:
        return spread(model->n_layers, layout->pp, stage);
    case PP_LAYERS_PADDED: {
        /* Embedding and loss stand for a layer each, as in Megatron's --account-for-*-in-pipeline-split. */
        int64_t with_ends = spread(model->n_layers + 2, layout->pp, stage);
        return with_ends - (stage == 0 ? 1 : 0) - (stage == layout->pp - 1 ? 1 : 0);
    }
    case PP_LAYERS_EXPLICIT:
        assert(stage < layout->n_stage_layers);
        return layout->stage_layers[stage];
    }
    return 0;
}

int64_t layout_stage_first(const struct layout_spec *layout, const struct model_spec *model, int64_t stage)
{
    assert(stage >= 0 && stage < layout->pp);
    switch (layout->pp_layers) {
    case PP_LAYERS_EVEN:
    case PP_LAYERS_AUTO:
        return spread_before(model->n_layers, layout->pp, stage);
    case PP_LAYERS_PADDED:
        return spread_before(model->n_layers + 2, layout->pp, stage) - (stage > 0 ? 1 : 0);
    case PP_LAYERS_EXPLICIT:
        break;
    }
    int64_t first = 0;
    for (int64_t before = 0; before < stage; before++) {
        first += layout->stage_layers[before];
    }
    return first;
}

const char *stage_layers_text(struct sp_arena *arena, const struct layout_spec *layout, const struct model_spec *model)
{
    char *text = sp_strdup(arena, "");
    int64_t run = 1;
    int n_runs = 0;
    for (int64_t stage = 0; stage < layout->pp; stage += run) {
        int64_t layers = layout_stage_layers(layout, model, stage);
        for (run = 1; stage + run < layout->pp && layout_stage_layers(layout, model, stage + run) == layers;) {
            run++;
        }
        text = sp_format(arena, "%s%s%lld", text, n_runs > 0 ? ", " : "", (long long)layers);
        if (run > 1) {
            text = sp_format(arena, "%s x %lld", text, (long long)run);
        }
        n_runs++;
    }
    return text;
}

int64_t gcd_of(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}
