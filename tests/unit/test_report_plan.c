/* Plans in words and tables, from small answers written as JSON. */
#include "report/report.h"
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

static const double GIB = 0x1p30;

/* What the answers of a test differ in; what is 0 or NULL takes the first one's. */
struct sample {
    const char *method, *recompute, *schedule;
    double gpus, tp, sp, pp, vpp, micro_batches;
    double step_s, attention_s, gemm_s, sp_exposed_s, bubble_s; /* step_s is not summed from the items */
    double peak_gib, activations_gib, gradients_gib;
    double hfu_frac;
    const char *communication; /* rows */
};

#define ROW(operation, pass, tier, bytes, messages, time, exposed)                                                     \
    ROW_OF_STEP(operation, pass, tier, bytes, messages, "5e10", time, exposed)
#define ROW_OF_STEP(operation, pass, tier, bytes, messages, step, time, exposed)                                       \
    "{\"axis\": \"sp\", \"operation\": \"" operation "\", \"pass\": \"" pass "\", \"tier\": \"" tier                   \
    "\", \"bytes_per_layer_per_gpu\": " bytes ", \"messages_per_layer\": " messages                                    \
    ", \"bytes_per_step_per_gpu\": " step ", \"time_s\": " time ", \"exposed_s\": " exposed "}"

static const char ring_of_7[] = ROW("ring", "forward", "nvlink", "3e8", "6", "2",
                                    "0.25") "," ROW("ring", "backward", "nvlink", "6e8", "12", "4", "0.25");

static const char *words_or(const char *text, const char *usual)
{
    return text == NULL ? usual : text;
}

static double value_or(double value, double usual)
{
    return value > 0.0 ? value : usual;
}

static const struct sp_json *answer_of(struct sp_arena *arena, const struct sample *sample)
{
    const char *layout = sp_format(
        arena,
        "{\"tp\": %g, \"sp\": %g, \"sp_method\": \"%s\", \"sp_ulysses\": 1, \"sp_inner\": 1, \"pp\": %g, \"vpp\": %g, "
        "\"schedule\": \"%s\", \"dp\": 1, \"micro_batch\": 1, \"recompute\": \"%s\", \"zero\": 1, \"offload\": "
        "\"none\", \"framework\": \"megatron\", \"order\": \"tp-cp-ep-dp-pp\"}",
        value_or(sample->tp, 1.0), value_or(sample->sp, 7.0), words_or(sample->method, "zigzag"),
        value_or(sample->pp, 1.0), value_or(sample->vpp, 1.0), words_or(sample->schedule, "1f1b"),
        words_or(sample->recompute, "none"));
    const char *items = sp_format(
        arena,
        "\"time_s\": {\"attention\": %g, \"gemm\": %g, \"sp_exposed\": %g, \"bubble\": %g}, \"memory_bytes\": "
        "{\"gradients\": %.17g, \"activations\": %.17g}",
        value_or(sample->attention_s, 12.0), value_or(sample->gemm_s, 7.5), value_or(sample->sp_exposed_s, 0.5),
        sample->bubble_s, GIB * value_or(sample->gradients_gib, 5.0), GIB * value_or(sample->activations_gib, 21.0));
    const char *text =
        sp_format(arena,
                  "{\"gpus\": %g, \"micro_batches\": %g, \"layout\": %s, \"step_time_s\": %g, \"peak_bytes\": %.17g, "
                  "\"mfu_frac\": 0.4, \"hfu_frac\": %g, %s, \"communication\": [%s]}",
                  value_or(sample->gpus, 56.0), value_or(sample->micro_batches, 24.0), layout,
                  value_or(sample->step_s, 20.0), GIB * value_or(sample->peak_gib, 61.0),
                  value_or(sample->hfu_frac, 0.4), items, words_or(sample->communication, ring_of_7));
    struct sp_error err = {0};
    const struct sp_json *json = sp_json_parse(arena, "answer", text, &err);
    if (json == NULL) {
        fail_msg("%s", err.text);
    }
    return json;
}

/* A plan of a test. */
struct fixture {
    struct sp_arena *arena;
    struct plan_question asked;
    struct question base;
    struct plan plan;
    struct report_plan report;
};

static struct fixture *fixture_open(const struct sample *samples, int n, enum plan_objective objective)
{
    struct sp_arena *arena = sp_arena_open();
    struct fixture *fixture = sp_arena_alloc(arena, sizeof(*fixture));
    struct plan_layout *layouts = sp_arena_array(arena, (size_t)n, sizeof(*layouts));
    const struct sp_json **answers = sp_arena_array(arena, (size_t)n, sizeof(*answers));
    fixture->arena = arena;
    for (int i = 0; i < n; i++) {
        answers[i] = answer_of(arena, &samples[i]);
        layouts[i] = (struct plan_layout){.gpus = (int64_t)value_or(samples[i].gpus, 56.0),
                                          .step_time_s = value_or(samples[i].step_s, 20.0),
                                          .peak_bytes = GIB * value_or(samples[i].peak_gib, 61.0),
                                          .is_ranked = true,
                                          .index = (uint64_t)(100 - i)};
    }
    plan_question_init(&fixture->asked, arena);
    fixture->asked.objective = objective;
    fixture->base.run.seq = 393216;
    fixture->base.hardware.gpu.price.value = 3.0;
    fixture->plan = (struct plan){.considered = 61007,
                                  .evaluated = 35,
                                  .n_layouts = n,
                                  .layouts = layouts,
                                  .n_kept = n,
                                  .kept = layouts,
                                  .global_batch = 24};
    fixture->report = (struct report_plan){
        .asked = &fixture->asked, .base = &fixture->base, .plan = &fixture->plan, .answers = answers};
    return fixture;
}

static void expect_words(const struct sample *sample, enum plan_objective objective, bool is_on_front,
                         const char *expected)
{
    const struct sample samples[] = {{.method = NULL}, *sample};
    struct fixture *fixture = fixture_open(samples, 2, objective);
    struct plan_layout *layouts = sp_arena_array(fixture->arena, 2, sizeof(*layouts));
    memcpy(layouts, fixture->plan.layouts, 2 * sizeof(*layouts));
    layouts[1].is_on_front = is_on_front;
    fixture->plan.layouts = layouts;
    assert_string_equal(report_plan_differs(fixture->arena, &fixture->report, 1), expected);
    sp_arena_close(fixture->arena);
}

/* ---- words ------------------------------------------------------------------------------------------------------- */

static void more_hops_are_counted(void **state)
{
    (void)state;
    const struct sample longer = {.sp = 14.0,
                                  .step_s = 20.42,
                                  .sp_exposed_s = 0.92,
                                  .communication = ROW("ring", "forward", "nvlink", "3e8", "13", "2", "0.5") "," ROW(
                                      "ring", "backward", "nvlink", "6e8", "26", "4", "0.42")};
    expect_words(&longer, PLAN_THROUGHPUT, false,
                 "2.1 % slower: 420 ms more sp exposed (ring over NVLink: 39 hops a layer instead of 18)");
}

static void another_link_comes_before_hops_and_bytes(void **state)
{
    (void)state;
    const struct sample farther = {.step_s = 23.0,
                                   .sp_exposed_s = 3.5,
                                   .communication = ROW("ring", "forward", "network", "4e8", "9", "6", "3.5")};
    expect_words(&farther, PLAN_THROUGHPUT, false,
                 "15.0 % slower: 3.00 s more sp exposed (ring over the network instead of NVLink)");
}

static void a_transfer_that_the_first_lacks(void **state)
{
    (void)state;
    const struct sample ulysses = {.method = "ulysses",
                                   .step_s = 22.0,
                                   .attention_s = 13.0,
                                   .sp_exposed_s = 1.5,
                                   .communication = ROW("all-to-all", "forward", "mixed", "4e8", "6", "2", "1.5")};
    expect_words(&ulysses, PLAN_THROUGHPUT, false,
                 "10.0 % slower: 1.00 s more attention (sp-method ulysses instead of zigzag), 1.00 s more sp exposed "
                 "(all-to-all over NVLink and the network)");
}

static void bytes_and_what_hides(void **state)
{
    (void)state;
    const struct sample heavier = {.step_s = 21.0,
                                   .sp_exposed_s = 1.5,
                                   .communication = ROW("ring", "forward", "nvlink", "8e8", "6", "4", "1") "," ROW(
                                       "ring", "backward", "nvlink", "16e8", "12", "8", "0.5")};
    expect_words(&heavier, PLAN_THROUGHPUT, false,
                 "5.0 % slower: 1.00 s more sp exposed (ring over NVLink: 2400 MB a layer instead of 900)");
    const struct sample barer = {.step_s = 21.0,
                                 .sp_exposed_s = 1.5,
                                 .communication = ROW("ring", "forward", "nvlink", "3e8", "6", "2", "1") "," ROW(
                                     "ring", "backward", "nvlink", "6e8", "12", "4", "0.5")};
    expect_words(&barer, PLAN_THROUGHPUT, false,
                 "5.0 % slower: 1.00 s more sp exposed (ring over NVLink: 75.0 % hidden instead of 91.7 %)");
}

/* As much a micro-batch, and more of them: what hides is a larger share, and still more is exposed. */
static void more_micro_batches_send_more_a_step(void **state)
{
    (void)state;
    const struct sample often = {.step_s = 21.0,
                                 .sp_exposed_s = 1.5,
                                 .communication = ROW_OF_STEP("ring", "forward", "nvlink", "3e8", "6", "9e10", "20",
                                                              "1") "," ROW_OF_STEP("ring", "backward", "nvlink", "6e8",
                                                                                   "12", "18e10", "40", "0.5")};
    expect_words(&often, PLAN_THROUGHPUT, false,
                 "5.0 % slower: 1.00 s more sp exposed (ring over NVLink: 270 GB a step instead of 100)");
}

static void a_bubble_is_told_by_stages_and_micro_batches(void **state)
{
    (void)state;
    const struct sample staged = {.pp = 7.0, .sp = 3.0, .micro_batches = 12.0, .step_s = 25.0, .bubble_s = 5.0};
    expect_words(&staged, PLAN_THROUGHPUT, false, "25.0 % slower: 5.00 s more bubble (pp 7 with 12 micro-batches)");
}

static void recomputation_is_named_for_both_items_once(void **state)
{
    (void)state;
    const struct sample full = {.recompute = "full",
                                .hfu_frac = 0.53,
                                .step_s = 26.0,
                                .attention_s = 15.75,
                                .gemm_s = 9.75,
                                .peak_gib = 44.0,
                                .activations_gib = 4.0};
    expect_words(&full, PLAN_THROUGHPUT, true,
                 "30.0 % slower: 3.75 s more attention, 2.25 s more gemm (recompute full instead of none); 17.0 GiB "
                 "less memory: 17.0 GiB less activations (recompute full instead of none)");
    expect_words(&full, PLAN_THROUGHPUT, false,
                 "30.0 % slower: 3.75 s more attention, 2.25 s more gemm (recompute full instead of none); 17.0 GiB "
                 "less memory");
}

/* A little more recomputation does not explain much more time where the method differs too. */
static void recomputation_is_not_named_for_what_it_cannot_explain(void **state)
{
    (void)state;
    const struct sample other = {
        .recompute = "block:3", .method = "ulysses", .hfu_frac = 0.404, .step_s = 21.0, .attention_s = 13.0};
    expect_words(&other, PLAN_THROUGHPUT, false,
                 "5.0 % slower: 1.00 s more attention (sp-method ulysses instead of zigzag)");
}

static void what_works_against_it_is_said(void **state)
{
    (void)state;
    const struct sample narrow = {.tp = 7.0,
                                  .sp = 1.0,
                                  .method = "none",
                                  .step_s = 20.5,
                                  .gemm_s = 8.5,
                                  .sp_exposed_s = 0.0001,
                                  .communication = ""};
    expect_words(&narrow, PLAN_THROUGHPUT, false,
                 "2.5 % slower: 1.00 s more gemm (tp 7 instead of 1), 500 ms less sp exposed (no ring over NVLink)");
}

static void ties_are_told_by_memory(void **state)
{
    (void)state;
    const struct sample tie = {.peak_gib = 63.5, .gradients_gib = 7.5, .tp = 3.0};
    expect_words(&tie, PLAN_THROUGHPUT, false,
                 "as fast; 2.50 GiB more memory: 2.50 GiB more gradients (tp 3 instead of 1)");
    const struct sample same = {.tp = 3.0};
    expect_words(&same, PLAN_THROUGHPUT, false, "as fast");
}

static void the_objective_comes_first(void **state)
{
    (void)state;
    const struct sample larger = {.peak_gib = 63.5, .gradients_gib = 7.5, .tp = 3.0, .step_s = 19.0, .gemm_s = 6.5};
    expect_words(&larger, PLAN_MEMORY, false,
                 "2.50 GiB more memory: 2.50 GiB more gradients (tp 3 instead of 1); 5.3 % faster");
    const struct sample more = {.gpus = 112.0, .step_s = 10.4};
    expect_words(&more, PLAN_GPUS, false, "112 GPUs instead of 56, 1.92 x as fast");
    expect_words(&more, PLAN_COST, false, "4.0 % dearer; 112 GPUs instead of 56, 1.92 x as fast");
    const struct sample fewer = {.gpus = 28.0, .step_s = 41.0};
    expect_words(&fewer, PLAN_COST, false, "2.5 % dearer; 28 GPUs instead of 56, 105.0 % slower");
}

static void the_first_says_by_what_it_is_first(void **state)
{
    (void)state;
    const struct sample samples[] = {{.method = NULL},
                                     {.method = "ulysses", .sp = 14.0, .step_s = 20.5, .gemm_s = 8.0}};
    static const char *const expected[N_PLAN_OBJECTIVES] = {
        [PLAN_THROUGHPUT] = "fastest of 61007 considered; next best: sp-method ulysses, sp 14, 2.5 % slower",
        [PLAN_MEMORY] = "smallest peak of 61007 considered; next best: sp-method ulysses, sp 14, 2.5 % slower",
        [PLAN_GPUS] = "fewest GPUs of 61007 considered; next best: sp-method ulysses, sp 14, 2.5 % slower",
        [PLAN_COST] = "cheapest of 61007 considered; next best: sp-method ulysses, sp 14, 2.5 % dearer",
    };
    for (int objective = 0; objective < (int)N_PLAN_OBJECTIVES; objective++) {
        struct fixture *fixture = fixture_open(samples, 2, (enum plan_objective)objective);
        assert_string_equal(report_plan_differs(fixture->arena, &fixture->report, 0), expected[objective]);
        sp_arena_close(fixture->arena);
    }
    struct fixture *alone = fixture_open(samples, 1, PLAN_THROUGHPUT);
    assert_string_equal(report_plan_differs(alone->arena, &alone->report, 0),
                        "the only one that fits of 61007 considered");
    sp_arena_close(alone->arena);
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

static char *printed(const struct report_grid *grid)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    assert_non_null(file);
    const struct report_style style = {.file = file, .format = REPORT_TABLE};
    report_grid_print(&style, grid);
    assert_int_equal(fclose(file), 0);
    return text;
}

static void columns_are_what_differs(void **state)
{
    (void)state;
    const struct sample samples[] = {{.method = NULL},
                                     {.method = "ulysses", .step_s = 20.5, .gemm_s = 8.0},
                                     {.pp = 7.0, .sp = 1.0, .method = "none", .step_s = 19.996, .peak_gib = 33.3}};
    const int rows[] = {0, 1, 2};
    struct fixture *fixture = fixture_open(samples, 3, PLAN_THROUGHPUT);
    const struct report_grid grid = report_plan_grid(fixture->arena, &fixture->report, rows, 3, false);
    char *text = printed(&grid);
    assert_string_equal(text, "  #  sp  method   pp  schedule  step s  slower %  MFU %   GiB\n"
                              "  1   7  zigzag    1              20.0             40.0  61.0\n"
                              "  2   7  ulysses   1              20.5       2.5   40.0  61.0\n"
                              "  3   1  none      7  1f1b        20.0       0.0   40.0  33.3\n");
    free(text);
    /* a table without the first says in what all its rows differ from that */
    const struct report_grid rest = report_plan_grid(fixture->arena, &fixture->report, &rows[2], 1, false);
    text = printed(&rest);
    assert_string_equal(text, "  #  sp  method  pp  schedule  step s  slower %  MFU %   GiB\n"
                              "  3   1  none     7  1f1b        20.0       0.0   40.0  33.3\n");
    free(text);
    sp_arena_close(fixture->arena);
}

static void cost_has_a_column_when_it_ranks(void **state)
{
    (void)state;
    const struct sample samples[] = {{.method = NULL}, {.gpus = 112.0, .step_s = 10.4}};
    const int rows[] = {0, 1};
    struct fixture *fixture = fixture_open(samples, 2, PLAN_COST);
    const struct report_grid grid = report_plan_grid(fixture->arena, &fixture->report, rows, 2, true);
    char *text = printed(&grid);
    /* 56 GPUs x 20 s x 3 $/h over 24 x 393216 tokens */
    assert_string_equal(text, "  #  GPUs  step s  slower %  $/Gtoken  MFU %   GiB\n"
                              "  1    56    20.0                98.9   40.0  61.0\n"
                              "      cheapest of 61007 considered; next best: 112 GPUs, 4.0 % dearer\n"
                              "  2   112    10.4     -48.0       103   40.0  61.0\n"
                              "      112 GPUs instead of 56, 1.92 x as fast\n");
    free(text);
    sp_arena_close(fixture->arena);
}

static void a_long_front_is_thinned_and_keeps_its_ends(void **state)
{
    (void)state;
    enum { MANY = 61, SHOWN = 8 };
    struct sample samples[MANY] = {{.method = NULL}};
    for (int i = 0; i < MANY; i++) {
        samples[i] = (struct sample){.step_s = 20.0 + 0.1 * i, .peak_gib = 70.0 - 0.7 * i};
    }
    samples[1].step_s = 20.001; /* next to the first: says the least */
    samples[1].peak_gib = 69.99;
    struct fixture *fixture = fixture_open(samples, MANY, PLAN_THROUGHPUT);
    struct plan_layout *layouts = sp_arena_array(fixture->arena, MANY, sizeof(*layouts));
    memcpy(layouts, fixture->plan.layouts, MANY * sizeof(*layouts));
    for (int i = 0; i < MANY; i++) {
        layouts[i].is_on_front = i != 3;
    }
    fixture->plan.layouts = layouts;
    int rows[MANY];
    int n_whole = 0;
    int n_rows = report_plan_front(fixture->arena, &fixture->report, rows, &n_whole);
    assert_int_equal(n_whole, MANY - 1);
    assert_int_equal(n_rows, SHOWN);
    assert_int_equal(rows[0], 0);
    assert_int_equal(rows[SHOWN - 1], MANY - 1);
    for (int i = 1; i < SHOWN; i++) {
        assert_true(rows[i] > rows[i - 1] && rows[i] != 1 && rows[i] != 3);
    }
    sp_arena_close(fixture->arena);
}

/* Ranked are the best of families; what stands on the front beside them is not. */
static void the_ranking_is_of_families(void **state)
{
    (void)state;
    const struct sample samples[] = {{.method = NULL}, {.step_s = 20.1}, {.step_s = 20.2}, {.step_s = 20.3}};
    struct fixture *fixture = fixture_open(samples, 4, PLAN_THROUGHPUT);
    struct plan_layout layouts[4];
    memcpy(layouts, fixture->plan.layouts, sizeof(layouts));
    layouts[1].is_ranked = layouts[3].is_ranked = false;
    fixture->plan.layouts = layouts;
    int rows[4];
    assert_int_equal(report_plan_ranked(&fixture->report, rows), 2);
    assert_int_equal(rows[0], 0);
    assert_int_equal(rows[1], 2);
    sp_arena_close(fixture->arena);
}

static void reasons_are_words_with_one_example(void **state)
{
    (void)state;
    const struct sample samples[] = {{.method = NULL}};
    struct fixture *fixture = fixture_open(samples, 1, PLAN_THROUGHPUT);
    static const char *const names[] = {"memory", "bound", "few_micro_batches", "a_new_rule", "pair", "offload", "zzz"};
    fixture->plan.n_rejections = (int)SP_COUNT_OF(names);
    for (int i = 0; i < fixture->plan.n_rejections; i++) {
        fixture->plan.rejections[i] = (struct plan_rejection){
            .reason = names[i], .count = 700 - 100 * i, .example = i == 0 ? "83.1 GiB; and another" : NULL};
    }
    const struct report_grid grid = report_plan_rejections(fixture->arena, &fixture->report);
    char *text = printed(&grid);
    assert_string_equal(text, "  dropped  why                                       for example\n"
                              "      700  need more memory than a GPU has           83.1 GiB\n"
                              "      600  cannot be among the best (a bound)\n"
                              "      500  too few micro-batches for the stages\n"
                              "      400  a new rule\n"
                              "      300  the framework lacks the method\n"
                              "      300  2 other reasons (--format json has them)\n");
    free(text);
    sp_arena_close(fixture->arena);
}

/* ---- options ----------------------------------------------------------------------------------------------------- */

static void options_say_what_does_not_go_without_saying(void **state)
{
    (void)state;
    const struct sample samples[] = {{.method = NULL}};
    struct fixture *fixture = fixture_open(samples, 1, PLAN_THROUGHPUT);
    struct request *request = &fixture->asked.request;
    request->model = "models of mine/it's.json";
    request->hardware = "dgx-h100";
    request->seq = (struct sp_option_count){true, 393216};
    request->tokens = (struct sp_option_count){true, 1500000000000};
    request->precision = DTYPE_FP8;
    request->tp_sp = 1;
    sp_texts_add(&request->set, "layout.order=tp-cp-ep-pp-dp");
    sp_texts_add(&request->set, "gpu.hbm_bandwidth=4.2TB/s");
    struct plan_layout layout = {.gpus = 168,
                                 .layout = {.tp = 6,
                                            .sp = 1,
                                            .pp = 7,
                                            .vpp = 3,
                                            .dp = 4,
                                            .ep = 1,
                                            .etp = 1,
                                            .micro_batch = 1,
                                            .zero = 1,
                                            .method = METHOD_NONE,
                                            .schedule = SCHEDULE_INTERLEAVED,
                                            .recompute = RECOMPUTE_BLOCK,
                                            .recompute_layers = 3,
                                            .offloads_optimizer = true,
                                            .order = {AXIS_TP, AXIS_CP, AXIS_EP, AXIS_DP, AXIS_PP}}};
    assert_string_equal(
        report_layout_options(fixture->arena, &fixture->report, &layout),
        "--model 'models of mine/it'\\''s.json' --hardware dgx-h100 --gpus 168 --seq 384K --global-batch 24 "
        "--tp 6 --pp 7 --vpp 3 --dp 4 --framework megatron --recompute block:3 --zero 1 --offload optimizer "
        "--tp-sp on --precision fp8 --tokens 1.5T --set gpu.hbm_bandwidth=4.2TB/s");
    layout.layout.order[3] = AXIS_PP;
    layout.layout.order[4] = AXIS_DP;
    layout.layout.schedule = SCHEDULE_ZBV;
    layout.layout.sp = 14;
    layout.layout.method = METHOD_USP;
    layout.layout.sp_ulysses = 2;
    const char *text = report_layout_options(fixture->arena, &fixture->report, &layout);
    assert_non_null(strstr(text, " --sp 14 --sp-method usp --sp-ulysses 2 --pp 7 --vpp 3 --schedule zbv "));
    assert_non_null(strstr(text, " --set gpu.hbm_bandwidth=4.2TB/s --set layout.order=tp-cp-ep-pp-dp"));
    sp_arena_close(fixture->arena);
}

/* ---- what is missing --------------------------------------------------------------------------------------------- */

static double missing_gib(const struct plan_question *limits, const char *peak_gib, const char *host)
{
    const struct sample samples[] = {{.method = NULL}};
    struct fixture *fixture = fixture_open(samples, 1, PLAN_THROUGHPUT);
    const char *text = sp_format(fixture->arena,
                                 "{\"peak_bytes\": %se9, \"capacity_bytes\": 80e9, \"host_bytes\": %s, "
                                 "\"host_capacity_bytes\": 2e12}",
                                 peak_gib, host);
    struct sp_error err = {0};
    fixture->report.nearest_miss = sp_json_parse(fixture->arena, "miss", text, &err);
    fixture->asked.headroom_bytes = limits->headroom_bytes;
    fixture->asked.headroom_frac = limits->headroom_frac;
    fixture->asked.max_memory_bytes = limits->max_memory_bytes;
    const struct report_missing missing = report_plan_missing(&fixture->report);
    assert_int_equal(missing.is_of_host, missing.bytes > 100e9); /* only the host lacks as much */
    sp_arena_close(fixture->arena);
    return missing.bytes / 1e9;
}

static void missing_memory_is_what_the_limits_ask(void **state)
{
    (void)state;
    const struct plan_question none = {.n_top = 1};
    const struct plan_question room = {.headroom_bytes = 7e9};
    const struct plan_question share = {.headroom_frac = 0.1};
    const struct plan_question most = {.headroom_frac = 0.1, .max_memory_bytes = 61e9};
    assert_close(missing_gib(&none, "83.5", "0"), 3.5, 1e-12);
    assert_close(missing_gib(&room, "83.5", "0"), 10.5, 1e-12);
    assert_close(missing_gib(&share, "83.5", "0"), 11.5, 1e-12);
    assert_close(missing_gib(&most, "83.5", "0"), 22.5, 1e-12);
    assert_close(missing_gib(&none, "73.5", "2.7e12"), 700.0, 1e-12);
    assert_close(missing_gib(&none, "73.5", "0"), 0.0, 0.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(more_hops_are_counted),
        cmocka_unit_test(another_link_comes_before_hops_and_bytes),
        cmocka_unit_test(a_transfer_that_the_first_lacks),
        cmocka_unit_test(bytes_and_what_hides),
        cmocka_unit_test(more_micro_batches_send_more_a_step),
        cmocka_unit_test(a_bubble_is_told_by_stages_and_micro_batches),
        cmocka_unit_test(recomputation_is_named_for_both_items_once),
        cmocka_unit_test(recomputation_is_not_named_for_what_it_cannot_explain),
        cmocka_unit_test(what_works_against_it_is_said),
        cmocka_unit_test(ties_are_told_by_memory),
        cmocka_unit_test(the_objective_comes_first),
        cmocka_unit_test(the_first_says_by_what_it_is_first),
        cmocka_unit_test(columns_are_what_differs),
        cmocka_unit_test(cost_has_a_column_when_it_ranks),
        cmocka_unit_test(a_long_front_is_thinned_and_keeps_its_ends),
        cmocka_unit_test(the_ranking_is_of_families),
        cmocka_unit_test(reasons_are_words_with_one_example),
        cmocka_unit_test(options_say_what_does_not_go_without_saying),
        cmocka_unit_test(missing_memory_is_what_the_limits_ask),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
