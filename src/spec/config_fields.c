/* What the fields of a config.json are to us: read, harmless, left out with a warning, or another kind of model. */
#include "spec/spec_internal.h"

#include <string.h>

/* Each is read by some family; those that a family does not read follow the lists below. */
const char *const model_config_names[] = {
    "architectures",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "head_dim",
    "vocab_size",
    "num_key_value_heads",
    "tie_word_embeddings",
    "max_position_embeddings",
    "attention_bias",
    "mlp_bias",
    "sliding_window",
    "use_sliding_window",
    "max_window_layers",
    "layer_types",
    /* GPT-2's own */
    "n_embd",
    "n_head",
    "n_layer",
    "n_positions",
    "n_ctx",
    "n_inner",
    /* experts */
    "num_local_experts",
    "num_experts",
    "n_routed_experts",
    "num_experts_per_tok",
    "moe_intermediate_size",
    "n_shared_experts",
    "shared_expert_intermediate_size",
    "decoder_sparse_step",
    "mlp_only_layers",
    "first_k_dense_replace",
    "moe_layer_freq",
    /* multi-head latent attention */
    "q_lora_rank",
    "kv_lora_rank",
    "qk_nope_head_dim",
    "qk_rope_head_dim",
    "v_head_dim",
    NULL,
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
    "layer_norm_epsilon",
    "norm_eps",
    "initializer_range",
    "hidden_act",
    "activation_function",
    "scale_attn_weights",
    "scale_attn_by_inverse_layer_idx",
    "rope_theta",
    "rope_scaling",
    "rope_parameters",
    "rope_type",
    "rope_interleaved",
    "partial_rotary_factor",
    "original_max_position_embeddings",
    "attention_scaling",
    "pretraining_tp",
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
    /* routing that costs next to nothing, and its training loss */
    "norm_topk_prob",
    "output_router_logits",
    "router_aux_loss_coef",
    "router_jitter_noise",
    "aux_loss_alpha",
    "seq_aux",
    "n_group",
    "topk_group",
    "topk_method",
    "scoring_func",
    "routed_scaling_factor",
    "swiglu_limit",
    "experts_per_token", /* beside num_experts_per_tok, which counts */
    "ep_size",
    "initial_context_length",
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
    /* a head for other tasks */
    "summary_type",
    "summary_use_proj",
    "summary_activation",
    "summary_proj_to_labels",
    "summary_first_dropout",
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
    {"reorder_and_upcast_attn", "attention is priced in --precision"},
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
    {"shared_intermediate_size", experts},
    {"kv_lora_rank", latent},
    {"q_lora_rank", latent},
    {"qk_nope_head_dim", latent},
    {"qk_rope_head_dim", latent},
    {"v_head_dim", latent},
    {"text_config", nested},
    {"vision_config", nested},
    {"language_config", nested},
    {"linear_attn_config", hybrid},
    {"full_attention_interval", hybrid},
    {"hybrid_override_pattern", hybrid},
    {"layers_block_type", hybrid},
    {"block_configs", hybrid},
    {"sliding_window_pattern", hybrid},
    {"compress_ratios", "compressed sparse attention"},
    {"hc_mult", "hyper-connections"},
    {"index_topk", "sparse attention"},
    {"attention_chunk_size", "chunked attention"},
    {"is_encoder_decoder", encoder},
    {"add_cross_attention", encoder},
    {"cross_attention_hidden_size", encoder},
};

static const struct config_field *find_field(const char *name, const struct config_field *fields, size_t n_fields)
{
    for (size_t i = 0; i < n_fields; i++) {
        if (strcmp(name, fields[i].name) == 0) {
            return &fields[i];
        }
    }
    return NULL;
}

bool config_field_is_known(const char *name)
{
    return sp_index_of(name, model_config_names) >= 0 || sp_index_of(name, harmless_names) >= 0 ||
           find_field(name, unmodelled_fields, SP_COUNT_OF(unmodelled_fields)) != NULL ||
           find_field(name, unbuilt_fields, SP_COUNT_OF(unbuilt_fields)) != NULL;
}

enum config_use config_field_use(const struct model_family *family, const char *name, const struct config_field **field)
{
    *field = NULL;
    if (model_family_reads(family, name)) {
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
