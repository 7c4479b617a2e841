/* Which ranks, links and transfers behave alike, so that one of each stands for all.
 *
 * Colour refinement: ranks begin with a colour for what they run and how fast they are, links with one for their capacity; then
 * each takes on the colours of what it exchanges with and over which links, until nothing splits any more. Two ranks that end
 * with one colour run the same operations, against partners of the same colours, over links that carry the same; by induction
 * over the events they do the same at the same time. Max-min fair rates are unique, so they too are the same for transfers of
 * one class. The classes are those of the coarsest such partition, told apart by 64-bit hashes.
 */
#ifndef SEQPLAN_SIM_FOLD_H
#define SEQPLAN_SIM_FOLD_H

#include "sim/topology.h"

/* A way that transfers take: from a rank to another over links. type: what they are for, the caller's; transfers of different
 * types never count as alike. group: of ranks, that makes them; -1 none. */
struct fold_edge {
    int32_t type;
    int32_t from, to;
    int32_t group;
};
struct fold_group {
    int32_t type;
    int32_t n_members;
    const int32_t *members;
};
struct fold_input {
    const struct topology *topology;
    int64_t n_ranks;
    uint64_t *rank_colours; /* what each runs; changed */
    uint64_t *link_colours; /* of the topology's links; changed */
    int64_t n_edges;
    const struct fold_edge *edges; /* host copies: from and to are one rank */
    int64_t n_groups;
    const struct fold_group *groups;
    int32_t host_out_type, host_in_type; /* edges of these types go to and from host memory */
    bool is_exact;                       /* nothing is alike */
};

struct fold_hop {
    int32_t link;  /* class */
    double weight; /* flows of the class that cross one link of that class */
};
struct fold_edge_class {
    int32_t type;
    int32_t from, to; /* classes of ranks */
    int32_t group;    /* class; -1 */
    int64_t count;
    int n_hops;
    struct fold_hop hops[MAX_ROUTE];
};
struct fold_group_class {
    int32_t type;
    int64_t count;
    int32_t n_members; /* ranks in each */
    int n_classes;     /* of ranks among them */
    int32_t *classes;
};
struct folded {
    int n_ranks;         /* classes */
    int32_t *rank_class; /* by rank */
    int32_t *rank_first; /* by class: the lowest rank */
    int64_t *rank_count;
    int n_links;
    int32_t *link_class, *link_first;
    int64_t *link_count;
    int n_edges;
    struct fold_edge_class *edges;
    int n_groups;
    struct fold_group_class *groups;
    int32_t *group_class; /* by group */
};
/* Copies into arena. */
void fold(const struct fold_input *input, struct sp_arena *arena, struct folded *folded);

#endif
