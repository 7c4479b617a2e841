/* The ranks of a layout: which of them form groups, what runs between them, and which of them are alike. */
#ifndef SEQPLAN_SIM_CLUSTER_H
#define SEQPLAN_SIM_CLUSTER_H

#include "sim/fold.h"
#include "sim/sim.h"

/* What an edge between ranks is for. Its type is a number that also holds which group, how far, to which stage. */
enum edge_purpose {
    EDGE_INNER, /* of a ring over a group: to the next member of the same domain */
    EDGE_OUTER, /* to the member of the next domain that has the same place there */
    EDGE_UP,    /* of a tree over the domains, by member of the same place: to the parent; detail: 2 x group + which tree */
    EDGE_DOWN,  /* to a child */
    EDGE_PAIR,  /* to every other member */
    EDGE_HOP,   /* of the attention method, so many positions further */
    EDGE_STAGE, /* to the same rank of another stage */
    EDGE_TO_HOST,
    EDGE_FROM_HOST,
    N_EDGE_PURPOSES
};
/* detail: group, positions or stage. */
static inline int32_t edge_type(enum edge_purpose purpose, int64_t detail)
{
    return (int32_t)(detail * N_EDGE_PURPOSES + (int64_t)purpose);
}
static inline enum edge_purpose edge_purpose_of(int32_t type)
{
    return (enum edge_purpose)(type % N_EDGE_PURPOSES);
}

struct cluster {
    const struct question *question;
    const struct step_program *program;
    struct topology topology;
    struct folded folded;
    int n_classes;
    int32_t *stage;    /* by class of ranks */
    int32_t *position; /* in the sp group */
    int32_t (*group)
        [N_PROGRAM_GROUPS];  /* by class of ranks: the class of the group of a type that it is in; -1: none is used */
    int32_t *domain_members; /* by class of groups: members in the domain that has most of them */
    bool *has_outer;         /* by class of groups: spans domains */
};
/* capacities: of the topology's links under disturbance; speeds: of ranks; either can make things unlike. is_exact: every rank
 * on its own. */
struct cluster_input {
    const double *capacities;
    const double *speeds;
    const uint64_t *link_salts; /* what else sets links apart: flapping */
    bool is_exact;
};
void cluster_open(const struct question *question, const struct step_program *program,
                  const struct cluster_input *input, struct sp_arena *arena, struct cluster *cluster);

#endif
