#include "support/support.h"

#include "spec/spec_internal.h"

#include <stdlib.h>
#include <string.h>

static void describe_node(struct hardware_spec *hardware, int64_t domain, const char *medium)
{
    *hardware = (struct hardware_spec){0};
    hardware->node.nvlink_domain.value = (double)domain;
    hardware->node.gpus.value = (double)domain;
    hardware->intra.medium = medium;
}

static struct layout_spec layout_of(int64_t tp, int64_t sp, int64_t pp, int64_t dp)
{
    return (struct layout_spec){.tp = tp,
                                .sp = sp,
                                .pp = pp,
                                .dp = dp,
                                .vpp = 1,
                                .ep = 1,
                                .etp = 1,
                                .order = {AXIS_TP, AXIS_CP, AXIS_EP, AXIS_DP, AXIS_PP}};
}

/* ---- hand calculations ------------------------------------------------------------------------------------------ */

/* tp 8, sp 8, pp 8 on eight GPUs a node: tp fills a node, an sp group takes one GPU of eight nodes in a row. */
static void usual_layout_of_512_gpus(void **state)
{
    (void)state;
    struct hardware_spec hardware;
    describe_node(&hardware, 8, "nvlink");
    struct layout_spec layout = layout_of(8, 8, 8, 1);
    struct group_placement tp = layout_placement(&layout, &hardware, AXIS_TP);
    assert_int_equal(tp.size, 8);
    assert_int_equal(tp.stride, 1);
    assert_int_equal(tp.nodes, 1);
    assert_int_equal(tp.ranks_per_node, 8);
    assert_int_equal(tp.tier, TIER_NVLINK);
    struct group_placement cp = layout_placement(&layout, &hardware, AXIS_CP);
    assert_int_equal(cp.stride, 8);
    assert_int_equal(cp.nodes, 8);
    assert_int_equal(cp.ranks_per_node, 1);
    assert_int_equal(cp.tier, TIER_NETWORK);
    struct group_placement pp = layout_placement(&layout, &hardware, AXIS_PP);
    assert_int_equal(pp.stride, 64);
    assert_int_equal(pp.nodes, 8);
    assert_int_equal(pp.tier, TIER_NETWORK);
    assert_int_equal(layout_placement(&layout, &hardware, AXIS_DP).tier, TIER_NONE);
    assert_int_equal(layout_placement(&layout, &hardware, AXIS_EP).tier, TIER_NONE);
}

/* tp 2, sp 16: GPUs 0, 2, .., 30: four nodes, four ranks in each. */
static void group_over_nodes_with_neighbours_inside_is_mixed(void **state)
{
    (void)state;
    struct hardware_spec hardware;
    describe_node(&hardware, 8, "nvlink");
    struct layout_spec layout = layout_of(2, 16, 1, 2);
    struct group_placement cp = layout_placement(&layout, &hardware, AXIS_CP);
    assert_int_equal(cp.size, 16);
    assert_int_equal(cp.stride, 2);
    assert_int_equal(cp.nodes, 4);
    assert_int_equal(cp.ranks_per_node, 4);
    assert_int_equal(cp.tier, TIER_MIXED);
}

static void links_of_a_pcie_node(void **state)
{
    (void)state;
    struct hardware_spec hardware;
    describe_node(&hardware, 4, "pcie");
    struct layout_spec layout = layout_of(1, 4, 1, 1);
    assert_int_equal(layout_placement(&layout, &hardware, AXIS_CP).tier, TIER_PCIE);
}

/* A domain of 72: tp 8, sp 8 take 64 GPUs; the second such block, 64 to 127, crosses 72. */
static void blocks_that_do_not_fit_a_domain_cross_it(void **state)
{
    (void)state;
    struct hardware_spec hardware;
    describe_node(&hardware, 72, "nvlink");
    struct layout_spec layout = layout_of(8, 8, 1, 9);
    struct group_placement cp = layout_placement(&layout, &hardware, AXIS_CP);
    assert_int_equal(cp.nodes, 2);
    assert_int_equal(cp.tier, TIER_MIXED);
    assert_int_equal(layout_placement(&layout, &hardware, AXIS_TP).tier, TIER_NVLINK);
    layout.sp = 9;
    layout.dp = 8;
    assert_int_equal(layout_placement(&layout, &hardware, AXIS_CP).tier, TIER_NVLINK);
}

/* dp x sp under tp-cp-dp-pp is one run of GPUs with stride tp. */
static void shard_group_joins_cp_and_dp(void **state)
{
    (void)state;
    struct hardware_spec hardware;
    describe_node(&hardware, 8, "nvlink");
    struct layout_spec layout = layout_of(4, 2, 3, 5);
    struct group_placement shard = layout_shard_placement(&layout, &hardware);
    assert_int_equal(shard.size, 10);
    assert_int_equal(shard.stride, 4);
    assert_int_equal(shard.nodes, 5);
    assert_int_equal(shard.ranks_per_node, 2);
    assert_int_equal(shard.tier, TIER_MIXED);
    layout = layout_of(4, 1, 3, 1);
    assert_int_equal(layout_shard_placement(&layout, &hardware).tier, TIER_NONE);
}

/* ---- brute force ------------------------------------------------------------------------------------------------ */

enum { MOST_RANKS = 4096 };

static int64_t degree_of(const struct layout_spec *layout, enum axis axis)
{
    const int64_t degrees[N_AXES] = {
        [AXIS_TP] = layout->tp, [AXIS_CP] = layout->sp, [AXIS_EP] = 1, [AXIS_DP] = layout->dp, [AXIS_PP] = layout->pp};
    return degrees[axis];
}

/* Coordinates of a rank, by axis. */
static void coordinates(const struct layout_spec *layout, int64_t rank, int64_t at[N_AXES])
{
    for (int i = 0; i < N_AXES; i++) {
        int64_t degree = degree_of(layout, layout->order[i]);
        at[layout->order[i]] = rank % degree;
        rank /= degree;
    }
}

/* Numbers the groups that vary along the axes in `along`: equal numbers, equal group. */
static int64_t group_number(const struct layout_spec *layout, int64_t rank, const bool along[N_AXES])
{
    int64_t at[N_AXES];
    coordinates(layout, rank, at);
    int64_t number = 0;
    for (int axis = 0; axis < N_AXES; axis++) {
        number = number * degree_of(layout, (enum axis)axis) + (along[axis] ? 0 : at[axis]);
    }
    return number;
}

/* Most domains that a group touches, by walking over all ranks in order. */
static int64_t brute_domains(const struct layout_spec *layout, const bool along[N_AXES], int64_t domain)
{
    static int64_t last_domain[MOST_RANKS];
    static int64_t touched[MOST_RANKS];
    int64_t total = layout->tp * layout->sp * layout->dp * layout->pp;
    assert_true(total <= MOST_RANKS);
    for (int64_t i = 0; i < total; i++) {
        last_domain[i] = -1;
        touched[i] = 0;
    }
    int64_t most = 0;
    for (int64_t rank = 0; rank < total; rank++) {
        int64_t group = group_number(layout, rank, along);
        if (last_domain[group] != rank / domain) {
            last_domain[group] = rank / domain;
            touched[group]++;
        }
        most = touched[group] > most ? touched[group] : most;
    }
    return most;
}

static enum tier tier_of(int64_t size, int64_t nodes)
{
    if (size == 1) {
        return TIER_NONE;
    }
    if (nodes == 1) {
        return TIER_NVLINK;
    }
    return nodes == size ? TIER_NETWORK : TIER_MIXED;
}

/* Degrees of the axes before the first one of the group that has more than one rank. */
static int64_t stride_of(const struct layout_spec *layout, const bool along[N_AXES])
{
    int64_t stride = 1;
    for (int i = 0; i < N_AXES; i++) {
        int64_t degree = degree_of(layout, layout->order[i]);
        if (along[layout->order[i]] && degree > 1) {
            return stride;
        }
        stride *= degree;
    }
    return 0;
}

static void check_group(const struct layout_spec *layout, const struct group_placement *placement,
                        const bool along[N_AXES], int64_t domain)
{
    int64_t size = 1;
    for (int axis = 0; axis < N_AXES; axis++) {
        size *= along[axis] ? degree_of(layout, (enum axis)axis) : 1;
    }
    int64_t nodes = brute_domains(layout, along, domain);
    assert_true(size == 1 || placement->stride == stride_of(layout, along));
    if (placement->size != size || placement->nodes != nodes || placement->tier != tier_of(size, nodes) ||
        placement->ranks_per_node != (size + nodes - 1) / nodes) {
        fail_msg("tp %d sp %d dp %d pp %d order %d%d%d%d%d domain %d: size %d nodes %d (found %d, %d, tier %d)",
                 (int)layout->tp, (int)layout->sp, (int)layout->dp, (int)layout->pp, (int)layout->order[0],
                 (int)layout->order[1], (int)layout->order[2], (int)layout->order[3], (int)layout->order[4],
                 (int)domain, (int)size, (int)nodes, (int)placement->size, (int)placement->nodes, (int)placement->tier);
    }
}

static int64_t pick(uint64_t *random, int64_t least, int64_t most)
{
    return least + (int64_t)(next_random(random) % (uint64_t)(most - least + 1));
}

static void shuffle(uint64_t *random, enum axis order[N_AXES])
{
    for (int i = N_AXES - 1; i > 0; i--) {
        int64_t with = pick(random, 0, i);
        enum axis kept = order[i];
        order[i] = order[with];
        order[with] = kept;
    }
}

static void random_layouts_agree_with_brute_force(void **state)
{
    (void)state;
    static const int64_t domains[] = {1, 2, 4, 5, 6, 7, 8, 12, 18, 36, 72};
    static const int64_t powers[] = {1, 2, 4, 8};
    uint64_t random = 20261129;
    for (int round = 0; round < 6000; round++) {
        bool is_aligned = round % 3 == 0;
        struct layout_spec layout = layout_of(1, 1, 1, 1);
        int64_t *degrees[] = {&layout.tp, &layout.sp, &layout.dp, &layout.pp};
        for (size_t i = 0; i < SP_COUNT_OF(degrees); i++) {
            *degrees[i] = is_aligned ? powers[pick(&random, 0, 3)] : pick(&random, 1, 7);
        }
        shuffle(&random, layout.order);
        int64_t domain = domains[pick(&random, 0, (int64_t)SP_COUNT_OF(domains) - 1)];
        struct hardware_spec hardware;
        describe_node(&hardware, domain, "nvlink");
        for (int axis = 0; axis < N_AXES; axis++) {
            bool along[N_AXES] = {false};
            along[axis] = true;
            struct group_placement placement = layout_placement(&layout, &hardware, (enum axis)axis);
            check_group(&layout, &placement, along, domain);
        }
        const bool shard[N_AXES] = {[AXIS_CP] = true, [AXIS_DP] = true};
        struct group_placement placement = layout_shard_placement(&layout, &hardware);
        check_group(&layout, &placement, shard, domain);
    }
}

/* A cluster of 2^30 GPUs costs no more than a small one: this would not end if anything ran over the ranks. */
static void placement_does_not_walk_over_the_cluster(void **state)
{
    (void)state;
    struct hardware_spec hardware;
    describe_node(&hardware, 72, "nvlink");
    struct layout_spec layout = layout_of(8, 1024, 128, 1024);
    const enum axis order[N_AXES] = {AXIS_TP, AXIS_CP, AXIS_PP, AXIS_DP, AXIS_EP};
    memcpy(layout.order, order, sizeof(order));
    int64_t nodes = 0;
    for (int i = 0; i < 2000; i++) {
        nodes += layout_shard_placement(&layout, &hardware).nodes;
    }
    /* A cp run of 8192 GPUs touches 114 or 115 domains of 72; each of the 1024 of them lies elsewhere. */
    assert_true(nodes / 2000 >= 1024 * 114 && nodes / 2000 <= 1024 * 115);
}

/* ---- layers of a stage ------------------------------------------------------------------------------------------ */

static void expect_layers(const struct layout_spec *layout, int64_t n_layers, const char *expected)
{
    struct sp_arena *arena = sp_arena_open();
    struct model_spec model = {.n_layers = n_layers};
    assert_string_equal(stage_layers_text(arena, layout, &model), expected);
    int64_t sum = 0;
    for (int64_t stage = 0; stage < layout->pp; stage++) {
        sum += layout_stage_layers(layout, &model, stage);
    }
    assert_int_equal(sum, n_layers);
    sp_arena_close(arena);
}

static void layers_are_spread_over_the_middle(void **state)
{
    (void)state;
    struct layout_spec layout = layout_of(1, 1, 16, 1);
    layout.pp_layers = PP_LAYERS_EVEN;
    expect_layers(&layout, 80, "5 x 16");
    layout.pp_layers = PP_LAYERS_AUTO;
    expect_layers(&layout, 126, "7, 8 x 14, 7"); /* 126 = 16 x 7 + 14 */
    layout.pp = 4;
    expect_layers(&layout, 61, "15, 16, 15 x 2"); /* one over: the second of four */
    expect_layers(&layout, 63, "16 x 3, 15");     /* three over: the last stage has the loss */
    layout.pp = 1;
    expect_layers(&layout, 61, "61");
}

/* 126 + 2 = 128 = 16 x 8: the ends hold one layer less. 61 + 2 = 63 = 4 x 15 + 3. */
static void padded_counts_embedding_and_loss(void **state)
{
    (void)state;
    struct layout_spec layout = layout_of(1, 1, 16, 1);
    layout.pp_layers = PP_LAYERS_PADDED;
    expect_layers(&layout, 126, "7, 8 x 14, 7");
    layout.pp = 4;
    expect_layers(&layout, 61, "15, 16 x 2, 14");
    layout.pp = 1;
    expect_layers(&layout, 61, "61");
}

static void explicit_layers_are_taken_as_they_are(void **state)
{
    (void)state;
    static const int64_t layers[] = {3, 21, 37};
    struct layout_spec layout = layout_of(1, 1, 3, 1);
    layout.pp_layers = PP_LAYERS_EXPLICIT;
    layout.n_stage_layers = 3;
    layout.stage_layers = layers;
    expect_layers(&layout, 61, "3, 21, 37");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(usual_layout_of_512_gpus),
        cmocka_unit_test(group_over_nodes_with_neighbours_inside_is_mixed),
        cmocka_unit_test(links_of_a_pcie_node),
        cmocka_unit_test(blocks_that_do_not_fit_a_domain_cross_it),
        cmocka_unit_test(shard_group_joins_cp_and_dp),
        cmocka_unit_test(random_layouts_agree_with_brute_force),
        cmocka_unit_test(placement_does_not_walk_over_the_cluster),
        cmocka_unit_test(layers_are_spread_over_the_middle),
        cmocka_unit_test(padded_counts_embedding_and_loss),
        cmocka_unit_test(explicit_layers_are_taken_as_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
