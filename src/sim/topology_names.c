/* Names of links: as a report writes them, and as a user picks them. */
#include "sim/topology.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- as a report writes them ------------------------------------------------------------------------------------ */

static bool is_inward(enum link_kind kind)
{
    return kind == LINK_NVLINK_IN || kind == LINK_PCIE_IN || kind == LINK_NODE_BUS_IN || kind == LINK_NIC_IN ||
           kind == LINK_LEAF_DOWN;
}

const char *topology_link_name(struct sp_arena *arena, const struct topology *topology, int32_t link)
{
    assert(link >= 0 && link < topology->n_links);
    const struct topology_link *it = &topology->links[link];
    const char *way = is_inward(it->kind) ? "in" : "out";
    switch (it->kind) {
    case LINK_NVLINK_OUT:
    case LINK_NVLINK_IN:
        return sp_format(arena, "gpu %d nvlink %s", it->index, way);
    case LINK_PAIR:
        return sp_format(arena, "gpu %d nvlink to gpu %d", it->index, it->peer);
    case LINK_PCIE_OUT:
    case LINK_PCIE_IN:
        return sp_format(arena, "gpu %d pcie %s", it->index, way);
    case LINK_NODE_BUS_OUT:
    case LINK_NODE_BUS_IN:
        return sp_format(arena, "node %d bus %d %s", it->node, it->index, way);
    case LINK_NIC_OUT:
    case LINK_NIC_IN:
        return sp_format(arena, "node %d nic %d %s", it->node, it->index, way);
    case LINK_LEAF_UP:
    case LINK_LEAF_DOWN:
        way = is_inward(it->kind) ? "down" : "up";
        return topology->hardware->network.is_rail_optimised
                   ? sp_format(arena, "leaf %d rail %d %s", it->node, it->index, way)
                   : sp_format(arena, "leaf %d %s", it->node, way);
    case N_LINK_KINDS:
        break;
    }
    assert(!"kind of link");
    return "";
}

/* ---- as a user picks them --------------------------------------------------------------------------------------- */

/* Kinds of links that a text begins with, and what its numbers count. */
struct link_family {
    const char *name;
    enum link_kind out, in;
    const char *first, *second; /* "node", "nic"; second NULL: one number */
    const char *ways[3];
};

static const struct link_family families[] = {
    {"nvlink", LINK_NVLINK_OUT, LINK_NVLINK_IN, "gpu", NULL, {"out", "in", NULL}},
    {"nvlink", LINK_PAIR, LINK_PAIR, "gpu", "gpu", {"out", "in", NULL}}, /* out: where the first number sends */
    {"pcie", LINK_PCIE_OUT, LINK_PCIE_IN, "gpu", NULL, {"out", "in", NULL}},
    {"bus", LINK_NODE_BUS_OUT, LINK_NODE_BUS_IN, "node", "bus", {"out", "in", NULL}},
    {"nic", LINK_NIC_OUT, LINK_NIC_IN, "node", "nic", {"out", "in", NULL}},
    {"leaf", LINK_LEAF_UP, LINK_LEAF_DOWN, "leaf", "rail", {"up", "down", NULL}},
};

enum { ANY = -1 };
struct link_choice {
    const struct link_family *family;
    int64_t first, second; /* or ANY */
    int way;               /* index in ways, or ANY */
};

static bool is_here(const struct topology *topology, const struct link_family *family)
{
    return topology->first_of_kind[family->out] >= 0;
}

/* The two numbers of a link, as texts of its family write them. */
static void numbers_of(const struct topology_link *link, bool is_in, int64_t *first, int64_t *second)
{
    bool is_of_gpu = link->kind == LINK_NVLINK_OUT || link->kind == LINK_NVLINK_IN || link->kind == LINK_PCIE_OUT ||
                     link->kind == LINK_PCIE_IN;
    *first = is_of_gpu ? link->index : link->node;
    *second = is_of_gpu ? 0 : link->index;
    if (link->kind == LINK_PAIR) {
        *first = is_in ? link->peer : link->index;
        *second = is_in ? link->index : link->peer;
    }
}

static bool is_meant(const struct link_choice *choice, const struct topology_link *link, int way)
{
    if (link->kind != (way == 0 ? choice->family->out : choice->family->in) ||
        (choice->way != ANY && choice->way != way)) {
        return false;
    }
    int64_t first;
    int64_t second;
    numbers_of(link, way == 1, &first, &second);
    return (choice->first == ANY || choice->first == first) && (choice->second == ANY || choice->second == second);
}

/* Largest first and second number that links of a family have. */
static void largest_numbers(const struct topology *topology, const struct link_family *family, int64_t largest[2])
{
    largest[0] = largest[1] = 0;
    for (int32_t i = 0; i < topology->n_links; i++) {
        if (topology->links[i].kind == family->out) {
            int64_t first;
            int64_t second;
            numbers_of(&topology->links[i], false, &first, &second);
            largest[0] = first > largest[0] ? first : largest[0];
            largest[1] = second > largest[1] ? second : largest[1];
        }
    }
}

static bool find_family(const struct topology *topology, const char *text, struct link_choice *choice,
                        struct sp_error *err)
{
    char names[64] = "";
    for (size_t i = 0; i < SP_COUNT_OF(families); i++) {
        size_t length = strlen(families[i].name);
        if (!is_here(topology, &families[i])) {
            continue;
        }
        if (strncmp(text, families[i].name, length) == 0 && text[length] == ':') {
            choice->family = &families[i];
            return true;
        }
        size_t at = strlen(names);
        (void)snprintf(names + at, sizeof(names) - at, "%s%s:", at == 0 ? "" : ", ", families[i].name);
    }
    if (names[0] == '\0') {
        return sp_fail(err, SP_ERROR_USAGE, "%.60s: an ideal network has no links that transfers share", text);
    }
    return sp_fail(err, SP_ERROR_USAGE, "%.60s: links of this cluster begin with %s", text, names);
}

/* A number or "*"; *end is left where it ends, or unchanged when it is neither. */
static int64_t read_number(const char **end)
{
    if (**end == '*') {
        (*end)++;
        return ANY;
    }
    char *after = NULL;
    bool is_digit = **end >= '0' && **end <= '9';
    int64_t value = is_digit ? strtoll(*end, &after, 10) : ANY;
    *end = is_digit ? after : *end;
    return value;
}

/* What comes after the family: "2.5:out". False where the text is of another form. */
static bool read_place(const char *at, bool may_leave_second, struct link_choice *choice)
{
    const char *begin = at;
    choice->first = read_number(&at);
    choice->second = choice->way = ANY;
    if (at == begin) {
        return false;
    }
    bool has_second = *at == '.';
    if (has_second) {
        begin = ++at;
        choice->second = read_number(&at);
    }
    if ((has_second && (at == begin || choice->family->second == NULL)) ||
        (!has_second && choice->first != ANY && !may_leave_second)) {
        return false;
    }
    if (*at == ':') {
        choice->way = sp_index_of(at + 1, choice->family->ways);
        return choice->way >= 0;
    }
    return *at == '\0';
}

static bool fail_form(const struct link_family *family, const char *text, bool has_second, struct sp_error *err)
{
    const char *second = has_second ? ".0" : "";
    return sp_fail(err, SP_ERROR_USAGE,
                   "%.60s: expected %s:%s%s%s, for instance %s:0%s, %s:*, or with a way %s:0%s:%s (or :%s)", text,
                   family->name, family->first, has_second ? "." : "", has_second ? family->second : "", family->name,
                   second, family->name, family->name, second, family->ways[0], family->ways[1]);
}

static bool fail_number(const char *text, const char *what, int64_t number, int64_t largest, struct sp_error *err)
{
    if (largest == 0) {
        return sp_fail(err, SP_ERROR_USAGE, "%.60s: %s %lld is not there, there is only %s 0", text, what,
                       (long long)number, what);
    }
    return sp_fail(err, SP_ERROR_USAGE, "%.60s: %s %lld is not there, %ss are 0 to %lld", text, what, (long long)number,
                   what, (long long)largest);
}

static bool read_choice(const struct topology *topology, const char *text, struct link_choice *choice,
                        struct sp_error *err)
{
    if (!find_family(topology, text, choice, err)) {
        return false;
    }
    const struct link_family *family = choice->family;
    int64_t largest[2];
    largest_numbers(topology, family, largest);
    /* one leaf a group has no rails to tell apart, and a GPU's direct links are all its NVLink */
    bool may_leave_second = family->second == NULL || largest[1] == 0 || family->out == LINK_PAIR;
    if (!read_place(text + strlen(family->name) + 1, may_leave_second, choice)) {
        return fail_form(family, text, !may_leave_second, err);
    }
    if (choice->first > largest[0]) {
        return fail_number(text, family->first, choice->first, largest[0], err);
    }
    return choice->second <= largest[1] || fail_number(text, family->second, choice->second, largest[1], err);
}

bool topology_select(const struct topology *topology, const char *text, bool *is_selected, struct sp_error *err)
{
    struct link_choice choice = {0};
    if (!read_choice(topology, text, &choice, err)) {
        return false;
    }
    bool is_any = false;
    for (int32_t i = 0; i < topology->n_links; i++) {
        if (is_meant(&choice, &topology->links[i], 0) || is_meant(&choice, &topology->links[i], 1)) {
            is_selected[i] = true;
            is_any = true;
        }
    }
    return is_any ||
           sp_fail(err, SP_ERROR_USAGE, "%.60s: no such link: direct links join GPUs of one NVLink domain", text);
}
