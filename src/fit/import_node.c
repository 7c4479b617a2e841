/* A topology as the text of a hardware file. Where a shipped node has the same GPU on the same links, its measured tables
 * of collectives come along; everything else that a topology does not say is named as derived or assumed. */
#include "fit/node_shape.h"

#include <string.h>

/* ---- the GPU ---------------------------------------------------------------------------------------------------- */

static bool read_member(const struct sp_json *gpu, const char *key, enum sp_dimension dimension, double *value,
                        struct sp_error *err)
{
    const struct sp_json *figure = sp_json_member(gpu, key);
    const struct sp_json *text =
        figure == NULL || figure->type != SP_JSON_OBJECT ? NULL : sp_json_member(figure, "value");
    return (text != NULL && text->type == SP_JSON_STRING && sp_quantity_parse(text->string, dimension, value, err)) ||
           sp_fail(err, SP_ERROR_INPUT, "$.%s: expected a figure such as %s", key, sp_dimension_expects(dimension));
}

static bool read_gpu(struct sp_arena *arena, const char *name, struct node_gpu *gpu, struct sp_error *err)
{
    const char *path = data_find(arena, "hardware/gpus", name, err);
    const struct sp_json *json = path == NULL ? NULL : sp_json_read(arena, path, err);
    if (json == NULL) {
        return false;
    }
    const struct sp_json *architecture = json->type == SP_JSON_OBJECT ? sp_json_member(json, "architecture") : NULL;
    *gpu = (struct node_gpu){.name = name};
    if (architecture == NULL || architecture->type != SP_JSON_STRING) {
        return sp_fail(err, SP_ERROR_INPUT, "%s: $.architecture: expected a text", path);
    }
    gpu->architecture = architecture->string;
    if (!read_member(json, "pcie_bandwidth", SP_BYTES_PER_S, &gpu->pcie_bytes_per_s, err) ||
        !read_member(json, "power_limit", SP_WATT, &gpu->power_w, err)) {
        sp_error_prefix(err, "%s", path);
        return false;
    }
    return true;
}

/* ---- a shipped node on the same links --------------------------------------------------------------------------- */

struct twin {
    const char *name; /* or NULL: there is none */
    const struct sp_json *intra;
    int64_t largest_domain; /* of any shipped node with this GPU and as many of them */
    const char *largest_name;
};

static bool is_close(double a, double b)
{
    static const double tolerance = 1e-6;
    return a <= b * (1 + tolerance) && b <= a * (1 + tolerance);
}

static void compare_node(struct sp_arena *arena, const struct node_shape *shape, const char *name, struct twin *twin)
{
    struct sp_error ignored = {.kind = SP_ERROR_NONE};
    struct hardware_spec hardware;
    const char *path = data_find(arena, "hardware", name, &ignored);
    const struct sp_json *json = path == NULL ? NULL : sp_json_read(arena, path, &ignored);
    if (json == NULL || !hardware_read(arena, name, NULL, &hardware, &ignored) ||
        strcmp(hardware.gpu.name, shape->gpu.name) != 0) {
        return;
    }
    int64_t domain = (int64_t)hardware.node.nvlink_domain.value;
    bool is_as_large = (int)hardware.node.gpus.value == shape->n_gpus;
    if (is_as_large && domain > twin->largest_domain) {
        twin->largest_domain = domain;
        twin->largest_name = name;
    }
    bool is_nvlink = strcmp(hardware.intra.medium, "nvlink") == 0;
    if (twin->name == NULL && is_nvlink && domain == shape->domain &&
        hardware.intra.has_direct_links == shape->has_direct_links &&
        is_close(hardware.intra.bandwidth.value, shape->n_links * shape->link_bytes_per_s)) {
        twin->name = name;
        twin->intra = sp_json_member(json, "intra");
    }
}

static struct twin find_twin(struct sp_arena *arena, const struct node_shape *shape, struct sp_texts *warnings)
{
    struct twin twin = {.name = NULL};
    struct sp_texts names = {.arena = arena};
    data_names(arena, "hardware", &names);
    for (size_t i = 0; i < names.count && shape->has_nvlink; i++) {
        compare_node(arena, shape, names.items[i], &twin);
    }
    if (twin.largest_domain > shape->n_gpus) {
        sp_texts_add(warnings,
                     "a topology ends at the node: in %s, with as many of these GPUs, NVLink joins %lld over several "
                     "nodes; set node.nvlink_domain if that holds here",
                     twin.largest_name, (long long)twin.largest_domain);
    }
    return twin;
}

/* ---- the file --------------------------------------------------------------------------------------------------- */

struct writing {
    struct sp_arena *arena;
    struct sp_json_writer *writer;
    const struct node_shape *shape;
    const struct import_node_given *given;
};

struct written_figure {
    const char *key;
    double value;
    enum sp_dimension dimension;
    enum sp_figure_kind kind;
    const char *source;
    const char *note; /* or NULL */
};

static void put_figure(const struct writing *writing, const struct written_figure *figure)
{
    struct sp_json_writer *writer = writing->writer;
    bool is_number = figure->dimension == SP_COUNT || figure->dimension == SP_PURE || figure->dimension == SP_FRACTION;
    sp_json_begin_object(writer, figure->key);
    if (is_number) {
        sp_json_put_number(writer, "value", figure->value);
    } else {
        sp_json_put_string(writer, "value", sp_quantity_exact(writing->arena, figure->value, figure->dimension));
    }
    sp_json_put_string(writer, "kind", sp_figure_kind_names[figure->kind]);
    sp_json_put_string(writer, "source", figure->source);
    if (figure->note != NULL) {
        sp_json_put_string(writer, "note", figure->note);
    }
    sp_json_end_object(writer);
}

/* A figure as a file of ours has it, its interval included. */
static void copy_figure(const struct writing *writing, const char *key, const struct sp_figure *figure,
                        enum sp_dimension dimension)
{
    struct sp_json_writer *writer = writing->writer;
    const struct {
        const char *key;
        double value;
    } values[] = {{"value", figure->value}, {"low", figure->low}, {"high", figure->high}};
    sp_json_begin_object(writer, key);
    bool has_interval = figure->low < figure->value || figure->high > figure->value;
    for (size_t i = 0; i < SP_COUNT_OF(values) && (i == 0 || has_interval); i++) {
        if (dimension == SP_FRACTION) {
            sp_json_put_number(writer, values[i].key, values[i].value);
        } else {
            sp_json_put_string(writer, values[i].key, sp_quantity_exact(writing->arena, values[i].value, dimension));
        }
    }
    sp_json_put_string(writer, "kind", sp_figure_kind_names[figure->kind]);
    sp_json_put_string(writer, "source", figure->source);
    if (figure->note != NULL) {
        sp_json_put_string(writer, "note", figure->note);
    }
    sp_json_end_object(writer);
}

static const char default_source[] = "hardware/topology/default.json";

static void put_node(const struct writing *writing)
{
    const struct node_shape *shape = writing->shape;
    const struct topology_figures *figures = shape->figures;
    bool has_islands = shape->domain < shape->n_gpus;
    const char *read = writing->given->source;
    const struct written_figure node[] = {
        {"gpus", shape->n_gpus, SP_COUNT, SP_FIGURE_MEASURED, read, NULL},
        {"nvlink_domain", shape->domain, SP_COUNT, SP_FIGURE_MEASURED, read,
         shape->has_nvlink ? NULL : "no NVLink: all reach each other over PCIe"},
        {"nics", has_islands ? shape->n_gpus : shape->n_nics, SP_COUNT, SP_FIGURE_MEASURED, read,
         has_islands ? "PCIe links: what leaves a domain goes over the PCIe of each card" : shape->nics_note},
        {"host_memory", shape->n_gpus * figures->host_memory_per_gpu.value, SP_BYTES, SP_FIGURE_ASSUMED, default_source,
         figures->host_memory_per_gpu.note},
        {"power", shape->n_gpus * shape->gpu.power_w + figures->host_power.value, SP_WATT, SP_FIGURE_ASSUMED,
         default_source, "power limits of the GPUs and a host"},
    };
    sp_json_begin_object(writing->writer, "node");
    for (size_t i = 0; i < SP_COUNT_OF(node); i++) {
        put_figure(writing, &node[i]);
    }
    sp_json_end_object(writing->writer);
}

static void put_nvlink(const struct writing *writing)
{
    static const double giga = 1e9;
    const struct node_shape *shape = writing->shape;
    struct sp_json_writer *writer = writing->writer;
    sp_json_put_string(writer, "title",
                       sp_format(writing->arena, "%d NVLinks a GPU, %s", shape->n_links,
                                 shape->has_direct_links ? "direct" : "through switches"));
    sp_json_put_string(writer, "medium", "nvlink");
    if (shape->has_direct_links) {
        sp_json_put_bool(writer, "direct_links", true);
    }
    const struct written_figure bandwidth = {"bandwidth",
                                             shape->n_links * shape->link_bytes_per_s,
                                             SP_BYTES_PER_S,
                                             SP_FIGURE_DERIVED,
                                             writing->given->source,
                                             sp_format(writing->arena, "%d links of %g GB/s of %s", shape->n_links,
                                                       shape->link_bytes_per_s / giga, default_source)};
    put_figure(writing, &bandwidth);
    copy_figure(writing, "latency", &shape->figures->nvlink_latency, SP_SECONDS);
}

static void put_pcie(const struct writing *writing)
{
    const struct node_shape *shape = writing->shape;
    const struct sp_figure *share = &shape->figures->pcie_efficiency;
    sp_json_put_string(writing->writer, "title", "PCIe");
    sp_json_put_string(writing->writer, "medium", "pcie");
    const struct written_figure bandwidth = {"bandwidth",
                                             shape->gpu.pcie_bytes_per_s * share->value,
                                             SP_BYTES_PER_S,
                                             SP_FIGURE_ASSUMED,
                                             default_source,
                                             sp_format(writing->arena, "%g of the GPU's pcie_bandwidth: %s",
                                                       share->value, share->note == NULL ? "" : share->note)};
    put_figure(writing, &bandwidth);
    copy_figure(writing, "latency", &shape->figures->pcie_latency, SP_SECONDS);
}

static void put_intra(const struct writing *writing, const struct twin *twin)
{
    if (twin->intra != NULL) {
        import_json_value(writing->writer, twin->intra);
        return;
    }
    sp_json_begin_object(writing->writer, "intra");
    if (writing->shape->has_nvlink) {
        put_nvlink(writing);
    } else {
        put_pcie(writing);
    }
    sp_json_put_string(writing->writer, "note",
                       "nothing was measured on these links: import nccl-tests of this node and calibrate");
    sp_json_end_object(writing->writer);
}

/* PCIe between the NVLink domains of one node. */
static void put_pcie_network(const struct writing *writing)
{
    struct sp_json_writer *writer = writing->writer;
    const struct topology_figures *figures = writing->shape->figures;
    const struct written_figure bandwidth = {
        "bandwidth",
        writing->shape->gpu.pcie_bytes_per_s,
        SP_BYTES_PER_S,
        SP_FIGURE_DERIVED,
        sp_format(writing->arena, "hardware/gpus/%s.json", writing->shape->gpu.name),
        "pcie_bandwidth, for each card and direction"};
    sp_json_begin_object(writer, "network");
    sp_json_put_string(writer, "schema", "seqplan.network/1");
    sp_json_put_string(writer, "name", "pcie");
    sp_json_put_string(writer, "title", "PCIe between NVLink domains");
    put_figure(writing, &bandwidth);
    copy_figure(writing, "efficiency", &figures->pcie_efficiency, SP_FRACTION);
    copy_figure(writing, "collective_efficiency", &figures->pcie_collective_efficiency, SP_FRACTION);
    copy_figure(writing, "all_to_all_efficiency", &figures->pcie_all_to_all_efficiency, SP_FRACTION);
    copy_figure(writing, "latency", &figures->pcie_latency, SP_SECONDS);
    sp_json_put_bool(writer, "inside_node", true);
    sp_json_put_bool(writer, "rail_optimised", false);
    sp_json_end_object(writer);
}

static void put_network(const struct writing *writing, struct sp_texts *warnings)
{
    const struct node_shape *shape = writing->shape;
    if (shape->domain < shape->n_gpus) {
        if (writing->given->network != NULL) {
            sp_texts_add(warnings, "--network %s is left out: PCIe between the NVLink domains stands in its place",
                         writing->given->network);
        }
        put_pcie_network(writing);
    } else if (writing->given->network != NULL) {
        sp_json_put_string(writing->writer, "network", writing->given->network);
    } else if (shape->n_nics > 0) {
        sp_texts_add(warnings,
                     "a topology does not say which network its %d NIC%s on: add --network NAME, here or "
                     "with estimate, to price more than one node",
                     shape->n_nics, shape->n_nics == 1 ? " is" : "s are");
    }
}

static void put_file(const struct writing *writing, const struct twin *twin, struct sp_texts *warnings)
{
    struct sp_json_writer *writer = writing->writer;
    const struct node_shape *shape = writing->shape;
    sp_json_put_string(writer, "schema", "seqplan.hardware/1");
    sp_json_put_string(writer, "name", writing->given->name);
    sp_json_put_string(writer, "title",
                       sp_format(writing->arena, "%d x %s, as nvidia-smi shows it", shape->n_gpus, shape->gpu.name));
    sp_json_put_string(writer, "source", writing->given->source);
    sp_json_put_string(writer, "gpu", shape->gpu.name);
    put_network(writing, warnings);
    put_node(writing);
    put_intra(writing, twin);
}

const char *import_node_text(struct sp_arena *arena, const struct topology *topology,
                             const struct import_node_given *given, struct sp_texts *warnings, struct sp_error *err)
{
    struct topology_figures figures;
    struct node_shape shape = {.figures = &figures};
    if (given->network != NULL && data_find(arena, "hardware/networks", given->network, err) == NULL) {
        return NULL;
    }
    if (!topology_figures_read(arena, &figures, err) || !read_gpu(arena, given->gpu, &shape.gpu, err) ||
        !node_shape_of(arena, topology, &shape, warnings, err)) {
        return NULL;
    }
    const struct twin twin = find_twin(arena, &shape, warnings);
    if (twin.name != NULL) {
        sp_texts_add(warnings, "the links are those of %s: its measured collectives are taken over", twin.name);
    } else {
        sp_texts_add(warnings, "no collective was measured on such links: their times come from bandwidth and latency "
                               "alone; import nccl-tests of this node and calibrate");
    }
    struct import_json json;
    if (!import_json_open_lines(&json, err)) {
        return NULL;
    }
    const struct writing writing = {.arena = arena, .writer = &json.writer, .shape = &shape, .given = given};
    put_file(&writing, &twin, warnings);
    return import_json_close(&json, arena, err);
}
