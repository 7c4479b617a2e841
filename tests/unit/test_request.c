#include "support/support.h"

#include "spec/spec_internal.h"

#include <stdlib.h>
#include <string.h>

static struct sp_arena *arena;
static struct request request;
static struct question question;

/* llama-3.1-8b on eight H100s at 8192 tokens; tests change what they are about. */
static int open_request(void **state)
{
    (void)state;
    arena = sp_arena_open();
    request_init(&request, arena);
    request.model = "llama-3.1-8b";
    request.hardware = "dgx-h100";
    request.gpus = (struct sp_option_count){true, 8};
    request.seq = (struct sp_option_count){true, 8192};
    return 0;
}

static int close_request(void **state)
{
    (void)state;
    sp_arena_close(arena);
    return 0;
}

static void give(struct sp_option_count *count, int64_t value)
{
    *count = (struct sp_option_count){true, value};
}

static void set(const char *text)
{
    sp_texts_add(&request.set, "%s", text);
}

static void resolve(void)
{
    struct sp_error err = {0};
    if (!question_resolve(&request, arena, &question, &err)) {
        fail_msg("refused: %s", err.text);
    }
}

static void resolve_legal(void)
{
    resolve();
    struct sp_error err = {0};
    if (!layout_check(&question, &err)) {
        fail_msg("breaks a rule: %s", err.text);
    }
}

static void expect_refused(enum sp_error_kind kind, const char *text)
{
    struct sp_error err = {0};
    assert_false(question_resolve(&request, arena, &question, &err));
    assert_string_equal(err.text, text);
    assert_int_equal(err.kind, kind);
}

static void expect_assumed(const char *text, bool is_expected)
{
    if (sp_texts_has(&question.assumed, text) != is_expected) {
        fail_msg("\"%s\" is %s among: %s", text, is_expected ? "not" : "wrongly",
                 sp_join(arena, question.assumed.items, question.assumed.count, " | "));
    }
}

/* ---- defaults --------------------------------------------------------------------------------------------------- */

static void little_is_needed(void **state)
{
    (void)state;
    resolve_legal();
    const struct layout_spec *layout = &question.layout;
    assert_int_equal(question.run.gpus, 8);
    assert_int_equal(question.run.nodes, 1);
    assert_int_equal(question.run.seq, 8192);
    assert_int_equal(question.run.global_batch, 2048); /* 16 Mi / 8 Ki */
    assert_int_equal(layout->dp, 8);
    assert_int_equal(layout->method, METHOD_NONE);
    assert_int_equal(layout->framework, FRAMEWORK_MEGATRON);
    assert_int_equal(layout->schedule, SCHEDULE_1F1B);
    assert_int_equal(layout->recompute, RECOMPUTE_FULL);
    assert_int_equal(layout->zero, 1);
    assert_int_equal(layout->precision, DTYPE_BF16);
    assert_string_equal(layout->attention, "cudnn");
    assert_int_equal(layout->kernels, KERNELS_TE);
    assert_false(layout->has_tp_sp);
    assert_int_equal(layout->pp_layers, PP_LAYERS_EVEN);
    assert_int_equal(layout->order[0], AXIS_TP);
    assert_int_equal(layout->order[4], AXIS_PP);
    assert_int_equal(layout->sp_ulysses, 1);
    assert_int_equal(layout->sp_inner, 1);
    const struct run_spec *run = &question.run;
    assert_int_equal(run->parameter_dtype, DTYPE_BF16);
    assert_int_equal(run->gradient_dtype, DTYPE_FP32);
    assert_int_equal(run->moment_dtype, DTYPE_FP32);
    assert_true(run->has_master_weights && run->is_vocab_parallel && !run->expands_kv);
    assert_int_equal(run->loss, LOSS_FUSED);
    assert_int_equal(run->loss_chunk, 8192);
    assert_int_equal(run->mask, MASK_CAUSAL);
    assert_int_equal(run->window, 0);
    assert_int_equal(run->document_tokens, 0);
    assert_int_equal(run->lora_rank, 0);
    assert_int_equal(run->run_tokens, 0);
    assert_false(run->counts_full_attention || run->is_mlp_tiled);
    assert_false(layout->offloads_activations || layout->offloads_optimizer || layout->offloads_parameters);
    assert_string_equal(layout_offload_text(arena, layout), "none");
    assert_int_equal(layout->vpp, 1);
    assert_int_equal(layout->ep, 1);
    assert_int_equal(layout->etp, 1);
    assert_int_equal(question.warnings.count, 0);
}

static void defaults_follow_the_degrees(void **state)
{
    (void)state;
    give(&request.gpus, 96);
    give(&request.tp, 4);
    give(&request.sp, 6);
    give(&request.pp, 2);
    give(&request.seq, 98304);
    resolve_legal();
    assert_int_equal(question.layout.dp, 2);
    assert_int_equal(question.run.nodes, 12);
    assert_int_equal(question.layout.method, METHOD_ZIGZAG);
    assert_true(question.layout.has_tp_sp);
    request.method = METHOD_ULYSSES;
    request.tp_sp = 0;
    resolve();
    assert_int_equal(question.layout.framework, FRAMEWORK_DEEPSPEED);
    assert_int_equal(question.layout.sp_ulysses, 6);
    assert_false(question.layout.has_tp_sp);
    assert_int_equal(question.layout.kernels, KERNELS_EAGER);
    assert_int_equal(question.run.loss, LOSS_PLAIN);
    assert_int_equal(question.run.gradient_dtype, DTYPE_BF16);
}

/* usp: the largest divisor of sp 16 within a node beside tp 2, that divides 16 query and 4 key-value heads: 4. */
static void hybrid_methods_split_sp_within_a_node(void **state)
{
    (void)state;
    give(&request.gpus, 32);
    give(&request.tp, 2);
    give(&request.sp, 16);
    give(&request.seq, 131072);
    request.method = METHOD_USP;
    resolve_legal();
    assert_int_equal(question.layout.sp_ulysses, 4);
    request.method = METHOD_DOUBLE_RING;
    resolve_legal();
    assert_int_equal(question.layout.sp_inner, 4);
    give(&request.sp_inner, 8);
    resolve_legal();
    assert_int_equal(question.layout.sp_inner, 8);
    request.method = METHOD_USP;
    request.sp_inner.is_given = false;
    give(&request.sp_ulysses, 2);
    resolve_legal();
    assert_int_equal(question.layout.sp_ulysses, 2);
    /* tp 32 leaves no room in the node and no whole key-value head */
    give(&request.tp, 32);
    give(&request.sp, 1);
    request.sp_ulysses.is_given = false;
    resolve();
    assert_int_equal(question.layout.sp_ulysses, 1);
}

static void loss_and_kernels_follow_the_framework(void **state)
{
    (void)state;
    request.framework = FRAMEWORK_TORCH;
    resolve_legal();
    assert_int_equal(question.layout.kernels, KERNELS_COMPILED);
    assert_int_equal(question.run.loss, LOSS_PLAIN);
    assert_string_equal(question.software.loss.name, "plain");
    assert_int_equal(question.run.gradient_dtype, DTYPE_FP32);
    request.kernels = KERNELS_TE;
    resolve_legal();
    assert_int_equal(question.run.loss, LOSS_FUSED);
    request.framework = FRAMEWORK_ALST;
    request.kernels = -1;
    resolve_legal();
    assert_int_equal(question.run.loss, LOSS_CHUNKED);
    assert_string_equal(question.software.loss.name, "chunked");
    assert_true(question.run.is_mlp_tiled);
    expect_assumed("tiled MLP", true);
    assert_int_equal(question.warnings.count, 0);
    set("run.tiled_mlp=false");
    resolve_legal();
    assert_false(question.run.is_mlp_tiled);
    expect_assumed("tiled MLP", false);
}

/* run.loss says which; the framework says whose file that is. */
static void plain_loss_is_the_framework_s_own(void **state)
{
    (void)state;
    request.kernels = KERNELS_EAGER;
    resolve_legal();
    assert_int_equal(question.run.loss, LOSS_PLAIN);
    assert_string_equal(question.software.loss.name, "plain-megatron");
    assert_close(question.software.loss.peak_bytes_per_logit.value, 8, 0);
    set("run.loss=fused");
    set("loss.peak_bytes_per_logit=7");
    resolve_legal();
    assert_string_equal(question.software.loss.name, "fused");
    assert_close(question.software.loss.peak_bytes_per_logit.value, 7, 0);
}

static void torch_spreads_a_remainder_unasked(void **state)
{
    (void)state;
    request.model = "llama-3.1-405b";
    request.framework = FRAMEWORK_TORCH;
    give(&request.gpus, 64);
    give(&request.pp, 4);
    give(&request.tp, 8);
    resolve_legal();
    assert_int_equal(question.layout.pp_layers, PP_LAYERS_AUTO);
    expect_assumed("pp-layers auto", true);
    request.pp_layers = "auto";
    resolve_legal();
    expect_assumed("pp-layers auto", false);
    request.framework = FRAMEWORK_MEGATRON;
    request.pp_layers = "30,32,32,32";
    resolve_legal();
    assert_int_equal(question.layout.pp_layers, PP_LAYERS_EXPLICIT);
    assert_int_equal(question.layout.stage_layers[0], 30);
}

static void options_win_over_defaults(void **state)
{
    (void)state;
    request.recompute = "block:3";
    request.zero = 3;
    request.precision = DTYPE_FP8;
    request.schedule = SCHEDULE_GPIPE;
    request.attention = "fa3";
    request.flops = 1;
    request.global_batch = "40";
    give(&request.micro_batch, 5);
    resolve();
    assert_int_equal(question.layout.recompute, RECOMPUTE_BLOCK);
    assert_int_equal(question.layout.recompute_layers, 3);
    assert_int_equal(question.layout.zero, 3);
    assert_int_equal(question.layout.precision, DTYPE_FP8);
    assert_int_equal(question.layout.schedule, SCHEDULE_GPIPE);
    assert_string_equal(question.layout.attention, "fa3");
    assert_true(question.run.counts_full_attention);
    assert_int_equal(question.run.global_batch, 40);
    expect_assumed("recompute full", false);
    expect_assumed("zero 1", false);
}

/* ---- cluster ---------------------------------------------------------------------------------------------------- */

static void nodes_and_gpus_agree(void **state)
{
    (void)state;
    request.gpus.is_given = false;
    give(&request.nodes, 3);
    resolve();
    assert_int_equal(question.run.gpus, 24);
    give(&request.gpus, 24);
    resolve();
    give(&request.gpus, 32);
    expect_refused(SP_ERROR_USAGE, "32 gpus are 4 nodes of 8, not the 3 of --nodes; give one of the two");
    request.nodes.is_given = false;
    give(&request.gpus, 5); /* part of a node */
    resolve();
    assert_int_equal(question.run.nodes, 1);
    give(&request.gpus, 12);
    expect_refused(SP_ERROR_USAGE, "12 gpus: expected up to the 8 of a node or a multiple of 8; nearest: 8, 16");
    give(&request.gpus, (int64_t)1 << 40);
    expect_refused(SP_ERROR_USAGE, "1099511627776 gpus: expected at most 1073741824");
}

/* A domain wider than a node: trays of 4, two domains of 72 and a part of a third. */
static void trays_of_a_wide_domain(void **state)
{
    (void)state;
    set("node.gpus=4");
    set("node.nvlink_domain=72");
    give(&request.gpus, 148);
    resolve_legal();
    assert_int_equal(question.run.nodes, 37);
    give(&request.gpus, 6);
    expect_refused(SP_ERROR_USAGE, "6 gpus: expected up to the 4 of a node or a multiple of 4; nearest: 4, 8");
}

/* clang-format off */
#define FIGURE(value) "{\"value\": " value ", \"kind\": \"assumed\", \"source\": \"a box under the desk\"}"
static const char lone_box[] =
    "{\"schema\": \"seqplan.hardware/1\", \"name\": \"lone-box\", \"title\": \"Lone box\", \"gpu\": \"h100-sxm\","
    "\"node\": {\"gpus\": " FIGURE("2") ", \"nvlink_domain\": " FIGURE("2") ", \"nics\": " FIGURE("0") ","
    "\"host_memory\": " FIGURE("\"128GB\"") ", \"power\": " FIGURE("\"2kW\"") "},"
    "\"intra\": {\"title\": \"PCIe\", \"medium\": \"pcie\", \"bandwidth\": " FIGURE("\"50GB/s\"") ","
    "\"latency\": " FIGURE("\"9us\"") "}}";
/* clang-format on */

static void machine_without_a_network_stays_alone(void **state)
{
    (void)state;
    char *folder = temp_folder_open();
    request.hardware = temp_file(arena, folder, "lone-box.json", lone_box, strlen(lone_box));
    give(&request.gpus, 2);
    resolve_legal();
    give(&request.gpus, 4);
    expect_refused(SP_ERROR_USAGE, "4 gpus need a network and lone-box has none: add --network NAME");
    request.network = "eth-100g";
    expect_refused(SP_ERROR_USAGE,
                   "4 gpus need a network and the nodes of lone-box have no NIC: add --set node.nics=N");
    sp_texts_add(&request.set, "node.nics=1");
    resolve_legal();
    temp_folder_close(folder);
}

static void degrees_that_do_not_divide_are_left_to_the_rules(void **state)
{
    (void)state;
    give(&request.sp, 3);
    resolve();
    struct sp_error err = {0};
    assert_false(layout_check(&question, &err));
    assert_string_equal(err.rule, "gpus_product");
    give(&request.tp, (int64_t)1 << 40);
    give(&request.pp, (int64_t)1 << 40);
    give(&request.dp, (int64_t)1 << 40);
    resolve();
    assert_false(layout_check(&question, &err));
}

static void what_is_missing_is_listed(void **state)
{
    (void)state;
    request.model = NULL;
    request.seq.is_given = false;
    expect_refused(SP_ERROR_USAGE, "missing --model NAME|PATH, --seq LEN");
    request_init(&request, arena);
    expect_refused(SP_ERROR_USAGE, "missing --model NAME|PATH, --hardware NAME|PATH, --gpus N or --nodes N, --seq LEN");
}

static void unknown_names_are_input_errors(void **state)
{
    (void)state;
    request.model = "lama-3.1-8b";
    expect_refused(SP_ERROR_INPUT,
                   "unknown model \"lama-3.1-8b\": did you mean \"llama-3.1-8b\"? (a file is given as a "
                   "path, with a / or .json)");
    request.model = "llama-3.1-8b";
    request.hardware = "dgx-h10";
    expect_refused(SP_ERROR_INPUT,
                   "unknown hardware \"dgx-h10\": did you mean \"dgx-h100\"? (a file is given as a path, "
                   "with a / or .json)");
}

static void attention_kernel_has_a_curve(void **state)
{
    (void)state;
    request.attention = "fa4";
    expect_refused(SP_ERROR_USAGE, "--attention fa4: h100-sxm has no curve of that kernel; it has cudnn, fa2, fa3");
}

/* ---- global batch ----------------------------------------------------------------------------------------------- */

static void default_batch_fills_ranks_and_stages(void **state)
{
    (void)state;
    request.model = "llama-3.1-70b";
    give(&request.gpus, 512);
    give(&request.tp, 8);
    give(&request.sp, 8);
    give(&request.pp, 8);
    give(&request.seq, 1048576);
    resolve_legal();
    assert_int_equal(question.run.global_batch, 16);
    expect_assumed("global batch 16", true);
    give(&request.seq, 8388608); /* two sequences are 16 Mi tokens; eight fill the stages */
    resolve_legal();
    assert_int_equal(question.run.global_batch, 8);
    /* 16 Mi / 1 Mi = 16, raised to a multiple of dp 8 x 3 */
    give(&request.seq, 1048576);
    request.pp.is_given = false;
    give(&request.micro_batch, 3);
    resolve_legal();
    assert_int_equal(question.run.global_batch, 24);
    /* 16777216 / 98304 = 170.7, rounded up to 171, and to a multiple of 8 */
    give(&request.seq, 98304);
    give(&request.micro_batch, 1);
    resolve_legal();
    assert_int_equal(question.run.global_batch, 176);
    give(&request.gpus, 64); /* tp 8 x sp 8 x dp 1 */
    resolve_legal();
    assert_int_equal(question.run.global_batch, 171);
}

static void batch_is_sequences_or_tokens(void **state)
{
    (void)state;
    request.global_batch = "16Mtok";
    resolve();
    assert_int_equal(question.run.global_batch, 2048);
    expect_assumed("global batch 2048", false);
    request.global_batch = "24576tok";
    resolve();
    assert_int_equal(question.run.global_batch, 3);
    request.global_batch = "20000tok"; /* 2.44 sequences */
    expect_refused(SP_ERROR_USAGE, "--global-batch: expected a multiple of the sequence of 8192 tokens, found 20000 "
                                   "tokens; the nearest number of sequences is 2");
    request.global_batch = "22000tok"; /* 2.69 sequences */
    expect_refused(SP_ERROR_USAGE, "--global-batch: expected a multiple of the sequence of 8192 tokens, found 22000 "
                                   "tokens; the nearest number of sequences is 3");
    request.global_batch = "100tok";
    expect_refused(SP_ERROR_USAGE, "--global-batch: expected a multiple of the sequence of 8192 tokens, found 100 "
                                   "tokens; the nearest number of sequences is 1");
    static const char *const bad[] = {
        "", "tok", "0", "-4", "4.5", "16M", "0tok", "many", "4 ", "9999999Gtok", "99999999999999999999"};
    for (size_t i = 0; i < SP_COUNT_OF(bad); i++) {
        request.global_batch = bad[i];
        expect_refused(SP_ERROR_USAGE, sp_format(arena,
                                                 "--global-batch: expected sequences such as \"64\" or tokens such as "
                                                 "\"16Mtok\", found \"%s\"",
                                                 bad[i]));
    }
}

static void micro_batch_is_bounded(void **state)
{
    (void)state;
    give(&request.micro_batch, (int64_t)1 << 21);
    expect_refused(SP_ERROR_USAGE, "micro-batch 2097152: expected at most 1048576 sequences");
}

/* ---- values that are more than a word --------------------------------------------------------------------------- */

static void recompute_is_a_word_or_a_block(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum recompute_kind kind;
        int64_t layers;
    } good[] = {{"none", RECOMPUTE_NONE, 0},
                {"selective", RECOMPUTE_SELECTIVE, 0},
                {"full", RECOMPUTE_FULL, 0},
                {"block:17", RECOMPUTE_BLOCK, 17}};
    for (size_t i = 0; i < SP_COUNT_OF(good); i++) {
        request.recompute = good[i].text;
        resolve();
        assert_int_equal(question.layout.recompute, good[i].kind);
        assert_int_equal(question.layout.recompute_layers, good[i].layers);
    }
    static const char *const bad[] = {"", "block", "block:", "block:0", "block:-1", "block:2x", "Full", "all"};
    for (size_t i = 0; i < SP_COUNT_OF(bad); i++) {
        request.recompute = bad[i];
        expect_refused(SP_ERROR_USAGE, sp_format(arena,
                                                 "--recompute: expected none, selective, full or block:N (N layers per "
                                                 "stage), found \"%s\"",
                                                 bad[i]));
    }
}

static void pp_layers_is_a_word_or_counts(void **state)
{
    (void)state;
    give(&request.pp, 2);
    request.pp_layers = "padded";
    resolve_legal();
    assert_int_equal(question.layout.pp_layers, PP_LAYERS_PADDED);
    request.pp_layers = "15,17";
    resolve_legal();
    assert_int_equal(question.layout.n_stage_layers, 2);
    assert_int_equal(question.layout.stage_layers[1], 17);
    static const char *const bad[] = {"", ",", "15,", ",17", "15,17,", "15;17", "even", "15,0,17", "-15,47"};
    for (size_t i = 0; i < SP_COUNT_OF(bad); i++) {
        request.pp_layers = bad[i];
        expect_refused(SP_ERROR_USAGE, sp_format(arena,
                                                 "--pp-layers: expected auto, padded or layers per stage such as "
                                                 "\"7,8,8,7\", found \"%s\"",
                                                 bad[i]));
    }
}

static void order_is_any_permutation(void **state)
{
    (void)state;
    set("layout.order=pp-tp-ep-cp-dp");
    resolve_legal();
    const enum axis expected[N_AXES] = {AXIS_PP, AXIS_TP, AXIS_EP, AXIS_CP, AXIS_DP};
    for (int i = 0; i < N_AXES; i++) {
        assert_int_equal(question.layout.order[i], expected[i]);
    }
    static const char *const bad[] = {"",
                                      "tp",
                                      "tp-cp-ep-dp",
                                      "tp-cp-ep-dp-pp-",
                                      "tp-cp-ep-dp-pp-tp",
                                      "tp-cp-ep-dp-dp",
                                      "tp-sp-ep-dp-pp",
                                      "tp cp ep dp pp",
                                      "-tp-cp-ep-dp-pp"};
    for (size_t i = 0; i < SP_COUNT_OF(bad); i++) {
        request.set.count = 0;
        set(sp_format(arena, "layout.order=%s", bad[i]));
        expect_refused(SP_ERROR_USAGE, sp_format(arena,
                                                 "--set: layout.order: expected tp, cp, ep, dp and pp once each, the "
                                                 "fastest first, such as \"tp-cp-ep-dp-pp\", found \"%s\"",
                                                 bad[i]));
    }
}

/* ---- --set ------------------------------------------------------------------------------------------------------ */

static void settings_reach_every_input(void **state)
{
    (void)state;
    set("gpu.hbm_bandwidth=8TB/s");
    set("network.bandwidth=200Gb/s");
    set("intra.latency=0s");
    set("node.power=9kW");
    set("model.num_hidden_layers=4");
    set("framework.host_tail=0s");
    set("kernels.saved_ffn_tensors=4");
    set("loss.peak_bytes_per_logit=7");
    set("run.parameter_dtype=fp32");
    set("run.gradient_dtype=bf16");
    set("run.moment_dtype=bf16");
    set("run.master_weights=false");
    set("run.loss=chunked");
    set("run.loss_chunk=4K");
    set("run.vocab_parallel=false");
    set("run.expand_kv=true");
    set("run.tiled_mlp=false");
    resolve_legal();
    assert_close(question.hardware.gpu.hbm_bandwidth.value, 8e12, 0);
    assert_close(question.hardware.network.bandwidth.value, 25e9, 0);
    assert_close(question.hardware.intra.latency.value, 0, 0);
    assert_close(question.hardware.node.power.value, 9e3, 0);
    assert_int_equal(question.model.n_layers, 4);
    assert_close(question.software.framework.host_tail.value, 0, 0);
    assert_close(question.software.kernels.saved_ffn_tensors.value, 4, 0);
    assert_close(question.software.loss.peak_bytes_per_logit.value, 7, 0);
    assert_string_equal(question.software.loss.name, "chunked");
    const struct run_spec *run = &question.run;
    assert_int_equal(run->parameter_dtype, DTYPE_FP32);
    assert_int_equal(run->gradient_dtype, DTYPE_BF16);
    assert_int_equal(run->moment_dtype, DTYPE_BF16);
    assert_false(run->has_master_weights || run->is_vocab_parallel);
    assert_true(run->expands_kv);
    assert_int_equal(run->loss_chunk, 4096);
}

static void last_setting_of_a_path_counts(void **state)
{
    (void)state;
    const char *items[] = {"run.loss=plain",
                           "run.loss=fused",
                           "run.loss=plain",
                           "model.num_hidden_layers=4",
                           "model.num_hidden_layers=6",
                           "model.num_hidden_layers=4"};
    request.set.items = items;
    request.set.count = SP_COUNT_OF(items);
    resolve_legal();
    assert_int_equal(question.run.loss, LOSS_PLAIN);
    assert_int_equal(question.model.n_layers, 4);
}

static void framework_setting_moves_the_run(void **state)
{
    (void)state;
    set("framework.gradient_dtype=bf16");
    resolve_legal();
    assert_int_equal(question.run.gradient_dtype, DTYPE_BF16);
}

static void bad_settings_name_their_path(void **state)
{
    (void)state;
    static const struct {
        const char *setting;
        const char *text;
    } bad[] = {
        {"gpu.hbm_bandwidth",
         "--set: expected PATH=VALUE such as \"gpu.hbm_bandwidth=8TB/s\", found \"gpu.hbm_bandwidth\""},
        {"=8TB/s", "--set: expected PATH=VALUE such as \"gpu.hbm_bandwidth=8TB/s\", found \"=8TB/s\""},
        {"gpu.hbm_bandwidth=8",
         "--set: gpu.hbm_bandwidth: expected a rate such as \"4.8TB/s\", found \"8\" (add a unit)"},
        {"gpu.no_such_field=8", "--set: unknown field \"gpu.no_such_field\""},
        {"gpus.hbm_bandwidth=8TB/s",
         "--set: unknown path \"gpus.hbm_bandwidth\" (did you mean \"gpu.hbm_bandwidth\"?)"},
        {"runs.loss=plain", "--set: unknown path \"runs.loss\" (did you mean \"run.loss\"?)"},
        {"run.loss=none", "--set: run.loss: expected one of plain, fused, chunked, found \"none\""},
        {"run.loss_chunk=0", "--set: run.loss_chunk: expected 1 to 1024G, found 0"},
        {"zzz=8", "--set: unknown path \"zzz\"; paths begin with model., gpu., node., intra., network., framework., "
                  "kernels., loss., run. or layout.order"},
        {"layout.tp=8",
         "--set: unknown path \"layout.tp\": only layout.order is set this way, the rest of a layout has "
         "options (--tp, --sp, ...)"},
        {"model.hidden=8",
         "--set model.hidden: unknown field of a config.json; seqplan show fields model lists those that are read"},
        {"framework.host_tail=3", "--set: framework.host_tail: expected a time such as \"1.2us\", found \"3\" (add a "
                                  "unit)"},
        {"run.tiled_mlp=yes", "--set: run.tiled_mlp: expected true or false, found \"yes\""},
        {"gpu.gemm_fp8.tile_rows=128",
         "--set: unknown field \"gpu.gemm_fp8.tile_rows\" (did you mean \"gpu.gemm_fp8.clock\"?)"},
        {"framework.plain_loss=fused", "--set: unknown field \"framework.plain_loss\""},
        {"node.nvlink_domain=12",
         "--set: node.nvlink_domain: expected a divisor or a multiple of the node's 8 GPUs, found 12"},
    };
    for (size_t i = 0; i < SP_COUNT_OF(bad); i++) {
        request.set.count = 0;
        set(bad[i].setting);
        expect_refused(SP_ERROR_USAGE, bad[i].text);
    }
}

/* ---- not built yet ---------------------------------------------------------------------------------------------- */

static void prefill_is_refused(void **state)
{
    (void)state;
    request.mode = 1;
    expect_refused(SP_ERROR_USAGE, "--mode prefill is not built yet; use --mode train");
    request.mode = 0;
    resolve_legal();
}

/* ---- the run ---------------------------------------------------------------------------------------------------- */

static void mask_is_a_word_or_a_window(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum mask_kind mask;
        int64_t window;
    } good[] = {{"causal", MASK_CAUSAL, 0},
                {"full", MASK_FULL, 0},
                {"window:4097", MASK_WINDOW, 4097},
                {"window:3K", MASK_WINDOW, 3072}};
    for (size_t i = 0; i < SP_COUNT_OF(good); i++) {
        request.mask = good[i].text;
        resolve();
        assert_int_equal(question.run.mask, good[i].mask);
        assert_int_equal(question.run.window, good[i].window);
    }
    static const char *const bad[] = {"",           "window",          "window:", "window:0", "window:-1",
                                      "window:1.5", "window:9999999G", "Full",    "causal:3"};
    for (size_t i = 0; i < SP_COUNT_OF(bad); i++) {
        request.mask = bad[i];
        expect_refused(SP_ERROR_USAGE,
                       sp_format(arena,
                                 "--mask: expected model, causal, full or window:N (N keys up to the query's "
                                 "own, as window:4096), found \"%s\"",
                                 bad[i]));
    }
}

static void training_is_full_or_of_a_rank(void **state)
{
    (void)state;
    request.train = "full";
    resolve();
    assert_int_equal(question.run.lora_rank, 0);
    request.train = "lora:24";
    resolve();
    assert_int_equal(question.run.lora_rank, 24);
    static const char *const bad[] = {"", "lora", "lora:", "lora:0", "lora:-4", "lora:4.5", "lora:65537", "qlora:16"};
    for (size_t i = 0; i < SP_COUNT_OF(bad); i++) {
        request.train = bad[i];
        expect_refused(SP_ERROR_USAGE, sp_format(arena,
                                                 "--train: expected full or lora:R (rank R from 1 to 65536, as "
                                                 "lora:16), found \"%s\"",
                                                 bad[i]));
    }
}

static void documents_and_tokens_are_taken_over(void **state)
{
    (void)state;
    give(&request.documents, 3001);
    give(&request.tokens, 15000000000001);
    resolve();
    assert_int_equal(question.run.document_tokens, 3001);
    assert_int_equal(question.run.run_tokens, 15000000000001);
}

static void offload_is_a_list(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *printed;
    } good[] = {{"none", "none"},
                {"optimizer", "optimizer"},
                {"parameters,activations", "activations,parameters"},
                {"optimizer,activations,parameters", "activations,optimizer,parameters"}};
    for (size_t i = 0; i < SP_COUNT_OF(good); i++) {
        request.offload = good[i].text;
        resolve();
        assert_string_equal(layout_offload_text(arena, &question.layout), good[i].printed);
    }
    assert_true(question.layout.offloads_activations && question.layout.offloads_optimizer &&
                question.layout.offloads_parameters);
    static const char *const bad[] = {
        "", ",", "all", "optimizer,", ",optimizer", "optimizer,optimizer", "none,optimizer", "optimizer, activations"};
    for (size_t i = 0; i < SP_COUNT_OF(bad); i++) {
        request.offload = bad[i];
        expect_refused(SP_ERROR_USAGE, sp_format(arena,
                                                 "--offload: expected none, or a list of activations, optimizer and "
                                                 "parameters once each, as \"activations,optimizer\", found \"%s\"",
                                                 bad[i]));
    }
}

/* ---- precision -------------------------------------------------------------------------------------------------- */

/* What is stored follows --precision: bf16 beside fp8 operands; float32 needs no copy of itself. */
static void precision_says_what_is_stored(void **state)
{
    (void)state;
    static const struct {
        enum dtype precision, parameters, megatron_gradients, deepspeed_gradients;
        bool has_master_weights;
    } cases[] = {
        {DTYPE_BF16, DTYPE_BF16, DTYPE_FP32, DTYPE_BF16, true},
        {DTYPE_FP8, DTYPE_BF16, DTYPE_FP32, DTYPE_BF16, true},
        {DTYPE_FP16, DTYPE_FP16, DTYPE_FP32, DTYPE_FP16, true},
        {DTYPE_FP32, DTYPE_FP32, DTYPE_FP32, DTYPE_FP32, false},
    };
    for (size_t i = 0; i < SP_COUNT_OF(cases); i++) {
        request.precision = (int)cases[i].precision;
        request.framework = FRAMEWORK_MEGATRON;
        resolve_legal();
        assert_int_equal(question.run.parameter_dtype, cases[i].parameters);
        assert_int_equal(question.run.gradient_dtype, cases[i].megatron_gradients);
        assert_int_equal(question.run.moment_dtype, DTYPE_FP32);
        assert_int_equal(question.run.has_master_weights, cases[i].has_master_weights);
        expect_assumed("parameters fp32", cases[i].parameters == DTYPE_FP32);
        expect_assumed("fp8 GEMM curve (derived)", cases[i].precision == DTYPE_FP8);
        request.framework = FRAMEWORK_DEEPSPEED;
        resolve_legal();
        assert_int_equal(question.run.gradient_dtype, cases[i].deepspeed_gradients);
    }
    set("run.master_weights=true");
    resolve_legal();
    assert_true(question.run.has_master_weights);
}

static void fp8_needs_a_table(void **state)
{
    (void)state;
    request.precision = DTYPE_FP8;
    resolve_legal();
    request.hardware = "dgx-a100";
    struct sp_error err = {0};
    assert_false(question_resolve(&request, arena, &question, &err));
    assert_int_equal(err.kind, SP_ERROR_USAGE);
    assert_string_equal(err.rule, "precision");
    assert_error_contains(&err, "precision fp8: a100-sxm-80 has no table of fp8 products; GPUs with one: ");
    assert_error_contains(&err, "h100-sxm, h200-sxm");
}

/* ---- schedules -------------------------------------------------------------------------------------------------- */

static void schedule_follows_the_chunks(void **state)
{
    (void)state;
    give(&request.pp, 4);
    static const struct {
        int64_t vpp; /* 0: not given */
        int schedule;
        enum schedule_id expected;
        int64_t expected_vpp;
    } cases[] = {
        {0, -1, SCHEDULE_1F1B, 1},
        {1, -1, SCHEDULE_1F1B, 1},
        {2, -1, SCHEDULE_INTERLEAVED, 2},
        {4, SCHEDULE_INTERLEAVED, SCHEDULE_INTERLEAVED, 4},
        {0, SCHEDULE_GPIPE, SCHEDULE_GPIPE, 1},
        {0, SCHEDULE_ZB_H1, SCHEDULE_ZB_H1, 1},
        {0, SCHEDULE_ZBV, SCHEDULE_ZBV, 2},
        {1, SCHEDULE_ZBV, SCHEDULE_ZBV, 2},
        {2, SCHEDULE_ZBV, SCHEDULE_ZBV, 2},
        {0, SCHEDULE_DUALPIPE, SCHEDULE_DUALPIPE, 1},
    };
    for (size_t i = 0; i < SP_COUNT_OF(cases); i++) {
        request.vpp = (struct sp_option_count){cases[i].vpp > 0, cases[i].vpp};
        request.schedule = cases[i].schedule;
        resolve_legal();
        assert_int_equal(question.layout.schedule, cases[i].expected);
        assert_int_equal(question.layout.vpp, cases[i].expected_vpp);
    }
}

/* 16 Mi tokens of 3 Mi are six sequences; pp 4 x dp 2: eight for 1f1b, by pp for interleaved, twice pp for dualpipe. */
static void default_batch_fits_the_schedule(void **state)
{
    (void)state;
    give(&request.pp, 4);
    give(&request.seq, (int64_t)3 << 20);
    resolve_legal();
    assert_int_equal(question.run.global_batch, 8);
    request.schedule = SCHEDULE_DUALPIPE;
    resolve_legal();
    assert_int_equal(question.run.global_batch, 16);
    /* 16 Mi / 640 Ki = 25.6: 26 sequences, 13 micro-batches, 14 or 16 of them */
    give(&request.seq, (int64_t)640 << 10);
    resolve_legal();
    assert_int_equal(question.run.global_batch, 28);
    request.schedule = -1;
    give(&request.vpp, 2);
    resolve_legal();
    assert_int_equal(question.run.global_batch, 32);
}

/* torch spreads what does not divide by pp x vpp: 36 layers over 4 x 2. */
static void torch_spreads_over_chunks_too(void **state)
{
    (void)state;
    request.model = "qwen3-8b";
    request.framework = FRAMEWORK_TORCH;
    give(&request.pp, 4);
    resolve_legal();
    assert_int_equal(question.layout.pp_layers, PP_LAYERS_EVEN);
    give(&request.vpp, 2);
    resolve_legal();
    assert_int_equal(question.layout.pp_layers, PP_LAYERS_AUTO);
}

static void experts_have_their_degrees(void **state)
{
    (void)state;
    request.model = "qwen3-235b-a22b";
    give(&request.gpus, 96);
    give(&request.tp, 4);
    give(&request.ep, 16);
    give(&request.etp, 3);
    resolve_legal();
    assert_int_equal(question.layout.ep, 16);
    assert_int_equal(question.layout.etp, 3);
    assert_int_equal(question.layout.dp, 24);
    assert_int_equal(question.model.n_experts, 128);
}

/* ---- assumed ---------------------------------------------------------------------------------------------------- */

static void defaulted_inputs_are_named(void **state)
{
    (void)state;
    resolve_legal();
    static const char *const expected[] = {"recompute full",
                                           "global batch 2048",
                                           "zero 1",
                                           "gradients fp32",
                                           "moments fp32 with master weights",
                                           "loss fused",
                                           "framework.host_tail (fitted)",
                                           "gpu.gemm.sustained_factor (fitted)",
                                           "cudnn attention curve (derived)"};
    for (size_t i = 0; i < SP_COUNT_OF(expected); i++) {
        expect_assumed(expected[i], true);
    }
    for (size_t i = 0; i < question.assumed.count; i++) {
        assert_null(strstr(question.assumed.items[i], "network."));       /* one node uses none */
        assert_null(strstr(question.assumed.items[i], "launch_latency")); /* no equation uses it */
    }
    request.recompute = "none";
    request.global_batch = "8";
    request.zero = 1;
    request.attention = "fa3"; /* measured on this GPU */
    set("run.gradient_dtype=fp32");
    set("run.moment_dtype=fp32");
    set("run.loss=fused");
    set("gpu.communication_sms=31");
    set("framework.host_tail=1ms");
    set("gpu.gemm.sustained_factor=1");
    resolve_legal();
    for (size_t i = 0; i < SP_COUNT_OF(expected); i++) {
        expect_assumed(expected[i], false);
    }
}

static void network_figures_count_beyond_a_domain(void **state)
{
    (void)state;
    give(&request.gpus, 16);
    resolve_legal();
    struct sp_figure *latency = &question.hardware.network.latency;
    latency->kind = SP_FIGURE_ASSUMED;
    question.assumed.count = 0;
    assumed_figures(&question);
    expect_assumed("network.latency (assumed)", true);
    question.run.gpus = 8;
    question.assumed.count = 0;
    assumed_figures(&question);
    expect_assumed("network.latency (assumed)", false);
}

/* A figure is named only where it counts: rings, an offloaded optimizer, several GPUs, a power limit below the curves'. */
static void figures_are_named_where_they_count(void **state)
{
    (void)state;
    static const char ring[] = "framework.step_host_forward (assumed)";
    static const char offload[] = "framework.offload_overhead (fitted)";
    static const char power[] = "gpu.power_exponent (fitted)";
    give(&request.sp, 8);
    request.method = METHOD_ZIGZAG;
    request.framework = FRAMEWORK_RING_FLASH_ATTN;
    resolve_legal();
    expect_assumed(ring, true);
    expect_assumed(power, false);
    request.method = METHOD_ALLGATHER;
    resolve_legal();
    expect_assumed(ring, false);
    request.method = METHOD_ULYSSES;
    request.framework = FRAMEWORK_DEEPSPEED;
    resolve_legal();
    expect_assumed(offload, false);
    request.offload = "optimizer";
    set("gpu.power_limit=500W");
    resolve_legal();
    expect_assumed(offload, true);
    expect_assumed(power, true);
    request.hardware = "dgx-b200";
    resolve_legal();
    expect_assumed("gpu.communication_sms (assumed)", true);
    request.sp.is_given = false;
    request.method = METHOD_ZIGZAG; /* over one rank: no ring */
    request.framework = FRAMEWORK_RING_FLASH_ATTN;
    request.offload = NULL;
    give(&request.gpus, 1);
    resolve_legal();
    expect_assumed("gpu.communication_sms (assumed)", false);
    expect_assumed(ring, false);
    expect_assumed(offload, false);
}

/* ---- --layout --------------------------------------------------------------------------------------------------- */

static const char layout_text[] =
    "{\"tp\": 2, \"sp\": 4, \"sp_method\": \"zigzag\", \"sp_ulysses\": 1, \"sp_inner\": 1, \"pp\": 3, "
    "\"pp_layers\": [10, 11, 11], \"vpp\": 1, \"schedule\": \"1f1b\", \"dp\": 5, \"ep\": 1, \"etp\": 1, "
    "\"micro_batch\": 2, "
    "\"recompute\": \"block:4\", \"zero\": 2, \"offload\": \"none\", \"precision\": \"bf16\", \"framework\": "
    "\"torch\", "
    "\"attention\": \"fa3\", \"kernels\": \"eager\", \"tp_sp\": false, \"order\": \"cp-tp-ep-dp-pp\", "
    "\"placement\": {\"tp\": \"nvlink\"}, \"run\": {\"loss\": \"chunked\", \"loss_chunk\": 512, \"master_weights\": "
    "false}}";

static bool merge(const char *text, struct request *merged, struct sp_error *err)
{
    *err = (struct sp_error){0};
    const struct sp_json *json = sp_json_parse(arena, "best.json", text, err);
    return json != NULL && layout_file_apply(arena, "best.json", json, &request, merged, err);
}

static void layout_file_is_read_back(void **state)
{
    (void)state;
    char *folder = temp_folder_open();
    request.layout_file = temp_file(arena, folder, "best.json", layout_text, strlen(layout_text));
    give(&request.gpus, 120);
    resolve_legal();
    const struct layout_spec *layout = &question.layout;
    assert_int_equal(layout->tp, 2);
    assert_int_equal(layout->sp, 4);
    assert_int_equal(layout->pp, 3);
    assert_int_equal(layout->dp, 5);
    assert_int_equal(layout->micro_batch, 2);
    assert_int_equal(layout->method, METHOD_ZIGZAG);
    assert_int_equal(layout->framework, FRAMEWORK_TORCH);
    assert_int_equal(layout->kernels, KERNELS_EAGER);
    assert_int_equal(layout->recompute, RECOMPUTE_BLOCK);
    assert_int_equal(layout->recompute_layers, 4);
    assert_int_equal(layout->zero, 2);
    assert_string_equal(layout->attention, "fa3");
    assert_false(layout->has_tp_sp);
    assert_int_equal(layout->pp_layers, PP_LAYERS_EXPLICIT);
    assert_int_equal(layout->stage_layers[0], 10);
    assert_int_equal(layout->order[0], AXIS_CP);
    assert_int_equal(question.run.loss, LOSS_CHUNKED);
    assert_int_equal(question.run.loss_chunk, 512);
    assert_false(question.run.has_master_weights);
    expect_assumed("loss chunked", false);
    temp_folder_close(folder);
}

static void layout_of_an_answer_is_taken(void **state)
{
    (void)state;
    struct request merged;
    struct sp_error err;
    const char *answer =
        sp_format(arena, "{\"schema\": \"seqplan.estimate/1\", \"fits\": true, \"layout\": %s}", layout_text);
    assert_true(merge(answer, &merged, &err));
    assert_int_equal(merged.pp.value, 3);
    assert_false(merge("{\"schema\": \"seqplan.plan/1\", \"plans\": []}", &merged, &err));
    assert_int_equal(err.kind, SP_ERROR_INPUT);
    assert_string_equal(err.text,
                        "best.json: $: expected a layout or an answer with one, found \"seqplan.plan/1\" without "
                        "\"layout\" (take one of its rows or plans)");
    assert_false(merge("{\"layout\": {\"tpp\": 1}}", &merged, &err));
    assert_string_equal(err.text, "best.json: $.layout: unknown key \"tpp\" (did you mean \"tp\"?)");
}

/* The question of an answer, with what it assumed: read back alone it is the same question. */
static const char *answer_text(void)
{
    return sp_format(arena,
                     "{\"schema\": \"seqplan.estimate/1\", \"model\": \"qwen3-8b\", \"hardware\": \"dgx-h200\", "
                     "\"network\": \"ib-xdr\", \"gpus\": 120, \"seq\": 24576, \"global_batch\": 690, \"mask\": "
                     "\"window:512\", \"documents\": 2048, \"train\": \"lora:9\", \"fits\": true, \"layout\": %s, "
                     "\"assumed\": [\"recompute block\", \"global batch 690\", \"zero 2\", \"moments fp32\", 7]}",
                     layout_text);
}

static void answer_is_a_question_of_its_own(void **state)
{
    (void)state;
    char *folder = temp_folder_open();
    const char *text = answer_text();
    request_init(&request, arena);
    request.layout_file = temp_file(arena, folder, "answer.json", text, strlen(text));
    request.attention = "fa2"; /* no fa3 on H200 */
    set("model.num_hidden_layers=32");
    resolve_legal();
    assert_string_equal(question.model.name, "qwen3-8b");
    assert_string_equal(question.hardware.name, "dgx-h200");
    assert_string_equal(question.hardware.network.name, "ib-xdr");
    assert_int_equal(question.run.gpus, 120);
    assert_int_equal(question.run.seq, 24576);
    assert_int_equal(question.run.global_batch, 690);
    assert_int_equal(question.run.mask, MASK_WINDOW);
    assert_int_equal(question.run.window, 512);
    assert_int_equal(question.run.document_tokens, 2048);
    assert_int_equal(question.run.lora_rank, 9);
    assert_int_equal(question.layout.dp, 5);
    /* What it had assumed is still assumed, and nothing that it had been told. */
    expect_assumed("recompute block", true);
    expect_assumed("global batch 690", true);
    expect_assumed("zero 2", true);
    expect_assumed("moments fp32", true);
    expect_assumed("loss chunked", false);
    expect_assumed("gradients fp32", true); /* the answer does not say: a default */
    request.recompute = "block:4";
    request.zero = 2;
    set("run.moment_dtype=fp32");
    resolve();
    expect_assumed("recompute block", false);
    expect_assumed("zero 2", false);
    expect_assumed("moments fp32", false);
    expect_assumed("global batch 690", true);
    temp_folder_close(folder);
}

static void options_win_over_the_answer(void **state)
{
    (void)state;
    struct request merged;
    struct sp_error err;
    assert_true(merge(answer_text(), &merged, &err)); /* model, hardware, gpus 8 and seq are given */
    assert_string_equal(merged.model, "llama-3.1-8b");
    assert_string_equal(merged.hardware, "dgx-h100");
    assert_null(merged.network); /* of other hardware */
    assert_int_equal(merged.gpus.value, 8);
    assert_int_equal(merged.seq.value, 8192);
    assert_false(merged.dp.is_given); /* of another cluster */
    assert_null(merged.global_batch); /* worked out for another sequence */
    request_init(&request, arena);
    give(&request.nodes, 30);
    request.hardware = "dgx-h100";
    request.global_batch = "720";
    request.mask = "full";
    assert_true(merge(answer_text(), &merged, &err));
    assert_false(merged.gpus.is_given);
    assert_false(merged.dp.is_given);
    assert_string_equal(merged.global_batch, "720");
    assert_string_equal(merged.mask, "full");
    assert_false(sp_texts_has(&merged.assumed, "global batch 690"));
    assert_true(sp_texts_has(&merged.assumed, "zero 2"));
    /* A batch that was asked for stays, whatever changes. */
    request.global_batch = NULL;
    const char *asked = "{\"global_batch\": 690, \"network\": null, \"layout\": {\"tp\": 2}}";
    assert_true(merge(asked, &merged, &err));
    assert_string_equal(merged.global_batch, "690");
    assert_null(merged.network);
}

static void bad_answers_are_refused_with_their_place(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *error;
    } bad[] = {
        {"{\"layout\": {}, \"model\": 7}", "best.json: $.model: expected a string, found 7"},
        {"{\"layout\": {}, \"gpus\": \"8\"}", "best.json: $.gpus: expected a whole number, found \"8\""},
        {"{\"layout\": {}, \"seq\": 0}", "best.json: $.seq: expected a whole number from 1 on, found 0"},
        {"{\"layout\": {}, \"global_batch\": 1.5}",
         "best.json: $.global_batch: expected a whole number from 1 on, found 1.5"},
        {"{\"layout\": {}, \"assumed\": {}}", "best.json: $.assumed: expected an array, found an object"},
        {"{\"layout\": {\"offload\": [\"all\"]}}",
         "best.json: $.layout.offload: expected none, or a list of activations, optimizer and parameters once each, as "
         "\"activations,optimizer\", found \"all\""},
    };
    for (size_t i = 0; i < SP_COUNT_OF(bad); i++) {
        struct request merged;
        struct sp_error err;
        assert_false(merge(bad[i].text, &merged, &err));
        assert_int_equal(err.kind, SP_ERROR_INPUT);
        assert_string_equal(err.text, bad[i].error);
    }
}

/* As printed and as a list. */
static void offload_of_a_file_takes_two_forms(void **state)
{
    (void)state;
    static const char *const forms[][2] = {{"\"activations,optimizer\"", "activations,optimizer"},
                                           {"\"none\"", "none"},
                                           {"[]", "none"},
                                           {"[\"parameters\", \"optimizer\"]", "parameters,optimizer"}};
    for (size_t i = 0; i < SP_COUNT_OF(forms); i++) {
        struct request merged;
        struct sp_error err;
        assert_true(merge(sp_format(arena, "{\"offload\": %s}", forms[i][0]), &merged, &err));
        assert_string_equal(merged.offload, forms[i][1]);
    }
}

static void options_win_over_the_layout_file(void **state)
{
    (void)state;
    give(&request.tp, 4);
    request.framework = FRAMEWORK_MEGATRON;
    request.tp_sp = 1;
    request.recompute = "none";
    request.zero = 0;
    set("run.loss=plain");
    set("layout.order=tp-cp-ep-dp-pp");
    struct request merged;
    struct sp_error err;
    assert_true(merge(layout_text, &merged, &err));
    assert_int_equal(merged.tp.value, 4);
    assert_int_equal(merged.sp.value, 4);
    assert_int_equal(merged.framework, FRAMEWORK_MEGATRON);
    assert_int_equal(merged.tp_sp, 1);
    assert_string_equal(merged.recompute, "none");
    assert_int_equal(merged.zero, 0);
    assert_false(merged.dp.is_given); /* what the changed degrees leave */
    assert_string_equal(merged.pp_layers, "10,11,11");
    /* Settings of the user come last and win. */
    assert_string_equal(merged.set.items[merged.set.count - 2], "run.loss=plain");
    assert_string_equal(merged.set.items[merged.set.count - 1], "layout.order=tp-cp-ep-dp-pp");
    assert_int_equal(request.set.count, 2);
}

static void derived_members_follow_a_changed_parent(void **state)
{
    (void)state;
    static const char text[] =
        "{\"sp\": 8, \"sp_method\": \"ulysses\", \"sp_ulysses\": 8, \"pp\": 2, \"pp_layers\": [9, 23]}";
    struct request merged;
    struct sp_error err;
    assert_true(merge(text, &merged, &err));
    assert_int_equal(merged.sp_ulysses.value, 8);
    request.method = METHOD_ZIGZAG;
    give(&request.pp, 4);
    assert_true(merge(text, &merged, &err));
    assert_false(merged.sp_ulysses.is_given);
    assert_null(merged.pp_layers);
}

static void pp_layers_of_a_file_takes_three_forms(void **state)
{
    (void)state;
    struct request merged;
    struct sp_error err;
    assert_true(merge("{\"pp_layers\": null}", &merged, &err));
    assert_null(merged.pp_layers);
    assert_true(merge("{\"pp_layers\": \"auto\"}", &merged, &err));
    assert_string_equal(merged.pp_layers, "auto");
    assert_true(merge("{\"pp_layers\": [7]}", &merged, &err));
    assert_string_equal(merged.pp_layers, "7");
}

static void bad_layout_files_are_refused_with_their_place(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *error;
    } bad[] = {
        {"[]", "best.json: $: expected an object, found an array"},
        {"{\"tp\": 0}", "best.json: $.tp: expected 1 to 1099511627776, found 0"},
        {"{\"tp\": 1.5}", "best.json: $.tp: expected a number without fraction, found 1.5"},
        {"{\"tp\": \"8\"}", "best.json: $.tp: expected a number without fraction, found \"8\""},
        {"{\"zero\": 4}", "best.json: $.zero: expected 0 to 3, found 4"},
        {"{\"sp_method\": \"zig\"}",
         "best.json: $.sp_method: expected one of none, naive, allgather, ulysses, ring, zigzag, striped, usp, "
         "double-ring, fused-ring, found \"zig\""},
        {"{\"recompute\": 1}", "best.json: $.recompute: expected none, selective, full or block:N (N layers "
                               "per stage), found \"\""},
        {"{\"order\": \"tp\"}", "best.json: $.order: expected tp, cp, ep, dp and pp once each, the fastest "
                                "first, such as \"tp-cp-ep-dp-pp\", found \"tp\""},
        {"{\"pp_layers\": [7, 0]}", "best.json: $.pp_layers: expected auto, padded or layers per stage such as "
                                    "\"7,8,8,7\", found \"7,0\""},
        {"{\"pp_layers\": [7.5]}", "best.json: $.pp_layers: expected auto, padded or layers per stage such as "
                                   "\"7,8,8,7\", found \"-1\""},
        {"{\"placement\": \"x\"}", "best.json: $.placement: expected an object"},
        {"{\"run\": {\"loss\": null}}", "best.json: $.run.loss: expected a string, a number, true or false"},
        {"{\"tp_sp\": \"on\"}", "best.json: $.tp_sp: expected true or false, found \"on\""},
    };
    for (size_t i = 0; i < SP_COUNT_OF(bad); i++) {
        struct request merged;
        struct sp_error err;
        assert_false(merge(bad[i].text, &merged, &err));
        assert_int_equal(err.kind, SP_ERROR_INPUT);
        assert_string_equal(err.text, bad[i].error);
    }
    request.layout_file = "/nonexistent/best.json";
    struct sp_error err = {0};
    assert_false(question_resolve(&request, arena, &question, &err));
    assert_int_equal(err.kind, SP_ERROR_INPUT);
    assert_error_contains(&err, "/nonexistent/best.json: ");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_request, close_request)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(little_is_needed),
        TEST(defaults_follow_the_degrees),
        TEST(hybrid_methods_split_sp_within_a_node),
        TEST(loss_and_kernels_follow_the_framework),
        TEST(plain_loss_is_the_framework_s_own),
        TEST(torch_spreads_a_remainder_unasked),
        TEST(options_win_over_defaults),
        TEST(nodes_and_gpus_agree),
        TEST(trays_of_a_wide_domain),
        TEST(machine_without_a_network_stays_alone),
        TEST(degrees_that_do_not_divide_are_left_to_the_rules),
        TEST(what_is_missing_is_listed),
        TEST(unknown_names_are_input_errors),
        TEST(attention_kernel_has_a_curve),
        TEST(default_batch_fills_ranks_and_stages),
        TEST(batch_is_sequences_or_tokens),
        TEST(micro_batch_is_bounded),
        TEST(recompute_is_a_word_or_a_block),
        TEST(pp_layers_is_a_word_or_counts),
        TEST(order_is_any_permutation),
        TEST(settings_reach_every_input),
        TEST(last_setting_of_a_path_counts),
        TEST(framework_setting_moves_the_run),
        TEST(bad_settings_name_their_path),
        TEST(prefill_is_refused),
        TEST(mask_is_a_word_or_a_window),
        TEST(training_is_full_or_of_a_rank),
        TEST(documents_and_tokens_are_taken_over),
        TEST(offload_is_a_list),
        TEST(precision_says_what_is_stored),
        TEST(fp8_needs_a_table),
        TEST(schedule_follows_the_chunks),
        TEST(default_batch_fits_the_schedule),
        TEST(torch_spreads_over_chunks_too),
        TEST(experts_have_their_degrees),
        TEST(figures_are_named_where_they_count),
        TEST(defaulted_inputs_are_named),
        TEST(network_figures_count_beyond_a_domain),
        TEST(layout_file_is_read_back),
        TEST(layout_of_an_answer_is_taken),
        TEST(answer_is_a_question_of_its_own),
        TEST(options_win_over_the_answer),
        TEST(bad_answers_are_refused_with_their_place),
        TEST(offload_of_a_file_takes_two_forms),
        TEST(options_win_over_the_layout_file),
        TEST(derived_members_follow_a_changed_parent),
        TEST(pp_layers_of_a_file_takes_three_forms),
        TEST(bad_layout_files_are_refused_with_their_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
