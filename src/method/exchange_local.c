/* No exchange: one kernel over the whole sequence (method `none`, and every method on one rank). */
#include "method/method.h"

static struct attention_call whole_call(const struct attention_problem *problem, bool is_backward)
{
    struct token_layout tokens = problem_tokens(problem);
    return problem_call(problem, whole_block(&tokens), is_backward);
}

static void price(const struct attention_problem *problem, bool is_backward, struct method_pass *pass)
{
    struct attention_call call = whole_call(problem, is_backward);
    pass->attention_s = attention_time(&problem->hardware->gpu, &call);
    pass->flop = attention_flop(&call);
    pass->attention_hbm_bytes = attention_hbm_bytes(&problem->hardware->gpu, &call);
    pass->total_s = pass->attention_s;
    pass->kernels = 1;
}

static void emit(const struct attention_problem *problem, bool is_backward, struct task_graph *graph)
{
    struct task task = {
        .kind = TASK_ATTENTION, .name = "attention", .share = 1, .attention = whole_call(problem, is_backward)};
    task_graph_add(graph, &task, NULL, 0);
}

const struct exchange_ops exchange_local = {.price = price, .emit = emit};
