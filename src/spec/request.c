#include "spec/spec_internal.h"

#include <assert.h>
#include <string.h>

const char *const flops_names[] = {"causal", "full", NULL};

void request_init(struct request *request, struct sp_arena *arena)
{
    *request = (struct request){
        .method = -1,
        .framework = -1,
        .schedule = -1,
        .precision = -1,
        .kernels = -1,
        .flops = -1,
        .mode = -1,
        .tp_sp = -1,
        .zero = -1,
        .set = {.arena = arena},
        .assumed = {.arena = arena},
    };
}

/* ---- settings --------------------------------------------------------------------------------------------------- */

bool setting_split(struct sp_arena *arena, const char *text, struct setting *setting, struct sp_error *err)
{
    const char *equals = strchr(text, '=');
    if (equals == NULL || equals == text) {
        return sp_fail(err, SP_ERROR_USAGE,
                       "--set: expected PATH=VALUE such as \"gpu.hbm_bandwidth=8TB/s\", found \"%.80s\"", text);
    }
    setting->path = sp_strndup(arena, text, (size_t)(equals - text));
    setting->value = sp_strdup(arena, equals + 1);
    return true;
}

bool setting_has_root(const struct setting *setting, const char *root)
{
    assert(setting->path != NULL); /* setting_split() filled it */
    size_t length = strlen(root);
    return strncmp(setting->path, root, length) == 0 && setting->path[length] == '.';
}

bool request_sets(const struct request *request, const char *path)
{
    size_t length = strlen(path);
    for (size_t i = 0; i < request->set.count; i++) {
        if (strncmp(request->set.items[i], path, length) == 0 && request->set.items[i][length] == '=') {
            return true;
        }
    }
    return false;
}

static void collect_path(const char *path, const struct sp_field *field, const void *value, void *user)
{
    (void)value;
    if (field->type != SP_FIELD_OBJECT && field->type != SP_FIELD_CUSTOM) {
        sp_texts_add(user, "%s", path);
    }
}

static bool fail_root(struct sp_arena *arena, const char *path, struct sp_error *err)
{
    struct sp_texts paths = {.arena = arena};
    sp_fields_visit(hardware_fields, NULL, collect_path, &paths);
    sp_fields_visit(software_fields, NULL, collect_path, &paths);
    sp_fields_visit(run_fields, NULL, collect_path, &paths);
    sp_texts_add(&paths, "layout.order");
    for (int i = 0; model_config_names[i] != NULL; i++) {
        sp_texts_add(&paths, "model.%s", model_config_names[i]);
    }
    const char *nearest = sp_nearest(path, paths.items, paths.count);
    if (nearest != NULL) {
        return sp_fail(err, SP_ERROR_USAGE, "--set: unknown path \"%.80s\" (did you mean \"%s\"?)", path, nearest);
    }
    return sp_fail(err, SP_ERROR_USAGE,
                   "--set: unknown path \"%.80s\"; paths begin with model., gpu., node., intra., network., framework., "
                   "kernels., loss., run. or layout.order",
                   path);
}

static bool check_path(struct sp_arena *arena, const struct setting *setting, struct sp_error *err)
{
    static const char *const roots[] = {"model",     "gpu",     "node", "intra", "network",
                                        "framework", "kernels", "loss", "run",   NULL};
    for (int i = 0; roots[i] != NULL; i++) {
        if (setting_has_root(setting, roots[i])) {
            return true;
        }
    }
    if (strcmp(setting->path, "layout.order") == 0) {
        return true;
    }
    if (setting_has_root(setting, "layout")) {
        return sp_fail(
            err, SP_ERROR_USAGE,
            "--set: unknown path \"%.80s\": only layout.order is set this way, the rest of a layout has options "
            "(--tp, --sp, ...)",
            setting->path);
    }
    return fail_root(arena, setting->path, err);
}

bool settings_check_paths(const struct request *request, struct sp_arena *arena, struct sp_error *err)
{
    for (size_t i = 0; i < request->set.count; i++) {
        struct setting setting = {0};
        if (!setting_split(arena, request->set.items[i], &setting, err) || !check_path(arena, &setting, err)) {
            return false;
        }
    }
    return true;
}

bool settings_apply(const struct request *request, const struct settable *settable, struct sp_arena *arena,
                    struct sp_error *err)
{
    for (size_t i = 0; i < request->set.count; i++) {
        struct setting setting = {0};
        if (!setting_split(arena, request->set.items[i], &setting, err)) {
            return false;
        }
        if (setting_has_root(&setting, settable->root) &&
            !sp_fields_set(settable->fields, arena, setting.path, setting.value, settable->object, err)) {
            sp_error_prefix(err, "--set");
            return false;
        }
    }
    return true;
}

/* A later setting of the same path takes the place of an earlier one. */
static bool is_overridden(const struct request *request, size_t index)
{
    const char *setting = request->set.items[index];
    size_t length = strcspn(setting, "=") + 1;
    for (size_t i = index + 1; i < request->set.count; i++) {
        if (strncmp(request->set.items[i], setting, length) == 0) {
            return true;
        }
    }
    return false;
}

/* What the answer must say to be read back. */
static void keep_settings(const struct request *request, struct sp_texts *kept)
{
    for (size_t i = request->n_layout_set; i < request->set.count; i++) {
        if (!is_overridden(request, i)) {
            sp_texts_add(kept, "%s", request->set.items[i]);
        }
    }
}

/* ---- question --------------------------------------------------------------------------------------------------- */

static bool check_required(const struct request *request, struct sp_arena *arena, struct sp_error *err)
{
    struct sp_texts missing = {.arena = arena};
    if (request->model == NULL) {
        sp_texts_add(&missing, "--model NAME|PATH");
    }
    if (request->hardware == NULL) {
        sp_texts_add(&missing, "--hardware NAME|PATH");
    }
    if (!request->gpus.is_given && !request->nodes.is_given) {
        sp_texts_add(&missing, "--gpus N or --nodes N");
    }
    if (!request->seq.is_given) {
        sp_texts_add(&missing, "--seq LEN");
    }
    if (missing.count == 0) {
        return true;
    }
    return sp_fail(err, SP_ERROR_USAGE, "missing %s", sp_join(arena, missing.items, missing.count, ", "));
}

/* The settings of model., without that root. */
static struct sp_texts model_settings(const struct request *request, struct sp_arena *arena)
{
    static const char root[] = "model.";
    struct sp_texts settings = {.arena = arena, .capacity = request->set.count};
    settings.items = sp_arena_array(arena, request->set.count + 1, sizeof(*settings.items));
    for (size_t i = 0; i < request->set.count; i++) {
        if (strncmp(request->set.items[i], root, strlen(root)) == 0) {
            settings.items[settings.count] = request->set.items[i] + strlen(root);
            settings.count++;
        }
    }
    return settings;
}

static bool read_hardware(const struct request *request, struct question *question, struct sp_error *err)
{
    struct hardware_spec *hardware = &question->hardware;
    if (!hardware_read(question->arena, request->hardware, request->network, hardware, err)) {
        return false;
    }
    static const char *const roots[] = {"gpu", "node", "intra", "network", NULL};
    for (int i = 0; roots[i] != NULL; i++) {
        const struct settable settable = {roots[i], hardware_fields, hardware};
        if (!settings_apply(request, &settable, question->arena, err)) {
            return false;
        }
    }
    return hardware_check(hardware, "--set", SP_ERROR_USAGE, err);
}

bool question_resolve(const struct request *request, struct sp_arena *arena, struct question *question,
                      struct sp_error *err)
{
    *question = (struct question){
        .arena = arena, .set = {.arena = arena}, .warnings = {.arena = arena}, .assumed = {.arena = arena}};
    struct request full = {0};
    if (!request_merge_layout(request, arena, &full, err) || !check_required(&full, arena, err) ||
        !settings_check_paths(&full, arena, err) || !request_is_built(&full, err)) {
        return false;
    }
    keep_settings(&full, &question->set);
    struct sp_texts settings = model_settings(&full, arena);
    if (!model_read_with(arena, full.model, &settings, &question->model, &question->warnings, err) ||
        !read_hardware(&full, question, err)) {
        return false;
    }
    if (!defaults_cluster(&full, question, err) || !defaults_layout(&full, question, err) ||
        !defaults_software(&full, question, err) || !defaults_batch(&full, question, err)) {
        return false;
    }
    assumed_inputs(&full, question);
    assumed_figures(question);
    return true;
}

void question_with_layout(const struct question *base, const struct request *request, const struct layout_spec *layout,
                          struct sp_arena *arena, struct question *question)
{
    *question = *base;
    question->arena = arena;
    question->layout = *layout;
    question->warnings = (struct sp_texts){.arena = arena};
    for (size_t i = 0; i < base->warnings.count; i++) {
        sp_texts_add(&question->warnings, "%s", base->warnings.items[i]);
    }
    question->assumed = (struct sp_texts){.arena = arena};
    assumed_inputs(request, question);
    assumed_figures(question);
}
