/* The same answer for an issue or a design document. */
#include "report/report.h"

static void print_tables(const struct report_style *style, struct sp_arena *arena, const struct answer *answer)
{
    const struct estimate *estimate = answer->estimate;
    if (answer->question->run.is_attention_only) {
        const struct report_grid grid = report_attention_grid(arena, estimate);
        (void)fputc('\n', style->file);
        report_grid_print(style, &grid);
        return;
    }
    const struct report_grid grids[] = {report_time_grid(arena, estimate), report_memory_grid(arena, estimate),
                                        report_communication_grid(arena, estimate)};
    for (size_t i = 0; i < SP_COUNT_OF(grids); i++) {
        if (grids[i].n_rows > 0) {
            (void)fputc('\n', style->file);
            report_grid_print(style, &grids[i]);
        }
    }
}

void report_estimate_markdown(const struct report_style *style, struct sp_arena *arena, const struct answer *answer)
{
    const struct question *question = answer->question;
    (void)fprintf(style->file, "**%s**\n\n", report_title_text(arena, question));
    (void)fprintf(style->file, "- %s\n", report_degrees_text(arena, question));
    (void)fprintf(style->file, "- %s\n", report_settings_text(arena, question));
    report_overrides(style, sp_join(arena, question->set.items, question->set.count, " "));
    report_headline_print(style, arena, answer);
    print_tables(style, arena, answer);
    report_sensitivity_print(style, arena, answer);
    report_remarks_print(style, arena, answer);
    if (style->explains) {
        (void)fputc('\n', style->file);
        report_explain(style, arena, answer);
    }
}
