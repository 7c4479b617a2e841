/* Stages to step time: unequal stages under a schedule, and the rows of the slowest stage (docs/model.md, eq. 60-63). */
#include "step/step_internal.h"

#include <assert.h>
#include <math.h>

/* ---- sums -------------------------------------------------------------------------------------------------------- */

void sum_layer(const struct layer_operators *layer, struct kind_sums *sums)
{
    *sums = (struct kind_sums){.forward_s = layer->forward.sum.time_s,
                               .backward_s = layer->backward.sum.time_s,
                               .weight_s = layer->backward.sum.weight_s,
                               .reforward_s = layer->reforward.sum.time_s};
}

void sum_ends(const struct end_operators *ends, struct end_sums *sums)
{
    *sums = (struct end_sums){
        .embedding = {ends->embedding_forward.sum.time_s, ends->embedding_backward.sum.time_s, 0},
        .head = {ends->head_forward.sum.time_s, ends->head_backward.sum.time_s, ends->head_backward.sum.weight_s},
    };
}

/* Layers whose forward is repeated, wholly or in part. */
static int64_t repeated_layers(const struct step_shape *shape, const struct stage_class *stage)
{
    bool is_selective = shape->question->layout.recompute == RECOMPUTE_SELECTIVE;
    return is_selective ? stage->layers : class_recomputed_layers(shape, stage);
}

static void add_end(struct stage_time *time, const struct stage_time *end, double share)
{
    time->forward_s += share * end->forward_s;
    time->backward_s += share * end->backward_s;
    time->weight_s += share * end->weight_s;
}

static struct stage_time time_of_stage(const struct step_shape *shape, const struct step_sums *sums,
                                       const struct stage_class *stage)
{
    double layers[MAX_LAYER_KINDS];
    double repeated[MAX_LAYER_KINDS];
    struct stage_time time = {0};
    class_kinds(shape, stage, stage->layers, layers);
    class_kinds(shape, stage, repeated_layers(shape, stage), repeated);
    for (int k = 0; k < shape->n_kinds; k++) {
        const struct kind_sums *kind = &sums->kinds[k];
        time.forward_s += layers[k] * kind->forward_s;
        time.backward_s += layers[k] * kind->backward_s + repeated[k] * kind->reforward_s;
        time.weight_s += layers[k] * kind->weight_s;
    }
    double share = schedule_end_share(&shape->question->layout);
    if (stage->has_embedding) {
        add_end(&time, &sums->ends.embedding, share);
    }
    if (stage->has_head) {
        add_end(&time, &sums->ends.head, share);
    }
    return time;
}

/* ---- composition ------------------------------------------------------------------------------------------------ */

/* ZeRO 2: gradients of all but the last micro-batch are scattered beside the next one, which they slow down a little. */
static double early_scatter_link(const struct step_shape *shape, const struct stage_class *stage)
{
    struct parameters trained = rank_stage_trained(shape, stage);
    const struct hardware_spec *hardware = &shape->question->hardware;
    double dense = shape->gradient_size * trained.dense;
    double expert = shape->gradient_size * trained.expert;
    return collective_time(hardware, &shape->shard_group, COLLECTIVE_REDUCE_SCATTER, dense) +
           collective_time(hardware, &shape->expert_shard_group, COLLECTIVE_REDUCE_SCATTER, expert);
}

static bool has_early_scatters(const struct step_shape *shape)
{
    return shape->question->layout.zero == 2 && shape->shard_group.size > 1 && shape->micro_batches > 1;
}

/* What the next micro-batch does not hide, or what it is slowed by (eq. 55). */
static double early_scatter_time(const struct step_shape *shape, const struct stage_time *slowest, double link_s)
{
    const struct sp_figure *sms =
        shape->shard_group.nodes > 1 ? &shape->gpu->network_communication_sms : &shape->gpu->communication_sms;
    double share = sms->value / shape->gpu->sm_count.value;
    return fmax(link_s - (slowest->forward_s + slowest->backward_s), share * link_s);
}

double pipeline_hop_time(const struct step_shape *shape)
{
    return hop_time(&shape->question->hardware, &shape->pp_group, shape->hidden_bytes / shape->token_split);
}

/* Times of all classes of stages, the slowest among them. */
static void time_stages(const struct step_shape *shape, const struct step_sums *sums, struct stage_time *times,
                        struct step_time *step)
{
    *step = (struct step_time){.slowest = {.forward_s = -1}};
    for (int i = 0; i < shape->n_classes; i++) {
        times[i] = time_of_stage(shape, sums, &shape->classes[i]);
        if (times[i].forward_s + times[i].backward_s > step->slowest.forward_s + step->slowest.backward_s) {
            step->slowest = times[i];
            step->slowest_class = i;
        }
    }
}

void compose_time(const struct step_shape *shape, const struct step_sums *sums, struct step_time *step)
{
    struct stage_time times[MAX_STAGE_CLASSES];
    time_stages(shape, sums, times, step);
    double m = (double)shape->micro_batches;
    struct pipeline_load load = {.micro_batches = m,
                                 .n_runs = shape->n_runs,
                                 .runs = shape->runs,
                                 .times = times,
                                 .slowest = step->slowest_class,
                                 .hop_s = sums->hop_s};
    step->idle = schedule_idle(&shape->question->layout, &load);
    step->step_s = m * (step->slowest.forward_s + step->slowest.backward_s) + sums->optimizer_s;
    step->step_s += step->idle.hops_s + step->idle.bubble_s;
    if (has_early_scatters(shape)) {
        double link_s = early_scatter_link(shape, &shape->classes[step->slowest_class]);
        step->step_s += (m - 1) * early_scatter_time(shape, &step->slowest, link_s);
    }
}

/* ---- rows ------------------------------------------------------------------------------------------------------- */

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
static void append_all(const struct step_shape *shape, const struct step_lists *lists, const struct stage_class *stage,
                       struct estimate *estimate)
{
    double m = (double)shape->micro_batches;
    double layers[MAX_LAYER_KINDS];
    double repeated[MAX_LAYER_KINDS];
    class_kinds(shape, stage, stage->layers, layers);
    class_kinds(shape, stage, repeated_layers(shape, stage), repeated);
    for (int k = 0; k < shape->n_kinds; k++) {
        append(estimate, &lists->layers[k].forward, m * layers[k]);
        append(estimate, &lists->layers[k].backward, m * layers[k]);
        append(estimate, &lists->layers[k].reforward, m * repeated[k]);
    }
    double at_ends = m * schedule_end_share(&shape->question->layout);
    append(estimate, &lists->ends.embedding_forward, stage->has_embedding ? at_ends : 0);
    append(estimate, &lists->ends.embedding_backward, stage->has_embedding ? at_ends : 0);
    append(estimate, &lists->ends.head_forward, stage->has_head ? at_ends : 0);
    append(estimate, &lists->ends.head_backward, stage->has_head ? at_ends : 0);
    append(estimate, &lists->optimizer, 1);
}

static void add_time_row(struct estimate *estimate, const struct operator_row *row)
{
    if (row->time_s > 0) {
        assert(estimate->n_operators < MAX_OPERATORS);
        estimate->operators[estimate->n_operators++] = *row;
    }
}

/* A GPU sends as many hops as its schedule says; what of them lengthens the step is spread over them. */
static void add_pipeline_rows(const struct step_shape *shape, const struct step_sums *sums,
                              const struct step_time *step, struct estimate *estimate)
{
    const struct layout_spec *layout = &shape->question->layout;
    const struct hardware_spec *hardware = &shape->question->hardware;
    if (layout->pp <= 1) {
        return;
    }
    double sends = (double)shape->micro_batches * schedule_hops(layout);
    double sent = shape->hidden_bytes / shape->token_split;
    struct operator_row hop = {.name = "pipeline hops",
                               .formula = "what the schedule does not hide of B s h / split elements (eq. 62)",
                               .source = shape->pp_group.nodes > 1 ? hardware->network.title : hardware->intra.title,
                               .item = TIME_PP_EXPOSED,
                               .count = sends,
                               .hbm_bytes = 2 * sent,
                               .time_s = step->idle.hops_s / 2 / sends,
                               .operation = "send-receive",
                               .axis = AXIS_PP,
                               .tier = shape->pp_group.tier,
                               .sent_bytes = sent,
                               .messages = 1,
                               /* with few micro-batches the hops of other stages are most of what is waited for */
                               .link_s = fmax(sums->hop_s, step->idle.hops_s / 2 / sends)};
    struct operator_row bubble = {.name = "pipeline bubble",
                                  .formula = "what the schedule leaves idle (eq. 61-66)",
                                  .source = "docs/model.md",
                                  .pass = STEP_FORWARD,
                                  .item = TIME_BUBBLE,
                                  .count = 1,
                                  .time_s = step->idle.bubble_s};
    hop.pass = STEP_FORWARD;
    add_time_row(estimate, &hop);
    hop.pass = STEP_BACKWARD;
    add_time_row(estimate, &hop);
    add_time_row(estimate, &bubble);
}

static void add_early_scatters(const struct step_shape *shape, const struct step_time *step, struct estimate *estimate)
{
    if (!has_early_scatters(shape)) {
        return;
    }
    const struct hardware_spec *hardware = &shape->question->hardware;
    const struct stage_class *stage = &shape->classes[step->slowest_class];
    struct parameters trained = rank_stage_trained(shape, stage);
    double link_s = early_scatter_link(shape, stage);
    double sent = collective_sent_bytes(COLLECTIVE_REDUCE_SCATTER, shape->shard_group.size,
                                        shape->gradient_size * trained.dense) +
                  collective_sent_bytes(COLLECTIVE_REDUCE_SCATTER, shape->expert_shard_group.size,
                                        shape->gradient_size * trained.expert);
    struct operator_row row = {.name = "dp reduce-scatter of earlier micro-batches",
                               .formula = "what the next micro-batch does not hide (eq. 55)",
                               .source = shape->shard_group.nodes > 1 ? hardware->network.title : hardware->intra.title,
                               .pass = STEP_BACKWARD,
                               .item = TIME_DP_EXPOSED,
                               .count = (double)shape->micro_batches - 1,
                               .hbm_bytes = 2 * sent,
                               .time_s = early_scatter_time(shape, &step->slowest, link_s),
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
}

void price_step(const struct step_shape *shape, const struct step_lists *lists, struct estimate *estimate)
{
    struct step_sums sums = {.optimizer_s = lists->optimizer.sum.time_s, .hop_s = pipeline_hop_time(shape)};
    struct step_time step;
    for (int k = 0; k < shape->n_kinds; k++) {
        sum_layer(&lists->layers[k], &sums.kinds[k]);
    }
    sum_ends(&lists->ends, &sums.ends);
    compose_time(shape, &sums, &step);
    const struct stage_class *slowest = &shape->classes[step.slowest_class];
    estimate->slowest_stage = slowest->stage;
    estimate->stage_forward_s = step.slowest.forward_s;
    estimate->stage_backward_s = step.slowest.backward_s;
    estimate->micro_batches = shape->micro_batches;
    append_all(shape, lists, slowest, estimate);
    add_early_scatters(shape, &step, estimate);
    add_pipeline_rows(shape, &sums, &step, estimate);
    sum_items(estimate);
    estimate->step_time_s = step.step_s; /* the items add up to it, but for rounding */
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
    for (int item = 0; item < N_TIME_ITEMS; item++) {
        estimate->step_time_s += estimate->time_s[item];
    }
    for (int i = 0; i < estimate->n_operators; i++) {
        const struct operator_row *row = &estimate->operators[i];
        *(row->pass == STEP_FORWARD ? &estimate->stage_forward_s : &estimate->stage_backward_s) +=
            row->count * row->time_s;
    }
}
