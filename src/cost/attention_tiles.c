/* Attention by the thread blocks that a kernel cuts it into (docs/model.md, eq. 28, 29). A block owns some rows of one head and
 * walks over the rows on the other side; a multiprocessor works on one block at a time and takes the next that has not begun. What
 * a curve by length cannot tell: a block of half the queries is not one of half the keys, few heads leave multiprocessors idle,
 * and the last blocks of a triangle are short. */
#include "cost/cost.h"

#include <assert.h>
#include <math.h>

enum {
    MOST_MULTIPROCESSORS = 512,
    MOST_PLAYED_BLOCKS =
        2048 /* beyond them the ends of a few blocks no longer count, and eq. 28 stands in its closed form */
};
static const double BUNDLE_BLOCKS =
    128; /* heads that start together have about so many: src/cuda/attention_device.cuh */
static const double FP32_BYTES = 4;
static const double SMALLEST = 0.5; /* pairs that are no pair */

const struct attention_tiling *attention_tiling_of(const struct attention_call *call)
{
    for (int i = 0; i < call->curve->n_tilings; i++) {
        const struct attention_tiling *tiling = &call->curve->tilings[i];
        bool is_wide = fabs((double)tiling->head_dim - call->head_dim) < SMALLEST &&
                       fabs(call->value_head_dim - call->head_dim) < SMALLEST;
        if (tiling->is_backward == call->is_backward && is_wide) {
            return tiling;
        }
    }
    return NULL;
}

/* The call as its blocks see it: `own` rows are divided into blocks, `other` rows walked over. */
struct tiled_work {
    double own, other;
    double heads;    /* that have blocks of their own */
    double together; /* of these, how many next to each other share keys and start together */
    double loops;    /* times that a block walks over the other rows: backward once for each query head of its group */
    double tiles;    /* of one head */
    double block_rows, step_rows;
    double pairs;
    bool is_masked;
    double block_cycles, mask_cycles, step_cycles;
};

/* Queries, float32 sums and two shards of keys stay in the cache from one step to the next. */
static bool sums_are_cached(const struct gpu_spec *gpu, const struct attention_call *call)
{
    double q = call->batch * call->block.query_rows * call->heads;
    double kv = call->batch * call->block.key_rows * call->kv_heads * (call->head_dim + call->value_head_dim);
    return q * (call->element_bytes * call->head_dim + FP32_BYTES * call->value_head_dim) +
               2 * call->element_bytes * kv <=
           gpu->l2_capacity.value;
}

static double block_cycles(const struct gpu_spec *gpu, const struct attention_tiling *tiling,
                           const struct attention_call *call)
{
    if (call->is_backward) {
        return tiling->block.value + (call->sums_gradients ? tiling->sum.value : 0);
    }
    if (!call->is_step) {
        return tiling->block.value;
    }
    return tiling->block.value + (sums_are_cached(gpu, call) ? tiling->cached_merge.value : tiling->merge.value);
}

static struct tiled_work work_of(const struct gpu_spec *gpu, const struct attention_tiling *tiling,
                                 const struct attention_call *call)
{
    const struct attention_block *block = &call->block;
    double group = fmax(call->heads / call->kv_heads, 1);
    struct tiled_work work = {.own = call->is_backward ? block->key_rows : block->query_rows,
                              .other = call->is_backward ? block->query_rows : block->key_rows,
                              .heads = call->batch * (call->is_backward ? call->kv_heads : call->heads),
                              .together = call->is_backward ? 1 : group,
                              .loops = call->is_backward ? group : 1,
                              .block_rows = tiling->block_rows.value,
                              .step_rows = tiling->step_rows.value,
                              .pairs = block->pairs,
                              .is_masked = block->pairs < block->query_rows * block->key_rows - SMALLEST,
                              .block_cycles = block_cycles(gpu, tiling, call),
                              .mask_cycles = tiling->mask.value,
                              .step_cycles = tiling->step.value};
    work.heads = fmax(ceil(work.heads), 1);
    work.tiles = ceil(work.own / work.block_rows);
    return work;
}

static double steps_cycles(const struct tiled_work *work, double steps)
{
    return work->block_cycles + work->step_cycles * work->loops * steps;
}

/* ---- played ------------------------------------------------------------------------------------------------------- */

/* Cycles of the block of that rank by work, 0 the longest: the last queries see the most keys, the first keys are seen by the
 * most queries. The mask leaves out the corner beyond the last query's own position. */
static double tile_cycles(const struct tiled_work *work, bool is_backward, double rank)
{
    if (!work->is_masked) {
        return steps_cycles(work, ceil(work->other / work->step_rows));
    }
    if (is_backward) {
        double before = fmax(rank * work->block_rows - (work->own - work->other), 0); /* queries that see none of it */
        double steps = ceil(work->other / work->step_rows) - floor(before / work->step_rows);
        bool is_cut = (rank + 1) * work->block_rows > work->own - work->other;
        return steps_cycles(work, fmax(steps, 0)) + (is_cut ? work->mask_cycles : 0);
    }
    double last = fmin((work->tiles - rank) * work->block_rows, work->own);
    double seen = fmin(fmax(work->other - work->own + last, 0), work->other);
    return steps_cycles(work, ceil(seen / work->step_rows)) + work->mask_cycles;
}

/* Heads whose blocks start together, the longest of all of them first (tile_order_of() of the kernel). */
static double heads_together(const struct tiled_work *work)
{
    double groups = fmax(floor(work->heads / work->together), 1);
    double bundles = fmin(fmax(floor(work->tiles * work->heads / BUNDLE_BLOCKS), 1), groups);
    return work->together * ceil(groups / bundles);
}

struct multiprocessors { /* when each is free: a heap, the earliest first */
    double free_at[MOST_MULTIPROCESSORS];
    int count;
};

static void take_block(struct multiprocessors *gpu, double cycles)
{
    double end = gpu->free_at[0] + cycles;
    int at = 0;
    for (;;) {
        int child = 2 * at + 1;
        if (child >= gpu->count) {
            break;
        }
        if (child + 1 < gpu->count && gpu->free_at[child + 1] < gpu->free_at[child]) {
            child++;
        }
        if (gpu->free_at[child] >= end) {
            break;
        }
        gpu->free_at[at] = gpu->free_at[child];
        at = child;
    }
    gpu->free_at[at] = end;
}

/* What is played: so many blocks before the guests come. */
struct play {
    struct multiprocessors gpu;
    const struct guest_blocks *guests;
    int before_guests;
};

static void start_block(struct play *play, double cycles)
{
    if (play->before_guests == 0) {
        for (int i = 0; i < (int)play->guests->count; i++) {
            take_block(&play->gpu, play->guests->cycles);
        }
    }
    play->before_guests--;
    take_block(&play->gpu, cycles);
}

static double played_cycles(const struct tiled_work *work, bool is_backward, int sm_count,
                            const struct guest_blocks *guests)
{
    struct play play = {.gpu = {.count = sm_count}, .guests = guests, .before_guests = sm_count};
    int heads = (int)work->heads;
    int bundle = (int)heads_together(work);
    double last = 0;
    for (int first = 0; first < heads; first += bundle) {
        int here = bundle < heads - first ? bundle : heads - first;
        for (int rank = 0; rank < (int)work->tiles; rank++) {
            double cycles = tile_cycles(work, is_backward, rank);
            for (int head = 0; head < here; head++) {
                start_block(&play, cycles);
            }
        }
    }
    for (int i = 0; i < play.gpu.count; i++) {
        last = fmax(last, play.gpu.free_at[i]);
    }
    return last;
}

/* ---- closed form --------------------------------------------------------------------------------------------------- */

/* Steps of blocks whose lengths grow evenly are rounded up by so much on the average. */
static double mean_rounding(double block_rows, double step_rows)
{
    double common = block_rows;
    double rest = step_rows;
    while (rest >= 1) {
        double next = fmod(common, rest);
        common = rest;
        rest = next;
    }
    return (step_rows - common) / (2 * step_rows);
}

/* Steps of a mean block, the parts of its tiles that the mask leaves out included. */
static double mean_steps(const struct tiled_work *work)
{
    double longest = ceil(work->other / work->step_rows);
    if (!work->is_masked) {
        return longest;
    }
    double seen = fmin(work->pairs / work->own + (fmin(work->block_rows, work->own) - 1) / 2, work->other);
    return fmin(seen / work->step_rows + mean_rounding(work->block_rows, work->step_rows), longest);
}

/* Work spread evenly over the multiprocessors; in the last wave those without a block wait as long as the shortest one lasts. */
static double closed_cycles(const struct tiled_work *work, double sm_count)
{
    double longest = ceil(work->other / work->step_rows);
    double mean = mean_steps(work);
    double shortest = longest;
    double masked = 0;
    if (work->is_masked) {
        double least = fmax(work->other - work->own, 0) + work->block_rows;
        shortest = fmin(ceil(least / work->step_rows), longest);
        masked = work->mask_cycles * fmin(work->other / work->own, 1);
    }
    double waves = work->tiles * work->heads / sm_count;
    double first = steps_cycles(work, longest) + (work->is_masked ? work->mask_cycles : 0);
    if (waves <= 1) {
        return first;
    }
    double idle = ceil(waves) - waves;
    return fmax(first, waves * (steps_cycles(work, mean) + masked) + idle * steps_cycles(work, shortest));
}

/* A causal block, or a part of one whose last query sees all keys: the corner that the mask leaves out is a whole triangle. */
static bool is_corner(const struct tiled_work *work, bool is_backward)
{
    double q = is_backward ? work->other : work->own;
    double k = is_backward ? work->own : work->other;
    return !work->is_masked || (k >= q && fabs(q * k - q * (q - 1) / 2 - work->pairs) < SMALLEST);
}

double attention_thread_blocks(const struct attention_tiling *tiling, const struct attention_call *call)
{
    double rows = call->is_backward ? call->block.key_rows : call->block.query_rows;
    double heads = call->batch * (call->is_backward ? call->kv_heads : call->heads);
    return ceil(rows / tiling->block_rows.value) * fmax(heads, 1);
}

/* Beyond what is played, guests displace their own work: all multiprocessors wait for as long as they would all work on it. */
double attention_cycles_beside(const struct gpu_spec *gpu, const struct attention_tiling *tiling,
                               const struct attention_call *call, const struct guest_blocks *guests)
{
    struct tiled_work work = work_of(gpu, tiling, call);
    bool is_played = work.tiles * work.heads <= MOST_PLAYED_BLOCKS && gpu->sm_count.value <= MOST_MULTIPROCESSORS &&
                     is_corner(&work, call->is_backward);
    if (is_played) {
        return tiling->start.value + played_cycles(&work, call->is_backward, (int)gpu->sm_count.value, guests);
    }
    double displaced = guests->count > 0 ? guests->cycles : 0;
    return tiling->start.value + closed_cycles(&work, gpu->sm_count.value) + displaced;
}

double attention_cycles(const struct gpu_spec *gpu, const struct attention_tiling *tiling,
                        const struct attention_call *call)
{
    const struct guest_blocks none = {0};
    return attention_cycles_beside(gpu, tiling, call, &none);
}

/* Whole tiles are multiplied, whatever the mask leaves of them: so much more than the call's own FLOP. */
static double executed_flop(const struct tiled_work *work, const struct attention_call *call)
{
    double executed = work->tiles * work->block_rows * mean_steps(work) * work->step_rows;
    return attention_flop(call) * executed / call->block.pairs;
}

/* The clock at which these cycles draw what the power limit leaves (eq. 29). */
static double clock_of(const struct gpu_spec *gpu, const struct attention_curve *curve, double power_w,
                       double flop_per_cycle)
{
    const struct attention_clock *clock = &curve->clock;
    double share = flop_per_cycle / clock->flop_per_cycle.value;
    double left_w = fmax(gpu->power_limit.value - clock->idle_power.value, 1) * clock->headroom;
    double ratio = pow(left_w / (power_w * share), 1 / clock->exponent.value);
    return fmin(clock->reference_hz.value * ratio, clock->most_hz.value);
}

/* Backward, once for all keys: the scratch of dQ is cleared, o and dO are read for the rows' sums, dQ is read and written. */
static double around_backward(const struct gpu_spec *gpu, const struct attention_call *call)
{
    enum { KERNELS_AROUND = 3 };
    double q = call->batch * call->block.query_rows * call->heads * call->head_dim;
    double o = call->batch * call->block.query_rows * call->heads * call->value_head_dim;
    double bytes = FP32_BYTES * q + 2 * call->element_bytes * o + (FP32_BYTES + call->element_bytes) * q;
    return elementwise_time(gpu, bytes, KERNELS_AROUND);
}

double attention_tiled_clock_hz(const struct gpu_spec *gpu, const struct attention_tiling *tiling,
                                const struct attention_call *call)
{
    struct tiled_work work = work_of(gpu, tiling, call);
    double cycles = attention_cycles(gpu, tiling, call);
    return clock_of(gpu, call->curve, tiling->power.value, executed_flop(&work, call) / cycles);
}

double attention_tiled_time(const struct gpu_spec *gpu, const struct attention_tiling *tiling,
                            const struct attention_call *call)
{
    assert(call->block.pairs >= SMALLEST);
    double cycles = attention_cycles(gpu, tiling, call);
    struct tiled_work work = work_of(gpu, tiling, call);
    double own_hz = clock_of(gpu, call->curve, tiling->power.value, executed_flop(&work, call) / cycles);
    double hz = call->clock_hz > 0 ? call->clock_hz : own_hz;
    double around_s = call->is_backward && !call->is_step ? around_backward(gpu, call) : 0;
    double peaks = gpu->peak_bf16.value / gpu->curve_peak_bf16; /* set by hand */
    if (call->element_bytes > 2) {                              /* float32: nothing is measured */
        peaks *= gpu->peak_fp32.value / gpu->peak_bf16.value;
    }
    return fmax(cycles / (hz * peaks), gpu->kernel_latency.value) + around_s;
}
