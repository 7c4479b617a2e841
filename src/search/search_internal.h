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
    int64_t first_rank;   /* of its grids x micro-batches, among those of the space */
    int64_t n_ranks;
    double bound_s; /* no layout of it is faster */
};
struct units {
    int n, capacity;
    struct unit *items;
    int64_t n_ranks;   /* of all units */
    int64_t n_refused; /* values of degrees that leave no cluster, each counted once after those before it */
    const char *refused;
    bool is_refused_foreign; /* the example is of a value that does not divide the cluster */
};
/* In the order of the space. */
void units_open(const struct space *space, uint64_t first_index, struct units *units, struct grids *grids);
/* Values of --tp, --sp, --pp and --dp that no layout of any cluster size has, each as an option, "--tp 3". */
struct idle_values {
    int n;
    struct idle_value {
        const char *axis;
        int64_t value;
        bool is_used;
    } * items;
};
void idle_values_open(const struct plan_axes *axes, struct sp_arena *arena, struct idle_values *idle);
void idle_values_use(struct idle_values *idle, const struct units *units, const struct grids *grids);
const char *idle_values_text(const struct idle_values *idle, struct sp_arena *arena); /* NULL: there are none */
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
    struct plan counts; /* evaluated, ranks, rejections, nearest miss */
    struct front front;
    int n_families, capacity;
    struct plan_layout *families; /* the best of each */
};

/* Of one rank (struct unit), what no layout of it goes below; infinite where a rule or memory lets in none. */
struct rank_bound {
    float fitting_s; /* of those that fit */
    float any_s;     /* of those that keep the rules */
};

/* What the search knows before a wave of units, the same for all of them. */
struct search {
    const struct space *space;
    const struct grids *grids;
    struct constraints constraints;
    struct front front;
    struct families families;
    bool prunes;                    /* leaves out what a bound shows to be useless */
    struct rank_bound *rank_bounds; /* by rank of the space, or NULL: written, and read first by a rematch */
    bool is_rematch;                /* of a space that was searched: rules are known to be kept, nothing is counted */
};
/* Whether no layout with such bounds can matter to a rematch. */
bool rank_is_out(const struct search *search, struct rank_bound bound);
void unit_bound(const struct search *search, struct worker *worker, struct unit *unit);
void unit_search(const struct search *search, struct worker *worker, const struct unit *unit,
                 struct findings *findings);
/* What the front weighs: struct plan_layout, pace_s. */
double plan_pace_of(const struct space *space, double step_time_s);
double plan_objective_of(const struct plan_question *asked, const struct question *base, struct step_bound figures);
/* What a layout must keep on the machine of the space; without those of time where they are relaxed, of memory too. */
enum relaxed { RELAXED_NOTHING, RELAXED_TIME, RELAXED_MEMORY };
struct constraints constraints_of(const struct space *space, enum relaxed relaxed);

/* ---- units over threads (waves.c) --------------------------------------------------------------------------------- */

enum { FIRST_WAVE = 4, LARGEST_WAVE = 64, MAX_THREADS = 256 };
struct crew {
    int n_threads;
    struct worker workers[MAX_THREADS];
};
void crew_open(struct crew *crew, const struct plan_question *asked);
void crew_close(struct crew *crew);
/* Their pricers begin anew: another space, or other figures in it. */
void crew_rebase(struct crew *crew);
/* unit_bound() of all, the most promising first then. */
void crew_sort(struct crew *crew, const struct search *search, struct units *units);
/* Searches n units; findings in their order, whose arenas the caller closes. */
void crew_search(struct crew *crew, const struct search *search, const struct unit *units, int n,
                 struct findings *findings);

/* ---- the same space on other machines (rematch.c) ------------------------------------------------------------------ */

/* A cluster size that was searched, with what is known of it. */
struct searched {
    const struct space *space;
    struct units units; /* the most promising first */
    struct grids grids;
    const struct rank_bound *rank_bounds;
    const struct searched *next;
};
/* Bounds of the ranks of some units, of which nothing is known yet. */
struct rank_bound *rank_bounds_open(const struct units *units, struct sp_arena *arena);
void searched_add(const struct searched **all, const struct search *search, const struct units *units,
                  struct sp_arena *arena);

struct rematch;
/* Of a plan that was searched as a whole; NULL where that was not kept. Closed by the caller. */
struct rematch *rematch_open(const struct plan_question *asked, const struct plan *plan, struct sp_arena *arena);
void rematch_close(struct rematch *rematch);
struct rematch_call {
    enum sensitivity_figure figure;
    double factor;
    const struct plan_layout *known; /* with its figures there; NULL: nothing is known to fit */
    double below_s; /* 0: what ranks before the known; else the smallest peak of those with a shorter step than this */
};
/* Whether a layout of the space ranks before the known one on that machine; the best of them, with its figures there. */
int64_t rematch_ranks(const struct rematch *rematch); /* that all calls have priced: what they cost */
bool rematch_find(struct rematch *rematch, const struct rematch_call *call, struct plan_layout *best);

#endif
