/* A whole step against calculations by hand: schedules, experts, adapters, offload. */
#include "support/questions.h"
#include "support/support.h"

#include <math.h>
#include <string.h>

/* Time of the rows of one name; -1 when there is none. */
static double time_of(const struct estimate *estimate, const char *name)
{
    double time_s = -1;
    for (int i = 0; i < estimate->n_operators; i++) {
        const struct operator_row *row = &estimate->operators[i];
        if (strcmp(row->name, name) == 0) {
            time_s = fmax(time_s, 0) + row->count * row->time_s;
        }
    }
    return time_s;
}

static double flop_of(const struct estimate *estimate, const char *name)
{
    double flop = 0;
    for (int i = 0; i < estimate->n_operators; i++) {
        flop += strcmp(estimate->operators[i].name, name) == 0
                    ? estimate->operators[i].count * estimate->operators[i].flop
                    : 0;
    }
    return flop;
}

static double tensor_of(const struct estimate *estimate, const char *name)
{
    double bytes = 0;
    for (int i = 0; i < estimate->n_tensors; i++) {
        bytes += strcmp(estimate->tensors[i].name, name) == 0 ? estimate->tensors[i].bytes : 0;
    }
    return bytes;
}

/* 30 layers on 3 stages, 6 micro-batches: 10 layers each, the last stage with the head is the slowest. Step = 6 (F + B) of
 * it + the bubble + what ends the step. Under 1F1B the bubble is F + B of the two others; with 2 chunks a rank half of it;
 * ZB-H1 fills two weight-gradient parts of it; GPipe idles as long as 1F1B. */
static void bubbles_follow_their_formulas(void **state)
{
    (void)state;
    static const char *const base = "model=llama-3.1-8b set=model.num_hidden_layers=30 hardware=dgx-h100 gpus=3 tp=1 "
                                    "seq=8192 batch=6 zero=1 recompute=none framework=megatron pp=3 ";
    struct sp_arena *arena = sp_arena_open();
    struct estimate plain, interleaved, gpipe, zb;
    estimate_from(arena, sp_format(arena, "%sschedule=1f1b", base), &plain);
    estimate_from(arena, sp_format(arena, "%sschedule=interleaved vpp=2", base), &interleaved);
    estimate_from(arena, sp_format(arena, "%sschedule=gpipe", base), &gpipe);
    estimate_from(arena, sp_format(arena, "%sschedule=zb-h1", base), &zb);
    assert_int_equal(plain.slowest_stage, 2);
    double busy = 6 * (plain.stage_forward_s + plain.stage_backward_s);
    double ends = plain.time_s[TIME_PP_EXPOSED] + plain.time_s[TIME_DP_EXPOSED] + plain.time_s[TIME_OPTIMIZER] +
                  plain.time_s[TIME_OTHER];
    assert_close(plain.step_time_s, busy + plain.time_s[TIME_BUBBLE] + ends, 1e-9);
    assert_close(interleaved.time_s[TIME_BUBBLE], plain.time_s[TIME_BUBBLE] / 2, 1e-9);
    assert_close(gpipe.time_s[TIME_BUBBLE], plain.time_s[TIME_BUBBLE], 1e-9);
    /* weight gradients of 10 layers and 6 micro-batches are in the rows; two stages of one micro-batch are 1/3 of that */
    double weights = time_of(&plain, "qkv weight gradient") + time_of(&plain, "output weight gradient") +
                     time_of(&plain, "gate and up weight gradient") + time_of(&plain, "down weight gradient");
    assert_close(plain.time_s[TIME_BUBBLE] - zb.time_s[TIME_BUBBLE], 2 * weights / 3, 1e-9);
    /* ZBV with input gradients that take longer than forwards, on two other stages of 10 layers each: half of them, or what
     * weight gradients leave of them, whichever is more; half of the forwards where all three take as long */
    struct estimate zbv;
    estimate_from(arena, sp_format(arena, "%sschedule=zbv", base), &zbv);
    double forward = 0;
    double inputs = 0;
    double of_weights = 0;
    for (int i = 0; i < zbv.n_operators; i++) {
        const struct operator_row *row = &zbv.operators[i];
        double time_s = row->is_of_layer ? row->count * row->time_s / 6 : 0; /* of a micro-batch */
        forward += row->pass == STEP_FORWARD ? time_s : 0;
        *(row->is_weight_gradient ? &of_weights : &inputs) += row->pass == STEP_BACKWARD ? time_s : 0;
    }
    assert_true(inputs > forward);
    assert_close(zbv.time_s[TIME_BUBBLE], 2 * fmax(inputs / 2, inputs - of_weights), 1e-9);
    /* one stage: no schedule holds more than the micro-batch at work */
    struct estimate alone, alone_gpipe;
    estimate_from(arena, "model=llama-3.1-8b hardware=dgx-h100 gpus=8 tp=4 dp=2 seq=8192 batch=6", &alone);
    estimate_from(arena, "model=llama-3.1-8b hardware=dgx-h100 gpus=8 tp=4 dp=2 seq=8192 batch=6 schedule=gpipe",
                  &alone_gpipe);
    assert_close(alone_gpipe.peak_bytes, alone.peak_bytes, 0);
    /* in flight on the first stage: 3 under 1F1B, all 6 under GPipe; both hold the whole layers of a micro-batch */
    assert_close(tensor_of(&gpipe, "saved activations") / 6, tensor_of(&plain, "saved activations") / 3, 1e-9);
    sp_arena_close(arena);
}

/* Mixtral 8x7B, 8 experts over 8 ranks, 6000 tokens each on 8 data-parallel ranks, 2 experts a token, h 4096, f 14336.
 * Routed parameters: 32 layers x 8 x 3 h f = 45,097,156,608 of the published 46,702,792,704. */
static void experts_are_split_and_exchanged(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    struct estimate estimate;
    estimate_from(arena,
                  "model=mixtral-8x7b hardware=dgx-h200 gpus=8 seq=6000 batch=8 zero=1 ep=8 recompute=none "
                  "framework=megatron",
                  &estimate);
    double routed = 45097156608.0;
    double rest = 46702792704.0 - routed;
    assert_close(tensor_of(&estimate, "weights"), 2 * (rest + routed / 8), 1e-9);
    /* moments: two float32; the rest is sharded over 8 ranks, experts over the one rank that holds them */
    assert_close(tensor_of(&estimate, "Adam moments"), 8 * (rest / 8 + routed / 8), 1e-9);
    /* a GPU sends 7/8 of 6000 x 2 copies of 2 h bytes, there and back, forward and backward */
    const struct communication_row *exchange = NULL;
    for (int i = 0; i < estimate.n_communications; i++) {
        exchange = estimate.communications[i].axis == AXIS_EP ? &estimate.communications[i] : exchange;
    }
    assert_non_null(exchange);
    double sent = 0;
    for (int i = 0; i < estimate.n_communications; i++) {
        sent += estimate.communications[i].axis == AXIS_EP ? estimate.communications[i].bytes_per_layer : 0;
    }
    assert_close(sent, 4 * 7.0 / 8 * 6000 * 2 * 2 * 4096, 1e-9);
    /* balanced: 8 ranks x 6000 x 2 copies over 8 experts, so 12000 a rank, through 2 h f and h f, 32 layers */
    assert_close(flop_of(&estimate, "experts gate and up"), 32 * 2.0 * 12000 * 2 * 14336 * 4096, 1e-9);
    assert_close(flop_of(&estimate, "experts down"), 32 * 2.0 * 12000 * 14336 * 4096, 1e-9);
    sp_arena_close(arena);
}

/* DeepSeek-V3, one layer of each sort: the latents are projected whole, the experts over 4 ranks: published sizes
 * (config.json): h 7168, 128 heads of 128 + 64 and values of 128, q latent 1536, kv latent 512. */
static void latent_attention_projects_its_latents(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    struct estimate estimate;
    estimate_from(arena,
                  "model=deepseek-v3 set=model.num_hidden_layers=4 hardware=dgx-b200 gpus=8 seq=4096 batch=8 zero=1 "
                  "ep=8 recompute=none framework=megatron",
                  &estimate);
    double per_step = 4.0 * 2 * 4096; /* layers, multiply and add, tokens */
    assert_close(flop_of(&estimate, "query down"), per_step * 7168 * 1536, 1e-9);
    assert_close(flop_of(&estimate, "query up"), per_step * 1536 * 128 * 192, 1e-9);
    assert_close(flop_of(&estimate, "key-value down"), per_step * 7168 * (512 + 64), 1e-9);
    assert_close(flop_of(&estimate, "key-value up"), per_step * 512 * 128 * (128 + 128), 1e-9);
    assert_close(flop_of(&estimate, "output projection"), per_step * 128 * 128 * 7168, 1e-9);
    /* causal pairs s (s + 1) / 2: 2 FLOP over 192 for the scores and 2 over 128 for the values, 128 heads */
    assert_close(flop_of(&estimate, "attention"), 3.5 * 4 * 4096.0 * 4097 / 2 * 128 * 2 * (192 + 128), 0.03);
    sp_arena_close(arena);
}

/* PEFT prints 41,943,040 trainable parameters for LoRA of rank 16 on all linear layers of Llama 3 8B: 16 x 32 x
 * [(4096 + 4096) + 2 (4096 + 1024) + (4096 + 4096) + 3 (4096 + 14336)]. Only they have gradients and moments, and
 * no weight gradient of a frozen matrix is computed. */
static void adapters_alone_are_trained(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    struct estimate lora, full;
    static const char *const base = "model=llama-3.1-8b hardware=dgx-h100 gpus=1 seq=4096 batch=1 zero=0 "
                                    "recompute=none framework=torch ";
    estimate_from(arena, sp_format(arena, "%strain=lora:16", base), &lora);
    estimate_from(arena, sp_format(arena, "%strain=full", base), &full);
    double trained = 41943040;
    double moment_bytes = tensor_of(&full, "Adam moments") / full.parameters_total;
    assert_close(tensor_of(&lora, "Adam moments"), trained * moment_bytes, 1e-9);
    assert_true(time_of(&full, "down weight gradient") > 0);
    assert_true(time_of(&lora, "down weight gradient") < 0);
    assert_true(time_of(&lora, "down input gradient") > 0);
    assert_true(lora.step_time_s < full.step_time_s);
    sp_arena_close(arena);
}

/* Offload moves bytes, it loses none: the optimizer's leave the GPU for the host, and activations leave two layers. */
static void offloaded_bytes_are_on_the_host(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    static const char *const base = "model=llama-3.1-8b hardware=dgx-h100 gpus=8 sp=8 seq=96K batch=1 zero=3 "
                                    "recompute=full framework=deepspeed method=ulysses ";
    struct estimate none, optimizer, activations;
    estimate_from(arena, base, &none);
    estimate_from(arena, sp_format(arena, "%soffload=optimizer", base), &optimizer);
    estimate_from(arena, sp_format(arena, "%soffload=activations", base), &activations);
    double moved = none.memory_bytes[MEMORY_OPTIMIZER];
    assert_true(moved > 0);
    assert_close(optimizer.memory_bytes[MEMORY_OPTIMIZER] + moved, moved, 1e-9);
    assert_true(optimizer.host_bytes >= 8 * moved); /* 8 ranks of the node */
    assert_true(optimizer.step_time_s > none.step_time_s);
    /* checkpoints: 12288 tokens x 4096 x 2 bytes a layer, 32 of them on the GPU or 2 */
    double checkpoint = 12288.0 * 4096 * 2;
    assert_close(tensor_of(&none, "saved activations"), 32 * checkpoint, 0.01);
    assert_close(tensor_of(&activations, "saved activations"), 2 * checkpoint, 0.01);
    assert_close(activations.host_bytes, 8 * 32 * checkpoint, 0.01);
    sp_arena_close(arena);
}

/* With a host so slow that it decides, a layer's forward takes its kernels times the launch latency. Eager, tp 8 with
 * sequence parallelism: 18 element-wise kernels (frameworks/kernels/eager.json), qkv, output, gate and up, down, one
 * attention kernel, two all-gathers and two reduce-scatters: 27. The bound has no host. */
static void a_slow_host_decides(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    static const char *const base =
        "model=qwen3-8b hardware=dgx-h200 gpus=8 tp=8 seq=4096 batch=1 zero=0 recompute=none kernels=eager";
    struct estimate slow, slower, bound, bound_slower;
    estimate_from(arena, sp_format(arena, "%s framework=megatron set=gpu.launch_latency=1ms", base), &slow);
    estimate_from(arena, sp_format(arena, "%s framework=megatron set=gpu.launch_latency=2ms", base), &slower);
    estimate_from(arena, sp_format(arena, "%s framework=ideal set=gpu.launch_latency=1ms", base), &bound);
    estimate_from(arena, sp_format(arena, "%s framework=ideal set=gpu.launch_latency=2ms", base), &bound_slower);
    assert_close((slower.stage_forward_s - slow.stage_forward_s) / 36, 27e-3, 1e-9);
    assert_close(bound_slower.step_time_s, bound.step_time_s, 0);
    sp_arena_close(arena);
}

/* Nothing is exposed longer than it takes, on any link; the two rings of a double ring are told apart. */
static void exposure_is_at_most_the_link_time(void **state)
{
    (void)state;
    static const char *const layouts[] = {
        "hardware=dgx-h200 gpus=16 sp=16 seq=8192 method=double-ring framework=ideal recompute=selective zero=2",
        "hardware=dgx-h200 gpus=16 sp=16 seq=512K method=double-ring framework=ideal recompute=full zero=1",
        "hardware=dgx-h100 gpus=16 sp=16 seq=16384 method=zigzag framework=megatron recompute=full zero=3",
        "hardware=dgx-h100 gpus=16 sp=16 seq=16384 method=usp framework=megatron recompute=none zero=1",
        "hardware=dgx-h100 gpus=8 sp=8 seq=16384 method=allgather framework=torch recompute=none zero=3",
    };
    struct sp_arena *arena = sp_arena_open();
    for (size_t i = 0; i < SP_COUNT_OF(layouts); i++) {
        struct estimate estimate;
        estimate_from(arena, sp_format(arena, "model=qwen3-8b batch=4 %s", layouts[i]), &estimate);
        for (int j = 0; j < estimate.n_communications; j++) {
            const struct communication_row *row = &estimate.communications[j];
            assert_true(row->exposed_s <= row->time_s * (1 + 1e-9) + 1e-12);
        }
    }
    sp_arena_close(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bubbles_follow_their_formulas),         cmocka_unit_test(experts_are_split_and_exchanged),
        cmocka_unit_test(latent_attention_projects_its_latents), cmocka_unit_test(adapters_alone_are_trained),
        cmocka_unit_test(offloaded_bytes_are_on_the_host),       cmocka_unit_test(a_slow_host_decides),
        cmocka_unit_test(exposure_is_at_most_the_link_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
