/* Two answers, item by item: the object of "seqplan.diff/1". */
#include "report/report.h"

#include <string.h>

/* Figures that stand at the top, beside the items. */
static const char *const top_figures[] = {"step_time_s",    "tokens_per_s_per_gpu", "mfu_frac",
                                          "headroom_bytes", "peak_bytes",           NULL};
/* Members of an answer that are its question; the layout has a list of its own. */
static const char *const question_keys[] = {"model",        "hardware",      "network", "gpus",      "seq",
                                            "global_batch", "micro_batches", "mask",    "documents", "train",
                                            "only",         "flops",         NULL};

static double number_of(const struct sp_json *object, const char *key)
{
    const struct sp_json *value = object == NULL ? NULL : sp_json_member(object, key);
    return value == NULL || value->type != SP_JSON_NUMBER ? 0.0 : value->number;
}

static void put_difference(struct report_tree *tree, const char *key, double a, double b)
{
    report_tree_begin(tree, key, SP_JSON_OBJECT);
    report_tree_number(tree, "a", a);
    report_tree_number(tree, "b", b);
    report_tree_number(tree, "difference", a - b);
    report_tree_end(tree);
}

static void put_items(struct report_tree *tree, const char *list, const struct report_diff *diff)
{
    const struct sp_json *a = sp_json_member(diff->a, list);
    const struct sp_json *b = sp_json_member(diff->b, list);
    report_tree_begin(tree, list, SP_JSON_OBJECT);
    for (const struct sp_json *item = a == NULL ? NULL : a->first; item != NULL; item = item->next) {
        put_difference(tree, item->key, item->number, number_of(b, item->key));
    }
    report_tree_end(tree);
}

/* ---- settings --------------------------------------------------------------------------------------------------- */

static bool is_equal(const struct sp_json *a, const struct sp_json *b)
{
    if (a == NULL || b == NULL || a->type != b->type || a->count != b->count) {
        return a == b;
    }
    switch (a->type) {
    case SP_JSON_NULL:
        return true;
    case SP_JSON_BOOL:
        return a->boolean == b->boolean;
    case SP_JSON_NUMBER:
        return !(a->number < b->number) && !(a->number > b->number);
    case SP_JSON_STRING:
        return strcmp(a->string, b->string) == 0;
    case SP_JSON_ARRAY:
    case SP_JSON_OBJECT:
        break;
    }
    const struct sp_json *other = b->first;
    for (const struct sp_json *own = a->first; own != NULL; own = own->next) {
        bool has_key = own->key == NULL || (other->key != NULL && strcmp(own->key, other->key) == 0);
        if (!has_key || !is_equal(own, other)) {
            return false;
        }
        other = other->next;
    }
    return true;
}

static void put_value(struct report_tree *tree, const struct sp_json *value)
{
    if (value == NULL) {
        report_tree_null(tree, NULL);
    } else {
        report_tree_value(tree, NULL, value);
    }
}

static void put_pair(struct report_tree *tree, const char *key, const struct sp_json *a, const struct sp_json *b)
{
    if (!is_equal(a, b)) {
        report_tree_begin(tree, key, SP_JSON_ARRAY);
        put_value(tree, a);
        put_value(tree, b);
        report_tree_end(tree);
    }
}

/* Objects inside a layout ("run", "placement") are compared by member: "run.loss". */
static void put_members(struct report_tree *tree, const char *prefix, const struct sp_json *a, const struct sp_json *b)
{
    for (const struct sp_json *own = a == NULL ? NULL : a->first; own != NULL; own = own->next) {
        const struct sp_json *other = b == NULL ? NULL : sp_json_member(b, own->key);
        const char *key = sp_format(tree->arena, "%s%s", prefix, own->key);
        if (own->type == SP_JSON_OBJECT) {
            put_members(tree, sp_format(tree->arena, "%s.", key), own, other);
        } else {
            put_pair(tree, key, own, other);
        }
    }
}

static const char *override_at(const struct sp_json *set, const char *setting)
{
    size_t length = strcspn(setting, "=") + 1;
    for (const struct sp_json *own = set == NULL ? NULL : set->first; own != NULL; own = own->next) {
        if (strncmp(own->string, setting, length) == 0) {
            return own->string + length;
        }
    }
    return NULL;
}

/* Overrides of what a layout says itself are compared there. */
static bool is_of_layout(const char *setting)
{
    static const char *const roots[] = {"run.", "layout."};
    for (size_t i = 0; i < SP_COUNT_OF(roots); i++) {
        if (strncmp(setting, roots[i], strlen(roots[i])) == 0) {
            return true;
        }
    }
    return false;
}

/* "set.network.bandwidth": what --set overrides on one side only, or with another value. */
static void put_overrides(struct report_tree *tree, const struct report_diff *diff)
{
    const struct sp_json *sets[] = {sp_json_member(diff->a, "set"), sp_json_member(diff->b, "set")};
    for (size_t side = 0; side < SP_COUNT_OF(sets); side++) {
        for (const struct sp_json *own = sets[side] == NULL ? NULL : sets[side]->first; own != NULL; own = own->next) {
            const char *a = override_at(sets[0], own->string);
            const char *b = override_at(sets[1], own->string);
            bool is_seen = side == 1 && a != NULL; /* by the turn of A */
            if (is_seen || is_of_layout(own->string) || (a != NULL && b != NULL && strcmp(a, b) == 0)) {
                continue;
            }
            size_t length = strcspn(own->string, "=");
            report_tree_begin(tree, sp_format(tree->arena, "set.%.*s", (int)length, own->string), SP_JSON_ARRAY);
            report_tree_string(tree, NULL, a);
            report_tree_string(tree, NULL, b);
            report_tree_end(tree);
        }
    }
}

static void put_question(struct report_tree *tree, const struct report_diff *diff)
{
    report_tree_begin(tree, "question", SP_JSON_OBJECT);
    for (size_t i = 0; question_keys[i] != NULL; i++) {
        put_pair(tree, question_keys[i], sp_json_member(diff->a, question_keys[i]),
                 sp_json_member(diff->b, question_keys[i]));
    }
    put_overrides(tree, diff);
    report_tree_end(tree);
}

/* ---- communication ---------------------------------------------------------------------------------------------- */

static const char *const row_names[] = {"axis", "operation", "pass", NULL};

static bool is_same_row(const struct sp_json *a, const struct sp_json *b)
{
    for (size_t i = 0; row_names[i] != NULL; i++) {
        if (!is_equal(sp_json_member(a, row_names[i]), sp_json_member(b, row_names[i]))) {
            return false;
        }
    }
    return true;
}

static const struct sp_json *find_row(const struct sp_json *answer, const struct sp_json *wanted)
{
    const struct sp_json *rows = sp_json_member(answer, "communication");
    for (const struct sp_json *row = rows == NULL ? NULL : rows->first; row != NULL; row = row->next) {
        if (is_same_row(row, wanted)) {
            return row;
        }
    }
    return NULL;
}

static void put_row(struct report_tree *tree, const struct sp_json *a, const struct sp_json *b)
{
    static const char *const figures[] = {"bytes_per_layer_per_gpu", "bytes_per_step_per_gpu", "time_s", "exposed_s"};
    report_tree_begin(tree, NULL, SP_JSON_OBJECT);
    for (size_t i = 0; row_names[i] != NULL; i++) {
        report_tree_value(tree, row_names[i], sp_json_member(a == NULL ? b : a, row_names[i]));
    }
    for (size_t i = 0; i < SP_COUNT_OF(figures); i++) {
        put_difference(tree, figures[i], number_of(a, figures[i]), number_of(b, figures[i]));
    }
    report_tree_end(tree);
}

static void put_communication(struct report_tree *tree, const struct report_diff *diff)
{
    const struct sp_json *a = sp_json_member(diff->a, "communication");
    const struct sp_json *b = sp_json_member(diff->b, "communication");
    report_tree_begin(tree, "communication", SP_JSON_ARRAY);
    for (const struct sp_json *row = a == NULL ? NULL : a->first; row != NULL; row = row->next) {
        put_row(tree, row, find_row(diff->b, row));
    }
    for (const struct sp_json *row = b == NULL ? NULL : b->first; row != NULL; row = row->next) {
        if (find_row(diff->a, row) == NULL) {
            put_row(tree, NULL, row);
        }
    }
    report_tree_end(tree);
}

const struct sp_json *report_diff_tree(struct sp_arena *arena, const struct report_diff *diff)
{
    struct report_tree tree;
    report_tree_open(&tree, arena);
    report_tree_string(&tree, "schema", "seqplan.diff/1");
    report_tree_string(&tree, "summary", report_diff_words(arena, diff));
    for (size_t i = 0; top_figures[i] != NULL; i++) {
        put_difference(&tree, top_figures[i], number_of(diff->a, top_figures[i]), number_of(diff->b, top_figures[i]));
    }
    put_items(&tree, "time_s", diff);
    put_items(&tree, "memory_bytes", diff);
    put_communication(&tree, diff);
    put_question(&tree, diff);
    report_tree_begin(&tree, "layout", SP_JSON_OBJECT);
    put_members(&tree, "", sp_json_member(diff->a, "layout"), sp_json_member(diff->b, "layout"));
    report_tree_end(&tree);
    report_tree_value(&tree, "a", diff->a);
    report_tree_value(&tree, "b", diff->b);
    return report_tree_close(&tree);
}
