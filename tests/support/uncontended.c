#include "support/uncontended.h"

#include <math.h>

struct clocks {
    double *ready[N_STREAMS]; /* by rank */
    double *end;              /* by task */
    double *sent;             /* by rank */
};

static double start_of(const struct task_graph *graph, const struct task *task, const struct clocks *clocks)
{
    double start = 0;
    for (int i = 0; i < task->n_after; i++) {
        start = fmax(start, clocks->end[graph->after[task->first_after + i]]);
    }
    for (int64_t r = 0; r < graph->ranks; r++) {
        if (task->rank == TASK_ALL_RANKS || task->rank == r) {
            start = fmax(start, clocks->ready[task->stream][r]);
        }
    }
    return start;
}

static void count(const struct attention_problem *problem, const struct task_graph *graph, const struct task *task,
                  const struct clocks *clocks, struct uncontended *result)
{
    double sent = task_sent_bytes(problem, task);
    for (int64_t r = 0; r < graph->ranks; r++) {
        if (task->rank == TASK_ALL_RANKS || task->rank == r) {
            clocks->sent[r] += sent;
            result->all_sent_bytes += sent;
        }
    }
    if (task->kind == TASK_ATTENTION) {
        result->flop += task->share * attention_flop(&task->attention);
    } else if (task->kind == TASK_GEMM) {
        result->flop += task->share * gemm_flop(&task->gemm);
    }
}

void uncontended_run(const struct attention_problem *problem, const struct task_graph *graph,
                     struct uncontended *result)
{
    size_t n = (size_t)graph->ranks;
    struct clocks clocks = {.end = sp_arena_array(graph->arena, (size_t)graph->n_tasks + 1, sizeof(double)),
                            .sent = sp_arena_array(graph->arena, n, sizeof(double))};
    for (int s = 0; s < N_STREAMS; s++) {
        clocks.ready[s] = sp_arena_array(graph->arena, n, sizeof(double));
    }
    *result = (struct uncontended){0};
    for (int i = 0; i < graph->n_tasks; i++) {
        const struct task *task = &graph->tasks[i];
        double time_s = task_time(problem, task);
        clocks.end[i] = start_of(graph, task, &clocks) + time_s;
        for (int64_t r = 0; r < graph->ranks; r++) {
            if (task->rank == TASK_ALL_RANKS || task->rank == r) {
                clocks.ready[task->stream][r] = clocks.end[i];
            }
        }
        result->makespan_s = fmax(result->makespan_s, clocks.end[i]);
        if (task->kind == TASK_ATTENTION) {
            result->compute_s += time_s / (double)graph->ranks;
        }
        count(problem, graph, task, &clocks, result);
    }
    for (size_t r = 0; r < n; r++) {
        result->sent_bytes = fmax(result->sent_bytes, clocks.sent[r]);
    }
}
