/* The step as tasks: what the ranks of each stage run, in order (docs/simulator.md). The same rows that the estimate adds up, put
 * where a framework runs them: micro-batches in the order of the schedule, weights gathered one layer ahead, gradients scattered
 * one layer behind, copies to the host beside the next layer. */
#include "step/program_segments.h"

#include <assert.h>
#include <string.h>

const char *const program_stream_names[] = {"kernels", "exchange", "second exchange", "arrivals", "second arrivals",
                                            "shards",  "to host",  "from host",       NULL};

/* ---- entries ---------------------------------------------------------------------------------------------------- */

/* An entry, and what is needed before it and follows it. */
struct work {
    struct program_entry entry;
    struct segment_key key;
    bool is_beside; /* kernels that a transfer can run beside */
    bool is_gathered, is_scattered, is_copied_out, is_fetched;
};

struct stage_builder {
    struct program_builder *program;
    int64_t stage;
    int class;
    struct schedule_order order;
    int64_t *left; /* by chunk: backward actions that have not come yet */
    bool *begun;   /* by chunk: a micro-batch has come */
    int n;
    int64_t capacity;
    struct work *works;
};

static struct work *add_work(struct stage_builder *stage, const struct segment_key *key, int64_t micro_batch)
{
    if (stage->n == stage->capacity) {
        stage->works =
            sp_arena_grow(stage->program->arena, stage->works, stage->n, &stage->capacity, sizeof stage->works[0]);
    }
    struct work *work = &stage->works[stage->n++];
    *work = (struct work){.key = *key, .is_beside = key->part != PART_TO_STAGE && key->part != PART_FROM_STAGE};
    work->entry = (struct program_entry){.micro_batch = (int32_t)micro_batch, .layer = -1, .other_stage = -1};
    return work;
}

static const struct layout_spec *layout_of(const struct stage_builder *stage)
{
    return &stage->program->shape->question->layout;
}

static const struct stage_class *class_of(const struct stage_builder *stage)
{
    return &stage->program->shape->classes[stage->class];
}

/* ---- one action ------------------------------------------------------------------------------------------------- */

/* Layers of a chunk, as numbers within the stage: first to last - 1. */
static void chunk_layers(const struct stage_builder *stage, int chunk, int64_t *first, int64_t *last)
{
    const struct layout_spec *layout = layout_of(stage);
    int64_t layers = class_of(stage)->layers;
    int64_t chunks = layout->schedule == SCHEDULE_DUALPIPE || layout->pp == 1 ? 1 : schedule_chunks(layout);
    int64_t at = chunks == 1 ? 0 : chunk;
    *first = layers * at / chunks;
    *last = layers * (at + 1) / chunks;
}

static int kind_of(const struct stage_builder *stage, int64_t layer)
{
    const struct model_spec *model = &stage->program->shape->question->model;
    return model->n_kinds == 1 ? 0 : model->kind_of_layer[class_of(stage)->first + layer];
}

/* The first of a chunk keep only what recomputation starts from. */
static bool keeps_checkpoint(const struct stage_builder *stage, int64_t in_chunk)
{
    const struct layout_spec *layout = layout_of(stage);
    if (layout->recompute == RECOMPUTE_BLOCK) {
        return in_chunk < layout->recompute_layers;
    }
    return class_recomputed_layers(stage->program->shape, class_of(stage)) > 0;
}

static struct segment_key layer_key(const struct stage_builder *stage, enum part part, int64_t layer, int64_t in_chunk)
{
    bool is_selective = layout_of(stage)->recompute == RECOMPUTE_SELECTIVE;
    struct segment_key key = {.part = part,
                              .kind = kind_of(stage, layer),
                              .class = stage->class,
                              .is_recomputed = keeps_checkpoint(stage, in_chunk),
                              .is_last_layer = layer + 1 == class_of(stage)->layers,
                              .is_first_layer = layer == 0,
                              .is_backward = part != PART_LAYER_FORWARD};
    key.repeats = part == PART_LAYER_BACKWARD && (is_selective || key.is_recomputed);
    return key;
}

static void add_layers(struct stage_builder *stage, const struct schedule_action *action, enum part part)
{
    const struct step_shape *shape = stage->program->shape;
    bool is_spread = shape->shard_group.size > 1 || shape->expert_shard_group.size > 1;
    bool is_sharded_layer = shape->question->layout.zero >= 3 && is_spread;
    bool is_offloaded = shape->question->layout.offloads_activations;
    int64_t first;
    int64_t last;
    chunk_layers(stage, action->chunk, &first, &last);
    for (int64_t i = 0; i < last - first; i++) {
        int64_t layer = part == PART_LAYER_FORWARD ? first + i : last - 1 - i;
        struct segment_key key = layer_key(stage, part, layer, layer - first);
        struct work *work = add_work(stage, &key, action->micro_batch);
        bool is_first = !stage->begun[action->chunk];
        bool is_last = stage->left[action->chunk] == 0;
        work->entry.layer = (int32_t)(class_of(stage)->first + layer);
        work->is_gathered = is_sharded_layer && part != PART_LAYER_WEIGHTS &&
                            (!gathers_once(shape) || (part == PART_LAYER_FORWARD && is_first));
        work->is_scattered = is_sharded_layer && part == PART_LAYER_BACKWARD && (!gathers_once(shape) || is_last);
        work->is_copied_out = is_offloaded && part == PART_LAYER_FORWARD;
        work->is_fetched = is_offloaded && part == PART_LAYER_BACKWARD;
    }
}

static void add_end(struct stage_builder *stage, const struct schedule_action *action, enum part part)
{
    int64_t layers = class_of(stage)->layers;
    struct segment_key key = {.part = part, .class = stage->class};
    if (part == PART_HEAD_FORWARD || part == PART_HEAD_BACKWARD) {
        struct segment_key of_last = layer_key(stage, PART_LAYER_FORWARD, layers - 1, layers - 1);
        key.kind = of_last.kind;
        key.is_recomputed = of_last.is_recomputed;
        key.is_last_layer = true;
    }
    if (gathers_once(stage->program->shape)) {
        key.is_first = !stage->begun[action->chunk];
        key.is_last = part != PART_HEAD_FORWARD && part != PART_EMBEDDING_FORWARD && stage->left[action->chunk] == 0;
    }
    add_work(stage, &key, action->micro_batch);
}

/* Messages of one pair of stages are told apart by the sender's chunk and direction. */
static int16_t message_key(int chunk, bool is_backward)
{
    return (int16_t)(2 * chunk + (is_backward ? 1 : 0));
}

struct neighbour {
    bool exists;
    int64_t stage;
    int chunk;
};

static struct neighbour neighbour_of(const struct stage_builder *stage, int chunk, bool is_next)
{
    struct neighbour other = {.exists = false};
    other.exists = (is_next ? schedule_next : schedule_previous)(layout_of(stage), stage->stage, chunk, &other.stage,
                                                                 &other.chunk);
    return other;
}

static void add_hop(struct stage_builder *stage, const struct schedule_action *action, enum part part, bool is_next)
{
    struct neighbour other = neighbour_of(stage, action->chunk, is_next);
    if (!other.exists || other.stage == stage->stage) {
        return;
    }
    bool is_send = part == PART_TO_STAGE;
    bool is_backward = is_send != is_next;
    struct segment_key key = {.part = part, .is_backward = is_backward};
    struct work *work = add_work(stage, &key, action->micro_batch);
    work->entry.other_stage = (int16_t)other.stage;
    work->entry.key = message_key(is_send ? action->chunk : other.chunk, is_backward);
}

static bool needs_early_scatter(const struct stage_builder *stage, bool is_last_backward)
{
    const struct step_shape *shape = stage->program->shape;
    return layout_of(stage)->zero == 2 && shape->shard_group.size > 1 && !is_last_backward;
}

static void add_forward(struct stage_builder *stage, const struct schedule_action *action)
{
    add_hop(stage, action, PART_FROM_STAGE, false);
    if (!neighbour_of(stage, action->chunk, false).exists) {
        add_end(stage, action, PART_EMBEDDING_FORWARD);
    }
    add_layers(stage, action, PART_LAYER_FORWARD);
    if (!neighbour_of(stage, action->chunk, true).exists) {
        add_end(stage, action, PART_HEAD_FORWARD);
    }
    add_hop(stage, action, PART_TO_STAGE, true);
    stage->begun[action->chunk] = true;
}

static int64_t all_left(const struct stage_builder *stage)
{
    int64_t left = 0;
    for (int chunk = 0; chunk < schedule_chunks(layout_of(stage)); chunk++) {
        left += stage->left[chunk];
    }
    return left;
}

static void add_backward(struct stage_builder *stage, const struct schedule_action *action)
{
    stage->left[action->chunk]--;
    add_hop(stage, action, PART_FROM_STAGE, true);
    if (!neighbour_of(stage, action->chunk, true).exists) {
        add_end(stage, action, PART_HEAD_BACKWARD);
    }
    add_layers(stage, action, PART_LAYER_BACKWARD);
    if (!neighbour_of(stage, action->chunk, false).exists) {
        add_end(stage, action, PART_EMBEDDING_BACKWARD);
    }
    add_hop(stage, action, PART_TO_STAGE, false);
    if (needs_early_scatter(stage, all_left(stage) == 0)) {
        struct segment_key key = {.part = PART_EARLY_SCATTER, .class = stage->class};
        add_work(stage, &key, action->micro_batch);
    }
}

static void add_weights(struct stage_builder *stage, const struct schedule_action *action)
{
    if (!neighbour_of(stage, action->chunk, true).exists) {
        add_end(stage, action, PART_HEAD_WEIGHTS);
    }
    add_layers(stage, action, PART_LAYER_WEIGHTS);
}

static void add_actions(struct stage_builder *stage)
{
    for (int64_t i = 0; i < stage->order.n_actions; i++) {
        const struct schedule_action *action = &stage->order.actions[i];
        switch (action->kind) {
        case ACTION_FORWARD:
            add_forward(stage, action);
            break;
        case ACTION_BACKWARD:
            add_backward(stage, action);
            break;
        case ACTION_WEIGHTS:
            add_weights(stage, action);
            break;
        }
    }
    struct segment_key end = {.part = PART_OPTIMIZER, .class = stage->class};
    add_work(stage, &end, -1);
}

/* ---- transfers beside the work ---------------------------------------------------------------------------------- */

struct entry_list {
    struct sp_arena *arena;
    int64_t n, capacity;
    struct program_entry *entries;
};

static int64_t append(struct entry_list *list, const struct program_entry *entry)
{
    if (list->n == list->capacity) {
        list->entries = sp_arena_grow(list->arena, list->entries, list->n, &list->capacity, sizeof list->entries[0]);
    }
    list->entries[list->n] = *entry;
    return list->n++;
}

static int64_t append_beside(struct stage_builder *stage, struct entry_list *list, const struct work *work,
                             enum part part)
{
    struct segment_key key = work->key;
    key.part = part;
    key.is_last_layer = false;
    key.is_first_layer = false;
    key.repeats = false;
    key.is_recomputed = part == PART_COPY_OUT || part == PART_COPY_IN ? key.is_recomputed : false;
    key.is_backward = work->key.part == PART_LAYER_BACKWARD;
    struct program_entry entry = work->entry;
    entry.segment = program_segment(stage->program, &key);
    return append(list, &entry);
}

/* The next work at or after `at` that needs something brought first; n: none. */
static int next_in_need(const struct stage_builder *stage, int at, bool is_fetch)
{
    while (at < stage->n && !(is_fetch ? stage->works[at].is_fetched : stage->works[at].is_gathered)) {
        at++;
    }
    return at;
}

/* What is brought to works ahead of their turn: one ahead. */
struct bringing {
    bool is_fetch;
    int next;       /* work that it will be brought for next */
    int64_t *where; /* by work: entry that brings it; -1 none */
};

static void bring(struct stage_builder *stage, struct entry_list *list, struct bringing *bringing, int at)
{
    enum part part = bringing->is_fetch ? PART_COPY_IN : PART_GATHER;
    if (bringing->next >= stage->n) {
        return; /* nothing is left to bring: the search below would run to the end for nothing */
    }
    /* its own, when nothing came before to run beside; then one for a later work */
    int limit = stage->works[at].is_beside ? next_in_need(stage, at + 1, bringing->is_fetch) : at;
    while (bringing->next < stage->n && bringing->next <= limit) {
        bringing->where[bringing->next] = append_beside(stage, list, &stage->works[bringing->next], part);
        bringing->next = next_in_need(stage, bringing->next + 1, bringing->is_fetch);
    }
}

static int16_t distance(int64_t from, int64_t to)
{
    if (to < 0) {
        return 0;
    }
    assert(from - to <= INT16_MAX);
    return (int16_t)(from - to);
}

static void lay_out(struct stage_builder *stage, struct entry_list *list)
{
    struct bringing both[2] = {{.is_fetch = false}, {.is_fetch = true}};
    for (int b = 0; b < 2; b++) {
        both[b].where = sp_arena_array(stage->program->arena, (size_t)stage->n + 1, sizeof(int64_t));
        both[b].next = next_in_need(stage, 0, both[b].is_fetch);
        for (int i = 0; i < stage->n; i++) {
            both[b].where[i] = -1;
        }
    }
    for (int i = 0; i < stage->n; i++) {
        struct work *work = &stage->works[i];
        bring(stage, list, &both[0], i);
        bring(stage, list, &both[1], i);
        work->entry.segment = program_segment(stage->program, &work->key);
        work->entry.gather_back = distance(list->n, both[0].where[i]);
        work->entry.fetch_back = distance(list->n, both[1].where[i]);
        append(list, &work->entry);
        if (work->is_scattered) {
            append_beside(stage, list, work, PART_SCATTER);
        }
        if (work->is_copied_out) {
            append_beside(stage, list, work, PART_COPY_OUT);
        }
    }
}

/* ---- stages ----------------------------------------------------------------------------------------------------- */

static bool is_of_class(const struct question *question, const struct stage_class *class, int64_t stage)
{
    const struct layout_spec *layout = &question->layout;
    const struct model_spec *model = &question->model;
    int64_t layers = layout_stage_layers(layout, model, stage);
    int64_t first = layout_stage_first(layout, model, stage);
    return class->layers == layers && class->has_embedding == schedule_holds_embedding(layout, stage) &&
           class->has_head == schedule_holds_head(layout, stage) &&
           (model->n_kinds == 1 || memcmp(&model->kind_of_layer[class->first], &model->kind_of_layer[first],
                                          (size_t)layers * sizeof(model->kind_of_layer[0])) == 0);
}

static int find_class(const struct step_shape *shape, int64_t stage)
{
    int i = 0;
    while (!is_of_class(shape->question, &shape->classes[i], stage)) {
        i++;
        assert(i < shape->n_classes);
    }
    return i;
}

static double stage_saved(const struct step_shape *shape, const struct stage_builder *stage)
{
    double bytes = 0;
    for (int i = 0; i < stage->n && stage->works[i].entry.micro_batch >= 0; i++) {
        const struct work *work = &stage->works[i];
        if (work->entry.micro_batch == stage->works[0].entry.micro_batch && work->key.part == PART_LAYER_FORWARD) {
            struct saved_layer saved = kept_layer_bytes(shape, work->key.kind);
            bytes += work->key.is_recomputed ? saved.checkpoint : saved.total;
        }
    }
    return bytes;
}

static void hold_state(const struct step_shape *shape, const struct stage_builder *stage, struct stage_program *out)
{
    struct stage_sums sums;
    sum_stage(shape, class_of(stage), &sums);
    out->state_bytes = sums.state_bytes + sums.workspace_bytes;
    out->gradient_cap_bytes = sums.gradient_bytes;
    out->gradient_bytes = shape->question->software.framework.has_persistent_gradients ? sums.gradient_bytes : 0;
    out->saved_bytes = stage_saved(shape, stage);
}

static void build_stage(struct program_builder *builder, int64_t at, const struct schedule_order *order,
                        struct stage_program *out)
{
    struct stage_builder stage = {
        .program = builder, .stage = at, .class = find_class(builder->shape, at), .order = *order};
    size_t chunks = (size_t)schedule_chunks(&builder->shape->question->layout);
    stage.left = sp_arena_array(builder->arena, chunks, sizeof stage.left[0]);
    stage.begun = sp_arena_array(builder->arena, chunks, sizeof stage.begun[0]);
    for (int64_t i = 0; i < order->n_actions; i++) {
        stage.left[order->actions[i].chunk] += order->actions[i].kind == ACTION_BACKWARD ? 1 : 0;
    }
    struct entry_list list = {.arena = builder->arena};
    add_actions(&stage);
    lay_out(&stage, &list);
    out->n_entries = list.n;
    out->entries = list.entries;
    hold_state(builder->shape, &stage, out);
}

static void price_lists(const struct step_shape *shape, struct step_lists *lists)
{
    for (int k = 0; k < shape->n_kinds; k++) {
        price_layer_base(shape, k, &lists->layers[k]);
        price_layer_rest(shape, k, &lists->layers[k]);
    }
    price_ends(shape, &lists->ends);
}

static void place_groups(const struct step_shape *shape, struct group_placement placements[N_PROGRAM_GROUPS])
{
    const struct attention_problem *problem = &shape->kinds[0].attention;
    placements[RANKS_TP] = shape->tp_group;
    placements[RANKS_SP] = problem->group;
    placements[RANKS_SP_INNER] = problem->inner_group;
    placements[RANKS_SP_OUTER] = problem->outer_group;
    placements[RANKS_SHARD] = shape->shard_group;
    placements[RANKS_EP] = shape->ep_group;
    placements[RANKS_ETP] = shape->etp_group;
    placements[RANKS_EXPERT_SHARD] = shape->expert_shard_group;
    placements[RANKS_PP] = shape->pp_group;
}

void step_program(const struct question *question, struct sp_arena *arena, struct step_program *program)
{
    struct step_shape *shape = sp_arena_alloc(arena, sizeof *shape);
    struct step_lists *lists = sp_arena_alloc(arena, sizeof *lists);
    struct stage_class *classes = sp_arena_array(arena, MAX_STAGE_CLASSES, sizeof classes[0]);
    step_shape_init(shape, question);
    shape->n_classes = stage_classes(question, classes);
    shape->classes = classes;
    struct stage_run *runs = sp_arena_array(arena, MAX_STAGE_RUNS, sizeof runs[0]);
    shape->n_runs = stage_runs(question, classes, shape->n_classes, runs);
    shape->runs = runs;
    price_lists(shape, lists);
    struct program_builder builder = {
        .arena = arena, .shape = shape, .lists = lists, .positions = attention_positions(shape)};
    builder.transfers.arena = arena;
    builder.keys = sp_arena_array(arena, MAX_SEGMENTS, sizeof builder.keys[0]);
    builder.segments = sp_arena_array(arena, MAX_SEGMENTS, sizeof builder.segments[0]);
    size_t pp = (size_t)question->layout.pp;
    struct schedule_order *orders = sp_arena_array(arena, pp, sizeof orders[0]);
    schedule_orders(&question->layout, shape->micro_batches, arena, orders);
    *program = (struct step_program){.is_by_position = builder.positions > 1};
    place_groups(shape, program->placements);
    program->stages = sp_arena_array(arena, pp, sizeof program->stages[0]);
    for (size_t i = 0; i < pp; i++) {
        build_stage(&builder, (int64_t)i, &orders[i], &program->stages[i]);
    }
    program->n_transfers = builder.transfers.n;
    program->transfers = builder.transfers.items;
    program->n_segments = builder.n_segments;
    program->segments = builder.segments;
}
