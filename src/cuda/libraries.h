// cuBLASLt and NCCL, opened when the program runs, so that it starts without them and says what it lacks. Their headers
// are needed to build these parts; without them the functions here answer NULL.
#ifndef SEQPLAN_CUDA_LIBRARIES_H
#define SEQPLAN_CUDA_LIBRARIES_H

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>
#define HAVE_CUBLASLT 1
struct cublaslt_api {
    decltype(&cublasLtCreate) create;
    decltype(&cublasLtDestroy) destroy;
    decltype(&cublasLtMatmul) matmul;
    decltype(&cublasLtMatmulDescCreate) desc_create;
    decltype(&cublasLtMatmulDescSetAttribute) desc_set;
    decltype(&cublasLtMatmulDescDestroy) desc_destroy;
    decltype(&cublasLtMatrixLayoutCreate) layout_create;
    decltype(&cublasLtMatrixLayoutDestroy) layout_destroy;
    decltype(&cublasLtMatmulPreferenceCreate) preference_create;
    decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set;
    decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy;
    decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
    decltype(&cublasLtGetVersion) version;
};
const struct cublaslt_api *cublaslt_api(void); // NULL: not found
#endif

#if __has_include(<nccl.h>)
#include <nccl.h>
#define HAVE_NCCL 1
struct nccl_api {
    decltype(&ncclGetVersion) version;
    decltype(&ncclGetErrorString) error_string;
    decltype(&ncclCommInitAll) init_all;
    decltype(&ncclCommDestroy) destroy;
    decltype(&ncclGroupStart) group_start;
    decltype(&ncclGroupEnd) group_end;
    decltype(&ncclAllGather) all_gather;
    decltype(&ncclReduceScatter) reduce_scatter;
    decltype(&ncclAllReduce) all_reduce;
    decltype(&ncclSend) send;
    decltype(&ncclRecv) recv;
};
const struct nccl_api *nccl_api(void); // NULL: not found
#endif

// "2.28.3", or "" without the library.
void nccl_version_text(char *to, unsigned long size);

#endif
