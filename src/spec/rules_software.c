/* What a framework can do: its methods, sharding, offloading, and what it combines with what. */
#include "spec/spec_internal.h"

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

/* Libraries of attention alone price tp and pp as Megatron's. */
static void warn_composition(struct question *question)
{
    const struct layout_spec *layout = &question->layout;
    static const bool has_tp_and_pp[N_FRAMEWORKS] = {
        [FRAMEWORK_MEGATRON] = true, [FRAMEWORK_TORCH] = true, [FRAMEWORK_IDEAL] = true};
    if (has_tp_and_pp[layout->framework] || (layout->tp == 1 && layout->pp == 1)) {
        return;
    }
    sp_texts_add(&question->warnings,
                 "%s does not combine its sequence parallelism with tp %lld and pp %lld: priced as if it did, as in "
                 "Megatron",
                 framework_names[layout->framework], (long long)layout->tp, (long long)layout->pp);
}

/* Where parameters or gradients are sharded and a pipeline runs several micro-batches over them. */
static void warn_sharded_pipeline(struct question *question)
{
    const struct layout_spec *layout = &question->layout;
    if (layout->pp == 1 || layout->zero < 2) {
        return;
    }
    switch (layout->framework) {
    case FRAMEWORK_DEEPSPEED:
    case FRAMEWORK_ALST:
    case FRAMEWORK_RING_FLASH_ATTN:
        sp_texts_add(
            &question->warnings,
            "DeepSpeed's pipeline runs with zero 0 or 1, not with zero %d: priced as if it did; use --zero 1 or "
            "--pp 1",
            layout->zero);
        break;
    case FRAMEWORK_MEGATRON:
        sp_texts_add(&question->warnings,
                     "zero %d is Megatron-FSDP, which is not made for a pipeline of %lld stages: priced as if it were; "
                     "use --zero 1 or --pp 1",
                     layout->zero, (long long)layout->pp);
        break;
    case FRAMEWORK_TORCH:
    case FRAMEWORK_IDEAL:
    case N_FRAMEWORKS:
        break;
    }
}

bool rules_software(struct question *question, struct sp_error *err)
{
    bool is_legal = check_pair(question, err);
    is_legal = check_offload(question, err) && is_legal;
    warn_composition(question);
    warn_sharded_pipeline(question);
    return is_legal;
}
