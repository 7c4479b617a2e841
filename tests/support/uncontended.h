/* Runs the tasks of one attention layer on links that nothing shares: the second evaluation of a method's description. */
#ifndef SEQPLAN_TESTS_UNCONTENDED_H
#define SEQPLAN_TESTS_UNCONTENDED_H

#include "method/method.h"

struct uncontended {
    double makespan_s;
    double compute_s;  /* attention kernels and products, mean over the ranks */
    double sent_bytes; /* of the rank that sends most */
    double all_sent_bytes;
    double flop; /* of all ranks */
};
/* Allocates scratch in the graph's arena. */
void uncontended_run(const struct attention_problem *problem, const struct task_graph *graph,
                     struct uncontended *result);

#endif
