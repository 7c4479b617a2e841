/* Which lines count: each measurement of a run once, and none that the machine cannot have made. */
#include "fit/fit_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A timed line and the run it is of. */
struct run_line {
    size_t run, position;
    const struct measurement *line;
    const char *run_key;
    bool is_repeated;
    const char *reason; /* why it cannot be, or NULL */
};

/* ---- once ------------------------------------------------------------------------------------------------------- */

static int by_key(const void *a, const void *b)
{
    const struct run_line *const *left = a;
    const struct run_line *const *right = b;
    int order = strcmp((*left)->run_key, (*right)->run_key);
    order = order != 0 ? order : strcmp((*left)->line->key, (*right)->line->key);
    return order != 0 ? order : ((*left)->position > (*right)->position) - ((*left)->position < (*right)->position);
}

/* The first line of a key counts, as in a store. */
static size_t mark_repeated(struct sp_arena *arena, struct run_line *lines, size_t n)
{
    struct run_line **sorted = sp_arena_array(arena, n + 1, sizeof(*sorted));
    size_t n_repeated = 0;
    for (size_t i = 0; i < n; i++) {
        sorted[i] = &lines[i];
    }
    if (n > 0) {
        qsort(sorted, n, sizeof(struct run_line *), by_key);
    }
    for (size_t i = 1; i < n; i++) {
        sorted[i]->is_repeated = strcmp(sorted[i]->run_key, sorted[i - 1]->run_key) == 0 &&
                                 strcmp(sorted[i]->line->key, sorted[i - 1]->line->key) == 0;
        n_repeated += sorted[i]->is_repeated ? 1 : 0;
    }
    return n_repeated;
}

/* ---- what no machine can ---------------------------------------------------------------------------------------- */

/* Clocks above the datasheet's, and what caches add. */
static const double LIMIT_TOLERANCE = 1.1;

static const char *beyond(struct sp_arena *arena, double rate, const struct sp_figure *limit,
                          enum sp_dimension dimension, const char *what)
{
    if (!(rate > LIMIT_TOLERANCE * limit->value)) {
        return NULL;
    }
    return sp_format(arena, "%s, above the %s of %s", sp_quantity_print(arena, rate, dimension),
                     sp_quantity_print(arena, limit->value, dimension), what);
}

/* At most the second-level cache's bytes never reach the memory. */
static const char *beyond_memory(struct sp_arena *arena, const struct gpu_spec *gpu, const struct measurement *line)
{
    double bytes = line->bytes - gpu->l2_capacity.value;
    return beyond(arena, bytes / line->median_s, &gpu->hbm_bandwidth, SP_BYTES_PER_S, "the device memory");
}

static const char *copy_flaw(struct sp_arena *arena, const struct gpu_spec *gpu, const struct measurement *line)
{
    static const double newer_link = 2; /* the file's figure is what is reached on one kind of host, and it is fitted */
    const char *by = fit_text_or_none(line, "by");
    if (strcmp(by, "memcpy") == 0 || strcmp(by, "kernel") == 0) {
        return beyond_memory(arena, gpu, line);
    }
    if (strcmp(by, "host-to-device") != 0 && strcmp(by, "device-to-host") != 0) {
        return NULL;
    }
    return beyond(arena, line->bytes / line->median_s / newer_link, &gpu->pcie_bandwidth, SP_BYTES_PER_S,
                  "half of what passes to and from the host");
}

static const char *gemm_flaw(struct sp_arena *arena, const struct gpu_spec *gpu, const struct measurement *line)
{
    struct gemm_point point;
    struct sp_error err;
    return gemm_point_read(line, &point, &err) ? beyond(arena, gemm_flop(&point.call) / line->median_s, &gpu->peak_bf16,
                                                        SP_FLOP_PER_S, "the tensor cores (dense bf16)")
                                               : NULL;
}

/* What must leave or reach a GPU however the switches help: its part of the others' data. */
static const char *link_flaw(struct sp_arena *arena, const struct hardware_spec *hardware,
                             const struct measurement *line)
{
    struct collective_point point;
    struct sp_error err;
    if (!collective_point_read(hardware, line, &point, &err) || point.times_kernel || point.group.nodes > 1) {
        return NULL;
    }
    enum collective least = point.operation == COLLECTIVE_ALL_REDUCE ? COLLECTIVE_REDUCE_SCATTER : point.operation;
    double sent = collective_sent_bytes(least, point.group.size, point.bytes);
    return beyond(arena, sent / line->median_s, &hardware->intra.bandwidth, SP_BYTES_PER_S, "a GPU's links");
}

static const char *flaw_of(struct sp_arena *arena, const struct hardware_spec *hardware, const struct measurement *line)
{
    const struct gpu_spec *gpu = &hardware->gpu;
    switch (line->group) {
    case MEASUREMENT_COPY:
        return copy_flaw(arena, gpu, line);
    case MEASUREMENT_GEMM:
        return gemm_flaw(arena, gpu, line);
    case MEASUREMENT_ATTENTION:
        return beyond(arena, line->flop / line->median_s, &gpu->peak_bf16, SP_FLOP_PER_S,
                      "the tensor cores (dense bf16)");
    case MEASUREMENT_ELEMENTWISE:
    case MEASUREMENT_OPTIMIZER:
        return beyond_memory(arena, gpu, line);
    case MEASUREMENT_COLLECTIVE:
        return link_flaw(arena, hardware, line);
    case MEASUREMENT_LATENCY:
    case MEASUREMENT_METHOD:
    case MEASUREMENT_LAYER:
    case MEASUREMENT_STEP:
    case N_MEASUREMENT_GROUPS:
        break;
    }
    return NULL;
}

/* Lines of one group of one run. */
struct lot {
    size_t run;
    enum measurement_group group;
};

static bool is_of_lot(const struct run_line *line, const struct lot *lot)
{
    return line->run == lot->run && line->line->group == lot->group && !line->is_repeated;
}

/* One line in ten that cannot be: the clock or the unit of all of them is wrong, only it does not show in short calls. */
static void judge_lot(struct calibration_work *work, struct run_line *lines, size_t n, const struct lot *lot)
{
    static const double most_wrong = 0.1;
    size_t n_all = 0;
    size_t n_wrong = 0;
    const struct run_line *first = NULL;
    for (size_t i = 0; i < n; i++) {
        if (is_of_lot(&lines[i], lot)) {
            lines[i].reason = flaw_of(work->arena, work->out->before, lines[i].line);
            first = lines[i].reason != NULL && first == NULL ? &lines[i] : first;
            n_wrong += lines[i].reason != NULL ? 1 : 0;
            n_all++;
        }
    }
    if (n_wrong == 0) {
        return;
    }
    bool is_all = (double)n_wrong > most_wrong * (double)n_all;
    for (size_t i = 0; i < n && is_all; i++) {
        lines[i].reason = is_of_lot(&lines[i], lot) ? first->reason : lines[i].reason;
    }
    sp_texts_add(&work->out->remarks,
                 "%zu of %zu lines of %s in run %s cannot be of %s: %s: %s; %s left out: look at the units and at what "
                 "was timed",
                 n_wrong, n_all, measurement_group_names[lot->group], first->run_key, work->out->before->name,
                 first->line->key, first->reason,
                 is_all         ? "all of them are"
                 : n_wrong == 1 ? "it is"
                                : "they are");
}

/* ---- all of them ------------------------------------------------------------------------------------------------ */

static struct run_line *lines_of_runs(const struct calibration_work *work, size_t *n_lines)
{
    const struct calibration_request *request = work->request;
    size_t n = 0;
    for (size_t i = 0; i < request->n_runs; i++) {
        n += request->runs[i].n_rows;
    }
    struct run_line *lines = sp_arena_array(work->arena, n + 1, sizeof(*lines));
    *n_lines = 0;
    for (size_t i = 0; i < request->n_runs; i++) {
        for (size_t j = 0; j < request->runs[i].n_rows; j++) {
            const struct measurement *line = &request->runs[i].rows[j];
            if (line->kind == MEASUREMENT_TIMED) {
                lines[*n_lines] =
                    (struct run_line){.run = i, .position = *n_lines, .line = line, .run_key = request->runs[i].key};
                ++*n_lines;
            }
        }
    }
    return lines;
}

void calibration_take_lines(struct calibration_work *work)
{
    size_t n = 0;
    struct run_line *lines = lines_of_runs(work, &n);
    size_t n_repeated = mark_repeated(work->arena, lines, n);
    if (n_repeated > 0) {
        sp_texts_add(&work->out->remarks,
                     "%zu line%s of a run repeat%s one that came before under the same key: only the first counts",
                     n_repeated, sp_plural((int64_t)n_repeated), n_repeated == 1 ? "s" : "");
    }
    for (size_t run = 0; run < work->request->n_runs; run++) {
        for (int group = 0; group < N_MEASUREMENT_GROUPS; group++) {
            const struct lot lot = {run, (enum measurement_group)group};
            if (calibration_has(work, lot.group)) {
                judge_lot(work, lines, n, &lot);
            }
        }
    }
    work->lines = sp_arena_array(work->arena, n + 1, sizeof(const struct measurement *));
    for (size_t i = 0; i < n; i++) {
        if (!lines[i].is_repeated && lines[i].reason == NULL) {
            work->lines[work->n_lines++] = lines[i].line;
        }
    }
}
