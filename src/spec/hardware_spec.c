#include "spec/spec_internal.h"

#include <math.h>
#include <string.h>

/* Shorthands for the rows below: every figure of a hardware file is one row. */
#define FIGURE(owner, member, dim, low, high, required, text)                                                          \
    {                                                                                                                  \
        .key = #member, .type = SP_FIELD_FIGURE, .dimension = (dim), .offset = offsetof(struct owner, member),         \
        .min = (low), .max = (high), .is_required = (required), .help = (text)                                         \
    }
#define TEXT(owner, member, required, text)                                                                            \
    {                                                                                                                  \
        .key = #member, .type = SP_FIELD_STRING, .offset = offsetof(struct owner, member), .is_required = (required),  \
        .help = (text)                                                                                                 \
    }
#define END                                                                                                            \
    {                                                                                                                  \
        .key = NULL                                                                                                    \
    }

/* Wide bounds: they catch a wrong unit (Gb for GB, ms for us), not an unusual machine. A time of zero is a what-if that
 * people ask; a rate of zero is not. */
#define GPU_FIGURES                                                                                                    \
    FIGURE(gpu_spec, hbm_capacity, SP_BYTES, 1e9, 1e14, true, "device memory that the driver reports"),                \
        FIGURE(gpu_spec, context_memory, SP_BYTES, 0, 1e11, true, "taken by the CUDA context before any allocation"),  \
        FIGURE(gpu_spec, hbm_bandwidth, SP_BYTES_PER_S, 1e9, 1e15, true, "peak rate of the device memory"),            \
        FIGURE(gpu_spec, elementwise_bandwidth, SP_BYTES_PER_S, 1e9, 1e15, true,                                       \
               "rate that large element-wise kernels reach, bytes read plus written"),                                 \
        FIGURE(gpu_spec, peak_bf16, SP_FLOP_PER_S, 1e9, 1e18, true, "dense peak of bf16"),                             \
        FIGURE(gpu_spec, peak_fp16, SP_FLOP_PER_S, 1e9, 1e18, true, "dense peak of fp16"),                             \
        FIGURE(gpu_spec, peak_fp8, SP_FLOP_PER_S, 1e9, 1e18, false,                                                    \
               "dense peak of fp8; left out where there is none"),                                                     \
        FIGURE(gpu_spec, peak_fp32, SP_FLOP_PER_S, 1e9, 1e18, true, "peak of fp32 without tensor cores"),              \
        FIGURE(gpu_spec, sm_count, SP_COUNT, 1, 1e5, true, "streaming multiprocessors"),                               \
        FIGURE(gpu_spec, l2_capacity, SP_BYTES, 1e5, 1e12, true, "last-level cache"),                                  \
        FIGURE(gpu_spec, power_limit, SP_WATT, 1, 1e5, true, "power limit of one GPU"),                                \
        FIGURE(gpu_spec, pcie_bandwidth, SP_BYTES_PER_S, 1e6, 1e13, true, "host link, per direction"),                 \
        FIGURE(gpu_spec, price, SP_PER_HOUR, 0, 1e6, false, "price of one GPU for an hour"),                           \
        FIGURE(gpu_spec, kernel_latency, SP_SECONDS, 0, 1, true, "shortest time between two dependent kernels"),       \
        FIGURE(gpu_spec, launch_latency, SP_SECONDS, 0, 1, true, "host time to launch a kernel"),                      \
        FIGURE(gpu_spec, curve_power_limit, SP_WATT, 1, 1e5, true,                                                     \
               "power limit under which the curves were measured"),                                                    \
        FIGURE(gpu_spec, power_exponent, SP_PURE, 0, 2, true, "sustained rates fall with power to this exponent"),     \
        FIGURE(gpu_spec, max_clock, SP_HERTZ, 1e8, 1e10, false, "highest clock of the multiprocessors"),               \
        FIGURE(gpu_spec, static_power, SP_WATT, 0, 1e5, false, "power at that clock without work"),                    \
        FIGURE(gpu_spec, memory_power, SP_WATT, 1, 1e5, false,                                                         \
               "power at that clock of kernels that only move memory"),                                                \
        FIGURE(gpu_spec, clock_spread, SP_FRACTION, 0, 0.5, false, "standard deviation of clocks between such GPUs"),  \
        FIGURE(gpu_spec, clock_exponent, SP_PURE, 1, 4, false,                                                         \
               "power beyond static grows with clock to this exponent"),                                               \
        FIGURE(gpu_spec, network_communication_sms, SP_COUNT, 0, 1e5, true,                                            \
               "multiprocessors that a transfer over the network holds while it runs beside compute"),                 \
        FIGURE(gpu_spec, communication_sms, SP_COUNT, 0, 1e5, true,                                                    \
               "multiprocessors that a transfer holds while it runs beside compute")

#define GPU_TEXTS                                                                                                      \
    TEXT(gpu_spec, schema, true, "\"seqplan.gpu/1\""), TEXT(gpu_spec, name, true, "name of the file"),                 \
        TEXT(gpu_spec, title, true, "as people write it"),                                                             \
        TEXT(gpu_spec, source, false, "where the file as a whole comes from"),                                         \
        TEXT(gpu_spec, architecture, true, "\"ampere\", \"hopper\", \"blackwell\"")

static const struct sp_field gpu_fields[] = {
    GPU_TEXTS,
    GPU_FIGURES,
    {.key = "gemm",
     .type = SP_FIELD_CUSTOM,
     .offset = offsetof(struct gpu_spec, gemm),
     .is_required = true,
     .help = "rate of large matrix products by pass and contracted dimension",
     .decode = gemm_curve_decode},
    {.key = "gemm_fp8",
     .type = SP_FIELD_CUSTOM,
     .help = "the same in fp8; left out where it is not known",
     .decode = gemm_fp8_decode},
    {.key = "copy",
     .type = SP_FIELD_CUSTOM,
     .offset = offsetof(struct gpu_spec, copy),
     .is_required = true,
     .help = "time of a copy inside device memory by bytes read plus written",
     .decode = copy_curve_decode},
    {.key = "attention",
     .type = SP_FIELD_CUSTOM,
     .is_required = true,
     .help = "rate of attention kernels by pass, mask, head_dim, heads and sequence",
     .decode = attention_curves_decode},
    END,
};

/* What --set reaches: the figures, those beside the GEMM table included. */
static const struct sp_field gpu_settable[] = {
    GPU_FIGURES,
    {.key = "gemm",
     .type = SP_FIELD_OBJECT,
     .offset = offsetof(struct gpu_spec, gemm),
     .help = "figures beside the table of matrix products",
     .fields = gemm_figure_fields},
    {.key = "gemm_fp8",
     .type = SP_FIELD_OBJECT,
     .offset = offsetof(struct gpu_spec, gemm_fp8),
     .help = "the same in fp8",
     .fields = gemm_figure_fields},
    END,
};

static const struct sp_field node_fields[] = {
    FIGURE(node_spec, gpus, SP_COUNT, 1, 1024, true, "GPUs in a node"),
    FIGURE(node_spec, nvlink_domain, SP_COUNT, 1, 1024, true, "GPUs that reach each other without the network"),
    FIGURE(node_spec, nics, SP_COUNT, 0, 1024, true, "network adapters for GPU traffic"),
    FIGURE(node_spec, host_memory, SP_BYTES, 1e9, 1e15, true, "host memory of a node"),
    FIGURE(node_spec, power, SP_WATT, 1, 1e7, true, "power of a node under load"),
    END,
};

#define INTRA_FIGURES                                                                                                  \
    FIGURE(intra_spec, bandwidth, SP_BYTES_PER_S, 1e6, 1e14, true, "per GPU and direction"),                           \
        FIGURE(intra_spec, latency, SP_SECONDS, 0, 1, true, "of one exchange between two GPUs"),                       \
    {                                                                                                                  \
        .key = "direct_links", .type = SP_FIELD_BOOL, .offset = offsetof(struct intra_spec, has_direct_links),         \
        .help = "for simulate: no switch, a GPU's links are divided among the others of its domain"                    \
    }

static const struct sp_field intra_fields[] = {
    TEXT(intra_spec, title, true, "as people write it"),
    TEXT(intra_spec, medium, true, "\"nvlink\" or \"pcie\""),
    TEXT(intra_spec, note, false, "what to know about the tables"),
    INTRA_FIGURES,
    {.key = "tables",
     .type = SP_FIELD_CUSTOM,
     .help = "measured time of collectives by operation, ranks and bytes",
     .decode = collective_lines_decode},
    END,
};
static const struct sp_field intra_settable[] = {INTRA_FIGURES, END};

#define NETWORK_FIGURES                                                                                                \
    FIGURE(network_spec, bandwidth, SP_BYTES_PER_S, 1e6, 1e14, true, "per network adapter and direction"),             \
        FIGURE(network_spec, efficiency, SP_FRACTION, 0.01, 1, true, "share of it that one long transfer reaches"),    \
        FIGURE(network_spec, collective_efficiency, SP_FRACTION, 0.01, 1, true, "share that rings over nodes reach"),  \
        FIGURE(network_spec, all_to_all_efficiency, SP_FRACTION, 0.01, 1, true, "share that an all-to-all reaches"),   \
        FIGURE(network_spec, latency, SP_SECONDS, 0, 1, true, "of one message between nodes"),                         \
        FIGURE(network_spec, leaf_nodes, SP_COUNT, 1, 1e6, false,                                                      \
               "for simulate: nodes that share their leaf switches; left out where nobody knows"),                     \
        FIGURE(network_spec, collective_piece, SP_BYTES, 1, 1e12, false,                                               \
               "what a tree of all-reduces passes on at a time"),                                                      \
        FIGURE(network_spec, oversubscription, SP_PURE, 1, 1000, false,                                                \
               "for simulate: rate of the ports below a leaf switch over that of its uplinks"),                        \
        {.key = "rail_optimised",                                                                                      \
         .type = SP_FIELD_BOOL,                                                                                        \
         .offset = offsetof(struct network_spec, is_rail_optimised),                                                   \
         .is_required = true,                                                                                          \
         .help = "equal GPUs of all nodes share a switch"},                                                            \
    {                                                                                                                  \
        .key = "inside_node", .type = SP_FIELD_BOOL, .offset = offsetof(struct network_spec, is_inside_node),          \
        .help = "links between the domains of one node, none to others"                                                \
    }

static const struct sp_field network_fields[] = {
    TEXT(network_spec, schema, true, "\"seqplan.network/1\""),
    TEXT(network_spec, name, true, "name of the file"),
    TEXT(network_spec, title, true, "as people write it"),
    TEXT(network_spec, source, false, "where the file as a whole comes from"),
    NETWORK_FIGURES,
    END,
};
static const struct sp_field network_settable[] = {NETWORK_FIGURES, END};

bool schema_check(const struct sp_decoder *decoder, const struct sp_json *json, const char *path, const char *expected,
                  struct sp_error *err)
{
    const struct sp_json *schema = json->type == SP_JSON_OBJECT ? sp_json_member(json, "schema") : NULL;
    if (schema == NULL || schema->type != SP_JSON_STRING || strcmp(schema->string, expected) == 0) {
        return true;
    }
    return sp_fail(err, SP_ERROR_INPUT, "%s: %s.schema: expected \"%s\", found \"%.60s\"", decoder->file, path,
                   expected, schema->string);
}

static bool gpu_decode(const struct sp_decoder *decoder, const struct sp_json *json, const char *path,
                       struct gpu_spec *gpu, struct sp_error *err)
{
    return schema_check(decoder, json, path, "seqplan.gpu/1", err) &&
           sp_fields_decode(gpu_fields, decoder, json, path, gpu, err);
}

static bool network_decode(const struct sp_decoder *decoder, const struct sp_json *json, const char *path,
                           struct network_spec *network, struct sp_error *err)
{
    return schema_check(decoder, json, path, "seqplan.network/1", err) &&
           sp_fields_decode(network_fields, decoder, json, path, network, err);
}

/* Opens the file of a name; *decoder is then for that file. */
static const struct sp_json *open_named(struct sp_decoder *decoder, const char *kind, const char *name,
                                        struct sp_error *err)
{
    const char *path = data_find(decoder->arena, kind, name, err);
    decoder->file = path;
    return path == NULL ? NULL : sp_json_read(decoder->arena, path, err);
}

/* An error inside a named file says who named it. */
static bool in_member(const struct sp_decoder *decoder, const char *path, struct sp_error *err)
{
    sp_error_prefix(err, "%s: %s", decoder->file, path);
    return false;
}

/* "gpu": the name of a file, or such a file inline. */
static bool gpu_member_decode(const struct sp_decoder *decoder, const struct sp_json *json, const char *path,
                              void *target, struct sp_error *err)
{
    if (json->type != SP_JSON_STRING) {
        return gpu_decode(decoder, json, path, target, err);
    }
    struct sp_decoder named = *decoder;
    const struct sp_json *file = open_named(&named, "hardware/gpus", json->string, err);
    return (file != NULL && gpu_decode(&named, file, "$", target, err)) || in_member(decoder, path, err);
}

static bool network_member_decode(const struct sp_decoder *decoder, const struct sp_json *json, const char *path,
                                  void *target, struct sp_error *err)
{
    if (json->type != SP_JSON_STRING) {
        return network_decode(decoder, json, path, target, err);
    }
    struct sp_decoder named = *decoder;
    const struct sp_json *file = open_named(&named, "hardware/networks", json->string, err);
    return (file != NULL && network_decode(&named, file, "$", target, err)) || in_member(decoder, path, err);
}

static const struct sp_field file_fields[] = {
    TEXT(hardware_spec, schema, true, "\"seqplan.hardware/1\""),
    TEXT(hardware_spec, name, true, "name of the file"),
    TEXT(hardware_spec, title, true, "as people write it"),
    TEXT(hardware_spec, source, false, "where the file as a whole comes from"),
    {.key = "gpu",
     .type = SP_FIELD_CUSTOM,
     .offset = offsetof(struct hardware_spec, gpu),
     .is_required = true,
     .help = "name in hardware/gpus, or such an object",
     .decode = gpu_member_decode},
    {.key = "network",
     .type = SP_FIELD_CUSTOM,
     .offset = offsetof(struct hardware_spec, network),
     .help = "name in hardware/networks, or such an object; left out for a machine without a network",
     .decode = network_member_decode},
    {.key = "node",
     .type = SP_FIELD_OBJECT,
     .offset = offsetof(struct hardware_spec, node),
     .is_required = true,
     .help = "the node",
     .fields = node_fields},
    {.key = "intra",
     .type = SP_FIELD_OBJECT,
     .offset = offsetof(struct hardware_spec, intra),
     .is_required = true,
     .help = "the links inside the node",
     .fields = intra_fields},
    END,
};

const struct sp_field hardware_fields[] = {
    {.key = "gpu",
     .type = SP_FIELD_OBJECT,
     .offset = offsetof(struct hardware_spec, gpu),
     .help = "one GPU",
     .fields = gpu_settable},
    {.key = "node",
     .type = SP_FIELD_OBJECT,
     .offset = offsetof(struct hardware_spec, node),
     .help = "the node",
     .fields = node_fields},
    {.key = "intra",
     .type = SP_FIELD_OBJECT,
     .offset = offsetof(struct hardware_spec, intra),
     .help = "the links inside the node",
     .fields = intra_settable},
    {.key = "network",
     .type = SP_FIELD_OBJECT,
     .offset = offsetof(struct hardware_spec, network),
     .help = "the network between the nodes",
     .fields = network_settable},
    END,
};

static bool sets_figure(const struct gemm_curve *curve)
{
    bool is_set = curve->sustained.kind == SP_FIGURE_SET;
    for (int pass = 0; pass < (int)N_GEMM_PASSES; pass++) {
        is_set = is_set || curve->ceiling[pass].kind == SP_FIGURE_SET;
    }
    return is_set;
}

/* What the tables cannot say: how the figures of a node fit together. */
bool hardware_check(const struct hardware_spec *hardware, const char *file, enum sp_error_kind kind,
                    struct sp_error *err)
{
    double gpus = hardware->node.gpus.value;
    double domain = hardware->node.nvlink_domain.value;
    bool divides = domain < gpus ? fmod(gpus, domain) <= 0 : fmod(domain, gpus) <= 0;
    if (!divides) {
        return sp_fail(err, kind,
                       "%s: node.nvlink_domain: expected a divisor or a multiple of the node's %.0f GPUs, found %.0f",
                       file, gpus, domain);
    }
    if (hardware->gpu.context_memory.value >= hardware->gpu.hbm_capacity.value) {
        return sp_fail(err, kind, "%s: gpu.context_memory: expected less than hbm_capacity, found %.0f of %.0f bytes",
                       file, hardware->gpu.context_memory.value, hardware->gpu.hbm_capacity.value);
    }
    static const char *const architectures[] = {"ampere", "hopper", "blackwell", NULL};
    if (sp_index_of(hardware->gpu.architecture, architectures) < 0) {
        return sp_fail(err, kind, "%s: gpu.architecture: expected ampere, hopper or blackwell, found \"%.40s\"", file,
                       hardware->gpu.architecture);
    }
    const struct {
        const char *path;
        double sms;
    } held[] = {{"gpu.communication_sms", hardware->gpu.communication_sms.value},
                {"gpu.network_communication_sms", hardware->gpu.network_communication_sms.value}};
    for (size_t i = 0; i < SP_COUNT_OF(held); i++) {
        if (held[i].sms > hardware->gpu.sm_count.value) {
            return sp_fail(err, kind, "%s: %s: expected at most the sm_count of %.0f, found %.0f", file, held[i].path,
                           hardware->gpu.sm_count.value, held[i].sms);
        }
    }
    if (!hardware->gpu.has_gemm_fp8 && sets_figure(&hardware->gpu.gemm_fp8)) {
        return sp_fail(err, kind,
                       "%s: gpu.gemm_fp8: expected nothing, %s has no table of fp8 products to set it beside", file,
                       hardware->gpu.name);
    }
    const char *medium = hardware->intra.medium;
    if (strcmp(medium, "nvlink") != 0 && strcmp(medium, "pcie") != 0) {
        return sp_fail(err, kind, "%s: $.intra.medium: expected \"nvlink\" or \"pcie\", found \"%.40s\"", file, medium);
    }
    return true;
}

static bool make_ideal(struct hardware_spec *hardware, struct sp_error *err)
{
    if (hardware->network.name == NULL) {
        return sp_fail(err, SP_ERROR_USAGE, "--network ideal: %s has no network of its own to take the rate from",
                       hardware->name);
    }
    hardware->network.name = "ideal";
    hardware->network.title = "ideal";
    hardware->network.is_ideal = true;
    return true;
}

static bool replace_network(struct sp_arena *arena, const char *name, struct network_spec *network,
                            struct sp_error *err)
{
    struct sp_decoder decoder = {.arena = arena};
    const struct sp_json *json = open_named(&decoder, "hardware/networks", name, err);
    *network = (struct network_spec){0};
    return json != NULL && network_decode(&decoder, json, "$", network, err);
}

bool hardware_decode(struct sp_arena *arena, const char *path, const struct sp_json *json,
                     struct hardware_spec *hardware, struct sp_error *err)
{
    *hardware = (struct hardware_spec){.path = path};
    const struct sp_decoder decoder = {.arena = arena, .file = path};
    return schema_check(&decoder, json, "$", "seqplan.hardware/1", err) &&
           sp_fields_decode(file_fields, &decoder, json, "$", hardware, err) &&
           hardware_check(hardware, path, SP_ERROR_INPUT, err);
}

bool hardware_from_json(struct sp_arena *arena, const char *path, const struct sp_json *json,
                        struct hardware_spec *hardware, struct sp_error *err)
{
    if (!hardware_decode(arena, path, json, hardware, err)) {
        return false;
    }
    hardware->gpu.curve_hbm_bandwidth = hardware->gpu.hbm_bandwidth.value;
    hardware->gpu.curve_peak_bf16 = hardware->gpu.peak_bf16.value;
    hardware->gpu.curve_peak_fp8 = hardware->gpu.peak_fp8.value;
    hardware->intra.curve_bandwidth = hardware->intra.bandwidth.value;
    hardware->intra.curve_latency = hardware->intra.latency.value;
    return true;
}

bool hardware_read(struct sp_arena *arena, const char *name_or_path, const char *network_name,
                   struct hardware_spec *hardware, struct sp_error *err)
{
    const char *path = data_find(arena, "hardware", name_or_path, err);
    const struct sp_json *json = path == NULL ? NULL : sp_json_read(arena, path, err);
    if (json == NULL || !hardware_from_json(arena, path, json, hardware, err)) {
        return false;
    }
    if (network_name != NULL && strcmp(network_name, "ideal") == 0) {
        return make_ideal(hardware, err);
    }
    bool is_own =
        network_name == NULL || (hardware->network.name != NULL && strcmp(network_name, hardware->network.name) == 0);
    return is_own || replace_network(arena, network_name, &hardware->network, err);
}

bool hardware_set(struct sp_arena *arena, struct hardware_spec *hardware, const char *path, const char *text,
                  struct sp_error *err)
{
    return sp_fields_set(hardware_fields, arena, path, text, hardware, err) &&
           hardware_check(hardware, "--set", SP_ERROR_USAGE, err);
}

const struct attention_curve *gpu_attention_curve(const struct gpu_spec *gpu, const char *kernel)
{
    for (int i = 0; i < gpu->n_attention; i++) {
        if (strcmp(gpu->attention[i].kernel, kernel) == 0) {
            return &gpu->attention[i];
        }
    }
    return NULL;
}
