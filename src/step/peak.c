/* Peak memory: the maximum over the moments of a step, the layers whose backward runs, and the stages (docs/model.md,
 * eq. 73-79), composed of sums that many layouts share, and the rows of the worst point. */
#include "step/step_internal.h"

#include <assert.h>

/* fmax() and fmin() of numbers, without the calls that NaN asks for. */
static inline double larger(double a, double b)
{
    return a > b ? a : b;
}

static inline double smaller(double a, double b)
{
    return a < b ? a : b;
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

static double own_bytes(const struct step_shape *shape, const struct point *point, enum moment moment)
{
    struct memory_account account = {.rows = NULL};
    account_own(shape, point, moment, &account);
    return memory_account_total(&account);
}

static double sharding_bytes(const struct step_shape *shape, const struct point *point, enum moment moment)
{
    struct memory_account account = {.rows = NULL};
    account_sharding(shape, point, moment, &account);
    return memory_account_total(&account);
}

static void sum_kind(const struct step_shape *shape, int kind, struct memory_sums *sums)
{
    struct point point = {.kind = kind, .saved = sums->saved[kind]};
    for (int r = 0; r < 2; r++) {
        point.is_recomputed = r == 1;
        double backward =
            larger(own_bytes(shape, &point, MOMENT_MLP_BACKWARD), own_bytes(shape, &point, MOMENT_ATTENTION_BACKWARD));
        sums->own_forward[kind][r] = own_bytes(shape, &point, MOMENT_FORWARD);
        sums->own_backward[kind][r] = r == 1 ? larger(backward, own_bytes(shape, &point, MOMENT_RECOMPUTED)) : backward;
    }
}

void sum_memory(const struct step_shape *shape, struct memory_sums *sums)
{
    for (int k = 0; k < shape->n_kinds; k++) {
        sums->saved[k] = kept_layer_bytes(shape, k);
        sums->trained[k] = parameters_sum(rank_layer_trained(shape, k));
        sum_kind(shape, k, sums);
    }
    for (int e = 0; e < 2; e++) {
        struct stage_class stage = {.has_embedding = e == 1, .has_head = true};
        struct point point = {.stage = &stage}; /* what a layer keeps is no part of it */
        sums->own_head_backward[e] = own_bytes(shape, &point, MOMENT_HEAD_BACKWARD);
        sums->own_head[e] = larger(own_bytes(shape, &point, MOMENT_LOSS), sums->own_head_backward[e]);
    }
}

void sum_stage(const struct step_shape *shape, const struct stage_class *stage, struct stage_sums *sums)
{
    struct memory_account state = {.rows = NULL};
    struct memory_account workspaces = {.rows = NULL};
    const struct framework_spec *framework = &shape->question->software.framework;
    struct parameters trained = rank_stage_trained(shape, stage);
    bool has_head = stage->has_head && !(framework->keeps_root_gathered && is_sharded(shape)) &&
                    shape->question->run.lora_rank == 0;
    account_state(shape, stage, 0, &state);
    account_workspaces(shape, stage->has_head, &workspaces);
    sums->state_bytes = memory_account_total(&state);
    sums->gradient_bytes = shape->gradient_size * sharded(shape, trained, shape->question->layout.zero >= 2);
    sums->workspace_bytes = memory_account_total(&workspaces);
    sums->trained = parameters_sum(trained);
    sums->head_trained = has_head ? rank_vocab_parameters(shape) : 0;
    for (int k = 0; k < shape->n_kinds; k++) {
        struct point point = {.stage = stage, .kind = k};
        sums->forward[k] = sharding_bytes(shape, &point, MOMENT_FORWARD);
        sums->head[k] = stage->has_head ? sharding_bytes(shape, &point, MOMENT_LOSS) : 0;
        for (int ends = 0; ends < 4; ends++) {
            point.is_first_backward = ends / 2 == 1;
            point.is_last_backward = ends % 2 == 1;
            sums->backward[k][ends / 2][ends % 2] = sharding_bytes(shape, &point, MOMENT_MLP_BACKWARD);
        }
    }
}

/* ---- composition ------------------------------------------------------------------------------------------------- */

/* A stage under its schedule and recomputation. */
struct stage_problem {
    const struct step_shape *shape;
    const struct memory_sums *memory;
    const struct stage_sums *sums;
    const struct stage_class *stage;
    int64_t recomputed;
    double earlier_bytes;   /* saved by the micro-batches in flight but the one at work */
    bool has_all_gradients; /* some micro-batch has left them */
    bool is_after_forwards; /* no forward is left, but those that are repeated */
};

/* Layers 1..n of one micro-batch; the first recomputed ones of a stage keep their input only. */
static double saved_layers(const struct stage_problem *problem, int64_t layers)
{
    const struct step_shape *shape = problem->shape;
    double all[MAX_LAYER_KINDS];
    double rebuilt[MAX_LAYER_KINDS];
    double bytes = 0;
    class_kinds(shape, problem->stage, layers, all);
    class_kinds(shape, problem->stage, layers < problem->recomputed ? layers : problem->recomputed, rebuilt);
    for (int k = 0; k < shape->n_kinds; k++) {
        const struct saved_layer *saved = &problem->memory->saved[k];
        bytes += rebuilt[k] * saved->checkpoint + (all[k] - rebuilt[k]) * saved->total;
    }
    return bytes;
}

/* A stage at the times at which it holds most. As many micro-batches as it ever holds are there when the first backward begins;
 * while forwards are left, again beside the gradients that it leaves; else one less beside them. */
enum { MAX_TIMES = 2 };
static int problems_of(const struct step_shape *shape, const struct memory_sums *memory, const struct stage_sums *sums,
                       const struct stage_class *stage, struct stage_problem out[MAX_TIMES])
{
    struct stage_problem problem = {.shape = shape, .memory = memory, .sums = sums, .stage = stage};
    double m = (double)shape->micro_batches;
    double in_flight = schedule_in_flight(&shape->question->layout, shape->micro_batches, stage->stage);
    bool is_persistent = shape->question->software.framework.has_persistent_gradients;
    problem.recomputed = class_recomputed_layers(shape, stage);
    double one = saved_layers(&problem, stage->layers);
    problem.earlier_bytes = larger(in_flight - 1, 0) * one;
    problem.has_all_gradients = is_persistent || in_flight < m;
    out[0] = problem;
    if (problem.has_all_gradients || m <= 1) {
        return 1;
    }
    out[1] = problem;
    out[1].earlier_bytes = larger(in_flight - 2, 0) * one;
    out[1].has_all_gradients = out[1].is_after_forwards = true;
    return 2;
}

/* Gradients that exist when backward has come to a layer: all where some micro-batch has left them; else those of the layers after it, and of the head unless it is scattered with the root at the end. */
static double gradient_share(const struct stage_problem *problem, int64_t layer, bool has_head_gradient)
{
    const struct step_shape *shape = problem->shape;
    if (problem->has_all_gradients) {
        return 1;
    }
    double counts[MAX_LAYER_KINDS];
    double before[MAX_LAYER_KINDS];
    double done = 0;
    class_kinds(shape, problem->stage, problem->stage->layers, counts);
    class_kinds(shape, problem->stage, layer, before);
    for (int k = 0; k < shape->n_kinds; k++) {
        done += (counts[k] - before[k]) * problem->memory->trained[k];
    }
    done += has_head_gradient ? problem->sums->head_trained : 0;
    return problem->sums->trained > 0 ? smaller(done / problem->sums->trained, 1) : 0;
}

static double saved_at(const struct stage_problem *problem, int64_t layer, int kind)
{
    double bytes = problem->earlier_bytes + saved_layers(problem, layer);
    if (problem->shape->question->layout
            .offloads_activations) { /* on the GPU: the layer at work and the one on its way */
        const struct saved_layer *saved = &problem->memory->saved[kind];
        bytes = smaller(bytes, 2 * (layer <= problem->recomputed ? saved->checkpoint : saved->total));
    }
    return bytes;
}

static double state_at(const struct stage_problem *problem, double share)
{
    return problem->sums->state_bytes + share * problem->sums->gradient_bytes + problem->sums->workspace_bytes;
}

/* State, workspaces and what is saved, before the moment's own; and the share of the gradients that exist. */
static double common_bytes(const struct stage_problem *problem, int64_t layer, int kind, bool is_head, double *share)
{
    *share = gradient_share(problem, layer, !is_head || loss_has_chunks(problem->shape));
    return state_at(problem, *share) + saved_at(problem, layer, kind);
}

static double layer_peak(const struct stage_problem *problem, int64_t layer, int kind)
{
    const struct memory_sums *memory = problem->memory;
    const struct stage_sums *sums = problem->sums;
    bool is_recomputed = layer <= problem->recomputed;
    bool is_last = layer == problem->stage->layers;
    double share;
    double common = common_bytes(problem, layer, kind, false, &share);
    double peak = problem->is_after_forwards && !is_recomputed
                      ? 0
                      : common + sums->forward[kind] + memory->own_forward[kind][is_recomputed];
    bool has_ends = problem->shape->question->layout.vpp == 1;
    double buffers = sums->backward[kind][is_last && has_ends][layer == 1 && has_ends];
    peak = larger(peak, common + buffers + memory->own_backward[kind][is_recomputed]);
    if (is_last && problem->stage->has_head) {
        double before = common_bytes(problem, layer, kind, true, &share);
        const double *own = problem->is_after_forwards ? memory->own_head_backward : memory->own_head;
        peak = larger(peak, before + sums->head[kind] + own[problem->stage->has_embedding]);
    }
    return is_last ? larger(peak, state_at(problem, 1)) : peak;
}

/* Saved activations fall and finished gradients grow as backward moves towards the input, both linearly for each kind of layer
 * between the last layer and the first that is not recomputed, and between the last recomputed one and the first; the layer before the last
 * is the first that finds another's gradient being scattered, the second layer the last that finds another prefetched (ZeRO 3), and offload
 * keeps two layers. The maximum is at one of these.
 * Returns how many there are. */
enum { N_TOPS = 7, N_BOTTOMS = 3, N_FILLING = 3, MAX_WORK = (N_TOPS + N_BOTTOMS * N_FILLING) * MAX_LAYER_KINDS };
struct layer_at_work {
    int64_t layer;
    int kind;
};
static int tops_of(const struct stage_problem *problem, int64_t tops[N_TOPS])
{
    int64_t layers = problem->stage->layers;
    int64_t recomputed = problem->recomputed;
    bool offloads = problem->shape->question->layout.offloads_activations;
    bool is_second_apart = offloads || is_sharded(problem->shape);
    const int64_t wanted[N_TOPS] = {layers,
                                    layers - 1,
                                    recomputed,
                                    recomputed > 0 ? recomputed + 1 : 0,
                                    offloads ? recomputed + 2 : 0,
                                    is_second_apart ? 2 : 0,
                                    1};
    int n = 0;
    for (int i = 0; i < N_TOPS; i++) {
        bool is_new = wanted[i] >= 1 && wanted[i] <= layers;
        for (int before = 0; before < n; before++) {
            is_new = is_new && tops[before] != wanted[i];
        }
        if (is_new) {
            tops[n++] = wanted[i];
        }
    }
    return n;
}

static int add_work(struct layer_at_work work[MAX_WORK], int n, int64_t layer, int kind)
{
    for (int i = 0; i < n; i++) {
        if (work[i].layer == layer) {
            return n;
        }
    }
    work[n] = (struct layer_at_work){layer, kind};
    return n + 1;
}

/* The first layers of a kind from one on: one, or with offload as many as fill what it keeps on the GPU (two of any kind). */
static int add_first_of_kind(const struct stage_problem *problem, int64_t from, int kind,
                             struct layer_at_work work[MAX_WORK], int n)
{
    const struct step_shape *shape = problem->shape;
    int64_t layer = from;
    for (int i = 0; i < (shape->question->layout.offloads_activations ? N_FILLING : 1); i++) {
        layer = class_first_of_kind(shape, problem->stage, layer, kind);
        if (layer < 1) {
            return n;
        }
        n = add_work(work, n, layer, kind);
        layer++;
    }
    return n;
}

static int layers_at_work(const struct stage_problem *problem, struct layer_at_work work[MAX_WORK])
{
    const struct step_shape *shape = problem->shape;
    const int64_t bottoms[N_BOTTOMS] = {1, problem->recomputed + 1, is_sharded(shape) ? 2 : 1};
    int64_t tops[N_TOPS] = {0};
    int n_tops = tops_of(problem, tops);
    int n = 0;
    for (int i = 0; i < n_tops; i++) {
        for (int k = 0; k < shape->n_kinds; k++) {
            int64_t layer = class_last_of_kind(shape, problem->stage, tops[i], k);
            n = layer >= 1 ? add_work(work, n, layer, k) : n;
        }
    }
    for (int i = 0; shape->n_kinds > 1 && i < N_BOTTOMS; i++) {
        for (int k = 0; k < shape->n_kinds; k++) {
            n = add_first_of_kind(problem, bottoms[i], k, work, n);
        }
    }
    return n;
}

double stage_peak(const struct step_shape *shape, const struct memory_sums *sums, const struct stage_sums *stage_sums,
                  const struct stage_class *stage)
{
    struct stage_problem problems[MAX_TIMES];
    struct layer_at_work work[MAX_WORK];
    int n_problems = problems_of(shape, sums, stage_sums, stage, problems);
    int n = layers_at_work(&problems[0], work);
    double peak = 0;
    for (int i = 0; i < n * n_problems; i++) {
        peak = larger(peak, layer_peak(&problems[i / n], work[i % n].layer, work[i % n].kind));
    }
    return peak;
}

static double outside_bytes(const struct step_shape *shape)
{
    double buffers = shape->question->run.gpus > 1 ? shape->question->software.framework.collective_buffers.value : 0;
    return shape->gpu->context_memory.value + buffers;
}

double step_peak_bytes(const struct question *question, double allocated_bytes)
{
    struct step_shape shape = {.question = question, .gpu = &question->hardware.gpu};
    return allocated_bytes + runtime_bytes(&shape, allocated_bytes);
}

double runtime_bytes(const struct step_shape *shape, double allocated_bytes)
{
    return outside_bytes(shape) + allocated_bytes * shape->question->software.framework.allocator_slack.value;
}

/* What the first stage's micro-batches in flight keep, all of it on the host. */
double host_bytes(const struct step_shape *shape, const struct memory_sums *sums)
{
    struct stage_problem problem = {.shape = shape, .memory = sums, .stage = &shape->classes[0]};
    problem.recomputed = class_recomputed_layers(shape, problem.stage);
    double in_flight = schedule_in_flight(&shape->question->layout, shape->micro_batches, 0);
    return offload_host_bytes(shape, in_flight * saved_layers(&problem, shape->classes[0].layers));
}

/* ---- rows of the worst point -------------------------------------------------------------------------------------- */

struct worst {
    double bytes;        /* composed */
    double moment_bytes; /* of the moment that reaches it */
    double saved_bytes, share;
    struct point point;
    enum moment moment;
};

static double moment_total(const struct stage_problem *problem, const struct point *point, enum moment moment,
                           double common)
{
    if (moment == MOMENT_OPTIMIZER) {
        return state_at(problem, 1);
    }
    return common + sharding_bytes(problem->shape, point, moment) + own_bytes(problem->shape, point, moment);
}

static void consider_point(const struct stage_problem *problem, const struct layer_at_work *work,
                           struct estimate *estimate, struct worst *worst)
{
    struct point point = {.stage = problem->stage,
                          .layer = work->layer,
                          .kind = work->kind,
                          .is_last_layer = work->layer == problem->stage->layers,
                          .is_first_backward =
                              work->layer == problem->stage->layers && problem->shape->question->layout.vpp == 1,
                          .is_last_backward = work->layer == 1 && problem->shape->question->layout.vpp == 1,
                          .is_recomputed = work->layer <= problem->recomputed,
                          .saved = problem->memory->saved[work->kind]};
    for (int m = 0; m < N_MOMENTS; m++) {
        enum moment moment = (enum moment)m;
        bool is_past = moment == MOMENT_LOSS || (moment == MOMENT_FORWARD && !point.is_recomputed);
        if (!moment_occurs(moment, &point) || (problem->is_after_forwards && is_past)) {
            continue;
        }
        double share;
        bool is_head = moment == MOMENT_LOSS || moment == MOMENT_HEAD_BACKWARD;
        double common = common_bytes(problem, point.layer, point.kind, is_head, &share);
        double bytes = moment_total(problem, &point, moment, common);
        estimate->moment_bytes[m] = larger(estimate->moment_bytes[m], bytes);
        if (bytes > worst->moment_bytes) {
            bool is_end = moment == MOMENT_OPTIMIZER;
            worst->moment_bytes = bytes;
            worst->point = point;
            worst->moment = moment;
            worst->share = is_end ? 1 : share;
            worst->saved_bytes = is_end ? 0 : saved_at(problem, point.layer, point.kind);
        }
    }
}

static void consider_stage(const struct step_shape *shape, const struct memory_sums *memory,
                           const struct stage_class *stage, struct estimate *estimate, struct worst *worst)
{
    struct stage_sums sums;
    struct layer_at_work work[MAX_WORK];
    sum_stage(shape, stage, &sums);
    struct stage_problem problems[MAX_TIMES];
    int n_problems = problems_of(shape, memory, &sums, stage, problems);
    int n = layers_at_work(&problems[0], work);
    for (int i = 0; i < n * n_problems; i++) {
        consider_point(&problems[i / n], &work[i % n], estimate, worst);
    }
    worst->bytes = larger(worst->bytes, stage_peak(shape, memory, &sums, stage));
}

static void account_worst(const struct step_shape *shape, const struct worst *worst, struct memory_account *account)
{
    assert(worst->point.stage != NULL); /* the first stage can always be worst */
    account_state(shape, worst->point.stage, worst->share, account);
    account_workspaces(shape, worst->point.stage->has_head, account);
    account_add(account, MEMORY_ACTIVATIONS, "saved activations", "micro-batches in flight x layers (eq. 72, 75)",
                worst->saved_bytes);
    account_sharding(shape, &worst->point, worst->moment, account);
    account_own(shape, &worst->point, worst->moment, account);
}

static void account_runtime(const struct step_shape *shape, double allocated, struct memory_account *account)
{
    const struct question *question = shape->question;
    const struct framework_spec *framework = &question->software.framework;
    account_add(account, MEMORY_RUNTIME, "CUDA context", "GPU figure context_memory", shape->gpu->context_memory.value);
    account_add(account, MEMORY_RUNTIME, "NCCL buffers", "framework figure collective_buffers",
                question->run.gpus > 1 ? framework->collective_buffers.value : 0);
    account_add(account, MEMORY_RUNTIME, "allocator slack", "allocated x framework figure allocator_slack",
                allocated * framework->allocator_slack.value);
}

void price_memory(const struct step_shape *shape, struct estimate *estimate)
{
    const struct hardware_spec *hardware = &shape->question->hardware;
    struct memory_sums memory;
    struct worst worst = {.bytes = 0};
    struct memory_account account = {.rows = estimate->tensors};
    sum_memory(shape, &memory);
    for (int i = 0; i < shape->n_classes; i++) {
        if (shape->classes[i].can_be_worst) {
            consider_stage(shape, &memory, &shape->classes[i], estimate, &worst);
        }
    }
    account_worst(shape, &worst, &account);
    account_runtime(shape, worst.bytes, &account);
    estimate->n_tensors = account.n;
    for (int item = 0; item < N_MEMORY_ITEMS; item++) {
        estimate->memory_bytes[item] = account.items[item];
    }
    estimate->peak_stage = worst.point.stage->stage;
    estimate->peak_moment = worst.moment;
    estimate->peak_allocated_bytes = worst.bytes;
    estimate->peak_reserved_bytes = worst.bytes * (1 + shape->question->software.framework.allocator_slack.value);
    estimate->peak_bytes =
        worst.bytes + runtime_bytes(shape, worst.bytes); /* the items add up to it, but for rounding */
    estimate->capacity_bytes = hardware->gpu.hbm_capacity.value;
    estimate->headroom_bytes = estimate->capacity_bytes - estimate->peak_bytes;
    estimate->host_bytes = host_bytes(shape, &memory);
    estimate->host_capacity_bytes = hardware->node.host_memory.value;
    estimate->fits =
        estimate->peak_bytes <= estimate->capacity_bytes && estimate->host_bytes <= estimate->host_capacity_bytes;
}
