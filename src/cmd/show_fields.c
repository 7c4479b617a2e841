#include "cmd/command.h"

#include <string.h>

enum { FIELD_PATH, FIELD_TAKES, FIELD_WHAT, N_FIELD_COLUMNS };

static void add_field(struct report_grid *grid, const char *path, const char *takes, const char *what)
{
    report_grid_add(grid);
    report_grid_text(grid, FIELD_PATH, "%s", path);
    report_grid_text(grid, FIELD_TAKES, "%s", takes);
    report_grid_text(grid, FIELD_WHAT, "%s", what == NULL ? "" : what);
}

static const char *takes_text(struct sp_arena *arena, const struct sp_field *field)
{
    switch (field->type) {
    case SP_FIELD_FIGURE:
    case SP_FIELD_QUANTITY:
        return sp_dimension_expects(field->dimension);
    case SP_FIELD_BOOL:
        return "true or false";
    case SP_FIELD_INTEGER:
        return "a whole number";
    case SP_FIELD_PURE:
        return "a number";
    case SP_FIELD_STRING:
        return "a text";
    case SP_FIELD_ENUM: {
        size_t n_names = 0;
        while (field->names[n_names] != NULL) {
            n_names++;
        }
        return sp_join(arena, field->names, n_names, ", ");
    }
    case SP_FIELD_OBJECT:
    case SP_FIELD_CUSTOM:
        break;
    }
    return NULL;
}

static void visit_field(const char *path, const struct sp_field *field, const void *value, void *user)
{
    (void)value;
    struct report_grid *grid = user;
    const char *takes = takes_text(grid->arena, field);
    if (takes != NULL) {
        add_field(grid, path, takes, field->help);
    }
}

static void add_model_fields(struct report_grid *grid)
{
    for (int i = 0; model_config_names[i] != NULL; i++) {
        add_field(grid, sp_format(grid->arena, "model.%s", model_config_names[i]), "JSON, or a text",
                  i == 0 ? "fields of the model's config.json by their own names, as model.num_hidden_layers=4" : NULL);
    }
}

static void add_layout_fields(struct report_grid *grid)
{
    add_field(grid, "layout.order", "axes, the fastest first: tp-cp-ep-dp-pp",
              "how ranks map to GPUs; the rest of a layout has options (--tp, --sp, ...)");
}

bool show_fields(const struct show_request *request, struct show_answer *answer, struct sp_error *err)
{
    static const struct report_column columns[N_FIELD_COLUMNS] = {
        [FIELD_PATH] = {.heading = "path", .key = "path"},
        [FIELD_TAKES] = {.heading = "takes", .key = "takes"},
        [FIELD_WHAT] = {.heading = "what", .key = "what", .is_note = true, .has_no_label = true},
    };
    static const char *const kinds[] = {"hardware", "software", "run", "model", "layout", NULL};
    const char *kind = request->name;
    if (kind != NULL && sp_index_of(kind, kinds) < 0) {
        return sp_fail(err, SP_ERROR_USAGE, "show fields: unknown kind '%s': expected one of %s", kind,
                       sp_join(request->arena, kinds, SP_COUNT_OF(kinds) - 1, ", "));
    }
    answer->title = "Paths of --set PATH=VALUE and --vary PATH=V1,V2,...";
    report_grid_init(&answer->grid, request->arena, columns, N_FIELD_COLUMNS);
    if (kind == NULL || strcmp(kind, "hardware") == 0) {
        sp_fields_visit(hardware_fields, NULL, visit_field, &answer->grid);
    }
    if (kind == NULL || strcmp(kind, "software") == 0) {
        sp_fields_visit(software_fields, NULL, visit_field, &answer->grid);
    }
    if (kind == NULL || strcmp(kind, "run") == 0) {
        sp_fields_visit(run_fields, NULL, visit_field, &answer->grid);
    }
    if (kind == NULL || strcmp(kind, "model") == 0) {
        add_model_fields(&answer->grid);
    }
    if (kind == NULL || strcmp(kind, "layout") == 0) {
        add_layout_fields(&answer->grid);
    }
    return true;
}
