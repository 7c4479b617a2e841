/* The object of "seqplan.simulate/1": every key that only a simulation has is named in this file. */
#include "report/report.h"

const struct estimate *report_simulated_estimate(struct sp_arena *arena, const struct report_simulation *simulation)
{
    struct estimate *simulated = sp_arena_alloc(arena, sizeof(*simulated));
    *simulated = *simulation->answer.estimate;
    double faster = simulated->step_time_s / simulation->result->step_time_s;
    simulated->step_time_s = simulation->result->step_time_s;
    simulated->step_time_low_s = simulated->step_time_high_s = 0; /* the interval is of the estimate */
    double *const rates[] = {&simulated->tokens_per_s, &simulated->tokens_per_s_per_gpu,
                             &simulated->model_flop_per_s_per_gpu, &simulated->mfu_frac, &simulated->hfu_frac};
    for (size_t i = 0; i < SP_COUNT_OF(rates); i++) {
        *rates[i] *= faster;
    }
    double *const spent[] = {&simulated->run_days, &simulated->run_gpu_hours, &simulated->run_cost,
                             &simulated->run_energy_j};
    for (size_t i = 0; i < SP_COUNT_OF(spent); i++) {
        *spent[i] /= faster;
    }
    return simulated;
}

static void put_count_or_null(struct report_tree *tree, const char *key, int64_t value)
{
    if (value < 0) {
        report_tree_null(tree, key);
    } else {
        report_tree_number(tree, key, (double)value);
    }
}

/* ---- step and memory --------------------------------------------------------------------------------------------- */

static void put_step(struct report_tree *tree, const struct report_simulation *simulation)
{
    static const struct report_key rates[] = {
        {"tokens_per_s", REPORT_KEY_NUMBER, offsetof(struct estimate, tokens_per_s), NULL},
        {"tokens_per_s_per_gpu", REPORT_KEY_NUMBER, offsetof(struct estimate, tokens_per_s_per_gpu), NULL},
        {"mfu_frac", REPORT_KEY_NUMBER, offsetof(struct estimate, mfu_frac), NULL},
        {"hfu_frac", REPORT_KEY_NUMBER, offsetof(struct estimate, hfu_frac), NULL},
        {"bound", REPORT_KEY_STRING, offsetof(struct estimate, bound), NULL},
        {.key = NULL},
    };
    const struct sim_result *result = simulation->result;
    double estimated_s = simulation->answer.estimate->step_time_s;
    report_tree_number(tree, "step_time_s", result->step_time_s);
    report_tree_number(tree, "estimate_step_time_s", estimated_s);
    report_tree_number(tree, "difference_frac", result->step_time_s / estimated_s - 1.0);
    report_tree_string(tree, "causes", report_simulation_causes(tree->arena, simulation));
    report_tree_keys(tree, rates, report_simulated_estimate(tree->arena, simulation));
    report_tree_number(tree, "events", (double)result->events);
    if (!simulation->is_row) {
        report_tree_number(tree, "elapsed_s", result->elapsed_s);
        report_tree_number(tree, "events_per_s",
                           result->elapsed_s > 0.0 ? (double)result->events / result->elapsed_s : 0.0);
    }
    report_tree_number(tree, "rank_classes", (double)result->n_classes);
    report_tree_number(tree, "chunks", simulation->options->chunks);
    report_tree_bool(tree, "exact", simulation->options->is_exact);
}

static void put_peak(struct report_tree *tree, const struct sim_peak *peak)
{
    report_tree_begin(tree, "peak", SP_JSON_OBJECT);
    report_tree_number(tree, "rank", (double)peak->rank);
    report_tree_number(tree, "stage", (double)(peak->stage + 1));
    report_tree_number(tree, "time_s", peak->time_s);
    report_tree_string(tree, "moment", moment_names[peak->moment]);
    put_count_or_null(tree, "layer", peak->layer);
    put_count_or_null(tree, "micro_batch", peak->micro_batch);
    report_tree_number(tree, "micro_batches_held", peak->micro_batches_held);
    report_tree_number(tree, "allocated_bytes", peak->allocated_bytes);
    report_tree_begin(tree, "bytes", SP_JSON_OBJECT);
    report_tree_number(tree, "state", peak->state_bytes);
    report_tree_number(tree, "gradients", peak->gradient_bytes);
    report_tree_number(tree, "saved", peak->saved_bytes);
    report_tree_number(tree, "work", peak->work_bytes);
    report_tree_end(tree);
    report_tree_end(tree);
}

static void put_memory(struct report_tree *tree, const struct report_simulation *simulation)
{
    const struct estimate *estimate = simulation->answer.estimate;
    report_tree_bool(tree, "fits", estimate->fits);
    report_tree_number(tree, "peak_bytes", simulation->result->peak.peak_bytes);
    report_tree_number(tree, "estimate_peak_bytes", estimate->peak_bytes);
    report_tree_number(tree, "capacity_bytes", estimate->capacity_bytes);
    put_peak(tree, &simulation->result->peak);
}

/* ---- where the time went ----------------------------------------------------------------------------------------- */

static void put_axes(struct report_tree *tree, unsigned axes)
{
    report_tree_begin(tree, "axes", SP_JSON_ARRAY);
    for (int axis = 0; axis < (int)N_AXES; axis++) {
        if ((axes >> (unsigned)axis & 1U) != 0) {
            report_tree_string(tree, NULL, report_axis_names[axis]);
        }
    }
    report_tree_end(tree);
}

static void put_resources(struct report_tree *tree, const struct sim_result *result)
{
    report_tree_begin(tree, "resources", SP_JSON_ARRAY);
    for (int i = 0; i < result->n_resources; i++) {
        const struct sim_resource *resource = &result->resources[i];
        report_tree_begin(tree, NULL, SP_JSON_OBJECT);
        report_tree_string(tree, "name", resource->name);
        report_tree_string(tree, "kind", resource->is_link ? "link" : "gpu");
        report_tree_number(tree, "count", (double)resource->count);
        report_tree_number(tree, "busy_frac", resource->busy_frac);
        if (resource->is_link) {
            report_tree_number(tree, "bytes", resource->bytes);
            report_tree_number(tree, "capacity_bytes_per_s", resource->capacity_bytes_per_s);
            report_tree_number(tree, "contended_frac", resource->contended_frac);
            put_axes(tree, resource->axes);
        }
        report_tree_end(tree);
    }
    report_tree_end(tree);
}

static void put_ranks(struct report_tree *tree, const struct sim_result *result)
{
    report_tree_begin(tree, "ranks", SP_JSON_ARRAY);
    for (int i = 0; i < result->n_ranks; i++) {
        const struct sim_rank *rank = &result->ranks[i];
        report_tree_begin(tree, NULL, SP_JSON_OBJECT);
        report_tree_number(tree, "rank", (double)rank->rank);
        report_tree_number(tree, "count", (double)rank->count);
        report_tree_number(tree, "stage", (double)(rank->stage + 1));
        report_tree_number(tree, "busy_s", rank->busy_s);
        report_tree_begin(tree, "waits_s", SP_JSON_OBJECT);
        for (int wait = 0; wait < (int)N_SIM_WAITS; wait++) {
            report_tree_number(tree, sim_wait_names[wait], rank->waits_s[wait]);
        }
        report_tree_end(tree);
        report_tree_number(tree, "peak_allocated_bytes", rank->peak_bytes);
        report_tree_end(tree);
    }
    report_tree_end(tree);
}

static void put_critical_path(struct report_tree *tree, const struct sim_result *result)
{
    report_tree_begin(tree, "critical_path", SP_JSON_ARRAY);
    for (int i = 0; i < result->n_critical; i++) {
        const struct sim_critical_item *item = &result->critical[i];
        report_tree_begin(tree, NULL, SP_JSON_OBJECT);
        report_tree_string(tree, "item", time_names[item->item]);
        report_tree_number(tree, "time_s", item->time_s);
        report_tree_number(tree, "delayed_s", item->delayed_s);
        report_tree_end(tree);
    }
    report_tree_end(tree);
}

static void put_delays(struct report_tree *tree, const struct sim_result *result)
{
    report_tree_begin(tree, "delays", SP_JSON_OBJECT);
    for (int axis = 0; axis < (int)N_AXES; axis++) {
        report_tree_begin(tree, report_axis_names[axis], SP_JSON_OBJECT);
        report_tree_number(tree, "transfer_s", result->delays[axis].transfer_s);
        report_tree_number(tree, "delayed_s", result->delays[axis].delayed_s);
        report_tree_number(tree, "waited_s", result->delays[axis].waited_s);
        report_tree_end(tree);
    }
    report_tree_end(tree);
}

static void put_disturbed(struct report_tree *tree, const struct report_simulation *simulation)
{
    if (simulation->undisturbed == NULL) {
        report_tree_null(tree, "disturbed");
        return;
    }
    struct sp_texts texts = {.arena = tree->arena};
    report_disturbances(simulation->options, &texts);
    report_tree_begin(tree, "disturbed", SP_JSON_OBJECT);
    report_tree_texts(tree, "options", &texts);
    report_tree_number(tree, "seed", (double)simulation->options->seed);
    report_tree_number(tree, "undisturbed_step_time_s", simulation->undisturbed->step_time_s);
    report_tree_number(tree, "cost_frac", simulation->result->step_time_s / simulation->undisturbed->step_time_s - 1.0);
    report_tree_string(tree, "text", report_disturbance_text(tree->arena, simulation));
    report_tree_end(tree);
}

const struct sp_json *report_simulation_tree(const struct report_style *style, struct sp_arena *arena,
                                             const struct report_simulation *simulation)
{
    const struct sim_result *result = simulation->result;
    const struct question *question = simulation->answer.question;
    struct report_tree tree;
    report_tree_open(&tree, arena);
    report_tree_string(&tree, "schema", "seqplan.simulate/1");
    report_question_put(&tree, style, &simulation->answer);
    put_step(&tree, simulation);
    put_memory(&tree, simulation);
    put_disturbed(&tree, simulation);
    put_critical_path(&tree, result);
    put_delays(&tree, result);
    put_ranks(&tree, result);
    put_resources(&tree, result);
    report_tree_number(&tree, "sent_bytes", result->sent_bytes);
    report_tree_number(&tree, "received_bytes", result->received_bytes);
    report_tree_string(&tree, "spans_file", simulation->spans_file);
    report_tree_texts(&tree, "warnings", &question->warnings);
    report_tree_texts(&tree, "assumed", &question->assumed);
    return report_tree_close(&tree);
}
