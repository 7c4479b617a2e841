/* Ranks, groups and edges of a layout (cluster.h). Rank r stands on GPU r; its coordinates follow from the strides of the
 * placement. */
#include "sim/cluster.h"

#include "cost/cost.h"
#include "method/method.h"

#include <assert.h>
#include <string.h>

/* ---- groups ----------------------------------------------------------------------------------------------------- */

/* Ranks whose coordinates along one or two strides run while the others stay. */
struct line {
    int64_t size, stride;
};
struct group_shape {
    struct line lines[2]; /* size 1: none */
};

struct shapes {
    struct group_shape of[N_PROGRAM_GROUPS];
    struct line tp, sp, dp, pp;
    int64_t n_ranks;
};

static struct line line_of(struct group_placement placement)
{
    return (struct line){placement.size, placement.stride};
}

static struct shapes shapes_of(const struct question *question)
{
    const struct layout_spec *layout = &question->layout;
    const struct hardware_spec *hardware = &question->hardware;
    int64_t inner = method_problem(question, 0).inner_ranks;
    struct shapes shapes = {.n_ranks = layout->tp * layout->sp * layout->pp * layout->dp};
    shapes.tp = line_of(layout_placement(layout, hardware, AXIS_TP));
    shapes.sp = line_of(layout_placement(layout, hardware, AXIS_CP));
    shapes.dp = line_of(layout_placement(layout, hardware, AXIS_DP));
    shapes.pp = line_of(layout_placement(layout, hardware, AXIS_PP));
    const struct line none = {1, 1};
    const struct line sp_inner = {inner, shapes.sp.stride};
    const struct line sp_outer = {shapes.sp.size / inner, shapes.sp.stride * inner};
    shapes.of[RANKS_TP] = (struct group_shape){{shapes.tp, none}};
    shapes.of[RANKS_SP] = (struct group_shape){{shapes.sp, none}};
    shapes.of[RANKS_SP_INNER] = (struct group_shape){{sp_inner, none}};
    shapes.of[RANKS_SP_OUTER] = (struct group_shape){{sp_outer, none}};
    shapes.of[RANKS_SHARD] = (struct group_shape){{shapes.sp, shapes.dp}};
    shapes.of[RANKS_EP] = (struct group_shape){{line_of(layout_expert_placement(layout, hardware, AXIS_EP)), none}};
    shapes.of[RANKS_ETP] = (struct group_shape){{line_of(layout_expert_placement(layout, hardware, AXIS_TP)), none}};
    shapes.of[RANKS_EXPERT_SHARD] =
        (struct group_shape){{line_of(layout_expert_placement(layout, hardware, AXIS_DP)), none}};
    shapes.of[RANKS_PP] = (struct group_shape){{shapes.pp, none}};
    shapes.of[RANKS_ALL] = (struct group_shape){{{shapes.n_ranks, 1}, none}};
    return shapes;
}

static int64_t coordinate(int64_t rank, struct line line)
{
    return rank / line.stride % line.size;
}

static bool is_first(int64_t rank, const struct group_shape *shape)
{
    return coordinate(rank, shape->lines[0]) == 0 && coordinate(rank, shape->lines[1]) == 0;
}

static int64_t group_size(const struct group_shape *shape)
{
    return shape->lines[0].size * shape->lines[1].size;
}

/* Ascending: the smaller stride runs inside. */
static void list_members(int64_t first, const struct group_shape *shape, int32_t *members)
{
    bool is_swapped = shape->lines[1].size > 1 && shape->lines[1].stride < shape->lines[0].stride;
    const struct line inner = shape->lines[is_swapped ? 1 : 0];
    const struct line outer = shape->lines[is_swapped ? 0 : 1];
    int64_t n = 0;
    for (int64_t j = 0; j < outer.size; j++) {
        for (int64_t i = 0; i < inner.size; i++) {
            members[n++] = (int32_t)(first + i * inner.stride + j * outer.stride);
        }
    }
}

/* ---- what the program uses -------------------------------------------------------------------------------------- */

struct uses {
    bool rings[N_PROGRAM_GROUPS], trees[N_PROGRAM_GROUPS], pairs[N_PROGRAM_GROUPS], groups[N_PROGRAM_GROUPS];
    bool *hops;   /* by positions further */
    bool *stages; /* from x pp + to */
    bool to_host, from_host;
};

static bool runs_as_trees(const struct question *question, const struct step_program *program,
                          const struct program_transfer *transfer)
{
    const struct group_placement *placement = &program->placements[transfer->group];
    return transfer->operation == COLLECTIVE_ALL_REDUCE && transfer->bytes > 0 && placement->nodes > 1 &&
           all_reduce_plan(&question->hardware, placement, transfer->bytes).kind == ALL_REDUCE_TREES;
}

static void use_transfer(const struct question *question, const struct step_program *program,
                         const struct program_op *op, struct uses *uses)
{
    const struct program_transfer *transfer = &program->transfers[op->transfer];
    if (op->kind == OP_SEND) {
        uses->hops[op->peer] = true;
    } else if (op->kind == OP_COLLECTIVE) {
        bool is_pairs = transfer->operation == COLLECTIVE_ALL_TO_ALL;
        uses->groups[transfer->group] = true;
        uses->pairs[transfer->group] = uses->pairs[transfer->group] || (is_pairs && transfer->bytes > 0);
        uses->rings[transfer->group] = uses->rings[transfer->group] || (!is_pairs && transfer->bytes > 0);
        uses->trees[transfer->group] = uses->trees[transfer->group] || runs_as_trees(question, program, transfer);
    }
}

static void use_ops(const struct question *question, const struct step_program *program, const struct program_ops *ops,
                    struct uses *uses)
{
    for (int i = 0; i < ops->n; i++) {
        const struct program_op *op = &ops->ops[i];
        if (op->transfer >= 0) {
            use_transfer(question, program, op, uses);
        }
        uses->to_host = uses->to_host || op->kind == OP_HOST_COPY;
        uses->from_host = uses->from_host || op->kind == OP_HOST_COPY;
    }
}

static struct uses uses_of(const struct question *question, const struct step_program *program,
                           struct sp_arena *scratch)
{
    size_t sp = (size_t)question->layout.sp;
    size_t pp = (size_t)question->layout.pp;
    struct uses uses = {.hops = sp_arena_array(scratch, sp, sizeof(bool)),
                        .stages = sp_arena_array(scratch, pp * pp, sizeof(bool))};
    for (int s = 0; s < program->n_segments; s++) {
        const struct program_segment *segment = &program->segments[s];
        for (size_t i = 0; i < (segment->is_by_position ? sp : 1); i++) {
            use_ops(question, program, &segment->ops[i], &uses);
        }
    }
    for (size_t from = 0; from < pp; from++) {
        const struct stage_program *stage = &program->stages[from];
        for (int64_t i = 0; i < stage->n_entries; i++) {
            if (stage->entries[i].other_stage >= 0) { /* sent one way or the other */
                uses.stages[from * pp + (size_t)stage->entries[i].other_stage] = true;
            }
        }
    }
    return uses;
}

/* ---- edges ------------------------------------------------------------------------------------------------------ */

struct graph_builder {
    struct sp_arena *scratch;
    const struct shapes *shapes;
    const struct uses *uses;
    int64_t domain;
    int64_t n_edges, edge_capacity;
    struct fold_edge *edges;
    int64_t n_groups, group_capacity;
    struct fold_group *groups;
};

static void add_edge(struct graph_builder *builder, int32_t type, int64_t from, int64_t to, int64_t group)
{
    if (builder->n_edges == builder->edge_capacity) {
        builder->edges = sp_arena_grow(builder->scratch, builder->edges, builder->n_edges, &builder->edge_capacity,
                                       sizeof builder->edges[0]);
    }
    builder->edges[builder->n_edges++] =
        (struct fold_edge){.type = type, .from = (int32_t)from, .to = (int32_t)to, .group = (int32_t)group};
}

/* Members from `at` on that share a domain. */
static int32_t run_length(const struct graph_builder *builder, const struct fold_group *group, int32_t at)
{
    int32_t end = at;
    while (end < group->n_members && group->members[end] / builder->domain == group->members[at] / builder->domain) {
        end++;
    }
    return end - at;
}

static void add_ring(struct graph_builder *builder, const struct fold_group *group, int64_t id)
{
    int32_t inner = edge_type(EDGE_INNER, group->type);
    int32_t outer = edge_type(EDGE_OUTER, group->type);
    for (int32_t at = 0; at < group->n_members;) {
        int32_t length = run_length(builder, group, at);
        int32_t next = at + length < group->n_members ? at + length : 0;
        int32_t next_length = run_length(builder, group, next);
        for (int32_t i = 0; i < length; i++) {
            int64_t from = group->members[at + i];
            if (length > 1) {
                add_edge(builder, inner, from, group->members[at + (i + 1) % length], id);
            }
            if (length < group->n_members) {
                add_edge(builder, outer, from, group->members[next + (i < next_length ? i : next_length - 1)], id);
            }
        }
        at += length;
    }
}

/* Members of one place in two domains. */
static void add_tree_edges(struct graph_builder *builder, const struct fold_group *group, int64_t id, int tree,
                           const int32_t between[2])
{
    int32_t up = edge_type(EDGE_UP, 2 * (int64_t)group->type + tree);
    int32_t down = edge_type(EDGE_DOWN, 2 * (int64_t)group->type + tree);
    int32_t child_length = run_length(builder, group, between[0]);
    int32_t parent_length = run_length(builder, group, between[1]);
    for (int32_t i = 0; i < child_length && i < parent_length; i++) {
        int64_t child = group->members[between[0] + i];
        int64_t parent = group->members[between[1] + i];
        add_edge(builder, up, child, parent, id);
        add_edge(builder, down, parent, child, id);
    }
}

/* Two heaps over the domains, the second the other way round: who is inside one is a leaf of the other. */
static void add_trees(struct graph_builder *builder, const struct fold_group *group, int64_t id)
{
    int32_t *starts = sp_arena_array(builder->scratch, (size_t)group->n_members, sizeof starts[0]);
    int32_t n = 0;
    for (int32_t at = 0; at < group->n_members; at += run_length(builder, group, at)) {
        starts[n++] = at;
    }
    for (int32_t i = 1; i < n; i++) {
        int32_t parent = (i - 1) / 2;
        add_tree_edges(builder, group, id, 0, (const int32_t[]){starts[i], starts[parent]});
        add_tree_edges(builder, group, id, 1, (const int32_t[]){starts[n - 1 - i], starts[n - 1 - parent]});
    }
}

static void add_pairs(struct graph_builder *builder, const struct fold_group *group, int64_t id)
{
    int32_t type = edge_type(EDGE_PAIR, group->type);
    for (int32_t i = 0; i < group->n_members; i++) {
        for (int32_t j = 0; j < group->n_members; j++) {
            if (i != j) {
                add_edge(builder, type, group->members[i], group->members[j], id);
            }
        }
    }
}

static void add_group(struct graph_builder *builder, int type, int64_t first)
{
    const struct group_shape *shape = &builder->shapes->of[type];
    int64_t size = group_size(shape);
    int32_t *members = sp_arena_array(builder->scratch, (size_t)size, sizeof members[0]);
    list_members(first, shape, members);
    if (builder->n_groups == builder->group_capacity) {
        builder->groups = sp_arena_grow(builder->scratch, builder->groups, builder->n_groups, &builder->group_capacity,
                                        sizeof builder->groups[0]);
    }
    int64_t id = builder->n_groups++;
    builder->groups[id] = (struct fold_group){.type = type, .n_members = (int32_t)size, .members = members};
    if (builder->uses->rings[type]) {
        add_ring(builder, &builder->groups[id], id);
    }
    if (builder->uses->trees[type]) {
        add_trees(builder, &builder->groups[id], id);
    }
    if (builder->uses->pairs[type]) {
        add_pairs(builder, &builder->groups[id], id);
    }
}

static void add_groups(struct graph_builder *builder)
{
    for (int type = 0; type < N_PROGRAM_GROUPS; type++) {
        const struct group_shape *shape = &builder->shapes->of[type];
        if (!builder->uses->groups[type]) {
            continue;
        }
        for (int64_t rank = 0; rank < builder->shapes->n_ranks; rank++) {
            if (is_first(rank, shape)) {
                add_group(builder, type, rank);
            }
        }
    }
}

static int64_t moved(int64_t rank, struct line line, int64_t further)
{
    int64_t at = coordinate(rank, line);
    return rank + ((at + further) % line.size - at) * line.stride;
}

static void add_rank_edges(struct graph_builder *builder, int64_t rank)
{
    const struct shapes *shapes = builder->shapes;
    int64_t pp = shapes->pp.size;
    int64_t stage = coordinate(rank, shapes->pp);
    for (int64_t further = 1; further < shapes->sp.size; further++) {
        if (builder->uses->hops[further]) {
            add_edge(builder, edge_type(EDGE_HOP, further), rank, moved(rank, shapes->sp, further), -1);
        }
    }
    for (int64_t to = 0; to < pp; to++) {
        if (builder->uses->stages[stage * pp + to] && to != stage) {
            add_edge(builder, edge_type(EDGE_STAGE, to), rank, rank + (to - stage) * shapes->pp.stride, -1);
        }
    }
    if (builder->uses->to_host) {
        add_edge(builder, edge_type(EDGE_TO_HOST, 0), rank, rank, -1);
        add_edge(builder, edge_type(EDGE_FROM_HOST, 0), rank, rank, -1);
    }
}

/* ---- colours ---------------------------------------------------------------------------------------------------- */

static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static uint64_t hash_two(uint64_t a, uint64_t b)
{
    return sp_fnv1a(sp_fnv1a(SP_FNV1A_BASIS, &a, sizeof a), &b, sizeof b);
}

/* Ranks of a stage run the same unless the method sets positions of the sp group apart. */
static uint64_t rank_colour(const struct step_program *program, const struct shapes *shapes,
                            const struct cluster_input *input, int64_t rank)
{
    uint64_t position = program->is_by_position ? (uint64_t)coordinate(rank, shapes->sp) : 0;
    return hash_two(hash_two((uint64_t)coordinate(rank, shapes->pp), position), bits_of(input->speeds[rank]));
}

static void colour(const struct step_program *program, const struct shapes *shapes, const struct cluster_input *input,
                   struct fold_input *fold_input)
{
    for (int64_t r = 0; r < shapes->n_ranks; r++) {
        fold_input->rank_colours[r] = rank_colour(program, shapes, input, r);
    }
    for (int32_t l = 0; l < fold_input->topology->n_links; l++) {
        uint64_t kind = (uint64_t)fold_input->topology->links[l].kind;
        fold_input->link_colours[l] = hash_two(hash_two(kind, bits_of(input->capacities[l])), input->link_salts[l]);
    }
}

/* ---- classes ---------------------------------------------------------------------------------------------------- */

static void describe_groups(struct cluster *cluster, const struct graph_builder *builder, struct sp_arena *arena)
{
    const struct folded *folded = &cluster->folded;
    size_t n = (size_t)folded->n_groups;
    cluster->domain_members = sp_arena_array(arena, n + 1, sizeof cluster->domain_members[0]);
    cluster->has_outer = sp_arena_array(arena, n + 1, sizeof cluster->has_outer[0]);
    for (int64_t g = 0; g < builder->n_groups; g++) {
        const struct fold_group *group = &builder->groups[g];
        int32_t class = folded->group_class[g];
        if (cluster->domain_members[class] > 0) {
            continue;
        }
        for (int32_t at = 0; at < group->n_members;) {
            int32_t length = run_length(builder, group, at);
            int32_t *most = &cluster->domain_members[class];
            *most = length > *most ? length : *most;
            at += length;
        }
        cluster->has_outer[class] = cluster->domain_members[class] < group->n_members;
    }
}

static void describe_ranks(struct cluster *cluster, const struct graph_builder *builder, struct sp_arena *arena)
{
    const struct folded *folded = &cluster->folded;
    size_t n = (size_t)folded->n_ranks;
    cluster->n_classes = folded->n_ranks;
    cluster->stage = sp_arena_array(arena, n, sizeof cluster->stage[0]);
    cluster->position = sp_arena_array(arena, n, sizeof cluster->position[0]);
    cluster->group = sp_arena_array(arena, n, sizeof cluster->group[0]);
    for (size_t c = 0; c < n; c++) {
        cluster->stage[c] = (int32_t)coordinate(folded->rank_first[c], builder->shapes->pp);
        cluster->position[c] = (int32_t)coordinate(folded->rank_first[c], builder->shapes->sp);
        for (int type = 0; type < N_PROGRAM_GROUPS; type++) {
            cluster->group[c][type] = -1;
        }
    }
    for (int g = 0; g < folded->n_groups; g++) {
        for (int i = 0; i < folded->groups[g].n_classes; i++) {
            cluster->group[folded->groups[g].classes[i]][folded->groups[g].type] = g;
        }
    }
}

void cluster_open(const struct question *question, const struct step_program *program,
                  const struct cluster_input *input, struct sp_arena *arena, struct cluster *cluster)
{
    struct sp_arena *scratch = sp_arena_open();
    struct shapes shapes = shapes_of(question);
    struct uses uses = uses_of(question, program, scratch);
    struct graph_builder builder = {.scratch = scratch, .shapes = &shapes, .uses = &uses};
    *cluster = (struct cluster){.question = question, .program = program};
    topology_build(&question->hardware, shapes.n_ranks, arena, &cluster->topology);
    builder.domain = (int64_t)question->hardware.node.nvlink_domain.value;
    add_groups(&builder);
    for (int64_t r = 0; r < shapes.n_ranks; r++) {
        add_rank_edges(&builder, r);
    }
    struct fold_input fold_input = {.topology = &cluster->topology,
                                    .n_ranks = shapes.n_ranks,
                                    .n_edges = builder.n_edges,
                                    .edges = builder.edges,
                                    .n_groups = builder.n_groups,
                                    .groups = builder.groups,
                                    .host_out_type = edge_type(EDGE_TO_HOST, 0),
                                    .host_in_type = edge_type(EDGE_FROM_HOST, 0),
                                    .is_exact = input->is_exact};
    fold_input.rank_colours = sp_arena_array(scratch, (size_t)shapes.n_ranks, sizeof(uint64_t));
    fold_input.link_colours = sp_arena_array(scratch, (size_t)cluster->topology.n_links + 1, sizeof(uint64_t));
    colour(program, &shapes, input, &fold_input);
    fold(&fold_input, arena, &cluster->folded);
    describe_groups(cluster, &builder, arena);
    describe_ranks(cluster, &builder, arena);
    sp_arena_close(scratch);
}
