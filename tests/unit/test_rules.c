#include "support/support.h"

#include "spec/spec_internal.h"

#include <stdlib.h>
#include <string.h>

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

/* 61 layers, 40 query and 8 key-value heads of 96, 96 GPUs as tp 4 x sp 6 x pp 1 x dp 4, zig-zag: all rules hold. */
static void describe_question(struct question *question)
{
    *question = (struct question){.arena = arena, .warnings = {.arena = arena}, .assumed = {.arena = arena}};
    question->model = (struct model_spec){.name = "test-61",
                                          .n_layers = 61,
                                          .hidden = 3840,
                                          .n_heads = 40,
                                          .n_kv_heads = 8,
                                          .head_dim = 96,
                                          .ffn = 10240,
                                          .vocab = 50021,
                                          .max_position = 1048576};
    question->hardware.node.gpus.value = 8;
    question->hardware.node.nvlink_domain.value = 8;
    question->hardware.intra.medium = "nvlink";
    question->software.framework.repeats_kv_over_tp = true;
    question->run = (struct run_spec){.gpus = 96, .nodes = 12, .seq = 98304, .global_batch = 12};
    question->layout = (struct layout_spec){.tp = 4,
                                            .sp = 6,
                                            .pp = 1,
                                            .vpp = 1,
                                            .dp = 4,
                                            .ep = 1,
                                            .etp = 1,
                                            .sp_ulysses = 1,
                                            .sp_inner = 1,
                                            .micro_batch = 1,
                                            .method = METHOD_ZIGZAG,
                                            .framework = FRAMEWORK_MEGATRON,
                                            .schedule = SCHEDULE_1F1B,
                                            .recompute = RECOMPUTE_FULL,
                                            .zero = 1,
                                            .precision = DTYPE_BF16,
                                            .has_tp_sp = true,
                                            .order = {AXIS_TP, AXIS_CP, AXIS_EP, AXIS_DP, AXIS_PP}};
}

static void expect_legal(struct question *question)
{
    struct sp_error err = {0};
    if (!layout_check(question, &err)) {
        fail_msg("refused: %s", err.text);
    }
    assert_int_equal(err.kind, SP_ERROR_NONE);
}

static void expect_broken(struct question *question, const char *rule, const char *text)
{
    struct sp_error err = {0};
    assert_false(layout_check(question, &err));
    assert_int_equal(err.kind, SP_ERROR_USAGE);
    assert_string_equal(err.rule, rule);
    assert_string_equal(err.text, text);
}

static void expect_warning(const struct question *question, const char *text)
{
    if (!sp_texts_has(&question->warnings, text)) {
        fail_msg("no warning \"%s\" among: %s", text,
                 sp_join(arena, question->warnings.items, question->warnings.count, " | "));
    }
}

static void usual_layout_is_legal_without_warnings(void **state)
{
    (void)state;
    struct question question;
    describe_question(&question);
    expect_legal(&question);
    assert_int_equal(question.warnings.count, 0);
}

/* ---- degrees ---------------------------------------------------------------------------------------------------- */

static void degrees_multiply_to_the_cluster(void **state)
{
    (void)state;
    struct question question;
    describe_question(&question);
    question.layout.sp = 3;
    expect_broken(
        &question, "gpus_product",
        "96 gpus are not tp 4 x sp 3 x pp 1 x dp 4 = 48; legal sp with this tp and pp: 1, 2, 3, 4, 6, 8, 12, 24");
    question.layout.sp = 7;
    expect_broken(&question, "gpus_product",
                  "96 gpus are not tp 4 x sp 7 x pp 1 x dp 4 = more than 96; legal sp with this tp and pp: "
                  "1, 2, 3, 4, 6, 8, 12, 24");
    question.layout.tp = 5;
    question.layout.sp = 1;
    struct sp_error err = {0};
    assert_false(layout_check(&question, &err));
    assert_error_contains(&err,
                          "96 gpus are not tp 5 x sp 1 x pp 1 x dp 4 = 20; tp x sp x pp must be one of 1, 2, 3, 4, "
                          "6, 8, 12, 16, 24, 32; ");
}

/* 2^40 each: the product of two would not fit an integer. */
static void huge_degrees_do_not_overflow(void **state)
{
    (void)state;
    struct question question;
    describe_question(&question);
    question.layout.tp = (int64_t)1 << 40;
    question.layout.sp = (int64_t)1 << 40;
    question.layout.pp = (int64_t)1 << 40;
    question.layout.dp = (int64_t)1 << 40;
    struct sp_error err = {0};
    assert_false(layout_check(&question, &err));
    assert_string_equal(err.rule, "gpus_product");
    assert_error_contains(&err, "more than 96");
}

static void several_broken_rules_are_joined(void **state)
{
    (void)state;
    struct question question;
    describe_question(&question);
    question.run.seq = 98305;
    question.run.global_batch = 13;
    question.layout.framework = FRAMEWORK_DEEPSPEED;
    struct sp_error err = {0};
    assert_false(layout_check(&question, &err));
    assert_string_equal(err.rule, "pair");
    assert_error_contains(&err, "zigzag is not in deepspeed; ");
    assert_error_contains(&err, "; sequence 98305 does not divide by 24 ");
    assert_error_contains(&err, "; global batch 13 ");
}

/* ---- layers ----------------------------------------------------------------------------------------------------- */

static void use_stages(struct question *question, int64_t pp)
{
    question->layout.pp = pp;
    question->run.gpus = 96 * pp;
    question->run.global_batch = 4 * pp;
}

static void layers_divide_by_stages(void **state)
{
    (void)state;
    struct question question;
    describe_question(&question);
    use_stages(&question, 16);
    question.model.n_layers = 126;
    expect_broken(&question, "layers_over_pp",
                  "126 layers do not divide by pp 16: --pp-layers auto would use 7, 8 x 14, 7; pp that divides: "
                  "1, 2, 3, 6, 7, 9, 14, 18, 21, 42");
    question.layout.pp_layers = PP_LAYERS_AUTO;
    expect_legal(&question);
    question.layout.pp_layers = PP_LAYERS_PADDED;
    expect_legal(&question);
    question.layout.pp_layers = PP_LAYERS_EVEN;
    question.software.framework.spreads_remainder_layers = true;
    expect_legal(&question);
}

static void every_stage_has_a_layer(void **state)
{
    (void)state;
    struct question question;
    describe_question(&question);
    use_stages(&question, 16);
    question.model.n_layers = 15;
    expect_broken(&question, "layers_over_pp", "15 layers are fewer than pp 16 stages; largest pp: 15");
    question.model.n_layers = 16;
    question.layout.pp_layers = PP_LAYERS_PADDED; /* 18 = 16 + 2: the ends have one slot, taken by embedding and loss */
    expect_broken(&question, "pp_layers", "pp-layers padded leaves no layer for the first of 16 stages; use auto");
    question.model.n_layers = 29; /* 31 = 16 + 15: the first has two slots, the last has one */
    expect_broken(&question, "pp_layers", "pp-layers padded leaves no layer for the last of 16 stages; use auto");
}

static void explicit_layers_fit_model_and_stages(void **state)
{
    (void)state;
    struct question question;
    describe_question(&question);
    use_stages(&question, 3);
    static const int64_t right[] = {20, 21, 20};
    static const int64_t short_of_one[] = {20, 20, 20};
    static const int64_t huge[] = {INT64_MAX, INT64_MAX, 1};
    question.layout.pp_layers = PP_LAYERS_EXPLICIT;
    question.layout.n_stage_layers = 3;
    question.layout.stage_layers = right;
    expect_legal(&question);
    question.layout.stage_layers = short_of_one;
    expect_broken(&question, "pp_layers", "pp-layers adds up to 60 layers, the model has 61");
    question.layout.stage_layers = huge;
    expect_broken(&question, "pp_layers", "pp-layers adds up to more than 61 layers, the model has 61");
    question.layout.n_stage_layers = 2;
    question.layout.recompute = RECOMPUTE_BLOCK;
    question.layout.recompute_layers = 5;
    expect_broken(&question, "pp_layers", "pp-layers gives 2 stages, pp is 3");
}

static void recompute_block_fits_a_stage(void **state)
{
    (void)state;
    struct question question;
    describe_question(&question);
    use_stages(&question, 4);
    question.layout.pp_layers = PP_LAYERS_AUTO; /* 15, 16, 15, 15 */
    question.layout.recompute = RECOMPUTE_BLOCK;
    question.layout.recompute_layers = 16;
    expect_legal(&question);
    question.layout.recompute_layers = 17;
    expect_broken(&question, "recompute_block", "recompute block:17 recomputes more than the 16 layers of a stage");
}

/* ---- widths over tp --------------------------------------------------------------------------------------------- */

static void use_tp(struct question *question, int64_t tp)
{
    question->layout.tp = tp;
    question->run.gpus = tp * 24;
}

static void query_heads_divide_by_tp(void **state)
{
    (void)state;
    struct question question;
    describe_question(&question);
    use_tp(&question, 16);
    expect_broken(&question, "heads_over_tp",
                  "tp 16: 40 query heads do not divide by it; legal tp: 1, 2, 4, 5, 8, 10, 20, 40");
    use_tp(&question, 5);
    question.run.seq = 98400;
    expect_broken(&question, "kv_heads_over_tp", "tp 5: 8 key-value heads do not divide by it; legal tp: 1, 2, 4, 8");
    question.model.n_kv_heads = 5;
    question.model.ffn = 10241;
    expect_broken(&question, "ffn_over_tp",
                  "tp 5: the MLP's width 10241 does not divide by it; legal tp: 1, 7, 11, 19, "
                  "49, 77, 133, 209, 539, 931");
}

static void few_key_value_heads_are_repeated_by_some(void **state)
{
    (void)state;
    struct question question;
    describe_question(&question);
    question.model.n_kv_heads = 2;
    expect_legal(&question);
    expect_warning(&question, "tp 4 repeats each of the 2 key-value heads 2 times (memory counted); tp 2 would not");
    describe_question(&question);
    question.model.n_kv_heads = 2;
    question.software.framework.repeats_kv_over_tp = false;
    question.layout.framework = FRAMEWORK_TORCH;
    expect_broken(&question, "kv_heads_over_tp",
                  "tp 4: 2 key-value heads are fewer, and torch does not repeat them; use tp 2 or less, or --set "
                  "run.expand_kv=true");
    question.run.expands_kv = true;
    expect_legal(&question);
    /* 3 heads over 4 ranks: no whole number of copies */
    question.model.n_kv_heads = 3;
    question.model.n_heads = 12;
    expect_broken(&question, "kv_heads_over_tp", "tp 4: 3 key-value heads do not divide by it; legal tp: 1, 3");
}

/* ---- sequence --------------------------------------------------------------------------------------------------- */

static void strictest_sequence_rule_is_named(void **state)
{
    (void)state;
    struct question question;
    describe_question(&question);
    question.run.seq = 100001;
    expect_broken(&question, "sequence_divides",
                  "sequence 100001 does not divide by 24 (zigzag: 2 x sp 6, and each part by tp 4 under --tp-sp on); "
                  "nearest lengths: 99984, 100008");
    question.layout.has_tp_sp = false;
    expect_broken(&question, "sequence_divides",
                  "sequence 100001 does not divide by 12 (zigzag: 2 x sp 6); nearest lengths: 99996, 100008");
    question.layout.method = METHOD_RING;
    question.layout.framework = FRAMEWORK_RING_FLASH_ATTN;
    question.layout.tp = 1;
    question.layout.dp = 16;
    question.run.global_batch = 16;
    expect_broken(&question, "sequence_divides",
                  "sequence 100001 does not divide by 6 (ring: sp 6); nearest lengths: 99996, 100002");
    question.run.seq = 5;
    expect_broken(&question, "sequence_divides", "sequence 5 does not divide by 6 (ring: sp 6); nearest lengths: 6");
}

static void sequence_divides_by_tp_alone(void **state)
{
    (void)state;
    struct question question;
    describe_question(&question);
    question.layout.method = METHOD_NONE;
    question.layout.sp = 1;
    question.layout.dp = 24;
    question.run.global_batch = 24;
    question.run.seq = 4099;
    expect_broken(&question, "sequence_divides",
                  "sequence 4099 does not divide by 4 (tp 4 under --tp-sp on); nearest lengths: 4096, 4100");
    question.layout.has_tp_sp = false;
    expect_legal(&question);
}

static void sequence_beyond_the_positions_is_warned(void **state)
{
    (void)state;
    struct question question;
    describe_question(&question);
    question.model.max_position = 98303;
    expect_legal(&question);
    expect_warning(&question, "sequence 98304 is beyond the 98303 positions of test-61: needs longer rope settings and "
                              "training");
}

/* ---- batch ------------------------------------------------------------------------------------------------------ */

static void batch_divides_by_ranks_and_micro_batch(void **state)
{
    (void)state;
    struct question question;
    describe_question(&question);
    question.layout.micro_batch = 3;
    expect_legal(&question);
    question.run.global_batch = 14;
    expect_broken(&question, "batch_divides",
                  "global batch 14 does not divide by dp 4 x micro-batch 3 = 12; nearest: 12, 24");
    question.run.global_batch = 5;
    expect_broken(&question, "batch_divides",
                  "global batch 5 does not divide by dp 4 x micro-batch 3 = 12; nearest: 12");
}

/* 2 micro-batches over 6 stages: (6 - 1) / (2 + 6 - 1) = 5 / 7 of the time. */
static void few_micro_batches_are_warned_or_refused(void **state)
{
    (void)state;
    struct question question;
    describe_question(&question);
    use_stages(&question, 6);
    question.model.n_layers = 60;
    question.run.global_batch = 8;
    expect_legal(&question);
    expect_warning(&question,
                   "2 micro-batches over pp 6 stages: 71 % of the time is bubble; raise --global-batch to 24 or "
                   "more, or lower pp");
    question.run.global_batch = 24; /* as many as stages */
    question.warnings.count = 0;
    expect_legal(&question);
    assert_int_equal(question.warnings.count, 0);
    question.run.global_batch = 8;
    question.software.framework.refuses_few_micro_batches = true;
    expect_broken(&question, "few_micro_batches",
                  "2 micro-batches are fewer than pp 6 stages, which megatron refuses; raise --global-batch to 24");
}

/* ---- method and framework --------------------------------------------------------------------------------------- */

static void method_and_framework_are_a_pair(void **state)
{
    (void)state;
    struct question question;
    describe_question(&question);
    question.layout.method = METHOD_USP;
    question.layout.framework = FRAMEWORK_DEEPSPEED;
    expect_broken(&question, "pair",
                  "usp is not in deepspeed; frameworks of usp: megatron (home), ring-flash-attn, ideal");
}

/* The contract's table, row by row: m t d a r i. */
static void table_of_pairs(void **state)
{
    (void)state;
    static const char *const legal[N_METHODS] = {
        [METHOD_NONE] = "mtdari",   [METHOD_NAIVE] = "i",     [METHOD_ALLGATHER] = "mtri", [METHOD_ULYSSES] = "mtdai",
        [METHOD_RING] = "ri",       [METHOD_ZIGZAG] = "mtri", [METHOD_STRIPED] = "ri",     [METHOD_USP] = "mri",
        [METHOD_DOUBLE_RING] = "i", [METHOD_FUSED_RING] = "i"};
    static const char letters[] = "mtdari";
    static const char homes[] = "mimdrmrmii"; /* in the order of the methods */
    for (int method = 0; method < N_METHODS; method++) {
        for (int framework = 0; framework < N_FRAMEWORKS; framework++) {
            bool expected = strchr(legal[method], letters[framework]) != NULL;
            assert_int_equal(pair_is_legal((enum method_id)method, (enum framework_id)framework), expected);
        }
        assert_int_equal(letters[method_home((enum method_id)method)], homes[method]);
    }
}

static void methods_without_a_split_keep_sp_1(void **state)
{
    (void)state;
    struct question question;
    describe_question(&question);
    question.layout.method = METHOD_NONE;
    expect_broken(&question, "method_splits",
                  "sp 6: none does not split the sequence; use sp 1, or zigzag, ulysses, allgather, ring");
    question.layout.method = METHOD_NAIVE;
    question.layout.framework = FRAMEWORK_IDEAL;
    expect_broken(&question, "method_splits",
                  "sp 6: naive does not split the sequence; use sp 1, or zigzag, ulysses, allgather, ring");
    describe_question(&question);
    question.layout.sp = 1; /* zig-zag over one rank is no split, and legal */
    question.layout.dp = 24;
    question.run.global_batch = 24;
    expect_legal(&question);
}

static void parts_of_sp_belong_to_their_methods(void **state)
{
    (void)state;
    struct question question;
    describe_question(&question);
    question.layout.sp_ulysses = 2;
    expect_broken(&question, "sp_ulysses", "sp-ulysses 2 with zigzag and sp 6: expected 1 (usp chooses it)");
    question.layout.method = METHOD_USP;
    expect_legal(&question);
    question.layout.sp_ulysses = 4;
    expect_broken(&question, "sp_ulysses", "sp-ulysses 4 with usp and sp 6: expected a divisor of sp: 1, 2, 3, 6");
    question.layout.method = METHOD_ULYSSES;
    question.layout.sp_ulysses = 3;
    expect_broken(&question, "sp_ulysses", "sp-ulysses 3 with ulysses and sp 6: expected 6 (usp chooses it)");
    describe_question(&question);
    question.layout.sp_inner = 3;
    expect_broken(&question, "sp_inner", "sp-inner 3 with zigzag and sp 6: expected 1 (double-ring chooses it)");
    question.layout.method = METHOD_DOUBLE_RING;
    question.layout.framework = FRAMEWORK_IDEAL;
    expect_legal(&question);
    question.layout.sp_inner = 5;
    expect_broken(&question, "sp_inner", "sp-inner 5 with double-ring and sp 6: expected 1, 2, 3, 6");
}

static void frameworks_without_tp_and_pp_are_warned(void **state)
{
    (void)state;
    struct question question;
    describe_question(&question);
    question.layout.framework = FRAMEWORK_RING_FLASH_ATTN;
    expect_legal(&question);
    expect_warning(&question,
                   "ring-flash-attn does not combine its sequence parallelism with tp 4 and pp 1: priced as if "
                   "it did, as in Megatron");
}

/* ---- not built yet ---------------------------------------------------------------------------------------------- */

static void what_is_not_built_is_refused_by_name(void **state)
{
    (void)state;
    struct question question;
    describe_question(&question);
    question.layout.vpp = 2;
    question.layout.schedule = SCHEDULE_INTERLEAVED;
    expect_broken(&question, "not_built", "vpp 2 is not built yet; use --vpp 1");
    describe_question(&question);
    question.layout.schedule = SCHEDULE_ZBV;
    expect_broken(&question, "not_built", "schedule zbv is not built yet; use --schedule 1f1b");
    describe_question(&question);
    question.layout.ep = 4;
    expect_broken(&question, "not_built", "ep 4, etp 1: expert parallelism is not built yet; use --ep 1 and --etp 1");
    describe_question(&question);
    question.layout.precision = DTYPE_FP8;
    expect_broken(&question, "not_built", "precision fp8 is not built yet; use --precision bf16");
}

/* ---- divisors --------------------------------------------------------------------------------------------------- */

static void divisors_are_those_near_the_value(void **state)
{
    (void)state;
    assert_string_equal(divisors_text(arena, 1, 5), "1");
    assert_string_equal(divisors_text(arena, 36, 6), "1, 2, 3, 4, 6, 9, 12, 18, 36");
    assert_string_equal(divisors_text(arena, 61, 6), "1, 61");
    /* 720 has 30 divisors; the ten nearest to 100 */
    assert_string_equal(divisors_text(arena, 720, 100), "36, 40, 45, 48, 60, 72, 80, 90, 120, 144");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(usual_layout_is_legal_without_warnings),
        cmocka_unit_test(degrees_multiply_to_the_cluster),
        cmocka_unit_test(huge_degrees_do_not_overflow),
        cmocka_unit_test(several_broken_rules_are_joined),
        cmocka_unit_test(layers_divide_by_stages),
        cmocka_unit_test(every_stage_has_a_layer),
        cmocka_unit_test(explicit_layers_fit_model_and_stages),
        cmocka_unit_test(recompute_block_fits_a_stage),
        cmocka_unit_test(query_heads_divide_by_tp),
        cmocka_unit_test(few_key_value_heads_are_repeated_by_some),
        cmocka_unit_test(strictest_sequence_rule_is_named),
        cmocka_unit_test(sequence_divides_by_tp_alone),
        cmocka_unit_test(sequence_beyond_the_positions_is_warned),
        cmocka_unit_test(batch_divides_by_ranks_and_micro_batch),
        cmocka_unit_test(few_micro_batches_are_warned_or_refused),
        cmocka_unit_test(method_and_framework_are_a_pair),
        cmocka_unit_test(table_of_pairs),
        cmocka_unit_test(methods_without_a_split_keep_sp_1),
        cmocka_unit_test(parts_of_sp_belong_to_their_methods),
        cmocka_unit_test(frameworks_without_tp_and_pp_are_warned),
        cmocka_unit_test(what_is_not_built_is_refused_by_name),
        cmocka_unit_test(divisors_are_those_near_the_value),
    };
    return cmocka_run_group_tests(tests, open_arena, close_arena);
}
