#include "support/support.h"

#include "sim/topology.h"
#include "spec/spec_internal.h"

#include <stdlib.h>
#include <string.h>

static struct sp_arena *arena;

static int open_arena(void **state)
{
    (void)state;
    arena = sp_arena_open();
    return 0;
}

static int close_arena(void **state)
{
    (void)state;
    sp_arena_close(arena);
    return 0;
}

/* ---- machines --------------------------------------------------------------------------------------------------- */

static struct hardware_spec *machine(const char *name, const char *network)
{
    struct hardware_spec *hardware = sp_arena_alloc(arena, sizeof(*hardware));
    struct sp_error err = {0};
    if (!hardware_read(arena, name, network, hardware, &err)) {
        fail_msg("%s", err.text);
    }
    return hardware;
}

static void set(struct hardware_spec *hardware, const char *path, const char *value)
{
    struct sp_error err = {0};
    if (!hardware_set(arena, hardware, path, value, &err)) {
        fail_msg("%s", err.text);
    }
}

/* Four A100 wired to each other, NV4 (100 GB/s) a pair, and two NICs: the node of Polaris. */
static struct hardware_spec *mesh_of_four(void)
{
    struct hardware_spec *hardware = machine("dgx-a100", "slingshot-200g");
    set(hardware, "node.nvlink_domain", "4");
    set(hardware, "node.gpus", "4");
    set(hardware, "node.nics", "2");
    set(hardware, "intra.direct_links", "true");
    return hardware;
}

static struct topology built(const struct hardware_spec *hardware, int64_t n_gpus)
{
    struct topology topology;
    topology_build(hardware, n_gpus, arena, &topology);
    return topology;
}

static int count_of(const struct topology *topology, enum link_kind kind)
{
    int n = 0;
    for (int32_t i = 0; i < topology->n_links; i++) {
        n += topology->links[i].kind == kind;
    }
    return n;
}

/* Both directions: how many, and the rate of each. */
static void expect_links(const struct topology *topology, enum link_kind out, int count, double bytes_per_s)
{
    enum link_kind in = out == LINK_PAIR ? LINK_PAIR : (enum link_kind)(out + 1);
    assert_int_equal(count_of(topology, out), count);
    assert_int_equal(count_of(topology, in), count);
    for (int32_t i = 0; i < topology->n_links; i++) {
        const struct topology_link *link = &topology->links[i];
        if (link->kind == out || link->kind == in) {
            assert_close(link->bytes_per_s, bytes_per_s, 1e-12);
        }
    }
}

/* Names of the links of a way, joined. */
static const char *names_of(const struct topology *topology, const int32_t *links, int n)
{
    const char *names[MAX_ROUTE];
    for (int i = 0; i < n; i++) {
        names[i] = topology_link_name(arena, topology, links[i]);
    }
    return sp_join(arena, names, (size_t)n, ", ");
}

static const char *route(const struct topology *topology, int64_t from, int64_t to)
{
    int32_t links[MAX_ROUTE];
    int n = topology_route(topology, from, to, links);
    return names_of(topology, links, n);
}

/* ---- nodes with a switch ---------------------------------------------------------------------------------------- */

static void two_nodes_of_eight(void **state)
{
    (void)state;
    struct topology topology = built(machine("dgx-h100", NULL), 16);
    expect_links(&topology, LINK_NVLINK_OUT, 16, 450e9);
    expect_links(&topology, LINK_PCIE_OUT, 16, 55.4e9);
    expect_links(&topology, LINK_NIC_OUT, 16, 0.95 * 50e9); /* 400 Gb/s, of which one transfer reaches 0.95 */
    /* one group of 32 nodes, eight rails; the two nodes that are there bring an uplink each */
    expect_links(&topology, LINK_LEAF_UP, 8, 2 * 0.95 * 50e9);
    assert_int_equal(count_of(&topology, LINK_PAIR), 0);
    assert_int_equal(count_of(&topology, LINK_NODE_BUS_OUT), 0);
    assert_int_equal(topology.n_links, 2 * (16 + 16 + 16 + 8));
    assert_string_equal(route(&topology, 5, 2), "gpu 5 nvlink out, gpu 2 nvlink in");
    assert_string_equal(route(&topology, 5, 5), "");
    /* the same rail: its leaf switch alone is between them */
    assert_string_equal(route(&topology, 3, 11), "gpu 3 pcie out, node 0 nic 3 out, node 1 nic 3 in, gpu 11 pcie in");
    /* GPU 14 is the sixth of node 1, GPU 3 the third of node 0: from rail 6 to rail 3 by the spine */
    assert_string_equal(route(&topology, 14, 3), "gpu 14 pcie out, node 1 nic 6 out, leaf 0 rail 6 up, "
                                                 "leaf 0 rail 3 down, node 0 nic 3 in, gpu 3 pcie in");
}

/* Four NICs of 100 Gb/s for eight GPUs: 2 and 3 share the second, as they share a PCIe switch. */
static void two_gpus_share_a_nic(void **state)
{
    (void)state;
    struct topology topology = built(machine("aws-p4d", NULL), 24);
    expect_links(&topology, LINK_NIC_OUT, 12, 0.85 * 12.5e9);
    expect_links(&topology, LINK_LEAF_UP, 0, 0); /* nothing is known of EFA's switches */
    assert_string_equal(route(&topology, 3, 22), "gpu 3 pcie out, node 0 nic 1 out, node 2 nic 3 in, gpu 22 pcie in");
    assert_string_equal(route(&topology, 2, 16), "gpu 2 pcie out, node 0 nic 1 out, node 2 nic 0 in, gpu 16 pcie in");
}

/* Three NICs for eight GPUs: GPUs 0-2, 3-5 and 6-7 share one; the node's rate is that of three. */
static void nics_that_do_not_divide_the_gpus(void **state)
{
    (void)state;
    struct hardware_spec *hardware = machine("aws-p4d", NULL);
    set(hardware, "node.nics", "3");
    struct topology topology = built(hardware, 16);
    expect_links(&topology, LINK_NIC_OUT, 6, 0.85 * 12.5e9);
    static const int nics[] = {0, 0, 0, 1, 1, 1, 2, 2};
    for (int64_t gpu = 0; gpu < 8; gpu++) {
        const char *expected =
            sp_format(arena, "gpu %d pcie out, node 0 nic %d out, node 1 nic 0 in, gpu 8 pcie in", (int)gpu, nics[gpu]);
        assert_string_equal(route(&topology, gpu, 8), expected);
    }
    set(hardware, "node.nics", "12"); /* more than GPUs: one and a half for each */
    topology = built(hardware, 16);
    expect_links(&topology, LINK_NIC_OUT, 16, 1.5 * 0.85 * 12.5e9);
}

/* 32 NICs of 100 Gb/s for eight GPUs: the four of a GPU are one link. */
static void nics_of_one_gpu_are_one_link(void **state)
{
    (void)state;
    struct topology topology = built(machine("aws-p5", NULL), 16);
    expect_links(&topology, LINK_NIC_OUT, 16, 4 * 0.92 * 12.5e9);
    assert_string_equal(route(&topology, 7, 8), "gpu 7 pcie out, node 0 nic 7 out, node 1 nic 0 in, gpu 8 pcie in");
}

/* The last of three nodes has five GPUs in use: it keeps its NICs, and has no links for the GPUs that are not there. */
static void cluster_that_ends_inside_a_node(void **state)
{
    (void)state;
    struct topology topology = built(machine("dgx-h100", NULL), 21);
    expect_links(&topology, LINK_NVLINK_OUT, 21, 450e9);
    expect_links(&topology, LINK_PCIE_OUT, 21, 55.4e9);
    expect_links(&topology, LINK_NIC_OUT, 24, 0.95 * 50e9);
    expect_links(&topology, LINK_LEAF_UP, 8, 3 * 0.95 * 50e9);
    assert_string_equal(route(&topology, 20, 16), "gpu 20 nvlink out, gpu 16 nvlink in");
    assert_string_equal(route(&topology, 20, 12), "gpu 20 pcie out, node 2 nic 4 out, node 1 nic 4 in, gpu 12 pcie in");
}

/* Trays of four GPUs with four NICs, 18 of them in one NVLink domain; two racks. */
static void racks_of_one_domain(void **state)
{
    (void)state;
    struct topology topology = built(machine("gb200-nvl72", NULL), 144);
    expect_links(&topology, LINK_NVLINK_OUT, 144, 900e9);
    expect_links(&topology, LINK_PCIE_OUT, 144, 172e9);
    expect_links(&topology, LINK_NIC_OUT, 36 * 4, 0.95 * 50e9);
    assert_int_equal(count_of(&topology, LINK_LEAF_UP), 2 * 4); /* 36 trays over groups of 32; four rails */
    assert_string_equal(route(&topology, 1, 70), "gpu 1 nvlink out, gpu 70 nvlink in"); /* trays 0 and 17 */
    /* GPU 71 is the last of tray 17, GPU 75 of tray 18, which is the first of the second rack */
    assert_string_equal(route(&topology, 71, 75),
                        "gpu 71 pcie out, node 17 nic 3 out, node 18 nic 3 in, gpu 75 pcie in");
    /* GPU 143 is in tray 35, of the second group of trays */
    assert_string_equal(route(&topology, 3, 143), "gpu 3 pcie out, node 0 nic 3 out, leaf 0 rail 3 up, "
                                                  "leaf 1 rail 3 down, node 35 nic 3 in, gpu 143 pcie in");
}

/* ---- boxes without a switch ------------------------------------------------------------------------------------- */

/* Two bridged pairs; between them the PCIe of both cards, 0.51 of 63 GB/s for each. */
static void bridged_pairs(void **state)
{
    (void)state;
    struct topology topology = built(machine("h100-pcie-4", NULL), 4);
    expect_links(&topology, LINK_PAIR, 4, 300e9);
    expect_links(&topology, LINK_PCIE_OUT, 4, 55.4e9);
    expect_links(&topology, LINK_NODE_BUS_OUT, 2, 2 * 0.51 * 63e9);
    expect_links(&topology, LINK_NIC_OUT, 0, 0);
    assert_int_equal(topology.n_links, 4 + 2 * (4 + 2));
    assert_string_equal(route(&topology, 2, 3), "gpu 2 nvlink to gpu 3");
    assert_string_equal(route(&topology, 1, 2), "gpu 1 pcie out, node 0 bus 0 out, node 0 bus 1 in, gpu 2 pcie in");
    /* a network instead of that PCIe: inside the node PCIe joins them still, without the NICs */
    topology = built(machine("h100-pcie-4", "ib-ndr"), 8);
    assert_string_equal(route(&topology, 1, 2), "gpu 1 pcie out, gpu 2 pcie in");
    assert_string_equal(route(&topology, 1, 5), "gpu 1 pcie out, node 0 nic 1 out, node 1 nic 1 in, gpu 5 pcie in");
}

static void pair_without_a_network(void **state)
{
    (void)state;
    struct topology topology = built(machine("h100-pcie-2", NULL), 2);
    expect_links(&topology, LINK_PAIR, 2, 300e9);
    assert_int_equal(topology.n_links, 2 + 2 * 2);
    assert_string_equal(route(&topology, 1, 0), "gpu 1 nvlink to gpu 0");
}

/* 300 GB/s of a GPU are 100 to each of the three others. */
static void mesh(void **state)
{
    (void)state;
    struct topology topology = built(mesh_of_four(), 8);
    expect_links(&topology, LINK_PAIR, 2 * 12, 100e9);
    expect_links(&topology, LINK_NVLINK_OUT, 0, 0);
    expect_links(&topology, LINK_NIC_OUT, 4, 0.968 * 25e9);
    assert_string_equal(route(&topology, 2, 0), "gpu 2 nvlink to gpu 0");
    assert_string_equal(route(&topology, 5, 7), "gpu 5 nvlink to gpu 7");
    assert_string_equal(route(&topology, 3, 4), "gpu 3 pcie out, node 0 nic 1 out, node 1 nic 0 in, gpu 4 pcie in");
    /* three GPUs of the second node in use: 6 pairs; a GPU alone has none */
    topology = built(mesh_of_four(), 7);
    expect_links(&topology, LINK_PAIR, 12 + 6, 100e9);
    assert_string_equal(route(&topology, 6, 5), "gpu 6 nvlink to gpu 5");
    topology = built(mesh_of_four(), 5);
    expect_links(&topology, LINK_PAIR, 12, 100e9);
}

static void cards_on_pcie_alone(void **state)
{
    (void)state;
    struct hardware_spec *hardware = machine("h100-pcie-4", NULL);
    hardware->intra.medium = "pcie";
    set(hardware, "intra.bandwidth", "40GB/s");
    struct topology topology = built(hardware, 4);
    assert_int_equal(count_of(&topology, LINK_PAIR), 0);
    expect_links(&topology, LINK_PCIE_OUT, 4, 55.4e9);
    assert_string_equal(route(&topology, 0, 1), "gpu 0 pcie out, gpu 1 pcie in");
    set(hardware, "intra.bandwidth", "63GB/s"); /* the file says that GPUs reach each other over it at this rate */
    topology = built(hardware, 4);
    expect_links(&topology, LINK_PCIE_OUT, 4, 63e9);
}

/* ---- capacities ------------------------------------------------------------------------------------------------- */

/* Whatever the file says, what the estimate sends over a GPU's share of the network fits its NIC and its PCIe link. */
static void no_link_is_below_the_estimate(void **state)
{
    (void)state;
    struct sp_texts names = {.arena = arena};
    data_names(arena, "hardware", &names);
    for (size_t i = 0; i < names.count; i++) {
        struct hardware_spec *hardware = machine(names.items[i], NULL);
        struct topology topology = built(hardware, (int64_t)hardware->node.gpus.value);
        double share = hardware->network.bandwidth.value * hardware->node.nics.value / hardware->node.gpus.value;
        for (int32_t j = 0; j < topology.n_links; j++) {
            const struct topology_link *link = &topology.links[j];
            bool is_pcie = link->kind == LINK_PCIE_OUT || link->kind == LINK_PCIE_IN;
            if (is_pcie) { /* in every shipped file it is the measured one */
                assert_close(link->bytes_per_s, hardware->gpu.pcie_bandwidth.value, 0);
            }
            if (is_pcie || link->kind == LINK_NIC_OUT || link->kind == LINK_NIC_IN) {
                assert_true(link->bytes_per_s >= share * hardware->network.efficiency.value * (1 - 1e-12));
                assert_true(link->bytes_per_s >= share * hardware->network.collective_efficiency.value * (1 - 1e-12));
            }
        }
    }
}

/* 0.95 of 100 GB/s behind each GPU are more than the 55.4 that copies to the host reach. */
static void pcie_follows_a_faster_nic(void **state)
{
    (void)state;
    struct topology topology = built(machine("dgx-h100", "ib-xdr"), 16);
    expect_links(&topology, LINK_NIC_OUT, 16, 0.95 * 100e9);
    expect_links(&topology, LINK_PCIE_OUT, 16, 0.95 * 100e9);
    topology = built(machine("aws-p6-b200", NULL), 16); /* rings reach 0.94 there, one transfer 0.92 */
    expect_links(&topology, LINK_NIC_OUT, 16, 0.94 * 50e9);
}

/* 70 nodes are two groups of 32 and one of 6; of three bytes from the NICs, two fit the uplinks. */
static void oversubscribed_spine(void **state)
{
    (void)state;
    struct hardware_spec *hardware = machine("dgx-h100", NULL);
    set(hardware, "network.oversubscription", "1.5");
    struct topology topology = built(hardware, (int64_t)70 * 8);
    assert_int_equal(count_of(&topology, LINK_LEAF_UP), 3 * 8);
    assert_int_equal(count_of(&topology, LINK_LEAF_DOWN), 3 * 8);
    for (int32_t i = 0; i < topology.n_links; i++) {
        const struct topology_link *link = &topology.links[i];
        if (link->kind == LINK_LEAF_UP || link->kind == LINK_LEAF_DOWN) {
            assert_close(link->bytes_per_s, (link->node == 2 ? 6 : 32) * 0.95 * 50e9 / 1.5, 1e-12);
        }
    }
    expect_links(&topology, LINK_NIC_OUT, 560, 0.95 * 50e9); /* the NICs are whole */
    /* GPU 7 of node 0 to GPU 7 of node 31 and of node 32 */
    assert_string_equal(route(&topology, 7, 31 * 8 + 7),
                        "gpu 7 pcie out, node 0 nic 7 out, node 31 nic 7 in, gpu 255 pcie in");
    assert_string_equal(route(&topology, 7, 32 * 8 + 7), "gpu 7 pcie out, node 0 nic 7 out, leaf 0 rail 7 up, "
                                                         "leaf 1 rail 7 down, node 32 nic 7 in, gpu 263 pcie in");
    assert_string_equal(route(&topology, 559, 263),
                        "gpu 559 pcie out, node 69 nic 7 out, leaf 2 rail 7 up, leaf 1 rail 7 down, "
                        "node 32 nic 7 in, gpu 263 pcie in");
}

/* Without rails all NICs of a group of nodes hang on one leaf. */
static void leaves_without_rails(void **state)
{
    (void)state;
    struct hardware_spec *hardware = machine("dgx-h100", "eth-100g");
    set(hardware, "network.leaf_nodes", "3");
    set(hardware, "network.oversubscription", "4");
    struct topology topology = built(hardware, (int64_t)5 * 8);
    assert_int_equal(count_of(&topology, LINK_LEAF_UP), 2);
    double nic = 0.9 * 12.5e9;
    int32_t first = topology.first_of_kind[LINK_LEAF_UP];
    assert_close(topology.links[first].bytes_per_s, 3 * 8 * nic / 4, 1e-12);
    assert_close(topology.links[first + 1].bytes_per_s, 2 * 8 * nic / 4, 1e-12);
    assert_string_equal(route(&topology, 0, 23), "gpu 0 pcie out, node 0 nic 0 out, node 2 nic 7 in, gpu 23 pcie in");
    assert_string_equal(route(&topology, 0, 24), "gpu 0 pcie out, node 0 nic 0 out, leaf 0 up, leaf 1 down, "
                                                 "node 3 nic 0 in, gpu 24 pcie in");
}

/* Of switches that nothing is known of, every way between nodes is taken to be oversubscribed. */
static void oversubscription_without_leaf_groups(void **state)
{
    (void)state;
    struct hardware_spec *hardware = machine("aws-p5", NULL);
    set(hardware, "network.oversubscription", "2");
    struct topology topology = built(hardware, 24);
    expect_links(&topology, LINK_LEAF_UP, 3, 8 * 4 * 0.92 * 12.5e9 / 2);
    assert_string_equal(route(&topology, 0, 8), "gpu 0 pcie out, node 0 nic 0 out, leaf 0 up, leaf 1 down, "
                                                "node 1 nic 0 in, gpu 8 pcie in");
}

/* ---- ideal, host ------------------------------------------------------------------------------------------------ */

static void ideal_network_has_no_links(void **state)
{
    (void)state;
    struct topology topology = built(machine("dgx-h100", "ideal"), 21);
    int32_t links[MAX_ROUTE];
    assert_int_equal(topology.n_links, 0);
    assert_int_equal(topology_route(&topology, 0, 1, links), 0);
    assert_int_equal(topology_route(&topology, 0, 20, links), 0);
    assert_int_equal(topology_host_route(&topology, 20, true, links), 0);
}

/* Copies to the host take the link that the NIC is on. */
static void host_shares_the_pcie_link(void **state)
{
    (void)state;
    struct topology topology = built(machine("dgx-h100", NULL), 16);
    int32_t links[MAX_ROUTE];
    int32_t path[MAX_ROUTE];
    assert_int_equal(topology_host_route(&topology, 9, true, links), 1);
    assert_string_equal(names_of(&topology, links, 1), "gpu 9 pcie out");
    assert_int_equal(topology_route(&topology, 9, 1, path), 4);
    assert_int_equal(links[0], path[0]);
    assert_int_equal(topology_host_route(&topology, 9, false, links), 1);
    assert_string_equal(names_of(&topology, links, 1), "gpu 9 pcie in");
}

/* ---- properties ------------------------------------------------------------------------------------------------- */

/* A kind as seen from the other end of the way. */
static enum link_kind opposite(enum link_kind kind)
{
    static const enum link_kind kinds[N_LINK_KINDS] = {
        [LINK_NVLINK_OUT] = LINK_NVLINK_IN,
        [LINK_NVLINK_IN] = LINK_NVLINK_OUT,
        [LINK_PAIR] = LINK_PAIR,
        [LINK_PCIE_OUT] = LINK_PCIE_IN,
        [LINK_PCIE_IN] = LINK_PCIE_OUT,
        [LINK_NODE_BUS_OUT] = LINK_NODE_BUS_IN,
        [LINK_NODE_BUS_IN] = LINK_NODE_BUS_OUT,
        [LINK_NIC_OUT] = LINK_NIC_IN,
        [LINK_NIC_IN] = LINK_NIC_OUT,
        [LINK_LEAF_UP] = LINK_LEAF_DOWN,
        [LINK_LEAF_DOWN] = LINK_LEAF_UP,
    };
    return kinds[kind];
}

/* The link is one of `gpu`, its node or its leaf. */
static void expect_owner(const struct topology *topology, const struct topology_link *link, int64_t gpu)
{
    int64_t node = gpu / topology->gpus_per_node;
    bool is_leaf = link->kind == LINK_LEAF_UP || link->kind == LINK_LEAF_DOWN;
    assert_int_equal(link->node, is_leaf ? node / topology->nodes_per_leaf : node);
    bool is_of_gpu = link->kind == LINK_NVLINK_OUT || link->kind == LINK_NVLINK_IN || link->kind == LINK_PCIE_OUT ||
                     link->kind == LINK_PCIE_IN || link->kind == LINK_PAIR;
    if (is_of_gpu) {
        assert_int_equal(link->index, gpu);
    }
}

static void check_route(const struct topology *topology, int64_t from, int64_t to)
{
    int32_t there[MAX_ROUTE];
    int32_t back[MAX_ROUTE];
    int n = topology_route(topology, from, to, there);
    assert_int_equal(topology_route(topology, to, from, back), n);
    assert_true((n > 0) == (from != to));
    for (int i = 0; i < n; i++) {
        const struct topology_link *link = &topology->links[there[i]];
        assert_int_equal(topology->links[back[n - 1 - i]].kind, opposite(link->kind));
        if (link->kind == LINK_PAIR) {
            assert_int_equal(link->peer, to);
        }
        expect_owner(topology, link, i < (n + 1) / 2 ? from : to);
    }
}

static struct hardware_spec *some_machine(uint64_t *random)
{
    static const char *const names[] = {"dgx-h100", "aws-p4d", "aws-p5", "gb200-nvl72", "h100-pcie-4"};
    static const char *const networks[] = {NULL, "ib-ndr", "eth-100g"};
    struct hardware_spec *hardware =
        next_random(random) % 6 == 0
            ? mesh_of_four()
            : machine(names[next_random(random) % SP_COUNT_OF(names)], networks[next_random(random) % 3]);
    if (next_random(random) % 2 == 0) {
        set(hardware, "network.leaf_nodes", sp_format(arena, "%d", (int)(next_random(random) % 7) + 1));
    }
    if (next_random(random) % 2 == 0) {
        set(hardware, "network.oversubscription", "2.5");
    }
    set(hardware, "node.nics", sp_format(arena, "%d", (int)(next_random(random) % 11) + 1));
    return hardware;
}

/* Out-links are the sender's and in-links the receiver's, and the way back is the same kinds in the other order. */
static void routes_belong_to_their_ends(void **state)
{
    (void)state;
    uint64_t random = 20261103;
    for (int i = 0; i < 300; i++) {
        struct hardware_spec *hardware = some_machine(&random);
        int64_t most = hardware->network.is_inside_node ? (int64_t)hardware->node.gpus.value : 157;
        struct topology topology = built(hardware, (int64_t)(next_random(&random) % (uint64_t)most) + 1);
        for (int j = 0; j < 200; j++) {
            int64_t from = (int64_t)(next_random(&random) % (uint64_t)topology.n_gpus);
            int64_t to = (int64_t)(next_random(&random) % (uint64_t)topology.n_gpus);
            check_route(&topology, from, to);
        }
    }
}

/* Rank r is on GPU r: a group that the estimate places inside one domain never leaves it, one over more does. */
static void ranks_are_where_the_estimate_puts_them(void **state)
{
    (void)state;
    struct hardware_spec *hardware = machine("gb200-nvl72", NULL);
    static const int64_t degrees[][3] = {{8, 9, 3}, {4, 18, 2}, {6, 7, 4}, {72, 2, 1}};
    for (size_t i = 0; i < SP_COUNT_OF(degrees); i++) {
        struct layout_spec layout = {.tp = degrees[i][0],
                                     .sp = degrees[i][1],
                                     .dp = degrees[i][2],
                                     .pp = 1,
                                     .ep = 1,
                                     .etp = 1,
                                     .order = {AXIS_TP, AXIS_CP, AXIS_EP, AXIS_DP, AXIS_PP}};
        struct topology topology = built(hardware, layout.tp * layout.sp * layout.dp);
        struct group_placement placement = layout_placement(&layout, hardware, AXIS_CP);
        bool leaves_domain = false;
        for (int64_t first = 0; first < topology.n_gpus; first++) {
            int64_t to = first + placement.stride * (placement.size - 1);
            bool is_group = first % (placement.stride * placement.size) < placement.stride;
            int32_t links[MAX_ROUTE];
            if (is_group && placement.size > 1) {
                int n = topology_route(&topology, first, to, links);
                leaves_domain = leaves_domain || topology.links[links[n - 1]].kind != LINK_NVLINK_IN;
            }
        }
        assert_int_equal(leaves_domain, placement.nodes > 1);
    }
}

/* ---- links that a text picks ------------------------------------------------------------------------------------ */

/* Names of what is picked, in the order of the links. */
static const char *picked(const struct topology *topology, const char *text)
{
    struct sp_error err = {0};
    bool *is_selected = sp_arena_array(arena, (size_t)topology->n_links, sizeof(*is_selected));
    memset(is_selected, 0, (size_t)topology->n_links * sizeof(*is_selected));
    if (!topology_select(topology, text, is_selected, &err)) {
        fail_msg("%s", err.text);
    }
    struct sp_texts names = {.arena = arena};
    for (int32_t i = 0; i < topology->n_links; i++) {
        if (is_selected[i]) {
            sp_texts_add(&names, "%s", topology_link_name(arena, topology, i));
        }
    }
    return sp_join(arena, names.items, names.count, ", ");
}

static void expect_refused(const struct topology *topology, const char *text, const char *why)
{
    struct sp_error err = {0};
    bool *is_selected = sp_arena_array(arena, (size_t)topology->n_links + 1, sizeof(*is_selected));
    assert_false(topology_select(topology, text, is_selected, &err));
    assert_int_equal(err.kind, SP_ERROR_USAGE);
    assert_error_contains(&err, why);
    assert_string_equal(err.text, why);
}

static void texts_pick_links(void **state)
{
    (void)state;
    struct topology topology = built(machine("aws-p4d", "ib-hdr"), 20);
    assert_string_equal(picked(&topology, "nic:2.3"), "node 2 nic 3 out, node 2 nic 3 in");
    assert_string_equal(picked(&topology, "nic:2.3:out"), "node 2 nic 3 out");
    assert_string_equal(picked(&topology, "nic:1.*:in"), "node 1 nic 0 in, node 1 nic 1 in, node 1 nic 2 in, "
                                                         "node 1 nic 3 in");
    assert_string_equal(picked(&topology, "nic:*.2:in"), "node 0 nic 2 in, node 1 nic 2 in, node 2 nic 2 in");
    assert_string_equal(picked(&topology, "nvlink:13"), "gpu 13 nvlink out, gpu 13 nvlink in");
    assert_string_equal(picked(&topology, "pcie:19:in"), "gpu 19 pcie in");
    assert_string_equal(picked(&topology, "leaf:0.3"), "leaf 0 rail 3 up, leaf 0 rail 3 down");
    assert_string_equal(picked(&topology, "leaf:*:down"), "leaf 0 rail 0 down, leaf 0 rail 1 down, leaf 0 rail 2 down, "
                                                          "leaf 0 rail 3 down");
    bool is_selected[512] = {false};
    struct sp_error err = {0};
    int n = 0;
    assert_true(topology_select(&topology, "nic:*", is_selected, &err));
    assert_true(topology_select(&topology, "nic:0.0", is_selected, &err)); /* adds to what is there */
    for (int32_t i = 0; i < topology.n_links; i++) {
        n += is_selected[i];
    }
    assert_int_equal(n, 2 * 3 * 4);
}

static void texts_pick_links_of_other_boxes(void **state)
{
    (void)state;
    struct topology pairs = built(machine("h100-pcie-4", NULL), 4);
    assert_string_equal(picked(&pairs, "nvlink:3"), "gpu 2 nvlink to gpu 3, gpu 3 nvlink to gpu 2");
    assert_string_equal(picked(&pairs, "bus:0.1"), "node 0 bus 1 out, node 0 bus 1 in");
    struct topology four = built(mesh_of_four(), 8);
    assert_string_equal(picked(&four, "nvlink:6:out"), "gpu 6 nvlink to gpu 4, gpu 6 nvlink to gpu 5, "
                                                       "gpu 6 nvlink to gpu 7");
    assert_string_equal(picked(&four, "nvlink:6.4"), "gpu 4 nvlink to gpu 6, gpu 6 nvlink to gpu 4");
    assert_string_equal(picked(&four, "nvlink:6.4:in"), "gpu 4 nvlink to gpu 6");
    struct hardware_spec *ethernet = machine("dgx-h100", "eth-100g");
    set(ethernet, "network.leaf_nodes", "3");
    struct topology plain = built(ethernet, 40);
    assert_string_equal(picked(&plain, "leaf:1"), "leaf 1 up, leaf 1 down");
    assert_string_equal(picked(&plain, "leaf:1.0:up"), "leaf 1 up");
}

static void texts_that_pick_nothing_say_what_there_is(void **state)
{
    (void)state;
    struct topology topology = built(machine("dgx-h100", NULL), 29);
    expect_refused(&topology, "nic:9.2", "nic:9.2: node 9 is not there, nodes are 0 to 3");
    expect_refused(&topology, "nic:3.8", "nic:3.8: nic 8 is not there, nics are 0 to 7");
    expect_refused(&topology, "nvlink:29", "nvlink:29: gpu 29 is not there, gpus are 0 to 28");
    expect_refused(&topology, "leaf:1.3", "leaf:1.3: leaf 1 is not there, there is only leaf 0");
    expect_refused(&topology, "pcie:99999999999999999999",
                   "pcie:99999999999999999999: gpu 9223372036854775807 is not there, gpus are 0 to 28");
    expect_refused(&topology, "nick:2.5", "nick:2.5: links of this cluster begin with nvlink:, pcie:, nic:, leaf:");
    expect_refused(&topology, "bus:0.1", "bus:0.1: links of this cluster begin with nvlink:, pcie:, nic:, leaf:");
    expect_refused(&topology, "", ": links of this cluster begin with nvlink:, pcie:, nic:, leaf:");
    static const char *const malformed[] = {"nic:",     "nic:2",          "nic:2.",   "nic:.5",
                                            "nic:2.5:", "nic:2.5:up",     "nic:2.5x", "nic:-1.2",
                                            "nic: 2.5", "nic:2.5:out:in", "nic:**"};
    for (size_t i = 0; i < SP_COUNT_OF(malformed); i++) {
        expect_refused(&topology, malformed[i],
                       sp_format(arena,
                                 "%s: expected nic:node.nic, for instance nic:0.0, nic:*, or with a way nic:0.0:out "
                                 "(or :in)",
                                 malformed[i]));
    }
    expect_refused(&topology, "pcie:3.1",
                   "pcie:3.1: expected pcie:gpu, for instance pcie:0, pcie:*, or with a way pcie:0:out (or :in)");
    expect_refused(&topology, "leaf:0.1:in",
                   "leaf:0.1:in: expected leaf:leaf.rail, for instance leaf:0.0, leaf:*, or "
                   "with a way leaf:0.0:up (or :down)");
    struct topology pairs = built(machine("h100-pcie-4", NULL), 4);
    expect_refused(&pairs, "nvlink:1.2", "nvlink:1.2: no such link: direct links join GPUs of one NVLink domain");
    expect_refused(&pairs, "nic:0.0", "nic:0.0: links of this cluster begin with nvlink:, pcie:, bus:");
    struct topology ideal = built(machine("dgx-h100", "ideal"), 16);
    expect_refused(&ideal, "nic:0.0", "nic:0.0: an ideal network has no links that transfers share");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_nodes_of_eight),
        cmocka_unit_test(two_gpus_share_a_nic),
        cmocka_unit_test(nics_that_do_not_divide_the_gpus),
        cmocka_unit_test(nics_of_one_gpu_are_one_link),
        cmocka_unit_test(cluster_that_ends_inside_a_node),
        cmocka_unit_test(racks_of_one_domain),
        cmocka_unit_test(bridged_pairs),
        cmocka_unit_test(pair_without_a_network),
        cmocka_unit_test(mesh),
        cmocka_unit_test(cards_on_pcie_alone),
        cmocka_unit_test(no_link_is_below_the_estimate),
        cmocka_unit_test(pcie_follows_a_faster_nic),
        cmocka_unit_test(oversubscribed_spine),
        cmocka_unit_test(leaves_without_rails),
        cmocka_unit_test(oversubscription_without_leaf_groups),
        cmocka_unit_test(ideal_network_has_no_links),
        cmocka_unit_test(host_shares_the_pcie_link),
        cmocka_unit_test(routes_belong_to_their_ends),
        cmocka_unit_test(ranks_are_where_the_estimate_puts_them),
        cmocka_unit_test(texts_pick_links),
        cmocka_unit_test(texts_pick_links_of_other_boxes),
        cmocka_unit_test(texts_that_pick_nothing_say_what_there_is),
    };
    return cmocka_run_group_tests(tests, open_arena, close_arena);
}
