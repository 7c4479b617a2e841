/* The contract's defaults: what a request leaves out. */
#include "spec/spec_internal.h"

#include <assert.h>
#include <string.h>

static const int64_t DEFAULT_BATCH_TOKENS = (int64_t)16 << 20; /* 16 Mi tokens per optimizer step */
/* With these no product of degrees, batch and sequence that a rule forms leaves an int64_t. */
const int64_t largest_micro_batch = (int64_t)1 << 20;
static const int64_t LARGEST_CLUSTER = (int64_t)1 << 30;

/* ---- cluster ---------------------------------------------------------------------------------------------------- */

static bool check_cluster(int64_t gpus, int64_t per_node, struct sp_error *err)
{
    if (gpus > LARGEST_CLUSTER) {
        return sp_fail_rule(err, "gpus_per_node", "%lld gpus: expected at most %lld", (long long)gpus,
                            (long long)LARGEST_CLUSTER);
    }
    if (gpus <= per_node || gpus % per_node == 0) {
        return true;
    }
    int64_t below = gpus / per_node * per_node;
    int64_t above = below + per_node;
    return sp_fail_rule(err, "gpus_per_node",
                        "%lld gpus: expected up to the %lld of a node or a multiple of %lld; nearest: %lld, %lld",
                        (long long)gpus, (long long)per_node, (long long)per_node, (long long)below, (long long)above);
}

int64_t hardware_largest_cluster(const struct hardware_spec *hardware)
{
    bool has_network = hardware->network.name != NULL && hardware->node.nics.value >= 1;
    if (!has_network) {
        return (int64_t)hardware->node.nvlink_domain.value;
    }
    return hardware->network.is_inside_node ? (int64_t)hardware->node.gpus.value : LARGEST_CLUSTER;
}

bool defaults_cluster(const struct request *request, struct question *question, struct sp_error *err)
{
    struct run_spec *run = &question->run;
    int64_t per_node = (int64_t)question->hardware.node.gpus.value;
    run->gpus = request->gpus.is_given ? request->gpus.value : request->nodes.value * per_node;
    run->nodes = (run->gpus + per_node - 1) / per_node;
    run->seq = request->seq.value;
    if (!check_cluster(run->gpus, per_node, err)) {
        return false;
    }
    if (request->nodes.is_given && request->nodes.value != run->nodes) {
        return sp_fail_rule(err, "gpus_nodes",
                            "%lld gpu%s %lld node%s of %lld, not the %lld of --nodes; give one of the two",
                            (long long)run->gpus, run->gpus == 1 ? " is" : "s are", (long long)run->nodes,
                            sp_plural(run->nodes), (long long)per_node, (long long)request->nodes.value);
    }
    bool is_spread = run->gpus > (int64_t)question->hardware.node.nvlink_domain.value;
    if (is_spread && question->hardware.network.name == NULL) {
        return sp_fail_rule(err, "needs_network", "%lld gpus need a network and %s has none: add --network NAME",
                            (long long)run->gpus, question->hardware.name);
    }
    if (run->nodes > 1 && question->hardware.network.is_inside_node) {
        return sp_fail_rule(err, "needs_network",
                            "%lld gpus are %lld nodes, and %s has only links inside its node: add --network NAME%s",
                            (long long)run->gpus, (long long)run->nodes, question->hardware.name,
                            question->hardware.network.is_ideal ? ", not ideal, which takes its rate from one" : "");
    }
    if (is_spread && question->hardware.node.nics.value < 1) {
        return sp_fail_rule(err, "needs_network",
                            "%lld gpus need a network and the nodes of %s have no NIC: add --set node.nics=N",
                            (long long)run->gpus, question->hardware.name);
    }
    return true;
}

/* ---- layout ----------------------------------------------------------------------------------------------------- */

static int64_t count_or(struct sp_option_count count, int64_t value)
{
    return count.is_given ? count.value : value;
}

/* Largest divisor of n, at most `limit`, that also divides a and b. */
static int64_t largest_divisor(int64_t n, int64_t limit, int64_t a, int64_t b)
{
    for (int64_t divisor = n < limit ? n : limit; divisor > 1; divisor--) {
        if (n % divisor == 0 && a % divisor == 0 && b % divisor == 0) {
            return divisor;
        }
    }
    return 1;
}

/* dp is what the other degrees leave; when they do not divide the cluster, layout_check() says so. */
static void fill_degrees(const struct request *request, const struct run_spec *run, struct layout_spec *layout)
{
    layout->tp = count_or(request->tp, 1);
    layout->sp = count_or(request->sp, 1);
    layout->pp = count_or(request->pp, 1);
    layout->vpp = count_or(request->vpp, 1);
    layout->ep = count_or(request->ep, 1);
    layout->etp = count_or(request->etp, 1);
    layout->micro_batch = count_or(request->micro_batch, 1);
    int64_t left = run->gpus / layout->tp / layout->sp / layout->pp;
    layout->dp = count_or(request->dp, left > 0 ? left : 1);
}

/* Ulysses inside usp and the inner ring of double-ring: the largest legal within an NVLink domain. */
static void fill_sp_factors(const struct request *request, const struct question *question, struct layout_spec *layout)
{
    int64_t domain = (int64_t)question->hardware.node.nvlink_domain.value;
    int64_t limit = domain / layout->tp > 1 ? domain / layout->tp : 1;
    layout->sp_ulysses = layout->method == METHOD_ULYSSES ? layout->sp : 1;
    layout->sp_inner = 1;
    if (layout->method == METHOD_USP) {
        int64_t heads = question->model.n_heads / layout->tp;
        int64_t kv_heads = question->model.n_kv_heads / layout->tp;
        layout->sp_ulysses = largest_divisor(layout->sp, limit, heads, kv_heads > 0 ? kv_heads : 1);
    }
    if (layout->method == METHOD_DOUBLE_RING) {
        layout->sp_inner = largest_divisor(layout->sp, limit, layout->sp, layout->sp);
    }
    layout->sp_ulysses = count_or(request->sp_ulysses, layout->sp_ulysses);
    layout->sp_inner = count_or(request->sp_inner, layout->sp_inner);
}

static bool fill_order(const struct request *request, struct sp_arena *arena, struct layout_spec *layout,
                       struct sp_error *err)
{
    static const enum axis megatron_order[N_AXES] = {AXIS_TP, AXIS_CP, AXIS_EP, AXIS_DP, AXIS_PP};
    memcpy(layout->order, megatron_order, sizeof(layout->order));
    for (size_t i = 0; i < request->set.count; i++) {
        struct setting setting = {0};
        if (!setting_split(arena, request->set.items[i], &setting, err)) {
            return false;
        }
        if (strcmp(setting.path, "layout.order") == 0 && !order_parse(arena, setting.value, layout->order, err)) {
            sp_error_prefix(err, "--set: layout.order");
            return false;
        }
    }
    return true;
}

static bool fill_recompute(const struct request *request, struct layout_spec *layout, struct sp_error *err)
{
    const char *text = request->recompute != NULL ? request->recompute : "full";
    if (!recompute_parse(text, &layout->recompute, &layout->recompute_layers, err)) {
        sp_error_prefix(err, "--recompute");
        return false;
    }
    return true;
}

static bool fill_offload(const struct request *request, struct sp_arena *arena, struct layout_spec *layout,
                         struct sp_error *err)
{
    if (request->offload != NULL && !offload_parse(arena, request->offload, layout, err)) {
        sp_error_prefix(err, "--offload");
        return false;
    }
    return true;
}

/* ZBV folds the pipeline over two chunks a rank: --vpp 1, given or not, leaves it those two. */
static void fill_schedule(const struct request *request, struct layout_spec *layout)
{
    enum schedule_id schedule = layout->vpp > 1 ? SCHEDULE_INTERLEAVED : SCHEDULE_1F1B;
    layout->schedule = request->schedule >= 0 ? (enum schedule_id)request->schedule : schedule;
    if (layout->schedule == SCHEDULE_ZBV && layout->vpp == 1) {
        layout->vpp = ZBV_CHUNKS;
    }
}

static bool fill_pp_layers(const struct request *request, struct sp_arena *arena, struct layout_spec *layout,
                           struct sp_error *err)
{
    if (!pp_layers_parse(arena, request->pp_layers, layout, err)) {
        sp_error_prefix(err, "--pp-layers");
        return false;
    }
    return true;
}

static bool fill_attention(const struct request *request, struct question *question, struct sp_error *err)
{
    const struct gpu_spec *gpu = &question->hardware.gpu;
    bool has_cudnn = strcmp(gpu->architecture, "hopper") == 0 || strcmp(gpu->architecture, "blackwell") == 0;
    const char *kernel = request->attention != NULL ? request->attention : has_cudnn ? "cudnn" : "fa2";
    const struct attention_curve *curve = gpu_attention_curve(gpu, kernel);
    if (curve != NULL) {
        question->layout.attention = curve->kernel;
        return true;
    }
    struct sp_texts kernels = {.arena = question->arena};
    for (int i = 0; i < gpu->n_attention; i++) {
        sp_texts_add(&kernels, "%s", gpu->attention[i].kernel);
    }
    return sp_fail(err, SP_ERROR_USAGE, "--attention %.40s: %s has no curve of that kernel; it has %s", kernel,
                   gpu->name, sp_join(question->arena, kernels.items, kernels.count, ", "));
}

bool defaults_layout(const struct request *request, struct question *question, struct sp_error *err)
{
    struct layout_spec *layout = &question->layout;
    fill_degrees(request, &question->run, layout);
    enum method_id method = layout->sp == 1 ? METHOD_NONE : METHOD_ZIGZAG;
    layout->method = request->method >= 0 ? (enum method_id)request->method : method;
    layout->framework = request->framework >= 0 ? (enum framework_id)request->framework : method_home(layout->method);
    fill_schedule(request, layout);
    layout->zero = request->zero >= 0 ? request->zero : 1;
    layout->precision = request->precision >= 0 ? (enum dtype)request->precision : DTYPE_BF16;
    layout->has_tp_sp = request->tp_sp >= 0 ? request->tp_sp == 1 : layout->tp > 1;
    fill_sp_factors(request, question, layout);
    return fill_recompute(request, layout, err) && fill_offload(request, question->arena, layout, err) &&
           fill_pp_layers(request, question->arena, layout, err) && fill_order(request, question->arena, layout, err) &&
           fill_attention(request, question, err);
}

/* ---- batch ------------------------------------------------------------------------------------------------------ */

/* Micro-batches that the schedule can run: interleaved takes them by pp, dualpipe needs an even number, twice pp. */
static int64_t legal_micro_batches(const struct layout_spec *layout, int64_t micro_batches)
{
    int64_t least = layout->schedule == SCHEDULE_DUALPIPE ? 2 * layout->pp : layout->pp;
    int64_t multiple = layout->schedule == SCHEDULE_DUALPIPE ? 2 : layout->pp;
    int64_t count = micro_batches > least ? micro_batches : least;
    bool is_bound = layout->schedule == SCHEDULE_DUALPIPE || layout->schedule == SCHEDULE_INTERLEAVED;
    return is_bound ? (count + multiple - 1) / multiple * multiple : count;
}

/* 16 Mi tokens' worth of sequences, raised to what fills every data-parallel rank and every stage. */
static int64_t default_batch(const struct run_spec *run, const struct layout_spec *layout)
{
    int64_t unit = layout->dp * layout->micro_batch;
    int64_t least = (DEFAULT_BATCH_TOKENS + run->seq - 1) / run->seq;
    return unit * legal_micro_batches(layout, (least + unit - 1) / unit);
}

bool defaults_batch(const struct request *request, struct question *question, struct sp_error *err)
{
    const struct layout_spec *layout = &question->layout;
    struct run_spec *run = &question->run;
    if (layout->micro_batch > largest_micro_batch) {
        return sp_fail_rule(err, "micro_batch", "micro-batch %lld: expected at most %lld sequences",
                            (long long)layout->micro_batch, (long long)largest_micro_batch);
    }
    if (request->global_batch != NULL) {
        bool is_parsed = global_batch_parse(question->arena, request->global_batch, run->seq, &run->global_batch, err);
        if (!is_parsed) {
            sp_error_prefix(err, "--global-batch");
        }
        return is_parsed;
    }
    /* Degrees that exceed the cluster are refused by layout_check(); until then they must not overflow. */
    bool exceeds = layout->dp > run->gpus || layout->pp > run->gpus / layout->dp;
    run->global_batch = exceeds ? 1 : default_batch(run, layout);
    return true;
}
