/* The communication table: operators that communicate, one row per axis, operation and pass (docs/model.md, section 6). */
#include "step/step_internal.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static struct communication_row *row_of(struct estimate *estimate, const struct operator_row *of)
{
    for (int i = 0; i < estimate->n_communications; i++) {
        struct communication_row *row = &estimate->communications[i];
        if (row->axis == of->axis && row->pass == of->pass && strcmp(row->operation, of->operation) == 0) {
            return row;
        }
    }
    assert(estimate->n_communications < MAX_COMMUNICATIONS);
    struct communication_row *row = &estimate->communications[estimate->n_communications++];
    *row = (struct communication_row){.axis = of->axis, .operation = of->operation, .pass = of->pass, .tier = of->tier};
    return row;
}

/* Means of whole numbers that are whole themselves lose it to rounding. */
static double without_rounding(double value)
{
    static const double tolerance = 1e-9;
    double whole = nearbyint(value);
    return fabs(value - whole) <= tolerance * whole ? whole : value;
}

/* Per layer and micro-batch: what belongs to layers is a mean over the stage's layers and micro-batches. A pipeline hop
 * is one a micro-batch, and the end of the step happens once: their bytes are spread over the layers alone. */
void list_communications(const struct step_shape *shape, struct estimate *estimate)
{
    bool is_one_layer = shape->question->run.is_attention_only;
    double layers = is_one_layer ? 1
                                 : (double)layout_stage_layers(&shape->question->layout, &shape->question->model,
                                                               estimate->slowest_stage);
    double m = (double)estimate->micro_batches;
    for (int i = 0; i < estimate->n_operators; i++) {
        const struct operator_row *of = &estimate->operators[i];
        if (of->operation == NULL) {
            continue;
        }
        struct communication_row *row = row_of(estimate, of);
        row->bytes_per_step += of->count * of->sent_bytes;
        row->time_s += of->count * of->link_s;
        row->exposed_s += of->count * of->time_s;
        double per_layer = of->is_of_layer || of->axis == AXIS_PP ? of->count / (m * layers) : 0;
        if (of->pass == STEP_OPTIMIZER) {
            per_layer = of->count / layers;
        }
        row->bytes_per_layer += per_layer * of->sent_bytes;
        row->messages_per_layer += per_layer * of->messages;
    }
    for (int i = 0; i < estimate->n_communications; i++) {
        struct communication_row *row = &estimate->communications[i];
        row->bytes_per_layer = without_rounding(row->bytes_per_layer);
        row->messages_per_layer = without_rounding(row->messages_per_layer);
    }
}
