/* The same answer for an issue or a design document. */
#include "report/report.h"

static void print_parts(const struct report_style *style, const char *label, const char *const *parts)
{
    (void)fprintf(style->file, "- **%s %s**", label, parts[0]);
    for (int i = 1; i < REPORT_HEADLINE_PARTS && parts[i][0] != '\0'; i++) {
        (void)fprintf(style->file, ", %s", parts[i]);
    }
    (void)fputc('\n', style->file);
}

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

static void print_remarks(const struct report_style *style, struct sp_arena *arena, const struct answer *answer)
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

void report_estimate_markdown(const struct report_style *style, struct sp_arena *arena, const struct answer *answer)
{
    const struct question *question = answer->question;
    struct report_headline headline;
    report_headline(arena, answer, &headline);
    (void)fprintf(style->file, "**%s**\n\n", report_title_text(arena, question));
    (void)fprintf(style->file, "- %s\n", report_degrees_text(arena, question));
    (void)fprintf(style->file, "- %s\n", report_settings_text(arena, question));
    report_overrides(style, sp_join(arena, question->set.items, question->set.count, " "));
    bool is_attention_only = question->run.is_attention_only;
    print_parts(style, is_attention_only ? "layer" : "step", headline.step);
    print_parts(style, "memory", headline.memory);
    const char *run = is_attention_only ? NULL : report_run_text(arena, answer);
    if (run != NULL) {
        (void)fprintf(style->file, "- run %s\n", run);
    }
    print_tables(style, arena, answer);
    print_remarks(style, arena, answer);
    if (style->explains) {
        (void)fputc('\n', style->file);
        report_explain(style, arena, answer);
    }
}
