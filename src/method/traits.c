/* What each framework's implementation of each method really does: one row per pair, read in the named source. Adding a
 * pair is adding a row (docs/architecture.md, "a framework's traits"). Counts are bytes per element or multiples of local
 * tensors, as declared in method.h. */
#include "method/method.h"

#define TE "NVIDIA/TransformerEngine@d0067d0 attention/dot_product_attention/context_parallel.py"
#define RFA "zhuzilin/ring-flash-attention@8996282"
#define DEEPSPEED "deepspeedai/DeepSpeed@edaa722 deepspeed/sequence/layer.py"
#define BOUND "docs/model.md: everything overlaps that the dependencies allow, fewest buffers"

/* Backward of every row ends with dq, dk, dv of the local tokens: q 1, kv 1, part of each count below. */
static const struct method_traits rows[] = {
    {.method = METHOD_NONE, .framework = FRAMEWORK_MEGATRON, .name_there = "no context parallelism", .source = TE,
     .exchange = EXCHANGE_NONE, .order = ORDER_WHOLE, .backward_buffers = {.q = 1, .kv = 1}},
    {.method = METHOD_NONE, .framework = FRAMEWORK_IDEAL, .name_there = "FlashAttention, no split", .source = BOUND,
     .exchange = EXCHANGE_NONE, .order = ORDER_WHOLE, .backward_buffers = {.q = 1, .kv = 1}},
    /* naive: bf16 scores, softmax in place, probabilities kept for backward; backward needs dP beside P. */
    {.method = METHOD_NAIVE, .framework = FRAMEWORK_IDEAL, .name_there = "materialised scores", .source = BOUND,
     .exchange = EXCHANGE_SCORES, .order = ORDER_WHOLE, .saved_score = 2,
     .backward_buffers = {.q = 1, .kv = 1, .score = 2}},
    /* TE p2p: K and V in one message; every received KV and every step's output stay until the function returns; outputs
     * are corrected at the end in bf16 (read, read, write: 6 bytes; half of it for half steps; 4 to begin). Backward: dKV
     * in bf16 beside KV in one message, hidden by its own step; dq, dk, dv accumulate in bf16. */
    {.method = METHOD_ZIGZAG, .framework = FRAMEWORK_MEGATRON, .name_there = "cp_comm_type p2p", .source = TE,
     .exchange = EXCHANGE_RING, .order = ORDER_ZIGZAG, .messages = 1, .gradient_scale = 1,
     .forward_merge = {.start = 4, .full_step = 6, .partial_step = 3, .is_at_end = true},
     .backward_merge = {.full_step = 6, .partial_step = 3, .kv_step = 6},
     .forward_buffers = {.kv = -1, .gathered_kv = 1, .step_output = 1},
     .backward_buffers = {.q = 2, .kv = 5}},
    /* TE all_gather: two synchronous gathers and an index_select back to sequence order (reads F, writes F); backward
     * gathers again, keeps full dk, dv and one step's, and scatters both. */
    {.method = METHOD_ALLGATHER, .framework = FRAMEWORK_MEGATRON, .name_there = "cp_comm_type all_gather", .source = TE,
     .exchange = EXCHANGE_GATHER, .order = ORDER_ZIGZAG, .messages = 2, .gradient_scale = 1, .copy_passes = 2,
     .forward_buffers = {.gathered_kv = 2}, .backward_buffers = {.q = 2, .kv = 1, .gathered_kv = 4}},
    /* DeepSpeed: three all-to-alls in, one out, each synchronous with a pack and an unpack copy (read and write); the
     * tensors before the exchange stay alive in the caller; staging holds three times the largest one. */
    {.method = METHOD_ULYSSES, .framework = FRAMEWORK_DEEPSPEED, .name_there = "DistributedAttention", .source = DEEPSPEED,
     .exchange = EXCHANGE_ALL_TO_ALL, .order = ORDER_WHOLE, .messages = 4, .copy_passes = 4, .repeats_kv_heads = true,
     .forward_buffers = {.q = 4, .kv = 1}, .backward_buffers = {.q = 4, .kv = 1}, .saved_output = 1},
    /* zhuzilin's ring: K and V as two messages; float32 accumulation of the output inside every step; dK, dV travel in
     * float32 behind the next step, the last hop exposed. */
    {.method = METHOD_RING, .framework = FRAMEWORK_RING_FLASH_ATTN, .name_there = "ring_flash_attn_func", .source = RFA,
     .exchange = EXCHANGE_RING, .order = ORDER_CONTIGUOUS, .messages = 2, .gradient_scale = 2, .gradients_trail = true,
     .forward_merge = {.start = 6, .full_step = 10, .partial_step = 9, .end = 6},
     .backward_merge = {.start = 6, .full_step = 10, .partial_step = 9, .end = 6, .kv_step = 10},
     .forward_buffers = {.q = 5, .kv = 2}, .backward_buffers = {.q = 3, .kv = 7}},
    /* The bound: one message, gradients in bf16 hidden by their own step, partial results stay in registers or are
     * merged by the kernel; two KV buffers, and two of dKV in backward. */
    {.method = METHOD_RING, .framework = FRAMEWORK_IDEAL, .name_there = "ring", .source = BOUND,
     .exchange = EXCHANGE_RING, .order = ORDER_CONTIGUOUS, .messages = 1, .gradient_scale = 1,
     .forward_buffers = {.kv = 2}, .backward_buffers = {.q = 1, .kv = 4}},
    {.method = METHOD_ZIGZAG, .framework = FRAMEWORK_IDEAL, .name_there = "zig-zag ring", .source = BOUND,
     .exchange = EXCHANGE_RING, .order = ORDER_ZIGZAG, .messages = 1, .gradient_scale = 1,
     .forward_buffers = {.kv = 2}, .backward_buffers = {.q = 1, .kv = 4}},
    {.method = METHOD_ALLGATHER, .framework = FRAMEWORK_IDEAL, .name_there = "all-gather in pieces", .source = BOUND,
     .exchange = EXCHANGE_GATHER, .order = ORDER_ZIGZAG, .messages = 1, .gradient_scale = 1, .is_overlapped = true,
     .forward_buffers = {.kv = -1, .gathered_kv = 1}, .backward_buffers = {.q = 1, .gathered_kv = 2}},
    {.method = METHOD_ULYSSES, .framework = FRAMEWORK_IDEAL, .name_there = "all-to-all by key-value head", .source = BOUND,
     .exchange = EXCHANGE_ALL_TO_ALL, .order = ORDER_WHOLE, .messages = 2, .is_overlapped = true, .repeats_kv_heads = true,
     .forward_buffers = {.q = 1, .kv = 1}, .backward_buffers = {.q = 2, .kv = 1}},
};

const struct method_traits *method_traits(enum method_id method, enum framework_id framework)
{
    for (size_t i = 0; i < SP_COUNT_OF(rows); i++) {
        if (rows[i].method == method && rows[i].framework == framework) {
            return &rows[i];
        }
    }
    return NULL;
}

bool method_is_built(enum method_id method, enum framework_id framework)
{
    return method_traits(method, framework) != NULL;
}
