/* fit: what was measured beside what the model says. Predictions of timed lines, and fits of a machine's curves to them,
 * with error bars (docs/calibration.md).
 *
 * Nothing here prints or opens a store: who calls brings the lines.
 */
#ifndef SEQPLAN_FIT_H
#define SEQPLAN_FIT_H

#include "step/step.h"

/* ---- predictions (fit_predict.c) -------------------------------------------------------------------------------- */

/* What seqplan predicts for one timed line of a measurement file, on this hardware: seconds of its median. `kernel`:
 * whose attention curve ("seqplan" for our own kernels). SP_ERROR_INPUT with the reason when a line has no prediction (a
 * group or shape that the model lacks). Copies into arena. */
struct fit_machine {
    const struct hardware_spec *hardware;
    const char *kernel;
};
bool fit_predict(struct sp_arena *arena, const struct fit_machine *machine, const struct measurement *line,
                 double *seconds, struct sp_error *err) SP_MUST_CHECK;

#endif
