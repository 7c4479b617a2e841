#include "base/base.h"

#include <assert.h>
#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Value = number * 10^exponent * factor. The power of ten is added to the exponent in the text before strtod sees it,
 * so that "1.2us" is the double nearest to 1.2e-6 rather than a rounded product; the factors of bits and of binary
 * units are powers of two and exact too. */
struct unit {
    const char *text;
    double factor;
    int exponent;
    bool is_written; /* sp_quantity_exact may use it; factor is 1 */
};

/* Digits of a number that are read; more would not fit a double anyway. */
enum { NUMBER_LENGTH = 64, LARGEST_EXPONENT = 9999 };

/* From here on doubles skip whole numbers, so a larger one may not be what was typed. */
static const double WHOLE_LIMIT = 9007199254740992.0; /* 2^53 */

/* From the largest written unit to the smallest; then those that are only read. */
#define SIZE_UNITS(per)                                                                                                \
    {"PB" per, 1.0, 15, true}, {"TB" per, 1.0, 12, true}, {"GB" per, 1.0, 9, true}, {"MB" per, 1.0, 6, true},          \
        {"KB" per, 1.0, 3, true}, {"B" per, 1.0, 0, true}, {"KiB" per, 0x1p10, 0, false},                              \
        {"MiB" per, 0x1p20, 0, false}, {"GiB" per, 0x1p30, 0, false}, {"TiB" per, 0x1p40, 0, false},                   \
        {"b" per, 0x1p-3, 0, false}, {"Kb" per, 0x1p-3, 3, false}, {"Mb" per, 0x1p-3, 6, false},                       \
        {"Gb" per, 0x1p-3, 9, false}, {"Tb" per, 0x1p-3, 12, false}, {"Pb" per, 0x1p-3, 15, false},                    \
        {"Kib" per, 0x1p7, 0, false}, {"Mib" per, 0x1p17, 0, false}, {"Gib" per, 0x1p27, 0, false},                    \
    {                                                                                                                  \
        "Tib" per, 0x1p37, 0, false                                                                                    \
    }

static const struct unit no_units[] = {{"", 1.0, 0, true}, {NULL, 0.0, 0, false}};
static const struct unit token_units[] = {
    {"", 1.0, 0, true},      {"K", 0x1p10, 0, false}, {"M", 0x1p20, 0, false},
    {"G", 0x1p30, 0, false}, {NULL, 0.0, 0, false},
};
static const struct unit size_units[] = {SIZE_UNITS(""), {NULL, 0.0, 0, false}};
static const struct unit rate_units[] = {SIZE_UNITS("/s"), {NULL, 0.0, 0, false}};
static const struct unit time_units[] = {
    {"s", 1.0, 0, true},     {"ms", 1.0, -3, true},   {"us", 1.0, -6, true},    {"ns", 1.0, -9, true},
    {"min", 60.0, 0, false}, {"h", 3600.0, 0, false}, {"d", 86400.0, 0, false}, {NULL, 0.0, 0, false},
};
static const struct unit flop_units[] = {
    {"PFLOP/s", 1.0, 15, true}, {"TFLOP/s", 1.0, 12, true}, {"GFLOP/s", 1.0, 9, true}, {"MFLOP/s", 1.0, 6, true},
    {"KFLOP/s", 1.0, 3, true},  {"FLOP/s", 1.0, 0, true},   {NULL, 0.0, 0, false},
};
static const struct unit power_units[] = {
    {"MW", 1.0, 6, true},
    {"kW", 1.0, 3, true},
    {"W", 1.0, 0, true},
    {NULL, 0.0, 0, false},
};
static const struct unit clock_units[] = {
    {"GHz", 1.0, 9, true},
    {"MHz", 1.0, 6, true},
    {"Hz", 1.0, 0, true},
    {NULL, 0.0, 0, false},
};
static const struct unit price_units[] = {{"/h", 1.0, 0, true}, {NULL, 0.0, 0, false}};
static const struct unit fraction_units[] = {{"", 1.0, 0, true}, {"%", 1.0, -2, false}, {NULL, 0.0, 0, false}};

struct dimension {
    const char *expects;
    const char *noun; /* what a unit of this dimension measures; NULL: never named as the owner of a unit */
    const char *unit_list;
    const struct unit *units;
    bool is_whole;
};

static const struct dimension dimensions[SP_N_DIMENSIONS] = {
    [SP_PURE] = {"a plain number such as \"0.97\"", NULL, "none", no_units, false},
    [SP_COUNT] = {"a whole number such as \"132\"", NULL, "none", no_units, true},
    [SP_TOKENS] = {"a number of tokens such as \"128K\"", NULL, "K, M, G, binary", token_units, true},
    [SP_BYTES] = {"a size such as \"141GB\"", "a size", "B, KB, MB, GB, TB, PB, KiB, MiB, GiB, TiB; b for bits",
                  size_units, false},
    [SP_SECONDS] = {"a time such as \"1.2us\"", "a time", "ns, us, ms, s, min, h, d", time_units, false},
    [SP_BYTES_PER_S] = {"a rate such as \"4.8TB/s\"", "a rate",
                        "B/s, KB/s, MB/s, GB/s, TB/s, PB/s, KiB/s, MiB/s, GiB/s, TiB/s; b for bits", rate_units, false},
    [SP_FLOP_PER_S] = {"an arithmetic rate such as \"989TFLOP/s\"", "an arithmetic rate",
                       "FLOP/s, KFLOP/s, MFLOP/s, GFLOP/s, TFLOP/s, PFLOP/s", flop_units, false},
    [SP_WATT] = {"a power such as \"700W\"", "a power", "W, kW, MW", power_units, false},
    [SP_HERTZ] = {"a clock such as \"1.98GHz\"", "a clock", "Hz, MHz, GHz", clock_units, false},
    [SP_PER_HOUR] = {"a price per hour such as \"2.99/h\"", "a price", "/h", price_units, false},
    [SP_FRACTION] = {"a fraction from 0 to 1 such as \"0.85\" or \"85%\"", NULL, "none or %", fraction_units, false},
};

/* The parts of a text such as "1.5e3GB"; mantissa and unit point into it. */
struct number {
    const char *text;
    const char *mantissa;
    int mantissa_length;
    int exponent;
    const char *unit;
    bool is_digits; /* neither point nor exponent */
};

const char *sp_dimension_expects(enum sp_dimension dimension)
{
    return dimensions[dimension].expects;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static const char *skip_digits(const char *at)
{
    while (is_digit(*at)) {
        at++;
    }
    return at;
}

/* -Wfloat-equal is on, so that nobody compares doubles by accident; here it is meant. */
static bool same_value(double a, double b)
{
    return !(a < b) && !(a > b);
}

/* DIGITS [. DIGITS] [e [+-] DIGITS] UNIT. strtod alone would also take "0x10", "nan", " 5" and "+5". */
static bool scan(const char *text, struct number *number)
{
    if (!is_digit(text[0])) {
        return false;
    }
    const char *at = skip_digits(text);
    if (at[0] == '.' && is_digit(at[1])) {
        at = skip_digits(at + 1);
    }
    *number = (struct number){.text = text, .mantissa = text, .unit = at};
    number->mantissa_length = at - text > NUMBER_LENGTH ? NUMBER_LENGTH + 1 : (int)(at - text);
    number->is_digits = skip_digits(text) == at;
    if (at[0] != 'e' && at[0] != 'E') {
        return true;
    }
    bool is_negative = at[1] == '-';
    at += at[1] == '-' || at[1] == '+' ? 2 : 1;
    if (!is_digit(*at)) {
        return true; /* the letter belongs to the unit */
    }
    for (; is_digit(*at); at++) {
        number->exponent = number->exponent > LARGEST_EXPONENT ? LARGEST_EXPONENT : number->exponent * 10 + (*at - '0');
    }
    number->exponent = is_negative ? -number->exponent : number->exponent;
    number->unit = at;
    number->is_digits = false;
    return true;
}

static double value_in(const struct number *number, const struct unit *unit)
{
    char text[NUMBER_LENGTH + 32];
    int length = snprintf(text, sizeof(text), "%.*se%d", number->mantissa_length, number->mantissa,
                          number->exponent + unit->exponent);
    assert(length > 0 && (size_t)length < sizeof(text));
    return strtod(text, NULL) * unit->factor;
}

static const struct unit *find_unit(const struct unit *units, const char *text)
{
    for (const struct unit *unit = units; unit->text != NULL; unit++) {
        if (strcmp(unit->text, text) == 0) {
            return unit;
        }
    }
    return NULL;
}

SP_PRINTF(4, 5)
static bool refuse(struct sp_error *err, enum sp_dimension dimension, const char *text, const char *format, ...)
{
    char why[256];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(why, sizeof(why), format, args);
    va_end(args);
    const char *dots = strlen(text) > NUMBER_LENGTH ? "..." : "";
    return sp_fail(err, SP_ERROR_USAGE, "expected %s, found \"%.*s%s\" (%s)", dimensions[dimension].expects,
                   (int)NUMBER_LENGTH, text, dots, why);
}

/* Says as precisely as possible what is wrong with a unit that the dimension does not have. */
static bool refuse_unit(struct sp_error *err, enum sp_dimension dimension, const struct number *number)
{
    const char *unit = number->unit;
    if (unit[0] == '\0') {
        return refuse(err, dimension, number->text, "add a unit");
    }
    if (isspace((unsigned char)unit[0])) {
        return refuse(err, dimension, number->text, "no spaces between the number and its unit or after it");
    }
    for (size_t other = 0; other < SP_COUNT_OF(dimensions); other++) {
        if (dimensions[other].noun != NULL && find_unit(dimensions[other].units, unit) != NULL) {
            return refuse(err, dimension, number->text, "the unit \"%s\" is that of %s; units here: %s", unit,
                          dimensions[other].noun, dimensions[dimension].unit_list);
        }
    }
    return refuse(err, dimension, number->text, "unknown unit \"%.16s\"; units here: %s", unit,
                  dimensions[dimension].unit_list);
}

static bool refuse_non_number(struct sp_error *err, enum sp_dimension dimension, const char *text)
{
    if (text[0] == '\0') {
        return sp_fail(err, SP_ERROR_USAGE, "expected %s, found an empty text", dimensions[dimension].expects);
    }
    if (text[0] == '-') {
        return refuse(err, dimension, text, "must not be negative");
    }
    return refuse(err, dimension, text, "must start with a digit");
}

static bool has_only_zeros(const struct number *number)
{
    for (int i = 0; i < number->mantissa_length; i++) {
        if (number->mantissa[i] != '0' && number->mantissa[i] != '.') {
            return false;
        }
    }
    return true;
}

static bool check_value(const struct number *number, enum sp_dimension dimension, double value, struct sp_error *err)
{
    if (!isfinite(value)) {
        return refuse(err, dimension, number->text, "too large");
    }
    if (!(value > 0.0) && !has_only_zeros(number)) {
        return refuse(err, dimension, number->text, "too small");
    }
    if (dimension == SP_FRACTION && value > 1.0) {
        return refuse(err, dimension, number->text, "above 1");
    }
    if (!dimensions[dimension].is_whole) {
        return true;
    }
    /* "1.5K" tokens are whole, but "8.0" or "1e3" where a plain integer stands would hide a slip of the pen. */
    if ((number->unit[0] == '\0' && !number->is_digits) || !same_value(value, floor(value))) {
        return refuse(err, dimension, number->text, "not a whole number");
    }
    if (value >= WHOLE_LIMIT) {
        return refuse(err, dimension, number->text, "larger than 9007199254740991, the most that is kept exactly");
    }
    return true;
}

bool sp_quantity_parse(const char *text, enum sp_dimension dimension, double *value, struct sp_error *err)
{
    struct number number;
    if (!scan(text, &number)) {
        return refuse_non_number(err, dimension, text);
    }
    if (number.mantissa_length > NUMBER_LENGTH) {
        return refuse(err, dimension, text, "more than %d digits", (int)NUMBER_LENGTH);
    }
    const struct unit *unit = find_unit(dimensions[dimension].units, number.unit);
    if (unit == NULL) {
        return refuse_unit(err, dimension, &number);
    }
    double parsed = value_in(&number, unit);
    if (!check_value(&number, dimension, parsed, err)) {
        return false;
    }
    *value = parsed;
    return true;
}

/* Fails where no text of 17 digits in this unit reads back as the value. */
static bool write_in(char *text, size_t size, double value, const struct unit *unit)
{
    double scaled = value / pow(10.0, unit->exponent);
    if (scaled < WHOLE_LIMIT && same_value(scaled, floor(scaled))) {
        (void)snprintf(text, size, "%.0f%s", scaled, unit->text); /* %g would turn to an exponent */
        struct number number;
        if (scan(text, &number) && same_value(value_in(&number, unit), value)) {
            return true;
        }
    }
    for (int digits = 15; digits <= 17; digits++) {
        (void)snprintf(text, size, "%.*g%s", digits, scaled, unit->text);
        struct number number;
        if (scan(text, &number) && same_value(value_in(&number, unit), value)) {
            return true;
        }
    }
    return false;
}

static double size_of_unit(const struct unit *unit)
{
    return pow(10.0, unit->exponent) * unit->factor;
}

/* An exponent is read but looks odd, so anything without one is preferred. */
static bool is_better(const char *text, const char *best)
{
    bool has_exponent = strchr(text, 'e') != NULL;
    bool best_has_exponent = strchr(best, 'e') != NULL;
    if (best[0] == '\0' || has_exponent != best_has_exponent) {
        return best[0] == '\0' || best_has_exponent;
    }
    return strlen(text) < strlen(best);
}

char *sp_quantity_exact(struct sp_arena *arena, double value, enum sp_dimension dimension)
{
    assert(isfinite(value) && value >= 0.0);
    if (dimension == SP_TOKENS && value < WHOLE_LIMIT && same_value(value, floor(value))) {
        return sp_tokens_print(arena, (int64_t)value);
    }
    char best[96] = "";
    const struct unit *base = NULL;
    for (const struct unit *unit = dimensions[dimension].units; unit->text != NULL && unit->is_written; unit++) {
        base = unit->exponent == 0 ? unit : base;
        bool is_smallest = unit[1].text == NULL || !unit[1].is_written;
        bool is_fitting = value >= size_of_unit(unit) || (is_smallest && value > 0.0);
        char text[sizeof(best)];
        if (is_fitting && write_in(text, sizeof(text), value, unit) && is_better(text, best)) {
            memcpy(best, text, sizeof(best));
        }
    }
    assert(base != NULL);
    if (best[0] == '\0' && !write_in(best, sizeof(best), value, base)) {
        assert(false); /* 17 digits always do */
    }
    return sp_strdup(arena, best);
}

char *sp_tokens_print(struct sp_arena *arena, int64_t tokens)
{
    static const struct {
        int64_t size;
        const char *unit;
    } scales[] = {{INT64_C(1) << 30, "G"}, {INT64_C(1) << 20, "M"}, {INT64_C(1) << 10, "K"}};
    for (size_t i = 0; i < SP_COUNT_OF(scales); i++) {
        if (tokens != 0 && tokens % scales[i].size == 0) {
            return sp_format(arena, "%lld%s", (long long)(tokens / scales[i].size), scales[i].unit);
        }
    }
    return sp_format(arena, "%lld", (long long)tokens);
}

/* ---- for reading ------------------------------------------------------------------------------------------------ */

/* Used where the value is at least `from` of the unit; the last row takes the rest. */
struct scale {
    double from;
    double size;
    const char *unit;
};

static const struct scale plain_scale[] = {{0.0, 1.0, ""}};
static const struct scale size_scales[] = {
    {0.1, 0x1p30, " GiB"},
    {0.1, 0x1p20, " MiB"},
    {1.0, 0x1p10, " KiB"},
    {0.0, 1.0, " B"},
};
static const struct scale rate_scales[] = {
    {0.1, 1e9, " GB/s"},
    {0.1, 1e6, " MB/s"},
    {1.0, 1e3, " KB/s"},
    {0.0, 1.0, " B/s"},
};
static const struct scale time_scales[] = {
    {2.0, 86400.0, " d"}, {2.0, 3600.0, " h"}, {2.0, 60.0, " min"}, {1.0, 1.0, " s"},
    {1.0, 1e-3, " ms"},   {1.0, 1e-6, " us"},  {0.0, 1e-9, " ns"},
};
static const struct scale flop_scales[] = {
    {1.0, 1e15, " PFLOP/s"},
    {1.0, 1e12, " TFLOP/s"},
    {1.0, 1e9, " GFLOP/s"},
    {0.0, 1.0, " FLOP/s"},
};
static const struct scale power_scales[] = {{1.0, 1e6, " MW"}, {1.0, 1e3, " kW"}, {0.0, 1.0, " W"}};
static const struct scale clock_scales[] = {{1.0, 1e9, " GHz"}, {1.0, 1e6, " MHz"}, {0.0, 1.0, " Hz"}};
static const struct scale price_scale[] = {{0.0, 1.0, "/h"}};
static const struct scale percent_scale[] = {{0.0, 0.01, "%"}};

static const struct {
    const struct scale *scales;
    size_t n_scales;
} reading_scales[SP_N_DIMENSIONS] = {
    [SP_PURE] = {plain_scale, SP_COUNT_OF(plain_scale)},
    [SP_COUNT] = {plain_scale, SP_COUNT_OF(plain_scale)},
    [SP_TOKENS] = {plain_scale, SP_COUNT_OF(plain_scale)},
    [SP_BYTES] = {size_scales, SP_COUNT_OF(size_scales)},
    [SP_SECONDS] = {time_scales, SP_COUNT_OF(time_scales)},
    [SP_BYTES_PER_S] = {rate_scales, SP_COUNT_OF(rate_scales)},
    [SP_FLOP_PER_S] = {flop_scales, SP_COUNT_OF(flop_scales)},
    [SP_WATT] = {power_scales, SP_COUNT_OF(power_scales)},
    [SP_HERTZ] = {clock_scales, SP_COUNT_OF(clock_scales)},
    [SP_PER_HOUR] = {price_scale, SP_COUNT_OF(price_scale)},
    [SP_FRACTION] = {percent_scale, SP_COUNT_OF(percent_scale)},
};

/* Rounds to three significant digits, as printf does. */
static double round_to_three(double value)
{
    char text[32];
    (void)snprintf(text, sizeof(text), "%.2e", value);
    return strtod(text, NULL);
}

static const struct scale *reading_scale(enum sp_dimension dimension, double magnitude)
{
    const struct scale *scales = reading_scales[dimension].scales;
    size_t n_scales = reading_scales[dimension].n_scales;
    for (size_t i = 0; i < n_scales; i++) {
        /* Zero is "0 s", not "0 ns". Rounding comes first, so that 999.96 us is "1.00 ms". */
        bool is_here = magnitude > 0.0 ? round_to_three(magnitude / scales[i].size) >= scales[i].from
                                       : same_value(scales[i].size, 1.0);
        if (is_here) {
            return &scales[i];
        }
    }
    return &scales[n_scales - 1];
}

static char *print_three_digits(struct sp_arena *arena, const char *sign, double scaled, const char *unit)
{
    double rounded = round_to_three(scaled);
    if (!(scaled > 0.0)) {
        return sp_format(arena, "0%s", unit);
    }
    if (rounded >= 1.0) {
        int decimals = rounded >= 100.0 ? 0 : rounded >= 10.0 ? 1 : 2;
        return sp_format(arena, "%s%.*f%s", sign, decimals, scaled, unit);
    }
    return sp_format(arena, "%s%.3g%s", sign, scaled, unit);
}

char *sp_quantity_print(struct sp_arena *arena, double value, enum sp_dimension dimension)
{
    if (!isfinite(value)) {
        return sp_strdup(arena, isnan(value) ? "nan" : value > 0.0 ? "infinite" : "-infinite");
    }
    const char *sign = value < 0.0 ? "-" : "";
    double magnitude = fabs(value);
    bool is_whole = magnitude < WHOLE_LIMIT && same_value(magnitude, floor(magnitude));
    if (dimension == SP_TOKENS && is_whole) {
        return sp_tokens_print(arena, (int64_t)value);
    }
    if (dimension == SP_COUNT && is_whole) {
        return sp_format(arena, "%lld", (long long)value);
    }
    const struct scale *scale = reading_scale(dimension, magnitude);
    return print_three_digits(arena, sign, magnitude / scale->size, scale->unit);
}
