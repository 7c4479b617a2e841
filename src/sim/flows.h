/* Flows on shared links: a fluid network whose flows run at their max-min fair rates, on a queue of events.
 *
 * Time is int64_t picoseconds. Events have a total order: time, then the sequence in which they were posted. Rates are bytes
 * per second; what a flow has left is a double. A flow ends at the first picosecond at or after its last byte.
 *
 * Many events share an instant (ranks in step with each other), so the queue keeps one bucket a distinct time and a heap of
 * distinct times; posting into a bucket that exists costs no more than an append. Fair rates are recomputed once an instant
 * (flows_settle()), for the flows that the links changed since can reach, and for nobody else.
 */
#ifndef SEQPLAN_SIM_FLOWS_H
#define SEQPLAN_SIM_FLOWS_H

#include "base/base.h"

/* ---- events (event_queue.c) ------------------------------------------------------------------------------------- */

enum { EVENT_KIND_BITS = 4 };
struct event {
    uint32_t kind; /* the poster's own, below 2^EVENT_KIND_BITS; EVENT_FLOW_END is the network's */
    uint32_t index;
    uint32_t version; /* of what the index names: raised by the poster, it makes earlier events void; 28 bits */
};
enum { EVENT_FLOW_END = 15 };

struct event_queue;
/* Memory is the arena's; freed buckets are used again. */
struct event_queue *event_queue_open(struct sp_arena *arena);
/* time_ps must not lie before the last event taken (asserts). */
void event_post(struct event_queue *queue, int64_t time_ps, struct event event);
/* The earliest time, false when empty. */
bool event_next_time(const struct event_queue *queue, int64_t *time_ps);
/* Takes the earliest event of exactly time_ps, the first posted first, those posted while that instant is handled included;
 * false when there is none. */
bool event_take(struct event_queue *queue, int64_t time_ps, struct event *event);

/* ---- network (flows.c) ------------------------------------------------------------------------------------------ */

struct flow_network;

/* One link that a path crosses. weight: how many flows alike cross it for each flow of the path (folded symmetric ranks), or
 * the share of a flow's bytes that the wire really carries (reduction inside a switch). Positive. */
struct path_hop {
    int32_t link;
    double weight;
};
enum { MAX_PATH_HOPS = 12 };

/* What a flow wants is its cap, or what the slowest link of its path gives it alone, if that is less: a flow never contends
 * with itself, however slow a link. What a reservation (below) wants is its cap, which is finite.
 *
 * `contended` is called from flows_settle(), before rates are computed, for each reservation that lies on a link whose flows
 * together want more than it carries, with the reservation's owner: it must end that reservation (flow_stop) and may start
 * flows in its place. May be NULL where there are no reservations. */
typedef void (*flow_contended_fn)(void *context, uint64_t owner);
struct flow_network *flow_network_open(struct sp_arena *arena, struct event_queue *queue, flow_contended_fn contended,
                                       void *context);
int32_t flow_network_add_link(struct flow_network *network, double bytes_per_s); /* finite */
/* Takes effect at the next flows_settle(). 0 stops what flows there. */
void flow_network_set_capacity(struct flow_network *network, int32_t link, double bytes_per_s);
/* A path of no hops is limited by the flow's cap alone. A link that comes twice counts with both weights. Copies. */
int32_t flow_network_add_path(struct flow_network *network, const struct path_hop *hops, int n_hops);

struct flow_spec {
    int32_t path;
    double bytes; /* 0: ends at once, in this instant, and is on no link; INFINITY: is there until it is stopped */
    double cap_bytes_per_s; /* what its own protocol reaches at most; INFINITY: no limit (then the path has a link) */
    uint64_t owner;         /* the caller's */
    uint8_t tag;            /* 0 to 15: who it is, for the record of who shares a link with whom */
    bool is_reservation;    /* stands for flows at full cap; see flow_contended_fn */
};
/* Starts at the queue's present instant, now_ps; its rate is known after flows_settle(). Returns its number, which is used
 * again after its end. Posts EVENT_FLOW_END when the end is known, and again whenever it changes. */
int32_t flow_start(struct flow_network *network, int64_t now_ps, const struct flow_spec *spec);
/* Takes an EVENT_FLOW_END. False when the event is void (the end has moved since, or the flow was stopped). Else the flow has
 * left its links and *owner is set. */
bool flow_finish(struct flow_network *network, int64_t now_ps, const struct event *event, uint64_t *owner);
/* Ends it early; returns the bytes that it had left. */
double flow_stop(struct flow_network *network, int64_t now_ps, int32_t flow);
/* Fair rates for what has changed in this instant. Call when no event of now_ps is left; may post events, also of now_ps. */
void flows_settle(struct flow_network *network, int64_t now_ps);

/* Of one link over the whole run; a flow's bytes count with its weight. */
struct link_record {
    double bytes;
    int64_t busy_ps;      /* at least one flow (or reservation) on it */
    int64_t contended_ps; /* its flows wanted more than it carries */
    uint16_t tags;        /* bit t: a flow of tag t was there while it was contended and shared with another tag */
};
/* Up to now_ps. */
struct link_record flow_network_link(const struct flow_network *network, int32_t link, int64_t now_ps);
uint64_t flow_network_count(const struct flow_network *network); /* flows started, reservations not counted */

#endif
