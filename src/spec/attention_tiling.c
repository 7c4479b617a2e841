/* "tiles" of an attention kernel: the thread blocks that it cuts its work into, in cycles (docs/model.md, eq. 28, 29). */
#include "spec/spec_internal.h"

#define FIGURE(owner, member, dim, low, high, text)                                                                    \
    {                                                                                                                  \
        .key = #member, .type = SP_FIELD_FIGURE, .dimension = (dim), .offset = offsetof(struct owner, member),         \
        .min = (low), .max = (high), .is_required = true, .help = (text)                                               \
    }
#define CYCLES(member, text) FIGURE(attention_tiling, member, SP_PURE, 0, 1e9, text)

static const char *const direction_names[] = {"forward", "backward", NULL};

struct tiling_row {
    int direction;
    struct attention_tiling tiling;
};
static const struct sp_field tiling_figures[] = {
    FIGURE(attention_tiling, block_rows, SP_COUNT, 1, 65536, "rows of a block: queries forward, keys backward"),
    FIGURE(attention_tiling, step_rows, SP_COUNT, 1, 65536, "rows of a step: keys forward, queries backward"),
    CYCLES(start, "cycles before the first block and after the last"),
    CYCLES(block, "cycles of a block besides its steps"),
    FIGURE(attention_tiling, step, SP_PURE, 1, 1e9, "cycles of a step"),
    CYCLES(mask, "more cycles of a block that the mask cuts"),
    CYCLES(merge, "more cycles where a block merges its result into float32 sums"),
    CYCLES(cached_merge, "the same where these sums are in the L2"),
    CYCLES(sum, "more cycles where a block adds dK and dV to float32 sums"),
    FIGURE(attention_tiling, power, SP_WATT, 1, 1e5, "drawn by products at the whole rate and the reference clock"),
    {.key = NULL},
};
static const struct sp_field row_fields[] = {
    {.key = "pass",
     .type = SP_FIELD_ENUM,
     .offset = offsetof(struct tiling_row, direction),
     .is_required = true,
     .help = "\"forward\" or \"backward\"",
     .names = direction_names},
    {.key = "head_dim",
     .type = SP_FIELD_INTEGER,
     .offset = offsetof(struct tiling_row, tiling.head_dim),
     .min = 1,
     .max = 65536,
     .is_required = true,
     .help = "columns of a head"},
    {.key = "figures",
     .type = SP_FIELD_OBJECT,
     .offset = offsetof(struct tiling_row, tiling),
     .is_required = true,
     .help = "sizes and cycles",
     .fields = tiling_figures},
    {.key = NULL},
};
static const struct sp_field clock_fields[] = {
    FIGURE(attention_clock, flop_per_cycle, SP_PURE, 1, 1e12, "peak of all multiprocessors"),
    FIGURE(attention_clock, reference_hz, SP_PURE, 1e6, 1e12, "clock at which the powers are given"),
    FIGURE(attention_clock, most_hz, SP_PURE, 1e6, 1e12, "highest clock with busy tensor cores"),
    FIGURE(attention_clock, idle_power, SP_WATT, 0, 1e5, "drawn whatever runs"),
    FIGURE(attention_clock, exponent, SP_PURE, 1, 20, "power of the products grows with the clock to this"),
    {.key = NULL},
};
static const struct sp_field harness_fields[] = {
    FIGURE(attention_harness, latency, SP_SECONDS, 0, 1, "of a kernel queued behind another"),
    FIGURE(attention_harness, pause, SP_SECONDS, 0, 1, "between two samples"),
    FIGURE(attention_harness, memory_power, SP_FRACTION, 0, 1,
           "of kernels that only move memory, of what the limit leaves"),
    FIGURE(attention_harness, wait, SP_SECONDS, 0, 1, "for the other stream"),
    FIGURE(attention_harness, copy_sms, SP_COUNT, 1, 1e5, "multiprocessors that a local copy needs"),
    FIGURE(attention_harness, clock_spread, SP_FRACTION, 0, 1, "of the clocks of equal GPUs at the power limit"),
    {.key = NULL},
};

struct tiles_file {
    const struct sp_json *passes;
    struct tiling_file tiling;
};
static const struct sp_field tiles_fields[] = {
    {.key = "clock",
     .type = SP_FIELD_OBJECT,
     .offset = offsetof(struct tiles_file, tiling.clock),
     .is_required = true,
     .help = "the clock that the power limit leaves",
     .fields = clock_fields},
    {.key = "harness",
     .type = SP_FIELD_OBJECT,
     .offset = offsetof(struct tiles_file, tiling.harness),
     .is_required = true,
     .help = "what a run of the measuring program has besides its kernels",
     .fields = harness_fields},
    {.key = "passes",
     .type = SP_FIELD_CUSTOM,
     .offset = offsetof(struct tiles_file, passes),
     .is_required = true,
     .help = "an object for each pass and head dimension",
     .decode = curve_keep_array},
    {.key = NULL},
};

bool attention_tiling_decode(const struct sp_decoder *decoder, const struct sp_json *json, const char *path,
                             void *target, struct sp_error *err)
{
    struct tiles_file file = {0};
    if (!sp_fields_decode(tiles_fields, decoder, json, path, &file, err)) {
        return false;
    }
    if (file.passes->count == 0) {
        return sp_fail(err, SP_ERROR_INPUT, "%s: %s.passes: expected an object for each pass and head_dim, found none",
                       decoder->file, path);
    }
    struct attention_tiling *tilings = sp_arena_array(decoder->arena, (size_t)file.passes->count, sizeof(*tilings));
    int at = 0;
    for (const struct sp_json *pass = file.passes->first; pass != NULL; pass = pass->next, at++) {
        struct tiling_row row = {0};
        const char *place = sp_format(decoder->arena, "%s.passes[%d]", path, at);
        if (!sp_fields_decode(row_fields, decoder, pass, place, &row, err)) {
            return false;
        }
        tilings[at] = row.tiling;
        tilings[at].is_backward = row.direction == 1;
        for (int before = 0; before < at; before++) {
            if (tilings[before].is_backward == tilings[at].is_backward &&
                tilings[before].head_dim == tilings[at].head_dim) {
                return sp_fail(err, SP_ERROR_INPUT,
                               "%s: %s: expected one object for a pass and head_dim, found %s %lld "
                               "before",
                               decoder->file, place, direction_names[row.direction], (long long)row.tiling.head_dim);
            }
        }
    }
    file.tiling.n_tilings = at;
    file.tiling.tilings = tilings;
    file.tiling.clock.headroom = 1;
    *(struct tiling_file *)target = file.tiling;
    return true;
}
