/* What the files of the validation page share. */
#ifndef SEQPLAN_VALIDATION_PAGE_H
#define SEQPLAN_VALIDATION_PAGE_H

#include "report/report.h"

struct page {
    FILE *file;
    struct sp_arena *arena;
    const struct report_style *style; /* Markdown */
    const struct report_validation *validation;
};

/* A pipe would end a cell of a table. */
const char *page_cell(struct sp_arena *arena, const char *text);
/* Groups of each source, with their targets. */
void page_groups(const struct page *page);
/* What the files say about medians that are far off. */
void page_misses(const struct page *page);
/* One source, row by row. */
void page_source(const struct page *page, const struct validation_source *source, bool is_last);

#endif
