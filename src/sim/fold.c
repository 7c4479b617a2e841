/* Colour refinement of ranks and links, and the classes that come out (fold.h). */
#include "sim/fold.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- hashes ----------------------------------------------------------------------------------------------------- */

/* The finaliser of splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014). */
static uint64_t mixed(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static uint64_t joined(uint64_t hash, uint64_t next)
{
    return mixed(hash ^ mixed(next));
}

/* Salts of what one colour is told about another. */
enum { SALT_OUT = 1, SALT_IN = 2, SALT_GROUP = 3, SALT_LINK = 4 };

/* ---- state ------------------------------------------------------------------------------------------------------ */

struct route {
    int n;
    int32_t links[MAX_ROUTE];
};

struct refinement {
    const struct fold_input *input;
    struct sp_arena *scratch;
    struct route *routes; /* by edge */
    uint64_t *signatures; /* by edge */
    uint64_t *groups;     /* colours */
    uint64_t *rank_sums, *link_sums;
    uint64_t *sorted;
};

static int route_edge(const struct fold_input *input, const struct fold_edge *edge, int32_t links[MAX_ROUTE])
{
    if (edge->type == input->host_out_type || edge->type == input->host_in_type) {
        return topology_host_route(input->topology, edge->from, edge->type == input->host_out_type, links);
    }
    return topology_route(input->topology, edge->from, edge->to, links);
}

static void open_refinement(const struct fold_input *input, struct sp_arena *scratch, struct refinement *refinement)
{
    size_t links = (size_t)input->topology->n_links;
    size_t ranks = (size_t)input->n_ranks;
    size_t edges = (size_t)input->n_edges;
    size_t most = ranks > links ? ranks : links;
    *refinement = (struct refinement){.input = input, .scratch = scratch};
    refinement->routes = sp_arena_array(scratch, edges + 1, sizeof(struct route));
    refinement->signatures = sp_arena_array(scratch, edges + 1, sizeof(uint64_t));
    refinement->groups = sp_arena_array(scratch, (size_t)input->n_groups + 1, sizeof(uint64_t));
    refinement->rank_sums = sp_arena_array(scratch, ranks, sizeof(uint64_t));
    refinement->link_sums = sp_arena_array(scratch, links + 1, sizeof(uint64_t));
    refinement->sorted = sp_arena_array(scratch, most + 1, sizeof(uint64_t));
    for (size_t i = 0; i < edges; i++) {
        refinement->routes[i].n = route_edge(input, &input->edges[i], refinement->routes[i].links);
    }
}

/* ---- one round -------------------------------------------------------------------------------------------------- */

static void colour_groups(struct refinement *refinement)
{
    const struct fold_input *input = refinement->input;
    for (int64_t g = 0; g < input->n_groups; g++) {
        const struct fold_group *group = &input->groups[g];
        uint64_t sum = 0;
        for (int32_t i = 0; i < group->n_members; i++) {
            sum += mixed(input->rank_colours[group->members[i]]);
        }
        uint64_t hash = joined(mixed((uint64_t)group->type), (uint64_t)group->n_members);
        refinement->groups[g] = joined(hash, sum);
    }
}

static uint64_t edge_signature(const struct refinement *refinement, int64_t e)
{
    const struct fold_input *input = refinement->input;
    const struct fold_edge *edge = &input->edges[e];
    uint64_t hash = mixed((uint64_t)edge->type);
    hash = joined(hash, input->rank_colours[edge->from]);
    hash = joined(hash, input->rank_colours[edge->to]);
    hash = joined(hash, edge->group >= 0 ? refinement->groups[edge->group] : 0);
    for (int i = 0; i < refinement->routes[e].n; i++) {
        hash = joined(hash, input->link_colours[refinement->routes[e].links[i]]);
    }
    return hash;
}

static void tell(struct refinement *refinement)
{
    const struct fold_input *input = refinement->input;
    memset(refinement->rank_sums, 0, (size_t)input->n_ranks * sizeof(uint64_t));
    memset(refinement->link_sums, 0, (size_t)input->topology->n_links * sizeof(uint64_t));
    for (int64_t e = 0; e < input->n_edges; e++) {
        uint64_t signature = edge_signature(refinement, e);
        refinement->signatures[e] = signature;
        refinement->rank_sums[input->edges[e].from] += joined(signature, SALT_OUT);
        refinement->rank_sums[input->edges[e].to] += joined(signature, SALT_IN);
        for (int i = 0; i < refinement->routes[e].n; i++) {
            refinement->link_sums[refinement->routes[e].links[i]] += joined(signature, SALT_LINK + (uint64_t)i);
        }
    }
    for (int64_t g = 0; g < input->n_groups; g++) {
        for (int32_t i = 0; i < input->groups[g].n_members; i++) {
            refinement->rank_sums[input->groups[g].members[i]] += joined(refinement->groups[g], SALT_GROUP);
        }
    }
}

static int compare_hashes(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static int64_t count_distinct(struct refinement *refinement, const uint64_t *colours, int64_t n)
{
    memcpy(refinement->sorted, colours, (size_t)n * sizeof(uint64_t));
    qsort(refinement->sorted, (size_t)n, sizeof(uint64_t), compare_hashes);
    int64_t distinct = n > 0 ? 1 : 0;
    for (int64_t i = 1; i < n; i++) {
        distinct += refinement->sorted[i] != refinement->sorted[i - 1] ? 1 : 0;
    }
    return distinct;
}

static int64_t count_colours(struct refinement *refinement)
{
    const struct fold_input *input = refinement->input;
    return count_distinct(refinement, input->rank_colours, input->n_ranks) +
           count_distinct(refinement, input->link_colours, input->topology->n_links);
}

static void recolour(const struct refinement *refinement)
{
    const struct fold_input *input = refinement->input;
    for (int64_t r = 0; r < input->n_ranks; r++) {
        input->rank_colours[r] = joined(input->rank_colours[r], refinement->rank_sums[r]);
    }
    for (int32_t l = 0; l < input->topology->n_links; l++) {
        input->link_colours[l] = joined(input->link_colours[l], refinement->link_sums[l]);
    }
}

static void refine(struct refinement *refinement)
{
    const struct fold_input *input = refinement->input;
    for (int64_t r = 0; input->is_exact && r < input->n_ranks; r++) {
        input->rank_colours[r] = mixed((uint64_t)r);
    }
    for (int32_t l = 0; input->is_exact && l < input->topology->n_links; l++) {
        input->link_colours[l] = mixed((uint64_t)l);
    }
    int64_t before = 0;
    int64_t now = count_colours(refinement);
    while (now > before && !input->is_exact) {
        colour_groups(refinement);
        tell(refinement);
        recolour(refinement);
        before = now;
        now = count_colours(refinement);
    }
    colour_groups(refinement);
    tell(refinement); /* signatures of edges under the last colours */
}

/* ---- classes ---------------------------------------------------------------------------------------------------- */

/* Numbers for hashes, in the order of their first item. */
struct numbering {
    size_t mask;
    uint64_t *keys;
    int32_t *numbers; /* -1: free */
    int32_t n;
};

static void open_numbering(struct numbering *numbering, struct sp_arena *scratch, int64_t most)
{
    size_t size = 16;
    while (size < 2 * (size_t)most) {
        size *= 2;
    }
    *numbering = (struct numbering){.mask = size - 1};
    numbering->keys = sp_arena_array(scratch, size, sizeof(uint64_t));
    numbering->numbers = sp_arena_array(scratch, size, sizeof(int32_t));
    for (size_t i = 0; i < size; i++) {
        numbering->numbers[i] = -1;
    }
}

static int32_t number_of(struct numbering *numbering, uint64_t key, bool *is_new)
{
    size_t at = (size_t)mixed(key) & numbering->mask;
    while (numbering->numbers[at] >= 0 && numbering->keys[at] != key) {
        at = (at + 1) & numbering->mask;
    }
    *is_new = numbering->numbers[at] < 0;
    if (*is_new) {
        numbering->keys[at] = key;
        numbering->numbers[at] = numbering->n++;
    }
    return numbering->numbers[at];
}

struct classes {
    int n;
    int32_t *of, *first;
    int64_t *count;
};

static struct classes classify(const uint64_t *colours, int64_t n, struct sp_arena *arena, struct sp_arena *scratch)
{
    struct numbering numbering;
    struct classes classes = {.n = 0};
    open_numbering(&numbering, scratch, n);
    classes.of = sp_arena_array(arena, (size_t)n + 1, sizeof(int32_t));
    int32_t *first = sp_arena_array(scratch, (size_t)n + 1, sizeof(int32_t));
    int64_t *count = sp_arena_array(scratch, (size_t)n + 1, sizeof(int64_t));
    for (int64_t i = 0; i < n; i++) {
        bool is_new;
        int32_t class = number_of(&numbering, colours[i], &is_new);
        first[class] = is_new ? (int32_t)i : first[class];
        count[class]++;
        classes.of[i] = class;
    }
    classes.n = numbering.n;
    classes.first = sp_arena_array(arena, (size_t)classes.n + 1, sizeof(int32_t));
    classes.count = sp_arena_array(arena, (size_t)classes.n + 1, sizeof(int64_t));
    memcpy(classes.first, first, (size_t)classes.n * sizeof(int32_t));
    memcpy(classes.count, count, (size_t)classes.n * sizeof(int64_t));
    return classes;
}

static void class_groups(const struct refinement *refinement, struct sp_arena *arena, struct folded *folded)
{
    const struct fold_input *input = refinement->input;
    struct classes classes = classify(refinement->groups, input->n_groups, arena, refinement->scratch);
    folded->n_groups = classes.n;
    folded->group_class = classes.of;
    folded->groups = sp_arena_array(arena, (size_t)classes.n + 1, sizeof(struct fold_group_class));
    bool *is_seen = sp_arena_array(refinement->scratch, (size_t)folded->n_ranks, sizeof(bool));
    for (int g = 0; g < classes.n; g++) {
        const struct fold_group *first = &input->groups[classes.first[g]];
        struct fold_group_class *class = &folded->groups[g];
        *class =
            (struct fold_group_class){.type = first->type, .count = classes.count[g], .n_members = first->n_members};
        class->classes = sp_arena_array(arena, (size_t)first->n_members, sizeof(int32_t));
        for (int32_t i = 0; i < first->n_members; i++) {
            int32_t rank = folded->rank_class[first->members[i]];
            if (!is_seen[rank]) {
                is_seen[rank] = true;
                class->classes[class->n_classes++] = rank;
            }
        }
        for (int i = 0; i < class->n_classes; i++) {
            is_seen[class->classes[i]] = false;
        }
    }
}

/* By the colours' refinement every edge of a class crosses links of the same classes in the same order, and each link of a class
 * is crossed by as many: their number over the links'. A class that a route meets twice is counted once, with both. */
static void class_edges(const struct refinement *refinement, struct sp_arena *arena, struct folded *folded)
{
    const struct fold_input *input = refinement->input;
    struct classes classes = classify(refinement->signatures, input->n_edges, refinement->scratch, refinement->scratch);
    folded->n_edges = classes.n;
    folded->edges = sp_arena_array(arena, (size_t)classes.n + 1, sizeof(struct fold_edge_class));
    for (int e = 0; e < classes.n; e++) {
        const struct fold_edge *first = &input->edges[classes.first[e]];
        const struct route *route = &refinement->routes[classes.first[e]];
        struct fold_edge_class *class = &folded->edges[e];
        *class = (struct fold_edge_class){.type = first->type,
                                          .from = folded->rank_class[first->from],
                                          .to = folded->rank_class[first->to],
                                          .group = first->group >= 0 ? folded->group_class[first->group] : -1,
                                          .count = classes.count[e]};
        for (int i = 0; i < route->n; i++) {
            int32_t link = folded->link_class[route->links[i]];
            double weight = (double)class->count / (double)folded->link_count[link];
            int at = 0;
            while (at < class->n_hops && class->hops[at].link != link) {
                at++;
            }
            class->n_hops += at == class->n_hops ? 1 : 0;
            class->hops[at].link = link;
            class->hops[at].weight += weight;
        }
    }
}

void fold(const struct fold_input *input, struct sp_arena *arena, struct folded *folded)
{
    struct sp_arena *scratch = sp_arena_open();
    struct refinement refinement;
    open_refinement(input, scratch, &refinement);
    refine(&refinement);
    struct classes ranks = classify(input->rank_colours, input->n_ranks, arena, scratch);
    struct classes links = classify(input->link_colours, input->topology->n_links, arena, scratch);
    *folded = (struct folded){.n_ranks = ranks.n,
                              .rank_class = ranks.of,
                              .rank_first = ranks.first,
                              .rank_count = ranks.count,
                              .n_links = links.n,
                              .link_class = links.of,
                              .link_first = links.first,
                              .link_count = links.count};
    class_groups(&refinement, arena, folded);
    class_edges(&refinement, arena, folded);
    sp_arena_close(scratch);
}
