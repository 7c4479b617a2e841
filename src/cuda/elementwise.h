// The kernels of a transformer layer that only move memory, in the fused forms that training uses. bf16 in and out,
// float32 inside. Widths are multiples of 8. Every function only launches.
#ifndef SEQPLAN_CUDA_ELEMENTWISE_H
#define SEQPLAN_CUDA_ELEMENTWISE_H

#include <cuda_runtime.h>
#include <stddef.h>

#define RMSNORM_MAX_HIDDEN 16384
#define RMSNORM_PARTIALS                                                                                               \
    528 // rows of the scratch of the weight's gradient: four blocks for each of 132 multiprocessors

// y = x / sqrt(mean(x^2) + epsilon) * weight; rstd [tokens] is kept for the backward pass. With `residual`, x + residual
// is normalised, and written to `sum`.
struct rmsnorm {
    int tokens, hidden;
    float epsilon;
    const void *x, *residual, *weight;
    void *sum, *y;
    float *rstd;
};
cudaError_t rmsnorm_forward(const struct rmsnorm *n, cudaStream_t stream);

// x is what was normalised. dx is added to `residual`, the gradient that passes by, where there is one; d_weight is
// float32 [hidden], `partials` scratch of RMSNORM_PARTIALS rows of it.
struct rmsnorm_gradient {
    int tokens, hidden;
    const void *x, *weight, *dy, *residual;
    const float *rstd;
    void *dx;
    float *partials, *d_weight;
};
cudaError_t rmsnorm_backward(const struct rmsnorm_gradient *n, cudaStream_t stream);

// gate_up [tokens][2 * ffn], the gates first: y = silu(gate) * up.
cudaError_t swiglu_forward(const void *gate_up, void *y, int tokens, int ffn, cudaStream_t stream);
cudaError_t swiglu_backward(const void *gate_up, const void *dy, void *d_gate_up, int tokens, int ffn,
                            cudaStream_t stream);

// In place over [tokens][heads][head_dim]; column i turns with column i + head_dim / 2. cos_sin: float32
// [tokens][2][head_dim / 2]. direction -1 is the backward pass.
struct rotary {
    int tokens, heads, head_dim, direction;
    void *x;
    const float *cos_sin;
};
cudaError_t rotary_run(const struct rotary *r, cudaStream_t stream);

cudaError_t residual_add(const void *x, const void *y, void *z, size_t n, cudaStream_t stream);
cudaError_t cast_to_bf16(const float *x, void *y, size_t n, cudaStream_t stream);
cudaError_t cast_to_float(const void *x, float *y, size_t n, cudaStream_t stream);

// One step of Adam with decoupled weight decay over float32 masters and moments; the bf16 weights are written along.
// The gradient is float32 or bf16.
struct adam {
    size_t n; // a multiple of 4
    float *master, *first, *second;
    void *weight;
    const void *gradient;
    bool gradient_float;
    float rate, beta1, beta2, epsilon, decay;
    int step; // from 1
};
cudaError_t adam_step(const struct adam *a, cudaStream_t stream);

#endif
