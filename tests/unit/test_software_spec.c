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
    for (int i = 0; i < N_LOSSES; i++) {
        struct loss_spec spec;
        struct sp_error err = {0};
        if (!loss_read(arena, (enum loss_id)i, &spec, &err)) {
            fail_msg("%s", err.text);
        }
        assert_string_equal(spec.name, loss_names[i]);
        assert_true(spec.peak_bytes_per_logit.value >= 2); /* the bf16 logits at least */
        assert_int_equal(spec.recomputes_logits, i == LOSS_CHUNKED);
    }
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
    bool is_read = loss_read(arena, LOSS_PLAIN, spec, err);
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
        cmocka_unit_test(shipped_kernels_and_losses_are_read),
        cmocka_unit_test(names_have_their_bytes),
        cmocka_unit_test(bad_files_are_refused),
        cmocka_unit_test(software_is_set_by_path),
    };
    return cmocka_run_group_tests(tests, open_arena, close_arena);
}
