#include "base/base.h"

#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define HAS_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_ADDRESS_SANITIZER 1
#endif
#endif

#if defined(HAS_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, size) ((void)(at), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(at, size) ((void)(at), (void)(size))
#endif

enum { BLOCK_BYTES = 64 * 1024, ALIGNMENT = 16 };

/* The data of a block follows its header. Blocks form a list from the newest back. */
struct block {
    struct block *previous;
    size_t size; /* of the data */
    size_t used;
    size_t used_before; /* in all the previous blocks */
};

enum { HEADER_BYTES = (sizeof(struct block) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT };

struct sp_arena {
    struct block *newest;
    struct block *spare; /* kept from a rewind, so that mark, fill, rewind in a loop does not call malloc each time */
};

static _Noreturn void out_of_memory(size_t size)
{
    (void)fprintf(stderr, "seqplan: out of memory (%zu more bytes were needed)\n", size);
    exit(SP_ERROR_IO);
}

static char *block_data(struct block *block)
{
    return (char *)block + HEADER_BYTES;
}

static void free_block(struct block *block)
{
    if (block != NULL) {
        ASAN_UNPOISON_MEMORY_REGION(block_data(block), block->size);
        free(block);
    }
}

struct sp_arena *sp_arena_open(void)
{
    struct sp_arena *arena = calloc(1, sizeof(*arena));
    if (arena == NULL) {
        out_of_memory(sizeof(*arena));
    }
    return arena;
}

void sp_arena_close(struct sp_arena *arena)
{
    if (arena == NULL) {
        return;
    }
    sp_arena_rewind(arena, (struct sp_arena_mark){NULL, 0});
    free_block(arena->spare);
    free(arena);
}

static struct block *take_block(struct sp_arena *arena, size_t size)
{
    struct block *block = arena->spare;
    if (block != NULL && block->size >= size) {
        arena->spare = NULL;
        return block;
    }
    size_t data_size = size > BLOCK_BYTES ? size : BLOCK_BYTES;
    if (data_size > SIZE_MAX - HEADER_BYTES) {
        out_of_memory(size);
    }
    block = malloc(HEADER_BYTES + data_size);
    if (block == NULL) {
        out_of_memory(size);
    }
    block->size = data_size;
    ASAN_POISON_MEMORY_REGION(block_data(block), block->size);
    return block;
}

static void add_block(struct sp_arena *arena, size_t size)
{
    struct block *block = take_block(arena, size);
    block->previous = arena->newest;
    block->used = 0;
    block->used_before = sp_arena_used(arena);
    arena->newest = block;
}

void *sp_arena_alloc(struct sp_arena *arena, size_t size)
{
    if (size > SIZE_MAX - ALIGNMENT) {
        out_of_memory(size);
    }
    size_t n_wanted = size == 0 ? 1 : size; /* every pointer is distinct */
    size_t n_taken = (n_wanted + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (arena->newest == NULL || arena->newest->size - arena->newest->used < n_taken) {
        add_block(arena, n_taken);
    }
    char *at = block_data(arena->newest) + arena->newest->used;
    arena->newest->used += n_taken;
    /* The padding stays poisoned, so that a write just past the end is caught. */
    ASAN_UNPOISON_MEMORY_REGION(at, n_wanted);
    memset(at, 0, n_wanted);
    return at;
}

void *sp_arena_array(struct sp_arena *arena, size_t count, size_t size)
{
    if (size != 0 && count > SIZE_MAX / size) {
        out_of_memory(SIZE_MAX);
    }
    return sp_arena_alloc(arena, count * size);
}

size_t sp_arena_used(const struct sp_arena *arena)
{
    return arena->newest == NULL ? 0 : arena->newest->used_before + arena->newest->used;
}

struct sp_arena_mark sp_arena_mark(const struct sp_arena *arena)
{
    if (arena->newest == NULL) {
        return (struct sp_arena_mark){NULL, 0};
    }
    return (struct sp_arena_mark){arena->newest, arena->newest->used};
}

/* Takes the newest block off; the larger of it and the spare one is kept. */
static void drop_newest(struct sp_arena *arena)
{
    struct block *block = arena->newest;
    arena->newest = block->previous;
    ASAN_POISON_MEMORY_REGION(block_data(block), block->size);
    if (arena->spare == NULL || arena->spare->size < block->size) {
        free_block(arena->spare);
        arena->spare = block;
    } else {
        free_block(block);
    }
}

void sp_arena_rewind(struct sp_arena *arena, struct sp_arena_mark mark)
{
    while (arena->newest != mark.block) {
        assert(arena->newest != NULL); /* else the mark is of another arena, or was rewound past */
        drop_newest(arena);
    }
    if (arena->newest != NULL) {
        assert(mark.used <= arena->newest->used);
        ASAN_POISON_MEMORY_REGION(block_data(arena->newest) + mark.used, arena->newest->size - mark.used);
        arena->newest->used = mark.used;
    }
}

char *sp_strdup(struct sp_arena *arena, const char *text)
{
    return sp_strndup(arena, text, strlen(text));
}

/* Like POSIX strndup, stops at a NUL before `length`. */
char *sp_strndup(struct sp_arena *arena, const char *text, size_t length)
{
    size_t n_copied = strnlen(text, length);
    char *copy = sp_arena_alloc(arena, n_copied + 1);
    memcpy(copy, text, n_copied);
    return copy;
}

char *sp_format(struct sp_arena *arena, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    assert(length >= 0);

    size_t size = (size_t)length + 1;
    char *text = sp_arena_alloc(arena, size);
    va_start(args, format);
    (void)vsnprintf(text, size, format, args);
    va_end(args);
    return text;
}

void *sp_arena_grow(struct sp_arena *arena, const void *items, int64_t count, int64_t *capacity, size_t size)
{
    enum { FIRST = 64 };
    *capacity = *capacity > 0 ? 2 * *capacity : FIRST;
    void *larger = sp_arena_array(arena, (size_t)*capacity, size);
    if (count > 0) {
        memcpy(larger, items, (size_t)count * size);
    }
    return larger;
}
