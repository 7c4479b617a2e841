/* The fields of an input with their values, from the tables that also read the files and serve --set. */
#include "cmd/command.h"

#include <string.h>

enum {
    VALUE_PATH,
    VALUE_TEXT,
    VALUE_SI,
    VALUE_EXACT,
    VALUE_KIND,
    VALUE_RANGE,
    VALUE_LOW,
    VALUE_HIGH,
    VALUE_HELP,
    VALUE_SOURCE,
    VALUE_NOTE,
    N_VALUE_COLUMNS
};

/* In tables: what it is and its value, or where it comes from. JSON and CSV have all of it in either case. */
void show_values_init(const struct show_request *request, struct report_grid *grid)
{
    const struct report_column columns[N_VALUE_COLUMNS] = {
        [VALUE_PATH] = {.heading = "field", .key = "path"},
        [VALUE_TEXT] = {.heading = "value", .is_right = true},
        [VALUE_SI] = {.key = "value", .is_hidden = true},
        [VALUE_EXACT] = {.key = "text", .is_hidden = true},
        [VALUE_KIND] = {.heading = "kind", .key = "kind"},
        [VALUE_RANGE] = {.heading = "interval", .is_hidden = !request->has_source},
        [VALUE_LOW] = {.key = "low", .is_hidden = true},
        [VALUE_HIGH] = {.key = "high", .is_hidden = true},
        [VALUE_HELP] = {.heading = "what", .key = "what", .is_hidden = request->has_source},
        [VALUE_SOURCE] = {.heading = "source", .key = "source", .is_note = true, .is_hidden = !request->has_source},
        [VALUE_NOTE] = {.heading = "note", .key = "note", .is_note = true, .is_hidden = !request->has_source},
    };
    struct report_column *kept = sp_arena_array(request->arena, N_VALUE_COLUMNS, sizeof(*kept));
    memcpy(kept, columns, sizeof(columns));
    report_grid_init(grid, request->arena, kept, N_VALUE_COLUMNS);
}

/* Counts and plain numbers as they are, the rest with three digits and a unit. */
static const char *reading_text(struct sp_arena *arena, double value, enum sp_dimension dimension)
{
    bool is_plain = dimension == SP_COUNT || dimension == SP_PURE || dimension == SP_FRACTION;
    return is_plain ? sp_format(arena, "%.6g", value) : sp_quantity_print(arena, value, dimension);
}

static void put_figure(struct report_grid *grid, const struct sp_field *field, const struct sp_figure *figure)
{
    struct sp_arena *arena = grid->arena;
    if (figure->kind == SP_FIGURE_NONE) {
        report_grid_text(grid, VALUE_TEXT, "-");
        report_grid_text(grid, VALUE_KIND, "none");
        return;
    }
    report_grid_text(grid, VALUE_TEXT, "%s", reading_text(arena, figure->value, field->dimension));
    report_grid_number(grid, VALUE_SI, figure->value, "");
    report_grid_text(grid, VALUE_EXACT, "%s", sp_quantity_exact(arena, figure->value, field->dimension));
    report_grid_text(grid, VALUE_KIND, "%s", sp_figure_kind_names[figure->kind]);
    if (figure->low < figure->value || figure->high > figure->value) {
        report_grid_text(grid, VALUE_RANGE, "%s to %s", reading_text(arena, figure->low, field->dimension),
                         reading_text(arena, figure->high, field->dimension));
    }
    report_grid_number(grid, VALUE_LOW, figure->low, "");
    report_grid_number(grid, VALUE_HIGH, figure->high, "");
    report_grid_text(grid, VALUE_SOURCE, "%s", figure->source == NULL ? "" : figure->source);
    if (figure->note != NULL) {
        report_grid_text(grid, VALUE_NOTE, "%s", figure->note);
    }
}

struct visit {
    struct report_grid *grid;
    const char *root; /* or NULL */
};

static bool is_below(const char *path, const char *root)
{
    size_t length = root == NULL ? 0 : strlen(root);
    return root == NULL || (strncmp(path, root, length) == 0 && path[length] == '.');
}

static void visit_field(const char *path, const struct sp_field *field, const void *value, void *user)
{
    const struct visit *visit = user;
    struct report_grid *grid = visit->grid;
    bool has_value = field->type == SP_FIELD_FIGURE || field->type == SP_FIELD_BOOL || field->type == SP_FIELD_ENUM;
    if (!has_value || !is_below(path, visit->root)) {
        return;
    }
    report_grid_add(grid);
    report_grid_text(grid, VALUE_PATH, "%s", path);
    report_grid_text(grid, VALUE_HELP, "%s", field->help == NULL ? "" : field->help);
    if (field->type == SP_FIELD_FIGURE) {
        put_figure(grid, field, value);
    } else if (field->type == SP_FIELD_BOOL) {
        bool is_on = *(const bool *)value;
        report_grid_text(grid, VALUE_TEXT, "%s", is_on ? "true" : "false");
        report_grid_bool(grid, VALUE_SI, is_on, "");
    } else {
        int index = *(const int *)value;
        report_grid_text(grid, VALUE_TEXT, "%s", field->names[index]);
        report_grid_text(grid, VALUE_EXACT, "%s", field->names[index]);
    }
}

void show_values_add(struct report_grid *grid, const struct sp_field *fields, const void *object, const char *root)
{
    struct visit visit = {.grid = grid, .root = root};
    sp_fields_visit(fields, object, visit_field, &visit);
}

void show_values_curve(struct report_grid *grid, const struct show_curve *curve)
{
    report_grid_add(grid);
    report_grid_text(grid, VALUE_PATH, "%s", curve->path);
    report_grid_text(grid, VALUE_TEXT, "%d points", curve->n_points);
    report_grid_text(grid, VALUE_EXACT, "%d points", curve->n_points);
    report_grid_text(grid, VALUE_KIND, "%s", sp_figure_kind_names[curve->kind]);
    report_grid_text(grid, VALUE_HELP, "%s", curve->what);
    report_grid_text(grid, VALUE_SOURCE, "%s", curve->source == NULL ? "" : curve->source);
    if (curve->note != NULL) {
        report_grid_text(grid, VALUE_NOTE, "%s", curve->note);
    }
}
