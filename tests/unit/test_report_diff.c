/* Two answers item by item, from small answers written as JSON. */
#include "report/report.h"
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

static const struct sp_json *read_answer(struct sp_arena *arena, const char *text)
{
    struct sp_error err = {0};
    const struct sp_json *json = sp_json_parse(arena, "answer", text, &err);
    if (json == NULL) {
        fail_msg("%s", err.text);
    }
    return json;
}

#define ANSWER(tp, layers, step, rate, bubble, peak, logits, fits, communication)                                      \
    "{\"model\": \"tiny\", \"seq\": 1048576, \"layout\": {\"tp\": " tp ", \"pp_layers\": " layers                      \
    ", \"run\": {\"loss\": \"plain\"}}, \"fits\": " fits ", \"step_time_s\": " step                                    \
    ", \"tokens_per_s_per_gpu\": " rate ", \"mfu_frac\": 0.25, \"peak_bytes\": " peak                                  \
    ", \"headroom_bytes\": 1, \"time_s\": {\"gemm\": 2, \"bubble\": " bubble                                           \
    "}, \"memory_bytes\": {\"weights\": 1073741824, \"logits\": " logits "}, \"communication\": [" communication "]}"
#define SENT(axis, bytes, exposed)                                                                                     \
    "{\"axis\": \"" axis "\", \"operation\": \"ring\", \"pass\": \"forward\", \"bytes_per_layer_per_gpu\": " bytes     \
    ", \"bytes_per_step_per_gpu\": 1, \"time_s\": 1, \"exposed_s\": " exposed "}"

static const char slow[] = ANSWER("8", "[1, 2]", "5", "800", "3", "3221225472", "2147483648", "true",
                                  SENT("sp", "3e6", "0.5") "," SENT("dp", "1e6", "0"));
static const char fast[] = ANSWER("4", "[2, 1]", "4", "1000", "2", "6442450944", "5368709120", "true",
                                  SENT("sp", "1e6", "0.25") "," SENT("tp", "7e6", "0"));

static struct report_diff diff_of(struct sp_arena *arena, const char *a, const char *b)
{
    return (struct report_diff){
        .name_a = "--tp 8", .name_b = "b.json", .a = read_answer(arena, a), .b = read_answer(arena, b)};
}

static char *printed(enum report_format format, struct sp_arena *arena, const struct report_diff *diff)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    assert_non_null(file);
    const struct report_style style = {.file = file, .format = format};
    report_diff(&style, arena, diff);
    assert_int_equal(fclose(file), 0);
    return text;
}

static void expect(enum report_format format, const char *a, const char *b, const char *expected)
{
    struct sp_arena *arena = sp_arena_open();
    const struct report_diff diff = diff_of(arena, a, b);
    char *text = printed(format, arena, &diff);
    assert_string_equal(text, expected);
    free(text);
    sp_arena_close(arena);
}

static void the_largest_difference_stands_first(void **state)
{
    (void)state;
    expect(REPORT_TABLE, slow, fast,
           "A    --tp 8\n"
           "B    b.json\n"
           "same model tiny, seq 1M\n"
           "\n"
           "  setting    A    B\n"
           "  tp         8    4\n"
           "  pp layers  1,2  2,1\n"
           "\n"
           "  time s     A     B  A - B   memory GiB     A     B  A - B\n"
           "  bubble  3.00  2.00  +1.00   logits      2.00  5.00  -3.00\n"
           "  all     5.00  4.00  +1.00   all         3.00  6.00  -3.00\n"
           "\n"
           "  sent per layer MB     A     B  A - B   exposed s        A      B   A - B\n"
           "  tp ring fwd           0  7.00  -7.00   sp ring fwd  0.500  0.250  +0.250\n"
           "  sp ring fwd        3.00  1.00  +2.00\n"
           "  dp ring fwd        1.00     0  +1.00\n"
           "\n"
           "  A is 25.0 % slower than B: mostly bubble (+1.00 s); it needs 3.00 GiB less: mostly logits (-3.00\n"
           "  GiB)\n");
}

static void the_same_layout_has_no_list_of_settings(void **state)
{
    (void)state;
    expect(REPORT_TABLE, fast, fast,
           "A    --tp 8\n"
           "B    b.json\n"
           "same model tiny, seq 1M, tp 4\n"
           "\n"
           "  A and B are the same layout\n"
           "\n"
           "  time s     A     B  A - B   memory GiB     A     B  A - B\n"
           "  all     4.00  4.00      0   all         6.00  6.00      0\n"
           "\n"
           "  A is as fast as B; both need the same memory\n");
}

static void json_has_each_figure_of_both(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    const struct report_diff diff = diff_of(arena, slow, fast);
    char *text = printed(REPORT_JSON, arena, &diff);
    const struct sp_json *json = read_answer(arena, text);
    assert_string_equal(report_tree_at(json, "schema")->string, "seqplan.diff/1");
    assert_close(report_tree_at(json, "step_time_s.difference")->number, 1.0, 0.0);
    assert_close(report_tree_at(json, "memory_bytes.logits.difference")->number, -3221225472.0, 0.0);
    assert_close(report_tree_at(json, "time_s.gemm.difference")->number, 0.0, 0.0);
    const struct sp_json *tp = report_tree_at(json, "layout.tp");
    assert_int_equal(tp->count, 2);
    assert_close(tp->first->number, 8.0, 0.0);
    assert_close(tp->first->next->number, 4.0, 0.0);
    assert_int_equal(report_tree_at(json, "layout")->count, 2); /* run.loss is the same */
    assert_int_equal(report_tree_at(json, "communication")->count, 3);
    assert_close(report_tree_at(json, "b.step_time_s")->number, 4.0, 0.0);
    free(text);
    sp_arena_close(arena);
}

static const char *words(struct sp_arena *arena, const char *a, const char *b)
{
    const struct report_diff diff = diff_of(arena, a, b);
    return report_diff_words(arena, &diff);
}

static void words_know_who_fits_and_who_is_faster(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    assert_string_equal(words(arena, fast, slow), "A is 25.0 % faster than B: mostly bubble (-1.00 s); it needs 3.00 "
                                                  "GiB more: mostly logits (+3.00 GiB)");
    static const char large[] = ANSWER("4", "[2, 1]", "4", "1000", "2", "6442450944", "5368709120", "false", "");
    assert_non_null(strstr(words(arena, slow, large), "(-3.00 GiB); only A fits"));
    assert_non_null(strstr(words(arena, large, slow), "(+3.00 GiB); only B fits"));
    assert_non_null(strstr(words(arena, large, large), "; neither fits"));
    /* a smaller batch: a shorter step although each GPU does less */
    static const char small[] = ANSWER("4", "[2, 1]", "3", "700", "1", "6442450944", "5368709120", "true", "");
    assert_non_null(strstr(words(arena, small, fast), "A is 42.9 % slower than B per GPU; both"));
    sp_arena_close(arena);
}

static void a_second_item_is_named_when_it_matters(void **state)
{
    (void)state;
    static const char a[] =
        "{\"fits\": true, \"tokens_per_s_per_gpu\": 1, \"step_time_s\": 10, \"peak_bytes\": 0, \"time_s\": "
        "{\"gemm\": 5, \"sp_exposed\": 4, \"other\": 1}, \"memory_bytes\": {}}";
    static const char b[] =
        "{\"fits\": true, \"tokens_per_s_per_gpu\": 2, \"step_time_s\": 5, \"peak_bytes\": 0, \"time_s\": "
        "{\"gemm\": 2, \"sp_exposed\": 2.4, \"other\": 0.6}, \"memory_bytes\": {}}";
    struct sp_arena *arena = sp_arena_open();
    assert_string_equal(words(arena, a, b), "A is 100.0 % slower than B: mostly gemm (+3.00 s), then sp exposed "
                                            "(+1.60 s); both need the same memory");
    sp_arena_close(arena);
}

static void markdown_begins_with_the_words(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    const struct report_diff diff = diff_of(arena, slow, fast);
    char *text = printed(REPORT_MARKDOWN, arena, &diff);
    assert_ptr_equal(strstr(text, "**A is 25.0 % slower than B: mostly bubble (+1.00 s); "), text);
    assert_non_null(strstr(text, "- A: `--tp 8`\n- B: `b.json`\n- same: model tiny, seq 1M\n\n| setting | A | B |\n"));
    assert_non_null(strstr(text, "| bubble | 3.00 | 2.00 | +1.00 |\n"));
    assert_non_null(strstr(text, "| tp ring fwd | 0 | 7.00 | -7.00 |\n"));
    free(text);
    sp_arena_close(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest_difference_stands_first),
        cmocka_unit_test(the_same_layout_has_no_list_of_settings),
        cmocka_unit_test(json_has_each_figure_of_both),
        cmocka_unit_test(words_know_who_fits_and_who_is_faster),
        cmocka_unit_test(a_second_item_is_named_when_it_matters),
        cmocka_unit_test(markdown_begins_with_the_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
