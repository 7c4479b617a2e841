#include "search/search.h"
#include "support/support.h"

#include <string.h>

static int open_arena(void **state)
{
    *state = sp_arena_open();
    return 0;
}

static int close_arena(void **state)
{
    sp_arena_close(*state);
    return 0;
}

static struct sp_option_count count(int64_t value)
{
    return (struct sp_option_count){.is_given = true, .value = value};
}

static const struct plan_recompute full[] = {{.kind = RECOMPUTE_FULL}};
static const int64_t one = 1;

/* Megatron, full recomputation, no offload, micro-batch 1: a few thousand layouts. */
static struct plan_question asked_of(struct sp_arena *arena, const char *model, int64_t gpus, int64_t seq)
{
    struct plan_question question;
    plan_question_init(&question, arena);
    question.request.model = model;
    question.request.hardware = "dgx-h100";
    question.request.gpus = count(gpus);
    question.request.seq = count(seq);
    question.axes.frameworks = 1U << FRAMEWORK_MEGATRON;
    question.axes.zeros = 1U << 1;
    question.axes.offloads = 1;
    question.axes.n_recomputes = 1;
    question.axes.recomputes = full;
    question.axes.micro_batch = (struct plan_counts){.n = 1, .values = &one};
    question.n_threads = 1;
    return question;
}

static struct sp_texts advice_of(struct sp_arena *arena, const struct plan_question *question, bool *fits)
{
    struct plan plan;
    struct sp_error err = {0};
    struct sp_texts changes = {.arena = arena};
    if (!plan_search(question, arena, &plan, &err) || !plan_advice(question, &plan, arena, &changes, &err)) {
        fail_msg("%s", err.text);
    }
    *fits = plan.n_layouts > 0;
    return changes;
}

/* The change that begins so, or NULL. */
static const char *change_of(const struct sp_texts *changes, const char *start)
{
    for (size_t i = 0; i < changes->count; i++) {
        if (strncmp(changes->items[i], start, strlen(start)) == 0) {
            return changes->items[i];
        }
    }
    return NULL;
}

static bool fits(struct sp_arena *arena, const struct plan_question *question)
{
    struct plan plan;
    struct sp_error err = {0};
    assert_true(plan_search(question, arena, &plan, &err));
    return plan.n_layouts > 0;
}

static void question_that_fits_is_left_alone(void **state)
{
    bool is_fitting = false;
    struct plan_question question = asked_of(*state, "llama-2-7b", 8, 65536);
    struct sp_texts changes = advice_of(*state, &question, &is_fitting);
    assert_true(is_fitting);
    assert_int_equal(changes.count, 0);
}

static void every_change_told_of_makes_it_fit(void **state)
{
    bool is_fitting = true;
    struct plan_question question = asked_of(*state, "llama-2-7b", 8, 1048576);
    struct sp_texts changes = advice_of(*state, &question, &is_fitting);
    assert_false(is_fitting);
    assert_non_null(change_of(&changes, "--zero 3 fits: "));
    assert_non_null(change_of(&changes, "--offload "));
    assert_null(memchr(change_of(&changes, "--offload "), ',', strlen("--offload activations,")));
    assert_non_null(change_of(&changes, "--gpus 16 fits: "));
    assert_non_null(change_of(&changes, "GPUs of "));
    const char *shorter = change_of(&changes, "--seq ");
    assert_non_null(shorter);
    struct plan_question changed = question;
    changed.axes.zeros = 1U << 3;
    assert_true(fits(*state, &changed));
    changed = question;
    changed.axes.offloads = 0;
    assert_true(fits(*state, &changed));
    changed = question;
    changed.request.gpus = count(16);
    assert_true(fits(*state, &changed));
    double tokens = 0;
    struct sp_error err = {0};
    const char *length = shorter + strlen("--seq ");
    assert_true(sp_quantity_parse(sp_strndup(*state, length, strcspn(length, " ")), SP_TOKENS, &tokens, &err));
    changed = question;
    changed.request.seq = count((int64_t)tokens);
    assert_true(tokens < 1048576 && fits(*state, &changed));
}

/* Restrictions cost nothing to lift: they stand before what costs quality, time or money. */
static void smallest_change_comes_first(void **state)
{
    bool is_fitting = true;
    struct plan_question question = asked_of(*state, "llama-2-7b", 8, 1048576);
    struct sp_texts changes = advice_of(*state, &question, &is_fitting);
    static const char *const order[] = {"--zero", "--offload", "--seq", "--gpus", "GPUs of"};
    size_t at = 0;
    for (size_t i = 0; i < SP_COUNT_OF(order); i++) {
        while (at < changes.count && strncmp(changes.items[at], order[i], strlen(order[i])) != 0) {
            at++;
        }
        assert_true(at < changes.count);
    }
}

static void constraint_that_alone_forbids_is_named(void **state)
{
    bool is_fitting = true;
    struct plan_question question = asked_of(*state, "llama-2-7b", 8, 65536);
    question.max_memory_bytes = 3e9;
    struct sp_texts changes = advice_of(*state, &question, &is_fitting);
    assert_non_null(change_of(&changes, "without --max-memory fits: "));
}

static void headroom_is_named_by_its_option(void **state)
{
    bool is_fitting = true;
    struct plan_question question = asked_of(*state, "llama-2-7b", 8, 65536);
    question.headroom_bytes = 83e9;
    struct sp_texts changes = advice_of(*state, &question, &is_fitting);
    assert_non_null(change_of(&changes, "without --headroom fits: "));
    question.headroom_bytes = 0;
    question.headroom_frac = 0.97;
    changes = advice_of(*state, &question, &is_fitting);
    assert_non_null(change_of(&changes, "without --headroom fits: "));
}

/* The number behind the option that a change begins with. */
static double value_of(struct sp_arena *arena, const char *change, enum sp_dimension dimension)
{
    assert_non_null(change);
    const char *value = strchr(change, ' ') + 1;
    double number = 0;
    struct sp_error err = {0};
    assert_true(sp_quantity_parse(sp_strndup(arena, value, strcspn(value, " ")), dimension, &number, &err));
    return number;
}

static void mfu_that_is_told_of_is_reached(void **state)
{
    bool is_fitting = true;
    struct plan_question question = asked_of(*state, "llama-2-7b", 8, 65536);
    question.min_mfu_frac = 0.97;
    struct sp_texts changes = advice_of(*state, &question, &is_fitting);
    double reached = value_of(*state, change_of(&changes, "--min-mfu "), SP_FRACTION);
    question.min_mfu_frac = reached;
    assert_true(reached < 0.97 && fits(*state, &question));
    question.min_mfu_frac = reached + 0.0011;
    assert_false(fits(*state, &question));
}

static void deadline_that_is_told_of_is_kept(void **state)
{
    bool is_fitting = true;
    struct plan_question question = asked_of(*state, "llama-2-7b", 8, 65536);
    question.request.tokens = count(7000000000);
    question.deadline_s = 61;
    struct sp_texts changes = advice_of(*state, &question, &is_fitting);
    double reached = value_of(*state, change_of(&changes, "--deadline "), SP_SECONDS);
    question.deadline_s = reached;
    assert_true(reached > 61 && fits(*state, &question));
    question.deadline_s = 0.9 * reached;
    assert_false(fits(*state, &question));
}

/* Every change is searched with the MFU that is asked for: a shorter sequence or more GPUs do not reach it either. */
static void changes_keep_the_mfu(void **state)
{
    bool is_fitting = true;
    struct plan_question question = asked_of(*state, "llama-2-7b", 8, 1048576);
    question.min_mfu_frac = 0.97;
    struct sp_texts changes = advice_of(*state, &question, &is_fitting);
    assert_int_equal(changes.count, 1);
    assert_non_null(change_of(&changes, "no change of these helps"));
}

static void capacity_that_is_set_leaves_machines_out(void **state)
{
    bool is_fitting = true;
    struct plan_question question = asked_of(*state, "llama-2-7b", 8, 1048576);
    sp_texts_add(&question.request.set, "gpu.hbm_capacity=70GiB");
    struct sp_texts changes = advice_of(*state, &question, &is_fitting);
    assert_null(change_of(&changes, "GPUs of "));
}

static void host_memory_is_offered_where_it_alone_is_missing(void **state)
{
    bool is_fitting = true;
    struct plan_question question = asked_of(*state, "llama-2-7b", 8, 65536);
    sp_texts_add(&question.request.set, "node.host_memory=11GB");
    question.axes.offloads = 1U << PLAN_OFFLOAD_OPTIMIZER;
    question.axes.zeros = 0;
    struct sp_texts changes = advice_of(*state, &question, &is_fitting);
    assert_false(is_fitting);
    const char *change = change_of(&changes, "--set node.host_memory=");
    assert_non_null(change);
    question.request.set = (struct sp_texts){.arena = *state};
    sp_texts_add(&question.request.set, "%s", sp_strndup(*state, change + 6, strcspn(change + 6, " ")));
    assert_true(fits(*state, &question));
}

/* 671 B parameters on one node: neither GPUs nor host hold them, and no shipped machine has such a host. */
static void what_lacks_both_memories_is_offered_neither(void **state)
{
    bool is_fitting = true;
    struct plan_question question = asked_of(*state, "deepseek-v3", 8, 4096);
    question.axes.zeros = 1U << 3;
    question.axes.frameworks = 0;
    question.axes.offloads = 1U << (PLAN_OFFLOAD_ACTIVATIONS | PLAN_OFFLOAD_OPTIMIZER | PLAN_OFFLOAD_PARAMETERS);
    struct sp_texts changes = advice_of(*state, &question, &is_fitting);
    assert_false(is_fitting);
    assert_null(change_of(&changes, "--set node.host_memory="));
    assert_null(change_of(&changes, "GPUs of "));
}

static void cluster_is_told_in_the_options_that_gave_it(void **state)
{
    bool is_fitting = true;
    struct plan_question question = asked_of(*state, "llama-2-7b", 8, 1048576);
    question.is_of_nodes = true;
    struct sp_texts changes = advice_of(*state, &question, &is_fitting);
    assert_non_null(change_of(&changes, "--nodes 2 fits: "));
    question.is_of_nodes = false;
    question.is_of_max_gpus = true;
    question.max_gpus = 8;
    changes = advice_of(*state, &question, &is_fitting);
    assert_non_null(change_of(&changes, "--max-gpus 16 fits: "));
    question.is_of_max_gpus = false;
    changes = advice_of(*state, &question, &is_fitting);
    assert_non_null(change_of(&changes, "--gpus 16 --max-gpus 16 fits: "));
}

static void batch_that_does_not_divide_is_named(void **state)
{
    bool is_fitting = true;
    struct plan_question question = asked_of(*state, "llama-2-7b", 8, 8192);
    question.request.global_batch = "13";
    question.axes.tp = question.axes.sp = question.axes.pp = question.axes.micro_batch;
    struct sp_texts changes = advice_of(*state, &question, &is_fitting);
    assert_false(is_fitting);
    assert_non_null(change_of(&changes, "--global-batch 16 fits"));
    question.request.global_batch = "16";
    assert_true(fits(*state, &question));
}

/* A search for anything ends early, considers no more than it may, and says so. */
static void search_ends_at_what_it_may_consider(void **state)
{
    struct plan plan;
    struct plan whole;
    struct sp_error err = {0};
    struct plan_question question = asked_of(*state, "llama-2-7b", 8, 65536);
    assert_true(plan_search(&question, *state, &whole, &err));
    question.effort = PLAN_ANY;
    assert_true(plan_search(&question, *state, &plan, &err));
    assert_true(plan.n_layouts > 0 && !plan.is_cut && plan.considered < whole.considered);
    question.request.seq = count(1048576);
    question.most_considered = whole.considered / 2;
    assert_true(plan_search(&question, *state, &plan, &err));
    assert_true(plan.n_layouts == 0 && plan.is_cut && plan.considered <= question.most_considered);
}

static void nothing_helps_is_said(void **state)
{
    bool is_fitting = true;
    struct plan_question question = asked_of(*state, "kimi-k2", 1, 16);
    question.request.seq = count(16);
    struct sp_texts changes = advice_of(*state, &question, &is_fitting);
    assert_false(is_fitting);
    assert_int_equal(changes.count, 1);
    assert_non_null(change_of(&changes, "no change of these helps"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(question_that_fits_is_left_alone, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(every_change_told_of_makes_it_fit, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(smallest_change_comes_first, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(constraint_that_alone_forbids_is_named, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(headroom_is_named_by_its_option, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(mfu_that_is_told_of_is_reached, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(deadline_that_is_told_of_is_kept, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(changes_keep_the_mfu, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(capacity_that_is_set_leaves_machines_out, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(host_memory_is_offered_where_it_alone_is_missing, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(what_lacks_both_memories_is_offered_neither, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(cluster_is_told_in_the_options_that_gave_it, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(batch_that_does_not_divide_is_named, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(search_ends_at_what_it_may_consider, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(nothing_helps_is_said, open_arena, close_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
