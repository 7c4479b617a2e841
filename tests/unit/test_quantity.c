#include "support/support.h"

#include <float.h>
#include <math.h>
#include <string.h>

struct good {
    const char *text;
    enum sp_dimension dimension;
    double value;
};

struct bad {
    const char *text;
    enum sp_dimension dimension;
    const char *expected; /* part of the error */
};

static const struct good good_texts[] = {
    {"0.97", SP_PURE, 0.97},
    {"1.25e-3", SP_PURE, 0.00125},
    {"132", SP_COUNT, 132.0},
    {"0", SP_COUNT, 0.0},
    {"0000000000000000000000000000000000000000000000000000000000000017", SP_COUNT, 17.0}, /* 64 digits */
    {"9007199254740991", SP_COUNT, 9007199254740991.0},
    /* tokens: binary */
    {"131072", SP_TOKENS, 131072.0},
    {"128K", SP_TOKENS, 131072.0},
    {"1.5K", SP_TOKENS, 1536.0},
    {"1M", SP_TOKENS, 1048576.0},
    {"16M", SP_TOKENS, 16777216.0},
    {"1G", SP_TOKENS, 1073741824.0},
    /* sizes: B is byte, b is bit */
    {"17B", SP_BYTES, 17.0},
    {"3KB", SP_BYTES, 3e3},
    {"7MB", SP_BYTES, 7e6},
    {"141GB", SP_BYTES, 141e9},
    {"2TB", SP_BYTES, 2e12},
    {"5PB", SP_BYTES, 5e15},
    {"3KiB", SP_BYTES, 3072.0},
    {"40MiB", SP_BYTES, 41943040.0},
    {"80GiB", SP_BYTES, 85899345920.0},
    {"2TiB", SP_BYTES, 2199023255552.0},
    {"8b", SP_BYTES, 1.0},
    {"2Kb", SP_BYTES, 250.0},
    {"2Mb", SP_BYTES, 250e3},
    {"2Gb", SP_BYTES, 250e6},
    {"2Tb", SP_BYTES, 250e9},
    {"2Pb", SP_BYTES, 250e12},
    {"2Kib", SP_BYTES, 256.0},
    {"2Mib", SP_BYTES, 262144.0},
    {"2Gib", SP_BYTES, 268435456.0},
    {"2Tib", SP_BYTES, 274877906944.0},
    /* rates */
    {"4.8TB/s", SP_BYTES_PER_S, 4.8e12},
    {"400Gb/s", SP_BYTES_PER_S, 50e9},
    {"23.7GiB/s", SP_BYTES_PER_S, 23.7 * 1073741824.0},
    {"64Kib/s", SP_BYTES_PER_S, 8192.0},
    {"0B/s", SP_BYTES_PER_S, 0.0},
    /* times */
    {"850ns", SP_SECONDS, 850e-9},
    {"1.2us", SP_SECONDS, 1.2e-6},
    {"3ms", SP_SECONDS, 3e-3},
    {"2s", SP_SECONDS, 2.0},
    {"5min", SP_SECONDS, 300.0},
    {"1h", SP_SECONDS, 3600.0},
    {"2d", SP_SECONDS, 172800.0},
    {"1.5e3us", SP_SECONDS, 1.5e-3},
    {"2E+1ms", SP_SECONDS, 2e-2},
    /* arithmetic, power, price, fractions */
    {"989TFLOP/s", SP_FLOP_PER_S, 989e12},
    {"1.979PFLOP/s", SP_FLOP_PER_S, 1.979e15},
    {"66.9GFLOP/s", SP_FLOP_PER_S, 66.9e9},
    {"3MFLOP/s", SP_FLOP_PER_S, 3e6},
    {"3KFLOP/s", SP_FLOP_PER_S, 3e3},
    {"3FLOP/s", SP_FLOP_PER_S, 3.0},
    {"700W", SP_WATT, 700.0},
    {"10.2kW", SP_WATT, 10200.0},
    {"1.3MW", SP_WATT, 1.3e6},
    {"1.98GHz", SP_HERTZ, 1.98e9},
    {"1325MHz", SP_HERTZ, 1.325e9},
    {"7Hz", SP_HERTZ, 7.0},
    {"2.99/h", SP_PER_HOUR, 2.99},
    {"0.85", SP_FRACTION, 0.85},
    {"85%", SP_FRACTION, 0.85},
    {"100%", SP_FRACTION, 1.0},
    {"0", SP_FRACTION, 0.0},
};

static void units_scale_to_si(void **state)
{
    (void)state;
    for (size_t i = 0; i < SP_COUNT_OF(good_texts); i++) {
        struct sp_error err = {0};
        double value = -1.0;
        if (!sp_quantity_parse(good_texts[i].text, good_texts[i].dimension, &value, &err)) {
            fail_msg("%s: %s", good_texts[i].text, err.text);
        }
        assert_close(value, good_texts[i].value, 0.0);
    }
}

static const struct bad bad_texts[] = {
    /* the contract's example, and its kin */
    {"8", SP_BYTES_PER_S, "expected a rate such as \"4.8TB/s\", found \"8\" (add a unit)"},
    {"141", SP_BYTES, "expected a size such as \"141GB\", found \"141\" (add a unit)"},
    {"1e3", SP_SECONDS, "(add a unit)"},
    {"2.5", SP_FLOP_PER_S, "expected an arithmetic rate such as \"989TFLOP/s\", found \"2.5\" (add a unit)"},
    {"700", SP_WATT, "expected a power such as \"700W\", found \"700\" (add a unit)"},
    {"1.98", SP_HERTZ, "expected a clock such as \"1.98GHz\", found \"1.98\" (add a unit)"},
    {"3GHz", SP_SECONDS, "is that of a clock"},
    {"2.99", SP_PER_HOUR, "expected a price per hour such as \"2.99/h\", found \"2.99\" (add a unit)"},
    /* the unit of something else */
    {"8GB", SP_BYTES_PER_S, "the unit \"GB\" is that of a size; units here: B/s"},
    {"4.8TB/s", SP_BYTES, "the unit \"TB/s\" is that of a rate; units here: B, KB"},
    {"3ms", SP_FLOP_PER_S, "is that of a time"},
    {"3TFLOP/s", SP_BYTES_PER_S, "is that of an arithmetic rate"},
    {"3kW", SP_SECONDS, "is that of a power"},
    {"3/h", SP_WATT, "is that of a price"},
    {"1s", SP_COUNT, "is that of a time"},
    {"80%", SP_PURE, "unknown unit \"%\"; units here: none"},
    /* case and spelling matter */
    {"8gb/s", SP_BYTES_PER_S, "unknown unit \"gb/s\""},
    {"8kB", SP_BYTES, "unknown unit \"kB\""},
    {"8GBps", SP_BYTES_PER_S, "unknown unit \"GBps\""},
    {"8PiB", SP_BYTES, "unknown unit \"PiB\""},
    {"128k", SP_TOKENS, "unknown unit \"k\"; units here: K, M, G, binary"},
    {"128Ki", SP_TOKENS, "unknown unit \"Ki\""},
    {"989TFLOPS", SP_FLOP_PER_S, "unknown unit \"TFLOPS\""},
    {"1KW", SP_WATT, "unknown unit \"KW\""},
    {"3S", SP_SECONDS, "unknown unit \"S\"; units here: ns, us, ms, s, min, h, d"},
    {"3GBB", SP_BYTES, "unknown unit \"GBB\""},
    {"3GB,", SP_BYTES, "unknown unit \"GB,\""},
    {"1e", SP_COUNT, "unknown unit \"e\""},
    {"1e+", SP_COUNT, "unknown unit \"e+\""},
    {"1.", SP_PURE, "unknown unit \".\""},
    {"1.GB", SP_BYTES, "unknown unit \".GB\""},
    {"1.2.3", SP_PURE, "unknown unit \".3\""},
    {"1,5", SP_PURE, "unknown unit \",5\""},
    {"0x10", SP_COUNT, "unknown unit \"x10\""},
    {"3 GB", SP_BYTES, "no spaces"},
    {"3GB ", SP_BYTES, "unknown unit \"GB \""},
    {"3\t", SP_COUNT, "no spaces"},
    /* not a number */
    {"", SP_BYTES, "expected a size such as \"141GB\", found an empty text"},
    {"GB", SP_BYTES, "found \"GB\" (must start with a digit)"},
    {" 3GB", SP_BYTES, "(must start with a digit)"},
    {"+3GB", SP_BYTES, "(must start with a digit)"},
    {".5", SP_PURE, "(must start with a digit)"},
    {"nan", SP_PURE, "(must start with a digit)"},
    {"NaN", SP_FRACTION, "(must start with a digit)"},
    {"inf", SP_PURE, "(must start with a digit)"},
    {"Infinity", SP_BYTES, "(must start with a digit)"},
    /* out of range */
    {"-3GB", SP_BYTES, "found \"-3GB\" (must not be negative)"},
    {"-1", SP_COUNT, "(must not be negative)"},
    {"-0.1", SP_PURE, "(must not be negative)"},
    {"1e999", SP_PURE, "(too large)"},
    {"1e300PB", SP_BYTES, "(too large)"},
    {"1e99999999999999999999", SP_PURE, "(too large)"},
    {"1e-400", SP_PURE, "(too small)"},
    {"0.001e-320ns", SP_SECONDS, "(too small)"},
    {"1.01", SP_FRACTION, "found \"1.01\" (above 1)"},
    {"101%", SP_FRACTION, "found \"101%\" (above 1)"},
    /* whole numbers */
    {"8.5", SP_COUNT, "expected a whole number such as \"132\", found \"8.5\" (not a whole number)"},
    {"8.0", SP_COUNT, "(not a whole number)"},
    {"1e3", SP_COUNT, "(not a whole number)"},
    {"1.0", SP_TOKENS, "(not a whole number)"},
    {"0.3K", SP_TOKENS, "expected a number of tokens such as \"128K\", found \"0.3K\" (not a whole number)"},
    {"9007199254740992", SP_COUNT, "larger than 9007199254740991"},
    {"9007199254740993", SP_TOKENS, "larger than 9007199254740991"},
    {"8388608G", SP_TOKENS, "larger than 9007199254740991"},
    /* long */
    {"00000000000000000000000000000000000000000000000000000000000000001", SP_COUNT, "more than 64 digits"},
    {"1234567890abcdefghijklmnopqrstuvwxyz1234567890ABCDEFGHIJKLMNOPQRSTUVWXYZ", SP_BYTES,
     "found \"1234567890abcdefghijklmnopqrstuvwxyz1234567890ABCDEFGHIJKLMNOPQR...\""},
};

static void bad_texts_say_what_is_wrong(void **state)
{
    (void)state;
    for (size_t i = 0; i < SP_COUNT_OF(bad_texts); i++) {
        struct sp_error err = {0};
        double value = 8317.0;
        if (sp_quantity_parse(bad_texts[i].text, bad_texts[i].dimension, &value, &err)) {
            fail_msg("\"%s\" was taken as %g", bad_texts[i].text, value);
        }
        assert_error_contains(&err, bad_texts[i].expected);
        assert_error_contains(&err, sp_dimension_expects(bad_texts[i].dimension));
        assert_int_equal(err.kind, SP_ERROR_USAGE);
        assert_close(value, 8317.0, 0.0); /* untouched */
    }
}

static void every_dimension_shows_a_good_example(void **state)
{
    (void)state;
    for (int dimension = 0; dimension < SP_N_DIMENSIONS; dimension++) {
        const char *expects = sp_dimension_expects((enum sp_dimension)dimension);
        const char *start = strchr(expects, '"') + 1;
        char example[32] = "";
        memcpy(example, start, strcspn(start, "\""));
        struct sp_error err = {0};
        double value = 0.0;
        if (!sp_quantity_parse(example, (enum sp_dimension)dimension, &value, &err)) {
            fail_msg("%s: %s", expects, err.text);
        }
        assert_true(value > 0.0);
    }
}

struct written {
    double value;
    enum sp_dimension dimension;
    const char *expected;
};

static void exact_text_is_the_shortest(void **state)
{
    (void)state;
    static const struct written rows[] = {
        {4.8e12, SP_BYTES_PER_S, "4.8TB/s"},
        {50e9, SP_BYTES_PER_S, "50GB/s"},
        {1.5e12, SP_BYTES, "1.5TB"},
        {85520809984.0, SP_BYTES, "85520809984B"},
        {1234567890123456.0, SP_BYTES, "1234567890123456B"},
        {9007199254740991.0, SP_BYTES, "9007199254740991B"},
        {17e15, SP_BYTES, "17PB"},
        {3e20, SP_BYTES, "300000PB"},
        {0.0, SP_BYTES, "0B"},
        {0.125, SP_BYTES, "0.125B"},
        {0.0, SP_SECONDS, "0s"},
        {1.2e-6, SP_SECONDS, "1.2us"},
        {500e-9, SP_SECONDS, "500ns"},
        {0.5, SP_SECONDS, "500ms"},
        {1e-3, SP_SECONDS, "1ms"},
        {12.31, SP_SECONDS, "12.31s"},
        {86400.0, SP_SECONDS, "86400s"},
        {2e-10, SP_SECONDS, "0.2ns"},
        {989e12, SP_FLOP_PER_S, "989TFLOP/s"},
        {1.979e15, SP_FLOP_PER_S, "1979TFLOP/s"},
        {2.5e15, SP_FLOP_PER_S, "2.5PFLOP/s"},
        {10200.0, SP_WATT, "10.2kW"},
        {1.325e9, SP_HERTZ, "1325MHz"},
        {2.99, SP_PER_HOUR, "2.99/h"},
        {0.85, SP_FRACTION, "0.85"},
        {0.1 + 0.2, SP_PURE, "0.30000000000000004"},
        {1.0 / 3.0, SP_PURE, "0.3333333333333333"},
        {2.5e-7, SP_PURE, "2.5e-07"},
        {132.0, SP_COUNT, "132"},
        {131072.0, SP_TOKENS, "128K"},
        {100000.0, SP_TOKENS, "100000"},
    };
    struct sp_arena *arena = sp_arena_open();
    for (size_t i = 0; i < SP_COUNT_OF(rows); i++) {
        assert_string_equal(sp_quantity_exact(arena, rows[i].value, rows[i].dimension), rows[i].expected);
    }
    sp_arena_close(arena);
}

/* Any double of a magnitude that occurs, and round ones, which take other branches. */
static double any_value(uint64_t *random)
{
    double mantissa = 1.0 + (double)(next_random(random) >> 12) * 0x1p-52 * 9.0;
    double value = mantissa * pow(10.0, (double)(next_random(random) % 40) - 16.0);
    return next_random(random) % 3 == 0 ? ceil(value) : value;
}

static void exact_text_reads_back_as_the_same_value(void **state)
{
    (void)state;
    static const enum sp_dimension dimensions[] = {SP_PURE,       SP_BYTES, SP_SECONDS,  SP_BYTES_PER_S,
                                                   SP_FLOP_PER_S, SP_WATT,  SP_PER_HOUR, SP_HERTZ};
    static const double extremes[] = {DBL_MIN, DBL_TRUE_MIN, DBL_MAX, DBL_EPSILON, 0.0, 1e22, 1e23, 9007199254740993.0};
    struct sp_arena *arena = sp_arena_open();
    uint64_t random = UINT64_C(0x5eed83179a11ce5b);
    for (size_t i = 0; i < 4000; i++) {
        double value = i < SP_COUNT_OF(extremes) * SP_COUNT_OF(dimensions) ? extremes[i % SP_COUNT_OF(extremes)]
                                                                           : any_value(&random);
        enum sp_dimension dimension = dimensions[i % SP_COUNT_OF(dimensions)];
        const char *text = sp_quantity_exact(arena, value, dimension);
        struct sp_error err = {0};
        double back = -1.0;
        if (!sp_quantity_parse(text, dimension, &back, &err)) {
            fail_msg("%.17g became %s: %s", value, text, err.text);
        }
        assert_close(back, value, 0.0);
    }
    sp_arena_close(arena);
}

static void tokens_read_back_as_the_same_count(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    uint64_t random = UINT64_C(0x7041c0de12345679);
    for (int i = 0; i < 2000; i++) {
        int64_t tokens = (int64_t)(next_random(&random) >> (12 + next_random(&random) % 50));
        tokens <<= i % 3 == 0 && tokens < (INT64_C(1) << 30) ? 10 : 0;
        struct sp_error err = {0};
        double back = -1.0;
        assert_true(sp_quantity_parse(sp_tokens_print(arena, tokens), SP_TOKENS, &back, &err));
        assert_int_equal((int64_t)back, tokens);
    }
    sp_arena_close(arena);
}

static void tokens_print_binary_where_exact(void **state)
{
    (void)state;
    static const struct {
        int64_t tokens;
        const char *expected;
    } rows[] = {{0, "0"},
                {1, "1"},
                {1000, "1000"},
                {1023, "1023"},
                {1024, "1K"},
                {1536, "1536"},
                {131072, "128K"},
                {131073, "131073"},
                {1048576, "1M"},
                {1572864, "1536K"},
                {16777216, "16M"},
                {1073741824, "1G"},
                {1000000000, "1000000000"},
                {-2048, "-2K"}};
    struct sp_arena *arena = sp_arena_open();
    for (size_t i = 0; i < SP_COUNT_OF(rows); i++) {
        assert_string_equal(sp_tokens_print(arena, rows[i].tokens), rows[i].expected);
    }
    sp_arena_close(arena);
}

static void reading_text_has_three_digits(void **state)
{
    (void)state;
    static const struct written rows[] = {
        {85899345920.0, SP_BYTES, "80.0 GiB"},
        {1.5e9, SP_BYTES, "1.40 GiB"},
        {2e14, SP_BYTES, "186265 GiB"},
        {53687091.0, SP_BYTES, "51.2 MiB"},
        {0x1p30 * 0.1, SP_BYTES, "0.1 GiB"},
        {524288.0, SP_BYTES, "0.5 MiB"},
        {51200.0, SP_BYTES, "50.0 KiB"},
        {96.0, SP_BYTES, "96.0 B"},
        {0.0, SP_BYTES, "0 B"},
        {-3221225472.0, SP_BYTES, "-3.00 GiB"},
        {4.8e12, SP_BYTES_PER_S, "4800 GB/s"},
        {412.345e9, SP_BYTES_PER_S, "412 GB/s"},
        {0.125e9, SP_BYTES_PER_S, "0.125 GB/s"},
        {23.7e6, SP_BYTES_PER_S, "23.7 MB/s"},
        {2500.0, SP_BYTES_PER_S, "2.50 KB/s"},
        {250.0, SP_BYTES_PER_S, "250 B/s"},
        {1.234e-6, SP_SECONDS, "1.23 us"},
        {850e-9, SP_SECONDS, "850 ns"},
        {12.345e-3, SP_SECONDS, "12.3 ms"},
        {0.99949, SP_SECONDS, "999 ms"},
        {0.99951, SP_SECONDS, "1.00 s"},
        {12.36, SP_SECONDS, "12.4 s"},
        {99.96, SP_SECONDS, "100 s"},
        {9.996, SP_SECONDS, "10.0 s"},
        {119.0, SP_SECONDS, "119 s"},
        {150.0, SP_SECONDS, "2.50 min"},
        {9000.0, SP_SECONDS, "2.50 h"},
        {1234567.0, SP_SECONDS, "14.3 d"},
        {0.0, SP_SECONDS, "0 s"},
        {-0.0021, SP_SECONDS, "-2.10 ms"},
        {989.4e12, SP_FLOP_PER_S, "989 TFLOP/s"},
        {1.979e15, SP_FLOP_PER_S, "1.98 PFLOP/s"},
        {66.94e9, SP_FLOP_PER_S, "66.9 GFLOP/s"},
        {7.0, SP_FLOP_PER_S, "7.00 FLOP/s"},
        {700.0, SP_WATT, "700 W"},
        {10200.0, SP_WATT, "10.2 kW"},
        {2.5e6, SP_WATT, "2.50 MW"},
        {2.99, SP_PER_HOUR, "2.99/h"},
        {0.4567, SP_FRACTION, "45.7%"},
        {1.0, SP_FRACTION, "100%"},
        {0.0, SP_FRACTION, "0%"},
        {0.97, SP_PURE, "0.97"},
        {3.14159, SP_PURE, "3.14"},
        {132.0, SP_COUNT, "132"},
        {1234567.0, SP_COUNT, "1234567"},
        {-5.0, SP_COUNT, "-5"},
        {131072.0, SP_TOKENS, "128K"},
        {1500.5, SP_TOKENS, "1500"},
        {HUGE_VAL, SP_SECONDS, "infinite"},
        {-HUGE_VAL, SP_SECONDS, "-infinite"},
        {(double)NAN, SP_BYTES, "nan"},
    };
    struct sp_arena *arena = sp_arena_open();
    for (size_t i = 0; i < SP_COUNT_OF(rows); i++) {
        assert_string_equal(sp_quantity_print(arena, rows[i].value, rows[i].dimension), rows[i].expected);
    }
    sp_arena_close(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(units_scale_to_si),
        cmocka_unit_test(bad_texts_say_what_is_wrong),
        cmocka_unit_test(every_dimension_shows_a_good_example),
        cmocka_unit_test(exact_text_is_the_shortest),
        cmocka_unit_test(exact_text_reads_back_as_the_same_value),
        cmocka_unit_test(tokens_read_back_as_the_same_count),
        cmocka_unit_test(tokens_print_binary_where_exact),
        cmocka_unit_test(reading_text_has_three_digits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
