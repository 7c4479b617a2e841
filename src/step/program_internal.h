/* Inside the program of a step: how the operations of one segment are put together. */
#ifndef SEQPLAN_STEP_PROGRAM_INTERNAL_H
#define SEQPLAN_STEP_PROGRAM_INTERNAL_H

#include "step/step_internal.h"

/* Distinct transfers of the program. */
struct transfer_table {
    struct sp_arena *arena;
    int n;
    int64_t capacity;
    struct program_transfer *items;
};
int transfer_index(struct transfer_table *table, const struct program_transfer *transfer);

/* Operations as they are added. */
struct op_list {
    struct sp_arena *arena;
    struct transfer_table *transfers;
    int64_t capacity;
    struct program_ops out;
};
/* Copies; returns its ordinal on its stream. */
int op_list_add(struct op_list *list, const struct program_op *op);
void op_list_wait(struct program_op *op, int back, int stream, int ordinal); /* one more thing it waits for */

/* The same segment on every kind of rank: one list, or one for each rank of the method's tasks where they differ. */
struct op_lists {
    int64_t n;
    struct op_list *lists;
};
void op_lists_add(struct op_lists *lists, const struct program_op *op); /* the same everywhere */

/* Rows of a pass as operations in the order in which a layer runs them (program_layer.c). */
enum { PROGRAM_NO_MOMENT = -1 };
enum weight_gradients { WEIGHTS_WITH_INPUTS, WEIGHTS_LEFT_OUT, WEIGHTS_ALONE };
struct layer_part {
    const struct step_shape *shape;
    int kind;
    const struct operator_list *rows;
    enum step_pass pass; /* of the rows; STEP_RECOMPUTE runs forward */
    enum weight_gradients weights;
    bool is_rebuilt; /* of a recomputation: in memory too, all that the layer had let go */
};
void add_layer_rows(struct op_lists *lists, const struct layer_part *part);
/* One row as one operation, or of a collective as many as its count says, on the compute stream. */
void add_row(struct op_lists *lists, const struct operator_row *row, int moment);
/* A transfer of gradients or weights beside kernels, after the kernels before its segment. */
void add_shard_transfer(struct op_lists *lists, const struct step_shape *shape, const struct operator_row *row);

/* The attention of one pass as the method's tasks have it (program_attention.c). */
void add_attention_tasks(struct op_lists *lists, const struct layer_part *part);
/* Whether ranks at different positions of the sp group run different attention; of how many kinds, each this many positions
 * apart. */
int64_t attention_positions(const struct step_shape *shape);

#endif
