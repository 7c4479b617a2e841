/* Claims against hand calculations. The question of most: Llama 2 7B, 131,072 tokens on 8 H100 with sp 8, ZeRO 3, full
 * recomputation, of Megatron. A token takes
 *   6 x (6,738,415,616 - 32,000 x 4096) = 3.964406e10 FLOP in products (the input table left out), and
 *   3 x 32 layers x 2 x (128 + 128) x 32 heads x (131,072 + 1) / 2 = 1.030800e11 in causal attention, 1.427241e11 in all. */
#include "search/claim.h"
#include "support/questions.h"
#include "support/support.h"

#include <math.h>
#include <string.h>

static const char seven[] = "model=llama-2-7b hardware=dgx-h100 gpus=8 sp=8 method=allgather zero=3 seq=128K batch=8";
static const double product_flop = 6 * (6738415616.0 - 32000.0 * 4096);
static const double attention_flop = 3.0 * 32 * 2 * 256 * 32 * 131073 / 2;
static const double peak = 989e12;

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

static struct claim_subject *subject_of(struct sp_arena *arena, const char *settings)
{
    struct claim_subject *subject = sp_arena_alloc(arena, sizeof(*subject));
    struct question *question = sp_arena_alloc(arena, sizeof(*question));
    struct estimate *estimate = sp_arena_alloc(arena, sizeof(*estimate));
    struct claim_bounds *bounds = sp_arena_alloc(arena, sizeof(*bounds));
    struct sp_error err = {0};
    if (!claim_bounds_read(arena, bounds, &err)) {
        fail_msg("%s", err.text);
    }
    question_from(arena, settings, question);
    step_estimate(question, estimate);
    (void)step_interval(question, estimate);
    *subject = (struct claim_subject){.question = question, .estimate = estimate, .bounds = bounds};
    return subject;
}

static struct claim_judgement judge(const struct claim_subject *subject, const char *name, double value)
{
    struct claim_judgement judgement;
    const struct claim_quantity *quantity = claim_quantity_find(name);
    assert_non_null(quantity);
    claim_judge(subject, quantity, value, &judgement);
    return judgement;
}

/* ---- limits ------------------------------------------------------------------------------------------------------- */

static void rate_beyond_the_dense_peak_is_impossible(void **state)
{
    const struct claim_subject *subject = subject_of(*state, seven);
    double flop = product_flop + attention_flop;
    struct claim_judgement judgement = judge(subject, "tokens_per_s_per_gpu", 48000);
    assert_int_equal(judgement.verdict, CLAIM_IMPOSSIBLE);
    assert_int_equal(judgement.limit, CLAIM_PEAK_RATE);
    assert_close(judgement.implied_mfu_frac, 48000 * flop / peak, 1e-6); /* 6.92 */
    assert_close(judgement.implied_flop_per_s_per_gpu, 48000 * flop, 1e-6);
    assert_close(judgement.limit_value, peak / flop, 1e-6); /* 6932 tokens/s per GPU */
    assert_close(judgement.implied_step_time_s, 131072.0 * 8 / 8 / 48000, 1e-12);
    assert_close(judgement.peak_flop_per_s, peak, 1e-9);
    assert_close(judgement.ratio, 48000 / subject->estimate->tokens_per_s_per_gpu, 1e-12);
}

/* Layers are computed again: their 32 x 202,383,360 parameters, at 2 FLOP, and a third of attention. */
static void rate_between_useful_and_executed_peak_is_impossible_under_recomputation(void **state)
{
    double layers = 2 * (product_flop / 6 - 32000.0 * 4096 - 65.0 * 4096);
    double executed = product_flop + attention_flop + layers + attention_flop / 3;
    double most = peak / executed; /* 5200 */
    const struct claim_subject *subject = subject_of(*state, seven);
    struct claim_judgement above = judge(subject, "tokens_per_s_per_gpu", most * 1.001);
    struct claim_judgement below = judge(subject, "tokens_per_s_per_gpu", most * 0.999);
    assert_int_equal(above.limit, CLAIM_RECOMPUTED);
    assert_close(above.limit_value, most, 1e-4);
    assert_int_equal(below.limit, CLAIM_WITHIN_LIMITS);
    assert_int_equal(below.verdict, CLAIM_OPTIMISTIC);
    assert_close(below.limit_value, most, 1e-4); /* the nearest one */
}

static void limits_count_what_the_mask_leaves_whatever_the_question_counts(void **state)
{
    struct claim_subject *causal = subject_of(*state, seven);
    struct claim_subject *full = subject_of(*state, sp_format(*state, "%s flops=full", seven));
    assert_true(full->estimate->mfu_frac > 1.7 * causal->estimate->mfu_frac);
    struct claim_judgement one = judge(causal, "tokens_per_s_per_gpu", 5100);
    struct claim_judgement other = judge(full, "tokens_per_s_per_gpu", 5100);
    assert_int_equal(one.verdict, CLAIM_OPTIMISTIC); /* its MFU in full is 1.27 */
    assert_int_equal(other.verdict, CLAIM_OPTIMISTIC);
    assert_close(one.limit_value, other.limit_value, 1e-12);
}

/* 64 tokens a GPU: 3 ms of FLOPs, 4 with recomputation; 8.03e9 parameters of 18 bytes over 8 GPUs are 18.1 GB, which the
 * memory passes in 5.39 ms. */
static void step_faster_than_its_state_passes_the_memory_is_impossible(void **state)
{
    const struct claim_subject *subject =
        subject_of(*state, "model=llama-3.1-8b hardware=dgx-h100 gpus=8 zero=3 seq=64 batch=8");
    struct claim_judgement faster = judge(subject, "step_time_s", 0.0050);
    struct claim_judgement slower = judge(subject, "step_time_s", 0.0056);
    assert_int_equal(faster.limit, CLAIM_STATE_READ);
    assert_close(faster.limit_value, 8030261248.0 * 18 / 8 / 3.35e12, 0.01);
    assert_int_equal(slower.limit, CLAIM_WITHIN_LIMITS);
}

/* 70.6e9 x 18 / 8 bytes are 159 GB. */
static void no_speed_is_possible_where_the_state_does_not_fit(void **state)
{
    const struct claim_subject *subject =
        subject_of(*state, "model=llama-3.1-70b hardware=dgx-h100 gpus=8 zero=3 seq=4K batch=8");
    struct claim_judgement judgement = judge(subject, "mfu_frac", 0.01);
    assert_int_equal(judgement.verdict, CLAIM_IMPOSSIBLE);
    assert_int_equal(judgement.limit, CLAIM_STATE_FITS);
    assert_close(judgement.state_bytes, 70553706496.0 * 18 / 8, 0.01);
}

static void speed_of_a_layout_that_does_not_fit_is_at_best_optimistic(void **state)
{
    const struct claim_subject *subject =
        subject_of(*state, "model=llama-2-7b hardware=dgx-h100 gpus=8 sp=8 method=allgather zero=3 seq=1M batch=8");
    struct claim_judgement judgement = judge(subject, "tokens_per_s_per_gpu", 300);
    assert_false(judgement.fits);
    assert_true(judgement.agrees);
    assert_int_equal(judgement.verdict, CLAIM_OPTIMISTIC);
}

/* 18 bytes of each of 6,738,415,616 parameters over 8 GPUs: 15.16 GB; the GPU has 81,559 MiB. */
static void peaks_lie_between_state_and_capacity(void **state)
{
    const struct claim_subject *subject = subject_of(*state, seven);
    const struct {
        double claimed;
        enum claim_verdict verdict;
        enum claim_limit limit;
        bool agrees;
    } cases[] = {{15.0e9, CLAIM_IMPOSSIBLE, CLAIM_STATE_BYTES, false},
                 {20.0e9, CLAIM_OPTIMISTIC, CLAIM_WITHIN_LIMITS, false},
                 {subject->estimate->peak_bytes, CLAIM_PLAUSIBLE, CLAIM_WITHIN_LIMITS, true},
                 {42.0e9, CLAIM_PLAUSIBLE, CLAIM_WITHIN_LIMITS, false},
                 {81560.0 * 0x1p20, CLAIM_IMPOSSIBLE, CLAIM_CAPACITY, false}};
    for (size_t i = 0; i < SP_COUNT_OF(cases); i++) {
        struct claim_judgement judgement = judge(subject, "peak_bytes", cases[i].claimed);
        assert_int_equal(judgement.verdict, cases[i].verdict);
        assert_int_equal(judgement.limit, cases[i].limit);
        assert_int_equal(judgement.agrees, cases[i].agrees);
        assert_close(judgement.state_bytes, 6738415616.0 * 18 / 8, 0.005);
        assert_close(judgement.implied_rest_bytes, cases[i].claimed - judgement.state_bytes, 1e-9);
        struct claim_judgement all = judge(subject, "cluster_peak_bytes", cases[i].claimed * 8);
        assert_int_equal(all.limit, cases[i].limit);
        assert_close(all.implied_rest_bytes, judgement.implied_rest_bytes, 1e-9);
    }
}

static void bandwidths_are_held_against_the_datasheet(void **state)
{
    const struct claim_subject *subject = subject_of(*state, seven);
    struct claim_judgement node = judge(subject, "hbm_bytes_per_s_per_node", 4.8e12);
    assert_close(node.computed, 8 * 3.35e12, 1e-12);
    assert_close(node.ratio, 4.8 / 26.8, 1e-12);
    assert_int_equal(node.verdict, CLAIM_PLAUSIBLE);
    assert_false(node.agrees);
    assert_int_equal(node.n_readings, 0); /* neither 1/8 of it nor another unit */
    assert_true(judge(subject, "hbm_bytes_per_s", 3.35e12).agrees);
    assert_int_equal(judge(subject, "hbm_bytes_per_s", 3.36e12).limit, CLAIM_DATASHEET);
    assert_int_equal(judge(subject, "hbm_bytes_per_s", 4.8e12).verdict, CLAIM_IMPOSSIBLE);
}

/* ---- ranges ------------------------------------------------------------------------------------------------------- */

/* Every quantity of one step is judged alike, whichever of them is claimed. */
static void same_step_has_the_same_verdict_in_every_quantity(void **state)
{
    const struct claim_subject *subject =
        subject_of(*state, "model=llama-3.1-8b hardware=dgx-h100 gpus=24 sp=6 method=zigzag zero=1 seq=98304 batch=20");
    const struct estimate *estimate = subject->estimate;
    const double faster[] = {0.3, 0.61, 0.64, 1.0, 1.1, 1.13, 1.6, 2.1, 3.7};
    for (size_t i = 0; i < SP_COUNT_OF(faster); i++) {
        double f = faster[i];
        const struct claim_judgement judgements[] = {
            judge(subject, "step_time_s", estimate->step_time_s / f),
            judge(subject, "mfu_frac", estimate->mfu_frac * f),
            judge(subject, "tokens_per_s", estimate->tokens_per_s * f),
            judge(subject, "tokens_per_s_per_gpu", estimate->tokens_per_s_per_gpu * f)};
        bool agrees = f > 1 / 1.62 && f < 1 / 0.9; /* claims/bounds/published.json */
        enum claim_verdict verdict = f > 1 / estimate->hfu_frac ? CLAIM_IMPOSSIBLE
                                     : f > 1 / 0.9              ? CLAIM_OPTIMISTIC
                                                                : CLAIM_PLAUSIBLE;
        for (size_t j = 0; j < SP_COUNT_OF(judgements); j++) {
            assert_int_equal(judgements[j].range, CLAIM_OF_PUBLISHED);
            assert_int_equal(judgements[j].agrees, agrees);
            assert_int_equal(judgements[j].verdict, verdict);
            assert_close(judgements[j].implied_step_time_s, estimate->step_time_s / f, 1e-12);
        }
    }
}

static void calibrated_machine_is_judged_by_its_own_interval(void **state)
{
    const struct claim_subject *subject =
        subject_of(*state, "model=llama-3.1-8b hardware=dgx-h200 gpus=1 framework=torch zero=3 seq=8K batch=3");
    const struct estimate *estimate = subject->estimate;
    assert_true(estimate->step_time_low_s > 0);
    struct claim_judgement inside = judge(subject, "step_time_s", estimate->step_time_low_s * 1.0001);
    struct claim_judgement outside = judge(subject, "step_time_s", estimate->step_time_low_s * 0.9999);
    assert_int_equal(inside.range, CLAIM_OF_INTERVAL);
    assert_true(inside.agrees);
    assert_false(outside.agrees);
    assert_close(inside.low, estimate->step_time_low_s, 0);
    assert_close(inside.high, estimate->step_time_high_s, 0);
}

/* ---- conventions -------------------------------------------------------------------------------------------------- */

static void expect_cause(const struct claim_judgement *judgement, enum claim_cause cause, double factor)
{
    for (int i = 0; i < judgement->n_readings; i++) {
        assert_true(i == 0 || fabs(log(judgement->readings[i - 1].left)) <= fabs(log(judgement->readings[i].left)));
    }
    assert_true(judgement->n_readings > 0);
    assert_int_equal(judgement->readings[0].cause, cause);
    assert_close(judgement->readings[0].factor, factor, 1e-4);
    assert_close(judgement->readings[0].left * factor, judgement->ratio, 1e-4);
}

static void conventions_are_recognised_by_their_factor(void **state)
{
    const struct claim_subject *subject = subject_of(*state, seven);
    const struct estimate *estimate = subject->estimate;
    double full = (product_flop + 2 * attention_flop * 131072 / 131073) / (product_flop + attention_flop); /* 1.722 */
    double left = product_flop / (product_flop + attention_flop);                                          /* 1 / 3.6 */
    double executed = estimate->hfu_frac / estimate->mfu_frac;
    const struct {
        const char *quantity;
        enum claim_cause cause;
        double computed, factor;
    } cases[] = {
        {"mfu_frac", CLAIM_ATTENTION_FULL, estimate->mfu_frac, full},
        {"mfu_frac", CLAIM_ATTENTION_LEFT, estimate->mfu_frac, left},
        {"mfu_frac", CLAIM_RECOMPUTATION, estimate->mfu_frac, executed},
        {"mfu_frac", CLAIM_SPARSE_PEAK, estimate->mfu_frac, 0.5},
        {"tokens_per_s_per_gpu", CLAIM_SPARSE_PEAK, estimate->tokens_per_s_per_gpu, 2},
        {"tokens_per_s_per_gpu", CLAIM_ATTENTION_LEFT, estimate->tokens_per_s_per_gpu, 1 / left},
        {"tokens_per_s_per_gpu", CLAIM_NODE_AS_ONE, estimate->tokens_per_s_per_gpu, 8},
        {"tokens_per_s", CLAIM_ONE_AS_ALL, estimate->tokens_per_s, 1.0 / 8},
        {"step_time_s", CLAIM_ATTENTION_LEFT, estimate->step_time_s, left},
        {"peak_bytes", CLAIM_BINARY_UNIT, estimate->peak_bytes, 1e9 / 0x1p30},
        {"peak_bytes", CLAIM_DECIMAL_UNIT, estimate->peak_bytes, 0x1p30 / 1e9},
        {"peak_bytes", CLAIM_NODE_AS_ONE, estimate->peak_bytes, 8},
        {"hbm_bytes_per_s", CLAIM_DECIMAL_UNIT, 3.35e12, 0x1p30 / 1e9},
        {"hbm_bytes_per_s_per_node", CLAIM_ONE_AS_ALL, 26.8e12, 1.0 / 8},
        {"hbm_bytes_per_s_per_node", CLAIM_BITS, 26.8e12, 8},
    };
    for (size_t i = 0; i < SP_COUNT_OF(cases); i++) {
        struct claim_judgement judgement = judge(subject, cases[i].quantity, cases[i].computed * cases[i].factor);
        expect_cause(&judgement, cases[i].cause, cases[i].factor);
    }
}

static void figure_that_the_model_gives_needs_no_convention(void **state)
{
    const struct claim_subject *subject = subject_of(*state, seven);
    assert_int_equal(judge(subject, "mfu_frac", subject->estimate->mfu_frac * 0.9).n_readings, 0);
    assert_int_equal(judge(subject, "tokens_per_s_per_gpu", 48000).n_readings, 0);
    assert_int_equal(judge(subject, "hbm_bytes_per_s", 3.35e12).n_readings, 0);
}

static void halves_are_recognised_where_the_question_counts_in_full(void **state)
{
    const struct claim_subject *subject = subject_of(*state, sp_format(*state, "%s flops=full", seven));
    double full = (product_flop + 2 * attention_flop * 131072 / 131073) / (product_flop + attention_flop);
    struct claim_judgement judgement = judge(subject, "mfu_frac", subject->estimate->mfu_frac / full);
    /* the range is wide enough for a slow run too, so that only a claim out of it is explained */
    assert_true(judgement.agrees || judgement.readings[0].cause == CLAIM_ATTENTION_HALVED);
    judgement = judge(subject, "mfu_frac", subject->estimate->mfu_frac / full * 0.99);
    expect_cause(&judgement, CLAIM_ATTENTION_HALVED, 1 / full);
}

/* ---- figures of documents ------------------------------------------------------------------------------------------ */

static void figures_agree_within_their_rounding_or_lean_one_way(void **state)
{
    (void)state;
    const struct {
        const char *quantity;
        double low, high, computed;
        bool is_ratio;
        enum claim_finding finding;
    } cases[] = {
        {"headroom_bytes", 60e9, 60e9, 60.9e9, false, CLAIM_AGREES},
        {"headroom_bytes", 60e9, 60e9, 41e9, false, CLAIM_TOO_GOOD},
        {"headroom_bytes", 35e9, 35e9, 43e9, false, CLAIM_TOO_BAD},
        {"attention_share_frac", 0.65, 0.65, 0.45, false, CLAIM_DIFFERS},
        {"nvlink_domain_gpus", 64, 64, 8, false, CLAIM_BREAKS},
        {"nvlink_domain_gpus", 4, 4, 8, false, CLAIM_TOO_BAD},
        {"capacity_bytes", 300e9, 300e9, 288e9, false, CLAIM_BREAKS},
        {"max_seq", 0x1p20, 0x1p20, 0x1p21, false, CLAIM_AGREES},
        {"max_seq", 0x1p20, 0x1p20, 0x1p19, false, CLAIM_TOO_GOOD},
        {"max_seq", 0x1p20, 0x1p20, NAN, false, CLAIM_TOO_GOOD},
        {"max_seq", 10240, 102400, 575488, false, CLAIM_TOO_BAD},
        {"min_gpus", 32, 32, 16, false, CLAIM_AGREES},
        {"min_gpus", 32, 32, 256, false, CLAIM_TOO_GOOD},
        {"min_gpus", 32, 256, 256, false, CLAIM_AGREES},
        {"peak_bytes", 0.60, 0.65, 0.77, true, CLAIM_TOO_GOOD},
        {"tokens_per_s_per_node", 1.5, 1.7, 1.81, true, CLAIM_TOO_BAD},
        {"tokens_per_s_per_node", 1.5, 1.7, 1.73, true, CLAIM_AGREES},
    };
    for (size_t i = 0; i < SP_COUNT_OF(cases); i++) {
        const struct claim_figure figure = {claim_quantity_find(cases[i].quantity), cases[i].low, cases[i].high,
                                            cases[i].computed, cases[i].is_ratio};
        if (claim_compare(&figure) != cases[i].finding) {
            fail_msg("case %zu, %s: %s", i, cases[i].quantity, claim_finding_names[claim_compare(&figure)]);
        }
    }
}

static void values_are_plain_numbers_or_carry_their_unit(void **state)
{
    const struct {
        const char *quantity, *text;
        double value; /* 0: refused */
    } cases[] = {
        {"mfu_frac", "0.45", 0.45},
        {"mfu_frac", "45%", 0.45},
        {"mfu_frac", "693%", 6.93},
        {"mfu_frac", "%", 0},
        {"mfu_frac", "0", 0},
        {"peak_bytes", "42GB", 42e9},
        {"peak_bytes", "42GiB", 42 * 0x1p30},
        {"peak_bytes", "42e9", 42e9},
        {"peak_bytes", "-42GB", 0},
        {"peak_bytes", "42GB/s", 0},
        {"step_time_s", "12.5", 12.5},
        {"step_time_s", "250ms", 0.25},
        {"hbm_bytes_per_s", "4.8TB/s", 4.8e12},
        {"tokens_per_s_per_gpu", "1200", 1200},
        {"tokens_per_s_per_gpu", "48K", 0}, /* decimal or binary? */
        {"tokens_per_s_per_gpu", "nan", 0},
        {"tokens_per_s_per_gpu", "1e308", 0}, /* what it implies would not be finite */
        {"step_time_s", "1e-308", 0},
        {"step_time_s", "1e29", 1e29},
        {"tokens_per_s_per_gpu", "", 0},
    };
    for (size_t i = 0; i < SP_COUNT_OF(cases); i++) {
        struct sp_error err = {0};
        double value = 0;
        bool is_good = claim_value_parse(*state, claim_quantity_find(cases[i].quantity), cases[i].text, &value, &err);
        if (is_good != (cases[i].value > 0)) {
            fail_msg("%s=%s: %s", cases[i].quantity, cases[i].text, is_good ? "taken" : err.text);
        }
        if (is_good) {
            assert_close(value, cases[i].value, 1e-15);
        } else {
            assert_error_contains(&err, "expected");
        }
    }
}

static void names_of_quantities_and_of_what_is_said_are_whole(void **state)
{
    struct sp_texts asked = {.arena = *state};
    struct sp_texts all = {.arena = *state};
    claim_quantity_names(false, &asked);
    claim_quantity_names(true, &all);
    assert_true(asked.count == 8 && all.count > asked.count);
    assert_true(sp_texts_has(&asked, "tokens_per_s") && !sp_texts_has(&asked, "max_seq"));
    assert_null(claim_quantity_find("speed"));
    assert_string_equal(claim_limit_names[CLAIM_DATASHEET], "datasheet");
    assert_null(claim_limit_names[N_CLAIM_LIMITS]);
    assert_null(claim_cause_names[N_CLAIM_CAUSES]);
    assert_null(claim_finding_names[N_CLAIM_FINDINGS]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rate_beyond_the_dense_peak_is_impossible, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(rate_between_useful_and_executed_peak_is_impossible_under_recomputation,
                                        open_arena, close_arena),
        cmocka_unit_test_setup_teardown(limits_count_what_the_mask_leaves_whatever_the_question_counts, open_arena,
                                        close_arena),
        cmocka_unit_test_setup_teardown(step_faster_than_its_state_passes_the_memory_is_impossible, open_arena,
                                        close_arena),
        cmocka_unit_test_setup_teardown(no_speed_is_possible_where_the_state_does_not_fit, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(speed_of_a_layout_that_does_not_fit_is_at_best_optimistic, open_arena,
                                        close_arena),
        cmocka_unit_test_setup_teardown(peaks_lie_between_state_and_capacity, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(bandwidths_are_held_against_the_datasheet, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(same_step_has_the_same_verdict_in_every_quantity, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(calibrated_machine_is_judged_by_its_own_interval, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(conventions_are_recognised_by_their_factor, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(figure_that_the_model_gives_needs_no_convention, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(halves_are_recognised_where_the_question_counts_in_full, open_arena,
                                        close_arena),
        cmocka_unit_test(figures_agree_within_their_rounding_or_lean_one_way),
        cmocka_unit_test_setup_teardown(values_are_plain_numbers_or_carry_their_unit, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(names_of_quantities_and_of_what_is_said_are_whole, open_arena, close_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
