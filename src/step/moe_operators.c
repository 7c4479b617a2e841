/* A layer with experts: router, permutation, all-to-all over ep, grouped products, and the shared expert's dense ones
 * (docs/model.md, eq. 67-69). Balanced routing: every expert gets the same number of tokens. */
#include "step/step_internal.h"

enum { N_ROUTED_PROJECTIONS = 3, N_EXPERT_PROJECTIONS = 5 }; /* router, experts; then the shared one's */

static int expert_projections(const struct step_shape *shape, struct projection out[N_EXPERT_PROJECTIONS])
{
    const struct model_spec *model = &shape->question->model;
    double per_expert = shape->expert_tokens / shape->local_experts;
    int n = 0;
    out[n++] = (struct projection){"router",
                                   "router input gradient",
                                   "router weight gradient",
                                   shape->routed_tokens,
                                   (double)model->n_experts,
                                   shape->hidden,
                                   1,
                                   false};
    out[n++] = (struct projection){"experts gate and up",
                                   "experts gate and up input gradient",
                                   "experts gate and up weight gradient",
                                   per_expert,
                                   2 * shape->expert_ffn,
                                   shape->hidden,
                                   shape->local_experts,
                                   false};
    out[n++] = (struct projection){"experts down",
                                   "experts down input gradient",
                                   "experts down weight gradient",
                                   per_expert,
                                   shape->hidden,
                                   shape->expert_ffn,
                                   shape->local_experts,
                                   false};
    if (shape->shared_ffn > 0) {
        out[n++] = (struct projection){"shared gate and up",
                                       "shared gate and up input gradient",
                                       "shared gate and up weight gradient",
                                       shape->tokens,
                                       2 * shape->shared_ffn,
                                       shape->hidden,
                                       1,
                                       false};
        out[n++] = (struct projection){"shared down",
                                       "shared down input gradient",
                                       "shared down weight gradient",
                                       shape->tokens,
                                       shape->hidden,
                                       shape->shared_ffn,
                                       1,
                                       false};
    }
    return n;
}

/* Dispatch and combine: a copy of a token per chosen expert goes over ep; etp ranks gather their tokens and scatter the
 * results. The same bytes forward and backward. */
static void add_exchanges(const struct step_shape *shape, struct operator_list *list)
{
    double copies =
        shape->element * shape->routed_tokens * (double)shape->question->model.experts_per_token * shape->hidden;
    double gathered = copies * (double)shape->question->layout.etp;
    const struct collective_call calls[] = {
        {"ep all-to-all", AXIS_EP, &shape->ep_group, COLLECTIVE_ALL_TO_ALL, copies, 2},
        {"etp all-gather", AXIS_EP, &shape->etp_group, COLLECTIVE_ALL_GATHER, gathered, 1},
        {"etp reduce-scatter", AXIS_EP, &shape->etp_group, COLLECTIVE_REDUCE_SCATTER, gathered, 1},
    };
    for (size_t i = 0; i < SP_COUNT_OF(calls); i++) {
        operator_collective(shape, list, &calls[i]);
    }
}

/* Forward: read tokens, write their copies; read the copies' results, write their weighted sum. Backward mirrors it. */
static void add_permutation(const struct step_shape *shape, struct operator_list *list)
{
    double token = shape->element * shape->hidden * shape->routed_tokens;
    double copies = token * (double)shape->question->model.experts_per_token;
    operator_mark(operator_elementwise(shape, list, "permute and unpermute tokens", 2 * (token + copies)), false);
}

void add_experts_forward(const struct step_shape *shape, struct operator_list *list)
{
    struct projection all[N_EXPERT_PROJECTIONS];
    int n = expert_projections(shape, all);
    for (int i = 0; i < n; i++) {
        (i < N_ROUTED_PROJECTIONS ? project_forward_frozen : project_forward)(shape, list, &all[i]);
    }
    add_permutation(shape, list);
    add_exchanges(shape, list);
}

void add_experts_backward(const struct step_shape *shape, struct operator_list *list)
{
    struct projection all[N_EXPERT_PROJECTIONS];
    int n = expert_projections(shape, all);
    for (int i = n - 1; i >= 0; i--) {
        (i < N_ROUTED_PROJECTIONS ? project_backward_frozen : project_backward)(shape, list, &all[i]);
    }
    add_permutation(shape, list);
    add_exchanges(shape, list);
}
