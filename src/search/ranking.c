/* What is best so far: the Pareto front and the best families. The result does not depend on the order of arrival. */
#include "search/search_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static int compare_doubles(double a, double b)
{
    return (a > b) - (a < b);
}

int plan_layout_compare(const void *a, const void *b)
{
    const struct plan_layout *x = a;
    const struct plan_layout *y = b;
    int by_objective = compare_doubles(x->objective, y->objective);
    int by_time = compare_doubles(x->step_time_s, y->step_time_s);
    int by_memory = compare_doubles(x->peak_bytes, y->peak_bytes);
    int by_index = (x->index > y->index) - (x->index < y->index);
    return by_objective != 0 ? by_objective : by_time != 0 ? by_time : by_memory != 0 ? by_memory : by_index;
}

/* ---- front ------------------------------------------------------------------------------------------------------ */

/* How many are at most as slow as this. */
static int count_as_fast(const struct front *front, double pace_s)
{
    int low = 0;
    int high = front->n;
    while (low < high) {
        int middle = (low + high) / 2;
        if (front->items[middle].pace_s <= pace_s) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

bool front_dominates(const struct front *front, double pace_s, double bytes)
{
    int n = count_as_fast(front, pace_s);
    if (n == 0) {
        return false;
    }
    const struct plan_layout *last = &front->items[n - 1]; /* of those as fast the one with the smallest peak */
    return last->peak_bytes < bytes || (last->peak_bytes <= bytes && last->pace_s < pace_s);
}

static void front_reserve(struct front *front)
{
    enum { FIRST_CAPACITY = 64 };
    if (front->n < front->capacity) {
        return;
    }
    int capacity = front->capacity > 0 ? 2 * front->capacity : FIRST_CAPACITY;
    struct plan_layout *items = sp_arena_array(front->arena, (size_t)capacity, sizeof(*items));
    if (front->n > 0) {
        memcpy(items, front->items, (size_t)front->n * sizeof(*items));
    }
    front->items = items;
    front->capacity = capacity;
}

void front_add(struct front *front, const struct plan_layout *layout)
{
    if (front_dominates(front, layout->pace_s, layout->peak_bytes)) {
        return;
    }
    int at = count_as_fast(front, layout->pace_s);
    struct plan_layout *same = at > 0 ? &front->items[at - 1] : NULL;
    bool is_equal = same != NULL && !(same->pace_s < layout->pace_s) &&
                    !(same->peak_bytes > layout->peak_bytes); /* neither dominates: the same figures */
    if (is_equal) {
        if (layout->index < same->index) {
            *same = *layout;
        }
        return;
    }
    assert(at == 0 || front->items != NULL);
    int first = at; /* an equal time with a larger peak goes too */
    while (first > 0 && !(front->items[first - 1].pace_s < layout->pace_s)) {
        first--;
    }
    int last = at;
    while (last < front->n && front->items[last].peak_bytes >= layout->peak_bytes) {
        last++;
    }
    front_reserve(front);
    assert(front->items != NULL);
    memmove(&front->items[first + 1], &front->items[last], (size_t)(front->n - last) * sizeof(front->items[0]));
    front->items[first] = *layout;
    front->n += 1 - (last - first);
}

/* ---- families --------------------------------------------------------------------------------------------------- */

void families_init(struct families *families, struct sp_arena *arena, int capacity)
{
    families->n = 0;
    families->capacity = capacity;
    families->items = sp_arena_array(arena, (size_t)capacity + 1, sizeof(*families->items));
}

static bool is_one_family(const struct plan_layout *a, const struct plan_layout *b)
{
    const struct layout_spec *x = &a->layout;
    const struct layout_spec *y = &b->layout;
    return a->gpus == b->gpus && x->framework == y->framework && x->method == y->method && x->tp == y->tp &&
           x->sp == y->sp && x->sp_ulysses == y->sp_ulysses && x->sp_inner == y->sp_inner && x->pp == y->pp &&
           x->dp == y->dp && x->ep == y->ep && x->etp == y->etp;
}

void families_add(struct families *families, const struct plan_layout *layout)
{
    if (families->n == families->capacity && plan_layout_compare(layout, &families->items[families->n - 1]) >= 0) {
        return;
    }
    int from = families->n; /* the place of the family's last best, or the end */
    for (int i = 0; i < families->n; i++) {
        if (is_one_family(&families->items[i], layout)) {
            if (plan_layout_compare(layout, &families->items[i]) >= 0) {
                return;
            }
            from = i;
            break;
        }
    }
    int to = from;
    while (to > 0 && plan_layout_compare(layout, &families->items[to - 1]) < 0) {
        to--;
    }
    memmove(&families->items[to + 1], &families->items[to], (size_t)(from - to) * sizeof(families->items[0]));
    families->items[to] = *layout;
    bool is_another = from == families->n;
    families->n += is_another && families->n < families->capacity ? 1 : 0;
}

/* ---- the end ---------------------------------------------------------------------------------------------------- */

static bool holds(const struct plan_layout *layouts, int n, uint64_t index)
{
    for (int i = 0; i < n; i++) {
        if (layouts[i].index == index) {
            return true;
        }
    }
    return false;
}

/* The i-th of n places that are spread evenly over `count` ones, both ends among them. */
static int spread_place(int i, int n, int count)
{
    return n > 1 ? (int)((int64_t)i * (count - 1) / (n - 1)) : 0;
}

/* Adds the front to the kept, thinned where it is long; ranked. Returns how many there are. */
enum { MAX_KEPT_FRONT = 48 };
static int keep_front(struct plan_layout *kept, int n_families, const struct front *front)
{
    int n = n_families;
    int n_added = front->n > MAX_KEPT_FRONT ? MAX_KEPT_FRONT : front->n;
    for (int i = 0; i < n_added; i++) {
        const struct plan_layout *layout = &front->items[spread_place(i, n_added, front->n)];
        if (!holds(kept, n_families, layout->index)) {
            kept[n] = *layout;
            kept[n++].is_on_front = true;
        }
    }
    qsort(kept, (size_t)n, sizeof(*kept), plan_layout_compare);
    return n;
}

void ranking_finish(const struct families *families, const struct front *front, int n_top, struct sp_arena *arena,
                    struct plan *plan)
{
    int n = n_top < families->n ? n_top : families->n;
    struct plan_layout *layouts = sp_arena_array(arena, (size_t)(n + front->n) + 1, sizeof(*layouts));
    struct plan_layout *kept = sp_arena_array(arena, (size_t)families->n + MAX_KEPT_FRONT + 1, sizeof(*kept));
    for (int i = 0; i < families->n; i++) {
        kept[i] = families->items[i];
        kept[i].is_on_front = holds(front->items, front->n, kept[i].index);
        kept[i].is_ranked = i < n;
    }
    memcpy(layouts, kept, (size_t)n * sizeof(*layouts));
    for (int i = 0; i < front->n; i++) {
        if (!holds(layouts, n, front->items[i].index)) {
            layouts[n] = front->items[i];
            layouts[n++].is_on_front = true;
        }
    }
    qsort(layouts, (size_t)n, sizeof(*layouts), plan_layout_compare);
    plan->layouts = layouts;
    plan->n_layouts = n;
    plan->n_kept = keep_front(kept, families->n, front);
    plan->kept = kept;
}

/* ---- rejections ------------------------------------------------------------------------------------------------- */

void rejections_add(struct plan *plan, struct sp_arena *arena, const char *reason, int64_t count, const char *example)
{
    if (count <= 0) {
        return;
    }
    for (int i = 0; i < plan->n_rejections; i++) {
        if (strcmp(plan->rejections[i].reason, reason) == 0) {
            plan->rejections[i].count += count;
            return;
        }
    }
    if (plan->n_rejections == MAX_REJECTIONS - 1) {
        reason = "other"; /* more rules than there are */
    }
    plan->rejections[plan->n_rejections++] = (struct plan_rejection){
        .reason = sp_strdup(arena, reason), .count = count, .example = sp_strdup(arena, example)};
}

static int compare_rejections(const void *a, const void *b)
{
    const struct plan_rejection *x = a;
    const struct plan_rejection *y = b;
    int by_count = (x->count < y->count) - (x->count > y->count);
    return by_count != 0 ? by_count : strcmp(x->reason, y->reason);
}

void rejections_sort(struct plan *plan)
{
    qsort(plan->rejections, (size_t)plan->n_rejections, sizeof(plan->rejections[0]), compare_rejections);
}
