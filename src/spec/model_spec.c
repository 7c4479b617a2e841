#include "spec/spec_internal.h"

#include <assert.h>
#include <string.h>

/* Larger figures are not models but mistakes; and below these no product of three overflows a double's 2^53 by much,
 * nor an int64_t. */
enum {
    MAX_LAYERS = 10000,
    MAX_HEADS = 1 << 16,
    MAX_HEAD_DIM = 1 << 16,
    MAX_HIDDEN = 1 << 20,
    MAX_FFN = 1 << 24,
    MAX_VOCAB = 1 << 26
};
static const int64_t max_position_limit = (int64_t)1 << 40;

struct reader {
    struct sp_arena *arena;
    const char *file;
    const struct sp_json *json;
    const struct model_family *family;
    struct sp_texts *warnings;
    struct sp_error *err;
};

/* A whole number of the file and where it goes. */
struct integer_field {
    const char *key;
    size_t offset;
    int64_t max;
};

static const struct integer_field required_integers[] = {
    {"num_hidden_layers", offsetof(struct model_spec, n_layers), MAX_LAYERS},
    {"hidden_size", offsetof(struct model_spec, hidden), MAX_HIDDEN},
    {"num_attention_heads", offsetof(struct model_spec, n_heads), MAX_HEADS},
    {"intermediate_size", offsetof(struct model_spec, ffn), MAX_FFN},
    {"vocab_size", offsetof(struct model_spec, vocab), MAX_VOCAB},
    {"max_position_embeddings", offsetof(struct model_spec, max_position), max_position_limit},
};
static const struct integer_field kv_heads_field = {"num_key_value_heads", offsetof(struct model_spec, n_kv_heads),
                                                    MAX_HEADS};
static const struct integer_field head_dim_field = {"head_dim", offsetof(struct model_spec, head_dim), MAX_HEAD_DIM};

/* What stands in the file, short enough for an error. */
static const char *found_text(struct sp_arena *arena, const struct sp_json *value)
{
    switch (value->type) {
    case SP_JSON_NULL:
        return "null";
    case SP_JSON_BOOL:
        return value->boolean ? "true" : "false";
    case SP_JSON_NUMBER:
        return sp_format(arena, "%.15g", value->number);
    case SP_JSON_STRING:
        return sp_format(arena, "\"%.40s\"", value->string);
    case SP_JSON_ARRAY:
        return "an array";
    case SP_JSON_OBJECT:
        return "an object";
    }
    return "nothing";
}

/* NULL for a member that is absent or null: Hugging Face treats both alike. */
static const struct sp_json *member(const struct reader *reader, const char *key)
{
    const struct sp_json *value = sp_json_member(reader->json, key);
    return value == NULL || value->type == SP_JSON_NULL ? NULL : value;
}

static bool fail_missing(const struct reader *reader, const char *key)
{
    return sp_fail(reader->err, SP_ERROR_INPUT, "%s: $.%s: expected a value, found none (the model's size needs it)",
                   reader->file, key);
}

static bool read_integer(const struct reader *reader, const struct integer_field *field, struct model_spec *model)
{
    const struct sp_json *value = member(reader, field->key);
    if (value == NULL) {
        return fail_missing(reader, field->key);
    }
    int64_t integer = 0;
    if (value->type != SP_JSON_NUMBER || !sp_json_integer(value, &integer) || integer < 1 || integer > field->max) {
        return sp_fail(reader->err, SP_ERROR_INPUT, "%s: $.%s: expected a whole number from 1 to %lld, found %s",
                       reader->file, field->key, (long long)field->max, found_text(reader->arena, value));
    }
    memcpy((char *)model + field->offset, &integer, sizeof(integer));
    return true;
}

static bool read_bool(const struct reader *reader, const char *key, bool value_if_absent, bool *flag)
{
    const struct sp_json *value = member(reader, key);
    *flag = value_if_absent;
    if (value == NULL) {
        return true;
    }
    if (value->type != SP_JSON_BOOL) {
        return sp_fail(reader->err, SP_ERROR_INPUT, "%s: $.%s: expected true or false, found %s", reader->file, key,
                       found_text(reader->arena, value));
    }
    *flag = value->boolean;
    return true;
}

/* "mixture of experts, multi-head latent attention": what the fields say about a model that is not built; NULL when
 * they say nothing. */
static const char *unbuilt_parts(const struct reader *reader)
{
    struct sp_texts parts = {.arena = reader->arena};
    for (const struct sp_json *value = reader->json->first; value != NULL; value = value->next) {
        const struct config_field *field = NULL;
        if (config_field_use(value->key, &field) == CONFIG_UNBUILT && !config_value_is_neutral(value)) {
            sp_texts_add(&parts, "%s", field->what);
        }
    }
    return parts.count == 0 ? NULL : sp_join(reader->arena, parts.items, parts.count, ", ");
}

static bool fail_unbuilt(const struct reader *reader, const char *architecture, const char *parts)
{
    return sp_fail(reader->err, SP_ERROR_INPUT,
                   "%s: %.80s%s%s%s is not built yet; dense decoders of these architectures are: %s", reader->file,
                   architecture, parts == NULL ? "" : " (", parts == NULL ? "" : parts, parts == NULL ? "" : ")",
                   model_family_list(reader->arena));
}

static bool read_family(struct reader *reader, struct model_spec *model)
{
    const struct sp_json *architectures = member(reader, "architectures");
    const char *parts = unbuilt_parts(reader);
    if (architectures == NULL && parts != NULL) {
        return fail_unbuilt(reader, "a model without architectures", parts);
    }
    if (architectures == NULL || architectures->type != SP_JSON_ARRAY || architectures->first == NULL ||
        architectures->first->type != SP_JSON_STRING) {
        return sp_fail(reader->err, SP_ERROR_INPUT,
                       "%s: $.architectures: expected an array such as [\"LlamaForCausalLM\"], found %s", reader->file,
                       architectures == NULL ? "none" : found_text(reader->arena, architectures));
    }
    const char *architecture = architectures->first->string;
    reader->family = model_family_find(architecture);
    if (reader->family == NULL || parts != NULL) {
        return fail_unbuilt(reader, architecture, parts);
    }
    model->family = reader->family->architecture;
    return true;
}

static bool read_sizes(const struct reader *reader, struct model_spec *model)
{
    for (size_t i = 0; i < SP_COUNT_OF(required_integers); i++) {
        if (!read_integer(reader, &required_integers[i], model)) {
            return false;
        }
    }
    if (member(reader, kv_heads_field.key) == NULL && reader->family->defaults_kv_heads) {
        model->n_kv_heads = model->n_heads;
    } else if (!read_integer(reader, &kv_heads_field, model)) {
        return false;
    }
    if (model->n_heads % model->n_kv_heads != 0) {
        return sp_fail(reader->err, SP_ERROR_INPUT,
                       "%s: $.num_key_value_heads: expected a divisor of the %lld query heads, found %lld",
                       reader->file, (long long)model->n_heads, (long long)model->n_kv_heads);
    }
    if (member(reader, head_dim_field.key) != NULL) {
        return read_integer(reader, &head_dim_field, model);
    }
    if (model->hidden % model->n_heads != 0) {
        return sp_fail(
            reader->err, SP_ERROR_INPUT,
            "%s: $.head_dim: expected a value, found none, and hidden_size %lld does not divide by %lld heads",
            reader->file, (long long)model->hidden, (long long)model->n_heads);
    }
    model->head_dim = model->hidden / model->n_heads;
    return true;
}

static bool read_flags(const struct reader *reader, struct model_spec *model)
{
    const struct model_family *family = reader->family;
    assert(family != NULL); /* read_family() came first */
    bool attention_bias = false;
    bool mlp_bias = false;
    if (!read_bool(reader, "tie_word_embeddings", family->has_tied_embeddings, &model->has_tied_embeddings) ||
        !read_bool(reader, "attention_bias", false, &attention_bias) ||
        !read_bool(reader, "mlp_bias", false, &mlp_bias)) {
        return false;
    }
    if ((attention_bias && !family->reads_attention_bias) || (mlp_bias && !family->reads_mlp_bias)) {
        sp_texts_add(reader->warnings, "%s: %s has no effect in %s and is ignored", model->name,
                     attention_bias && !family->reads_attention_bias ? "attention_bias" : "mlp_bias",
                     family->architecture);
    }
    model->has_o_bias = attention_bias && family->reads_attention_bias;
    model->has_qkv_bias = family->has_qkv_bias || model->has_o_bias;
    model->has_mlp_bias = mlp_bias && family->reads_mlp_bias;
    model->has_qk_norm = family->has_qk_norm;
    return true;
}

/* The families here attend to the whole sequence or not at all (yet). */
static bool check_window(const struct reader *reader)
{
    const struct model_family *family = reader->family;
    const struct sp_json *given = sp_json_member(reader->json, "sliding_window");
    bool has_window = given != NULL && given->type != SP_JSON_NULL;
    if (family->has_use_sliding_window_flag) {
        bool uses_window = false;
        if (!read_bool(reader, "use_sliding_window", false, &uses_window)) {
            return false;
        }
        has_window = has_window && uses_window;
    } else if (family->windows_by_default && given == NULL) {
        return sp_fail(reader->err, SP_ERROR_INPUT,
                       "%s: $.sliding_window: expected null, found none, which means a window of 4096 in %s and is not "
                       "built yet (write null for full attention)",
                       reader->file, family->architecture);
    } else if (!family->windows_by_default) {
        has_window = false; /* LlamaForCausalLM reads no window; reported with the unknown fields */
    }
    if (has_window) {
        return sp_fail(reader->err, SP_ERROR_INPUT,
                       "%s: $.sliding_window: expected null, found %s: attention in a window is not built yet "
                       "(--set model.sliding_window=null prices full attention)",
                       reader->file, found_text(reader->arena, given));
    }
    return true;
}

static bool check_layer_types(const struct reader *reader)
{
    const struct sp_json *types = member(reader, "layer_types");
    if (types == NULL) {
        return true;
    }
    const char *expected = "full_attention";
    for (const struct sp_json *type = types->first; type != NULL; type = type->next) {
        if (type->type != SP_JSON_STRING || strcmp(type->string, expected) != 0) {
            return sp_fail(reader->err, SP_ERROR_INPUT,
                           "%s: $.layer_types: expected \"%s\" for every layer, found %s, which is not built yet",
                           reader->file, expected, found_text(reader->arena, type));
        }
    }
    if (types->type != SP_JSON_ARRAY) {
        return sp_fail(reader->err, SP_ERROR_INPUT, "%s: $.layer_types: expected an array, found %s", reader->file,
                       found_text(reader->arena, types));
    }
    return true;
}

static bool is_ignored_window(const struct reader *reader, const struct sp_json *value)
{
    return strcmp(value->key, "sliding_window") == 0 && value->type != SP_JSON_NULL &&
           !reader->family->windows_by_default && !reader->family->has_use_sliding_window_flag;
}

/* One warning for each field that is known to matter, one for all that nobody here knows. */
static void warn_fields(const struct reader *reader, const struct model_spec *model)
{
    struct sp_texts unknown = {.arena = reader->arena};
    for (const struct sp_json *value = reader->json->first; value != NULL; value = value->next) {
        const struct config_field *field = NULL;
        enum config_use use = config_field_use(value->key, &field);
        if (use == CONFIG_UNKNOWN || is_ignored_window(reader, value)) {
            sp_texts_add(&unknown, "%.60s", value->key);
        }
        if (use == CONFIG_UNMODELLED && !config_value_is_neutral(value)) {
            sp_texts_add(reader->warnings, "%s: %s (%s) is not modelled: %s", model->name, value->key,
                         found_text(reader->arena, value), field->what);
        }
    }
    if (unknown.count > 0) {
        sp_texts_add(reader->warnings,
                     "%s: unknown to seqplan and left out, check that they change neither memory nor time: %s",
                     model->name, sp_join(reader->arena, unknown.items, unknown.count, ", "));
    }
}

/* "llama-3.1-8b" of "models/llama-3.1-8b.json"; of ".../llama-3.1-8b/config.json" the folder says more. */
static const char *model_name(struct sp_arena *arena, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash == NULL ? path : slash + 1;
    if (strcmp(name, "config.json") == 0 && slash != NULL && slash != path) {
        const char *folder = slash;
        while (folder > path && folder[-1] != '/') {
            folder--;
        }
        if (folder < slash && *folder != '.') {
            return sp_strndup(arena, folder, (size_t)(slash - folder));
        }
    }
    size_t length = strlen(name);
    size_t extension = strlen(".json");
    bool has_extension = length > extension && strcmp(name + length - extension, ".json") == 0;
    return sp_strndup(arena, name, has_extension ? length - extension : length);
}

static bool decode(struct reader *reader, struct model_spec *model)
{
    if (reader->json->type != SP_JSON_OBJECT) {
        return sp_fail(reader->err, SP_ERROR_INPUT, "%s: $: expected an object (a Hugging Face config.json), found %s",
                       reader->file, found_text(reader->arena, reader->json));
    }
    if (!read_family(reader, model) || !read_sizes(reader, model) || !read_flags(reader, model) ||
        !check_window(reader) || !check_layer_types(reader)) {
        return false;
    }
    warn_fields(reader, model);
    return true;
}

bool model_decode(struct sp_arena *arena, const char *path, const struct sp_json *json, struct model_spec *model,
                  struct sp_texts *warnings, struct sp_error *err)
{
    *model = (struct model_spec){.name = model_name(arena, path), .path = path};
    struct reader reader = {.arena = arena, .file = path, .json = json, .warnings = warnings, .err = err};
    return decode(&reader, model);
}

bool model_read(struct sp_arena *arena, const char *name_or_path, struct model_spec *model, struct sp_texts *warnings,
                struct sp_error *err)
{
    struct sp_texts no_settings = {.arena = arena};
    return model_read_with(arena, name_or_path, &no_settings, model, warnings, err);
}

struct model_size model_size(const struct model_spec *model)
{
    double hidden = (double)model->hidden;
    double q_width = (double)(model->n_heads * model->head_dim);
    double kv_width = (double)(model->n_kv_heads * model->head_dim);
    double ffn = (double)model->ffn;

    double attention = 2 * hidden * q_width + 2 * hidden * kv_width;
    attention += model->has_qkv_bias ? q_width + 2 * kv_width : 0;
    attention += model->has_o_bias ? hidden : 0;
    attention += model->has_qk_norm ? 2 * (double)model->head_dim : 0;
    double mlp = 3 * hidden * ffn + (model->has_mlp_bias ? 2 * ffn + hidden : 0);

    struct model_size size = {0};
    size.layer = attention + mlp + 2 * hidden;
    size.embedding = (double)model->vocab * hidden;
    size.head = size.embedding;
    size.final_norm = hidden;
    double layers = (double)model->n_layers * size.layer;
    size.total = layers + size.embedding + size.final_norm + (model->has_tied_embeddings ? 0 : size.head);
    size.active = layers + size.final_norm + size.head;
    return size;
}
