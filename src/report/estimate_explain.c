/* --explain: the rows that the figures are sums of, each with its formula and the source of what decides it. */
#include "report/report.h"

#include <assert.h>
#include <string.h>

static const double GIB = 0x1p30;
/* A smaller share of the step is what rounding leaves of zero. */
static const double ROUNDING = 1e-14;

/* What the sections share. */
struct view {
    const struct report_style *style;
    struct sp_arena *arena;
    const struct question *question;
    const struct estimate *estimate;
};

static void print_heading(const struct view *view, const char *text)
{
    bool is_markdown = view->style->format == REPORT_MARKDOWN;
    const char *begin = is_markdown ? "### " : report_color(view->style, REPORT_BOLD);
    const char *end = is_markdown ? "\n" : report_color(view->style, REPORT_PLAIN);
    (void)fprintf(view->style->file, "%s%s%s\n", begin, text, end);
}

static void end_section(const struct view *view)
{
    (void)fputc('\n', view->style->file);
}

/* ---- the headline ----------------------------------------------------------------------------------------------- */

enum { HEADLINE_FIGURE, HEADLINE_VALUE, HEADLINE_FORMULA, HEADLINE_SOURCE, N_HEADLINE_COLUMNS };

/* Adds a figure and its formula; the caller adds the source. */
static void add_figure(struct report_grid *grid, const char *figure, const char *value, const char *formula)
{
    report_grid_add(grid);
    report_grid_text(grid, HEADLINE_FIGURE, "%s", figure);
    report_grid_text(grid, HEADLINE_VALUE, "%s", value);
    report_grid_text(grid, HEADLINE_FORMULA, "%s", formula);
}

static void add_source(struct report_grid *grid, const struct sp_figure *figure)
{
    const char *source = figure->source == NULL ? "" : figure->source;
    report_grid_text(grid, HEADLINE_SOURCE, "%s: %s", sp_figure_kind_names[figure->kind], source);
}

static const struct sp_figure *peak_of(const struct gpu_spec *gpu, enum dtype precision)
{
    switch (precision) {
    case DTYPE_FP8:
        return &gpu->peak_fp8;
    case DTYPE_FP16:
        return &gpu->peak_fp16;
    case DTYPE_FP32:
        return &gpu->peak_fp32;
    case DTYPE_BF16:
    case N_DTYPES:
        break;
    }
    return &gpu->peak_bf16;
}

static void add_throughput(const struct view *view, struct report_grid *grid)
{
    struct sp_arena *arena = view->arena;
    const struct run_spec *run = &view->question->run;
    const struct estimate *estimate = view->estimate;
    const char *step = report_step_time(arena, estimate->step_time_s);
    if (run->is_attention_only) {
        const struct layout_spec *layout = &view->question->layout;
        long long ranks = layout->tp * layout->sp;
        add_figure(grid, "layer", step, "attention forward and backward: the sum of the time items below");
        add_figure(grid, "tokens/s", report_three(arena, estimate->tokens_per_s),
                   sp_format(arena, "micro-batch x seq / layer = %lld x %lld / %s", (long long)layout->micro_batch,
                             (long long)run->seq, step));
        add_figure(
            grid, "tokens/s/GPU", report_three(arena, estimate->tokens_per_s_per_gpu),
            sp_format(arena, "tokens/s / (tp x sp) = %s / %lld", report_three(arena, estimate->tokens_per_s), ranks));
        return;
    }
    add_figure(grid, "step", step, "the sum of the time items below");
    if (estimate->step_time_low_s > 0) {
        add_figure(grid, "90 % interval",
                   sp_format(arena, "%s to %s", report_step_time(arena, estimate->step_time_low_s),
                             report_step_time(arena, estimate->step_time_high_s)),
                   "spreads of tables, figures at both ends of theirs, the framework's own spread (eq. 87-89)");
    }
    add_figure(grid, "tokens/s", report_three(arena, estimate->tokens_per_s),
               sp_format(arena, "global batch x seq / step = %lld x %lld / %s", (long long)run->global_batch,
                         (long long)run->seq, step));
    add_figure(grid, "tokens/s/GPU", report_three(arena, estimate->tokens_per_s_per_gpu),
               sp_format(arena, "tokens/s / gpus = %s / %lld", report_three(arena, estimate->tokens_per_s),
                         (long long)run->gpus));
}

static void add_efficiency(const struct view *view, struct report_grid *grid)
{
    struct sp_arena *arena = view->arena;
    const struct estimate *estimate = view->estimate;
    enum dtype precision = view->question->layout.precision;
    const struct sp_figure *peak = peak_of(&view->question->hardware.gpu, precision);
    const char *convention = view->question->run.counts_full_attention ? "all pairs" : "causal pairs";
    const char *work = view->question->run.is_attention_only ? "attention of one layer, three times its forward"
                                                             : "6 x active parameters a token plus attention";
    add_figure(grid, "model FLOP", report_three(arena, estimate->model_flop),
               sp_format(arena, "%s (%s), all GPUs", work, convention));
    add_figure(grid, "model FLOP/s/GPU", report_three(arena, estimate->model_flop_per_s_per_gpu),
               "model FLOP / step / gpus");
    add_figure(grid, "MFU", sp_format(arena, "%s %%", report_percent(arena, estimate->mfu_frac)),
               sp_format(arena, "model FLOP/s/GPU / dense %s peak = %s / %s", dtype_names[precision],
                         report_three(arena, estimate->model_flop_per_s_per_gpu), report_three(arena, peak->value)));
    add_source(grid, peak);
    add_figure(grid, "HFU", sp_format(arena, "%s %%", report_percent(arena, estimate->hfu_frac)),
               "the same with what recomputation repeats");
}

static void add_memory(const struct view *view, struct report_grid *grid)
{
    struct sp_arena *arena = view->arena;
    const struct estimate *estimate = view->estimate;
    add_figure(grid, "peak", sp_quantity_print(arena, estimate->peak_bytes, SP_BYTES),
               "the sum of the memory items below");
    add_figure(grid, "peak allocated", sp_quantity_print(arena, estimate->peak_allocated_bytes, SP_BYTES),
               "peak - runtime: what torch.cuda.max_memory_allocated says");
    add_figure(grid, "peak reserved", sp_quantity_print(arena, estimate->peak_reserved_bytes, SP_BYTES),
               "with what the allocator holds beyond it");
    add_figure(grid, "capacity", sp_quantity_print(arena, estimate->capacity_bytes, SP_BYTES), "memory of the device");
    add_source(grid, &view->question->hardware.gpu.hbm_capacity);
}

static void print_headline(const struct view *view)
{
    static const struct report_column columns[N_HEADLINE_COLUMNS] = {
        {.heading = "figure"},
        {.heading = "value", .is_right = true},
        {.heading = "formula"},
        {.heading = "source", .is_note = true},
    };
    struct report_grid grid;
    report_grid_init(&grid, view->arena, columns, N_HEADLINE_COLUMNS);
    add_throughput(view, &grid);
    add_efficiency(view, &grid);
    add_memory(view, &grid);
    print_heading(view, "figures");
    report_grid_print(view->style, &grid);
    end_section(view);
}

/* ---- time ------------------------------------------------------------------------------------------------------- */

enum {
    OPERATOR_NAME,
    OPERATOR_PASS,
    OPERATOR_COUNT,
    OPERATOR_FLOP,
    OPERATOR_BYTES,
    OPERATOR_RATE,
    OPERATOR_EACH,
    OPERATOR_ALL,
    OPERATOR_SHAPE,
    OPERATOR_FORMULA,
    OPERATOR_SOURCE,
    N_OPERATOR_COLUMNS
};

static const struct report_column operator_columns[N_OPERATOR_COLUMNS] = {
    [OPERATOR_NAME] = {.heading = "operator"},
    [OPERATOR_PASS] = {.heading = "pass"},
    [OPERATOR_COUNT] = {.heading = "count", .is_right = true},
    [OPERATOR_FLOP] = {.heading = "FLOP", .is_right = true},
    [OPERATOR_BYTES] = {.heading = "bytes", .is_right = true},
    [OPERATOR_RATE] = {.heading = "rate", .is_right = true},
    [OPERATOR_EACH] = {.heading = "each", .is_right = true},
    [OPERATOR_ALL] = {.heading = "all s", .is_right = true},
    [OPERATOR_SHAPE] = {.heading = "shape", .is_note = true},
    [OPERATOR_FORMULA] = {.heading = "formula", .is_note = true},
    [OPERATOR_SOURCE] = {.heading = "source", .is_note = true},
};

/* FLOP/s of what computes, bytes/s of what only moves, on the link of what communicates. */
static const char *rate_text(struct sp_arena *arena, const struct operator_row *row)
{
    if (row->operation != NULL) {
        return row->link_s > 0.0 ? sp_quantity_print(arena, row->sent_bytes / row->link_s, SP_BYTES_PER_S) : "";
    }
    if (!(row->time_s > 0.0)) {
        return "";
    }
    if (row->flop > 0.0) {
        return sp_quantity_print(arena, row->flop / row->time_s, SP_FLOP_PER_S);
    }
    return row->hbm_bytes > 0.0 ? sp_quantity_print(arena, row->hbm_bytes / row->time_s, SP_BYTES_PER_S) : "";
}

static const char *shape_text(struct sp_arena *arena, const struct operator_row *row)
{
    if (!(row->m > 0.0)) {
        return "";
    }
    const char *names = row->item == TIME_GEMM ? "m n k" : "query rows, key rows, heads";
    return sp_format(arena, "%.0f x %.0f x %.0f (%s)", row->m, row->n, row->k, names);
}

static bool is_same_text(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

/* Formula and source are said once for rows that follow each other and share them. */
static void add_operator(const struct view *view, struct report_grid *grid, const struct operator_row *row,
                         const struct operator_row *before)
{
    struct sp_arena *arena = view->arena;
    double bytes = row->operation != NULL ? row->sent_bytes : row->hbm_bytes;
    report_grid_add(grid);
    report_grid_text(grid, OPERATOR_NAME, "%s", row->name);
    report_grid_text(grid, OPERATOR_PASS, "%s", step_pass_names[row->pass]);
    report_grid_text(grid, OPERATOR_COUNT, "%.10g", row->count);
    report_grid_text(grid, OPERATOR_FLOP, "%s", row->flop > 0.0 ? sp_format(arena, "%.2e", row->flop) : "");
    report_grid_text(grid, OPERATOR_BYTES, "%s", bytes > 0.0 ? sp_quantity_print(arena, bytes, SP_BYTES) : "");
    report_grid_text(grid, OPERATOR_RATE, "%s", rate_text(arena, row));
    report_grid_text(grid, OPERATOR_EACH, "%s", sp_quantity_print(arena, row->time_s, SP_SECONDS));
    report_grid_text(grid, OPERATOR_ALL, "%s", report_three(arena, row->count * row->time_s));
    report_grid_text(grid, OPERATOR_SHAPE, "%s", shape_text(arena, row));
    bool is_markdown = view->style->format == REPORT_MARKDOWN;
    if (row->formula != NULL && (is_markdown || before == NULL || !is_same_text(row->formula, before->formula))) {
        report_grid_text(grid, OPERATOR_FORMULA, "%s", row->formula);
    }
    if (row->source != NULL && (is_markdown || before == NULL || !is_same_text(row->source, before->source))) {
        report_grid_text(grid, OPERATOR_SOURCE, "%s", row->source);
    }
}

static void print_time_item(const struct view *view, enum time_item item)
{
    const struct estimate *estimate = view->estimate;
    struct report_grid grid;
    report_grid_init(&grid, view->arena, operator_columns, N_OPERATOR_COLUMNS);
    const struct operator_row *before = NULL;
    double sum_s = 0.0;
    for (int i = 0; i < estimate->n_operators; i++) {
        const struct operator_row *row = &estimate->operators[i];
        if (row->item == item && row->count * row->time_s > ROUNDING * estimate->step_time_s) {
            add_operator(view, &grid, row, before);
            sum_s += row->count * row->time_s;
            before = row;
        }
    }
    if (grid.n_rows == 0) {
        return;
    }
    const char *sum = report_three(view->arena, sum_s);
    print_heading(
        view, sp_format(view->arena, "time: %s %s s, the sum of", report_words(view->arena, time_names[item]), sum));
    report_grid_print(view->style, &grid);
    end_section(view);
}

static void print_stage(const struct view *view)
{
    const struct estimate *estimate = view->estimate;
    struct sp_arena *arena = view->arena;
    print_heading(view, sp_format(arena,
                                  "slowest stage: %lld of %lld, one micro-batch %s forward and %s backward; %lld "
                                  "micro-batches a step",
                                  (long long)estimate->slowest_stage + 1, (long long)view->question->layout.pp,
                                  sp_quantity_print(arena, estimate->stage_forward_s, SP_SECONDS),
                                  sp_quantity_print(arena, estimate->stage_backward_s, SP_SECONDS),
                                  (long long)estimate->micro_batches));
    end_section(view);
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

enum { TENSOR_ITEM, TENSOR_SUM, TENSOR_NAME, TENSOR_SIZE, TENSOR_FORMULA, N_TENSOR_COLUMNS };

/* The item and its sum stand in the first of its rows. */
static void add_memory_item(const struct view *view, struct report_grid *grid, enum memory_item item)
{
    const struct estimate *estimate = view->estimate;
    bool is_first = true;
    for (int i = 0; i < estimate->n_tensors; i++) {
        const struct tensor_row *row = &estimate->tensors[i];
        if (row->item != item || !(row->bytes > 0.0)) {
            continue;
        }
        report_grid_add(grid);
        if (is_first) {
            report_grid_text(grid, TENSOR_ITEM, "%s", report_words(view->arena, memory_names[item]));
            report_grid_text(grid, TENSOR_SUM, "%s", report_three(view->arena, estimate->memory_bytes[item] / GIB));
        }
        report_grid_text(grid, TENSOR_NAME, "%s", row->name);
        report_grid_text(grid, TENSOR_SIZE, "%s", report_three(view->arena, row->bytes / GIB));
        report_grid_text(grid, TENSOR_FORMULA, "%s", row->formula == NULL ? "" : row->formula);
        is_first = false;
    }
}

static void print_memory(const struct view *view)
{
    static const struct report_column columns[N_TENSOR_COLUMNS] = {
        [TENSOR_ITEM] = {.heading = "memory"},
        [TENSOR_SUM] = {.heading = "GiB", .is_right = true},
        [TENSOR_NAME] = {.heading = "sum of"},
        [TENSOR_SIZE] = {.heading = "GiB", .is_right = true},
        [TENSOR_FORMULA] = {.heading = "formula", .is_note = true},
    };
    struct report_grid grid;
    report_grid_init(&grid, view->arena, columns, N_TENSOR_COLUMNS);
    for (int item = 0; item < (int)N_MEMORY_ITEMS; item++) {
        add_memory_item(view, &grid, (enum memory_item)item);
    }
    const struct estimate *estimate = view->estimate;
    print_heading(view, sp_format(view->arena, "memory at its peak: stage %lld, %s",
                                  (long long)estimate->peak_stage + 1, moment_names[estimate->peak_moment]));
    report_grid_print(view->style, &grid);
    end_section(view);
}

static void print_moments(const struct view *view)
{
    static const struct report_column columns[] = {
        {.heading = "moment"}, {.heading = "GiB", .is_right = true}, {.heading = ""}};
    const struct estimate *estimate = view->estimate;
    struct report_grid grid;
    report_grid_init(&grid, view->arena, columns, (int)SP_COUNT_OF(columns));
    for (int i = 0; i < (int)N_MOMENTS; i++) {
        if (estimate->moment_bytes[i] > 0.0) {
            report_grid_add(&grid);
            report_grid_text(&grid, 0, "%s", moment_names[i]);
            report_grid_text(&grid, 1, "%s", report_three(view->arena, estimate->moment_bytes[i] / GIB));
            report_grid_text(&grid, 2, "%s", i == (int)estimate->peak_moment ? "the peak" : "");
        }
    }
    print_heading(view, sp_format(view->arena, "moments of stage %lld", (long long)estimate->peak_stage + 1));
    report_grid_print(view->style, &grid);
    end_section(view);
}

/* ---- communication ---------------------------------------------------------------------------------------------- */

static void print_communication(const struct view *view)
{
    static const struct report_column columns[] = {
        {.heading = "communication"},
        {.heading = "pass"},
        {.heading = "bytes/layer", .is_right = true},
        {.heading = "messages", .is_right = true},
        {.heading = "bytes/step", .is_right = true},
        {.heading = "link"},
        {.heading = "on it s", .is_right = true},
        {.heading = "exposed s", .is_right = true},
    };
    struct sp_arena *arena = view->arena;
    struct report_grid grid;
    report_grid_init(&grid, arena, columns, (int)SP_COUNT_OF(columns));
    for (int i = 0; i < view->estimate->n_communications; i++) {
        const struct communication_row *row = &view->estimate->communications[i];
        int column = 0;
        report_grid_add(&grid);
        report_grid_text(&grid, column++, "%s %s", report_axis_names[row->axis], row->operation);
        report_grid_text(&grid, column++, "%s", step_pass_names[row->pass]);
        report_grid_text(&grid, column++, "%s", sp_quantity_print(arena, row->bytes_per_layer, SP_BYTES));
        report_grid_text(&grid, column++, "%s", report_three(arena, row->messages_per_layer));
        report_grid_text(&grid, column++, "%s", sp_quantity_print(arena, row->bytes_per_step, SP_BYTES));
        report_grid_text(&grid, column++, "%s", report_tier_title(row->tier));
        report_grid_text(&grid, column++, "%s", report_three(arena, row->time_s));
        bool is_hidden = row->exposed_s <= ROUNDING * view->estimate->step_time_s;
        report_grid_text(&grid, column++, "%s", is_hidden ? "0" : report_three(arena, row->exposed_s));
    }
    if (grid.n_rows > 0) {
        print_heading(view, "sent by the busiest GPU, for one micro-batch and in a step");
        report_grid_print(view->style, &grid);
        end_section(view);
    }
}

void report_explain(const struct report_style *style, struct sp_arena *arena, const struct answer *answer)
{
    const struct view view = {
        .style = style, .arena = arena, .question = answer->question, .estimate = answer->estimate};
    print_headline(&view);
    print_stage(&view);
    for (int item = 0; item < (int)N_TIME_ITEMS; item++) {
        print_time_item(&view, (enum time_item)item);
    }
    print_communication(&view);
    print_moments(&view);
    print_memory(&view);
    const char *where =
        sp_format(arena, "equations: docs/model.md; figures of the hardware: seqplan show hardware %s --source",
                  view.question->hardware.name);
    report_wrap(style->file, 0, "", where);
}
