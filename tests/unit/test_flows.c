#include "sim/flows.h"
#include "support/support.h"

#include <math.h>
#include <stdlib.h>

enum { OWNERS = 70, US = 1000000 }; /* picoseconds in a microsecond */
static const double G = 1e9;        /* bytes a second */

struct fixture {
    struct sp_arena *arena;
    struct event_queue *queue;
    struct flow_network *network;
    int64_t now_ps;
    int64_t ends_ps[OWNERS]; /* -1: not ended */
    int n_ended;
    int n_void;
    int n_contended;                  /* calls of `contended` */
    int32_t reservations[OWNERS];     /* by owner: the flow, or -1 */
    struct flow_spec instead[OWNERS]; /* by owner: two of it take the reservation's place, with half of what is left */
};

/* A reservation for two flows alike becomes those two. */
static void materialise(void *context, uint64_t owner)
{
    struct fixture *fixture = context;
    fixture->n_contended++;
    assert_true(fixture->reservations[owner] >= 0);
    double left = flow_stop(fixture->network, fixture->now_ps, fixture->reservations[owner]);
    fixture->reservations[owner] = -1;
    struct flow_spec spec = fixture->instead[owner];
    spec.bytes = left / 2;
    (void)flow_start(fixture->network, fixture->now_ps, &spec);
    spec.owner++;
    (void)flow_start(fixture->network, fixture->now_ps, &spec);
}

static int open_fixture(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    assert_non_null(fixture);
    fixture->arena = sp_arena_open();
    fixture->queue = event_queue_open(fixture->arena);
    fixture->network = flow_network_open(fixture->arena, fixture->queue, materialise, fixture);
    for (int i = 0; i < OWNERS; i++) {
        fixture->ends_ps[i] = -1;
        fixture->reservations[i] = -1;
    }
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

static int32_t add_link(struct fixture *fixture, double bytes_per_s)
{
    return flow_network_add_link(fixture->network, bytes_per_s);
}

/* A path over links [first, first + n) with weight 1. */
static int32_t add_path(struct fixture *fixture, int32_t first, int n)
{
    struct path_hop hops[MAX_PATH_HOPS] = {{0}};
    for (int i = 0; i < n; i++) {
        hops[i] = (struct path_hop){first + i, 1};
    }
    return flow_network_add_path(fixture->network, hops, n);
}

static int32_t start(struct fixture *fixture, uint64_t owner, int32_t path, double bytes, double cap_bytes_per_s)
{
    struct flow_spec spec = {path, bytes, cap_bytes_per_s, owner, 0, false};
    return flow_start(fixture->network, fixture->now_ps, &spec);
}

static void take_instant(struct fixture *fixture)
{
    struct event event;
    while (event_take(fixture->queue, fixture->now_ps, &event)) {
        uint64_t owner = 0;
        if (flow_finish(fixture->network, fixture->now_ps, &event, &owner)) {
            assert_true(owner < OWNERS);
            assert_int_equal(fixture->ends_ps[owner], -1);
            fixture->ends_ps[owner] = fixture->now_ps;
            fixture->n_ended++;
        } else {
            fixture->n_void++;
        }
    }
}

/* Everything that happens before time_ps; time_ps is the present then. */
static void run_until(struct fixture *fixture, int64_t time_ps)
{
    int64_t next_ps = 0;
    flows_settle(fixture->network, fixture->now_ps);
    while (event_next_time(fixture->queue, &next_ps) && next_ps < time_ps) {
        fixture->now_ps = next_ps;
        take_instant(fixture);
        flows_settle(fixture->network, next_ps);
    }
    if (time_ps != INT64_MAX) {
        fixture->now_ps = time_ps;
    }
}

static void run(struct fixture *fixture)
{
    run_until(fixture, INT64_MAX);
}

static struct link_record record(const struct fixture *fixture, int32_t link)
{
    return flow_network_link(fixture->network, link, fixture->now_ps);
}

/* ---- rates ------------------------------------------------------------------------------------------------------ */

static void a_flow_alone_has_the_link(void **state)
{
    struct fixture *fixture = *state;
    int32_t path = add_path(fixture, add_link(fixture, 30 * G), 1);
    (void)start(fixture, 1, path, 61e3, INFINITY);
    run(fixture);
    /* 61,000 / 30e9 = 2.0333... us: the first picosecond after the last byte */
    assert_int_equal(fixture->ends_ps[1], 2033334);
    assert_int_equal(flow_network_count(fixture->network), 1);
}

static void a_path_of_no_links_runs_at_its_cap(void **state)
{
    struct fixture *fixture = *state;
    (void)start(fixture, 1, add_path(fixture, 0, 0), 21e3, 7 * G);
    run(fixture);
    assert_int_equal(fixture->ends_ps[1], 3 * US);
}

static void two_flows_share_a_link(void **state)
{
    struct fixture *fixture = *state;
    int32_t link = add_link(fixture, 30 * G);
    int32_t path = add_path(fixture, link, 1);
    (void)start(fixture, 1, path, 60e3, INFINITY);
    (void)start(fixture, 2, path, 90e3, INFINITY);
    run(fixture);
    /* 15 GB/s each: the first ends after 4 us; then 30,000 B are left of the other, for which 30 GB/s take 1 us. */
    assert_int_equal(fixture->ends_ps[1], 4 * US);
    assert_int_equal(fixture->ends_ps[2], 5 * US);
    struct link_record of = record(fixture, link);
    assert_close(of.bytes, 150e3, 1e-12);
    assert_int_equal(of.busy_ps, 5 * US);
    assert_int_equal(of.contended_ps, 4 * US);
}

static void a_later_flow_takes_its_half(void **state)
{
    struct fixture *fixture = *state;
    int32_t path = add_path(fixture, add_link(fixture, 30 * G), 1);
    (void)start(fixture, 1, path, 60e3, INFINITY);
    run_until(fixture, 1 * US);
    (void)start(fixture, 2, path, 60e3, INFINITY);
    run(fixture);
    /* 30,000 B in the first us, the other 30,000 at 15 GB/s in 2 us; then 30,000 B of the second are left: 1 us. */
    assert_int_equal(fixture->ends_ps[1], 3 * US);
    assert_int_equal(fixture->ends_ps[2], 4 * US);
    assert_int_equal(fixture->n_void, 2); /* each end has moved once */
}

/* Links of 10, 20 and 30 GB/s, one flow over all, one on each alone: the first link gives 5 + 5; the others what is left.
 * Sizes are 10 us at those rates, so that all end together. */
static void the_parking_lot(void **state)
{
    struct fixture *fixture = *state;
    for (int i = 1; i <= 3; i++) {
        (void)add_link(fixture, 10 * G * i);
    }
    static const double rates[] = {5 * 1e9, 5 * 1e9, 15 * 1e9, 25 * 1e9};
    (void)start(fixture, 0, add_path(fixture, 0, 3), rates[0] * 10e-6, INFINITY);
    for (int i = 1; i <= 3; i++) {
        (void)start(fixture, (uint64_t)i, add_path(fixture, i - 1, 1), rates[i] * 10e-6, INFINITY);
    }
    run(fixture);
    for (int i = 0; i <= 3; i++) {
        assert_int_equal(fixture->ends_ps[i], 10 * US);
    }
}

/* 30 GB/s, caps 4, 10 and none: 4, 10 and the 16 left. Started in an order that is not that of the caps. */
static void caps_leave_the_rest_to_others(void **state)
{
    struct fixture *fixture = *state;
    int32_t path = add_path(fixture, add_link(fixture, 30 * G), 1);
    (void)start(fixture, 1, path, 160e3, INFINITY);
    (void)start(fixture, 2, path, 40e3, 4 * G);
    (void)start(fixture, 3, path, 100e3, 10 * G);
    run(fixture);
    for (int i = 1; i <= 3; i++) {
        assert_int_equal(fixture->ends_ps[i], 10 * US);
    }
}

static void caps_that_fit_contend_with_nobody(void **state)
{
    struct fixture *fixture = *state;
    int32_t link = add_link(fixture, 0.3);
    int32_t path = add_path(fixture, link, 1);
    for (uint64_t i = 0; i < 3; i++) { /* 0.1 + 0.1 + 0.1 is more than 0.3 in doubles */
        (void)start(fixture, i, path, 1e-6, 0.1);
    }
    run(fixture);
    assert_int_equal(fixture->ends_ps[2], 10 * US);
    assert_int_equal(record(fixture, link).contended_ps, 0);
    assert_int_equal(fixture->n_void, 0);
}

/* Two flows that a slow link each keeps from filling the wide one. What they want is what their own slowest link gives. */
static void slow_links_elsewhere_leave_a_link_free(void **state)
{
    struct fixture *fixture = *state;
    int32_t wide = add_link(fixture, 50 * G);
    int32_t slow = add_link(fixture, 20 * G);
    int32_t other = add_link(fixture, 30 * G);
    int32_t first = add_path(fixture, wide, 2);
    struct path_hop hops[] = {{other, 1}, {wide, 1}};
    int32_t second = flow_network_add_path(fixture->network, hops, 2);
    (void)start(fixture, 1, first, 60e3, INFINITY);
    (void)start(fixture, 2, second, 60e3, 70 * G);
    run(fixture);
    assert_int_equal(fixture->ends_ps[1], 3 * US);
    assert_int_equal(fixture->ends_ps[2], 2 * US);
    assert_int_equal(record(fixture, wide).contended_ps, 0);
    assert_int_equal(record(fixture, slow).contended_ps, 0);
}

/* 30 GB/s, weights 2 and 1: 2 r + r = 30. */
static void weights_count_on_the_link(void **state)
{
    struct fixture *fixture = *state;
    int32_t link = add_link(fixture, 30 * G);
    struct path_hop twice = {link, 2};
    (void)start(fixture, 1, flow_network_add_path(fixture->network, &twice, 1), 100e3, INFINITY);
    (void)start(fixture, 2, add_path(fixture, link, 1), 100e3, INFINITY);
    run(fixture);
    assert_int_equal(fixture->ends_ps[1], 10 * US);
    assert_int_equal(fixture->ends_ps[2], 10 * US);
    assert_close(record(fixture, link).bytes, 300e3, 1e-12);
}

static void a_link_crossed_twice_carries_twice(void **state)
{
    struct fixture *fixture = *state;
    int32_t link = add_link(fixture, 30 * G);
    struct path_hop hops[] = {{link, 1}, {link, 0.5}};
    (void)start(fixture, 1, flow_network_add_path(fixture->network, hops, 2), 40e3, INFINITY);
    run(fixture);
    assert_int_equal(fixture->ends_ps[1], 2 * US); /* 30 / 1.5 = 20 GB/s */
    assert_close(record(fixture, link).bytes, 60e3, 1e-12);
}

/* Each of 13 ranks to each other at rates that no double holds: all ends in one picosecond, whatever the order. */
static void flows_alike_end_together(void **state)
{
    struct fixture *fixture = *state;
    enum { RANKS = 13 };
    for (int i = 0; i < 2 * RANKS; i++) {
        (void)add_link(fixture, 61.7 * G / 3);
    }
    for (int k = 0; k < RANKS * RANKS; k++) {
        int pair = k * 5 % (RANKS * RANKS);
        struct path_hop hops[] = {{pair % RANKS, 1}, {RANKS + pair / RANKS, 1}};
        (void)start(fixture, 0, flow_network_add_path(fixture->network, hops, 2), 393217, INFINITY);
    }
    flows_settle(fixture->network, 0);
    int n_instants = 0;
    int n_ended = 0;
    int64_t next_ps = 0;
    while (event_next_time(fixture->queue, &next_ps)) {
        struct event event;
        int n_before = n_ended;
        while (event_take(fixture->queue, next_ps, &event)) {
            uint64_t owner = 0;
            n_ended += flow_finish(fixture->network, next_ps, &event, &owner);
        }
        n_instants += n_ended > n_before;
        flows_settle(fixture->network, next_ps);
    }
    assert_int_equal(n_ended, RANKS * RANKS);
    assert_int_equal(n_instants, 1);
}

/* Links with the same flows, started in different orders: their weights add up to sums that differ in the last bit, and their
 * flows end together all the same, after 10^18 ps. */
static void the_order_of_weights_does_not_matter(void **state)
{
    struct fixture *fixture = *state;
    static const double weights[] = {1.0 / 3, 0.7, 2.3, 1.1, 0.1, 5.7, 1.9};
    enum { LINKS = 9, WEIGHTS = SP_COUNT_OF(weights) };
    for (int l = 0; l < LINKS; l++) {
        int32_t link = add_link(fixture, 2 * G);
        for (int w = 0; w < (int)WEIGHTS; w++) {
            struct path_hop hop = {link, weights[(w * (1 + l % 3) + l) % (int)WEIGHTS]};
            uint64_t owner = (uint64_t)(l * (int)WEIGHTS + w);
            (void)start(fixture, owner, flow_network_add_path(fixture->network, &hop, 1), 1e14, INFINITY);
        }
    }
    run(fixture);
    for (int i = 1; i < LINKS * (int)WEIGHTS; i++) {
        assert_int_equal(fixture->ends_ps[i], fixture->ends_ps[0]);
    }
}

/* ---- changes ---------------------------------------------------------------------------------------------------- */

static void a_capacity_changes_under_a_flow(void **state)
{
    struct fixture *fixture = *state;
    int32_t link = add_link(fixture, 30 * G);
    (void)start(fixture, 1, add_path(fixture, link, 1), 90e3, INFINITY);
    run_until(fixture, 1 * US);
    flow_network_set_capacity(fixture->network, link, 50 * G);
    flow_network_set_capacity(fixture->network, link, 10 * G);
    run(fixture);
    /* 30,000 B in the first us; 60,000 at 10 GB/s take 6. */
    assert_int_equal(fixture->ends_ps[1], 7 * US);
}

/* A wide link behind narrow ones becomes tight when they grow, and is free again when they shrink. */
static void a_capacity_changes_what_flows_want(void **state)
{
    struct fixture *fixture = *state;
    int32_t wide = add_link(fixture, 40 * G);
    int32_t narrow = add_link(fixture, 10 * G);
    (void)start(fixture, 1, add_path(fixture, wide, 2), 100e3, INFINITY);
    (void)start(fixture, 2, add_path(fixture, wide, 1), 130e3, 30 * G);
    run_until(fixture, 1 * US);
    flow_network_set_capacity(fixture->network, narrow, 35 * G);
    run_until(fixture, 3 * US);
    /* 10 and 30 for 1 us, 20 each for 2 us: 50,000 and 60,000 B are left. */
    flow_network_set_capacity(fixture->network, narrow, 10 * G);
    run(fixture);
    assert_int_equal(fixture->ends_ps[2], 5 * US);
    assert_int_equal(fixture->ends_ps[1], 8 * US);
    assert_int_equal(record(fixture, wide).contended_ps, 2 * US);
}

static void a_link_stalls_and_comes_back(void **state)
{
    struct fixture *fixture = *state;
    int32_t link = add_link(fixture, 30 * G);
    int32_t path = add_path(fixture, link, 1);
    (void)start(fixture, 1, path, 60e3, INFINITY);
    (void)start(fixture, 2, path, 60e3, 17 * G);
    run_until(fixture, 2 * US);
    flow_network_set_capacity(fixture->network, link, 0);
    run_until(fixture, 3 * US);
    (void)start(fixture, 3, path, 15e3, INFINITY); /* while it stands */
    run(fixture);
    assert_int_equal(fixture->n_ended, 0);
    fixture->now_ps = 9 * US;
    assert_close(record(fixture, link).bytes, 60e3, 1e-12);
    assert_int_equal(record(fixture, link).busy_ps, 9 * US);
    flow_network_set_capacity(fixture->network, link, 45 * G);
    run(fixture);
    /* 30,000, 30,000 and 15,000 B at 15 GB/s; after 1 us two with 15,000 left, which get 17 (its cap) and 28. */
    assert_int_equal(fixture->ends_ps[3], 10 * US);
    assert_int_equal(fixture->ends_ps[1], 10 * US + 535715); /* 15 / 28 us */
    assert_int_equal(fixture->ends_ps[2], 10 * US + 882353); /* 15 / 17 us */
}

/* Nobody wants anything of a link that carries nothing, whatever was added and taken off before. */
static void a_link_of_no_capacity_is_not_contended(void **state)
{
    struct fixture *fixture = *state;
    int32_t link = add_link(fixture, 7);
    int32_t path = add_path(fixture, link, 1);
    for (uint64_t i = 1; i <= 3; i++) {
        (void)start(fixture, i, path, 60, 0.1 * (double)i);
    }
    run_until(fixture, 1 * US);
    flow_network_set_capacity(fixture->network, link, 0);
    run_until(fixture, 2 * US);
    assert_int_equal(record(fixture, link).contended_ps, 0);
}

static void a_flow_stops(void **state)
{
    struct fixture *fixture = *state;
    int32_t link = add_link(fixture, 30 * G);
    int32_t path = add_path(fixture, link, 1);
    int32_t flow = start(fixture, 1, path, 60e3, INFINITY);
    (void)start(fixture, 2, path, 60e3, INFINITY);
    run_until(fixture, 2 * US);
    assert_close(flow_stop(fixture->network, fixture->now_ps, flow), 30e3, 1e-12);
    run(fixture);
    assert_int_equal(fixture->ends_ps[1], -1);
    assert_int_equal(fixture->ends_ps[2], 3 * US);
    assert_close(record(fixture, link).bytes, 90e3, 1e-12);
}

/* The end of a flow that was stopped must not end the one that has its number now. */
static void an_old_end_does_not_end_a_new_flow(void **state)
{
    struct fixture *fixture = *state;
    int32_t path = add_path(fixture, add_link(fixture, 30 * G), 1);
    int32_t old = start(fixture, 1, path, 60e3, INFINITY);
    flows_settle(fixture->network, 0);
    assert_close(flow_stop(fixture->network, 0, old), 60e3, 0);
    assert_int_equal(start(fixture, 2, path, 90e3, INFINITY), old);
    run(fixture);
    assert_int_equal(fixture->ends_ps[1], -1);
    assert_int_equal(fixture->ends_ps[2], 3 * US);
    assert_int_equal(fixture->n_void, 1);
}

static void no_bytes_end_at_once(void **state)
{
    struct fixture *fixture = *state;
    int32_t link = add_link(fixture, 30 * G);
    int32_t path = add_path(fixture, link, 1);
    (void)start(fixture, 1, path, 60e3, INFINITY);
    run_until(fixture, 1 * US);
    (void)start(fixture, 2, path, 0, INFINITY);
    run(fixture);
    assert_int_equal(fixture->ends_ps[2], 1 * US);
    assert_int_equal(fixture->ends_ps[1], 2 * US);
    assert_int_equal(fixture->n_void, 0);
    assert_int_equal(record(fixture, link).contended_ps, 0);
    assert_int_equal(flow_network_count(fixture->network), 2);
}

/* A flow that follows another on its links in the same instant finds them free, in whichever order the two are handled. */
static void a_flow_follows_another(void **state)
{
    struct fixture *fixture = *state;
    int32_t link = add_link(fixture, 30 * G);
    int32_t path = add_path(fixture, link, 1);
    (void)start(fixture, 1, path, 60e3, INFINITY);
    run_until(fixture, 2 * US);
    (void)start(fixture, 2, path, 60e3, INFINITY);
    take_instant(fixture);
    run(fixture);
    assert_int_equal(fixture->ends_ps[1], 2 * US);
    assert_int_equal(fixture->ends_ps[2], 4 * US);
    assert_int_equal(record(fixture, link).contended_ps, 0);
}

/* ---- reservations ----------------------------------------------------------------------------------------------- */

static void reserve(struct fixture *fixture, uint64_t owner, int32_t path, double bytes, double cap_bytes_per_s)
{
    struct flow_spec spec = {path, bytes, cap_bytes_per_s, owner, 5, true};
    fixture->reservations[owner] = flow_start(fixture->network, fixture->now_ps, &spec);
}

static void a_reservation_alone_runs_at_its_cap(void **state)
{
    struct fixture *fixture = *state;
    int32_t link = add_link(fixture, 30 * G);
    int32_t path = add_path(fixture, link, 1);
    reserve(fixture, 1, path, 60e3, 20 * G);
    (void)start(fixture, 2, path, 30e3, 10 * G);
    run(fixture);
    assert_int_equal(fixture->ends_ps[1], 3 * US);
    assert_int_equal(fixture->n_contended, 0);
    assert_int_equal(flow_network_count(fixture->network), 1);
    assert_close(record(fixture, link).bytes, 90e3, 1e-12);
    assert_int_equal(record(fixture, link).busy_ps, 3 * US);
}

/* 20 GB/s reserved for two flows of 10; after 1 us a third wants all 30. The two have 20,000 B left each, at 10 GB/s. */
static void a_reservation_in_the_way_becomes_flows(void **state)
{
    struct fixture *fixture = *state;
    int32_t link = add_link(fixture, 30 * G);
    int32_t path = add_path(fixture, link, 1);
    fixture->instead[4] = (struct flow_spec){path, 0, 10 * G, 5, 3, false};
    reserve(fixture, 4, path, 60e3, 20 * G);
    run_until(fixture, 1 * US);
    (void)start(fixture, 2, path, 40e3, INFINITY);
    run(fixture);
    assert_int_equal(fixture->n_contended, 1);
    assert_int_equal(fixture->ends_ps[4], -1);
    assert_int_equal(fixture->ends_ps[5], 3 * US);
    assert_int_equal(fixture->ends_ps[6], 3 * US);
    /* 20,000 B in the 2 us that they share, and then 20,000 at 30 GB/s */
    assert_int_equal(fixture->ends_ps[2], 3 * US + 666667);
    struct link_record of = record(fixture, link);
    assert_close(of.bytes, 100e3, 1e-12);
    assert_int_equal(of.contended_ps, 2 * US);
    assert_int_equal(of.tags, 1U << 3 | 1U << 0);
    assert_int_equal(flow_network_count(fixture->network), 3);
}

/* Links a, b, c; a reservation on a and b, one on b and c. A flow on a ends the first, whose flows want more of b and so end
 * the second. */
static void one_reservation_brings_down_the_next(void **state)
{
    struct fixture *fixture = *state;
    int32_t a = add_link(fixture, 30 * G);
    (void)add_link(fixture, 30 * G);
    (void)add_link(fixture, 30 * G);
    int32_t ab = add_path(fixture, a, 2);
    int32_t bc = add_path(fixture, a + 1, 2);
    fixture->instead[10] = (struct flow_spec){ab, 0, 20 * G, 11, 0, false}; /* twice 20 in place of 20 */
    fixture->instead[20] = (struct flow_spec){bc, 0, 5 * G, 21, 0, false};
    reserve(fixture, 20, bc, 60e3, 10 * G);
    reserve(fixture, 10, ab, 60e3, 20 * G);
    run_until(fixture, 1 * US);
    assert_int_equal(fixture->n_contended, 0);
    /* b, already looked at in this instant when a's turn comes, must be looked at again. */
    int32_t brief = start(fixture, 2, add_path(fixture, a + 1, 1), 40e3, INFINITY);
    (void)flow_stop(fixture->network, fixture->now_ps, brief);
    int32_t flow = start(fixture, 1, add_path(fixture, a, 1), 40e3, INFINITY);
    run_until(fixture, 2 * US);
    assert_int_equal(fixture->n_contended, 2);
    /* a: three flows of 10; b: two of 10 and two of 5 that get them */
    assert_close(flow_stop(fixture->network, fixture->now_ps, flow), 30e3, 1e-12);
    assert_close(record(fixture, a + 1).bytes, 60e3, 1e-12);
    assert_close(record(fixture, a + 2).bytes, 20e3, 1e-12);
}

static void a_link_that_shrinks_ends_its_reservation(void **state)
{
    struct fixture *fixture = *state;
    int32_t link = add_link(fixture, 30 * G);
    int32_t path = add_path(fixture, link, 1);
    fixture->instead[4] = (struct flow_spec){path, 0, 10 * G, 5, 0, false};
    reserve(fixture, 4, path, 60e3, 20 * G);
    run_until(fixture, 1 * US);
    flow_network_set_capacity(fixture->network, link, 0);
    run_until(fixture, 2 * US);
    assert_int_equal(fixture->n_contended, 1);
    flow_network_set_capacity(fixture->network, link, 16 * G);
    run(fixture);
    assert_int_equal(fixture->ends_ps[5], 4 * US + US / 2); /* 20,000 B at 8 GB/s */
}

/* A reservation without end is there until it is stopped. */
static void a_reservation_may_have_no_end(void **state)
{
    struct fixture *fixture = *state;
    int32_t link = add_link(fixture, 30 * G);
    reserve(fixture, 1, add_path(fixture, link, 1), INFINITY, 20 * G);
    run(fixture);
    fixture->now_ps = 3 * US;
    assert_int_equal(fixture->n_ended, 0);
    assert_close(record(fixture, link).bytes, 60e3, 1e-12);
    assert_true(isinf(flow_stop(fixture->network, fixture->now_ps, fixture->reservations[1])));
    assert_close(record(fixture, link).bytes, 60e3, 1e-12);
    assert_int_equal(record(fixture, link).busy_ps, 3 * US);
}

/* ---- records ---------------------------------------------------------------------------------------------------- */

static void tags_tell_who_shared(void **state)
{
    struct fixture *fixture = *state;
    int32_t link = add_link(fixture, 30 * G);
    int32_t path = add_path(fixture, link, 1);
    /* Alone, then with its like, then beside another that is free of contention. */
    struct flow_spec spec = {path, 30e3, INFINITY, 1, 2, false};
    (void)flow_start(fixture->network, 0, &spec);
    spec.owner = 2;
    (void)flow_start(fixture->network, 0, &spec);
    run(fixture);
    assert_int_equal(record(fixture, link).contended_ps, 2 * US);
    assert_int_equal(record(fixture, link).tags, 0);
    spec = (struct flow_spec){path, 10e3, 10 * G, 3, 7, false};
    (void)flow_start(fixture->network, fixture->now_ps, &spec);
    spec = (struct flow_spec){path, 10e3, 10 * G, 4, 15, false};
    (void)flow_start(fixture->network, fixture->now_ps, &spec);
    run_until(fixture, 2 * US + US / 2);
    assert_int_equal(record(fixture, link).tags, 0);
    spec = (struct flow_spec){path, 60e3, INFINITY, 5, 2, false};
    (void)flow_start(fixture->network, fixture->now_ps, &spec);
    flows_settle(fixture->network, fixture->now_ps);
    assert_int_equal(record(fixture, link).tags, 0); /* no time has passed */
    fixture->now_ps += 1;
    assert_int_equal(record(fixture, link).tags, 1U << 2 | 1U << 7 | 1U << 15);
    fixture->now_ps -= 1;
    run(fixture);
    assert_int_equal(record(fixture, link).tags, 1U << 2 | 1U << 7 | 1U << 15);
}

static void records_are_up_to_now(void **state)
{
    struct fixture *fixture = *state;
    int32_t link = add_link(fixture, 30 * G);
    int32_t path = add_path(fixture, link, 1);
    (void)start(fixture, 1, path, 60e3, INFINITY);
    run_until(fixture, 1 * US);
    assert_close(record(fixture, link).bytes, 30e3, 1e-12);
    (void)start(fixture, 2, path, 60e3, INFINITY);
    flows_settle(fixture->network, fixture->now_ps);
    run_until(fixture, 2 * US);
    struct link_record of = record(fixture, link);
    assert_close(of.bytes, 60e3, 1e-12);
    assert_int_equal(of.busy_ps, 2 * US);
    assert_int_equal(of.contended_ps, 1 * US);
}

/* A link with one long flow that very many short ones pass by: neither its members nor its sums go out of hand. */
static void many_flows_pass_a_long_one(void **state)
{
    struct fixture *fixture = *state;
    enum { PASSING = 100003 };
    int32_t link = add_link(fixture, 3 * G);
    int32_t path = add_path(fixture, link, 1);
    (void)start(fixture, 1, path, 1e9, 0.7 * G);
    size_t used = 0;
    for (int i = 0; i < PASSING; i++) {
        fixture->ends_ps[2] = -1;
        fixture->ends_ps[3] = -1;
        (void)start(fixture, 2, path, 1e3, 1.1 * G);
        (void)start(fixture, 3, path, 1e3, 1.2 * G);
        run_until(fixture, fixture->now_ps + 1 * US);
        if (i == 1000) {
            used = sp_arena_used(fixture->arena);
        }
    }
    assert_int_equal(sp_arena_used(fixture->arena), used);
    assert_int_equal(fixture->n_ended, 2 * PASSING);
    assert_int_equal(record(fixture, link).contended_ps, 0);
    assert_close(record(fixture, link).bytes, 2e3 * PASSING + 0.7e3 * PASSING, 1e-9);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_fixture, close_fixture)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_flow_alone_has_the_link),
        TEST(a_path_of_no_links_runs_at_its_cap),
        TEST(two_flows_share_a_link),
        TEST(a_later_flow_takes_its_half),
        TEST(the_parking_lot),
        TEST(caps_leave_the_rest_to_others),
        TEST(caps_that_fit_contend_with_nobody),
        TEST(slow_links_elsewhere_leave_a_link_free),
        TEST(weights_count_on_the_link),
        TEST(a_link_crossed_twice_carries_twice),
        TEST(flows_alike_end_together),
        TEST(the_order_of_weights_does_not_matter),
        TEST(a_capacity_changes_under_a_flow),
        TEST(a_link_of_no_capacity_is_not_contended),
        TEST(a_capacity_changes_what_flows_want),
        TEST(a_link_stalls_and_comes_back),
        TEST(a_flow_stops),
        TEST(an_old_end_does_not_end_a_new_flow),
        TEST(no_bytes_end_at_once),
        TEST(a_flow_follows_another),
        TEST(a_reservation_alone_runs_at_its_cap),
        TEST(a_reservation_in_the_way_becomes_flows),
        TEST(one_reservation_brings_down_the_next),
        TEST(a_link_that_shrinks_ends_its_reservation),
        TEST(a_reservation_may_have_no_end),
        TEST(tags_tell_who_shared),
        TEST(records_are_up_to_now),
        TEST(many_flows_pass_a_long_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
