/* Many layouts from shared sums: what each axis of a layout decides is priced when that axis changes (docs/search.md). */
#include "step/step_internal.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* Recomputations that price layers alike: block repeats what full does, in fewer layers. */
enum repeat { REPEAT_NONE, REPEAT_SELECTIVE, REPEAT_FULL, N_REPEATS };
/* Places of embedding and head: schedules that share one have the same stages. */
enum fold { FOLD_PLAIN, FOLD_ZBV, FOLD_DUALPIPE, N_FOLDS };

/* What ranks of the same shape share, whatever their placement. */
struct rank_key {
    int64_t micro_batch, ep, etp;
};
struct rank_sums {
    uint64_t era; /* 0: never filled; another than the pricer's: of other degrees */
    struct rank_key key;
    struct memory_sums memory[2];      /* by whether recomputation is selective */
    double compute_s[MAX_LAYER_KINDS]; /* kernels of one layer, both ways: no communication, no recomputation */
    double end_compute_s;
};
/* What places of the same groups share: layers without sharding. */
enum { N_PLACED_GROUPS = 6 };
struct place_key {
    struct rank_key rank;
    int64_t nodes[N_PLACED_GROUPS], ranks_per_node[N_PLACED_GROUPS];
};
struct place_sums {
    uint64_t era;
    struct place_key key;
    struct operator_sum forward[MAX_LAYER_KINDS], backward[MAX_LAYER_KINDS], repeated[MAX_LAYER_KINDS][N_REPEATS];
    struct end_sums ends; /* without sharding */
};
enum { N_RANKS = 256, N_PLACES = 512, MOST_PROBES = 8 };

/* Stages of one pp and fold. */
struct stages {
    int64_t pp; /* 0: not filled */
    int n;
    struct stage_class *classes;
    int n_runs;
    struct stage_run *runs;
};
enum { MAX_STAGES = 64 }; /* pps that are kept, per fold */

/* A placement order of the rank at work, with what its sharding at work costs there. */
struct placed {
    enum axis order[N_AXES];
    struct step_shape shape;
    const struct place_sums *sums;
    double bound_s;
    double hop_s;
    bool has_optimizer[N_FOLDS];
    double optimizer_s[N_FOLDS];
    bool has_kinds[N_REPEATS];
    struct kind_sums kinds[N_REPEATS][MAX_LAYER_KINDS];
    bool has_sharded_ends;
    struct end_sums sharded_ends;
};

struct step_pricer {
    struct sp_arena *arena;
    struct question question;       /* its layout is the one at work */
    struct layer_operators layer;   /* scratch */
    struct end_operators end_lists; /* scratch */
    struct operator_list optimizer; /* scratch */
    struct stages stages[N_FOLDS][MAX_STAGES];
    const struct stages *folds[N_FOLDS]; /* of the pp at work; NULL: not looked up */
    struct stage_sums *stage_sums[N_FOLDS];
    int capacity[N_FOLDS];   /* of stage_sums */
    bool is_folded[N_FOLDS]; /* stage_sums are those of the sharding at work */
    struct stage_class scratch[MAX_STAGE_CLASSES];
    struct stage_run run_scratch[MAX_STAGE_RUNS];
    struct gemm_memo gemms;
    uint64_t era; /* of the degrees at work */
    struct rank_sums ranks[N_RANKS];
    struct place_sums places[N_PLACES];
    /* the rank at work */
    struct step_shape shape; /* in any placement */
    const struct rank_sums *rank;
    struct step_bound bound;
    int n_placed;
    struct placed placed[STEP_PRICER_PLACES];
    /* the schedule and recomputation at work */
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
    memset(&pricer->gemms, 0, sizeof(pricer->gemms)); /* times are of the question's GPU, here at the same address */
    pricer->era++;
    pricer->rank = NULL;
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
    int n_runs = stage_runs(&pricer->question, stages->classes, n, pricer->run_scratch);
    if (n_runs > stages->n_runs || stages->runs == NULL) {
        stages->runs = sp_arena_array(pricer->arena, (size_t)n_runs, sizeof(*stages->runs));
    }
    memcpy(stages->runs, pricer->run_scratch, (size_t)n_runs * sizeof(*stages->runs));
    stages->n_runs = n_runs;
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
}

static void lend_stages(const struct step_pricer *pricer, enum fold fold, struct step_shape *shape)
{
    shape->classes = pricer->folds[fold]->classes;
    shape->n_classes = pricer->folds[fold]->n;
    shape->runs = pricer->folds[fold]->runs;
    shape->n_runs = pricer->folds[fold]->n_runs;
}

/* ---- sums that are kept ------------------------------------------------------------------------------------------- */

enum { HALF_WORD = 32 };
static uint64_t hash_words(const int64_t *words, size_t n)
{
    static const uint64_t basis = 0xcbf29ce484222325U; /* 64-bit FNV-1a, by words */
    static const uint64_t prime = 0x100000001b3U;
    uint64_t hash = basis;
    for (size_t i = 0; i < n; i++) {
        hash = (hash ^ (uint64_t)words[i]) * prime;
        hash ^= hash >> HALF_WORD; /* the product has moved what differs up */
    }
    return hash;
}

static struct rank_key rank_key_of(const struct step_pricer *pricer)
{
    const struct layout_spec *layout = &pricer->question.layout;
    return (struct rank_key){layout->micro_batch, layout->ep, layout->etp};
}

/* Kernels alone: what no placement changes. */
static double compute_time(const struct operator_list *list)
{
    double time_s = 0;
    for (int i = 0; i < list->n; i++) {
        const struct operator_row *row = &list->rows[i];
        bool is_kernel = row->item == TIME_ATTENTION || row->item == TIME_GEMM || row->item == TIME_ELEMENTWISE;
        time_s += is_kernel ? row->count * row->time_s : 0;
    }
    return time_s;
}

static void price_rank(struct step_pricer *pricer, struct rank_sums *sums)
{
    struct step_shape *shape = &pricer->shape;
    struct layout_spec *layout = &pricer->question.layout;
    const struct end_operators *ends = &pricer->end_lists;
    for (int k = 0; k < shape->n_kinds; k++) {
        price_layer_base(shape, k, &pricer->layer);
        sums->compute_s[k] = compute_time(&pricer->layer.forward) + compute_time(&pricer->layer.backward);
    }
    price_ends(shape, &pricer->end_lists);
    sums->end_compute_s = compute_time(&ends->embedding_forward) + compute_time(&ends->embedding_backward) +
                          compute_time(&ends->head_forward) + compute_time(&ends->head_backward);
    sum_memory(shape, &sums->memory[0]);
    layout->recompute = RECOMPUTE_SELECTIVE;
    sum_memory(shape, &sums->memory[1]);
    layout->recompute = RECOMPUTE_NONE;
}

static const struct rank_sums *find_rank(struct step_pricer *pricer)
{
    struct rank_key key = rank_key_of(pricer);
    uint64_t at = hash_words(&key.micro_batch, sizeof(key) / sizeof(int64_t));
    struct rank_sums *rank = NULL;
    for (uint64_t probe = 0; probe < MOST_PROBES; probe++) {
        rank = &pricer->ranks[(at + probe) % N_RANKS];
        if (rank->era != pricer->era) {
            break;
        }
        if (memcmp(&rank->key, &key, sizeof(key)) == 0) {
            return rank;
        }
    }
    price_rank(pricer, rank); /* in an empty one, or the last of a crowd */
    rank->key = key;
    rank->era = pricer->era;
    return rank;
}

static struct place_key place_key_of(const struct step_pricer *pricer, const struct step_shape *shape)
{
    const struct attention_problem *attention = &shape->kinds[0].attention;
    const struct group_placement *const groups[] = {&shape->tp_group, &attention->group,       &attention->inner_group,
                                                    &shape->ep_group, &attention->outer_group, &shape->etp_group};
    struct place_key key = {.rank = rank_key_of(pricer)};
    for (size_t i = 0; i < SP_COUNT_OF(groups); i++) {
        key.nodes[i] = groups[i]->nodes;
        key.ranks_per_node[i] = groups[i]->ranks_per_node;
    }
    return key;
}

static void price_place(struct step_pricer *pricer, const struct step_shape *shape, struct place_sums *sums)
{
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
    layout->recompute = RECOMPUTE_NONE;
    price_ends(shape, &pricer->end_lists);
    sum_ends(&pricer->end_lists, &sums->ends);
}

static const struct place_sums *find_place(struct step_pricer *pricer, const struct step_shape *shape)
{
    struct place_key key = place_key_of(pricer, shape);
    uint64_t at = hash_words(&key.rank.micro_batch, sizeof(key) / sizeof(int64_t));
    struct place_sums *place = NULL;
    for (uint64_t probe = 0; probe < MOST_PROBES; probe++) {
        place = &pricer->places[(at + probe) % N_PLACES];
        if (place->era != pricer->era) {
            break;
        }
        if (memcmp(&place->key, &key, sizeof(key)) == 0) {
            return place;
        }
    }
    price_place(pricer, shape, place);
    place->key = key;
    place->era = pricer->era;
    return place;
}

/* ---- ranks and places --------------------------------------------------------------------------------------------- */

/* Sums are shared as long as the degrees that shape a rank, and the method, stay. */
static bool is_same_rank(const struct layout_spec *a, const struct layout_spec *b)
{
    return a->method == b->method && a->tp == b->tp && a->sp == b->sp && a->sp_ulysses == b->sp_ulysses &&
           a->sp_inner == b->sp_inner && a->has_tp_sp == b->has_tp_sp && a->precision == b->precision &&
           a->kernels == b->kernels && a->attention == b->attention;
}

/* What waits, as the bounds and the base sums take it. */
static void leave_open(struct layout_spec *layout)
{
    layout->schedule = SCHEDULE_1F1B;
    layout->vpp = 1;
    layout->recompute = RECOMPUTE_NONE;
    layout->zero = 0;
    layout->offloads_activations = layout->offloads_optimizer = layout->offloads_parameters = false;
}

static void find_rank_bound(struct step_pricer *pricer);
static void find_place_bound(struct step_pricer *pricer, struct placed *placed);

void step_pricer_rank(struct step_pricer *pricer, const struct layout_spec *layout)
{
    bool is_same = pricer->rank != NULL && is_same_rank(&pricer->question.layout, layout);
    pricer->era += is_same ? 0 : 1;
    pricer->n_placed = 0;
    memset(pricer->folds, 0, sizeof(pricer->folds));
    pricer->question.layout = *layout;
    leave_open(&pricer->question.layout);
    step_shape_init(&pricer->shape, &pricer->question);
    pricer->shape.gemms = &pricer->gemms;
    use_stages(pricer, FOLD_PLAIN);
    lend_stages(pricer, FOLD_PLAIN, &pricer->shape);
    pricer->rank = find_rank(pricer);
    find_rank_bound(pricer);
}

int step_pricer_place(struct step_pricer *pricer, const enum axis order[N_AXES])
{
    assert(pricer->n_placed < STEP_PRICER_PLACES);
    struct placed *placed = &pricer->placed[pricer->n_placed];
    leave_open(&pricer->question.layout);
    memcpy(pricer->question.layout.order, order, sizeof(placed->order));
    memcpy(placed->order, order, sizeof(placed->order));
    step_shape_init(&placed->shape, &pricer->question);
    placed->shape.gemms = &pricer->gemms;
    lend_stages(pricer, FOLD_PLAIN, &placed->shape);
    placed->sums = find_place(pricer, &placed->shape);
    placed->hop_s = pipeline_hop_time(&placed->shape);
    find_place_bound(pricer, placed);
    return pricer->n_placed++;
}

/* ---- sharding ---------------------------------------------------------------------------------------------------- */

static void forget_costs(struct placed *placed)
{
    memset(placed->has_optimizer, 0, sizeof(placed->has_optimizer));
    memset(placed->has_kinds, 0, sizeof(placed->has_kinds));
}

void step_pricer_shard(struct step_pricer *pricer, const struct layout_spec *layout)
{
    struct layout_spec *own = &pricer->question.layout;
    leave_open(own);
    own->zero = layout->zero;
    own->offloads_activations = layout->offloads_activations;
    own->offloads_optimizer = layout->offloads_optimizer;
    own->offloads_parameters = layout->offloads_parameters;
    memset(pricer->is_folded, 0, sizeof(pricer->is_folded));
    for (int i = 0; i < pricer->n_placed; i++) {
        forget_costs(&pricer->placed[i]);
    }
}

/* One kind of layer, its base sums taken up. */
static void price_kind(struct step_pricer *pricer, const struct placed *placed, int kind, struct kind_sums *sums)
{
    struct layer_operators *layer = &pricer->layer;
    operator_list_begin(&layer->forward, &placed->sums->forward[kind]);
    operator_list_begin(&layer->backward, &placed->sums->backward[kind]);
    operator_list_begin(&layer->reforward, &placed->sums->repeated[kind][pricer->repeat]);
    price_layer_rest(&placed->shape, kind, layer);
    sum_layer(layer, sums);
}

static const struct kind_sums *use_kinds(struct step_pricer *pricer, struct placed *placed)
{
    struct kind_sums *kinds = placed->kinds[pricer->repeat];
    const struct layout_spec *layout = &pricer->question.layout;
    /* how much of a layer goes to the host depends on how many are recomputed */
    bool is_shared = !(layout->offloads_activations && pricer->repeat == REPEAT_FULL);
    for (int k = 0; !(is_shared && placed->has_kinds[pricer->repeat]) && k < pricer->shape.n_kinds; k++) {
        price_kind(pricer, placed, k, &kinds[k]);
    }
    placed->has_kinds[pricer->repeat] = true;
    return kinds;
}

/* ZeRO 3 gathers tables before their use, whatever is offloaded. */
static const struct end_sums *use_ends(struct step_pricer *pricer, struct placed *placed)
{
    if (pricer->question.layout.zero < 3) {
        return &placed->sums->ends;
    }
    if (!placed->has_sharded_ends) {
        price_ends(&placed->shape, &pricer->end_lists);
        sum_ends(&pricer->end_lists, &placed->sharded_ends);
        placed->has_sharded_ends = true;
    }
    return &placed->sharded_ends;
}

static double use_optimizer(struct step_pricer *pricer, struct placed *placed)
{
    enum fold fold = pricer->fold;
    if (!placed->has_optimizer[fold]) {
        price_optimizer(&placed->shape, &pricer->optimizer);
        placed->optimizer_s[fold] = pricer->optimizer.sum.time_s;
        placed->has_optimizer[fold] = true;
    }
    return placed->optimizer_s[fold];
}

/* ---- figures ----------------------------------------------------------------------------------------------------- */

static void use_fold(struct step_pricer *pricer, enum fold fold)
{
    use_stages(pricer, fold);
    lend_stages(pricer, fold, &pricer->shape);
    for (int i = 0; !pricer->is_folded[fold] && i < pricer->shape.n_classes; i++) {
        if (pricer->shape.classes[i].can_be_worst) {
            sum_stage(&pricer->shape, &pricer->shape.classes[i], &pricer->stage_sums[fold][i]);
        }
    }
    pricer->is_folded[fold] = true;
}

struct step_memory step_pricer_memory(struct step_pricer *pricer, const struct layout_spec *layout)
{
    struct layout_spec *own = &pricer->question.layout;
    own->schedule = layout->schedule;
    own->vpp = layout->vpp;
    own->recompute = layout->recompute;
    own->recompute_layers = layout->recompute_layers;
    pricer->fold = fold_of(layout->schedule);
    pricer->repeat = repeat_of(layout->recompute);
    use_fold(pricer, pricer->fold);
    const struct memory_sums *memory = &pricer->rank->memory[pricer->repeat == REPEAT_SELECTIVE];
    double allocated = 0;
    for (int i = 0; i < pricer->shape.n_classes; i++) {
        const struct stage_class *stage = &pricer->shape.classes[i];
        if (stage->can_be_worst) {
            double peak = stage_peak(&pricer->shape, memory, &pricer->stage_sums[pricer->fold][i], stage);
            allocated = peak > allocated ? peak : allocated;
        }
    }
    bool offloads = own->offloads_activations || own->offloads_optimizer || own->offloads_parameters;
    return (struct step_memory){.peak_bytes = allocated + runtime_bytes(&pricer->shape, allocated),
                                .host_bytes = offloads ? host_bytes(&pricer->shape, memory) : 0};
}

double step_pricer_time(struct step_pricer *pricer, int place)
{
    struct placed *placed = &pricer->placed[place];
    lend_stages(pricer, pricer->fold, &placed->shape);
    struct step_sums sums = {.ends = *use_ends(pricer, placed), .hop_s = placed->hop_s};
    const struct kind_sums *kinds = use_kinds(pricer, placed);
    sums.optimizer_s = use_optimizer(pricer, placed);
    memcpy(sums.kinds, kinds, (size_t)pricer->shape.n_kinds * sizeof(sums.kinds[0]));
    struct step_time step;
    compose_time(&placed->shape, &sums, &step);
    return step.step_s;
}

/* ---- bounds (docs/search.md) -------------------------------------------------------------------------------------- */

/* Sums are rounded: a bound that is equal in exact arithmetic must not come out above. */
static const double ROUNDING = 1 - 1e-12;

/* Of stages whose layers take at least so long both ways, by kind, and whose ends take ends_s in all: the busiest by its
 * layers alone, or the mean with the ends, whichever is more. */
static double stage_bound(const struct step_pricer *pricer, const double layer_s[MAX_LAYER_KINDS], double ends_s)
{
    const struct stages *stages = pricer->folds[FOLD_PLAIN];
    double most = 0;
    double all = ends_s;
    for (int i = 0; i < stages->n; i++) {
        double counts[MAX_LAYER_KINDS];
        double stage_s = 0;
        class_kinds(&pricer->shape, &stages->classes[i], stages->classes[i].layers, counts);
        for (int k = 0; k < pricer->shape.n_kinds; k++) {
            stage_s += counts[k] * layer_s[k];
        }
        most = fmax(most, stage_s);
        all += (double)stages->classes[i].count * stage_s;
    }
    return fmax(most, all / (double)pricer->question.layout.pp);
}

/* A layer of the first stage at work with what it keeps itself, in the cheapest way. */
static double layer_bound(const struct step_pricer *pricer)
{
    const struct stage_class *first = &pricer->folds[FOLD_PLAIN]->classes[0];
    double most = 0;
    for (int k = 0; k < pricer->shape.n_kinds; k++) {
        double least = class_last_of_kind(&pricer->shape, first, first->layers, k) > 0 ? INFINITY : 0;
        for (int s = 0; s < 2; s++) {
            const struct memory_sums *memory = &pricer->rank->memory[s];
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

/* Gradients that are there whenever a layer's backward runs. */
static bool has_all_gradients(const struct step_pricer *pricer)
{
    return pricer->question.software.framework.has_persistent_gradients || pricer->shape.micro_batches > 1;
}

/* Kernels alone, no bubble, no optimizer; gradients in the smallest pieces, all else elsewhere. */
static void find_rank_bound(struct step_pricer *pricer)
{
    const struct step_shape *shape = &pricer->shape;
    struct parameters trained = rank_stage_trained(shape, &shape->classes[0]);
    double gradients = has_all_gradients(pricer) ? shape->gradient_size * sharded(shape, trained, true) : 0;
    double stage_s = stage_bound(pricer, pricer->rank->compute_s, pricer->rank->end_compute_s);
    pricer->bound.step_time_s = ROUNDING * ((double)shape->micro_batches * stage_s);
    pricer->bound.peak_bytes = peak_bound(pricer, gradients);
}

struct step_bound step_pricer_rank_bound(const struct step_pricer *pricer)
{
    return pricer->bound;
}

/* The same with the communication of the placement and the host's launches, and a hop of each micro-batch. */
static void find_place_bound(struct step_pricer *pricer, struct placed *placed)
{
    double layer_s[MAX_LAYER_KINDS] = {0};
    const struct end_sums *ends = &placed->sums->ends;
    double pp = (double)pricer->question.layout.pp;
    double m = (double)pricer->shape.micro_batches;
    forget_costs(placed);
    placed->has_sharded_ends = false;
    pricer->repeat = REPEAT_NONE;
    const struct kind_sums *kinds = use_kinds(pricer, placed);
    for (int k = 0; k < pricer->shape.n_kinds; k++) {
        layer_s[k] = kinds[k].forward_s + kinds[k].backward_s;
    }
    double ends_s =
        ends->embedding.forward_s + ends->embedding.backward_s + ends->head.forward_s + ends->head.backward_s;
    double hops_s = pp > 1 ? m * placed->hop_s : 0;
    placed->bound_s = ROUNDING * (m * stage_bound(pricer, layer_s, ends_s) + hops_s);
}

void step_pricer_unplace(struct step_pricer *pricer)
{
    assert(pricer->n_placed > 0);
    pricer->n_placed--;
}

double step_pricer_place_bound(const struct step_pricer *pricer, int place)
{
    return pricer->placed[place].bound_s;
}

/* The first stage's state is exact. */
double step_pricer_shard_bound(const struct step_pricer *pricer)
{
    struct stage_sums sums;
    sum_stage(&pricer->shape, &pricer->folds[FOLD_PLAIN]->classes[0], &sums);
    double gradients = has_all_gradients(pricer) ? sums.gradient_bytes : 0;
    return peak_bound(pricer, sums.state_bytes + gradients + sums.workspace_bytes);
}
