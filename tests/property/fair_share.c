/* What must hold of the rates of flows, over random networks in which flows start, end and stop and links change. The rates
 * are looked up inside the network; nothing here computes them as it does.
 *
 * Rates are max-min fair exactly when no link carries more than it can and every flow has its cap or a bottleneck: a link of
 * its path that is full and on which no flow is faster (Bertsekas and Gallager, Data Networks, section 6.5.2). */
#include "sim/flow_network.h"
#include "support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { NETWORKS = 150, ACTIONS = 120, MAX_LINKS = 37, MAX_PATHS = 53, MAX_FLOWS = 4000 };
static const double REL = 1e-8;

struct sent_flow {
    int32_t number; /* in the network */
    int32_t path;
    double bytes;
    double cap;
    double sent; /* by the rates seen from outside */
    bool is_live;
};

struct world {
    struct sp_arena *arena;
    struct event_queue *queue;
    struct flow_network *network;
    uint64_t random;
    int64_t now_ps;
    int n_links;
    double capacity[MAX_LINKS];
    double bytes[MAX_LINKS]; /* of what has ended */
    int n_paths;
    int n_hops[MAX_PATHS];
    struct path_hop hops[MAX_PATHS][MAX_PATH_HOPS];
    int n_flows;
    struct sent_flow flows[MAX_FLOWS];
};

static uint64_t below(struct world *world, uint64_t n)
{
    return next_random(&world->random) % n;
}

/* Few capacities, so that links are full together; or any. Now and then none at all. */
static double random_capacity(struct world *world)
{
    static const double few[] = {10e9, 10e9, 30e9, 70e9};
    switch (below(world, 12)) {
    case 0:
        return 0;
    case 1:
    case 2:
    case 3:
        return 1e9 + (double)below(world, 99999999999);
    default:
        return few[below(world, SP_COUNT_OF(few))];
    }
}

static void random_paths(struct world *world)
{
    static const double weights[] = {1, 1, 1, 2, 7, 0.5, 1.0 / 3};
    bool is_weighted = below(world, 2) != 0;
    world->n_paths = 1 + (int)below(world, MAX_PATHS);
    for (int p = 0; p < world->n_paths; p++) {
        int n = 1 + (int)below(world, below(world, 4) == 0 ? MAX_PATH_HOPS : 3);
        n = n < world->n_links ? n : world->n_links;
        uint64_t first = below(world, (uint64_t)world->n_links);
        for (int h = 0; h < n; h++) { /* links side by side, so that none comes twice */
            int32_t link = (int32_t)((first + (uint64_t)h) % (uint64_t)world->n_links);
            world->hops[p][h] = (struct path_hop){link, is_weighted ? weights[below(world, SP_COUNT_OF(weights))] : 1};
        }
        world->n_hops[p] = n;
        assert_int_equal(flow_network_add_path(world->network, world->hops[p], n), p);
    }
}

static void open_world(struct world *world, uint64_t seed)
{
    world->arena = sp_arena_open();
    world->queue = event_queue_open(world->arena);
    world->network = flow_network_open(world->arena, world->queue, NULL, NULL);
    world->random = seed;
    world->now_ps = 0;
    world->n_flows = 0;
    world->n_links = 1 + (int)below(world, MAX_LINKS);
    for (int l = 0; l < world->n_links; l++) {
        world->capacity[l] = random_capacity(world);
        world->bytes[l] = 0;
        (void)flow_network_add_link(world->network, world->capacity[l]);
    }
    random_paths(world);
}

static double rate_of(const struct world *world, const struct sent_flow *flow)
{
    return flow_at(world->network, (uint32_t)flow->number)->rate_bytes_per_s;
}

/* ---- what happens ----------------------------------------------------------------------------------------------- */

static void start_some(struct world *world)
{
    for (uint64_t n = 1 + below(world, 9); n > 0 && world->n_flows < MAX_FLOWS; n--) {
        struct sent_flow *flow = &world->flows[world->n_flows];
        *flow = (struct sent_flow){0};
        flow->path = (int32_t)below(world, (uint64_t)world->n_paths);
        flow->bytes = below(world, 20) == 0 ? 0 : 1 + (double)below(world, 1000003);
        flow->cap = below(world, 3) == 0 ? 1e9 * (double)(1 + below(world, 20)) : (double)INFINITY;
        flow->is_live = true;
        struct flow_spec spec = {flow->path, flow->bytes, flow->cap, (uint64_t)world->n_flows, 0, false};
        flow->number = flow_start(world->network, world->now_ps, &spec);
        world->n_flows++;
    }
}

static void count_ended(struct world *world, struct sent_flow *flow, double bytes)
{
    for (int h = 0; h < world->n_hops[flow->path]; h++) {
        const struct path_hop *hop = &world->hops[flow->path][h];
        world->bytes[hop->link] += hop->weight * bytes;
    }
    flow->is_live = false;
}

static void stop_one(struct world *world)
{
    if (world->n_flows == 0) {
        return;
    }
    struct sent_flow *flow = &world->flows[below(world, (uint64_t)world->n_flows)];
    if (flow->is_live) {
        double left = flow_stop(world->network, world->now_ps, flow->number);
        assert_true(fabs(flow->bytes - left - flow->sent) <= REL * flow->bytes);
        count_ended(world, flow, flow->bytes - left);
    }
}

static void change_some(struct world *world)
{
    for (uint64_t n = 1 + below(world, 2); n > 0; n--) {
        uint64_t link = below(world, (uint64_t)world->n_links);
        world->capacity[link] = random_capacity(world);
        flow_network_set_capacity(world->network, (int32_t)link, world->capacity[link]);
    }
}

static void move_to(struct world *world, int64_t time_ps)
{
    double elapsed_s = (double)(time_ps - world->now_ps) * 1e-12;
    for (int i = 0; i < world->n_flows; i++) {
        if (world->flows[i].is_live && world->flows[i].bytes > 0) {
            world->flows[i].sent += rate_of(world, &world->flows[i]) * elapsed_s;
        }
    }
    world->now_ps = time_ps;
}

/* To the next end, or to a time before it. */
static void pass_time(struct world *world)
{
    int64_t next_ps = 0;
    if (!event_next_time(world->queue, &next_ps)) {
        return;
    }
    if (next_ps > world->now_ps && below(world, 3) == 0) {
        move_to(world, world->now_ps + (int64_t)below(world, (uint64_t)(next_ps - world->now_ps)));
        return;
    }
    move_to(world, next_ps);
    struct event event;
    while (event_take(world->queue, world->now_ps, &event)) {
        uint64_t owner = 0;
        if (flow_finish(world->network, world->now_ps, &event, &owner)) {
            struct sent_flow *flow = &world->flows[owner];
            assert_true(flow->is_live);
            /* It ends with its last byte, within the picosecond that a rate of 10^11 at most adds a tenth of a byte in. */
            assert_true(flow->sent >= flow->bytes * (1 - REL) - 1e-6);
            assert_true(flow->sent <= flow->bytes * (1 + REL) + 0.2);
            count_ended(world, flow, flow->bytes);
        }
    }
}

/* ---- what must hold --------------------------------------------------------------------------------------------- */

struct load {
    double carried;
    double fastest;
};

static bool has_bottleneck(const struct world *world, const struct load *loads, const struct sent_flow *flow)
{
    double rate = rate_of(world, flow);
    if (rate >= flow->cap * (1 - REL)) {
        return true;
    }
    for (int h = 0; h < world->n_hops[flow->path]; h++) {
        int32_t link = world->hops[flow->path][h].link;
        if (loads[link].carried >= world->capacity[link] * (1 - REL) && rate >= loads[link].fastest * (1 - REL)) {
            return true;
        }
    }
    return false;
}

static void check_fair(const struct world *world)
{
    struct load loads[MAX_LINKS] = {{0}};
    for (int i = 0; i < world->n_flows; i++) {
        const struct sent_flow *flow = &world->flows[i];
        for (int h = 0; flow->is_live && flow->bytes > 0 && h < world->n_hops[flow->path]; h++) {
            struct load *load = &loads[world->hops[flow->path][h].link];
            load->carried += rate_of(world, flow) * world->hops[flow->path][h].weight;
            load->fastest = fmax(load->fastest, rate_of(world, flow));
        }
    }
    for (int l = 0; l < world->n_links; l++) {
        assert_true(loads[l].carried <= world->capacity[l] * (1 + REL));
    }
    for (int i = 0; i < world->n_flows; i++) {
        const struct sent_flow *flow = &world->flows[i];
        if (flow->is_live && flow->bytes > 0) {
            assert_true(rate_of(world, flow) <= flow->cap);
            assert_true(has_bottleneck(world, loads, flow));
        }
    }
}

/* The same flows, all started at once on new links. */
static void check_fresh(const struct world *world)
{
    struct sp_arena *arena = sp_arena_open();
    struct event_queue *queue = event_queue_open(arena);
    struct flow_network *network = flow_network_open(arena, queue, NULL, NULL);
    for (int l = 0; l < world->n_links; l++) {
        (void)flow_network_add_link(network, world->capacity[l]);
    }
    for (int p = 0; p < world->n_paths; p++) {
        (void)flow_network_add_path(network, world->hops[p], world->n_hops[p]);
    }
    int32_t *numbers = sp_arena_array(arena, MAX_FLOWS, sizeof(int32_t));
    for (int i = 0; i < world->n_flows; i++) {
        const struct sent_flow *flow = &world->flows[i];
        if (flow->is_live && flow->bytes > 0) {
            struct flow_spec spec = {flow->path, flow->bytes, flow->cap, 0, 0, false};
            numbers[i] = flow_start(network, 0, &spec);
        }
    }
    flows_settle(network, 0);
    for (int i = 0; i < world->n_flows; i++) {
        const struct sent_flow *flow = &world->flows[i];
        if (flow->is_live && flow->bytes > 0) {
            assert_close(rate_of(world, flow), flow_at(network, (uint32_t)numbers[i])->rate_bytes_per_s, REL);
        }
    }
    sp_arena_close(arena);
}

static void check_bytes(const struct world *world)
{
    double expected[MAX_LINKS];
    for (int l = 0; l < world->n_links; l++) {
        expected[l] = world->bytes[l];
    }
    for (int i = 0; i < world->n_flows; i++) {
        const struct sent_flow *flow = &world->flows[i];
        for (int h = 0; flow->is_live && h < world->n_hops[flow->path]; h++) {
            const struct path_hop *hop = &world->hops[flow->path][h];
            expected[hop->link] += hop->weight * fmin(flow->sent, flow->bytes);
        }
    }
    for (int l = 0; l < world->n_links; l++) {
        struct link_record record = flow_network_link(world->network, l, world->now_ps);
        assert_true(fabs(record.bytes - expected[l]) <= REL * expected[l] + 1e-3);
        assert_true(record.contended_ps <= record.busy_ps && record.busy_ps <= world->now_ps);
    }
}

static void rates_are_fair_whatever_happens(void **state)
{
    (void)state;
    struct world *world = calloc(1, sizeof(*world));
    assert_non_null(world);
    for (uint64_t seed = 1; seed <= NETWORKS; seed++) {
        if (getenv("SEQPLAN_TEST_VERBOSE") != NULL) {
            (void)fprintf(stderr, "network %llu\n", (unsigned long long)seed);
        }
        open_world(world, seed);
        static void (*const actions[])(struct world *) = {start_some, start_some, stop_one,  change_some,
                                                          pass_time,  pass_time,  pass_time, pass_time};
        for (int i = 0; i < ACTIONS; i++) {
            actions[below(world, SP_COUNT_OF(actions))](world);
            if (below(world, 4) == 0) {
                continue; /* more in the same instant */
            }
            flows_settle(world->network, world->now_ps);
            check_fair(world);
            check_bytes(world);
            if (i % 7 == 0) {
                check_fresh(world);
            }
        }
        sp_arena_close(world->arena);
    }
    free(world);
}

/* ---- folding ---------------------------------------------------------------------------------------------------- */

struct cluster {
    int n_nodes, n_ranks; /* ranks a node */
    double port, nic, spine;
    double bytes, second_bytes; /* of each rank; of one more flow a node, from port 0 */
    int64_t second_ps;          /* when it starts */
};

struct ends {
    int64_t first_ps, last_ps, second_first_ps, second_last_ps;
};

static void add_cluster_paths(struct flow_network *network, const struct cluster *cluster, bool is_folded)
{
    int n_nodes = is_folded ? 1 : cluster->n_nodes;
    int n_ports = is_folded ? 1 : cluster->n_ranks;
    double nodes = is_folded ? cluster->n_nodes : 1;
    double ranks = is_folded ? cluster->n_ranks : 1;
    int32_t spine = flow_network_add_link(network, cluster->spine);
    for (int i = 0; i < n_nodes; i++) {
        int32_t nic = flow_network_add_link(network, cluster->nic);
        struct path_hop second[] = {{nic, 1}, {spine, nodes}};
        (void)flow_network_add_path(network, second, 2);
        for (int j = 0; j < n_ports; j++) {
            int32_t port = flow_network_add_link(network, cluster->port);
            struct path_hop hops[] = {{port, 1}, {nic, ranks}, {spine, nodes * ranks}};
            (void)flow_network_add_path(network, hops, 3);
        }
    }
}

static void start_cluster(struct flow_network *network, const struct cluster *cluster, int n_paths, int n_ports)
{
    for (int32_t p = 0; p < n_paths; p++) {
        if (p % (n_ports + 1) != 0) {
            struct flow_spec spec = {p, cluster->bytes, INFINITY, 0, 0, false};
            (void)flow_start(network, 0, &spec);
        }
    }
    flows_settle(network, 0);
}

static void start_seconds(struct flow_network *network, const struct cluster *cluster, int n_paths, int n_ports)
{
    for (int32_t p = 0; p < n_paths; p += n_ports + 1) {
        struct flow_spec spec = {p, cluster->second_bytes, cluster->port, 1, 0, false};
        (void)flow_start(network, cluster->second_ps, &spec);
    }
}

static struct ends run_cluster(const struct cluster *cluster, bool is_folded)
{
    struct sp_arena *arena = sp_arena_open();
    struct event_queue *queue = event_queue_open(arena);
    struct flow_network *network = flow_network_open(arena, queue, NULL, NULL);
    add_cluster_paths(network, cluster, is_folded);
    int n_ports = is_folded ? 1 : cluster->n_ranks;
    int n_paths = (n_ports + 1) * (is_folded ? 1 : cluster->n_nodes);
    start_cluster(network, cluster, n_paths, n_ports);
    event_post(queue, cluster->second_ps, (struct event){1, 0, 0});
    struct ends ends = {-1, -1, -1, -1};
    int64_t now_ps = 0;
    while (event_next_time(queue, &now_ps)) {
        struct event event;
        while (event_take(queue, now_ps, &event)) {
            uint64_t owner = 0;
            if (event.kind == 1) {
                start_seconds(network, cluster, n_paths, n_ports);
            } else if (flow_finish(network, now_ps, &event, &owner)) {
                int64_t *first = owner == 0 ? &ends.first_ps : &ends.second_first_ps;
                *first = *first < 0 ? now_ps : *first;
                *(owner == 0 ? &ends.last_ps : &ends.second_last_ps) = now_ps;
            }
        }
        flows_settle(network, now_ps);
    }
    sp_arena_close(arena);
    return ends;
}

static void folded_ranks_end_as_all_do(void **state)
{
    (void)state;
    uint64_t random = 20;
    for (int i = 0; i < 300; i++) {
        struct cluster cluster = {0};
        cluster.n_nodes = 1 + (int)(next_random(&random) % 13);
        cluster.n_ranks = 1 + (int)(next_random(&random) % 9);
        cluster.port = 1e9 * (double)(1 + next_random(&random) % 50);
        cluster.nic = cluster.port * (double)(1 + next_random(&random) % 8) / 3;
        cluster.spine = cluster.nic * (double)(1 + next_random(&random) % 30) / 7;
        cluster.bytes = (double)(1 + next_random(&random) % 1000003);
        cluster.second_bytes = (double)(1 + next_random(&random) % 1000003);
        cluster.second_ps = (int64_t)(next_random(&random) % 40000000);
        struct ends all = run_cluster(&cluster, false);
        struct ends folded = run_cluster(&cluster, true);
        assert_int_equal(all.first_ps, all.last_ps); /* alike to the picosecond */
        assert_int_equal(all.second_first_ps, all.second_last_ps);
        assert_close((double)folded.last_ps, (double)all.last_ps, 1e-9);
        assert_close((double)folded.second_last_ps, (double)all.second_last_ps, 1e-9);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_are_fair_whatever_happens),
        cmocka_unit_test(folded_ranks_end_as_all_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
