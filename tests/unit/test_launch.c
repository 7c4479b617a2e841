/* launch: what is printed for a launcher is the layout that was asked, read back by readers of their own; what a launcher
 * lacks is refused by name. */
#include "report/launch.h"
#include "support/launch_readers.h"
#include "support/questions.h"
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

/* ---- printing ---------------------------------------------------------------------------------------------------- */

static const char *printed(struct sp_arena *arena, const struct launch *launch, enum report_format format)
{
    char *text = NULL;
    size_t length = 0;
    FILE *memory = open_memstream(&text, &length);
    assert_non_null(memory);
    const struct report_style style = {.file = memory, .format = format, .version = "test"};
    report_launch(&style, arena, launch);
    assert_int_equal(fclose(memory), 0);
    const char *copy = sp_strdup(arena, text);
    free(text);
    return copy;
}

static const struct launcher *named(const char *name)
{
    int index = sp_index_of(name, launcher_names);
    assert_true(index >= 0);
    return launcher_of(index);
}

/* ---- there and back ---------------------------------------------------------------------------------------------- */

static int64_t degree_of(const struct layout_spec *layout, const char *axis, size_t length)
{
    const struct {
        const char *name;
        int64_t degree;
    } axes[] = {{"tp", layout->tp}, {"cp", layout->sp}, {"ep", layout->ep}, {"dp", layout->dp}, {"pp", layout->pp}};
    for (size_t i = 0; i < SP_COUNT_OF(axes); i++) {
        if (length == 2 && strncmp(axes[i].name, axis, 2) == 0) {
            return axes[i].degree;
        }
    }
    return 0;
}

/* The order of the axes that have several ranks. */
static const char *placing(struct sp_arena *arena, const struct layout_spec *layout, const char *order)
{
    const char *text = "";
    while (*order != '\0') {
        size_t length = strcspn(order, "-");
        if (degree_of(layout, order, length) > 1) {
            text = sp_format(arena, "%s%.*s-", text, (int)length, order);
        }
        order += length + (order[length] == '-' ? 1 : 0);
    }
    return text;
}

static const char *stages_of(struct sp_arena *arena, const struct question *question)
{
    const char *text = "";
    for (int64_t stage = 0; stage < question->layout.pp; stage++) {
        text = sp_format(arena, "%s%s%lld", text, stage == 0 ? "" : ",",
                         (long long)layout_stage_layers(&question->layout, &question->model, stage));
    }
    return text;
}

static const char *equal_stages(struct sp_arena *arena, const struct question *question)
{
    const char *text = "";
    for (int64_t stage = 0; stage < question->layout.pp; stage++) {
        text = sp_format(arena, "%s%s%lld", text, stage == 0 ? "" : ",",
                         (long long)(question->model.n_layers / question->layout.pp));
    }
    return text;
}

static void compare_degrees(const struct question *question, const struct launch_found *found)
{
    const struct layout_spec *layout = &question->layout;
    assert_int_equal(found->gpus, question->run.gpus);
    assert_int_equal(found->tp, layout->tp);
    assert_int_equal(found->sp, layout->sp);
    assert_int_equal(found->pp, layout->pp);
    assert_int_equal(found->dp, layout->dp);
    assert_int_equal(found->method, layout->method);
    assert_int_equal(found->micro_batch, layout->micro_batch);
    assert_int_equal(found->global_batch, question->run.global_batch);
    assert_int_equal(found->has_tp_sp, layout->tp > 1 && layout->has_tp_sp);
    assert_true(found->seq == question->run.seq || found->seq == -1);
    if (question->model.n_experts > 0) {
        assert_int_equal(found->ep, layout->ep);
        assert_int_equal(found->etp, layout->etp);
    }
    if (layout->method == METHOD_USP) {
        assert_int_equal(found->sp_ulysses, layout->sp_ulysses);
    }
}

static void compare_rest(struct sp_arena *arena, const struct question *question, const struct launch_found *found)
{
    const struct layout_spec *layout = &question->layout;
    assert_true(found->zero == layout->zero || found->zero == -1);
    assert_int_equal(found->precision, layout->precision);
    assert_int_equal(found->recompute, layout->recompute);
    assert_int_equal(found->offloads_activations, layout->offloads_activations);
    assert_int_equal(found->offloads_optimizer, layout->offloads_optimizer);
    assert_int_equal(found->offloads_parameters, layout->offloads_parameters);
    if (layout->recompute == RECOMPUTE_BLOCK) {
        assert_int_equal(found->recompute_layers, layout->recompute_layers);
    }
    assert_string_equal(placing(arena, layout, found->order), placing(arena, layout, report_order_text(arena, layout)));
    if (layout->pp > 1) {
        assert_int_equal(found->vpp, layout->vpp);
        assert_int_equal(found->schedule, layout->schedule);
        const char *stages = stages_of(arena, question);
        assert_string_equal(found->stages == NULL ? equal_stages(arena, question) : found->stages, stages);
    }
}

static void read_back(struct sp_arena *arena, const struct launch_reader *reader, const struct launch *launch)
{
    const struct question *question = launch->question;
    const struct launch_known known = {.arena = arena,
                                       .n_layers = question->model.n_layers,
                                       .gpus = question->run.gpus,
                                       .is_moe = question->model.n_experts > 0};
    const char *text = printed(arena, launch, REPORT_TABLE);
    struct launch_lines lines;
    struct launch_found found;
    if (reader->is_yaml) {
        launch_lines_yaml(&lines, arena, text);
    } else {
        launch_lines_shell(&lines, arena, text);
    }
    reader->read(&lines, &known, &found);
    compare_degrees(question, &found);
    compare_rest(arena, question, &found);
}

/* ---- layouts at random ------------------------------------------------------------------------------------------- */

/* 30,965,760 = 2^15 x 3^3 x 5 x 7: every degree below divides it. */
static const char *const clusters[] = {"model=llama-3.1-8b hardware=dgx-h100 gpus=8 seq=30965760",
                                       "model=llama-3.1-8b hardware=dgx-a100 gpus=48 seq=30965760",
                                       "model=llama-3.1-405b hardware=dgx-h200 gpus=336 seq=30965760",
                                       "model=qwen3-235b-a22b hardware=dgx-b200 gpus=96 seq=30965760",
                                       "model=llama-2-7b hardware=dgx-h100 gpus=56 seq=30965760"};

static int64_t pick(uint64_t *state, const int64_t *values, size_t n)
{
    return values[next_random(state) % n];
}

static bool one_in(uint64_t *state, uint64_t n)
{
    return next_random(state) % n == 0;
}

static enum method_id pick_method(uint64_t *state, unsigned methods)
{
    for (;;) {
        unsigned method = (unsigned)(next_random(state) % N_METHODS);
        if (method != METHOD_NONE && (methods & LAUNCH_BIT(method)) != 0) {
            return (enum method_id)method;
        }
    }
}

static void pick_stages(uint64_t *state, struct sp_arena *arena, const struct model_spec *model,
                        struct layout_spec *layout)
{
    static const enum pp_layers_kind kinds[] = {PP_LAYERS_EVEN, PP_LAYERS_AUTO, PP_LAYERS_PADDED, PP_LAYERS_EXPLICIT};
    layout->pp_layers = kinds[next_random(state) % SP_COUNT_OF(kinds)];
    if (layout->pp_layers != PP_LAYERS_EXPLICIT) {
        return;
    }
    int64_t *layers = sp_arena_array(arena, (size_t)layout->pp, sizeof(*layers));
    int64_t left = model->n_layers;
    for (int64_t stage = 0; stage < layout->pp; stage++) {
        int64_t share = left / (layout->pp - stage);
        layers[stage] = stage == layout->pp - 1 ? left : share - (share > 2 && one_in(state, 2) ? 1 : 0);
        left -= layers[stage];
    }
    layout->n_stage_layers = layout->pp;
    layout->stage_layers = layers;
}

static void pick_order(uint64_t *state, struct sp_arena *arena, struct layout_spec *layout)
{
    static const char *const orders[] = {"tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp", "cp-tp-ep-dp-pp"};
    struct sp_error err = {0};
    assert_true(order_parse(arena, orders[next_random(state) % SP_COUNT_OF(orders)], layout->order, &err));
}

static void pick_memory(uint64_t *state, struct layout_spec *layout)
{
    static const enum dtype dtypes[] = {DTYPE_BF16, DTYPE_BF16, DTYPE_FP16, DTYPE_FP8, DTYPE_FP32};
    layout->recompute = (enum recompute_kind)(next_random(state) % 4);
    layout->recompute_layers = layout->recompute == RECOMPUTE_BLOCK ? 1 + (int64_t)(next_random(state) % 3) : 0;
    layout->zero = (int)(next_random(state) % 4);
    layout->precision = dtypes[next_random(state) % SP_COUNT_OF(dtypes)];
    layout->offloads_activations = one_in(state, 6);
    layout->offloads_optimizer = one_in(state, 3);
    layout->offloads_parameters = layout->offloads_optimizer && one_in(state, 2);
}

/* Degrees of a cluster: what does not divide it comes out as dp 0. */
static void pick_degrees(uint64_t *state, const struct question *base, unsigned methods, struct layout_spec *layout)
{
    static const int64_t tps[] = {1, 1, 2, 4, 8};
    static const int64_t sps[] = {1, 2, 3, 4, 6, 7, 8, 16};
    static const int64_t pps[] = {1, 1, 2, 3, 4, 6, 7};
    static const int64_t vpps[] = {1, 1, 2, 3};
    layout->tp = pick(state, tps, SP_COUNT_OF(tps));
    layout->sp = methods == LAUNCH_BIT(METHOD_NONE) ? 1 : pick(state, sps, SP_COUNT_OF(sps));
    layout->pp = pick(state, pps, SP_COUNT_OF(pps));
    layout->vpp = layout->pp == 1 ? 1 : pick(state, vpps, SP_COUNT_OF(vpps));
    int64_t ranks = layout->tp * layout->sp * layout->pp;
    layout->dp = base->run.gpus % ranks == 0 ? base->run.gpus / ranks : 0;
    layout->method = layout->sp == 1 ? METHOD_NONE : pick_method(state, methods);
    layout->sp_ulysses = layout->method == METHOD_ULYSSES ? layout->sp : 1;
    if (layout->method == METHOD_USP) {
        layout->sp_ulysses = layout->sp % 3 == 0 ? 3 : 2;
    }
    layout->sp_inner = 1;
    layout->has_tp_sp = layout->tp > 1 && !one_in(state, 4);
    layout->micro_batch = 1 + (int64_t)(next_random(state) % 3);
    bool has_experts = base->model.n_experts > 0;
    layout->ep = has_experts ? pick(state, tps, SP_COUNT_OF(tps)) : 1;
    layout->etp = has_experts && one_in(state, 2) ? layout->tp : 1;
}

static void pick_schedule(uint64_t *state, struct layout_spec *layout)
{
    static const enum schedule_id schedules[] = {SCHEDULE_1F1B, SCHEDULE_GPIPE};
    layout->schedule = layout->vpp > 1 ? SCHEDULE_INTERLEAVED : schedules[next_random(state) % 2];
    if (one_in(state, 8) && layout->pp > 1) {
        layout->schedule = SCHEDULE_ZBV;
        layout->vpp = 2;
    }
}

static bool pick_question(uint64_t *state, struct sp_arena *arena, const struct question *base, unsigned methods,
                          struct question *question)
{
    struct layout_spec layout = base->layout;
    struct request request;
    struct sp_error err = {0};
    pick_degrees(state, base, methods, &layout);
    if (layout.dp == 0) {
        return false;
    }
    pick_schedule(state, &layout);
    pick_stages(state, arena, &base->model, &layout);
    pick_memory(state, &layout);
    pick_order(state, arena, &layout);
    request_init(&request, arena);
    question_with_layout(base, &request, &layout, arena, question);
    question->run.global_batch = layout.dp * layout.micro_batch * layout.pp * (1 + (int64_t)(next_random(state) % 4));
    return step_check(question, &err);
}

/* ---- the test of a reader ---------------------------------------------------------------------------------------- */

static const struct launch_engine *engine_of(const struct launch_reader *reader)
{
    const struct launcher *launcher = named(reader->launcher);
    for (int i = 0; i < launcher->n_engines; i++) {
        if (launcher->engines[i]->framework == reader->framework) {
            return launcher->engines[i];
        }
    }
    fail_msg("%s does not run %s", reader->launcher, framework_names[reader->framework]);
    return NULL;
}

static void read_base(struct sp_arena *arena, const struct launch_reader *reader, const char *cluster,
                      struct question *base)
{
    const char *settings = sp_format(arena, "%s framework=%s", cluster, framework_names[reader->framework]);
    question_from(arena, settings, base);
}

enum { WANTED = 300, MOST_TRIES = 400000 };

/* Several hundred layouts that the launcher takes, and as many clusters as there are. */
static int round_trips(const struct launch_reader *reader)
{
    enum { N_CLUSTERS = SP_COUNT_OF(clusters) };
    struct sp_arena *arena = sp_arena_open();
    struct question bases[N_CLUSTERS];
    for (int i = 0; i < N_CLUSTERS; i++) {
        read_base(arena, reader, clusters[i], &bases[i]);
    }
    const struct launch_engine *engine = engine_of(reader);
    uint64_t state = UINT64_C(0x9e3779b97f4a7c15);
    int n_read = 0;
    for (int i = 0; i < MOST_TRIES && n_read < WANTED; i++) {
        struct sp_arena_mark mark = sp_arena_mark(arena);
        struct question question;
        struct launch launch;
        struct sp_error err = {0};
        if (pick_question(&state, arena, &bases[i % N_CLUSTERS], engine->methods, &question) &&
            launch_build(arena, &question, named(reader->launcher), &launch, &err)) {
            read_back(arena, reader, &launch);
            n_read++;
        }
        sp_arena_rewind(arena, mark);
    }
    sp_arena_close(arena);
    return n_read;
}

static void lines_are_the_layout(void **state)
{
    (void)state;
    for (const struct launch_reader *reader = launch_readers; reader->launcher != NULL; reader++) {
        int n_read = round_trips(reader);
        if (n_read < WANTED) {
            fail_msg("%s on %s: only %d layouts", reader->launcher, framework_names[reader->framework], n_read);
        }
    }
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

#define SMALL "model=llama-3.1-8b hardware=dgx-h100 gpus=16 seq=128K "

static const struct refusal {
    const char *launcher;
    const char *settings;
    const char *reason;
    const char *nearest;
} refusals[] = {
    {"megatron-lm", SMALL "sp=8 method=ring framework=ring-flash-attn", "priced as ring-flash-attn",
     "--framework megatron, or --for axolotl"},
    {"megatron-lm", SMALL "sp=8 method=zigzag framework=torch", "Megatron-LM runs megatron", "--for torchtitan"},
    {"megatron-lm", SMALL "sp=8 set=layout.order=cp-tp-ep-dp-pp tp=2", "does not place ranks as cp-tp-ep-dp-pp",
     "layout.order=tp-cp-ep-dp-pp"},
    {"megatron-lm", SMALL "zero=0 offload=optimizer", "precision-aware", "--zero 1"},
    {"megatron-lm", SMALL "train=lora:16", "no LoRA", "--train full"},
    {"megatron-lm", SMALL "zero=3 pp=2", "Megatron-FSDP", "pipeline of 2 stages"},
    {"megatron-lm", SMALL "recompute=full offload=activations", "offloads activations only with recompute", "none"},
    {"megatron-lm", SMALL "set=run.loss=chunked", "chunks of tokens", "run.loss=fused"},
    {"megatron-lm", "model=llama-3.1-8b hardware=dgx-h200 gpus=16 seq=128K attention=seqplan", "own kernel",
     "--attention cudnn"},
    {"megatron-bridge", SMALL "precision=fp32", "no precision fp32, only bf16, fp8, fp16", "--precision bf16"},
    {"deepspeed", SMALL "framework=deepspeed precision=fp8", "no precision fp8", "--precision bf16"},
    {"deepspeed", SMALL "framework=alst recompute=selective", "no recomputation selective, only none, full",
     "--recompute full"},
    {"deepspeed", SMALL "framework=alst recompute=full offload=activations", "ArcticTraining", "--offload none"},
    {"deepspeed", SMALL "framework=deepspeed sp=8 method=ulysses zero=0", "DeepSpeed 7833", "--zero 1"},
    {"deepspeed", SMALL "framework=deepspeed tp=2", "tensor parallelism of 2", "--tp 1"},
    {"torchtitan", SMALL "framework=torch zero=1", "no ZeRO stage 1, only 0, 2, 3", "--zero 2"},
    {"torchtitan", SMALL "framework=torch zero=0 tp=2", "shards over dp x sp", "--zero 2"},
    {"torchtitan", SMALL "framework=torch zero=3 sp=8 method=ulysses", "no method ulysses", "--sp-method allgather"},
    {"torchtitan", SMALL "framework=torch zero=3 recompute=block:3", "no recomputation block", "--recompute full"},
    {"torchtitan", SMALL "framework=torch zero=3 offload=activations", "offloads activations", "--offload none"},
    {"torchtitan",
     "model=deepseek-v3 hardware=dgx-h100 gpus=64 seq=128K framework=torch zero=3 pp=4 pp-layers=14,16,16,15",
     "layers 14,16,16,15", "--pp-layers 15,16,16,14"},
    {"openrlhf", SMALL "framework=ring-flash-attn sp=8 method=zigzag", "only none, allgather", "--sp-method allgather"},
    {"openrlhf", SMALL "framework=ring-flash-attn zero=3 offload=optimizer,parameters", "offloads parameters",
     "--offload optimizer"},
    {"accelerate", SMALL "framework=torch zero=3 pp=2", "pipeline parallelism of 2", "--pp 1"},
    {"accelerate", SMALL "framework=torch zero=2 tp=2 tp-sp=off", "sequence parallelism", "--tp-sp on"},
    {"axolotl", SMALL "framework=ring-flash-attn zero=3 sp=8 method=striped", "no method striped",
     "--sp-method allgather"},
    {"axolotl", SMALL "framework=ring-flash-attn zero=1 sp=8 method=allgather", "no ZeRO 1", "--zero 2"},
    {"axolotl", SMALL "framework=ring-flash-attn zero=2 sp=8 method=allgather micro_batch=3", "one sequence at a time",
     "--micro-batch 1"},
    {"verl", SMALL "sp=8 method=usp", "no method usp", "--sp-method ulysses"},
    {"verl", SMALL "framework=torch zero=1", "no ZeRO stage 1, only 2, 3", "--zero 2"},
    {"nemo-automodel", SMALL "framework=torch zero=3 sp=8", "no method zigzag", "--sp-method allgather"},
    {"nemo-automodel", SMALL "framework=torch zero=1", "no ZeRO stage 1, only 2, 3", "--zero 2"},
    {"maxtext",
     "model=llama-3.1-8b hardware=dgx-h100 gpus=32 seq=64K framework=ideal schedule=gpipe pp=2 sp=8 zero=3 "
     "set=layout.order=tp-cp-ep-pp-dp",
     "inside a stage", "layout.order=tp-cp-ep-dp-pp"},
    {"maxtext", SMALL "framework=ideal pp=2 zero=3", "no schedule 1f1b, only gpipe", "--schedule gpipe"},
    {"maxtext", "model=llama-3.1-8b hardware=dgx-h100 gpus=48 seq=96K framework=ideal zero=3 sp=6",
     "partly inside and partly across", "fill a node"},
};

static void what_a_launcher_lacks_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < SP_COUNT_OF(refusals); i++) {
        struct sp_arena *arena = sp_arena_open();
        struct question question;
        struct launch launch;
        struct sp_error err = {0};
        question_from(arena, refusals[i].settings, &question);
        bool is_built = launch_build(arena, &question, named(refusals[i].launcher), &launch, &err);
        if (is_built) {
            fail_msg("%s takes %s", refusals[i].launcher, refusals[i].settings);
        }
        assert_int_equal(err.kind, SP_ERROR_USAGE);
        assert_error_contains(&err, refusals[i].reason);
        assert_error_contains(&err, refusals[i].nearest);
        sp_arena_close(arena);
    }
}

/* Several reasons are one line, and each stands once. */
static void all_reasons_are_said(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    struct question question;
    struct launch launch;
    struct sp_error err = {0};
    question_from(arena, SMALL "framework=torch zero=1 recompute=block:3 precision=fp8", &question);
    assert_false(launch_build(arena, &question, named("torchtitan"), &launch, &err));
    assert_error_contains(&err, "ZeRO stage 1");
    assert_error_contains(&err, "; torchtitan has no recomputation block");
    assert_error_contains(&err, "; torchtitan has no precision fp8, only bf16");
    sp_arena_close(arena);
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

static const char *text_for(struct sp_arena *arena, const char *launcher, const char *settings)
{
    struct question *question = sp_arena_alloc(arena, sizeof(*question));
    struct launch launch;
    struct sp_error err = {0};
    question_from(arena, settings, question);
    if (!launch_build(arena, question, named(launcher), &launch, &err)) {
        fail_msg("%s: %s", settings, err.text);
    }
    return printed(arena, &launch, REPORT_TABLE);
}

static void assert_says(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("expected '%s' in:\n%s", part, text);
    }
}

/* The traps stand where the line is. */
static void traps_stand_above_their_lines(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    const char *text = text_for(arena, "megatron-lm", SMALL "sp=8 method=allgather");
    assert_says(text, "all_gather, not the allgather of the help text");
    assert_says(text, "    --cp-comm-type all_gather\n");
    assert_says(text, "export CUDA_DEVICE_MAX_CONNECTIONS=1\n");
    text = text_for(arena, "megatron-lm", SMALL "tp=2 zero=3");
    assert_null(strstr(text, "export CUDA_DEVICE_MAX_CONNECTIONS"));
    assert_says(text, "CUDA_DEVICE_MAX_CONNECTIONS should not be 1");
    text = text_for(arena, "megatron-lm", "model=llama-3.1-8b hardware=dgx-b200 gpus=16 seq=128K sp=8");
    assert_null(strstr(text, "export CUDA_DEVICE_MAX_CONNECTIONS")); /* Blackwell needs none */
    text = text_for(arena, "megatron-bridge", SMALL "sp=16 method=usp sp_ulysses=4");
    assert_says(text, "left out in silence");
    assert_says(text, "    'model.hierarchical_context_parallel_sizes=[4,4]'\n"); /* quoted: a shell matches [...] */
    text = text_for(arena, "torchtitan", SMALL "framework=torch zero=3 sp=8");
    assert_says(text, "issue 3086");
    sp_arena_close(arena);
}

/* Remarks as one line each. */
static const char *unwrapped(struct sp_arena *arena, const char *text)
{
    char *flat = sp_arena_alloc(arena, strlen(text) + 1);
    size_t length = 0;
    while (*text != '\0') {
        size_t blanks = *text == '\n' ? strspn(text + 1, " ") : 0;
        bool goes_on = *text == '\n' && strncmp(text + 1 + blanks, "# ", 2) == 0;
        flat[length++] = *text;
        text++;
        if (goes_on) {
            flat[length - 1] = ' ';
            text += blanks + 2;
        }
    }
    return flat;
}

/* What was priced and no line says is said. */
static void what_no_line_says_is_said(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    const char *text = text_for(arena, "torchtitan",
                                SMALL "framework=torch zero=3 set=run.loss=fused "
                                      "set=run.master_weights=true set=model.vocab_size=99999");
    assert_says(unwrapped(arena, text),
                "priced with --set run.loss=fused --set model.vocab_size=99999, which these lines do not say");
    text = text_for(arena, "megatron-lm", SMALL "set=run.loss=plain set=gpu.hbm_bandwidth=4TB/s");
    assert_null(strstr(text, "--set"));
    text = text_for(arena, "megatron-lm", SMALL "kernels=eager documents=3072 mask=window:4096");
    assert_says(unwrapped(arena, text), "priced with eager kernels, which these lines do not choose");
    assert_says(unwrapped(arena, text), "packed documents of 3K tokens");
    assert_says(text, "    --window-size 4095,0\n");
    assert_null(strstr(text, "no argument of this list"));
    text = text_for(arena, "torchtitan", SMALL "framework=torch zero=3 mask=window:4096");
    assert_says(unwrapped(arena, text), "--mask window:4096 is no argument of this list");
    text = text_for(arena, "torchtitan", SMALL "framework=torch zero=3 kernels=eager");
    assert_null(strstr(text, "--compile.enable"));
    assert_null(strstr(text, "kernels, which"));
    text = text_for(arena, "deepspeed", SMALL "framework=alst sp=8 method=ulysses zero=3");
    assert_says(unwrapped(arena, text), "FlashAttention 2, and the layout is priced with cudnn");
    text = text_for(arena, "deepspeed", SMALL "framework=alst sp=8 method=ulysses zero=3 attention=fa3");
    assert_says(text, "core_attn_implementation=\"flash_attention_3\"");
    assert_null(strstr(text, "FlashAttention 2"));
    sp_arena_close(arena);
}

/* 61 layers, the first 3 dense: DeepSeek-V3's config.json. 128 keys of gpt-oss' window count the token itself. */
static void sizes_of_models_are_megatrons(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    const char *text = text_for(arena, "megatron-lm",
                                "model=deepseek-v3 hardware=dgx-h200 gpus=256 seq=64K tp=4 pp=4 ep=32 pp-layers=auto");
    assert_says(text, "    --moe-layer-freq '([0]*3+[1]*58)'\n");
    assert_says(text, "    --qk-head-dim 128\n");
    assert_says(text, "    --qk-pos-emb-head-dim 64\n");
    assert_says(text, "    --pipeline-model-parallel-layout 'Et*15|t*16|t*15|t*15L'\n");
    text = text_for(arena, "megatron-lm", "model=gpt-oss-20b hardware=dgx-h200 gpus=16 seq=64K ep=8");
    assert_says(text, "    --window-size 127,0\n");
    assert_says(text, "    --softmax-type learnable\n");
    sp_arena_close(arena);
}

/* What a program reads agrees with what is pasted. */
static void json_holds_words_and_files(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    struct question question;
    struct launch launch;
    struct sp_error err = {0};
    question_from(arena, SMALL "framework=deepspeed sp=8 method=ulysses zero=3", &question);
    assert_true(launch_build(arena, &question, named("deepspeed"), &launch, &err));
    const struct sp_json *json = sp_json_parse(arena, "launch", printed(arena, &launch, REPORT_JSON), &err);
    assert_non_null(json);
    assert_string_equal(report_tree_at(json, "schema")->string, "seqplan.launch/1");
    assert_string_equal(report_tree_at(json, "launcher")->string, "deepspeed");
    const struct sp_json *files = report_tree_at(json, "files");
    assert_int_equal(files->count, 1);
    const char *content = report_tree_at(files->first, "content")->string;
    const struct sp_json *config = sp_json_parse(arena, "config", content, &err);
    assert_non_null(config);
    assert_int_equal((int)report_tree_at(config, "zero_optimization.stage")->number, 3);
    assert_int_equal((int)report_tree_at(json, "layout.sp")->number, 8);
    assert_true(report_tree_at(json, "arguments")->count > 0);
    assert_true(report_tree_at(json, "comments")->count > 0);
    sp_arena_close(arena);
}

/* Every row and every rule says where it was read. */
static void every_row_has_a_source(void **state)
{
    (void)state;
    for (int i = 0; launcher_names[i] != NULL; i++) {
        const struct launcher *launcher = launcher_of(i);
        for (int engine = 0; engine < launcher->n_engines; engine++) {
            const struct launch_row *row = launcher->engines[engine]->rows;
            for (; row->key != NULL || row->remark != NULL || row->says != NULL; row++) {
                assert_non_null(row->source);
                assert_true(strlen(row->source) > 0);
            }
            const struct launch_limit *limit = launcher->engines[engine]->limits;
            for (; limit->refusal != NULL; limit++) {
                assert_non_null(limit->source);
            }
        }
    }
}

static void frameworks_have_a_home(void **state)
{
    (void)state;
    assert_ptr_equal(launcher_home(FRAMEWORK_MEGATRON), named("megatron-lm"));
    assert_ptr_equal(launcher_home(FRAMEWORK_TORCH), named("torchtitan"));
    assert_ptr_equal(launcher_home(FRAMEWORK_ALST), named("deepspeed"));
    assert_ptr_equal(launcher_home(FRAMEWORK_RING_FLASH_ATTN), named("axolotl"));
    assert_null(launcher_home(FRAMEWORK_IDEAL));
    assert_int_equal(launcher_framework(named("verl"), METHOD_ULYSSES), FRAMEWORK_MEGATRON);
    assert_int_equal(launcher_framework(named("accelerate"), METHOD_ULYSSES), FRAMEWORK_ALST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_the_layout),       cmocka_unit_test(what_a_launcher_lacks_is_refused),
        cmocka_unit_test(all_reasons_are_said),       cmocka_unit_test(traps_stand_above_their_lines),
        cmocka_unit_test(what_no_line_says_is_said),  cmocka_unit_test(sizes_of_models_are_megatrons),
        cmocka_unit_test(json_holds_words_and_files), cmocka_unit_test(every_row_has_a_source),
        cmocka_unit_test(frameworks_have_a_home),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
