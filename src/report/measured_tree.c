/* A run of measurements for programs: the object of "seqplan.measure/1", or a line of CSV for each. */
#include "report/report.h"

#include <string.h>

/* What a line says but for its kind, which its place tells. */
static void put_line(struct report_tree *tree, const char *key, const struct sp_json *line)
{
    report_tree_begin(tree, key, SP_JSON_OBJECT);
    for (const struct sp_json *member = line->first; member != NULL; member = member->next) {
        if (strcmp(member->key, "kind") != 0) {
            report_tree_value(tree, member->key, member);
        }
    }
    report_tree_end(tree);
}

static void put_lines(struct report_tree *tree, const struct report_measured *measured, enum measurement_kind kind)
{
    for (size_t i = 0; i < measured->n_rows; i++) {
        if (measured->rows[i].kind == kind) {
            put_line(tree, NULL, measured->rows[i].json);
        }
    }
}

static void put_run(struct report_tree *tree, const struct report_measured *measured)
{
    report_tree_begin(tree, "run", SP_JSON_OBJECT);
    report_tree_number(tree, "id", (double)measured->id);
    report_tree_string(tree, "key", measured->key);
    report_tree_string(tree, "profile", measured->profile[0] == '\0' ? NULL : measured->profile);
    report_tree_string(tree, "version", measured->version[0] == '\0' ? NULL : measured->version);
    report_tree_string(tree, "begun", measured->begun_at);
    report_tree_string(tree, "changed", measured->changed_at);
    if (measured->n_planned > 0) {
        report_tree_number(tree, "planned", (double)measured->n_planned);
    } else {
        report_tree_null(tree, "planned");
    }
    report_tree_number(tree, "stored", (double)measured->n_rows);
    report_tree_bool(tree, "finished", measured->is_finished);
    report_tree_end(tree);
}

static const struct sp_json *measured_tree(struct sp_arena *arena, const struct report_measured *measured)
{
    struct report_tree tree;
    report_tree_open(&tree, arena);
    report_tree_string(&tree, "schema", "seqplan.measure/1");
    put_run(&tree, measured);
    put_line(&tree, "machine", measured->machine);
    report_tree_begin(&tree, "measurements", SP_JSON_ARRAY);
    put_lines(&tree, measured, MEASUREMENT_TIMED);
    report_tree_end(&tree);
    report_tree_begin(&tree, "refused", SP_JSON_ARRAY);
    put_lines(&tree, measured, MEASUREMENT_REFUSED);
    report_tree_end(&tree);
    return report_tree_close(&tree);
}

static void write_csv(struct sp_arena *arena, const struct report_measured *measured, FILE *file)
{
    const struct sp_json **objects = sp_arena_array(arena, measured->n_rows + 1, sizeof(*objects));
    for (size_t i = 0; i < measured->n_rows; i++) {
        objects[i] = measured->rows[i].json;
    }
    report_csv_write(arena, objects, (int)measured->n_rows, file);
}

void report_measured(const struct report_style *style, struct sp_arena *arena, const struct report_measured *measured)
{
    switch (style->format) {
    case REPORT_JSON:
        report_tree_write(measured_tree(arena, measured), style->file);
        return;
    case REPORT_CSV:
        write_csv(arena, measured, style->file);
        return;
    case REPORT_TABLE:
    case REPORT_MARKDOWN:
        break;
    }
    report_measured_table(style, arena, measured);
}
