/* What a layout must keep, each rule with its numbers and the nearest legal values. The rules of an attention method
 * are the method's own. */
#include "spec/spec_internal.h"

#include <assert.h>

enum { MOST_DIVISORS = 10 };

static int64_t lcm_of(int64_t a, int64_t b)
{
    return a / gcd_of(a, b) * b;
}

static int64_t distance(int64_t a, int64_t b)
{
    return a > b ? a - b : b - a;
}

/* Divisors in ascending order; returns how many, at most `most`, the furthest from `near` dropped first. */
static int nearest_divisors(int64_t n, int64_t near, int most, int64_t *divisors)
{
    int count = 0;
    for (int64_t divisor = 1; divisor <= n / divisor; divisor++) {
        if (n % divisor != 0) {
            continue;
        }
        const int64_t pair[2] = {divisor, n / divisor};
        for (int i = 0; i < (pair[0] == pair[1] ? 1 : 2); i++) {
            int at = count;
            while (at > 0 && divisors[at - 1] > pair[i]) {
                divisors[at] = divisors[at - 1];
                at--;
            }
            divisors[at] = pair[i];
            count++;
            if (count > most) {
                bool drops_first = distance(divisors[0], near) > distance(divisors[count - 1], near);
                for (int move = 0; drops_first && move + 1 < count; move++) {
                    divisors[move] = divisors[move + 1];
                }
                count--;
            }
        }
    }
    return count;
}

const char *divisors_text(struct sp_arena *arena, int64_t n, int64_t near)
{
    int64_t divisors[MOST_DIVISORS + 1] = {0};
    int count = nearest_divisors(n, near, MOST_DIVISORS, divisors);
    const char *text = "";
    for (int i = 0; i < count; i++) {
        text = sp_format(arena, "%s%s%lld", text, i == 0 ? "" : ", ", (long long)divisors[i]);
    }
    return text;
}

/* Multiples of unit around value: "100000, 100016". */
static const char *multiples_text(struct sp_arena *arena, int64_t value, int64_t unit)
{
    int64_t below = value / unit * unit;
    int64_t above = below + unit;
    if (below == 0) {
        return sp_format(arena, "%lld", (long long)unit);
    }
    return sp_format(arena, "%lld, %lld", (long long)below, (long long)above);
}

/* ---- degrees ---------------------------------------------------------------------------------------------------- */

/* tp x sp x pp x dp, or gpus + 1 when it is larger than gpus: it may not fit an integer. */
static int64_t product_up_to(const struct layout_spec *layout, int64_t gpus)
{
    const int64_t degrees[] = {layout->tp, layout->sp, layout->pp, layout->dp};
    int64_t product = 1;
    for (size_t i = 0; i < SP_COUNT_OF(degrees); i++) {
        if (degrees[i] > gpus / product) {
            return gpus + 1;
        }
        product *= degrees[i];
    }
    return product;
}

static bool check_product(const struct question *question, struct sp_error *err)
{
    const struct layout_spec *layout = &question->layout;
    int64_t gpus = question->run.gpus;
    int64_t product = product_up_to(layout, gpus);
    if (product == gpus) {
        return true;
    }
    const char *legal = "";
    bool is_sp_left = layout->tp <= gpus && layout->pp <= gpus / layout->tp && gpus % (layout->tp * layout->pp) == 0;
    if (is_sp_left) {
        legal = sp_format(question->arena, "; legal sp with this tp and pp: %s",
                          divisors_text(question->arena, gpus / (layout->tp * layout->pp), layout->sp));
    } else {
        legal = sp_format(question->arena, "; tp x sp x pp must be one of %s",
                          divisors_text(question->arena, gpus, layout->tp));
    }
    const char *found = product > gpus ? sp_format(question->arena, "more than %lld", (long long)gpus)
                                       : sp_format(question->arena, "%lld", (long long)product);
    return sp_fail_rule(err, "gpus_product", "%lld gpus are not tp %lld x sp %lld x pp %lld x dp %lld = %s%s",
                        (long long)gpus, (long long)layout->tp, (long long)layout->sp, (long long)layout->pp,
                        (long long)layout->dp, found, legal);
}

/* ---- layers over stages ----------------------------------------------------------------------------------------- */

static bool fail_remainder(const struct question *question, struct sp_error *err)
{
    const struct layout_spec *layout = &question->layout;
    int64_t n_layers = question->model.n_layers;
    struct layout_spec split = *layout;
    split.pp_layers = PP_LAYERS_AUTO;
    return sp_fail_rule(err, "layers_over_pp",
                        "%lld layers do not divide by pp %lld: --pp-layers auto would use %s; pp that divides: %s",
                        (long long)n_layers, (long long)layout->pp,
                        stage_layers_text(question->arena, &split, &question->model),
                        divisors_text(question->arena, n_layers, layout->pp));
}

static bool check_explicit_layers(const struct question *question, struct sp_error *err)
{
    const struct layout_spec *layout = &question->layout;
    if (layout->n_stage_layers != layout->pp) {
        return sp_fail_rule(err, "pp_layers", "pp-layers gives %lld stages, pp is %lld",
                            (long long)layout->n_stage_layers, (long long)layout->pp);
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
    return sp_fail_rule(err, "pp_layers", "pp-layers adds up to %s%lld layers, the model has %lld",
                        sum > question->model.n_layers ? "more than " : "",
                        (long long)(sum > question->model.n_layers ? question->model.n_layers : sum),
                        (long long)question->model.n_layers);
}

static bool check_layers(const struct question *question, struct sp_error *err)
{
    const struct layout_spec *layout = &question->layout;
    int64_t n_layers = question->model.n_layers;
    if (layout->pp > n_layers) {
        return sp_fail_rule(err, "layers_over_pp", "%lld layers are fewer than pp %lld stages; largest pp: %lld",
                            (long long)n_layers, (long long)layout->pp, (long long)n_layers);
    }
    if (layout->pp_layers == PP_LAYERS_EXPLICIT) {
        return check_explicit_layers(question, err);
    }
    if (layout->pp_layers == PP_LAYERS_PADDED && layout_stage_layers(layout, &question->model, 0) < 1) {
        return sp_fail_rule(err, "pp_layers", "pp-layers padded leaves no layer for the first of %lld stages; use auto",
                            (long long)layout->pp);
    }
    if (layout->pp_layers == PP_LAYERS_PADDED && layout_stage_layers(layout, &question->model, layout->pp - 1) < 1) {
        return sp_fail_rule(err, "pp_layers", "pp-layers padded leaves no layer for the last of %lld stages; use auto",
                            (long long)layout->pp);
    }
    bool needs_even = layout->pp_layers == PP_LAYERS_EVEN && !question->software.framework.spreads_remainder_layers;
    return !needs_even || n_layers % layout->pp == 0 || fail_remainder(question, err);
}

static bool check_recompute(const struct question *question, struct sp_error *err)
{
    const struct layout_spec *layout = &question->layout;
    if (layout->recompute != RECOMPUTE_BLOCK) {
        return true;
    }
    bool is_readable = layout->pp_layers != PP_LAYERS_EXPLICIT || layout->n_stage_layers == layout->pp;
    int64_t most = 0;
    for (int64_t stage = 0; is_readable && stage < layout->pp; stage++) {
        int64_t layers = layout_stage_layers(layout, &question->model, stage);
        most = layers > most ? layers : most;
    }
    if (!is_readable || layout->recompute_layers <= most) {
        return true;
    }
    return sp_fail_rule(err, "recompute_block", "recompute block:%lld recomputes more than the %lld layers of a stage",
                        (long long)layout->recompute_layers, (long long)most);
}

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
    if (model->ffn % tp != 0) {
        is_legal = sp_fail_rule(err, "ffn_over_tp", "tp %lld: the MLP's width %lld does not divide by it; legal tp: %s",
                                (long long)tp, (long long)model->ffn, divisors_text(question->arena, model->ffn, tp));
    }
    return is_legal;
}

/* ---- sequence --------------------------------------------------------------------------------------------------- */

/* "zigzag: 2 x sp 8, and each part by tp 4 under --tp-sp on": where the unit comes from. */
static const char *sequence_unit_text(struct sp_arena *arena, const struct layout_spec *layout)
{
    const char *times = layout->method == METHOD_ZIGZAG ? "2 x " : "";
    const char *by_sp =
        layout->sp == 1 ? ""
                        : sp_format(arena, "%s: %ssp %lld", method_names[layout->method], times, (long long)layout->sp);
    if (!layout->has_tp_sp || layout->tp == 1) {
        return by_sp;
    }
    return sp_format(arena, "%s%stp %lld under --tp-sp on", by_sp, layout->sp == 1 ? "" : ", and each part by ",
                     (long long)layout->tp);
}

/* Zig-zag cuts 2 x sp chunks; with sequence parallelism in tp, the tokens of an sp rank are split over tp again. */
static bool check_sequence(struct question *question, struct sp_error *err)
{
    const struct layout_spec *layout = &question->layout;
    int64_t seq = question->run.seq;
    int64_t chunks = layout->method == METHOD_ZIGZAG && layout->sp > 1 ? 2 * layout->sp : layout->sp;
    int64_t split = layout->has_tp_sp ? layout->sp * layout->tp : 1;
    int64_t unit = lcm_of(chunks, split);
    if (seq > question->model.max_position) {
        sp_texts_add(&question->warnings,
                     "sequence %lld is beyond the %lld positions of %s: needs longer rope settings and training",
                     (long long)seq, (long long)question->model.max_position, question->model.name);
    }
    if (seq % unit == 0) {
        return true;
    }
    const char *why = sequence_unit_text(question->arena, layout);
    return sp_fail_rule(err, "sequence_divides", "sequence %lld does not divide by %lld (%s); nearest lengths: %s",
                        (long long)seq, (long long)unit, why, multiples_text(question->arena, seq, unit));
}

/* ---- batch ------------------------------------------------------------------------------------------------------ */

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
    int64_t micro_batches = batch / unit;
    int64_t enough = layout->pp * unit;
    if (micro_batches >= layout->pp) {
        return true;
    }
    if (question->software.framework.refuses_few_micro_batches) {
        return sp_fail_rule(
            err, "few_micro_batches",
            "%lld micro-batches are fewer than pp %lld stages, which %s refuses; raise --global-batch to "
            "%lld",
            (long long)micro_batches, (long long)layout->pp, framework_names[layout->framework], (long long)enough);
    }
    double bubble = (double)(layout->pp - 1) / (double)(micro_batches + layout->pp - 1);
    sp_texts_add(
        &question->warnings,
        "%lld micro-batches over pp %lld stages: %.0f %% of the time is bubble; raise --global-batch to %lld or "
        "more, or lower pp",
        (long long)micro_batches, (long long)layout->pp, 100 * bubble, (long long)enough);
    return true;
}

/* ---- method and framework --------------------------------------------------------------------------------------- */

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

bool layout_check(struct question *question, struct sp_error *err)
{
    bool is_legal = layout_is_built(&question->layout, err);
    is_legal = check_product(question, err) && is_legal;
    if (product_up_to(&question->layout, question->run.gpus) > question->run.gpus) {
        return false; /* the products below may not fit an integer */
    }
    is_legal = check_pair(question, err) && is_legal;
    is_legal = check_sp(question, err) && is_legal;
    is_legal = check_layers(question, err) && is_legal;
    is_legal = check_recompute(question, err) && is_legal;
    is_legal = check_widths(question, err) && is_legal;
    is_legal = check_sequence(question, err) && is_legal;
    is_legal = check_batch(question, err) && is_legal;
    warn_composition(question);
    return is_legal;
}
