#include "report/report.h"
void report_validation_page(const struct report_style *style, struct sp_arena *arena,
                            const struct report_validation *validation)
{
    (void)style;
    (void)arena;
    (void)validation;
}
