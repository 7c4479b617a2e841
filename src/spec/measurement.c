/* Lines of a measurement file. They come from another program, from a run that was killed, or from a user's editor: each
 * is read as a whole or refused with the reason. */
#include "spec/spec.h"

#include <string.h>

const char *const measurement_group_names[] = {
    "copy", "gemm", "attention", "elementwise", "optimizer", "collective", "latency", "method", "layer", "step", NULL};
_Static_assert(SP_COUNT_OF(measurement_group_names) == N_MEASUREMENT_GROUPS + 1, "a name for each group");

static const char device_schema[] = "seqplan.device/1";
static const char file_schema[] = "seqplan.measurements/1";

static const char *const type_names[] = {"null", "true or false", "a number", "a text", "a list", "an object"};

static bool fail_member(const char *key, const char *expected, const struct sp_json *found, struct sp_error *err)
{
    if (found == NULL) {
        return sp_fail(err, SP_ERROR_INPUT, "\"%s\" is missing", key);
    }
    return sp_fail(err, SP_ERROR_INPUT, "\"%s\": expected %s, found %s", key, expected, type_names[found->type]);
}

static bool is_absent(const struct sp_json *member)
{
    return member == NULL || member->type == SP_JSON_NULL;
}

/* A text without control characters; "" where an optional one is not there. */
static bool read_text(const struct sp_json *json, const char *key, bool is_required, const char **text,
                      struct sp_error *err)
{
    const struct sp_json *member = sp_json_member(json, key);
    *text = "";
    if (!is_required && is_absent(member)) {
        return true;
    }
    if (member == NULL || member->type != SP_JSON_STRING) {
        return fail_member(key, "a text", member, err);
    }
    for (const char *at = member->string; *at != '\0'; at++) {
        if ((unsigned char)*at < ' ' || *at == '\x7f') {
            return sp_fail(err, SP_ERROR_INPUT, "\"%s\" has a control character", key);
        }
    }
    *text = member->string;
    return true;
}

/* ---- figures ---------------------------------------------------------------------------------------------------- */

static const struct figure {
    const char *key;
    size_t offset;
    bool is_time; /* required; the others are 0 where they are not known */
} figures[] = {
    {"median", offsetof(struct measurement, median_s), true},
    {"min", offsetof(struct measurement, min_s), true},
    {"low", offsetof(struct measurement, low_s), true},
    {"high", offsetof(struct measurement, high_s), true},
    {"flop", offsetof(struct measurement, flop), false},
    {"bytes", offsetof(struct measurement, bytes), false},
    {"sm_clock_hz", offsetof(struct measurement, sm_clock_hz), false},
    {"power_w", offsetof(struct measurement, power_w), false},
    {"temperature_c", offsetof(struct measurement, temperature_c), false},
};

static bool read_figure(const struct sp_json *json, const struct figure *figure, struct measurement *line,
                        struct sp_error *err)
{
    static const double most = 1e30; /* nothing on Earth is more; rates stay finite */
    static const double shortest_s = 1e-12;
    const struct sp_json *member = sp_json_member(json, figure->key);
    double *target = (double *)(void *)((char *)line + figure->offset);
    *target = 0.0;
    if (!figure->is_time && is_absent(member)) {
        return true;
    }
    if (member == NULL || member->type != SP_JSON_NUMBER) {
        return fail_member(figure->key, "a number", member, err);
    }
    double least = figure->is_time ? shortest_s : 0.0;
    if (!(member->number >= least) || member->number > most) {
        return sp_fail(err, SP_ERROR_INPUT, "\"%s\": expected a number from %g to %g, found %g", figure->key, least,
                       most, member->number);
    }
    *target = member->number;
    return true;
}

static bool check_order(const struct measurement *line, struct sp_error *err)
{
    bool is_ordered = line->min_s <= line->median_s && line->low_s <= line->median_s && line->median_s <= line->high_s;
    return is_ordered ||
           sp_fail(err, SP_ERROR_INPUT,
                   "expected min <= median and low <= median <= high, found min %g, low %g, median %g, high %g",
                   line->min_s, line->low_s, line->median_s, line->high_s);
}

static bool read_parameters(const struct sp_json *json, struct measurement *line, struct sp_error *err)
{
    line->parameters = sp_json_member(json, "parameters");
    if (line->parameters == NULL || line->parameters->type != SP_JSON_OBJECT) {
        return fail_member("parameters", "an object", line->parameters, err);
    }
    for (const struct sp_json *member = line->parameters->first; member != NULL; member = member->next) {
        if (member->type != SP_JSON_NUMBER && member->type != SP_JSON_STRING) {
            return sp_fail(err, SP_ERROR_INPUT, "\"parameters\": \"%.40s\": expected a number or a text, found %s",
                           member->key, type_names[member->type]);
        }
    }
    return true;
}

static bool read_count(const struct sp_json *json, const char *key, int64_t least, int64_t *count, struct sp_error *err)
{
    const struct sp_json *member = sp_json_member(json, key);
    if (member == NULL || member->type != SP_JSON_NUMBER) {
        return fail_member(key, "a number", member, err);
    }
    return (sp_json_integer(member, count) && *count >= least) ||
           sp_fail(err, SP_ERROR_INPUT, "\"%s\": expected a whole number from %d on, found %g", key, (int)least,
                   member->number);
}

/* ---- kinds of lines --------------------------------------------------------------------------------------------- */

/* What timed and refused lines share. */
static bool read_identity(const struct sp_json *json, struct measurement *line, struct sp_error *err)
{
    const char *group = NULL;
    if (!read_text(json, "group", true, &group, err) || !read_text(json, "key", true, &line->key, err)) {
        return false;
    }
    int index = sp_index_of(group, measurement_group_names);
    if (index < 0) {
        return sp_fail(err, SP_ERROR_INPUT, "unknown group \"%.40s\"", group);
    }
    line->group = (enum measurement_group)index;
    size_t length = strlen(line->key);
    return (length > 0 && length <= MEASUREMENT_KEY_BYTES) ||
           sp_fail(err, SP_ERROR_INPUT, "\"key\": expected 1 to %d bytes, found %zu", MEASUREMENT_KEY_BYTES, length);
}

static bool read_timed(const struct sp_json *json, struct measurement *line, struct sp_error *err)
{
    const char *unit = NULL;
    if (!read_identity(json, line, err) || !read_parameters(json, line, err) ||
        !read_text(json, "unit", true, &unit, err)) {
        return false;
    }
    if (strcmp(unit, "s") != 0) {
        return sp_fail(err, SP_ERROR_INPUT, "\"unit\": expected \"s\", found \"%.40s\"", unit);
    }
    for (size_t i = 0; i < SP_COUNT_OF(figures); i++) {
        if (!read_figure(json, &figures[i], line, err)) {
            return false;
        }
    }
    if (!read_count(json, "count", 1, &line->count, err) || !read_text(json, "throttle", false, &line->throttle, err)) {
        return false;
    }
    line->throttle = line->throttle[0] == '\0' ? "none" : line->throttle;
    return check_order(line, err);
}

static bool read_refused(const struct sp_json *json, struct measurement *line, struct sp_error *err)
{
    return read_identity(json, line, err) && read_text(json, "reason", true, &line->reason, err);
}

static bool check_schema(const struct sp_json *json, const char *expected, struct sp_error *err)
{
    const char *schema = NULL;
    if (!read_text(json, "schema", true, &schema, err)) {
        return false;
    }
    return strcmp(schema, expected) == 0 ||
           sp_fail(err, SP_ERROR_INPUT, "\"schema\": expected \"%s\", found \"%.40s\": of another version of seqplan",
                   expected, schema);
}

static bool read_machine(const struct sp_json *json, struct measurement *line, struct sp_error *err)
{
    (void)line;
    static const char *const texts[] = {"gpu", "driver", "cuda", "nccl", "host", "date"};
    if (!check_schema(json, device_schema, err)) {
        return false;
    }
    for (size_t i = 0; i < SP_COUNT_OF(texts); i++) {
        const char *text = NULL;
        if (!read_text(json, texts[i], i == 0, &text, err)) {
            return false;
        }
    }
    return true;
}

static bool read_plan(const struct sp_json *json, struct measurement *line, struct sp_error *err)
{
    return read_count(json, "total", 0, &line->total, err);
}

static bool read_run(const struct sp_json *json, struct measurement *line, struct sp_error *err)
{
    return check_schema(json, file_schema, err) && read_text(json, "key", true, &line->run_key, err) &&
           read_text(json, "profile", true, &line->profile, err) &&
           read_text(json, "version", true, &line->version, err) &&
           (line->run_key[0] != '\0' || sp_fail(err, SP_ERROR_INPUT, "\"key\" is empty"));
}

static bool read_done(const struct sp_json *json, struct measurement *line, struct sp_error *err)
{
    (void)json;
    (void)line;
    (void)err;
    return true;
}

static const struct {
    const char *name;
    bool (*read)(const struct sp_json *json, struct measurement *line, struct sp_error *err);
} kinds[] = {
    [MEASUREMENT_RUN] = {"run", read_run},
    [MEASUREMENT_MACHINE] = {"machine", read_machine},
    [MEASUREMENT_PLAN] = {"plan", read_plan},
    [MEASUREMENT_TIMED] = {"measurement", read_timed},
    [MEASUREMENT_REFUSED] = {"refused", read_refused},
    [MEASUREMENT_DONE] = {"done", read_done},
};

/* ---- a line ----------------------------------------------------------------------------------------------------- */

static const struct sp_json *parse_json(struct sp_arena *arena, const char *text, size_t length, struct sp_error *err)
{
    static const char place[] = ": line 1, "; /* a line has no other */
    if (length > MEASUREMENT_LINE_BYTES) {
        (void)sp_fail(err, SP_ERROR_INPUT, "longer than %d bytes", MEASUREMENT_LINE_BYTES);
        return NULL;
    }
    if (memchr(text, '\0', length) != NULL) {
        (void)sp_fail(err, SP_ERROR_INPUT, "has a NUL byte");
        return NULL;
    }
    struct sp_error found = {.kind = SP_ERROR_NONE};
    const struct sp_json *json = sp_json_parse(arena, "", sp_strndup(arena, text, length), &found);
    if (json == NULL) {
        size_t skipped = strncmp(found.text, place, strlen(place)) == 0 ? strlen(place) : strspn(found.text, ": ");
        (void)sp_fail(err, SP_ERROR_INPUT, "%s", found.text + skipped);
    }
    return json;
}

bool measurement_parse(struct sp_arena *arena, const char *text, size_t length, struct measurement *line,
                       struct sp_error *err)
{
    *line = (struct measurement){.kind = MEASUREMENT_DONE};
    line->json = parse_json(arena, text, length, err);
    if (line->json == NULL) {
        return false;
    }
    if (line->json->type != SP_JSON_OBJECT) {
        return sp_fail(err, SP_ERROR_INPUT, "expected an object, found %s", type_names[line->json->type]);
    }
    const char *kind = NULL;
    if (!read_text(line->json, "kind", true, &kind, err)) {
        return false;
    }
    for (size_t i = 0; i < SP_COUNT_OF(kinds); i++) {
        if (strcmp(kind, kinds[i].name) == 0) {
            line->kind = (enum measurement_kind)i;
            return kinds[i].read(line->json, line, err);
        }
    }
    return sp_fail(err, SP_ERROR_INPUT, "unknown kind \"%.40s\"", kind);
}

/* ---- machines --------------------------------------------------------------------------------------------------- */

static bool is_same_value(const struct sp_json *a, const struct sp_json *b)
{
    if (a == NULL || b == NULL || a->type != b->type) {
        return false;
    }
    bool is_same_number = !(a->number < b->number) && !(a->number > b->number);
    bool is_same_text = a->type != SP_JSON_STRING || strcmp(a->string, b->string) == 0;
    return is_same_number && is_same_text && a->boolean == b->boolean;
}

/* Every member of a is in b. */
static bool is_within(const struct sp_json *a, const struct sp_json *b)
{
    static const char *const passing[] = {"date", "sm_clock_hz", "memory_clock_hz", NULL};
    for (const struct sp_json *member = a->first; member != NULL; member = member->next) {
        if (sp_index_of(member->key, passing) < 0 && !is_same_value(member, sp_json_member(b, member->key))) {
            return false;
        }
    }
    return true;
}

bool measurement_is_same_machine(const struct sp_json *a, const struct sp_json *b)
{
    return is_within(a, b) && is_within(b, a);
}
