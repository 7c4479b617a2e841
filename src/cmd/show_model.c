#include "cmd/command.h"

#include <math.h>

static const char *parameters_text(struct sp_arena *arena, double count)
{
    static const double billion = 1e9;
    static const double million = 1e6;
    return count >= billion ? sp_format(arena, "%s B", report_three(arena, count / billion))
                            : sp_format(arena, "%s M", report_three(arena, count / million));
}

enum {
    MODEL_NAME,
    MODEL_PARAMETERS,
    MODEL_LAYERS,
    MODEL_HIDDEN,
    MODEL_HEADS,
    MODEL_CONTEXT,
    MODEL_FAMILY,
    N_MODEL_COLUMNS
};

static void add_model(struct report_grid *grid, const struct model_spec *model)
{
    struct sp_arena *arena = grid->arena;
    struct model_size size = model_size(model);
    report_grid_add(grid);
    report_grid_text(grid, MODEL_NAME, "%s", model->name);
    report_grid_number(grid, MODEL_PARAMETERS, size.total, parameters_text(arena, size.total));
    report_grid_number(grid, MODEL_LAYERS, (double)model->n_layers,
                       sp_format(arena, "%lld", (long long)model->n_layers));
    report_grid_number(grid, MODEL_HIDDEN, (double)model->hidden, sp_format(arena, "%lld", (long long)model->hidden));
    report_grid_text(grid, MODEL_HEADS, "%lld/%lld x %lld", (long long)model->n_heads, (long long)model->n_kv_heads,
                     (long long)model->head_dim);
    report_grid_number(grid, MODEL_CONTEXT, (double)model->max_position, sp_tokens_print(arena, model->max_position));
    report_grid_text(grid, MODEL_FAMILY, "%s", model->family);
}

bool show_models(const struct show_request *request, struct show_answer *answer, struct sp_error *err)
{
    static const struct report_column columns[N_MODEL_COLUMNS] = {
        [MODEL_NAME] = {.heading = "model", .key = "name"},
        [MODEL_PARAMETERS] = {.heading = "parameters", .key = "parameters", .is_right = true},
        [MODEL_LAYERS] = {.heading = "layers", .key = "layers", .is_right = true},
        [MODEL_HIDDEN] = {.heading = "hidden", .key = "hidden", .is_right = true},
        [MODEL_HEADS] = {.heading = "heads q/kv x dim", .key = "heads", .is_right = true},
        [MODEL_CONTEXT] = {.heading = "context", .key = "max_position", .is_right = true},
        [MODEL_FAMILY] = {.heading = "family", .key = "family"},
    };
    (void)err;
    struct sp_texts names = {.arena = request->arena};
    data_names(request->arena, "models", &names);
    report_grid_init(&answer->grid, request->arena, columns, N_MODEL_COLUMNS);
    for (size_t i = 0; i < names.count; i++) {
        struct model_spec model;
        struct sp_texts warnings = {.arena = request->arena};
        struct sp_error broken = {.kind = SP_ERROR_NONE};
        if (model_read(request->arena, names.items[i], &model, &warnings, &broken)) {
            add_model(&answer->grid, &model);
        } else { /* a row that says so: the others are still worth listing */
            report_grid_add(&answer->grid);
            report_grid_text(&answer->grid, MODEL_NAME, "%s", names.items[i]);
            report_grid_text(&answer->grid, MODEL_FAMILY, "not built yet: %s", broken.text);
        }
    }
    return true;
}

enum { PART_NAME, PART_VALUE, PART_WHAT, N_PART_COLUMNS };

static void add_count(struct report_grid *grid, const char *name, int64_t value, const char *what)
{
    report_grid_add(grid);
    report_grid_text(grid, PART_NAME, "%s", name);
    report_grid_number(grid, PART_VALUE, (double)value, sp_format(grid->arena, "%lld", (long long)value));
    report_grid_text(grid, PART_WHAT, "%s", what);
}

static void add_switch(struct report_grid *grid, const char *name, bool value, const char *what)
{
    report_grid_add(grid);
    report_grid_text(grid, PART_NAME, "%s", name);
    report_grid_bool(grid, PART_VALUE, value, value ? "yes" : "no");
    report_grid_text(grid, PART_WHAT, "%s", what);
}

static void add_parameters(struct report_grid *grid, const char *name, double count, const char *what)
{
    report_grid_add(grid);
    report_grid_text(grid, PART_NAME, "%s", name);
    report_grid_number(grid, PART_VALUE, count, parameters_text(grid->arena, count));
    report_grid_text(grid, PART_WHAT, "%s", what);
}

static void add_latents_and_experts(struct report_grid *grid, const struct model_spec *model)
{
    if (model->kv_lora_rank > 0) {
        add_count(grid, "q_lora_rank", model->q_lora_rank, "latent of the queries; 0: projected directly");
        add_count(grid, "kv_lora_rank", model->kv_lora_rank, "latent of keys and values");
        add_count(grid, "rope_head_dim", model->rope_head_dim, "part of a head that carries positions");
    }
    if (model->n_experts > 0) {
        add_count(grid, "experts", model->n_experts, "routed experts of a layer");
        add_count(grid, "experts_per_token", model->experts_per_token, "experts that a token passes through");
        add_count(grid, "expert_ffn", model->expert_ffn, "width of one routed expert");
        add_count(grid, "shared_expert_ffn", model->shared_expert_ffn, "width of the shared experts together");
    }
}

/* "expert layers with a window of 128": `noun` is "layer" or "layers". */
static const char *kind_text(struct sp_arena *arena, const struct layer_kind *kind, const char *noun)
{
    const char *window = kind->window > 0 ? sp_format(arena, " with a window of %lld", (long long)kind->window) : "";
    return sp_format(arena, "%s %s%s", kind->is_moe ? "expert" : "dense", noun, window);
}

/* Layers that are alike in window and experts; a model of one kind needs no rows. */
static void add_kinds(struct report_grid *grid, const struct model_spec *model)
{
    for (int kind = 0; kind < model->n_kinds && model->n_kinds > 1; kind++) {
        int64_t n_layers = 0;
        for (int64_t layer = 0; layer < model->n_layers; layer++) {
            n_layers += model->kind_of_layer[layer] == kind ? 1 : 0;
        }
        add_count(grid, sp_format(grid->arena, "layers_kind_%d", kind + 1), n_layers,
                  kind_text(grid->arena, &model->kinds[kind], "layers"));
    }
    if (model->n_kinds == 1 && model->kinds[0].window > 0) {
        add_count(grid, "window", model->kinds[0].window, "keys that a query sees, up to its own");
    }
}

static void add_shape(struct report_grid *grid, const struct model_spec *model)
{
    add_count(grid, "layers", model->n_layers, "decoder layers");
    add_kinds(grid, model);
    add_count(grid, "hidden", model->hidden, "width of the residual stream");
    add_count(grid, "heads", model->n_heads, "query heads");
    add_count(grid, "kv_heads", model->n_kv_heads, "key-value heads");
    add_count(grid, "head_dim", model->head_dim, "elements of a head");
    add_count(grid, "value_head_dim", model->value_head_dim, "elements of a value and of the output, per head");
    add_count(grid, "ffn", model->ffn, "width of the dense gated MLP");
    add_latents_and_experts(grid, model);
    add_count(grid, "vocab", model->vocab, "tokens in the vocabulary");
    add_count(grid, "max_position", model->max_position, "longest sequence that the model was made for");
    add_switch(grid, "tied_embeddings", model->has_tied_embeddings, "output layer and embedding share one matrix");
    add_switch(grid, "qkv_bias", model->has_qkv_bias, "bias in the query, key and value projections");
    add_switch(grid, "o_bias", model->has_o_bias, "bias in attention's output projection");
    add_switch(grid, "mlp_bias", model->has_mlp_bias, "bias in the MLP");
    add_switch(grid, "qk_norm", model->has_qk_norm, "queries and keys are normalised");
}

static void add_sizes(struct report_grid *grid, const struct model_spec *model)
{
    struct model_size size = model_size(model);
    for (int i = 0; i < model->n_kinds; i++) {
        const char *name =
            model->n_kinds == 1 ? "parameters_layer" : sp_format(grid->arena, "parameters_layer_kind_%d", i + 1);
        add_parameters(
            grid, name, size.layer[i],
            sp_format(grid->arena, "one %s, norms included", kind_text(grid->arena, &model->kinds[i], "layer")));
    }
    add_parameters(grid, "parameters_layers", size.layers, "all layers");
    add_parameters(grid, "parameters_embedding", size.embedding, "input table");
    add_parameters(grid, "parameters_head", size.head,
                   model->has_tied_embeddings ? "output layer, the same matrix" : "output layer");
    add_parameters(grid, "parameters_total", size.total, "all that is stored");
    add_parameters(grid, "parameters_active", size.active, "what one token passes through, without the input table");
}

bool show_model(const struct show_request *request, struct show_answer *answer, struct sp_error *err)
{
    static const struct report_column columns[N_PART_COLUMNS] = {
        [PART_NAME] = {.heading = "figure", .key = "name"},
        [PART_VALUE] = {.heading = "value", .key = "value", .is_right = true},
        [PART_WHAT] = {.heading = "what", .key = "what"},
    };
    struct model_spec model;
    struct sp_texts warnings = {.arena = request->arena};
    if (!model_read(request->arena, request->name, &model, &warnings, err)) {
        return false;
    }
    answer->title = sp_format(request->arena, "%s (%s)", model.name, model.family);
    report_grid_init(&answer->grid, request->arena, columns, N_PART_COLUMNS);
    add_shape(&answer->grid, &model);
    add_sizes(&answer->grid, &model);
    for (size_t i = 0; i < warnings.count; i++) {
        report_grid_add(&answer->grid);
        report_grid_text(&answer->grid, PART_NAME, "warning");
        report_grid_text(&answer->grid, PART_WHAT, "%s", warnings.items[i]);
    }
    return true;
}
