// What the device program says of a series of timed runs.
#include "cuda/samples.h"

#include "support/support.h"

#include <math.h>

static void test_quantiles_lie_on_the_line_between_two_values(void **state)
{
    static const double x[] = {5, 1, 4, 2, 3, 60};
    struct samples_summary s = samples_summarise(x, 6);
    (void)state;
    assert_int_equal(s.count, 6);
    assert_true(s.min <= 1 && s.min >= 1);
    assert_true(fabs(s.median - 3.5) < 1e-12);
    assert_true(fabs(s.low - 1.5) < 1e-12);
    assert_true(fabs(s.high - 32.5) < 1e-12); // halfway from 5 to 60
    assert_true(fabs(samples_spread(&s) - 31 / 3.5) < 1e-12);
}

static void test_one_value_is_its_own_summary(void **state)
{
    static const double x[] = {7e-6};
    struct samples_summary s = samples_summarise(x, 1);
    (void)state;
    assert_true(fabs(s.median - 7e-6) < 1e-18 && fabs(s.low - s.high) < 1e-18);
    assert_true(samples_spread(&s) < 1e-12);
}

static void test_settled_when_both_halves_agree(void **state)
{
    static const double steady[] = {100, 101, 99, 100, 100, 101, 99, 100, 100};
    static const double falling[] = {110, 110, 109, 109, 101, 100, 100, 100, 100};
    (void)state;
    assert_true(samples_settled(steady, 9, 0.005));
    assert_false(samples_settled(falling, 9, 0.005));
    assert_true(samples_settled(falling, 9, 0.1));
    assert_false(samples_settled(steady, 3, 0.005)); // too few to tell
}

static void test_drift_is_the_last_third_over_the_first(void **state)
{
    static const double clock[] = {1980, 1980, 1900, 1700, 1500, 1400, 1386};
    (void)state;
    assert_true(fabs(samples_drift(clock, 7) - 1393.0 / 1980) < 1e-12);
    assert_true(fabs(samples_drift(clock, 2) - 1) < 1e-12);
    assert_true(fabs(samples_drift(clock + 6, 1) - 1) < 1e-12);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quantiles_lie_on_the_line_between_two_values),
        cmocka_unit_test(test_one_value_is_its_own_summary),
        cmocka_unit_test(test_settled_when_both_halves_agree),
        cmocka_unit_test(test_drift_is_the_last_third_over_the_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
