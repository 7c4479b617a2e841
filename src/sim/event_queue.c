/* Events in their total order: a bucket of events a distinct time, found through a hash of the time and put in order by a
 * heap of times. A bucket is a list of chunks, filled at one end and emptied at the other, so that no event ever moves.
 * The bucket of the present instant stands outside heap and hash until a later one is asked for: what is posted while an
 * instant is handled costs an append. */
#include "sim/flows.h"

#include <assert.h>
#include <string.h>

enum {
    CHUNK_EVENTS = 15, /* with the link to the next: two cache lines */
    HEAP_BRANCHES = 4,
    FIRST_SLOTS = 64,
    VERSION_BITS = 32 - EVENT_KIND_BITS
};

/* The golden ratio of 2^64: multiplied by it, times that are multiples of one another spread. */
static const uint64_t GOLDEN = 0x9e3779b97f4a7c15U;

struct packed_event {
    uint32_t index;
    uint32_t kind_and_version;
};

struct chunk {
    struct chunk *next;
    struct packed_event events[CHUNK_EVENTS];
};

struct bucket {
    int64_t time_ps;
    struct chunk *first;
    struct chunk *last;
    struct bucket *next; /* of the same slot, or the next free one */
    uint32_t n_taken;    /* of the first chunk */
    uint32_t n_posted;   /* of the last chunk */
};

struct heap_entry {
    int64_t time_ps;
    struct bucket *bucket;
};

struct event_queue {
    struct sp_arena *arena;
    int64_t now_ps;         /* of the last event taken */
    struct bucket *current; /* the present instant; neither in the heap nor in a slot; may be empty or NULL */
    struct bucket *latest;  /* posted to last, in the heap, or NULL: most events are posted beside their like */
    struct heap_entry *heap;
    size_t n_heap;
    size_t max_heap;
    struct bucket **slots;
    unsigned slot_bits;
    struct chunk *free_chunks;
    struct bucket *free_buckets;
};

struct event_queue *event_queue_open(struct sp_arena *arena)
{
    struct event_queue *queue = sp_arena_alloc(arena, sizeof(*queue));
    queue->arena = arena;
    queue->now_ps = INT64_MIN;
    while ((size_t)1 << queue->slot_bits < FIRST_SLOTS) {
        queue->slot_bits++;
    }
    queue->max_heap = FIRST_SLOTS;
    queue->heap = sp_arena_array(arena, queue->max_heap, sizeof(queue->heap[0]));
    queue->slots = sp_arena_array(arena, (size_t)1 << queue->slot_bits, sizeof(struct bucket *));
    return queue;
}

/* ---- buckets ---------------------------------------------------------------------------------------------------- */

static struct chunk *take_chunk(struct event_queue *queue)
{
    struct chunk *chunk = queue->free_chunks;
    if (chunk == NULL) {
        return sp_arena_alloc(queue->arena, sizeof(*chunk));
    }
    queue->free_chunks = chunk->next;
    chunk->next = NULL;
    return chunk;
}

static void free_chunk(struct event_queue *queue, struct chunk *chunk)
{
    chunk->next = queue->free_chunks;
    queue->free_chunks = chunk;
}

static struct bucket *take_bucket(struct event_queue *queue, int64_t time_ps)
{
    struct bucket *bucket = queue->free_buckets;
    if (bucket == NULL) {
        bucket = sp_arena_alloc(queue->arena, sizeof(*bucket));
    } else {
        queue->free_buckets = bucket->next;
    }
    struct chunk *chunk = take_chunk(queue);
    *bucket = (struct bucket){.time_ps = time_ps, .first = chunk, .last = chunk};
    return bucket;
}

static bool is_empty(const struct bucket *bucket)
{
    return bucket->first == bucket->last && bucket->n_taken == bucket->n_posted;
}

static void append(struct event_queue *queue, struct bucket *bucket, struct packed_event event)
{
    if (bucket->n_posted == CHUNK_EVENTS) {
        struct chunk *chunk = take_chunk(queue);
        bucket->last->next = chunk;
        bucket->last = chunk;
        bucket->n_posted = 0;
    }
    bucket->last->events[bucket->n_posted++] = event;
}

static struct packed_event take_first(struct event_queue *queue, struct bucket *bucket)
{
    struct packed_event event = bucket->first->events[bucket->n_taken++];
    if (is_empty(bucket)) {
        bucket->n_taken = 0;
        bucket->n_posted = 0;
    } else if (bucket->n_taken == CHUNK_EVENTS) {
        struct chunk *done = bucket->first;
        bucket->first = done->next;
        bucket->n_taken = 0;
        free_chunk(queue, done);
    }
    return event;
}

/* ---- times ------------------------------------------------------------------------------------------------------ */

static struct bucket **slot_of(const struct event_queue *queue, int64_t time_ps)
{
    return &queue->slots[((uint64_t)time_ps * GOLDEN) >> (64U - queue->slot_bits)];
}

static void put_in_slot(struct event_queue *queue, struct bucket *bucket)
{
    struct bucket **slot = slot_of(queue, bucket->time_ps);
    bucket->next = *slot;
    *slot = bucket;
}

static void take_from_slot(struct event_queue *queue, struct bucket *bucket)
{
    struct bucket **at = slot_of(queue, bucket->time_ps);
    while (*at != bucket) {
        at = &(*at)->next;
    }
    *at = bucket->next;
}

/* Heap and slots double together: a slot holds one bucket on average at most. */
static void grow_times(struct event_queue *queue)
{
    struct heap_entry *heap = sp_arena_array(queue->arena, 2 * queue->max_heap, sizeof(heap[0]));
    memcpy(heap, queue->heap, queue->n_heap * sizeof(heap[0]));
    queue->heap = heap;
    queue->max_heap *= 2;
    queue->slot_bits++;
    queue->slots = sp_arena_array(queue->arena, (size_t)1 << queue->slot_bits, sizeof(struct bucket *));
    for (size_t i = 0; i < queue->n_heap; i++) {
        put_in_slot(queue, queue->heap[i].bucket);
    }
}

static struct bucket *add_time(struct event_queue *queue, int64_t time_ps)
{
    if (queue->n_heap == queue->max_heap) {
        grow_times(queue);
    }
    struct bucket *bucket = take_bucket(queue, time_ps);
    put_in_slot(queue, bucket);
    size_t at = queue->n_heap++;
    while (at > 0) {
        size_t parent = (at - 1) / HEAP_BRANCHES;
        if (queue->heap[parent].time_ps <= time_ps) {
            break;
        }
        queue->heap[at] = queue->heap[parent];
        at = parent;
    }
    queue->heap[at] = (struct heap_entry){time_ps, bucket};
    return bucket;
}

/* The earliest child of `at`, or n_heap. */
static size_t earliest_child(const struct event_queue *queue, size_t at)
{
    size_t child = at * HEAP_BRANCHES + 1;
    if (child >= queue->n_heap) {
        return queue->n_heap;
    }
    size_t end = child + HEAP_BRANCHES;
    for (size_t other = child + 1; other < end && other < queue->n_heap; other++) {
        if (queue->heap[other].time_ps < queue->heap[child].time_ps) {
            child = other;
        }
    }
    return child;
}

static struct bucket *take_earliest_time(struct event_queue *queue)
{
    struct bucket *earliest = queue->heap[0].bucket;
    struct heap_entry moved = queue->heap[--queue->n_heap];
    size_t at = 0;
    for (;;) {
        size_t child = earliest_child(queue, at);
        if (child == queue->n_heap || queue->heap[child].time_ps >= moved.time_ps) {
            break;
        }
        queue->heap[at] = queue->heap[child];
        at = child;
    }
    queue->heap[at] = moved;
    take_from_slot(queue, earliest);
    if (queue->latest == earliest) {
        queue->latest = NULL;
    }
    return earliest;
}

/* ---- the queue -------------------------------------------------------------------------------------------------- */

static struct bucket *bucket_of(struct event_queue *queue, int64_t time_ps)
{
    if (queue->latest != NULL && queue->latest->time_ps == time_ps) {
        return queue->latest;
    }
    struct bucket *bucket = *slot_of(queue, time_ps);
    while (bucket != NULL && bucket->time_ps != time_ps) {
        bucket = bucket->next;
    }
    queue->latest = bucket != NULL ? bucket : add_time(queue, time_ps);
    return queue->latest;
}

void event_post(struct event_queue *queue, int64_t time_ps, struct event event)
{
    assert(time_ps >= queue->now_ps);
    assert(event.kind >> EVENT_KIND_BITS == 0 && event.version >> VERSION_BITS == 0);
    struct packed_event packed = {event.index, event.kind << VERSION_BITS | event.version};
    struct bucket *current = queue->current;
    bool is_now = current != NULL && current->time_ps == time_ps;
    append(queue, is_now ? current : bucket_of(queue, time_ps), packed);
}

bool event_next_time(const struct event_queue *queue, int64_t *time_ps)
{
    if (queue->current != NULL && !is_empty(queue->current)) {
        *time_ps = queue->current->time_ps;
        return true;
    }
    if (queue->n_heap == 0) {
        return false;
    }
    *time_ps = queue->heap[0].time_ps;
    return true;
}

/* Makes the earliest time of the heap the present instant; what there was is empty. */
static void move_on(struct event_queue *queue)
{
    struct bucket *done = queue->current;
    if (done != NULL) {
        free_chunk(queue, done->first);
        done->next = queue->free_buckets;
        queue->free_buckets = done;
    }
    queue->current = take_earliest_time(queue);
    queue->now_ps = queue->current->time_ps;
}

bool event_take(struct event_queue *queue, int64_t time_ps, struct event *event)
{
    int64_t next_ps = 0;
    if (!event_next_time(queue, &next_ps)) {
        return false;
    }
    assert(next_ps >= time_ps); /* else an event would be left behind */
    if (next_ps != time_ps) {
        return false;
    }
    if (queue->current == NULL || queue->current->time_ps != time_ps) {
        move_on(queue);
    }
    struct packed_event packed = take_first(queue, queue->current);
    event->index = packed.index;
    event->kind = packed.kind_and_version >> VERSION_BITS;
    event->version = packed.kind_and_version & ((1U << VERSION_BITS) - 1);
    return true;
}
