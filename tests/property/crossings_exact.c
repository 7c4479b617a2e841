/* Where another layout wins is where plans of the machine on both sides of it differ: each crossing is planned anew just
 * before, where the winner of today must win still, and just after, where the layout that is named must. Where no crossing
 * is found, and with 10 % more and less, a plan of that machine must agree too. */
#include "search/search.h"
#include "support/support.h"

#include <math.h>
#include <string.h>

struct asked {
    const char *model, *hardware, *network;
    int64_t gpus, seq;
    unsigned frameworks;
    enum plan_objective objective;
    const char *set;
    double min_mfu_frac, headroom_frac;
};

/* Instrumented programs search several times as long: a few of the searches tell as much about memory and lines as all. */
#if !defined(SEQPLAN_IS_INSTRUMENTED)
enum { EVERY = 1 };
#else
enum { EVERY = 4 };
#endif

static const struct asked cases[] = {
    {.model = "llama-3.1-8b", .hardware = "dgx-h100", .gpus = 8, .seq = 131072, .frameworks = 1U << FRAMEWORK_MEGATRON},
    {.model = "llama-3.1-8b", .hardware = "dgx-h100", .gpus = 16, .seq = 65536, .frameworks = 1U << FRAMEWORK_MEGATRON},
    {.model = "llama-2-7b", .hardware = "dgx-a100", .gpus = 24, .seq = 49152, .frameworks = 1U << FRAMEWORK_TORCH},
    {.model = "qwen3-8b",
     .hardware = "dgx-h200",
     .network = "roce-400g",
     .gpus = 40,
     .seq = 98304,
     .frameworks = 1U << FRAMEWORK_MEGATRON | 1U << FRAMEWORK_DEEPSPEED},
    {.model = "mixtral-8x7b", .hardware = "dgx-h200", .gpus = 8, .seq = 49152, .frameworks = 1U << FRAMEWORK_MEGATRON},
    {.model = "llama-3.1-8b", .hardware = "dgx-h100", .gpus = 4, .seq = 24576, .objective = PLAN_MEMORY},
    {.model = "llama-3.1-8b",
     .hardware = "dgx-h100",
     .gpus = 16,
     .seq = 49152,
     .objective = PLAN_COST,
     .set = "gpu.price=3/h",
     .frameworks = 1U << FRAMEWORK_MEGATRON},
    {.model = "qwen3-8b", .hardware = "dgx-h100", .gpus = 24, .seq = 49152, .objective = PLAN_GPUS},
    {.model = "llama-2-7b", .hardware = "dgx-h100", .gpus = 6, .seq = 98304, .headroom_frac = 0.07},
    {.model = "llama-2-7b",
     .hardware = "h100-pcie-4",
     .network = "eth-100g",
     .gpus = 4,
     .seq = 12288,
     .min_mfu_frac = 0.25,
     .frameworks = 1U << FRAMEWORK_MEGATRON | 1U << FRAMEWORK_TORCH},
    {.model = "llama-3.1-70b", .hardware = "gb200-nvl72", .gpus = 72, .seq = 393216},
};

static void ask(const struct asked *asked, struct sp_arena *arena, struct plan_question *question)
{
    plan_question_init(question, arena);
    question->request.model = asked->model;
    question->request.hardware = asked->hardware;
    question->request.network = asked->network;
    question->request.gpus = (struct sp_option_count){.is_given = true, .value = asked->gpus};
    question->request.seq = (struct sp_option_count){.is_given = true, .value = asked->seq};
    question->axes.frameworks = asked->frameworks;
    question->objective = asked->objective;
    question->min_mfu_frac = asked->min_mfu_frac;
    question->headroom_frac = asked->headroom_frac;
    question->n_threads = 1;
    if (asked->set != NULL) {
        sp_texts_add(&question->request.set, "%s", asked->set);
    }
}

/* The hardware as it stands. */
static struct hardware_spec machine_of(const struct plan_question *question, const struct plan *plan,
                                       struct sp_arena *arena)
{
    struct question resolved;
    struct estimate estimate;
    struct sp_error err = {0};
    assert_true(plan_answer(question, &plan->layouts[0], arena, &resolved, &estimate, &err));
    return resolved.hardware;
}

/* A plan with the figure scaled by --set; its winner, or false where it has none. */
static bool plan_with(const struct asked *asked, const struct hardware_spec *machine, enum sensitivity_figure figure,
                      double factor, struct plan_layout *winner)
{
    struct sp_arena *arena = sp_arena_open();
    struct plan_question question;
    struct plan plan;
    struct sp_error err = {0};
    ask(asked, arena, &question);
    question.effort = PLAN_RANKED;
    sensitivity_set(&question.request, machine, figure, factor);
    if (!plan_search(&question, arena, &plan, &err)) {
        fail_msg("%s", err.text);
    }
    bool has_winner = plan.n_layouts > 0;
    if (has_winner) {
        *winner = plan.layouts[0];
    }
    sp_arena_close(arena);
    return has_winner;
}

static void check_at(const struct asked *asked, const struct hardware_spec *machine, enum sensitivity_figure figure,
                     double factor, const struct plan_layout *expected)
{
    struct plan_layout winner;
    bool has_winner = plan_with(asked, machine, figure, factor, &winner);
    bool is_right = has_winner == (expected != NULL) && (expected == NULL || winner.index == expected->index);
    if (!is_right) {
        fail_msg("%s, %s, %lld GPUs, %lld tokens, %s x %.6f: %s", asked->model, asked->hardware, (long long)asked->gpus,
                 (long long)asked->seq, sensitivity_names[figure], factor,
                 !has_winner ? "nothing fits" : "another layout wins");
    }
}

static const struct plan_layout *kept_at(const struct sensitivity *sensitivity, int winner)
{
    return winner < 0 ? NULL : &sensitivity->kept[winner];
}

static int check_side(const struct asked *asked, const struct hardware_spec *machine,
                      const struct sensitivity *sensitivity, enum sensitivity_figure figure, bool is_above)
{
    static const double most = 16;
    static const double step = 1.0015; /* crossings are told to three digits */
    const struct sensitivity_row *row = &sensitivity->rows[figure];
    const struct sensitivity_crossing *crossing = is_above ? &row->above : &row->below;
    const struct plan_layout *today = kept_at(sensitivity, sensitivity->winner);
    assert_false(crossing->is_bound);
    if (!crossing->is_found) {
        check_at(asked, machine, figure, is_above ? most : 1 / most, today);
        return 0;
    }
    check_at(asked, machine, figure, is_above ? crossing->factor / step : crossing->factor * step, today);
    check_at(asked, machine, figure, crossing->factor, kept_at(sensitivity, crossing->winner));
    check_at(asked, machine, figure, sqrt(crossing->factor), today);
    assert_int_not_equal(crossing->winner, sensitivity->winner);
    return 1;
}

static int check_case(const struct asked *asked)
{
    struct sp_arena *arena = sp_arena_open();
    struct plan_question question;
    struct plan plan;
    struct sensitivity sensitivity;
    struct sp_error err = {0};
    ask(asked, arena, &question);
    if (!plan_search(&question, arena, &plan, &err) || plan.n_layouts == 0) {
        fail_msg("%s, %lld GPUs: %s", asked->model, (long long)asked->gpus, err.text);
    }
    assert_true(sensitivity_of_plan(&question, &plan, arena, &sensitivity, &err));
    assert_int_equal(kept_at(&sensitivity, sensitivity.winner)->index, plan.layouts[0].index);
    const struct hardware_spec machine = machine_of(&question, &plan, arena);
    int n_found = 0;
    for (int f = 0; f < N_SENSITIVITIES; f++) {
        enum sensitivity_figure figure = (enum sensitivity_figure)f;
        const struct sensitivity_row *row = &sensitivity.rows[f];
        n_found += check_side(asked, &machine, &sensitivity, figure, true);
        n_found += check_side(asked, &machine, &sensitivity, figure, false);
        check_at(asked, &machine, figure, 1 + sensitivity_change_frac, kept_at(&sensitivity, row->up.winner));
        check_at(asked, &machine, figure, 1 - sensitivity_change_frac, kept_at(&sensitivity, row->down.winner));
    }
    sp_arena_close(arena);
    return n_found;
}

static void plans_on_both_sides_of_a_crossing_differ(void **state)
{
    (void)state;
    int n_found = 0;
    int n_checked = 0;
    for (size_t i = 0; i < SP_COUNT_OF(cases); i += EVERY) {
        n_found += check_case(&cases[i]);
        n_checked++;
    }
    assert_true(n_found > 6 * n_checked);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(plans_on_both_sides_of_a_crossing_differ)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
