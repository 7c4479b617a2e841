/* How sure an estimate is: the spreads of the tables that it reads, the step priced again with each figure at the ends of its interval
 * (docs/model.md, eq. 87-89). */
#include "step/step_internal.h"

#include <math.h>
#include <string.h>

/* Standard deviations on each side of a 90 % interval of a normal distribution. */
static const double SIGMAS = 1.6448536269514722;

static double step_time(const struct question *question)
{
    struct estimate estimate;
    step_estimate(question, &estimate);
    return estimate.step_time_s;
}

static double square(double x)
{
    return x * x;
}

struct interval_sum {
    const struct question *question;
    double step_time_s;
    double variance;
    const char *unknown; /* the first table that counts and has no spread */
};

/* ---- tables ----------------------------------------------------------------------------------------------------- */

static bool is_first_of_name(const struct estimate *estimate, int row)
{
    for (int i = 0; i < row; i++) {
        if (estimate->operators[i].item == estimate->operators[row].item &&
            strcmp(estimate->operators[i].name, estimate->operators[row].name) == 0) {
            return false;
        }
    }
    return true;
}

/* Calls of one name have one shape, and one error; those of other names have errors of their own. The squares of their shares
 * of what the slowest stage does: idle stages grow with it. */
static double squared_shares(const struct estimate *estimate, enum time_item item)
{
    double busy_s = estimate->step_time_s - estimate->time_s[TIME_BUBBLE];
    double sum = 0;
    for (int i = 0; i < estimate->n_operators; i++) {
        if (estimate->operators[i].item != item || !is_first_of_name(estimate, i)) {
            continue;
        }
        double time_s = 0;
        for (int j = i; j < estimate->n_operators; j++) {
            const struct operator_row *row = &estimate->operators[j];
            bool is_same = row->item == item && strcmp(row->name, estimate->operators[i].name) == 0;
            time_s += is_same ? row->count * row->time_s : 0;
        }
        sum += square(time_s / busy_s);
    }
    return sum;
}

static void add_table(struct interval_sum *sum, const struct estimate *estimate, enum time_item item, double spread)
{
    double shares = squared_shares(estimate, item);
    if (shares > 0 && spread <= 0 && sum->unknown == NULL) {
        sum->unknown = item == TIME_GEMM ? "table of matrix products" : "attention table";
    }
    sum->variance += square(spread) * shares;
}

static void add_tables(struct interval_sum *sum, const struct estimate *estimate)
{
    const struct question *question = sum->question;
    const struct gpu_spec *gpu = &question->hardware.gpu;
    bool is_fp8 = question->layout.precision == DTYPE_FP8 && gpu->has_gemm_fp8;
    add_table(sum, estimate, TIME_ATTENTION, gpu_attention_curve(gpu, question->layout.attention)->spread);
    add_table(sum, estimate, TIME_GEMM, is_fp8 ? gpu->gemm_fp8.spread : gpu->gemm.spread);
}

/* Of the logarithm of the step time, when one kind of call takes longer by its standard deviation. */
static double variance_of(const struct question *slower, double step_time_s)
{
    return square(log(step_time(slower) / step_time_s));
}

double links_spread(const struct intra_spec *intra, enum collective operation)
{
    double spread = 0;
    bool is_known = true;
    for (int i = 0; i < intra->n_lines; i++) {
        const struct collective_line *line = &intra->lines[i];
        if (line->operation == operation) {
            is_known = is_known && line->curve.spread > 0;
            spread = fmax(spread, line->curve.spread);
        }
    }
    return is_known ? spread : 0;
}

/* A table that no transfer of the step reads changes nothing, and needs no spread. */
static void add_links(struct interval_sum *sum)
{
    static const double probe = 0.5; /* large enough to show in any step that reads the table */
    struct question slower = *sum->question;
    for (int o = 0; o < N_COLLECTIVES && sum->question->run.gpus > 1; o++) {
        double spread = links_spread(&slower.hardware.intra, (enum collective)o);
        slower.hardware.intra.slower[o] = spread > 0 ? spread : probe;
        double variance = variance_of(&slower, sum->step_time_s);
        slower.hardware.intra.slower[o] = 0;
        sum->variance += spread > 0 ? variance : 0;
        if (spread <= 0 && variance > 0 && sum->unknown == NULL) {
            sum->unknown = "tables of the links inside a node";
        }
    }
}

/* ---- figures ---------------------------------------------------------------------------------------------------- */

struct figure_visit {
    struct interval_sum *sum;
    struct question *scratch;
    char *object; /* the part of it that is walked */
};

/* Between the ends of its interval lie 2 SIGMAS standard deviations. Sizes and prices take no time. */
static void visit_figure(const char *path, const struct sp_field *field, const void *value, void *user)
{
    (void)path;
    const struct figure_visit *visit = user;
    if (field->type != SP_FIELD_FIGURE || field->dimension == SP_BYTES || field->dimension == SP_PER_HOUR) {
        return;
    }
    char *at = visit->object + ((const char *)value - visit->object);
    struct sp_figure *figure = (struct sp_figure *)(void *)at;
    if (figure->kind == SP_FIGURE_SET || !(figure->high > figure->low)) {
        return;
    }
    double kept = figure->value;
    figure->value = figure->low;
    double at_low_s = step_time(visit->scratch);
    figure->value = figure->high;
    double at_high_s = step_time(visit->scratch);
    figure->value = kept;
    visit->sum->variance += square(log(at_high_s / at_low_s) / (2 * SIGMAS));
}

static void add_figures(struct interval_sum *sum)
{
    struct question scratch = *sum->question;
    struct figure_visit visit = {sum, &scratch, (char *)&scratch.hardware};
    sp_fields_visit(hardware_fields, &scratch.hardware, visit_figure, &visit);
    visit.object = (char *)&scratch.software;
    sp_fields_visit(software_fields, &scratch.software, visit_figure, &visit);
}

/* Transfers between nodes rest on figures, not tables: one of them must have an interval. */
static void check_network(struct interval_sum *sum)
{
    const struct network_spec *network = &sum->question->hardware.network;
    bool has_interval = network->collective_efficiency.high > network->collective_efficiency.low;
    bool is_used = sum->question->run.gpus > (int64_t)sum->question->hardware.node.nvlink_domain.value;
    if (is_used && !has_interval && sum->unknown == NULL) {
        sum->unknown = "network.collective_efficiency";
    }
}

/* Lists of tensors were held against peaks of dense layers that are trained in full, in bf16. */
static double memory_spread(const struct question *question)
{
    const struct layout_spec *layout = &question->layout;
    bool offloads = layout->offloads_activations || layout->offloads_optimizer || layout->offloads_parameters;
    bool is_beyond = question->model.n_experts > 0 || layout->precision != DTYPE_BF16 || question->run.lora_rank > 0;
    const struct framework_spec *framework = &question->software.framework;
    return is_beyond || offloads ? framework->memory_spread_beyond.value : framework->memory_spread.value;
}

const char *step_interval(const struct question *question, struct estimate *estimate)
{
    const struct framework_spec *framework = &question->software.framework;
    struct interval_sum sum = {.question = question, .step_time_s = estimate->step_time_s};
    double memory = SIGMAS * memory_spread(question);
    estimate->peak_allocated_low_bytes = estimate->peak_allocated_bytes * exp(-memory);
    estimate->peak_allocated_high_bytes = estimate->peak_allocated_bytes * exp(memory);
    estimate->step_time_low_s = estimate->step_time_high_s = 0;
    check_network(&sum);
    if (sum.unknown == NULL) {
        add_tables(&sum, estimate);
    }
    if (sum.unknown == NULL) {
        add_links(&sum);
    }
    if (sum.unknown != NULL) {
        return sum.unknown;
    }
    add_figures(&sum);
    double sigma = sqrt(sum.variance + square(framework->time_spread.value));
    estimate->step_time_low_s = estimate->step_time_s * exp(-SIGMAS * sigma);
    estimate->step_time_high_s = estimate->step_time_s * exp(SIGMAS * sigma);
    return NULL;
}
