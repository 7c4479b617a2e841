/* Whether predictions put methods in the order that was measured: what a choice between them rests on. */
#include "fit/validation_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Measured figures that are nearer to each other have no order to speak of. */
static const double least_gap_frac = 0.02;

/* Kernels or merges alone choose no method. */
static bool is_choice(const struct validation_row *row)
{
    return row->quantity->family == VALIDATION_STEP || row->quantity->is_whole;
}

static bool counts(const struct validation_row *row, unsigned roles)
{
    return row->state == VALIDATION_COMPARED && row->question_key != NULL && row->method_label != NULL &&
           is_choice(row) && (roles >> (unsigned)row->role & 1U) != 0;
}

/* By question, then method; what is equal, in the order of the rows. */
static int compare_rows(const void *left, const void *right)
{
    const struct validation_row *a = *(const struct validation_row *const *)left;
    const struct validation_row *b = *(const struct validation_row *const *)right;
    int by_quantity = strcmp(a->quantity->name, b->quantity->name);
    int by_key = strcmp(a->question_key, b->question_key);
    int by_method = strcmp(a->method_label, b->method_label);
    int by_place = (a > b) - (a < b);
    return by_quantity != 0 ? by_quantity : by_key != 0 ? by_key : by_method != 0 ? by_method : by_place;
}

static bool is_same_question(const struct validation_row *a, const struct validation_row *b)
{
    return a->quantity == b->quantity && strcmp(a->question_key, b->question_key) == 0;
}

static void take_pair(struct validation_order *order, const struct validation_row *a, const struct validation_row *b)
{
    double measured = a->measured / b->measured;
    double predicted = a->predicted / b->predicted;
    if (fmax(measured, 1.0 / measured) - 1.0 <= least_gap_frac) {
        return;
    }
    order->n++;
    if ((measured > 1.0) == (predicted > 1.0)) {
        order->n_right++;
        return;
    }
    sp_texts_add(&order->wrong, "%s against %s (%s): measured %.3g, predicted %.3g", a->name, b->name,
                 a->quantity->name, measured, predicted);
}

/* One method measured twice under the same question, as by two ranks of it, says what its rows lack to tell them apart. */
static int leave_out_repeated(const struct validation_row **rows, int n)
{
    int n_kept = 0;
    for (int first = 0, end = 0; first < n; first = end) {
        for (end = first + 1; end < n && is_same_question(rows[first], rows[end]) &&
                              strcmp(rows[first]->method_label, rows[end]->method_label) == 0;) {
            end++;
        }
        if (end == first + 1) {
            rows[n_kept++] = rows[first];
        }
    }
    return n_kept;
}

static void take_source(struct sp_arena *arena, const struct validation_source *source, unsigned roles,
                        struct validation_order *order)
{
    const struct validation_row **rows = sp_arena_array(arena, (size_t)source->n_rows + 1, sizeof(const void *));
    int n = 0;
    for (int i = 0; i < source->n_rows; i++) {
        if (counts(&source->rows[i], roles)) {
            rows[n++] = &source->rows[i];
        }
    }
    if (n > 1) {
        qsort(rows, (size_t)n, sizeof(const void *), compare_rows);
    }
    n = leave_out_repeated(rows, n);
    for (int i = 0; i < n; i++) {
        for (int j = i + 1; j < n && is_same_question(rows[i], rows[j]); j++) {
            take_pair(order, rows[i], rows[j]);
        }
    }
}

struct validation_order validation_order(struct sp_arena *arena, const struct validation_set *set, unsigned roles)
{
    struct validation_order order = {.least_gap_frac = least_gap_frac, .wrong = {.arena = arena}};
    for (int i = 0; i < set->n_sources; i++) {
        take_source(arena, &set->sources[i], roles, &order);
    }
    return order;
}
