/* Runs a fuzz target over its corpus without a fuzzing engine, in TAP: one test for the empty input and one a file.
 * FUZZ_CORPUS names the folder; files given as arguments are run instead (a crash to look into, say). A fault of the
 * target ends the program, which the harness reports. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_SIZE = 4096, MAX_FILES = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int n_tests;

static int compare_names(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

/* The whole file in memory of exactly its size, so that a sanitizer sees a read past its end. Caller frees. */
static uint8_t *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return NULL;
    }
    uint8_t *data = NULL;
    long length = -1;
    if (fseek(file, 0, SEEK_END) == 0) {
        length = ftell(file);
    }
    if (length >= 0 && fseek(file, 0, SEEK_SET) == 0) {
        *size = (size_t)length;
        data = malloc(*size > 0 ? *size : 1);
        if (data != NULL && fread(data, 1, *size, file) != *size) {
            free(data);
            data = NULL;
        }
    }
    (void)fclose(file);
    return data;
}

static int replay(const char *path)
{
    size_t size = 0;
    uint8_t *data = read_file(path, &size);
    n_tests++;
    if (data == NULL) {
        printf("not ok %d - %s: cannot be read\n", n_tests, path);
        return 1;
    }
    (void)LLVMFuzzerTestOneInput(data, size);
    free(data);
    printf("ok %d - %s\n", n_tests, path);
    return 0;
}

static int replay_folder(const char *folder)
{
    static char *names[MAX_FILES];
    int n_names = 0;
    int n_failed = 0;
    DIR *dir = opendir(folder);
    for (const struct dirent *entry; dir != NULL && n_names < MAX_FILES && (entry = readdir(dir)) != NULL;) {
        if (entry->d_name[0] != '.') {
            names[n_names] = strdup(entry->d_name);
            n_names += names[n_names] != NULL;
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    qsort(names, (size_t)n_names, sizeof(names[0]), compare_names);
    for (int i = 0; i < n_names; i++) {
        char path[PATH_SIZE];
        (void)snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        n_failed += replay(path);
        free(names[i]);
    }
    return n_failed;
}

int main(int argc, char **argv)
{
    int n_failed = 0;
    static const uint8_t nothing[1];
    (void)setvbuf(stdout, NULL, _IOLBF, 0); /* a crash must not take the lines of the inputs before it along */
    (void)LLVMFuzzerTestOneInput(nothing, 0);
    n_tests++;
    printf("ok %d - the empty input\n", n_tests);
    if (argc > 1) {
        for (int i = 1; i < argc; i++) {
            n_failed += replay(argv[i]);
        }
    } else {
        n_failed = replay_folder(FUZZ_CORPUS);
    }
    printf("1..%d\n", n_tests);
    return n_failed > 0;
}
