/* The pipeline: layers over stages and chunks, what each schedule needs, micro-batches. */
#include "spec/spec_internal.h"

/* ---- layers over stages ----------------------------------------------------------------------------------------- */

/* What Megatron would train of a model whose layers do not divide: the rest is dropped without a word. */
static const char *silent_loss_text(const struct question *question)
{
    const struct layout_spec *layout = &question->layout;
    int64_t chunks = layout->pp * layout->vpp;
    int64_t n_layers = question->model.n_layers;
    if (layout->framework != FRAMEWORK_MEGATRON || layout->vpp == 1 || chunks > n_layers) {
        return "";
    }
    int64_t trained = n_layers / chunks * chunks;
    return sp_format(question->arena, " (megatron has trained %lld of them without a word)", (long long)trained);
}

static bool fail_remainder(const struct question *question, struct sp_error *err)
{
    const struct layout_spec *layout = &question->layout;
    int64_t n_layers = question->model.n_layers;
    int64_t chunks = layout->pp * layout->vpp;
    struct layout_spec split = *layout;
    split.pp_layers = PP_LAYERS_AUTO;
    const char *stages = stage_layers_text(question->arena, &split, &question->model);
    if (layout->vpp == 1) {
        return sp_fail_rule(err, "layers_over_pp",
                            "%lld layers do not divide by pp %lld: --pp-layers auto would use %s; pp that divides: %s",
                            (long long)n_layers, (long long)layout->pp, stages,
                            divisors_text(question->arena, n_layers, layout->pp));
    }
    const char *legal =
        n_layers % layout->pp == 0
            ? sp_format(question->arena, "vpp that divides: %s",
                        divisors_text(question->arena, n_layers / layout->pp, layout->vpp))
            : sp_format(question->arena, "pp x vpp that divides: %s", divisors_text(question->arena, n_layers, chunks));
    return sp_fail_rule(err, "layers_over_pp",
                        "%lld layers do not divide by pp %lld x vpp %lld = %lld%s: --pp-layers auto would use %s a "
                        "rank; %s",
                        (long long)n_layers, (long long)layout->pp, (long long)layout->vpp, (long long)chunks,
                        silent_loss_text(question), stages, legal);
}

static bool check_explicit_layers(const struct question *question, struct sp_error *err)
{
    const struct layout_spec *layout = &question->layout;
    if (layout->n_stage_layers != layout->pp) {
        return sp_fail_rule(err, "pp_layers", "pp-layers gives %lld stage%s, pp is %lld",
                            (long long)layout->n_stage_layers, sp_plural(layout->n_stage_layers),
                            (long long)layout->pp);
    }
    int64_t sum = 0;
    for (int64_t stage = 0; stage < layout->pp; stage++) {
        int64_t left = question->model.n_layers - sum;
        if (layout->stage_layers[stage] > left) {
            sum = question->model.n_layers + 1;
            break;
        }
        sum += layout->stage_layers[stage];
    }
    if (sum == question->model.n_layers) {
        return true;
    }
    int64_t told = sum > question->model.n_layers ? question->model.n_layers : sum;
    return sp_fail_rule(err, "pp_layers", "pp-layers adds up to %s%lld layer%s, the model has %lld",
                        sum > question->model.n_layers ? "more than " : "", (long long)told, sp_plural(told),
                        (long long)question->model.n_layers);
}

/* pp stages of vpp chunks, each with a layer at least; afterwards their product fits. */
static bool check_stage_count(const struct question *question, struct sp_error *err)
{
    const struct layout_spec *layout = &question->layout;
    /* padded: embedding and loss fill a chunk each */
    int64_t n_layers = question->model.n_layers + (layout->pp_layers == PP_LAYERS_PADDED ? 2 : 0);
    if (layout->pp > n_layers) {
        return sp_fail_rule(err, "layers_over_pp", "%lld layer%s fewer than pp %lld stages; largest pp: %lld",
                            (long long)n_layers, n_layers == 1 ? " is" : "s are", (long long)layout->pp,
                            (long long)n_layers);
    }
    if (layout->vpp > n_layers / layout->pp) {
        return sp_fail_rule(err, "layers_over_pp",
                            "%lld layer%s fewer than pp %lld x vpp %lld chunks; largest vpp with this pp: %lld",
                            (long long)n_layers, n_layers == 1 ? " is" : "s are", (long long)layout->pp,
                            (long long)layout->vpp, (long long)(n_layers / layout->pp));
    }
    return true;
}

static bool check_layers(const struct question *question, struct sp_error *err)
{
    const struct layout_spec *layout = &question->layout;
    if (layout->pp_layers == PP_LAYERS_EXPLICIT) {
        return check_explicit_layers(question, err);
    }
    static const char *const ends[] = {"first", "last"};
    const int64_t stages[] = {0, layout->pp - 1};
    for (size_t i = 0; layout->pp_layers == PP_LAYERS_PADDED && i < SP_COUNT_OF(stages); i++) {
        if (layout_stage_layers(layout, &question->model, stages[i]) < 1) {
            return sp_fail_rule(err, "pp_layers",
                                "pp-layers padded leaves no layer for the %s of %lld stage%s; use auto", ends[i],
                                (long long)layout->pp, sp_plural(layout->pp));
        }
    }
    bool needs_even = layout->pp_layers == PP_LAYERS_EVEN && !question->software.framework.spreads_remainder_layers;
    return !needs_even || question->model.n_layers % (layout->pp * layout->vpp) == 0 || fail_remainder(question, err);
}

/* Each of the vpp chunks of a stage needs a layer, which an uneven split may not leave. */
static bool check_chunks(const struct question *question, struct sp_error *err)
{
    const struct layout_spec *layout = &question->layout;
    for (int64_t stage = 0; layout->vpp > 1 && stage < layout->pp; stage++) {
        int64_t layers = layout_stage_layers(layout, &question->model, stage);
        bool is_end = stage == 0 || stage == layout->pp - 1;
        int64_t filled = layout->pp_layers == PP_LAYERS_PADDED && is_end ? 1 : 0; /* by the embedding or the loss */
        if (layers + filled < layout->vpp) {
            return sp_fail_rule(err, "pp_layers",
                                "stage %lld of %lld has %lld layer%s for vpp %lld chunks; use --vpp %lld",
                                (long long)stage + 1, (long long)layout->pp, (long long)layers, sp_plural(layers),
                                (long long)layout->vpp, (long long)layers);
        }
    }
    return true;
}

/* block:N counts within a chunk. */
static bool check_recompute(const struct question *question, struct sp_error *err)
{
    const struct layout_spec *layout = &question->layout;
    if (layout->recompute != RECOMPUTE_BLOCK) {
        return true;
    }
    int64_t most = 0;
    for (int64_t stage = 0; stage < layout->pp; stage++) {
        int64_t layers = (layout_stage_layers(layout, &question->model, stage) + layout->vpp - 1) / layout->vpp;
        most = layers > most ? layers : most;
    }
    if (layout->recompute_layers <= most) {
        return true;
    }
    return sp_fail_rule(err, "recompute_block", "recompute block:%lld recomputes more than the %lld layer%s of a %s",
                        (long long)layout->recompute_layers, (long long)most, sp_plural(most),
                        layout->vpp > 1 ? "chunk" : "stage");
}

/* ---- schedules -------------------------------------------------------------------------------------------------- */

static bool check_chunk_count(const struct layout_spec *layout, struct sp_error *err)
{
    const char *schedule = schedule_names[layout->schedule];
    switch (layout->schedule) {
    case SCHEDULE_GPIPE:
    case SCHEDULE_1F1B:
    case SCHEDULE_ZB_H1:
    case SCHEDULE_DUALPIPE:
        return layout->vpp == 1 ||
               sp_fail_rule(err, "schedule", "vpp %lld: %s has one chunk a rank; use --vpp 1 or --schedule interleaved",
                            (long long)layout->vpp, schedule);
    case SCHEDULE_INTERLEAVED:
        return layout->vpp > 1 || sp_fail_rule(err, "schedule",
                                               "interleaved with vpp 1: it needs two chunks a rank or more; use --vpp "
                                               "2 or --schedule 1f1b");
    case SCHEDULE_ZBV:
        return layout->vpp == ZBV_CHUNKS ||
               sp_fail_rule(err, "schedule", "vpp %lld: zbv has %d chunks a rank; use --vpp %d", (long long)layout->vpp,
                            (int)ZBV_CHUNKS, (int)ZBV_CHUNKS);
    case N_SCHEDULES:
        break;
    }
    return false;
}

static bool check_stages(struct sp_arena *arena, const struct layout_spec *layout, struct sp_error *err)
{
    if (layout->schedule == SCHEDULE_DUALPIPE && layout->pp % 2 != 0) {
        return sp_fail_rule(err, "schedule",
                            "dualpipe with pp %lld: it runs from both ends and needs an even pp; nearest: %s",
                            (long long)layout->pp, multiples_text(arena, layout->pp, 2));
    }
    if (layout->schedule == SCHEDULE_INTERLEAVED && layout->pp == 1) {
        return sp_fail_rule(err, "schedule",
                            "interleaved with pp 1: it needs two stages or more; use --pp 2 or --vpp 1");
    }
    return true;
}

/* ---- batch ------------------------------------------------------------------------------------------------------ */

/* Of "micro-batch". */
static const char *batches_ending(int64_t count)
{
    return count == 1 ? "" : "es";
}

static bool fail_micro_batches(const struct question *question, const char *need, int64_t micro_batches,
                               int64_t multiple, struct sp_error *err)
{
    const struct layout_spec *layout = &question->layout;
    int64_t unit = multiple * layout->dp * layout->micro_batch;
    return sp_fail_rule(err, "schedule_micro_batches",
                        "%s with %lld micro-batch%s: it needs %s; nearest --global-batch: %s",
                        schedule_names[layout->schedule], (long long)micro_batches, batches_ending(micro_batches), need,
                        multiples_text(question->arena, question->run.global_batch, unit));
}

static bool check_schedule_batch(const struct question *question, int64_t micro_batches, struct sp_error *err)
{
    const struct layout_spec *layout = &question->layout;
    if (layout->schedule == SCHEDULE_INTERLEAVED && micro_batches % layout->pp != 0) {
        const char *need = sp_format(question->arena, "a multiple of pp %lld", (long long)layout->pp);
        return fail_micro_batches(question, need, micro_batches, layout->pp, err);
    }
    if (layout->schedule != SCHEDULE_DUALPIPE) {
        return true;
    }
    int64_t least = 2 * layout->pp;
    if (micro_batches < least) {
        int64_t batch = least * layout->dp * layout->micro_batch;
        return sp_fail_rule(err, "schedule_micro_batches",
                            "dualpipe with %lld micro-batch%s: it needs 2 x pp %lld = %lld or more; raise "
                            "--global-batch to %lld",
                            (long long)micro_batches, batches_ending(micro_batches), (long long)layout->pp,
                            (long long)least, (long long)batch);
    }
    return micro_batches % 2 == 0 || fail_micro_batches(question, "an even number", micro_batches, 2, err);
}

static void warn_few_micro_batches(struct question *question, int64_t micro_batches, int64_t enough)
{
    const struct layout_spec *layout = &question->layout;
    sp_texts_add(
        &question->warnings,
        "%lld micro-batch%s over pp %lld stages: stages wait; raise --global-batch to %lld or more, or lower pp",
        (long long)micro_batches, batches_ending(micro_batches), (long long)layout->pp, (long long)enough);
}

/* Fewer micro-batches than stages: a bubble in some frameworks, an error in others and for the interleaved schedule. */
static bool check_micro_batches(struct question *question, int64_t micro_batches, struct sp_error *err)
{
    const struct layout_spec *layout = &question->layout;
    int64_t enough = layout->pp * layout->dp * layout->micro_batch;
    bool is_interleaved = layout->schedule == SCHEDULE_INTERLEAVED;
    if (micro_batches >= layout->pp) {
        return check_schedule_batch(question, micro_batches, err);
    }
    if (is_interleaved || question->software.framework.refuses_few_micro_batches) {
        return sp_fail_rule(
            err, "few_micro_batches",
            "%lld micro-batch%s fewer than pp %lld stages, which %s refuses; raise --global-batch to %lld",
            (long long)micro_batches, micro_batches == 1 ? " is" : "es are", (long long)layout->pp,
            is_interleaved ? "the interleaved schedule" : framework_names[layout->framework], (long long)enough);
    }
    if (!check_schedule_batch(question, micro_batches, err)) {
        return false;
    }
    warn_few_micro_batches(question, micro_batches, enough);
    return true;
}

static bool check_batch(struct question *question, struct sp_error *err)
{
    const struct layout_spec *layout = &question->layout;
    int64_t batch = question->run.global_batch;
    int64_t unit = layout->dp * layout->micro_batch;
    if (batch < 1 || batch % unit != 0) {
        return sp_fail_rule(err, "batch_divides",
                            "global batch %lld does not divide by dp %lld x micro-batch %lld = %lld; nearest: %s",
                            (long long)batch, (long long)layout->dp, (long long)layout->micro_batch, (long long)unit,
                            multiples_text(question->arena, batch, unit));
    }
    return check_micro_batches(question, batch / unit, err);
}

bool rules_pipeline(struct question *question, struct sp_error *err)
{
    const struct layout_spec *layout = &question->layout;
    bool has_chunks = check_chunk_count(layout, err);
    bool is_legal = check_stages(question->arena, layout, err) && has_chunks;
    bool is_split = has_chunks && check_stage_count(question, err) && check_layers(question, err) &&
                    check_chunks(question, err) && check_recompute(question, err);
    return check_batch(question, err) && is_split && is_legal;
}
