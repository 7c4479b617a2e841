/* Inside the search layer: the space as lists of values, one after the other. */
#ifndef SEQPLAN_SEARCH_INTERNAL_H
#define SEQPLAN_SEARCH_INTERNAL_H

#include "search/search.h"

/* ---- the space of one cluster size (space.c) --------------------------------------------------------------------- */

/* What all its layouts share. */
struct space {
    const struct plan_question *asked;
    struct sp_arena *arena;
    int64_t gpus;
    int64_t global_batch;
    bool is_batch_assumed;
    const struct question *bases[N_FRAMEWORKS]; /* the question in each framework; NULL: not in the space */
};
/* Resolves the question for every framework of the axes. */
bool space_open(const struct plan_question *asked, int64_t gpus, struct sp_arena *arena, struct space *space,
                struct sp_error *err) SP_MUST_CHECK;
/* GPUs of a node of the question's hardware. */
bool space_node_size(const struct plan_question *asked, struct sp_arena *arena, int64_t *gpus,
                     struct sp_error *err) SP_MUST_CHECK;
/* The request of a base; with the flags of what the search decides, which nobody then assumed. */
struct request space_request(const struct space *space, enum framework_id framework);

enum { MAX_VALUES = 1344 }; /* divisors of a number below 2^30 */
struct values {
    int n;
    int64_t items[MAX_VALUES];
};
/* The values of an axis, given the ones before it. */
void space_degrees(const struct plan_counts *given, int64_t of, struct values *out); /* given, else divisors */
/* pp: given, what --pp-layers lists, or divisors. */
void space_stages(const struct space *space, int64_t of, struct values *out);
/* Methods of a framework at this sp: those that split where sp is above 1, else the one that stands for all. */
bool space_has_method(const struct space *space, enum framework_id framework, enum method_id method, int64_t sp);
/* Parts of sp: Ulysses degrees of usp, inner rings of double-ring, else 1 value. */
void space_parts(const struct space *space, enum method_id method, int64_t sp, struct values *out);
void space_expert_degrees(const struct space *space, struct values *eps, struct values *etps);
void space_micro_batches(const struct space *space, int64_t dp, struct values *out);
bool space_has_schedule(const struct space *space, enum framework_id framework, enum schedule_id schedule, int64_t pp);
void space_chunks(const struct space *space, enum schedule_id schedule, int64_t pp, struct values *out); /* vpp */
/* Recomputations of a split into pp x vpp, in order: the i-th, and how many. */
int space_recomputes(const struct space *space, int64_t pp, int64_t vpp);
struct plan_recompute space_recompute(const struct space *space, int index);
bool space_has_sharding(const struct space *space, int zero, unsigned offload);

/* Placement orders of a layout's degrees that place some group differently from all before: the first ones in the order
 * of permutations, Megatron's first. Returns how many. */
enum { MAX_ORDERS = 120 };
int space_orders(const struct space *space, const struct layout_spec *layout, enum axis orders[MAX_ORDERS][N_AXES]);

/* A layout of the space. */
struct assignment {
    enum framework_id framework;
    enum method_id method;
    int64_t tp, sp, part, pp, dp, ep, etp, micro_batch, vpp;
    enum schedule_id schedule;
    struct plan_recompute recompute;
    int zero;
    unsigned offload;
    const enum axis *order;
};
struct layout_spec space_layout(const struct space *space, const struct assignment *assignment);

/* ---- what the space is cut into (grids.c) ------------------------------------------------------------------------- */

const struct question *space_any_base(const struct space *space);

struct grid {
    int64_t pp, dp, ep, etp;
    int n_orders;
    const enum axis *orders; /* n_orders x N_AXES; NULL: the base's alone */
};
struct grids {
    int n, capacity;
    struct grid *items;
};
/* With a grid a unit makes a family. */
struct unit {
    enum framework_id framework;
    enum method_id method;
    int64_t tp, sp, part;
    int first_grid, n_grids;
    int64_t size;         /* layouts */
    uint64_t first_index; /* of the first of them in the order of the space */
    double bound_s;       /* no layout of it is faster */
};
struct units {
    int n, capacity;
    struct unit *items;
    int64_t n_refused; /* values of degrees that leave no cluster, each counted once after those before it */
    const char *refused;
};
/* In the order of the space. */
void units_open(const struct space *space, uint64_t first_index, struct units *units, struct grids *grids);
/* Layouts of a family: micro-batches x placements x shardings x schedules with their recomputations. */
int64_t space_grid_size(const struct space *space, enum framework_id framework, const struct grid *grid);
int space_shardings(const struct space *space); /* of zero x offload */
int64_t space_pipelines(const struct space *space, enum framework_id framework,
                        int64_t pp); /* schedules, vpp, recompute */

/* The questions of many layouts, as far as pricing needs them: what is read from files is shared by those of one framework
 * on one cluster. NULL and *err when something cannot be read. (plan_questions.c) */
const struct question *plan_questions(const struct plan_question *asked, const struct plan_layout *layouts, int n,
                                      struct sp_arena *arena, struct sp_error *err);

/* ---- what is best so far (ranking.c) ------------------------------------------------------------------------------ */

/* Less is better: objective, time, memory, then the earlier layout. */
int plan_layout_compare(const void *a, const void *b);

/* Layouts that no other is better than in both figures, by time; peaks fall. */
struct front {
    struct sp_arena *arena;
    int n, capacity;
    struct plan_layout *items;
};
/* Whether something on the front is as fast in as little memory as these figures, and better in one of them. */
bool front_dominates(const struct front *front, double pace_s, double bytes);
void front_add(struct front *front, const struct plan_layout *layout);

/* The best layout of each family, of which the `capacity` best are kept. A family is a framework, a method and degrees. */
struct families {
    int n, capacity;
    struct plan_layout *items; /* by plan_layout_compare() */
};
void families_init(struct families *families, struct sp_arena *arena, int capacity);
void families_add(struct families *families, const struct plan_layout *layout);
/* The n best families and the front, ranked, into plan->layouts; all families into plan->kept. */
void ranking_finish(const struct families *families, const struct front *front, int n_top, struct sp_arena *arena,
                    struct plan *plan);

/* Counts a rejection; the first example of a reason stays. The texts are copied. */
void rejections_add(struct plan *plan, struct sp_arena *arena, const char *reason, int64_t count, const char *example);
void rejections_sort(struct plan *plan);

/* ---- one unit (unit_search.c) ------------------------------------------------------------------------------------- */

/* What a layout must keep. */
struct constraints {
    double capacity_bytes; /* of a GPU */
    double most_bytes;     /* the smallest of the capacity, --max-memory and what --headroom leaves */
    const char *most_bytes_reason;
    double host_bytes; /* of a node */
    double most_time_s;
    const char *most_time_reason;
};

/* What one thread works with. */
struct worker {
    struct sp_arena *scratch;
    struct step_pricer *pricer;
    const struct question *base; /* of the pricer */
    struct question question;    /* for rules */
};

/* What a unit adds. */
struct findings {
    struct sp_arena *arena;
    struct plan counts; /* evaluated, rejections, nearest miss */
    struct front front;
    int n_families, capacity;
    struct plan_layout *families; /* the best of each */
};

/* What the search knows before a wave of units, the same for all of them. */
struct search {
    const struct space *space;
    const struct grids *grids;
    struct constraints constraints;
    struct front front;
    struct families families;
    bool prunes; /* leaves out what a bound shows to be useless */
};
void unit_bound(const struct search *search, struct worker *worker, struct unit *unit);
void unit_search(const struct search *search, struct worker *worker, const struct unit *unit,
                 struct findings *findings);
/* What the front weighs: struct plan_layout, pace_s. */
double plan_pace_of(const struct space *space, double step_time_s);
double plan_objective_of(const struct space *space, double step_time_s, double peak_bytes);

#endif
