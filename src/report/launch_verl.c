/* verl's overrides: the actor on Megatron-Core, or on FSDP2 with Ulysses. */
#include "report/launch.h"

static const char megatron_yaml[] = "verl-project/verl@093191f verl/trainer/config/engine/megatron.yaml";
static const char fsdp_yaml[] = "verl-project/verl@01d4d76 verl/trainer/config/engine/fsdp.yaml";
static const char actor_yaml[] = "verl-project/verl verl/trainer/config/actor/actor.yaml";
static const char verl_examples[] = "verl-project/verl examples: actor.optim.override_optimizer_config";

#define ACTOR "actor_rollout_ref.actor."
#define CORE ACTOR "megatron."
#define FSDP ACTOR "fsdp_config."

static const char *const core_orders[] = {"tp-cp-ep-dp-pp", NULL};

/* ---- shared ----------------------------------------------------------------------------------------------------- */

#define SHARED                                                                                                         \
    {.key = "trainer.nnodes",                                                                                          \
     .value = launch_nodes,                                                                                            \
     .source = "verl-project/verl verl/trainer/config/ppo_trainer.yaml"},                                              \
        {.key = "trainer.n_gpus_per_node",                                                                             \
         .value = launch_node_gpus,                                                                                    \
         .source = "verl-project/verl verl/trainer/config/ppo_trainer.yaml"},                                          \
        {.key = ACTOR "ppo_mini_batch_size",                                                                           \
         .value = launch_global_batch,                                                                                 \
         .remark = "prompts of an optimizer step: divide by rollout.n where each is sampled several times; "           \
                   "data.max_prompt_length and data.max_response_length together are the sequence",                    \
         .source = actor_yaml},                                                                                        \
        {.key = ACTOR "ppo_micro_batch_size_per_gpu", .value = launch_micro_batch, .source = actor_yaml},              \
        {.key = ACTOR "use_dynamic_bsz",                                                                               \
         .fixed = "False",                                                                                             \
         .remark = "with True the micro-batch is ppo_max_token_len_per_gpu tokens instead",                            \
         .source = actor_yaml},                                                                                        \
    {                                                                                                                  \
        .key = ACTOR "ppo_max_token_len_per_gpu", .value = token_budget, .source = actor_yaml                          \
    }

static const char *token_budget(const struct launch_case *it)
{
    const struct layout_spec *layout = &it->question->layout;
    return launch_count(it, it->question->run.seq * layout->micro_batch / layout->sp);
}

/* ---- Megatron-Core ---------------------------------------------------------------------------------------------- */

static const char *exchange(const struct launch_case *it)
{
    static const char *const names[N_METHODS] = {
        [METHOD_ALLGATHER] = "all_gather", [METHOD_ULYSSES] = "a2a", [METHOD_ZIGZAG] = "p2p"};
    return launch_has_sp(it) ? names[it->question->layout.method] : NULL;
}

static const char *virtual_stages(const struct launch_case *it)
{
    return launch_has_vpp(it) ? launch_vpp(it) : NULL;
}

static bool is_recomputed_whole(const struct launch_case *it)
{
    return launch_is_full(it) || launch_is_block(it);
}

static const char *dtype(const struct launch_case *it)
{
    return launch_is_fp16(it) ? "float16" : "bfloat16";
}

static const struct launch_row core_rows[] = {
    {.key = ACTOR "strategy",
     .fixed = "megatron",
     .remark = "with --config-name ppo_megatron_trainer",
     .source = megatron_yaml},
    SHARED,
    {.key = CORE "tensor_model_parallel_size", .value = launch_tp, .source = megatron_yaml},
    {.key = CORE "sequence_parallel", .fixed = "False", .when = launch_lacks_tp_sp, .source = megatron_yaml},
    {.key = CORE "sequence_parallel", .fixed = "True", .when = launch_has_tp_sp, .source = megatron_yaml},
    {.key = CORE "context_parallel_size",
     .value = launch_sp,
     .remark = "the loss function must return three values, or gradients grow under context parallelism (verl 6609)",
     .source = megatron_yaml},
    {.key = "+" CORE "override_transformer_config.cp_comm_type",
     .value = exchange,
     .remark = "all_gather, not allgather, where keys and values are gathered",
     .source = megatron_yaml},
    {.key = CORE "pipeline_model_parallel_size", .value = launch_pp, .source = megatron_yaml},
    {.key = CORE "virtual_pipeline_model_parallel_size", .value = virtual_stages, .source = megatron_yaml},
    {.says = launch_says_dp, .source = megatron_yaml},
    {.key = CORE "expert_model_parallel_size", .value = launch_ep, .when = launch_is_moe, .source = megatron_yaml},
    {.key = CORE "expert_tensor_parallel_size",
     .value = launch_etp,
     .when = launch_is_moe,
     .remark = "null: as tp",
     .source = megatron_yaml},
    {.key = "+" CORE "override_transformer_config.account_for_embedding_in_pipeline_split",
     .fixed = "True",
     .when = launch_is_padded,
     .source = megatron_yaml},
    {.key = "+" CORE "override_transformer_config.account_for_loss_in_pipeline_split",
     .fixed = "True",
     .when = launch_is_padded,
     .source = megatron_yaml},
    {.key = CORE "use_distributed_optimizer", .fixed = "False", .when = launch_is_zero_0, .source = megatron_yaml},
    {.key = CORE "use_distributed_optimizer", .fixed = "True", .when = launch_is_zero_1, .source = megatron_yaml},
    {.key = CORE "use_megatron_fsdp", .fixed = "True", .when = launch_is_zero_3, .source = megatron_yaml},
    {.key = CORE "override_transformer_config.recompute_granularity",
     .fixed = "null",
     .when = launch_keeps_all,
     .source = megatron_yaml},
    {.key = CORE "override_transformer_config.recompute_granularity",
     .fixed = "selective",
     .when = launch_is_selective,
     .remark = "recompute_modules is core_attn",
     .source = megatron_yaml},
    {.key = CORE "override_transformer_config.recompute_granularity",
     .fixed = "full",
     .when = is_recomputed_whole,
     .source = megatron_yaml},
    {.key = CORE "override_transformer_config.recompute_method",
     .fixed = "uniform",
     .when = launch_is_full,
     .source = megatron_yaml},
    {.key = CORE "override_transformer_config.recompute_num_layers",
     .fixed = "1",
     .when = launch_is_full,
     .source = megatron_yaml},
    {.key = CORE "override_transformer_config.recompute_method",
     .fixed = "block",
     .when = launch_is_block,
     .source = megatron_yaml},
    {.key = CORE "override_transformer_config.recompute_num_layers",
     .value = launch_recompute_layers,
     .when = launch_is_block,
     .source = megatron_yaml},
    {.key = "+" ACTOR "optim.override_optimizer_config.optimizer_cpu_offload",
     .fixed = "True",
     .when = launch_offloads_optimizer,
     .remark =
         "not megatron.optimizer_offload, which empties the GPU between training and rollout and is back in the step",
     .source = verl_examples},
    {.key = "+" ACTOR "optim.override_optimizer_config.optimizer_offload_fraction",
     .fixed = "1",
     .when = launch_offloads_optimizer,
     .source = verl_examples},
    {.key = "+" ACTOR "optim.override_optimizer_config.use_precision_aware_optimizer",
     .fixed = "True",
     .when = launch_offloads_optimizer,
     .source = verl_examples},
    {.key = CORE "dtype", .value = dtype, .source = megatron_yaml},
    {.key = NULL},
};

static const char *refuse_uneven(const struct launch_case *it)
{
    return launch_is_uneven(it)
               ? sp_format(it->arena,
                           "no setting names the layers %s of the stages (nearest: --pp-layers padded, or a "
                           "--pp that divides)",
                           launch_stage_layers_text(it))
               : NULL;
}

static const char *refuse_offload_without_sharding(const struct launch_case *it)
{
    return launch_offloads_optimizer(it) && launch_is_zero_0(it)
               ? "an offloaded optimizer takes the distributed one (nearest: --zero 1)"
               : NULL;
}

static const struct launch_limit core_limits[] = {
    {refuse_uneven, megatron_yaml},
    {refuse_offload_without_sharding, verl_examples},
    {NULL, NULL},
};

static const struct launch_engine core_engine = {
    .framework = FRAMEWORK_MEGATRON,
    .title = "Megatron-Core",
    .methods = 1U << METHOD_NONE | 1U << METHOD_ALLGATHER | 1U << METHOD_ULYSSES | 1U << METHOD_ZIGZAG,
    .zeros = 1U << 0 | 1U << 1 | 1U << 3,
    .schedules = 1U << SCHEDULE_1F1B | 1U << SCHEDULE_INTERLEAVED,
    .precisions = 1U << DTYPE_BF16 | 1U << DTYPE_FP16,
    .recomputes = 1U << RECOMPUTE_NONE | 1U << RECOMPUTE_SELECTIVE | 1U << RECOMPUTE_FULL | 1U << RECOMPUTE_BLOCK,
    .offloads = LAUNCH_OPTIMIZER,
    .axes = LAUNCH_TP | LAUNCH_PP | LAUNCH_EP,
    .orders = core_orders,
    .limits = core_limits,
    .rows = core_rows,
};

/* ---- FSDP2 ------------------------------------------------------------------------------------------------------ */

static const char *reshards(const struct launch_case *it)
{
    return launch_is_zero_3(it) ? "True" : "False";
}

static bool offloads_states(const struct launch_case *it)
{
    return launch_offloads_optimizer(it) && launch_offloads_parameters(it);
}

static const char *is_compiled(const struct launch_case *it)
{
    return launch_is_compiled(it) ? "True" : "False";
}

static const struct launch_row fsdp_rows[] = {
    {.key = ACTOR "strategy", .fixed = "fsdp2", .source = fsdp_yaml},
    SHARED,
    {.key = ACTOR "ulysses_sequence_parallel_size",
     .value = launch_sp,
     .remark = "key-value heads must divide by it, or divide it (verl 1226)",
     .source = fsdp_yaml},
    {.key = "actor_rollout_ref.model.use_remove_padding",
     .fixed = "True",
     .remark = "required by Ulysses",
     .source = fsdp_yaml},
    {.key = FSDP "fsdp_size",
     .fixed = "-1",
     .remark = "shards over all GPUs, sequence parallel ones too",
     .source = fsdp_yaml},
    {.key = FSDP "reshard_after_forward",
     .value = reshards,
     .remark = "True is ZeRO 3, False ZeRO 2",
     .source = fsdp_yaml},
    {.key = FSDP "offload_policy",
     .fixed = "True",
     .when = offloads_states,
     .remark = "not param_offload and optimizer_offload, which empty the GPU between training and rollout",
     .source = fsdp_yaml},
    {.key = FSDP "dtype", .value = dtype, .source = fsdp_yaml},
    {.key = FSDP "use_torch_compile", .value = is_compiled, .source = fsdp_yaml},
    {.key = "actor_rollout_ref.model.enable_gradient_checkpointing",
     .fixed = "True",
     .when = launch_is_full,
     .source = "verl-project/verl verl/trainer/config/model/hf_model.yaml"},
    {.key = "actor_rollout_ref.model.enable_gradient_checkpointing",
     .fixed = "False",
     .when = launch_keeps_all,
     .source = "verl-project/verl verl/trainer/config/model/hf_model.yaml"},
    {.key = "actor_rollout_ref.model.lora_rank",
     .value = launch_lora_rank,
     .when = launch_is_lora,
     .source = "verl-project/verl verl/trainer/config/model/hf_model.yaml"},
    {.key = NULL},
};

static const struct launch_limit fsdp_limits[] = {{NULL, NULL}};

static const struct launch_engine fsdp_engine = {
    .framework = FRAMEWORK_TORCH,
    .title = "FSDP2",
    .methods = 1U << METHOD_NONE | 1U << METHOD_ULYSSES,
    .zeros = 1U << 2 | 1U << 3,
    .schedules = 0,
    .precisions = 1U << DTYPE_BF16 | 1U << DTYPE_FP16,
    .recomputes = 1U << RECOMPUTE_NONE | 1U << RECOMPUTE_FULL,
    .offloads = LAUNCH_OPTIMIZER | LAUNCH_PARAMETERS,
    .axes = LAUNCH_LORA,
    .orders = core_orders,
    .chooses_kernels = true,
    .limits = fsdp_limits,
    .rows = fsdp_rows,
};

const struct launcher launch_verl = {
    .name = "verl",
    .title = "verl",
    .syntax = LAUNCH_OVERRIDES,
    .command = "python3 -m verl.trainer.main_ppo%A",
    .n_engines = 2,
    .engines = {&core_engine, &fsdp_engine},
};
