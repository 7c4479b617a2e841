#include "base/base.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_LENGTH = 256 };

const char *const sp_figure_kind_names[] = {"none",   "datasheet", "measured", "derived",
                                            "fitted", "assumed",   "set",      NULL};

/* What a file may say: "none" marks an absent figure and "set" one from the command line. */
static const char *const file_kinds = "datasheet, measured, derived, fitted, assumed";

/* A value that is being decoded: where it goes, and what an error calls it. */
struct slot {
    const struct sp_field *field;
    const struct sp_decoder *decoder;
    const char *path;
    void *target;
};

static size_t count_names(const char *const *names)
{
    size_t count = 0;
    while (names[count] != NULL) {
        count++;
    }
    return count;
}

static size_t count_fields(const struct sp_field *fields)
{
    size_t count = 0;
    while (fields[count].key != NULL) {
        count++;
    }
    return count;
}

static bool needs_no_unit(enum sp_dimension dimension)
{
    return dimension == SP_PURE || dimension == SP_COUNT || dimension == SP_TOKENS || dimension == SP_FRACTION;
}

static bool is_whole_number(enum sp_dimension dimension)
{
    return dimension == SP_COUNT || dimension == SP_TOKENS;
}

/* ---- checks shared by files and --set ---------------------------------------------------------------------------- */

static char *print_number(struct sp_arena *arena, const struct sp_field *field, double value)
{
    bool has_unit = field->type == SP_FIELD_QUANTITY || field->type == SP_FIELD_FIGURE;
    if (has_unit && value >= 0.0) {
        return sp_quantity_exact(arena, value, field->dimension);
    }
    return sp_format(arena, "%.15g", value);
}

/* The message has no path yet: the caller knows it. */
static bool check_range(struct sp_arena *arena, const struct sp_field *field, double value, struct sp_error *err)
{
    bool has_bounds = field->min < 0.0 || field->min > 0.0 || field->max < 0.0 || field->max > 0.0;
    if (!has_bounds || (value >= field->min && value <= field->max)) {
        return true;
    }
    const char *found = print_number(arena, field, value);
    if (isinf(field->max)) {
        return sp_fail(err, SP_ERROR_USAGE, "expected at least %s, found %s", print_number(arena, field, field->min),
                       found);
    }
    if (isinf(field->min)) {
        return sp_fail(err, SP_ERROR_USAGE, "expected at most %s, found %s", print_number(arena, field, field->max),
                       found);
    }
    return sp_fail(err, SP_ERROR_USAGE, "expected %s to %s, found %s", print_number(arena, field, field->min),
                   print_number(arena, field, field->max), found);
}

static bool choose(struct sp_arena *arena, const char *const *names, const char *text, int *index, struct sp_error *err)
{
    int found = sp_index_of(text, names);
    if (found >= 0) {
        *index = found;
        return true;
    }
    size_t n_names = count_names(names);
    const char *nearest = sp_nearest(text, names, n_names);
    const char *hint = nearest == NULL ? "" : sp_format(arena, " (did you mean \"%s\"?)", nearest);
    return sp_fail(err, SP_ERROR_USAGE, "expected one of %s, found \"%s\"%s", sp_join(arena, names, n_names, ", "),
                   text, hint);
}

/* ---- reading files ----------------------------------------------------------------------------------------------- */

/* Makes a message without a place into one of the file: "FILE: PATH: ...". Returns false. */
static bool in_file(const struct slot *slot, struct sp_error *err)
{
    err->kind = SP_ERROR_INPUT;
    sp_error_prefix(err, "%s: %s", slot->decoder->file, slot->path);
    return false;
}

/* A value as an error shows it: numbers and short strings themselves, else the type. */
static const char *describe(struct sp_arena *arena, const struct sp_json *json)
{
    switch (json->type) {
    case SP_JSON_NULL:
        return "null";
    case SP_JSON_BOOL:
        return json->boolean ? "true" : "false";
    case SP_JSON_NUMBER:
        return sp_format(arena, "%.15g", json->number);
    case SP_JSON_STRING:
        return sp_format(arena, "\"%.60s%s\"", json->string, strlen(json->string) > 60 ? "..." : "");
    case SP_JSON_ARRAY:
        return "an array";
    case SP_JSON_OBJECT:
        return "an object";
    default:
        assert(false);
        return "";
    }
}

static bool refuse_type(const struct slot *slot, const struct sp_json *json, const char *expected, struct sp_error *err)
{
    (void)sp_fail(err, SP_ERROR_INPUT, "expected %s, found %s", expected, describe(slot->decoder->arena, json));
    return in_file(slot, err);
}

static bool decode_string(const struct slot *slot, const struct sp_json *json, struct sp_error *err)
{
    if (json->type != SP_JSON_STRING) {
        return refuse_type(slot, json, "a string", err);
    }
    *(const char **)slot->target = sp_strdup(slot->decoder->arena, json->string);
    return true;
}

static bool decode_bool(const struct slot *slot, const struct sp_json *json, struct sp_error *err)
{
    if (json->type != SP_JSON_BOOL) {
        return refuse_type(slot, json, "true or false", err);
    }
    *(bool *)slot->target = json->boolean;
    return true;
}

static bool decode_integer(const struct slot *slot, const struct sp_json *json, struct sp_error *err)
{
    int64_t integer = 0;
    if (!sp_json_integer(json, &integer)) {
        return refuse_type(slot, json, "a number without fraction", err);
    }
    if (!check_range(slot->decoder->arena, slot->field, (double)integer, err)) {
        return in_file(slot, err);
    }
    *(int64_t *)slot->target = integer;
    return true;
}

static bool decode_pure(const struct slot *slot, const struct sp_json *json, struct sp_error *err)
{
    if (json->type != SP_JSON_NUMBER) {
        return refuse_type(slot, json, "a number", err);
    }
    if (!check_range(slot->decoder->arena, slot->field, json->number, err)) {
        return in_file(slot, err);
    }
    *(double *)slot->target = json->number;
    return true;
}

/* A JSON number is a quantity only where no unit could be meant. */
static bool number_as_quantity(const struct slot *slot, const struct sp_json *json, double *value, struct sp_error *err)
{
    enum sp_dimension dimension = slot->field->dimension;
    const char *expects = sp_dimension_expects(dimension);
    const char *found = describe(slot->decoder->arena, json);
    int64_t integer = 0;
    if (!needs_no_unit(dimension)) {
        (void)sp_fail(err, SP_ERROR_INPUT, "expected %s, found %s (add a unit)", expects, found);
    } else if (json->number < 0.0) {
        (void)sp_fail(err, SP_ERROR_INPUT, "expected %s, found %s (must not be negative)", expects, found);
    } else if (is_whole_number(dimension) && !sp_json_integer(json, &integer)) {
        (void)sp_fail(err, SP_ERROR_INPUT, "expected %s, found %s (not a whole number)", expects, found);
    } else if (dimension == SP_FRACTION && json->number > 1.0) {
        (void)sp_fail(err, SP_ERROR_INPUT, "expected %s, found %s (above 1)", expects, found);
    } else {
        *value = json->number;
        return true;
    }
    return in_file(slot, err);
}

static bool read_quantity(const struct slot *slot, const struct sp_json *json, double *value, struct sp_error *err)
{
    if (json->type == SP_JSON_NUMBER) {
        return number_as_quantity(slot, json, value, err);
    }
    enum sp_dimension dimension = slot->field->dimension;
    if (json->type != SP_JSON_STRING || dimension == SP_PURE || dimension == SP_COUNT) {
        bool is_number = dimension == SP_PURE || dimension == SP_COUNT;
        const char *plain = dimension == SP_PURE ? "a number" : "a number without fraction";
        return refuse_type(slot, json, is_number ? plain : sp_dimension_expects(dimension), err);
    }
    return sp_quantity_parse(json->string, dimension, value, err) || in_file(slot, err);
}

static bool decode_quantity(const struct slot *slot, const struct sp_json *json, struct sp_error *err)
{
    double value = 0.0;
    if (!read_quantity(slot, json, &value, err)) {
        return false;
    }
    if (!check_range(slot->decoder->arena, slot->field, value, err)) {
        return in_file(slot, err);
    }
    *(double *)slot->target = value;
    return true;
}

static bool decode_enum(const struct slot *slot, const struct sp_json *json, struct sp_error *err)
{
    struct sp_arena *arena = slot->decoder->arena;
    const char *const *names = slot->field->names;
    if (json->type != SP_JSON_STRING) {
        const char *list = sp_join(arena, names, count_names(names), ", ");
        return refuse_type(slot, json, sp_format(arena, "one of %s", list), err);
    }
    return choose(arena, names, json->string, slot->target, err) || in_file(slot, err);
}

/* ---- figures ----------------------------------------------------------------------------------------------------- */

/* The parts of a figure in a file, as a field table like any other. */
struct figure_text {
    const struct sp_json *value;
    const char *kind;
    const char *source;
    const char *note;
    const struct sp_json *low;
    const struct sp_json *high;
};

static bool keep_json(const struct sp_decoder *decoder, const struct sp_json *json, const char *path, void *target,
                      struct sp_error *err)
{
    (void)decoder;
    (void)path;
    (void)err;
    *(const struct sp_json **)target = json;
    return true;
}

static const struct sp_field figure_fields[] = {
    {.key = "value",
     .type = SP_FIELD_CUSTOM,
     .offset = offsetof(struct figure_text, value),
     .is_required = true,
     .decode = keep_json},
    {.key = "kind", .type = SP_FIELD_STRING, .offset = offsetof(struct figure_text, kind), .is_required = true},
    {.key = "source", .type = SP_FIELD_STRING, .offset = offsetof(struct figure_text, source), .is_required = true},
    {.key = "note", .type = SP_FIELD_STRING, .offset = offsetof(struct figure_text, note)},
    {.key = "low", .type = SP_FIELD_CUSTOM, .offset = offsetof(struct figure_text, low), .decode = keep_json},
    {.key = "high", .type = SP_FIELD_CUSTOM, .offset = offsetof(struct figure_text, high), .decode = keep_json},
    {.key = NULL},
};

/* Reads one of value, low and high, which share the dimension and the bounds of the field. */
static bool read_part(const struct slot *slot, const struct sp_json *json, const char *part, double *value,
                      struct sp_error *err)
{
    struct slot of_part = *slot;
    of_part.path = sp_format(slot->decoder->arena, "%s.%s", slot->path, part);
    if (!read_quantity(&of_part, json, value, err)) {
        return false;
    }
    return check_range(slot->decoder->arena, slot->field, *value, err) || in_file(&of_part, err);
}

static bool read_interval(const struct slot *slot, const struct figure_text *text, struct sp_figure *figure,
                          struct sp_error *err)
{
    if (!read_part(slot, text->value, "value", &figure->value, err)) {
        return false;
    }
    figure->low = figure->value;
    figure->high = figure->value;
    if ((text->low != NULL && !read_part(slot, text->low, "low", &figure->low, err)) ||
        (text->high != NULL && !read_part(slot, text->high, "high", &figure->high, err))) {
        return false;
    }
    if (figure->low > figure->value || figure->high < figure->value) {
        struct sp_arena *arena = slot->decoder->arena;
        (void)sp_fail(err, SP_ERROR_INPUT, "expected low <= value <= high, found %s, %s, %s",
                      print_number(arena, slot->field, figure->low), print_number(arena, slot->field, figure->value),
                      print_number(arena, slot->field, figure->high));
        return in_file(slot, err);
    }
    return true;
}

static bool read_kind(const struct slot *slot, const char *text, enum sp_figure_kind *kind, struct sp_error *err)
{
    int index = sp_index_of(text, sp_figure_kind_names);
    if (index < 0 || index == (int)SP_FIGURE_NONE || index == (int)SP_FIGURE_SET) {
        (void)sp_fail(err, SP_ERROR_INPUT, "expected one of %s, found \"%s\"", file_kinds, text);
        sp_error_prefix(err, "%s: %s.kind", slot->decoder->file, slot->path);
        return false;
    }
    *kind = (enum sp_figure_kind)index;
    return true;
}

static bool refuse_bare_figure(const struct slot *slot, const struct sp_json *json, struct sp_error *err)
{
    bool lacks_unit = json->type == SP_JSON_NUMBER && !needs_no_unit(slot->field->dimension);
    (void)sp_fail(err, SP_ERROR_INPUT, "expected %s in {\"value\": ..., \"kind\": ..., \"source\": ...}, found %s%s",
                  sp_dimension_expects(slot->field->dimension), describe(slot->decoder->arena, json),
                  lacks_unit ? " (add a unit, and say where it comes from)" : " (say where it comes from)");
    return in_file(slot, err);
}

/* Recursive once: figure_fields has no figures or objects in it */
static bool decode_figure(const struct slot *slot, const struct sp_json *json, struct sp_error *err)
{
    if (json->type != SP_JSON_OBJECT) {
        return refuse_bare_figure(slot, json, err);
    }
    struct figure_text text = {0};
    if (!sp_fields_decode(figure_fields, slot->decoder, json, slot->path, &text, err)) {
        return false;
    }
    assert(text.value != NULL && text.kind != NULL); /* they are required */
    struct sp_figure figure = {.source = text.source, .note = text.note};
    if (!read_kind(slot, text.kind, &figure.kind, err) || !read_interval(slot, &text, &figure, err)) {
        return false;
    }
    *(struct sp_figure *)slot->target = figure;
    return true;
}

/* ---- objects ----------------------------------------------------------------------------------------------------- */

/* Recursive, as deep as the tables, which are constants */
static bool decode_one(const struct slot *slot, const struct sp_json *json, struct sp_error *err)
{
    switch (slot->field->type) {
    case SP_FIELD_STRING:
        return decode_string(slot, json, err);
    case SP_FIELD_BOOL:
        return decode_bool(slot, json, err);
    case SP_FIELD_INTEGER:
        return decode_integer(slot, json, err);
    case SP_FIELD_PURE:
        return decode_pure(slot, json, err);
    case SP_FIELD_QUANTITY:
        return decode_quantity(slot, json, err);
    case SP_FIELD_FIGURE:
        return decode_figure(slot, json, err);
    case SP_FIELD_ENUM:
        return decode_enum(slot, json, err);
    case SP_FIELD_OBJECT:
        return sp_fields_decode(slot->field->fields, slot->decoder, json, slot->path, slot->target, err);
    case SP_FIELD_CUSTOM:
        return slot->field->decode(slot->decoder, json, slot->path, slot->target, err);
    default:
        assert(false); /* a field table with a type that does not exist */
        return false;
    }
}

static const struct sp_field *find_field(const struct sp_field *fields, const char *key)
{
    for (const struct sp_field *field = fields; field->key != NULL; field++) {
        if (strcmp(field->key, key) == 0) {
            return field;
        }
    }
    return NULL;
}

static const char *nearest_key(struct sp_arena *arena, const struct sp_field *fields, const char *key)
{
    size_t n_fields = count_fields(fields);
    const char **names = sp_arena_array(arena, n_fields, sizeof(*names));
    for (size_t i = 0; i < n_fields; i++) {
        names[i] = fields[i].key;
    }
    return sp_nearest(key, names, n_fields);
}

static bool check_keys(const struct sp_field *fields, const struct slot *slot, const struct sp_json *json,
                       struct sp_error *err)
{
    struct sp_arena *arena = slot->decoder->arena;
    for (const struct sp_json *member = json->first; member != NULL; member = member->next) {
        if (find_field(fields, member->key) == NULL) {
            const char *nearest = nearest_key(arena, fields, member->key);
            const char *hint = nearest == NULL ? "" : sp_format(arena, " (did you mean \"%s\"?)", nearest);
            (void)sp_fail(err, SP_ERROR_INPUT, "unknown key \"%s\"%s", member->key, hint);
            return in_file(slot, err);
        }
    }
    for (const struct sp_field *field = fields; field->key != NULL; field++) {
        if (field->is_required && sp_json_member(json, field->key) == NULL) {
            (void)sp_fail(err, SP_ERROR_INPUT, "the key \"%s\" is missing%s%s", field->key,
                          field->help == NULL ? "" : ": ", field->help == NULL ? "" : field->help);
            return in_file(slot, err);
        }
    }
    return true;
}

/* Recursive, as deep as the tables, which are constants */
bool sp_fields_decode(const struct sp_field *fields, const struct sp_decoder *decoder, const struct sp_json *json,
                      const char *path, void *object, struct sp_error *err)
{
    const struct slot whole = {.decoder = decoder, .path = path};
    if (json->type != SP_JSON_OBJECT) {
        return refuse_type(&whole, json, "an object", err);
    }
    if (!check_keys(fields, &whole, json, err)) {
        return false;
    }
    for (const struct sp_json *member = json->first; member != NULL; member = member->next) {
        const struct sp_field *field = find_field(fields, member->key);
        assert(field != NULL); /* check_keys saw to it */
        const struct slot slot = {
            .field = field,
            .decoder = decoder,
            .path = sp_format(decoder->arena, "%s.%s", path, member->key),
            .target = (char *)object + field->offset,
        };
        if (!decode_one(&slot, member, err)) {
            return false;
        }
    }
    return true;
}

/* ---- --set ------------------------------------------------------------------------------------------------------- */

static bool set_bool(const char *text, bool *target, struct sp_error *err)
{
    static const char *const names[] = {"false", "true", "off", "on", NULL};
    int index = sp_index_of(text, names);
    if (index < 0) {
        return sp_fail(err, SP_ERROR_USAGE, "expected true or false, found \"%s\"", text);
    }
    *target = index % 2 == 1;
    return true;
}

static bool set_integer(const struct slot *slot, const char *text, struct sp_error *err)
{
    char *end = NULL;
    errno = 0;
    long long integer = strtoll(text, &end, 10);
    bool starts_well = (text[0] >= '0' && text[0] <= '9') || (text[0] == '-' && text[1] >= '0' && text[1] <= '9');
    if (!starts_well || *end != '\0' || errno != 0) {
        return sp_fail(err, SP_ERROR_USAGE, "expected a whole number, found \"%s\"", text);
    }
    if (!check_range(slot->decoder->arena, slot->field, (double)integer, err)) {
        return false;
    }
    *(int64_t *)slot->target = integer;
    return true;
}

/* Plain numbers may be negative, unlike quantities. */
static bool parse_pure(const char *text, double *value, struct sp_error *err)
{
    bool is_negative = text[0] == '-' && text[1] >= '0' && text[1] <= '9';
    if (!sp_quantity_parse(is_negative ? text + 1 : text, SP_PURE, value, err)) {
        return false;
    }
    *value = is_negative ? -*value : *value;
    return true;
}

static bool set_number(const struct slot *slot, const char *text, struct sp_error *err)
{
    const struct sp_field *field = slot->field;
    double value = 0.0;
    bool is_parsed = field->type == SP_FIELD_PURE ? parse_pure(text, &value, err)
                                                  : sp_quantity_parse(text, field->dimension, &value, err);
    if (!is_parsed || !check_range(slot->decoder->arena, field, value, err)) {
        return false;
    }
    if (field->type == SP_FIELD_FIGURE) {
        *(struct sp_figure *)slot->target =
            (struct sp_figure){.value = value, .low = value, .high = value, .kind = SP_FIGURE_SET, .source = "--set"};
    } else {
        *(double *)slot->target = value;
    }
    return true;
}

static bool set_one(const struct slot *slot, const char *text, struct sp_error *err)
{
    struct sp_arena *arena = slot->decoder->arena;
    switch (slot->field->type) {
    case SP_FIELD_STRING:
        *(const char **)slot->target = sp_strdup(arena, text);
        return true;
    case SP_FIELD_BOOL:
        return set_bool(text, slot->target, err);
    case SP_FIELD_INTEGER:
        return set_integer(slot, text, err);
    case SP_FIELD_PURE:
    case SP_FIELD_QUANTITY:
    case SP_FIELD_FIGURE:
        return set_number(slot, text, err);
    case SP_FIELD_ENUM:
        return choose(arena, slot->field->names, text, slot->target, err);
    case SP_FIELD_OBJECT:
        return sp_fail(err, SP_ERROR_USAGE, "is a group of fields (set one of them, such as \"%s.%s\")", slot->path,
                       slot->field->fields[0].key);
    case SP_FIELD_CUSTOM:
        return sp_fail(err, SP_ERROR_USAGE, "cannot be set from text (edit a copy of the file)");
    default:
        assert(false);
        return false;
    }
}

/* Goes down the dotted path; the address of the value comes to *target. NULL where the table has no such row. */
static const struct sp_field *find_path(const struct sp_field *fields, const char *path, void *object, void **target)
{
    char *base = object;
    for (;;) {
        size_t length = strcspn(path, ".");
        const struct sp_field *field = fields;
        while (field->key != NULL && (strlen(field->key) != length || strncmp(field->key, path, length) != 0)) {
            field++;
        }
        if (field->key == NULL) {
            return NULL;
        }
        base += field->offset;
        if (path[length] == '\0') {
            *target = base;
            return field;
        }
        if (field->type != SP_FIELD_OBJECT) {
            return NULL;
        }
        fields = field->fields;
        path += length + 1;
    }
}

static void collect_path(const char *path, const struct sp_field *field, const void *value, void *user)
{
    (void)value;
    if (field->type != SP_FIELD_OBJECT && field->type != SP_FIELD_CUSTOM) {
        sp_texts_add(user, "%s", path);
    }
}

bool sp_fields_set(const struct sp_field *fields, struct sp_arena *arena, const char *path, const char *text,
                   void *object, struct sp_error *err)
{
    void *target = NULL;
    const struct sp_field *field = find_path(fields, path, object, &target);
    if (field == NULL) {
        struct sp_texts paths = {.arena = arena};
        sp_fields_visit(fields, NULL, collect_path, &paths);
        const char *nearest = sp_nearest(path, paths.items, paths.count);
        const char *hint = nearest == NULL ? "" : sp_format(arena, " (did you mean \"%s\"?)", nearest);
        return sp_fail(err, SP_ERROR_USAGE, "unknown field \"%s\"%s", path, hint);
    }
    const struct sp_decoder decoder = {.arena = arena, .file = "--set"};
    const struct slot slot = {.field = field, .decoder = &decoder, .path = path, .target = target};
    if (!set_one(&slot, text, err)) {
        sp_error_prefix(err, "%s", path);
        return false;
    }
    return true;
}

/* ---- walking ----------------------------------------------------------------------------------------------------- */

struct walk {
    sp_field_visitor visit;
    void *user;
    char path[PATH_LENGTH];
};

/* Recursive, as deep as the tables, which are constants */
static void walk_fields(const struct sp_field *fields, const char *object, struct walk *walk)
{
    size_t length = strlen(walk->path);
    for (const struct sp_field *field = fields; field->key != NULL; field++) {
        size_t left = sizeof(walk->path) - length;
        int added = snprintf(walk->path + length, left, "%s%s", length == 0 ? "" : ".", field->key);
        assert(added > 0 && (size_t)added < left);
        const char *value = object == NULL ? NULL : object + field->offset;
        walk->visit(walk->path, field, value, walk->user);
        if (field->type == SP_FIELD_OBJECT) {
            walk_fields(field->fields, value, walk);
        }
        walk->path[length] = '\0';
    }
}

void sp_fields_visit(const struct sp_field *fields, const void *object, sp_field_visitor visit, void *user)
{
    struct walk walk = {.visit = visit, .user = user};
    walk_fields(fields, object, &walk);
}
