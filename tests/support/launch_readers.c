#include "support/launch_readers.h"

#include "support/support.h"

#include <stdlib.h>
#include <string.h>

static int64_t count(const struct launch_lines *lines, const char *key, int64_t usual)
{
    return launch_lines_count(lines, key, usual);
}

static bool has(const struct launch_lines *lines, const char *key)
{
    return launch_lines_has(lines, key);
}

static bool is(const struct launch_lines *lines, const char *key, const char *value)
{
    return launch_lines_is(lines, key, value);
}

/* What no line says: one of everything. */
static void start(struct launch_found *found)
{
    *found = (struct launch_found){.tp = 1,
                                   .sp = 1,
                                   .pp = 1,
                                   .vpp = 1,
                                   .dp = 1,
                                   .ep = 1,
                                   .etp = 1,
                                   .sp_ulysses = 1,
                                   .micro_batch = 1,
                                   .method = METHOD_NONE,
                                   .schedule = SCHEDULE_1F1B,
                                   .recompute = RECOMPUTE_NONE,
                                   .precision = DTYPE_FP32,
                                   .order = "tp-cp-ep-dp-pp"};
}

/* "3,4,4": of equal shares, or with `less` layers fewer on the first and the last stage. */
static const char *shares(const struct launch_known *known, int64_t pp, int64_t less)
{
    const char *text = "";
    for (int64_t stage = 0; stage < pp; stage++) {
        int64_t layers = (known->n_layers + 2 * less) / pp;
        layers += stage < (known->n_layers + 2 * less) % pp ? 1 : 0;
        layers -= (stage == 0 ? less : 0) + (stage == pp - 1 ? less : 0);
        text = sp_format(known->arena, "%s%s%lld", text, stage == 0 ? "" : ",", (long long)layers);
    }
    return text;
}

/* ---- Megatron-Core's words, of three programs ------------------------------------------------------------------- */

struct megatron_words {
    const char *nodes, *node_gpus;
    const char *tp, *tp_sp, *sp, *exchange, *sizes, *pp, *chunks, *letters, *padded, *ep, *etp, *mapping;
    const char *sharded, *fsdp, *strategy, *granularity, *method, *recompute_layers, *host_optimizer, *host_activations;
    const char *micro_batch, *global_batch, *seq;
    const char *yes; /* of a switch: "" where it is a flag */
};

/* "Et*3|t*4|t*4L": one part for each chunk of each stage. */
static void read_letters(const char *letters, const struct launch_known *known, struct launch_found *found)
{
    enum { MOST = 512 };
    int64_t layers[MOST] = {0};
    int64_t parts = 0;
    assert_int_equal(letters[0], 'E');
    assert_int_equal(letters[strlen(letters) - 1], 'L');
    for (const char *at = letters + 1; *at != 'L';) {
        assert_int_equal(strncmp(at, "t*", 2), 0);
        char *end = NULL;
        assert_true(parts < MOST);
        layers[parts++] = strtoll(at + 2, &end, 10);
        at = end + (*end == '|' ? 1 : 0);
    }
    assert_int_equal(parts % found->pp, 0);
    found->vpp = parts / found->pp;
    found->stages = "";
    for (int64_t stage = 0; stage < found->pp; stage++) {
        int64_t sum = 0;
        for (int64_t chunk = 0; chunk < found->vpp; chunk++) {
            sum += layers[chunk * found->pp + stage];
        }
        found->stages = sp_format(known->arena, "%s%s%lld", found->stages, stage == 0 ? "" : ",", (long long)sum);
    }
}

static void read_exchange(const struct launch_lines *lines, const struct megatron_words *words,
                          const struct launch_known *known, struct launch_found *found)
{
    static const struct {
        const char *name;
        enum method_id method;
    } exchanges[] = {
        {"p2p", METHOD_ZIGZAG}, {"all_gather", METHOD_ALLGATHER}, {"a2a", METHOD_ULYSSES}, {"a2a+p2p", METHOD_USP}};
    if (found->sp == 1) {
        return;
    }
    found->method = METHOD_ZIGZAG; /* Megatron's default */
    for (size_t i = 0; i < SP_COUNT_OF(exchanges); i++) {
        found->method = is(lines, words->exchange, exchanges[i].name) ? exchanges[i].method : found->method;
    }
    if (found->method == METHOD_USP) {
        const char *sizes = launch_lines_get(lines, words->sizes);
        assert_non_null(sizes); /* asserted by Megatron */
        sizes += sizes[0] == '[' ? 1 : 0;
        char *end = NULL;
        found->sp_ulysses = strtoll(sizes, &end, 10);
        assert_int_equal(found->sp_ulysses * strtoll(end + 1, NULL, 10), found->sp);
    }
    (void)known;
}

static void read_stages(const struct launch_lines *lines, const struct megatron_words *words,
                        const struct launch_known *known, struct launch_found *found)
{
    found->vpp = words->chunks == NULL ? 1 : count(lines, words->chunks, 1);
    found->stages = shares(known, found->pp, words->padded != NULL && has(lines, words->padded) ? 1 : 0);
    if (words->letters != NULL && has(lines, words->letters)) {
        assert_false(has(lines, words->chunks)); /* Megatron refuses both */
        read_letters(launch_lines_get(lines, words->letters), known, found);
    }
    found->schedule = found->vpp > 1 ? SCHEDULE_INTERLEAVED : SCHEDULE_1F1B;
}

static void read_megatron_memory(const struct launch_lines *lines, const struct megatron_words *words,
                                 struct launch_found *found)
{
    bool is_sharded = is(lines, words->sharded, words->yes);
    found->zero = is_sharded ? 1 : 0;
    if (is(lines, words->fsdp, words->yes)) {
        bool is_grads = words->strategy != NULL && is(lines, words->strategy, "optim_grads");
        found->zero = is_grads ? 2 : 3;
        assert_false(is(lines, "CUDA_DEVICE_MAX_CONNECTIONS", "1"));
    }
    if (is(lines, words->granularity, "selective")) {
        found->recompute = RECOMPUTE_SELECTIVE;
    } else if (is(lines, words->granularity, "full")) {
        bool is_block = is(lines, words->method, "block");
        assert_true(is_block || is(lines, words->method, "uniform"));
        found->recompute = is_block ? RECOMPUTE_BLOCK : RECOMPUTE_FULL;
        found->recompute_layers = is_block ? count(lines, words->recompute_layers, 0) : 0;
    }
    found->offloads_optimizer = is(lines, words->host_optimizer, words->yes);
    found->offloads_activations = words->host_activations != NULL && is(lines, words->host_activations, words->yes);
}

static void read_megatron(const struct launch_lines *lines, const struct megatron_words *words,
                          const struct launch_known *known, struct launch_found *found)
{
    start(found);
    found->gpus = count(lines, words->nodes, 1) * count(lines, words->node_gpus, 1);
    found->tp = count(lines, words->tp, 1);
    found->has_tp_sp = is(lines, words->tp_sp, words->yes);
    found->sp = count(lines, words->sp, 1);
    found->pp = count(lines, words->pp, 1);
    found->dp = found->gpus / (found->tp * found->sp * found->pp);
    read_exchange(lines, words, known, found);
    read_stages(lines, words, known, found);
    if (known->is_moe) {
        found->ep = count(lines, words->ep, 1);
        found->etp = count(lines, words->etp, found->tp);
    }
    found->order = words->mapping != NULL && is(lines, words->mapping, words->yes) ? "tp-cp-ep-pp-dp" : found->order;
    read_megatron_memory(lines, words, found);
    found->micro_batch = count(lines, words->micro_batch, 0);
    found->global_batch = count(lines, words->global_batch, 0);
}

static void read_megatron_lm(const struct launch_lines *lines, const struct launch_known *known,
                             struct launch_found *found)
{
    static const struct megatron_words words = {.nodes = "--nnodes",
                                                .node_gpus = "--nproc-per-node",
                                                .tp = "--tensor-model-parallel-size",
                                                .tp_sp = "--sequence-parallel",
                                                .sp = "--context-parallel-size",
                                                .exchange = "--cp-comm-type",
                                                .sizes = "--hierarchical-context-parallel-sizes",
                                                .pp = "--pipeline-model-parallel-size",
                                                .chunks = "--num-virtual-stages-per-pipeline-rank",
                                                .letters = "--pipeline-model-parallel-layout",
                                                .padded = "--account-for-embedding-in-pipeline-split",
                                                .ep = "--expert-model-parallel-size",
                                                .etp = "--expert-tensor-parallel-size",
                                                .mapping = "--use-tp-pp-dp-mapping",
                                                .sharded = "--use-distributed-optimizer",
                                                .fsdp = "--use-megatron-fsdp",
                                                .strategy = "--data-parallel-sharding-strategy",
                                                .granularity = "--recompute-granularity",
                                                .method = "--recompute-method",
                                                .recompute_layers = "--recompute-num-layers",
                                                .host_optimizer = "--optimizer-cpu-offload",
                                                .host_activations = "--fine-grained-activation-offloading",
                                                .micro_batch = "--micro-batch-size",
                                                .global_batch = "--global-batch-size",
                                                .yes = ""};
    read_megatron(lines, &words, known, found);
    assert_int_equal(count(lines, "--num-layers", 0), known->n_layers);
    found->seq = count(lines, "--seq-length", 0);
    assert_true(count(lines, "--max-position-embeddings", 0) >= found->seq);
    assert_true(!found->offloads_optimizer || has(lines, "--use-precision-aware-optimizer"));
    assert_true(!has(lines, words.padded) || has(lines, "--account-for-loss-in-pipeline-split"));
    found->precision = has(lines, "--fp8-format") ? DTYPE_FP8
                       : has(lines, "--bf16")     ? DTYPE_BF16
                       : has(lines, "--fp16")     ? DTYPE_FP16
                                                  : DTYPE_FP32;
}

static void read_megatron_bridge(const struct launch_lines *lines, const struct launch_known *known,
                                 struct launch_found *found)
{
    static const struct megatron_words words = {.nodes = "--nnodes",
                                                .node_gpus = "--nproc-per-node",
                                                .tp = "model.tensor_model_parallel_size",
                                                .tp_sp = "model.sequence_parallel",
                                                .sp = "model.context_parallel_size",
                                                .exchange = "model.cp_comm_type",
                                                .sizes = "model.hierarchical_context_parallel_sizes",
                                                .pp = "model.pipeline_model_parallel_size",
                                                .chunks = "model.virtual_pipeline_model_parallel_size",
                                                .letters = "model.pipeline_model_parallel_layout",
                                                .padded = "model.account_for_embedding_in_pipeline_split",
                                                .ep = "model.expert_model_parallel_size",
                                                .etp = "model.expert_tensor_parallel_size",
                                                .mapping = "dist.use_tp_pp_dp_mapping",
                                                .sharded = "ddp.use_distributed_optimizer",
                                                .fsdp = "ddp.use_megatron_fsdp",
                                                .strategy = "ddp.data_parallel_sharding_strategy",
                                                .granularity = "model.recompute_granularity",
                                                .method = "model.recompute_method",
                                                .recompute_layers = "model.recompute_num_layers",
                                                .host_optimizer = "optimizer.optimizer_cpu_offload",
                                                .host_activations = "model.fine_grained_activation_offloading",
                                                .micro_batch = "train.micro_batch_size",
                                                .global_batch = "train.global_batch_size",
                                                .yes = "true"};
    read_megatron(lines, &words, known, found);
    found->seq = count(lines, "model.seq_length", 0);
    assert_int_equal(count(lines, "dataset.sequence_length", 0), found->seq);
    assert_true(found->method != METHOD_USP || is(lines, "dist.use_decentralized_pg", "false"));
    found->precision = is(lines, "mixed_precision", "bf16_mixed")   ? DTYPE_BF16
                       : is(lines, "mixed_precision", "fp16_mixed") ? DTYPE_FP16
                                                                    : DTYPE_FP8;
}

#define ACTOR "actor_rollout_ref.actor."
#define CORE "actor_rollout_ref.actor.megatron."

static void read_verl_core(const struct launch_lines *lines, const struct launch_known *known,
                           struct launch_found *found)
{
    static const struct megatron_words words = {
        .nodes = "trainer.nnodes",
        .node_gpus = "trainer.n_gpus_per_node",
        .tp = CORE "tensor_model_parallel_size",
        .tp_sp = CORE "sequence_parallel",
        .sp = CORE "context_parallel_size",
        .exchange = "+" CORE "override_transformer_config.cp_comm_type",
        .pp = CORE "pipeline_model_parallel_size",
        .chunks = CORE "virtual_pipeline_model_parallel_size",
        .padded = "+" CORE "override_transformer_config.account_for_embedding_in_pipeline_split",
        .ep = CORE "expert_model_parallel_size",
        .etp = CORE "expert_tensor_parallel_size",
        .sharded = CORE "use_distributed_optimizer",
        .fsdp = CORE "use_megatron_fsdp",
        .granularity = CORE "override_transformer_config.recompute_granularity",
        .method = CORE "override_transformer_config.recompute_method",
        .recompute_layers = CORE "override_transformer_config.recompute_num_layers",
        .host_optimizer = "+" ACTOR "optim.override_optimizer_config.optimizer_cpu_offload",
        .micro_batch = ACTOR "ppo_micro_batch_size_per_gpu",
        .global_batch = ACTOR "ppo_mini_batch_size",
        .yes = "True"};
    assert_true(is(lines, ACTOR "strategy", "megatron"));
    read_megatron(lines, &words, known, found);
    found->seq = count(lines, ACTOR "ppo_max_token_len_per_gpu", 0) * found->sp / found->micro_batch;
    found->precision = is(lines, CORE "dtype", "float16") ? DTYPE_FP16 : DTYPE_BF16;
}

/* ---- FSDP ------------------------------------------------------------------------------------------------------- */

static void read_verl_fsdp(const struct launch_lines *lines, const struct launch_known *known,
                           struct launch_found *found)
{
    start(found);
    (void)known;
    assert_true(is(lines, ACTOR "strategy", "fsdp2"));
    found->gpus = count(lines, "trainer.nnodes", 1) * count(lines, "trainer.n_gpus_per_node", 1);
    found->sp = count(lines, ACTOR "ulysses_sequence_parallel_size", 1);
    found->method = found->sp > 1 ? METHOD_ULYSSES : METHOD_NONE;
    found->dp = found->gpus / found->sp;
    found->micro_batch = count(lines, ACTOR "ppo_micro_batch_size_per_gpu", 0);
    found->global_batch = count(lines, ACTOR "ppo_mini_batch_size", 0);
    found->seq = count(lines, ACTOR "ppo_max_token_len_per_gpu", 0) * found->sp / found->micro_batch;
    found->zero = is(lines, ACTOR "fsdp_config.reshard_after_forward", "True") ? 3 : 2;
    found->offloads_optimizer = is(lines, ACTOR "fsdp_config.offload_policy", "True");
    found->offloads_parameters = found->offloads_optimizer;
    bool is_full = is(lines, "actor_rollout_ref.model.enable_gradient_checkpointing", "True");
    found->recompute = is_full ? RECOMPUTE_FULL : RECOMPUTE_NONE;
    found->precision = is(lines, ACTOR "fsdp_config.dtype", "float16") ? DTYPE_FP16 : DTYPE_BF16;
}

static void read_titan_stages(const struct launch_lines *lines, const struct launch_known *known,
                              struct launch_found *found)
{
    static const struct {
        const char *name;
        enum schedule_id schedule;
    } schedules[] = {{"GPipe", SCHEDULE_GPIPE},
                     {"1F1B", SCHEDULE_1F1B},
                     {"Interleaved1F1B", SCHEDULE_INTERLEAVED},
                     {"ZBVZeroBubble", SCHEDULE_ZBV}};
    if (found->pp == 1) {
        return;
    }
    for (size_t i = 0; i < SP_COUNT_OF(schedules); i++) {
        bool is_it = is(lines, "--parallelism.pipeline_parallel_schedule", schedules[i].name);
        found->schedule = is_it ? schedules[i].schedule : found->schedule;
    }
    int64_t less = count(lines, "--parallelism.pipeline_parallel_first_stage_less_layers", 1);
    assert_int_equal(count(lines, "--parallelism.pipeline_parallel_last_stage_less_layers", 1), less);
    int64_t each = count(lines, "--parallelism.pipeline_parallel_layers_per_stage", 0);
    int64_t stages = (known->n_layers + 2 * less + each - 1) / each;
    assert_int_equal(stages % found->pp, 0); /* torchtitan raises */
    found->vpp = stages / found->pp;
    found->stages = shares(known, found->pp, less);
    found->micro_batch = count(lines, "--parallelism.pipeline_parallel_microbatch_size", 1);
    assert_int_equal(count(lines, "--training.local_batch_size", 0) * found->dp, found->global_batch);
}

static void read_torchtitan(const struct launch_lines *lines, const struct launch_known *known,
                            struct launch_found *found)
{
    start(found);
    found->gpus = count(lines, "--nnodes", 1) * count(lines, "--nproc-per-node", 1);
    found->tp = count(lines, "--parallelism.tensor_parallel_degree", 1);
    found->has_tp_sp = found->tp > 1 && !has(lines, "--parallelism.no_enable_sequence_parallel");
    found->sp = count(lines, "--parallelism.context_parallel_degree", 1);
    found->pp = count(lines, "--parallelism.pipeline_parallel_degree", 1);
    int64_t shards = count(lines, "--parallelism.data_parallel_shard_degree", 1);
    int64_t replicas = count(lines, "--parallelism.data_parallel_replicate_degree", 1);
    found->dp = shards * replicas;
    if (found->sp > 1) {
        bool is_ring = is(lines, "--parallelism.context_parallel_rotate_method", "alltoall");
        found->method = is_ring ? METHOD_ZIGZAG : METHOD_ALLGATHER;
    }
    found->global_batch = count(lines, "--training.global_batch_size", 0);
    found->micro_batch = count(lines, "--training.local_batch_size", 0);
    found->seq = count(lines, "--training.seq_len", 0);
    read_titan_stages(lines, known, found);
    const char *reshard = launch_lines_get(lines, "--parallelism.fsdp_reshard_after_forward");
    found->zero = reshard == NULL ? 0 : strcmp(reshard, "never") == 0 ? 2 : 3;
    assert_true(found->zero > 0 || shards == 1);
    assert_true(found->zero == 0 || replicas == 1);
    const char *mode = launch_lines_get(lines, "--activation_checkpoint.mode");
    assert_non_null(mode);
    found->recompute = strcmp(mode, "full") == 0        ? RECOMPUTE_FULL
                       : strcmp(mode, "selective") == 0 ? RECOMPUTE_SELECTIVE
                                                        : RECOMPUTE_NONE;
    found->offloads_optimizer = has(lines, "--training.enable_cpu_offload");
    found->offloads_parameters = found->offloads_optimizer;
    found->precision = is(lines, "--training.mixed_precision_param", "bfloat16") ? DTYPE_BF16 : DTYPE_FP32;
    if (known->is_moe) {
        found->ep = count(lines, "--parallelism.expert_parallel_degree", 1);
        found->etp = found->ep > 1 ? 1 : found->tp;
    }
}

static void read_trainer(const struct launch_lines *lines, struct launch_found *found)
{
    found->micro_batch = count(lines, "--per_device_train_batch_size", 0);
    found->global_batch = found->micro_batch * found->dp * count(lines, "--gradient_accumulation_steps", 1);
    found->seq = count(lines, "--max_length", 0);
    found->precision = is(lines, "--mixed_precision", "bf16") ? DTYPE_BF16 : DTYPE_FP16;
}

static void read_accelerate_fsdp(const struct launch_lines *lines, const struct launch_known *known,
                                 struct launch_found *found)
{
    start(found);
    (void)known;
    found->gpus = count(lines, "--num_processes", 1);
    found->tp = count(lines, "--parallelism_config_tp_size", 1);
    found->has_tp_sp = found->tp > 1;
    found->sp = count(lines, "--parallelism_config_cp_size", 1);
    int64_t shards = count(lines, "--parallelism_config_dp_shard_size", 1);
    found->dp = shards * count(lines, "--parallelism_config_dp_replicate_size", 1);
    if (found->sp > 1) {
        bool is_ring = is(lines, "--parallelism_config_cp_comm_strategy", "alltoall");
        found->method = is_ring ? METHOD_ZIGZAG : METHOD_ALLGATHER;
    }
    bool is_fsdp = has(lines, "--use_fsdp") && is(lines, "--fsdp_version", "2");
    found->zero = !is_fsdp ? 0 : is(lines, "--fsdp_reshard_after_forward", "true") ? 3 : 2;
    found->offloads_optimizer = is(lines, "--fsdp_offload_params", "true");
    found->offloads_parameters = found->offloads_optimizer;
    found->recompute = is(lines, "--fsdp_activation_checkpointing", "true") ? RECOMPUTE_FULL : RECOMPUTE_NONE;
    read_trainer(lines, found);
}

static void read_accelerate_ulysses(const struct launch_lines *lines, const struct launch_known *known,
                                    struct launch_found *found)
{
    start(found);
    (void)known;
    assert_true(has(lines, "--use_deepspeed"));
    found->gpus = count(lines, "--num_processes", 1);
    found->sp = count(lines, "--parallelism_config_sp_size", 1);
    found->method = found->sp > 1 ? METHOD_ULYSSES : METHOD_NONE;
    found->dp = count(lines, "--parallelism_config_dp_shard_size", 1);
    found->zero = (int)count(lines, "--zero_stage", 2);
    found->offloads_optimizer = is(lines, "--offload_optimizer_device", "cpu");
    found->offloads_parameters = is(lines, "--offload_param_device", "cpu");
    found->recompute = is(lines, "--gradient_checkpointing", "true") ? RECOMPUTE_FULL : RECOMPUTE_NONE;
    read_trainer(lines, found);
}

static void read_automodel(const struct launch_lines *lines, const struct launch_known *known,
                           struct launch_found *found)
{
    start(found);
    assert_true(is(lines, "distributed.strategy", "fsdp2"));
    found->tp = count(lines, "distributed.tp_size", 1);
    found->has_tp_sp = is(lines, "distributed.sequence_parallel", "true");
    found->sp = count(lines, "distributed.cp_size", 1);
    found->method = found->sp > 1 ? METHOD_ALLGATHER : METHOD_NONE;
    found->pp = count(lines, "distributed.pp_size", 1);
    found->dp = count(lines, "distributed.dp_size", 0);
    found->gpus = found->tp * found->sp * found->pp * found->dp;
    found->zero = is(lines, "distributed.reshard_after_forward", "false") ? 2 : 3;
    found->global_batch = count(lines, "step_scheduler.global_batch_size", 0);
    found->micro_batch = count(lines, "step_scheduler.local_batch_size", 1);
    if (found->pp > 1) {
        found->micro_batch = count(lines, "distributed.pipeline.pp_microbatch_size", 1);
        found->schedule = is(lines, "distributed.pipeline.pp_schedule", "gpipe")             ? SCHEDULE_GPIPE
                          : is(lines, "distributed.pipeline.pp_schedule", "interleaved1f1b") ? SCHEDULE_INTERLEAVED
                                                                                             : SCHEDULE_1F1B;
        int64_t each = count(lines, "distributed.pipeline.layers_per_stage", 0);
        found->vpp = known->n_layers / each / found->pp;
    }
    found->seq = count(lines, "dataset.seq_length", 0);
    found->recompute = is(lines, "distributed.activation_checkpointing", "full")        ? RECOMPUTE_FULL
                       : is(lines, "distributed.activation_checkpointing", "selective") ? RECOMPUTE_SELECTIVE
                                                                                        : RECOMPUTE_NONE;
    found->offloads_optimizer = has(lines, "distributed.offload_policy._target_");
    found->offloads_parameters = found->offloads_optimizer;
    found->precision = DTYPE_BF16;
    if (known->is_moe) {
        found->ep = count(lines, "distributed.ep_size", 1);
        found->etp = found->ep > 1 ? 1 : found->tp;
    }
}

static void read_axolotl(const struct launch_lines *lines, const struct launch_known *known, struct launch_found *found)
{
    start(found);
    found->gpus = known->gpus;
    found->sp = count(lines, "context_parallel_size", 1);
    if (found->sp > 1) {
        bool is_packed = is(lines, "sample_packing", "true");
        bool is_gather = is(lines, "ring_attn_func", "varlen_llama3");
        assert_true(is_gather || is(lines, "ring_attn_func", "batch_ring"));
        assert_int_equal(is_packed, is_gather);
        found->method = is_gather ? METHOD_ALLGATHER : METHOD_RING;
    }
    found->dp = found->gpus / found->sp;
    found->micro_batch = count(lines, "micro_batch_size", 0);
    found->global_batch = found->micro_batch * found->dp * count(lines, "gradient_accumulation_steps", 1);
    found->seq = count(lines, "sequence_len", 0);
    if (has(lines, "fsdp_config.reshard_after_forward")) {
        assert_int_equal(count(lines, "dp_shard_size", 0), found->dp);
        found->zero = is(lines, "fsdp_config.reshard_after_forward", "true") ? 3 : 2;
    } else {
        found->zero = has(lines, "deepspeed") ? 1 : 0;
    }
    found->offloads_optimizer = is(lines, "fsdp_config.offload_params", "true");
    found->offloads_parameters = found->offloads_optimizer;
    found->recompute = is(lines, "gradient_checkpointing", "true") ? RECOMPUTE_FULL : RECOMPUTE_NONE;
    found->precision = is(lines, "bf16", "true") ? DTYPE_BF16 : DTYPE_FP16;
}

/* ---- DeepSpeed -------------------------------------------------------------------------------------------------- */

static void read_config(const struct launch_lines *lines, struct launch_found *found)
{
    found->gpus = count(lines, "--num_nodes", 1) * count(lines, "--num_gpus", 1);
    found->zero = (int)count(lines, "zero_optimization.stage", 0);
    found->micro_batch = count(lines, "train_micro_batch_size_per_gpu", 0);
    found->global_batch = count(lines, "train_batch_size", 0);
    found->offloads_optimizer = is(lines, "zero_optimization.offload_optimizer.device", "cpu");
    found->offloads_parameters = is(lines, "zero_optimization.offload_param.device", "cpu");
    found->precision = is(lines, "bf16.enabled", "true")   ? DTYPE_BF16
                       : is(lines, "fp16.enabled", "true") ? DTYPE_FP16
                                                           : DTYPE_FP32;
}

static void read_deepspeed(const struct launch_lines *lines, const struct launch_known *known,
                           struct launch_found *found)
{
    start(found);
    (void)known;
    read_config(lines, found);
    found->sp = count(lines, "--ds-sequence-parallel-size", 1);
    found->method = found->sp > 1 ? METHOD_ULYSSES : METHOD_NONE;
    found->dp = found->gpus / found->sp;
    found->seq = count(lines, "--seq-length", 0);
    assert_int_equal(count(lines, "--zero-stage", -1), found->zero);
    assert_int_equal(count(lines, "--global-batch-size", 0), found->global_batch);
    int64_t steps = count(lines, "gradient_accumulation_steps", 0);
    assert_int_equal(steps * found->micro_batch * found->dp, found->global_batch); /* DeepSpeed asserts it */
    if (is(lines, "--recompute-granularity", "selective")) {
        found->recompute = RECOMPUTE_SELECTIVE;
    } else if (is(lines, "--recompute-granularity", "full")) {
        bool is_block = is(lines, "--recompute-method", "block");
        found->recompute = is_block ? RECOMPUTE_BLOCK : RECOMPUTE_FULL;
        found->recompute_layers = is_block ? count(lines, "--recompute-num-layers", 0) : 0;
    }
    found->offloads_activations = is(lines, "activation_checkpointing.cpu_checkpointing", "true") &&
                                  has(lines, "--deepspeed-activation-checkpointing");
}

static void read_alst(const struct launch_lines *lines, const struct launch_known *known, struct launch_found *found)
{
    start(found);
    read_config(lines, found);
    found->sp = count(lines, "sequence_parallel_size", 1);
    found->method = found->sp > 1 ? METHOD_ULYSSES : METHOD_NONE;
    found->dp = found->gpus / found->sp;
    (void)known;
    const char *length = strstr(lines->code, " seq_length=");
    found->seq = length == NULL ? -1 /* of the data alone */ : strtoll(length + strlen(" seq_length="), NULL, 10);
    const char *size = strstr(lines->code, " sequence_parallel_size=");
    assert_int_equal(size == NULL ? 1 : strtoll(size + strlen(" sequence_parallel_size="), NULL, 10), found->sp);
    bool is_full = strstr(lines->code, "gradient_checkpointing_enable()") != NULL;
    found->recompute = is_full ? RECOMPUTE_FULL : RECOMPUTE_NONE;
}

static void read_openrlhf(const struct launch_lines *lines, const struct launch_known *known,
                          struct launch_found *found)
{
    start(found);
    (void)known;
    found->gpus = count(lines, "--num_nodes", 1) * count(lines, "--num_gpus", 1);
    found->sp = count(lines, "--ds.ring_attn_size", 1);
    found->method = found->sp > 1 ? METHOD_ALLGATHER : METHOD_NONE;
    assert_int_equal(has(lines, "--ds.packing_samples"), found->sp > 1);
    found->dp = found->gpus / found->sp;
    found->zero = (int)count(lines, "--ds.zero_stage", 2);
    found->micro_batch = count(lines, "--train.micro_batch_size", 0);
    found->global_batch = count(lines, "--train.batch_size", 0);
    found->seq = count(lines, "--data.max_len", 0);
    found->offloads_optimizer = has(lines, "--ds.adam_offload");
    found->recompute = has(lines, "--model.gradient_checkpointing_enable") ? RECOMPUTE_FULL : RECOMPUTE_NONE;
    found->precision = is(lines, "--ds.param_dtype", "bf16") ? DTYPE_BF16 : DTYPE_FP16;
}

/* ---- MaxText ---------------------------------------------------------------------------------------------------- */

static int64_t axis(const struct launch_lines *lines, const struct launch_known *known, const char *name)
{
    return count(lines, sp_format(known->arena, "ici_%s_parallelism", name), 1) *
           count(lines, sp_format(known->arena, "dcn_%s_parallelism", name), 1);
}

static enum method_id maxtext_method(const struct launch_lines *lines)
{
    if (is(lines, "context_parallel_strategy", "ring")) {
        bool is_balanced = is(lines, "context_parallel_load_balance", "true");
        bool is_striped = is(lines, "context_parallel_reorder_strategy", "striped");
        return !is_balanced ? METHOD_RING : is_striped ? METHOD_STRIPED : METHOD_ZIGZAG;
    }
    return is(lines, "context_parallel_strategy", "ulysses") ? METHOD_ULYSSES
           : is(lines, "context_parallel_strategy", "usp")   ? METHOD_USP
                                                             : METHOD_ALLGATHER;
}

static void read_maxtext(const struct launch_lines *lines, const struct launch_known *known, struct launch_found *found)
{
    start(found);
    int64_t heads = count(lines, "ici_context_usp_ulysses_parallelism", 1);
    int64_t shards = axis(lines, known, "fsdp");
    found->tp = axis(lines, known, "tensor");
    found->sp = axis(lines, known, "context") * heads;
    found->pp = axis(lines, known, "pipeline");
    found->dp = axis(lines, known, "data") * shards;
    found->gpus = found->tp * found->sp * found->pp * found->dp;
    found->method = found->sp == 1 ? METHOD_NONE : maxtext_method(lines);
    found->sp_ulysses = heads;
    found->schedule = SCHEDULE_GPIPE;
    found->order = shards > 1 ? "tp-cp-ep-dp-pp" : "tp-cp-ep-pp-dp"; /* mesh_axes of its base.yml */
    found->seq = count(lines, "max_target_length", 0);
    const char *batch = launch_lines_get(lines, "per_device_batch_size");
    assert_non_null(batch);
    double global = strtod(batch, NULL) * (double)found->gpus * (double)count(lines, "gradient_accumulation_steps", 1);
    found->global_batch = (int64_t)(global + 0.5);
    int64_t pieces =
        found->pp > 1 ? count(lines, "num_pipeline_microbatches", 0) : count(lines, "gradient_accumulation_steps", 1);
    found->micro_batch = found->global_batch / found->dp / pieces;
    bool is_sharded = is(lines, "shard_optimizer_over_data", "true");
    found->zero = is_sharded ? 1 : found->dp == shards ? 3 : 0;
    found->zero = found->dp * found->sp == 1 ? -1 : found->zero; /* nothing to shard over */
    found->recompute = is(lines, "remat_policy", "full") ? RECOMPUTE_FULL : RECOMPUTE_NONE;
    found->offloads_optimizer = is(lines, "optimizer_memory_host_offload", "true");
    found->offloads_parameters = is(lines, "parameter_memory_host_offload", "true");
    found->precision = is(lines, "quantization", "fp8") ? DTYPE_FP8
                       : is(lines, "dtype", "float16")  ? DTYPE_FP16
                                                        : DTYPE_BF16;
}

const struct launch_reader launch_readers[] = {
    {"megatron-lm", FRAMEWORK_MEGATRON, false, read_megatron_lm},
    {"megatron-bridge", FRAMEWORK_MEGATRON, false, read_megatron_bridge},
    {"deepspeed", FRAMEWORK_DEEPSPEED, false, read_deepspeed},
    {"deepspeed", FRAMEWORK_ALST, false, read_alst},
    {"torchtitan", FRAMEWORK_TORCH, false, read_torchtitan},
    {"openrlhf", FRAMEWORK_RING_FLASH_ATTN, false, read_openrlhf},
    {"accelerate", FRAMEWORK_TORCH, false, read_accelerate_fsdp},
    {"accelerate", FRAMEWORK_ALST, false, read_accelerate_ulysses},
    {"axolotl", FRAMEWORK_RING_FLASH_ATTN, true, read_axolotl},
    {"verl", FRAMEWORK_MEGATRON, false, read_verl_core},
    {"verl", FRAMEWORK_TORCH, false, read_verl_fsdp},
    {"nemo-automodel", FRAMEWORK_TORCH, true, read_automodel},
    {"maxtext", FRAMEWORK_IDEAL, false, read_maxtext},
    {NULL, FRAMEWORK_IDEAL, false, NULL},
};
