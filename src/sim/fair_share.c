/* Max-min fair rates by progressive filling: every rate rises alike until a link is full or a flow has what it wants, which
 * fixes those rates; the others rise on. Only what the links changed in this instant can reach over tight links is filled. */
#include "sim/flow_network.h"

#include <assert.h>
#include <math.h>

/* ---- heap of what comes next ------------------------------------------------------------------------------------ */

static void sift_down(struct rank_heap *heap, size_t at)
{
    struct ranked moved = heap->items[at];
    for (size_t child = 2 * at + 1; child < heap->n; child = 2 * at + 1) {
        if (child + 1 < heap->n && heap->items[child + 1].key < heap->items[child].key) {
            child++;
        }
        if (moved.key <= heap->items[child].key) {
            break;
        }
        heap->items[at] = heap->items[child];
        at = child;
    }
    heap->items[at] = moved;
}

static void heap_append(struct sp_arena *arena, struct rank_heap *heap, double key, uint32_t index)
{
    heap->items = array_grow(arena, heap->items, sizeof(heap->items[0]), heap->n + 1, &heap->max);
    heap->items[heap->n++] = (struct ranked){key, index};
}

static void heap_order(struct rank_heap *heap)
{
    for (size_t i = heap->n / 2; i > 0; i--) {
        sift_down(heap, i - 1);
    }
}

static void heap_drop_first(struct rank_heap *heap)
{
    heap->items[0] = heap->items[--heap->n];
    if (heap->n > 0) {
        sift_down(heap, 0);
    }
}

/* ---- what has changed ------------------------------------------------------------------------------------------- */

/* Its flows may want another rate now. */
static void reprice_members(struct flow_network *network, uint32_t index)
{
    struct link *resized = &network->links[index];
    link_drop_ended(network, resized);
    for (uint32_t i = 0; i < resized->n_members; i++) {
        struct flow *flow = flow_at(network, resized->members[i].flow);
        double before = flow->want_bytes_per_s;
        flow->want_bytes_per_s = flow_want(network, flow);
        double change = flow->want_bytes_per_s - before;
        const struct path *path = &network->paths[flow->path];
        const struct path_hop *hops = path_hops(network, path);
        for (int j = 0; j < path->n_hops; j++) {
            struct link *link = &network->links[hops[j].link];
            link->want_bytes_per_s += hops[j].weight * change;
            if (link->is_tight || link->want_bytes_per_s > link->tight_bytes_per_s) {
                link_mark_dirty(network, (uint32_t)hops[j].link);
            }
        }
    }
    link_sum_wants(network, index);
    link_mark_dirty(network, index);
}

static void resize_links(struct flow_network *network)
{
    struct int_list *resized = &network->resized_links;
    if (resized->n == 0) {
        return;
    }
    network->epoch++;
    for (size_t i = 0; i < resized->n; i++) {
        struct link *link = &network->links[resized->items[i]];
        link->capacity_bytes_per_s = link->new_capacity_bytes_per_s;
        link->tight_bytes_per_s = link->capacity_bytes_per_s * (1 + TIGHT_REL);
        link->has_new_capacity = false;
    }
    for (size_t i = 0; i < resized->n; i++) {
        reprice_members(network, resized->items[i]);
    }
    resized->n = 0;
}

static bool wants_too_much(const struct link *link)
{
    return link->want_bytes_per_s > link->tight_bytes_per_s;
}

/* The owners of the reservations on a link, which must all end. True if there were any. */
static bool end_reservations(struct flow_network *network, uint32_t index)
{
    struct link *link = &network->links[index];
    if (link->n_reservations == 0 || !wants_too_much(link)) {
        return false;
    }
    struct int_list *found = &network->reservations;
    found->n = 0;
    for (uint32_t i = 0; i < link->n_members; i++) {
        if (flow_at(network, link->members[i].flow)->is_reservation) {
            int_list_add(network->arena, found, link->members[i].flow);
            int_list_add(network->arena, found, link->members[i].serial);
        }
    }
    /* Those that have ended are among them; ending one may end others. */
    for (size_t i = 0; i < found->n; i += 2) {
        struct member member = {found->items[i], found->items[i + 1]};
        const struct flow *flow = flow_at(network, member.flow);
        if (is_member(flow, member)) {
            network->contended(network->context, flow->owner);
            assert(!is_member(flow, member)); /* the callback must have stopped it */
        }
    }
    return true;
}

static void materialise(struct flow_network *network)
{
    bool any = true;
    while (any) {
        any = false;
        for (size_t i = 0; i < network->dirty_links.n; i++) {
            any = end_reservations(network, network->dirty_links.items[i]) || any;
        }
    }
}

/* ---- the flows and links to fill -------------------------------------------------------------------------------- */

static void enter_link(struct flow_network *network, uint32_t index)
{
    struct link *link = &network->links[index];
    link->is_entered = true;
    link->left_bytes_per_s = link->capacity_bytes_per_s;
    link->weight = 0;
    link->level_bytes_per_s = 0;
    link->level_weight = 0;
    link->n_open = 0;
    link->tags = 0;
    int_list_add(network->arena, &network->entered_links, index);
    link_mark_dirty(network, index);
}

/* Tight or no longer so, from now on. */
static void enter_dirty_links(struct flow_network *network, int64_t now_ps)
{
    for (size_t i = 0; i < network->dirty_links.n; i++) {
        uint32_t index = network->dirty_links.items[i];
        struct link *link = &network->links[index];
        if (link->is_tight) {
            link_count_tight(link, now_ps, &link->record);
        }
        link->is_tight = wants_too_much(link);
        link->tight_since_ps = now_ps;
        if (link->is_tight) {
            enter_link(network, index);
        }
    }
}

static void open_flow(struct flow_network *network, int64_t now_ps, uint32_t index)
{
    struct flow *flow = flow_at(network, index);
    const struct path *path = &network->paths[flow->path];
    const struct path_hop *hops = path_hops(network, path);
    bool is_held = false;
    for (int i = 0; i < path->n_hops; i++) {
        struct link *link = &network->links[hops[i].link];
        if (!link->is_tight) {
            continue;
        }
        if (!link->is_entered) {
            enter_link(network, (uint32_t)hops[i].link);
        }
        link->weight += hops[i].weight;
        link->tags = (uint16_t)(link->tags | 1U << flow->tag);
        link->n_open++;
        is_held = true;
    }
    if (!is_held) {
        flow_set_rate(network, now_ps, index, flow->want_bytes_per_s);
        return;
    }
    flow->is_open = true;
    int_list_add(network->arena, &network->open_flows, index);
    if (flow->want_bytes_per_s < network->least_want_bytes_per_s) {
        network->least_want_bytes_per_s = flow->want_bytes_per_s;
    }
}

/* From the links that changed over tight links to every flow whose rate may change. The newest mark comes first: where flows
 * were started rank by rank, that looks at them in the order of memory, and finds the receivers' links all seen. */
static void explore(struct flow_network *network, int64_t now_ps)
{
    network->open_flows.n = 0;
    network->least_want_bytes_per_s = INFINITY;
    while (network->dirty_links.n > 0) {
        struct link *link = &network->links[network->dirty_links.items[--network->dirty_links.n]];
        link->is_dirty = false;
        if (link->is_tight && link->n_open == link->n_flows) {
            continue;
        }
        link_drop_ended(network, link);
        for (uint32_t i = 0; i < link->n_members; i++) {
            if (!flow_at(network, link->members[i].flow)->is_open) {
                open_flow(network, now_ps, link->members[i].flow);
            }
        }
    }
}

/* ---- filling ---------------------------------------------------------------------------------------------------- */

/* What was fixed at the link's level is taken off at once, as level times weight: taken off flow by flow, rounding would part
 * flows that are alike. */
static void end_level(struct link *link)
{
    link->left_bytes_per_s -= link->level_bytes_per_s * link->level_weight;
    link->weight -= link->level_weight;
    link->level_weight = 0;
}

static bool is_other_level(double a, double b)
{
    return a < b || a > b;
}

/* The rate at which the link is full, if those fixed at the present level count as still rising. */
static double link_share(struct link *link, double level)
{
    if (link->level_weight > 0) {
        if (!is_other_level(link->level_bytes_per_s, level) &&
            link->left_bytes_per_s <= level * (1 + SAME_RATE_REL) * link->weight) {
            return level;
        }
        end_level(link);
    }
    if (link->weight <= 0 || link->left_bytes_per_s <= 0) {
        return level; /* by rounding */
    }
    return link->left_bytes_per_s / link->weight;
}

static void fix_rate(struct flow_network *network, int64_t now_ps, uint32_t index, double bytes_per_s)
{
    struct flow *flow = flow_at(network, index);
    const struct path *path = &network->paths[flow->path];
    const struct path_hop *hops = path_hops(network, path);
    for (int i = 0; i < path->n_hops; i++) {
        struct link *link = &network->links[hops[i].link];
        if (!link->is_entered) {
            continue;
        }
        if (is_other_level(link->level_bytes_per_s, bytes_per_s)) {
            end_level(link);
            link->level_bytes_per_s = bytes_per_s;
        }
        link->level_weight += hops[i].weight;
        link->n_open--;
    }
    flow->is_open = false;
    flow_set_rate(network, now_ps, index, bytes_per_s);
}

static void order_wants(struct flow_network *network)
{
    for (size_t i = 0; i < network->open_flows.n; i++) {
        uint32_t index = network->open_flows.items[i];
        const struct flow *flow = flow_at(network, index);
        if (flow->is_open) {
            heap_append(network->arena, &network->capped, flow->want_bytes_per_s, index);
        }
    }
    heap_order(&network->capped);
    network->is_capped_built = true;
}

/* The flows that have what they want at this level or below. True if there were any. */
static bool fix_wants(struct flow_network *network, int64_t now_ps, double level)
{
    if (network->least_want_bytes_per_s > level) {
        return false;
    }
    if (!network->is_capped_built) {
        order_wants(network);
    }
    struct rank_heap *capped = &network->capped;
    bool any = false;
    while (capped->n > 0 && capped->items[0].key <= level) {
        struct ranked first = capped->items[0];
        heap_drop_first(capped);
        if (flow_at(network, first.index)->is_open) {
            fix_rate(network, now_ps, first.index, first.key);
            any = true;
        }
    }
    network->least_want_bytes_per_s = capped->n > 0 ? capped->items[0].key : (double)INFINITY;
    return any;
}

static void fix_members(struct flow_network *network, int64_t now_ps, struct link *link, double level)
{
    for (uint32_t i = 0; i < link->n_members && link->n_open > 0; i++) {
        struct member member = link->members[i];
        const struct flow *flow = flow_at(network, member.flow);
        if (is_member(flow, member) && flow->is_open) {
            fix_rate(network, now_ps, member.flow, level);
        }
    }
}

static void fill(struct flow_network *network, int64_t now_ps)
{
    struct rank_heap *filling = &network->filling;
    double level = 0;
    while (filling->n > 0) {
        struct ranked *first = &filling->items[0];
        struct link *link = &network->links[first->index];
        if (link->n_open == 0) {
            heap_drop_first(filling);
            continue;
        }
        double share = link_share(link, level);
        if (share > first->key * (1 + SAME_RATE_REL)) {
            first->key = share; /* others of its flows stopped rising before */
            sift_down(filling, 0);
            continue;
        }
        if (fix_wants(network, now_ps, share)) {
            continue;
        }
        level = share <= level * (1 + SAME_RATE_REL) ? level : share;
        fix_members(network, now_ps, link, level);
        heap_drop_first(filling);
    }
}

static void fill_entered(struct flow_network *network, int64_t now_ps)
{
    struct int_list *entered = &network->entered_links;
    network->filling.n = 0;
    network->capped.n = 0;
    network->is_capped_built = false;
    for (size_t i = 0; i < entered->n; i++) {
        const struct link *link = &network->links[entered->items[i]];
        heap_append(network->arena, &network->filling, link->left_bytes_per_s / link->weight, entered->items[i]);
    }
    heap_order(&network->filling);
    fill(network, now_ps);
    for (size_t i = 0; i < entered->n; i++) {
        network->links[entered->items[i]].is_entered = false;
    }
    entered->n = 0;
}

void flows_settle(struct flow_network *network, int64_t now_ps)
{
    resize_links(network);
    if (network->dirty_links.n == 0) {
        return;
    }
    materialise(network);
    enter_dirty_links(network, now_ps);
    explore(network, now_ps);
    fill_entered(network, now_ps);
}
