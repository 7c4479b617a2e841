/* Output of nccl-tests, made up as its programs print it: over any operation, ranks, types, sizes and layout of columns,
 * what is imported is what was measured. Where the text leaves the operation or the ranks open it is refused, never
 * guessed wrong. */
#include "support/import_logs.h"
#include "support/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N_LOGS = 3000, N_ROWS = 9 };

struct truth {
    int operation; /* of import_operation_names */
    int64_t ranks, nodes;
    int dtype;
    bool is_named, has_list, has_heading, has_checks, is_tagged;
    int64_t bytes[N_ROWS];
    double time_us[N_ROWS];
};

static const struct {
    const char *name, *program;
    int factor; /* times (n - 1) / n; 0: 1 */
    bool is_share, reduces, is_unchecked;
    int root;
} operations[] = {
    {"all-reduce", "all_reduce_perf", 2, false, true, false, -1},
    {"all-gather", "all_gather_perf", 1, true, false, false, -1},
    {"reduce-scatter", "reduce_scatter_perf", 1, true, true, false, -1},
    {"all-to-all", "alltoall_perf", 1, true, false, true, -1},
    {"send-recv-ring", "sendrecv_perf", 0, false, true, true, -1},
    {"broadcast", "broadcast_perf", 0, false, false, false, 0},
    {"reduce", "reduce_perf", 0, false, true, false, 1},
    {"gather", "gather_perf", 1, true, false, false, 0},
    {"scatter", "scatter_perf", 1, true, false, false, 0},
};
static const struct {
    const char *name;
    int64_t bytes;
} dtypes[] = {{"int8", 1}, {"half", 2}, {"bfloat16", 2}, {"float", 4}, {"int64", 8}};

static bool coin(uint64_t *random)
{
    return next_random(random) % 2 == 0;
}

static struct truth make_truth(uint64_t *random)
{
    struct truth truth = {.operation = (int)(next_random(random) % SP_COUNT_OF(operations)),
                          .nodes = 1 + (int64_t)(next_random(random) % 17),
                          .dtype = (int)(next_random(random) % SP_COUNT_OF(dtypes)),
                          .is_named = coin(random),
                          .has_list = coin(random),
                          .has_heading = coin(random),
                          .has_checks = coin(random),
                          .is_tagged = coin(random)};
    truth.ranks = truth.nodes * (2 + (int64_t)(next_random(random) % 9));
    for (int i = 0; i < N_ROWS; i++) {
        int64_t step = truth.ranks * dtypes[truth.dtype].bytes;
        double wanted = 64.0 * pow(7.0, i) * (1.0 + (double)(next_random(random) % 61) / 61.0);
        truth.bytes[i] = step * (1 + (int64_t)(wanted / (double)step));
        double rate = 1.0 + (double)(next_random(random) % 700000); /* bytes a us */
        truth.time_us[i] = 3.0 + (double)(next_random(random) % 977) / 97.0 + (double)truth.bytes[i] / rate;
    }
    return truth;
}

/* As the programs print a time: at least four digits. */
static const char *time_text(struct sp_arena *arena, double time_us)
{
    return sp_format(arena, "%.*f", time_us < 100.0 ? 2 : time_us < 10000.0 ? 1 : 0, time_us);
}

static void add_half(const struct truth *truth, struct sp_texts *words, int row, bool is_in_place)
{
    double n = (double)truth->ranks;
    double algorithm = (double)truth->bytes[row] / truth->time_us[row] / 1e3;
    int factor = operations[truth->operation].factor;
    double bus = factor == 0 ? algorithm : algorithm * factor * (n - 1.0) / n;
    const char *text =
        sp_format(words->arena, "  %s %.2f %.2f", time_text(words->arena, truth->time_us[row]), algorithm, bus);
    bool is_unknown = is_in_place && operations[truth->operation].is_unchecked;
    sp_texts_add(words, "%s%s%s", is_in_place ? " " : "", text, !truth->has_checks ? "" : is_unknown ? " N/A" : " 0");
}

static const char *row_text(struct sp_arena *arena, const struct truth *truth, int row)
{
    struct sp_texts words = {.arena = arena};
    int64_t share = operations[truth->operation].is_share ? truth->ranks : 1;
    int64_t count = truth->bytes[row] / share / dtypes[truth->dtype].bytes;
    sp_texts_add(&words, "%s%lld %lld %s %s %d", truth->is_tagged ? "[0] " : "   ", (long long)truth->bytes[row],
                 (long long)count, dtypes[truth->dtype].name, operations[truth->operation].reduces ? "sum" : "none",
                 operations[truth->operation].root);
    add_half(truth, &words, row, false);
    add_half(truth, &words, row, true);
    return sp_join(arena, words.items, words.count, " ");
}

static const char *log_text(struct sp_arena *arena, const struct truth *truth)
{
    struct sp_texts lines = {.arena = arena};
    if (truth->is_named) {
        sp_texts_add(&lines, "# Collective test starting: %s", operations[truth->operation].program);
    }
    for (int64_t rank = 0; rank < truth->ranks && truth->has_list; rank++) {
        int64_t per_node = truth->ranks / truth->nodes;
        sp_texts_add(&lines, "#  Rank %2lld Group  0 Pid %lld on node%lld device %lld [0x%02x] NVIDIA H100",
                     (long long)rank, (long long)rank + 1000, (long long)(rank / per_node),
                     (long long)(rank % per_node), (unsigned)(rank % per_node));
    }
    if (truth->has_heading) {
        const char *half = truth->has_checks ? "time algbw busbw #wrong" : "time algbw busbw";
        sp_texts_add(&lines, "#  size count type redop root %s %s", half, half);
    }
    for (int row = 0; row < N_ROWS; row++) {
        sp_texts_add(&lines, "%s", row_text(arena, truth, row));
    }
    return sp_format(arena, "%s\n", sp_join(arena, lines.items, lines.count, "\n"));
}

static void check_row(struct sp_arena *arena, const struct truth *truth, const struct store_import *run, size_t row)
{
    const struct measurement line = import_log_row(arena, run, row);
    size_t index = row / 2;
    double printed_us = strtod(time_text(arena, truth->time_us[index]), NULL);
    assert_string_equal(import_log_parameter(&line, "operation")->string, operations[truth->operation].name);
    assert_close(import_log_parameter(&line, "ranks")->number, (double)truth->ranks, 0);
    assert_close(import_log_parameter(&line, "nodes")->number, (double)truth->nodes, 0);
    assert_close(import_log_parameter(&line, "message_bytes")->number, (double)truth->bytes[index], 0);
    assert_close(line.median_s, printed_us * 1e-6, 1e-12);
}

static void what_is_imported_is_what_was_measured(void **state)
{
    (void)state;
    uint64_t random = 20261130;
    int64_t n_taken = 0;
    int64_t n_whole = 0;
    for (int i = 0; i < N_LOGS; i++) {
        struct sp_arena *arena = sp_arena_open();
        const struct truth truth = make_truth(&random);
        const char *log = log_text(arena, &truth);
        const struct import_text text = import_log_lines(arena, log);
        const struct import_given given = {.nodes = truth.has_list ? 0 : truth.nodes, .gpu = "H100"};
        struct import_result result;
        struct sp_error err = {0};
        bool is_taken = import_nccl(arena, &text, &given, &result, &err);
        if (!is_taken) {
            bool is_open = strstr(err.text, "add --ranks N") != NULL || strstr(err.text, "add --operation") != NULL;
            if (!is_open || (truth.is_named && truth.has_list)) {
                fail_msg("log %d: %s\n%s", i, err.text, log);
            }
        } else {
            assert_int_equal(result.n_skipped, 0);
            assert_int_equal(result.runs[0].n_rows, 2 * N_ROWS);
            for (size_t row = 0; row < result.runs[0].n_rows; row++) {
                check_row(arena, &truth, &result.runs[0], row);
            }
        }
        n_taken += is_taken ? 1 : 0;
        n_whole += truth.is_named && truth.has_list ? 1 : 0;
        sp_arena_close(arena);
    }
    assert_true(n_whole > N_LOGS / 5);
    assert_true(n_taken > 2 * n_whole); /* most that leave something open are taken as well */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_imported_is_what_was_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
