/* Inside the step layer: the shapes of one rank, the operators of a layer, the moments of memory. */
#ifndef SEQPLAN_STEP_INTERNAL_H
#define SEQPLAN_STEP_INTERNAL_H

#include "method/method.h"
#include "step/step.h"

struct step_shape;

/* ---- stages (stage_classes.c) ------------------------------------------------------------------------------------ */

/* Stages of a pipeline that are alike. */
struct stage_class {
    int64_t stage; /* the first of them, 0-based: it holds the most micro-batches */
    int64_t count;
    int64_t first; /* its first layer */
    int64_t layers;
    bool has_embedding, has_head;
    bool can_be_worst; /* its peak memory can be the largest */
};
/* Sequences of layers of 4 kinds that 10,000 layers (the most a model has) can hold are fewer. */
enum { MAX_STAGE_CLASSES = 2048 };
/* By first stage. Depends on the model, pp, the split of layers and where the schedule holds the ends. */
int stage_classes(const struct question *question, struct stage_class classes[MAX_STAGE_CLASSES]);
/* Stages in their order: neighbours that are alike. */
struct stage_run {
    int class;
    int64_t count;
};
enum { MAX_STAGE_RUNS = 10000 }; /* a stage has a layer at least, and a model at most so many */
int stage_runs(const struct question *question, const struct stage_class *classes, int n_classes,
               struct stage_run runs[MAX_STAGE_RUNS]);
/* Of each kind among the first `layers` of a stage. */
void class_kinds(const struct step_shape *shape, const struct stage_class *class, int64_t layers,
                 double counts[MAX_LAYER_KINDS]);
/* Layers of a stage whose activations are rebuilt in backward; 0 for none and Megatron's selective. */
int64_t class_recomputed_layers(const struct step_shape *shape, const struct stage_class *class);
/* The last layer (1-based) of a kind at or before `layer` of a stage; 0: none. */
int64_t class_last_of_kind(const struct step_shape *shape, const struct stage_class *class, int64_t layer, int kind);
/* The first at or after `layer`; 0: none. Of models with several kinds. */
int64_t class_first_of_kind(const struct step_shape *shape, const struct stage_class *class, int64_t layer, int kind);

/* ---- shapes (step_shape.c) --------------------------------------------------------------------------------------- */

/* Parameters of one rank (docs/model.md, eq. 50). Experts are sharded over other ranks than the rest. */
struct parameters {
    double dense;
    double expert;
};

struct kind_shape { /* of the layers of one kind */
    bool is_moe;
    struct parameters parameters, trained; /* of one layer */
    struct attention_problem attention;
    struct method_memory attention_memory;
};

/* Times of products, by call: a small table where the last ones stay. */
enum { GEMM_MEMO_ENTRIES = 512 };
struct gemm_memo_entry {
    const struct gpu_spec *gpu;
    struct gemm_call call;
    double time_s;
};
struct gemm_memo {
    struct gemm_memo_entry entries[GEMM_MEMO_ENTRIES];
};

/* Shapes of one rank, and what is looked up once per question. */
struct step_shape {
    const struct question *question;
    const struct gpu_spec *gpu;
    int n_classes; /* of stages; borrowed */
    const struct stage_class *classes;
    int n_runs;
    const struct stage_run *runs;
    struct gemm_memo *gemms; /* or NULL: nothing is kept */
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
    double clock_hz;      /* at which the kernels of a step settle together (eq. 27b); 0: not known */
    int64_t micro_batches;
};
/* Depends on the degrees, the method, the placement and the micro-batch of the question's layout, not on sharding, offload,
 * recomputation or schedule. The stages are the caller's: shape->classes. */
void step_shape_init(struct step_shape *shape, const struct question *question);

/* Selective recomputation per operator, as PyTorch's: attention and every second product of a layer are kept, the rest is
 * rebuilt. Megatron's rebuilds attention only. */
bool keeps_products(const struct step_shape *shape);
/* ZeRO 3 with pipeline stages where the framework keeps weights whole through the step. */
bool gathers_once(const struct step_shape *shape);
/* Width of the gated part of a layer: bytes of one tensor of all its gated products (dense, shared, routed). */
double kind_ffn_bytes(const struct step_shape *shape, const struct kind_shape *kind);
/* Passes over such a tensor by the kernel between the products, and how many of them backward needs. Gated: figures of the
 * kernels. Plain (GELU), whatever the kernels: reads and writes one; backward reads input and gradient and writes one; its
 * input and output are kept. */
double mlp_passes(const struct step_shape *shape, const struct kind_shape *kind, bool is_backward);
double mlp_saved_tensors(const struct step_shape *shape, const struct kind_shape *kind);
/* Products of a layer's MLP from the hidden size: 2 gated, 1 plain. Experts are gated. */
double kind_mlp_inputs(const struct step_shape *shape, const struct kind_shape *kind);
double model_kind_layers(const struct step_shape *shape, int kind); /* how many layers of the model are of it */

enum { GATED_INPUTS = 2 }; /* gate and up */

/* ---- clock (clock.c) ---------------------------------------------------------------------------------------------- */

/* At which the layers and the two ends of the model, forward and backward, settle together on this rank; 0: not known. Without
 * transfers, the optimizer and what recomputation repeats: it is the same for every schedule, sharding and placement. */
double step_clock(const struct step_shape *shape);

/* ---- parameters (parameters.c) ----------------------------------------------------------------------------------- */

void count_parameters(struct step_shape *shape); /* of the kinds of layers */
struct parameters rank_layer_parameters(const struct step_shape *shape, int kind);
double rank_vocab_parameters(const struct step_shape *shape); /* one table of the rank, padded */
struct parameters rank_stage_parameters(const struct step_shape *shape, const struct stage_class *stage);
/* What has gradients: all of it, or the adapters of --train lora. */
struct parameters rank_stage_trained(const struct step_shape *shape, const struct stage_class *stage);
struct parameters rank_layer_trained(const struct step_shape *shape, int kind);
/* Bytes of one element of each over the ranks that share it. */
double sharded(const struct step_shape *shape, struct parameters parameters, bool is_sharded);
double parameters_sum(struct parameters parameters);

/* ---- operators (operators.c, layer_operators.c, moe_operators.c, end_operators.c) --------------------------------- */

enum { MAX_LIST_OPERATORS = 48 };

/* What a list of rows adds up to, in the order in which they were added. */
struct operator_sum {
    double time_s;
    double weight_s; /* of it: weight gradients */
    double kernels;  /* that the host launches: products, collectives, element-wise and attention kernels */
};
/* A list of rows, each priced for one execution; `count` is set when the list is spread over the slowest stage. */
struct operator_list {
    struct operator_sum sum;
    int n;
    struct operator_row rows[MAX_LIST_OPERATORS];
};
/* At the step's clock; remembered where the shape has a memo. */
double product_time(const struct step_shape *shape, const struct gemm_call *asked);
/* Empty, or what follows rows that are not kept but were summed (NULL: none): the sums come out the same, bit for bit. */
void operator_list_begin(struct operator_list *list, const struct operator_sum *before);

struct layer_operators { /* one layer, one micro-batch, the slowest rank */
    struct operator_list forward;
    struct operator_list backward;
    struct operator_list reforward; /* what recomputation repeats: all of forward, or the attention of `selective` */
};
/* A layer in two parts: what the degrees, the method and the placement decide, and what sharding, recomputation and
 * offload add to it. The second goes on where the first ended: with its rows, or (operator_list_begin) with its sums. */
void price_layer_base(const struct step_shape *shape, int kind, struct layer_operators *layer);
void price_layer_rest(const struct step_shape *shape, int kind, struct layer_operators *layer);
/* The reforward list of price_layer_base() alone, under the layout's recomputation now. */
void price_layer_repeats(const struct step_shape *shape, int kind, struct layer_operators *layer);
extern const char host_launches_name[]; /* the row of what the host's launches add to a layer's pass */
/* Of a layer's products, in FLOP: those that per-operator recomputation does not keep (k, o, one of gate and up). */
double dropped_products_share(const struct step_shape *shape, int kind);

struct end_operators {
    struct operator_list embedding_forward, embedding_backward; /* first stage */
    struct operator_list head_forward, head_backward;           /* last stage */
};
void price_ends(const struct step_shape *shape, struct end_operators *ends);
/* ZeRO 3: what a framework copies beside its gathers and scatters (eq. 55a); parameters, and how often a micro-batch. */
struct sharding_copies {
    double gathered, scattered, times;
};
void add_sharding_copies(const struct step_shape *shape, struct operator_list *list,
                         const struct sharding_copies *copies);
/* Once per step, the stage with most parameters. */
void price_optimizer(const struct step_shape *shape, struct operator_list *list);
/* The same of a stage that trains these parameters. */
void price_stage_optimizer(const struct step_shape *shape, struct parameters trained, struct operator_list *list);

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
/* A collective charged in full; count 0 where the group is one rank. */
struct operator_row collective_row(const struct step_shape *shape, const struct collective_call *call);
void operator_collective(const struct step_shape *shape, struct operator_list *list,
                         const struct collective_call *call);
void operator_mark(struct operator_row *row, bool is_attention); /* HBM class; row may be NULL */
void operator_list_pass(struct operator_list *list, enum step_pass pass, bool is_of_layer);

/* ---- schedules (schedule.c) --------------------------------------------------------------------------------------- */

struct stage_time {
    double forward_s;
    double backward_s; /* recomputation and weight gradients included */
    double weight_s;   /* weight gradients alone */
};
/* What m micro-batches take on stages of these times under a schedule, in parts: m (f + b) of the slowest stage, the hops that
 * nothing hides, and what is left, idle (docs/model.md, eq. 61-63). */
struct pipeline_load {
    double micro_batches;
    int n_runs; /* of stages alike, in order */
    const struct stage_run *runs;
    const struct stage_time *times; /* by class */
    int slowest;                    /* class */
    double hop_s;
};
struct pipeline_idle {
    double bubble_s, hops_s;
};
struct pipeline_idle schedule_idle(const struct layout_spec *layout, const struct pipeline_load *load);
/* Micro-batches whose activations a stage holds at once, in units of the whole stage. */
double schedule_in_flight(const struct layout_spec *layout, int64_t micro_batches, int64_t stage);
/* Messages that a rank inside the pipeline sends for a micro-batch, each way. */
double schedule_hops(const struct layout_spec *layout);
/* Copies of the parameters that a rank holds. */
double schedule_parameter_copies(const struct layout_spec *layout);
/* Whether the rank of this stage also holds the last layers and the head. */
bool schedule_holds_head(const struct layout_spec *layout, int64_t stage);
bool schedule_holds_embedding(const struct layout_spec *layout, int64_t stage);
/* Of the micro-batches, those that pass the embedding and the head of one rank that holds them. */
double schedule_end_share(const struct layout_spec *layout);

/* ---- communication (communication.c), time (pipeline.c) ------------------------------------------------------------ */

/* Everything that is priced, as rows. */
struct step_lists {
    struct layer_operators layers[MAX_LAYER_KINDS];
    struct end_operators ends;
    struct operator_list optimizer; /* once per step */
};
/* The same as sums: all that the step's time is made of. */
struct kind_sums { /* one layer of a kind, one micro-batch */
    double forward_s, backward_s, weight_s, reforward_s;
};
struct end_sums {
    struct stage_time embedding, head;
};
struct step_sums {
    struct kind_sums kinds[MAX_LAYER_KINDS];
    struct end_sums ends;
    double optimizer_s;
    double hop_s; /* of a micro-batch between two stages */
};
void sum_layer(const struct layer_operators *layer, struct kind_sums *sums);
void sum_ends(const struct end_operators *ends, struct end_sums *sums);
double pipeline_hop_time(const struct step_shape *shape);
/* The step under the layout's schedule and recomputation (eq. 60-66). */
struct step_time {
    double step_s;
    struct pipeline_idle idle;
    struct stage_time slowest;
    int slowest_class;
};
void compose_time(const struct step_shape *shape, const struct step_sums *sums, struct step_time *step);

void list_communications(const struct step_shape *shape, struct estimate *estimate);
void price_step(const struct step_shape *shape, const struct step_lists *lists, struct estimate *estimate);
/* --only attention: one layer's attention, forward and backward. */
void price_attention_only(const struct layer_operators *layer, struct estimate *estimate);

/* ---- memory (memory_tensors.c, memory_moments.c, offload.c) -------------------------------------------------------- */

struct memory_account {
    double items[N_MEMORY_ITEMS];
    int n;
    struct tensor_row *rows; /* MAX_TENSORS of them, or NULL: only the sums are kept */
};
/* Also what the layer at work does not hold yet, or no longer, which is negative. account_add() leaves out 0 and less. */
void account_any(struct memory_account *account, enum memory_item item, const char *name, const char *formula,
                 double bytes);
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
void account_state(const struct step_shape *shape, const struct stage_class *stage, double gradient_share,
                   struct memory_account *account);

/* A point of a step: which stage, and which of its layers (1 to n, from the input) is at work. */
struct point {
    const struct stage_class *stage;
    int64_t layer;
    int kind;
    bool is_last_layer;
    bool
        is_first_backward; /* no gradient of a layer before it is on its way: the last layer, where a rank has one chunk */
    bool is_last_backward; /* no layer before it is prefetched: the first one, where a rank has one chunk */
    bool is_recomputed;    /* this layer keeps its input only */
    struct saved_layer saved;
};
bool is_sharded(const struct step_shape *shape);      /* ZeRO 3 over several ranks */
bool loss_has_chunks(const struct step_shape *shape); /* of tokens */
/* saved_layer_bytes(), less what selective recomputation drops. */
struct saved_layer kept_layer_bytes(const struct step_shape *shape, int kind);
bool moment_occurs(enum moment moment, const struct point *point);
/* What a moment holds beside state and saved activations: workspaces; buffers of sharding, which depend on the stage; what
 * is its own, which does not. */
void account_workspaces(const struct step_shape *shape, bool has_head, struct memory_account *account);
void account_sharding(const struct step_shape *shape, const struct point *point, enum moment moment,
                      struct memory_account *account);
void account_own(const struct step_shape *shape, const struct point *point, enum moment moment,
                 struct memory_account *account);

/* ---- peak (peak.c) ------------------------------------------------------------------------------------------------- */

/* What peaks are made of, as sums: of the rank's shape ... */
struct memory_sums {
    struct saved_layer saved[MAX_LAYER_KINDS];
    double trained[MAX_LAYER_KINDS];         /* parameters of a layer */
    double own_forward[MAX_LAYER_KINDS][2];  /* by whether the layer is recomputed */
    double own_backward[MAX_LAYER_KINDS][2]; /* the largest of the backward's moments */
    double own_head[2];                      /* the largest of loss and the head's backward, by has_embedding */
    double own_head_backward[2];
};
/* ... and of a stage under its sharding and offload. */
struct stage_sums {
    double state_bytes;    /* without gradients */
    double gradient_bytes; /* all of them */
    double workspace_bytes;
    double trained, head_trained;    /* parameters; of the head, where its gradient counts among those of the stage */
    double forward[MAX_LAYER_KINDS]; /* buffers of sharding, by the kind of the layer at work */
    double backward[MAX_LAYER_KINDS][2][2]; /* by whether its backward is the first of the stage, and the last */
    double head[MAX_LAYER_KINDS];
};
void sum_memory(const struct step_shape *shape, struct memory_sums *sums);
void sum_stage(const struct step_shape *shape, const struct stage_class *stage, struct stage_sums *sums);
/* The largest allocation of a stage under the layout's schedule and recomputation. */
double stage_peak(const struct step_shape *shape, const struct memory_sums *sums, const struct stage_sums *stage_sums,
                  const struct stage_class *stage);
/* Outside the allocator, and its slack: allocated + this is the peak. */
double runtime_bytes(const struct step_shape *shape, double allocated_bytes);
/* Of one node. */
double host_bytes(const struct step_shape *shape, const struct memory_sums *sums);
void price_memory(const struct step_shape *shape, struct estimate *estimate);

/* Host memory of one node and the time that transfers to and from it leave exposed (docs/model.md, eq. 58, 59). */
double offload_host_bytes(const struct step_shape *shape, double activation_bytes);
void add_offload_layer(const struct step_shape *shape, struct layer_operators *layer, int kind);
void add_offload_optimizer(const struct step_shape *shape, struct operator_list *list, double owned);

#endif
