/* Orders of small pipelines, written by hand from the publications that the sources name. In a text F, B and W are forward,
 * backward and weight gradients put off, the number is the micro-batch, and ' stands behind the second chunk. */
#include "support/support.h"

#include "step/step.h"

#include <string.h>

enum { TEXT_SIZE = 1024, MAX_STAGES = 8 };

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

static struct layout_spec layout_of(enum schedule_id schedule, int64_t p, int64_t v)
{
    return (struct layout_spec){.schedule = schedule, .pp = p, .vpp = v};
}

static void print_order(const struct schedule_order *order, char text[TEXT_SIZE])
{
    int length = 0;
    text[0] = '\0';
    for (int64_t k = 0; k < order->n_actions; k++) {
        const struct schedule_action *action = &order->actions[k];
        assert_in_range(action->chunk, 0, 1);
        length += snprintf(text + length, (size_t)(TEXT_SIZE - length), "%s%c%lld%s", k > 0 ? " " : "",
                           "FBW"[action->kind], (long long)action -> micro_batch, action -> chunk == 1 ? "'" : "");
        assert_in_range(length, 0, TEXT_SIZE - 1);
    }
}

/* expected: one text for each stage. */
static void assert_orders(struct sp_arena *arena, const struct layout_spec *layout, int64_t m,
                          const char *const *expected)
{
    struct schedule_order orders[MAX_STAGES];
    schedule_orders(layout, m, arena, orders);
    for (int64_t i = 0; i < layout->pp; i++) {
        char text[TEXT_SIZE];
        print_order(&orders[i], text);
        assert_string_equal(text, expected[i]);
    }
}

/* ---- orders ----------------------------------------------------------------------------------------------------- */

static void one_stage_has_no_schedule(void **state)
{
    for (int s = 0; s < N_SCHEDULES; s++) {
        struct layout_spec layout = layout_of((enum schedule_id)s, 1, s == SCHEDULE_ZBV ? 2 : 1);
        assert_orders(*state, &layout, 3, (const char *const[]){"F0 B0 F1 B1 F2 B2"});
        assert_false(schedule_puts_off_weights(&layout));
        assert_int_equal(schedule_chunks(&layout), 1);
    }
}

static void gpipe_runs_all_forwards_first(void **state)
{
    struct layout_spec layout = layout_of(SCHEDULE_GPIPE, 3, 1);
    const char *same = "F0 F1 F2 F3 F4 B0 B1 B2 B3 B4";
    assert_orders(*state, &layout, 5, (const char *const[]){same, same, same});
}

static void order_of_1f1b(void **state)
{
    struct layout_spec layout = layout_of(SCHEDULE_1F1B, 3, 1);
    assert_orders(*state, &layout, 5,
                  (const char *const[]){
                      "F0 F1 F2 B0 F3 B1 F4 B2 B3 B4", /* two ahead */
                      "F0 F1 B0 F2 B1 F3 B2 F4 B3 B4", /* one */
                      "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4",
                  });
    assert_orders(*state, &layout, 1, (const char *const[]){"F0 B0", "F0 B0", "F0 B0"});
    layout = layout_of(SCHEDULE_1F1B, 4, 1);
    assert_orders(*state, &layout, 2,
                  (const char *const[]){"F0 F1 B0 B1", "F0 F1 B0 B1", "F0 F1 B0 B1", "F0 B0 F1 B1"});
}

/* Groups of three: chunk 0 of micro-batches 0 to 2, chunk 1 of them, chunk 0 of 3 to 5, and so on; 2 (3 - i - 1) + 3 ahead. */
static void order_of_interleaved(void **state)
{
    struct layout_spec layout = layout_of(SCHEDULE_INTERLEAVED, 3, 2);
    assert_orders(*state, &layout, 6,
                  (const char *const[]){
                      "F0 F1 F2 F0' F1' F2' F3 F4 B0' F5 B1' F3' B2' F4' B0 F5' B1 B2 B3' B4' B5' B3 B4 B5",
                      "F0 F1 F2 F0' F1' F2' B0' F3 B1' F4 B2' F5 B0 F3' B1 F4' B2 F5' B3' B4' B5' B3 B4 B5",
                      "F0 F1 F2 F0' B0' F1' B1' F2' B2' F3 B0 F4 B1 F5 B2 F3' B3' F4' B4' F5' B5' B3 B4 B5",
                  });
    /* as many micro-batches as stages: the first rank has six forwards, so its seven ahead are all */
    assert_orders(*state, &layout, 3,
                  (const char *const[]){
                      "F0 F1 F2 F0' F1' F2' B0' B1' B2' B0 B1 B2",
                      "F0 F1 F2 F0' F1' F2' B0' B1' B2' B0 B1 B2",
                      "F0 F1 F2 F0' B0' F1' B1' F2' B2' B0 B1 B2",
                  });
}

/* Rank i runs the weight gradients i backwards late. */
static void order_of_zb_h1(void **state)
{
    struct layout_spec layout = layout_of(SCHEDULE_ZB_H1, 3, 1);
    assert_true(schedule_puts_off_weights(&layout));
    assert_orders(*state, &layout, 5,
                  (const char *const[]){
                      "F0 F1 F2 B0 W0 F3 B1 W1 F4 B2 W2 B3 W3 B4 W4",
                      "F0 F1 B0 F2 B1 W0 F3 B2 W1 F4 B3 W2 B4 W3 W4",
                      "F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 F4 B4 W2 W3 W4",
                  });
    assert_orders(*state, &layout, 1, (const char *const[]){"F0 B0 W0", "F0 B0 W0", "F0 B0 W0"});
}

static void order_of_zbv(void **state)
{
    struct layout_spec layout = layout_of(SCHEDULE_ZBV, 2, 2);
    assert_true(schedule_puts_off_weights(&layout));
    assert_orders(*state, &layout, 3,
                  (const char *const[]){
                      "F0 F1 F2 F0' B0' W0' F1' B1' W1' B0 W0 F2' B2' W2' B1 W1 B2 W2",
                      "F0 F0' F1 F1' B0' W0' F2 B0 W0 F2' B1' W1' B1 B2' B2 W1 W2' W2",
                  });
    /* fewer than 2 p - 1: the same without the last */
    assert_orders(*state, &layout, 2,
                  (const char *const[]){
                      "F0 F1 F0' B0' W0' F1' B1' W1' B0 W0 B1 W1",
                      "F0 F0' F1 F1' B0' W0' B0 W0 B1' W1' B1 W1",
                  });
}

/* Micro-batches of the second half come from the last rank, through the second chunk of each. */
static void order_of_dualpipe(void **state)
{
    struct layout_spec layout = layout_of(SCHEDULE_DUALPIPE, 2, 1);
    assert_true(schedule_puts_off_weights(&layout));
    assert_orders(*state, &layout, 4,
                  (const char *const[]){
                      "F0 F2' F1 B2' W2' F3' B0 W0 B3' W3' B1 W1",
                      "F2' F0 F3' B0 W0 F1 B2' W2' B1 W1 B3' W3'",
                  });
    layout = layout_of(SCHEDULE_DUALPIPE, 4, 1);
    assert_orders(*state, &layout, 8,
                  (const char *const[]){
                      "F0 F1 F2 F4' B4' W4' F5' F3 B5' W5' F6' B0 W0 B6' W6' F7' B1 W1 B7' W7' B2 W2 B3 W3",
                      "F0 F4' F1 F5' F2 B4' W4' F6' B0 W0 F3 B5' W5' F7' B1 W1 B6' W6' B2 W2 B7' B3 W7' W3",
                      "F4' F0 F5' F1 F6' B0 W0 F2 B4' W4' F7' B1 W1 F3 B5' W5' B2 W2 B6' W6' B3 B7' W3 W7'",
                      "F4' F5' F6' F0 B0 W0 F1 F7' B1 W1 F2 B4' W4' B2 W2 F3 B5' W5' B3 W3 B6' W6' B7' W7'",
                  });
}

/* ---- from chunk to chunk ---------------------------------------------------------------------------------------- */

/* places: stage and chunk along the model; the ends have no neighbour beyond. */
static void assert_way(const struct layout_spec *layout, const int (*places)[2], int n_places)
{
    for (int k = 0; k < n_places; k++) {
        int64_t stage;
        int chunk;
        assert_int_equal(schedule_next(layout, places[k][0], places[k][1], &stage, &chunk), k + 1 < n_places);
        if (k + 1 < n_places) {
            assert_int_equal(stage, places[k + 1][0]);
            assert_int_equal(chunk, places[k + 1][1]);
        }
        assert_int_equal(schedule_previous(layout, places[k][0], places[k][1], &stage, &chunk), k > 0);
        if (k > 0) {
            assert_int_equal(stage, places[k - 1][0]);
            assert_int_equal(chunk, places[k - 1][1]);
        }
    }
}

static void ways_through_the_ranks(void **state)
{
    (void)state;
    struct layout_spec layout = layout_of(SCHEDULE_1F1B, 3, 1);
    assert_way(&layout, (const int[][2]){{0, 0}, {1, 0}, {2, 0}}, 3);
    layout = layout_of(SCHEDULE_INTERLEAVED, 2, 3);
    assert_int_equal(schedule_chunks(&layout), 3);
    assert_way(&layout, (const int[][2]){{0, 0}, {1, 0}, {0, 1}, {1, 1}, {0, 2}, {1, 2}}, 6);
    layout = layout_of(SCHEDULE_ZBV, 3, 2);
    assert_int_equal(schedule_chunks(&layout), 2);
    assert_way(&layout, (const int[][2]){{0, 0}, {1, 0}, {2, 0}, {2, 1}, {1, 1}, {0, 1}}, 6);
    layout = layout_of(SCHEDULE_DUALPIPE, 4, 1);
    assert_int_equal(schedule_chunks(&layout), 2);
    assert_way(&layout, (const int[][2]){{0, 0}, {1, 0}, {2, 0}, {3, 0}}, 4);
    assert_way(&layout, (const int[][2]){{3, 1}, {2, 1}, {1, 1}, {0, 1}}, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_stage_has_no_schedule),
        cmocka_unit_test(gpipe_runs_all_forwards_first),
        cmocka_unit_test(order_of_1f1b),
        cmocka_unit_test(order_of_interleaved),
        cmocka_unit_test(order_of_zb_h1),
        cmocka_unit_test(order_of_zbv),
        cmocka_unit_test(order_of_dualpipe),
        cmocka_unit_test(ways_through_the_ranks),
    };
    return cmocka_run_group_tests_name("schedule_order", tests, open_arena, close_arena);
}
