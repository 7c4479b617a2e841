#include "report/report.h"

#include <string.h>

const char *const report_axis_names[] = {"tp", "sp", "ep", "dp", "pp", NULL}; /* enum axis */

const char *report_words(struct sp_arena *arena, const char *name)
{
    char *text = sp_strdup(arena, name);
    for (char *at = text; *at != '\0'; at++) {
        if (*at == '_') {
            *at = ' ';
        }
    }
    return text;
}

const char *report_tier_title(enum tier tier)
{
    static const char *const titles[] = {[TIER_NONE] = "-",
                                         [TIER_NVLINK] = "NVLink",
                                         [TIER_PCIE] = "PCIe",
                                         [TIER_NETWORK] = "network",
                                         [TIER_MIXED] = "mixed"};
    return titles[tier];
}

const char *report_cluster_text(struct sp_arena *arena, const struct question *question)
{
    const struct hardware_spec *hardware = &question->hardware;
    int64_t nodes = question->run.nodes;
    const char *network = hardware->network.is_ideal ? "ideal network" : hardware->network.title;
    return sp_format(arena, "%lld x %s (%lld node%s, %s)", (long long)question->run.gpus, hardware->gpu.title,
                     (long long)nodes, nodes == 1 ? "" : "s", nodes == 1 ? hardware->intra.title : network);
}

static const char *degree_text(struct sp_arena *arena, const struct question *question, enum axis axis, int64_t degree)
{
    const struct layout_spec *layout = &question->layout;
    const char *detail = "";
    if (axis == AXIS_CP && layout->method != METHOD_NONE) {
        detail = sp_format(arena, " %s", method_names[layout->method]);
        if (layout->method == METHOD_USP) {
            detail = sp_format(arena, "%s (ulysses %lld)", detail, (long long)layout->sp_ulysses);
        } else if (layout->method == METHOD_DOUBLE_RING) {
            detail = sp_format(arena, "%s (inner %lld)", detail, (long long)layout->sp_inner);
        }
    }
    if (axis == AXIS_PP && degree > 1) {
        detail = layout->vpp > 1
                     ? sp_format(arena, " %s x %lld", schedule_names[layout->schedule], (long long)layout->vpp)
                     : sp_format(arena, " %s", schedule_names[layout->schedule]);
    }
    const char *name = report_axis_names[axis];
    if (degree == 1) {
        return sp_format(arena, "%s 1%s", name, detail);
    }
    struct group_placement placement = axis == AXIS_EP ? layout_expert_placement(layout, &question->hardware, axis)
                                                       : layout_placement(layout, &question->hardware, axis);
    return sp_format(arena, "%s %lld%s (%s)", name, (long long)degree, detail, report_tier_title(placement.tier));
}

const char *report_degrees_text(struct sp_arena *arena, const struct question *question)
{
    const struct layout_spec *layout = &question->layout;
    const struct {
        enum axis axis;
        int64_t degree;
    } degrees[] = {{AXIS_TP, layout->tp}, {AXIS_CP, layout->sp}, {AXIS_PP, layout->pp}, {AXIS_DP, layout->dp}};
    const char *texts[SP_COUNT_OF(degrees) + 1];
    size_t n_texts = 0;
    for (size_t i = 0; i < SP_COUNT_OF(degrees); i++) {
        texts[n_texts++] = degree_text(arena, question, degrees[i].axis, degrees[i].degree);
    }
    if (layout->ep > 1 || layout->etp > 1) {
        const char *etp = layout->etp > 1 ? sp_format(arena, " etp %lld", (long long)layout->etp) : "";
        texts[n_texts++] = sp_format(arena, "%s%s", degree_text(arena, question, AXIS_EP, layout->ep), etp);
    }
    return sp_join(arena, texts, n_texts, REPORT_PART_GAP);
}

const char *report_mask_text(struct sp_arena *arena, const struct run_spec *run)
{
    switch (run->mask) {
    case MASK_MODEL:
        return "model";
    case MASK_CAUSAL:
        return "causal";
    case MASK_FULL:
        return "full";
    case MASK_WINDOW:
        break;
    }
    return sp_format(arena, "window:%lld", (long long)run->window);
}

const char *report_train_text(struct sp_arena *arena, const struct run_spec *run)
{
    return run->lora_rank == 0 ? "full" : sp_format(arena, "lora:%lld", (long long)run->lora_rank);
}

const char *report_tokens_text(struct sp_arena *arena, int64_t tokens)
{
    char *text = sp_quantity_exact(arena, (double)tokens, SP_BYTES);
    size_t length = strlen(text);
    return length > 0 ? sp_strndup(arena, text, length - 1) : text;
}

const char *report_run_text(struct sp_arena *arena, const struct answer *answer)
{
    static const double joule_per_mwh = 3.6e9;
    const struct estimate *estimate = answer->estimate;
    const struct question *question = answer->question;
    if (question->run.run_tokens == 0) {
        return NULL;
    }
    bool has_price = question->hardware.gpu.price.kind != SP_FIGURE_NONE;
    const char *cost =
        has_price ? sp_format(arena, "$%s", report_scaled(arena, estimate->run_cost)) : "price not known";
    return sp_format(arena, "%s tokens: %s days, %s GPU-hours, %s, %s MWh",
                     report_tokens_text(arena, question->run.run_tokens), report_three(arena, estimate->run_days),
                     report_scaled(arena, estimate->run_gpu_hours), cost,
                     report_three(arena, estimate->run_energy_j / joule_per_mwh));
}

const char *report_recompute_text(struct sp_arena *arena, const struct layout_spec *layout)
{
    switch (layout->recompute) {
    case RECOMPUTE_NONE:
        return "none";
    case RECOMPUTE_SELECTIVE:
        return "selective";
    case RECOMPUTE_FULL:
        return "full";
    case RECOMPUTE_BLOCK:
        break;
    }
    return sp_format(arena, "block:%lld", (long long)layout->recompute_layers);
}

const char *report_order_text(struct sp_arena *arena, const struct layout_spec *layout)
{
    const char *names[N_AXES];
    for (size_t i = 0; i < SP_COUNT_OF(names); i++) {
        names[i] = axis_names[layout->order[i]];
    }
    return sp_join(arena, names, SP_COUNT_OF(names), "-");
}

/* "7, 8 x 14, 7": layers by stage, equal neighbours joined; empty when all stages are alike. */
static const char *stage_layers_text(struct sp_arena *arena, const struct question *question)
{
    int64_t pp = question->layout.pp;
    const char *text = "";
    int64_t begin = 0;
    for (int64_t stage = 1; stage <= pp; stage++) {
        int64_t layers = layout_stage_layers(&question->layout, &question->model, begin);
        if (stage < pp && layout_stage_layers(&question->layout, &question->model, stage) == layers) {
            continue;
        }
        int64_t n_alike = stage - begin;
        if (n_alike == pp) {
            return "";
        }
        const char *times = n_alike > 1 ? sp_format(arena, "%lld x ", (long long)n_alike) : "";
        text = sp_format(arena, "%s%s%s%lld", text, begin == 0 ? "" : ", ", times, (long long)layers);
        begin = stage;
    }
    return text;
}

const char *report_settings_text(struct sp_arena *arena, const struct question *question)
{
    const struct layout_spec *layout = &question->layout;
    const struct run_spec *run = &question->run;
    struct sp_texts texts = {.arena = arena};
    int64_t micro_batches = run->global_batch / (layout->dp * layout->micro_batch);
    const char *size = layout->micro_batch == 1 ? "" : sp_format(arena, " of %lld", (long long)layout->micro_batch);
    sp_texts_add(&texts, "batch %lld (%lld micro-batch%s%s)", (long long)run->global_batch, (long long)micro_batches,
                 micro_batches == 1 ? "" : "es", size);
    sp_texts_add(&texts, "recompute %s", report_recompute_text(arena, layout));
    sp_texts_add(&texts, "zero %d", layout->zero);
    sp_texts_add(&texts, "%s", dtype_names[layout->precision]);
    sp_texts_add(&texts, "%s", framework_names[layout->framework]);
    sp_texts_add(&texts, "%s attention", layout->attention);
    sp_texts_add(&texts, "%s kernels", kernels_names[layout->kernels]);
    if (layout->offloads_activations || layout->offloads_optimizer || layout->offloads_parameters) {
        sp_texts_add(&texts, "offload %s", layout_offload_text(arena, layout));
    }
    if (run->mask == MASK_FULL || run->mask == MASK_WINDOW) {
        sp_texts_add(&texts, "%s mask", report_mask_text(arena, run));
    }
    if (run->document_tokens > 0) {
        sp_texts_add(&texts, "documents of %s", sp_tokens_print(arena, run->document_tokens));
    }
    if (run->lora_rank > 0) {
        sp_texts_add(&texts, "train %s", report_train_text(arena, run));
    }
    const char *stage_layers = stage_layers_text(arena, question);
    if (stage_layers[0] != '\0') {
        sp_texts_add(&texts, "layers by stage %s", stage_layers);
    }
    return sp_join(arena, texts.items, texts.count, ", ");
}

const char *report_title_text(struct sp_arena *arena, const struct question *question)
{
    return sp_format(arena, "%s, %s token%s, %s", question->model.name, sp_tokens_print(arena, question->run.seq),
                     sp_plural(question->run.seq), report_cluster_text(arena, question));
}
