/* Patterns of flows for two simulators, and the flows of src/sim on them.
 *
 * usage: oracle_flows write ring N | all-to-all N | random SEED >PATTERN
 *        oracle_flows run <PATTERN    prints the end of each flow in seconds, a line a flow
 *
 * A pattern is text: the number of links; bytes per second and latency of each; the number of flows; of each the delay after
 * the last of the flows before it, bytes, cap (0: none), how many earlier flows it waits for and which, how many links it
 * crosses and which. Sizes make it last seconds: SimGrid tells times of 10^-9 s apart. */
#include "sim/flows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- patterns --------------------------------------------------------------------------------------------------- */

/* Knuth's generator (MMIX); the high bits. */
static unsigned below(uint64_t *random, unsigned n)
{
    *random = *random * 6364136223846793005U + 1442695040888963407U;
    return (unsigned)(*random >> 33) % n;
}

/* Links of three speeds, so that the slow ranks hold the others up. */
static double rank_speed(int rank)
{
    static const double speeds[] = {1e9, 1.3e9, 0.7e9};
    return speeds[rank * 7 % 3];
}

/* All-gather: every rank passes on what it has received, n - 1 times. A block waits for the one before it from its rank, and
 * for its arrival at that rank. */
static void write_ring(int n)
{
    printf("%d\n", n);
    for (int i = 0; i < n; i++) {
        printf("%.17g %g\n", rank_speed(i), 0.003);
    }
    printf("%d\n", n * (n - 1));
    for (int step = 0; step < n - 1; step++) {
        for (int rank = 0; rank < n; rank++) {
            int before = (step - 1) * n;
            printf("0 %d 0 ", 61000000);
            if (step == 0) {
                printf("0 ");
            } else {
                printf("2 %d %d ", before + rank, before + (rank + n - 1) % n);
            }
            printf("1 %d\n", rank);
        }
    }
}

/* Links out of the ranks have the latency; those into them are fast by turns. */
static void write_all_to_all(int n)
{
    printf("%d\n", 2 * n);
    for (int i = 0; i < 2 * n; i++) {
        printf("%.17g %g\n", rank_speed(i), i < n ? 0.005 : 0);
    }
    printf("%d\n", n * (n - 1));
    for (int from = 0; from < n; from++) {
        for (int to = 0; to < n; to++) {
            if (from != to) {
                printf("0 %d 0 0 2 %d %d\n", 61000000 + 1000003 * (from % 5), from, n + to);
            }
        }
    }
}

/* A tenth waits for another flow; a third has a cap. Links in rising order, none twice. */
static void write_random(uint64_t seed)
{
    uint64_t random = seed;
    unsigned n_links = 3 + below(&random, 37);
    unsigned n_flows = 60 + below(&random, 240);
    printf("%u\n", n_links);
    for (unsigned i = 0; i < n_links; i++) {
        printf("%.17g 0\n", 1e8 * (1 + below(&random, 40)));
    }
    printf("%u\n", n_flows);
    for (unsigned i = 0; i < n_flows; i++) {
        printf("%.6f %u ", 1e-6 * below(&random, 9000000), 1000000 + below(&random, 999999937));
        printf("%.17g ", below(&random, 3) == 0 ? 1e7 * (1 + below(&random, 100)) : 0.0);
        if (i > 0 && below(&random, 10) == 0) {
            printf("1 %u ", below(&random, i));
        } else {
            printf("0 ");
        }
        unsigned n_hops = 1 + below(&random, n_links < 5 ? n_links : 5);
        unsigned step = n_links / n_hops;
        printf("%u", n_hops);
        for (unsigned h = 0; h < n_hops; h++) {
            printf(" %u", h * step + below(&random, step));
        }
        printf("\n");
    }
}

/* ---- the run ---------------------------------------------------------------------------------------------------- */

enum { EVENT_START = 1 };

struct pattern_flow {
    struct flow_spec spec;
    int64_t delay_ps; /* with the latency of its links */
    int n_before;     /* flows that it still waits for */
    int *after;       /* flows that wait for it */
    int n_after;
    int64_t end_ps;
};

struct pattern {
    struct sp_arena *arena;
    struct event_queue *queue;
    struct flow_network *network;
    double *latency_s;
    int n_flows;
    struct pattern_flow *flows;
};

static double read_number(void)
{
    char word[64];
    if (scanf("%63s", word) != 1) {
        (void)fprintf(stderr, "oracle_flows: the pattern ends too early\n");
        exit(1);
    }
    return strtod(word, NULL);
}

static int read_count(void)
{
    return (int)read_number();
}

static void add_after(struct pattern *pattern, struct pattern_flow *before, int flow)
{
    int *after = sp_arena_array(pattern->arena, (size_t)before->n_after + 1, sizeof(int));
    for (int i = 0; i < before->n_after; i++) {
        after[i] = before->after[i];
    }
    after[before->n_after++] = flow;
    before->after = after;
}

static void read_flow(struct pattern *pattern, int index)
{
    struct pattern_flow *flow = &pattern->flows[index];
    double delay_s = read_number();
    double bytes = read_number();
    double cap = read_number();
    flow->n_before = read_count();
    for (int i = 0; i < flow->n_before; i++) {
        add_after(pattern, &pattern->flows[read_count()], index);
    }
    struct path_hop hops[MAX_PATH_HOPS] = {{0}};
    int n_hops = read_count();
    for (int i = 0; i < n_hops; i++) {
        hops[i] = (struct path_hop){read_count(), 1};
        delay_s += pattern->latency_s[hops[i].link];
    }
    int32_t path = flow_network_add_path(pattern->network, hops, n_hops);
    flow->spec = (struct flow_spec){path, bytes, cap > 0 ? cap : (double)INFINITY, (uint64_t)index, 0, false};
    flow->delay_ps = llround(delay_s * 1e12);
}

static void read_pattern(struct pattern *pattern)
{
    pattern->arena = sp_arena_open();
    pattern->queue = event_queue_open(pattern->arena);
    pattern->network = flow_network_open(pattern->arena, pattern->queue, NULL, NULL);
    int n_links = read_count();
    pattern->latency_s = sp_arena_array(pattern->arena, (size_t)n_links, sizeof(double));
    for (int i = 0; i < n_links; i++) {
        (void)flow_network_add_link(pattern->network, read_number());
        pattern->latency_s[i] = read_number();
    }
    pattern->n_flows = read_count();
    pattern->flows = sp_arena_array(pattern->arena, (size_t)pattern->n_flows, sizeof(pattern->flows[0]));
    for (int i = 0; i < pattern->n_flows; i++) {
        read_flow(pattern, i);
    }
}

static void post_start(struct pattern *pattern, int64_t now_ps, int index)
{
    int64_t start_ps = now_ps + pattern->flows[index].delay_ps;
    event_post(pattern->queue, start_ps, (struct event){EVENT_START, (uint32_t)index, 0});
}

static void handle(struct pattern *pattern, int64_t now_ps, const struct event *event)
{
    uint64_t owner = 0;
    if (event->kind == EVENT_START) {
        (void)flow_start(pattern->network, now_ps, &pattern->flows[event->index].spec);
    } else if (flow_finish(pattern->network, now_ps, event, &owner)) {
        struct pattern_flow *flow = &pattern->flows[owner];
        flow->end_ps = now_ps;
        for (int i = 0; i < flow->n_after; i++) {
            if (--pattern->flows[flow->after[i]].n_before == 0) {
                post_start(pattern, now_ps, flow->after[i]);
            }
        }
    }
}

static void run_pattern(struct pattern *pattern)
{
    for (int i = 0; i < pattern->n_flows; i++) {
        if (pattern->flows[i].n_before == 0) {
            post_start(pattern, 0, i);
        }
    }
    int64_t now_ps = 0;
    while (event_next_time(pattern->queue, &now_ps)) {
        struct event event;
        while (event_take(pattern->queue, now_ps, &event)) {
            handle(pattern, now_ps, &event);
        }
        flows_settle(pattern->network, now_ps);
    }
    for (int i = 0; i < pattern->n_flows; i++) {
        printf("%.15g\n", (double)pattern->flows[i].end_ps * 1e-12);
    }
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "run") == 0) {
        struct pattern pattern = {0};
        read_pattern(&pattern);
        run_pattern(&pattern);
        sp_arena_close(pattern.arena);
        return 0;
    }
    if (argc != 4 || strcmp(argv[1], "write") != 0) {
        (void)fprintf(stderr, "usage: oracle_flows run | write ring N | write all-to-all N | write random SEED\n");
        return 2;
    }
    long n = strtol(argv[3], NULL, 10);
    if (strcmp(argv[2], "ring") == 0) {
        write_ring((int)n);
    } else if (strcmp(argv[2], "all-to-all") == 0) {
        write_all_to_all((int)n);
    } else {
        write_random((uint64_t)n);
    }
    return 0;
}
