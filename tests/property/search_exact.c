/* The search equals brute force: on random small spaces the plans, the front, the families and the counts are those of
 * every layout priced by step_estimate(), bit for bit, with pruning and without, and with any number of threads. */
#include "support/brute_search.h"
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

enum { CASES = 24, MAX_LAYOUTS = 3000 };

static uint64_t state = 0x5EA2C4;

static int64_t pick(const int64_t *values, int n)
{
    return values[next_random(&state) % (uint64_t)n];
}

static bool chance(int one_in)
{
    return next_random(&state) % (uint64_t)one_in == 0;
}

/* A degree restricted to one or two of its values. */
static struct plan_counts some_of(struct sp_arena *arena, const int64_t *values, int n)
{
    int64_t *kept = sp_arena_array(arena, 2, sizeof(*kept));
    kept[0] = pick(values, n);
    kept[1] = pick(values, n);
    return (struct plan_counts){.n = kept[0] == kept[1] ? 1 : 2, .values = kept};
}

static void pick_axes(struct sp_arena *arena, struct plan_axes *axes)
{
    static const int64_t degrees[] = {1, 2, 3, 4, 6};
    static const int64_t batches[] = {1, 2, 3};
    static const struct plan_recompute recomputes[][3] = {
        {{RECOMPUTE_NONE, 0}, {RECOMPUTE_SELECTIVE, 0}, {RECOMPUTE_FULL, 0}},
        {{RECOMPUTE_BLOCK, 2}, {RECOMPUTE_FULL, 0}, {RECOMPUTE_BLOCK, 7}},
    };
    axes->tp = some_of(arena, degrees, 4);
    axes->sp = some_of(arena, degrees, 5);
    axes->pp = chance(2) ? some_of(arena, degrees, 5) : axes->pp;
    axes->dp = chance(4) ? some_of(arena, degrees, 5) : axes->dp;
    axes->ep = some_of(arena, degrees, 4);
    axes->micro_batch = chance(2) ? some_of(arena, batches, 3) : axes->micro_batch;
    axes->frameworks = 1U << next_random(&state) % N_FRAMEWORKS;
    axes->frameworks |= chance(2) ? 1U << FRAMEWORK_MEGATRON : 0;
    axes->methods = chance(3) ? (1U << METHOD_ZIGZAG | 1U << METHOD_ULYSSES | 1U << METHOD_USP) : 0;
    axes->schedules = chance(4) ? (unsigned)next_random(&state) % (1U << N_SCHEDULES) : 0;
    axes->zeros = chance(4) ? 0 : 1U << next_random(&state) % N_ZERO_STAGES;
    axes->offloads = chance(2) ? 1U | 1U << next_random(&state) % N_PLAN_OFFLOADS : 0;
    if (!chance(4)) {
        axes->n_recomputes = 3;
        axes->recomputes = recomputes[next_random(&state) % SP_COUNT_OF(recomputes)];
    }
}

static void pick_question(struct sp_arena *arena, struct plan_question *question)
{
    static const char *const models[] = {"llama-3.1-8b", "llama-2-7b",  "qwen3-8b",     "mixtral-8x7b",
                                         "gpt-oss-20b",  "deepseek-v3", "llama-3.1-70b"};
    static const char *const machines[] = {"dgx-h100", "dgx-a100", "gb200-nvl72", "h100-pcie-4"};
    static const int64_t sizes[] = {8, 12, 16, 24};
    static const int64_t lengths[] = {6144, 24576, 98304};
    plan_question_init(question, arena);
    struct request *request = &question->request;
    request->model = models[next_random(&state) % SP_COUNT_OF(models)];
    request->hardware = machines[next_random(&state) % SP_COUNT_OF(machines)];
    request->gpus = (struct sp_option_count){true, pick(sizes, 4)};
    request->seq = (struct sp_option_count){true, pick(lengths, 3)};
    request->global_batch = chance(2) ? "12" : "6";
    if (strcmp(request->hardware, "h100-pcie-4") == 0) {
        request->network = "ib-ndr";
        sp_texts_add(&request->set, "node.nics=1");
    }
    if (chance(2)) { /* so that layouts fit, or need offload */
        sp_texts_add(&request->set, "gpu.hbm_capacity=%dGB", chance(2) ? 700 : 170);
    }
    if (chance(4)) {
        request->train = "lora:8";
    }
    if (chance(4)) {
        sp_texts_add(&request->set, "run.loss=chunked");
    }
    request->mask = chance(5) ? "full" : NULL;
    question->objective = (enum plan_objective)(next_random(&state) % 2);
    question->n_threads = 1;
    question->n_top = 1 + (int)(next_random(&state) % 4);
    question->n_kept = 1 + (int)(next_random(&state) % 4);
    pick_axes(arena, &question->axes);
}

static bool is_one(const struct plan_layout *a, const struct plan_layout *b)
{
    return memcmp(&a->step_time_s, &b->step_time_s, sizeof(a->step_time_s)) == 0 &&
           memcmp(&a->peak_bytes, &b->peak_bytes, sizeof(a->peak_bytes)) == 0;
}

static void compare_lists(const struct plan_layout *a, int n_a, const struct plan_layout *b, int n_b)
{
    assert_int_equal(n_a, n_b);
    for (int i = 0; i < n_a; i++) {
        assert_true(is_one(&a[i], &b[i]));
        assert_int_equal(a[i].is_on_front, b[i].is_on_front);
    }
}

static int64_t rejected(const struct plan *plan)
{
    int64_t sum = 0;
    for (int i = 0; i < plan->n_rejections; i++) {
        sum += plan->rejections[i].count;
    }
    return sum;
}

static int64_t rejected_for(const struct plan *plan, const char *reason)
{
    for (int i = 0; i < plan->n_rejections; i++) {
        if (strcmp(plan->rejections[i].reason, reason) == 0) {
            return plan->rejections[i].count;
        }
    }
    return 0;
}

/* Returns whether the space was small enough to be compared and had something that fits. */
static bool compare_one(struct sp_arena *arena)
{
    struct plan_question question;
    struct plan pruned;
    struct plan exhaustive;
    struct plan brute;
    struct sp_error err = {0};
    pick_question(arena, &question);
    if (!plan_search(&question, arena, &pruned, &err)) {
        return false; /* a cluster that the hardware cannot have */
    }
    assert_int_equal(pruned.considered, pruned.evaluated + rejected(&pruned));
    if (pruned.considered > MAX_LAYOUTS) {
        return false;
    }
    question.is_exhaustive = true;
    assert_true(plan_search(&question, arena, &exhaustive, &err));
    assert_true(brute_search(&question, arena, &brute, &err));
    assert_int_equal(exhaustive.considered, brute.considered);
    assert_int_equal(pruned.considered, brute.considered);
    assert_int_equal(exhaustive.evaluated, brute.evaluated);
    assert_int_equal(rejected_for(&exhaustive, "memory") + rejected_for(&exhaustive, "host_memory"),
                     rejected_for(&brute, "memory"));
    assert_int_equal(rejected_for(&exhaustive, "bound"), 0);
    assert_true(pruned.evaluated <= brute.evaluated);
    compare_lists(exhaustive.layouts, exhaustive.n_layouts, brute.layouts, brute.n_layouts);
    compare_lists(pruned.layouts, pruned.n_layouts, brute.layouts, brute.n_layouts);
    compare_lists(pruned.kept, pruned.n_kept, brute.kept, brute.n_kept);
    if (brute.n_layouts == 0 && brute.has_nearest_miss) {
        assert_true(pruned.has_nearest_miss);
        assert_close(pruned.nearest_miss.peak_bytes, brute.nearest_miss.peak_bytes, 0);
    }
    return brute.n_layouts > 0;
}

static void search_equals_brute_force(void **unused)
{
    (void)unused;
    int compared = 0;
    for (int tries = 0; compared < CASES && tries < 100 * CASES; tries++) {
        uint64_t seed = state;
        struct sp_arena *arena = sp_arena_open();
        print_message("# SEED=%llx\n", (unsigned long long)seed);
        compared += compare_one(arena) ? 1 : 0;
        sp_arena_close(arena);
    }
    assert_int_equal(compared, CASES);
}

static void compare_plans(const struct plan *a, const struct plan *b)
{
    assert_int_equal(a->considered, b->considered);
    assert_int_equal(a->evaluated, b->evaluated);
    assert_int_equal(a->n_rejections, b->n_rejections);
    for (int i = 0; i < a->n_rejections; i++) {
        assert_string_equal(a->rejections[i].reason, b->rejections[i].reason);
        assert_int_equal(a->rejections[i].count, b->rejections[i].count);
        assert_string_equal(a->rejections[i].example, b->rejections[i].example);
    }
    compare_lists(a->layouts, a->n_layouts, b->layouts, b->n_layouts);
    for (int i = 0; i < a->n_layouts; i++) {
        assert_true(a->layouts[i].index == b->layouts[i].index);
    }
}

static void threads_change_nothing(void **unused)
{
    (void)unused;
    struct sp_arena *arena = sp_arena_open();
    struct plan_question question;
    struct plan one;
    struct sp_error err = {0};
    plan_question_init(&question, arena);
    question.request.model = "mixtral-8x7b";
    question.request.hardware = "dgx-h100";
    question.request.gpus = (struct sp_option_count){true, 48};
    question.request.seq = (struct sp_option_count){true, 98304};
    question.axes.frameworks = 1U << FRAMEWORK_MEGATRON | 1U << FRAMEWORK_TORCH;
    question.n_threads = 1;
    assert_true(plan_search(&question, arena, &one, &err));
    assert_true(one.considered > 100000 && one.n_layouts > 10);
    for (int threads = 2; threads <= 7; threads += threads == 3 ? 4 : 1) {
        struct plan many;
        question.n_threads = threads;
        assert_true(plan_search(&question, arena, &many, &err));
        compare_plans(&one, &many);
    }
    sp_arena_close(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(search_equals_brute_force),
        cmocka_unit_test(threads_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
