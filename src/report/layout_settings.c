/* Settings of a layout as words: of an answer's "layout", where they say something. */
#include "report/report.h"

#include <string.h>

/* A schedule without stages and the parts of sp in methods that have none decide nothing. */
static bool says_something(const struct sp_json *answer, const char *path)
{
    const struct sp_json *method = report_tree_at(answer, "layout.sp_method");
    if (strcmp(path, "layout.schedule") == 0) {
        return report_tree_at(answer, "layout.pp")->number > 1.0;
    }
    if (strcmp(path, "layout.sp_ulysses") == 0) {
        return strcmp(method->string, method_names[METHOD_USP]) == 0;
    }
    if (strcmp(path, "layout.sp_inner") == 0) {
        return strcmp(method->string, method_names[METHOD_DOUBLE_RING]) == 0;
    }
    return true;
}

const char *report_layout_setting(struct sp_arena *arena, const struct sp_json *answer, const char *path)
{
    const struct sp_json *value = report_tree_at(answer, path);
    if (value == NULL || !says_something(answer, path)) {
        return "";
    }
    return value->type == SP_JSON_NUMBER ? sp_format(arena, "%.0f", value->number) : value->string;
}

/* "sp_method" as options have it: "sp-method". */
static const char *option_name(struct sp_arena *arena, const char *key)
{
    char *name = sp_strdup(arena, key);
    for (char *at = name; *at != '\0'; at++) {
        if (*at == '_') {
            *at = '-';
        }
    }
    return name;
}

/* In both, and not the same. */
static bool is_different(const char *a, const char *b)
{
    return a[0] != '\0' && b[0] != '\0' && strcmp(a, b) != 0;
}

const char *report_setting_instead(struct sp_arena *arena, const struct report_diff *diff, const char *key)
{
    const char *path = sp_format(arena, "layout.%s", key);
    const char *a = report_layout_setting(arena, diff->a, path);
    const char *b = report_layout_setting(arena, diff->b, path);
    return is_different(a, b) ? sp_format(arena, "%s %s instead of %s", option_name(arena, key), a, b) : "";
}

const char *report_layout_difference(struct sp_arena *arena, const struct report_diff *diff)
{
    static const char *const keys[] = {"framework",   "sp_method", "sp_ulysses", "sp_inner", "tp",   "sp",
                                       "pp",          "vpp",       "schedule",   "dp",       "ep",   "etp",
                                       "micro_batch", "recompute", "zero",       "offload",  "order"};
    enum { MOST = 4 };
    struct sp_texts texts = {.arena = arena};
    const char *gpus = report_layout_setting(arena, diff->a, "gpus");
    if (strcmp(gpus, report_layout_setting(arena, diff->b, "gpus")) != 0) {
        sp_texts_add(&texts, "%s GPUs", gpus);
    }
    for (size_t i = 0; i < SP_COUNT_OF(keys) && texts.count < MOST; i++) {
        const char *path = sp_format(arena, "layout.%s", keys[i]);
        const char *a = report_layout_setting(arena, diff->a, path);
        const char *b = report_layout_setting(arena, diff->b, path);
        if (a[0] != '\0' && strcmp(a, b) != 0) {
            sp_texts_add(&texts, "%s %s", option_name(arena, keys[i]), a);
        }
    }
    return texts.count == 0 ? "the same degrees" : sp_join(arena, texts.items, texts.count, ", ");
}
