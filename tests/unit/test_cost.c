/* Primitives against hand calculations and published points. */
#include "cost/cost.h"

#include "support/questions.h"
#include "support/support.h"

#include <math.h>

static struct question question; /* filled once per test: the specs are what is tested here */

static void load(struct sp_arena *arena, const char *hardware)
{
    question_from(arena, sp_format(arena, "model=llama-3.1-8b gpus=8 seq=8192 hardware=%s", hardware), &question);
}

/* Published bf16 points (hardware tables of ai-dynamo/aiconfigurator@095f58a51c4c, TFLOP/s, single cool calls; the model
 * holds long calls at the sustained ceiling, so only short ones are compared). Rate and waves are separate mechanisms:
 * 2048 x 8192 x 8192 fills 512 tiles of 128 x 256 on 132 SMs in 4 waves = 0.970. */
static void gemm_rates_follow_measured_shapes(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    static const struct {
        const char *hardware;
        double m, n, k, tflop_per_s, tolerance;
    } points[] = {
        {"dgx-h100", 1024, 1024, 1024, 352, 0.15},  {"dgx-h100", 2048, 2048, 2048, 685, 0.12},
        {"dgx-h100", 512, 8192, 8192, 766, 0.17},   {"dgx-h100", 128, 8192, 8192, 330, 0.25},
        {"dgx-h100", 257, 4096, 4096, 382, 0.20},   {"dgx-h200", 32768, 4096, 4096, 677, 0.05},
        {"dgx-h200", 8192, 28672, 4096, 681, 0.05}, {"dgx-h200", 32768, 8192, 1024, 571, 0.065},
    };
    for (size_t i = 0; i < SP_COUNT_OF(points); i++) {
        load(arena, points[i].hardware);
        struct gemm_call call = {
            .pass = PASS_FORWARD, .m = points[i].m, .n = points[i].n, .k = points[i].k, .output_bytes = 2};
        double rate = gemm_flop(&call) / gemm_time(&question.hardware.gpu, &call) / 1e12;
        assert_close(rate, points[i].tflop_per_s, points[i].tolerance);
    }
    assert_close(gemm_wave_efficiency(&question.hardware.gpu, 2048, 8192, 1), 512.0 / (4 * 132), 1e-12);
    assert_close(gemm_wave_efficiency(&question.hardware.gpu, 129, 131, 1), 129.0 * 131 / (128 * 128) / 132, 1e-12);
    sp_arena_close(arena);
}

/* Bytes by hand: 37 x 8192 x 24576 with a float32 accumulator read and written: 2 (37 24576 + 24576 8192) + 8 x 37 x
 * 8192. No product is faster than its traffic, its peak or one kernel. */
static void gemm_respects_memory_and_peak(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    load(arena, "dgx-h200");
    const struct gpu_spec *gpu = &question.hardware.gpu;
    struct gemm_call call = {.pass = PASS_FORWARD, .m = 37, .n = 8192, .k = 24576, .output_bytes = 8};
    assert_close(gemm_hbm_bytes(&call), 2 * (37.0 * 24576 + 24576.0 * 8192) + 8.0 * 37 * 8192, 1e-12);
    uint64_t random = 77;
    for (int i = 0; i < 2000; i++) {
        call = (struct gemm_call){.pass = (enum pass)(i % N_GEMM_PASSES),
                                  .m = 1 + (double)(next_random(&random) % 70000),
                                  .n = 1 + (double)(next_random(&random) % 30000),
                                  .k = 1 + (double)(next_random(&random) % 30000),
                                  .output_bytes = i % 2 ? 2 : 8};
        double time_s = gemm_time(gpu, &call);
        assert_true(time_s >= gemm_hbm_bytes(&call) / gpu->hbm_bandwidth.value);
        assert_true(time_s >= gemm_flop(&call) / gpu->peak_bf16.value);
        assert_true(time_s >= gpu->kernel_latency.value);
    }
    sp_arena_close(arena);
}

/* FLOPs by hand: B 3, H 5, d 128, causal S 7: 28 pairs; 4 x 3 x 5 x 128 x 28 = 215040; backward 2.5 times. The rate at a
 * measured point is the measured rate, but not above what long calls sustain: 32 heads, 64K, causal on H200 took 58.4 ms
 * (602 TFLOP/s); 4 x 32 x 128 x 2^31 pairs at the ceiling of 577 TFLOP/s are 61.0 ms. */
static void attention_time_is_measured_at_measured_points(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    load(arena, "dgx-h200");
    struct attention_call call = {.curve = gpu_attention_curve(&question.hardware.gpu, "cudnn"),
                                  .batch = 3,
                                  .heads = 5,
                                  .kv_heads = 1,
                                  .head_dim = 128,
                                  .value_head_dim = 128,
                                  .element_bytes = 2,
                                  .block = {.query_rows = 7, .key_rows = 7, .pairs = 28, .is_causal = true}};
    assert_close(attention_flop(&call), 215040, 0);
    call.is_backward = true;
    assert_close(attention_flop(&call), 537600, 0);
    call.is_backward = false;
    call.batch = 1;
    call.heads = 32;
    struct token_layout tokens = {.order = ORDER_WHOLE, .ranks = 1, .rows = 65536};
    call.block = whole_block(&tokens);
    assert_close(attention_time(&question.hardware.gpu, &call), 0.0609, 0.01);
    call.block.pairs = 0;
    assert_close(attention_time(&question.hardware.gpu, &call), 0, 0);
    sp_arena_close(arena);
}

/* More pairs or more heads never take less time, whatever the curve's bumps: checked densely. */
static void attention_time_grows_with_work(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    static const char *const machines[] = {"dgx-h100", "dgx-h200", "dgx-b200"};
    for (size_t i = 0; i < SP_COUNT_OF(machines); i++) {
        load(arena, machines[i]);
        for (int variant = 0; variant < 4; variant++) {
            double last = 0;
            for (double rows = 64; rows < 3e6; rows *= 1.1) {
                struct attention_call call = {
                    .curve = gpu_attention_curve(&question.hardware.gpu, "cudnn"),
                    .batch = 1,
                    .heads = 12,
                    .kv_heads = 4,
                    .head_dim = 128,
                    .value_head_dim = 128,
                    .element_bytes = 2,
                    .is_backward = variant >= 2,
                    .block = {.query_rows = rows,
                              .key_rows = rows,
                              .is_causal = variant % 2 == 1,
                              .pairs = variant % 2 == 1 ? rows * (rows + 1) / 2 : rows * rows}};
                double now = attention_time(&question.hardware.gpu, &call);
                assert_true(now >= last * 0.999);
                last = now;
            }
        }
    }
    sp_arena_close(arena);
}

/* Bytes sent by hand, 5 ranks, 3000 bytes; times inside a node equal the measured table; a hop between nodes takes one
 * GPU's NIC: 46 MB over 50 GB/s x 0.95 + 10 us. */
static void collectives_follow_tables_and_links(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    load(arena, "dgx-h100");
    const struct hardware_spec *hardware = &question.hardware;
    assert_close(collective_sent_bytes(COLLECTIVE_ALL_GATHER, 5, 3000), 2400, 0);
    assert_close(collective_sent_bytes(COLLECTIVE_ALL_REDUCE, 5, 3000), 4800, 0);
    assert_close(collective_sent_bytes(COLLECTIVE_SEND_RECEIVE, 5, 3000), 3000, 0);
    struct group_placement node = {.size = 8, .stride = 1, .nodes = 1, .ranks_per_node = 8, .tier = TIER_NVLINK};
    /* nccl-tests, 512 MiB over 8 H100: all-gather 335 GB/s bus bandwidth = 7/8 x 512 MiB / time */
    double time_s = collective_time(hardware, &node, COLLECTIVE_ALL_GATHER, 536870912);
    assert_close(7.0 / 8 * 536870912 / time_s, 335e9, 0.01);
    struct group_placement across = {.size = 4, .stride = 8, .nodes = 4, .ranks_per_node = 1, .tier = TIER_NETWORK};
    double nic = 50e9 * hardware->network.efficiency.value;
    assert_close(hop_time(hardware, &across, 46e6), 46e6 / nic + hardware->network.latency.value, 1e-12);
    /* all-to-all pools no NICs: three quarters of the buffer leave through one */
    double rate = 50e9 * hardware->network.all_to_all_efficiency.value;
    assert_close(collective_time(hardware, &across, COLLECTIVE_ALL_TO_ALL, 1e9),
                 0.75e9 / rate + hardware->network.latency.value, 1e-12);
    struct group_placement alone = {.size = 1, .stride = 1, .nodes = 1, .ranks_per_node = 1};
    assert_close(collective_time(hardware, &alone, COLLECTIVE_ALL_REDUCE, 1e9), 0, 0);
    assert_close(hop_time(hardware, &alone, 1e9), 0, 0);
    sp_arena_close(arena);
}

/* Tables of 2 and 8 ranks: 9 us at 1 KiB over 2, 36 us over 8. Four ranks are half way in log n: 18 us. A ring of 12 has the
 * nearest, and 16 ranks on two nodes of 8 that of 8. Latencies of a hop do not add up with the ring: 5 us more are 5 us more. Without
 * any table a hop is one latency and its bytes. */
static void hops_read_the_table_of_their_ring(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    load(arena, "dgx-h100");
    struct hardware_spec *hardware = &question.hardware;
    double log_bytes[] = {log(1024)};
    double log_two[] = {log(9e-6)};
    double log_eight[] = {log(36e-6)};
    struct collective_line lines[] = {
        {.operation = COLLECTIVE_SEND_RECEIVE, .ranks = 2, .curve = {.log_bytes = log_bytes, .log_seconds = log_two}},
        {.operation = COLLECTIVE_SEND_RECEIVE,
         .ranks = 8,
         .curve = {.log_bytes = log_bytes, .log_seconds = log_eight}}};
    static const struct {
        int64_t ranks;
        double seconds;
    } rings[] = {{2, 9e-6}, {4, 18e-6}, {8, 36e-6}, {12, 36e-6}};
    lines[0].curve.n_points = 1;
    lines[1].curve.n_points = 1;
    hardware->intra.lines = lines;
    hardware->intra.n_lines = SP_COUNT_OF(lines);
    struct group_placement ring = {.stride = 1, .nodes = 1, .tier = TIER_NVLINK};
    for (size_t i = 0; i < SP_COUNT_OF(rings); i++) {
        ring.size = ring.ranks_per_node = rings[i].ranks;
        assert_close(hop_time(hardware, &ring, 1000), rings[i].seconds, 1e-9);
    }
    ring.ranks_per_node = 8;
    ring.size = 16;
    ring.nodes = 2;
    assert_close(hop_time(hardware, &ring, 10), 36e-6, 1e-9); /* the network takes 10 us */
    ring.size = 8;
    ring.nodes = 1;
    hardware->intra.latency.value = hardware->intra.curve_latency + 5e-6;
    assert_close(hop_time(hardware, &ring, 1000), 41e-6, 1e-9);
    hardware->intra.latency.value = hardware->intra.curve_latency;
    hardware->intra.n_lines = 0;
    assert_close(hop_time(hardware, &ring, 46e6),
                 hardware->intra.curve_latency + 46e6 / hardware->intra.bandwidth.value, 1e-9);
    sp_arena_close(arena);
}

/* A group over four nodes of eight uses all eight rails: an all-gather moves 31/32 of the bytes at 8 x 50 GB/s x 0.9,
 * unless the node's own links are slower (335 GB/s measured); a ring hop of the same group has one NIC. */
static void ring_collectives_use_every_rail(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    load(arena, "dgx-h100");
    struct group_placement group = {.size = 32, .stride = 1, .nodes = 4, .ranks_per_node = 8, .tier = TIER_MIXED};
    double gather_s = collective_time(&question.hardware, &group, COLLECTIVE_ALL_GATHER, 32e9);
    double busbw = 31.0 / 32 * 32e9 / gather_s;
    assert_true(busbw > 300e9 && busbw < 365e9);
    double hop_s = hop_time(&question.hardware, &group, 1e9);
    assert_close(hop_s, 1e9 / (50e9 * question.hardware.network.efficiency.value), 1e-3);
    sp_arena_close(arena);
}

/* 64 nodes, one rank each, 4 MiB, NICs of 50 GB/s x 0.9, 10 us: a ring over them waits 126 latencies, 1.26 ms, two trees 12 and
 * pass 2 MiB each in four pieces up six levels and down: 2 x 4 MiB / 45 GB/s x (4 - 1 + 12) / 4 + 0.12 ms = 0.819 ms. A gigabyte
 * goes in a ring: 2 x 63/64 GB / 45 GB/s + 1.26 ms = 45.0 ms against 2 GB / 45 GB/s x (256 - 1 + 12) / 256 + 0.12 ms = 46.5 ms. */
static void small_all_reduces_go_in_trees(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    load(arena, "dgx-h100");
    struct group_placement group = {.size = 64, .stride = 8, .nodes = 64, .ranks_per_node = 1, .tier = TIER_NETWORK};
    struct all_reduce_plan small = all_reduce_plan(&question.hardware, &group, 4194304);
    struct all_reduce_plan large = all_reduce_plan(&question.hardware, &group, 1e9);
    assert_int_equal(small.kind, ALL_REDUCE_TREES);
    assert_int_equal(small.pieces, 4);
    assert_int_equal(small.depth, 6);
    assert_close(small.time_s, 2 * 4194304 / 45e9 * 15 / 4 + 0.12e-3, 1e-9);
    assert_true(large.kind != ALL_REDUCE_TREES);
    assert_close(large.time_s, 2 * 63.0 / 64 * 1e9 / 45e9 + 1.26e-3, 1e-9);
    question.hardware.network.collective_piece.kind = SP_FIGURE_NONE; /* a file that does not say */
    assert_true(all_reduce_plan(&question.hardware, &group, 4194304).kind != ALL_REDUCE_TREES);
    sp_arena_close(arena);
}

/* A kernel that nobody wrote: 100 rows a block, 50 rows a step, 200 cycles a block and 10 a step. */
static struct attention_tiling made_tiling(bool is_backward)
{
    struct attention_tiling tiling = {.is_backward = is_backward, .head_dim = 128};
    tiling.block_rows.value = 100;
    tiling.step_rows.value = 50;
    tiling.start.value = 1000;
    tiling.block.value = 200;
    tiling.step.value = 10;
    tiling.mask.value = 5;
    tiling.merge.value = 40;
    tiling.cached_merge.value = 15;
    tiling.sum.value = 70;
    tiling.power.value = 1200;
    return tiling;
}

static struct attention_call made_call(const struct attention_curve *curve, double q, double k, double pairs)
{
    return (struct attention_call){.curve = curve,
                                   .block = {.query_rows = q, .key_rows = k, .pairs = pairs},
                                   .batch = 1,
                                   .heads = 2,
                                   .kv_heads = 1,
                                   .head_dim = 128,
                                   .value_head_dim = 128,
                                   .element_bytes = 2};
}

/* On 3 multiprocessors, by hand. Forward, 250 queries on 120 keys, two heads: 6 blocks of 200 + 3 x 10 cycles in two waves, 1000
 * before them: 1460. As a step of a ring, float32 sums in the cache: 15 more a block, 1490; out of it, 40: 1540.
 * Causal 250 on 250: blocks see 100, 200, 250 keys, 2, 4, 5 steps: 225, 245, 255 with the mask's 5, of two heads; the longest
 * first, 255, 255, 245, then 245, 225, 225 where one is free first: 245 + 245, 255 + 225 twice: 490.
 * Backward: 3 blocks of one kv head go over 250 queries twice, from query 0, 100, 200 on: 10, 6 and 2 steps: 305, 265, 225. With
 * float32 sums of dK and dV 70 more. On 2 multiprocessors 265 + 225.
 *
 * With a guest of 50 cycles when the three have their first block: one of them goes on at 280 and ends at 510. Causal, one head on two,
 * and two guests of 30: 245 + 30 + 225. */
static void attention_tiles_fill_the_multiprocessors(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    load(arena, "dgx-h200");
    struct gpu_spec gpu = question.hardware.gpu;
    const struct attention_tiling tilings[] = {made_tiling(false), made_tiling(true)};
    const struct attention_curve curve = {.kernel = "made", .n_tilings = 2, .tilings = tilings};
    gpu.sm_count.value = 3;
    struct attention_call call = made_call(&curve, 250, 120, 250 * 120);
    assert_ptr_equal(attention_tiling_of(&call), &tilings[0]);
    assert_close(attention_thread_blocks(&tilings[0], &call), 6, 0);
    assert_close(attention_cycles(&gpu, &tilings[0], &call), 1460, 1e-12);
    const struct guest_blocks one = {1, 50};
    assert_close(attention_cycles_beside(&gpu, &tilings[0], &call, &one), 1510, 1e-12);
    call.is_step = true;
    assert_close(attention_cycles(&gpu, &tilings[0], &call), 1490, 1e-12);
    gpu.l2_capacity.value = 1e5;
    assert_close(attention_cycles(&gpu, &tilings[0], &call), 1540, 1e-12);
    call = made_call(&curve, 250, 250, 250.0 * 251 / 2);
    assert_close(attention_cycles(&gpu, &tilings[0], &call), 1490, 1e-12);
    call.is_backward = true;
    assert_ptr_equal(attention_tiling_of(&call), &tilings[1]);
    assert_close(attention_cycles(&gpu, &tilings[1], &call), 1305, 1e-12);
    gpu.sm_count.value = 2;
    assert_close(attention_cycles(&gpu, &tilings[1], &call), 1490, 1e-12);
    struct attention_call single = made_call(&curve, 250, 250, 250.0 * 251 / 2);
    const struct guest_blocks two = {2, 30};
    single.heads = 1;
    assert_close(attention_cycles_beside(&gpu, &tilings[0], &single, &two), 1500, 1e-12);
    call.sums_gradients = true;
    assert_close(attention_cycles(&gpu, &tilings[1], &call), 1630, 1e-12);
    call.head_dim = 96;
    assert_null(attention_tiling_of(&call));
    sp_arena_close(arena);
}

/* 7 heads of 4,100 causal rows: 41 blocks each, 287 in all, twice 128: the kernel starts 4 heads, then 3. A simulation written
 * apart says when 24 and 40 multiprocessors are done: 7645 and 4580 cycles (7500 and 4640 if all heads started at once). */
static void attention_heads_start_in_bundles(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    load(arena, "dgx-h200");
    struct gpu_spec gpu = question.hardware.gpu;
    const struct attention_tiling tiling = made_tiling(false);
    const struct attention_curve curve = {.kernel = "made", .n_tilings = 1, .tilings = &tiling};
    struct attention_call call = made_call(&curve, 4100, 4100, 4100.0 * 4101 / 2);
    call.heads = 7;
    call.kv_heads = 7;
    gpu.sm_count.value = 24;
    assert_close(attention_cycles(&gpu, &tiling, &call), 8645, 1e-12);
    gpu.sm_count.value = 40;
    assert_close(attention_cycles(&gpu, &tiling, &call), 5580, 1e-12);
    sp_arena_close(arena);
}

/* A GPU that may draw 700 W of which 100 are idle, and a kernel that draws 1200 W more at its whole rate and 1 GHz. 2 x 10,000
 * rows on 10,000, one multiprocessor: 200 blocks of 200 + 200 x 10 cycles, 441,000 with the start; 4 x 2 x 128 x 1e8 FLOP. Peak
 * rate twice that: the power for 1 GHz is 600 W, as much as there is. A peak that is just reached: 1200 W, the clock falls to the
 * third root of a half; with twice the room it stays. */
static void attention_clock_follows_the_power(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    load(arena, "dgx-h200");
    struct gpu_spec gpu = question.hardware.gpu;
    const struct attention_tiling tiling = made_tiling(false);
    struct attention_curve curve = {.kernel = "made", .n_tilings = 1, .tilings = &tiling, .clock = {.headroom = 1}};
    const double cycles = 441000;
    gpu.sm_count.value = 1;
    gpu.power_limit.value = 700;
    curve.clock.idle_power.value = 100;
    curve.clock.exponent.value = 3;
    curve.clock.reference_hz.value = 1e9;
    curve.clock.most_hz.value = 1.25e9;
    curve.clock.flop_per_cycle.value = 2 * 4 * 2 * 128 * 1e8 / cycles;
    struct attention_call call = made_call(&curve, 10000, 10000, 1e8);
    assert_close(attention_time(&gpu, &call), cycles / 1e9, 1e-12);
    curve.clock.flop_per_cycle.value /= 2;
    assert_close(attention_time(&gpu, &call), cycles / 1e9 * cbrt(2), 1e-12);
    curve.clock.headroom = 2;
    assert_close(attention_time(&gpu, &call), cycles / 1e9, 1e-12);
    curve.clock.headroom = 40;
    assert_close(attention_time(&gpu, &call), cycles / 1.25e9, 1e-12);
    gpu.peak_bf16.value *= 2; /* --set gpu.peak_bf16 */
    assert_close(attention_time(&gpu, &call), cycles / 2.5e9, 1e-12);
    sp_arena_close(arena);
}

/* The shipped tiles: where many blocks are no longer played one by one the closed form goes on, within 2 %; and long calls run
 * at the rates that were measured (the rows of the same entry), within 3 %. */
static void shipped_tiles_agree_with_the_measured_rates(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    load(arena, "dgx-h200");
    const struct gpu_spec *gpu = &question.hardware.gpu;
    const struct attention_curve *curve = gpu_attention_curve(gpu, "seqplan");
    assert_non_null(curve);
    for (int i = 0; i < 8; i++) {
        bool is_causal = i % 2 == 1;
        double rows = i < 4 ? 8192 : 65536;
        double pairs = is_causal ? rows * (rows + 1) / 2 : rows * rows;
        struct attention_call call = made_call(curve, rows, rows, pairs);
        call.heads = 32;
        call.kv_heads = 8;
        call.is_backward = i / 2 % 2 == 1;
        call.block.is_causal = is_causal;
        double tiled_s = attention_time(gpu, &call);
        struct attention_curve rates = *curve;
        rates.n_tilings = 0;
        call.curve = &rates;
        double rated_s = attention_time(gpu, &call);
        assert_close(tiled_s, rated_s, rows > 8192 ? 0.03 : 0.07); /* short calls were timed with pauses between them */
    }
    for (int is_causal = 0; is_causal < 2; is_causal++) {
        double per_pair[2];
        for (int i = 0; i < 2; i++) {
            double rows = 8192 + 128 * i; /* 2,048 and 2,080 blocks forward */
            double pairs = is_causal == 1 ? rows * (rows + 1) / 2 : rows * rows;
            struct attention_call call = made_call(curve, rows, rows, pairs);
            call.heads = 32;
            call.kv_heads = 8;
            per_pair[i] = attention_time(gpu, &call) / pairs;
        }
        assert_close(per_pair[1], per_pair[0], 0.02);
    }
    sp_arena_close(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gemm_rates_follow_measured_shapes),
        cmocka_unit_test(gemm_respects_memory_and_peak),
        cmocka_unit_test(attention_time_is_measured_at_measured_points),
        cmocka_unit_test(attention_time_grows_with_work),
        cmocka_unit_test(attention_tiles_fill_the_multiprocessors),
        cmocka_unit_test(attention_heads_start_in_bundles),
        cmocka_unit_test(attention_clock_follows_the_power),
        cmocka_unit_test(shipped_tiles_agree_with_the_measured_rates),
        cmocka_unit_test(collectives_follow_tables_and_links),
        cmocka_unit_test(hops_read_the_table_of_their_ring),
        cmocka_unit_test(ring_collectives_use_every_rail),
        cmocka_unit_test(small_all_reduces_go_in_trees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
