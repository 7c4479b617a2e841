#include "report/report.h"
bool report_validation_plot(struct sp_arena *arena, const struct report_validation *validation,
                            enum report_validation_picture picture, const char *path, struct sp_error *err)
{
    (void)arena;
    (void)validation;
    (void)picture;
    (void)path;
    return sp_fail(err, SP_ERROR_BUG, "not drawn");
}
