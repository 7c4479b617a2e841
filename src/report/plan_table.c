/* A plan for reading: the best layout first, then the ranking, the front, why the rest was dropped. */
#include "report/report.h"

#include <assert.h>
#include <string.h>

enum { INDENT = 2, CONTINUED = 4 };

/* What the parts of the page share. */
struct page {
    const struct report_style *style;
    struct sp_arena *arena;
    const struct report_plan *plan;
    FILE *file;
    bool is_markdown;
};

/* ---- the command that prices the best ---------------------------------------------------------------------------- */

/* Options stay whole; a line that goes on ends in a backslash, so that all can be pasted. */
static void print_command(const struct page *page, const char *options)
{
    int indent = page->is_markdown ? 0 : INDENT;
    int room = REPORT_COLUMNS - (int)strlen(" \\");
    int column = fprintf(page->file, "%*sseqplan estimate", indent, "");
    while (*options != '\0') {
        const char *next = strstr(options + 1, " --");
        int length = next == NULL ? (int)strlen(options) : (int)(next - options);
        if (column + 1 + length > room) {
            (void)fputs(" \\\n", page->file);
            column = fprintf(page->file, "%*s", indent + CONTINUED - 1, "");
        }
        column += fprintf(page->file, " %.*s", length, options);
        options += length + (next == NULL ? 0 : 1);
    }
    (void)fputc('\n', page->file);
}

static void print_best_command(const struct page *page)
{
    const struct plan *plan = page->plan->plan;
    const struct plan_layout *layout = plan->n_layouts > 0 ? &plan->layouts[0] : &plan->nearest_miss;
    (void)fputs(page->is_markdown ? "\n```sh\n" : "\n", page->file);
    print_command(page, report_layout_options(page->arena, page->plan, layout));
    (void)fputs(page->is_markdown ? "```\n" : "", page->file);
}

/* ---- texts ------------------------------------------------------------------------------------------------------- */

static void print_bold(const struct page *page, int indent, const char *text)
{
    if (page->is_markdown) {
        (void)fprintf(page->file, "**%s**\n\n", text);
        return;
    }
    (void)fputs(report_color(page->style, REPORT_BOLD), page->file);
    report_wrap(page->file, indent, "", text);
    (void)fputs(report_color(page->style, REPORT_PLAIN), page->file);
}

/* A line of its own with an empty line before it. */
static void print_sentence(const struct page *page, const char *text)
{
    (void)fputc('\n', page->file);
    if (page->is_markdown) {
        (void)fprintf(page->file, "%s\n\n", text);
    } else {
        report_wrap(page->file, INDENT, "", text);
    }
}

static void print_labelled(const struct page *page, const char *label, const char *text)
{
    if (page->is_markdown) {
        (void)fprintf(page->file, "- %s: %s\n", label, text);
        return;
    }
    report_wrap(page->file, INDENT, sp_format(page->arena, "%-8s", label), text);
}

/* ---- parts ------------------------------------------------------------------------------------------------------- */

/* The layout as estimate heads its answer, its figures, and the command that gives the rest. */
static void print_best(const struct page *page)
{
    const struct question *question = page->plan->best->question;
    if (page->is_markdown) {
        (void)fprintf(page->file, "- %s\n", report_degrees_text(page->arena, question));
        (void)fprintf(page->file, "- %s\n", report_settings_text(page->arena, question));
    } else {
        report_wrap_parts(page->file, 0, report_degrees_text(page->arena, question));
        report_wrap(page->file, 0, "", report_settings_text(page->arena, question));
    }
    report_overrides(page->style, sp_join(page->arena, question->set.items, question->set.count, " "));
    (void)fputs(page->is_markdown ? "" : "\n", page->file);
    report_headline_print(page->style, page->arena, page->plan->best);
    print_best_command(page);
}

/* What a row without an order has. */
static const char *order_text(const struct page *page, const int *rows, int n_rows)
{
    bool has_orders = report_plan_shows_orders(page->plan, rows, n_rows);
    return has_orders ? sp_format(page->arena, "; order, where none stands: %s", report_usual_order) : "";
}

/* One family needs no table: what is known of it stands above. */
static void print_ranking(const struct page *page)
{
    struct sp_arena *arena = page->arena;
    int *rows = sp_arena_array(arena, (size_t)page->plan->plan->n_layouts + 1, sizeof(*rows));
    int n_rows = report_plan_ranked(page->plan, rows);
    if (n_rows < 2) {
        print_sentence(page, report_plan_differs(arena, page->plan, 0));
        return;
    }
    const struct report_grid grid = report_plan_grid(arena, page->plan, rows, n_rows, true);
    print_sentence(page,
                   sp_format(arena, "ranked by %s, the best of each family; what has no column is as in the first%s",
                             plan_objective_names[page->plan->asked->objective], order_text(page, rows, n_rows)));
    report_grid_print(page->style, &grid);
}

static void print_front(const struct page *page)
{
    static const double gib = 0x1p30;
    struct sp_arena *arena = page->arena;
    const struct plan_layout *layouts = page->plan->plan->layouts;
    int *rows = sp_arena_array(arena, (size_t)page->plan->plan->n_layouts + 1, sizeof(*rows));
    int n_whole = 0;
    int n_rows = report_plan_front(arena, page->plan, rows, &n_whole);
    if (n_rows < 2) {
        return;
    }
    const struct plan_layout *fast = &layouts[rows[0]];
    const struct plan_layout *small = &layouts[rows[n_rows - 1]];
    const char *shown = n_rows < n_whole ? sp_format(arena, "; %d of them", n_rows) : "";
    print_sentence(page,
                   sp_format(arena, "Pareto front: %d layouts from %s in %s GiB to %s in %s GiB%s%s", n_whole,
                             report_step_time(arena, fast->step_time_s), report_three(arena, fast->peak_bytes / gib),
                             report_step_time(arena, small->step_time_s), report_three(arena, small->peak_bytes / gib),
                             shown, order_text(page, rows, n_rows)));
    const struct report_grid grid = report_plan_grid(arena, page->plan, rows, n_rows, false);
    report_grid_print(page->style, &grid);
}

/* What a better or worse machine would change, and when another layout would be the answer. */
static void print_sensitivity(const struct page *page)
{
    const struct report_plan *plan = page->plan;
    if (plan->sensitivity == NULL || plan->sensitivity->winner < 0) {
        return;
    }
    assert(plan->best != NULL);
    const struct report_grid grid =
        report_sensitivity_grid(page->arena, &plan->best->question->hardware, plan->sensitivity);
    (void)fputc('\n', page->file);
    report_grid_print(page->style, &grid);
}

static void print_rejections(const struct page *page)
{
    const struct report_grid grid = report_plan_rejections(page->arena, page->plan);
    if (grid.n_rows > 0) {
        (void)fputc('\n', page->file);
        report_grid_print(page->style, &grid);
    }
}

static void print_search(const struct page *page)
{
    const struct plan *plan = page->plan->plan;
    const char *dropped = sp_format(
        page->arena, "%s layouts in %s: %s priced in full, %s dropped", report_count(page->arena, plan->considered),
        report_step_time(page->arena, plan->elapsed_s), report_count(page->arena, plan->evaluated),
        report_count(page->arena, plan->considered - plan->evaluated));
    print_labelled(page, "searched", dropped);
}

/* ---- nothing fits ------------------------------------------------------------------------------------------------ */

static void print_changes(const struct page *page)
{
    const struct sp_texts *changes = page->plan->changes;
    (void)fputs(changes != NULL && changes->count > 0 ? "\n" : "", page->file);
    for (size_t i = 0; changes != NULL && i < changes->count; i++) {
        print_labelled(page, i == 0 ? "try" : "or", changes->items[i]);
    }
}

/* ---- the page ---------------------------------------------------------------------------------------------------- */

/* The fastest layouts fill the memory to the brim. */
static const char *suggestion_text(const struct report_plan *plan)
{
    static const double enough_frac = 0.05; /* of the capacity, as the warning says */
    const struct plan_question *asked = plan->asked;
    const struct estimate *estimate = plan->best->estimate;
    bool is_limited = asked->headroom_bytes > 0.0 || asked->headroom_frac > 0.0 ||
                      (asked->max_memory_bytes > 0.0 && asked->max_memory_bytes < estimate->capacity_bytes);
    bool is_full = estimate->fits && estimate->headroom_bytes < enough_frac * estimate->capacity_bytes;
    return is_full && !is_limited ? "--headroom 5%: only layouts that leave as much free" : NULL;
}

/* What is to be known of the best, and of the plan as a whole. */
static void print_remarks(const struct page *page)
{
    const struct report_plan *plan = page->plan;
    struct sp_texts remarks = {.arena = page->arena};
    report_plan_remarks(plan, &remarks);
    if (plan->best == NULL) {
        (void)fputc('\n', page->file);
        for (size_t i = 0; i < remarks.count; i++) {
            print_labelled(page, "warning", remarks.items[i]);
        }
        return;
    }
    struct answer remarked = *plan->best;
    struct question question = *remarked.question;
    struct sp_texts warnings = {.arena = page->arena};
    for (size_t i = 0; i < question.warnings.count; i++) {
        sp_texts_add(&warnings, "%s", question.warnings.items[i]);
    }
    for (size_t i = 0; i < remarks.count; i++) {
        sp_texts_add(&warnings, "%s", remarks.items[i]);
    }
    question.warnings = warnings;
    remarked.question = &question;
    remarked.suggestion = suggestion_text(plan);
    report_remarks_print(page->style, page->arena, &remarked);
}

void report_plan_table(const struct report_style *style, struct sp_arena *arena, const struct report_plan *plan)
{
    const struct page page = {style, arena, plan, style->file, style->format == REPORT_MARKDOWN};
    bool fits = plan->plan->n_layouts > 0;
    print_bold(&page, 0, report_title_text(arena, plan->best != NULL ? plan->best->question : plan->base));
    if (!fits) {
        print_bold(&page, 0,
                   sp_format(arena, "%s%s", report_plan_miss_text(arena, plan), plan->best != NULL ? ":" : ""));
    }
    if (plan->best != NULL) {
        print_best(&page);
    }
    if (fits) {
        print_ranking(&page);
        print_front(&page);
        print_sensitivity(&page);
    } else {
        print_changes(&page);
    }
    print_rejections(&page);
    print_remarks(&page);
    print_search(&page);
}
