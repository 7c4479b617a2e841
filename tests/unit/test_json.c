#include "support/support.h"

#include <cjson/cJSON.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct sp_json *parse(struct sp_arena *arena, const char *text)
{
    struct sp_error err = {0};
    const struct sp_json *json = sp_json_parse(arena, "spec.json", text, &err);
    if (json == NULL) {
        fail_msg("%s: %s", text, err.text);
    }
    return json;
}

static void every_type_is_read(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    const struct sp_json *root = parse(arena, " {\"n\": null, \"t\": true, \"f\": false, \"x\": -12.5e-1,\t\r\n"
                                              "\"s\": \"4.8TB/s\", \"a\": [1, [], {\"in\": 7}], \"o\": {}} \n");
    assert_int_equal(root->type, SP_JSON_OBJECT);
    assert_int_equal(root->count, 7);
    assert_null(root->key);
    assert_null(root->next);

    const struct sp_json *member = root->first;
    assert_int_equal(member->type, SP_JSON_NULL);
    assert_string_equal(member->key, "n");
    assert_int_equal(sp_json_member(root, "t")->type, SP_JSON_BOOL);
    assert_true(sp_json_member(root, "t")->boolean);
    assert_int_equal(sp_json_member(root, "f")->type, SP_JSON_BOOL);
    assert_false(sp_json_member(root, "f")->boolean);
    assert_int_equal(sp_json_member(root, "x")->type, SP_JSON_NUMBER);
    assert_close(sp_json_member(root, "x")->number, -1.25, 0.0);
    assert_int_equal(sp_json_member(root, "s")->type, SP_JSON_STRING);
    assert_string_equal(sp_json_member(root, "s")->string, "4.8TB/s");
    assert_int_equal(sp_json_member(root, "o")->type, SP_JSON_OBJECT);
    assert_int_equal(sp_json_member(root, "o")->count, 0);
    assert_null(sp_json_member(root, "o")->first);

    const struct sp_json *array = sp_json_member(root, "a");
    assert_int_equal(array->type, SP_JSON_ARRAY);
    assert_int_equal(array->count, 3);
    assert_null(array->first->key);
    assert_close(array->first->number, 1.0, 0.0);
    assert_int_equal(array->first->next->type, SP_JSON_ARRAY);
    assert_close(sp_json_member(array->first->next->next, "in")->number, 7.0, 0.0);
    assert_null(array->first->next->next->next);
    sp_arena_close(arena);
}

static void members_are_found_by_exact_name(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    const struct sp_json *root = parse(arena, "{\"Tp\": 1, \"tp\": 2, \"\": 3}");
    assert_close(sp_json_member(root, "Tp")->number, 1.0, 0.0);
    assert_close(sp_json_member(root, "tp")->number, 2.0, 0.0);
    assert_close(sp_json_member(root, "")->number, 3.0, 0.0);
    assert_null(sp_json_member(root, "TP"));
    assert_null(sp_json_member(parse(arena, "[1, 2]"), "tp"));
    assert_null(sp_json_member(parse(arena, "\"tp\""), "tp"));
    sp_arena_close(arena);
}

static void good_texts_are_taken(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *string; /* or NULL for a number */
        double number;
    } rows[] = {
        {"0", NULL, 0.0},
        {"-0", NULL, 0.0},
        {"-0.0e+00", NULL, 0.0},
        {"10", NULL, 10.0},
        {"1E2", NULL, 100.0},
        {"0.1", NULL, 0.1},
        {"123456789.0123456789", NULL, 123456789.0123456789},
        {"9007199254740993e-3", NULL, 9007199254740.993},
        {"1e308", NULL, 1e308},
        {"0.0000000000000000000000000000000000000000000000000000000017", NULL, 1.7e-57},
        {"\"\"", "", 0.0},
        {"\"a\\\"b\\\\c\\/d\\b\\f\\n\\r\\t\"", "a\"b\\c/d\b\f\n\r\t", 0.0},
        {"\"\\u00b5s \\u20AC \\ud83d\\uDE80\"", "µs € 🚀", 0.0},
        {"\"\\udbff\\udfff\\ud800\\udc00\"", "\xf4\x8f\xbf\xbf\xf0\x90\x80\x80", 0.0}, /* the ends of the range */
        {"\"\\u00aF\\u00Fa\\u0A9f\"", "¯ú\xe0\xaa\x9f", 0.0},
        {"\"µs € 🚀 \x7f\"", "µs € 🚀 \x7f", 0.0},
        {"\xef\xbb\xbf\"after a byte order mark\"", "after a byte order mark", 0.0},
    };
    struct sp_arena *arena = sp_arena_open();
    for (size_t i = 0; i < SP_COUNT_OF(rows); i++) {
        const struct sp_json *json = parse(arena, rows[i].text);
        if (rows[i].string != NULL) {
            assert_string_equal(json->string, rows[i].string);
        } else {
            assert_close(json->number, rows[i].number, 0.0);
        }
    }
    sp_arena_close(arena);
}

static const struct {
    const char *text;
    const char *expected;
} bad_texts[] = {
    /* structure */
    {"", "line 1, column 1: expected a JSON value, found the end of the text"},
    {" \n\n  ", "line 3, column 3: expected a JSON value, found the end of the text"},
    {"{\"a\": 1", "line 1, column 8: expected ',' or '}', found the end of the text"},
    {"[1, 2", "column 6: expected ',' or ']', found the end of the text"},
    {"{\"a\": 1,\n \"b\" 2}", "line 2, column 6: expected ':' after the key, found \"2\""},
    {"{\"a\": 1,}", "column 9: expected a key in double quotes, found \"}\""},
    {"[1,]", "column 4: expected a JSON value, found \"]\""},
    {"[,1]", "column 2: expected a JSON value, found \",\""},
    {"[1 2]", "column 4: expected ',' or ']', found \"2\""},
    {"{\"a\": 1 \"b\": 2}", "column 9: expected ',' or '}', found \"\"\""},
    {"{a: 1}", "column 2: expected a key in double quotes, found \"a\""},
    {"{'a': 1}", "column 2: expected a key in double quotes, found \"'a'\""},
    {"[1}", "column 3: expected ',' or ']', found \"}\""},
    {"{\"a\": 1]", "column 8: expected ',' or '}', found \"]\""},
    {"{1: 2}", "expected a key in double quotes, found \"1\""},
    {"{\"a\"", "expected ':' after the key, found the end of the text"},
    {"{", "expected a key in double quotes, found the end of the text"},
    /* after the value */
    {"{} {}", "column 4: expected nothing after the value, found \"{\""},
    {"1 x", "column 3: expected nothing after the value, found \"x\""},
    {"[1]]", "column 4: expected nothing after the value, found \"]\""},
    {"1\v", "expected nothing after the value"},
    /* words */
    {"[nul]", "column 2: expected a JSON value, found \"nul\""},
    {"[True]", "column 2: expected a JSON value, found \"True\""},
    {"[truely]", "column 6: expected ',' or ']', found \"ly\""},
    {"[NaN]", "column 2: expected a number (NaN and Infinity are not JSON), found \"NaN\""},
    {"[Infinity]", "expected a number (NaN and Infinity are not JSON), found \"Infinity\""},
    {"[-Infinity]", "expected a number (NaN and Infinity are not JSON), found \"-Infinity\""},
    {"[-NaN]", "expected a number (NaN and Infinity are not JSON), found \"-NaN\""},
    {"[// why\n1]", "expected a JSON value, found \"//\""},
    /* numbers */
    {"[01]", "column 2: expected a number written as JSON allows"},
    {"[-01]", "found \"-01\""},
    {"[1.]", "expected a number written as JSON allows (no leading zero, digits after a point), found \"1.\""},
    {"[.5]", "expected a JSON value, found \".5\""},
    {"[+5]", "expected a JSON value, found \"+5\""},
    {"[-]", "expected a number written as JSON allows"},
    {"[1e]", "expected a number written as JSON allows"},
    {"[1e+]", "expected a number written as JSON allows"},
    {"[1.e5]", "expected a number written as JSON allows"},
    {"[0x10]", "expected ',' or ']', found \"x10\""},
    {"[1e999]", "expected a number that a double can hold, found \"1e999\""},
    {"[-1e999]", "expected a number that a double can hold, found \"-1e999\""},
    {"[1234567890123456789012345678901234567890123456789012345678901]", "number of more than 60 characters"},
    /* strings */
    {"[\"abc]", "expected '\"' to end the string, found the end of the text"},
    {"[\"a\nb\"]", "column 4: line break or control character inside a string"},
    {"[\"\x01\"]", "line break or control character inside a string"},
    {"[\"\\x41\"]", "column 3: unknown escape in a string"},
    {"[\"\\", "unknown escape in a string"},
    {"[\"\\u12\"]", "expected four hexadecimal digits after \\u"},
    {"[\"\\u12g4\"]", "expected four hexadecimal digits after \\u"},
    {"[\"a\\u0000b\"]", "column 4: \\u0000 inside a string is not supported"},
    {"[\"\\ud83d\"]", "first half of a surrogate pair without the second"},
    {"[\"\\ud83dx\"]", "first half of a surrogate pair without the second"},
    {"[\"\\ud83d\\u0041\"]", "first half of a surrogate pair without the second"},
    {"[\"\\ud83dxude80\"]", "first half of a surrogate pair without the second"},
    {"[\"\\ud83d\\nde80\"]", "first half of a surrogate pair without the second"},
    {"[\"\\ude80\"]", "second half of a surrogate pair without the first"},
    {"[\"\xff\"]", "column 3: invalid UTF-8 inside a string"},
    {"[\"\xc0\x80\"]", "invalid UTF-8 inside a string"},
    {"[\"\xed\xa0\x80\"]", "invalid UTF-8 inside a string"},
    {"[\"\xe2\x82\"]", "invalid UTF-8 inside a string"},
    {"{\"\xff\": 1}", "invalid UTF-8 inside a string"},
    {"{\"\\u0000\": 1}", "\\u0000 inside a string is not supported"},
    /* columns count characters, not bytes */
    {"[\"µµµ\", 01]", "line 1, column 9: expected a number"},
    /* what stands where JSON should: a link kept as text, a pointer of Git LFS */
    {"../../blobs/0be1f4c1a2", "found \"../../blobs/0be1f4c1a2\" (not JSON; a link stored as text?)"},
    {"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer (fetch the file itself)"},
    {"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
     "found \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\" (not"},
};

static void bad_texts_are_refused_with_their_place(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    for (size_t i = 0; i < SP_COUNT_OF(bad_texts); i++) {
        struct sp_error err = {0};
        if (sp_json_parse(arena, "models/odd.json", bad_texts[i].text, &err) != NULL) {
            fail_msg("taken: %s", bad_texts[i].text);
        }
        assert_int_equal(err.kind, SP_ERROR_INPUT);
        assert_error_contains(&err, bad_texts[i].expected);
        assert_memory_equal(err.text, "models/odd.json: line ", 22);
    }
    sp_arena_close(arena);
}

static void only_a_bad_start_looks_like_a_link(void **state)
{
    (void)state;
    static const char *const texts[] = {"[1, x]", "{\"a\": b}", "\"open", " x", "[1] x"};
    struct sp_arena *arena = sp_arena_open();
    for (size_t i = 0; i < SP_COUNT_OF(texts); i++) {
        struct sp_error err = {0};
        assert_null(sp_json_parse(arena, "a.json", texts[i], &err));
        assert_null(strstr(err.text, "link"));
    }
    sp_arena_close(arena);
}

static void duplicate_keys_are_refused_with_their_path(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *expected;
    } rows[] = {
        {"{\"a\": 1, \"a\": 1}", "spec.json: $: the key \"a\" stands there twice (remove one)"},
        {"{\"b\": 1, \"a\": 2, \"c\": 3, \"a\": 4}", "$: the key \"a\" stands there twice"},
        {"{\"gpu\": {\"links\": [0, {\"w\": 1, \"v\": 2, \"w\": 3}]}}", "$.gpu.links[1]: the key \"w\" stands"},
        {"[[], [{\"\": 1, \"\": 2}]]", "$[1][0]: the key \"\" stands there twice"},
        {"{\"ab\": 1, \"\\u0061b\": 2}", "$: the key \"ab\" stands there twice"}, /* one is written with an escape */
    };
    struct sp_arena *arena = sp_arena_open();
    for (size_t i = 0; i < SP_COUNT_OF(rows); i++) {
        struct sp_error err = {0};
        assert_null(sp_json_parse(arena, "spec.json", rows[i].text, &err));
        assert_int_equal(err.kind, SP_ERROR_INPUT);
        assert_error_contains(&err, rows[i].expected);
    }
    parse(arena, "{\"a\": {\"a\": [{\"a\": 1}, {\"a\": 2}]}, \"A\": 3}"); /* the same name elsewhere is fine */
    sp_arena_close(arena);
}

/* `depth` brackets around a number. */
static const char *nested(struct sp_arena *arena, int depth, const char *open, const char *close)
{
    char *text = sp_strdup(arena, "7");
    for (int i = 0; i < depth; i++) {
        text = sp_format(arena, "%s%s%s", open, text, close);
    }
    return text;
}

static void nesting_is_limited_to_200(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    static const char *const brackets[][2] = {{"[", "]"}, {"{\"a\": ", "}"}};
    for (size_t i = 0; i < SP_COUNT_OF(brackets); i++) {
        parse(arena, nested(arena, 200, brackets[i][0], brackets[i][1]));
        struct sp_error err = {0};
        assert_null(sp_json_parse(arena, "deep", nested(arena, 201, brackets[i][0], brackets[i][1]), &err));
        assert_error_contains(&err, "nested more than 200 deep");
        assert_int_equal(err.kind, SP_ERROR_INPUT);
    }
    /* Not depth: one after the other. */
    parse(arena, sp_format(arena, "[%s, %s]", nested(arena, 199, "[", "]"), nested(arena, 199, "[", "]")));
    sp_arena_close(arena);
}

static void integers_are_told_from_other_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool is_integer;
        int64_t value;
    } rows[] = {
        {"0", true, 0},
        {"-17", true, -17},
        {"1e3", true, 1000},
        {"2147483648", true, INT64_C(2147483648)}, /* where cJSON's own integer ends */
        {"9007199254740992", true, INT64_C(9007199254740992)},
        {"-9007199254740992", true, INT64_C(-9007199254740992)},
        {"9007199254740994", false, 0},
        {"-9007199254740994", false, 0},
        {"1e300", false, 0},
        {"1.5", false, 0},
        {"-0.25", false, 0},
        {"\"17\"", false, 0},
        {"true", false, 0},
        {"null", false, 0},
        {"[]", false, 0},
    };
    struct sp_arena *arena = sp_arena_open();
    for (size_t i = 0; i < SP_COUNT_OF(rows); i++) {
        int64_t value = 8317;
        assert_int_equal(sp_json_integer(parse(arena, rows[i].text), &value), rows[i].is_integer);
        assert_int_equal(value, rows[i].is_integer ? rows[i].value : 8317);
    }
    sp_arena_close(arena);
}

/* ---- cJSON out of memory ----------------------------------------------------------------------------------------- */

static int allocations_left;
static int allocations_open;

static void *failing_malloc(size_t size)
{
    if (allocations_left == 0) {
        return NULL;
    }
    allocations_left--;
    void *at = malloc(size);
    allocations_open += at != NULL;
    return at;
}

static void counting_free(void *at)
{
    allocations_open -= at != NULL;
    free(at);
}

static void every_failing_allocation_is_an_error(void **state)
{
    (void)state;
    cJSON_Hooks hooks = {.malloc_fn = failing_malloc, .free_fn = counting_free};
    cJSON_InitHooks(&hooks);
    struct sp_arena *arena = sp_arena_open();
    int n_failed = 0;
    for (;;) {
        struct sp_error err = {0};
        allocations_left = n_failed;
        const struct sp_json *json =
            sp_json_parse(arena, "a.json", "{\"a\": [1, \"two\", {\"three\": null}], \"b\": true, \"c\": \"d\"}", &err);
        assert_int_equal(allocations_open, 0); /* cJSON's tree is gone in any case */
        if (json != NULL) {
            break;
        }
        assert_int_equal(err.kind, SP_ERROR_IO);
        assert_error_contains(&err, "a.json: out of memory");
        n_failed++;
    }
    assert_true(n_failed > 10);
    allocations_left = -1;
    struct sp_error err = {0};
    assert_null(sp_json_parse(arena, "a.json", "{\"a\": 1, \"a\": 2}", &err));
    assert_int_equal(allocations_open, 0); /* also after an error */
    cJSON_InitHooks(NULL);
    sp_arena_close(arena);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static void files_are_read(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    char *folder = temp_folder_open();
    static const char text[] = "{\"hidden_size\": 5120}\n";
    struct sp_error err = {0};
    const struct sp_json *json =
        sp_json_read(arena, temp_file(arena, folder, "config.json", text, sizeof(text) - 1), &err);
    assert_non_null(json);
    assert_close(sp_json_member(json, "hidden_size")->number, 5120.0, 0.0);

    /* Several times the buffer that reading starts with. */
    size_t size = 300001;
    char *large = sp_arena_alloc(arena, size);
    memset(large, ' ', size);
    large[0] = '[';
    large[1] = '9';
    large[size - 1] = ']';
    json = sp_json_read(arena, temp_file(arena, folder, "large.json", large, size), &err);
    assert_non_null(json);
    assert_close(json->first->number, 9.0, 0.0);
    temp_folder_close(folder);
    sp_arena_close(arena);
}

static void unreadable_files_are_named(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    char *folder = temp_folder_open();
    const struct {
        const char *path;
        const char *expected;
    } rows[] = {
        {sp_format(arena, "%s/none.json", folder), "none.json: cannot open: no such file or directory"},
        {folder, "expected a file, found a folder"},
        {temp_file(arena, folder, "empty.json", "", 0), "empty.json: line 1, column 1: expected a JSON value"},
        {temp_file(arena, folder, "nul.json", "[1]\0[2]", 7), "nul.json: expected JSON, found a NUL byte"},
        {temp_file(arena, folder, "link.json", "config.json", 11), "a link stored as text?"},
    };
    for (size_t i = 0; i < SP_COUNT_OF(rows); i++) {
        struct sp_error err = {0};
        assert_null(sp_json_read(arena, rows[i].path, &err));
        assert_int_equal(err.kind, SP_ERROR_INPUT);
        assert_error_contains(&err, rows[i].expected);
        assert_memory_equal(err.text, folder, strlen(folder));
    }
    temp_folder_close(folder);
    sp_arena_close(arena);
}

static void files_over_64_mib_are_refused(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    char *folder = temp_folder_open();
    const char *path = temp_file(arena, folder, "huge.json", "", 0);
    assert_int_equal(truncate(path, 64L * 1024 * 1024 + 1), 0); /* a hole: takes no room on the disk */
    struct sp_error err = {0};
    assert_null(sp_json_read(arena, path, &err));
    assert_int_equal(err.kind, SP_ERROR_INPUT);
    assert_error_contains(&err, "huge.json: larger than 64 MiB");

    assert_int_equal(truncate(path, 64L * 1024 * 1024), 0);
    assert_null(sp_json_read(arena, path, &err));
    assert_error_contains(&err, "huge.json: expected JSON, found a NUL byte");
    temp_folder_close(folder);
    sp_arena_close(arena);
}

static void a_failing_read_is_an_error(void **state)
{
    (void)state;
    /* Linux: opens, and fails to read at address 0. */
    if (access("/proc/self/mem", R_OK) != 0) {
        return;
    }
    struct sp_arena *arena = sp_arena_open();
    struct sp_error err = {0};
    assert_null(sp_json_read(arena, "/proc/self/mem", &err));
    assert_int_equal(err.kind, SP_ERROR_INPUT);
    assert_error_contains(&err, "/proc/self/mem: cannot read: input/output error");
    sp_arena_close(arena);
}

/* Replaces standard input by the file at the path. */
static void read_from_stdin(void *data)
{
    const char *path = data;
    int fd = open(path, O_RDONLY);
    if (fd < 0 || dup2(fd, STDIN_FILENO) < 0) {
        _exit(9);
    }
    (void)close(fd);
    struct sp_arena *arena = sp_arena_open();
    struct sp_error err = {0};
    const struct sp_json *json = sp_json_read(arena, "-", &err);
    (void)fprintf(stderr, "%s", json == NULL ? err.text : json->first->string);
    sp_arena_close(arena);
}

static void a_dash_reads_standard_input(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    char *folder = temp_folder_open();
    static const struct {
        const char *text;
        const char *expected;
    } rows[] = {{"[\"from a pipe\"]", "from a pipe"},
                {"[1,", "standard input: line 1, column 4: expected a JSON value, found the end of the text"}};
    for (size_t i = 0; i < SP_COUNT_OF(rows); i++) {
        const char *path = temp_file(arena, folder, "stdin", rows[i].text, strlen(rows[i].text));
        char name[600];
        char output[4096];
        (void)snprintf(name, sizeof(name), "%s", path);
        assert_int_equal(run_in_child(read_from_stdin, name, output, sizeof(output)), 0);
        assert_string_equal(output, rows[i].expected);
    }
    temp_folder_close(folder);
    sp_arena_close(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_is_read),
        cmocka_unit_test(members_are_found_by_exact_name),
        cmocka_unit_test(good_texts_are_taken),
        cmocka_unit_test(bad_texts_are_refused_with_their_place),
        cmocka_unit_test(only_a_bad_start_looks_like_a_link),
        cmocka_unit_test(duplicate_keys_are_refused_with_their_path),
        cmocka_unit_test(nesting_is_limited_to_200),
        cmocka_unit_test(integers_are_told_from_other_numbers),
        cmocka_unit_test(every_failing_allocation_is_an_error),
        cmocka_unit_test(files_are_read),
        cmocka_unit_test(unreadable_files_are_named),
        cmocka_unit_test(files_over_64_mib_are_refused),
        cmocka_unit_test(a_failing_read_is_an_error),
        cmocka_unit_test(a_dash_reads_standard_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
