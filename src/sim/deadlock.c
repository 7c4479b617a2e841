/* When nothing can go on and ranks are not through: who waits for whom, as a cycle. */
#include "sim/sim_internal.h"

#include <string.h>

/* The stream that holds a rank up: of those at work or blocked, the one that its kernels wait for. */
static int stuck_stream(const struct simulator *sim, int32_t rank)
{
    const struct rank_state *state = &sim->ranks[rank];
    int stream = STREAM_KERNELS;
    for (int i = 0; i < N_PROGRAM_STREAMS && state->streams[stream].status == STREAM_BLOCKED; i++) {
        const struct program_op *op = rank_op(sim, rank, stream);
        int other = NONE;
        for (int w = 0; w < op->n_waits; w++) {
            int waited = op->waits[w].stream;
            if (waited != stream && state->streams[waited].status != STREAM_OVER) {
                other = waited;
            }
        }
        if (other == NONE) {
            break;
        }
        stream = other;
    }
    return stream;
}

static int32_t missing_member(const struct simulator *sim, int32_t rank, int stream, const struct program_op *op)
{
    int32_t group = sim->cluster.group[rank][sim->program.transfers[op->transfer].group];
    const struct communicator *c = sim->collectives[sim->collective_of[group][stream]];
    for (int i = 0; i < c->n_nodes; i++) {
        if (!c->nodes[i].has_come) {
            return c->nodes[i].rank;
        }
    }
    return NONE;
}

/* The class of ranks that one waits for; NONE: for nothing that another does. */
static int32_t waits_for(const struct simulator *sim, int32_t rank)
{
    int stream = stuck_stream(sim, rank);
    const struct stream_state *at = &sim->ranks[rank].streams[stream];
    if (at->status == STREAM_OVER) {
        return NONE;
    }
    const struct program_op *op = rank_op(sim, rank, stream);
    const struct program_entry *entry = &sim->ranks[rank].program->entries[at->entry];
    const struct folded *folded = &sim->cluster.folded;
    switch (op->kind) {
    case OP_COLLECTIVE:
        return missing_member(sim, rank, stream, op);
    case OP_SEND:
        return folded->edges[find_edge(sim, rank, edge_type(EDGE_HOP, op->peer))].to;
    case OP_RECEIVE:
    case OP_FROM_STAGE:
        for (const int32_t *e = sim->edges_to[rank]; *e != NONE; e++) {
            const struct fold_edge_class *edge = &folded->edges[*e];
            bool is_hop = edge->type == edge_type(EDGE_HOP, sim->question->layout.sp - op->peer);
            bool is_stage = edge->type == edge_type(EDGE_STAGE, sim->cluster.stage[rank]) &&
                            sim->cluster.stage[edge->from] == entry->other_stage;
            if (op->kind == OP_RECEIVE ? is_hop : is_stage) {
                return edge->from;
            }
        }
        return NONE;
    case OP_KERNEL:
    case OP_TO_STAGE:
    case OP_HOST_COPY:
        break;
    }
    return NONE;
}

static const char *describe(const struct simulator *sim, int32_t rank)
{
    int stream = stuck_stream(sim, rank);
    const struct stream_state *at = &sim->ranks[rank].streams[stream];
    const struct program_entry *entry = &sim->ranks[rank].program->entries[at->entry];
    return sp_format(sim->arena, "rank %d at \"%s\" of micro-batch %d, layer %d", sim->cluster.folded.rank_first[rank],
                     rank_op(sim, rank, stream)->name, entry->micro_batch, entry->layer);
}

static int32_t first_stuck(const struct simulator *sim)
{
    int32_t rank = 0;
    while (rank + 1 < sim->cluster.n_classes && waits_for(sim, rank) == NONE) {
        rank++;
    }
    return rank;
}

bool deadlock_report(const struct simulator *sim, struct sp_error *err)
{
    enum { MOST_NAMED = 6 };
    size_t n = (size_t)sim->cluster.n_classes;
    bool *is_seen = sp_arena_array(sim->arena, n, sizeof(bool));
    int32_t rank = first_stuck(sim);
    while (rank != NONE && !is_seen[rank]) { /* into the cycle */
        is_seen[rank] = true;
        int32_t next = waits_for(sim, rank);
        if (next == NONE) {
            return sp_fail(err, SP_ERROR_BUG, "the simulation stops: %s waits for nothing that comes",
                           describe(sim, rank));
        }
        rank = next;
    }
    struct sp_texts members = {.arena = sim->arena};
    int32_t start = rank;
    do {
        sp_texts_add(&members, "%s", describe(sim, rank));
        rank = waits_for(sim, rank);
    } while (rank != start && members.count < MOST_NAMED);
    return sp_fail(err, SP_ERROR_BUG, "the simulation stops in a cycle of waits: %s%s",
                   sp_join(sim->arena, members.items, members.count, " waits for "),
                   rank == start ? " waits for the first" : " waits for others");
}
