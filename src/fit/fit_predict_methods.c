/* Predictions of the groups method and layer. */
#include "fit/fit_internal.h"

bool fit_predict_method(struct sp_arena *arena, const struct fit_machine *machine, const struct measurement *line,
                        double *seconds, struct sp_error *err)
{
    (void)arena;
    (void)machine;
    (void)seconds;
    return sp_fail(err, SP_ERROR_INPUT, "the group %s has no prediction yet", measurement_group_names[line->group]);
}
