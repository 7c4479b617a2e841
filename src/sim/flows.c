/* Flows come and go. What can be told at once is told here: a flow on links that carry all that is wanted of them runs at what
 * it wants. Links where that is not so are marked for flows_settle() (fair_share.c). */
#include "sim/flow_network.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

enum { FIRST_ITEMS = 8 };

/* Later than this is never: a hundred days. */
static const double LAST_PS = 9e18;

/* ---- lists ------------------------------------------------------------------------------------------------------ */

void *array_grow(struct sp_arena *arena, void *items, size_t item_size, size_t n_wanted, size_t *max)
{
    if (n_wanted <= *max) {
        return items;
    }
    size_t n_new = *max < FIRST_ITEMS ? FIRST_ITEMS : 2 * *max;
    while (n_new < n_wanted) {
        n_new *= 2;
    }
    void *grown = sp_arena_array(arena, n_new, item_size);
    if (*max > 0) {
        memcpy(grown, items, *max * item_size);
    }
    *max = n_new;
    return grown;
}

void int_list_add(struct sp_arena *arena, struct int_list *list, uint32_t item)
{
    if (list->n == list->max) {
        list->items = array_grow(arena, list->items, sizeof(list->items[0]), list->n + 1, &list->max);
    }
    list->items[list->n++] = item;
}

/* ---- links and paths -------------------------------------------------------------------------------------------- */

struct flow_network *flow_network_open(struct sp_arena *arena, struct event_queue *queue, flow_contended_fn contended,
                                       void *context)
{
    struct flow_network *network = sp_arena_alloc(arena, sizeof(*network));
    network->arena = arena;
    network->queue = queue;
    network->contended = contended;
    network->context = context;
    network->epoch = 1;
    return network;
}

int32_t flow_network_add_link(struct flow_network *network, double bytes_per_s)
{
    assert(isfinite(bytes_per_s) && bytes_per_s >= 0);
    network->links = array_grow(network->arena, network->links, sizeof(network->links[0]), network->n_links + 1,
                                &network->max_links);
    network->links[network->n_links] =
        (struct link){.capacity_bytes_per_s = bytes_per_s, .tight_bytes_per_s = bytes_per_s * (1 + TIGHT_REL)};
    return (int32_t)network->n_links++;
}

void flow_network_set_capacity(struct flow_network *network, int32_t link, double bytes_per_s)
{
    assert(link >= 0 && (size_t)link < network->n_links);
    assert(isfinite(bytes_per_s) && bytes_per_s >= 0);
    struct link *resized = &network->links[link];
    resized->new_capacity_bytes_per_s = bytes_per_s;
    if (!resized->has_new_capacity) {
        resized->has_new_capacity = true;
        int_list_add(network->arena, &network->resized_links, (uint32_t)link);
    }
}

/* A link that a path crosses twice becomes one hop of both weights. */
static void add_hop(struct flow_network *network, struct path *path, struct path_hop hop)
{
    assert(hop.link >= 0 && (size_t)hop.link < network->n_links);
    assert(isfinite(hop.weight) && hop.weight > 0);
    struct path_hop *hops = &network->hops[path->first_hop];
    for (int i = 0; i < path->n_hops; i++) {
        if (hops[i].link == hop.link) {
            hops[i].weight += hop.weight;
            return;
        }
    }
    hops[path->n_hops++] = hop;
}

int32_t flow_network_add_path(struct flow_network *network, const struct path_hop *hops, int n_hops)
{
    assert(n_hops >= 0 && n_hops <= MAX_PATH_HOPS);
    network->paths = array_grow(network->arena, network->paths, sizeof(network->paths[0]), network->n_paths + 1,
                                &network->max_paths);
    network->hops = array_grow(network->arena, network->hops, sizeof(network->hops[0]),
                               network->n_hops + (size_t)n_hops, &network->max_hops);
    struct path *path = &network->paths[network->n_paths];
    *path = (struct path){.first_hop = (uint32_t)network->n_hops};
    for (int i = 0; i < n_hops; i++) {
        add_hop(network, path, hops[i]);
    }
    network->n_hops += (size_t)path->n_hops;
    return (int32_t)network->n_paths++;
}

static double path_solo(const struct flow_network *network, struct path *path)
{
    if (path->epoch != network->epoch) {
        path->epoch = network->epoch;
        path->solo_bytes_per_s = INFINITY;
        for (int i = 0; i < path->n_hops; i++) {
            const struct path_hop *hop = &network->hops[path->first_hop + (uint32_t)i];
            double solo = network->links[hop->link].capacity_bytes_per_s / hop->weight;
            path->solo_bytes_per_s = solo < path->solo_bytes_per_s ? solo : path->solo_bytes_per_s;
        }
    }
    return path->solo_bytes_per_s;
}

void link_mark_dirty(struct flow_network *network, uint32_t index)
{
    if (!network->links[index].is_dirty) {
        network->links[index].is_dirty = true;
        int_list_add(network->arena, &network->dirty_links, index);
    }
}

void link_drop_ended(const struct flow_network *network, struct link *link)
{
    uint32_t n_kept = 0;
    for (uint32_t i = 0; i < link->n_members && n_kept < link->n_flows; i++) {
        struct member member = link->members[i];
        link->members[n_kept] = member;
        n_kept += is_member(flow_at(network, member.flow), member);
    }
    assert(n_kept == link->n_flows);
    link->n_members = n_kept;
}

/* How much of a link one byte of the path takes. */
static double weight_on(const struct flow_network *network, const struct flow *flow, uint32_t link)
{
    const struct path *path = &network->paths[flow->path];
    const struct path_hop *hop = &network->hops[path->first_hop];
    while (hop->link != (int32_t)link) {
        hop++;
    }
    return hop->weight;
}

void link_sum_wants(const struct flow_network *network, uint32_t index)
{
    struct link *link = &network->links[index];
    link_drop_ended(network, link);
    link->want_bytes_per_s = 0;
    for (uint32_t i = 0; i < link->n_members; i++) {
        const struct flow *flow = flow_at(network, link->members[i].flow);
        link->want_bytes_per_s += weight_on(network, flow, index) * flow->want_bytes_per_s;
    }
}

static void link_add_member(struct flow_network *network, uint32_t index, struct member member)
{
    struct link *link = &network->links[index];
    if (link->n_members == link->max_members) {
        if (link->n_flows < link->n_members / 2) {
            link_sum_wants(network, index);
        } else {
            size_t max = link->max_members;
            link->members =
                array_grow(network->arena, link->members, sizeof(member), (size_t)link->n_members + 1, &max);
            link->max_members = (uint32_t)max;
        }
    }
    link->members[link->n_members++] = member;
}

/* ---- one flow --------------------------------------------------------------------------------------------------- */

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
    const struct path_hop *hops = &network->hops[path->first_hop];
    for (int i = 0; i < path->n_hops; i++) {
        network->links[hops[i].link].record.bytes += hops[i].weight * bytes;
    }
}

static double sent_since(const struct flow *flow, int64_t now_ps)
{
    double sent = flow->rate_bytes_per_s * ((double)(now_ps - flow->since_ps) / PS_PER_S);
    return sent < flow->left_bytes ? sent : flow->left_bytes;
}

void flow_advance(struct flow_network *network, int64_t now_ps, struct flow *flow)
{
    if (flow->rate_bytes_per_s > 0 && now_ps > flow->since_ps) {
        double sent = sent_since(flow, now_ps);
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
    const struct path_hop *hops = &network->hops[path->first_hop];
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
    const struct path_hop *hops = &network->hops[path->first_hop];
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

/* ---- records ---------------------------------------------------------------------------------------------------- */

struct link_record flow_network_link(const struct flow_network *network, int32_t link, int64_t now_ps)
{
    assert(link >= 0 && (size_t)link < network->n_links);
    const struct link *of = &network->links[link];
    struct link_record record = of->record;
    for (uint32_t i = 0; i < of->n_members; i++) {
        const struct flow *flow = flow_at(network, of->members[i].flow);
        if (is_member(flow, of->members[i])) {
            record.bytes += weight_on(network, flow, (uint32_t)link) * sent_since(flow, now_ps);
        }
    }
    record.busy_ps += of->n_flows > 0 ? now_ps - of->busy_since_ps : 0;
    if (of->is_tight) {
        link_count_tight(of, now_ps, &record);
    }
    return record;
}

uint64_t flow_network_count(const struct flow_network *network)
{
    return network->n_started;
}
