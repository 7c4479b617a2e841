/* The one-screen answer: the figures, what bounds them, then where time, memory and traffic go, side by side. */
#include "report/report.h"

#include <string.h>

enum { INDENT = 2, BLOCK_GAP = 3, N_BLOCKS = 3 };

static void print_bold(const struct report_style *style, const char *text)
{
    (void)fprintf(style->file, "%s%s%s", report_color(style, REPORT_BOLD), text, report_color(style, REPORT_PLAIN));
}

/* One line of the headline: label, the figure in bold, then the parts under those of the other line. */
static void print_parts(const struct report_style *style, const char *label, const char *const *parts,
                        const int *widths)
{
    (void)fprintf(style->file, "%*s%-8s ", INDENT, "", label);
    int owed = 0; /* spaces are printed only when something follows them */
    for (int i = 0; i < REPORT_HEADLINE_PARTS && parts[i][0] != '\0'; i++) {
        bool is_refusal = strncmp(parts[i], "does not fit", strlen("does not fit")) == 0;
        enum report_color color = is_refusal ? REPORT_RED : i == 0 ? REPORT_BOLD : REPORT_PLAIN;
        (void)fprintf(style->file, "%*s%s%s%s", owed, "", color == REPORT_PLAIN ? "" : report_color(style, color),
                      parts[i], color == REPORT_PLAIN ? "" : report_color(style, REPORT_PLAIN));
        owed = widths[i] - report_text_width(parts[i]) + BLOCK_GAP;
    }
    (void)fputc('\n', style->file);
}

static void print_headline(const struct report_style *style, struct sp_arena *arena, const struct answer *answer)
{
    struct report_headline headline;
    report_headline(arena, answer, &headline);
    int widths[REPORT_HEADLINE_PARTS];
    for (int i = 0; i < REPORT_HEADLINE_PARTS; i++) {
        int step = report_text_width(headline.step[i]);
        int memory = report_text_width(headline.memory[i]);
        widths[i] = step > memory ? step : memory;
    }
    print_parts(style, "step", headline.step, widths);
    print_parts(style, "memory", headline.memory, widths);
}

/* Tables side by side. */
struct blocks {
    const struct report_grid *grids;
    int n_grids;
    int gap;
};

static void print_block_line(const struct report_style *style, const struct blocks *blocks, const char **const *lines,
                             int row)
{
    int owed = INDENT;
    for (int i = 0; i < blocks->n_grids; i++) {
        const char *line = row <= blocks->grids[i].n_rows ? lines[i][row] : "";
        int length = (int)strlen(line);
        while (length > 0 && line[length - 1] == ' ') {
            length--;
        }
        if (length > 0) {
            (void)fprintf(style->file, "%*s%.*s", owed, "", length, line);
            owed = 0;
        }
        int printed = report_text_width(line) - ((int)strlen(line) - length);
        owed += report_grid_width(&blocks->grids[i]) - printed + blocks->gap;
    }
    (void)fputc('\n', style->file);
}

static void print_blocks(const struct report_style *style, const struct blocks *blocks)
{
    const char **lines[N_BLOCKS] = {NULL};
    int n_rows = 0;
    for (int i = 0; i < blocks->n_grids; i++) {
        lines[i] = report_grid_lines(&blocks->grids[i]);
        n_rows = blocks->grids[i].n_rows > n_rows ? blocks->grids[i].n_rows : n_rows;
    }
    (void)fputs(report_color(style, REPORT_BOLD), style->file);
    print_block_line(style, blocks, lines, 0);
    (void)fputs(report_color(style, REPORT_PLAIN), style->file);
    for (int row = 1; row <= n_rows; row++) {
        print_block_line(style, blocks, lines, row);
    }
}

static int width_of_blocks(const struct blocks *blocks)
{
    int width = INDENT - blocks->gap;
    for (int i = 0; i < blocks->n_grids; i++) {
        width += report_grid_width(&blocks->grids[i]) + blocks->gap;
    }
    return width;
}

/* All three side by side where the width allows it, a little closer if that helps, else the communication below. */
static void print_tables(const struct report_style *style, struct sp_arena *arena, const struct estimate *estimate)
{
    const struct report_grid grids[N_BLOCKS] = {report_time_grid(arena, estimate), report_memory_grid(arena, estimate),
                                                report_communication_grid(arena, estimate)};
    const struct report_grid *communication = &grids[N_BLOCKS - 1];
    struct blocks blocks = {grids, communication->n_rows == 0 ? N_BLOCKS - 1 : N_BLOCKS, BLOCK_GAP};
    if (width_of_blocks(&blocks) > REPORT_COLUMNS) {
        blocks.gap--;
    }
    if (width_of_blocks(&blocks) <= REPORT_COLUMNS) {
        print_blocks(style, &blocks);
        return;
    }
    const struct blocks above = {grids, N_BLOCKS - 1, BLOCK_GAP};
    const struct blocks below = {communication, 1, BLOCK_GAP};
    print_blocks(style, &above);
    (void)fputc('\n', style->file);
    print_blocks(style, &below);
}

static void print_remarks(const struct report_style *style, struct sp_arena *arena, const struct answer *answer)
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

void report_estimate_table(const struct report_style *style, struct sp_arena *arena, const struct answer *answer)
{
    const struct question *question = answer->question;
    print_bold(style, report_title_text(arena, question));
    (void)fputc('\n', style->file);
    (void)fprintf(style->file, "%s\n", report_degrees_text(arena, question));
    report_wrap(style->file, 0, "", report_settings_text(arena, question));
    (void)fputc('\n', style->file);
    print_headline(style, arena, answer);
    (void)fputc('\n', style->file);
    print_tables(style, arena, answer->estimate);
    print_remarks(style, arena, answer);
    if (style->explains) {
        (void)fputc('\n', style->file);
        report_explain(style, arena, answer);
    }
}

void report_estimate(const struct report_style *style, struct sp_arena *arena, const struct answer *answer)
{
    switch (style->format) {
    case REPORT_TABLE:
        report_estimate_table(style, arena, answer);
        break;
    case REPORT_MARKDOWN:
        report_estimate_markdown(style, arena, answer);
        break;
    case REPORT_CSV:
        report_estimate_csv(style, arena, answer);
        break;
    case REPORT_JSON:
        report_estimate_json(style, arena, answer);
        break;
    }
}
