/* Bytes as a file of claims: it is read or refused with its place; what is read has a verdict and can be printed in any
 * format. */
#include "cmd/check.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Rows that are priced and searched take their time. */
enum { MOST_CLAIMS = 8 };

static void expect(bool is_true, const char *what)
{
    if (!is_true) {
        (void)fprintf(stderr, "%s\n", what);
        abort();
    }
}

static void print(struct sp_arena *arena, const struct report_claim_document *document)
{
    for (int format = REPORT_TABLE; format <= REPORT_JSON; format++) {
        char *text = NULL;
        size_t size = 0;
        FILE *file = open_memstream(&text, &size);
        expect(file != NULL, "no memory stream");
        const struct report_style style = {.file = file, .format = (enum report_format)format, .version = ""};
        report_claims(&style, arena, document, 1);
        if (format == REPORT_MARKDOWN) {
            report_claims_page(&style, arena, document, 1);
        }
        expect(fclose(file) == 0, "the stream failed");
        free(text);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct claim_bounds bounds = {.step_time_factor = {.value = 1.1, .low = 0.9, .high = 1.6}};
    struct sp_arena *arena = sp_arena_open();
    struct sp_error err = {0};
    struct report_claim_document document = {.path = "claims.json"};
    const struct sp_json *file = sp_json_parse(arena, document.path, sp_strndup(arena, (const char *)data, size), &err);
    const struct sp_json *claims = file == NULL ? NULL : sp_json_member(file, "claims");
    if (claims == NULL || claims->count <= MOST_CLAIMS) {
        if (file != NULL && check_file_parse(arena, file, &bounds, &document, &err)) {
            for (int i = 0; i < document.n_rows; i++) {
                const struct report_claim_row *row = &document.rows[i];
                expect(row->section != NULL && row->text != NULL && row->finding < N_CLAIM_FINDINGS, "half a row");
                expect((row->finding == CLAIM_UNASKED) == (row->quantity == NULL), "neither asked nor unasked");
            }
            print(arena, &document);
        } else {
            expect(err.kind == SP_ERROR_INPUT && err.text[0] != '\0', "refused without a reason");
            expect(strchr(err.text, '\n') == NULL, "reason of several lines");
        }
    }
    sp_arena_close(arena);
    return 0;
}
