#include "spec/spec_internal.h"

#include <string.h>

/* Defaults from configuration_{llama,mistral,qwen2,qwen3}.py of Hugging Face transformers 4.57. */
static const struct model_family families[] = {
    {.architecture = "LlamaForCausalLM",
     .reads_attention_bias = true,
     .reads_mlp_bias = true,
     .defaults_kv_heads = true},
    {.architecture = "MistralForCausalLM", .windows_by_default = true},
    {.architecture = "Qwen2ForCausalLM", .has_qkv_bias = true, .has_use_sliding_window_flag = true},
    {.architecture = "Qwen3ForCausalLM",
     .reads_attention_bias = true,
     .has_qk_norm = true,
     .has_use_sliding_window_flag = true},
};

const char *const config_used_names[] = {
    "architectures",       "hidden_size",
    "intermediate_size",   "num_hidden_layers",
    "num_attention_heads", "head_dim",
    "vocab_size",          "num_key_value_heads",
    "tie_word_embeddings", "max_position_embeddings",
    "attention_bias",      "mlp_bias",
    "sliding_window",      "use_sliding_window",
    "layer_types",         NULL,
};

static const char *const harmless_names[] = {
    /* what the file is */
    "model_type",
    "_name_or_path",
    "name_or_path",
    "transformers_version",
    "auto_map",
    "tokenizer_class",
    "prefix",
    "finetuning_task",
    "id2label",
    "label2id",
    "num_labels",
    "problem_type",
    "task_specific_params",
    "_commit_hash",
    /* tokens */
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
    "sep_token_id",
    "unk_token_id",
    "mask_token_id",
    "decoder_start_token_id",
    "bos_token",
    "eos_token",
    /* numbers inside kernels that stay the same; rope tables are counted by the framework */
    "torch_dtype",
    "dtype",
    "rms_norm_eps",
    "layer_norm_eps",
    "norm_eps",
    "initializer_range",
    "hidden_act",
    "rope_theta",
    "rope_scaling",
    "rope_parameters",
    "rope_type",
    "rope_interleaved",
    "partial_rotary_factor",
    "original_max_position_embeddings",
    "attention_scaling",
    "pretraining_tp",
    "max_window_layers",
    "_attn_implementation",
    "attn_implementation",
    "use_flash_attn",
    "gradient_checkpointing",
    "use_bfloat16",
    "torchscript",
    "tf_legacy_loss",
    "return_dict",
    "is_decoder",
    "tie_encoder_decoder",
    /* generation and inference */
    "use_cache",
    "max_length",
    "min_length",
    "max_new_tokens",
    "do_sample",
    "early_stopping",
    "num_beams",
    "num_beam_groups",
    "diversity_penalty",
    "temperature",
    "top_k",
    "top_p",
    "typical_p",
    "repetition_penalty",
    "length_penalty",
    "no_repeat_ngram_size",
    "encoder_no_repeat_ngram_size",
    "bad_words_ids",
    "num_return_sequences",
    "output_scores",
    "return_dict_in_generate",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "remove_invalid_values",
    "exponential_decay_length_penalty",
    "suppress_tokens",
    "begin_suppress_tokens",
    "cache_implementation",
    "classifier_dropout",
    NULL,
};

static const char dropout_cost[] = "its mask costs memory and its kernel time";
static const char layout_decides[] = "the layout given here decides it (--tp-sp, --recompute)";

static const struct config_field unmodelled_fields[] = {
    {"attention_dropout", dropout_cost},
    {"attn_pdrop", dropout_cost},
    {"attention_probs_dropout_prob", dropout_cost},
    {"hidden_dropout", dropout_cost},
    {"hidden_dropout_prob", dropout_cost},
    {"resid_pdrop", dropout_cost},
    {"residual_dropout", dropout_cost},
    {"embd_pdrop", dropout_cost},
    {"dropout", dropout_cost},
    {"quantization_config", "training is priced with weights of --precision"},
    {"dual_chunk_attention_config", "attention is priced over the whole sequence"},
    {"num_nextn_predict_layers", "multi-token prediction layers are left out"},
    {"attn_logit_softcapping", "fused attention kernels are priced without it"},
    {"final_logit_softcapping", "the loss is priced without it"},
    {"output_attentions", "attention is priced without its weights kept"},
    {"output_hidden_states", "activations are priced without these kept"},
    {"chunk_size_feed_forward", "the MLP is priced in one piece"},
    {"pruned_heads", "all heads are priced"},
    {"sequence_parallel_enabled", layout_decides},
    {"selective_checkpoint_enabled", layout_decides},
};

static const char experts[] = "mixture of experts";
static const char latent[] = "multi-head latent attention";
static const char nested[] = "dimensions nested in a part of the file";
static const char hybrid[] = "layers of several kinds";
static const char encoder[] = "encoder-decoder";

static const struct config_field unbuilt_fields[] = {
    {"num_local_experts", experts},
    {"num_experts", experts},
    {"n_routed_experts", experts},
    {"n_shared_experts", experts},
    {"num_experts_per_tok", experts},
    {"num_experts_per_token", experts},
    {"moe_intermediate_size", experts},
    {"shared_expert_intermediate_size", experts},
    {"kv_lora_rank", latent},
    {"q_lora_rank", latent},
    {"qk_rope_head_dim", latent},
    {"text_config", nested},
    {"vision_config", nested},
    {"language_config", nested},
    {"linear_attn_config", hybrid},
    {"full_attention_interval", hybrid},
    {"hybrid_override_pattern", hybrid},
    {"sliding_window_pattern", hybrid},
    {"compress_ratios", "compressed sparse attention"},
    {"index_topk", "sparse attention"},
    {"attention_chunk_size", "chunked attention"},
    {"is_encoder_decoder", encoder},
    {"add_cross_attention", encoder},
    {"cross_attention_hidden_size", encoder},
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

static const struct config_field *find_field(const char *name, const struct config_field *fields, size_t n_fields)
{
    for (size_t i = 0; i < n_fields; i++) {
        if (strcmp(name, fields[i].name) == 0) {
            return &fields[i];
        }
    }
    return NULL;
}

enum config_use config_field_use(const char *name, const struct config_field **field)
{
    *field = NULL;
    if (sp_index_of(name, config_used_names) >= 0) {
        return CONFIG_USED;
    }
    if (sp_index_of(name, harmless_names) >= 0) {
        return CONFIG_HARMLESS;
    }
    *field = find_field(name, unmodelled_fields, SP_COUNT_OF(unmodelled_fields));
    if (*field != NULL) {
        return CONFIG_UNMODELLED;
    }
    *field = find_field(name, unbuilt_fields, SP_COUNT_OF(unbuilt_fields));
    return *field != NULL ? CONFIG_UNBUILT : CONFIG_UNKNOWN;
}

bool config_value_is_neutral(const struct sp_json *value)
{
    switch (value->type) {
    case SP_JSON_NULL:
        return true;
    case SP_JSON_BOOL:
        return !value->boolean;
    case SP_JSON_NUMBER:
        return !(value->number < 0) && !(value->number > 0);
    case SP_JSON_STRING:
        return value->string[0] == '\0';
    case SP_JSON_ARRAY:
    case SP_JSON_OBJECT:
        return value->count == 0;
    }
    return false;
}
