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

/* usp over sp 16 beside tp 2 on eight GPUs a node: the all-to-all of 4 takes GPUs 0, 2, 4, 6; the ring of 4 between takes
 * every 8th. */
static void parts_of_an_axis_have_their_own_strides(void **state)
{
    (void)state;
    struct hardware_spec hardware;
    describe_node(&hardware, 8, "nvlink");
    struct layout_spec layout = layout_of(2, 16, 1, 2);
    struct group_placement inner = layout_part_placement(&layout, &hardware, AXIS_CP, 4, 1);
    assert_int_equal(inner.size, 4);
    assert_int_equal(inner.stride, 2);
    assert_int_equal(inner.nodes, 1);
    assert_int_equal(inner.tier, TIER_NVLINK);
    struct group_placement outer = layout_part_placement(&layout, &hardware, AXIS_CP, 4, 4);
    assert_int_equal(outer.stride, 8);
    assert_int_equal(outer.nodes, 4);
    assert_int_equal(outer.ranks_per_node, 1);
    assert_int_equal(outer.tier, TIER_NETWORK);
    struct group_placement whole = layout_part_placement(&layout, &hardware, AXIS_CP, 16, 1);
    struct group_placement axis = layout_placement(&layout, &hardware, AXIS_CP);
    assert_memory_equal(&whole, &axis, sizeof(axis));
    assert_int_equal(layout_part_placement(&layout, &hardware, AXIS_CP, 1, 4).tier, TIER_NONE);
}

/* 64 GPUs as tp 2 x sp 4 x dp 4 x pp 2; experts see etp 1 x ep 8 x edp 4 x pp 2: ep fills a node, edp takes one GPU of
 * each of four nodes in a row. */
static void experts_see_the_same_ranks_without_sp(void **state)
{
    (void)state;
    struct hardware_spec hardware;
    describe_node(&hardware, 8, "nvlink");
    struct layout_spec layout = layout_of(2, 4, 2, 4);
    layout.ep = 8;
    struct group_placement ep = layout_expert_placement(&layout, &hardware, AXIS_EP);
    assert_int_equal(ep.size, 8);
    assert_int_equal(ep.stride, 1);
    assert_int_equal(ep.tier, TIER_NVLINK);
    struct group_placement replicas = layout_expert_placement(&layout, &hardware, AXIS_DP);
    assert_int_equal(replicas.size, 4);
    assert_int_equal(replicas.stride, 8);
    assert_int_equal(replicas.nodes, 4);
    assert_int_equal(replicas.tier, TIER_NETWORK);
    assert_int_equal(layout_expert_placement(&layout, &hardware, AXIS_TP).tier, TIER_NONE);
    assert_int_equal(layout_expert_placement(&layout, &hardware, AXIS_CP).size, 1);
    assert_int_equal(layout_expert_placement(&layout, &hardware, AXIS_PP).stride, 32);
    layout.etp = 2; /* etp 2 x ep 8 over two nodes */
    ep = layout_expert_placement(&layout, &hardware, AXIS_EP);
    assert_int_equal(ep.stride, 2);
    assert_int_equal(ep.nodes, 2);
    assert_int_equal(ep.ranks_per_node, 4);
    assert_int_equal(ep.tier, TIER_MIXED);
    assert_int_equal(layout_expert_placement(&layout, &hardware, AXIS_TP).tier, TIER_NVLINK);
    assert_int_equal(layout_expert_placement(&layout, &hardware, AXIS_DP).size, 2);
}

/* ---- brute force ------------------------------------------------------------------------------------------------ */

enum { MOST_RANKS = 4096 };

/* Ranks in the mixed radix of their axes, the fastest first. */
struct grid {
    int64_t degrees[N_AXES];
    const enum axis *order;
};

static struct grid grid_of(const struct layout_spec *layout)
{
    return (struct grid){
        {[AXIS_TP] = layout->tp, [AXIS_CP] = layout->sp, [AXIS_EP] = 1, [AXIS_DP] = layout->dp, [AXIS_PP] = layout->pp},
        layout->order};
}

static int64_t ranks_of(const struct grid *grid)
{
    int64_t total = 1;
    for (int axis = 0; axis < N_AXES; axis++) {
        total *= grid->degrees[axis];
    }
    return total;
}

/* Which ranks are one group: those that agree on every axis but these, and of an axis in parts on the part too. */
struct grouping {
    bool along[N_AXES];
    int64_t part_size, part_step; /* 0: whole axes */
};

/* Numbers the groups below the number of ranks: equal numbers, equal group. */
static int64_t group_number(const struct grid *grid, int64_t rank, const struct grouping *grouping)
{
    int64_t at[N_AXES];
    for (int i = 0; i < N_AXES; i++) {
        int64_t degree = grid->degrees[grid->order[i]];
        at[grid->order[i]] = rank % degree;
        rank /= degree;
    }
    int64_t size = grouping->part_size;
    int64_t step = grouping->part_step;
    int64_t number = 0;
    for (int axis = 0; axis < N_AXES; axis++) {
        int64_t part = size == 0 ? 0 : at[axis] / (size * step) * step + at[axis] % step;
        number = number * grid->degrees[axis] + (grouping->along[axis] ? part : at[axis]);
    }
    return number;
}

/* Most domains that a group touches, by walking over all ranks in order. */
static int64_t brute_domains(const struct grid *grid, const struct grouping *grouping, int64_t domain)
{
    static int64_t last_domain[MOST_RANKS];
    static int64_t touched[MOST_RANKS];
    int64_t total = ranks_of(grid);
    assert_true(total <= MOST_RANKS);
    for (int64_t i = 0; i < total; i++) {
        last_domain[i] = -1;
        touched[i] = 0;
    }
    int64_t most = 0;
    for (int64_t rank = 0; rank < total; rank++) {
        int64_t group = group_number(grid, rank, grouping);
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

static void check_group(const struct grid *grid, const struct group_placement *placement,
                        const struct grouping *grouping, int64_t domain)
{
    int64_t size = 1;
    for (int axis = 0; axis < N_AXES; axis++) {
        size *= grouping->along[axis] ? grid->degrees[axis] : 1;
    }
    size = grouping->part_size > 0 ? grouping->part_size : size;
    int64_t nodes = brute_domains(grid, grouping, domain);
    if (placement->size != size || placement->nodes != nodes || placement->tier != tier_of(size, nodes) ||
        placement->ranks_per_node != (size + nodes - 1) / nodes) {
        fail_msg("tp %d cp %d ep %d dp %d pp %d order %d%d%d%d%d domain %d part %d by %d: size %d nodes %d (found %d, "
                 "%d, tier %d)",
                 (int)grid->degrees[AXIS_TP], (int)grid->degrees[AXIS_CP], (int)grid->degrees[AXIS_EP],
                 (int)grid->degrees[AXIS_DP], (int)grid->degrees[AXIS_PP], (int)grid->order[0], (int)grid->order[1],
                 (int)grid->order[2], (int)grid->order[3], (int)grid->order[4], (int)domain, (int)grouping->part_size,
                 (int)grouping->part_step, (int)size, (int)nodes, (int)placement->size, (int)placement->nodes,
                 (int)placement->tier);
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

static int64_t pick_divisor(uint64_t *random, int64_t n)
{
    int64_t divisor = 0;
    do {
        divisor = pick(random, 1, n);
    } while (n % divisor != 0);
    return divisor;
}

static int64_t describe_random(uint64_t *random, bool is_aligned, struct layout_spec *layout,
                               struct hardware_spec *hardware)
{
    static const int64_t domains[] = {1, 2, 4, 5, 6, 7, 8, 12, 18, 36, 72};
    static const int64_t powers[] = {1, 2, 4, 8};
    *layout = layout_of(1, 1, 1, 1);
    int64_t *degrees[] = {&layout->tp, &layout->sp, &layout->dp, &layout->pp};
    for (size_t i = 0; i < SP_COUNT_OF(degrees); i++) {
        *degrees[i] = is_aligned ? powers[pick(random, 0, 3)] : pick(random, 1, 7);
    }
    shuffle(random, layout->order);
    int64_t domain = domains[pick(random, 0, (int64_t)SP_COUNT_OF(domains) - 1)];
    describe_node(hardware, domain, "nvlink");
    return domain;
}

static void random_layouts_agree_with_brute_force(void **state)
{
    (void)state;
    uint64_t random = 20261129;
    for (int round = 0; round < 6000; round++) {
        struct layout_spec layout;
        struct hardware_spec hardware;
        int64_t domain = describe_random(&random, round % 3 == 0, &layout, &hardware);
        struct grid grid = grid_of(&layout);
        for (int axis = 0; axis < N_AXES; axis++) {
            struct grouping grouping = {.part_size = 0};
            grouping.along[axis] = true;
            struct group_placement placement = layout_placement(&layout, &hardware, (enum axis)axis);
            check_group(&grid, &placement, &grouping, domain);
        }
        const struct grouping shard = {.along = {[AXIS_CP] = true, [AXIS_DP] = true}};
        struct group_placement placement = layout_shard_placement(&layout, &hardware);
        check_group(&grid, &placement, &shard, domain);
    }
}

static void random_parts_agree_with_brute_force(void **state)
{
    (void)state;
    static const int64_t degrees[] = {1, 2, 3, 4, 6, 8, 12, 16};
    uint64_t random = 61;
    for (int round = 0; round < 4000; round++) {
        struct layout_spec layout;
        struct hardware_spec hardware;
        int64_t domain = describe_random(&random, round % 3 == 0, &layout, &hardware);
        layout.sp = degrees[pick(&random, 0, (int64_t)SP_COUNT_OF(degrees) - 1)];
        layout.pp = 2;
        struct grid grid = grid_of(&layout);
        struct grouping grouping = {.along = {[AXIS_CP] = true}};
        grouping.part_size = pick_divisor(&random, layout.sp);
        grouping.part_step = pick_divisor(&random, layout.sp / grouping.part_size);
        struct group_placement placement =
            layout_part_placement(&layout, &hardware, AXIS_CP, grouping.part_size, grouping.part_step);
        check_group(&grid, &placement, &grouping, domain);
    }
}

static void random_experts_agree_with_brute_force(void **state)
{
    (void)state;
    uint64_t random = 40961;
    for (int round = 0; round < 4000; round++) {
        struct layout_spec layout;
        struct hardware_spec hardware;
        int64_t domain = describe_random(&random, round % 3 == 0, &layout, &hardware);
        int64_t ranks = layout.tp * layout.sp * layout.dp;
        layout.etp = pick_divisor(&random, ranks);
        layout.ep = pick_divisor(&random, ranks / layout.etp);
        struct grid grid = grid_of(&layout);
        grid.degrees[AXIS_TP] = layout.etp;
        grid.degrees[AXIS_CP] = 1;
        grid.degrees[AXIS_EP] = layout.ep;
        grid.degrees[AXIS_DP] = ranks / layout.etp / layout.ep;
        for (int axis = 0; axis < N_AXES; axis++) {
            struct grouping grouping = {.part_size = 0};
            grouping.along[axis] = true;
            struct group_placement placement = layout_expert_placement(&layout, &hardware, (enum axis)axis);
            check_group(&grid, &placement, &grouping, domain);
        }
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
        assert_int_equal(layout_stage_first(layout, &model, stage), sum);
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

/* Every way of splitting 1 to 40 layers over up to 11 stages: a stage begins where the one before ends. */
static void stages_follow_each_other(void **state)
{
    (void)state;
    static const enum pp_layers_kind kinds[] = {PP_LAYERS_EVEN, PP_LAYERS_AUTO, PP_LAYERS_PADDED};
    for (size_t kind = 0; kind < SP_COUNT_OF(kinds); kind++) {
        for (int64_t pp = 1; pp <= 11; pp++) {
            for (int64_t n_layers = 1; n_layers <= 40; n_layers++) {
                struct layout_spec layout = layout_of(1, 1, pp, 1);
                layout.pp_layers = kinds[kind];
                struct model_spec model = {.n_layers = n_layers};
                int64_t next = 0;
                for (int64_t stage = 0; stage < pp; stage++) {
                    assert_int_equal(layout_stage_first(&layout, &model, stage), next);
                    next += layout_stage_layers(&layout, &model, stage);
                }
                assert_int_equal(next, n_layers);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(usual_layout_of_512_gpus),
        cmocka_unit_test(group_over_nodes_with_neighbours_inside_is_mixed),
        cmocka_unit_test(links_of_a_pcie_node),
        cmocka_unit_test(blocks_that_do_not_fit_a_domain_cross_it),
        cmocka_unit_test(shard_group_joins_cp_and_dp),
        cmocka_unit_test(parts_of_an_axis_have_their_own_strides),
        cmocka_unit_test(experts_see_the_same_ranks_without_sp),
        cmocka_unit_test(random_layouts_agree_with_brute_force),
        cmocka_unit_test(random_parts_agree_with_brute_force),
        cmocka_unit_test(random_experts_agree_with_brute_force),
        cmocka_unit_test(placement_does_not_walk_over_the_cluster),
        cmocka_unit_test(layers_are_spread_over_the_middle),
        cmocka_unit_test(padded_counts_embedding_and_loss),
        cmocka_unit_test(explicit_layers_are_taken_as_they_are),
        cmocka_unit_test(stages_follow_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
