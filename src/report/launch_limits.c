/* What a launcher does not have: refused with the reason and the nearest thing that it has. */
#include "report/launch.h"

#include <string.h>

/* What is asked, of a list of names, and which of them the launcher has. */
struct choice {
    const char *option; /* without the dashes */
    const char *what;   /* "the method", "ZeRO stage" */
    const char *const *names;
    int asked;
    unsigned has;
    int nearest; /* index, or -1: none */
};

static bool check_choice(const struct launch_case *it, const struct launcher *launcher, const struct choice *choice,
                         struct sp_error *err)
{
    if ((choice->has & LAUNCH_BIT(choice->asked)) != 0) {
        return true;
    }
    struct sp_texts has = {.arena = it->arena};
    for (int i = 0; choice->names[i] != NULL; i++) {
        if ((choice->has & LAUNCH_BIT(i)) != 0) {
            sp_texts_add(&has, "%s", choice->names[i]);
        }
    }
    const char *nearest = choice->nearest < 0 ? ""
                                              : sp_format(it->arena, "; nearest: --%s %s", choice->option,
                                                          choice->names[choice->nearest]);
    /* The joint of several broken rules is "; ": one rule stays one clause. */
    nearest = nearest[0] == '\0' ? "" : sp_format(it->arena, " (%s)", nearest + strlen("; "));
    return sp_fail_rule(err, "launch", "%s has no %s %s, only %s%s", launcher->title, choice->what,
                        choice->names[choice->asked], sp_join(it->arena, has.items, has.count, ", "), nearest);
}

/* The first of the alternatives that the launcher has. */
static int first_of(const int *alternatives, int n, unsigned has)
{
    for (int i = 0; i < n; i++) {
        if ((has & LAUNCH_BIT(alternatives[i])) != 0) {
            return alternatives[i];
        }
    }
    return -1;
}

/* What does most alike: balanced for balanced, heads for heads; a gather is what nearly everybody has. */
static int nearest_method(enum method_id method, unsigned has)
{
    static const int split[] = {METHOD_ZIGZAG, METHOD_ALLGATHER, METHOD_RING, METHOD_ULYSSES};
    static const int heads[] = {METHOD_USP, METHOD_ULYSSES, METHOD_ALLGATHER, METHOD_ZIGZAG};
    static const int whole[] = {METHOD_NONE};
    if (method == METHOD_NAIVE || method == METHOD_NONE) {
        return first_of(whole, SP_COUNT_OF(whole), has);
    }
    bool has_heads = method == METHOD_ULYSSES || method == METHOD_USP;
    return has_heads ? first_of(heads, SP_COUNT_OF(heads), has) : first_of(split, SP_COUNT_OF(split), has);
}

/* The next that shards more, else the next that shards less. */
static int nearest_number(int asked, int n, unsigned has)
{
    for (int i = asked + 1; i < n; i++) {
        if ((has & LAUNCH_BIT(i)) != 0) {
            return i;
        }
    }
    for (int i = asked - 1; i >= 0; i--) {
        if ((has & LAUNCH_BIT(i)) != 0) {
            return i;
        }
    }
    return -1;
}

static bool check_choices(const struct launch_case *it, const struct launcher *launcher,
                          const struct launch_engine *engine, struct sp_error *err)
{
    static const char *const zero_names[] = {"0", "1", "2", "3", NULL};
    static const char *const recompute_names[] = {"none", "selective", "full", "block", NULL};
    static const int schedules[] = {SCHEDULE_INTERLEAVED, SCHEDULE_1F1B, SCHEDULE_GPIPE};
    static const int recomputes[] = {RECOMPUTE_FULL, RECOMPUTE_SELECTIVE, RECOMPUTE_NONE};
    static const int dtypes[] = {DTYPE_BF16, DTYPE_FP16, DTYPE_FP32};
    const struct layout_spec *layout = &it->question->layout;
    unsigned any = layout->pp == 1 ? LAUNCH_BIT(layout->schedule) : 0; /* without stages it decides nothing */
    const struct choice choices[] = {
        {"sp-method", "method", method_names, (int)layout->method, engine->methods,
         nearest_method(layout->method, engine->methods)},
        {"zero", "ZeRO stage", zero_names, layout->zero, engine->zeros, nearest_number(layout->zero, 4, engine->zeros)},
        {"schedule", "schedule", schedule_names, (int)layout->schedule, engine->schedules | any,
         first_of(schedules + (layout->vpp > 1 ? 0 : 1), 2, engine->schedules)},
        {"recompute", "recomputation", recompute_names, (int)layout->recompute, engine->recomputes,
         first_of(recomputes, SP_COUNT_OF(recomputes), engine->recomputes)},
        {"precision", "precision", dtype_names, (int)layout->precision, engine->precisions,
         first_of(dtypes, SP_COUNT_OF(dtypes), engine->precisions)},
    };
    bool is_good = true;
    for (size_t i = 0; i < SP_COUNT_OF(choices); i++) {
        bool is_schedule = choices[i].names == schedule_names;
        if (!is_schedule || layout->pp > 1) {
            is_good = check_choice(it, launcher, &choices[i], err) && is_good;
        }
    }
    return is_good;
}

/* ---- degrees ---------------------------------------------------------------------------------------------------- */

static bool check_axes(const struct launch_case *it, const struct launcher *launcher,
                       const struct launch_engine *engine, struct sp_error *err)
{
    const struct layout_spec *layout = &it->question->layout;
    const struct {
        unsigned axis;
        const char *name;
        int64_t degree;
        const char *nearest;
    } axes[] = {{LAUNCH_TP, "tensor parallelism", layout->tp, "--tp 1"},
                {LAUNCH_PP, "pipeline parallelism", layout->pp, "--pp 1"},
                {LAUNCH_EP, "expert parallelism", layout->ep > layout->etp ? layout->ep : layout->etp, "--ep 1"}};
    bool is_good = true;
    for (size_t i = 0; i < SP_COUNT_OF(axes); i++) {
        if (axes[i].degree > 1 && (engine->axes & axes[i].axis) == 0) {
            is_good = sp_fail_rule(err, "launch", "%s has no setting for %s of %lld (nearest: %s)", launcher->title,
                                   axes[i].name, (long long)axes[i].degree, axes[i].nearest);
        }
    }
    if (it->question->run.lora_rank > 0 && (engine->axes & LAUNCH_LORA) == 0) {
        is_good = sp_fail_rule(err, "launch", "%s has no LoRA (nearest: --train full)", launcher->title);
    }
    return is_good;
}

static bool check_offloads(const struct launch_case *it, const struct launcher *launcher,
                           const struct launch_engine *engine, struct sp_error *err)
{
    const struct layout_spec *layout = &it->question->layout;
    const struct {
        unsigned bit;
        const char *name;
        bool is_asked;
    } offloads[] = {{LAUNCH_ACTIVATIONS, "activations", layout->offloads_activations},
                    {LAUNCH_OPTIMIZER, "optimizer", layout->offloads_optimizer},
                    {LAUNCH_PARAMETERS, "parameters", layout->offloads_parameters}};
    struct sp_texts kept = {.arena = it->arena};
    for (size_t i = 0; i < SP_COUNT_OF(offloads); i++) {
        if (offloads[i].is_asked && (engine->offloads & offloads[i].bit) != 0) {
            sp_texts_add(&kept, "%s", offloads[i].name);
        }
    }
    const char *nearest = kept.count == 0 ? "none" : sp_join(it->arena, kept.items, kept.count, ",");
    bool is_good = true;
    for (size_t i = 0; i < SP_COUNT_OF(offloads); i++) {
        if (offloads[i].is_asked && (engine->offloads & offloads[i].bit) == 0) {
            is_good = sp_fail_rule(err, "launch", "%s has no setting that offloads %s (nearest: --offload %s)",
                                   launcher->title, offloads[i].name, nearest);
        }
    }
    return is_good;
}

/* ---- placement -------------------------------------------------------------------------------------------------- */

static int64_t degree_of(const struct layout_spec *layout, enum axis axis)
{
    const int64_t degrees[N_AXES] = {[AXIS_TP] = layout->tp,
                                     [AXIS_CP] = layout->sp,
                                     [AXIS_EP] = layout->ep,
                                     [AXIS_DP] = layout->dp,
                                     [AXIS_PP] = layout->pp};
    return degrees[axis];
}

/* "tp-cp-dp": axes of more than one rank, which alone place anything. */
static const char *effective_order(const struct launch_case *it, const enum axis order[N_AXES])
{
    const char *text = "";
    for (int i = 0; i < N_AXES; i++) {
        if (degree_of(&it->question->layout, order[i]) > 1) {
            text = sp_format(it->arena, "%s%s%s", text, text[0] == '\0' ? "" : "-", axis_names[order[i]]);
        }
    }
    return text;
}

static bool check_order(const struct launch_case *it, const struct launcher *launcher,
                        const struct launch_engine *engine, struct sp_error *err)
{
    const char *asked = effective_order(it, it->question->layout.order);
    struct sp_error ignored = {.kind = SP_ERROR_NONE};
    for (const char *const *name = engine->orders; *name != NULL; name++) {
        enum axis order[N_AXES];
        if (order_parse(it->arena, *name, order, &ignored) && strcmp(effective_order(it, order), asked) == 0) {
            return true;
        }
    }
    return sp_fail_rule(err, "launch", "%s does not place ranks as %s (nearest: --set layout.order=%s)",
                        launcher->title, report_order_text(it->arena, &it->question->layout), engine->orders[0]);
}

/* ---- all -------------------------------------------------------------------------------------------------------- */

static bool check_kernel(const struct launch_case *it, struct sp_error *err)
{
    if (strcmp(it->question->layout.attention, "seqplan") != 0) {
        return true;
    }
    return sp_fail_rule(err, "launch",
                        "attention seqplan is this program's own kernel, which no framework runs "
                        "(nearest: --attention cudnn)");
}

bool launch_check(const struct launch_case *it, const struct launcher *launcher, const struct launch_engine *engine,
                  struct sp_error *err)
{
    bool is_good = check_choices(it, launcher, engine, err);
    is_good = check_axes(it, launcher, engine, err) && is_good;
    is_good = check_offloads(it, launcher, engine, err) && is_good;
    is_good = check_order(it, launcher, engine, err) && is_good;
    is_good = check_kernel(it, err) && is_good;
    for (const struct launch_limit *limit = engine->limits; limit->refusal != NULL; limit++) {
        const char *reason = limit->refusal(it);
        if (reason != NULL) {
            is_good = sp_fail_rule(err, "launch", "%s: %s", launcher->title, reason);
        }
    }
    const char *refusal = framework_refusal(it->question);
    if (refusal != NULL) {
        is_good = sp_fail_rule(err, "launch", "%s", refusal);
    }
    return is_good;
}
