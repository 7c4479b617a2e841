/* Experts live on the ranks of the other axes: gpus = pp x ep x etp x the replicas of an expert. */
#include "spec/spec_internal.h"

static bool check_dense(const struct question *question, struct sp_error *err)
{
    const struct layout_spec *layout = &question->layout;
    if (layout->ep == 1 && layout->etp == 1) {
        return true;
    }
    return sp_fail_rule(err, "experts", "ep %lld, etp %lld: %s has no experts; use --ep 1 and --etp 1",
                        (long long)layout->ep, (long long)layout->etp, question->model.name);
}

/* Without --tp-sp every tp rank would route, and exchange, all tokens: Megatron refuses it too. */
static bool check_tokens_are_split(const struct question *question, struct sp_error *err)
{
    const struct layout_spec *layout = &question->layout;
    if (layout->tp == 1 || layout->has_tp_sp) {
        return true;
    }
    return sp_fail_rule(err, "experts_need_tp_sp",
                        "tp %lld without sequence parallelism: its ranks would route the same tokens; use --tp-sp on",
                        (long long)layout->tp);
}

static bool check_counts(const struct question *question, struct sp_error *err)
{
    const struct layout_spec *layout = &question->layout;
    const struct model_spec *model = &question->model;
    bool is_legal = true;
    if (model->n_experts % layout->ep != 0) {
        is_legal = sp_fail_rule(err, "experts_over_ep", "ep %lld: %lld experts do not divide by it; legal ep: %s",
                                (long long)layout->ep, (long long)model->n_experts,
                                divisors_text(question->arena, model->n_experts, layout->ep));
    }
    if (model->expert_ffn % layout->etp != 0) {
        is_legal = sp_fail_rule(err, "expert_ffn_over_etp",
                                "etp %lld: an expert's width %lld does not divide by it; legal etp: %s",
                                (long long)layout->etp, (long long)model->expert_ffn,
                                divisors_text(question->arena, model->expert_ffn, layout->etp));
    }
    return is_legal;
}

/* pp x ep x etp, or gpus + 1 when it is larger. */
static int64_t expert_product(const struct layout_spec *layout, int64_t gpus)
{
    if (layout->pp > gpus || layout->ep > gpus / layout->pp || layout->etp > gpus / (layout->pp * layout->ep)) {
        return gpus + 1;
    }
    return layout->pp * layout->ep * layout->etp;
}

static bool check_grid(const struct question *question, struct sp_error *err)
{
    const struct layout_spec *layout = &question->layout;
    int64_t gpus = question->run.gpus;
    int64_t product = expert_product(layout, gpus);
    if (gpus % product == 0) {
        return true;
    }
    int64_t ranks = gpus / layout->pp;
    bool has_legal_ep = layout->etp <= ranks && ranks % layout->etp == 0;
    int64_t common = has_legal_ep ? gcd_of(ranks / layout->etp, question->model.n_experts) : 1;
    const char *legal =
        has_legal_ep
            ? sp_format(question->arena, "legal ep with this pp and etp: %s",
                        divisors_text(question->arena, common, layout->ep))
            : sp_format(question->arena, "etp must be one of %s",
                        divisors_text(question->arena, gcd_of(ranks, question->model.expert_ffn), layout->etp));
    double exact = (double)layout->pp * (double)layout->ep * (double)layout->etp;
    return sp_fail_rule(
        err, "expert_gpus",
        "%lld gpus are no multiple of pp %lld x ep %lld x etp %lld = %.12g, the ranks of the experts; %s",
        (long long)gpus, (long long)layout->pp, (long long)layout->ep, (long long)layout->etp, exact, legal);
}

bool rules_experts(struct question *question, struct sp_error *err)
{
    if (question->model.n_experts == 0) {
        return check_dense(question, err);
    }
    bool is_legal = check_counts(question, err);
    is_legal = check_tokens_are_split(question, err) && is_legal;
    bool is_divided = question->run.gpus % question->layout.pp == 0; /* else another rule has said so */
    return (!is_divided || check_grid(question, err)) && is_legal;
}
