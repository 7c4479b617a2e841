/* Degrees: widths over tp, the parts of sp, groups that leave a node. */
#include "spec/spec_internal.h"

/* ---- widths over tp --------------------------------------------------------------------------------------------- */

static bool check_kv_heads(struct question *question, struct sp_error *err)
{
    int64_t tp = question->layout.tp;
    int64_t kv_heads = question->model.n_kv_heads;
    if (kv_heads % tp == 0) {
        return true;
    }
    if (tp % kv_heads != 0) { /* nor could they be repeated a whole number of times */
        return sp_fail_rule(err, "kv_heads_over_tp", "tp %lld: %lld key-value heads do not divide by it; legal tp: %s",
                            (long long)tp, (long long)kv_heads, divisors_text(question->arena, kv_heads, tp));
    }
    bool repeats = question->software.framework.repeats_kv_over_tp;
    if (!repeats && !question->run.expands_kv) {
        return sp_fail_rule(
            err, "kv_heads_over_tp",
            "tp %lld: %lld key-value heads are fewer, and %s does not repeat them; use tp %lld or less, or "
            "--set run.expand_kv=true",
            (long long)tp, (long long)kv_heads, framework_names[question->layout.framework], (long long)kv_heads);
    }
    int64_t copies = tp / kv_heads;
    sp_texts_add(&question->warnings,
                 "tp %lld repeats each of the %lld key-value heads %lld times (memory counted); tp %lld would not",
                 (long long)tp, (long long)kv_heads, (long long)copies, (long long)kv_heads);
    return true;
}

/* A width that tp splits. */
struct split_width {
    const char *what;
    int64_t width;
    bool is_there;
};

static bool has_dense_layer(const struct model_spec *model)
{
    bool has_dense = model->n_experts == 0;
    for (int i = 0; i < model->n_kinds; i++) {
        has_dense = has_dense || !model->kinds[i].is_moe;
    }
    return has_dense;
}

static bool check_ffn(const struct question *question, struct sp_error *err)
{
    const struct model_spec *model = &question->model;
    const struct split_width widths[] = {
        {"the MLP's width", model->ffn, has_dense_layer(model)},
        {"the shared experts' width", model->shared_expert_ffn, model->shared_expert_ffn > 0},
    };
    int64_t tp = question->layout.tp;
    bool is_legal = true;
    for (size_t i = 0; i < SP_COUNT_OF(widths); i++) {
        if (widths[i].is_there && widths[i].width % tp != 0) {
            is_legal = sp_fail_rule(err, "ffn_over_tp", "tp %lld: %s %lld does not divide by it; legal tp: %s",
                                    (long long)tp, widths[i].what, (long long)widths[i].width,
                                    divisors_text(question->arena, widths[i].width, tp));
        }
    }
    return is_legal;
}

static bool check_widths(struct question *question, struct sp_error *err)
{
    const struct model_spec *model = &question->model;
    int64_t tp = question->layout.tp;
    bool is_legal = true;
    if (model->n_heads % tp != 0) {
        is_legal =
            sp_fail_rule(err, "heads_over_tp", "tp %lld: %lld query heads do not divide by it; legal tp: %s",
                         (long long)tp, (long long)model->n_heads, divisors_text(question->arena, model->n_heads, tp));
    } else {
        is_legal = check_kv_heads(question, err);
    }
    return check_ffn(question, err) && is_legal;
}

/* ---- parts of sp ------------------------------------------------------------------------------------------------ */

static bool check_sp(const struct question *question, struct sp_error *err)
{
    const struct layout_spec *layout = &question->layout;
    const char *method = method_names[layout->method];
    bool is_legal = true;
    if (layout->sp > 1 && (layout->method == METHOD_NONE || layout->method == METHOD_NAIVE)) {
        is_legal =
            sp_fail_rule(err, "method_splits",
                         "sp %lld: %s does not split the sequence; use sp 1, or zigzag, ulysses, allgather, ring",
                         (long long)layout->sp, method);
    }
    bool has_ulysses = layout->method == METHOD_ULYSSES || layout->method == METHOD_USP;
    int64_t ulysses = layout->method == METHOD_ULYSSES ? layout->sp : has_ulysses ? layout->sp_ulysses : 1;
    if (layout->sp_ulysses != ulysses || layout->sp % layout->sp_ulysses != 0) {
        is_legal = sp_fail_rule(
            err, "sp_ulysses", "sp-ulysses %lld with %s and sp %lld: expected %s%s", (long long)layout->sp_ulysses,
            method, (long long)layout->sp, layout->method == METHOD_USP ? "a divisor of sp: " : "",
            layout->method == METHOD_USP ? divisors_text(question->arena, layout->sp, layout->sp_ulysses)
                                         : sp_format(question->arena, "%lld (usp chooses it)", (long long)ulysses));
    }
    bool has_inner = layout->method == METHOD_DOUBLE_RING;
    if ((layout->sp_inner != 1 && !has_inner) || layout->sp % layout->sp_inner != 0) {
        is_legal = sp_fail_rule(err, "sp_inner", "sp-inner %lld with %s and sp %lld: expected %s",
                                (long long)layout->sp_inner, method, (long long)layout->sp,
                                has_inner ? divisors_text(question->arena, layout->sp, layout->sp_inner)
                                          : "1 (double-ring chooses it)");
    }
    return is_legal;
}

/* ---- links ------------------------------------------------------------------------------------------------------ */

/* Every layer waits for its collectives over tp. */
static void warn_tp_spread(struct question *question)
{
    const struct layout_spec *layout = &question->layout;
    if (!layout_fills_cluster(question)) {
        return;
    }
    struct group_placement placement = layout_placement(layout, &question->hardware, AXIS_TP);
    if (placement.nodes == 1) {
        return;
    }
    int64_t domain = (int64_t)question->hardware.node.nvlink_domain.value;
    const char *inside = layout->order[0] != AXIS_TP ? "--set layout.order=tp-cp-ep-dp-pp puts its ranks side by side"
                                                     : sp_format(question->arena, "tp of %s stays inside",
                                                                 divisors_text(question->arena, domain, layout->tp));
    sp_texts_add(&question->warnings,
                 "tp %lld spans %lld NVLink domains of %lld GPUs: each layer waits for its collectives over %s; %s",
                 (long long)layout->tp, (long long)placement.nodes, (long long)domain,
                 question->hardware.network.is_inside_node ? question->hardware.network.title : "the network", inside);
}

bool rules_degrees(struct question *question, struct sp_error *err)
{
    bool is_legal = check_sp(question, err);
    is_legal = check_widths(question, err) && is_legal;
    warn_tp_spread(question);
    return is_legal;
}
