/* Nanoseconds per estimate: pricing one layout again and again, and the whole way from names to answer. Medians of
 * several rounds; a sum of the results keeps the work from being optimised away. */
#include "support/questions.h"
#include "support/support.h"

#include <stdlib.h>
#include <time.h>

enum { ROUNDS = 9, ESTIMATES = 2000, QUESTIONS = 20 };

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

static double median(double *values, size_t n)
{
    qsort(values, n, sizeof values[0], compare);
    return values[n / 2];
}

static void bench(struct sp_arena *arena, const char *name, const char *settings)
{
    double per_estimate[ROUNDS];
    double per_question[ROUNDS];
    double sum = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct question question;
        struct estimate estimate;
        double start = now_s();
        for (int i = 0; i < QUESTIONS; i++) {
            question_from(arena, settings, &question);
        }
        double resolved = now_s();
        for (int i = 0; i < ESTIMATES; i++) {
            step_estimate(&question, &estimate);
            sum += estimate.step_time_s;
        }
        per_question[round] = (resolved - start) / QUESTIONS;
        per_estimate[round] = (now_s() - resolved) / ESTIMATES;
    }
    printf("%-28s %8.0f ns per estimate %8.2f ms to load and resolve (checksum %.6g)\n", name,
           1e9 * median(per_estimate, ROUNDS), 1e3 * median(per_question, ROUNDS), sum);
}

int main(void)
{
    struct sp_arena *arena = sp_arena_open();
    bench(arena, "8b, 8 GPUs, zigzag", "model=llama-3.1-8b hardware=dgx-h100 gpus=8 sp=8 seq=256K method=zigzag");
    bench(arena, "70b, 512 GPUs, tp8 sp8 pp8",
          "model=llama-3.1-70b hardware=dgx-h100 gpus=512 tp=8 sp=8 pp=8 seq=1M method=zigzag");
    bench(arena, "70b, 512 GPUs, ulysses",
          "model=llama-3.1-70b hardware=dgx-h100 gpus=512 tp=8 sp=8 pp=8 seq=1M method=ulysses");
    bench(arena, "405b, 16384 GPUs, pp 126",
          "model=llama-3.1-405b hardware=dgx-h100 gpus=16128 tp=8 sp=16 pp=126 seq=128K method=zigzag");
    sp_arena_close(arena);
    return 0;
}
