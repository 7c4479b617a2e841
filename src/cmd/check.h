/* What the files of check share. */
#ifndef SEQPLAN_CHECK_H
#define SEQPLAN_CHECK_H

#include "cmd/command.h"

/* Reads a file of claims (seqplan.claims/1), prices its questions and judges them. A bad file or a question that is refused
 * is SP_ERROR_INPUT or SP_ERROR_USAGE and names its place. Copies into arena. */
bool check_file_read(struct sp_arena *arena, const char *path, const struct claim_bounds *bounds,
                     struct report_claim_document *document, struct sp_error *err) SP_MUST_CHECK;

#endif
