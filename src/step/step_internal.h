/* Inside the step layer: the shapes of one rank, the operators of a layer, the moments of memory. */
#ifndef SEQPLAN_STEP_INTERNAL_H
#define SEQPLAN_STEP_INTERNAL_H

#include "method/method.h"
#include "step/step.h"

/* ---- shapes (step_shape.c) --------------------------------------------------------------------------------------- */

struct kind_shape { /* of the layers of one kind */
    bool is_moe;
    struct attention_problem attention;
    struct method_memory attention_memory;
};

/* Shapes of one rank, and what is looked up once per question. */
struct step_shape {
    const struct question *question;
    const struct gpu_spec *gpu;
    int n_kinds;
    struct kind_shape kinds[MAX_LAYER_KINDS];
    struct group_placement tp_group, pp_group, shard_group;
    struct group_placement etp_group, ep_group, expert_shard_group;
    double tokens;      /* of one micro-batch on one rank before the split over tp */
    double token_split; /* ranks over which hidden tensors are split: tp with tp_sp, else 1 */
    double tp;
    double element; /* bytes of an activation */
    double hidden;
    double heads;    /* query heads of a rank */
    double kv_heads; /* key-value heads of a rank, run.expand_kv aside: the projection's */
    double head_dim, value_head_dim;
    double ffn;        /* width of a rank's dense MLP */
    double mlp_inputs; /* its products from the hidden size: gate and up, or up alone (has_plain_mlp) */
    double shared_ffn; /* of its shared experts */
    double expert_ffn; /* of one of its routed experts */
    double local_experts;
    double routed_tokens; /* tokens that a rank routes */
    double expert_tokens; /* token copies that its experts work on */
    double vocab;         /* columns of the head on a rank, padded */
    double head_tokens;   /* rows of the head on a rank */
    double hidden_bytes;  /* U: one hidden tensor, not split */
    double qk_bytes;      /* q and k of a rank */
    double qkv_bytes;
    double gradient_size; /* bytes of a gradient element */
    double parameter_size;
    double shards;        /* dp x sp */
    double expert_shards; /* ranks that hold the same experts */
    double mlp_tiles;     /* pieces of a tiled MLP; 1: whole */
    int64_t micro_batches;
};
void step_shape_init(struct step_shape *shape, const struct question *question);
int64_t stage_layers(const struct step_shape *shape, int64_t stage);
/* Layers of each kind among the first `layers` of a stage. */
void stage_kinds(const struct step_shape *shape, int64_t stage, int64_t layers, double counts[MAX_LAYER_KINDS]);
/* Selective recomputation per operator, as PyTorch's: attention and every second product of a layer are kept, the rest is
 * rebuilt. Megatron's rebuilds attention only. */
bool keeps_products(const struct step_shape *shape);
/* ZeRO 3 with pipeline stages where the framework keeps weights whole through the step. */
bool gathers_once(const struct step_shape *shape);
/* Layers of the stage whose activations are rebuilt in backward; 0 for none and Megatron's selective. */
int64_t stage_recomputed_layers(const struct step_shape *shape, int64_t stage);
/* Width of the gated part of a layer: bytes of one tensor of all its gated products (dense, shared, routed). */
double kind_ffn_bytes(const struct step_shape *shape, const struct kind_shape *kind);
/* Passes over such a tensor by the kernel between the products, and how many of them backward needs. Gated: figures of the
 * kernels. Plain (GELU), whatever the kernels: reads and writes one; backward reads input and gradient and writes one; its
 * input and output are kept. */
double mlp_passes(const struct step_shape *shape, const struct kind_shape *kind, bool is_backward);
double mlp_saved_tensors(const struct step_shape *shape, const struct kind_shape *kind);
/* Products of a layer's MLP from the hidden size: 2 gated, 1 plain. Experts are gated. */
double kind_mlp_inputs(const struct step_shape *shape, const struct kind_shape *kind);

enum { GATED_INPUTS = 2 }; /* gate and up */

/* ---- parameters (parameters.c) ----------------------------------------------------------------------------------- */

/* Parameters of one rank (docs/model.md, eq. 50). Experts are sharded over other ranks than the rest. */
struct parameters {
    double dense;
    double expert;
};
struct parameters rank_layer_parameters(const struct step_shape *shape, int kind);
double rank_vocab_parameters(const struct step_shape *shape); /* one table of the rank, padded */
struct parameters rank_stage_parameters(const struct step_shape *shape, int64_t stage);
/* What has gradients: all of it, or the adapters of --train lora. */
struct parameters rank_stage_trained(const struct step_shape *shape, int64_t stage);
struct parameters rank_layer_trained(const struct step_shape *shape, int kind);
/* Bytes of one element of each over the ranks that share it. */
double sharded(const struct step_shape *shape, struct parameters parameters, bool is_sharded);
double parameters_sum(struct parameters parameters);

/* ---- operators (operators.c, layer_operators.c, moe_operators.c, end_operators.c) --------------------------------- */

enum { MAX_LIST_OPERATORS = 48 };

/* A list of rows, each priced for one execution; `count` is set when the list is spread over the slowest stage. */
struct operator_list {
    int n;
    double kernels; /* that the host launches: products, collectives, element-wise and attention kernels */
    struct operator_row rows[MAX_LIST_OPERATORS];
};
double operator_list_time(const struct operator_list *list);
double operator_list_weight_gradient_time(const struct operator_list *list);

struct layer_operators { /* one layer, one micro-batch, the slowest rank */
    struct operator_list forward;
    struct operator_list backward;
    struct operator_list reforward; /* what recomputation repeats: all of forward, or the attention of `selective` */
};
void price_layer(const struct step_shape *shape, int kind, struct layer_operators *layer);
extern const char host_launches_name[]; /* the row of what the host's launches add to a layer's pass */
/* Of a layer's products, in FLOP: those that per-operator recomputation does not keep (k, o, one of gate and up). */
double dropped_products_share(const struct step_shape *shape, int kind);

struct end_operators {
    struct operator_list embedding_forward, embedding_backward; /* first stage */
    struct operator_list head_forward, head_backward;           /* last stage */
    struct operator_list optimizer;                             /* once per step, the stage with most parameters */
};
void price_ends(const struct step_shape *shape, struct end_operators *ends);

/* A projection of a layer: tokens x in -> tokens x out, in `groups` equal products. */
struct projection {
    const char *forward, *input_gradient, *weight_gradient; /* names */
    double tokens;                                          /* of one group */
    double out, in;
    double groups;
    bool is_attention;
};
void project_forward(const struct step_shape *shape, struct operator_list *list, const struct projection *projection);
/* Without adapters where LoRA trains none: the router and routed experts. */
void project_forward_frozen(const struct step_shape *shape, struct operator_list *list,
                            const struct projection *projection);
void project_backward_frozen(const struct step_shape *shape, struct operator_list *list,
                             const struct projection *projection);
void project_backward(const struct step_shape *shape, struct operator_list *list, const struct projection *projection);

/* Router, permutation, exchanges and experts of a layer with experts. */
void add_experts_forward(const struct step_shape *shape, struct operator_list *list);
void add_experts_backward(const struct step_shape *shape, struct operator_list *list);

/* Adds a row and returns it; a row without time, work or traffic is left out (NULL). */
struct operator_row *operator_add(struct operator_list *list, const struct operator_row *row);
/* Adds to the row of the same name and class where there is one: small operators beside every projection. */
struct operator_row *operator_accumulate(struct operator_list *list, const struct operator_row *row);
struct operator_row *operator_gemm(const struct step_shape *shape, struct operator_list *list, const char *name,
                                   const struct gemm_call *call);
struct operator_row *operator_elementwise(const struct step_shape *shape, struct operator_list *list, const char *name,
                                          double bytes);
struct collective_call {
    const char *name;
    enum axis axis;
    const struct group_placement *group;
    enum collective operation;
    double bytes;
    double count;
};
/* A collective charged in full. */
struct operator_row *operator_collective(const struct step_shape *shape, struct operator_list *list,
                                         const struct collective_call *call);
void operator_mark(struct operator_row *row, bool is_attention); /* HBM class; row may be NULL */
void operator_list_pass(struct operator_list *list, enum step_pass pass, bool is_of_layer);

/* ---- schedules (schedule.c) --------------------------------------------------------------------------------------- */

struct stage_time {
    double forward_s;
    double backward_s; /* recomputation and weight gradients included */
    double weight_s;   /* weight gradients alone */
};
/* Idle time of the slowest stage, given the sums over the other stages (docs/model.md, eq. 61-66). */
double schedule_bubble(const struct layout_spec *layout, const struct stage_time *others);
/* Micro-batches whose activations a stage holds at once, in units of the whole stage. */
double schedule_in_flight(const struct layout_spec *layout, int64_t micro_batches, int64_t stage);
/* Hops of a micro-batch's way through the pipeline, each way, relative to 1F1B. */
double schedule_hops(const struct layout_spec *layout);
/* Copies of the parameters that a rank holds. */
double schedule_parameter_copies(const struct layout_spec *layout);
/* Whether the rank of this stage also holds the last layers and the head. */
bool schedule_holds_head(const struct layout_spec *layout, int64_t stage);
bool schedule_holds_embedding(const struct layout_spec *layout, int64_t stage);
/* Of the micro-batches, those that pass the embedding and the head of one rank that holds them. */
double schedule_end_share(const struct layout_spec *layout);

/* ---- communication (communication.c), time (pipeline.c) ------------------------------------------------------------ */

void list_communications(const struct step_shape *shape, struct estimate *estimate);
void price_step(const struct step_shape *shape, const struct layer_operators layers[MAX_LAYER_KINDS],
                const struct end_operators *ends, struct estimate *estimate);
/* --only attention: one layer's attention, forward and backward. */
void price_attention_only(const struct layer_operators *layer, struct estimate *estimate);

/* ---- memory (memory_tensors.c, memory_moments.c, offload.c) -------------------------------------------------------- */

struct memory_account {
    double items[N_MEMORY_ITEMS];
    int n;
    struct tensor_row rows[MAX_TENSORS];
};
double memory_account_total(const struct memory_account *account);
void account_add(struct memory_account *account, enum memory_item item, const char *name, const char *formula,
                 double bytes);

/* Bytes of one layer's saved activations on a rank, and of its parts (docs/model.md, eq. 72). */
struct saved_layer {
    double input;            /* x, split as hidden tensors are */
    double checkpoint;       /* what a recomputed layer keeps: its input, or the kept products too */
    double attention;        /* input, norm output, q, k, v, attention output, log-sum-exp, the method's own */
    double attention_inputs; /* of it: input, norm output, q, k, v */
    double mlp;              /* residual, norm output, the gated products, experts' inputs and outputs */
    double total;
};
struct saved_layer saved_layer_bytes(const struct step_shape *shape, int kind);
/* Weights, gradients and optimizer state of a stage. gradient_share: of the stage's gradients that exist (1 where they
 * are persistent). */
void account_state(const struct step_shape *shape, int64_t stage, double gradient_share,
                   struct memory_account *account);
void price_memory(const struct step_shape *shape, struct estimate *estimate);

/* Host memory of one node and the time that transfers to and from it leave exposed (docs/model.md, eq. 58, 59). */
double offload_host_bytes(const struct step_shape *shape, double activation_bytes);
void add_offload_layer(const struct step_shape *shape, struct layer_operators *layer, int kind);
void add_offload_optimizer(const struct step_shape *shape, struct operator_list *list, double owned);

#endif
