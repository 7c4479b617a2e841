/* Events a second of the network of flows, an event being a start or an end of a flow. */
#include "sim/flows.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROUNDS = 3 };

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
    int32_t first_path; /* of [from][to], or [from] on a ring */
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
    (void)expected_s;
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

static void bench(const char *name, int n_ranks, bool is_ring)
{
    double best_s = INFINITY;
    double n_events = 0;
    double setup_s = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct fabric fabric;
        double start = now_s();
        open_fabric(&fabric, n_ranks);
        for (int i = 0; i < n_ranks; i++) {
            for (int j = 0; j < (is_ring ? 1 : n_ranks); j++) {
                (void)add_path(&fabric, i, is_ring ? (i + 1) % n_ranks : j);
            }
        }
        double ready = now_s();
        n_events = is_ring ? run_ring(&fabric) : run_all_to_all(&fabric);
        double elapsed = now_s() - ready;
        if (elapsed < best_s) {
            best_s = elapsed;
            setup_s = ready - start;
        }
        sp_arena_close(fabric.arena);
    }
    printf("%-20s %9.0f events %8.3f s %7.2f M events/s (paths %.3f s)\n", name, n_events, best_s,
           n_events / best_s * 1e-6, setup_s);
}

int main(void)
{
    bench("ring, 1024 ranks", 1024, true);
    bench("all-to-all, 256", 256, false);
    bench("all-to-all, 1024", 1024, false);
    return 0;
}
