/* What an answer rests on without having been told or measured, named once and briefly. */
#include "spec/spec_internal.h"

#include <string.h>

static const char *recompute_name(enum recompute_kind kind)
{
    static const char *const names[] = {"none", "selective", "full", "block"};
    return names[kind];
}

/* An input that neither an option nor --layout gave, or that --layout gave as assumed before, is named by its value. */
static void assume(const struct request *request, struct question *question, bool is_given, const char *text)
{
    if (!is_given || sp_texts_has(&request->assumed, text)) {
        sp_texts_add(&question->assumed, "%s", text);
    }
}

static void assume_optimizer(const struct request *request, struct question *question)
{
    struct sp_arena *arena = question->arena;
    const struct run_spec *run = &question->run;
    bool gives_parameters = request_sets(request, "run.parameter_dtype") || run->parameter_dtype == DTYPE_BF16;
    bool gives_moments = request_sets(request, "run.moment_dtype") || request_sets(request, "run.master_weights");
    assume(request, question, gives_parameters, sp_format(arena, "parameters %s", dtype_names[run->parameter_dtype]));
    assume(request, question, request_sets(request, "run.gradient_dtype"),
           sp_format(arena, "gradients %s", dtype_names[run->gradient_dtype]));
    assume(request, question, gives_moments,
           sp_format(arena, "moments %s%s", dtype_names[run->moment_dtype],
                     run->has_master_weights ? " with master weights" : ""));
}

void assumed_inputs(const struct request *request, struct question *question)
{
    struct sp_arena *arena = question->arena;
    const struct layout_spec *layout = &question->layout;
    const struct run_spec *run = &question->run;
    assume(request, question, request->recompute != NULL,
           sp_format(arena, "recompute %s", recompute_name(layout->recompute)));
    assume(request, question, request->global_batch != NULL,
           sp_format(arena, "global batch %lld", (long long)run->global_batch));
    assume(request, question, request->pp_layers != NULL || layout->pp_layers != PP_LAYERS_AUTO, "pp-layers auto");
    assume(request, question, request->zero >= 0 || run->gpus == 1, sp_format(arena, "zero %d", layout->zero));
    assume_optimizer(request, question);
    assume(request, question, request_sets(request, "run.loss"), sp_format(arena, "loss %s", loss_names[run->loss]));
    assume(request, question, request_sets(request, "run.tiled_mlp") || !run->is_mlp_tiled, "tiled MLP");
}

/* When a figure counts. */
enum figure_use { USE_ALWAYS, USE_NETWORK, USE_LINKS, USE_RING, USE_OFFLOAD, USE_FP8, USE_POWER, USE_CLOCK };

/* Figures in use, by the path that sets them. */
struct used_figure {
    const char *path;
    size_t offset; /* in struct question */
    enum figure_use use;
};

#define USED(path, member, use)                                                                                        \
    {                                                                                                                  \
        path, offsetof(struct question, member), use                                                                   \
    }
static const struct used_figure used_figures[] = {
    USED("framework.host_tail", software.framework.host_tail, USE_ALWAYS),
    USED("framework.step_host_forward", software.framework.step_host_forward, USE_RING),
    USED("framework.step_host_backward", software.framework.step_host_backward, USE_RING),
    USED("framework.offload_overhead", software.framework.offload_overhead, USE_OFFLOAD),
    USED("loss.backward_bytes_per_logit", software.loss.backward_bytes_per_logit, USE_ALWAYS),
    USED("gpu.elementwise_bandwidth", hardware.gpu.elementwise_bandwidth, USE_ALWAYS),
    USED("gpu.kernel_latency", hardware.gpu.kernel_latency, USE_ALWAYS),
    USED("gpu.communication_sms", hardware.gpu.communication_sms, USE_LINKS),
    USED("gpu.network_communication_sms", hardware.gpu.network_communication_sms, USE_NETWORK),
    USED("gpu.gemm.sustained_factor", hardware.gpu.gemm.sustained, USE_ALWAYS),
    USED("gpu.gemm_fp8.sustained_factor", hardware.gpu.gemm_fp8.sustained, USE_FP8),
    USED("gpu.power_exponent", hardware.gpu.power_exponent, USE_POWER),
    USED("gpu.clock_exponent", hardware.gpu.clock_exponent, USE_CLOCK),
    USED("network.bandwidth", hardware.network.bandwidth, USE_NETWORK),
    USED("network.efficiency", hardware.network.efficiency, USE_NETWORK),
    USED("network.collective_efficiency", hardware.network.collective_efficiency, USE_NETWORK),
    USED("network.all_to_all_efficiency", hardware.network.all_to_all_efficiency, USE_NETWORK),
    USED("network.latency", hardware.network.latency, USE_NETWORK),
};

/* Methods whose steps the host issues one by one; PyTorch's all-gather too attends to one shard after another. */
static bool has_steps(const struct layout_spec *layout)
{
    switch (layout->method) {
    case METHOD_RING:
    case METHOD_ZIGZAG:
    case METHOD_STRIPED:
    case METHOD_USP:
        return layout->sp > 1;
    case METHOD_ALLGATHER:
        return layout->sp > 1 && layout->framework == FRAMEWORK_TORCH;
    case METHOD_NONE:
    case METHOD_NAIVE:
    case METHOD_DOUBLE_RING:
    case METHOD_ULYSSES:
    case METHOD_FUSED_RING:
    case N_METHODS:
        break;
    }
    return false;
}

static bool is_used(const struct question *question, enum figure_use use)
{
    switch (use) {
    case USE_ALWAYS:
        return true;
    case USE_NETWORK:
        return question->run.gpus > (int64_t)question->hardware.node.nvlink_domain.value;
    case USE_LINKS:
        return question->run.gpus > 1;
    case USE_RING:
        return has_steps(&question->layout);
    case USE_OFFLOAD:
        return question->layout.offloads_optimizer;
    case USE_FP8:
        return question->layout.precision == DTYPE_FP8;
    case USE_CLOCK:
        return !question->run.is_attention_only;
    case USE_POWER:
        return question->hardware.gpu.power_limit.value < question->hardware.gpu.curve_power_limit.value;
    }
    return false;
}

static bool is_uncertain(enum sp_figure_kind kind)
{
    return kind == SP_FIGURE_FITTED || kind == SP_FIGURE_ASSUMED;
}

/* A table taken over from another GPU counts as uncertain too: its kind is derived. */
static void assume_curve(struct question *question, const char *name, enum sp_figure_kind kind)
{
    if (is_uncertain(kind) || kind == SP_FIGURE_DERIVED) {
        sp_texts_add(&question->assumed, "%s (%s)", name, sp_figure_kind_names[kind]);
    }
}

void assumed_figures(struct question *question)
{
    const struct hardware_spec *hardware = &question->hardware;
    for (size_t i = 0; i < SP_COUNT_OF(used_figures); i++) {
        const struct used_figure *used = &used_figures[i];
        struct sp_figure figure;
        memcpy(&figure, (const char *)question + used->offset, sizeof(figure));
        if (is_uncertain(figure.kind) && is_used(question, used->use)) {
            sp_texts_add(&question->assumed, "%s (%s)", used->path, sp_figure_kind_names[figure.kind]);
        }
    }
    const struct attention_curve *curve = gpu_attention_curve(&hardware->gpu, question->layout.attention);
    if (curve != NULL) {
        assume_curve(question, sp_format(question->arena, "%s attention curve", curve->kernel), curve->kind);
        if (curve->n_tilings > 0 && is_uncertain(curve->tilings[0].step.kind)) {
            sp_texts_add(&question->assumed, "%s attention tiles (%s)", curve->kernel,
                         sp_figure_kind_names[curve->tilings[0].step.kind]);
        }
    }
    assume_curve(question, "GEMM curve", hardware->gpu.gemm.kind);
    if (is_used(question, USE_FP8)) {
        assume_curve(question, "fp8 GEMM curve", hardware->gpu.gemm_fp8.kind);
    }
}
