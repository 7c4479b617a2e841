/* Collectives as the steps of their algorithms: rings inside and between domains, all pairs, and hierarchical all-reduces, each
 * step cut into chunks.
 *
 * Alone, a collective takes what the estimate says, and its steps share that time evenly. While nothing else wants their links,
 * the steps need not be run one by one: their links are reserved and the end of the phase is known (a leap). When another flow
 * comes in their way, the network says so (collective_contended), and the steps go on one by one from where they are. */
#include "cost/cost.h"
#include "sim/sim_internal.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

/* ---- phases ----------------------------------------------------------------------------------------------------- */

/* A ring over all members: every channel of it leaves a domain through another member, so of each step's bytes a member of k in
 * its domain sends (k - 1) / k inside and 1 / k out. */
static struct phase ring_phase(const struct simulator *sim, const struct communicator *c, int steps, double time_ps)
{
    double n = (double)sim->cluster.folded.groups[c->group].n_members;
    double k = (double)sim->cluster.domain_members[c->group];
    double piece = c->transfer->bytes / n;
    bool has_outer = sim->cluster.has_outer[c->group];
    struct phase phase = {.steps = steps, .step_ps = time_ps / steps, .uses_inner = k > 1, .uses_outer = has_outer};
    phase.inner_bytes = has_outer ? piece * (k - 1) / k : piece;
    phase.outer_bytes = piece / k;
    return phase;
}

/* Reduce-scatter inside, all-reduce of each member's share between domains in a ring or in trees, all-gather inside. */
static void hierarchical_phases(const struct simulator *sim, struct communicator *c, const struct all_reduce_plan *plan)
{
    int32_t n = sim->cluster.folded.groups[c->group].n_members;
    int32_t k = sim->cluster.domain_members[c->group];
    int domains = (n + k - 1) / k;
    double time_ps = c->transfer->time_s * PS_PER_S;
    double share = c->transfer->bytes / k;
    double between_ps = (1 - plan->inside_share) * time_ps;
    struct phase between = {.steps = 2 * (domains - 1), .uses_outer = true, .outer_bytes = share / domains};
    between.step_ps = between_ps / between.steps;
    if (plan->kind == ALL_REDUCE_TREES) {
        between = (struct phase){.is_trees = true, .steps = plan->pieces, .depth = plan->depth};
        between.tree_bytes = share / 2 / plan->pieces;
        between.step_ps = between_ps / (plan->pieces - 1 + 2 * plan->depth);
    }
    c->n_phases = 0;
    struct phase inside = {.steps = k - 1, .uses_inner = true, .inner_bytes = share};
    if (k > 1) {
        inside.step_ps = plan->inside_share / 2 * time_ps / (k - 1);
        c->phases[c->n_phases++] = inside;
    }
    c->phases[c->n_phases++] = between;
    if (k > 1) {
        c->phases[c->n_phases++] = inside;
    }
}

static void all_reduce_phases(const struct simulator *sim, struct communicator *c)
{
    const struct program_transfer *transfer = c->transfer;
    int32_t n = sim->cluster.folded.groups[c->group].n_members;
    /* the widest group decides what the collective takes; another may lie in one domain */
    if (sim->cluster.has_outer[c->group]) {
        struct all_reduce_plan plan =
            all_reduce_plan(&sim->question->hardware, &sim->program.placements[transfer->group], transfer->bytes);
        if (plan.kind != ALL_REDUCE_RING) {
            hierarchical_phases(sim, c, &plan);
            return;
        }
    }
    c->phases[0] = ring_phase(sim, c, 2 * (n - 1), transfer->time_s * PS_PER_S);
}

static void plan_phases(const struct simulator *sim, struct communicator *c)
{
    const struct program_transfer *transfer = c->transfer;
    int32_t n = sim->cluster.folded.groups[c->group].n_members;
    double time_ps = transfer->time_s * PS_PER_S;
    c->n_phases = 1;
    switch (transfer->operation) {
    case COLLECTIVE_ALL_GATHER:
    case COLLECTIVE_REDUCE_SCATTER:
        c->phases[0] = ring_phase(sim, c, n - 1, time_ps);
        break;
    case COLLECTIVE_ALL_REDUCE:
        all_reduce_phases(sim, c);
        break;
    case COLLECTIVE_ALL_TO_ALL:
        c->phases[0] =
            (struct phase){.steps = 1, .step_ps = time_ps, .uses_pairs = true, .pair_bytes = transfer->bytes / n};
        break;
    case COLLECTIVE_SEND_RECEIVE:
    case N_COLLECTIVES:
        assert(!"a collective");
    }
}

/* What a phase takes when nothing disturbs it. */
static double phase_time(const struct phase *phase)
{
    return (phase->steps + (phase->is_trees ? 2 * phase->depth - 1 : 0)) * phase->step_ps;
}

static double edge_bytes(const struct phase *phase, enum edge_purpose purpose)
{
    if (purpose == EDGE_INNER) {
        return phase->uses_inner ? phase->inner_bytes : 0;
    }
    if (purpose == EDGE_OUTER) {
        return phase->uses_outer ? phase->outer_bytes : 0;
    }
    if (purpose == EDGE_UP || purpose == EDGE_DOWN) {
        return phase->is_trees ? phase->tree_bytes : 0;
    }
    return phase->uses_pairs ? phase->pair_bytes : 0;
}

/* ---- steps one by one ------------------------------------------------------------------------------------------- */

static int32_t n_messages(const struct communicator *c)
{
    return c->phases[c->phase].steps * c->chunks;
}

/* Rings of thousands of ranks, run step by step: where ranks are not run one by one either, several steps go as one message, so
 * that a phase has at most this many. What is approximate in it is less than one message. */
enum { MOST_MESSAGES = 1024 };
static void coarsen(const struct simulator *sim, struct phase *phase, int *chunks)
{
    *chunks = phase->is_trees ? 1 : sim->options->chunks; /* trees have pieces of their own */
    if (phase->is_trees || sim->options->is_exact || phase->steps * *chunks <= MOST_MESSAGES) {
        return;
    }
    *chunks = phase->steps < MOST_MESSAGES ? MOST_MESSAGES / phase->steps : 1;
    int steps = phase->steps < MOST_MESSAGES ? phase->steps : MOST_MESSAGES;
    double joined = (double)phase->steps / steps;
    phase->inner_bytes *= joined;
    phase->outer_bytes *= joined;
    phase->step_ps *= joined;
    phase->steps = steps;
}

static bool is_at_work(const struct communicator *c, const struct collective_edge *edge)
{
    return edge_bytes(&c->phases[c->phase], edge->purpose) > 0;
}

static void end_node(struct simulator *sim, struct communicator *c, int node)
{
    struct collective_node *at = &c->nodes[node];
    at->has_ended = true;
    c->n_ended++;
    if (c->stream != STREAM_KERNELS) {
        rank_hold_sms(sim, at->rank, -c->transfer->sm_share);
    }
    sim->ranks[at->rank].paths[c->stream] = c->path;
    rank_end(sim, at->rank, c->stream);
}

static bool is_of_tree(const struct collective_edge *edge, enum edge_purpose purpose, int tree)
{
    return edge->purpose == purpose && edge->tree == tree;
}

/* A piece goes up when it has come from all children, down when it has come from the parent; at the root it turns. */
static bool has_piece(const struct communicator *c, const struct collective_edge *edge)
{
    const struct collective_node *from = &c->nodes[edge->from];
    bool has_parent = false;
    bool has_come_down = true;
    bool has_come_up = true;
    for (int i = 0; i < from->n_in; i++) {
        const struct collective_edge *in = &c->edges[from->in[i]];
        if (is_of_tree(in, EDGE_DOWN, edge->tree)) {
            has_parent = true;
            has_come_down = has_come_down && in->done > edge->done;
        } else if (is_of_tree(in, EDGE_UP, edge->tree)) {
            has_come_up = has_come_up && in->done > edge->done;
        }
    }
    return edge->purpose == EDGE_DOWN && has_parent ? has_come_down : has_come_up;
}

/* The piece of a step that goes now was received in the step before, over every edge that comes in. */
static bool has_input(const struct communicator *c, const struct collective_edge *edge)
{
    if (c->phases[c->phase].is_trees) {
        return has_piece(c, edge);
    }
    const struct collective_node *from = &c->nodes[edge->from];
    int32_t needed = edge->done - c->chunks;
    for (int i = 0; i < from->n_in && needed >= 0; i++) {
        const struct collective_edge *in = &c->edges[from->in[i]];
        if (is_at_work(c, in) && in->done <= needed) {
            return false;
        }
    }
    return true;
}

static uint32_t slot_of(const struct communicator *c, int e)
{
    return (uint32_t)c->first_slot + (uint32_t)e;
}

static void send_flow(struct simulator *sim, struct communicator *c, int e)
{
    struct collective_edge *edge = &c->edges[e];
    bool is_first = edge->done % c->chunks == 0;
    start_flow(sim, edge->edge, is_first ? &edge->first : &edge->later, flow_owner(OWNER_EDGE, slot_of(c, e)),
               c->transfer->axis, &edge->flow);
}

static void try_send(struct simulator *sim, struct communicator *c, int e)
{
    struct collective_edge *edge = &c->edges[e];
    if (edge->is_sending || !is_at_work(c, edge) || edge->done >= n_messages(c) || !has_input(c, edge)) {
        return;
    }
    edge->is_sending = true;
    bool is_first = edge->done % c->chunks == 0;
    if (is_first && edge->first.latency_ps > 0) {
        event_post(sim->queue, sim->now_ps + edge->first.latency_ps, (struct event){EVENT_EDGE, slot_of(c, e), 0});
    } else {
        send_flow(sim, c, e);
    }
}

/* ---- phases, leaping or step by step ---------------------------------------------------------------------------- */

static void size_messages(struct simulator *sim, struct communicator *c)
{
    const struct phase *phase = &c->phases[c->phase];
    for (int e = 0; e < c->n_edges; e++) {
        struct collective_edge *edge = &c->edges[e];
        edge->done = 0;
        edge->is_sending = false;
        edge->flow = NONE;
        double bytes = edge_bytes(phase, edge->purpose);
        if (bytes > 0) {
            edge->first = message_of(sim, edge->edge, bytes, phase->step_ps);
            if (phase->is_trees) { /* pieces follow each other without a gap: their latency is in the step */
                edge->first.latency_ps = 0;
                edge->first.cap_bytes_per_s = edge->first.bytes / phase->step_ps * PS_PER_S;
            }
            edge->first.bytes /= c->chunks;
            edge->later = edge->first;
            edge->later.latency_ps = 0;
            c->n_edges_left++;
        }
    }
}

static void reserve(struct simulator *sim, struct communicator *c, double phase_ps)
{
    for (int e = 0; e < c->n_edges; e++) {
        struct collective_edge *edge = &c->edges[e];
        if (!is_at_work(c, edge) || sim->cluster.folded.edges[edge->edge].n_hops == 0) {
            continue;
        }
        /* longer than the phase: the phase ends it */
        struct flow_spec spec = {.path = sim->edge_path[edge->edge],
                                 .bytes = 2 * edge->first.cap_bytes_per_s * (phase_ps + 1) / PS_PER_S,
                                 .cap_bytes_per_s = edge->first.cap_bytes_per_s,
                                 .owner =
                                     flow_owner(OWNER_RESERVATION, (uint64_t)sim->collective_of[c->group][c->stream]),
                                 .tag = (uint8_t)c->transfer->axis,
                                 .is_reservation = true};
        edge->flow = flow_start(sim->network, sim->now_ps, &spec);
    }
}

static void release(struct simulator *sim, struct communicator *c)
{
    for (int e = 0; e < c->n_edges; e++) {
        if (c->edges[e].flow != NONE) {
            flow_stop(sim->network, sim->now_ps, c->edges[e].flow);
            c->edges[e].flow = NONE;
        }
    }
    c->is_leaping = false;
    c->version++;
}

static void begin_phase(struct simulator *sim, struct communicator *c)
{
    struct phase *phase = &c->phases[c->phase];
    c->phase_ps = sim->now_ps;
    c->n_edges_left = 0;
    coarsen(sim, phase, &c->chunks);
    size_messages(sim, c);
    c->is_leaping = !sim->options->is_exact;
    if (!c->is_leaping) {
        for (int e = 0; e < c->n_edges; e++) {
            try_send(sim, c, e);
        }
        return;
    }
    double phase_ps = phase_time(phase);
    reserve(sim, c, phase_ps);
    event_post(sim->queue, sim->now_ps + (int64_t)nearbyint(phase_ps),
               (struct event){EVENT_PHASE, (uint32_t)sim->collective_of[c->group][c->stream],
                              c->version & UINT32_C(0xfffffff)});
}

static void end_phase(struct simulator *sim, struct communicator *c)
{
    if (c->phase + 1 < c->n_phases) {
        c->phase++;
        begin_phase(sim, c);
        return;
    }
    for (int i = 0; i < c->n_nodes; i++) {
        if (!c->nodes[i].has_ended) {
            end_node(sim, c, i);
        }
    }
}

void collective_phase_end(struct simulator *sim, int32_t number, uint32_t version)
{
    struct communicator *c = sim->collectives[number];
    if (c->is_leaping && (c->version & UINT32_C(0xfffffff)) == version) {
        release(sim, c);
        end_phase(sim, c);
    }
}

/* A message on its way when the leap ends: what is left of its latency or of its bytes. */
static void resume_piece(struct simulator *sim, struct communicator *c, int e, double elapsed_ps)
{
    struct collective_edge *edge = &c->edges[e];
    const struct phase *phase = &c->phases[c->phase];
    double at = elapsed_ps / phase->step_ps - edge->offset;
    edge->done = (int32_t)fmin(fmax(floor(at), 0), phase->steps);
    if (at <= 0) {
        return; /* what it waits for starts it */
    }
    if (edge->done == phase->steps) {
        c->n_edges_left--;
        return;
    }
    struct message rest = edge->first;
    rest.bytes *= 1 - (at - floor(at));
    edge->is_sending = true;
    start_flow(sim, edge->edge, &rest, flow_owner(OWNER_EDGE, slot_of(c, e)), c->transfer->axis, &edge->flow);
}

static void resume_edge(struct simulator *sim, struct communicator *c, int e, double elapsed_ps)
{
    struct collective_edge *edge = &c->edges[e];
    const struct phase *phase = &c->phases[c->phase];
    if (phase->is_trees) {
        resume_piece(sim, c, e, elapsed_ps);
        return;
    }
    int chunks = c->chunks;
    int step = (int)fmin(floor(elapsed_ps / phase->step_ps), phase->steps - 1);
    double in_step_ps = fmin(elapsed_ps - step * phase->step_ps, phase->step_ps);
    double sent_ps = in_step_ps - (double)edge->first.latency_ps;
    edge->done = step * chunks;
    edge->is_sending = true;
    uint32_t slot = slot_of(c, e);
    if (sent_ps < 0) {
        event_post(sim->queue, sim->now_ps + (int64_t)ceil(-sent_ps), (struct event){EVENT_EDGE, slot, 0});
        return;
    }
    double chunk_ps = (phase->step_ps - (double)edge->first.latency_ps) / chunks;
    int chunk = (int)fmin(floor(sent_ps / chunk_ps), chunks - 1);
    double left = 1 - fmin((sent_ps - chunk * chunk_ps) / chunk_ps, 1);
    edge->done += chunk;
    struct message rest = edge->later;
    rest.bytes *= left;
    start_flow(sim, edge->edge, &rest, flow_owner(OWNER_EDGE, slot), c->transfer->axis, &edge->flow);
}

void collective_contended(struct simulator *sim, int32_t number)
{
    struct communicator *c = sim->collectives[number];
    if (!c->is_leaping) {
        return;
    }
    release(sim, c);
    for (int e = 0; e < c->n_edges; e++) {
        if (is_at_work(c, &c->edges[e])) {
            resume_edge(sim, c, e, (double)(sim->now_ps - c->phase_ps));
        }
    }
    for (int e = 0; e < c->n_edges && c->phases[c->phase].is_trees; e++) {
        try_send(sim, c, e); /* pieces that were about to start */
    }
}

/* ---- one message ------------------------------------------------------------------------------------------------ */

void collective_edge_flow(struct simulator *sim, int32_t slot)
{
    send_flow(sim, sim->collectives[sim->slots[slot].collective], sim->slots[slot].edge);
}

static bool has_all(const struct communicator *c, const struct collective_node *node)
{
    int32_t all = n_messages(c);
    for (int i = 0; i < node->n_in + node->n_out; i++) {
        const struct collective_edge *edge = &c->edges[i < node->n_in ? node->in[i] : node->out[i - node->n_in]];
        if (is_at_work(c, edge) && edge->done < all) {
            return false;
        }
    }
    return true;
}

/* In the last phase a rank is through when what it sends and receives is; others may still be at it. */
static void try_end_node(struct simulator *sim, struct communicator *c, int node)
{
    if (c->phase + 1 == c->n_phases && !c->nodes[node].has_ended && has_all(c, &c->nodes[node])) {
        end_node(sim, c, node);
    }
}

void collective_edge_end(struct simulator *sim, int32_t slot)
{
    struct communicator *c = sim->collectives[sim->slots[slot].collective];
    int e = sim->slots[slot].edge;
    struct collective_edge *edge = &c->edges[e];
    edge->is_sending = false;
    edge->done++;
    if (edge->done < n_messages(c)) {
        try_send(sim, c, e);
        const struct collective_node *to = &c->nodes[edge->to];
        for (int i = 0; i < to->n_out; i++) {
            try_send(sim, c, to->out[i]);
        }
        return;
    }
    const struct collective_node *to = &c->nodes[edge->to];
    for (int i = 0; i < to->n_out; i++) {
        try_send(sim, c, to->out[i]);
    }
    c->n_edges_left--;
    if (c->n_edges_left == 0) {
        end_phase(sim, c);
        return;
    }
    try_end_node(sim, c, edge->from);
    try_end_node(sim, c, edge->to);
}

/* ---- members come ----------------------------------------------------------------------------------------------- */

static int node_of(const struct communicator *c, int32_t rank)
{
    int low = 0;
    int high = c->n_nodes - 1;
    while (low < high) {
        int middle = (low + high) / 2;
        if (c->nodes[middle].rank < rank) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    assert(c->nodes[low].rank == rank);
    return low;
}

static void count_bytes(struct simulator *sim, const struct communicator *c)
{
    double n = (double)sim->cluster.folded.groups[c->group].n_members;
    double sent = collective_sent_bytes(c->transfer->operation, (int64_t)n, c->transfer->bytes);
    for (int i = 0; i < c->n_nodes; i++) {
        sim->ranks[c->nodes[i].rank].sent_bytes += sent;
        sim->ranks[c->nodes[i].rank].received_bytes += sent;
    }
}

static void start(struct simulator *sim, struct communicator *c, const struct path *path)
{
    c->path = *path;
    c->transfer = c->next;
    c->start_ps = sim->now_ps;
    c->n_come = c->n_ended = c->phase = 0;
    for (int i = 0; i < c->n_nodes; i++) {
        struct collective_node *node = &c->nodes[i];
        struct stream_state *at = &sim->ranks[node->rank].streams[c->stream];
        node->has_come = node->has_ended = false;
        at->transfer_ps = sim->now_ps;
        at->alone_ps = c->transfer->time_s * PS_PER_S;
        if (c->stream != STREAM_KERNELS) {
            rank_hold_sms(sim, node->rank, c->transfer->sm_share);
        }
    }
    bool is_alone = sim->cluster.folded.groups[c->group].n_members == 1;
    if (is_alone || c->transfer->bytes <= 0) { /* only everybody's coming counts */
        c->n_phases = 1;
        end_phase(sim, c);
        return;
    }
    count_bytes(sim, c);
    plan_phases(sim, c);
    begin_phase(sim, c);
}

void collective_come(struct simulator *sim, int32_t rank, int stream, const struct program_op *op)
{
    const struct program_transfer *transfer = &sim->program.transfers[op->transfer];
    int32_t group = sim->cluster.group[rank][transfer->group];
    struct communicator *c = sim->collectives[sim->collective_of[group][stream]];
    struct collective_node *node = &c->nodes[node_of(c, rank)];
    assert(!node->has_come);
    node->has_come = true; /* others may still be at the one before */
    c->next = transfer;
    c->n_come++;
    if (c->n_come == c->n_nodes) {
        start(sim, c, &sim->ranks[rank].paths[stream]);
    }
}

/* ---- opening ---------------------------------------------------------------------------------------------------- */

static int compare_nodes(const void *a, const void *b)
{
    const struct collective_node *x = a;
    const struct collective_node *y = b;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

static void wire_edges(struct simulator *sim, struct communicator *c)
{
    for (int i = 0; i < c->n_nodes; i++) {
        c->nodes[i].in = sp_arena_array(sim->arena, (size_t)c->nodes[i].n_in + 1, sizeof(int32_t));
        c->nodes[i].out = sp_arena_array(sim->arena, (size_t)c->nodes[i].n_out + 1, sizeof(int32_t));
        c->nodes[i].n_in = c->nodes[i].n_out = 0;
    }
    for (int e = 0; e < c->n_edges; e++) {
        struct collective_node *from = &c->nodes[c->edges[e].from];
        struct collective_node *to = &c->nodes[c->edges[e].to];
        from->out[from->n_out++] = e;
        to->in[to->n_in++] = e;
    }
}

/* Edge classes by class of groups, in one array: first[g] to first[g + 1]. */
struct group_edges {
    int32_t *first, *edges;
};

/* Steps before the first piece comes to an edge: of the longest way to it. */
static int offset_of(const struct communicator *c, const struct collective_edge *edge)
{
    const struct collective_node *from = &c->nodes[edge->from];
    int above = NONE;
    int below = 0;
    for (int i = 0; i < from->n_in; i++) {
        const struct collective_edge *in = &c->edges[from->in[i]];
        if (edge->purpose == EDGE_DOWN && is_of_tree(in, EDGE_DOWN, edge->tree)) {
            above = 1 + offset_of(c, in);
        } else if (is_of_tree(in, EDGE_UP, edge->tree)) {
            int way = 1 + offset_of(c, in);
            below = way > below ? way : below;
        }
    }
    return above != NONE ? above : below;
}

static void open_edges(struct simulator *sim, struct communicator *c, const struct group_edges *by_group)
{
    const struct folded *folded = &sim->cluster.folded;
    int32_t first = by_group->first[c->group];
    c->n_edges = by_group->first[c->group + 1] - first;
    c->edges = sp_arena_array(sim->arena, (size_t)c->n_edges + 1, sizeof c->edges[0]);
    for (int e = 0; e < c->n_edges; e++) {
        const struct fold_edge_class *class = &folded->edges[by_group->edges[first + e]];
        struct collective_edge *edge = &c->edges[e];
        *edge = (struct collective_edge){.edge = by_group->edges[first + e],
                                         .from = node_of(c, class->from),
                                         .to = node_of(c, class->to),
                                         .purpose = edge_purpose_of(class->type),
                                         .tree = class->type / N_EDGE_PURPOSES % 2,
                                         .flow = NONE};
        c->nodes[edge->from].n_out++;
        c->nodes[edge->to].n_in++;
    }
    wire_edges(sim, c);
    for (int e = 0; e < c->n_edges; e++) {
        bool is_tree = c->edges[e].purpose == EDGE_UP || c->edges[e].purpose == EDGE_DOWN;
        c->edges[e].offset = is_tree ? offset_of(c, &c->edges[e]) : 0;
    }
}

static struct communicator *open_communicator(struct simulator *sim, int32_t group, int stream,
                                              const struct group_edges *by_group)
{
    const struct fold_group_class *class = &sim->cluster.folded.groups[group];
    struct communicator *c = sp_arena_alloc(sim->arena, sizeof *c);
    *c = (struct communicator){.group = group, .stream = stream, .n_nodes = class->n_classes};
    c->nodes = sp_arena_array(sim->arena, (size_t)c->n_nodes, sizeof c->nodes[0]);
    for (int i = 0; i < c->n_nodes; i++) {
        c->nodes[i].rank = class->classes[i];
    }
    qsort(c->nodes, (size_t)c->n_nodes, sizeof c->nodes[0], compare_nodes);
    open_edges(sim, c, by_group);
    c->first_slot = sim->n_slots;
    sim->n_slots += c->n_edges;
    return c;
}

/* Streams on which collectives of a group run. */
static void mark_streams(const struct simulator *sim, bool used[N_PROGRAM_GROUPS][N_PROGRAM_STREAMS])
{
    for (int i = 0; i < sim->program.n_segments; i++) {
        const struct program_ops *ops =
            sim->program.segments[i].ops; /* of the first position: the others use the same */
        for (int o = 0; o < ops->n; o++) {
            if (ops->ops[o].kind == OP_COLLECTIVE) {
                used[sim->program.transfers[ops->ops[o].transfer].group][ops->ops[o].stream] = true;
            }
        }
    }
}

static struct group_edges edges_by_group(const struct simulator *sim, struct sp_arena *scratch)
{
    const struct folded *folded = &sim->cluster.folded;
    struct group_edges by_group;
    by_group.first = sp_arena_array(scratch, (size_t)folded->n_groups + 2, sizeof(int32_t));
    by_group.edges = sp_arena_array(scratch, (size_t)folded->n_edges + 1, sizeof(int32_t));
    for (int e = 0; e < folded->n_edges; e++) {
        by_group.first[folded->edges[e].group + 2] += folded->edges[e].group >= 0 ? 1 : 0;
    }
    for (int g = 0; g <= folded->n_groups; g++) {
        by_group.first[g + 1] += by_group.first[g];
    }
    for (int e = 0; e < folded->n_edges; e++) {
        if (folded->edges[e].group >= 0) {
            by_group.edges[by_group.first[folded->edges[e].group + 1]++] = e;
        }
    }
    return by_group;
}

static void open_slots(struct simulator *sim)
{
    sim->slots = sp_arena_array(sim->arena, (size_t)sim->n_slots + 1, sizeof sim->slots[0]);
    for (int i = 0; i < sim->n_collectives; i++) {
        for (int e = 0; e < sim->collectives[i]->n_edges; e++) {
            sim->slots[sim->collectives[i]->first_slot + e] = (struct slot){i, e};
        }
    }
}

void collectives_open(struct simulator *sim)
{
    const struct folded *folded = &sim->cluster.folded;
    size_t n = (size_t)folded->n_groups;
    bool used[N_PROGRAM_GROUPS][N_PROGRAM_STREAMS] = {{false}};
    struct sp_arena *scratch = sp_arena_open();
    struct group_edges by_group = edges_by_group(sim, scratch);
    mark_streams(sim, used);
    sim->collectives = sp_arena_array(sim->arena, n * N_PROGRAM_STREAMS + 1, sizeof(void *));
    sim->collective_of = sp_arena_array(sim->arena, n + 1, sizeof sim->collective_of[0]);
    for (int32_t g = 0; g < folded->n_groups; g++) {
        for (int s = 0; s < N_PROGRAM_STREAMS; s++) {
            sim->collective_of[g][s] = NONE;
            if (used[folded->groups[g].type][s]) {
                sim->collective_of[g][s] = sim->n_collectives;
                sim->collectives[sim->n_collectives++] = open_communicator(sim, g, s, &by_group);
            }
        }
    }
    open_slots(sim);
    sp_arena_close(scratch);
}
