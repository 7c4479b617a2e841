/* The steps of a training log as one measurement: the median of their times after warm-up, with the 10th and the 90th
 * percentile as its interval, as the device program gives them. */
#include "fit/training_log.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const fact_names[] = {
    [FACT_GPUS] = "gpus",
    [FACT_TP] = "tp",
    [FACT_CP] = "cp",
    [FACT_PP] = "pp",
    [FACT_VPP] = "vpp",
    [FACT_DP] = "dp",
    [FACT_EP] = "ep",
    [FACT_ZERO] = "zero",
    [FACT_SEQ] = "seq",
    [FACT_GLOBAL_BATCH] = "global_batch",
    [FACT_MICRO_BATCH] = "micro_batch",
    [FACT_LAYERS] = "num_hidden_layers",
    [FACT_HIDDEN] = "hidden_size",
    [FACT_FFN] = "intermediate_size",
    [FACT_HEADS] = "num_attention_heads",
    [FACT_KV_HEADS] = "num_key_value_heads",
    [FACT_PARAMETERS] = "total_parameters",
};
_Static_assert(SP_COUNT_OF(fact_names) == N_TRAINING_FACTS, "a name for each fact");

/* ---- gathering -------------------------------------------------------------------------------------------------- */

void training_set_fact(struct training_log *log, enum training_fact fact, double value)
{
    static const double most = 0x1p53;
    if (value >= 0 && value <= most && floor(value) >= value) {
        log->facts[fact] = value;
    }
}

void training_note_memory(struct training_log *log, double allocated_bytes, double reserved_bytes)
{
    log->allocated_bytes = fmax(log->allocated_bytes, allocated_bytes);
    log->reserved_bytes = fmax(log->reserved_bytes, reserved_bytes);
}

void training_add_step(struct training_log *log, const struct training_step *step)
{
    if (log->n_steps > 0 && step->step <= log->last_step) { /* of another rank, or run again after a restart */
        import_skip(log->result, step->line, "a step that was taken before", "step %lld was logged before",
                    (long long)step->step);
        return;
    }
    log->last_step = step->step;
    if (log->n_steps == log->capacity) {
        log->steps = sp_arena_grow(log->arena, log->steps, log->n_steps, &log->capacity, sizeof(*log->steps));
    }
    log->steps[log->n_steps++] = *step;
}

/* ---- times ------------------------------------------------------------------------------------------------------ */

static double fact_of(const struct training_log *log, enum training_fact fact)
{
    return log->facts[fact] > 0 ? log->facts[fact] : 0;
}

/* Since the step logged before, over the steps in between; 0: not known. */
static double time_since(const struct training_log *log, int64_t index)
{
    static const double day_s = 86400;
    if (index == 0) {
        return 0;
    }
    const struct training_step *own = &log->steps[index];
    const struct training_step *last = &log->steps[index - 1];
    double elapsed_s = own->at_s - last->at_s;
    elapsed_s += elapsed_s < 0 ? day_s : 0;
    return own->at_s < 0 || last->at_s < 0 || own->step <= last->step ? 0
                                                                      : elapsed_s / (double)(own->step - last->step);
}

/* From what the log gives in place of a time: tokens per second and GPU, samples per second, when lines were printed. */
static void find_times(struct training_log *log)
{
    double gpus = fact_of(log, FACT_GPUS);
    double batch = fact_of(log, FACT_GLOBAL_BATCH);
    double tokens = batch * fact_of(log, FACT_SEQ);
    for (int64_t i = 0; i < log->n_steps; i++) {
        struct training_step *step = &log->steps[i];
        if (step->time_s > 0) {
            continue;
        }
        if (step->samples_per_s > 0) {
            step->time_s = batch / step->samples_per_s;
        } else if (step->tokens_per_s_per_gpu > 0 && tokens > 0 && gpus > 0) {
            step->time_s = tokens / (step->tokens_per_s_per_gpu * gpus);
        } else {
            step->time_s = time_since(log, i);
        }
    }
}

static int compare_doubles(const void *a, const void *b)
{
    double left = *(const double *)a;
    double right = *(const double *)b;
    return (left > right) - (left < right);
}

/* Between the two nearest ranks. */
static double quantile(const double *sorted, int64_t count, double share)
{
    double at = share * (double)(count - 1);
    int64_t below = (int64_t)at;
    int64_t above = below + 1 < count ? below + 1 : below;
    return sorted[below] + (at - (double)below) * (sorted[above] - sorted[below]);
}

enum step_value { VALUE_TIME, VALUE_FLOP, VALUE_TOKENS };

static double value_of(const struct training_step *step, enum step_value value)
{
    return value == VALUE_TIME   ? step->time_s
           : value == VALUE_FLOP ? step->flop_per_s_per_gpu
                                 : step->tokens_per_s_per_gpu;
}

/* Sorted values of the steps from `first` on. */
static double *sorted_values(const struct training_log *log, int64_t first, enum step_value value)
{
    int64_t count = log->n_steps - first;
    double *values = sp_arena_array(log->arena, (size_t)count + 1, sizeof(*values));
    for (int64_t i = 0; i < count; i++) {
        values[i] = value_of(&log->steps[first + i], value);
    }
    qsort(values, (size_t)count, sizeof(*values), compare_doubles);
    return values;
}

static double median_from(const struct training_log *log, int64_t first, enum step_value value)
{
    static const double middle = 0.5;
    return quantile(sorted_values(log, first, value), log->n_steps - first, middle);
}

/* ---- what is left out ------------------------------------------------------------------------------------------- */

static void drop_step(struct training_log *log, int64_t index)
{
    memmove(&log->steps[index], &log->steps[index + 1], (size_t)(log->n_steps - index - 1) * sizeof(*log->steps));
    log->n_steps--;
}

/* Without a time, or of another batch than the last: a ramp of the batch has steps of several sizes. */
static void drop_others(struct training_log *log)
{
    int64_t batch = log->n_steps > 0 ? log->steps[log->n_steps - 1].global_batch : 0;
    if (batch > 0) {
        training_set_fact(log, FACT_GLOBAL_BATCH, (double)batch);
    }
    int64_t kept = 0;
    for (int64_t i = 0; i < log->n_steps; i++) {
        const struct training_step *step = &log->steps[i];
        if (!(step->time_s > 0)) {
            import_reject(log->result, step->line, "no time", "step %lld has no time", (long long)step->step);
        } else if (step->global_batch != batch) {
            import_skip(log->result, step->line, "another batch", "step %lld has %lld sequences, the last has %lld",
                        (long long)step->step, (long long)step->global_batch, (long long)batch);
        } else {
            log->steps[kept++] = *step;
        }
    }
    log->n_steps = kept;
}

/* The first step, and those behind it that are more than a tenth slower than the median of the second half; half of the
 * log at most. */
static int64_t count_warmup(const struct training_log *log, const struct import_given *given)
{
    static const double slower = 1.1;
    if (given->warmup.is_given) {
        return given->warmup.value < log->n_steps ? given->warmup.value : log->n_steps;
    }
    double settled_s = log->n_steps > 0 ? median_from(log, log->n_steps / 2, VALUE_TIME) : 0;
    int64_t count = log->n_steps > 0 ? 1 : 0;
    while (count < log->n_steps / 2 && log->steps[count].time_s > slower * settled_s) {
        count++;
    }
    return count;
}

static int64_t drop_warmup(struct training_log *log, const struct import_given *given)
{
    int64_t count = count_warmup(log, given);
    for (int64_t i = 0; i < count; i++) {
        import_skip(log->result, log->steps[0].line, "warm-up", "step %lld of %.4g s is warm-up",
                    (long long)log->steps[0].step, log->steps[0].time_s);
        drop_step(log, 0);
    }
    return count;
}

/* ---- the measurement -------------------------------------------------------------------------------------------- */

struct summary {
    const struct training_log *log;
    const char *framework, *gpu;
    int64_t n_warmup;
};

static void put_parameters(struct sp_json_writer *writer, const struct summary *summary)
{
    const struct training_log *log = summary->log;
    double flop_per_s = median_from(log, 0, VALUE_FLOP);
    double tokens_per_s = median_from(log, 0, VALUE_TOKENS);
    sp_json_begin_object(writer, "parameters");
    sp_json_put_string(writer, "framework", summary->framework);
    if (log->model != NULL) {
        sp_json_put_string(writer, "model", log->model);
    }
    for (int i = 0; i < N_TRAINING_FACTS; i++) {
        if (log->facts[i] >= 0) {
            sp_json_put_number(writer, fact_names[i], log->facts[i]);
        }
    }
    sp_json_put_integer(writer, "warmup_steps", summary->n_warmup);
    sp_json_put_integer(writer, "first_step", log->steps[0].step);
    sp_json_put_integer(writer, "last_step", log->steps[log->n_steps - 1].step);
    if (log->allocated_bytes > 0) {
        sp_json_put_number(writer, "peak_allocated_bytes", round(log->allocated_bytes));
    }
    if (log->reserved_bytes > 0) {
        sp_json_put_number(writer, "peak_reserved_bytes", round(log->reserved_bytes));
    }
    if (flop_per_s > 0) {
        sp_json_put_number(writer, "logged_flop_per_s_per_gpu", flop_per_s);
    }
    if (tokens_per_s > 0) {
        sp_json_put_number(writer, "logged_tokens_per_s_per_gpu", tokens_per_s);
    }
    sp_json_end_object(writer);
}

static const char *key_of(const struct summary *summary)
{
    static const enum training_fact named[] = {FACT_GPUS, FACT_TP, FACT_CP, FACT_PP, FACT_SEQ, FACT_GLOBAL_BATCH};
    const struct training_log *log = summary->log;
    struct sp_texts parts = {.arena = log->arena};
    sp_texts_add(&parts, "step framework=%s", summary->framework);
    if (log->model != NULL) {
        sp_texts_add(&parts, "model=%.80s", log->model);
    }
    for (size_t i = 0; i < SP_COUNT_OF(named); i++) {
        if (log->facts[named[i]] >= 0) {
            sp_texts_add(&parts, "%s=%.0f", fact_names[named[i]], log->facts[named[i]]);
        }
    }
    return sp_join(log->arena, parts.items, parts.count, " ");
}

static const char *line_of(const struct summary *summary, const char *key, struct sp_error *err)
{
    static const double low = 0.1;
    static const double middle = 0.5;
    static const double high = 0.9;
    const struct training_log *log = summary->log;
    const double *sorted = sorted_values(log, 0, VALUE_TIME);
    const struct import_times times = {.median_s = quantile(sorted, log->n_steps, middle),
                                       .min_s = sorted[0],
                                       .low_s = quantile(sorted, log->n_steps, low),
                                       .high_s = quantile(sorted, log->n_steps, high),
                                       .count = log->n_steps};
    struct import_json json;
    if (!import_json_open(&json, err)) {
        return NULL;
    }
    sp_json_put_string(&json.writer, "kind", "measurement");
    sp_json_put_string(&json.writer, "group", measurement_group_names[MEASUREMENT_STEP]);
    sp_json_put_string(&json.writer, "key", key);
    put_parameters(&json.writer, summary);
    import_json_times(&json.writer, &times);
    return import_json_close(&json, log->arena, err);
}

static const char *machine_of(const struct summary *summary, struct sp_error *err)
{
    struct import_json json;
    if (!import_json_open(&json, err)) {
        return NULL;
    }
    sp_json_put_string(&json.writer, "kind", "machine");
    sp_json_put_string(&json.writer, "schema", "seqplan.device/1");
    sp_json_put_string(&json.writer, "gpu", summary->gpu);
    sp_json_put_string(&json.writer, "imported_from", summary->framework);
    return import_json_close(&json, summary->log->arena, err);
}

static bool add_run(struct import_result *result, const struct summary *summary, struct sp_error *err)
{
    struct store_measurement *row = sp_arena_alloc(result->arena, sizeof(*row));
    row->key = key_of(summary);
    row->json = line_of(summary, row->key, err);
    const char *machine = row->json == NULL ? NULL : machine_of(summary, err);
    if (machine == NULL) {
        return false;
    }
    const struct store_import run = {
        .run = {.profile = sp_format(result->arena, "%s training log", summary->framework), .machine = machine},
        .rows = row,
        .n_rows = 1};
    import_add_run(result, &run);
    return true;
}

/* ---- a log ------------------------------------------------------------------------------------------------------ */

static const training_reader readers[N_IMPORT_KINDS] = {
    [IMPORT_MEGATRON] = megatron_line,
    [IMPORT_TORCHTITAN] = torchtitan_line,
    [IMPORT_NANOTRON] = nanotron_line,
    [IMPORT_DEEPSPEED] = deepspeed_line,
};

static bool check_log(const struct training_log *log, const struct import_log_source *source, const char *gpu,
                      struct sp_error *err)
{
    const char *framework = import_kind_names[source->kind];
    if (log->n_steps == 0) {
        return sp_fail(err, SP_ERROR_INPUT, "%s: no step of %s in %lld line%s", source->text->name, framework,
                       (long long)source->text->n_lines, sp_plural(source->text->n_lines));
    }
    if (log->steps[0].samples_per_s > 0 && fact_of(log, FACT_GLOBAL_BATCH) <= 0) {
        return sp_fail(err, SP_ERROR_INPUT,
                       "%s: the log gives samples per second and no train_batch_size: add --global-batch N",
                       source->text->name);
    }
    return gpu != NULL ||
           sp_fail(err, SP_ERROR_INPUT, "%s: the log does not say which GPU: add --gpu NAME", source->text->name);
}

/* Of the log, or of the user where the log does not say. */
static bool settle_batch(struct training_log *log, const struct import_log_source *source,
                         const struct import_given *given, struct sp_error *err)
{
    int64_t of_line = log->n_steps > 0 ? log->steps[log->n_steps - 1].global_batch : 0;
    int64_t logged = of_line > 0 ? of_line : (int64_t)fact_of(log, FACT_GLOBAL_BATCH);
    if (given->global_batch > 0 && logged > 0 && given->global_batch != logged) {
        return sp_fail(err, SP_ERROR_INPUT,
                       "%s: the log has %lld sequences a step, --global-batch says %lld: leave it out",
                       source->text->name, (long long)logged, (long long)given->global_batch);
    }
    if (given->global_batch > 0) {
        log->facts[FACT_GLOBAL_BATCH] = (double)given->global_batch;
    }
    return true;
}

static void note_taken(struct training_log *log)
{
    for (int64_t i = 0; i < log->n_steps; i++) {
        import_take(log->result, log->steps[i].line, "step %lld, %.4g s", (long long)log->steps[i].step,
                    log->steps[i].time_s);
    }
}

static void read_lines(struct training_log *log, const struct import_log_source *source)
{
    training_reader read = readers[source->kind];
    for (int64_t i = 0; i < source->text->n_lines; i++) {
        (void)read(log, i + 1, source->text->lines[i]);
    }
}

bool import_training(struct sp_arena *arena, const struct import_log_source *source, const struct import_given *given,
                     struct import_result *result, struct sp_error *err)
{
    struct training_log log = {.arena = arena, .result = result};
    import_result_open(result, arena);
    for (int i = 0; i < N_TRAINING_FACTS; i++) {
        log.facts[i] = -1;
    }
    read_lines(&log, source);
    const char *gpu = NULL;
    if (!import_settle_gpu(result, log.gpu, given->gpu, &gpu, err)) {
        sp_error_prefix(err, "%s", source->text->name);
        return false;
    }
    if (!settle_batch(&log, source, given, err) || !check_log(&log, source, gpu, err)) {
        return false;
    }
    find_times(&log);
    drop_others(&log);
    if (log.n_steps == 0) {
        return sp_fail(err, SP_ERROR_INPUT,
                       "%s: no step has a time: expected the sizes of batch, sequence and mesh beside the rate of a "
                       "step, or two steps with the time of day",
                       source->text->name);
    }
    struct summary summary = {.log = &log, .framework = import_kind_names[source->kind], .gpu = gpu};
    summary.n_warmup = drop_warmup(&log, given);
    if (log.n_steps == 0) {
        return sp_fail(err, SP_ERROR_INPUT,
                       "%s: no step is left behind warm-up (%lld left out): --warmup 0 takes all of them",
                       source->text->name, (long long)summary.n_warmup);
    }
    note_taken(&log);
    import_sort_notes(result);
    return add_run(result, &summary, err);
}
