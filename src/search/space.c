/* The space of layouts: which values each axis has, given the ones before it (docs/search.md, "the space"). */
#include "search/search_internal.h"

#include <string.h>

const char *const plan_objective_names[] = {"throughput", "memory", "gpus", "cost", NULL};

enum { DEFAULT_TOP = 6, DEFAULT_KEPT = 48 };
static const int64_t DEFAULT_BATCH_TOKENS = (int64_t)16 << 20; /* the contract's, in tokens */

void plan_question_init(struct plan_question *question, struct sp_arena *arena)
{
    *question = (struct plan_question){.n_top = DEFAULT_TOP, .n_kept = DEFAULT_KEPT};
    request_init(&question->request, arena);
}

static bool has_bit(unsigned set, unsigned bit)
{
    return (set >> bit & 1U) != 0;
}

static void add_value(struct values *out, int64_t value)
{
    if (out->n < MAX_VALUES) {
        out->items[out->n++] = value;
    }
}

static void add_divisors(int64_t of, struct values *out)
{
    int64_t d = 1;
    for (; d * d < of; d++) {
        if (of % d == 0) {
            add_value(out, d);
        }
    }
    int n_small = out->n;
    if (d * d == of) {
        add_value(out, d);
    }
    for (int i = n_small - 1; i >= 0; i--) {
        add_value(out, of / out->items[i]);
    }
}

/* ---- opening ---------------------------------------------------------------------------------------------------- */

static int64_t raised_to(int64_t value, int64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/* The least common multiple of two numbers of at least 1 (Euclid). */
static int64_t multiple_of(int64_t a, int64_t b)
{
    int64_t x = a;
    int64_t y = b;
    do {
        int64_t rest = x % y;
        x = y;
        y = rest;
    } while (y != 0);
    return a / x * b;
}

/* Takes up a value as long as the multiple stays small. */
static int64_t unit_with(int64_t unit, int64_t value, int64_t most)
{
    bool is_small = value <= most && multiple_of(unit, value) <= most;
    return is_small ? multiple_of(unit, value) : unit;
}

/* The odd part of the cluster times what micro-batches and dp that are given need; a dp that is of no layout needs nothing. */
static int64_t common_unit(const struct plan_question *asked, int64_t gpus, int64_t odd, int64_t most)
{
    const struct plan_axes *axes = &asked->axes;
    bool is_one_size = asked->objective == PLAN_THROUGHPUT || asked->objective == PLAN_MEMORY;
    int64_t unit = odd <= most ? odd : 1;
    for (int i = 0; i < axes->micro_batch.n; i++) {
        unit = unit_with(unit, axes->micro_batch.values[i], most);
    }
    for (int i = 0; i < axes->dp.n; i++) {
        bool is_possible = !is_one_size || gpus % axes->dp.values[i] == 0;
        unit = is_possible ? unit_with(unit, axes->dp.values[i], most) : unit;
    }
    return unit;
}

/* One batch for all layouts: 16 Mi tokens' worth of sequences, raised to a multiple of the cluster's odd part and of the
 * dp and micro-batches that are given (of each unless that is more than twice as many), then by an eighth at most so that
 * it divides over many ranks: to a multiple of the largest divisor of the cluster that this allows, times the largest
 * power of two. */
static int64_t default_batch(const struct plan_question *asked, int64_t seq, int64_t gpus)
{
    static const int64_t most_added = 8; /* one part in */
    int64_t least = (DEFAULT_BATCH_TOKENS + seq - 1) / seq;
    int64_t odd = gpus; /* what powers of two leave of the cluster: else it could go nowhere but to sp and pp */
    while (odd % 2 == 0) {
        odd /= 2;
    }
    int64_t common = common_unit(asked, gpus, odd, 2 * least);
    least = raised_to(least, common);
    int64_t most = least + least / most_added;
    struct values divisors = {0};
    add_divisors(gpus, &divisors);
    int64_t unit = common;
    for (int i = 0; i < divisors.n; i++) {
        int64_t larger = multiple_of(common, divisors.items[i]);
        unit = raised_to(least, larger) <= most ? larger : unit;
    }
    while (raised_to(least, 2 * unit) <= most) {
        unit *= 2;
    }
    return raised_to(least, unit);
}

/* The largest cluster that is asked for: all sizes share its batch. */
static int64_t largest_cluster(const struct plan_question *asked, const struct question *base)
{
    const struct request *request = &asked->request;
    int64_t nodes = request->nodes.value * (int64_t)base->hardware.node.gpus.value;
    int64_t gpus = request->gpus.is_given ? request->gpus.value : nodes;
    return gpus > 0 ? gpus : asked->max_gpus > 0 ? asked->max_gpus : 1;
}

struct request space_request(const struct space *space, enum framework_id framework)
{
    static const struct sp_option_count none = {0};
    struct request request = space->asked->request;
    request.framework = (int)framework;
    request.method = -1;
    request.schedule = -1;
    request.zero = 1;
    request.recompute = "none";
    request.offload = NULL;
    request.nodes = none;
    request.gpus = (struct sp_option_count){.is_given = true, .value = space->gpus};
    request.tp = request.sp = request.sp_ulysses = request.sp_inner = request.pp = request.vpp = none;
    request.dp = request.ep = request.etp = request.micro_batch = none;
    return request;
}

static bool open_base(struct space *space, enum framework_id framework, struct sp_error *err)
{
    struct question *base = sp_arena_alloc(space->arena, sizeof(*base));
    struct request request = space_request(space, framework);
    if (!question_resolve(&request, space->arena, base, err)) {
        return false;
    }
    if (request.global_batch == NULL) {
        base->run.global_batch = default_batch(space->asked, base->run.seq, largest_cluster(space->asked, base));
    }
    space->is_batch_assumed = request.global_batch == NULL;
    space->global_batch = base->run.global_batch;
    space->bases[framework] = base;
    return true;
}

bool space_open(const struct plan_question *asked, int64_t gpus, struct sp_arena *arena, struct space *space,
                struct sp_error *err)
{
    *space = (struct space){.asked = asked, .arena = arena, .gpus = gpus};
    for (unsigned f = 0; f < N_FRAMEWORKS; f++) {
        unsigned asked_for = asked->axes.frameworks;
        bool is_in = asked_for != 0 ? has_bit(asked_for, f) : f != FRAMEWORK_IDEAL;
        if (is_in && !open_base(space, (enum framework_id)f, err)) {
            return false;
        }
    }
    return true;
}

const struct question *space_any_base(const struct space *space)
{
    for (int f = 0; f < N_FRAMEWORKS; f++) {
        if (space->bases[f] != NULL) {
            return space->bases[f];
        }
    }
    return NULL;
}

bool space_node_size(const struct plan_question *asked, struct sp_arena *arena, int64_t *gpus, struct sp_error *err)
{
    struct space space;
    if (!space_open(asked, 1, arena, &space, err)) { /* one GPU is a legal cluster of any node */
        return false;
    }
    *gpus = (int64_t)space_any_base(&space)->hardware.node.gpus.value;
    return true;
}

/* ---- degrees ---------------------------------------------------------------------------------------------------- */

void space_degrees(const struct plan_counts *given, int64_t of, struct values *out)
{
    out->n = 0;
    if (given->n == 0) {
        add_divisors(of, out);
        return;
    }
    for (int i = 0; i < given->n; i++) {
        add_value(out, given->values[i]);
    }
}

void space_stages(const struct space *space, int64_t of, struct values *out)
{
    const struct plan_counts *given = &space->asked->axes.pp;
    const struct layout_spec *layout = &space_any_base(space)->layout;
    if (given->n > 0 || layout->pp_layers != PP_LAYERS_EXPLICIT) {
        space_degrees(given, of, out);
        return;
    }
    out->n = 0;
    add_value(out, layout->n_stage_layers);
}

static bool does_split(enum method_id method)
{
    return method != METHOD_NONE && method != METHOD_NAIVE;
}

/* A method that is there at sp 1: none where it may be used, else the first of the methods that are. */
static bool stands_for_all(const struct space *space, enum framework_id framework, enum method_id method)
{
    unsigned methods = space->asked->axes.methods;
    if (method == METHOD_NAIVE || methods == 0) {
        return !does_split(method);
    }
    for (unsigned m = 0; m < (unsigned)method; m++) {
        if (m != METHOD_NAIVE && has_bit(methods, m) && pair_is_legal((enum method_id)m, framework)) {
            return false;
        }
    }
    return true;
}

bool space_has_method(const struct space *space, enum framework_id framework, enum method_id method, int64_t sp)
{
    unsigned methods = space->asked->axes.methods;
    if (!pair_is_legal(method, framework) || (methods != 0 && !has_bit(methods, (unsigned)method))) {
        return false;
    }
    if (sp == 1) {
        return stands_for_all(space, framework, method);
    }
    return methods != 0 || does_split(method);
}

/* A Ulysses degree of 1 is the ring and one of sp is ulysses: both are in the space by themselves, unless methods are given. */
static void leave_out_ends(const struct space *space, int64_t sp, struct values *out)
{
    const struct plan_axes *axes = &space->asked->axes;
    int n = 0;
    for (int i = 0; i < out->n; i++) {
        bool is_end = out->items[i] == 1 || out->items[i] == sp;
        if (!is_end || axes->sp_ulysses.n > 0 || axes->methods != 0) {
            out->items[n++] = out->items[i];
        }
    }
    out->n = n;
}

void space_parts(const struct space *space, enum method_id method, int64_t sp, struct values *out)
{
    out->n = 0;
    if (method == METHOD_USP) {
        space_degrees(&space->asked->axes.sp_ulysses, sp, out);
        leave_out_ends(space, sp, out);
    } else if (method == METHOD_DOUBLE_RING) {
        space_degrees(&space->asked->axes.sp_inner, sp, out);
    } else {
        add_value(out, 1);
    }
}

void space_expert_degrees(const struct space *space, struct values *eps, struct values *etps)
{
    int64_t n_experts = space_any_base(space)->model.n_experts;
    space_degrees(&space->asked->axes.ep, n_experts > 0 ? n_experts : 1, eps);
    space_degrees(&space->asked->axes.etp, 1, etps);
}

void space_micro_batches(const struct space *space, int64_t dp, struct values *out)
{
    int64_t of = space->global_batch % dp == 0 ? space->global_batch / dp : 1;
    space_degrees(&space->asked->axes.micro_batch, of, out);
}

/* ---- pipeline --------------------------------------------------------------------------------------------------- */

/* Without stages all schedules are the same: 1f1b stands for them, whatever is asked for. */
bool space_has_schedule(const struct space *space, enum framework_id framework, enum schedule_id schedule, int64_t pp)
{
    unsigned asked = space->asked->axes.schedules;
    if (pp == 1) {
        return schedule == SCHEDULE_1F1B;
    }
    return asked != 0 ? has_bit(asked, (unsigned)schedule)
                      : framework_has_schedule(&space->bases[framework]->software.framework, schedule);
}

/* Chunks of a rank: those of the schedule, and for the interleaved one all that split the layers evenly. */
void space_chunks(const struct space *space, enum schedule_id schedule, int64_t pp, struct values *out)
{
    enum { CHUNKS_OF_ZBV = 2 };
    const struct plan_counts *given = &space->asked->axes.vpp;
    int64_t n_layers = space_any_base(space)->model.n_layers;
    out->n = 0;
    for (int i = 0; i < given->n; i++) {
        bool is_interleaved = schedule == SCHEDULE_INTERLEAVED && given->values[i] > 1;
        int64_t own = schedule == SCHEDULE_ZBV ? CHUNKS_OF_ZBV : 1;
        if (schedule == SCHEDULE_INTERLEAVED ? is_interleaved : given->values[i] == own) {
            add_value(out, given->values[i]);
        }
    }
    if (given->n > 0) {
        return;
    }
    if (schedule != SCHEDULE_INTERLEAVED) {
        add_value(out, schedule == SCHEDULE_ZBV ? CHUNKS_OF_ZBV : 1);
        return;
    }
    for (int64_t v = 2; v * pp <= n_layers; v++) {
        if (n_layers % (v * pp) == 0) {
            add_value(out, v);
        }
    }
}

/* Layers of the largest chunk of pp x vpp. */
static int64_t largest_chunk(const struct space *space, int64_t pp, int64_t vpp)
{
    const struct question *base = space_any_base(space);
    struct layout_spec layout = base->layout;
    layout.pp = pp;
    bool is_explicit = layout.pp_layers == PP_LAYERS_EXPLICIT && layout.n_stage_layers == pp;
    if (pp > base->model.n_layers || (layout.pp_layers == PP_LAYERS_EXPLICIT && !is_explicit)) {
        return 1; /* a rule refuses it */
    }
    int64_t most = 1;
    for (int64_t stage = 0; stage < pp; stage++) {
        int64_t layers = layout_stage_layers(&layout, &base->model, stage);
        most = layers > most ? layers : most;
    }
    return (most + vpp - 1) / vpp;
}

int space_recomputes(const struct space *space, int64_t pp, int64_t vpp)
{
    enum { WHOLE = 3 }; /* none, selective, full */
    int n = space->asked->axes.n_recomputes;
    return n > 0 ? n : WHOLE + (int)(largest_chunk(space, pp, vpp) - 1); /* block of all its layers is full */
}

struct plan_recompute space_recompute(const struct space *space, int index)
{
    static const struct plan_recompute whole[] = {
        {.kind = RECOMPUTE_NONE}, {.kind = RECOMPUTE_SELECTIVE}, {.kind = RECOMPUTE_FULL}};
    if (space->asked->axes.n_recomputes > 0) {
        return space->asked->axes.recomputes[index];
    }
    int n_whole = (int)SP_COUNT_OF(whole);
    return index < n_whole ? whole[index]
                           : (struct plan_recompute){.kind = RECOMPUTE_BLOCK, .layers = index - n_whole + 1};
}

bool space_has_sharding(const struct space *space, int zero, unsigned offload)
{
    const struct plan_axes *axes = &space->asked->axes;
    bool is_usual = zero == 3 || (offload & PLAN_OFFLOAD_PARAMETERS) == 0; /* below, parameters are not gathered */
    return (axes->zeros == 0 || has_bit(axes->zeros, (unsigned)zero)) &&
           (axes->offloads == 0 ? is_usual : has_bit(axes->offloads, offload));
}

int space_shardings(const struct space *space)
{
    int n = 0;
    for (int zero = 0; zero < N_ZERO_STAGES; zero++) {
        for (unsigned offload = 0; offload < N_PLAN_OFFLOADS; offload++) {
            n += space_has_sharding(space, zero, offload) ? 1 : 0;
        }
    }
    return n;
}

int64_t space_pipelines(const struct space *space, enum framework_id framework, int64_t pp)
{
    int64_t n = 0;
    for (int s = 0; s < N_SCHEDULES; s++) {
        struct values chunks;
        if (!space_has_schedule(space, framework, (enum schedule_id)s, pp)) {
            continue;
        }
        space_chunks(space, (enum schedule_id)s, pp, &chunks);
        for (int v = 0; v < chunks.n; v++) {
            n += space_recomputes(space, pp, chunks.items[v]);
        }
    }
    return n;
}

int64_t space_grid_size(const struct space *space, enum framework_id framework, const struct grid *grid)
{
    struct values batches;
    space_micro_batches(space, grid->dp, &batches);
    return (int64_t)batches.n * grid->n_orders * space_shardings(space) * space_pipelines(space, framework, grid->pp);
}

/* ---- placement -------------------------------------------------------------------------------------------------- */

/* What of a group's place decides a time. */
struct place {
    int64_t nodes;
    int64_t ranks_per_node;
};
enum { MAX_PLACES = 48 };
struct places {
    int n;
    struct place items[MAX_PLACES];
};

static void add_place(struct places *places, struct group_placement placement)
{
    places->items[places->n++] = (struct place){placement.nodes, placement.ranks_per_node};
}

/* Of all groups, the parts of sp included, whichever the method uses. */
static struct places places_of(const struct space *space, const struct layout_spec *layout)
{
    const struct hardware_spec *hardware = &space_any_base(space)->hardware;
    struct places places = {0};
    add_place(&places, layout_placement(layout, hardware, AXIS_TP));
    add_place(&places, layout_placement(layout, hardware, AXIS_CP));
    add_place(&places, layout_placement(layout, hardware, AXIS_PP));
    add_place(&places, layout_shard_placement(layout, hardware));
    if (space_any_base(space)->model.n_experts > 0) {
        add_place(&places, layout_expert_placement(layout, hardware, AXIS_TP));
        add_place(&places, layout_expert_placement(layout, hardware, AXIS_EP));
        add_place(&places, layout_expert_placement(layout, hardware, AXIS_DP));
    }
    struct values parts = {0};
    add_divisors(layout->sp, &parts);
    for (int i = 0; i < parts.n && places.n + 2 <= MAX_PLACES; i++) {
        add_place(&places, layout_part_placement(layout, hardware, AXIS_CP, parts.items[i], 1));
        add_place(&places,
                  layout_part_placement(layout, hardware, AXIS_CP, layout->sp / parts.items[i], parts.items[i]));
    }
    return places;
}

/* All orders of the axes, Megatron's first: the i-th permutation of {tp, cp, ep, dp, pp}. */
static void permutation(int index, enum axis order[N_AXES])
{
    enum axis left[N_AXES] = {AXIS_TP, AXIS_CP, AXIS_EP, AXIS_DP, AXIS_PP};
    int count = 1;
    for (int i = 2; i < N_AXES; i++) {
        count *= i; /* permutations of what follows the first */
    }
    for (int at = 0; at < N_AXES; at++) {
        int pick = index / count;
        index %= count;
        count = at < N_AXES - 2 ? count / (N_AXES - 1 - at) : 1;
        order[at] = left[pick];
        memmove(&left[pick], &left[pick + 1], (size_t)(N_AXES - 1 - pick) * sizeof(left[0]));
    }
}

static int given_orders(const struct space *space, enum axis orders[MAX_ORDERS][N_AXES])
{
    int n = space->asked->axes.n_orders;
    for (int i = 0; i < n && i < MAX_ORDERS; i++) {
        memcpy(orders[i], space->asked->axes.orders[i], sizeof(orders[i]));
    }
    return n < MAX_ORDERS ? n : MAX_ORDERS;
}

/* Whether an axis of one rank comes where the first permutation of its kind has it: the others stand for the same. */
static bool is_canonical(const struct layout_spec *layout, const enum axis order[N_AXES])
{
    const int64_t degrees[N_AXES] = {[AXIS_TP] = layout->tp > layout->etp ? layout->tp : layout->etp,
                                     [AXIS_CP] = layout->sp,
                                     [AXIS_EP] = layout->ep,
                                     [AXIS_DP] = 2, /* replicas of experts may be there without dp */
                                     [AXIS_PP] = layout->pp};
    for (int at = 1; at < N_AXES; at++) { /* single ranks first, in the order of their names */
        bool is_single = degrees[order[at]] == 1;
        bool was_single = degrees[order[at - 1]] == 1;
        if (is_single && (!was_single || order[at] < order[at - 1])) {
            return false;
        }
    }
    return true;
}

static bool is_new(const struct places *all, int n, const struct places *places)
{
    for (int i = 0; i < n; i++) {
        if (memcmp(all[i].items, places->items, (size_t)places->n * sizeof(places->items[0])) == 0) {
            return false;
        }
    }
    return true;
}

int space_orders(const struct space *space, const struct layout_spec *layout, enum axis orders[MAX_ORDERS][N_AXES])
{
    if (space->asked->axes.n_orders > 0) {
        return given_orders(space, orders);
    }
    const struct question *base = space_any_base(space);
    struct places all[MAX_ORDERS];
    int n = 0;
    for (int i = 0; i < MAX_ORDERS; i++) {
        struct layout_spec ordered = *layout;
        permutation(i, ordered.order);
        bool is_whole = layout_expert_stages_agree(&ordered, &base->model, &base->hardware);
        if (i > 0 && !(is_whole && is_canonical(layout, ordered.order))) {
            continue;
        }
        struct places places = places_of(space, &ordered);
        if (is_new(all, n, &places)) {
            all[n] = places;
            memcpy(orders[n++], ordered.order, sizeof(ordered.order));
        }
    }
    return n;
}

/* ---- layouts ---------------------------------------------------------------------------------------------------- */

struct layout_spec space_layout(const struct space *space, const struct assignment *assignment)
{
    const struct question *base = space->bases[assignment->framework];
    const struct request *request = &space->asked->request;
    struct layout_spec layout = base->layout;
    layout.method = assignment->method;
    layout.tp = assignment->tp;
    layout.sp = assignment->sp;
    layout.pp = assignment->pp;
    layout.dp = assignment->dp;
    layout.ep = assignment->ep;
    layout.etp = assignment->etp;
    layout.vpp = assignment->vpp;
    layout.schedule = assignment->schedule;
    layout.micro_batch = assignment->micro_batch;
    layout.sp_ulysses = assignment->method == METHOD_ULYSSES ? assignment->sp
                        : assignment->method == METHOD_USP   ? assignment->part
                                                             : 1;
    layout.sp_inner = assignment->method == METHOD_DOUBLE_RING ? assignment->part : 1;
    layout.recompute = assignment->recompute.kind;
    layout.recompute_layers = assignment->recompute.layers;
    layout.zero = assignment->zero;
    layout.offloads_activations = (assignment->offload & PLAN_OFFLOAD_ACTIVATIONS) != 0;
    layout.offloads_optimizer = (assignment->offload & PLAN_OFFLOAD_OPTIMIZER) != 0;
    layout.offloads_parameters = (assignment->offload & PLAN_OFFLOAD_PARAMETERS) != 0;
    layout.has_tp_sp = request->tp_sp >= 0 ? request->tp_sp == 1 : layout.tp > 1;
    if (request->pp_layers == NULL) {
        bool is_even = base->model.n_layers % (layout.pp * layout.vpp) == 0;
        layout.pp_layers = is_even ? PP_LAYERS_EVEN : PP_LAYERS_AUTO;
    }
    if (assignment->order != NULL) {
        memcpy(layout.order, assignment->order, sizeof(layout.order));
    }
    return layout;
}
