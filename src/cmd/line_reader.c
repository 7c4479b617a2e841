#include "cmd/measure.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { BUFFER_BYTES = 2 * MEASUREMENT_LINE_BYTES };

void line_reader_open(struct line_reader *reader, struct sp_arena *arena, int descriptor)
{
    *reader = (struct line_reader){.descriptor = descriptor, .buffer = sp_arena_alloc(arena, BUFFER_BYTES)};
}

/* Where the buffer is one line, and full, its middle goes. */
static void make_room(struct line_reader *reader)
{
    if (reader->begin > 0) {
        memmove(reader->buffer, reader->buffer + reader->begin, reader->end - reader->begin);
        reader->end -= reader->begin;
        reader->begin = 0;
    }
    if (reader->end == BUFFER_BYTES) {
        reader->end = MEASUREMENT_LINE_BYTES + 1;
    }
}

bool line_reader_fill(struct line_reader *reader)
{
    make_room(reader);
    ssize_t n_read = read(reader->descriptor, reader->buffer + reader->end, BUFFER_BYTES - reader->end);
    if (n_read > 0) {
        reader->end += (size_t)n_read;
        return true;
    }
    if (n_read < 0 && (errno == EINTR || errno == EAGAIN)) {
        return true;
    }
    reader->is_ended = true;
    return n_read == 0;
}

bool line_reader_next(struct line_reader *reader, struct line *line)
{
    size_t n_bytes = reader->end - reader->begin;
    if (n_bytes == 0) {
        return false;
    }
    char *text = reader->buffer + reader->begin;
    const char *newline = memchr(text, '\n', n_bytes);
    if (newline == NULL && !reader->is_ended) {
        return false;
    }
    size_t length = newline == NULL ? n_bytes : (size_t)(newline - text);
    reader->begin += newline == NULL ? length : length + 1;
    bool has_return = length > 0 && text[length - 1] == '\r';
    *line = (struct line){.text = text, .length = length - (has_return ? 1 : 0), .is_whole = newline != NULL};
    return true;
}
