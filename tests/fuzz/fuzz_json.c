/* Bytes as a JSON text. What is taken is written, read back and compared, then decoded through a field table with every
 * type of field, and its strings are used as paths and values of --set. */
#include "base/base.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct inner {
    int kind;
    double size_bytes;
};

struct outer {
    const char *name;
    bool is_on;
    int64_t n_layers;
    double weight;
    double rate_bytes_per_s;
    double n_tokens;
    struct sp_figure share_frac;
    struct sp_figure latency_s;
    int kind;
    struct inner inner;
    int n_custom;
};

static bool decode_custom(const struct sp_decoder *decoder, const struct sp_json *json, const char *path, void *target,
                          struct sp_error *err)
{
    if (json->type != SP_JSON_ARRAY) {
        return sp_fail(err, SP_ERROR_INPUT, "%s: %s: expected an array", decoder->file, path);
    }
    *(int *)target = json->count;
    return true;
}

static const char *const kind_names[] = {"ring", "zigzag", NULL};

static const struct sp_field inner_fields[] = {
    {.key = "k", .type = SP_FIELD_ENUM, .offset = offsetof(struct inner, kind), .names = kind_names},
    {.key = "b",
     .type = SP_FIELD_QUANTITY,
     .dimension = SP_BYTES,
     .offset = offsetof(struct inner, size_bytes),
     .is_required = true},
    {.key = NULL},
};

static const struct sp_field outer_fields[] = {
    {.key = "s", .type = SP_FIELD_STRING, .offset = offsetof(struct outer, name)},
    {.key = "o", .type = SP_FIELD_BOOL, .offset = offsetof(struct outer, is_on)},
    {.key = "i", .type = SP_FIELD_INTEGER, .offset = offsetof(struct outer, n_layers), .min = -5.0, .max = 1e6},
    {.key = "p", .type = SP_FIELD_PURE, .offset = offsetof(struct outer, weight)},
    {.key = "q",
     .type = SP_FIELD_QUANTITY,
     .dimension = SP_BYTES_PER_S,
     .offset = offsetof(struct outer, rate_bytes_per_s),
     .min = 1.0,
     .max = 1e15},
    {.key = "t", .type = SP_FIELD_QUANTITY, .dimension = SP_TOKENS, .offset = offsetof(struct outer, n_tokens)},
    {.key = "f", .type = SP_FIELD_FIGURE, .dimension = SP_FRACTION, .offset = offsetof(struct outer, share_frac)},
    {.key = "l", .type = SP_FIELD_FIGURE, .dimension = SP_SECONDS, .offset = offsetof(struct outer, latency_s)},
    {.key = "k", .type = SP_FIELD_ENUM, .offset = offsetof(struct outer, kind), .names = kind_names},
    {.key = "n", .type = SP_FIELD_OBJECT, .offset = offsetof(struct outer, inner), .fields = inner_fields},
    {.key = "c", .type = SP_FIELD_CUSTOM, .offset = offsetof(struct outer, n_custom), .decode = decode_custom},
    {.key = NULL},
};

static void expect(bool is_true, const char *what)
{
    if (!is_true) {
        (void)fprintf(stderr, "%s\n", what);
        abort();
    }
}

static void expect_error(const struct sp_error *err)
{
    expect(err->kind != SP_ERROR_NONE && err->text[0] != '\0', "refused without a reason");
    expect(strchr(err->text, '\n') == NULL, "reason of several lines");
}

static void write_value(struct sp_json_writer *writer, const struct sp_json *json)
{
    switch (json->type) {
    case SP_JSON_NULL:
        sp_json_put_null(writer, json->key);
        return;
    case SP_JSON_BOOL:
        sp_json_put_bool(writer, json->key, json->boolean);
        return;
    case SP_JSON_NUMBER:
        sp_json_put_number(writer, json->key, json->number);
        return;
    case SP_JSON_STRING:
        sp_json_put_string(writer, json->key, json->string);
        return;
    case SP_JSON_ARRAY:
    case SP_JSON_OBJECT:
        break;
    default:
        abort();
    }
    bool is_object = json->type == SP_JSON_OBJECT;
    (is_object ? sp_json_begin_object : sp_json_begin_array)(writer, json->key);
    writer->is_compact = writer->is_compact || json->count % 2 == 1;
    for (const struct sp_json *child = json->first; child != NULL; child = child->next) {
        write_value(writer, child);
    }
    (is_object ? sp_json_end_object : sp_json_end_array)(writer);
}

static bool same_text(const char *a, const char *b)
{
    return (a == NULL && b == NULL) || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static void expect_same(const struct sp_json *a, const struct sp_json *b)
{
    expect(a->type == b->type && a->count == b->count, "another type or count");
    expect(same_text(a->key, b->key) && same_text(a->string, b->string), "another text");
    expect(!(a->number < b->number) && !(a->number > b->number), "another number");
    expect(a->boolean == b->boolean, "another boolean");
    const struct sp_json *in_b = b->first;
    for (const struct sp_json *in_a = a->first; in_a != NULL; in_a = in_a->next) {
        expect_same(in_a, in_b);
        in_b = in_b->next;
    }
}

static void check_round_trip(struct sp_arena *arena, const struct sp_json *json)
{
    char *text = NULL;
    size_t size = 0;
    struct sp_json_writer writer = {.file = open_memstream(&text, &size)};
    expect(writer.file != NULL, "no memory stream");
    write_value(&writer, json);
    expect(fclose(writer.file) == 0, "the stream failed");
    expect(writer.depth == 0 && !writer.is_compact, "the writer is not at its start");
    struct sp_error err = {0};
    const struct sp_json *back = sp_json_parse(arena, "written", text, &err);
    expect(back != NULL, "what was written is refused");
    expect_same(json, back);
    free(text);
}

static void check_fields(struct sp_arena *arena, const struct sp_json *json)
{
    struct outer outer = {0};
    const struct sp_decoder decoder = {.arena = arena, .file = "fuzz.json"};
    struct sp_error err = {0};
    if (!sp_fields_decode(outer_fields, &decoder, json, "$", &outer, &err)) {
        expect_error(&err);
    }
    for (const struct sp_json *member = json->first; member != NULL; member = member->next) {
        if (member->key != NULL && member->type == SP_JSON_STRING &&
            !sp_fields_set(outer_fields, arena, member->key, member->string, &outer, &err)) {
            expect_error(&err);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sp_arena *arena = sp_arena_open();
    const char *text = size == 0 ? "" : sp_strndup(arena, (const char *)data, size);
    struct sp_error err = {0};
    const struct sp_json *json = sp_json_parse(arena, "fuzz.json", text, &err);
    if (json == NULL) {
        expect_error(&err);
        expect(err.kind == SP_ERROR_INPUT, "cJSON refused what the scan took");
    } else {
        check_round_trip(arena, json);
        check_fields(arena, json);
    }
    sp_arena_close(arena);
    return 0;
}
