/* Training logs as measured steps: what each framework's lines say, what is warm-up, what is left out and why. */
#include "support/import_logs.h"
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

static bool try_import(struct sp_arena *arena, const struct import_text *text, struct import_given given,
                       struct import_result *result, struct sp_error *err)
{
    struct import_log_source source = {.text = text};
    *err = (struct sp_error){0};
    return import_recognise(text, &source.kind, err) && import_training(arena, &source, &given, result, err);
}

static struct import_result take(struct sp_arena *arena, const struct import_text *text, struct import_given given)
{
    struct import_result result;
    struct sp_error err;
    if (!try_import(arena, text, given, &result, &err)) {
        fail_msg("%s", err.text);
    }
    assert_int_equal(result.n_runs, 1);
    assert_int_equal(result.n_measurements, 1);
    return result;
}

static struct measurement step_of(struct sp_arena *arena, const struct import_result *result)
{
    const struct measurement line = import_log_row(arena, &result->runs[0], 0);
    assert_int_equal(line.group, MEASUREMENT_STEP);
    return line;
}

static double number_of(const struct measurement *line, const char *name)
{
    const struct sp_json *value = import_log_parameter(line, name);
    if (value == NULL || value->type != SP_JSON_NUMBER) {
        fail_msg("no number \"%s\"", name);
    }
    return value->number;
}

static int64_t count_reason(const struct import_result *result, const char *reason)
{
    int64_t count = 0;
    for (int64_t i = 0; i < result->n_notes; i++) {
        count += strcmp(result->notes[i].reason, reason) == 0 ? 1 : 0;
    }
    return count;
}

/* ---- the frameworks --------------------------------------------------------------------------------------------- */

/* Times behind warm-up, in ms: 8098.7 8101.2 8107.6 8110.3 8119.9 8123.4 8133.9. The first two are far slower, the third,
 * 9011.0, by more than a tenth. 10th percentile of seven: between the first and the second at 0.6, 8098.7 + 0.6 x 2.5;
 * 90th: at 5.4, 8123.4 + 0.4 x 10.5. Memory in 2^20 bytes, the most of the ranks. */
static void megatron_steps(void **state)
{
    struct sp_arena *arena = *state;
    const struct import_text text = import_log_text(arena, "training/megatron.log");
    const struct import_result result = take(arena, &text, (struct import_given){.gpu = "H200"});
    const struct measurement line = step_of(arena, &result);
    assert_close(line.median_s, 8.1103, 1e-12);
    assert_close(line.min_s, 8.0987, 1e-12);
    assert_close(line.low_s, 8.1002, 1e-12);
    assert_close(line.high_s, 8.1276, 1e-12);
    assert_int_equal(line.count, 7);
    assert_int_equal(count_reason(&result, "warm-up"), 3);
    assert_int_equal(count_reason(&result, "no optimizer step"), 1);
    assert_int_equal(count_reason(&result, "cut off"), 1);
    static const struct {
        const char *name;
        double value;
    } facts[] = {{"gpus", 48},
                 {"tp", 4},
                 {"cp", 3},
                 {"pp", 2},
                 {"dp", 2},
                 {"ep", 1},
                 {"seq", 98304},
                 {"global_batch", 36},
                 {"micro_batch", 1},
                 {"num_hidden_layers", 61},
                 {"hidden_size", 4096},
                 {"intermediate_size", 14336},
                 {"warmup_steps", 3},
                 {"first_step", 4},
                 {"last_step", 10},
                 {"peak_allocated_bytes", 61003.25 * 1048576},
                 {"num_attention_heads", 40},
                 {"num_key_value_heads", 8},
                 {"peak_reserved_bytes", 67000.0 * 1048576}};
    for (size_t i = 0; i < SP_COUNT_OF(facts); i++) {
        assert_close(number_of(&line, facts[i].name), facts[i].value, 0);
    }
    assert_null(import_log_parameter(&line, "vpp")); /* None */
    assert_close(number_of(&line, "logged_flop_per_s_per_gpu"), 406.9e12, 1e-12);
}

/* 12 sequences of 49,152 tokens over 24 GPUs at 2405 tokens/s each: 12 x 49152 / (24 x 2405) = 10.21871 s. */
static void torchtitan_steps(void **state)
{
    struct sp_arena *arena = *state;
    const struct import_text text = import_log_text(arena, "training/torchtitan.log");
    const struct import_result result = take(arena, &text, (struct import_given){0});
    const struct measurement line = step_of(arena, &result);
    assert_close(line.median_s, 10.218711018711018, 1e-12);
    assert_int_equal(line.count, 5);
    assert_int_equal(count_reason(&result, "warm-up"), 2);
    assert_int_equal(count_reason(&result, "a step that was taken before"), 7); /* of rank 1 */
    assert_int_equal(count_reason(&result, "a validation"), 1);
    assert_close(number_of(&line, "gpus"), 24, 0); /* 4 x 3 x 2 */
    assert_close(number_of(&line, "dp"), 4, 0);
    assert_close(number_of(&line, "cp"), 3, 0);
    assert_close(number_of(&line, "total_parameters"), 8030261248, 0);
    assert_close(number_of(&line, "peak_reserved_bytes"), 61.0 * 1073741824, 0);
    assert_string_equal(import_log_parameter(&line, "model")->string, "llama3 8B");
    assert_non_null(strstr(result.runs[0].run.machine, "\"gpu\": \"NVIDIA H100 80GB HBM3\""));
}

/* Median of 6.98 7 7.01 7.02 7.04 7.05 s; gpus as tokens_per_sec over tokens_per_sec_per_gpu, 88.2 / 5.88. */
static void nanotron_steps(void **state)
{
    struct sp_arena *arena = *state;
    const struct import_text text = import_log_text(arena, "training/nanotron.log");
    const struct import_result result = take(arena, &text, (struct import_given){.gpu = "H100"});
    const struct measurement line = step_of(arena, &result);
    assert_close(line.median_s, 7.015, 1e-12);
    assert_int_equal(line.count, 6);
    assert_close(number_of(&line, "gpus"), 15, 0);
    assert_close(number_of(&line, "dp"), 5, 0);
    assert_close(number_of(&line, "tp"), 3, 0);
    assert_close(number_of(&line, "seq"), 24576, 0);
    assert_close(number_of(&line, "global_batch"), 25, 0);
    assert_close(number_of(&line, "num_hidden_layers"), 28, 0);
    assert_close(number_of(&line, "peak_allocated_bytes"), 41234.5 * 1048576, 0);
    assert_close(number_of(&line, "peak_reserved_bytes"), 47.1e9, 0);
}

/* 84 samples a step at 12.1 12.05 12 11.95 12 samples/s: the median is 7 s. */
static void deepspeed_steps(void **state)
{
    struct sp_arena *arena = *state;
    const struct import_text text = import_log_text(arena, "training/deepspeed.log");
    const struct import_result result = take(arena, &text, (struct import_given){.gpu = "A100"});
    const struct measurement line = step_of(arena, &result);
    assert_close(line.median_s, 7, 1e-12);
    assert_int_equal(line.count, 5);
    assert_close(number_of(&line, "zero"), 3, 0);
    assert_close(number_of(&line, "micro_batch"), 3, 0);
    assert_close(number_of(&line, "first_step"), 20, 0);
    assert_close(number_of(&line, "peak_allocated_bytes"), 39.5 * 1073741824, 0); /* 38.25 + 5 x 0.25 */
}

/* ---- forms of lines --------------------------------------------------------------------------------------------- */

/* Time and running mean, as some forks print it; Megatron-DeepSpeed's rates; memory of DeepSpeed's timer. */
static void forks_of_megatron(void **state)
{
    struct sp_arena *arena = *state;
    const struct import_text text = import_log_lines(
        arena,
        " iteration        7/      90 | consumed samples:          36 | elapsed time per iteration (ms): 611.0/905.5 | "
        "tokens per gpu per second (tgs): 1234.5 | TFLOPs: 61.5 |\n"
        "[2026-02-07 01:55:23,714] [INFO] [timer.py:260:stop] epoch=0/micro_step=7/global_step=7, "
        "RunningAvgSamplesPerSec=5.1, CurrSamplesPerSec=5.2, MemAllocated=6.01GB, MaxMemAllocated=19.5GB\n");
    const struct import_result result =
        take(arena, &text, (struct import_given){.gpu = "H100", .warmup = {.is_given = true, .value = 0}});
    const struct measurement line = step_of(arena, &result);
    assert_close(line.median_s, 0.611, 1e-12);
    assert_close(number_of(&line, "logged_tokens_per_s_per_gpu"), 1234.5, 0);
    assert_close(number_of(&line, "logged_flop_per_s_per_gpu"), 61.5e12, 1e-12);
    assert_close(number_of(&line, "peak_allocated_bytes"), 19.5 * 1073741824, 0);
}

/* Without sizes of the batch or of the mesh, from one logged step to the next: 3 steps in 6.3 s, over midnight. */
static void torchtitan_times_from_the_clock(void **state)
{
    struct sp_arena *arena = *state;
    const struct import_text text = import_log_lines(
        arena,
        "[titan] 2026-02-24 23:59:50,500 - root - INFO - step:  1  loss:  8.1  memory:  9.46GiB(64.99%)  tps: 100\n"
        "[titan] 2026-02-24 23:59:57,000 - root - INFO - step:  4  loss:  7.1  memory:  9.46GiB(64.99%)  tps: 700\n"
        "[titan] 2026-02-25 00:00:03,300 - root - INFO - step:  7  loss:  6.1  memory:  9.46GiB(64.99%)  tps: 700\n");
    const struct import_result result = take(arena, &text, (struct import_given){.gpu = "H100"});
    const struct measurement line = step_of(arena, &result);
    assert_close(line.median_s, 2.1, 1e-9);
    assert_int_equal(count_reason(&result, "no time"), 1); /* the first has none before it */
}

static void older_mesh_of_torchtitan(void **state)
{
    struct sp_arena *arena = *state;
    const struct import_text text = import_log_lines(
        arena,
        "[rank0]:2025-03-12 11:10:21,511 - root - INFO - Building 3-D device mesh with ['dp_shard', 'cp', 'tp'], [5, "
        "3, 2]\n"
        "[rank0]:2025-03-12 11:10:21,511 - root - INFO - Training starts at step 1, with local batch size 2, global "
        "batch size 10, sequence length 6144, total steps 1000 (warmup 200)\n"
        "[rank0]:2025-03-12 11:10:31,511 - root - INFO - step: 61  loss:  6.2  memory:  1.41GiB(1.79%)  wps: 1,024  "
        "mfu: 1.86%\n");
    const struct import_result result =
        take(arena, &text, (struct import_given){.gpu = "H100", .warmup = {.is_given = true, .value = 0}});
    const struct measurement line = step_of(arena, &result);
    assert_close(number_of(&line, "gpus"), 30, 0);
    assert_close(number_of(&line, "tp"), 2, 0);
    assert_close(number_of(&line, "dp"), 5, 0);
    assert_close(line.median_s, 2, 1e-12); /* 10 x 6144 / (30 x 1024) */
}

/* ---- warm-up ---------------------------------------------------------------------------------------------------- */

static const char *megatron_log(struct sp_arena *arena, const double *times_ms, size_t n_times, int batch_step)
{
    struct sp_texts lines = {.arena = arena};
    for (size_t i = 0; i < n_times; i++) {
        sp_texts_add(&lines,
                     " iteration %zu/ 90 | consumed samples: 6 | elapsed time per iteration (ms): %.1f | global batch "
                     "size: %d |",
                     i + 1, times_ms[i], 12 + (i < 3 ? batch_step : 0));
    }
    return sp_format(arena, "%s\n", sp_join(arena, lines.items, lines.count, "\n"));
}

static void warmup_by_rule_and_by_number(void **state)
{
    struct sp_arena *arena = *state;
    /* second half: 100 100 101 99, median 100; the first always, 111 is above 110, 109 is not */
    static const double times_ms[] = {100, 111, 109, 100, 100, 100, 101, 99};
    const struct import_text text = import_log_lines(arena, megatron_log(arena, times_ms, SP_COUNT_OF(times_ms), 0));
    static const struct {
        int64_t asked, n_left; /* asked negative: by rule */
    } cases[] = {{-1, 6}, {0, 8}, {1, 7}, {7, 1}};
    for (size_t i = 0; i < SP_COUNT_OF(cases); i++) {
        const struct import_given given = {.gpu = "H100",
                                           .warmup = {.is_given = cases[i].asked >= 0, .value = cases[i].asked}};
        const struct import_result result = take(arena, &text, given);
        assert_int_equal(step_of(arena, &result).count, cases[i].n_left);
        assert_int_equal(count_reason(&result, "warm-up"), 8 - cases[i].n_left);
    }
    struct import_result result;
    struct sp_error err;
    const struct import_given all = {.gpu = "H100", .warmup = {.is_given = true, .value = 8}};
    assert_false(try_import(arena, &text, all, &result, &err));
    assert_error_contains(&err, "no step is left behind warm-up (8 left out): --warmup 0 takes all of them");
}

/* At most half of a log that never settles is warm-up. */
static void log_that_never_settles(void **state)
{
    struct sp_arena *arena = *state;
    static const double times_ms[] = {900, 800, 700, 600, 500, 400, 300};
    const struct import_text text = import_log_lines(arena, megatron_log(arena, times_ms, SP_COUNT_OF(times_ms), 0));
    const struct import_result result = take(arena, &text, (struct import_given){.gpu = "H100"});
    assert_int_equal(step_of(arena, &result).count, 4);
}

static void ramp_of_the_batch(void **state)
{
    struct sp_arena *arena = *state;
    static const double times_ms[] = {50, 50, 50, 100, 100, 100, 100};
    const struct import_text text = import_log_lines(arena, megatron_log(arena, times_ms, SP_COUNT_OF(times_ms), -6));
    const struct import_result result = take(arena, &text, (struct import_given){.gpu = "H100"});
    const struct measurement line = step_of(arena, &result);
    assert_close(number_of(&line, "global_batch"), 12, 0);
    assert_int_equal(count_reason(&result, "another batch"), 3);
    assert_int_equal(line.count, 3);
}

/* ---- logs of no use --------------------------------------------------------------------------------------------- */

static void what_a_log_must_say(void **state)
{
    struct sp_arena *arena = *state;
    static const struct {
        const char *text;
        struct import_given given;
        const char *reason;
    } bad[] = {
        {" iteration 7/ 90 | consumed samples: 6 | elapsed time per iteration (ms): 61.0 |\n",
         {0},
         "the log does not say which GPU: add --gpu NAME"},
        {" iteration 7/ 90 | consumed samples: 6 | elapsed time per iteration (ms): 61.0 |\n",
         {.gpu = "H100"},
         "no step is left behind warm-up (1 left out)"},
        {" iteration 7/ 90 | consumed samples: 6 | elapsed time per iteration (ms): 0.0 |\n",
         {.gpu = "H100"},
         "no step of megatron in 1 line"},
        {" iteration 7/ 90 | consumed samples: 6 | elapsed time per iteration (ms): nan |\n",
         {.gpu = "H100"},
         "no step of megatron in 1 line"},
        {"global_step=10, RunningAvgSamplesPerSec=25.0, CurrSamplesPerSec=25.7\n",
         {.gpu = "H100"},
         "samples per second and no train_batch_size: add --global-batch N"},
        {" iteration 7/ 90 | consumed samples: 6 | elapsed time per iteration (ms): 61.0 | global batch size: 12 |\n",
         {.gpu = "H100", .global_batch = 48},
         "the log has 12 sequences a step, --global-batch says 48: leave it out"},
        {"step: 7 loss: 1.0 memory: 1.0GiB(1%) tps: 61\n",
         {.gpu = "H100"},
         "no step has a time: expected the sizes of batch, sequence and mesh"},
    };
    for (size_t i = 0; i < SP_COUNT_OF(bad); i++) {
        struct import_result result;
        struct sp_error err;
        const struct import_text text = import_log_lines(arena, bad[i].text);
        assert_false(try_import(arena, &text, bad[i].given, &result, &err));
        assert_int_equal(err.kind, SP_ERROR_INPUT);
        assert_error_contains(&err, bad[i].reason);
    }
}

static void batch_that_the_user_states(void **state)
{
    struct sp_arena *arena = *state;
    const struct import_text text =
        import_log_lines(arena, "0/10, RunningAvgSamplesPerSec=6.0, CurrSamplesPerSec=6.1, MemAllocated=1.0GB\n");
    const struct import_result result =
        take(arena, &text,
             (struct import_given){.gpu = "H100", .global_batch = 61, .warmup = {.is_given = true, .value = 0}});
    const struct measurement line = step_of(arena, &result);
    assert_close(line.median_s, 10, 1e-12);
    assert_close(number_of(&line, "first_step"), 10, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_arena, close_arena)
    const struct CMUnitTest tests[] = {
        TEST(megatron_steps),           TEST(torchtitan_steps),
        TEST(nanotron_steps),           TEST(deepspeed_steps),
        TEST(forks_of_megatron),        TEST(torchtitan_times_from_the_clock),
        TEST(older_mesh_of_torchtitan), TEST(warmup_by_rule_and_by_number),
        TEST(log_that_never_settles),   TEST(ramp_of_the_batch),
        TEST(what_a_log_must_say),      TEST(batch_that_the_user_states),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
