/* Errors against measured runs (tests/validation) may not grow unnoticed. `make validate` shows the rows behind a
 * figure; `build/release/tests/test_validation bounds` prints this table anew. A change that makes a median worse says so
 * in its commit, with the reason. */
#include "cmd/command.h"
#include "support/support.h"

#include <math.h>
#include <string.h>

static const double PERCENT = 100;
static const double FAR_FRAC = 0.1; /* a median beyond it is explained */

static const struct bound {
    const char *source;
    const char *group;
    const char *quantity;
    int n;              /* rows compared when the bound was set */
    double median_frac; /* then */
    double bound_frac;
} bounds[] = {
    {"alst", "time", "step_time_s", 10, 0.043497, 0.045672},
    {"alst", "time", "fits", 10, 0.000000, 0.000200},
    {"alst", "recipe", "fits", 20, 0.000000, 0.000200},
    {"alst", "recipe", "peak_bytes", 4, 0.263145, 0.276302},
    {"attention-2gpu-h200", "alltoall", "attention_forward_s", 4, 0.041164, 0.043222},
    {"attention-2gpu-h200", "alltoall", "attention_forward_backward_s", 4, 0.026002, 0.027302},
    {"attention-2gpu-h200", "allgather", "attention_forward_s", 4, 0.008540, 0.008968},
    {"attention-2gpu-h200", "allgather", "attention_forward_backward_s", 4, 0.035118, 0.036874},
    {"attention-2gpu-h200", "ulysses", "attention_forward_s", 4, 0.013892, 0.014587},
    {"attention-2gpu-h200", "ulysses", "attention_forward_backward_s", 4, 0.004721, 0.004957},
    {"attention-2gpu-h200", "local", "kernels_forward_s", 4, 0.024352, 0.025569},
    {"attention-2gpu-h200", "local", "kernels_forward_backward_s", 4, 0.016828, 0.017669},
    {"burst-engine", "Megatron CP, one node", "fits", 24, 0.000000, 0.000200},
    {"burst-engine", "Megatron CP, one node", "tokens_per_s_per_gpu", 4, 0.101867, 0.106961},
    {"burst-engine", "Ulysses, one node", "tokens_per_s_per_gpu", 18, 0.078716, 0.082652},
    {"burst-engine", "Ulysses, one node", "fits", 24, 0.000000, 0.000200},
    {"burst-engine", "Megatron TP, one node", "tokens_per_s_per_gpu", 16, 0.075934, 0.079731},
    {"burst-engine", "Megatron TP, one node", "fits", 24, 0.000000, 0.000200},
    {"burst-engine", "Ulysses, several nodes", "fits", 1, 0.000000, 0.000200},
    {"burst-engine", "Ulysses, several nodes", "tokens_per_s_per_gpu", 1, 0.052001, 0.054601},
    {"burst-engine", "Ulysses, several nodes", "peak_allocated_bytes", 1, 0.417209, 0.438069},
    {"burst-engine", "Megatron CP, several nodes", "fits", 5, 0.000000, 0.000200},
    {"burst-engine", "USP, several nodes", "tokens_per_s_per_gpu", 3, 0.073597, 0.077277},
    {"burst-engine", "USP, several nodes", "fits", 5, 0.000000, 0.000200},
    {"harness-h200", "method", "method_s", 88, 0.015488, 0.016262},
    {"harness-h200-x2", "method", "method_s", 192, 0.012860, 0.013503},
    {"harness-h200-x2", "layer", "layer_s", 45, 0.012095, 0.012700},
    {"korthikanti-recompute", "step", "step_time_s", 8, 0.033600, 0.035300},
    {"korthikanti-recompute", "step", "mfu_frac", 6, 0.042810, 0.044951},
    {"korthikanti-recompute", "layer", "layer_forward_s", 5, 0.132662, 0.139295},
    {"korthikanti-recompute", "layer", "layer_backward_s", 5, 0.076842, 0.080684},
    {"korthikanti-recompute", "memory", "activation_bytes", 1, 1.188101, 1.247506},
    {"llama3-herd", "8K", "flop_per_s_per_gpu", 2, 0.011225, 0.011787},
    {"llama3-herd", "131K", "flop_per_s_per_gpu", 1, 0.002788, 0.002988},
    {"magi-attention", "Ulysses, H100", "attention_forward_s", 8, 0.101764, 0.106853},
    {"magi-attention", "Ulysses, H100", "attention_forward_backward_s", 8, 0.038476, 0.040400},
    {"magi-attention", "zig-zag, H100", "attention_forward_s", 8, 0.228816, 0.240256},
    {"magi-attention", "zig-zag, H100", "attention_forward_backward_s", 8, 0.125846, 0.132138},
    {"magi-attention", "all-gather, H100", "attention_forward_s", 8, 0.094999, 0.099749},
    {"magi-attention", "all-gather, H100", "attention_forward_backward_s", 8, 0.076522, 0.080348},
    {"magi-attention", "USP, H100", "attention_forward_s", 8, 0.095647, 0.100429},
    {"magi-attention", "USP, H100", "attention_forward_backward_s", 8, 0.026068, 0.027372},
    {"megatron-b200", "TP, PP", "step_time_s", 8, 0.012777, 0.013415},
    {"megatron-b200", "TP, PP", "peak_allocated_bytes", 8, 0.000281, 0.000481},
    {"megatron-b200", "TP, PP", "peak_reserved_bytes", 8, 0.001286, 0.001486},
    {"megatron-b200", "MoE", "step_time_s", 1, 0.051817, 0.054408},
    {"megatron-b200", "MoE", "peak_allocated_bytes", 1, 0.018192, 0.019101},
    {"megatron-b200", "MoE", "peak_reserved_bytes", 1, 0.020057, 0.021060},
    {"megatron-b200", "CP 8", "step_time_s", 1, 0.042711, 0.044847},
    {"megatron-b200", "CP 8", "peak_allocated_bytes", 1, 0.000030, 0.000230},
    {"megatron-b200", "CP 8", "peak_reserved_bytes", 1, 0.039335, 0.041301},
    {"megatron-bridge-memory", "Moonlight", "step_time_s", 2, 0.655779, 0.688568},
    {"megatron-bridge-memory", "Moonlight", "peak_allocated_bytes", 2, 0.374332, 0.393049},
    {"megatron-bridge-memory", "Moonlight", "flop_per_s_per_gpu", 2, 1.887900, 1.982295},
    {"megatron-bridge-memory", "70B FP8", "peak_allocated_bytes", 4, 0.346549, 0.363877},
    {"megatron-bridge-memory", "70B FP8", "flop_per_s_per_gpu", 5, 0.174576, 0.183304},
    {"megatron-bridge-memory", "70B FP8", "fits", 1, 1.000000, 1.050000},
    {"megatron-bridge-memory", "LoRA", "peak_allocated_bytes", 1, 0.307402, 0.322772},
    {"megatron-bridge-memory", "EP 16", "step_time_s", 1, 0.362995, 0.381144},
    {"megatron-bridge-memory", "EP 16", "flop_per_s_per_gpu", 1, 0.263857, 0.277050},
    {"megatron-bridge-rates", "GB300", "tokens_per_s_per_gpu", 5, 0.142511, 0.149636},
    {"megatron-bridge-rates", "GB200", "tokens_per_s_per_gpu", 5, 0.083423, 0.087594},
    {"megatron-bridge-rates", "H100", "tokens_per_s_per_gpu", 5, 0.064984, 0.068233},
    {"megatron-bridge-rates", "B200", "tokens_per_s_per_gpu", 2, 0.195110, 0.204865},
    {"megatron-lm-h100", "data parallel", "flop_per_s_per_gpu", 1, 0.230942, 0.242489},
    {"megatron-lm-h100", "tensor parallel", "flop_per_s_per_gpu", 3, 0.126541, 0.132868},
    {"megatron-lm-h100", "pipeline", "flop_per_s_per_gpu", 5, 0.012968, 0.013616},
    {"mosaic-mpt", "H100, to 2K", "tokens_per_s_per_gpu", 47, 0.144704, 0.151939},
    {"mosaic-mpt", "H100, longer", "tokens_per_s_per_gpu", 23, 0.426078, 0.447382},
    {"mosaic-mpt", "H100 FP8, longer", "tokens_per_s_per_gpu", 4, 0.517334, 0.543201},
    {"mosaic-mpt", "H100 FP8, to 2K", "tokens_per_s_per_gpu", 3, 0.073237, 0.076899},
    {"mosaic-mpt", "A100 80GB, to 2K", "tokens_per_s_per_gpu", 25, 0.037229, 0.039091},
    {"mosaic-mpt", "A100 80GB, longer", "tokens_per_s_per_gpu", 36, 0.329602, 0.346082},
    {"mosaic-mpt", "A100 40GB, to 2K", "tokens_per_s_per_gpu", 53, 0.093854, 0.098547},
    {"mosaic-mpt", "A100 40GB, longer", "tokens_per_s_per_gpu", 25, 0.275871, 0.289664},
    {"nemo-long-sequence", "B200", "flop_per_s_per_gpu", 8, 0.031094, 0.032648},
    {"nemo-long-sequence", "H100", "flop_per_s_per_gpu", 9, 0.075237, 0.078998},
    {"ptdp-sc21", "weak scaling", "flop_per_s_per_gpu", 10, 0.058915, 0.061861},
    {"ptdp-sc21", "ZeRO-3", "flop_per_s_per_gpu", 6, 1.498165, 1.573073},
    {"ptdp-sc21", "PTD-P", "flop_per_s_per_gpu", 6, 0.074673, 0.078407},
    {"pytorch-cp-ranks-h200", "kernels", "kernels_forward_s", 25, 0.071743, 0.075330},
    {"pytorch-cp-ranks-h200", "kernels", "kernels_forward_backward_s", 25, 0.046036, 0.048338},
    {"pytorch-cp-ranks-h200", "alltoall", "attention_forward_s", 20, 0.125364, 0.131632},
    {"pytorch-cp-ranks-h200", "alltoall", "attention_forward_backward_s", 20, 0.065269, 0.068532},
    {"pytorch-cp-ranks-h200", "alltoall", "merges_forward_s", 15, 0.218316, 0.229232},
    {"pytorch-cp-ranks-h200", "alltoall", "merges_forward_backward_s", 12, 0.353214, 0.370875},
    {"pytorch-cp-ranks-h200", "alltoall", "attention_buffer_bytes", 10, 0.000147, 0.000347},
    {"pytorch-cp-ranks-h200", "allgather", "attention_forward_s", 20, 0.080244, 0.084256},
    {"pytorch-cp-ranks-h200", "allgather", "attention_forward_backward_s", 20, 0.043386, 0.045555},
    {"pytorch-cp-ranks-h200", "allgather", "merges_forward_s", 20, 0.253629, 0.266310},
    {"pytorch-cp-ranks-h200", "allgather", "merges_forward_backward_s", 17, 0.392083, 0.411687},
    {"pytorch-cp-ranks-h200", "allgather", "attention_buffer_bytes", 10, 0.000137, 0.000337},
    {"pytorch-rank-memory-h200", "all", "peak_allocated_bytes", 5, 0.000017, 0.000217},
    {"pytorch-rank-memory-h200", "all", "peak_reserved_bytes", 5, 0.103761, 0.108949},
    {"pytorch-steps-2-h200", "one GPU", "step_time_s", 3, 0.020812, 0.021853},
    {"pytorch-steps-2-h200", "one GPU", "peak_allocated_bytes", 3, 0.000019, 0.000219},
    {"pytorch-steps-2-h200", "one GPU", "peak_reserved_bytes", 3, 0.104446, 0.109668},
    {"pytorch-steps-2-h200", "profiled", "step_time_s", 9, 0.016511, 0.017337},
    {"pytorch-steps-2-h200", "profiled", "peak_allocated_bytes", 9, 0.000106, 0.000306},
    {"pytorch-steps-2-h200", "profiled", "peak_reserved_bytes", 9, 0.081706, 0.085791},
    {"pytorch-steps-2-h200", "ulysses", "step_time_s", 4, 0.030189, 0.031698},
    {"pytorch-steps-2-h200", "ulysses", "peak_allocated_bytes", 4, 0.000106, 0.000306},
    {"pytorch-steps-2-h200", "ulysses", "peak_reserved_bytes", 4, 0.107113, 0.112469},
    {"pytorch-steps-2-h200", "zigzag", "step_time_s", 4, 0.024040, 0.025242},
    {"pytorch-steps-2-h200", "zigzag", "peak_allocated_bytes", 4, 0.000337, 0.000537},
    {"pytorch-steps-2-h200", "zigzag", "peak_reserved_bytes", 4, 0.113226, 0.118887},
    {"pytorch-steps-2-h200", "allgather", "step_time_s", 4, 0.020684, 0.021719},
    {"pytorch-steps-2-h200", "allgather", "peak_allocated_bytes", 4, 0.000370, 0.000570},
    {"pytorch-steps-2-h200", "allgather", "peak_reserved_bytes", 4, 0.051493, 0.054068},
    {"pytorch-steps-2-h200", "tp", "step_time_s", 5, 0.006342, 0.006659},
    {"pytorch-steps-2-h200", "tp", "peak_allocated_bytes", 5, 0.000322, 0.000522},
    {"pytorch-steps-2-h200", "tp", "peak_reserved_bytes", 5, 0.032841, 0.034483},
    {"pytorch-steps-3-h200", "ulysses", "step_time_s", 3, 0.010547, 0.011074},
    {"pytorch-steps-3-h200", "ulysses", "peak_allocated_bytes", 3, 0.000039, 0.000239},
    {"pytorch-steps-3-h200", "ulysses", "peak_reserved_bytes", 3, 0.048508, 0.050934},
    {"pytorch-steps-3-h200", "zigzag", "step_time_s", 2, 0.006592, 0.006922},
    {"pytorch-steps-3-h200", "zigzag", "peak_allocated_bytes", 2, 0.000199, 0.000399},
    {"pytorch-steps-3-h200", "zigzag", "peak_reserved_bytes", 2, 0.112444, 0.118067},
    {"pytorch-steps-3-h200", "tp", "step_time_s", 3, 0.004459, 0.004682},
    {"pytorch-steps-3-h200", "tp", "peak_allocated_bytes", 3, 0.000134, 0.000334},
    {"pytorch-steps-3-h200", "tp", "peak_reserved_bytes", 3, 0.091711, 0.096297},
    {"pytorch-steps-3-h200", "allgather", "step_time_s", 2, 0.009952, 0.010450},
    {"pytorch-steps-3-h200", "allgather", "peak_allocated_bytes", 2, 0.000104, 0.000304},
    {"pytorch-steps-3-h200", "allgather", "peak_reserved_bytes", 2, 0.043810, 0.046001},
    {"pytorch-steps-3-h200", "one GPU", "step_time_s", 4, 0.014665, 0.015398},
    {"pytorch-steps-3-h200", "one GPU", "peak_allocated_bytes", 4, 0.000100, 0.000300},
    {"pytorch-steps-3-h200", "one GPU", "peak_reserved_bytes", 4, 0.054249, 0.056962},
    {"pytorch-steps-h200", "ulysses", "step_time_s", 3, 0.014947, 0.015695},
    {"pytorch-steps-h200", "ulysses", "peak_allocated_bytes", 3, 0.000067, 0.000267},
    {"pytorch-steps-h200", "ulysses", "peak_reserved_bytes", 3, 0.057811, 0.060702},
    {"pytorch-steps-h200", "zigzag", "step_time_s", 3, 0.021166, 0.022224},
    {"pytorch-steps-h200", "zigzag", "peak_allocated_bytes", 3, 0.000318, 0.000518},
    {"pytorch-steps-h200", "zigzag", "peak_reserved_bytes", 3, 0.083597, 0.087777},
    {"pytorch-steps-h200", "allgather", "step_time_s", 2, 0.016798, 0.017638},
    {"pytorch-steps-h200", "allgather", "peak_allocated_bytes", 2, 0.008540, 0.008967},
    {"pytorch-steps-h200", "allgather", "peak_reserved_bytes", 2, 0.026433, 0.027754},
    {"pytorch-steps-h200", "tp", "step_time_s", 3, 0.021565, 0.022643},
    {"pytorch-steps-h200", "tp", "peak_allocated_bytes", 3, 0.000229, 0.000429},
    {"pytorch-steps-h200", "tp", "peak_reserved_bytes", 3, 0.142606, 0.149736},
    {"pytorch-steps-h200", "one GPU", "step_time_s", 1, 0.009431, 0.009903},
    {"pytorch-steps-h200", "one GPU", "peak_allocated_bytes", 1, 0.000010, 0.000210},
    {"pytorch-steps-h200", "one GPU", "peak_reserved_bytes", 1, 0.021095, 0.022150},
    {"pytorch-steps-h200", "profiled", "step_time_s", 4, 0.014662, 0.015395},
    {"pytorch-steps-h200", "profiled", "peak_allocated_bytes", 4, 0.000031, 0.000231},
    {"ring-flash-attention", "one GPU", "attention_forward_per_s", 2, 0.005822, 0.006113},
    {"ring-flash-attention", "one GPU", "attention_forward_backward_per_s", 2, 0.006265, 0.006578},
    {"ring-flash-attention", "ring", "attention_forward_per_s", 2, 0.004096, 0.004301},
    {"ring-flash-attention", "ring", "attention_forward_backward_per_s", 2, 0.033121, 0.034777},
    {"ring-flash-attention", "zigzag", "attention_forward_per_s", 2, 0.035988, 0.037788},
    {"ring-flash-attention", "zigzag", "attention_forward_backward_per_s", 2, 0.012271, 0.012884},
    {"ring-flash-attention", "striped", "attention_forward_per_s", 2, 0.035254, 0.037017},
    {"ring-flash-attention", "striped", "attention_forward_backward_per_s", 2, 0.015266, 0.016029},
    {"torchtitan", "FSDP", "tokens_per_s_per_gpu", 9, 0.039824, 0.041815},
    {"torchtitan", "FSDP", "peak_reserved_bytes", 9, 0.069388, 0.072857},
    {"torchtitan", "CP", "tokens_per_s_per_gpu", 3, 0.190441, 0.199963},
    {"torchtitan", "CP", "peak_reserved_bytes", 3, 0.015021, 0.015772},
    {"torchtitan", "TP", "tokens_per_s_per_gpu", 5, 0.100221, 0.105232},
    {"torchtitan", "TP", "peak_reserved_bytes", 1, 0.168581, 0.177010},
    {"torchtitan", "async TP", "tokens_per_s_per_gpu", 7, 0.125111, 0.131367},
    {"torchtitan", "async TP", "peak_reserved_bytes", 1, 0.115695, 0.121479},
    {"torchtitan", "PP", "tokens_per_s_per_gpu", 3, 0.036172, 0.037981},
    {"torchtitan", "PP", "peak_reserved_bytes", 3, 0.076289, 0.080104},
    {"torchtitan", "PP, CP", "tokens_per_s_per_gpu", 3, 0.010413, 0.010934},
    {"torchtitan", "PP, CP", "peak_reserved_bytes", 3, 0.056557, 0.059385},
    {"torchtitan", "row-wise fp8", "tokens_per_s_per_gpu", 2, 0.196493, 0.206317},
    {"trl-million-token", "dense", "step_time_s", 12, 0.048453, 0.050875},
    {"trl-million-token", "dense", "peak_allocated_bytes", 7, 0.037953, 0.039851},
    {"trl-million-token", "dense", "mfu_frac", 2, 0.060360, 0.063378},
    {"trl-million-token", "dense", "fits", 1, 0.000000, 0.000200},
    {"trl-million-token", "MoE", "step_time_s", 1, 0.068556, 0.071984},
    {"trl-million-token", "MoE", "peak_allocated_bytes", 1, 0.195625, 0.205406},
};

static const struct validation_summary *find(const struct validation_summary *summaries, int n,
                                             const struct bound *bound)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(summaries[i].key, bound->group) == 0 && strcmp(summaries[i].quantity->name, bound->quantity) == 0) {
            return &summaries[i];
        }
    }
    return NULL;
}

static bool has_bound(const char *source, const struct validation_summary *summary)
{
    for (size_t i = 0; i < SP_COUNT_OF(bounds); i++) {
        if (strcmp(bounds[i].source, source) == 0 && find(summary, 1, &bounds[i]) != NULL) {
            return true;
        }
    }
    return false;
}

/* What the bounds do not cover: rows that are not priced yet, and figures without a bound. */
static void print_uncovered(const char *source, const struct validation_summary *summary)
{
    int left_out = summary->n_not_built + summary->n_refused;
    if (left_out > 0) {
        print_message("# %s, %s, %s: %d rows compared, %d not priced yet\n", source, summary->key,
                      summary->quantity->name, summary->n_compared, left_out);
    }
    if (summary->n_compared > 0 && !has_bound(source, summary)) {
        print_message("# %s, %s, %s: median %.3f %% of %d rows, no bound yet\n", source, summary->key,
                      summary->quantity->name, PERCENT * summary->median_frac, summary->n_compared);
    }
}

static int check_bounds(const char *name, const struct validation_summary *summaries, int n)
{
    int n_worse = 0;
    for (size_t i = 0; i < SP_COUNT_OF(bounds); i++) {
        const struct bound *bound = &bounds[i];
        if (strcmp(bound->source, name) != 0) {
            continue;
        }
        const struct validation_summary *now = find(summaries, n, bound);
        if (now == NULL || now->n_compared < bound->n || now->median_frac > bound->bound_frac) {
            print_error("%s, %s, %s: median %.3f %% of %d rows; bound %.3f %%, set at %.3f %% of %d rows\n", name,
                        bound->group, bound->quantity, now == NULL ? 0 : PERCENT * now->median_frac,
                        now == NULL ? 0 : now->n_compared, PERCENT * bound->bound_frac, PERCENT * bound->median_frac,
                        bound->n);
            n_worse++;
        }
    }
    return n_worse;
}

/* What is far off has an explanation, and what is not has none any more. */
static int check_miss(const char *name, const struct validation_summary *summary)
{
    bool is_missed = summary->target_frac > 0 && summary->median_frac > summary->target_frac;
    bool is_far = summary->n_compared > 0 && (is_missed || summary->median_frac > FAR_FRAC);
    bool is_near = !is_missed && summary->max_frac <= FAR_FRAC;
    if (is_far && summary->miss == NULL) {
        print_error("%s, %s, %s: median %.1f %%: say in \"misses\" which mechanism is missing\n", name, summary->key,
                    summary->quantity->name, PERCENT * summary->median_frac);
    }
    if (is_near && summary->miss != NULL) {
        print_error("%s, %s, %s: no miss any more, yet \"misses\" has it\n", name, summary->key,
                    summary->quantity->name);
    }
    return (is_far && summary->miss == NULL) || (is_near && summary->miss != NULL) ? 1 : 0;
}

/* The same, of sources that lean one way: rows that judge. */
static int check_bias(struct sp_arena *arena, const struct validation_source *source)
{
    static const double most_frac = 0.05;
    struct validation_source own = *source;
    const struct validation_set set = {.sources = &own, .n_sources = 1};
    struct validation_summary *summaries = NULL;
    int n = validation_summarise(arena, &set, VALIDATION_BY_QUANTITY, VALIDATION_JUDGED, &summaries);
    int n_unexplained = 0;
    for (int i = 0; i < n; i++) {
        if (fabs(summaries[i].bias_frac) > most_frac && summaries[i].quantity->unit != VALIDATION_YES_NO &&
            validation_bias_reason(arena, source, summaries[i].quantity->name) == NULL) {
            print_error("%s, %s: bias %.1f %%: say in \"biases\" why\n", source->name, summaries[i].key,
                        PERCENT * summaries[i].bias_frac);
            n_unexplained++;
        }
    }
    return n_unexplained;
}

static int summarise(struct sp_arena *arena, const char *path, struct validation_source *source,
                     struct validation_summary **summaries)
{
    struct sp_error err = {0};
    struct sp_arena *scratch = sp_arena_open();
    struct validate_pricing pricing = {.scratch = scratch};
    const struct validation_pricer pricer = validate_pricer(arena, &pricing);
    if (!validation_read(&pricer, path, source, &err)) {
        fail_msg("%s", err.text);
    }
    sp_arena_close(scratch);
    const struct validation_set set = {.sources = source, .n_sources = 1};
    return validation_summarise(arena, &set, VALIDATION_BY_GROUP, VALIDATION_ALL, summaries);
}

static int check_source(struct sp_arena *arena, const char *path)
{
    struct validation_source source;
    struct validation_summary *summaries = NULL;
    int n = summarise(arena, path, &source, &summaries);
    int n_worse = check_bounds(source.name, summaries, n) + check_bias(arena, &source);
    for (int i = 0; i < n; i++) {
        n_worse += check_miss(source.name, &summaries[i]);
        print_uncovered(source.name, &summaries[i]);
    }
    if (!source.is_own && source.grade == NULL) {
        print_error("%s: a published source has a grade\n", source.name);
        n_worse++;
    }
    return n_worse;
}

static void medians_stay_within_their_bounds(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    struct sp_error err = {0};
    struct sp_texts paths;
    int n_worse = 0;
    assert_true(validation_shipped(arena, &paths, &err));
    assert_true(paths.count > 0);
    for (size_t i = 0; i < paths.count; i++) {
        n_worse += check_source(arena, paths.items[i]);
    }
    assert_int_equal(n_worse, 0);
    sp_arena_close(arena);
}

/* Rows of the table above: what holds now, and a bound just above. */
static void print_bounds(void)
{
    static const double scale = 1.05;
    static const double slack = 0.0002;
    struct sp_arena *arena = sp_arena_open();
    struct sp_error err = {0};
    struct sp_texts paths = {.arena = arena};
    if (!validation_shipped(arena, &paths, &err)) {
        fprintf(stderr, "%s\n", err.text);
    }
    for (size_t i = 0; i < paths.count; i++) {
        struct validation_source source;
        struct validation_summary *summaries = NULL;
        int n = summarise(arena, paths.items[i], &source, &summaries);
        for (int j = 0; j < n; j++) {
            if (summaries[j].n_compared > 0) {
                printf("    {\"%s\", \"%s\", \"%s\", %d, %.6f, %.6f},\n", source.name, summaries[j].key,
                       summaries[j].quantity->name, summaries[j].n_compared, summaries[j].median_frac,
                       fmax(summaries[j].median_frac * scale, summaries[j].median_frac + slack));
            }
        }
    }
    sp_arena_close(arena);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(medians_stay_within_their_bounds),
    };
    if (argc > 1 && strcmp(argv[1], "bounds") == 0) {
        print_bounds();
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
