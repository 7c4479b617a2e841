/* Files that appear whole. The only file that knows zlib, which also writes what is not compressed. */
#include "report/report.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

struct whole_file {
    gzFile gz;
    const char *path; /* as the user named it */
    const char *target;
    const char *temporary; /* NULL: written in place */
    int failure;           /* errno of the first write that failed */
};

static bool fail_open(const char *path, int number, struct sp_error *err)
{
    return sp_fail(err, SP_ERROR_IO, "%s: cannot be written: %s; name a file in a folder that you may write to", path,
                   strerror(number));
}

/* What a link points to is replaced, not the link. */
static const char *resolve(struct sp_arena *arena, const char *path)
{
    enum { MOST_LINKS = 16, NAME_BYTES = 4096 };
    char name[NAME_BYTES];
    const char *resolved = sp_strdup(arena, path);
    for (int i = 0; i < MOST_LINKS; i++) {
        ssize_t length = readlink(resolved, name, sizeof(name));
        if (length <= 0 || length == (ssize_t)sizeof(name)) {
            break;
        }
        const char *slash = name[0] == '/' ? NULL : strrchr(resolved, '/');
        int folder = slash == NULL ? 0 : (int)(slash - resolved) + 1;
        resolved = sp_format(arena, "%.*s%.*s", folder, resolved, (int)length, name);
    }
    return resolved;
}

/* Hidden beside the target, so that the move stays inside one file system. */
static const char *temporary_name(struct sp_arena *arena, const char *target)
{
    const char *slash = strrchr(target, '/');
    int folder = slash == NULL ? 0 : (int)(slash - target) + 1;
    return sp_format(arena, "%.*s.%s.%ld.part", folder, target, target + folder, (long)getpid());
}

static bool is_packed(const char *path)
{
    static const char extension[] = ".gz";
    size_t length = strlen(path);
    return length >= strlen(extension) && strcmp(path + length - strlen(extension), extension) == 0;
}

static int open_descriptor(struct sp_arena *arena, struct whole_file *file)
{
    enum { MODE = 0666 }; /* less the user's mask */
    struct stat found;
    if (stat(file->target, &found) == 0 && !S_ISREG(found.st_mode)) {
        return open(file->target, O_WRONLY | O_CLOEXEC);
    }
    file->temporary = temporary_name(arena, file->target);
    (void)unlink(file->temporary); /* of a run with our number that was killed */
    return open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, MODE);
}

struct whole_file *whole_file_open(struct sp_arena *arena, const char *path, struct sp_error *err)
{
    enum { BUFFER_BYTES = 1 << 17 };
    struct whole_file *file = sp_arena_alloc(arena, sizeof(*file));
    *file = (struct whole_file){.path = sp_strdup(arena, path), .target = resolve(arena, path)};
    int descriptor = open_descriptor(arena, file);
    if (descriptor < 0) {
        (void)fail_open(path, errno, err);
        return NULL;
    }
    file->gz = gzdopen(descriptor, is_packed(path) ? "wb" : "wbT");
    if (file->gz == NULL) {
        (void)close(descriptor);
        whole_file_drop(file);
        (void)fail_open(path, ENOMEM, err);
        return NULL;
    }
    (void)gzbuffer(file->gz, BUFFER_BYTES);
    return file;
}

/* Once a write has failed the rest is not tried. */
void whole_file_write(struct whole_file *file, const void *bytes, size_t n_bytes)
{
    if (file->failure != 0 || n_bytes == 0) {
        return;
    }
    errno = 0;
    if (gzwrite(file->gz, bytes, (unsigned)n_bytes) <= 0) {
        file->failure = errno == 0 ? EIO : errno;
    }
}

void whole_file_print(struct whole_file *file, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (length >= 0 && length < (int)sizeof(text)) {
        whole_file_write(file, text, (size_t)length);
        return;
    }
    char *whole = length < 0 ? NULL : malloc((size_t)length + 1);
    if (whole == NULL) {
        file->failure = file->failure == 0 ? ENOMEM : file->failure;
        return;
    }
    va_start(args, format);
    (void)vsnprintf(whole, (size_t)length + 1, format, args);
    va_end(args);
    whole_file_write(file, whole, (size_t)length);
    free(whole);
}

bool whole_file_close(struct whole_file *file, struct sp_error *err)
{
    errno = 0;
    int code = gzclose(file->gz);
    file->gz = NULL;
    if (code != Z_OK && file->failure == 0) {
        file->failure = errno == 0 ? EIO : errno;
    }
    if (file->failure == 0 && file->temporary != NULL && rename(file->temporary, file->target) != 0) {
        file->failure = errno;
    }
    if (file->failure == 0) {
        return true;
    }
    whole_file_drop(file);
    return sp_fail(err, SP_ERROR_IO, "%s: cannot be written to its end: %s; nothing of it is kept%s", file->path,
                   strerror(file->failure),
                   file->failure == ENOSPC || file->failure == EFBIG ? "; make room, or name a place that has some"
                                                                     : "");
}

void whole_file_drop(struct whole_file *file)
{
    if (file == NULL) {
        return;
    }
    if (file->gz != NULL) {
        (void)gzclose(file->gz);
        file->gz = NULL;
    }
    if (file->temporary != NULL) {
        (void)unlink(file->temporary);
        file->temporary = NULL;
    }
}
