/* A stored run of measurements, each timed line beside its prediction. */
#include "fit/fit.h"

#include <string.h>

/* Keys that differ in their last letter alone differ in few bits of FNV-1a: one round of the end of MurmurHash3 spreads
 * them over all (Appleby, fmix64). */
static uint64_t spread(uint64_t hash)
{
    static const uint64_t factor = UINT64_C(0xff51afd7ed558ccd);
    enum { SHIFT = 33 };
    hash ^= hash >> SHIFT;
    hash *= factor;
    return hash ^ (hash >> SHIFT);
}

enum validation_role validation_role_of(const struct measurement *line)
{
    if (line->group < MEASUREMENT_METHOD) {
        return VALIDATION_FIT;
    }
    uint64_t hash = sp_fnv1a(SP_FNV1A_BASIS, line->key, strlen(line->key));
    return (spread(hash) & 1U) == 0 ? VALIDATION_JUDGE : VALIDATION_FIT;
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
        row->fitted = line->group < MEASUREMENT_METHOD ? "a measurement of one operation" : "the half that is fitted";
    }
    if (fit_predict(arena, machine, line, &row->predicted, &refusal)) {
        row->error_frac = row->predicted / row->measured - 1.0;
    } else {
        row->state = VALIDATION_REFUSED;
        row->reason = sp_strdup(arena, refusal.text);
    }
}

void validation_read_run(struct sp_arena *arena, const struct fit_machine *machine, const struct measurement *lines,
                         size_t n_lines, struct validation_source *source)
{
    source->rows = sp_arena_array(arena, n_lines + 1, sizeof(*source->rows));
    source->n_rows = 0;
    for (size_t i = 0; i < n_lines; i++) {
        if (lines[i].kind == MEASUREMENT_TIMED) {
            fill_row(arena, machine, &lines[i], &source->rows[source->n_rows++]);
        }
    }
}
