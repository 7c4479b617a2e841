#include "spec/spec_internal.h"

#define FIGURE(owner, member, dim, low, high, text)                                                                    \
    {                                                                                                                  \
        .key = #member, .type = SP_FIELD_FIGURE, .dimension = (dim), .offset = offsetof(struct owner, member),         \
        .min = (low), .max = (high), .is_required = true, .help = (text)                                               \
    }
#define CHOICE(owner, member, choices, text)                                                                           \
    {                                                                                                                  \
        .key = #member, .type = SP_FIELD_ENUM, .offset = offsetof(struct owner, member), .is_required = true,          \
        .help = (text), .names = (choices)                                                                             \
    }
#define FLAG(owner, member, text)                                                                                      \
    {                                                                                                                  \
        .key = #member, .type = SP_FIELD_BOOL, .offset = offsetof(struct owner, member), .is_required = true,          \
        .help = (text)                                                                                                 \
    }
#define TEXT(owner, member, text)                                                                                      \
    {                                                                                                                  \
        .key = #member, .type = SP_FIELD_STRING, .offset = offsetof(struct owner, member), .is_required = true,        \
        .help = (text)                                                                                                 \
    }
#define TEXTS(owner, schema_text)                                                                                      \
    TEXT(owner, schema, schema_text), TEXT(owner, name, "name of the file"), TEXT(owner, title, "as people write it"), \
        TEXT(owner, source, "where the file as a whole comes from")

const char *const offloads_activations_names[] = {"kept", "checkpoints", "any", NULL};
const char *const offloads_state_names[] = {"optimizer", "together", "either", NULL};

#define FRAMEWORK_SETTABLE                                                                                             \
    CHOICE(framework_spec, gradient_dtype, dtype_names, "of the gradients that are reduced"),                          \
        CHOICE(framework_spec, moment_dtype, dtype_names, "of Adam's two moments"),                                    \
        FLAG(framework_spec, has_master_weights, "float32 copy of the weights in the optimizer"),                      \
        FLAG(framework_spec, has_persistent_gradients, "one gradient buffer from before the step on"),                 \
        FLAG(framework_spec, has_gradient_placeholders, "a bf16 tensor per distinct weight shape stays allocated"),    \
        FLAG(framework_spec, saves_gathered_input, "inputs of column-parallel layers are kept gathered"),              \
        FLAG(framework_spec, spreads_remainder_layers, "layers that do not divide by pp are spread unasked"),          \
        FLAG(framework_spec, refuses_few_micro_batches, "fewer micro-batches than stages is an error"),                \
        FLAG(framework_spec, repeats_kv_over_tp, "fewer key-value heads than tp are repeated"),                        \
        FLAG(framework_spec, keeps_root_gathered, "ZeRO 3: embedding, head and final norm stay whole in the step"),    \
        FLAG(framework_spec, gathers_once_under_pp, "ZeRO 3 with pp: weights stay whole, gradients scattered once"),   \
        FLAG(framework_spec, selective_keeps_products, "selective recomputation keeps every second product"),          \
        FLAG(framework_spec, pads_vocabulary, "vocabulary rounded up to a multiple of 128 x tp"),                      \
        FLAG(framework_spec, combines_tp_and_pp, "its sequence parallelism runs beside tp and pp"),                    \
        FLAG(framework_spec, shards_in_pipelines, "ZeRO 2 and 3 run beside pipeline stages"),                          \
        FLAG(framework_spec, stops_recompute_early, "eager layers are rebuilt only up to the last tensor needed"),     \
        CHOICE(framework_spec, offloads_activations, offloads_activations_names, "what it sends to the host"),         \
        CHOICE(framework_spec, offloads_state, offloads_state_names, "what of the state lives on the host"),           \
        FIGURE(framework_spec, step_host_forward, SP_SECONDS, 0, 1, "host time of one step of a ring, forward"),       \
        FIGURE(framework_spec, step_host_backward, SP_SECONDS, 0, 1, "host time of one step of a ring, backward"),     \
        FIGURE(framework_spec, offload_overhead, SP_SECONDS, 0, 1000,                                                  \
               "time per step that an offloaded optimizer adds to its transfers"),                                     \
        FIGURE(framework_spec, gather_copy_passes, SP_PURE, 0, 100, "ZeRO 3: passes over weights that were gathered"), \
        FIGURE(framework_spec, scatter_copy_passes, SP_PURE, 0, 100, "ZeRO 3: passes over gradients to be scattered"), \
        FIGURE(framework_spec, optimizer_bandwidth, SP_FRACTION, 0.01, 1,                                              \
               "share of the element-wise bandwidth that the optimizer's kernels reach"),                              \
        FIGURE(framework_spec, tp_overlap, SP_FRACTION, 0, 1, "share of tp collectives hidden by products"),           \
        FIGURE(framework_spec, host_tail, SP_SECONDS, 0, 100, "host time at the end of a step, GPU drained"),          \
        FIGURE(framework_spec, gemm_workspace, SP_BYTES, 0, 1e12, "workspace of matrix products"),                     \
        FIGURE(framework_spec, attention_workspace, SP_BYTES, 0, 1e12, "workspace of attention, rope tables"),         \
        FIGURE(framework_spec, collective_buffers, SP_BYTES, 0, 1e12, "NCCL buffers outside the allocator"),           \
        FIGURE(framework_spec, allocator_slack, SP_FRACTION, 0, 1, "reserved over allocated memory, minus one"),       \
        FIGURE(framework_spec, bucket_bytes, SP_BYTES, 0, 1e12, "gradient bucket in flight"),                          \
        FIGURE(framework_spec, time_spread, SP_FRACTION, 0, 1,                                                         \
               "standard deviation of step times, beyond the figures'"),                                               \
        FIGURE(framework_spec, memory_spread, SP_FRACTION, 0, 1, "standard deviation of peak_allocated_bytes"),        \
        FIGURE(framework_spec, memory_spread_beyond, SP_FRACTION, 0, 1,                                                \
               "the same with experts, fp8, adapters, offload")

static const struct sp_field framework_file_fields[] = {
    TEXTS(framework_spec, "\"seqplan.framework/1\""),
    CHOICE(framework_spec, kernels, kernels_names, "element-wise kernels unless --kernels says otherwise"),
    TEXT(framework_spec, plain_loss, "name in frameworks/losses of run.loss plain"),
    TEXT(framework_spec, fused_loss, "name in frameworks/losses of run.loss fused"),
    TEXT(framework_spec, schedules, "pipeline schedules that it has, by their names of --schedule"),
    FRAMEWORK_SETTABLE,
    {.key = NULL},
};
static const struct sp_field framework_settable[] = {FRAMEWORK_SETTABLE, {.key = NULL}};

#define PASSES(member, text) FIGURE(kernels_spec, member, SP_PURE, 0, 1000, text)
#define KERNELS_SETTABLE                                                                                               \
    PASSES(forward_hidden_passes, "passes over a hidden tensor of a layer: norms, residual additions"),                \
        PASSES(forward_ffn_passes, "passes over an MLP tensor: gate, product"),                                        \
        PASSES(forward_rope_passes, "passes over q and k"),                                                            \
        PASSES(backward_hidden_passes, "passes over a hidden tensor of a layer"),                                      \
        PASSES(backward_ffn_passes, "passes over an MLP tensor"), PASSES(backward_rope_passes, "passes over q and k"), \
        PASSES(backward_qkv_passes, "passes over q, k and v: their gradients joined"),                                 \
        PASSES(forward_kernels, "kernels launched per layer"), PASSES(backward_kernels, "kernels launched per layer"), \
        PASSES(saved_ffn_tensors, "MLP tensors kept for backward")

static const struct sp_field kernels_file_fields[] = {
    TEXTS(kernels_spec, "\"seqplan.kernels/1\""), KERNELS_SETTABLE, {.key = NULL}};
static const struct sp_field kernels_settable[] = {KERNELS_SETTABLE, {.key = NULL}};

#define PER_LOGIT(member, text) FIGURE(loss_spec, member, SP_PURE, 0, 1000, text)
#define LOSS_SETTABLE                                                                                                  \
    PER_LOGIT(forward_bytes_per_logit, "memory traffic of the loss kernels, forward"),                                 \
        PER_LOGIT(backward_bytes_per_logit, "memory traffic of the loss kernels, backward"),                           \
        PER_LOGIT(peak_bytes_per_logit, "held at once at the loss, bf16 logits included"),                             \
        PER_LOGIT(gradient_bytes_per_logit, "held while the output layer's backward runs"),                            \
        FLAG(loss_spec, recomputes_logits, "the output layer runs again in backward")

static const struct sp_field loss_file_fields[] = {
    TEXTS(loss_spec, "\"seqplan.loss/1\""), LOSS_SETTABLE, {.key = NULL}};
static const struct sp_field loss_settable[] = {LOSS_SETTABLE, {.key = NULL}};

const struct sp_field software_fields[] = {
    {.key = "framework",
     .type = SP_FIELD_OBJECT,
     .offset = offsetof(struct software_spec, framework),
     .help = "memory policy and fixed costs of the framework",
     .fields = framework_settable},
    {.key = "kernels",
     .type = SP_FIELD_OBJECT,
     .offset = offsetof(struct software_spec, kernels),
     .help = "element-wise kernels",
     .fields = kernels_settable},
    {.key = "loss",
     .type = SP_FIELD_OBJECT,
     .offset = offsetof(struct software_spec, loss),
     .help = "output layer and cross entropy",
     .fields = loss_settable},
    {.key = NULL},
};

/* A kind of file, how it calls itself and what it holds. */
struct software_kind {
    const char *folder;
    const char *schema;
    const struct sp_field *fields;
};

static bool read_file(struct sp_arena *arena, const struct software_kind *kind, const char *name, void *object,
                      struct sp_error *err)
{
    const char *path = data_find(arena, kind->folder, name, err);
    const struct sp_json *json = path == NULL ? NULL : sp_json_read(arena, path, err);
    const struct sp_decoder decoder = {.arena = arena, .file = path};
    return json != NULL && schema_check(&decoder, json, "$", kind->schema, err) &&
           sp_fields_decode(kind->fields, &decoder, json, "$", object, err);
}

bool framework_read(struct sp_arena *arena, enum framework_id framework, struct framework_spec *spec,
                    struct sp_error *err)
{
    static const struct software_kind kind = {"frameworks", "seqplan.framework/1", framework_file_fields};
    *spec = (struct framework_spec){0};
    return read_file(arena, &kind, framework_names[framework], spec, err);
}

bool kernels_read(struct sp_arena *arena, enum kernels_id kernels, struct kernels_spec *spec, struct sp_error *err)
{
    static const struct software_kind kind = {"frameworks/kernels", "seqplan.kernels/1", kernels_file_fields};
    *spec = (struct kernels_spec){0};
    return read_file(arena, &kind, kernels_names[kernels], spec, err);
}

bool loss_read(struct sp_arena *arena, const char *name, struct loss_spec *spec, struct sp_error *err)
{
    static const struct software_kind kind = {"frameworks/losses", "seqplan.loss/1", loss_file_fields};
    *spec = (struct loss_spec){0};
    return read_file(arena, &kind, name, spec, err);
}
