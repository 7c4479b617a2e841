/* fit: measurements and predictions held against each other. Knows no commands and prints nothing.
 */
#ifndef SEQPLAN_FIT_H
#define SEQPLAN_FIT_H

#include "fit/validation.h"
#include "step/step.h"

/* ---- one timed line (fit_predict.c) ------------------------------------------------------------------------------ */

/* `kernel`: whose attention curve ("seqplan" for our own kernels). */
struct fit_machine {
    const struct hardware_spec *hardware;
    const char *kernel;
};
/* What seqplan predicts for one timed line of a measurement file, on this hardware: seconds of its median.
 * SP_ERROR_INPUT with the reason when a line has no prediction (a group or shape that the model lacks). Copies into
 * arena. */
bool fit_predict(struct sp_arena *arena, const struct fit_machine *machine, const struct measurement *line,
                 double *seconds, struct sp_error *err) SP_MUST_CHECK;

#endif
