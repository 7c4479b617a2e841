#include "spec/spec_internal.h"

#include <string.h>

static const struct expert_fields mixtral_experts = {
    .count = "num_local_experts", .per_token = "num_experts_per_tok", .width = "intermediate_size"};
static const struct expert_fields qwen_experts = {.count = "num_experts",
                                                  .per_token = "num_experts_per_tok",
                                                  .width = "moe_intermediate_size",
                                                  .period = "decoder_sparse_step",
                                                  .counts_period_from_1 = true,
                                                  .dense_layers = "mlp_only_layers"};
static const struct expert_fields qwen2_experts = {.count = "num_experts",
                                                   .per_token = "num_experts_per_tok",
                                                   .width = "moe_intermediate_size",
                                                   .shared_width = "shared_expert_intermediate_size",
                                                   .has_shared_gate = true,
                                                   .period = "decoder_sparse_step",
                                                   .counts_period_from_1 = true,
                                                   .dense_layers = "mlp_only_layers"};
static const struct expert_fields gpt_oss_experts = {.count = "num_local_experts",
                                                     .per_token = "num_experts_per_tok",
                                                     .width = "intermediate_size",
                                                     .has_router_bias = true,
                                                     .has_expert_bias = true};
/* The bias that balances DeepSeek's experts is moved by a rule, not by a gradient: a buffer, not counted. */
static const struct expert_fields deepseek_experts = {.count = "n_routed_experts",
                                                      .per_token = "num_experts_per_tok",
                                                      .width = "moe_intermediate_size",
                                                      .shared_count = "n_shared_experts",
                                                      .first = "first_k_dense_replace",
                                                      .period = "moe_layer_freq"};

static const int64_t usual_window = 4096; /* of Mistral and Qwen2 */
static const int64_t gpt_oss_window = 128;

/* The family with field names of its own. */
static const char gpt2[] = "GPT2LMHeadModel";

/* Defaults from configuration_{llama,mistral,mixtral,phi3,qwen2,qwen2_moe,qwen3,qwen3_moe,gpt_oss,gpt2}.py of Hugging
 * Face transformers 4.57 and from DeepSeek's own configuration_deepseek.py. */
static const struct model_family families[] = {
    {.architecture = "LlamaForCausalLM",
     .reads_attention_bias = true,
     .reads_mlp_bias = true,
     .defaults_kv_heads = true},
    {.architecture = "MistralForCausalLM", .window = WINDOW_OF_ALL_LAYERS, .default_window = &usual_window},
    {.architecture = "Phi3ForCausalLM", .window = WINDOW_OF_ALL_LAYERS, .defaults_kv_heads = true},
    {.architecture = "Qwen2ForCausalLM",
     .has_qkv_bias = true,
     .window = WINDOW_BY_FLAG,
     .default_window = &usual_window},
    {.architecture = "Qwen3ForCausalLM",
     .reads_attention_bias = true,
     .has_qk_norm = true,
     .window = WINDOW_BY_FLAG,
     .default_window = &usual_window},
    {.architecture = "MixtralForCausalLM", .window = WINDOW_OF_ALL_LAYERS, .experts = &mixtral_experts},
    {.architecture = "Qwen2MoeForCausalLM",
     .has_qkv_bias = true,
     .window = WINDOW_BY_FLAG,
     .default_window = &usual_window,
     .experts = &qwen2_experts},
    {.architecture = "Qwen3MoeForCausalLM",
     .reads_attention_bias = true,
     .has_qk_norm = true,
     .window = WINDOW_BY_FLAG,
     .default_window = &usual_window,
     .experts = &qwen_experts},
    {.architecture = "GptOssForCausalLM",
     .reads_attention_bias = true,
     .defaults_attention_bias = true,
     .has_sinks = true,
     .window = WINDOW_ALTERNATES,
     .default_window = &gpt_oss_window,
     .experts = &gpt_oss_experts},
    {.architecture = "DeepseekV2ForCausalLM",
     .reads_attention_bias = true,
     .has_latent_attention = true,
     .experts = &deepseek_experts},
    {.architecture = "DeepseekV3ForCausalLM",
     .reads_attention_bias = true,
     .has_latent_attention = true,
     .experts = &deepseek_experts},
    {.architecture = "KimiK2ForCausalLM",
     .reads_attention_bias = true,
     .has_latent_attention = true,
     .experts = &deepseek_experts},
    {.architecture = gpt2, .has_tied_embeddings = true, .has_qkv_bias = true},
};

const struct model_family *model_family_find(const char *architecture)
{
    for (size_t i = 0; i < SP_COUNT_OF(families); i++) {
        if (strcmp(architecture, families[i].architecture) == 0) {
            return &families[i];
        }
    }
    return NULL;
}

const char *model_family_list(struct sp_arena *arena)
{
    const char *names[SP_COUNT_OF(families)];
    for (size_t i = 0; i < SP_COUNT_OF(families); i++) {
        names[i] = families[i].architecture;
    }
    return sp_join(arena, names, SP_COUNT_OF(families), ", ");
}

static bool is_same(const char *a, const char *b)
{
    return a != NULL && strcmp(a, b) == 0;
}

static bool experts_read(const struct expert_fields *experts, const char *name)
{
    return is_same(experts->count, name) || is_same(experts->per_token, name) || is_same(experts->width, name) ||
           is_same(experts->shared_count, name) || is_same(experts->shared_width, name) ||
           is_same(experts->first, name) || is_same(experts->period, name) || is_same(experts->dense_layers, name);
}

bool model_family_reads(const struct model_family *family, const char *name)
{
    static const char *const by_all[] = {"architectures",       "hidden_size",
                                         "intermediate_size",   "num_hidden_layers",
                                         "num_attention_heads", "head_dim",
                                         "vocab_size",          "num_key_value_heads",
                                         "tie_word_embeddings", "max_position_embeddings",
                                         "attention_bias",      "mlp_bias",
                                         "layer_types",         NULL};
    /* head_dim stands in files of latent attention, where nope and rope say more. */
    static const char *const latent[] = {"q_lora_rank",      "kv_lora_rank", "qk_nope_head_dim",
                                         "qk_rope_head_dim", "v_head_dim",   NULL};
    static const char *const by_gpt2[] = {"architectures", "n_embd",      "n_layer", "n_head",
                                          "n_positions",   "n_ctx",       "n_inner", "tie_word_embeddings",
                                          "vocab_size",    "layer_types", NULL};
    if (family != NULL && family->architecture == gpt2) {
        return sp_index_of(name, by_gpt2) >= 0;
    }
    if (sp_index_of(name, by_all) >= 0) {
        return true;
    }
    if (family == NULL) {
        return false;
    }
    bool is_flag = is_same("use_sliding_window", name) || is_same("max_window_layers", name);
    return (family->experts != NULL && experts_read(family->experts, name)) ||
           (family->has_latent_attention && sp_index_of(name, latent) >= 0) ||
           (family->window != WINDOW_NONE && is_same("sliding_window", name)) ||
           (family->window == WINDOW_BY_FLAG && is_flag);
}
