/* The patterns of oracle_flows.c in SimGrid, pinned to what a textbook has: max-min fair rates, and a latency before.
 *
 * usage: oracle_simgrid <PATTERN    prints the end of each flow in seconds, a line a flow
 *        oracle_simgrid ring N | all-to-all N    prints events and wall seconds (an event: a start or an end of a flow)
 *
 * An actor a flow waits for the flows before it. Hosts stand in pairs, one a distinct path, so that any list of links can be
 * a route. SimGrid weighs flows by their latency: the patterns give all of theirs the same, or none. */
#include <simgrid/s4u.hpp>
#include <xbt/log.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <string>
#include <vector>

namespace sg4 = simgrid::s4u;

struct Flow {
    double delay_s = 0;
    uint64_t bytes = 0;
    double cap = 0;
    std::vector<int> after;
    std::vector<int> hops;
    double end_s = -1;
};

static std::vector<int> read_list()
{
    size_t n = 0;
    std::cin >> n;
    std::vector<int> list(n);
    for (int &item : list) {
        std::cin >> item;
    }
    return list;
}

static std::vector<const sg4::Link *> read_links(sg4::NetZone *zone)
{
    size_t n = 0;
    std::cin >> n;
    std::vector<const sg4::Link *> links;
    for (size_t i = 0; i < n; i++) {
        double bytes_per_s = 0;
        double latency_s = 0;
        std::cin >> bytes_per_s >> latency_s;
        links.push_back(zone->create_link("link" + std::to_string(i), bytes_per_s)->set_latency(latency_s)->seal());
    }
    return links;
}

static std::vector<Flow> read_flows()
{
    size_t n = 0;
    std::cin >> n;
    std::vector<Flow> flows(n);
    for (Flow &flow : flows) {
        std::cin >> flow.delay_s >> flow.bytes >> flow.cap;
        flow.after = read_list();
        flow.hops = read_list();
    }
    return flows;
}

using Pair = std::pair<sg4::Host *, sg4::Host *>;

/* A cap is a link of its own: set_rate() has no effect on what is sent from host to host. */
static Pair add_pair(sg4::NetZone *zone, const std::vector<const sg4::Link *> &links, const std::vector<int> &hops,
                     double cap)
{
    static int number = 0;
    number++;
    sg4::Host *from = zone->create_host("from" + std::to_string(number), 1e9)->seal();
    sg4::Host *to = zone->create_host("to" + std::to_string(number), 1e9)->seal();
    std::vector<sg4::LinkInRoute> route;
    for (int hop : hops) {
        route.emplace_back(links[(size_t)hop]);
    }
    if (cap > 0) {
        route.emplace_back(zone->create_link("cap" + std::to_string(number), cap)->seal());
    }
    zone->add_route(from->get_netpoint(), to->get_netpoint(), nullptr, nullptr, route, false);
    return {from, to};
}

static void send(Flow *flow, Pair pair, std::vector<sg4::ActorPtr> before)
{
    for (const sg4::ActorPtr &actor : before) {
        actor->join();
    }
    if (flow->delay_s > 0) {
        sg4::this_actor::sleep_for(flow->delay_s);
    }
    sg4::CommPtr comm = sg4::Comm::sendto_init(); /* it starts when both ends are known */
    comm->set_payload_size(flow->bytes);
    comm->set_source(pair.first);
    comm->set_destination(pair.second);
    comm->wait();
    flow->end_s = sg4::Engine::get_clock();
}

static void run_pattern(sg4::Engine &engine)
{
    sg4::NetZone *zone = sg4::create_full_zone("pattern");
    std::vector<const sg4::Link *> links = read_links(zone);
    std::vector<Flow> flows = read_flows();
    std::map<std::vector<int>, Pair> of_path;
    std::vector<Pair> pairs;
    for (const Flow &flow : flows) {
        if (flow.cap > 0) {
            pairs.push_back(add_pair(zone, links, flow.hops, flow.cap));
            continue;
        }
        if (of_path.find(flow.hops) == of_path.end()) {
            of_path[flow.hops] = add_pair(zone, links, flow.hops, 0);
        }
        pairs.push_back(of_path[flow.hops]);
    }
    zone->seal();
    std::vector<sg4::ActorPtr> actors;
    for (Flow &flow : flows) {
        std::vector<sg4::ActorPtr> before;
        for (int other : flow.after) {
            before.push_back(actors[(size_t)other]); /* always an earlier one */
        }
        Flow *of = &flow;
        Pair pair = pairs[actors.size()];
        actors.push_back(sg4::Actor::create("flow", pair.first, [of, pair, before] { send(of, pair, before); }));
    }
    engine.run();
    for (const Flow &flow : flows) {
        std::printf("%.15g\n", flow.end_s);
    }
}

/* ---- speed ------------------------------------------------------------------------------------------------------ */

static const double LINK_BYTES_PER_S = 50e9;
static const uint64_t BLOCK_BYTES = 3100000;

static void ring_rank(int rank, int n)
{
    static int payload;
    sg4::Mailbox *mine = sg4::Mailbox::by_name(std::to_string(rank));
    sg4::Mailbox *next = sg4::Mailbox::by_name(std::to_string((rank + 1) % n));
    for (int step = 0; step < n - 1; step++) {
        sg4::CommPtr sent = next->put_async(&payload, BLOCK_BYTES);
        (void)mine->get<int>();
        sent->wait();
    }
}

static void all_to_all_rank(const std::vector<sg4::Host *> &hosts, int rank)
{
    std::vector<sg4::CommPtr> comms;
    for (size_t to = 0; to < hosts.size(); to++) {
        if (to != (size_t)rank) {
            comms.push_back(sg4::Comm::sendto_async(hosts[(size_t)rank], hosts[to], BLOCK_BYTES));
        }
    }
    sg4::Comm::wait_all(comms);
}

/* Ranks on a switch that never blocks: a link out of each and one into each. */
static void run_bench(sg4::Engine &engine, bool is_ring, int n)
{
    sg4::NetZone *zone = sg4::create_star_zone("bench");
    std::vector<sg4::Host *> hosts;
    for (int i = 0; i < n; i++) {
        std::string name = std::to_string(i);
        sg4::Host *host = zone->create_host("rank" + name, 1e9)->seal();
        const sg4::Link *out = zone->create_link("out" + name, LINK_BYTES_PER_S)->seal();
        const sg4::Link *in = zone->create_link("in" + name, LINK_BYTES_PER_S)->seal();
        zone->add_route(host->get_netpoint(), nullptr, nullptr, nullptr, {sg4::LinkInRoute(out)}, false);
        zone->add_route(nullptr, host->get_netpoint(), nullptr, nullptr, {sg4::LinkInRoute(in)}, false);
        hosts.push_back(host);
    }
    zone->seal();
    for (int i = 0; i < n; i++) {
        sg4::Actor::create("rank", hosts[(size_t)i],
                           [&hosts, i, n, is_ring] { is_ring ? ring_rank(i, n) : all_to_all_rank(hosts, i); });
    }
    auto start = std::chrono::steady_clock::now();
    engine.run();
    std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    std::printf("%.0f %.6f\n", 2.0 * n * (n - 1), elapsed.count());
}

int main(int argc, char **argv)
{
    xbt_log_control_set("xbt_cfg.thresh:warning"); /* every setting is a line else */
    sg4::Engine engine(&argc, argv);
    for (const char *setting :
         {"network/model:CM02", "network/TCP-gamma:0", "network/latency-factor:1", "network/bandwidth-factor:1",
          "network/weight-S:0", "network/crosstraffic:0", "contexts/stack-size:64"}) {
        engine.set_config(setting);
    }
    if (argc == 3) {
        run_bench(engine, std::strcmp(argv[1], "ring") == 0, std::atoi(argv[2]));
    } else {
        /* Lazily updated, which is the default and faster, flows that pass their latency together get rates that no link
         * can carry; in full they do not. */
        engine.set_config("network/optim:Full");
        run_pattern(engine);
    }
    return 0;
}
