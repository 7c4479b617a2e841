#include "support/support.h"

#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

void assert_close_at(double a, double b, double rel, const char *file, int line)
{
    double larger = fabs(a) > fabs(b) ? fabs(a) : fabs(b);
    bool is_same = !(a < b) && !(a > b) && !isnan(a) && !isnan(b);
    if (!is_same && !(fabs(a - b) <= rel * larger)) {
        print_error("%.17g is not close to %.17g (relative difference %.3g, allowed %.3g)\n", a, b,
                    fabs(a - b) / larger, rel);
        _fail(file, line);
    }
}

static bool ends_with(const char *text, const char *end)
{
    size_t n_text = strlen(text);
    size_t n_end = strlen(end);
    return n_text >= n_end && strcmp(text + n_text - n_end, end) == 0;
}

void assert_error_contains_at(const struct sp_error *err, const char *part, const char *file, int line)
{
    if (strstr(err->text, part) == NULL) {
        print_error("\"%s\" is not in the error \"%s\"\n", part, err->text);
        _fail(file, line);
    }
    bool is_stopped = ends_with(err->text, ".") && !ends_with(err->text, "..."); /* dots: cut off */
    if (strchr(err->text, '\n') != NULL || is_stopped) {
        print_error("not one line without a full stop: \"%s\"\n", err->text);
        _fail(file, line);
    }
}

char *temp_folder_open(void)
{
    const char *parent = getenv("TMPDIR");
    char path[512];
    (void)snprintf(path, sizeof(path), "%s/seqplan-test-XXXXXX", parent == NULL ? "/tmp" : parent);
    char *folder = strdup(path);
    assert_non_null(folder);
    assert_non_null(mkdtemp(folder));
    return folder;
}

void temp_folders_in_memory(void)
{
    static const char memory[] = "/dev/shm";
    if (getenv("TMPDIR") == NULL && access(memory, W_OK | X_OK) == 0) {
        assert_int_equal(setenv("TMPDIR", memory, 1), 0);
    }
}

void temp_folder_close(char *folder)
{
    DIR *files = opendir(folder);
    assert_non_null(files);
    for (const struct dirent *entry = readdir(files); entry != NULL; entry = readdir(files)) {
        char path[1024];
        (void)snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            assert_int_equal(remove(path), 0);
        }
    }
    (void)closedir(files);
    assert_int_equal(rmdir(folder), 0);
    free(folder);
}

const char *temp_file(struct sp_arena *arena, const char *folder, const char *name, const void *bytes, size_t size)
{
    const char *path = sp_format(arena, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    return path;
}

static void read_pipe(int from, char *output, size_t size)
{
    size_t length = 0;
    ssize_t got = 0;
    while (length + 1 < size && (got = read(from, output + length, size - 1 - length)) > 0) {
        length += (size_t)got;
    }
    output[length] = '\0';
}

int run_in_child(void (*body)(void *), void *data, char *output, size_t size)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    (void)fflush(NULL); /* else the child would write our buffered output a second time */
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        /* cmocka turns SIGABRT and others into test failures, by a jump into its runner. */
        (void)signal(SIGABRT, SIG_DFL);
        (void)dup2(ends[1], STDERR_FILENO);
        (void)close(ends[0]);
        body(data);
        _exit(0);
    }
    (void)close(ends[1]);
    read_pipe(ends[0], output, size);
    (void)close(ends[0]);
    int status = 0;
    assert_true(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

uint64_t next_random(uint64_t *state)
{
    /* xorshift64 (Marsaglia 2003), shifts 13, 7, 17 */
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}
