/* Claims beside the model, for reading; and in any format. */
#include "report/report.h"

enum { CLAIM_COLUMN, VERDICT_COLUMN, MODEL_COLUMN, RANGE_COLUMN, RATIO_COLUMN, REASON_COLUMN, CAUSE_COLUMN, N_COLUMNS };

static void add_claim(struct report_grid *grid, const struct report_check *check, const struct report_claim *claim)
{
    struct sp_arena *arena = grid->arena;
    const struct claim_judgement *judgement = &claim->judgement;
    const struct claim_quantity *quantity = judgement->quantity;
    const char *cause = report_claim_cause(arena, judgement);
    report_grid_add(grid);
    report_grid_text(grid, CLAIM_COLUMN, "%s", claim->text);
    report_grid_text(grid, MODEL_COLUMN, "%s", report_claim_value(arena, quantity, judgement->computed));
    report_grid_text(grid, RANGE_COLUMN, "%s to %s", report_claim_value(arena, quantity, judgement->low),
                     report_claim_value(arena, quantity, judgement->high));
    report_grid_text(grid, RATIO_COLUMN, "%s", report_three(arena, judgement->ratio));
    report_grid_text(grid, VERDICT_COLUMN, "%s", claim_verdict_names[judgement->verdict]);
    report_grid_text(grid, REASON_COLUMN, "%s", report_claim_reason(arena, &check->answer, judgement));
    if (cause != NULL) {
        report_grid_text(grid, CAUSE_COLUMN, "%s", cause);
    }
}

static struct report_grid check_grid(struct sp_arena *arena, const struct report_check *check)
{
    static const struct report_column columns[N_COLUMNS] = {
        [CLAIM_COLUMN] = {.heading = "claim"},
        [VERDICT_COLUMN] = {.heading = "verdict"},
        [MODEL_COLUMN] = {.heading = "model", .is_right = true},
        [RANGE_COLUMN] = {.heading = "range", .is_right = true},
        [RATIO_COLUMN] = {.heading = "claim/model", .is_right = true},
        [REASON_COLUMN] = {.heading = "why", .is_note = true},
        [CAUSE_COLUMN] = {.heading = "likely cause", .is_note = true}};
    struct report_grid grid;
    report_grid_init(&grid, arena, columns, N_COLUMNS);
    for (int i = 0; i < check->n_claims; i++) {
        add_claim(&grid, check, &check->claims[i]);
    }
    return grid;
}

static void print_heading(const struct report_style *style, struct sp_arena *arena, const struct question *question)
{
    bool is_markdown = style->format == REPORT_MARKDOWN;
    const char *title = report_title_text(arena, question);
    const char *bullet = is_markdown ? "- " : "";
    (void)fputs(report_color(style, REPORT_BOLD), style->file);
    report_wrap(style->file, 0, "", is_markdown ? sp_format(arena, "**%s**", title) : title);
    (void)fputs(report_color(style, REPORT_PLAIN), style->file);
    (void)fputs(is_markdown ? "\n" : "", style->file);
    report_wrap_parts(style->file, 0, sp_format(arena, "%s%s", bullet, report_degrees_text(arena, question)));
    report_wrap(style->file, 0, "", sp_format(arena, "%s%s", bullet, report_settings_text(arena, question)));
    report_overrides(style, sp_join(arena, question->set.items, question->set.count, " "));
    (void)fputc('\n', style->file);
}

static void print_table(const struct report_style *style, struct sp_arena *arena, const struct report_check *check)
{
    const struct report_grid grid = check_grid(arena, check);
    print_heading(style, arena, check->answer.question);
    report_grid_print(style, &grid);
    report_remarks_print(style, arena, &check->answer);
}

static void print_csv(const struct report_style *style, struct sp_arena *arena, const struct report_check *check)
{
    const struct sp_json *claims = sp_json_member(report_check_tree(style, arena, check), "claims");
    const struct sp_json **objects = sp_arena_array(arena, (size_t)check->n_claims, sizeof(*objects));
    int n = 0;
    for (const struct sp_json *claim = claims->first; claim != NULL; claim = claim->next) {
        objects[n++] = claim;
    }
    report_csv_write(arena, objects, n, style->file);
}

void report_check(const struct report_style *style, struct sp_arena *arena, const struct report_check *check)
{
    switch (style->format) {
    case REPORT_TABLE:
    case REPORT_MARKDOWN:
        print_table(style, arena, check);
        break;
    case REPORT_CSV:
        print_csv(style, arena, check);
        break;
    case REPORT_JSON:
        report_tree_write(report_check_tree(style, arena, check), style->file);
        break;
    }
}
