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
    assert_non_null(change_of(&changes, "without the restriction of the limit of memory fits: "));
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
        cmocka_unit_test_setup_teardown(nothing_helps_is_said, open_arena, close_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
