#include "fit/fit.h"

bool fit_predict(struct sp_arena *arena, const struct fit_machine *machine, const struct measurement *line,
                 double *seconds, struct sp_error *err)
{
    (void)arena;
    (void)machine;
    *seconds = 0.0;
    return sp_fail(err, SP_ERROR_INPUT, "measurements of group %s have no prediction yet",
                   measurement_group_names[line->group]);
}
