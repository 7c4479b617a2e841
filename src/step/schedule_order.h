/* Inside the order of a pipeline: what schedule_order.c hands on. */
#ifndef SEQPLAN_SCHEDULE_ORDER_H
#define SEQPLAN_SCHEDULE_ORDER_H

#include "step/step.h"

/* One chunk of one stage. */
struct schedule_place {
    int64_t stage;
    int chunk;
};

/* Of the rank of stage i, m micro-batches; the actions have room. */
void schedule_order_v(const struct layout_spec *layout, int64_t m, int64_t i, struct schedule_order *order);
void schedule_order_dual(const struct layout_spec *layout, int64_t m, int64_t i, struct schedule_order *order);

#endif
