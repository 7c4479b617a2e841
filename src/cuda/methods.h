// Attention over the ranks of a group, forward and backward, one way for each method: the ranks are GPUs of this node,
// joined by NCCL, or virtual, all on one GPU or one of them alone, a transfer then being a local copy of the same bytes
// on the second stream. One host thread queues the work of every rank, step by step, so that no rank can be at another
// collective than its peers. See README.md.
#ifndef SEQPLAN_CUDA_METHODS_H
#define SEQPLAN_CUDA_METHODS_H

#include "attention.h"

#define METHOD_MAX_RANKS 64

enum method_kind { METHOD_ALLGATHER, METHOD_ULYSSES, METHOD_RING, METHOD_ZIGZAG, METHOD_STRIPED, METHOD_KINDS };

struct method_shape {
    enum method_kind kind;
    int ranks, tokens; // of the whole sequence
    int q_heads, kv_heads, head_dim;
    bool causal;
    bool gradient_float; // gradients of keys and values travel in float32, otherwise in bf16
    enum attention_path path;
};

const char *method_name(enum method_kind kind);
// "", or why the sequence or the heads cannot be cut this way.
const char *method_refusal(const struct method_shape *s);
// Where token i of a rank's shard is in the sequence.
int64_t method_position(const struct method_shape *s, int rank, int i);
// Pairs of query and key that a rank computes in a pass, and bytes that reach it from others.
double method_pairs(const struct method_shape *s, int rank);
double method_bytes(const struct method_shape *s, bool backward);

// bf16, [tokens / ranks][heads][head_dim]. Keys and values are one piece, keys first, and so are their gradients.
struct method_tensors {
    void *q, *kv, *o, *d_o, *dq, *d_kv;
};

struct method_rank {
    int rank, gpu;
    cudaStream_t compute, copy;
    struct method_tensors t;

    float *lse, *o_sum;
    void *kv[2], *part, *travel[2]; // double buffers of a ring; gradients of one step; gradients on their way
    void *rows[2], *late_dq;        // of all queries, and of the second half of a zig-zag shard
    float *dq_sum[2];
    char *gathered, *whole; // all-gather: in order of the ranks, in order of the sequence
    float *whole_sum;       // its gradients, in order of the sequence
    void *sent, *received;  // Ulysses: packed; then heads of the whole sequence, and their gradients
    void *q_heads, *kv_heads, *o_heads, *d_o_heads, *dq_heads, *dkv_heads;

    cudaEvent_t done, arrived[2]; // this rank's last step; what came in odd and even steps
};

struct nccl_group; // communicators of the GPUs

struct method_run {
    struct method_shape shape;
    int present; // ranks whose work is queued: all, or one that stands for its peers in every transfer
    struct method_rank *at;
    struct nccl_group *nccl; // NULL: virtual
    bool no_transfers;       // attention alone, on whatever the buffers hold
    bool no_attention;       // transfers and what comes with them
    cudaEvent_t *marks; // optional: recorded on the first rank's compute stream, before the first step and after each
    int max_marks, n_marks;
};

// `alloc` gives memory of a GPU; the tensors of `t` are given as well where they are NULL. false: none was left.
typedef void *(*method_alloc)(void *context, int gpu, size_t bytes);
bool method_rank_create(struct method_rank *r, const struct method_shape *s, method_alloc alloc, void *context);
void method_rank_destroy(struct method_rank *r);

// Only queue. Backward needs what the forward pass of the same input left.
cudaError_t method_forward(struct method_run *m);
cudaError_t method_backward(struct method_run *m);

// ---- transfers: transport.cu -------------------------------------------------------------------------------------------

// For GPUs 0 to n - 1. NULL: `why` says what is missing.
struct nccl_group *nccl_group_open(int gpus, const char **why);
void nccl_group_close(struct nccl_group *g);

struct transfer {
    struct method_rank *from, *to;
    const void *source;
    void *target;
    size_t bytes;
};
// On the copy streams, as one NCCL group; between any two ranks in the order of the list.
cudaError_t transfer_all(struct method_run *m, const struct transfer *t, int n);
// Shards of `bytes` at `source` of every rank to `gathered` of every rank; and the sum over ranks of piece r of `source`
// to `target` of rank r (`count` elements a piece, float32 or bf16).
cudaError_t transfer_gather(struct method_run *m, size_t bytes);
cudaError_t transfer_reduce_scatter(struct method_run *m, size_t count, bool is_float);
// The rank of this number, or the one that stands for it.
struct method_rank *method_peer(struct method_run *m, int rank);

// Kills the program, saying `what` hung, unless stopped within the time. One at a time.
void watchdog_start(const char *what, unsigned seconds);
void watchdog_stop(void);

// ---- kernels: method_kernels.cu ----------------------------------------------------------------------------------------

// to += from, or to = from: two runs of n elements each, `pitch` elements apart.
struct accumulate {
    const void *from;
    void *to;
    size_t n, pitch;
    bool from_float, to_float, set;
};
cudaError_t accumulate_run(const struct accumulate *a, cudaStream_t stream);

// Keys and values between the order of a gather, [rank][2][shard][row], and that of the sequence, [2][tokens][row], for
// zig-zag shards; `row` elements a token. The way back takes float32 sums.
struct reorder {
    int ranks, tokens, row;
};
cudaError_t reorder_to_sequence(const struct reorder *o, const void *from, void *to, cudaStream_t stream);
cudaError_t reorder_to_ranks(const struct reorder *o, const float *from, void *to, bool to_float, cudaStream_t stream);

// Heads of a shard, [tokens][heads][dim], into a piece for each rank, [ranks][tokens][heads of a rank][dim], and back.
// With fewer heads than ranks a head goes to several; their gradients are summed on the way back.
struct head_split {
    int ranks, tokens, heads, head_dim;
};
cudaError_t heads_pack(const struct head_split *h, const void *from, void *to, cudaStream_t stream);
cudaError_t heads_unpack(const struct head_split *h, const void *from, void *to, cudaStream_t stream);

// qkv [tokens][q_heads + 2 kv_heads][dim] to q and kv, queries and keys turned by their positions (cos_sin as in
// elementwise.h), and gradients the other way, turned back.
struct split_rotary {
    int tokens, q_heads, kv_heads, head_dim;
    void *qkv, *q, *kv;
    const float *cos_sin;
    bool back;
};
cudaError_t split_rotary_run(const struct split_rotary *s, cudaStream_t stream);

#endif
