/* One description, two evaluators: the closed form of every built method against its tasks run on links that nothing
 * shares, over random shapes, degrees, placements and links. */
#include "method/method.h"

#include "support/questions.h"
#include "support/support.h"
#include "support/uncontended.h"

enum { CASES = 120 };

static int64_t pick(uint64_t *state, const int64_t *values, size_t n)
{
    return values[next_random(state) % n];
}

static struct group_placement placed(int64_t size, int64_t stride)
{
    int64_t per_node = stride >= 8 ? 1 : 8 / stride;
    per_node = per_node < size ? per_node : size;
    return (struct group_placement){
        .size = size, .stride = stride, .ranks_per_node = per_node, .nodes = (size + per_node - 1) / per_node};
}

/* High-entropy shapes: odd lengths, head counts and degrees that are no powers of two, slow and fast links. */
static struct attention_problem random_problem(struct question *question, const struct method_traits *traits,
                                               uint64_t *state)
{
    static const int64_t ranks[] = {2, 3, 4, 5, 7, 8, 12, 16};
    static const int64_t inner[] = {1, 2, 3, 4};
    static const int64_t rows[] = {2, 62, 514, 3074, 8192, 24578, 65536};
    static const int64_t heads_per_rank[] = {1, 2, 3, 5};
    static const int64_t strides[] = {1, 2, 4, 8, 64};
    struct attention_problem problem = method_problem(question, 0);
    bool has_inner = traits->exchange == EXCHANGE_HYBRID || traits->exchange == EXCHANGE_DOUBLE_RING;
    problem.traits = traits;
    problem.inner_ranks = has_inner ? pick(state, inner, SP_COUNT_OF(inner)) : 1;
    problem.ranks = has_inner ? problem.inner_ranks * pick(state, ranks, SP_COUNT_OF(ranks))
                              : pick(state, ranks, SP_COUNT_OF(ranks));
    problem.rows = (double)pick(state, rows, SP_COUNT_OF(rows));
    problem.batch = 1 + (double)(next_random(state) % 3);
    int64_t shared = traits->exchange == EXCHANGE_ALL_TO_ALL ? problem.ranks : problem.inner_ranks;
    problem.kv_heads = (double)(shared * pick(state, heads_per_rank, SP_COUNT_OF(heads_per_rank)));
    problem.heads = problem.kv_heads * (double)(1 + next_random(state) % 5);
    problem.value_head_dim = next_random(state) % 2 == 0 ? 128 : 96;
    problem.is_full = next_random(state) % 4 == 0;
    problem.link_sm_share = 0; /* contention is what the closed form has beyond the tasks */
    int64_t stride = pick(state, strides, SP_COUNT_OF(strides));
    problem.group = placed(problem.ranks, stride);
    problem.inner_group = placed(problem.inner_ranks, stride);
    problem.outer_group = placed(problem.ranks / problem.inner_ranks, stride * problem.inner_ranks);
    return problem;
}

static void agree(const struct attention_problem *problem, bool is_backward, const char *what)
{
    struct sp_arena *arena = sp_arena_open();
    struct method_pass closed;
    struct task_graph graph;
    struct uncontended run;
    method_price(problem, is_backward, &closed);
    task_graph_init(&graph, arena, problem);
    method_emit(problem, is_backward, &graph);
    uncontended_run(problem, &graph, &run);
    double sent = closed.transfers[0].sent_bytes + closed.transfers[1].sent_bytes;
    if (run.makespan_s < closed.total_s * (1 - 1e-9) || run.makespan_s > closed.total_s * (1 + 1e-9)) {
        print_message(
            "%s %s: P %lld inner %lld, rows %g, heads %g/%g, batch %g, %lld a node: closed %.9g, tasks %.9g\n", what,
            is_backward ? "backward" : "forward", (long long)problem->ranks, (long long)problem->inner_ranks,
            problem->rows, problem->heads, problem->kv_heads, problem->batch, (long long)problem->group.ranks_per_node,
            closed.total_s, run.makespan_s);
    }
    assert_close(run.makespan_s, closed.total_s, 1e-9);
    assert_close(run.sent_bytes, sent, 1e-9);
    assert_close(run.flop, closed.flop * (double)graph.ranks, 1e-9);
    assert_close(closed.attention_s + closed.imbalance_s + closed.exposed_s, closed.total_s, 1e-12);
    assert_true(closed.total_s >= closed.attention_s * (1 - 1e-12) && closed.exposed_s >= -1e-12 * closed.total_s);
    assert_true(closed.imbalance_s >= -1e-12 * closed.total_s);
    sp_arena_close(arena);
}

static void agree_on_random_problems(struct sp_arena *arena, const struct method_traits *traits, const char *what,
                                     uint64_t *random)
{
    if (traits == NULL || traits->exchange == EXCHANGE_NONE || traits->exchange == EXCHANGE_SCORES) {
        return;
    }
    for (int i = 0; i < CASES; i++) {
        struct question question;
        question_from(arena,
                      i % 2 == 0 ? "model=llama-3.1-8b hardware=dgx-h100 gpus=16 sp=16 seq=128K"
                                 : "model=llama-3.1-8b hardware=dgx-h200 network=eth-100g gpus=16 sp=16 seq=128K",
                      &question);
        struct attention_problem problem = random_problem(&question, traits, random);
        agree(&problem, i % 4 >= 2, what);
        agree(&problem, i % 4 < 2, what);
    }
}

static void closed_form_equals_tasks(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    uint64_t random = 20261129;
    for (int m = 0; m < N_METHODS; m++) {
        for (int f = 0; f < N_FRAMEWORKS; f++) {
            const struct method_traits *traits = method_traits((enum method_id)m, (enum framework_id)f);
            agree_on_random_problems(arena, traits, sp_format(arena, "%s/%s", method_names[m], framework_names[f]),
                                     &random);
        }
        for (int is_float32 = 0; is_float32 < 2; is_float32++) {
            const struct method_traits *traits = method_harness_traits((enum method_id)m, is_float32 == 1);
            agree_on_random_problems(arena, traits, sp_format(arena, "%s/harness", method_names[m]), &random);
        }
    }
    sp_arena_close(arena);
}

static double rank_pairs(enum token_order order, int64_t ranks, int64_t rank, double rows)
{
    struct token_layout tokens = {.order = order, .ranks = ranks, .rows = rows};
    return rank_block(&tokens, rank).pairs;
}

/* Causal pairs: every order shares out exactly S (S + 1) / 2, step by step and in total; zig-zag gives every rank the
 * same, contiguous the last rank (2P - 1) / P times the mean. Hand check: S = 6, P = 3 zig-zag: 21 pairs, 7 each. */
static void causal_work_is_conserved(void **state)
{
    (void)state;
    assert_close(rank_pairs(ORDER_ZIGZAG, 3, 0, 2), 7, 0);
    assert_close(rank_pairs(ORDER_ZIGZAG, 3, 2, 2), 7, 0);
    for (int order = ORDER_CONTIGUOUS; order <= ORDER_STRIPED; order++) {
        for (int64_t p = 1; p <= 13; p++) {
            struct token_layout tokens = {.order = (enum token_order)order, .ranks = p, .rows = 38};
            double all = 0;
            for (int64_t r = 0; r < p; r++) {
                double steps = 0;
                for (int64_t i = 0; i < p; i++) {
                    steps += ring_block(&tokens, r, i).pairs;
                }
                assert_close(steps, rank_block(&tokens, r).pairs, 1e-12);
                all += steps;
            }
            double sequence = 38 * (double)p;
            assert_close(all, sequence * (sequence + 1) / 2, 1e-12);
            assert_close(mean_pairs(&tokens) * (double)p, all, 1e-12);
        }
    }
    double mean = 8.0 * 1000 * (8.0 * 1000 + 1) / 2 / 8;
    assert_close(rank_pairs(ORDER_CONTIGUOUS, 8, 7, 1000) / mean, 15.0 / 8, 1e-3);
}

/* Without a mask every rank has all pairs of its queries, in every order; a window of W leaves W S - W (W - 1) / 2:
 * S = 10, W = 3: 1 + 2 + 8 x 3 = 27. */
static void other_masks_count_their_pairs(void **state)
{
    (void)state;
    struct token_layout full = {.order = ORDER_ZIGZAG, .ranks = 5, .rows = 6, .is_full = true};
    double steps = 0;
    for (int64_t i = 0; i < 5; i++) {
        steps += ring_block(&full, 3, i).pairs;
    }
    assert_close(steps, 6 * 30, 0);
    assert_close(mean_pairs(&full), 6 * 30, 0);
    struct token_layout window = {.order = ORDER_WHOLE, .ranks = 1, .rows = 10, .window = 3};
    assert_close(whole_block(&window).pairs, 27, 0);
    window.window = 10;
    assert_close(whole_block(&window).pairs, 55, 0);
}

/* The same pairs counted one by one over token positions. */
static void causal_work_equals_brute_force(void **state)
{
    (void)state;
    enum { P = 5, ROWS = 6, S = P * ROWS };
    for (int order = ORDER_CONTIGUOUS; order <= ORDER_STRIPED; order++) {
        double pairs[P] = {0};
        int owner[S];
        for (int t = 0; t < S; t++) {
            int chunk = t / (ROWS / 2);
            int zigzag = chunk < P ? chunk : 2 * P - 1 - chunk;
            owner[t] = order == ORDER_CONTIGUOUS ? t / ROWS : order == ORDER_ZIGZAG ? zigzag : t % P;
        }
        for (int q = 0; q < S; q++) {
            pairs[owner[q]] += q + 1;
        }
        for (int r = 0; r < P; r++) {
            assert_close(rank_pairs((enum token_order)order, P, r, ROWS), pairs[r], 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(causal_work_is_conserved),
        cmocka_unit_test(causal_work_equals_brute_force),
        cmocka_unit_test(other_masks_count_their_pairs),
        cmocka_unit_test(closed_form_equals_tasks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
