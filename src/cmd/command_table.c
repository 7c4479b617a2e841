#include "cmd/command.h"

#include <assert.h>
#include <string.h>

static const char *const estimate_examples[] = {
    "seqplan estimate --model llama-3.1-8b --hardware dgx-h100 --gpus 8 --sp 8 --seq 512K --zero 3",
    "seqplan estimate --model llama-3.1-8b --hardware dgx-h100 --gpus 64 --seq 1M --tp 4 --sp 8 --pp 2",
    "seqplan estimate ... --vary seq=128K,256K,512K,1M --vary sp-method=zigzag,ulysses",
    "mpirun -n 9 seqplan estimate ... --vary seq=... --vary sp=... --db sweep.db",
    "seqplan estimate ... --set network.bandwidth=200Gb/s --explain",
    "seqplan estimate ... --format json >answer.json; seqplan estimate ... --layout answer.json",
    NULL,
};

static const char *const compare_examples[] = {
    "seqplan compare --model llama-2-7b --hardware dgx-h100 --gpus 8 --sp 8 --seq 128K --zero 3",
    "seqplan compare ... --sp-method ulysses,zigzag,usp --framework megatron",
    "seqplan compare ... --network eth-100g --format markdown",
    NULL,
};

static const char *const diff_examples[] = {
    "seqplan diff \"--tp 8 --sp 8\" \"--tp 4 --sp 16\" --model llama-3.1-70b --hardware dgx-h100 ...",
    "seqplan diff mine.json theirs.json",
    "seqplan diff \"--network ib-ndr\" \"--network eth-100g\" --layout answer.json",
    NULL,
};

static const char *const plan_examples[] = {
    "seqplan plan --model llama-3.1-70b --hardware dgx-h100 --gpus 512 --seq 1M",
    "seqplan plan ... --framework megatron --tp 1,2,4,8 --sp-method zigzag,ulysses --zero 1",
    "seqplan plan ... --headroom 10% --min-mfu 35% --tokens 1T --deadline 30d",
    "seqplan plan ... --objective gpus --offload none,activations+optimizer --format json",
    "seqplan plan ... --vary seq=128K,256K,1M --vary network=ib-ndr,eth-100g --db plans.db",
    NULL,
};

static const struct sp_option estimate_extras[] = {
    {.name = "sensitivity",
     .type = SP_OPTION_FLAG,
     .offset = offsetof(struct command_options, wants_sensitivity),
     .group = "The answer",
     .help = "change of the step time with 10 % more and less bandwidth, FLOP rate, latency and capacity"},
    {.name = NULL},
};

static const struct sp_option compare_extras[] = {
    {.name = "sp-method",
     .type = SP_OPTION_TEXT,
     .offset = offsetof(struct command_options, methods),
     .argument = "A,B,...",
     .group = "Layout",
     .help = "the methods to compare, in this order; default: all, of their home frameworks or of --framework"},
    {.name = NULL},
};

static const char *const limits_examples[] = {
    "seqplan limits --model llama-2-7b --hardware dgx-h100 --gpus 8 --sp 8 --zero 3",
    "seqplan limits ... --sp-method naive,allgather,ring,zigzag",
    "seqplan limits --model llama-3.1-70b --hardware dgx-h100 --seq 1M --tp 8 --sp 8",
    "seqplan limits --model llama-3.1-8b --hardware dgx-h100 --gpus 16 --seq 128K --recompute full",
    NULL,
};

static const char *const check_examples[] = {
    "seqplan check --model llama-2-7b --hardware dgx-h100 --gpus 8 --seq 32K --claim mfu_frac=52%",
    "seqplan check ... --claim tokens_per_s_per_gpu=48000 --claim peak_bytes=42GB",
    "seqplan check ... --flops full --claim mfu_frac=0.61",
    "seqplan check claims.json --format csv",
    NULL,
};

static const struct sp_option limits_extras[] = {
    {.name = "sp-method",
     .type = SP_OPTION_TEXT,
     .offset = offsetof(struct command_options, methods),
     .argument = "A,B,...",
     .group = "Layout",
     .help = "one row for each of these methods; default: zigzag when sp is above 1, else none"},
    {.name = "gpus",
     .type = SP_OPTION_COUNT,
     .offset = offsetof(struct command_options, request.gpus),
     .argument = "N",
     .group = "The question",
     .help = "cluster size, for the longest sequence and the largest micro-batch; or --nodes"},
    {.name = "seq",
     .type = SP_OPTION_TOKENS,
     .offset = offsetof(struct command_options, request.seq),
     .argument = "LEN",
     .group = "The question",
     .help = "tokens in one sequence, for the largest micro-batch and the fewest GPUs"},
    {.name = "global-batch",
     .type = SP_OPTION_TEXT,
     .offset = offsetof(struct command_options, request.global_batch),
     .argument = "N",
     .group = "The question",
     .help = "sequences per optimizer step; default: two for every GPU and sequence of a micro-batch"},
    {.name = "tokens",
     .type = SP_OPTION_TEXT,
     .offset = offsetof(struct command_options, tokens),
     .argument = "N",
     .group = "The run",
     .is_hidden = true},
    {.name = "only",
     .type = SP_OPTION_TEXT,
     .offset = offsetof(struct command_options, request.only),
     .argument = "attention",
     .group = "The answer",
     .is_hidden = true},
    {.name = NULL},
};

static const char *const simulate_examples[] = {
    "seqplan simulate --model llama-3.1-8b --hardware dgx-h100 --gpus 16 --seq 256K --tp 2 --sp 8",
    "seqplan simulate ... --slow-link nic:1.5=0.5",
    "seqplan simulate ... --slow-gpu 3=0.8 --jitter 2% --seed 7 --format json",
    "seqplan simulate ... --trace step.json.gz --gantt step.svg",
    "seqplan simulate ... --exact --gantt ring.png --gantt-of layer",
    "seqplan simulate ... --vary background=0,0.1,0.3 --vary network=ib-ndr,eth-100g",
    NULL,
};

static const char *const calibrate_examples[] = {
    "seqplan calibrate --hardware dgx-h200 --run 3 -o my-h200.json",
    "seqplan calibrate --hardware dgx-h200 h200.jsonl h200-x2.jsonl -o my-h200.json",
    "seqplan calibrate --hardware dgx-h200 --run 3 --only gemm,attention",
    NULL,
};
static const char *const measure_examples[] = {
    "seqplan measure",
    "seqplan measure --full --model llama-3.1-8b",
    "seqplan measure --only gemm,attention --format json",
    "seqplan measure --from h200.jsonl",
    "seqplan measure --run 3 -o h200.jsonl",
    NULL,
};

static const char *const import_examples[] = {
    "seqplan import all_reduce.txt all_gather.txt",
    "seqplan import old.txt --ranks 16 --nodes 2 --gpu h100-sxm --verbose",
    "nvidia-smi topo -m | seqplan import - --gpu h100-sxm -o my-node.json",
    "seqplan import megatron.log --warmup 5 --format json",
    NULL,
};

static const char *const validate_examples[] = {
    "seqplan validate",
    "seqplan validate --by method --only judge --plot errors.svg --residuals lengths.svg",
    "seqplan validate my-runs.csv",
    "seqplan validate --run 3 --hardware dgx-h200",
    "seqplan validate --run 4 --settings \"--model llama-3.1-8b --recompute none\"",
    "seqplan validate --device",
    NULL,
};

static const char *const launch_examples[] = {
    "seqplan launch --model llama-3.1-70b --hardware dgx-h100 --gpus 512 --seq 1M --tp 8 --sp 8 --pp 8",
    "seqplan launch ... --for torchtitan --zero 3",
    "seqplan plan ... --format json | jq '.plans[0]' | seqplan launch --layout - --for megatron-bridge",
    "seqplan launch --layout answer.json --for deepspeed --format json",
    NULL,
};

static const char *const show_examples[] = {
    "seqplan show models",
    "seqplan show model llama-3.1-70b",
    "seqplan show hardware dgx-h100 --source",
    "seqplan show methods",
    "seqplan show fields hardware",
    "seqplan show run 3 --format json",
    NULL,
};

static const char *const help_examples[] = {"seqplan help estimate", NULL};

static const struct sp_option show_extras[] = {
    {.name = "source",
     .type = SP_OPTION_FLAG,
     .offset = offsetof(struct command_options, wants_source),
     .help = "where each figure comes from: kind, interval, source and note",
     .group = "The answer"},
    {.name = NULL},
};

#define NOT_BUILT(command_name, text)                                                                                  \
    {                                                                                                                  \
        .name = (command_name), .summary = (text)                                                                      \
    }

const struct command commands[] = {
    {.name = "estimate",
     .summary = "one layout: memory, communication, step time, tokens/s, what bounds it",
     .run = cmd_estimate,
     .extras = estimate_extras,
     .groups = OPTIONS_QUESTION | OPTIONS_EXPLAIN | OPTIONS_VARY | OPTIONS_OUTPUT,
     .synopsis = "--model NAME --hardware NAME --gpus N --seq LEN [options]",
     .examples = estimate_examples},
    {.name = "compare",
     .summary = "the sequence-parallel methods side by side on one cluster",
     .run = cmd_compare,
     .extras = compare_extras,
     .groups = OPTIONS_QUESTION | OPTIONS_OUTPUT,
     .synopsis = "--model NAME --hardware NAME --gpus N --seq LEN --sp N [options]",
     .details = "Every method with the same settings; naive and none do not split the sequence: sp 1 and more dp.\n"
                "The best link of a row is the slowest that costs its step at most 5 % against the fastest: the\n"
                "node's own, ib-xdr, eth-100g, and the ideal network as a bound. A cluster of one NVLink domain is\n"
                "priced on a network as if only its tp groups shared a domain.",
     .examples = compare_examples},
    {.name = "plan",
     .summary = "which layout: searches, ranks, shows the Pareto front and why the rest were dropped",
     .run = cmd_plan,
     .extras = plan_options,
     .groups = OPTIONS_QUESTION | OPTIONS_VARY | OPTIONS_OUTPUT,
     .synopsis = "--model NAME --hardware NAME --gpus N --seq LEN [options]",
     .details = "Every legal layout of the cluster is considered; an axis takes a comma list to be restricted. The\n"
                "best of each family (framework, method and degrees) is ranked, and the Pareto front of step time\n"
                "against peak memory stands beside. When nothing fits: the layout that lacks least, and what would\n"
                "fit; exit 1. With --vary each row is the best layout of its question.",
     .examples = plan_examples},
    {.name = "limits",
     .summary = "longest sequence, largest micro-batch, fewest GPUs that fit",
     .run = cmd_limits,
     .extras = limits_extras,
     .groups = OPTIONS_QUESTION | OPTIONS_OUTPUT,
     .synopsis = "--model NAME --hardware NAME [--gpus N] [--seq LEN] [options]",
     .details = "Of the layout that degrees, --sp-method, --framework or --layout name; without them, of any.\n"
                "The longest sequence needs --gpus, the fewest GPUs --seq, the largest micro-batch both. Lengths\n"
                "are multiples of 2 x sp x tp tokens, of 1024 or more. Without --global-batch the batch is two\n"
                "sequences for every GPU: no larger one takes more memory. Exit code 1: nothing fits.",
     .examples = limits_examples},
    {.name = "simulate",
     .summary = "one layout in discrete events: contention, timeline, where every microsecond went",
     .run = cmd_simulate,
     .extras = simulate_options,
     .groups = OPTIONS_QUESTION | OPTIONS_VARY | OPTIONS_OUTPUT,
     .synopsis = "--model NAME --hardware NAME --gpus N --seq LEN [options]",
     .details = "Runs every kernel, collective and hop of one optimizer step on the GPUs and links of the cluster:\n"
                "ranks wait for each other, transfers share links. The step is set against the one of estimate,\n"
                "and every wait has its cause. A disturbed step is run undisturbed too, and the answer is what\n"
                "the disturbance costs. Exit code 1: the layout does not fit.",
     .examples = simulate_examples},
    {.name = "diff",
     .summary = "why layout A is slower or larger than B, item by item",
     .run = cmd_diff,
     .groups = OPTIONS_QUESTION | OPTIONS_OUTPUT,
     .synopsis = "A B [options]",
     .details = "A and B are files (a layout, or a whole answer, printed by seqplan as JSON; - is standard input),\n"
                "or quoted options such as \"--tp 8 --sp 8\" or \"\"; options beside them hold for both. Time, memory\n"
                "and traffic are listed as A, B and A - B, the largest difference first.",
     .examples = diff_examples},
    {.name = "measure",
     .summary = "runs the CUDA kernels on this machine's GPUs and stores what they did",
     .run = cmd_measure,
     .extras = measure_options,
     .groups = OPTIONS_STORE | OPTIONS_OUTPUT,
     .synopsis = "[options]",
     .details = "Memory copies, matrix products, attention, element-wise kernels, the optimizer, collectives,\n"
                "launch latency, the methods and whole layers, timed by seqplan-device. Each measurement is\n"
                "stored when it is made, with machine, clocks, driver and date: what was killed keeps what it\n"
                "has, and the same command goes on. What could not be measured cleanly has a reason in place of\n"
                "a figure.",
     .examples = measure_examples},
    {.name = "import",
     .summary = "brings in nccl-tests logs, measurement files, training logs",
     .run = cmd_import,
     .extras = import_options,
     .groups = OPTIONS_STORE | OPTIONS_OUTPUT,
     .synopsis = "FILE... [options]",
     .details = "Output of nccl-tests, training logs of Megatron-LM, torchtitan, nanotron and DeepSpeed, and lines of\n"
                "seqplan-device become runs of measurements in the store; nvidia-smi topo -m becomes a hardware file.\n"
                "What a file is, its content tells; - is standard input. A line of no use is skipped with its reason.\n"
                "The same file twice adds nothing. When one of several files is refused, nothing is stored.",
     .examples = import_examples},
    {.name = "calibrate",
     .summary = "fits the hardware's curves to measurements, with error bars",
     .run = cmd_calibrate,
     .extras = calibrate_options,
     .groups = OPTIONS_STORE | OPTIONS_OUTPUT,
     .synopsis = "--hardware NAME [FILE...] [options]",
     .details = "Latency and bandwidth of collectives, matrix products, attention, copies, element-wise kernels and\n"
                "what a transfer takes from a kernel beside it, each fitted to timed lines of a run. What the lines\n"
                "determine gets a value, an interval and a source; the rest stays as it was, with the reason. A\n"
                "richer curve is taken only where it predicts better what a fit did not see. Shows errors before\n"
                "and after, what each curve became, and what to measure next.",
     .examples = calibrate_examples},
    {.name = "check",
     .summary = "is a claimed figure physically possible, and what would it imply",
     .run = cmd_check,
     .extras = check_options_table,
     .groups = OPTIONS_QUESTION | OPTIONS_OUTPUT,
     .synopsis = "[FILE...] | --model NAME --hardware NAME --gpus N --seq LEN --claim WHAT=VALUE",
     .details = "Of tokens_per_s_per_gpu, tokens_per_s, mfu_frac, step_time_s, peak_bytes, hbm_bytes_per_s (of a GPU)\n"
                "and hbm_bytes_per_s_per_node, in SI units or with a unit (42GB, 45%). A claim is impossible beyond\n"
                "what no run can pass (the dense peak, the memory, its bandwidth), optimistic where it is better\n"
                "than the model's range, else plausible. A convention that explains its factor is named: causal\n"
                "attention counted in full, recomputation counted, the sparse peak, a node counted as one GPU, GB\n"
                "and GiB, bits and bytes. A FILE holds claims with their questions (docs/check.md); --format page\n"
                "writes docs/claims.md. Exit code 1: a claim is impossible.",
     .examples = check_examples},
    NOT_BUILT("plot", "the figures people decide by, through gnuplot"),
    NOT_BUILT("report", "one self-contained HTML page of an answer"),
    {.name = "validate",
     .summary = "predicted beside measured: published tables, your own runs, stored runs",
     .run = cmd_validate,
     .extras = validate_options,
     .groups = OPTIONS_STORE | OPTIONS_OUTPUT,
     .synopsis = "[FILE...] [options]",
     .details = "Without a file: the tables that come with the program. A file is a table of that kind, or a sheet\n"
                "that ends in .csv: its first line names columns, which are options of estimate, measured\n"
                "quantities with their unit (step_time_s, tokens_per_s_per_gpu, peak_allocated_gib), name, group,\n"
                "note and role. Rows that something was fitted to (role fit) never count among those that judge.\n"
                "Of a stored run, measurements of single operations and half of the methods, layers and steps\n"
                "are for fits, and the other half judges: the key of a row decides, the same every time.",
     .examples = validate_examples},
    {.name = "launch",
     .summary = "the chosen layout as flags of Megatron-LM, DeepSpeed, torchtitan, ...",
     .run = cmd_launch,
     .extras = launch_options,
     .groups = OPTIONS_QUESTION | OPTIONS_OUTPUT,
     .synopsis = "--model NAME --hardware NAME --gpus N --seq LEN [options]",
     .details = "Takes the options of estimate, or a layout that seqplan printed (--layout). Prints lines to paste: a\n"
                "shell's, or a YAML file, with traps as comments above the lines that they concern. Without\n"
                "--framework the layout is priced as the launcher runs it. What a launcher cannot express is\n"
                "refused with the nearest that it can. Exit code 1: the layout does not fit.",
     .examples = launch_examples},
    {.name = "show",
     .summary = "models, hardware, networks, methods, frameworks, fields of a file, stored runs",
     .run = cmd_show,
     .extras = show_extras,
     .groups = OPTIONS_STORE | OPTIONS_OUTPUT,
     .synopsis = "TOPIC [NAME] [options]",
     .examples = show_examples},
    {.name = "help",
     .summary = "this list, or the help of one command",
     .run = cmd_help,
     .synopsis = "[COMMAND]",
     .examples = help_examples},
    {.name = NULL},
};

const struct command *command_find(const char *name)
{
    for (const struct command *command = commands; command->name != NULL; command++) {
        if (strcmp(command->name, name) == 0) {
            return command;
        }
    }
    return NULL;
}

bool command_unknown(const char *name, struct sp_error *err)
{
    const char *names[SP_COUNT_OF(commands)];
    size_t n_names = 0;
    for (const struct command *command = commands; command->name != NULL; command++) {
        names[n_names++] = command->name;
    }
    const char *nearest = sp_nearest(name, names, n_names);
    if (nearest != NULL) {
        return sp_fail(err, SP_ERROR_USAGE, "unknown command '%s': did you mean '%s'?", name, nearest);
    }
    return sp_fail(err, SP_ERROR_USAGE, "unknown command '%s': 'seqplan help' lists them", name);
}

bool command_not_built(struct sp_arena *arena, const struct command *command, struct sp_error *err)
{
    struct sp_texts built = {.arena = arena};
    for (const struct command *other = commands; other->name != NULL; other++) {
        if (other->run != NULL && other->run != cmd_help) {
            sp_texts_add(&built, "%s", other->name);
        }
    }
    assert(built.count > 1); /* estimate, show, ... */
    return sp_fail(err, SP_ERROR_USAGE, "'%s' is not built yet; %s and %s are", command->name,
                   sp_join(arena, built.items, built.count - 1, ", "), built.items[built.count - 1]);
}
