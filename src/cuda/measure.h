// seqplan-device measure: what the groups of measurements share. A group is a function that walks its points, in the same
// order every time, and asks measure_wanted() of each; the walk is done once to count and once to measure. See README.md.
#ifndef SEQPLAN_CUDA_MEASURE_H
#define SEQPLAN_CUDA_MEASURE_H

#include "gpu_state.h"
#include "samples.h"

#include <cuda_runtime.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MEASURE_MAX_GPUS 16
#define MEASURE_MAX_DONE 8192

// Per matrix product of a layer; the default is Llama 3.1 8B.
struct model_shapes {
    int hidden, heads, kv_heads, head_dim, ffn, vocab;
};

// How long a point is measured.
struct profile {
    const char *name;
    double warm_up_s, sample_s; // of GPU time before and in the samples
    int min_samples, max_samples;
    double limit_s; // of the whole run: what has not begun by then is refused
};

struct sample_device; // events, flush buffer and clock readings of one GPU: timing.cu

struct measure {
    struct model_shapes model;
    const struct profile *profile;
    bool quick;
    int gpus, multiprocessors;
    cudaStream_t stream[MEASURE_MAX_GPUS], second[MEASURE_MAX_GPUS]; // `second` has the higher priority
    struct sample_device *device[MEASURE_MAX_GPUS];
    int *gate; // what the GPUs' streams wait for before a sample that runs on several
    size_t l2_bytes;
    struct gpu_state state; // of GPU 0

    // One piece of memory a GPU, given out from its start for each point.
    char *arena[MEASURE_MAX_GPUS];
    size_t arena_bytes[MEASURE_MAX_GPUS], arena_used[MEASURE_MAX_GPUS];
    size_t memory_short; // bytes that did not fit; the point is then refused

    enum { MEASURE_COUNT, MEASURE_LIST, MEASURE_RUN } walk;
    int total;
    char *done[MEASURE_MAX_DONE];
    int n_done;
    double begun_s; // a clock without an origin
    bool dead;      // the GPU no longer answers
};

// ---- a point -----------------------------------------------------------------------------------------------------------

// The key is the group and every parameter; a note is a parameter that the key leaves out.
struct point {
    const char *group;
    char key[320], parameters[768];
    double flop, bytes; // of one run
    double spread_limit;
};

void point_start(struct point *p, const char *group);
void point_number(struct point *p, const char *name, double value);
void point_text(struct point *p, const char *name, const char *value);
void point_note_number(struct point *p, const char *name, double value);
void point_note_text(struct point *p, const char *name, const char *value);

// Is this point to be measured now? If so, the memory of the last one is free again.
bool measure_wanted(struct measure *m, const struct point *p);
void measure_refuse(struct measure *m, const struct point *p, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// ---- memory ------------------------------------------------------------------------------------------------------------

// On a GPU, aligned to 256 bytes, never freed alone. NULL when there is not enough: measure_time() then refuses the point,
// so that a caller need only not touch the memory from the host.
void *measure_alloc(struct measure *m, int gpu, size_t bytes);
// The same, filled with bf16 values that are close to normal, times `scale`. Random bits matter: zeros run faster.
void *measure_random(struct measure *m, int gpu, size_t bytes, float scale);

// Equal sets of buffers, which runs take in turn, so that none finds its inputs in the cache: enough of them to be several
// times as large as the L2 cache. Filled with random bf16.
struct buffer_sets {
    char *base;
    size_t bytes; // of one set
    int count;
};
struct buffer_sets measure_sets(struct measure *m, int gpu, size_t bytes);
static inline char *set_of(const struct buffer_sets *s, int run)
{
    return s->base + (size_t)(run % s->count) * s->bytes;
}
// `bytes` more of a set that is being laid out; the offset of their start.
static inline size_t set_take(size_t *at, size_t bytes)
{
    size_t start = *at;
    *at += (bytes + 255) / 256 * 256;
    return start;
}

// ---- timing ------------------------------------------------------------------------------------------------------------

// What a sample times. `launch` queues run number `run` on `stream[0]`, ..., one stream for each of `gpus`, which events
// surround. A work on one GPU whose launches a graph can capture is captured, when many runs make a sample.
struct work {
    cudaError_t (*launch)(void *context, int run);
    void *context;
    int gpus;
    cudaStream_t *stream;
    bool no_graph;
    int max_batch; // runs in one sample at most; 0: as many as it takes
    // Optional: queued before each sample, `seconds` being what it is expected to take; and whether the sample counts,
    // asked when all of it has ended (`end` are the events behind it).
    cudaError_t (*before)(void *context, double seconds);
    bool (*valid)(void *context, const cudaEvent_t *end);
    // In place of all this: times itself, on the host's clock; seconds of one run.
    cudaError_t (*sample)(void *context, double *seconds);
};

// On stream[0] of GPU 0.
struct work measure_work(struct measure *m, cudaError_t (*launch)(void *context, int run), void *context);

// Warms up, takes samples until their median is settled, prints the measurement, or refuses it.
void measure_time(struct measure *m, struct point *p, const struct work *w);

// The parts of timing.cu that measure.cu uses.
cudaError_t sample_device_create(struct measure *m, int gpu);
double measure_clock_s(void);
cudaError_t fill_random(void *to, size_t n, float scale, uint32_t seed, cudaStream_t stream);

// ---- groups ------------------------------------------------------------------------------------------------------------

// The registry is in measure.cu: a group is a name and a function there, and a file of its own.
void measure_latency(struct measure *m);
void measure_copy(struct measure *m);
void measure_elementwise(struct measure *m);
void measure_optimizer(struct measure *m);
void measure_gemm(struct measure *m);
void measure_attention(struct measure *m);
void measure_collective(struct measure *m);
void measure_method(struct measure *m);
void measure_layer(struct measure *m);

#endif
