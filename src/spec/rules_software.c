/* What a framework can do: its methods, sharding, offloading, and what it combines with what. */
#include "spec/spec_internal.h"

#include <string.h>

static bool check_pair(const struct question *question, struct sp_error *err)
{
    const struct layout_spec *layout = &question->layout;
    if (pair_is_legal(layout->method, layout->framework)) {
        return true;
    }
    struct sp_texts legal = {.arena = question->arena};
    enum framework_id home = method_home(layout->method);
    sp_texts_add(&legal, "%s (home)", framework_names[home]);
    for (int framework = 0; framework < N_FRAMEWORKS; framework++) {
        if (framework != (int)home && pair_is_legal(layout->method, (enum framework_id)framework)) {
            sp_texts_add(&legal, "%s", framework_names[framework]);
        }
    }
    return sp_fail_rule(err, "pair", "%s is not in %s; frameworks of %s: %s", method_names[layout->method],
                        framework_names[layout->framework], method_names[layout->method],
                        sp_join(question->arena, legal.items, legal.count, ", "));
}

static bool check_offload(const struct question *question, struct sp_error *err)
{
    const struct layout_spec *layout = &question->layout;
    if (!layout->offloads_parameters || layout->zero == 3) {
        return true;
    }
    return sp_fail_rule(
        err, "offload",
        "offload parameters with zero %d: only parameters that zero 3 gathers layer by layer can live in "
        "host memory; use --zero 3",
        layout->zero);
}

bool framework_has_schedule(const struct framework_spec *framework, enum schedule_id schedule)
{
    const char *name = schedule_names[schedule];
    size_t length = strlen(name);
    for (const char *at = framework->schedules; at != NULL; at = strchr(at, ',')) {
        at += *at == ',' ? 1 : 0;
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0')) {
            return true;
        }
    }
    return false;
}

/* Libraries of attention alone price tp and pp as Megatron's. */
static const char *composition_refusal(const struct question *question)
{
    const struct layout_spec *layout = &question->layout;
    if (question->software.framework.combines_tp_and_pp || (layout->tp == 1 && layout->pp == 1)) {
        return NULL;
    }
    return sp_format(question->arena, "%s does not combine its sequence parallelism with tp %lld and pp %lld",
                     framework_names[layout->framework], (long long)layout->tp, (long long)layout->pp);
}

/* Where parameters or gradients are sharded and a pipeline runs several micro-batches over them. */
static const char *sharded_pipeline_refusal(const struct question *question)
{
    const struct layout_spec *layout = &question->layout;
    if (layout->pp == 1 || layout->zero < 2 || question->software.framework.shards_in_pipelines) {
        return NULL;
    }
    if (layout->framework == FRAMEWORK_MEGATRON) {
        return sp_format(question->arena, "zero %d is Megatron-FSDP, which is not made for a pipeline of %lld stages",
                         layout->zero, (long long)layout->pp);
    }
    return sp_format(question->arena, "DeepSpeed's pipeline runs with zero 0 or 1, not with zero %d", layout->zero);
}

bool framework_offloads_activations(const struct framework_spec *framework, enum recompute_kind recompute)
{
    bool keeps_all = recompute == RECOMPUTE_NONE || recompute == RECOMPUTE_SELECTIVE;
    switch ((enum offloads_activations)framework->offloads_activations) {
    case OFFLOADS_KEPT:
        return keeps_all;
    case OFFLOADS_CHECKPOINTS:
        return recompute == RECOMPUTE_FULL;
    case OFFLOADS_ANY:
        break;
    }
    return true;
}

static const char *activations_refusal(const struct question *question)
{
    const struct layout_spec *layout = &question->layout;
    const struct framework_spec *framework = &question->software.framework;
    if (!layout->offloads_activations || framework_offloads_activations(framework, layout->recompute)) {
        return NULL;
    }
    bool is_kept = framework->offloads_activations == (int)OFFLOADS_KEPT;
    return sp_format(question->arena, "%s offloads activations only with recompute %s",
                     framework_names[layout->framework], is_kept ? "none or selective" : "full");
}

static const char *state_refusal(const struct question *question)
{
    const struct layout_spec *layout = &question->layout;
    const char *name = framework_names[layout->framework];
    switch ((enum offloads_state)question->software.framework.offloads_state) {
    case OFFLOADS_OPTIMIZER:
        return layout->offloads_parameters ? sp_format(question->arena, "%s does not offload parameters", name) : NULL;
    case OFFLOADS_TOGETHER:
        return layout->offloads_optimizer != layout->offloads_parameters
                   ? sp_format(question->arena, "%s offloads optimizer and parameters only together, with zero 3", name)
                   : NULL;
    case OFFLOADS_EITHER:
        return layout->offloads_parameters && !layout->offloads_optimizer
                   ? sp_format(question->arena, "%s offloads parameters only with the optimizer", name)
                   : NULL;
    }
    return NULL;
}

enum { N_REFUSALS = 5 };
static void find_refusals(const struct question *question, const char *refusals[N_REFUSALS])
{
    refusals[0] = composition_refusal(question);
    refusals[1] = sharded_pipeline_refusal(question);
    refusals[2] = state_refusal(question);
    refusals[3] = sequence_refusal(question);
    refusals[4] = activations_refusal(question);
}

const char *framework_refusal(const struct question *question)
{
    const char *refusals[N_REFUSALS];
    find_refusals(question, refusals);
    for (int i = 0; i < N_REFUSALS; i++) {
        if (refusals[i] != NULL) {
            return refusals[i];
        }
    }
    return NULL;
}

static void warn_refusals(struct question *question)
{
    const char *composition = composition_refusal(question);
    const char *sharding = sharded_pipeline_refusal(question);
    if (composition != NULL) {
        sp_texts_add(&question->warnings, "%s: priced as if it did, as in Megatron", composition);
    }
    if (sharding != NULL) {
        sp_texts_add(&question->warnings, "%s: priced as if it %s; use --zero 1 or --pp 1", sharding,
                     question->layout.framework == FRAMEWORK_MEGATRON ? "were" : "did");
    }
    const char *offloads[] = {state_refusal(question), activations_refusal(question)};
    for (size_t i = 0; i < SP_COUNT_OF(offloads); i++) {
        if (offloads[i] != NULL) {
            sp_texts_add(&question->warnings, "%s: priced as if it did", offloads[i]);
        }
    }
}

bool rules_software(struct question *question, struct sp_error *err)
{
    bool is_legal = check_pair(question, err);
    is_legal = check_offload(question, err) && is_legal;
    warn_refusals(question);
    return is_legal;
}
