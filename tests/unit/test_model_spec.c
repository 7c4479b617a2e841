#include "support/support.h"

#include "spec/spec_internal.h"

#include <stdlib.h>
#include <string.h>

static struct sp_arena *arena;
static struct sp_texts warnings;

static int open_arena(void **state)
{
    (void)state;
    arena = sp_arena_open();
    warnings = (struct sp_texts){.arena = arena};
    return 0;
}

static int close_arena(void **state)
{
    (void)state;
    sp_arena_close(arena);
    return 0;
}

/* 61 layers, 40 query heads of 96 on hidden 3840, 8 key-value heads: no two figures alike. */
static const char base_config[] = "\"hidden_size\": 3840, \"num_hidden_layers\": 61, \"num_attention_heads\": 40, "
                                  "\"num_key_value_heads\": 8, \"intermediate_size\": 10240, \"vocab_size\": 50021, "
                                  "\"max_position_embeddings\": 70001, \"hidden_act\": \"silu\", \"rope_theta\": 1e6";

static bool decode_text(const char *text, struct model_spec *model, struct sp_error *err)
{
    *err = (struct sp_error){0};
    const struct sp_json *json = sp_json_parse(arena, "dir/tiny.json", text, err);
    return json != NULL && model_decode(arena, "dir/tiny.json", json, model, &warnings, err);
}

/* The base configuration of an architecture with more members behind it, which may not repeat one. */
static bool decode_with(const char *architecture, const char *more, struct model_spec *model, struct sp_error *err)
{
    const char *text = sp_format(arena, "{\"architectures\": [\"%s\"], %s%s%s}", architecture, base_config,
                                 more[0] == '\0' ? "" : ", ", more);
    return decode_text(text, model, err);
}

static void expect_model(const char *architecture, const char *more, struct model_spec *model)
{
    struct sp_error err;
    if (!decode_with(architecture, more, model, &err)) {
        fail_msg("refused: %s", err.text);
    }
}

static void expect_refused(const char *architecture, const char *more, const char *text)
{
    struct model_spec model;
    struct sp_error err;
    assert_false(decode_with(architecture, more, &model, &err));
    assert_int_equal(err.kind, SP_ERROR_INPUT);
    assert_string_equal(err.text, text);
}

/* ---- families --------------------------------------------------------------------------------------------------- */

static void llama_is_read_field_by_field(void **state)
{
    (void)state;
    struct model_spec model;
    expect_model("LlamaForCausalLM", "", &model);
    assert_string_equal(model.name, "tiny");
    assert_string_equal(model.path, "dir/tiny.json");
    assert_string_equal(model.family, "LlamaForCausalLM");
    assert_int_equal(model.n_layers, 61);
    assert_int_equal(model.hidden, 3840);
    assert_int_equal(model.n_heads, 40);
    assert_int_equal(model.n_kv_heads, 8);
    assert_int_equal(model.head_dim, 96); /* 3840 / 40 */
    assert_int_equal(model.value_head_dim, 96);
    assert_int_equal(model.n_experts, 0);
    assert_int_equal(model.kv_lora_rank, 0);
    assert_int_equal(model.n_kinds, 1);
    assert_true(model.kinds[0].window == 0 && !model.kinds[0].is_moe);
    assert_int_equal(model.kind_of_layer[60], 0);
    assert_int_equal(model.ffn, 10240);
    assert_int_equal(model.vocab, 50021);
    assert_int_equal(model.max_position, 70001);
    assert_false(model.has_tied_embeddings || model.has_qkv_bias || model.has_o_bias || model.has_mlp_bias ||
                 model.has_qk_norm);
    assert_int_equal(warnings.count, 0);
}

static void families_differ_in_biases_and_norms(void **state)
{
    (void)state;
    struct model_spec model;
    expect_model("LlamaForCausalLM", "\"attention_bias\": true, \"mlp_bias\": true, \"tie_word_embeddings\": true",
                 &model);
    assert_true(model.has_qkv_bias && model.has_o_bias && model.has_mlp_bias && model.has_tied_embeddings);
    expect_model("Qwen2ForCausalLM", "\"sliding_window\": 4096, \"use_sliding_window\": false", &model);
    assert_true(model.has_qkv_bias && !model.has_o_bias && !model.has_mlp_bias && !model.has_qk_norm);
    expect_model("Qwen3ForCausalLM", "\"head_dim\": 128, \"attention_bias\": true", &model);
    assert_true(model.has_qk_norm && model.has_qkv_bias && model.has_o_bias);
    assert_int_equal(model.head_dim, 128);
    expect_model("MistralForCausalLM", "\"sliding_window\": null, \"head_dim\": null", &model);
    assert_false(model.has_qkv_bias || model.has_qk_norm);
    assert_int_equal(model.head_dim, 96);
    assert_int_equal(warnings.count, 0);
}

static void bias_that_a_family_does_not_read_is_warned(void **state)
{
    (void)state;
    struct model_spec model;
    expect_model("Qwen2ForCausalLM", "\"mlp_bias\": true", &model);
    assert_false(model.has_mlp_bias);
    assert_true(sp_texts_has(&warnings, "tiny: mlp_bias has no effect in Qwen2ForCausalLM and is ignored"));
    expect_model("MistralForCausalLM", "\"sliding_window\": null, \"attention_bias\": true", &model);
    assert_false(model.has_qkv_bias || model.has_o_bias);
    assert_true(sp_texts_has(&warnings, "tiny: attention_bias has no effect in MistralForCausalLM and is ignored"));
}

static void llama_without_kv_heads_has_one_per_query_head(void **state)
{
    (void)state;
    struct sp_error err;
    struct model_spec model;
    static const char text[] = "{\"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 3840, \"vocab_size\": 7, "
                               "\"num_hidden_layers\": 3, \"num_attention_heads\": 40, \"intermediate_size\": 9, "
                               "\"max_position_embeddings\": 11}";
    assert_true(decode_text(text, &model, &err));
    assert_int_equal(model.n_kv_heads, 40);
}

/* ---- sizes ------------------------------------------------------------------------------------------------------ */

/* Hand count for one layer: q and o 2 x 3840 x 3840 = 29,491,200; k and v 2 x 3840 x 768 = 5,898,240; MLP 3 x 3840 x
 * 10240 = 117,964,800; norms 7,680. */
static void parameters_are_counted_matrix_by_matrix(void **state)
{
    (void)state;
    struct model_spec model;
    expect_model("LlamaForCausalLM", "", &model);
    struct model_size size = model_size(&model);
    assert_close(size.attention, 29491200.0 + 5898240.0 + 3840.0, 0);
    assert_close(size.mlp, 117964800.0 + 3840.0, 0);
    assert_close(size.layer[0], 153361920.0, 0);
    assert_close(size.active_layer[0], 153361920.0, 0);
    assert_close(size.embedding, 50021.0 * 3840.0, 0);
    assert_close(size.head, 50021.0 * 3840.0, 0);
    assert_close(size.final_norm, 3840.0, 0);
    assert_close(size.total, 61 * 153361920.0 + 2 * 50021.0 * 3840.0 + 3840.0, 0);
    assert_close(size.active, 61 * 153361920.0 + 50021.0 * 3840.0 + 3840.0, 0);
    /* Biases: q 3840, k and v 2 x 768, o 3840, MLP 2 x 10240 + 3840 */
    expect_model("LlamaForCausalLM", "\"attention_bias\": true, \"mlp_bias\": true", &model);
    assert_close(model_size(&model).layer[0], 153361920.0 + 3840 + 1536 + 3840 + 24320, 0);
    /* Tied: one table less in total, the head still runs. qk norm: 2 x 96. */
    expect_model("Qwen3ForCausalLM", "\"tie_word_embeddings\": true", &model);
    size = model_size(&model);
    assert_close(size.layer[0], 153361920.0 + 192, 0);
    assert_close(size.total, size.active, 0);
}

struct shipped {
    const char *name;
    double parameters;
    double active; /* without the input table */
};

/* ---- experts ---------------------------------------------------------------------------------------------------- */

/* 24 experts of width 1280, five a token. */
static const char qwen_experts[] = "\"num_experts\": 24, \"num_experts_per_tok\": 5, \"moe_intermediate_size\": 1280";

static int64_t count_kind(const struct model_spec *model, int64_t window, bool is_moe)
{
    int64_t count = 0;
    for (int64_t layer = 0; layer < model->n_layers; layer++) {
        const struct layer_kind *kind = &model->kinds[model->kind_of_layer[layer]];
        count += kind->window == window && kind->is_moe == is_moe ? 1 : 0;
    }
    return count;
}

/* An expert is 3 x 3840 x 1280 = 14,745,600; the router 24 x 3840 = 92,160; the norm 3,840. */
static void experts_are_counted_whole_and_active(void **state)
{
    (void)state;
    struct model_spec model;
    expect_model("Qwen3MoeForCausalLM", qwen_experts, &model);
    assert_int_equal(model.n_experts, 24);
    assert_int_equal(model.experts_per_token, 5);
    assert_int_equal(model.expert_ffn, 1280);
    assert_int_equal(model.shared_expert_ffn, 0);
    assert_false(model.has_router_bias || model.has_expert_bias || model.has_shared_expert_gate);
    assert_int_equal(model.n_kinds, 1);
    assert_true(model.kinds[0].is_moe);
    struct model_size size = model_size(&model);
    double attention = 29491200.0 + 5898240.0 + 192 + 3840; /* with the norms of q and k */
    assert_close(size.attention, attention, 0);
    assert_close(size.expert, 14745600.0, 0);
    assert_close(size.moe, 24 * 14745600.0 + 92160 + 3840, 0);
    assert_close(size.moe_active, 5 * 14745600.0 + 92160 + 3840, 0);
    assert_close(size.layer[0], attention + size.moe, 0);
    assert_close(size.active_layer[0], attention + size.moe_active, 0);
    assert_close(size.layers, 61 * size.layer[0], 0);
    assert_close(size.active_layers, 61 * size.active_layer[0], 0);
    assert_close(size.total, size.layers + 2 * 50021.0 * 3840 + 3840, 0);
    assert_close(size.active, size.active_layers + 50021.0 * 3840 + 3840, 0);
    assert_int_equal(warnings.count, 0);
}

/* mixtral: experts as wide as intermediate_size. gpt-oss: biases of router and experts, sinks, q, k, v and o biases. */
static void experts_of_other_families(void **state)
{
    (void)state;
    struct model_spec model;
    expect_model("MixtralForCausalLM", "\"num_local_experts\": 6, \"num_experts_per_tok\": 2", &model);
    assert_int_equal(model.n_experts, 6);
    assert_int_equal(model.expert_ffn, 10240);
    assert_int_equal(count_kind(&model, 0, true), 61);
    expect_model("GptOssForCausalLM", "\"num_local_experts\": 6, \"num_experts_per_tok\": 2", &model);
    assert_true(model.has_sinks && model.has_router_bias && model.has_expert_bias && model.has_o_bias);
    struct model_size size = model_size(&model);
    assert_close(size.attention, 29491200.0 + 5898240.0 + 3840 + 3840 + 1536 + 3840 + 40, 0);
    assert_close(size.expert, 117964800.0 + 2 * 10240 + 3840, 0);
    assert_close(size.moe, 6 * size.expert + 6 * 3840 + 6 + 3840, 0);
    expect_model("Qwen2MoeForCausalLM", sp_format(arena, "%s, \"shared_expert_intermediate_size\": 5632", qwen_experts),
                 &model);
    assert_int_equal(model.shared_expert_ffn, 5632);
    assert_true(model.has_shared_expert_gate && model.has_qkv_bias);
    size = model_size(&model);
    assert_close(size.moe_active, 5 * 14745600.0 + 92160 + 3.0 * 3840 * 5632 + 3840 + 3840, 0);
    /* No experts at all: the dense layer that is left. */
    expect_model("Qwen3MoeForCausalLM", "\"num_experts\": 0", &model);
    assert_int_equal(count_kind(&model, 0, false), 61);
    assert_close(model_size(&model).moe, 0, 0);
    assert_int_equal(warnings.count, 0);
}

/* Every third layer counted from 1 (20 of 61) has experts, but layers 5 and 8 (and 70, which there is not): 18. */
static void layers_without_experts(void **state)
{
    (void)state;
    struct model_spec model;
    const char *more =
        sp_format(arena, "%s, \"decoder_sparse_step\": 3, \"mlp_only_layers\": [5, 8, 6, 70]", qwen_experts);
    expect_model("Qwen3MoeForCausalLM", more, &model);
    assert_int_equal(model.n_kinds, 2);
    assert_false(model.kinds[0].is_moe); /* kinds in the order of the layers */
    assert_true(model.kinds[1].is_moe);
    assert_int_equal(model.kind_of_layer[1], 0);
    assert_int_equal(model.kind_of_layer[2], 1);
    assert_int_equal(model.kind_of_layer[5], 0);
    assert_int_equal(model.kind_of_layer[11], 1);
    assert_int_equal(count_kind(&model, 0, true), 18);
    struct model_size size = model_size(&model);
    assert_close(size.layers, 43 * size.layer[0] + 18 * size.layer[1], 1e-15);
    assert_close(size.layer[0], size.attention + size.mlp, 0);
    assert_close(size.layer[1], size.attention + size.moe, 0);
}

/* ---- latent attention ------------------------------------------------------------------------------------------- */

/* 40 heads of 80 + 48 keys and 72 values, latents of 1000 and 300; 48 experts of 640 and two shared ones. */
#define LATENT(q_rank)                                                                                                 \
    "\"q_lora_rank\": " q_rank ", \"kv_lora_rank\": 300, \"qk_nope_head_dim\": 80, \"qk_rope_head_dim\": 48, "         \
    "\"v_head_dim\": 72, \"n_routed_experts\": 48, \"num_experts_per_tok\": 7, \"moe_intermediate_size\": 640, "       \
    "\"n_shared_experts\": 2, \"first_k_dense_replace\": 4"

/* q: 3840 x 1000 + 1000 + 1000 x 40 x 128; kv: 3840 x 348 + 300 + 300 x 40 x (80 + 72); o: 40 x 72 x 3840. */
static void latent_attention_is_counted_down_and_up(void **state)
{
    (void)state;
    struct model_spec model;
    expect_model("DeepseekV3ForCausalLM", LATENT("1000"), &model);
    assert_int_equal(model.q_lora_rank, 1000);
    assert_int_equal(model.kv_lora_rank, 300);
    assert_int_equal(model.rope_head_dim, 48);
    assert_int_equal(model.head_dim, 128);
    assert_int_equal(model.value_head_dim, 72);
    assert_int_equal(model.n_kv_heads, 40); /* the file's 8 say nothing */
    assert_int_equal(model.shared_expert_ffn, 1280);
    assert_int_equal(count_kind(&model, 0, false), 4);
    assert_int_equal(count_kind(&model, 0, true), 57);
    double keys_values = 3840.0 * 348 + 300 + 300.0 * 40 * 152;
    double output = 40.0 * 72 * 3840;
    double attention = 3840.0 * 1000 + 1000 + 1000.0 * 40 * 128 + keys_values + output + 3840;
    struct model_size size = model_size(&model);
    assert_close(size.attention, attention, 0);
    double around = 48 * 3840.0 + 3.0 * 3840 * 1280 + 3840;
    assert_close(size.moe_active, 7 * 3.0 * 3840 * 640 + around, 0);
    assert_close(size.layers, 4 * (attention + size.mlp) + 57 * (attention + size.moe), 1e-15);
    /* Without a latent of queries; biases lie on the way down: 348, and 3840 of the output. */
    expect_model("DeepseekV2ForCausalLM", LATENT("null") ", \"attention_bias\": true, \"moe_layer_freq\": 2", &model);
    assert_int_equal(model.q_lora_rank, 0);
    size = model_size(&model);
    assert_close(size.attention, 3840.0 * 40 * 128 + keys_values + output + 348 + 3840 + 3840, 0);
    assert_int_equal(count_kind(&model, 0, true), 29); /* layers 4, 6, .., 60 */
    assert_int_equal(warnings.count, 1);               /* once for both files */
    assert_string_equal(warnings.items[0], "tiny: num_key_value_heads (8) has no effect under latent attention: every "
                                           "head has its own");
}

/* ---- GPT-2 ------------------------------------------------------------------------------------------------------ */

/* The architecture under its own names, with more members behind. */
static const char *gpt2_text(const char *more)
{
    return sp_format(arena,
                     "{\"architectures\": [\"GPT2LMHeadModel\"], \"n_embd\": 3840, \"n_layer\": 61, \"n_head\": 40, "
                     "\"vocab_size\": 50021, \"activation_function\": \"gelu_new\", \"layer_norm_epsilon\": 1e-5%s%s}",
                     more[0] == '\0' ? "" : ", ", more);
}

static void expect_gpt2(const char *more, struct model_spec *model)
{
    struct sp_error err;
    if (!decode_text(gpt2_text(more), model, &err)) {
        fail_msg("refused: %s", err.text);
    }
}

static void expect_gpt2_refused(const char *more, const char *text)
{
    struct model_spec model;
    struct sp_error err;
    assert_false(decode_text(gpt2_text(more), &model, &err));
    assert_int_equal(err.kind, SP_ERROR_INPUT);
    assert_string_equal(err.text, text);
}

static void gpt2_is_read_by_its_own_names(void **state)
{
    (void)state;
    struct model_spec model;
    expect_gpt2("\"n_positions\": 2053", &model);
    assert_string_equal(model.family, "GPT2LMHeadModel");
    assert_int_equal(model.n_layers, 61);
    assert_int_equal(model.hidden, 3840);
    assert_true(model.n_heads == 40 && model.n_kv_heads == 40);
    assert_true(model.head_dim == 96 && model.value_head_dim == 96);
    assert_int_equal(model.ffn, 15360); /* 4 x 3840 */
    assert_int_equal(model.vocab, 50021);
    assert_true(model.position_rows == 2053 && model.max_position == 2053);
    assert_true(model.has_tied_embeddings && model.has_qkv_bias && model.has_o_bias && model.has_mlp_bias);
    assert_true(model.has_plain_mlp && model.has_norm_bias);
    assert_true(model.n_kinds == 1 && model.kinds[0].window == 0 && !model.kinds[0].is_moe);
    expect_gpt2("\"n_ctx\": 1031, \"n_inner\": null, \"tie_word_embeddings\": null", &model);
    assert_true(model.position_rows == 1031 && model.ffn == 15360 && model.has_tied_embeddings);
    expect_gpt2("\"n_positions\": 9, \"n_ctx\": 9, \"n_inner\": 10007, \"tie_word_embeddings\": false", &model);
    assert_true(model.position_rows == 9 && model.ffn == 10007 && !model.has_tied_embeddings);
    assert_int_equal(warnings.count, 0);
    expect_model("LlamaForCausalLM", "", &model); /* and nobody else has what is new with it */
    assert_false(model.has_plain_mlp || model.has_norm_bias);
    assert_int_equal(model.position_rows, 0);
}

/* Attention 4 x 3840 x 3840 = 58,982,400, biases 4 x 3840, norm 2 x 3840; MLP 2 x 3840 x 15360 = 117,964,800, biases
 * 15360 + 3840, norm 2 x 3840. */
static void gpt2_is_counted_with_biases_and_positions(void **state)
{
    (void)state;
    struct model_spec model;
    expect_gpt2("\"n_positions\": 2053", &model);
    struct model_size size = model_size(&model);
    assert_close(size.attention, 58982400.0 + 15360 + 7680, 0);
    assert_close(size.mlp, 117964800.0 + 19200 + 7680, 0);
    assert_close(size.layer[0], 176997120.0, 0);
    assert_close(size.final_norm, 7680, 0);
    assert_close(size.embedding, (50021.0 + 2053) * 3840, 0);
    assert_close(size.head, 50021.0 * 3840, 0);
    assert_close(size.total, 61 * 176997120.0 + (50021.0 + 2053) * 3840 + 7680, 0);
    assert_close(size.active, 61 * 176997120.0 + 50021.0 * 3840 + 7680, 0);
    expect_gpt2("\"n_positions\": 2053, \"tie_word_embeddings\": false", &model);
    assert_close(model_size(&model).total, size.total + 50021.0 * 3840, 0);
    assert_close(model_size(&model).active, size.active, 0);
    /* Other widths of the MLP: 2 x 3840 x 7 + 7 + 3840 + 7680. */
    expect_gpt2("\"n_positions\": 2053, \"n_inner\": 7", &model);
    assert_close(model_size(&model).mlp, 65287, 0);
}

/* Dropout of the file is named, fields that are off or of another task's head are not. */
static void gpt2_fields_that_do_not_count(void **state)
{
    (void)state;
    struct model_spec model;
    expect_gpt2("\"n_positions\": 2053, \"embd_pdrop\": 0.1, \"attn_pdrop\": 0.2, \"resid_pdrop\": 0, "
                "\"summary_first_dropout\": 0.1, \"scale_attn_weights\": true, \"add_cross_attention\": false",
                &model);
    assert_int_equal(warnings.count, 2);
    assert_string_equal(warnings.items[0], "tiny: embd_pdrop (0.1) is not modelled: its mask costs memory and its "
                                           "kernel time");
    assert_string_equal(warnings.items[1], "tiny: attn_pdrop (0.2) is not modelled: its mask costs memory and its "
                                           "kernel time");
    expect_gpt2("\"n_positions\": 2053, \"n_ctx\": \"all\", \"hidden_size\": 64, \"mlp_bias\": false", &model);
    assert_int_equal(warnings.count, 4);
    assert_string_equal(warnings.items[2], "tiny: n_ctx (\"all\") has no effect beside n_positions (2053)");
    assert_string_equal(warnings.items[3], "tiny: unknown to seqplan and left out, check that they change neither "
                                           "memory nor time: hidden_size");
    expect_model("LlamaForCausalLM", "\"n_inner\": 64, \"n_ctx\": null", &model);
    assert_string_equal(warnings.items[4], "tiny: unknown to seqplan and left out, check that they change neither "
                                           "memory nor time: n_inner");
}

static void impossible_gpt2_is_refused(void **state)
{
    (void)state;
    expect_gpt2_refused("", "dir/tiny.json: $.n_positions: expected a value, found none (the model's size needs it)");
    expect_gpt2_refused("\"n_ctx\": 0", "dir/tiny.json: $.n_ctx: expected a whole number from 1 to 67108864, found 0");
    expect_gpt2_refused("\"n_positions\": 9, \"n_inner\": -1",
                        "dir/tiny.json: $.n_inner: expected a whole number from 1 to 16777216, found -1");
    expect_gpt2_refused("\"n_positions\": 9, \"tie_word_embeddings\": 1",
                        "dir/tiny.json: $.tie_word_embeddings: expected true or false, found 1");
    expect_gpt2_refused("\"n_positions\": 9, \"add_cross_attention\": true",
                        sp_format(arena,
                                  "dir/tiny.json: GPT2LMHeadModel (encoder-decoder) is not built yet; decoders of "
                                  "these architectures are: %s",
                                  model_family_list(arena)));
    struct model_spec model;
    struct sp_error err;
    assert_false(decode_text("{\"architectures\": [\"GPT2LMHeadModel\"], \"n_embd\": 3840, \"n_layer\": 3, "
                             "\"n_head\": 7, \"vocab_size\": 11, \"n_positions\": 13}",
                             &model, &err));
    assert_string_equal(err.text, "dir/tiny.json: $.n_head: expected a divisor of n_embd 3840, found 7");
    assert_false(decode_text("{\"architectures\": [\"GPT2LMHeadModel\"], \"n_embd\": 3840}", &model, &err));
    assert_string_equal(err.text, "dir/tiny.json: $.n_layer: expected a value, found none (the model's size needs it)");
}

/* GPT-2 large as published, 774M: 36 layers of 19,677,440, tables of 50,257 and 1,024 rows of 1,280, a norm. */
static void gpt2_large_has_its_published_size(void **state)
{
    (void)state;
    static const char text[] =
        "{\"activation_function\": \"gelu_new\", \"architectures\": [\"GPT2LMHeadModel\"], \"attn_pdrop\": 0.1, "
        "\"bos_token_id\": 50256, \"embd_pdrop\": 0.1, \"eos_token_id\": 50256, \"initializer_range\": 0.02, "
        "\"layer_norm_epsilon\": 1e-05, \"model_type\": \"gpt2\", \"n_ctx\": 1024, \"n_embd\": 1280, "
        "\"n_head\": 20, \"n_layer\": 36, \"n_positions\": 1024, \"resid_pdrop\": 0.1, "
        "\"summary_activation\": null, \"summary_first_dropout\": 0.1, \"summary_proj_to_labels\": true, "
        "\"summary_type\": \"cls_index\", \"summary_use_proj\": true, \"vocab_size\": 50257}";
    struct model_spec model;
    struct sp_error err;
    assert_true(decode_text(text, &model, &err));
    assert_close(model_size(&model).total, 774e6, 0.001);
    assert_close(model_size(&model).total, 36 * 19677440.0 + (50257 + 1024) * 1280.0 + 2560, 0);
    assert_int_equal(warnings.count, 3); /* dropout of embedding, attention and residual */
}

/* Published totals; active = total less the positions, 2048 x hidden: the table of words is the head too. */
static void gpt3_class_models_have_their_published_size(void **state)
{
    (void)state;
    static const struct shipped published[] = {{"gpt-22b", 22.0e9, 22.0e9 - 2048.0 * 6144},
                                               {"gpt-175b", 174.6e9, 174.6e9 - 2048.0 * 12288},
                                               {"gpt-530b", 529.6e9, 529.6e9 - 2048.0 * 20480},
                                               {"gpt-1t", 1008e9, 1008e9 - 2048.0 * 25600}};
    for (size_t i = 0; i < SP_COUNT_OF(published); i++) {
        struct model_spec model;
        struct sp_error err = {0};
        const char *path = sp_format(arena, "tests/validation/models/%s.json", published[i].name);
        if (!model_read(arena, path, &model, &warnings, &err)) {
            fail_msg("%s", err.text);
        }
        assert_true(model.has_tied_embeddings);
        assert_close(model_size(&model).total, published[i].parameters, 0.005);
        assert_close(model_size(&model).active, published[i].active, 0.005);
    }
    assert_int_equal(warnings.count, 0);
}

/* Published totals; active = total less vocabulary x hidden, from the files' own widths. */
static void shipped_models_have_their_published_size(void **state)
{
    (void)state;
    static const struct shipped shipped[] = {
        {"llama-2-7b", 6.74e9, 6.74e9 - 32000.0 * 4096},
        {"llama-3.1-8b", 8.03e9, 8.03e9 - 128256.0 * 4096},
        {"llama-3.1-70b", 70.6e9, 70.6e9 - 128256.0 * 8192},
        {"llama-3.1-405b", 405.9e9, 405.9e9 - 128256.0 * 16384},
        {"qwen3-8b", 8.19e9, 8.19e9 - 151936.0 * 4096},
        {"qwen3-32b", 32.8e9, 32.8e9 - 151936.0 * 5120},
        {"qwen2.5-7b-1m", 7.62e9, 7.62e9 - 152064.0 * 3584},
        {"qwen3-235b-a22b", 235.1e9, 21.6e9},
        {"mixtral-8x7b", 46.70e9, 12.75e9},
    };
    for (size_t i = 0; i < SP_COUNT_OF(shipped); i++) {
        struct model_spec model;
        struct sp_error err = {0};
        if (!model_read(arena, shipped[i].name, &model, &warnings, &err)) {
            fail_msg("%s", err.text);
        }
        assert_string_equal(model.name, shipped[i].name);
        assert_close(model_size(&model).total, shipped[i].parameters, 0.002);
        assert_close(model_size(&model).active, shipped[i].active, 0.002);
    }
    assert_int_equal(warnings.count, 0); /* these files hold nothing that is unknown or left out */
}

/* Files of quantised weights: said, and nothing else is. */
static void shipped_quantised_models_have_their_published_size(void **state)
{
    (void)state;
    static const struct shipped shipped[] = {
        {"deepseek-v3", 671.0e9, 36.6e9}, {"kimi-k2", 1026e9, 31.7e9}, {"gpt-oss-20b", 20.91e9, 3.61e9}};
    for (size_t i = 0; i < SP_COUNT_OF(shipped); i++) {
        struct model_spec model;
        struct sp_error err = {0};
        if (!model_read(arena, shipped[i].name, &model, &warnings, &err)) {
            fail_msg("%s", err.text);
        }
        assert_close(model_size(&model).total, shipped[i].parameters, 0.001);
        assert_close(model_size(&model).active, shipped[i].active, 0.002);
        assert_true(sp_texts_has(&warnings, sp_format(arena,
                                                      "%s: quantization_config (an object) is not modelled: training "
                                                      "is priced with weights of --precision",
                                                      shipped[i].name)));
    }
    assert_int_equal(warnings.count, 4); /* and deepseek-v3's multi-token prediction */
}

/* 3 x causal attention and 6 x what is active, layer by layer, at 4096 tokens: windows and latent attention count. */
static void shipped_models_do_their_published_work(void **state)
{
    (void)state;
    static const struct shipped shipped[] = {{"qwen3-235b-a22b", 1.483e11, 0}, {"mixtral-8x7b", 7.971e10, 0},
                                             {"deepseek-v3", 2.505e11, 0},     {"kimi-k2", 2.055e11, 0},
                                             {"gpt-oss-20b", 2.293e10, 0},     {"llama-3.1-8b", 4.825e10, 0}};
    const double seq = 4096;
    for (size_t i = 0; i < SP_COUNT_OF(shipped); i++) {
        struct model_spec model;
        struct sp_error err = {0};
        assert_true(model_read(arena, shipped[i].name, &model, &warnings, &err));
        double flop = 6 * model_size(&model).active;
        for (int64_t layer = 0; layer < model.n_layers; layer++) {
            double window = (double)model.kinds[model.kind_of_layer[layer]].window;
            double pairs = window > 0 ? window * seq - window * (window - 1) / 2 : seq * (seq + 1) / 2;
            flop += 3 * 2 * (double)(model.n_heads * (model.head_dim + model.value_head_dim)) * pairs / seq;
        }
        assert_close(flop, shipped[i].parameters, 0.001);
    }
}

/* ---- windows and layer types ------------------------------------------------------------------------------------ */

static void mistral_has_one_window(void **state)
{
    (void)state;
    struct model_spec model;
    expect_model("MistralForCausalLM", "\"sliding_window\": 3000", &model);
    assert_int_equal(model.n_kinds, 1);
    assert_int_equal(count_kind(&model, 3000, false), 61);
    expect_model("MistralForCausalLM", "", &model); /* left out: the family's own */
    assert_int_equal(count_kind(&model, 4096, false), 61);
    expect_model("MixtralForCausalLM", "\"num_local_experts\": 6, \"num_experts_per_tok\": 2", &model);
    assert_int_equal(count_kind(&model, 0, true), 61);
    expect_refused("MistralForCausalLM", "\"sliding_window\": 0",
                   "dir/tiny.json: $.sliding_window: expected a whole number from 1 to 1099511627776, found 0");
}

/* use_sliding_window: layers from max_window_layers on, 28 when left out; without the flag none. */
static void qwen_has_a_window_by_flag(void **state)
{
    (void)state;
    struct model_spec model;
    expect_model("Qwen2ForCausalLM", "\"sliding_window\": 5000, \"use_sliding_window\": true", &model);
    assert_int_equal(model.n_kinds, 2);
    assert_int_equal(model.kinds[0].window, 0);
    assert_int_equal(model.kind_of_layer[27], 0);
    assert_int_equal(model.kind_of_layer[28], 1);
    assert_int_equal(count_kind(&model, 5000, false), 33);
    expect_model("Qwen3ForCausalLM", "\"use_sliding_window\": true, \"max_window_layers\": 50", &model);
    assert_int_equal(count_kind(&model, 4096, false), 11);
    expect_model("Qwen3ForCausalLM",
                 "\"sliding_window\": null, \"use_sliding_window\": true, \"max_window_layers\": 50", &model);
    assert_int_equal(count_kind(&model, 0, false), 61);
    expect_refused("Qwen3ForCausalLM", "\"sliding_window\": 32768, \"use_sliding_window\": 1",
                   "dir/tiny.json: $.use_sliding_window: expected true or false, found 1");
    expect_refused(
        "Qwen3ForCausalLM", "\"use_sliding_window\": true, \"max_window_layers\": \"all\"",
        "dir/tiny.json: $.max_window_layers: expected a whole number from 0 to 1099511627776, found \"all\"");
}

/* gpt-oss without layer_types: layers 0, 2, .. see 128. */
static void gpt_oss_alternates(void **state)
{
    (void)state;
    struct model_spec model;
    expect_model("GptOssForCausalLM", "\"num_local_experts\": 6, \"num_experts_per_tok\": 2", &model);
    assert_int_equal(model.n_kinds, 2);
    assert_int_equal(model.kinds[0].window, 128);
    assert_int_equal(count_kind(&model, 128, true), 31);
    assert_int_equal(count_kind(&model, 0, true), 30);
}

/* Both at once: every other layer with experts, windows from layer 50 on. */
static void four_kinds_of_layers(void **state)
{
    (void)state;
    struct model_spec model;
    const char *more = sp_format(arena,
                                 "%s, \"decoder_sparse_step\": 2, \"use_sliding_window\": true, "
                                 "\"max_window_layers\": 50, \"sliding_window\": 777",
                                 qwen_experts);
    expect_model("Qwen3MoeForCausalLM", more, &model);
    assert_int_equal(model.n_kinds, 4);
    assert_int_equal(count_kind(&model, 0, false), 25);
    assert_int_equal(count_kind(&model, 0, true), 25);
    assert_int_equal(count_kind(&model, 777, false), 6);
    assert_int_equal(count_kind(&model, 777, true), 5);
    struct model_size size = model_size(&model);
    assert_close(size.layers, 31 * (size.attention + size.mlp) + 30 * (size.attention + size.moe), 1e-15);
}

static void window_that_a_family_does_not_read_is_named(void **state)
{
    (void)state;
    struct model_spec model;
    expect_model("LlamaForCausalLM", "\"sliding_window\": 4096", &model);
    assert_true(sp_texts_has(&warnings, "tiny: unknown to seqplan and left out, check that they change neither memory "
                                        "nor time: sliding_window"));
}

static const char *layer_types(int n_layers, int sliding_every)
{
    const char *text = "";
    for (int layer = 0; layer < n_layers; layer++) {
        bool is_sliding = sliding_every > 0 && layer % sliding_every == 0;
        text = sp_format(arena, "%s%s\"%s_attention\"", text, layer == 0 ? "" : ", ", is_sliding ? "sliding" : "full");
    }
    return sp_format(arena, "\"layer_types\": [%s]", text);
}

/* The list decides, whatever the family's own pattern is. */
static void layer_types_say_which_layers_have_the_window(void **state)
{
    (void)state;
    struct model_spec model;
    expect_model("Qwen3ForCausalLM", layer_types(61, 0), &model);
    assert_int_equal(model.n_kinds, 1);
    const char *more =
        sp_format(arena, "%s, \"sliding_window\": 999, \"use_sliding_window\": true", layer_types(61, 4));
    expect_model("Qwen3ForCausalLM", more, &model);
    assert_int_equal(count_kind(&model, 999, false), 16); /* 0, 4, .., 60 */
    assert_int_equal(count_kind(&model, 0, false), 45);
    more = sp_format(arena, "%s, \"sliding_window\": 999, \"use_sliding_window\": false", layer_types(61, 4));
    expect_model("Qwen3ForCausalLM", more, &model);
    assert_int_equal(model.n_kinds, 1);
    assert_int_equal(warnings.count, 0);
    expect_model("Qwen3ForCausalLM", layer_types(64, 0), &model);
    assert_true(sp_texts_has(&warnings, "tiny: layer_types names 64 layers, of which the first 61 count"));
    expect_refused("Qwen3ForCausalLM", layer_types(60, 0),
                   "dir/tiny.json: $.layer_types: expected a type for each of 61 layers, found 60");
    expect_refused("Qwen3ForCausalLM", "\"layer_types\": [\"full_attention\", \"linear_attention\"]",
                   "dir/tiny.json: $.layer_types[1]: expected \"full_attention\" or \"sliding_attention\", found "
                   "\"linear_attention\" (other kinds of layers are not built yet)");
    expect_refused("Qwen3ForCausalLM", "\"layer_types\": 7",
                   "dir/tiny.json: $.layer_types: expected an array, found 7");
}

/* ---- fields that are not modelled ------------------------------------------------------------------------------- */

static void unmodelled_fields_are_warned_by_name(void **state)
{
    (void)state;
    struct model_spec model;
    expect_model("LlamaForCausalLM",
                 "\"attention_dropout\": 0.1, \"resid_pdrop\": 0.0, \"quantization_config\": {\"a\": 1}, "
                 "\"chunk_size_feed_forward\": 0, \"pruned_heads\": {}, \"output_attentions\": true, "
                 "\"dropout\": null, \"hidden_dropout\": \"\", \"num_experts\": 0",
                 &model);
    assert_int_equal(warnings.count, 3);
    assert_string_equal(warnings.items[2],
                        "tiny: output_attentions (true) is not modelled: attention is priced without "
                        "its weights kept");
    assert_string_equal(warnings.items[0],
                        "tiny: attention_dropout (0.1) is not modelled: its mask costs memory and its "
                        "kernel time");
    assert_string_equal(warnings.items[1], "tiny: quantization_config (an object) is not modelled: training is priced "
                                           "with weights of --precision");
}

static void unknown_fields_share_one_warning(void **state)
{
    (void)state;
    struct model_spec model;
    expect_model("LlamaForCausalLM", "\"wobble\": null, \"use_cache\": true, \"quux_rank\": 16, \"bos_token_id\": 3",
                 &model);
    assert_int_equal(warnings.count, 1);
    assert_string_equal(warnings.items[0],
                        "tiny: unknown to seqplan and left out, check that they change neither memory "
                        "nor time: wobble, quux_rank");
}

static void other_kinds_of_models_are_refused_by_name(void **state)
{
    (void)state;
    const char *built = sp_format(arena, "decoders of these architectures are: %s", model_family_list(arena));
    assert_non_null(strstr(built, "LlamaForCausalLM, MistralForCausalLM, "));
    expect_refused(
        "MiniMaxM2ForCausalLM", "\"num_local_experts\": 8, \"num_experts_per_tok\": 2",
        sp_format(arena, "dir/tiny.json: MiniMaxM2ForCausalLM (mixture of experts) is not built yet; %s", built));
    expect_refused("DeepseekV4ForCausalLM", "\"n_routed_experts\": 256, \"compress_ratios\": [0, 4]",
                   sp_format(arena,
                             "dir/tiny.json: DeepseekV4ForCausalLM (mixture of experts, compressed sparse attention) "
                             "is not built yet; %s",
                             built));
    /* A dense architecture with experts in it is no dense model, nor is one with a latent. */
    expect_refused(
        "LlamaForCausalLM", "\"num_local_experts\": 8",
        sp_format(arena, "dir/tiny.json: LlamaForCausalLM (mixture of experts) is not built yet; %s", built));
    expect_refused("MixtralForCausalLM", "\"num_local_experts\": 8, \"kv_lora_rank\": 512",
                   sp_format(arena,
                             "dir/tiny.json: MixtralForCausalLM (multi-head latent attention) is not built yet; %s",
                             built));
    expect_refused("GemmaForCausalLM", "",
                   sp_format(arena, "dir/tiny.json: GemmaForCausalLM is not built yet; %s", built));
    struct model_spec model;
    struct sp_error err;
    assert_false(decode_text("{\"text_config\": {\"hidden_size\": 8}}", &model, &err));
    assert_string_equal(err.text, sp_format(arena,
                                            "dir/tiny.json: a model without architectures (dimensions nested in a part "
                                            "of the file) is not built yet; %s",
                                            built));
}

/* ---- names of models -------------------------------------------------------------------------------------------- */

static void name_of_a_config_json_is_its_folder(void **state)
{
    (void)state;
    const char *text = sp_format(arena, "{\"architectures\": [\"LlamaForCausalLM\"], %s}", base_config);
    static const struct {
        const char *path;
        const char *name;
    } cases[] = {{"/data/llama-13b/config.json", "llama-13b"},
                 {"llama-13b/config.json", "llama-13b"},
                 {"config.json", "config"},
                 {"./config.json", "config"},
                 {"../config.json", "config"},
                 {"/config.json", "config"},
                 {"x/tiny.json", "tiny"},
                 {"x/tiny", "tiny"},
                 {".json", ".json"}};
    for (size_t i = 0; i < SP_COUNT_OF(cases); i++) {
        struct model_spec model;
        struct sp_error err = {0};
        const struct sp_json *json = sp_json_parse(arena, cases[i].path, text, &err);
        assert_true(model_decode(arena, cases[i].path, json, &model, &warnings, &err));
        assert_string_equal(model.name, cases[i].name);
    }
}

/* ---- --set model.FIELD ------------------------------------------------------------------------------------------ */

static bool read_set(const char *model_name, const char *first, const char *second, struct model_spec *model,
                     struct sp_error *err)
{
    struct sp_texts settings = {.arena = arena};
    sp_texts_add(&settings, "%s", first);
    if (second != NULL) {
        sp_texts_add(&settings, "%s", second);
    }
    *err = (struct sp_error){0};
    return model_read_with(arena, model_name, &settings, model, &warnings, err);
}

static void settings_replace_members_of_the_file(void **state)
{
    (void)state;
    struct model_spec model;
    struct sp_error err;
    assert_true(read_set("llama-3.1-8b", "num_hidden_layers=4", "tie_word_embeddings=true", &model, &err));
    assert_int_equal(model.n_layers, 4);
    assert_true(model.has_tied_embeddings);
    assert_int_equal(model.hidden, 4096);
    /* What the file derives follows: 6144 / 32, where the file gives 4096 / 32. */
    assert_true(read_set("llama-3.1-8b", "hidden_size=6144", NULL, &model, &err));
    assert_int_equal(model.head_dim, 192);
    /* Each alone is impossible with the file's other half, both together are fine. */
    assert_true(read_set("llama-3.1-8b", "num_attention_heads=40", "hidden_size=5120", &model, &err));
    assert_int_equal(model.head_dim, 128);
    /* The last of two counts. */
    assert_true(read_set("llama-3.1-8b", "num_hidden_layers=4", "num_hidden_layers=6", &model, &err));
    assert_int_equal(model.n_layers, 6);
    /* Experts and the pattern of layers follow the new number of layers. */
    assert_true(read_set("gpt-oss-20b", "num_hidden_layers=5", "num_experts_per_tok=3", &model, &err));
    assert_int_equal(count_kind(&model, 128, true), 3);
    assert_int_equal(model.experts_per_token, 3);
    assert_true(read_set("deepseek-v3", "first_k_dense_replace=60", "num_hidden_layers=61", &model, &err));
    assert_int_equal(count_kind(&model, 0, true), 1);
}

/* What show and --set offer is what some family reads, and nothing twice. */
static void names_of_fields_are_those_that_are_read(void **state)
{
    (void)state;
    static const char *const families[] = {"LlamaForCausalLM",    "Qwen3ForCausalLM",      "MixtralForCausalLM",
                                           "Qwen2MoeForCausalLM", "DeepseekV3ForCausalLM", "GPT2LMHeadModel"};
    for (int i = 0; model_config_names[i] != NULL; i++) {
        bool is_read = false;
        for (size_t family = 0; family < SP_COUNT_OF(families); family++) {
            is_read = is_read || model_family_reads(model_family_find(families[family]), model_config_names[i]);
        }
        assert_true(is_read);
        assert_true(config_field_is_known(model_config_names[i]));
        for (int before = 0; before < i; before++) {
            assert_string_not_equal(model_config_names[i], model_config_names[before]);
        }
    }
    assert_false(model_family_reads(NULL, "num_experts"));
    assert_true(model_family_reads(NULL, "hidden_size"));
    assert_false(model_family_reads(model_family_find("GPT2LMHeadModel"), "hidden_size"));
    assert_false(model_family_reads(model_family_find("LlamaForCausalLM"), "n_embd"));
    assert_false(config_field_is_known("hidden_sise"));
}

static void settings_make_a_refused_file_legal(void **state)
{
    (void)state;
    char *folder = temp_folder_open();
    const char *text =
        sp_format(arena, "{\"architectures\": [\"MistralForCausalLM\"], %s, \"sliding_window\": -1}", base_config);
    const char *path = temp_file(arena, folder, "windowed.json", text, strlen(text));
    struct model_spec model;
    struct sp_error err = {0};
    assert_false(model_read(arena, path, &model, &warnings, &err));
    assert_int_equal(err.kind, SP_ERROR_INPUT);
    assert_true(read_set(path, "sliding_window=null", NULL, &model, &err));
    assert_int_equal(model.n_layers, 61);
    assert_false(read_set(path, "num_hidden_layers=0", NULL, &model, &err));
    assert_int_equal(err.kind, SP_ERROR_INPUT); /* the file alone is refused too */
    temp_folder_close(folder);
}

static void bad_settings_are_usage_errors(void **state)
{
    (void)state;
    struct model_spec model;
    struct sp_error err;
    assert_false(read_set("llama-3.1-8b", "num_hidden_layer=4", NULL, &model, &err));
    assert_int_equal(err.kind, SP_ERROR_USAGE);
    assert_string_equal(err.text, "--set model.num_hidden_layer: unknown field of a config.json; did you mean "
                                  "model.num_hidden_layers?");
    assert_false(read_set("llama-3.1-8b", "zzz=4", NULL, &model, &err));
    assert_string_equal(err.text, "--set model.zzz: unknown field of a config.json; seqplan show fields model lists "
                                  "those that are read");
    assert_false(read_set("llama-3.1-8b", "num_hidden_layers=four", NULL, &model, &err));
    assert_int_equal(err.kind, SP_ERROR_USAGE);
    assert_error_contains(&err, "--set model: ");
    assert_error_contains(&err, "$.num_hidden_layers: expected a whole number from 1 to 10000, found \"four\"");
    assert_false(read_set("llama-3.1-8b", "num_key_value_heads=5", NULL, &model, &err));
    assert_int_equal(err.kind, SP_ERROR_USAGE);
    assert_error_contains(&err, "$.num_key_value_heads: expected a divisor of the 32 query heads, found 5");
    assert_false(read_set("llama-3.1-8b", "num_hidden_layers", NULL, &model, &err));
    assert_int_equal(err.kind, SP_ERROR_USAGE);
    assert_false(read_set("lama-3.1-8b", "num_hidden_layers=4", NULL, &model, &err));
    assert_int_equal(err.kind, SP_ERROR_INPUT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(llama_is_read_field_by_field, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(families_differ_in_biases_and_norms, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(bias_that_a_family_does_not_read_is_warned, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(llama_without_kv_heads_has_one_per_query_head, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(parameters_are_counted_matrix_by_matrix, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(gpt2_is_read_by_its_own_names, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(gpt2_is_counted_with_biases_and_positions, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(gpt2_fields_that_do_not_count, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(impossible_gpt2_is_refused, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(gpt2_large_has_its_published_size, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(gpt3_class_models_have_their_published_size, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(shipped_models_have_their_published_size, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(shipped_quantised_models_have_their_published_size, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(shipped_models_do_their_published_work, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(experts_are_counted_whole_and_active, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(experts_of_other_families, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(layers_without_experts, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(latent_attention_is_counted_down_and_up, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(mistral_has_one_window, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(qwen_has_a_window_by_flag, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(gpt_oss_alternates, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(four_kinds_of_layers, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(window_that_a_family_does_not_read_is_named, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(layer_types_say_which_layers_have_the_window, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(names_of_fields_are_those_that_are_read, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(unmodelled_fields_are_warned_by_name, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(unknown_fields_share_one_warning, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(other_kinds_of_models_are_refused_by_name, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(name_of_a_config_json_is_its_folder, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(settings_replace_members_of_the_file, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(settings_make_a_refused_file_legal, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(bad_settings_are_usage_errors, open_arena, close_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
