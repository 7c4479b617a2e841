#include "report/report.h"
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

static const struct report_column columns[] = {
    {.heading = "name", .key = "name"},
    {.heading = "GiB", .key = "bytes", .is_right = true},
    {.heading = "unused", .key = "unused"},
    {.heading = "note", .key = "note", .is_note = true},
    {.heading = "raw", .key = "raw", .is_hidden = true},
};
enum { N_COLUMNS = (int)SP_COUNT_OF(columns) };

static struct report_grid sample(struct sp_arena *arena)
{
    struct report_grid grid;
    report_grid_init(&grid, arena, columns, N_COLUMNS);
    report_grid_add(&grid);
    report_grid_text(&grid, 0, "%s", "weights");
    report_grid_number(&grid, 1, 2403663872.0, "2.24");
    report_grid_bool(&grid, 4, true, "");
    report_grid_add(&grid);
    report_grid_text(&grid, 0, "a|b \xce\xbc"); /* a bar, and a character of two bytes */
    report_grid_number(&grid, 1, 10.0, "110.0");
    report_grid_text(&grid, 3, "said below");
    return grid;
}

/* What `print` writes in this format; the caller frees it. */
static char *printed(enum report_format format, const struct report_grid *grid, bool is_document)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    assert_non_null(file);
    const struct report_style style = {.file = file, .format = format};
    if (is_document) {
        report_grid_document(&style, grid, "things", "A title");
    } else {
        report_grid_print(&style, grid);
    }
    assert_int_equal(fclose(file), 0);
    return text;
}

static void expect(enum report_format format, bool is_document, const char *expected)
{
    struct sp_arena *arena = sp_arena_open();
    struct report_grid grid = sample(arena);
    char *text = printed(format, &grid, is_document);
    assert_string_equal(text, expected);
    free(text);
    sp_arena_close(arena);
}

static void a_table_aligns_its_columns(void **state)
{
    (void)state;
    expect(REPORT_TABLE, false,
           "  name       GiB\n"
           "  weights   2.24\n"
           "  a|b \xce\xbc    110.0\n"
           "      note said below\n");
}

static void a_narrow_gap_is_one_space(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    struct report_grid grid = sample(arena);
    int wide = report_grid_width(&grid);
    grid.gap = 1;
    assert_int_equal(report_grid_width(&grid), wide - 1);
    char *text = printed(REPORT_TABLE, &grid, false);
    assert_ptr_equal(strstr(text, "  name      GiB\n  weights  2.24\n"), text);
    free(text);
    sp_arena_close(arena);
}

static void markdown_has_a_rule_and_escapes_bars(void **state)
{
    (void)state;
    expect(REPORT_MARKDOWN, false,
           "| name | GiB | note |\n"
           "| --- | ---: | --- |\n"
           "| weights | 2.24 |  |\n"
           "| a\\|b \xce\xbc | 110.0 | said below |\n");
}

static void a_document_has_a_title(void **state)
{
    (void)state;
    expect(REPORT_TABLE, true,
           "A title\n\n"
           "  name       GiB\n"
           "  weights   2.24\n"
           "  a|b \xce\xbc    110.0\n"
           "      note said below\n");
}

static void json_and_csv_have_values_and_hidden_columns(void **state)
{
    (void)state;
    expect(
        REPORT_JSON, true,
        "{\n  \"schema\": \"seqplan.show/1\",\n  \"show\": \"things\",\n  \"rows\": [\n"
        "    {\"name\": \"weights\", \"bytes\": 2403663872, \"unused\": null, \"note\": null, \"raw\": true},\n"
        "    {\"name\": \"a|b \xce\xbc\", \"bytes\": 10, \"unused\": null, \"note\": \"said below\", \"raw\": null}\n"
        "  ]\n}\n");
    expect(REPORT_CSV, true,
           "name,bytes,unused,note,raw\n"
           "weights,2403663872,,,true\n"
           "a|b \xce\xbc,10,,said below,\n");
}

static void a_wide_last_column_breaks_into_lines(void **state)
{
    (void)state;
    static const struct report_column wide[] = {{.heading = "field"}, {.heading = "what"}};
    static const char words[] =
        "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
        "sixteen seventeen eighteen";
    struct sp_arena *arena = sp_arena_open();
    struct report_grid grid;
    report_grid_init(&grid, arena, wide, (int)SP_COUNT_OF(wide));
    report_grid_add(&grid);
    report_grid_text(&grid, 0, "gpu.l2");
    report_grid_text(&grid, 1, "%s", words);
    char *text = printed(REPORT_TABLE, &grid, false);
    assert_string_equal(text,
                        "  field   what\n"
                        "  gpu.l2  one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
                        "fifteen\n"
                        "          sixteen seventeen eighteen\n");
    free(text);
    sp_arena_close(arena);
}

static void lines_have_the_width_of_the_grid(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    struct report_grid grid = sample(arena);
    assert_int_equal(report_grid_width(&grid), 14); /* "weights" + 2 + "110.0" */
    const char **lines = report_grid_lines(&grid);
    for (int i = 0; i <= grid.n_rows; i++) {
        assert_int_equal(report_text_width(lines[i]), 14);
    }
    sp_arena_close(arena);
}

static void a_grid_grows(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    struct report_grid grid;
    report_grid_init(&grid, arena, columns, N_COLUMNS);
    for (int i = 0; i < 100; i++) {
        report_grid_add(&grid);
        report_grid_text(&grid, 0, "row %d", i);
    }
    const char **lines = report_grid_lines(&grid);
    assert_string_equal(lines[1], "row 0 ");
    assert_string_equal(lines[100], "row 99");
    sp_arena_close(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_aligns_its_columns),
        cmocka_unit_test(a_narrow_gap_is_one_space),
        cmocka_unit_test(markdown_has_a_rule_and_escapes_bars),
        cmocka_unit_test(a_document_has_a_title),
        cmocka_unit_test(json_and_csv_have_values_and_hidden_columns),
        cmocka_unit_test(a_wide_last_column_breaks_into_lines),
        cmocka_unit_test(lines_have_the_width_of_the_grid),
        cmocka_unit_test(a_grid_grows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
