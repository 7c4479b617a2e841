/* Output of nccl-tests: every log that was collected, what of it is taken, and what its rows mean; what is no row, and
 * what contradicts itself. */
#include "support/import_logs.h"
#include "support/support.h"

#include <string.h>

static int open_arena(void **state)
{
    *state = sp_arena_open();
    return 0;
}

static int close_arena(void **state)
{
    sp_arena_close(*state);
    return 0;
}

static bool try_import(struct sp_arena *arena, const struct import_text *text, struct import_given given,
                       struct import_result *result, struct sp_error *err)
{
    enum import_kind kind = N_IMPORT_KINDS;
    *err = (struct sp_error){0};
    return import_recognise(text, &kind, err) && kind == IMPORT_NCCL_TESTS &&
           import_nccl(arena, text, &given, result, err);
}

static struct import_result take(struct sp_arena *arena, const char *text, struct import_given given)
{
    struct import_result result;
    struct sp_error err;
    const struct import_text lines = import_log_lines(arena, text);
    if (!try_import(arena, &lines, given, &result, &err)) {
        fail_msg("%s", err.text);
    }
    return result;
}

static void refuse(struct sp_arena *arena, const char *text, struct import_given given, const char *reason)
{
    struct import_result result;
    struct sp_error err;
    const struct import_text lines = import_log_lines(arena, text);
    if (try_import(arena, &lines, given, &result, &err)) {
        fail_msg("not refused, expected: %s", reason);
    }
    assert_int_equal(err.kind, SP_ERROR_INPUT);
    assert_error_contains(&err, reason);
}

/* ---- the collected logs ----------------------------------------------------------------------------------------- */

/* Rows as `grep -cE '[0-9]+ +[0-9]+ +float'` counts them, empty ones as `grep -cE '0 +0 +float'`; halves as columns of the
 * heading say. Ranks and operation as the list of devices, the name of the program or, where there is neither, size over
 * count x 4 bytes and busbw over algbw say by hand. */
static const struct {
    const char *file;
    struct import_given given;
    int64_t n_rows, n_empty, n_halves;
    const char *operation;
    int64_t ranks, nodes;
    const char *gpu;
    const char *refusal; /* without the given options, or all in all */
} logs[] = {
    {"a100_2xp4de_efa_x16_allreduce_aws",
     {.nodes = 2, .gpu = "A100"},
     29,
     0,
     58,
     "all-reduce",
     16,
     2,
     "A100",
     "how many nodes, which GPU: add --nodes N --gpu NAME"},
    {"a40_2nodes_x2_sendrecv_small", {0}, 5, 0, 10, "send-recv-ring", 2, 2, "NVIDIA A40", NULL},
    {"b200_2nodes_1gpu_1nic_allgather_gke", {0}, 28, 2, 52, "all-gather", 2, 2, "NVIDIA B200", NULL},
    {"b200_2nodes_x16_roce_allreduce_gke", {0}, 12, 0, 12, "all-reduce", 16, 2, "NVIDIA B200", NULL},
    {"b200_4podsx4_x16_allgather_gke_misaligned_summary",
     {0},
     0,
     0,
     0,
     NULL,
     0,
     0,
     NULL,
     "only the average, which is of no size"},
    {"b200_x2_nvlink_allgather_gke", {0}, 8, 0, 16, "all-gather", 2, 1, "NVIDIA B200", NULL},
    {"b200_x8_nvlink_allreduce_gke", {0}, 12, 0, 12, "all-reduce", 8, 1, "NVIDIA B200", NULL},
    {"gb200_20racks_x1440_allreduce_coreweave",
     {.nodes = 360},
     6,
     0,
     12,
     "all-reduce",
     1440,
     360,
     "NVIDIA GB200",
     "lists 1 of 1440 ranks): add --nodes N"},
    {"gb200_nvl72_x72_allreduce_coreweave",
     {.nodes = 18, .gpu = "gb200"},
     5,
     0,
     10,
     "all-reduce",
     72,
     18,
     "gb200",
     "lists 1 of 72 ranks): add --nodes N"},
    {"gb200_x128_2racks_allreduce_oci",
     {.nodes = 32},
     33,
     0,
     66,
     "all-reduce",
     128,
     32,
     "NVIDIA GB200",
     "lists 1 of 128 ranks): add --nodes N"},
    {"gb300_2xa4xmax_x8_crossdomain_allgather_gcp", {0}, 23, 0, 46, "all-gather", 8, 2, "NVIDIA GB300", NULL},
    {"gb300_2xa4xmax_x8_jobset_allgather_gcp",
     {.nodes = 2, .gpu = "gb300"},
     24,
     0,
     48,
     "all-gather",
     8,
     2,
     "gb300",
     "how many nodes, which GPU: add --nodes N --gpu NAME"},
    {"gb300_x128_2racks_allreduce_oci",
     {.nodes = 32},
     2,
     0,
     4,
     "all-reduce",
     128,
     32,
     "NVIDIA GB300",
     "lists 3 of 128 ranks): add --nodes N"},
    {"gb300_x4_nvlink_allreduce_oci", {0}, 2, 0, 4, "all-reduce", 4, 1, "NVIDIA GB300", NULL},
    {"gb300_x64_mnnvl_allreduce_oci",
     {.nodes = 16},
     2,
     0,
     4,
     "all-reduce",
     64,
     16,
     "NVIDIA GB300",
     "lists 3 of 64 ranks): add --nodes N"},
    {"gb300_x64_mnnvl_alltoall_oci",
     {.nodes = 16},
     2,
     0,
     4,
     "all-to-all",
     64,
     16,
     "NVIDIA GB300",
     "lists 3 of 64 ranks): add --nodes N"},
    {"gb300_x8_mnnvl_allreduce_oci", {0}, 2, 0, 4, "all-reduce", 8, 2, "NVIDIA GB300", NULL},
    /* busbw = algbw: 2 (n - 1) / n is 1 for two ranks */
    {"h100_2nodes_1gpu_4nic_tree_allreduce",
     {.nodes = 2, .gpu = "h100"},
     5,
     0,
     10,
     "all-reduce",
     2,
     2,
     "h100",
     "how many nodes, which GPU"},
    {"h100_2nodes_x16_ib_allreduce", {0}, 6, 0, 12, "all-reduce", 16, 2, "NVIDIA H100 80GB HBM3", NULL},
    {"h100_2xa3mega_tcpxo_x16_allreduce_gcp", {0}, 31, 0, 62, "all-reduce", 16, 2, "NVIDIA H100 80GB HBM3", NULL},
    {"h100_2xp5_efa_x16_allreduce_eks_prefixed",
     {.nodes = 2, .gpu = "h100"},
     7,
     1,
     12,
     "all-reduce",
     16,
     2,
     "h100",
     "how many nodes, which GPU"},
    {"h100_malformed_built_without_mpi_allreduce",
     {.ranks = 8, .nodes = 1, .gpu = "h100"},
     0,
     0,
     0,
     NULL,
     0,
     0,
     NULL,
     "each process ran on its own rank alone"},
    {"h100_pcie_2gpu_nvlink_bridge_allreduce",
     {.nodes = 1, .gpu = "h100-pcie"},
     2,
     0,
     4,
     "all-reduce",
     2,
     1,
     "h100-pcie",
     "how many nodes, which GPU"},
    /* its page speaks of 64 GPUs; 356.01 / 179.88 = 1.979 is 2 (n - 1) / n of 96 ranks, of 64 it is 1.969 */
    {"h100_x64_ib_allreduce_coreweave",
     {.nodes = 12, .gpu = "h100"},
     5,
     0,
     10,
     "all-reduce",
     96,
     12,
     "h100",
     "how many nodes, which GPU"},
    {"h100_x8_nvlink_allreduce_dgxc", {0}, 32, 0, 64, "all-reduce", 8, 1, "NVIDIA H100 80GB HBM3", NULL},
    {"h200_2nodes_1gpu_1nic_allreduce_gke", {0}, 24, 0, 48, "all-reduce", 2, 2, "NVIDIA H200", NULL},
    {"h20_2nodes_x16_nvlstree_allreduce_oldformat_small",
     {.ranks = 16, .nodes = 2, .gpu = "H20"},
     8,
     0,
     16,
     "all-reduce",
     16,
     2,
     "H20",
     "how many ranks, how many nodes, which GPU: add --ranks N --nodes N --gpu NAME"},
    {"rtx2080ti_2gpu_nvlink_bridge_allgather_oldformat",
     {.nodes = 1, .gpu = "RTX 2080 Ti"},
     13,
     0,
     26,
     "all-gather",
     2,
     1,
     "RTX 2080 Ti",
     "how many nodes, which GPU"},
    {"x24_allreduce_chunk_prefixed_collapse",
     {.nodes = 3, .gpu = "unknown"},
     10,
     0,
     20,
     "all-reduce",
     24,
     3,
     "unknown",
     "how many nodes, which GPU"},
    {"x8_reducescatter_oldformat",
     {.nodes = 1, .gpu = "unknown"},
     12,
     0,
     24,
     "reduce-scatter",
     8,
     1,
     "unknown",
     "how many nodes, which GPU"},
};

static void check_text(const struct measurement *line, const char *name, const char *expected)
{
    const struct sp_json *value = import_log_parameter(line, name);
    assert_non_null(value);
    assert_int_equal(value->type, SP_JSON_STRING);
    assert_string_equal(value->string, expected);
}

static void check_number(const struct measurement *line, const char *name, double expected)
{
    const struct sp_json *value = import_log_parameter(line, name);
    assert_non_null(value);
    assert_int_equal(value->type, SP_JSON_NUMBER);
    assert_close(value->number, expected, 0);
}

static void check_log(struct sp_arena *arena, size_t index)
{
    const struct import_text text = import_log_text(arena, sp_format(arena, "nccl/%s.txt", logs[index].file));
    struct import_result result;
    struct sp_error err;
    if (logs[index].refusal != NULL) {
        const struct import_given nothing = {.ranks = 0};
        assert_false(try_import(arena, &text, nothing, &result, &err));
        assert_int_equal(err.kind, SP_ERROR_INPUT);
        assert_error_contains(&err, logs[index].refusal);
        assert_error_contains(&err, logs[index].file);
    }
    bool is_good = try_import(arena, &text, logs[index].given, &result, &err);
    assert_int_equal(is_good, logs[index].n_rows > 0);
    if (!is_good) {
        assert_error_contains(&err, logs[index].refusal);
        return;
    }
    assert_int_equal(result.n_taken, logs[index].n_rows - logs[index].n_empty);
    assert_int_equal(result.n_skipped, logs[index].n_empty);
    assert_int_equal(result.n_measurements, logs[index].n_halves);
    assert_int_equal(result.n_runs, 1);
    for (size_t row = 0; row < result.runs[0].n_rows; row++) {
        const struct measurement line = import_log_row(arena, &result.runs[0], row);
        assert_int_equal(line.group, MEASUREMENT_COLLECTIVE);
        check_text(&line, "operation", logs[index].operation);
        check_number(&line, "ranks", (double)logs[index].ranks);
        check_number(&line, "nodes", (double)logs[index].nodes);
        check_text(&line, "dtype", "float");
        check_text(&line, "beside", "none");
    }
    struct measurement machine;
    const char *json = result.runs[0].run.machine;
    assert_true(measurement_parse(arena, json, strlen(json), &machine, &err));
    assert_string_equal(sp_json_member(machine.json, "gpu")->string, logs[index].gpu);
}

static void every_collected_log_is_taken_or_refused_for_its_reason(void **state)
{
    struct sp_arena *arena = *state;
    for (size_t i = 0; i < SP_COUNT_OF(logs); i++) {
        check_log(arena, i);
    }
    assert_int_equal(SP_COUNT_OF(logs), 30);
}

static void log_of_ninety_six_ranks_is_none_of_sixty_four(void **state)
{
    struct sp_arena *arena = *state;
    const struct import_text text = import_log_text(arena, "nccl/h100_x64_ib_allreduce_coreweave.txt");
    struct import_result result;
    struct sp_error err;
    const struct import_given given = {.ranks = 64, .nodes = 8, .gpu = "h100"};
    assert_false(try_import(arena, &text, given, &result, &err));
    assert_error_contains(&err, "no row fits 64 ranks: sizes and bandwidths are those of all-reduce over 96 ranks");
}

/* ---- what a row means ------------------------------------------------------------------------------------------- */

#define HEADING                                                                                                        \
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw "   \
    "#wrong\n"
#define RANKS                                                                                                          \
    "# nThread 1 nGpus 3 minBytes 8 maxBytes 1024 step: 1048576(bytes) warmup iters: 5 iters: 61 agg iters: 1\n"       \
    "#  Rank  0 Group  0 Pid   1000 on      node0 device  0 [0x1b] NVIDIA H100 80GB HBM3\n"                            \
    "#  Rank  1 Group  0 Pid   1001 on      node0 device  1 [0x43] NVIDIA H100 80GB HBM3\n"                            \
    "#  Rank  2 Group  0 Pid   1002 on      node0 device  2 [0x52] NVIDIA H100 80GB HBM3\n"

/* Three ranks, 3,145,728 bytes in 61 us: 51.57 GB/s. By hand, what a rank sends: all-reduce 4/3 of the buffer (4,194,304,
 * busbw 68.76), all-gather of one part to each of two others, 2/3 of the result (2,097,152, busbw 34.38), a message of
 * send and receive whole. count: of an all-reduce all of it, 786,432 floats; of an all-gather a third, 262,144. */
static const struct {
    const char *row;
    const char *operation;
    double message_bytes, sent_bytes;
} rows[] = {
    {" 3145728 786432 float sum -1 61.00 51.57 68.76 0 61.00 51.57 68.76 0\n", "all-reduce", 3145728, 4194304},
    {" 3145728 262144 float none -1 61.00 51.57 34.38 0 61.00 51.57 34.38 0\n", "all-gather", 3145728, 2097152},
    {" 3145728 262144 float sum -1 61.00 51.57 34.38 0 61.00 51.57 34.38 0\n", "reduce-scatter", 3145728, 2097152},
    {" 3145728 262144 float none -1 61.00 51.57 34.38 0 61.00 51.57 34.38 N/A\n", "all-to-all", 3145728, 2097152},
    {" 3145728 786432 float sum -1 61.00 51.57 51.57 0 61.00 51.57 51.57 N/A\n", "send-recv-ring", 3145728, 3145728},
    {" 3145728 786432 float none 2 61.00 51.57 51.57 0 61.00 51.57 51.57 0\n", "broadcast", 3145728, 3145728},
    {" 3145728 786432 float sum 0 61.00 51.57 51.57 0 61.00 51.57 51.57 0\n", "reduce", 3145728, 3145728},
    /* half: count is 2 bytes each */
    {" 3145728 1572864 half sum -1 61.00 51.57 68.76 0 61.00 51.57 68.76 0\n", "all-reduce", 3145728, 4194304},
};

static void message_bytes_and_sent_bytes_by_hand(void **state)
{
    struct sp_arena *arena = *state;
    for (size_t i = 0; i < SP_COUNT_OF(rows); i++) {
        const char *text = sp_format(arena, "%s%s%s", RANKS, HEADING, rows[i].row);
        const struct import_result result = take(arena, text, (struct import_given){0});
        assert_int_equal(result.n_measurements, 2);
        for (size_t half = 0; half < 2; half++) {
            const struct measurement line = import_log_row(arena, &result.runs[0], half);
            check_text(&line, "operation", rows[i].operation);
            check_number(&line, "message_bytes", rows[i].message_bytes);
            check_number(&line, "in_place", (double)half);
            assert_close(line.bytes, rows[i].sent_bytes, 1e-12);
            assert_close(line.median_s, 61e-6, 1e-12);
            assert_close(line.low_s, line.high_s, 0);
            assert_close(line.min_s, line.median_s, 0);
            assert_int_equal(line.count, 61);
        }
    }
}

/* Of a gather and a scatter only the program's name tells which. */
static void rooted_gather_must_be_named(void **state)
{
    struct sp_arena *arena = *state;
    static const char row[] = " 3145728 262144 float none 0 61.00 51.57 34.38 0 61.00 51.57 34.38 0\n";
    refuse(arena, sp_format(arena, "%s%s%s", RANKS, HEADING, row), (struct import_given){0},
           "fit more than one operation and the log names none: add --operation");
    const struct import_result asked =
        take(arena, sp_format(arena, "%s%s%s", RANKS, HEADING, row), (struct import_given){.operation = "scatter"});
    const struct measurement scatter = import_log_row(arena, &asked.runs[0], 0);
    check_text(&scatter, "operation", "scatter");
    const struct import_result named =
        take(arena, sp_format(arena, "$ mpirun -n 3 ./build/gather_perf -b 3M\n%s%s%s", RANKS, HEADING, row),
             (struct import_given){0});
    const struct measurement gather = import_log_row(arena, &named.runs[0], 0);
    check_text(&gather, "operation", "gather");
    check_number(&gather, "root", 0);
}

/* Before 2.10 algbw of an all-gather was what crosses the bus: both are 2/3 of 51.57. Its size is the whole result all
 * the same: 262,144 floats of each of 3 ranks are 3,145,728 bytes. */
static void old_all_gather_has_its_whole_result_as_size(void **state)
{
    struct sp_arena *arena = *state;
    static const char heading[] = "#  size  count  type  time  algbw  busbw  error  time  algbw  busbw  error\n";
    static const char row[] = " 3145728 262144 float 61.00 34.38 34.38 0e+00 61.00 34.38 34.38 0e+00\n";
    const struct import_result result =
        take(arena, sp_format(arena, "%s%s", heading, row), (struct import_given){.nodes = 1, .gpu = "T4"});
    const struct measurement line = import_log_row(arena, &result.runs[0], 1);
    check_text(&line, "operation", "all-gather");
    check_number(&line, "ranks", 3);
    check_number(&line, "message_bytes", 3145728);
    assert_null(import_log_parameter(&line, "redop"));
    assert_int_equal(line.count, 1);
}

/* ---- what stands around rows ------------------------------------------------------------------------------------ */

static const char good[] = " 3145728 786432 float sum -1 61.00 51.57 68.76 0 61.00 51.57 68.76 0\n";

static void prefixes_colours_and_warnings_are_no_concern(void **state)
{
    struct sp_arena *arena = *state;
    static const char *const forms[] = {
        "0: %s",
        "[0]%s",
        "[1,0]<stdout>:%s",
        "[1,17]<stdout>:%s",
        "node61: %s",
        "2026-11-30T01:02:03Z %s",
        "\x1b[32m%s\x1b[0m",
        "node61:77:88 [0] NCCL WARN Cuda failure 'peer access'\n%s",
        "\r%s",
        "%s...\n",
    };
    for (size_t i = 0; i < SP_COUNT_OF(forms); i++) {
        const char *at = strstr(forms[i], "%s");
        const char *row = sp_format(arena, "%.*s%s%s", (int)(at - forms[i]), forms[i], good, at + 2);
        const struct import_result result =
            take(arena, sp_format(arena, "%s%s%s", RANKS, HEADING, row), (struct import_given){0});
        assert_int_equal(result.n_measurements, 2);
        assert_int_equal(result.n_skipped, 0);
    }
}

static void prefix_that_touches_the_row(void **state)
{
    struct sp_arena *arena = *state;
    const struct import_result result =
        take(arena, sp_format(arena, "%s%s[1,0]<stdout>:%s", RANKS, HEADING, good + 1), (struct import_given){0});
    assert_int_equal(result.n_measurements, 2);
}

/* A prefix in the middle of a row, where a launcher flushed. */
static void prefix_inside_a_row(void **state)
{
    struct sp_arena *arena = *state;
    static const char row[] = "[0] 3145728 786432 float sum -1[0] 61.00 51.57 68.76 0[0] 61.00 51.57 68.76 0\n";
    const struct import_result result =
        take(arena, sp_format(arena, "%s%s%s", RANKS, HEADING, row), (struct import_given){0});
    assert_int_equal(result.n_measurements, 2);
}

static void number_and_colon_inside_a_row(void **state)
{
    struct sp_arena *arena = *state;
    static const char row[] = "0: 3145728 786432 float sum -1 0: 61.00 51.57 68.76 0 0: 61.00 51.57 68.76 0\n";
    const struct import_result result =
        take(arena, sp_format(arena, "%s%s%s", RANKS, HEADING, row), (struct import_given){0});
    assert_int_equal(result.n_measurements, 2);
}

/* Each process prints all of it, and their lines mingle. */
static void program_without_mpi_that_repeats_its_heading(void **state)
{
    struct sp_arena *arena = *state;
    static const char head[] = "# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 20\n"
                               "#  Rank  0 Group  0 Pid   1000 on      node0 device  0 [0x1b] NVIDIA H100\n";
    static const char row[] = " 3145728 786432 float sum -1 61.00 51.57 0.00 0 0.51 6168.09 0.00 0\n";
    const char *text = sp_format(arena, "%s%s%s%s%s%s%s", head, head, HEADING, HEADING, row, row, row);
    refuse(arena, text, (struct import_given){0}, "each process ran on its own rank alone");
    refuse(arena, text, (struct import_given){.nodes = 1, .operation = "all-reduce"}, "build with MPI=1");
}

static void two_tables_are_two_runs(void **state)
{
    struct sp_arena *arena = *state;
    static const char gather[] = " 3145728 262144 float none -1 61.00 51.57 34.38 0 61.00 51.57 34.38 0\n";
    const char *text = sp_format(arena, "%s%s%s%s%s%s", RANKS, HEADING, good, RANKS, HEADING, gather);
    const struct import_result result = take(arena, text, (struct import_given){0});
    assert_int_equal(result.n_runs, 2);
    assert_int_equal(result.n_measurements, 4);
    const struct measurement first = import_log_row(arena, &result.runs[0], 0);
    const struct measurement second = import_log_row(arena, &result.runs[1], 0);
    check_text(&first, "operation", "all-reduce");
    check_text(&second, "operation", "all-gather");
    assert_string_not_equal(result.runs[0].run.key, result.runs[1].run.key);
}

/* The list of the first run is none of the second's, which ran elsewhere. */
static void second_run_does_not_inherit_the_first_ones_devices(void **state)
{
    struct sp_arena *arena = *state;
    const char *text = sp_format(arena, "%s%s%s# nThread 1 nGpus 1 minBytes 8 maxBytes 8 iters: 7\n%s%s", RANKS,
                                 HEADING, good, HEADING, good);
    refuse(arena, text, (struct import_given){0}, "how many nodes, which GPU: add --nodes N --gpu NAME");
}

static void name_of_the_first_run_is_none_of_the_second(void **state)
{
    struct sp_arena *arena = *state;
    static const char gather[] = " 3145728 262144 float none -1 61.00 51.57 34.38 0 61.00 51.57 34.38 0\n";
    const char *text = sp_format(arena, "# Collective test starting: all_gather_perf\n%s%s%s%s%s%s", RANKS, HEADING,
                                 gather, RANKS, HEADING, good);
    const struct import_result result = take(arena, text, (struct import_given){0});
    const struct measurement second = import_log_row(arena, &result.runs[1], 0);
    check_text(&second, "operation", "all-reduce");
}

/* Processes that run the same on their own print the same list: it is of three ranks, not of six. */
static void list_that_is_printed_again_is_the_same_list(void **state)
{
    struct sp_arena *arena = *state;
    const char *list = strchr(RANKS, '\n') + 1;
    const struct import_result result =
        take(arena, sp_format(arena, "%s%s%s%s", list, list, HEADING, good), (struct import_given){0});
    const struct measurement line = import_log_row(arena, &result.runs[0], 0);
    check_number(&line, "ranks", 3);
    check_number(&line, "nodes", 1);
}

/* Whatever names a log has, a line of ours holds them. */
static void endless_names_are_cut(void **state)
{
    struct sp_arena *arena = *state;
    char endless[100000];
    memset(endless, 'H', sizeof(endless) - 1);
    endless[sizeof(endless) - 1] = '\0';
    const char *text = sp_format(arena,
                                 "#  Rank  0 Group  0 Pid   1000 on  n device  0 [0x1b] %s\n"
                                 "#  Rank  1 Group  0 Pid   1000 on  n device  1 [0x1c] %s\n"
                                 "#  Rank  2 Group  0 Pid   1000 on  n device  2 [0x1d] %s\n"
                                 "-x NCCL_ALGO=%s\nNCCL version 2%s\n%s%s",
                                 endless, endless, endless, endless, endless, HEADING, good);
    const struct import_result result = take(arena, text, (struct import_given){0});
    (void)import_log_row(arena, &result.runs[0], 0); /* which fails on a line that is too long */
    assert_true(strlen(result.runs[0].run.machine) < MEASUREMENT_LINE_BYTES / 2);
}

static void same_size_again_is_another_measurement(void **state)
{
    struct sp_arena *arena = *state;
    const char *text = sp_format(arena, "%s%s%s%s", RANKS, HEADING, good, good);
    const struct import_result result = take(arena, text, (struct import_given){0});
    assert_int_equal(result.n_measurements, 4);
    const struct measurement again = import_log_row(arena, &result.runs[0], 2);
    check_number(&again, "repeat", 2);
    assert_string_not_equal(result.runs[0].rows[0].key, result.runs[0].rows[2].key);
}

static void run_is_known_by_what_it_says(void **state)
{
    struct sp_arena *arena = *state;
    const char *plain = sp_format(arena, "%s%s%s", RANKS, HEADING, good);
    const char *tagged = sp_format(arena, "hello\n%s%s[0]%s# Avg bus bandwidth : 68.76\n", RANKS, HEADING, good);
    const struct import_result first = take(arena, plain, (struct import_given){0});
    const struct import_result second = take(arena, tagged, (struct import_given){0});
    const struct import_result other = take(arena, plain, (struct import_given){.gpu = "H100"});
    assert_string_equal(first.runs[0].run.key, second.runs[0].run.key);
    assert_string_not_equal(first.runs[0].run.key, other.runs[0].run.key);
}

/* The list of devices says H100: another chip is a mistake, a name of none a name. */
static void gpu_that_is_not_the_logs_is_refused(void **state)
{
    struct sp_arena *arena = *state;
    const char *text = sp_format(arena, "%s%s%s", RANKS, HEADING, good);
    refuse(arena, text, (struct import_given){.gpu = "b200-sxm"},
           "table at line 6: the log names the GPU NVIDIA H100 80GB HBM3, --gpu says b200-sxm: leave --gpu out");
    const struct import_result named = take(arena, text, (struct import_given){.gpu = "h100-sxm"});
    assert_int_equal(named.warnings.count, 0);
    const struct import_result odd = take(arena, text, (struct import_given){.gpu = "ours"});
    assert_int_equal(odd.warnings.count, 1);
    assert_non_null(strstr(odd.warnings.items[0], "--gpu says ours: kept as ours"));
}

/* NCCL_DEBUG=INFO tells ranks and nodes of every communicator; the largest is the one that was timed. */
static void ranks_and_nodes_from_the_messages_of_nccl(void **state)
{
    struct sp_arena *arena = *state;
    static const char newer[] = "node0:7:7 [0] NCCL INFO comm 0x55 rank 0 nRanks 3 nNodes 3 localRanks 1 localRank 0\n"
                                "node0:7:7 [0] NCCL INFO comm 0x66 rank 0 nRanks 2 nNodes 1 localRanks 2 localRank 0\n";
    static const char older[] =
        "node0:7:7 [0] NCCL INFO comm 0x55 rank 0 nranks 3 cudaDev 0 busId 1b000 - Init COMPLETE\n";
    const struct import_result told =
        take(arena, sp_format(arena, "%s%s%s", newer, HEADING, good), (struct import_given){.gpu = "H100"});
    const struct measurement line = import_log_row(arena, &told.runs[0], 0);
    check_number(&line, "ranks", 3);
    check_number(&line, "nodes", 3);
    refuse(arena, sp_format(arena, "%s%s%s", older, HEADING, good), (struct import_given){.gpu = "H100"},
           "the log does not say how many nodes: add --nodes N");
}

static void settings_of_the_environment(void **state)
{
    struct sp_arena *arena = *state;
    static const char command[] = "$ mpirun -n 3 -x NCCL_ALGO=Tree -x NCCL_NVLS_ENABLE=0 ./all_reduce_perf -b 3M\n";
    static const char message[] = "node0:7:7 [0] NCCL INFO NCCL_PROTO set by environment to LL128.\n";
    const struct import_result result =
        take(arena, sp_format(arena, "%s%s%s%s%s", command, RANKS, message, HEADING, good), (struct import_given){0});
    const struct measurement line = import_log_row(arena, &result.runs[0], 0);
    check_text(&line, "nccl_algo", "Tree");
    check_text(&line, "nccl_nvls_enable", "0");
    check_text(&line, "nccl_proto", "LL128");
    const struct import_result plain =
        take(arena, sp_format(arena, "%s%s%s", RANKS, HEADING, good), (struct import_given){0});
    const struct measurement unset = import_log_row(arena, &plain.runs[0], 0);
    assert_null(import_log_parameter(&unset, "nccl_algo"));
}

static void versions_of_nccl(void **state)
{
    struct sp_arena *arena = *state;
    static const struct {
        const char *line, *version;
    } versions[] = {{"NCCL version 2.26.6+cuda12.8\n", "2.26.6+cuda12.8"},
                    /* 22809 = 2 x 10000 + 28 x 100 + 9 */
                    {"# nccl-tests version 2.17.6 nccl-headers=22809 nccl-library=22809\n", "2.28.9"}};
    for (size_t i = 0; i < SP_COUNT_OF(versions); i++) {
        const char *text = sp_format(arena, "%s%s%s%s", RANKS, versions[i].line, HEADING, good);
        const struct import_result result = take(arena, text, (struct import_given){0});
        assert_non_null(strstr(result.runs[0].run.machine, sp_format(arena, "\"nccl\": \"%s\"", versions[i].version)));
    }
}

/* ---- rows that are of no use ------------------------------------------------------------------------------------ */

static void bad_rows_are_skipped_and_named(void **state)
{
    struct sp_arena *arena = *state;
    static const struct {
        const char *row, *reason;
        int64_t n_measurements; /* of it, beside the two of a good row */
    } bad[] = {
        {" 3145728 786432 float sum -1 61.00 51.57 68.76 3 61.00 51.57 68.76 3\n", "3 values of the result were wrong",
         0},
        {" 3145728 786432 float sum -1 61.00 51.57 68.76 0 61.00 51.57 68.76 3\n", "3 values of the result were wrong",
         1},
        {" 3145728 786432 float sum -1 61.00 51.57 68.76 0 61.00 51.\n", "its in-place half is cut off", 1},
        {" 3145728 786432 float sum -1 61.00 51.57 68.76 0 61.00 51.57 68.76\n", "its in-place half is cut off", 1},
        {" 3145728 786432 float sum -1 61.00\n", "it is cut off", 0},
        {" 3145728 786432 float\n", "it is cut off", 0},
        {" 3145728 786431 float sum -1 61.00 51.57 68.76 0 61.00 51.57 68.76 0\n",
         "3145728 bytes are not 786431 elements", 0},
        {" 3145728 786432 half sum -1 61.00 51.57 68.76 0 61.00 51.57 68.76 0\n", "are not 786432 elements of half", 0},
        {" 3145728 786432 float sum -1 61.00 51.57 48.76 0 61.00 51.57 48.76 0\n",
         "algbw 51.57 and busbw 48.76 GB/s contradict", 0},
        {" 3145728 786432 float sum -1 67.00 51.57 68.76 0 67.00 51.57 68.76 0\n", "contradict 3145728 bytes in 67 us",
         0},
        {" 3145728 786432 float sum -1 61.00 68.76 68.76 0 61.00 68.76 68.76 0\n",
         "algbw 68.76 and busbw 68.76 GB/s contradict", 0},
        {" 3145728 786432 float sum -1 0.00 51.57 68.76 0 0.00 51.57 68.76 0\n", "its time is 0", 0},
        {" 0 0 float sum -1 0.06 0.00 0.00 0 0.06 0.00 0.00 0\n", "the message has no bytes", 0},
        {" 3145728 786432 float sum -1 nan 51.57 68.76 0 inf 51.57 68.76 0\n", "it is cut off", 0},
        {" 3145728 786432 float sum -1 0x61 51.57 68.76 0 -61 51.57 68.76 0\n", "it is cut off", 0},
    };
    for (size_t i = 0; i < SP_COUNT_OF(bad); i++) {
        const char *text = sp_format(arena, "%s%s%s%s%s", RANKS, HEADING, good, bad[i].row,
                                     " 6291456 1572864 float sum -1 122.0 51.57 68.76 0 122.0 51.57 68.76 0\n");
        const struct import_result result = take(arena, text, (struct import_given){0});
        assert_int_equal(result.n_measurements, 4 + bad[i].n_measurements);
        assert_int_equal(result.n_skipped, bad[i].n_measurements == 0 ? 1 : 0);
        assert_int_equal(result.notes[1].line, 7); /* behind five of the head and the good one */
        if (strstr(result.notes[1].text, bad[i].reason) == NULL) {
            fail_msg("expected '%s' in '%s'", bad[i].reason, result.notes[1].text);
        }
    }
}

/* Halves that are lost are counted, one class each; rows that no reader of numbers or types knows are skipped, not overlooked; wrong
 * results warn. */
static void what_is_lost_is_counted(void **state)
{
    struct sp_arena *arena = *state;
    static const struct {
        const char *row, *reason;
        bool is_taken, is_flawed;
    } lost[] = {
        {" 3145728 786432 float sum -1 61.00 51.57 68.76 0 61.00 51.57 68.76 5\n", "a wrong result", true, true},
        {" 3145728 786432 float sum -1 61.00 51.57 68.76 0 0.00 51.57 68.76 0\n", "no time", true, true},
        {" 3145728 786432 float sum -1 122.00 51.57 68.76 0 61.00 51.57 68.76 0\n", "bandwidth and time contradict",
         true, true},
        {" 3145728 786432 float sum -1 61.00 51.57 68.76 0 61.00\n", "cut off", true, true},
        {" 999999999999999999999999 786432 float sum -1 61.00 51.57 68.76 0 61.00 51.57 68.76 0\n", "not readable",
         false, true},
        {" 3145728 786432 float4x sum -1 61.00 51.57 68.76 0 61.00 51.57 68.76 0\n", "not readable", false, true},
        {" 0 0 float sum -1 0.06 0.00 0.00 0 0.06 0.00 0.00 0\n", "an empty message", false, false},
    };
    for (size_t i = 0; i < SP_COUNT_OF(lost); i++) {
        const struct import_result result =
            take(arena, sp_format(arena, "%s%s%s%s", RANKS, HEADING, good, lost[i].row), (struct import_given){0});
        assert_int_equal(result.n_notes, 2);
        assert_string_equal(result.notes[1].reason, lost[i].reason);
        assert_int_equal(result.notes[1].is_taken, lost[i].is_taken);
        assert_int_equal(result.notes[1].is_flawed, lost[i].is_flawed);
        assert_int_equal(result.n_parts, lost[i].is_taken ? 1 : 0);
        assert_int_equal(result.n_measurements, lost[i].is_taken ? 3 : 2);
        assert_int_equal(result.n_skipped, lost[i].is_taken ? 0 : 1);
        assert_int_equal(result.warnings.count, i == 0 ? 1 : 0);
    }
}

static void in_place_that_was_not_measured_is_no_flaw(void **state)
{
    struct sp_arena *arena = *state;
    const char *text = sp_format(arena, "%s%s%s", RANKS, HEADING,
                                 " 3145728 262144 float none -1 61.00 51.57 34.38 0 N/A N/A N/A N/A\n");
    const struct import_result result = take(arena, text, (struct import_given){.operation = "all-to-all"});
    assert_int_equal(result.n_measurements, 1);
    assert_int_equal(result.n_skipped, 0);
}

static void whole_logs_that_are_of_no_use(void **state)
{
    struct sp_arena *arena = *state;
    refuse(arena, sp_format(arena, "%s%s", RANKS, HEADING), (struct import_given){0},
           "no row of nccl-tests in 5 lines");
    refuse(arena, sp_format(arena, "%s%s%s", RANKS, HEADING, good), (struct import_given){.ranks = 4},
           "the list of devices ends with rank 2, --ranks says 4: leave --ranks out");
    refuse(arena, sp_format(arena, "%s%s%s", RANKS, HEADING, good), (struct import_given){.operation = "all-gather"},
           "no row fits all-gather over 3 ranks");
    refuse(arena, sp_format(arena, "%s%s%s", RANKS, HEADING, good), (struct import_given){.nodes = 2},
           "3 ranks do not divide by 2 nodes");
    refuse(arena,
           sp_format(arena, "%s%s%s", RANKS,
                     "#  size  count  type  redop  root  cputime  algbw  busbw #wrong  cputime  algbw  busbw #wrong\n",
                     " 3145728 786432 float sum -1 61.00 51.57 68.76 0 61.00 51.57 68.76 0\n"),
           (struct import_given){0}, "its times are of the CPU (-C 1)");
    refuse(arena, "once upon a time\n", (struct import_given){0}, "no output that is known in 1 line:");
}

static void hosts_that_are_pods_are_told_by_the_user(void **state)
{
    struct sp_arena *arena = *state;
    static const char pods[] = "#  Rank  0 Group  0 Pid   1000 on      pod0 device  0 [0x1b] NVIDIA B200\n"
                               "#  Rank  1 Group  0 Pid   1001 on      pod1 device  0 [0x43] NVIDIA B200\n"
                               "#  Rank  2 Group  0 Pid   1002 on      pod2 device  0 [0x52] NVIDIA B200\n";
    const char *text = sp_format(arena, "%s%s%s", pods, HEADING, good);
    const struct import_result listed = take(arena, text, (struct import_given){0});
    const struct measurement on_three = import_log_row(arena, &listed.runs[0], 0);
    check_number(&on_three, "nodes", 3);
    const struct import_result told = take(arena, text, (struct import_given){.nodes = 1});
    const struct measurement on_one = import_log_row(arena, &told.runs[0], 0);
    check_number(&on_one, "nodes", 1);
    assert_int_equal(told.warnings.count, 1);
    assert_non_null(strstr(told.warnings.items[0], "the log lists 3 hosts, --nodes says 1: taken as 1"));
    const struct import_result one =
        take(arena, sp_format(arena, "%s%s%s", RANKS, HEADING, good), (struct import_given){.nodes = 3});
    assert_non_null(strstr(one.warnings.items[0], "the log lists 1 host, --nodes says 3: taken as 3"));
}

static void failed_checks_are_a_warning(void **state)
{
    struct sp_arena *arena = *state;
    const char *text = sp_format(arena, "%s%s%s# Out of bounds values : 7 FAILED\n", RANKS, HEADING, good);
    const struct import_result result = take(arena, text, (struct import_given){0});
    assert_int_equal(result.warnings.count, 1);
    assert_non_null(strstr(result.warnings.items[0], "wrong values"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_arena, close_arena)
    const struct CMUnitTest tests[] = {
        TEST(every_collected_log_is_taken_or_refused_for_its_reason),
        TEST(log_of_ninety_six_ranks_is_none_of_sixty_four),
        TEST(message_bytes_and_sent_bytes_by_hand),
        TEST(rooted_gather_must_be_named),
        TEST(old_all_gather_has_its_whole_result_as_size),
        TEST(prefixes_colours_and_warnings_are_no_concern),
        TEST(prefix_that_touches_the_row),
        TEST(prefix_inside_a_row),
        TEST(name_of_the_first_run_is_none_of_the_second),
        TEST(number_and_colon_inside_a_row),
        TEST(program_without_mpi_that_repeats_its_heading),
        TEST(two_tables_are_two_runs),
        TEST(second_run_does_not_inherit_the_first_ones_devices),
        TEST(list_that_is_printed_again_is_the_same_list),
        TEST(endless_names_are_cut),
        TEST(same_size_again_is_another_measurement),
        TEST(run_is_known_by_what_it_says),
        TEST(gpu_that_is_not_the_logs_is_refused),
        TEST(ranks_and_nodes_from_the_messages_of_nccl),
        TEST(settings_of_the_environment),
        TEST(versions_of_nccl),
        TEST(bad_rows_are_skipped_and_named),
        TEST(what_is_lost_is_counted),
        TEST(in_place_that_was_not_measured_is_no_flaw),
        TEST(whole_logs_that_are_of_no_use),
        TEST(hosts_that_are_pods_are_told_by_the_user),
        TEST(failed_checks_are_a_warning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
