/* The pricer of many layouts agrees with the estimate of each: random layouts of random questions have the same step time
 * and peak, bit for bit, whatever was priced before them, and no bound lies above a figure. */
#include "support/questions.h"
#include "support/support.h"

#include <string.h>

enum { QUESTIONS = 40, RANKS = 60, SHARDS = 6, PIPELINES = 6 };

static uint64_t state = 0xB0DE;

static int64_t below(int64_t n)
{
    return (int64_t)(next_random(&state) % (uint64_t)n);
}

static void pick_question(struct sp_arena *arena, struct question *question)
{
    static const char *const models[] = {"llama-3.1-8b", "qwen3-8b", "mixtral-8x7b", "gpt-oss-20b", "deepseek-v3"};
    static const char *const frameworks[] = {"megatron", "torch", "deepspeed", "ideal"};
    static const char *const machines[] = {"dgx-h100", "gb200-nvl72", "dgx-a100"};
    static const char *const extras[] = {"", " train=lora:8", " set=run.loss=chunked", " mask=full", " documents=4K"};
    char settings[256];
    (void)snprintf(settings, sizeof(settings), "model=%s hardware=%s gpus=96 seq=%d framework=%s batch=96%s",
                   models[below(5)], machines[below(3)], below(2) == 0 ? 36864 : 294912, frameworks[below(4)],
                   extras[below(5)]);
    question_from(arena, settings, question);
    question->run.global_batch = below(2) == 0 ? 12 : 96; /* fewer than ranks: legal for other degrees */
}

/* Degrees, method, micro-batch and placement; true when they are legal with everything else at its plainest. */
static bool pick_rank(struct question *question)
{
    static const int64_t tps[] = {1, 2, 4, 8};
    static const int64_t sps[] = {1, 2, 3, 4, 6, 8, 12};
    static const int64_t pps[] = {1, 2, 3, 4, 6};
    static const int64_t eps[] = {1, 2, 4, 8};
    struct layout_spec *layout = &question->layout;
    layout->tp = tps[below(4)];
    layout->sp = sps[below(7)];
    layout->pp = pps[below(5)];
    if (question->run.gpus % (layout->tp * layout->sp * layout->pp) != 0) {
        return false;
    }
    layout->dp = question->run.gpus / layout->tp / layout->sp / layout->pp;
    layout->ep = question->model.n_experts > 0 ? eps[below(4)] : 1;
    layout->etp = 1;
    layout->micro_batch = 1 + below(3);
    layout->method =
        layout->sp == 1 ? METHOD_NONE : (enum method_id)(METHOD_ALLGATHER + below(N_METHODS - METHOD_ALLGATHER));
    layout->sp_ulysses = layout->method == METHOD_ULYSSES ? layout->sp
                         : layout->method == METHOD_USP   ? 1 + below(2)
                                                          : 1;
    layout->sp_inner = layout->method == METHOD_DOUBLE_RING ? 1 + below(3) : 1;
    layout->has_tp_sp = layout->tp > 1;
    for (int i = N_AXES - 1; i > 0; i--) {
        int j = (int)below(i + 1);
        enum axis other = layout->order[i];
        layout->order[i] = layout->order[j];
        layout->order[j] = other;
    }
    return true;
}

static void pick_sharding(struct layout_spec *layout)
{
    layout->zero = (int)below(4);
    layout->offloads_activations = below(3) == 0;
    layout->offloads_optimizer = below(3) == 0;
    layout->offloads_parameters = layout->zero == 3 && below(3) == 0;
}

static void pick_pipeline(const struct model_spec *model, struct layout_spec *layout)
{
    layout->schedule = (enum schedule_id)below(N_SCHEDULES);
    layout->vpp = layout->schedule == SCHEDULE_INTERLEAVED ? 2 + below(2) : layout->schedule == SCHEDULE_ZBV ? 2 : 1;
    layout->pp_layers = model->n_layers % (layout->pp * layout->vpp) == 0 ? PP_LAYERS_EVEN : PP_LAYERS_AUTO;
    layout->recompute = (enum recompute_kind)below(RECOMPUTE_BLOCK + 1);
    layout->recompute_layers = layout->recompute == RECOMPUTE_BLOCK ? 1 + below(9) : 0;
}

static bool is_legal(struct sp_arena *arena, const struct question *question)
{
    struct sp_arena_mark mark = sp_arena_mark(arena);
    struct question *copy = sp_arena_alloc(arena, sizeof(*copy));
    struct sp_error err = {0};
    *copy = *question;
    copy->warnings = (struct sp_texts){.arena = arena};
    bool holds = step_check(copy, &err);
    sp_arena_rewind(arena, mark);
    return holds;
}

static void plain(struct layout_spec *layout)
{
    layout->schedule = SCHEDULE_1F1B;
    layout->vpp = 1;
    layout->recompute = RECOMPUTE_NONE;
    layout->recompute_layers = 0;
    layout->zero = 1;
    layout->offloads_activations = layout->offloads_optimizer = layout->offloads_parameters = false;
}

static void compare_one(struct step_pricer *pricer, const struct question *question, int place)
{
    struct estimate *estimate = test_malloc(sizeof(*estimate));
    struct step_bound bound = step_pricer_rank_bound(pricer);
    step_estimate(question, estimate);
    struct step_memory memory = step_pricer_memory(pricer, &question->layout);
    double time_s = step_pricer_time(pricer, place);
    assert_close(memory.peak_bytes, estimate->peak_bytes, 0);
    assert_close(time_s, estimate->step_time_s, 0);
    assert_close(memory.host_bytes, estimate->host_bytes, 0);
    assert_true(bound.step_time_s <= time_s);
    assert_true(bound.peak_bytes <= memory.peak_bytes);
    assert_true(step_pricer_place_bound(pricer, place) <= time_s);
    assert_true(step_pricer_shard_bound(pricer) <= memory.peak_bytes);
    assert_true(step_pricer_place_bound(pricer, place) >= 0.999 * bound.step_time_s);
    test_free(estimate);
}

/* Returns how many layouts were compared. */
static int compare_rank(struct sp_arena *arena, struct step_pricer *pricer, struct question *question)
{
    int compared = 0;
    plain(&question->layout);
    if (!pick_rank(question)) {
        return 0;
    }
    question->layout.pp_layers = PP_LAYERS_AUTO;
    if (!is_legal(arena, question)) {
        return 0;
    }
    const struct layout_spec rank = question->layout;
    step_pricer_rank(pricer, &rank);
    (void)step_pricer_place(pricer, (const enum axis[]){AXIS_PP, AXIS_DP, AXIS_TP, AXIS_EP, AXIS_CP});
    int place = step_pricer_place(pricer, rank.order);
    for (int s = 0; s < SHARDS; s++) {
        pick_sharding(&question->layout);
        step_pricer_shard(pricer, &question->layout);
        for (int p = 0; p < PIPELINES; p++) {
            pick_pipeline(&question->model, &question->layout);
            if (is_legal(arena, question)) {
                compare_one(pricer, question, place);
                compared++;
            }
        }
    }
    return compared;
}

static void pricer_agrees_with_the_estimate(void **unused)
{
    (void)unused;
    int compared = 0;
    for (int q = 0; q < QUESTIONS; q++) {
        struct sp_arena *arena = sp_arena_open();
        struct question question;
        pick_question(arena, &question);
        struct step_pricer *pricer = step_pricer_open(arena);
        step_pricer_base(pricer, &question);
        for (int r = 0; r < RANKS; r++) {
            compared += compare_rank(arena, pricer, &question);
        }
        sp_arena_close(arena);
    }
    print_message("# %d layouts\n", compared);
    assert_true(compared > 2000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(pricer_agrees_with_the_estimate)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
