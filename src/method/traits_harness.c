/* What the project's own kernels do when they are measured, read in src/cuda/methods.cu, transport.cu and method_kernels.cu. The
 * rows are apart from those of the frameworks: nobody trains with them, no search meets them, and only predictions of
 * measurement files use them. Bytes per element and multiples of local tensors, as declared in method.h. */
#include "method/method.h"

#define HARNESS "src/cuda/methods.cu"

/* Forward: float32 sums are cleared (4), each step's kernel merges into them itself, and they are rounded at the end (4 read, 2
 * written). The log-sum-exp is a kernel more at the start. */
#define RING_FORWARD .forward_merge = {.start = 4, .end = 6, .start_kernels = 2, .end_kernels = 1}

/* Backward: the scratch of dQ is cleared (4), o and dO are read (4); dQ is put in order at the end (6). A step's own dK and dV are
 * bf16. In float32 they start their way converted (2 + 4), later ones are added to what travels (2 + 8), and what comes home is
 * rounded (4 + 2); in bf16 the first start as they are, and later ones cost 2 + 4. Zig-zag has the second half of its queries in
 * scratch of their own: 4 more at the start, 6 at the end where a rank had keys of later ranks. */
#define RING_FLOAT32 .gradient_bytes = 4, .gradients_trail = true
#define MERGE_FLOAT32(first, late, n)                                                                                  \
    .backward_merge = {.start = (first),                                                                               \
                       .end = 6,                                                                                       \
                       .partial_end = (late),                                                                          \
                       .kv_start = 6,                                                                                  \
                       .kv_step = 10,                                                                                  \
                       .kv_end = 6,                                                                                    \
                       .kv_is_of_block = true,                                                                         \
                       .start_kernels = (n),                                                                           \
                       .step_kernels = 1,                                                                              \
                       .end_kernels = 2}
#define RING_BF16 .gradients_trail = true
#define MERGE_BF16(first, late, n)                                                                                     \
    .backward_merge = {.start = (first),                                                                               \
                       .end = 6,                                                                                       \
                       .partial_end = (late),                                                                          \
                       .kv_step = 6,                                                                                   \
                       .kv_is_of_block = true,                                                                         \
                       .start_kernels = (n),                                                                           \
                       .step_kernels = 1,                                                                              \
                       .end_kernels = 1}

#define RING_ROW(which, by, called)                                                                                    \
    .method = (which), .framework = FRAMEWORK_IDEAL, .name_there = (called), .source = HARNESS,                        \
    .exchange = EXCHANGE_RING, .order = (by), .messages = 1, .kernel_merges = true, RING_FORWARD

/* One gather of K and V in the order of the ranks, put in the order of the sequence (2 passes over F in bf16); a call for each of
 * the two chunks. Backward: the float32 sums of dK and dV are cleared (2 passes), put in the order of the ranks (4 passes in
 * float32, 3 in bf16), scattered, and rounded. */
#define GATHER_ROW(passes)                                                                                             \
    .method = METHOD_ALLGATHER, .framework = FRAMEWORK_IDEAL, .name_there = "all-gather", .source = HARNESS,           \
    .exchange = EXCHANGE_GATHER, .order = ORDER_ZIGZAG, .messages = 1, .calls_by_chunk = true, .copy_passes = 2,       \
    .backward_copy_passes = (passes), .copy_kernels = 1

static const struct method_traits rows_float32[] = {
    {RING_ROW(METHOD_RING, ORDER_CONTIGUOUS, "ring"), RING_FLOAT32, MERGE_FLOAT32(8, 0, 2)},
    {RING_ROW(METHOD_ZIGZAG, ORDER_ZIGZAG, "zig-zag ring"), RING_FLOAT32, MERGE_FLOAT32(12, 6, 4)},
    {RING_ROW(METHOD_STRIPED, ORDER_STRIPED, "striped ring"), RING_FLOAT32, MERGE_FLOAT32(8, 0, 2)},
    {GATHER_ROW(8), .gradient_bytes = 4},
};
static const struct method_traits rows_bf16[] = {
    {RING_ROW(METHOD_RING, ORDER_CONTIGUOUS, "ring"), RING_BF16, MERGE_BF16(8, 0, 2)},
    {RING_ROW(METHOD_ZIGZAG, ORDER_ZIGZAG, "zig-zag ring"), RING_BF16, MERGE_BF16(12, 6, 4)},
    {RING_ROW(METHOD_STRIPED, ORDER_STRIPED, "striped ring"), RING_BF16, MERGE_BF16(8, 0, 2)},
    {GATHER_ROW(7)},
    /* q, k and v are packed by rank and exchanged in one group; o comes back and is unpacked: a copy each (2 passes). */
    {.method = METHOD_ULYSSES,
     .framework = FRAMEWORK_IDEAL,
     .name_there = "Ulysses",
     .source = HARNESS,
     .exchange = EXCHANGE_ALL_TO_ALL,
     .order = ORDER_WHOLE,
     .messages = 2,
     .copy_passes = 2,
     .copy_kernels = 4,
     .joins_exchanges = true,
     .repeats_kv_heads = true},
    {.method = METHOD_NONE,
     .framework = FRAMEWORK_IDEAL,
     .name_there = "one rank",
     .source = HARNESS,
     .exchange = EXCHANGE_NONE,
     .order = ORDER_WHOLE},
};

const struct method_traits *method_harness_traits(enum method_id method, bool sends_float32)
{
    for (size_t i = 0; sends_float32 && i < SP_COUNT_OF(rows_float32); i++) {
        if (rows_float32[i].method == method) {
            return &rows_float32[i];
        }
    }
    for (size_t i = 0; i < SP_COUNT_OF(rows_bf16); i++) {
        if (rows_bf16[i].method == method) {
            return &rows_bf16[i];
        }
    }
    return NULL;
}
