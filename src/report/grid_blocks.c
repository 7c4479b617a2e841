/* Tables side by side. */
#include "report/report.h"

#include <assert.h>
#include <string.h>

enum { INDENT = 2, BLOCK_GAP = 3, MAX_BLOCKS = 3 };

struct blocks {
    const struct report_grid *grids;
    int n_grids;
    int gap;
};

static void print_block_line(const struct report_style *style, const struct blocks *blocks, const char **const *lines,
                             int row)
{
    int owed = INDENT;
    for (int i = 0; i < blocks->n_grids; i++) {
        const char *line = row <= blocks->grids[i].n_rows ? lines[i][row] : "";
        int length = report_trimmed_length(line);
        if (length > 0) {
            (void)fprintf(style->file, "%*s%.*s", owed, "", length, line);
            owed = 0;
        }
        int printed = report_text_width(line) - ((int)strlen(line) - length);
        owed += report_grid_width(&blocks->grids[i]) - printed + blocks->gap;
    }
    (void)fputc('\n', style->file);
}

static void print_blocks(const struct report_style *style, const struct blocks *blocks)
{
    const char **lines[MAX_BLOCKS] = {NULL};
    int n_rows = 0;
    for (int i = 0; i < blocks->n_grids; i++) {
        lines[i] = report_grid_lines(&blocks->grids[i]);
        n_rows = blocks->grids[i].n_rows > n_rows ? blocks->grids[i].n_rows : n_rows;
    }
    (void)fputs(report_color(style, REPORT_BOLD), style->file);
    print_block_line(style, blocks, lines, 0);
    (void)fputs(report_color(style, REPORT_PLAIN), style->file);
    for (int row = 1; row <= n_rows; row++) {
        print_block_line(style, blocks, lines, row);
    }
}

static int width_of_blocks(const struct blocks *blocks)
{
    int width = INDENT - blocks->gap;
    for (int i = 0; i < blocks->n_grids; i++) {
        width += report_grid_width(&blocks->grids[i]) + blocks->gap;
    }
    return width;
}

void report_grids_print(const struct report_style *style, const struct report_grid *grids, int n_grids)
{
    assert(n_grids <= MAX_BLOCKS);
    struct blocks blocks = {grids, n_grids, BLOCK_GAP};
    while (blocks.n_grids > 0 && grids[blocks.n_grids - 1].n_rows == 0) {
        blocks.n_grids--;
    }
    if (width_of_blocks(&blocks) > REPORT_COLUMNS) {
        blocks.gap--; /* a little closer, if that helps */
    }
    if (width_of_blocks(&blocks) <= REPORT_COLUMNS || blocks.n_grids < 2) {
        print_blocks(style, &blocks);
        return;
    }
    const struct blocks above = {grids, blocks.n_grids - 1, BLOCK_GAP};
    const struct blocks below = {&grids[blocks.n_grids - 1], 1, BLOCK_GAP};
    print_blocks(style, &above);
    (void)fputc('\n', style->file);
    print_blocks(style, &below);
}
