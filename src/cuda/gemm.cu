#include "gemm.h"

#include "libraries.h"

#include <stdlib.h>

#if HAVE_CUBLASLT

struct gemm_plan {
    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t left, right, result;
    cublasLtMatmulAlgo_t algorithm;
};

// Row-major matrices are the transposes of cuBLASLt's column-major ones: y^T = w x^T, dx^T = w^T dy^T, dw^T = x^T dy; so
// that `b` is always on the left. `rows` and `columns` are those of the matrix as it is stored, column-major.
struct side {
    bool transposed;
    int rows, columns;
};

static void sides_of(enum gemm_pass pass, int tokens, const int size[2], struct side *left, struct side *right)
{
    int in = size[0], out = size[1];
    struct side weight = {pass == GEMM_FORWARD, in, out}, input = {false, in, tokens};
    struct side gradient = {pass == GEMM_WEIGHT_GRADIENT, out, tokens};
    *left = pass == GEMM_WEIGHT_GRADIENT ? input : weight;
    *right = pass == GEMM_FORWARD ? input : gradient;
}

static cublasStatus_t choose(const struct cublaslt_api *api, struct gemm_plan *p)
{
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t found;
    size_t workspace = GEMM_WORKSPACE_BYTES;
    int count = 0;
    cublasStatus_t status = api->preference_create(&preference);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    api->preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace);
    status =
        api->heuristic(p->handle, p->operation, p->left, p->right, p->result, p->result, preference, 1, &found, &count);
    api->preference_destroy(preference);
    if (status == CUBLAS_STATUS_SUCCESS && count < 1)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    p->algorithm = found.algo;
    return status;
}

static cublasStatus_t open_plan(const struct cublaslt_api *api, struct gemm_plan *p, struct side left,
                                struct side right)
{
    cublasOperation_t ops[2] = {left.transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                                right.transposed ? CUBLAS_OP_T : CUBLAS_OP_N};
    int rows = left.transposed ? left.columns : left.rows, columns = right.transposed ? right.rows : right.columns;
    cublasStatus_t status[] = {
        api->create(&p->handle),
        api->desc_create(&p->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F),
        api->desc_set(p->operation, CUBLASLT_MATMUL_DESC_TRANSA, &ops[0], sizeof ops[0]),
        api->desc_set(p->operation, CUBLASLT_MATMUL_DESC_TRANSB, &ops[1], sizeof ops[1]),
        api->layout_create(&p->left, CUDA_R_16BF, (uint64_t)left.rows, (uint64_t)left.columns, left.rows),
        api->layout_create(&p->right, CUDA_R_16BF, (uint64_t)right.rows, (uint64_t)right.columns, right.rows),
        api->layout_create(&p->result, CUDA_R_16BF, (uint64_t)rows, (uint64_t)columns, rows),
    };
    for (size_t i = 0; i < sizeof status / sizeof status[0]; i++)
        if (status[i] != CUBLAS_STATUS_SUCCESS)
            return status[i];
    return choose(api, p);
}

const char *gemm_open(struct gemm *g, enum gemm_pass pass, int tokens, int in, int out)
{
    const struct cublaslt_api *api = cublaslt_api();
    int size[2] = {in, out};
    struct side left, right;
    if (!api)
        return "cuBLASLt is not found";
    g->plan = (struct gemm_plan *)calloc(1, sizeof *g->plan);
    if (!g->plan)
        return "out of memory";
    sides_of(pass, tokens, size, &left, &right);
    if (open_plan(api, g->plan, left, right) == CUBLAS_STATUS_SUCCESS)
        return "";
    gemm_close(g);
    return "cuBLASLt has no algorithm for it";
}

cudaError_t gemm_run(const struct gemm *g, const void *a, const void *b, void *to, cudaStream_t stream)
{
    const struct gemm_plan *p = g->plan;
    float one = 1, zero = 0;
    cublasStatus_t status =
        cublaslt_api()->matmul(p->handle, p->operation, &one, b, p->left, a, p->right, &zero, to, p->result, to,
                               p->result, &p->algorithm, g->workspace, GEMM_WORKSPACE_BYTES, stream);
    return status == CUBLAS_STATUS_SUCCESS ? cudaGetLastError() : cudaErrorLaunchFailure;
}

void gemm_close(struct gemm *g)
{
    const struct cublaslt_api *api = cublaslt_api();
    struct gemm_plan *p = g->plan;
    g->plan = NULL;
    if (!p)
        return;
    if (p->left)
        api->layout_destroy(p->left);
    if (p->right)
        api->layout_destroy(p->right);
    if (p->result)
        api->layout_destroy(p->result);
    if (p->operation)
        api->desc_destroy(p->operation);
    if (p->handle)
        api->destroy(p->handle);
    free(p);
}

#else

const char *gemm_open(struct gemm *, enum gemm_pass, int, int, int)
{
    return "built without cuBLASLt";
}

cudaError_t gemm_run(const struct gemm *, const void *, const void *, void *, cudaStream_t)
{
    return cudaErrorNotSupported;
}

void gemm_close(struct gemm *)
{
}

#endif
