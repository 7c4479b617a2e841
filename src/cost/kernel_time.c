/* Time and HBM traffic of one kernel (docs/model.md, eq. 20-26). */
#include "cost/cost.h"

#include <assert.h>
#include <math.h>

/* Bytes of the activations that the kernels here read and write. */
static const double BF16_BYTES = 2;
/* Query rows of one block of an attention kernel: FlashAttention-2 and -3 and cuDNN all work on tiles of 128 rows at
 * head dimension 128 (FlashAttention-3, arXiv 2407.08608, section 3). */
static const double ATTENTION_TILE_ROWS = 128;

/* ---- attention -------------------------------------------------------------------------------------------------- */

double attention_flop(const struct attention_call *call)
{
    /* two matrix products forward, five backward, 2 FLOP each */
    double products = call->is_backward ? 5 : 2;
    return 2 * products * call->batch * call->heads * call->head_dim * call->block.pairs;
}

/* Rate of one line at a length: linear in log length between points, constant beyond the last; below the first the time
 * tends to a constant, so the slope of the first two points goes on, at most quadratic. */
static double line_rate(const struct attention_line *line, double log_length)
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
    return y[i - 1] + t * (y[i] - y[i - 1]);
}

static bool line_matches(const struct attention_line *line, const struct attention_call *call, int64_t head_dim)
{
    return line->is_backward == call->is_backward && line->is_causal == call->block.is_causal && line->head_dim == head_dim;
}

/* The measured head dimension closest to the call's, in ratio. */
static int64_t nearest_head_dim(const struct attention_curve *curve, double head_dim)
{
    int64_t best = curve->lines[0].head_dim;
    for (int i = 1; i < curve->n_lines; i++) {
        double d = fabs(log((double)curve->lines[i].head_dim / head_dim));
        if (d < fabs(log((double)best / head_dim))) {
            best = curve->lines[i].head_dim;
        }
    }
    return best;
}

bool attention_is_extrapolated(const struct attention_curve *curve, double head_dim)
{
    return fabs((double)nearest_head_dim(curve, head_dim) - head_dim) > 0.5;
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
    return rate + t * (line_rate(above, log(length)) - rate);
}

double attention_time(const struct gpu_spec *gpu, const struct attention_call *call)
{
    double pairs = call->block.pairs;
    if (pairs < 0.5) {
        return 0;
    }
    double length = sqrt(call->block.is_causal ? 2 * pairs : pairs);
    double rate = curve_rate(call, length, call->batch * call->heads);
    return fmax(attention_flop(call) / rate, gpu->kernel_latency.value);
}

double attention_hbm_bytes(const struct gpu_spec *gpu, const struct attention_call *call)
{
    const struct attention_block *block = &call->block;
    double query = BF16_BYTES * call->batch * block->query_rows * call->heads * call->head_dim;
    double key_value = 2 * BF16_BYTES * call->batch * block->key_rows * call->kv_heads * call->head_dim;
    /* One wave: as many query tiles as SMs. The tiles of a wave that belong to one head share its keys and values through
     * the L2; what does not stay there is read again by the next wave, for the share of the pairs that the mask lets
     * through. */
    double tiles_per_head = ceil(block->query_rows / ATTENTION_TILE_ROWS);
    double heads = call->heads * call->batch;
    double heads_per_wave = fmin(fmax(gpu->sm_count.value / tiles_per_head, 1), heads);
    double one_head = 2 * BF16_BYTES * block->key_rows * call->head_dim;
    double reads = key_value;
    if (one_head * heads_per_wave > gpu->l2_capacity.value) {
        double waves_per_head = fmax(tiles_per_head * heads_per_wave / gpu->sm_count.value, 1);
        double visible = block->pairs / (block->query_rows * block->key_rows);
        reads = fmax(heads * one_head * waves_per_head * visible, key_value);
    }
    /* forward: q, o and k, v. backward: q, o, dO, dq (twice, accumulated), k, v, dk, dv. */
    return call->is_backward ? 5 * query + reads + key_value : 2 * query + reads;
}

/* ---- GEMM ------------------------------------------------------------------------------------------------------- */

double gemm_flop(const struct gemm_call *call)
{
    return 2 * call->m * call->n * call->k;
}

double gemm_hbm_bytes(const struct gemm_call *call)
{
    return BF16_BYTES * (call->m * call->k + call->k * call->n) + call->output_bytes * call->m * call->n;
}

static double tile_efficiency(double m, double n, double tile_rows, double tile_columns, double sm_count)
{
    double tiles = ceil(m / tile_rows) * ceil(n / tile_columns);
    double useful = m * n / (tile_rows * tile_columns);
    return useful / (ceil(tiles / sm_count) * sm_count);
}

double gemm_wave_efficiency(const struct gpu_spec *gpu, double m, double n)
{
    double rows = (double)gpu->gemm.tile_rows;
    double columns = (double)gpu->gemm.tile_columns;
    double sm_count = gpu->sm_count.value;
    /* the library picks the narrower tile where it fills the last wave better */
    return fmax(tile_efficiency(m, n, rows, columns, sm_count), tile_efficiency(m, n, rows, columns / 2, sm_count));
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
    return fmin(rate, curve->ceiling[pass].value * curve->sustained.value);
}

double gemm_time(const struct gpu_spec *gpu, const struct gemm_call *call)
{
    assert(call->m > 0 && call->n > 0 && call->k > 0);
    double rate = gemm_rate(&gpu->gemm, call->pass, call->k) * gemm_wave_efficiency(gpu, call->m, call->n);
    double compute_s = gemm_flop(call) / rate;
    double memory_s = gemm_hbm_bytes(call) / gpu->elementwise_bandwidth.value;
    return fmax(fmax(compute_s, memory_s), gpu->kernel_latency.value);
}

/* ---- element-wise ----------------------------------------------------------------------------------------------- */

double elementwise_time(const struct gpu_spec *gpu, double bytes, double kernels)
{
    return bytes / gpu->elementwise_bandwidth.value + kernels * gpu->kernel_latency.value;
}
