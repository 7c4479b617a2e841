/* Numbers and the nearest legal values, as refusals name them. */
#include "spec/spec_internal.h"

enum { MOST_DIVISORS = 10 };

int64_t lcm_of(int64_t a, int64_t b)
{
    return a / gcd_of(a, b) * b;
}

static int64_t distance(int64_t a, int64_t b)
{
    return a > b ? a - b : b - a;
}

/* Divisors in ascending order; returns how many, at most `most`, the furthest from `near` dropped first. */
static int nearest_divisors(int64_t n, int64_t near, int most, int64_t *divisors)
{
    int count = 0;
    for (int64_t divisor = 1; divisor <= n / divisor; divisor++) {
        if (n % divisor != 0) {
            continue;
        }
        const int64_t pair[2] = {divisor, n / divisor};
        for (int i = 0; i < (pair[0] == pair[1] ? 1 : 2); i++) {
            int at = count;
            while (at > 0 && divisors[at - 1] > pair[i]) {
                divisors[at] = divisors[at - 1];
                at--;
            }
            divisors[at] = pair[i];
            count++;
            if (count > most) {
                bool drops_first = distance(divisors[0], near) > distance(divisors[count - 1], near);
                for (int move = 0; drops_first && move + 1 < count; move++) {
                    divisors[move] = divisors[move + 1];
                }
                count--;
            }
        }
    }
    return count;
}

const char *divisors_text(struct sp_arena *arena, int64_t n, int64_t near)
{
    int64_t divisors[MOST_DIVISORS + 1] = {0};
    int count = nearest_divisors(n, near, MOST_DIVISORS, divisors);
    const char *text = "";
    for (int i = 0; i < count; i++) {
        text = sp_format(arena, "%s%s%lld", text, i == 0 ? "" : ", ", (long long)divisors[i]);
    }
    return text;
}

const char *multiples_text(struct sp_arena *arena, int64_t value, int64_t unit)
{
    int64_t below = value / unit * unit;
    int64_t above = below + unit;
    if (below == 0) {
        return sp_format(arena, "%lld", (long long)unit);
    }
    return sp_format(arena, "%lld, %lld", (long long)below, (long long)above);
}
