/* Validation tables made of sheets and of stored steps. */
#include "fit/validation_internal.h"

#include <string.h>

struct sp_json *validation_append(struct sp_arena *arena, struct validation_builder *builder, const char *key,
                                  enum sp_json_type type)
{
    struct sp_json *item = sp_arena_alloc(arena, sizeof(*item));
    *item = (struct sp_json){.type = type, .key = key};
    if (builder->last == NULL) {
        builder->group->first = item;
    } else {
        builder->last->next = item;
    }
    builder->last = item;
    builder->group->count++;
    return item;
}

void validation_append_text(struct sp_arena *arena, struct validation_builder *builder, const char *key,
                            const char *text)
{
    validation_append(arena, builder, key, SP_JSON_STRING)->string = text;
}

struct sp_json *validation_begin_table(struct sp_arena *arena, const char *where, struct validation_builder *rows)
{
    struct validation_builder table = {.group = sp_arena_alloc(arena, sizeof(struct sp_json))};
    *table.group = (struct sp_json){.type = SP_JSON_OBJECT};
    validation_append_text(arena, &table, "schema", "seqplan.validation/1");
    struct validation_builder about = {.group = validation_append(arena, &table, "source", SP_JSON_OBJECT)};
    validation_append_text(arena, &about, "title", "runs of the user");
    validation_append_text(arena, &about, "where", where);
    validation_append_text(arena, &about, "year", "");
    *rows = (struct validation_builder){.group = validation_append(arena, &table, "rows", SP_JSON_ARRAY)};
    return table.group;
}

/* ---- whole steps of a stored run ----------------------------------------------------------------------------------- */

/* What a log tells of the layout, as options call it. */
static const struct {
    const char *parameter, *option;
} options[] = {{"gpus", "gpus"},
               {"tp", "tp"},
               {"cp", "sp"},
               {"pp", "pp"},
               {"ep", "ep"},
               {"seq", "seq"},
               {"global_batch", "global-batch"},
               {"micro_batch", "micro-batch"}};
static const struct {
    const char *logged, *framework;
} frameworks[] = {{"megatron", "megatron"}, {"torchtitan", "torch"}, {"deepspeed", "deepspeed"}};
static const char *const peaks[] = {"peak_allocated_bytes", "peak_reserved_bytes"};

static void add_settings(struct sp_arena *arena, const struct measurement *line, const char *hardware,
                         struct validation_builder *settings)
{
    validation_append_text(arena, settings, "hardware", hardware);
    for (size_t i = 0; i < SP_COUNT_OF(options); i++) {
        const struct sp_json *value = sp_json_member(line->parameters, options[i].parameter);
        if (value != NULL && value->type == SP_JSON_NUMBER) {
            validation_append(arena, settings, options[i].option, SP_JSON_NUMBER)->number = value->number;
        }
    }
    const struct sp_json *logged = sp_json_member(line->parameters, "framework");
    for (size_t i = 0; i < SP_COUNT_OF(frameworks); i++) {
        if (logged != NULL && logged->type == SP_JSON_STRING && strcmp(logged->string, frameworks[i].logged) == 0) {
            validation_append_text(arena, settings, "framework", frameworks[i].framework);
        }
    }
}

static void add_step(struct sp_arena *arena, const struct measurement *line, const char *hardware,
                     struct validation_builder *rows)
{
    struct validation_builder row = {.group = validation_append(arena, rows, NULL, SP_JSON_OBJECT)};
    validation_append_text(arena, &row, "name", line->key);
    validation_append_text(arena, &row, "group", "step");
    validation_append_text(arena, &row, "role", validation_role_names[validation_role_of(line)]);
    struct validation_builder settings = {.group = validation_append(arena, &row, "settings", SP_JSON_OBJECT)};
    add_settings(arena, line, hardware, &settings);
    struct validation_builder measured = {.group = validation_append(arena, &row, "measured", SP_JSON_OBJECT)};
    validation_append(arena, &measured, "step_time_s", SP_JSON_NUMBER)->number = line->median_s;
    for (size_t i = 0; i < SP_COUNT_OF(peaks); i++) {
        const struct sp_json *value = sp_json_member(line->parameters, peaks[i]);
        if (value != NULL && value->type == SP_JSON_NUMBER) {
            validation_append(arena, &measured, peaks[i], SP_JSON_NUMBER)->number = value->number;
        }
    }
}

/* As of the methods and layers of a run: what the half that does not judge is for. */
static void add_fitted(struct sp_arena *arena, const struct measurement *line, struct validation_builder *fitted)
{
    struct validation_builder entry = {.group = validation_append(arena, fitted, NULL, SP_JSON_OBJECT)};
    validation_append_text(arena, &entry, "row", line->key);
    validation_append_text(arena, &entry, "what", validation_fit_half);
}

const struct sp_json *validation_steps_table(struct sp_arena *arena, const char *where, const char *hardware,
                                             const struct measurement *lines, size_t n_lines)
{
    struct validation_builder rows;
    struct sp_json *table = validation_begin_table(arena, where, &rows);
    struct validation_builder members = {.group = table, .last = rows.group}; /* its rows come last */
    struct validation_builder fitted = {.group = validation_append(arena, &members, "fitted", SP_JSON_ARRAY)};
    for (size_t i = 0; i < n_lines; i++) {
        if (lines[i].kind == MEASUREMENT_TIMED && lines[i].group == MEASUREMENT_STEP) {
            add_step(arena, &lines[i], hardware, &rows);
            if (validation_role_of(&lines[i]) == VALIDATION_FIT) {
                add_fitted(arena, &lines[i], &fitted);
            }
        }
    }
    return rows.group->count > 0 ? table : NULL;
}
