/* Launchers of PyTorch's own parallelism: torchtitan, Accelerate (and DeepSpeed under it), NeMo Automodel. Axolotl, which
 * runs ring-flash-attn over Accelerate's mesh. */
#include "report/launch.h"

static const char titan_configs[] = "pytorch/torchtitan@0014ac2 torchtitan/config/configs.py";
static const char titan_pipeline[] = "pytorch/torchtitan torchtitan/distributed/pipeline_parallel.py";
static const char titan_3086[] = "pytorch/torchtitan issue 3086";
static const char torchrun[] = "PyTorch: torch.distributed.run";
static const char accelerate_launch[] = "huggingface/accelerate@79a8426 src/accelerate/commands/launch.py";
static const char accelerate_mesh[] = "huggingface/accelerate@0422db7 src/accelerate/parallelism_config.py";
static const char accelerate_sp[] = "huggingface/accelerate docs: concept_guides/sequence_parallelism";
static const char trainer_arguments[] = "huggingface/transformers TrainingArguments";
static const char automodel_setup[] = "NVIDIA-NeMo/Automodel@1a5b2ac nemo_automodel/recipes/_dist_setup.py";
static const char automodel_fsdp[] = "NVIDIA-NeMo/Automodel nemo_automodel/components/distributed/config.py";
static const char automodel_pipeline[] =
    "NVIDIA-NeMo/Automodel@1265a65 nemo_automodel/components/distributed/pipelining/config.py";
static const char automodel_cp[] = "NVIDIA-NeMo/Automodel nemo_automodel/components/distributed/cp_utils.py";
static const char axolotl_docs[] = "axolotl-ai-cloud/axolotl@1377ccc docs/nd_parallelism.qmd";
static const char axolotl_enums[] = "axolotl-ai-cloud/axolotl src/axolotl/utils/schemas/enums.py";
static const char axolotl_sequence[] = "axolotl-ai-cloud/axolotl@5410195 docs/sequence_parallelism.qmd";

/* Outer to inner: pp, dp, cp, tp. */
static const char *const mesh_orders[] = {"tp-cp-ep-dp-pp", NULL};

/* ---- shared rules and values ------------------------------------------------------------------------------------ */

static const char *refuse_plain_tp(const struct launch_case *it)
{
    return launch_lacks_tp_sp(it) ? "no switch is at hand that leaves sequence parallelism out of tensor parallelism "
                                    "(nearest: --tp-sp on)"
                                  : NULL;
}

static const char *refuse_replicas(const struct launch_case *it)
{
    return launch_is_zero_0(it) && (launch_has_tp(it) || launch_has_sp(it) || launch_has_pp(it))
               ? "replicas (zero 0) do not go with tp, sp or pp: the mesh shards over dp x sp (nearest: --zero 2)"
               : NULL;
}

static const char *refuse_half_offload(const struct launch_case *it)
{
    return launch_offloads_optimizer(it) && launch_is_zero_0(it)
               ? "offloading is FSDP's, which zero 0 does not have (nearest: --offload none)"
               : NULL;
}

static const char *rotation(const struct launch_case *it)
{
    return !launch_has_sp(it) ? NULL : it->question->layout.method == METHOD_ZIGZAG ? "alltoall" : "allgather";
}

static const char *replicas(const struct launch_case *it)
{
    return launch_is_zero_0(it) ? launch_dp(it) : "1";
}

static const char *shards(const struct launch_case *it)
{
    return launch_is_zero_0(it) ? "1" : launch_dp(it);
}

static const char *reshards(const struct launch_case *it)
{
    return launch_is_zero_0(it) ? NULL : launch_is_zero_3(it) ? "true" : "false";
}

static bool is_sharded(const struct launch_case *it)
{
    return it->question->layout.zero > 0;
}

/* FSDP2 knows offloading of all states together. */
static bool offloads_states(const struct launch_case *it)
{
    return launch_offloads_optimizer(it) && launch_offloads_parameters(it);
}

static bool has_bf16_parameters(const struct launch_case *it)
{
    return it->question->run.parameter_dtype == DTYPE_BF16 && !it->question->run.has_master_weights;
}

static const char *says_parameters(const struct launch_case *it)
{
    return it->question->run.parameter_dtype == DTYPE_BF16 && it->question->run.has_master_weights
               ? "parameters are stored in float32 and gathered in bfloat16: --set run.parameter_dtype=fp32 prices that"
               : NULL;
}

/* ---- torchtitan ------------------------------------------------------------------------------------------------- */

static const char *titan_schedule(const struct launch_case *it)
{
    static const char *const names[N_SCHEDULES] = {[SCHEDULE_GPIPE] = "GPipe",
                                                   [SCHEDULE_1F1B] = "1F1B",
                                                   [SCHEDULE_INTERLEAVED] = "Interleaved1F1B",
                                                   [SCHEDULE_ZBV] = "ZBVZeroBubble"};
    return launch_has_pp(it) ? names[it->question->layout.schedule] : NULL;
}

/* torchtitan takes `less` layers off the first and the last stage, and gives a remainder to the first stages. */
static int64_t titan_stage_layers(const struct launch_case *it, int64_t less, int64_t stage)
{
    int64_t pp = it->question->layout.pp;
    int64_t counted = it->question->model.n_layers + 2 * less;
    int64_t layers = counted / pp + (stage < counted % pp ? 1 : 0);
    return layers - (stage == 0 ? less : 0) - (stage == pp - 1 ? less : 0);
}

static bool splits_as_titan(const struct launch_case *it, int64_t less)
{
    const struct layout_spec *layout = &it->question->layout;
    for (int64_t stage = 0; stage < layout->pp; stage++) {
        if (layout_stage_layers(layout, &it->question->model, stage) != titan_stage_layers(it, less, stage)) {
            return false;
        }
    }
    return true;
}

static const char *titan_split_text(const struct launch_case *it)
{
    const char *text = "";
    for (int64_t stage = 0; stage < it->question->layout.pp; stage++) {
        text =
            sp_format(it->arena, "%s%s%lld", text, stage == 0 ? "" : ",", (long long)titan_stage_layers(it, 1, stage));
    }
    return text;
}

static const char *refuse_titan_split(const struct launch_case *it)
{
    if (!launch_has_pp(it) || splits_as_titan(it, 0) || splits_as_titan(it, 1)) {
        return NULL;
    }
    return sp_format(it->arena, "layers %s of the stages are not how it splits them (nearest: --pp-layers %s)",
                     launch_stage_layers_text(it), titan_split_text(it));
}

static const char *refuse_titan_chunks(const struct launch_case *it)
{
    const struct layout_spec *layout = &it->question->layout;
    return launch_has_pp(it) && launch_has_vpp(it) && it->question->model.n_layers % (layout->pp * layout->vpp) != 0
               ? "virtual stages take equal layers here (nearest: a --vpp that divides, or 1)"
               : NULL;
}

static const char *less_layers(const struct launch_case *it)
{
    return !launch_has_pp(it) ? NULL : splits_as_titan(it, 0) ? "0" : "1";
}

static const char *layers_per_stage(const struct launch_case *it)
{
    const struct layout_spec *layout = &it->question->layout;
    int64_t less = splits_as_titan(it, 0) ? 0 : 2;
    int64_t chunks = layout->pp * layout->vpp;
    return launch_has_pp(it) ? launch_count(it, (it->question->model.n_layers + less + chunks - 1) / chunks) : NULL;
}

static const char *titan_local_batch(const struct launch_case *it)
{
    return launch_has_pp(it) ? launch_local_batch(it) : launch_micro_batch(it);
}

static const char *titan_reshard(const struct launch_case *it)
{
    return launch_is_zero_0(it) ? NULL : launch_is_zero_3(it) ? "default" : "never";
}

static const char *says_reshard(const struct launch_case *it)
{
    return launch_has_pp(it) && launch_is_zero_3(it)
               ? "with a pipeline the default keeps gathered weights between micro-batches, as it is priced"
               : NULL;
}

static const char *says_rotation(const struct launch_case *it)
{
    return it->question->layout.method == METHOD_ZIGZAG
               ? "since pull request 2555 this is taken and ignored: keys and values are gathered whatever it says "
                 "(issue 3086). Look for it in your version, or price --sp-method allgather"
               : NULL;
}

static const char *refuse_titan_experts(const struct launch_case *it)
{
    const struct layout_spec *layout = &it->question->layout;
    if (!launch_is_moe(it)) {
        return NULL;
    }
    int64_t etp = layout->ep > 1 ? 1 : layout->tp;
    return layout->etp == etp
               ? NULL
               : sp_format(it->arena, "experts have etp %lld beside ep %lld and tp %lld (nearest: --etp %lld)",
                           (long long)etp, (long long)layout->ep, (long long)layout->tp, (long long)etp);
}

static const struct launch_row titan_rows[] = {
    {.key = "PYTORCH_ALLOC_CONF",
     .fixed = "expandable_segments:True",
     .remark = "as its run_train.sh has it, against slack of the allocator; before PyTorch 2.9 PYTORCH_CUDA_ALLOC_CONF",
     .source = "pytorch/torchtitan@0168bd5 run_train.sh",
     .place = LAUNCH_ENVIRONMENT},
    {.key = "--nnodes", .value = launch_nodes, .source = torchrun, .place = LAUNCH_RUNNER},
    {.key = "--nproc-per-node", .value = launch_node_gpus, .source = torchrun, .place = LAUNCH_RUNNER},
    {.key = "--training.seq_len",
     .value = launch_seq,
     .remark = "model and size are the choice of --module and --config, or --model.name and --model.flavor before",
     .source = titan_configs},
    {.key = "--training.local_batch_size",
     .value = titan_local_batch,
     .remark = "sequences of a data-parallel rank: of a micro-batch, with a pipeline of a whole step",
     .source = titan_configs},
    {.key = "--training.global_batch_size", .value = launch_global_batch, .source = titan_configs},
    {.key = "--parallelism.data_parallel_replicate_degree", .value = replicas, .source = titan_configs},
    {.key = "--parallelism.data_parallel_shard_degree",
     .value = shards,
     .remark = "FSDP shards over this times the context-parallel degree",
     .source = titan_configs},
    {.key = "--parallelism.fsdp_reshard_after_forward",
     .value = titan_reshard,
     .says = says_reshard,
     .source = titan_configs},
    {.key = "--parallelism.tensor_parallel_degree", .value = launch_tp, .source = titan_configs},
    {.key = "--parallelism.no_enable_sequence_parallel", .when = launch_lacks_tp_sp, .source = titan_configs},
    {.key = "--parallelism.context_parallel_degree", .value = launch_sp, .source = titan_configs},
    {.key = "--parallelism.context_parallel_load_balancer",
     .fixed = "headtail",
     .when = launch_has_sp,
     .source = titan_configs},
    {.key = "--parallelism.context_parallel_rotate_method",
     .value = rotation,
     .says = says_rotation,
     .source = titan_3086},
    {.key = "--parallelism.pipeline_parallel_degree", .value = launch_pp, .source = titan_configs},
    {.key = "--parallelism.pipeline_parallel_schedule", .value = titan_schedule, .source = titan_configs},
    {.key = "--parallelism.pipeline_parallel_microbatch_size",
     .value = launch_micro_batch,
     .when = launch_has_pp,
     .source = titan_configs},
    {.key = "--parallelism.pipeline_parallel_layers_per_stage",
     .value = layers_per_stage,
     .remark = "of each virtual stage: it decides how many there are",
     .source = titan_pipeline},
    {.key = "--parallelism.pipeline_parallel_first_stage_less_layers",
     .value = less_layers,
     .remark = "1 by default, here and for the last stage: embedding and output layer counted as layers",
     .source = titan_configs},
    {.key = "--parallelism.pipeline_parallel_last_stage_less_layers", .value = less_layers, .source = titan_configs},
    {.key = "--parallelism.expert_parallel_degree",
     .value = launch_ep,
     .when = launch_is_moe,
     .remark = "etp is decided by torchtitan: 1 beside expert parallelism, else the tensor-parallel degree",
     .source = titan_configs},
    {.key = "--activation_checkpoint.mode", .fixed = "none", .when = launch_keeps_all, .source = titan_configs},
    {.key = "--activation_checkpoint.mode",
     .fixed = "selective",
     .when = launch_is_selective,
     .remark = "per operator: attention's output and every second product are kept",
     .source = titan_configs},
    {.key = "--activation_checkpoint.mode", .fixed = "full", .when = launch_is_full, .source = titan_configs},
    {.key = "--training.mixed_precision_param",
     .fixed = "bfloat16",
     .when = launch_is_bf16,
     .says = says_parameters,
     .source = titan_configs},
    {.key = "--training.dtype",
     .fixed = "bfloat16",
     .when = has_bf16_parameters,
     .remark = "parameters, gradients and moments in bfloat16, without a float32 copy",
     .source = titan_configs},
    {.key = "--training.enable_cpu_offload", .when = offloads_states, .source = titan_configs},
    {.key = "--compile.enable", .when = launch_is_compiled, .source = titan_configs},
    {.key = NULL},
};

static const char *refuse_whole_bf16(const struct launch_case *it)
{
    return has_bf16_parameters(it) && it->question->run.moment_dtype == DTYPE_FP32
               ? "parameters in bfloat16 alone have moments in bfloat16 (nearest: --set run.master_weights=true)"
               : NULL;
}

static const char *refuse_titan_ulysses(const struct launch_case *it)
{
    return launch_is_ulysses(it) ? "ulysses is chosen in a model's configuration (a context-parallel attention "
                                   "backend), by no argument"
                                 : NULL;
}

static const struct launch_limit titan_limits[] = {
    {refuse_replicas, titan_configs},
    {refuse_half_offload, titan_configs},
    {refuse_titan_split, titan_pipeline},
    {refuse_titan_chunks, titan_pipeline},
    {refuse_titan_experts, titan_configs},
    {refuse_whole_bf16, titan_configs},
    {refuse_titan_ulysses, "pytorch/torchtitan pull request 4450"},
    {NULL, NULL},
};

static const char *const titan_settings[] = {"run.parameter_dtype", "run.moment_dtype", "run.master_weights", NULL};

static const struct launch_engine titan_engine = {
    .framework = FRAMEWORK_TORCH,
    .methods = 1U << METHOD_NONE | 1U << METHOD_ALLGATHER | 1U << METHOD_ZIGZAG,
    .zeros = 1U << 0 | 1U << 2 | 1U << 3,
    .schedules = 1U << SCHEDULE_GPIPE | 1U << SCHEDULE_1F1B | 1U << SCHEDULE_INTERLEAVED | 1U << SCHEDULE_ZBV,
    .precisions = 1U << DTYPE_BF16,
    .recomputes = 1U << RECOMPUTE_NONE | 1U << RECOMPUTE_SELECTIVE | 1U << RECOMPUTE_FULL,
    .offloads = LAUNCH_OPTIMIZER | LAUNCH_PARAMETERS,
    .axes = LAUNCH_TP | LAUNCH_PP | LAUNCH_EP,
    .orders = mesh_orders,
    .settings = titan_settings,
    .chooses_kernels = true,
    .limits = titan_limits,
    .rows = titan_rows,
};

const struct launcher launch_torchtitan = {
    .name = "torchtitan",
    .title = "torchtitan",
    .syntax = LAUNCH_FLAGS,
    .command = "torchrun%R -m torchtitan.train%A",
    .n_engines = 1,
    .engines = {&titan_engine},
};

/* ---- Accelerate ------------------------------------------------------------------------------------------------- */

#define PROCESSES                                                                                                      \
    {.key = "--num_machines", .value = launch_nodes, .source = accelerate_launch, .place = LAUNCH_RUNNER},             \
        {.key = "--num_processes", .value = launch_gpus, .source = accelerate_launch, .place = LAUNCH_RUNNER},         \
        {.key = "--mixed_precision",                                                                                   \
         .fixed = "bf16",                                                                                              \
         .when = launch_is_bf16,                                                                                       \
         .source = accelerate_launch,                                                                                  \
         .place = LAUNCH_RUNNER},                                                                                      \
    {                                                                                                                  \
        .key = "--mixed_precision", .fixed = "fp16", .when = launch_is_fp16, .source = accelerate_launch,              \
        .place = LAUNCH_RUNNER                                                                                         \
    }

#define TRAINER                                                                                                        \
    {.key = "--max_length",                                                                                            \
     .value = launch_seq,                                                                                              \
     .remark = "arguments of a script of the Trainer (TRL); the batch of a step is micro-batch x accumulation x dp",   \
     .source = trainer_arguments},                                                                                     \
        {.key = "--per_device_train_batch_size", .value = launch_micro_batch, .source = trainer_arguments},            \
    {                                                                                                                  \
        .key = "--gradient_accumulation_steps", .value = launch_accumulation, .source = trainer_arguments              \
    }

static bool is_replicated(const struct launch_case *it)
{
    return launch_is_zero_0(it);
}

static const struct launch_row fsdp_rows[] = {
    PROCESSES,
    {.key = "--multi_gpu", .when = is_replicated, .source = accelerate_launch, .place = LAUNCH_RUNNER},
    {.key = "--use_fsdp", .when = is_sharded, .source = accelerate_launch, .place = LAUNCH_RUNNER},
    {.key = "--fsdp_version",
     .fixed = "2",
     .when = is_sharded,
     .remark =
         "context parallelism needs FSDP2, and SDPA with a causal mask; packed samples attend across documents in "
         "silence (TRL 6843)",
     .source = accelerate_launch,
     .place = LAUNCH_RUNNER},
    {.key = "--fsdp_auto_wrap_policy",
     .fixed = "TRANSFORMER_BASED_WRAP",
     .when = is_sharded,
     .source = accelerate_launch,
     .place = LAUNCH_RUNNER},
    {.key = "--fsdp_reshard_after_forward",
     .value = reshards,
     .remark = "true is ZeRO 3, false ZeRO 2",
     .source = accelerate_launch,
     .place = LAUNCH_RUNNER},
    {.key = "--fsdp_offload_params",
     .fixed = "true",
     .when = offloads_states,
     .remark = "parameters, gradients and optimizer together",
     .source = accelerate_launch,
     .place = LAUNCH_RUNNER},
    {.key = "--fsdp_activation_checkpointing",
     .fixed = "true",
     .when = launch_is_full,
     .remark = "not --gradient_checkpointing beside it",
     .source = accelerate_launch,
     .place = LAUNCH_RUNNER},
    {.key = "--use_parallelism_config", .source = accelerate_launch, .place = LAUNCH_RUNNER},
    {.key = "--parallelism_config_dp_replicate_size",
     .value = replicas,
     .remark = "replicas x shards x tp x cp must be the processes",
     .source = accelerate_mesh,
     .place = LAUNCH_RUNNER},
    {.key = "--parallelism_config_dp_shard_size", .value = shards, .source = accelerate_mesh, .place = LAUNCH_RUNNER},
    {.key = "--parallelism_config_tp_size", .value = launch_tp, .source = accelerate_mesh, .place = LAUNCH_RUNNER},
    {.key = "--parallelism_config_cp_size", .value = launch_sp, .source = accelerate_mesh, .place = LAUNCH_RUNNER},
    {.key = "--parallelism_config_cp_comm_strategy",
     .value = rotation,
     .source = accelerate_launch,
     .place = LAUNCH_RUNNER},
    TRAINER,
    {.key = NULL},
};

static const struct launch_limit fsdp_limits[] = {
    {refuse_replicas, accelerate_mesh},
    {refuse_half_offload, accelerate_launch},
    {refuse_plain_tp, accelerate_mesh},
    {NULL, NULL},
};

static const struct launch_engine fsdp_engine = {
    .framework = FRAMEWORK_TORCH,
    .title = "FSDP2",
    .methods = 1U << METHOD_NONE | 1U << METHOD_ALLGATHER | 1U << METHOD_ZIGZAG,
    .zeros = 1U << 0 | 1U << 2 | 1U << 3,
    .schedules = 0,
    .precisions = 1U << DTYPE_BF16 | 1U << DTYPE_FP16,
    .recomputes = 1U << RECOMPUTE_NONE | 1U << RECOMPUTE_FULL,
    .offloads = LAUNCH_OPTIMIZER | LAUNCH_PARAMETERS,
    .axes = LAUNCH_TP,
    .orders = mesh_orders,
    .limits = fsdp_limits,
    .rows = fsdp_rows,
};

static const struct launch_row ulysses_rows[] = {
    PROCESSES,
    {.key = "--use_deepspeed", .source = accelerate_launch, .place = LAUNCH_RUNNER},
    {.key = "--zero_stage", .value = launch_zero, .source = accelerate_launch, .place = LAUNCH_RUNNER},
    {.key = "--offload_optimizer_device",
     .fixed = "cpu",
     .when = launch_offloads_optimizer,
     .source = accelerate_launch,
     .place = LAUNCH_RUNNER},
    {.key = "--offload_param_device",
     .fixed = "cpu",
     .when = launch_offloads_parameters,
     .source = accelerate_launch,
     .place = LAUNCH_RUNNER},
    {.key = "--use_parallelism_config", .source = accelerate_launch, .place = LAUNCH_RUNNER},
    {.key = "--parallelism_config_dp_shard_size",
     .value = launch_dp,
     .remark = "dp_replicate x dp_shard x sp must be the processes",
     .source = accelerate_sp,
     .place = LAUNCH_RUNNER},
    {.key = "--parallelism_config_sp_size", .value = launch_sp, .source = accelerate_sp, .place = LAUNCH_RUNNER},
    {.key = "--parallelism_config_sp_backend",
     .fixed = "deepspeed",
     .when = launch_has_sp,
     .remark = "DeepSpeed 0.18.1 and Accelerate 1.12.0, or later",
     .source = accelerate_sp,
     .place = LAUNCH_RUNNER},
    {.key = "--parallelism_config_sp_seq_length_is_variable",
     .fixed = "true",
     .when = launch_has_sp,
     .remark = "pad_to_multiple_of of the trainer must be the size",
     .source = accelerate_sp,
     .place = LAUNCH_RUNNER},
    {.key = "--parallelism_config_sp_attn_implementation",
     .value = launch_flash_attention,
     .when = launch_has_sp,
     .says = launch_says_flash_attention,
     .remark = "sdpa would attend across packed documents",
     .source = accelerate_sp,
     .place = LAUNCH_RUNNER},
    TRAINER,
    {.key = "--gradient_checkpointing", .fixed = "true", .when = launch_is_full, .source = trainer_arguments},
    {.key = NULL},
};

static const char *refuse_sp_at_zero_0(const struct launch_case *it)
{
    return launch_has_sp(it) && launch_is_zero_0(it)
               ? "sequence parallelism fails at ZeRO stage 0 (DeepSpeed 7833; nearest: --zero 1)"
               : NULL;
}

static const char *refuse_offload_at_zero_0(const struct launch_case *it)
{
    return launch_offloads_optimizer(it) && launch_is_zero_0(it)
               ? "an offloaded optimizer is a setting of ZeRO (nearest: --zero 1)"
               : NULL;
}

static const struct launch_limit ulysses_limits[] = {
    {refuse_sp_at_zero_0, "deepspeedai/DeepSpeed issue 7833"},
    {refuse_offload_at_zero_0, accelerate_launch},
    {NULL, NULL},
};

static const struct launch_engine ulysses_engine = {
    .framework = FRAMEWORK_ALST,
    .title = "DeepSpeed's Ulysses",
    .methods = 1U << METHOD_NONE | 1U << METHOD_ULYSSES,
    .zeros = 1U << 0 | 1U << 1 | 1U << 2 | 1U << 3,
    .schedules = 0,
    .precisions = 1U << DTYPE_BF16 | 1U << DTYPE_FP16,
    .recomputes = 1U << RECOMPUTE_NONE | 1U << RECOMPUTE_FULL,
    .offloads = LAUNCH_OPTIMIZER | LAUNCH_PARAMETERS,
    .orders = mesh_orders,
    .limits = ulysses_limits,
    .rows = ulysses_rows,
};

const struct launcher launch_accelerate = {
    .name = "accelerate",
    .title = "Accelerate",
    .syntax = LAUNCH_FLAGS,
    .command = "accelerate launch%R train.py%A",
    .n_engines = 2,
    .engines = {&fsdp_engine, &ulysses_engine},
};

/* ---- NeMo Automodel --------------------------------------------------------------------------------------------- */

static const char *automodel_schedule(const struct launch_case *it)
{
    static const char *const names[N_SCHEDULES] = {
        [SCHEDULE_GPIPE] = "gpipe", [SCHEDULE_1F1B] = "1f1b", [SCHEDULE_INTERLEAVED] = "interleaved1f1b"};
    return launch_has_pp(it) ? names[it->question->layout.schedule] : NULL;
}

static const char *automodel_stage_layers(const struct launch_case *it)
{
    const struct layout_spec *layout = &it->question->layout;
    return launch_has_pp(it) ? launch_count(it, it->question->model.n_layers / (layout->pp * layout->vpp)) : NULL;
}

static const char *refuse_automodel_split(const struct launch_case *it)
{
    const struct layout_spec *layout = &it->question->layout;
    bool is_equal = !launch_is_uneven(it) && !launch_is_padded(it) &&
                    it->question->model.n_layers % (layout->pp * layout->vpp) == 0;
    return launch_has_pp(it) && !is_equal ? "stages take equal layers here (nearest: a --pp that divides the layers)"
                                          : NULL;
}

#define SETTING(name, ...)                                                                                             \
    {                                                                                                                  \
        .key = (name), .source = automodel_setup, .place = LAUNCH_SETTING, __VA_ARGS__                                 \
    }

static const struct launch_row automodel_rows[] = {
    SETTING("distributed.strategy", .fixed = "fsdp2", .remark = "shards over dp x cp"),
    SETTING("distributed.dp_size", .value = launch_dp, .remark = "null: what is left of the processes"),
    SETTING("distributed.tp_size", .value = launch_tp),
    SETTING("distributed.sequence_parallel", .fixed = "true", .when = launch_has_tp_sp),
    SETTING("distributed.sequence_parallel", .fixed = "false", .when = launch_lacks_tp_sp),
    {.key = "distributed.cp_size",
     .value = launch_sp,
     .remark = "keys and values are gathered: the rotation is fixed to allgather; SDPA, without packed documents "
               "(Automodel 591)",
     .source = automodel_cp,
     .place = LAUNCH_SETTING},
    SETTING("distributed.pp_size", .value = launch_pp),
    SETTING("distributed.ep_size", .value = launch_ep, .when = launch_is_moe),
    {.key = "distributed.reshard_after_forward",
     .fixed = "false",
     .when = launch_is_zero_2,
     .remark = "ZeRO 2; left out it is ZeRO 3, in a pipeline with weights kept between micro-batches",
     .source = automodel_fsdp,
     .place = LAUNCH_SETTING},
    {.key = "distributed.activation_checkpointing",
     .fixed = "full",
     .when = launch_is_full,
     .source = automodel_fsdp,
     .place = LAUNCH_SETTING},
    {.key = "distributed.activation_checkpointing",
     .fixed = "selective",
     .when = launch_is_selective,
     .source = automodel_fsdp,
     .place = LAUNCH_SETTING},
    {.key = "distributed.activation_checkpointing",
     .fixed = "false",
     .when = launch_keeps_all,
     .source = automodel_fsdp,
     .place = LAUNCH_SETTING},
    {.key = "distributed.enable_compile",
     .fixed = "true",
     .when = launch_is_compiled,
     .source = automodel_fsdp,
     .place = LAUNCH_SETTING},
    SETTING("distributed.offload_policy._target_", .fixed = "torch.distributed.fsdp.CPUOffloadPolicy",
            .when = offloads_states),
    {.key = "distributed.pipeline.pp_schedule",
     .value = automodel_schedule,
     .remark = "a name of PyTorch's, which has no interleaved_1f1b",
     .source = automodel_pipeline,
     .place = LAUNCH_SETTING},
    SETTING("distributed.pipeline.pp_microbatch_size", .value = launch_micro_batch, .when = launch_has_pp),
    SETTING("distributed.pipeline.layers_per_stage", .value = automodel_stage_layers,
            .remark = "of each virtual stage"),
    SETTING("step_scheduler.global_batch_size", .value = launch_global_batch),
    SETTING("step_scheduler.local_batch_size", .value = titan_local_batch,
            .remark = "with a pipeline: at least as many micro-batches as stages"),
    SETTING("peft._target_", .fixed = "nemo_automodel.components._peft.lora.PeftConfig", .when = launch_is_lora),
    SETTING("peft.dim", .value = launch_lora_rank, .when = launch_is_lora),
    SETTING("dataset.seq_length", .value = launch_seq, .remark = "or max_length: as the class of the data set has it"),
    {.key = NULL},
};

static const struct launch_limit automodel_limits[] = {
    {refuse_automodel_split, "NVIDIA-NeMo/Automodel docs: pipelining"},
    {refuse_titan_experts, automodel_setup},
    {NULL, NULL},
};

static const struct launch_engine automodel_engine = {
    .framework = FRAMEWORK_TORCH,
    .methods = 1U << METHOD_NONE | 1U << METHOD_ALLGATHER,
    .zeros = 1U << 2 | 1U << 3,
    .schedules = 1U << SCHEDULE_GPIPE | 1U << SCHEDULE_1F1B | 1U << SCHEDULE_INTERLEAVED,
    .precisions = 1U << DTYPE_BF16,
    .recomputes = 1U << RECOMPUTE_NONE | 1U << RECOMPUTE_SELECTIVE | 1U << RECOMPUTE_FULL,
    .offloads = LAUNCH_OPTIMIZER | LAUNCH_PARAMETERS,
    .axes = LAUNCH_TP | LAUNCH_PP | LAUNCH_EP | LAUNCH_LORA,
    .orders = mesh_orders,
    .chooses_kernels = true,
    .limits = automodel_limits,
    .rows = automodel_rows,
};

const struct launcher launch_automodel = {
    .name = "nemo-automodel",
    .title = "NeMo Automodel",
    .syntax = LAUNCH_YAML,
    .command =
        "torchrun --nproc-per-node GPUS recipe.py --config layout.yaml, with model, data set and optimizer beside",
    .file = "layout.yaml",
    .n_engines = 1,
    .engines = {&automodel_engine},
};

/* ---- Axolotl ---------------------------------------------------------------------------------------------------- */

static const char *ring_function(const struct launch_case *it)
{
    return !launch_has_sp(it) ? NULL : it->question->layout.method == METHOD_RING ? "batch_ring" : "varlen_llama3";
}

static const char *says_ring_function(const struct launch_case *it)
{
    return it->question->layout.method == METHOD_RING
               ? "not with sample_packing: the loss came out 1.84 times too high (axolotl 3608)"
               : "gathers keys and values by heads_k_stride heads; of packed samples alone";
}

static bool gathers(const struct launch_case *it)
{
    return launch_has_sp(it) && it->question->layout.method == METHOD_ALLGATHER;
}

static bool rings(const struct launch_case *it)
{
    return launch_has_sp(it) && it->question->layout.method == METHOD_RING;
}

static const char *zero_file(const struct launch_case *it)
{
    return launch_is_zero_1(it) ? "deepspeed_configs/zero1.json" : NULL;
}

#define YAML(name, ...)                                                                                                \
    {                                                                                                                  \
        .key = (name), .source = axolotl_docs, .place = LAUNCH_SETTING, __VA_ARGS__                                    \
    }

static const struct launch_row axolotl_rows[] = {
    YAML("sequence_len", .value = launch_seq),
    YAML("micro_batch_size", .value = launch_micro_batch),
    YAML("gradient_accumulation_steps", .value = launch_accumulation),
    YAML("dp_replicate_size", .value = replicas, .when = launch_is_zero_0),
    YAML("dp_shard_size", .value = launch_dp, .when = launch_shards_gradients),
    {.key = "context_parallel_size",
     .value = launch_sp,
     .remark = "was sequence_parallel_degree; sequences are padded to a multiple of it",
     .source = axolotl_sequence,
     .place = LAUNCH_SETTING},
    {.key = "heads_k_stride", .fixed = "1", .when = gathers, .source = axolotl_sequence, .place = LAUNCH_SETTING},
    {.key = "ring_attn_func",
     .value = ring_function,
     .remark = "batch_zigzag and batch_stripe of the help text are not in the list that it checks",
     .says = says_ring_function,
     .source = axolotl_enums,
     .place = LAUNCH_SETTING},
    {.key = "sample_packing", .fixed = "true", .when = gathers, .source = axolotl_sequence, .place = LAUNCH_SETTING},
    {.key = "sample_packing", .fixed = "false", .when = rings, .source = axolotl_sequence, .place = LAUNCH_SETTING},
    {.key = "flash_attention",
     .fixed = "true",
     .says = launch_says_flash_attention_2,
     .remark = "required by context parallelism; newer: attn_implementation: flash_attention_2",
     .source = axolotl_sequence,
     .place = LAUNCH_SETTING},
    {.key = "deepspeed",
     .value = zero_file,
     .remark = "FSDP has no ZeRO 1",
     .source = axolotl_docs,
     .place = LAUNCH_SETTING},
    YAML("fsdp_version", .fixed = "2", .when = launch_shards_gradients),
    YAML("fsdp_config.auto_wrap_policy", .fixed = "TRANSFORMER_BASED_WRAP", .when = launch_shards_gradients,
         .remark = "with transformer_layer_cls_to_wrap: the model's decoder layer"),
    YAML("fsdp_config.reshard_after_forward", .value = reshards, .when = launch_shards_gradients,
         .remark = "true is ZeRO 3, false ZeRO 2"),
    YAML("fsdp_config.offload_params", .fixed = "true", .when = offloads_states),
    YAML("gradient_checkpointing", .fixed = "true", .when = launch_is_full),
    YAML("gradient_checkpointing", .fixed = "false", .when = launch_keeps_all),
    YAML("bf16", .fixed = "true", .when = launch_is_bf16),
    YAML("fp16", .fixed = "true", .when = launch_is_fp16),
    YAML("adapter", .fixed = "lora", .when = launch_is_lora),
    YAML("lora_r", .value = launch_lora_rank, .when = launch_is_lora),
    {.key = NULL},
};

static const char *refuse_axolotl_sharding(const struct launch_case *it)
{
    return launch_has_sp(it) && launch_is_zero_1(it)
               ? "context parallelism is FSDP's here, which has no ZeRO 1 (nearest: --zero 2)"
               : NULL;
}

static const char *refuse_axolotl_replicas(const struct launch_case *it)
{
    return launch_has_sp(it) && launch_is_zero_0(it) && it->question->layout.dp > 1
               ? "replicas do not go with context parallelism (nearest: --zero 2)"
               : NULL;
}

static const char *refuse_packed_batch(const struct launch_case *it)
{
    return gathers(it) && it->question->layout.micro_batch > 1
               ? "packed samples take one sequence at a time (nearest: --micro-batch 1)"
               : NULL;
}

static const char *refuse_axolotl_offload(const struct launch_case *it)
{
    return launch_offloads_optimizer(it) && !launch_offloads_parameters(it)
               ? "FSDP offloads optimizer and parameters together (nearest: --offload optimizer,parameters)"
               : NULL;
}

static const struct launch_limit axolotl_limits[] = {
    {refuse_axolotl_sharding, axolotl_docs},
    {refuse_axolotl_replicas, axolotl_docs},
    {refuse_packed_batch, axolotl_sequence},
    {refuse_axolotl_offload, axolotl_docs},
    {NULL, NULL},
};

static const struct launch_engine axolotl_engine = {
    .framework = FRAMEWORK_RING_FLASH_ATTN,
    .methods = 1U << METHOD_NONE | 1U << METHOD_ALLGATHER | 1U << METHOD_RING,
    .zeros = 1U << 0 | 1U << 1 | 1U << 2 | 1U << 3,
    .schedules = 0,
    .precisions = 1U << DTYPE_BF16 | 1U << DTYPE_FP16,
    .recomputes = 1U << RECOMPUTE_NONE | 1U << RECOMPUTE_FULL,
    .offloads = LAUNCH_OPTIMIZER | LAUNCH_PARAMETERS,
    .axes = LAUNCH_LORA,
    .orders = mesh_orders,
    .limits = axolotl_limits,
    .rows = axolotl_rows,
};

const struct launcher launch_axolotl = {
    .name = "axolotl",
    .title = "Axolotl",
    .syntax = LAUNCH_YAML,
    .command = "axolotl train layout.yaml, with model, data sets and optimizer beside",
    .file = "layout.yaml",
    .n_engines = 1,
    .engines = {&axolotl_engine},
};
