/* Errors against measured runs (tests/validation) may not grow unnoticed. `make validate` shows the rows behind a
 * figure; `build/release/validation/run_validation tests/validation bounds` prints this table anew. A change that makes
 * a median worse says so in its commit, with the reason. */
#include "support/support.h"
#include "support/validation.h"

#include <string.h>

enum { MAX_SUMMARIES = 64 };
static const char folder[] = "tests/validation";
static const double PERCENT = 100;

static const struct bound {
    const char *source;
    const char *group;
    const char *quantity;
    int n;              /* rows compared when the bound was set */
    double median_frac; /* then */
    double bound_frac;
} bounds[] = {
    {"megatron-b200", "TP, PP", "step_time_s", 8, 0.016036, 0.016837},
    {"megatron-b200", "TP, PP", "peak_allocated_bytes", 8, 0.000281, 0.000481},
    {"megatron-b200", "TP, PP", "peak_reserved_bytes", 8, 0.001286, 0.001486},
    {"ring-flash-attention", "ring", "attention_forward_per_s", 2, 0.082888, 0.087033},
    {"ring-flash-attention", "ring", "attention_forward_backward_per_s", 2, 0.048166, 0.050574},
};

static const struct validation_summary *find(const struct validation_summary *summaries, int n,
                                             const struct bound *bound)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(summaries[i].group, bound->group) == 0 &&
            strcmp(summaries[i].quantity->name, bound->quantity) == 0) {
            return &summaries[i];
        }
    }
    return NULL;
}

static bool has_bound(const char *source, const struct validation_summary *summary)
{
    for (size_t i = 0; i < SP_COUNT_OF(bounds); i++) {
        if (strcmp(bounds[i].source, source) == 0 && find(summary, 1, &bounds[i]) != NULL) {
            return true;
        }
    }
    return false;
}

/* What the bounds do not cover: rows that are not priced yet, and figures without a bound. */
static void print_uncovered(const char *source, const struct validation_summary *summary)
{
    int left_out = summary->n_not_built + summary->n_refused;
    if (left_out > 0) {
        print_message("# %s, %s, %s: %d rows compared, %d not priced yet\n", source, summary->group,
                      summary->quantity->name, summary->n_compared, left_out);
    }
    if (summary->n_compared > 0 && !has_bound(source, summary)) {
        print_message("# %s, %s, %s: median %.3f %% of %d rows, no bound yet\n", source, summary->group,
                      summary->quantity->name, PERCENT * summary->median_frac, summary->n_compared);
    }
}

static int check_source(struct sp_arena *arena, const char *name)
{
    struct sp_error err = {0};
    struct validation_source source;
    struct validation_summary summaries[MAX_SUMMARIES];
    if (!validation_read(arena, folder, name, &source, &err)) {
        fail_msg("%s", err.text);
    }
    int n = validation_summarise(arena, &source, true, summaries, MAX_SUMMARIES);
    int n_worse = 0;
    for (size_t i = 0; i < SP_COUNT_OF(bounds); i++) {
        const struct bound *bound = &bounds[i];
        if (strcmp(bound->source, name) != 0) {
            continue;
        }
        const struct validation_summary *now = find(summaries, n, bound);
        if (now == NULL || now->n_compared < bound->n || now->median_frac > bound->bound_frac) {
            print_error("%s, %s, %s: median %.3f %% of %d rows; bound %.3f %%, set at %.3f %% of %d rows\n", name,
                        bound->group, bound->quantity, now == NULL ? 0 : PERCENT * now->median_frac,
                        now == NULL ? 0 : now->n_compared, PERCENT * bound->bound_frac, PERCENT * bound->median_frac,
                        bound->n);
            n_worse++;
        }
    }
    for (int i = 0; i < n; i++) {
        print_uncovered(name, &summaries[i]);
    }
    return n_worse;
}

static void medians_stay_within_their_bounds(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    struct sp_error err = {0};
    struct sp_texts names;
    int n_worse = 0;
    assert_true(validation_names(arena, folder, &names, &err));
    assert_true(names.count > 0);
    for (size_t i = 0; i < names.count; i++) {
        n_worse += check_source(arena, names.items[i]);
    }
    assert_int_equal(n_worse, 0);
    sp_arena_close(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(medians_stay_within_their_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
