/* A row of a validation file: priced, and held against what was measured. */
#include "fit/validation_internal.h"

#include <math.h>
#include <string.h>

static const char *text_of(const struct sp_json *object, const char *key)
{
    const struct sp_json *member = sp_json_member(object, key);
    return member != NULL && member->type == SP_JSON_STRING ? member->string : NULL;
}

/* ---- settings to options ----------------------------------------------------------------------------------------- */

static const char *value_text(const struct validation_reading *reading, const struct sp_json *value)
{
    static const char own_models[] = "models/";
    int64_t integer = 0;
    if (value->type == SP_JSON_NUMBER) {
        return sp_json_integer(value, &integer) ? sp_format(reading->pricer->scratch, "%lld", (long long)integer)
                                                : sp_format(reading->pricer->scratch, "%.17g", value->number);
    }
    bool is_beside = strncmp(value->string, own_models, strlen(own_models)) == 0;
    return is_beside ? sp_format(reading->pricer->scratch, "%s/%s", reading->folder, value->string) : value->string;
}

static bool add_option(const struct validation_reading *reading, const struct sp_json *value, const char *name,
                       struct sp_texts *words, struct sp_error *err)
{
    if (!validation_is_option(reading->pricer->options, name)) {
        return sp_fail(err, SP_ERROR_INPUT, "settings: \"%.60s\" is no option of estimate", name);
    }
    if (value->type == SP_JSON_ARRAY) {
        for (const struct sp_json *item = value->first; item != NULL; item = item->next) {
            if (item->type == SP_JSON_ARRAY || !add_option(reading, item, name, words, err)) {
                return err->kind != SP_ERROR_NONE
                           ? false
                           : sp_fail(err, SP_ERROR_INPUT, "option \"%.40s\": a list in a list", name);
            }
        }
        return true;
    }
    if (value->type != SP_JSON_NUMBER && value->type != SP_JSON_STRING) {
        return sp_fail(err, SP_ERROR_INPUT,
                       "option \"%.40s\": expected a number, a text such as \"zigzag\", or a list of texts", name);
    }
    sp_texts_add(words, "--%s=%s", name, value_text(reading, value));
    return true;
}

/* Later options win and --set adds up, so defaults come first. */
static bool add_options(const struct validation_reading *reading, const struct sp_json *settings,
                        struct sp_texts *words, struct sp_error *err)
{
    for (const struct sp_json *item = settings == NULL ? NULL : settings->first; item != NULL; item = item->next) {
        if (!add_option(reading, item, item->key, words, err)) {
            return false;
        }
    }
    return true;
}

/* What is asked of all methods alike: the settings without the method and what goes with it. */
static void add_to_key(const struct sp_json *settings, struct sp_texts *parts)
{
    static const char *const of_method[] = {"sp-method", "sp-ulysses", "sp-inner", "framework", "zero", "kernels",
                                            "set",       "tp",         "sp",       "cp",        NULL};
    for (const struct sp_json *item = settings == NULL ? NULL : settings->first; item != NULL; item = item->next) {
        if (sp_index_of(item->key, of_method) >= 0) {
            continue;
        }
        if (item->type == SP_JSON_NUMBER) {
            sp_texts_add(parts, "%s=%.17g", item->key, item->number);
        } else if (item->type == SP_JSON_STRING) {
            sp_texts_add(parts, "%s=%s", item->key, item->string);
        }
    }
}

static const char *question_key(const struct validation_reading *reading, const struct sp_json *settings)
{
    struct sp_texts parts = {.arena = reading->pricer->scratch};
    add_to_key(reading->defaults, &parts);
    add_to_key(settings, &parts);
    return sp_join(reading->arena, parts.items, parts.count, " ");
}

/* ---- one run ----------------------------------------------------------------------------------------------------- */

struct run {
    const struct sp_json *json;
    const char *place; /* "$.rows[3]" */
    int index;
    const char *name, *group, *note, *reason;
    const struct sp_json *settings, *measured;
    enum validation_role role;
    enum validation_state state;
};

static bool read_role(const struct validation_reading *reading, struct run *run, struct sp_error *err)
{
    const char *role = text_of(run->json, "role");
    int index = role == NULL ? (int)VALIDATION_JUDGE : sp_index_of(role, validation_role_names);
    run->role = index == (int)VALIDATION_FIT ? VALIDATION_FIT : VALIDATION_JUDGE;
    return index >= 0 || sp_fail(err, SP_ERROR_INPUT, "%s: %s.role: expected \"judge\" or \"fit\", found \"%.40s\"",
                                 reading->path, run->place, role);
}

static bool check_keys(const struct validation_reading *reading, const struct run *run, struct sp_error *err)
{
    static const char *const keys[] = {"name",   "group",           "settings", "measured", "role",
                                       "beside", "not_expressible", "note",     NULL};
    for (const struct sp_json *item = run->json->first; item != NULL; item = item->next) {
        if (sp_index_of(item->key, keys) < 0) {
            const char *nearest = sp_nearest(item->key, keys, SP_COUNT_OF(keys) - 1);
            return sp_fail(err, SP_ERROR_INPUT, "%s: %s: unknown key \"%.60s\"%s%s%s", reading->path, run->place,
                           item->key, nearest == NULL ? "" : " (did you mean \"", nearest == NULL ? "" : nearest,
                           nearest == NULL ? "" : "\"?)");
        }
    }
    return true;
}

bool validation_has_control(const char *text)
{
    enum { DELETE = 0x7f, C1_LEAD = 0xc2, C1_END = 0xa0 }; /* C1: U+0080 to U+009F in UTF-8 */
    for (const unsigned char *at = (const unsigned char *)text; *at != '\0'; at++) {
        bool is_blank = *at == '\t' || *at == '\n' || *at == '\r';
        if ((*at < ' ' && !is_blank) || *at == DELETE || (*at == C1_LEAD && at[1] < C1_END)) {
            return true;
        }
    }
    return false;
}

/* They are printed as they stand. */
static bool check_texts(const struct validation_reading *reading, const struct run *run, struct sp_error *err)
{
    const char *const texts[] = {run->name, run->group, run->note, run->reason};
    for (size_t i = 0; i < SP_COUNT_OF(texts); i++) {
        if (texts[i] != NULL && validation_has_control(texts[i])) {
            return sp_fail(err, SP_ERROR_INPUT, "%s: %s: a control character in a text of the row", reading->path,
                           run->place);
        }
    }
    return true;
}

static bool read_members(const struct validation_reading *reading, struct run *run, struct sp_error *err)
{
    static const struct {
        const char *key;
        enum sp_json_type type;
    } members[] = {{"name", SP_JSON_STRING},    {"group", SP_JSON_STRING},           {"note", SP_JSON_STRING},
                   {"role", SP_JSON_STRING},    {"not_expressible", SP_JSON_STRING}, {"settings", SP_JSON_OBJECT},
                   {"measured", SP_JSON_OBJECT}};
    if (run->json->type != SP_JSON_OBJECT) {
        return sp_fail(err, SP_ERROR_INPUT, "%s: %s: expected an object", reading->path, run->place);
    }
    const struct validation_place place = {reading->path, run->place, run->json};
    for (size_t i = 0; i < SP_COUNT_OF(members); i++) {
        if (!validation_check_member(&place, members[i].key, members[i].type, err)) {
            return false;
        }
    }
    run->name = text_of(run->json, "name");
    run->group = text_of(run->json, "group");
    run->note = text_of(run->json, "note");
    run->reason = text_of(run->json, "not_expressible");
    run->settings = sp_json_member(run->json, "settings");
    run->measured = sp_json_member(run->json, "measured");
    if (run->name == NULL || run->group == NULL) {
        return sp_fail(err, SP_ERROR_INPUT, "%s: %s: expected a name and a group", reading->path, run->place);
    }
    return check_texts(reading, run, err) && check_keys(reading, run, err) && read_role(reading, run, err);
}

/* What a run without a price says is the same for every measured quantity of it. */
static bool price_run(const struct validation_reading *reading, struct run *run, struct sp_error *err)
{
    if (run->reason != NULL || run->settings == NULL) {
        run->state = VALIDATION_NOT_EXPRESSIBLE;
        return true;
    }
    struct sp_error refusal = {.kind = SP_ERROR_NONE};
    struct sp_texts words = {.arena = reading->pricer->scratch};
    if (!add_options(reading, reading->defaults, &words, err) || !add_options(reading, run->settings, &words, err)) {
        sp_error_prefix(err, "%s: %s", reading->path, run->place);
        return false;
    }
    run->state = VALIDATION_COMPARED;
    if (!reading->pricer->price(reading->pricer->user, &words, reading->question, reading->estimate, &refusal)) {
        run->state = strstr(refusal.text, "not built yet") != NULL ? VALIDATION_NOT_BUILT : VALIDATION_REFUSED;
        run->reason = sp_strdup(reading->arena, refusal.text);
    }
    return true;
}

/* ---- one measured quantity ---------------------------------------------------------------------------------------- */

static bool is_of(const char *wanted, const char *found)
{
    return wanted == NULL || strcmp(wanted, found) == 0;
}

/* What was fitted to the row, by the list of the file; NULL: nothing. */
static const char *fitted_of(const struct sp_json *fitted, const struct validation_row *row)
{
    for (const struct sp_json *item = fitted == NULL ? NULL : fitted->first; item != NULL; item = item->next) {
        if (is_of(text_of(item, "group"), row->group) && is_of(text_of(item, "quantity"), row->quantity->name) &&
            is_of(text_of(item, "row"), row->name)) {
            return text_of(item, "what");
        }
    }
    return NULL;
}

static void refuse(struct validation_row *row, const char *reason)
{
    row->state = VALIDATION_REFUSED;
    row->reason = reason;
}

static bool is_beyond_attention(const struct validation_quantity *quantity)
{
    static const char layer[] = "layer_";
    return quantity->family == VALIDATION_STEP || strncmp(quantity->name, layer, strlen(layer)) == 0;
}

static void predict(const struct validation_reading *reading, struct validation_row *row)
{
    const struct question *question = reading->question;
    double interval[2];
    if (row->quantity->is_of_layer && question->layout.pp > 1) {
        refuse(row, "one layer is compared without a pipeline: set pp to 1");
        return;
    }
    if (question->run.is_attention_only && is_beyond_attention(row->quantity)) {
        refuse(row, "the settings price attention alone: leave only=attention out, or measure attention_forward_s or "
                    "attention_forward_backward_s");
        return;
    }
    row->predicted = row->quantity->predict(question, reading->estimate);
    if (!isfinite(row->predicted)) {
        refuse(row, "the layout has no such part");
        return;
    }
    row->framework = framework_names[question->layout.framework];
    row->method = method_names[question->layout.method];
    row->seq = question->run.seq;
    row->method_label = question->layout.method == METHOD_NONE && question->layout.tp > 1 ? "tp" : row->method;
    row->error_frac = row->quantity->unit == VALIDATION_YES_NO ? fabs(row->predicted - row->measured)
                                                               : row->predicted / row->measured - 1.0;
    row->has_interval = validation_interval(row->quantity, reading->estimate, row->predicted, interval);
    if (row->has_interval) {
        row->low = interval[0];
        row->high = interval[1];
    }
}

static bool fail_quantity(const struct validation_reading *reading, const struct run *run, const char *name,
                          struct sp_error *err)
{
    struct sp_texts names = {.arena = reading->arena};
    validation_quantity_names(&names);
    const char *nearest = sp_nearest(name, names.items, names.count);
    return sp_fail(err, SP_ERROR_INPUT, "%s: %s.measured: unknown quantity \"%.60s\": %s%s", reading->path, run->place,
                   name, nearest == NULL ? "expected one of " : "did you mean ",
                   nearest == NULL ? sp_join(reading->arena, names.items, names.count, ", ") : nearest);
}

bool validation_is_measurable(double value)
{
    static const double least = 1e-15;
    static const double most = 1e30;
    return value >= least && value <= most; /* no NaN either */
}

static bool read_value(const struct validation_reading *reading, const struct run *run, const struct sp_json *measured,
                       double *value, struct sp_error *err)
{
    const struct validation_quantity *quantity = validation_quantity_find(measured->key);
    if (quantity == NULL) {
        return fail_quantity(reading, run, measured->key, err);
    }
    bool is_yes_no = quantity->unit == VALIDATION_YES_NO;
    if (quantity->unit == VALIDATION_FRACTION && measured->type == SP_JSON_NUMBER && measured->number > 1) {
        return sp_fail(err, SP_ERROR_INPUT, "%s: %s.measured.%s: expected a share up to 1 (0.39 for 39 %%), found %g",
                       reading->path, run->place, measured->key, measured->number);
    }
    bool is_good = is_yes_no ? measured->type == SP_JSON_BOOL
                             : measured->type == SP_JSON_NUMBER && validation_is_measurable(measured->number);
    *value = measured->type == SP_JSON_BOOL ? (double)measured->boolean : measured->number;
    return is_good || sp_fail(err, SP_ERROR_INPUT, "%s: %s.measured.%s: expected %s", reading->path, run->place,
                              measured->key, is_yes_no ? "true or false" : "a number above 0, from 1e-15 to 1e30");
}

static bool add_row(struct validation_reading *reading, const struct run *run, const struct sp_json *measured,
                    struct sp_error *err)
{
    struct validation_row row = {.name = run->name,
                                 .group = run->group,
                                 .run = run->index,
                                 .quantity = validation_quantity_find(measured->key),
                                 .state = run->state,
                                 .role = run->role,
                                 .reason = run->reason,
                                 .note = run->note};
    if (!read_value(reading, run, measured, &row.measured, err)) {
        return false;
    }
    row.fitted = fitted_of(reading->fitted, &row);
    row.role = row.fitted == NULL ? row.role : VALIDATION_FIT;
    if (row.state == VALIDATION_COMPARED) {
        row.question_key = question_key(reading, run->settings);
        predict(reading, &row);
    }
    reading->source->rows[reading->source->n_rows++] = row;
    return true;
}

static bool read_row(struct validation_reading *reading, const struct sp_json *json, int index, struct sp_error *err)
{
    struct run run = {.json = json, .index = index, .place = sp_format(reading->arena, "$.rows[%d]", index)};
    if (!read_members(reading, &run, err)) {
        return false;
    }
    const struct sp_json *first = run.measured == NULL ? NULL : run.measured->first;
    if (first == NULL) { /* a row may keep what stands beside the others */
        return sp_json_member(json, "beside") != NULL ||
               sp_fail(err, SP_ERROR_INPUT,
                       "%s: %s: nothing is measured: expected \"measured\" with a quantity such as step_time_s, or "
                       "\"beside\" with what is only kept",
                       reading->path, run.place);
    }
    if (!price_run(reading, &run, err)) {
        return false;
    }
    for (const struct sp_json *item = first; item != NULL; item = item->next) {
        if (!add_row(reading, &run, item, err)) {
            return false;
        }
    }
    return true;
}

bool validation_read_row(struct validation_reading *reading, const struct sp_json *json, int index,
                         struct sp_error *err)
{
    const struct sp_arena_mark mark = sp_arena_mark(reading->pricer->scratch);
    bool is_good = read_row(reading, json, index, err);
    sp_arena_rewind(reading->pricer->scratch, mark);
    return is_good;
}
