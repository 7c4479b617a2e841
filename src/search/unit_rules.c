/* What of a unit breaks a rule, and how many layouts that is: what is shared is decided as early as it can be, and what is
 * left out is counted whole. */
#include "search/unit_walk.h"

#include <assert.h>
#include <string.h>

/* ---- counting ---------------------------------------------------------------------------------------------------- */

void walk_reject(struct walk *walk, const char *reason, int64_t count, const char *example)
{
    if (!walk->search->is_rematch) {
        rejections_add(&walk->findings->counts, walk->findings->arena, reason, count, example);
    }
}

static bool has_reason(const struct walk *walk, const char *reason)
{
    const struct plan *counts = &walk->findings->counts;
    for (int i = 0; i < counts->n_rejections; i++) {
        if (strcmp(counts->rejections[i].reason, reason) == 0) {
            return true;
        }
    }
    return false;
}

/* The layout at work, as options say it. */
static const char *layout_text(const struct walk *walk)
{
    struct sp_arena *arena = walk->worker->scratch;
    const struct layout_spec layout = space_layout(walk->search->space, &walk->at);
    const char *part = layout.method == METHOD_USP ? sp_format(arena, " sp-ulysses %lld", (long long)layout.sp_ulysses)
                       : layout.method == METHOD_DOUBLE_RING
                           ? sp_format(arena, " sp-inner %lld", (long long)layout.sp_inner)
                           : "";
    return sp_format(arena, "%s %s tp %lld sp %lld%s pp %lld dp %lld micro-batch %lld",
                     framework_names[layout.framework], method_names[layout.method], (long long)layout.tp,
                     (long long)layout.sp, part, (long long)layout.pp, (long long)layout.dp,
                     (long long)layout.micro_batch);
}

void walk_reject_bytes(struct walk *walk, const char *reason, int64_t count, double bytes, bool is_bound)
{
    if (walk->search->is_rematch || has_reason(walk, reason)) {
        walk_reject(walk, reason, count, "");
        return;
    }
    struct sp_arena *scratch = walk->worker->scratch;
    struct sp_arena_mark mark = sp_arena_mark(scratch);
    bool is_host = strcmp(reason, "host_memory") == 0;
    const struct constraints *constraints = &walk->search->constraints;
    double limit = is_host                         ? constraints->host_bytes
                   : strcmp(reason, "memory") == 0 ? constraints->capacity_bytes
                                                   : constraints->most_bytes;
    walk_reject(walk, reason, count,
                sp_format(scratch, "%s: %s%s %s, of %s", layout_text(walk), is_bound ? "at least " : "",
                          sp_quantity_print(scratch, bytes, SP_BYTES), is_host ? "of host memory" : "at its peak",
                          sp_quantity_print(scratch, limit, SP_BYTES)));
    sp_arena_rewind(scratch, mark);
}

void walk_reject_time(struct walk *walk, const char *reason, int64_t count, double time_s)
{
    if (walk->search->is_rematch || has_reason(walk, reason)) {
        walk_reject(walk, reason, count, "");
        return;
    }
    struct sp_arena *scratch = walk->worker->scratch;
    struct sp_arena_mark mark = sp_arena_mark(scratch);
    walk_reject(walk, reason, count,
                sp_format(scratch, "%s: at least %s a step", layout_text(walk),
                          sp_quantity_print(scratch, time_s, SP_SECONDS)));
    sp_arena_rewind(scratch, mark);
}

/* ---- rules ------------------------------------------------------------------------------------------------------- */

/* The question of what is decided so far, for rules; texts go to scratch. */
static struct question *ask(struct walk *walk)
{
    struct question *question = &walk->worker->question;
    struct sp_arena *scratch = walk->worker->scratch;
    question->layout = space_layout(walk->search->space, &walk->at);
    question->warnings = (struct sp_texts){.arena = scratch};
    return question;
}

/* False, and counted, when a theme of rules refuses what is decided so far. */
bool walk_keeps_theme(struct walk *walk, enum rule_theme theme, int64_t count)
{
    struct sp_error err = {.kind = SP_ERROR_NONE};
    struct sp_arena_mark mark = sp_arena_mark(walk->worker->scratch);
    bool holds = layout_check_theme(ask(walk), theme, &err);
    if (!holds) {
        walk_reject(walk, err.rule, count, err.text);
    }
    sp_arena_rewind(walk->worker->scratch, mark);
    return holds;
}

static bool keeps_method(struct walk *walk, int64_t count)
{
    struct sp_error err = {.kind = SP_ERROR_NONE};
    struct sp_arena_mark mark = sp_arena_mark(walk->worker->scratch);
    bool holds = step_check_method(ask(walk), &err);
    if (!holds) {
        walk_reject(walk, err.rule, count, err.text);
    }
    sp_arena_rewind(walk->worker->scratch, mark);
    return holds;
}

/* What the framework itself does not run, whatever is recomputed. */
bool walk_is_run(struct walk *walk, int64_t count)
{
    struct sp_arena_mark mark = sp_arena_mark(walk->worker->scratch);
    struct question *question = ask(walk);
    question->layout.offloads_activations = false;
    const char *refusal = framework_refusal(question);
    if (refusal != NULL) {
        walk_reject(walk, "not_in_framework", count, refusal);
    }
    sp_arena_rewind(walk->worker->scratch, mark);
    return refusal == NULL;
}

void walk_begin(struct walk *walk)
{
    const struct unit *unit = walk->unit;
    walk->at = (struct assignment){.framework = unit->framework,
                                   .method = unit->method,
                                   .tp = unit->tp,
                                   .sp = unit->sp,
                                   .part = unit->part,
                                   .pp = 1,
                                   .dp = walk->search->space->gpus / unit->tp / unit->sp,
                                   .ep = 1,
                                   .etp = 1,
                                   .micro_batch = 1,
                                   .vpp = 1,
                                   .schedule = SCHEDULE_1F1B,
                                   .recompute = {.kind = RECOMPUTE_NONE}};
}

/* Rules that all of a unit keeps or breaks. */
bool walk_unit_is_legal(struct walk *walk)
{
    int64_t size = walk->unit->size;
    return walk_keeps_theme(walk, RULES_DEGREES, size) && keeps_method(walk, size) && walk_is_run(walk, size);
}

/* ---- pipelines --------------------------------------------------------------------------------------------------- */

void walk_list_pipelines(struct walk *walk)
{
    const struct space *space = walk->search->space;
    walk->n_pipelines = 0;
    for (int s = 0; s < N_SCHEDULES; s++) {
        struct values chunks;
        if (!space_has_schedule(space, walk->at.framework, (enum schedule_id)s, walk->at.pp)) {
            continue;
        }
        space_chunks(space, (enum schedule_id)s, walk->at.pp, &chunks);
        for (int v = 0; v < chunks.n; v++) {
            assert(walk->n_pipelines < MAX_PIPELINES);
            walk->pipelines[walk->n_pipelines++] =
                (struct pipeline){.schedule = (enum schedule_id)s,
                                  .vpp = chunks.items[v],
                                  .n_recomputes = space_recomputes(space, walk->at.pp, chunks.items[v])};
        }
    }
}

/* Of the grid and micro-batch at work, over `times` placements and shardings. */
void walk_check_pipelines(struct walk *walk, int64_t times)
{
    const struct space *space = walk->search->space;
    const struct framework_spec *framework = &walk->worker->question.software.framework;
    walk->n_legal = walk->n_offloading = 0;
    for (int i = 0; i < walk->n_pipelines; i++) {
        struct pipeline *pipeline = &walk->pipelines[i];
        walk->at.schedule = pipeline->schedule;
        walk->at.vpp = pipeline->vpp;
        pipeline->is_legal = walk_keeps_theme(walk, RULES_PIPELINE, times * pipeline->n_recomputes);
        walk->n_legal += pipeline->is_legal ? pipeline->n_recomputes : 0;
        for (int r = 0; pipeline->is_legal && r < pipeline->n_recomputes; r++) {
            walk->n_offloading += framework_offloads_activations(framework, space_recompute(space, r).kind) ? 1 : 0;
        }
    }
}

/* ---- shardings --------------------------------------------------------------------------------------------------- */

/* Layouts of the sharding at work that the framework runs: of the legal pipelines, those whose activations can go where
 * they are to go. */
int64_t walk_count_run(const struct walk *walk)
{
    return (walk->at.offload & PLAN_OFFLOAD_ACTIVATIONS) != 0 ? walk->n_offloading : walk->n_legal;
}

/* The others are counted. */
static void reject_offloads(struct walk *walk, int64_t n_orders)
{
    struct sp_arena_mark mark = sp_arena_mark(walk->worker->scratch);
    struct question *question = ask(walk);
    bool is_full = framework_offloads_activations(&question->software.framework, RECOMPUTE_FULL);
    question->layout.recompute = is_full ? RECOMPUTE_NONE : RECOMPUTE_FULL;
    const char *refusal = framework_refusal(question);
    int64_t count = n_orders * (walk->n_legal - walk_count_run(walk));
    walk_reject(walk, "not_in_framework", count, refusal != NULL ? refusal : "");
    sp_arena_rewind(walk->worker->scratch, mark);
}

void walk_check_shardings(struct walk *walk, int64_t n_orders, struct shardings *shardings)
{
    const struct space *space = walk->search->space;
    int64_t times = n_orders * walk->n_legal;
    *shardings = (struct shardings){.n_layouts = 0};
    for (int zero = 0; zero < N_ZERO_STAGES; zero++) {
        for (unsigned offload = 0; offload < N_PLAN_OFFLOADS; offload++) {
            walk->at.zero = zero;
            walk->at.offload = offload;
            if (!space_has_sharding(space, zero, offload)) {
                continue;
            }
            bool is_legal = walk_keeps_theme(walk, RULES_SOFTWARE, times) && walk_is_run(walk, times);
            shardings->is_legal[zero][offload] = is_legal && walk_count_run(walk) > 0;
            shardings->n_layouts += is_legal ? walk_count_run(walk) : 0;
            if (is_legal && walk_count_run(walk) < walk->n_legal) {
                reject_offloads(walk, n_orders);
            }
        }
    }
    walk->at.zero = 0;
    walk->at.offload = 0;
}
