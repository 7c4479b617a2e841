/* Predictions of the groups method and layer: what src/cuda/methods.cu and layer.cu do, through the harness rows of src/method
 * (docs/measure.md, "The harness"). A virtual ring is a machine whose links are copies inside its own memory. */
#include "fit/fit_internal.h"

#include "method/method.h"

#include <math.h>
#include <string.h>

enum part { PART_ALL, PART_ATTENTION, PART_TRANSFERS };

/* What a line was measured of. */
struct method_line {
    enum method_id method;
    enum part part;
    bool is_backward, is_virtual, is_layer, sends_float32;
    double ranks, rank, tokens;
    double heads, kv_heads, head_dim;
    double hidden, ffn;
    double runs_per_sample;
};

static const double MOST_RANKS = 1e6;
static const double MOST_WIDTH = 1e9; /* of a matrix, and tokens of a sequence */

/* ---- the line ------------------------------------------------------------------------------------------------------ */

static bool read_choice(const struct measurement *line, const char *name, const char *const *choices, int *choice,
                        struct sp_error *err)
{
    const char *text = NULL;
    if (!fit_text(line, name, &text, err)) {
        return false;
    }
    *choice = sp_index_of(text, choices);
    return *choice >= 0 || sp_fail(err, SP_ERROR_INPUT, "\"%s\": %.40s is not one that the model has", name, text);
}

static bool read_sizes(const struct measurement *line, struct method_line *run, struct sp_error *err)
{
    const struct {
        const char *name;
        double *value;
    } sizes[] = {
        {"ranks", &run->ranks},       {"tokens", &run->tokens}, {"q_heads", &run->heads}, {"kv_heads", &run->kv_heads},
        {"head_dim", &run->head_dim}, {"hidden", &run->hidden}, {"ffn", &run->ffn}};
    enum { OF_LAYERS = 2 };
    size_t n = SP_COUNT_OF(sizes) - (run->is_layer ? 0 : OF_LAYERS);
    for (size_t i = 0; i < n; i++) {
        double most = sizes[i].value == &run->ranks ? MOST_RANKS : MOST_WIDTH;
        if (!fit_whole(line, sizes[i].name, most, sizes[i].value, err)) {
            return false;
        }
    }
    return true;
}

static bool method_line_read(const struct measurement *line, struct method_line *run, struct sp_error *err)
{
    static const char *const passes[] = {"forward", "backward", NULL};
    static const char *const places[] = {"gpus", "virtual", NULL};
    static const char *const parts[] = {"all", "attention", "transfers", NULL};
    int method = 0;
    int pass = 0;
    int place = 0;
    int part = 0;
    *run = (struct method_line){.is_layer = line->group == MEASUREMENT_LAYER};
    if (!read_choice(line, "method", method_names, &method, err) || !read_choice(line, "pass", passes, &pass, err) ||
        !read_choice(line, "ranks_are", places, &place, err) || !read_choice(line, "part", parts, &part, err) ||
        !read_sizes(line, run, err)) {
        return false;
    }
    run->method = (enum method_id)method;
    run->is_backward = pass == 1;
    run->is_virtual = place == 1;
    run->part = (enum part)part;
    run->rank = fit_number_or(line, "rank", run->ranks - 1);
    run->sends_float32 = strcmp(fit_text_or_none(line, "gradients"), "float32") == 0;
    run->runs_per_sample = fmax(fit_number_or(line, "runs_per_sample", 1), 1);
    return true;
}

static bool method_line_check(const struct method_line *run, struct sp_error *err)
{
    double pieces = run->method == METHOD_ZIGZAG || run->method == METHOD_ALLGATHER ? 2 * run->ranks : run->ranks;
    if (method_harness_traits(run->method, run->sends_float32) == NULL) {
        return sp_fail(err, SP_ERROR_INPUT, "the device program has no method %s", method_names[run->method]);
    }
    if (run->rank < 0 || run->rank >= run->ranks || floor(run->rank) < run->rank || fmod(run->tokens, pieces) > 0) {
        return sp_fail(err, SP_ERROR_INPUT,
                       "rank %g of %g, %g tokens: expected a rank of them, tokens that divide by %g", run->rank,
                       run->ranks, run->tokens, pieces);
    }
    if (run->heads < run->kv_heads || (run->method == METHOD_ULYSSES && fmod(run->heads, run->ranks) > 0)) {
        return sp_fail(err, SP_ERROR_INPUT, "%g query heads on %g key-value heads do not divide over %g ranks",
                       run->heads, run->kv_heads, run->ranks);
    }
    return true;
}

/* ---- the machine --------------------------------------------------------------------------------------------------- */

/* What moves the bytes of a collective of one rank when its peers are on the same GPU (src/cuda/transport.cu), with the wait for
 * the other stream where nothing runs beside it. */
static double local_time(const struct gpu_spec *gpu, const struct attention_harness *harness, enum collective operation,
                         double ranks, double bytes)
{
    enum { TENSORS = 2 }; /* of an exchange: three there and one back, or the other way round */
    if (operation == COLLECTIVE_SEND_RECEIVE) {
        return elementwise_time(gpu, 2 * bytes, 1);
    }
    if (operation == COLLECTIVE_ALL_GATHER) {
        return elementwise_time(gpu, 2 * bytes, ranks) + harness->wait.value;
    }
    if (operation == COLLECTIVE_REDUCE_SCATTER) { /* the first piece is copied, the others are added to what came */
        return elementwise_time(gpu, (2 + 3 * (ranks - 1)) * bytes / ranks, ranks) + harness->wait.value;
    }
    return elementwise_time(gpu, 2 * bytes, TENSORS) + harness->wait.value;
}

enum { LOCAL_POINTS = 96 };
static const double LEAST_BYTES = 4096;

static struct time_curve local_curve(struct sp_arena *arena, const struct hardware_spec *hardware,
                                     const struct attention_harness *harness, enum collective operation, double ranks)
{
    double *log_bytes = sp_arena_array(arena, LOCAL_POINTS, sizeof(*log_bytes));
    double *log_seconds = sp_arena_array(arena, LOCAL_POINTS, sizeof(*log_seconds));
    for (int i = 0; i < LOCAL_POINTS; i++) {
        double bytes = LEAST_BYTES * exp2(i / 4.0);
        log_bytes[i] = log(bytes);
        log_seconds[i] = log(local_time(&hardware->gpu, harness, operation, ranks, bytes));
    }
    return (struct time_curve){.kind = SP_FIGURE_DERIVED,
                               .source = "copies inside the GPU",
                               .n_points = LOCAL_POINTS,
                               .log_bytes = log_bytes,
                               .log_seconds = log_seconds};
}

/* The machine with one GPU's own memory in place of its links. */
static void make_local(struct sp_arena *arena, const struct attention_harness *harness, double ranks,
                       struct hardware_spec *hardware)
{
    static const enum collective operations[] = {COLLECTIVE_ALL_GATHER, COLLECTIVE_REDUCE_SCATTER,
                                                 COLLECTIVE_ALL_TO_ALL, COLLECTIVE_SEND_RECEIVE};
    enum { N_OPERATIONS = SP_COUNT_OF(operations), PAIR = 2 };
    struct collective_line *lines = sp_arena_array(arena, N_OPERATIONS, sizeof(*lines));
    for (int i = 0; i < N_OPERATIONS; i++) {
        lines[i] = (struct collective_line){.operation = operations[i],
                                            .ranks = operations[i] == COLLECTIVE_SEND_RECEIVE ? PAIR : (int64_t)ranks,
                                            .curve = local_curve(arena, hardware, harness, operations[i], ranks)};
    }
    hardware->intra.lines = lines;
    hardware->intra.n_lines = N_OPERATIONS;
    hardware->intra.curve_bandwidth = hardware->intra.bandwidth.value;
    hardware->intra.curve_latency = hardware->intra.latency.value;
}

/* The machine of a run: its own copy, whose curve's headroom can be set. */
struct method_machine {
    struct hardware_spec *hardware;
    struct attention_curve *curve;
};
static bool make_machine(struct sp_arena *arena, const struct fit_machine *machine, const struct method_line *run,
                         struct method_machine *made, struct sp_error *err)
{
    const struct attention_curve *curve = gpu_attention_curve(&machine->hardware->gpu, machine->kernel);
    made->hardware = sp_arena_alloc(arena, sizeof(*made->hardware));
    made->curve = sp_arena_alloc(arena, sizeof(*made->curve));
    *made->hardware = *machine->hardware;
    if (curve == NULL || curve->n_tilings == 0) {
        return sp_fail(err, SP_ERROR_INPUT, "%s has no \"tiles\" of the attention kernel %s",
                       machine->hardware->gpu.name, machine->kernel);
    }
    *made->curve = *curve;
    for (int is_backward = 0; is_backward < 2; is_backward++) {
        const struct attention_call call = {.curve = curve,
                                            .head_dim = run->head_dim,
                                            .value_head_dim = run->head_dim,
                                            .is_backward = is_backward == 1};
        if (attention_tiling_of(&call) == NULL) {
            return sp_fail(err, SP_ERROR_INPUT, "%s has no \"tiles\" of the attention kernel %s for head_dim %g",
                           machine->hardware->gpu.name, machine->kernel, run->head_dim);
        }
    }
    made->hardware->gpu.kernel_latency = curve->harness.latency; /* no framework between the kernels */
    if (run->is_virtual) {
        make_local(arena, &curve->harness, run->ranks, made->hardware);
    } else if (run->ranks > machine->hardware->node.nvlink_domain.value) {
        return sp_fail(err, SP_ERROR_INPUT, "%g GPUs: expected those of one node of %s, %g at most", run->ranks,
                       machine->hardware->name, machine->hardware->node.nvlink_domain.value);
    }
    return true;
}

/* ---- attention ----------------------------------------------------------------------------------------------------- */

static struct attention_problem problem_of(const struct method_machine *machine, const struct method_line *run)
{
    const struct gpu_spec *gpu = &machine->hardware->gpu;
    bool has_links = run->part != PART_ATTENTION && run->ranks > 1;
    struct group_placement group = {.size = has_links ? (int64_t)run->ranks : 1,
                                    .stride = 1,
                                    .ranks_per_node = has_links ? (int64_t)run->ranks : 1,
                                    .nodes = 1,
                                    .tier = TIER_NVLINK};
    struct attention_problem problem = {.hardware = machine->hardware,
                                        .curve = machine->curve,
                                        .traits = method_harness_traits(run->method, run->sends_float32),
                                        .group = group,
                                        .inner_group = group,
                                        .outer_group = group,
                                        .ranks = (int64_t)run->ranks,
                                        .inner_ranks = 1,
                                        .batch = 1,
                                        .rows = run->tokens / run->ranks,
                                        .heads = run->heads,
                                        .kv_heads = run->kv_heads,
                                        .head_dim = run->head_dim,
                                        .value_head_dim = run->head_dim,
                                        .element_bytes = (double)dtype_bytes(DTYPE_BF16),
                                        .is_local = run->is_virtual,
                                        .has_rank = run->is_virtual,
                                        .rank = (int64_t)run->rank};
    problem.link_sm_share = run->is_virtual ? 0 : gpu->communication_sms.value / gpu->sm_count.value;
    if (problem.traits->repeats_kv_heads) {
        problem.kv_heads = fmax(problem.kv_heads, run->ranks);
    }
    return problem;
}

/* ---- the rest of a layer ------------------------------------------------------------------------------------------- */

/* The products of src/cuda/layer.cu, whose rate is the curve's own: they are not those of a training step. */
struct products {
    double sum_s, squared_s2; /* together; sum of the squares of each */
};
static void add_product(const struct gpu_spec *gpu, const struct gemm_call *call, struct products *products)
{
    double time_s = gemm_time(gpu, call);
    products->sum_s += time_s;
    products->squared_s2 += time_s * time_s;
}

static struct products products_of(const struct method_machine *machine, const struct method_line *run)
{
    struct gpu_spec gpu = machine->hardware->gpu;
    double tokens = run->tokens / run->ranks;
    double q = run->heads * run->head_dim;
    double size = (double)dtype_bytes(DTYPE_BF16);
    const double in[] = {run->hidden, q, run->hidden, run->ffn};
    const double out[] = {q + 2 * run->kv_heads * run->head_dim, run->hidden, 2 * run->ffn, run->hidden};
    struct products products = {0, 0};
    gpu.gemm.sustained.value = 1;
    for (size_t i = 0; i < SP_COUNT_OF(in); i++) {
        struct gemm_call forward = {.pass = PASS_FORWARD, .m = tokens, .n = out[i], .k = in[i], .output_bytes = size};
        struct gemm_call input = {
            .pass = PASS_INPUT_GRADIENT, .m = tokens, .n = in[i], .k = out[i], .output_bytes = size};
        struct gemm_call weight = {
            .pass = PASS_WEIGHT_GRADIENT, .m = out[i], .n = in[i], .k = tokens, .output_bytes = size};
        add_product(&gpu, run->is_backward ? &input : &forward, &products);
        if (run->is_backward) {
            add_product(&gpu, &weight, &products);
        }
    }
    return products;
}

/* Its element-wise kernels (src/cuda/elementwise.cu), in passes over a tensor. Forward: a norm 2, one with the residual 4, the last
 * addition 3, SwiGLU 3, splitting with rotary positions 2. Backward: two norms with what passes by 4 each, SwiGLU 5, joining 2. */
static double elementwise_of_layer(const struct method_machine *machine, const struct method_line *run)
{
    enum { FORWARD_HIDDEN = 9, BACKWARD_HIDDEN = 8, FORWARD_FFN = 3, BACKWARD_FFN = 5, KERNELS = 5, FP32_BYTES = 4 };
    double tokens = run->tokens / run->ranks;
    double size = (double)dtype_bytes(DTYPE_BF16);
    double qkv = (run->heads + 2 * run->kv_heads) * run->head_dim;
    double hidden = run->is_backward ? BACKWARD_HIDDEN : FORWARD_HIDDEN;
    double ffn = run->is_backward ? BACKWARD_FFN : FORWARD_FFN;
    double bytes = size * (hidden * run->hidden + ffn * run->ffn + 2 * qkv) + FP32_BYTES * run->head_dim;
    return elementwise_time(&machine->hardware->gpu, tokens * bytes, KERNELS);
}

/* ---- a run --------------------------------------------------------------------------------------------------------- */

/* Mean of the greatest of n draws from the normal distribution: the integral of x over the density of the greatest. */
static double greatest_of(double n)
{
    enum { POINTS = 400 };
    static const double far = 6; /* standard deviations: beyond them lies nothing that counts */
    double mean = 0;
    for (int i = 0; i < POINTS; i++) {
        double x = far * (2 * (i + 0.5) / POINTS - 1);
        double below = 0.5 * erfc(-x / sqrt(2));
        mean += x * n * pow(below, n - 1) * exp(-x * x / 2) / sqrt(2 * acos(-1));
    }
    return mean * 2 * far / POINTS;
}

static struct method_parts time_run(const struct method_machine *machine, const struct method_line *run)
{
    struct attention_problem problem = problem_of(machine, run);
    struct method_pass pass;
    method_price(&problem, run->is_backward, &pass);
    if (run->part == PART_TRANSFERS) {
        double links_s = pass.transfers[0].link_s + pass.transfers[1].link_s;
        double waits = run->is_virtual ? pass.transfers[0].messages + pass.transfers[1].messages : 0;
        return (struct method_parts){.total_s = links_s + pass.merge_s + waits * machine->curve->harness.wait.value};
    }
    double attention_s = pass.attention_s + pass.imbalance_s;
    struct method_parts time = {.total_s = pass.total_s, .compute_s = attention_s, .attention_s = attention_s};
    if (run->is_layer) {
        const struct products products = products_of(machine, run);
        time.compute_s += products.sum_s;
        time.products_squared_s2 = products.squared_s2;
        time.total_s += products.sum_s + elementwise_of_layer(machine, run);
    }
    if (!run->is_virtual && run->ranks > 1) { /* every GPU waits for the one with the lowest clock */
        double slower = machine->curve->harness.clock_spread.value * greatest_of(run->ranks);
        time.total_s += slower * time.compute_s;
    }
    return time;
}

/* While the GPU pauses between samples, and while it only moves memory, it draws less than its limit: the mean is what the limit
 * holds, so that the rest runs at a higher clock (eq. 29a). */
static double headroom_of(const struct attention_harness *harness, const struct method_line *run,
                          const struct method_parts *time)
{
    double spared_s = harness->pause.value / run->runs_per_sample +
                      (1 - harness->memory_power.value) * (time->total_s - time->compute_s);
    return time->compute_s > 0 ? 1 + spared_s / time->compute_s : 1;
}

bool fit_method_parts(struct sp_arena *arena, const struct fit_machine *machine, const struct measurement *line,
                      struct method_parts *parts, struct sp_error *err)
{
    enum { ROUNDS = 4 }; /* the time moves by less than 1e-4 after three */
    struct method_line run;
    struct method_machine made = {0};
    if (!method_line_read(line, &run, err) || !method_line_check(&run, err) ||
        !make_machine(arena, machine, &run, &made, err)) {
        return false;
    }
    *parts = time_run(&made, &run);
    for (int i = 1; i < ROUNDS; i++) {
        made.curve->clock.headroom = headroom_of(&made.curve->harness, &run, parts);
        *parts = time_run(&made, &run);
    }
    parts->ranks = run.ranks;
    parts->is_virtual = run.is_virtual;
    return true;
}

bool fit_predict_method(struct sp_arena *arena, const struct fit_machine *machine, const struct measurement *line,
                        double *seconds, struct sp_error *err)
{
    struct method_parts parts;
    if (!fit_method_parts(arena, machine, line, &parts, err)) {
        return false;
    }
    *seconds = parts.total_s;
    return true;
}
