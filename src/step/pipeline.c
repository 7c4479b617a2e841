/* Stages to step time: unequal stages under a schedule, and the rows of the slowest stage (docs/model.md, eq. 60-63). */
#include "step/step_internal.h"

#include <assert.h>
#include <math.h>

struct stage_counts { /* executions per micro-batch on a stage, by kind of layer */
    double layers[MAX_LAYER_KINDS];
    double repeated[MAX_LAYER_KINDS];
    bool has_embedding, has_head;
};

static struct stage_counts counts_of(const struct step_shape *shape, int64_t stage)
{
    const struct layout_spec *layout = &shape->question->layout;
    struct stage_counts counts = {.has_embedding = schedule_holds_embedding(layout, stage),
                                  .has_head = schedule_holds_head(layout, stage)};
    stage_kinds(shape, stage, stage_layers(shape, stage), counts.layers);
    bool is_selective = layout->recompute == RECOMPUTE_SELECTIVE;
    stage_kinds(shape, stage, is_selective ? stage_layers(shape, stage) : stage_recomputed_layers(shape, stage),
                counts.repeated);
    return counts;
}

static struct stage_time time_of_stage(const struct step_shape *shape,
                                       const struct layer_operators layers[MAX_LAYER_KINDS],
                                       const struct end_operators *ends, int64_t stage)
{
    struct stage_counts counts = counts_of(shape, stage);
    struct stage_time time = {0};
    for (int k = 0; k < shape->n_kinds; k++) {
        time.forward_s += counts.layers[k] * operator_list_time(&layers[k].forward);
        time.backward_s += counts.layers[k] * operator_list_time(&layers[k].backward) +
                           counts.repeated[k] * operator_list_time(&layers[k].reforward);
        time.weight_s += counts.layers[k] * operator_list_weight_gradient_time(&layers[k].backward);
    }
    double share = schedule_end_share(&shape->question->layout);
    if (counts.has_embedding) {
        time.forward_s += share * operator_list_time(&ends->embedding_forward);
        time.backward_s += share * operator_list_time(&ends->embedding_backward);
    }
    if (counts.has_head) {
        time.forward_s += share * operator_list_time(&ends->head_forward);
        time.backward_s += share * operator_list_time(&ends->head_backward);
        time.weight_s += share * operator_list_weight_gradient_time(&ends->head_backward);
    }
    return time;
}

static void append(struct estimate *estimate, const struct operator_list *list, double times)
{
    for (int i = 0; i < list->n && times > 0; i++) {
        assert(estimate->n_operators < MAX_OPERATORS);
        struct operator_row *row = &estimate->operators[estimate->n_operators++];
        *row = list->rows[i];
        row->count *= times;
    }
}

/* The slowest stage's operators over the whole step, then what ends it. */
static void append_all(const struct step_shape *shape, const struct layer_operators layers[MAX_LAYER_KINDS],
                       const struct end_operators *ends, struct estimate *estimate)
{
    double m = (double)shape->micro_batches;
    struct stage_counts counts = counts_of(shape, estimate->slowest_stage);
    for (int k = 0; k < shape->n_kinds; k++) {
        append(estimate, &layers[k].forward, m * counts.layers[k]);
        append(estimate, &layers[k].backward, m * counts.layers[k]);
        append(estimate, &layers[k].reforward, m * counts.repeated[k]);
    }
    double at_ends = m * schedule_end_share(&shape->question->layout);
    append(estimate, &ends->embedding_forward, counts.has_embedding ? at_ends : 0);
    append(estimate, &ends->embedding_backward, counts.has_embedding ? at_ends : 0);
    append(estimate, &ends->head_forward, counts.has_head ? at_ends : 0);
    append(estimate, &ends->head_backward, counts.has_head ? at_ends : 0);
    append(estimate, &ends->optimizer, 1);
}

static void add_time_row(struct estimate *estimate, const struct operator_row *row)
{
    if (row->time_s > 0) {
        assert(estimate->n_operators < MAX_OPERATORS);
        estimate->operators[estimate->n_operators++] = *row;
    }
}

/* Hops that nothing hides: the first micro-batch's way down and back, and one each way for every further one, since a
 * schedule sends and receives between its forward and its backward. A GPU sends one per micro-batch. */
static void add_pipeline_rows(const struct step_shape *shape, double bubble_s, struct estimate *estimate)
{
    const struct layout_spec *layout = &shape->question->layout;
    const struct hardware_spec *hardware = &shape->question->hardware;
    double stages = (double)layout->pp;
    double m = (double)shape->micro_batches;
    if (stages <= 1) {
        return;
    }
    double bytes = shape->hidden_bytes / shape->token_split;
    double hops = (stages - 1 + m - 1) * schedule_hops(layout);
    double sent = bytes * m * schedule_hops(layout);
    double time_s = hop_time(hardware, &shape->pp_group, bytes);
    struct operator_row hop = {.name = "pipeline hops",
                               .formula = "(p - 1 + m - 1) hops each way of B s h / split elements (eq. 62)",
                               .source = shape->pp_group.nodes > 1 ? hardware->network.title : hardware->intra.title,
                               .item = TIME_PP_EXPOSED,
                               .count = hops,
                               .hbm_bytes = 2 * sent / hops,
                               .time_s = time_s,
                               .operation = "send-receive",
                               .axis = AXIS_PP,
                               .tier = shape->pp_group.tier,
                               .sent_bytes = sent / hops,
                               .messages = m * schedule_hops(layout) / hops,
                               .link_s = time_s};
    struct operator_row bubble = {.name = "pipeline bubble",
                                  .formula = "what the schedule leaves idle (eq. 61-66)",
                                  .source = "docs/model.md",
                                  .pass = STEP_FORWARD,
                                  .item = TIME_BUBBLE,
                                  .count = 1,
                                  .time_s = bubble_s};
    hop.pass = STEP_FORWARD;
    add_time_row(estimate, &hop);
    hop.pass = STEP_BACKWARD;
    add_time_row(estimate, &hop);
    add_time_row(estimate, &bubble);
}

/* ZeRO 2: gradients of all but the last micro-batch are scattered beside the next one, which they slow down a little. */
static void add_early_scatters(const struct step_shape *shape, const struct stage_time *slowest,
                               struct estimate *estimate)
{
    const struct layout_spec *layout = &shape->question->layout;
    double earlier = (double)shape->micro_batches - 1;
    if (layout->zero != 2 || shape->shard_group.size <= 1 || earlier <= 0) {
        return;
    }
    struct parameters trained = rank_stage_trained(shape, estimate->slowest_stage);
    const struct hardware_spec *hardware = &shape->question->hardware;
    double dense = shape->gradient_size * trained.dense;
    double expert = shape->gradient_size * trained.expert;
    double link_s = collective_time(hardware, &shape->shard_group, COLLECTIVE_REDUCE_SCATTER, dense) +
                    collective_time(hardware, &shape->expert_shard_group, COLLECTIVE_REDUCE_SCATTER, expert);
    double sent = collective_sent_bytes(COLLECTIVE_REDUCE_SCATTER, shape->shard_group.size, dense) +
                  collective_sent_bytes(COLLECTIVE_REDUCE_SCATTER, shape->expert_shard_group.size, expert);
    double beside_s = slowest->forward_s + slowest->backward_s;
    const struct sp_figure *sms =
        shape->shard_group.nodes > 1 ? &shape->gpu->network_communication_sms : &shape->gpu->communication_sms;
    double share = sms->value / shape->gpu->sm_count.value;
    struct operator_row row = {.name = "dp reduce-scatter of earlier micro-batches",
                               .formula = "what the next micro-batch does not hide (eq. 55)",
                               .source = shape->shard_group.nodes > 1 ? hardware->network.title : hardware->intra.title,
                               .pass = STEP_BACKWARD,
                               .item = TIME_DP_EXPOSED,
                               .count = earlier,
                               .hbm_bytes = 2 * sent,
                               .time_s = fmax(link_s - beside_s, share * link_s),
                               .operation = "reduce-scatter",
                               .axis = AXIS_DP,
                               .tier = shape->shard_group.tier,
                               .sent_bytes = sent,
                               .messages = 1,
                               .link_s = link_s};
    add_time_row(estimate, &row);
}

static void sum_items(struct estimate *estimate)
{
    for (int i = 0; i < estimate->n_operators; i++) {
        const struct operator_row *row = &estimate->operators[i];
        estimate->time_s[row->item] += row->count * row->time_s;
    }
    for (int item = 0; item < N_TIME_ITEMS; item++) {
        estimate->step_time_s += estimate->time_s[item];
    }
}

void price_step(const struct step_shape *shape, const struct layer_operators layers[MAX_LAYER_KINDS],
                const struct end_operators *ends, struct estimate *estimate)
{
    struct stage_time all = {0};
    struct stage_time slowest = {.forward_s = -1};
    for (int64_t stage = 0; stage < shape->question->layout.pp; stage++) {
        struct stage_time time = time_of_stage(shape, layers, ends, stage);
        all.forward_s += time.forward_s;
        all.backward_s += time.backward_s;
        all.weight_s += time.weight_s;
        if (time.forward_s + time.backward_s > slowest.forward_s + slowest.backward_s) {
            slowest = time;
            estimate->slowest_stage = stage;
        }
    }
    struct stage_time others = {all.forward_s - slowest.forward_s, all.backward_s - slowest.backward_s,
                                all.weight_s - slowest.weight_s};
    estimate->stage_forward_s = slowest.forward_s;
    estimate->stage_backward_s = slowest.backward_s;
    estimate->micro_batches = shape->micro_batches;
    append_all(shape, layers, ends, estimate);
    add_early_scatters(shape, &slowest, estimate);
    add_pipeline_rows(shape, fmax(schedule_bubble(&shape->question->layout, &others), 0), estimate);
    sum_items(estimate);
}

static void append_attention(struct estimate *estimate, const struct operator_list *list)
{
    for (int i = 0; i < list->n; i++) {
        enum time_item item = list->rows[i].item;
        if (item == TIME_ATTENTION || item == TIME_IMBALANCE || item == TIME_SP_EXPOSED) {
            estimate->operators[estimate->n_operators++] = list->rows[i];
        }
    }
}

void price_attention_only(const struct layer_operators *layer, struct estimate *estimate)
{
    estimate->micro_batches = 1;
    append_attention(estimate, &layer->forward);
    append_attention(estimate, &layer->backward);
    sum_items(estimate);
    for (int i = 0; i < estimate->n_operators; i++) {
        const struct operator_row *row = &estimate->operators[i];
        *(row->pass == STEP_FORWARD ? &estimate->stage_forward_s : &estimate->stage_backward_s) +=
            row->count * row->time_s;
    }
}
