/* Why one layout is slower or larger than another, in a sentence. */
#include "report/report.h"

#include <math.h>

static double number_of(const struct sp_json *object, const char *key)
{
    const struct sp_json *value = object == NULL ? NULL : sp_json_member(object, key);
    return value == NULL || value->type != SP_JSON_NUMBER ? 0.0 : value->number;
}

struct report_item report_largest_item(const struct report_diff *diff, const char *list, double sign, const char *other)
{
    const struct sp_json *a = sp_json_member(diff->a, list);
    const struct sp_json *b = sp_json_member(diff->b, list);
    struct report_item largest = {NULL, 0.0};
    for (const struct sp_json *own = a == NULL ? NULL : a->first; own != NULL; own = own->next) {
        double difference = own->number - number_of(b, own->key);
        if (own->key != other && sign * difference > sign * largest.difference) {
            largest = (struct report_item){own->key, difference};
        }
    }
    return largest;
}

static const char *signed_text(struct sp_arena *arena, double difference, bool is_memory)
{
    const char *sign = difference < 0.0 ? "-" : "+";
    double size = fabs(difference);
    return is_memory ? sp_format(arena, "%s%s GiB", sign, report_three(arena, size / 0x1p30))
                     : sp_format(arena, "%s%s", sign, report_step_time(arena, size));
}

/* "mostly sp exposed (+12.3 s), then bubble (+3.4 s)": the second one only when it matters. */
static const char *items_text(struct sp_arena *arena, const struct report_diff *diff, const char *list, double whole)
{
    static const double share_that_matters = 0.2;
    bool is_memory = list[0] == 'm';
    double sign = whole < 0.0 ? -1.0 : 1.0;
    struct report_item first = report_largest_item(diff, list, sign, NULL);
    if (first.name == NULL) {
        return "";
    }
    const char *text = sp_format(arena, ": mostly %s (%s)", report_words(arena, first.name),
                                 signed_text(arena, first.difference, is_memory));
    struct report_item second = report_largest_item(diff, list, sign, first.name);
    if (second.name == NULL || fabs(second.difference) < share_that_matters * fabs(first.difference)) {
        return text;
    }
    return sp_format(arena, "%s, then %s (%s)", text, report_words(arena, second.name),
                     signed_text(arena, second.difference, is_memory));
}

/* By tokens per second and GPU: the two may differ in their batch. */
static const char *speed_text(struct sp_arena *arena, const struct report_diff *diff)
{
    static const double least = 0.0005; /* rounds to 0.1 % */
    double rate_a = number_of(diff->a, "tokens_per_s_per_gpu");
    double rate_b = number_of(diff->b, "tokens_per_s_per_gpu");
    double whole = number_of(diff->a, "step_time_s") - number_of(diff->b, "step_time_s");
    bool is_slower = rate_a < rate_b;
    double gain = is_slower ? rate_b / rate_a - 1.0 : rate_a / rate_b - 1.0;
    if (gain < least) {
        return sp_format(arena, "A is as fast as B%s",
                         fabs(whole) > 0.0 ? items_text(arena, diff, "time_s", whole) : "");
    }
    bool is_explained = is_slower == (whole > 0.0);
    return sp_format(arena, "A is %s %% %s than B%s", report_percent(arena, gain), is_slower ? "slower" : "faster",
                     is_explained ? items_text(arena, diff, "time_s", whole) : " per GPU");
}

static const char *size_text(struct sp_arena *arena, const struct report_diff *diff)
{
    static const double least = 0x1p20; /* bytes */
    double whole = number_of(diff->a, "peak_bytes") - number_of(diff->b, "peak_bytes");
    if (fabs(whole) < least) {
        return "both need the same memory";
    }
    return sp_format(arena, "it needs %s GiB %s%s", report_three(arena, fabs(whole) / 0x1p30),
                     whole > 0.0 ? "more" : "less", items_text(arena, diff, "memory_bytes", whole));
}

static const char *fit_text(const struct report_diff *diff)
{
    bool fits_a = report_tree_at(diff->a, "fits")->boolean;
    bool fits_b = report_tree_at(diff->b, "fits")->boolean;
    if (fits_a == fits_b) {
        return fits_a ? "" : "; neither fits";
    }
    return fits_a ? "; only A fits" : "; only B fits";
}

const char *report_diff_words(struct sp_arena *arena, const struct report_diff *diff)
{
    return sp_format(arena, "%s; %s%s", speed_text(arena, diff), size_text(arena, diff), fit_text(diff));
}
