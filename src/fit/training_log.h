/* A training log as steps and facts: what the files of that importer share. */
#ifndef SEQPLAN_TRAINING_LOG_H
#define SEQPLAN_TRAINING_LOG_H

#include "fit/import_internal.h"

/* What a log says of the run beside its steps; parameters of the measurement have these names. */
enum training_fact {
    FACT_GPUS,
    FACT_TP,
    FACT_CP,
    FACT_PP,
    FACT_VPP,
    FACT_DP,
    FACT_EP,
    FACT_ZERO,
    FACT_SEQ,
    FACT_GLOBAL_BATCH,
    FACT_MICRO_BATCH,
    FACT_LAYERS,
    FACT_HIDDEN,
    FACT_FFN,
    FACT_HEADS,
    FACT_KV_HEADS,
    FACT_PARAMETERS,
    N_TRAINING_FACTS
};

struct training_step {
    int64_t line, step;
    double time_s; /* 0: the log gives another figure, from which it follows */
    double at_s;   /* when it was logged, of the day; negative: not known */
    double tokens_per_s_per_gpu, flop_per_s_per_gpu, samples_per_s; /* 0: not logged */
    int64_t global_batch;                                           /* 0: not in this line */
};

struct training_log {
    struct sp_arena *arena;
    struct import_result *result;
    struct training_step *steps;
    int64_t n_steps, capacity, last_step;
    double facts[N_TRAINING_FACTS];         /* negative: not said */
    const char *model, *gpu;                /* NULL: not said */
    double allocated_bytes, reserved_bytes; /* the most; 0: not said */
};

/* What a framework's lines say (import_frameworks.c). False: the line is of no concern. A line that looks like a step and
 * is none is skipped with its reason. */
typedef bool (*training_reader)(struct training_log *log, int64_t number, const char *line);
bool megatron_line(struct training_log *log, int64_t number, const char *line);
bool torchtitan_line(struct training_log *log, int64_t number, const char *line);
bool nanotron_line(struct training_log *log, int64_t number, const char *line);
bool deepspeed_line(struct training_log *log, int64_t number, const char *line);

/* A step that was logged before, by another rank, is skipped. */
void training_add_step(struct training_log *log, const struct training_step *step);
void training_set_fact(struct training_log *log, enum training_fact fact, double value);
void training_note_memory(struct training_log *log, double allocated_bytes, double reserved_bytes);

#endif
