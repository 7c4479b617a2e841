#include "report/report.h"

const struct sp_json *report_error_tree(struct sp_arena *arena, const struct sp_json *layout,
                                        const struct sp_error *err)
{
    struct report_tree tree;
    report_tree_open(&tree, arena);
    report_tree_value(&tree, "layout", layout);
    report_tree_begin(&tree, "error", SP_JSON_OBJECT);
    report_tree_string(&tree, "rule", err->rule);
    report_tree_string(&tree, "text", err->text);
    report_tree_end(&tree);
    return report_tree_close(&tree);
}

const struct sp_json *report_row_error(const struct report_rows *rows, int row)
{
    return report_tree_at(rows->rows[row].answer, "error.text");
}

const char *report_row_name(struct sp_arena *arena, const struct report_rows *rows, int row)
{
    if (rows->is_comparison) {
        return rows->rows[row].values[0];
    }
    struct sp_texts texts = {.arena = arena};
    for (int i = 0; i < rows->n_names; i++) {
        sp_texts_add(&texts, "%s %s", rows->names[i], rows->rows[row].values[i]);
    }
    return sp_join(arena, texts.items, texts.count, ", ");
}

const struct sp_json *report_row_tree(struct sp_arena *arena, const struct report_rows *rows, int row)
{
    if (rows->is_comparison) {
        return rows->rows[row].answer;
    }
    struct report_tree tree;
    report_tree_open(&tree, arena);
    report_tree_begin(&tree, "vary", SP_JSON_OBJECT);
    for (int i = 0; i < rows->n_names; i++) {
        report_tree_string(&tree, rows->names[i], rows->rows[row].values[i]);
    }
    report_tree_end(&tree);
    for (const struct sp_json *member = rows->rows[row].answer->first; member != NULL; member = member->next) {
        report_tree_value(&tree, member->key, member);
    }
    return report_tree_close(&tree);
}
