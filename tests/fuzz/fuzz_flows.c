/* Bytes become links, paths and flows that come, go and find links narrower: every flow must end, not before its bytes could have
 * crossed its narrowest link, and what the links carried must be what was sent. */
#include "sim/flows.h"

#include <math.h>
#include <stdlib.h>

enum { MAX_LINKS = 6, MAX_PATHS = 8, MAX_FLOWS = 64, MAX_EVENTS = 100000 };

struct input {
    const uint8_t *bytes;
    size_t n, at;
};

static uint8_t next(struct input *input)
{
    return input->at < input->n ? input->bytes[input->at++] : 0;
}

struct world {
    struct event_queue *queue;
    struct flow_network *network;
    int n_links, n_paths, n_flows, n_ended;
    double capacities[MAX_LINKS]; /* the largest that a link has had */
    uint8_t crosses[MAX_PATHS];   /* bit l: link l */
    double bytes[MAX_FLOWS];
    int64_t start_ps[MAX_FLOWS];
    int path[MAX_FLOWS];
};

static void require(bool holds)
{
    if (!holds) {
        abort();
    }
}

static void open_world(struct world *world, struct sp_arena *arena, struct input *input)
{
    *world = (struct world){.queue = event_queue_open(arena)};
    world->network = flow_network_open(arena, world->queue, NULL, NULL);
    world->n_links = 1 + next(input) % MAX_LINKS;
    world->n_paths = 1 + next(input) % MAX_PATHS;
    for (int l = 0; l < world->n_links; l++) {
        world->capacities[l] = 1e6 * (1 + next(input));
        flow_network_add_link(world->network, world->capacities[l]);
    }
    for (int p = 0; p < world->n_paths; p++) {
        struct path_hop hops[MAX_LINKS];
        int n = 0;
        world->crosses[p] = next(input);
        for (int l = 0; l < world->n_links; l++) {
            if ((world->crosses[p] >> l & 1) != 0) {
                hops[n++] = (struct path_hop){l, 1};
            }
        }
        flow_network_add_path(world->network, hops, n);
    }
}

static void start(struct world *world, int64_t now_ps, struct input *input)
{
    int flow = world->n_flows++;
    world->path[flow] = next(input) % world->n_paths;
    world->bytes[flow] = 1000.0 * next(input);
    world->start_ps[flow] = now_ps;
    const struct flow_spec spec = {.path = world->path[flow],
                                   .bytes = world->bytes[flow],
                                   .cap_bytes_per_s = 1e5 * (1 + next(input)),
                                   .owner = (uint64_t)flow,
                                   .tag = (uint8_t)(flow % 16)};
    flow_start(world->network, now_ps, &spec);
}

/* The narrowest link at its widest bounds the rate. */
static void end(struct world *world, int64_t now_ps, const struct event *event)
{
    uint64_t owner;
    if (!flow_finish(world->network, now_ps, event, &owner)) {
        return;
    }
    int flow = (int)owner;
    double rate = (double)INFINITY;
    for (int l = 0; l < world->n_links; l++) {
        bool is_crossed = (world->crosses[world->path[flow]] >> l & 1) != 0;
        rate = is_crossed ? fmin(rate, world->capacities[l]) : rate;
    }
    double least_ps = world->bytes[flow] / rate * 1e12;
    require((double)(now_ps - world->start_ps[flow]) >= least_ps * (1 - 1e-9));
    world->n_ended++;
}

static void act(struct world *world, int64_t now_ps, struct input *input)
{
    uint8_t what = next(input);
    if (what % 4 == 3) {
        int link = next(input) % world->n_links;
        double capacity = 1e5 * (1 + next(input));
        world->capacities[link] = fmax(world->capacities[link], capacity);
        flow_network_set_capacity(world->network, link, capacity);
    } else if (world->n_flows < MAX_FLOWS) {
        start(world, now_ps, input);
    }
}

static void run(struct world *world, struct input *input)
{
    int64_t now_ps = 0;
    for (int i = 0; i < MAX_EVENTS; i++) {
        struct event event;
        for (int more = next(input) % 4; more > 0; more--) {
            act(world, now_ps, input);
        }
        flows_settle(world->network, now_ps);
        if (!event_next_time(world->queue, &now_ps)) {
            break;
        }
        while (event_take(world->queue, now_ps, &event)) {
            end(world, now_ps, &event);
        }
    }
    require(world->n_ended == world->n_flows);
    for (int l = 0; l < world->n_links; l++) {
        double sent = 0;
        for (int flow = 0; flow < world->n_flows; flow++) {
            sent += (world->crosses[world->path[flow]] >> l & 1) != 0 ? world->bytes[flow] : 0;
        }
        require(fabs(flow_network_link(world->network, l, now_ps).bytes - sent) <= 1e-6 * sent + 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sp_arena *arena = sp_arena_open();
    struct input input = {data, size, 0};
    struct world world;
    open_world(&world, arena, &input);
    run(&world, &input);
    sp_arena_close(arena);
    return 0;
}
