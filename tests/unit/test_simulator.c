/* The simulator: figures by hand, folded against exact, contention, disturbances, and a real cycle. */
#include "sim/sim.h"

#include "support/questions.h"
#include "support/support.h"

#include <math.h>
#include <string.h>

static void run(struct sp_arena *arena, const struct question *question, const struct sim_options *options,
                struct sim_result *result)
{
    struct sp_error err = {0};
    struct sim_options with_chunks = *options;
    with_chunks.chunks = options->chunks > 0 ? options->chunks : 1;
    if (!sim_run(question, &with_chunks, arena, result, &err)) {
        fail_msg("%s", err.text);
    }
}

static double step_of(const char *settings, const struct sim_options *options)
{
    struct sp_arena *arena = sp_arena_open();
    struct question question;
    struct sim_result result;
    question_from(arena, settings, &question);
    run(arena, &question, options, &result);
    double step_s = result.step_time_s;
    sp_arena_close(arena);
    return step_s;
}

/* ---- by hand ---------------------------------------------------------------------------------------------------- */

/* A 1F1B pipeline of three equal stages and four micro-batches, without ends to speak of: by (61), (4 + 3 - 1) (f + b) and no
 * hops inside an ideal machine but those of (62): 2 x 4 + 2 x 3 - 5 = 9 hops. The estimate's own parts give f, b and h. */
static void a_pipeline_by_hand(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    struct question question;
    struct estimate *estimate = test_malloc(sizeof *estimate);
    struct sim_result result;
    question_from(arena,
                  "model=llama-3.1-8b hardware=dgx-h100 network=ideal gpus=3 pp=3 method=none framework=megatron "
                  "batch=4 seq=36864 set=model.num_hidden_layers=33 set=model.vocab_size=128 zero=0",
                  &question);
    step_estimate(&question, estimate);
    run(arena, &question, &(struct sim_options){.chunks = 1}, &result);
    double stage_s = estimate->stage_forward_s + estimate->stage_backward_s;
    double end_s = estimate->time_s[TIME_OPTIMIZER] + estimate->time_s[TIME_OTHER];
    double hops_s = 0;
    for (int i = 0; i < estimate->n_communications; i++) {
        const struct communication_row *row = &estimate->communications[i];
        hops_s += row->axis == AXIS_PP && row->pass == STEP_FORWARD ? 9 * row->time_s / 4 : 0; /* 4 sends in all */
    }
    assert_close(result.step_time_s, 6 * stage_s + hops_s + end_s, 2e-3); /* a vocabulary of 128 is not quite none */
    assert_close(result.step_time_s, estimate->step_time_s, 1e-6);
    test_free(estimate);
    sp_arena_close(arena);
}

/* One rank alone: kernels one after the other, nothing else; every event is a start or an end of one. */
static void one_rank_is_a_sum(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    struct question question;
    struct estimate *estimate = test_malloc(sizeof *estimate);
    struct sim_result result;
    question_from(arena, "model=qwen3-8b hardware=dgx-h200 gpus=1 method=none seq=8192 batch=3", &question);
    step_estimate(&question, estimate);
    run(arena, &question, &(struct sim_options){.chunks = 1}, &result);
    assert_close(result.step_time_s, estimate->step_time_s, 1e-9);
    assert_int_equal(result.n_ranks, 1);
    assert_close(result.ranks[0].busy_s + result.ranks[0].waits_s[SIM_WAIT_HOST], result.step_time_s, 1e-9);
    assert_int_equal(result.events % 2, 0);
    assert_close(result.sent_bytes, 0, 0);
    test_free(estimate);
    sp_arena_close(arena);
}

/* ---- folded and exact ------------------------------------------------------------------------------------------- */

static void agree_folded(const char *settings, double tolerance)
{
    struct sp_arena *arena = sp_arena_open();
    struct question question;
    struct sim_result folded;
    struct sim_result exact;
    question_from(arena, settings, &question);
    run(arena, &question, &(struct sim_options){.chunks = 3}, &folded);
    run(arena, &question, &(struct sim_options){.chunks = 3, .is_exact = true}, &exact);
    if (fabs(folded.step_time_s / exact.step_time_s - 1) > tolerance) {
        fail_msg("%s: folded %.12g s over %lld classes, exact %.12g s", settings, folded.step_time_s,
                 (long long)folded.n_classes, exact.step_time_s);
    }
    assert_int_equal(exact.n_classes, question.run.gpus);
    assert_true(folded.n_classes <= exact.n_classes && folded.events < exact.events);
    assert_close(folded.sent_bytes, exact.sent_bytes, 1e-12);
    assert_close(folded.peak.allocated_bytes, exact.peak.allocated_bytes, 1e-12);
    for (int i = 0; i < exact.n_ranks; i++) { /* each rank does what the one that stands for it does */
        const struct sim_rank *one = &exact.ranks[i];
        bool is_found = false;
        for (int c = 0; c < folded.n_ranks; c++) {
            is_found = is_found || (one->stage == folded.ranks[c].stage &&
                                    fabs(one->busy_s - folded.ranks[c].busy_s) <= 1e-6 * one->busy_s);
        }
        assert_true(is_found);
    }
    sp_arena_close(arena);
}

/* With contention in most of them: gathers of ZeRO 3 beside rings and all-to-alls on the same NICs, an oversubscribed spine. */
static void folded_equals_exact(void **state)
{
    (void)state;
    agree_folded("model=llama-3.1-8b hardware=dgx-h100 gpus=16 tp=2 sp=4 pp=2 method=zigzag seq=96K batch=6", 1e-9);
    agree_folded("model=llama-3.1-8b hardware=dgx-h100 gpus=16 tp=8 sp=2 method=usp sp_ulysses=1 seq=16384 batch=1",
                 1e-6);
    agree_folded("model=llama-3.1-8b hardware=dgx-h100 gpus=24 sp=3 method=zigzag zero=3 seq=24576 batch=8", 1e-6);
    agree_folded("model=mixtral-8x7b hardware=dgx-h100 gpus=32 tp=2 sp=2 ep=8 method=ulysses zero=3 seq=16384 batch=8",
                 1e-6);
    agree_folded(
        "model=llama-3.1-8b hardware=aws-p4d gpus=32 sp=16 method=usp framework=megatron zero=3 seq=65536 batch=2",
        1e-6);
    agree_folded(
        "model=qwen3-8b hardware=dgx-h100 gpus=24 tp=4 sp=6 method=ring framework=ring-flash-attn seq=49152 batch=2 "
        "set=network.leaf_nodes=1 set=network.oversubscription=4",
        1e-6);
    /* all-reduces over 13 nodes in trees: every node has a place of its own */
    agree_folded("model=llama-3.1-8b hardware=dgx-h100 gpus=104 tp=8 dp=13 seq=8192 method=none zero=0 batch=13 "
                 "set=network.latency=2ms set=network.leaf_nodes=4 set=network.oversubscription=6",
                 1e-6);
    agree_folded(
        "model=qwen3-8b hardware=gb200-nvl72 gpus=96 tp=8 sp=12 method=allgather framework=megatron seq=98304 batch=1",
        1e-6);
}

/* ---- contention ------------------------------------------------------------------------------------------------- */

static struct sim_axis_delay delay_of(const char *settings, enum axis axis)
{
    struct sp_arena *arena = sp_arena_open();
    struct question question;
    struct sim_result result;
    question_from(arena, settings, &question);
    run(arena, &question, &(struct sim_options){.chunks = 1}, &result);
    struct sim_axis_delay delay = result.delays[axis];
    sp_arena_close(arena);
    return delay;
}

/* Rings of sp across nodes beside the gathers of ZeRO 3: the same NICs. On an ideal network nothing meets. */
static void transfers_meet_on_a_nic(void **state)
{
    (void)state;
    const char *shared =
        "model=llama-3.1-8b hardware=dgx-h100 gpus=32 sp=32 method=zigzag framework=megatron zero=3 seq=128K batch=1";
    const char *ideal =
        "model=llama-3.1-8b hardware=dgx-h100 network=ideal gpus=32 sp=32 method=zigzag framework=megatron zero=3 "
        "seq=128K batch=1";
    assert_true(delay_of(shared, AXIS_CP).delayed_s > 0.01 * delay_of(shared, AXIS_CP).transfer_s);
    assert_close(delay_of(ideal, AXIS_CP).delayed_s, 0, 0);
    assert_close(delay_of(ideal, AXIS_DP).delayed_s, 0, 0);
}

/* An oversubscribed spine slows rings that cross it, and nothing else: one leaf for both nodes does not. */
static void a_narrow_spine_slows_what_crosses_it(void **state)
{
    (void)state;
    const char *wide =
        "model=qwen3-8b hardware=dgx-h100 gpus=16 tp=8 sp=2 method=ring framework=ring-flash-attn seq=49152 batch=1";
    char text[400];
    double plain_s = step_of(wide, &(struct sim_options){0});
    (void)snprintf(text, sizeof text, "%s set=network.leaf_nodes=1 set=network.oversubscription=8", wide);
    double narrow_s = step_of(text, &(struct sim_options){0});
    (void)snprintf(text, sizeof text, "%s set=network.leaf_nodes=2 set=network.oversubscription=8", wide);
    double same_leaf_s = step_of(text, &(struct sim_options){0});
    assert_true(narrow_s > 1.01 * plain_s);
    assert_close(same_leaf_s, plain_s, 1e-9);
}

/* On a rail-optimised fabric the ring's hop over a node's end goes from place 6 to place 0, another rail, by the spine, though one
 * group of leaf switches holds both nodes; where tp fills the node, partners have the same place and stay on their rail. */
static void placement_keeps_hops_on_their_rail(void **state)
{
    (void)state;
    const char *across = "model=llama-3.1-8b hardware=dgx-h100 gpus=16 tp=2 sp=8 method=zigzag seq=65536 batch=1";
    const char *along = "model=llama-3.1-8b hardware=dgx-h100 gpus=16 tp=8 sp=2 method=zigzag seq=65536 batch=1";
    const char *const networks[] = {"", " set=network.oversubscription=4",
                                    " set=network.oversubscription=4 set=network.rail_optimised=false"};
    double across_s[3];
    double along_s[3];
    for (int i = 0; i < 3; i++) {
        char text[300];
        (void)snprintf(text, sizeof text, "%s%s", across, networks[i]);
        across_s[i] = step_of(text, &(struct sim_options){0});
        (void)snprintf(text, sizeof text, "%s%s", along, networks[i]);
        along_s[i] = step_of(text, &(struct sim_options){0});
    }
    assert_true(across_s[1] > 1.3 * across_s[0]);
    assert_close(across_s[2], across_s[0], 1e-9); /* one switch for all of both nodes */
    assert_close(along_s[1], along_s[0], 1e-9);
    assert_close(along_s[2], along_s[0], 1e-9);
}

/* ---- disturbances ----------------------------------------------------------------------------------------------- */

static const char disturbed[] =
    "model=llama-3.1-8b hardware=dgx-h100 gpus=16 tp=8 sp=2 method=zigzag seq=98304 batch=2";

/* All ranks wait for one whose kernels take 1 / 0.8 of the time: a quarter of what kernels take of the step is added. */
static void a_slow_gpu_holds_up_all(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    struct question question;
    struct sim_result plain;
    const struct sim_slow_gpu slow = {.gpu = 5, .speed = 0.8};
    question_from(arena, disturbed, &question);
    run(arena, &question, &(struct sim_options){.chunks = 1}, &plain);
    double slow_s = step_of(disturbed, &(struct sim_options){.n_slow_gpus = 1, .slow_gpus = &slow});
    assert_close(slow_s, plain.step_time_s + 0.25 * plain.ranks[0].busy_s, 2e-3);
    sp_arena_close(arena);
}

/* A NIC at a twentieth of its rate is felt; flapping for a tenth of the time less so; an NVLink port the other way round is not on
 * the way of the ring. */
static void slow_links_cost_what_crosses_them(void **state)
{
    (void)state;
    const struct sim_slow_link always = {.links = "nic:1.3", .share = 0.01};
    const struct sim_slow_link flapping = {.links = "nic:1.3", .share = 0.01, .period_s = 0.01, .slow_s = 0.001};
    const struct sim_slow_link other = {.links = "leaf:*", .share = 0.5};
    double plain_s = step_of(disturbed, &(struct sim_options){0});
    double always_s = step_of(disturbed, &(struct sim_options){.n_slow_links = 1, .slow_links = &always});
    double flapping_s = step_of(disturbed, &(struct sim_options){.n_slow_links = 1, .slow_links = &flapping});
    double other_s = step_of(disturbed, &(struct sim_options){.n_slow_links = 1, .slow_links = &other});
    assert_true(always_s > 1.05 * plain_s);
    assert_true(flapping_s >= plain_s && flapping_s < 0.5 * (plain_s + always_s));
    assert_close(other_s, plain_s, 1e-9);
}

static void jitter_repeats_with_its_seed(void **state)
{
    (void)state;
    const struct sim_options one = {.jitter_frac = 0.02, .seed = 7};
    const struct sim_options other = {.jitter_frac = 0.02, .seed = 8};
    double plain_s = step_of(disturbed, &(struct sim_options){0});
    double first_s = step_of(disturbed, &one);
    assert_close(step_of(disturbed, &one), first_s, 0);
    assert_true(fabs(step_of(disturbed, &other) / first_s - 1) > 1e-9);
    assert_true(first_s > 1.01 * plain_s); /* the mean alone makes 2 % of the kernels, waiting for the slowest more */
}

/* A tree over 13 nodes alone takes (33a); with one NIC at a fifth of its rate it takes longer, but no more than five times; folded
 * and exact agree on it. */
static void a_tree_waits_for_its_slowest_edge(void **state)
{
    (void)state;
    const char *settings =
        "model=llama-3.1-8b hardware=dgx-h100 gpus=104 tp=8 dp=13 seq=8192 method=none zero=0 batch=13 "
        "set=network.latency=2ms";
    const struct sim_slow_link slow = {.links = "nic:3.2", .share = 0.2};
    struct sp_arena *arena = sp_arena_open();
    struct question question;
    struct estimate *estimate = test_malloc(sizeof *estimate);
    question_from(arena, settings, &question);
    step_estimate(&question, estimate);
    double plain_s = step_of(settings, &(struct sim_options){0});
    double slow_s = step_of(settings, &(struct sim_options){.n_slow_links = 1, .slow_links = &slow});
    double exact_s = step_of(settings, &(struct sim_options){.n_slow_links = 1, .slow_links = &slow, .is_exact = true});
    double reduce_s = estimate->time_s[TIME_DP_EXPOSED];
    assert_close(plain_s, estimate->step_time_s, 1e-6);
    assert_true(slow_s > plain_s + reduce_s && slow_s < plain_s + 4 * reduce_s);
    assert_close(slow_s, exact_s, 1e-6);
    test_free(estimate);
    sp_arena_close(arena);
}

static void background_traffic_takes_its_share(void **state)
{
    (void)state;
    const char *rings =
        "model=llama-3.1-8b hardware=dgx-h100 gpus=16 sp=16 method=ring framework=ring-flash-attn seq=32768 batch=1";
    double plain_s = step_of(rings, &(struct sim_options){0});
    double busy_s = step_of(rings, &(struct sim_options){.background_frac = 0.75});
    assert_true(busy_s > 1.2 * plain_s);
}

/* A million micro-batches would take gigabytes: refused, with a batch that is short enough and legal. */
static void a_step_without_end_is_refused(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    struct question question;
    struct sim_result result;
    struct sp_error err = {0};
    question_from(arena, "model=llama-3.1-8b hardware=dgx-h100 gpus=24 dp=3 tp=8 seq=8192 batch=3000000 method=none",
                  &question);
    assert_false(sim_run(&question, &(struct sim_options){.chunks = 1}, arena, &result, &err));
    assert_int_equal(err.kind, SP_ERROR_USAGE);
    assert_non_null(strstr(err.text, "--global-batch 352941")); /* 8 million over 32 layers x 2 and 4 ends, x 3 */
    assert_true(sp_arena_used(arena) < 100U << 20);
    sp_arena_close(arena);
}

static void refuse(const char *settings, const struct sim_options *options, const char *words)
{
    struct sp_arena *arena = sp_arena_open();
    struct question question;
    struct sim_result result;
    struct sp_error err = {0};
    question_from(arena, settings, &question);
    assert_false(sim_run(&question, options, arena, &result, &err));
    assert_int_equal(err.kind, SP_ERROR_USAGE);
    assert_non_null(strstr(err.text, words));
    sp_arena_close(arena);
}

/* What picoseconds cannot hold, and experts whose groups would span stages. */
static void extremes_are_refused(void **state)
{
    (void)state;
    const struct sim_slow_gpu gpu = {.gpu = 3, .speed = 1e-9};
    const struct sim_slow_link thin = {.links = "nic:0.1", .share = 1e-9};
    const struct sim_slow_link fast = {.links = "nic:0.1", .share = 0.5, .period_s = 1e-8, .slow_s = 1e-9};
    const struct sim_slow_link slow = {.links = "nic:0.1", .share = 0.5, .period_s = 1e7, .slow_s = 1};
    refuse(disturbed, &(struct sim_options){.chunks = 1, .n_slow_gpus = 1, .slow_gpus = &gpu}, "slowest");
    refuse(disturbed, &(struct sim_options){.chunks = 1, .n_slow_links = 1, .slow_links = &thin}, "share");
    refuse(disturbed, &(struct sim_options){.chunks = 1, .n_slow_links = 1, .slow_links = &fast}, "period");
    refuse(disturbed, &(struct sim_options){.chunks = 1, .n_slow_links = 1, .slow_links = &slow}, "period");
    refuse(disturbed, &(struct sim_options){.chunks = 1, .background_frac = 0.99999}, "background");
    refuse("model=mixtral-8x7b hardware=dgx-h100 gpus=8 seq=8192 pp=2 batch=8 ep=2 set=layout.order=tp-cp-ep-pp-dp",
           &(struct sim_options){.chunks = 1}, "ends in pp");
}

static void what_is_not_there_is_refused(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    struct question question;
    struct sim_result result;
    struct sp_error err = {0};
    const struct sim_slow_gpu gpu = {.gpu = 16, .speed = 0.5};
    const struct sim_slow_link link = {.links = "nic:2.0", .share = 0.5};
    question_from(arena, disturbed, &question);
    assert_false(sim_run(&question, &(struct sim_options){.chunks = 1, .n_slow_gpus = 1, .slow_gpus = &gpu}, arena,
                         &result, &err));
    assert_int_equal(err.kind, SP_ERROR_USAGE);
    assert_non_null(strstr(err.text, "gpu 16"));
    err = (struct sp_error){0};
    assert_false(sim_run(&question, &(struct sim_options){.chunks = 1, .n_slow_links = 1, .slow_links = &link}, arena,
                         &result, &err));
    assert_int_equal(err.kind, SP_ERROR_USAGE);
    assert_non_null(strstr(err.text, "nic:2.0"));
    sp_arena_close(arena);
}

/* ---- a cycle ---------------------------------------------------------------------------------------------------- */

/* Stage 0 is made to wait for its first gradient before it sends anything on; stage 1 waits for what it sends. */
static void a_real_cycle_is_named(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    struct question question;
    struct step_program program;
    struct sim_result result;
    struct sp_error err = {0};
    question_from(arena, "model=llama-3.1-8b hardware=dgx-h100 gpus=2 pp=2 method=none seq=8192 batch=3", &question);
    step_program(&question, arena, &program);
    struct stage_program *first = &program.stages[0];
    int64_t gradient = 0;
    while (strcmp(program.segments[first->entries[gradient].segment].name, "from a stage") != 0) {
        gradient++;
    }
    struct program_entry moved = first->entries[gradient];
    memmove(&first->entries[1], &first->entries[0], (size_t)gradient * sizeof moved);
    first->entries[0] = moved;
    assert_false(sim_run(&question, &(struct sim_options){.chunks = 1, .program = &program}, arena, &result, &err));
    assert_int_equal(err.kind, SP_ERROR_BUG);
    assert_non_null(strstr(err.text, "cycle"));
    assert_non_null(strstr(err.text, "rank 0"));
    assert_non_null(strstr(err.text, "rank 1"));
    sp_arena_close(arena);
}

/* ---- what a trace is told --------------------------------------------------------------------------------------- */

struct told {
    int64_t spans, memory;
    int64_t ends[64][N_PROGRAM_STREAMS];
    double peak_bytes;
    bool overlaps;
};

static void tell_span(void *context, const struct sim_span *span)
{
    struct told *told = context;
    int64_t *end = &told->ends[span->rank][span->stream];
    told->spans++;
    told->overlaps = told->overlaps || span->start_ps < *end || span->duration_ps <= 0;
    *end = span->start_ps + span->duration_ps;
}

static void tell_memory(void *context, int64_t rank, int64_t time_ps, double bytes)
{
    struct told *told = context;
    (void)rank;
    (void)time_ps;
    told->memory++;
    told->peak_bytes = fmax(told->peak_bytes, bytes);
}

static void spans_of_a_stream_follow_each_other(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    struct question question;
    struct sim_result result;
    struct told told = {0};
    const struct sim_sink sink = {&told, tell_span, tell_memory};
    question_from(
        arena,
        "model=llama-3.1-8b hardware=dgx-h100 gpus=24 tp=2 sp=4 pp=3 method=zigzag zero=3 framework=deepspeed "
        "seq=48K batch=5 recompute=full pp-layers=auto method=ulysses offload=optimizer",
        &question);
    run(arena, &question, &(struct sim_options){.sink = &sink}, &result);
    assert_true(told.spans > 1000 && told.memory > 100);
    assert_false(told.overlaps);
    assert_close(told.peak_bytes, result.peak.allocated_bytes, 0);
    sp_arena_close(arena);
}

/* ---- inputs ----------------------------------------------------------------------------------------------------- */

enum { MAX_KEPT = 40000 };
struct kept {
    int n;
    struct sim_span spans[MAX_KEPT];
};

static void keep_span(void *context, const struct sim_span *span)
{
    struct kept *kept = context;
    assert_true(kept->n < MAX_KEPT);
    kept->spans[kept->n++] = *span;
}

static void forget_memory(void *context, int64_t rank, int64_t time_ps, double bytes)
{
    (void)context;
    (void)rank;
    (void)time_ps;
    (void)bytes;
}

static bool is_of(const struct sim_span *a, const struct sim_span *b)
{
    return a->rank == b->rank && a->layer == b->layer && a->pass == b->pass && a->micro_batch == b->micro_batch;
}

/* How many blocks of keys have come to a rank in the pass that a kernel belongs to, when it starts; how many it has used. */
static void check_block(const struct kept *kept, const struct sim_span *kernel)
{
    int arrived = 0;
    int used = 0;
    for (int i = 0; i < kept->n; i++) {
        const struct sim_span *span = &kept->spans[i];
        if (is_of(span, kernel)) {
            bool is_arrival = span->stream == STREAM_ARRIVALS && span->start_ps + span->duration_ps <= kernel->start_ps;
            bool is_kernel = strcmp(span->name, "attention") == 0 && span->start_ps < kernel->start_ps;
            arrived += is_arrival ? 1 : 0;
            used += is_kernel ? 1 : 0;
        }
    }
    assert_true(arrived >= used); /* its own block needs none */
}

/* Weights of a layer are whole before anything of it runs, and a table of the vocabulary before the embedding does. */
static void check_gathered(const struct kept *kept, const struct sim_span *kernel)
{
    int whole = 0;
    int late = 0;
    for (int i = 0; i < kept->n; i++) {
        const struct sim_span *span = &kept->spans[i];
        if (strncmp(span->name, "dp all-gather", 13) == 0 && is_of(span, kernel)) {
            *(span->start_ps + span->duration_ps <= kernel->start_ps ? &whole : &late) += 1;
        }
    }
    if (kernel->layer >= 0) {
        assert_true(whole > 0 && late == 0);
    } else if (strcmp(kernel->name, "embedding") == 0) {
        assert_true(whole > 0); /* the head's comes later */
    }
}

/* Every block of a ring is attended to after its keys have come, and no kernel runs on weights that are still on their way. */
static void nothing_runs_before_its_inputs(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    struct question question;
    struct sim_result result;
    struct kept *kept = test_calloc(1, sizeof *kept);
    const struct sim_sink sink = {kept, keep_span, forget_memory};
    question_from(arena,
                  "model=llama-3.1-8b hardware=dgx-h100 gpus=24 sp=12 method=zigzag framework=ring-flash-attn zero=3 "
                  "seq=98304 batch=4 recompute=none set=model.num_hidden_layers=3",
                  &question);
    run(arena, &question, &(struct sim_options){.sink = &sink, .is_exact = true}, &result);
    int checked = 0;
    for (int i = 0; i < kept->n; i++) {
        const struct sim_span *span = &kept->spans[i];
        if (span->stream == STREAM_KERNELS && strcmp(span->name, "attention") == 0 && span->pass == STEP_FORWARD) {
            check_block(kept, span);
            checked++;
        }
        bool is_gather = strncmp(span->name, "dp all-gather", 13) == 0;
        if (span->stream == STREAM_KERNELS && span->pass == STEP_FORWARD && !is_gather) {
            check_gathered(kept, span);
        }
    }
    assert_int_equal(checked, 24 * 2 * 3 * 12); /* ranks, micro-batches, layers, blocks */
    test_free(kept);
    sp_arena_close(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_is_a_sum),
        cmocka_unit_test(a_pipeline_by_hand),
        cmocka_unit_test(folded_equals_exact),
        cmocka_unit_test(transfers_meet_on_a_nic),
        cmocka_unit_test(a_narrow_spine_slows_what_crosses_it),
        cmocka_unit_test(placement_keeps_hops_on_their_rail),
        cmocka_unit_test(a_slow_gpu_holds_up_all),
        cmocka_unit_test(slow_links_cost_what_crosses_them),
        cmocka_unit_test(jitter_repeats_with_its_seed),
        cmocka_unit_test(a_tree_waits_for_its_slowest_edge),
        cmocka_unit_test(background_traffic_takes_its_share),
        cmocka_unit_test(what_is_not_there_is_refused),
        cmocka_unit_test(a_step_without_end_is_refused),
        cmocka_unit_test(extremes_are_refused),
        cmocka_unit_test(a_real_cycle_is_named),
        cmocka_unit_test(spans_of_a_stream_follow_each_other),
        cmocka_unit_test(nothing_runs_before_its_inputs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
