/* What a layout must keep, each rule with its numbers and the nearest legal values; by theme in rules_*.c. The rules of
 * an attention method are the method's own. */
#include "spec/spec_internal.h"

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

/* What would make the product: the dp that tp, sp and pp leave, or the sp that tp and pp leave, or any degree. */
static const char *legal_degrees_text(struct sp_arena *arena, const struct layout_spec *layout, int64_t gpus)
{
    struct layout_spec without_dp = *layout;
    without_dp.dp = 1;
    int64_t others = product_up_to(&without_dp, gpus);
    if (others <= gpus && gpus % others == 0) {
        return sp_format(arena, "with this tp, sp and pp, dp is %lld", (long long)(gpus / others));
    }
    without_dp.sp = 1;
    others = product_up_to(&without_dp, gpus);
    if (others <= gpus && gpus % others == 0) {
        return sp_format(arena, "legal sp with this tp and pp: %s", divisors_text(arena, gpus / others, layout->sp));
    }
    return sp_format(arena, "tp x sp x pp must be one of %s", divisors_text(arena, gpus, layout->tp));
}

static bool check_product(const struct question *question, struct sp_error *err)
{
    const struct layout_spec *layout = &question->layout;
    int64_t gpus = question->run.gpus;
    if (product_up_to(layout, gpus) == gpus) {
        return true;
    }
    double product = (double)layout->tp * (double)layout->sp * (double)layout->pp * (double)layout->dp;
    return sp_fail_rule(err, "gpus_product", "%lld gpus are not tp %lld x sp %lld x pp %lld x dp %lld = %.12g; %s",
                        (long long)gpus, (long long)layout->tp, (long long)layout->sp, (long long)layout->pp,
                        (long long)layout->dp, product, legal_degrees_text(question->arena, layout, gpus));
}

bool layout_fills_cluster(const struct question *question)
{
    return product_up_to(&question->layout, question->run.gpus) == question->run.gpus;
}

bool layout_check_theme(struct question *question, enum rule_theme theme, struct sp_error *err)
{
    typedef bool (*theme_fn)(struct question *, struct sp_error *);
    static const theme_fn themes[N_RULE_THEMES] = {rules_software, rules_degrees, rules_experts, rules_sequence,
                                                   rules_pipeline};
    return themes[theme](question, err);
}

bool layout_check(struct question *question, struct sp_error *err)
{
    bool is_legal = check_product(question, err);
    if (product_up_to(&question->layout, question->run.gpus) > question->run.gpus) {
        return false; /* the products below may not fit an integer */
    }
    for (int theme = 0; theme < N_RULE_THEMES; theme++) {
        is_legal = layout_check_theme(question, (enum rule_theme)theme, err) && is_legal;
    }
    return is_legal;
}
