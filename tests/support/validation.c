#include "support/validation.h"

#include "cmd/command.h"

#include <assert.h>
#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- quantities -------------------------------------------------------------------------------------------------- */

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

static const struct validation_quantity quantities[] = {
    {"step_time_s", UNIT_SECONDS, step_time},
    {"tokens_per_s_per_gpu", UNIT_RATE, tokens_per_s_per_gpu},
    {"flop_per_s_per_gpu", UNIT_FLOP_PER_S, flop_per_s_per_gpu},
    {"mfu_frac", UNIT_FRACTION, mfu},
    {"peak_allocated_bytes", UNIT_BYTES, peak_allocated},
    {"peak_reserved_bytes", UNIT_BYTES, peak_reserved},
    {"activation_bytes", UNIT_BYTES, activation_bytes},
    {"attention_buffer_bytes", UNIT_BYTES, attention_buffer_bytes},
    {"fits", UNIT_YES_NO, fits},
    {"attention_forward_s", UNIT_SECONDS, attention_forward},
    {"attention_forward_backward_s", UNIT_SECONDS, attention_both},
    {"attention_forward_per_s", UNIT_RATE, attention_forward_rate},
    {"attention_forward_backward_per_s", UNIT_RATE, attention_both_rate},
    {"kernels_forward_s", UNIT_SECONDS, kernels_forward},
    {"kernels_forward_backward_s", UNIT_SECONDS, kernels_both},
    {"merges_forward_s", UNIT_SECONDS, merges_forward},
    {"merges_forward_backward_s", UNIT_SECONDS, merges_both},
    {"layer_forward_s", UNIT_SECONDS, layer_forward},
    {"layer_backward_s", UNIT_SECONDS, layer_backward},
};

static const struct validation_quantity *quantity_find(const char *name)
{
    for (size_t i = 0; i < SP_COUNT_OF(quantities); i++) {
        if (strcmp(quantities[i].name, name) == 0) {
            return &quantities[i];
        }
    }
    return NULL;
}

/* ---- settings to a question -------------------------------------------------------------------------------------- */

struct command_line {
    struct sp_arena *arena;
    const char *folder;
    struct sp_texts words;
};

static void add_option(struct command_line *line, const char *name, const struct sp_json *value)
{
    if (value->type == SP_JSON_ARRAY) {
        for (const struct sp_json *item = value->first; item != NULL; item = item->next) {
            add_option(line, name, item);
        }
    } else if (value->type == SP_JSON_NUMBER) {
        sp_texts_add(&line->words, "--%s=%.0f", name, value->number);
    } else if (strncmp(value->string, "models/", strlen("models/")) == 0) {
        sp_texts_add(&line->words, "--%s=%s/%s", name, line->folder, value->string);
    } else {
        sp_texts_add(&line->words, "--%s=%s", name, value->string);
    }
}

/* Later options win and --set adds up, so defaults come first. */
static void add_options(struct command_line *line, const struct sp_json *settings)
{
    for (const struct sp_json *item = settings == NULL ? NULL : settings->first; item != NULL; item = item->next) {
        add_option(line, item->key, item);
    }
}

static bool price(struct command_line *line, struct question *question, struct estimate *estimate, struct sp_error *err)
{
    struct command_options options = {.vary = {.arena = line->arena}};
    char **argv = sp_arena_array(line->arena, line->words.count + 2, sizeof(*argv));
    argv[0] = sp_strdup(line->arena, "estimate");
    for (size_t i = 0; i < line->words.count; i++) {
        argv[i + 1] = sp_strdup(line->arena, line->words.items[i]);
    }
    request_init(&options.request, line->arena);
    if (!sp_options_parse(question_options, (int)line->words.count + 1, argv, &options, NULL, err) ||
        !question_resolve(&options.request, line->arena, question, err) || !step_check(question, err)) {
        return false;
    }
    step_estimate(question, estimate);
    return true;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static bool is_known(const struct sp_json *object, const char *path, const char *const *keys, struct sp_error *err)
{
    for (const struct sp_json *item = object->first; item != NULL; item = item->next) {
        if (sp_index_of(item->key, keys) < 0) {
            return sp_fail(err, SP_ERROR_INPUT, "%s: unknown key \"%.60s\"", path, item->key);
        }
    }
    return true;
}

static const char *text_of(const struct sp_json *object, const char *key)
{
    const struct sp_json *member = sp_json_member(object, key);
    return member != NULL && member->type == SP_JSON_STRING ? member->string : NULL;
}

/* What a row without a price says, the same for every measured quantity of it. */
static enum validation_state state_of(const struct sp_error *err)
{
    bool is_not_built = strstr(err->text, "not built yet") != NULL;
    return is_not_built ? VALIDATION_NOT_BUILT : VALIDATION_REFUSED;
}

struct priced_run {
    enum validation_state state;
    const char *reason;
    struct question question;
    struct estimate estimate;
};

static void price_run(struct command_line *line, const struct sp_json *run, const struct sp_json *defaults,
                      struct priced_run *priced)
{
    const struct sp_json *settings = sp_json_member(run, "settings");
    priced->reason = text_of(run, "not_expressible");
    if (priced->reason != NULL || settings == NULL) {
        priced->state = VALIDATION_NOT_EXPRESSIBLE;
        return;
    }
    struct sp_error err = {0};
    line->words = (struct sp_texts){.arena = line->arena};
    add_options(line, defaults);
    add_options(line, settings);
    priced->state = VALIDATION_COMPARED;
    if (!price(line, &priced->question, &priced->estimate, &err)) {
        priced->state = state_of(&err);
        priced->reason = sp_strdup(line->arena, err.text);
    }
}

static bool fill_row(const struct sp_json *measured, const struct priced_run *priced, struct validation_row *row,
                     struct sp_error *err)
{
    row->quantity = quantity_find(measured->key);
    if (row->quantity == NULL) {
        return sp_fail(err, SP_ERROR_INPUT, "row \"%s\": unknown quantity \"%.60s\"", row->name, measured->key);
    }
    row->measured = measured->type == SP_JSON_BOOL ? (double)measured->boolean : measured->number;
    row->state = priced->state;
    row->reason = priced->reason;
    if (row->state != VALIDATION_COMPARED) {
        return true;
    }
    row->predicted = row->quantity->predict(&priced->question, &priced->estimate);
    if (row->quantity->unit == UNIT_YES_NO) {
        row->error_frac = fabs(row->predicted - row->measured);
    } else {
        row->error_frac = row->predicted / row->measured - 1;
    }
    return true;
}

static int count_measured(const struct sp_json *runs)
{
    int n = 0;
    for (const struct sp_json *run = runs->first; run != NULL; run = run->next) {
        const struct sp_json *measured = sp_json_member(run, "measured");
        n += measured == NULL ? 0 : measured->count;
    }
    return n;
}

static bool read_runs(struct command_line *line, const struct sp_json *file, struct validation_source *source,
                      struct sp_error *err)
{
    static const char *const keys[] = {"name",   "group",           "settings", "measured",
                                       "beside", "not_expressible", "note",     NULL};
    const struct sp_json *runs = sp_json_member(file, "rows");
    struct priced_run *priced = sp_arena_alloc(line->arena, sizeof(*priced));
    source->rows = sp_arena_array(line->arena, (size_t)count_measured(runs) + 1, sizeof(*source->rows));
    for (const struct sp_json *run = runs->first; run != NULL; run = run->next) {
        const char *name = text_of(run, "name");
        const struct sp_json *measured = sp_json_member(run, "measured");
        if (name == NULL || text_of(run, "group") == NULL || !is_known(run, name, keys, err)) {
            return err->text[0] != '\0' ? false : sp_fail(err, SP_ERROR_INPUT, "a row lacks its name or group");
        }
        price_run(line, run, sp_json_member(file, "defaults"), priced);
        for (const struct sp_json *item = measured == NULL ? NULL : measured->first; item != NULL; item = item->next) {
            struct validation_row *row = &source->rows[source->n_rows++];
            *row = (struct validation_row){.name = name, .group = text_of(run, "group"), .note = text_of(run, "note")};
            if (!fill_row(item, priced, row, err)) {
                return false;
            }
        }
    }
    return true;
}

/* ---- sources ----------------------------------------------------------------------------------------------------- */

bool validation_read(struct sp_arena *arena, const char *folder, const char *name, struct validation_source *source,
                     struct sp_error *err)
{
    static const char *const keys[] = {"schema", "source", "unstated", "defaults", "targets", "misses", "rows", NULL};
    const char *path = sp_format(arena, "%s/%s.json", folder, name);
    const struct sp_json *file = sp_json_read(arena, path, err);
    if (file == NULL || !is_known(file, path, keys, err)) {
        return false;
    }
    const struct sp_json *about = sp_json_member(file, "source");
    const char *schema = text_of(file, "schema");
    if (schema == NULL || strcmp(schema, "seqplan.validation/1") != 0 || about == NULL ||
        sp_json_member(file, "rows") == NULL) {
        return sp_fail(err, SP_ERROR_INPUT, "%s: expected schema seqplan.validation/1 with source and rows", path);
    }
    *source = (struct validation_source){.name = name,
                                         .title = text_of(about, "title"),
                                         .where = text_of(about, "where"),
                                         .year = text_of(about, "year"),
                                         .unstated = sp_json_member(file, "unstated"),
                                         .targets = sp_json_member(file, "targets"),
                                         .misses = sp_json_member(file, "misses")};
    struct command_line line = {.arena = arena, .folder = folder};
    if (!read_runs(&line, file, source, err)) {
        sp_error_prefix(err, "%s", path);
        return false;
    }
    return true;
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

bool validation_names(struct sp_arena *arena, const char *folder, struct sp_texts *names, struct sp_error *err)
{
    static const char extension[] = ".json";
    DIR *entries = opendir(folder);
    if (entries == NULL) {
        return sp_fail(err, SP_ERROR_INPUT, "%s: cannot be opened", folder);
    }
    *names = (struct sp_texts){.arena = arena};
    for (struct dirent *entry = readdir(entries); entry != NULL; entry = readdir(entries)) {
        size_t length = strlen(entry->d_name);
        if (length >= sizeof(extension) && strcmp(entry->d_name + length - (sizeof(extension) - 1), extension) == 0) {
            sp_texts_add(names, "%.*s", (int)(length - (sizeof(extension) - 1)), entry->d_name);
        }
    }
    closedir(entries);
    if (names->count > 1) {
        qsort(names->items, names->count, sizeof(names->items[0]), compare_texts);
    }
    return true;
}

/* ---- summaries --------------------------------------------------------------------------------------------------- */

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static bool is_in(const struct validation_summary *summary, const struct validation_row *row)
{
    bool is_group = summary->group == NULL || strcmp(summary->group, row->group) == 0;
    return is_group && summary->quantity == row->quantity;
}

static double target_of(const struct validation_source *source, const struct validation_summary *summary)
{
    const struct sp_json *group = NULL;
    if (source->targets != NULL && summary->group != NULL) {
        group = sp_json_member(source->targets, summary->group);
    }
    const struct sp_json *target = group == NULL ? NULL : sp_json_member(group, summary->quantity->name);
    return target == NULL ? 0 : target->number;
}

static const char *miss_of(const struct validation_source *source, const struct validation_summary *summary)
{
    const struct sp_json *group = NULL;
    if (source->misses != NULL && summary->group != NULL) {
        group = sp_json_member(source->misses, summary->group);
    }
    return group == NULL ? NULL : text_of(group, summary->quantity->name);
}

static void fill_summary(const struct validation_source *source, double *errors, struct validation_summary *summary)
{
    double sum = 0;
    for (int i = 0; i < source->n_rows; i++) {
        const struct validation_row *row = &source->rows[i];
        if (!is_in(summary, row)) {
            continue;
        }
        summary->n_not_built += row->state == VALIDATION_NOT_BUILT;
        summary->n_refused += row->state == VALIDATION_REFUSED;
        summary->n_not_expressible += row->state == VALIDATION_NOT_EXPRESSIBLE;
        if (row->state == VALIDATION_COMPARED) {
            errors[summary->n_compared++] = fabs(row->error_frac);
            sum += row->error_frac;
        }
    }
    summary->target_frac = target_of(source, summary);
    summary->miss = miss_of(source, summary);
    int n = summary->n_compared;
    if (n > 0) {
        qsort(errors, (size_t)n, sizeof(errors[0]), compare_doubles);
        summary->median_frac = (errors[(n - 1) / 2] + errors[n / 2]) / 2;
        summary->max_frac = errors[n - 1];
        summary->bias_frac = sum / n;
    }
}

int validation_summarise(struct sp_arena *arena, const struct validation_source *source, bool by_group,
                         struct validation_summary *summaries, int max)
{
    int n = 0;
    double *errors = sp_arena_array(arena, (size_t)source->n_rows + 1, sizeof(*errors));
    for (int i = 0; i < source->n_rows; i++) {
        const struct validation_row *row = &source->rows[i];
        bool is_new = true;
        for (int j = 0; j < n && is_new; j++) {
            is_new = !is_in(&summaries[j], row);
        }
        if (is_new) {
            assert(n < max);
            summaries[n] =
                (struct validation_summary){.group = by_group ? row->group : NULL, .quantity = row->quantity};
            fill_summary(source, errors, &summaries[n]);
            n++;
        }
    }
    return n;
}
