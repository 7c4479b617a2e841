/* The parts of docs/validation.md that go source by source. */
#include "report/validation_page.h"

#include <string.h>

const char *page_cell(struct sp_arena *arena, const char *text)
{
    char *copy = sp_strdup(arena, text);
    for (char *c = copy; *c != '\0'; c++) {
        if (*c == '|') {
            *c = '/';
        }
    }
    return copy;
}

/* ---- groups ------------------------------------------------------------------------------------------------------- */

static const char *verdict(const struct validation_summary *summary)
{
    if (summary->target_frac <= 0.0 || summary->n_compared == 0) {
        return "";
    }
    return summary->median_frac <= summary->target_frac ? "reached" : "missed";
}

static void print_group(const struct page *page, const struct validation_source *source,
                        const struct validation_summary *summary, enum validation_role role)
{
    struct sp_arena *arena = page->arena;
    (void)fprintf(page->file, "| %s | %s | %s | %s |", source->name, summary->key, summary->quantity->name,
                  validation_role_names[role]);
    if (summary->n_compared == 0) {
        (void)fputs(" 0 | | | |", page->file);
    } else {
        (void)fprintf(page->file, " %d | %s %% | %s %% | %s %% |", summary->n_compared,
                      report_validation_percent(arena, summary->median_frac, false),
                      report_validation_percent(arena, summary->max_frac, false),
                      report_validation_percent(arena, summary->bias_frac, true));
    }
    (void)fprintf(page->file, " %s | %s | %s |\n",
                  summary->target_frac > 0.0
                      ? sp_format(arena, "%s %%", report_validation_percent(arena, summary->target_frac, false))
                      : "",
                  verdict(summary), report_validation_left_out(arena, summary));
}

void page_groups(const struct page *page)
{
    (void)fputs("## Groups and targets\n\n"
                "A group is a part of a source that one mechanism sets apart. A target is for the median.\n\n"
                "| source | group | quantity | role | n | median | largest | bias | target | | left out |\n"
                "|---|---|---|---|--:|--:|--:|--:|--:|---|---|\n",
                page->file);
    for (int i = 0; i < page->validation->set->n_sources; i++) {
        const struct validation_source *source = &page->validation->set->sources[i];
        const struct validation_set one = {.sources = &page->validation->set->sources[i], .n_sources = 1};
        for (int role = VALIDATION_JUDGE; role <= (int)VALIDATION_FIT; role++) {
            struct validation_summary *summaries = NULL;
            int n = validation_summarise(page->arena, &one, VALIDATION_BY_GROUP, 1U << (unsigned)role, &summaries);
            for (int j = 0; j < n; j++) {
                print_group(page, source, &summaries[j], (enum validation_role)role);
            }
        }
    }
    (void)fputc('\n', page->file);
}

void page_misses(const struct page *page)
{
    (void)fputs("## Misses, and the mechanism found or suspected\n\n", page->file);
    for (int i = 0; i < page->validation->set->n_sources; i++) {
        const struct validation_set one = {.sources = &page->validation->set->sources[i], .n_sources = 1};
        struct validation_summary *summaries = NULL;
        int n = validation_summarise(page->arena, &one, VALIDATION_BY_GROUP, VALIDATION_ALL, &summaries);
        for (int j = 0; j < n; j++) {
            if (summaries[j].miss != NULL) {
                (void)fprintf(page->file, "- %s, %s, %s (median %s %%): %s\n", one.sources[0].name, summaries[j].key,
                              summaries[j].quantity->name,
                              report_validation_percent(page->arena, summaries[j].median_frac, false),
                              summaries[j].miss);
            }
        }
    }
    (void)fputc('\n', page->file);
}

/* ---- one source --------------------------------------------------------------------------------------------------- */

static void print_unstated(const struct page *page, const struct validation_source *source)
{
    if (source->unstated == NULL) {
        return;
    }
    (void)fputs("What the source leaves open, fixed for all rows:\n\n", page->file);
    for (const struct sp_json *text = source->unstated->first; text != NULL; text = text->next) {
        (void)fprintf(page->file, "- %s\n", text->string);
    }
    (void)fputc('\n', page->file);
}

static const char *error_text(struct sp_arena *arena, const struct validation_row *row)
{
    if (row->quantity->unit == VALIDATION_YES_NO) {
        return row->error_frac > 0.0 ? "wrong" : "right";
    }
    return sp_format(arena, "%s %%", report_validation_percent(arena, row->error_frac, true));
}

static void print_compared(const struct page *page, const struct validation_source *source)
{
    struct sp_arena *arena = page->arena;
    int n = 0;
    for (int i = 0; i < source->n_rows; i++) {
        const struct validation_row *row = &source->rows[i];
        enum validation_unit unit = row->quantity->unit;
        if (row->state != VALIDATION_COMPARED) {
            continue;
        }
        if (n++ == 0) {
            (void)fputs("| row | group | quantity | role | measured | predicted | 90 % interval | error |\n"
                        "|---|---|---|---|--:|--:|--:|--:|\n",
                        page->file);
        }
        const char *interval = row->has_interval
                                   ? sp_format(arena, "%s to %s", report_validation_value(arena, unit, row->low),
                                               report_validation_value(arena, unit, row->high))
                                   : "";
        (void)fprintf(page->file, "| %s | %s | %s | %s | %s | %s | %s | %s |\n", page_cell(arena, row->name),
                      row->group, row->quantity->name, validation_role_names[row->role],
                      report_validation_value(arena, unit, row->measured),
                      report_validation_value(arena, unit, row->predicted), interval, error_text(arena, row));
    }
    (void)fputs(n > 0 ? "\n" : "No row is compared.\n\n", page->file);
}

static bool is_first_of_run(const struct validation_source *source, int i)
{
    return i == 0 || strcmp(source->rows[i].name, source->rows[i - 1].name) != 0;
}

static void print_left_out(const struct page *page, const struct validation_source *source)
{
    int n = 0;
    for (int i = 0; i < source->n_rows; i++) {
        const struct validation_row *row = &source->rows[i];
        if (row->state == VALIDATION_COMPARED || !is_first_of_run(source, i)) {
            continue;
        }
        if (n++ == 0) {
            (void)fputs("| left out | | reason |\n|---|---|---|\n", page->file);
        }
        (void)fprintf(page->file, "| %s | %s | %s |\n", page_cell(page->arena, row->name),
                      validation_state_names[row->state],
                      row->reason == NULL ? "" : page_cell(page->arena, row->reason));
    }
    (void)fputs(n > 0 ? "\n" : "", page->file);
}

static void print_notes(const struct page *page, const struct validation_source *source)
{
    int n = 0;
    for (int i = 0; i < source->n_rows; i++) {
        const struct validation_row *row = &source->rows[i];
        if (row->note != NULL && is_first_of_run(source, i)) {
            (void)fprintf(page->file, "- %s: %s\n", row->name, row->note);
            n++;
        }
    }
    (void)fputs(n > 0 ? "\n" : "", page->file);
}

void page_source(const struct page *page, const struct validation_source *source, bool is_last)
{
    (void)fprintf(page->file, "## %s\n\n%s (%s). Source: %s. Grade: %s.\n\n", source->name, source->title, source->year,
                  source->where,
                  source->is_own          ? "own"
                  : source->grade == NULL ? "none"
                                          : source->grade);
    print_unstated(page, source);
    print_compared(page, source);
    print_left_out(page, source);
    print_notes(page, source);
    (void)is_last;
}
