/* What an answer rests on without having been told or measured, named once and briefly. */
#include "spec/spec_internal.h"

#include <string.h>

static const char *recompute_name(enum recompute_kind kind)
{
    static const char *const names[] = {"none", "selective", "full", "block"};
    return names[kind];
}

static void assume_optimizer(const struct request *request, struct question *question)
{
    const struct run_spec *run = &question->run;
    if (!request_sets(request, "run.gradient_dtype")) {
        sp_texts_add(&question->assumed, "gradients %s", dtype_names[run->gradient_dtype]);
    }
    if (!request_sets(request, "run.moment_dtype") && !request_sets(request, "run.master_weights")) {
        sp_texts_add(&question->assumed, "moments %s%s", dtype_names[run->moment_dtype],
                     run->has_master_weights ? " with master weights" : "");
    }
}

void assumed_inputs(const struct request *request, struct question *question)
{
    const struct layout_spec *layout = &question->layout;
    const struct run_spec *run = &question->run;
    struct sp_texts *assumed = &question->assumed;
    if (request->recompute == NULL) {
        sp_texts_add(assumed, "recompute %s", recompute_name(layout->recompute));
    }
    if (request->global_batch == NULL) {
        sp_texts_add(assumed, "global batch %lld", (long long)run->global_batch);
    }
    if (request->pp_layers == NULL && layout->pp_layers == PP_LAYERS_AUTO) {
        sp_texts_add(assumed, "pp-layers auto");
    }
    if (request->zero < 0 && run->gpus > 1) {
        sp_texts_add(assumed, "zero %d", layout->zero);
    }
    assume_optimizer(request, question);
    if (!request_sets(request, "run.loss")) {
        sp_texts_add(assumed, "loss %s", loss_names[run->loss]);
    }
}

/* Figures that every estimate uses, by the path that sets them. */
struct used_figure {
    const char *path;
    size_t offset;   /* in struct question */
    bool is_network; /* used only between NVLink domains */
};

#define USED(path, member, network)                                                                                    \
    {                                                                                                                  \
        path, offsetof(struct question, member), network                                                               \
    }
static const struct used_figure used_figures[] = {
    USED("framework.host_tail", software.framework.host_tail, false),
    USED("loss.backward_bytes_per_logit", software.loss.backward_bytes_per_logit, false),
    USED("gpu.elementwise_bandwidth", hardware.gpu.elementwise_bandwidth, false),
    USED("gpu.kernel_latency", hardware.gpu.kernel_latency, false),
    USED("gpu.launch_latency", hardware.gpu.launch_latency, false),
    USED("gpu.gemm.sustained_factor", hardware.gpu.gemm.sustained, false),
    USED("network.bandwidth", hardware.network.bandwidth, true),
    USED("network.efficiency", hardware.network.efficiency, true),
    USED("network.collective_efficiency", hardware.network.collective_efficiency, true),
    USED("network.all_to_all_efficiency", hardware.network.all_to_all_efficiency, true),
    USED("network.latency", hardware.network.latency, true),
};

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
    bool uses_network = question->run.gpus > (int64_t)hardware->node.nvlink_domain.value;
    for (size_t i = 0; i < SP_COUNT_OF(used_figures); i++) {
        const struct used_figure *used = &used_figures[i];
        struct sp_figure figure;
        memcpy(&figure, (const char *)question + used->offset, sizeof(figure));
        if (is_uncertain(figure.kind) && (uses_network || !used->is_network)) {
            sp_texts_add(&question->assumed, "%s (%s)", used->path, sp_figure_kind_names[figure.kind]);
        }
    }
    const struct attention_curve *curve = gpu_attention_curve(&hardware->gpu, question->layout.attention);
    if (curve != NULL) {
        assume_curve(question, sp_format(question->arena, "%s attention curve", curve->kernel), curve->kind);
    }
    assume_curve(question, "GEMM curve", hardware->gpu.gemm.kind);
}
