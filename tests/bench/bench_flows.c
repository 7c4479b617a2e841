/* Events a second of the network of flows, an event being a start or an end of a flow; the best of several rounds on one core.
 * Beside it, where it is installed, SimGrid on the same pattern (tests/oracle/oracle_simgrid.cpp), once and for a minute at
 * most. Run alone, from the root of the tree. */
#include "sim/flows.h"
#include "support/support.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 5, SIMGRID_SECONDS = 60 };
#define SIMGRID "build/oracle/oracle_simgrid"

static const double LINK_BYTES_PER_S = 50e9;
static const double BLOCK_BYTES = 3.1e6;

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

struct fabric {
    struct sp_arena *arena;
    struct event_queue *queue;
    struct flow_network *network;
    int n_ranks;
};

/* A link out of each rank and one into each, as from a switch that never blocks. */
static void open_fabric(struct fabric *fabric, int n_ranks)
{
    fabric->arena = sp_arena_open();
    fabric->queue = event_queue_open(fabric->arena);
    fabric->network = flow_network_open(fabric->arena, fabric->queue, NULL, NULL);
    fabric->n_ranks = n_ranks;
    for (int i = 0; i < 2 * n_ranks; i++) {
        (void)flow_network_add_link(fabric->network, LINK_BYTES_PER_S);
    }
}

static int32_t add_path(struct fabric *fabric, int from, int to)
{
    struct path_hop hops[] = {{from, 1}, {fabric->n_ranks + to, 1}};
    return flow_network_add_path(fabric->network, hops, 2);
}

/* Every rank to every other, all at once. Returns events. */
static double run_all_to_all(struct fabric *fabric)
{
    int n = fabric->n_ranks;
    double n_events = 0;
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) {
            if (i != j) {
                struct flow_spec spec = {i * n + j, BLOCK_BYTES, INFINITY, 0, 0, false};
                (void)flow_start(fabric->network, 0, &spec);
                n_events++;
            }
        }
    }
    flows_settle(fabric->network, 0);
    int64_t time_ps = 0;
    while (event_next_time(fabric->queue, &time_ps)) {
        struct event event;
        uint64_t owner = 0;
        while (event_take(fabric->queue, time_ps, &event)) {
            n_events += flow_finish(fabric->network, time_ps, &event, &owner);
        }
        flows_settle(fabric->network, time_ps);
    }
    double expected_s = BLOCK_BYTES * (n - 1) / LINK_BYTES_PER_S;
    assert(fabs((double)time_ps * 1e-12 / expected_s - 1) < 1e-9);
    return n_events;
}

/* A rank passes on what it received; each waits for its own send and for its neighbour's block. */
static double run_ring(struct fabric *fabric)
{
    int n = fabric->n_ranks;
    double n_events = 0;
    int *done = sp_arena_array(fabric->arena, (size_t)n, sizeof(int)); /* halves of steps */
    struct flow_spec spec = {0, BLOCK_BYTES, INFINITY, 0, 0, false};
    for (int i = 0; i < n; i++) {
        spec.path = i;
        spec.owner = (uint64_t)i;
        (void)flow_start(fabric->network, 0, &spec);
        n_events++;
    }
    flows_settle(fabric->network, 0);
    int64_t time_ps = 0;
    while (event_next_time(fabric->queue, &time_ps)) {
        struct event event;
        uint64_t owner = 0;
        while (event_take(fabric->queue, time_ps, &event)) {
            if (!flow_finish(fabric->network, time_ps, &event, &owner)) {
                continue;
            }
            n_events++;
            int ranks[] = {(int)owner, ((int)owner + 1) % n};
            for (int k = 0; k < 2; k++) {
                int rank = ranks[k];
                if (++done[rank] % 2 == 0 && done[rank] / 2 < n - 1) {
                    spec.path = rank;
                    spec.owner = (uint64_t)rank;
                    (void)flow_start(fabric->network, time_ps, &spec);
                    n_events++;
                }
            }
        }
        flows_settle(fabric->network, time_ps);
    }
    assert(fabs((double)time_ps * 1e-12 / (BLOCK_BYTES * (n - 1) / LINK_BYTES_PER_S) - 1) < 1e-9);
    return n_events;
}

/* Each rank always sends one block to some other rank, of a size of its own: ends come one by one, and each changes the rates
 * of whatever shares a link with it, over links with others. */
static double run_pairs(struct fabric *fabric)
{
    enum { BLOCKS_A_RANK = 401 };
    int n = fabric->n_ranks;
    double n_events = 0;
    uint64_t random = 40;
    int *sent = sp_arena_array(fabric->arena, (size_t)n, sizeof(int));
    for (int i = 0; i < n; i++) {
        struct flow_spec spec = {i * n + (i + 1) % n, BLOCK_BYTES + i, INFINITY, (uint64_t)i, 0, false};
        (void)flow_start(fabric->network, 0, &spec);
        n_events++;
    }
    flows_settle(fabric->network, 0);
    int64_t time_ps = 0;
    while (event_next_time(fabric->queue, &time_ps)) {
        struct event event;
        uint64_t owner = 0;
        while (event_take(fabric->queue, time_ps, &event)) {
            if (!flow_finish(fabric->network, time_ps, &event, &owner)) {
                continue;
            }
            n_events++;
            if (++sent[owner] < BLOCKS_A_RANK) {
                int to = (int)(next_random(&random) % (uint64_t)n);
                double bytes = BLOCK_BYTES * (1 + (double)(next_random(&random) % 1000) * 1e-3);
                struct flow_spec spec = {(int)owner * n + to, bytes, INFINITY, owner, 0, false};
                (void)flow_start(fabric->network, time_ps, &spec);
                n_events++;
            }
        }
        flows_settle(fabric->network, time_ps);
    }
    return n_events;
}

/* ---- the table -------------------------------------------------------------------------------------------------- */

struct case_of_bench {
    const char *name;
    int n_ranks;
    double (*run)(struct fabric *fabric);
    const char *simgrid; /* how SimGrid's side is asked for it, or NULL */
};

static void bench(const struct case_of_bench *of)
{
    double best_s = INFINITY;
    double n_events = 0;
    double setup_s = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct fabric fabric;
        double start = now_s();
        open_fabric(&fabric, of->n_ranks);
        bool is_ring = of->run == run_ring;
        for (int i = 0; i < of->n_ranks; i++) {
            for (int j = 0; j < (is_ring ? 1 : of->n_ranks); j++) {
                (void)add_path(&fabric, i, is_ring ? (i + 1) % of->n_ranks : j);
            }
        }
        double ready = now_s();
        n_events = of->run(&fabric);
        double elapsed_s = now_s() - ready;
        if (elapsed_s < best_s) {
            best_s = elapsed_s;
            setup_s = ready - start;
        }
        sp_arena_close(fabric.arena);
    }
    printf("%-22s %9.0f events %8.3f s %8.3f M events/s (and %.3f s to add the paths)\n", of->name, n_events, best_s,
           n_events / best_s * 1e-6, setup_s);
}

static void bench_simgrid(const struct case_of_bench *of)
{
    char command[256];
    (void)snprintf(command, sizeof(command), "timeout %d %s %s 2>&1", SIMGRID_SECONDS, SIMGRID, of->simgrid);
    (void)fflush(stdout);
    FILE *output = popen(command, "r");
    double n_events = 0;
    double elapsed_s = 0;
    bool is_done = output != NULL && fscanf(output, "%lf %lf", &n_events, &elapsed_s) == 2;
    if (output == NULL || pclose(output) != 0 || !is_done) {
        printf("  SimGrid: not done in %d s\n", SIMGRID_SECONDS);
        return;
    }
    printf("  SimGrid %23.0f events %8.3f s %8.3f M events/s\n", n_events, elapsed_s, n_events / elapsed_s * 1e-6);
}

int main(void)
{
    static const struct case_of_bench cases[] = {
        {"ring, 1024 ranks", 1024, run_ring, "ring 1024"},
        {"all-to-all, 256", 256, run_all_to_all, "all-to-all 256"},
        {"all-to-all, 1024", 1024, run_all_to_all, "all-to-all 1024"},
        {"random pairs, 61 ranks", 61, run_pairs, NULL},
        {"random pairs, 1000", 1000, run_pairs, NULL},
    };
    bool has_simgrid = access(SIMGRID, X_OK) == 0;
    if (!has_simgrid) {
        puts("SimGrid is not installed (tools/setup oracle): nothing to stand beside");
    }
    for (size_t i = 0; i < SP_COUNT_OF(cases); i++) {
        bench(&cases[i]);
        if (has_simgrid && cases[i].simgrid != NULL) {
            bench_simgrid(&cases[i]);
        }
    }
    return 0;
}
