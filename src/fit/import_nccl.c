/* The output of nccl-tests, line by line. What stands before a row (tags of launchers, time stamps) is no concern: a row
 * begins where two whole numbers are followed by the name of a type. */
#include "fit/nccl_log.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>

static const struct {
    const char *name;
    int64_t bytes;
} dtypes[] = {{"int8", 1},  {"char", 1},     {"uint8", 1},  {"int32", 4},   {"int", 4},      {"uint32", 4},
              {"int64", 8}, {"uint64", 8},   {"half", 2},   {"float16", 2}, {"float", 4},    {"double", 8},
              {"bf16", 2},  {"bfloat16", 2}, {"f8e4m3", 1}, {"f8e5m2", 1},  {"fp8_e4m3", 1}, {"fp8_e5m2", 1}};
static const char *const redops[] = {"sum", "prod", "min", "max", "avg", "mulsum", "none", "all", NULL};

/* ---- tags of launchers ------------------------------------------------------------------------------------------ */

/* The length of "[0]", "[1,0]<stdout>:" at `at`, or 0. A device's "[0x31]" and "[0000:8f:00]" are none. */
static size_t tag_length(const char *at)
{
    static const char digits[] = "0123456789";
    static const char *const streams[] = {"<stdout>", "<stderr>"};
    if (*at != '[') {
        return 0;
    }
    size_t length = 1 + strspn(at + 1, digits);
    if (length == 1) {
        return 0;
    }
    if (at[length] == ',') {
        length += 1 + strspn(at + length + 1, digits);
    }
    if (at[length] != ']') {
        return 0;
    }
    length++;
    for (size_t i = 0; i < SP_COUNT_OF(streams); i++) {
        length += strncmp(at + length, streams[i], strlen(streams[i])) == 0 ? strlen(streams[i]) : 0;
    }
    length += at[length] == ':' ? 1 : 0;
    return length;
}

/* The length of a word "17:" at `at`, or 0. */
static size_t number_tag_length(const char *at)
{
    size_t length = strspn(at, "0123456789");
    bool is_tag = length > 0 && at[length] == ':' && strchr(" \t", at[length + 1]) != NULL; /* or the end */
    return is_tag ? length + 1 : 0;
}

static const char *without_tags(struct sp_arena *arena, const char *line)
{
    char *copy = sp_strdup(arena, line);
    for (char *at = copy; *at != '\0';) {
        bool begins_word = at == copy || at[-1] == ' ' || at[-1] == '\t';
        size_t length = tag_length(at);
        length = length == 0 && begins_word ? number_tag_length(at) : length;
        for (size_t i = 0; i < length; i++) {
            at[i] = ' ';
        }
        at += length > 0 ? length : 1;
    }
    return copy;
}

/* ---- rows ------------------------------------------------------------------------------------------------------- */

static int64_t bytes_of_type(const char *word)
{
    for (size_t i = 0; i < SP_COUNT_OF(dtypes); i++) {
        if (strcmp(word, dtypes[i].name) == 0) {
            return dtypes[i].bytes;
        }
    }
    return 0;
}

static bool is_digits(const char *word)
{
    return word[0] != '\0' && word[strspn(word, "0123456789")] == '\0';
}

/* The index of the first word of a row, or -1. */
static int begin_of_row(const struct import_words *words)
{
    for (int i = 0; i + 2 < words->count; i++) {
        if (is_digits(words->items[i]) && is_digits(words->items[i + 1]) && bytes_of_type(words->items[i + 2]) > 0) {
            return i;
        }
    }
    return -1;
}

/* What would be a row if its third word were a type: three figures of a half and more behind it. */
static bool is_row_of_another_type(const struct import_words *words)
{
    int n_figures = 0;
    if (words->count < 3 || !is_digits(words->items[0]) || !is_digits(words->items[1]) ||
        isalpha((unsigned char)words->items[2][0]) == 0) {
        return false;
    }
    for (int i = 3; i < words->count; i++) {
        n_figures += import_number(words->items[i], &(double){0}, NULL) ? 1 : 0;
    }
    return n_figures >= NCCL_MOST_COLUMNS;
}

bool nccl_is_row(struct sp_arena *arena, const char *line)
{
    const struct import_words words = import_split(arena, without_tags(arena, line));
    int begin = begin_of_row(&words);
    return begin >= 0 && words.count - begin > NCCL_MOST_COLUMNS;
}

static bool is_not_available(const char *word)
{
    return strcmp(word, "N/A") == 0;
}

static bool read_figure(const char *word, struct nccl_figure *figure)
{
    return import_number(word, &figure->value, &figure->half) && figure->value >= 0;
}

/* Returns how many words it took; 0: it is cut off or unreadable. */
static int read_half(const struct import_words *words, int at, bool has_wrong, struct nccl_half *half)
{
    int n_columns = has_wrong ? NCCL_MOST_COLUMNS : NCCL_MOST_COLUMNS - 1;
    *half = (struct nccl_half){.has_wrong = has_wrong};
    if (at + n_columns > words->count) {
        return 0;
    }
    const char *const *items = words->items + at;
    if (is_not_available(items[0])) {
        half->is_unknown = true;
        return n_columns;
    }
    if (!read_figure(items[0], &half->time_us) || !read_figure(items[1], &half->alg_gb) ||
        !read_figure(items[2], &half->bus_gb)) {
        return 0;
    }
    half->is_wrong_unknown = has_wrong && is_not_available(items[3]);
    if (has_wrong && !half->is_wrong_unknown && !import_number(items[3], &half->n_wrong, NULL)) {
        return 0;
    }
    half->is_there = true;
    return n_columns;
}

/* Without a heading, the number of columns tells which they are. */
static struct nccl_layout guess_layout(const struct import_words *words, int at)
{
    struct nccl_layout layout = {.n_halves = 2, .has_wrong = true};
    int64_t root = 0;
    layout.has_redop = at < words->count && sp_index_of(words->items[at], redops) >= 0;
    int first = at + (layout.has_redop ? 1 : 0);
    const char *word = first < words->count ? words->items[first] : "";
    layout.has_root = strcmp(word, "-1") == 0 || (layout.has_redop && import_integer(word, &root) &&
                                                  words->count - first != 2 * NCCL_MOST_COLUMNS);
    int n_left = words->count - first - (layout.has_root ? 1 : 0);
    layout.has_wrong = n_left >= 2 * NCCL_MOST_COLUMNS || n_left == NCCL_MOST_COLUMNS;
    layout.n_halves = n_left >= 2 * (NCCL_MOST_COLUMNS - 1) ? 2 : 1;
    return layout;
}

static bool read_redop_and_root(const struct import_words *words, int *at, const struct nccl_layout *layout,
                                struct nccl_row *row)
{
    row->redop = "";
    row->root = -1;
    if (layout->has_redop) {
        if (*at >= words->count || sp_index_of(words->items[*at], redops) < 0) {
            return false;
        }
        row->redop = strcmp(words->items[*at], "none") == 0 ? "" : words->items[*at];
        ++*at;
    }
    if (layout->has_root) {
        bool is_none = *at < words->count && strcmp(words->items[*at], "-1") == 0;
        if (!is_none && (*at >= words->count || !import_integer(words->items[*at], &row->root))) {
            return false;
        }
        ++*at;
    }
    return true;
}

static void read_row(const struct import_words *words, int begin, const struct nccl_layout *known, struct nccl_row *row)
{
    row->dtype = words->items[begin + 2];
    row->dtype_bytes = bytes_of_type(row->dtype);
    row->flaw_class = "not readable";
    if (!import_integer(words->items[begin], &row->bytes) || !import_integer(words->items[begin + 1], &row->count)) {
        row->flaw = "its size or its count has more than 15 digits";
        return;
    }
    if (row->dtype_bytes == 0) {
        row->flaw = "its type is none that is known";
        return;
    }
    row->flaw_class = "cut off";
    int at = begin + 3;
    const struct nccl_layout layout = known->is_known ? *known : guess_layout(words, at);
    if (!read_redop_and_root(words, &at, &layout, row)) {
        row->flaw = "it is cut off or is not of these columns";
        return;
    }
    int n_read = 0;
    for (int half = 0; half < layout.n_halves; half++) {
        int n_words = read_half(words, at, layout.has_wrong, &row->halves[half]);
        n_read += n_words > 0 ? 1 : 0;
        at = n_words > 0 ? at + n_words : words->count;
    }
    row->flaw = n_read == 0 ? "it is cut off or is not of these columns" : NULL;
}

/* ---- tables ----------------------------------------------------------------------------------------------------- */

struct reading {
    struct sp_arena *arena;
    struct nccl_log *log;
    struct nccl_table *table; /* under way */
};

static struct nccl_table new_table(struct sp_arena *arena)
{
    return (struct nccl_table){.operation = -1, .ranks = {.highest = -1, .hosts = {.arena = arena}}};
}

/* Keeps the table that is under way, if it has rows. */
static void end_table(struct reading *reading)
{
    struct nccl_log *log = reading->log;
    if (reading->table->n_rows == 0) {
        return;
    }
    if (log->n_tables == log->capacity) {
        log->tables = sp_arena_grow(reading->arena, log->tables, log->n_tables, &log->capacity, sizeof(*log->tables));
    }
    log->tables[log->n_tables++] = *reading->table;
}

/* Another run of the program begins: what was said of the last one no longer holds. */
static void begin_program(struct reading *reading)
{
    const struct nccl_table before = *reading->table;
    end_table(reading);
    *reading->table = new_table(reading->arena);
    if (before.n_rows == 0) { /* a command line stands before its output */
        reading->table->operation = before.operation;
        memcpy(reading->table->settings, before.settings, sizeof(before.settings));
    }
}

/* Another table of the same run begins. */
static void begin_table(struct reading *reading)
{
    end_table(reading);
    reading->table->rows = NULL;
    reading->table->n_rows = 0;
    reading->table->capacity = 0;
}

static void add_row(struct reading *reading, int64_t number, const struct import_words *words, int begin)
{
    struct nccl_table *table = reading->table;
    if (table->n_rows == table->capacity) {
        table->rows = sp_arena_grow(reading->arena, table->rows, table->n_rows, &table->capacity, sizeof(*table->rows));
    }
    table->first_line = table->n_rows == 0 ? number : table->first_line;
    struct nccl_row *row = &table->rows[table->n_rows++];
    *row = (struct nccl_row){.line = number};
    read_row(words, begin, &table->layout, row);
}

/* ---- what stands around rows ------------------------------------------------------------------------------------ */

static int index_of_word(const struct import_words *words, const char *word)
{
    for (int i = 0; i < words->count; i++) {
        const char *item = words->items[i] + (words->items[i][0] == '#' && strcmp(word, "#wrong") != 0 ? 1 : 0);
        if (strcmp(item, word) == 0) {
            return i;
        }
    }
    return -1;
}

static bool read_heading(struct reading *reading, const struct import_words *words)
{
    bool is_cpu_time = index_of_word(words, "cputime") >= 0;
    if (index_of_word(words, "size") < 0 || index_of_word(words, "busbw") < 0 || index_of_word(words, "algbw") < 0) {
        return false;
    }
    if (reading->table->n_rows > 0) {
        begin_table(reading);
    }
    int n_busbw = 0;
    for (int i = 0; i < words->count; i++) {
        n_busbw += strcmp(words->items[i], "busbw") == 0 ? 1 : 0;
    }
    bool has_error = index_of_word(words, "error") >= 0;
    reading->table->layout = (struct nccl_layout){.is_known = true,
                                                  .has_redop = index_of_word(words, "redop") >= 0,
                                                  .has_root = index_of_word(words, "root") >= 0,
                                                  .has_wrong = has_error || index_of_word(words, "#wrong") >= 0,
                                                  .has_error_column = has_error,
                                                  .is_cpu_time = is_cpu_time,
                                                  .n_halves = n_busbw > 1 ? 2 : 1};
    return true;
}

/* "#  Rank  0 Group  0 Pid   1000 on      node0 device  0 [0x31] NVIDIA A40" */
static bool read_rank(struct reading *reading, const char *line, const struct import_words *words)
{
    int rank_at = index_of_word(words, "Rank");
    int on_at = index_of_word(words, "on");
    int device_at = index_of_word(words, "device");
    int64_t rank = 0;
    if (rank_at < 0 || on_at < rank_at || device_at != on_at + 2 || rank_at + 1 >= words->count ||
        !import_integer(words->items[rank_at + 1], &rank)) {
        return false;
    }
    const char *bus = strchr(strstr(line, " device"), '[');
    const char *gpu = bus == NULL ? NULL : strchr(bus, ']');
    if (gpu == NULL) {
        return false;
    }
    bool is_again = rank <= reading->table->ranks.highest && rank == 0;
    if (reading->table->n_rows > 0) {
        begin_program(reading);
    } else if (is_again) { /* of another process that runs the same on its own */
        reading->table->ranks = new_table(reading->arena).ranks;
    }
    struct nccl_ranks *ranks = &reading->table->ranks;
    gpu += 1 + strspn(gpu + 1, " \t");
    size_t length = strlen(gpu);
    while (length > 0 && (gpu[length - 1] == ' ' || gpu[length - 1] == '\t')) {
        length--;
    }
    const char *name = import_name(reading->arena, gpu, length);
    ranks->other_gpu = ranks->gpu != NULL && strcmp(ranks->gpu, name) != 0 ? name : ranks->other_gpu;
    ranks->gpu = ranks->gpu == NULL && length > 0 ? name : ranks->gpu;
    ranks->highest = rank > ranks->highest ? rank : ranks->highest;
    ranks->n_listed++;
    sp_texts_add(&ranks->hosts, "%s", words->items[on_at + 1]);
    return true;
}

/* "# nThread 1 nGpus 1 minBytes 8 maxBytes 1073741824 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 ..." */
static bool read_options(struct reading *reading, const char *line)
{
    if (strstr(line, "nThread") == NULL || strstr(line, "minBytes") == NULL) {
        return false;
    }
    if (reading->table->n_rows > 0 || reading->table->has_options) {
        begin_program(reading);
    }
    reading->table->has_options = true;
    const char *warmup = strstr(line, "warmup iters:");
    (void)import_integer_after(warmup == NULL ? line : warmup + strlen("warmup iters:"),
                               " iters:", &reading->table->iters);
    return true;
}

static const char *word_after(struct sp_arena *arena, const char *line, const char *label)
{
    const char *at = strstr(line, label);
    if (at == NULL) {
        return NULL;
    }
    at += strlen(label);
    at += strspn(at, " \t");
    size_t length = strcspn(at, " \t");
    return length == 0 ? NULL : import_name(arena, at, length);
}

static void read_version(struct reading *reading, const char *line)
{
    const char *version = word_after(reading->arena, line, "NCCL version ");
    int64_t code = 0;
    enum { MAJOR = 10000, MINOR = 100 }; /* NCCL_VERSION_CODE since 2.9 */
    if (version == NULL && import_integer_after(line, "nccl-library=", &code) && code > MAJOR) {
        version = sp_format(reading->arena, "%d.%d.%d", (int)(code / MAJOR), (int)(code / MINOR % MINOR),
                            (int)(code % MINOR));
    }
    if (version != NULL && isdigit((unsigned char)version[0]) != 0) {
        reading->table->nccl = version;
    }
}

const char *const nccl_setting_names[] = {"nccl_algo", "nccl_proto", "nccl_nvls_enable", NULL};
_Static_assert(SP_COUNT_OF(nccl_setting_names) == N_NCCL_SETTINGS + 1, "a name for each setting");

/* "-x NCCL_ALGO=Tree" of a command, "NCCL_ALGO set by environment to Tree." of NCCL itself. */
static void read_settings(struct reading *reading, const char *line)
{
    static const char *const variables[N_NCCL_SETTINGS] = {"NCCL_ALGO", "NCCL_PROTO", "NCCL_NVLS_ENABLE"};
    static const char *const signs[] = {"=", " set by environment to "};
    static const char ends[] = " \t.,;)\"'";
    for (int i = 0; i < N_NCCL_SETTINGS; i++) {
        for (size_t sign = 0; sign < SP_COUNT_OF(signs); sign++) {
            const char *label = sp_format(reading->arena, "%s%s", variables[i], signs[sign]);
            const char *value = strstr(line, label);
            size_t length = value == NULL ? 0 : strcspn(value + strlen(label), ends);
            if (length > 0) {
                reading->table->settings[i] = import_name(reading->arena, value + strlen(label), length);
            }
        }
    }
}

/* "NCCL INFO comm 0x1 rank 0 nRanks 16 nNodes 2 localRanks 8 ...", older "... nranks 16 ..."; smaller ones are parts. */
static void read_communicator(struct reading *reading, const char *line)
{
    struct nccl_table *table = reading->table;
    int64_t ranks = 0;
    int64_t nodes = 0;
    if (!import_integer_after(line, " nRanks ", &ranks) && !import_integer_after(line, " nranks ", &ranks)) {
        return;
    }
    (void)import_integer_after(line, " nNodes ", &nodes);
    if (ranks > table->debug_ranks) {
        table->debug_ranks = ranks;
        table->debug_nodes = nodes;
    } else if (ranks == table->debug_ranks && nodes > 0) {
        table->debug_nodes = nodes;
    }
}

/* The name of a program: in its own first and last line, or in the command that ran it. */
static void read_program(struct reading *reading, const char *line)
{
    int operation = nccl_operation_named(line);
    struct nccl_table *table = reading->table;
    if (operation < 0) {
        return;
    }
    bool is_end = strstr(line, "concluded") != NULL;
    if (table->n_rows > 0 && !is_end && operation != table->operation) {
        begin_program(reading);
        table->operation = operation;
    } else if (table->operation < 0 || table->n_rows == 0) {
        table->operation = operation;
    }
}

static void read_summary(struct reading *reading, const char *line)
{
    double n_failed = 0;
    if (import_number_after(line, "Out of bounds values :", &n_failed) != NULL && strstr(line, "FAILED") != NULL) {
        reading->log->n_failed_checks += n_failed > 0 ? 1 : 0;
    }
    reading->log->has_summary = reading->log->has_summary || strstr(line, "Avg bus bandwidth") != NULL;
}

static void read_line(struct reading *reading, int64_t number, const char *raw)
{
    const char *line = without_tags(reading->arena, raw);
    struct import_words words = import_split(reading->arena, line);
    int begin = begin_of_row(&words);
    if (begin >= 0) {
        add_row(reading, number, &words, begin);
        return;
    }
    if (reading->table->layout.is_known && is_row_of_another_type(&words)) {
        add_row(reading, number, &words, 0);
        return;
    }
    read_program(reading, line);
    if (!read_options(reading, line) && !read_heading(reading, &words) && !read_rank(reading, line, &words)) {
        read_version(reading, line);
        if (strstr(line, "NCCL") != NULL) {
            read_settings(reading, line);
            read_communicator(reading, line);
        }
        read_summary(reading, line);
    }
}

void nccl_log_read(struct sp_arena *arena, const struct import_text *text, struct nccl_log *log)
{
    struct nccl_table table = new_table(arena);
    struct reading reading = {.arena = arena, .log = log, .table = &table};
    *log = (struct nccl_log){.tables = NULL};
    for (int64_t i = 0; i < text->n_lines; i++) {
        read_line(&reading, i + 1, text->lines[i]);
    }
    end_table(&reading);
}

bool import_nccl(struct sp_arena *arena, const struct import_text *text, const struct import_given *given,
                 struct import_result *result, struct sp_error *err)
{
    struct nccl_log log;
    nccl_log_read(arena, text, &log);
    import_result_open(result, arena);
    if (log.n_tables == 0) {
        return sp_fail(
            err, SP_ERROR_INPUT,
            "%s: no row of nccl-tests in %lld line%s%s: expected lines of size, count, type, time, algbw and "
            "busbw",
            text->name, (long long)text->n_lines, sp_plural(text->n_lines),
            log.has_summary ? ", only the average, which is of no size" : "");
    }
    if (log.n_failed_checks > 0) {
        sp_texts_add(&result->warnings, "nccl-tests found wrong values in its results (\"Out of bounds values\"): look "
                                        "for the cause before you trust the times");
    }
    for (int64_t i = 0; i < log.n_tables; i++) {
        struct nccl_identity identity;
        if (!nccl_identify(result, &log.tables[i], given, &identity, err) ||
            !nccl_table_import(result, &log.tables[i], &identity, err)) {
            sp_error_prefix(err, "%s", text->name);
            return false;
        }
    }
    return true;
}
