/* What the framework does unless the user says otherwise: its files, run.KEY of --set, and the options of the run. */
#include "spec/spec_internal.h"

#include <string.h>

static const double DEFAULT_LOSS_CHUNK = 8192; /* tokens */

/* ---- settings --------------------------------------------------------------------------------------------------- */

/* run.KEY of --set. The names are the contract's. */
struct run_settings {
    struct {
        int parameter_dtype;
        int gradient_dtype;
        int moment_dtype;
        bool master_weights;
        int loss;
        double loss_chunk;
        bool vocab_parallel;
        bool expand_kv;
        bool tiled_mlp;
    } run;
};

#define RUN_FIELD(member, field_type, ...)                                                                             \
    {                                                                                                                  \
        .key = #member, .type = (field_type), .offset = offsetof(struct run_settings, run.member), __VA_ARGS__         \
    }
static const struct sp_field run_members[] = {
    RUN_FIELD(parameter_dtype, SP_FIELD_ENUM, .names = dtype_names, .help = "of the weights as stored"),
    RUN_FIELD(gradient_dtype, SP_FIELD_ENUM, .names = dtype_names, .help = "of the gradients"),
    RUN_FIELD(moment_dtype, SP_FIELD_ENUM, .names = dtype_names, .help = "of Adam's two moments"),
    RUN_FIELD(master_weights, SP_FIELD_BOOL, .help = "float32 copy of the weights in the optimizer"),
    RUN_FIELD(loss, SP_FIELD_ENUM, .names = loss_names, .help = "plain, fused or chunked cross entropy"),
    RUN_FIELD(loss_chunk, SP_FIELD_QUANTITY, .dimension = SP_TOKENS, .min = 1, .max = 0x1p40,
              .help = "tokens per chunk"),
    RUN_FIELD(vocab_parallel, SP_FIELD_BOOL, .help = "vocabulary split over tp"),
    RUN_FIELD(expand_kv, SP_FIELD_BOOL, .help = "key-value heads repeated before attention"),
    RUN_FIELD(tiled_mlp, SP_FIELD_BOOL, .help = "MLP in tiles of the sequence"),
    {.key = NULL},
};
const struct sp_field run_fields[] = {
    {.key = "run", .type = SP_FIELD_OBJECT, .help = "what the training run does", .fields = run_members},
    {.key = NULL},
};

/* Parameters of fp32 training are their own master copy; fp8 is what products read, not what is stored. */
static void default_dtypes(const struct question *question, struct run_settings *settings)
{
    const struct framework_spec *framework = &question->software.framework;
    enum dtype stored = activation_dtype(question->layout.precision);
    int gradient = framework->gradient_dtype == (int)DTYPE_BF16 ? (int)stored : framework->gradient_dtype;
    settings->run.parameter_dtype = (int)stored;
    settings->run.gradient_dtype = gradient;
    settings->run.moment_dtype = framework->moment_dtype;
    settings->run.master_weights = framework->has_master_weights && stored != DTYPE_FP32;
}

static struct run_settings default_settings(const struct question *question)
{
    bool is_alst = question->layout.framework == FRAMEWORK_ALST;
    enum loss_id loss = question->layout.kernels == KERNELS_TE ? LOSS_FUSED : is_alst ? LOSS_CHUNKED : LOSS_PLAIN;
    struct run_settings settings = {{
        .loss = (int)loss,
        .loss_chunk = DEFAULT_LOSS_CHUNK,
        .vocab_parallel = true,
        .tiled_mlp = is_alst,
    }};
    default_dtypes(question, &settings);
    return settings;
}

/* A layout that is read back holds the chunk of every loss; only one that is asked for is told of. */
static void warn_unused_chunk(const struct request *request, struct question *question)
{
    static const char chunk[] = "run.loss_chunk=";
    for (size_t i = request->n_layout_set; question->run.loss != LOSS_CHUNKED && i < request->set.count; i++) {
        if (strncmp(request->set.items[i], chunk, strlen(chunk)) == 0) {
            sp_texts_add(&question->warnings, "run.loss_chunk has no effect on the %s loss; add --set run.loss=chunked",
                         loss_names[question->run.loss]);
        }
    }
}

static bool fill_settings(const struct request *request, struct question *question, struct sp_error *err)
{
    struct run_settings settings = default_settings(question);
    const struct settable settable = {"run", run_fields, &settings};
    if (!settings_apply(request, &settable, question->arena, err)) {
        return false;
    }
    struct run_spec *run = &question->run;
    run->parameter_dtype = (enum dtype)settings.run.parameter_dtype;
    run->gradient_dtype = (enum dtype)settings.run.gradient_dtype;
    run->moment_dtype = (enum dtype)settings.run.moment_dtype;
    run->has_master_weights = settings.run.master_weights;
    run->loss = (enum loss_id)settings.run.loss;
    run->loss_chunk = (int64_t)settings.run.loss_chunk;
    warn_unused_chunk(request, question);
    run->is_vocab_parallel = settings.run.vocab_parallel;
    run->expands_kv = settings.run.expand_kv;
    run->is_mlp_tiled = settings.run.tiled_mlp;
    return true;
}

static bool model_has_windows(const struct model_spec *model)
{
    bool has_windows = false;
    for (int i = 0; i < model->n_kinds; i++) {
        has_windows = has_windows || model->kinds[i].window > 0;
    }
    return has_windows;
}

/* Options that say what is trained on what. */
static bool fill_run(const struct request *request, const struct model_spec *model, struct run_spec *run,
                     struct sp_error *err)
{
    run->mask = MASK_MODEL;
    run->counts_full_attention = request->flops == 1;
    run->document_tokens = request->documents.is_given ? request->documents.value : 0;
    run->is_attention_only = request->only != NULL;
    if (run->is_attention_only && strcmp(request->only, "attention") != 0) {
        return sp_fail(err, SP_ERROR_USAGE, "--only: expected attention, found \"%.40s\"", request->only);
    }
    if (run->is_attention_only && request->tokens.is_given) {
        return sp_fail(err, SP_ERROR_USAGE,
                       "--tokens asks for a whole run, --only attention for one layer: leave one out");
    }
    run->run_tokens = request->tokens.is_given ? request->tokens.value : 0;
    if (request->mask != NULL && !mask_parse(request->mask, &run->mask, &run->window, err)) {
        sp_error_prefix(err, "--mask");
        return false;
    }
    if (run->mask == MASK_MODEL && !model_has_windows(model)) {
        run->mask = MASK_CAUSAL;
    }
    if (request->train != NULL && !train_parse(request->train, &run->lora_rank, err)) {
        sp_error_prefix(err, "--train");
        return false;
    }
    return true;
}

/* ---- precision -------------------------------------------------------------------------------------------------- */

/* "h100-sxm, h200-sxm": files of GPUs that have a table of fp8 products. */
static const char *fp8_gpus_text(struct sp_arena *arena)
{
    struct sp_texts names = {.arena = arena};
    struct sp_texts with = {.arena = arena};
    data_names(arena, "hardware/gpus", &names);
    for (size_t i = 0; i < names.count; i++) {
        struct sp_error ignored = {0};
        const char *path = data_find(arena, "hardware/gpus", names.items[i], &ignored);
        const struct sp_json *json = path == NULL ? NULL : sp_json_read(arena, path, &ignored);
        if (json != NULL && json->type == SP_JSON_OBJECT && sp_json_member(json, "gemm_fp8") != NULL) {
            sp_texts_add(&with, "%s", names.items[i]);
        }
    }
    return with.count == 0 ? "none yet" : sp_join(arena, with.items, with.count, ", ");
}

static bool check_precision(const struct question *question, struct sp_error *err)
{
    const struct gpu_spec *gpu = &question->hardware.gpu;
    if (question->layout.precision != DTYPE_FP8) {
        return true;
    }
    if (gpu->has_gemm_fp8 && gpu->peak_fp8.kind != SP_FIGURE_NONE) {
        return true;
    }
    return sp_fail_rule(err, "precision", "precision fp8: %s has no %s; GPUs with one: %s", gpu->name,
                        gpu->has_gemm_fp8 ? "fp8 peak" : "table of fp8 products", fp8_gpus_text(question->arena));
}

/* ---- files ------------------------------------------------------------------------------------------------------ */

static const char *loss_file(const struct question *question)
{
    const struct framework_spec *framework = &question->software.framework;
    switch (question->run.loss) {
    case LOSS_PLAIN:
        return framework->plain_loss;
    case LOSS_FUSED:
        return framework->fused_loss;
    case LOSS_CHUNKED:
    case N_LOSSES:
        break;
    }
    return loss_names[LOSS_CHUNKED];
}

bool defaults_software(const struct request *request, struct question *question, struct sp_error *err)
{
    struct sp_arena *arena = question->arena;
    struct software_spec *software = &question->software;
    struct layout_spec *layout = &question->layout;
    const struct settable framework = {"framework", software_fields, software};
    const struct settable kernels = {"kernels", software_fields, software};
    const struct settable loss = {"loss", software_fields, software};
    if (!framework_read(arena, layout->framework, &software->framework, err) ||
        !settings_apply(request, &framework, arena, err)) {
        return false;
    }
    layout->kernels = (enum kernels_id)(request->kernels >= 0 ? request->kernels : software->framework.kernels);
    if (!kernels_read(arena, layout->kernels, &software->kernels, err) ||
        !settings_apply(request, &kernels, arena, err) || !fill_settings(request, question, err) ||
        !fill_run(request, &question->model, &question->run, err) || !check_precision(question, err)) {
        return false;
    }
    int64_t n_layers = question->model.n_layers;
    bool has_remainder = n_layers % layout->pp != 0 || n_layers / layout->pp % layout->vpp != 0;
    if (layout->pp_layers == PP_LAYERS_EVEN && software->framework.spreads_remainder_layers && has_remainder) {
        layout->pp_layers = PP_LAYERS_AUTO;
    }
    return loss_read(arena, loss_file(question), &software->loss, err) && settings_apply(request, &loss, arena, err);
}
