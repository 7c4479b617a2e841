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
    MAX_VOCAB = 1 << 26,
    MAX_EXPERTS = 1 << 16,
    MAX_SHARED_EXPERTS = 1 << 10,
    MAX_RANK = 1 << 20,
    MAX_POSITION_ROWS = 1 << 26
};
static const int64_t max_position_limit = (int64_t)1 << 40;

/* A whole number of the file and where it goes. */
struct integer_field {
    const char *key;
    size_t offset;
    int64_t max;
};

#define INTO(member) offsetof(struct model_spec, member)
static const struct integer_field required_integers[] = {
    {"num_hidden_layers", INTO(n_layers), MAX_LAYERS},
    {"hidden_size", INTO(hidden), MAX_HIDDEN},
    {"num_attention_heads", INTO(n_heads), MAX_HEADS},
    {"intermediate_size", INTO(ffn), MAX_FFN},
    {"vocab_size", INTO(vocab), MAX_VOCAB},
    {"max_position_embeddings", INTO(max_position), max_position_limit},
};
static const struct integer_field gpt2_integers[] = {
    {"n_layer", INTO(n_layers), MAX_LAYERS},
    {"n_embd", INTO(hidden), MAX_HIDDEN},
    {"n_head", INTO(n_heads), MAX_HEADS},
    {"vocab_size", INTO(vocab), MAX_VOCAB},
};
static const struct integer_field kv_heads_field = {"num_key_value_heads", INTO(n_kv_heads), MAX_HEADS};
static const struct integer_field head_dim_field = {"head_dim", INTO(head_dim), MAX_HEAD_DIM};

/* From 1 on, required. */
static bool read_into(const struct config_reader *reader, const struct integer_field *field, struct model_spec *model)
{
    const struct config_integer integer = {.key = field->key, .min = 1, .max = field->max, .is_required = true};
    int64_t value = 0;
    if (!config_read_integer(reader, &integer, &value)) {
        return false;
    }
    memcpy((char *)model + field->offset, &value, sizeof(value));
    return true;
}

/* ---- family ----------------------------------------------------------------------------------------------------- */

/* "mixture of experts, multi-head latent attention": what the fields say about a model that is not built; NULL when
 * they say nothing. */
static const char *unbuilt_parts(const struct config_reader *reader)
{
    struct sp_texts parts = {.arena = reader->arena};
    for (const struct sp_json *value = reader->json->first; value != NULL; value = value->next) {
        const struct config_field *field = NULL;
        if (config_field_use(reader->family, value->key, &field) == CONFIG_UNBUILT && !config_value_is_neutral(value)) {
            sp_texts_add(&parts, "%s", field->what);
        }
    }
    return parts.count == 0 ? NULL : sp_join(reader->arena, parts.items, parts.count, ", ");
}

static bool fail_unbuilt(const struct config_reader *reader, const char *architecture, const char *parts)
{
    return sp_fail(reader->err, SP_ERROR_INPUT,
                   "%s: %.80s%s%s%s is not built yet; decoders of these architectures are: %s", reader->file,
                   architecture, parts == NULL ? "" : " (", parts == NULL ? "" : parts, parts == NULL ? "" : ")",
                   model_family_list(reader->arena));
}

static bool read_family(struct config_reader *reader, struct model_spec *model)
{
    const struct sp_json *architectures = config_member(reader, "architectures");
    const char *parts = unbuilt_parts(reader);
    if (architectures == NULL && parts != NULL) {
        return fail_unbuilt(reader, "a model without architectures", parts);
    }
    if (architectures == NULL || architectures->type != SP_JSON_ARRAY || architectures->first == NULL ||
        architectures->first->type != SP_JSON_STRING) {
        return sp_fail(reader->err, SP_ERROR_INPUT,
                       "%s: $.architectures: expected an array such as [\"LlamaForCausalLM\"], found %s", reader->file,
                       architectures == NULL ? "none" : config_found_text(reader->arena, architectures));
    }
    const char *architecture = architectures->first->string;
    reader->family = model_family_find(architecture);
    parts = reader->family == NULL ? parts : unbuilt_parts(reader);
    if (reader->family == NULL || parts != NULL) {
        return fail_unbuilt(reader, architecture, parts);
    }
    model->family = reader->family->architecture;
    return true;
}

/* ---- sizes ------------------------------------------------------------------------------------------------------ */

/* Every head has keys and values of its own once the latent is expanded, whatever num_key_value_heads says. */
static bool read_latent_attention(const struct config_reader *reader, struct model_spec *model)
{
    static const struct integer_field rank_field = {"kv_lora_rank", INTO(kv_lora_rank), MAX_RANK};
    static const struct integer_field rope_field = {"qk_rope_head_dim", INTO(rope_head_dim), MAX_HEAD_DIM};
    static const struct integer_field nope_field = {"qk_nope_head_dim", INTO(head_dim), MAX_HEAD_DIM};
    static const struct integer_field value_field = {"v_head_dim", INTO(value_head_dim), MAX_HEAD_DIM};
    static const struct config_integer query_field = {.key = "q_lora_rank", .min = 1, .max = MAX_RANK};
    if (sp_json_member(reader->json, query_field.key) == NULL) { /* null says that queries have no latent */
        return config_fail_missing(reader, query_field.key);
    }
    if (!config_read_integer(reader, &query_field, &model->q_lora_rank) || !read_into(reader, &rank_field, model) ||
        !read_into(reader, &rope_field, model) || !read_into(reader, &nope_field, model) ||
        !read_into(reader, &value_field, model)) {
        return false;
    }
    model->head_dim += model->rope_head_dim;
    model->n_kv_heads = model->n_heads;
    const struct sp_json *kv_heads = config_member(reader, kv_heads_field.key);
    int64_t count = 0;
    if (kv_heads != NULL && (!sp_json_integer(kv_heads, &count) || count != model->n_heads)) {
        sp_texts_add(reader->warnings,
                     "%s: num_key_value_heads (%s) has no effect under latent attention: every head has its own",
                     model->name, config_found_text(reader->arena, kv_heads));
    }
    return true;
}

static bool read_heads(const struct config_reader *reader, struct model_spec *model)
{
    if (config_member(reader, kv_heads_field.key) == NULL && reader->family->defaults_kv_heads) {
        model->n_kv_heads = model->n_heads;
    } else if (!read_into(reader, &kv_heads_field, model)) {
        return false;
    }
    if (model->n_heads % model->n_kv_heads != 0) {
        return sp_fail(reader->err, SP_ERROR_INPUT,
                       "%s: $.num_key_value_heads: expected a divisor of the %lld query heads, found %lld",
                       reader->file, (long long)model->n_heads, (long long)model->n_kv_heads);
    }
    if (config_member(reader, head_dim_field.key) != NULL) {
        if (!read_into(reader, &head_dim_field, model)) {
            return false;
        }
    } else if (model->hidden % model->n_heads != 0) {
        return sp_fail(
            reader->err, SP_ERROR_INPUT,
            "%s: $.head_dim: expected a value, found none, and hidden_size %lld does not divide by %lld heads",
            reader->file, (long long)model->hidden, (long long)model->n_heads);
    } else {
        model->head_dim = model->hidden / model->n_heads;
    }
    model->value_head_dim = model->head_dim;
    return true;
}

static bool read_shared_experts(const struct config_reader *reader, struct model_spec *model)
{
    const struct expert_fields *fields = reader->family->experts;
    const struct config_integer count_field = {.key = fields->shared_count, .min = 0, .max = MAX_SHARED_EXPERTS};
    const struct config_integer width_field = {.key = fields->shared_width, .min = 0, .max = MAX_FFN};
    if (fields->shared_width != NULL && !config_read_integer(reader, &width_field, &model->shared_expert_ffn)) {
        return false;
    }
    if (fields->shared_count == NULL) {
        model->has_shared_expert_gate = fields->has_shared_gate && model->shared_expert_ffn > 0;
        return true;
    }
    if (sp_json_member(reader->json, fields->shared_count) == NULL) { /* null says that there are none */
        return config_fail_missing(reader, fields->shared_count);
    }
    int64_t count = 0;
    if (!config_read_integer(reader, &count_field, &count)) {
        return false;
    }
    model->shared_expert_ffn = count * model->expert_ffn;
    return true;
}

static bool read_experts(const struct config_reader *reader, struct model_spec *model)
{
    const struct expert_fields *fields = reader->family->experts;
    const struct config_integer count_field = {.key = fields->count, .max = MAX_EXPERTS, .is_required = true};
    if (!config_read_integer(reader, &count_field, &model->n_experts)) {
        return false;
    }
    if (model->n_experts == 0) {
        return true;
    }
    const struct config_integer per_token_field = {
        .key = fields->per_token, .min = 1, .max = model->n_experts, .is_required = true};
    const struct integer_field width_field = {fields->width, INTO(expert_ffn), MAX_FFN};
    model->has_router_bias = fields->has_router_bias;
    model->has_expert_bias = fields->has_expert_bias;
    return config_read_integer(reader, &per_token_field, &model->experts_per_token) &&
           read_into(reader, &width_field, model) && read_shared_experts(reader, model);
}

static bool read_integers(const struct config_reader *reader, const struct integer_field *fields, size_t n_fields,
                          struct model_spec *model)
{
    for (size_t i = 0; i < n_fields; i++) {
        if (!read_into(reader, &fields[i], model)) {
            return false;
        }
    }
    return true;
}

static bool read_sizes(const struct config_reader *reader, struct model_spec *model)
{
    if (!read_integers(reader, required_integers, SP_COUNT_OF(required_integers), model)) {
        return false;
    }
    bool is_read =
        reader->family->has_latent_attention ? read_latent_attention(reader, model) : read_heads(reader, model);
    return is_read && (reader->family->experts == NULL || read_experts(reader, model));
}

static bool read_flags(const struct config_reader *reader, struct model_spec *model)
{
    const struct model_family *family = reader->family;
    assert(family != NULL); /* read_family() came first */
    bool attention_bias = false;
    bool mlp_bias = false;
    if (!config_read_bool(reader, "tie_word_embeddings", family->has_tied_embeddings, &model->has_tied_embeddings) ||
        !config_read_bool(reader, "attention_bias", family->defaults_attention_bias, &attention_bias) ||
        !config_read_bool(reader, "mlp_bias", false, &mlp_bias)) {
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
    model->has_sinks = family->has_sinks;
    return true;
}

/* ---- GPT-2 ------------------------------------------------------------------------------------------------------ */

/* The table has a row for each of n_positions; n_ctx, the older name, counts without it. */
static bool read_positions(const struct config_reader *reader, struct model_spec *model)
{
    const struct sp_json *context = config_member(reader, "n_ctx");
    bool is_by_context = context != NULL && config_member(reader, "n_positions") == NULL;
    const struct integer_field field = {is_by_context ? "n_ctx" : "n_positions", INTO(position_rows),
                                        MAX_POSITION_ROWS};
    if (!read_into(reader, &field, model)) {
        return false;
    }
    model->max_position = model->position_rows;
    int64_t count = 0;
    if (context != NULL &&
        (context->type != SP_JSON_NUMBER || !sp_json_integer(context, &count) || count != model->position_rows)) {
        sp_texts_add(reader->warnings, "%s: n_ctx (%s) has no effect beside n_positions (%lld)", model->name,
                     config_found_text(reader->arena, context), (long long)model->position_rows);
    }
    return true;
}

static bool read_gpt2_sizes(const struct config_reader *reader, struct model_spec *model)
{
    enum { USUAL_MLP_RATIO = 4 };
    if (!read_integers(reader, gpt2_integers, SP_COUNT_OF(gpt2_integers), model) || !read_positions(reader, model)) {
        return false;
    }
    const struct config_integer width_field = {
        .key = "n_inner", .min = 1, .max = MAX_FFN, .value_if_absent = USUAL_MLP_RATIO * model->hidden};
    if (!config_read_integer(reader, &width_field, &model->ffn)) {
        return false;
    }
    if (model->hidden % model->n_heads != 0) {
        return sp_fail(reader->err, SP_ERROR_INPUT, "%s: $.n_head: expected a divisor of n_embd %lld, found %lld",
                       reader->file, (long long)model->hidden, (long long)model->n_heads);
    }
    model->n_kv_heads = model->n_heads;
    model->head_dim = model->hidden / model->n_heads;
    model->value_head_dim = model->head_dim;
    return true;
}

/* Biases everywhere, by the architecture and not by fields. */
static bool read_gpt2(const struct config_reader *reader, struct model_spec *model)
{
    const struct model_family *family = reader->family;
    model->has_qkv_bias = family->has_qkv_bias;
    model->has_o_bias = true;
    model->has_mlp_bias = true;
    model->has_plain_mlp = true;
    model->has_norm_bias = true;
    return read_gpt2_sizes(reader, model) &&
           config_read_bool(reader, "tie_word_embeddings", family->has_tied_embeddings, &model->has_tied_embeddings);
}

/* ---- the rest of the file --------------------------------------------------------------------------------------- */

/* A field that another family reads may stand here switched off. */
static bool is_unread(const struct config_reader *reader, const struct sp_json *value)
{
    const struct config_field *field = NULL;
    if (config_field_use(reader->family, value->key, &field) != CONFIG_UNKNOWN) {
        return false;
    }
    return sp_index_of(value->key, model_config_names) < 0 || !config_value_is_neutral(value);
}

/* One warning for each field that is known to matter, one for all that nobody here knows. */
static void warn_fields(const struct config_reader *reader, const struct model_spec *model)
{
    struct sp_texts unknown = {.arena = reader->arena};
    for (const struct sp_json *value = reader->json->first; value != NULL; value = value->next) {
        const struct config_field *field = NULL;
        if (is_unread(reader, value)) {
            sp_texts_add(&unknown, "%.60s", value->key);
        }
        if (config_field_use(reader->family, value->key, &field) == CONFIG_UNMODELLED &&
            !config_value_is_neutral(value)) {
            sp_texts_add(reader->warnings, "%s: %s (%s) is not modelled: %s", model->name, value->key,
                         config_found_text(reader->arena, value), field->what);
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

static bool decode(struct config_reader *reader, struct model_spec *model)
{
    if (reader->json->type != SP_JSON_OBJECT) {
        return sp_fail(reader->err, SP_ERROR_INPUT, "%s: $: expected an object (a Hugging Face config.json), found %s",
                       reader->file, config_found_text(reader->arena, reader->json));
    }
    if (!read_family(reader, model)) {
        return false;
    }
    assert(reader->family != NULL);
    bool has_gpt2_names = model_family_reads(reader->family, gpt2_integers[0].key);
    bool is_read = has_gpt2_names ? read_gpt2(reader, model) : read_sizes(reader, model) && read_flags(reader, model);
    if (!is_read || !model_read_layers(reader, model)) {
        return false;
    }
    warn_fields(reader, model);
    return true;
}

bool model_decode(struct sp_arena *arena, const char *path, const struct sp_json *json, struct model_spec *model,
                  struct sp_texts *warnings, struct sp_error *err)
{
    *model = (struct model_spec){.name = model_name(arena, path), .path = path};
    struct config_reader reader = {.arena = arena, .file = path, .json = json, .warnings = warnings, .err = err};
    return decode(&reader, model);
}

bool model_read(struct sp_arena *arena, const char *name_or_path, struct model_spec *model, struct sp_texts *warnings,
                struct sp_error *err)
{
    struct sp_texts no_settings = {.arena = arena};
    return model_read_with(arena, name_or_path, &no_settings, model, warnings, err);
}
