/* Bytes as a sheet of runs and as a table of them: each is read or refused with a reason; what is read has names, quantities
 * and roles, and can be printed in any format. */
#include "cmd/command.h"

#include <math.h>
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

/* Prices everything alike: pricing has fuzz targets of its own. */
static bool price(void *user, const struct sp_texts *words, struct question *question, struct estimate *estimate,
                  struct sp_error *err)
{
    (void)user;
    if (words->count % 3 == 0) {
        return sp_fail(err, SP_ERROR_USAGE, "every third is refused");
    }
    memset(question, 0, sizeof(*question));
    memset(estimate, 0, sizeof(*estimate));
    question->layout.pp = 1 + (int64_t)(words->count % 2);
    question->run.seq = (int64_t)words->count * 61;
    question->model.n_layers = 1;
    estimate->micro_batches = 1;
    estimate->step_time_s = 0.61;
    estimate->peak_allocated_bytes = 61e9;
    return true;
}

static void check_refusal(const struct sp_error *err)
{
    expect(err->kind == SP_ERROR_INPUT && err->text[0] != '\0', "refused without a reason");
    expect(strchr(err->text, '\n') == NULL, "reason of several lines");
}

static void print_source(struct sp_arena *arena, struct validation_source *source)
{
    const struct validation_set set = {.sources = source, .n_sources = 1};
    for (int format = REPORT_TABLE; format <= REPORT_JSON; format++) {
        for (int by = 0; by < (int)VALIDATION_BY_GROUP; by++) {
            char *text = NULL;
            size_t size = 0;
            FILE *file = open_memstream(&text, &size);
            expect(file != NULL, "no memory stream");
            const struct report_style style = {.file = file, .format = (enum report_format)format, .version = ""};
            const struct report_validation validation = {
                .set = &set, .by = (enum validation_by)by, .roles = VALIDATION_ALL, .has_rows = true};
            report_validation(&style, arena, &validation);
            if (format == REPORT_MARKDOWN) {
                report_validation_page(&style, arena, &validation);
            }
            expect(fclose(file) == 0, "the stream failed");
            free(text);
        }
    }
}

static void read_table(struct sp_arena *arena, const struct sp_json *file)
{
    struct sp_arena *scratch = sp_arena_open();
    const struct validation_pricer pricer = {
        .arena = arena, .scratch = scratch, .options = question_options, .price = price};
    struct validation_source source;
    struct sp_error err = {0};
    bool is_read = validation_read_json(&pricer, "runs", file, &source, &err);
    sp_arena_close(scratch);
    if (!is_read) {
        check_refusal(&err);
        return;
    }
    for (int i = 0; i < source.n_rows; i++) {
        const struct validation_row *row = &source.rows[i];
        expect(row->name != NULL && row->group != NULL && row->quantity != NULL, "half a row");
        expect(isfinite(row->measured) && (row->measured > 0.0 || row->quantity->unit == VALIDATION_YES_NO),
               "measured nothing");
        expect(row->state != VALIDATION_COMPARED || isfinite(row->error_frac), "no error");
    }
    if (source.n_rows <= 16) {
        print_source(arena, &source);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sp_arena *arena = sp_arena_open();
    struct sp_error err = {0};
    char *text = sp_strndup(arena, (const char *)data, size);
    const struct sp_json *file = validation_csv_parse(arena, question_options, "runs.csv", text, &err);
    if (file == NULL) {
        check_refusal(&err);
    } else {
        read_table(arena, file);
    }
    err = (struct sp_error){0};
    file = sp_json_parse(arena, "runs.json", text, &err);
    if (file == NULL) {
        check_refusal(&err);
    } else {
        read_table(arena, file);
    }
    sp_arena_close(arena);
    return 0;
}
