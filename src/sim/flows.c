/* Flows come and go. What can be told at once is told here: a flow on links that carry all that is wanted of them runs at what
 * it wants. Links where that is not so are marked for flows_settle() (fair_share.c). */
#include "sim/flow_network.h"

#include <assert.h>
#include <float.h>
#include <math.h>

/* Later than this is never: a hundred days. */
static const double LAST_PS = 9e18;

double flow_want(const struct flow_network *network, const struct flow *flow)
{
    /* A reservation stands for flows at full cap: a link that cannot give it that much is contended. */
    if (flow->is_reservation) {
        return flow->cap_bytes_per_s;
    }
    double solo = path_solo(network, &network->paths[flow->path]);
    return flow->cap_bytes_per_s < solo ? flow->cap_bytes_per_s : solo;
}

static void count_bytes(struct flow_network *network, const struct flow *flow, double bytes)
{
    const struct path *path = &network->paths[flow->path];
    const struct path_hop *hops = path_hops(network, path);
    for (int i = 0; i < path->n_hops; i++) {
        network->links[hops[i].link].record.bytes += hops[i].weight * bytes;
    }
}

void flow_advance(struct flow_network *network, int64_t now_ps, struct flow *flow)
{
    if (flow->rate_bytes_per_s > 0 && now_ps > flow->since_ps) {
        double sent = flow_sent_since(flow, now_ps);
        flow->left_bytes -= sent;
        count_bytes(network, flow, sent);
    }
    flow->since_ps = now_ps;
}

static void post_end(struct flow_network *network, int64_t time_ps, uint32_t index)
{
    struct event event = {EVENT_FLOW_END, index, flow_at(network, index)->version};
    event_post(network->queue, time_ps, event);
}

static void post_end_of_rate(struct flow_network *network, uint32_t index)
{
    const struct flow *flow = flow_at(network, index);
    double duration_ps = flow->left_bytes * PS_PER_S / flow->rate_bytes_per_s;
    /* Rounding must not turn a whole number of picoseconds into the next. */
    duration_ps = ceil(duration_ps * (1 - 4 * DBL_EPSILON));
    if ((double)flow->since_ps + duration_ps < LAST_PS) {
        post_end(network, flow->since_ps + (int64_t)duration_ps, index);
    }
}

void flow_set_rate(struct flow_network *network, int64_t now_ps, uint32_t index, double bytes_per_s)
{
    struct flow *flow = flow_at(network, index);
    if (fabs(bytes_per_s - flow->rate_bytes_per_s) <= SAME_RATE_REL * flow->rate_bytes_per_s) {
        return;
    }
    flow_advance(network, now_ps, flow);
    flow->rate_bytes_per_s = bytes_per_s;
    flow->version = (flow->version + 1) & VERSION_MASK;
    if (bytes_per_s > 0) {
        post_end_of_rate(network, index);
    }
}

static uint32_t take_number(struct flow_network *network)
{
    if (network->free_flows.n > 0) {
        return network->free_flows.items[--network->free_flows.n];
    }
    uint32_t index = network->n_flows++;
    if (index % FLOWS_A_CHUNK == 0) {
        size_t chunk = index / FLOWS_A_CHUNK;
        network->chunks =
            array_grow(network->arena, network->chunks, sizeof(network->chunks[0]), chunk + 1, &network->max_chunks);
        network->chunks[chunk] = sp_arena_array(network->arena, FLOWS_A_CHUNK, sizeof(struct flow));
    }
    return index;
}

/* True when all its links carry what is wanted of them, so that the flow need not wait for flows_settle(). */
static bool join_links(struct flow_network *network, uint32_t index, const struct flow *flow)
{
    const struct path *path = &network->paths[flow->path];
    const struct path_hop *hops = path_hops(network, path);
    struct member member = {index, flow->serial};
    bool is_free = true;
    for (int i = 0; i < path->n_hops; i++) {
        uint32_t at = (uint32_t)hops[i].link;
        struct link *link = &network->links[at];
        link_add_member(network, at, member);
        link->want_bytes_per_s += hops[i].weight * flow->want_bytes_per_s;
        link->n_reservations += flow->is_reservation;
        if (link->n_flows++ == 0) {
            link->busy_since_ps = flow->since_ps;
        }
        if (link->want_bytes_per_s > link->tight_bytes_per_s) {
            link_mark_dirty(network, at);
            is_free = false;
        }
    }
    return is_free;
}

static void leave_links(struct flow_network *network, int64_t now_ps, const struct flow *flow)
{
    const struct path *path = &network->paths[flow->path];
    const struct path_hop *hops = path_hops(network, path);
    for (int i = 0; i < path->n_hops; i++) {
        struct link *link = &network->links[hops[i].link];
        link->want_bytes_per_s -= hops[i].weight * flow->want_bytes_per_s;
        link->n_reservations -= flow->is_reservation;
        if (--link->n_flows == 0) {
            link->record.busy_ps += now_ps - link->busy_since_ps;
            link->want_bytes_per_s = 0;
            link->n_members = 0;
        }
        if (link->is_tight) {
            link_mark_dirty(network, (uint32_t)hops[i].link);
        }
    }
}

int32_t flow_start(struct flow_network *network, int64_t now_ps, const struct flow_spec *spec)
{
    assert(spec->path >= 0 && (size_t)spec->path < network->n_paths);
    assert(spec->bytes >= 0 && spec->cap_bytes_per_s >= 0 && spec->tag < 16);
    uint32_t index = take_number(network);
    struct flow *flow = flow_at(network, index);
    flow->rate_bytes_per_s = 0;
    flow->left_bytes = spec->bytes;
    flow->since_ps = now_ps;
    flow->cap_bytes_per_s = spec->cap_bytes_per_s;
    flow->owner = spec->owner;
    flow->path = spec->path;
    flow->tag = spec->tag;
    flow->is_live = true;
    flow->is_reservation = spec->is_reservation;
    flow->is_on_links = spec->bytes > 0;
    network->n_started += !spec->is_reservation;
    if (!flow->is_on_links) {
        post_end(network, now_ps, index);
        return (int32_t)index;
    }
    flow->want_bytes_per_s = flow_want(network, flow);
    assert(isfinite(flow->want_bytes_per_s));
    if (join_links(network, index, flow) && flow->want_bytes_per_s > 0) {
        flow->rate_bytes_per_s = flow->want_bytes_per_s;
        post_end_of_rate(network, index);
    }
    return (int32_t)index;
}

static void end_flow(struct flow_network *network, int64_t now_ps, uint32_t index)
{
    struct flow *flow = flow_at(network, index);
    if (flow->is_on_links) {
        leave_links(network, now_ps, flow);
    }
    flow->is_live = false;
    flow->serial++;
    flow->version = (flow->version + 1) & VERSION_MASK;
    int_list_add(network->arena, &network->free_flows, index);
}

bool flow_finish(struct flow_network *network, int64_t now_ps, const struct event *event, uint64_t *owner)
{
    assert(event->kind == EVENT_FLOW_END && event->index < network->n_flows);
    struct flow *flow = flow_at(network, event->index);
    if (flow->version != event->version) {
        return false;
    }
    assert(flow->is_live);
    count_bytes(network, flow, flow->left_bytes);
    *owner = flow->owner;
    end_flow(network, now_ps, event->index);
    return true;
}

double flow_stop(struct flow_network *network, int64_t now_ps, int32_t flow)
{
    assert(flow >= 0 && (uint32_t)flow < network->n_flows);
    struct flow *stopped = flow_at(network, (uint32_t)flow);
    assert(stopped->is_live);
    flow_advance(network, now_ps, stopped);
    end_flow(network, now_ps, (uint32_t)flow);
    return stopped->left_bytes;
}

uint64_t flow_network_count(const struct flow_network *network)
{
    return network->n_started;
}
