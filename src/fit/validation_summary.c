/* Errors of rows, put together by what they have in common. */
#include "fit/validation_internal.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const validation_by_names[] = {"quantity", "method", "seq", "framework", "source", NULL};

/* ---- keys --------------------------------------------------------------------------------------------------------- */

/* Lengths by ranges of a factor of four: each is a name, and holds what is shorter than its bound. */
static const struct {
    const char *name;
    int64_t below;
} lengths[] = {{"below 4K", INT64_C(4) << 10},      {"4K to 16K", INT64_C(16) << 10},
               {"16K to 64K", INT64_C(64) << 10},   {"64K to 256K", INT64_C(256) << 10},
               {"256K to 1M", INT64_C(1024) << 10}, {"1M and longer", INT64_MAX}};
static const char unknown[] = "not known";

static const char *length_name(int64_t seq)
{
    size_t i = 0;
    while (seq >= lengths[i].below && i + 1 < SP_COUNT_OF(lengths)) {
        i++;
    }
    return seq == 0 ? unknown : lengths[i].name;
}

static const char *key_of(const struct validation_source *source, const struct validation_row *row,
                          enum validation_by by)
{
    switch (by) {
    case VALIDATION_BY_METHOD:
        return row->method == NULL ? unknown : row->method;
    case VALIDATION_BY_SEQ:
        return length_name(row->seq);
    case VALIDATION_BY_FRAMEWORK:
        return row->framework == NULL ? unknown : row->framework;
    case VALIDATION_BY_SOURCE:
        return source->name;
    case VALIDATION_BY_GROUP:
        return row->group;
    case VALIDATION_BY_QUANTITY:
    case N_VALIDATION_BY:
        break;
    }
    return row->quantity->name;
}

/* ---- sums --------------------------------------------------------------------------------------------------------- */

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

double validation_median(double *values, int n)
{
    assert(n > 0);
    qsort(values, (size_t)n, sizeof(values[0]), compare_doubles);
    return (values[(n - 1) / 2] + values[n / 2]) / 2.0;
}

/* Summaries under construction; members[i] is the place of the i-th row that counts. */
struct summing {
    struct validation_summary *summaries;
    int n;
    double *errors; /* scratch */
};

static void count_row(struct validation_summary *summary, const struct validation_row *row)
{
    summary->n_not_built += row->state == VALIDATION_NOT_BUILT ? 1 : 0;
    summary->n_refused += row->state == VALIDATION_REFUSED ? 1 : 0;
    summary->n_not_expressible += row->state == VALIDATION_NOT_EXPRESSIBLE ? 1 : 0;
    if (row->state != VALIDATION_COMPARED) {
        return;
    }
    summary->n_compared++;
    summary->mape_frac += fabs(row->error_frac);
    summary->bias_frac += row->error_frac;
    summary->max_frac = fmax(summary->max_frac, fabs(row->error_frac));
    if (row->has_interval) {
        summary->n_intervals++;
        summary->n_within += row->measured >= row->low && row->measured <= row->high ? 1 : 0;
        summary->width_frac += (row->high - row->low) / row->predicted;
    }
}

static struct validation_summary *place_of(struct summing *summing, const char *key,
                                           const struct validation_quantity *quantity)
{
    for (int i = 0; i < summing->n; i++) {
        struct validation_summary *summary = &summing->summaries[i];
        if (summary->quantity == quantity && strcmp(summary->key, key) == 0) {
            return summary;
        }
    }
    struct validation_summary *added = &summing->summaries[summing->n++];
    *added = (struct validation_summary){.key = key, .quantity = quantity};
    return added;
}

static int count_rows(const struct validation_set *set)
{
    int n = 0;
    for (int i = 0; i < set->n_sources; i++) {
        n += set->sources[i].n_rows;
    }
    return n;
}

static bool has_role(const struct validation_row *row, unsigned roles)
{
    return (roles >> (unsigned)row->role & 1U) != 0;
}

/* Which rows belong to a summary. */
struct selection {
    const struct validation_set *set;
    enum validation_by by;
    unsigned roles;
};

static void finish(const struct selection *selection, double *errors, struct validation_summary *summary)
{
    int n = 0;
    for (int i = 0; i < selection->set->n_sources; i++) {
        const struct validation_source *source = &selection->set->sources[i];
        for (int j = 0; j < source->n_rows; j++) {
            const struct validation_row *row = &source->rows[j];
            if (row->state == VALIDATION_COMPARED && has_role(row, selection->roles) &&
                row->quantity == summary->quantity && strcmp(key_of(source, row, selection->by), summary->key) == 0) {
                errors[n++] = fabs(row->error_frac);
            }
        }
    }
    assert(n == summary->n_compared);
    if (n > 0) {
        summary->median_frac = validation_median(errors, n);
        summary->mape_frac /= n;
        summary->bias_frac /= n;
    }
    summary->width_frac /= summary->n_intervals > 0 ? summary->n_intervals : 1;
}

static const struct sp_json *of_group(const struct sp_json *groups, const struct validation_summary *summary)
{
    const struct sp_json *group = groups == NULL ? NULL : sp_json_member(groups, summary->key);
    return group == NULL ? NULL : sp_json_member(group, summary->quantity->name);
}

/* What the file of a source says of its groups. */
static void read_targets(const struct validation_source *source, struct validation_summary *summary)
{
    const struct sp_json *target = of_group(source->targets, summary);
    const struct sp_json *miss = of_group(source->misses, summary);
    summary->target_frac = target == NULL ? 0.0 : target->number;
    summary->miss = miss == NULL ? NULL : miss->string;
}

/* Lengths by their bounds, other keys by where they come first. */
static int rank_of(const struct validation_summary *summaries, int n, const char *key, enum validation_by by)
{
    int i = 0;
    if (by == VALIDATION_BY_SEQ) {
        while (i < (int)SP_COUNT_OF(lengths) && strcmp(lengths[i].name, key) != 0) {
            i++;
        }
        return i;
    }
    while (i < n && strcmp(summaries[i].key, key) != 0) {
        i++;
    }
    return i;
}

/* What has one key stands together, in its order. */
static struct validation_summary *sort_by_key(struct sp_arena *arena, const struct validation_summary *summaries, int n,
                                              enum validation_by by)
{
    struct validation_summary *sorted = sp_arena_array(arena, (size_t)n + 1, sizeof(*sorted));
    int most = n > (int)SP_COUNT_OF(lengths) ? n : (int)SP_COUNT_OF(lengths);
    int at = 0;
    for (int rank = 0; rank <= most; rank++) {
        for (int i = 0; i < n; i++) {
            if (rank_of(summaries, n, summaries[i].key, by) == rank) {
                sorted[at++] = summaries[i];
            }
        }
    }
    assert(at == n);
    return sorted;
}

int validation_summarise(struct sp_arena *arena, const struct validation_set *set, enum validation_by by,
                         unsigned roles, struct validation_summary **summaries)
{
    size_t n_rows = (size_t)count_rows(set) + 1;
    struct summing summing = {.summaries = sp_arena_array(arena, n_rows, sizeof(struct validation_summary)),
                              .errors = sp_arena_array(arena, n_rows, sizeof(double))};
    const struct selection selection = {.set = set, .by = by, .roles = roles};
    assert(by != VALIDATION_BY_GROUP || set->n_sources == 1);
    for (int i = 0; i < set->n_sources; i++) {
        const struct validation_source *source = &set->sources[i];
        for (int j = 0; j < source->n_rows; j++) {
            if (has_role(&source->rows[j], roles)) {
                count_row(place_of(&summing, key_of(source, &source->rows[j], by), source->rows[j].quantity),
                          &source->rows[j]);
            }
        }
    }
    for (int i = 0; i < summing.n; i++) {
        finish(&selection, summing.errors, &summing.summaries[i]);
        if (by == VALIDATION_BY_GROUP) {
            read_targets(&set->sources[0], &summing.summaries[i]);
        }
    }
    *summaries = sort_by_key(arena, summing.summaries, summing.n, by);
    return summing.n;
}

/* ---- headlines ---------------------------------------------------------------------------------------------------- */

bool validation_headline_of(struct sp_arena *arena, const struct validation_source *source,
                            enum validation_family family, unsigned roles, struct validation_summary *summary)
{
    struct validation_source own = *source;
    const struct validation_set set = {.sources = &own, .n_sources = 1};
    struct validation_summary *all = NULL;
    int n = validation_summarise(arena, &set, VALIDATION_BY_SOURCE, roles, &all);
    struct sp_texts names = {.arena = arena};
    validation_quantity_names(&names);
    for (size_t i = 0; i < names.count; i++) {
        for (int j = 0; j < n; j++) {
            if (all[j].quantity->family == family && all[j].n_compared > 0 &&
                strcmp(all[j].quantity->name, names.items[i]) == 0) {
                *summary = all[j];
                return true;
            }
        }
    }
    return false;
}

struct validation_headline validation_headline(struct sp_arena *arena, const struct validation_set *set,
                                               enum validation_family family, const char *grade, unsigned roles)
{
    struct validation_headline headline = {.n_sources = 0};
    double *medians = sp_arena_array(arena, (size_t)set->n_sources + 1, sizeof(*medians));
    for (int i = 0; i < set->n_sources; i++) {
        const struct validation_source *source = &set->sources[i];
        bool counts =
            !source->is_own && (grade == NULL || (source->grade != NULL && strcmp(source->grade, grade) == 0));
        struct validation_summary summary;
        if (counts && validation_headline_of(arena, source, family, roles, &summary)) {
            medians[headline.n_sources++] = summary.median_frac;
        }
    }
    if (headline.n_sources > 0) {
        headline.median_frac = validation_median(medians, headline.n_sources);
    }
    return headline;
}

const char *validation_bias_reason(struct sp_arena *arena, const struct validation_source *source, const char *quantity)
{
    const struct sp_json *own = source->biases == NULL ? NULL : sp_json_member(source->biases, quantity);
    struct sp_texts reasons = {.arena = arena};
    const struct sp_json *groups = source->misses == NULL ? NULL : source->misses->first;
    for (const struct sp_json *group = groups; own == NULL && group != NULL; group = group->next) {
        const struct sp_json *miss = sp_json_member(group, quantity);
        if (miss != NULL) {
            sp_texts_add(&reasons, "%s: %s", group->key, miss->string);
        }
    }
    if (own != NULL) {
        return own->string;
    }
    return reasons.count == 0 ? NULL : sp_join(arena, reasons.items, reasons.count, " ");
}
