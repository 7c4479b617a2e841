#include "report/report.h"
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

struct sample {
    const char *name;
    int64_t gpus;
    int zero;
    double time_s;
    bool fits;
    enum dtype precision;
};

static const struct report_key sample_keys[] = {
    {"name", REPORT_KEY_STRING, offsetof(struct sample, name), NULL},
    {"gpus", REPORT_KEY_INTEGER, offsetof(struct sample, gpus), NULL},
    {"zero", REPORT_KEY_INT, offsetof(struct sample, zero), NULL},
    {"time_s", REPORT_KEY_NUMBER, offsetof(struct sample, time_s), NULL},
    {"fits", REPORT_KEY_BOOL, offsetof(struct sample, fits), NULL},
    {"precision", REPORT_KEY_NAME, offsetof(struct sample, precision), dtype_names},
    {.key = NULL},
};

static const struct sample one = {.name = "a \"b\", c",
                                  .gpus = 9007199254740993 - 1,
                                  .zero = 3,
                                  .time_s = 0.1 + 0.2,
                                  .fits = true,
                                  .precision = DTYPE_FP16};

/* An object with everything: members of a struct, null, lists of texts, of numbers and of objects, an empty list. */
static const struct sp_json *sample_tree(struct sp_arena *arena)
{
    struct sp_texts texts = {.arena = arena};
    sp_texts_add(&texts, "first");
    sp_texts_add(&texts, "second");
    const struct sp_texts none = {.arena = arena};
    struct report_tree tree;
    report_tree_open(&tree, arena);
    report_tree_keys(&tree, sample_keys, &one);
    report_tree_null(&tree, "low_s");
    report_tree_texts(&tree, "warnings", &texts);
    report_tree_texts(&tree, "assumed", &none);
    report_tree_begin(&tree, "layers", SP_JSON_ARRAY);
    report_tree_number(&tree, NULL, 7);
    report_tree_number(&tree, NULL, 7);
    report_tree_end(&tree);
    report_tree_begin(&tree, "rows", SP_JSON_ARRAY);
    report_tree_begin(&tree, NULL, SP_JSON_OBJECT);
    report_tree_string(&tree, "axis", "tp");
    report_tree_bool(&tree, "hidden", false);
    report_tree_end(&tree);
    report_tree_end(&tree);
    return report_tree_close(&tree);
}

static char *printed_json(const struct sp_json *value)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    assert_non_null(file);
    report_tree_write(value, file);
    assert_int_equal(fclose(file), 0);
    return text;
}

static char *printed_csv(struct sp_arena *arena, const struct sp_json *const *objects, int n_objects)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    assert_non_null(file);
    report_csv_write(arena, objects, n_objects, file);
    assert_int_equal(fclose(file), 0);
    return text;
}

static void a_tree_prints_as_json_that_reads_back(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    char *text = printed_json(sample_tree(arena));
    assert_string_equal(text, "{\n"
                              "  \"name\": \"a \\\"b\\\", c\",\n"
                              "  \"gpus\": 9007199254740992,\n"
                              "  \"zero\": 3,\n"
                              "  \"time_s\": 0.30000000000000004,\n"
                              "  \"fits\": true,\n"
                              "  \"precision\": \"fp16\",\n"
                              "  \"low_s\": null,\n"
                              "  \"warnings\": [\n"
                              "    \"first\",\n"
                              "    \"second\"\n"
                              "  ],\n"
                              "  \"assumed\": [],\n"
                              "  \"layers\": [7, 7],\n"
                              "  \"rows\": [\n"
                              "    {\"axis\": \"tp\", \"hidden\": false}\n"
                              "  ]\n"
                              "}\n");
    struct sp_error err = {0};
    const struct sp_json *read = sp_json_parse(arena, "text", text, &err);
    assert_non_null(read);
    assert_close(report_tree_at(read, "time_s")->number, one.time_s, 0.0);
    free(text);
    sp_arena_close(arena);
}

static void paths_find_members(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    struct sp_error err = {0};
    const struct sp_json *json = sp_json_parse(arena, "text", "{\"a\": {\"b\": {\"c\": 41}}, \"d\": 1}", &err);
    assert_non_null(json);
    assert_close(report_tree_at(json, "a.b.c")->number, 41.0, 0.0);
    assert_close(report_tree_at(json, "d")->number, 1.0, 0.0);
    assert_null(report_tree_at(json, "a.x.c"));
    assert_null(report_tree_at(json, "d.e"));
    sp_arena_close(arena);
}

static void csv_flattens_quotes_and_joins(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    const struct sp_json *tree = sample_tree(arena);
    char *text = printed_csv(arena, &tree, 1);
    assert_string_equal(
        text, "name,gpus,zero,time_s,fits,precision,low_s,warnings,assumed,layers,rows.0.axis,rows.0.hidden\n"
              "\"a \"\"b\"\", c\",9007199254740992,3,0.30000000000000004,true,fp16,,first; second,,7; 7,tp,false\n");
    free(text);
    sp_arena_close(arena);
}

static void csv_columns_are_those_of_all_objects(void **state)
{
    (void)state;
    static const char *const texts[] = {"{\"a\": 1, \"b\": 2}", "{\"b\": 3, \"error\": {\"text\": \"line\\nbreak\"}}",
                                        "{\"a\": 5}"};
    struct sp_arena *arena = sp_arena_open();
    const struct sp_json *objects[SP_COUNT_OF(texts)];
    for (size_t i = 0; i < SP_COUNT_OF(texts); i++) {
        struct sp_error err = {0};
        objects[i] = sp_json_parse(arena, "text", texts[i], &err);
        assert_non_null(objects[i]);
    }
    char *text = printed_csv(arena, objects, (int)SP_COUNT_OF(texts));
    assert_string_equal(text, "a,b,error.text\n1,2,\n,3,\"line\nbreak\"\n5,,\n");
    free(text);
    sp_arena_close(arena);
}

static void csv_has_room_for_many_columns(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    struct report_tree tree;
    report_tree_open(&tree, arena);
    for (int i = 0; i < 1000; i++) {
        report_tree_number(&tree, sp_format(arena, "k%d", i), i);
    }
    const struct sp_json *object = report_tree_close(&tree);
    char *text = printed_csv(arena, &object, 1);
    assert_non_null(strstr(text, "k0,k1,"));
    assert_non_null(strstr(text, ",k999\n0,1,"));
    assert_non_null(strstr(text, ",998,999\n"));
    free(text);
    sp_arena_close(arena);
}

static void a_text_is_one_line_that_reads_back_as_the_same_tree(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    const char *line = report_tree_text(arena, sample_tree(arena));
    assert_non_null(line);
    assert_null(strchr(line, '\n'));
    struct sp_error err = {0};
    const struct sp_json *back = sp_json_parse(arena, "line", line, &err);
    assert_non_null(back);
    char *text = printed_json(sample_tree(arena));
    char *again = printed_json(back);
    assert_string_equal(again, text);
    free(again);
    free(text);
    sp_arena_close(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tree_prints_as_json_that_reads_back),
        cmocka_unit_test(paths_find_members),
        cmocka_unit_test(csv_flattens_quotes_and_joins),
        cmocka_unit_test(csv_columns_are_those_of_all_objects),
        cmocka_unit_test(csv_has_room_for_many_columns),
        cmocka_unit_test(a_text_is_one_line_that_reads_back_as_the_same_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
