#include "support/questions.h"

#include "support/support.h"

#include <stdlib.h>
#include <string.h>

static void set_count(struct sp_option_count *count, enum sp_dimension dimension, const char *value)
{
    double number = 0;
    struct sp_error err = {0};
    if (!sp_quantity_parse(value, dimension, &number, &err)) {
        fail_msg("%s", err.text);
    }
    *count = (struct sp_option_count){.is_given = true, .value = (int64_t)number};
}

struct count_setting {
    const char *key;
    size_t offset;
};
#define COUNT(name)                                                                                                    \
    {                                                                                                                  \
#name, offsetof(struct request, name)                                                                          \
    }
static const struct count_setting counts[] = {COUNT(gpus),     COUNT(nodes),     COUNT(seq),   COUNT(micro_batch),
                                              COUNT(tp),       COUNT(sp),        COUNT(pp),    COUNT(vpp),
                                              COUNT(dp),       COUNT(ep),        COUNT(etp),   COUNT(sp_ulysses),
                                              COUNT(sp_inner), COUNT(documents), COUNT(tokens)};

static bool set_count_named(struct request *request, const char *key, const char *value)
{
    for (size_t i = 0; i < SP_COUNT_OF(counts); i++) {
        if (strcmp(counts[i].key, key) == 0) {
            struct sp_option_count *count = (struct sp_option_count *)(void *)((char *)request + counts[i].offset);
            set_count(count, strcmp(key, "seq") == 0 || strcmp(key, "documents") == 0 ? SP_TOKENS : SP_COUNT, value);
            return true;
        }
    }
    return false;
}

static const char **text_member(struct request *request, const char *key)
{
    const struct {
        const char *key;
        const char **member;
    } texts[] = {{"model", &request->model},         {"hardware", &request->hardware},
                 {"network", &request->network},     {"batch", &request->global_batch},
                 {"pp-layers", &request->pp_layers}, {"recompute", &request->recompute},
                 {"attention", &request->attention}, {"mask", &request->mask},
                 {"offload", &request->offload},     {"train", &request->train}};
    for (size_t i = 0; i < SP_COUNT_OF(texts); i++) {
        if (strcmp(texts[i].key, key) == 0) {
            return texts[i].member;
        }
    }
    return NULL;
}

static bool set_choice(struct request *request, const char *key, const char *value)
{
    const struct {
        const char *key;
        int *member;
        const char *const *names;
    } choices[] = {{"method", &request->method, method_names},
                   {"framework", &request->framework, framework_names},
                   {"kernels", &request->kernels, kernels_names},
                   {"precision", &request->precision, dtype_names},
                   {"schedule", &request->schedule, schedule_names}};
    for (size_t i = 0; i < SP_COUNT_OF(choices); i++) {
        if (strcmp(choices[i].key, key) == 0) {
            *choices[i].member = sp_index_of(value, choices[i].names);
            return *choices[i].member >= 0;
        }
    }
    return false;
}

static void apply(struct request *request, const char *key, const char *value)
{
    const char **text = text_member(request, key);
    if (set_count_named(request, key, value) || set_choice(request, key, value)) {
        return;
    }
    if (text != NULL) {
        *text = value;
    } else if (strcmp(key, "zero") == 0) {
        request->zero = (int)strtol(value, NULL, 10);
    } else if (strcmp(key, "tp-sp") == 0) {
        request->tp_sp = strcmp(value, "on") == 0;
    } else if (strcmp(key, "flops") == 0) {
        request->flops = strcmp(value, "full") == 0;
    } else if (strcmp(key, "set") == 0) {
        sp_texts_add(&request->set, "%s", value);
    } else {
        fail_msg("test setting '%s=%s' is unknown", key, value);
    }
}

bool question_try(struct sp_arena *arena, const char *settings, struct question *question, struct sp_error *err)
{
    struct request request;
    request_init(&request, arena);
    char *text = sp_strdup(arena, settings);
    char *rest = text;
    for (char *word = strtok_r(text, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        char *equals = strchr(word, '=');
        assert_non_null(equals);
        *equals = '\0';
        apply(&request, word, equals + 1);
    }
    return question_resolve(&request, arena, question, err) && step_check(question, err);
}

void question_from(struct sp_arena *arena, const char *settings, struct question *question)
{
    struct sp_error err = {0};
    if (!question_try(arena, settings, question, &err)) {
        fail_msg("%s: %s", settings, err.text);
    }
}

void estimate_from(struct sp_arena *arena, const char *settings, struct estimate *estimate)
{
    struct question question;
    question_from(arena, settings, &question);
    step_estimate(&question, estimate);
}
