/* The clock of a step: kernels settle together where their mean power is the limit (docs/model.md, eq. 27b). */
#include "step/step_internal.h"

enum { FORWARD, BACKWARD, N_DIRECTIONS };
struct clock_sums {
    double gemm_s;
    double attention_s[N_DIRECTIONS];
    double memory_s;
};

/* The list of one pass, `times` over. */
static void add_list(const struct operator_list *list, double times, int direction, struct clock_sums *sums)
{
    for (int i = 0; i < list->n; i++) {
        const struct operator_row *row = &list->rows[i];
        double time_s = times * row->count * row->time_s;
        bool moves_memory = row->hbm_bytes > 0 && row->operation == NULL &&
                            (row->item == TIME_ELEMENTWISE || row->item == TIME_SP_EXPOSED);
        sums->gemm_s += row->item == TIME_GEMM ? time_s : 0;
        sums->attention_s[direction] += row->item == TIME_ATTENTION ? time_s : 0;
        sums->memory_s += moves_memory ? time_s : 0;
    }
}

/* A kind of layers has one attention problem; all kinds have one kernel and head dimension. */
static double direction_clock(const struct step_shape *shape, int direction)
{
    const struct attention_problem *problem = &shape->kinds[0].attention;
    struct token_layout tokens = problem_tokens(problem);
    struct attention_call call = problem_call(problem, whole_block(&tokens), direction == BACKWARD);
    return attention_clock_hz(shape->gpu, &call);
}

double step_clock(const struct step_shape *shape)
{
    struct layer_operators layer;
    struct end_operators ends;
    struct clock_sums sums = {0};
    for (int k = 0; k < shape->n_kinds; k++) {
        double layers = model_kind_layers(shape, k);
        price_layer_base(shape, k, &layer);
        add_list(&layer.forward, layers, FORWARD, &sums);
        add_list(&layer.backward, layers, BACKWARD, &sums);
    }
    price_ends(shape, &ends);
    add_list(&ends.head_forward, 1, FORWARD, &sums);
    add_list(&ends.head_backward, 1, BACKWARD, &sums);
    const struct clock_share shares[] = {{sums.gemm_s, shape->gpu->gemm.clock.value},
                                         {sums.attention_s[FORWARD], direction_clock(shape, FORWARD)},
                                         {sums.attention_s[BACKWARD], direction_clock(shape, BACKWARD)}};
    double clock_hz = common_clock(shape->gpu, shares, SP_COUNT_OF(shares), sums.memory_s);
    return clock_hz * slowest_clock_share(shape->gpu, (double)shape->question->run.gpus);
}
