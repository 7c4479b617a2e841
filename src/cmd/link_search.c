/* The layout of a row on other links: which interconnect it needs. */
#include "cmd/command.h"

#include <math.h>
#include <string.h>

/* What a row is priced on beside the links of its own cluster: the fastest network of today, and the one that most
 * people have. */
static const char *const other_networks[] = {"ib-xdr", "eth-100g", "ideal"};

struct search {
    const struct request *request;
    const struct priced *row;
    struct sp_arena *scratch;
    struct report_link *links;
    int n_links;
};

static bool is_one_domain(const struct question *question)
{
    return question->run.gpus <= (int64_t)question->hardware.node.nvlink_domain.value;
}

static bool has_link(const struct search *search, const char *name)
{
    for (int i = 0; i < search->n_links; i++) {
        if (strcmp(search->links[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

/* Links stay sorted by rate, the fastest first. */
static void add_link(struct search *search, const struct report_link *link)
{
    if (search->n_links == REPORT_MAX_LINKS || has_link(search, link->name)) {
        return;
    }
    int at = search->n_links++;
    while (at > 0 && search->links[at - 1].bytes_per_s < link->bytes_per_s) {
        search->links[at] = search->links[at - 1];
        at--;
    }
    search->links[at] = *link;
}

static void add_priced(struct search *search, const struct priced *priced)
{
    const struct network_spec *network = &priced->question.hardware.network;
    const struct report_link link = {.name = network->is_ideal ? "ideal" : network->name,
                                     .bytes_per_s = network->bandwidth.value,
                                     .step_time_s = priced->estimate.step_time_s,
                                     .is_bound = network->is_ideal};
    add_link(search, &link);
}

/* What --set says of the network is about the one that the user asked for. */
static bool is_of_network(const char *setting)
{
    static const char root[] = "network.";
    return strncmp(setting, root, strlen(root)) == 0;
}

/* The same layout, on this network and, where the cluster is one NVLink domain, as if only tp shared a domain. */
static struct request request_on(const struct search *search, const char *network, bool is_asked_for)
{
    const struct layout_spec *layout = &search->row->question.layout;
    struct request request = *search->request;
    request.network = network;
    request.is_other_network = !is_asked_for;
    request.set = (struct sp_texts){.arena = search->scratch};
    for (size_t i = 0; i < search->request->set.count; i++) {
        if (is_asked_for || !is_of_network(search->request->set.items[i])) {
            sp_texts_add(&request.set, "%s", search->request->set.items[i]);
        }
    }
    if (is_one_domain(&search->row->question)) {
        sp_texts_add(&request.set, "node.nvlink_domain=%lld", (long long)layout->tp);
    }
    if (layout->method == METHOD_USP) { /* both depend on the domain unless they are given */
        request.sp_ulysses = (struct sp_option_count){.is_given = true, .value = layout->sp_ulysses};
    } else if (layout->method == METHOD_DOUBLE_RING) {
        request.sp_inner = (struct sp_option_count){.is_given = true, .value = layout->sp_inner};
    }
    return request;
}

static void try_network(struct search *search, const char *network, bool is_asked_for)
{
    struct request request = request_on(search, network, is_asked_for);
    struct priced *priced = sp_arena_alloc(search->scratch, sizeof(*priced));
    struct sp_error refused = {.kind = SP_ERROR_NONE};
    /* over a network that a node has no NIC for a step takes forever */
    if (price_request(&request, search->scratch, priced, &refused) && isfinite(priced->estimate.step_time_s)) {
        add_priced(search, priced);
    }
}

int price_links(const struct request *request, struct sp_arena *scratch, const struct priced *row,
                struct report_link links[REPORT_MAX_LINKS])
{
    struct search search = {.request = request, .row = row, .scratch = scratch, .links = links};
    const struct hardware_spec *hardware = &row->question.hardware;
    if (is_one_domain(&row->question)) {
        const struct report_link inside = {.name = hardware->intra.medium,
                                           .bytes_per_s = hardware->intra.bandwidth.value,
                                           .step_time_s = row->estimate.step_time_s};
        add_link(&search, &inside);
        try_network(&search, request->network, true);
    } else {
        add_priced(&search, row);
    }
    if (request->network != NULL) {
        try_network(&search, NULL, false);
    }
    for (size_t i = 0; i < SP_COUNT_OF(other_networks); i++) {
        try_network(&search, other_networks[i], false);
    }
    return search.n_links;
}
