/* How sure the prediction of one timed line is (docs/model.md, section 9). */
#include "fit/fit_internal.h"

#include <math.h>
#include <string.h>

/* Standard deviations on each side of a 90 % interval of a normal distribution. */
static const double SIGMAS = 1.6448536269514722;

static double square(double x)
{
    return x * x;
}

/* Relative, of what is in proportion to the figure; 0: it has no interval. */
static double figure_spread(const struct sp_figure *figure)
{
    bool has_interval = figure->kind != SP_FIGURE_SET && figure->low > 0 && figure->high > figure->low;
    return has_interval ? log(figure->high / figure->low) / (2 * SIGMAS) : 0;
}

static double attention_spread(const struct fit_machine *machine)
{
    const struct attention_curve *curve = gpu_attention_curve(&machine->hardware->gpu, machine->kernel);
    return curve == NULL ? 0 : curve->spread;
}

/* Of the table of so many ranks where there is one, else the largest of the operation. */
static double collective_line_spread(const struct intra_spec *intra, enum collective operation, double ranks)
{
    for (int i = 0; i < intra->n_lines; i++) {
        const struct collective_line *line = &intra->lines[i];
        if (line->operation == operation && line->ranks == (int64_t)ranks) {
            return line->curve.spread;
        }
    }
    return links_spread(intra, operation);
}

/* ---- single kernels and collectives ------------------------------------------------------------------------------ */

static double collective_spread(const struct fit_machine *machine, const struct measurement *line)
{
    struct sp_error ignored = {.kind = SP_ERROR_NONE};
    struct collective_point point;
    if (!collective_point_read(machine->hardware, line, &point, &ignored)) {
        return 0;
    }
    if (point.times_kernel) {
        return strcmp(point.beside, "gemm") == 0 ? machine->hardware->gpu.gemm.spread : attention_spread(machine);
    }
    return point.group.nodes > 1
               ? figure_spread(&machine->hardware->network.collective_efficiency)
               : collective_line_spread(&machine->hardware->intra, point.operation, (double)point.group.size);
}

static double copy_spread(const struct gpu_spec *gpu, const char *by)
{
    bool is_inside = strcmp(by, "memcpy") == 0 || strcmp(by, "kernel") == 0;
    return is_inside ? gpu->copy.spread : figure_spread(&gpu->pcie_bandwidth);
}

static double kernel_spread(const struct fit_machine *machine, const struct measurement *line)
{
    const struct gpu_spec *gpu = &machine->hardware->gpu;
    bool is_merge = strcmp(fit_text_or_none(line, "pass"), "merge") == 0;
    switch (line->group) {
    case MEASUREMENT_COPY:
        return copy_spread(gpu, fit_text_or_none(line, "by"));
    case MEASUREMENT_GEMM:
        return gpu->gemm.spread;
    case MEASUREMENT_ATTENTION:
        return is_merge ? figure_spread(&gpu->elementwise_bandwidth) : attention_spread(machine);
    case MEASUREMENT_COLLECTIVE:
        return collective_spread(machine, line);
    case MEASUREMENT_ELEMENTWISE:
    case MEASUREMENT_OPTIMIZER:
        return figure_spread(&gpu->elementwise_bandwidth);
    case MEASUREMENT_LATENCY:
        return figure_spread(&gpu->launch_latency);
    case MEASUREMENT_METHOD:
    case MEASUREMENT_LAYER:
    case MEASUREMENT_STEP:
    case N_MEASUREMENT_GROUPS:
        break;
    }
    return 0;
}

/* ---- methods and layers ------------------------------------------------------------------------------------------ */

/* A line that is priced anew with parts of its machine changed. */
struct repricing {
    struct sp_arena *arena;
    struct hardware_spec *hardware; /* of its own */
    struct fit_machine machine;
    const struct measurement *line;
};

/* Logarithm of the time; what was priced once has a price. */
static double log_time(const struct repricing *repricing)
{
    struct sp_error ignored = {.kind = SP_ERROR_NONE};
    double seconds = 0;
    bool is_priced =
        fit_predict_method(repricing->arena, &repricing->machine, repricing->line, &seconds, &ignored) && seconds > 0;
    return is_priced ? log(seconds) : 0;
}

/* A table that no transfer of the line reads changes nothing, and needs no spread. */
static bool add_links(const struct repricing *repricing, double ranks, double *variance)
{
    static const double probe = 0.5; /* large enough to show where the table is read */
    static const double least = 1e-12;
    double before = log_time(repricing);
    bool is_known = true;
    for (int o = 0; o < N_COLLECTIVES; o++) {
        double *slower = &repricing->hardware->intra.slower[o];
        double spread = collective_line_spread(&repricing->hardware->intra, (enum collective)o, ranks);
        *slower = spread > 0 ? spread : probe;
        double added = square(log_time(repricing) - before);
        *slower = 0;
        *variance += spread > 0 ? added : 0;
        is_known = is_known && (spread > 0 || added < least);
    }
    return is_known;
}

/* Merges, what else of a layer only moves memory, and the copies of a virtual ring. */
static void add_elementwise(const struct repricing *repricing, double *variance)
{
    struct sp_figure *figure = &repricing->hardware->gpu.elementwise_bandwidth;
    double kept = figure->value;
    if (figure_spread(figure) > 0) {
        figure->value = figure->low;
        double at_low = log_time(repricing);
        figure->value = figure->high;
        *variance += square((at_low - log_time(repricing)) / (2 * SIGMAS));
        figure->value = kept;
    }
}

/* The clock of another GPU of the kind, or of this one on another day, moves all that computes. */
static bool add_compute(const struct fit_machine *machine, const struct method_parts *parts, double *variance)
{
    const struct attention_curve *curve = gpu_attention_curve(&machine->hardware->gpu, machine->kernel);
    double attention = curve->spread;
    double products = machine->hardware->gpu.gemm.spread;
    *variance += square(attention * parts->attention_s / parts->total_s) +
                 square(products / parts->total_s) * parts->products_squared_s2 +
                 square(curve->harness.clock_spread.value * parts->compute_s / parts->total_s);
    return (attention > 0 || parts->attention_s <= 0) && (products > 0 || parts->products_squared_s2 <= 0);
}

static double method_spread(struct sp_arena *arena, const struct fit_machine *machine, const struct measurement *line)
{
    struct sp_error ignored = {.kind = SP_ERROR_NONE};
    struct hardware_spec *hardware = sp_arena_alloc(arena, sizeof(*hardware));
    *hardware = *machine->hardware;
    const struct repricing repricing = {arena, hardware, {.hardware = hardware, .kernel = machine->kernel}, line};
    struct method_parts parts;
    double variance = 0;
    if (!fit_method_parts(arena, machine, line, &parts, &ignored) || !(parts.total_s > 0)) {
        return 0;
    }
    bool is_known =
        add_compute(machine, &parts, &variance) && (parts.is_virtual || add_links(&repricing, parts.ranks, &variance));
    add_elementwise(&repricing, &variance);
    return is_known ? sqrt(variance) : 0;
}

bool fit_interval(struct sp_arena *arena, const struct fit_machine *machine, const struct measurement *line,
                  double seconds, double interval[2])
{
    bool is_method = line->group == MEASUREMENT_METHOD || line->group == MEASUREMENT_LAYER;
    const struct sp_arena_mark mark = sp_arena_mark(arena);
    double spread = is_method ? method_spread(arena, machine, line) : kernel_spread(machine, line);
    sp_arena_rewind(arena, mark);
    interval[0] = seconds * exp(-SIGMAS * spread);
    interval[1] = seconds * exp(SIGMAS * spread);
    return spread > 0;
}
