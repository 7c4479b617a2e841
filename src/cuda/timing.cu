// Samples: flush, clock reading, event, runs, event, clock reading, all queued before the GPU gets to them, so that the
// host's own time is not in them.
#include "measure.h"

#include <cuda_bf16.h>
#include <math.h>
#include <stdio.h>
#include <time.h>

#define SAMPLE_TARGET_S 300e-6 // many short runs make one sample: events resolve about half a microsecond
#define MAX_BATCH 512
#define SETTLED_TOLERANCE 0.005 // the halves of a series agree on the median to this
#define UNSETTLED_FACTOR 4      // how much longer than planned an unsettled series goes on
#define LONG_MIN_SAMPLES 5      // of runs so long that the planned number would take too much time
#define LONG_FACTOR 6
#define CLOCK_FALL_LIMIT 0.95 // the SM clock of the last third of a series over that of its first
#define READING_INTERVAL_S 0.02
#define RETRY_WARM_UP_S 1.0 // at the power limit the clock swings for about a second before it is steady
#define GRAPH_BELOW_S 50e-6 // longer runs hide their launches
#define GATE_TIMEOUT_NS 200000000ull

double measure_clock_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

// ---- kernels -----------------------------------------------------------------------------------------------------------

__device__ static uint32_t mixed(uint32_t x)
{
    x = (x ^ x >> 16) * 0x7feb352d;
    x = (x ^ x >> 15) * 0x846ca68b;
    return x ^ x >> 16;
}

// Close to normal: the sum of the eight bytes of two hashes, less its mean, over its deviation.
__device__ static float random_value(uint32_t at, uint32_t seed)
{
    uint32_t x = mixed(at * 2 + seed * 0x9e3779b9u), y = mixed(x ^ 0x85ebca6bu);
    int sum = 0;
#pragma unroll
    for (int i = 0; i < 32; i += 8)
        sum += (int)(x >> i & 255) + (int)(y >> i & 255);
    return (float)(sum - 1020) * (1 / 209.0f);
}

__global__ void random_kernel(__nv_bfloat162 *to, size_t n, float scale, uint32_t seed)
{
    size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step)
        to[i] = __floats2bfloat162_rn(scale * random_value((uint32_t)i * 2, seed + (uint32_t)(i >> 31)),
                                      scale * random_value((uint32_t)i * 2 + 1, seed + (uint32_t)(i >> 31)));
}

cudaError_t fill_random(void *to, size_t n, float scale, uint32_t seed, cudaStream_t stream)
{
    random_kernel<<<4096, 256, 0, stream>>>((__nv_bfloat162 *)to, n / 2, scale, seed);
    return cudaGetLastError();
}

// Cycles and nanoseconds of one multiprocessor: two of these give its clock in between.
struct tick {
    unsigned long long ns, cycles;
    unsigned multiprocessor, unused;
};

__global__ void tick_kernel(struct tick *to)
{
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(to->ns));
    to->cycles = (unsigned long long)clock64();
    asm volatile("mov.u32 %0, %%smid;" : "=r"(to->multiprocessor));
}

// Ends when the host has stored `ticket`, so that all GPUs start together; or, should the host be stuck, by itself.
__global__ void gate_kernel(const volatile int *gate, int ticket)
{
    unsigned long long begun, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begun));
    do
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    while (*gate - ticket < 0 && now - begun < GATE_TIMEOUT_NS);
}

// ---- samples -----------------------------------------------------------------------------------------------------------

struct sample_device {
    cudaEvent_t start, end;
    void *flush;
    struct tick *ticks; // two a sample; GPU 0 alone
};

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        cudaError_t error_ = (call);                                                                                   \
        if (error_ != cudaSuccess)                                                                                     \
            return error_;                                                                                             \
    } while (0)

cudaError_t sample_device_create(struct measure *m, int gpu)
{
    int low, high;
    struct sample_device *d = (struct sample_device *)calloc(1, sizeof *d);
    m->device[gpu] = d;
    TRY(d ? cudaSetDevice(gpu) : cudaErrorMemoryAllocation);
    TRY(cudaEventCreate(&d->start));
    TRY(cudaEventCreate(&d->end));
    TRY(cudaMalloc(&d->flush, 2 * m->l2_bytes));
    TRY(cudaMalloc((void **)&d->ticks, 2 * SAMPLES_MAX * sizeof *d->ticks));
    TRY(cudaDeviceGetStreamPriorityRange(&low, &high));
    TRY(cudaStreamCreateWithPriority(&m->stream[gpu], cudaStreamNonBlocking, low));
    TRY(cudaStreamCreateWithPriority(&m->second[gpu], cudaStreamNonBlocking, high));
    return cudaSetDevice(0);
}

// A series of samples, as it is taken.
struct series {
    struct measure *m;
    const struct work *w;
    double seconds[SAMPLES_MAX], clock_hz[SAMPLES_MAX];
    int count, batch, runs;
    cudaGraphExec_t graph;
    struct gpu_readings readings;
    double read_s; // when the GPU's state was last read
    int tickets;
};

static void read_state(struct series *s)
{
    double now = measure_clock_s();
    if (now - s->read_s < READING_INTERVAL_S)
        return;
    s->read_s = now;
    gpu_state_read(&s->m->state, &s->readings);
}

static cudaError_t queue_runs(struct series *s)
{
    if (s->graph)
        return cudaGraphLaunch(s->graph, s->w->stream[0]);
    for (int i = 0; i < s->batch; i++)
        TRY(s->w->launch(s->w->context, s->runs++));
    return cudaSuccess;
}

// Everything up to the start event, on every GPU. `slot` is that of the clock reading.
static cudaError_t queue_start(struct series *s, int slot, double expected_s)
{
    struct measure *m = s->m;
    const struct work *w = s->w;
    bool gated = w->gpus > 1;
    for (int g = 0; g < w->gpus; g++) {
        TRY(cudaSetDevice(g));
        TRY(cudaMemsetAsync(m->device[g]->flush, slot, 2 * m->l2_bytes, w->stream[g]));
    }
    if (w->before)
        TRY(w->before(w->context, expected_s));
    int ticket = ++s->tickets;
    for (int g = 0; g < w->gpus; g++) {
        TRY(cudaSetDevice(g));
        if (g == 0)
            tick_kernel<<<1, 1, 0, w->stream[0]>>>(&m->device[0]->ticks[2 * slot]);
        if (gated)
            gate_kernel<<<1, 1, 0, w->stream[g]>>>(m->gate, ticket);
        TRY(cudaEventRecord(m->device[g]->start, w->stream[g]));
    }
    return cudaGetLastError();
}

static cudaError_t queue_end(struct series *s, int slot)
{
    for (int g = 0; g < s->w->gpus; g++) {
        TRY(cudaSetDevice(g));
        TRY(cudaEventRecord(s->m->device[g]->end, s->w->stream[g]));
        if (g == 0)
            tick_kernel<<<1, 1, 0, s->w->stream[0]>>>(&s->m->device[0]->ticks[2 * slot + 1]);
    }
    *(volatile int *)s->m->gate = s->tickets;
    return cudaGetLastError();
}

// The slowest GPU's time.
static cudaError_t finish_sample(struct series *s, double *seconds, bool *valid)
{
    cudaEvent_t end[MEASURE_MAX_GPUS];
    *seconds = 0;
    for (int g = s->w->gpus - 1; g >= 0; g--) {
        float ms = 0;
        TRY(cudaSetDevice(g));
        TRY(cudaStreamSynchronize(s->w->stream[g]));
        TRY(cudaEventElapsedTime(&ms, s->m->device[g]->start, s->m->device[g]->end));
        end[g] = s->m->device[g]->end;
        *seconds = fmax(*seconds, ms * 1e-3 / s->batch);
    }
    *valid = !s->w->valid || s->w->valid(s->w->context, end);
    return cudaSuccess;
}

// One sample that times itself.
static cudaError_t own_sample(struct series *s, int slot, double *seconds)
{
    tick_kernel<<<1, 1, 0, s->m->stream[0]>>>(&s->m->device[0]->ticks[2 * slot]);
    TRY(cudaStreamSynchronize(s->m->stream[0]));
    TRY(s->w->sample(s->w->context, seconds));
    tick_kernel<<<1, 1, 0, s->m->stream[0]>>>(&s->m->device[0]->ticks[2 * slot + 1]);
    read_state(s);
    return cudaStreamSynchronize(s->m->stream[0]);
}

static cudaError_t one_sample(struct series *s, int slot, double *seconds, bool *valid)
{
    *valid = true;
    if (s->w->sample)
        return own_sample(s, slot, seconds);
    double expected_s = *seconds * s->batch;
    TRY(queue_start(s, slot, expected_s));
    cudaError_t error = queue_runs(s);
    cudaError_t closed = queue_end(s, slot); // also after an error: it opens the gate
    TRY(error);
    TRY(closed);
    read_state(s); // while the GPU works
    return finish_sample(s, seconds, valid);
}

// A run is timed alone to see how many make a sample; these are captured if they can be.
static cudaError_t choose_batch(struct series *s, double *seconds)
{
    const struct work *w = s->w;
    bool valid;
    s->batch = 1;
    for (int i = 0; i < 3; i++) // the first loads the kernels
        TRY(one_sample(s, 0, seconds, &valid));
    if (w->sample)
        return cudaSuccess;
    double wanted = ceil(SAMPLE_TARGET_S / fmax(*seconds, 1e-6));
    int most = w->max_batch > 0 ? w->max_batch : MAX_BATCH;
    s->batch = wanted < most ? (int)wanted : most;
    if (s->batch == 1 || *seconds > GRAPH_BELOW_S || w->no_graph || w->gpus > 1)
        return cudaSuccess;
    cudaGraph_t graph = NULL;
    TRY(cudaStreamBeginCapture(w->stream[0], cudaStreamCaptureModeThreadLocal));
    cudaError_t error = queue_runs(s);
    cudaError_t ended = cudaStreamEndCapture(w->stream[0], &graph);
    TRY(error);
    TRY(ended);
    TRY(cudaGraphInstantiate(&s->graph, graph, 0));
    return cudaGraphDestroy(graph);
}

static cudaError_t warm_up(struct series *s, double warm_up_s, double *seconds)
{
    double begun = measure_clock_s();
    bool valid;
    do
        TRY(one_sample(s, 0, seconds, &valid));
    while (measure_clock_s() - begun < warm_up_s);
    return cudaSuccess;
}

static bool enough(const struct series *s, double elapsed_s)
{
    const struct profile *p = s->m->profile;
    if (s->count >= p->max_samples)
        return true;
    if (s->count >= LONG_MIN_SAMPLES && elapsed_s > LONG_FACTOR * p->sample_s)
        return true;
    if (s->count < p->min_samples || elapsed_s < p->sample_s)
        return false;
    return elapsed_s > UNSETTLED_FACTOR * p->sample_s || samples_settled(s->seconds, s->count, SETTLED_TOLERANCE);
}

static cudaError_t read_clocks(struct series *s)
{
    struct tick t[2 * SAMPLES_MAX];
    TRY(cudaMemcpy(t, s->m->device[0]->ticks, sizeof t, cudaMemcpyDeviceToHost));
    int known = 0;
    for (int i = 0; i < s->count; i++) {
        const struct tick *a = &t[2 * i], *b = a + 1;
        if (a->multiprocessor == b->multiprocessor && b->ns > a->ns && b->cycles > a->cycles)
            s->clock_hz[known++] = (double)(b->cycles - a->cycles) / (double)(b->ns - a->ns) * 1e9;
    }
    for (int i = known; i < s->count; i++) // as good as the others
        s->clock_hz[i] = known ? samples_median(s->clock_hz, known) : 0;
    return cudaSuccess;
}

#define INVALID_LIMIT 20 // samples in a row that do not count

static cudaError_t take_series(struct series *s, double warm_up_s)
{
    double seconds = 0, begun;
    int invalid = 0;
    bool valid;
    TRY(choose_batch(s, &seconds));
    TRY(warm_up(s, warm_up_s, &seconds));
    s->readings = {};
    s->read_s = 0;
    begun = measure_clock_s();
    while (!enough(s, measure_clock_s() - begun) && invalid < INVALID_LIMIT) {
        TRY(one_sample(s, s->count, &seconds, &valid));
        invalid = valid ? 0 : invalid + 1;
        if (valid)
            s->seconds[s->count++] = seconds;
    }
    return read_clocks(s);
}

// ---- the verdict ---------------------------------------------------------------------------------------------------------

// "" when the series can be believed.
static void judge(const struct series *s, const struct point *p, char *reason, size_t size)
{
    reason[0] = 0;
    if (s->count < LONG_MIN_SAMPLES) {
        snprintf(reason, size, "what runs beside it never covered the whole of a sample");
        return;
    }
    struct samples_summary t = samples_summarise(s->seconds, s->count);
    double spread = samples_spread(&t), drift = samples_drift(s->clock_hz, s->count);
    if (gpu_throttle_refuses(&s->readings))
        snprintf(reason, size, "throttled: %s", gpu_throttle_name(&s->m->state, &s->readings));
    else if (drift < CLOCK_FALL_LIMIT)
        snprintf(reason, size, "the SM clock fell by %.0f %% during it, to %.0f MHz", (1 - drift) * 100,
                 s->clock_hz[s->count - 1] * 1e-6);
    else if (spread > p->spread_limit)
        snprintf(reason, size,
                 "the middle 80 %% of %d samples spread over %.0f %% of the median %.3g s; %.0f %% is allowed",
                 s->count, spread * 100, t.median, p->spread_limit * 100);
}

static void print_measurement(const struct series *s, struct point *p)
{
    struct samples_summary t = samples_summarise(s->seconds, s->count);
    const struct gpu_readings *r = &s->readings;
    if (s->batch > 1)
        point_note_number(p, "runs_per_sample", s->batch);
    printf("{\"kind\":\"measurement\",\"group\":\"%s\",\"key\":\"%s\",\"parameters\":{%s},\"unit\":\"s\",", p->group,
           p->key, p->parameters);
    printf("\"median\":%.6g,\"min\":%.6g,\"low\":%.6g,\"high\":%.6g,\"count\":%d,", t.median, t.min, t.low, t.high,
           t.count);
    printf("\"flop\":%.9g,\"bytes\":%.12g,\"sm_clock_hz\":%.4g,", p->flop, p->bytes,
           samples_median(s->clock_hz, s->count));
    printf("\"power_w\":%.1f,\"temperature_c\":%.0f,\"throttle\":\"%s\"}\n", r->count ? r->power_w_sum / r->count : 0,
           r->temperature_c, gpu_throttle_name(&s->m->state, r));
    fflush(stdout);
}

struct work measure_work(struct measure *m, cudaError_t (*launch)(void *context, int run), void *context)
{
    struct work w = {};
    w.launch = launch;
    w.context = context;
    w.gpus = 1;
    w.stream = m->stream;
    return w;
}

static cudaError_t settle(const struct work *w)
{
    for (int g = 0; g < w->gpus; g++) {
        TRY(cudaSetDevice(g));
        TRY(cudaDeviceSynchronize());
    }
    return cudaSetDevice(0);
}

static cudaError_t try_series(struct series *s, double warm_up_s)
{
    *(volatile int *)s->m->gate = 0;
    cudaError_t error = take_series(s, warm_up_s);
    if (s->graph)
        cudaGraphExecDestroy(s->graph);
    cudaGetLastError();
    cudaError_t after = settle(s->w);
    s->m->dead = after != cudaSuccess;
    return error != cudaSuccess ? error : after;
}

void measure_time(struct measure *m, struct point *p, const struct work *w)
{
    static struct series s; // large
    char reason[256];
    if (m->memory_short > 0) {
        measure_refuse(m, p, "it needs %.1f GB of GPU memory and %.1f GB are there", m->memory_short * 1e-9,
                       m->arena_bytes[0] * 1e-9);
        return;
    }
    for (int attempt = 0; attempt < 2; attempt++) {
        s = {};
        s.m = m;
        s.w = w;
        cudaError_t error = try_series(&s, attempt > 0 ? RETRY_WARM_UP_S : m->profile->warm_up_s);
        if (error != cudaSuccess) {
            measure_refuse(m, p, "%s", cudaGetErrorString(error));
            return;
        }
        judge(&s, p, reason, sizeof reason);
        if (!reason[0]) {
            print_measurement(&s, p);
            return;
        }
    }
    measure_refuse(m, p, "%s, twice", reason);
}
