/* import: what other programs measured, into the store; what nvidia-smi says of a node, into a hardware file. */
#include "cmd/import_files.h"

#include <string.h>

/* ---- one file --------------------------------------------------------------------------------------------------- */

static struct import_given given_of(const struct import_typed *typed)
{
    return (struct import_given){
        .ranks = typed->ranks.is_given ? typed->ranks.value : 0,
        .nodes = typed->nodes.is_given ? typed->nodes.value : 0,
        .gpu = typed->gpu,
        .operation = typed->operation < 0 ? NULL : import_operation_names[typed->operation],
        .warmup = typed->warmup,
        .global_batch = typed->global_batch.is_given ? typed->global_batch.value : 0,
    };
}

static bool read_measurements(struct import_file *file, struct sp_arena *arena, struct sp_error *err)
{
    const struct measure_text text = {
        .name = file->name, .bytes = file->bytes, .n_bytes = file->n_bytes, .result = &file->result};
    import_result_open(&file->result, arena);
    return measure_text_read(&text, arena, err);
}

/* "nodes/mine.json" is called mine. */
static const char *name_of_output(struct sp_arena *arena, const char *path)
{
    static const char standard_output[] = "-";
    static const char extension[] = ".json";
    if (strcmp(path, standard_output) == 0) {
        return "node";
    }
    const char *slash = strrchr(path, '/');
    const char *base = slash == NULL ? path : slash + 1;
    size_t length = strlen(base);
    bool has_extension = length > strlen(extension) && strcmp(base + length - strlen(extension), extension) == 0;
    return sp_strndup(arena, base, has_extension ? length - strlen(extension) : length);
}

static bool read_topology(struct import_file *file, struct sp_arena *arena, const struct import_text *text,
                          const struct import_typed *typed, struct sp_error *err)
{
    if (typed->gpu == NULL || typed->output == NULL) {
        return sp_fail(err, SP_ERROR_USAGE,
                       "%s: a topology becomes a hardware file%s: add%s%s, for example --gpu h100-sxm -o my-node.json",
                       file->name, typed->gpu == NULL ? ", and names no GPU" : "",
                       typed->gpu == NULL ? " --gpu NAME" : "", typed->output == NULL ? " -o FILE.json" : "");
    }
    struct topology *topology = sp_arena_alloc(arena, sizeof(*topology));
    const struct import_node_given given = {.gpu = typed->gpu,
                                            .network = typed->network,
                                            .name = name_of_output(arena, typed->output),
                                            .source = sp_format(arena, "nvidia-smi topo -m (%s)", file->name)};
    if (!import_topology(arena, text, topology, &file->result, err)) {
        return false;
    }
    file->node = import_node_text(arena, topology, &given, &file->result.warnings, err);
    return file->node != NULL;
}

static bool read_content(struct import_file *file, struct sp_arena *arena, const struct import_typed *typed,
                         struct sp_error *err)
{
    const struct import_text text = import_text_open(arena, file->name, file->bytes, file->n_bytes);
    const struct import_given given = given_of(typed);
    file->kind = (enum import_kind)(typed->kind < 0 ? 0 : typed->kind);
    if (typed->kind < 0 && !import_recognise(&text, &file->kind, err)) {
        return false;
    }
    switch (file->kind) {
    case IMPORT_MEASUREMENTS:
        return read_measurements(file, arena, err);
    case IMPORT_NCCL_TESTS:
        return import_nccl(arena, &text, &given, &file->result, err);
    case IMPORT_TOPOLOGY:
        return read_topology(file, arena, &text, typed, err);
    case IMPORT_MEGATRON:
    case IMPORT_TORCHTITAN:
    case IMPORT_NANOTRON:
    case IMPORT_DEEPSPEED:
    case N_IMPORT_KINDS:
        break;
    }
    const struct import_log_source source = {.text = &text, .kind = file->kind};
    return import_training(arena, &source, &given, &file->result, err);
}

/* Something of it must be of use. */
static bool check_taken(const struct import_file *file, struct sp_error *err)
{
    const struct import_result *result = &file->result;
    if (result->n_measurements > 0 || file->node != NULL) {
        return true;
    }
    const struct import_note *note = result->n_notes > 0 ? &result->notes[0] : NULL;
    return sp_fail(err, SP_ERROR_INPUT, "%s: none of %lld line%s of %s can be used%s%s", file->name,
                   (long long)result->n_skipped, sp_plural(result->n_skipped), import_kind_names[file->kind],
                   note == NULL ? "" : sp_format(result->arena, "; line %lld: ", (long long)note->line),
                   note == NULL ? "" : note->text);
}

static bool read_file(struct import_file *file, struct sp_arena *arena, const struct import_typed *typed,
                      struct sp_error *err)
{
    return import_file_read(file, arena, err) && read_content(file, arena, typed, err) && check_taken(file, err);
}

/* ---- all of them ------------------------------------------------------------------------------------------------ */

/* Whose program stored a run: ours, but where the lines of a file say otherwise. */
static void set_version(const struct import_file *file, const char *version)
{
    for (size_t i = 0; i < file->result.n_runs && file->kind != IMPORT_MEASUREMENTS; i++) {
        file->result.runs[i].run.version = version;
    }
}

static bool store_in(struct command_context *context, struct store *store, struct import_file *files, size_t n_files,
                     struct sp_error *err)
{
    for (size_t i = 0; i < n_files; i++) {
        struct import_result *result = &files[i].result;
        set_version(&files[i], context->version);
        if (result->n_runs > 0 && !store_runs_import(store, result->runs, result->n_runs, err)) {
            return false;
        }
    }
    return true;
}

static bool store_files(struct command_context *context, const struct command_options *options,
                        struct import_file *files, size_t n_files, struct sp_error *err)
{
    size_t n_runs = 0;
    for (size_t i = 0; i < n_files; i++) {
        n_runs += files[i].result.n_runs;
    }
    struct store *store = NULL;
    if (n_runs == 0) {
        return true;
    }
    if (!store_open(context->arena, options->db, &store, err)) {
        return false;
    }
    if (store_remark(store) != NULL) {
        (void)fprintf(stderr, "seqplan: %s\n", store_remark(store));
    }
    bool is_good = store_in(context, store, files, n_files, err);
    store_close(store);
    return is_good;
}

/* The hardware file of a topology, which -o names. */
static bool write_node(struct command_context *context, const struct import_typed *typed,
                       const struct import_file *files, size_t n_files, struct sp_error *err)
{
    const char *text = NULL;
    for (size_t i = 0; i < n_files; i++) {
        text = files[i].node != NULL ? files[i].node : text;
    }
    if (text == NULL) {
        return true;
    }
    if (strcmp(typed->output, "-") == 0) {
        (void)fprintf(context->out, "%s\n", text);
        return true;
    }
    struct whole_file *file = whole_file_open(context->arena, typed->output, err);
    if (file == NULL) {
        return false;
    }
    whole_file_print(file, "%s\n", text);
    return whole_file_close(file, err);
}

static bool has_kind(const struct import_file *files, size_t n_files, unsigned kinds)
{
    for (size_t i = 0; i < n_files; i++) {
        if ((1U << (unsigned)files[i].kind & kinds) != 0) {
            return true;
        }
    }
    return false;
}

/* An option that says something of no file is a mistake. */
static bool check_options(const struct import_typed *typed, const struct import_file *files, size_t n_files,
                          struct sp_error *err)
{
    static const unsigned nccl = 1U << (unsigned)IMPORT_NCCL_TESTS;
    static const unsigned topology = 1U << (unsigned)IMPORT_TOPOLOGY;
    static const unsigned training = 1U << (unsigned)IMPORT_MEGATRON | 1U << (unsigned)IMPORT_TORCHTITAN |
                                     1U << (unsigned)IMPORT_NANOTRON | 1U << (unsigned)IMPORT_DEEPSPEED;
    const struct {
        bool is_given;
        unsigned kinds;
        const char *name, *what;
    } rules[] = {
        {typed->ranks.is_given, nccl, "--ranks", "output of nccl-tests"},
        {typed->nodes.is_given, nccl, "--nodes", "output of nccl-tests"},
        {typed->operation >= 0, nccl, "--operation", "output of nccl-tests"},
        {typed->warmup.is_given, training, "--warmup", "training logs"},
        {typed->global_batch.is_given, training, "--global-batch", "training logs"},
        {typed->network != NULL, topology, "--network", "a topology"},
        {typed->gpu != NULL, nccl | training | topology, "--gpu",
         "logs and topologies, and these files name their GPU"},
    };
    for (size_t i = 0; i < SP_COUNT_OF(rules); i++) {
        if (rules[i].is_given && !has_kind(files, n_files, rules[i].kinds)) {
            return sp_fail(err, SP_ERROR_USAGE, "%s is for %s: leave it out", rules[i].name, rules[i].what);
        }
    }
    return true;
}

/* A name that a line of ours can hold. */
static bool check_gpu(const char *gpu, struct sp_error *err)
{
    enum { MOST_BYTES = 200 };
    size_t length = gpu == NULL ? 1 : strlen(gpu);
    bool is_good = length > 0 && length <= MOST_BYTES;
    for (size_t i = 0; gpu != NULL && i < length; i++) {
        is_good = is_good && (unsigned char)gpu[i] >= ' ' && gpu[i] != '\x7f';
    }
    return is_good || sp_fail(err, SP_ERROR_USAGE, "--gpu: expected a name of 1 to %d bytes without control characters",
                              (int)MOST_BYTES);
}

/* One file of -o for one topology. */
static bool check_output(const struct import_typed *typed, const struct import_file *files, size_t n_files,
                         struct sp_error *err)
{
    size_t n_nodes = 0;
    for (size_t i = 0; i < n_files; i++) {
        n_nodes += files[i].node != NULL ? 1 : 0;
    }
    if (n_nodes > 1) {
        return sp_fail(err, SP_ERROR_USAGE, "%zu topologies and one -o: import them one after the other", n_nodes);
    }
    if (n_nodes > 0 && strcmp(typed->output, "-") != 0) { /* what cannot be written fails before anything is stored */
        struct whole_file *file = whole_file_open(files[0].result.arena, typed->output, err);
        whole_file_drop(file);
        return file != NULL;
    }
    return n_nodes > 0 || typed->output == NULL ||
           sp_fail(err, SP_ERROR_USAGE,
                   "-o is for the hardware file of a topology: none of the files is one; 'seqplan measure --run ID -o "
                   "FILE' writes a stored run");
}

static void print_answer(struct command_context *context, const struct command_options *options,
                         const struct import_file *files, size_t n_files)
{
    struct report_imported *imported = sp_arena_array(context->arena, n_files, sizeof(*imported));
    for (size_t i = 0; i < n_files; i++) {
        imported[i] = (struct report_imported){.name = files[i].name,
                                               .kind = import_kind_names[files[i].kind],
                                               .result = &files[i].result,
                                               .output = files[i].node != NULL ? options->import.output : NULL,
                                               .is_verbose = options->import.is_verbose};
        report_imported_say(stderr, context->arena, &imported[i]);
    }
    if (options->import.output != NULL && strcmp(options->import.output, "-") == 0) {
        return; /* the hardware file is the answer */
    }
    const struct report_style style = command_style(context, options);
    report_imported(&style, context->arena, imported, n_files);
}

static bool check_other(struct command_context *context, const struct command_options *options,
                        const struct sp_texts *paths, struct sp_error *err)
{
    struct sp_texts inputs = {.arena = context->arena};
    for (size_t i = 0; i < paths->count; i++) {
        sp_texts_add(&inputs, "%s", paths->items[i]);
    }
    command_add_store(&inputs, options->db);
    return command_check_output(options->import.output, &inputs, err);
}

static bool import_files(struct command_context *context, const struct command_options *options,
                         const struct sp_texts *paths, struct sp_error *err)
{
    struct import_file *files = sp_arena_array(context->arena, paths->count, sizeof(*files));
    for (size_t i = 0; i < paths->count; i++) {
        files[i].path = paths->items[i];
        if (!read_file(&files[i], context->arena, &options->import, err)) {
            return false;
        }
    }
    if (!check_options(&options->import, files, paths->count, err) ||
        !check_output(&options->import, files, paths->count, err) ||
        !store_files(context, options, files, paths->count, err) ||
        !write_node(context, &options->import, files, paths->count, err)) {
        return false;
    }
    print_answer(context, options, files, paths->count);
    return true;
}

bool cmd_import(struct command_context *context, int argc, char **argv, struct sp_error *err)
{
    struct command_options options;
    struct sp_texts paths = {.arena = context->arena};
    if (!command_options_parse(context, argc, argv, &options, &paths, err)) {
        return false;
    }
    if (options.wants_help) {
        return true;
    }
    if (paths.count == 0) {
        return sp_fail(err, SP_ERROR_USAGE,
                       "import: expected files, for example 'seqplan import all_reduce.txt', or - "
                       "for standard input");
    }
    return check_gpu(options.import.gpu, err) && check_other(context, &options, &paths, err) &&
           import_files(context, &options, &paths, err);
}

/* ---- the table of options --------------------------------------------------------------------------------------- */

#define AT(member) offsetof(struct command_options, import.member)

static const char file_group[] = "The files";
static const char log_group[] = "What a log leaves out";

const struct sp_option import_options[] = {
    {.name = "kind",
     .type = SP_OPTION_CHOICE,
     .offset = AT(kind),
     .names = import_kind_names,
     .argument = "K",
     .group = file_group,
     .help = "what the files are; default: as their content tells"},
    {.name = "verbose",
     .letter = 'v',
     .type = SP_OPTION_FLAG,
     .offset = AT(is_verbose),
     .group = file_group,
     .help = "says of every line what became of it"},
    {.name = "ranks",
     .type = SP_OPTION_COUNT,
     .offset = AT(ranks),
     .argument = "N",
     .group = log_group,
     .help = "nccl-tests: how many ranks took part"},
    {.name = "nodes",
     .type = SP_OPTION_COUNT,
     .offset = AT(nodes),
     .argument = "N",
     .group = log_group,
     .help = "nccl-tests: on how many nodes; default: the hosts of the log"},
    {.name = "gpu",
     .type = SP_OPTION_TEXT,
     .offset = AT(gpu),
     .argument = "NAME",
     .group = log_group,
     .help = "on which GPU; default: as the log names it. Of a topology: a name in hardware/gpus"},
    {.name = "operation",
     .type = SP_OPTION_CHOICE,
     .offset = AT(operation),
     .names = import_operation_names,
     .argument = "O",
     .group = log_group,
     .help = "nccl-tests: which operation; default: as named, or as sizes and bandwidths tell"},
    {.name = "warmup",
     .type = SP_OPTION_COUNT,
     .offset = AT(warmup),
     .min = -1, /* 0 is a number of steps */
     .argument = "N",
     .group = log_group,
     .help = "training logs: how many logged steps are left out at the begin; default: those before the times settle"},
    {.name = "global-batch",
     .type = SP_OPTION_COUNT,
     .offset = AT(global_batch),
     .argument = "N",
     .group = log_group,
     .help = "training logs: sequences of a step, where the log does not say"},
    {.name = "network",
     .type = SP_OPTION_TEXT,
     .offset = AT(network),
     .argument = "NAME",
     .group = log_group,
     .help = "topology: a name in hardware/networks; default: none"},
    {.name = "output",
     .letter = 'o',
     .type = SP_OPTION_TEXT,
     .offset = AT(output),
     .argument = "FILE",
     .group = file_group,
     .help = "topology: writes the hardware file here, which --hardware reads; - is standard output"},
    {.name = NULL},
};
