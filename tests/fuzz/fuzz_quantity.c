/* The first byte picks the dimension, the rest is the text. What is taken is a finite value that is not negative, and
 * its exact text reads back as the same value; what is refused has a reason of one line. */
#include "base/base.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool is_true, const char *what, const char *text)
{
    if (!is_true) {
        (void)fprintf(stderr, "%s: %s\n", what, text);
        abort();
    }
}

static void check_taken(struct sp_arena *arena, double value, enum sp_dimension dimension, const char *text)
{
    expect(isfinite(value) && value >= 0.0, "not a value", text);
    const char *exact = sp_quantity_exact(arena, value, dimension);
    struct sp_error err = {0};
    double back = -1.0;
    expect(sp_quantity_parse(exact, dimension, &back, &err), "exact text is refused", exact);
    expect(!(back < value) && !(back > value), "exact text has another value", exact);
    expect(strlen(sp_quantity_print(arena, value, dimension)) > 0, "nothing to read", text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    struct sp_arena *arena = sp_arena_open();
    enum sp_dimension dimension = (enum sp_dimension)(data[0] % SP_N_DIMENSIONS);
    const char *text = sp_strndup(arena, (const char *)data + 1, size - 1);
    struct sp_error err = {0};
    double value = -1.0;
    if (sp_quantity_parse(text, dimension, &value, &err)) {
        check_taken(arena, value, dimension, text);
    } else {
        expect(err.kind == SP_ERROR_USAGE && err.text[0] != '\0', "refused without a reason", text);
        expect(strchr(err.text, '\n') == NULL, "reason of several lines", err.text);
    }
    sp_arena_close(arena);
    return 0;
}
