#include "support/support.h"

#include "spec/spec.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A folder of data with one model and one README, and SEQPLAN_PATH naming it. */
struct fixture {
    struct sp_arena *arena;
    char *root;
    char *models;
    char *kept_path; /* SEQPLAN_PATH before the test */
};

static int open_fixture(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    assert_non_null(fixture);
    fixture->arena = sp_arena_open();
    fixture->root = temp_folder_open();
    fixture->models = strdup(sp_format(fixture->arena, "%s/models", fixture->root));
    assert_non_null(fixture->models);
    assert_int_equal(mkdir(fixture->models, 0700), 0);
    (void)temp_file(fixture->arena, fixture->models, "zebra-61b.json", "{}", 2);
    (void)temp_file(fixture->arena, fixture->models, "README.md", "x", 1);
    (void)temp_file(fixture->arena, fixture->models, ".hidden.json", "{}", 2);
    const char *kept = getenv("SEQPLAN_PATH");
    fixture->kept_path = kept == NULL ? NULL : strdup(kept);
    const char *path = sp_format(fixture->arena, "::/nonexistent-folder:%s:", fixture->root);
    assert_int_equal(setenv("SEQPLAN_PATH", path, 1), 0);
    *state = fixture;
    return 0;
}

static int close_fixture(void **state)
{
    struct fixture *fixture = *state;
    if (fixture->kept_path != NULL) {
        assert_int_equal(setenv("SEQPLAN_PATH", fixture->kept_path, 1), 0);
    } else {
        assert_int_equal(unsetenv("SEQPLAN_PATH"), 0);
    }
    free(fixture->kept_path);
    temp_folder_close(fixture->models); /* and frees the name */
    temp_folder_close(fixture->root);
    sp_arena_close(fixture->arena);
    free(fixture);
    return 0;
}

static void name_is_found_in_a_folder_of_the_environment(void **state)
{
    const struct fixture *fixture = *state;
    struct sp_error err = {0};
    const char *path = data_find(fixture->arena, "models", "zebra-61b", &err);
    assert_non_null(path);
    assert_string_equal(path, sp_format(fixture->arena, "%s/models/zebra-61b.json", fixture->root));
}

static void anything_with_a_slash_or_extension_is_a_path(void **state)
{
    const struct fixture *fixture = *state;
    struct sp_error err = {0};
    assert_string_equal(data_find(fixture->arena, "models", "zebra-61b.json", &err), "zebra-61b.json");
    assert_string_equal(data_find(fixture->arena, "models", "./zebra-61b", &err), "./zebra-61b");
    assert_string_equal(data_find(fixture->arena, "models", "/nonexistent.json", &err), "/nonexistent.json");
}

static void names_are_sorted_without_extension(void **state)
{
    const struct fixture *fixture = *state;
    struct sp_texts names = {.arena = fixture->arena};
    data_names(fixture->arena, "models", &names);
    assert_true(sp_texts_has(&names, "zebra-61b"));
    assert_false(sp_texts_has(&names, "README") || sp_texts_has(&names, "README.md") ||
                 sp_texts_has(&names, ".hidden"));
    for (size_t i = 1; i < names.count; i++) {
        assert_true(strcmp(names.items[i - 1], names.items[i]) < 0);
    }
}

static void unknown_name_gets_the_nearest(void **state)
{
    const struct fixture *fixture = *state;
    struct sp_error err = {0};
    assert_null(data_find(fixture->arena, "models", "zebar-61b", &err));
    assert_int_equal(err.kind, SP_ERROR_INPUT);
    assert_string_equal(err.text,
                        "unknown model \"zebar-61b\": did you mean \"zebra-61b\"? (a file is given as a path, "
                        "with a / or .json)");
}

static void unknown_name_without_a_near_one_gets_the_list(void **state)
{
    const struct fixture *fixture = *state;
    struct sp_error err = {0};
    assert_null(data_find(fixture->arena, "models", "qqqqqqqqqqqqqqqqqqqqqq", &err));
    assert_error_contains(&err, "unknown model \"qqqqqqqqqqqqqqqqqqqqqq\": expected ");
    assert_error_contains(&err, "zebra-61b");
    assert_error_contains(&err, ", or the path of a file");
    assert_null(data_find(fixture->arena, "models", "", &err));
    assert_error_contains(&err, "unknown model \"\": expected ");
}

static void kind_without_any_file_says_so(void **state)
{
    const struct fixture *fixture = *state;
    struct sp_error err = {0};
    assert_null(data_find(fixture->arena, "no-such-kind", "x", &err));
    assert_string_equal(err.text,
                        "unknown no-such-kind \"x\": no folder of data files found (SEQPLAN_PATH adds folders)");
}

static void kinds_have_nouns(void **state)
{
    const struct fixture *fixture = *state;
    static const struct {
        const char *kind;
        const char *noun;
    } kinds[] = {{"hardware/gpus", "GPU"},      {"hardware/networks", "network"},
                 {"hardware", "hardware"},      {"frameworks/kernels", "set of kernels"},
                 {"frameworks/losses", "loss"}, {"frameworks", "framework"}};
    for (size_t i = 0; i < SP_COUNT_OF(kinds); i++) {
        struct sp_error err = {0};
        assert_null(data_find(fixture->arena, kinds[i].kind, "xyzzyxyzzyxyzzy", &err));
        assert_error_contains(&err, sp_format(fixture->arena, "unknown %s \"xyzzyxyzzyxyzzy\"", kinds[i].noun));
    }
}

/* Where the user stands in a folder of data, its files have short names. */
static void path_under_the_current_folder_is_short(void **state)
{
    const struct fixture *fixture = *state;
    char here[4096];
    assert_non_null(getcwd(here, sizeof(here)));
    assert_int_equal(chdir(fixture->root), 0);
    char root[4096];
    assert_non_null(getcwd(root, sizeof(root))); /* without links on the way */
    assert_int_equal(setenv("SEQPLAN_PATH", root, 1), 0);
    struct sp_error err = {0};
    const char *path = data_find(fixture->arena, "models", "zebra-61b", &err);
    assert_int_equal(chdir(here), 0);
    assert_non_null(path);
    assert_string_equal(path, "models/zebra-61b.json");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(name_is_found_in_a_folder_of_the_environment, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(anything_with_a_slash_or_extension_is_a_path, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(names_are_sorted_without_extension, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(unknown_name_gets_the_nearest, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(unknown_name_without_a_near_one_gets_the_list, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(kind_without_any_file_says_so, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(kinds_have_nouns, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(path_under_the_current_folder_is_short, open_fixture, close_fixture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
