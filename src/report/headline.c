/* The figures of an answer in lines of their own, and the lines of remarks below its tables: what an estimate and a plan
 * share. */
#include "report/report.h"

#include <string.h>

enum { INDENT = 2, BLOCK_GAP = 3, LABEL_WIDTH = 8, LEFT = INDENT + LABEL_WIDTH + 1 };

static void print_part(const struct report_style *style, const char *part, bool is_figure)
{
    bool is_refusal = strncmp(part, "does not fit", strlen("does not fit")) == 0;
    enum report_color color = is_refusal ? REPORT_RED : is_figure ? REPORT_BOLD : REPORT_PLAIN;
    (void)fprintf(style->file, "%s%s%s", color == REPORT_PLAIN ? "" : report_color(style, color), part,
                  color == REPORT_PLAIN ? "" : report_color(style, REPORT_PLAIN));
}

/* Label, the figure in bold, then the parts under those of the other line; widths are 0 where that takes too much room.
 * What still does not fit goes on below the figure. */
static void print_parts(const struct report_style *style, const struct report_figures *line, const int *widths)
{
    (void)fprintf(style->file, "%*s%-*s ", INDENT, "", LABEL_WIDTH, line->label);
    int column = LEFT;
    int owed = 0; /* spaces are printed only when something follows them */
    for (int i = 0; i < REPORT_HEADLINE_PARTS && line->parts[i][0] != '\0'; i++) {
        int width = report_text_width(line->parts[i]);
        if (i > 0 && column + owed + width > REPORT_COLUMNS) {
            (void)fputc('\n', style->file);
            column = 0;
            owed = LEFT;
        }
        (void)fprintf(style->file, "%*s", owed, "");
        print_part(style, line->parts[i], i == 0);
        column += owed + width;
        owed = BLOCK_GAP + (widths[i] > width ? widths[i] - width : 0);
    }
    (void)fputc('\n', style->file);
}

/* Where the parts of a line end when each has at least its width. */
static int end_of(const struct report_figures *line, const int *widths)
{
    int end = LEFT;
    for (int i = 0; i < REPORT_HEADLINE_PARTS && line->parts[i][0] != '\0'; i++) {
        bool is_last = i + 1 == REPORT_HEADLINE_PARTS || line->parts[i + 1][0] == '\0';
        int own = report_text_width(line->parts[i]);
        int padded = widths[i] > own ? widths[i] : own;
        end += is_last ? own : padded + BLOCK_GAP;
    }
    return end;
}

static void print_table_figures(const struct report_style *style, const struct report_figures *lines, int n_lines)
{
    int widths[REPORT_HEADLINE_PARTS] = {0};
    for (int i = 0; i < REPORT_HEADLINE_PARTS; i++) {
        for (int line = 0; line < n_lines; line++) {
            int width = report_text_width(lines[line].parts[i]);
            widths[i] = width > widths[i] ? width : widths[i];
        }
    }
    for (int i = REPORT_HEADLINE_PARTS - 1; i > 0; i--) { /* the columns on the left stay aligned the longest */
        bool is_too_wide = false;
        for (int line = 0; line < n_lines; line++) {
            is_too_wide = is_too_wide || end_of(&lines[line], widths) > REPORT_COLUMNS;
        }
        widths[i] = is_too_wide ? 0 : widths[i];
    }
    for (int line = 0; line < n_lines; line++) {
        print_parts(style, &lines[line], widths);
    }
}

static void print_markdown_parts(const struct report_style *style, const struct report_figures *line)
{
    (void)fprintf(style->file, "- **%s %s**", line->label, line->parts[0]);
    for (int i = 1; i < REPORT_HEADLINE_PARTS && line->parts[i][0] != '\0'; i++) {
        (void)fprintf(style->file, ", %s", line->parts[i]);
    }
    (void)fputc('\n', style->file);
}

void report_figures_print(const struct report_style *style, const struct report_figures *lines, int n_lines)
{
    if (style->format != REPORT_MARKDOWN) {
        print_table_figures(style, lines, n_lines);
        return;
    }
    for (int line = 0; line < n_lines; line++) {
        print_markdown_parts(style, &lines[line]);
    }
}

void report_headline_print(const struct report_style *style, struct sp_arena *arena, const struct answer *answer)
{
    struct report_headline headline;
    report_headline(arena, answer, &headline);
    bool is_attention_only = answer->question->run.is_attention_only;
    const struct report_figures lines[] = {{is_attention_only ? "layer" : "step", headline.step},
                                           {"memory", headline.memory}};
    report_figures_print(style, lines, (int)SP_COUNT_OF(lines));
    const char *run = is_attention_only ? NULL : report_run_text(arena, answer);
    if (run != NULL && style->format == REPORT_MARKDOWN) {
        (void)fprintf(style->file, "- run %s\n", run);
    } else if (run != NULL) {
        report_wrap(style->file, INDENT, "run     ", run);
    }
}

/* ---- remarks ---------------------------------------------------------------------------------------------------- */

static void print_table_remarks(const struct report_style *style, struct sp_arena *arena, const struct answer *answer)
{
    const struct question *question = answer->question;
    if (answer->suggestion != NULL || question->warnings.count > 0 || question->assumed.count > 0) {
        (void)fputc('\n', style->file);
    }
    if (answer->suggestion != NULL) {
        report_wrap(style->file, INDENT, "try     ", answer->suggestion);
    }
    (void)fputs(question->warnings.count > 0 ? report_color(style, REPORT_YELLOW) : "", style->file);
    for (size_t i = 0; i < question->warnings.count; i++) {
        report_wrap(style->file, INDENT, "warning ", question->warnings.items[i]);
    }
    (void)fputs(question->warnings.count > 0 ? report_color(style, REPORT_PLAIN) : "", style->file);
    if (question->assumed.count > 0) {
        (void)fputs(report_color(style, REPORT_DIM), style->file);
        report_wrap(style->file, INDENT, "assumed ", report_join_texts(arena, &question->assumed));
        (void)fputs(report_color(style, REPORT_PLAIN), style->file);
    }
}

static void print_markdown_remarks(const struct report_style *style, struct sp_arena *arena,
                                   const struct answer *answer)
{
    const struct question *question = answer->question;
    if (answer->suggestion != NULL || question->warnings.count > 0 || question->assumed.count > 0) {
        (void)fputc('\n', style->file);
    }
    if (answer->suggestion != NULL) {
        (void)fprintf(style->file, "- try: %s\n", answer->suggestion);
    }
    for (size_t i = 0; i < question->warnings.count; i++) {
        (void)fprintf(style->file, "- warning: %s\n", question->warnings.items[i]);
    }
    if (question->assumed.count > 0) {
        (void)fprintf(style->file, "- assumed: %s\n", report_join_texts(arena, &question->assumed));
    }
}

void report_remarks_print(const struct report_style *style, struct sp_arena *arena, const struct answer *answer)
{
    if (style->format == REPORT_MARKDOWN) {
        print_markdown_remarks(style, arena, answer);
    } else {
        print_table_remarks(style, arena, answer);
    }
}
