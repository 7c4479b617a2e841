/* How far published steps lie from the model: what a claim is held against where the machine has no interval. */
#include "spec/spec_internal.h"

#define TEXT(member, text)                                                                                             \
    {                                                                                                                  \
        .key = #member, .type = SP_FIELD_STRING, .offset = offsetof(struct claim_bounds, member), .is_required = true, \
        .help = (text)                                                                                                 \
    }

static const struct sp_field fields[] = {
    TEXT(schema, "\"seqplan.claim-bounds/1\""),
    TEXT(name, "name of the file"),
    TEXT(title, "as people write it"),
    TEXT(source, "where the file as a whole comes from"),
    {.key = "step_time_factor",
     .type = SP_FIELD_FIGURE,
     .dimension = SP_PURE,
     .offset = offsetof(struct claim_bounds, step_time_factor),
     .min = 0.01,
     .max = 100,
     .is_required = true,
     .help = "measured over predicted step time: median, and between low and high nine of ten"},
    {.key = NULL},
};

bool claim_bounds_read(struct sp_arena *arena, struct claim_bounds *bounds, struct sp_error *err)
{
    *bounds = (struct claim_bounds){0};
    const char *path = data_find(arena, "claims/bounds", "published", err);
    const struct sp_json *json = path == NULL ? NULL : sp_json_read(arena, path, err);
    const struct sp_decoder decoder = {.arena = arena, .file = path};
    return json != NULL && schema_check(&decoder, json, "$", "seqplan.claim-bounds/1", err) &&
           sp_fields_decode(fields, &decoder, json, "$", bounds, err);
}
