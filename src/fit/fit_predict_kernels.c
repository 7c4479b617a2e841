/* Predictions of single kernels and collectives, through the functions of src/cost. A line is timed alone, so a matrix
 * product runs at the curve's own rate, without what a training step loses of it. */
#include "fit/fit_internal.h"

#include <math.h>
#include <string.h>

/* ---- collectives ------------------------------------------------------------------------------------------------ */

static const struct operation_name {
    const char *name; /* as the device program and importers write it */
    enum collective operation;
} operation_names[] = {
    {"all-gather", COLLECTIVE_ALL_GATHER},         {"all_gather", COLLECTIVE_ALL_GATHER},
    {"reduce-scatter", COLLECTIVE_REDUCE_SCATTER}, {"reduce_scatter", COLLECTIVE_REDUCE_SCATTER},
    {"all-reduce", COLLECTIVE_ALL_REDUCE},         {"all_reduce", COLLECTIVE_ALL_REDUCE},
    {"all-to-all", COLLECTIVE_ALL_TO_ALL},         {"all_to_all", COLLECTIVE_ALL_TO_ALL},
    {"send-recv-ring", COLLECTIVE_SEND_RECEIVE},   {"send_receive", COLLECTIVE_SEND_RECEIVE},
};

static bool read_operation(const struct measurement *line, enum collective *operation, struct sp_error *err)
{
    const char *name = NULL;
    if (!fit_text(line, "operation", &name, err)) {
        return false;
    }
    for (size_t i = 0; i < SP_COUNT_OF(operation_names); i++) {
        if (strcmp(name, operation_names[i].name) == 0) {
            *operation = operation_names[i].operation;
            return true;
        }
    }
    return sp_fail(err, SP_ERROR_INPUT, "the operation %.40s is not one of the model's", name);
}

static const double MOST_BYTES = 1e15; /* more than any memory has, and what tables hold */
static const double MOST_RANKS = 1e6;
static const double MOST_WIDTH = 1e9; /* of a matrix, and tokens of a sequence */

/* Ranks have a GPU each, and as many on every node; a rack may be called one node or its trays. */
static bool fits_nodes(const struct hardware_spec *hardware, double ranks, double nodes, struct sp_error *err)
{
    double gpus = fmax(hardware->node.gpus.value, hardware->node.nvlink_domain.value);
    if (!(nodes >= 1) || ranks < 2 || nodes > ranks) {
        return sp_fail(err, SP_ERROR_INPUT, "%g ranks on %g nodes: expected two ranks or more, on 1 to %g nodes", ranks,
                       nodes, ranks);
    }
    if (ranks > gpus * nodes) {
        return sp_fail(err, SP_ERROR_INPUT, "%g ranks on %g node%s: %s has %g GPUs a node", ranks, nodes,
                       sp_plural((int64_t)nodes), hardware->name, gpus);
    }
    double per_node = ranks / nodes;
    return (floor(nodes) >= nodes && floor(per_node) >= per_node) ||
           sp_fail(err, SP_ERROR_INPUT, "%g ranks on %g nodes: expected as many ranks on each node", ranks, nodes);
}

/* A log says how many hosts there were. Where a domain holds several of them the ranks are taken to fill one before the next. */
static double domains_of(const struct hardware_spec *hardware, double ranks, double nodes)
{
    double domain = hardware->node.nvlink_domain.value;
    return domain > hardware->node.gpus.value ? fmin(ceil(ranks / domain), nodes) : nodes;
}

bool collective_point_read(const struct hardware_spec *hardware, const struct measurement *line,
                           struct collective_point *point, struct sp_error *err)
{
    double ranks = 0;
    double nodes = fit_number_or(line, "nodes", 1);
    *point = (struct collective_point){.beside = fit_text_or_none(line, "beside")};
    if (!read_operation(line, &point->operation, err) || !fit_whole(line, "ranks", MOST_RANKS, &ranks, err) ||
        !fit_whole(line, "message_bytes", MOST_BYTES, &point->bytes, err)) {
        return false;
    }
    if (!fits_nodes(hardware, ranks, nodes, err)) {
        return false;
    }
    point->beside = point->beside[0] == '\0' ? "none" : point->beside;
    point->times_kernel = strcmp(fit_text_or_none(line, "timed"), "kernel") == 0;
    nodes = domains_of(hardware, ranks, nodes);
    double per_node = ceil(ranks / nodes);
    point->group = (struct group_placement){.size = (int64_t)ranks,
                                            .stride = 1,
                                            .nodes = (int64_t)nodes,
                                            .ranks_per_node = (int64_t)per_node,
                                            .tier = nodes < 2      ? TIER_NVLINK
                                                    : per_node < 2 ? TIER_NETWORK
                                                                   : TIER_MIXED};
    return true;
}

/* What runs beside a collective is always the same (src/cuda/measure_collective.cu, BESIDE_*): attention without a mask
 * over this many tokens, or a square matrix product. */
static const double BESIDE_TOKENS = 8192;
static const double BESIDE_HEADS = 32;
static const double BESIDE_KV_HEADS = 8;
static const double BESIDE_HEAD_DIM = 128;
static const double BESIDE_SIZE = 8192;

static double gemm_alone(const struct hardware_spec *hardware, const struct gemm_call *call)
{
    struct gpu_spec gpu = hardware->gpu;
    gpu.gemm.sustained.value = 1;
    return gemm_time(&gpu, call);
}

/* While the GPU pauses between samples it draws less than its limit, and the calls run at a higher clock (eq. 29a). */
static double measured_attention_time(const struct gpu_spec *gpu, const struct attention_call *call,
                                      double runs_per_sample)
{
    enum { ROUNDS = 4 }; /* as in fit_predict_methods.c */
    double seconds = attention_time(gpu, call);
    if (attention_tiling_of(call) == NULL) {
        return seconds;
    }
    struct attention_curve curve = *call->curve;
    struct attention_call paused = *call;
    paused.curve = &curve;
    for (int i = 1; i < ROUNDS; i++) {
        curve.clock.headroom = 1 + curve.harness.pause.value / fmax(runs_per_sample, 1) / seconds;
        seconds = attention_time(gpu, &paused);
    }
    return seconds;
}

static bool attention_alone(const struct fit_machine *machine, const struct attention_point *point, double *seconds,
                            struct sp_error *err)
{
    const struct gpu_spec *gpu = &machine->hardware->gpu;
    const struct attention_curve *curve = gpu_attention_curve(gpu, machine->kernel);
    if (curve == NULL) {
        return sp_fail(err, SP_ERROR_INPUT, "%s has no curve of the attention kernel %s", gpu->name, machine->kernel);
    }
    double tokens = point->tokens;
    const struct attention_call call = {
        .curve = curve,
        .block = {.query_rows = tokens,
                  .key_rows = tokens,
                  .pairs = point->is_causal ? tokens * (tokens + 1) / 2 : tokens * tokens,
                  .is_causal = point->is_causal},
        .batch = 1,
        .heads = point->heads,
        .kv_heads = point->kv_heads,
        .head_dim = point->head_dim,
        .value_head_dim = point->head_dim,
        .element_bytes = 2,
        .is_backward = point->is_backward,
    };
    *seconds = measured_attention_time(gpu, &call, point->runs_per_sample);
    return true;
}

bool beside_kernel_time(const struct fit_machine *machine, const char *beside, double *seconds, struct sp_error *err)
{
    if (strcmp(beside, "gemm") == 0) {
        const struct gemm_call call = {.pass = PASS_FORWARD,
                                       .precision = DTYPE_BF16,
                                       .m = BESIDE_SIZE,
                                       .n = BESIDE_SIZE,
                                       .k = BESIDE_SIZE,
                                       .output_bytes = 2};
        *seconds = gemm_alone(machine->hardware, &call);
        return true;
    }
    if (strcmp(beside, "attention") == 0) {
        const struct attention_point point = {
            .tokens = BESIDE_TOKENS, .heads = BESIDE_HEADS, .kv_heads = BESIDE_KV_HEADS, .head_dim = BESIDE_HEAD_DIM};
        return attention_alone(machine, &point, seconds, err);
    }
    return sp_fail(err, SP_ERROR_INPUT, "a collective beside %.40s is not one of the model's", beside);
}

/* A kernel beside a transfer that lasts as long runs on the multiprocessors that the transfer leaves; the transfer itself
 * is priced as if alone (eq. 39). */
static bool predict_collective(const struct fit_machine *machine, const struct measurement *line, double *seconds,
                               struct sp_error *err)
{
    struct collective_point point;
    if (!collective_point_read(machine->hardware, line, &point, err)) {
        return false;
    }
    if (point.group.nodes > 1 && machine->hardware->network.name == NULL) {
        return sp_fail(err, SP_ERROR_INPUT, "%s has no network between nodes", machine->hardware->name);
    }
    if (!point.times_kernel) {
        *seconds = collective_time(machine->hardware, &point.group, point.operation, point.bytes);
        return true;
    }
    const struct gpu_spec *gpu = &machine->hardware->gpu;
    double held = point.group.nodes > 1 ? gpu->network_communication_sms.value : gpu->communication_sms.value;
    if (!beside_kernel_time(machine, point.beside, seconds, err)) {
        return false;
    }
    if (held >= gpu->sm_count.value) {
        return sp_fail(err, SP_ERROR_INPUT, "the transfer holds all multiprocessors: nothing runs beside it");
    }
    *seconds /= 1 - held / gpu->sm_count.value;
    return true;
}

/* ---- kernels ---------------------------------------------------------------------------------------------------- */

bool gemm_point_read(const struct measurement *line, struct gemm_point *point, struct sp_error *err)
{
    static const char *const passes[] = {"forward", "input-gradient", "weight-gradient", NULL};
    const char *pass = NULL;
    *point = (struct gemm_point){.call = {.precision = DTYPE_BF16, .output_bytes = 2}};
    if (!fit_text(line, "pass", &pass, err) || !fit_whole(line, "m", MOST_WIDTH, &point->call.m, err) ||
        !fit_whole(line, "n", MOST_WIDTH, &point->call.n, err) ||
        !fit_whole(line, "k", MOST_WIDTH, &point->call.k, err)) {
        return false;
    }
    int index = sp_index_of(pass, passes);
    point->call.pass = index < 0 ? PASS_FORWARD : (enum pass)index;
    return index >= 0 ||
           sp_fail(err, SP_ERROR_INPUT, "a matrix product of the pass %.40s is not one of the model's", pass);
}

bool attention_point_read(const struct measurement *line, struct attention_point *point, struct sp_error *err)
{
    const char *pass = NULL;
    const char *mask = NULL;
    *point = (struct attention_point){0};
    if (!fit_text(line, "pass", &pass, err) || !fit_text(line, "mask", &mask, err) ||
        !fit_whole(line, "tokens", MOST_WIDTH, &point->tokens, err) ||
        !fit_whole(line, "heads", MOST_WIDTH, &point->heads, err) ||
        !fit_whole(line, "kv_heads", MOST_WIDTH, &point->kv_heads, err) ||
        !fit_whole(line, "head_dim", MOST_WIDTH, &point->head_dim, err)) {
        return false;
    }
    point->runs_per_sample = fit_number_or(line, "runs_per_sample", 1);
    point->is_backward = strcmp(pass, "backward") == 0;
    point->is_causal = strcmp(mask, "causal") == 0;
    if (!point->is_backward && strncmp(pass, "forward", strlen("forward")) != 0 && strcmp(pass, "merge") != 0) {
        return sp_fail(err, SP_ERROR_INPUT, "attention of the pass %.40s is not one of the model's", pass);
    }
    return point->is_causal || strcmp(mask, "full") == 0 ||
           sp_fail(err, SP_ERROR_INPUT, "attention under the mask %.40s is not one of the model's", mask);
}

/* Bytes that a forward pass reads and writes in bf16, each once: what a pass that adds to a float32 sum moves beyond them
 * takes the time of an element-wise kernel. */
static double plain_forward_bytes(const struct attention_point *point)
{
    double q = point->tokens * point->heads * point->head_dim;
    double k = point->tokens * point->kv_heads * point->head_dim;
    return 2 * (2 * q + 2 * k) + 4 * point->tokens * point->heads;
}

bool has_bytes(const struct measurement *line, struct sp_error *err)
{
    bool is_count = line->bytes >= 1 && line->bytes <= MOST_BYTES && floor(line->bytes) >= line->bytes;
    if (is_count) {
        return true;
    }
    if (line->bytes <= 0) {
        return sp_fail(err, SP_ERROR_INPUT, "\"bytes\": expected a whole number from 1 to %g, found none", MOST_BYTES);
    }
    return sp_fail(err, SP_ERROR_INPUT, "\"bytes\": expected a whole number from 1 to %g, found %g", MOST_BYTES,
                   line->bytes);
}

static bool predict_attention(const struct fit_machine *machine, const struct measurement *line, double *seconds,
                              struct sp_error *err)
{
    struct attention_point point;
    const struct gpu_spec *gpu = &machine->hardware->gpu;
    const char *pass = fit_text_or_none(line, "pass");
    if (!attention_point_read(line, &point, err)) {
        return false;
    }
    if (strcmp(pass, "merge") == 0) {
        *seconds = elementwise_time(gpu, line->bytes, 1);
        return has_bytes(line, err);
    }
    if (!attention_alone(machine, &point, seconds, err)) {
        return false;
    }
    if (strcmp(pass, "forward-accumulate") == 0) {
        *seconds += elementwise_time(gpu, fmax(line->bytes - plain_forward_bytes(&point), 0), 0);
    }
    return true;
}

static bool predict_copy(const struct fit_machine *machine, const struct measurement *line, double *seconds,
                         struct sp_error *err)
{
    const struct gpu_spec *gpu = &machine->hardware->gpu;
    const char *by = NULL;
    if (!fit_text(line, "by", &by, err)) {
        return false;
    }
    if (!has_bytes(line, err)) {
        return false;
    }
    if (strcmp(by, "memcpy") == 0 || strcmp(by, "kernel") == 0) {
        *seconds = copy_time(gpu, line->bytes);
        return true;
    }
    if (strcmp(by, "host-to-device") == 0 || strcmp(by, "device-to-host") == 0) {
        *seconds = line->bytes / gpu->pcie_bandwidth.value + gpu->kernel_latency.value;
        return true;
    }
    return sp_fail(err, SP_ERROR_INPUT, "a copy by %.40s is not one of the model's", by);
}

static bool predict_elementwise(const struct fit_machine *machine, const struct measurement *line, double *seconds,
                                struct sp_error *err)
{
    *seconds = elementwise_time(&machine->hardware->gpu, line->bytes, 1);
    return has_bytes(line, err);
}

static bool predict_latency(const struct fit_machine *machine, const struct measurement *line, double *seconds,
                            struct sp_error *err)
{
    const struct gpu_spec *gpu = &machine->hardware->gpu;
    const char *how = fit_text_or_none(line, "how");
    bool is_launch = strcmp(fit_text_or_none(line, "what"), "launch") == 0;
    if (is_launch && (strcmp(how, "stream") == 0 || strcmp(how, "submit") == 0)) {
        *seconds = gpu->launch_latency.value;
        return true;
    }
    return sp_fail(err, SP_ERROR_INPUT, "a latency of this kind (\"%.40s\") is not one of the model's", how);
}

static bool predict_gemm(const struct fit_machine *machine, const struct measurement *line, double *seconds,
                         struct sp_error *err)
{
    struct gemm_point point;
    if (!gemm_point_read(line, &point, err)) {
        return false;
    }
    *seconds = gemm_alone(machine->hardware, &point.call);
    return true;
}

bool fit_predict_kernel(const struct fit_machine *machine, const struct measurement *line, double *seconds,
                        struct sp_error *err)
{
    typedef bool (*prediction)(const struct fit_machine *, const struct measurement *, double *, struct sp_error *);
    static const prediction predictions[N_MEASUREMENT_GROUPS] = {
        [MEASUREMENT_COPY] = predict_copy,
        [MEASUREMENT_GEMM] = predict_gemm,
        [MEASUREMENT_ATTENTION] = predict_attention,
        [MEASUREMENT_ELEMENTWISE] = predict_elementwise,
        [MEASUREMENT_OPTIMIZER] = predict_elementwise,
        [MEASUREMENT_COLLECTIVE] = predict_collective,
        [MEASUREMENT_LATENCY] = predict_latency,
    };
    prediction predict = predictions[line->group];
    return predict == NULL ? sp_fail(err, SP_ERROR_INPUT, "the group %s is not one of single kernels",
                                     measurement_group_names[line->group])
                           : predict(machine, line, seconds, err);
}
