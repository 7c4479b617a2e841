/* What the sequence must divide by, and what masks and documents ask. */
#include "spec/spec_internal.h"

enum { FP8_ROWS = 16 }; /* rows of an fp8 product come in multiples of 16 (TransformerEngine) */

/* ---- length ----------------------------------------------------------------------------------------------------- */

/* Who cuts 2 x sp chunks. TransformerEngine asserts it for all its types, PyTorch's load balancer and yunchang's hybrid
 * deal out the same chunks; the others cut one piece a rank. */
static bool cuts_two_chunks(const struct layout_spec *layout)
{
    if (layout->sp == 1) {
        return false;
    }
    switch (layout->method) {
    case METHOD_ZIGZAG:
    case METHOD_USP:
    case METHOD_DOUBLE_RING:
    case METHOD_FUSED_RING:
        return true;
    case METHOD_ALLGATHER:
        return layout->framework != FRAMEWORK_RING_FLASH_ATTN;
    case METHOD_ULYSSES:
        return layout->framework == FRAMEWORK_MEGATRON;
    case METHOD_NONE:
    case METHOD_NAIVE:
    case METHOD_RING:
    case METHOD_STRIPED:
    case N_METHODS:
        break;
    }
    return false;
}

struct sequence_rule {
    int64_t unit;
    const char *why;
};

/* "zigzag: 2 x sp 8, and each part by tp 4 under --tp-sp on, and by 16 for fp8": where the unit comes from. */
static const char *sequence_unit_text(struct sp_arena *arena, const struct layout_spec *layout, int64_t rows)
{
    const char *times = cuts_two_chunks(layout) ? "2 x " : "";
    const char *text =
        layout->sp == 1 ? ""
                        : sp_format(arena, "%s: %ssp %lld", method_names[layout->method], times, (long long)layout->sp);
    if (layout->has_tp_sp && layout->tp > 1) {
        text = sp_format(arena, "%s%stp %lld under --tp-sp on", text, text[0] == '\0' ? "" : ", and each part by ",
                         (long long)layout->tp);
    }
    if (rows > 1) {
        text = sp_format(arena, "%s%s%lld tokens a rank under fp8", text, text[0] == '\0' ? "" : ", and by ",
                         (long long)rows);
    }
    return text;
}

/* Zig-zag cuts 2 x sp chunks; with sequence parallelism in tp, the tokens of an sp rank are split over tp again; and fp8
 * wants 16 tokens of what is left, of all sequences of a micro-batch together. */
static struct sequence_rule sequence_rule(struct sp_arena *arena, const struct layout_spec *layout)
{
    int64_t chunks = cuts_two_chunks(layout) ? 2 * layout->sp : layout->sp;
    int64_t parts = layout->has_tp_sp ? layout->sp * layout->tp : layout->sp;
    int64_t rows = layout->precision == DTYPE_FP8 ? FP8_ROWS / gcd_of(FP8_ROWS, layout->micro_batch) : 1;
    return (struct sequence_rule){.unit = lcm_of(chunks, parts * rows), .why = sequence_unit_text(arena, layout, rows)};
}

static bool check_length(struct question *question, struct sp_error *err)
{
    const struct sequence_rule rule = sequence_rule(question->arena, &question->layout);
    int64_t seq = question->run.seq;
    if (seq > question->model.max_position) {
        sp_texts_add(&question->warnings, "sequence %lld is beyond the %lld positions of %s: needs %s and training",
                     (long long)seq, (long long)question->model.max_position, question->model.name,
                     question->model.position_rows > 0 ? "a longer table of positions" : "longer rope settings");
    }
    if (seq % rule.unit == 0) {
        return true;
    }
    return sp_fail_rule(err, "sequence_divides", "sequence %lld does not divide by %lld (%s); nearest lengths: %s",
                        (long long)seq, (long long)rule.unit, rule.why,
                        multiples_text(question->arena, seq, rule.unit));
}

/* ---- what a framework has no mask for ---------------------------------------------------------------------------- */

/* A balanced split under a mask that these implementations do not take. */
static bool is_mask_refused(const struct question *question)
{
    const struct layout_spec *layout = &question->layout;
    bool is_balanced = layout->method == METHOD_ZIGZAG || layout->method == METHOD_STRIPED ||
                       (layout->framework == FRAMEWORK_TORCH && layout->method == METHOD_ALLGATHER);
    bool is_causal_only = layout->framework == FRAMEWORK_RING_FLASH_ATTN || layout->framework == FRAMEWORK_TORCH;
    return question->run.mask == MASK_FULL && layout->sp > 1 && is_balanced && is_causal_only;
}

/* PyTorch's context parallel has no mask of documents. */
static bool are_documents_refused(const struct question *question)
{
    const struct layout_spec *layout = &question->layout;
    return question->run.document_tokens > 0 && layout->sp > 1 && layout->framework == FRAMEWORK_TORCH &&
           layout->method != METHOD_ULYSSES;
}

const char *sequence_refusal(const struct question *question)
{
    const struct layout_spec *layout = &question->layout;
    if (is_mask_refused(question)) {
        return sp_format(question->arena, "%s in %s balances a causal mask and refuses a full one",
                         method_names[layout->method], framework_names[layout->framework]);
    }
    return are_documents_refused(question)
               ? "torch: context_parallel attends across documents (its mask is causal only)"
               : NULL;
}

/* ---- documents -------------------------------------------------------------------------------------------------- */

static void warn_padding(struct question *question, int64_t documents)
{
    int64_t unit = cuts_two_chunks(&question->layout) ? 2 * question->layout.sp : question->layout.sp;
    if (documents % unit == 0) {
        return;
    }
    int64_t padded = (documents + unit - 1) / unit * unit;
    sp_texts_add(
        &question->warnings,
        "documents of %lld tokens do not divide by %lld, into which each is cut: padding each to %lld adds %.1f "
        "%% of work that is not priced",
        (long long)documents, (long long)unit, (long long)padded,
        100 * (double)(padded - documents) / (double)documents);
}

static bool check_documents(struct question *question, struct sp_error *err)
{
    const struct layout_spec *layout = &question->layout;
    int64_t documents = question->run.document_tokens;
    if (documents == 0) {
        return true;
    }
    if (documents > question->run.seq) {
        return sp_fail_rule(err, "documents",
                            "documents of %lld tokens are longer than the sequence of %lld; use at most %lld",
                            (long long)documents, (long long)question->run.seq, (long long)question->run.seq);
    }
    bool is_cut = layout->sp > 1 && layout->method != METHOD_ULYSSES;
    if (is_cut && documents < layout->sp) {
        return sp_fail_rule(err, "documents",
                            "documents of %lld tokens are shorter than the sp %lld ranks that cut each; use at least "
                            "%lld, a smaller sp, or ulysses",
                            (long long)documents, (long long)layout->sp, (long long)layout->sp);
    }
    bool is_contiguous = (layout->method == METHOD_ULYSSES && layout->framework != FRAMEWORK_MEGATRON) ||
                         (layout->method == METHOD_ALLGATHER && layout->framework == FRAMEWORK_RING_FLASH_ATTN);
    if (layout->sp > 1 && !is_contiguous) { /* else a rank has whole documents at attention */
        warn_padding(question, documents);
    }
    if (are_documents_refused(question)) {
        sp_texts_add(&question->warnings,
                     "torch: context_parallel attends across documents (its mask is causal only): priced as if it kept "
                     "them apart");
    }
    return true;
}

/* ---- masks ------------------------------------------------------------------------------------------------------ */

/* "12 of 24 layers" and the window that they see by the model's own file; 0: none has one. */
static int64_t windowed_layers(const struct model_spec *model, int64_t *window)
{
    int64_t count = 0;
    for (int64_t layer = 0; model->n_kinds > 0 && layer < model->n_layers; layer++) {
        const struct layer_kind *kind = &model->kinds[model->kind_of_layer[layer]];
        if (kind->window > 0) {
            *window = kind->window;
            count++;
        }
    }
    return count;
}

static void warn_mask(struct question *question)
{
    const struct run_spec *run = &question->run;
    if (run->mask == MASK_WINDOW && run->window >= run->seq) {
        sp_texts_add(&question->warnings, "window %lld hides nothing of a sequence of %lld: the same as --mask causal",
                     (long long)run->window, (long long)run->seq);
    }
    if (is_mask_refused(question)) {
        sp_texts_add(&question->warnings, "%s: priced as if it did not; ring and ulysses take it",
                     sequence_refusal(question));
    }
    int64_t window = 0;
    int64_t count = run->mask == MASK_MODEL ? 0 : windowed_layers(&question->model, &window);
    if (count > 0) {
        sp_texts_add(&question->warnings, "--mask replaces the window of %lld that %lld of the %lld layers of %s have",
                     (long long)window, (long long)count, (long long)question->model.n_layers, question->model.name);
    }
}

/* Only the all-to-all keeps a whole row of scores on one rank under its learned sink. */
static bool check_sinks(const struct question *question, struct sp_error *err)
{
    const struct layout_spec *layout = &question->layout;
    bool has_sinks = layout->sp == 1 || layout->method == METHOD_ULYSSES || layout->framework == FRAMEWORK_IDEAL;
    if (!question->model.has_sinks || has_sinks) {
        return true;
    }
    return sp_fail_rule(err, "sinks", "%s in %s has no attention sinks, which %s needs; use --sp-method ulysses",
                        method_names[layout->method], framework_names[layout->framework], question->model.name);
}

bool rules_sequence(struct question *question, struct sp_error *err)
{
    bool is_legal = check_length(question, err);
    is_legal = check_documents(question, err) && is_legal;
    warn_mask(question);
    return check_sinks(question, err) && is_legal;
}
