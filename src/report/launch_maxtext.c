/* MaxText: JAX, whose mesh is said twice: axes inside a slice (ici) and across slices (dcn). A slice is a node here. */
#include "report/launch.h"

static const char base_yml[] = "AI-Hypercomputer/maxtext@000b810 src/maxtext/configs/base.yml";

/* The mesh is data, stage, fsdp, context, tensor from the outside in: dp is inside pp where it is fsdp. */
static const char *const orders[] = {"tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp", NULL};

/* ---- axes over slices ------------------------------------------------------------------------------------------- */

struct mesh {
    int64_t inside[N_AXES]; /* ranks of an axis inside a slice */
    bool is_whole;          /* every axis fills slices, or fits into what is left of one */
};

static int64_t degree_of(const struct layout_spec *layout, enum axis axis)
{
    switch (axis) {
    case AXIS_TP:
        return layout->tp;
    case AXIS_CP:
        return layout->sp;
    case AXIS_DP:
        return layout->dp;
    case AXIS_PP:
        return layout->pp;
    case AXIS_EP:
    case N_AXES:
        break;
    }
    return 1;
}

/* Axes from the fastest on take what is left of a slice. */
static struct mesh mesh_of(const struct launch_case *it)
{
    bool is_sharded = launch_is_zero_3(it);
    const enum axis fastest_first[] = {AXIS_TP, AXIS_CP, is_sharded ? AXIS_DP : AXIS_PP,
                                       is_sharded ? AXIS_PP : AXIS_DP};
    struct mesh mesh = {.inside = {1, 1, 1, 1, 1}, .is_whole = true};
    int64_t left = it->question->run.gpus / it->question->run.nodes;
    for (size_t i = 0; i < SP_COUNT_OF(fastest_first); i++) {
        int64_t degree = degree_of(&it->question->layout, fastest_first[i]);
        int64_t part = degree < left ? degree : left;
        mesh.is_whole = mesh.is_whole && degree % part == 0 && left % part == 0;
        mesh.inside[fastest_first[i]] = part;
        left /= part;
    }
    return mesh;
}

static const char *inside(const struct launch_case *it, enum axis axis, int64_t part)
{
    return launch_count(it, part == 0 ? 1 : mesh_of(it).inside[axis] / part);
}

static const char *across(const struct launch_case *it, enum axis axis)
{
    return launch_count(it, degree_of(&it->question->layout, axis) / mesh_of(it).inside[axis]);
}

/* Ulysses groups are the fastest ranks of the context axis: inside a slice. */
static int64_t heads_of(const struct launch_case *it)
{
    return launch_is_usp(it) ? it->question->layout.sp_ulysses : 1;
}

#define INSIDE(name, axis, part)                                                                                       \
    static const char *name(const struct launch_case *it)                                                              \
    {                                                                                                                  \
        return inside(it, (axis), (part));                                                                             \
    }
#define ACROSS(name, axis)                                                                                             \
    static const char *name(const struct launch_case *it)                                                              \
    {                                                                                                                  \
        return across(it, (axis));                                                                                     \
    }
INSIDE(ici_tensor, AXIS_TP, 1)
INSIDE(ici_context, AXIS_CP, heads_of(it))
INSIDE(ici_stage, AXIS_PP, 1)
INSIDE(ici_batch, AXIS_DP, 1)
ACROSS(dcn_tensor, AXIS_TP)
ACROSS(dcn_context, AXIS_CP)
ACROSS(dcn_stage, AXIS_PP)
ACROSS(dcn_batch, AXIS_DP)

static const char *ici_heads(const struct launch_case *it)
{
    return launch_count(it, heads_of(it));
}

/* ---- values ----------------------------------------------------------------------------------------------------- */

static const char *strategy(const struct launch_case *it)
{
    static const char *const names[N_METHODS] = {
        [METHOD_ALLGATHER] = "all_gather", [METHOD_ULYSSES] = "ulysses", [METHOD_RING] = "ring",
        [METHOD_ZIGZAG] = "ring",          [METHOD_STRIPED] = "ring",    [METHOD_USP] = "usp"};
    return launch_has_sp(it) ? names[it->question->layout.method] : NULL;
}

static bool is_striped(const struct launch_case *it)
{
    return it->question->layout.method == METHOD_STRIPED;
}

static bool is_balanced(const struct launch_case *it)
{
    enum method_id method = it->question->layout.method;
    return method == METHOD_ZIGZAG || method == METHOD_STRIPED || method == METHOD_USP;
}

static const char *balances(const struct launch_case *it)
{
    return !launch_has_sp(it) ? NULL : is_balanced(it) ? "true" : "false";
}

static const char *reorder(const struct launch_case *it)
{
    return launch_has_sp(it) && is_balanced(it) ? (is_striped(it) ? "striped" : "dual_chunk_swap") : NULL;
}

/* Sequences of a step for one GPU: a fraction where several of them share a sequence. Without a pipeline micro-batches are
 * steps of accumulation, which do not count. */
static const char *device_batch(const struct launch_case *it)
{
    const struct layout_spec *layout = &it->question->layout;
    int64_t sequences = launch_has_pp(it) ? it->question->run.global_batch : layout->micro_batch * layout->dp;
    return sp_format(it->arena, "%.17g", (double)sequences / (double)it->question->run.gpus);
}

static const char *accumulation(const struct launch_case *it)
{
    return launch_has_pp(it) ? NULL : launch_accumulation(it);
}

static bool is_fsdp(const struct launch_case *it)
{
    return launch_is_zero_3(it);
}

static bool is_data(const struct launch_case *it)
{
    return !launch_is_zero_3(it);
}

static const char *layers_per_stage(const struct launch_case *it)
{
    return launch_has_pp(it) ? launch_count(it, it->question->model.n_layers / it->question->layout.pp) : NULL;
}

#define ROW(name, ...)                                                                                                 \
    {                                                                                                                  \
        .key = (name), .source = base_yml, __VA_ARGS__                                                                 \
    }

static const struct launch_row rows[] = {
    {.remark = "seqplan has no model of XLA: memory and overlap are priced as framework ideal, a bound",
     .source = base_yml},
    ROW("hardware", .fixed = "gpu"),
    ROW("max_target_length", .value = launch_seq, .remark = "the model's sizes come with model_name"),
    ROW("per_device_batch_size", .value = device_batch,
        .remark = "sequences of a step over GPUs: a fraction where several share a sequence"),
    ROW("gradient_accumulation_steps", .value = accumulation),
    ROW("ici_tensor_parallelism", .value = ici_tensor,
        .remark =
            "ici: inside a slice, which is a node here; their product is its GPUs. fsdp is -1 by default: say all"),
    ROW("ici_context_parallelism", .value = ici_context),
    ROW("ici_context_usp_ulysses_parallelism", .value = ici_heads, .when = launch_is_usp),
    ROW("ici_pipeline_parallelism", .value = ici_stage),
    ROW("ici_fsdp_parallelism", .value = ici_batch, .when = is_fsdp),
    ROW("ici_data_parallelism", .fixed = "1", .when = is_fsdp),
    ROW("ici_fsdp_parallelism", .fixed = "1", .when = is_data),
    ROW("ici_data_parallelism", .value = ici_batch, .when = is_data),
    ROW("dcn_tensor_parallelism", .value = dcn_tensor,
        .remark = "dcn: across slices; their product is the number of nodes. data is -1 by default: say all"),
    ROW("dcn_context_parallelism", .value = dcn_context),
    ROW("dcn_pipeline_parallelism", .value = dcn_stage),
    ROW("dcn_fsdp_parallelism", .value = dcn_batch, .when = is_fsdp),
    ROW("dcn_data_parallelism", .fixed = "1", .when = is_fsdp),
    ROW("dcn_fsdp_parallelism", .fixed = "1", .when = is_data),
    ROW("dcn_data_parallelism", .value = dcn_batch, .when = is_data),
    ROW("shard_optimizer_over_data", .fixed = "true", .when = launch_is_zero_1),
    ROW("context_parallel_strategy", .value = strategy,
        .remark = "on GPUs the ring is TransformerEngine's; packed documents only with striped order"),
    ROW("context_parallel_load_balance", .value = balances),
    ROW("context_parallel_reorder_strategy", .value = reorder),
    ROW("attention", .fixed = "cudnn_flash_te", .remark = "not with TransformerEngine 2.12 and 2.13, which break it"),
    ROW("num_layers_per_pipeline_stage", .value = layers_per_stage),
    ROW("num_pipeline_microbatches", .value = launch_accumulation, .when = launch_has_pp,
        .remark = "a multiple of the stages"),
    ROW("remat_policy", .fixed = "full"),
    ROW("optimizer_memory_host_offload", .fixed = "true", .when = launch_offloads_optimizer),
    ROW("parameter_memory_host_offload", .fixed = "true", .when = launch_offloads_parameters),
    ROW("quantization", .fixed = "fp8", .when = launch_is_fp8),
    ROW("dtype", .fixed = "bfloat16", .when = launch_is_bf16_or_fp8),
    ROW("dtype", .fixed = "float16", .when = launch_is_fp16),
    {.key = NULL},
};

/* ---- rules ------------------------------------------------------------------------------------------------------ */

static const char *refuse_mesh(const struct launch_case *it)
{
    return mesh_of(it).is_whole
               ? NULL
               : sp_format(
                     it->arena,
                     "an axis lies partly inside and partly across nodes of %s GPUs, and each has one ici and one "
                     "dcn factor (nearest: degrees that fill a node one after the other)",
                     launch_node_gpus(it));
}

static const char *refuse_place(const struct launch_case *it)
{
    bool has_both = launch_has_pp(it) && it->question->layout.dp > 1;
    if (!has_both || launch_is_zero_3(it) != launch_has_pp_before_dp(it)) {
        return NULL;
    }
    return launch_is_zero_3(it) ? "fsdp ranks lie inside a stage (nearest: --set layout.order=tp-cp-ep-dp-pp)"
                                : "data ranks lie outside the stages (nearest: --set layout.order=tp-cp-ep-pp-dp)";
}

static const char *refuse_split_heads(const struct launch_case *it)
{
    return launch_is_usp(it) && mesh_of(it).inside[AXIS_CP] % heads_of(it) != 0
               ? "the all-to-all of usp lies inside a node (nearest: a smaller --sp-ulysses)"
               : NULL;
}

static const char *refuse_split_layers(const struct launch_case *it)
{
    const struct layout_spec *layout = &it->question->layout;
    int64_t micro_batches = it->question->run.global_batch / layout->dp / layout->micro_batch;
    if (!launch_has_pp(it)) {
        return NULL;
    }
    if (it->question->model.n_layers % layout->pp != 0 || launch_is_uneven(it) || launch_is_padded(it)) {
        return "stages take equal layers (nearest: a --pp that divides the layers)";
    }
    return micro_batches % layout->pp == 0 ? NULL
                                           : "micro-batches must be a multiple of the stages (nearest: another "
                                             "--global-batch)";
}

static const char *refuse_whole_weights(const struct launch_case *it)
{
    return launch_has_sp(it) && !launch_is_zero_3(it)
               ? "weights are always sharded over the context axis (nearest: --zero 3)"
               : NULL;
}

static const char *refuse_kept(const struct launch_case *it)
{
    return launch_offloads_parameters(it) && !launch_is_zero_3(it) ? "parameters go to the host with fsdp (nearest: "
                                                                     "--zero 3)"
                                                                   : NULL;
}

static const char *refuse_plain_tp(const struct launch_case *it)
{
    return launch_has_tp_sp(it) ? "the tensor axis does not split the sequence (nearest: --tp-sp off)" : NULL;
}

static const struct launch_limit limits[] = {
    {refuse_mesh, base_yml},          {refuse_place, base_yml},
    {refuse_split_heads, base_yml},   {refuse_split_layers, base_yml},
    {refuse_whole_weights, base_yml}, {refuse_kept, base_yml},
    {refuse_plain_tp, base_yml},      {NULL, NULL},
};

static const struct launch_engine engine = {
    .framework = FRAMEWORK_IDEAL,
    .methods = 1U << METHOD_NONE | 1U << METHOD_ALLGATHER | 1U << METHOD_ULYSSES | 1U << METHOD_RING |
               1U << METHOD_ZIGZAG | 1U << METHOD_STRIPED | 1U << METHOD_USP,
    .zeros = 1U << 0 | 1U << 1 | 1U << 3,
    .schedules = 1U << SCHEDULE_GPIPE,
    .precisions = 1U << DTYPE_BF16 | 1U << DTYPE_FP8 | 1U << DTYPE_FP16,
    .recomputes = 1U << RECOMPUTE_FULL,
    .offloads = LAUNCH_OPTIMIZER | LAUNCH_PARAMETERS,
    .axes = LAUNCH_TP | LAUNCH_PP,
    .orders = orders,
    .limits = limits,
    .rows = rows,
};

const struct launcher launch_maxtext = {
    .name = "maxtext",
    .title = "MaxText",
    .syntax = LAUNCH_OVERRIDES,
    .command = "python3 -m maxtext.trainers.pre_train.train src/maxtext/configs/base.yml%A",
    .n_engines = 1,
    .engines = {&engine},
};
