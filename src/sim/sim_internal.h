/* Inside the simulator: the state of a run. Everything is by class: of ranks (which stand for their likes), of groups, of edges
 * (fold.h). Times are picoseconds. */
#ifndef SEQPLAN_SIM_INTERNAL_H
#define SEQPLAN_SIM_INTERNAL_H

#include "sim/cluster.h"
#include "sim/flows.h"

enum { NONE = -1 };

/* Kinds of events. */
enum event_of {
    EVENT_KERNEL, /* of a rank: its kernel ends */
    EVENT_PHASE,  /* of a collective: a phase that nothing disturbed ends */
    EVENT_EDGE,   /* the latency of a collective's message is over: slot of an edge */
    EVENT_HOP,    /* the same of a message between two ranks: channel */
    EVENT_STAGE,  /* the same of a message to another stage: channel */
    EVENT_COPY,   /* the same of a copy to or from the host */
    EVENT_LINK    /* a flapping link changes: index of the disturbance */
};

#define PS_PER_S 1e12
/* A delay below it is rounding: each step of a transfer ends at the next picosecond. */
enum { LEAST_DELAY_PS = 1000 };

/* Who owns a flow: kind and number in one word. */
enum { OWNER_KIND_SHIFT = 56 };
enum owner_kind { OWNER_EDGE, OWNER_RESERVATION, OWNER_HOP, OWNER_STAGE, OWNER_COPY };
static inline uint64_t flow_owner(enum owner_kind kind, uint64_t number)
{
    return (uint64_t)kind << OWNER_KIND_SHIFT | number;
}

/* Time on the critical path that leads to a point, by what was at work. */
struct path {
    double time_ps[N_TIME_ITEMS];
    double delayed_ps[N_TIME_ITEMS];
};

/* Operations of one segment on one kind of rank, by stream. */
struct run_ops {
    const struct program_ops *ops;
    int32_t *by_stream[N_PROGRAM_STREAMS]; /* indexes of its operations */
};

/* ---- ranks ------------------------------------------------------------------------------------------------------ */

enum stream_status { STREAM_OVER, STREAM_BLOCKED, STREAM_RUNNING };
struct stream_state {
    enum stream_status status;
    int32_t entry, ordinal; /* of the next operation that has not ended */
    int64_t since_ps;       /* in this status */
    int64_t transfer_ps;    /* begin of the transfer of the operation at work, or of the last one */
    double alone_ps;        /* what that takes alone */
};

struct mailbox { /* messages of one key from another stage */
    int64_t sent, arrived, taken;
    int64_t sent_ps; /* begin of the last one's transfer */
    struct path path;
};

struct rank_state {
    const struct stage_program *program;
    struct run_ops *segments; /* by segment, of its position */
    double speed;
    struct stream_state streams[N_PROGRAM_STREAMS];
    struct path paths[N_PROGRAM_STREAMS]; /* to the last operation begun there */
    int last_stream;                      /* on which an operation ended last */
    uint8_t used[N_PROGRAM_STREAMS];      /* indexes of the streams that it uses */
    int n_used;
    bool is_queued;
    /* the kernel at work */
    bool has_kernel;
    double kernel_left_ps; /* at full speed */
    double kernel_rate;
    int64_t kernel_at_ps; /* when `left` held */
    uint32_t kernel_version;
    double sms_taken; /* share of the SMs that transfers beside it hold */
    uint64_t n_kernels;
    struct mailbox *mailboxes; /* by key */
    /* memory */
    double saved_bytes, saved_cap_bytes, gradient_bytes, work_bytes, held_bytes;
    /* records */
    double busy_ps, waits_ps[N_SIM_WAITS];
    double transfer_ps[N_AXES], delayed_ps[N_AXES], waited_ps[N_AXES];
    double sent_bytes, received_bytes;
    double peak_bytes;
    int64_t end_ps;
};

/* ---- messages between two ranks --------------------------------------------------------------------------------- */

struct message { /* latency, then bytes on the wire at the rate at which both take what the transfer takes alone */
    int64_t latency_ps;
    double bytes, cap_bytes_per_s;
};

/* A sender's messages to a receiver, one at a time: one of each edge class, and behind them one of each stream of a rank for
 * copies to and from its host. */
struct channel {
    int32_t edge;
    const struct program_transfer *transfer;
    bool is_sending, is_receiving; /* its end has come to the point */
    int send_stream, receive_stream;
    struct message message;
    int64_t start_ps;
    int16_t key; /* of a message to another stage */
    double bytes;
    int32_t flow;
};

/* ---- collectives ------------------------------------------------------------------------------------------------ */

enum { MAX_PHASES = 3 };
struct phase {
    bool uses_inner, uses_outer, uses_pairs;
    bool is_trees; /* steps: pieces that go up and down, one behind the other; and depth of the trees */
    int steps, depth;
    double inner_bytes, outer_bytes, pair_bytes, tree_bytes; /* of a step, on each edge */
    double step_ps;                                          /* alone */
};

struct collective_edge {
    int32_t edge;     /* class */
    int32_t from, to; /* nodes */
    enum edge_purpose purpose;
    int tree, offset;            /* of a tree: which, and steps before its first piece comes */
    struct message first, later; /* of the chunks of a step */
    int32_t flow;
    int32_t done; /* messages arrived */
    bool is_sending;
};
struct collective_node {
    int32_t rank; /* class */
    bool has_come, has_ended;
    int n_out, n_in;
    int32_t *out, *in; /* edges */
};
/* One communicator of a group class on one stream: runs one collective at a time. */
struct communicator {
    int32_t group;
    int stream;
    int n_nodes, n_edges;
    struct collective_node *nodes;
    struct collective_edge *edges;
    int32_t first_slot;                             /* of its edges among all */
    const struct program_transfer *transfer, *next; /* at work; that members come for */
    int n_come, n_ended;
    int64_t start_ps, phase_ps; /* begin of the whole, of the phase */
    int n_phases, phase;
    struct phase phases[MAX_PHASES];
    int chunks;      /* of a step, in this phase */
    bool is_leaping; /* its steps pass undisturbed: their links are reserved */
    uint32_t version;
    int n_edges_left; /* of the phase, not through */
    struct path path;
};

/* ---- run -------------------------------------------------------------------------------------------------------- */

struct simulator {
    const struct question *question;
    const struct sim_options *options;
    struct sp_arena *arena;
    struct step_program program;
    struct cluster cluster;
    struct event_queue *queue;
    struct flow_network *network;
    int64_t now_ps;
    uint64_t n_tasks; /* started */
    struct rank_state *ranks;
    struct channel *channels;
    int32_t *edge_path; /* by edge class */
    double *edge_rate;  /* by edge class: what one flow of its like gets of its links at most */
    double *edge_latency_s;
    int32_t **edges_from,
        **edges_to; /* by class of ranks: edge classes that leave it and come to it, NONE at the end */
    int n_collectives, n_slots;
    struct communicator **collectives;           /* by number */
    int32_t (*collective_of)[N_PROGRAM_STREAMS]; /* by class of groups: number, NONE */
    struct slot {
        int32_t collective, edge;
    } * slots;
    /* ranks that may be able to go on */
    int n_ready;
    int32_t *ready;
    int n_over; /* ranks whose program has ended */
    int64_t end_ps;
    int last_rank; /* class that ended last */
    /* disturbances */
    double *capacities;    /* by link class */
    bool *is_slow;         /* by disturbance: of a flapping link, now */
    const uint64_t *salts; /* by link of the topology: bit d, flapping disturbance d hits it */
    struct sim_peak peak;
    const double *nominal; /* capacity by link class, undisturbed */
};

/* ranks.c */
void sim_ranks_open(struct simulator *sim);
void rank_wake(struct simulator *sim, int32_t rank);
void ranks_pump(struct simulator *sim); /* starts whatever can start now */
/* The operation at work on a stream ends. transfer_delay_ps: beyond what it takes alone. */
void rank_end(struct simulator *sim, int32_t rank, int stream);
void rank_kernel_end(struct simulator *sim, int32_t rank, uint32_t version);
const struct program_op *rank_op(const struct simulator *sim, int32_t rank, int stream);
void rank_hold_sms(struct simulator *sim, int32_t rank, double share); /* negative: lets them go */

/* transfers.c */
void transfers_open(struct simulator *sim);
int32_t find_edge(const struct simulator *sim, int32_t from, int32_t type);
struct message message_of(const struct simulator *sim, int32_t edge, double bytes, double time_ps);
void hop_come(struct simulator *sim, int32_t rank, int stream, const struct program_op *op);
void stage_send(struct simulator *sim, int32_t rank, const struct program_op *op, const struct program_entry *entry);
void host_copy(struct simulator *sim, int32_t rank, int stream, const struct program_op *op);
void channel_flow(struct simulator *sim, int32_t number, enum owner_kind kind);
void channel_end(struct simulator *sim, int32_t number, enum owner_kind kind);
void start_flow(struct simulator *sim, int32_t edge, const struct message *message, uint64_t owner, enum axis axis,
                int32_t *flow);

/* collectives.c */
void collectives_open(struct simulator *sim);
void collective_come(struct simulator *sim, int32_t rank, int stream, const struct program_op *op);
void collective_phase_end(struct simulator *sim, int32_t number, uint32_t version);
void collective_edge_flow(struct simulator *sim, int32_t slot); /* its latency is over */
void collective_edge_end(struct simulator *sim, int32_t slot);  /* its flow has ended */
void collective_contended(struct simulator *sim, int32_t number);

/* memory.c */
void memory_enter(struct simulator *sim, int32_t rank, const struct program_entry *entry);
void memory_leave(struct simulator *sim, int32_t rank, const struct program_entry *entry);
void memory_at(struct simulator *sim, int32_t rank, const struct program_entry *entry, const struct program_op *op);

/* records.c */
void record_kernel(struct simulator *sim, int32_t rank, const struct program_op *op, int64_t start_ps);
void record_transfer(struct simulator *sim, int32_t rank, int stream, const struct program_op *op);
void record_wait(struct simulator *sim, int32_t rank, int64_t from_ps);
void records_collect(struct simulator *sim, struct sim_result *result);

/* deadlock.c */
bool deadlock_report(const struct simulator *sim, struct sp_error *err);

#endif
