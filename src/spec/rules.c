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

bool layout_fills_cluster(const struct question *question)
{
    return product_up_to(&question->layout, question->run.gpus) == question->run.gpus;
}

bool layout_check(struct question *question, struct sp_error *err)
{
    bool is_legal = check_product(question, err);
    if (product_up_to(&question->layout, question->run.gpus) > question->run.gpus) {
        return false; /* the products below may not fit an integer */
    }
    is_legal = rules_software(question, err) && is_legal;
    is_legal = rules_degrees(question, err) && is_legal;
    is_legal = rules_experts(question, err) && is_legal;
    is_legal = rules_sequence(question, err) && is_legal;
    return rules_pipeline(question, err) && is_legal;
}
