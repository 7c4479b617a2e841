// NCCL's operations over the GPUs of this machine, by size: alone, with matrix products or attention running beside them,
// and what these then lose. One process drives all GPUs; the operations run on the streams of higher priority.
#include "attention.h"
#include "gemm.h"
#include "libraries.h"
#include "measure.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#if HAVE_NCCL

#define MIB 1048576.0
#define HOST_SPREAD_LIMIT 0.2 // several GPUs never begin at quite the same time
#define SHORT_SPREAD_LIMIT 0.3
#define SHORT_BYTES (4 * MIB)
#define BESIDE_TOKENS 8192
#define BESIDE_HEADS 32
#define BESIDE_KV_HEADS 8
#define BESIDE_HEAD_DIM 128
#define BESIDE_SIZE 8192 // of the matrix product
#define COVER 1.5        // how much longer what runs beside should take than what is timed
#define COVER_GROWTH 1.5 // when that was not enough
#define MAX_COVER 64
#define BF16 2

// Message sizes are NCCL's: what one GPU holds when all of it is there (the result of an all-gather, the input of a
// reduce-scatter or an all-to-all), or one message of send and recv. `share` is what a GPU sends of it among n.
enum operation { ALL_GATHER, REDUCE_SCATTER, ALL_REDUCE, ALL_TO_ALL, SEND_RING, SEND_PAIR, OPERATIONS };
static const char *const operation_names[OPERATIONS] = {"all-gather", "reduce-scatter", "all-reduce",
                                                        "all-to-all", "send-recv-ring", "send-recv-pair"};
enum kernel { NONE, ATTENTION, GEMM };
static const char *const kernel_names[] = {"none", "attention", "gemm"};

struct communicators {
    const struct nccl_api *api;
    int ranks;
    ncclComm_t comm[MEASURE_MAX_GPUS];
};

struct collective {
    struct measure *m;
    struct communicators *c;
    enum operation operation;
    enum kernel kernel;
    bool timing_kernel; // the kernel is timed and the operation runs beside it
    size_t bytes;
    char *send[MEASURE_MAX_GPUS], *receive[MEASURE_MAX_GPUS];
    // Of the kernel, on each GPU.
    char *q[MEASURE_MAX_GPUS], *k[MEASURE_MAX_GPUS], *v[MEASURE_MAX_GPUS], *o[MEASURE_MAX_GPUS];
    struct gemm gemm[MEASURE_MAX_GPUS];
    cudaEvent_t begun[MEASURE_MAX_GPUS], ended[MEASURE_MAX_GPUS]; // of what runs beside
    double beside_s, cover;                                       // one run of it; how many times the sample it lasts
};

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        cudaError_t error_ = (call);                                                                                   \
        if (error_ != cudaSuccess)                                                                                     \
            return error_;                                                                                             \
    } while (0)

// ---- what runs -----------------------------------------------------------------------------------------------------------

static ncclResult_t all_to_all(const struct collective *c, int rank)
{
    const struct nccl_api *api = c->c->api;
    size_t part = c->bytes / (size_t)c->c->ranks;
    ncclResult_t result = ncclSuccess;
    for (int peer = 0; peer < c->c->ranks && result == ncclSuccess; peer++) {
        size_t at = (size_t)peer * part;
        result = api->send(c->send[rank] + at, part, ncclInt8, peer, c->c->comm[rank], c->m->second[rank]);
        if (result == ncclSuccess)
            result = api->recv(c->receive[rank] + at, part, ncclInt8, peer, c->c->comm[rank], c->m->second[rank]);
    }
    return result;
}

// To the next rank and from the one before; as a pair, from rank 0 to rank 1 alone.
static ncclResult_t send_recv(const struct collective *c, int rank)
{
    const struct nccl_api *api = c->c->api;
    int ranks = c->c->ranks;
    bool pair = c->operation == SEND_PAIR;
    ncclResult_t result = ncclSuccess;
    if (!pair || rank == 0)
        result = api->send(c->send[rank], c->bytes, ncclInt8, (rank + 1) % ranks, c->c->comm[rank], c->m->second[rank]);
    if (result == ncclSuccess && (!pair || rank == 1))
        result = api->recv(c->receive[rank], c->bytes, ncclInt8, (rank + ranks - 1) % ranks, c->c->comm[rank],
                           c->m->second[rank]);
    return result;
}

static ncclResult_t operate(const struct collective *c, int rank)
{
    const struct nccl_api *api = c->c->api;
    size_t all = c->bytes / BF16, part = all / (size_t)c->c->ranks;
    ncclComm_t comm = c->c->comm[rank];
    cudaStream_t stream = c->m->second[rank];
    switch (c->operation) {
    case ALL_GATHER:
        return api->all_gather(c->send[rank], c->receive[rank], part, ncclBfloat16, comm, stream);
    case REDUCE_SCATTER:
        return api->reduce_scatter(c->send[rank], c->receive[rank], part, ncclBfloat16, ncclSum, comm, stream);
    case ALL_REDUCE:
        return api->all_reduce(c->send[rank], c->receive[rank], all, ncclBfloat16, ncclSum, comm, stream);
    case ALL_TO_ALL:
        return all_to_all(c, rank);
    default:
        return send_recv(c, rank);
    }
}

static cudaError_t run_operation(const struct collective *c)
{
    ncclResult_t result = c->c->api->group_start();
    for (int rank = 0; rank < c->c->ranks && result == ncclSuccess; rank++)
        result = operate(c, rank);
    ncclResult_t ended = c->c->api->group_end();
    result = result == ncclSuccess ? ended : result;
    if (result != ncclSuccess)
        fprintf(stderr, "seqplan-device: NCCL: %s\n", c->c->api->error_string(result));
    return result == ncclSuccess ? cudaSuccess : cudaErrorUnknown;
}

static cudaError_t run_kernel(const struct collective *c, int gpu)
{
    struct attention_block b = {BESIDE_TOKENS,
                                BESIDE_TOKENS,
                                BESIDE_HEADS,
                                BESIDE_KV_HEADS,
                                BESIDE_HEAD_DIM,
                                false,
                                0,
                                0,
                                (float)(1 / sqrt((double)BESIDE_HEAD_DIM)),
                                ATTENTION_BEST,
                                false};
    size_t q_bytes = (size_t)BESIDE_TOKENS * BESIDE_HEADS * BESIDE_HEAD_DIM * BF16;
    struct attention_output out = {c->o[gpu], NULL, (float *)(c->o[gpu] + q_bytes), BESIDE_TOKENS};
    cudaStream_t stream = c->m->stream[gpu];
    TRY(cudaSetDevice(gpu));
    if (c->kernel == GEMM)
        return gemm_run(&c->gemm[gpu], c->q[gpu], c->k[gpu], c->o[gpu], stream);
    return attention_forward(&b, c->q[gpu], c->k[gpu], c->v[gpu], &out, stream);
}

static cudaError_t run_kernels(const struct collective *c)
{
    for (int gpu = 0; gpu < c->c->ranks; gpu++)
        TRY(run_kernel(c, gpu));
    return cudaSetDevice(0);
}

static cudaError_t run_one(const struct collective *c, bool kernel)
{
    return kernel ? run_kernels(c) : run_operation(c);
}

static cudaError_t launch(void *context, int run)
{
    const struct collective *c = (const struct collective *)context;
    (void)run;
    return run_one(c, c->timing_kernel);
}

// ---- what runs beside ------------------------------------------------------------------------------------------------------

static cudaError_t mark(const struct collective *c, const cudaEvent_t *event, const cudaStream_t *stream)
{
    for (int gpu = 0; gpu < c->c->ranks; gpu++) {
        TRY(cudaSetDevice(gpu));
        TRY(cudaEventRecord(event[gpu], stream[gpu]));
    }
    return cudaSetDevice(0);
}

// As much as covers the sample; the sample begins once the first of it has run.
static cudaError_t start_beside(void *context, double seconds)
{
    struct collective *c = (struct collective *)context;
    const cudaStream_t *beside = c->timing_kernel ? c->m->second : c->m->stream;
    const cudaStream_t *timed = c->timing_kernel ? c->m->stream : c->m->second;
    int runs = (int)ceil(c->cover * seconds / c->beside_s) + 1;
    TRY(run_one(c, !c->timing_kernel));
    TRY(mark(c, c->begun, beside));
    for (int gpu = 0; gpu < c->c->ranks; gpu++) {
        TRY(cudaSetDevice(gpu));
        TRY(cudaStreamWaitEvent(timed[gpu], c->begun[gpu], 0));
    }
    for (int i = 0; i < runs; i++)
        TRY(run_one(c, !c->timing_kernel));
    return mark(c, c->ended, beside);
}

// Did it last until the sample's end on every GPU? If not, more of it next time.
static bool was_covered(void *context, const cudaEvent_t *end)
{
    struct collective *c = (struct collective *)context;
    bool covered = true;
    for (int gpu = 0; gpu < c->c->ranks; gpu++) {
        float ms = 0;
        cudaSetDevice(gpu);
        cudaEventSynchronize(c->ended[gpu]);
        covered &= cudaEventElapsedTime(&ms, end[gpu], c->ended[gpu]) == cudaSuccess && ms > 0;
    }
    cudaSetDevice(0);
    if (!covered && c->cover < MAX_COVER)
        c->cover *= COVER_GROWTH;
    return covered;
}

static cudaError_t wait_for_all(const struct collective *c)
{
    for (int gpu = 0; gpu < c->c->ranks; gpu++) {
        TRY(cudaSetDevice(gpu));
        TRY(cudaDeviceSynchronize());
    }
    return cudaSetDevice(0);
}

// Loads what runs, which waits for an idle GPU; and times one run of what runs beside, alone and on the host's clock: only
// to know how many to queue.
static cudaError_t try_out(struct collective *c)
{
    TRY(run_operation(c));
    TRY(wait_for_all(c));
    for (int i = 0; i < 3 && c->kernel != NONE; i++) {
        TRY(run_one(c, c->timing_kernel));
        TRY(wait_for_all(c));
        double begun = measure_clock_s();
        TRY(run_one(c, !c->timing_kernel));
        TRY(wait_for_all(c));
        c->beside_s = measure_clock_s() - begun;
    }
    return cudaSuccess;
}

// ---- points --------------------------------------------------------------------------------------------------------------

static const char *open_kernel(struct collective *c)
{
    struct measure *m = c->m;
    size_t heads = BESIDE_HEADS * BESIDE_HEAD_DIM, matrix = (size_t)BESIDE_SIZE * BESIDE_SIZE * BF16;
    size_t q = (size_t)BESIDE_TOKENS * heads * BF16, lse = (size_t)BESIDE_TOKENS * BESIDE_HEADS * sizeof(float);
    const char *lacking = "";
    for (int gpu = 0; gpu < c->c->ranks && !lacking[0]; gpu++) {
        size_t bytes = q + lse > matrix ? q + lse : matrix;
        c->q[gpu] = (char *)measure_random(m, gpu, bytes, 1);
        c->k[gpu] = (char *)measure_random(m, gpu, bytes, 1);
        c->v[gpu] = (char *)measure_random(m, gpu, bytes, 1);
        c->o[gpu] = (char *)measure_alloc(m, gpu, bytes);
        if (c->kernel != GEMM)
            continue;
        cudaSetDevice(gpu);
        c->gemm[gpu].workspace = measure_alloc(m, gpu, GEMM_WORKSPACE_BYTES);
        cudaSetDevice(gpu);
        lacking = gemm_open(&c->gemm[gpu], GEMM_FORWARD, BESIDE_SIZE, BESIDE_SIZE, BESIDE_SIZE);
    }
    cudaSetDevice(0);
    return lacking;
}

static cudaError_t open_buffers(struct collective *c, const char **lacking)
{
    *lacking = "";
    for (int gpu = 0; gpu < c->c->ranks; gpu++) {
        c->send[gpu] = (char *)measure_random(c->m, gpu, c->bytes, 1);
        c->receive[gpu] = (char *)measure_random(c->m, gpu, c->bytes, 1);
    }
    for (int gpu = 0; gpu < c->c->ranks; gpu++) {
        TRY(cudaSetDevice(gpu));
        TRY(cudaEventCreate(&c->begun[gpu]));
        TRY(cudaEventCreate(&c->ended[gpu]));
    }
    if (c->kernel != NONE)
        *lacking = open_kernel(c);
    return (*lacking)[0] || c->m->memory_short ? cudaSetDevice(0) : try_out(c);
}

static void close_buffers(struct collective *c)
{
    for (int gpu = 0; gpu < c->c->ranks; gpu++) {
        if (c->begun[gpu])
            cudaEventDestroy(c->begun[gpu]);
        if (c->ended[gpu])
            cudaEventDestroy(c->ended[gpu]);
        gemm_close(&c->gemm[gpu]);
    }
}

// Fraction of the message that a GPU sends.
static double share(enum operation o, int ranks)
{
    double part = (ranks - 1.0) / ranks;
    return o == ALL_REDUCE ? 2 * part : o == SEND_RING || o == SEND_PAIR ? 1 : part;
}

static void describe(struct point *p, const struct collective *c)
{
    const char *nvls = getenv("NCCL_NVLS_ENABLE");
    point_start(p, "collective");
    point_text(p, "operation", operation_names[c->operation]);
    point_number(p, "ranks", c->c->ranks);
    point_number(p, "message_bytes", (double)c->bytes);
    point_text(p, "beside", kernel_names[c->kernel]);
    point_text(p, "timed", c->timing_kernel ? "kernel" : "operation");
    point_note_text(p, "nccl_nvls_enable", nvls ? nvls : "default");
    p->bytes = share(c->operation, c->c->ranks) * (double)c->bytes;
    if (c->timing_kernel)
        p->flop = c->kernel == GEMM ? 2.0 * BESIDE_SIZE * BESIDE_SIZE * BESIDE_SIZE
                                    : 4.0 * BESIDE_TOKENS * BESIDE_TOKENS * BESIDE_HEADS * BESIDE_HEAD_DIM;
    p->spread_limit = (double)c->bytes < SHORT_BYTES ? SHORT_SPREAD_LIMIT : HOST_SPREAD_LIMIT;
}

// The first point of a walk that is to be measured makes the communicators.
static const char *open_communicators(const struct collective *c)
{
    struct communicators *k = c->c;
    int devices[MEASURE_MAX_GPUS];
    if (k->comm[0])
        return "";
    k->api = nccl_api();
    if (!k->api)
        return "libnccl.so.2 is not found";
    for (int i = 0; i < k->ranks; i++)
        devices[i] = i;
    ncclResult_t result = k->api->init_all(k->comm, k->ranks, devices);
    cudaSetDevice(0);
    if (result != ncclSuccess)
        k->comm[0] = NULL;
    return result == ncclSuccess ? "" : k->api->error_string(result);
}

static void measure_one(struct collective *c)
{
    struct point p;
    const char *lacking;
    describe(&p, c);
    if (!measure_wanted(c->m, &p))
        return;
    lacking = open_communicators(c);
    cudaError_t error = lacking[0] ? cudaSuccess : open_buffers(c, &lacking);
    if (lacking[0] || error != cudaSuccess) {
        measure_refuse(c->m, &p, "%s", lacking[0] ? lacking : cudaGetErrorString(error));
    } else {
        struct work w = measure_work(c->m, launch, c);
        w.gpus = c->c->ranks;
        w.stream = c->timing_kernel ? c->m->stream : c->m->second;
        w.max_batch = 20;
        c->cover = COVER;
        w.before = c->kernel == NONE ? NULL : start_beside;
        w.valid = c->kernel == NONE ? NULL : was_covered;
        measure_time(c->m, &p, &w);
    }
    close_buffers(c);
}

static void measure_operation(struct measure *m, struct communicators *k, enum operation o)
{
    static const double sizes[] = {0.0625, 1, 4, 16, 64, 256, 1024}; // MiB
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int kernel = NONE; kernel <= GEMM; kernel++)
            for (int timing_kernel = 0; timing_kernel < (kernel == NONE ? 1 : 2); timing_kernel++) {
                struct collective c = {};
                bool beside = kernel != NONE;
                size_t unit = (size_t)k->ranks * 256;
                c.m = m;
                c.c = k;
                c.operation = o;
                c.kernel = (enum kernel)kernel;
                c.timing_kernel = timing_kernel;
                c.bytes = (size_t)(sizes[i] * MIB) / unit * unit; // the same for every rank
                // Beside kernels: what a step of sequence parallelism moves, and only over all GPUs.
                if (beside &&
                    (sizes[i] < 16 || sizes[i] > 256 || o == ALL_REDUCE || o == SEND_PAIR || k->ranks < m->gpus))
                    continue;
                if (m->quick && (i % 2 == 0 || (beside && sizes[i] < 256 && (kernel == GEMM || timing_kernel))))
                    continue;
                measure_one(&c);
            }
}

void measure_collective(struct measure *m)
{
    for (int ranks = m->gpus; ranks >= 2; ranks /= 2) {
        struct communicators k = {};
        k.ranks = ranks;
        for (int o = 0; o < OPERATIONS; o++)
            if (ranks == m->gpus || (!m->quick && o != SEND_PAIR))
                measure_operation(m, &k, (enum operation)o);
        for (int i = 0; k.comm[0] && i < ranks; i++)
            k.api->destroy(k.comm[i]);
    }
    if (m->gpus < 2) {
        struct point p;
        point_start(&p, "collective");
        if (measure_wanted(m, &p))
            measure_refuse(m, &p, "one GPU: nothing to communicate with");
    }
}

#else

void measure_collective(struct measure *m)
{
    struct point p;
    point_start(&p, "collective");
    if (measure_wanted(m, &p))
        measure_refuse(m, &p, "built without NCCL");
}

#endif
