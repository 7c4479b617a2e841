/* The options that make up a question: parsing, help and --vary all read these rows. */
#include "cmd/command.h"

#include <math.h>
#include <string.h>

static const char *const zero_names[] = {"0", "1", "2", "3", NULL};
static const char *const switch_names[] = {"off", "on", NULL};
static const char *const mode_names[] = {"train", "prefill", NULL};

static const char the_question[] = "The question";
static const char the_layout[] = "Layout";
static const char the_software[] = "Software and memory";
static const char the_run[] = "The run";

/* Where a member of the request lies in struct command_options. */
#define AT(member) .offset = offsetof(struct command_options, request.member)

const struct sp_option question_options[] = {
    {.name = "model",
     .type = SP_OPTION_TEXT,
     AT(model),
     .argument = "NAME|PATH",
     .group = the_question,
     .help = "a name in models/, or any Hugging Face config.json as it stands; required"},
    {.name = "hardware",
     .type = SP_OPTION_TEXT,
     AT(hardware),
     .argument = "NAME|PATH",
     .group = the_question,
     .help = "a name in hardware/, or a file of that schema; required"},
    {.name = "network",
     .type = SP_OPTION_TEXT,
     AT(network),
     .argument = "NAME",
     .group = the_question,
     .help = "another network between the nodes, or \"ideal\"; default: the node's own"},
    {.name = "gpus",
     .type = SP_OPTION_COUNT,
     AT(gpus),
     .argument = "N",
     .group = the_question,
     .help = "cluster size: up to a node's GPUs, or a multiple of them; this or --nodes is required"},
    {.name = "nodes",
     .type = SP_OPTION_COUNT,
     AT(nodes),
     .argument = "N",
     .group = the_question,
     .help = "cluster size in whole nodes"},
    {.name = "seq",
     .type = SP_OPTION_TOKENS,
     AT(seq),
     .argument = "LEN",
     .group = the_question,
     .help = "tokens in one sequence: 128K = 131072, 1M = 1048576, plain integers exact; required"},
    {.name = "global-batch",
     .type = SP_OPTION_TEXT,
     AT(global_batch),
     .argument = "N|Ntok",
     .group = the_question,
     .help = "sequences per optimizer step over the cluster, or tokens as in 16Mtok; default: 16 Mi tokens' worth, "
             "raised to a multiple of dp x micro-batch with at least pp micro-batches"},
    {.name = "micro-batch",
     .type = SP_OPTION_COUNT,
     AT(micro_batch),
     .argument = "N",
     .group = the_question,
     .help = "sequences per micro-batch and data-parallel rank; default 1"},

    {.name = "tp",
     .type = SP_OPTION_COUNT,
     AT(tp),
     .argument = "N",
     .group = the_layout,
     .help = "tensor-parallel degree; default 1"},
    {.name = "sp",
     .alias = "cp",
     .type = SP_OPTION_COUNT,
     AT(sp),
     .argument = "N",
     .group = the_layout,
     .help = "sequence-parallel (context-parallel) degree; default 1"},
    {.name = "pp",
     .type = SP_OPTION_COUNT,
     AT(pp),
     .argument = "N",
     .group = the_layout,
     .help = "pipeline stages; default 1"},
    {.name = "vpp",
     .type = SP_OPTION_COUNT,
     AT(vpp),
     .argument = "N",
     .group = the_layout,
     .help = "virtual stages per rank; default 1"},
    {.name = "dp",
     .type = SP_OPTION_COUNT,
     AT(dp),
     .argument = "N",
     .group = the_layout,
     .help = "data-parallel degree; default: what tp, sp and pp leave"},
    {.name = "ep",
     .type = SP_OPTION_COUNT,
     AT(ep),
     .argument = "N",
     .group = the_layout,
     .help = "expert-parallel degree; default 1"},
    {.name = "etp",
     .type = SP_OPTION_COUNT,
     AT(etp),
     .argument = "N",
     .group = the_layout,
     .help = "tensor-parallel degree of the experts; default 1"},
    {.name = "sp-method",
     .type = SP_OPTION_CHOICE,
     AT(method),
     .names = method_names,
     .argument = "M",
     .group = the_layout,
     .help = "how attention is spread over sp; default: none when sp is 1, else zigzag"},
    {.name = "sp-ulysses",
     .type = SP_OPTION_COUNT,
     AT(sp_ulysses),
     .argument = "N",
     .group = the_layout,
     .help = "Ulysses degree inside usp; default: the largest legal one within a node"},
    {.name = "sp-inner",
     .type = SP_OPTION_COUNT,
     AT(sp_inner),
     .argument = "N",
     .group = the_layout,
     .help = "inner ring of double-ring; default: the largest legal one within a node"},
    {.name = "tp-sp",
     .type = SP_OPTION_CHOICE,
     AT(tp_sp),
     .names = switch_names,
     .argument = "on|off",
     .group = the_layout,
     .help = "Megatron's sequence parallelism inside the tp group; default: on when tp > 1"},
    {.name = "pp-layers",
     .type = SP_OPTION_TEXT,
     AT(pp_layers),
     .argument = "auto|padded|A,B,...",
     .group = the_layout,
     .help = "layers per stage when they do not divide: spread, embedding and loss counted as layers, or explicit; "
             "default: a remainder is an error (torch: auto)"},
    {.name = "schedule",
     .type = SP_OPTION_CHOICE,
     AT(schedule),
     .names = schedule_names,
     .argument = "S",
     .group = the_layout,
     .help = "pipeline schedule; default: 1f1b, interleaved when vpp > 1"},
    {.name = "layout",
     .type = SP_OPTION_TEXT,
     AT(layout_file),
     .argument = "FILE|-",
     .group = the_layout,
     .help = "a layout, or a whole answer with its question, printed by seqplan as JSON; options beside it win"},

    {.name = "framework",
     .type = SP_OPTION_CHOICE,
     AT(framework),
     .names = framework_names,
     .argument = "F",
     .group = the_software,
     .help = "whose implementation: buffers, dtypes, hops, overlaps; default: the method's home"},
    {.name = "recompute",
     .type = SP_OPTION_TEXT,
     AT(recompute),
     .argument = "R",
     .group = the_software,
     .help = "none, selective, full or block:N (N layers per stage); default full"},
    {.name = "zero",
     .type = SP_OPTION_CHOICE,
     AT(zero),
     .names = zero_names,
     .argument = "Z",
     .group = the_software,
     .help = "sharding over dp x sp: 1 is Megatron's distributed optimizer, 3 is FSDP; default 1"},
    {.name = "offload",
     .type = SP_OPTION_TEXT,
     AT(offload),
     .argument = "W",
     .group = the_software,
     .help = "comma list of activations, optimizer, parameters, or none; default none"},
    {.name = "precision",
     .type = SP_OPTION_CHOICE,
     AT(precision),
     .names = dtype_names,
     .argument = "P",
     .group = the_software,
     .help = "of the matrix products; default bf16"},
    {.name = "attention",
     .type = SP_OPTION_TEXT,
     AT(attention),
     .argument = "K",
     .group = the_software,
     .help = "kernel whose measured curve counts: fa2, fa3, fa4, cudnn, seqplan; default: cudnn on Hopper and "
             "Blackwell, else fa2"},
    {.name = "kernels",
     .type = SP_OPTION_CHOICE,
     AT(kernels),
     .names = kernels_names,
     .argument = "K",
     .group = the_software,
     .help = "element-wise kernels and loss; default: the framework's"},

    {.name = "mask",
     .type = SP_OPTION_TEXT,
     AT(mask),
     .argument = "M",
     .group = the_run,
     .help = "causal, full or window:N; default: model, causal with the model's own windows"},
    {.name = "documents",
     .type = SP_OPTION_TOKENS,
     AT(documents),
     .argument = "LEN",
     .group = the_run,
     .help = "packed documents of this mean length; default: one document"},
    {.name = "mode",
     .type = SP_OPTION_CHOICE,
     AT(mode),
     .names = mode_names,
     .argument = "M",
     .group = the_run,
     .help = "default train; prefill is not built yet"},
    {.name = "train",
     .type = SP_OPTION_TEXT,
     AT(train),
     .argument = "full|lora:R",
     .group = the_run,
     .help = "what has gradients and optimizer state; default full"},
    {.name = "tokens",
     .type = SP_OPTION_TEXT,
     .offset = offsetof(struct command_options, tokens),
     .argument = "N",
     .group = the_run,
     .help = "a whole run of this many tokens, as in 15T (decimal): days, GPU-hours, cost, energy; default: none"},
    {.name = "flops",
     .type = SP_OPTION_CHOICE,
     AT(flops),
     .names = flops_names,
     .argument = "C",
     .group = the_run,
     .help = "FLOP convention of MFU; default causal"},
    {.name = "set",
     .type = SP_OPTION_LIST,
     AT(set),
     .argument = "PATH=VALUE",
     .group = the_run,
     .help = "overrides a field of any input, as gpu.hbm_bandwidth=8TB/s (seqplan show fields lists them); may be "
             "repeated"},
    {.name = "only",
     .type = SP_OPTION_TEXT,
     AT(only),
     .argument = "attention",
     .group = "The answer",
     .help = "prices the attention of one layer, forward and backward, with its communication"},
    {.name = NULL},
};

bool question_options_finish(struct command_options *options, struct sp_error *err)
{
    static const double most = 0x1p53;
    if (options->tokens == NULL) {
        return true;
    }
    /* Decimal, unlike the lengths of sequences: a run of 15T tokens is 15e12. */
    struct sp_error ignored = {.kind = SP_ERROR_NONE};
    double value = 0.0;
    size_t length = strlen(options->tokens);
    bool has_unit = length > 0 && strchr("bB", options->tokens[length - 1]) != NULL;
    const char *size = sp_format(options->vary.arena, "%sB", options->tokens);
    bool is_count = !has_unit && sp_quantity_parse(size, SP_BYTES, &value, &ignored) && value >= 1.0 && value <= most &&
                    !(floor(value) < value);
    if (!is_count) {
        return sp_fail(err, SP_ERROR_USAGE,
                       "--tokens: expected a number of tokens such as \"15T\" (K, M, G, T, decimal), found \"%.40s\"",
                       options->tokens);
    }
    options->request.tokens = (struct sp_option_count){.is_given = true, .value = (int64_t)value};
    return true;
}

/* "--model, --hardware and --seq": what is missing, joined as one says it. */
static const char *missing_text(struct sp_arena *arena, const struct request *request, size_t *n_missing)
{
    const struct {
        const char *name;
        bool is_given;
    } needs[] = {
        {"--model", request->model != NULL},
        {"--hardware", request->hardware != NULL},
        {"--gpus (or --nodes)", request->gpus.is_given || request->nodes.is_given},
        {"--seq", request->seq.is_given},
    };
    const char *missing[SP_COUNT_OF(needs)];
    size_t n = 0;
    for (size_t i = 0; i < SP_COUNT_OF(needs); i++) {
        if (!needs[i].is_given) {
            missing[n++] = needs[i].name;
        }
    }
    *n_missing = n;
    if (n < 2) {
        return n == 0 ? "" : missing[0];
    }
    return sp_format(arena, "%s and %s", sp_join(arena, missing, n - 1, ", "), missing[n - 1]);
}

const char question_example[] = "seqplan estimate --model llama-3.1-8b --hardware dgx-h100 --gpus 8 --sp 8 --seq 128K";

bool request_is_complete(struct sp_arena *arena, const struct request *request, const char *example,
                         struct sp_error *err)
{
    size_t n_missing = 0;
    const char *missing = missing_text(arena, request, &n_missing);
    if (n_missing == 0 || request->layout_file != NULL) { /* an answer may say the rest */
        return true;
    }
    return sp_fail(err, SP_ERROR_USAGE, "%s %s missing; for example: %s", missing, n_missing == 1 ? "is" : "are",
                   example);
}
