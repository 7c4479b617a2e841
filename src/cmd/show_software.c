#include "cmd/command.h"

#include "method/method.h"

#include <string.h>

/* The three kinds of software files, all listed and shown alike. */
enum software_kind { KIND_FRAMEWORK, KIND_KERNELS, KIND_LOSS, N_KINDS };

static const struct {
    const char *root; /* of its fields */
    const char *folder;
    const char *const *names;
} kinds[N_KINDS] = {
    [KIND_FRAMEWORK] = {"framework", "frameworks", framework_names},
    [KIND_KERNELS] = {"kernels", "frameworks/kernels", kernels_names},
    [KIND_LOSS] = {"loss", "frameworks/losses", loss_names},
};

/* Reads number `index` of a kind; *title and *source borrow from the arena. */
static bool read_software(struct sp_arena *arena, enum software_kind kind, int index, struct software_spec *software,
                          struct sp_error *err)
{
    *software = (struct software_spec){.framework = {.name = NULL}};
    switch (kind) {
    case KIND_FRAMEWORK:
        return framework_read(arena, (enum framework_id)index, &software->framework, err);
    case KIND_KERNELS:
        return kernels_read(arena, (enum kernels_id)index, &software->kernels, err);
    case KIND_LOSS:
        return loss_read(arena, kinds[kind].names[index], &software->loss, err);
    case N_KINDS:
        break;
    }
    return sp_fail(err, SP_ERROR_BUG, "no such kind of software");
}

static const char *title_of(const struct software_spec *software, enum software_kind kind)
{
    const char *const titles[N_KINDS] = {software->framework.title, software->kernels.title, software->loss.title};
    return titles[kind];
}

static const char *source_of(const struct software_spec *software, enum software_kind kind)
{
    const char *const sources[N_KINDS] = {software->framework.source, software->kernels.source, software->loss.source};
    return sources[kind];
}

static bool list_software(const struct show_request *request, enum software_kind kind, struct show_answer *answer,
                          struct sp_error *err)
{
    static const struct report_column columns[] = {{.heading = "name", .key = "name"},
                                                   {.heading = "title", .key = "title"},
                                                   {.heading = "source", .key = "source", .is_note = true}};
    report_grid_init(&answer->grid, request->arena, columns, (int)SP_COUNT_OF(columns));
    for (int i = 0; kinds[kind].names[i] != NULL; i++) {
        struct software_spec software;
        if (!read_software(request->arena, kind, i, &software, err)) {
            return false;
        }
        report_grid_add(&answer->grid);
        report_grid_text(&answer->grid, 0, "%s", kinds[kind].names[i]);
        report_grid_text(&answer->grid, 1, "%s", title_of(&software, kind));
        if (request->has_source) {
            report_grid_text(&answer->grid, 2, "%s", source_of(&software, kind));
        }
    }
    return true;
}

static bool show_one(const struct show_request *request, enum software_kind kind, struct show_answer *answer,
                     struct sp_error *err)
{
    int index = sp_index_of(request->name, kinds[kind].names);
    if (index < 0) {
        return data_find(request->arena, kinds[kind].folder, request->name, err) != NULL &&
               sp_fail(err, SP_ERROR_INPUT, "\"%s\" is no %s that this program knows", request->name, kinds[kind].root);
    }
    struct software_spec software;
    if (!read_software(request->arena, kind, index, &software, err)) {
        return false;
    }
    answer->title = sp_format(request->arena, "%s (%s)", title_of(&software, kind), source_of(&software, kind));
    show_values_init(request, &answer->grid);
    show_values_add(&answer->grid, software_fields, &software, kinds[kind].root);
    return true;
}

bool show_frameworks(const struct show_request *request, struct show_answer *answer, struct sp_error *err)
{
    return list_software(request, KIND_FRAMEWORK, answer, err);
}

bool show_framework(const struct show_request *request, struct show_answer *answer, struct sp_error *err)
{
    return show_one(request, KIND_FRAMEWORK, answer, err);
}

bool show_kernels_list(const struct show_request *request, struct show_answer *answer, struct sp_error *err)
{
    return list_software(request, KIND_KERNELS, answer, err);
}

bool show_kernels(const struct show_request *request, struct show_answer *answer, struct sp_error *err)
{
    return show_one(request, KIND_KERNELS, answer, err);
}

bool show_losses(const struct show_request *request, struct show_answer *answer, struct sp_error *err)
{
    return list_software(request, KIND_LOSS, answer, err);
}

bool show_loss(const struct show_request *request, struct show_answer *answer, struct sp_error *err)
{
    return show_one(request, KIND_LOSS, answer, err);
}

/* ---- method x framework ----------------------------------------------------------------------------------------- */

static const char *pair_text(enum method_id method, enum framework_id framework)
{
    if (!pair_is_legal(method, framework)) {
        return "";
    }
    bool is_home = method_home(method) == framework;
    if (!method_is_built(method, framework)) {
        return is_home ? "home, not built" : "not built";
    }
    return is_home ? "home" : "yes";
}

bool show_methods(const struct show_request *request, struct show_answer *answer, struct sp_error *err)
{
    (void)err;
    struct report_column *columns = sp_arena_array(request->arena, N_FRAMEWORKS + 1, sizeof(*columns));
    columns[0] = (struct report_column){.heading = "method", .key = "method"};
    for (int framework = 0; framework < (int)N_FRAMEWORKS; framework++) {
        columns[framework + 1] =
            (struct report_column){.heading = framework_names[framework], .key = framework_names[framework]};
    }
    answer->title = "--sp-method by --framework; \"home\" is the default, an empty cell an illegal pair";
    report_grid_init(&answer->grid, request->arena, columns, N_FRAMEWORKS + 1);
    for (int method = 0; method < (int)N_METHODS; method++) {
        report_grid_add(&answer->grid);
        report_grid_text(&answer->grid, 0, "%s", method_names[method]);
        for (int framework = 0; framework < (int)N_FRAMEWORKS; framework++) {
            const char *text = pair_text((enum method_id)method, (enum framework_id)framework);
            report_grid_text(&answer->grid, framework + 1, "%s", text);
        }
    }
    return true;
}
