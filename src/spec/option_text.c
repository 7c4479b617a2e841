/* Values of options that are more than a word or a number. The caller puts the name of the option before an error. */
#include "spec/spec_internal.h"

#include <string.h>

static const int64_t LARGEST_COUNT = (int64_t)1 << 40;
enum { LARGEST_RANK = 1 << 16 };

/* A whole number from 1 on in `length` characters, nothing else. */
static bool count_parse(const char *text, size_t length, int64_t *count)
{
    *count = 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return false;
        }
        *count = *count * 10 + (text[i] - '0');
        if (*count > LARGEST_COUNT) {
            return false;
        }
    }
    return *count > 0;
}

bool recompute_parse(const char *text, enum recompute_kind *kind, int64_t *layers, struct sp_error *err)
{
    static const char *const names[] = {"none", "selective", "full", NULL};
    static const char block[] = "block:";
    int index = sp_index_of(text, names);
    *layers = 0;
    if (index >= 0) {
        *kind = (enum recompute_kind)index;
        return true;
    }
    size_t prefix = strlen(block);
    if (strncmp(text, block, prefix) == 0 && count_parse(text + prefix, strlen(text + prefix), layers)) {
        *kind = RECOMPUTE_BLOCK;
        return true;
    }
    return sp_fail(err, SP_ERROR_USAGE,
                   "expected none, selective, full or block:N (N layers per stage), found "
                   "\"%.60s\"",
                   text);
}

bool order_parse(struct sp_arena *arena, const char *text, enum axis order[N_AXES], struct sp_error *err)
{
    bool is_used[N_AXES] = {false};
    int count = 0;
    bool is_good = true;
    const char *at = text;
    while (is_good && count < N_AXES) {
        size_t length = strcspn(at, "-");
        int axis = sp_index_of(sp_strndup(arena, at, length), axis_names);
        is_good = axis >= 0 && !is_used[axis];
        if (is_good) {
            is_used[axis] = true;
            order[count] = (enum axis)axis;
            count++;
        }
        at += length;
        if (*at != '-') {
            break;
        }
        at++;
    }
    if (is_good && count == N_AXES && *at == '\0' && text[strlen(text) - 1] != '-') {
        return true;
    }
    return sp_fail(err, SP_ERROR_USAGE,
                   "expected tp, cp, ep, dp and pp once each, the fastest first, such as "
                   "\"tp-cp-ep-dp-pp\", found \"%.60s\"",
                   text);
}

static bool explicit_layers_parse(struct sp_arena *arena, const char *text, struct layout_spec *layout,
                                  struct sp_error *err)
{
    size_t n_stages = 1;
    for (const char *at = text; *at != '\0'; at++) {
        n_stages += *at == ',' ? 1 : 0;
    }
    int64_t *layers = sp_arena_array(arena, n_stages, sizeof(*layers));
    const char *at = text;
    for (size_t stage = 0; stage < n_stages; stage++) {
        size_t length = strcspn(at, ",");
        if (!count_parse(at, length, &layers[stage])) {
            return sp_fail(err, SP_ERROR_USAGE,
                           "expected auto, padded or layers per stage such as \"7,8,8,7\", found \"%.60s\"", text);
        }
        at += length + 1;
    }
    layout->pp_layers = PP_LAYERS_EXPLICIT;
    layout->n_stage_layers = (int64_t)n_stages;
    layout->stage_layers = layers;
    return true;
}

bool pp_layers_parse(struct sp_arena *arena, const char *text, struct layout_spec *layout, struct sp_error *err)
{
    layout->n_stage_layers = 0;
    layout->stage_layers = NULL;
    if (text == NULL) {
        layout->pp_layers = PP_LAYERS_EVEN;
    } else if (strcmp(text, "auto") == 0) {
        layout->pp_layers = PP_LAYERS_AUTO;
    } else if (strcmp(text, "padded") == 0) {
        layout->pp_layers = PP_LAYERS_PADDED;
    } else {
        return explicit_layers_parse(arena, text, layout, err);
    }
    return true;
}

bool global_batch_parse(struct sp_arena *arena, const char *text, int64_t seq, int64_t *batch, struct sp_error *err)
{
    if (count_parse(text, strlen(text), batch)) {
        return true;
    }
    static const char tokens_suffix[] = "tok";
    size_t length = strlen(text);
    size_t suffix = strlen(tokens_suffix);
    double tokens = 0;
    struct sp_error ignored = {0};
    if (length <= suffix || strcmp(text + length - suffix, tokens_suffix) != 0 ||
        !sp_quantity_parse(sp_strndup(arena, text, length - suffix), SP_TOKENS, &tokens, &ignored) || tokens < 1) {
        return sp_fail(err, SP_ERROR_USAGE,
                       "expected sequences such as \"64\" or tokens such as \"16Mtok\", found \"%.60s\"", text);
    }
    int64_t whole = (int64_t)tokens; /* at most 2^53: larger ones are not whole */
    *batch = whole / seq;
    if (whole % seq == 0) {
        return true;
    }
    return sp_fail(err, SP_ERROR_USAGE,
                   "expected a multiple of the sequence of %lld tokens, found %lld tokens; the nearest number of "
                   "sequences is %lld",
                   (long long)seq, (long long)whole,
                   (long long)(*batch == 0 || whole % seq * 2 > seq ? *batch + 1 : *batch));
}

bool mask_parse(const char *text, enum mask_kind *mask, int64_t *window, struct sp_error *err)
{
    static const char prefix[] = "window:";
    *window = 0;
    if (strcmp(text, "causal") == 0 || strcmp(text, "full") == 0) {
        *mask = text[0] == 'c' ? MASK_CAUSAL : MASK_FULL;
        return true;
    }
    if (strcmp(text, "model") == 0) {
        *mask = MASK_MODEL;
        return true;
    }
    double tokens = 0;
    struct sp_error ignored = {0};
    if (strncmp(text, prefix, strlen(prefix)) == 0 &&
        sp_quantity_parse(text + strlen(prefix), SP_TOKENS, &tokens, &ignored) && tokens >= 1 &&
        tokens <= (double)LARGEST_COUNT) {
        *mask = MASK_WINDOW;
        *window = (int64_t)tokens;
        return true;
    }
    return sp_fail(
        err, SP_ERROR_USAGE,
        "expected model, causal, full or window:N (N keys up to the query's own, as window:4096), found \"%.60s\"",
        text);
}

bool train_parse(const char *text, int64_t *lora_rank, struct sp_error *err)
{
    static const char prefix[] = "lora:";
    *lora_rank = 0;
    if (strcmp(text, "full") == 0) {
        return true;
    }
    if (strncmp(text, prefix, strlen(prefix)) == 0 &&
        count_parse(text + strlen(prefix), strlen(text + strlen(prefix)), lora_rank) && *lora_rank <= LARGEST_RANK) {
        return true;
    }
    return sp_fail(err, SP_ERROR_USAGE, "expected full or lora:R (rank R from 1 to %d, as lora:16), found \"%.60s\"",
                   LARGEST_RANK, text);
}

/* ---- offload ---------------------------------------------------------------------------------------------------- */

static const char *const offload_names[] = {"activations", "optimizer", "parameters", NULL};
enum { N_OFFLOADS = SP_COUNT_OF(offload_names) - 1 };

static bool fail_offload(const char *text, struct sp_error *err)
{
    return sp_fail(err, SP_ERROR_USAGE,
                   "expected none, or a list of activations, optimizer and parameters once each, as "
                   "\"activations,optimizer\", found \"%.60s\"",
                   text);
}

bool offload_parse(struct sp_arena *arena, const char *text, struct layout_spec *layout, struct sp_error *err)
{
    bool is_named[N_OFFLOADS] = {false};
    const char *at = strcmp(text, "none") == 0 ? NULL : text;
    while (at != NULL) {
        size_t length = strcspn(at, ",+"); /* + as plan joins them */
        int which = sp_index_of(sp_strndup(arena, at, length), offload_names);
        if (which < 0 || is_named[which]) {
            return fail_offload(text, err);
        }
        is_named[which] = true;
        at = at[length] != '\0' ? at + length + 1 : NULL;
    }
    layout->offloads_activations = is_named[0];
    layout->offloads_optimizer = is_named[1];
    layout->offloads_parameters = is_named[2];
    return true;
}

const char *layout_offload_text(struct sp_arena *arena, const struct layout_spec *layout)
{
    const bool is_named[N_OFFLOADS] = {layout->offloads_activations, layout->offloads_optimizer,
                                       layout->offloads_parameters};
    const char *names[N_OFFLOADS];
    size_t n_names = 0;
    for (size_t i = 0; i < N_OFFLOADS; i++) {
        if (is_named[i]) {
            names[n_names++] = offload_names[i];
        }
    }
    return n_names == 0 ? "none" : sp_join(arena, names, n_names, ",");
}
