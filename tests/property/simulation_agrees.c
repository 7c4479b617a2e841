/* On an ideal network, where no two flows share a link, a simulated step takes what the estimate says: within half a percent, plus
 * what the estimate itself leaves open by name (step_doubts()). Random layouts of every method, framework and schedule. What each
 * rank does adds up, what is sent arrives, and the peak of memory is the estimate's. */
#include "sim/sim.h"

#include "support/questions.h"
#include "support/support.h"

#include <math.h>
#include <string.h>

/* Instrumented programs take as long for a quarter of them. */
#if !defined(SEQPLAN_IS_INSTRUMENTED)
enum { LAYOUTS = 250, HAS_ALL_PAIRS = 1 };
#else
enum { LAYOUTS = 60, HAS_ALL_PAIRS = 0 };
#endif
static const double AGREEMENT = 0.005;

static uint64_t state = 0x51A1;

static int64_t below(int64_t n)
{
    return (int64_t)(next_random(&state) % (uint64_t)n);
}

static int64_t pick(const int64_t *values, size_t n)
{
    return values[below((int64_t)n)];
}
#define PICK(...) pick((const int64_t[]){__VA_ARGS__}, SP_COUNT_OF(((const int64_t[]){__VA_ARGS__})))

struct drawn {
    int method, framework, schedule;
    char settings[512];
};

static int64_t chunks_of(int schedule)
{
    return schedule == SCHEDULE_INTERLEAVED ? 2 + below(2) : schedule == SCHEDULE_ZBV ? 2 : 1;
}

static void draw(struct drawn *drawn, const char *network)
{
    static const char *const models[] = {"llama-3.1-8b", "qwen3-8b",    "mixtral-8x7b",
                                         "gpt-oss-20b",  "deepseek-v3", "llama-2-7b"};
    static const char *const machines[] = {"dgx-h100", "gb200-nvl72", "dgx-a100", "aws-p4d"};
    static const char *const recomputes[] = {"none", "selective", "full", "block:2"};
    static const char *const offloads[] = {"", "", "", " offload=activations", " offload=optimizer"};
    static const char *const extras[] = {"", "", "", " mask=full", " documents=4K", " train=lora:8"};
    int64_t sp = PICK(1, 2, 3, 4, 6, 8, 12);
    int64_t pp = PICK(1, 1, 2, 3, 4, 6);
    int64_t tp = PICK(1, 1, 2, 4, 8);
    int64_t dp = PICK(1, 1, 2, 3);
    int64_t micro_batches = below(3) == 0 ? pp * (1 + below(4)) : 1 + below(4) * pp;
    drawn->method = sp == 1 ? (below(8) == 0 ? METHOD_NAIVE : METHOD_NONE)
                            : (int)(METHOD_ALLGATHER + below(N_METHODS - METHOD_ALLGATHER));
    drawn->framework = drawn->method == METHOD_NAIVE ? FRAMEWORK_IDEAL : (int)below(N_FRAMEWORKS); /* its home */
    drawn->schedule = pp == 1 ? SCHEDULE_1F1B : (int)below(N_SCHEDULES);
    int64_t model = below(6);
    (void)snprintf(drawn->settings, sizeof drawn->settings,
                   "model=%s hardware=%s network=%s gpus=%d tp=%d sp=%d pp=%d dp=%d method=%s framework=%s seq=%d "
                   "batch=%d zero=%d schedule=%s vpp=%d recompute=%s pp-layers=auto%s%s%s",
                   models[model], machines[below(4)], network, (int)(tp * sp * pp * dp), (int)tp, (int)sp, (int)pp,
                   (int)dp, method_names[drawn->method], framework_names[drawn->framework],
                   below(2) == 0 ? 36864 : 294912, (int)(dp * micro_batches), (int)below(4),
                   schedule_names[drawn->schedule], (int)chunks_of(drawn->schedule), recomputes[below(4)],
                   offloads[below(5)], model >= 2 && model <= 4 && below(2) == 0 ? " ep=2" : "", extras[below(6)]);
}

/* Schedules that keep a micro-batch until its weight gradients, and chunks of unequal layers or whose gradients appear chunk by
 * chunk, hold other amounts than whole micro-batches at whole layers; the estimate takes the most of both at one time. */
static bool has_exact_peak(const struct question *question)
{
    const struct layout_spec *layout = &question->layout;
    bool is_even = true;
    for (int64_t i = 0; i < layout->pp; i++) {
        is_even = is_even && layout_stage_layers(layout, &question->model, i) % layout->vpp == 0;
    }
    bool is_alike = is_even && question->software.framework.has_persistent_gradients &&
                    !(layout->offloads_activations && layout->recompute == RECOMPUTE_BLOCK);
    return !schedule_puts_off_weights(layout) && (layout->schedule != SCHEDULE_INTERLEAVED || is_alike);
}

static void check_sums(const struct question *question, const struct sim_result *result)
{
    double critical = 0;
    int64_t ranks = 0;
    for (int i = 0; i < result->n_ranks; i++) {
        double all = result->ranks[i].busy_s;
        for (int w = 0; w < N_SIM_WAITS; w++) {
            assert_true(result->ranks[i].waits_s[w] >= 0);
            all += result->ranks[i].waits_s[w];
        }
        assert_close(all, result->step_time_s, 1e-9);
        ranks += result->ranks[i].count;
    }
    assert_int_equal(ranks, question->run.gpus);
    for (int i = 0; i < result->n_critical; i++) {
        critical += result->critical[i].time_s;
    }
    assert_close(critical, result->step_time_s, 1e-6);
    assert_close(result->sent_bytes, result->received_bytes, 1e-12);
    const struct sim_peak *peak = &result->peak;
    assert_close(peak->state_bytes + peak->gradient_bytes + peak->saved_bytes + peak->work_bytes, peak->allocated_bytes,
                 1e-12);
}

static void check_one(struct sp_arena *arena, const struct drawn *drawn, const struct question *question)
{
    struct estimate *estimate = test_malloc(sizeof *estimate);
    const struct sim_options options = {.chunks = 1};
    struct sim_result result;
    struct sp_error err = {0};
    double doubts[N_DOUBTS];
    step_estimate(question, estimate);
    step_doubts(question, estimate, doubts);
    if (!sim_run(question, &options, arena, &result, &err)) {
        fail_msg("%s: %s", drawn->settings, err.text);
    }
    double allowed = AGREEMENT;
    for (int d = 0; d < N_DOUBTS; d++) {
        allowed += doubts[d] / estimate->step_time_s;
    }
    double gap = result.step_time_s / estimate->step_time_s - 1;
    if (fabs(gap) > allowed) {
        fail_msg("%s: simulated %.6g s, estimated %.6g s: %.2f %%, allowed %.2f", drawn->settings, result.step_time_s,
                 estimate->step_time_s, 100 * gap, 100 * allowed);
    }
    double peak = result.peak.allocated_bytes / estimate->peak_allocated_bytes - 1;
    if (fabs(peak) > (has_exact_peak(question) ? 1e-9 : 0.5)) {
        fail_msg("%s: peak off by %g %%", drawn->settings, 100 * peak);
    }
    check_sums(question, &result);
    test_free(estimate);
}

static void every_layout_agrees(void **test)
{
    (void)test;
    int seen_pairs[N_METHODS][N_FRAMEWORKS] = {{0}};
    int seen_schedules[N_SCHEDULES] = {0};
    for (int done = 0; done < LAYOUTS;) {
        struct sp_arena *arena = sp_arena_open();
        struct question question;
        struct sp_error err = {0};
        struct drawn drawn;
        draw(&drawn, "ideal");
        if (question_try(arena, drawn.settings, &question, &err)) {
            check_one(arena, &drawn, &question);
            seen_pairs[drawn.method][drawn.framework]++;
            seen_schedules[drawn.schedule]++;
            done++;
        }
        sp_arena_close(arena);
    }
    for (int m = 0; m < (HAS_ALL_PAIRS ? N_METHODS : 0); m++) {
        for (int f = 0; f < N_FRAMEWORKS; f++) {
            if (pair_is_legal((enum method_id)m, (enum framework_id)f) && seen_pairs[m][f] == 0) {
                fail_msg("%s of %s was never drawn", method_names[m], framework_names[f]);
            }
        }
    }
    for (int s = 0; s < N_SCHEDULES; s++) {
        assert_true(seen_schedules[s] > 0 || !HAS_ALL_PAIRS);
    }
}

/* On links that are shared a step takes no less, and where transfers get in each other's way for more than a hundredth of it the
 * estimate has said so (step_contentions()). */
static bool check_shared(struct sp_arena *arena, const struct drawn *drawn, const struct question *question)
{
    static const double SEEN = 0.01;
    struct estimate *estimate = test_malloc(sizeof *estimate);
    const struct sim_options options = {.chunks = 1};
    struct sim_result result;
    struct sp_error err = {0};
    struct contentions contentions;
    double doubts[N_DOUBTS];
    double least = 1 - AGREEMENT;
    double warned = 0;
    double delayed = 0;
    step_estimate(question, estimate);
    step_doubts(question, estimate, doubts);
    step_contentions(question, estimate, &contentions);
    assert_true(sim_run(question, &options, arena, &result, &err));
    for (int d = 0; d < N_DOUBTS; d++) {
        least -= doubts[d] / estimate->step_time_s;
    }
    for (int i = 0; i < contentions.n; i++) {
        warned = fmax(warned, contentions.items[i].time_s / estimate->step_time_s);
    }
    for (int axis = 0; axis < N_AXES; axis++) {
        delayed += result.delays[axis].delayed_s / estimate->step_time_s;
    }
    if (result.step_time_s < least * estimate->step_time_s || (delayed > SEEN && warned < SEEN)) {
        fail_msg("%s: simulated %.6g s, estimated %.6g s, %.2f %% delayed, %.2f %% warned of", drawn->settings,
                 result.step_time_s, estimate->step_time_s, 100 * delayed, 100 * warned);
    }
    check_sums(question, &result);
    test_free(estimate);
    return delayed > SEEN;
}

static void contention_is_warned_of(void **test)
{
    (void)test;
    static const char *const networks[] = {"ib-hdr", "eth-100g",
                                           "ib-ndr set=network.oversubscription=3 set=network.leaf_nodes=2",
                                           "ib-ndr set=network.oversubscription=3"};
    int contended = 0;
    for (int done = 0; done < LAYOUTS / 2;) {
        struct sp_arena *arena = sp_arena_open();
        struct question question;
        struct sp_error err = {0};
        struct drawn drawn;
        draw(&drawn, networks[done % 4]);
        if (question_try(arena, drawn.settings, &question, &err)) {
            contended += check_shared(arena, &drawn, &question) ? 1 : 0;
            done++;
        }
        sp_arena_close(arena);
    }
    assert_true(contended > LAYOUTS / 50);
}

/* The estimate's own layout of the contract leaves nothing open that counts, and agrees. */
static void a_plain_layout_needs_no_excuse(void **test)
{
    (void)test;
    struct sp_arena *arena = sp_arena_open();
    struct question question;
    struct sp_error err = {0};
    struct estimate *estimate = test_malloc(sizeof *estimate);
    const struct sim_options options = {.chunks = 1};
    struct sim_result result;
    double doubts[N_DOUBTS];
    question_from(arena,
                  "model=llama-3.1-8b hardware=dgx-h100 network=ideal gpus=16 seq=256K tp=2 sp=4 pp=2 method=zigzag "
                  "framework=megatron recompute=full batch=8",
                  &question);
    step_estimate(&question, estimate);
    step_doubts(&question, estimate, doubts);
    for (int d = 0; d < N_DOUBTS; d++) {
        assert_true(doubts[d] < 1e-4 * estimate->step_time_s);
    }
    assert_true(sim_run(&question, &options, arena, &result, &err));
    assert_close(result.step_time_s, estimate->step_time_s, 1e-4);
    test_free(estimate);
    sp_arena_close(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plain_layout_needs_no_excuse),
        cmocka_unit_test(every_layout_agrees),
        cmocka_unit_test(contention_is_warned_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
