/* One attention layer of a question: the problem, its rules, its price and its memory. */
#include "method/method.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>

static const double BF16_BYTES = 2;
static const double FP32_BYTES = 4;

static const struct exchange_ops *const exchanges[N_EXCHANGES] = {
    [EXCHANGE_NONE] = &exchange_local,       [EXCHANGE_SCORES] = &exchange_scores,
    [EXCHANGE_RING] = &exchange_ring,        [EXCHANGE_GATHER] = &exchange_gather,
    [EXCHANGE_ALL_TO_ALL] = &exchange_all_to_all,
};

struct attention_problem method_problem(const struct question *question)
{
    const struct layout_spec *layout = &question->layout;
    const struct model_spec *model = &question->model;
    struct attention_problem problem = {
        .hardware = &question->hardware,
        .curve = gpu_attention_curve(&question->hardware.gpu, layout->attention),
        .traits = method_traits(layout->method, layout->framework),
        .group = layout_placement(layout, &question->hardware, AXIS_CP),
        .ranks = layout->sp,
        .batch = (double)layout->micro_batch,
        .rows = (double)question->run.seq / (double)layout->sp,
        .heads = (double)model->n_heads / (double)layout->tp,
        .kv_heads = fmax((double)model->n_kv_heads / (double)layout->tp, 1),
        .head_dim = (double)model->head_dim,
    };
    assert(problem.traits != NULL);
    if (question->run.expands_kv) {
        problem.kv_heads = problem.heads;
    }
    if (problem.traits->repeats_kv_heads && problem.traits->exchange == EXCHANGE_ALL_TO_ALL) {
        problem.kv_heads = fmax(problem.kv_heads, (double)problem.ranks);
    }
    return problem;
}

double problem_query_bytes(const struct attention_problem *problem)
{
    return BF16_BYTES * problem->batch * problem->rows * problem->heads * problem->head_dim;
}

double problem_kv_bytes(const struct attention_problem *problem)
{
    return 2 * BF16_BYTES * problem->batch * problem->rows * problem->kv_heads * problem->head_dim;
}

struct attention_call problem_call(const struct attention_problem *problem, struct attention_block block, bool is_backward)
{
    return (struct attention_call){.curve = problem->curve, .block = block, .batch = problem->batch, .heads = problem->heads,
                                   .kv_heads = problem->kv_heads, .head_dim = problem->head_dim, .is_backward = is_backward};
}

/* On one rank every exchange but the materialised scores is the plain kernel. */
static const struct exchange_ops *exchange_of(const struct attention_problem *problem)
{
    enum exchange exchange = problem->traits->exchange;
    return exchanges[problem->ranks == 1 && exchange != EXCHANGE_SCORES ? EXCHANGE_NONE : exchange];
}

void method_price(const struct attention_problem *problem, bool is_backward, struct method_pass *pass)
{
    *pass = (struct method_pass){0};
    exchange_of(problem)->price(problem, is_backward, pass);
}

void method_emit(const struct attention_problem *problem, bool is_backward, struct task_graph *graph)
{
    exchange_of(problem)->emit(problem, is_backward, graph);
}

double attention_workspace_bytes(double batch, double query_rows, double heads, double head_dim)
{
    return FP32_BYTES * batch * query_rows * heads * (head_dim + 1);
}

static double buffer_bytes(const struct attention_problem *problem, const struct buffer_traits *buffers)
{
    double p = (double)problem->ranks;
    double q = problem_query_bytes(problem);
    double kv = problem_kv_bytes(problem);
    double sequence = problem->rows * p;
    double scores = problem->batch * problem->heads * sequence * sequence;
    return buffers->q * q + (buffers->kv + buffers->gathered_kv * p) * kv + buffers->step_output * p * q + buffers->score * scores;
}

void method_memory(const struct attention_problem *problem, struct method_memory *memory)
{
    const struct method_traits *traits = problem->traits;
    bool is_alone = problem->ranks == 1 && traits->exchange != EXCHANGE_SCORES;
    struct buffer_traits plain_backward = {.q = 1, .kv = 1}; /* dq, dk, dv */
    struct buffer_traits none = {0};
    double p = (double)problem->ranks;
    double sequence = problem->rows * p;
    memory->forward_buffer_bytes = buffer_bytes(problem, is_alone ? &none : &traits->forward_buffers);
    memory->backward_buffer_bytes = buffer_bytes(problem, is_alone ? &plain_backward : &traits->backward_buffers);
    if (traits->exchange != EXCHANGE_SCORES) {
        /* the same for every split: rows x heads are conserved by an all-to-all */
        memory->backward_buffer_bytes += attention_workspace_bytes(problem->batch, problem->rows, problem->heads, problem->head_dim);
    }
    memory->saved_bytes = is_alone ? 0 : traits->saved_output * problem_query_bytes(problem);
    memory->saved_bytes += traits->saved_score * problem->batch * problem->heads * sequence * sequence;
}

/* ---- rules ------------------------------------------------------------------------------------------------------ */

static bool ulysses_degree_is_legal(int64_t degree, int64_t heads, int64_t kv_heads, bool repeats)
{
    bool kv_fits = kv_heads % degree == 0 || (repeats && degree % kv_heads == 0);
    return heads % degree == 0 && kv_fits;
}

/* "2, 4, 8, 16, 32 (16 and 32 repeat the 8 key-value heads)" */
static const char *legal_degrees(struct sp_arena *arena, int64_t heads, int64_t kv_heads, bool repeats)
{
    char *legal = sp_strdup(arena, "");
    char *repeating = sp_strdup(arena, "");
    for (int64_t p = 2; p <= heads; p++) {
        if (!ulysses_degree_is_legal(p, heads, kv_heads, repeats)) {
            continue;
        }
        legal = sp_format(arena, "%s%s%" PRId64, legal, legal[0] != '\0' ? ", " : "", p);
        if (p > kv_heads) {
            repeating = sp_format(arena, "%s%s%" PRId64, repeating, repeating[0] != '\0' ? ", " : "", p);
        }
    }
    if (legal[0] == '\0') {
        return "1 only";
    }
    if (repeating[0] == '\0') {
        return legal;
    }
    const char *plural = kv_heads == 1 ? "" : "s";
    return sp_format(arena, "%s (%s repeat the %" PRId64 " key-value head%s)", legal, repeating, kv_heads, plural);
}

static bool check_ulysses(struct question *question, const struct method_traits *traits, struct sp_error *err)
{
    const struct layout_spec *layout = &question->layout;
    const struct model_spec *model = &question->model;
    int64_t heads = model->n_heads / layout->tp;
    int64_t kv_heads = model->n_kv_heads > layout->tp ? model->n_kv_heads / layout->tp : 1;
    if (question->run.expands_kv) {
        kv_heads = heads;
    }
    if (heads < 1 || model->n_heads % layout->tp != 0 || ulysses_degree_is_legal(layout->sp, heads, kv_heads, traits->repeats_kv_heads)) {
        return true;
    }
    bool heads_fit = heads % layout->sp == 0;
    const char *per_tp = layout->tp > 1 ? sp_format(question->arena, " of one of %" PRId64 " tp ranks", layout->tp) : "";
    return sp_fail_rule(err, "ulysses_heads", "%s over %" PRId64 " ranks: %" PRId64 " %s heads%s do not divide by %" PRId64 "; legal degrees here: %s",
                        method_names[layout->method], layout->sp, heads_fit ? kv_heads : heads, heads_fit ? "key-value" : "query", per_tp,
                        layout->sp, legal_degrees(question->arena, heads, kv_heads, traits->repeats_kv_heads));
}

bool method_check(struct question *question, struct sp_error *err)
{
    const struct layout_spec *layout = &question->layout;
    if (!pair_is_legal(layout->method, layout->framework)) {
        return true; /* layout_check has said so */
    }
    const struct method_traits *traits = method_traits(layout->method, layout->framework);
    if (traits == NULL) {
        struct sp_texts built = {.arena = question->arena};
        for (int f = 0; f < N_FRAMEWORKS; f++) {
            if (method_is_built(layout->method, (enum framework_id)f)) {
                sp_texts_add(&built, "%s", framework_names[f]);
            }
        }
        const char *instead = built.count > 0 ? sp_join(question->arena, built.items, built.count, ", ") : "none yet; use zigzag";
        return sp_fail_rule(err, "not_built", "method %s of framework %s is legal but not built yet; built for %s: %s",
                            method_names[layout->method], framework_names[layout->framework], method_names[layout->method], instead);
    }
    return traits->exchange != EXCHANGE_ALL_TO_ALL || layout->sp == 1 || check_ulysses(question, traits, err);
}
