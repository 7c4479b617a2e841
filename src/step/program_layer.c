/* Rows of operators as operations: the order in which a layer runs them, and how one becomes a kernel or a transfer. */
#include "step/program_internal.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* ---- lists ------------------------------------------------------------------------------------------------------ */

static bool is_equal(double a, double b)
{
    return !(a < b) && !(a > b);
}

static bool is_same_transfer(const struct program_transfer *a, const struct program_transfer *b)
{
    return a->group == b->group && a->operation == b->operation && a->axis == b->axis && is_equal(a->bytes, b->bytes) &&
           is_equal(a->time_s, b->time_s) && is_equal(a->sm_share, b->sm_share) && strcmp(a->name, b->name) == 0;
}

int transfer_index(struct transfer_table *table, const struct program_transfer *transfer)
{
    for (int i = 0; i < table->n; i++) {
        if (is_same_transfer(&table->items[i], transfer)) {
            return i;
        }
    }
    if (table->n == table->capacity) {
        table->items = sp_arena_grow(table->arena, table->items, table->n, &table->capacity, sizeof table->items[0]);
    }
    table->items[table->n] = *transfer;
    return table->n++;
}

void op_list_wait(struct program_op *op, int back, int stream, int ordinal)
{
    for (int i = 0; i < op->n_waits; i++) {
        struct program_wait *same = &op->waits[i];
        if (same->back == back && same->stream == stream) {
            same->ordinal = ordinal > same->ordinal ? ordinal : same->ordinal;
            return;
        }
    }
    assert(op->n_waits < MAX_PROGRAM_WAITS);
    op->waits[op->n_waits++] =
        (struct program_wait){.back = (int16_t)back, .stream = (int16_t)stream, .ordinal = ordinal};
}

int op_list_add(struct op_list *list, const struct program_op *op)
{
    struct program_ops *out = &list->out;
    if (out->n == list->capacity) {
        out->ops = sp_arena_grow(list->arena, out->ops, out->n, &list->capacity, sizeof out->ops[0]);
    }
    out->ops[out->n++] = *op;
    return out->n_on_stream[op->stream]++;
}

void op_lists_add(struct op_lists *lists, const struct program_op *op)
{
    for (int64_t i = 0; i < lists->n; i++) {
        op_list_add(&lists->lists[i], op);
    }
}

/* ---- one row ---------------------------------------------------------------------------------------------------- */

static struct program_op row_op(const struct operator_row *row, int moment)
{
    return (struct program_op){.name = row->name,
                               .item = row->item,
                               .pass = row->pass,
                               .transfer = -1,
                               .moment = moment,
                               .kind = OP_KERNEL,
                               .time_s = row->count * row->time_s};
}

static struct program_transfer row_transfer(const struct operator_row *row, double time_s)
{
    double share = row->link_s > 0 ? time_s / row->link_s : 1; /* of a transfer that products hide in part */
    return (struct program_transfer){.name = row->name,
                                     .axis = row->axis,
                                     .group = row->group,
                                     .operation = row->collective,
                                     .bytes = share * row->collective_bytes,
                                     .time_s = time_s,
                                     .sent_bytes = share * row->sent_bytes};
}

static void add_collective(struct op_lists *lists, const struct operator_row *row, int moment, double times)
{
    struct program_op op = row_op(row, moment);
    struct program_transfer transfer = row_transfer(row, row->time_s);
    op.kind = OP_COLLECTIVE;
    op.time_s = 0;
    int whole = (int)nearbyint(times); /* counts below one: once in several micro-batches, the caller's care */
    for (int i = 0; i < whole; i++) {
        op.transfer = transfer_index(lists->lists[0].transfers, &transfer);
        op_lists_add(lists, &op);
    }
}

static bool is_host_copy(const struct operator_row *row)
{
    return row->item == TIME_OFFLOAD_EXPOSED && row->hbm_bytes > 0;
}

void add_row(struct op_lists *lists, const struct operator_row *row, int moment)
{
    if (row->operation != NULL) {
        add_collective(lists, row, moment, fmax(row->count, 1));
        return;
    }
    struct program_op op = row_op(row, moment);
    if (is_host_copy(row)) {
        op.kind = OP_HOST_COPY;
        op.bytes = row->hbm_bytes;
        op.is_to_host = strstr(row->name, "to the host") != NULL;
    }
    op_lists_add(lists, &op);
}

void add_shard_transfer(struct op_lists *lists, const struct step_shape *shape, const struct operator_row *row)
{
    const struct sp_figure *sms = row->tier == TIER_NVLINK || row->tier == TIER_PCIE
                                      ? &shape->gpu->communication_sms
                                      : &shape->gpu->network_communication_sms;
    struct program_transfer transfer = row_transfer(row, row->link_s);
    transfer.sm_share = sms->value / shape->gpu->sm_count.value;
    struct program_op op = row_op(row, PROGRAM_NO_MOMENT);
    op.kind = OP_COLLECTIVE;
    op.stream = STREAM_SHARDS;
    op.time_s = 0;
    op.transfer = transfer_index(lists->lists[0].transfers, &transfer);
    op_list_wait(&op, 0, STREAM_KERNELS, -1);
    op_lists_add(lists, &op);
}

/* ---- the order of a layer --------------------------------------------------------------------------------------- */

/* Where a row stands in a forward pass, 0 to LAST_PLACE; backward runs it the other way round. Rows that a layer runs twice (an
 * all-reduce behind attention and MLP, both norms, both exchanges of tokens) have the place of the second one too. */
enum { ATTENTION_PLACE = 30, MLP_PLACE = 50, LAST_PLACE = 100 };
static const struct row_place {
    const char *prefix;
    int place, second;
} places[] = {
    {"copies of gathered weights", 0, 0},
    {"norms and residual additions", 1, 51},
    {"query", 20, 0},
    {"key-value", 20, 0},
    {"qkv", 20, 0},
    {"norm of q and k", 25, 0},
    {"rotary embedding", 26, 0},
    {"join q, k, v gradients", 22, 0},
    {"output ", 40, 0},
    {"tp all-reduce", 45, 95},
    {"router", 61, 0},
    {"permute and unpermute tokens", 62, 78},
    {"ep all-to-all", 63, 77},
    {"etp all-gather", 64, 0},
    {"experts gate and up", 65, 0},
    {"gate and up", 65, 0},
    {"up", 65, 0},
    {"activation of the MLP", 70, 0},
    {"experts down", 72, 0},
    {"down", 72, 0},
    {"etp reduce-scatter", 75, 0},
    {"shared gate and up", 80, 0},
    {"shared down", 81, 0},
    {"latency of element-wise kernels", 98, 0},
    {"host", LAST_PLACE, 0},
};
enum { OTHER_PLACE = 97, GATHER_PLACE = 10, SCATTER_PLACE = 45 };

static bool begins_with(const char *name, const char *prefix)
{
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

static const struct row_place *find_place(const char *name)
{
    static const struct row_place other = {"", OTHER_PLACE, 0};
    for (size_t i = 0; i < SP_COUNT_OF(places); i++) {
        if (begins_with(name, places[i].prefix)) {
            return &places[i];
        }
    }
    return &other;
}

struct placed_row {
    int place;
    struct operator_row row;
};
enum { MAX_PLACED = 2 * MAX_LIST_OPERATORS };
struct placed_rows {
    int n;
    struct placed_row rows[MAX_PLACED];
};

static bool is_of_attention(const struct operator_row *row)
{
    static const char *const names[] = {"attention", "attention of the slowest rank beyond the mean",
                                        "merges and copies of the method", "exchange of the method"};
    for (size_t i = 0; i < SP_COUNT_OF(names); i++) {
        if (strcmp(row->name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Host time, weights and gradients over dp, and copies to the host have places of their own (program.c). */
static bool has_own_segment(const struct operator_row *row)
{
    bool is_activation_copy = row->item == TIME_OFFLOAD_EXPOSED && begins_with(row->name, "activations");
    return (row->item == TIME_DP_EXPOSED && row->operation != NULL) || is_activation_copy;
}

/* Keeps rows of one place in the order of the list. */
static void insert(struct placed_rows *placed, int place, const struct operator_row *row)
{
    assert(placed->n < MAX_PLACED);
    int at = placed->n++;
    for (; at > 0 && placed->rows[at - 1].place > place; at--) {
        placed->rows[at] = placed->rows[at - 1];
    }
    placed->rows[at].place = place;
    placed->rows[at].row = *row;
}

static void place_row(const struct layer_part *part, const struct operator_row *row, struct placed_rows *placed,
                      int *scatters)
{
    const struct row_place *found = find_place(row->name);
    bool is_backward = part->pass == STEP_BACKWARD;
    struct row_place place = *found;
    bool gathers = begins_with(row->name, "tp all-gather");
    if (gathers || begins_with(row->name, "tp reduce-scatter")) { /* one block after the other, attention first */
        int block = *scatters > 0 ? MLP_PLACE : 0;
        bool is_first = gathers != is_backward;
        place = (struct row_place){"", block + (is_first ? GATHER_PLACE : SCATTER_PLACE), 0};
        *scatters += gathers ? 0 : 1;
    }
    struct operator_row half = *row;
    if (place.second > 0 && (row->operation == NULL || row->count > 1)) {
        half.count /= 2;
        insert(placed, is_backward ? LAST_PLACE - place.second : place.second, &half);
    }
    /* the host's time ends a pass either way */
    bool is_last = place.place == LAST_PLACE;
    insert(placed, is_backward && !is_last ? LAST_PLACE - place.place : place.place, &half);
}

static bool is_wanted(const struct layer_part *part, const struct operator_row *row)
{
    if (has_own_segment(row) || is_of_attention(row)) {
        return false;
    }
    return part->weights == WEIGHTS_WITH_INPUTS || row->is_weight_gradient == (part->weights == WEIGHTS_ALONE);
}

static bool has_attention(const struct layer_part *part)
{
    for (int i = 0; i < part->rows->n && part->weights != WEIGHTS_ALONE; i++) {
        if (strcmp(part->rows->rows[i].name, "attention") == 0) {
            return true;
        }
    }
    return false;
}

static int row_moment(const struct layer_part *part, int place)
{
    switch (part->pass) {
    case STEP_FORWARD:
        return MOMENT_FORWARD;
    case STEP_RECOMPUTE:
        return !part->is_rebuilt ? PROGRAM_NO_MOMENT : place <= ATTENTION_PLACE ? MOMENT_FORWARD : MOMENT_RECOMPUTED;
    case STEP_BACKWARD:
        return place <= LAST_PLACE - MLP_PLACE ? MOMENT_MLP_BACKWARD : MOMENT_ATTENTION_BACKWARD;
    case STEP_OPTIMIZER:
    case N_STEP_PASSES:
        break;
    }
    return MOMENT_OPTIMIZER;
}

void add_layer_rows(struct op_lists *lists, const struct layer_part *part)
{
    struct placed_rows placed = {.n = 0};
    int scatters = 0;
    for (int i = 0; i < part->rows->n; i++) {
        if (is_wanted(part, &part->rows->rows[i])) {
            place_row(part, &part->rows->rows[i], &placed, &scatters);
        }
    }
    int attention = part->pass == STEP_BACKWARD ? LAST_PLACE - ATTENTION_PLACE : ATTENTION_PLACE;
    bool is_due = has_attention(part);
    for (int i = 0; i < placed.n; i++) {
        if (is_due && placed.rows[i].place > attention) {
            add_attention_tasks(lists, part);
            is_due = false;
        }
        add_row(lists, &placed.rows[i].row, row_moment(part, placed.rows[i].place));
    }
    if (is_due) {
        add_attention_tasks(lists, part);
    }
}
