/* Segments of a step's program: what a layer, an end of the model, a hop or the optimizer is made of on the ranks of a stage,
 * and what memory it holds. */
#include "step/program_segments.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* ---- lists ------------------------------------------------------------------------------------------------------ */

static struct op_lists open_lists(struct program_builder *builder, bool is_by_position)
{
    struct op_lists lists = {.n = is_by_position ? builder->positions : 1};
    lists.lists = sp_arena_array(builder->arena, (size_t)lists.n, sizeof lists.lists[0]);
    for (int64_t i = 0; i < lists.n; i++) {
        lists.lists[i] = (struct op_list){.arena = builder->arena, .transfers = &builder->transfers};
    }
    return lists;
}

/* One for each position of the sp group: those that lie `apart` positions from each other run the same. */
static const struct program_ops *close_lists(struct program_builder *builder, const struct op_lists *lists)
{
    if (lists->n == 1) {
        struct program_ops *one = sp_arena_alloc(builder->arena, sizeof *one);
        *one = lists->lists[0].out;
        return one;
    }
    size_t sp = (size_t)builder->shape->question->layout.sp;
    struct program_ops *all = sp_arena_array(builder->arena, sp, sizeof all[0]);
    for (size_t i = 0; i < sp; i++) {
        all[i] = lists->lists[i * (size_t)lists->n / sp].out;
    }
    return all;
}

/* ---- what segments are made of ---------------------------------------------------------------------------------- */

/* Weights that other ranks bring, or activations that the host brings, before the first kernel. */
static void add_arrival_wait(struct op_lists *lists, bool is_gathered, bool is_fetched)
{
    struct program_op op = {.kind = OP_KERNEL, .item = TIME_OTHER, .transfer = -1, .moment = PROGRAM_NO_MOMENT};
    op.name = is_gathered ? "weights are there" : "activations are there";
    if (is_gathered) {
        op_list_wait(&op, PROGRAM_WAIT_GATHER, STREAM_SHARDS, 0);
    }
    if (is_fetched) {
        op_list_wait(&op, PROGRAM_WAIT_FETCH, STREAM_FROM_HOST, 0);
    }
    if (op.n_waits > 0) {
        op_lists_add(lists, &op);
    }
}

static enum weight_gradients weights_of(const struct program_builder *builder, enum part part)
{
    bool is_alone = part == PART_LAYER_WEIGHTS || part == PART_HEAD_WEIGHTS;
    bool is_put_off = schedule_puts_off_weights(&builder->shape->question->layout);
    return is_alone ? WEIGHTS_ALONE : is_put_off ? WEIGHTS_LEFT_OUT : WEIGHTS_WITH_INPUTS;
}

static void add_layer(struct program_builder *builder, const struct segment_key *key, struct op_lists *lists)
{
    const struct step_shape *shape = builder->shape;
    const struct layer_operators *layer = &builder->lists->layers[key->kind];
    bool is_offloaded = shape->question->layout.offloads_activations;
    struct layer_part part = {.shape = shape, .kind = key->kind, .weights = weights_of(builder, key->part)};
    bool is_forward = key->part == PART_LAYER_FORWARD;
    if (key->part != PART_LAYER_WEIGHTS) {
        add_arrival_wait(lists, shape->question->layout.zero >= 3, is_offloaded && !is_forward);
    }
    if (key->part == PART_LAYER_BACKWARD && key->repeats) {
        part.pass = STEP_RECOMPUTE;
        part.is_rebuilt = key->is_recomputed;
        part.rows = &layer->reforward;
        enum weight_gradients weights = part.weights;
        part.weights = WEIGHTS_WITH_INPUTS;
        add_layer_rows(lists, &part);
        part.weights = weights;
    }
    part.pass = is_forward ? STEP_FORWARD : STEP_BACKWARD;
    part.rows = is_forward ? &layer->forward : &layer->backward;
    add_layer_rows(lists, &part);
}

static const struct operator_list *end_rows(const struct program_builder *builder, enum part part, int *moment)
{
    const struct end_operators *ends = &builder->lists->ends;
    *moment = part == PART_HEAD_FORWARD    ? MOMENT_LOSS
              : part == PART_HEAD_BACKWARD ? MOMENT_HEAD_BACKWARD
                                           : PROGRAM_NO_MOMENT;
    return part == PART_EMBEDDING_FORWARD    ? &ends->embedding_forward
           : part == PART_EMBEDDING_BACKWARD ? &ends->embedding_backward
           : part == PART_HEAD_FORWARD       ? &ends->head_forward
                                             : &ends->head_backward;
}

/* Tables that stay whole through the step are gathered before the first micro-batch and scattered after the last: a row whose
 * count is a share of a micro-batch. */
static bool occurs(const struct program_builder *builder, const struct segment_key *key, const struct operator_row *row)
{
    if (!gathers_once(builder->shape) || row->item != TIME_DP_EXPOSED || row->count >= 1) {
        return true;
    }
    return row->collective == COLLECTIVE_ALL_GATHER ? key->is_first : key->is_last;
}

static void add_end(struct program_builder *builder, const struct segment_key *key, struct op_lists *lists)
{
    enum weight_gradients weights = weights_of(builder, key->part);
    int moment;
    const struct operator_list *rows = end_rows(builder, key->part, &moment);
    for (int pass = 0; pass < 2; pass++) { /* a table is gathered before it is used */
        for (int i = 0; i < rows->n; i++) {
            const struct operator_row *row = &rows->rows[i];
            bool is_wanted = weights == WEIGHTS_WITH_INPUTS || row->is_weight_gradient == (weights == WEIGHTS_ALONE);
            bool is_first = row->item == TIME_DP_EXPOSED && row->collective == COLLECTIVE_ALL_GATHER;
            if (is_first == (pass == 0) && is_wanted && occurs(builder, key, row)) {
                add_row(lists, row, moment);
            }
        }
    }
}

static void add_hop(struct program_builder *builder, const struct segment_key *key, struct op_lists *lists)
{
    const struct step_shape *shape = builder->shape;
    double bytes = shape->hidden_bytes / shape->token_split;
    struct program_transfer transfer = {.name = "pipeline hop",
                                        .axis = AXIS_PP,
                                        .group = RANKS_PP,
                                        .operation = COLLECTIVE_SEND_RECEIVE,
                                        .bytes = bytes,
                                        .time_s = pipeline_hop_time(shape),
                                        .sent_bytes = bytes};
    struct program_op op = {.kind = key->part == PART_TO_STAGE ? OP_TO_STAGE : OP_FROM_STAGE,
                            .name = key->part == PART_TO_STAGE ? "to the next stage" : "from another stage",
                            .item = TIME_PP_EXPOSED,
                            .pass = key->is_backward ? STEP_BACKWARD : STEP_FORWARD,
                            .moment = PROGRAM_NO_MOMENT};
    op.transfer = transfer_index(&builder->transfers, &transfer);
    op_lists_add(lists, &op);
}

/* ZeRO 3: rows of a layer that run beside the layers around it. */
static void add_shards(struct program_builder *builder, const struct segment_key *key, struct op_lists *lists)
{
    const struct layer_operators *layer = &builder->lists->layers[key->kind];
    const struct operator_list *rows = key->is_backward ? &layer->backward : &layer->forward;
    enum collective wanted = key->part == PART_GATHER ? COLLECTIVE_ALL_GATHER : COLLECTIVE_REDUCE_SCATTER;
    for (int i = 0; i < rows->n; i++) {
        if (rows->rows[i].item == TIME_DP_EXPOSED && rows->rows[i].collective == wanted) {
            add_shard_transfer(lists, builder->shape, &rows->rows[i]);
        }
    }
}

static void add_host_copy(struct program_builder *builder, const struct segment_key *key, struct op_lists *lists)
{
    const struct step_shape *shape = builder->shape;
    struct saved_layer saved = saved_layer_bytes(shape, key->kind);
    bool is_out = key->part == PART_COPY_OUT;
    if (is_out) { /* the copy before has ended: there is room for two layers */
        struct program_op room = {.kind = OP_KERNEL,
                                  .name = "room for the next layer",
                                  .item = TIME_OFFLOAD_EXPOSED,
                                  .transfer = -1,
                                  .moment = PROGRAM_NO_MOMENT};
        op_list_wait(&room, 0, STREAM_TO_HOST, -1);
        op_lists_add(lists, &room);
    }
    struct program_op op = {.kind = OP_HOST_COPY,
                            .name = is_out ? "activations to the host" : "activations from the host",
                            .stream = is_out ? STREAM_TO_HOST : STREAM_FROM_HOST,
                            .item = TIME_OFFLOAD_EXPOSED,
                            .pass = is_out ? STEP_FORWARD : STEP_BACKWARD,
                            .bytes = key->is_recomputed ? saved.checkpoint : saved.total,
                            .is_to_host = is_out,
                            .transfer = -1,
                            .moment = PROGRAM_NO_MOMENT};
    op.time_s = op.bytes / shape->gpu->pcie_bandwidth.value;
    op_list_wait(&op, 0, STREAM_KERNELS, -1);
    if (!is_out) {
        op_list_wait(&op, 0, STREAM_TO_HOST, -1);
    }
    op_lists_add(lists, &op);
}

/* ---- the end of the step ---------------------------------------------------------------------------------------- */

/* Gradients go in buckets, one after the other. */
static void add_reduction(struct program_builder *builder, struct op_lists *lists, const struct operator_row *row)
{
    enum { MAX_BUCKETS = 4096 };
    double bucket = builder->shape->question->software.framework.bucket_bytes.value;
    double buckets = bucket > 0 ? fmin(fmax(ceil(row->collective_bytes / bucket), 1), MAX_BUCKETS) : 1;
    struct operator_row piece = *row;
    piece.time_s /= buckets;
    for (int i = 0; i < (int)buckets; i++) { /* add_row() takes the same share of the bytes as of the time */
        add_row(lists, &piece, MOMENT_OPTIMIZER);
    }
}

/* One communicator carries the reductions of all micro-batches, in order. */
static void add_scattered_wait(struct op_lists *lists)
{
    struct program_op op = {.kind = OP_KERNEL,
                            .name = "earlier micro-batches are scattered",
                            .item = TIME_DP_EXPOSED,
                            .pass = STEP_OPTIMIZER,
                            .transfer = -1,
                            .moment = MOMENT_OPTIMIZER};
    op_list_wait(&op, 0, STREAM_SHARDS, -1);
    op_lists_add(lists, &op);
}

static void add_norm_barrier(struct program_builder *builder, struct op_lists *lists)
{
    struct program_transfer transfer = {
        .name = "gradient norm", .axis = AXIS_DP, .group = RANKS_ALL, .operation = COLLECTIVE_ALL_REDUCE};
    struct program_op op = {.kind = OP_COLLECTIVE,
                            .name = "gradient norm over all ranks",
                            .item = TIME_OPTIMIZER,
                            .pass = STEP_OPTIMIZER,
                            .moment = MOMENT_OPTIMIZER};
    op.transfer = transfer_index(&builder->transfers, &transfer);
    op_lists_add(lists, &op);
}

static bool is_gather(const struct operator_row *row)
{
    return row->operation != NULL && row->collective == COLLECTIVE_ALL_GATHER;
}

/* Gradients are reduced, their norm makes every rank wait for all, then the update, and the new weights are gathered. */
static void add_optimizer(struct program_builder *builder, const struct segment_key *key, struct op_lists *lists)
{
    struct operator_list rows;
    price_stage_optimizer(builder->shape, rank_stage_trained(builder->shape, &builder->shape->classes[key->class]),
                          &rows);
    add_scattered_wait(lists);
    for (int phase = 0; phase < 3; phase++) {
        for (int i = 0; i < rows.n; i++) {
            const struct operator_row *row = &rows.rows[i];
            int its_phase = row->operation == NULL ? 1 : is_gather(row) ? 2 : 0;
            bool is_last = row->item == TIME_OTHER; /* the host's tail */
            if ((is_last ? 2 : its_phase) != phase) {
                continue;
            }
            if (its_phase == 0) {
                add_reduction(builder, lists, row);
            } else if (!is_last) {
                add_row(lists, row, MOMENT_OPTIMIZER);
            }
        }
        if (phase == 0) {
            add_norm_barrier(builder, lists);
        }
    }
    for (int i = 0; i < rows.n; i++) {
        if (rows.rows[i].item == TIME_OTHER) {
            add_row(lists, &rows.rows[i], MOMENT_OPTIMIZER);
        }
    }
}

/* ZeRO 2: gradients of a micro-batch are scattered beside what follows, those of a chunk with chunks. */
static void add_early_scatter(struct program_builder *builder, const struct segment_key *key, struct op_lists *lists)
{
    const struct step_shape *shape = builder->shape;
    struct parameters trained = rank_stage_trained(shape, &shape->classes[key->class]);
    const struct layout_spec *layout = &shape->question->layout;
    double chunks = layout->pp > 1 ? (double)layout->vpp : 1;
    const struct collective_call calls[] = {
        {"dp reduce-scatter of a micro-batch", AXIS_DP, &shape->shard_group, COLLECTIVE_REDUCE_SCATTER,
         shape->gradient_size * trained.dense, 1},
        {"dp reduce-scatter of a micro-batch", AXIS_DP, &shape->expert_shard_group, COLLECTIVE_REDUCE_SCATTER,
         shape->gradient_size * trained.expert, 1},
    };
    for (size_t i = 0; i < SP_COUNT_OF(calls); i++) {
        struct operator_row row = collective_row(shape, &calls[i]);
        if (row.count > 0 && row.link_s > 0) {
            row.pass = STEP_BACKWARD;
            row.link_s /= chunks;
            row.collective_bytes /= chunks;
            row.sent_bytes /= chunks;
            add_shard_transfer(lists, shape, &row);
        }
    }
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

static double moment_bytes(const struct step_shape *shape, const struct point *point, enum moment moment)
{
    struct memory_account account = {.rows = NULL};
    account_sharding(shape, point, moment, &account);
    account_own(shape, point, moment, &account);
    return memory_account_total(&account);
}

static void hold(const struct program_builder *builder, const struct segment_key *key, struct program_segment *segment)
{
    const struct step_shape *shape = builder->shape;
    const struct saved_layer saved = kept_layer_bytes(shape, key->kind);
    double kept = key->is_recomputed ? saved.checkpoint : saved.total;
    struct point point = {.stage = &shape->classes[key->class],
                          .layer = key->is_last_layer ? shape->classes[key->class].layers : 1,
                          .kind = key->kind,
                          .is_last_layer = key->is_last_layer,
                          .is_first_backward = key->is_last_layer,
                          .is_last_backward = key->is_first_layer,
                          .is_recomputed = key->is_recomputed,
                          .saved = saved};
    for (int m = 0; m < N_MOMENTS; m++) {
        enum moment moment = (enum moment)m;
        bool is_of_head = moment == MOMENT_LOSS || moment == MOMENT_HEAD_BACKWARD;
        bool has_head_point = !is_of_head || (point.stage->has_head && key->is_last_layer);
        segment->work_bytes[m] = has_head_point ? moment_bytes(shape, &point, moment) : 0;
    }
    segment->saved_cap_bytes = shape->question->layout.offloads_activations ? 2 * kept : (double)INFINITY;
    segment->saved_bytes = key->part == PART_LAYER_FORWARD ? kept : 0;
    bool lets_go =
        key->part == (schedule_puts_off_weights(&shape->question->layout) ? PART_LAYER_WEIGHTS : PART_LAYER_BACKWARD);
    segment->saved_bytes -= lets_go ? kept : 0;
}

/* Gradients of one stage's parts, in the bytes in which the stage keeps them. */
static void grow_gradients(const struct program_builder *builder, const struct segment_key *key,
                           struct program_segment *segment)
{
    const struct step_shape *shape = builder->shape;
    const struct stage_class *class = &shape->classes[key->class];
    struct stage_sums sums;
    sum_stage(shape, class, &sums);
    double per_parameter = sums.trained > 0 ? sums.gradient_bytes / sums.trained : 0;
    bool is_put_off = schedule_puts_off_weights(&shape->question->layout);
    switch (key->part) {
    case PART_LAYER_BACKWARD:
    case PART_LAYER_WEIGHTS:
        if (is_put_off == (key->part == PART_LAYER_WEIGHTS)) {
            segment->gradient_bytes = per_parameter * parameters_sum(rank_layer_trained(shape, key->kind));
        }
        break;
    case PART_HEAD_FORWARD: /* an earlier chunk of the loss has left it */
        segment->first_gradient_bytes = loss_has_chunks(shape) ? per_parameter * sums.head_trained : 0;
        break;
    case PART_HEAD_BACKWARD:
    case PART_HEAD_WEIGHTS:
        if (is_put_off == (key->part == PART_HEAD_WEIGHTS)) {
            segment->gradient_bytes = loss_has_chunks(shape) ? 0 : per_parameter * sums.head_trained;
        }
        break;
    case PART_OPTIMIZER:
        segment->first_gradient_bytes = sums.gradient_bytes;
        break;
    case PART_TO_STAGE: /* a backward pass is through: the cap is the whole */
        segment->gradient_bytes = key->is_backward && !is_put_off ? (double)INFINITY : 0;
        break;
    case PART_EMBEDDING_BACKWARD:
        segment->gradient_bytes = is_put_off ? 0 : (double)INFINITY;
        break;
    case PART_LAYER_FORWARD:
    case PART_EMBEDDING_FORWARD:
    case PART_FROM_STAGE:
    case PART_GATHER:
    case PART_SCATTER:
    case PART_COPY_OUT:
    case PART_COPY_IN:
    case PART_EARLY_SCATTER:
        break;
    }
}

/* ---- one segment ------------------------------------------------------------------------------------------------ */

static const char *const part_names[] = {"layer forward",     "layer backward",        "layer weight gradients",
                                         "embedding forward", "embedding backward",    "head forward",
                                         "head backward",     "head weight gradients", "to a stage",
                                         "from a stage",      "gather of weights",     "scatter of gradients",
                                         "copy to the host",  "copy from the host",    "scatter of a micro-batch",
                                         "optimizer"};

static bool is_layer(enum part part)
{
    return part == PART_LAYER_FORWARD || part == PART_LAYER_BACKWARD || part == PART_LAYER_WEIGHTS;
}

static void fill_ops(struct program_builder *builder, const struct segment_key *key, struct op_lists *lists)
{
    switch (key->part) {
    case PART_LAYER_FORWARD:
    case PART_LAYER_BACKWARD:
    case PART_LAYER_WEIGHTS:
        add_layer(builder, key, lists);
        break;
    case PART_EMBEDDING_FORWARD:
    case PART_EMBEDDING_BACKWARD:
    case PART_HEAD_FORWARD:
    case PART_HEAD_BACKWARD:
    case PART_HEAD_WEIGHTS:
        add_end(builder, key, lists);
        break;
    case PART_TO_STAGE:
    case PART_FROM_STAGE:
        add_hop(builder, key, lists);
        break;
    case PART_GATHER:
    case PART_SCATTER:
        add_shards(builder, key, lists);
        break;
    case PART_COPY_OUT:
    case PART_COPY_IN:
        add_host_copy(builder, key, lists);
        break;
    case PART_EARLY_SCATTER:
        add_early_scatter(builder, key, lists);
        break;
    case PART_OPTIMIZER:
        add_optimizer(builder, key, lists);
        break;
    }
}

static bool has_same_ops(const struct segment_key *a, const struct segment_key *b)
{
    bool is_of_class = a->part == PART_OPTIMIZER || a->part == PART_EARLY_SCATTER;
    return a->part == b->part && a->kind == b->kind && a->is_recomputed == b->is_recomputed &&
           a->repeats == b->repeats && a->is_backward == b->is_backward && a->is_first == b->is_first &&
           a->is_last == b->is_last && (!is_of_class || a->class == b->class);
}

static bool is_same(const struct segment_key *a, const struct segment_key *b)
{
    return has_same_ops(a, b) && a->class == b->class && a->is_last_layer == b->is_last_layer &&
           a->is_first_layer == b->is_first_layer;
}

static const struct program_ops *find_ops(struct program_builder *builder, const struct segment_key *key)
{
    for (int i = 0; i < builder->n_segments; i++) {
        if (has_same_ops(&builder->keys[i], key)) {
            return builder->segments[i].ops;
        }
    }
    struct op_lists lists = open_lists(builder, is_layer(key->part) && builder->positions > 1);
    fill_ops(builder, key, &lists);
    return close_lists(builder, &lists);
}

int program_segment(struct program_builder *builder, const struct segment_key *key)
{
    for (int i = 0; i < builder->n_segments; i++) {
        if (is_same(&builder->keys[i], key)) {
            return i;
        }
    }
    assert(builder->n_segments < MAX_SEGMENTS);
    struct program_segment segment = {.name = part_names[key->part],
                                      .is_by_position = is_layer(key->part) && builder->positions > 1,
                                      .saved_cap_bytes = (double)INFINITY,
                                      .ops = find_ops(builder, key)};
    if (is_layer(key->part) || key->part == PART_HEAD_FORWARD || key->part == PART_HEAD_BACKWARD) {
        hold(builder, key, &segment);
    }
    grow_gradients(builder, key, &segment);
    builder->keys[builder->n_segments] = *key;
    builder->segments[builder->n_segments] = segment;
    return builder->n_segments++;
}
