/* Rows of operators: how one is priced and added. */
#include "step/step_internal.h"

#include <assert.h>
#include <string.h>

void operator_list_begin(struct operator_list *list, const struct operator_sum *before)
{
    list->n = 0;
    list->sum = before != NULL ? *before : (struct operator_sum){0};
}

static void count_row(struct operator_list *list, const struct operator_row *row)
{
    double time_s = row->count * row->time_s;
    list->sum.time_s += time_s;
    list->sum.weight_s += row->is_weight_gradient ? time_s : 0;
}

struct operator_row *operator_add(struct operator_list *list, const struct operator_row *row)
{
    if (row->count <= 0 || (row->time_s <= 0 && row->flop <= 0 && row->hbm_bytes <= 0 && row->sent_bytes <= 0)) {
        return NULL;
    }
    assert(list->n < (int)SP_COUNT_OF(list->rows));
    list->rows[list->n] = *row;
    count_row(list, row);
    bool is_launched_alone = row->item == TIME_GEMM || row->item == TIME_TP_EXPOSED || row->item == TIME_EP_EXPOSED ||
                             row->item == TIME_DP_EXPOSED;
    list->sum.kernels += is_launched_alone ? row->count : 0;
    return &list->rows[list->n++];
}

struct operator_row *operator_accumulate(struct operator_list *list, const struct operator_row *row)
{
    for (int i = 0; i < list->n; i++) {
        struct operator_row *same = &list->rows[i];
        if (strcmp(same->name, row->name) == 0 && same->is_attention_class == row->is_attention_class) {
            count_row(list, row);
            same->time_s += row->time_s;
            same->flop += row->flop;
            same->hbm_bytes += row->hbm_bytes;
            return same;
        }
    }
    return operator_add(list, row);
}

static bool is_equal(double a, double b)
{
    return !(a < b) && !(a > b);
}

static bool is_same_call(const struct gemm_call *a, const struct gemm_call *b)
{
    return a->pass == b->pass && a->precision == b->precision && is_equal(a->m, b->m) && is_equal(a->n, b->n) &&
           is_equal(a->k, b->k) && is_equal(a->groups, b->groups) && is_equal(a->output_bytes, b->output_bytes) &&
           is_equal(a->clock_hz, b->clock_hz);
}

/* Of the three sizes and the pass. */
static uint64_t hash_call(const struct gemm_call *call)
{
    enum { HALF_WORD = 32 };
    static const uint64_t golden = 0x9e3779b97f4a7c15U; /* 2^64 over the golden ratio: multiples spread evenly */
    const double sizes[] = {call->m, call->n, call->k};
    uint64_t hash = (uint64_t)call->pass;
    for (size_t i = 0; i < SP_COUNT_OF(sizes); i++) {
        uint64_t bits;
        memcpy(&bits, &sizes[i], sizeof(bits));
        hash = (hash ^ bits) * golden;
        hash ^= hash >> HALF_WORD;
    }
    return hash;
}

/* Products repeat while layouts of one model are priced: the last times are kept. */
double product_time(const struct step_shape *shape, const struct gemm_call *asked)
{
    struct gemm_memo *memo = shape->gemms;
    struct gemm_call call = *asked;
    call.clock_hz = shape->clock_hz;
    if (memo == NULL) {
        return gemm_time(shape->gpu, &call);
    }
    struct gemm_memo_entry *entry = &memo->entries[hash_call(&call) % GEMM_MEMO_ENTRIES];
    if (entry->gpu != shape->gpu || !is_same_call(&entry->call, &call)) {
        *entry = (struct gemm_memo_entry){shape->gpu, call, gemm_time(shape->gpu, &call)};
    }
    return entry->time_s;
}

struct operator_row *operator_gemm(const struct step_shape *shape, struct operator_list *list, const char *name,
                                   const struct gemm_call *call)
{
    bool is_fp8 = call->precision == DTYPE_FP8 && shape->gpu->has_gemm_fp8;
    struct operator_row row = {.name = name,
                               .formula = "2 m n k / (rate(k) x waves), or bytes / bandwidth (eq. 23)",
                               .source = is_fp8 ? shape->gpu->gemm_fp8.source : shape->gpu->gemm.source,
                               .item = TIME_GEMM,
                               .is_weight_gradient = call->pass == PASS_WEIGHT_GRADIENT,
                               .count = 1,
                               .m = call->m,
                               .n = call->n,
                               .k = call->k,
                               .flop = gemm_flop(call),
                               .hbm_bytes = gemm_hbm_bytes(call),
                               .time_s = product_time(shape, call)};
    return operator_add(list, &row);
}

struct operator_row *operator_elementwise(const struct step_shape *shape, struct operator_list *list, const char *name,
                                          double bytes)
{
    struct operator_row row = {.name = name,
                               .formula = "bytes / element-wise bandwidth (eq. 26)",
                               .source = shape->gpu->elementwise_bandwidth.source,
                               .item = TIME_ELEMENTWISE,
                               .count = 1,
                               .hbm_bytes = bytes,
                               .time_s = elementwise_time(shape->gpu, bytes, 0)};
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

static enum program_group group_name(const struct step_shape *shape, const struct group_placement *group)
{
    const struct {
        const struct group_placement *group;
        enum program_group name;
    } groups[] = {{&shape->tp_group, RANKS_TP}, {&shape->shard_group, RANKS_SHARD},
                  {&shape->ep_group, RANKS_EP}, {&shape->etp_group, RANKS_ETP},
                  {&shape->pp_group, RANKS_PP}, {&shape->expert_shard_group, RANKS_EXPERT_SHARD}};
    for (size_t i = 0; i < SP_COUNT_OF(groups); i++) {
        if (groups[i].group == group) {
            return groups[i].name;
        }
    }
    assert(!"group of the shape");
    return RANKS_ALL;
}

struct operator_row collective_row(const struct step_shape *shape, const struct collective_call *call)
{
    static const char *const operations[N_COLLECTIVES] = {"all-gather", "reduce-scatter", "all-reduce", "all-to-all",
                                                          "send-receive"};
    const struct hardware_spec *hardware = &shape->question->hardware;
    const struct group_placement *group = call->group;
    if (group->size <= 1) {
        return (struct operator_row){.count = 0};
    }
    double sent = collective_sent_bytes(call->operation, group->size, call->bytes);
    double time_s = collective_time(hardware, group, call->operation, call->bytes);
    return (struct operator_row){.name = call->name,
                                 .formula = "collective over the group, charged in full (eq. 30-35)",
                                 .source = group->nodes <= 1 ? hardware->intra.title : hardware->network.title,
                                 .item = exposed_item(call->axis),
                                 .count = call->count,
                                 .time_s = time_s,
                                 /* what a rank sends is read from its memory, what it receives is written */
                                 .hbm_bytes = 2 * sent,
                                 .operation = operations[call->operation],
                                 .axis = call->axis,
                                 .tier = group->tier,
                                 .collective = call->operation,
                                 .group = group_name(shape, group),
                                 .collective_bytes = call->bytes,
                                 .sent_bytes = sent,
                                 .messages = 1,
                                 .link_s = time_s};
}

void operator_collective(const struct step_shape *shape, struct operator_list *list, const struct collective_call *call)
{
    struct operator_row row = collective_row(shape, call);
    operator_add(list, &row);
}

void operator_mark(struct operator_row *row, bool is_attention)
{
    if (row != NULL) {
        row->is_attention_class = is_attention;
        row->is_ffn_class = !is_attention;
    }
}

void operator_list_pass(struct operator_list *list, enum step_pass pass, bool is_of_layer)
{
    for (int i = 0; i < list->n; i++) {
        list->rows[i].pass = pass;
        list->rows[i].is_of_layer = is_of_layer;
    }
}
