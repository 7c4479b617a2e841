/* The clock of a step (eq. 27b) and what was measured beside it: early stop of recomputation, copies of sharding, the optimizer. */
#include "cost/cost.h"
#include "support/questions.h"
#include "support/support.h"

#include <math.h>
#include <string.h>

static const char *const one_gpu =
    "model=llama-3.1-8b set=model.num_hidden_layers=3 hardware=dgx-h200 gpus=1 seq=24576 batch=1 "
    "framework=torch zero=0 set=run.gradient_dtype=bf16 set=run.moment_dtype=bf16 "
    "set=run.master_weights=false";

static struct gpu_spec gpu_with_clocks(double exponent)
{
    const struct sp_figure known = {.kind = SP_FIGURE_MEASURED};
    struct gpu_spec gpu = {.max_clock = known, .static_power = known, .memory_power = known, .clock_exponent = known};
    gpu.gemm.clock = known;
    gpu.max_clock.value = 1.98e9;
    gpu.static_power.value = 100;
    gpu.memory_power.value = 700;
    gpu.curve_power_limit.value = 700;
    gpu.clock_exponent.value = exponent;
    return gpu;
}

/* Exponent 2. 3 s at 1.2 GHz and 2 s at 1.6 GHz are 3.6 and 3.2 G cycles; f^2 = 6.8 / (3.6 / 1.44 + 3.2 / 2.56) = 6.8 / 3.75. Memory
 * that draws the limit at 1.98 GHz, beside 3.6 G cycles of a kernel of 1.2 GHz, leaves 1.5 GHz when
 * 3.6 / 1.5 (1.5625 - 1) = t (1 - (1.5 / 1.98)^2), t = 1.35 / 0.426079. */
static void clocks_balance_power(void **state)
{
    (void)state;
    struct gpu_spec gpu = gpu_with_clocks(2);
    const struct clock_share two[] = {{3, 1.2e9}, {2, 1.6e9}, {5, 0}};
    assert_close(common_clock(&gpu, two, 3, 0), sqrt(6.8 / 3.75) * 1e9, 1e-9);
    assert_close(common_clock(&gpu, two, 1, 1.35 / 0.426078971533517), 1.5e9, 1e-9);
    assert_close(common_clock(&gpu, two, 0, 1), 1.98e9, 1e-9); /* memory alone never throttles */
    const struct clock_share cool[] = {{1, 2.5e9}};
    assert_close(common_clock(&gpu, cool, 1, 0), 1.98e9, 1e-9); /* nor what would settle above the highest clock */
    gpu.memory_power.kind = SP_FIGURE_NONE;
    assert_true(common_clock(&gpu, two, 2, 0) <= 0);
}

/* A rate follows the clock: 1.5 GHz instead of 1.25 GHz takes 5/6 of the time; without a clock, or on a GPU without, the same. */
static void rates_follow_the_clock(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    struct question h200, h100;
    question_from(arena, sp_format(arena, "%s set=gpu.gemm.clock=1.25GHz", one_gpu), &h200);
    question_from(arena, "model=llama-3.1-8b hardware=dgx-h100 gpus=8 seq=8192", &h100);
    struct gemm_call call = {.m = 24576, .n = 6144, .k = 4096, .output_bytes = 2};
    double alone_s = gemm_time(&h200.hardware.gpu, &call);
    double h100_s = gemm_time(&h100.hardware.gpu, &call);
    call.clock_hz = 1.5e9;
    assert_close(gemm_time(&h200.hardware.gpu, &call), alone_s * 5 / 6, 1e-12);
    assert_close(gemm_time(&h100.hardware.gpu, &call), h100_s, 0);
    sp_arena_close(arena);
}

static double rows_of(const struct estimate *estimate, enum time_item item, enum step_pass pass)
{
    double time_s = 0;
    for (int i = 0; i < estimate->n_operators; i++) {
        const struct operator_row *row = &estimate->operators[i];
        bool is_end = strncmp(row->name, "embedding", strlen("embedding")) == 0;
        bool is_latency = item == TIME_ELEMENTWISE && row->hbm_bytes <= 0;
        bool counts = row->item == item && row->pass == pass && !is_end && !is_latency;
        time_s += counts ? row->count * row->time_s : 0;
    }
    return time_s;
}

/* The rows of a step without recomputation, at the clock that it names, draw the power limit: products settle at 1.329 GHz alone,
 * attention at 1.45 and 1.59 GHz, and memory draws 600 of 700 W, 121 W of both static, exponent 2.5. */
static void a_step_draws_its_limit(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    struct estimate e;
    estimate_from(arena, sp_format(arena, "%s recompute=none", one_gpu), &e);
    double f = e.clock_hz / 1e9;
    assert_true(f > 1.329 && f < 1.59);
    double gemm = rows_of(&e, TIME_GEMM, STEP_FORWARD) + rows_of(&e, TIME_GEMM, STEP_BACKWARD);
    double forward = rows_of(&e, TIME_ATTENTION, STEP_FORWARD);
    double backward = rows_of(&e, TIME_ATTENTION, STEP_BACKWARD);
    double memory = rows_of(&e, TIME_ELEMENTWISE, STEP_FORWARD) + rows_of(&e, TIME_ELEMENTWISE, STEP_BACKWARD);
    double core_w = gemm * pow(f / 1.329, 2.5) + forward * pow(f / 1.45, 2.5) + backward * pow(f / 1.59, 2.5);
    double memory_w = memory * (600.0 - 121) / (700 - 121) * pow(f / 1.98, 2.5);
    assert_close((core_w + memory_w) / (gemm + forward + backward + memory), 1, 1e-6);
    struct estimate attention;
    struct question question;
    question_from(arena, one_gpu, &question);
    question.run.is_attention_only = true;
    step_estimate(&question, &attention);
    assert_true(attention.clock_hz <= 0);
    sp_arena_close(arena);
}

static int rows_named(const struct estimate *estimate, const char *name, enum step_pass pass)
{
    int n = 0;
    for (int i = 0; i < estimate->n_operators; i++) {
        const struct operator_row *row = &estimate->operators[i];
        n += strcmp(row->name, name) == 0 && row->pass == pass && row->count > 0 ? 1 : 0;
    }
    return n;
}

/* The down projection of a rebuilt layer, and the scatter behind it, are run again where the layer is compiled or of Megatron. */
static void eager_recompute_stops_early(void **state)
{
    (void)state;
    static const struct {
        const char *settings;
        int down, scatters;
    } cases[] = {
        {"framework=torch kernels=eager recompute=full", 0, 1},
        {"framework=torch kernels=eager recompute=block:2", 0, 1},
        {"framework=torch kernels=compiled recompute=full", 1, 2},
        {"framework=megatron recompute=full", 1, 2},
    };
    struct sp_arena *arena = sp_arena_open();
    for (size_t i = 0; i < SP_COUNT_OF(cases); i++) {
        struct estimate e;
        estimate_from(arena,
                      sp_format(arena, "model=llama-3.1-8b hardware=dgx-h200 gpus=2 tp=2 seq=24576 batch=1 zero=0 %s",
                                cases[i].settings),
                      &e);
        assert_int_equal(rows_named(&e, "down", STEP_FORWARD), 1);
        assert_int_equal(rows_named(&e, "down", STEP_RECOMPUTE), cases[i].down);
        assert_int_equal(rows_named(&e, "gate and up", STEP_RECOMPUTE), 1);
        assert_int_equal(rows_named(&e, "tp reduce-scatter", STEP_RECOMPUTE), cases[i].scatters);
    }
    sp_arena_close(arena);
}

static const struct operator_row *row_of(const struct estimate *estimate, const char *name, enum step_pass pass,
                                         bool is_of_layer)
{
    for (int i = 0; i < estimate->n_operators; i++) {
        const struct operator_row *row = &estimate->operators[i];
        if (strcmp(row->name, name) == 0 && row->pass == pass && row->is_of_layer == is_of_layer) {
            return row;
        }
    }
    fail_msg("no row %s", name);
    return NULL;
}

/* A layer of Llama 3.1 8B has 218,112,000 parameters (4096 x 6144 + 4096^2 + 3 x 4096 x 14336 + 2 x 4096), gathered in bf16: 2.4 passes
 * over 436,224,000 bytes at 4.25 TB/s are 246.3 us; backward 2.5 more over float32 gradients, 872,448,000 bytes: 759.5 us. */
static void sharding_copies_what_it_moves(void **state)
{
    (void)state;
    static const char *const name = "copies of gathered weights and of gradients";
    struct sp_arena *arena = sp_arena_open();
    struct estimate e;
    estimate_from(
        arena, "model=llama-3.1-8b hardware=dgx-h200 gpus=8 sp=8 method=ulysses seq=96K batch=1 zero=3 framework=torch",
        &e);
    assert_close(row_of(&e, name, STEP_FORWARD, true)->time_s, 2.4 * 436224000 / 4.25e12, 1e-9);
    assert_close(row_of(&e, name, STEP_BACKWARD, true)->time_s, (2.4 * 436224000 + 2.5 * 872448000) / 4.25e12, 1e-9);
    /* 525,336,576 elements of each table, kept whole until backward: its gradient alone */
    assert_close(row_of(&e, name, STEP_BACKWARD, false)->time_s, 2.5 * 4 * 525336576 / 4.25e12, 1e-9);
    estimate_from(
        arena,
        "model=llama-3.1-8b hardware=dgx-h200 gpus=8 sp=8 method=ulysses seq=96K batch=1 zero=3 framework=deepspeed",
        &e);
    assert_int_equal(rows_named(&e, name, STEP_FORWARD), 0);
    sp_arena_close(arena);
}

/* bf16 gradient 2, two moments read and written 8, parameter read and written 4: 14 bytes of 1,705,025,536 parameters (3 layers, two
 * tables, the last norm), at 0.6 of 4.25 TB/s. */
static void the_optimizer_has_its_own_bandwidth(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    struct estimate e;
    estimate_from(arena, one_gpu, &e);
    double parameters = 3 * 218112000.0 + 2 * 525336576.0 + 4096;
    assert_close(e.parameters_total, parameters, 0);
    assert_close(row_of(&e, "Adam", STEP_OPTIMIZER, false)->time_s, 14 * parameters / (0.6 * 4.25e12), 1e-9);
    sp_arena_close(arena);
}

/* FSDP2 over two H200, Llama 2 7B with 4 layers, 16K tokens, all-gather rotation: torch.cuda.max_memory_allocated was 8,413,681,152
 * bytes on the worse rank, in the backward of the second layer. In the first, with more finished gradients, no layer is left to
 * prefetch, which would be 404,766,720 bytes more. */
static void the_first_layer_prefetches_none(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    struct estimate e;
    estimate_from(
        arena,
        "model=llama-2-7b set=model.num_hidden_layers=4 hardware=dgx-h200 gpus=2 sp=2 method=allgather seq=16384 "
        "batch=1 "
        "zero=3 framework=torch kernels=eager recompute=full set=run.expand_kv=true set=run.gradient_dtype=bf16 "
        "set=run.moment_dtype=bf16 set=run.master_weights=false set=run.loss=chunked set=run.loss_chunk=8192",
        &e);
    assert_int_equal(e.peak_moment, MOMENT_ATTENTION_BACKWARD);
    assert_close(e.peak_allocated_bytes, 8413681152.0, 0.001);
    sp_arena_close(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clocks_balance_power),
        cmocka_unit_test(rates_follow_the_clock),
        cmocka_unit_test(a_step_draws_its_limit),
        cmocka_unit_test(eager_recompute_stops_early),
        cmocka_unit_test(sharding_copies_what_it_moves),
        cmocka_unit_test(the_optimizer_has_its_own_bandwidth),
        cmocka_unit_test(the_first_layer_prefetches_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
