/* Pipeline schedules: idle time, micro-batches in flight, hops (docs/model.md, eq. 61-66). p stages, m micro-batches, v
 * chunks a rank, F and B the forward and whole backward of a micro-batch on one stage, W the weight-gradient part of B. */
#include "step/step_internal.h"

#include <assert.h>

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* ---- gpipe, 1f1b: exact for any stages --------------------------------------------------------------------------- */

static bool has_no_previous(int run, int64_t at)
{
    return run == 0 && at == 0;
}

static bool has_no_next(const struct pipeline_load *load, int run, int64_t at)
{
    return run + 1 == load->n_runs && at + 1 == load->runs[run].count;
}

/* A stage with what its rank sends: outputs on, gradients back. */
static struct stage_time with_hops(const struct pipeline_load *load, int run, int64_t at, double hop_s)
{
    struct stage_time time = load->times[load->runs[run].class];
    time.forward_s += has_no_next(load, run, at) ? 0 : hop_s;
    time.backward_s += has_no_previous(run, at) ? 0 : hop_s;
    return time;
}

/* Stages of a run that differ: its ends, where hops do, and what lies between. */
struct piece {
    int64_t at, count;
};
static int pieces_of(const struct pipeline_load *load, int run, struct piece pieces[3])
{
    int64_t count = load->runs[run].count;
    int64_t first = run == 0 && count > 1 ? 1 : 0;
    int64_t last = run + 1 == load->n_runs && count > 1 ? count - 1 : count;
    int n = 0;
    if (first > 0) {
        pieces[n++] = (struct piece){0, 1};
    }
    if (last > first) {
        pieces[n++] = (struct piece){first, last - first};
    }
    if (last < count) {
        pieces[n++] = (struct piece){last, 1};
    }
    return n;
}

/* Sums and maxima over all stages. */
static void sum_stages(const struct pipeline_load *load, double hop_s, struct stage_time *sum, struct stage_time *most)
{
    *sum = *most = (struct stage_time){0};
    for (int run = 0; run < load->n_runs; run++) {
        struct piece pieces[3];
        int n = pieces_of(load, run, pieces);
        for (int i = 0; i < n; i++) {
            struct stage_time time = with_hops(load, run, pieces[i].at, hop_s);
            double count = (double)pieces[i].count;
            sum->forward_s += count * time.forward_s;
            sum->backward_s += count * time.backward_s;
            most->forward_s = larger(most->forward_s, time.forward_s);
            most->backward_s = larger(most->backward_s, time.backward_s);
        }
    }
}

/* All forwards, then all backwards: two flow shops of equal jobs. */
static double gpipe_total(const struct pipeline_load *load, double hop_s)
{
    struct stage_time sum;
    struct stage_time most;
    sum_stages(load, hop_s, &sum, &most);
    return sum.forward_s + sum.backward_s + (load->micro_batches - 1) * (most.forward_s + most.backward_s);
}

/* One stage that never waits but for its first and its last micro-batch: those before it hand it the first and finish the last;
 * its `ahead` forwards fill the way of the first through those behind it and back, its last backwards that of the last. */
static double through_stage(const struct stage_time *stage, double m, double ahead, double before_s, double behind_s)
{
    double both = stage->forward_s + stage->backward_s;
    return before_s + m * both + larger(behind_s - ahead * stage->forward_s, 0) +
           larger(behind_s - ahead * stage->backward_s, 0);
}

/* The largest over the stages; among neighbours alike it is convex in their place, so that the ends of a piece decide. */
static double one_f_one_b_total(const struct pipeline_load *load, double hop_s)
{
    struct stage_time sum;
    struct stage_time most;
    sum_stages(load, hop_s, &sum, &most);
    double behind_s = sum.forward_s + sum.backward_s;
    double before_s = 0;
    double total_s = 0;
    double ahead = -1;
    for (int run = 0; run < load->n_runs; run++) {
        ahead += (double)load->runs[run].count;
    }
    for (int run = 0; run < load->n_runs; run++) {
        struct piece pieces[3];
        int n = pieces_of(load, run, pieces);
        for (int i = 0; i < n; i++) {
            struct stage_time time = with_hops(load, run, pieces[i].at, hop_s);
            double both = time.forward_s + time.backward_s;
            double others = (double)pieces[i].count - 1;
            total_s = larger(total_s, through_stage(&time, load->micro_batches, ahead, before_s, behind_s - both));
            if (others > 0) {
                before_s += others * both;
                behind_s -= others * both;
                ahead -= others;
                total_s = larger(total_s, through_stage(&time, load->micro_batches, ahead, before_s, behind_s - both));
            }
            before_s += both;
            behind_s -= both;
            ahead -= 1;
        }
    }
    return total_s;
}

static double plain_total(const struct layout_spec *layout, const struct pipeline_load *load, double hop_s)
{
    /* fewer micro-batches than stages: nearly all forwards are done before the first backward comes */
    bool is_filled = load->micro_batches >= (double)layout->pp;
    return layout->schedule == SCHEDULE_1F1B && is_filled ? one_f_one_b_total(load, hop_s) : gpipe_total(load, hop_s);
}

/* ---- the others: exact for equal stages, whose part the sums over the stages but the slowest take ---------------------- */

struct parts { /* forward, input gradient and weight gradient */
    double f, b, w;
};

static struct parts parts_of(const struct stage_time *time)
{
    return (struct parts){time->forward_s, time->backward_s - time->weight_s, time->weight_s};
}

static struct parts other_parts(const struct pipeline_load *load)
{
    struct parts all = {0, 0, 0};
    for (int run = 0; run < load->n_runs; run++) {
        struct parts one = parts_of(&load->times[load->runs[run].class]);
        double count = (double)load->runs[run].count;
        all.f += count * one.f;
        all.b += count * one.b;
        all.w += count * one.w;
    }
    struct parts slowest = parts_of(&load->times[load->slowest]);
    return (struct parts){all.f - slowest.f, all.b - slowest.b, all.w - slowest.w};
}

/* Weight gradients fill the gaps between input gradients, as many as there are of either. */
static double zb_h1_bubble(const struct parts *others, double stages, double m)
{
    double filled = m < stages ? (m - 1) / (stages - 1) : 1;
    return larger(others->f + others->b - filled * others->w, larger(others->f, others->b));
}

/* The last rank begins when the first micro-batch has come down the first half of the V, a chunk of every other rank, and the
 * optimizer waits for all; longer backwards, or fewer micro-batches than the V is long, leave gaps of their own. */
static double zbv_bubble(const struct parts *others, double stages, double m)
{
    double q = stages - 1;
    if (m < stages) {
        return (stages - m) / q * others->f + others->b;
    }
    double missing = larger(2 * stages - 1 - m, 0);
    double gaps =
        larger(others->b - (q - missing) / q * others->w, (others->b + missing / q * (others->b - others->w)) / 2);
    return larger(gaps, others->f / 2);
}

/* Half of the stages at each end; an overlapped pair is taken as forward and backward one after the other. */
static double dualpipe_bubble(const struct parts *others, double stages)
{
    if (stages <= 2) {
        return 0;
    }
    double share = (stages / 2 - 1) / (stages - 1);
    return share * (others->b - others->w) + larger(share * others->f, share * others->b - others->f / (stages - 1));
}

static double other_bubble(const struct layout_spec *layout, const struct pipeline_load *load)
{
    struct parts others = other_parts(load);
    double p = (double)layout->pp;
    switch (layout->schedule) {
    case SCHEDULE_INTERLEAVED:
        return (others.f + others.b + others.w) / (double)layout->vpp;
    case SCHEDULE_ZB_H1:
        return zb_h1_bubble(&others, p, load->micro_batches);
    case SCHEDULE_ZBV:
        return zbv_bubble(&others, p, load->micro_batches);
    case SCHEDULE_DUALPIPE:
        return dualpipe_bubble(&others, p);
    case SCHEDULE_GPIPE:
    case SCHEDULE_1F1B:
    case N_SCHEDULES:
        break;
    }
    assert(!"schedule");
    return 0;
}

/* Messages that lengthen the step, by the ways that a run through the orders takes (sends occupy their rank). */
static double other_hops(const struct layout_spec *layout, const struct pipeline_load *load)
{
    double p = (double)layout->pp;
    double m = load->micro_batches;
    double v = (double)layout->vpp;
    double h = load->hop_s;
    bool has_inside = layout->pp > 2;
    struct parts slowest = parts_of(&load->times[load->slowest]);
    switch (layout->schedule) {
    case SCHEDULE_INTERLEAVED: {
        double least = ((2 * v - 1) * m + 2 * p - 3) * h;
        double inside = larger((2 * v * m + 2 * p - 6) * h - 2 * slowest.f / v,
                               (2 * v * m + 2 * p - 5) * h - (slowest.f + slowest.b + slowest.w) / v);
        return has_inside ? larger(least, inside) : least;
    }
    case SCHEDULE_ZB_H1:
        return (has_inside ? 2 * m + 2 * p - 5 : m + 1) * h;
    case SCHEDULE_ZBV:
        return (has_inside
                    ? larger(2 * m + 4 * p - 5, 4 * m + p - 3 - (slowest.b > slowest.f ? slowest.f / (2 * h) : 0))
                    : 2 * m + 2) *
               h;
    case SCHEDULE_DUALPIPE:
        return (has_inside ? 2 * m + p - 3 : m) * h;
    case SCHEDULE_GPIPE:
    case SCHEDULE_1F1B:
    case N_SCHEDULES:
        break;
    }
    assert(!"schedule");
    return 0;
}

struct pipeline_idle schedule_idle(const struct layout_spec *layout, const struct pipeline_load *load)
{
    if (layout->pp == 1) {
        return (struct pipeline_idle){0, 0};
    }
    const struct stage_time *slowest = &load->times[load->slowest];
    double work_s = load->micro_batches * (slowest->forward_s + slowest->backward_s);
    if (layout->schedule == SCHEDULE_GPIPE || layout->schedule == SCHEDULE_1F1B) {
        double without_s = plain_total(layout, load, 0);
        double with_s = load->hop_s > 0 ? plain_total(layout, load, load->hop_s) : without_s;
        return (struct pipeline_idle){.bubble_s = larger(without_s - work_s, 0),
                                      .hops_s = larger(with_s - without_s, 0)};
    }
    return (struct pipeline_idle){.bubble_s = larger(other_bubble(layout, load), 0),
                                  .hops_s = load->hop_s > 0 ? other_hops(layout, load) : 0};
}

/* ---- what ranks hold and send ------------------------------------------------------------------------------------ */

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
        wanted = p;
        break;
    case SCHEDULE_ZBV: /* too few micro-batches: all of one chunk, and of the other as many as have come back up */
        wanted = p < (m + i + 1) / 2 ? p : (m + i + 1) / 2;
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
    return layout->schedule == SCHEDULE_ZBV ? 2 : 1;
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
