#include "support/support.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A writer into memory. */
struct page {
    struct sp_json_writer writer;
    char *text;
    size_t size;
};

static void open_page(struct page *page)
{
    *page = (struct page){.text = NULL};
    page->writer.file = open_memstream(&page->text, &page->size);
    assert_non_null(page->writer.file);
}

static void check_page(struct page *page, const char *expected)
{
    assert_int_equal(fclose(page->writer.file), 0);
    assert_string_equal(page->text, expected);
    assert_int_equal(page->writer.depth, 0);
    free(page->text);
}

static void an_answer_is_indented(void **state)
{
    (void)state;
    struct page page;
    open_page(&page);
    struct sp_json_writer *writer = &page.writer;
    sp_json_begin_object(writer, NULL);
    sp_json_put_string(writer, "schema", "seqplan.estimate/1");
    sp_json_put_bool(writer, "fits", true);
    sp_json_put_bool(writer, "tp_sp", false);
    sp_json_put_null(writer, "step_time_low_s");
    sp_json_put_string(writer, "note", NULL);
    sp_json_begin_object(writer, "layout");
    sp_json_put_integer(writer, "tp", 8);
    sp_json_end_object(writer);
    sp_json_begin_array(writer, "warnings");
    sp_json_put_string(writer, NULL, "beyond max_position_embeddings");
    sp_json_put_number(writer, NULL, 12.31);
    sp_json_begin_object(writer, NULL);
    sp_json_end_object(writer);
    sp_json_end_array(writer);
    sp_json_begin_array(writer, "assumed");
    sp_json_end_array(writer);
    sp_json_end_object(writer);
    check_page(&page, "{\n"
                      "  \"schema\": \"seqplan.estimate/1\",\n"
                      "  \"fits\": true,\n"
                      "  \"tp_sp\": false,\n"
                      "  \"step_time_low_s\": null,\n"
                      "  \"note\": null,\n"
                      "  \"layout\": {\n"
                      "    \"tp\": 8\n"
                      "  },\n"
                      "  \"warnings\": [\n"
                      "    \"beyond max_position_embeddings\",\n"
                      "    12.31,\n"
                      "    {}\n"
                      "  ],\n"
                      "  \"assumed\": []\n"
                      "}\n");
}

static void a_compact_group_stands_on_one_line(void **state)
{
    (void)state;
    struct page page;
    open_page(&page);
    struct sp_json_writer *writer = &page.writer;
    sp_json_begin_object(writer, NULL);
    sp_json_begin_array(writer, "pp_layers");
    writer->is_compact = true;
    sp_json_put_integer(writer, NULL, 10);
    sp_json_put_integer(writer, NULL, 11);
    sp_json_end_array(writer);
    sp_json_put_integer(writer, "vpp", 1);
    sp_json_begin_object(writer, "placement");
    writer->is_compact = true;
    sp_json_put_string(writer, "tp", "nvlink");
    sp_json_begin_array(writer, "sp");
    sp_json_begin_array(writer, NULL);
    sp_json_put_null(writer, NULL);
    sp_json_end_array(writer);
    sp_json_put_bool(writer, NULL, true);
    sp_json_end_array(writer);
    sp_json_put_integer(writer, "pp", 2);
    sp_json_end_object(writer);
    sp_json_begin_array(writer, "empty");
    writer->is_compact = true;
    sp_json_end_array(writer);
    sp_json_put_integer(writer, "dp", 4);
    sp_json_end_object(writer);
    check_page(&page, "{\n"
                      "  \"pp_layers\": [10, 11],\n"
                      "  \"vpp\": 1,\n"
                      "  \"placement\": {\"tp\": \"nvlink\", \"sp\": [[null], true], \"pp\": 2},\n"
                      "  \"empty\": [],\n"
                      "  \"dp\": 4\n"
                      "}\n");
}

static void a_whole_document_may_be_compact(void **state)
{
    (void)state;
    struct page page;
    open_page(&page);
    struct sp_json_writer *writer = &page.writer;
    for (int line = 0; line < 2; line++) { /* JSON lines */
        sp_json_begin_array(writer, NULL);
        writer->is_compact = true;
        sp_json_begin_object(writer, NULL);
        sp_json_put_integer(writer, "line", line);
        sp_json_end_object(writer);
        sp_json_end_array(writer);
    }
    check_page(&page, "[{\"line\": 0}]\n[{\"line\": 1}]\n");
}

static void a_single_value_is_a_document(void **state)
{
    (void)state;
    struct page page;
    open_page(&page);
    sp_json_put_number(&page.writer, NULL, 0.25);
    check_page(&page, "0.25\n");
}

static void numbers_are_the_shortest_that_read_back(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *expected;
    } rows[] = {
        {0.0, "0"},
        {17.0, "17"},
        {-3.0, "-3"},
        {118111600640.0, "118111600640"},
        {1e15, "1000000000000000"},
        {9007199254740992.0, "9007199254740992"},
        {-9007199254740992.0, "-9007199254740992"},
        {1e17, "1e+17"},
        {6.02e23, "6.02e+23"},
        {0.1, "0.1"},
        {0.1 + 0.2, "0.30000000000000004"},
        {1.0 / 3.0, "0.3333333333333333"},
        {2.0 / 3.0, "0.6666666666666666"},
        {12.31, "12.31"},
        {1.2e-6, "1.2e-06"},
        {DBL_MAX, "1.7976931348623157e+308"},
        {DBL_TRUE_MIN, "4.94065645841247e-324"},
        {-0.5, "-0.5"},
    };
    for (size_t i = 0; i < SP_COUNT_OF(rows); i++) {
        struct page page;
        open_page(&page);
        sp_json_put_number(&page.writer, NULL, rows[i].value);
        assert_int_equal(fclose(page.writer.file), 0);
        page.text[page.size - 1] = '\0';
        assert_string_equal(page.text, rows[i].expected);
        assert_close(strtod(page.text, NULL), rows[i].value, 0.0);
        free(page.text);
    }
}

static void integers_are_whole_64_bits(void **state)
{
    (void)state;
    struct page page;
    open_page(&page);
    sp_json_begin_array(&page.writer, NULL);
    page.writer.is_compact = true;
    sp_json_put_integer(&page.writer, NULL, INT64_MAX);
    sp_json_put_integer(&page.writer, NULL, INT64_MIN);
    sp_json_put_integer(&page.writer, NULL, 0);
    sp_json_end_array(&page.writer);
    check_page(&page, "[9223372036854775807, -9223372036854775808, 0]\n");
}

static void strings_are_escaped(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *expected;
    } rows[] = {
        {"", "\"\"\n"},
        {"a\"b\\c/d", "\"a\\\"b\\\\c/d\"\n"},
        {"\b\f\n\r\t", "\"\\b\\f\\n\\r\\t\"\n"},
        {"\x01\x1f\x7f", "\"\\u0001\\u001f\x7f\"\n"},
        {"µs € 🚀", "\"µs € 🚀\"\n"},
        {"a\xff\xc3(b\xe2\x82", "\"a\xef\xbf\xbd\xef\xbf\xbd(b\xef\xbf\xbd\xef\xbf\xbd\"\n"}, /* not UTF-8 */
    };
    for (size_t i = 0; i < SP_COUNT_OF(rows); i++) {
        struct page page;
        open_page(&page);
        sp_json_put_string(&page.writer, NULL, rows[i].text);
        check_page(&page, rows[i].expected);
    }
}

static void keys_are_escaped_too(void **state)
{
    (void)state;
    struct page page;
    open_page(&page);
    sp_json_begin_object(&page.writer, NULL);
    sp_json_put_null(&page.writer, "a \"b\"\n");
    sp_json_end_object(&page.writer);
    check_page(&page, "{\n  \"a \\\"b\\\"\\n\": null\n}\n");
}

static void what_is_written_is_read_back(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    uint64_t random = UINT64_C(0x83179a11ce5bd00d);
    for (int i = 0; i < 3000; i++) {
        uint64_t bits = next_random(&random);
        double value = 0.0;
        memcpy(&value, &bits, sizeof(value));
        if (!isfinite(value)) {
            continue;
        }
        struct page page;
        open_page(&page);
        sp_json_put_number(&page.writer, NULL, value);
        assert_int_equal(fclose(page.writer.file), 0);
        struct sp_error err = {0};
        const struct sp_json *json = sp_json_parse(arena, "written", page.text, &err);
        assert_non_null(json);
        assert_close(json->number, value, 0.0);
        free(page.text);
    }
    sp_arena_close(arena);
}

static void write_number(void *data)
{
    struct sp_json_writer writer = {.file = stderr};
    sp_json_put_number(&writer, NULL, *(const double *)data);
}

static void end_too_often(void *data)
{
    (void)data;
    struct sp_json_writer writer = {.file = stderr};
    sp_json_end_object(&writer);
}

static void bugs_of_the_caller_abort(void **state)
{
    (void)state;
    static const int sigabrt = 128 + 6;
    double bad[] = {(double)NAN, HUGE_VAL, -HUGE_VAL};
    char output[4096];
    for (size_t i = 0; i < SP_COUNT_OF(bad); i++) {
        assert_int_equal(run_in_child(write_number, &bad[i], output, sizeof(output)), sigabrt);
        assert_non_null(strstr(output, "isfinite"));
    }
    assert_int_equal(run_in_child(end_too_often, NULL, output, sizeof(output)), sigabrt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_is_indented),
        cmocka_unit_test(a_compact_group_stands_on_one_line),
        cmocka_unit_test(a_whole_document_may_be_compact),
        cmocka_unit_test(a_single_value_is_a_document),
        cmocka_unit_test(numbers_are_the_shortest_that_read_back),
        cmocka_unit_test(integers_are_whole_64_bits),
        cmocka_unit_test(strings_are_escaped),
        cmocka_unit_test(keys_are_escaped_too),
        cmocka_unit_test(what_is_written_is_read_back),
        cmocka_unit_test(bugs_of_the_caller_abort),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
