/* Words and figures of a validation. */
#include "report/report.h"

#include <math.h>
#include <string.h>

static const double PERCENT = 100;

const char *report_validation_value(struct sp_arena *arena, enum validation_unit unit, double value)
{
    static const double gib = 0x1p30;
    static const double tera = 1e12;
    static const double milli = 1e-3;
    static const double micro = 1e-6;
    static const double short_s = 0.1; /* below, times are in milliseconds */
    switch (unit) {
    case VALIDATION_SECONDS:
        return value < milli / 10 ? sp_format(arena, "%.4g us", value / micro)
               : value < short_s  ? sp_format(arena, "%.4g ms", value / milli)
                                  : sp_format(arena, "%.4g s", value);
    case VALIDATION_BYTES:
        return sp_format(arena, "%.3f GiB", value / gib);
    case VALIDATION_FLOP_PER_S:
        return sp_format(arena, "%.4g TFLOP/s", value / tera);
    case VALIDATION_FRACTION:
        return sp_format(arena, "%.1f %%", value * PERCENT);
    case VALIDATION_YES_NO:
        return value > 0.0 ? "yes" : "no";
    case VALIDATION_RATE:
        break;
    }
    return sp_format(arena, "%.5g", value);
}

const char *report_validation_percent(struct sp_arena *arena, double fraction, bool has_sign)
{
    double percent = PERCENT * fraction;
    double size = fabs(percent);
    int decimals = size < 0.1 ? 3 : size < 1 ? 2 : size < 10 ? 1 : 0;
    return sp_format(arena, has_sign ? "%+.*f" : "%.*f", decimals, percent);
}

const char *report_validation_left_out(struct sp_arena *arena, const struct validation_summary *summary)
{
    const int counts[] = {summary->n_not_built, summary->n_refused, summary->n_not_expressible};
    struct sp_texts texts = {.arena = arena};
    for (int i = 0; i < (int)SP_COUNT_OF(counts); i++) {
        if (counts[i] > 0) {
            sp_texts_add(&texts, "%d %s", counts[i], validation_state_names[(int)VALIDATION_NOT_BUILT + i]);
        }
    }
    return texts.count == 0 ? "" : sp_join(arena, texts.items, texts.count, ", ");
}

const char *report_validation_coverage(struct sp_arena *arena, const struct validation_coverage *coverage)
{
    if (coverage->n == 0) {
        return coverage->n_judged == 0 ? "no row that judges is compared"
                                       : "no row that judges has an interval: steps, allocated peaks and stored lines "
                                         "of calibrated machines "
                                         "have one";
    }
    return sp_format(arena, "%.2f expected, %d of %d inside, p %.2g%s; mean width %s %%", coverage->expected_frac,
                     coverage->n_within, coverage->n, coverage->p_value,
                     coverage->is_enough
                         ? ""
                         : sp_format(arena, " (fewer than %d: too few for a verdict)", (int)VALIDATION_COVERAGE_LEAST),
                     report_validation_percent(arena, coverage->width_frac, false));
}

const char *report_validation_order(struct sp_arena *arena, const struct validation_order *order)
{
    static const char rule[] = "pairs of methods whose measured figures differ by more than";
    if (order->n == 0) {
        return sp_format(arena, "no %s %.0f %%", rule, PERCENT * order->least_gap_frac);
    }
    return sp_format(arena, "%d of %d %s %.0f %% are predicted in the same order (%.1f %%)", order->n_right, order->n,
                     rule, PERCENT * order->least_gap_frac, PERCENT * order->n_right / order->n);
}

const char *report_validation_headline(struct sp_arena *arena, const struct validation_headline *headline,
                                       const char *of_what)
{
    if (headline->n_sources == 0) {
        return sp_format(arena, "no %s", of_what);
    }
    return sp_format(arena, "%s %% over %d %s%s", report_validation_percent(arena, headline->median_frac, false),
                     headline->n_sources, of_what, sp_plural(headline->n_sources));
}

struct report_validation_counts report_validation_count(const struct validation_source *source)
{
    struct report_validation_counts counts = {.n_judged = 0};
    for (int i = 0; i < source->n_rows; i++) {
        const struct validation_row *row = &source->rows[i];
        bool is_compared = row->state == VALIDATION_COMPARED;
        counts.n_left_out += is_compared ? 0 : 1;
        counts.n_judged += is_compared && row->role == VALIDATION_JUDGE ? 1 : 0;
        counts.n_fitted += is_compared && row->role == VALIDATION_FIT ? 1 : 0;
    }
    return counts;
}

static const char *reason_of(const struct validation_row *row)
{
    return row->fitted == NULL ? "marked as fit in its file" : row->fitted;
}

static bool is_fitted_for(const struct validation_row *row, const char *reason)
{
    return row->role == VALIDATION_FIT && strcmp(reason_of(row), reason) == 0;
}

/* Where rows of the same group and quantity are not fitted to it, groups do not say which are: "a, b and 3 more rows". */
static const char *row_names(struct sp_arena *arena, const struct validation_source *source, const char *reason)
{
    enum { MOST_NAMES = 4 };
    struct sp_texts names = {.arena = arena};
    int n_more = 0;
    for (int i = 0; i < source->n_rows; i++) {
        if (!is_fitted_for(&source->rows[i], reason)) {
            continue;
        }
        if (names.count < MOST_NAMES) {
            sp_texts_add(&names, "%s", source->rows[i].name);
        } else {
            n_more++;
        }
    }
    const char *shown = sp_join(arena, names.items, names.count, "; ");
    return n_more == 0 ? shown : sp_format(arena, "%s and %d more row%s", shown, n_more, sp_plural(n_more));
}

/* "step_time_s of TP, PP", "step_time_s" where no row of that quantity judges, "all rows" where none at all does. */
static const char *fitted_rows(struct sp_arena *arena, const struct validation_source *source, const char *reason)
{
    struct sp_texts quantities = {.arena = arena};
    struct sp_texts groups = {.arena = arena};
    int n_fitted = 0;
    int n_others = 0; /* of the same quantities */
    bool is_by_row = false;
    for (int i = 0; i < source->n_rows; i++) {
        if (is_fitted_for(&source->rows[i], reason)) {
            sp_texts_add(&quantities, "%s", source->rows[i].quantity->name);
            sp_texts_add(&groups, "%s", source->rows[i].group);
            n_fitted++;
        }
    }
    for (int i = 0; i < source->n_rows; i++) {
        bool is_fitted = is_fitted_for(&source->rows[i], reason);
        bool is_other = !is_fitted && sp_texts_has(&quantities, source->rows[i].quantity->name);
        n_others += is_other ? 1 : 0;
        is_by_row = is_by_row || (is_other && sp_texts_has(&groups, source->rows[i].group));
    }
    const char *names = sp_join(arena, quantities.items, quantities.count, ", ");
    if (n_fitted == source->n_rows) {
        return "all rows";
    }
    return n_others == 0 ? names
                         : sp_format(arena, "%s of %s", names,
                                     is_by_row ? row_names(arena, source, reason)
                                               : sp_join(arena, groups.items, groups.count, "; "));
}

void report_validation_fitted(const struct validation_source *source, struct sp_texts *texts)
{
    struct sp_texts reasons = {.arena = texts->arena};
    for (int i = 0; i < source->n_rows; i++) {
        if (source->rows[i].role == VALIDATION_FIT) {
            sp_texts_add(&reasons, "%s", reason_of(&source->rows[i]));
        }
    }
    for (size_t i = 0; i < reasons.count; i++) {
        sp_texts_add(texts, "%s: %s", fitted_rows(texts->arena, source, reasons.items[i]), reasons.items[i]);
    }
}

void report_validation_biases(struct sp_arena *arena, const struct validation_set *set, bool is_whole,
                              struct sp_texts *texts)
{
    static const double most_frac = 0.05;
    for (int i = 0; i < set->n_sources; i++) {
        const struct validation_set one = {.sources = &set->sources[i], .n_sources = 1};
        struct validation_summary *summaries = NULL;
        int n = validation_summarise(arena, &one, VALIDATION_BY_QUANTITY, VALIDATION_JUDGED, &summaries);
        for (int j = 0; j < n; j++) {
            const struct validation_quantity *quantity = summaries[j].quantity;
            bool is_asked = is_whole ? quantity->unit != VALIDATION_YES_NO : quantity->family != VALIDATION_OTHER;
            if (is_asked && fabs(summaries[j].bias_frac) > most_frac) {
                const char *reason = validation_bias_reason(arena, &set->sources[i], quantity->name);
                sp_texts_add(texts, "%s, %s: %s %% over %d row%s. %s", set->sources[i].name, quantity->name,
                             report_validation_percent(arena, summaries[j].bias_frac, true), summaries[j].n_compared,
                             sp_plural(summaries[j].n_compared),
                             reason != NULL                  ? reason
                             : set->sources[i].grade == NULL ? ""
                                                             : "Not explained.");
            }
        }
    }
}
