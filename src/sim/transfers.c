/* Messages between two ranks: hops of the attention method, micro-batches between stages, copies to and from the host. */
#include "sim/sim_internal.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

/* ---- a message -------------------------------------------------------------------------------------------------- */

static int32_t find_type(const struct simulator *sim, const int32_t *edges, int32_t type)
{
    while (*edges != NONE && sim->cluster.folded.edges[*edges].type != type) {
        edges++;
    }
    assert(*edges != NONE);
    return *edges;
}

int32_t find_edge(const struct simulator *sim, int32_t from, int32_t type)
{
    return find_type(sim, sim->edges_from[from], type);
}

/* A latency during which nothing is on the wire, then bytes at a rate such that both together take what the transfer takes
 * alone. Where its curve is faster than the link's own rate after that latency, the latency is shorter; where it is faster than
 * the wire itself (sums formed inside the switch), fewer bytes cross it. */
struct message message_of(const struct simulator *sim, int32_t edge, double bytes, double time_ps)
{
    double rate = sim->edge_rate[edge]; /* INFINITY without links */
    double wire_ps = bytes / rate * PS_PER_S;
    double latency = fmax(fmin(sim->edge_latency_s[edge] * PS_PER_S, time_ps - wire_ps), 0);
    struct message message = {.latency_ps = (int64_t)floor(latency)};
    double left_ps = fmax(time_ps - (double)message.latency_ps, 1);
    message.bytes = fmin(bytes, rate * left_ps / PS_PER_S);
    message.cap_bytes_per_s = message.bytes / left_ps * PS_PER_S;
    return message;
}

void start_flow(struct simulator *sim, int32_t edge, const struct message *message, uint64_t owner, enum axis axis,
                int32_t *flow)
{
    struct flow_spec spec = {.path = sim->edge_path[edge],
                             .bytes = message->bytes,
                             .cap_bytes_per_s = message->cap_bytes_per_s,
                             .owner = owner,
                             .tag = (uint8_t)axis};
    *flow = flow_start(sim->network, sim->now_ps, &spec);
}

/* ---- channels --------------------------------------------------------------------------------------------------- */

static const struct {
    enum event_of event;
} kinds[] = {[OWNER_HOP] = {EVENT_HOP}, [OWNER_STAGE] = {EVENT_STAGE}, [OWNER_COPY] = {EVENT_COPY}};

static enum axis axis_of(const struct channel *channel)
{
    return channel->transfer != NULL ? channel->transfer->axis : N_AXES; /* a copy to the host is of none */
}

void channel_flow(struct simulator *sim, int32_t number, enum owner_kind kind)
{
    struct channel *channel = &sim->channels[number];
    start_flow(sim, channel->edge, &channel->message, flow_owner(kind, (uint64_t)number), axis_of(channel),
               &channel->flow);
}

static void begin_message(struct simulator *sim, int32_t number, double bytes, double time_s, enum owner_kind kind)
{
    struct channel *channel = &sim->channels[number];
    channel->start_ps = sim->now_ps;
    channel->bytes = bytes;
    channel->message = message_of(sim, channel->edge, bytes, time_s * PS_PER_S);
    if (channel->message.latency_ps > 0) {
        event_post(sim->queue, sim->now_ps + channel->message.latency_ps,
                   (struct event){kinds[kind].event, (uint32_t)number, 0});
    } else {
        channel_flow(sim, number, kind);
    }
}

static void mark_start(struct simulator *sim, int32_t rank, int stream, double time_s)
{
    struct stream_state *at = &sim->ranks[rank].streams[stream];
    at->transfer_ps = sim->now_ps;
    at->alone_ps = time_s * PS_PER_S;
}

static void count_bytes(struct simulator *sim, int32_t edge)
{
    const struct fold_edge_class *class = &sim->cluster.folded.edges[edge];
    double per_rank = sim->channels[edge].bytes;
    sim->ranks[class->from].sent_bytes += per_rank;
    sim->ranks[class->to].received_bytes += per_rank;
}

/* ---- hops of the attention method ------------------------------------------------------------------------------- */

static void start_hop(struct simulator *sim, int32_t edge)
{
    struct channel *channel = &sim->channels[edge];
    const struct fold_edge_class *class = &sim->cluster.folded.edges[edge];
    mark_start(sim, class->from, channel->send_stream, channel->transfer->time_s);
    mark_start(sim, class->to, channel->receive_stream, channel->transfer->time_s);
    rank_hold_sms(sim, class->from, channel->transfer->sm_share); /* one kernel sends and receives */
    begin_message(sim, edge, channel->transfer->bytes, channel->transfer->time_s, OWNER_HOP);
}

void hop_come(struct simulator *sim, int32_t rank, int stream, const struct program_op *op)
{
    bool is_send = op->kind == OP_SEND;
    int64_t further = is_send ? op->peer : sim->question->layout.sp - op->peer;
    int32_t edge = find_type(sim, is_send ? sim->edges_from[rank] : sim->edges_to[rank], edge_type(EDGE_HOP, further));
    struct channel *channel = &sim->channels[edge];
    if (is_send) {
        assert(!channel->is_sending);
        channel->is_sending = true;
        channel->send_stream = stream;
    } else {
        assert(!channel->is_receiving);
        channel->is_receiving = true;
        channel->receive_stream = stream;
    }
    channel->transfer = &sim->program.transfers[op->transfer];
    if (channel->is_sending && channel->is_receiving) {
        start_hop(sim, edge);
    }
}

static void end_hop(struct simulator *sim, int32_t edge)
{
    struct channel *channel = &sim->channels[edge];
    const struct fold_edge_class *class = &sim->cluster.folded.edges[edge];
    channel->is_sending = channel->is_receiving = false;
    rank_hold_sms(sim, class->from, -channel->transfer->sm_share);
    struct rank_state *from = &sim->ranks[class->from];
    struct rank_state *to = &sim->ranks[class->to];
    /* whoever came last to the point is on the path of what was received */
    bool is_sender_late = from->streams[channel->send_stream].since_ps > to->streams[channel->receive_stream].since_ps;
    struct path *late = is_sender_late ? &from->paths[channel->send_stream] : &to->paths[channel->receive_stream];
    *(is_sender_late ? &to->paths[channel->receive_stream] : &from->paths[channel->send_stream]) = *late;
    rank_end(sim, class->from, channel->send_stream);
    rank_end(sim, class->to, channel->receive_stream);
}

/* ---- micro-batches between stages ------------------------------------------------------------------------------- */

void stage_send(struct simulator *sim, int32_t rank, const struct program_op *op, const struct program_entry *entry)
{
    int32_t edge = find_edge(sim, rank, edge_type(EDGE_STAGE, entry->other_stage));
    struct channel *channel = &sim->channels[edge];
    channel->transfer = &sim->program.transfers[op->transfer];
    channel->send_stream = (int)op->stream;
    channel->key = entry->key;
    struct mailbox *box = &sim->ranks[sim->cluster.folded.edges[edge].to].mailboxes[entry->key];
    box->sent++;
    box->sent_ps = sim->now_ps;
    mark_start(sim, rank, (int)op->stream, channel->transfer->time_s);
    begin_message(sim, edge, channel->transfer->bytes, channel->transfer->time_s, OWNER_STAGE);
}

static void end_stage(struct simulator *sim, int32_t edge)
{
    struct channel *channel = &sim->channels[edge];
    const struct fold_edge_class *class = &sim->cluster.folded.edges[edge];
    struct mailbox *box = &sim->ranks[class->to].mailboxes[channel->key];
    rank_end(sim, class->from, channel->send_stream);
    box->arrived++;
    box->path = sim->ranks[class->from].paths[channel->send_stream];
    rank_wake(sim, class->to);
}

/* ---- copies to and from the host -------------------------------------------------------------------------------- */

void host_copy(struct simulator *sim, int32_t rank, int stream, const struct program_op *op)
{
    int32_t edge = find_edge(sim, rank, edge_type(op->is_to_host ? EDGE_TO_HOST : EDGE_FROM_HOST, 0));
    int32_t number = sim->cluster.folded.n_edges + rank * N_PROGRAM_STREAMS + stream;
    struct channel *channel = &sim->channels[number];
    channel->edge = edge;
    channel->send_stream = stream;
    mark_start(sim, rank, stream, op->time_s);
    begin_message(sim, number, op->bytes, op->time_s, OWNER_COPY);
}

void channel_end(struct simulator *sim, int32_t number, enum owner_kind kind)
{
    int32_t edge = number; /* but for copies */
    if (kind != OWNER_COPY) {
        count_bytes(sim, edge);
    }
    switch (kind) {
    case OWNER_HOP:
        end_hop(sim, edge);
        break;
    case OWNER_STAGE:
        end_stage(sim, edge);
        break;
    case OWNER_COPY:
        rank_end(sim, sim->cluster.folded.edges[sim->channels[number].edge].from, sim->channels[number].send_stream);
        break;
    case OWNER_EDGE:
    case OWNER_RESERVATION:
        assert(!"an edge of a collective");
    }
}

/* ---- opening ---------------------------------------------------------------------------------------------------- */

static bool is_fabric(const struct simulator *sim, int32_t link)
{
    enum link_kind kind = sim->cluster.topology.links[sim->cluster.folded.link_first[link]].kind;
    return kind == LINK_LEAF_UP || kind == LINK_LEAF_DOWN;
}

static bool crosses_network(const struct simulator *sim, const struct fold_edge_class *edge)
{
    for (int i = 0; i < edge->n_hops; i++) {
        enum link_kind kind = sim->cluster.topology.links[sim->cluster.folded.link_first[edge->hops[i].link]].kind;
        if (kind == LINK_NIC_OUT || kind == LINK_NIC_IN) {
            return true;
        }
    }
    return false;
}

static int compare_types(const void *a, const void *b)
{
    const struct fold_edge_class *x = *(const struct fold_edge_class *const *)a;
    const struct fold_edge_class *y = *(const struct fold_edge_class *const *)b;
    return x->type != y->type ? (x->type > y->type) - (x->type < y->type) : (x > y) - (x < y);
}

static void add_flows(const struct fold_edge_class *edge, double *flows)
{
    for (int i = 0; i < edge->n_hops; i++) {
        flows[edge->hops[i].link] += edge->hops[i].weight;
    }
}

static double rate_of(const struct simulator *sim, const struct fold_edge_class *edge, const double *flows)
{
    double rate = (double)INFINITY;
    for (int i = 0; i < edge->n_hops; i++) {
        int32_t link = edge->hops[i].link;
        if (!is_fabric(sim, link)) {
            rate = fmin(rate, sim->nominal[link] / flows[link]);
        }
    }
    return rate;
}

/* What a flow gets of its links when all edges of its type carry one: what runs at once in one kind of transfer. Links of the
 * fabric above the NICs are left out: that they carry less than the NICs is a contention, nothing that a transfer alone knows. */
static void rate_edges(struct simulator *sim, struct sp_arena *scratch)
{
    const struct folded *folded = &sim->cluster.folded;
    size_t n = (size_t)folded->n_edges;
    const struct fold_edge_class **sorted = sp_arena_array(scratch, n + 1, sizeof(void *));
    double *flows = sp_arena_array(scratch, (size_t)folded->n_links + 1, sizeof flows[0]);
    for (size_t i = 0; i < n; i++) {
        sorted[i] = &folded->edges[i];
    }
    qsort(sorted, n, sizeof sorted[0], compare_types);
    for (size_t first = 0; first < n;) {
        size_t end = first;
        while (end < n && sorted[end]->type == sorted[first]->type) {
            add_flows(sorted[end++], flows);
        }
        for (size_t i = first; i < end; i++) {
            sim->edge_rate[sorted[i] - folded->edges] = rate_of(sim, sorted[i], flows);
        }
        for (; first < end; first++) {
            for (int i = 0; i < sorted[first]->n_hops; i++) {
                flows[sorted[first]->hops[i].link] = 0;
            }
        }
    }
}

static int32_t add_path(struct simulator *sim, const struct fold_edge_class *edge)
{
    struct path_hop hops[MAX_ROUTE];
    for (int i = 0; i < edge->n_hops; i++) {
        hops[i] = (struct path_hop){edge->hops[i].link, edge->hops[i].weight};
    }
    return flow_network_add_path(sim->network, hops, edge->n_hops);
}

/* By class of ranks: the edges that leave it or come to it, NONE at the end. */
static int32_t **list_edges(struct simulator *sim, bool is_to)
{
    const struct folded *folded = &sim->cluster.folded;
    size_t n = (size_t)sim->cluster.n_classes;
    int32_t *counts = sp_arena_array(sim->arena, n + 1, sizeof counts[0]);
    int32_t **lists = sp_arena_array(sim->arena, n, sizeof lists[0]);
    for (int e = 0; e < folded->n_edges; e++) {
        counts[is_to ? folded->edges[e].to : folded->edges[e].from]++;
    }
    for (size_t r = 0; r < n; r++) {
        lists[r] = sp_arena_array(sim->arena, (size_t)counts[r] + 1, sizeof(int32_t));
        lists[r][counts[r]] = NONE;
    }
    for (int e = folded->n_edges - 1; e >= 0; e--) {
        int32_t rank = is_to ? folded->edges[e].to : folded->edges[e].from;
        lists[rank][--counts[rank]] = e;
    }
    return lists;
}

void transfers_open(struct simulator *sim)
{
    const struct folded *folded = &sim->cluster.folded;
    const struct hardware_spec *hardware = &sim->question->hardware;
    size_t n = (size_t)folded->n_edges + 1;
    size_t copies = (size_t)sim->cluster.n_classes * N_PROGRAM_STREAMS;
    sim->channels = sp_arena_array(sim->arena, n + copies, sizeof sim->channels[0]);
    sim->edge_path = sp_arena_array(sim->arena, n, sizeof sim->edge_path[0]);
    sim->edge_rate = sp_arena_array(sim->arena, n, sizeof sim->edge_rate[0]);
    sim->edge_latency_s = sp_arena_array(sim->arena, n, sizeof sim->edge_latency_s[0]);
    for (int e = 0; e < folded->n_edges; e++) {
        sim->edge_path[e] = add_path(sim, &folded->edges[e]);
        sim->channels[e].edge = e;
        sim->edge_latency_s[e] =
            crosses_network(sim, &folded->edges[e]) ? hardware->network.latency.value : hardware->intra.latency.value;
    }
    struct sp_arena *scratch = sp_arena_open();
    rate_edges(sim, scratch);
    sp_arena_close(scratch);
    sim->edges_from = list_edges(sim, false);
    sim->edges_to = list_edges(sim, true);
}
