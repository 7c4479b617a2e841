/* Why the rest was dropped and, when nothing fits, what lacks least. */
#include "report/report.h"

#include <assert.h>
#include <string.h>

static const double GIB = 0x1p30;

/* Bytes of a GPU that a layout may use: its capacity, less what is to stay free, and at most --max-memory. */
static double allowed_bytes(const struct report_plan *plan, double capacity_bytes)
{
    const struct plan_question *asked = plan->asked;
    double allowed = capacity_bytes * (1.0 - asked->headroom_frac) - asked->headroom_bytes;
    bool is_limited = asked->max_memory_bytes > 0.0 && asked->max_memory_bytes < allowed;
    return is_limited ? asked->max_memory_bytes : allowed;
}

struct report_missing report_plan_missing(const struct report_plan *plan)
{
    const struct sp_json *miss = plan->nearest_miss;
    double allowed = allowed_bytes(plan, sp_json_member(miss, "capacity_bytes")->number);
    double gpu = sp_json_member(miss, "peak_bytes")->number - allowed;
    double host = sp_json_member(miss, "host_bytes")->number - sp_json_member(miss, "host_capacity_bytes")->number;
    bool is_of_host = !(gpu > 0.0) && host > 0.0;
    return (struct report_missing){.bytes = gpu > 0.0    ? gpu
                                            : is_of_host ? host
                                                         : 0.0,
                                   .allowed_bytes = allowed,
                                   .is_of_host = is_of_host};
}

static const double DAY_S = 86400.0;

/* Days, and less than one in what it is at most. */
static const char *days_text(struct sp_arena *arena, double seconds)
{
    return seconds < DAY_S ? sp_quantity_print(arena, seconds, SP_SECONDS)
                           : sp_format(arena, "%s days", report_three(arena, seconds / DAY_S));
}

/* GiB, and what is far less in its own unit. */
static const char *room_text(struct sp_arena *arena, double bytes)
{
    static const double small_gib = 0.01;
    return bytes / GIB < small_gib ? sp_quantity_print(arena, bytes, SP_BYTES)
                                   : sp_format(arena, "%s GiB", report_three(arena, bytes / GIB));
}

/* Memory is enough, but too slow for what is asked: the nearest is the fastest. */
static const char *slow_text(struct sp_arena *arena, const struct report_plan *plan, const char *considered)
{
    const struct plan_question *asked = plan->asked;
    assert(plan->best != NULL);
    const struct estimate *estimate = plan->best->estimate;
    if (asked->deadline_s > 0.0 && estimate->run_days * DAY_S > asked->deadline_s) {
        return sp_format(arena, "none of %s layouts is done in %s; the fastest takes %s", considered,
                         days_text(arena, asked->deadline_s), days_text(arena, estimate->run_days * DAY_S));
    }
    return sp_format(arena, "none of %s layouts reaches %s %% MFU; the fastest has %s", considered,
                     report_percent(arena, asked->min_mfu_frac), report_percent(arena, estimate->mfu_frac));
}

const char *report_plan_miss_text(struct sp_arena *arena, const struct report_plan *plan)
{
    const char *considered = report_count(arena, plan->plan->considered);
    if (plan->plan->is_interrupted) {
        return sp_format(arena, "interrupted: nothing that fits was found among %s layouts", considered);
    }
    if (plan->plan->considered == 0) {
        return "nothing to consider: what is asked of methods, frameworks, schedules and chunks goes together in no "
               "layout; give an axis more values";
    }
    if (plan->nearest_miss == NULL) {
        return sp_format(arena, "none of %s layouts keeps the rules", considered);
    }
    const struct report_missing missing = report_plan_missing(plan);
    if (!(missing.bytes > 0.0)) {
        return slow_text(arena, plan, considered);
    }
    double capacity_bytes = sp_json_member(plan->nearest_miss, "capacity_bytes")->number;
    bool is_limited = missing.allowed_bytes < capacity_bytes;
    const char *room = is_limited ? sp_format(arena, " in the %s asked", room_text(arena, missing.allowed_bytes)) : "";
    return sp_format(arena, "none of %s layouts fits%s; the nearest lacks %s GiB%s", considered, room,
                     report_three(arena, missing.bytes / GIB), missing.is_of_host ? " of host memory" : "");
}

void report_plan_remarks(const struct report_plan *plan, struct sp_texts *remarks)
{
    double capacity_bytes = plan->base->hardware.gpu.hbm_capacity.value;
    double asked_bytes = plan->asked->max_memory_bytes;
    if (asked_bytes > capacity_bytes) {
        sp_texts_add(remarks, "--max-memory %s is above the %s of the GPU: no limit",
                     sp_quantity_print(remarks->arena, asked_bytes, SP_BYTES),
                     sp_quantity_print(remarks->arena, capacity_bytes, SP_BYTES));
    }
    if (plan->plan->is_interrupted) {
        sp_texts_add(remarks, "interrupted: the best of %s layouts, the rest was not considered; run it again for all",
                     report_count(remarks->arena, plan->plan->considered));
    }
    if (plan->plan->idle_values != NULL) {
        sp_texts_add(remarks, "%s: in no layout, as the degrees must multiply to the GPUs; leave out or change",
                     plan->plan->idle_values);
    }
}

/* Rules by name, and what it means to break one. A rule that is not here is told by its name. */
static const char *const reasons[][2] = {
    {"memory", "need more memory than a GPU has"},
    {"host_memory", "need more memory than a host has"},
    {"max_memory", "need more than --max-memory"},
    {"headroom", "leave less free than --headroom"},
    {"min_mfu", "stay below --min-mfu"},
    {"deadline", "miss the --deadline"},
    {"bound", "cannot be among the best (a bound)"},
    {"not_in_framework", "the framework does not run"},
    {"batch_divides", "batch does not divide over dp"},
    {"few_micro_batches", "too few micro-batches for the stages"},
    {"recompute_block", "recompute more layers than a chunk"},
    {"sequence_divides", "sequence does not divide"},
    {"heads_over_tp", "heads do not divide over tp"},
    {"kv_heads_over_tp", "kv heads do not divide over tp"},
    {"ulysses_heads", "heads do not divide over Ulysses"},
    {"ffn_over_tp", "MLP does not divide over tp"},
    {"layers_over_pp", "layers do not divide over pp"},
    {"pp_layers", "layers are not as --pp-layers says"},
    {"experts_over_ep", "experts do not divide over ep"},
    {"expert_ffn_over_etp", "experts do not divide over etp"},
    {"experts", "the model has no experts"},
    {"expert_gpus", "GPUs do not divide over pp x ep x etp"},
    {"offload", "offload of parameters needs zero 3"},
    {"sp_ulysses", "Ulysses degree does not divide sp"},
    {"sp_inner", "inner ring does not divide sp"},
    {"method_splits", "method does not split the sequence"},
    {"head_dim", "no kernel for the head dimension"},
    {"window", "the method has no sliding window"},
    {"sinks", "the method has no attention sinks"},
    {"documents", "documents do not suit the split"},
    {"not_built", "have no price yet"},
    {"experts_need_tp_sp", "experts with tp need --tp-sp on"},
    {"schedule", "schedule does not take the stages"},
    {"schedule_micro_batches", "schedule needs other micro-batches"},
    {"pair", "the framework lacks the method"},
    {"needs_network", "need a network"},
    {"gpus_product", "degrees do not multiply to the GPUs"},
    {"gpus_per_node", "GPUs are not whole nodes"},
};

static const char *reason_text(struct sp_arena *arena, const char *reason)
{
    for (size_t i = 0; i < SP_COUNT_OF(reasons); i++) {
        if (strcmp(reasons[i][0], reason) == 0) {
            return reasons[i][1];
        }
    }
    return report_words(arena, reason);
}

/* Several broken rules are joined by "; ": the first is the one that is counted. */
static const char *example_text(struct sp_arena *arena, const char *example)
{
    const char *end = example == NULL ? NULL : strstr(example, "; ");
    return end == NULL ? example : sp_strndup(arena, example, (size_t)(end - example));
}

struct report_grid report_plan_rejections(struct sp_arena *arena, const struct report_plan *plan)
{
    static const struct report_column columns[] = {
        {.heading = "dropped", .is_right = true}, {.heading = "why"}, {.heading = "for example"}};
    enum { MOST = 6 };
    const struct plan *found = plan->plan;
    struct report_grid grid;
    report_grid_init(&grid, arena, columns, (int)SP_COUNT_OF(columns));
    int n_shown = found->n_rejections <= MOST ? found->n_rejections : MOST - 1;
    for (int i = 0; i < n_shown; i++) {
        const struct plan_rejection *rejection = &found->rejections[i];
        const char *example = example_text(arena, rejection->example);
        report_grid_add(&grid);
        report_grid_text(&grid, 0, "%s", report_count(arena, rejection->count));
        report_grid_text(&grid, 1, "%s", reason_text(arena, rejection->reason));
        report_grid_text(&grid, 2, "%s", example == NULL ? "" : example);
    }
    int64_t n_rest = 0;
    for (int i = n_shown; i < found->n_rejections; i++) {
        n_rest += found->rejections[i].count;
    }
    if (n_rest > 0) {
        report_grid_add(&grid);
        report_grid_text(&grid, 0, "%s", report_count(arena, n_rest));
        report_grid_text(&grid, 1, "%d other reasons (--format json has them)", found->n_rejections - n_shown);
    }
    return grid;
}
