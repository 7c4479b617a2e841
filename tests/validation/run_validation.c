/* Writes docs/validation.md to standard output: every source of the folder given, predicted beside measured. With a
 * second argument "bounds" it prints the table of tests/unit/test_validation.c instead. */
#include "support/validation.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_SOURCES = 64, MAX_SUMMARIES = 64 };
static const double PERCENT = 100;
static const double GIB = 1073741824;
static const double TERA = 1e12;
static const double MILLI = 1e-3;
static const double BOUND_SCALE = 1.05;
static const double BOUND_SLACK = 0.0002;
static const double SHORT_S = 0.1; /* below, times are printed in milliseconds */

struct report {
    struct sp_arena *arena;
    int n_sources;
    struct validation_source sources[MAX_SOURCES];
};

/* A pipe would end the cell. */
static const char *cell(struct sp_arena *arena, const char *text)
{
    char *copy = sp_strdup(arena, text);
    for (char *c = copy; *c != '\0'; c++) {
        *c = *c == '|' ? '/' : *c;
    }
    return copy;
}

static const char *value_text(struct sp_arena *arena, enum validation_unit unit, double value)
{
    switch (unit) {
    case UNIT_SECONDS:
        return value < SHORT_S ? sp_format(arena, "%.4g ms", value / MILLI) : sp_format(arena, "%.4g s", value);
    case UNIT_BYTES:
        return sp_format(arena, "%.3f GiB", value / GIB);
    case UNIT_FLOP_PER_S:
        return sp_format(arena, "%.4g TFLOP/s", value / TERA);
    case UNIT_FRACTION:
        return sp_format(arena, "%.1f %%", value * PERCENT);
    case UNIT_YES_NO:
        return value > 0 ? "yes" : "no";
    case UNIT_RATE:
        break;
    }
    return sp_format(arena, "%.5g", value);
}

/* Fewer decimals as it grows, so that 0.004 % and 40 % read alike. */
static const char *percent_text(struct sp_arena *arena, double fraction, bool has_sign)
{
    double percent = PERCENT * fraction;
    double size = fabs(percent);
    int decimals = size < 0.1 ? 3 : size < 1 ? 2 : size < 10 ? 1 : 0;
    return sp_format(arena, has_sign ? "%+.*f %%" : "%.*f %%", decimals, percent);
}

static const char *verdict(const struct validation_summary *summary)
{
    if (summary->target_frac <= 0 || summary->n_compared == 0) {
        return "";
    }
    return summary->median_frac <= summary->target_frac ? "reached" : "missed";
}

/* "3 not built, 1 refused, 12 not expressible": nothing is left out silently. */
static const char *left_out(struct sp_arena *arena, const struct validation_summary *summary)
{
    struct sp_texts texts = {.arena = arena};
    if (summary->n_not_built > 0) {
        sp_texts_add(&texts, "%d not built", summary->n_not_built);
    }
    if (summary->n_refused > 0) {
        sp_texts_add(&texts, "%d refused", summary->n_refused);
    }
    if (summary->n_not_expressible > 0) {
        sp_texts_add(&texts, "%d not expressible", summary->n_not_expressible);
    }
    return texts.count == 0 ? "" : sp_join(arena, texts.items, texts.count, ", ");
}

static void print_errors(struct sp_arena *arena, const struct validation_summary *summary)
{
    if (summary->n_compared == 0) {
        printf(" 0 | | | |");
        return;
    }
    printf(" %d | %s | %s | %s |", summary->n_compared, percent_text(arena, summary->median_frac, false),
           percent_text(arena, summary->max_frac, false), percent_text(arena, summary->bias_frac, true));
}

static void print_summary(const struct report *report)
{
    printf("## Summary\n\n"
           "Errors are predicted over measured less one, of the rows compared: median and largest without sign, bias "
           "as their "
           "mean.\nRows left out are counted, and named with their reason below.\n\n"
           "| source | quantity | n | median | largest | bias | left out |\n"
           "|---|---|--:|--:|--:|--:|---|\n");
    for (int i = 0; i < report->n_sources; i++) {
        struct validation_summary summaries[MAX_SUMMARIES];
        int n = validation_summarise(report->arena, &report->sources[i], false, summaries, MAX_SUMMARIES);
        for (int j = 0; j < n; j++) {
            printf("| %s | %s |", report->sources[i].name, summaries[j].quantity->name);
            print_errors(report->arena, &summaries[j]);
            printf(" %s |\n", left_out(report->arena, &summaries[j]));
        }
    }
}

static void print_targets(const struct report *report)
{
    printf("\n## Groups and targets\n\n"
           "A group is a part of a source that one mechanism sets apart. A target is for the median.\n\n"
           "| source | group | quantity | n | median | largest | bias | target | |\n"
           "|---|---|---|--:|--:|--:|--:|--:|---|\n");
    for (int i = 0; i < report->n_sources; i++) {
        struct validation_summary summaries[MAX_SUMMARIES];
        int n = validation_summarise(report->arena, &report->sources[i], true, summaries, MAX_SUMMARIES);
        for (int j = 0; j < n; j++) {
            const struct validation_summary *summary = &summaries[j];
            if (summary->n_compared == 0 && summary->target_frac <= 0) {
                continue;
            }
            printf("| %s | %s | %s |", report->sources[i].name, summary->group, summary->quantity->name);
            print_errors(report->arena, summary);
            printf(" %s | %s |\n",
                   summary->target_frac > 0 ? percent_text(report->arena, summary->target_frac, false) : "",
                   verdict(summary));
        }
    }
    printf("\n");
}

/* What the file of a source says about medians beyond 10 % and missed targets. */
static void print_misses(const struct report *report)
{
    printf("## Misses, and the mechanism found or suspected\n\n");
    for (int i = 0; i < report->n_sources; i++) {
        struct validation_summary summaries[MAX_SUMMARIES];
        int n = validation_summarise(report->arena, &report->sources[i], true, summaries, MAX_SUMMARIES);
        for (int j = 0; j < n; j++) {
            if (summaries[j].miss != NULL) {
                printf("- %s, %s, %s (median %s): %s\n", report->sources[i].name, summaries[j].group,
                       summaries[j].quantity->name, percent_text(report->arena, summaries[j].median_frac, false),
                       summaries[j].miss);
            }
        }
    }
    printf("\n");
}

/* Rows for the table of tests/unit/test_validation.c: what holds now, and a bound just above. */
static void print_bounds(const struct report *report)
{
    for (int i = 0; i < report->n_sources; i++) {
        struct validation_summary summaries[MAX_SUMMARIES];
        int n = validation_summarise(report->arena, &report->sources[i], true, summaries, MAX_SUMMARIES);
        for (int j = 0; j < n; j++) {
            const struct validation_summary *summary = &summaries[j];
            if (summary->n_compared > 0) {
                double bound = fmax(summary->median_frac * BOUND_SCALE, summary->median_frac + BOUND_SLACK);
                printf("    {\"%s\", \"%s\", \"%s\", %d, %.6f, %.6f},\n", report->sources[i].name, summary->group,
                       summary->quantity->name, summary->n_compared, summary->median_frac, bound);
            }
        }
    }
}

static void print_unstated(const struct validation_source *source)
{
    if (source->unstated == NULL) {
        return;
    }
    printf("What the source leaves open, fixed before any error was looked at:\n\n");
    for (const struct sp_json *text = source->unstated->first; text != NULL; text = text->next) {
        printf("- %s\n", text->string);
    }
    printf("\n");
}

static void print_compared(struct sp_arena *arena, const struct validation_source *source)
{
    int n = 0;
    for (int i = 0; i < source->n_rows; i++) {
        const struct validation_row *row = &source->rows[i];
        if (row->state != VALIDATION_COMPARED) {
            continue;
        }
        if (n++ == 0) {
            printf("| row | group | quantity | measured | predicted | error |\n|---|---|---|--:|--:|--:|\n");
        }
        enum validation_unit unit = row->quantity->unit;
        const char *error = unit == UNIT_YES_NO ? (row->error_frac > 0 ? "wrong" : "right")
                                                : percent_text(arena, row->error_frac, true);
        printf("| %s | %s | %s | %s | %s | %s |\n", cell(arena, row->name), row->group, row->quantity->name,
               value_text(arena, unit, row->measured), value_text(arena, unit, row->predicted), error);
    }
    printf(n > 0 ? "\n" : "No row is compared.\n\n");
}

static bool is_first_of_run(const struct validation_source *source, int i)
{
    return i == 0 || strcmp(source->rows[i].name, source->rows[i - 1].name) != 0;
}

static void print_left_out(struct sp_arena *arena, const struct validation_source *source)
{
    static const char *const states[] = {"", "not built", "refused", "not expressible"};
    int n = 0;
    for (int i = 0; i < source->n_rows; i++) {
        const struct validation_row *row = &source->rows[i];
        if (row->state == VALIDATION_COMPARED || !is_first_of_run(source, i)) {
            continue;
        }
        if (n++ == 0) {
            printf("| left out | | reason |\n|---|---|---|\n");
        }
        printf("| %s | %s | %s |\n", cell(arena, row->name), states[row->state],
               row->reason == NULL ? "" : cell(arena, row->reason));
    }
    if (n > 0) {
        printf("\n");
    }
}

static void print_notes(const struct validation_source *source)
{
    int n = 0;
    for (int i = 0; i < source->n_rows; i++) {
        const struct validation_row *row = &source->rows[i];
        if (row->note != NULL && is_first_of_run(source, i)) {
            printf("- %s: %s\n", row->name, row->note);
            n++;
        }
    }
    if (n > 0) {
        printf("\n");
    }
}

static void print_source(struct sp_arena *arena, const struct validation_source *source)
{
    printf("## %s\n\n%s (%s). Source: %s.\n\n", source->name, source->title, source->year, source->where);
    print_unstated(source);
    print_compared(arena, source);
    print_left_out(arena, source);
    print_notes(source);
}

static bool read_all(struct report *report, const char *folder, struct sp_error *err)
{
    struct sp_texts names;
    if (!validation_names(report->arena, folder, &names, err)) {
        return false;
    }
    for (size_t i = 0; i < names.count && report->n_sources < MAX_SOURCES; i++) {
        if (!validation_read(report->arena, folder, names.items[i], &report->sources[report->n_sources++], err)) {
            return false;
        }
    }
    return true;
}

int main(int argc, char **argv)
{
    struct report report = {.arena = sp_arena_open()};
    struct sp_error err = {0};
    const char *folder = argc > 1 ? argv[1] : "tests/validation";
    if (!read_all(&report, folder, &err)) {
        fprintf(stderr, "run_validation: %s\n", err.text);
        return 1;
    }
    if (argc > 2 && strcmp(argv[2], "bounds") == 0) {
        print_bounds(&report);
        sp_arena_close(report.arena);
        return 0;
    }
    printf("# Validation\n\n"
           "<!-- Generated by `make validate` from tests/validation: do not edit. -->\n\n"
           "Published and measured runs beside what `seqplan estimate` predicts. Rows are the options of "
           "tests/validation/SOURCE.json;\n"
           "what was fitted to some of them (docs/model.md, \"What the figures rest on\") is: Megatron's tensor list "
           "and host\n"
           "tail to megatron-b200, the power exponent to torchtitan, the sustained factor partly to trl-million-token, "
           "merges\n"
           "to ring-flash-attention, and the PyTorch figures to the H200 rows.\n\n");
    print_summary(&report);
    print_targets(&report);
    print_misses(&report);
    for (int i = 0; i < report.n_sources; i++) {
        print_source(report.arena, &report.sources[i]);
    }
    sp_arena_close(report.arena);
    return 0;
}
