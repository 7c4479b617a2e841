/* The links of a cluster as a graph, and the route between any two of its GPUs.
 *
 * What a machine's file says becomes links with a capacity: NVLink ports of each GPU into its switch (or the direct links of
 * boxes without one), each GPU's PCIe link, the NICs that its PCIe switch shares out, leaf switches (by rail where the network
 * is rail-optimised) and the spine above them with its oversubscription. Both directions of a cable are two links. No link is
 * below what the estimate sends over it alone; docs/simulator.md says where each capacity comes from. On an ideal
 * network (hardware.network.is_ideal) there are no links at all: no two flows share anything, inside a node or between.
 */
#ifndef SEQPLAN_SIM_TOPOLOGY_H
#define SEQPLAN_SIM_TOPOLOGY_H

#include "spec/spec.h"

enum link_kind {
    LINK_NVLINK_OUT, /* of a GPU, into the switch */
    LINK_NVLINK_IN,
    LINK_PAIR,     /* direct, from one GPU to another of its domain */
    LINK_PCIE_OUT, /* of a GPU, to its PCIe switch: NIC and host traffic share it */
    LINK_PCIE_IN,
    LINK_NODE_BUS_OUT, /* of a domain, to the others of its node (network.is_inside_node) */
    LINK_NODE_BUS_IN,
    LINK_NIC_OUT, /* one NIC; where a node has more NICs than GPUs, all that one GPU owns */
    LINK_NIC_IN,
    LINK_LEAF_UP, /* all uplinks of one leaf switch to the spine that the nodes of the cluster bring */
    LINK_LEAF_DOWN,
    N_LINK_KINDS
};

struct topology_link {
    enum link_kind kind;
    int32_t node;  /* or leaf group */
    int32_t index; /* of the GPU in the cluster, of the NIC or the domain in its node, of the rail */
    int32_t peer;  /* LINK_PAIR: the GPU it leads to; else -1 */
    double bytes_per_s;
};

struct topology {
    const struct hardware_spec *hardware;
    int64_t n_gpus;
    int32_t n_links; /* 0: ideal */
    struct topology_link *links;
    /* and what routes are computed from */
    int64_t gpus_per_node, domain;
    int64_t nics_per_node;               /* NIC links of a node, never more than its GPUs */
    int64_t nodes_per_leaf;              /* 0: no leaf switches, the fabric between the NICs never limits */
    int32_t first_of_kind[N_LINK_KINDS]; /* index of the first link of a kind, -1: none of it */
};

/* Copies into arena. Rank r of a layout stands on GPU r. */
void topology_build(const struct hardware_spec *hardware, int64_t n_gpus, struct sp_arena *arena,
                    struct topology *topology);

enum { MAX_ROUTE = 8 };
/* Links that bytes from GPU `from` to GPU `to` cross, in order; returns how many. 0: none that anyone shares. */
int topology_route(const struct topology *topology, int64_t from, int64_t to, int32_t links[MAX_ROUTE]);
/* Between a GPU and its host's memory. */
int topology_host_route(const struct topology *topology, int64_t gpu, bool is_to_host, int32_t links[MAX_ROUTE]);

/* "gpu 3 nvlink out", "gpu 3 nvlink to gpu 1", "gpu 3 pcie in", "node 0 bus 1 out", "node 2 nic 5 in", "leaf 0 rail 3 up",
 * "leaf 0 down" where leaves are not by rail. Copies into arena. */
const char *topology_link_name(struct sp_arena *arena, const struct topology *topology, int32_t link);
/* Links that a user's text names: "nic:2.5" (both directions of NIC 5 of node 2), "nic:2.5:out", "nvlink:3" (of GPU 3),
 * "nvlink:3.1" (both directions between two GPUs, where links are direct), "pcie:3", "bus:0.1" (of domain 1 of node 0),
 * "leaf:0.3:up", "leaf:0" where leaves are not by rail, "nic:*", "nic:2.*". Sets a flag of each (n_links) and leaves the others
 * alone; SP_ERROR_USAGE when nothing is meant, saying what there is. */
bool topology_select(const struct topology *topology, const char *text, bool *is_selected,
                     struct sp_error *err) SP_MUST_CHECK;

#endif
