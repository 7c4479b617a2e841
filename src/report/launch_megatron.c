/* Megatron-LM's arguments, and the same as Megatron-Bridge's overrides. */
#include "report/launch.h"

#include <string.h>

static const char arguments_py[] = "NVIDIA/Megatron-LM@d98e8a6 megatron/training/arguments.py";
static const char transformer_config[] = "NVIDIA/Megatron-LM@d98e8a6 megatron/core/transformer/transformer_config.py";
static const char layout_guide[] = "NVIDIA/Megatron-LM docs: Custom Pipeline Model Parallel Layout";
static const char engine_attention[] =
    "NVIDIA/TransformerEngine@d0067d0 attention/dot_product_attention/context_parallel.py";
static const char fsdp_guide[] = "NVIDIA/Megatron-LM docs: Megatron-FSDP";
static const char torchrun[] = "PyTorch: torch.distributed.run";
static const char bridge_guide[] = "NVIDIA-NeMo/Megatron-Bridge docs/megatron-lm-to-megatron-bridge.md";
static const char bridge_hierarchical[] = "NVIDIA-NeMo/Megatron-Bridge docs/training/hierarchical-context-parallel.md";

/* ---- values ----------------------------------------------------------------------------------------------------- */

static const char *exchange(const struct launch_case *it)
{
    static const char *const names[N_METHODS] = {
        [METHOD_ZIGZAG] = "p2p", [METHOD_ALLGATHER] = "all_gather", [METHOD_ULYSSES] = "a2a", [METHOD_USP] = "a2a+p2p"};
    return it->question->layout.sp == 1 ? NULL : names[it->question->layout.method];
}

static const char *says_exchange(const struct launch_case *it)
{
    switch (it->question->layout.method) {
    case METHOD_ALLGATHER:
        return "all_gather, not the allgather of the help text: TransformerEngine raises a ValueError on that";
    case METHOD_ZIGZAG:
        return "a ring over head-tail chunks; every received key and value stays until the layer returns "
               "(TransformerEngine 1208); NCCL errors here go with NVTE_BATCH_MHA_P2P_COMM=1 (Megatron-LM 1151)";
    case METHOD_ULYSSES:
        return "heads are divided: query and key-value heads of a tp rank must divide by it";
    case METHOD_USP:
        return "heads inside, a ring outside: useless without the sizes of both, which come next";
    case METHOD_NONE:
    case METHOD_NAIVE:
    case METHOD_RING:
    case METHOD_STRIPED:
    case METHOD_DOUBLE_RING:
    case METHOD_FUSED_RING:
    case N_METHODS:
        break;
    }
    return NULL;
}

static const char *sizes_in_brackets(const struct launch_case *it)
{
    const struct layout_spec *layout = &it->question->layout;
    return sp_format(it->arena, "[%lld,%lld]", (long long)layout->sp_ulysses,
                     (long long)(layout->sp / layout->sp_ulysses));
}

/* "Ettt|ttt|tttL" with runs as "t*3": stages in the order in which a micro-batch meets them, chunk by chunk. */
static const char *stage_letters(const struct launch_case *it)
{
    const struct layout_spec *layout = &it->question->layout;
    const char *text = "E";
    for (int64_t chunk = 0; chunk < layout->vpp; chunk++) {
        for (int64_t stage = 0; stage < layout->pp; stage++) {
            int64_t layers = layout_stage_layers(layout, &it->question->model, stage) / layout->vpp;
            bool is_first = chunk == 0 && stage == 0;
            text = sp_format(it->arena, "%s%st*%lld", text, is_first ? "" : "|", (long long)layers);
        }
    }
    return sp_format(it->arena, "%sL", text);
}

static const char *virtual_stages(const struct launch_case *it)
{
    return launch_has_vpp(it) && !launch_is_uneven(it) ? launch_vpp(it) : NULL;
}

static const char *backend(const struct launch_case *it)
{
    return strcmp(it->question->layout.attention, "cudnn") == 0 ? "fused" : "flash";
}

static const char *train_samples(const struct launch_case *it)
{
    const struct run_spec *run = &it->question->run;
    return run->run_tokens == 0 ? NULL : launch_count(it, run->run_tokens / run->seq);
}

static const char *positions(const struct launch_case *it)
{
    int64_t most = it->question->model.max_position;
    return launch_count(it, most > it->question->run.seq ? most : it->question->run.seq);
}

/* ---- conditions ------------------------------------------------------------------------------------------------- */

/* Megatron asserts it for GPUs before Blackwell; a sharded model needs queues of its own instead. */
static bool needs_one_queue(const struct launch_case *it)
{
    bool is_blackwell = strcmp(it->question->hardware.gpu.architecture, "blackwell") == 0;
    return (launch_has_tp(it) || launch_has_sp(it)) && !launch_shards_gradients(it) && !is_blackwell;
}

static bool shards_optimizer(const struct launch_case *it)
{
    return it->question->layout.zero >= 1;
}

static bool overlaps(const struct launch_case *it)
{
    return it->question->layout.zero == 1 && it->question->layout.dp * it->question->layout.sp > 1;
}

static bool has_uneven_chunks(const struct launch_case *it)
{
    const struct layout_spec *layout = &it->question->layout;
    for (int64_t stage = 0; stage < layout->pp; stage++) {
        if (layout_stage_layers(layout, &it->question->model, stage) % layout->vpp != 0) {
            return true;
        }
    }
    return false;
}

static bool is_recomputed_whole(const struct launch_case *it)
{
    return launch_is_full(it) || launch_is_block(it);
}

static bool has_short_gradients(const struct launch_case *it)
{
    return it->question->run.gradient_dtype == DTYPE_BF16 && launch_is_bf16_or_fp8(it);
}

static bool has_fused_loss(const struct launch_case *it)
{
    return it->question->run.loss == LOSS_FUSED;
}

static bool needs_precise_optimizer(const struct launch_case *it)
{
    return launch_offloads_optimizer(it) || it->question->run.moment_dtype != DTYPE_FP32;
}

static bool has_short_moments(const struct launch_case *it)
{
    return it->question->run.moment_dtype == DTYPE_BF16;
}

/* ---- rules ------------------------------------------------------------------------------------------------------ */

static const char *refuse_offload_without_sharding(const struct launch_case *it)
{
    return needs_precise_optimizer(it) && launch_is_zero_0(it)
               ? "an offloaded optimizer, or one with short moments, is the precision-aware one, which takes the "
                 "distributed optimizer (nearest: --zero 1)"
               : NULL;
}

static const char *refuse_uneven_chunks(const struct launch_case *it)
{
    return launch_is_uneven(it) && launch_has_vpp(it) && has_uneven_chunks(it)
               ? sp_format(it->arena,
                           "layers %s of the stages do not divide into %s chunks each, and the layout string names "
                           "every chunk (nearest: --vpp 1)",
                           launch_stage_layers_text(it), launch_vpp(it))
               : NULL;
}

static const char *refuse_chunked_loss(const struct launch_case *it)
{
    return it->question->run.loss == LOSS_CHUNKED ? "no loss in chunks of tokens (nearest: --set run.loss=fused)"
                                                  : NULL;
}

static const char *refuse_replicated_vocabulary(const struct launch_case *it)
{
    return launch_has_tp(it) && !it->question->run.is_vocab_parallel
               ? "the vocabulary is always split over tp (nearest: --set run.vocab_parallel=true)"
               : NULL;
}

static const struct launch_limit limits[] = {
    {refuse_offload_without_sharding, arguments_py},
    {refuse_uneven_chunks, layout_guide},
    {refuse_chunked_loss, arguments_py},
    {refuse_replicated_vocabulary, arguments_py},
    {NULL, NULL},
};

/* ---- the model's sizes ------------------------------------------------------------------------------------------ */

#define MODEL_COUNT(name, member)                                                                                      \
    static const char *name(const struct launch_case *it)                                                              \
    {                                                                                                                  \
        int64_t count = it->question->model.member;                                                                    \
        return count == 0 ? NULL : launch_count(it, count);                                                            \
    }
MODEL_COUNT(n_layers, n_layers)
MODEL_COUNT(hidden, hidden)
MODEL_COUNT(ffn, ffn)
MODEL_COUNT(n_heads, n_heads)
MODEL_COUNT(head_dim, head_dim)
MODEL_COUNT(vocab, vocab)
MODEL_COUNT(n_experts, n_experts)
MODEL_COUNT(experts_per_token, experts_per_token)
MODEL_COUNT(expert_ffn, expert_ffn)
MODEL_COUNT(shared_expert_ffn, shared_expert_ffn)
MODEL_COUNT(q_lora_rank, q_lora_rank)
MODEL_COUNT(kv_lora_rank, kv_lora_rank)
MODEL_COUNT(rope_head_dim, rope_head_dim)
MODEL_COUNT(value_head_dim, value_head_dim)

static const char *plain_head_dim(const struct launch_case *it)
{
    return launch_count(it, it->question->model.head_dim - it->question->model.rope_head_dim);
}

static const char *n_groups(const struct launch_case *it)
{
    return launch_count(it, it->question->model.n_kv_heads);
}

#define MODEL_IS(name, value)                                                                                          \
    static bool name(const struct launch_case *it)                                                                     \
    {                                                                                                                  \
        const struct model_spec *model = &it->question->model;                                                         \
        return (value);                                                                                                \
    }
MODEL_IS(is_not_mla, model->kv_lora_rank == 0)
MODEL_IS(has_groups, model->kv_lora_rank == 0 && model->n_kv_heads < model->n_heads)
MODEL_IS(has_gate, !model->has_plain_mlp)
MODEL_IS(has_rms_norm, !model->has_norm_bias)
MODEL_IS(has_no_bias, !model->has_mlp_bias && !model->has_o_bias)
MODEL_IS(has_qkv_bias, model->has_qkv_bias && !(model->has_mlp_bias || model->has_o_bias))
MODEL_IS(has_own_head, !model->has_tied_embeddings)
MODEL_IS(has_qk_norm, model->has_qk_norm)
MODEL_IS(has_sinks, model->has_sinks)

static const char *position_kind(const struct launch_case *it)
{
    return it->question->model.position_rows > 0 ? "learned_absolute" : "rope";
}

/* "([0]*3+[1]*58)" by a property of each layer; NULL where all layers have it, or none has. */
static const char *layer_pattern(const struct launch_case *it, bool (*has)(const struct layer_kind *kind))
{
    const struct model_spec *model = &it->question->model;
    const char *text = "";
    int64_t n_with = 0;
    int64_t run = 0;
    for (int64_t i = 0; i < model->n_layers; i++) {
        bool is_with = has(&model->kinds[model->kind_of_layer[i]]);
        bool is_end = i + 1 == model->n_layers || has(&model->kinds[model->kind_of_layer[i + 1]]) != is_with;
        n_with += is_with ? 1 : 0;
        run++;
        if (is_end) {
            text = sp_format(it->arena, "%s%s[%d]*%lld", text, text[0] == '\0' ? "" : "+", is_with ? 1 : 0,
                             (long long)run);
            run = 0;
        }
    }
    return n_with == 0 || n_with == model->n_layers ? NULL : sp_format(it->arena, "(%s)", text);
}

static bool kind_is_moe(const struct layer_kind *kind)
{
    return kind->is_moe;
}

static bool kind_has_window(const struct layer_kind *kind)
{
    return kind->window > 0;
}

static const char *moe_layers(const struct launch_case *it)
{
    return layer_pattern(it, kind_is_moe);
}

/* The window of the model's windowed layers, or of --mask, without the token itself. */
static const char *window(const struct launch_case *it)
{
    const struct model_spec *model = &it->question->model;
    int64_t keys = it->question->run.mask == MASK_WINDOW ? it->question->run.window : 0;
    for (int i = 0; i < model->n_kinds && it->question->run.mask == MASK_MODEL; i++) {
        keys = model->kinds[i].window > keys ? model->kinds[i].window : keys;
    }
    return keys == 0 ? NULL : sp_format(it->arena, "%lld,0", (long long)keys - 1);
}

static const char *windowed_layers(const struct launch_case *it)
{
    return it->question->run.mask == MASK_MODEL ? layer_pattern(it, kind_has_window) : NULL;
}

/* ---- Megatron-LM ------------------------------------------------------------------------------------------------ */

static const struct launch_row lm_rows[] = {
    {.key = "CUDA_DEVICE_MAX_CONNECTIONS",
     .fixed = "1",
     .when = needs_one_queue,
     .remark =
         "asserted before Blackwell where tp or sp is above 1: one hardware queue keeps kernels in the order that "
         "lets transfers run beside them",
     .source = arguments_py,
     .place = LAUNCH_ENVIRONMENT},
    {.key = "--nnodes", .value = launch_nodes, .source = torchrun, .place = LAUNCH_RUNNER},
    {.key = "--nproc-per-node",
     .value = launch_node_gpus,
     .remark = "add --node-rank, --master-addr and --master-port where there are several nodes",
     .source = torchrun,
     .place = LAUNCH_RUNNER},

    {.key = "--num-layers", .value = n_layers, .source = arguments_py},
    {.key = "--hidden-size", .value = hidden, .source = arguments_py},
    {.key = "--ffn-hidden-size", .value = ffn, .source = arguments_py},
    {.key = "--num-attention-heads", .value = n_heads, .source = arguments_py},
    {.key = "--group-query-attention", .when = has_groups, .source = arguments_py},
    {.key = "--num-query-groups", .value = n_groups, .when = has_groups, .source = arguments_py},
    {.key = "--kv-channels", .value = head_dim, .when = is_not_mla, .source = arguments_py},
    {.key = "--multi-latent-attention", .when = launch_is_mla, .source = transformer_config},
    {.key = "--q-lora-rank", .value = q_lora_rank, .when = launch_is_mla, .source = transformer_config},
    {.key = "--kv-lora-rank", .value = kv_lora_rank, .when = launch_is_mla, .source = transformer_config},
    {.key = "--qk-head-dim", .value = plain_head_dim, .when = launch_is_mla, .source = transformer_config},
    {.key = "--qk-pos-emb-head-dim", .value = rope_head_dim, .when = launch_is_mla, .source = transformer_config},
    {.key = "--v-head-dim", .value = value_head_dim, .when = launch_is_mla, .source = transformer_config},
    {.key = "--swiglu", .when = has_gate, .source = arguments_py},
    {.key = "--normalization", .fixed = "RMSNorm", .when = has_rms_norm, .source = arguments_py},
    {.key = "--disable-bias-linear", .when = has_no_bias, .source = arguments_py},
    {.key = "--add-qkv-bias", .when = has_qkv_bias, .source = arguments_py},
    {.key = "--qk-layernorm", .when = has_qk_norm, .source = arguments_py},
    {.key = "--untie-embeddings-and-output-weights", .when = has_own_head, .source = arguments_py},
    {.key = "--position-embedding-type",
     .value = position_kind,
     .remark =
         "rotary base and scaling, norm epsilon, details of activation and router, and the tokenizer: from config.json",
     .source = arguments_py},
    {.key = "--vocab-size", .value = vocab, .source = arguments_py},
    {.key = "--num-experts", .value = n_experts, .source = arguments_py},
    {.key = "--moe-router-topk", .value = experts_per_token, .when = launch_is_moe, .source = arguments_py},
    {.key = "--moe-ffn-hidden-size", .value = expert_ffn, .when = launch_is_moe, .source = arguments_py},
    {.key = "--moe-shared-expert-intermediate-size", .value = shared_expert_ffn, .source = arguments_py},
    {.key = "--moe-layer-freq", .value = moe_layers, .source = arguments_py},
    {.key = "--moe-grouped-gemm", .when = launch_is_moe, .source = arguments_py},
    {.key = "--moe-token-dispatcher-type", .fixed = "alltoall", .when = launch_is_moe, .source = arguments_py},
    {.key = "--window-size",
     .value = window,
     .remark = "keys before the token itself: one less than the sliding_window of config.json",
     .source = transformer_config},
    {.key = "--window-attn-skip-freq", .value = windowed_layers, .source = transformer_config},
    {.key = "--softmax-type", .fixed = "learnable", .when = has_sinks, .source = transformer_config},

    {.key = "--seq-length", .value = launch_seq, .source = arguments_py},
    {.key = "--max-position-embeddings",
     .value = positions,
     .remark = "asserted to be at least --seq-length",
     .source = arguments_py},
    {.key = "--micro-batch-size", .value = launch_micro_batch, .source = arguments_py},
    {.key = "--global-batch-size", .value = launch_global_batch, .source = arguments_py},
    {.key = "--train-samples", .value = train_samples, .source = arguments_py},
    {.key = "--no-create-attention-mask-in-dataloader",
     .remark = "else the data loader builds a mask of seq x seq, which hangs or runs out of memory from 128K on "
               "(Megatron-LM 1025)",
     .source = arguments_py},

    {.key = "--tensor-model-parallel-size", .value = launch_tp, .source = arguments_py},
    {.key = "--sequence-parallel", .when = launch_has_tp_sp, .source = arguments_py},
    {.key = "--context-parallel-size", .value = launch_sp, .source = arguments_py},
    {.key = "--cp-comm-type", .value = exchange, .says = says_exchange, .source = engine_attention},
    {.key = "--hierarchical-context-parallel-sizes",
     .value = launch_ulysses_ring,
     .when = launch_is_usp,
     .remark = "all-to-all first, over neighbours, then the ring; mandatory with a2a+p2p",
     .source = arguments_py},
    {.key = "--pipeline-model-parallel-size", .value = launch_pp, .source = arguments_py},
    {.key = "--num-virtual-stages-per-pipeline-rank",
     .value = virtual_stages,
     .remark = "interleaved 1F1B; hangs in send and receive go with --no-overlap-p2p-communication (Megatron-LM 5240)",
     .source = arguments_py},
    {.key = "--pipeline-model-parallel-layout",
     .value = stage_letters,
     .when = launch_is_uneven,
     .remark =
         "E embedding, t layer, L loss, | between stages; excludes the two flags of virtual stages, which it says "
         "itself",
     .source = layout_guide},
    {.key = "--account-for-embedding-in-pipeline-split", .when = launch_is_padded, .source = arguments_py},
    {.key = "--account-for-loss-in-pipeline-split", .when = launch_is_padded, .source = arguments_py},
    {.says = launch_says_dp, .source = arguments_py},
    {.key = "--expert-model-parallel-size", .value = launch_ep, .when = launch_is_moe, .source = arguments_py},
    {.key = "--expert-tensor-parallel-size",
     .value = launch_etp,
     .when = launch_is_moe,
     .remark = "left out, it is the tensor-parallel size",
     .source = arguments_py},
    {.key = "--use-tp-pp-dp-mapping",
     .when = launch_has_pp_before_dp,
     .remark = "ranks as tp-cp-ep-pp-dp",
     .source = arguments_py},

    {.key = "--use-distributed-optimizer", .when = shards_optimizer, .source = arguments_py},
    {.key = "--overlap-grad-reduce",
     .when = overlaps,
     .remark = "these two are not priced: the estimate leaves gradients and parameters exposed",
     .source = arguments_py},
    {.key = "--overlap-param-gather", .when = overlaps, .source = arguments_py},
    {.key = "--use-megatron-fsdp",
     .when = launch_shards_gradients,
     .remark = "CUDA_DEVICE_MAX_CONNECTIONS should not be 1 here: its gathers need queues of their own, against tp and "
               "sp, which "
               "need the one",
     .source = fsdp_guide},
    {.key = "--data-parallel-sharding-strategy",
     .fixed = "optim_grads",
     .when = launch_is_zero_2,
     .source = fsdp_guide},
    {.key = "--data-parallel-sharding-strategy",
     .fixed = "optim_grads_params",
     .when = launch_is_zero_3,
     .source = fsdp_guide},
    {.key = "--no-gradient-accumulation-fusion", .when = launch_shards_gradients, .source = fsdp_guide},
    {.key = "--ckpt-format", .fixed = "fsdp_dtensor", .when = launch_shards_gradients, .source = fsdp_guide},

    {.key = "--recompute-granularity",
     .fixed = "selective",
     .when = launch_is_selective,
     .remark = "attention and its exchange run again in the backward pass: with flash attention little memory for it "
               "(Megatron-Bridge 3880)",
     .source = arguments_py},
    {.key = "--recompute-granularity", .fixed = "full", .when = is_recomputed_whole, .source = arguments_py},
    {.key = "--recompute-method", .fixed = "uniform", .when = launch_is_full, .source = arguments_py},
    {.key = "--recompute-num-layers", .fixed = "1", .when = launch_is_full, .source = arguments_py},
    {.key = "--recompute-method", .fixed = "block", .when = launch_is_block, .source = arguments_py},
    {.key = "--recompute-num-layers",
     .value = launch_recompute_layers,
     .when = launch_is_block,
     .remark = "of a stage; of each chunk where stages are virtual",
     .source = arguments_py},
    {.key = "--fine-grained-activation-offloading", .when = launch_offloads_activations, .source = transformer_config},
    {.key = "--offload-modules",
     .fixed = "attn_norm qkv_linear core_attn attn_proj mlp_norm",
     .when = launch_offloads_activations,
     .remark = "attn_proj needs core_attn; for experts add expert_fc1 and moe_act",
     .source = transformer_config},
    {.key = "--use-precision-aware-optimizer", .when = needs_precise_optimizer, .source = arguments_py},
    {.key = "--exp-avg-dtype", .fixed = "bf16", .when = has_short_moments, .source = arguments_py},
    {.key = "--exp-avg-sq-dtype", .fixed = "bf16", .when = has_short_moments, .source = arguments_py},
    {.key = "--optimizer-cpu-offload",
     .when = launch_offloads_optimizer,
     .remark = "asserts --use-precision-aware-optimizer",
     .source = arguments_py},
    {.key = "--optimizer-offload-fraction", .fixed = "1.0", .when = launch_offloads_optimizer, .source = arguments_py},

    {.key = "--bf16", .when = launch_is_bf16_or_fp8, .source = arguments_py},
    {.key = "--fp16", .when = launch_is_fp16, .source = arguments_py},
    {.key = "--fp8-format", .fixed = "hybrid", .when = launch_is_fp8, .source = arguments_py},
    {.key = "--grad-reduce-in-bf16", .when = has_short_gradients, .source = arguments_py},
    {.key = "--transformer-impl",
     .fixed = "transformer_engine",
     .remark = "context parallelism exists in TransformerEngine alone",
     .source = arguments_py},
    {.key = "--attention-backend", .value = backend, .source = arguments_py},
    {.key = "--cross-entropy-loss-fusion", .when = has_fused_loss, .source = arguments_py},
    {.key = "--cross-entropy-fusion-impl", .fixed = "te", .when = has_fused_loss, .source = arguments_py},
    {.key = NULL},
};

static const char *const megatron_orders[] = {"tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp", NULL};

enum {
    MEGATRON_METHODS =
        1U << METHOD_NONE | 1U << METHOD_ALLGATHER | 1U << METHOD_ULYSSES | 1U << METHOD_ZIGZAG | 1U << METHOD_USP,
    MEGATRON_SCHEDULES = 1U << SCHEDULE_1F1B | 1U << SCHEDULE_INTERLEAVED,
    MEGATRON_RECOMPUTES =
        1U << RECOMPUTE_NONE | 1U << RECOMPUTE_SELECTIVE | 1U << RECOMPUTE_FULL | 1U << RECOMPUTE_BLOCK,
};

static const char *const lm_settings[] = {
    "model.", "mask.window", "run.gradient_dtype", "run.moment_dtype", "run.loss", "run.vocab", NULL};

static const struct launch_engine lm_engine = {
    .framework = FRAMEWORK_MEGATRON,
    .methods = MEGATRON_METHODS,
    .zeros = 1U << 0 | 1U << 1 | 1U << 2 | 1U << 3,
    .schedules = MEGATRON_SCHEDULES,
    .precisions = 1U << DTYPE_BF16 | 1U << DTYPE_FP8 | 1U << DTYPE_FP16 | 1U << DTYPE_FP32,
    .recomputes = MEGATRON_RECOMPUTES,
    .offloads = LAUNCH_ACTIVATIONS | LAUNCH_OPTIMIZER,
    .axes = LAUNCH_TP | LAUNCH_PP | LAUNCH_EP,
    .orders = megatron_orders,
    .settings = lm_settings,
    .limits = limits,
    .rows = lm_rows,
};

const struct launcher launch_megatron_lm = {
    .name = "megatron-lm",
    .title = "Megatron-LM",
    .syntax = LAUNCH_FLAGS,
    .command = "torchrun%R pretrain_gpt.py%A",
    .n_engines = 1,
    .engines = {&lm_engine},
};

/* ---- Megatron-Bridge -------------------------------------------------------------------------------------------- */

static const struct launch_row bridge_rows[] = {
    {.key = "CUDA_DEVICE_MAX_CONNECTIONS",
     .fixed = "1",
     .when = needs_one_queue,
     .remark = "before Blackwell, where tp or sp is above 1: one hardware queue keeps kernels in the order that lets "
               "transfers run beside them",
     .source = arguments_py,
     .place = LAUNCH_ENVIRONMENT},
    {.key = "--nnodes", .value = launch_nodes, .source = torchrun, .place = LAUNCH_RUNNER},
    {.key = "--nproc-per-node", .value = launch_node_gpus, .source = torchrun, .place = LAUNCH_RUNNER},

    {.key = "model.seq_length",
     .value = launch_seq,
     .remark = "the recipe brings the model's sizes; the data set's length must be the same",
     .source = bridge_guide},
    {.key = "dataset.sequence_length", .value = launch_seq, .source = bridge_guide},
    {.key = "train.micro_batch_size", .value = launch_micro_batch, .source = bridge_guide},
    {.key = "train.global_batch_size", .value = launch_global_batch, .source = bridge_guide},
    {.key = "train.train_samples", .value = train_samples, .source = bridge_guide},
    {.key = "model.tensor_model_parallel_size", .value = launch_tp, .source = bridge_guide},
    {.key = "model.sequence_parallel", .fixed = "true", .when = launch_has_tp_sp, .source = bridge_guide},
    {.key = "model.sequence_parallel", .fixed = "false", .when = launch_lacks_tp_sp, .source = bridge_guide},
    {.key = "model.context_parallel_size", .value = launch_sp, .source = bridge_guide},
    {.key = "model.cp_comm_type", .value = exchange, .says = says_exchange, .source = bridge_hierarchical},
    {.key = "model.hierarchical_context_parallel_sizes",
     .value = sizes_in_brackets,
     .when = launch_is_usp,
     .remark = "all-to-all first; without it the exchange is left out in silence: a higher loss and rates above the "
               "GPU's peak (Megatron-Bridge 2665)",
     .source = bridge_hierarchical},
    {.key = "dist.use_decentralized_pg",
     .fixed = "false",
     .when = launch_is_usp,
     .remark = "decentralised process groups do not build the two levels",
     .source = bridge_hierarchical},
    {.key = "model.pipeline_model_parallel_size", .value = launch_pp, .source = bridge_guide},
    {.key = "model.virtual_pipeline_model_parallel_size",
     .value = virtual_stages,
     .remark = "interleaved 1F1B",
     .source = bridge_guide},
    {.key = "model.pipeline_model_parallel_layout",
     .value = stage_letters,
     .when = launch_is_uneven,
     .remark = "E embedding, t layer, L loss, | between stages",
     .source = layout_guide},
    {.key = "model.account_for_embedding_in_pipeline_split",
     .fixed = "true",
     .when = launch_is_padded,
     .source = bridge_guide},
    {.key = "model.account_for_loss_in_pipeline_split",
     .fixed = "true",
     .when = launch_is_padded,
     .source = bridge_guide},
    {.says = launch_says_dp, .source = arguments_py},
    {.key = "model.expert_model_parallel_size", .value = launch_ep, .when = launch_is_moe, .source = bridge_guide},
    {.key = "model.expert_tensor_parallel_size",
     .value = launch_etp,
     .when = launch_is_moe,
     .remark = "left out, it is the tensor-parallel size",
     .source = bridge_guide},
    {.key = "dist.use_tp_pp_dp_mapping", .fixed = "true", .when = launch_has_pp_before_dp, .source = bridge_guide},

    {.key = "ddp.use_distributed_optimizer", .fixed = "true", .when = shards_optimizer, .source = bridge_guide},
    {.key = "ddp.use_distributed_optimizer", .fixed = "false", .when = launch_is_zero_0, .source = bridge_guide},
    {.key = "optimizer.use_distributed_optimizer", .fixed = "true", .when = shards_optimizer, .source = bridge_guide},
    {.key = "optimizer.use_distributed_optimizer", .fixed = "false", .when = launch_is_zero_0, .source = bridge_guide},
    {.key = "ddp.overlap_grad_reduce",
     .fixed = "true",
     .when = overlaps,
     .remark = "these two are not priced: the estimate leaves gradients and parameters exposed",
     .source = bridge_guide},
    {.key = "ddp.overlap_param_gather", .fixed = "true", .when = overlaps, .source = bridge_guide},
    {.key = "ddp.use_megatron_fsdp", .fixed = "true", .when = launch_shards_gradients, .source = fsdp_guide},
    {.key = "ddp.data_parallel_sharding_strategy",
     .fixed = "optim_grads",
     .when = launch_is_zero_2,
     .source = fsdp_guide},
    {.key = "ddp.data_parallel_sharding_strategy",
     .fixed = "optim_grads_params",
     .when = launch_is_zero_3,
     .source = fsdp_guide},
    {.key = "model.gradient_accumulation_fusion",
     .fixed = "false",
     .when = launch_shards_gradients,
     .source = fsdp_guide},
    {.key = "checkpoint.ckpt_format", .fixed = "fsdp_dtensor", .when = launch_shards_gradients, .source = fsdp_guide},

    {.key = "model.recompute_granularity", .fixed = "null", .when = launch_keeps_all, .source = transformer_config},
    {.key = "model.recompute_granularity",
     .fixed = "selective",
     .when = launch_is_selective,
     .remark = "core_attn replays the exchange of context parallelism; with flash attention little memory for it "
               "(Megatron-Bridge 3880)",
     .source = transformer_config},
    {.key = "model.recompute_granularity", .fixed = "full", .when = is_recomputed_whole, .source = transformer_config},
    {.key = "model.recompute_method", .fixed = "uniform", .when = launch_is_full, .source = transformer_config},
    {.key = "model.recompute_num_layers", .fixed = "1", .when = launch_is_full, .source = transformer_config},
    {.key = "model.recompute_method", .fixed = "block", .when = launch_is_block, .source = transformer_config},
    {.key = "model.recompute_num_layers",
     .value = launch_recompute_layers,
     .when = launch_is_block,
     .source = transformer_config},
    {.key = "model.fine_grained_activation_offloading",
     .fixed = "true",
     .when = launch_offloads_activations,
     .source = transformer_config},
    {.key = "model.offload_modules",
     .fixed = "[attn_norm,qkv_linear,core_attn,attn_proj,mlp_norm]",
     .when = launch_offloads_activations,
     .source = transformer_config},
    {.key = "optimizer.use_precision_aware_optimizer",
     .fixed = "true",
     .when = needs_precise_optimizer,
     .source = bridge_guide},
    {.key = "optimizer.optimizer_cpu_offload",
     .fixed = "true",
     .when = launch_offloads_optimizer,
     .source = bridge_guide},
    {.key = "optimizer.optimizer_offload_fraction",
     .fixed = "1.0",
     .when = launch_offloads_optimizer,
     .source = bridge_guide},

    {.key = "mixed_precision", .fixed = "bf16_mixed", .when = launch_is_bf16, .source = bridge_guide},
    {.key = "mixed_precision", .fixed = "fp16_mixed", .when = launch_is_fp16, .source = bridge_guide},
    {.key = "mixed_precision",
     .fixed = "bf16_with_fp8_current_scaling_mixed",
     .when = launch_is_fp8,
     .source = bridge_guide},
    {.key = "model.attention_backend", .value = backend, .source = bridge_guide},
    {.key = "model.cross_entropy_loss_fusion", .fixed = "true", .when = has_fused_loss, .source = bridge_guide},
    {.key = "model.cross_entropy_fusion_impl", .fixed = "te", .when = has_fused_loss, .source = bridge_guide},
    {.key = "peft.dim",
     .value = launch_lora_rank,
     .when = launch_is_lora,
     .remark = "of a recipe whose peft is lora",
     .source = bridge_guide},
    {.key = NULL},
};

static const char *const bridge_settings[] = {"run.loss=", "run.vocab", NULL};

static const struct launch_engine bridge_engine = {
    .framework = FRAMEWORK_MEGATRON,
    .methods = MEGATRON_METHODS,
    .zeros = 1U << 0 | 1U << 1 | 1U << 2 | 1U << 3,
    .schedules = MEGATRON_SCHEDULES,
    .precisions = 1U << DTYPE_BF16 | 1U << DTYPE_FP8 | 1U << DTYPE_FP16,
    .recomputes = MEGATRON_RECOMPUTES,
    .offloads = LAUNCH_ACTIVATIONS | LAUNCH_OPTIMIZER,
    .axes = LAUNCH_TP | LAUNCH_PP | LAUNCH_EP | LAUNCH_LORA,
    .orders = megatron_orders,
    .settings = bridge_settings,
    .limits = limits,
    .rows = bridge_rows,
};

const struct launcher launch_megatron_bridge = {
    .name = "megatron-bridge",
    .title = "Megatron-Bridge",
    .syntax = LAUNCH_OVERRIDES,
    .command = "torchrun%R pretrain_recipe.py%A",
    .n_engines = 1,
    .engines = {&bridge_engine},
};
