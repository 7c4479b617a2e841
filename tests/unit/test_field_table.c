#include "support/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum link_kind { LINK_NVLINK, LINK_PCIE, LINK_NETWORK };
static const char *const link_names[] = {"nvlink", "pcie", "network", NULL};

struct link {
    int kind;
    double latency_s;
};

struct gpu {
    const char *name;
    struct sp_figure hbm_bandwidth;
    struct sp_figure efficiency_frac;
    double memory_bytes;
    int64_t n_sm;
    struct link link;
};

struct node {
    const char *name;
    bool is_liquid_cooled;
    double n_gpus;
    double weight;
    double loss_chunk_tokens;
    double share_frac;
    struct gpu gpu;
    int n_points; /* by a custom decoder */
    int64_t offset;
};

/* Counts the elements of an array. */
static bool decode_points(const struct sp_decoder *decoder, const struct sp_json *json, const char *path, void *target,
                          struct sp_error *err)
{
    if (json->type != SP_JSON_ARRAY) {
        return sp_fail(err, SP_ERROR_INPUT, "%s: %s: expected an array of points", decoder->file, path);
    }
    *(int *)target = json->count + *(const int *)decoder->user;
    return true;
}

static const struct sp_field link_fields[] = {
    {.key = "kind",
     .type = SP_FIELD_ENUM,
     .offset = offsetof(struct link, kind),
     .is_required = true,
     .names = link_names},
    {.key = "latency",
     .type = SP_FIELD_QUANTITY,
     .dimension = SP_SECONDS,
     .offset = offsetof(struct link, latency_s),
     .min = 1e-9,
     .max = 1e-3},
    {.key = NULL},
};

static const struct sp_field gpu_fields[] = {
    {.key = "name",
     .type = SP_FIELD_STRING,
     .offset = offsetof(struct gpu, name),
     .is_required = true,
     .help = "as nvidia-smi shows it"},
    {.key = "hbm_bandwidth",
     .type = SP_FIELD_FIGURE,
     .dimension = SP_BYTES_PER_S,
     .offset = offsetof(struct gpu, hbm_bandwidth),
     .min = 1e9,
     .max = 100e12,
     .is_required = true},
    {.key = "efficiency",
     .type = SP_FIELD_FIGURE,
     .dimension = SP_FRACTION,
     .offset = offsetof(struct gpu, efficiency_frac)},
    {.key = "memory", .type = SP_FIELD_QUANTITY, .dimension = SP_BYTES, .offset = offsetof(struct gpu, memory_bytes)},
    {.key = "sm_count", .type = SP_FIELD_INTEGER, .offset = offsetof(struct gpu, n_sm), .min = 1.0, .max = 1024.0},
    {.key = "link", .type = SP_FIELD_OBJECT, .offset = offsetof(struct gpu, link), .fields = link_fields},
    {.key = NULL},
};

static const struct sp_field node_fields[] = {
    {.key = "name", .type = SP_FIELD_STRING, .offset = offsetof(struct node, name)},
    {.key = "liquid_cooled", .type = SP_FIELD_BOOL, .offset = offsetof(struct node, is_liquid_cooled)},
    {.key = "gpus", .type = SP_FIELD_QUANTITY, .dimension = SP_COUNT, .offset = offsetof(struct node, n_gpus)},
    {.key = "weight", .type = SP_FIELD_PURE, .offset = offsetof(struct node, weight), .min = -HUGE_VAL, .max = 5.5},
    {.key = "loss_chunk",
     .type = SP_FIELD_QUANTITY,
     .dimension = SP_TOKENS,
     .offset = offsetof(struct node, loss_chunk_tokens),
     .min = 128.0,
     .max = HUGE_VAL},
    {.key = "share", .type = SP_FIELD_QUANTITY, .dimension = SP_FRACTION, .offset = offsetof(struct node, share_frac)},
    {.key = "gpu", .type = SP_FIELD_OBJECT, .offset = offsetof(struct node, gpu), .fields = gpu_fields},
    {.key = "points", .type = SP_FIELD_CUSTOM, .offset = offsetof(struct node, n_points), .decode = decode_points},
    {.key = "offset", .type = SP_FIELD_INTEGER, .offset = offsetof(struct node, offset)},
    {.key = NULL},
};

/* The row is used inside another text: "#" stands for what a row of a test gives. */
static const char *fill(struct sp_arena *arena, const char *pattern, const char *text)
{
    size_t before = strcspn(pattern, "#");
    return sp_format(arena, "%.*s%s%s", (int)before, pattern, text, pattern[before] == '#' ? pattern + before + 1 : "");
}

static bool decode(struct sp_arena *arena, const char *text, struct node *node, struct sp_error *err)
{
    static const int extra = 1000;
    const struct sp_decoder decoder = {.arena = arena, .file = "hardware/x.json", .user = &extra};
    struct sp_error parse_err = {0};
    const struct sp_json *json = sp_json_parse(arena, "hardware/x.json", text, &parse_err);
    if (json == NULL) {
        fail_msg("%s", parse_err.text);
        return false;
    }
    return sp_fields_decode(node_fields, &decoder, json, "$", node, err);
}

static void every_type_is_decoded(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    struct node node = {0};
    struct sp_error err = {0};
    const char *text =
        "{\"name\": \"dgx\", \"liquid_cooled\": true, \"gpus\": 8, \"weight\": -2.75, \"loss_chunk\": "
        "\"8K\", \"share\": \"37.5%\", \"points\": [1, 2, 3], \"offset\": -41, \"gpu\": {\"name\": "
        "\"H200\", \"memory\": \"141GB\", \"sm_count\": 132, \"hbm_bandwidth\": {\"value\": \"4.8TB/s\", "
        "\"kind\": \"measured\", \"source\": \"babel-stream 5.0\", \"note\": \"copy\", \"low\": "
        "\"4.1TB/s\", \"high\": \"4.9TB/s\"}, \"efficiency\": {\"value\": 0.83, \"kind\": \"assumed\", "
        "\"source\": \"none\"}, \"link\": {\"kind\": \"network\", \"latency\": \"1.2us\"}}}";
    if (!decode(arena, text, &node, &err)) {
        fail_msg("%s", err.text);
    }
    assert_string_equal(node.name, "dgx");
    assert_true(node.is_liquid_cooled);
    assert_close(node.n_gpus, 8.0, 0.0);
    assert_close(node.weight, -2.75, 0.0);
    assert_close(node.loss_chunk_tokens, 8192.0, 0.0);
    assert_close(node.share_frac, 0.375, 0.0);
    assert_int_equal(node.n_points, 1003);
    assert_int_equal(node.offset, -41);
    assert_string_equal(node.gpu.name, "H200");
    assert_close(node.gpu.memory_bytes, 141e9, 0.0);
    assert_int_equal(node.gpu.n_sm, 132);
    assert_int_equal(node.gpu.link.kind, LINK_NETWORK);
    assert_close(node.gpu.link.latency_s, 1.2e-6, 0.0);

    const struct sp_figure *bandwidth = &node.gpu.hbm_bandwidth;
    assert_close(bandwidth->value, 4.8e12, 0.0);
    assert_close(bandwidth->low, 4.1e12, 0.0);
    assert_close(bandwidth->high, 4.9e12, 0.0);
    assert_int_equal(bandwidth->kind, SP_FIGURE_MEASURED);
    assert_string_equal(bandwidth->source, "babel-stream 5.0");
    assert_string_equal(bandwidth->note, "copy");

    const struct sp_figure *efficiency = &node.gpu.efficiency_frac; /* no interval, no note */
    assert_close(efficiency->low, 0.83, 0.0);
    assert_close(efficiency->high, 0.83, 0.0);
    assert_null(efficiency->note);
    assert_int_equal(efficiency->kind, SP_FIGURE_ASSUMED);
    sp_arena_close(arena);
}

static void absent_keys_leave_the_object_alone(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    struct node node = {.n_gpus = 17.0, .gpu.n_sm = 31};
    struct sp_error err = {0};
    assert_true(decode(arena, "{}", &node, &err));
    assert_close(node.n_gpus, 17.0, 0.0);
    assert_int_equal(node.gpu.n_sm, 31);
    sp_arena_close(arena);
}

static void bounds_are_within(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{\"gpus\": 0, \"weight\": 5.5, \"loss_chunk\": 128, \"share\": 0, \"offset\": 0}",
        "{\"gpus\": 17, \"weight\": -1e300, \"loss_chunk\": \"8G\", \"share\": 1, \"offset\": 9007199254740992}",
        "{\"gpu\": {\"name\": \"\", \"sm_count\": 1, \"hbm_bandwidth\": {\"value\": \"1GB/s\", \"kind\": \"fitted\", "
        "\"source\": \"s\"}, \"link\": {\"kind\": \"pcie\", \"latency\": \"1ns\"}, \"memory\": \"0B\"}}",
        "{\"gpu\": {\"name\": \"\", \"sm_count\": 1024, \"hbm_bandwidth\": {\"value\": \"100TB/s\", \"kind\": "
        "\"derived\", \"source\": \"s\"}, \"link\": {\"kind\": \"pcie\", \"latency\": \"1ms\"}, \"memory\": \"9PB\"}}",
    };
    struct sp_arena *arena = sp_arena_open();
    for (size_t i = 0; i < SP_COUNT_OF(texts); i++) {
        struct node node = {0};
        struct sp_error err = {0};
        if (!decode(arena, texts[i], &node, &err)) {
            fail_msg("%s", err.text);
        }
    }
    sp_arena_close(arena);
}

/* Rows are wrapped in a gpu that is complete but for "#". */
#define IN_NODE "{#}"
#define IN_GPU                                                                                                         \
    "{\"gpu\": {\"name\": \"x\", \"hbm_bandwidth\": {\"value\": \"4TB/s\", \"kind\": \"datasheet\", \"source\": "      \
    "\"s\"}, #}}"
#define IN_FIGURE "{\"gpu\": {\"name\": \"x\", \"hbm_bandwidth\": #}}"
#define FIGURE_END ", \"kind\": \"datasheet\", \"source\": \"s\"}"

static const struct {
    const char *around;
    const char *text;
    const char *expected;
} bad_files[] = {
    /* keys */
    {"#", "[1]", "$: expected an object, found an array"},
    {"#", "17", "$: expected an object, found 17"},
    {IN_NODE, "\"gpu\": 17", "$.gpu: expected an object, found 17"},
    {IN_NODE, "\"wieght\": 1", "$: unknown key \"wieght\" (did you mean \"weight\"?)"},
    {IN_NODE, "\"zzz\": 1", "$: unknown key \"zzz\""},
    {IN_GPU, "\"sm_cuont\": 1", "$.gpu: unknown key \"sm_cuont\" (did you mean \"sm_count\"?)"},
    {IN_NODE, "\"gpu\": {}", "$.gpu: the key \"name\" is missing: as nvidia-smi shows it"},
    {IN_NODE, "\"gpu\": {\"name\": \"x\"}", "$.gpu: the key \"hbm_bandwidth\" is missing"},
    {IN_GPU, "\"link\": {}", "$.gpu.link: the key \"kind\" is missing"},
    /* types */
    {IN_NODE, "\"name\": 5", "$.name: expected a string, found 5"},
    {IN_NODE, "\"name\": null", "$.name: expected a string, found null"},
    {IN_NODE, "\"liquid_cooled\": 1", "$.liquid_cooled: expected true or false, found 1"},
    {IN_NODE, "\"liquid_cooled\": \"true\"", "expected true or false, found \"true\""},
    {IN_NODE, "\"weight\": \"1.5\"", "$.weight: expected a number, found \"1.5\""},
    {IN_NODE, "\"offset\": 1.5", "$.offset: expected a number without fraction, found 1.5"},
    {IN_NODE, "\"offset\": 1e300", "$.offset: expected a number without fraction, found 1e+300"},
    {IN_NODE, "\"offset\": true", "$.offset: expected a number without fraction, found true"},
    {IN_NODE, "\"offset\": false", "$.offset: expected a number without fraction, found false"},
    {IN_NODE, "\"points\": {}", "hardware/x.json: $.points: expected an array of points"},
    /* quantities */
    {IN_GPU, "\"memory\": 141", "$.gpu.memory: expected a size such as \"141GB\", found 141 (add a unit)"},
    {IN_GPU, "\"memory\": \"141\"", "$.gpu.memory: expected a size such as \"141GB\", found \"141\" (add a unit)"},
    {IN_GPU, "\"memory\": \"141GB/s\"", "$.gpu.memory: expected a size such as \"141GB\", found \"141GB/s\""},
    {IN_GPU, "\"memory\": true", "$.gpu.memory: expected a size such as \"141GB\", found true"},
    {IN_GPU, "\"memory\": {\"value\": 1}", "$.gpu.memory: expected a size such as \"141GB\", found an object"},
    {IN_NODE, "\"gpus\": \"8\"", "$.gpus: expected a number without fraction, found \"8\""},
    {IN_NODE, "\"gpus\": 8.5", "$.gpus: expected a whole number such as \"132\", found 8.5 (not a whole number)"},
    {IN_NODE, "\"gpus\": -8", "$.gpus: expected a whole number such as \"132\", found -8 (must not be negative)"},
    {IN_NODE, "\"loss_chunk\": 300.5", "found 300.5 (not a whole number)"},
    {IN_NODE, "\"share\": 1.5", "$.share: expected a fraction from 0 to 1"},
    {IN_NODE, "\"share\": -0.5", "(must not be negative)"},
    {IN_NODE, "\"share\": \"101%\"", "found \"101%\" (above 1)"},
    /* bounds */
    {IN_GPU, "\"sm_count\": 0", "$.gpu.sm_count: expected 1 to 1024, found 0"},
    {IN_GPU, "\"sm_count\": 1025", "$.gpu.sm_count: expected 1 to 1024, found 1025"},
    {IN_NODE, "\"weight\": 5.75", "$.weight: expected at most 5.5, found 5.75"},
    {IN_NODE, "\"loss_chunk\": 127", "$.loss_chunk: expected at least 128, found 127"},
    {IN_GPU, "\"link\": {\"kind\": \"pcie\", \"latency\": \"2ms\"}",
     "$.gpu.link.latency: expected 1ns to 1ms, found 2ms"},
    {IN_GPU, "\"link\": {\"kind\": \"pcie\", \"latency\": \"0s\"}", "expected 1ns to 1ms, found 0s"},
    /* names */
    {IN_GPU, "\"link\": {\"kind\": \"nvlnik\"}",
     "$.gpu.link.kind: expected one of nvlink, pcie, network, found \"nvlnik\" (did you mean \"nvlink\"?)"},
    {IN_GPU, "\"link\": {\"kind\": \"carrier pigeon\"}", "expected one of nvlink, pcie, network, found"},
    {IN_GPU, "\"link\": {\"kind\": 1}", "$.gpu.link.kind: expected one of nvlink, pcie, network, found 1"},
    /* figures */
    {IN_FIGURE, "4.8",
     "$.gpu.hbm_bandwidth: expected a rate such as \"4.8TB/s\" in {\"value\": ..., \"kind\": ..., \"source\": "
     "...}, found 4.8 (add a unit, and say where it comes from)"},
    {IN_FIGURE, "\"4.8TB/s\"", "found \"4.8TB/s\" (say where it comes from)"},
    {IN_FIGURE, "{\"value\": 4.8" FIGURE_END,
     "$.gpu.hbm_bandwidth.value: expected a rate such as \"4.8TB/s\", found 4.8 (add a unit)"},
    {IN_FIGURE, "{\"value\": \"4.8\"" FIGURE_END, "$.gpu.hbm_bandwidth.value: expected a rate"},
    {IN_FIGURE, "{\"value\": \"4.8TB/s\", \"kind\": \"datasheet\"}",
     "$.gpu.hbm_bandwidth: the key \"source\" is missing"},
    {IN_FIGURE, "{\"value\": \"4.8TB/s\", \"source\": \"s\"}", "the key \"kind\" is missing"},
    {IN_FIGURE, "{\"kind\": \"datasheet\", \"source\": \"s\"}", "the key \"value\" is missing"},
    {IN_FIGURE, "{\"vlaue\": \"4.8TB/s\"" FIGURE_END, "unknown key \"vlaue\" (did you mean \"value\"?)"},
    {IN_FIGURE, "{\"value\": \"4.8TB/s\", \"kind\": \"guessed\", \"source\": \"s\"}",
     "$.gpu.hbm_bandwidth.kind: expected one of datasheet, measured, derived, fitted, assumed, found \"guessed\""},
    {IN_FIGURE, "{\"value\": \"4.8TB/s\", \"kind\": \"set\", \"source\": \"s\"}", "found \"set\""},
    {IN_FIGURE, "{\"value\": \"4.8TB/s\", \"kind\": \"none\", \"source\": \"s\"}", "found \"none\""},
    {IN_FIGURE, "{\"value\": \"4.8TB/s\", \"kind\": 3, \"source\": \"s\"}",
     "$.gpu.hbm_bandwidth.kind: expected a string, found 3"},
    {IN_FIGURE, "{\"value\": \"4.8TB/s\", \"low\": \"4.81TB/s\"" FIGURE_END,
     "$.gpu.hbm_bandwidth: expected low <= value <= high, found 4.81TB/s, 4.8TB/s, 4.8TB/s"},
    {IN_FIGURE, "{\"value\": \"4.8TB/s\", \"high\": \"4.7TB/s\"" FIGURE_END, "expected low <= value <= high"},
    {IN_FIGURE, "{\"value\": \"4.8TB/s\", \"low\": \"3ms\"" FIGURE_END,
     "$.gpu.hbm_bandwidth.low: expected a rate such as \"4.8TB/s\", found \"3ms\""},
    {IN_FIGURE, "{\"value\": \"4.8TB/s\", \"high\": 5" FIGURE_END, "$.gpu.hbm_bandwidth.high: expected a rate"},
    {IN_FIGURE, "{\"value\": \"101TB/s\"" FIGURE_END,
     "$.gpu.hbm_bandwidth.value: expected 1GB/s to 100TB/s, found 101TB/s"},
    {IN_FIGURE, "{\"value\": \"4.8TB/s\", \"low\": \"1MB/s\"" FIGURE_END,
     "$.gpu.hbm_bandwidth.low: expected 1GB/s to 100TB/s, found 1MB/s"},
    {IN_GPU, "\"efficiency\": 0.85", "found 0.85 (say where it comes from)"},
};

static void bad_files_are_refused_with_path(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    for (size_t i = 0; i < SP_COUNT_OF(bad_files); i++) {
        struct node node = {0};
        struct sp_error err = {0};
        const char *text = fill(arena, bad_files[i].around, bad_files[i].text);
        if (decode(arena, text, &node, &err)) {
            fail_msg("taken: %s", text);
        }
        assert_int_equal(err.kind, SP_ERROR_INPUT);
        assert_error_contains(&err, bad_files[i].expected);
        assert_memory_equal(err.text, "hardware/x.json: $", 18);
        assert_null(strstr(err.text + 1, "hardware/x.json")); /* named once */
    }
    sp_arena_close(arena);
}

static void long_values_are_shortened_in_errors(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    struct node node = {0};
    struct sp_error err = {0};
    assert_false(decode(arena,
                        "{\"weight\": \"0123456789012345678901234567890123456789012345678901234567890123456789\"}",
                        &node, &err));
    assert_error_contains(&err, "\"012345678901234567890123456789012345678901234567890123456789...\"");
    sp_arena_close(arena);
}

static void fields_are_set_by_path(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    struct node node = {0};
    static const char *const rows[][2] = {
        {"name", "my node"},
        {"liquid_cooled", "true"},
        {"gpus", "4"},
        {"weight", "-1.25"},
        {"loss_chunk", "16K"},
        {"share", "12.5%"},
        {"gpu.hbm_bandwidth", "8TB/s"},
        {"gpu.memory", "192GB"},
        {"gpu.sm_count", "148"},
        {"gpu.link.kind", "pcie"},
        {"gpu.link.latency", "700ns"},
        {"offset", "-9000000000"},
    };
    for (size_t i = 0; i < SP_COUNT_OF(rows); i++) {
        struct sp_error err = {0};
        if (!sp_fields_set(node_fields, arena, rows[i][0], rows[i][1], &node, &err)) {
            fail_msg("%s", err.text);
        }
    }
    assert_string_equal(node.name, "my node");
    assert_true(node.is_liquid_cooled);
    assert_close(node.n_gpus, 4.0, 0.0);
    assert_close(node.weight, -1.25, 0.0);
    assert_close(node.loss_chunk_tokens, 16384.0, 0.0);
    assert_close(node.share_frac, 0.125, 0.0);
    assert_close(node.gpu.memory_bytes, 192e9, 0.0);
    assert_int_equal(node.gpu.n_sm, 148);
    assert_int_equal(node.gpu.link.kind, LINK_PCIE);
    assert_close(node.gpu.link.latency_s, 700e-9, 0.0);
    assert_int_equal(node.offset, INT64_C(-9000000000));

    const struct sp_figure *figure = &node.gpu.hbm_bandwidth;
    assert_close(figure->value, 8e12, 0.0);
    assert_close(figure->low, 8e12, 0.0);
    assert_close(figure->high, 8e12, 0.0);
    assert_int_equal(figure->kind, SP_FIGURE_SET);
    assert_string_equal(figure->source, "--set");
    assert_null(figure->note);
    sp_arena_close(arena);
}

static void plain_numbers_may_be_negative(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    static const struct {
        const char *text;
        double value;
    } rows[] = {{"-0.5", -0.5}, {"00.5", 0.5}, {"-9.75", -9.75}, {"0.5", 0.5}, {"-1e300", -1e300}};
    for (size_t i = 0; i < SP_COUNT_OF(rows); i++) {
        struct node node = {0};
        struct sp_error err = {0};
        assert_true(sp_fields_set(node_fields, arena, "weight", rows[i].text, &node, &err));
        assert_close(node.weight, rows[i].value, 0.0);
    }
    struct node node = {.offset = 8317};
    struct sp_error err = {0};
    assert_true(sp_fields_set(node_fields, arena, "offset", "-0", &node, &err));
    assert_int_equal(node.offset, 0);
    assert_true(sp_fields_set(node_fields, arena, "offset", "-9", &node, &err));
    assert_int_equal(node.offset, -9);
    sp_arena_close(arena);
}

static void booleans_take_words(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    static const struct {
        const char *text;
        bool value;
    } rows[] = {{"true", true}, {"false", false}, {"on", true}, {"off", false}};
    for (size_t i = 0; i < SP_COUNT_OF(rows); i++) {
        struct node node = {.is_liquid_cooled = !rows[i].value};
        struct sp_error err = {0};
        assert_true(sp_fields_set(node_fields, arena, "liquid_cooled", rows[i].text, &node, &err));
        assert_int_equal(node.is_liquid_cooled, rows[i].value);
    }
    sp_arena_close(arena);
}

static void bad_settings_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        const char *text;
        const char *expected;
    } rows[] = {
        {"gpu.hbm_bandwidth", "8", "gpu.hbm_bandwidth: expected a rate such as \"4.8TB/s\", found \"8\" (add a unit)"},
        {"gpu.hbm_bandwidth", "101TB/s", "gpu.hbm_bandwidth: expected 1GB/s to 100TB/s, found 101TB/s"},
        {"gpu.hbm_bandwith", "8TB/s", "unknown field \"gpu.hbm_bandwith\" (did you mean \"gpu.hbm_bandwidth\"?)"},
        {"gpu.link.laency", "1us", "unknown field \"gpu.link.laency\" (did you mean \"gpu.link.latency\"?)"},
        {"pointz", "1", "unknown field \"pointz\""},
        {"entirely.else", "1", "unknown field \"entirely.else\""},
        {"gp", "1", "unknown field \"gp\""},
        {"", "1", "unknown field \"\""},
        {"gpu.", "1", "unknown field \"gpu.\""},
        {".gpu", "1", "unknown field \".gpu\""},
        {"gpu.hbm_bandwidth.value", "8TB/s", "unknown field \"gpu.hbm_bandwidth.value\""},
        {"gpu", "1", "gpu: is a group of fields (set one of them, such as \"gpu.name\")"},
        {"gpu.link", "1", "gpu.link: is a group of fields (set one of them, such as \"gpu.link.kind\")"},
        {"points", "[]", "points: cannot be set from text"},
        {"liquid_cooled", "yes", "liquid_cooled: expected true or false, found \"yes\""},
        {"gpus", "8.5", "gpus: expected a whole number such as \"132\", found \"8.5\""},
        {"weight", "", "weight: expected a plain number such as \"0.97\", found an empty text"},
        {"weight", "-", "weight: expected a plain number"},
        {"weight", "--1", "weight: expected a plain number"},
        {"weight", "6", "weight: expected at most 5.5, found 6"},
        {"weight", "nan", "weight: expected a plain number"},
        {"share", "1.5", "share: expected a fraction"},
        {"share", "-0.1", "(must not be negative)"},
        {"loss_chunk", "64", "loss_chunk: expected at least 128, found 64"},
        {"gpu.sm_count", "0", "gpu.sm_count: expected 1 to 1024, found 0"},
        {"gpu.sm_count", "12x", "gpu.sm_count: expected a whole number, found \"12x\""},
        {"gpu.sm_count", "1.5", "expected a whole number, found \"1.5\""},
        {"gpu.sm_count", "", "expected a whole number, found \"\""},
        {"gpu.sm_count", " 12", "expected a whole number, found \" 12\""},
        {"gpu.sm_count", "+12", "expected a whole number, found \"+12\""},
        {"offset", "9223372036854775808", "offset: expected a whole number"},
        {"gpu.link.kind", "nvlik",
         "gpu.link.kind: expected one of nvlink, pcie, network, found \"nvlik\" (did you mean"},
        {"gpu.link.latency", "3", "gpu.link.latency: expected a time such as \"1.2us\", found \"3\" (add a unit)"},
    };
    struct sp_arena *arena = sp_arena_open();
    for (size_t i = 0; i < SP_COUNT_OF(rows); i++) {
        static const struct node untouched;
        struct node node = {0};
        struct sp_error err = {0};
        if (sp_fields_set(node_fields, arena, rows[i].path, rows[i].text, &node, &err)) {
            fail_msg("taken: %s=%s", rows[i].path, rows[i].text);
        }
        assert_int_equal(err.kind, SP_ERROR_USAGE);
        assert_error_contains(&err, rows[i].expected);
        assert_null(strstr(err.text, "did you mean \"points\"")); /* which cannot be set */
        assert_memory_equal(&node, &untouched, sizeof(node));
    }
    sp_arena_close(arena);
}

struct visits {
    struct sp_arena *arena;
    const char *paths;
    const struct node *node;
    int n_values;
};

static void visit(const char *path, const struct sp_field *field, const void *value, void *user)
{
    struct visits *visits = user;
    visits->paths = sp_format(visits->arena, "%s%s;", visits->paths, path);
    if (strcmp(path, "gpu.link.latency") == 0) {
        assert_int_equal(field->type, SP_FIELD_QUANTITY);
        assert_ptr_equal(value, visits->node == NULL ? NULL : &visits->node->gpu.link.latency_s);
    }
    visits->n_values += value != NULL;
}

static void every_row_is_visited_depth_first(void **state)
{
    (void)state;
    static const char expected[] = "name;liquid_cooled;gpus;weight;loss_chunk;share;gpu;gpu.name;gpu.hbm_bandwidth;"
                                   "gpu.efficiency;gpu.memory;gpu.sm_count;gpu.link;gpu.link.kind;gpu.link.latency;"
                                   "points;offset;";
    struct sp_arena *arena = sp_arena_open();
    const struct node node = {0};
    struct visits visits = {.arena = arena, .paths = "", .node = &node};
    sp_fields_visit(node_fields, &node, visit, &visits);
    assert_string_equal(visits.paths, expected);
    assert_int_equal(visits.n_values, 17);

    visits = (struct visits){.arena = arena, .paths = ""};
    sp_fields_visit(node_fields, NULL, visit, &visits);
    assert_string_equal(visits.paths, expected);
    assert_int_equal(visits.n_values, 0);
    sp_arena_close(arena);
}

static void figure_kinds_have_names(void **state)
{
    (void)state;
    assert_string_equal(sp_figure_kind_names[SP_FIGURE_NONE], "none");
    assert_string_equal(sp_figure_kind_names[SP_FIGURE_DATASHEET], "datasheet");
    assert_string_equal(sp_figure_kind_names[SP_FIGURE_MEASURED], "measured");
    assert_string_equal(sp_figure_kind_names[SP_FIGURE_DERIVED], "derived");
    assert_string_equal(sp_figure_kind_names[SP_FIGURE_FITTED], "fitted");
    assert_string_equal(sp_figure_kind_names[SP_FIGURE_ASSUMED], "assumed");
    assert_string_equal(sp_figure_kind_names[SP_FIGURE_SET], "set");
    assert_null(sp_figure_kind_names[SP_FIGURE_SET + 1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_is_decoded),
        cmocka_unit_test(absent_keys_leave_the_object_alone),
        cmocka_unit_test(bounds_are_within),
        cmocka_unit_test(bad_files_are_refused_with_path),
        cmocka_unit_test(long_values_are_shortened_in_errors),
        cmocka_unit_test(fields_are_set_by_path),
        cmocka_unit_test(plain_numbers_may_be_negative),
        cmocka_unit_test(booleans_take_words),
        cmocka_unit_test(bad_settings_are_refused),
        cmocka_unit_test(every_row_is_visited_depth_first),
        cmocka_unit_test(figure_kinds_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
