/* Values and conditions of a layout that several launchers ask for. */
#include "report/launch.h"

#include <string.h>

const char *launch_count(const struct launch_case *it, int64_t count)
{
    return sp_format(it->arena, "%lld", (long long)count);
}

static const struct layout_spec *layout_of(const struct launch_case *it)
{
    return &it->question->layout;
}

/* ---- values ----------------------------------------------------------------------------------------------------- */

#define COUNT(name, value)                                                                                             \
    const char *launch_##name(const struct launch_case *it)                                                            \
    {                                                                                                                  \
        return launch_count(it, (value));                                                                              \
    }

COUNT(tp, layout_of(it)->tp)
COUNT(sp, layout_of(it)->sp)
COUNT(pp, layout_of(it)->pp)
COUNT(vpp, layout_of(it)->vpp)
COUNT(dp, layout_of(it)->dp)
COUNT(ep, layout_of(it)->ep)
COUNT(etp, layout_of(it)->etp)
COUNT(zero, layout_of(it)->zero)
COUNT(gpus, it->question->run.gpus)
COUNT(nodes, it->question->run.nodes)
COUNT(node_gpus, it->question->run.gpus / it->question->run.nodes)
COUNT(seq, it->question->run.seq)
COUNT(micro_batch, layout_of(it)->micro_batch)
COUNT(local_batch, it->question->run.global_batch / layout_of(it)->dp)
COUNT(global_batch, it->question->run.global_batch)
COUNT(accumulation, it->question->run.global_batch / layout_of(it)->dp / layout_of(it)->micro_batch)
COUNT(recompute_layers, layout_of(it)->recompute_layers)
COUNT(lora_rank, it->question->run.lora_rank)

const char *launch_ulysses_ring(const struct launch_case *it)
{
    const struct layout_spec *layout = layout_of(it);
    return sp_format(it->arena, "%lld %lld", (long long)layout->sp_ulysses,
                     (long long)(layout->sp / layout->sp_ulysses));
}

const char *launch_stage_layers_text(const struct launch_case *it)
{
    const char *text = "";
    for (int64_t stage = 0; stage < layout_of(it)->pp; stage++) {
        text = sp_format(it->arena, "%s%s%lld", text, stage == 0 ? "" : ",",
                         (long long)layout_stage_layers(layout_of(it), &it->question->model, stage));
    }
    return text;
}

const char *launch_flash_attention(const struct launch_case *it)
{
    return strcmp(layout_of(it)->attention, "fa3") == 0 ? "flash_attention_3" : "flash_attention_2";
}

const char *launch_says_flash_attention_2(const struct launch_case *it)
{
    const char *priced = layout_of(it)->attention;
    return strcmp(priced, "fa2") == 0
               ? NULL
               : sp_format(it->arena,
                           "FlashAttention 2, and the layout is priced with %s: --attention fa2 prices what runs here",
                           priced);
}

const char *launch_says_flash_attention(const struct launch_case *it)
{
    return strcmp(layout_of(it)->attention, "fa3") == 0 ? NULL : launch_says_flash_attention_2(it);
}

const char *launch_says_dp(const struct launch_case *it)
{
    return sp_format(it->arena, "data parallel %s: what is left of the GPUs", launch_dp(it));
}

/* ---- conditions ------------------------------------------------------------------------------------------------- */

#define CONDITION(name, value)                                                                                         \
    bool launch_##name(const struct launch_case *it)                                                                   \
    {                                                                                                                  \
        return (value);                                                                                                \
    }

CONDITION(has_tp, layout_of(it)->tp > 1)
CONDITION(has_sp, layout_of(it)->sp > 1)
CONDITION(has_pp, layout_of(it)->pp > 1)
CONDITION(has_vpp, layout_of(it)->vpp > 1)
CONDITION(has_tp_sp, layout_of(it)->tp > 1 && layout_of(it)->has_tp_sp)
CONDITION(lacks_tp_sp, layout_of(it)->tp > 1 && !layout_of(it)->has_tp_sp)
CONDITION(is_moe, it->question->model.n_experts > 0)
CONDITION(is_mla, it->question->model.kv_lora_rank > 0)
CONDITION(is_usp, layout_of(it)->method == METHOD_USP)
CONDITION(is_ulysses, layout_of(it)->method == METHOD_ULYSSES && layout_of(it)->sp > 1)
CONDITION(is_zero_0, layout_of(it)->zero == 0)
CONDITION(is_zero_1, layout_of(it)->zero == 1)
CONDITION(is_zero_2, layout_of(it)->zero == 2)
CONDITION(is_zero_3, layout_of(it)->zero == 3)
CONDITION(shards_gradients, layout_of(it)->zero >= 2)
CONDITION(keeps_all, layout_of(it)->recompute == RECOMPUTE_NONE)
CONDITION(is_selective, layout_of(it)->recompute == RECOMPUTE_SELECTIVE)
CONDITION(is_full, layout_of(it)->recompute == RECOMPUTE_FULL)
CONDITION(is_block, layout_of(it)->recompute == RECOMPUTE_BLOCK)
CONDITION(is_bf16, layout_of(it)->precision == DTYPE_BF16)
CONDITION(is_fp16, layout_of(it)->precision == DTYPE_FP16)
CONDITION(is_fp8, layout_of(it)->precision == DTYPE_FP8)
CONDITION(is_bf16_or_fp8, layout_of(it)->precision == DTYPE_BF16 || layout_of(it)->precision == DTYPE_FP8)
CONDITION(offloads_activations, layout_of(it)->offloads_activations)
CONDITION(offloads_optimizer, layout_of(it)->offloads_optimizer)
CONDITION(offloads_parameters, layout_of(it)->offloads_parameters)
CONDITION(is_lora, it->question->run.lora_rank > 0)
CONDITION(is_compiled, layout_of(it)->kernels == KERNELS_COMPILED)
CONDITION(has_documents, it->question->run.document_tokens > 0)

bool launch_is_padded(const struct launch_case *it)
{
    const struct layout_spec *layout = layout_of(it);
    return layout->pp > 1 && layout->pp_layers == PP_LAYERS_PADDED &&
           (it->question->model.n_layers + 2) % (layout->pp * layout->vpp) == 0;
}

bool launch_is_uneven(const struct launch_case *it)
{
    const struct layout_spec *layout = layout_of(it);
    const struct model_spec *model = &it->question->model;
    if (layout->pp == 1 || launch_is_padded(it)) {
        return false;
    }
    for (int64_t stage = 1; stage < layout->pp; stage++) {
        if (layout_stage_layers(layout, model, stage) != layout_stage_layers(layout, model, 0)) {
            return true;
        }
    }
    return false;
}

bool launch_has_pp_before_dp(const struct launch_case *it)
{
    const struct layout_spec *layout = layout_of(it);
    for (int i = 0; i < N_AXES; i++) {
        if (layout->order[i] == AXIS_DP || layout->order[i] == AXIS_PP) {
            return layout->order[i] == AXIS_PP && layout->pp > 1 && layout->dp > 1;
        }
    }
    return false;
}
