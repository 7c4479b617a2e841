/* What the closed form leaves open and a simulation settles: each with the most that it can be wrong by (docs/simulator.md,
 * "where the two differ"). */
#include "step/step_internal.h"

#include <math.h>
#include <string.h>

const char *const doubt_names[] = {"order of the pipeline",       "pipeline hops",
                                   "copies to the host",          "reductions beside compute",
                                   "optimizer of unequal stages", NULL};

/* Schedules whose idle time has a formula for equal stages only. */
static bool is_for_equal_stages(const struct layout_spec *layout)
{
    return layout->pp > 1 && layout->schedule != SCHEDULE_GPIPE && layout->schedule != SCHEDULE_1F1B;
}

static double bubble_doubt(const struct question *question, const struct estimate *estimate)
{
    const struct layout_spec *layout = &question->layout;
    bool is_short = layout->pp > 1 && estimate->micro_batches < layout->pp; /* 1F1B is taken as all forwards first */
    /* the first micro-batch's way down and back, through stages like the slowest */
    double way_s = ((double)layout->pp - 1) * (estimate->stage_forward_s + estimate->stage_backward_s);
    return is_for_equal_stages(layout) || is_short ? fmax(way_s, estimate->time_s[TIME_BUBBLE]) : 0;
}

static double hop_doubt(const struct question *question, const struct estimate *estimate)
{
    return is_for_equal_stages(&question->layout) ? estimate->time_s[TIME_PP_EXPOSED] : 0;
}

/* Transfers whose hiding is taken layer by layer: all of their time on the link. */
static double link_time(const struct question *question, const struct estimate *estimate, enum time_item item)
{
    double time_s = 0;
    for (int i = 0; i < estimate->n_operators; i++) {
        const struct operator_row *row = &estimate->operators[i];
        if (row->item != item || row->pass == STEP_OPTIMIZER) {
            continue;
        }
        double alone_s =
            item == TIME_OFFLOAD_EXPOSED ? row->hbm_bytes / question->hardware.gpu.pcie_bandwidth.value : row->link_s;
        time_s += row->count * alone_s;
    }
    return time_s;
}

static double offload_doubt(const struct question *question, const struct estimate *estimate)
{
    return question->layout.offloads_activations ? link_time(question, estimate, TIME_OFFLOAD_EXPOSED) : 0;
}

static double shard_doubt(const struct question *question, const struct estimate *estimate)
{
    /* gathered once, the first micro-batch's weights come stage after stage */
    bool is_once = question->layout.zero >= 3 && question->software.framework.gathers_once_under_pp;
    double ways = is_once ? (double)question->layout.pp : 1;
    return question->layout.zero >= 2 ? ways * link_time(question, estimate, TIME_DP_EXPOSED) : 0;
}

/* The estimate takes the end of the step of the stage that trains most, whichever ends last. */
static double optimizer_doubt(const struct question *question, const struct estimate *estimate)
{
    struct step_shape shape;
    struct stage_class classes[MAX_STAGE_CLASSES];
    (void)estimate;
    if (question->layout.pp == 1) {
        return 0;
    }
    step_shape_init(&shape, question);
    shape.n_classes = stage_classes(question, classes);
    shape.classes = classes;
    double least = (double)INFINITY;
    double most = 0;
    for (int i = 0; i < shape.n_classes; i++) {
        struct operator_list rows;
        price_stage_optimizer(&shape, rank_stage_trained(&shape, &classes[i]), &rows);
        least = fmin(least, rows.sum.time_s);
        most = fmax(most, rows.sum.time_s);
    }
    return most - least;
}

void step_doubts(const struct question *question, const struct estimate *estimate, double doubts_s[N_DOUBTS])
{
    memset(doubts_s, 0, N_DOUBTS * sizeof doubts_s[0]);
    if (question->run.is_attention_only) {
        return;
    }
    doubts_s[DOUBT_BUBBLE] = bubble_doubt(question, estimate);
    doubts_s[DOUBT_HOPS] = hop_doubt(question, estimate);
    doubts_s[DOUBT_OFFLOAD] = offload_doubt(question, estimate);
    doubts_s[DOUBT_SHARDS] = shard_doubt(question, estimate);
    doubts_s[DOUBT_OPTIMIZER] = optimizer_doubt(question, estimate);
}
