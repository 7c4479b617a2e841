/* Sequence-parallel methods side by side. */
#include "report/report.h"

#include <assert.h>
#include <string.h>

static const double GIB = 0x1p30;
static const double GB = 1e9;

enum {
    COMPARE_METHOD,
    COMPARE_FRAMEWORK,
    COMPARE_BYTES,
    COMPARE_PEAK,
    COMPARE_FITS,
    COMPARE_STEP,
    COMPARE_RATE,
    COMPARE_MFU,
    COMPARE_BOUND,
    COMPARE_LINK,
    COMPARE_WHY,
    N_COMPARE_COLUMNS
};

static const struct report_column columns[N_COMPARE_COLUMNS] = {
    [COMPARE_METHOD] = {.heading = "method"},
    [COMPARE_FRAMEWORK] = {.heading = "framework"},
    [COMPARE_BYTES] = {.heading = "GB/layer", .is_right = true},
    [COMPARE_PEAK] = {.heading = "GiB", .is_right = true},
    [COMPARE_FITS] = {.heading = "fits"},
    [COMPARE_STEP] = {.heading = "step s", .is_right = true},
    [COMPARE_RATE] = {.heading = "tokens/s", .is_right = true},
    [COMPARE_MFU] = {.heading = "MFU %", .is_right = true},
    [COMPARE_BOUND] = {.heading = "bound"},
    [COMPARE_LINK] = {.heading = "best link"},
    [COMPARE_WHY] = {.heading = "why not", .is_note = true, .has_no_label = true},
};

static double number_at(const struct sp_json *answer, const char *path)
{
    const struct sp_json *value = report_tree_at(answer, path);
    assert(value != NULL);
    return value->number;
}

static const char *string_at(const struct sp_json *answer, const char *path)
{
    const struct sp_json *value = report_tree_at(answer, path);
    return value == NULL || value->type != SP_JSON_STRING ? "" : value->string;
}

double report_method_bytes(const struct sp_json *answer, const char *pass)
{
    const struct sp_json *rows = report_tree_at(answer, "communication");
    double bytes = 0.0;
    for (const struct sp_json *row = rows == NULL ? NULL : rows->first; row != NULL; row = row->next) {
        if (strcmp(string_at(row, "axis"), "sp") == 0 && strcmp(string_at(row, "pass"), pass) == 0) {
            bytes += number_at(row, "bytes_per_layer_per_gpu");
        }
    }
    return bytes;
}

static const char *bytes_text(struct sp_arena *arena, const struct sp_json *answer)
{
    double forward = report_method_bytes(answer, "forward");
    double backward = report_method_bytes(answer, "backward");
    if (!(forward + backward > 0.0)) {
        return "-";
    }
    return sp_format(arena, "%s+%s", report_three(arena, forward / GB), report_three(arena, backward / GB));
}

/* The largest item of memory, as words. */
static const char *largest_memory_text(struct sp_arena *arena, const struct sp_json *answer)
{
    const struct sp_json *items = report_tree_at(answer, "memory_bytes");
    const struct sp_json *largest = items->first;
    assert(largest != NULL);
    for (const struct sp_json *item = items->first; item != NULL; item = item->next) {
        largest = item->number > largest->number ? item : largest;
    }
    return sp_format(arena, "%s alone %s %s GiB", report_words(arena, largest->key),
                     largest->key[strlen(largest->key) - 1] == 's' ? "need" : "needs",
                     report_three(arena, largest->number / GIB));
}

/* Why a row that is priced cannot run; "" when it can. */
static const char *why_text(struct sp_arena *arena, const struct sp_json *answer)
{
    double headroom = number_at(answer, "headroom_bytes");
    if (report_tree_at(answer, "fits")->boolean) {
        return "";
    }
    if (headroom >= 0.0) {
        return sp_format(arena, "does not fit: host memory %s of %s GiB",
                         report_three(arena, number_at(answer, "host_bytes") / GIB),
                         report_three(arena, number_at(answer, "host_capacity_bytes") / GIB));
    }
    bool is_naive = strcmp(string_at(answer, "layout.sp_method"), method_names[METHOD_NAIVE]) == 0;
    return sp_format(arena, "does not fit: %s GiB missing; %s%s", report_three(arena, -headroom / GIB),
                     largest_memory_text(arena, answer), is_naive ? ", for matrices of S x S scores" : "");
}

/* "ib-ndr", with what it costs where none costs little: "ib-xdr +9.1%". */
static const char *link_text(struct sp_arena *arena, const struct sp_json *answer)
{
    const char *best = string_at(answer, "best_interconnect");
    const struct sp_json *links = report_tree_at(answer, "interconnects");
    for (const struct sp_json *link = links == NULL ? NULL : links->first; link != NULL; link = link->next) {
        double cost = number_at(link, "cost_frac");
        if (strcmp(string_at(link, "name"), best) == 0 && cost > report_link_tolerance_frac) {
            return sp_format(arena, "%s +%s%%", best, report_percent(arena, cost));
        }
    }
    return best;
}

static void fill_row(struct report_grid *grid, const struct report_rows *rows, int row)
{
    struct sp_arena *arena = grid->arena;
    const struct sp_json *answer = rows->rows[row].answer;
    const struct sp_json *error = report_row_error(rows, row);
    report_grid_add(grid);
    report_grid_text(grid, COMPARE_METHOD, "%s", rows->rows[row].values[0]);
    report_grid_text(grid, COMPARE_FRAMEWORK, "%s", string_at(answer, "layout.framework"));
    if (error != NULL) {
        report_grid_text(grid, COMPARE_WHY, "refused: %s", error->string);
        return;
    }
    report_grid_text(grid, COMPARE_BYTES, "%s", bytes_text(arena, answer));
    report_grid_text(grid, COMPARE_PEAK, "%s", report_three(arena, number_at(answer, "peak_bytes") / GIB));
    report_grid_text(grid, COMPARE_FITS, "%s", report_tree_at(answer, "fits")->boolean ? "yes" : "no");
    report_grid_text(grid, COMPARE_STEP, "%s", report_three(arena, number_at(answer, "step_time_s")));
    report_grid_text(grid, COMPARE_RATE, "%s", report_three(arena, number_at(answer, "tokens_per_s_per_gpu")));
    report_grid_text(grid, COMPARE_MFU, "%s", report_percent(arena, number_at(answer, "mfu_frac")));
    report_grid_text(grid, COMPARE_BOUND, "%s", string_at(answer, "bound"));
    report_grid_text(grid, COMPARE_LINK, "%s", link_text(arena, answer));
    report_grid_text(grid, COMPARE_WHY, "%s", why_text(arena, answer));
}

static void print_grid(const struct report_style *style, struct sp_arena *arena, const struct report_rows *rows)
{
    enum { INDENT = 2 };
    struct report_grid grid;
    report_grid_init(&grid, arena, columns, N_COMPARE_COLUMNS);
    for (int row = 0; row < rows->n_rows; row++) {
        fill_row(&grid, rows, row);
    }
    grid.gap = INDENT + report_grid_width(&grid) > REPORT_COLUMNS ? 1 : 0;
    report_grid_print(style, &grid);
}

/* ---- heading ---------------------------------------------------------------------------------------------------- */

static bool is_split(const struct report_rows *rows, int row)
{
    const struct sp_json *sp = report_tree_at(rows->rows[row].answer, "layout.sp");
    return sp != NULL && sp->number > 1.0;
}

/* What is the same in the rows that split the sequence, then how the others differ. */
static const char *heading_text(struct sp_arena *arena, const struct report_rows *rows)
{
    struct report_row *split = sp_arena_array(arena, (size_t)rows->n_rows + 1, sizeof(*split));
    struct report_rows part = {.names = rows->names, .n_names = rows->n_names, .rows = split};
    struct sp_texts whole = {.arena = arena};
    const struct sp_json *unsplit = NULL;
    for (int row = 0; row < rows->n_rows; row++) {
        if (report_row_error(rows, row) != NULL) {
            continue;
        }
        if (is_split(rows, row)) {
            split[part.n_rows++] = rows->rows[row];
        } else {
            sp_texts_add(&whole, "%s", report_row_name(arena, rows, row));
            unsplit = rows->rows[row].answer;
        }
    }
    if (part.n_rows == 0 || unsplit == NULL) {
        return report_rows_heading(arena, part.n_rows == 0 ? rows : &part);
    }
    return sp_format(arena, "%s; sp 1, dp %.0f for %s, which %s not split the sequence",
                     report_rows_heading(arena, &part), number_at(unsplit, "layout.dp"),
                     sp_join(arena, whole.items, whole.count, " and "), whole.count == 1 ? "does" : "do");
}

/* Every text that stands at `path` of a row or, for a list, at `key` of its members. */
static struct sp_texts texts_at(struct sp_arena *arena, const struct report_rows *rows, const char *path,
                                const char *key)
{
    struct sp_texts texts = {.arena = arena};
    for (int row = 0; row < rows->n_rows; row++) {
        const struct sp_json *value = report_tree_at(rows->rows[row].answer, path);
        bool is_list = value != NULL && value->type == SP_JSON_ARRAY;
        for (const struct sp_json *item = is_list ? value->first : NULL; item != NULL; item = item->next) {
            sp_texts_add(&texts, "%s", string_at(item, key));
        }
        if (value != NULL && value->type == SP_JSON_STRING) {
            sp_texts_add(&texts, "%s", value->string);
        }
    }
    return texts;
}

/* What the short headings mean. */
static const char *legend_text(struct sp_arena *arena, const struct report_rows *rows)
{
    enum { PERCENT = 100 };
    struct sp_texts links = texts_at(arena, rows, "interconnects", "name");
    struct sp_texts frameworks = texts_at(arena, rows, "layout.framework", "");
    bool is_one_domain = sp_texts_has(&links, tier_names[TIER_NVLINK]) || sp_texts_has(&links, tier_names[TIER_PCIE]);
    const char *ideal = framework_names[FRAMEWORK_IDEAL];
    const char *best =
        links.count == 0
            ? ""
            : sp_format(arena, "; best link: the slowest that costs at most %.0f %% against the fastest of %s%s",
                        report_link_tolerance_frac * PERCENT, sp_join(arena, links.items, links.count, ", "),
                        is_one_domain ? " (networks as if only tp shared a node)" : "");
    return sp_format(arena,
                     "GB/layer: sent by a GPU for one micro-batch, forward+backward; GiB: peak; tokens/s: per GPU%s%s",
                     best, sp_texts_has(&frameworks, ideal) ? "; ideal: a bound, no implementation" : "");
}

static void print_legend(const struct report_style *style, struct sp_arena *arena, const struct report_rows *rows)
{
    if (style->format == REPORT_MARKDOWN) {
        (void)fprintf(style->file, "\n%s\n", legend_text(arena, rows));
        return;
    }
    (void)fprintf(style->file, "\n%s", report_color(style, REPORT_DIM));
    report_wrap(style->file, 2, "columns ", legend_text(arena, rows));
    (void)fputs(report_color(style, REPORT_PLAIN), style->file);
}

static void print_heading(const struct report_style *style, struct sp_arena *arena, const struct report_rows *rows)
{
    const char *heading = heading_text(arena, rows);
    const char *overrides = report_rows_overrides(arena, rows);
    if (style->format == REPORT_MARKDOWN && heading[0] != '\0') {
        (void)fprintf(style->file, "**%s**\n\n", heading);
    } else if (heading[0] != '\0') {
        report_wrap(style->file, 0, "", heading);
    }
    report_overrides(style, overrides);
    bool has_open_line = style->format == REPORT_MARKDOWN ? overrides[0] != '\0' : heading[0] != '\0';
    (void)fputs(has_open_line ? "\n" : "", style->file);
}

void report_compare_table(const struct report_style *style, struct sp_arena *arena, const struct report_rows *rows)
{
    print_heading(style, arena, rows);
    print_grid(style, arena, rows);
    print_legend(style, arena, rows);
    report_compare_words(style, arena, rows);
    report_rows_remarks(style, arena, rows);
}

void report_compare(const struct report_style *style, struct sp_arena *arena, const struct report_rows *rows)
{
    switch (style->format) {
    case REPORT_TABLE:
    case REPORT_MARKDOWN:
        report_compare_table(style, arena, rows);
        break;
    case REPORT_CSV:
    case REPORT_JSON:
        report_rows_listed(style, arena, rows);
        break;
    }
}
