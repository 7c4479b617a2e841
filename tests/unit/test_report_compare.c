/* Methods side by side: the best interconnect, the table and its words, from small answers written as JSON. */
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

static const struct sp_json *with_links(struct sp_arena *arena, const struct report_link *links, int n_links)
{
    return report_answer_with_links(arena, read_answer(arena, "{\"seq\": 7}"), links, n_links);
}

static void expect_best(const struct report_link *links, int n_links, const char *best)
{
    struct sp_arena *arena = sp_arena_open();
    const struct sp_json *answer = with_links(arena, links, n_links);
    assert_string_equal(report_tree_at(answer, "best_interconnect")->string, best);
    assert_close(report_tree_at(answer, "seq")->number, 7.0, 0.0);
    sp_arena_close(arena);
}

static void the_best_link_is_the_slowest_that_costs_little(void **state)
{
    (void)state;
    const struct report_link cheap[] = {
        {"nvlink", 450e9, 1.0, false}, {"ib-ndr", 50e9, 1.049, false}, {"eth-100g", 12.5e9, 1.051, false}};
    expect_best(cheap, 3, "ib-ndr");
    const struct report_link all[] = {{"nvlink", 450e9, 1.0, false}, {"eth-100g", 12.5e9, 1.05, false}};
    expect_best(all, 2, "eth-100g");
}

static void the_bound_sets_the_fastest_and_is_never_the_best(void **state)
{
    (void)state;
    const struct report_link near[] = {{"ib-ndr", 50e9, 1.04, false}, {"ideal", 50e9, 1.0, true}};
    expect_best(near, 2, "ib-ndr");
    /* none is within 5 %: the fastest that exists, and what it costs */
    const struct report_link far[] = {
        {"ib-xdr", 100e9, 1.1, false}, {"ib-ndr", 50e9, 1.2, false}, {"ideal", 50e9, 1.0, true}};
    expect_best(far, 3, "ib-xdr");
    struct sp_arena *arena = sp_arena_open();
    const struct sp_json *first = report_tree_at(with_links(arena, far, 3), "interconnects")->first;
    assert_string_equal(report_tree_at(first, "name")->string, "ib-xdr");
    assert_close(report_tree_at(first, "cost_frac")->number, 0.1, 1e-12);
    sp_arena_close(arena);
}

#define ROW(method, sp, dp, step, rate, fits, headroom, attention, exposed, sent)                                      \
    "{\"model\": \"tiny\", \"seq\": 131072, \"layout\": {\"sp\": " sp ", \"sp_method\": \"" method                     \
    "\", \"framework\": \"megatron\", \"dp\": " dp "}, \"fits\": " fits                                                \
    ", \"peak_bytes\": 53687091200, \"capacity_bytes\": 85899345920, \"headroom_bytes\": " headroom                    \
    ", \"memory_bytes\": {\"weights\": 1, \"logits\": 42949672960}, \"step_time_s\": " step                            \
    ", \"tokens_per_s_per_gpu\": " rate                                                                                \
    ", \"mfu_frac\": 0.25, \"bound\": \"gemm\", \"time_s\": {\"attention\": " attention ", \"sp_exposed\": " exposed   \
    "}, \"communication\": [" sent "], \"warnings\": [], \"assumed\": []}"
#define SENT(operation, pass, bytes, exposed)                                                                          \
    "{\"axis\": \"sp\", \"operation\": \"" operation "\", \"pass\": \"" pass "\", \"bytes_per_layer_per_gpu\": " bytes \
    ", \"exposed_s\": " exposed "}"

static const char zigzag[] = ROW("zigzag", "8", "1", "10", "1000", "true", "32212254720", "9", "1",
                                 SENT("ring", "forward", "1e9", "0.4") "," SENT("ring", "backward", "2e9", "0.6"));
static const char ulysses[] =
    ROW("ulysses", "8", "1", "12.5", "800", "true", "32212254720", "9", "3.5",
        SENT("all-to-all", "forward", "5e8", "1.5") "," SENT("all-to-all", "backward", "5e8", "1.5"));
static const char none[] = ROW("none", "1", "8", "9", "1100", "false", "-10737418240", "9", "0", "");

/* none does not fit, ulysses fits, zigzag is refused or fits. */
static struct report_rows sample(struct sp_arena *arena, bool is_refused)
{
    static const char *const names[] = {"sp-method"};
    static const char *const values[3][1] = {{"none"}, {"ulysses"}, {"zigzag"}};
    const struct sp_error err = {.kind = SP_ERROR_USAGE, .rule = "a_rule", .text = "it breaks a rule"};
    const struct sp_json *layout = read_answer(arena, "{\"sp\": 8, \"framework\": \"megatron\"}");
    struct report_row *rows = sp_arena_array(arena, 3, sizeof(*rows));
    rows[0] = (struct report_row){values[0], read_answer(arena, none)};
    rows[1] = (struct report_row){values[1], read_answer(arena, ulysses)};
    rows[2] = (struct report_row){values[2],
                                  is_refused ? report_error_tree(arena, layout, &err) : read_answer(arena, zigzag)};
    return (struct report_rows){.names = names, .n_names = 1, .rows = rows, .n_rows = 3, .is_comparison = true};
}

static char *printed(enum report_format format, struct sp_arena *arena, const struct report_rows *rows)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    assert_non_null(file);
    const struct report_style style = {.file = file, .format = format};
    report_compare(&style, arena, rows);
    assert_int_equal(fclose(file), 0);
    return text;
}

static void expect(enum report_format format, bool is_refused, const char *expected)
{
    struct sp_arena *arena = sp_arena_open();
    const struct report_rows rows = sample(arena, is_refused);
    char *text = printed(format, arena, &rows);
    assert_string_equal(text, expected);
    free(text);
    sp_arena_close(arena);
}

static void the_table_says_why_not_and_which_is_faster(void **state)
{
    (void)state;
    expect(REPORT_TABLE, false,
           "model tiny, seq 128K, sp 8, dp 1, framework megatron; sp 1, dp 8 for none, which does not split the\n"
           "sequence\n"
           "\n"
           "  method   framework     GB/layer   GiB  fits  step s  tokens/s  MFU %  bound\n"
           "  none     megatron             -  50.0  no      9.00      1100   25.0  gemm\n"
           "      does not fit: 10.0 GiB missing; logits alone need 40.0 GiB\n"
           "  ulysses  megatron   0.500+0.500  50.0  yes     12.5       800   25.0  gemm\n"
           "  zigzag   megatron     1.00+2.00  50.0  yes     10.0      1000   25.0  gemm\n"
           "\n"
           "  columns  GB/layer: sent by a GPU for one micro-batch, forward+backward; GiB: peak; tokens/s: per\n"
           "           GPU\n"
           "\n"
           "  fastest  zigzag (1000 tokens/s/GPU) of those that fit\n"
           "  why      zigzag: 25.0 % faster than ulysses, whose all-to-alls are exposed (+2.50 s)\n");
}

static void a_refused_method_keeps_its_row(void **state)
{
    (void)state;
    expect(
        REPORT_MARKDOWN, true,
        "**model tiny, seq 128K, sp 8, dp 1, framework megatron; sp 1, dp 8 for none, which does "
        "not split the sequence**\n"
        "\n"
        "| method | framework | GB/layer | GiB | fits | step s | tokens/s | MFU % | bound | why not |\n"
        "| --- | --- | ---: | ---: | --- | ---: | ---: | ---: | --- | --- |\n"
        "| none | megatron | - | 50.0 | no | 9.00 | 1100 | 25.0 | gemm | does not fit: 10.0 GiB missing; logits alone "
        "need 40.0 GiB |\n"
        "| ulysses | megatron | 0.500+0.500 | 50.0 | yes | 12.5 | 800 | 25.0 | gemm |  |\n"
        "| zigzag | megatron |  |  |  |  |  |  |  | refused: it breaks a rule |\n"
        "\n"
        "GB/layer: sent by a GPU for one micro-batch, forward+backward; GiB: peak; tokens/s: per GPU\n"
        "\n"
        "- fastest: ulysses (800 tokens/s/GPU) of those that fit\n");
}

static void none_of_them_fits(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    struct report_rows rows = sample(arena, false);
    rows.n_rows = 1;
    char *text = printed(REPORT_TABLE, arena, &rows);
    assert_non_null(strstr(text, "  fastest  none fits; nearest: none (peak 50.0 of 80.0 GiB)\n"));
    free(text);
    sp_arena_close(arena);
}

static void rows_in_json_are_answers_without_what_varies(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    const struct report_rows rows = sample(arena, true);
    char *text = printed(REPORT_JSON, arena, &rows);
    const struct sp_json *json = read_answer(arena, text);
    assert_string_equal(report_tree_at(json, "schema")->string, "seqplan.table/1");
    const struct sp_json *row = report_tree_at(json, "rows")->first;
    assert_null(sp_json_member(row, "vary"));
    assert_string_equal(report_tree_at(row, "layout.sp_method")->string, "none");
    assert_string_equal(report_tree_at(row->next->next, "error.rule")->string, "a_rule");
    free(text);
    sp_arena_close(arena);
}

static void a_best_link_that_costs_says_how_much(void **state)
{
    (void)state;
    const struct report_link far[] = {{"ib-xdr", 100e9, 1.091, false}, {"ideal", 50e9, 1.0, true}};
    const struct report_link near[] = {{"nvlink", 450e9, 1.0, false}, {"eth-100g", 12.5e9, 1.03, false}};
    struct sp_arena *arena = sp_arena_open();
    struct report_rows rows = sample(arena, false);
    struct report_row changed[3];
    memcpy(changed, rows.rows, sizeof(changed));
    changed[1].answer = report_answer_with_links(arena, changed[1].answer, far, 2);
    changed[2].answer = report_answer_with_links(arena, changed[2].answer, near, 2);
    rows.rows = changed;
    char *text = printed(REPORT_TABLE, arena, &rows);
    assert_non_null(strstr(text, "  gemm   ib-xdr +9.1%\n"));
    assert_non_null(strstr(text, "  gemm   eth-100g\n"));
    /* wrapped: only the beginning stands on one line */
    assert_non_null(strstr(text, "best link: the slowest that costs at most 5 %"));
    free(text);
    sp_arena_close(arena);
}

/* Exposed time that is not on a link is merges and copies. */
static void merges_are_told_from_transfers(void **state)
{
    (void)state;
    static const char slow[] = ROW("ulysses", "8", "1", "12.5", "800", "true", "1e10", "9", "3.5",
                                   SENT("all-to-all", "forward", "5e8", "0.5"));
    struct sp_arena *arena = sp_arena_open();
    struct report_rows rows = sample(arena, false);
    struct report_row changed[3];
    memcpy(changed, rows.rows, sizeof(changed));
    changed[1].answer = read_answer(arena, slow);
    rows.rows = changed;
    char *text = printed(REPORT_TABLE, arena, &rows);
    assert_non_null(strstr(text, "faster than ulysses, whose merges and copies take longer (+2.50 s)\n"));
    free(text);
    sp_arena_close(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_link_is_the_slowest_that_costs_little),
        cmocka_unit_test(the_bound_sets_the_fastest_and_is_never_the_best),
        cmocka_unit_test(the_table_says_why_not_and_which_is_faster),
        cmocka_unit_test(a_refused_method_keeps_its_row),
        cmocka_unit_test(none_of_them_fits),
        cmocka_unit_test(rows_in_json_are_answers_without_what_varies),
        cmocka_unit_test(a_best_link_that_costs_says_how_much),
        cmocka_unit_test(merges_are_told_from_transfers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
