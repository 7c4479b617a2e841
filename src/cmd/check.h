/* What the files of check share. */
#ifndef SEQPLAN_CHECK_H
#define SEQPLAN_CHECK_H

#include "cmd/command.h"

/* Reads a file of claims (seqplan.claims/1), prices its questions and judges them. A bad file and a question that is refused
 * are SP_ERROR_INPUT and name their place. Copies into arena. */
bool check_file_read(struct sp_arena *arena, const char *path, const struct claim_bounds *bounds,
                     struct report_claim_document *document, struct sp_error *err) SP_MUST_CHECK;
/* The same of JSON; document->path is set, and what errors call it. Borrows file. */
bool check_file_parse(struct sp_arena *arena, const struct sp_json *file, const struct claim_bounds *bounds,
                      struct report_claim_document *document, struct sp_error *err) SP_MUST_CHECK;

#endif
