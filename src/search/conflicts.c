/* Axes that leave nothing between them: said before anything is searched. */
#include "search/search_internal.h"

static bool has_bit(unsigned set, unsigned bit)
{
    return (set >> bit & 1U) != 0;
}

static const char *counts_text(struct sp_arena *arena, const struct plan_counts *counts)
{
    struct sp_texts texts = {.arena = arena};
    for (int i = 0; i < counts->n; i++) {
        sp_texts_add(&texts, "%lld", (long long)counts->values[i]);
    }
    return sp_join(arena, texts.items, texts.count, ",");
}

/* ---- methods and frameworks -------------------------------------------------------------------------------------- */

static const char *space_frameworks_text(const struct space *space)
{
    struct sp_texts texts = {.arena = space->arena};
    for (int f = 0; f < N_FRAMEWORKS; f++) {
        if (space->bases[f] != NULL) {
            sp_texts_add(&texts, "%s", framework_names[f]);
        }
    }
    return sp_join(space->arena, texts.items, texts.count, ", ");
}

/* All that have the method, in the space or not. */
static const char *legal_frameworks_text(struct sp_arena *arena, enum method_id method)
{
    struct sp_texts texts = {.arena = arena};
    for (int f = 0; f < N_FRAMEWORKS; f++) {
        if (pair_is_legal(method, (enum framework_id)f)) {
            sp_texts_add(&texts, "%s", framework_names[f]);
        }
    }
    return sp_join(arena, texts.items, texts.count, ", ");
}

static bool is_in_space(const struct space *space, enum method_id method)
{
    for (int f = 0; f < N_FRAMEWORKS; f++) {
        if (space->bases[f] != NULL && pair_is_legal(method, (enum framework_id)f)) {
            return true;
        }
    }
    return false;
}

/* A framework of the space that has a method asked for. */
static bool has_methods(const struct space *space, enum framework_id framework)
{
    unsigned methods = space->asked->axes.methods;
    for (unsigned m = 0; m < N_METHODS; m++) {
        if ((methods == 0 || has_bit(methods, m)) && pair_is_legal((enum method_id)m, framework)) {
            return space->bases[framework] != NULL;
        }
    }
    return false;
}

static bool check_pairs(const struct space *space, struct sp_error *err)
{
    struct sp_texts asked = {.arena = space->arena};
    unsigned first = N_METHODS;
    for (unsigned m = 0; m < N_METHODS; m++) {
        if (!has_bit(space->asked->axes.methods, m)) {
            continue;
        }
        if (is_in_space(space, (enum method_id)m)) {
            return true;
        }
        first = m < first ? m : first;
        sp_texts_add(&asked, "%s", method_names[m]);
    }
    if (first == N_METHODS) {
        return true;
    }
    return sp_fail_rule(err, "pair", "--sp-method: %s %s not in %s; frameworks of %s: %s",
                        sp_join(space->arena, asked.items, asked.count, ", "), asked.count == 1 ? "is" : "are",
                        space_frameworks_text(space), method_names[first],
                        legal_frameworks_text(space->arena, (enum method_id)first));
}

/* An option for a part of sp that one method alone has. */
struct part_option {
    const char *name, *rule;
    enum method_id method;
    const struct plan_counts *counts;
};

static bool check_part(const struct space *space, const struct part_option *option, struct sp_error *err)
{
    const struct plan_axes *axes = &space->asked->axes;
    const char *method = method_names[option->method];
    bool is_split = axes->sp.n == 0;
    for (int i = 0; i < axes->sp.n; i++) {
        is_split = is_split || axes->sp.values[i] > 1;
    }
    if (option->counts->n == 0) {
        return true;
    }
    if (axes->methods != 0 && !has_bit(axes->methods, (unsigned)option->method)) {
        return sp_fail_rule(err, option->rule, "--%s is for %s, which --sp-method leaves out", option->name, method);
    }
    if (!is_in_space(space, option->method)) {
        return sp_fail_rule(err, option->rule, "--%s is for %s, which is not in %s; frameworks of %s: %s", option->name,
                            method, space_frameworks_text(space), method,
                            legal_frameworks_text(space->arena, option->method));
    }
    return is_split ||
           sp_fail_rule(err, option->rule, "--%s is a part of sp, which --sp 1 does not split", option->name);
}

static bool check_parts(const struct space *space, struct sp_error *err)
{
    const struct plan_axes *axes = &space->asked->axes;
    const struct part_option options[] = {{"sp-ulysses", "sp_ulysses", METHOD_USP, &axes->sp_ulysses},
                                          {"sp-inner", "sp_inner", METHOD_DOUBLE_RING, &axes->sp_inner}};
    for (size_t i = 0; i < SP_COUNT_OF(options); i++) {
        if (!check_part(space, &options[i], err)) {
            return false;
        }
    }
    return true;
}

/* ---- pipelines --------------------------------------------------------------------------------------------------- */

static bool has_schedule(const struct space *space, enum framework_id framework, enum schedule_id schedule)
{
    enum { SOME_STAGES = 2 };
    return has_methods(space, framework) && space_has_schedule(space, framework, schedule, SOME_STAGES);
}

/* Schedules of a pipeline in the space; `fits`: only those that have a vpp asked for. */
static const char *schedules_text(const struct space *space, bool fits, size_t *n)
{
    struct sp_texts texts = {.arena = space->arena};
    for (int s = 0; s < N_SCHEDULES; s++) {
        struct values chunks = {0};
        bool is_in = false;
        for (int f = 0; f < N_FRAMEWORKS; f++) {
            is_in = is_in || has_schedule(space, (enum framework_id)f, (enum schedule_id)s);
        }
        if (is_in) {
            space_chunks(space, (enum schedule_id)s, 1, &chunks);
        }
        if (is_in && (!fits || chunks.n > 0)) {
            sp_texts_add(&texts, "%s", schedule_names[s]);
        }
    }
    *n = texts.count;
    return sp_join(space->arena, texts.items, texts.count, ", ");
}

static bool has_pipeline(const struct space *space, const struct values *pps)
{
    for (int f = 0; f < N_FRAMEWORKS; f++) {
        for (int p = 0; has_methods(space, (enum framework_id)f) && p < pps->n; p++) {
            if (space_pipelines(space, (enum framework_id)f, pps->items[p]) > 0) {
                return true;
            }
        }
    }
    return false;
}

/* Without stages a schedule means nothing and 1f1b stands for it: what no schedule asked for has is a slip there too. */
static bool check_chunks(const struct space *space, struct sp_error *err)
{
    const struct plan_counts *vpp = &space->asked->axes.vpp;
    size_t n = 0;
    size_t n_fit = 0;
    const char *schedules = schedules_text(space, false, &n);
    (void)schedules_text(space, true, &n_fit);
    return vpp->n == 0 || n == 0 || n_fit > 0 ||
           sp_fail_rule(err, "schedule",
                        "--vpp %s is not of %s: interleaved has 2 chunks a rank or more, zbv 2, every other 1",
                        counts_text(space->arena, vpp), schedules);
}

static bool check_pipelines(const struct space *space, struct sp_error *err)
{
    const struct plan_axes *axes = &space->asked->axes;
    struct values pps;
    space_degrees(&axes->pp, space->gpus, &pps);
    if (!check_chunks(space, err)) {
        return false;
    }
    if (has_pipeline(space, &pps)) {
        return true;
    }
    bool has_stages = false;
    for (int p = 0; p < pps.n; p++) {
        has_stages = has_stages || pps.items[p] > 1;
    }
    if (!has_stages && axes->vpp.n > 0) {
        return sp_fail_rule(err, "schedule", "--vpp %s with pp 1: several chunks a rank need two stages or more",
                            counts_text(space->arena, &axes->vpp));
    }
    return axes->vpp.n > 0 || !has_bit(axes->schedules, SCHEDULE_INTERLEAVED) ||
           sp_fail_rule(err, "layers_over_pp",
                        "--schedule interleaved: no vpp of 2 or more divides the %lld layers over pp %s; give --vpp",
                        (long long)space_any_base(space)->model.n_layers, counts_text(space->arena, &axes->pp));
}

bool plan_axes_check(const struct plan_question *question, struct sp_arena *arena, struct sp_error *err)
{
    struct space space;
    return space_open(question, question->request.gpus.value, arena, &space, err) && check_parts(&space, err) &&
           check_pairs(&space, err) && check_pipelines(&space, err);
}
