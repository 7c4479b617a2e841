#include "cmd/import_files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { MOST_BYTES = 256 << 20, FIRST_BYTES = 1 << 16 };

static bool fail_read(const struct import_file *file, int number, struct sp_error *err)
{
    return sp_fail(err, SP_ERROR_INPUT, "%s: cannot be read: %s", file->name, strerror(number));
}

static bool read_all(struct import_file *file, struct sp_arena *arena, int descriptor, struct sp_error *err)
{
    size_t capacity = FIRST_BYTES;
    char *bytes = sp_arena_alloc(arena, capacity);
    size_t n_bytes = 0;
    for (;;) {
        ssize_t n_read = read(descriptor, bytes + n_bytes, capacity - n_bytes);
        if (n_read < 0 && errno == EINTR) {
            continue;
        }
        if (n_read < 0) {
            return fail_read(file, errno, err);
        }
        if (n_read == 0) {
            break;
        }
        n_bytes += (size_t)n_read;
        if (n_bytes > MOST_BYTES) {
            return sp_fail(err, SP_ERROR_INPUT, "%s: is larger than %d MiB: cut out the lines that count", file->name,
                           MOST_BYTES >> 20);
        }
        if (n_bytes == capacity) {
            char *larger = sp_arena_alloc(arena, 2 * capacity);
            memcpy(larger, bytes, n_bytes);
            bytes = larger;
            capacity *= 2;
        }
    }
    file->bytes = bytes;
    file->n_bytes = n_bytes;
    return n_bytes > 0 || sp_fail(err, SP_ERROR_INPUT, "%s: is empty", file->name);
}

bool import_file_read(struct import_file *file, struct sp_arena *arena, struct sp_error *err)
{
    bool is_input = strcmp(file->path, "-") == 0;
    file->name = is_input ? "standard input" : file->path;
    int descriptor = is_input ? STDIN_FILENO : open(file->path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) {
        return sp_fail(err, SP_ERROR_INPUT, "%s: cannot be opened: %s; name a log or a file of measurements",
                       file->path, strerror(errno));
    }
    bool is_good = read_all(file, arena, descriptor, err);
    if (!is_input) {
        (void)close(descriptor);
    }
    return is_good;
}
