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

/* One dense kind; tests of windows and experts use others. */
static const unsigned char all_alike[61] = {0};
static const unsigned char by_turns[61] = {0, 1, 0, 1, 0, 1, 0, 1, 0, 1}; /* the second kind: five layers */

/* A framework with what its file says of combinations. */
static void use_framework(struct question *question, enum framework_id framework)
{
    static const bool combines[N_FRAMEWORKS] = {
        [FRAMEWORK_MEGATRON] = true, [FRAMEWORK_TORCH] = true, [FRAMEWORK_IDEAL] = true};
    question->layout.framework = framework;
    question->software.framework.combines_tp_and_pp = combines[framework];
    question->software.framework.shards_in_pipelines = combines[framework] && framework != FRAMEWORK_MEGATRON;
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
                                          .max_position = 1048576,
                                          .n_kinds = 1,
                                          .kind_of_layer = all_alike};
    question->hardware.node.gpus.value = 8;
    question->hardware.node.nvlink_domain.value = 8;
    question->hardware.intra.medium = "nvlink";
    question->software.framework.repeats_kv_over_tp = true;
    question->software.framework.combines_tp_and_pp = true;
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
    expect_broken(&question, "gpus_product",
                  "96 gpus are not tp 4 x sp 3 x pp 1 x dp 4 = 48; with this tp, sp and pp, dp is 8");
    question.layout.sp = 7;
    expect_broken(&question, "gpus_product",
                  "96 gpus are not tp 4 x sp 7 x pp 1 x dp 4 = 112; legal sp with this tp and pp: "
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
    assert_error_contains(&err, "= 1.46150163733e+48; tp x sp x pp must be one of 3, 4, ");
}

/* Degrees of experts too: pp x ep x etp would not fit. */
static void huge_expert_degrees_do_not_overflow(void **state)
{
    (void)state;
    struct question question;
    describe_question(&question);
    question.model.n_experts = 24;
    question.model.expert_ffn = 1280;
    question.layout.ep = (int64_t)1 << 40;
    question.layout.etp = (int64_t)1 << 40;
    struct sp_error err = {0};
    assert_false(layout_check(&question, &err));
    assert_error_contains(&err,
                          "96 gpus are no multiple of pp 1 x ep 1099511627776 x etp 1099511627776 = 1.20892581961e+24");
    describe_question(&question);
    question.layout.vpp = (int64_t)1 << 40;
    question.layout.schedule = SCHEDULE_INTERLEAVED;
    err = (struct sp_error){0};
    assert_false(layout_check(&question, &err));
    assert_error_contains(&err, "61 layers are fewer than pp 1 x vpp 1099511627776 chunks");
}

static void several_broken_rules_are_joined(void **state)
{
    (void)state;
    struct question question;
    describe_question(&question);
    question.run.seq = 98305;
    question.run.global_batch = 13;
    use_framework(&question, FRAMEWORK_DEEPSPEED);
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

/* 80 layers over 16 x 2 chunks: two each would be 64 of them, which Megatron has trained without a word. */
static void layers_divide_by_chunks(void **state)
{
    (void)state;
    struct question question;
    describe_question(&question);
    use_stages(&question, 16);
    question.model.n_layers = 80;
    question.layout.vpp = 2;
    question.layout.schedule = SCHEDULE_INTERLEAVED;
    expect_broken(&question, "layers_over_pp",
                  "80 layers do not divide by pp 16 x vpp 2 = 32 (megatron has trained 64 of them without a word): "
                  "--pp-layers auto would use 5 x 16 a rank; vpp that divides: 1, 5");
    use_framework(&question, FRAMEWORK_IDEAL);
    question.model.n_layers = 84;
    expect_broken(&question, "layers_over_pp",
                  "84 layers do not divide by pp 16 x vpp 2 = 32: --pp-layers auto would use 5 x 6, 6 x 4, 5 x 6 a "
                  "rank; pp x vpp that divides: 2, 3, 4, 6, 7, 12, 14, 21, 28, 42");
    question.layout.pp_layers = PP_LAYERS_AUTO;
    expect_legal(&question);
    question.layout.vpp = 6;
    expect_broken(&question, "layers_over_pp",
                  "84 layers are fewer than pp 16 x vpp 6 chunks; largest vpp with this pp: 5");
    question.layout.vpp = 3;
    question.model.n_layers = 49; /* 16 x 3 + 1 */
    expect_legal(&question);
    static const int64_t uneven[] = {2, 4, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 4};
    question.layout.pp_layers = PP_LAYERS_EXPLICIT;
    question.layout.n_stage_layers = 16;
    question.layout.stage_layers = uneven;
    expect_broken(&question, "pp_layers", "stage 1 of 16 has 2 layers for vpp 3 chunks; use --vpp 2");
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
    question.layout.vpp = 3; /* chunks of 5, or 5 and 6 */
    question.layout.schedule = SCHEDULE_INTERLEAVED;
    question.layout.recompute_layers = 6;
    expect_legal(&question);
    question.layout.recompute_layers = 7;
    expect_broken(&question, "recompute_block", "recompute block:7 recomputes more than the 6 layers of a chunk");
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
    use_framework(&question, FRAMEWORK_TORCH);
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
    use_framework(&question, FRAMEWORK_RING_FLASH_ATTN);
    question.layout.tp = 1;
    question.layout.dp = 16;
    question.run.global_batch = 16;
    expect_broken(&question, "sequence_divides",
                  "sequence 100001 does not divide by 6 (ring: sp 6); nearest lengths: 99996, 100002");
    question.run.seq = 5;
    expect_broken(&question, "sequence_divides", "sequence 5 does not divide by 6 (ring: sp 6); nearest lengths: 6");
}

/* Who cuts 2 x sp chunks: TransformerEngine for all its types, PyTorch's balancer, yunchang, the zig-zag bounds. 98310 =
 * 6 x 16385 divides by sp 6 and not by 12. */
static void two_chunks_a_rank_are_the_implementation_s_rule(void **state)
{
    (void)state;
    static const struct {
        enum method_id method;
        const char *frameworks; /* by letter, as below */
    } cut[] = {{METHOD_ALLGATHER, "mti"}, {METHOD_ULYSSES, "m"}, {METHOD_RING, ""},         {METHOD_ZIGZAG, "mtri"},
               {METHOD_STRIPED, ""},      {METHOD_USP, "mri"},   {METHOD_DOUBLE_RING, "i"}, {METHOD_FUSED_RING, "i"}};
    static const char letters[] = "mtdari";
    for (size_t i = 0; i < SP_COUNT_OF(cut); i++) {
        for (int framework = 0; framework < N_FRAMEWORKS; framework++) {
            struct question question;
            describe_question(&question);
            question.layout.method = cut[i].method;
            use_framework(&question, (enum framework_id)framework);
            question.layout.sp_ulysses = cut[i].method == METHOD_ULYSSES ? 6 : 1;
            question.layout.has_tp_sp = false;
            question.run.seq = 98310;
            bool is_cut = strchr(cut[i].frameworks, letters[framework]) != NULL;
            struct sp_error err = {0};
            if (pair_is_legal(cut[i].method, (enum framework_id)framework)) {
                assert_int_equal(layout_check(&question, &err), !is_cut);
                assert_true(!is_cut || strstr(err.text, "(") != NULL);
            }
        }
    }
}

/* The published cases: 4, 32, 24 and 4 (the last without a split: tp alone). */
static void length_is_a_multiple_of_sp_times_lcm_of_2_and_tp(void **state)
{
    (void)state;
    static const struct {
        int64_t sp, tp, unit;
    } cases[] = {{2, 2, 4}, {4, 8, 32}, {4, 3, 24}, {1, 4, 4}};
    for (size_t i = 0; i < SP_COUNT_OF(cases); i++) {
        struct question question;
        describe_question(&question);
        question.model.n_heads = 48;
        question.model.n_kv_heads = 24;
        question.model.ffn = 12288;
        question.layout.sp = cases[i].sp;
        question.layout.tp = cases[i].tp;
        question.layout.dp = 96 / cases[i].sp / cases[i].tp;
        question.layout.method = cases[i].sp == 1 ? METHOD_NONE : METHOD_ZIGZAG;
        question.run.global_batch = 96;
        for (int64_t seq = 1; seq <= 2 * cases[i].unit; seq++) {
            question.run.seq = seq;
            struct sp_error err = {0};
            assert_int_equal(layout_check(&question, &err), seq % cases[i].unit == 0);
        }
    }
}

/* 1472 over 8 ranks are 184 tokens: a multiple of 8, not of 16. Two sequences in a micro-batch make up for it. */
static void fp8_wants_16_tokens_a_rank(void **state)
{
    (void)state;
    struct question question;
    describe_question(&question);
    question.layout.sp = 8;
    question.layout.tp = 1;
    question.layout.dp = 12;
    question.run.seq = 1472;
    expect_legal(&question);
    question.layout.precision = DTYPE_FP8;
    expect_broken(&question, "sequence_divides",
                  "sequence 1472 does not divide by 128 (zigzag: 2 x sp 8, and by 16 tokens a rank under fp8); nearest "
                  "lengths: 1408, 1536");
    question.layout.micro_batch = 2;
    question.run.global_batch = 24;
    expect_legal(&question);
    question.layout.sp = 1;
    question.layout.dp = 96;
    question.layout.method = METHOD_NONE;
    question.layout.micro_batch = 4;
    question.run.global_batch = 384;
    question.run.seq = 1470;
    expect_broken(&question, "sequence_divides",
                  "sequence 1470 does not divide by 4 (4 tokens a rank under fp8); nearest lengths: 1468, 1472");
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

/* ---- documents and masks ---------------------------------------------------------------------------------------- */

static void documents_fit_the_sequence_and_its_chunks(void **state)
{
    (void)state;
    struct question question;
    describe_question(&question);
    question.run.document_tokens = 98305;
    expect_broken(&question, "documents",
                  "documents of 98305 tokens are longer than the sequence of 98304; use at most 98304");
    question.run.document_tokens = 4099; /* 12 x 341 + 7: padded to 4104 */
    expect_legal(&question);
    expect_warning(&question,
                   "documents of 4099 tokens do not divide by 12, into which each is cut: padding each to 4104 "
                   "adds 0.1 % of work that is not priced");
    describe_question(&question);
    question.run.document_tokens = 4104;
    expect_legal(&question);
    assert_int_equal(question.warnings.count, 0);
    /* All-to-all in sequence order keeps documents whole. */
    question.run.document_tokens = 4099;
    question.layout.method = METHOD_ULYSSES;
    question.layout.sp_ulysses = 6;
    use_framework(&question, FRAMEWORK_IDEAL);
    expect_legal(&question);
    assert_int_equal(question.warnings.count, 0);
    describe_question(&question);
    question.run.document_tokens = 4104;
    use_framework(&question, FRAMEWORK_TORCH);
    expect_legal(&question);
    expect_warning(&question,
                   "torch: context_parallel attends across documents (its mask is causal only): priced as if "
                   "it kept them apart");
}

static void masks_that_replace_or_hide_nothing_are_warned(void **state)
{
    (void)state;
    struct question question;
    describe_question(&question);
    question.run.mask = MASK_WINDOW;
    question.run.window = 98303;
    expect_legal(&question);
    assert_int_equal(question.warnings.count, 0);
    question.run.window = 98304;
    expect_legal(&question);
    expect_warning(&question, "window 98304 hides nothing of a sequence of 98304: the same as --mask causal");
    describe_question(&question);
    question.model.n_kinds = 2;
    question.model.kinds[1].window = 128;
    question.model.kind_of_layer = by_turns;
    expect_legal(&question);
    assert_int_equal(question.warnings.count, 0);
    question.run.mask = MASK_FULL;
    expect_legal(&question);
    expect_warning(&question, "--mask replaces the window of 128 that 5 of the 61 layers of test-61 have");
}

static void sinks_need_an_all_to_all(void **state)
{
    (void)state;
    struct question question;
    describe_question(&question);
    question.model.has_sinks = true;
    expect_broken(&question, "sinks",
                  "zigzag in megatron has no attention sinks, which test-61 needs; use --sp-method ulysses");
    question.layout.method = METHOD_ULYSSES;
    question.layout.sp_ulysses = 6;
    expect_legal(&question);
    question.layout.method = METHOD_ZIGZAG;
    question.layout.sp_ulysses = 1;
    use_framework(&question, FRAMEWORK_IDEAL);
    expect_legal(&question);
}

/* ---- experts ---------------------------------------------------------------------------------------------------- */

/* 24 experts of 1280 with shared ones of 3000, every layer. */
static void describe_experts(struct question *question)
{
    describe_question(question);
    question->model.n_experts = 24;
    question->model.experts_per_token = 5;
    question->model.expert_ffn = 1280;
    question->model.kinds[0].is_moe = true;
}

static void dense_models_have_no_expert_degrees(void **state)
{
    (void)state;
    struct question question;
    describe_question(&question);
    question.layout.ep = 4;
    expect_broken(&question, "experts", "ep 4, etp 1: test-61 has no experts; use --ep 1 and --etp 1");
    question.layout.ep = 1;
    question.layout.etp = 2;
    expect_broken(&question, "experts", "ep 1, etp 2: test-61 has no experts; use --ep 1 and --etp 1");
}

static void experts_divide_over_their_ranks(void **state)
{
    (void)state;
    struct question question;
    describe_experts(&question);
    question.layout.ep = 12;
    question.layout.etp = 4;
    expect_legal(&question);
    question.layout.ep = 16;
    question.layout.etp = 1;
    expect_broken(&question, "experts_over_ep",
                  "ep 16: 24 experts do not divide by it; legal ep: 1, 2, 3, 4, 6, 8, 12, 24");
    question.layout.ep = 1;
    question.layout.etp = 3;
    expect_broken(&question, "expert_ffn_over_etp",
                  "etp 3: an expert's width 1280 does not divide by it; legal etp: 1, 2, 4, 5, 8, 10, 16, 20, 32, 40");
}

/* The cluster is pp x ep x etp x replicas, whatever tp and sp are: published cases. 96 are no 64s. */
static void experts_live_on_the_ranks_of_the_other_axes(void **state)
{
    (void)state;
    static const struct {
        int64_t tp, sp, pp, ep, etp, min_gpus;
    } cases[] = {{2, 1, 1, 8, 1, 8}, {2, 4, 1, 8, 1, 8}, {2, 1, 2, 8, 1, 16}, {2, 1, 1, 4, 2, 8}, {4, 1, 1, 4, 1, 4}};
    for (size_t i = 0; i < SP_COUNT_OF(cases); i++) {
        for (int64_t gpus = 1; gpus <= 64; gpus++) {
            struct question question;
            describe_experts(&question);
            question.model.n_layers = 60;
            question.layout.tp = cases[i].tp;
            question.layout.sp = cases[i].sp;
            question.layout.method = cases[i].sp == 1 ? METHOD_NONE : METHOD_ZIGZAG;
            question.layout.pp = cases[i].pp;
            question.layout.ep = cases[i].ep;
            question.layout.etp = cases[i].etp;
            int64_t others = cases[i].tp * cases[i].sp * cases[i].pp;
            question.layout.dp = gpus / others > 0 ? gpus / others : 1;
            question.run.gpus = gpus;
            question.run.global_batch = question.layout.dp * 64;
            struct sp_error err = {0};
            bool is_legal = gpus % others == 0 && gpus % (cases[i].pp * cases[i].ep * cases[i].etp) == 0;
            assert_int_equal(layout_check(&question, &err), is_legal);
            assert_true(!is_legal || gpus >= cases[i].min_gpus);
            assert_true(gpus != cases[i].min_gpus || is_legal);
        }
    }
    struct question question;
    describe_experts(&question);
    question.model.n_experts = 48;
    question.layout.ep = 16;
    question.layout.etp = 4;
    expect_broken(
        &question, "expert_gpus",
        "96 gpus are no multiple of pp 1 x ep 16 x etp 4 = 64, the ranks of the experts; legal ep with this pp "
        "and etp: 1, 2, 3, 4, 6, 8, 12, 24");
    question.layout.ep = 1;
    question.layout.etp = 64;
    expect_broken(
        &question, "expert_gpus",
        "96 gpus are no multiple of pp 1 x ep 1 x etp 64 = 64, the ranks of the experts; etp must be one of 1, "
        "2, 4, 8, 16, 32");
}

/* tp splits dense layers and shared experts; without either no width of theirs counts. */
static void widths_that_are_there_divide_by_tp(void **state)
{
    (void)state;
    struct question question;
    describe_experts(&question);
    question.model.ffn = 10241;
    expect_legal(&question);
    question.model.shared_expert_ffn = 3002;
    expect_broken(
        &question, "ffn_over_tp",
        "tp 4: the shared experts' width 3002 does not divide by it; legal tp: 1, 2, 19, 38, 79, 158, 1501, 3002");
    question.model.shared_expert_ffn = 0;
    question.model.n_kinds = 2; /* and a dense kind */
    expect_broken(
        &question, "ffn_over_tp",
        "tp 4: the MLP's width 10241 does not divide by it; legal tp: 1, 7, 11, 19, 49, 77, 133, 209, 539, 931");
}

/* ---- schedules -------------------------------------------------------------------------------------------------- */

/* pp 4 over 384 GPUs, 60 layers, `micro_batches` of them. */
static void use_schedule(struct question *question, enum schedule_id schedule, int64_t vpp, int64_t micro_batches)
{
    describe_question(question);
    use_stages(question, 4);
    question->model.n_layers = 60;
    question->layout.schedule = schedule;
    question->layout.vpp = vpp;
    question->run.global_batch = 4 * micro_batches;
}

static void schedules_have_their_chunks(void **state)
{
    (void)state;
    struct question question;
    static const enum schedule_id single[] = {SCHEDULE_GPIPE, SCHEDULE_1F1B, SCHEDULE_ZB_H1, SCHEDULE_DUALPIPE};
    for (size_t i = 0; i < SP_COUNT_OF(single); i++) {
        use_schedule(&question, single[i], 1, 8);
        expect_legal(&question);
        use_schedule(&question, single[i], 3, 8);
        expect_broken(&question, "schedule",
                      sp_format(arena, "vpp 3: %s has one chunk a rank; use --vpp 1 or --schedule interleaved",
                                schedule_names[single[i]]));
    }
    use_schedule(&question, SCHEDULE_INTERLEAVED, 5, 8);
    expect_legal(&question);
    use_schedule(&question, SCHEDULE_INTERLEAVED, 1, 8);
    expect_broken(&question, "schedule",
                  "interleaved with vpp 1: it needs two chunks a rank or more; use --vpp 2 or --schedule 1f1b");
    use_schedule(&question, SCHEDULE_ZBV, 2, 8);
    question.model.n_layers = 64;
    expect_legal(&question);
    use_schedule(&question, SCHEDULE_ZBV, 3, 8);
    expect_broken(&question, "schedule", "vpp 3: zbv has 2 chunks a rank; use --vpp 2");
    use_schedule(&question, SCHEDULE_INTERLEAVED, 2, 8);
    use_stages(&question, 1);
    expect_broken(&question, "schedule", "interleaved with pp 1: it needs two stages or more; use --pp 2 or --vpp 1");
}

static void interleaved_takes_micro_batches_by_stages(void **state)
{
    (void)state;
    struct question question;
    use_schedule(&question, SCHEDULE_INTERLEAVED, 3, 12);
    expect_legal(&question);
    use_schedule(&question, SCHEDULE_INTERLEAVED, 3, 9);
    expect_broken(&question, "schedule_micro_batches",
                  "interleaved with 9 micro-batches: it needs a multiple of pp 4; nearest --global-batch: 32, 48");
    use_schedule(&question, SCHEDULE_INTERLEAVED, 3, 3);
    expect_broken(&question, "few_micro_batches",
                  "3 micro-batches are fewer than pp 4 stages, which the interleaved schedule refuses; raise "
                  "--global-batch to 16");
}

static void dualpipe_runs_from_both_ends(void **state)
{
    (void)state;
    struct question question;
    use_schedule(&question, SCHEDULE_DUALPIPE, 1, 10);
    expect_legal(&question);
    use_schedule(&question, SCHEDULE_DUALPIPE, 1, 6);
    expect_broken(&question, "schedule_micro_batches",
                  "dualpipe with 6 micro-batches: it needs 2 x pp 4 = 8 or more; raise --global-batch to 32");
    use_schedule(&question, SCHEDULE_DUALPIPE, 1, 3);
    expect_broken(&question, "schedule_micro_batches",
                  "dualpipe with 3 micro-batches: it needs 2 x pp 4 = 8 or more; raise --global-batch to 32");
    use_schedule(&question, SCHEDULE_DUALPIPE, 1, 9);
    expect_broken(&question, "schedule_micro_batches",
                  "dualpipe with 9 micro-batches: it needs an even number; nearest --global-batch: 32, 40");
    use_schedule(&question, SCHEDULE_DUALPIPE, 1, 10);
    use_stages(&question, 5);
    question.run.global_batch = 40;
    expect_broken(&question, "schedule",
                  "dualpipe with pp 5: it runs from both ends and needs an even pp; nearest: 4, 6");
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
    expect_warning(&question, "2 micro-batches over pp 6 stages: stages wait; raise --global-batch to 24 or "
                              "more, or lower pp");
    question.run.global_batch = 24; /* as many as stages */
    question.warnings.count = 0;
    expect_legal(&question);
    assert_int_equal(question.warnings.count, 0);
    question.run.global_batch = 8;
    question.layout.schedule = SCHEDULE_ZB_H1;
    expect_legal(&question);
    expect_warning(&question, "2 micro-batches over pp 6 stages: stages wait; raise --global-batch to 24 or more, or "
                              "lower pp");
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
    use_framework(&question, FRAMEWORK_DEEPSPEED);
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
    use_framework(&question, FRAMEWORK_IDEAL);
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
    use_framework(&question, FRAMEWORK_IDEAL);
    expect_legal(&question);
    question.layout.sp_inner = 5;
    expect_broken(&question, "sp_inner", "sp-inner 5 with double-ring and sp 6: expected 1, 2, 3, 6");
}

static void frameworks_without_tp_and_pp_are_warned(void **state)
{
    (void)state;
    struct question question;
    describe_question(&question);
    use_framework(&question, FRAMEWORK_RING_FLASH_ATTN);
    expect_legal(&question);
    expect_warning(&question,
                   "ring-flash-attn does not combine its sequence parallelism with tp 4 and pp 1: priced as if "
                   "it did, as in Megatron");
}

/* ---- sharding, offloading, links -------------------------------------------------------------------------------- */

static void parameters_are_offloaded_from_zero_3_only(void **state)
{
    (void)state;
    struct question question;
    describe_question(&question);
    question.layout.offloads_optimizer = true;
    question.layout.offloads_activations = true;
    expect_legal(&question);
    question.layout.offloads_parameters = true;
    question.layout.zero = 2;
    expect_broken(&question, "offload",
                  "offload parameters with zero 2: only parameters that zero 3 gathers layer by layer can live in host "
                  "memory; use --zero 3");
    question.layout.zero = 3;
    expect_legal(&question);
}

static void sharded_gradients_in_a_pipeline_are_warned(void **state)
{
    (void)state;
    static const char deepspeed[] =
        "DeepSpeed's pipeline runs with zero 0 or 1, not with zero 3: priced as if it did; use "
        "--zero 1 or --pp 1";
    static const char megatron[] =
        "zero 3 is Megatron-FSDP, which is not made for a pipeline of 6 stages: priced as if it "
        "were; use --zero 1 or --pp 1";
    struct question question;
    for (int framework = 0; framework < N_FRAMEWORKS; framework++) {
        describe_question(&question);
        use_stages(&question, 6);
        question.model.n_layers = 60;
        use_framework(&question, (enum framework_id)framework);
        question.layout.zero = 3;
        struct sp_error err = {0};
        (void)layout_check(&question, &err); /* zig-zag is not in all of them */
        bool is_deepspeed =
            framework == FRAMEWORK_DEEPSPEED || framework == FRAMEWORK_ALST || framework == FRAMEWORK_RING_FLASH_ATTN;
        assert_int_equal(sp_texts_has(&question.warnings, deepspeed), is_deepspeed);
        assert_int_equal(sp_texts_has(&question.warnings, megatron), framework == FRAMEWORK_MEGATRON);
    }
    describe_question(&question);
    use_stages(&question, 6);
    question.model.n_layers = 60;
    expect_legal(&question); /* zero 1 */
    assert_int_equal(question.warnings.count, 0);
}

/* Facts of the frameworks' files: what is warned of here is left out of plans. */
static void offloads_that_a_framework_lacks_are_warned(void **state)
{
    (void)state;
    struct question question;
    describe_question(&question);
    question.layout.offloads_activations = true;
    question.software.framework.offloads_activations = (int)OFFLOADS_KEPT;
    question.layout.recompute = RECOMPUTE_SELECTIVE;
    expect_legal(&question);
    assert_null(framework_refusal(&question));
    question.layout.recompute = RECOMPUTE_FULL;
    expect_legal(&question);
    assert_string_equal(framework_refusal(&question),
                        "megatron offloads activations only with recompute none or selective");
    assert_true(
        sp_texts_has(&question.warnings,
                     "megatron offloads activations only with recompute none or selective: priced as if it did"));
    question.software.framework.offloads_activations = (int)OFFLOADS_CHECKPOINTS;
    assert_null(framework_refusal(&question));
    question.layout.recompute = RECOMPUTE_NONE;
    assert_string_equal(framework_refusal(&question), "megatron offloads activations only with recompute full");
    question.layout.offloads_activations = false;
    question.layout.zero = 3;
    question.layout.offloads_optimizer = true;
    question.software.framework.offloads_state = (int)OFFLOADS_TOGETHER;
    assert_string_equal(framework_refusal(&question),
                        "megatron offloads optimizer and parameters only together, with zero 3");
    question.layout.offloads_parameters = true;
    assert_null(framework_refusal(&question));
    question.software.framework.offloads_state = (int)OFFLOADS_OPTIMIZER;
    assert_string_equal(framework_refusal(&question), "megatron does not offload parameters");
    question.software.framework.offloads_state = (int)OFFLOADS_EITHER;
    question.layout.offloads_optimizer = false;
    assert_string_equal(framework_refusal(&question), "megatron offloads parameters only with the optimizer");
}

/* tp 16 over nodes of 8, and tp 4 that the order pulls apart: GPUs 0, 6, 12, 18. */
static void tp_beyond_a_node_is_warned(void **state)
{
    (void)state;
    struct question question;
    describe_question(&question);
    question.model.n_heads = 48;
    question.model.n_kv_heads = 16;
    use_tp(&question, 16);
    expect_legal(&question);
    expect_warning(
        &question,
        "tp 16 spans 2 NVLink domains of 8 GPUs: each layer waits for its collectives over the network; tp of "
        "1, 2, 4, 8 stays inside");
    describe_question(&question);
    const enum axis order[N_AXES] = {AXIS_CP, AXIS_TP, AXIS_EP, AXIS_DP, AXIS_PP};
    memcpy(question.layout.order, order, sizeof(order));
    expect_legal(&question);
    expect_warning(
        &question,
        "tp 4 spans 3 NVLink domains of 8 GPUs: each layer waits for its collectives over the network; --set "
        "layout.order=tp-cp-ep-dp-pp puts its ranks side by side");
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
        cmocka_unit_test(huge_expert_degrees_do_not_overflow),
        cmocka_unit_test(several_broken_rules_are_joined),
        cmocka_unit_test(layers_divide_by_stages),
        cmocka_unit_test(every_stage_has_a_layer),
        cmocka_unit_test(layers_divide_by_chunks),
        cmocka_unit_test(explicit_layers_fit_model_and_stages),
        cmocka_unit_test(recompute_block_fits_a_stage),
        cmocka_unit_test(query_heads_divide_by_tp),
        cmocka_unit_test(few_key_value_heads_are_repeated_by_some),
        cmocka_unit_test(strictest_sequence_rule_is_named),
        cmocka_unit_test(two_chunks_a_rank_are_the_implementation_s_rule),
        cmocka_unit_test(length_is_a_multiple_of_sp_times_lcm_of_2_and_tp),
        cmocka_unit_test(fp8_wants_16_tokens_a_rank),
        cmocka_unit_test(sequence_divides_by_tp_alone),
        cmocka_unit_test(documents_fit_the_sequence_and_its_chunks),
        cmocka_unit_test(masks_that_replace_or_hide_nothing_are_warned),
        cmocka_unit_test(sinks_need_an_all_to_all),
        cmocka_unit_test(dense_models_have_no_expert_degrees),
        cmocka_unit_test(experts_divide_over_their_ranks),
        cmocka_unit_test(experts_live_on_the_ranks_of_the_other_axes),
        cmocka_unit_test(widths_that_are_there_divide_by_tp),
        cmocka_unit_test(schedules_have_their_chunks),
        cmocka_unit_test(interleaved_takes_micro_batches_by_stages),
        cmocka_unit_test(dualpipe_runs_from_both_ends),
        cmocka_unit_test(sequence_beyond_the_positions_is_warned),
        cmocka_unit_test(batch_divides_by_ranks_and_micro_batch),
        cmocka_unit_test(few_micro_batches_are_warned_or_refused),
        cmocka_unit_test(method_and_framework_are_a_pair),
        cmocka_unit_test(table_of_pairs),
        cmocka_unit_test(methods_without_a_split_keep_sp_1),
        cmocka_unit_test(parts_of_sp_belong_to_their_methods),
        cmocka_unit_test(frameworks_without_tp_and_pp_are_warned),
        cmocka_unit_test(parameters_are_offloaded_from_zero_3_only),
        cmocka_unit_test(sharded_gradients_in_a_pipeline_are_warned),
        cmocka_unit_test(offloads_that_a_framework_lacks_are_warned),
        cmocka_unit_test(tp_beyond_a_node_is_warned),
        cmocka_unit_test(divisors_are_those_near_the_value),
    };
    return cmocka_run_group_tests(tests, open_arena, close_arena);
}
