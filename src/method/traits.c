/* What each framework's implementation of each method really does: one row per pair, read in the named source. Adding a
 * pair is adding a row (docs/architecture.md, "a framework's traits"). Counts are bytes per element or multiples of local
 * tensors, as declared in method.h. */
#include "method/method.h"

#define TE "NVIDIA/TransformerEngine@d0067d0 attention/dot_product_attention/context_parallel.py"
#define TORCH "pytorch/pytorch@09b101c torch/distributed/tensor/experimental/_context_parallel/_attention.py"
#define RFA "zhuzilin/ring-flash-attention@8996282"
#define YUNCHANG "feifeibear/long-context-attention@56118e0"
#define DEEPSPEED "deepspeedai/DeepSpeed@edaa722 deepspeed/sequence/layer.py"
#define ALST "deepspeedai/DeepSpeed@edaa722 deepspeed/runtime/sequence_parallel/ulysses_sp.py"
#define BOUND "docs/model.md: everything overlaps that the dependencies allow, fewest buffers"

/* No split: the kernel alone; backward leaves dq, dk, dv. */
#define NO_SPLIT(f, there, from)                                                                                       \
    {                                                                                                                  \
        .method = METHOD_NONE, .framework = (f), .name_there = (there), .source = (from), .exchange = EXCHANGE_NONE,   \
        .order = ORDER_WHOLE, .backward_buffers = {.q = 1, .kv = 1},                                                   \
    }

/* zhuzilin's rings: K and V as two messages; float32 accumulation of the output inside every step (6 bytes to begin, 10 a
 * full step, 9 a step of half of the rows through slice assignment, 6 to end; striped steps of s-1 rows go through the
 * slice too: 18). Its published speeds on 8 H800 and 8 A100 leave 2.3 and 2.8 times the time of these bytes: eager
 * broadcasts and small kernels. The rows hold 2.5 times the bytes of a step. dK, dV travel in float32 behind the next
 * step, the last hop exposed. */
#define RFA_COMMON                                                                                                     \
    .framework = FRAMEWORK_RING_FLASH_ATTN, .messages = 2, .gradient_bytes = 4, .gradients_trail = true,               \
    .forward_buffers = {.q = 5, .kv = 2}, .backward_buffers = {.q = 3, .kv = 7}
#define RFA_RING                                                                                                       \
    RFA_COMMON, .forward_merge = {.start = 6, .full_step = 25, .partial_step = 22.5, .end = 6},                        \
                .backward_merge = {.start = 6, .full_step = 25, .partial_step = 22.5, .end = 6, .kv_step = 25}
#define RFA_STRIPED                                                                                                    \
    RFA_COMMON, .forward_merge = {.start = 6, .full_step = 25, .partial_step = 45, .end = 6},                          \
                .backward_merge = {.start = 6, .full_step = 25, .partial_step = 45, .end = 6, .kv_step = 25}

/* TE p2p: K and V in one message; every received KV and every step's output stay until the function returns; outputs are
 * corrected at the end in bf16 (read, read, write: 6 bytes; half of it for half steps; 4 to begin). Backward: dKV in bf16
 * beside KV in one message, hidden by its own step; dq, dk, dv accumulate in bf16. */
#define TE_RING                                                                                                        \
    .framework = FRAMEWORK_MEGATRON, .source = TE, .order = ORDER_ZIGZAG, .messages = 1,                               \
    .forward_merge = {.start = 4, .full_step = 6, .partial_step = 3, .is_at_end = true},                               \
    .backward_merge = {.full_step = 6, .partial_step = 3, .kv_step = 6},                                               \
    .forward_buffers = {.kv = -1, .gathered_kv = 1, .step_output = 1}, .backward_buffers = {.q = 2, .kv = 5}

/* PyTorch: float32 merges by eager operators. Counted, a full step moves 38 bytes an element (cast 6, difference 12,
 * product with the sigmoid 8, subtraction 12) and a partial one 27; run as rank 7 and rank 0 of 8 with free exchanges (one
 * H200, 16K and 32K tokens, all-gather rotation) they take 63 and 57 bytes' time, and backward 113 bytes per element of O
 * with as many key-value heads as query heads, a third of it for dq. dK and dV travel by hops of their own in float32
 * behind the next step, the last exposed. The exchanges are all-to-alls: beside attention on 2 x H200 each cost at least
 * its own time. Transients of attention's backward on the last rank, measured the same way: 26 Q at two ranks and 28 at
 * eight for the ring (one more KV as soon as there is a second hop), 24 + 2 P for the gather, and 2.5 log-sum-exp; 0.5 Q
 * less on the others. */
#define TORCH_RING                                                                                                     \
    .framework = FRAMEWORK_TORCH, .source = TORCH, .order = ORDER_ZIGZAG, .messages = 1, .gradient_bytes = 4,          \
    .keeps_projected_kv = true, .saved_output = 1, .backward_is_whole = true, .gradients_trail = true,                 \
    .exposes_hops = true, .forward_merge = {.start = 6, .full_step = 63, .partial_step = 57, .end = 6},                \
    .backward_merge = {.start = 6, .full_step = 38, .partial_step = 36, .end = 6, .kv_step = 38}

/* The bound: one message, gradients in bf16 hidden by their own step, partial results stay in registers or are merged by
 * the kernel; two KV buffers, and two of dKV in backward. */
#define BOUND_RING                                                                                                     \
    .framework = FRAMEWORK_IDEAL, .source = BOUND, .messages = 1, .forward_buffers = {.kv = 2},                        \
    .backward_buffers = {.q = 1, .kv = 4}

static const struct method_traits rows[] = {
    NO_SPLIT(FRAMEWORK_MEGATRON, "no context parallelism", TE),
    NO_SPLIT(FRAMEWORK_TORCH, "no context parallelism", TORCH),
    NO_SPLIT(FRAMEWORK_DEEPSPEED, "no sequence parallelism", DEEPSPEED),
    NO_SPLIT(FRAMEWORK_ALST, "sequence_parallel_size 1", ALST),
    NO_SPLIT(FRAMEWORK_RING_FLASH_ATTN, "flash_attn_func", RFA),
    NO_SPLIT(FRAMEWORK_IDEAL, "FlashAttention, no split", BOUND),
    /* naive: bf16 scores, softmax in place, probabilities kept for backward; backward needs dP beside P. */
    {.method = METHOD_NAIVE,
     .framework = FRAMEWORK_IDEAL,
     .name_there = "materialised scores",
     .source = BOUND,
     .exchange = EXCHANGE_SCORES,
     .order = ORDER_WHOLE,
     .saved_score = 1,
     .backward_buffers = {.q = 1, .kv = 1, .score = 1}},

    {.method = METHOD_ZIGZAG, TE_RING, .name_there = "cp_comm_type p2p", .exchange = EXCHANGE_RING},
    /* TE all_gather: two synchronous gathers and an index_select back to sequence order (reads F, writes F); backward
     * gathers again, keeps full dk, dv and one step's, and scatters both. */
    {.method = METHOD_ALLGATHER,
     .framework = FRAMEWORK_MEGATRON,
     .name_there = "cp_comm_type all_gather",
     .source = TE,
     .exchange = EXCHANGE_GATHER,
     .order = ORDER_ZIGZAG,
     .messages = 2,
     .copy_passes = 2,
     .forward_buffers = {.gathered_kv = 2},
     .backward_buffers = {.q = 2, .kv = 1, .gathered_kv = 4}},
    /* TE a2a: pack, exchange, unpack and index_select back to sequence order: three passes, each reads and writes. The
     * output before its projection is a tensor of its own. */
    {.method = METHOD_ULYSSES,
     .framework = FRAMEWORK_MEGATRON,
     .name_there = "cp_comm_type a2a",
     .source = TE,
     .exchange = EXCHANGE_ALL_TO_ALL,
     .order = ORDER_WHOLE,
     .messages = 4,
     .copy_passes = 6,
     .saved_output = 1,
     .forward_buffers = {.q = 2, .kv = 2},
     .backward_buffers = {.q = 3, .kv = 3}},
    {.method = METHOD_USP,
     TE_RING,
     .name_there = "cp_comm_type a2a+p2p",
     .exchange = EXCHANGE_HYBRID,
     .copy_passes = 6,
     .saved_output = 1},

    {.method = METHOD_ZIGZAG,
     TORCH_RING,
     .name_there = "context_parallel, alltoall rotation, head-tail",
     .exchange = EXCHANGE_RING,
     .forward_buffers = {.q = 9, .kv = 3},
     .backward_buffers = {.q = 26, .kv_after_first_hop = 1, .log_sum_exp = 2.5}},
    {.method = METHOD_ALLGATHER,
     TORCH_RING,
     .name_there = "context_parallel, allgather rotation, head-tail",
     .exchange = EXCHANGE_RING,
     .gathers_first = true,
     .forward_buffers = {.q = 9, .kv = 1, .gathered_kv = 1},
     .backward_buffers = {.q = 24, .gathered_kv = 1, .log_sum_exp = 2.5}},
    /* all-to-all on q, k, v, o: synchronous, a pack and an unpack copy each. */
    {.method = METHOD_ULYSSES,
     .framework = FRAMEWORK_TORCH,
     .name_there = "all-to-all on q, k, v, o",
     .source = TORCH,
     .exchange = EXCHANGE_ALL_TO_ALL,
     .order = ORDER_WHOLE,
     .messages = 4,
     .copy_passes = 4,
     .forward_buffers = {.q = 3, .kv = 1},
     .backward_buffers = {.q = 3, .kv = 1},
     .keeps_projected_kv = true,
     .saved_output = 1},

    /* DeepSpeed: three all-to-alls in, one out, each synchronous with a pack and an unpack copy (read and write); the
     * tensors before the exchange stay alive in the caller; staging holds three times the largest one. */
    {.method = METHOD_ULYSSES,
     .framework = FRAMEWORK_DEEPSPEED,
     .name_there = "DistributedAttention",
     .source = DEEPSPEED,
     .exchange = EXCHANGE_ALL_TO_ALL,
     .order = ORDER_WHOLE,
     .messages = 4,
     .copy_passes = 4,
     .repeats_kv_heads = true,
     .forward_buffers = {.q = 4, .kv = 1},
     .backward_buffers = {.q = 4, .kv = 1},
     .saved_output = 1},
    /* ALST: key-value heads repeated in the sender, positions of all tokens gathered in every forward, three to four
     * copies of each tensor. */
    {.method = METHOD_ULYSSES,
     .framework = FRAMEWORK_ALST,
     .name_there = "UlyssesSPAttentionHF",
     .source = ALST,
     .exchange = EXCHANGE_ALL_TO_ALL,
     .order = ORDER_WHOLE,
     .messages = 4,
     .copy_passes = 7,
     .repeats_kv_heads = true,
     .gathers_positions = true,
     .forward_buffers = {.q = 4, .kv = 4},
     .backward_buffers = {.q = 4, .kv = 4},
     .saved_output = 1},

    {.method = METHOD_RING,
     RFA_RING,
     .name_there = "ring_flash_attn_func",
     .source = RFA,
     .exchange = EXCHANGE_RING,
     .order = ORDER_CONTIGUOUS},
    {.method = METHOD_ZIGZAG,
     RFA_RING,
     .name_there = "zigzag_ring_flash_attn_func",
     .source = RFA,
     .exchange = EXCHANGE_RING,
     .order = ORDER_ZIGZAG},
    {.method = METHOD_STRIPED,
     RFA_STRIPED,
     .name_there = "stripe_flash_attn_func",
     .source = RFA,
     .exchange = EXCHANGE_RING,
     .order = ORDER_STRIPED},
    /* llama3 variant: one key-value head at a time, contiguous, into two buffers by turns; outputs are joined at the end;
     * backward gathers again into them, has one more for the gradients and scatters in line. */
    {.method = METHOD_ALLGATHER,
     .framework = FRAMEWORK_RING_FLASH_ATTN,
     .name_there = "llama3_flash_attn_varlen_func",
     .source = RFA,
     .exchange = EXCHANGE_GATHER_BY_HEAD,
     .order = ORDER_CONTIGUOUS,
     .messages = 2,
     .forward_buffers = {.q = 1, .gathered_head = 2},
     .backward_buffers = {.q = 1, .kv = 1, .gathered_head = 3}},
    {.method = METHOD_USP,
     RFA_RING,
     .name_there = "yunchang LongContextAttention",
     .source = YUNCHANG,
     .exchange = EXCHANGE_HYBRID,
     .order = ORDER_ZIGZAG,
     .copy_passes = 4,
     .saved_output = 1},

    {.method = METHOD_RING, BOUND_RING, .name_there = "ring", .exchange = EXCHANGE_RING, .order = ORDER_CONTIGUOUS},
    {.method = METHOD_ZIGZAG,
     BOUND_RING,
     .name_there = "zig-zag ring",
     .exchange = EXCHANGE_RING,
     .order = ORDER_ZIGZAG},
    {.method = METHOD_STRIPED,
     BOUND_RING,
     .name_there = "striped ring",
     .exchange = EXCHANGE_RING,
     .order = ORDER_STRIPED},
    {.method = METHOD_USP,
     BOUND_RING,
     .name_there = "all-to-all inside, ring between",
     .exchange = EXCHANGE_HYBRID,
     .order = ORDER_ZIGZAG},
    {.method = METHOD_DOUBLE_RING,
     .framework = FRAMEWORK_IDEAL,
     .name_there = "double ring",
     .source = BOUND,
     .exchange = EXCHANGE_DOUBLE_RING,
     .order = ORDER_ZIGZAG,
     .messages = 1,
     .forward_buffers = {.kv = 4},
     .backward_buffers = {.q = 1, .kv = 6}},
    {.method = METHOD_FUSED_RING,
     BOUND_RING,
     .name_there = "ring inside the kernel",
     .exchange = EXCHANGE_FUSED_RING,
     .order = ORDER_ZIGZAG},
    {.method = METHOD_ALLGATHER,
     .framework = FRAMEWORK_IDEAL,
     .name_there = "all-gather in pieces",
     .source = BOUND,
     .exchange = EXCHANGE_GATHER,
     .order = ORDER_ZIGZAG,
     .messages = 1,
     .is_overlapped = true,
     .forward_buffers = {.kv = -1, .gathered_kv = 1},
     .backward_buffers = {.q = 1, .gathered_kv = 2}},
    {.method = METHOD_ULYSSES,
     .framework = FRAMEWORK_IDEAL,
     .name_there = "all-to-all by key-value head",
     .source = BOUND,
     .exchange = EXCHANGE_ALL_TO_ALL,
     .order = ORDER_WHOLE,
     .messages = 2,
     .is_overlapped = true,
     .repeats_kv_heads = true,
     .forward_buffers = {.q = 1, .kv = 1},
     .backward_buffers = {.q = 2, .kv = 1}},
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
