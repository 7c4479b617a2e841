/* Every layout of the space, one after the other, through step_check() and step_estimate(): what the search must equal. */
#include "support/brute_search.h"

#include "search/search_internal.h"

#include <math.h>
#include <string.h>
#include <time.h>

struct run {
    const struct plan_question *asked;
    struct space *space;
    struct sp_arena *arena, *scratch;
    struct plan *plan;
    struct front front;
    struct families families;
    uint64_t index;
};

static void refuse(struct run *run)
{
    run->plan->considered++;
    rejections_add(run->plan, run->arena, "gpus_product", 1, "");
}

static void consider(struct run *run, const struct assignment *assignment)
{
    struct plan *plan = run->plan;
    struct layout_spec layout = space_layout(run->space, assignment);
    const struct question *base = run->space->bases[assignment->framework];
    struct question *question = sp_arena_alloc(run->scratch, sizeof(*question));
    struct estimate *estimate = sp_arena_alloc(run->scratch, sizeof(*estimate));
    struct sp_error err = {0};
    plan->considered++;
    run->index++;
    *question = *base;
    question->layout = layout;
    question->arena = run->scratch;
    question->warnings = (struct sp_texts){.arena = run->scratch};
    if (!step_check(question, &err)) {
        rejections_add(plan, run->arena, err.rule, 1, err.text);
        return;
    }
    const char *refusal = framework_refusal(question);
    if (refusal != NULL) {
        rejections_add(plan, run->arena, "not_in_framework", 1, refusal);
        return;
    }
    step_estimate(question, estimate);
    if (!estimate->fits) {
        const char *example =
            sp_format(run->scratch, "tp %lld sp %lld pp %lld dp %lld: %.1f GiB", (long long)layout.tp,
                      (long long)layout.sp, (long long)layout.pp, (long long)layout.dp, estimate->peak_bytes / 0x1p30);
        rejections_add(plan, run->arena, "memory", 1, example);
        if (!plan->has_nearest_miss || estimate->peak_bytes < plan->nearest_miss.peak_bytes) {
            plan->has_nearest_miss = true;
            plan->nearest_miss = (struct plan_layout){.layout = layout,
                                                      .gpus = run->space->gpus,
                                                      .step_time_s = estimate->step_time_s,
                                                      .peak_bytes = estimate->peak_bytes,
                                                      .index = run->index};
        }
        return;
    }
    plan->evaluated++;
    struct plan_layout found = {.layout = layout,
                                .gpus = run->space->gpus,
                                .step_time_s = estimate->step_time_s,
                                .peak_bytes = estimate->peak_bytes,
                                .index = run->index};
    found.pace_s = plan_pace_of(run->space, found.step_time_s);
    found.objective = plan_objective_of(run->asked, base, (struct step_bound){found.step_time_s, found.peak_bytes});
    front_add(&run->front, &found);
    families_add(&run->families, &found);
}

static void over_memory(struct run *run, struct assignment *a)
{
    for (int s = 0; s < N_SCHEDULES; s++) {
        struct values chunks;
        if (!space_has_schedule(run->space, a->framework, (enum schedule_id)s, a->pp)) {
            continue;
        }
        a->schedule = (enum schedule_id)s;
        space_chunks(run->space, a->schedule, a->pp, &chunks);
        for (int v = 0; v < chunks.n; v++) {
            a->vpp = chunks.items[v];
            for (int r = 0; r < space_recomputes(run->space, a->pp, a->vpp); r++) {
                a->recompute = space_recompute(run->space, r);
                for (int z = 0; z < N_ZERO_STAGES; z++) {
                    for (unsigned o = 0; o < N_PLAN_OFFLOADS; o++) {
                        struct sp_arena_mark mark = sp_arena_mark(run->scratch);
                        a->zero = z;
                        a->offload = o;
                        if (space_has_sharding(run->space, z, o)) {
                            consider(run, a);
                        }
                        sp_arena_rewind(run->scratch, mark);
                    }
                }
            }
        }
    }
}

static void over_batches(struct run *run, struct assignment *a)
{
    struct values batches;
    space_micro_batches(run->space, a->dp, &batches);
    for (int b = 0; b < batches.n; b++) {
        a->micro_batch = batches.items[b];
        over_memory(run, a);
    }
}

static void over_orders(struct run *run, struct assignment *a)
{
    enum axis orders[MAX_ORDERS][N_AXES];
    a->order = NULL;
    a->micro_batch = a->vpp = 1;
    a->schedule = SCHEDULE_1F1B;
    struct layout_spec layout = space_layout(run->space, a);
    int n = layout_splits_experts(&layout) ? space_orders(run->space, &layout, orders) : 0;
    if (n == 0) {
        over_batches(run, a);
    }
    for (int i = 0; i < n; i++) {
        a->order = orders[i];
        over_batches(run, a);
    }
}

static void over_experts(struct run *run, struct assignment *a)
{
    struct values eps;
    struct values etps;
    space_expert_degrees(run->space, &eps, &etps);
    for (int e = 0; e < eps.n; e++) {
        for (int t = 0; t < etps.n; t++) {
            a->ep = eps.items[e];
            a->etp = etps.items[t];
            over_orders(run, a);
        }
    }
}

static bool has_dp(const struct run *run, int64_t left)
{
    const struct plan_counts *dp = &run->asked->axes.dp;
    bool has_it = dp->n == 0;
    for (int d = 0; d < dp->n; d++) {
        has_it = has_it || dp->values[d] == left;
    }
    return has_it;
}

/* Values of pp and dp that do not multiply to the cluster, once for tp and sp. */
static void refuse_stages(struct run *run, int64_t left)
{
    const struct plan_counts *dp = &run->asked->axes.dp;
    struct values pps;
    space_stages(run->space, left, &pps);
    for (int p = 0; p < pps.n; p++) {
        if (left % pps.items[p] != 0) {
            refuse(run);
            continue;
        }
        for (int d = 0; d < dp->n && dp->values[d] != left / pps.items[p]; d++) {
            refuse(run);
        }
    }
}

static void over_stages(struct run *run, struct assignment *a, int64_t left)
{
    struct values pps;
    space_stages(run->space, left, &pps);
    for (int p = 0; p < pps.n; p++) {
        a->pp = pps.items[p];
        if (left % a->pp != 0) {
            continue;
        }
        a->dp = left / a->pp;
        if (has_dp(run, a->dp)) {
            over_experts(run, a);
        }
    }
}

static void over_methods(struct run *run, struct assignment *a, int64_t left)
{
    for (int f = 0; f < N_FRAMEWORKS; f++) {
        for (int m = 0; m < N_METHODS; m++) {
            struct values parts;
            a->framework = (enum framework_id)f;
            a->method = (enum method_id)m;
            if (run->space->bases[f] == NULL || !space_has_method(run->space, a->framework, a->method, a->sp)) {
                continue;
            }
            space_parts(run->space, a->method, a->sp, &parts);
            for (int i = 0; i < parts.n; i++) {
                a->part = parts.items[i];
                over_stages(run, a, left);
            }
        }
    }
}

bool brute_search(const struct plan_question *question, struct sp_arena *arena, struct plan *plan, struct sp_error *err)
{
    struct space space;
    struct values tps;
    struct values sps;
    *plan = (struct plan){0};
    int64_t gpus = question->request.gpus.value;
    if (!space_open(question, gpus, arena, &space, err)) {
        return false;
    }
    struct run run = {.asked = question, .space = &space, .arena = arena, .scratch = sp_arena_open(), .plan = plan};
    run.front.arena = arena;
    families_init(&run.families, arena, question->n_top > question->n_kept ? question->n_top : question->n_kept);
    space_degrees(&question->axes.tp, gpus, &tps);
    for (int t = 0; t < tps.n; t++) {
        if (gpus % tps.items[t] != 0) {
            refuse(&run);
            continue;
        }
        space_degrees(&question->axes.sp, gpus / tps.items[t], &sps);
        for (int s = 0; s < sps.n; s++) {
            struct assignment a = {.tp = tps.items[t], .sp = sps.items[s]};
            if (gpus % (a.tp * a.sp) != 0) {
                refuse(&run);
                continue;
            }
            refuse_stages(&run, gpus / a.tp / a.sp);
            over_methods(&run, &a, gpus / a.tp / a.sp);
        }
    }
    ranking_finish(&run.families, &run.front, question->n_top, arena, plan);
    rejections_sort(plan);
    plan->has_nearest_miss = plan->has_nearest_miss && plan->n_layouts == 0;
    plan->global_batch = space.global_batch;
    plan->is_batch_assumed = space.is_batch_assumed;
    sp_arena_close(run.scratch);
    return true;
}
