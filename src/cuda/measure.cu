// seqplan-device measure: the options, the groups, and the lines on stdout. The protocol is described in README.md.
#include "device_program.h"
#include "libraries.h"
#include "measure.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define EXIT_NO_GPU 4
#define ARENA_FRACTION 0.9 // of what is free: NCCL and cuBLASLt take memory of their own
#define SET_FOOTPRINT 8    // caches' worth of buffer sets that runs take in turn
#define MAX_SETS 256
#define SPREAD_LIMIT 0.06

static const struct {
    const char *name;
    void (*walk)(struct measure *m);
} groups[] = {
    {"latency", measure_latency},       {"copy", measure_copy},     {"elementwise", measure_elementwise},
    {"optimizer", measure_optimizer},   {"gemm", measure_gemm},     {"attention", measure_attention},
    {"collective", measure_collective}, {"method", measure_method}, {"layer", measure_layer},
};
#define GROUPS (sizeof groups / sizeof groups[0])

static const struct profile quick_profile = {"quick", 0.06, 0.1, 9, 200, 115};
static const struct profile full_profile = {"full", 0.12, 0.25, 15, 400, 530};
static const struct model_shapes llama_3_1_8b = {4096, 32, 8, 128, 14336, 128256};

// ---- lines -------------------------------------------------------------------------------------------------------------

// `text` as the inside of a JSON string.
static const char *escaped(const char *text, char *to, size_t size)
{
    size_t n = 0;
    for (; *text && n + 7 < size; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\' || c < ' ')
            n += (size_t)snprintf(to + n, size - n, "\\u%04x", c);
        else
            to[n++] = (char)c;
    }
    to[n] = 0;
    return to;
}

static void append(char *to, size_t size, const char *format, ...)
{
    size_t n = strlen(to);
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(to + n, size - n, format, arguments);
    va_end(arguments);
    if (length < 0 || n + (size_t)length >= size)
        abort(); // a point with more parameters than there is room for
}

void point_start(struct point *p, const char *group)
{
    *p = {};
    p->group = group;
    p->spread_limit = SPREAD_LIMIT;
    append(p->key, sizeof p->key, "%s", group);
}

void point_note_number(struct point *p, const char *name, double value)
{
    append(p->parameters, sizeof p->parameters, "%s\"%s\":%.12g", p->parameters[0] ? "," : "", name, value);
}

void point_note_text(struct point *p, const char *name, const char *value)
{
    char text[128];
    append(p->parameters, sizeof p->parameters, "%s\"%s\":\"%s\"", p->parameters[0] ? "," : "", name,
           escaped(value, text, sizeof text));
}

void point_number(struct point *p, const char *name, double value)
{
    append(p->key, sizeof p->key, " %s=%.12g", name, value);
    point_note_number(p, name, value);
}

void point_text(struct point *p, const char *name, const char *value)
{
    append(p->key, sizeof p->key, " %s=%s", name, value);
    point_note_text(p, name, value);
}

void measure_refuse(struct measure *m, const struct point *p, const char *format, ...)
{
    char reason[384], text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    printf("{\"kind\":\"refused\",\"group\":\"%s\",\"key\":\"%s\",\"reason\":\"%s\"}\n", p->group, p->key,
           escaped(reason, text, sizeof text));
    fflush(stdout);
    m->memory_short = 0;
}

static bool is_done(const struct measure *m, const char *key)
{
    for (int i = 0; i < m->n_done; i++)
        if (strcmp(m->done[i], key) == 0)
            return true;
    return false;
}

bool measure_wanted(struct measure *m, const struct point *p)
{
    if (is_done(m, p->key))
        return false;
    if (m->walk == measure::MEASURE_COUNT)
        m->total++;
    if (m->walk == measure::MEASURE_LIST)
        printf("%s\n", p->key);
    if (m->walk != measure::MEASURE_RUN)
        return false;
    for (int g = 0; g < m->gpus; g++)
        m->arena_used[g] = 0;
    m->memory_short = 0;
    bool late = measure_clock_s() - m->begun_s > m->profile->limit_s;
    if (m->dead || late)
        measure_refuse(m, p, m->dead ? "the GPU no longer answers" : "the time of the profile, %.0f s, is spent",
                       m->profile->limit_s);
    return !m->dead && !late;
}

// ---- memory ------------------------------------------------------------------------------------------------------------

static bool make_arena(struct measure *m, int gpu)
{
    size_t available = 0, all;
    if (m->arena[gpu])
        return true;
    if (cudaSetDevice(gpu) == cudaSuccess && cudaMemGetInfo(&available, &all) == cudaSuccess)
        m->arena_bytes[gpu] = (size_t)(ARENA_FRACTION * (double)available) / 256 * 256;
    if (m->arena_bytes[gpu] == 0 || cudaMalloc((void **)&m->arena[gpu], m->arena_bytes[gpu]) != cudaSuccess)
        m->arena_bytes[gpu] = 0;
    cudaGetLastError();
    return m->arena_bytes[gpu] > 0 && cudaSetDevice(0) == cudaSuccess;
}

void *measure_alloc(struct measure *m, int gpu, size_t bytes)
{
    bytes = (bytes + 255) / 256 * 256;
    if (!make_arena(m, gpu) || bytes > m->arena_bytes[gpu] - m->arena_used[gpu]) {
        m->memory_short += bytes;
        return NULL;
    }
    char *p = m->arena[gpu] + m->arena_used[gpu];
    m->arena_used[gpu] += bytes;
    return p;
}

void *measure_random(struct measure *m, int gpu, size_t bytes, float scale)
{
    void *p = measure_alloc(m, gpu, bytes);
    if (p && cudaSetDevice(gpu) == cudaSuccess)
        fill_random(p, bytes / 2, scale, (uint32_t)m->arena_used[gpu], m->stream[gpu]);
    cudaSetDevice(0);
    return p;
}

struct buffer_sets measure_sets(struct measure *m, int gpu, size_t bytes)
{
    size_t count = SET_FOOTPRINT * m->l2_bytes / bytes + 1;
    struct buffer_sets s = {NULL, bytes, count < MAX_SETS ? (int)count : MAX_SETS};
    s.base = (char *)measure_random(m, gpu, bytes * (size_t)s.count, 1);
    return s;
}

// ---- the run -----------------------------------------------------------------------------------------------------------

struct options {
    const char *only, *done;
    bool quick, list;
    struct model_shapes model;
};

// Is `name` one of the comma-separated items of `list`?
static bool listed(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = list; (at = strstr(at, name)) != NULL; at += n)
        if ((at == list || at[-1] == ',') && (at[n] == 0 || at[n] == ','))
            return true;
    return false;
}

static void walk_groups(struct measure *m, const struct options *o)
{
    for (size_t i = 0; i < GROUPS; i++)
        if (!o->only || listed(o->only, groups[i].name))
            groups[i].walk(m);
}

static void print_machine(const struct measure *m)
{
    char gpu[256], host[128] = "", safe_host[256], date[32], nccl[32], driver[160];
    struct cudaDeviceProp p;
    int runtime = 0, clock_khz = 0, memory_khz = 0;
    time_t now = time(NULL);
    struct tm utc;
    cudaGetDeviceProperties(&p, 0);
    cudaRuntimeGetVersion(&runtime);
    cudaDeviceGetAttribute(&clock_khz, cudaDevAttrClockRate, 0);
    cudaDeviceGetAttribute(&memory_khz, cudaDevAttrMemoryClockRate, 0);
    gethostname(host, sizeof host - 1);
    nccl_version_text(nccl, sizeof nccl);
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    printf("{\"kind\":\"machine\",\"schema\":\"seqplan.device/1\",\"gpu\":\"%s\",\"gpus\":%d,\"sm_count\":%d,",
           escaped(p.name, gpu, sizeof gpu), m->gpus, p.multiProcessorCount);
    printf("\"hbm_bytes\":%zu,\"driver\":\"%s\",\"cuda\":\"%d.%d\",\"nccl\":\"%s\",\"host\":\"%s\",\"date\":\"%s\",",
           p.totalGlobalMem, escaped(m->state.driver, driver, sizeof driver), runtime / 1000, runtime / 10 % 100, nccl,
           escaped(host, safe_host, sizeof safe_host), date);
    printf("\"sm_clock_hz\":%.10g,\"memory_clock_hz\":%.10g,\"power_limit_w\":%.6g}\n",
           m->state.sm_clock_max_hz > 0 ? m->state.sm_clock_max_hz : clock_khz * 1e3,
           m->state.memory_clock_hz > 0 ? m->state.memory_clock_hz : memory_khz * 1e3, m->state.power_limit_w);
    fflush(stdout);
}

static bool read_done(struct measure *m, const char *path)
{
    FILE *f = fopen(path, "r");
    char line[512];
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\r\n")] = 0;
        if (line[0] && m->n_done < MEASURE_MAX_DONE && (m->done[m->n_done] = strdup(line)))
            m->n_done++;
    }
    if (f)
        fclose(f);
    else
        fprintf(stderr, "seqplan-device: %s: cannot be read\n", path);
    return f != NULL;
}

// Says what is missing.
static bool find_gpus(struct measure *m)
{
    int l2 = 0;
    cudaError_t error = cudaGetDeviceCount(&m->gpus);
    if (error != cudaSuccess || m->gpus == 0) {
        fprintf(stderr, "seqplan-device: no GPU: %s\n",
                error == cudaSuccess ? "none found" : cudaGetErrorString(error));
        return false;
    }
    m->gpus = m->gpus < MEASURE_MAX_GPUS ? m->gpus : MEASURE_MAX_GPUS;
    cudaDeviceGetAttribute(&l2, cudaDevAttrL2CacheSize, 0);
    cudaDeviceGetAttribute(&m->multiprocessors, cudaDevAttrMultiProcessorCount, 0);
    m->l2_bytes = (size_t)l2;
    return true;
}

static bool open_gpus(struct measure *m)
{
    char bus_id[32] = "";
    cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, 0);
    if (!gpu_state_open(&m->state, bus_id))
        fprintf(stderr, "seqplan-device: no libnvidia-ml.so.1: power, temperature and throttling stay unknown\n");
    cudaError_t error = cudaHostAlloc((void **)&m->gate, sizeof *m->gate, cudaHostAllocPortable | cudaHostAllocMapped);
    for (int g = 0; g < m->gpus && error == cudaSuccess; g++)
        error = sample_device_create(m, g);
    if (error != cudaSuccess)
        fprintf(stderr, "seqplan-device: %s\n", cudaGetErrorString(error));
    return error == cudaSuccess;
}

static int run_measure(struct measure *m, const struct options *o)
{
    if (!find_gpus(m))
        return EXIT_NO_GPU;
    if (!open_gpus(m))
        return 1;
    m->begun_s = measure_clock_s();
    print_machine(m);
    m->walk = measure::MEASURE_COUNT;
    walk_groups(m, o);
    printf("{\"kind\":\"plan\",\"total\":%d}\n", m->total);
    fflush(stdout);
    m->walk = measure::MEASURE_RUN;
    walk_groups(m, o);
    if (m->dead) {
        fprintf(stderr, "seqplan-device: the GPU no longer answers\n");
        return 1;
    }
    printf("{\"kind\":\"done\"}\n");
    return fflush(stdout) == 0 ? 0 : 1;
}

static const char usage[] =
    "usage: seqplan-device measure [--quick|--full] [--only GROUP,GROUP] [--done FILE] [--list]\n"
    "         [--model-shapes hidden,heads,kv_heads,head_dim,ffn,vocab]\n"
    "Prints a JSON object a line. --full is the default; --done skips the keys in FILE; --list prints the keys alone.\n"
    "Groups:";

static int print_usage(FILE *to, int code)
{
    fputs(usage, to);
    for (size_t i = 0; i < GROUPS; i++)
        fprintf(to, " %s", groups[i].name);
    fputs("\n", to);
    return code;
}

static bool parse_model(const char *text, struct model_shapes *s)
{
    char rest;
    return sscanf(text, "%d,%d,%d,%d,%d,%d%c", &s->hidden, &s->heads, &s->kv_heads, &s->head_dim, &s->ffn, &s->vocab,
                  &rest) == 6 &&
           s->hidden > 0 && s->heads > 0 && s->kv_heads > 0 && s->heads % s->kv_heads == 0 && s->head_dim > 0 &&
           s->ffn > 0 && s->vocab > 0;
}

static bool known_groups(const char *list)
{
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        bool known = false;
        for (size_t i = 0; i < GROUPS; i++)
            known |= strcspn(at, ",") == strlen(groups[i].name) && strncmp(at, groups[i].name, strcspn(at, ",")) == 0;
        if (!known) {
            fprintf(stderr, "seqplan-device: --only: no group '%.*s'\n", (int)strcspn(at, ","), at);
            return false;
        }
    }
    return true;
}

// false: said on stderr.
static bool parse_option(char **argv, int *i, struct options *o)
{
    const char *name = argv[*i], *value = argv[*i + 1];
    bool takes_value =
        strcmp(name, "--only") == 0 || strcmp(name, "--done") == 0 || strcmp(name, "--model-shapes") == 0;
    if (takes_value && !value) {
        fprintf(stderr, "seqplan-device: %s needs a value\n", name);
        return false;
    }
    *i += takes_value;
    if (strcmp(name, "--quick") == 0 || strcmp(name, "--full") == 0) {
        o->quick = strcmp(name, "--quick") == 0;
    } else if (strcmp(name, "--list") == 0) {
        o->list = true;
    } else if (strcmp(name, "--only") == 0) {
        o->only = value;
        return known_groups(value);
    } else if (strcmp(name, "--done") == 0) {
        o->done = value;
    } else if (takes_value) {
        if (parse_model(value, &o->model))
            return true;
        fprintf(stderr, "seqplan-device: --model-shapes is six numbers: hidden,heads,kv_heads,head_dim,ffn,vocab\n");
        return false;
    } else {
        fprintf(stderr, "seqplan-device: measure: %s: not an option\n", name);
        return false;
    }
    return true;
}

int device_measure(int argc, char **argv)
{
    static struct measure m; // large
    struct options o = {};
    o.model = llama_3_1_8b;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0)
            return print_usage(stdout, 0);
        if (!parse_option(argv, &i, &o))
            return print_usage(stderr, 2);
    }
    m.quick = o.quick;
    m.profile = o.quick ? &quick_profile : &full_profile;
    m.model = o.model;
    if (o.done && !read_done(&m, o.done))
        return 2;
    if (!o.list)
        return run_measure(&m, &o);
    m.walk = measure::MEASURE_LIST;
    if (cudaGetDeviceCount(&m.gpus) != cudaSuccess || m.gpus == 0)
        m.gpus = 1;
    walk_groups(&m, &o);
    return 0;
}
