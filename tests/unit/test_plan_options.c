/* What plan's options say: lists of values, objective, constraints, and what they refuse. */
#include "cmd/command.h"
#include "support/support.h"

#include <string.h>

/* Options as a command line would leave them, and where they are read to. */
struct reading {
    struct sp_arena *arena;
    struct command_options options;
    struct plan_question question;
    struct sp_error err;
};

static struct reading reading_open(void)
{
    struct reading reading = {.arena = sp_arena_open()};
    reading.options.vary.arena = reading.arena;
    request_init(&reading.options.request, reading.arena);
    return reading;
}

static bool read_options(struct reading *reading)
{
    return plan_options_read(&reading->options, reading->arena, &reading->question, &reading->err);
}

static void counts_keep_their_order(void **state)
{
    (void)state;
    struct reading reading = reading_open();
    reading.options.plan.tp = "6,1,61";
    reading.options.plan.micro_batch = "3";
    assert_true(read_options(&reading));
    const struct plan_axes *axes = &reading.question.axes;
    assert_int_equal(axes->tp.n, 3);
    assert_int_equal(axes->tp.values[0], 6);
    assert_int_equal(axes->tp.values[2], 61);
    assert_int_equal(axes->micro_batch.values[0], 3);
    assert_int_equal(axes->sp.n, 0); /* open: every legal one */
    sp_arena_close(reading.arena);
}

static void names_become_sets(void **state)
{
    (void)state;
    struct reading reading = reading_open();
    reading.options.plan.methods = "zigzag,usp";
    reading.options.plan.frameworks = "torch";
    reading.options.plan.zeros = "3,0";
    reading.options.plan.schedules = "zb-h1";
    assert_true(read_options(&reading));
    const struct plan_axes *axes = &reading.question.axes;
    assert_int_equal(axes->methods, 1U << METHOD_ZIGZAG | 1U << METHOD_USP);
    assert_int_equal(axes->frameworks, 1U << FRAMEWORK_TORCH);
    assert_int_equal(axes->zeros, 9);
    assert_int_equal(axes->schedules, 1U << SCHEDULE_ZB_H1);
    sp_arena_close(reading.arena);
}

static void memory_savers_are_lists_of_their_own(void **state)
{
    (void)state;
    struct reading reading = reading_open();
    reading.options.plan.recomputes = "full,block:7,none";
    reading.options.plan.offloads = "none,optimizer+activations,parameters";
    reading.options.plan.orders = "cp-tp-ep-dp-pp,tp-cp-ep-pp-dp";
    assert_true(read_options(&reading));
    const struct plan_axes *axes = &reading.question.axes;
    assert_int_equal(axes->n_recomputes, 3);
    assert_int_equal(axes->recomputes[1].kind, RECOMPUTE_BLOCK);
    assert_int_equal(axes->recomputes[1].layers, 7);
    assert_int_equal(axes->offloads, 1U << 0 | 1U << 3 | 1U << 4);
    assert_int_equal(axes->n_orders, 2);
    assert_int_equal(axes->orders[0][0], AXIS_CP);
    assert_int_equal(axes->orders[1][4], AXIS_DP);
    sp_arena_close(reading.arena);
}

static void an_order_may_come_from_set(void **state)
{
    (void)state;
    struct reading reading = reading_open();
    sp_texts_add(&reading.options.request.set, "layout.order=tp-cp-ep-dp-pp");
    sp_texts_add(&reading.options.request.set, "layout.order=pp-tp-cp-ep-dp");
    assert_true(read_options(&reading));
    assert_int_equal(reading.question.axes.n_orders, 1); /* the last one given */
    assert_int_equal(reading.question.axes.orders[0][0], AXIS_PP);
    reading.options.plan.orders = "tp-cp-ep-dp-pp";
    assert_false(read_options(&reading));
    assert_error_contains(&reading.err, "--order and --set layout.order say the same");
    sp_arena_close(reading.arena);
}

static void constraints_have_units(void **state)
{
    (void)state;
    struct reading reading = reading_open();
    reading.options.plan.max_memory = "70.5GiB";
    reading.options.plan.headroom = "7%";
    reading.options.plan.min_mfu = "0.35";
    reading.options.plan.deadline = "3d";
    reading.options.request.tokens = (struct sp_option_count){true, 1000003};
    reading.options.plan.max_gpus = (struct sp_option_count){true, 24};
    reading.options.plan.top = (struct sp_option_count){true, 7};
    reading.options.plan.objective = PLAN_COST;
    assert_true(read_options(&reading));
    assert_close(reading.question.max_memory_bytes, 70.5 * 0x1p30, 0.0);
    assert_close(reading.question.headroom_frac, 0.07, 1e-15);
    assert_close(reading.question.headroom_bytes, 0.0, 0.0);
    assert_close(reading.question.min_mfu_frac, 0.35, 0.0);
    assert_close(reading.question.deadline_s, 3.0 * 86400.0, 0.0);
    assert_int_equal(reading.question.max_gpus, 24);
    assert_int_equal(reading.question.n_top, 7);
    assert_int_equal(reading.question.objective, PLAN_COST);
    reading.options.plan.headroom = "8GiB";
    assert_true(read_options(&reading));
    assert_close(reading.question.headroom_bytes, 8.0 * 0x1p30, 0.0);
    assert_close(reading.question.headroom_frac, 0.0, 0.0);
    sp_arena_close(reading.arena);
}

/* A value of one option, and a part of what its refusal says. */
struct refusal {
    size_t offset; /* in struct plan_typed */
    const char *text;
    const char *part;
};
#define REFUSED(member, typed, says)                                                                                   \
    {                                                                                                                  \
        offsetof(struct plan_typed, member), typed, says                                                               \
    }

static void what_a_list_refuses(void **state)
{
    (void)state;
    static const struct refusal refusals[] = {
        REFUSED(tp, "", "--tp: expected values separated by commas such as \"1,2,8\", found an empty one in \"\""),
        REFUSED(sp, "1,,6", "--sp: expected values separated by commas"),
        REFUSED(pp, "3,", "found an empty one in \"3,\""),
        REFUSED(pp, "3,7,3", "--pp: \"3\" is given twice"),
        REFUSED(dp, "3,03", "--dp: \"03\" is given twice in other words"),
        REFUSED(vpp, "0", "--vpp: expected whole numbers from 1 on such as \"1,2,8\", found \"0\""),
        REFUSED(ep, "2.5", "found \"2.5\""),
        REFUSED(etp, "two", "found \"two\""),
        REFUSED(micro_batch, "-1", "found \"-1\""),
        REFUSED(methods, "zigzag,ulises", "found \"ulises\" (did you mean \"ulysses\"?)"),
        REFUSED(methods, "zigzag,zigzag", "--sp-method: \"zigzag\" is given twice"),
        REFUSED(frameworks, "megatrom", "--framework: expected some of megatron, torch, deepspeed"),
        REFUSED(zeros, "4", "--zero: expected some of 0, 1, 2, 3, found \"4\""),
        REFUSED(schedules, "1f1b,zbw", "did you mean \"zbv\"?"),
        REFUSED(recomputes, "none,ful", "--recompute: expected none, selective, full or block:N"),
        REFUSED(recomputes, "block:7,block:07", "--recompute: \"block:07\" is given twice"),
        REFUSED(offloads, "activations+optimiser", "--offload: expected none, activations, optimizer or parameters"),
        REFUSED(offloads, "activations+optimizer,optimizer+activations", "is given twice in another order"),
        REFUSED(orders, "tp-cp-dp-pp", "--order: expected tp, cp, ep, dp and pp once each"),
        REFUSED(max_memory, "70", "--max-memory: expected a size"),
        REFUSED(max_memory, "0GiB", "--max-memory: expected more than 0"),
        REFUSED(headroom, "8", "--headroom: expected a size such as \"8GiB\" or a share such as \"10%\""),
        REFUSED(min_mfu, "135%", "--min-mfu: "),
        REFUSED(deadline, "30d", "--deadline is for a whole run: add --tokens"),
    };
    for (size_t i = 0; i < SP_COUNT_OF(refusals); i++) {
        struct reading reading = reading_open();
        *(const char **)(void *)((char *)&reading.options.plan + refusals[i].offset) = refusals[i].text;
        assert_false(read_options(&reading));
        assert_int_equal(reading.err.kind, SP_ERROR_USAGE);
        assert_error_contains(&reading.err, refusals[i].part);
        sp_arena_close(reading.arena);
    }
}

static void what_is_no_question_of_a_plan(void **state)
{
    (void)state;
    struct reading reading = reading_open();
    reading.options.request.layout_file = "answer.json";
    assert_false(read_options(&reading));
    assert_error_contains(&reading.err, "leave out --layout");
    sp_arena_close(reading.arena);
    reading = reading_open();
    reading.options.request.only = "attention";
    assert_false(read_options(&reading));
    assert_error_contains(&reading.err, "leave out --only");
    sp_arena_close(reading.arena);
}

static void degrees_divide_the_cluster(void **state)
{
    (void)state;
    struct reading reading = reading_open();
    reading.options.plan.pp = "3,5";
    assert_true(read_options(&reading));
    reading.question.request.gpus = (struct sp_option_count){true, 24};
    assert_true(plan_options_check(&reading.question, reading.arena, &reading.err)); /* 3 does */
    reading.options.plan.pp = "5,7";
    assert_true(read_options(&reading));
    reading.question.request.gpus = (struct sp_option_count){true, 24};
    assert_false(plan_options_check(&reading.question, reading.arena, &reading.err));
    assert_error_contains(&reading.err, "--pp: 5 does not divide 24 gpus; legal here: 1, 2, 3, 4, 6, 8, 12, 24");
    reading.question.objective = PLAN_GPUS; /* smaller clusters are tried */
    assert_true(plan_options_check(&reading.question, reading.arena, &reading.err));
    sp_arena_close(reading.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_keep_their_order),
        cmocka_unit_test(names_become_sets),
        cmocka_unit_test(memory_savers_are_lists_of_their_own),
        cmocka_unit_test(an_order_may_come_from_set),
        cmocka_unit_test(constraints_have_units),
        cmocka_unit_test(what_a_list_refuses),
        cmocka_unit_test(what_is_no_question_of_a_plan),
        cmocka_unit_test(degrees_divide_the_cluster),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
