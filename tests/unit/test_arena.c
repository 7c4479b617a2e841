#include "support/support.h"

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

/* A malloc that cannot be served returns NULL, as it does without the sanitizer. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}
#endif

enum { LARGE = 300000 }; /* more than a block */

static void memory_is_aligned_and_zero(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    static const size_t sizes[] = {0, 1, 7, 15, 16, 17, 48, 4095, 65536, LARGE, 3};
    for (size_t round = 0; round < 3; round++) {
        struct sp_arena_mark mark = sp_arena_mark(arena);
        for (size_t i = 0; i < SP_COUNT_OF(sizes); i++) {
            unsigned char *at = sp_arena_alloc(arena, sizes[i]);
            assert_int_equal((uintptr_t)at % 16, 0);
            for (size_t j = 0; j < sizes[i]; j++) {
                assert_int_equal(at[j], 0);
            }
            memset(at, 0xa5, sizes[i]); /* must not show in the next round */
        }
        sp_arena_rewind(arena, mark);
    }
    sp_arena_close(arena);
}

static void pieces_do_not_overlap(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    unsigned char *pieces[500];
    for (size_t i = 0; i < SP_COUNT_OF(pieces); i++) {
        pieces[i] = sp_arena_alloc(arena, i + 1);
        memset(pieces[i], (int)(i % 251), i + 1);
    }
    for (size_t i = 0; i < SP_COUNT_OF(pieces); i++) {
        assert_int_equal(pieces[i][0], i % 251);
        assert_int_equal(pieces[i][i], i % 251);
    }
    sp_arena_close(arena);
}

static void empty_pieces_are_distinct(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    const void *first = sp_arena_alloc(arena, 0);
    const void *second = sp_arena_alloc(arena, 0);
    assert_non_null(first);
    assert_ptr_not_equal(first, second);
    assert_non_null(sp_arena_array(arena, 0, 24));
    assert_non_null(sp_arena_array(arena, 24, 0));
    sp_arena_close(arena);
}

static void used_counts_what_is_handed_out(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    assert_int_equal(sp_arena_used(arena), 0);
    (void)sp_arena_alloc(arena, 33);
    assert_int_equal(sp_arena_used(arena), 48);
    (void)sp_arena_alloc(arena, LARGE);
    assert_int_equal(sp_arena_used(arena), 48 + LARGE);
    (void)sp_arena_array(arena, 5, 32);
    assert_int_equal(sp_arena_used(arena), 48 + LARGE + 160);
    sp_arena_close(arena);
}

static void rewind_goes_back_over_blocks(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    struct sp_arena_mark empty = sp_arena_mark(arena);
    char *kept = sp_strdup(arena, "kept through every rewind");
    size_t used = sp_arena_used(arena);
    struct sp_arena_mark mark = sp_arena_mark(arena);
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 7; i++) {
            (void)sp_arena_alloc(arena, 50000);
        }
        assert_int_equal(sp_arena_used(arena), used + 350000);
        sp_arena_rewind(arena, mark);
        assert_int_equal(sp_arena_used(arena), used);
        assert_string_equal(kept, "kept through every rewind");
    }
    sp_arena_rewind(arena, empty);
    assert_int_equal(sp_arena_used(arena), 0);
    assert_string_equal(sp_strdup(arena, "still usable"), "still usable");
    sp_arena_close(arena);
}

static void rewound_memory_is_handed_out_again(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    (void)sp_arena_alloc(arena, 16);
    struct sp_arena_mark mark = sp_arena_mark(arena);
    const void *first = sp_arena_alloc(arena, 100);
    sp_arena_rewind(arena, mark);
    assert_ptr_equal(sp_arena_alloc(arena, 100), first);

    /* A block that was added and rewound is kept: no malloc for each candidate of a search. */
    sp_arena_rewind(arena, mark);
    const void *large = sp_arena_alloc(arena, LARGE);
    sp_arena_rewind(arena, mark);
    assert_ptr_equal(sp_arena_alloc(arena, LARGE), large);
    sp_arena_close(arena);
}

static void close_takes_null(void **state)
{
    (void)state;
    sp_arena_close(NULL);
}

static void rewound_memory_is_poisoned(void **state)
{
    (void)state;
#if defined(HAS_ADDRESS_SANITIZER)
    struct sp_arena *arena = sp_arena_open();
    const char *before = sp_arena_alloc(arena, 24);
    struct sp_arena_mark mark = sp_arena_mark(arena);
    const char *near = sp_arena_alloc(arena, 40);
    const char *far = sp_arena_alloc(arena, LARGE);
    assert_false(__asan_address_is_poisoned(far + LARGE - 1));
    assert_true(__asan_address_is_poisoned(near + 40)); /* the padding to 48 */
    sp_arena_rewind(arena, mark);
    assert_true(__asan_address_is_poisoned(near));
    assert_true(__asan_address_is_poisoned(near + 39));
    assert_true(__asan_address_is_poisoned(far)); /* in the block that is kept for later */
    assert_false(__asan_address_is_poisoned(before + 23));
    sp_arena_close(arena);
#endif
}

static void strings_are_copied(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    char original[] = "llama-3.1-405b";
    char *copy = sp_strdup(arena, original);
    original[0] = 'L';
    assert_string_equal(copy, "llama-3.1-405b");

    static const struct {
        size_t length;
        const char *expected;
    } rows[] = {{0, ""}, {1, "L"}, {5, "Llama"}, {14, "Llama-3.1-405b"}, {99, "Llama-3.1-405b"}};
    for (size_t i = 0; i < SP_COUNT_OF(rows); i++) {
        assert_string_equal(sp_strndup(arena, original, rows[i].length), rows[i].expected);
    }
    sp_arena_close(arena);
}

static void format_makes_room_for_any_length(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    assert_string_equal(sp_format(arena, "%s x %d = %.3f", "tp", 8, 0.125), "tp x 8 = 0.125");
    assert_string_equal(sp_format(arena, "%s", ""), "");
    const char *wide = sp_format(arena, "%*d", LARGE, 7);
    assert_int_equal(strlen(wide), LARGE);
    assert_int_equal(wide[LARGE - 1], '7');
    sp_arena_close(arena);
}

struct request {
    size_t count;
    size_t size;
};

static void request_array(void *data)
{
    static struct sp_arena *volatile arena; /* reachable when the child exits in the middle: no leak */
    const struct request *request = data;
    arena = sp_arena_open();
    (void)sp_arena_array(arena, request->count, request->size);
}

static void out_of_memory_exits_with_4(void **state)
{
    (void)state;
    static const struct request rows[] = {
        {SIZE_MAX, 2},            /* the product overflows */
        {SIZE_MAX / 24 + 1, 24},  /* just */
        {1, SIZE_MAX},            /* rounding up overflows */
        {1, SIZE_MAX - 16},       /* adding the header overflows */
        {1, SIZE_MAX / 2 - 4095}, /* no overflow, but no machine has it */
    };
    for (size_t i = 0; i < SP_COUNT_OF(rows); i++) {
        char output[4096];
        struct request request = rows[i];
        assert_int_equal(run_in_child(request_array, &request, output, sizeof(output)), 4);
        assert_non_null(strstr(output, "seqplan: out of memory"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_aligned_and_zero),
        cmocka_unit_test(pieces_do_not_overlap),
        cmocka_unit_test(empty_pieces_are_distinct),
        cmocka_unit_test(used_counts_what_is_handed_out),
        cmocka_unit_test(rewind_goes_back_over_blocks),
        cmocka_unit_test(rewound_memory_is_handed_out_again),
        cmocka_unit_test(close_takes_null),
        cmocka_unit_test(rewound_memory_is_poisoned),
        cmocka_unit_test(strings_are_copied),
        cmocka_unit_test(format_makes_room_for_any_length),
        cmocka_unit_test(out_of_memory_exits_with_4),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
