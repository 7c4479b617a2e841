/* The one-screen answer: the figures, what bounds them, then where time, memory and traffic go, side by side. */
#include "report/report.h"

#include <string.h>

enum { INDENT = 2, BLOCK_GAP = 3 };

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
    bool is_attention_only = answer->question->run.is_attention_only;
    print_parts(style, is_attention_only ? "layer" : "step", headline.step, widths);
    print_parts(style, "memory", headline.memory, widths);
    const char *run = is_attention_only ? NULL : report_run_text(arena, answer);
    if (run != NULL) {
        report_wrap(style->file, INDENT, "run     ", run);
    }
}

/* All three side by side where the width allows it, else the communication below. */
static void print_tables(const struct report_style *style, struct sp_arena *arena, const struct estimate *estimate)
{
    const struct report_grid grids[] = {report_time_grid(arena, estimate), report_memory_grid(arena, estimate),
                                        report_communication_grid(arena, estimate)};
    report_grids_print(style, grids, (int)SP_COUNT_OF(grids));
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
    report_overrides(style, sp_join(arena, question->set.items, question->set.count, " "));
    (void)fputc('\n', style->file);
    print_headline(style, arena, answer);
    (void)fputc('\n', style->file);
    if (question->run.is_attention_only) {
        const struct report_grid grid = report_attention_grid(arena, answer->estimate);
        report_grid_print(style, &grid);
    } else {
        print_tables(style, arena, answer->estimate);
    }
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
