/* Where groups of ranks lie. Rank r stands on GPU r, in domain r / D of D GPUs that reach each other without the
 * network; a group takes every stride-th rank. docs/model.md, "placement".
 *
 * All in time that does not grow with the cluster: what counts of a group's first rank is its remainder modulo D, and
 * the remainders that occur are few. Aligned sizes (powers of two, mostly) need no search at all. */
#include "spec/spec_internal.h"

#include <assert.h>
#include <string.h>

enum { MAX_DOMAIN = 1024 }; /* the bound of node.nvlink_domain in its field table */

/* Degrees over which the ranks of a layout are laid out, the fastest axis first. */
struct rank_grid {
    int64_t degrees[N_AXES];
    const enum axis *order;
    int64_t n_ranks;
};

/* Two nested strides: the group of ranks base + i inner_stride + j outer_stride. */
struct group {
    int64_t inner_size, inner_stride;
    int64_t outer_size, outer_stride;
};

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- one stride ------------------------------------------------------------------------------------------------- */

/* The largest remainder modulo D that the first rank of a group has. First ranks are lo + hi x block with lo below
 * stride; after D / gcd blocks the remainders repeat. */
static int64_t largest_start(int64_t stride, int64_t block, int64_t n_blocks, int64_t domain)
{
    int64_t steps = smaller(n_blocks, domain / gcd_of(block, domain));
    int64_t largest = 0;
    for (int64_t hi = 0; hi < steps; hi++) {
        int64_t last = (hi % domain) * (block % domain) % domain + stride - 1;
        if (last >= domain) {
            return domain - 1;
        }
        largest = last > largest ? last : largest;
    }
    return largest;
}

/* Domains that the widest group of `size` ranks touches; n_blocks groups follow each other. */
static int64_t domains_of_line(int64_t size, int64_t stride, int64_t n_blocks, int64_t domain)
{
    int64_t block = size * stride;
    if (domain % block == 0) {
        return 1;
    }
    if (stride >= domain) {
        return size;
    }
    /* Below a stride of D no domain between the first and the last rank is skipped. */
    return (largest_start(stride, block, n_blocks, domain) + (size - 1) * stride) / domain + 1;
}

/* ---- two strides ------------------------------------------------------------------------------------------------ */

/* Domains of the group that begins at remainder `start`. Runs that lie further apart than a domain share none; nearer
 * ones leave none out. */
static int64_t domains_from(const struct group *group, int64_t start, int64_t domain)
{
    int64_t length = (group->inner_size - 1) * group->inner_stride;
    if (group->outer_stride - length <= domain) {
        return (start + (group->outer_size - 1) * group->outer_stride + length) / domain + 1;
    }
    /* Runs repeat their remainder after D / gcd of them. */
    int64_t period = smaller(group->outer_size, domain / gcd_of(group->outer_stride, domain));
    int64_t total = 0;
    for (int64_t j = 0; j < period; j++) {
        int64_t at = (start + j * (group->outer_stride % domain)) % domain;
        int64_t repeats = (group->outer_size - j + period - 1) / period;
        total += repeats * ((at + length) / domain + 1);
    }
    return total;
}

/* Adds k x stride, k below size, to every remainder that is marked. */
static void shift_starts(bool *is_start, int64_t size, int64_t stride, int64_t domain)
{
    int64_t step = stride % domain;
    int64_t steps = smaller(size, domain / gcd_of(stride, domain));
    bool was_start[MAX_DOMAIN];
    memcpy(was_start, is_start, (size_t)domain * sizeof(*was_start));
    for (int64_t k = 1; k < steps; k++) {
        int64_t shift = k * step % domain;
        for (int64_t at = 0; at < domain; at++) {
            if (was_start[at]) {
                int64_t to = at + shift;
                is_start[to >= domain ? to - domain : to] = true;
            }
        }
    }
}

/* Of the widest group when first ranks are lo + mid x inner block + hi x outer block. */
static int64_t search_domains(const struct group *group, int64_t n_outer_blocks, int64_t domain)
{
    int64_t inner_block = group->inner_size * group->inner_stride;
    int64_t outer_block = group->outer_size * group->outer_stride;
    bool is_start[MAX_DOMAIN] = {true};
    shift_starts(is_start, smaller(group->inner_stride, domain), 1, domain);
    shift_starts(is_start, group->outer_stride / inner_block, inner_block, domain);
    shift_starts(is_start, n_outer_blocks, outer_block, domain);
    int64_t most = 1;
    for (int64_t start = 0; start < domain; start++) {
        int64_t domains = is_start[start] ? domains_from(group, start, domain) : 0;
        most = domains > most ? domains : most;
    }
    return most;
}

static int64_t domains_of_group(const struct group *group, int64_t total, int64_t domain)
{
    int64_t inner_block = group->inner_size * group->inner_stride;
    int64_t outer_block = group->outer_size * group->outer_stride;
    if (domain % outer_block == 0) {
        return 1;
    }
    if (group->inner_stride >= domain) {
        return group->inner_size * group->outer_size;
    }
    if (group->outer_stride % domain == 0 && domain % inner_block == 0) {
        return group->outer_size;
    }
    if (group->outer_stride % domain == 0 && inner_block % domain == 0) {
        return group->outer_size * (inner_block / domain);
    }
    return search_domains(group, total / outer_block, domain);
}

/* ---- placement -------------------------------------------------------------------------------------------------- */

static void fill_tier(const struct hardware_spec *hardware, struct group_placement *placement)
{
    placement->ranks_per_node = (placement->size + placement->nodes - 1) / placement->nodes;
    if (placement->size == 1) {
        placement->tier = TIER_NONE;
    } else if (placement->nodes == 1) {
        placement->tier = strcmp(hardware->intra.medium, "pcie") == 0 ? TIER_PCIE : TIER_NVLINK;
    } else {
        placement->tier = placement->ranks_per_node == 1 ? TIER_NETWORK : TIER_MIXED;
    }
}

static int64_t domain_size(const struct hardware_spec *hardware)
{
    int64_t domain = (int64_t)hardware->node.nvlink_domain.value;
    assert(domain >= 1 && domain <= MAX_DOMAIN);
    return domain;
}

/* Experts live on the ranks of the other axes. */
static struct rank_grid layout_grid(const struct layout_spec *layout)
{
    return (struct rank_grid){
        .degrees = {[AXIS_TP] = layout->tp,
                    [AXIS_CP] = layout->sp,
                    [AXIS_EP] = 1,
                    [AXIS_DP] = layout->dp,
                    [AXIS_PP] = layout->pp},
        .order = layout->order,
        .n_ranks = layout->tp * layout->sp * layout->dp * layout->pp,
    };
}

bool layout_splits_experts(const struct layout_spec *layout)
{
    int64_t left = layout_grid(layout).n_ranks;
    const int64_t degrees[] = {layout->pp, layout->ep, layout->etp};
    for (size_t i = 0; i < SP_COUNT_OF(degrees); i++) {
        if (left % degrees[i] != 0) {
            return false;
        }
        left /= degrees[i];
    }
    return true;
}

/* The same ranks as the experts see them: sp folded into what replicates an expert. */
static struct rank_grid expert_grid(const struct layout_spec *layout)
{
    struct rank_grid grid = layout_grid(layout);
    int64_t replicas = grid.n_ranks / (layout->etp * layout->ep * layout->pp);
    grid.degrees[AXIS_TP] = layout->etp;
    grid.degrees[AXIS_CP] = 1;
    grid.degrees[AXIS_EP] = layout->ep;
    grid.degrees[AXIS_DP] = replicas;
    assert(replicas * layout->etp * layout->ep * layout->pp == grid.n_ranks); /* a rule of the layout */
    return grid;
}

/* GPUs between neighbours of an axis: the degrees of the axes that come before it. */
static int64_t axis_stride(const struct rank_grid *grid, enum axis axis)
{
    int64_t stride = 1;
    for (int at = 0; at < N_AXES && grid->order[at] != axis; at++) {
        stride *= grid->degrees[grid->order[at]];
    }
    return stride;
}

/* First ranks are all below the stride, and again after each block of size x stride. */
static struct group_placement place_line(const struct rank_grid *grid, const struct hardware_spec *hardware,
                                         int64_t size, int64_t stride)
{
    struct group_placement placement = {.size = size, .stride = stride, .nodes = 1};
    if (size > 1) {
        int64_t n_blocks = grid->n_ranks / (size * stride);
        placement.nodes = domains_of_line(size, stride, n_blocks, domain_size(hardware));
    }
    fill_tier(hardware, &placement);
    return placement;
}

static struct group_placement place_axis(const struct rank_grid *grid, const struct hardware_spec *hardware,
                                         enum axis axis)
{
    return place_line(grid, hardware, grid->degrees[axis], axis_stride(grid, axis));
}

struct group_placement layout_placement(const struct layout_spec *layout, const struct hardware_spec *hardware,
                                        enum axis axis)
{
    struct rank_grid grid = layout_grid(layout);
    return place_axis(&grid, hardware, axis);
}

struct group_placement layout_part_placement(const struct layout_spec *layout, const struct hardware_spec *hardware,
                                             enum axis axis, int64_t size, int64_t step)
{
    struct rank_grid grid = layout_grid(layout);
    assert(size >= 1 && step >= 1 && grid.degrees[axis] % (size * step) == 0);
    return place_line(&grid, hardware, size, step * axis_stride(&grid, axis));
}

struct group_placement layout_expert_placement(const struct layout_spec *layout, const struct hardware_spec *hardware,
                                               enum axis axis)
{
    struct rank_grid grid = expert_grid(layout);
    return place_axis(&grid, hardware, axis);
}

bool layout_expert_stages_agree(const struct layout_spec *layout, const struct model_spec *model,
                                const struct hardware_spec *hardware)
{
    return model->n_experts == 0 || layout->pp == 1 ||
           layout_placement(layout, hardware, AXIS_PP).stride ==
               layout_expert_placement(layout, hardware, AXIS_PP).stride;
}

struct group_placement layout_shard_placement(const struct layout_spec *layout, const struct hardware_spec *hardware)
{
    struct rank_grid grid = layout_grid(layout);
    int64_t cp_stride = axis_stride(&grid, AXIS_CP);
    int64_t dp_stride = axis_stride(&grid, AXIS_DP);
    /* With one of the two at degree 1, the other is the group; its stride holds however the strides compare. */
    bool is_cp_inner = layout->dp == 1 || (layout->sp > 1 && cp_stride < dp_stride);
    struct group group = {
        .inner_size = is_cp_inner ? layout->sp : layout->dp,
        .inner_stride = is_cp_inner ? cp_stride : dp_stride,
        .outer_size = is_cp_inner ? layout->dp : layout->sp,
        .outer_stride = is_cp_inner ? dp_stride : cp_stride,
    };
    bool is_one_line = group.outer_size == 1 || group.outer_stride == group.inner_size * group.inner_stride;
    if (is_one_line) {
        return place_line(&grid, hardware, layout->sp * layout->dp, group.inner_stride);
    }
    struct group_placement placement = {.size = layout->sp * layout->dp, .stride = group.inner_stride};
    placement.nodes = domains_of_group(&group, grid.n_ranks, domain_size(hardware));
    fill_tier(hardware, &placement);
    return placement;
}
