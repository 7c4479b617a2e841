/* A user's sheet of runs as the JSON of a validation table. */
#include "fit/validation_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_COLUMNS = 256 };

enum column_kind { COLUMN_TEXT, COLUMN_OPTION, COLUMN_SET, COLUMN_PATH, COLUMN_MEASURED };
struct column {
    enum column_kind kind;
    const char *title; /* as the sheet has it */
    const char *key;   /* of the table */
    double scale;      /* of what is measured, to its unit */
    bool is_yes_no, is_fraction;
};

struct sheet {
    struct sp_arena *arena;
    const struct sp_option *options;
    const char *name;
    const char *at; /* what is not read yet */
    int line;       /* of `at`, from 1 */
    int column;     /* of the cell at work, from 1 */
    bool is_line_over;
    char *cell; /* room for any cell */
    int n_columns;
    struct column columns[MOST_COLUMNS];
};

/* "runs.csv: line 4, column 7 (step_time_s)" */
static const char *place_of(const struct sheet *sheet, int line)
{
    const char *title = sheet->column <= sheet->n_columns ? sheet->columns[sheet->column - 1].title : "";
    return sp_format(sheet->arena, "%s: line %d, column %d%s%.60s%s", sheet->name, line, sheet->column,
                     title[0] == '\0' ? "" : " (", title, title[0] == '\0' ? "" : ")");
}

/* ---- cells -------------------------------------------------------------------------------------------------------- */

/* Between double quotes, a doubled one stands for one. */
static bool read_quoted(struct sheet *sheet, struct sp_error *err)
{
    char *cell = sheet->cell;
    int first_line = sheet->line;
    size_t length = 0;
    for (sheet->at++; *sheet->at != '"' || sheet->at[1] == '"'; sheet->at++) {
        if (*sheet->at == '\0') {
            return sp_fail(err, SP_ERROR_INPUT, "%s: a quote that does not end", place_of(sheet, first_line));
        }
        sheet->line += *sheet->at == '\n' || (*sheet->at == '\r' && sheet->at[1] != '\n') ? 1 : 0;
        sheet->at += *sheet->at == '"' ? 1 : 0;
        cell[length++] = *sheet->at;
    }
    sheet->at++;
    cell[length] = '\0';
    return strchr(",\r\n", *sheet->at) != NULL || /* the end of the text too */
           sp_fail(err, SP_ERROR_INPUT, "%s: text behind the closing quote", place_of(sheet, sheet->line));
}

/* Without the blanks around it. */
static void read_plain(struct sheet *sheet)
{
    size_t length = strcspn(sheet->at, ",\r\n");
    const char *first = sheet->at + strspn(sheet->at, " \t");
    const char *end = sheet->at + length;
    sheet->at = end;
    while (end > first && (end[-1] == ' ' || end[-1] == '\t')) {
        end--;
    }
    length = end > first ? (size_t)(end - first) : 0;
    memcpy(sheet->cell, first, length);
    sheet->cell[length] = '\0';
}

static bool next_cell(struct sheet *sheet, const char **text, struct sp_error *err)
{
    sheet->column++;
    if (*sheet->at == '"') {
        if (!read_quoted(sheet, err)) {
            return false;
        }
    } else {
        read_plain(sheet);
    }
    if (validation_has_control(sheet->cell)) {
        (void)sp_fail(err, SP_ERROR_INPUT, "%s: a control character, which no cell holds",
                      place_of(sheet, sheet->line));
        return false;
    }
    *text = sp_strdup(sheet->arena, sheet->cell);
    if (*sheet->at == ',') {
        sheet->at++;
        return true;
    }
    sheet->is_line_over = true;
    bool has_return = *sheet->at == '\r'; /* alone, it ends a line too */
    sheet->at += has_return ? 1 : 0;
    bool has_feed = *sheet->at == '\n';
    sheet->at += has_feed ? 1 : 0;
    sheet->line += has_return || has_feed ? 1 : 0;
    return true;
}

static void begin_line(struct sheet *sheet)
{
    sheet->column = 0;
    sheet->is_line_over = false;
}

/* ---- columns ------------------------------------------------------------------------------------------------------ */

/* Other units of a quantity, by the end of its name. */
static const struct {
    const char *end, *usual_end;
    double scale;
} units[] = {{"_ms", "_s", 1e-3},        {"_us", "_s", 1e-6},    {"_gib", "_bytes", 0x1p30},
             {"_mib", "_bytes", 0x1p20}, {"_gb", "_bytes", 1e9}, {"_percent", "_frac", 1e-2}};
static const char flop_name[] = "flop_per_s_per_gpu";
static const char tflop_name[] = "tflop_per_s_per_gpu";
static const double flop_per_tflop = 1e12;

static bool measured_column(struct sp_arena *arena, const char *title, struct column *column)
{
    *column = (struct column){.kind = COLUMN_MEASURED, .title = title, .key = title, .scale = 1.0};
    if (strcmp(title, tflop_name) == 0) {
        column->key = flop_name;
        column->scale = flop_per_tflop;
    }
    for (size_t i = 0; i < SP_COUNT_OF(units); i++) {
        size_t length = strlen(title);
        size_t end = strlen(units[i].end);
        if (length > end && strcmp(title + length - end, units[i].end) == 0 &&
            validation_quantity_find(title) == NULL) {
            column->key = sp_format(arena, "%.*s%s", (int)(length - end), title, units[i].usual_end);
            column->scale = units[i].scale;
        }
    }
    const struct validation_quantity *quantity = validation_quantity_find(column->key);
    column->is_yes_no = quantity != NULL && quantity->unit == VALIDATION_YES_NO;
    column->is_fraction = quantity != NULL && quantity->unit == VALIDATION_FRACTION;
    return quantity != NULL;
}

/* "sp_method" is the option "sp-method": keys of answers are written so. */
static bool option_column(const struct sheet *sheet, const char *title, struct column *column)
{
    char *name = sp_strdup(sheet->arena, title);
    *column =
        (struct column){.kind = strcmp(title, "set") == 0 ? COLUMN_SET : COLUMN_OPTION, .title = title, .key = name};
    if (validation_is_option(sheet->options, name)) {
        return true;
    }
    for (char *at = name; *at != '\0'; at++) {
        if (*at == '_') {
            *at = '-';
        }
    }
    return validation_is_option(sheet->options, name);
}

static bool fail_column(const struct sheet *sheet, const char *title, struct sp_error *err)
{
    struct sp_texts names = {.arena = sheet->arena};
    validation_quantity_names(&names);
    for (const struct sp_option *option = sheet->options; option->name != NULL; option++) {
        sp_texts_add(&names, "%s", option->name);
    }
    const char *nearest = sp_nearest(title, names.items, names.count);
    return sp_fail(err, SP_ERROR_INPUT,
                   "%s: line 1, column %d: expected an option of estimate, a measured quantity such as step_time_s, or "
                   "name, group, note or role, found \"%.60s\"%s%s",
                   sheet->name, sheet->column, title, nearest == NULL ? "" : ": did you mean ",
                   nearest == NULL ? "" : nearest);
}

static bool add_column(struct sheet *sheet, const char *title, struct sp_error *err)
{
    static const char *const texts[] = {"name", "group", "note", "role", NULL};
    struct column column = {.kind = COLUMN_TEXT, .title = title, .key = title};
    if (sheet->n_columns == MOST_COLUMNS) {
        return sp_fail(err, SP_ERROR_INPUT, "%s: line 1: more than %d columns", sheet->name, (int)MOST_COLUMNS);
    }
    if (sp_index_of(title, texts) < 0 && strchr(title, '.') != NULL) {
        column.kind = COLUMN_PATH;
    } else if (sp_index_of(title, texts) < 0 && !measured_column(sheet->arena, title, &column) &&
               !option_column(sheet, title, &column)) {
        return fail_column(sheet, title, err);
    }
    for (int i = 0; i < sheet->n_columns; i++) {
        if (strcmp(sheet->columns[i].key, column.key) == 0) {
            return sp_fail(err, SP_ERROR_INPUT, "%s: line 1, column %d: %s is there already, in column %d", sheet->name,
                           sheet->column, column.key, i + 1);
        }
    }
    sheet->columns[sheet->n_columns++] = column;
    return true;
}

static bool read_heading(struct sheet *sheet, struct sp_error *err)
{
    bool is_measured = false;
    begin_line(sheet);
    while (!sheet->is_line_over) {
        const char *title = NULL;
        if (!next_cell(sheet, &title, err) || !add_column(sheet, title, err)) {
            return false;
        }
        is_measured = is_measured || sheet->columns[sheet->n_columns - 1].kind == COLUMN_MEASURED;
    }
    return is_measured || sp_fail(err, SP_ERROR_INPUT,
                                  "%s: line 1: no column is a measured quantity: add one such as step_time_s, "
                                  "tokens_per_s_per_gpu or peak_allocated_bytes",
                                  sheet->name);
}

/* ---- rows --------------------------------------------------------------------------------------------------------- */

/* A row under construction. */
struct row_builder {
    struct validation_builder row, settings, sets, measured;
    int line;
    bool has_name, has_group;
};

static bool add_measured(struct sheet *sheet, const struct column *column, const char *cell, struct row_builder *row,
                         struct sp_error *err)
{
    static const char *const yes[] = {"yes", "true", "1", NULL};
    static const char *const no[] = {"no", "false", "0", NULL};
    if (column->is_yes_no) {
        if (sp_index_of(cell, yes) < 0 && sp_index_of(cell, no) < 0) {
            return sp_fail(err, SP_ERROR_INPUT, "%s: expected yes or no, found \"%.40s\"", place_of(sheet, row->line),
                           cell);
        }
        validation_append(sheet->arena, &row->measured, column->key, SP_JSON_BOOL)->boolean =
            sp_index_of(cell, yes) >= 0;
        return true;
    }
    char *end = NULL;
    double value = strtod(cell, &end);
    bool is_number = strspn(cell, "0123456789.eE+-") == strlen(cell) && *end == '\0';
    if (!is_number || !validation_is_measurable(value * column->scale)) {
        return sp_fail(err, SP_ERROR_INPUT,
                       "%s: expected a number above 0 (the unit stands in the name of the column), found \"%.40s\"",
                       place_of(sheet, row->line), cell);
    }
    if (column->is_fraction && value * column->scale > 1) {
        return sp_fail(err, SP_ERROR_INPUT, "%s: expected a share of at most %s, found \"%.40s\"%s",
                       place_of(sheet, row->line), column->scale < 1 ? "100 %" : "1", cell,
                       column->scale < 1 ? "" : ": if it is in %, call the column mfu_percent");
    }
    validation_append(sheet->arena, &row->measured, column->key, SP_JSON_NUMBER)->number = value * column->scale;
    return true;
}

/* "model.num_hidden_layers=8 run.loss=plain" */
static void add_sets(struct sheet *sheet, const char *cell, struct row_builder *row)
{
    static const char blanks[] = " \t\r\n;";
    for (cell += strspn(cell, blanks); *cell != '\0'; cell += strspn(cell, blanks)) {
        size_t length = strcspn(cell, blanks);
        validation_append_text(sheet->arena, &row->sets, NULL, sp_strndup(sheet->arena, cell, length));
        cell += length;
    }
}

static bool add_cell(struct sheet *sheet, const struct column *column, const char *cell, struct row_builder *row,
                     struct sp_error *err)
{
    if (cell[0] == '\0') {
        return true; /* not given */
    }
    switch (column->kind) {
    case COLUMN_MEASURED:
        return add_measured(sheet, column, cell, row, err);
    case COLUMN_SET:
        add_sets(sheet, cell, row);
        return true;
    case COLUMN_PATH:
        validation_append_text(sheet->arena, &row->sets, NULL, sp_format(sheet->arena, "%s=%s", column->key, cell));
        return true;
    case COLUMN_OPTION:
        validation_append_text(sheet->arena, &row->settings, column->key, cell);
        return true;
    case COLUMN_TEXT:
        break;
    }
    if (strcmp(column->key, "role") == 0 && sp_index_of(cell, validation_role_names) < 0) {
        return sp_fail(err, SP_ERROR_INPUT, "%s: expected judge or fit, found \"%.40s\"", place_of(sheet, row->line),
                       cell);
    }
    row->has_name = row->has_name || strcmp(column->key, "name") == 0;
    row->has_group = row->has_group || strcmp(column->key, "group") == 0;
    validation_append_text(sheet->arena, &row->row, column->key, cell);
    return true;
}

static void begin_row(struct sheet *sheet, struct validation_builder *rows, struct row_builder *row)
{
    *row = (struct row_builder){.line = sheet->line};
    row->row.group = validation_append(sheet->arena, rows, NULL, SP_JSON_OBJECT);
    row->settings.group = validation_append(sheet->arena, &row->row, "settings", SP_JSON_OBJECT);
    row->measured.group = validation_append(sheet->arena, &row->row, "measured", SP_JSON_OBJECT);
    row->sets.group = validation_append(sheet->arena, &row->settings, "set", SP_JSON_ARRAY);
}

static bool read_line(struct sheet *sheet, struct validation_builder *rows, struct sp_error *err)
{
    struct row_builder row;
    bool is_blank = true;
    struct validation_builder before = *rows;
    begin_row(sheet, rows, &row);
    begin_line(sheet);
    while (!sheet->is_line_over) {
        const char *cell = NULL;
        if (!next_cell(sheet, &cell, err)) {
            return false;
        }
        is_blank = is_blank && cell[0] == '\0';
        if (sheet->column > sheet->n_columns) {
            return sp_fail(err, SP_ERROR_INPUT, "%s: line %d: expected %d cells as in the first line, found more",
                           sheet->name, row.line, sheet->n_columns);
        }
        if (!add_cell(sheet, &sheet->columns[sheet->column - 1], cell, &row, err)) {
            return false;
        }
    }
    if (is_blank) { /* a blank line */
        *rows = before;
        rows->group->count--;
        if (rows->last == NULL) {
            rows->group->first = NULL;
        } else {
            rows->last->next = NULL;
        }
        return true;
    }
    if (sheet->column != sheet->n_columns) {
        return sp_fail(err, SP_ERROR_INPUT, "%s: line %d: expected %d cells as in the first line, found %d",
                       sheet->name, row.line, sheet->n_columns, sheet->column);
    }
    if (row.measured.last == NULL) {
        return sp_fail(err, SP_ERROR_INPUT,
                       "%s: line %d: no cell of a measured quantity is filled: fill one, or leave the line out",
                       sheet->name, row.line);
    }
    if (!row.has_name) {
        validation_append_text(sheet->arena, &row.row, "name", sp_format(sheet->arena, "line %d", row.line));
    }
    if (!row.has_group) {
        validation_append_text(sheet->arena, &row.row, "group", "all");
    }
    return true;
}

const struct sp_json *validation_csv_parse(struct sp_arena *arena, const struct sp_option *options, const char *name,
                                           const char *text, struct sp_error *err)
{
    static const char mark[] = "\xef\xbb\xbf"; /* byte order mark of UTF-8, which spreadsheets write */
    struct sheet *sheet = sp_arena_alloc(arena, sizeof(*sheet));
    bool has_mark = strncmp(text, mark, strlen(mark)) == 0;
    *sheet = (struct sheet){.arena = arena, .options = options, .name = name, .line = 1};
    sheet->at = has_mark ? text + strlen(mark) : text;
    sheet->cell = sp_arena_alloc(arena, strlen(text) + 1);
    if (*sheet->at == '\0') {
        (void)sp_fail(err, SP_ERROR_INPUT, "%s: empty: expected a first line of column names", name);
        return NULL;
    }
    struct validation_builder rows;
    struct sp_json *table = validation_begin_table(arena, name, &rows);
    if (!read_heading(sheet, err)) {
        return NULL;
    }
    while (*sheet->at != '\0') {
        if (!read_line(sheet, &rows, err)) {
            return NULL;
        }
    }
    return rows.group->count > 0 || sp_fail(err, SP_ERROR_INPUT, "%s: no line below the column names", name) ? table
                                                                                                             : NULL;
}

/* ---- files -------------------------------------------------------------------------------------------------------- */

static bool is_folder(FILE *file)
{
    struct stat found;
    return fstat(fileno(file), &found) == 0 && S_ISDIR(found.st_mode);
}

const char *validation_read_text(struct sp_arena *arena, const char *path, struct sp_error *err)
{
    static const long most_bytes = 64L << 20;
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        (void)sp_fail(err, SP_ERROR_INPUT, "%s: cannot open: %s", path, strerror(errno));
        return NULL;
    }
    if (is_folder(file)) {
        (void)sp_fail(err, SP_ERROR_INPUT, "%s: expected a file, found a folder", path);
        (void)fclose(file);
        return NULL;
    }
    long size = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    char *text = NULL;
    if (size < 0 || size > most_bytes || fseek(file, 0, SEEK_SET) != 0) {
        (void)sp_fail(err, SP_ERROR_INPUT, "%s: expected a file of at most 64 MiB", path);
    } else {
        text = sp_arena_alloc(arena, (size_t)size + 1);
        size_t n_read = fread(text, 1, (size_t)size, file);
        text[n_read] = '\0';
        if (ferror(file) != 0 || strlen(text) != n_read) {
            (void)sp_fail(err, SP_ERROR_INPUT, "%s: cannot be read as text", path);
            text = NULL;
        }
    }
    (void)fclose(file);
    return text;
}

bool validation_read(const struct validation_pricer *pricer, const char *path, struct validation_source *source,
                     struct sp_error *err)
{
    const char *dot = strrchr(path, '.');
    const struct sp_json *file = NULL;
    if (dot != NULL && strcmp(dot, ".csv") == 0) {
        const char *text = validation_read_text(pricer->arena, path, err);
        file = text == NULL ? NULL : validation_csv_parse(pricer->arena, pricer->options, path, text, err);
    } else {
        file = sp_json_read(pricer->arena, path, err);
        if (file == NULL && strstr(err->text, "not JSON") != NULL) {
            sp_error_prefix(err, "a table is JSON, a sheet is a file whose name ends in .csv");
        }
    }
    return file != NULL && validation_read_json(pricer, path, file, source, err);
}
