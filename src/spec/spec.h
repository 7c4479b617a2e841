/* spec: what the user describes, as plain structs: model, hardware, software, run and layout; the defaults of the
 * contract; the rules a layout must keep, each with its reason.
 *
 * Structs here are open data: everybody reads them, only this layer fills them. Sizes are SI (bytes, seconds, bytes per
 * second, FLOP per second); counts are int64_t. Strings are borrowed from the arena of the question.
 */
#ifndef SEQPLAN_SPEC_H
#define SEQPLAN_SPEC_H

#include "base/base.h"

/* ---- model (model_spec.c, model_family.c, model_settings.c) ----------------------------------------------------- */

/* What sets layers of one model apart. */
struct layer_kind {
    int64_t window; /* keys that a query sees up to its own; 0: all */
    bool is_moe;    /* routed experts instead of the dense MLP */
};
enum { MAX_LAYER_KINDS = 4 };
/* Of the first layers of a model: how many are of each kind, and which (from 1) is the last of it, 0 none. */
struct layer_prefix {
    int32_t counts[MAX_LAYER_KINDS];
    int32_t lasts[MAX_LAYER_KINDS];
};

/* A decoder: attention with n_heads query and n_kv_heads key-value heads, and a gated MLP (three matrices) of width ffn,
 * a plain one, or routed experts. Layers may differ in their window and in having experts. */
struct model_spec {
    const char *name; /* file name without ".json" */
    const char *path;
    const char *family; /* architecture as the file names it: "LlamaForCausalLM" */
    int64_t n_layers;
    int64_t hidden;
    int64_t n_heads;
    int64_t n_kv_heads;
    int64_t head_dim;       /* of queries and keys; under MLA nope + rope */
    int64_t value_head_dim; /* of values and the output; equal to head_dim but under MLA */
    int64_t ffn;            /* width of a dense MLP */
    int64_t vocab;
    int64_t max_position;
    bool has_tied_embeddings;
    bool has_qkv_bias;
    bool has_o_bias;
    bool has_mlp_bias;
    bool has_plain_mlp;    /* two matrices and one activation instead of gate, up and down */
    bool has_norm_bias;    /* LayerNorm: weight and bias */
    int64_t position_rows; /* learned positions; 0: rotary */
    bool has_qk_norm;      /* RMSNorm over head_dim of q and k */
    bool has_sinks;        /* one learned value per head in the softmax */

    /* Multi-head latent attention: kv_lora_rank 0: none. Keys and values of every head are expanded from the latent. */
    int64_t q_lora_rank; /* 0: queries projected directly */
    int64_t kv_lora_rank;
    int64_t rope_head_dim; /* part of head_dim that carries positions, shared by the heads */

    /* Experts: n_experts 0: none. */
    int64_t n_experts;
    int64_t experts_per_token;
    int64_t expert_ffn;
    int64_t shared_expert_ffn; /* all shared experts together; 0: none */
    bool has_router_bias;
    bool has_expert_bias;
    bool has_shared_expert_gate;

    int n_kinds;
    struct layer_kind kinds[MAX_LAYER_KINDS];
    const unsigned char *kind_of_layer;  /* n_layers indexes into kinds */
    const struct layer_prefix *prefixes; /* n_layers + 1: the first i layers */
};

/* Parameter counts, matrix by matrix (docs/model.md, eq. 1-6). */
struct model_size {
    double attention;                     /* of a layer: projections, their norms and biases, the norm before */
    double mlp;                           /* dense MLP and the norm before */
    double expert;                        /* one routed expert */
    double moe;                           /* all routed experts, router, shared experts and the norm before */
    double moe_active;                    /* what one token passes through of it */
    double layer[MAX_LAYER_KINDS];        /* one decoder layer of a kind */
    double active_layer[MAX_LAYER_KINDS]; /* what one token passes through of it */
    double layers, active_layers;         /* all layers */
    double embedding;                     /* input tables: vocab x hidden, and learned positions */
    double head;                          /* output matrix; also counted when tied (it is used), but not in total */
    double final_norm;
    double total;
    double active; /* what one token passes through, without the input tables; a tied head counts */
};
struct model_size model_size(const struct model_spec *model);

/* Reads a Hugging Face config.json as it stands. Unmodelled fields that change memory or time are added to warnings by
 * name; an architecture without a row is refused by name (SP_ERROR_INPUT). */
bool model_read(struct sp_arena *arena, const char *name_or_path, struct model_spec *model, struct sp_texts *warnings,
                struct sp_error *err) SP_MUST_CHECK;
/* The same with members of the file replaced first: settings are "num_hidden_layers=4" (--set model.FIELD=VALUE), by
 * the config's own field names. A setting that makes the model impossible is SP_ERROR_USAGE. */
bool model_read_with(struct sp_arena *arena, const char *name_or_path, const struct sp_texts *settings,
                     struct model_spec *model, struct sp_texts *warnings, struct sp_error *err) SP_MUST_CHECK;

/* Fields of a config.json that are read, NULL-terminated: what --set model.FIELD reaches. */
extern const char *const model_config_names[];

/* ---- hardware (hardware_spec.c, curve_spec.c, curve_table.c) ---------------------------------------------------- */

enum pass { PASS_FORWARD, PASS_INPUT_GRADIENT, PASS_WEIGHT_GRADIENT, N_GEMM_PASSES };

/* Rate of a large GEMM (many waves of output tiles) by its contracted dimension k, log-interpolated, one per pass;
 * `ceiling` is what long calls sustain at the power limit, times `sustained` inside a training step. */
struct gemm_curve {
    enum sp_figure_kind kind;
    const char *source;
    const char *note;
    double spread; /* relative standard deviation of a call that is priced through it; 0: not known */
    int64_t tile_rows;
    int64_t tile_columns;
    int n_points[N_GEMM_PASSES];
    const double *log_k[N_GEMM_PASSES];
    const double *flop_per_s[N_GEMM_PASSES];
    struct sp_figure ceiling[N_GEMM_PASSES];
    struct sp_figure sustained;
    struct sp_figure clock; /* at which a long run of products alone settles; kind none: not known */
};

/* Rates of one attention kernel. FLOPs: 4 s^2 H d forward, half of it causal, 2.5 times backward. */
struct attention_line { /* one (pass, mask, head_dim, heads): rate by sequence length, ascending */
    bool is_backward;
    bool is_causal;
    int64_t head_dim;
    int64_t heads;
    int n_points;
    const double *log_sequence;
    const double *flop_per_s;
    double ceiling;  /* what long calls sustain; 0: none known */
    double clock_hz; /* at which a long run of them alone settles; 0: not known */
};
/* How a kernel goes about one (pass, head_dim): thread blocks that each own some rows, one block a multiprocessor at a time,
 * and walk over the rows on the other side in steps. Cycles of the multiprocessor's clock (docs/model.md, eq. 28). */
struct attention_tiling {
    bool is_backward;
    int64_t head_dim;
    struct sp_figure block_rows;   /* that a block owns: queries forward, keys backward */
    struct sp_figure step_rows;    /* of a step: keys forward, queries backward */
    struct sp_figure start;        /* cycles before the first block and after the last */
    struct sp_figure block;        /* of a block besides its steps */
    struct sp_figure step;         /* of a step */
    struct sp_figure mask;         /* more for a block that the mask cuts */
    struct sp_figure merge;        /* more where it merges its result into float32 sums */
    struct sp_figure cached_merge; /* the same where these are in the L2 */
    struct sp_figure sum;          /* backward: more where it adds dK and dV to float32 sums */
    struct sp_figure
        power; /* that products at the whole rate draw at the reference clock, watts beyond the idle power */
};
/* The clock that a GPU's power limit leaves (eq. 29). */
struct attention_clock {
    struct sp_figure flop_per_cycle; /* of all multiprocessors */
    struct sp_figure reference_hz;
    struct sp_figure most_hz; /* with busy tensor cores, whatever the power */
    struct sp_figure idle_power;
    struct sp_figure exponent; /* power grows with the clock to this */
    double headroom;           /* of the power, where the GPU idles between runs: 1 none. No figure of the file */
};
/* What a run of the measuring program has besides its kernels (eq. 29a, 39a). */
struct attention_harness {
    struct sp_figure latency;      /* of a kernel that was queued behind another */
    struct sp_figure pause;        /* between the samples that it takes */
    struct sp_figure memory_power; /* of kernels that only move memory, as a share of what the limit leaves */
    struct sp_figure wait;         /* for the other stream, where a step has to */
    struct sp_figure copy_sms;     /* that a copy inside the GPU needs to run at its whole rate */
    struct sp_figure clock_spread; /* between GPUs of one kind at the power limit, relative */
};
struct attention_curve {
    const char *kernel; /* "cudnn", "fa2", "fa3", "fa4", "seqplan" */
    enum sp_figure_kind kind;
    const char *source;
    const char *note;
    double spread; /* relative standard deviation of a call that is priced through it; 0: not known */
    int n_lines;
    const struct attention_line *lines; /* sorted by pass, mask, head_dim, heads */
    int n_tilings;                      /* 0: the lines alone */
    const struct attention_tiling *tilings;
    struct attention_clock clock;
    struct attention_harness harness;
};

struct time_curve { /* seconds by bytes, ascending, log-log interpolated */
    enum sp_figure_kind kind;
    const char *source;
    const char *note;
    double spread; /* relative standard deviation of a call that is priced through it; 0: not known */
    int n_points;
    const double *log_bytes;
    const double *log_seconds;
};

struct gpu_spec {
    const char *schema;
    const char *name;
    const char *title;
    const char *source;
    const char *architecture; /* "ampere", "hopper", "blackwell" */
    struct sp_figure hbm_capacity;
    struct sp_figure context_memory;
    struct sp_figure hbm_bandwidth;
    struct sp_figure elementwise_bandwidth;
    struct sp_figure peak_bf16, peak_fp16, peak_fp8, peak_fp32;
    struct sp_figure sm_count;
    struct sp_figure l2_capacity;
    struct sp_figure power_limit;
    struct sp_figure pcie_bandwidth;
    struct sp_figure price;
    struct sp_figure kernel_latency;
    struct sp_figure launch_latency;
    struct sp_figure curve_power_limit; /* power limit under which the curves below were measured */
    struct sp_figure power_exponent;    /* below it their sustained rates fall with power to this exponent */
    struct sp_figure max_clock;         /* of the multiprocessors */
    struct sp_figure static_power;      /* at that clock, without work */
    struct sp_figure memory_power;      /* at that clock, under kernels that only move memory */
    struct sp_figure clock_exponent;    /* power beyond static_power grows with the clock to this exponent */
    struct sp_figure clock_spread;      /* between GPUs of the kind at the power limit: relative standard deviation */
    struct sp_figure
        network_communication_sms;      /* the same for a transfer that leaves the node: the NICs move the data */
    struct sp_figure communication_sms; /* SMs that NCCL's kernels hold while a transfer runs beside compute */
    struct gemm_curve gemm;
    bool has_gemm_fp8;
    struct gemm_curve gemm_fp8;
    struct time_curve copy;
    int n_attention;
    const struct attention_curve *attention;
    /* Figures of the file as the curves know them: --set of the figure scales the curves by the ratio. */
    double curve_hbm_bandwidth;
    double curve_peak_bf16;
    double curve_peak_fp8;
};

enum collective {
    COLLECTIVE_ALL_GATHER,     /* bytes: the whole result */
    COLLECTIVE_REDUCE_SCATTER, /* bytes: the whole input */
    COLLECTIVE_ALL_REDUCE,     /* bytes: the buffer */
    COLLECTIVE_ALL_TO_ALL,     /* bytes: the buffer of one rank */
    COLLECTIVE_SEND_RECEIVE,   /* bytes: one message, each rank sends one and receives one */
    N_COLLECTIVES
};
extern const char *const collective_names[]; /* "all_gather", "reduce_scatter", ..., NULL */

struct collective_line { /* measured time by bytes for one (operation, ranks) inside a node */
    enum collective operation;
    int64_t ranks;
    struct time_curve curve;
};

struct intra_spec { /* the links inside a node */
    const char *title;
    const char *medium; /* "nvlink" or "pcie" */
    const char *note;
    struct sp_figure bandwidth; /* per direction and GPU */
    struct sp_figure latency;
    double slower[N_COLLECTIVES]; /* what an interval asks for: times of a table longer by this share */
    bool has_direct_links;        /* no switch: the links of a GPU are divided among the others of its domain */
    double curve_latency;         /* of the file: what --set intra.latency adds is added to the tables, once a round */
    double curve_bandwidth;       /* of the file: --set intra.bandwidth scales the tables by the ratio */
    int n_lines;
    const struct collective_line *lines; /* sorted by operation, ranks */
};

struct node_spec {
    struct sp_figure gpus;
    struct sp_figure nvlink_domain;
    struct sp_figure nics;
    struct sp_figure host_memory;
    struct sp_figure power;
};

struct network_spec {
    const char *schema;
    const char *name;
    const char *title;
    const char *source;
    struct sp_figure bandwidth; /* per NIC and direction */
    struct sp_figure efficiency;
    struct sp_figure collective_efficiency;
    struct sp_figure all_to_all_efficiency;
    struct sp_figure latency;
    struct sp_figure leaf_nodes;       /* SP_FIGURE_NONE: nothing is known of its switches */
    struct sp_figure collective_piece; /* SP_FIGURE_NONE: all-reduces over nodes use no trees */
    struct sp_figure oversubscription; /* SP_FIGURE_NONE: 1 */
    bool is_rail_optimised;
    bool is_inside_node; /* PCIe between the NVLink pairs of one node: reaches no other node */
    bool is_ideal;       /* --network ideal: a link of the network's rate per GPU for every pair of GPUs, none shared */
};

struct hardware_spec {
    const char *schema;
    const char *name;
    const char *title;
    const char *source;
    const char *path;
    struct gpu_spec gpu;
    struct node_spec node;
    struct intra_spec intra;
    struct network_spec network;
};

/* name_or_path: a name in hardware/ or a file; network_name NULL keeps the node's own, "ideal" sets is_ideal on it. */
bool hardware_read(struct sp_arena *arena, const char *name_or_path, const char *network_name,
                   struct hardware_spec *hardware, struct sp_error *err) SP_MUST_CHECK;
/* A file's content as if it had been read from `path`, which errors name. Borrows path and json. */
bool hardware_from_json(struct sp_arena *arena, const char *path, const struct sp_json *json,
                        struct hardware_spec *hardware, struct sp_error *err) SP_MUST_CHECK;
/* GPUs of the largest cluster that its links join: a node or a domain where there is no network between nodes. */
int64_t hardware_largest_cluster(const struct hardware_spec *hardware);
/* Paths beginning with gpu., node., intra., network. */
bool hardware_set(struct sp_arena *arena, struct hardware_spec *hardware, const char *path, const char *text,
                  struct sp_error *err) SP_MUST_CHECK;
/* What --set reaches in a struct hardware_spec: "gpu", "node", "intra", "network" and the figures inside. For show and
 * suggestions. */
extern const struct sp_field hardware_fields[];
/* The curve of a kernel, or NULL. */
const struct attention_curve *gpu_attention_curve(const struct gpu_spec *gpu, const char *kernel);

/* ---- software (software_spec.c) --------------------------------------------------------------------------------- */

enum framework_id {
    FRAMEWORK_MEGATRON,
    FRAMEWORK_TORCH,
    FRAMEWORK_DEEPSPEED,
    FRAMEWORK_ALST,
    FRAMEWORK_RING_FLASH_ATTN,
    FRAMEWORK_IDEAL,
    N_FRAMEWORKS
};
extern const char *const framework_names[]; /* NULL-terminated */
enum dtype { DTYPE_BF16, DTYPE_FP8, DTYPE_FP16, DTYPE_FP32, N_DTYPES };
extern const char *const dtype_names[];
int64_t dtype_bytes(enum dtype dtype);
/* What activations are kept and sent in under a precision: bf16 for fp8 (only GEMM operands are cast), else itself. */
enum dtype activation_dtype(enum dtype precision);
enum kernels_id { KERNELS_EAGER, KERNELS_COMPILED, KERNELS_TE, N_KERNELS };
extern const char *const kernels_names[];
enum loss_id { LOSS_PLAIN, LOSS_FUSED, LOSS_CHUNKED, N_LOSSES };
extern const char *const loss_names[];

/* What a framework sends to the host: activations that no or selective recomputation keeps (Megatron's fine-grained
 * offloading), checkpoints of recomputed layers (DeepSpeed's cpu_checkpointing), or any. */
enum offloads_activations { OFFLOADS_KEPT, OFFLOADS_CHECKPOINTS, OFFLOADS_ANY };
extern const char *const offloads_activations_names[];
/* The optimizer (Megatron's HybridDeviceOptimizer), optimizer and parameters only together (FSDP's CPUOffloadPolicy), or
 * the optimizer with or without the parameters (DeepSpeed). */
enum offloads_state { OFFLOADS_OPTIMIZER, OFFLOADS_TOGETHER, OFFLOADS_EITHER };
extern const char *const offloads_state_names[];

/* frameworks/NAME.json: memory policy and fixed costs of a framework. Attention methods are rows of method/traits.c. */
struct framework_spec {
    const char *schema;
    const char *name;
    const char *title;
    const char *source;
    int kernels;        /* enum kernels_id, default of --kernels */
    int gradient_dtype; /* enum dtype */
    int moment_dtype;
    bool has_master_weights;
    bool has_persistent_gradients;  /* one buffer allocated before the step; else gradients appear as layers finish */
    bool has_gradient_placeholders; /* a bf16 tensor per distinct weight shape stays allocated (fused accumulation) */
    bool selective_keeps_products;  /* selective recomputation: attention's output and every second product are kept */
    bool gathers_once_under_pp;     /* ZeRO 3 with pipeline stages: weights stay whole, gradients are scattered once */
    bool keeps_root_gathered;       /* ZeRO 3: embedding, head and final norm stay whole during the step */
    bool saves_gathered_input;      /* TP + SP: inputs of column-parallel layers are kept gathered */
    bool spreads_remainder_layers;  /* layers that do not divide by pp are spread without being asked */
    bool refuses_few_micro_batches; /* fewer micro-batches than stages is an error, not a bubble */
    bool repeats_kv_over_tp;        /* fewer kv heads than tp: repeated (else refused unless run.expand_kv) */
    bool pads_vocabulary;           /* rows of embedding and output layer rounded up to 128 x tp */
    bool combines_tp_and_pp;        /* its sequence parallelism runs beside tp and pp */
    bool shards_in_pipelines;       /* ZeRO 2 and 3 run beside pipeline stages */
    bool stops_recompute_early;     /* a layer is rebuilt up to the last tensor that backward needs (eager kernels) */
    const char *schedules;          /* that it has: "1f1b,interleaved" */
    int offloads_activations;       /* enum offloads_activations */
    int offloads_state;             /* enum offloads_state */
    const char *plain_loss; /* name in frameworks/losses of its plain cross entropy, e.g. "plain", "plain-megatron" */
    const char *fused_loss;
    struct sp_figure step_host_forward; /* host time of one ring step, forward: the floor for short shards */
    struct sp_figure step_host_backward;
    struct sp_figure offload_overhead;    /* seconds per step that offloading the optimizer adds beyond its transfers */
    struct sp_figure gather_copy_passes;  /* ZeRO 3: passes over a layer's gathered weights beyond the gather itself */
    struct sp_figure scatter_copy_passes; /* ZeRO 3: passes over a layer's gradients before they are scattered */
    struct sp_figure optimizer_bandwidth; /* share of the element-wise bandwidth that the optimizer's kernels reach */
    struct sp_figure tp_overlap;          /* share of tp collectives that products hide (asynchronous TP) */
    struct sp_figure host_tail;           /* host time at the end of a step with the GPU drained */
    struct sp_figure gemm_workspace;      /* from the allocator: cuBLAS and cuBLASLt */
    struct sp_figure attention_workspace; /* from the allocator: TransformerEngine and the like, RoPE tables */
    struct sp_figure collective_buffers;  /* NCCL, outside the allocator, per communicator in use inside a node */
    struct sp_figure allocator_slack;     /* reserved over allocated, minus one */
    struct sp_figure bucket_bytes;        /* gradient bucket in flight (ZeRO 1, 2) */
    struct sp_figure time_spread;   /* relative standard deviation of step times beyond what the figures explain */
    struct sp_figure memory_spread; /* the same of peak_allocated_bytes: dense layers trained in full in bf16 */
    struct sp_figure memory_spread_beyond; /* experts, other precisions, adapters, offload */
};

/* kernels/elementwise: traffic of one layer in passes over a tensor (one pass = its bytes read or written once). */
struct kernels_spec {
    const char *schema;
    const char *name;
    const char *title;
    const char *source;
    struct sp_figure forward_hidden_passes; /* of a hidden tensor 2Th: norms, residual additions */
    struct sp_figure forward_ffn_passes;    /* of 2Tf: gate, product */
    struct sp_figure forward_rope_passes;   /* of q and k */
    struct sp_figure backward_hidden_passes;
    struct sp_figure backward_ffn_passes;
    struct sp_figure backward_rope_passes;
    struct sp_figure backward_qkv_passes; /* of q, k and v: concatenation of their gradients */
    struct sp_figure forward_kernels;     /* kernels launched per layer */
    struct sp_figure backward_kernels;
    struct sp_figure saved_ffn_tensors; /* kept for backward: 3 (gate, up, product) or 4 (silu(gate) too) */
};

/* losses/NAME.json: output layer and cross entropy. */
struct loss_spec {
    const char *schema;
    const char *name;
    const char *title;
    const char *source;
    struct sp_figure forward_bytes_per_logit; /* HBM traffic of the loss kernels */
    struct sp_figure backward_bytes_per_logit;
    struct sp_figure peak_bytes_per_logit;     /* held at once at the loss moment, bf16 logits included */
    struct sp_figure gradient_bytes_per_logit; /* held while the head's backward runs */
    bool recomputes_logits;                    /* the head GEMM runs again in backward */
};

struct software_spec {
    struct framework_spec framework;
    struct kernels_spec kernels;
    struct loss_spec loss;
};
/* What --set reaches in a struct software_spec: "framework", "kernels", "loss" and what is inside. */
extern const struct sp_field software_fields[];
bool framework_read(struct sp_arena *arena, enum framework_id framework, struct framework_spec *spec,
                    struct sp_error *err) SP_MUST_CHECK;
bool kernels_read(struct sp_arena *arena, enum kernels_id kernels, struct kernels_spec *spec,
                  struct sp_error *err) SP_MUST_CHECK;
/* name: of a file in frameworks/losses. */
bool loss_read(struct sp_arena *arena, const char *name, struct loss_spec *spec, struct sp_error *err) SP_MUST_CHECK;

/* ---- claims (claim_bounds.c) ------------------------------------------------------------------------------------ */

/* claims/bounds/published.json: how far published steps lie from the model. */
struct claim_bounds {
    const char *schema;
    const char *name;
    const char *title;
    const char *source;
    struct sp_figure step_time_factor; /* measured over predicted; low and high hold nine of ten */
};
bool claim_bounds_read(struct sp_arena *arena, struct claim_bounds *bounds, struct sp_error *err) SP_MUST_CHECK;

/* ---- run -------------------------------------------------------------------------------------------------------- */

enum mask_kind { MASK_MODEL, MASK_CAUSAL, MASK_FULL, MASK_WINDOW }; /* of the model: causal, with its own windows */

struct run_spec {
    int64_t gpus;
    int64_t nodes; /* nodes in use, the last one possibly in part */
    int64_t seq;
    int64_t global_batch; /* sequences per optimizer step over the cluster */
    enum mask_kind mask;
    int64_t window;          /* MASK_WINDOW: every layer's */
    int64_t document_tokens; /* mean length of the documents packed into a sequence; 0: one document */
    int64_t lora_rank;       /* --train lora:R; 0: full training */
    int64_t run_tokens;      /* --tokens: of a whole run; 0: not asked */
    bool is_mlp_tiled;
    bool is_attention_only;     /* --only attention */
    bool counts_full_attention; /* --flops full */
    enum dtype parameter_dtype; /* as stored */
    enum dtype gradient_dtype;
    enum dtype moment_dtype;
    bool has_master_weights;
    enum loss_id loss;
    int64_t loss_chunk; /* tokens */
    bool is_vocab_parallel;
    bool expands_kv;
};

/* ---- layout ----------------------------------------------------------------------------------------------------- */

enum method_id {
    METHOD_NONE,
    METHOD_NAIVE,
    METHOD_ALLGATHER,
    METHOD_ULYSSES,
    METHOD_RING,
    METHOD_ZIGZAG,
    METHOD_STRIPED,
    METHOD_USP,
    METHOD_DOUBLE_RING,
    METHOD_FUSED_RING,
    N_METHODS
};
extern const char *const method_names[];
enum schedule_id {
    SCHEDULE_GPIPE,
    SCHEDULE_1F1B,
    SCHEDULE_INTERLEAVED,
    SCHEDULE_ZB_H1,
    SCHEDULE_ZBV,
    SCHEDULE_DUALPIPE,
    N_SCHEDULES
};
extern const char *const schedule_names[];
enum recompute_kind { RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL, RECOMPUTE_BLOCK };
enum axis { AXIS_TP, AXIS_CP, AXIS_EP, AXIS_DP, AXIS_PP, N_AXES };
extern const char
    *const axis_names[]; /* "tp", "cp", "ep", "dp", "pp": names of layout.order; the cp axis is "sp" in answers */
enum tier { TIER_NONE, TIER_NVLINK, TIER_PCIE, TIER_NETWORK, TIER_MIXED };
extern const char *const tier_names[]; /* "none", "nvlink", "pcie", "network", "mixed" */
enum pp_layers_kind { PP_LAYERS_EVEN, PP_LAYERS_AUTO, PP_LAYERS_PADDED, PP_LAYERS_EXPLICIT };

struct layout_spec {
    int64_t tp, sp, pp, vpp, dp, ep, etp;
    int64_t sp_ulysses; /* Ulysses degree inside sp: sp for ulysses, 1 for rings */
    int64_t sp_inner;   /* inner ring of double-ring; else 1 */
    int64_t micro_batch;
    enum method_id method;
    enum framework_id framework;
    enum schedule_id schedule;
    enum recompute_kind recompute;
    int64_t recompute_layers; /* RECOMPUTE_BLOCK: layers per stage */
    int zero;                 /* 0 to 3 */
    enum dtype precision;
    const char *attention; /* name of the kernel's curve */
    enum kernels_id kernels;
    bool has_tp_sp;
    bool offloads_activations, offloads_optimizer, offloads_parameters;
    enum axis order[N_AXES]; /* fastest first */
    enum pp_layers_kind pp_layers;
    int64_t n_stage_layers; /* PP_LAYERS_EXPLICIT: pp values */
    const int64_t *stage_layers;
};

/* Layers of one stage, 0-based. auto: spread, the remainder on the middle stages, so that the first and the last (which
 * also hold embedding and loss) stay light; padded: embedding and loss counted as one layer each. */
int64_t layout_stage_layers(const struct layout_spec *layout, const struct model_spec *model, int64_t stage);
/* The first layer of a stage. With vpp > 1 a stage holds vpp chunks; layers are then counted chunk by chunk and kinds are
 * taken as spread alike. */
int64_t layout_stage_first(const struct layout_spec *layout, const struct model_spec *model, int64_t stage);
/* "none" or "activations,optimizer": as --offload takes it. */
const char *layout_offload_text(struct sp_arena *arena, const struct layout_spec *layout);

/* Values of options with a grammar (option_text.c); errors do not name the option. */
bool recompute_parse(const char *text, enum recompute_kind *kind, int64_t *layers, struct sp_error *err) SP_MUST_CHECK;
bool order_parse(struct sp_arena *arena, const char *text, enum axis order[N_AXES],
                 struct sp_error *err) SP_MUST_CHECK; /* "tp-cp-ep-dp-pp" */
bool offload_parse(struct sp_arena *arena, const char *text, struct layout_spec *layout,
                   struct sp_error *err) SP_MUST_CHECK; /* "activations,optimizer" */

/* Where an axis' groups lie when ranks map to GPUs in layout.order (docs/model.md, "placement"). */
struct group_placement {
    int64_t size;           /* ranks in a group */
    int64_t stride;         /* GPUs between neighbours of the group */
    int64_t nodes;          /* nodes (NVLink domains) that the widest group spans */
    int64_t ranks_per_node; /* of that group in a domain: size / nodes, rounded up */
    enum tier tier;
};
struct group_placement layout_placement(const struct layout_spec *layout, const struct hardware_spec *hardware,
                                        enum axis axis);
/* Part of an axis' groups: every `step`-th rank of them, `size` ranks: (size 4, step 1) are the neighbours of an
 * all-to-all inside usp, (size P/4, step 4) the ring between. */
struct group_placement layout_part_placement(const struct layout_spec *layout, const struct hardware_spec *hardware,
                                             enum axis axis, int64_t size, int64_t step);
/* Groups of the expert grid, which lies over the same ranks without the sp axis: rank = etp + ETP (ep + EP (edp + ...)),
 * pp where the order has it. AXIS_TP: the etp group, AXIS_EP: the ep group, AXIS_DP: the edp group that shards the
 * experts' optimizer state. */
/* Whether pp x ep x etp divides the ranks: layout_expert_placement asks for it. */
bool layout_splits_experts(const struct layout_spec *layout);
struct group_placement layout_expert_placement(const struct layout_spec *layout, const struct hardware_spec *hardware,
                                               enum axis axis);
/* Whether the ranks of a group of experts all belong to one stage, which some orders of a pipeline break. Megatron-LM refuses
 * those: it wants equal pipeline groups of both grids (core/parallel_state.py). */
bool layout_expert_stages_agree(const struct layout_spec *layout, const struct model_spec *model,
                                const struct hardware_spec *hardware);
/* The dp x sp group that shards gradients and optimizer state. */
struct group_placement layout_shard_placement(const struct layout_spec *layout, const struct hardware_spec *hardware);

/* ---- question (request.c, layout_file.c, defaults.c, assumed.c, rules.c) ---------------------------------------- */

extern const char *const flops_names[]; /* --flops: "causal", "full" */

/* What the user asked for, as typed; any member may be absent (NULL, is_given false, -1 for choices). */
struct request {
    const char *model, *hardware, *network;
    struct sp_option_count gpus, nodes, seq, micro_batch;
    struct sp_option_count tp, sp, sp_ulysses, sp_inner, pp, vpp, dp, ep, etp, documents, tokens;
    const char *global_batch;                                         /* "64" or "16Mtok" */
    int method, framework, schedule, precision, kernels, flops, mode; /* enum values or -1 */
    int tp_sp;                                                        /* 0 off, 1 on, -1 */
    int zero;                                                         /* 0 to 3, or -1 */
    const char *pp_layers, *recompute, *offload, *attention, *mask, *train, *layout_file;
    const char *only;        /* "attention" */
    struct sp_texts set;     /* "path=value" */
    size_t n_layout_set;     /* as many at its start are the layout's own (run, order), which nobody overrode */
    bool is_other_network;   /* what an answer read by --layout overrode of its network is not about this one */
    struct sp_texts assumed; /* what an answer read by --layout had assumed, and its values therefore still are */
};
extern const int64_t largest_micro_batch; /* more is refused */
void request_init(struct request *request, struct sp_arena *arena);

/* A request made complete and legal: everything that is needed to price one layout. */
struct question {
    struct sp_arena *arena;
    struct model_spec model;
    struct hardware_spec hardware;
    struct software_spec software;
    struct run_spec run;
    struct layout_spec layout;
    struct sp_texts set;      /* overrides in use, "path=value": the last of each path, in order */
    struct sp_texts warnings; /* text for the user, each says what to do */
    struct sp_texts assumed;  /* names of inputs that were defaulted or are not calibrated */
};

/* Loads the inputs and fills in the contract's defaults; rules are checked by step_check() (step/step.h), which calls
 * layout_check() and the method's own. Errors: SP_ERROR_USAGE for options, SP_ERROR_INPUT for files. */
bool question_resolve(const struct request *request, struct sp_arena *arena, struct question *question,
                      struct sp_error *err) SP_MUST_CHECK;
/* "run" and what is inside: the paths of --set run.KEY=VALUE (offsets are private to this layer). */
extern const struct sp_field run_fields[];
/* The rules that do not depend on the attention method: degrees, layers, sequence, heads over tp, batch, features not
 * built yet. Every broken rule is added with sp_fail_rule(); warnings go to the question. True when all hold. */
bool layout_check(struct question *question, struct sp_error *err);

/* One theme of layout_check(), for who checks many layouts that share what it reads. tp x sp x pp x dp must be the
 * cluster. software: method, framework, zero, offload. degrees: method, framework, tp, sp and its parts. experts: tp, pp,
 * ep, etp. sequence: method, framework, sp, tp, micro-batch. pipeline: framework, pp, split of layers, schedule, vpp, dp,
 * micro-batch, recomputation. */
enum rule_theme { RULES_SOFTWARE, RULES_DEGREES, RULES_EXPERTS, RULES_SEQUENCE, RULES_PIPELINE, N_RULE_THEMES };
bool layout_check_theme(struct question *question, enum rule_theme theme, struct sp_error *err);

/* The framework's own: what estimate prices with a warning, plan leaves out and launch refuses. NULL when the framework
 * runs the layout, else why it does not. Copies into the question's arena. */
const char *framework_refusal(const struct question *question);
/* The part of it that depends on recomputation: whether activations can go to the host under the layout's. */
bool framework_offloads_activations(const struct framework_spec *framework, enum recompute_kind recompute);
bool framework_has_schedule(const struct framework_spec *framework, enum schedule_id schedule);

/* The question of another layout on the same inputs: a copy of `base` with its layout replaced, and what it assumes and
 * warns of anew. `request` says what was given (only whether is read). */
void question_with_layout(const struct question *base, const struct request *request, const struct layout_spec *layout,
                          struct sp_arena *arena, struct question *question);

/* Legal (method, framework) pairs: the contract's table, complete; building a pair is method/traits.c. */
bool pair_is_legal(enum method_id method, enum framework_id framework);
enum framework_id method_home(enum method_id method);

/* ---- data files (data_path.c) ----------------------------------------------------------------------------------- */

/* Folders searched for data, in order: SEQPLAN_PATH (colon-separated), the checkout of the running program, then
 * PREFIX/share/seqplan. kind: "models", "hardware", "hardware/networks", ... */
/* A name is looked up in every folder; anything with a '/' or ending in ".json" is a path. Unknown: SP_ERROR_INPUT with
 * the nearest name. Returns the path or NULL. */
const char *data_find(struct sp_arena *arena, const char *kind, const char *name_or_path, struct sp_error *err);
/* Names of a kind, sorted, without ".json". */
void data_names(struct sp_arena *arena, const char *kind, struct sp_texts *names);
/* The folder of the running program; NULL where the system does not tell. */
const char *data_program_folder(struct sp_arena *arena);

/* ---- measurements (measurement.c) ------------------------------------------------------------------------------- */

/* What was timed on a machine, as the device program prints it and measurement files hold it: one JSON object a line
 * (docs/measure.md). */
enum measurement_group {
    MEASUREMENT_COPY,
    MEASUREMENT_GEMM,
    MEASUREMENT_ATTENTION,
    MEASUREMENT_ELEMENTWISE,
    MEASUREMENT_OPTIMIZER,
    MEASUREMENT_COLLECTIVE,
    MEASUREMENT_LATENCY,
    MEASUREMENT_METHOD,
    MEASUREMENT_LAYER,
    MEASUREMENT_STEP, /* whole training steps of a framework's log; no device program measures it */
    N_MEASUREMENT_GROUPS
};
extern const char *const measurement_group_names[]; /* "copy", ..., NULL */

enum measurement_kind {
    MEASUREMENT_RUN,     /* whose lines they are: of files that seqplan wrote */
    MEASUREMENT_MACHINE, /* where they were made */
    MEASUREMENT_PLAN,    /* how many will come */
    MEASUREMENT_TIMED,
    MEASUREMENT_REFUSED, /* could not be measured cleanly */
    MEASUREMENT_DONE
};

struct measurement {
    enum measurement_kind kind;
    const struct sp_json *json; /* the whole line */

    /* Timed or refused. */
    enum measurement_group group;
    const char *key;    /* unique in a run */
    const char *reason; /* of a refusal */

    /* Timed. */
    const struct sp_json *parameters; /* numbers and texts */
    double median_s, min_s, low_s, high_s;
    int64_t count;                              /* of timed runs */
    double flop, bytes;                         /* 0: none */
    double sm_clock_hz, power_w, temperature_c; /* 0: not known */
    const char *throttle;                       /* "none", or what slowed the GPU down */

    int64_t total; /* of a plan */

    /* Of a run. */
    const char *run_key;
    const char *profile;
    const char *version;
};

enum { MEASUREMENT_LINE_BYTES = 65536, MEASUREMENT_KEY_BYTES = 512 };

/* Reads a line. The error is the reason alone, without a place (SP_ERROR_INPUT). Copies into arena. */
bool measurement_parse(struct sp_arena *arena, const char *text, size_t length, struct measurement *line,
                       struct sp_error *err) SP_MUST_CHECK;
/* Whether two lines of a machine are of one: all the same but when it was and how the clocks stood. */
bool measurement_is_same_machine(const struct sp_json *a, const struct sp_json *b);

#endif
