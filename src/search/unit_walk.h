/* The walk through one unit: what is decided so far, its rules and its counts (unit_rules.c), shared with the search of it
 * (unit_search.c). */
#ifndef SEQPLAN_SEARCH_UNIT_WALK_H
#define SEQPLAN_SEARCH_UNIT_WALK_H

#include "search/search_internal.h"

/* Schedules with their chunks, of one pp. */
struct pipeline {
    enum schedule_id schedule;
    int64_t vpp;
    int n_recomputes;
    bool is_legal;
};
enum { MAX_PIPELINES = MAX_VALUES + N_SCHEDULES };

/* The search of one unit. */
struct walk {
    const struct search *search;
    const struct unit *unit;
    const struct grid *grid;
    struct worker *worker;
    struct findings *findings;
    struct assignment at; /* what is decided so far */
    int64_t rank;         /* the next of its grids x micro-batches */
    uint64_t index;       /* of the next layout in the order of the space: placements, then shardings, then pipelines */
    int n_pipelines;
    struct pipeline pipelines[MAX_PIPELINES];
    int64_t n_legal;      /* layouts of the legal pipelines; the others are counted when they are found */
    int64_t n_offloading; /* of them, those whose activations the framework can send to the host */
    int64_t n_pipes;      /* of all pipelines */
    int64_t n_order;      /* layouts of one placement: shardings x pipelines */
    int n_alive;          /* placements that no bound has left out ... */
    int alive[MAX_ORDERS];
    double fitting_s, any_s; /* of the rank at work: struct rank_bound */
    bool has_best;           /* of the family */
    struct plan_layout best;
};

/* Legal shardings of the grid at work, found once for all its placements. */
struct shardings {
    int64_t n_layouts; /* legal ones of one placement: shardings x pipelines */
    bool is_legal[N_ZERO_STAGES][N_PLAN_OFFLOADS];
};

/* ---- counting ---------------------------------------------------------------------------------------------------- */

/* Each counts `count` layouts under a reason; the first example of a reason stays. */
void walk_reject(struct walk *walk, const char *reason, int64_t count, const char *example);
/* bytes: of the GPU's peak, or of a host under "host_memory"; at least that where it is a bound. */
void walk_reject_bytes(struct walk *walk, const char *reason, int64_t count, double bytes, bool is_bound);
void walk_reject_time(struct walk *walk, const char *reason, int64_t count, double time_s);

/* ---- rules ------------------------------------------------------------------------------------------------------- */

/* The values of the unit, everything below it at its plainest. */
void walk_begin(struct walk *walk);
/* False, and `count` layouts counted, when a theme of rules refuses what is decided so far. */
bool walk_keeps_theme(struct walk *walk, enum rule_theme theme, int64_t count);
/* The same of what the framework itself does not run, whatever is recomputed. */
bool walk_is_run(struct walk *walk, int64_t count);
/* Rules that all of a unit keeps or breaks. */
bool walk_unit_is_legal(struct walk *walk);
/* Schedules and chunks of the grid at work. */
void walk_list_pipelines(struct walk *walk);
/* Which of them are legal with its micro-batch, over `times` placements and shardings; fills n_legal and n_offloading. */
void walk_check_pipelines(struct walk *walk, int64_t times);
/* Legal shardings of the grid and micro-batch at work, over its placements. */
void walk_check_shardings(struct walk *walk, int64_t n_orders, struct shardings *shardings);
/* Layouts of the sharding at work that the framework runs: of the legal pipelines, those whose activations can go where
 * they are to go. */
int64_t walk_count_run(const struct walk *walk);

#endif
