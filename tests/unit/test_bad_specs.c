/* tests/bad: a malformed file NAME.json and, in NAME.txt, the whole message that it gets. The name's first word says
 * how it is read. With SEQPLAN_BLESS set the messages are rewritten instead: read the change. Runs in the root of the
 * checkout. */
#include "support/support.h"

#include "spec/spec_internal.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

static const char folder[] = "tests/bad";

static bool has_prefix(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static bool read_spec(struct sp_arena *arena, const char *name, const char *path, struct sp_error *err)
{
    struct sp_texts warnings = {.arena = arena};
    struct model_spec model;
    struct hardware_spec hardware;
    struct request request;
    struct request merged;
    if (has_prefix(name, "model-")) {
        return model_read(arena, path, &model, &warnings, err);
    }
    if (has_prefix(name, "hardware-")) {
        return hardware_read(arena, path, NULL, &hardware, err);
    }
    if (has_prefix(name, "layout-")) {
        request_init(&request, arena);
        request.layout_file = path;
        return request_merge_layout(&request, arena, &merged, err);
    }
    fail_msg("%s: the name begins with none of model-, hardware-, layout-", name);
    return false;
}

static void write_expected(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fprintf(file, "%s\n", text) > 0);
    assert_int_equal(fclose(file), 0);
}

/* The line of the file, without its end. */
static char *read_expected(struct sp_arena *arena, const char *path)
{
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        fail_msg("%s is missing: SEQPLAN_BLESS=1 writes it", path);
    }
    char line[2 * SP_ERROR_TEXT];
    char *read = fgets(line, sizeof(line), file);
    assert_int_equal(fclose(file), 0);
    assert_non_null(read);
    line[strcspn(line, "\n")] = '\0';
    return sp_strdup(arena, line);
}

static void check_file(const char *name)
{
    struct sp_arena *arena = sp_arena_open();
    const char *path = sp_format(arena, "%s/%s", folder, name);
    const char *expected_path = sp_format(arena, "%.*s.txt", (int)(strlen(path) - strlen(".json")), path);
    struct sp_error err = {0};
    if (read_spec(arena, name, path, &err)) {
        fail_msg("%s is not refused", path);
    }
    assert_int_equal(err.kind, SP_ERROR_INPUT);
    assert_error_contains(&err, path);
    if (getenv("SEQPLAN_BLESS") != NULL) {
        write_expected(expected_path, err.text);
    }
    assert_string_equal(err.text, read_expected(arena, expected_path));
    sp_arena_close(arena);
}

static void every_bad_file_gets_its_message(void **state)
{
    (void)state;
    DIR *entries = opendir(folder);
    assert_non_null(entries);
    int n_files = 0;
    for (const struct dirent *entry = readdir(entries); entry != NULL; entry = readdir(entries)) {
        const char *extension = strrchr(entry->d_name, '.');
        if (extension != NULL && strcmp(extension, ".json") == 0) {
            check_file(entry->d_name);
            n_files++;
        }
    }
    assert_int_equal(closedir(entries), 0);
    assert_true(n_files > 80);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_bad_file_gets_its_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
