/* A plan of one layout: where each axis that is asked for has one value and nothing keeps the rules, what estimate says. */
#include "cmd/command.h"

#include <string.h>

static bool is_single(unsigned set)
{
    return (set & (set - 1)) == 0; /* 0: open */
}

static bool has_single_values(const struct plan_axes *axes)
{
    const struct plan_counts *const counts[] = {&axes->tp,  &axes->sp,         &axes->sp_ulysses, &axes->sp_inner,
                                                &axes->pp,  &axes->vpp,        &axes->dp,         &axes->ep,
                                                &axes->etp, &axes->micro_batch};
    bool is_one = is_single(axes->methods) && is_single(axes->frameworks) && is_single(axes->schedules) &&
                  is_single(axes->zeros) && is_single(axes->offloads) && axes->n_recomputes <= 1 && axes->n_orders <= 1;
    for (size_t i = 0; i < SP_COUNT_OF(counts); i++) {
        is_one = is_one && counts[i]->n <= 1;
    }
    return is_one;
}

/* The bit of a set of one; -1: open. */
static int bit_of(unsigned set)
{
    int bit = -1;
    for (; set != 0; set >>= 1U) {
        bit++;
    }
    return bit;
}

static void set_counts(const struct plan_axes *axes, struct request *request)
{
    const struct {
        const struct plan_counts *from;
        struct sp_option_count *to;
    } counts[] = {{&axes->tp, &request->tp},
                  {&axes->sp, &request->sp},
                  {&axes->sp_ulysses, &request->sp_ulysses},
                  {&axes->sp_inner, &request->sp_inner},
                  {&axes->pp, &request->pp},
                  {&axes->vpp, &request->vpp},
                  {&axes->dp, &request->dp},
                  {&axes->ep, &request->ep},
                  {&axes->etp, &request->etp},
                  {&axes->micro_batch, &request->micro_batch}};
    for (size_t i = 0; i < SP_COUNT_OF(counts); i++) {
        if (counts[i].from->n == 1) {
            *counts[i].to = (struct sp_option_count){.is_given = true, .value = counts[i].from->values[0]};
        }
    }
}

static struct request request_of(const struct plan_question *asked, const struct plan_typed *typed,
                                 struct sp_arena *arena)
{
    struct request request = asked->request;
    const struct plan_axes *axes = &asked->axes;
    set_counts(axes, &request);
    request.method = bit_of(axes->methods);
    request.framework = bit_of(axes->frameworks);
    request.schedule = bit_of(axes->schedules);
    request.zero = bit_of(axes->zeros);
    request.recompute = typed->recomputes;
    if (typed->offloads != NULL) {
        char *offload = sp_strdup(arena, typed->offloads);
        for (char *at = strchr(offload, '+'); at != NULL; at = strchr(at, '+')) {
            *at = ',';
        }
        request.offload = offload;
    }
    return request;
}

/* A rule of the layouts themselves, by the plan: what the framework does not run is only warned of by estimate. */
static const struct plan_rejection *broken_rule(const struct plan *plan)
{
    for (int i = 0; i < plan->n_rejections; i++) {
        if (strcmp(plan->rejections[i].reason, "not_in_framework") != 0) {
            return &plan->rejections[i];
        }
    }
    return NULL;
}

bool plan_single_check(const struct plan_question *asked, const struct plan_typed *typed, const struct plan *plan,
                       struct sp_arena *arena, struct sp_error *err)
{
    const struct plan_rejection *broken = broken_rule(plan);
    if (plan->n_layouts > 0 || plan->has_nearest_miss || broken == NULL || !has_single_values(&asked->axes)) {
        return true;
    }
    struct request request = request_of(asked, typed, arena);
    struct question *question = sp_arena_alloc(arena, sizeof(*question));
    struct sp_error own = {.kind = SP_ERROR_NONE};
    bool is_legal = question_resolve(&request, arena, question, &own) && step_check(question, &own);
    if (is_legal || own.rule[0] == '\0') {
        return true;
    }
    bool is_of_degrees = strcmp(own.rule, "gpus_product") == 0; /* perhaps only because some are open */
    if (is_of_degrees && strcmp(broken->reason, "gpus_product") != 0) {
        return sp_fail_rule(err, broken->reason, "%s", broken->example);
    }
    *err = own;
    return false;
}
