/* Transfers that the estimate prices apart though they can be under way at once on the same links. How much that costs, only a
 * simulation knows; that it can, and at most how much, follows from the rows. */
#include "step/step_internal.h"

#include <math.h>
#include <string.h>

/* Kinds of links that a transfer's tier loads. */
struct loads {
    bool inside, network;
};

static struct loads loads_of(enum tier tier)
{
    return (struct loads){.inside = tier == TIER_NVLINK || tier == TIER_PCIE || tier == TIER_MIXED,
                          .network = tier == TIER_NETWORK || tier == TIER_MIXED};
}

/* Time on the link of what an axis sends while layers run, by kind of link. */
static void sum_links(const struct estimate *estimate, double inside_s[N_AXES], double network_s[N_AXES])
{
    for (int i = 0; i < estimate->n_operators; i++) {
        const struct operator_row *row = &estimate->operators[i];
        if (row->operation == NULL || row->pass == STEP_OPTIMIZER) {
            continue;
        }
        struct loads loads = loads_of(row->tier);
        inside_s[row->axis] += loads.inside ? row->count * row->link_s : 0;
        network_s[row->axis] += loads.network ? row->count * row->link_s : 0;
    }
}

/* Gathers and scatters of ZeRO run beside everything of a layer: kernels, and the transfers between them. A hop between stages
 * comes to a rank whatever that one is at. */
static bool runs_beside(const struct question *question, enum axis a, enum axis b)
{
    bool is_zero = question->layout.zero >= 2 && (a == AXIS_DP || b == AXIS_DP);
    bool is_hop = question->layout.pp > 1 && (a == AXIS_PP || b == AXIS_PP);
    return a != b && (is_zero || is_hop);
}

static double both(const double link_s[N_AXES], enum axis a, enum axis b)
{
    return fmin(link_s[a], link_s[b]);
}

static void add(struct contentions *contentions, const char *where, enum axis a, enum axis b, double time_s)
{
    if (time_s > 0 && contentions->n < MAX_CONTENTIONS) {
        contentions->items[contentions->n++] = (struct contention){.where = where, .axes = {a, b}, .time_s = time_s};
    }
}

static void add_pairs(const struct question *question, const struct estimate *estimate, struct contentions *contentions)
{
    double inside_s[N_AXES] = {0};
    double network_s[N_AXES] = {0};
    sum_links(estimate, inside_s, network_s);
    for (int a = 0; a < N_AXES; a++) {
        for (int b = a + 1; b < N_AXES; b++) {
            if (runs_beside(question, (enum axis)a, (enum axis)b)) {
                add(contentions, "the NICs", (enum axis)a, (enum axis)b, both(network_s, (enum axis)a, (enum axis)b));
                add(contentions, "the links inside a node", (enum axis)a, (enum axis)b,
                    both(inside_s, (enum axis)a, (enum axis)b));
            }
        }
    }
}

/* Where equal NICs of all nodes share a switch, a message from one place in a node to another place in the next goes by the spine
 * even between neighbours: hops at the ends of a node, and all pairs. Rings of collectives stay on their rail. */
static bool crosses_rails(const struct operator_row *row)
{
    return row->tier == TIER_MIXED &&
           (strcmp(row->operation, "all-to-all") == 0 || strcmp(row->operation, "ring") == 0 ||
            strcmp(row->operation, "send-receive") == 0);
}

/* A spine that carries less than the NICs under it: whatever crosses it takes as many times longer. */
static void add_spine(const struct question *question, const struct estimate *estimate, struct contentions *contentions)
{
    const struct network_spec *network = &question->hardware.network;
    double over = network->oversubscription.value;
    double leaf_nodes = network->leaf_nodes.value > 0 ? network->leaf_nodes.value : 1;
    bool is_one_leaf = (double)question->run.nodes <= leaf_nodes;
    double network_s = 0;
    for (int i = 0; over > 1 && i < estimate->n_operators; i++) {
        const struct operator_row *row = &estimate->operators[i];
        bool is_there = row->operation != NULL && loads_of(row->tier).network &&
                        (!is_one_leaf || (network->is_rail_optimised && crosses_rails(row)));
        network_s += is_there ? row->count * row->link_s : 0;
    }
    add(contentions, "the spine", N_AXES, N_AXES, (over - 1) * network_s);
}

/* Copies to and from the host cross the PCIe link that a GPU's NIC hangs on. */
static void add_host(const struct question *question, const struct estimate *estimate, struct contentions *contentions)
{
    double inside_s[N_AXES] = {0};
    double network_s[N_AXES] = {0};
    sum_links(estimate, inside_s, network_s);
    double all = 0;
    for (int a = 0; a < N_AXES; a++) {
        all += network_s[a];
    }
    double copies_s = 0;
    for (int i = 0; i < estimate->n_operators; i++) {
        const struct operator_row *row = &estimate->operators[i];
        copies_s += row->item == TIME_OFFLOAD_EXPOSED && row->pass != STEP_OPTIMIZER
                        ? row->count * row->hbm_bytes / question->hardware.gpu.pcie_bandwidth.value
                        : 0;
    }
    add(contentions, "the PCIe links", N_AXES, N_AXES, fmin(all, copies_s));
}

void step_contentions(const struct question *question, const struct estimate *estimate, struct contentions *contentions)
{
    *contentions = (struct contentions){.n = 0};
    if (question->run.is_attention_only || question->hardware.network.is_ideal) {
        return;
    }
    add_pairs(question, estimate, contentions);
    add_spine(question, estimate, contentions);
    add_host(question, estimate, contentions);
}
