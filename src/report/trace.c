/* The spans of a step as events of the Trace Event Format, which chrome://tracing and ui.perfetto.dev read: a process for each
 * rank, a thread for each of its streams, complete events ("X") for spans, counters ("C") for memory. Each event is written as
 * it comes: a trace is as long as the step, and nothing of it is kept. */
#include "report/report.h"

#include <inttypes.h>
#include <string.h>

enum { PS_PER_US = 1000000 };

struct trace {
    struct sp_arena *arena;
    struct whole_file *file;
    bool has_events; /* a comma is due before the next */
    int64_t n_spans;
    int64_t n_gpus;
    uint16_t *streams; /* by rank: bit of each stream that was named */
    bool *has_memory;  /* by rank: the rank has a counter */
};

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

/* Quotes, backslashes and control characters would end a string or break it. Names of ours are short. */
static const char *escaped(struct sp_arena *arena, const char *text)
{
    if (strpbrk(text, "\"\\") == NULL && strpbrk(text, "\n\t\r") == NULL) {
        return text;
    }
    const char *whole = "";
    for (; *text != '\0'; text++) {
        bool is_marked = *text == '"' || *text == '\\';
        bool is_control = (unsigned char)*text < ' ';
        whole = is_control ? sp_format(arena, "%s\\u%04x", whole, (unsigned)(unsigned char)*text)
                           : sp_format(arena, "%s%s%c", whole, is_marked ? "\\" : "", *text);
    }
    return whole;
}

static const char *separator(struct trace *trace)
{
    const char *text = trace->has_events ? ",\n" : "\n";
    trace->has_events = true;
    return text;
}

/* Microseconds with every picosecond. */
struct time_text {
    char text[32];
};

static struct time_text microseconds(int64_t time_ps)
{
    struct time_text time;
    (void)snprintf(time.text, sizeof(time.text), "%" PRId64 ".%06" PRId64, time_ps / PS_PER_US, time_ps % PS_PER_US);
    return time;
}

struct trace *trace_open(struct sp_arena *arena, const char *path, const struct question *question,
                         struct sp_error *err)
{
    struct whole_file *file = whole_file_open(arena, path, err);
    if (file == NULL) {
        return NULL;
    }
    struct trace *trace = sp_arena_alloc(arena, sizeof(*trace));
    *trace = (struct trace){.arena = arena, .file = file, .n_gpus = question->run.gpus};
    trace->streams = sp_arena_array(arena, (size_t)trace->n_gpus, sizeof(*trace->streams));
    trace->has_memory = sp_arena_array(arena, (size_t)trace->n_gpus, sizeof(*trace->has_memory));
    whole_file_print(file, "{\"displayTimeUnit\": \"ms\",\n\"otherData\": {\"title\": \"%s\", \"layout\": \"%s\"},\n",
                     escaped(arena, report_title_text(arena, question)),
                     escaped(arena, report_degrees_text(arena, question)));
    whole_file_print(file, "\"traceEvents\": [");
    return trace;
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

static void name_stream(struct trace *trace, int64_t rank, int stream)
{
    const unsigned bit = 1U << (unsigned)stream;
    if ((trace->streams[rank] & bit) != 0) {
        return;
    }
    trace->streams[rank] = (uint16_t)(trace->streams[rank] | bit);
    const char *name = escaped(trace->arena, report_words(trace->arena, program_stream_names[stream]));
    whole_file_print(trace->file,
                     "%s{\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": %" PRId64
                     ", \"tid\": %d, \"args\": {\"name\": \"%s\"}}",
                     separator(trace), rank, stream + 1, name);
    whole_file_print(trace->file,
                     "%s{\"ph\": \"M\", \"name\": \"thread_sort_index\", \"pid\": %" PRId64
                     ", \"tid\": %d, \"args\": {\"sort_index\": %d}}",
                     separator(trace), rank, stream + 1, stream);
}

/* Of what a span belongs to; a kernel sends nothing. */
static void put_arguments(struct trace *trace, const struct sim_span *span)
{
    whole_file_print(trace->file, "\"args\": {\"pass\": \"%s\"", step_pass_names[span->pass]);
    if (span->micro_batch >= 0) {
        whole_file_print(trace->file, ", \"micro_batch\": %" PRId64, span->micro_batch);
    }
    if (span->layer >= 0) {
        whole_file_print(trace->file, ", \"layer\": %" PRId64, span->layer);
    }
    if (span->bytes > 0.0 || span->waited_ps > 0 || span->delayed_ps > 0) {
        whole_file_print(trace->file, ", \"bytes\": %.0f, \"waited_us\": %s, \"delayed_us\": %s", span->bytes,
                         microseconds(span->waited_ps).text, microseconds(span->delayed_ps).text);
    }
    whole_file_print(trace->file, "}}");
}

/* The time before the last member came stands inside the span as one of its own, so that it is seen. */
static void put_waiting(struct trace *trace, const struct sim_span *span)
{
    whole_file_print(trace->file,
                     "%s{\"ph\": \"X\", \"name\": \"waits for others\", \"cat\": \"waiting\", \"pid\": %" PRId64
                     ", \"tid\": %d, \"ts\": %s, \"dur\": %s}",
                     separator(trace), span->rank, (int)span->stream + 1, microseconds(span->start_ps).text,
                     microseconds(span->waited_ps).text);
}

static void take_span(void *context, const struct sim_span *span)
{
    struct trace *trace = context;
    if (span->duration_ps == 0) { /* a point of order: nothing to see */
        return;
    }
    name_stream(trace, span->rank, (int)span->stream);
    whole_file_print(trace->file,
                     "%s{\"ph\": \"X\", \"name\": \"%s\", \"cat\": \"%s\", \"pid\": %" PRId64
                     ", \"tid\": %d, \"ts\": %s, \"dur\": %s, ",
                     separator(trace), escaped(trace->arena, span->name), time_names[span->item], span->rank,
                     (int)span->stream + 1, microseconds(span->start_ps).text, microseconds(span->duration_ps).text);
    put_arguments(trace, span);
    if (span->waited_ps > 0 && span->waited_ps < span->duration_ps) {
        put_waiting(trace, span);
    }
    trace->n_spans++;
}

static void take_memory(void *context, int64_t rank, int64_t time_ps, double bytes)
{
    struct trace *trace = context;
    static const double gib = 0x1p30;
    trace->has_memory[rank] = true;
    whole_file_print(trace->file,
                     "%s{\"ph\": \"C\", \"name\": \"memory GiB\", \"pid\": %" PRId64
                     ", \"ts\": %s, \"args\": {\"allocated\": %.6f}}",
                     separator(trace), rank, microseconds(time_ps).text, bytes / gib);
}

struct sim_sink trace_sink(struct trace *trace)
{
    return (struct sim_sink){.context = trace, .span = take_span, .memory = take_memory};
}

int64_t trace_spans(const struct trace *trace)
{
    return trace->n_spans;
}

/* ---- end --------------------------------------------------------------------------------------------------------- */

static void name_rank(struct trace *trace, int64_t rank, const char *label)
{
    whole_file_print(trace->file,
                     "%s{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": %" PRId64
                     ", \"args\": {\"name\": \"rank %" PRId64 "\"}}",
                     separator(trace), rank, rank);
    whole_file_print(trace->file,
                     "%s{\"ph\": \"M\", \"name\": \"process_labels\", \"pid\": %" PRId64
                     ", \"args\": {\"labels\": \"%s\"}}",
                     separator(trace), rank, label);
    whole_file_print(trace->file,
                     "%s{\"ph\": \"M\", \"name\": \"process_sort_index\", \"pid\": %" PRId64
                     ", \"args\": {\"sort_index\": %" PRId64 "}}",
                     separator(trace), rank, rank);
}

/* Once each; the array of ranks may be as long as the cluster. */
static void name_once(struct trace *trace, int64_t rank, const char *label)
{
    if (trace->streams[rank] != 0 || trace->has_memory[rank]) {
        name_rank(trace, rank, label);
        trace->streams[rank] = 0;
        trace->has_memory[rank] = false;
    }
}

bool trace_close(struct trace *trace, const struct sim_result *result, struct sp_error *err)
{
    for (int i = 0; i < result->n_ranks; i++) {
        const struct sim_rank *rank = &result->ranks[i];
        char label[64];
        (void)snprintf(label, sizeof(label), "stage %" PRId64 ", %" PRId64 " alike", rank->stage + 1, rank->count);
        name_once(trace, rank->rank, label);
    }
    for (int64_t rank = 0; rank < trace->n_gpus; rank++) {
        name_once(trace, rank, "");
    }
    whole_file_print(trace->file, "\n]}\n");
    return whole_file_close(trace->file, err);
}

void trace_drop(struct trace *trace)
{
    if (trace != NULL) {
        whole_file_drop(trace->file);
    }
}
