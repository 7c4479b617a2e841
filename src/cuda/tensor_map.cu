// Tensor maps, through the driver's entry point: the program links with the runtime alone.
#include "hopper_host.cuh"

typedef CUresult (*encode_fn)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *,
                              const cuuint64_t *, const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave,
                              CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

#define FIRST_VERSION 12000 // of CUDA, with tensor maps

cudaError_t tensor_map(CUtensorMap *map, const void *data, int tokens, int heads, int head_dim, int rows)
{
    void *symbol = NULL;
    cudaDriverEntryPointQueryResult found;
    cudaError_t error =
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &symbol, FIRST_VERSION, cudaEnableDefault, &found);
    cuuint64_t extents[3] = {(cuuint64_t)head_dim, (cuuint64_t)heads, (cuuint64_t)tokens};
    cuuint64_t strides[2] = {(cuuint64_t)head_dim * 2, (cuuint64_t)heads * (cuuint64_t)head_dim * 2};
    cuuint32_t box[3] = {TILE_COLUMNS, 1, (cuuint32_t)rows}, steps[3] = {1, 1, 1};

    if (error != cudaSuccess)
        return error;
    if (found != cudaDriverEntryPointSuccess)
        return cudaErrorNotSupported;
    CUresult result = ((encode_fn)symbol)(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3, (void *)data, extents, strides, box,
                                          steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                          CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}
