/* The search: layouts priced in full a second on one core, whole plans by cluster size, and what they keep in memory. Medians
 * of several rounds; run alone. */
#include "search/search.h"
#include "support/support.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

enum { ROUNDS = 5 };

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

struct case_of_bench {
    const char *name, *model, *hardware;
    int64_t gpus, seq;
    int n_threads; /* 0: all */
    bool is_exhaustive;
    const char *set;      /* or NULL */
    bool has_sensitivity; /* how far its winner wins takes part */
};

static struct plan run(const struct case_of_bench *of, struct sp_arena *arena)
{
    struct plan_question question;
    struct plan plan;
    struct sp_error err = {0};
    plan_question_init(&question, arena);
    question.request.model = of->model;
    question.request.hardware = of->hardware;
    question.request.gpus = (struct sp_option_count){true, of->gpus};
    question.request.seq = (struct sp_option_count){true, of->seq};
    question.n_threads = of->n_threads;
    question.is_exhaustive = of->is_exhaustive;
    if (of->set != NULL) {
        sp_texts_add(&question.request.set, "%s", of->set);
        sp_texts_add(&question.request.set, "node.host_memory=100TB");
        question.axes.frameworks = 1U << FRAMEWORK_MEGATRON;
    }
    double start = omp_get_wtime();
    struct sensitivity sensitivity;
    if (!plan_search(&question, arena, &plan, &err) ||
        (of->has_sensitivity && !sensitivity_of_plan(&question, &plan, arena, &sensitivity, &err))) {
        (void)fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    plan.elapsed_s = omp_get_wtime() - start;
    return plan;
}

static void bench(const struct case_of_bench *of)
{
    double seconds[ROUNDS];
    struct plan plan = {0};
    for (int i = 0; i < ROUNDS; i++) {
        struct sp_arena *arena = sp_arena_open();
        plan = run(of, arena);
        seconds[i] = plan.elapsed_s;
        sp_arena_close(arena);
    }
    qsort(seconds, ROUNDS, sizeof(seconds[0]), compare);
    double median = seconds[ROUNDS / 2];
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    printf("%-46s %7.3f s  %13lld considered %10lld priced in full %6.2f M/s  %3ld MB\n", of->name, median,
           (long long)plan.considered, (long long)plan.evaluated, (double)plan.evaluated / median * 1e-6,
           usage.ru_maxrss / 1024);
}

int main(void)
{
    static const int64_t k = 1024;
    const struct case_of_bench cases[] = {
        /* everything fits and nothing is left out: what pricing costs */
        {"one core, all priced: 70b, 512 GPUs, 1M", "llama-3.1-70b", "dgx-h100", 512, k * k, 1, true,
         "gpu.hbm_capacity=100TB", false},
        {"one core, all priced: 8b, 64 GPUs, 128K", "llama-3.1-8b", "dgx-h100", 64, 128 * k, 1, true,
         "gpu.hbm_capacity=100TB", false},
        {"one core, with sensitivity: 70b, 512 GPUs, 1M", "llama-3.1-70b", "dgx-h100", 512, k * k, 1, false, NULL,
         true},
        {"70b, 512 GPUs, 1M", "llama-3.1-70b", "dgx-h100", 512, k * k, 0, false, NULL, false},
        {"405b, 512 GPUs, 128K", "llama-3.1-405b", "dgx-h100", 512, 128 * k, 0, false, NULL, false},
        {"405b, 4096 GPUs, 128K", "llama-3.1-405b", "dgx-h100", 4096, 128 * k, 0, false, NULL, false},
        {"405b, 16384 GPUs, 128K", "llama-3.1-405b", "dgx-h100", 16384, 128 * k, 0, false, NULL, false},
        {"405b, 131072 GPUs, 128K", "llama-3.1-405b", "dgx-h100", 131072, 128 * k, 0, false, NULL, false},
        {"405b, 131072 GPUs, 8K", "llama-3.1-405b", "dgx-h100", 131072, 8 * k, 0, false, NULL, false},
        {"qwen3-235b, 512 GPUs, 128K", "qwen3-235b-a22b", "dgx-h100", 512, 128 * k, 0, false, NULL, false},
        {"deepseek-v3, 2048 GPUs, 128K", "deepseek-v3", "dgx-h100", 2048, 128 * k, 0, false, NULL, false},
    };
    for (size_t i = 0; i < SP_COUNT_OF(cases); i++) {
        bench(&cases[i]);
    }
    return 0;
}
