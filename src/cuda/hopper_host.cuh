// Tensor maps of [token][head][column], for the copy engine.
#ifndef SEQPLAN_CUDA_HOPPER_HOST_CUH
#define SEQPLAN_CUDA_HOPPER_HOST_CUH

#include "attention_device.cuh"
#include "hopper.cuh"

// A box is `rows` tokens of one head and 64 columns, swizzled as the matrix instruction reads it.
cudaError_t tensor_map(CUtensorMap *map, const void *data, int tokens, int heads, int head_dim, int rows);

#endif
