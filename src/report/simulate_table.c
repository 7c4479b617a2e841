/* A simulated step for reading: the step against the closed form and why they differ, then who was busy, who waited for what, where
 * transfers met, and the peak of memory. */
#include "report/report.h"

#include <math.h>

enum { INDENT = 2 };

/* ---- heading and figures ----------------------------------------------------------------------------------------- */

static void print_heading(const struct report_style *style, struct sp_arena *arena, const struct question *question)
{
    bool is_markdown = style->format == REPORT_MARKDOWN;
    const char *title = sp_format(arena, "%s: a step simulated", report_title_text(arena, question));
    if (is_markdown) {
        (void)fprintf(style->file, "**%s**\n\n", title);
        (void)fprintf(style->file, "- %s\n", report_degrees_text(arena, question));
        (void)fprintf(style->file, "- %s\n", report_settings_text(arena, question));
    } else {
        (void)fputs(report_color(style, REPORT_BOLD), style->file);
        report_wrap(style->file, 0, "", title);
        (void)fputs(report_color(style, REPORT_PLAIN), style->file);
        report_wrap_parts(style->file, 0, report_degrees_text(arena, question));
        report_wrap(style->file, 0, "", report_settings_text(arena, question));
    }
    report_overrides(style, sp_join(arena, question->set.items, question->set.count, " "));
    (void)fputs(is_markdown ? "" : "\n", style->file);
}

/* "estimate 1780 s (+0.6 %)" */
static const char *against_text(struct sp_arena *arena, const char *figure, double simulated, double estimated)
{
    static const double same_frac = 5e-4; /* rounds to 0.0 % */
    double difference_frac = simulated / estimated - 1.0;
    if (fabs(difference_frac) < same_frac) {
        return sp_format(arena, "estimate %s", figure);
    }
    return sp_format(arena, "estimate %s (%s%s %%)", figure, difference_frac < 0.0 ? "-" : "+",
                     report_percent(arena, fabs(difference_frac)));
}

static void print_figures(const struct report_style *style, struct sp_arena *arena,
                          const struct report_simulation *simulation)
{
    static const double gib = 0x1p30;
    const struct estimate *estimate = simulation->answer.estimate;
    struct answer simulated = simulation->answer;
    simulated.estimate = report_simulated_estimate(arena, simulation);
    struct report_headline headline;
    report_headline(arena, &simulated, &headline);
    const char *estimated = report_step_text(arena, estimate);
    const char *peak = sp_format(arena, "%s GiB", report_three(arena, estimate->peak_bytes / gib));
    double peak_bytes = simulation->result->peak.peak_bytes;
    const char *const step[REPORT_HEADLINE_PARTS] = {
        headline.step[0],
        against_text(arena, estimated, simulation->result->step_time_s, estimate->step_time_s),
        headline.step[1],
        headline.step[2],
    };
    const char *const memory[REPORT_HEADLINE_PARTS] = {
        sp_format(arena, "%s of %s GiB", report_three(arena, peak_bytes / gib),
                  report_three(arena, estimate->capacity_bytes / gib)),
        against_text(arena, peak, peak_bytes, estimate->peak_bytes),
        report_fit_text(arena, estimate),
        "",
    };
    const struct report_figures lines[] = {{"step", step}, {"memory", memory}};
    report_figures_print(style, lines, (int)SP_COUNT_OF(lines));
}

/* A line of words below the figures; nothing for no words. */
static void print_words(const struct report_style *style, const char *label, const char *text)
{
    if (text == NULL || text[0] == '\0') {
        return;
    }
    if (style->format == REPORT_MARKDOWN) {
        (void)fprintf(style->file, "- %s: %s\n", label, text);
    } else {
        char padded[16];
        (void)snprintf(padded, sizeof(padded), "%-8s", label);
        report_wrap(style->file, INDENT, padded, text);
    }
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

static void print_grids(const struct report_style *style, const struct report_grid *grids, int n_grids)
{
    int n_rows = 0;
    for (int i = 0; i < n_grids; i++) {
        n_rows += grids[i].n_rows;
    }
    if (n_rows == 0) {
        return;
    }
    (void)fputc('\n', style->file);
    if (style->format == REPORT_TABLE) {
        report_grids_print(style, grids, n_grids);
        return;
    }
    for (int i = 0; i < n_grids; i++) {
        (void)fputs(i > 0 && grids[i].n_rows > 0 ? "\n" : "", style->file);
        if (grids[i].n_rows > 0) {
            report_grid_print(style, &grids[i]);
        }
    }
}

/* "shown 8 of 64 kinds of GPUs, 6 of 210 links; --format json has all" */
static const char *left_out_text(struct sp_arena *arena, const struct sim_result *result, int n_ranks, int n_links)
{
    int all_links = 0;
    for (int i = 0; i < result->n_resources; i++) {
        all_links += result->resources[i].is_link ? 1 : 0;
    }
    struct sp_texts texts = {.arena = arena};
    if (n_ranks < result->n_ranks) {
        sp_texts_add(&texts, "%d of %d kinds of GPUs, those that work most and least", n_ranks, result->n_ranks);
    }
    if (n_links < all_links) {
        sp_texts_add(&texts, "%d of %d kinds of links", n_links, all_links);
    }
    return texts.count == 0
               ? ""
               : sp_format(arena, "%s; --format json has all", sp_join(arena, texts.items, texts.count, ", "));
}

static void print_tables(const struct report_style *style, struct sp_arena *arena,
                         const struct report_simulation *simulation)
{
    const struct sim_result *result = simulation->result;
    int n_ranks = 0;
    int n_links = 0;
    const struct report_grid time[] = {report_time_parts_grid(arena, simulation), report_critical_grid(arena, result),
                                       report_peak_grid(arena, &result->peak)};
    const struct report_grid ranks = report_ranks_grid(arena, result, &n_ranks);
    const struct report_grid links[] = {report_links_grid(arena, result, &n_links), report_delays_grid(arena, result)};
    print_grids(style, time, (int)SP_COUNT_OF(time));
    (void)fputc('\n', style->file);
    report_grid_print(style, &ranks);
    print_grids(style, links, (int)SP_COUNT_OF(links));
    const char *left_out = left_out_text(arena, result, n_ranks, n_links);
    (void)fputs(left_out[0] == '\0' ? "" : "\n", style->file);
    print_words(style, "shown", left_out);
}

static void print_simulation(const struct report_style *style, struct sp_arena *arena,
                             const struct report_simulation *simulation)
{
    const struct sim_result *result = simulation->result;
    const struct question *question = simulation->answer.question;
    print_heading(style, arena, question);
    print_figures(style, arena, simulation);
    print_words(style, "cost", report_disturbance_text(arena, simulation));
    print_words(style, "why", report_simulation_causes(arena, simulation));
    print_words(style, "peak", report_peak_text(arena, &result->peak, question->layout.pp > 1));
    struct answer simulated = simulation->answer;
    simulated.estimate = report_simulated_estimate(arena, simulation);
    print_words(style, "run", report_run_text(arena, &simulated));
    if (simulation->spans_file != NULL) {
        print_words(style, "trace",
                    sp_format(arena, "%s, for ui.perfetto.dev or chrome://tracing", simulation->spans_file));
    }
    print_tables(style, arena, simulation);
    report_remarks_print(style, arena, &simulation->answer);
}

static void print_csv(const struct report_style *style, struct sp_arena *arena,
                      const struct report_simulation *simulation)
{
    const struct sp_json *tree = report_csv_answer(arena, report_simulation_tree(style, arena, simulation));
    report_csv_write(arena, &tree, 1, style->file);
}

void report_simulation(const struct report_style *style, struct sp_arena *arena,
                       const struct report_simulation *simulation)
{
    switch (style->format) {
    case REPORT_TABLE:
    case REPORT_MARKDOWN:
        print_simulation(style, arena, simulation);
        break;
    case REPORT_CSV:
        print_csv(style, arena, simulation);
        break;
    case REPORT_JSON:
        report_tree_write(report_simulation_tree(style, arena, simulation), style->file);
        break;
    }
}
