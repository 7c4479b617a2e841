/* Rows of operators: how one is priced and added. */
#include "step/step_internal.h"

#include <assert.h>

double operator_list_time(const struct operator_list *list)
{
    double time_s = 0;
    for (int i = 0; i < list->n; i++) {
        time_s += list->rows[i].count * list->rows[i].time_s;
    }
    return time_s;
}

struct operator_row *operator_add(struct operator_list *list, const struct operator_row *row)
{
    if (row->time_s <= 0 && row->flop <= 0 && row->hbm_bytes <= 0 && row->sent_bytes <= 0) {
        return NULL;
    }
    assert(list->n < (int)SP_COUNT_OF(list->rows));
    list->rows[list->n] = *row;
    return &list->rows[list->n++];
}

struct operator_row *operator_gemm(const struct step_shape *shape, struct operator_list *list, const char *name, enum step_pass pass,
                                   const struct gemm_call *call)
{
    struct operator_row row = {.name = name, .formula = "2 m n k / (rate(k) x waves), or bytes / bandwidth (eq. 23)",
                               .source = shape->gpu->gemm.source, .pass = pass, .item = TIME_GEMM, .count = 1,
                               .m = call->m, .n = call->n, .k = call->k, .flop = gemm_flop(call),
                               .hbm_bytes = gemm_hbm_bytes(call), .time_s = gemm_time(shape->gpu, call)};
    return operator_add(list, &row);
}

struct operator_row *operator_elementwise(const struct step_shape *shape, struct operator_list *list, const char *name,
                                          enum step_pass pass, double bytes)
{
    struct operator_row row = {.name = name, .formula = "bytes / element-wise bandwidth (eq. 26)",
                               .source = shape->gpu->elementwise_bandwidth.source, .pass = pass, .item = TIME_ELEMENTWISE,
                               .count = 1, .hbm_bytes = bytes, .time_s = elementwise_time(shape->gpu, bytes, 0)};
    return operator_add(list, &row);
}

static enum time_item exposed_item(enum axis axis)
{
    switch (axis) {
    case AXIS_TP:
        return TIME_TP_EXPOSED;
    case AXIS_CP:
        return TIME_SP_EXPOSED;
    case AXIS_EP:
        return TIME_EP_EXPOSED;
    case AXIS_DP:
        return TIME_DP_EXPOSED;
    case AXIS_PP:
        return TIME_PP_EXPOSED;
    case N_AXES:
        break;
    }
    assert(!"axis");
    return TIME_OTHER;
}

struct operator_row *operator_collective(const struct step_shape *shape, struct operator_list *list, const char *name, enum axis axis,
                                         enum collective operation, double bytes, double count)
{
    const struct group_placement *group = axis == AXIS_TP ? &shape->tp_group : &shape->shard_group;
    const struct hardware_spec *hardware = &shape->question->hardware;
    static const char *const operations[N_COLLECTIVES] = {"all-gather", "reduce-scatter", "all-reduce", "all-to-all", "send-receive"};
    double sent = collective_sent_bytes(operation, group->size, bytes);
    double time_s = collective_time(hardware, group, operation, bytes);
    struct operator_row row = {.name = name, .formula = "collective over the group, charged in full (eq. 30-35)",
                               .source = group->nodes <= 1 ? hardware->intra.title : hardware->network.title,
                               .item = exposed_item(axis), .count = count, .time_s = time_s,
                               /* what a rank sends is read from its memory, what it receives is written */
                               .hbm_bytes = 2 * sent, .operation = operations[operation], .axis = axis, .tier = group->tier,
                               .sent_bytes = sent, .messages = 1, .link_s = time_s};
    return operator_add(list, &row);
}
