/* Many layouts from shared sums: what each axis of a layout decides is priced when that axis changes (docs/search.md). */
#include "step/step_internal.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* Recomputations that price layers alike: block repeats what full does, in fewer layers. */
enum repeat { REPEAT_NONE, REPEAT_SELECTIVE, REPEAT_FULL, N_REPEATS };
/* Places of embedding and head: schedules that share one have the same stages. */
enum fold { FOLD_PLAIN, FOLD_ZBV, FOLD_DUALPIPE, N_FOLDS };

/* What places of the same groups share: layers without sharding. */
struct place_key {
    int64_t micro_batch;
    int64_t nodes[6], ranks_per_node[6];
};
struct place_sums {
    struct place_key key;
    struct operator_sum forward[MAX_LAYER_KINDS], backward[MAX_LAYER_KINDS], repeated[MAX_LAYER_KINDS][N_REPEATS];
    struct memory_sums memory[2]; /* by whether recomputation is selective */
    struct end_sums ends;         /* without sharding */
};
enum { MAX_PLACED = 128 };

/* Stages of one pp and fold. */
struct stages {
    int64_t pp; /* 0: not filled */
    int n;
    struct stage_class *classes;
};
enum { MAX_STAGES = 64 }; /* pps that are kept, per fold */

struct step_pricer {
    struct sp_arena *arena;
    struct question question; /* its layout is the one at work */
    struct step_shape shape;
    struct layer_operators layer;   /* scratch */
    struct end_operators end_lists; /* scratch */
    struct operator_list optimizer; /* scratch */
    struct stages stages[N_FOLDS][MAX_STAGES];
    const struct stages *folds[N_FOLDS]; /* of the pp at work; NULL: not looked up */
    struct stage_sums *stage_sums[N_FOLDS];
    int capacity[N_FOLDS]; /* of stage_sums */
    struct stage_class scratch[MAX_STAGE_CLASSES];
    /* places of the degrees and method at work */
    int n_placed;
    struct place_sums placed[MAX_PLACED];
    const struct place_sums *place;
    struct step_bound bound;
    double stage_bound_s; /* of the slowest stage, both ways */
    double hop_s;
    /* sharding at work */
    bool is_folded[N_FOLDS]; /* stage_sums of the fold are filled */
    bool has_optimizer[N_FOLDS];
    double optimizer_s[N_FOLDS];
    bool has_kinds[N_REPEATS];
    struct kind_sums kinds[N_REPEATS][MAX_LAYER_KINDS];
    bool has_sharded_ends;
    struct end_sums sharded_ends;
    enum fold fold;
    enum repeat repeat;
};

struct step_pricer *step_pricer_open(struct sp_arena *arena)
{
    struct step_pricer *pricer = sp_arena_alloc(arena, sizeof(*pricer));
    pricer->arena = arena;
    return pricer;
}

void step_pricer_base(struct step_pricer *pricer, const struct question *question)
{
    pricer->question = *question;
    pricer->n_placed = 0;
    pricer->place = NULL;
    memset(pricer->stages, 0, sizeof(pricer->stages)); /* another model has other stages */
}

static enum fold fold_of(enum schedule_id schedule)
{
    return schedule == SCHEDULE_ZBV ? FOLD_ZBV : schedule == SCHEDULE_DUALPIPE ? FOLD_DUALPIPE : FOLD_PLAIN;
}

static enum repeat repeat_of(enum recompute_kind recompute)
{
    return recompute == RECOMPUTE_NONE        ? REPEAT_NONE
           : recompute == RECOMPUTE_SELECTIVE ? REPEAT_SELECTIVE
                                              : REPEAT_FULL;
}

/* ---- stages ------------------------------------------------------------------------------------------------------ */

static void fill_stages(struct step_pricer *pricer, struct stages *stages)
{
    int n = stage_classes(&pricer->question, pricer->scratch);
    if (n > stages->n || stages->classes == NULL) {
        stages->classes = sp_arena_array(pricer->arena, (size_t)n, sizeof(*stages->classes));
    }
    memcpy(stages->classes, pricer->scratch, (size_t)n * sizeof(*stages->classes));
    stages->n = n;
    stages->pp = pricer->question.layout.pp;
}

/* The stages of the schedule in the layout at work, and room for their sums. */
static void use_stages(struct step_pricer *pricer, enum fold fold)
{
    if (pricer->folds[fold] == NULL) {
        struct stages *all = pricer->stages[fold];
        int i = 0;
        while (i < MAX_STAGES - 1 && all[i].pp != 0 && all[i].pp != pricer->question.layout.pp) {
            i++;
        }
        if (all[i].pp != pricer->question.layout.pp) {
            fill_stages(pricer, &all[i]);
        }
        pricer->folds[fold] = &all[i];
        if (all[i].n > pricer->capacity[fold]) {
            pricer->stage_sums[fold] =
                sp_arena_array(pricer->arena, (size_t)all[i].n, sizeof(*pricer->stage_sums[fold]));
            pricer->capacity[fold] = all[i].n;
        }
    }
    pricer->shape.classes = pricer->folds[fold]->classes;
    pricer->shape.n_classes = pricer->folds[fold]->n;
}

/* ---- places ------------------------------------------------------------------------------------------------------ */

static struct place_key key_of(const struct step_pricer *pricer)
{
    const struct step_shape *shape = &pricer->shape;
    const struct attention_problem *attention = &shape->kinds[0].attention;
    const struct group_placement *const groups[] = {&shape->tp_group, &attention->group,       &attention->inner_group,
                                                    &shape->ep_group, &attention->outer_group, &shape->etp_group};
    struct place_key key = {.micro_batch = pricer->question.layout.micro_batch};
    for (size_t i = 0; i < SP_COUNT_OF(groups); i++) {
        key.nodes[i] = groups[i]->nodes;
        key.ranks_per_node[i] = groups[i]->ranks_per_node;
    }
    return key;
}

static void price_place(struct step_pricer *pricer, struct place_sums *sums)
{
    struct step_shape *shape = &pricer->shape;
    struct layout_spec *layout = &pricer->question.layout;
    struct layer_operators *layer = &pricer->layer;
    for (int k = 0; k < shape->n_kinds; k++) {
        layout->recompute = RECOMPUTE_FULL;
        price_layer_base(shape, k, layer);
        sums->forward[k] = layer->forward.sum;
        sums->backward[k] = layer->backward.sum;
        sums->repeated[k][REPEAT_FULL] = layer->reforward.sum;
        layout->recompute = RECOMPUTE_SELECTIVE;
        price_layer_repeats(shape, k, layer);
        sums->repeated[k][REPEAT_SELECTIVE] = layer->reforward.sum;
        sums->repeated[k][REPEAT_NONE] = (struct operator_sum){0};
    }
    sum_memory(shape, &sums->memory[1]);
    layout->recompute = RECOMPUTE_NONE;
    sum_memory(shape, &sums->memory[0]);
    layout->zero = 0;
    price_ends(shape, &pricer->end_lists);
    sum_ends(&pricer->end_lists, &sums->ends);
}

static const struct place_sums *find_place(struct step_pricer *pricer)
{
    struct place_key key = key_of(pricer);
    for (int i = 0; i < pricer->n_placed; i++) {
        if (memcmp(&pricer->placed[i].key, &key, sizeof(key)) == 0) {
            return &pricer->placed[i];
        }
    }
    int at = pricer->n_placed < MAX_PLACED ? pricer->n_placed++ : MAX_PLACED - 1;
    price_place(pricer, &pricer->placed[at]);
    pricer->placed[at].key = key;
    return &pricer->placed[at];
}

/* Places share sums as long as the degrees that shape a rank, and the method, stay. */
static bool is_same_rank(const struct layout_spec *a, const struct layout_spec *b)
{
    return a->method == b->method && a->tp == b->tp && a->sp == b->sp && a->sp_ulysses == b->sp_ulysses &&
           a->sp_inner == b->sp_inner && a->ep == b->ep && a->etp == b->etp && a->has_tp_sp == b->has_tp_sp &&
           a->precision == b->precision && a->kernels == b->kernels && a->attention == b->attention;
}

static void forget_sharding(struct step_pricer *pricer)
{
    memset(pricer->is_folded, 0, sizeof(pricer->is_folded));
    memset(pricer->has_optimizer, 0, sizeof(pricer->has_optimizer));
    memset(pricer->has_kinds, 0, sizeof(pricer->has_kinds));
}

static void find_bound(struct step_pricer *pricer);

void step_pricer_place(struct step_pricer *pricer, const struct layout_spec *layout)
{
    bool is_same = pricer->place != NULL && is_same_rank(&pricer->question.layout, layout);
    pricer->n_placed = is_same ? pricer->n_placed : 0;
    memset(pricer->folds, 0, sizeof(pricer->folds));
    pricer->question.layout = *layout;
    pricer->question.layout.schedule = SCHEDULE_1F1B;
    pricer->question.layout.vpp = 1;
    pricer->question.layout.recompute = RECOMPUTE_NONE;
    pricer->question.layout.zero = 0;
    pricer->question.layout.offloads_activations = pricer->question.layout.offloads_optimizer = false;
    pricer->question.layout.offloads_parameters = false;
    step_shape_init(&pricer->shape, &pricer->question);
    use_stages(pricer, FOLD_PLAIN);
    pricer->place = find_place(pricer);
    pricer->hop_s = pipeline_hop_time(&pricer->shape);
    pricer->has_sharded_ends = false;
    forget_sharding(pricer);
    find_bound(pricer);
}

/* ---- sharding ---------------------------------------------------------------------------------------------------- */

void step_pricer_shard(struct step_pricer *pricer, const struct layout_spec *layout)
{
    struct layout_spec *own = &pricer->question.layout;
    own->zero = layout->zero;
    own->offloads_activations = layout->offloads_activations;
    own->offloads_optimizer = layout->offloads_optimizer;
    own->offloads_parameters = layout->offloads_parameters;
    own->schedule = SCHEDULE_1F1B;
    forget_sharding(pricer);
}

/* One kind of layer, its base sums taken up. */
static void price_kind(struct step_pricer *pricer, int kind, enum repeat repeat, struct kind_sums *sums)
{
    struct layer_operators *layer = &pricer->layer;
    operator_list_begin(&layer->forward, &pricer->place->forward[kind]);
    operator_list_begin(&layer->backward, &pricer->place->backward[kind]);
    operator_list_begin(&layer->reforward, &pricer->place->repeated[kind][repeat]);
    price_layer_rest(&pricer->shape, kind, layer);
    sum_layer(layer, sums);
}

static void use_kinds(struct step_pricer *pricer, enum repeat repeat)
{
    if (pricer->has_kinds[repeat]) {
        return;
    }
    for (int k = 0; k < pricer->shape.n_kinds; k++) {
        price_kind(pricer, k, repeat, &pricer->kinds[repeat][k]);
    }
    pricer->has_kinds[repeat] = true;
}

/* ZeRO 3 gathers tables before their use. */
static const struct end_sums *use_ends(struct step_pricer *pricer)
{
    if (pricer->question.layout.zero < 3) {
        return &pricer->place->ends;
    }
    if (!pricer->has_sharded_ends) {
        price_ends(&pricer->shape, &pricer->end_lists);
        sum_ends(&pricer->end_lists, &pricer->sharded_ends);
        pricer->has_sharded_ends = true;
    }
    return &pricer->sharded_ends;
}

static void use_fold(struct step_pricer *pricer, enum fold fold)
{
    use_stages(pricer, fold);
    if (pricer->is_folded[fold]) {
        return;
    }
    for (int i = 0; i < pricer->shape.n_classes; i++) {
        if (pricer->shape.classes[i].can_be_worst) {
            sum_stage(&pricer->shape, &pricer->shape.classes[i], &pricer->stage_sums[fold][i]);
        }
    }
    pricer->is_folded[fold] = true;
}

static double use_optimizer(struct step_pricer *pricer, enum fold fold)
{
    if (!pricer->has_optimizer[fold]) {
        price_optimizer(&pricer->shape, &pricer->optimizer);
        pricer->optimizer_s[fold] = pricer->optimizer.sum.time_s;
        pricer->has_optimizer[fold] = true;
    }
    return pricer->optimizer_s[fold];
}

/* ---- figures ----------------------------------------------------------------------------------------------------- */

struct step_memory step_pricer_memory(struct step_pricer *pricer, const struct layout_spec *layout)
{
    struct layout_spec *own = &pricer->question.layout;
    own->schedule = layout->schedule;
    own->vpp = layout->vpp;
    own->pp_layers = layout->pp_layers;
    own->recompute = layout->recompute;
    own->recompute_layers = layout->recompute_layers;
    pricer->fold = fold_of(layout->schedule);
    pricer->repeat = repeat_of(layout->recompute);
    use_fold(pricer, pricer->fold);
    const struct memory_sums *memory = &pricer->place->memory[pricer->repeat == REPEAT_SELECTIVE];
    double allocated = 0;
    for (int i = 0; i < pricer->shape.n_classes; i++) {
        const struct stage_class *stage = &pricer->shape.classes[i];
        if (stage->can_be_worst) {
            allocated =
                fmax(allocated, stage_peak(&pricer->shape, memory, &pricer->stage_sums[pricer->fold][i], stage));
        }
    }
    bool offloads = own->offloads_activations || own->offloads_optimizer || own->offloads_parameters;
    return (struct step_memory){.peak_bytes = allocated + runtime_bytes(&pricer->shape, allocated),
                                .host_bytes = offloads ? host_bytes(&pricer->shape, memory) : 0};
}

double step_pricer_time(struct step_pricer *pricer)
{
    use_kinds(pricer, pricer->repeat);
    struct step_sums sums = {
        .ends = *use_ends(pricer), .optimizer_s = use_optimizer(pricer, pricer->fold), .hop_s = pricer->hop_s};
    memcpy(sums.kinds, pricer->kinds[pricer->repeat], (size_t)pricer->shape.n_kinds * sizeof(sums.kinds[0]));
    struct step_time step;
    compose_time(&pricer->shape, &sums, &step);
    return step.step_s;
}

/* ---- bounds (docs/search.md) -------------------------------------------------------------------------------------- */

/* Sums are rounded: a bound that is equal in exact arithmetic must not come out above. */
static const double ROUNDING = 1 - 1e-12;

/* No recomputation, no sharding, no offload, no bubble: the busiest stage by its layers alone, or the mean stage with the
 * ends, whichever is more; micro-batches and hops that every schedule has. */
static double time_bound(struct step_pricer *pricer)
{
    const struct step_shape *shape = &pricer->shape;
    double most = 0;
    double all = pricer->place->ends.embedding.forward_s + pricer->place->ends.embedding.backward_s +
                 pricer->place->ends.head.forward_s + pricer->place->ends.head.backward_s;
    for (int i = 0; i < shape->n_classes; i++) {
        double counts[MAX_LAYER_KINDS];
        double stage_s = 0;
        class_kinds(shape, &shape->classes[i], shape->classes[i].layers, counts);
        for (int k = 0; k < shape->n_kinds; k++) {
            const struct kind_sums *kind = &pricer->kinds[REPEAT_NONE][k];
            stage_s += counts[k] * (kind->forward_s + kind->backward_s);
        }
        most = fmax(most, stage_s);
        all += (double)shape->classes[i].count * stage_s;
    }
    double pp = (double)pricer->question.layout.pp;
    double m = (double)shape->micro_batches;
    pricer->stage_bound_s = fmax(most, all / pp);
    return ROUNDING * (m * pricer->stage_bound_s + (pp > 1 ? 2 * (pp + m - 2) * pricer->hop_s : 0));
}

/* A layer of the first stage at work with what it keeps itself, in the cheapest way. */
static double layer_bound(const struct step_pricer *pricer)
{
    const struct stage_class *first = &pricer->folds[FOLD_PLAIN]->classes[0];
    double most = 0;
    for (int k = 0; k < pricer->shape.n_kinds; k++) {
        double least = class_last_of_kind(&pricer->shape, first, first->layers, k) > 0 ? INFINITY : 0;
        for (int s = 0; s < 2; s++) {
            const struct memory_sums *memory = &pricer->place->memory[s];
            least = fmin(least, memory->saved[k].total + memory->own_backward[k][0]);
            least = fmin(least, memory->saved[k].checkpoint + memory->own_backward[k][1]);
        }
        most = fmax(most, least);
    }
    return most;
}

static double peak_bound(const struct step_pricer *pricer, double state_bytes)
{
    double allocated = ROUNDING * (state_bytes + layer_bound(pricer));
    return ROUNDING * (allocated + runtime_bytes(&pricer->shape, allocated));
}

static void find_bound(struct step_pricer *pricer)
{
    const struct step_shape *shape = &pricer->shape;
    const struct framework_spec *framework = &pricer->question.software.framework;
    bool is_persistent = framework->has_persistent_gradients || shape->micro_batches > 1;
    struct parameters trained = rank_stage_trained(shape, &shape->classes[0]);
    double gradients = is_persistent ? shape->gradient_size * sharded(shape, trained, true) : 0;
    use_kinds(pricer, REPEAT_NONE);
    pricer->bound = (struct step_bound){time_bound(pricer), peak_bound(pricer, gradients)};
}

struct step_bound step_pricer_bound(const struct step_pricer *pricer)
{
    return pricer->bound;
}

/* The first stage in full: its state is exact. */
struct step_bound step_pricer_shard_bound(const struct step_pricer *pricer)
{
    const struct step_shape *shape = &pricer->shape;
    const struct framework_spec *framework = &pricer->question.software.framework;
    bool is_persistent = framework->has_persistent_gradients || shape->micro_batches > 1;
    struct stage_sums sums;
    sum_stage(shape, &pricer->folds[FOLD_PLAIN]->classes[0], &sums);
    double state = sums.state_bytes + (is_persistent ? sums.gradient_bytes : 0) + sums.workspace_bytes;
    return (struct step_bound){pricer->bound.step_time_s, peak_bound(pricer, state)};
}
