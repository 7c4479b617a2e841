/* Spans gathered for a Gantt chart. Of a whole step there may be millions: on each rank those of one micro-batch (or of one layer,
 * where there are few) become a block with the time of each kind of work in it, and blocks too short to be seen become one. Of the
 * attention of one layer the spans themselves are kept. */
#include "report/gantt.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_COLLECTED = 256, MOST_ROWS = 16, MOST_LAYER_RANKS = 8, MOST_LAYERS_SEEN = 160, MOST_SPANS = 40000 };
/* Of the step: what is shorter is not seen. */
static const double SEEN_FRAC = 1.0 / 640;
static const double PS = 1e-12;

const char *const gantt_of_names[] = {"step", "layer", NULL};

const struct gantt_style gantt_styles[N_GANTT_KINDS] = {
    [GANTT_ATTENTION] = {"attention", "#0072B2", 'A'},
    [GANTT_GEMM] = {"gemm", "#E69F00", 'G'},
    [GANTT_ELEMENTWISE] = {"elementwise", "#F0E442", 'E'},
    [GANTT_TP] = {"tp transfers", "#D55E00", 'T'},
    [GANTT_SP] = {"sp transfers", "#009E73", 'S'},
    [GANTT_EP] = {"ep transfers", "#000000", 'X'},
    [GANTT_DP] = {"dp transfers", "#56B4E9", 'D'},
    [GANTT_PP] = {"pp transfers", "#CC79A7", 'P'},
    [GANTT_OPTIMIZER] = {"optimizer", "#777777", 'O'},
    [GANTT_OFFLOAD] = {"offload", "#8B5A2B", 'H'},
    [GANTT_OTHER] = {"other", "#C0C0C0", '-'},
};

/* Work of one rank that is drawn as one. */
struct block {
    int64_t begin_ps, end_ps;
    double seconds[N_GANTT_KINDS];
};
struct blocks {
    int64_t rank;
    int64_t micro_batch, layer; /* of the last block */
    bool is_forward;
    int n_blocks;
    int capacity;
    struct block *blocks;
};

/* A span of the layer that is drawn. */
struct kept_span {
    int64_t rank;
    enum program_stream stream;
    enum gantt_kind kind;
    double begin_s, end_s;
};

struct gantt {
    struct sp_arena *arena;
    struct gantt_request request;
    /* a step */
    bool has_layers;    /* blocks are of layers */
    bool has_joined;    /* some are of several */
    int64_t every;      /* rank is gathered: all ranks of a large cluster are more than anyone reads */
    int32_t *blocks_of; /* by rank: index and 1; 0: none */
    int n_blocks;
    struct blocks *blocks[MOST_COLLECTED];
    /* a layer */
    int64_t group_ranks, group_stride; /* of the sp group of rank 0 */
    int64_t layer, micro_batch;        /* -1: not known yet */
    int n_spans;
    int capacity;
    struct kept_span *spans;
};

static enum gantt_kind kind_of(enum time_item item)
{
    static const enum gantt_kind kinds[N_TIME_ITEMS] = {
        [TIME_ATTENTION] = GANTT_ATTENTION, [TIME_GEMM] = GANTT_GEMM,           [TIME_ELEMENTWISE] = GANTT_ELEMENTWISE,
        [TIME_TP_EXPOSED] = GANTT_TP,       [TIME_SP_EXPOSED] = GANTT_SP,       [TIME_DP_EXPOSED] = GANTT_DP,
        [TIME_PP_EXPOSED] = GANTT_PP,       [TIME_EP_EXPOSED] = GANTT_EP,       [TIME_BUBBLE] = GANTT_OTHER,
        [TIME_IMBALANCE] = GANTT_OTHER,     [TIME_OPTIMIZER] = GANTT_OPTIMIZER, [TIME_OFFLOAD_EXPOSED] = GANTT_OFFLOAD,
        [TIME_OTHER] = GANTT_OTHER,
    };
    return kinds[item];
}

/* ---- a step ------------------------------------------------------------------------------------------------------ */

static bool is_slow(const struct gantt *gantt, int64_t rank)
{
    const struct sim_options *options = gantt->request.options;
    for (int i = 0; i < options->n_slow_gpus; i++) {
        if (options->slow_gpus[i].gpu == rank) {
            return true;
        }
    }
    return false;
}

/* NULL: a rank that is not drawn. */
static struct blocks *blocks_of(struct gantt *gantt, int64_t rank)
{
    if (gantt->blocks_of[rank] > 0) {
        return gantt->blocks[gantt->blocks_of[rank] - 1];
    }
    if (gantt->n_blocks == MOST_COLLECTED || (rank % gantt->every != 0 && !is_slow(gantt, rank))) {
        return NULL;
    }
    struct blocks *blocks = sp_arena_alloc(gantt->arena, sizeof(*blocks));
    blocks->rank = rank;
    gantt->blocks[gantt->n_blocks++] = blocks;
    gantt->blocks_of[rank] = gantt->n_blocks;
    return blocks;
}

static struct block *push_block(struct sp_arena *arena, struct blocks *blocks)
{
    if (blocks->blocks == NULL || blocks->n_blocks == blocks->capacity) {
        enum { FIRST_CAPACITY = 64 };
        int capacity = blocks->capacity == 0 ? FIRST_CAPACITY : 2 * blocks->capacity;
        struct block *all = sp_arena_array(arena, (size_t)capacity, sizeof(*all));
        if (blocks->blocks != NULL) {
            memcpy(all, blocks->blocks, (size_t)blocks->n_blocks * sizeof(*all));
        }
        blocks->blocks = all;
        blocks->capacity = capacity;
    }
    struct block *block = &blocks->blocks[blocks->n_blocks++];
    *block = (struct block){.begin_ps = 0};
    return block;
}

/* Recomputation belongs to the backward pass that it is for. */
static bool goes_on(const struct gantt *gantt, const struct blocks *blocks, const struct sim_span *span)
{
    return blocks->micro_batch == span->micro_batch && blocks->is_forward == (span->pass == STEP_FORWARD) &&
           (!gantt->has_layers || blocks->layer == span->layer);
}

/* Of two neighbours: whether they are drawn as one. A gap that is seen always parts them. */
static bool is_joined(const struct block *before, int64_t begin_ps, int64_t end_ps, double seen_ps)
{
    double gap_ps = (double)(begin_ps - before->end_ps);
    bool is_short = (double)(before->end_ps - before->begin_ps) < seen_ps || (double)(end_ps - begin_ps) < seen_ps / 2;
    return is_short && gap_ps < seen_ps;
}

static void add_to_block(struct gantt *gantt, const struct sim_span *span, int64_t begin_ps, int64_t end_ps)
{
    struct blocks *blocks = blocks_of(gantt, span->rank);
    if (blocks == NULL) {
        return;
    }
    double seen_ps = gantt->request.expected_s / PS * SEEN_FRAC;
    struct block *last = blocks->n_blocks == 0 ? NULL : &blocks->blocks[blocks->n_blocks - 1];
    bool is_same = last != NULL && (double)(begin_ps - last->end_ps) < seen_ps && goes_on(gantt, blocks, span);
    bool is_tiny = last != NULL && (double)(last->end_ps - last->begin_ps) < seen_ps &&
                   (double)(begin_ps - last->end_ps) < seen_ps;
    if (!is_same && !is_tiny) {
        last = push_block(gantt->arena, blocks);
        last->begin_ps = begin_ps;
    }
    last->end_ps = end_ps;
    last->seconds[kind_of(span->item)] += (double)(end_ps - begin_ps) * PS;
    gantt->has_joined = gantt->has_joined || (is_tiny && !goes_on(gantt, blocks, span));
    blocks->micro_batch = span->micro_batch;
    blocks->layer = span->layer;
    blocks->is_forward = span->pass == STEP_FORWARD;
}

/* ---- a layer ----------------------------------------------------------------------------------------------------- */

/* The first layer that is seen of the group, of its first micro-batch, going forward. */
static bool is_of_layer(struct gantt *gantt, const struct sim_span *span)
{
    bool is_of_group = span->rank % gantt->group_stride == 0 && span->rank / gantt->group_stride < gantt->group_ranks;
    bool is_there = span->layer >= 0 && span->micro_batch >= 0 && span->pass == STEP_FORWARD &&
                    span->stream <= STREAM_SECOND_ARRIVALS;
    if (is_of_group && is_there && gantt->layer < 0) {
        gantt->layer = span->layer;
        gantt->micro_batch = span->micro_batch;
    }
    return is_of_group && is_there && span->layer == gantt->layer && span->micro_batch == gantt->micro_batch;
}

static void keep_span(struct gantt *gantt, const struct kept_span *span)
{
    if (gantt->n_spans == MOST_SPANS) {
        return;
    }
    if (gantt->spans == NULL || gantt->n_spans == gantt->capacity) {
        enum { FIRST_CAPACITY = 256 };
        int capacity = gantt->capacity == 0 ? FIRST_CAPACITY : 2 * gantt->capacity;
        struct kept_span *spans = sp_arena_array(gantt->arena, (size_t)capacity, sizeof(*spans));
        if (gantt->spans != NULL) {
            memcpy(spans, gantt->spans, (size_t)gantt->n_spans * sizeof(*spans));
        }
        gantt->spans = spans;
        gantt->capacity = capacity;
    }
    gantt->spans[gantt->n_spans++] = *span;
}

/* ---- gathering --------------------------------------------------------------------------------------------------- */

/* Until the last member has come a transfer is a wait. */
static void take_span(void *context, const struct sim_span *span)
{
    struct gantt *gantt = context;
    int64_t begin_ps = span->start_ps + span->waited_ps;
    int64_t end_ps = span->start_ps + span->duration_ps;
    if (begin_ps >= end_ps) {
        return;
    }
    if (gantt->request.of == GANTT_STEP) {
        if (span->stream == STREAM_KERNELS) {
            add_to_block(gantt, span, begin_ps, end_ps);
        }
    } else if (is_of_layer(gantt, span)) {
        const struct kept_span kept = {span->rank, span->stream, kind_of(span->item), (double)begin_ps * PS,
                                       (double)end_ps * PS};
        keep_span(gantt, &kept);
    }
}

static void take_memory(void *context, int64_t rank, int64_t time_ps, double bytes)
{
    (void)context;
    (void)rank;
    (void)time_ps;
    (void)bytes;
}

struct gantt *gantt_open(struct sp_arena *arena, const struct gantt_request *request)
{
    const struct question *question = request->question;
    struct gantt *gantt = sp_arena_alloc(arena, sizeof(*gantt));
    *gantt = (struct gantt){.arena = arena, .request = *request, .layer = -1, .micro_batch = -1};
    int64_t layers = (question->model.n_layers + question->layout.pp - 1) / question->layout.pp;
    int64_t micro_batches = question->run.global_batch / (question->layout.dp * question->layout.micro_batch);
    gantt->has_layers = 2 * layers * micro_batches <= MOST_LAYERS_SEEN;
    gantt->every = request->options->is_exact ? (question->run.gpus + MOST_ROWS - 1) / MOST_ROWS : 1;
    gantt->blocks_of = sp_arena_array(arena, (size_t)question->run.gpus, sizeof(*gantt->blocks_of));
    struct group_placement group = layout_placement(&question->layout, &question->hardware, AXIS_CP);
    gantt->group_stride = group.stride > 0 ? group.stride : 1;
    gantt->group_ranks = group.size > 0 ? group.size : 1;
    return gantt;
}

struct sim_sink gantt_sink(struct gantt *gantt)
{
    return (struct sim_sink){.context = gantt, .span = take_span, .memory = take_memory};
}

/* ---- the picture of a step --------------------------------------------------------------------------------------- */

/* A picture under construction. */
struct drawing {
    const struct gantt *gantt;
    const struct sim_result *result;
    struct sp_arena *arena;
    struct gantt_picture *picture;
    struct gantt_box *boxes;
    int capacity;
    bool has_joined;
};

static void add_box(struct drawing *drawing, const struct gantt_box *box)
{
    if (drawing->boxes == NULL || drawing->picture->n_boxes == drawing->capacity) {
        enum { FIRST_CAPACITY = 1024 };
        int capacity = drawing->capacity == 0 ? FIRST_CAPACITY : 2 * drawing->capacity;
        struct gantt_box *boxes = sp_arena_array(drawing->arena, (size_t)capacity, sizeof(*boxes));
        if (drawing->boxes != NULL) {
            memcpy(boxes, drawing->boxes, (size_t)drawing->capacity * sizeof(*boxes));
        }
        drawing->boxes = boxes;
        drawing->picture->boxes = boxes;
        drawing->capacity = capacity;
    }
    drawing->boxes[drawing->picture->n_boxes++] = *box;
}

static const char *rank_label(const struct drawing *drawing, int64_t rank)
{
    const struct sim_result *result = drawing->result;
    const char *stage = "";
    const char *alike = "";
    for (int i = 0; i < result->n_ranks; i++) {
        const struct sim_rank *own = &result->ranks[i];
        if (own->rank == rank) {
            bool has_stages = drawing->gantt->request.question->layout.pp > 1;
            stage = has_stages ? sp_format(drawing->arena, ", stage %lld", (long long)own->stage + 1) : "";
            alike = own->count > 1 ? sp_format(drawing->arena, " (%lld alike)", (long long)own->count) : "";
        }
    }
    return sp_format(drawing->arena, "rank %lld%s%s", (long long)rank, stage, alike);
}

/* One kind on the other; what is missing at the top is waiting. A thin line of white parts a block from the next. */
static void add_block(struct drawing *drawing, const struct block *block, int row)
{
    static const double least = 0.005;        /* of the height: thinner is not seen */
    static const double parting = 1.0 / 1600; /* of the step */
    static const double least_parted = 6.0;   /* such lines: what is shorter would be half white */
    double begin_s = (double)block->begin_ps * PS;
    double end_s = (double)block->end_ps * PS;
    double length_s = end_s - begin_s;
    double line_s = parting * drawing->picture->end_s;
    line_s = length_s > least_parted * line_s ? line_s : 0.0;
    double low = 0.0;
    for (int kind = 0; kind < (int)N_GANTT_KINDS; kind++) {
        double share = block->seconds[kind] / length_s;
        if (share < least) {
            continue;
        }
        double high = fmin(low + share, 1.0);
        const struct gantt_box box = {(enum gantt_kind)kind, row, begin_s, end_s - line_s, low, high};
        add_box(drawing, &box);
        low = high;
    }
}

/* The step may be longer than was expected: what is not seen of it becomes one again. */
static void draw_row(struct drawing *drawing, const struct blocks *blocks, int row)
{
    double seen_ps = drawing->picture->end_s / PS * SEEN_FRAC;
    struct block block = {.begin_ps = -1};
    for (int i = 0; i < blocks->n_blocks; i++) {
        const struct block *next = &blocks->blocks[i];
        bool is_first = block.begin_ps < 0;
        if (is_first || !is_joined(&block, next->begin_ps, next->end_ps, seen_ps)) {
            if (!is_first) {
                add_block(drawing, &block, row);
            }
            block = *next;
            continue;
        }
        drawing->has_joined = true;
        block.end_ps = next->end_ps;
        for (int kind = 0; kind < (int)N_GANTT_KINDS; kind++) {
            block.seconds[kind] += next->seconds[kind];
        }
    }
    if (block.begin_ps >= 0) {
        add_block(drawing, &block, row);
    }
}

static int compare_ranks_of_blocks(const void *a, const void *b)
{
    const struct blocks *const *left = a;
    const struct blocks *const *right = b;
    return (*left)->rank < (*right)->rank ? -1 : 1;
}

static void draw_step(struct drawing *drawing)
{
    const struct gantt *gantt = drawing->gantt;
    struct gantt_picture *picture = drawing->picture;
    int64_t gpus = gantt->request.question->run.gpus;
    const struct blocks **rows = sp_arena_array(drawing->arena, (size_t)gantt->n_blocks + 1, sizeof(*rows));
    memcpy(rows, gantt->blocks, (size_t)gantt->n_blocks * sizeof(*rows));
    qsort(rows, (size_t)gantt->n_blocks, sizeof(*rows), compare_ranks_of_blocks);
    picture->begin_s = 0.0;
    picture->end_s = drawing->result->step_time_s;
    picture->n_rows = gantt->n_blocks < MOST_ROWS ? gantt->n_blocks : MOST_ROWS;
    picture->labels = sp_arena_array(drawing->arena, MOST_ROWS, sizeof(*picture->labels));
    for (int row = 0; row < picture->n_rows; row++) {
        const struct blocks *blocks = rows[(int64_t)row * gantt->n_blocks / picture->n_rows];
        picture->labels[row] = rank_label(drawing, blocks->rank);
        draw_row(drawing, blocks, row);
    }
    const char *joined = gantt->has_joined || drawing->has_joined ? ", or several short ones" : "";
    const char *ranks =
        picture->n_rows < gpus ? sp_format(drawing->arena, "; %d of %lld ranks", picture->n_rows, (long long)gpus) : "";
    picture->note = sp_format(drawing->arena,
                              "a block: one %s going forward or back%s; height of a colour: its share of the time; "
                              "white: waiting%s",
                              gantt->has_layers ? "layer" : "micro-batch", joined, ranks);
}

/* ---- the picture of a layer -------------------------------------------------------------------------------------- */

static const char *stream_label(enum program_stream stream)
{
    static const char *const labels[] = {
        [STREAM_KERNELS] = "kernels",
        [STREAM_EXCHANGE] = "sends",
        [STREAM_SECOND_EXCHANGE] = "outer sends",
        [STREAM_ARRIVALS] = "receives",
        [STREAM_SECOND_ARRIVALS] = "outer receives",
    };
    return labels[stream];
}

static bool is_attention(const struct kept_span *span)
{
    return span->kind == GANTT_ATTENTION || span->kind == GANTT_SP || span->stream != STREAM_KERNELS;
}

static int compare_spans(const void *a, const void *b)
{
    const struct kept_span *left = a;
    const struct kept_span *right = b;
    if (left->rank != right->rank) {
        return left->rank < right->rank ? -1 : 1;
    }
    if (left->stream != right->stream) {
        return left->stream < right->stream ? -1 : 1;
    }
    return left->begin_s < right->begin_s ? -1 : left->begin_s > right->begin_s;
}

/* From the first kernel or transfer of the attention to the end of the last. */
static void frame_layer(struct drawing *drawing)
{
    const struct gantt *gantt = drawing->gantt;
    struct gantt_picture *picture = drawing->picture;
    picture->begin_s = INFINITY;
    picture->end_s = 0.0;
    for (int i = 0; i < gantt->n_spans; i++) {
        if (is_attention(&gantt->spans[i])) {
            picture->begin_s = fmin(picture->begin_s, gantt->spans[i].begin_s);
            picture->end_s = fmax(picture->end_s, gantt->spans[i].end_s);
        }
    }
}

static void draw_layer(struct drawing *drawing)
{
    const struct gantt *gantt = drawing->gantt;
    struct gantt_picture *picture = drawing->picture;
    enum { MOST_LAYER_ROWS = MOST_LAYER_RANKS * (STREAM_SECOND_ARRIVALS + 1) };
    qsort(gantt->spans, (size_t)gantt->n_spans, sizeof(*gantt->spans), compare_spans);
    frame_layer(drawing);
    picture->labels = sp_arena_array(drawing->arena, MOST_LAYER_ROWS, sizeof(*picture->labels));
    int n_ranks = 0;
    for (int i = 0; i < gantt->n_spans; i++) {
        const struct kept_span *span = &gantt->spans[i];
        bool is_other_rank = i == 0 || span->rank != gantt->spans[i - 1].rank;
        if (is_other_rank && n_ranks++ == MOST_LAYER_RANKS) {
            break;
        }
        if (is_other_rank || span->stream != gantt->spans[i - 1].stream) {
            const char *stream = stream_label(span->stream);
            picture->labels[picture->n_rows++] =
                is_other_rank ? sp_format(drawing->arena, "%s %s", rank_label(drawing, span->rank), stream) : stream;
        }
        const struct gantt_box box = {span->kind,
                                      picture->n_rows - 1,
                                      fmax(span->begin_s, picture->begin_s),
                                      fmin(span->end_s, picture->end_s),
                                      0.0,
                                      1.0};
        if (box.begin_s < box.end_s) {
            add_box(drawing, &box);
        }
    }
    picture->note = sp_format(drawing->arena, "attention of layer %lld forward, micro-batch %lld; white: waiting%s",
                              (long long)gantt->layer, (long long)gantt->micro_batch,
                              gantt->request.options->is_exact ? "" : "; ranks that behave alike once (--exact: each)");
}

/* ---- drawing ----------------------------------------------------------------------------------------------------- */

static bool is_terminal(const char *path)
{
    return strcmp(path, "-") == 0;
}

bool gantt_check(const char *path, struct sp_error *err)
{
    if (is_terminal(path)) {
        return true;
    }
    if (gantt_format(path) == NULL) {
        return sp_fail(
            err, SP_ERROR_USAGE,
            "--gantt: expected a name that ends in .svg, .png or .pdf, or - for the terminal, found \"%.80s\"", path);
    }
    if (!gnuplot_check(err)) {
        sp_error_prefix(err, "--gantt FILE (--gantt - prints letters)");
        return false;
    }
    return true;
}

bool gantt_draw(const struct gantt *gantt, const struct report_style *style, const struct sim_result *result,
                struct sp_error *err)
{
    struct gantt_picture picture = {
        .title = sp_format(gantt->arena, "%s: step of %s, simulated",
                           report_title_text(gantt->arena, gantt->request.question),
                           report_step_time(gantt->arena, result->step_time_s)),
        .subtitle = report_degrees_text(gantt->arena, gantt->request.question),
    };
    struct drawing drawing = {.gantt = gantt, .result = result, .arena = gantt->arena, .picture = &picture};
    bool is_text = is_terminal(gantt->request.path);
    if (gantt->request.of == GANTT_STEP) {
        draw_step(&drawing);
    } else {
        draw_layer(&drawing);
    }
    if (picture.n_boxes == 0) {
        return sp_fail(err, SP_ERROR_USAGE, "--gantt: nothing to draw: no layer of this step sends for its attention");
    }
    if (is_text) {
        gantt_print(style, gantt->arena, &picture);
        return true;
    }
    return gantt_plot(gantt->arena, &picture, gantt->request.path, err);
}
