/* What must hold of the orders of a pipeline, over random stages, micro-batches, chunks and times: everything runs once, no rank
 * waits for ever, and what the orders take and hold is what the closed forms say where these are exact. */
#include "support/pipeline_run.h"
#include "support/support.h"

#include "step/step_internal.h"

#include <math.h>
#include <stdlib.h>

enum { CASES = 1200, MOST_STAGES = 17 };
static const double EXACT = 1e-9;

struct drawn {
    struct layout_spec layout;
    int64_t m;
    struct pipeline_times times;
};

static int64_t draw(uint64_t *state, int64_t from, int64_t to)
{
    return from + (int64_t)(next_random(state) % (uint64_t)(to - from + 1));
}

/* Legal under the rules of rules_pipeline.c. */
static struct drawn draw_pipeline(uint64_t *state)
{
    struct drawn drawn = {.layout = {.schedule = (enum schedule_id)draw(state, 0, N_SCHEDULES - 1), .vpp = 1}};
    struct layout_spec *layout = &drawn.layout;
    layout->pp = draw(state, 2, MOST_STAGES);
    drawn.m = draw(state, 1, 4 * layout->pp);
    if (layout->schedule == SCHEDULE_INTERLEAVED) {
        layout->vpp = draw(state, 2, 5);
        drawn.m = layout->pp * draw(state, 1, 4);
    } else if (layout->schedule == SCHEDULE_ZBV) {
        layout->vpp = 2;
    } else if (layout->schedule == SCHEDULE_DUALPIPE) {
        layout->pp += layout->pp % 2;
        drawn.m = 2 * draw(state, layout->pp, 3 * layout->pp);
    }
    /* weight gradients no longer than forwards, those no longer than backwards, as in a model: attention has no weights */
    drawn.times.weights_s = (double)draw(state, 0, 500);
    drawn.times.forward_s = (double)draw(state, 500, 700);
    drawn.times.input_s = (double)draw(state, 700, 2000);
    if (draw(state, 0, 3) == 0) {
        drawn.times = (struct pipeline_times){.forward_s = 611, .input_s = 611, .weights_s = 611};
    }
    return drawn;
}

/* ---- what is true of every order -------------------------------------------------------------------------------- */

/* Which of the chunks a micro-batch passes: of dualpipe the one of the end that it comes from. */
static bool passes(const struct drawn *drawn, int chunk, int64_t j)
{
    return drawn->layout.schedule != SCHEDULE_DUALPIPE || chunk == (j < drawn->m / 2 ? 0 : 1);
}

static void assert_once(const struct drawn *drawn, struct sp_arena *arena, const struct schedule_order *order)
{
    int chunks = schedule_chunks(&drawn->layout);
    int kinds = schedule_puts_off_weights(&drawn->layout) ? 3 : 2;
    int64_t *seen = sp_arena_array(arena, (size_t)(3 * chunks * drawn->m), sizeof(int64_t));
    for (int64_t k = 0; k < order->n_actions; k++) {
        const struct schedule_action *action = &order->actions[k];
        assert_in_range(action->chunk, 0, chunks - 1);
        assert_in_range(action->micro_batch, 0, drawn->m - 1);
        seen[((int)action->kind * chunks + action->chunk) * drawn->m + action->micro_batch]++;
    }
    for (int kind = 0; kind < 3; kind++) {
        for (int chunk = 0; chunk < chunks; chunk++) {
            for (int64_t j = 0; j < drawn->m; j++) {
                int64_t wanted = kind < kinds && passes(drawn, chunk, j) ? 1 : 0;
                assert_int_equal(seen[(kind * chunks + chunk) * drawn->m + j], wanted);
            }
        }
    }
}

/* ---- closed forms ----------------------------------------------------------------------------------------------- */

/* What schedule_idle() says of stages that all take as long, or (scale) differ. */
static struct pipeline_idle closed_form(const struct drawn *drawn, const double *scale, double hop_s)
{
    struct stage_run runs[MOST_STAGES + 1];
    struct stage_time times[MOST_STAGES + 1];
    int n = scale == NULL ? 1 : (int)drawn->layout.pp;
    int slowest = 0;
    for (int i = 0; i < n; i++) {
        double by = scale == NULL ? 1 : scale[i];
        runs[i] = (struct stage_run){.class = i, .count = scale == NULL ? drawn->layout.pp : 1};
        times[i] = (struct stage_time){.forward_s = by * drawn->times.forward_s,
                                       .backward_s = by * (drawn->times.input_s + drawn->times.weights_s),
                                       .weight_s = by * drawn->times.weights_s};
        slowest = times[i].forward_s > times[slowest].forward_s ? i : slowest;
    }
    const struct pipeline_load load = {.micro_batches = (double)drawn->m,
                                       .n_runs = n,
                                       .runs = runs,
                                       .times = times,
                                       .slowest = slowest,
                                       .hop_s = hop_s};
    return schedule_idle(&drawn->layout, &load);
}

/* With fewer than 2 p - 1 micro-batches zbv's order holds less than it may. */
static bool holds_all(const struct drawn *drawn)
{
    return drawn->layout.schedule != SCHEDULE_ZBV || drawn->m >= 2 * drawn->layout.pp - 1;
}

static void assert_closed_forms(const struct drawn *drawn, const struct pipeline_run *run)
{
    const struct pipeline_times *times = &drawn->times;
    double work_s = (double)drawn->m * (times->forward_s + times->input_s + times->weights_s);
    assert_close(run->time_s, work_s + closed_form(drawn, NULL, 0).bubble_s, EXACT);
    for (int64_t i = 0; i < drawn->layout.pp; i++) {
        double wanted = schedule_in_flight(&drawn->layout, drawn->m, i);
        if (holds_all(drawn)) {
            assert_close(run->held[i], wanted, EXACT);
        } else {
            assert_true(run->held[i] <= wanted);
        }
    }
}

/* Where all three take as long and micro-batches are many, the bubbles of the authors: (p - 1) (f + b - 2 w) of zb-h1, b with w;
 * a chunk's forward on every other rank for zbv. */
static void assert_published(const struct drawn *drawn)
{
    double q = (double)drawn->layout.pp - 1;
    double s = drawn->times.forward_s;
    bool is_even = fabs(s - drawn->times.input_s) <= 0 && fabs(s - drawn->times.weights_s) <= 0;
    if (!is_even || drawn->m < 2 * drawn->layout.pp - 1) {
        return;
    }
    double bubble_s = closed_form(drawn, NULL, 0).bubble_s;
    if (drawn->layout.schedule == SCHEDULE_ZB_H1) {
        assert_close(bubble_s, q * s, EXACT);
    } else if (drawn->layout.schedule == SCHEDULE_ZBV) {
        assert_close(bubble_s, q * s / 2, EXACT);
    }
}

static void orders_hold(void **state)
{
    (void)state;
    uint64_t random = 61;
    int64_t by_schedule[N_SCHEDULES] = {0};
    struct sp_arena *arena = sp_arena_open();
    for (int n = 0; n < CASES; n++) {
        struct sp_arena_mark mark = sp_arena_mark(arena);
        struct drawn drawn = draw_pipeline(&random);
        by_schedule[drawn.layout.schedule]++;
        if (getenv("SEQPLAN_TEST_VERBOSE") != NULL) {
            print_message("%s p %lld m %lld v %lld, forward %g input %g weights %g\n",
                          schedule_names[drawn.layout.schedule], (long long)drawn.layout.pp, (long long)drawn.m,
                          (long long)drawn.layout.vpp, drawn.times.forward_s, drawn.times.input_s,
                          drawn.times.weights_s);
        }
        struct schedule_order orders[MOST_STAGES + 1];
        schedule_orders(&drawn.layout, drawn.m, arena, orders);
        for (int64_t i = 0; i < drawn.layout.pp; i++) {
            assert_once(&drawn, arena, &orders[i]);
        }
        struct pipeline_run run;
        pipeline_run(&drawn.layout, drawn.m, &drawn.times, arena, &run);
        assert_true(run.is_finished);
        assert_closed_forms(&drawn, &run);
        assert_published(&drawn);
        sp_arena_rewind(arena, mark);
    }
    for (int s = 0; s < N_SCHEDULES; s++) {
        assert_true(by_schedule[s] > CASES / N_SCHEDULES / 2);
    }
    sp_arena_close(arena);
}

/* ---- pairs, and stages that differ ------------------------------------------------------------------------------ */

/* dualpipe as its authors run it, forward and backward as one: their bubble, where forward and backward take as long. */
static void pairs_of_dualpipe(void **state)
{
    (void)state;
    uint64_t random = 62;
    struct sp_arena *arena = sp_arena_open();
    for (int n = 0; n < CASES / 4; n++) {
        int64_t p = 2 * draw(&random, 1, MOST_STAGES / 2);
        int64_t m = 2 * draw(&random, p, 3 * p);
        struct layout_spec layout = {.schedule = SCHEDULE_DUALPIPE, .pp = p, .vpp = 1};
        double w = (double)draw(&random, 0, 500);
        double f = (double)draw(&random, 500, 700);
        double b = n % 2 == 0 ? f : (double)draw(&random, 700, 2000);
        struct pipeline_times times = {.forward_s = f, .input_s = b, .weights_s = w, .is_paired = true};
        struct pipeline_run run;
        pipeline_run(&layout, m, &times, arena, &run);
        assert_true(run.is_finished);
        double idle = run.time_s - (double)m * (f + b + w);
        double r = (double)p / 2 - 1;
        assert_true(fabs(idle - (r > 0 ? r * (f + b - w) + fmax(r * f, r * b - f) : 0)) <= EXACT * run.time_s);
        double closed = r > 0 ? r * (f + 2 * b - w) : 0; /* (p/2 - 1)(F&B + B - 3 W), B with its weight gradients */
        assert_true(fabs(idle - closed) <= EXACT * run.time_s + (n % 2 == 0 ? 0 : f));
    }
    sp_arena_close(arena);
}

/* 1F1B of stages that differ. A stage before the last works ahead while its first micro-batch is away, and has backwards left
 * while its last one is; t the whole of a stage:
 *   max over stages i of sum_(j < i) t_j + m t_i + max(0, sum_(j > i) t_j - k f_i) + max(0, sum_(j > i) t_j - k b_i), k = p - 1 - i
 * with m of p or more. */
static double uneven_1f1b_s(const struct drawn *drawn, const double *scale)
{
    double f = drawn->times.forward_s;
    double b = drawn->times.input_s + drawn->times.weights_s;
    double most = 0;
    for (int64_t i = 0; i < drawn->layout.pp; i++) {
        double before = 0;
        double after = 0;
        for (int64_t j = 0; j < drawn->layout.pp; j++) {
            *(j < i ? &before : &after) += j == i ? 0 : (f + b) * scale[j];
        }
        double k = (double)(drawn->layout.pp - 1 - i);
        double away = fmax(0, after - k * f * scale[i]) + fmax(0, after - k * b * scale[i]);
        most = fmax(most, before + (double)drawn->m * (f + b) * scale[i] + away);
    }
    return most;
}

static void uneven_stages_of_1f1b(void **state)
{
    (void)state;
    uint64_t random = 63;
    struct sp_arena *arena = sp_arena_open();
    for (int n = 0; n < CASES / 4; n++) {
        struct drawn drawn = {.layout = {.schedule = SCHEDULE_1F1B, .pp = draw(&random, 2, MOST_STAGES), .vpp = 1},
                              .times = {.forward_s = 611, .input_s = 907, .weights_s = 302}};
        drawn.m = draw(&random, drawn.layout.pp, 4 * drawn.layout.pp);
        double scale[MOST_STAGES];
        for (int64_t i = 0; i < drawn.layout.pp; i++) {
            scale[i] = (double)draw(&random, 100, 140) / 100;
        }
        drawn.times.scale = scale;
        struct pipeline_run run;
        pipeline_run(&drawn.layout, drawn.m, &drawn.times, arena, &run);
        assert_true(run.is_finished);
        assert_close(run.time_s, uneven_1f1b_s(&drawn, scale), EXACT);
        double most = 0;
        for (int64_t i = 0; i < drawn.layout.pp; i++) {
            most = fmax(most, scale[i]);
        }
        assert_close(run.time_s, (double)drawn.m * most * (611 + 907 + 302) + closed_form(&drawn, scale, 0).bubble_s,
                     EXACT);
    }
    sp_arena_close(arena);
}

/* ---- hops ------------------------------------------------------------------------------------------------------- */

/* Hops on the critical path of stages that take as long and hops that are short beside them; with two stages none sends both
 * ways. */
static double hops(const struct drawn *drawn)
{
    double p = (double)drawn->layout.pp;
    double m = (double)drawn->m;
    double v = (double)drawn->layout.vpp;
    bool is_two = drawn->layout.pp == 2;
    switch (drawn->layout.schedule) {
    case SCHEDULE_GPIPE:
        return 2 * (m + p - 2);
    case SCHEDULE_1F1B:
    case SCHEDULE_ZB_H1:
        return is_two ? m + 1 : 2 * m + 2 * p - 5;
    case SCHEDULE_INTERLEAVED:
        return (2 * v - 1) * m + 2 * p - 3; /* up to 2 v m + 2 p - 5 of longer ones */
    case SCHEDULE_ZBV:
        return is_two ? 2 * m + 2 : 4 * m + p - 3;
    case SCHEDULE_DUALPIPE:
        return is_two ? m : 2 * m + p - 3;
    case N_SCHEDULES:
        break;
    }
    return (double)NAN;
}

static void hops_add_up(void **state)
{
    (void)state;
    uint64_t random = 64;
    struct sp_arena *arena = sp_arena_open();
    for (int n = 0; n < CASES / 2; n++) {
        struct sp_arena_mark mark = sp_arena_mark(arena);
        struct drawn drawn = draw_pipeline(&random);
        if (drawn.m < 2 * drawn.layout.pp) {
            continue;
        }
        drawn.times = (struct pipeline_times){.forward_s = 64, .input_s = 64, .weights_s = 64};
        struct pipeline_run without;
        struct pipeline_run with;
        pipeline_run(&drawn.layout, drawn.m, &drawn.times, arena, &without);
        drawn.times.hop_s = 1.0 / 64;
        pipeline_run(&drawn.layout, drawn.m, &drawn.times, arena, &with);
        assert_close((with.time_s - without.time_s) / drawn.times.hop_s, hops(&drawn), 1e-6);
        assert_close(closed_form(&drawn, NULL, drawn.times.hop_s).hops_s / drawn.times.hop_s, hops(&drawn), 1e-6);
        sp_arena_rewind(arena, mark);
    }
    sp_arena_close(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(orders_hold),
        cmocka_unit_test(pairs_of_dualpipe),
        cmocka_unit_test(uneven_stages_of_1f1b),
        cmocka_unit_test(hops_add_up),
    };
    return cmocka_run_group_tests_name("schedule_order", tests, NULL, NULL);
}
