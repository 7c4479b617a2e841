/* Bytes as a model's config.json, as a hardware file and as a layout: each is read or refused with a reason, and what is
 * read keeps the bounds that the rest of the program counts on. */
#include "spec/spec_internal.h"

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

static void expect_error(const struct sp_error *err)
{
    expect(err->kind != SP_ERROR_NONE && err->text[0] != '\0', "refused without a reason");
    expect(strchr(err->text, '\n') == NULL, "reason of several lines");
}

static void check_model(struct sp_arena *arena, const struct sp_json *json)
{
    struct model_spec model;
    struct sp_texts warnings = {.arena = arena};
    struct sp_error err = {0};
    if (!model_decode(arena, "fuzz/config.json", json, &model, &warnings, &err)) {
        expect_error(&err);
        expect(err.kind == SP_ERROR_INPUT, "a model that is no input error");
        return;
    }
    expect(model.n_layers >= 1 && model.hidden >= 1 && model.head_dim >= 1 && model.ffn >= 1 && model.vocab >= 1,
           "a model without a size");
    expect(model.n_kv_heads >= 1 && model.n_heads % model.n_kv_heads == 0, "heads that do not group");
    expect(model.max_position >= 1 && model.name != NULL && model.family != NULL, "a model half read");
    struct model_size parameters = model_size(&model);
    expect(isfinite(parameters.total) && parameters.total > 0 && parameters.total >= parameters.layer[0],
           "an impossible number of parameters");
}

static void check_curves(const struct hardware_spec *hardware)
{
    for (int pass = 0; pass < N_GEMM_PASSES; pass++) {
        expect(hardware->gpu.gemm.n_points[pass] > 0, "a pass without points");
    }
    expect(hardware->gpu.n_attention > 0, "a GPU without attention");
    for (int i = 0; i < hardware->gpu.n_attention; i++) {
        const struct attention_curve *curve = &hardware->gpu.attention[i];
        for (int line = 0; line < curve->n_lines; line++) {
            const struct attention_line *points = &curve->lines[line];
            for (int at = 1; at < points->n_points; at++) {
                expect(points->log_sequence[at] > points->log_sequence[at - 1], "points out of order");
            }
        }
    }
    for (int i = 0; i < hardware->intra.n_lines; i++) {
        expect(hardware->intra.lines[i].curve.n_points > 0, "a collective without points");
    }
}

static void check_hardware(struct sp_arena *arena, const struct sp_json *json)
{
    struct hardware_spec hardware;
    struct sp_error err = {0};
    if (!hardware_decode(arena, "fuzz.json", json, &hardware, &err)) {
        expect_error(&err);
        return;
    }
    check_curves(&hardware);
    struct layout_spec layout = {
        .tp = 2, .sp = 3, .pp = 5, .dp = 7, .order = {AXIS_DP, AXIS_TP, AXIS_PP, AXIS_CP, AXIS_EP}};
    for (int axis = 0; axis < N_AXES; axis++) {
        struct group_placement placement = layout_placement(&layout, &hardware, (enum axis)axis);
        expect(placement.nodes >= 1 && placement.nodes <= placement.size, "more domains than ranks");
    }
    struct group_placement shard = layout_shard_placement(&layout, &hardware);
    expect(shard.size == 21 && shard.nodes >= 1 && shard.nodes <= 21, "a shard group that is none");
}

static void check_layout(struct sp_arena *arena, const struct sp_json *json)
{
    struct request request;
    struct request merged;
    struct sp_error err = {0};
    request_init(&request, arena);
    if (!layout_file_apply(arena, "fuzz.json", json, &request, &merged, &err)) {
        expect_error(&err);
        return;
    }
    expect(!merged.tp.is_given || merged.tp.value >= 1, "a degree below 1");
    if (!settings_check_paths(&merged, arena, &err)) {
        expect_error(&err);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sp_arena *arena = sp_arena_open();
    const char *text = size == 0 ? "" : sp_strndup(arena, (const char *)data, size);
    struct sp_error err = {0};
    const struct sp_json *json = sp_json_parse(arena, "fuzz.json", text, &err);
    if (json == NULL) {
        expect_error(&err);
    } else {
        check_model(arena, json);
        check_hardware(arena, json);
        check_layout(arena, json);
    }
    sp_arena_close(arena);
    return 0;
}
