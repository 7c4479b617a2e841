#include "report/report.h"

const struct sp_json *report_csv_answer(struct sp_arena *arena, const struct sp_json *answer)
{
    const struct sp_json *set = sp_json_member(answer, "set");
    if (set == NULL || set->first != NULL) {
        return answer;
    }
    struct report_tree tree;
    report_tree_open(&tree, arena);
    for (const struct sp_json *member = answer->first; member != NULL; member = member->next) {
        if (member != set) {
            report_tree_value(&tree, member->key, member);
        }
    }
    return report_tree_close(&tree);
}

void report_estimate_csv(const struct report_style *style, struct sp_arena *arena, const struct answer *answer)
{
    const struct sp_json *tree = report_csv_answer(arena, report_answer_tree(style, arena, answer));
    report_csv_write(arena, &tree, 1, style->file);
}
