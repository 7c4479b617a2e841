#include "sim/flows.h"
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

struct fixture {
    struct sp_arena *arena;
    struct event_queue *queue;
};

static int open_fixture(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    assert_non_null(fixture);
    fixture->arena = sp_arena_open();
    fixture->queue = event_queue_open(fixture->arena);
    *state = fixture;
    return 0;
}

static int close_fixture(void **state)
{
    struct fixture *fixture = *state;
    sp_arena_close(fixture->arena);
    free(fixture);
    return 0;
}

static void post(struct event_queue *queue, int64_t time_ps, uint32_t index)
{
    event_post(queue, time_ps, (struct event){.kind = 3, .index = index, .version = 7});
}

static void assert_next(struct event_queue *queue, int64_t time_ps, uint32_t index)
{
    int64_t next_ps = -1;
    struct event event;
    assert_true(event_next_time(queue, &next_ps));
    assert_int_equal(next_ps, time_ps);
    assert_true(event_take(queue, time_ps, &event));
    assert_int_equal(event.index, index);
}

static void an_empty_queue_has_no_time(void **state)
{
    struct fixture *fixture = *state;
    int64_t time_ps = 0;
    struct event event;
    assert_false(event_next_time(fixture->queue, &time_ps));
    assert_false(event_take(fixture->queue, 0, &event));
    post(fixture->queue, 5, 1);
    assert_next(fixture->queue, 5, 1);
    assert_false(event_next_time(fixture->queue, &time_ps));
    assert_false(event_take(fixture->queue, 5, &event));
    assert_false(event_take(fixture->queue, 6, &event));
}

static void every_field_comes_back(void **state)
{
    struct fixture *fixture = *state;
    static const struct event events[] = {
        {0, 0, 0}, {15, UINT32_MAX, (1U << 28) - 1}, {EVENT_FLOW_END, 61, 1}, {7, 1U << 31, 1U << 27}};
    for (size_t i = 0; i < SP_COUNT_OF(events); i++) {
        event_post(fixture->queue, 11, events[i]);
    }
    for (size_t i = 0; i < SP_COUNT_OF(events); i++) {
        struct event event;
        assert_true(event_take(fixture->queue, 11, &event));
        assert_int_equal(event.kind, events[i].kind);
        assert_int_equal(event.index, events[i].index);
        assert_int_equal(event.version, events[i].version);
    }
}

static void times_come_in_order_and_events_as_posted(void **state)
{
    struct fixture *fixture = *state;
    post(fixture->queue, 30, 1);
    post(fixture->queue, 10, 2);
    post(fixture->queue, 30, 3);
    post(fixture->queue, 20, 4);
    post(fixture->queue, 10, 5);
    assert_next(fixture->queue, 10, 2);
    assert_next(fixture->queue, 10, 5);
    assert_next(fixture->queue, 20, 4);
    assert_next(fixture->queue, 30, 1);
    assert_next(fixture->queue, 30, 3);
}

static void what_is_posted_now_is_taken_now(void **state)
{
    struct fixture *fixture = *state;
    struct event event;
    post(fixture->queue, 10, 1);
    post(fixture->queue, 13, 2);
    assert_next(fixture->queue, 10, 1);
    post(fixture->queue, 10, 3);
    post(fixture->queue, 10, 4);
    assert_next(fixture->queue, 10, 3);
    assert_next(fixture->queue, 10, 4);
    assert_false(event_take(fixture->queue, 10, &event));
    post(fixture->queue, 10, 5); /* after that, too */
    assert_next(fixture->queue, 10, 5);
    assert_next(fixture->queue, 13, 2);
}

/* More events of an instant than a chunk holds, emptied in part before more come. */
static void an_instant_holds_any_number(void **state)
{
    struct fixture *fixture = *state;
    enum { EVENTS = 1013 };
    uint32_t n_posted = 0;
    uint32_t n_taken = 0;
    while (n_taken < EVENTS) {
        for (int i = 0; i < 7 && n_posted < EVENTS; i++) {
            post(fixture->queue, 99, n_posted++);
        }
        for (int i = 0; i < 5 && n_taken < n_posted; i++) {
            assert_next(fixture->queue, 99, n_taken++);
        }
    }
}

static void times_before_zero_are_times(void **state)
{
    struct fixture *fixture = *state;
    post(fixture->queue, 0, 1);
    post(fixture->queue, -3, 2);
    assert_next(fixture->queue, -3, 2);
    assert_next(fixture->queue, 0, 1);
}

struct reference {
    int64_t time_ps;
    uint32_t sequence;
    bool is_taken;
};

/* Beside a list that is searched from end to end. Few distinct times, then many. */
static void random_events_agree_with_a_list(void **state)
{
    enum { EVENTS = 3001 };
    static const uint64_t spreads[] = {3, 61, 1000003};
    (void)state;
    for (size_t s = 0; s < SP_COUNT_OF(spreads); s++) {
        struct sp_arena *arena = sp_arena_open();
        struct event_queue *queue = event_queue_open(arena);
        struct reference *events = sp_arena_array(arena, EVENTS, sizeof(*events));
        uint64_t random = 40 + s;
        uint32_t n_posted = 0;
        int64_t now_ps = 0;
        for (uint32_t n_taken = 0; n_taken < EVENTS;) {
            if (n_posted < EVENTS && (n_taken == n_posted || next_random(&random) % 5 < 3)) {
                events[n_posted] =
                    (struct reference){now_ps + (int64_t)(next_random(&random) % spreads[s]), n_posted, false};
                post(queue, events[n_posted].time_ps, n_posted);
                n_posted++;
                continue;
            }
            struct reference *first = NULL;
            for (uint32_t i = 0; i < n_posted; i++) {
                if (!events[i].is_taken && (first == NULL || events[i].time_ps < first->time_ps)) {
                    first = &events[i];
                }
            }
            assert_non_null(first);
            assert_next(queue, first->time_ps, first->sequence);
            first->is_taken = true;
            now_ps = first->time_ps;
            n_taken++;
        }
        sp_arena_close(arena);
    }
}

/* What is freed is used again: memory follows the events that wait, not those that were. */
static void memory_follows_what_waits(void **state)
{
    struct fixture *fixture = *state;
    size_t used = 0;
    for (int64_t time_ps = 0; time_ps < 50000; time_ps++) {
        for (uint32_t i = 0; i < 23; i++) {
            post(fixture->queue, time_ps + 1 + i % 3, i);
        }
        struct event event;
        while (event_take(fixture->queue, time_ps, &event)) {
        }
        if (time_ps == 100) {
            used = sp_arena_used(fixture->arena);
        }
    }
    assert_int_equal(sp_arena_used(fixture->arena), used);
}

static void post_into_the_past(void *data)
{
    struct event_queue *queue = data;
    struct event event;
    post(queue, 10, 1);
    (void)event_take(queue, 10, &event);
    post(queue, 9, 2);
}

static void the_past_is_refused(void **state)
{
    struct fixture *fixture = *state;
    char output[512];
    int code = run_in_child(post_into_the_past, fixture->queue, output, sizeof(output));
    assert_true(code > 128);
    assert_non_null(strstr(output, "now_ps"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_empty_queue_has_no_time, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(every_field_comes_back, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(times_come_in_order_and_events_as_posted, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(what_is_posted_now_is_taken_now, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(an_instant_holds_any_number, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(times_before_zero_are_times, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(memory_follows_what_waits, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(the_past_is_refused, open_fixture, close_fixture),
        cmocka_unit_test(random_events_agree_with_a_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
