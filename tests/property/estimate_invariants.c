/* What must hold of every estimate, over random legal layouts. With SEQPLAN_TEST_VERBOSE set every case prints its
 * settings first, so that the last one printed is the one that failed. */
#include "search/search.h"
#include "support/questions.h"
#include "support/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CASES = 400 };

static const char *one_of(uint64_t *state, const char *const *values, size_t n)
{
    return values[next_random(state) % n];
}
#define ONE_OF(state, ...)                                                                                             \
    one_of(state, (const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

struct degrees {
    long tp, sp, pp, dp, ep;
};

static struct degrees random_degrees(uint64_t *state, bool is_split, bool has_experts)
{
    return (struct degrees){
        .tp = strtol(ONE_OF(state, "1", "1", "2", "4", "8"), NULL, 10),
        .sp = is_split ? strtol(ONE_OF(state, "1", "2", "3", "4", "6", "8", "16"), NULL, 10) : 1,
        .pp = strtol(ONE_OF(state, "1", "1", "2", "3", "4", "5"), NULL, 10),
        .dp = strtol(ONE_OF(state, "1", "2", "3", "8"), NULL, 10),
        .ep = has_experts ? strtol(ONE_OF(state, "1", "2", "4", "8"), NULL, 10) : 1,
    };
}

/* Memory and batch options; some of them rarely, since most combinations break a rule. */
static const char *random_options(struct sp_arena *arena, uint64_t *state, const struct degrees *degrees)
{
    long micro = strtol(ONE_OF(state, "1", "2"), NULL, 10);
    long batches = strtol(ONE_OF(state, "1", "5", "16", "24"), NULL, 10);
    const char *first =
        sp_format(arena, "micro_batch=%ld batch=%ld seq=%s zero=%s recompute=%s tp-sp=%s pp-layers=auto", micro,
                  micro * degrees->dp * batches, ONE_OF(state, "3072", "24576", "98304", "393216"),
                  ONE_OF(state, "0", "1", "2", "3"), ONE_OF(state, "none", "selective", "full", "block:3"),
                  degrees->tp > 1 ? ONE_OF(state, "on", "off") : "off");
    const char *memory =
        sp_format(arena, "set=run.loss=%s%s%s%s", ONE_OF(state, "plain", "fused", "chunked"),
                  ONE_OF(state, "", "", " offload=activations", " offload=optimizer"),
                  ONE_OF(state, "", "", "", " train=lora:16"), ONE_OF(state, "", "", "", " set=run.tiled_mlp=true"));
    const char *shape =
        sp_format(arena, "%s%s%s%s", ONE_OF(state, "", "", "", " precision=fp8", " precision=fp32"),
                  ONE_OF(state, "", "", " mask=full", " mask=window:2048"), ONE_OF(state, "", "", " documents=3072"),
                  ONE_OF(state, "", "", " network=eth-100g", " network=ideal"));
    const char *schedule = degrees->pp > 1
                               ? ONE_OF(state, "", "", " schedule=gpipe", " schedule=zb-h1",
                                        " vpp=2 schedule=interleaved", " schedule=zbv", " schedule=dualpipe")
                               : "";
    return sp_format(arena, "%s %s%s%s", first, memory, shape, schedule);
}

/* Degrees, lengths and layer counts that are no powers of two among them; many combinations break a rule and are
 * skipped by the caller. */
static const char *random_settings(struct sp_arena *arena, uint64_t *state)
{
    const char *method = method_names[next_random(state) % N_METHODS];
    bool is_split = strcmp(method, "none") != 0 && strcmp(method, "naive") != 0;
    const char *model = ONE_OF(state, "llama-2-7b", "llama-3.1-8b", "llama-3.1-70b", "qwen3-8b", "qwen3-32b",
                               "mixtral-8x7b", "deepseek-v3", "gpt-oss-20b");
    bool has_experts =
        strcmp(model, "mixtral-8x7b") == 0 || strcmp(model, "deepseek-v3") == 0 || strcmp(model, "gpt-oss-20b") == 0;
    struct degrees d = random_degrees(state, is_split, has_experts);
    const char *framework = next_random(state) % 2 == 0
                                ? ""
                                : sp_format(arena, " framework=%s", framework_names[next_random(state) % N_FRAMEWORKS]);
    return sp_format(arena, "model=%s hardware=%s gpus=%ld tp=%ld sp=%ld pp=%ld dp=%ld ep=%ld method=%s%s %s", model,
                     ONE_OF(state, "dgx-h100", "dgx-h200", "dgx-b200", "dgx-a100", "gb200-nvl72"),
                     d.tp * d.sp * d.pp * d.dp, d.tp, d.sp, d.pp, d.dp, d.ep, method, framework,
                     random_options(arena, state, &d));
}

static bool resolved(struct sp_arena *arena, const char *settings, struct question *question)
{
    struct sp_error err = {0};
    return question_try(arena, settings, question, &err);
}

/* Of tensors a few rows are negative: what a layer half built does not hold yet. */
static double sum_of(const double *items, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) {
        assert_true(isfinite(items[i]) && items[i] >= 0);
        sum += items[i];
    }
    return sum;
}

/* Items, operators, tensors and communication rows add up to what is printed. */
static void check_sums(const struct estimate *e)
{
    assert_close(sum_of(e->time_s, N_TIME_ITEMS), e->step_time_s, 1e-12);
    assert_close(sum_of(e->memory_bytes, N_MEMORY_ITEMS), e->peak_bytes, 1e-12);
    assert_close(e->peak_bytes - e->memory_bytes[MEMORY_RUNTIME], e->peak_allocated_bytes, 1e-9);
    assert_close(e->capacity_bytes - e->peak_bytes, e->headroom_bytes, 1e-9);
    double items[N_TIME_ITEMS] = {0};
    for (int i = 0; i < e->n_operators; i++) {
        items[e->operators[i].item] += e->operators[i].count * e->operators[i].time_s;
    }
    double tensors[N_MEMORY_ITEMS] = {0};
    for (int i = 0; i < e->n_tensors; i++) {
        tensors[e->tensors[i].item] += e->tensors[i].bytes;
    }
    for (int i = 0; i < N_TIME_ITEMS; i++) {
        assert_close(items[i], e->time_s[i], 1e-12);
    }
    for (int i = 0; i < N_MEMORY_ITEMS; i++) {
        assert_close(tensors[i], e->memory_bytes[i], 1e-9);
    }
    double exposed[N_AXES] = {0};
    for (int i = 0; i < e->n_communications; i++) {
        const struct communication_row *row = &e->communications[i];
        assert_true(row->exposed_s <= row->time_s * (1 + 1e-9) || row->axis == AXIS_CP);
        assert_true(row->bytes_per_step > 0 && row->tier != TIER_NONE);
        exposed[row->axis] += row->exposed_s;
    }
    assert_close(exposed[AXIS_TP], e->time_s[TIME_TP_EXPOSED], 1e-9);
    assert_true(exposed[AXIS_DP] <=
                e->time_s[TIME_DP_EXPOSED] * (1 + 1e-9)); /* copies beside gathers are in the item alone */
    assert_close(exposed[AXIS_PP], e->time_s[TIME_PP_EXPOSED], 1e-9);
    assert_true(exposed[AXIS_CP] <= e->time_s[TIME_SP_EXPOSED] * (1 + 1e-9));
}

static void check_bounds(const struct question *question, const struct estimate *e)
{
    double peak = question->hardware.gpu.peak_bf16.value * (double)question->run.gpus;
    assert_true(e->step_time_s > e->model_flop / peak);
    assert_true(e->mfu_frac > 0 && e->mfu_frac <= e->hfu_frac && e->hfu_frac < 1);
    assert_true(e->hbm_utilisation_frac > 0 && e->hbm_utilisation_frac < 1);
    double state = e->memory_bytes[MEMORY_WEIGHTS] + e->memory_bytes[MEMORY_OPTIMIZER];
    assert_true(state > 0 && state < e->peak_bytes);
    assert_close(e->moment_bytes[e->peak_moment], e->peak_allocated_bytes, 0);
    for (int m = 0; m < N_MOMENTS; m++) {
        assert_true(e->moment_bytes[m] <= e->peak_allocated_bytes);
    }
    assert_close(e->tokens_per_s * e->step_time_s, (double)(question->run.seq * question->run.global_batch), 1e-12);
}

static double step_with(struct question *question, double *figure, double factor)
{
    struct estimate estimate;
    double before = *figure;
    *figure = before * factor;
    step_estimate(question, &estimate);
    *figure = before;
    return estimate.step_time_s;
}

/* With a figure of the machine scaled, a step stays between its time and what it would be were all of it of that figure: a
 * search on other machines leaves out by that, schedules that move work into bubbles aside (src/search/rematch.c). */
static void check_scaling(const struct question *question, double step_s)
{
    static const double factor = 1.37;
    static const double rounding = 1e-3;
    enum schedule_id schedule = question->layout.schedule;
    bool fills_bubbles = schedule == SCHEDULE_ZB_H1 || schedule == SCHEDULE_ZBV || schedule == SCHEDULE_DUALPIPE;
    for (int f = 0; f < N_SENSITIVITIES && !fills_bubbles; f++) {
        struct question scaled = *question;
        struct estimate estimate;
        bool is_better_less = f == (int)SENSITIVITY_LATENCY;
        sensitivity_scale(&scaled.hardware, (enum sensitivity_figure)f, is_better_less ? 1 / factor : factor);
        step_estimate(&scaled, &estimate);
        assert_true(estimate.step_time_s <= step_s * (1 + rounding));
        assert_true(estimate.step_time_s * factor >= step_s * (1 - rounding));
    }
}

/* A faster part never makes a step slower; more memory never changes its time. */
static void check_monotone(struct question *question, double step_s)
{
    struct hardware_spec *hardware = &question->hardware;
    double *const faster[] = {&hardware->network.bandwidth.value, &hardware->gpu.elementwise_bandwidth.value,
                              &hardware->gpu.hbm_capacity.value};
    double *const slower[] = {&hardware->network.latency.value, &hardware->gpu.kernel_latency.value,
                              &question->software.framework.host_tail.value};
    for (size_t i = 0; i < 3; i++) {
        assert_true(step_with(question, faster[i], 1.37) <= step_s * (1 + 1e-12));
        assert_true(step_with(question, slower[i], 1.37) >= step_s * (1 - 1e-12));
    }
    assert_close(step_with(question, &hardware->gpu.hbm_capacity.value, 1.37), step_s, 0);
}

static void random_layouts_hold(void **unused)
{
    (void)unused;
    uint64_t state = 42;
    int priced = 0;
    for (int i = 0; i < 200 * CASES && priced < CASES; i++) {
        struct sp_arena *arena = sp_arena_open();
        const char *settings = random_settings(arena, &state);
        struct question question;
        if (resolved(arena, settings, &question)) {
            struct estimate first;
            struct estimate again;
            step_estimate(&question, &first);
            step_estimate(&question, &again);
            if (getenv("SEQPLAN_TEST_VERBOSE") != NULL) {
                print_message("%s\n", settings);
            }
            assert_memory_equal(&first, &again, sizeof first);
            check_sums(&first);
            check_bounds(&question, &first);
            check_monotone(&question, first.step_time_s);
            check_scaling(&question, first.step_time_s);
            priced++;
        }
        sp_arena_close(arena);
    }
    assert_int_equal(priced, CASES);
}

/* On one rank a split is no split: same time and memory as `none` with the same framework's policy. */
static void degree_one_is_no_split(void **unused)
{
    (void)unused;
    struct sp_arena *arena = sp_arena_open();
    struct estimate none;
    struct estimate zigzag;
    estimate_from(
        arena,
        "model=qwen3-8b hardware=dgx-h200 gpus=6 tp=2 sp=1 pp=3 seq=24576 batch=7 method=none framework=megatron",
        &none);
    estimate_from(
        arena,
        "model=qwen3-8b hardware=dgx-h200 gpus=6 tp=2 sp=1 pp=3 seq=24576 batch=7 method=zigzag framework=megatron",
        &zigzag);
    assert_close(none.step_time_s, zigzag.step_time_s, 0);
    assert_close(none.peak_bytes, zigzag.peak_bytes, 0);
    sp_arena_close(arena);
}

/* The bound is a bound: no implementation is faster, or needs less for attention, than `ideal` with the same kernels. */
static void ideal_bounds_every_framework(void **unused)
{
    (void)unused;
    static const char *const pairs[][2] = {
        {"allgather", "megatron"},      {"ulysses", "deepspeed"},        {"ring", "ring-flash-attn"},
        {"zigzag", "megatron"},         {"allgather", "torch"},          {"ulysses", "alst"},
        {"ulysses", "megatron"},        {"zigzag", "ring-flash-attn"},   {"zigzag", "torch"},
        {"striped", "ring-flash-attn"}, {"allgather", "ring-flash-attn"}};
    struct sp_arena *arena = sp_arena_open();
    for (size_t i = 0; i < SP_COUNT_OF(pairs); i++) {
        for (int sp = 2; sp <= 8; sp *= 2) {
            struct estimate real;
            struct estimate ideal;
            const char *rest = sp_format(arena,
                                         "model=llama-3.1-8b hardware=dgx-h100 gpus=%d sp=%d seq=49152 batch=3 "
                                         "kernels=te zero=1 set=run.gradient_dtype=bf16 method=%s",
                                         sp, sp, pairs[i][0]);
            estimate_from(arena, sp_format(arena, "%s framework=%s", rest, pairs[i][1]), &real);
            estimate_from(arena, sp_format(arena, "%s framework=ideal", rest), &ideal);
            assert_true(ideal.step_time_s <= real.step_time_s);
            assert_true(ideal.memory_bytes[MEMORY_ATTENTION_BUFFERS] <= real.memory_bytes[MEMORY_ATTENTION_BUFFERS] ||
                        ideal.peak_moment != real.peak_moment);
            assert_true(ideal.peak_bytes <= real.peak_bytes);
        }
    }
    sp_arena_close(arena);
}

/* More ranks for the same tokens hold less each; recomputing more keeps less. */
static void memory_falls_with_splits_and_recomputation(void **unused)
{
    (void)unused;
    struct sp_arena *arena = sp_arena_open();
    double last = INFINITY;
    for (int sp = 1; sp <= 32; sp *= 2) {
        struct estimate e;
        estimate_from(arena,
                      sp_format(arena,
                                "model=llama-3.1-8b hardware=dgx-h100 gpus=%d sp=%d seq=262144 batch=2 zero=3 "
                                "method=zigzag framework=megatron",
                                sp, sp),
                      &e);
        assert_true(e.peak_bytes < last);
        last = e.peak_bytes;
    }
    static const char *const modes[] = {"none", "block:3", "block:9", "full"};
    last = INFINITY;
    for (size_t i = 0; i < SP_COUNT_OF(modes); i++) {
        struct estimate e;
        estimate_from(
            arena,
            sp_format(arena, "model=llama-3.1-8b hardware=dgx-h100 gpus=16 sp=8 pp=2 seq=262144 batch=3 recompute=%s",
                      modes[i]),
            &e);
        assert_true(e.peak_bytes < last);
        last = e.peak_bytes;
    }
    sp_arena_close(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_layouts_hold),
        cmocka_unit_test(degree_one_is_no_split),
        cmocka_unit_test(ideal_bounds_every_framework),
        cmocka_unit_test(memory_falls_with_splits_and_recomputation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
