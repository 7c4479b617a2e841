/* Warnings and assumed inputs of several layouts, each text once. */
#include "report/report.h"

#include <string.h>

/* Remarks of some rows only that are printed; the others are counted. */
enum { MAX_PARTIAL = 5 };

struct view {
    const struct report_style *style;
    struct sp_arena *arena;
    const struct report_rows *rows;
};

static bool has_text(const struct sp_json *list, const char *text)
{
    for (const struct sp_json *own = list == NULL ? NULL : list->first; own != NULL; own = own->next) {
        if (strcmp(own->string, text) == 0) {
            return true;
        }
    }
    return false;
}

/* A text of the rows, and how many of them have it. */
struct remark {
    const char *text;
    int n_rows;
    int row; /* the last one that has it */
};

static struct remark look_for(const struct view *view, const char *path, const char *text)
{
    struct remark remark = {.text = text};
    for (int row = 0; row < view->rows->n_rows; row++) {
        if (has_text(report_tree_at(view->rows->rows[row].answer, path), text)) {
            remark.n_rows++;
            remark.row = row;
        }
    }
    return remark;
}

static int count_priced(const struct report_rows *rows)
{
    int n_priced = 0;
    for (int row = 0; row < rows->n_rows; row++) {
        n_priced += report_row_error(rows, row) == NULL ? 1 : 0;
    }
    return n_priced;
}

/* Every text once. What does not fit has its column already. */
static void collect_texts(const struct view *view, const char *path, struct sp_texts *texts)
{
    static const char in_column[] = "does not fit";
    for (int row = 0; row < view->rows->n_rows; row++) {
        const struct sp_json *list = report_tree_at(view->rows->rows[row].answer, path);
        for (const struct sp_json *text = list == NULL ? NULL : list->first; text != NULL; text = text->next) {
            if (strncmp(text->string, in_column, strlen(in_column)) != 0) {
                sp_texts_add(texts, "%s", text->string);
            }
        }
    }
}

static void print_remark(const struct view *view, const char *label, const char *text)
{
    if (view->style->format == REPORT_MARKDOWN) {
        (void)fprintf(view->style->file, "- %s: %s\n", label, text);
    } else {
        char padded[16];
        (void)snprintf(padded, sizeof(padded), "%-8s", label);
        report_wrap(view->style->file, 2, padded, text);
    }
}

/* The list of the first priced row: what all rows have is in it. */
static const struct sp_json *first_list(const struct view *view, const char *path)
{
    for (int row = 0; row < view->rows->n_rows; row++) {
        if (report_row_error(view->rows, row) == NULL) {
            return report_tree_at(view->rows->rows[row].answer, path);
        }
    }
    return NULL;
}

static void add_partial(const struct view *view, const struct remark *remark, int n_priced, struct sp_texts *partial)
{
    if (remark->n_rows == 1) {
        sp_texts_add(partial, "%s: %s", report_row_name(view->arena, view->rows, remark->row), remark->text);
    } else {
        sp_texts_add(partial, "%d of %d rows: %s", remark->n_rows, n_priced, remark->text);
    }
}

/* The remarks of a path as texts: those of all rows, then some of the others, saying whose they are. Rows are searched
 * only for what is printed: a sweep can have thousands of texts. */
static struct sp_texts remark_texts(const struct view *view, const char *path)
{
    struct sp_texts all = {.arena = view->arena};
    struct sp_texts shown = {.arena = view->arena};
    struct sp_texts partial = {.arena = view->arena};
    size_t n_partial = 0;
    int n_priced = count_priced(view->rows);
    const struct sp_json *first = first_list(view, path);
    collect_texts(view, path, &all);
    for (size_t i = 0; i < all.count; i++) {
        bool is_candidate = has_text(first, all.items[i]);
        if (!is_candidate && n_partial >= MAX_PARTIAL) {
            n_partial++;
            continue;
        }
        struct remark remark = look_for(view, path, all.items[i]);
        if (remark.n_rows == n_priced) {
            sp_texts_add(&shown, "%s", remark.text);
        } else if (++n_partial <= MAX_PARTIAL) {
            add_partial(view, &remark, n_priced, &partial);
        }
    }
    for (size_t i = 0; i < partial.count; i++) {
        sp_texts_add(&shown, "%s", partial.items[i]);
    }
    if (n_partial > MAX_PARTIAL) {
        sp_texts_add(&shown, "%zu more in some rows (--format json has them)", n_partial - MAX_PARTIAL);
    }
    return shown;
}

void report_rows_remarks(const struct report_style *style, struct sp_arena *arena, const struct report_rows *rows)
{
    const struct view view = {.style = style, .arena = arena, .rows = rows};
    struct sp_texts warnings = remark_texts(&view, "warnings");
    struct sp_texts assumed = remark_texts(&view, "assumed");
    if (warnings.count + assumed.count > 0) {
        (void)fputc('\n', style->file);
    }
    for (size_t i = 0; i < warnings.count; i++) {
        print_remark(&view, "warning", warnings.items[i]);
    }
    if (assumed.count > 0) {
        print_remark(&view, "assumed", report_join_texts(arena, &assumed));
    }
}
