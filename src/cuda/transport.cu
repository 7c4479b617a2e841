// Transfers between the ranks of a method: NCCL between GPUs, local copies of the same bytes between virtual ranks.
#include "libraries.h"
#include "methods.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        cudaError_t error_ = (call);                                                                                   \
        if (error_ != cudaSuccess)                                                                                     \
            return error_;                                                                                             \
    } while (0)

struct method_rank *method_peer(struct method_run *m, int rank)
{
    return m->present == 1 ? &m->at[0] : &m->at[rank];
}

// ---- watchdog ----------------------------------------------------------------------------------------------------------

// A collective that one GPU never joins would hold the others for ever, and every call that waits for them.
static char watched[160];

static void bark(int)
{
    static const char says[] = "seqplan-device: no end within the time allowed: ";
    ssize_t ignored = write(STDERR_FILENO, says, sizeof says - 1);
    ignored += write(STDERR_FILENO, watched, strlen(watched));
    ignored += write(STDERR_FILENO, "\n", 1);
    (void)ignored;
    _exit(1);
}

void watchdog_start(const char *what, unsigned seconds)
{
    struct sigaction action = {};
    strncpy(watched, what, sizeof watched - 1);
    action.sa_handler = bark;
    sigaction(SIGALRM, &action, NULL);
    alarm(seconds);
}

void watchdog_stop(void)
{
    alarm(0);
}

// ---- NCCL --------------------------------------------------------------------------------------------------------------

#if HAVE_NCCL

struct nccl_group {
    int gpus;
    ncclComm_t comm[METHOD_MAX_RANKS];
};

static cudaError_t cuda_of(ncclResult_t result)
{
    return result == ncclSuccess ? cudaSuccess : cudaErrorUnknown;
}

struct nccl_group *nccl_group_open(int gpus, const char **why)
{
    const struct nccl_api *api = nccl_api();
    struct nccl_group *g = api && gpus <= METHOD_MAX_RANKS ? (struct nccl_group *)calloc(1, sizeof *g) : NULL;
    *why = api ? "too many GPUs" : "NCCL is not found";
    if (!g)
        return NULL;
    g->gpus = gpus;
    ncclResult_t result = api->init_all(g->comm, gpus, NULL);
    cudaSetDevice(0);
    if (result == ncclSuccess)
        return g;
    *why = api->error_string(result);
    free(g);
    return NULL;
}

void nccl_group_close(struct nccl_group *g)
{
    for (int i = 0; g && i < g->gpus; i++)
        nccl_api()->destroy(g->comm[i]);
    free(g);
}

static cudaError_t nccl_transfers(struct method_run *m, const struct transfer *t, int n)
{
    const struct nccl_api *api = nccl_api();
    ncclResult_t result = api->group_start();
    for (int i = 0; i < n && result == ncclSuccess; i++) {
        const struct method_rank *from = t[i].from, *to = t[i].to;
        result = api->send(t[i].source, t[i].bytes, ncclInt8, to->rank, m->nccl->comm[from->rank], from->copy);
        if (result == ncclSuccess)
            result = api->recv(t[i].target, t[i].bytes, ncclInt8, from->rank, m->nccl->comm[to->rank], to->copy);
    }
    ncclResult_t ended = api->group_end(); // also after an error
    return cuda_of(result != ncclSuccess ? result : ended);
}

static cudaError_t nccl_gather(struct method_run *m, size_t bytes)
{
    const struct nccl_api *api = nccl_api();
    ncclResult_t result = api->group_start();
    for (int r = 0; r < m->present && result == ncclSuccess; r++)
        result = api->all_gather(m->at[r].t.kv, m->at[r].gathered, bytes, ncclInt8, m->nccl->comm[r], m->at[r].copy);
    ncclResult_t ended = api->group_end();
    return cuda_of(result != ncclSuccess ? result : ended);
}

static cudaError_t nccl_scatter(struct method_run *m, size_t count, bool is_float)
{
    const struct nccl_api *api = nccl_api();
    ncclResult_t result = api->group_start();
    for (int r = 0; r < m->present && result == ncclSuccess; r++)
        result = api->reduce_scatter(m->at[r].gathered, m->at[r].travel[0], count,
                                     is_float ? ncclFloat32 : ncclBfloat16, ncclSum, m->nccl->comm[r], m->at[r].copy);
    ncclResult_t ended = api->group_end();
    return cuda_of(result != ncclSuccess ? result : ended);
}

#else

struct nccl_group *nccl_group_open(int, const char **why)
{
    *why = "built without NCCL";
    return NULL;
}

void nccl_group_close(struct nccl_group *)
{
}

static cudaError_t nccl_transfers(struct method_run *, const struct transfer *, int)
{
    return cudaErrorNotSupported;
}

static cudaError_t nccl_gather(struct method_run *, size_t)
{
    return cudaErrorNotSupported;
}

static cudaError_t nccl_scatter(struct method_run *, size_t, bool)
{
    return cudaErrorNotSupported;
}

#endif

// ---- either ------------------------------------------------------------------------------------------------------------

cudaError_t transfer_all(struct method_run *m, const struct transfer *t, int n)
{
    if (m->no_transfers || n == 0)
        return cudaSuccess;
    if (m->nccl)
        return nccl_transfers(m, t, n);
    for (int i = 0; i < n; i++)
        TRY(cudaMemcpyAsync(t[i].target, t[i].source, t[i].bytes, cudaMemcpyDeviceToDevice, t[i].to->copy));
    return cudaSuccess;
}

cudaError_t transfer_gather(struct method_run *m, size_t bytes)
{
    if (m->no_transfers)
        return cudaSuccess;
    if (m->nccl)
        return nccl_gather(m, bytes);
    for (int r = 0; r < m->present; r++)
        for (int p = 0; p < m->shape.ranks; p++)
            TRY(cudaMemcpyAsync(m->at[r].gathered + (size_t)p * bytes, method_peer(m, p)->t.kv, bytes,
                                cudaMemcpyDeviceToDevice, m->at[r].copy));
    return cudaSuccess;
}

// As in a ring: every piece is added to what came, and the sum rounded to the type it travels in.
cudaError_t transfer_reduce_scatter(struct method_run *m, size_t count, bool is_float)
{
    if (m->no_transfers)
        return cudaSuccess;
    if (m->nccl)
        return nccl_scatter(m, count, is_float);
    for (int r = 0; r < m->present; r++)
        for (int p = 0; p < m->shape.ranks; p++) {
            size_t piece = (size_t)m->at[r].rank * count * (is_float ? 4 : 2);
            struct accumulate a = {method_peer(m, p)->gathered + piece,
                                   m->at[r].travel[0],
                                   count / 2,
                                   count / 2,
                                   is_float,
                                   is_float,
                                   p == 0};
            TRY(accumulate_run(&a, m->at[r].copy));
        }
    return cudaSuccess;
}
