/* Inside of the network, for flow_links.c (links and paths), flows.c (flows come and go) and fair_share.c (their rates).
 *
 * What a flow wants is its cap, or what the slowest link of its path would give it alone, if that is less. A link whose flows
 * want no more than it carries can never hold one back; only the others, the tight ones, take part in fair sharing. */
#ifndef SEQPLAN_SIM_FLOW_NETWORK_H
#define SEQPLAN_SIM_FLOW_NETWORK_H

#include "sim/flows.h"

/* Of both rates and shares: closer than this is the same. */
#define SAME_RATE_REL 1e-12
/* What rounding in the running sums of wants may add to them without making a link tight. */
#define TIGHT_REL 1e-9
#define PS_PER_S 1e12

enum { FLOWS_A_CHUNK = 1024, VERSION_MASK = (1 << (32 - EVENT_KIND_BITS)) - 1 };

struct flow {
    double rate_bytes_per_s;
    double left_bytes; /* at since_ps */
    int64_t since_ps;
    double want_bytes_per_s;
    double cap_bytes_per_s;
    uint64_t owner;
    int32_t path;
    uint32_t version; /* of its end: raised when the end moves, and when the number is given to another flow */
    uint32_t serial;  /* raised when the number is given to another flow */
    uint8_t tag;
    bool is_live : 1;
    bool is_reservation : 1;
    bool is_on_links : 1; /* false for a flow of no bytes */
    bool is_open : 1;     /* in flows_settle(): its rate is to be found */
};

/* A flow on a link. One that has ended stays behind until the link is next looked through, and is known by its serial. */
struct member {
    uint32_t flow;
    uint32_t serial;
};

struct path {
    double solo_bytes_per_s; /* what its slowest link would give one flow alone */
    uint32_t epoch;          /* of the capacities that this was computed from */
    uint32_t first_hop;
    int n_hops;
};

struct link {
    double want_bytes_per_s;  /* sum over its flows, with their weights */
    double tight_bytes_per_s; /* more than this cannot be carried */
    struct member *members;
    uint32_t n_members;
    uint32_t max_members;
    uint32_t n_flows; /* members that have not ended */
    uint32_t n_reservations;
    bool is_tight;   /* since the last flows_settle() */
    bool is_dirty;   /* on the list of what has changed in this instant */
    bool is_entered; /* in flows_settle(): among the links to be filled */
    bool has_new_capacity;
    double capacity_bytes_per_s;
    double new_capacity_bytes_per_s;
    /* While filling: what was left for the flows whose rate was still open when the present level began, their weight, and
     * the weight of those whose rate became the level. */
    double left_bytes_per_s;
    double weight;
    double level_bytes_per_s;
    double level_weight;
    uint32_t n_open;
    uint16_t tags; /* of its flows, while it is tight */
    int64_t busy_since_ps;
    int64_t tight_since_ps;
    struct link_record record;
};

struct int_list {
    uint32_t *items;
    size_t n;
    size_t max;
};

struct ranked {
    double key;
    uint32_t index;
};
/* Smallest key first. */
struct rank_heap {
    struct ranked *items;
    size_t n;
    size_t max;
};

struct flow_network {
    struct sp_arena *arena;
    struct event_queue *queue;
    flow_contended_fn contended;
    void *context;
    uint64_t n_started;
    struct flow **chunks; /* of FLOWS_A_CHUNK flows, which never move */
    size_t max_chunks;
    uint32_t n_flows; /* numbers given out */
    struct int_list free_flows;
    struct path *paths;
    size_t n_paths;
    size_t max_paths;
    struct path_hop *hops;
    size_t n_hops;
    size_t max_hops;
    struct link *links;
    size_t n_links;
    size_t max_links;
    uint32_t epoch; /* raised when a capacity changes */
    struct int_list dirty_links;
    struct int_list resized_links;
    /* Of one flows_settle(). */
    struct int_list entered_links;
    struct int_list open_flows;
    struct int_list reservations;
    struct rank_heap filling;
    struct rank_heap capped;
    bool is_capped_built;
    double least_want_bytes_per_s; /* of the flows whose rate is open */
};

static inline struct flow *flow_at(const struct flow_network *network, uint32_t index)
{
    return &network->chunks[index / FLOWS_A_CHUNK][index % FLOWS_A_CHUNK];
}

/* Bytes since its rate was last set. */
static inline double flow_sent_since(const struct flow *flow, int64_t now_ps)
{
    double sent = flow->rate_bytes_per_s * ((double)(now_ps - flow->since_ps) / PS_PER_S);
    return sent < flow->left_bytes ? sent : flow->left_bytes;
}

static inline bool is_member(const struct flow *flow, struct member member)
{
    return flow->serial == member.serial;
}

void int_list_add(struct sp_arena *arena, struct int_list *list, uint32_t item);
/* An array of at least n_wanted items, with what was there; *max is how many it has room for. */
void *array_grow(struct sp_arena *arena, void *items, size_t item_size, size_t n_wanted, size_t *max);

/* The time since it became tight, up to now. */
void link_count_tight(const struct link *link, int64_t now_ps, struct link_record *record);
void link_mark_dirty(struct flow_network *network, uint32_t index);
void link_add_member(struct flow_network *network, uint32_t index, struct member member);
/* Takes those that have ended off its members. */
void link_drop_ended(const struct flow_network *network, struct link *link);
/* The sum of what its flows want, without the rounding of a running sum. */
void link_sum_wants(const struct flow_network *network, uint32_t index);
/* What its slowest link gives one flow alone. */
double path_solo(const struct flow_network *network, struct path *path);
double flow_want(const struct flow_network *network, const struct flow *flow);
/* Counts what was sent up to now. */
void flow_advance(struct flow_network *network, int64_t now_ps, struct flow *flow);
/* From now on; posts the new end if the rate is another one. */
void flow_set_rate(struct flow_network *network, int64_t now_ps, uint32_t index, double bytes_per_s);

/* The hops of a path; of one without hops nothing that may be read, nor moved. */
static inline const struct path_hop *path_hops(const struct flow_network *network, const struct path *path)
{
    return path->n_hops > 0 ? &network->hops[path->first_hop] : NULL;
}

#endif
