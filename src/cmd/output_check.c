/* What is read must not be what is written. */
#include "cmd/sweep.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool find_file(const char *path, struct stat *found)
{
    bool is_input = strcmp(path, "-") == 0;
    return (is_input ? fstat(STDIN_FILENO, found) : stat(path, found)) == 0 && S_ISREG(found->st_mode);
}

bool command_check_output(const char *output, const struct sp_texts *inputs, struct sp_error *err)
{
    struct stat own;
    if (output == NULL || strcmp(output, "-") == 0 || !find_file(output, &own)) {
        return true;
    }
    for (size_t i = 0; i < inputs->count; i++) {
        struct stat read;
        if (find_file(inputs->items[i], &read) && read.st_dev == own.st_dev && read.st_ino == own.st_ino) {
            return sp_fail(err, SP_ERROR_USAGE, "-o %s would overwrite %s, which is read: name another file", output,
                           strcmp(inputs->items[i], "-") == 0 ? "standard input" : inputs->items[i]);
        }
    }
    return true;
}

void command_add_store(struct sp_texts *inputs, const char *db)
{
    const char *path = db;
    struct sp_error err; /* without a folder for it there is no store to lose */
    if (path != NULL || store_default_path(inputs->arena, &path, &err)) {
        sp_texts_add(inputs, "%s", path);
    }
}
