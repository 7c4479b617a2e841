// One matrix product through cuBLASLt, bf16 in and out, float32 sums: the algorithm that its heuristic names first, as
// training frameworks take it.
#ifndef SEQPLAN_CUDA_GEMM_H
#define SEQPLAN_CUDA_GEMM_H

#include "measure.h"

#include <cuda_runtime.h>
#include <stddef.h>

#define GEMM_WORKSPACE_BYTES (64u << 20)

// The three products of a linear layer y = x w^T over `tokens` rows; x [tokens][in], w [out][in], y [tokens][out].
enum gemm_pass { GEMM_FORWARD, GEMM_INPUT_GRADIENT, GEMM_WEIGHT_GRADIENT };

struct gemm {
    struct gemm_plan *plan;
    void *workspace; // GEMM_WORKSPACE_BYTES
};

// For the current GPU. "" or why not.
const char *gemm_open(struct gemm *g, enum gemm_pass pass, int tokens, int in, int out);
// forward: to = y, a = x, b = w; input gradient: to = dx, a = dy, b = w; weight gradient: to = dw, a = dy, b = x.
cudaError_t gemm_run(const struct gemm *g, const void *a, const void *b, void *to, cudaStream_t stream);
void gemm_close(struct gemm *g);

#endif
