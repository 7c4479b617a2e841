/* Stages to step time: 1F1B with unequal stages, and the rows of the slowest stage (docs/model.md, eq. 60-63). */
#include "step/step_internal.h"

#include <assert.h>
#include <math.h>

struct stage_time {
    double forward_s;
    double backward_s; /* recomputation included */
};

static struct stage_time time_of_stage(const struct step_shape *shape, const struct layer_operators *layer, const struct end_operators *ends,
                                       int64_t stage)
{
    double layers = (double)stage_layers(shape, stage);
    bool is_selective = shape->question->layout.recompute == RECOMPUTE_SELECTIVE;
    double repeated = is_selective ? layers : (double)stage_recomputed_layers(shape, stage);
    struct stage_time time = {.forward_s = layers * operator_list_time(&layer->forward),
                              .backward_s = layers * operator_list_time(&layer->backward) + repeated * operator_list_time(&layer->reforward)};
    if (stage == 0) {
        time.forward_s += operator_list_time(&ends->embedding_forward);
        time.backward_s += operator_list_time(&ends->embedding_backward);
    }
    if (stage == shape->question->layout.pp - 1) {
        time.forward_s += operator_list_time(&ends->head_forward);
        time.backward_s += operator_list_time(&ends->head_backward);
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
static void append_all(const struct step_shape *shape, const struct layer_operators *layer, const struct end_operators *ends,
                       struct estimate *estimate)
{
    int64_t stage = estimate->slowest_stage;
    double m = (double)shape->micro_batches;
    double layers = (double)stage_layers(shape, stage);
    bool is_selective = shape->question->layout.recompute == RECOMPUTE_SELECTIVE;
    append(estimate, &layer->forward, m * layers);
    append(estimate, &layer->backward, m * layers);
    append(estimate, &layer->reforward, m * (is_selective ? layers : (double)stage_recomputed_layers(shape, stage)));
    if (stage == 0) {
        append(estimate, &ends->embedding_forward, m);
        append(estimate, &ends->embedding_backward, m);
    }
    if (stage == shape->question->layout.pp - 1) {
        append(estimate, &ends->head_forward, m);
        append(estimate, &ends->head_backward, m);
    }
    append(estimate, &ends->optimizer, 1);
}

static void add_time_row(struct estimate *estimate, const struct operator_row *row)
{
    if (row->time_s > 0) {
        assert(estimate->n_operators < MAX_OPERATORS);
        estimate->operators[estimate->n_operators++] = *row;
    }
}

/* Hops that nothing hides: the first micro-batch's way down and back, and one each way for every further one, since
 * 1F1B sends and receives between its forward and its backward. */
static void add_pipeline_rows(const struct step_shape *shape, double bubble_s, struct estimate *estimate)
{
    double stages = (double)shape->question->layout.pp;
    if (stages <= 1) {
        return;
    }
    double bytes = shape->hidden_bytes / shape->token_split;
    const struct hardware_spec *hardware = &shape->question->hardware;
    double hops = stages - 1 + (double)shape->micro_batches - 1;
    double time_s = hop_time(hardware, &shape->pp_group, bytes);
    struct operator_row hop = {.name = "pipeline hops", .formula = "(p - 1 + m - 1) hops each way of 2 B s h / split bytes (eq. 62)",
                               .source = shape->pp_group.nodes > 1 ? hardware->network.title : hardware->intra.title,
                               .item = TIME_PP_EXPOSED, .count = hops, .hbm_bytes = 2 * bytes, .time_s = time_s,
                               .operation = "send-receive", .axis = AXIS_PP, .tier = shape->pp_group.tier, .sent_bytes = bytes,
                               .messages = 1, .link_s = time_s};
    struct operator_row bubble = {.name = "pipeline bubble", .formula = "forward and backward of the other stages, once (eq. 61)",
                                  .source = "docs/model.md", .pass = STEP_FORWARD, .item = TIME_BUBBLE, .count = 1, .time_s = bubble_s};
    hop.pass = STEP_FORWARD;
    add_time_row(estimate, &hop);
    hop.pass = STEP_BACKWARD;
    add_time_row(estimate, &hop);
    add_time_row(estimate, &bubble);
}

void price_step(const struct step_shape *shape, const struct layer_operators *layer, const struct end_operators *ends,
                struct estimate *estimate)
{
    double all_s = 0;
    double slowest_s = -1;
    for (int64_t stage = 0; stage < shape->question->layout.pp; stage++) {
        struct stage_time time = time_of_stage(shape, layer, ends, stage);
        double both_s = time.forward_s + time.backward_s;
        all_s += both_s;
        if (both_s > slowest_s) {
            slowest_s = both_s;
            estimate->slowest_stage = stage;
            estimate->stage_forward_s = time.forward_s;
            estimate->stage_backward_s = time.backward_s;
        }
    }
    estimate->micro_batches = shape->micro_batches;
    append_all(shape, layer, ends, estimate);
    add_pipeline_rows(shape, all_s - slowest_s, estimate);
    for (int i = 0; i < estimate->n_operators; i++) {
        const struct operator_row *row = &estimate->operators[i];
        estimate->time_s[row->item] += row->count * row->time_s;
    }
    for (int item = 0; item < N_TIME_ITEMS; item++) {
        estimate->step_time_s += estimate->time_s[item];
    }
}
