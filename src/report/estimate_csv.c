#include "report/report.h"

void report_estimate_csv(const struct report_style *style, struct sp_arena *arena, const struct answer *answer)
{
    const struct sp_json *tree = report_answer_tree(style, arena, answer);
    report_csv_write(arena, &tree, 1, style->file);
}

void report_rows_csv(const struct report_style *style, struct sp_arena *arena, const struct report_rows *rows)
{
    const struct sp_json **objects = sp_arena_array(arena, (size_t)rows->n_rows + 1, sizeof(*objects));
    for (int i = 0; i < rows->n_rows; i++) {
        objects[i] = report_row_tree(arena, rows, i);
    }
    report_csv_write(arena, objects, rows->n_rows, style->file);
}
