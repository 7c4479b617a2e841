/* The ring's tasks, for the exchanges that contain a ring. */
#ifndef SEQPLAN_METHOD_EXCHANGE_RING_H
#define SEQPLAN_METHOD_EXCHANGE_RING_H

#include "method/method.h"

/* Every rank begins when task `after` has ended; -1: at once. */
void ring_emit(const struct attention_problem *problem, bool is_backward, struct task_graph *graph, int after);

#endif
