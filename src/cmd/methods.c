/* --sp-method A,B,...: one question for each method. */
#include "cmd/command.h"

#include <string.h>

bool method_splits(enum method_id method)
{
    return method != METHOD_NONE && method != METHOD_NAIVE;
}

static bool add_named(struct sp_arena *arena, const char *name, enum method_id methods[N_METHODS], int *n_methods,
                      struct sp_error *err)
{
    int index = sp_index_of(name, method_names);
    if (index < 0) {
        const char *nearest = sp_nearest(name, method_names, N_METHODS);
        return sp_fail(err, SP_ERROR_USAGE, "--sp-method: expected some of %s, found \"%s\"%s",
                       sp_join(arena, method_names, N_METHODS, ", "), name,
                       nearest == NULL ? "" : sp_format(arena, " (did you mean \"%s\"?)", nearest));
    }
    for (int i = 0; i < *n_methods; i++) {
        if (methods[i] == (enum method_id)index) {
            return sp_fail(err, SP_ERROR_USAGE, "--sp-method: \"%s\" is given twice", name);
        }
    }
    methods[(*n_methods)++] = (enum method_id)index;
    return true;
}

bool methods_parse(struct sp_arena *arena, const char *text, enum method_id methods[N_METHODS], int *n_methods,
                   struct sp_error *err)
{
    *n_methods = 0;
    for (;;) {
        size_t length = strcspn(text, ",");
        if (!add_named(arena, sp_strndup(arena, text, length), methods, n_methods, err)) {
            return false;
        }
        if (text[length] == '\0') {
            return true;
        }
        text += length + 1;
    }
}

/* What does not split the sequence has the whole of it on every rank: sp 1, and dp takes those GPUs. */
static void leave_whole(const struct request *base, struct request *request)
{
    request->sp = (struct sp_option_count){.is_given = true, .value = 1};
    if (base->dp.is_given && base->sp.is_given) {
        request->dp.value = base->dp.value * base->sp.value;
    } else {
        request->dp.is_given = false;
    }
}

struct request methods_request(const struct request *base, enum method_id method)
{
    struct request request = *base;
    request.method = (int)method;
    request.framework = base->framework >= 0 ? base->framework : (int)method_home(method);
    request.sp_ulysses.is_given = base->sp_ulysses.is_given && method == METHOD_USP;
    request.sp_inner.is_given = base->sp_inner.is_given && method == METHOD_DOUBLE_RING;
    if (!method_splits(method)) {
        leave_whole(base, &request);
    }
    return request;
}
