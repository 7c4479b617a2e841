/* The simulated step: how long large steps take, folded and rank by rank, and that the time goes with the events. An event is a
 * start or an end of a task or a flow. Medians of several rounds, each case in a process of its own, whose memory is its own;
 * run alone, from the root of the tree. Patterns of flows alone are in bench_flows.c. */
#include "sim/sim.h"
#include "support/questions.h"
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 5 };

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

struct case_of_bench {
    const char *name;
    const char *settings; /* of the question, without its global batch */
    int global_batch;
    bool is_exact;
    int chunks;
    double limit_s; /* 0: none */
    int64_t limit_mb;
};

/* Everything that simulate does between question and result. */
static double run(const struct case_of_bench *of, double *n_events)
{
    struct sp_arena *arena = sp_arena_open();
    struct question question;
    struct sim_result result;
    struct sp_error err = {0};
    question_from(arena, sp_format(arena, "%s batch=%d", of->settings, of->global_batch), &question);
    struct sim_options options = {.is_exact = of->is_exact, .chunks = of->chunks};
    double start = now_s();
    if (!sim_run(&question, &options, arena, &result, &err)) {
        (void)fprintf(stderr, "%s: %s\n", of->name, err.text);
        exit(1);
    }
    double elapsed_s = now_s() - start;
    *n_events = (double)result.events;
    sp_arena_close(arena);
    return elapsed_s;
}

static void bench(const struct case_of_bench *of)
{
    double seconds[ROUNDS];
    double n_events = 0;
    for (int i = 0; i < ROUNDS; i++) {
        seconds[i] = run(of, &n_events);
    }
    qsort(seconds, ROUNDS, sizeof seconds[0], compare);
    double median = seconds[ROUNDS / 2];
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    long mb = usage.ru_maxrss / 1024;
    printf("%-44s %7.3f s %11.0f events %6.2f M events/s %5ld MB", of->name, median, n_events, n_events / median * 1e-6,
           mb);
    if (of->limit_s > 0) {
        printf("  limit %g s", of->limit_s);
    }
    if (of->limit_mb > 0) {
        printf(", %lld MB", (long long)of->limit_mb);
    }
    if (of->limit_s > 0) {
        bool is_over = median > of->limit_s || (of->limit_mb > 0 && mb > of->limit_mb);
        printf("  %s", is_over ? "over" : "ok");
    }
    puts("");
}

/* The largest memory of a process is that of all it ever ran. */
static void bench_apart(const struct case_of_bench *of)
{
    (void)fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        bench(of);
        (void)fflush(stdout);
        _exit(0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        (void)fprintf(stderr, "%s: not done\n", of->name);
        exit(1);
    }
}

int main(void)
{
    static const char step_70b[] = "model=llama-3.1-70b hardware=dgx-h100 gpus=512 seq=1M tp=8 sp=8 pp=8 method=zigzag";
    static const char step_405b[] =
        "model=llama-3.1-405b hardware=dgx-h100 gpus=16384 seq=128K tp=8 sp=16 pp=16 dp=8 pp-layers=auto method=zigzag";
    static const char step_8b[] = "model=llama-3.1-8b hardware=dgx-h100 gpus=64 seq=128K tp=2 sp=8 pp=4 method=zigzag";
    enum { BATCH_OF_70B = 16, BATCH_OF_405B = 128 };
    static const struct case_of_bench cases[] = {
        {"70b, 512 GPUs, 1M, 8 chunks: every rank", step_70b, BATCH_OF_70B, true, 8, 20, 0},
        {"70b, 512 GPUs, 1M, 8 chunks: folded", step_70b, BATCH_OF_70B, false, 8, 0.5, 0},
        {"405b, 16384 GPUs, 128K: folded", step_405b, BATCH_OF_405B, false, 1, 10, 2000},
        {"8b, 64 GPUs, every rank: 4 micro-batches", step_8b, 4, true, 1, 0, 0},
        {"8b, 64 GPUs, every rank: 16 micro-batches", step_8b, 16, true, 1, 0, 0},
        {"8b, 64 GPUs, every rank: 64 micro-batches", step_8b, 64, true, 1, 0, 0},
    };
    for (size_t i = 0; i < SP_COUNT_OF(cases); i++) {
        bench_apart(&cases[i]);
    }
    return 0;
}
