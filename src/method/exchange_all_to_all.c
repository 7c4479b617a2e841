/* All-to-all exchange (Ulysses): heads are traded for tokens, so that every rank attends over the whole sequence with its
 * share of the heads (docs/model.md, eq. 46). Synchronous, tensor by tensor, with pack and unpack copies; or, as the
 * bound, one group of heads travelling while another is computed. */
#include "method/method.h"

#include <math.h>

struct tensors { /* bytes on a rank before the exchange */
    double q, k, v, o;
};

static struct tensors tensors_of(const struct attention_problem *problem)
{
    double q = problem_query_bytes(problem);
    double per_kv_dim = problem_kv_bytes(problem) / (problem->head_dim + problem->value_head_dim);
    return (struct tensors){q, per_kv_dim * problem->head_dim, per_kv_dim * problem->value_head_dim,
                            problem_output_bytes(problem)};
}

static struct attention_call whole_call(const struct attention_problem *problem, bool is_backward)
{
    struct token_layout tokens = problem_tokens(problem);
    struct attention_call call = problem_call(problem, whole_block(&tokens), is_backward);
    call.heads /= (double)problem->ranks;
    call.kv_heads /= (double)problem->ranks;
    return call;
}

static double exchange_time(const struct attention_problem *problem, double bytes)
{
    return collective_time(problem->hardware, &problem->group, COLLECTIVE_ALL_TO_ALL, bytes);
}

/* q, k and v, or their gradients: one after the other, or at once. */
static double triple_time(const struct attention_problem *problem, const struct tensors *t)
{
    if (problem->traits->joins_exchanges) {
        return exchange_time(problem, t->q + t->k + t->v);
    }
    return exchange_time(problem, t->q) + exchange_time(problem, t->k) + exchange_time(problem, t->v);
}

static const double POSITION_BYTES = 8; /* int64 */

/* ALST gathers the position of every token in every layer's forward. */
static double positions_bytes(const struct attention_problem *problem)
{
    return problem->traits->gathers_positions ? POSITION_BYTES * problem->batch * problem->rows * (double)problem->ranks
                                              : 0;
}

static double positions_time(const struct attention_problem *problem)
{
    return collective_time(problem->hardware, &problem->group, COLLECTIVE_ALL_GATHER, positions_bytes(problem));
}

/* Groups of heads that the bound pipelines over: the key-value heads of a rank. */
static int head_groups(const struct attention_problem *problem)
{
    return (int)fmax(problem->kv_heads / (double)problem->ranks, 1);
}

/* Bytes that enter before attention and leave after it: q, k, v and o forward; dO and dq, dk, dv backward. */
static void in_and_out(const struct attention_problem *problem, bool is_backward, double *in, double *out)
{
    struct tensors t = tensors_of(problem);
    *in = is_backward ? t.o : t.q + t.k + t.v;
    *out = is_backward ? t.q + t.k + t.v : t.o;
}

/* Link: in 1, in 2, out 1, in 3, out 2, ..., out n. */
static double pipelined_total(int groups, double in_s, double compute_s, double out_s)
{
    double link = 0;
    double computed = 0;
    for (int i = 0; i < groups; i++) {
        double before = computed;
        link += in_s;
        computed = fmax(computed, link) + compute_s;
        if (i > 0) {
            link = fmax(link, before) + out_s;
        }
    }
    return fmax(link, computed) + out_s;
}

static void price(const struct attention_problem *problem, bool is_backward, struct method_pass *pass)
{
    const struct gpu_spec *gpu = &problem->hardware->gpu;
    const struct method_traits *traits = problem->traits;
    struct tensors t = tensors_of(problem);
    struct attention_call call = whole_call(problem, is_backward);
    double kernel_s = attention_time(gpu, &call);
    double all_bytes = t.q + t.k + t.v + t.o;
    double link_s;
    if (traits->is_overlapped) {
        int groups = head_groups(problem);
        double in;
        double out;
        in_and_out(problem, is_backward, &in, &out);
        double in_s = exchange_time(problem, in / groups);
        double out_s = exchange_time(problem, out / groups);
        link_s = groups * (in_s + out_s);
        pass->total_s = pipelined_total(groups, in_s, kernel_s / groups, out_s);
        pass->transfers[0].messages = traits->messages * groups;
    } else {
        link_s = triple_time(problem, &t) + exchange_time(problem, t.o);
        pass->merge_bytes = traits->copy_passes * all_bytes;
        pass->merge_s = elementwise_time(gpu, pass->merge_bytes, traits->copy_kernels);
        pass->total_s = link_s + pass->merge_s + kernel_s;
        pass->transfers[0].messages = traits->messages;
    }
    double positions_s = is_backward ? 0 : positions_time(problem);
    pass->total_s += positions_s;
    pass->attention_s = kernel_s;
    pass->exposed_s = pass->total_s - kernel_s;
    pass->kernels = 1;
    pass->flop = attention_flop(&call);
    pass->attention_hbm_bytes = attention_hbm_bytes(gpu, &call);
    pass->transfers[0].operation = "all-to-all";
    pass->transfers[0].sent_bytes = collective_sent_bytes(COLLECTIVE_ALL_TO_ALL, problem->ranks, all_bytes);
    pass->transfers[0].link_s = link_s;
    pass->transfers[0].exposed_s = fmax(pass->exposed_s - pass->merge_s - positions_s, 0);
    if (positions_s > 0) {
        double sent = collective_sent_bytes(COLLECTIVE_ALL_GATHER, problem->ranks, positions_bytes(problem));
        pass->transfers[1] = (struct transfer){"all-gather", sent, 1, positions_s, positions_s, TIER_NONE};
    }
}

/* ---- tasks ------------------------------------------------------------------------------------------------------ */

static int add_exchange(struct task_graph *graph, double bytes, enum stream stream, const int *after, int n_after)
{
    struct task task = {
        .kind = TASK_COLLECTIVE, .name = "all_to_all", .stream = stream, .rank = TASK_ALL_RANKS, .share = 1};
    task.operation = COLLECTIVE_ALL_TO_ALL;
    task.bytes = bytes;
    return task_graph_add(graph, &task, after, n_after);
}

static void add_everywhere(struct task_graph *graph, const struct task *task, const int *after, int *added)
{
    for (int64_t r = 0; r < graph->ranks; r++) {
        struct task one = *task;
        one.rank = r;
        int index = task_graph_add(graph, &one, after, after != NULL ? 1 : 0);
        if (added != NULL) {
            added[r] = index;
        }
    }
}

static void emit_synchronous(const struct attention_problem *problem, bool is_backward, struct task_graph *graph)
{
    struct tensors t = tensors_of(problem);
    const double in[3] = {t.q, t.k, t.v};
    struct task kernel = {
        .kind = TASK_ATTENTION, .name = "attention", .share = 1, .attention = whole_call(problem, is_backward)};
    struct task positions = {.kind = TASK_COLLECTIVE,
                             .name = "positions",
                             .rank = TASK_ALL_RANKS,
                             .share = 1,
                             .operation = COLLECTIVE_ALL_GATHER,
                             .bytes = is_backward ? 0 : positions_bytes(problem)};
    task_graph_add(graph, &positions, NULL, 0);
    /* forward: q, k, v in, o out; backward: dO in, dq, dk, dv out */
    for (int phase = 0; phase < 2; phase++) {
        bool is_triple = (phase == 0) != is_backward;
        bool is_joined = is_triple && problem->traits->joins_exchanges;
        for (int i = 0; i < (is_triple && !is_joined ? 3 : 1); i++) {
            double bytes = is_joined ? t.q + t.k + t.v : is_triple ? in[i] : t.o;
            double kernels = problem->traits->copy_kernels / 4 * (is_joined ? 3 : 1); /* a copy a tensor */
            struct task copies = {.kind = TASK_ELEMENTWISE,
                                  .name = "pack and unpack",
                                  .bytes = problem->traits->copy_passes * bytes,
                                  .kernels = kernels};
            add_exchange(graph, bytes, STREAM_COMPUTE, NULL, 0);
            add_everywhere(graph, &copies, NULL, NULL);
        }
        if (phase == 0) {
            add_everywhere(graph, &kernel, NULL, NULL);
        }
    }
}

static void emit_pipelined(const struct attention_problem *problem, bool is_backward, struct task_graph *graph)
{
    int groups = head_groups(problem);
    double in;
    double out;
    in_and_out(problem, is_backward, &in, &out);
    struct task kernel = {.kind = TASK_ATTENTION,
                          .name = "attention",
                          .share = 1.0 / groups,
                          .attention = whole_call(problem, is_backward)};
    size_t n = (size_t)graph->ranks;
    int *before = sp_arena_array(graph->arena, n, sizeof(int));
    int *computed = sp_arena_array(graph->arena, n, sizeof(int));
    for (int i = 0; i < groups; i++) {
        int arrived = add_exchange(graph, in / groups, STREAM_LINK, NULL, 0);
        add_everywhere(graph, &kernel, &arrived, computed);
        if (i > 0) {
            add_exchange(graph, out / groups, STREAM_LINK, before, (int)n);
        }
        for (size_t r = 0; r < n; r++) {
            before[r] = computed[r];
        }
    }
    add_exchange(graph, out / groups, STREAM_LINK, computed, (int)n);
}

static void emit(const struct attention_problem *problem, bool is_backward, struct task_graph *graph)
{
    if (problem->traits->is_overlapped) {
        emit_pipelined(problem, is_backward, graph);
    } else {
        emit_synchronous(problem, is_backward, graph);
    }
}

const struct exchange_ops exchange_all_to_all = {.price = price, .emit = emit};
