/* --layout: a layout as printed, or a whole answer that holds one, put under what the user gives beside it. */
#include "spec/spec_internal.h"

#include <string.h>

/* Zero, -1 (choices and zero) and NULL: not in the file. */
struct layout_file {
    int64_t tp, sp, sp_ulysses, sp_inner, pp, vpp, dp, ep, etp, micro_batch;
    int64_t zero;
    int method, schedule, precision, framework, kernels;
    bool has_tp_sp;
    const char *pp_layers, *recompute, *offload, *attention, *order;
    const struct sp_json *run;
};

static bool check_object(const struct sp_decoder *decoder, const struct sp_json *json, const char *path, void *target,
                         struct sp_error *err)
{
    (void)target;
    return json->type == SP_JSON_OBJECT ||
           sp_fail(err, SP_ERROR_INPUT, "%s: %s: expected an object", decoder->file, path);
}

static bool keep_object(const struct sp_decoder *decoder, const struct sp_json *json, const char *path, void *target,
                        struct sp_error *err)
{
    *(const struct sp_json **)target = json;
    return check_object(decoder, json, path, target, err);
}

static bool in_file(const struct sp_decoder *decoder, const char *path, struct sp_error *err)
{
    err->kind = SP_ERROR_INPUT;
    sp_error_prefix(err, "%s: %s", decoder->file, path);
    return false;
}

static bool decode_recompute(const struct sp_decoder *decoder, const struct sp_json *json, const char *path,
                             void *target, struct sp_error *err)
{
    const char *text = json->type == SP_JSON_STRING ? json->string : "";
    enum recompute_kind kind = RECOMPUTE_NONE;
    int64_t layers = 0;
    if (!recompute_parse(text, &kind, &layers, err)) {
        return in_file(decoder, path, err);
    }
    *(const char **)target = text;
    return true;
}

static bool decode_order(const struct sp_decoder *decoder, const struct sp_json *json, const char *path, void *target,
                         struct sp_error *err)
{
    const char *text = json->type == SP_JSON_STRING ? json->string : "";
    enum axis order[N_AXES];
    if (!order_parse(decoder->arena, text, order, err)) {
        return in_file(decoder, path, err);
    }
    *(const char **)target = text;
    return true;
}

/* null: even; "auto", "padded", or an array of counts, which becomes the text of the option. */
static bool decode_pp_layers(const struct sp_decoder *decoder, const struct sp_json *json, const char *path,
                             void *target, struct sp_error *err)
{
    const char *text = json->type == SP_JSON_STRING ? json->string : "";
    struct layout_spec parsed = {0};
    if (json->type == SP_JSON_NULL) {
        return true;
    }
    if (json->type == SP_JSON_ARRAY) {
        for (const struct sp_json *stage = json->first; stage != NULL; stage = stage->next) {
            int64_t layers = 0;
            bool is_count = stage->type == SP_JSON_NUMBER && sp_json_integer(stage, &layers);
            text = sp_format(decoder->arena, "%s%s%lld", text, stage == json->first ? "" : ",",
                             is_count ? (long long)layers : -1);
        }
    }
    if (!pp_layers_parse(decoder->arena, text, &parsed, err)) {
        return in_file(decoder, path, err);
    }
    *(const char **)target = text;
    return true;
}

/* "activations,optimizer" as the option has it, or an array of those names. */
static bool decode_offload(const struct sp_decoder *decoder, const struct sp_json *json, const char *path, void *target,
                           struct sp_error *err)
{
    const char *text = json->type == SP_JSON_STRING ? json->string : "";
    if (json->type == SP_JSON_ARRAY) {
        text = json->count == 0 ? "none" : "";
        for (const struct sp_json *name = json->first; name != NULL; name = name->next) {
            const char *found = name->type == SP_JSON_STRING ? name->string : "?";
            text = sp_format(decoder->arena, "%s%s%s", text, name == json->first ? "" : ",", found);
        }
    }
    struct layout_spec parsed = {0};
    if (!offload_parse(decoder->arena, text, &parsed, err)) {
        return in_file(decoder, path, err);
    }
    *(const char **)target = text;
    return true;
}

#define DEGREE(name, text)                                                                                             \
    {                                                                                                                  \
        .key = #name, .type = SP_FIELD_INTEGER, .offset = offsetof(struct layout_file, name), .min = 1, .max = 0x1p40, \
        .help = (text)                                                                                                 \
    }
#define CHOICE(name, member, choices, text)                                                                            \
    {                                                                                                                  \
        .key = (name), .type = SP_FIELD_ENUM, .offset = offsetof(struct layout_file, member), .names = (choices),      \
        .help = (text)                                                                                                 \
    }
#define CUSTOM(member, decoder, text)                                                                                  \
    {                                                                                                                  \
        .key = #member, .type = SP_FIELD_CUSTOM, .offset = offsetof(struct layout_file, member), .decode = (decoder),  \
        .help = (text)                                                                                                 \
    }
static const struct sp_field layout_fields[] = {
    DEGREE(tp, "tensor parallel degree"),
    DEGREE(sp, "sequence parallel degree"),
    CHOICE("sp_method", method, method_names, "sequence-parallel method"),
    DEGREE(sp_ulysses, "Ulysses degree inside sp"),
    DEGREE(sp_inner, "inner ring of double-ring"),
    DEGREE(pp, "pipeline degree"),
    CUSTOM(pp_layers, decode_pp_layers, "null, \"auto\", \"padded\" or layers per stage"),
    DEGREE(vpp, "virtual stages per pipeline rank"),
    CHOICE("schedule", schedule, schedule_names, "pipeline schedule"),
    DEGREE(dp, "data parallel degree"),
    DEGREE(ep, "expert parallel degree"),
    DEGREE(etp, "tensor parallel degree of experts"),
    DEGREE(micro_batch, "sequences per micro-batch"),
    CUSTOM(recompute, decode_recompute, "\"none\", \"selective\", \"full\" or \"block:N\""),
    {.key = "zero",
     .type = SP_FIELD_INTEGER,
     .offset = offsetof(struct layout_file, zero),
     .min = 0,
     .max = 3,
     .help = "ZeRO stage"},
    CUSTOM(offload, decode_offload, "what lives in host memory: \"none\" or a list"),
    CHOICE("precision", precision, dtype_names, "of the matrix products"),
    CHOICE("framework", framework, framework_names, "whose implementation"),
    {.key = "attention",
     .type = SP_FIELD_STRING,
     .offset = offsetof(struct layout_file, attention),
     .help = "attention kernel"},
    CHOICE("kernels", kernels, kernels_names, "element-wise kernels"),
    {.key = "tp_sp",
     .type = SP_FIELD_BOOL,
     .offset = offsetof(struct layout_file, has_tp_sp),
     .help = "Megatron's sequence parallelism inside tp"},
    CUSTOM(order, decode_order, "axes, the fastest first"),
    {.key = "placement",
     .type = SP_FIELD_CUSTOM,
     .decode = check_object,
     .help = "where groups lie: follows from the rest, not read"},
    CUSTOM(run, keep_object, "settings of --set run.KEY"),
    {.key = NULL},
};

static void take_count(struct sp_option_count *option, int64_t value)
{
    if (!option->is_given && value > 0) {
        *option = (struct sp_option_count){.is_given = true, .value = value};
    }
}

static void take_choice(int *option, int value)
{
    *option = *option < 0 ? value : *option;
}

static void take_text(const char **option, const char *value)
{
    *option = *option == NULL ? value : *option;
}

static bool has_other_framework(const struct layout_file *file, const struct request *given)
{
    return given->framework >= 0 && given->framework != file->framework;
}

/* What follows from other members is not taken when the user changes those: dp is what the degrees leave, layers per
 * stage belong to a pp, the parts of sp to its method, and kernels to a framework. */
static void take_layout(const struct layout_file *file, const struct request *given, struct request *merged)
{
    take_count(&merged->tp, file->tp);
    take_count(&merged->sp, file->sp);
    take_count(&merged->pp, file->pp);
    take_count(&merged->vpp, file->vpp);
    take_count(&merged->ep, file->ep);
    take_count(&merged->etp, file->etp);
    take_count(&merged->micro_batch, file->micro_batch);
    if (!(given->sp.is_given && file->method == METHOD_NONE)) { /* it follows from sp 1 */
        take_choice(&merged->method, file->method);
    }
    bool follows_vpp = file->schedule == SCHEDULE_INTERLEAVED || file->schedule == SCHEDULE_1F1B;
    if (!(given->vpp.is_given && follows_vpp)) {
        take_choice(&merged->schedule, file->schedule);
    }
    take_choice(&merged->precision, file->precision);
    take_choice(&merged->framework, file->framework);
    if (!has_other_framework(file, given)) {
        take_choice(&merged->kernels, file->kernels);
    }
    take_choice(&merged->zero, (int)file->zero);
    take_text(&merged->recompute, file->recompute);
    take_text(&merged->offload, file->offload);
    take_text(&merged->attention, file->attention);
    if (!given->tp.is_given && !given->sp.is_given && !given->pp.is_given) {
        take_count(&merged->dp, file->dp);
    }
    if (!given->pp.is_given) {
        take_text(&merged->pp_layers, file->pp_layers);
    }
    if (!given->sp.is_given && given->method < 0) {
        take_count(&merged->sp_ulysses, file->sp_ulysses);
        take_count(&merged->sp_inner, file->sp_inner);
    }
}

static void append(struct sp_texts *texts, const char *text)
{
    texts->items[texts->count] = text;
    texts->count++;
}

/* Settings of the layout come first, then what its answer overrode, so that a later one of the user wins. */
static bool take_settings(const struct sp_decoder *decoder, const struct layout_file *file,
                          const struct sp_texts *overrides, const struct request *given, struct request *merged,
                          struct sp_error *err)
{
    /* run.* of a layout is what its framework does; what was asked for is among the overrides */
    bool has_run = file->run != NULL && !has_other_framework(file, given);
    size_t n_run = has_run ? (size_t)file->run->count : 0;
    size_t capacity = given->set.count + overrides->count + n_run + 1;
    struct sp_texts set = {.arena = decoder->arena, .capacity = capacity};
    set.items = sp_arena_array(decoder->arena, capacity, sizeof(*set.items));
    if (file->order != NULL) {
        append(&set, sp_format(decoder->arena, "layout.order=%s", file->order));
    }
    for (const struct sp_json *value = n_run == 0 ? NULL : file->run->first; value != NULL; value = value->next) {
        if (value->type == SP_JSON_STRING) {
            append(&set, sp_format(decoder->arena, "run.%s=%s", value->key, value->string));
        } else if (value->type == SP_JSON_NUMBER) {
            append(&set, sp_format(decoder->arena, "run.%s=%.17g", value->key, value->number));
        } else if (value->type == SP_JSON_BOOL) {
            append(&set, sp_format(decoder->arena, "run.%s=%s", value->key, value->boolean ? "true" : "false"));
        } else {
            return sp_fail(err, SP_ERROR_INPUT, "%s: $.run.%s: expected a string, a number, true or false",
                           decoder->file, value->key);
        }
    }
    merged->n_layout_set = set.count;
    for (size_t i = 0; i < overrides->count; i++) {
        append(&set, overrides->items[i]);
    }
    for (size_t i = 0; i < given->set.count; i++) {
        append(&set, given->set.items[i]);
    }
    merged->set = set;
    return true;
}

static const struct sp_json *find_layout(const struct sp_decoder *decoder, const struct sp_json *json,
                                         const char **path, struct sp_error *err)
{
    static const char *const readable[] = {"seqplan.estimate/1", "seqplan.simulate/1", NULL};
    const struct sp_json *layout = sp_json_member(json, "layout");
    const struct sp_json *schema = sp_json_member(json, "schema");
    bool is_other = schema != NULL && (schema->type != SP_JSON_STRING || sp_index_of(schema->string, readable) < 0);
    if (layout != NULL && is_other) {
        (void)sp_fail(err, SP_ERROR_INPUT, "%s: $.schema: expected \"%s\", found %s", decoder->file, readable[0],
                      config_found_text(decoder->arena, schema));
        return NULL;
    }
    if (layout != NULL) {
        *path = "$.layout";
        return layout;
    }
    if (schema != NULL && schema->type == SP_JSON_STRING) {
        (void)sp_fail(err, SP_ERROR_INPUT,
                      "%s: $: expected a layout or an answer with one, found \"%.40s\" without "
                      "\"layout\" (take one of its rows or plans)",
                      decoder->file, schema->string);
        return NULL;
    }
    *path = "$";
    return json;
}

bool layout_file_apply(struct sp_arena *arena, const char *name, const struct sp_json *json,
                       const struct request *request, struct request *merged, struct sp_error *err)
{
    const struct sp_decoder decoder = {.arena = arena, .file = name};
    struct layout_file file = {
        .zero = -1, .method = -1, .schedule = -1, .precision = -1, .framework = -1, .kernels = -1};
    const char *path = "$";
    const struct sp_json *layout = json->type == SP_JSON_OBJECT ? find_layout(&decoder, json, &path, err) : json;
    if (layout == NULL || !sp_fields_decode(layout_fields, &decoder, layout, path, &file, err)) {
        return false;
    }
    *merged = *request;
    bool is_idle = request->tp.is_given && file.tp <= 1; /* tp 1 has no use for it: another tp may */
    if (merged->tp_sp < 0 && !is_idle && sp_json_member(layout, "tp_sp") != NULL) {
        merged->tp_sp = file.has_tp_sp ? 1 : 0;
    }
    bool is_answer = layout != json;
    if (is_answer && (request->gpus.is_given || request->nodes.is_given)) {
        file.dp = 0; /* what another cluster leaves */
    }
    take_layout(&file, request, merged);
    const struct answer_source answer = {.arena = arena, .file = name, .json = json};
    struct sp_texts overrides = {.arena = arena};
    return (!is_answer || answer_overrides(&answer, request, &overrides, err)) &&
           take_settings(&decoder, &file, &overrides, request, merged, err) &&
           (!is_answer || answer_apply(&answer, request, merged, err));
}

bool request_merge_layout(const struct request *request, struct sp_arena *arena, struct request *merged,
                          struct sp_error *err)
{
    if (request->layout_file == NULL) {
        *merged = *request;
        return true;
    }
    const char *name = strcmp(request->layout_file, "-") == 0 ? "standard input" : request->layout_file;
    const struct sp_json *json = sp_json_read(arena, request->layout_file, err);
    return json != NULL && layout_file_apply(arena, name, json, request, merged, err);
}
