/* One run: opens ranks, links and transfers, takes events in their order, and settles the rates of flows once an instant. */
#include "sim/sim_internal.h"

#include <math.h>
#include <string.h>
#include <time.h>

/* ---- disturbances ----------------------------------------------------------------------------------------------- */

static bool is_network_link(const struct topology_link *link)
{
    return link->kind == LINK_NIC_IN || link->kind == LINK_NIC_OUT || link->kind == LINK_LEAF_UP ||
           link->kind == LINK_LEAF_DOWN;
}

/* Shares of links that disturbances leave, and who of them flaps: bit d of a salt is disturbance d. */
struct disturbed {
    struct topology topology;
    double *capacities, *speeds;
    uint64_t *salts;
};

/* What integer picoseconds and the sums of rates can still tell apart, with room. */
static const double LEAST_SHARE = 1e-4;
static const double SHORTEST_PERIOD_S = 1e-4;
static const double LONGEST_PERIOD_S = 1e5;

static bool check_disturbances(const struct sim_options *options, struct sp_error *err)
{
    for (int d = 0; d < options->n_slow_gpus; d++) {
        if (options->slow_gpus[d].speed < LEAST_SHARE) {
            return sp_fail(err, SP_ERROR_USAGE, "gpu %lld at %g of its speed: %g is the slowest that is simulated",
                           (long long)options->slow_gpus[d].gpu, options->slow_gpus[d].speed, LEAST_SHARE);
        }
    }
    for (int d = 0; d < options->n_slow_links; d++) {
        const struct sim_slow_link *slow = &options->slow_links[d];
        bool is_period =
            slow->period_s <= 0 || (slow->period_s >= SHORTEST_PERIOD_S && slow->period_s <= LONGEST_PERIOD_S);
        if (slow->share < LEAST_SHARE || !is_period) {
            return sp_fail(err, SP_ERROR_USAGE,
                           "link %s: expected a share of %g at least and a period of 100us to 1d, found %g and %gs",
                           slow->links, LEAST_SHARE, slow->share, slow->period_s);
        }
    }
    return options->background_frac <= 1 - LEAST_SHARE ||
           sp_fail(err, SP_ERROR_USAGE, "background traffic of %g: %g is the most that leaves something",
                   options->background_frac, 1 - LEAST_SHARE);
}

static bool has_equal_stages(const struct question *question, struct sp_error *err)
{
    return layout_expert_stages_agree(&question->layout, &question->model, &question->hardware) ||
           sp_fail_rule(
               err, "expert_stages",
               "in this layout.order ranks of one group of experts belong to different stages; with pp %lld use an "
               "order that ends in pp",
               (long long)question->layout.pp);
}

static bool slow_links(const struct sim_options *options, struct sp_arena *arena, struct disturbed *disturbed,
                       struct sp_error *err)
{
    size_t n = (size_t)disturbed->topology.n_links;
    for (int d = 0; d < options->n_slow_links; d++) {
        const struct sim_slow_link *slow = &options->slow_links[d];
        bool *is_selected = sp_arena_array(arena, n + 1, sizeof(bool));
        if (!topology_select(&disturbed->topology, slow->links, is_selected, err)) {
            return false;
        }
        for (size_t l = 0; l < n; l++) {
            if (is_selected[l] && slow->period_s > 0) {
                disturbed->salts[l] |= UINT64_C(1) << d;
            } else if (is_selected[l]) {
                disturbed->capacities[l] *= slow->share;
            }
        }
    }
    return true;
}

static bool slow_gpus(const struct question *question, const struct sim_options *options, struct disturbed *disturbed,
                      struct sp_error *err)
{
    for (int d = 0; d < options->n_slow_gpus; d++) {
        const struct sim_slow_gpu *slow = &options->slow_gpus[d];
        if (slow->gpu < 0 || slow->gpu >= question->run.gpus) {
            return sp_fail(err, SP_ERROR_USAGE, "gpu %lld is not there: the cluster has %lld, 0 to %lld",
                           (long long)slow->gpu, (long long)question->run.gpus, (long long)question->run.gpus - 1);
        }
        disturbed->speeds[slow->gpu] *= slow->speed;
    }
    return true;
}

static bool disturb(const struct question *question, const struct sim_options *options, struct sp_arena *arena,
                    struct disturbed *disturbed, struct sp_error *err)
{
    topology_build(&question->hardware, question->run.gpus, arena, &disturbed->topology);
    size_t n_links = (size_t)disturbed->topology.n_links;
    size_t n_ranks = (size_t)question->run.gpus;
    disturbed->capacities = sp_arena_array(arena, n_links + 1, sizeof(double));
    disturbed->salts = sp_arena_array(arena, n_links + 1, sizeof(uint64_t));
    disturbed->speeds = sp_arena_array(arena, n_ranks, sizeof(double));
    for (size_t l = 0; l < n_links; l++) {
        const struct topology_link *link = &disturbed->topology.links[l];
        double left = is_network_link(link) ? 1 - options->background_frac : 1;
        disturbed->capacities[l] = left * link->bytes_per_s;
    }
    for (size_t r = 0; r < n_ranks; r++) {
        disturbed->speeds[r] = 1;
    }
    enum { MOST_SLOW_LINKS = 64 }; /* bits of a salt */
    if (options->n_slow_links > MOST_SLOW_LINKS) {
        return sp_fail(err, SP_ERROR_USAGE, "%d disturbed links: at most %d; name several at once, such as nic:2.*",
                       options->n_slow_links, MOST_SLOW_LINKS);
    }
    return slow_links(options, arena, disturbed, err) && slow_gpus(question, options, disturbed, err);
}

/* A flapping link begins whole and is slow in the last part of each period. */
static void flap(struct simulator *sim, int d)
{
    const struct sim_slow_link *slow = &sim->options->slow_links[d];
    const uint64_t *salts = sim->salts;
    sim->is_slow[d] = !sim->is_slow[d];
    for (int32_t l = 0; l < sim->cluster.folded.n_links; l++) {
        double share = 1;
        for (int other = 0; other < sim->options->n_slow_links; other++) {
            bool is_hit = (salts[sim->cluster.folded.link_first[l]] >> other & 1) != 0;
            share *= is_hit && sim->is_slow[other] ? sim->options->slow_links[other].share : 1;
        }
        if ((salts[sim->cluster.folded.link_first[l]] >> d & 1) != 0) {
            flow_network_set_capacity(sim->network, l, share * sim->capacities[l]);
        }
    }
    double next_s = sim->is_slow[d] ? slow->slow_s : slow->period_s - slow->slow_s;
    event_post(sim->queue, sim->now_ps + (int64_t)fmax(nearbyint(next_s * PS_PER_S), 1),
               (struct event){EVENT_LINK, (uint32_t)d, 0});
}

static void begin_flapping(struct simulator *sim)
{
    for (int d = 0; d < sim->options->n_slow_links; d++) {
        if (sim->options->slow_links[d].period_s > 0) {
            sim->is_slow[d] = true;
            flap(sim, d); /* to whole, and on from there */
        }
    }
}

/* ---- opening ---------------------------------------------------------------------------------------------------- */

static void on_contended(void *context, uint64_t owner)
{
    collective_contended(context, (int32_t)(owner & UINT32_MAX));
}

static void open_links(struct simulator *sim, const struct disturbed *disturbed)
{
    const struct folded *folded = &sim->cluster.folded;
    size_t n = (size_t)folded->n_links + 1;
    double *nominal = sp_arena_array(sim->arena, n, sizeof nominal[0]);
    sim->capacities = sp_arena_array(sim->arena, n, sizeof sim->capacities[0]);
    sim->network = flow_network_open(sim->arena, sim->queue, on_contended, sim);
    sim->is_slow = sp_arena_array(sim->arena, (size_t)sim->options->n_slow_links + 1, sizeof(bool));
    sim->salts = disturbed->salts;
    for (int32_t l = 0; l < folded->n_links; l++) {
        nominal[l] = sim->cluster.topology.links[folded->link_first[l]].bytes_per_s;
        sim->capacities[l] = disturbed->capacities[folded->link_first[l]];
        flow_network_add_link(sim->network, sim->capacities[l]);
    }
    sim->nominal = nominal;
}

static void open_run(struct simulator *sim, const struct disturbed *disturbed)
{
    bool is_unlike = sim->options->is_exact || sim->options->jitter_frac > 0;
    struct cluster_input input = {.capacities = disturbed->capacities,
                                  .speeds = disturbed->speeds,
                                  .link_salts = disturbed->salts,
                                  .is_exact = is_unlike};
    if (sim->options->program != NULL) {
        sim->program = *sim->options->program;
    } else {
        step_program(sim->question, sim->arena, &sim->program);
    }
    cluster_open(sim->question, &sim->program, &input, sim->arena, &sim->cluster);
    sim->queue = event_queue_open(sim->arena);
    open_links(sim, disturbed);
    sim->ranks = sp_arena_array(sim->arena, (size_t)sim->cluster.n_classes, sizeof sim->ranks[0]);
    for (int c = 0; c < sim->cluster.n_classes; c++) {
        sim->ranks[c].speed = disturbed->speeds[sim->cluster.folded.rank_first[c]];
    }
    transfers_open(sim);
    collectives_open(sim);
    sim_ranks_open(sim);
    begin_flapping(sim);
}

/* ---- the loop --------------------------------------------------------------------------------------------------- */

static void end_flow(struct simulator *sim, const struct event *event)
{
    uint64_t owner;
    if (!flow_finish(sim->network, sim->now_ps, event, &owner)) {
        return;
    }
    enum owner_kind kind = (enum owner_kind)(owner >> OWNER_KIND_SHIFT);
    int32_t number = (int32_t)(owner & UINT32_MAX);
    if (kind == OWNER_EDGE) {
        collective_edge_end(sim, number);
    } else {
        channel_end(sim, number, kind);
    }
}

static void handle(struct simulator *sim, const struct event *event)
{
    switch (event->kind) {
    case EVENT_KERNEL:
        rank_kernel_end(sim, (int32_t)event->index, event->version);
        break;
    case EVENT_PHASE:
        collective_phase_end(sim, (int32_t)event->index, event->version);
        break;
    case EVENT_EDGE:
        collective_edge_flow(sim, (int32_t)event->index);
        break;
    case EVENT_HOP:
        channel_flow(sim, (int32_t)event->index, OWNER_HOP);
        break;
    case EVENT_STAGE:
        channel_flow(sim, (int32_t)event->index, OWNER_STAGE);
        break;
    case EVENT_COPY:
        channel_flow(sim, (int32_t)event->index, OWNER_COPY);
        break;
    case EVENT_LINK:
        flap(sim, (int)event->index);
        break;
    default:
        end_flow(sim, event);
    }
}

/* Everything of one instant, then the rates of its flows, which may end some of them in the same instant. */
static void run_instant(struct simulator *sim)
{
    int64_t next;
    do {
        struct event event;
        while (event_take(sim->queue, sim->now_ps, &event)) {
            handle(sim, &event);
            ranks_pump(sim);
        }
        flows_settle(sim->network, sim->now_ps);
    } while (event_next_time(sim->queue, &next) && next == sim->now_ps);
}

static void tell_progress(const struct simulator *sim)
{
    int64_t done = 0;
    int64_t all = 0;
    for (int c = 0; c < sim->cluster.n_classes; c++) {
        done += sim->ranks[c].streams[STREAM_KERNELS].entry;
        all += sim->ranks[c].program->n_entries;
    }
    sim->options->progress(sim->options->progress_context, (double)done / (double)all);
}

static bool run(struct simulator *sim, struct sp_error *err)
{
    enum { INSTANTS_BETWEEN_TELLING = 1 << 12 };
    ranks_pump(sim);
    flows_settle(sim->network, 0);
    for (uint64_t i = 0; sim->n_over < sim->cluster.n_classes; i++) {
        if (!event_next_time(sim->queue, &sim->now_ps)) {
            return deadlock_report(sim, err);
        }
        run_instant(sim);
        if (sim->options->progress != NULL && i % INSTANTS_BETWEEN_TELLING == 0) {
            tell_progress(sim);
        }
    }
    sim->end_ps = sim->now_ps;
    return true;
}

static const double NS_PER_S = 1e9;

/* Runs of segments that a step has, at most: forward, backward and weight gradients of each layer of the model, with the gather,
 * the scatter or the copy beside each, and the ends and hops of each chunk. */
static double count_entries(const struct question *question)
{
    const struct layout_spec *layout = &question->layout;
    double micro_batches = (double)question->run.global_batch / (double)(layout->dp * layout->micro_batch);
    double passes = schedule_puts_off_weights(layout) ? 3 : 2;
    double beside = layout->zero >= 3 || layout->offloads_activations ? 3 : 1;
    double ends = (double)layout->pp * schedule_chunks(layout) * 4;
    return micro_batches * ((double)question->model.n_layers * passes * beside + ends);
}

/* What fits a machine of some gigabytes: an entry and what it is made from take about 200 bytes. */
static const double MOST_ENTRIES = 8e6;

static bool is_short_enough(const struct question *question, struct sp_error *err)
{
    double entries = count_entries(question);
    if (entries <= MOST_ENTRIES) {
        return true;
    }
    double batch = floor((double)question->run.global_batch * MOST_ENTRIES / entries);
    int64_t unit = question->layout.dp * question->layout.micro_batch;
    int64_t legal = (int64_t)batch / unit * unit;
    return sp_fail(err, SP_ERROR_USAGE,
                   "a step of %lld micro-batches has %.0f million runs of layers, too many to run one by one; %s%lld "
                   "shows the same step, shorter",
                   (long long)(question->run.global_batch / unit), entries / 1e6,
                   legal > 0 ? "--global-batch " : "fewer micro-batches than ", (long long)(legal > 0 ? legal : unit));
}

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / NS_PER_S;
}

bool sim_run(const struct question *question, const struct sim_options *options, struct sp_arena *arena,
             struct sim_result *result, struct sp_error *err)
{
    double begun_s = seconds_now();
    struct disturbed disturbed;
    *result = (struct sim_result){0};
    if (!is_short_enough(question, err) || !has_equal_stages(question, err) || !check_disturbances(options, err) ||
        !disturb(question, options, arena, &disturbed, err)) {
        return false;
    }
    struct simulator *sim = sp_arena_alloc(arena, sizeof *sim);
    *sim = (struct simulator){.question = question, .options = options, .arena = arena};
    open_run(sim, &disturbed);
    if (!run(sim, err)) {
        return false;
    }
    records_collect(sim, result);
    result->elapsed_s = seconds_now() - begun_s;
    return true;
}
