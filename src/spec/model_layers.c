/* What sets the layers of one model apart: which see a window only, and which have experts. */
#include "spec/spec_internal.h"

#include <assert.h>
#include <string.h>

static const int64_t usual_first_window_layer = 28; /* max_window_layers of every Qwen configuration */
static const int64_t largest_window = (int64_t)1 << 40;
enum { LARGEST_LAYER = 10000 };

/* ---- windows ---------------------------------------------------------------------------------------------------- */

/* 0: none. A null in the file says none where leaving the field out says the family's default. */
static bool read_window(const struct config_reader *reader, int64_t *window)
{
    const struct model_family *family = reader->family;
    *window = 0;
    bool is_on = family->window != WINDOW_NONE;
    if (family->window == WINDOW_BY_FLAG && !config_read_bool(reader, "use_sliding_window", false, &is_on)) {
        return false;
    }
    bool is_left_out = sp_json_member(reader->json, "sliding_window") == NULL;
    const struct config_integer field = {
        .key = "sliding_window",
        .min = 1,
        .max = largest_window,
        .value_if_absent = is_left_out && family->default_window != NULL ? *family->default_window : 0};
    return !is_on || config_read_integer(reader, &field, window);
}

/* Without layer_types. */
static bool window_layers(const struct config_reader *reader, int64_t n_layers, int64_t window, int64_t *windows)
{
    int64_t first = 0;
    const struct config_integer field = {
        .key = "max_window_layers", .min = 0, .max = largest_window, .value_if_absent = usual_first_window_layer};
    if (reader->family->window == WINDOW_BY_FLAG && !config_read_integer(reader, &field, &first)) {
        return false;
    }
    for (int64_t layer = 0; layer < n_layers; layer++) {
        bool is_skipped = reader->family->window == WINDOW_ALTERNATES && layer % 2 == 1;
        windows[layer] = layer < first || is_skipped ? 0 : window;
    }
    return true;
}

static bool fail_layer_type(const struct config_reader *reader, int64_t layer, const struct sp_json *type)
{
    return sp_fail(reader->err, SP_ERROR_INPUT,
                   "%s: $.layer_types[%lld]: expected \"full_attention\" or \"sliding_attention\", found %s (other "
                   "kinds of layers are not built yet)",
                   reader->file, (long long)layer, config_found_text(reader->arena, type));
}

static bool window_types(const struct config_reader *reader, const struct sp_json *types, struct model_spec *model,
                         int64_t window, int64_t *windows)
{
    int64_t n_layers = model->n_layers;
    if (types->type != SP_JSON_ARRAY) {
        return sp_fail(reader->err, SP_ERROR_INPUT, "%s: $.layer_types: expected an array, found %s", reader->file,
                       config_found_text(reader->arena, types));
    }
    int64_t layer = 0;
    for (const struct sp_json *type = types->first; type != NULL; type = type->next, layer++) {
        bool is_text = type->type == SP_JSON_STRING;
        bool is_sliding = is_text && strcmp(type->string, "sliding_attention") == 0;
        if (!is_sliding && !(is_text && strcmp(type->string, "full_attention") == 0)) {
            return fail_layer_type(reader, layer, type);
        }
        if (layer < n_layers) {
            windows[layer] = is_sliding ? window : 0;
        }
    }
    if (layer < n_layers) {
        return sp_fail(reader->err, SP_ERROR_INPUT,
                       "%s: $.layer_types: expected a type for each of %lld layers, found %lld", reader->file,
                       (long long)n_layers, (long long)layer);
    }
    if (layer > n_layers) {
        sp_texts_add(reader->warnings, "%s: layer_types names %lld layers, of which the first %lld count", model->name,
                     (long long)layer, (long long)n_layers);
    }
    return true;
}

static bool read_windows(const struct config_reader *reader, struct model_spec *model, int64_t *windows)
{
    int64_t window = 0;
    if (!read_window(reader, &window)) {
        return false;
    }
    const struct sp_json *types = config_member(reader, "layer_types");
    return types != NULL ? window_types(reader, types, model, window, windows)
                         : window_layers(reader, model->n_layers, window, windows);
}

/* ---- experts ---------------------------------------------------------------------------------------------------- */

static bool drop_dense_layers(const struct config_reader *reader, const char *key, int64_t n_layers, bool *is_moe)
{
    const struct sp_json *list = config_member(reader, key);
    if (list == NULL) {
        return true;
    }
    if (list->type != SP_JSON_ARRAY) {
        return sp_fail(reader->err, SP_ERROR_INPUT, "%s: $.%s: expected an array, found %s", reader->file, key,
                       config_found_text(reader->arena, list));
    }
    for (const struct sp_json *item = list->first; item != NULL; item = item->next) {
        int64_t layer = 0;
        if (item->type != SP_JSON_NUMBER || !sp_json_integer(item, &layer) || layer < 0) {
            return sp_fail(reader->err, SP_ERROR_INPUT, "%s: $.%s: expected numbers of layers, found %s", reader->file,
                           key, config_found_text(reader->arena, item));
        }
        if (layer < n_layers) {
            is_moe[layer] = false;
        }
    }
    return true;
}

static bool read_expert_layers(const struct config_reader *reader, const struct model_spec *model, bool *is_moe)
{
    const struct expert_fields *fields = reader->family->experts;
    if (fields == NULL || model->n_experts == 0) {
        return true;
    }
    int64_t first = 0;
    int64_t period = 1;
    const struct config_integer first_field = {
        .key = fields->first, .min = 0, .max = LARGEST_LAYER, .is_required = true};
    const struct config_integer period_field = {
        .key = fields->period, .min = 1, .max = LARGEST_LAYER, .value_if_absent = 1};
    if ((fields->first != NULL && !config_read_integer(reader, &first_field, &first)) ||
        (fields->period != NULL && !config_read_integer(reader, &period_field, &period))) {
        return false;
    }
    for (int64_t layer = 0; layer < model->n_layers; layer++) {
        int64_t place = layer + (fields->counts_period_from_1 ? 1 : 0);
        is_moe[layer] = layer >= first && place % period == 0;
    }
    return fields->dense_layers == NULL || drop_dense_layers(reader, fields->dense_layers, model->n_layers, is_moe);
}

/* ---- kinds ------------------------------------------------------------------------------------------------------ */

/* Index of the kind, which joins the list when it is new. A model has one window, so at most four kinds. */
static int kind_index(struct model_spec *model, const struct layer_kind *kind)
{
    for (int i = 0; i < model->n_kinds; i++) {
        if (model->kinds[i].window == kind->window && model->kinds[i].is_moe == kind->is_moe) {
            return i;
        }
    }
    assert(model->n_kinds < MAX_LAYER_KINDS);
    model->kinds[model->n_kinds] = *kind;
    model->n_kinds++;
    return model->n_kinds - 1;
}

static void sum_kinds(struct sp_arena *arena, struct model_spec *model)
{
    size_t n_layers = (size_t)model->n_layers;
    struct layer_prefix *prefixes = sp_arena_array(arena, n_layers + 1, sizeof(*prefixes));
    for (size_t layer = 0; layer < n_layers; layer++) {
        int kind = model->kind_of_layer[layer];
        prefixes[layer + 1] = prefixes[layer];
        prefixes[layer + 1].counts[kind]++;
        prefixes[layer + 1].lasts[kind] = (int32_t)layer + 1;
    }
    model->prefixes = prefixes;
}

bool model_read_layers(const struct config_reader *reader, struct model_spec *model)
{
    size_t n_layers = (size_t)model->n_layers;
    int64_t *windows = sp_arena_array(reader->arena, n_layers, sizeof(*windows));
    bool *is_moe = sp_arena_array(reader->arena, n_layers, sizeof(*is_moe));
    unsigned char *kinds = sp_arena_array(reader->arena, n_layers, sizeof(*kinds));
    if (!read_windows(reader, model, windows) || !read_expert_layers(reader, model, is_moe)) {
        return false;
    }
    model->n_kinds = 0;
    for (size_t layer = 0; layer < n_layers; layer++) {
        const struct layer_kind kind = {.window = windows[layer], .is_moe = is_moe[layer]};
        kinds[layer] = (unsigned char)kind_index(model, &kind);
    }
    model->kind_of_layer = kinds;
    sum_kinds(reader->arena, model);
    return true;
}
