#include "spec/spec.h"

#include <assert.h>

const char *const collective_names[] = {"all_gather", "reduce_scatter", "all_reduce",
                                        "all_to_all", "send_receive",   NULL};
const char *const framework_names[] = {"megatron", "torch", "deepspeed", "alst", "ring-flash-attn", "ideal", NULL};
const char *const dtype_names[] = {"bf16", "fp8", "fp16", "fp32", NULL};
const char *const kernels_names[] = {"eager", "compiled", "te", NULL};
const char *const loss_names[] = {"plain", "fused", "chunked", NULL};
const char *const method_names[] = {"none",    "naive", "allgather",   "ulysses",    "ring", "zigzag",
                                    "striped", "usp",   "double-ring", "fused-ring", NULL};
const char *const schedule_names[] = {"gpipe", "1f1b", "interleaved", "zb-h1", "zbv", "dualpipe", NULL};
const char *const axis_names[] = {"tp", "cp", "ep", "dp", "pp", NULL};
const char *const tier_names[] = {"none", "nvlink", "pcie", "network", "mixed", NULL};

static_assert(SP_COUNT_OF(collective_names) == N_COLLECTIVES + 1, "a name for each collective");
static_assert(SP_COUNT_OF(framework_names) == N_FRAMEWORKS + 1, "a name for each framework");
static_assert(SP_COUNT_OF(dtype_names) == N_DTYPES + 1, "a name for each dtype");
static_assert(SP_COUNT_OF(kernels_names) == N_KERNELS + 1, "a name for each set of kernels");
static_assert(SP_COUNT_OF(loss_names) == N_LOSSES + 1, "a name for each loss");
static_assert(SP_COUNT_OF(method_names) == N_METHODS + 1, "a name for each method");
static_assert(SP_COUNT_OF(schedule_names) == N_SCHEDULES + 1, "a name for each schedule");
static_assert(SP_COUNT_OF(axis_names) == N_AXES + 1, "a name for each axis");
static_assert(SP_COUNT_OF(tier_names) == TIER_MIXED + 2, "a name for each tier");

int64_t dtype_bytes(enum dtype dtype)
{
    static const int64_t bytes[N_DTYPES] = {[DTYPE_BF16] = 2, [DTYPE_FP8] = 1, [DTYPE_FP16] = 2, [DTYPE_FP32] = 4};
    return bytes[dtype];
}

enum dtype activation_dtype(enum dtype precision)
{
    return precision == DTYPE_FP8 ? DTYPE_BF16 : precision;
}

/* Which implementations of a method exist, and which of them is the first one to think of. */
struct method_pairs {
    enum framework_id home;
    bool is_legal[N_FRAMEWORKS];
};

static const struct method_pairs pairs[N_METHODS] = {
    [METHOD_NONE] = {FRAMEWORK_MEGATRON,
                     {[FRAMEWORK_MEGATRON] = true,
                      [FRAMEWORK_TORCH] = true,
                      [FRAMEWORK_DEEPSPEED] = true,
                      [FRAMEWORK_ALST] = true,
                      [FRAMEWORK_RING_FLASH_ATTN] = true,
                      [FRAMEWORK_IDEAL] = true}},
    [METHOD_NAIVE] = {FRAMEWORK_IDEAL, {[FRAMEWORK_IDEAL] = true}},
    [METHOD_ALLGATHER] = {FRAMEWORK_MEGATRON,
                          {[FRAMEWORK_MEGATRON] = true,
                           [FRAMEWORK_TORCH] = true,
                           [FRAMEWORK_RING_FLASH_ATTN] = true,
                           [FRAMEWORK_IDEAL] = true}},
    [METHOD_ULYSSES] = {FRAMEWORK_DEEPSPEED,
                        {[FRAMEWORK_MEGATRON] = true,
                         [FRAMEWORK_TORCH] = true,
                         [FRAMEWORK_DEEPSPEED] = true,
                         [FRAMEWORK_ALST] = true,
                         [FRAMEWORK_IDEAL] = true}},
    [METHOD_RING] = {FRAMEWORK_RING_FLASH_ATTN, {[FRAMEWORK_RING_FLASH_ATTN] = true, [FRAMEWORK_IDEAL] = true}},
    [METHOD_ZIGZAG] = {FRAMEWORK_MEGATRON,
                       {[FRAMEWORK_MEGATRON] = true,
                        [FRAMEWORK_TORCH] = true,
                        [FRAMEWORK_RING_FLASH_ATTN] = true,
                        [FRAMEWORK_IDEAL] = true}},
    [METHOD_STRIPED] = {FRAMEWORK_RING_FLASH_ATTN, {[FRAMEWORK_RING_FLASH_ATTN] = true, [FRAMEWORK_IDEAL] = true}},
    [METHOD_USP] = {FRAMEWORK_MEGATRON,
                    {[FRAMEWORK_MEGATRON] = true, [FRAMEWORK_RING_FLASH_ATTN] = true, [FRAMEWORK_IDEAL] = true}},
    [METHOD_DOUBLE_RING] = {FRAMEWORK_IDEAL, {[FRAMEWORK_IDEAL] = true}},
    [METHOD_FUSED_RING] = {FRAMEWORK_IDEAL, {[FRAMEWORK_IDEAL] = true}},
};

bool pair_is_legal(enum method_id method, enum framework_id framework)
{
    return pairs[method].is_legal[framework];
}

enum framework_id method_home(enum method_id method)
{
    return pairs[method].home;
}
