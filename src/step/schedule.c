/* Pipeline schedules: idle time, micro-batches in flight, hops (docs/model.md, eq. 61-66). p stages, m micro-batches, v
 * chunks a rank, F and B the forward and whole backward of a micro-batch on one stage, W the weight-gradient part of B. */
#include "step/step_internal.h"

#include <assert.h>

double schedule_bubble(const struct layout_spec *layout, const struct stage_time *others)
{
    double p = (double)layout->pp;
    double both = others->forward_s + others->backward_s;
    switch (layout->schedule) {
    case SCHEDULE_GPIPE:
    case SCHEDULE_1F1B:
        return both; /* the first micro-batch's way through the other stages, there and back */
    case SCHEDULE_INTERLEAVED:
        return both / (double)layout->vpp;
    case SCHEDULE_ZB_H1:
        return both - 2 * others->weight_s; /* weight gradients fill two of its three parts */
    case SCHEDULE_ZBV:
        /* no gap once a rank has begun; the last rank begins when the first micro-batch has come down the first half of the
         * V, a chunk of every other rank, and the optimizer waits for all of them */
        return others->forward_s / (double)layout->vpp;
    case SCHEDULE_DUALPIPE:
        /* (p/2 - 1)(F&B + B - 3 W), F&B the overlapped pair, priced as F + B; the sums are over p - 1 stages */
        return p > 2 ? (p / 2 - 1) / (p - 1) * (both + others->backward_s - 3 * others->weight_s) : 0;
    case N_SCHEDULES:
        break;
    }
    assert(!"schedule");
    return 0;
}

double schedule_in_flight(const struct layout_spec *layout, int64_t micro_batches, int64_t stage)
{
    if (layout->pp == 1) {
        return 1; /* nothing to fill: a micro-batch is done before the next, whatever the schedule is called */
    }
    double p = (double)layout->pp;
    double m = (double)micro_batches;
    double i = (double)stage;
    double wanted = p - i;
    switch (layout->schedule) {
    case SCHEDULE_GPIPE:
        return m;
    case SCHEDULE_1F1B:
        break;
    case SCHEDULE_INTERLEAVED:
        wanted = (2 * (p - i - 1) + ((double)layout->vpp - 1) * p + 1) / (double)layout->vpp;
        break;
    case SCHEDULE_ZB_H1:
    case SCHEDULE_ZBV:
        wanted = p;
        break;
    case SCHEDULE_DUALPIPE:
        wanted = p + 1;
        break;
    case N_SCHEDULES:
        assert(!"schedule");
    }
    return wanted < m ? wanted : m;
}

double schedule_hops(const struct layout_spec *layout)
{
    if (layout->schedule == SCHEDULE_INTERLEAVED) {
        return (double)layout->vpp;
    }
    return layout->schedule == SCHEDULE_ZBV || layout->schedule == SCHEDULE_DUALPIPE ? 2 : 1;
}

double schedule_parameter_copies(const struct layout_spec *layout)
{
    return layout->schedule == SCHEDULE_DUALPIPE ? 2 : 1;
}

/* ZBV folds the pipeline: the first rank holds the first and the last chunk. DualPipe runs it from both ends: the ranks at
 * the ends hold both, each for half of the micro-batches. */
bool schedule_holds_head(const struct layout_spec *layout, int64_t stage)
{
    bool is_last = stage == layout->pp - 1;
    if (layout->schedule == SCHEDULE_ZBV) {
        return stage == 0;
    }
    return is_last || (layout->schedule == SCHEDULE_DUALPIPE && stage == 0);
}

bool schedule_holds_embedding(const struct layout_spec *layout, int64_t stage)
{
    return stage == 0 || (layout->schedule == SCHEDULE_DUALPIPE && stage == layout->pp - 1);
}

double schedule_end_share(const struct layout_spec *layout)
{
    return layout->schedule == SCHEDULE_DUALPIPE ? 1.0 / 2 : 1;
}
