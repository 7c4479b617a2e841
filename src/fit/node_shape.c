/* What of a topology the model of a node can say: domains of NVLink of one size, one rate of the links, how many NICs are
 * near the GPUs. */
#include "fit/node_shape.h"

#include <assert.h>
#include <string.h>

/* ---- figures ---------------------------------------------------------------------------------------------------- */

#define FIGURE(owner, member, dim, low, high, text)                                                                    \
    {                                                                                                                  \
        .key = #member, .type = SP_FIELD_FIGURE, .dimension = (dim), .offset = offsetof(struct owner, member),         \
        .min = (low), .max = (high), .is_required = true, .help = (text)                                               \
    }
#define TEXT(member, text)                                                                                             \
    {                                                                                                                  \
        .key = #member, .type = SP_FIELD_STRING, .offset = offsetof(struct topology_figures, member),                  \
        .is_required = true, .help = (text)                                                                            \
    }
#define LINKS(member)                                                                                                  \
    {                                                                                                                  \
        .key = #member, .type = SP_FIELD_OBJECT, .offset = offsetof(struct topology_figures, member),                  \
        .is_required = true, .help = "NVLinks of this architecture", .fields = link_fields                             \
    }
#define END                                                                                                            \
    {                                                                                                                  \
        .key = NULL                                                                                                    \
    }

static const struct sp_field link_fields[] = {
    FIGURE(link_figures, nvlinks, SP_COUNT, 1, 1000, "links of a GPU"),
    FIGURE(link_figures, nvlink_bandwidth, SP_BYTES_PER_S, 1e6, 1e14, "rate of one link, per direction"),
    END,
};

static const struct sp_field topology_fields[] = {
    TEXT(schema, "\"seqplan.topology/1\""),
    TEXT(name, "name of the file"),
    TEXT(title, "as people write it"),
    TEXT(source, "where the file as a whole comes from"),
    LINKS(ampere),
    LINKS(hopper),
    LINKS(blackwell),
    FIGURE(topology_figures, nvlink_latency, SP_SECONDS, 0, 1, "of one exchange over NVLink"),
    FIGURE(topology_figures, pcie_latency, SP_SECONDS, 0, 1, "of one exchange over PCIe"),
    FIGURE(topology_figures, pcie_efficiency, SP_FRACTION, 0.01, 1, "share that one transfer over PCIe reaches"),
    FIGURE(topology_figures, pcie_collective_efficiency, SP_FRACTION, 0.01, 1,
           "share that rings between domains reach"),
    FIGURE(topology_figures, pcie_all_to_all_efficiency, SP_FRACTION, 0.01, 1, "share that an all-to-all reaches"),
    FIGURE(topology_figures, host_memory_per_gpu, SP_BYTES, 1e9, 1e15, "host memory of a node, by GPU"),
    FIGURE(topology_figures, host_power, SP_WATT, 1, 1e7, "power of a node beside its GPUs"),
    END,
};

bool topology_figures_read(struct sp_arena *arena, struct topology_figures *figures, struct sp_error *err)
{
    *figures = (struct topology_figures){.schema = NULL};
    const char *path = data_find(arena, "hardware/topology", "default", err);
    const struct sp_json *json = path == NULL ? NULL : sp_json_read(arena, path, err);
    const struct sp_decoder decoder = {.arena = arena, .file = path};
    return json != NULL && sp_fields_decode(topology_fields, &decoder, json, "$", figures, err);
}

static const struct link_figures *links_of(const struct topology_figures *figures, const char *architecture)
{
    return strcmp(architecture, "blackwell") == 0 ? &figures->blackwell
           : strcmp(architecture, "hopper") == 0  ? &figures->hopper
                                                  : &figures->ampere;
}

/* ---- domains ---------------------------------------------------------------------------------------------------- */

/* GPUs that NVLink joins, over others or directly, have the domain of the lowest of them. */
static void find_domains(const struct topology *topology, int domains[TOPOLOGY_MOST_DEVICES])
{
    for (int i = 0; i < topology->n_gpus; i++) {
        domains[i] = i;
    }
    bool has_changed = true;
    while (has_changed) {
        has_changed = false;
        for (int a = 0; a < topology->n_gpus; a++) {
            for (int b = 0; b < topology->n_gpus; b++) {
                if (topology->gpu_paths[a][b] == TOPOLOGY_NVLINK && domains[b] < domains[a]) {
                    domains[a] = domains[b];
                    has_changed = true;
                }
            }
        }
    }
}

static int divisor(int a, int b)
{
    while (b != 0) {
        int rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static int size_of_domain(const struct topology *topology, const int domains[TOPOLOGY_MOST_DEVICES], int domain)
{
    int size = 0;
    for (int i = 0; i < topology->n_gpus; i++) {
        size += domains[i] == domain ? 1 : 0;
    }
    return size;
}

/* "GPU0, GPU2" */
static const char *members_text(struct sp_arena *arena, const struct topology *topology,
                                const int domains[TOPOLOGY_MOST_DEVICES], int domain)
{
    struct sp_texts names = {.arena = arena};
    for (int i = 0; i < topology->n_gpus; i++) {
        if (domains[i] == domain) {
            sp_texts_add(&names, "GPU%d", i);
        }
    }
    return sp_join(arena, names.items, names.count, ", ");
}

/* The model knows domains of one size, of neighbours. */
static void shape_domains(struct sp_arena *arena, const struct topology *topology, struct node_shape *shape,
                          struct sp_texts *warnings)
{
    int domains[TOPOLOGY_MOST_DEVICES];
    find_domains(topology, domains);
    int common = 0;
    struct sp_texts sets = {.arena = arena};
    bool is_scattered = false;
    bool is_uneven = false;
    for (int i = 0; i < topology->n_gpus; i++) {
        if (domains[i] != i) {
            continue;
        }
        int size = size_of_domain(topology, domains, i);
        is_uneven = is_uneven || (common != 0 && size != common);
        common = divisor(size, common);
        for (int member = i; member < i + size; member++) {
            is_scattered = is_scattered || member >= topology->n_gpus || domains[member] != i;
        }
        sp_texts_add(&sets, "%s", members_text(arena, topology, domains, i));
    }
    const char *found = sp_join(arena, sets.items, sets.count, " | ");
    shape->has_nvlink = common > 1 || sets.count < (size_t)topology->n_gpus;
    shape->domain = shape->has_nvlink ? common : topology->n_gpus;
    if (is_uneven) {
        sp_texts_add(warnings, "NVLink joins sets of different sizes (%s): a node has domains of one size, taken as %d",
                     found, shape->domain);
    } else if (is_scattered) {
        sp_texts_add(warnings,
                     "NVLink joins GPUs that are no neighbours (%s): ranks are placed on neighbours, so order the "
                     "GPUs with CUDA_VISIBLE_DEVICES",
                     found);
    }
}

/* ---- links ------------------------------------------------------------------------------------------------------ */

struct link_count {
    int least_pair, most_pair; /* NVLinks between two of a domain */
    int least_sum, most_sum;   /* of a GPU to all others, where it has any */
    bool has_gap;              /* two of a domain are not joined directly */
};

static struct link_count count_links(const struct topology *topology, int domain)
{
    struct link_count count = {.least_pair = 0};
    assert(domain > 0);
    for (int a = 0; a < topology->n_gpus; a++) {
        int sum = 0;
        for (int b = 0; b < topology->n_gpus; b++) {
            int n_links = topology->gpu_links[a][b];
            sum += n_links;
            count.has_gap = count.has_gap || (a != b && a / domain == b / domain && n_links == 0);
            if (n_links > 0) {
                bool is_less = count.least_pair == 0 || n_links < count.least_pair;
                count.least_pair = is_less ? n_links : count.least_pair;
                count.most_pair = n_links > count.most_pair ? n_links : count.most_pair;
            }
        }
        count.least_sum = sum > 0 && (count.least_sum == 0 || sum < count.least_sum) ? sum : count.least_sum;
        count.most_sum = sum > count.most_sum ? sum : count.most_sum;
    }
    return count;
}

/* Through a switch every pair shows all links of a GPU, and together more than it has. */
static bool shape_links(const struct topology *topology, struct node_shape *shape, struct sp_texts *warnings,
                        struct sp_error *err)
{
    const struct link_figures *figures = links_of(shape->figures, shape->gpu.architecture);
    int n_owned = (int)figures->nvlinks.value;
    struct link_count count = count_links(topology, shape->domain);
    shape->link_bytes_per_s = figures->nvlink_bandwidth.value;
    if (count.most_pair > n_owned) {
        return sp_fail(err, SP_ERROR_INPUT,
                       "NV%d: %s has %d NVLinks: name the GPU of this node with --gpu, one of %s/gpus", count.most_pair,
                       shape->gpu.name, n_owned, "hardware");
    }
    shape->has_direct_links = count.most_sum <= n_owned;
    shape->n_links = shape->has_direct_links ? count.least_sum : count.least_pair;
    if (count.least_pair < count.most_pair) {
        sp_texts_add(warnings, "pairs have from %d to %d NVLinks: a GPU's links are taken as divided evenly",
                     count.least_pair, count.most_pair);
    } else if (count.has_gap) {
        sp_texts_add(warnings, "not all GPUs of an NVLink domain are joined directly: they are taken as if they were");
    }
    if (shape->n_links < n_owned) {
        sp_texts_add(warnings, "%d of the %d NVLinks of %s are in use", shape->n_links, n_owned, shape->gpu.name);
    }
    return true;
}

/* PCIe has one rate between any two; the matrix may know better. */
static void warn_of_paths(const struct topology *topology, const struct node_shape *shape, struct sp_texts *warnings)
{
    struct sp_texts names = {.arena = warnings->arena};
    for (int path = (int)TOPOLOGY_PIX; path <= (int)TOPOLOGY_SYS; path++) {
        for (int a = 0; a < topology->n_gpus; a++) {
            for (int b = 0; b < a; b++) {
                if ((int)topology->gpu_paths[a][b] == path) {
                    sp_texts_add(&names, "%s", topology_path_names[path]);
                }
            }
        }
    }
    if (names.count > 1) {
        sp_texts_add(warnings, "paths over PCIe differ (%s): a node has one rate for all of them",
                     sp_join(names.arena, names.items, names.count, ", "));
    }
    if (names.count > 0 && shape->has_nvlink && topology->n_nics > 0) {
        sp_texts_add(warnings,
                     "between its NVLink domains this node has PCIe, which stands as its network: its %d NIC%s cannot "
                     "stand beside it; --network of estimate puts a network in its place",
                     topology->n_nics, sp_plural(topology->n_nics));
    }
}

/* ---- NICs ------------------------------------------------------------------------------------------------------- */

static enum topology_path nearest_path(const struct topology *topology, int nic)
{
    enum topology_path nearest = TOPOLOGY_UNKNOWN;
    for (int gpu = 0; gpu < topology->n_gpus; gpu++) {
        nearest = topology->nic_paths[gpu][nic] < nearest ? topology->nic_paths[gpu][nic] : nearest;
    }
    return nearest;
}

/* Those that share a PCIe switch with a GPU; where there are none, those at the host bridge of one; else all. */
static enum topology_path farthest_used(const struct topology *topology)
{
    enum topology_path best = TOPOLOGY_UNKNOWN;
    for (int nic = 0; nic < topology->n_nics; nic++) {
        enum topology_path own = nearest_path(topology, nic);
        best = own < best ? own : best;
    }
    return best <= TOPOLOGY_PXB ? TOPOLOGY_PXB : best == TOPOLOGY_PHB ? TOPOLOGY_PHB : TOPOLOGY_UNKNOWN;
}

static void warn_of_nics(const struct topology *topology, enum topology_path farthest, struct sp_texts *warnings)
{
    struct sp_texts without = {.arena = warnings->arena};
    for (int gpu = 0; gpu < topology->n_gpus; gpu++) {
        bool has_near = false;
        for (int nic = 0; nic < topology->n_nics; nic++) {
            has_near = has_near || topology->nic_paths[gpu][nic] <= farthest;
        }
        if (!has_near) {
            sp_texts_add(&without, "GPU%d", gpu);
        }
    }
    if (farthest < TOPOLOGY_UNKNOWN && without.count > 0) {
        sp_texts_add(warnings, "%s %s no NIC near: NICs are taken as shared evenly by all GPUs",
                     sp_join(without.arena, without.items, without.count, ", "), without.count == 1 ? "has" : "have");
    }
}

static void shape_nics(struct sp_arena *arena, const struct topology *topology, struct node_shape *shape,
                       struct sp_texts *warnings)
{
    enum topology_path farthest = farthest_used(topology);
    struct sp_texts used = {.arena = arena};
    struct sp_texts left = {.arena = arena};
    for (int nic = 0; nic < topology->n_nics; nic++) {
        bool is_used = nearest_path(topology, nic) <= farthest;
        sp_texts_add(is_used ? &used : &left, "%s", topology->nic_names[nic]);
    }
    shape->n_nics = (int)used.count;
    shape->nics_note = topology->n_nics == 0 ? "the topology lists no NIC"
                                             : sp_format(arena, "%s: %s",
                                                         farthest == TOPOLOGY_PXB   ? "behind the PCIe switch of a GPU"
                                                         : farthest == TOPOLOGY_PHB ? "at the host bridge of a GPU"
                                                                                    : "all that are listed",
                                                         sp_join(arena, used.items, used.count, ", "));
    if (left.count > 0) {
        sp_texts_add(warnings, "%zu of %d NICs are farther from every GPU and left out: %s", left.count,
                     topology->n_nics, sp_join(arena, left.items, left.count, ", "));
    }
    warn_of_nics(topology, farthest, warnings);
}

bool node_shape_of(struct sp_arena *arena, const struct topology *topology, struct node_shape *shape,
                   struct sp_texts *warnings, struct sp_error *err)
{
    shape->n_gpus = topology->n_gpus;
    shape_domains(arena, topology, shape, warnings);
    if (shape->has_nvlink && !shape_links(topology, shape, warnings, err)) {
        return false;
    }
    shape_nics(arena, topology, shape, warnings);
    warn_of_paths(topology, shape, warnings);
    return true;
}
