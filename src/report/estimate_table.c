/* The one-screen answer: the figures, what bounds them, then where time, memory and traffic go, side by side. */
#include "report/report.h"

/* All three side by side where the width allows it, else the communication below. */
static void print_tables(const struct report_style *style, struct sp_arena *arena, const struct estimate *estimate)
{
    const struct report_grid grids[] = {report_time_grid(arena, estimate), report_memory_grid(arena, estimate),
                                        report_communication_grid(arena, estimate)};
    report_grids_print(style, grids, (int)SP_COUNT_OF(grids));
}

void report_estimate_table(const struct report_style *style, struct sp_arena *arena, const struct answer *answer)
{
    const struct question *question = answer->question;
    (void)fputs(report_color(style, REPORT_BOLD), style->file);
    report_wrap(style->file, 0, "", report_title_text(arena, question));
    (void)fputs(report_color(style, REPORT_PLAIN), style->file);
    report_wrap_parts(style->file, 0, report_degrees_text(arena, question));
    report_wrap(style->file, 0, "", report_settings_text(arena, question));
    report_overrides(style, sp_join(arena, question->set.items, question->set.count, " "));
    (void)fputc('\n', style->file);
    report_headline_print(style, arena, answer);
    (void)fputc('\n', style->file);
    if (question->run.is_attention_only) {
        const struct report_grid grid = report_attention_grid(arena, answer->estimate);
        report_grid_print(style, &grid);
    } else {
        print_tables(style, arena, answer->estimate);
    }
    report_sensitivity_print(style, arena, answer);
    report_remarks_print(style, arena, answer);
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
