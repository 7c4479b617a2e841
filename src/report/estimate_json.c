/* The object of "seqplan.estimate/1": every key of an answer is named in this file and nowhere else. */
#include "report/report.h"

#include <assert.h>
#include <string.h>

static const struct report_key layout_keys_to_pp[] = {
    {"tp", REPORT_KEY_INTEGER, offsetof(struct layout_spec, tp), NULL},
    {"sp", REPORT_KEY_INTEGER, offsetof(struct layout_spec, sp), NULL},
    {"sp_method", REPORT_KEY_NAME, offsetof(struct layout_spec, method), method_names},
    {"sp_ulysses", REPORT_KEY_INTEGER, offsetof(struct layout_spec, sp_ulysses), NULL},
    {"sp_inner", REPORT_KEY_INTEGER, offsetof(struct layout_spec, sp_inner), NULL},
    {"pp", REPORT_KEY_INTEGER, offsetof(struct layout_spec, pp), NULL},
    {.key = NULL},
};

static const struct report_key layout_keys_to_micro_batch[] = {
    {"vpp", REPORT_KEY_INTEGER, offsetof(struct layout_spec, vpp), NULL},
    {"schedule", REPORT_KEY_NAME, offsetof(struct layout_spec, schedule), schedule_names},
    {"dp", REPORT_KEY_INTEGER, offsetof(struct layout_spec, dp), NULL},
    {"ep", REPORT_KEY_INTEGER, offsetof(struct layout_spec, ep), NULL},
    {"etp", REPORT_KEY_INTEGER, offsetof(struct layout_spec, etp), NULL},
    {"micro_batch", REPORT_KEY_INTEGER, offsetof(struct layout_spec, micro_batch), NULL},
    {.key = NULL},
};

static const struct report_key layout_keys_to_tp_sp[] = {
    {"precision", REPORT_KEY_NAME, offsetof(struct layout_spec, precision), dtype_names},
    {"framework", REPORT_KEY_NAME, offsetof(struct layout_spec, framework), framework_names},
    {"attention", REPORT_KEY_STRING, offsetof(struct layout_spec, attention), NULL},
    {"kernels", REPORT_KEY_NAME, offsetof(struct layout_spec, kernels), kernels_names},
    {"tp_sp", REPORT_KEY_BOOL, offsetof(struct layout_spec, has_tp_sp), NULL},
    {.key = NULL},
};

/* As the run.* paths of --set are called. */
static const struct report_key run_keys[] = {
    {"parameter_dtype", REPORT_KEY_NAME, offsetof(struct run_spec, parameter_dtype), dtype_names},
    {"gradient_dtype", REPORT_KEY_NAME, offsetof(struct run_spec, gradient_dtype), dtype_names},
    {"moment_dtype", REPORT_KEY_NAME, offsetof(struct run_spec, moment_dtype), dtype_names},
    {"master_weights", REPORT_KEY_BOOL, offsetof(struct run_spec, has_master_weights), NULL},
    {"loss", REPORT_KEY_NAME, offsetof(struct run_spec, loss), loss_names},
    {"loss_chunk", REPORT_KEY_INTEGER, offsetof(struct run_spec, loss_chunk), NULL},
    {"vocab_parallel", REPORT_KEY_BOOL, offsetof(struct run_spec, is_vocab_parallel), NULL},
    {"expand_kv", REPORT_KEY_BOOL, offsetof(struct run_spec, expands_kv), NULL},
    {"tiled_mlp", REPORT_KEY_BOOL, offsetof(struct run_spec, is_mlp_tiled), NULL},
    {.key = NULL},
};

static const struct report_key fit_keys[] = {
    {"fits", REPORT_KEY_BOOL, offsetof(struct estimate, fits), NULL},
    {"peak_bytes", REPORT_KEY_NUMBER, offsetof(struct estimate, peak_bytes), NULL},
    {"capacity_bytes", REPORT_KEY_NUMBER, offsetof(struct estimate, capacity_bytes), NULL},
    {"headroom_bytes", REPORT_KEY_NUMBER, offsetof(struct estimate, headroom_bytes), NULL},
    {"host_bytes", REPORT_KEY_NUMBER, offsetof(struct estimate, host_bytes), NULL},
    {"host_capacity_bytes", REPORT_KEY_NUMBER, offsetof(struct estimate, host_capacity_bytes), NULL},
    {"peak_allocated_bytes", REPORT_KEY_NUMBER, offsetof(struct estimate, peak_allocated_bytes), NULL},
    {"peak_allocated_low_bytes", REPORT_KEY_NUMBER, offsetof(struct estimate, peak_allocated_low_bytes), NULL},
    {"peak_allocated_high_bytes", REPORT_KEY_NUMBER, offsetof(struct estimate, peak_allocated_high_bytes), NULL},
    {"peak_reserved_bytes", REPORT_KEY_NUMBER, offsetof(struct estimate, peak_reserved_bytes), NULL},
    {.key = NULL},
};

static const struct report_key rate_keys[] = {
    {"tokens_per_s", REPORT_KEY_NUMBER, offsetof(struct estimate, tokens_per_s), NULL},
    {"tokens_per_s_per_gpu", REPORT_KEY_NUMBER, offsetof(struct estimate, tokens_per_s_per_gpu), NULL},
    {"model_flop_per_s_per_gpu", REPORT_KEY_NUMBER, offsetof(struct estimate, model_flop_per_s_per_gpu), NULL},
    {"mfu_frac", REPORT_KEY_NUMBER, offsetof(struct estimate, mfu_frac), NULL},
    {"hfu_frac", REPORT_KEY_NUMBER, offsetof(struct estimate, hfu_frac), NULL},
    {.key = NULL},
};

static const struct report_key hbm_keys[] = {
    {"utilisation_frac", REPORT_KEY_NUMBER, offsetof(struct estimate, hbm_utilisation_frac), NULL},
    {"attention_share_frac", REPORT_KEY_NUMBER, offsetof(struct estimate, hbm_attention_share_frac), NULL},
    {"ffn_share_frac", REPORT_KEY_NUMBER, offsetof(struct estimate, hbm_ffn_share_frac), NULL},
    {.key = NULL},
};

static const struct report_key communication_keys[] = {
    {"axis", REPORT_KEY_NAME, offsetof(struct communication_row, axis), report_axis_names},
    {"operation", REPORT_KEY_STRING, offsetof(struct communication_row, operation), NULL},
    {"pass", REPORT_KEY_NAME, offsetof(struct communication_row, pass), step_pass_names},
    {"bytes_per_layer_per_gpu", REPORT_KEY_NUMBER, offsetof(struct communication_row, bytes_per_layer), NULL},
    {"messages_per_layer", REPORT_KEY_NUMBER, offsetof(struct communication_row, messages_per_layer), NULL},
    {"bytes_per_step_per_gpu", REPORT_KEY_NUMBER, offsetof(struct communication_row, bytes_per_step), NULL},
    {"tier", REPORT_KEY_NAME, offsetof(struct communication_row, tier), tier_names},
    {"time_s", REPORT_KEY_NUMBER, offsetof(struct communication_row, time_s), NULL},
    {"exposed_s", REPORT_KEY_NUMBER, offsetof(struct communication_row, exposed_s), NULL},
    {.key = NULL},
};

static const struct report_key tensor_keys[] = {
    {"name", REPORT_KEY_STRING, offsetof(struct tensor_row, name), NULL},
    {"item", REPORT_KEY_NAME, offsetof(struct tensor_row, item), memory_names},
    {"bytes", REPORT_KEY_NUMBER, offsetof(struct tensor_row, bytes), NULL},
    {"formula", REPORT_KEY_STRING, offsetof(struct tensor_row, formula), NULL},
    {.key = NULL},
};

static const struct report_key operator_keys[] = {
    {"name", REPORT_KEY_STRING, offsetof(struct operator_row, name), NULL},
    {"pass", REPORT_KEY_NAME, offsetof(struct operator_row, pass), step_pass_names},
    {"item", REPORT_KEY_NAME, offsetof(struct operator_row, item), time_names},
    {"count", REPORT_KEY_NUMBER, offsetof(struct operator_row, count), NULL},
    {"m", REPORT_KEY_NUMBER, offsetof(struct operator_row, m), NULL},
    {"n", REPORT_KEY_NUMBER, offsetof(struct operator_row, n), NULL},
    {"k", REPORT_KEY_NUMBER, offsetof(struct operator_row, k), NULL},
    {"flop", REPORT_KEY_NUMBER, offsetof(struct operator_row, flop), NULL},
    {"hbm_bytes", REPORT_KEY_NUMBER, offsetof(struct operator_row, hbm_bytes), NULL},
    {"time_s", REPORT_KEY_NUMBER, offsetof(struct operator_row, time_s), NULL},
    {"sent_bytes", REPORT_KEY_NUMBER, offsetof(struct operator_row, sent_bytes), NULL},
    {"messages", REPORT_KEY_NUMBER, offsetof(struct operator_row, messages), NULL},
    {"link_s", REPORT_KEY_NUMBER, offsetof(struct operator_row, link_s), NULL},
    {"formula", REPORT_KEY_STRING, offsetof(struct operator_row, formula), NULL},
    {"source", REPORT_KEY_STRING, offsetof(struct operator_row, source), NULL},
    {.key = NULL},
};

static void put_placement(struct report_tree *tree, const struct question *question)
{
    static const enum axis axes[] = {AXIS_TP, AXIS_CP, AXIS_PP, AXIS_DP, AXIS_EP};
    report_tree_begin(tree, "placement", SP_JSON_OBJECT);
    for (size_t i = 0; i < SP_COUNT_OF(axes); i++) {
        const struct layout_spec *layout = &question->layout;
        if (axes[i] == AXIS_EP && !layout_splits_experts(layout)) {
            report_tree_null(tree, report_axis_names[axes[i]]); /* of a row that says which rule it breaks */
            continue;
        }
        struct group_placement placement = axes[i] == AXIS_EP
                                               ? layout_expert_placement(layout, &question->hardware, axes[i])
                                               : layout_placement(layout, &question->hardware, axes[i]);
        report_tree_string(tree, report_axis_names[axes[i]], tier_names[placement.tier]);
    }
    report_tree_end(tree);
}

/* Layers of every stage. "padded" stays a word: with vpp above 1 the embedding and the loss fill chunks that a list of
 * layers does not show. */
static void put_stage_layers(struct report_tree *tree, const struct question *question)
{
    if (question->layout.pp_layers == PP_LAYERS_PADDED) {
        report_tree_string(tree, "pp_layers", "padded");
        return;
    }
    report_tree_begin(tree, "pp_layers", SP_JSON_ARRAY);
    for (int64_t stage = 0; stage < question->layout.pp; stage++) {
        report_tree_number(tree, NULL, (double)layout_stage_layers(&question->layout, &question->model, stage));
    }
    report_tree_end(tree);
}

/* The members of a layout, into the open object. */
static void put_layout(struct report_tree *tree, const struct question *question)
{
    const struct layout_spec *layout = &question->layout;
    report_tree_keys(tree, layout_keys_to_pp, layout);
    put_stage_layers(tree, question);
    report_tree_keys(tree, layout_keys_to_micro_batch, layout);
    report_tree_string(tree, "recompute", report_recompute_text(tree->arena, layout));
    report_tree_number(tree, "zero", layout->zero);
    report_tree_string(tree, "offload", layout_offload_text(tree->arena, layout));
    report_tree_keys(tree, layout_keys_to_tp_sp, layout);
    report_tree_string(tree, "order", report_order_text(tree->arena, layout));
    put_placement(tree, question);
    report_tree_begin(tree, "run", SP_JSON_OBJECT);
    report_tree_keys(tree, run_keys, &question->run);
    report_tree_end(tree);
}

const struct sp_json *report_layout_tree(struct sp_arena *arena, const struct question *question)
{
    struct report_tree tree;
    report_tree_open(&tree, arena);
    put_layout(&tree, question);
    return report_tree_close(&tree);
}

/* The file of a model or machine that was given by its path: its name alone would find another, or none. */
static void put_file(struct report_tree *tree, const char *key, const char *kind, const char *name, const char *path)
{
    struct sp_error ignored = {0};
    const char *found = path == NULL ? NULL : data_find(tree->arena, kind, name, &ignored);
    if (path != NULL && (found == NULL || strcmp(found, path) != 0)) {
        report_tree_string(tree, key, path);
    }
}

void report_question_put(struct report_tree *tree, const struct report_style *style, const struct answer *answer)
{
    const struct question *question = answer->question;
    const struct run_spec *run = &question->run;
    report_tree_begin(tree, "seqplan", SP_JSON_OBJECT);
    report_tree_string(tree, "version", style->version);
    report_tree_string(tree, "data_hash", answer->data_hash);
    report_tree_end(tree);
    report_tree_string(tree, "model", question->model.name);
    put_file(tree, "model_file", "models", question->model.name, question->model.path);
    report_tree_string(tree, "hardware", question->hardware.name);
    put_file(tree, "hardware_file", "hardware", question->hardware.name, question->hardware.path);
    report_tree_string(tree, "network",
                       question->hardware.network.is_ideal ? "ideal" : question->hardware.network.name);
    report_tree_number(tree, "gpus", (double)run->gpus);
    report_tree_number(tree, "nodes", (double)run->nodes);
    report_tree_number(tree, "seq", (double)run->seq);
    report_tree_number(tree, "global_batch", (double)run->global_batch);
    report_tree_number(tree, "micro_batches", (double)answer->estimate->micro_batches);
    report_tree_string(tree, "mask", report_mask_text(tree->arena, run));
    if (run->document_tokens > 0) {
        report_tree_number(tree, "documents", (double)run->document_tokens);
    } else {
        report_tree_null(tree, "documents");
    }
    report_tree_string(tree, "train", report_train_text(tree->arena, run));
    if (run->is_attention_only) {
        report_tree_string(tree, "only", "attention");
    }
    report_tree_string(tree, "flops", run->counts_full_attention ? "full" : "causal");
    report_tree_texts(tree, "set", &question->set);
    report_tree_begin(tree, "layout", SP_JSON_OBJECT);
    put_layout(tree, question);
    report_tree_end(tree);
}

static void put_items(struct report_tree *tree, const char *key, const char *const *names, const double *values)
{
    report_tree_begin(tree, key, SP_JSON_OBJECT);
    for (int i = 0; names[i] != NULL; i++) {
        report_tree_number(tree, names[i], values[i]);
    }
    report_tree_end(tree);
}

/* Stages count from 1, as in the tables. */
static void put_memory(struct report_tree *tree, const struct estimate *estimate)
{
    report_tree_keys(tree, fit_keys, estimate);
    report_tree_number(tree, "peak_stage", (double)(estimate->peak_stage + 1));
    report_tree_string(tree, "peak_moment", moment_names[estimate->peak_moment]);
    put_items(tree, "memory_bytes", memory_names, estimate->memory_bytes);
}

/* Null where the hardware is not calibrated. */
static void put_known(struct report_tree *tree, const char *key, double value)
{
    if (value > 0) {
        report_tree_number(tree, key, value);
    } else {
        report_tree_null(tree, key);
    }
}

static void put_time(struct report_tree *tree, const struct answer *answer)
{
    const struct estimate *estimate = answer->estimate;
    report_tree_number(tree, "step_time_s", estimate->step_time_s);
    if (answer->question->run.is_attention_only) {
        report_tree_number(tree, "forward_s", estimate->stage_forward_s);
        report_tree_number(tree, "backward_s", estimate->stage_backward_s);
    }
    put_known(tree, "step_time_low_s", estimate->step_time_low_s);
    put_known(tree, "step_time_high_s", estimate->step_time_high_s);
    report_tree_keys(tree, rate_keys, estimate);
    put_items(tree, "time_s", time_names, estimate->time_s);
    report_tree_begin(tree, "hbm", SP_JSON_OBJECT);
    report_tree_keys(tree, hbm_keys, estimate);
    report_tree_end(tree);
}

/* What --tokens asks for; a price that is not known is null. */
static void put_run(struct report_tree *tree, const struct answer *answer)
{
    const struct estimate *estimate = answer->estimate;
    if (answer->question->run.run_tokens == 0 || answer->question->run.is_attention_only) {
        return;
    }
    report_tree_begin(tree, "run", SP_JSON_OBJECT);
    report_tree_number(tree, "tokens", (double)answer->question->run.run_tokens);
    report_tree_number(tree, "days", estimate->run_days);
    report_tree_number(tree, "gpu_hours", estimate->run_gpu_hours);
    if (answer->question->hardware.gpu.price.kind == SP_FIGURE_NONE) {
        report_tree_null(tree, "cost");
    } else {
        report_tree_number(tree, "cost", estimate->run_cost);
    }
    report_tree_number(tree, "energy_j", estimate->run_energy_j);
    report_tree_end(tree);
}

/* n structs of this size, one object each. */
struct row_array {
    const struct report_key *keys;
    const void *rows;
    size_t size;
    int n_rows;
};

static void put_rows(struct report_tree *tree, const char *key, const struct row_array *array)
{
    report_tree_begin(tree, key, SP_JSON_ARRAY);
    for (int i = 0; i < array->n_rows; i++) {
        report_tree_begin(tree, NULL, SP_JSON_OBJECT);
        report_tree_keys(tree, array->keys, (const char *)array->rows + (size_t)i * array->size);
        report_tree_end(tree);
    }
    report_tree_end(tree);
}

static void put_explanation(struct report_tree *tree, const struct estimate *estimate)
{
    const struct row_array operators = {operator_keys, estimate->operators, sizeof(estimate->operators[0]),
                                        estimate->n_operators};
    const struct row_array tensors = {tensor_keys, estimate->tensors, sizeof(estimate->tensors[0]),
                                      estimate->n_tensors};
    report_tree_number(tree, "model_flop", estimate->model_flop);
    report_tree_number(tree, "slowest_stage", (double)(estimate->slowest_stage + 1));
    report_tree_number(tree, "stage_forward_s", estimate->stage_forward_s);
    report_tree_number(tree, "stage_backward_s", estimate->stage_backward_s);
    if (estimate->clock_hz > 0) {
        report_tree_number(tree, "clock_hz", estimate->clock_hz);
    }
    put_items(tree, "moment_bytes", moment_names, estimate->moment_bytes);
    put_rows(tree, "tensors", &tensors);
    put_rows(tree, "operators", &operators);
}

const struct sp_json *report_answer_tree(const struct report_style *style, struct sp_arena *arena,
                                         const struct answer *answer)
{
    const struct estimate *estimate = answer->estimate;
    const struct row_array communications = {communication_keys, estimate->communications,
                                             sizeof(estimate->communications[0]), estimate->n_communications};
    struct report_tree tree;
    report_tree_open(&tree, arena);
    report_tree_string(&tree, "schema", "seqplan.estimate/1");
    report_question_put(&tree, style, answer);
    put_memory(&tree, estimate);
    put_time(&tree, answer);
    put_rows(&tree, "communication", &communications);
    report_tree_string(&tree, "bound", estimate->bound);
    report_tree_texts(&tree, "warnings", &answer->question->warnings);
    report_tree_texts(&tree, "assumed", &answer->question->assumed);
    report_tree_begin(&tree, "parameters", SP_JSON_OBJECT);
    report_tree_number(&tree, "total", estimate->parameters_total);
    report_tree_number(&tree, "active", estimate->parameters_active);
    report_tree_end(&tree);
    put_run(&tree, answer);
    if (answer->sensitivity != NULL) {
        report_tree_value(&tree, "sensitivity", report_sensitivity_tree(arena, answer->sensitivity));
    }
    if (style->explains) {
        put_explanation(&tree, estimate);
    }
    return report_tree_close(&tree);
}

void report_estimate_json(const struct report_style *style, struct sp_arena *arena, const struct answer *answer)
{
    report_tree_write(report_answer_tree(style, arena, answer), style->file);
}
