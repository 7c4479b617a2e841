/* Tasks of one attention layer as plain data, and what each would take alone. */
#include "method/method.h"

#include <assert.h>
#include <string.h>

void task_graph_init(struct task_graph *graph, struct sp_arena *arena, const struct attention_problem *problem)
{
    bool is_hybrid = problem->traits->exchange == EXCHANGE_HYBRID && problem->ranks > 1;
    *graph = (struct task_graph){.arena = arena,
                                 .ranks = is_hybrid ? problem->ranks / problem->inner_ranks : problem->ranks};
}

int task_graph_add(struct task_graph *graph, const struct task *task, const int *after, int n_after)
{
    if (graph->n_tasks == graph->capacity) {
        graph->tasks =
            sp_arena_grow(graph->arena, graph->tasks, graph->n_tasks, &graph->capacity, sizeof graph->tasks[0]);
    }
    struct task *added = &graph->tasks[graph->n_tasks];
    *added = *task;
    added->first_after = graph->n_after;
    added->n_after = 0;
    for (int i = 0; i < n_after; i++) {
        if (after[i] < 0) {
            continue;
        }
        assert(after[i] < graph->n_tasks);
        if (graph->n_after == graph->after_capacity) {
            graph->after = sp_arena_grow(graph->arena, graph->after, graph->n_after, &graph->after_capacity,
                                         sizeof graph->after[0]);
        }
        graph->after[graph->n_after++] = after[i];
        added->n_after++;
    }
    return graph->n_tasks++;
}

static const struct group_placement *group_of(const struct attention_problem *problem, const struct task *task)
{
    switch (task->group) {
    case GROUP_INNER:
        return &problem->inner_group;
    case GROUP_OUTER:
        return &problem->outer_group;
    case GROUP_ALL:
        break;
    }
    return &problem->group;
}

double task_sent_bytes(const struct attention_problem *problem, const struct task *task)
{
    if (task->kind == TASK_HOP) {
        return task->bytes;
    }
    return task->kind == TASK_COLLECTIVE
               ? task->share * collective_sent_bytes(task->operation, group_of(problem, task)->size, task->bytes)
               : 0;
}

double task_time(const struct attention_problem *problem, const struct task *task)
{
    const struct hardware_spec *hardware = problem->hardware;
    switch (task->kind) {
    case TASK_ATTENTION:
        return task->share * attention_time(&hardware->gpu, &task->attention);
    case TASK_GEMM:
        return task->share * gemm_time(&hardware->gpu, &task->gemm);
    case TASK_ELEMENTWISE:
        return elementwise_time(&hardware->gpu, task->bytes, task->kernels);
    case TASK_COLLECTIVE:
        return task->share * collective_time(hardware, group_of(problem, task), task->operation, task->bytes);
    case TASK_HOP:
        return hop_time(hardware, group_of(problem, task), task->bytes);
    }
    assert(!"task kind");
    return 0;
}
