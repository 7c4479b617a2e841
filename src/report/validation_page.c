/* docs/validation.md: what is known of the errors, over all sources. The parts of one source are in
 * validation_source.c. */
#include "report/validation_page.h"

#include <string.h>

/* ---- headline ----------------------------------------------------------------------------------------------------- */

static const struct {
    enum validation_family family;
    const char *title;
} families[] = {{VALIDATION_STEP, "Step time, or a rate"}, {VALIDATION_PEAK, "Peak memory"}};

static const char *median_cell(struct sp_arena *arena, const struct validation_source *source,
                               enum validation_family family, unsigned roles, const char **quantity)
{
    struct validation_summary summary;
    if (!validation_headline_of(arena, source, family, roles, &summary)) {
        return "| |";
    }
    *quantity = summary.quantity->name;
    return sp_format(arena, "%d | %s %% |", summary.n_compared,
                     report_validation_percent(arena, summary.median_frac, false));
}

static void print_family(const struct page *page, enum validation_family family, const char *title)
{
    const struct validation_set *set = page->validation->set;
    (void)fprintf(page->file,
                  "%s:\n\n| source | grade | quantity | n judge | median | n with fitted | median |\n"
                  "|---|---|---|--:|--:|--:|--:|\n",
                  title);
    for (int i = 0; i < set->n_sources; i++) {
        const struct validation_source *source = &set->sources[i];
        const char *quantity = NULL;
        const char *judged = median_cell(page->arena, source, family, VALIDATION_JUDGED, &quantity);
        const char *all = median_cell(page->arena, source, family, VALIDATION_ALL, &quantity);
        if (quantity != NULL) {
            (void)fprintf(page->file, "| %s | %s | %s | %s %s\n", source->name,
                          source->is_own          ? "own"
                          : source->grade == NULL ? ""
                                                  : source->grade,
                          quantity, judged, all);
        }
    }
    (void)fputc('\n', page->file);
}

static void print_headline(const struct page *page)
{
    (void)fputs(
        "## Headline\n\n"
        "The median over published sources graded A of the median error of each, one quantity a source; of rows "
        "that judge, and\nwith the rows that something was fitted to.\n\n"
        "| | rows that judge | with fitted rows |\n|---|---|---|\n",
        page->file);
    for (size_t i = 0; i < SP_COUNT_OF(families); i++) {
        const struct validation_headline judged =
            validation_headline(page->arena, page->validation->set, families[i].family, "A", VALIDATION_JUDGED);
        const struct validation_headline all =
            validation_headline(page->arena, page->validation->set, families[i].family, "A", VALIDATION_ALL);
        (void)fprintf(page->file, "| %s | %s | %s |\n", families[i].title,
                      report_validation_headline(page->arena, &judged, "source"),
                      report_validation_headline(page->arena, &all, "source"));
    }
    (void)fputs(
        "\nGrades: A, an exact print with enough settings to reproduce; A-, read off a chart, or a few settings "
        "missing; B, usable, some setting\nmissing; own, measured for this project.\n\n",
        page->file);
    for (size_t i = 0; i < SP_COUNT_OF(families); i++) {
        print_family(page, families[i].family, families[i].title);
    }
}

/* ---- peers -------------------------------------------------------------------------------------------------------- */

static const char *peer_text(const struct sp_json *row, const char *key)
{
    const struct sp_json *member = sp_json_member(row, key);
    return member == NULL || member->type != SP_JSON_STRING ? "" : member->string;
}

/* "median 4.6 %, mean 12 %, 57 rows of 5 sources" of one family, rows that judge. */
static const char *own_figures(const struct page *page, enum validation_family family)
{
    const struct validation_set *set = page->validation->set;
    double sum = 0.0;
    int n_rows = 0;
    int n_sources = 0;
    for (int i = 0; i < set->n_sources; i++) {
        struct validation_summary summary;
        if (!set->sources[i].is_own &&
            validation_headline_of(page->arena, &set->sources[i], family, VALIDATION_JUDGED, &summary)) {
            sum += summary.mape_frac * summary.n_compared;
            n_rows += summary.n_compared;
            n_sources++;
        }
    }
    const struct validation_headline all = validation_headline(page->arena, set, family, NULL, VALIDATION_JUDGED);
    return n_rows == 0 ? "no row judges"
                       : sp_format(page->arena, "median of medians %s %%, mean %s %%; %d rows of %d sources",
                                   report_validation_percent(page->arena, all.median_frac, false),
                                   report_validation_percent(page->arena, sum / n_rows, false), n_rows, n_sources);
}

static void print_own(const struct page *page)
{
    const struct validation_coverage coverage = validation_coverage(page->validation->set);
    (void)fprintf(
        page->file, "| seqplan | | published rows of this page that judge, every grade | | %s | %s | %s | below |\n",
        own_figures(page, VALIDATION_STEP), own_figures(page, VALIDATION_PEAK),
        coverage.n == 0 ? "none yet" : sp_format(page->arena, "%d of %d inside", coverage.n_within, coverage.n));
}

static void print_peers(const struct page *page)
{
    static const char *const keys[] = {"tool", "year", "data", "rows", "time", "memory", "intervals", "where"};
    if (page->validation->peers == NULL) {
        return;
    }
    (void)fputs(
        "## Beside what others state\n\n"
        "What other simulators and estimators publish of their own predictions, on data of their choice: figures "
        "of different runs, not a\ncomparison on the same ones. Where the same runs are in this page too, the row "
        "says so.\n\n"
        "| tool | year | data | rows | time | memory | intervals | where |\n|---|---|---|---|---|---|---|---|\n",
        page->file);
    print_own(page);
    for (const struct sp_json *row = page->validation->peers->first; row != NULL; row = row->next) {
        for (size_t i = 0; i < SP_COUNT_OF(keys); i++) {
            (void)fprintf(page->file, "| %s ", page_cell(page->arena, peer_text(row, keys[i])));
        }
        (void)fputs("|\n", page->file);
    }
    (void)fputc('\n', page->file);
}

/* ---- intervals and bias ------------------------------------------------------------------------------------------- */

static void print_coverage(const struct page *page)
{
    const struct validation_coverage coverage = validation_coverage(page->validation->set);
    (void)fprintf(
        page->file,
        "## Intervals\n\nHow often the measured figure lies within the 90 %% interval of its prediction, over "
        "all rows that judge: %s.\nStep time, rate and MFU of one run are one count, so are its peaks.\n",
        report_validation_coverage(page->arena, &coverage));
    (void)fputs("p is the chance of a count as far off as this or farther where the intervals are right (binomial, two "
                "sides). Narrow intervals that\nhold are the aim: the width stands beside.\n\n",
                page->file);
}

static void print_order(const struct page *page)
{
    const struct validation_order judged = validation_order(page->arena, page->validation->set, VALIDATION_JUDGED);
    const struct validation_order all = validation_order(page->arena, page->validation->set, VALIDATION_ALL);
    (void)fprintf(page->file,
                  "## Order of methods\n\nRows of one source that ask the same and differ in the method, two by two: "
                  "%s.\nWith the rows that something was fitted to: %s.\n\n",
                  report_validation_order(page->arena, &judged), report_validation_order(page->arena, &all));
    if (all.wrong.count > 0) {
        (void)fputs("In the other order, with the ratios of the two figures:\n\n", page->file);
    }
    for (size_t i = 0; i < all.wrong.count; i++) {
        (void)fprintf(page->file, "- %s\n", all.wrong.items[i]);
    }
    (void)fputs(all.wrong.count > 0 ? "\n" : "", page->file);
}

static void print_biases(const struct page *page)
{
    struct sp_texts biases = {.arena = page->arena};
    report_validation_biases(page->arena, page->validation->set, true, &biases);
    (void)fputs("## Sources that lean one way\n\nRows that judge, mean error beyond 5 %.\n\n", page->file);
    for (size_t i = 0; i < biases.count; i++) {
        (void)fprintf(page->file, "- %s\n", biases.items[i]);
    }
    (void)fputs(biases.count == 0 ? "None.\n\n" : "\n", page->file);
}

/* ---- roles -------------------------------------------------------------------------------------------------------- */

static void print_roles(const struct page *page)
{
    const struct validation_set *set = page->validation->set;
    (void)fputs(
        "## Which rows judge\n\n"
        "Rows that something was fitted to, or chosen by, judge nothing; they are shown, because they tell whether "
        "the sums are right.\nA compared row without an entry here judges.\n\n"
        "| source | judge | fit | left out | what was fitted to which rows |\n|---|--:|--:|--:|---|\n",
        page->file);
    for (int i = 0; i < set->n_sources; i++) {
        const struct report_validation_counts counts = report_validation_count(&set->sources[i]);
        struct sp_texts fitted = {.arena = page->arena};
        report_validation_fitted(&set->sources[i], &fitted);
        (void)fprintf(page->file, "| %s | %d | %d | %d | %s |\n", set->sources[i].name, counts.n_judged,
                      counts.n_fitted, counts.n_left_out,
                      page_cell(page->arena, report_join_texts(page->arena, &fitted)));
    }
    (void)fputc('\n', page->file);
}

/* ---- errors by what rows have in common --------------------------------------------------------------------------- */

static void print_by(const struct page *page, enum validation_by by)
{
    struct validation_summary *summaries = NULL;
    int n = validation_summarise(page->arena, page->validation->set, by, VALIDATION_JUDGED, &summaries);
    int n_compared = 0;
    for (int i = 0; i < n; i++) {
        bool is_shown = summaries[i].n_compared > 0 || by == VALIDATION_BY_QUANTITY;
        if (is_shown) {
            summaries[n_compared++] = summaries[i];
        }
    }
    const struct report_grid grid = report_validation_grid(page->arena, summaries, n_compared, by);
    (void)fprintf(page->file, "By %s:\n\n",
                  by == VALIDATION_BY_SEQ ? "length of the sequence" : validation_by_names[by]);
    report_grid_print(page->style, &grid);
    (void)fputc('\n', page->file);
}

static void print_errors(const struct page *page)
{
    (void)fputs(
        "## Errors of the rows that judge\n\n"
        "Errors are predicted over measured less one, in %: median, mean and largest without sign, bias as their mean. "
        "Of a yes or no it is 0 or 1.\n\n",
        page->file);
    print_by(page, VALIDATION_BY_QUANTITY);
    print_by(page, VALIDATION_BY_METHOD);
    print_by(page, VALIDATION_BY_SEQ);
    print_by(page, VALIDATION_BY_FRAMEWORK);
}

void report_validation_page(const struct report_style *style, struct sp_arena *arena,
                            const struct report_validation *validation)
{
    const struct page page = {.file = style->file, .arena = arena, .style = style, .validation = validation};
    (void)fputs(
        "# Validation\n\n"
        "<!-- Generated by `make validate` (seqplan validate --format page): do not edit. -->\n\n"
        "Published and measured runs beside what `seqplan estimate` predicts, hardware files as shipped. A row is "
        "a list of options in\ntests/validation/SOURCE.json; what a source leaves open is fixed there once, in "
        "writing, for all of its rows. `seqplan validate`\nprints the same for any of these files, for a sheet of "
        "your own and for stored runs.\n\n",
        page.file);
    print_headline(&page);
    print_peers(&page);
    print_coverage(&page);
    print_order(&page);
    print_biases(&page);
    print_roles(&page);
    print_errors(&page);
    page_groups(&page);
    page_misses(&page);
    for (int i = 0; i < validation->set->n_sources; i++) {
        page_source(&page, &validation->set->sources[i], i + 1 == validation->set->n_sources);
    }
}
