/* Inside the step layer: the shapes of one rank, the operators of a layer, the moments of memory. */
#ifndef SEQPLAN_STEP_INTERNAL_H
#define SEQPLAN_STEP_INTERNAL_H

#include "method/method.h"
#include "step/step.h"

/* Shapes of one rank, and what is looked up once per question. */
struct step_shape {
    const struct question *question;
    const struct gpu_spec *gpu;
    struct attention_problem attention;
    struct method_memory attention_memory;
    struct group_placement tp_group, pp_group, shard_group;
    double tokens;        /* of one micro-batch on one rank before the split over tp */
    double token_split;   /* ranks over which hidden tensors are split: tp with tp_sp, else 1 */
    double tp;
    double hidden;
    double heads;         /* query heads of a rank */
    double kv_heads;      /* key-value heads of a rank, repetition over tp and run.expand_kv aside: the projection's */
    double head_dim;
    double ffn;           /* width of a rank */
    double vocab;         /* columns of the head on a rank, padded */
    double head_tokens;   /* rows of the head on a rank */
    double hidden_bytes;  /* U: one hidden tensor, not split */
    double ffn_bytes;     /* F: one tensor of the rank's ffn width */
    double qk_bytes;      /* q and k of a rank */
    double qkv_bytes;
    double gradient_size; /* bytes of a gradient element */
    double parameter_size;
    double shards;        /* dp x sp */
    int64_t micro_batches;
};
void step_shape_init(struct step_shape *shape, const struct question *question);

/* Parameters of one rank (docs/model.md, eq. 50). */
double rank_layer_parameters(const struct step_shape *shape);
double rank_vocab_parameters(const struct step_shape *shape); /* one table of the rank, padded */
double rank_stage_parameters(const struct step_shape *shape, int64_t stage);
int64_t stage_layers(const struct step_shape *shape, int64_t stage);
/* Layers of the stage whose activations are rebuilt in backward; 0 for none and selective. */
int64_t stage_recomputed_layers(const struct step_shape *shape, int64_t stage);

/* ---- operators (operators.c, layer_operators.c, end_operators.c) -------------------------------------------------------------- */

/* A list of rows, each priced for one execution; `count` is set when the list is spread over the slowest stage. */
struct operator_list {
    int n;
    struct operator_row rows[32];
};
double operator_list_time(const struct operator_list *list);

struct layer_operators { /* one layer, one micro-batch, the slowest rank */
    struct operator_list forward;
    struct operator_list backward;
    struct operator_list reforward; /* what recomputation repeats: all of forward, or the attention of `selective` */
    struct method_pass attention_forward, attention_backward;
};
void price_layer(const struct step_shape *shape, struct layer_operators *layer);

struct end_operators {
    struct operator_list embedding_forward, embedding_backward; /* first stage */
    struct operator_list head_forward, head_backward;           /* last stage */
    struct operator_list optimizer;                             /* once per step, the stage with most parameters */
};
void price_ends(const struct step_shape *shape, struct end_operators *ends);

/* Adds a row and returns it; a row without time is left out (NULL). */
struct operator_row *operator_add(struct operator_list *list, const struct operator_row *row);
struct operator_row *operator_gemm(const struct step_shape *shape, struct operator_list *list, const char *name, enum step_pass pass,
                                   const struct gemm_call *call);
struct operator_row *operator_elementwise(const struct step_shape *shape, struct operator_list *list, const char *name,
                                          enum step_pass pass, double bytes);
/* A collective charged in full. axis decides the time item. */
struct operator_row *operator_collective(const struct step_shape *shape, struct operator_list *list, const char *name, enum axis axis,
                                         enum collective operation, double bytes, double count);

/* ---- communication (communication.c) ----------------------------------------------------------------------------- */

void list_communications(const struct step_shape *shape, struct estimate *estimate);

/* ---- time (pipeline.c) ------------------------------------------------------------------------------------------- */

void price_step(const struct step_shape *shape, const struct layer_operators *layer, const struct end_operators *ends,
                struct estimate *estimate);

/* ---- memory (memory_tensors.c, memory_moments.c) ------------------------------------------------------------------ */

struct memory_account {
    double items[N_MEMORY_ITEMS];
    int n;
    struct tensor_row rows[MAX_TENSORS];
};
double memory_account_total(const struct memory_account *account);
void account_add(struct memory_account *account, enum memory_item item, const char *name, const char *formula, double bytes);

/* Bytes of one layer's saved activations on a rank, and of its parts (docs/model.md, eq. 72). */
struct saved_layer {
    double input;     /* x, split as hidden tensors are: the checkpoint of a recomputed layer */
    double attention; /* input, norm output, q, k, v, attention output, log-sum-exp, the method's own */
    double mlp;       /* residual, norm output, the ffn tensors */
    double total;
};
struct saved_layer saved_layer_bytes(const struct step_shape *shape);
/* Weights, gradients and optimizer state of a stage. gradient_share: of the stage's gradients that exist (1 where they
 * are persistent). */
void account_state(const struct step_shape *shape, int64_t stage, double gradient_share, struct memory_account *account);

void price_memory(const struct step_shape *shape, struct estimate *estimate);

#endif
