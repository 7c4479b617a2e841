#include "cmd/command.h"

#include <string.h>

static const char *const estimate_examples[] = {
    "seqplan estimate --model llama-3.1-8b --hardware dgx-h100 --gpus 8 --sp 8 --seq 512K --zero 3",
    "seqplan estimate --model llama-3.1-8b --hardware dgx-h100 --gpus 64 --seq 1M --tp 4 --sp 8 --pp 2",
    "seqplan estimate ... --vary seq=128K,256K,512K,1M --vary sp-method=zigzag,ulysses",
    "seqplan estimate ... --set network.bandwidth=200Gb/s --explain",
    "seqplan estimate ... --format json >answer.json; seqplan estimate ... --layout answer.json",
    NULL,
};

static const char *const show_examples[] = {
    "seqplan show models",  "seqplan show model llama-3.1-70b", "seqplan show hardware dgx-h100 --source",
    "seqplan show methods", "seqplan show fields hardware",     NULL,
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
     .groups = OPTIONS_QUESTION | OPTIONS_VARY | OPTIONS_OUTPUT,
     .synopsis = "--model NAME --hardware NAME --gpus N --seq LEN [options]",
     .examples = estimate_examples},
    NOT_BUILT("compare", "the sequence-parallel methods side by side on one cluster"),
    NOT_BUILT("plan", "which layout: searches, ranks, shows the Pareto front and why the rest were dropped"),
    NOT_BUILT("limits", "longest sequence, largest micro-batch, fewest GPUs that fit"),
    NOT_BUILT("simulate", "one layout in discrete events: contention, timeline, where every microsecond went"),
    NOT_BUILT("diff", "why layout A is slower or larger than B, item by item"),
    NOT_BUILT("check", "is a claimed figure physically possible, and what would it imply"),
    NOT_BUILT("plot", "the figures people decide by, through gnuplot"),
    NOT_BUILT("report", "one self-contained HTML page of an answer"),
    NOT_BUILT("measure", "runs the CUDA kernels on this machine's GPUs and stores what they did"),
    NOT_BUILT("import", "brings in nccl-tests logs, measurement files, training logs"),
    NOT_BUILT("calibrate", "fits the hardware's curves to measurements, with error bars"),
    NOT_BUILT("validate", "predicted beside measured: stored runs, and published tables"),
    NOT_BUILT("launch", "the chosen layout as flags of Megatron-LM, DeepSpeed, torchtitan, ..."),
    {.name = "show",
     .summary = "models, hardware, networks, methods, frameworks, fields of a file, stored runs",
     .run = cmd_show,
     .extras = show_extras,
     .groups = OPTIONS_OUTPUT,
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
    return sp_fail(err, SP_ERROR_USAGE, "'%s' is not built yet; %s are", command->name,
                   sp_join(arena, built.items, built.count, " and "));
}
