/* Rules of a whole question, and what only the finished estimate shows. */
#include "step/step_internal.h"

#include <inttypes.h>
#include <string.h>

static const double PERCENT = 100;
/* A warning when less than this share of the GPU's memory stays free: allocators of other frameworks were seen to hold
 * 2 to 7 % more than they use (frameworks/megatron.json, allocator_slack). */
static const double LITTLE_HEADROOM_FRAC = 0.05;
/* A warning when the pipeline idles for more than this share of the step. */
static const double LARGE_BUBBLE_FRAC = 0.25;

/* No warning about what takes less than this of the step. */
static const double LITTLE_FRAC = 0.01;

bool step_check(struct question *question, struct sp_error *err)
{
    bool layout_holds = layout_check(question, err);
    bool method_holds = method_check(question, err);
    return layout_holds && method_holds;
}

bool step_check_method(struct question *question, struct sp_error *err)
{
    return method_check(question, err);
}

static void remark_memory(struct question *question, const struct estimate *estimate)
{
    if (!estimate->fits && estimate->headroom_bytes >= 0) {
        sp_texts_add(
            &question->warnings,
            "does not fit: a node's host memory is %s, offload needs %s; offload less, or set node.host_memory",
            sp_quantity_print(question->arena, estimate->host_capacity_bytes, SP_BYTES),
            sp_quantity_print(question->arena, estimate->host_bytes, SP_BYTES));
    } else if (!estimate->fits) {
        const struct layout_spec *layout = &question->layout;
        const char *first = layout->recompute == RECOMPUTE_FULL ? "" : "--recompute full, ";
        const char *zero = layout->zero < 3 && layout->dp * layout->sp > 1 ? "--zero 3, " : "";
        sp_texts_add(&question->warnings,
                     "does not fit: %s short of memory on stage %" PRId64 " of %" PRId64
                     "; try %s%smore GPUs over sp, tp or pp",
                     sp_quantity_print(question->arena, -estimate->headroom_bytes, SP_BYTES), estimate->peak_stage + 1,
                     layout->pp, first, zero);
    } else if (estimate->headroom_bytes < LITTLE_HEADROOM_FRAC * estimate->capacity_bytes) {
        sp_texts_add(&question->warnings, "only %s left: fragmentation can exceed it; keep 5 %% free",
                     sp_quantity_print(question->arena, estimate->headroom_bytes, SP_BYTES));
    }
}

static void remark_bubble(struct question *question, const struct estimate *estimate)
{
    double share = estimate->time_s[TIME_BUBBLE] / estimate->step_time_s;
    if (share > LARGE_BUBBLE_FRAC || (question->layout.pp > 1 && estimate->micro_batches < question->layout.pp)) {
        sp_texts_add(&question->warnings,
                     "the pipeline idles for %.0f %% of the step: %" PRId64 " micro-batches over %" PRId64
                     " stages; raise --global-batch or lower --pp",
                     PERCENT * share, estimate->micro_batches, question->layout.pp);
    }
}

static void remark_method(struct question *question, const struct estimate *estimate)
{
    const struct layout_spec *layout = &question->layout;
    double imbalance = estimate->time_s[TIME_IMBALANCE] / estimate->step_time_s;
    if (layout->method == METHOD_RING && layout->sp > 1 && imbalance > LITTLE_FRAC) {
        sp_texts_add(
            &question->warnings,
            "a contiguous causal ring waits for its last rank for %.0f %% of the step; zigzag balances the same work",
            PERCENT * imbalance);
    }
    const struct attention_curve *curve = gpu_attention_curve(&question->hardware.gpu, layout->attention);
    if (attention_is_extrapolated(curve, (double)question->model.head_dim)) {
        sp_texts_add(&question->assumed, "%s rate at head dimension %" PRId64 " (nearest measured one used)",
                     layout->attention, question->model.head_dim);
    }
}

/* Layers too small for the host: it launches kernels more slowly than the GPU runs them. */
static void remark_launches(struct question *question, const struct estimate *estimate)
{
    double time_s = 0;
    for (int i = 0; i < estimate->n_operators; i++) {
        const struct operator_row *row = &estimate->operators[i];
        time_s += strcmp(row->name, host_launches_name) == 0 ? row->count * row->time_s : 0;
    }
    double share = time_s / estimate->step_time_s;
    if (share > LITTLE_FRAC) {
        const struct sp_figure *latency = &question->hardware.gpu.launch_latency;
        sp_texts_add(&question->warnings,
                     "the GPU waits for the host for %.0f %% of the step: layers are too small for kernels of %s; "
                     "raise --micro-batch",
                     PERCENT * share, sp_quantity_print(question->arena, latency->value, SP_SECONDS));
        if (latency->kind == SP_FIGURE_ASSUMED || latency->kind == SP_FIGURE_FITTED) {
            sp_texts_add(&question->assumed, "gpu.launch_latency (%s)", sp_figure_kind_names[latency->kind]);
        }
    }
}

/* Nor is it said of less that a simulation would tell more. */
static const double SEEN_FRAC = 0.005;

/* What only a simulation settles, where it can be seen. */
static void remark_doubts(struct question *question, const struct estimate *estimate)
{
    double doubts_s[N_DOUBTS];
    step_doubts(question, estimate, doubts_s);
    for (int d = 0; d < N_DOUBTS; d++) {
        if (doubts_s[d] > SEEN_FRAC * estimate->step_time_s) {
            sp_texts_add(&question->assumed, "%s (a formula; simulate runs it)", doubt_names[d]);
        }
    }
}

static const char *contenders(struct question *question, const struct contention *contention)
{
    if (contention->axes[0] == N_AXES) {
        return "transfers";
    }
    const char *names[2];
    for (int i = 0; i < 2; i++) {
        names[i] = contention->axes[i] == AXIS_CP ? "sp" : axis_names[contention->axes[i]];
    }
    return sp_format(question->arena, "%s and %s transfers", names[0], names[1]);
}

static void remark_contention(struct question *question, const struct estimate *estimate)
{
    struct contentions all;
    step_contentions(question, estimate, &all);
    const struct contention *worst = NULL;
    for (int i = 0; i < all.n; i++) {
        worst = worst == NULL || all.items[i].time_s > worst->time_s ? &all.items[i] : worst;
    }
    if (worst != NULL && worst->time_s > LITTLE_FRAC * estimate->step_time_s) {
        sp_texts_add(&question->warnings,
                     "%s meet on %s for up to %.2g %% of the step, and this estimate prices them apart: simulate shows "
                     "what that "
                     "costs",
                     contenders(question, worst), worst->where, PERCENT * worst->time_s / estimate->step_time_s);
    }
}

static void remark_expert_stages(struct question *question)
{
    if (!layout_expert_stages_agree(&question->layout, &question->model, &question->hardware)) {
        sp_texts_add(
            &question->warnings,
            "in this order ranks of one group of experts belong to different stages: Megatron-LM refuses it and "
            "simulate cannot run it; use a layout.order that ends in pp");
    }
}

void step_remarks(struct question *question, const struct estimate *estimate)
{
    remark_memory(question, estimate);
    remark_bubble(question, estimate);
    remark_method(question, estimate);
    remark_launches(question, estimate);
    remark_expert_stages(question);
    remark_contention(question, estimate);
    remark_doubts(question, estimate);
}
