#include "cmd/measure.h"

enum { MOST_NAMED = 10 }; /* of lines that are skipped */

void measure_intake_skip(struct measure_intake *intake, const char *reason)
{
    intake->n_skipped++;
    if (intake->notes != NULL) {
        import_reject(intake->notes, intake->n_lines, "not readable", "%s", reason);
        return;
    }
    if (intake->n_skipped > MOST_NAMED) {
        return;
    }
    if (intake->progress != NULL) {
        progress_clear(intake->progress);
    }
    (void)fprintf(stderr, "seqplan: %s: line %lld is skipped: %s\n", intake->source, (long long)intake->n_lines,
                  reason);
}

static bool is_blank(const struct line *text)
{
    for (size_t i = 0; i < text->length; i++) {
        if (text->text[i] != ' ' && text->text[i] != '\t') {
            return false;
        }
    }
    return true;
}

bool measure_intake_read(struct measure_intake *intake, struct sp_arena *arena, const struct line *text,
                         struct measurement *line)
{
    intake->n_lines++;
    if (is_blank(text)) {
        return false;
    }
    struct sp_error err = {.kind = SP_ERROR_NONE};
    bool is_read = measurement_parse(arena, text->text, text->length, line, &err);
    if (!is_read && text->is_whole) {
        measure_intake_skip(intake, err.text);
    }
    return is_read;
}

void measure_intake_close(const struct measure_intake *intake)
{
    if (intake->n_skipped > MOST_NAMED && intake->notes == NULL) {
        (void)fprintf(stderr, "seqplan: %s: %lld lines are skipped in all\n", intake->source,
                      (long long)intake->n_skipped);
    }
}
