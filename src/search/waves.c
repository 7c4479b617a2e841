/* Units over threads: each is searched by one, with what was known before its wave. */
#include "search/search_internal.h"

#include <stdlib.h>

#ifdef _OPENMP
#include <omp.h>

static int usual_threads(void)
{
    return omp_get_max_threads();
}

static int thread_number(void)
{
    return omp_get_thread_num();
}
#else
static int usual_threads(void)
{
    return 1;
}

static int thread_number(void)
{
    return 0;
}
#endif

static int threads_of(const struct plan_question *asked)
{
    int n = asked->n_threads > 0 ? asked->n_threads : usual_threads();
    return n < MAX_THREADS ? n : MAX_THREADS;
}

void crew_open(struct crew *crew, const struct plan_question *asked)
{
    crew->n_threads = threads_of(asked);
    for (int i = 0; i < crew->n_threads; i++) {
        struct worker *worker = &crew->workers[i];
        worker->scratch = sp_arena_open();
        worker->pricer = step_pricer_open(worker->scratch);
    }
}

void crew_close(struct crew *crew)
{
    for (int i = 0; i < crew->n_threads; i++) {
        sp_arena_close(crew->workers[i].scratch);
    }
}

void crew_rebase(struct crew *crew)
{
    for (int i = 0; i < crew->n_threads; i++) {
        crew->workers[i].base = NULL;
    }
}

static int compare_units(const void *a, const void *b)
{
    const struct unit *x = a;
    const struct unit *y = b;
    int by_bound = (x->bound_s > y->bound_s) - (x->bound_s < y->bound_s);
    return by_bound != 0 ? by_bound : (x->first_index > y->first_index) - (x->first_index < y->first_index);
}

void crew_sort(struct crew *crew, const struct search *search, struct units *units)
{
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic, 1) num_threads(crew->n_threads)
#endif
    for (int i = 0; i < units->n; i++) {
        unit_bound(search, &crew->workers[thread_number()], &units->items[i]);
    }
    if (units->n > 0) {
        qsort(units->items, (size_t)units->n, sizeof(units->items[0]), compare_units);
    }
}

void crew_search(struct crew *crew, const struct search *search, const struct unit *units, int n,
                 struct findings *findings)
{
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic, 1) num_threads(crew->n_threads)
#endif
    for (int i = 0; i < n; i++) {
        findings[i].arena = sp_arena_open();
        findings[i].front.arena = findings[i].arena;
        unit_search(search, &crew->workers[thread_number()], &units[i], &findings[i]);
    }
}
