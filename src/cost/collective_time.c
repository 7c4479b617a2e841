/* Time of collectives and hops (docs/model.md, eq. 30-36). Inside a domain: measured tables. Across nodes: the steps of
 * the algorithm over the NICs that the group owns. */
#include "cost/cost.h"

#include <assert.h>
#include <math.h>

double collective_sent_bytes(enum collective operation, int64_t ranks, double bytes)
{
    double n = (double)ranks;
    switch (operation) {
    case COLLECTIVE_ALL_GATHER:
    case COLLECTIVE_REDUCE_SCATTER:
    case COLLECTIVE_ALL_TO_ALL:
        return (n - 1) / n * bytes;
    case COLLECTIVE_ALL_REDUCE:
        return 2 * (n - 1) / n * bytes;
    case COLLECTIVE_SEND_RECEIVE:
        return ranks > 1 ? bytes : 0;
    case N_COLLECTIVES:
        break;
    }
    assert(!"collective");
    return 0;
}

/* Log-log between points; the floor of the first below it; beyond the last the bandwidth of the last two points. */
static double curve_time(const struct time_curve *curve, double bytes)
{
    const double *x = curve->log_bytes;
    const double *y = curve->log_seconds;
    int n = curve->n_points;
    double log_bytes = log(fmax(bytes, 1));
    if (log_bytes <= x[0]) {
        return exp(y[0]);
    }
    if (log_bytes >= x[n - 1]) {
        double last = exp(x[n - 1]);
        double seconds_per_byte = n > 1 ? (exp(y[n - 1]) - exp(y[n - 2])) / (last - exp(x[n - 2])) : exp(y[0]) / last;
        return exp(y[n - 1]) + (bytes - last) * fmax(seconds_per_byte, 0);
    }
    int i = 1;
    while (x[i] < log_bytes) {
        i++;
    }
    return exp(y[i - 1] + (log_bytes - x[i - 1]) / (x[i] - x[i - 1]) * (y[i] - y[i - 1]));
}

double copy_time(const struct gpu_spec *gpu, double bytes)
{
    /* a memory faster than the measured one: as fewer bytes over that */
    return curve_time(&gpu->copy, bytes * gpu->curve_hbm_bandwidth / gpu->hbm_bandwidth.value);
}

/* Latencies that follow one another inside a node: every rank of a ring sends at once, so a hop is one. */
static double rounds_of(enum collective operation, double ranks)
{
    return operation == COLLECTIVE_SEND_RECEIVE ? 1 : (operation == COLLECTIVE_ALL_REDUCE ? 2 : 1) * (ranks - 1);
}

/* Inside one domain over `ranks`: between measured rank counts log-log in ranks, beyond them the nearest. */
static double table_time(const struct hardware_spec *hardware, enum collective operation, double ranks,
                         double buffer_bytes)
{
    /* links faster than the measured ones: as fewer bytes over those */
    double bytes = buffer_bytes * hardware->intra.curve_bandwidth / hardware->intra.bandwidth.value;
    const struct collective_line *below = NULL;
    const struct collective_line *above = NULL;
    for (int i = 0; i < hardware->intra.n_lines; i++) {
        const struct collective_line *line = &hardware->intra.lines[i];
        if (line->operation != operation) {
            continue;
        }
        if ((double)line->ranks <= ranks) {
            below = line;
        } else if (above == NULL) {
            above = line;
        }
    }
    if (below == NULL && above == NULL) { /* nothing measured: the link's own figures */
        double sent = collective_sent_bytes(operation, (int64_t)ranks, buffer_bytes);
        double rounds = operation == COLLECTIVE_SEND_RECEIVE ? 1 : ranks - 1;
        return hardware->intra.curve_latency * rounds + sent / hardware->intra.bandwidth.value;
    }
    if (below == NULL || above == NULL) {
        return curve_time(below != NULL ? &below->curve : &above->curve, bytes);
    }
    double t = log(ranks / (double)below->ranks) / log((double)above->ranks / (double)below->ranks);
    double low = curve_time(&below->curve, bytes);
    double high = curve_time(&above->curve, bytes);
    return low * pow(high / low, t);
}

/* A latency set by hand instead of the file's counts once a round. */
static double intra_time(const struct hardware_spec *hardware, enum collective operation, double ranks,
                         double buffer_bytes)
{
    double added_s = rounds_of(operation, ranks) * (hardware->intra.latency.value - hardware->intra.curve_latency);
    double table_s = table_time(hardware, operation, ranks, buffer_bytes) * (1 + hardware->intra.slower[operation]);
    return fmax(table_s + added_s, 0);
}

double network_bytes_per_s_per_gpu(const struct hardware_spec *hardware)
{
    return hardware->network.bandwidth.value * hardware->node.nics.value / hardware->node.gpus.value;
}

/* Ring over every rank of the group: it enters and leaves each node once, over all rails that the group's GPUs own, and
 * inside a node at the measured pace of as many ranks. NCCL counts a step between nodes once per node (tuning.cc). */
static double flat_ring_time(const struct hardware_spec *hardware, const struct group_placement *group,
                             enum collective operation, double bytes)
{
    double n = (double)group->size;
    double per_node = (double)group->ranks_per_node;
    double sent = collective_sent_bytes(operation, group->size, bytes);
    double rails = per_node * network_bytes_per_s_per_gpu(hardware) * hardware->network.collective_efficiency.value;
    double network_s = sent / rails;
    double intra_s = 0;
    if (group->ranks_per_node > 1) {
        /* the same bytes per rank pass over the node's own links */
        double alike = sent / collective_sent_bytes(operation, group->ranks_per_node, 1);
        intra_s = intra_time(hardware, operation, per_node, alike);
    }
    double rounds = operation == COLLECTIVE_ALL_REDUCE ? 2 : 1;
    double between = (double)group->nodes - 1;
    double latency =
        rounds * (between * hardware->network.latency.value + (n - 1 - between) * hardware->intra.latency.value);
    return fmax(network_s, intra_s) + latency;
}

static double inside_time(const struct hardware_spec *hardware, const struct group_placement *group, double bytes)
{
    double per_node = (double)group->ranks_per_node;
    return intra_time(hardware, COLLECTIVE_REDUCE_SCATTER, per_node, bytes) +
           intra_time(hardware, COLLECTIVE_ALL_GATHER, per_node, bytes);
}

/* Each rank's share over its own NIC, in a ring over the nodes. */
static double ring_between_time(const struct hardware_spec *hardware, const struct group_placement *group, double share)
{
    double rate = network_bytes_per_s_per_gpu(hardware) * hardware->network.collective_efficiency.value;
    double sent = collective_sent_bytes(COLLECTIVE_ALL_REDUCE, group->nodes, share);
    return sent / rate + 2 * ((double)group->nodes - 1) * hardware->network.latency.value;
}

static int tree_depth(int64_t nodes)
{
    int depth = 0;
    while (nodes > 1) {
        nodes /= 2;
        depth++;
    }
    return depth;
}

/* Two trees, each node inside one of them and a leaf of the other, each for half of the share: up in pieces, and down again. All
 * of the share crosses each NIC once up and once down; the last piece still has its way to go. */
static struct all_reduce_plan trees_between(const struct hardware_spec *hardware, const struct group_placement *group,
                                            double share)
{
    enum { MOST_PIECES = 256 }; /* beyond them the way of the last piece no longer counts */
    double rate = network_bytes_per_s_per_gpu(hardware) * hardware->network.collective_efficiency.value;
    double pieces = fmin(fmax(ceil(share / 2 / hardware->network.collective_piece.value), 1), MOST_PIECES);
    struct all_reduce_plan plan = {.kind = ALL_REDUCE_TREES, .pieces = (int)pieces, .depth = tree_depth(group->nodes)};
    double ways = (pieces - 1 + 2 * plan.depth) / pieces;
    plan.time_s = 2 * share / rate * ways + 2 * plan.depth * hardware->network.latency.value;
    return plan;
}

struct all_reduce_plan all_reduce_plan(const struct hardware_spec *hardware, const struct group_placement *group,
                                       double bytes)
{
    struct all_reduce_plan best = {.time_s = flat_ring_time(hardware, group, COLLECTIVE_ALL_REDUCE, bytes)};
    double share = bytes / (double)group->ranks_per_node;
    double inside_s = group->ranks_per_node > 1 ? inside_time(hardware, group, bytes) : 0;
    struct all_reduce_plan ring = {.kind = ALL_REDUCE_HIERARCHICAL,
                                   .time_s = ring_between_time(hardware, group, share)};
    struct all_reduce_plan between = ring;
    if (hardware->network.collective_piece.kind != SP_FIGURE_NONE) {
        struct all_reduce_plan trees = trees_between(hardware, group, share);
        between = trees.time_s < ring.time_s ? trees : ring;
    }
    between.time_s += inside_s;
    between.inside_share = inside_s / between.time_s;
    return between.time_s < best.time_s ? between : best;
}

/* Every pair exchanges its own part; a rank's share to other nodes leaves through its own NICs, which nothing pools. */
static double all_to_all_time(const struct hardware_spec *hardware, const struct group_placement *group, double bytes)
{
    double n = (double)group->size;
    double per_node = (double)group->ranks_per_node;
    double away = bytes * (n - per_node) / n;
    double rate = network_bytes_per_s_per_gpu(hardware) * hardware->network.all_to_all_efficiency.value;
    double network_s = away / rate + hardware->network.latency.value;
    double intra_s =
        group->ranks_per_node > 1 ? intra_time(hardware, COLLECTIVE_ALL_TO_ALL, per_node, bytes * per_node / n) : 0;
    return fmax(network_s, intra_s);
}

/* --network ideal: a link of the network's rate for every pair of GPUs, shared by no two flows, so every collective is
 * one direct exchange of its parts. */
static double ideal_time(const struct hardware_spec *hardware, const struct group_placement *group,
                         enum collective operation, double bytes)
{
    double n = (double)group->size;
    double rounds = operation == COLLECTIVE_ALL_REDUCE ? 2 : 1;
    double part = bytes / n;
    double network_s = rounds * (part / network_bytes_per_s_per_gpu(hardware) + hardware->network.latency.value);
    double intra_s = 0;
    if (group->ranks_per_node > 1) {
        double per_node = (double)group->ranks_per_node;
        intra_s = intra_time(hardware, operation, per_node, part * per_node);
    }
    return fmax(network_s, intra_s);
}

double collective_time(const struct hardware_spec *hardware, const struct group_placement *group,
                       enum collective operation, double bytes)
{
    if (group->size <= 1 || bytes <= 0) {
        return 0;
    }
    if (operation == COLLECTIVE_SEND_RECEIVE) {
        return hop_time(hardware, group, bytes);
    }
    if (group->nodes <= 1) {
        return intra_time(hardware, operation, (double)group->size, bytes);
    }
    double time_s;
    if (operation == COLLECTIVE_ALL_TO_ALL) {
        time_s = all_to_all_time(hardware, group, bytes);
    } else if (operation == COLLECTIVE_ALL_REDUCE) {
        time_s = all_reduce_plan(hardware, group, bytes).time_s;
    } else {
        time_s = flat_ring_time(hardware, group, operation, bytes);
    }
    return hardware->network.is_ideal ? fmin(time_s, ideal_time(hardware, group, operation, bytes)) : time_s;
}

double hop_time(const struct hardware_spec *hardware, const struct group_placement *group, double bytes)
{
    if (group->size <= 1 || bytes <= 0) {
        return 0;
    }
    double per_node = (double)group->ranks_per_node;
    double intra_s = per_node > 1 ? intra_time(hardware, COLLECTIVE_SEND_RECEIVE, per_node, bytes) : 0;
    if (group->nodes <= 1) {
        return intra_s;
    }
    double share = hardware->network.is_ideal ? 1 : hardware->network.efficiency.value;
    double network_s = bytes / (network_bytes_per_s_per_gpu(hardware) * share) + hardware->network.latency.value;
    return fmax(intra_s, network_s);
}
