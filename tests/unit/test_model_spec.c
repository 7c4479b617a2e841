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
    assert_close(size.layer, 153361920.0, 0);
    assert_close(size.embedding, 50021.0 * 3840.0, 0);
    assert_close(size.head, 50021.0 * 3840.0, 0);
    assert_close(size.final_norm, 3840.0, 0);
    assert_close(size.total, 61 * 153361920.0 + 2 * 50021.0 * 3840.0 + 3840.0, 0);
    assert_close(size.active, 61 * 153361920.0 + 50021.0 * 3840.0 + 3840.0, 0);
    /* Biases: q 3840, k and v 2 x 768, o 3840, MLP 2 x 10240 + 3840 */
    expect_model("LlamaForCausalLM", "\"attention_bias\": true, \"mlp_bias\": true", &model);
    assert_close(model_size(&model).layer, 153361920.0 + 3840 + 1536 + 3840 + 24320, 0);
    /* Tied: one table less in total, the head still runs. qk norm: 2 x 96. */
    expect_model("Qwen3ForCausalLM", "\"tie_word_embeddings\": true", &model);
    size = model_size(&model);
    assert_close(size.layer, 153361920.0 + 192, 0);
    assert_close(size.total, size.active, 0);
}

struct shipped {
    const char *name;
    double parameters;
    double active; /* without the input table */
};

/* Published totals; active = total less vocabulary x hidden, from the files' own widths. */
static void shipped_models_have_their_published_size(void **state)
{
    (void)state;
    static const struct shipped shipped[] = {
        {"llama-2-7b", 6.74e9, 6.74e9 - 32000.0 * 4096},     {"llama-3.1-8b", 8.03e9, 8.03e9 - 128256.0 * 4096},
        {"llama-3.1-70b", 70.6e9, 70.6e9 - 128256.0 * 8192}, {"llama-3.1-405b", 405.9e9, 405.9e9 - 128256.0 * 16384},
        {"qwen3-8b", 8.19e9, 8.19e9 - 151936.0 * 4096},      {"qwen3-32b", 32.8e9, 32.8e9 - 151936.0 * 5120},
        {"qwen2.5-7b-1m", 7.62e9, 7.62e9 - 152064.0 * 3584},
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
    assert_int_equal(warnings.count, 0); /* shipped files hold nothing that is unknown or left out */
}

/* ---- windows and layer types ------------------------------------------------------------------------------------ */

static void windows_are_refused(void **state)
{
    (void)state;
    expect_refused("MistralForCausalLM", "\"sliding_window\": 4096",
                   "dir/tiny.json: $.sliding_window: expected null, found 4096: attention in a window is not built yet "
                   "(--set model.sliding_window=null prices full attention)");
    expect_refused("MistralForCausalLM", "",
                   "dir/tiny.json: $.sliding_window: expected null, found none, which means a window of 4096 in "
                   "MistralForCausalLM and is not built yet (write null for full attention)");
    expect_refused(
        "Qwen2ForCausalLM", "\"sliding_window\": 32768, \"use_sliding_window\": true",
        "dir/tiny.json: $.sliding_window: expected null, found 32768: attention in a window is not built yet "
        "(--set model.sliding_window=null prices full attention)");
    expect_refused("Qwen3ForCausalLM", "\"sliding_window\": 32768, \"use_sliding_window\": 1",
                   "dir/tiny.json: $.use_sliding_window: expected true or false, found 1");
}

static void window_that_a_family_does_not_read_is_named(void **state)
{
    (void)state;
    struct model_spec model;
    expect_model("LlamaForCausalLM", "\"sliding_window\": 4096", &model);
    assert_true(sp_texts_has(&warnings, "tiny: unknown to seqplan and left out, check that they change neither memory "
                                        "nor time: sliding_window"));
}

static void layer_types_are_all_full(void **state)
{
    (void)state;
    struct model_spec model;
    expect_model("Qwen3ForCausalLM", "\"layer_types\": [\"full_attention\", \"full_attention\"]", &model);
    expect_refused("Qwen3ForCausalLM", "\"layer_types\": [\"full_attention\", \"sliding_attention\"]",
                   "dir/tiny.json: $.layer_types: expected \"full_attention\" for every layer, found "
                   "\"sliding_attention\", which is not built yet");
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
    static const char built[] = "dense decoders of these architectures are: LlamaForCausalLM, MistralForCausalLM, "
                                "Qwen2ForCausalLM, Qwen3ForCausalLM";
    expect_refused(
        "MixtralForCausalLM", "\"num_local_experts\": 8, \"num_experts_per_tok\": 2",
        sp_format(arena, "dir/tiny.json: MixtralForCausalLM (mixture of experts) is not built yet; %s", built));
    expect_refused(
        "DeepseekV3ForCausalLM", "\"n_routed_experts\": 256, \"kv_lora_rank\": 512",
        sp_format(arena,
                  "dir/tiny.json: DeepseekV3ForCausalLM (mixture of experts, multi-head latent attention) is "
                  "not built yet; %s",
                  built));
    /* A dense architecture with experts in it is no dense model. */
    expect_refused(
        "LlamaForCausalLM", "\"num_local_experts\": 8",
        sp_format(arena, "dir/tiny.json: LlamaForCausalLM (mixture of experts) is not built yet; %s", built));
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
}

static void settings_make_a_refused_file_legal(void **state)
{
    (void)state;
    char *folder = temp_folder_open();
    const char *text =
        sp_format(arena, "{\"architectures\": [\"MistralForCausalLM\"], %s, \"sliding_window\": 4096}", base_config);
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
    assert_error_contains(&err, "--set model.zzz: unknown field of a config.json; expected one of architectures, ");
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
        cmocka_unit_test_setup_teardown(shipped_models_have_their_published_size, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(windows_are_refused, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(window_that_a_family_does_not_read_is_named, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(layer_types_are_all_full, open_arena, close_arena),
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
