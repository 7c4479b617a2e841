/* What can be measured of a run, and where an estimate has it. */
#include "fit/validation.h"

#include <assert.h>
#include <string.h>

static double step_time(const struct question *question, const struct estimate *estimate)
{
    (void)question;
    return estimate->step_time_s;
}

static double tokens_per_s_per_gpu(const struct question *question, const struct estimate *estimate)
{
    (void)question;
    return estimate->tokens_per_s_per_gpu;
}

static double flop_per_s_per_gpu(const struct question *question, const struct estimate *estimate)
{
    (void)question;
    return estimate->model_flop_per_s_per_gpu;
}

static double mfu(const struct question *question, const struct estimate *estimate)
{
    (void)question;
    return estimate->mfu_frac;
}

static double peak_allocated(const struct question *question, const struct estimate *estimate)
{
    (void)question;
    return estimate->peak_allocated_bytes;
}

static double peak_reserved(const struct question *question, const struct estimate *estimate)
{
    (void)question;
    return estimate->peak_reserved_bytes;
}

/* As nvidia-smi shows it. */
static double peak_device(const struct question *question, const struct estimate *estimate)
{
    (void)question;
    return estimate->peak_bytes;
}

static double fits(const struct question *question, const struct estimate *estimate)
{
    (void)question;
    return estimate->fits ? 1 : 0;
}

static double activation_bytes(const struct question *question, const struct estimate *estimate)
{
    (void)question;
    return estimate->memory_bytes[MEMORY_ACTIVATIONS] + estimate->memory_bytes[MEMORY_ATTENTION_BUFFERS];
}

/* Above q, k, v, the output and its gradient. The models of these rows are all attention, so the peak stands there. */
static double attention_buffer_bytes(const struct question *question, const struct estimate *estimate)
{
    (void)question;
    return estimate->memory_bytes[MEMORY_ATTENTION_BUFFERS];
}

enum { ITEMS_KERNELS = 1, ITEMS_MERGES = 2, ITEMS_LAYER = 4, PASS_BIT_FORWARD = 1, PASS_BIT_BACKWARD = 2 };

static bool is_counted(const struct operator_row *row, unsigned items)
{
    if (!row->is_of_layer) {
        return false;
    }
    if ((items & ITEMS_LAYER) != 0) {
        return true;
    }
    bool is_kernel = row->item == TIME_ATTENTION || row->item == TIME_IMBALANCE;
    return ((items & ITEMS_KERNELS) != 0 && is_kernel) || ((items & ITEMS_MERGES) != 0 && row->item == TIME_SP_EXPOSED);
}

/* One layer, one micro-batch, without a pipeline. Backward includes what it recomputes. */
static double layer_part(const struct question *question, const struct estimate *estimate, unsigned items,
                         unsigned passes)
{
    assert(question->layout.pp == 1);
    double time_s = 0;
    for (int i = 0; i < estimate->n_operators; i++) {
        const struct operator_row *row = &estimate->operators[i];
        unsigned pass = row->pass == STEP_FORWARD ? PASS_BIT_FORWARD : PASS_BIT_BACKWARD;
        if (is_counted(row, items) && (passes & pass) != 0) {
            time_s += row->count * row->time_s;
        }
    }
    return time_s / ((double)question->model.n_layers * (double)estimate->micro_batches);
}

static double attention_forward(const struct question *question, const struct estimate *estimate)
{
    return layer_part(question, estimate, ITEMS_KERNELS | ITEMS_MERGES, PASS_BIT_FORWARD);
}

static double attention_both(const struct question *question, const struct estimate *estimate)
{
    return layer_part(question, estimate, ITEMS_KERNELS | ITEMS_MERGES, PASS_BIT_FORWARD | PASS_BIT_BACKWARD);
}

static double attention_forward_rate(const struct question *question, const struct estimate *estimate)
{
    return 1 / attention_forward(question, estimate);
}

static double attention_both_rate(const struct question *question, const struct estimate *estimate)
{
    return 1 / attention_both(question, estimate);
}

static double kernels_forward(const struct question *question, const struct estimate *estimate)
{
    return layer_part(question, estimate, ITEMS_KERNELS, PASS_BIT_FORWARD);
}

static double kernels_both(const struct question *question, const struct estimate *estimate)
{
    return layer_part(question, estimate, ITEMS_KERNELS, PASS_BIT_FORWARD | PASS_BIT_BACKWARD);
}

static double merges_forward(const struct question *question, const struct estimate *estimate)
{
    return layer_part(question, estimate, ITEMS_MERGES, PASS_BIT_FORWARD);
}

static double merges_both(const struct question *question, const struct estimate *estimate)
{
    return layer_part(question, estimate, ITEMS_MERGES, PASS_BIT_FORWARD | PASS_BIT_BACKWARD);
}

static double layer_forward(const struct question *question, const struct estimate *estimate)
{
    return layer_part(question, estimate, ITEMS_LAYER, PASS_BIT_FORWARD);
}

static double layer_backward(const struct question *question, const struct estimate *estimate)
{
    return layer_part(question, estimate, ITEMS_LAYER, PASS_BIT_BACKWARD);
}

/* The order is that of headlines: of a family, the first that a source has counts. */
static const struct validation_quantity quantities[] = {
    {"step_time_s", VALIDATION_SECONDS, VALIDATION_STEP, false, false, step_time},
    {"tokens_per_s_per_gpu", VALIDATION_RATE, VALIDATION_STEP, false, false, tokens_per_s_per_gpu},
    {"flop_per_s_per_gpu", VALIDATION_FLOP_PER_S, VALIDATION_STEP, false, false, flop_per_s_per_gpu},
    {"mfu_frac", VALIDATION_FRACTION, VALIDATION_STEP, false, false, mfu},
    {"peak_allocated_bytes", VALIDATION_BYTES, VALIDATION_PEAK, false, false, peak_allocated},
    {"peak_reserved_bytes", VALIDATION_BYTES, VALIDATION_PEAK, false, false, peak_reserved},
    {"peak_bytes", VALIDATION_BYTES, VALIDATION_PEAK, false, false, peak_device},
    {"activation_bytes", VALIDATION_BYTES, VALIDATION_OTHER, false, false, activation_bytes},
    {"attention_buffer_bytes", VALIDATION_BYTES, VALIDATION_OTHER, false, false, attention_buffer_bytes},
    {"fits", VALIDATION_YES_NO, VALIDATION_OTHER, false, false, fits},
    {"attention_forward_s", VALIDATION_SECONDS, VALIDATION_OTHER, true, true, attention_forward},
    {"attention_forward_backward_s", VALIDATION_SECONDS, VALIDATION_OTHER, true, true, attention_both},
    {"attention_forward_per_s", VALIDATION_RATE, VALIDATION_OTHER, true, true, attention_forward_rate},
    {"attention_forward_backward_per_s", VALIDATION_RATE, VALIDATION_OTHER, true, true, attention_both_rate},
    {"kernels_forward_s", VALIDATION_SECONDS, VALIDATION_OTHER, false, true, kernels_forward},
    {"kernels_forward_backward_s", VALIDATION_SECONDS, VALIDATION_OTHER, false, true, kernels_both},
    {"merges_forward_s", VALIDATION_SECONDS, VALIDATION_OTHER, false, true, merges_forward},
    {"merges_forward_backward_s", VALIDATION_SECONDS, VALIDATION_OTHER, false, true, merges_both},
    {"layer_forward_s", VALIDATION_SECONDS, VALIDATION_OTHER, false, true, layer_forward},
    {"layer_backward_s", VALIDATION_SECONDS, VALIDATION_OTHER, false, true, layer_backward},
};

const struct validation_quantity *validation_quantity_find(const char *name)
{
    for (size_t i = 0; i < SP_COUNT_OF(quantities); i++) {
        if (strcmp(quantities[i].name, name) == 0) {
            return &quantities[i];
        }
    }
    return NULL;
}

void validation_quantity_names(struct sp_texts *names)
{
    for (size_t i = 0; i < SP_COUNT_OF(quantities); i++) {
        sp_texts_add(names, "%s", quantities[i].name);
    }
}

const struct validation_quantity *validation_quantity_of(enum measurement_group group)
{
    static const struct validation_quantity timed[] = {
        [MEASUREMENT_COPY] = {"copy_s", VALIDATION_SECONDS, VALIDATION_OTHER, false, false, NULL},
        [MEASUREMENT_GEMM] = {"gemm_s", VALIDATION_SECONDS, VALIDATION_OTHER, false, false, NULL},
        [MEASUREMENT_ATTENTION] = {"attention_s", VALIDATION_SECONDS, VALIDATION_OTHER, false, false, NULL},
        [MEASUREMENT_ELEMENTWISE] = {"elementwise_s", VALIDATION_SECONDS, VALIDATION_OTHER, false, false, NULL},
        [MEASUREMENT_OPTIMIZER] = {"optimizer_s", VALIDATION_SECONDS, VALIDATION_OTHER, false, false, NULL},
        [MEASUREMENT_COLLECTIVE] = {"collective_s", VALIDATION_SECONDS, VALIDATION_OTHER, false, false, NULL},
        [MEASUREMENT_LATENCY] = {"latency_s", VALIDATION_SECONDS, VALIDATION_OTHER, false, false, NULL},
        [MEASUREMENT_METHOD] = {"method_s", VALIDATION_SECONDS, VALIDATION_OTHER, true, false, NULL},
        [MEASUREMENT_LAYER] = {"layer_s", VALIDATION_SECONDS, VALIDATION_OTHER, true, false, NULL},
    };
    /* Groups that come later are whole steps. */
    return (size_t)group < SP_COUNT_OF(timed) ? &timed[group] : &quantities[0];
}
