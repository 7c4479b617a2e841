/* Claims of documents, judged: a table, CSV, JSON. */
#include "report/report.h"

#include <math.h>

const char *report_claim_computed(struct sp_arena *arena, const struct report_claim_row *row)
{
    static const double giga = 1e9;
    if (row->quantity == NULL) {
        return "";
    }
    if (isnan(row->computed)) {
        return "none";
    }
    if (row->against != NULL) {
        return sp_format(arena, "%s times", report_three(arena, row->computed));
    }
    const char *value = report_claim_value(arena, row->quantity, row->computed);
    return row->quantity->dimension == SP_BYTES /* documents count in GB */
               ? sp_format(arena, "%s (%s GB)", value, report_three(arena, row->computed / giga))
               : value;
}

enum {
    SECTION_COLUMN,
    FINDING_COLUMN,
    CLAIMED_COLUMN,
    COMPUTED_COLUMN,
    TEXT_COLUMN,
    REASON_COLUMN,
    CAUSE_COLUMN,
    NOTE_COLUMN,
    N_COLUMNS
};

static void add_row(struct report_grid *grid, const struct report_claim_row *row)
{
    report_grid_add(grid);
    report_grid_text(grid, SECTION_COLUMN, "%s", row->section);
    report_grid_text(grid, FINDING_COLUMN, "%s", claim_finding_names[row->finding]);
    report_grid_text(grid, CLAIMED_COLUMN, "%s", row->claimed == NULL ? "" : row->claimed);
    report_grid_text(grid, COMPUTED_COLUMN, "%s", report_claim_computed(grid->arena, row));
    report_grid_text(grid, TEXT_COLUMN, "%s", row->text);
    const struct {
        int column;
        const char *text;
    } notes[] = {{REASON_COLUMN, row->reason}, {CAUSE_COLUMN, row->cause}, {NOTE_COLUMN, row->note}};
    for (size_t i = 0; i < SP_COUNT_OF(notes); i++) {
        if (notes[i].text != NULL) {
            report_grid_text(grid, notes[i].column, "%s", notes[i].text);
        }
    }
}

static void print_document(const struct report_style *style, struct sp_arena *arena,
                           const struct report_claim_document *document)
{
    static const struct report_column columns[N_COLUMNS] = {
        [SECTION_COLUMN] = {.heading = "section"},
        [FINDING_COLUMN] = {.heading = "verdict"},
        [CLAIMED_COLUMN] = {.heading = "claimed", .is_right = true},
        [COMPUTED_COLUMN] = {.heading = "model", .is_right = true},
        [TEXT_COLUMN] = {.heading = "claim", .is_note = true},
        [REASON_COLUMN] = {.heading = "why", .is_note = true},
        [CAUSE_COLUMN] = {.heading = "likely cause", .is_note = true},
        [NOTE_COLUMN] = {.heading = "note", .is_note = true}};
    struct report_grid grid;
    report_grid_init(&grid, arena, columns, N_COLUMNS);
    for (int i = 0; i < document->n_rows; i++) {
        add_row(&grid, &document->rows[i]);
    }
    bool is_markdown = style->format == REPORT_MARKDOWN;
    (void)fputs(report_color(style, REPORT_BOLD), style->file);
    report_wrap(style->file, 0, "", is_markdown ? sp_format(arena, "**%s**", document->title) : document->title);
    (void)fprintf(style->file, "%s\n", report_color(style, REPORT_PLAIN));
    report_grid_print(style, &grid);
}

/* ---- CSV and JSON ------------------------------------------------------------------------------------------------- */

static void put_figures(struct report_tree *tree, const struct report_claim_row *row)
{
    if (row->quantity == NULL) {
        report_tree_null(tree, "quantity");
        return;
    }
    report_tree_string(tree, "quantity", row->quantity->name);
    report_tree_bool(tree, "is_ratio", row->against != NULL);
    report_tree_number(tree, "claimed_low", row->claimed_low);
    report_tree_number(tree, "claimed_high", row->claimed_high);
    if (isnan(row->computed)) {
        report_tree_null(tree, "computed");
    } else {
        report_tree_number(tree, "computed", row->computed);
    }
    report_tree_string(tree, "question", row->command);
    report_tree_string(tree, "against", row->against);
    report_tree_string(tree, "reason", row->reason);
    report_tree_string(tree, "likely_cause", row->cause);
}

static const struct sp_json *row_tree(struct sp_arena *arena, const struct report_claim_document *document,
                                      const struct report_claim_row *row)
{
    struct report_tree tree;
    report_tree_open(&tree, arena);
    report_tree_string(&tree, "document", document->title);
    report_tree_string(&tree, "section", row->section);
    report_tree_string(&tree, "claim", row->text);
    report_tree_string(&tree, "verdict", claim_finding_names[row->finding]);
    put_figures(&tree, row);
    report_tree_string(&tree, "note", row->note);
    return report_tree_close(&tree);
}

static void print_trees(const struct report_style *style, struct sp_arena *arena, const struct sp_json **rows, int n)
{
    if (style->format == REPORT_CSV) {
        report_csv_write(arena, rows, n, style->file);
        return;
    }
    struct report_tree tree;
    report_tree_open(&tree, arena);
    report_tree_string(&tree, "schema", "seqplan.claims-judged/1");
    report_tree_begin(&tree, "rows", SP_JSON_ARRAY);
    for (int i = 0; i < n; i++) {
        report_tree_value(&tree, NULL, rows[i]);
    }
    report_tree_end(&tree);
    report_tree_write(report_tree_close(&tree), style->file);
}

static void print_listed(const struct report_style *style, struct sp_arena *arena,
                         const struct report_claim_document *documents, int n_documents)
{
    int n_rows = 0;
    for (int i = 0; i < n_documents; i++) {
        n_rows += documents[i].n_rows;
    }
    const struct sp_json **rows = sp_arena_array(arena, (size_t)n_rows + 1, sizeof(*rows));
    int n = 0;
    for (int i = 0; i < n_documents; i++) {
        for (int j = 0; j < documents[i].n_rows; j++) {
            rows[n++] = row_tree(arena, &documents[i], &documents[i].rows[j]);
        }
    }
    print_trees(style, arena, rows, n);
}

void report_claims(const struct report_style *style, struct sp_arena *arena,
                   const struct report_claim_document *documents, int n_documents)
{
    if (style->format == REPORT_CSV || style->format == REPORT_JSON) {
        print_listed(style, arena, documents, n_documents);
        return;
    }
    for (int i = 0; i < n_documents; i++) {
        (void)fputs(i > 0 ? "\n" : "", style->file);
        print_document(style, arena, &documents[i]);
    }
}
