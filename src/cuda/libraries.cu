#include "libraries.h"

#include <dlfcn.h>
#include <stdio.h>

#define STRING_OF(x) #x
#define TEXT_OF(x) STRING_OF(x)

// Each function of a library, or nothing at all.
#define FIND(api, field, name)                                                                                         \
    do {                                                                                                               \
        (api).field = (decltype((api).field))dlsym(library, name);                                                     \
        if (!(api).field)                                                                                              \
            return NULL;                                                                                               \
    } while (0)

#if HAVE_CUBLASLT
const struct cublaslt_api *cublaslt_api(void)
{
    static struct cublaslt_api api;
    static void *library;
    if (library)
        return &api;
    library = dlopen("libcublasLt.so." TEXT_OF(CUBLAS_VER_MAJOR), RTLD_NOW);
    if (!library)
        library = dlopen("/usr/local/cuda/lib64/libcublasLt.so." TEXT_OF(CUBLAS_VER_MAJOR), RTLD_NOW);
    if (!library)
        return NULL;
    FIND(api, create, "cublasLtCreate");
    FIND(api, destroy, "cublasLtDestroy");
    FIND(api, matmul, "cublasLtMatmul");
    FIND(api, desc_create, "cublasLtMatmulDescCreate");
    FIND(api, desc_set, "cublasLtMatmulDescSetAttribute");
    FIND(api, desc_destroy, "cublasLtMatmulDescDestroy");
    FIND(api, layout_create, "cublasLtMatrixLayoutCreate");
    FIND(api, layout_destroy, "cublasLtMatrixLayoutDestroy");
    FIND(api, preference_create, "cublasLtMatmulPreferenceCreate");
    FIND(api, preference_set, "cublasLtMatmulPreferenceSetAttribute");
    FIND(api, preference_destroy, "cublasLtMatmulPreferenceDestroy");
    FIND(api, heuristic, "cublasLtMatmulAlgoGetHeuristic");
    FIND(api, version, "cublasLtGetVersion");
    return &api;
}
#endif

#if HAVE_NCCL
const struct nccl_api *nccl_api(void)
{
    static struct nccl_api api;
    static void *library;
    if (library)
        return &api;
    library = dlopen("libnccl.so.2", RTLD_NOW);
    if (!library)
        library = dlopen("/usr/local/cuda/lib64/libnccl.so.2", RTLD_NOW);
    if (!library)
        return NULL;
    FIND(api, version, "ncclGetVersion");
    FIND(api, error_string, "ncclGetErrorString");
    FIND(api, init_all, "ncclCommInitAll");
    FIND(api, destroy, "ncclCommDestroy");
    FIND(api, group_start, "ncclGroupStart");
    FIND(api, group_end, "ncclGroupEnd");
    FIND(api, all_gather, "ncclAllGather");
    FIND(api, reduce_scatter, "ncclReduceScatter");
    FIND(api, all_reduce, "ncclAllReduce");
    FIND(api, send, "ncclSend");
    FIND(api, recv, "ncclRecv");
    return &api;
}
#endif

void nccl_version_text(char *to, unsigned long size)
{
    to[0] = 0;
#if HAVE_NCCL
    int version = 0;
    if (nccl_api() && nccl_api()->version(&version) == ncclSuccess) // 22803 is 2.28.3
        snprintf(to, size, "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
#endif
}
