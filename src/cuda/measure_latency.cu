// What it costs to start things: kernels, graphs, events, and the step from one stream to another. On the host's clock,
// from an idle GPU to an idle GPU, over many of them.
#include "measure.h"

#include <string.h>

#define MANY 1000
#define FEW 100               // fit in the queue of a stream: the host never waits for the GPU
#define HOST_SPREAD_LIMIT 0.3 // the host is shared

__global__ void empty_kernel(void)
{
}

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        cudaError_t error_ = (call);                                                                                   \
        if (error_ != cudaSuccess)                                                                                     \
            return error_;                                                                                             \
    } while (0)

struct latency {
    cudaStream_t stream, second;
    cudaGraphExec_t graph;
    cudaEvent_t event[2];
};

static cudaError_t launches(struct latency *l, int n)
{
    for (int i = 0; i < n; i++)
        empty_kernel<<<1, 32, 0, l->stream>>>();
    return cudaGetLastError();
}

static cudaError_t launch_stream(void *context, double *seconds)
{
    struct latency *l = (struct latency *)context;
    double begun = measure_clock_s();
    TRY(launches(l, MANY));
    TRY(cudaStreamSynchronize(l->stream));
    *seconds = (measure_clock_s() - begun) / MANY;
    return cudaSuccess;
}

// The host's part alone.
static cudaError_t launch_submit(void *context, double *seconds)
{
    struct latency *l = (struct latency *)context;
    double begun = measure_clock_s();
    TRY(launches(l, FEW));
    *seconds = (measure_clock_s() - begun) / FEW;
    return cudaStreamSynchronize(l->stream);
}

static cudaError_t launch_and_wait(void *context, double *seconds)
{
    struct latency *l = (struct latency *)context;
    double begun = measure_clock_s();
    for (int i = 0; i < FEW; i++) {
        TRY(launches(l, 1));
        TRY(cudaStreamSynchronize(l->stream));
    }
    *seconds = (measure_clock_s() - begun) / FEW;
    return cudaSuccess;
}

static cudaError_t launch_graph(void *context, double *seconds)
{
    struct latency *l = (struct latency *)context;
    double begun = measure_clock_s();
    TRY(cudaGraphLaunch(l->graph, l->stream));
    TRY(cudaStreamSynchronize(l->stream));
    *seconds = (measure_clock_s() - begun) / MANY;
    return cudaSuccess;
}

static cudaError_t record_events(void *context, double *seconds)
{
    struct latency *l = (struct latency *)context;
    double begun = measure_clock_s();
    for (int i = 0; i < MANY; i++)
        TRY(cudaEventRecord(l->event[i % 2], l->stream));
    TRY(cudaStreamSynchronize(l->stream));
    *seconds = (measure_clock_s() - begun) / MANY;
    return cudaSuccess;
}

// A kernel, an event behind it, the other stream waits for it and runs the next kernel: a step of one kernel.
static cudaError_t change_streams(void *context, double *seconds)
{
    struct latency *l = (struct latency *)context;
    double begun = measure_clock_s();
    for (int i = 0; i < MANY; i++) {
        cudaStream_t from = i % 2 ? l->second : l->stream, to = i % 2 ? l->stream : l->second;
        empty_kernel<<<1, 32, 0, from>>>();
        TRY(cudaEventRecord(l->event[i % 2], from));
        TRY(cudaStreamWaitEvent(to, l->event[i % 2], 0));
    }
    TRY(cudaStreamSynchronize(l->second));
    TRY(cudaStreamSynchronize(l->stream));
    *seconds = (measure_clock_s() - begun) / MANY;
    return cudaSuccess;
}

static const struct {
    const char *what, *how;
    cudaError_t (*sample)(void *context, double *seconds);
} kinds[] = {
    {"launch", "stream", launch_stream}, {"launch", "submit", launch_submit},
    {"launch", "wait", launch_and_wait}, {"launch", "graph", launch_graph},
    {"event", "record", record_events},  {"event", "stream-to-stream", change_streams},
};

static cudaError_t open_latency(struct measure *m, struct latency *l)
{
    cudaGraph_t graph;
    l->stream = m->stream[0];
    l->second = m->second[0];
    TRY(cudaEventCreateWithFlags(&l->event[0], cudaEventDisableTiming));
    TRY(cudaEventCreateWithFlags(&l->event[1], cudaEventDisableTiming));
    TRY(cudaStreamBeginCapture(l->stream, cudaStreamCaptureModeThreadLocal));
    cudaError_t error = launches(l, MANY);
    TRY(cudaStreamEndCapture(l->stream, &graph));
    TRY(error);
    TRY(cudaGraphInstantiate(&l->graph, graph, 0));
    return cudaGraphDestroy(graph);
}

void measure_latency(struct measure *m)
{
    struct latency l = {};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct point p;
        struct work w = {};
        point_start(&p, "latency");
        point_text(&p, "what", kinds[i].what);
        point_text(&p, "how", kinds[i].how);
        p.spread_limit = HOST_SPREAD_LIMIT;
        if (!measure_wanted(m, &p))
            continue;
        cudaError_t error = l.graph ? cudaSuccess : open_latency(m, &l);
        w = measure_work(m, NULL, &l);
        w.sample = kinds[i].sample;
        if (error == cudaSuccess)
            measure_time(m, &p, &w);
        else
            measure_refuse(m, &p, "%s", cudaGetErrorString(error));
    }
    if (l.graph)
        cudaGraphExecDestroy(l.graph);
    for (int i = 0; i < 2; i++)
        if (l.event[i])
            cudaEventDestroy(l.event[i]);
}
