// Copies within the GPU's memory, and between it and the host's. Bytes are those read plus those written on the GPU.
#include "measure.h"

#include <string.h>

#define THREADS 256
#define ITEMS 4 // 16-byte items of a thread, all loaded before the first is stored
#define MIB 1048576.0
#define HOST_SPREAD_LIMIT 0.2 // the host's memory and its links are shared

enum kind { BY_ENGINE, BY_KERNEL, SET, TO_DEVICE, TO_HOST, KINDS };
static const char *const kind_names[KINDS] = {"memcpy", "kernel", "memset", "host-to-device", "device-to-host"};

struct copy {
    enum kind kind;
    size_t bytes;
    struct buffer_sets sets; // source, then destination
    void *host;
    cudaStream_t stream;
};

__global__ void __launch_bounds__(THREADS) copy_kernel(const uint4 *from, uint4 *to, size_t n)
{
    size_t at = (size_t)blockIdx.x * THREADS * ITEMS + threadIdx.x;
    uint4 x[ITEMS];
#pragma unroll
    for (int i = 0; i < ITEMS; i++)
        if (at + i * THREADS < n)
            x[i] = from[at + i * THREADS];
#pragma unroll
    for (int i = 0; i < ITEMS; i++)
        if (at + i * THREADS < n)
            to[at + i * THREADS] = x[i];
}

static cudaError_t launch(void *context, int run)
{
    const struct copy *c = (const struct copy *)context;
    char *from = set_of(&c->sets, run), *to = from + c->bytes;
    size_t n = c->bytes / sizeof(uint4);
    switch (c->kind) {
    case BY_ENGINE:
        return cudaMemcpyAsync(to, from, c->bytes, cudaMemcpyDeviceToDevice, c->stream);
    case SET:
        return cudaMemsetAsync(to, run, c->bytes, c->stream);
    case TO_DEVICE:
        return cudaMemcpyAsync(to, c->host, c->bytes, cudaMemcpyHostToDevice, c->stream);
    case TO_HOST:
        return cudaMemcpyAsync(c->host, from, c->bytes, cudaMemcpyDeviceToHost, c->stream);
    default:
        copy_kernel<<<(unsigned)((n + THREADS * ITEMS - 1) / (THREADS * ITEMS)), THREADS, 0, c->stream>>>(
            (const uint4 *)from, (uint4 *)to, n);
        return cudaGetLastError();
    }
}

static void measure_one(struct measure *m, enum kind kind, double bytes)
{
    struct point p;
    struct copy c = {kind, (size_t)bytes, {}, NULL, m->stream[0]};
    bool host = kind == TO_DEVICE || kind == TO_HOST;
    point_start(&p, "copy");
    point_text(&p, "by", kind_names[kind]);
    point_number(&p, "copy_bytes", bytes);
    p.bytes = host || kind == SET ? bytes : 2 * bytes;
    p.spread_limit = host ? HOST_SPREAD_LIMIT : p.spread_limit;
    if (!measure_wanted(m, &p))
        return;
    c.sets = measure_sets(m, 0, 2 * c.bytes);
    cudaError_t error = host ? cudaHostAlloc(&c.host, c.bytes, cudaHostAllocDefault) : cudaSuccess;
    if (error == cudaSuccess) {
        if (host)
            memset(c.host, 1, c.bytes);
        struct work w = measure_work(m, launch, &c);
        measure_time(m, &p, &w);
    } else {
        measure_refuse(m, &p, "pinned memory: %s", cudaGetErrorString(error));
    }
    if (c.host)
        cudaFreeHost(c.host);
}

void measure_copy(struct measure *m)
{
    static const double sizes[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096}; // MiB
    for (int kind = 0; kind < KINDS; kind++)
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            bool host = kind == TO_DEVICE || kind == TO_HOST;
            size_t step = m->quick ? (host ? 8 : 6) : kind <= BY_KERNEL ? 1 : 4; // a quick run is part of a full one
            if (i % step == 0 && !(host && sizes[i] > 256) && !(m->quick && kind == SET))
                measure_one(m, (enum kind)kind, sizes[i] * MIB);
        }
}
