/* Where the store lies. */
#include "store/store_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The specification of base directories has relative paths ignored. */
static const char *absolute_variable(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] == '/' ? value : NULL;
}

bool store_default_path(struct sp_arena *arena, const char **path, struct sp_error *err)
{
    const char *data = absolute_variable("XDG_DATA_HOME");
    const char *home = absolute_variable("HOME");
    if (data == NULL && home == NULL) {
        return sp_fail(err, SP_ERROR_IO,
                       "no folder for the store: expected an absolute path in XDG_DATA_HOME or HOME, found neither; "
                       "give a file with --db");
    }
    *path = data != NULL ? sp_format(arena, "%s/seqplan/seqplan.db", data)
                         : sp_format(arena, "%s/.local/share/seqplan/seqplan.db", home);
    return true;
}

bool store_make_folders(struct sp_arena *arena, const char *path, struct sp_error *err)
{
    static const mode_t mode = S_IRWXU; /* as the specification of base directories asks */
    char *folder = sp_strdup(arena, path);
    for (char *at = strchr(folder + 1, '/'); at != NULL; at = strchr(at + 1, '/')) {
        *at = '\0';
        if (mkdir(folder, mode) != 0 && errno != EEXIST) {
            int cause = errno;
            struct stat status;
            if (stat(folder, &status) != 0) { /* a folder that is there may be refused for another reason */
                return sp_fail(err, SP_ERROR_IO,
                               "%s: the folder '%s' cannot be made: %s; make it, or give another file with --db", path,
                               folder, strerror(cause));
            }
        }
        *at = '/';
    }
    return true;
}

const char *store_file_name(struct sp_arena *arena, const char *path)
{
    return path[0] == '/' ? path : sp_format(arena, "./%s", path);
}

const char *store_immutable_name(struct sp_arena *arena, const char *path)
{
    static const char digits[] = "0123456789ABCDEF";
    static const char prefix[] = "file:";
    const char *name = store_file_name(arena, path);
    char *uri = sp_arena_alloc(arena, sizeof(prefix) + 3 * strlen(name));
    memcpy(uri, prefix, sizeof(prefix));
    char *to = uri + strlen(prefix);
    for (const char *at = name; *at != '\0'; at++) {
        unsigned char byte = (unsigned char)*at;
        if (strchr("%?#", *at) == NULL) {
            *to++ = *at;
        } else {
            *to++ = '%';
            *to++ = digits[byte >> 4];
            *to++ = digits[byte & 0xfU];
        }
    }
    return sp_format(arena, "%s?immutable=1", uri);
}
