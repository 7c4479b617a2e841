/* Tables and sheets of measured runs: what is read, what is refused and with which line, and what is predicted. */
#include "cmd/command.h"
#include "fit/fit.h"
#include "support/support.h"

#include <math.h>
#include <string.h>

static const struct sp_json *parse(struct sp_arena *arena, const char *text, struct sp_error *err)
{
    return validation_csv_parse(arena, question_options, "runs.csv", text, err);
}

static const struct sp_json *row_at(const struct sp_json *table, int index)
{
    const struct sp_json *row = sp_json_member(table, "rows")->first;
    for (int i = 0; i < index; i++) {
        row = row->next;
    }
    return row;
}

static const char *text_at(const struct sp_json *row, const char *path)
{
    return report_tree_at(row, path)->string;
}

static void a_sheet_becomes_a_table(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    struct sp_error err = {0};
    const struct sp_json *table =
        parse(arena,
              "\xef\xbb\xbfname, seq ,sp_method,step_time_ms,peak_allocated_gib,mfu_percent,tflop_per_s_per_gpu,fits,"
              "set,gpu.hbm_bandwidth,role\r\n"
              "\"a, \"\"b\"\"\nc\",384K,zigzag,1500,61.5,41.5,430,no,run.loss=plain run.tiled_mlp=true,3TB/s,fit\r\n"
              "\r\n"
              ",131072,,2e3,,,,,,,\n",
              &err);
    assert_non_null(table);
    assert_int_equal(sp_json_member(table, "rows")->count, 2);
    const struct sp_json *first = row_at(table, 0);
    assert_string_equal(text_at(first, "name"), "a, \"b\"\nc");
    assert_string_equal(text_at(first, "group"), "all");
    assert_string_equal(text_at(first, "role"), "fit");
    assert_string_equal(text_at(first, "settings.seq"), "384K");
    assert_string_equal(text_at(first, "settings.sp-method"), "zigzag");
    const struct sp_json *sets = report_tree_at(first, "settings.set");
    assert_int_equal(sets->count, 3);
    assert_string_equal(sets->first->string, "run.loss=plain");
    assert_string_equal(sets->first->next->next->string, "gpu.hbm_bandwidth=3TB/s");
    assert_close(report_tree_at(first, "measured.step_time_s")->number, 1.5, 1e-15);
    assert_close(report_tree_at(first, "measured.peak_allocated_bytes")->number, 61.5 * 1073741824.0, 0.0);
    assert_close(report_tree_at(first, "measured.mfu_frac")->number, 0.415, 1e-15);
    assert_close(report_tree_at(first, "measured.flop_per_s_per_gpu")->number, 430e12, 0.0);
    assert_false(report_tree_at(first, "measured.fits")->boolean);
    const struct sp_json *second = row_at(table, 1);
    assert_string_equal(text_at(second, "name"), "line 5"); /* the name before went over two lines, one is blank */
    assert_int_equal(sp_json_member(second, "measured")->count, 1);
    assert_close(report_tree_at(second, "measured.step_time_s")->number, 2.0, 1e-15);
    sp_arena_close(arena);
}

static void bad_sheets_say_where(void **state)
{
    (void)state;
    static const struct {
        const char *text, *part;
    } bad[] = {
        {"", "runs.csv: empty: expected a first line of column names"},
        {"step_time_s\n", "runs.csv: no line below the column names"},
        {"seq\n8192\n", "runs.csv: line 1: no column is a measured quantity"},
        {"seq,step_tim_s\n1,2\n",
         "runs.csv: line 1, column 2: expected an option of estimate, a measured quantity such as "
         "step_time_s, or name, group, note or role, found \"step_tim_s\": did you mean step_time_s"},
        {"seq,step_time_s,\n8192,1,\n", "runs.csv: line 1, column 3: expected an option"},
        {"step_time_s,step_time_ms\n1,2\n", "runs.csv: line 1, column 2: step_time_s is there already, in column 1"},
        {"seq,step_time_s\n8192,1\n8192,fast\n", "runs.csv: line 3, column 2 (step_time_s): expected a number above 0 "
                                                 "(the unit stands in the name of the column), "
                                                 "found \"fast\""},
        {"step_time_s\n1.5s\n", "runs.csv: line 2, column 1 (step_time_s): expected a number"},
        {"step_time_s\n-1\n", "found \"-1\""},
        {"step_time_s\n0\n", "found \"0\""},
        {"step_time_s\nnan\n", "found \"nan\""},
        {"step_time_s\n1e999\n", "found \"1e999\""},
        {"step_time_s\n1e-300\n", "found \"1e-300\""},
        {"mfu_frac\n39\n",
         "runs.csv: line 2, column 1 (mfu_frac): expected a share of at most 1, found \"39\": if it is in "
         "%, call the column mfu_percent"},
        {"mfu_percent\n139\n",
         "runs.csv: line 2, column 1 (mfu_percent): expected a share of at most 100 %, found \"139\""},
        {"seq,step_time_s\n8192,1\n4096,\n", "runs.csv: line 3: no cell of a measured quantity is filled: fill one"},
        {"name,step_time_s\na\x1b[2Jb,1\n", "runs.csv: line 2, column 1 (name): a control character"},
        {"name,step_time_s\na\xc2\x9b,1\n", "runs.csv: line 2, column 1 (name): a control character"},
        {"seq,step_time_s\r8192,1\r\r8192,x\r", "runs.csv: line 4, column 2 (step_time_s): expected a number"},
        {"seq,step_time_s\n8192,1\r\n8192,x\n", "runs.csv: line 3, column 2 (step_time_s): expected a number"},
        {"fits\nmaybe\n", "runs.csv: line 2, column 1 (fits): expected yes or no, found \"maybe\""},
        {"step_time_s,role\n1,judges\n", "runs.csv: line 2, column 2 (role): expected judge or fit, found \"judges\""},
        {"seq,step_time_s\n8192\n", "runs.csv: line 2: expected 2 cells as in the first line, found 1"},
        {"seq,step_time_s\n8192,1,2\n", "runs.csv: line 2: expected 2 cells as in the first line, found more"},
        {"name,step_time_s\n\"a\nb,1\n", "runs.csv: line 2, column 1 (name): a quote that does not end"},
        {"name,step_time_s\n\"a\"b,1\n", "runs.csv: line 2, column 1 (name): text behind the closing quote"},
    };
    for (size_t i = 0; i < SP_COUNT_OF(bad); i++) {
        struct sp_arena *arena = sp_arena_open();
        struct sp_error err = {0};
        assert_null(parse(arena, bad[i].text, &err));
        assert_int_equal(err.kind, SP_ERROR_INPUT);
        assert_error_contains(&err, bad[i].part);
        sp_arena_close(arena);
    }
}

static bool read_json(struct sp_arena *arena, const char *text, struct validation_source *source, struct sp_error *err)
{
    struct sp_arena *scratch = sp_arena_open();
    struct validate_pricing pricing = {.scratch = scratch};
    const struct validation_pricer pricer = validate_pricer(arena, &pricing);
    const struct sp_json *file = sp_json_parse(arena, "t/x.json", text, err);
    assert_non_null(file);
    bool is_good = validation_read_json(&pricer, "t/x.json", file, source, err);
    sp_arena_close(scratch); /* nothing of what was read lies there */
    return is_good;
}

#define HEAD                                                                                                           \
    "{\"schema\": \"seqplan.validation/1\", \"source\": {\"title\": \"t\", \"where\": \"w\", \"year\": \"2026\"}"
#define ROW(rest) HEAD ", \"rows\": [{\"name\": \"n\", \"group\": \"g\", " rest "}]}"
#define CLAIM(rest)                                                                                                    \
    HEAD ", " rest ", \"rows\": [{\"name\": \"one\", \"group\": \"short\", \"not_expressible\": \"x\", \"measured\": " \
         "{\"step_time_s\": 1, \"mfu_frac\": 0.4}}, {\"name\": \"two\", \"group\": \"long\", \"not_expressible\": "    \
         "\"x\", "                                                                                                     \
         "\"measured\": {\"step_time_s\": 2}}]}"

static void bad_tables_say_where(void **state)
{
    (void)state;
    static const struct {
        const char *text, *part;
    } bad[] = {
        {"[]",
         "t/x.json: expected an object of schema seqplan.validation/1 with source and either rows or measurements"},
        {"{\"schema\": \"seqplan.validation/2\", \"source\": {}, \"rows\": []}", "expected an object of schema"},
        {HEAD "}", "expected an object of schema"},
        {HEAD ", \"rows\": [], \"measurements\": \"x\"}", "either rows or measurements"},
        {HEAD ", \"measurements\": \"m.jsonl\"}", "t/x.json: $.defaults: measurements need the name of their hardware"},
        {HEAD ", \"defaults\": {\"hardware\": \"dgx-h200\"}, \"measurements\": \"m.jsonl\"}", "t/m.jsonl: cannot open"},
        {HEAD ", \"rows\": {}}", "t/x.json: $.rows: expected a list, found an object"},
        {HEAD ", \"rows\": [], \"target\": {}}", "t/x.json: $: unknown key \"target\": expected targets"},
        {"{\"schema\": \"seqplan.validation/1\", \"source\": {\"title\": 1}, \"rows\": []}",
         "t/x.json: $.source.title: expected a text, found a number"},
        {"{\"schema\": \"seqplan.validation/1\", \"source\": {\"title\": \"t\"}, \"rows\": []}",
         "t/x.json: $.source: expected title, where and year"},
        {HEAD ", \"rows\": [], \"fitted\": [{\"group\": \"g\"}]}",
         "t/x.json: $.fitted[0]: expected an object that says \"what\""},
        {HEAD ", \"rows\": [], \"fitted\": [{\"what\": \"w\", \"groups\": \"g\"}]}",
         "t/x.json: $.fitted[0]: unknown key \"groups\": expected group"},
        {HEAD ", \"rows\": [], \"targets\": {\"g\": {\"step_time_s\": \"1\"}}}",
         "t/x.json: $.targets.g: expected an object of quantities with a number each"},
        {HEAD ", \"rows\": [], \"biases\": {\"step_time_s\": 1}}",
         "t/x.json: $.biases: expected texts, found a number"},
        {HEAD ", \"rows\": [], \"unstated\": [1]}", "t/x.json: $.unstated: expected texts, found a number"},
        {HEAD ", \"rows\": [7]}", "t/x.json: $.rows[0]: expected an object"},
        {HEAD ", \"rows\": [{\"name\": \"n\"}]}", "t/x.json: $.rows[0]: expected a name and a group"},
        {ROW("\"setings\": {}"), "t/x.json: $.rows[0]: unknown key \"setings\" (did you mean \"settings\"?)"},
        {ROW("\"role\": \"none\""), "t/x.json: $.rows[0].role: expected \"judge\" or \"fit\", found \"none\""},
        {ROW("\"measured\": {\"step_time\": 1}"),
         "t/x.json: $.rows[0].measured: unknown quantity \"step_time\": did you mean step_time_s"},
        {ROW("\"measured\": {\"step_time_s\": 0}"),
         "t/x.json: $.rows[0].measured.step_time_s: expected a number above 0"},
        {ROW("\"measured\": {\"step_time_s\": \"1\"}"), "measured.step_time_s: expected a number above 0"},
        {ROW("\"measured\": {\"fits\": 1}"), "t/x.json: $.rows[0].measured.fits: expected true or false"},
        {"{\"schema\": \"seqplan.validation/1\", \"source\": {\"title\": \"t\", \"where\": \"w\", \"year\": \"2026\", "
         "\"grade\": "
         "\"a\"}, \"rows\": []}",
         "t/x.json: $.source.grade: expected A, A- or B, found \"a\""},
        {ROW("\"measured\": {\"mfu_frac\": 39}"),
         "t/x.json: $.rows[0].measured.mfu_frac: expected a share up to 1 (0.39 for 39 %), found 39"},
        {ROW("\"note\": \"\\u001b[2J\", \"measured\": {\"step_time_s\": 1}"),
         "t/x.json: $.rows[0]: a control character"},
        {ROW("\"settings\": {}"), "t/x.json: $.rows[0]: nothing is measured: expected \"measured\""},
        {ROW("\"measured\": {}"), "t/x.json: $.rows[0]: nothing is measured"},
        {CLAIM("\"fitted\": [{\"what\": \"w\"}, {\"row\": \"ones\", \"what\": \"w\"}]"),
         "t/x.json: $.fitted[1]: no row of the file has the name \"ones\": did you mean \"one\"?"},
        {CLAIM("\"fitted\": [{\"group\": \"x\", \"what\": \"w\"}]"),
         "$.fitted[0]: no row of the file has the group \"x\""},
        {CLAIM("\"fitted\": [{\"quantity\": \"step_time\", \"what\": \"w\"}]"),
         "has the quantity \"step_time\": did you mean \"step_time_s\"?"},
        {CLAIM("\"fitted\": [{\"group\": \"long\", \"quantity\": \"mfu_frac\", \"what\": \"w\"}]"),
         "$.fitted[0]: no row has all of it: expected a group, quantity and row that go together"},
        {CLAIM("\"targets\": {\"lnog\": {\"step_time_s\": 0.05}}"),
         "$.targets: no row of the file has the group \"lnog\""},
        {CLAIM("\"targets\": {\"long\": {\"mfu\": 0.05}}"),
         "$.targets.long: no row of the file has the quantity \"mfu\""},
        {CLAIM("\"misses\": {\"long\": {\"mfu_frac\": \"why\"}}"),
         "$.misses.long: no row of this group measures mfu_frac"},
        {CLAIM("\"biases\": {\"peak_bytes\": \"why\"}"),
         "$.biases: no row of the file has the quantity \"peak_bytes\""},
        {ROW("\"settings\": {\"sequence\": 1}, \"measured\": {\"step_time_s\": 1}"),
         "t/x.json: $.rows[0]: settings: \"sequence\" is no option of estimate"},
        {ROW("\"settings\": {\"seq\": true}, \"measured\": {\"step_time_s\": 1}"),
         "t/x.json: $.rows[0]: option \"seq\": expected a number, a text such as \"zigzag\", or a list of texts"},
    };
    for (size_t i = 0; i < SP_COUNT_OF(bad); i++) {
        struct sp_arena *arena = sp_arena_open();
        struct sp_error err = {0};
        struct validation_source source;
        if (read_json(arena, bad[i].text, &source, &err)) {
            fail_msg("%s is not refused", bad[i].text);
        }
        assert_int_equal(err.kind, SP_ERROR_INPUT);
        assert_error_contains(&err, bad[i].part);
        sp_arena_close(arena);
    }
}

/* The prediction is that of the same options given to the closed form. */
static double predicted_step(struct sp_arena *arena, const char *seq)
{
    struct sp_error err = {0};
    struct sp_texts words = {.arena = arena};
    const char *const options[] = {"--model=llama-2-7b", "--hardware=dgx-h100", "--gpus=6", "--sp=6", "--zero=3"};
    struct question *question = sp_arena_alloc(arena, sizeof(*question));
    struct estimate *estimate = sp_arena_alloc(arena, sizeof(*estimate));
    struct validate_pricing pricing = {.scratch = arena};
    const struct validation_pricer pricer = validate_pricer(arena, &pricing);
    for (size_t i = 0; i < SP_COUNT_OF(options); i++) {
        sp_texts_add(&words, "%s", options[i]);
    }
    sp_texts_add(&words, "--seq=%s", seq);
    assert_true(pricer.price(pricer.user, &words, question, estimate, &err));
    return estimate->step_time_s;
}

static void rows_are_priced_and_have_roles(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    struct sp_error err = {0};
    struct validation_source source;
    bool is_good = read_json(
        arena,
        HEAD
        ", \"fitted\": [{\"group\": \"g\", \"quantity\": \"mfu_frac\", \"what\": \"a figure\"}],"
        "\"defaults\": {\"model\": \"llama-2-7b\", \"hardware\": \"dgx-h100\", \"gpus\": 6, \"sp\": 6, \"zero\": 3},"
        "\"rows\": ["
        "{\"name\": \"a\", \"group\": \"g\", \"settings\": {\"seq\": 393216}, \"measured\": {\"step_time_s\": 61, "
        "\"mfu_frac\": 0.5}},"
        "{\"name\": \"b\", \"group\": \"h\", \"role\": \"fit\", \"settings\": {\"seq\": 393216}, \"measured\": "
        "{\"mfu_frac\": 0.5}},"
        "{\"name\": \"c\", \"group\": \"h\", \"settings\": {\"seq\": 393217}, \"measured\": {\"fits\": true}},"
        "{\"name\": \"d\", \"group\": \"h\", \"not_expressible\": \"no option\", \"measured\": {\"fits\": true}},"
        "{\"name\": \"e\", \"group\": \"h\", \"settings\": {\"seq\": 393216, \"gpus\": 16, \"sp\": 8, \"pp\": 2}, "
        "\"measured\": "
        "{\"layer_forward_s\": 1}}]}",
        &source, &err);
    if (!is_good) {
        fail_msg("%s", err.text);
    }
    assert_int_equal(source.n_rows, 6);
    assert_int_equal(source.rows[0].role, VALIDATION_JUDGE);
    assert_close(source.rows[0].predicted, predicted_step(arena, "393216"), 0.0);
    assert_close(source.rows[0].error_frac, source.rows[0].predicted / 61.0 - 1.0, 1e-15);
    assert_int_equal(source.rows[0].seq, 393216);
    assert_string_equal(source.rows[0].method, "zigzag");
    assert_string_equal(source.rows[0].framework, "megatron");
    assert_int_equal(source.rows[1].role, VALIDATION_FIT);
    assert_string_equal(source.rows[1].fitted, "a figure");
    assert_int_equal(source.rows[2].role, VALIDATION_FIT);
    assert_null(source.rows[2].fitted);
    assert_int_equal(source.rows[3].state, VALIDATION_REFUSED);
    assert_non_null(strstr(source.rows[3].reason, "393217"));
    assert_int_equal(source.rows[4].state, VALIDATION_NOT_EXPRESSIBLE);
    assert_int_equal(source.rows[5].state, VALIDATION_REFUSED);
    assert_string_equal(source.rows[5].reason, "one layer is compared without a pipeline: set pp to 1");
    sp_arena_close(arena);
}

/* What others state has every column, so that the page has no hole. */
static void peers_are_read(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    struct sp_error err = {0};
    const struct sp_json *peers = NULL;
    assert_true(validation_peers(arena, &peers, &err));
    assert_non_null(peers);
    assert_true(peers->count >= 10);
    sp_arena_close(arena);
}

/* Stored lines that have no prediction keep their reason and their half. */
static void lines_of_a_run(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    struct sp_error err = {0};
    struct hardware_spec *hardware = sp_arena_alloc(arena, sizeof(*hardware));
    assert_true(hardware_read(arena, "dgx-h200", NULL, hardware, &err));
    const struct fit_machine machine = {.hardware = hardware, .kernel = "no such kernel"};
    const struct measurement lines[] = {
        {.kind = MEASUREMENT_REFUSED, .group = MEASUREMENT_ATTENTION, .key = "r", .reason = "spread"},
        {.kind = MEASUREMENT_TIMED,
         .group = MEASUREMENT_ATTENTION,
         .key = "attention a",
         .parameters = sp_json_parse(arena, "t", "{\"tokens\": 8192, \"method\": \"zigzag\"}", &err),
         .median_s = 0.061},
    };
    struct validation_source source = {.name = "run"};
    validation_read_run(arena, &machine, lines, SP_COUNT_OF(lines), &source);
    assert_int_equal(source.n_rows, 1);
    assert_string_equal(source.rows[0].quantity->name, "attention_s");
    assert_int_equal(source.rows[0].role, VALIDATION_FIT);
    assert_int_equal(source.rows[0].seq, 8192);
    assert_close(source.rows[0].measured, 0.061, 0.0);
    assert_int_equal(source.rows[0].state, VALIDATION_REFUSED);
    assert_non_null(source.rows[0].reason);
    sp_arena_close(arena);
}

static struct validation_row row_of_line(struct sp_arena *arena, const struct hardware_spec *hardware,
                                         enum measurement_group group, const char *parameters)
{
    struct sp_error err = {0};
    const struct fit_machine machine = {.hardware = hardware, .kernel = "seqplan"};
    const struct measurement line = {.kind = MEASUREMENT_TIMED,
                                     .group = group,
                                     .key = "k",
                                     .parameters = sp_json_parse(arena, "t", parameters, &err),
                                     .median_s = 0.061};
    struct validation_source source = {.name = "run"};
    assert_non_null(line.parameters);
    validation_read_run(arena, &machine, &line, 1, &source);
    assert_int_equal(source.n_rows, 1);
    if (source.rows[0].reason != NULL) {
        fail_msg("%s", source.rows[0].reason);
    }
    return source.rows[0];
}

/* 90 % of a normal distribution lie within 1.6449 standard deviations; a time is log-normal. */
static void expect_spread(const struct validation_row *row, double spread)
{
    assert_true(row->has_interval);
    assert_close(row->low, row->predicted * exp(-1.644853627 * spread), 1e-9);
    assert_close(row->high, row->predicted * exp(1.644853627 * spread), 1e-9);
}

/* A line has the interval of what prices it: its table, and the clock of a GPU where a method computes. */
static void lines_have_intervals(void **state)
{
    (void)state;
    static const char alone[] =
        "{\"method\": \"ring\", \"pass\": \"forward\", \"ranks_are\": \"virtual\", \"ranks\": 1, "
        "\"rank\": 0, \"tokens\": 24576, \"q_heads\": 32, \"kv_heads\": 8, \"head_dim\": 128, "
        "\"part\": \"attention\"}";
    static const char sent[] = "{\"method\": \"ring\", \"pass\": \"forward\", \"ranks_are\": \"gpus\", \"ranks\": 2, "
                               "\"tokens\": 24576, \"q_heads\": 32, \"kv_heads\": 8, \"head_dim\": 128, "
                               "\"part\": \"transfers\"}";
    struct sp_arena *arena = sp_arena_open();
    struct sp_error err = {0};
    struct hardware_spec *hardware = sp_arena_alloc(arena, sizeof(*hardware));
    assert_true(hardware_read(arena, "dgx-h200", NULL, hardware, &err));
    hardware->gpu.gemm.spread = 0.037;
    static const char product[] = "{\"pass\": \"forward\", \"m\": 4999, \"n\": 6144, \"k\": 3000}";
    struct validation_row row = row_of_line(arena, hardware, MEASUREMENT_GEMM, product);
    expect_spread(&row, 0.037);
    const struct attention_curve *curve = gpu_attention_curve(&hardware->gpu, "seqplan");
    row = row_of_line(arena, hardware, MEASUREMENT_METHOD, alone); /* one rank: nothing but attention */
    expect_spread(&row, sqrt(curve->spread * curve->spread + 0.02 * 0.02));
    row = row_of_line(arena, hardware, MEASUREMENT_METHOD, sent);
    assert_true(row.has_interval && row.low < row.predicted && row.high > row.predicted);

    struct collective_line *lines = sp_arena_array(arena, (size_t)hardware->intra.n_lines, sizeof(*lines));
    for (int i = 0; i < hardware->intra.n_lines; i++) {
        lines[i] = hardware->intra.lines[i];
        lines[i].curve.spread = 0;
    }
    hardware->intra.lines = lines;
    hardware->gpu.gemm.spread = 0;
    row = row_of_line(arena, hardware, MEASUREMENT_METHOD, sent);
    assert_false(row.has_interval); /* a table that counts has no spread */
    row = row_of_line(arena, hardware, MEASUREMENT_METHOD, alone);
    assert_true(row.has_interval); /* it reads none of them */
    row = row_of_line(arena, hardware, MEASUREMENT_GEMM, product);
    assert_false(row.has_interval);
    assert_close(row.low, 0.0, 0.0);
    sp_arena_close(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sheet_becomes_a_table), cmocka_unit_test(bad_sheets_say_where),
        cmocka_unit_test(bad_tables_say_where),    cmocka_unit_test(rows_are_priced_and_have_roles),
        cmocka_unit_test(peers_are_read),          cmocka_unit_test(lines_of_a_run),
        cmocka_unit_test(lines_have_intervals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
