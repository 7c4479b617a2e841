/* The tasks of a method (method_emit) as operations of each rank of the group: what it computes, sends and receives, on which
 * stream, after what. */
#include "step/program_internal.h"

#include <assert.h>

/* Where a task stands in the list of a rank: its stream and ordinal. Stream -1: nowhere. */
struct place {
    int stream, ordinal;
};
enum { NOWHERE = -1 };

struct conversion {
    struct op_lists *lists; /* by rank of the graph, or one for all */
    const struct layer_part *part;
    const struct attention_problem *problem;
    const struct task_graph *graph;
    int64_t ranks_apart;            /* positions of the sp group between neighbours of the graph */
    struct place *own;              /* by task: at the rank that runs it */
    struct place *received;         /* by task: at the receiver of a hop */
    struct place **all;             /* by task of all ranks: by list */
    int kernels_before;             /* of the segment, on the compute stream */
    int (*last)[N_PROGRAM_STREAMS]; /* by list: ordinal of the last operation added here; -1: none */
};

static enum program_stream stream_of(const struct task *task, bool is_receipt)
{
    switch (task->stream) {
    case STREAM_LINK:
        return is_receipt ? STREAM_ARRIVALS : STREAM_EXCHANGE;
    case STREAM_SECOND_LINK:
        return is_receipt ? STREAM_SECOND_ARRIVALS : STREAM_SECOND_EXCHANGE;
    case STREAM_COMPUTE:
    case N_STREAMS:
        break;
    }
    return is_receipt ? STREAM_ARRIVALS : STREAM_KERNELS;
}

static void add_wait(struct program_op *op, struct place place)
{
    if (place.stream != NOWHERE) {
        op_list_wait(op, 0, place.stream, place.ordinal);
    }
}

/* What a task waits for, as far as one rank knows of it. A rank's own sending is no input: its stream keeps the order of sends.
 * Off the compute stream, what waits for nothing waits for the kernels before the attention. */
static void add_waits(const struct conversion *conversion, const struct task *task, int64_t list, struct program_op *op)
{
    for (int i = 0; i < task->n_after; i++) {
        int after = conversion->graph->after[task->first_after + i];
        const struct task *before = &conversion->graph->tasks[after];
        if (before->rank == TASK_ALL_RANKS) {
            add_wait(op, conversion->all[after][list]);
        } else if (before->kind == TASK_HOP && before->peer == list) {
            add_wait(op, conversion->received[after]);
        } else if (before->kind != TASK_HOP && before->rank == list) {
            add_wait(op, conversion->own[after]);
        }
    }
    if (op->n_waits == 0 && op->stream != STREAM_KERNELS) {
        op_list_wait(op, 0, STREAM_KERNELS, conversion->kernels_before - 1);
    }
}

static enum program_group group_of(const struct task *task)
{
    switch (task->group) {
    case GROUP_INNER:
        return RANKS_SP_INNER;
    case GROUP_OUTER:
        return RANKS_SP_OUTER;
    case GROUP_ALL:
        break;
    }
    return RANKS_SP;
}

static int task_transfer(const struct conversion *conversion, const struct task *task)
{
    struct program_transfer transfer = {.name = task->name,
                                        .axis = AXIS_CP,
                                        .group = group_of(task),
                                        .operation = task->kind == TASK_HOP ? COLLECTIVE_SEND_RECEIVE : task->operation,
                                        .bytes = task->kind == TASK_HOP ? task->bytes : task->share * task->bytes,
                                        .time_s = task_time(conversion->problem, task),
                                        .sent_bytes = task_sent_bytes(conversion->problem, task),
                                        .sm_share =
                                            task->stream == STREAM_COMPUTE ? 0 : conversion->problem->link_sm_share};
    return transfer_index(conversion->lists->lists[0].transfers, &transfer);
}

static struct place add_op(struct conversion *conversion, int64_t list, const struct program_op *op)
{
    struct place place = {(int)op->stream, op_list_add(&conversion->lists->lists[list], op)};
    conversion->last[list][op->stream] = place.ordinal;
    return place;
}

static struct program_op op_of(const struct conversion *conversion, const struct task *task)
{
    enum step_pass pass = conversion->part->pass;
    bool is_kernel = task->kind == TASK_ATTENTION || task->kind == TASK_GEMM;
    return (struct program_op){.name = task->name,
                               .item = is_kernel ? TIME_ATTENTION : TIME_SP_EXPOSED,
                               .pass = pass,
                               .transfer = -1,
                               .moment = pass == STEP_BACKWARD ? MOMENT_ATTENTION_BACKWARD : MOMENT_FORWARD,
                               .stream = stream_of(task, false)};
}

static void add_hop(struct conversion *conversion, int index)
{
    const struct task *task = &conversion->graph->tasks[index];
    int64_t p = conversion->graph->ranks;
    if (task->bytes <= 0 || task->rank == task->peer) {
        return; /* to itself: there is nothing to wait for */
    }
    int64_t further = ((task->peer - task->rank) % p + p) % p;
    struct program_op send = op_of(conversion, task);
    send.kind = OP_SEND;
    send.transfer = task_transfer(conversion, task);
    send.peer = (int)(further * conversion->ranks_apart);
    struct program_op receive = send;
    add_waits(conversion, task, task->rank, &send);
    conversion->own[index] = add_op(conversion, task->rank, &send);
    receive.kind = OP_RECEIVE;
    receive.stream = stream_of(task, true);
    receive.peer = (int)((p - further) * conversion->ranks_apart);
    add_waits(conversion, task, task->peer, &receive);
    conversion->received[index] = add_op(conversion, task->peer, &receive);
}

static struct program_op plain_op(struct conversion *conversion, const struct task *task)
{
    struct program_op op = op_of(conversion, task);
    if (task->kind == TASK_COLLECTIVE) {
        op.kind = OP_COLLECTIVE;
        op.transfer = task_transfer(conversion, task);
    } else {
        op.kind = OP_KERNEL;
        op.time_s = task_time(conversion->problem, task);
    }
    return op;
}

static void add_everywhere(struct conversion *conversion, int index)
{
    const struct task *task = &conversion->graph->tasks[index];
    struct program_op op = plain_op(conversion, task);
    int64_t n = conversion->lists->n;
    conversion->all[index] = sp_arena_array(conversion->graph->arena, (size_t)n, sizeof(struct place));
    for (int64_t list = 0; list < n; list++) {
        struct program_op one = op;
        add_waits(conversion, task, list, &one);
        conversion->all[index][list] = add_op(conversion, list, &one);
    }
}

static void add_task(struct conversion *conversion, int index)
{
    const struct task *task = &conversion->graph->tasks[index];
    if (task->rank == TASK_ALL_RANKS) {
        add_everywhere(conversion, index);
    } else if (task->rank >= conversion->lists->n) {
        return; /* every rank does what the first one does */
    } else if (task->kind == TASK_HOP) {
        add_hop(conversion, index);
    } else {
        struct program_op op = plain_op(conversion, task);
        add_waits(conversion, task, task->rank, &op);
        conversion->own[index] = add_op(conversion, task->rank, &op);
    }
}

/* What follows attention on the compute stream follows its transfers too. */
static void add_join(struct conversion *conversion, int64_t list)
{
    struct program_op join = {.kind = OP_KERNEL,
                              .name = "end of the exchange",
                              .item = TIME_SP_EXPOSED,
                              .pass = conversion->part->pass,
                              .transfer = -1,
                              .moment = PROGRAM_NO_MOMENT};
    for (int s = 0; s < N_PROGRAM_STREAMS; s++) {
        if (s != STREAM_KERNELS && conversion->last[list][s] >= 0) {
            op_list_wait(&join, 0, s, conversion->last[list][s]);
        }
    }
    if (join.n_waits > 0) {
        op_list_add(&conversion->lists->lists[list], &join);
    }
}

static void convert(struct conversion *conversion)
{
    struct sp_arena *scratch = conversion->graph->arena;
    size_t n_tasks = (size_t)conversion->graph->n_tasks;
    size_t n_lists = (size_t)conversion->lists->n;
    conversion->own = sp_arena_array(scratch, n_tasks, sizeof conversion->own[0]);
    conversion->received = sp_arena_array(scratch, n_tasks, sizeof conversion->received[0]);
    conversion->all = sp_arena_array(scratch, n_tasks, sizeof conversion->all[0]);
    conversion->last = sp_arena_array(scratch, n_lists, sizeof conversion->last[0]);
    for (size_t i = 0; i < n_tasks; i++) {
        conversion->own[i].stream = conversion->received[i].stream = NOWHERE;
    }
    for (size_t i = 0; i < n_lists; i++) {
        for (int s = 0; s < N_PROGRAM_STREAMS; s++) {
            conversion->last[i][s] = -1;
        }
    }
    conversion->kernels_before = conversion->lists->lists[0].out.n_on_stream[STREAM_KERNELS];
    for (int i = 0; i < conversion->graph->n_tasks; i++) {
        add_task(conversion, i);
    }
    for (size_t i = 0; i < n_lists; i++) {
        add_join(conversion, (int64_t)i);
    }
}

void add_attention_tasks(struct op_lists *lists, const struct layer_part *part)
{
    const struct attention_problem *problem = &part->shape->kinds[part->kind].attention;
    struct sp_arena *scratch = sp_arena_open();
    struct task_graph graph;
    task_graph_init(&graph, scratch, problem);
    method_emit(problem, part->pass == STEP_BACKWARD, &graph);
    struct conversion conversion = {
        .lists = lists, .part = part, .problem = problem, .graph = &graph, .ranks_apart = problem->ranks / graph.ranks};
    convert(&conversion);
    sp_arena_close(scratch);
}

int64_t attention_positions(const struct step_shape *shape)
{
    const struct attention_problem *problem = &shape->kinds[0].attention;
    enum exchange exchange = problem->traits->exchange;
    bool is_alike = exchange == EXCHANGE_NONE || exchange == EXCHANGE_SCORES || exchange == EXCHANGE_ALL_TO_ALL;
    if (problem->ranks == 1 || is_alike) {
        return 1;
    }
    return exchange == EXCHANGE_HYBRID ? problem->ranks / problem->inner_ranks : problem->ranks;
}
