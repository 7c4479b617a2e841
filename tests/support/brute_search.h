/* The search without any of its means: what its answers are compared with. */
#ifndef SEQPLAN_TESTS_BRUTE_SEARCH_H
#define SEQPLAN_TESTS_BRUTE_SEARCH_H

#include "search/search.h"

/* As plan_search() with is_exhaustive, one layout after the other, on one cluster size. */
bool brute_search(const struct plan_question *question, struct sp_arena *arena, struct plan *plan,
                  struct sp_error *err);

#endif
