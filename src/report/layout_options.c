/* A layout of a plan as the options of `seqplan estimate` that price it. */
#include "report/report.h"

#include <string.h>

const char report_usual_order[] = "tp-cp-ep-dp-pp";

const char *report_shell_word(struct sp_arena *arena, const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=,+%@-";
    if (text[0] != '\0' && text[strspn(text, plain)] == '\0') {
        return text;
    }
    const char *quoted = "'";
    while (*text != '\0') {
        size_t length = strcspn(text, "'");
        quoted = sp_format(arena, "%s%.*s%s", quoted, (int)length, text, text[length] == '\'' ? "'\\''" : "");
        text += length + (text[length] == '\'' ? 1 : 0);
    }
    return sp_format(arena, "%s'", quoted);
}

/* Options one after the other. */
struct line {
    struct sp_arena *arena;
    const char *text;
};

static void add_text(struct line *line, const char *name, const char *value)
{
    if (value != NULL) {
        line->text = sp_format(line->arena, "%s%s--%s %s", line->text, line->text[0] == '\0' ? "" : " ", name,
                               report_shell_word(line->arena, value));
    }
}

static void add_name(struct line *line, const char *name, const char *const *names, int index)
{
    add_text(line, name, index < 0 ? NULL : names[index]);
}

/* A degree that is not the default. */
static void add_degree(struct line *line, const char *name, int64_t degree)
{
    add_text(line, name, degree == 1 ? NULL : sp_format(line->arena, "%lld", (long long)degree));
}

/* What the user said of the question: everything but the layout. */
static void add_question(struct line *line, const struct report_plan *plan, int64_t gpus)
{
    const struct request *request = &plan->asked->request;
    add_text(line, "model", request->model);
    add_text(line, "hardware", request->hardware);
    add_text(line, "network", request->network);
    add_text(line, "gpus", sp_format(line->arena, "%lld", (long long)gpus));
    add_text(line, "seq", sp_tokens_print(line->arena, request->seq.value));
    add_text(line, "global-batch", sp_format(line->arena, "%lld", (long long)plan->plan->global_batch));
}

static void add_degrees(struct line *line, const struct layout_spec *layout)
{
    add_degree(line, "tp", layout->tp);
    add_degree(line, "sp", layout->sp);
    if (layout->sp > 1 || layout->method != METHOD_NONE) {
        add_text(line, "sp-method", method_names[layout->method]);
    }
    if (layout->method == METHOD_USP) {
        add_text(line, "sp-ulysses", sp_format(line->arena, "%lld", (long long)layout->sp_ulysses));
    }
    if (layout->method == METHOD_DOUBLE_RING) {
        add_text(line, "sp-inner", sp_format(line->arena, "%lld", (long long)layout->sp_inner));
    }
    add_degree(line, "pp", layout->pp);
    add_degree(line, "vpp", layout->vpp);
    enum schedule_id usual = layout->vpp > 1 ? SCHEDULE_INTERLEAVED : SCHEDULE_1F1B;
    add_text(line, "schedule", layout->schedule == usual ? NULL : schedule_names[layout->schedule]);
    add_degree(line, "dp", layout->dp);
    add_degree(line, "ep", layout->ep);
    add_degree(line, "etp", layout->etp);
    add_degree(line, "micro-batch", layout->micro_batch);
}

static void add_memory(struct line *line, const struct request *request, const struct layout_spec *layout)
{
    const char *layers = layout->pp_layers == PP_LAYERS_AUTO ? "auto" : request->pp_layers;
    add_text(line, "pp-layers", layers);
    add_text(line, "framework", framework_names[layout->framework]);
    add_text(line, "recompute", report_recompute_text(line->arena, layout));
    add_text(line, "zero", sp_format(line->arena, "%d", layout->zero));
    const char *offload = layout_offload_text(line->arena, layout);
    add_text(line, "offload", strcmp(offload, "none") == 0 ? NULL : offload);
}

/* What the user said of software and run, and --set: but the order, which the layout says. */
static void add_rest(struct line *line, const struct request *request, const struct layout_spec *layout)
{
    static const char *const switches[] = {"off", "on"};
    static const char order[] = "layout.order=";
    add_name(line, "tp-sp", switches, request->tp_sp);
    add_name(line, "precision", dtype_names, request->precision);
    add_text(line, "attention", request->attention);
    add_name(line, "kernels", kernels_names, request->kernels);
    add_text(line, "mask", request->mask);
    add_text(line, "documents",
             request->documents.is_given ? sp_tokens_print(line->arena, request->documents.value) : NULL);
    add_text(line, "train", request->train);
    add_text(line, "tokens", request->tokens.is_given ? report_tokens_text(line->arena, request->tokens.value) : NULL);
    add_name(line, "flops", flops_names, request->flops);
    for (size_t i = 0; i < request->set.count; i++) {
        bool is_order = strncmp(request->set.items[i], order, strlen(order)) == 0;
        add_text(line, "set", is_order ? NULL : request->set.items[i]);
    }
    const char *placed = report_order_text(line->arena, layout);
    add_text(line, "set",
             strcmp(placed, report_usual_order) == 0 ? NULL : sp_format(line->arena, "%s%s", order, placed));
}

const char *report_layout_options(struct sp_arena *arena, const struct report_plan *plan,
                                  const struct plan_layout *layout)
{
    struct line line = {.arena = arena, .text = ""};
    add_question(&line, plan, layout->gpus);
    add_degrees(&line, &layout->layout);
    add_memory(&line, &plan->asked->request, &layout->layout);
    add_rest(&line, &plan->asked->request, &layout->layout);
    return line.text;
}
