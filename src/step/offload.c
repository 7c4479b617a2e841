/* Offload to the host: transfer time, host memory (docs/model.md, eq. 58, 59). Each GPU has its own link to the host. */
#include "step/step_internal.h"

#include <math.h>

static const double FP32_BYTES = 4;

static double host_rate(const struct step_shape *shape)
{
    return shape->gpu->pcie_bandwidth.value;
}

static void add_exposed(const struct step_shape *shape, struct operator_list *list, const char *name, double bytes,
                        double hidden_s)
{
    double transfer_s = bytes / host_rate(shape);
    struct operator_row row = {.name = name,
                               .formula = "bytes / host link - what compute hides (eq. 58)",
                               .source = shape->gpu->pcie_bandwidth.source,
                               .item = TIME_OFFLOAD_EXPOSED,
                               .count = 1,
                               .hbm_bytes = bytes,
                               .time_s = fmax(transfer_s - hidden_s, 0)};
    operator_add(list, &row);
}

/* Of all layers, those that keep their checkpoint only. Transfers run ahead of and behind compute, so what counts is the
 * mean layer. */
static double rebuilt_share(const struct step_shape *shape)
{
    double layers = 0;
    for (int i = 0; i < shape->n_classes; i++) {
        layers += (double)(shape->classes[i].count * class_recomputed_layers(shape, &shape->classes[i]));
    }
    return layers / (double)shape->question->model.n_layers;
}

/* What a layer keeps goes out during its forward and comes back during its backward, each behind that compute; shards of
 * offloaded parameters come in before each gather, exposed. */
void add_offload_layer(const struct step_shape *shape, struct layer_operators *layer, int kind)
{
    const struct layout_spec *layout = &shape->question->layout;
    if (layout->offloads_activations) {
        struct saved_layer saved = saved_layer_bytes(shape, kind);
        double rebuilt = rebuilt_share(shape);
        double bytes = rebuilt * saved.checkpoint + (1 - rebuilt) * saved.total;
        double repeated = layout->recompute == RECOMPUTE_SELECTIVE ? 1 : rebuilt;
        double backward_s = layer->backward.sum.time_s + repeated * layer->reforward.sum.time_s;
        add_exposed(shape, &layer->forward, "activations to the host", bytes, layer->forward.sum.time_s);
        add_exposed(shape, &layer->backward, "activations from the host", bytes, backward_s);
    }
    if (layout->offloads_parameters) {
        double shard = shape->parameter_size * sharded(shape, rank_layer_parameters(shape, kind), true);
        add_exposed(shape, &layer->forward, "parameters from the host", shard, 0);
        add_exposed(shape, &layer->backward, "parameters from the host", shard, 0);
    }
}

/* Gradients of the owned parameters go out, updated parameters come in, and the host's Adam takes its own time. */
void add_offload_optimizer(const struct step_shape *shape, struct operator_list *list, double owned)
{
    const struct framework_spec *framework = &shape->question->software.framework;
    add_exposed(shape, list, "gradients to the host", shape->gradient_size * owned, 0);
    add_exposed(shape, list, "parameters from the host", shape->parameter_size * owned, 0);
    struct operator_row overhead = {.name = "optimizer on the host",
                                    .formula = "framework figure offload_overhead (eq. 59)",
                                    .source = framework->offload_overhead.source,
                                    .item = TIME_OFFLOAD_EXPOSED,
                                    .count = 1,
                                    .time_s = framework->offload_overhead.value};
    operator_add(list, &overhead);
}

/* Of one node: every GPU's share of what lives on the host. */
double offload_host_bytes(const struct step_shape *shape, double activation_bytes)
{
    const struct question *question = &shape->question[0];
    const struct layout_spec *layout = &question->layout;
    double gpus = fmin(question->hardware.node.gpus.value, (double)question->run.gpus);
    double bytes = layout->offloads_activations ? activation_bytes : 0;
    double moments = 2 * (double)dtype_bytes(question->run.moment_dtype);
    /* the first stage: most micro-batches in flight, and a table */
    double state = moments + (question->run.has_master_weights ? FP32_BYTES : 0) + shape->gradient_size;
    bytes += layout->offloads_optimizer
                 ? state * sharded(shape, rank_stage_trained(shape, &shape->classes[0]), layout->zero >= 1)
                 : 0;
    bytes += layout->offloads_parameters
                 ? shape->parameter_size * sharded(shape, rank_stage_parameters(shape, &shape->classes[0]), true)
                 : 0;
    return gpus * bytes;
}
