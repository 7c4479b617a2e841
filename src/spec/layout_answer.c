/* What a whole answer read by --layout says beside its layout: the question, put under what the user gives. */
#include "spec/spec_internal.h"

#include <string.h>

/* The member of the answer, or NULL where it is absent or null. False: it is of another type. */
static bool find_member(const struct answer_source *source, const char *key, enum sp_json_type type,
                        const struct sp_json **member, struct sp_error *err)
{
    const struct sp_json *found = sp_json_member(source->json, key);
    *member = found == NULL || found->type == SP_JSON_NULL ? NULL : found;
    if (*member == NULL || found->type == type) {
        return true;
    }
    const char *expected = type == SP_JSON_STRING   ? "a string"
                           : type == SP_JSON_NUMBER ? "a whole number"
                           : type == SP_JSON_OBJECT ? "an object"
                                                    : "an array";
    return sp_fail(err, SP_ERROR_INPUT, "%s: $.%s: expected %s, found %s", source->file, key, expected,
                   config_found_text(source->arena, found));
}

static bool take_text(const struct answer_source *source, const char *key, const char **option, struct sp_error *err)
{
    const struct sp_json *member = NULL;
    if (!find_member(source, key, SP_JSON_STRING, &member, err)) {
        return false;
    }
    if (*option == NULL && member != NULL) {
        *option = member->string;
    }
    return true;
}

static bool take_count(const struct answer_source *source, const char *key, struct sp_option_count *option,
                       struct sp_error *err)
{
    const struct sp_json *member = NULL;
    int64_t value = 0;
    if (!find_member(source, key, SP_JSON_NUMBER, &member, err)) {
        return false;
    }
    if (member != NULL && (!sp_json_integer(member, &value) || value < 1)) {
        return sp_fail(err, SP_ERROR_INPUT, "%s: $.%s: expected a whole number from 1 on, found %s", source->file, key,
                       config_found_text(source->arena, member));
    }
    if (!option->is_given && member != NULL) {
        *option = (struct sp_option_count){.is_given = true, .value = value};
    }
    return true;
}

/* Whether the user says again what an assumed input was about. */
static bool is_said_again(const struct request *given, const char *assumed)
{
    const struct {
        const char *prefix;
        bool is_given;
    } inputs[] = {
        {"recompute ", given->recompute != NULL},
        {"global batch ", given->global_batch != NULL},
        {"pp-layers ", given->pp_layers != NULL},
        {"zero ", given->zero >= 0},
        {"parameters ", request_sets(given, "run.parameter_dtype")},
        {"gradients ", request_sets(given, "run.gradient_dtype")},
        {"moments ", request_sets(given, "run.moment_dtype") || request_sets(given, "run.master_weights")},
        {"loss ", request_sets(given, "run.loss")},
        {"tiled MLP", request_sets(given, "run.tiled_mlp")},
    };
    for (size_t i = 0; i < SP_COUNT_OF(inputs); i++) {
        if (strncmp(assumed, inputs[i].prefix, strlen(inputs[i].prefix)) == 0) {
            return inputs[i].is_given;
        }
    }
    return false;
}

static bool take_assumed(const struct answer_source *source, const struct request *given, struct request *merged,
                         struct sp_error *err)
{
    const struct sp_json *member = NULL;
    if (!find_member(source, "assumed", SP_JSON_ARRAY, &member, err)) {
        return false;
    }
    merged->assumed = (struct sp_texts){.arena = source->arena};
    for (const struct sp_json *text = member == NULL ? NULL : member->first; text != NULL; text = text->next) {
        if (text->type == SP_JSON_STRING && !is_said_again(given, text->string)) {
            sp_texts_add(&merged->assumed, "%s", text->string);
        }
    }
    return true;
}

/* A batch that was worked out is worked out anew when what it follows from has changed. */
static bool take_batch(const struct answer_source *source, const struct request *given, struct request *merged,
                       struct sp_error *err)
{
    struct sp_option_count batch = {0};
    if (!take_count(source, "global_batch", &batch, err)) {
        return false;
    }
    bool has_changed = given->gpus.is_given || given->nodes.is_given || given->seq.is_given || given->tp.is_given ||
                       given->sp.is_given || given->pp.is_given || given->dp.is_given || given->micro_batch.is_given;
    const char *text = sp_format(source->arena, "%lld", (long long)batch.value);
    bool was_assumed = sp_texts_has(&merged->assumed, sp_format(source->arena, "global batch %s", text));
    if (merged->global_batch == NULL && batch.is_given && !(was_assumed && has_changed)) {
        merged->global_batch = text;
    }
    return true;
}

bool answer_overrides(const struct answer_source *source, const struct request *given, struct sp_texts *overrides,
                      struct sp_error *err)
{
    static const char of_network[] = "network.";
    const struct sp_json *member = NULL;
    if (!find_member(source, "set", SP_JSON_ARRAY, &member, err)) {
        return false;
    }
    for (const struct sp_json *text = member == NULL ? NULL : member->first; text != NULL; text = text->next) {
        if (text->type != SP_JSON_STRING) {
            return sp_fail(err, SP_ERROR_INPUT,
                           "%s: $.set: expected texts such as \"gpu.hbm_bandwidth=8TB/s\", found %s", source->file,
                           config_found_text(source->arena, text));
        }
        if (!given->is_other_network || strncmp(text->string, of_network, strlen(of_network)) != 0) {
            sp_texts_add(overrides, "%s", text->string);
        }
    }
    return true;
}

/* What MFU counts: "causal" or "full", as --flops takes it. */
static bool take_flop_counting(const struct answer_source *source, struct request *merged, struct sp_error *err)
{
    const char *name = NULL;
    if (!take_text(source, "flops", &name, err)) {
        return false;
    }
    int flops = name == NULL ? -1 : sp_index_of(name, flops_names);
    if (name != NULL && flops < 0) {
        return sp_fail(err, SP_ERROR_INPUT, "%s: $.flops: expected \"causal\" or \"full\", found \"%.40s\"",
                       source->file, name);
    }
    merged->flops = merged->flops < 0 ? flops : merged->flops;
    return true;
}

/* The tokens of a whole run, where --tokens asked for it. */
static bool take_tokens(const struct answer_source *source, struct request *merged, struct sp_error *err)
{
    const struct sp_json *run = NULL;
    if (!find_member(source, "run", SP_JSON_OBJECT, &run, err)) {
        return false;
    }
    const struct answer_source inside = {
        .arena = source->arena, .file = sp_format(source->arena, "%s: $.run", source->file), .json = run};
    return run == NULL || take_count(&inside, "tokens", &merged->tokens, err);
}

bool answer_apply(const struct answer_source *source, const struct request *given, struct request *merged,
                  struct sp_error *err)
{
    const char *other = NULL;
    struct sp_option_count gpus = {0};
    bool has_own_hardware = given->hardware != NULL;
    bool has_own_size = given->gpus.is_given || given->nodes.is_given;
    /* files that were given by their path come before the names they go by */
    return take_text(source, "model_file", &merged->model, err) && take_text(source, "model", &merged->model, err) &&
           take_text(source, "hardware_file", &merged->hardware, err) &&
           take_text(source, "hardware", &merged->hardware, err) &&
           take_text(source, "network", has_own_hardware ? &other : &merged->network, err) &&
           take_count(source, "gpus", has_own_size ? &gpus : &merged->gpus, err) &&
           take_count(source, "seq", &merged->seq, err) && take_count(source, "documents", &merged->documents, err) &&
           take_text(source, "mask", &merged->mask, err) && take_text(source, "train", &merged->train, err) &&
           take_text(source, "only", &merged->only, err) && take_flop_counting(source, merged, err) &&
           take_tokens(source, merged, err) && take_assumed(source, given, merged, err) &&
           take_batch(source, given, merged, err);
}
