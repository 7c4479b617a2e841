/* What the contract names and this version does not price yet, and what to use instead. */
#include "spec/spec_internal.h"

bool request_is_built(const struct request *request, struct sp_error *err)
{
    enum { PREFILL = 1 }; /* of --mode train|prefill */
    if (request->mode != PREFILL) {
        return true;
    }
    return sp_fail_rule(err, "not_built", "--mode prefill is not built yet; use --mode train");
}
