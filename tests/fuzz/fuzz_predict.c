/* Bytes as lines of a measurement file: each timed line of them has a prediction that is a time, or is refused with a reason,
 * on the H200 with the project's own kernels. */
#include "fit/fit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool is_true, const char *what)
{
    if (!is_true) {
        (void)fprintf(stderr, "%s\n", what);
        abort();
    }
}

static void predict_line(struct sp_arena *arena, const struct fit_machine *machine, const char *text, size_t length)
{
    struct measurement line;
    struct sp_error err = {0};
    double seconds = 0;
    if (!measurement_parse(arena, text, length, &line, &err)) {
        return;
    }
    if (fit_predict(arena, machine, &line, &seconds, &err)) {
        expect(isfinite(seconds) && seconds > 0, "a prediction that is no time");
    } else {
        expect(err.kind == SP_ERROR_INPUT && err.text[0] != '\0' && strchr(err.text, '\n') == NULL, "no reason");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct sp_arena *kept; /* of all inputs the same, read once */
    static struct hardware_spec hardware;
    struct sp_arena *arena = sp_arena_open();
    struct sp_error err = {0};
    if (kept == NULL) {
        kept = sp_arena_open();
        expect(hardware_read(kept, "dgx-h200", NULL, &hardware, &err), err.text);
    }
    const struct fit_machine machine = {.hardware = &hardware, .kernel = "seqplan"};
    const char *text = (const char *)data;
    while (size > 0) {
        const char *newline = memchr(text, '\n', size);
        size_t length = newline == NULL ? size : (size_t)(newline - text);
        predict_line(arena, &machine, text, length);
        length += newline == NULL ? 0 : 1;
        text += length;
        size -= length;
    }
    sp_arena_close(arena);
    return 0;
}
