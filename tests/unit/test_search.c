/* Parts of the search that the comparison with brute force does not pin: the default batch, ties, cluster sizes, refusals. */
#include "search/search_internal.h"
#include "support/support.h"

#include <string.h>

static void ask(struct sp_arena *arena, struct plan_question *question, int64_t gpus, int64_t seq)
{
    plan_question_init(question, arena);
    question->request.model = "llama-3.1-8b";
    question->request.hardware = "dgx-h100";
    question->request.gpus = (struct sp_option_count){true, gpus};
    question->request.seq = (struct sp_option_count){true, seq};
    question->axes.frameworks = 1U << FRAMEWORK_MEGATRON;
    question->n_threads = 1;
}

/* 16 Mi tokens: 128K make 128 sequences, 96K 171, 8K 2048, 1M 16. Raised to the odd part (3 of 24: 129, 2286 of 1016), then by
 * an eighth at most: 171 + 21 = 192 = 3 x 64; 2049 (of 24) to 2304 = 3 x 768; 20 of 40 stays (an eighth is 2). */
static void a_batch_divides_over_the_cluster(void **state)
{
    (void)state;
    static const struct {
        int64_t gpus, seq, batch;
    } cases[] = {{512, 131072, 128}, {512, 98304, 192},  {24, 8192, 2304}, {1016, 8192, 2286},
                 {40, 1048576, 20},  {512, 1048576, 16}, {8, 10485760, 2}};
    for (size_t i = 0; i < SP_COUNT_OF(cases); i++) {
        struct sp_arena *arena = sp_arena_open();
        struct plan_question question;
        struct space space;
        struct sp_error err = {0};
        ask(arena, &question, cases[i].gpus, cases[i].seq);
        assert_true(space_open(&question, cases[i].gpus, arena, &space, &err));
        assert_int_equal(space.global_batch, cases[i].batch);
        assert_true(space.is_batch_assumed);
        sp_arena_close(arena);
    }
}

/* 128K make 128 sequences: of micro-batches of 3 and 5 and dp 6 a multiple of 30, 150 within an eighth of itself; of 7 and
 * 61 together 427 is too many, so 7 alone: 133, and 140 = 5 x 28 by an eighth at most; 30 x 2 would be 180. */
static void a_batch_suits_what_is_given(void **state)
{
    (void)state;
    static const int64_t some[] = {3, 5};
    static const int64_t six[] = {6};
    static const int64_t others[] = {7, 61};
    struct sp_arena *arena = sp_arena_open();
    struct plan_question question;
    struct space space;
    struct sp_error err = {0};
    ask(arena, &question, 24, 131072);
    question.axes.micro_batch = (struct plan_counts){2, some};
    question.axes.dp = (struct plan_counts){1, six};
    assert_true(space_open(&question, 24, arena, &space, &err));
    assert_int_equal(space.global_batch, 150);
    ask(arena, &question, 16, 131072);
    question.axes.micro_batch = (struct plan_counts){2, others};
    question.axes.dp = (struct plan_counts){0, NULL};
    assert_true(space_open(&question, 16, arena, &space, &err));
    assert_int_equal(space.global_batch, 140);
    sp_arena_close(arena);
}

/* A dp that divides no cluster is of no layout: 3 of 8 GPUs does not move the batch, 3 of 24 does. */
static void a_batch_does_not_suit_what_cannot_be(void **state)
{
    (void)state;
    static const int64_t dps[] = {1, 2, 3};
    static const int64_t cases[][2] = {{8, 128}, {24, 144}};
    for (size_t i = 0; i < SP_COUNT_OF(cases); i++) {
        struct sp_arena *arena = sp_arena_open();
        struct plan_question question;
        struct space space;
        struct sp_error err = {0};
        ask(arena, &question, cases[i][0], 131072);
        question.axes.dp = (struct plan_counts){3, dps};
        assert_true(space_open(&question, cases[i][0], arena, &space, &err));
        assert_int_equal(space.global_batch, cases[i][1]);
        sp_arena_close(arena);
    }
}

static struct plan_layout one(double time_s, double bytes, uint64_t index, int64_t tp)
{
    return (struct plan_layout){.layout = {.tp = tp},
                                .gpus = 24,
                                .step_time_s = time_s,
                                .peak_bytes = bytes,
                                .pace_s = time_s,
                                .objective = time_s,
                                .index = index};
}

static void fronts_keep_the_earlier_of_equals(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    struct front front = {.arena = arena};
    const struct plan_layout layouts[] = {one(3, 7, 5, 1), one(3, 7, 2, 2), one(3, 6, 9, 3), one(5, 6, 1, 4),
                                          one(5, 4, 8, 5), one(2, 9, 7, 6), one(6, 1, 6, 7), one(4, 2, 3, 8)};
    for (size_t i = 0; i < SP_COUNT_OF(layouts); i++) {
        front_add(&front, &layouts[i]);
    }
    /* (2, 9), (3, 6), (4, 2), (6, 1): the rest is as slow in more memory, or slower in as much */
    assert_int_equal(front.n, 4);
    static const uint64_t expected[] = {7, 9, 3, 6};
    for (int i = 0; i < 4; i++) {
        assert_true(front.items[i].index == expected[i]);
    }
    const struct plan_layout same = one(4, 2, 1, 9);
    front_add(&front, &same);
    assert_int_equal(front.n, 4);
    assert_true(front.items[2].index == 1);
    assert_true(front_dominates(&front, 4, 3));
    assert_false(front_dominates(&front, 4, 2)); /* equal in both */
    assert_false(front_dominates(&front, 1, 99));
    sp_arena_close(arena);
}

static void families_hold_their_best(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    struct families families;
    families_init(&families, arena, 3);
    const struct plan_layout layouts[] = {one(5, 1, 0, 1), one(4, 1, 1, 2), one(3, 1, 2, 1), one(6, 1, 3, 3),
                                          one(2, 1, 4, 4), one(9, 1, 5, 2), one(4, 1, 6, 1)};
    for (size_t i = 0; i < SP_COUNT_OF(layouts); i++) {
        families_add(&families, &layouts[i]);
    }
    assert_int_equal(families.n, 3); /* tp 4 in 2 s, tp 1 in 3 s, tp 2 in 4 s; tp 3 has lost its place */
    static const int64_t expected[] = {4, 1, 2};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(families.items[i].layout.tp, expected[i]);
    }
    sp_arena_close(arena);
}

/* The smallest cluster of 1, 2, 4, 8, 16, 24 ... GPUs: on the one before nothing fits. */
static void fewest_gpus_are_the_smallest_that_fit(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    struct plan_question question;
    struct plan plan;
    struct sp_error err = {0};
    ask(arena, &question, 64, 98304);
    question.axes.offloads = 1;
    question.objective = PLAN_GPUS;
    assert_true(plan_search(&question, arena, &plan, &err));
    assert_true(plan.n_layouts > 0);
    int64_t gpus = plan.layouts[0].gpus;
    assert_true(gpus > 1 && gpus < 64);
    struct plan smaller;
    question.objective = PLAN_MEMORY;
    question.request.gpus.value = gpus <= 8 ? gpus / 2 : gpus - 8;
    question.request.global_batch = sp_format(arena, "%lld", (long long)plan.global_batch);
    assert_true(plan_search(&question, arena, &smaller, &err));
    assert_int_equal(smaller.n_layouts, 0);
    assert_true(smaller.has_nearest_miss);
    sp_arena_close(arena);
}

static void a_cost_needs_a_price(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    struct plan_question question;
    struct plan plan;
    struct sp_error err = {0};
    ask(arena, &question, 8, 8192);
    question.objective = PLAN_COST;
    question.request.hardware = "dgx-a100";
    sp_texts_add(&question.request.set, "gpu.price=0/h");
    assert_false(plan_search(&question, arena, &plan, &err));
    assert_int_equal(err.kind, SP_ERROR_USAGE);
    assert_error_contains(&err, "gpu.price");
    sp_arena_close(arena);
}

/* 32 layers as 20 and 12: two stages, whatever else there could be. */
static void a_split_of_layers_implies_its_stages(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    struct plan_question question;
    struct plan plan;
    struct sp_error err = {0};
    ask(arena, &question, 8, 8192);
    question.request.pp_layers = "20,12";
    assert_true(plan_search(&question, arena, &plan, &err));
    assert_true(plan.n_layouts > 0);
    for (int i = 0; i < plan.n_layouts; i++) {
        assert_int_equal(plan.layouts[i].layout.pp, 2);
    }
    ask(arena, &question, 8, 8192);
    question.request.pp_layers = "20,13";
    assert_true(plan_search(&question, arena, &plan, &err));
    assert_int_equal(plan.n_layouts, 0);
    assert_string_equal(plan.rejections[0].reason, "pp_layers");
    sp_arena_close(arena);
}

/* What estimate prices "as if" the framework did it is no plan. */
static void plans_are_what_frameworks_run(void **state)
{
    (void)state;
    static const char *const masks[] = {NULL, "full", NULL};
    for (int i = 0; i < 3; i++) {
        struct sp_arena *arena = sp_arena_open();
        struct plan_question question;
        struct plan plan;
        struct sp_error err = {0};
        ask(arena, &question, 24, 98304);
        question.axes.frameworks = 0;
        question.n_top = 40;
        question.request.mask = masks[i];
        question.request.documents = (struct sp_option_count){i == 2, 6144};
        assert_true(plan_search(&question, arena, &plan, &err));
        assert_true(plan.n_layouts > 40);
        for (int l = 0; l < plan.n_layouts; l++) {
            struct question *resolved = sp_arena_alloc(arena, sizeof(*resolved));
            struct estimate *estimate = sp_arena_alloc(arena, sizeof(*estimate));
            assert_true(plan_answer(&question, &plan.layouts[l], arena, resolved, estimate, &err));
            assert_true(estimate->fits);
            for (size_t w = 0; w < resolved->warnings.count; w++) {
                assert_null(strstr(resolved->warnings.items[w], "priced as if"));
            }
        }
        sp_arena_close(arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_batch_divides_over_the_cluster),
        cmocka_unit_test(a_batch_suits_what_is_given),
        cmocka_unit_test(a_batch_does_not_suit_what_cannot_be),
        cmocka_unit_test(fronts_keep_the_earlier_of_equals),
        cmocka_unit_test(families_hold_their_best),
        cmocka_unit_test(fewest_gpus_are_the_smallest_that_fit),
        cmocka_unit_test(a_cost_needs_a_price),
        cmocka_unit_test(a_split_of_layers_implies_its_stages),
        cmocka_unit_test(plans_are_what_frameworks_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
