/* Whether predictions put methods in the order that was measured: what a choice between them rests on. */
#include "fit/validation_internal.h"

#include <math.h>
#include <string.h>

/* Measured figures that are nearer to each other have no order to speak of. */
static const double least_gap_frac = 0.02;

/* Kernels or merges alone choose no method. */
static bool is_choice(const struct validation_row *row)
{
    return row->quantity->family == VALIDATION_STEP || row->quantity->is_whole;
}

static bool is_same_question(const struct validation_row *a, const struct validation_row *b)
{
    return a->quantity == b->quantity && b->state == VALIDATION_COMPARED && b->question_key != NULL &&
           strcmp(a->question_key, b->question_key) == 0;
}

/* One method measured twice under the same question, as by two ranks of it, says what its rows lack to tell them apart. */
static bool is_alone(const struct validation_source *source, const struct validation_row *row)
{
    for (int i = 0; i < source->n_rows; i++) {
        const struct validation_row *other = &source->rows[i];
        if (other != row && is_same_question(row, other) && other->method_label != NULL &&
            strcmp(other->method_label, row->method_label) == 0) {
            return false;
        }
    }
    return true;
}

static bool counts(const struct validation_source *source, const struct validation_row *row, unsigned roles)
{
    return row->state == VALIDATION_COMPARED && row->question_key != NULL && row->method_label != NULL &&
           is_choice(row) && (roles >> (unsigned)row->role & 1U) != 0 && is_alone(source, row);
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

struct validation_order validation_order(struct sp_arena *arena, const struct validation_set *set, unsigned roles)
{
    struct validation_order order = {.least_gap_frac = least_gap_frac, .wrong = {.arena = arena}};
    for (int i = 0; i < set->n_sources; i++) {
        const struct validation_source *source = &set->sources[i];
        for (int j = 0; j < source->n_rows; j++) {
            const struct validation_row *a = &source->rows[j];
            bool is_counted = counts(source, a, roles);
            for (int k = j + 1; k < source->n_rows && is_counted; k++) {
                const struct validation_row *b = &source->rows[k];
                if (is_same_question(a, b) && counts(source, b, roles)) {
                    take_pair(&order, a, b);
                }
            }
        }
    }
    return order;
}
