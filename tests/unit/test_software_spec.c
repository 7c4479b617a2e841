#include "support/support.h"

#include "spec/spec_internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static struct sp_arena *arena;

static int open_arena(void **state)
{
    (void)state;
    arena = sp_arena_open();
    return 0;
}

static int close_arena(void **state)
{
    (void)state;
    sp_arena_close(arena);
    return 0;
}

/* What the contract fixes of each framework: kernels by default, dtypes, and what it does with odd layouts. */
static void shipped_frameworks_follow_the_contract(void **state)
{
    (void)state;
    for (int i = 0; i < N_FRAMEWORKS; i++) {
        struct framework_spec spec;
        struct sp_error err = {0};
        if (!framework_read(arena, (enum framework_id)i, &spec, &err)) {
            fail_msg("%s", err.text);
        }
        bool is_megatron = i == FRAMEWORK_MEGATRON;
        bool is_torch = i == FRAMEWORK_TORCH;
        assert_string_equal(spec.name, framework_names[i]);
        if (i != FRAMEWORK_IDEAL) {
            assert_int_equal(spec.kernels, is_megatron ? KERNELS_TE : is_torch ? KERNELS_COMPILED : KERNELS_EAGER);
        }
        assert_int_equal(spec.gradient_dtype, is_megatron || is_torch ? DTYPE_FP32 : DTYPE_BF16);
        assert_int_equal(spec.moment_dtype, DTYPE_FP32);
        assert_true(spec.has_master_weights);
        assert_int_equal(spec.spreads_remainder_layers, is_torch);
        assert_int_equal(spec.refuses_few_micro_batches, is_torch);
        assert_true(is_megatron ? spec.repeats_kv_over_tp : true);
        assert_false(is_torch && spec.repeats_kv_over_tp);
        assert_int_equal(spec.pads_vocabulary, is_megatron);
        assert_string_equal(spec.plain_loss, is_megatron ? "plain-megatron" : "plain");
        assert_string_equal(spec.fused_loss, "fused");
    }
}

/* The host is in the way of short steps where Python issues them: 0.6 and 0.8 ms on PyTorch, half of it taken for
 * ring-flash-attn. CPU optimizers cost 10 s a step on 8 GPUs. */
static void shipped_frameworks_have_their_host_times(void **state)
{
    (void)state;
    static const struct {
        double forward, backward, offload;
        enum sp_figure_kind kind;
    } expected[N_FRAMEWORKS] = {
        [FRAMEWORK_MEGATRON] = {0, 0, 0, SP_FIGURE_DERIVED},
        [FRAMEWORK_TORCH] = {6e-4, 8e-4, 0, SP_FIGURE_MEASURED},
        [FRAMEWORK_DEEPSPEED] = {0, 0, 10, SP_FIGURE_DERIVED},
        [FRAMEWORK_ALST] = {0, 0, 10, SP_FIGURE_DERIVED},
        [FRAMEWORK_RING_FLASH_ATTN] = {3e-4, 4e-4, 0, SP_FIGURE_ASSUMED},
        [FRAMEWORK_IDEAL] = {0, 0, 0, SP_FIGURE_DERIVED},
    };
    for (int i = 0; i < N_FRAMEWORKS; i++) {
        struct framework_spec spec;
        struct sp_error err = {0};
        assert_true(framework_read(arena, (enum framework_id)i, &spec, &err));
        assert_close(spec.step_host_forward.value, expected[i].forward, 1e-15);
        assert_close(spec.step_host_backward.value, expected[i].backward, 1e-15);
        assert_int_equal(spec.step_host_backward.kind, expected[i].kind);
        assert_close(spec.offload_overhead.value, expected[i].offload, 0);
        assert_int_equal(spec.offload_overhead.kind, expected[i].offload > 0 ? SP_FIGURE_FITTED : SP_FIGURE_ASSUMED);
        assert_true(spec.offload_overhead.low <= spec.offload_overhead.value);
    }
}

static void shipped_kernels_and_losses_are_read(void **state)
{
    (void)state;
    for (int i = 0; i < N_KERNELS; i++) {
        struct kernels_spec spec;
        struct sp_error err = {0};
        if (!kernels_read(arena, (enum kernels_id)i, &spec, &err)) {
            fail_msg("%s", err.text);
        }
        assert_string_equal(spec.name, kernels_names[i]);
        assert_true(spec.saved_ffn_tensors.value >= 3 && spec.saved_ffn_tensors.value <= 4);
    }
    struct sp_texts losses = {.arena = arena};
    data_names(arena, "frameworks/losses", &losses);
    assert_true(losses.count >= 4);
    for (size_t i = 0; i < losses.count; i++) {
        struct loss_spec spec;
        struct sp_error err = {0};
        if (!loss_read(arena, losses.items[i], &spec, &err)) {
            fail_msg("%s", err.text);
        }
        assert_string_equal(spec.name, losses.items[i]);
        assert_true(spec.peak_bytes_per_logit.value >= 2); /* the bf16 logits at least */
        assert_int_equal(spec.recomputes_logits, strcmp(spec.name, "chunked") == 0);
    }
    struct loss_spec megatron;
    struct sp_error err = {0};
    assert_true(loss_read(arena, "plain-megatron", &megatron, &err));
    assert_close(megatron.peak_bytes_per_logit.value, 8, 0);
    assert_close(megatron.gradient_bytes_per_logit.value, 2, 0);
    assert_false(loss_read(arena, "plainn", &megatron, &err));
    assert_int_equal(err.kind, SP_ERROR_INPUT);
    assert_error_contains(&err, "unknown loss \"plainn\": did you mean \"plain\"?");
}

/* Only operands of matrix products are fp8. */
static void activations_are_kept_in_16_bits_or_more(void **state)
{
    (void)state;
    assert_int_equal(activation_dtype(DTYPE_FP8), DTYPE_BF16);
    assert_int_equal(activation_dtype(DTYPE_BF16), DTYPE_BF16);
    assert_int_equal(activation_dtype(DTYPE_FP16), DTYPE_FP16);
    assert_int_equal(activation_dtype(DTYPE_FP32), DTYPE_FP32);
}

static void names_have_their_bytes(void **state)
{
    (void)state;
    assert_int_equal(dtype_bytes(DTYPE_BF16), 2);
    assert_int_equal(dtype_bytes(DTYPE_FP8), 1);
    assert_int_equal(dtype_bytes(DTYPE_FP16), 2);
    assert_int_equal(dtype_bytes(DTYPE_FP32), 4);
    assert_string_equal(tier_names[TIER_MIXED], "mixed");
    assert_string_equal(axis_names[AXIS_PP], "pp");
    assert_string_equal(schedule_names[SCHEDULE_ZB_H1], "zb-h1");
}

/* ---- bad files: a data folder of its own, found first ----------------------------------------------------------- */

static const char loss_text[] =
    "{\"schema\": \"seqplan.loss/1\", \"name\": \"plain\", \"title\": \"P\", \"source\": \"s\","
    "\"forward_bytes_per_logit\": {\"value\": 11, \"kind\": \"fitted\", \"source\": \"f\"},"
    "\"backward_bytes_per_logit\": {\"value\": 12.5, \"kind\": \"fitted\", \"source\": \"f\"},"
    "\"peak_bytes_per_logit\": {\"value\": 13, \"kind\": \"fitted\", \"source\": \"f\"},"
    "\"gradient_bytes_per_logit\": {\"value\": 14, \"kind\": \"fitted\", \"source\": \"f\"},"
    "\"recomputes_logits\": true}";

static bool read_loss(const char *text, struct loss_spec *spec, struct sp_error *err)
{
    char *root = temp_folder_open();
    char *frameworks = strdup(sp_format(arena, "%s/frameworks", root));
    char *losses = strdup(sp_format(arena, "%s/frameworks/losses", root));
    assert_non_null(frameworks);
    assert_non_null(losses);
    assert_int_equal(mkdir(frameworks, 0700), 0);
    assert_int_equal(mkdir(losses, 0700), 0);
    (void)temp_file(arena, losses, "plain.json", text, strlen(text));
    const char *kept = getenv("SEQPLAN_PATH");
    const char *restored = kept == NULL ? "" : sp_strdup(arena, kept);
    assert_int_equal(setenv("SEQPLAN_PATH", root, 1), 0);
    *err = (struct sp_error){0};
    bool is_read = loss_read(arena, "plain", spec, err);
    assert_int_equal(setenv("SEQPLAN_PATH", restored, 1), 0);
    temp_folder_close(losses);
    temp_folder_close(frameworks);
    temp_folder_close(root);
    return is_read;
}

static const char *replaced(const char *text, const char *old, const char *new)
{
    const char *at = strstr(text, old);
    assert_non_null(at);
    return sp_format(arena, "%.*s%s%s", (int)(at - text), text, new, at + strlen(old));
}

static void bad_files_are_refused(void **state)
{
    (void)state;
    struct loss_spec spec;
    struct sp_error err;
    assert_true(read_loss(loss_text, &spec, &err));
    assert_close(spec.backward_bytes_per_logit.value, 12.5, 0);
    assert_int_equal(spec.peak_bytes_per_logit.kind, SP_FIGURE_FITTED);
    assert_true(spec.recomputes_logits);
    assert_false(read_loss(replaced(loss_text, "loss/1", "loss/2"), &spec, &err));
    assert_int_equal(err.kind, SP_ERROR_INPUT);
    assert_error_contains(&err, "$.schema: expected \"seqplan.loss/1\", found \"seqplan.loss/2\"");
    assert_false(
        read_loss(replaced(loss_text, "\"recomputes_logits\": true", "\"recomputes_logit\": true"), &spec, &err));
    assert_error_contains(&err, "unknown key \"recomputes_logit\" (did you mean \"recomputes_logits\"?)");
    assert_false(read_loss(replaced(loss_text, "\"value\": 13", "\"value\": 1300"), &spec, &err));
    assert_error_contains(&err, "$.peak_bytes_per_logit.value: expected 0 to 1000, found 1300");
    assert_false(read_loss("[]", &spec, &err));
    assert_error_contains(&err, "plain.json: $: expected an object, found an array");
}

static void software_is_set_by_path(void **state)
{
    (void)state;
    struct software_spec software = {0};
    struct sp_error err = {0};
    assert_true(sp_fields_set(software_fields, arena, "framework.host_tail", "0s", &software, &err));
    assert_int_equal(software.framework.host_tail.kind, SP_FIGURE_SET);
    assert_true(sp_fields_set(software_fields, arena, "framework.gradient_dtype", "fp16", &software, &err));
    assert_int_equal(software.framework.gradient_dtype, DTYPE_FP16);
    assert_true(sp_fields_set(software_fields, arena, "framework.step_host_forward", "0.4ms", &software, &err));
    assert_close(software.framework.step_host_forward.value, 4e-4, 1e-15);
    assert_true(sp_fields_set(software_fields, arena, "framework.pads_vocabulary", "true", &software, &err));
    assert_true(software.framework.pads_vocabulary);
    assert_true(sp_fields_set(software_fields, arena, "kernels.saved_ffn_tensors", "4", &software, &err));
    assert_close(software.kernels.saved_ffn_tensors.value, 4, 0);
    assert_true(sp_fields_set(software_fields, arena, "loss.recomputes_logits", "true", &software, &err));
    assert_true(software.loss.recomputes_logits);
    assert_false(sp_fields_set(software_fields, arena, "framework.host_tale", "0s", &software, &err));
    assert_error_contains(&err, "did you mean \"framework.host_tail\"?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shipped_frameworks_follow_the_contract),
        cmocka_unit_test(shipped_frameworks_have_their_host_times),
        cmocka_unit_test(shipped_kernels_and_losses_are_read),
        cmocka_unit_test(activations_are_kept_in_16_bits_or_more),
        cmocka_unit_test(names_have_their_bytes),
        cmocka_unit_test(bad_files_are_refused),
        cmocka_unit_test(software_is_set_by_path),
    };
    return cmocka_run_group_tests(tests, open_arena, close_arena);
}
