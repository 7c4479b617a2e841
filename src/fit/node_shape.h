/* A topology as the model sees a node, before it is written as a file. */
#ifndef SEQPLAN_NODE_SHAPE_H
#define SEQPLAN_NODE_SHAPE_H

#include "fit/import_internal.h"

/* hardware/topology/default.json: what a topology leaves out. */
struct link_figures { /* of an architecture */
    struct sp_figure nvlinks;
    struct sp_figure nvlink_bandwidth;
};
struct topology_figures {
    const char *schema, *name, *title, *source;
    struct link_figures ampere, hopper, blackwell;
    struct sp_figure nvlink_latency;
    struct sp_figure pcie_latency, pcie_efficiency, pcie_collective_efficiency, pcie_all_to_all_efficiency;
    struct sp_figure host_memory_per_gpu, host_power;
};
bool topology_figures_read(struct sp_arena *arena, struct topology_figures *figures,
                           struct sp_error *err) SP_MUST_CHECK;

/* What a GPU's file says that a node needs. */
struct node_gpu {
    const char *name, *architecture;
    double pcie_bytes_per_s, power_w;
};

struct node_shape {
    const struct topology_figures *figures;
    struct node_gpu gpu;
    int n_gpus;
    int domain; /* GPUs joined by NVLink, the same for all; without any NVLink all of them, over PCIe */
    bool has_nvlink;
    bool has_direct_links; /* no switch */
    int n_links;           /* NVLinks of a GPU that lead to others */
    double link_bytes_per_s;
    int n_nics; /* for GPU traffic */
    const char *nics_note;
};
/* What the model cannot say of the topology is a warning. */
bool node_shape_of(struct sp_arena *arena, const struct topology *topology, struct node_shape *shape,
                   struct sp_texts *warnings, struct sp_error *err) SP_MUST_CHECK;

#endif
