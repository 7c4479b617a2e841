/* The settings in which answers may differ: what is the same in all rows is said once in a heading. */
#include "report/report.h"

#include <assert.h>
#include <string.h>

const struct report_setting report_settings[REPORT_SETTINGS] = {
    {"model", "model", NULL},
    {"seq", "seq", NULL},
    {"gpus", "gpus", NULL},
    {"hardware", "hardware", NULL},
    {"network", "network", NULL},
    {"layout.tp", "tp", NULL},
    {"layout.sp", "sp", NULL},
    {"layout.sp_method", "sp-method", NULL},
    {"layout.sp_ulysses", "sp-ulysses", ""},
    {"layout.sp_inner", "sp-inner", ""},
    {"layout.pp", "pp", NULL},
    {"layout.dp", "dp", NULL},
    {"layout.ep", "ep", "1"},
    {"layout.etp", "etp", "1"},
    {"layout.vpp", "vpp", "1"},
    {"layout.schedule", "schedule", ""},
    {"global_batch", "global-batch", NULL},
    {"layout.micro_batch", "micro-batch", NULL},
    {"layout.recompute", "recompute", NULL},
    {"layout.zero", "zero", NULL},
    {"layout.offload", "offload", "none"},
    {"layout.precision", "precision", NULL},
    {"layout.framework", "framework", NULL},
    {"layout.attention", "attention", NULL},
    {"layout.kernels", "kernels", NULL},
    {"mask", "mask", "causal"},
    {"documents", "documents", NULL},
    {"train", "train", "full"},
    {"only", "only", NULL},
    {"set", "set", ""},
};

static bool is_varied_override(const struct report_rows *rows, const char *setting)
{
    for (int i = 0; i < rows->n_names; i++) {
        size_t length = strlen(rows->names[i]);
        if (strncmp(setting, rows->names[i], length) == 0 && setting[length] == '=') {
            return true;
        }
    }
    return false;
}

/* Texts of a list, but for overrides of what the rows vary (NULL: none). */
static const char *list_text(struct sp_arena *arena, const struct sp_json *list, const struct report_rows *rows)
{
    struct sp_texts texts = {.arena = arena};
    for (const struct sp_json *text = list->first; text != NULL; text = text->next) {
        if (rows == NULL || !is_varied_override(rows, text->string)) {
            sp_texts_add(&texts, "%s", text->string);
        }
    }
    return sp_join(arena, texts.items, texts.count, " ");
}

const char *report_setting_text(struct sp_arena *arena, int setting, const struct sp_json *answer)
{
    const char *path = report_settings[setting].path;
    const struct sp_json *value = report_tree_at(answer, path);
    if (value == NULL || value->type == SP_JSON_NULL) {
        return "";
    }
    if (value->type == SP_JSON_STRING) {
        return value->string;
    }
    if (value->type == SP_JSON_BOOL) {
        return value->boolean ? "on" : "off";
    }
    if (value->type == SP_JSON_ARRAY) {
        return list_text(arena, value, NULL);
    }
    bool is_length = strcmp(path, "seq") == 0 || strcmp(path, "documents") == 0;
    return is_length ? sp_tokens_print(arena, (int64_t)value->number) : sp_format(arena, "%.0f", value->number);
}

const char *report_row_setting_text(struct sp_arena *arena, const struct report_rows *rows, int row, int setting)
{
    const struct sp_json *answer = rows->rows[row].answer;
    const struct sp_json *value = report_tree_at(answer, report_settings[setting].path);
    bool is_list = value != NULL && value->type == SP_JSON_ARRAY;
    return is_list ? list_text(arena, value, rows) : report_setting_text(arena, setting, answer);
}

/* Options are typed with dashes, and --cp is --sp. */
bool report_setting_is_varied(const struct report_rows *rows, int setting)
{
    for (int i = 0; i < rows->n_names; i++) {
        const char *name = strcmp(rows->names[i], "cp") == 0 ? "sp" : rows->names[i];
        if (strcmp(name, report_settings[setting].label) == 0) {
            return true;
        }
    }
    return false;
}

bool report_setting_is_same(struct sp_arena *arena, const struct report_rows *rows, int setting)
{
    const char *first = NULL;
    for (int row = 0; row < rows->n_rows; row++) {
        if (report_row_error(rows, row) != NULL) {
            continue;
        }
        const char *text = report_row_setting_text(arena, rows, row, setting);
        if (first != NULL && strcmp(first, text) != 0) {
            return false;
        }
        first = text;
    }
    return true;
}

const struct sp_json *report_rows_first_priced(const struct report_rows *rows)
{
    for (int row = 0; row < rows->n_rows; row++) {
        if (report_row_error(rows, row) == NULL) {
            return rows->rows[row].answer;
        }
    }
    return NULL;
}

const char *report_rows_heading(struct sp_arena *arena, const struct report_rows *rows)
{
    const struct sp_json *answer = report_rows_first_priced(rows);
    struct sp_texts texts = {.arena = arena};
    for (int i = 0; i < REPORT_SETTINGS && answer != NULL; i++) {
        if (!report_setting_is_same(arena, rows, i) || report_setting_is_varied(rows, i)) {
            continue;
        }
        const char *text = report_setting_text(arena, i, answer);
        const char *usual = report_settings[i].usual;
        if (text[0] != '\0' && (usual == NULL || (usual[0] != '\0' && strcmp(text, usual) != 0))) {
            sp_texts_add(&texts, "%s %s", report_settings[i].label, text);
        }
    }
    return sp_join(arena, texts.items, texts.count, ", ");
}

static bool has_text(const struct sp_json *list, const char *text)
{
    for (const struct sp_json *own = list == NULL ? NULL : list->first; own != NULL; own = own->next) {
        if (strcmp(own->string, text) == 0) {
            return true;
        }
    }
    return false;
}

const char *report_rows_overrides(struct sp_arena *arena, const struct report_rows *rows)
{
    const struct sp_json *answer = report_rows_first_priced(rows);
    const struct sp_json *set = answer == NULL ? NULL : report_tree_at(answer, "set");
    struct sp_texts texts = {.arena = arena};
    for (const struct sp_json *text = set == NULL ? NULL : set->first; text != NULL; text = text->next) {
        bool is_shared = !is_varied_override(rows, text->string);
        for (int row = 0; row < rows->n_rows && is_shared; row++) {
            is_shared = report_row_error(rows, row) != NULL ||
                        has_text(report_tree_at(rows->rows[row].answer, "set"), text->string);
        }
        if (is_shared) {
            sp_texts_add(&texts, "%s", text->string);
        }
    }
    return sp_join(arena, texts.items, texts.count, " ");
}

void report_overrides(const struct report_style *style, const char *text)
{
    if (text[0] == '\0') {
        return;
    }
    if (style->format == REPORT_MARKDOWN) {
        (void)fprintf(style->file, "- set: `%s`\n", text);
    } else {
        report_wrap(style->file, 0, "set ", text);
    }
}

static double number_of(const struct report_rows *rows, int row, const char *path)
{
    const struct sp_json *value = report_tree_at(rows->rows[row].answer, path);
    assert(value != NULL);
    return value->number;
}

int report_rows_best(const struct report_rows *rows, bool *fits)
{
    int best = -1;
    *fits = false;
    for (int row = 0; row < rows->n_rows; row++) {
        if (report_row_error(rows, row) != NULL) {
            continue;
        }
        bool row_fits = report_tree_at(rows->rows[row].answer, "fits")->boolean;
        const char *path = row_fits ? "tokens_per_s_per_gpu" : "headroom_bytes";
        bool is_better = best < 0 || (row_fits && !*fits) ||
                         (row_fits == *fits && number_of(rows, row, path) > number_of(rows, best, path));
        if (is_better) {
            best = row;
            *fits = row_fits;
        }
    }
    return best;
}
