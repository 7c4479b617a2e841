/* Runs the orders of a pipeline's ranks, for tests of them. */
#ifndef SEQPLAN_TESTS_PIPELINE_RUN_H
#define SEQPLAN_TESTS_PIPELINE_RUN_H

#include "step/step.h"

/* Of one whole stage, the same for all; a chunk takes its part. input_s: backward without the weight gradients. */
struct pipeline_times {
    double forward_s, input_s, weights_s;
    double hop_s;        /* a rank sends after the action, and does nothing else meanwhile */
    const double *scale; /* by stage: times that; NULL: all alike */
    /* dualpipe as its authors run it: a forward and the whole backward of the other chunk behind it run as one, when the inputs
     * of both are there, and both outputs leave at the end, as the gradient of a whole backward does. Without hops. */
    bool is_paired;
};
struct pipeline_run {
    bool is_finished; /* false: ranks wait for one another */
    double time_s;    /* until the last rank is done */
    double *held;     /* by stage: micro-batches held at most, in whole stages, until nothing of them is to be done */
};
/* Copies into arena. */
void pipeline_run(const struct layout_spec *layout, int64_t micro_batches, const struct pipeline_times *times,
                  struct sp_arena *arena, struct pipeline_run *run);

#endif
