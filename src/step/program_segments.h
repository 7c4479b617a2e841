/* Inside the program of a step: its segments by what they are. */
#ifndef SEQPLAN_STEP_PROGRAM_SEGMENTS_H
#define SEQPLAN_STEP_PROGRAM_SEGMENTS_H

#include "step/program_internal.h"

enum part {
    PART_LAYER_FORWARD,
    PART_LAYER_BACKWARD, /* recomputation before it included */
    PART_LAYER_WEIGHTS,
    PART_EMBEDDING_FORWARD,
    PART_EMBEDDING_BACKWARD,
    PART_HEAD_FORWARD,
    PART_HEAD_BACKWARD,
    PART_HEAD_WEIGHTS,
    PART_TO_STAGE,
    PART_FROM_STAGE,
    PART_GATHER,  /* weights of a layer */
    PART_SCATTER, /* gradients of a layer */
    PART_COPY_OUT,
    PART_COPY_IN,
    PART_EARLY_SCATTER,
    PART_OPTIMIZER
};

struct segment_key {
    enum part part;
    int kind;           /* of layers */
    int class;          /* of stages */
    bool is_recomputed; /* in memory: the layer keeps its checkpoint only */
    bool repeats;       /* in time: something of its forward runs again */
    bool is_last_layer; /* of the stage */
    bool is_first_layer;
    bool is_backward;       /* of a hop, a gather */
    bool is_first, is_last; /* an end of the model: in the first or last micro-batch of its chunk, where that matters */
};

/* Kinds of layers times stages that differ times what can differ inside. */
enum { MAX_SEGMENTS = 8 * MAX_STAGE_CLASSES };
struct program_builder {
    struct sp_arena *arena;
    const struct step_shape *shape;
    const struct step_lists *lists;
    int64_t positions; /* kinds of ranks in an sp group */
    struct transfer_table transfers;
    int n_segments;
    struct segment_key *keys;
    struct program_segment *segments;
};
/* The segment of a key, made the first time it is asked for. */
int program_segment(struct program_builder *builder, const struct segment_key *key);

#endif
