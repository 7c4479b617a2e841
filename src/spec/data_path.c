#include "spec/spec_internal.h"

#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A checkout's program stands in build/, its tests in build/VARIANT/tests/: this many folders up, at most. */
enum { MAX_LEVELS_UP = 4, MAX_LISTED = 24 };

static const char extension[] = ".json";

static bool is_folder(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static bool is_file(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && !S_ISDIR(status.st_mode);
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text);
    size_t end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

const char *data_program_folder(struct sp_arena *arena)
{
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
    if (length <= 0) {
        return NULL;
    }
    path[length] = '\0';
    char *slash = strrchr(path, '/');
    if (slash == NULL) {
        return NULL;
    }
    *slash = '\0';
    return sp_strdup(arena, path);
}

/* Shortens the folder to "." when it is where the user stands, so that errors name "hardware/dgx-h200.json". */
static void add_folder(struct sp_texts *folders, const char *folder)
{
    char current[PATH_MAX];
    bool is_here = getcwd(current, sizeof(current)) != NULL && strcmp(current, folder) == 0;
    sp_texts_add(folders, "%s", is_here ? "." : folder);
}

static void add_environment(struct sp_arena *arena, struct sp_texts *folders)
{
    const char *list = getenv("SEQPLAN_PATH");
    while (list != NULL && *list != '\0') {
        size_t length = strcspn(list, ":");
        if (length > 0) {
            add_folder(folders, sp_strndup(arena, list, length));
        }
        list += length;
        list += *list == ':' ? 1 : 0;
    }
}

/* All three folders, so that a stray "models" above an installed program is not taken for a checkout. */
static bool is_checkout(struct sp_arena *arena, const char *folder)
{
    return is_folder(sp_format(arena, "%s/models", folder)) && is_folder(sp_format(arena, "%s/hardware", folder)) &&
           is_folder(sp_format(arena, "%s/frameworks", folder));
}

static void add_checkout(struct sp_arena *arena, struct sp_texts *folders, const char *program)
{
    char *folder = sp_strdup(arena, program);
    for (int level = 0; level <= MAX_LEVELS_UP; level++) {
        if (is_checkout(arena, folder)) {
            add_folder(folders, folder);
            return;
        }
        char *slash = strrchr(folder, '/');
        if (slash == NULL || slash == folder) {
            return;
        }
        *slash = '\0';
    }
}

static struct sp_texts data_folders(struct sp_arena *arena)
{
    struct sp_texts folders = {.arena = arena};
    add_environment(arena, &folders);
    const char *program = data_program_folder(arena);
    if (program == NULL) {
        return folders;
    }
    add_checkout(arena, &folders, program);
    char *slash = strrchr(program, '/');
    if (slash != NULL && slash != program) {
        *slash = '\0';
        add_folder(&folders, sp_format(arena, "%s/share/seqplan", program));
    }
    return folders;
}

static void add_names(struct sp_arena *arena, const char *folder, struct sp_texts *names)
{
    DIR *entries = opendir(folder);
    if (entries == NULL) {
        return;
    }
    for (struct dirent *entry = readdir(entries); entry != NULL; entry = readdir(entries)) {
        if (entry->d_name[0] != '.' && ends_with(entry->d_name, extension)) {
            size_t length = strlen(entry->d_name) - strlen(extension);
            sp_texts_add(names, "%s", sp_strndup(arena, entry->d_name, length));
        }
    }
    (void)closedir(entries);
}

static int compare_texts(const void *a, const void *b)
{
    const char *const *left = a;
    const char *const *right = b;
    return strcmp(*left, *right);
}

void data_names(struct sp_arena *arena, const char *kind, struct sp_texts *names)
{
    struct sp_texts folders = data_folders(arena);
    for (size_t i = 0; i < folders.count; i++) {
        add_names(arena, sp_format(arena, "%s/%s", folders.items[i], kind), names);
    }
    if (names->count > 1) {
        qsort(names->items, names->count, sizeof(*names->items), compare_texts);
    }
}

/* "hardware/networks" -> "network": how an error calls one file of a kind. */
static const char *kind_noun(const char *kind)
{
    static const struct {
        const char *kind;
        const char *noun;
    } nouns[] = {
        {"models", "model"},           {"hardware", "hardware"},
        {"hardware/gpus", "GPU"},      {"hardware/networks", "network"},
        {"frameworks", "framework"},   {"frameworks/kernels", "set of kernels"},
        {"frameworks/losses", "loss"}, {"claims/bounds", "bounds of claims"},
    };
    for (size_t i = 0; i < SP_COUNT_OF(nouns); i++) {
        if (strcmp(kind, nouns[i].kind) == 0) {
            return nouns[i].noun;
        }
    }
    return kind;
}

static void fail_unknown(struct sp_arena *arena, const char *kind, const char *name, struct sp_error *err)
{
    struct sp_texts names = {.arena = arena};
    data_names(arena, kind, &names);
    const char *noun = kind_noun(kind);
    if (names.count == 0) {
        (void)sp_fail(err, SP_ERROR_INPUT,
                      "unknown %s \"%s\": no folder of data files found (SEQPLAN_PATH adds folders)", noun, name);
        return;
    }
    const char *nearest = sp_nearest(name, names.items, names.count);
    if (nearest != NULL) {
        (void)sp_fail(err, SP_ERROR_INPUT,
                      "unknown %s \"%s\": did you mean \"%s\"? (a file is given as a path, with a / or .json)", noun,
                      name, nearest);
        return;
    }
    size_t n_listed = names.count;
    const char *rest = "";
    if (n_listed > MAX_LISTED) {
        n_listed = MAX_LISTED;
        rest = ", ...";
    }
    (void)sp_fail(err, SP_ERROR_INPUT, "unknown %s \"%s\": expected %s%s, or the path of a file", noun, name,
                  sp_join(arena, names.items, n_listed, ", "), rest);
}

const char *data_find(struct sp_arena *arena, const char *kind, const char *name_or_path, struct sp_error *err)
{
    if (strchr(name_or_path, '/') != NULL || ends_with(name_or_path, extension)) {
        return sp_strdup(arena, name_or_path);
    }
    struct sp_texts folders = data_folders(arena);
    for (size_t i = 0; i < folders.count; i++) {
        bool is_here = strcmp(folders.items[i], ".") == 0;
        const char *path = is_here ? sp_format(arena, "%s/%s%s", kind, name_or_path, extension)
                                   : sp_format(arena, "%s/%s/%s%s", folders.items[i], kind, name_or_path, extension);
        if (is_file(path)) {
            return path;
        }
    }
    fail_unknown(arena, kind, name_or_path, err);
    return NULL;
}
