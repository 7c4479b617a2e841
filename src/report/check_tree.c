/* The object of "seqplan.check/1". */
#include "report/report.h"

static void put_positive(struct report_tree *tree, const char *key, double value)
{
    if (value > 0) {
        report_tree_number(tree, key, value);
    } else {
        report_tree_null(tree, key);
    }
}

static void put_causes(struct report_tree *tree, const struct claim_judgement *judgement)
{
    report_tree_begin(tree, "causes", SP_JSON_ARRAY);
    for (int i = 0; i < judgement->n_readings; i++) {
        const struct claim_reading *reading = &judgement->readings[i];
        report_tree_begin(tree, NULL, SP_JSON_OBJECT);
        report_tree_string(tree, "cause", claim_cause_names[reading->cause]);
        report_tree_number(tree, "factor", reading->factor);
        report_tree_number(tree, "left", reading->left);
        report_tree_end(tree);
    }
    report_tree_end(tree);
}

static void put_claim(struct report_tree *tree, const struct report_check *check, const struct report_claim *claim)
{
    static const char *const ranges[] = {"interval", "published", "datasheet"};
    const struct claim_judgement *judgement = &claim->judgement;
    report_tree_begin(tree, "claim", SP_JSON_OBJECT);
    report_tree_string(tree, "quantity", judgement->quantity->name);
    report_tree_number(tree, "value", judgement->claimed);
    report_tree_end(tree);
    report_tree_number(tree, "computed", judgement->computed);
    report_tree_number(tree, "ratio", judgement->ratio);
    report_tree_number(tree, "low", judgement->low);
    report_tree_number(tree, "high", judgement->high);
    report_tree_string(tree, "range", ranges[judgement->range]);
    report_tree_bool(tree, "agrees", judgement->agrees);
    put_positive(tree, "implied_mfu_frac", judgement->implied_mfu_frac);
    put_positive(tree, "implied_hfu_frac", judgement->implied_hfu_frac);
    put_positive(tree, "implied_flop_per_s_per_gpu", judgement->implied_flop_per_s_per_gpu);
    put_positive(tree, "peak_flop_per_s_per_gpu", judgement->peak_flop_per_s);
    put_positive(tree, "implied_step_time_s", judgement->implied_step_time_s);
    if (judgement->quantity->kind == CLAIM_BYTES) {
        report_tree_number(tree, "implied_rest_bytes", judgement->implied_rest_bytes);
    } else {
        report_tree_null(tree, "implied_rest_bytes");
    }
    report_tree_string(tree, "verdict", claim_verdict_names[judgement->verdict]);
    report_tree_string(tree, "limit", claim_limit_names[judgement->limit]);
    report_tree_number(tree, "limit_value", judgement->limit_value);
    report_tree_string(tree, "reason", report_claim_reason(tree->arena, &check->answer, judgement));
    put_causes(tree, judgement);
    report_tree_string(tree, "likely_cause", report_claim_cause(tree->arena, judgement));
}

int report_check_worst(const struct report_check *check)
{
    int worst = 0;
    for (int i = 1; i < check->n_claims; i++) {
        worst = check->claims[i].judgement.verdict > check->claims[worst].judgement.verdict ? i : worst;
    }
    return worst;
}

const struct sp_json *report_check_tree(const struct report_style *style, struct sp_arena *arena,
                                        const struct report_check *check)
{
    const struct estimate *estimate = check->answer.estimate;
    struct report_tree tree;
    report_tree_open(&tree, arena);
    report_tree_string(&tree, "schema", "seqplan.check/1");
    put_claim(&tree, check, &check->claims[report_check_worst(check)]);
    report_tree_begin(&tree, "claims", SP_JSON_ARRAY);
    for (int i = 0; i < check->n_claims; i++) {
        report_tree_begin(&tree, NULL, SP_JSON_OBJECT);
        put_claim(&tree, check, &check->claims[i]);
        report_tree_end(&tree);
    }
    report_tree_end(&tree);
    report_tree_bool(&tree, "fits", estimate->fits);
    report_question_put(&tree, style, &check->answer);
    report_tree_texts(&tree, "warnings", &check->answer.question->warnings);
    report_tree_texts(&tree, "assumed", &check->answer.question->assumed);
    return report_tree_close(&tree);
}
