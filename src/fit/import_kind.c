/* What a text is, by what stands in it: the first line that only one kind has. */
#include "fit/nccl_log.h"

#include <string.h>

const char *const import_kind_names[] = {"nccl-tests", "topology",  "megatron",     "torchtitan",
                                         "nanotron",   "deepspeed", "measurements", NULL};
_Static_assert(SP_COUNT_OF(import_kind_names) == N_IMPORT_KINDS + 1, "a name for each kind");

/* All of the marks stand in one line. DeepSpeed stands behind Megatron: where both are used the latter's line has the
 * time of the iteration. */
static const struct {
    enum import_kind kind;
    const char *marks[3];
} signs[] = {
    {IMPORT_MEASUREMENTS, {"{\"kind\"", "\"machine\"", "\"seqplan.device/"}},
    {IMPORT_MEASUREMENTS, {"{\"kind\"", "\"run\"", "\"seqplan.measurements/"}},
    {IMPORT_NCCL_TESTS, {"algbw", "busbw", "time"}},
    {IMPORT_NCCL_TESTS, {"nThread", "minBytes", "maxBytes"}},
    {IMPORT_NCCL_TESTS, {"Avg bus bandwidth", "", ""}},
    {IMPORT_MEGATRON, {"elapsed time per iteration (ms)", "iteration", ""}},
    {IMPORT_NANOTRON, {"elapsed_time_per_iteration_ms", "iteration", ""}},
    {IMPORT_TORCHTITAN, {"step:", "loss:", "memory:"}},
    {IMPORT_DEEPSPEED, {"RunningAvgSamplesPerSec", "CurrSamplesPerSec", ""}},
};

static bool has_sign(const struct import_text *text, size_t sign)
{
    for (int64_t i = 0; i < text->n_lines; i++) {
        bool has_all = true;
        for (size_t mark = 0; mark < SP_COUNT_OF(signs[sign].marks); mark++) {
            has_all = has_all && strstr(text->lines[i], signs[sign].marks[mark]) != NULL;
        }
        if (has_all) {
            return true;
        }
    }
    return false;
}

/* A matrix between GPUs: its rows hold an X where a GPU meets itself. */
static bool is_matrix(struct sp_arena *arena, const struct import_text *text)
{
    for (int64_t i = 0; i < text->n_lines; i++) {
        const struct import_words words = import_split(arena, text->lines[i]);
        bool is_row = words.count > 1 && strncmp(words.items[0], "GPU", 3) == 0;
        for (int word = 1; is_row && word < words.count; word++) {
            if (strcmp(words.items[word], "X") == 0) {
                return true;
            }
        }
    }
    return false;
}

/* Rows of nccl-tests whose heading was cut off. */
static bool has_rows_alone(struct sp_arena *arena, const struct import_text *text)
{
    for (int64_t i = 0; i < text->n_lines; i++) {
        if (nccl_is_row(arena, text->lines[i])) {
            return true;
        }
    }
    return false;
}

bool import_recognise(const struct import_text *text, enum import_kind *kind, struct sp_error *err)
{
    struct sp_arena *scratch = sp_arena_open();
    bool is_topology = is_matrix(scratch, text);
    bool is_nccl = has_rows_alone(scratch, text);
    sp_arena_close(scratch);
    for (size_t i = 0; i < SP_COUNT_OF(signs); i++) {
        if (has_sign(text, i)) {
            *kind = signs[i].kind;
            return true;
        }
    }
    *kind = is_topology ? IMPORT_TOPOLOGY : IMPORT_NCCL_TESTS;
    return is_topology || is_nccl ||
           sp_fail(
               err, SP_ERROR_INPUT,
               "%s: no output that is known in %lld line%s: expected nccl-tests, nvidia-smi topo -m, a training log of "
               "Megatron-LM, torchtitan, nanotron or DeepSpeed, or lines of seqplan-device; --kind says which",
               text->name, (long long)text->n_lines, sp_plural(text->n_lines));
}
