#include "support/support.h"

#include <string.h>

static void texts_are_kept_once_in_order(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    struct sp_texts texts = {.arena = arena};
    assert_false(sp_texts_has(&texts, "efficiency of NDR"));
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 37; i++) {
            sp_texts_add(&texts, "input %d of %s", i, "ib-ndr");
        }
    }
    assert_int_equal(texts.count, 37);
    assert_string_equal(texts.items[0], "input 0 of ib-ndr");
    assert_string_equal(texts.items[36], "input 36 of ib-ndr");
    assert_true(sp_texts_has(&texts, "input 19 of ib-ndr"));
    assert_false(sp_texts_has(&texts, "input 37 of ib-ndr"));
    assert_false(sp_texts_has(&texts, "input"));
    sp_arena_close(arena);
}

static void a_repeated_text_takes_no_memory(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    struct sp_texts texts = {.arena = arena};
    sp_texts_add(&texts, "recompute full");
    size_t used = sp_arena_used(arena);
    for (int i = 0; i < 100; i++) {
        sp_texts_add(&texts, "%s full", "recompute");
    }
    assert_int_equal(sp_arena_used(arena), used);
    sp_arena_close(arena);
}

static void nearest_name_is_found(void **state)
{
    (void)state;
    static const char *const names[] = {"ulysses",           "ring", "zigzag", "striped", "usp", "double-ring",
                                        "gpu.hbm_bandwidth", "k"};
    static const struct {
        const char *text;
        const char *expected;
    } rows[] = {
        {"ulyses", "ulysses"},  /* one missing */
        {"ulysess", "ulysses"}, /* two changed, limit two */
        {"ulsyess", "ulysses"}, /* two swaps */
        {"ulsyesx", NULL},      /* three changes */
        {"ulyssse", "ulysses"}, /* a swap costs one */
        {"rnig", "ring"},       /* and fits into a limit of one */
        {"rxxg", NULL},         /* two changed, limit one */
        {"ringg", "ring"},      /* one too many */
        {"rign", "ring"},
        {"gnir", NULL}, /* neighbours must swap, not just occur */
        {"rinh", "ring"},
        {"rimh", NULL},
        {"ZIGZAG", "zigzag"}, /* case is free */
        {"stripd", "striped"},
        {"us", "usp"}, /* at least one change is allowed */
        {"doublering", "double-ring"},
        {"gpu.hbm_bandwith", "gpu.hbm_bandwidth"},
        {"gpu.bandwidth", "gpu.hbm_bandwidth"}, /* four changes of thirteen letters */
        {"attention", NULL},
        {"", NULL},
    };
    for (size_t i = 0; i < SP_COUNT_OF(rows); i++) {
        const char *found = sp_nearest(rows[i].text, names, SP_COUNT_OF(names));
        if (rows[i].expected == NULL) {
            assert_null(found);
        } else {
            assert_non_null(found);
            assert_string_equal(found, rows[i].expected);
        }
    }
}

static void nearest_prefers_the_closest_then_the_first(void **state)
{
    (void)state;
    static const char *const names[] = {"qwen3-32b", "qwen3-8b", "qwen3-9b"};
    assert_string_equal(sp_nearest("qwen3-7b", names, 3), "qwen3-8b");
    assert_string_equal(sp_nearest("qwen3-9", names, 3), "qwen3-9b");
    assert_null(sp_nearest("qwen3-7b", names, 0));
}

static void overlong_names_are_not_compared(void **state)
{
    (void)state;
    char text[400];
    memset(text, 'a', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    const char *names[] = {text, "aa"};
    assert_null(sp_nearest(text, names, 2));
    assert_string_equal(sp_nearest("aaa", names, 2), "aa");
    text[128] = '\0'; /* the longest that is */
    assert_ptr_equal(sp_nearest(text, names, 2), text);
}

static void names_are_joined(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    static const char *const names[] = {"bf16", "fp8", "", "fp32"};
    assert_string_equal(sp_join(arena, names, 4, ", "), "bf16, fp8, , fp32");
    assert_string_equal(sp_join(arena, names, 2, "|"), "bf16|fp8");
    assert_string_equal(sp_join(arena, names, 1, ", "), "bf16");
    assert_string_equal(sp_join(arena, names, 0, ", "), "");
    sp_arena_close(arena);
}

static void index_of_matches_exactly(void **state)
{
    (void)state;
    static const char *const names[] = {"none", "selective", "full", NULL};
    static const char *const nothing[] = {NULL};
    assert_int_equal(sp_index_of("none", names), 0);
    assert_int_equal(sp_index_of("full", names), 2);
    assert_int_equal(sp_index_of("Full", names), -1);
    assert_int_equal(sp_index_of("ful", names), -1);
    assert_int_equal(sp_index_of("", names), -1);
    assert_int_equal(sp_index_of("full", nothing), -1);
}

static void utf8_sequences_are_measured(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t expected;
    } rows[] = {
        {"", 0},
        {"q", 1},
        {"\x7f", 1},
        {"\xc2\x80", 2},         /* U+0080 */
        {"\xdf\xbf", 2},         /* U+07FF */
        {"\xe0\xa0\x80", 3},     /* U+0800 */
        {"\xed\x9f\xbf", 3},     /* U+D7FF */
        {"\xee\x80\x80", 3},     /* U+E000 */
        {"\xf0\x90\x80\x80", 4}, /* U+10000 */
        {"\xf4\x8f\xbf\xbf", 4}, /* U+10FFFF */
        {"\x80", 0},             /* starts in the middle */
        {"\xc0\x80", 0},         /* NUL, overlong */
        {"\xc1\xbf", 0},         /* overlong */
        {"\xe0\x9f\xbf", 0},     /* overlong */
        {"\xed\xa0\x80", 0},     /* a surrogate */
        {"\xf0\x8f\xbf\xbf", 0}, /* overlong */
        {"\xf4\x90\x80\x80", 0}, /* above U+10FFFF */
        {"\xf5\x80\x80\x80", 0},
        {"\xff", 0},
        {"\xc3", 0}, /* cut off */
        {"\xe2\x82", 0},
        {"\xf0\x9f\x9a", 0},
        {"\xe2\x28\xa1", 0}, /* a plain letter in the middle */
        {"\xf0\x9f\x9a\xc0", 0},
    };
    for (size_t i = 0; i < SP_COUNT_OF(rows); i++) {
        assert_int_equal(sp_utf8_length(rows[i].text), rows[i].expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_kept_once_in_order),    cmocka_unit_test(a_repeated_text_takes_no_memory),
        cmocka_unit_test(nearest_name_is_found),           cmocka_unit_test(nearest_prefers_the_closest_then_the_first),
        cmocka_unit_test(overlong_names_are_not_compared), cmocka_unit_test(names_are_joined),
        cmocka_unit_test(index_of_matches_exactly),        cmocka_unit_test(utf8_sequences_are_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
