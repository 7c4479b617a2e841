/* Predictions of timed lines: which part of the model prices which group. */
#include "fit/fit_internal.h"

#include <math.h>
#include <string.h>

static const struct sp_json *parameter(const struct measurement *line, const char *name, enum sp_json_type type)
{
    const struct sp_json *member = sp_json_member(line->parameters, name);
    return member != NULL && member->type == type ? member : NULL;
}

bool fit_number(const struct measurement *line, const char *name, double *value, struct sp_error *err)
{
    const struct sp_json *member = parameter(line, name, SP_JSON_NUMBER);
    if (member == NULL || !(member->number > 0)) {
        return sp_fail(err, SP_ERROR_INPUT, "\"%s\": expected a number above 0 among the parameters, found none", name);
    }
    *value = member->number;
    return true;
}

/* As far as tables of hardware files go. */
bool fit_whole(const struct measurement *line, const char *name, double most, double *value, struct sp_error *err)
{
    if (!fit_number(line, name, value, err)) {
        return false;
    }
    return (*value >= 1 && *value <= most && floor(*value) >= *value) ||
           sp_fail(err, SP_ERROR_INPUT, "\"%s\": expected a whole number from 1 to %g, found %g", name, most, *value);
}

double fit_number_or(const struct measurement *line, const char *name, double otherwise)
{
    const struct sp_json *member = parameter(line, name, SP_JSON_NUMBER);
    return member == NULL ? otherwise : member->number;
}

bool fit_text(const struct measurement *line, const char *name, const char **text, struct sp_error *err)
{
    *text = fit_text_or_none(line, name);
    return (*text)[0] != '\0' ||
           sp_fail(err, SP_ERROR_INPUT, "\"%s\": expected a text among the parameters, found none", name);
}

const char *fit_text_or_none(const struct measurement *line, const char *name)
{
    const struct sp_json *member = parameter(line, name, SP_JSON_STRING);
    return member == NULL ? "" : member->string;
}

bool fit_predict(struct sp_arena *arena, const struct fit_machine *machine, const struct measurement *line,
                 double *seconds, struct sp_error *err)
{
    *seconds = 0;
    if (line->kind != MEASUREMENT_TIMED) {
        return sp_fail(err, SP_ERROR_INPUT, "not a timed line");
    }
    bool is_method = line->group == MEASUREMENT_METHOD || line->group == MEASUREMENT_LAYER;
    return is_method ? fit_predict_method(arena, machine, line, seconds, err)
                     : fit_predict_kernel(machine, line, seconds, err);
}
