/* Inside the search layer: how far one layout fits. */
#ifndef SEQPLAN_SEARCH_PROBE_H
#define SEQPLAN_SEARCH_PROBE_H

#include "search/search_internal.h"

/* ---- one layout with one figure changed (probe.c) ----------------------------------------------------------------- */

enum probe_state { PROBE_FITS, PROBE_TOO_LARGE, PROBE_REFUSED };

/* Lengths or micro-batches in ascending order: a list, or multiples of a unit. */
struct probe_values {
    int64_t n;
    int64_t unit;
    const int64_t *list; /* or NULL */
};
int64_t probe_value(const struct probe_values *values, int64_t index);

struct probe {
    const struct question *base; /* legal or not: each value is checked */
    enum limit_kind kind;        /* LIMIT_SEQ or LIMIT_MICRO_BATCH */
    bool is_batch_given;         /* else limits_batch() of what is probed */
    struct sp_arena *scratch;
    struct question question; /* of the last value */
    struct estimate estimate; /* not of one that was refused */
    struct sp_error err;      /* of one that was refused */
};
enum probe_state probe_at(struct probe *probe, int64_t value);
/* Index of the largest that fits, from an index on (memory grows with the value); -1: none. *has_legal: some value kept
 * the rules. */
int64_t probe_largest(struct probe *probe, const struct probe_values *values, int64_t from, bool *has_legal);

/* What limits.c and limits_any.c share. */
struct probe_values limit_lengths(const struct layout_spec *layout, int64_t least_unit);
/* Every micro-batch, or where the batch is given those that divide what a data-parallel rank has of it. */
struct probe_values limit_micro_batches(struct sp_arena *arena, int64_t sequences, bool is_batch_given);
/* Fills a limit from the probe's layout at the largest index that fits (-1: none). */
void limit_fill(struct limit *limit, struct probe *probe, const struct probe_values *values, int64_t index,
                struct sp_arena *arena);
/* Keeps what the probe priced last as the question of a limit. */
void limit_keep(struct limit *limit, const struct probe *probe, struct sp_arena *arena);
/* A batch in tokens is refused. */
bool limits_batch_is_count(const struct request *request, struct sp_error *err);
/* What does not fit of an estimate: host memory, or the category that grew most since `smaller` (NULL: the largest). */
void limit_bind(struct limit *limit, const struct estimate *larger, const struct estimate *smaller);

#endif
