/* The network without its flows: links with their members and records, and paths. */
#include "sim/flow_network.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { FIRST_ITEMS = 8 };

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

double path_solo(const struct flow_network *network, struct path *path)
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

void link_add_member(struct flow_network *network, uint32_t index, struct member member)
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

/* ---- records ---------------------------------------------------------------------------------------------------- */

void link_count_tight(const struct link *link, int64_t now_ps, struct link_record *record)
{
    if (now_ps > link->tight_since_ps) {
        record->contended_ps += now_ps - link->tight_since_ps;
        bool is_shared = (link->tags & (link->tags - 1)) != 0;
        record->tags |= is_shared ? link->tags : 0;
    }
}

struct link_record flow_network_link(const struct flow_network *network, int32_t link, int64_t now_ps)
{
    assert(link >= 0 && (size_t)link < network->n_links);
    const struct link *of = &network->links[link];
    struct link_record record = of->record;
    for (uint32_t i = 0; i < of->n_members; i++) {
        const struct flow *flow = flow_at(network, of->members[i].flow);
        if (is_member(flow, of->members[i])) {
            record.bytes += weight_on(network, flow, (uint32_t)link) * flow_sent_since(flow, now_ps);
        }
    }
    record.busy_ps += of->n_flows > 0 ? now_ps - of->busy_since_ps : 0;
    if (of->is_tight) {
        link_count_tight(of, now_ps, &record);
    }
    return record;
}
