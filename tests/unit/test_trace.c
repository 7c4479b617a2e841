/* Spans as a trace, read back; and files that appear whole or not at all. */
#include "report/gantt.h"
#include "support/questions.h"
#include "support/support.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

struct sample {
    struct sp_arena *arena;
    char *folder;
    struct question question;
    struct sim_rank ranks[2];
    struct sim_result result;
    struct sp_error err;
};

static int open_sample(void **state)
{
    struct sample *sample = calloc(1, sizeof(*sample));
    assert_non_null(sample);
    sample->arena = sp_arena_open();
    sample->folder = temp_folder_open();
    question_from(sample->arena, "model=llama-3.1-8b hardware=dgx-h100 gpus=16 seq=96K tp=2 sp=4 pp=2 batch=6",
                  &sample->question);
    sample->ranks[0] = (struct sim_rank){.rank = 3, .count = 7};
    sample->ranks[1] = (struct sim_rank){.rank = 9, .count = 1, .stage = 1};
    sample->result = (struct sim_result){.step_time_s = 2.5, .n_ranks = 2, .ranks = sample->ranks};
    *state = sample;
    return 0;
}

static int close_sample(void **state)
{
    struct sample *sample = *state;
    temp_folder_close(sample->folder);
    sp_arena_close(sample->arena);
    free(sample);
    return 0;
}

static const char *path_of(struct sample *sample, const char *name)
{
    return sp_format(sample->arena, "%s/%s", sample->folder, name);
}

/* Rank 3: a kernel, a collective that waited, a point of order; rank 9: a send of the ring. Times beyond 2^53 ps too. */
static void feed(const struct sim_sink *sink)
{
    static const int64_t late_ps = 9007199254740993; /* 2^53 + 1 */
    const struct sim_span spans[] = {
        {.rank = 3,
         .stream = STREAM_KERNELS,
         .name = "attention",
         .item = TIME_ATTENTION,
         .start_ps = 0,
         .duration_ps = 61000007,
         .micro_batch = 0,
         .layer = 39},
        {.rank = 9,
         .stream = STREAM_EXCHANGE,
         .name = "ring \"kv\"",
         .item = TIME_SP_EXPOSED,
         .start_ps = 5,
         .duration_ps = 70000000,
         .micro_batch = 1,
         .layer = 0,
         .pass = STEP_BACKWARD,
         .bytes = 393217,
         .delayed_ps = 1234567},
        {.rank = 3,
         .stream = STREAM_KERNELS,
         .name = "order",
         .item = TIME_OTHER,
         .start_ps = 61000007,
         .micro_batch = -1,
         .layer = -1},
        {.rank = 3,
         .stream = STREAM_KERNELS,
         .name = "tp all-gather",
         .item = TIME_TP_EXPOSED,
         .start_ps = 61000007,
         .duration_ps = 30000000,
         .micro_batch = -1,
         .layer = -1,
         .bytes = 1e9,
         .waited_ps = 11000000},
        {.rank = 3,
         .stream = STREAM_KERNELS,
         .name = "adam",
         .item = TIME_OPTIMIZER,
         .start_ps = late_ps,
         .duration_ps = 3,
         .micro_batch = -1,
         .layer = -1,
         .pass = STEP_OPTIMIZER},
    };
    for (size_t i = 0; i < SP_COUNT_OF(spans); i++) {
        sink->span(sink->context, &spans[i]);
    }
    sink->memory(sink->context, 3, 61000007, 1.5 * 0x1p30);
}

static void write_trace(struct sample *sample, const char *name)
{
    struct trace *trace = trace_open(sample->arena, path_of(sample, name), &sample->question, &sample->err);
    assert_non_null(trace);
    const struct sim_sink sink = trace_sink(trace);
    feed(&sink);
    assert_int_equal(trace_spans(trace), 4);
    assert_true(trace_close(trace, &sample->result, &sample->err));
}

static const struct sp_json *read_events(struct sample *sample, const char *name)
{
    const struct sp_json *json = sp_json_read(sample->arena, path_of(sample, name), &sample->err);
    if (json == NULL) {
        fail_msg("%s", sample->err.text);
    }
    return report_tree_at(json, "traceEvents");
}

static const char *text_at(const struct sp_json *event, const char *path)
{
    const struct sp_json *value = report_tree_at(event, path);
    return value == NULL || value->type != SP_JSON_STRING ? "" : value->string;
}

static double number_at(const struct sp_json *event, const char *path)
{
    const struct sp_json *value = report_tree_at(event, path);
    if (value == NULL || value->type != SP_JSON_NUMBER) {
        fail_msg("no number at %s", path);
    }
    return value->number;
}

/* The event of a phase with this name, or the test fails. */
static const struct sp_json *find(const struct sp_json *events, const char *phase, const char *name)
{
    for (const struct sp_json *event = events->first; event != NULL; event = event->next) {
        if (strcmp(text_at(event, "ph"), phase) == 0 && strcmp(text_at(event, "name"), name) == 0) {
            return event;
        }
    }
    fail_msg("no %s event '%s'", phase, name);
    return NULL;
}

static int count(const struct sp_json *events, const char *phase)
{
    int n = 0;
    for (const struct sp_json *event = events->first; event != NULL; event = event->next) {
        n += strcmp(text_at(event, "ph"), phase) == 0 ? 1 : 0;
    }
    return n;
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

static void spans_are_complete_events(void **state)
{
    struct sample *sample = *state;
    write_trace(sample, "step.json");
    const struct sp_json *events = read_events(sample, "step.json");
    assert_int_equal(count(events, "X"), 5); /* and the wait inside one of them */
    const struct sp_json *attention = find(events, "X", "attention");
    assert_close(number_at(attention, "pid"), 3, 0);
    assert_close(number_at(attention, "dur"), 61.000007, 0);
    assert_close(number_at(attention, "args.layer"), 39, 0);
    assert_close(number_at(attention, "args.micro_batch"), 0, 0);
    assert_null(report_tree_at(attention, "args.bytes"));
    const struct sp_json *ring = find(events, "X", "ring \"kv\"");
    assert_string_equal(text_at(ring, "cat"), "sp_exposed");
    assert_string_equal(text_at(ring, "args.pass"), "backward");
    assert_close(number_at(ring, "args.bytes"), 393217, 0);
    assert_close(number_at(ring, "args.delayed_us"), 1.234567, 0);
    assert_close(number_at(ring, "tid"), STREAM_EXCHANGE + 1, 0);
    assert_null(report_tree_at(find(events, "X", "tp all-gather"), "args.layer"));
}

static void memory_is_a_counter(void **state)
{
    struct sample *sample = *state;
    write_trace(sample, "step.json");
    const struct sp_json *memory = find(read_events(sample, "step.json"), "C", "memory GiB");
    assert_close(number_at(memory, "pid"), 3, 0);
    assert_close(number_at(memory, "ts"), 61.000007, 0);
    assert_close(number_at(memory, "args.allocated"), 1.5, 0);
}

static void ranks_and_streams_have_names(void **state)
{
    struct sample *sample = *state;
    write_trace(sample, "step.json");
    const struct sp_json *events = read_events(sample, "step.json");
    assert_int_equal(count(events, "M"), 2 * 2 + 2 * 3); /* two streams, two ranks, each named once */
    assert_string_equal(text_at(find(events, "M", "process_name"), "args.name"), "rank 3");
    assert_string_equal(text_at(find(events, "M", "process_labels"), "args.labels"), "stage 1, 7 alike");
    assert_string_equal(text_at(find(events, "M", "thread_name"), "args.name"), program_stream_names[STREAM_KERNELS]);
}

/* Picoseconds as text: what comes after the point is kept, where a double would have lost it. */
static void late_times_keep_every_picosecond(void **state)
{
    struct sample *sample = *state;
    write_trace(sample, "step.json");
    FILE *file = fopen(path_of(sample, "step.json"), "r");
    assert_non_null(file);
    char line[512];
    bool is_there = false;
    while (fgets(line, (int)sizeof(line), file) != NULL) {
        is_there = is_there || strstr(line, "\"ts\": 9007199254.740993, \"dur\": 0.000003,") != NULL;
    }
    assert_int_equal(fclose(file), 0);
    assert_true(is_there);
}

/* On one stream two spans lie apart, or one in the other. */
static void spans_of_a_stream_nest(void **state)
{
    struct sample *sample = *state;
    static const double slack_us = 1e-9; /* sums of decimal fractions */
    int n_nested = 0;
    write_trace(sample, "step.json");
    const struct sp_json *events = read_events(sample, "step.json");
    for (const struct sp_json *a = events->first; a != NULL; a = a->next) {
        for (const struct sp_json *b = a->next; b != NULL; b = b->next) {
            bool is_pair = strcmp(text_at(a, "ph"), "X") == 0 && strcmp(text_at(b, "ph"), "X") == 0 &&
                           (int)number_at(a, "pid") == (int)number_at(b, "pid") &&
                           (int)number_at(a, "tid") == (int)number_at(b, "tid");
            if (!is_pair) {
                continue;
            }
            double a_begin = number_at(a, "ts");
            double a_end = a_begin + number_at(a, "dur");
            double b_begin = number_at(b, "ts");
            double b_end = b_begin + number_at(b, "dur");
            bool is_inside = b_begin >= a_begin - slack_us && b_end <= a_end + slack_us;
            assert_true(b_begin >= a_end - slack_us || a_begin >= b_end - slack_us || is_inside);
            n_nested += is_inside ? 1 : 0;
        }
    }
    assert_int_equal(n_nested, 1); /* the wait, after what it is in */
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static void gz_is_the_same_text(void **state)
{
    struct sample *sample = *state;
    write_trace(sample, "step.json");
    write_trace(sample, "step.json.gz");
    const char *command = sp_format(sample->arena, "gunzip -c '%s' | cmp - '%s'", path_of(sample, "step.json.gz"),
                                    path_of(sample, "step.json"));
    assert_int_equal(system(command), 0);
    struct stat plain;
    struct stat packed;
    assert_int_equal(stat(path_of(sample, "step.json"), &plain), 0);
    assert_int_equal(stat(path_of(sample, "step.json.gz"), &packed), 0);
    assert_true(packed.st_size < plain.st_size);
}

static int files_in(struct sample *sample)
{
    const char *command = sp_format(sample->arena, "exit $(ls -A '%s' | wc -l)", sample->folder);
    return WEXITSTATUS(system(command));
}

static void nothing_stands_there_before_the_end(void **state)
{
    struct sample *sample = *state;
    const char *path = path_of(sample, "step.json");
    struct whole_file *file = whole_file_open(sample->arena, path, &sample->err);
    assert_non_null(file);
    whole_file_print(file, "half");
    assert_int_equal(access(path, F_OK), -1);
    assert_true(whole_file_close(file, &sample->err));
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(files_in(sample), 1);
}

static void dropped_file_leaves_what_was_there(void **state)
{
    struct sample *sample = *state;
    const char *path = temp_file(sample->arena, sample->folder, "step.json", "before", 6);
    struct whole_file *file = whole_file_open(sample->arena, path, &sample->err);
    assert_non_null(file);
    whole_file_print(file, "after");
    whole_file_drop(file);
    struct stat found;
    assert_int_equal(stat(path, &found), 0);
    assert_int_equal(found.st_size, 6);
    assert_int_equal(files_in(sample), 1);
}

static void link_is_followed(void **state)
{
    struct sample *sample = *state;
    const char *path = temp_file(sample->arena, sample->folder, "step.json", "before", 6);
    const char *link = path_of(sample, "link.json");
    assert_int_equal(symlink("step.json", link), 0);
    struct whole_file *file = whole_file_open(sample->arena, link, &sample->err);
    assert_non_null(file);
    whole_file_print(file, "%s", "afterwards");
    assert_true(whole_file_close(file, &sample->err));
    struct stat found;
    assert_int_equal(lstat(link, &found), 0);
    assert_true(S_ISLNK(found.st_mode));
    assert_int_equal(stat(path, &found), 0);
    assert_int_equal(found.st_size, 10);
}

/* A text longer than the buffer of one line. */
static void long_text_is_written_whole(void **state)
{
    struct sample *sample = *state;
    enum { LENGTH = 5003 };
    char *text = sp_arena_alloc(sample->arena, LENGTH + 1);
    memset(text, 'x', LENGTH);
    struct whole_file *file = whole_file_open(sample->arena, path_of(sample, "long"), &sample->err);
    assert_non_null(file);
    whole_file_print(file, "%s", text);
    assert_true(whole_file_close(file, &sample->err));
    char *read = sp_arena_alloc(sample->arena, LENGTH + 2);
    FILE *written = fopen(path_of(sample, "long"), "r");
    assert_non_null(written);
    assert_int_equal(fread(read, 1, LENGTH + 1, written), LENGTH);
    assert_int_equal(fclose(written), 0);
    assert_string_equal(read, text);
}

static void place_that_is_not_there(void **state)
{
    struct sample *sample = *state;
    const char *path = path_of(sample, "no/such/step.json");
    assert_null(trace_open(sample->arena, path, &sample->question, &sample->err));
    assert_int_equal(sample->err.kind, SP_ERROR_IO);
    assert_error_contains(&sample->err, "step.json: cannot be written: No such file or directory");
}

/* In a process of its own: the limit stays. */
static void write_beyond_the_limit(void *data)
{
    struct sample *sample = data;
    enum { LIMIT = 1000, LINES = 100000 };
    const struct rlimit limit = {LIMIT, LIMIT};
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    struct whole_file *file = whole_file_open(sample->arena, path_of(sample, "step.json"), &sample->err);
    for (int i = 0; file != NULL && i < LINES; i++) {
        whole_file_print(file, "line %d\n", i);
    }
    bool is_refused = file != NULL && !whole_file_close(file, &sample->err) && sample->err.kind == SP_ERROR_IO &&
                      strstr(sample->err.text, "File too large; nothing of it is kept; make room") != NULL;
    _exit(is_refused ? 0 : 1);
}

static void full_disk_leaves_nothing(void **state)
{
    struct sample *sample = *state;
    char output[1024];
    assert_int_equal(run_in_child(write_beyond_the_limit, sample, output, sizeof(output)), 0);
    assert_int_equal(files_in(sample), 0);
}

/* ---- charts ------------------------------------------------------------------------------------------------------ */

static char *print_chart(struct sample *sample, enum gantt_of of, bool is_exact)
{
    char *text = NULL;
    size_t size = 0;
    const struct sim_options options = {.is_exact = is_exact, .chunks = 1};
    const struct gantt_request request = {
        .path = "-", .of = of, .question = &sample->question, .options = &options, .expected_s = 100e-6};
    struct gantt *gantt = gantt_open(sample->arena, &request);
    const struct sim_sink sink = gantt_sink(gantt);
    for (int64_t rank = 0; rank < 16; rank++) {
        struct sim_span span = {.rank = rank,
                                .stream = STREAM_KERNELS,
                                .name = "attention",
                                .item = TIME_ATTENTION,
                                .start_ps = 25000000,
                                .duration_ps = 25000000,
                                .micro_batch = 0,
                                .layer = 0};
        sink.span(sink.context, &span);
        span.item = TIME_TP_EXPOSED; /* waits for half of it */
        span.start_ps = 50000000;
        span.duration_ps = 50000000;
        span.waited_ps = 25000000;
        sink.span(sink.context, &span);
        span.stream = STREAM_EXCHANGE;
        span.item = TIME_SP_EXPOSED;
        span.waited_ps = 0;
        sink.span(sink.context, &span);
    }
    sample->result.step_time_s = 100e-6;
    FILE *file = open_memstream(&text, &size);
    assert_non_null(file);
    const struct report_style style = {.file = file, .format = REPORT_TABLE};
    assert_true(gantt_draw(gantt, &style, &sample->result, &sample->err));
    assert_int_equal(fclose(file), 0);
    return text;
}

static int lines_with(const char *text, const char *part)
{
    int n = 0;
    for (const char *at = strstr(text, part); at != NULL; at = strstr(at + 1, part)) {
        n++;
    }
    return n;
}

/* Kernels alone; the first quarter is empty, and so is the wait before the transfer. */
static void step_has_a_row_for_each_rank(void **state)
{
    struct sample *sample = *state;
    char *text = print_chart(sample, GANTT_STEP, false);
    assert_int_equal(lines_with(text, "\n  rank "), 16);
    const char *row = strstr(text, "rank 3");
    assert_non_null(row);
    const char *bar = strchr(row, '|');
    assert_non_null(bar);
    size_t width = strcspn(bar + 1, "|");
    assert_int_equal(bar[1 + width / 8], ' ');
    assert_int_equal(bar[1 + width * 3 / 8], 'A');
    assert_int_equal(bar[1 + width * 5 / 8], ' ');
    assert_int_equal(bar[1 + width * 7 / 8], 'T');
    assert_null(strstr(text, "S sp transfers"));
    free(text);
}

/* The sp group of rank 0 under tp 2: ranks 0, 2, 4 and 6, each with its kernels and what it sends. */
static void layer_has_the_streams_of_a_group(void **state)
{
    struct sample *sample = *state;
    char *text = print_chart(sample, GANTT_LAYER, true);
    assert_int_equal(lines_with(text, " kernels"), 4);
    assert_int_equal(lines_with(text, "\n  sends"), 4);
    assert_non_null(strstr(text, "rank 6 kernels"));
    assert_null(strstr(text, "rank 1"));
    assert_non_null(strstr(text, "S sp transfers"));
    free(text);
}

static void name_says_the_format(void **state)
{
    struct sample *sample = *state;
    assert_string_equal(gantt_format("a/b.svg"), "svg");
    assert_string_equal(gantt_format("step.x.pdf"), "pdf");
    assert_null(gantt_format("svg"));
    assert_null(gantt_format("step.jpeg"));
    assert_false(gantt_check("step.jpeg", &sample->err));
    assert_int_equal(sample->err.kind, SP_ERROR_USAGE);
    assert_error_contains(&sample->err, ".svg, .png or .pdf");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(spans_are_complete_events, open_sample, close_sample),
        cmocka_unit_test_setup_teardown(memory_is_a_counter, open_sample, close_sample),
        cmocka_unit_test_setup_teardown(ranks_and_streams_have_names, open_sample, close_sample),
        cmocka_unit_test_setup_teardown(late_times_keep_every_picosecond, open_sample, close_sample),
        cmocka_unit_test_setup_teardown(spans_of_a_stream_nest, open_sample, close_sample),
        cmocka_unit_test_setup_teardown(gz_is_the_same_text, open_sample, close_sample),
        cmocka_unit_test_setup_teardown(nothing_stands_there_before_the_end, open_sample, close_sample),
        cmocka_unit_test_setup_teardown(dropped_file_leaves_what_was_there, open_sample, close_sample),
        cmocka_unit_test_setup_teardown(link_is_followed, open_sample, close_sample),
        cmocka_unit_test_setup_teardown(long_text_is_written_whole, open_sample, close_sample),
        cmocka_unit_test_setup_teardown(place_that_is_not_there, open_sample, close_sample),
        cmocka_unit_test_setup_teardown(full_disk_leaves_nothing, open_sample, close_sample),
        cmocka_unit_test_setup_teardown(step_has_a_row_for_each_rank, open_sample, close_sample),
        cmocka_unit_test_setup_teardown(layer_has_the_streams_of_a_group, open_sample, close_sample),
        cmocka_unit_test_setup_teardown(name_says_the_format, open_sample, close_sample),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
