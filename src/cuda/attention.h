// Attention of one block of queries against one block of keys, forward and backward, on a GPU: what a ring step, an
// all-gather or a single device needs. Tensors are bf16, [token][head][column], without gaps. See README.md.
#ifndef SEQPLAN_CUDA_ATTENTION_H
#define SEQPLAN_CUDA_ATTENTION_H

#include <cuda_runtime.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum attention_path {
    ATTENTION_BEST,    // Hopper where the GPU is one, otherwise portable
    ATTENTION_HOPPER,  // wgmma and the tensor copy engine: compute capability 9.0
    ATTENTION_PORTABLE // mma.sync and cp.async: compute capability 8.0 and newer
};

// With `causal`, query i sees key j where k_offset + j <= q_offset + i. The offsets are positions in the whole sequence,
// so that a block of a ring step, a half of a zig-zag chunk (two calls) or a striped shard (offsets 0 and 0, or 0 and 1)
// is the same kernel. Query heads are a multiple of kv heads; head_dim is 64 or 128.
struct attention_block {
    int q_tokens, k_tokens;
    int q_heads, kv_heads, head_dim;
    bool causal;
    int64_t q_offset, k_offset;
    float scale; // of the scores: 1 / sqrt(head_dim) is usual
    enum attention_path path;
    bool no_maximum; // for the tests: softmax without its running maximum, wrong for large logits; portable path only
};

// Where a block's result goes. Plain: `o` and `lse` are overwritten; a query that sees no key gets zeros and -infinity.
// Accumulating (`o_sum` set, `o` not): the result is merged into what `o_sum` and `lse` hold, exactly as if both sets of
// keys had been one; start with zeros and -infinity (attention_clear).
struct attention_output {
    void *o;      // bf16 [q_tokens][q_heads][head_dim]
    float *o_sum; // float32, the same shape
    float *lse;   // [q_heads][lse_pitch], natural logarithm of the sum of the exponentials of a row's scores
    int64_t lse_pitch;
};

// Gradients. `dq_sum` is scratch of attention_dq_bytes(), in an order of its own, added to by every block of the same
// queries; clear it first, read it with attention_dq_finish(). dk and dv are overwritten in bf16, or, when dk_sum and
// dv_sum are set, added to these (float32, [k_tokens][kv_heads][head_dim]).
struct attention_gradients {
    float *dq_sum;
    void *dk, *dv;
    float *dk_sum, *dv_sum;
};

#ifdef __cplusplus
extern "C" {
#endif

// Every function only launches; errors are those of the launch, or cudaErrorInvalidValue, cudaErrorNotSupported.
cudaError_t attention_forward(const struct attention_block *b, const void *q, const void *k, const void *v,
                              const struct attention_output *out, cudaStream_t stream);

// o_sum = 0, lse = -infinity.
cudaError_t attention_clear(const struct attention_block *b, const struct attention_output *out, cudaStream_t stream);
// Merges a plain result (bf16 `partial`, `partial_lse` with the same pitch) into an accumulating one.
cudaError_t attention_merge(const struct attention_block *b, const void *partial, const float *partial_lse,
                            const struct attention_output *into, cudaStream_t stream);
// n float32 values as bf16.
cudaError_t attention_round(const float *from, void *to, size_t n, cudaStream_t stream);

// What the backward pass needs of each row of the whole softmax: its log-sum-exp and delta = sum of dO * O, in scratch of
// attention_rows_bytes(). Once for a block of queries, however many blocks of keys follow.
size_t attention_rows_bytes(const struct attention_block *b);
cudaError_t attention_rows(const struct attention_block *b, const void *o, const void *d_o, const float *lse,
                           int64_t lse_pitch, void *rows, cudaStream_t stream);

size_t attention_dq_bytes(const struct attention_block *b);
cudaError_t attention_backward(const struct attention_block *b, const void *q, const void *k, const void *v,
                               const void *d_o, const void *rows, const struct attention_gradients *gradients,
                               cudaStream_t stream);
cudaError_t attention_dq_finish(const struct attention_block *b, const float *dq_sum, void *dq, cudaStream_t stream);

// Pairs of query and key that the mask leaves.
double attention_pairs(const struct attention_block *b);

#ifdef __cplusplus
}
#endif

#endif
