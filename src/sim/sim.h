/* sim: one optimizer step in discrete events.
 *
 * What it runs is the program of the step (step/step.h): each rank's kernels, collectives and hops, stream by stream, and what
 * they wait for. What it adds to the closed form is that ranks wait for each other and that flows share links: the time of a
 * collective alone is the estimate's (its curve or formula), its steps take that together when nothing else is on their links,
 * and longer when something is. docs/simulator.md says what is modelled and what is not.
 *
 * Ranks that provably behave alike are run once (fold.c); is_exact runs each of them. Times are int64_t picoseconds inside,
 * seconds outside. Everything a run returns lies in its arena.
 */
#ifndef SEQPLAN_SIM_H
#define SEQPLAN_SIM_H

#include "step/step.h"

/* ---- what is asked ---------------------------------------------------------------------------------------------- */

struct sim_slow_gpu {
    int64_t gpu;
    double speed; /* of every kernel there: 0.8 is 20 % slower. Above 0 */
};
struct sim_slow_link {
    const char *links; /* as topology_select() reads it */
    double share;      /* of its capacity that is left. Above 0 */
    double period_s;   /* flapping: in every period slow for slow_s, then whole; 0: always slow */
    double slow_s;
};

/* One stretch of time on a stream of a rank, as a trace shows it. */
struct sim_span {
    int64_t rank;
    enum program_stream stream;
    const char *name;
    enum time_item item;
    int64_t start_ps, duration_ps;
    int64_t micro_batch; /* -1: belongs to none */
    int64_t layer;       /* of the model, 0-based; -1 */
    enum step_pass pass;
    double bytes;       /* sent by the rank; 0 for kernels */
    int64_t waited_ps;  /* of it, from the rank's arrival to the last member's; 0 for kernels */
    int64_t delayed_ps; /* of it, beyond what the transfer takes alone: links were shared */
};
/* Called as spans end, in the order of their ends. memory: the bytes allocated on a rank from this time on. */
struct sim_sink {
    void *context;
    void (*span)(void *context, const struct sim_span *span);
    void (*memory)(void *context, int64_t rank, int64_t time_ps, double bytes);
};

struct sim_options {
    bool
        is_exact; /* every rank on its own, and every step of every collective, even where nothing shares their links */
    int chunks;   /* pieces that each step of a collective is sent in, at least 1 */
    double jitter_frac; /* each kernel takes 1 + x of its time, x exponential with this mean, seeded */
    uint64_t seed;
    double background_frac; /* of every network link's capacity that others use */
    int n_slow_gpus, n_slow_links;
    const struct sim_slow_gpu *slow_gpus;
    const struct sim_slow_link *slow_links;
    const struct step_program *program; /* to run instead of the question's own; NULL: that one */
    const struct sim_sink *sink;                       /* or NULL */
    void (*progress)(void *context, double done_frac); /* or NULL: called now and then */
    void *progress_context;
};

/* ---- what comes out --------------------------------------------------------------------------------------------- */

/* What a compute stream waits for. Names: sim_wait_names[]. */
enum sim_wait {
    SIM_WAIT_TP, /* a transfer of this axis, at work */
    SIM_WAIT_SP,
    SIM_WAIT_DP,
    SIM_WAIT_PP,
    SIM_WAIT_EP,
    SIM_WAIT_PEER,    /* others of a group that have not come yet */
    SIM_WAIT_STAGE,   /* an input from another stage of the pipeline that is not made yet: the bubble */
    SIM_WAIT_OFFLOAD, /* copies to and from the host */
    SIM_WAIT_HOST,    /* the host's launches */
    SIM_WAIT_END,     /* nothing left to do while others end the step */
    N_SIM_WAITS
};
extern const char *const sim_wait_names[]; /* "tp", "sp", ..., NULL */

struct sim_rank { /* ranks that behave alike: one of them */
    int64_t rank, count, stage;
    double busy_s;               /* of its compute stream: kernels */
    double waits_s[N_SIM_WAITS]; /* busy and waits add up to the step */
    double peak_bytes;           /* allocated by the framework, as peak_allocated_bytes of an estimate */
};

struct sim_resource { /* a GPU's compute stream or a link; those that behave alike are one */
    const char *name; /* "gpu 3 compute", "node 2 nic 5 out" */
    int64_t count;
    bool is_link;
    double busy_frac;            /* of the step */
    double bytes;                /* that a link carried */
    double capacity_bytes_per_s; /* of a link, disturbed or not */
    double contended_frac;       /* of the step: its flows wanted more than it carries */
    uint16_t axes;               /* bit of enum axis: whose transfers met there; 0: nobody met */
};

/* Shares of the critical path: the chain of kernels and transfers, each of which waited for the one before, that ends last. */
struct sim_critical_item {
    enum time_item item;
    double time_s;    /* on the path */
    double delayed_s; /* of it: links were shared */
};

struct sim_axis_delay { /* what sharing of links added to the transfers of an axis, mean over the ranks */
    double transfer_s;  /* time of its transfers */
    double delayed_s;   /* of it, beyond what they take alone */
    double waited_s;    /* and before them, for members that came later */
};

struct sim_peak { /* the largest allocation of all ranks */
    int64_t rank, stage;
    double time_s;
    double allocated_bytes; /* as peak_allocated_bytes of an estimate */
    double peak_bytes;      /* with what lies outside the allocator: as peak_bytes */
    enum moment moment;
    int64_t layer, micro_batch; /* at work, of the model; -1 */
    double micro_batches_held;  /* whose activations are saved, in units of the stage */
    double state_bytes, gradient_bytes, saved_bytes, work_bytes; /* add up to allocated_bytes: weights, optimizer and
                                    workspaces; gradients; activations saved by micro-batches; the moment's own */
};

struct sim_result {
    double step_time_s;
    uint64_t events; /* starts and ends of tasks and of flows that were run */
    double elapsed_s;
    int64_t n_classes; /* of ranks */
    int n_ranks;
    struct sim_rank *ranks;
    int n_resources;
    struct sim_resource *resources; /* GPUs first, then links that carried something */
    int n_critical;
    struct sim_critical_item critical[N_TIME_ITEMS]; /* largest first; they add up to the step */
    struct sim_axis_delay delays[N_AXES];
    struct sim_peak peak;
    double sent_bytes, received_bytes; /* over all ranks: equal */
};

/* Runs the step of a legal question (asserts that it is). SP_ERROR_USAGE for a link or GPU that is not there; SP_ERROR_BUG when
 * no rank can go on, naming the members of the cycle. */
bool sim_run(const struct question *question, const struct sim_options *options, struct sp_arena *arena,
             struct sim_result *result, struct sp_error *err) SP_MUST_CHECK;

#endif
