/* Links of a cluster, and routes over them.
 *
 * Links of one kind lie together, so a route is arithmetic on the numbers of two GPUs: the first link of the kind, plus the GPU,
 * the NIC of its node or the leaf switch. Nothing is searched and nothing is stored by pair, but where GPUs are wired in pairs.
 */
#include "sim/topology.h"

#include "cost/cost.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* Everything that sets the number and the rate of links, before there are any. */
struct plan_of_links {
    int64_t counts[N_LINK_KINDS];
    double rates[N_LINK_KINDS]; /* of each; of an uplink: what one node brings */
};

static int64_t divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* ---- who is where ----------------------------------------------------------------------------------------------- */

static bool has(const struct topology *topology, enum link_kind kind)
{
    return topology->first_of_kind[kind] >= 0;
}

static int64_t node_count(const struct topology *topology)
{
    return divide_up(topology->n_gpus, topology->gpus_per_node);
}

/* Leaf switches beside each other that a group of nodes hangs on. */
static int64_t rail_count(const struct topology *topology)
{
    return topology->hardware->network.is_rail_optimised ? topology->nics_per_node : 1;
}

/* GPUs of the domain that this one is in: the last may have fewer. */
static int64_t domain_gpus(const struct topology *topology, int64_t gpu)
{
    int64_t left = topology->n_gpus - gpu / topology->domain * topology->domain;
    return left < topology->domain ? left : topology->domain;
}

/* NIC of its node that a GPU sends by: neighbours share one where there are fewer NICs than GPUs, as on their PCIe switch. */
static int64_t nic_of(const struct topology *topology, int64_t gpu)
{
    return gpu % topology->gpus_per_node * topology->nics_per_node / topology->gpus_per_node;
}

static int64_t leaf_of(const struct topology *topology, int64_t gpu)
{
    int64_t group = gpu / topology->gpus_per_node / topology->nodes_per_leaf;
    int64_t rail = topology->hardware->network.is_rail_optimised ? nic_of(topology, gpu) : 0;
    return group * rail_count(topology) + rail;
}

/* ---- what there is ---------------------------------------------------------------------------------------------- */

static bool is_pcie(const struct hardware_spec *hardware)
{
    return strcmp(hardware->intra.medium, "pcie") == 0;
}

static bool has_network(const struct hardware_spec *hardware)
{
    return hardware->network.name != NULL && hardware->node.nics.value >= 1;
}

/* What the estimate sends at most over the share of one GPU: network.efficiency is what a long transfer reaches of it, and a few
 * files measured more for a collective (EFA v4: 0.94 after 0.92). */
static double network_rate_per_gpu(const struct hardware_spec *hardware)
{
    const struct network_spec *network = &hardware->network;
    double share = fmax(network->efficiency.value,
                        fmax(network->collective_efficiency.value, network->all_to_all_efficiency.value));
    return network_bytes_per_s_per_gpu(hardware) * share;
}

/* gpu.pcie_bandwidth is what copies to the host reach (55 GB/s of the 63 of PCIe 5 x16). A file that says more of what passes
 * here, to the NIC or between GPUs, says that the link carries it: a link is never below the estimate's own figure. In none of
 * the shipped files is it. */
static double pcie_rate(const struct hardware_spec *hardware)
{
    double rate = hardware->gpu.pcie_bandwidth.value;
    if (has_network(hardware)) {
        rate = fmax(rate, network_rate_per_gpu(hardware));
    }
    return is_pcie(hardware) ? fmax(rate, hardware->intra.bandwidth.value) : rate;
}

static void plan_domain(const struct topology *topology, struct plan_of_links *plan)
{
    const struct hardware_spec *hardware = topology->hardware;
    plan->counts[LINK_PCIE_OUT] = plan->counts[LINK_PCIE_IN] = topology->n_gpus;
    plan->rates[LINK_PCIE_OUT] = plan->rates[LINK_PCIE_IN] = pcie_rate(hardware);
    if (is_pcie(hardware) || topology->domain == 1) {
        return;
    }
    if (!hardware->intra.has_direct_links) {
        plan->counts[LINK_NVLINK_OUT] = plan->counts[LINK_NVLINK_IN] = topology->n_gpus;
        plan->rates[LINK_NVLINK_OUT] = plan->rates[LINK_NVLINK_IN] = hardware->intra.bandwidth.value;
        return;
    }
    int64_t whole = topology->n_gpus / topology->domain;
    int64_t rest = topology->n_gpus % topology->domain;
    int64_t others = topology->domain - 1;
    plan->counts[LINK_PAIR] = whole * topology->domain * others + (rest > 1 ? rest * (rest - 1) : 0);
    plan->rates[LINK_PAIR] = hardware->intra.bandwidth.value / (double)others;
}

static void plan_network(struct topology *topology, struct plan_of_links *plan)
{
    const struct hardware_spec *hardware = topology->hardware;
    if (!has_network(hardware)) {
        return;
    }
    double rate_per_gpu = network_rate_per_gpu(hardware);
    if (hardware->network.is_inside_node) {
        if (topology->domain >= topology->gpus_per_node) {
            return; /* it reaches no other node, and inside there is nothing to join */
        }
        plan->counts[LINK_NODE_BUS_OUT] = plan->counts[LINK_NODE_BUS_IN] =
            divide_up(topology->n_gpus, topology->domain);
        plan->rates[LINK_NODE_BUS_OUT] = plan->rates[LINK_NODE_BUS_IN] = rate_per_gpu * (double)topology->domain;
        return;
    }
    int64_t nics = (int64_t)hardware->node.nics.value;
    topology->nics_per_node = nics < topology->gpus_per_node ? nics : topology->gpus_per_node;
    double rate_per_node = rate_per_gpu * (double)topology->gpus_per_node;
    plan->counts[LINK_NIC_OUT] = plan->counts[LINK_NIC_IN] = node_count(topology) * topology->nics_per_node;
    plan->rates[LINK_NIC_OUT] = plan->rates[LINK_NIC_IN] = rate_per_node / (double)topology->nics_per_node;
    double oversubscription = fmax(hardware->network.oversubscription.value, 1); /* left out: 0 */
    topology->nodes_per_leaf = (int64_t)hardware->network.leaf_nodes.value;
    if (topology->nodes_per_leaf == 0 && oversubscription > 1) {
        topology->nodes_per_leaf = 1; /* of unknown switches, the worst: every way between nodes is oversubscribed */
    }
    if (topology->nodes_per_leaf > 0) {
        int64_t rails = rail_count(topology);
        plan->counts[LINK_LEAF_UP] = plan->counts[LINK_LEAF_DOWN] =
            divide_up(node_count(topology), topology->nodes_per_leaf) * rails;
        plan->rates[LINK_LEAF_UP] = plan->rates[LINK_LEAF_DOWN] = rate_per_node / (double)rails / oversubscription;
    }
}

/* ---- links ------------------------------------------------------------------------------------------------------ */

/* The i-th link of direct ones: domain by domain, in each by the GPU that sends. */
static void describe_pair(const struct topology *topology, int64_t i, struct topology_link *link)
{
    int64_t in_whole = topology->domain * (topology->domain - 1);
    int64_t first = i / in_whole * topology->domain;
    int64_t others = domain_gpus(topology, first) - 1;
    int64_t from = i % in_whole / others;
    int64_t to = i % in_whole % others;
    link->index = (int32_t)(first + from);
    link->peer = (int32_t)(first + to + (to >= from)); /* itself is left out */
    link->node = (int32_t)((first + from) / topology->gpus_per_node);
}

/* Nodes under a leaf switch: the last group may have fewer, which then bring fewer uplinks. The rest of the switch is others'. */
static int64_t nodes_of_group(const struct topology *topology, int64_t group)
{
    int64_t left = node_count(topology) - group * topology->nodes_per_leaf;
    return left < topology->nodes_per_leaf ? left : topology->nodes_per_leaf;
}

static struct topology_link describe_link(const struct topology *topology, enum link_kind kind, int64_t i, double rate)
{
    struct topology_link link = {.kind = kind, .peer = -1, .bytes_per_s = rate};
    int64_t per_node;
    switch (kind) {
    case LINK_PAIR:
        describe_pair(topology, i, &link);
        return link;
    case LINK_NIC_OUT:
    case LINK_NIC_IN:
        per_node = topology->nics_per_node;
        break;
    case LINK_NODE_BUS_OUT:
    case LINK_NODE_BUS_IN:
        per_node = topology->gpus_per_node / topology->domain;
        break;
    case LINK_LEAF_UP:
    case LINK_LEAF_DOWN:
        per_node = rail_count(topology);
        link.bytes_per_s = rate * (double)nodes_of_group(topology, i / per_node);
        break;
    case LINK_NVLINK_OUT:
    case LINK_NVLINK_IN:
    case LINK_PCIE_OUT:
    case LINK_PCIE_IN:
    case N_LINK_KINDS:
    default:
        link.node = (int32_t)(i / topology->gpus_per_node);
        link.index = (int32_t)i;
        return link;
    }
    link.node = (int32_t)(i / per_node);
    link.index = (int32_t)(i % per_node);
    return link;
}

void topology_build(const struct hardware_spec *hardware, int64_t n_gpus, struct sp_arena *arena,
                    struct topology *topology)
{
    assert(n_gpus >= 1);
    *topology = (struct topology){
        .hardware = hardware,
        .n_gpus = n_gpus,
        .gpus_per_node = (int64_t)hardware->node.gpus.value,
        .domain = (int64_t)hardware->node.nvlink_domain.value,
    };
    struct plan_of_links plan = {0};
    if (!hardware->network.is_ideal) {
        plan_domain(topology, &plan);
        plan_network(topology, &plan);
    }
    int64_t n_links = 0;
    for (int kind = 0; kind < (int)N_LINK_KINDS; kind++) {
        topology->first_of_kind[kind] = plan.counts[kind] > 0 ? (int32_t)n_links : -1;
        n_links += plan.counts[kind];
        assert(n_links <= INT32_MAX);
    }
    topology->n_links = (int32_t)n_links;
    topology->links = sp_arena_array(arena, (size_t)n_links, sizeof(*topology->links));
    struct topology_link *link = topology->links;
    for (int kind = 0; kind < (int)N_LINK_KINDS; kind++) {
        for (int64_t i = 0; i < plan.counts[kind]; i++) {
            *link++ = describe_link(topology, (enum link_kind)kind, i, plan.rates[kind]);
        }
    }
}

/* ---- routes ----------------------------------------------------------------------------------------------------- */

/* Appends a link of a kind that this cluster has. */
static int add(const struct topology *topology, enum link_kind kind, int64_t i, int32_t *links, int n)
{
    assert(n < MAX_ROUTE && has(topology, kind));
    links[n] = topology->first_of_kind[kind] + (int32_t)i;
    return n + 1;
}

static int64_t pair_index(const struct topology *topology, int64_t from, int64_t to)
{
    int64_t first = from / topology->domain * topology->domain;
    int64_t others = domain_gpus(topology, from) - 1;
    int64_t in_wholes = first * (topology->domain - 1);
    return in_wholes + (from - first) * others + (to - first) - (to > from);
}

static int route_inside_domain(const struct topology *topology, int64_t from, int64_t to, int32_t *links)
{
    if (has(topology, LINK_PAIR)) {
        return add(topology, LINK_PAIR, pair_index(topology, from, to), links, 0);
    }
    bool is_switched = has(topology, LINK_NVLINK_OUT);
    int n = add(topology, is_switched ? LINK_NVLINK_OUT : LINK_PCIE_OUT, from, links, 0);
    return add(topology, is_switched ? LINK_NVLINK_IN : LINK_PCIE_IN, to, links, n);
}

/* Between domains of one node: over PCIe, also where the node has NICs, which such a way does not need. */
static int route_inside_node(const struct topology *topology, int64_t from, int64_t to, int32_t *links)
{
    int n = add(topology, LINK_PCIE_OUT, from, links, 0);
    if (has(topology, LINK_NODE_BUS_OUT)) {
        n = add(topology, LINK_NODE_BUS_OUT, from / topology->domain, links, n);
        n = add(topology, LINK_NODE_BUS_IN, to / topology->domain, links, n);
    }
    return add(topology, LINK_PCIE_IN, to, links, n);
}

static int route_between_nodes(const struct topology *topology, int64_t from, int64_t to, int32_t *links)
{
    int64_t per_node = topology->gpus_per_node;
    int n = add(topology, LINK_PCIE_OUT, from, links, 0);
    n = add(topology, LINK_NIC_OUT, from / per_node * topology->nics_per_node + nic_of(topology, from), links, n);
    if (has(topology, LINK_LEAF_UP) && leaf_of(topology, from) != leaf_of(topology, to)) {
        n = add(topology, LINK_LEAF_UP, leaf_of(topology, from), links, n);
        n = add(topology, LINK_LEAF_DOWN, leaf_of(topology, to), links, n);
    }
    n = add(topology, LINK_NIC_IN, to / per_node * topology->nics_per_node + nic_of(topology, to), links, n);
    return add(topology, LINK_PCIE_IN, to, links, n);
}

int topology_route(const struct topology *topology, int64_t from, int64_t to, int32_t links[MAX_ROUTE])
{
    assert(from >= 0 && from < topology->n_gpus && to >= 0 && to < topology->n_gpus);
    if (from == to || topology->n_links == 0) {
        return 0;
    }
    if (from / topology->domain == to / topology->domain) {
        return route_inside_domain(topology, from, to, links);
    }
    if (from / topology->gpus_per_node == to / topology->gpus_per_node) {
        return route_inside_node(topology, from, to, links);
    }
    return route_between_nodes(topology, from, to, links);
}

int topology_host_route(const struct topology *topology, int64_t gpu, bool is_to_host, int32_t links[MAX_ROUTE])
{
    assert(gpu >= 0 && gpu < topology->n_gpus);
    return topology->n_links == 0 ? 0 : add(topology, is_to_host ? LINK_PCIE_OUT : LINK_PCIE_IN, gpu, links, 0);
}
