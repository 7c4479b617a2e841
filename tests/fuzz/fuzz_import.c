/* Bytes as logs of other programs, as what they look like and as each kind in turn: each is taken or refused with a reason;
 * what is taken can be stored and read back as lines of ours, and a topology that is taken makes a hardware file. */
#include "fit/import.h"

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

static void check_refusal(const struct sp_error *err)
{
    expect(err->kind == SP_ERROR_INPUT && err->text[0] != '\0', "refused without a reason");
    expect(strchr(err->text, '\n') == NULL, "reason of several lines");
}

static void check_line(struct sp_arena *arena, const char *json, enum measurement_kind kind)
{
    struct measurement line;
    struct sp_error err = {0};
    expect(json != NULL && strchr(json, '\n') == NULL, "no line");
    expect(measurement_parse(arena, json, strlen(json), &line, &err), err.text);
    expect(line.kind == kind, "a line of another kind");
}

static void check_result(struct sp_arena *arena, const struct import_text *text, const struct import_result *result)
{
    int64_t n_rows = 0;
    expect(result->n_taken + result->n_skipped == result->n_notes, "notes and counts differ");
    for (int64_t i = 0; i < result->n_notes; i++) {
        const struct import_note *note = &result->notes[i];
        expect(note->line >= 1 && note->line <= text->n_lines, "a note of no line");
        expect(note->text[0] != '\0' && (note->reason[0] == '\0') == (note->is_taken && !note->is_flawed),
               "a note without its reason");
    }
    for (size_t i = 0; i < result->n_runs; i++) {
        const struct store_import *run = &result->runs[i];
        check_line(arena, run->run.machine, MEASUREMENT_MACHINE);
        expect(run->n_rows > 0 && run->run.key[0] != '\0' && run->is_finished, "an empty run");
        for (size_t row = 0; row < run->n_rows; row++) {
            check_line(arena, run->rows[row].json, MEASUREMENT_TIMED);
            for (size_t other = 0; other < row && row < 64; other++) {
                expect(strcmp(run->rows[row].key, run->rows[other].key) != 0, "a key twice");
            }
        }
        n_rows += (int64_t)run->n_rows;
    }
    expect(n_rows == result->n_measurements, "rows and measurements differ");
}

static void import_as(const struct import_text *text, enum import_kind kind)
{
    static const struct import_given none = {.ranks = 0};
    static const struct import_given all = {
        .ranks = 6, .nodes = 3, .gpu = "H100", .global_batch = 61, .warmup = {.is_given = true}};
    struct sp_arena *arena = sp_arena_open();
    for (int i = 0; i < 2; i++) {
        struct import_result result = {0};
        struct sp_error err = {0};
        const struct import_given *given = i == 0 ? &none : &all;
        const struct import_log_source source = {.text = text, .kind = kind};
        struct topology *topology = sp_arena_alloc(arena, sizeof(*topology));
        bool is_topology = kind == IMPORT_TOPOLOGY;
        bool is_good = is_topology                 ? import_topology(arena, text, topology, &result, &err)
                       : kind == IMPORT_NCCL_TESTS ? import_nccl(arena, text, given, &result, &err)
                                                   : import_training(arena, &source, given, &result, &err);
        if (!is_good) {
            check_refusal(&err);
            continue;
        }
        check_result(arena, text, &result);
        const struct import_node_given node = {.gpu = "a100-sxm-80", .name = "fuzz", .source = "bytes"};
        if (is_topology && i == 0 && import_node_text(arena, topology, &node, &result.warnings, &err) == NULL) {
            check_refusal(&err);
        }
    }
    sp_arena_close(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sp_arena *arena = sp_arena_open();
    const struct import_text text = import_text_open(arena, "bytes", (const char *)data, size);
    enum import_kind found = N_IMPORT_KINDS;
    struct sp_error err = {0};
    if (!import_recognise(&text, &found, &err)) {
        check_refusal(&err);
    }
    for (int kind = 0; kind < (int)IMPORT_MEASUREMENTS; kind++) {
        import_as(&text, (enum import_kind)kind);
    }
    sp_arena_close(arena);
    return 0;
}
