/* What the contract names and this version does not price yet, and what to use instead. */
#include "spec/spec_internal.h"

#include <string.h>

struct unbuilt {
    const char *what; /* as typed */
    const char *instead;
    bool (*asks)(const struct request *request);
};

static bool asks_documents(const struct request *request)
{
    return request->documents.is_given;
}

static bool asks_tokens(const struct request *request)
{
    return request->tokens.is_given;
}

static bool asks_prefill(const struct request *request)
{
    return request->mode == 1;
}

static bool asks_mask(const struct request *request)
{
    return request->mask != NULL && strcmp(request->mask, "causal") != 0;
}

static bool asks_lora(const struct request *request)
{
    return request->train != NULL && strcmp(request->train, "full") != 0;
}

static bool asks_offload(const struct request *request)
{
    return request->offload != NULL && strcmp(request->offload, "none") != 0;
}

static const struct unbuilt unbuilt_requests[] = {
    {"--documents", "leave it out: one document per sequence", asks_documents},
    {"--tokens", "leave it out: the step is priced, not the whole run", asks_tokens},
    {"--mode prefill", "use --mode train", asks_prefill},
    {"a --mask other than causal", "use --mask causal", asks_mask},
    {"a --train other than full", "use --train full", asks_lora},
    {"an --offload other than none", "use --offload none", asks_offload},
};

bool request_is_built(const struct request *request, struct sp_error *err)
{
    bool is_built = true;
    for (size_t i = 0; i < SP_COUNT_OF(unbuilt_requests); i++) {
        const struct unbuilt *unbuilt = &unbuilt_requests[i];
        if (unbuilt->asks(request)) {
            is_built = sp_fail_rule(err, "not_built", "%s is not built yet; %s", unbuilt->what, unbuilt->instead);
        }
    }
    return is_built;
}

bool layout_is_built(const struct layout_spec *layout, struct sp_error *err)
{
    bool is_built = true;
    if (layout->vpp > 1) {
        is_built = sp_fail_rule(err, "not_built", "vpp %lld is not built yet; use --vpp 1", (long long)layout->vpp);
    } else if (layout->schedule != SCHEDULE_1F1B) {
        is_built = sp_fail_rule(err, "not_built", "schedule %s is not built yet; use --schedule 1f1b",
                                schedule_names[layout->schedule]);
    }
    if (layout->ep > 1 || layout->etp > 1) {
        is_built = sp_fail_rule(err, "not_built",
                                "ep %lld, etp %lld: expert parallelism is not built yet; use --ep 1 "
                                "and --etp 1",
                                (long long)layout->ep, (long long)layout->etp);
    }
    if (layout->precision != DTYPE_BF16) {
        is_built = sp_fail_rule(err, "not_built", "precision %s is not built yet; use --precision bf16",
                                dtype_names[layout->precision]);
    }
    return is_built;
}
