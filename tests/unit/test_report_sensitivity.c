#include "report/report.h"
#include "support/questions.h"
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

/* Two kept layouts; NVLink below 212 GB/s, and less than half of the memory, change the winner. */
static struct sensitivity made_up(struct plan_layout kept[2])
{
    kept[0] = (struct plan_layout){
        .layout = {
            .tp = 4, .sp = 6, .pp = 3, .dp = 1, .ep = 1, .method = METHOD_ZIGZAG, .framework = FRAMEWORK_MEGATRON}};
    kept[1] = (struct plan_layout){.layout = {.tp = 1,
                                              .sp = 12,
                                              .sp_ulysses = 3,
                                              .pp = 3,
                                              .dp = 2,
                                              .ep = 5,
                                              .method = METHOD_USP,
                                              .framework = FRAMEWORK_MEGATRON}};
    struct sensitivity sensitivity = {.winner = 0, .n_kept = 2, .kept = kept};
    for (int f = 0; f < N_SENSITIVITIES; f++) {
        sensitivity.rows[f].up.winner = sensitivity.rows[f].down.winner = 0;
        sensitivity.rows[f].above.winner = sensitivity.rows[f].below.winner = -1;
    }
    struct sensitivity_row *nvlink = &sensitivity.rows[SENSITIVITY_INTRA];
    nvlink->value = 450e9;
    nvlink->up = (struct sensitivity_change){.step_time_frac = -0.0123, .fits = true};
    nvlink->down = (struct sensitivity_change){.step_time_frac = 0.00003, .fits = true, .winner = 1};
    nvlink->below = (struct sensitivity_crossing){.is_found = true, .factor = 0.471, .value = 212e9, .winner = 1};
    sensitivity.rows[SENSITIVITY_NETWORK].value = 50e9;
    struct sensitivity_row *latency = &sensitivity.rows[SENSITIVITY_LATENCY];
    latency->above = (struct sensitivity_crossing){.is_found = true, .factor = 3.57, .value = 1, .winner = 1};
    struct sensitivity_row *capacity = &sensitivity.rows[SENSITIVITY_HBM_CAPACITY];
    capacity->value = 85e9;
    capacity->below = (struct sensitivity_crossing){.is_found = true, .factor = 0.4, .value = 34e9, .winner = -1};
    return sensitivity;
}

static const char *cell(const struct report_grid *grid, int row, int column)
{
    const char *text = grid->cells[row * grid->n_columns + column].text;
    return text == NULL ? "" : text;
}

static void table_tells_changes_and_where_another_wins(void **state)
{
    struct question question;
    struct plan_layout kept[2];
    question_from(*state, "model=llama-2-7b hardware=dgx-h100 gpus=6 sp=6 seq=60000 zero=3", &question);
    struct sensitivity sensitivity = made_up(kept);
    struct report_grid grid = report_sensitivity_grid(*state, &question.hardware, &sensitivity);
    assert_int_equal(grid.n_rows, N_SENSITIVITIES);
    assert_string_equal(cell(&grid, SENSITIVITY_INTRA, 0), "NVLink");
    assert_string_equal(cell(&grid, SENSITIVITY_INTRA, 1), "450 GB/s");
    assert_string_equal(cell(&grid, SENSITIVITY_INTRA, 2), "-1.2 %");
    assert_string_equal(cell(&grid, SENSITIVITY_INTRA, 3), "< 0.1 %");
    assert_string_equal(cell(&grid, SENSITIVITY_HBM_BANDWIDTH, 3), "0");
    assert_string_equal(cell(&grid, SENSITIVITY_NETWORK, 1), "-"); /* it changes nothing */
    assert_string_equal(cell(&grid, SENSITIVITY_INTRA, 4),
                        "below 212 GB/s: tp 1 sp 12 usp (ulysses 3) pp 3 dp 2 ep 5, megatron");
    assert_string_equal(cell(&grid, SENSITIVITY_LATENCY, 5),
                        "above 3.57 x now: tp 1 sp 12 usp (ulysses 3) pp 3 dp 2 ep 5, megatron");
    assert_non_null(strstr(cell(&grid, SENSITIVITY_HBM_CAPACITY, 4), "nothing fits"));
    assert_string_equal(cell(&grid, SENSITIVITY_NETWORK, 4), "");
}

static void tree_has_null_where_no_other_wins(void **state)
{
    struct plan_layout kept[2];
    struct sensitivity sensitivity = made_up(kept);
    const struct sp_json *tree = report_sensitivity_tree(*state, &sensitivity);
    assert_close(report_tree_at(tree, "intra_bandwidth.below.value")->number, 212e9, 0);
    assert_string_equal(report_tree_at(tree, "intra_bandwidth.up.winner")->string,
                        "tp 4 sp 6 zigzag pp 3 dp 1, megatron");
    assert_int_equal(report_tree_at(tree, "intra_bandwidth.above")->type, SP_JSON_NULL);
    assert_int_equal(report_tree_at(tree, "hbm_capacity.below.winner")->type, SP_JSON_NULL);
    assert_close(report_tree_at(tree, "hbm_capacity.value_bytes")->number, 85e9, 0);
}

/* A crossing of a space that was not searched to the end is told to be a bound, in words and keys. */
static void bounds_are_told_to_be_bounds(void **state)
{
    struct question question;
    struct plan_layout kept[2];
    question_from(*state, "model=llama-2-7b hardware=dgx-h100 gpus=6 sp=6 seq=60000 zero=3", &question);
    struct sensitivity sensitivity = made_up(kept);
    sensitivity.rows[SENSITIVITY_LATENCY].above.is_bound = true;
    sensitivity.rows[SENSITIVITY_NETWORK].above.is_bound = true;
    struct report_grid grid = report_sensitivity_grid(*state, &question.hardware, &sensitivity);
    assert_string_equal(cell(&grid, SENSITIVITY_LATENCY, 5),
                        "above 3.57 x now or sooner: tp 1 sp 12 usp (ulysses 3) pp 3 dp 2 ep 5, megatron");
    assert_string_equal(cell(&grid, SENSITIVITY_NETWORK, 5), "perhaps: not all layouts were searched");
    const struct sp_json *tree = report_sensitivity_tree(*state, &sensitivity);
    assert_true(report_tree_at(tree, "latency.above.is_bound")->boolean);
    assert_false(report_tree_at(tree, "intra_bandwidth.below.is_bound")->boolean);
    assert_int_equal(report_tree_at(tree, "network_bandwidth.above.factor")->type, SP_JSON_NULL);
    assert_true(report_tree_at(tree, "network_bandwidth.above.is_bound")->boolean);
}

/* Of the same degrees and method as today's, only what is otherwise. */
static void winner_of_the_same_degrees_is_told_by_what_differs(void **state)
{
    struct plan_layout kept[2];
    struct sensitivity sensitivity = made_up(kept);
    kept[1].layout = kept[0].layout;
    kept[1].layout.recompute = RECOMPUTE_BLOCK;
    kept[1].layout.recompute_layers = 7;
    kept[1].layout.micro_batch = kept[0].layout.micro_batch + 3;
    assert_string_equal(report_winner_text(*state, &sensitivity, 1),
                        "tp 4 sp 6 zigzag pp 3 dp 1, megatron, with micro-batch 3, recompute block:7");
}

static void tree_of_one_layout_has_no_winners(void **state)
{
    struct question question;
    struct sensitivity sensitivity;
    question_from(*state, "model=llama-2-7b hardware=dgx-h100 gpus=6 sp=6 seq=60000 zero=3", &question);
    sensitivity_of_layout(&question, &sensitivity);
    const struct sp_json *tree = report_sensitivity_tree(*state, &sensitivity);
    assert_null(report_tree_at(tree, "flop_rate.up.winner"));
    assert_null(report_tree_at(tree, "flop_rate.below"));
    assert_true(report_tree_at(tree, "flop_rate.up.step_time_change_frac")->number < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(table_tells_changes_and_where_another_wins, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(tree_has_null_where_no_other_wins, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(bounds_are_told_to_be_bounds, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(winner_of_the_same_degrees_is_told_by_what_differs, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(tree_of_one_layout_has_no_winners, open_arena, close_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
