/* A stored run of measurements, each timed line beside its prediction. */
#include "fit/fit.h"
#include "fit/validation_internal.h"

#include <string.h>

/* One of the upper half's bits: those of FNV-1a's low end are parities of the text. */
enum { SPLIT_BIT = 32 };

const char validation_fit_half[] = "the half that models are found with";

enum validation_role validation_role_of(const struct measurement *line)
{
    if (line->group < MEASUREMENT_METHOD) {
        return VALIDATION_FIT;
    }
    uint64_t hash = sp_fnv1a(SP_FNV1A_BASIS, line->key, strlen(line->key));
    return (hash >> SPLIT_BIT & 1U) != 0 ? VALIDATION_JUDGE : VALIDATION_FIT;
}

static const char *parameter_text(const struct measurement *line, const char *key)
{
    const struct sp_json *member = line->parameters == NULL ? NULL : sp_json_member(line->parameters, key);
    return member != NULL && member->type == SP_JSON_STRING ? member->string : NULL;
}

static int64_t parameter_length(const struct measurement *line)
{
    const struct sp_json *member = line->parameters == NULL ? NULL : sp_json_member(line->parameters, "tokens");
    int64_t tokens = 0;
    return member != NULL && member->type == SP_JSON_NUMBER && sp_json_integer(member, &tokens) ? tokens : 0;
}

/* The parameters without the method and the times of its parts. */
static const char *question_key(struct sp_arena *arena, const struct measurement *line)
{
    struct sp_texts parts = {.arena = arena};
    const struct sp_json *first = line->parameters == NULL ? NULL : line->parameters->first;
    for (const struct sp_json *item = first; item != NULL; item = item->next) {
        bool is_asked = strcmp(item->key, "method") != 0 && strncmp(item->key, "step", strlen("step")) != 0;
        if (is_asked && item->type == SP_JSON_STRING) {
            sp_texts_add(&parts, "%s=%s", item->key, item->string);
        } else if (is_asked && item->type == SP_JSON_NUMBER) {
            sp_texts_add(&parts, "%s=%.17g", item->key, item->number);
        }
    }
    return sp_join(arena, parts.items, parts.count, " ");
}

static void fill_row(struct sp_arena *arena, const struct fit_machine *machine, const struct measurement *line,
                     struct validation_row *row)
{
    struct sp_error refusal = {.kind = SP_ERROR_NONE};
    *row = (struct validation_row){.name = line->key,
                                   .group = measurement_group_names[line->group],
                                   .quantity = validation_quantity_of(line->group),
                                   .role = validation_role_of(line),
                                   .measured = line->median_s,
                                   .framework = parameter_text(line, "framework"),
                                   .method = parameter_text(line, "method"),
                                   .seq = parameter_length(line),
                                   .question_key = question_key(arena, line),
                                   .method_label = parameter_text(line, "method")};
    if (row->role == VALIDATION_FIT) {
        row->fitted = line->group < MEASUREMENT_METHOD ? "a measurement of one operation" : validation_fit_half;
    }
    if (fit_predict(arena, machine, line, &row->predicted, &refusal)) {
        double interval[2];
        row->error_frac = row->predicted / row->measured - 1.0;
        row->has_interval = fit_interval(arena, machine, line, row->predicted, interval);
        row->low = row->has_interval ? interval[0] : 0;
        row->high = row->has_interval ? interval[1] : 0;
    } else {
        row->state = VALIDATION_REFUSED;
        row->reason = sp_strdup(arena, refusal.text);
    }
}

/* Of a measurement file, what judges: methods and layers. The rest is for fits alone (docs/calibration.md). */
static bool take_lines(struct sp_arena *arena, const struct fit_machine *machine, const char *path, const char *text,
                       struct validation_source *source, struct sp_error *err)
{
    size_t n_most = 1;
    for (const char *at = text; *at != '\0'; at++) {
        n_most += *at == '\n' ? 1 : 0;
    }
    struct measurement *lines = sp_arena_array(arena, n_most, sizeof(*lines));
    size_t n = 0;
    for (int number = 1; *text != '\0'; number++) {
        size_t length = strcspn(text, "\n");
        if (length > 0 && !measurement_parse(arena, text, length, &lines[n], err)) {
            sp_error_prefix(err, "%s: line %d", path, number);
            return false;
        }
        bool is_taken = length > 0 && lines[n].kind == MEASUREMENT_TIMED && lines[n].group >= MEASUREMENT_METHOD &&
                        lines[n].group != MEASUREMENT_STEP;
        n += is_taken ? 1 : 0;
        text += length + (text[length] == '\n' ? 1 : 0);
    }
    validation_read_run(arena, machine, lines, n, source);
    return true;
}

bool validation_read_lines(const struct validation_reading *reading, const char *name, struct sp_error *err)
{
    struct sp_arena *arena = reading->arena;
    const char *path = sp_format(arena, "%s/%s", reading->folder, name);
    const struct sp_json *hardware_name =
        reading->defaults == NULL ? NULL : sp_json_member(reading->defaults, "hardware");
    const struct sp_json *kernel = reading->defaults == NULL ? NULL : sp_json_member(reading->defaults, "attention");
    struct hardware_spec *hardware = sp_arena_alloc(arena, sizeof(*hardware));
    if (hardware_name == NULL || hardware_name->type != SP_JSON_STRING) {
        return sp_fail(err, SP_ERROR_INPUT, "%s: $.defaults: measurements need the name of their hardware",
                       reading->path);
    }
    const char *text = validation_read_text(arena, path, err);
    if (text == NULL || !hardware_read(arena, hardware_name->string, NULL, hardware, err)) {
        return false;
    }
    const struct fit_machine machine = {
        .hardware = hardware, .kernel = kernel == NULL || kernel->type != SP_JSON_STRING ? "seqplan" : kernel->string};
    return take_lines(arena, &machine, path, text, reading->source, err);
}

void validation_read_run(struct sp_arena *arena, const struct fit_machine *machine, const struct measurement *lines,
                         size_t n_lines, struct validation_source *source)
{
    source->rows = sp_arena_array(arena, n_lines + 1, sizeof(*source->rows));
    source->n_rows = 0;
    for (size_t i = 0; i < n_lines; i++) {
        if (lines[i].kind == MEASUREMENT_TIMED && lines[i].group != MEASUREMENT_STEP) {
            fill_row(arena, machine, &lines[i], &source->rows[source->n_rows]);
            source->rows[source->n_rows].run = source->n_rows;
            source->n_rows++;
        }
    }
}
