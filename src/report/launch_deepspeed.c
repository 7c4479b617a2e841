/* DeepSpeed: its configuration with Megatron-DeepSpeed's arguments (DistributedAttention), or with the lines that ALST
 * needs beside Hugging Face Transformers. OpenRLHF, which runs it under ring-flash-attn. */
#include "report/launch.h"

static const char config_py[] = "deepspeedai/DeepSpeed deepspeed/runtime/config.py";
static const char zero_guide[] = "DeepSpeed docs: ZeRO configuration";
static const char megatron_deepspeed[] = "deepspeedai/Megatron-DeepSpeed megatron/arguments.py";
static const char ulysses_sp[] = "deepspeedai/DeepSpeed deepspeed/runtime/sequence_parallel/ulysses_sp.py";
static const char alst_tutorial[] = "DeepSpeed docs: ALST, Ulysses sequence parallelism for Hugging Face";
static const char openrlhf_py[] = "OpenRLHF/OpenRLHF openrlhf/cli/train_sft.py";
static const char openrlhf_docs[] = "OpenRLHF/OpenRLHF-Docs: sequence parallelism";
static const char deepspeed_runner[] = "deepspeedai/DeepSpeed deepspeed/launcher/runner.py";

static const char *const no_orders[] = {"tp-cp-ep-dp-pp", NULL};

/* ---- rules ------------------------------------------------------------------------------------------------------ */

static const char *refuse_offload_without_zero(const struct launch_case *it)
{
    return launch_offloads_optimizer(it) && launch_is_zero_0(it)
               ? "offload_optimizer is a setting of ZeRO (nearest: --zero 1)"
               : NULL;
}

static const char *refuse_sp_at_zero_0(const struct launch_case *it)
{
    return launch_has_sp(it) && launch_is_zero_0(it)
               ? "sequence parallelism fails at ZeRO stage 0 (DeepSpeed 7833; nearest: --zero 1)"
               : NULL;
}

static const char *refuse_short_moments(const struct launch_case *it)
{
    return it->question->run.moment_dtype == DTYPE_FP32
               ? NULL
               : "Adam's moments are float32 (nearest: --set run.moment_dtype=fp32)";
}

static const struct launch_limit limits[] = {
    {refuse_offload_without_zero, zero_guide},
    {refuse_sp_at_zero_0, "deepspeedai/DeepSpeed issue 7833"},
    {refuse_short_moments, config_py},
    {NULL, NULL},
};

/* ---- ds_config.json --------------------------------------------------------------------------------------------- */

static const char *accumulation_dtype(const struct launch_case *it)
{
    static const char *const names[N_DTYPES] = {
        [DTYPE_BF16] = "bf16", [DTYPE_FP8] = NULL, [DTYPE_FP16] = "fp16", [DTYPE_FP32] = "fp32"};
    return names[it->question->run.gradient_dtype];
}

/* Beside Hugging Face Transformers a mesh is built from the two sizes. */
#define CONFIG_BATCH                                                                                                   \
    {.key = "train_batch_size",                                                                                        \
     .value = launch_global_batch,                                                                                     \
     .remark = "sequences of a step; micro-batch x accumulation x (GPUs / sequence parallel size)",                    \
     .source = config_py,                                                                                              \
     .place = LAUNCH_SETTING},                                                                                         \
        {.key = "train_micro_batch_size_per_gpu",                                                                      \
         .value = launch_micro_batch,                                                                                  \
         .source = config_py,                                                                                          \
         .place = LAUNCH_SETTING},                                                                                     \
    {                                                                                                                  \
        .key = "gradient_accumulation_steps", .value = launch_accumulation, .source = config_py,                       \
        .place = LAUNCH_SETTING                                                                                        \
    }

#define CONFIG_REST                                                                                                    \
    {.key = "zero_optimization.stage", .value = launch_zero, .source = zero_guide, .place = LAUNCH_SETTING},           \
        {.key = "zero_optimization.offload_optimizer.device",                                                          \
         .fixed = "cpu",                                                                                               \
         .when = launch_offloads_optimizer,                                                                            \
         .source = zero_guide,                                                                                         \
         .place = LAUNCH_SETTING},                                                                                     \
        {.key = "zero_optimization.offload_optimizer.pin_memory",                                                      \
         .fixed = "true",                                                                                              \
         .when = launch_offloads_optimizer,                                                                            \
         .source = zero_guide,                                                                                         \
         .place = LAUNCH_SETTING},                                                                                     \
        {.key = "zero_optimization.offload_param.device",                                                              \
         .fixed = "cpu",                                                                                               \
         .when = launch_offloads_parameters,                                                                           \
         .source = zero_guide,                                                                                         \
         .place = LAUNCH_SETTING},                                                                                     \
        {.key = "zero_optimization.offload_param.pin_memory",                                                          \
         .fixed = "true",                                                                                              \
         .when = launch_offloads_parameters,                                                                           \
         .source = zero_guide,                                                                                         \
         .place = LAUNCH_SETTING},                                                                                     \
        {.key = "bf16.enabled",                                                                                        \
         .fixed = "true",                                                                                              \
         .when = launch_is_bf16,                                                                                       \
         .source = config_py,                                                                                          \
         .place = LAUNCH_SETTING},                                                                                     \
        {.key = "fp16.enabled",                                                                                        \
         .fixed = "true",                                                                                              \
         .when = launch_is_fp16,                                                                                       \
         .source = config_py,                                                                                          \
         .place = LAUNCH_SETTING},                                                                                     \
    {                                                                                                                  \
        .key = "data_types.grad_accum_dtype", .value = accumulation_dtype, .source = config_py,                        \
        .place = LAUNCH_SETTING                                                                                        \
    }

#define RUNNER                                                                                                         \
    {.key = "--num_nodes", .value = launch_nodes, .source = deepspeed_runner, .place = LAUNCH_RUNNER},                 \
    {                                                                                                                  \
        .key = "--num_gpus", .value = launch_node_gpus, .source = deepspeed_runner, .place = LAUNCH_RUNNER             \
    }

/* ---- Megatron-DeepSpeed ----------------------------------------------------------------------------------------- */

static bool is_recomputed_whole(const struct launch_case *it)
{
    return launch_is_full(it) || launch_is_block(it);
}

static const struct launch_row megatron_rows[] = {
    CONFIG_BATCH,
    CONFIG_REST,
    {.key = "activation_checkpointing.cpu_checkpointing",
     .fixed = "true",
     .when = launch_offloads_activations,
     .source = "DeepSpeed docs: activation checkpointing",
     .place = LAUNCH_SETTING},
    RUNNER,
    {.key = "--deepspeed", .source = megatron_deepspeed},
    {.key = "--deepspeed_config", .fixed = "ds_config.json", .source = megatron_deepspeed},
    {.key = "--zero-stage", .value = launch_zero, .source = megatron_deepspeed},
    {.key = "--no-pipeline-parallel",
     .remark = "its pipeline module runs with ZeRO 0 and 1 alone, and not beside sequence parallelism",
     .source = megatron_deepspeed},
    {.key = "--tensor-model-parallel-size", .value = launch_tp, .source = megatron_deepspeed},
    {.key = "--pipeline-model-parallel-size", .value = launch_pp, .source = megatron_deepspeed},
    {.key = "--ds-sequence-parallel-size",
     .value = launch_sp,
     .remark = "DistributedAttention: query heads must divide by it, and the sequence too",
     .source = megatron_deepspeed},
    {.key = "--seq-length", .value = launch_seq, .source = megatron_deepspeed},
    {.key = "--micro-batch-size",
     .value = launch_micro_batch,
     .remark = "both batch sizes must be those of ds_config.json",
     .source = megatron_deepspeed},
    {.key = "--global-batch-size", .value = launch_global_batch, .source = megatron_deepspeed},
    {.key = "--recompute-granularity", .fixed = "selective", .when = launch_is_selective, .source = megatron_deepspeed},
    {.key = "--recompute-granularity", .fixed = "full", .when = is_recomputed_whole, .source = megatron_deepspeed},
    {.key = "--recompute-method", .fixed = "uniform", .when = launch_is_full, .source = megatron_deepspeed},
    {.key = "--recompute-method", .fixed = "block", .when = launch_is_block, .source = megatron_deepspeed},
    {.key = "--recompute-num-layers",
     .value = launch_recompute_layers,
     .when = launch_is_block,
     .source = megatron_deepspeed},
    {.key = "--deepspeed-activation-checkpointing",
     .when = launch_offloads_activations,
     .remark = "else the checkpoints are Megatron's own and stay on the GPU",
     .source = megatron_deepspeed},
    {.key = "--bf16", .when = launch_is_bf16, .source = megatron_deepspeed},
    {.key = "--fp16", .when = launch_is_fp16, .source = megatron_deepspeed},
    {.key = "--use-flash-attn-v2",
     .says = launch_says_flash_attention_2,
     .remark = "without a fused kernel the scores of the whole sequence are kept",
     .source = megatron_deepspeed},
    {.remark =
         "the model's sizes are arguments of Megatron-DeepSpeed too: as seqplan launch --for megatron-lm has them",
     .source = megatron_deepspeed},
    {.key = NULL},
};

static const char *const settings[] = {"run.gradient_dtype", "run.moment_dtype", NULL};
static const char *const alst_settings[] = {"run.gradient_dtype", "run.moment_dtype", "run.loss=", "run.tiled_mlp",
                                            NULL};

static const struct launch_engine megatron_engine = {
    .framework = FRAMEWORK_DEEPSPEED,
    .title = "Megatron-DeepSpeed",
    .methods = 1U << METHOD_NONE | 1U << METHOD_ULYSSES,
    .zeros = 1U << 0 | 1U << 1 | 1U << 2 | 1U << 3,
    .schedules = 0,
    .precisions = 1U << DTYPE_BF16 | 1U << DTYPE_FP16 | 1U << DTYPE_FP32,
    .recomputes = 1U << RECOMPUTE_NONE | 1U << RECOMPUTE_SELECTIVE | 1U << RECOMPUTE_FULL | 1U << RECOMPUTE_BLOCK,
    .offloads = LAUNCH_ACTIVATIONS | LAUNCH_OPTIMIZER | LAUNCH_PARAMETERS,
    .orders = no_orders,
    .settings = settings,
    .limits = limits,
    .rows = megatron_rows,
};

/* ---- ALST ------------------------------------------------------------------------------------------------------- */

static const char *register_line(const struct launch_case *it)
{
    const char *kernel = launch_flash_attention(it);
    return sp_format(it->arena,
                     "(\n    model_name_or_path=MODEL,\n    core_attn_implementation=\"%s\",\n"
                     "    sequence_parallel_size=%s,\n    micro_batch_size=%s,\n    seq_length=%s,\n"
                     "    seq_length_is_variable=True,\n)",
                     kernel, launch_sp(it), launch_micro_batch(it), launch_seq(it));
}

static const char *initialize_line(const struct launch_case *it)
{
    return sp_format(it->arena,
                     "(\n    config=\"ds_config.json\",\n    model=model,\n"
                     "    model_parameters=model.parameters(),\n%s)",
                     launch_has_sp(it) ? "    mpu=mpu,\n" : "");
}

static bool has_chunked_loss(const struct launch_case *it)
{
    return it->question->run.loss == LOSS_CHUNKED;
}

static bool has_tiled_mlp(const struct launch_case *it)
{
    return it->question->run.is_mlp_tiled;
}

static const struct launch_row alst_rows[] = {
    CONFIG_BATCH,
    {.key = "sequence_parallel_size",
     .value = launch_sp,
     .remark = "with it the world for the batch is GPUs / size; ranks of a group take turns on each other's samples",
     .source = config_py,
     .place = LAUNCH_SETTING},
    CONFIG_REST,
    {.key = "import deepspeed", .source = alst_tutorial, .place = LAUNCH_CODE},
    {.key = "from deepspeed.utils import groups", .when = launch_has_sp, .source = alst_tutorial, .place = LAUNCH_CODE},
    {.key = "from deepspeed.runtime.sequence_parallel.ulysses_sp import (\n"
            "    UlyssesSPAttentionHF, UlyssesSPDataLoaderAdapter)",
     .when = launch_has_sp,
     .source = ulysses_sp,
     .place = LAUNCH_CODE},
    {.key = "mpu = UlyssesSPAttentionHF.register_with_transformers",
     .value = register_line,
     .when = launch_has_sp,
     .says = launch_says_flash_attention,
     .remark =
         "before the model is made: key-value heads must divide by the size or divide it (they are then repeated); "
         "sdpa would attend across packed documents",
     .source = ulysses_sp,
     .place = LAUNCH_CODE},
    {.key = "model.gradient_checkpointing_enable()",
     .when = launch_is_full,
     .source = alst_tutorial,
     .place = LAUNCH_CODE},
    {.key = "engine, _, _, _ = deepspeed.initialize",
     .value = initialize_line,
     .source = alst_tutorial,
     .place = LAUNCH_CODE},
    {.key = "loader = UlyssesSPDataLoaderAdapter(\n"
            "    loader,\n"
            "    sp_rank=groups._get_sequence_parallel_rank(),\n"
            "    sp_group=groups._get_sequence_parallel_group(),\n"
            "    sp_world_size=groups._get_sequence_parallel_world_size(),\n"
            "    device=engine.device,\n"
            ")",
     .when = launch_has_sp,
     .remark = "the loss is the mean over ranks weighted by their tokens",
     .source = alst_tutorial,
     .place = LAUNCH_CODE},
    {.key = "# run.tiled_mlp: TiledMLP of the same module around each MLP",
     .when = has_tiled_mlp,
     .remark = "shards must be equal on all ranks, or ZeRO 3 waits for ever",
     .source = ulysses_sp,
     .place = LAUNCH_CODE},
    {.key = "# run.loss=chunked: TiledFusedLogitsLoss of the same module instead of the model's loss",
     .when = has_chunked_loss,
     .source = ulysses_sp,
     .place = LAUNCH_CODE},
    RUNNER,
    {.key = NULL},
};

static const char *refuse_activations(const struct launch_case *it)
{
    return launch_offloads_activations(it)
               ? "checkpoints of Transformers go to the host by no setting of DeepSpeed; ArcticTraining's "
                 "activation_checkpoint_cpu_offload does it (nearest: --offload none)"
               : NULL;
}

static const struct launch_limit alst_limits[] = {
    {refuse_activations, alst_tutorial},
    {refuse_offload_without_zero, zero_guide},
    {refuse_sp_at_zero_0, "deepspeedai/DeepSpeed issue 7833"},
    {refuse_short_moments, config_py},
    {NULL, NULL},
};

static const struct launch_engine alst_engine = {
    .framework = FRAMEWORK_ALST,
    .title = "ALST beside Hugging Face Transformers",
    .methods = 1U << METHOD_NONE | 1U << METHOD_ULYSSES,
    .zeros = 1U << 0 | 1U << 1 | 1U << 2 | 1U << 3,
    .schedules = 0,
    .precisions = 1U << DTYPE_BF16 | 1U << DTYPE_FP16 | 1U << DTYPE_FP32,
    .recomputes = 1U << RECOMPUTE_NONE | 1U << RECOMPUTE_FULL,
    .offloads = LAUNCH_ACTIVATIONS | LAUNCH_OPTIMIZER | LAUNCH_PARAMETERS,
    .orders = no_orders,
    .settings = alst_settings,
    .limits = alst_limits,
    .rows = alst_rows,
};

const struct launcher launch_deepspeed = {
    .name = "deepspeed",
    .title = "DeepSpeed",
    .syntax = LAUNCH_JSON,
    .command = "deepspeed%R train.py%A",
    .file = "ds_config.json",
    .code = "sequence_parallel.py",
    .n_engines = 2,
    .engines = {&megatron_engine, &alst_engine},
};

/* ---- OpenRLHF --------------------------------------------------------------------------------------------------- */

static const struct launch_row openrlhf_rows[] = {
    RUNNER,
    {.key = "--data.max_len", .value = launch_seq, .source = openrlhf_py},
    {.key = "--train.batch_size",
     .value = launch_global_batch,
     .remark = "accumulation is batch x ring / (micro-batch x GPUs)",
     .source = openrlhf_py},
    {.key = "--train.micro_batch_size", .value = launch_micro_batch, .source = openrlhf_py},
    {.key = "--ds.zero_stage", .value = launch_zero, .source = openrlhf_py},
    {.key = "--ds.ring_attn_size",
     .value = launch_sp,
     .remark = "older versions have --ring_attn_size, --ring_head_stride and --packing_samples; a ring it is "
               "not: keys and values are gathered (llama3_flash_attn_varlen)",
     .source = openrlhf_docs},
    {.key = "--ds.ring_attn_head_stride",
     .fixed = "1",
     .when = launch_has_sp,
     .remark = "key-value heads of one gather: must divide them; more of them are fewer, larger gathers",
     .source = openrlhf_docs},
    {.key = "--ds.packing_samples",
     .when = launch_has_sp,
     .remark = "ring attention is of packed samples alone",
     .source = openrlhf_docs},
    {.key = "--ds.attn_implementation",
     .value = launch_flash_attention,
     .says = launch_says_flash_attention,
     .source = openrlhf_py},
    {.key = "--ds.param_dtype", .fixed = "bf16", .when = launch_is_bf16, .source = openrlhf_py},
    {.key = "--ds.param_dtype", .fixed = "fp16", .when = launch_is_fp16, .source = openrlhf_py},
    {.key = "--ds.adam_offload", .when = launch_offloads_optimizer, .source = openrlhf_py},
    {.key = "--model.gradient_checkpointing_enable",
     .when = launch_is_full,
     .remark = "of train_sft; with PPO it is --actor.gradient_checkpointing_enable",
     .source = openrlhf_py},
    {.key = "--ds.lora.rank", .value = launch_lora_rank, .when = launch_is_lora, .source = openrlhf_py},
    {.key = NULL},
};

static const struct launch_limit openrlhf_limits[] = {
    {refuse_offload_without_zero, zero_guide},
    {refuse_short_moments, config_py},
    {NULL, NULL},
};

static const struct launch_engine openrlhf_engine = {
    .framework = FRAMEWORK_RING_FLASH_ATTN,
    .methods = 1U << METHOD_NONE | 1U << METHOD_ALLGATHER,
    .zeros = 1U << 0 | 1U << 1 | 1U << 2 | 1U << 3,
    .schedules = 0,
    .precisions = 1U << DTYPE_BF16 | 1U << DTYPE_FP16,
    .recomputes = 1U << RECOMPUTE_NONE | 1U << RECOMPUTE_FULL,
    .offloads = LAUNCH_OPTIMIZER,
    .axes = LAUNCH_LORA,
    .orders = no_orders,
    .settings = &settings[1], /* moments alone */
    .limits = openrlhf_limits,
    .rows = openrlhf_rows,
};

const struct launcher launch_openrlhf = {
    .name = "openrlhf",
    .title = "OpenRLHF",
    .syntax = LAUNCH_FLAGS,
    .command = "deepspeed%R --module openrlhf.cli.train_sft%A",
    .n_engines = 1,
    .engines = {&openrlhf_engine},
};
