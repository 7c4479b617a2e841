/* What a method can do: built or not, heads over the ranks of an all-to-all, masks (docs/methods). */
#include "method/method.h"

#include <inttypes.h>

static bool ulysses_degree_is_legal(int64_t degree, int64_t heads, int64_t kv_heads, bool repeats)
{
    bool kv_fits = kv_heads % degree == 0 || (repeats && degree % kv_heads == 0);
    return heads % degree == 0 && kv_fits;
}

/* "2, 4, 8, 16, 32 (16 and 32 repeat the 8 key-value heads)"; parts_of: only its divisors, 0 any. */
static const char *legal_degrees(struct sp_arena *arena, int64_t heads, int64_t kv_heads, bool repeats,
                                 int64_t parts_of)
{
    struct sp_texts legal = {.arena = arena};
    struct sp_texts repeating = {.arena = arena};
    for (int64_t p = 2; p <= heads; p++) {
        bool is_part = parts_of == 0 || parts_of % p == 0;
        if (is_part && ulysses_degree_is_legal(p, heads, kv_heads, repeats)) {
            sp_texts_add(&legal, "%" PRId64, p);
            if (p > kv_heads) {
                sp_texts_add(&repeating, "%" PRId64, p);
            }
        }
    }
    if (legal.count == 0) {
        return "1 only";
    }
    const char *all = sp_join(arena, legal.items, legal.count, ", ");
    if (repeating.count == 0) {
        return all;
    }
    return sp_format(arena, "%s (%s repeat the %" PRId64 " key-value head%s)", all,
                     sp_join(arena, repeating.items, repeating.count, " and "), kv_heads, kv_heads == 1 ? "" : "s");
}

/* Query and key-value heads of one tp rank over the ranks of the all-to-all. */
static bool check_heads(struct question *question, const struct method_traits *traits, int64_t degree,
                        struct sp_error *err)
{
    const struct layout_spec *layout = &question->layout;
    const struct model_spec *model = &question->model;
    if (degree == 1 || model->n_heads % layout->tp != 0) {
        return true; /* heads over tp are a rule of their own */
    }
    int64_t heads = model->n_heads / layout->tp;
    int64_t kv_heads = model->n_kv_heads > layout->tp ? model->n_kv_heads / layout->tp : 1;
    kv_heads = question->run.expands_kv ? heads : kv_heads;
    if (ulysses_degree_is_legal(degree, heads, kv_heads, traits->repeats_kv_heads)) {
        return true;
    }
    bool heads_fit = heads % degree == 0;
    const char *per_tp =
        layout->tp > 1 ? sp_format(question->arena, " of one of %" PRId64 " tp ranks", layout->tp) : "";
    const char *expand = heads_fit && layout->framework == FRAMEWORK_TORCH
                             ? "; or repeat the key-value heads: --set run.expand_kv=true"
                             : "";
    return sp_fail_rule(err, "ulysses_heads",
                        "%s over %" PRId64 " ranks: %" PRId64 " %s heads%s do not divide by %" PRId64
                        "; legal degrees here: %s%s",
                        layout->method == METHOD_USP ? "the all-to-all of usp" : method_names[layout->method], degree,
                        heads_fit ? kv_heads : heads, heads_fit ? "key-value" : "query", per_tp, degree,
                        legal_degrees(question->arena, heads, kv_heads, traits->repeats_kv_heads,
                                      layout->method == METHOD_USP ? layout->sp : 0),
                        expand);
}

static bool has_window(const struct question *question)
{
    bool windowed = question->run.mask == MASK_WINDOW;
    for (int i = 0; question->run.mask == MASK_MODEL && i < question->model.n_kinds; i++) {
        windowed = windowed || question->model.kinds[i].window > 0;
    }
    return windowed;
}

/* Rings compute every block of keys that passes by: none of these implementations skips what a window hides. */
static bool check_mask(const struct question *question, const struct method_traits *traits, struct sp_error *err)
{
    bool is_gathered = traits->exchange == EXCHANGE_NONE || traits->exchange == EXCHANGE_SCORES ||
                       traits->exchange == EXCHANGE_GATHER || traits->exchange == EXCHANGE_ALL_TO_ALL;
    if (question->layout.sp == 1 || is_gathered || !has_window(question)) {
        return true;
    }
    bool has_sinks = question->model.has_sinks && question->run.mask != MASK_WINDOW;
    return sp_fail_rule(err, "window", "method %s of framework %s has no sliding window; use %s",
                        method_names[question->layout.method], framework_names[question->layout.framework],
                        has_sinks ? "ulysses" : "allgather or ulysses of megatron, or --mask causal");
}

/* Backward kernels of FlashAttention and cuDNN stop there; materialised scores are plain products. */
static bool check_head_dim(const struct question *question, const struct method_traits *traits, struct sp_error *err)
{
    enum { LARGEST_HEAD_DIM = 256 };
    if (question->model.head_dim <= LARGEST_HEAD_DIM || traits->exchange == EXCHANGE_SCORES) {
        return true;
    }
    return sp_fail_rule(err, "head_dim",
                        "head dimension %" PRId64 ": attention kernels end at %d; only naive attends with it",
                        question->model.head_dim, LARGEST_HEAD_DIM);
}

static bool fail_not_built(struct question *question, struct sp_error *err)
{
    const struct layout_spec *layout = &question->layout;
    struct sp_texts built = {.arena = question->arena};
    for (int f = 0; f < N_FRAMEWORKS; f++) {
        if (method_is_built(layout->method, (enum framework_id)f)) {
            sp_texts_add(&built, "%s", framework_names[f]);
        }
    }
    const char *instead =
        built.count > 0 ? sp_join(question->arena, built.items, built.count, ", ") : "none yet; use zigzag";
    return sp_fail_rule(err, "not_built", "method %s of framework %s is legal but not built yet; built for %s: %s",
                        method_names[layout->method], framework_names[layout->framework], method_names[layout->method],
                        instead);
}

bool method_check(struct question *question, struct sp_error *err)
{
    const struct layout_spec *layout = &question->layout;
    if (!pair_is_legal(layout->method, layout->framework)) {
        return true; /* layout_check has said so */
    }
    const struct method_traits *traits = method_traits(layout->method, layout->framework);
    if (traits == NULL) {
        return fail_not_built(question, err);
    }
    int64_t degree = traits->exchange == EXCHANGE_ALL_TO_ALL ? layout->sp
                     : traits->exchange == EXCHANGE_HYBRID   ? layout->sp_ulysses
                                                             : 1;
    bool heads_hold = check_heads(question, traits, degree, err);
    bool mask_holds = check_mask(question, traits, err);
    return check_head_dim(question, traits, err) && heads_hold && mask_holds;
}
