/* One answer in every format, from an estimate filled in by hand: no figure here comes from the model. */
#include "report/report.h"
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

static const double gib = 0x1p30;

/* Two nodes of eight, one pipeline stage in each. The placement is worked out, the rest is made up. */
static void fill_question(struct sp_arena *arena, struct question *question)
{
    *question = (struct question){
        .arena = arena,
        .model = {.name = "tiny", .family = "LlamaForCausalLM", .n_layers = 6},
        .hardware = {.name = "box-8",
                     .gpu = {.title = "Q100 32GB",
                             .hbm_capacity = {.value = 32 * gib, .kind = SP_FIGURE_DATASHEET, .source = "a sheet"},
                             .peak_bf16 = {.value = 500e12, .kind = SP_FIGURE_MEASURED, .source = "a bench"}},
                     .node = {.gpus = {.value = 8}, .nvlink_domain = {.value = 8}, .nics = {.value = 8}},
                     .intra = {.title = "NVLink 4", .medium = "nvlink"},
                     .network = {.name = "ib-x", .title = "InfiniBand X"}},
        .run = {.gpus = 16,
                .nodes = 2,
                .seq = 131072,
                .global_batch = 12,
                .gradient_dtype = DTYPE_FP32,
                .moment_dtype = DTYPE_FP16,
                .has_master_weights = true,
                .loss = LOSS_CHUNKED,
                .loss_chunk = 8192},
        .layout = {.tp = 2,
                   .sp = 4,
                   .pp = 2,
                   .vpp = 1,
                   .dp = 1,
                   .ep = 1,
                   .etp = 1,
                   .sp_ulysses = 1,
                   .sp_inner = 1,
                   .micro_batch = 3,
                   .method = METHOD_ZIGZAG,
                   .schedule = SCHEDULE_1F1B,
                   .recompute = RECOMPUTE_BLOCK,
                   .recompute_layers = 2,
                   .zero = 1,
                   .attention = "cudnn",
                   .kernels = KERNELS_TE,
                   .has_tp_sp = true,
                   .order = {AXIS_TP, AXIS_CP, AXIS_EP, AXIS_DP, AXIS_PP}},
        .warnings = {.arena = arena},
        .assumed = {.arena = arena},
    };
    sp_texts_add(&question->warnings, "lower pp, or raise the batch");
    sp_texts_add(&question->assumed, "zero 1");
    sp_texts_add(&question->assumed, "network.latency (assumed)");
}

static void fill_memory(struct estimate *estimate)
{
    estimate->fits = true;
    estimate->memory_bytes[MEMORY_WEIGHTS] = 3.25 * gib;
    estimate->memory_bytes[MEMORY_ACTIVATIONS] = 17.5 * gib;
    estimate->memory_bytes[MEMORY_COMMUNICATION_BUFFERS] = 0.01 * gib;
    estimate->memory_bytes[MEMORY_RUNTIME] = 2.24 * gib;
    estimate->peak_bytes = 23.0 * gib;
    estimate->capacity_bytes = 32.0 * gib;
    estimate->headroom_bytes = 9.0 * gib;
    estimate->host_capacity_bytes = 1e12;
    estimate->peak_allocated_bytes = 20.76 * gib;
    estimate->peak_reserved_bytes = 21.5 * gib;
    estimate->peak_stage = 1;
    estimate->peak_moment = MOMENT_LOSS;
    estimate->moment_bytes[MOMENT_LOSS] = 23.0 * gib;
    estimate->n_tensors = 2;
    estimate->tensors[0] = (struct tensor_row){"weights", "parameters x 2", MEMORY_WEIGHTS, 3.25 * gib};
    estimate->tensors[1] = (struct tensor_row){"saved activations", "layers x 9", MEMORY_ACTIVATIONS, 17.5 * gib};
}

static void fill_time(struct estimate *estimate)
{
    estimate->step_time_s = 12.5;
    estimate->time_s[TIME_ATTENTION] = 7.75;
    estimate->time_s[TIME_GEMM] = 4.746;
    estimate->time_s[TIME_BUBBLE] = 0.004;
    estimate->micro_batches = 4;
    estimate->n_operators = 2;
    estimate->operators[0] = (struct operator_row){.name = "attention",
                                                   .formula = "4 B H d pairs / rate",
                                                   .source = "a curve",
                                                   .item = TIME_ATTENTION,
                                                   .count = 31,
                                                   .m = 32768,
                                                   .n = 131072,
                                                   .k = 16,
                                                   .flop = 1.25e14,
                                                   .time_s = 0.25};
    estimate->operators[1] = (struct operator_row){.name = "head",
                                                   .formula = "2 m n k / rate",
                                                   .source = "a table",
                                                   .item = TIME_GEMM,
                                                   .count = 8,
                                                   .time_s = 0.593};
    estimate->n_communications = 3;
    estimate->communications[0] = (struct communication_row){.axis = AXIS_TP,
                                                             .operation = "all-gather",
                                                             .bytes_per_layer = 256e6,
                                                             .messages_per_layer = 2,
                                                             .tier = TIER_NVLINK,
                                                             .time_s = 0.5,
                                                             .exposed_s = 0.5};
    estimate->communications[1] = (struct communication_row){.axis = AXIS_CP,
                                                             .operation = "ring",
                                                             .bytes_per_layer = 1.5e6,
                                                             .tier = TIER_NVLINK,
                                                             .time_s = 0.4,
                                                             .exposed_s = 0.1};
    estimate->communications[2] = estimate->communications[1];
    estimate->communications[2].pass = STEP_RECOMPUTE;
    estimate->communications[2].exposed_s = 0.3;
}

static void fill_estimate(struct estimate *estimate)
{
    *estimate = (struct estimate){.bound = "attention"};
    fill_memory(estimate);
    fill_time(estimate);
    estimate->tokens_per_s = 125829.12;
    estimate->tokens_per_s_per_gpu = 7864.32;
    estimate->model_flop = 2.6e18;
    estimate->model_flop_per_s_per_gpu = 1.3e16;
    estimate->mfu_frac = 0.413;
    estimate->hfu_frac = 0.527;
    estimate->hbm_attention_share_frac = 0.65;
    estimate->parameters_total = 7.1e9;
    estimate->parameters_active = 6.9e9;
}

/* An answer and how it is printed. */
struct fixture {
    struct sp_arena *arena;
    struct question question;
    struct estimate estimate;
    struct answer answer;
    struct report_style style;
    char *text;
    size_t size;
};

static int open_fixture(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    assert_non_null(fixture);
    fixture->arena = sp_arena_open();
    fill_question(fixture->arena, &fixture->question);
    fill_estimate(&fixture->estimate);
    fixture->answer = (struct answer){
        .question = &fixture->question, .estimate = &fixture->estimate, .data_hash = "00112233aabbccdd"};
    fixture->style = (struct report_style){.version = "7.8.9"};
    *state = fixture;
    return 0;
}

static int close_fixture(void **state)
{
    struct fixture *fixture = *state;
    free(fixture->text);
    sp_arena_close(fixture->arena);
    free(fixture);
    return 0;
}

static const char *printed(struct fixture *fixture, enum report_format format)
{
    free(fixture->text);
    fixture->text = NULL;
    fixture->style.format = format;
    fixture->style.file = open_memstream(&fixture->text, &fixture->size);
    assert_non_null(fixture->style.file);
    report_estimate(&fixture->style, fixture->arena, &fixture->answer);
    assert_int_equal(fclose(fixture->style.file), 0);
    return fixture->text;
}

static const struct sp_json *parsed(struct fixture *fixture)
{
    struct sp_error err = {0};
    const struct sp_json *json = sp_json_parse(fixture->arena, "answer", printed(fixture, REPORT_JSON), &err);
    assert_non_null(json);
    return json;
}

static void assert_contains(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("\"%s\" is not in:\n%s", part, text);
    }
}

static void assert_within_100_columns(const char *text)
{
    while (*text != '\0') {
        size_t length = strcspn(text, "\n");
        if (length > REPORT_COLUMNS || (length > 0 && text[length - 1] == ' ')) {
            fail_msg("too long, or ends in a space: \"%.*s\"", (int)length, text);
        }
        text += length + (text[length] == '\n' ? 1 : 0);
    }
}

/* ---- JSON ------------------------------------------------------------------------------------------------------- */

static void json_has_every_key(void **state)
{
    static const char *const paths[] = {
        "schema",
        "seqplan.version",
        "seqplan.data_hash",
        "model",
        "hardware",
        "network",
        "gpus",
        "seq",
        "global_batch",
        "layout.tp",
        "layout.sp",
        "layout.sp_method",
        "layout.sp_ulysses",
        "layout.sp_inner",
        "layout.pp",
        "layout.pp_layers",
        "layout.vpp",
        "layout.schedule",
        "layout.dp",
        "layout.ep",
        "layout.etp",
        "layout.micro_batch",
        "layout.recompute",
        "layout.zero",
        "layout.offload",
        "layout.precision",
        "layout.framework",
        "layout.attention",
        "layout.kernels",
        "layout.tp_sp",
        "layout.order",
        "layout.placement.tp",
        "layout.placement.sp",
        "layout.placement.pp",
        "layout.placement.dp",
        "layout.placement.ep",
        "layout.run.parameter_dtype",
        "layout.run.gradient_dtype",
        "layout.run.moment_dtype",
        "layout.run.master_weights",
        "layout.run.loss",
        "layout.run.loss_chunk",
        "layout.run.vocab_parallel",
        "layout.run.expand_kv",
        "fits",
        "peak_bytes",
        "capacity_bytes",
        "headroom_bytes",
        "host_bytes",
        "host_capacity_bytes",
        "peak_allocated_bytes",
        "peak_reserved_bytes",
        "peak_stage",
        "peak_moment",
        "memory_bytes.weights",
        "memory_bytes.gradients",
        "memory_bytes.optimizer",
        "memory_bytes.activations",
        "memory_bytes.attention_buffers",
        "memory_bytes.logits",
        "memory_bytes.communication_buffers",
        "memory_bytes.runtime",
        "step_time_s",
        "step_time_low_s",
        "step_time_high_s",
        "tokens_per_s",
        "tokens_per_s_per_gpu",
        "model_flop_per_s_per_gpu",
        "mfu_frac",
        "hfu_frac",
        "time_s.attention",
        "time_s.gemm",
        "time_s.elementwise",
        "time_s.tp_exposed",
        "time_s.sp_exposed",
        "time_s.dp_exposed",
        "time_s.pp_exposed",
        "time_s.ep_exposed",
        "time_s.bubble",
        "time_s.imbalance",
        "time_s.optimizer",
        "time_s.offload_exposed",
        "time_s.other",
        "hbm.utilisation_frac",
        "hbm.attention_share_frac",
        "hbm.ffn_share_frac",
        "communication",
        "bound",
        "warnings",
        "assumed",
        "parameters.total",
        "parameters.active",
    };
    const struct sp_json *json = parsed(*state);
    for (size_t i = 0; i < SP_COUNT_OF(paths); i++) {
        const struct sp_json *value = report_tree_at(json, paths[i]);
        if (value == NULL) {
            fail_msg("the key %s is missing", paths[i]);
        }
        bool may_be_null = strcmp(paths[i], "step_time_low_s") == 0 || strcmp(paths[i], "step_time_high_s") == 0;
        assert_int_equal(value->type == SP_JSON_NULL, may_be_null);
    }
    assert_int_equal(report_tree_at(json, "memory_bytes")->count, 8);
    assert_int_equal(report_tree_at(json, "time_s")->count, 13);
}

static void json_has_the_values(void **state)
{
    struct fixture *fixture = *state;
    static const struct {
        const char *path;
        const char *expected;
    } texts[] = {
        {"schema", "seqplan.estimate/1"},
        {"seqplan.version", "7.8.9"},
        {"seqplan.data_hash", "00112233aabbccdd"},
        {"model", "tiny"},
        {"network", "ib-x"},
        {"layout.sp_method", "zigzag"},
        {"layout.recompute", "block:2"},
        {"layout.order", "tp-cp-ep-dp-pp"},
        {"layout.placement.tp", "nvlink"},
        {"layout.placement.pp", "network"},
        {"layout.placement.dp", "none"},
        {"layout.run.moment_dtype", "fp16"},
        {"layout.run.loss", "chunked"},
        {"peak_moment", "loss"},
        {"bound", "attention"},
    };
    static const struct {
        const char *path;
        double expected;
    } numbers[] = {
        {"gpus", 16},
        {"seq", 131072},
        {"layout.micro_batch", 3},
        {"layout.zero", 1},
        {"peak_stage", 2},
        {"step_time_s", 12.5},
        {"mfu_frac", 0.413},
        {"time_s.gemm", 4.746},
        {"micro_batches", 4},
        {"tokens_per_s_per_gpu", 7864.32},
    };
    const struct sp_json *json = parsed(fixture);
    for (size_t i = 0; i < SP_COUNT_OF(texts); i++) {
        assert_string_equal(report_tree_at(json, texts[i].path)->string, texts[i].expected);
    }
    for (size_t i = 0; i < SP_COUNT_OF(numbers); i++) {
        assert_close(report_tree_at(json, numbers[i].path)->number, numbers[i].expected, 0.0);
    }
    const struct sp_json *ring = report_tree_at(json, "communication")->first->next;
    assert_string_equal(sp_json_member(ring, "axis")->string, "sp"); /* not "cp" */
    assert_string_equal(sp_json_member(ring, "pass")->string, "forward");
    assert_close(sp_json_member(ring, "bytes_per_layer_per_gpu")->number, 1.5e6, 0.0);
    assert_int_equal(report_tree_at(json, "layout.pp_layers")->count, 2); /* 6 layers, 3 a stage */
    assert_close(report_tree_at(json, "layout.pp_layers")->first->number, 3.0, 0.0);
}

static void an_ideal_network_is_named_so(void **state)
{
    struct fixture *fixture = *state;
    fixture->question.hardware.network.is_ideal = true;
    assert_string_equal(report_tree_at(parsed(fixture), "network")->string, "ideal");
    assert_contains(printed(fixture, REPORT_TABLE), "ideal network");
}

static void rows_are_in_json_only_with_explain(void **state)
{
    struct fixture *fixture = *state;
    assert_null(report_tree_at(parsed(fixture), "operators"));
    fixture->style.explains = true;
    const struct sp_json *json = parsed(fixture);
    assert_int_equal(report_tree_at(json, "operators")->count, 2);
    assert_int_equal(report_tree_at(json, "tensors")->count, 2);
    assert_string_equal(sp_json_member(report_tree_at(json, "tensors")->first, "item")->string, "weights");
    assert_close(report_tree_at(json, "moment_bytes.loss")->number, 23.0 * gib, 0.0);
}

static void the_tree_outlives_the_question(void **state)
{
    struct fixture *fixture = *state;
    const struct sp_json *tree = report_answer_tree(&fixture->style, fixture->arena, &fixture->answer);
    fixture->question = (struct question){.arena = NULL};
    fixture->estimate = (struct estimate){.fits = false};
    assert_string_equal(report_tree_at(tree, "model")->string, "tiny");
    assert_true(report_tree_at(tree, "fits")->boolean);
}

/* ---- CSV -------------------------------------------------------------------------------------------------------- */

static void csv_has_the_json_keys_joined_by_dots(void **state)
{
    const char *text = printed(*state, REPORT_CSV);
    assert_contains(text, "schema,seqplan.version,seqplan.data_hash,model,");
    assert_contains(text, ",layout.placement.tp,");
    assert_contains(text, ",communication.0.axis,communication.0.operation,");
    assert_contains(text, ",communication.2.exposed_s,bound,warnings,assumed,parameters.total,parameters.active\n");
    /* a cell with a comma is quoted; lists are joined */
    assert_contains(text, ",attention,\"lower pp, or raise the batch\",zero 1; network.latency (assumed),7100000000,");
    const char *end = strchr(text, '\n');
    assert_non_null(end);
    assert_non_null(strchr(end + 1, '\n'));
    assert_string_equal(strchr(end + 1, '\n'), "\n"); /* two lines */
}

/* ---- table ------------------------------------------------------------------------------------------------------ */

static void the_table_is_one_screen(void **state)
{
    assert_string_equal(
        printed(*state, REPORT_TABLE),
        "tiny, 128K tokens, 16 x Q100 32GB (2 nodes, InfiniBand X)\n"
        "tp 2 (NVLink)  sp 4 zigzag (NVLink)  pp 2 1f1b (network)  dp 1\n"
        "batch 12 (4 micro-batches of 3), recompute block:2, zero 1, bf16, megatron, cudnn attention, te\n"
        "kernels\n"
        "\n"
        "  step     12.5 s             7860 tokens/s/GPU     MFU 41.3 %  HFU 52.7 %   bound: attention\n"
        "  memory   23.0 of 32.0 GiB   fits, 9.00 GiB left   peak: stage 2, loss\n"
        "\n"
        "  time           s   %   memory         GiB   communication      MB/layer  link    hidden\n"
        "  attention   7.75  62   weights        3.2   sp ring fwd+rec        1.50  NVLink    50 %\n"
        "  gemm        4.75  38   activations   17.5   tp all-gather fwd       256  NVLink     0 %\n"
        "  bubble     <0.01  <1   comm buffers  <0.1\n"
        "                         runtime        2.2\n"
        "\n"
        "  warning  lower pp, or raise the batch\n"
        "  assumed  zero 1; network.latency (assumed)\n");
}

static void a_suggestion_comes_before_the_warnings(void **state)
{
    struct fixture *fixture = *state;
    fixture->answer.suggestion = "sp 8: 3 % faster";
    assert_contains(printed(fixture, REPORT_TABLE), "  try      sp 8: 3 % faster\n  warning ");
    assert_contains(printed(fixture, REPORT_MARKDOWN), "- try: sp 8: 3 % faster\n- warning: ");
}

static void what_does_not_fit_says_so(void **state)
{
    struct fixture *fixture = *state;
    fixture->estimate.fits = false;
    fixture->estimate.headroom_bytes = -1.25 * gib;
    assert_contains(printed(fixture, REPORT_TABLE), "does not fit, 1.25 GiB over");
    assert_contains(printed(fixture, REPORT_MARKDOWN), "does not fit, 1.25 GiB over");
    fixture->estimate.headroom_bytes = 9.0 * gib;
    fixture->estimate.host_bytes = 3000.0 * gib;
    fixture->estimate.host_capacity_bytes = 2000.0 * gib;
    assert_contains(printed(fixture, REPORT_TABLE), "does not fit: host memory 3000 of 2000 GiB");
}

static void short_steps_are_in_milliseconds(void **state)
{
    struct fixture *fixture = *state;
    fixture->estimate.step_time_s = 0.0125;
    fixture->estimate.time_s[TIME_ATTENTION] = 0.0125;
    fixture->estimate.time_s[TIME_GEMM] = 0.0;
    fixture->estimate.time_s[TIME_BUBBLE] = 0.0;
    const char *text = printed(fixture, REPORT_TABLE);
    assert_contains(text, "  step     12.5 ms ");
    assert_contains(text, "  time         ms    %");
    assert_contains(text, "  attention  12.5  100");
}

static void wide_tables_stay_within_100_columns(void **state)
{
    struct fixture *fixture = *state;
    struct estimate *estimate = &fixture->estimate;
    for (int i = 0; i < (int)N_TIME_ITEMS; i++) {
        estimate->time_s[i] = 12345.6 + i;
    }
    for (int i = 0; i < (int)N_MEMORY_ITEMS; i++) {
        estimate->memory_bytes[i] = (1234.5 + i) * gib;
    }
    estimate->communications[0].operation = "reduce-scatter";
    estimate->communications[0].bytes_per_layer = 123456e6;
    estimate->communications[0].tier = TIER_NETWORK;
    fixture->question.layout.dp = 4;
    const char *text = printed(fixture, REPORT_TABLE);
    assert_within_100_columns(text);
    assert_contains(text, "attn buffers");
    fixture->style.explains = true;
    assert_within_100_columns(printed(fixture, REPORT_TABLE));
}

static void uneven_stages_are_listed(void **state)
{
    static const int64_t layers[] = {4, 2};
    struct fixture *fixture = *state;
    fixture->question.layout.pp_layers = PP_LAYERS_EXPLICIT;
    fixture->question.layout.n_stage_layers = 2;
    fixture->question.layout.stage_layers = layers;
    assert_contains(printed(fixture, REPORT_TABLE), "layers by stage 4, 2");
}

static void color_marks_the_figures_and_only_on_request(void **state)
{
    struct fixture *fixture = *state;
    assert_null(strchr(printed(fixture, REPORT_TABLE), '\033'));
    fixture->style.has_color = true;
    fixture->estimate.fits = false;
    fixture->estimate.headroom_bytes = -gib;
    const char *text = printed(fixture, REPORT_TABLE);
    assert_contains(text, "\033[1m12.5 s\033[0m");
    assert_contains(text, "\033[31mdoes not fit, 1.00 GiB over\033[0m");
}

/* ---- markdown and explain --------------------------------------------------------------------------------------- */

static void markdown_pastes_unchanged(void **state)
{
    assert_string_equal(
        printed(*state, REPORT_MARKDOWN),
        "**tiny, 128K tokens, 16 x Q100 32GB (2 nodes, InfiniBand X)**\n"
        "\n"
        "- tp 2 (NVLink)  sp 4 zigzag (NVLink)  pp 2 1f1b (network)  dp 1\n"
        "- batch 12 (4 micro-batches of 3), recompute block:2, zero 1, bf16, megatron, cudnn attention, "
        "te kernels\n"
        "- **step 12.5 s**, 7860 tokens/s/GPU, MFU 41.3 %  HFU 52.7 %, bound: attention\n"
        "- **memory 23.0 of 32.0 GiB**, fits, 9.00 GiB left, peak: stage 2, loss\n"
        "\n"
        "| time | s | % |\n"
        "| --- | ---: | ---: |\n"
        "| attention | 7.75 | 62 |\n"
        "| gemm | 4.75 | 38 |\n"
        "| bubble | <0.01 | <1 |\n"
        "\n"
        "| memory | GiB |\n"
        "| --- | ---: |\n"
        "| weights | 3.2 |\n"
        "| activations | 17.5 |\n"
        "| comm buffers | <0.1 |\n"
        "| runtime | 2.2 |\n"
        "\n"
        "| communication | MB/layer | link | hidden |\n"
        "| --- | ---: | --- | ---: |\n"
        "| sp ring fwd+rec | 1.50 | NVLink | 50 % |\n"
        "| tp all-gather fwd | 256 | NVLink | 0 % |\n"
        "\n"
        "- warning: lower pp, or raise the batch\n"
        "- assumed: zero 1; network.latency (assumed)\n");
}

static void explain_names_formula_inputs_and_source(void **state)
{
    static const char *const parts[] = {
        "global batch x seq / step = 12 x 131072 / 12.5 s",
        "model FLOP/s/GPU / dense bf16 peak = 1.30e+16 / 5.00e+14",
        "source measured: a bench",
        "source datasheet: a sheet",
        "time: attention 7.75 s, the sum of",
        "shape 32768 x 131072 x 16 (query rows, key rows, heads)",
        "formula 4 B H d pairs / rate",
        "source a curve",
        "500 TFLOP/s", /* 1.25e14 FLOP in 0.25 s */
        "time: gemm 4.74 s, the sum of",
        "memory at its peak: stage 2, loss",
        "saved activations",
        "formula layers x 9",
        "seqplan show hardware box-8 --source",
    };
    struct fixture *fixture = *state;
    fixture->style.explains = true;
    const char *text = printed(fixture, REPORT_TABLE);
    for (size_t i = 0; i < SP_COUNT_OF(parts); i++) {
        assert_contains(text, parts[i]);
    }
    assert_within_100_columns(text);
    text = printed(fixture, REPORT_MARKDOWN);
    assert_contains(text, "### time: attention 7.75 s, the sum of\n\n| operator |");
    assert_contains(text, "| attention | forward | 31 | 1.25e+14 | 500 TFLOP/s | 250 ms | 7.75 |");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_fixture, close_fixture)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(json_has_every_key),
        TEST(json_has_the_values),
        TEST(an_ideal_network_is_named_so),
        TEST(rows_are_in_json_only_with_explain),
        TEST(the_tree_outlives_the_question),
        TEST(csv_has_the_json_keys_joined_by_dots),
        TEST(the_table_is_one_screen),
        TEST(a_suggestion_comes_before_the_warnings),
        TEST(what_does_not_fit_says_so),
        TEST(short_steps_are_in_milliseconds),
        TEST(wide_tables_stay_within_100_columns),
        TEST(uneven_stages_are_listed),
        TEST(color_marks_the_figures_and_only_on_request),
        TEST(markdown_pastes_unchanged),
        TEST(explain_names_formula_inputs_and_source),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
