#include "support/support.h"

#include "spec/spec_internal.h"

#include <math.h>
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

/* ---- a small file with everything inline ------------------------------------------------------------------------ */

/* One member a line. */
/* clang-format off */
#define FIG(value) "{\"value\": " value ", \"kind\": \"measured\", \"source\": \"s\"}"
#define ATTENTION_COLUMNS " \"columns\": [\"pass\", \"mask\", \"head_dim\", \"heads\", \"sequence\", \"flop_per_s\"],"
static const char gpu_text[] =
    "{\"schema\": \"seqplan.gpu/1\", \"name\": \"g\", \"title\": \"G\", \"architecture\": \"hopper\","
    "\"hbm_capacity\": " FIG("\"81GB\"") ","
    "\"context_memory\": " FIG("\"600MB\"") ","
    "\"hbm_bandwidth\": " FIG("\"3.1TB/s\"") ","
    "\"elementwise_bandwidth\": " FIG("\"2.7TB/s\"") ","
    "\"peak_bf16\": " FIG("\"901TFLOP/s\"") ","
    "\"peak_fp16\": " FIG("\"902TFLOP/s\"") ","
    "\"peak_fp32\": " FIG("\"61TFLOP/s\"") ","
    "\"sm_count\": " FIG("131") ","
    "\"l2_capacity\": " FIG("\"51MB\"") ","
    "\"power_limit\": " FIG("\"690W\"") ","
    "\"pcie_bandwidth\": " FIG("\"53GB/s\"") ","
    "\"kernel_latency\": " FIG("\"2.5us\"") ","
    "\"launch_latency\": " FIG("\"6us\"") ","
    "\"curve_power_limit\": " FIG("\"690W\"") ","
    "\"power_exponent\": " FIG("0.7") ","
    "\"communication_sms\": " FIG("23") ","
    "\"network_communication_sms\": " FIG("11") ","
    "\"gemm\": {\"kind\": \"measured\", \"source\": \"g1\", \"tile_rows\": 128, \"tile_columns\": 256,"
    " \"columns\": [\"pass\", \"k\", \"flop_per_s\"], \"rows\": [[\"weight_gradient\", 4096, 7.1e14],"
    " [\"forward\", 8192, 7.7e14], [\"forward\", 1024, 5.5e14], [\"input_gradient\", 2048, 6.2e14]],"
    " \"ceiling\": {\"forward\": " FIG("\"690TFLOP/s\"") ","
    " \"input_gradient\": " FIG("\"680TFLOP/s\"") ","
    " \"weight_gradient\": " FIG("\"670TFLOP/s\"") "},"
    " \"sustained_factor\": " FIG("0.97") "},"
    "\"copy\": {\"kind\": \"derived\", \"source\": \"c1\", \"note\": \"n1\", \"columns\": [\"bytes\", \"seconds\"],"
    " \"rows\": [[1048576, 3e-6], [1024, 2e-6]]},"
    "\"attention\": [{\"kernel\": \"fa2\", \"kind\": \"measured\", \"source\": \"a1\", \"note\": \"first\","
    ATTENTION_COLUMNS
    " \"rows\": [[\"backward\", \"causal\", 128, 32, 4096, 3.3e14], [\"forward\", \"causal\", 128, 32, 8192, 4.2e14],"
    " [\"forward\", \"causal\", 128, 32, 2048, 3.9e14], [\"forward\", \"full\", 128, 32, 2048, 4.5e14],"
    " [\"backward\", \"full\", 128, 16, 2048, 3.5e14]],"
    " \"ceiling\": {\"columns\": [\"pass\", \"mask\", \"head_dim\", \"flop_per_s\"],"
    " \"rows\": [[\"backward\", \"causal\", 128, 3.1e14], [\"forward\", \"full\", 96, 1.4e14]], \"note\": \"long\"}},"
    " {\"kernel\": \"cudnn\", \"kind\": \"derived\", \"source\": \"a2\","
    ATTENTION_COLUMNS
    " \"rows\": [[\"forward\", \"full\", 64, 16, 1024, 2.2e14], [\"forward\", \"causal\", 64, 16, 1024, 2e14],"
    " [\"backward\", \"full\", 64, 16, 1024, 1.8e14], [\"backward\", \"causal\", 64, 16, 1024, 1.7e14]]},"
    " {\"kernel\": \"fa2\", \"kind\": \"derived\", \"source\": \"a3\", \"note\": \"second\","
    ATTENTION_COLUMNS
    " \"rows\": [[\"forward\", \"causal\", 128, 32, 4096, 4.1e14], [\"forward\", \"full\", 96, 8, 512, 1.5e14],"
    " [\"forward\", \"causal\", 96, 8, 512, 1.3e14], [\"backward\", \"full\", 96, 8, 512, 1.2e14],"
    " [\"backward\", \"causal\", 96, 8, 512, 1.1e14]]}]}";

static const char network_text[] =
    "{\"schema\": \"seqplan.network/1\", \"name\": \"n\", \"title\": \"N\","
    "\"bandwidth\": " FIG("\"400Gb/s\"") ","
    "\"efficiency\": " FIG("0.93") ","
    "\"collective_efficiency\": " FIG("0.85") ","
    "\"all_to_all_efficiency\": " FIG("0.55") ","
    "\"latency\": " FIG("\"11us\"") ", \"rail_optimised\": true}";

static const char node_text[] =
    "{\"gpus\": " FIG("6") ","
    "\"nvlink_domain\": " FIG("6") ","
    "\"nics\": " FIG("3") ","
    "\"host_memory\": " FIG("\"1.5TB\"") ","
    "\"power\": " FIG("\"9.1kW\"") "}";

static const char intra_text[] =
    "{\"title\": \"NVLink\", \"medium\": \"nvlink\","
    "\"bandwidth\": " FIG("\"410GB/s\"") ","
    "\"latency\": " FIG("\"5us\"") ", \"tables\": ["
    "{\"kind\": \"measured\", \"source\": \"t1\", \"columns\": [\"operation\", \"ranks\", \"bytes\", \"seconds\"],"
    " \"rows\": [[\"send_receive\", 2, 4096, 6e-6], [\"all_gather\", 6, 65536, 1.3e-5],"
    " [\"all_gather\", 6, 512, 9e-6]]},"
    "{\"kind\": \"derived\", \"source\": \"t2\", \"columns\": [\"operation\", \"ranks\", \"bytes\", \"seconds\"],"
    " \"rows\": [[\"all_gather\", 6, 1048576, 2e-5], [\"all_gather\", 3, 512, 7e-6]]}]}";
/* clang-format on */

static const char *whole_text(void)
{
    return sp_format(arena,
                     "{\"schema\": \"seqplan.hardware/1\", \"name\": \"h\", \"title\": \"H\", \"gpu\": %s, "
                     "\"network\": %s, \"node\": %s, \"intra\": %s}",
                     gpu_text, network_text, node_text, intra_text);
}

static bool decode(const char *text, struct hardware_spec *hardware, struct sp_error *err)
{
    *err = (struct sp_error){0};
    const struct sp_json *json = sp_json_parse(arena, "box.json", text, err);
    return json != NULL && hardware_decode(arena, "box.json", json, hardware, err);
}

/* The text with its first `old` made `new`. */
static const char *replaced(const char *text, const char *old, const char *new)
{
    const char *at = strstr(text, old);
    assert_non_null(at);
    return sp_format(arena, "%.*s%s%s", (int)(at - text), text, new, at + strlen(old));
}

static void expect_refused(const char *old, const char *new, const char *error)
{
    struct hardware_spec hardware;
    struct sp_error err;
    assert_false(decode(replaced(whole_text(), old, new), &hardware, &err));
    assert_int_equal(err.kind, SP_ERROR_INPUT);
    assert_string_equal(err.text, error);
}

/* ---- what is read ----------------------------------------------------------------------------------------------- */

static void inline_file_is_read_in_si_units(void **state)
{
    (void)state;
    struct hardware_spec hardware;
    struct sp_error err;
    if (!decode(whole_text(), &hardware, &err)) {
        fail_msg("%s", err.text);
    }
    assert_string_equal(hardware.name, "h");
    assert_string_equal(hardware.path, "box.json");
    assert_string_equal(hardware.gpu.architecture, "hopper");
    assert_close(hardware.gpu.hbm_capacity.value, 81e9, 0);
    assert_close(hardware.gpu.peak_bf16.value, 901e12, 0);
    assert_int_equal(hardware.gpu.peak_fp8.kind, SP_FIGURE_NONE);
    assert_int_equal(hardware.gpu.price.kind, SP_FIGURE_NONE);
    assert_close(hardware.gpu.kernel_latency.value, 2.5e-6, 0);
    assert_close(hardware.network.bandwidth.value, 50e9, 0);
    assert_close(hardware.network.all_to_all_efficiency.value, 0.55, 0);
    assert_true(hardware.network.is_rail_optimised);
    assert_false(hardware.network.is_ideal);
    assert_close(hardware.node.nics.value, 3, 0);
    assert_close(hardware.intra.bandwidth.value, 410e9, 0);
    assert_int_equal(hardware.intra.bandwidth.kind, SP_FIGURE_MEASURED);
}

static void gemm_rows_are_sorted_by_pass_and_k(void **state)
{
    (void)state;
    struct hardware_spec hardware;
    struct sp_error err;
    assert_true(decode(whole_text(), &hardware, &err));
    const struct gemm_curve *gemm = &hardware.gpu.gemm;
    assert_int_equal(gemm->tile_rows, 128);
    assert_int_equal(gemm->tile_columns, 256);
    assert_int_equal(gemm->n_points[PASS_FORWARD], 2);
    assert_close(gemm->log_k[PASS_FORWARD][0], log(1024), 0);
    assert_close(gemm->flop_per_s[PASS_FORWARD][0], 5.5e14, 0);
    assert_close(gemm->log_k[PASS_FORWARD][1], log(8192), 0);
    assert_int_equal(gemm->n_points[PASS_INPUT_GRADIENT], 1);
    assert_close(gemm->flop_per_s[PASS_WEIGHT_GRADIENT][0], 7.1e14, 0);
    assert_close(gemm->ceiling[PASS_INPUT_GRADIENT].value, 680e12, 0);
    assert_close(gemm->ceiling[PASS_WEIGHT_GRADIENT].value, 670e12, 0);
    assert_close(gemm->sustained.value, 0.97, 0);
    assert_string_equal(gemm->source, "g1");
    assert_close(hardware.gpu.copy.log_seconds[0], log(2e-6), 0);
    assert_string_equal(hardware.gpu.copy.note, "n1");
}

/* fa2 stands in two entries: one curve with the first's kind and note and both sources; its causal forward line has
 * points of both. Forward before backward, full before causal, then by head_dim. */
static void attention_entries_of_a_kernel_are_one_curve(void **state)
{
    (void)state;
    struct hardware_spec hardware;
    struct sp_error err;
    assert_true(decode(whole_text(), &hardware, &err));
    assert_int_equal(hardware.gpu.n_attention, 2);
    assert_null(gpu_attention_curve(&hardware.gpu, "fa3"));
    const struct attention_curve *fa2 = gpu_attention_curve(&hardware.gpu, "fa2");
    assert_non_null(fa2);
    assert_int_equal(fa2->kind, SP_FIGURE_MEASURED);
    assert_string_equal(fa2->source, "a1; a3");
    assert_string_equal(fa2->note, "first");
    assert_int_equal(fa2->n_lines, 8);
    assert_true(!fa2->lines[0].is_backward && !fa2->lines[0].is_causal);
    assert_int_equal(fa2->lines[0].head_dim, 96);
    assert_int_equal(fa2->lines[0].heads, 8);
    assert_true(!fa2->lines[3].is_backward && fa2->lines[3].is_causal);
    assert_int_equal(fa2->lines[3].head_dim, 128);
    assert_int_equal(fa2->lines[3].n_points, 3);
    assert_close(fa2->lines[3].log_sequence[1], log(4096), 0);
    assert_close(fa2->lines[3].flop_per_s[1], 4.1e14, 0);
    assert_true(fa2->lines[4].is_backward);
    const struct attention_curve *cudnn = gpu_attention_curve(&hardware.gpu, "cudnn");
    assert_non_null(cudnn);
    assert_int_equal(cudnn->kind, SP_FIGURE_DERIVED);
    assert_int_equal(cudnn->n_lines, 4);
    assert_null(cudnn->note);
}

/* The first entry's ceilings limit the lines of both: full forward of 96, causal backward of 128, and no others. */
static void ceilings_belong_to_pass_mask_and_head_dim(void **state)
{
    (void)state;
    struct hardware_spec hardware;
    struct sp_error err;
    assert_true(decode(whole_text(), &hardware, &err));
    const struct attention_curve *fa2 = gpu_attention_curve(&hardware.gpu, "fa2");
    const double expected[] = {1.4e14, 0, 0, 0, 0, 0, 0, 3.1e14};
    for (int i = 0; i < fa2->n_lines; i++) {
        assert_close(fa2->lines[i].ceiling, expected[i], 0);
    }
    expect_refused("[\"forward\", \"full\", 96, 1.4e14]", "[\"forward\", \"full\", 80, 1.4e14]",
                   "box.json: $.gpu.attention: a ceiling of head_dim 80 of fa2 has no rows that it is of");
    expect_refused("[\"forward\", \"full\", 96, 1.4e14]", "[\"backward\", \"causal\", 128, 1.4e14]",
                   "box.json: $.gpu.attention: expected one row for a point, found two at 128");
    expect_refused("[\"forward\", \"full\", 96, 1.4e14]", "[\"forward\", \"full\", 96]",
                   "box.json: $.gpu.attention[0].ceiling.rows[1]: expected an array of 4 values");
    expect_refused("\"rows\": [[\"backward\", \"causal\", 128, 3.1e14]",
                   "\"row\": [[\"backward\", \"causal\", 128, 3.1e14]",
                   "box.json: $.gpu.attention[0].ceiling: unknown key \"row\" (did you mean \"rows\"?)");
}

/* A causal split needs all four: without one of them no method could be priced. */
static void attention_has_both_passes_and_masks(void **state)
{
    (void)state;
    expect_refused("[\"backward\", \"full\", 128, 16, 2048, 3.5e14]",
                   "[\"backward\", \"causal\", 128, 16, 2048, 3.5e14]",
                   "box.json: $.gpu.attention: expected rows of both passes and both masks for head_dim 128 of fa2, "
                   "found none of backward full");
    expect_refused("[\"forward\", \"causal\", 64,", "[\"forward\", \"causal\", 72,",
                   "box.json: $.gpu.attention: expected rows of both passes and both masks for head_dim 64 of cudnn, "
                   "found none of forward causal");
}

/* "tiles" of one pass, put into the first fa2 entry; every figure with a value of its own. */
static const char *tiles_text(const char *passes)
{
    return sp_format(
        arena,
        "\"kernel\": \"fa2\", \"tiles\": {\"clock\": {\"flop_per_cycle\": %s, \"reference_hz\": %s, \"most_hz\": %s, "
        "\"idle_power\": %s, \"exponent\": %s}, \"harness\": {\"latency\": %s, \"pause\": %s, \"memory_power\": %s, "
        "\"wait\": %s, \"copy_sms\": %s, \"clock_spread\": %s}, \"passes\": [%s]}, ",
        FIG("520001"), FIG("1.7e9"), FIG("1.8e9"), FIG("\"91W\""), FIG("2.9"), FIG("\"1.9us\""), FIG("\"41us\""),
        FIG("0.45"), FIG("\"4us\""), FIG("37"), FIG("0.03"), passes);
}

/* clang-format off */
#define PASS_OF(pass)                                                                                                  \
    "{\"pass\": \"" pass "\", \"head_dim\": 96, \"figures\": {\"block_rows\": " FIG("96") ", \"step_rows\": " FIG("112")         \
    ", \"start\": " FIG("1001") ", \"block\": " FIG("2002") ", \"step\": " FIG("3003") ", \"mask\": " FIG("44") ", \"merge\": "     \
    FIG("55") ", \"cached_merge\": " FIG("6") ", \"sum\": " FIG("707") ", \"power\": " FIG("\"1101W\"") "}}"
/* clang-format on */

static void expect_tiles_refused(const char *passes, const char *error)
{
    expect_refused("\"kernel\": \"fa2\", ", tiles_text(passes), error);
}

static void attention_tiles_are_of_one_entry(void **state)
{
    (void)state;
    struct hardware_spec hardware;
    struct sp_error err;
    assert_true(
        decode(replaced(whole_text(), "\"kernel\": \"fa2\", ", tiles_text(PASS_OF("backward"))), &hardware, &err));
    const struct attention_curve *fa2 = gpu_attention_curve(&hardware.gpu, "fa2");
    assert_int_equal(gpu_attention_curve(&hardware.gpu, "cudnn")->n_tilings, 0);
    assert_int_equal(fa2->n_tilings, 1);
    const struct attention_tiling *tiling = &fa2->tilings[0];
    assert_true(tiling->is_backward);
    assert_int_equal(tiling->head_dim, 96);
    const struct sp_figure *figures[] = {&tiling->block_rows, &tiling->step_rows, &tiling->start, &tiling->block,
                                         &tiling->step,       &tiling->mask,      &tiling->merge, &tiling->cached_merge,
                                         &tiling->sum,        &tiling->power};
    const double values[] = {96, 112, 1001, 2002, 3003, 44, 55, 6, 707, 1101};
    for (size_t i = 0; i < SP_COUNT_OF(values); i++) {
        assert_close(figures[i]->value, values[i], 0);
    }
    assert_close(fa2->clock.flop_per_cycle.value, 520001, 0);
    assert_close(fa2->clock.idle_power.value, 91, 0);
    assert_close(fa2->clock.headroom, 1, 0);
    assert_close(fa2->harness.pause.value, 41e-6, 1e-12);
    assert_close(fa2->harness.copy_sms.value, 37, 0);
    expect_tiles_refused("",
                         "box.json: $.gpu.attention[0].tiles.passes: expected an object for each pass and head_dim, "
                         "found none");
    expect_tiles_refused(
        PASS_OF("backward") "," PASS_OF("forward") "," PASS_OF("backward"),
        "box.json: $.gpu.attention[0].tiles.passes[2]: expected one object for a pass and head_dim, found "
        "backward 96 before");
    expect_tiles_refused(PASS_OF("both"),
                         "box.json: $.gpu.attention[0].tiles.passes[0].pass: expected one of forward, backward, found "
                         "\"both\"");
    const char *twice = replaced(whole_text(), "\"kernel\": \"fa2\", \"kind\": \"derived\"",
                                 sp_format(arena, "%s \"kind\": \"derived\"", tiles_text(PASS_OF("forward"))));
    assert_false(decode(replaced(twice, "\"kernel\": \"fa2\", \"kind\": \"measured\"",
                                 sp_format(arena, "%s \"kind\": \"measured\"", tiles_text(PASS_OF("backward")))),
                        &hardware, &err));
    assert_string_equal(err.text,
                        "box.json: $.gpu.attention[2].tiles: expected tiles in one entry of a kernel, found some "
                        "of fa2 before");
}

/* The shape of "gemm" again. */
static const char *gemm_text(void)
{
    const char *from = strstr(gpu_text, "{\"kind\": \"measured\", \"source\": \"g1\"");
    const char *to = strstr(gpu_text, "\"copy\"");
    return sp_strndup(arena, from, (size_t)(to - from));
}

static void fp8_products_have_a_table_of_their_own(void **state)
{
    (void)state;
    struct hardware_spec hardware;
    struct sp_error err;
    assert_true(decode(whole_text(), &hardware, &err));
    assert_false(hardware.gpu.has_gemm_fp8);
    assert_close(hardware.gpu.communication_sms.value, 23, 0);
    assert_false(hardware_set(arena, &hardware, "gpu.gemm_fp8.sustained_factor", "0.9", &err));
    assert_int_equal(err.kind, SP_ERROR_USAGE);
    assert_string_equal(err.text,
                        "--set: gpu.gemm_fp8: expected nothing, g has no table of fp8 products to set it beside");
    const char *fp8 = replaced(gemm_text(), "7.7e14", "1.31e15");
    const char *text = replaced(whole_text(), "\"copy\"", sp_format(arena, "\"gemm_fp8\": %s \"copy\"", fp8));
    if (!decode(text, &hardware, &err)) {
        fail_msg("%s", err.text);
    }
    assert_true(hardware.gpu.has_gemm_fp8);
    assert_close(hardware.gpu.gemm_fp8.flop_per_s[PASS_FORWARD][1], 1.31e15, 0);
    assert_close(hardware.gpu.gemm.flop_per_s[PASS_FORWARD][1], 7.7e14, 0);
    assert_true(hardware_set(arena, &hardware, "gpu.gemm_fp8.ceiling.forward", "1.2PFLOP/s", &err));
    assert_close(hardware.gpu.gemm_fp8.ceiling[PASS_FORWARD].value, 1.2e15, 0);
    text = replaced(whole_text(), "\"copy\"",
                    sp_format(arena, "\"gemm_fp8\": %s \"copy\"", replaced(fp8, "\"tile_rows\"", "\"tile_row\"")));
    assert_false(decode(text, &hardware, &err));
    assert_error_contains(&err, "box.json: $.gpu.gemm_fp8: unknown key \"tile_row\"");
}

static void collective_tables_are_read_as_one(void **state)
{
    (void)state;
    struct hardware_spec hardware;
    struct sp_error err;
    assert_true(decode(whole_text(), &hardware, &err));
    const struct intra_spec *intra = &hardware.intra;
    assert_int_equal(intra->n_lines, 3);
    assert_int_equal(intra->lines[0].operation, COLLECTIVE_ALL_GATHER);
    assert_int_equal(intra->lines[0].ranks, 3);
    assert_string_equal(intra->lines[0].curve.source, "t2");
    assert_int_equal(intra->lines[1].ranks, 6);
    assert_int_equal(intra->lines[1].curve.n_points, 3);
    assert_string_equal(intra->lines[1].curve.source, "t1; t2");
    assert_close(intra->lines[1].curve.log_bytes[2], log(1048576), 0);
    assert_close(intra->lines[1].curve.log_seconds[0], log(9e-6), 0);
    assert_int_equal(intra->lines[2].operation, COLLECTIVE_SEND_RECEIVE);
}

static void network_and_tables_may_be_absent(void **state)
{
    (void)state;
    struct hardware_spec hardware;
    struct sp_error err;
    const char *text = replaced(whole_text(), sp_format(arena, "\"network\": %s, ", network_text), "");
    assert_true(decode(text, &hardware, &err));
    assert_null(hardware.network.name);
    const char *tables = strstr(intra_text, "\"tables\"");
    text = replaced(whole_text(), sp_format(arena, ", %s", tables), "}");
    assert_true(decode(text, &hardware, &err));
    assert_int_equal(hardware.intra.n_lines, 0);
    text = replaced(whole_text(), tables, "\"tables\": []}");
    assert_true(decode(text, &hardware, &err));
    assert_int_equal(hardware.intra.n_lines, 0);
}

/* ---- what is refused -------------------------------------------------------------------------------------------- */

static void schemas_are_checked(void **state)
{
    (void)state;
    expect_refused("seqplan.hardware/1", "seqplan.hardware/2",
                   "box.json: $.schema: expected \"seqplan.hardware/1\", found \"seqplan.hardware/2\"");
    expect_refused("seqplan.gpu/1", "gpu", "box.json: $.gpu.schema: expected \"seqplan.gpu/1\", found \"gpu\"");
    expect_refused("seqplan.network/1", "x", "box.json: $.network.schema: expected \"seqplan.network/1\", found \"x\"");
}

static void figures_need_unit_and_source(void **state)
{
    (void)state;
    expect_refused("\"3.1TB/s\"", "3.1",
                   "box.json: $.gpu.hbm_bandwidth.value: expected a rate such as \"4.8TB/s\", found 3.1 (add a unit)");
    struct hardware_spec hardware;
    struct sp_error err;
    assert_false(decode(replaced(whole_text(), "\"hbm_bandwidth\": " FIG("\"3.1TB/s\""), "\"hbm_bandwidth\": 3"),
                        &hardware, &err));
    assert_error_contains(&err, "box.json: $.gpu.hbm_bandwidth: ");
    assert_error_contains(&err, "add a unit");
    assert_false(decode(replaced(whole_text(), "\"nics\"", "\"nisc\""), &hardware, &err));
    assert_error_contains(&err, "did you mean \"nics\"?");
}

static void impossible_nodes_are_refused(void **state)
{
    (void)state;
    expect_refused("\"nvlink_domain\": " FIG("6"), "\"nvlink_domain\": " FIG("8"),
                   "box.json: node.nvlink_domain: expected a divisor or a multiple of the node's 6 GPUs, found 8");
    expect_refused(
        "600MB", "82GB",
        "box.json: gpu.context_memory: expected less than hbm_capacity, found 82000000000 of 81000000000 bytes");
    expect_refused("\"nvlink\"", "\"rope\"",
                   "box.json: $.intra.medium: expected \"nvlink\" or \"pcie\", found \"rope\"");
    struct hardware_spec hardware;
    struct sp_error err;
    assert_true(decode(replaced(whole_text(), "\"nvlink_domain\": " FIG("6"), "\"nvlink_domain\": " FIG("3")),
                       &hardware, &err));
    assert_true(decode(replaced(whole_text(), "\"nvlink_domain\": " FIG("6"), "\"nvlink_domain\": " FIG("72")),
                       &hardware, &err));
}

static void bad_tables_are_refused_with_their_place(void **state)
{
    (void)state;
    expect_refused("[\"pass\", \"k\", ", "[\"pass\", \"m\", ",
                   "box.json: $.gpu.gemm.columns[1]: expected \"k\", found m");
    expect_refused("[\"bytes\", \"seconds\"]", "[\"bytes\"]",
                   "box.json: $.gpu.copy.columns[1]: expected \"seconds\", found none");
    expect_refused("[\"bytes\", \"seconds\"]", "[\"bytes\", \"seconds\", \"hertz\"]",
                   "box.json: $.gpu.copy.columns: expected 2 names, found 3");
    expect_refused("[1024, 2e-6]", "[1024]", "box.json: $.gpu.copy.rows[1]: expected an array of 2 values");
    expect_refused("[1024, 2e-6]", "[1024.5, 2e-6]",
                   "box.json: $.gpu.copy.rows[1][0]: expected a whole number from 1 to 1e15 (bytes)");
    expect_refused("[1024, 2e-6]", "[1024, -2e-6]",
                   "box.json: $.gpu.copy.rows[1][1]: expected a number from 1e-15 to 1e24 (seconds)");
    expect_refused("[1024, 2e-6]", "[1048576, 2e-6]",
                   "box.json: $.gpu.copy: expected one row for a point, found two at 1048576");
    expect_refused("[[1048576, 3e-6], [1024, 2e-6]]", "[]", "box.json: $.gpu.copy.rows: expected at least one row");
    expect_refused("[[1048576, 3e-6], [1024, 2e-6]]", "7", "box.json: $.gpu.copy.rows: expected an array");
    expect_refused("\"derived\", \"source\": \"c1\"", "\"set\", \"source\": \"c1\"",
                   "box.json: $.gpu.copy.kind: expected datasheet, measured, derived, fitted or assumed");
    expect_refused("[\"input_gradient\", 2048, 6.2e14]", "[\"forward\", 2048, 6.2e14]",
                   "box.json: $.gpu.gemm.rows: expected rows of every pass, found none of input_gradient");
    expect_refused("[\"send_receive\", 2,", "[\"send\", 2,",
                   "box.json: $.intra.tables[0].rows[0][0]: expected one of all_gather, reduce_scatter, all_reduce, "
                   "all_to_all, send_receive (operation)");
    expect_refused("\"full\", 64, 16,", "\"half\", 64, 16,",
                   "box.json: $.gpu.attention[1].rows[0][1]: expected one of full, causal (mask)");
    expect_refused("32, 2048, 3.9e14", "32, 8192, 3.9e14",
                   "box.json: $.gpu.attention: expected one row for a point, found two at 8192");
}

static void gpu_needs_an_attention_table(void **state)
{
    (void)state;
    const char *attention = strstr(gpu_text, "\"attention\"");
    struct hardware_spec hardware;
    struct sp_error err;
    assert_false(decode(replaced(whole_text(), attention, "\"attention\": []}"), &hardware, &err));
    assert_string_equal(err.text, "box.json: $.gpu.attention: expected the table of at least one kernel");
    assert_false(decode(replaced(whole_text(), attention, "\"attention\": {}}"), &hardware, &err));
    assert_string_equal(err.text, "box.json: $.gpu.attention: expected an array");
}

static void unknown_names_inside_are_suggested(void **state)
{
    (void)state;
    struct hardware_spec hardware;
    struct sp_error err;
    const char *text = replaced(whole_text(), gpu_text, "\"h100-sxn\"");
    assert_false(decode(text, &hardware, &err));
    assert_error_contains(&err, "box.json: $.gpu: unknown GPU \"h100-sxn\": did you mean \"h100-sxm\"?");
    text = replaced(whole_text(), network_text, "\"ib-ndrr\"");
    assert_false(decode(text, &hardware, &err));
    assert_error_contains(&err, "box.json: $.network: unknown network \"ib-ndrr\": did you mean \"ib-ndr\"?");
}

/* ---- shipped files ---------------------------------------------------------------------------------------------- */

static void every_shipped_file_is_read(void **state)
{
    (void)state;
    struct sp_texts names = {.arena = arena};
    data_names(arena, "hardware", &names);
    assert_true(names.count >= 3);
    for (size_t i = 0; i < names.count; i++) {
        struct hardware_spec hardware;
        struct sp_error err = {0};
        if (!hardware_read(arena, names.items[i], NULL, &hardware, &err)) {
            fail_msg("%s", err.text);
        }
        assert_string_equal(hardware.name, names.items[i]);
        assert_true(hardware.gpu.n_attention > 0);
        assert_true(hardware.gpu.communication_sms.value > 0 &&
                    hardware.gpu.communication_sms.high < hardware.gpu.sm_count.value);
    }
    struct sp_texts networks = {.arena = arena};
    data_names(arena, "hardware/networks", &networks);
    assert_true(networks.count >= 4);
    for (size_t i = 0; i < networks.count; i++) {
        struct hardware_spec hardware;
        struct sp_error err = {0};
        if (!hardware_read(arena, "dgx-h100", networks.items[i], &hardware, &err)) {
            fail_msg("%s", err.text);
        }
        assert_string_equal(hardware.network.name, networks.items[i]);
    }
}

static void networks_are_replaced_by_name(void **state)
{
    (void)state;
    struct hardware_spec own;
    struct hardware_spec other;
    struct sp_error err = {0};
    assert_true(hardware_read(arena, "dgx-h100", NULL, &own, &err));
    assert_true(hardware_read(arena, "dgx-h100", "eth-100g", &other, &err));
    assert_close(other.network.bandwidth.value, 12.5e9, 0);
    assert_false(other.network.is_ideal);
    assert_true(hardware_read(arena, "dgx-h100", "ideal", &other, &err));
    assert_true(other.network.is_ideal);
    assert_string_equal(other.network.name, "ideal");
    assert_close(other.network.bandwidth.value, own.network.bandwidth.value, 0);
    assert_close(other.network.latency.value, own.network.latency.value, 0);
    assert_false(hardware_read(arena, "dgx-h100", "ib-ndrr", &other, &err));
    assert_int_equal(err.kind, SP_ERROR_INPUT);
    assert_error_contains(&err, "unknown network \"ib-ndrr\": did you mean \"ib-ndr\"?");
}

static void ideal_network_needs_a_rate(void **state)
{
    (void)state;
    char *folder = temp_folder_open();
    const char *text = replaced(whole_text(), sp_format(arena, "\"network\": %s, ", network_text), "");
    const char *path = temp_file(arena, folder, "box.json", text, strlen(text));
    struct hardware_spec hardware;
    struct sp_error err = {0};
    assert_true(hardware_read(arena, path, "eth-100g", &hardware, &err));
    assert_false(hardware_read(arena, path, "ideal", &hardware, &err));
    assert_int_equal(err.kind, SP_ERROR_USAGE);
    assert_string_equal(err.text, "--network ideal: h has no network of its own to take the rate from");
    temp_folder_close(folder);
}

/* What says how links are joined may be left out: files written before it was read are read still. */
static void wiring_is_optional(void **state)
{
    (void)state;
    struct hardware_spec hardware;
    struct sp_error err;
    assert_true(decode(whole_text(), &hardware, &err));
    assert_int_equal(hardware.network.leaf_nodes.kind, SP_FIGURE_NONE);
    assert_int_equal(hardware.network.oversubscription.kind, SP_FIGURE_NONE);
    assert_false(hardware.intra.has_direct_links);
    assert_true(hardware_set(arena, &hardware, "network.leaf_nodes", "20", &err));
    assert_close(hardware.network.leaf_nodes.value, 20, 0);
    assert_true(hardware_set(arena, &hardware, "network.oversubscription", "2.5", &err));
    assert_close(hardware.network.oversubscription.value, 2.5, 0);
    assert_true(hardware_set(arena, &hardware, "intra.direct_links", "true", &err));
    assert_true(hardware.intra.has_direct_links);
    assert_false(hardware_set(arena, &hardware, "network.oversubscription", "0.5", &err));
    assert_int_equal(err.kind, SP_ERROR_USAGE);
    assert_error_contains(&err, "network.oversubscription: expected");
    assert_true(hardware_read(arena, "dgx-h100", NULL, &hardware, &err));
    assert_close(hardware.network.leaf_nodes.value, 32, 0);
    assert_int_equal(hardware.network.oversubscription.kind, SP_FIGURE_ASSUMED);
    assert_true(hardware_read(arena, "h100-pcie-4", NULL, &hardware, &err));
    assert_true(hardware.intra.has_direct_links);
}

/* ---- --set ------------------------------------------------------------------------------------------------------ */

static void figures_are_set_by_path(void **state)
{
    (void)state;
    struct hardware_spec hardware;
    struct sp_error err;
    assert_true(decode(whole_text(), &hardware, &err));
    assert_true(hardware_set(arena, &hardware, "gpu.hbm_bandwidth", "8TB/s", &err));
    assert_close(hardware.gpu.hbm_bandwidth.value, 8e12, 0);
    assert_int_equal(hardware.gpu.hbm_bandwidth.kind, SP_FIGURE_SET);
    assert_true(hardware_set(arena, &hardware, "network.bandwidth", "200Gb/s", &err));
    assert_close(hardware.network.bandwidth.value, 25e9, 0);
    assert_true(hardware_set(arena, &hardware, "network.rail_optimised", "false", &err));
    assert_false(hardware.network.is_rail_optimised);
    assert_true(hardware_set(arena, &hardware, "gpu.gemm.sustained_factor", "0.91", &err));
    assert_close(hardware.gpu.gemm.sustained.value, 0.91, 0);
    assert_true(hardware_set(arena, &hardware, "gpu.gemm.ceiling.weight_gradient", "500TFLOP/s", &err));
    assert_close(hardware.gpu.gemm.ceiling[PASS_WEIGHT_GRADIENT].value, 500e12, 0);
    assert_true(hardware_set(arena, &hardware, "node.nvlink_domain", "12", &err));
    assert_true(hardware_set(arena, &hardware, "intra.latency", "0s", &err));
    assert_close(hardware.intra.latency.value, 0, 0);
}

static void bad_settings_name_the_path(void **state)
{
    (void)state;
    struct hardware_spec hardware;
    struct sp_error err;
    assert_true(decode(whole_text(), &hardware, &err));
    static const struct {
        const char *path;
        const char *text;
        const char *error;
    } cases[] = {
        {"gpu.hbm_bandwidth", "8", "gpu.hbm_bandwidth: expected a rate such as \"4.8TB/s\", found \"8\" (add a unit)"},
        {"gpu.hbm_bandwith", "8TB/s", "unknown field \"gpu.hbm_bandwith\" (did you mean \"gpu.hbm_bandwidth\"?)"},
        {"network.efficiency", "0", "network.efficiency: expected 0.01 to 1, found 0"},
        {"node.gpus", "0", "node.gpus: expected 1 to 1024, found 0"},
        {"node.nvlink_domain", "4",
         "--set: node.nvlink_domain: expected a divisor or a multiple of the node's 6 GPUs, found 4"},
    };
    for (size_t i = 0; i < SP_COUNT_OF(cases); i++) {
        err = (struct sp_error){0};
        assert_false(hardware_set(arena, &hardware, cases[i].path, cases[i].text, &err));
        assert_int_equal(err.kind, SP_ERROR_USAGE);
        assert_string_equal(err.text, cases[i].error);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inline_file_is_read_in_si_units),
        cmocka_unit_test(gemm_rows_are_sorted_by_pass_and_k),
        cmocka_unit_test(attention_entries_of_a_kernel_are_one_curve),
        cmocka_unit_test(ceilings_belong_to_pass_mask_and_head_dim),
        cmocka_unit_test(attention_has_both_passes_and_masks),
        cmocka_unit_test(attention_tiles_are_of_one_entry),
        cmocka_unit_test(fp8_products_have_a_table_of_their_own),
        cmocka_unit_test(collective_tables_are_read_as_one),
        cmocka_unit_test(network_and_tables_may_be_absent),
        cmocka_unit_test(schemas_are_checked),
        cmocka_unit_test(figures_need_unit_and_source),
        cmocka_unit_test(impossible_nodes_are_refused),
        cmocka_unit_test(bad_tables_are_refused_with_their_place),
        cmocka_unit_test(gpu_needs_an_attention_table),
        cmocka_unit_test(unknown_names_inside_are_suggested),
        cmocka_unit_test(every_shipped_file_is_read),
        cmocka_unit_test(networks_are_replaced_by_name),
        cmocka_unit_test(ideal_network_needs_a_rate),
        cmocka_unit_test(wiring_is_optional),
        cmocka_unit_test(figures_are_set_by_path),
        cmocka_unit_test(bad_settings_name_the_path),
    };
    return cmocka_run_group_tests(tests, open_arena, close_arena);
}
