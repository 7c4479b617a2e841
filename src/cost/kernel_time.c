/* Time and HBM traffic of one kernel (docs/model.md, eq. 20-27). */
#include "cost/cost.h"

#include <assert.h>
#include <math.h>

/* Query rows of one block of an attention kernel: FlashAttention-2 and -3 and cuDNN all work on tiles of 128 rows at
 * head dimension 128 (FlashAttention-3, arXiv 2407.08608, section 3). */
static const double ATTENTION_TILE_ROWS = 128;

/* ---- attention -------------------------------------------------------------------------------------------------- */

double attention_flop(const struct attention_call *call)
{
    /* forward Q K^T and P V; backward Q K^T again, dP, dV, dQ and dK: three of the five contract or produce d, two dv */
    double d = call->head_dim;
    double dv = call->value_head_dim;
    double width = call->is_backward ? 3 * d + 2 * dv : d + dv;
    return 2 * width * call->batch * call->heads * call->block.pairs;
}

/* Rate of one line at a length: log-log between points (so that time grows with length where it does from point to
 * point), constant beyond the last; below the first the time
 * tends to a constant, so the slope of the first two points goes on, at most quadratic. */
static double burst_rate(const struct attention_line *line, double log_length)
{
    const double *x = line->log_sequence;
    const double *y = line->flop_per_s;
    int n = line->n_points;
    if (n == 1 || log_length >= x[n - 1]) {
        return y[n - 1];
    }
    if (log_length <= x[0]) {
        double slope = log(y[1] / y[0]) / (x[1] - x[0]);
        slope = fmin(fmax(slope, 0), 2);
        return y[0] * exp(slope * (log_length - x[0]));
    }
    int i = 1;
    while (x[i] < log_length) {
        i++;
    }
    double t = (log_length - x[i - 1]) / (x[i] - x[i - 1]);
    return y[i - 1] * pow(y[i] / y[i - 1], t);
}

/* Of the curves' rates: what a power limit below their own leaves, and a peak other than the file's (eq. 27): of fp8
 * products their own, of all else that of bf16. */
static double rate_share(const struct gpu_spec *gpu, bool is_fp8)
{
    double ratio = gpu->power_limit.value / gpu->curve_power_limit.value;
    double power = ratio < 1 ? pow(ratio, gpu->power_exponent.value) : 1;
    return power * (is_fp8 ? gpu->peak_fp8.value / gpu->curve_peak_fp8 : gpu->peak_bf16.value / gpu->curve_peak_bf16);
}

/* Bandwidth of element-wise kernels, in the measured proportion to the memory's. */
static double elementwise_rate(const struct gpu_spec *gpu)
{
    return gpu->elementwise_bandwidth.value * gpu->hbm_bandwidth.value / gpu->curve_hbm_bandwidth;
}

/* Short calls run at boost clock when timed alone; inside a step the chip is at its power limit, and no call is faster
 * than long ones are. */
static double line_rate(const struct attention_line *line, double log_length)
{
    double rate = burst_rate(line, log_length);
    return line->ceiling > 0 ? fmin(rate, line->ceiling) : rate;
}

static bool line_matches(const struct attention_line *line, const struct attention_call *call, int64_t head_dim)
{
    return line->is_backward == call->is_backward && line->is_causal == call->block.is_causal &&
           line->head_dim == head_dim;
}

/* The measured head dimension closest to the call's, in ratio. */
/* Ratio of two sizes, whichever is the larger: as far apart as the logarithms of both. */
static double ratio_of(double a, double b)
{
    return a > b ? a / b : b / a;
}

static int64_t nearest_head_dim(const struct attention_curve *curve, double head_dim)
{
    int64_t best = curve->lines[0].head_dim;
    for (int i = 1; i < curve->n_lines; i++) {
        int64_t other = curve->lines[i].head_dim;
        if (other != best && ratio_of((double)other, head_dim) < ratio_of((double)best, head_dim)) {
            best = other;
        }
    }
    return best;
}

bool attention_is_extrapolated(const struct attention_curve *curve, double head_dim)
{
    return fabs((double)nearest_head_dim(curve, head_dim) - head_dim) > 0.5;
}

static const struct attention_line *nearest_line(const struct attention_call *call)
{
    int64_t head_dim = nearest_head_dim(call->curve, call->head_dim);
    for (int i = 0; i < call->curve->n_lines; i++) {
        if (line_matches(&call->curve->lines[i], call, head_dim)) {
            return &call->curve->lines[i];
        }
    }
    assert(!"line");
    return NULL;
}

double attention_clock_hz(const struct gpu_spec *gpu, const struct attention_call *call)
{
    const struct attention_tiling *tiling = attention_tiling_of(call);
    return tiling != NULL ? attention_tiled_clock_hz(gpu, tiling, call) : nearest_line(call)->clock_hz;
}

/* What a clock other than that of a long run of such kernels makes of their rate. */
static double clock_ratio(double clock_hz, double own_hz)
{
    return clock_hz > 0 && own_hz > 0 ? clock_hz / own_hz : 1;
}

/* Interpolates between the lines of the neighbouring head counts, in log heads. Fewer heads than measured fill the GPU
 * as a shorter sequence of the fewest measured ones would; more heads than measured change nothing. */
static double curve_rate(const struct attention_call *call, double length, double heads)
{
    const struct attention_curve *curve = call->curve;
    int64_t head_dim = nearest_head_dim(curve, call->head_dim);
    const struct attention_line *below = NULL;
    const struct attention_line *above = NULL;
    for (int i = 0; i < curve->n_lines; i++) { /* lines are sorted by heads within a (pass, mask, head_dim) */
        const struct attention_line *line = &curve->lines[i];
        if (!line_matches(line, call, head_dim)) {
            continue;
        }
        if ((double)line->heads <= heads) {
            below = line;
        } else if (above == NULL) {
            above = line;
        }
    }
    assert(below != NULL || above != NULL);
    if (below == NULL) {
        return line_rate(above, log(length * heads / (double)above->heads));
    }
    double rate = line_rate(below, log(length));
    if (above == NULL) {
        return rate;
    }
    double t = log(heads / (double)below->heads) / log((double)above->heads / (double)below->heads);
    return rate * pow(line_rate(above, log(length)) / rate, t);
}

double attention_time(const struct gpu_spec *gpu, const struct attention_call *call)
{
    double pairs = call->block.pairs;
    if (pairs < 0.5) {
        return 0;
    }
    const struct attention_tiling *tiling = attention_tiling_of(call);
    if (tiling != NULL) {
        return attention_tiled_time(gpu, tiling, call);
    }
    double length = sqrt(call->block.is_causal ? 2 * pairs : pairs);
    double rate = curve_rate(call, length, call->batch * call->heads) * rate_share(gpu, false);
    if (call->clock_hz > 0) {
        rate *= clock_ratio(call->clock_hz, attention_clock_hz(gpu, call));
    }
    if (call->element_bytes > 2) { /* float32: no curve is measured, the bf16 one scaled by the peaks stands in */
        rate *= gpu->peak_fp32.value / gpu->peak_bf16.value;
    }
    return fmax(attention_flop(call) / rate, gpu->kernel_latency.value);
}

/* Times that the keys and values of a head are read from memory: once for every wave of query tiles, for the share of
 * the pairs that the mask lets through; once in all while they stay in the L2. */
static double key_reads(const struct gpu_spec *gpu, const struct attention_call *call)
{
    const struct attention_block *block = &call->block;
    double tiles_per_head = ceil(block->query_rows / ATTENTION_TILE_ROWS);
    double heads = call->heads * call->batch;
    double heads_per_wave = fmin(fmax(gpu->sm_count.value / tiles_per_head, 1), heads);
    double one_head = call->element_bytes * block->key_rows * (call->head_dim + call->value_head_dim);
    if (one_head * heads_per_wave <= gpu->l2_capacity.value) {
        return call->kv_heads / call->heads;
    }
    double waves = fmax(tiles_per_head * heads_per_wave / gpu->sm_count.value, 1);
    double visible = block->pairs / (block->query_rows * block->key_rows);
    return fmax(waves * visible, call->kv_heads / call->heads);
}

double attention_hbm_bytes(const struct gpu_spec *gpu, const struct attention_call *call)
{
    const struct attention_block *block = &call->block;
    double rows = call->element_bytes * call->batch * block->query_rows * call->heads;
    double q = rows * call->head_dim;
    double o = rows * call->value_head_dim;
    double head_keys = call->element_bytes * call->batch * block->key_rows * (call->head_dim + call->value_head_dim);
    double reads = head_keys * call->heads * key_reads(gpu, call);
    /* forward: q in, o out; backward: q, o, dO in, dq accumulated (in and out), dk and dv out */
    return call->is_backward ? 3 * q + 2 * o + reads + head_keys * call->kv_heads : q + o + reads;
}

/* ---- GEMM ------------------------------------------------------------------------------------------------------- */

double gemm_flop(const struct gemm_call *call)
{
    return 2 * call->m * call->n * call->k * fmax(call->groups, 1);
}

double gemm_hbm_bytes(const struct gemm_call *call)
{
    double input_bytes = call->precision == DTYPE_FP8 ? 1 : call->precision == DTYPE_FP32 ? 4 : 2;
    double one = input_bytes * (call->m * call->k + call->k * call->n) + call->output_bytes * call->m * call->n;
    return one * fmax(call->groups, 1);
}

struct tiling {
    double m, n, groups;
    double tile_rows, tile_columns;
};

static double tile_efficiency(const struct tiling *tiling, double sm_count)
{
    double tiles = ceil(tiling->m / tiling->tile_rows) * ceil(tiling->n / tiling->tile_columns) * tiling->groups;
    double useful = tiling->m * tiling->n / (tiling->tile_rows * tiling->tile_columns) * tiling->groups;
    return useful / (ceil(tiles / sm_count) * sm_count);
}

double gemm_wave_efficiency(const struct gpu_spec *gpu, double m, double n, double groups)
{
    double rows = (double)gpu->gemm.tile_rows;
    double columns = (double)gpu->gemm.tile_columns;
    double sm_count = gpu->sm_count.value;
    /* the library picks the narrower tile where it fills the last wave better */
    const struct tiling wide = {m, n, fmax(groups, 1), rows, columns};
    const struct tiling narrow = {m, n, fmax(groups, 1), rows, columns / 2};
    return fmax(tile_efficiency(&wide, sm_count), tile_efficiency(&narrow, sm_count));
}

static double gemm_rate(const struct gemm_curve *curve, enum pass pass, double k)
{
    const double *x = curve->log_k[pass];
    const double *y = curve->flop_per_s[pass];
    int n = curve->n_points[pass];
    double log_k = log(k);
    double rate;
    if (log_k <= x[0]) {
        rate = y[0] * exp(log_k - x[0]); /* a fixed cost per tile: the rate falls with k */
    } else if (log_k >= x[n - 1]) {
        rate = y[n - 1];
    } else {
        int i = 1;
        while (x[i] < log_k) {
            i++;
        }
        rate = y[i - 1] + (log_k - x[i - 1]) / (x[i] - x[i - 1]) * (y[i] - y[i - 1]);
    }
    return fmin(rate, curve->ceiling[pass].value) * curve->sustained.value;
}

/* The curve of a precision. fp16 runs as bf16 does; fp32 products run on the ordinary cores, for which nothing is measured:
 * the bf16 curve scaled by the datasheet peaks stands in. */
static double precision_rate(const struct gpu_spec *gpu, const struct gemm_call *call)
{
    if (call->precision == DTYPE_FP8 && gpu->has_gemm_fp8) {
        return gemm_rate(&gpu->gemm_fp8, call->pass, call->k);
    }
    double rate = gemm_rate(&gpu->gemm, call->pass, call->k);
    return call->precision == DTYPE_FP32 ? rate * gpu->peak_fp32.value / gpu->peak_bf16.value : rate;
}

double gemm_time(const struct gpu_spec *gpu, const struct gemm_call *call)
{
    assert(call->m > 0 && call->n > 0 && call->k > 0);
    bool is_fp8 = call->precision == DTYPE_FP8 && gpu->has_gemm_fp8;
    double rate =
        precision_rate(gpu, call) * rate_share(gpu, is_fp8) * gemm_wave_efficiency(gpu, call->m, call->n, call->groups);
    rate *= clock_ratio(call->clock_hz, is_fp8 ? gpu->gemm_fp8.clock.value : gpu->gemm.clock.value);
    double compute_s = gemm_flop(call) / rate;
    double memory_s = gemm_hbm_bytes(call) / elementwise_rate(gpu);
    return fmax(fmax(compute_s, memory_s), gpu->kernel_latency.value);
}

/* ---- element-wise ----------------------------------------------------------------------------------------------- */

double elementwise_time(const struct gpu_spec *gpu, double bytes, double kernels)
{
    return bytes / elementwise_rate(gpu) + kernels * gpu->kernel_latency.value;
}

/* ---- clock ------------------------------------------------------------------------------------------------------ */

bool gpu_has_clocks(const struct gpu_spec *gpu)
{
    return gpu->max_clock.kind != SP_FIGURE_NONE && gpu->static_power.kind != SP_FIGURE_NONE &&
           gpu->memory_power.kind != SP_FIGURE_NONE && gpu->clock_exponent.kind != SP_FIGURE_NONE &&
           gpu->gemm.clock.kind != SP_FIGURE_NONE;
}

/* Beyond the static power, as a share of what the limit leaves: kernels that settle at clock c alone draw (f / c)^g at f, and
 * kernels that only move memory what was measured at the highest clock, times (f / max)^g. */
struct power_balance {
    double exponent;
    double cycles;          /* of the kernels that follow the clock */
    double weighted_cycles; /* each times c^-g */
    double memory_s;
    double memory_weight; /* its share at the highest clock times max^-g */
};

/* Energy beyond what the limit allows: 0 at the common clock. */
static double excess(const struct power_balance *balance, double clock_hz)
{
    double power = pow(clock_hz, balance->exponent);
    return (balance->weighted_cycles * power - balance->cycles) / clock_hz +
           balance->memory_s * (balance->memory_weight * power - 1);
}

double common_clock(const struct gpu_spec *gpu, const struct clock_share *shares, int n_shares, double memory_s)
{
    if (!gpu_has_clocks(gpu)) {
        return 0;
    }
    enum { HALVINGS = 40 }; /* to 1e-12 of the range */
    double g = gpu->clock_exponent.value;
    double limit_w = gpu->curve_power_limit.value - gpu->static_power.value;
    double memory_w = gpu->memory_power.value - gpu->static_power.value;
    struct power_balance balance = {
        .exponent = g, .memory_s = memory_s, .memory_weight = memory_w / limit_w * pow(gpu->max_clock.value, -g)};
    for (int i = 0; i < n_shares; i++) {
        if (shares[i].clock_hz > 0) {
            double cycles = shares[i].time_s * shares[i].clock_hz;
            balance.cycles += cycles;
            balance.weighted_cycles += cycles * pow(shares[i].clock_hz, -g);
        }
    }
    double low = 0;
    double high = gpu->max_clock.value;
    for (int i = 0; i < HALVINGS && excess(&balance, high) > 0; i++) {
        double middle = (low + high) / 2;
        *(excess(&balance, middle) > 0 ? &high : &low) = middle;
    }
    return high;
}

/* Mean of the largest of 2^i draws from the standard normal distribution, i = 0 to 17: the integral of x over its density. */
static const double largest_draw[] = {0.0000, 0.5642, 1.0294, 1.4236, 1.7660, 2.0697, 2.3437, 2.5946, 2.8269,
                                      3.0439, 3.2482, 3.4418, 3.6261, 3.8023, 3.9714, 4.1341, 4.2911, 4.4430};

double slowest_clock_share(const struct gpu_spec *gpu, double gpus)
{
    enum { LAST = (int)SP_COUNT_OF(largest_draw) - 1 };
    double power = fmin(log2(fmax(gpus, 1)), LAST);
    int below = (int)fmin(floor(power), LAST - 1);
    double draw = largest_draw[below] + (power - below) * (largest_draw[below + 1] - largest_draw[below]);
    return 1 - gpu->clock_spread.value * draw;
}
