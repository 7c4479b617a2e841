/* validate: predictions held against what was measured. */
#include "cmd/measure.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

/* ---- pricing rows of files --------------------------------------------------------------------------------------- */

/* Of a row, then those for all rows, which are set apart by blanks. */
static char **all_words(struct sp_arena *arena, const struct sp_texts *words, const char *settings, int *n_words)
{
    size_t n_most = words->count + strlen(settings) + 2;
    char **argv = sp_arena_array(arena, n_most, sizeof(*argv));
    int n = 0;
    argv[n++] = sp_strdup(arena, "estimate");
    for (size_t i = 0; i < words->count; i++) {
        argv[n++] = sp_strdup(arena, words->items[i]);
    }
    for (settings += strspn(settings, " \t"); *settings != '\0'; settings += strspn(settings, " \t")) {
        size_t length = strcspn(settings, " \t");
        argv[n++] = sp_strndup(arena, settings, length);
        settings += length;
    }
    *n_words = n;
    return argv;
}

static bool read_words(const struct validate_pricing *pricing, const struct sp_texts *words,
                       struct command_options *options, struct sp_error *err)
{
    int n_words = 0;
    char **argv = all_words(pricing->scratch, words, pricing->settings == NULL ? "" : pricing->settings, &n_words);
    *options = (struct command_options){.vary = {.arena = pricing->scratch}};
    request_init(&options->request, pricing->scratch);
    return sp_options_parse(question_options, n_words, argv, options, NULL, err) &&
           question_options_finish(options, err);
}

/* What a log does not tell. */
static const char log_example[] = "--settings \"--model llama-3.1-8b --recompute full\"";

static bool price_words(void *user, const struct sp_texts *words, struct question *question, struct estimate *estimate,
                        struct sp_error *err)
{
    const struct validate_pricing *pricing = user;
    struct command_options options;
    if (!read_words(pricing, words, &options, err) ||
        !request_is_complete(pricing->scratch, &options.request, pricing->is_log ? log_example : question_example,
                             err) ||
        !question_resolve(&options.request, pricing->scratch, question, err) || !step_check(question, err)) {
        return false;
    }
    step_estimate(question, estimate);
    step_interval(question, estimate);
    return true;
}

struct validation_pricer validate_pricer(struct sp_arena *arena, struct validate_pricing *pricing)
{
    return (struct validation_pricer){.arena = arena,
                                      .scratch = pricing->scratch,
                                      .options = question_options,
                                      .price = price_words,
                                      .user = pricing};
}

/* ---- options ------------------------------------------------------------------------------------------------------ */

enum { FORMAT_PAGE = REPORT_JSON + 1 };
static const char *const format_names[] = {"table", "markdown", "csv", "json", "page", NULL};

/* What is asked for. */
struct validate_request {
    struct command_context *context;
    const struct command_options *options;
    const struct sp_texts *paths;
};

static bool check_picture(const char *option, const char *path, struct sp_error *err)
{
    if (path == NULL || report_validation_can_plot(path, err)) {
        return true;
    }
    sp_error_prefix(err, "%s", option);
    return false;
}

/* A mistake in them would refuse every row. */
static bool check_settings(const struct validate_request *request, struct sp_error *err)
{
    const struct validate_pricing pricing = {.scratch = request->context->arena,
                                             .settings = request->options->validate.settings};
    const struct sp_texts none = {.arena = request->context->arena};
    struct command_options options;
    if (pricing.settings != NULL && request->options->format == FORMAT_PAGE) {
        return sp_fail(err, SP_ERROR_USAGE, "--format page has the rows as they stand: leave out --settings");
    }
    if (read_words(&pricing, &none, &options, err)) {
        return true;
    }
    sp_error_prefix(err, "--settings");
    return false;
}

static bool check_options(const struct validate_request *request, struct sp_error *err)
{
    const struct validate_typed *typed = &request->options->validate;
    int n_kinds = (request->paths->count > 0 ? 1 : 0) + (typed->run.is_given ? 1 : 0) + (typed->is_device ? 1 : 0);
    bool is_run = typed->run.is_given || typed->is_device;
    if (n_kinds > 1) {
        return sp_fail(err, SP_ERROR_USAGE, "files, --run and --device: give one of them");
    }
    if (!is_run && request->options->request.hardware != NULL) {
        return sp_fail(err, SP_ERROR_USAGE,
                       "--hardware is of stored runs (--run, --device): rows of a file name their own");
    }
    if (!is_run && request->options->db != NULL) {
        return sp_fail(err, SP_ERROR_USAGE, "--db is of stored runs (--run, --device): files need none");
    }
    if (request->options->format == FORMAT_PAGE && (typed->by >= 0 || typed->only >= 0 || typed->has_rows)) {
        return sp_fail(err, SP_ERROR_USAGE,
                       "--format page has every row and every summary: leave out --by, --only and "
                       "--rows");
    }
    if (!is_run && request->options->request.attention != NULL) {
        return sp_fail(err, SP_ERROR_USAGE,
                       "--attention is of stored runs (--run, --device): rows of a file name their own");
    }
    if (typed->plot != NULL && typed->residuals != NULL && strcmp(typed->plot, typed->residuals) == 0) {
        return sp_fail(err, SP_ERROR_USAGE, "--plot and --residuals: %s would hold one picture: name two files",
                       typed->plot);
    }
    return check_settings(request, err) && check_picture("--plot", typed->plot, err) &&
           check_picture("--residuals", typed->residuals, err);
}

/* ---- files -------------------------------------------------------------------------------------------------------- */

static bool is_same_file(const char *a, const char *b)
{
    struct stat of_a;
    struct stat of_b;
    return strcmp(a, b) == 0 ||
           (stat(a, &of_a) == 0 && stat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino);
}

/* Each file once, whatever it is called: its rows would count twice. */
static struct sp_texts distinct_files(struct sp_arena *arena, const struct sp_texts *paths)
{
    struct sp_texts kept = {.arena = arena};
    for (size_t i = 0; i < paths->count; i++) {
        const char *first = NULL;
        for (size_t j = 0; j < kept.count && first == NULL; j++) {
            first = is_same_file(paths->items[i], kept.items[j]) ? kept.items[j] : NULL;
        }
        if (first == NULL) {
            sp_texts_add(&kept, "%s", paths->items[i]);
        } else {
            (void)fprintf(stderr, "seqplan: %s is %s: counted once\n", paths->items[i], first);
        }
    }
    return kept;
}

/* Sources of one name by their paths. */
static void tell_apart(const struct sp_texts *paths, struct validation_set *set)
{
    for (int i = 0; i < set->n_sources; i++) {
        bool is_twice = false;
        for (int j = i + 1; j < set->n_sources; j++) {
            if (strcmp(set->sources[i].name, set->sources[j].name) == 0) {
                set->sources[j].name = paths->items[j];
                is_twice = true;
            }
        }
        if (is_twice) {
            set->sources[i].name = paths->items[i];
        }
    }
}

static bool read_with(const struct validate_request *request, const struct validation_pricer *pricer,
                      struct validation_set *set, struct sp_error *err)
{
    struct sp_arena *arena = request->context->arena;
    struct sp_texts paths = distinct_files(arena, request->paths);
    if (paths.count == 0 && !validation_shipped(arena, &paths, err)) {
        return false;
    }
    set->sources = sp_arena_array(arena, paths.count, sizeof(*set->sources));
    set->n_sources = (int)paths.count;
    for (size_t i = 0; i < paths.count; i++) {
        if (!validation_read(pricer, paths.items[i], &set->sources[i], err)) {
            return false;
        }
    }
    tell_apart(&paths, set);
    return true;
}

static bool read_files(const struct validate_request *request, struct validation_set *set, struct sp_error *err)
{
    struct sp_arena *scratch = sp_arena_open();
    struct validate_pricing pricing = {.scratch = scratch, .settings = request->options->validate.settings};
    const struct validation_pricer pricer = validate_pricer(request->context->arena, &pricing);
    bool is_good = read_with(request, &pricer, set, err);
    sp_arena_close(scratch);
    return is_good;
}

/* ---- stored runs -------------------------------------------------------------------------------------------------- */

/* "NVIDIA H200" is in the node that is shipped as dgx-h200; NULL: none is. */
static const char *usual_hardware(struct sp_arena *arena, const struct sp_json *machine)
{
    static const char maker[] = "NVIDIA ";
    const struct sp_json *gpu = sp_json_member(machine, "gpu");
    const char *name = gpu == NULL || gpu->type != SP_JSON_STRING ? "" : gpu->string;
    name += strncmp(name, maker, strlen(maker)) == 0 ? strlen(maker) : 0;
    char *file = sp_format(arena, "dgx-%.*s", (int)strcspn(name, " "), name);
    for (char *at = file; *at != '\0'; at++) {
        *at = (char)tolower((unsigned char)*at);
    }
    struct sp_texts names = {.arena = arena};
    data_names(arena, "hardware", &names);
    return sp_texts_has(&names, file) ? file : NULL;
}

static const char *hardware_name(const struct validate_request *request, const struct sp_json *machine,
                                 struct sp_error *err)
{
    struct sp_arena *arena = request->context->arena;
    const char *name = request->options->request.hardware;
    if (name == NULL) {
        name = usual_hardware(arena, machine);
        if (name == NULL) {
            (void)sp_fail(err, SP_ERROR_USAGE,
                          "no shipped hardware is named after the GPU of this run (%s): --hardware names one",
                          measure_machine_name(arena, machine));
            return NULL;
        }
        (void)fprintf(stderr, "seqplan: predicted for %s (--hardware names another)\n", name);
    }
    return name;
}

/* Whole steps are priced as rows of a file are. */
static bool read_steps(const struct validate_request *request, const struct sp_json *table,
                       struct validation_source *source, struct sp_error *err)
{
    struct sp_arena *scratch = sp_arena_open();
    struct validate_pricing pricing = {
        .scratch = scratch, .settings = request->options->validate.settings, .is_log = true};
    const struct validation_pricer pricer = validate_pricer(request->context->arena, &pricing);
    const struct validation_source about = *source;
    bool is_good = validation_read_json(&pricer, about.where, table, source, err);
    source->name = about.name;
    source->title = about.title;
    source->is_own = about.is_own;
    sp_arena_close(scratch);
    return is_good;
}

/* What was timed: a run has whole steps or lines of the device program, and two sources where it has both. */
static bool read_content(const struct validate_request *request, const struct measure_run_content *content, int64_t id,
                         struct validation_set *set, struct sp_error *err)
{
    struct sp_arena *arena = request->context->arena;
    struct hardware_spec *hardware = sp_arena_alloc(arena, sizeof(*hardware));
    const char *name = hardware_name(request, content->machine, err);
    if (name == NULL || !hardware_read(arena, name, NULL, hardware, err)) {
        return false;
    }
    const char *kernel = request->options->request.attention;
    const struct fit_machine machine = {.hardware = hardware, .kernel = kernel == NULL ? "seqplan" : kernel};
    const struct validation_source about = {.name = sp_format(arena, "run-%" PRId64, id),
                                            .title = measure_machine_name(arena, content->machine),
                                            .where = sp_format(arena, "run %" PRId64 " of the store", id),
                                            .year = "",
                                            .is_own = true};
    set->sources = sp_arena_array(arena, 2, sizeof(*set->sources));
    set->sources[0] = about;
    set->n_sources = 1;
    validation_read_run(arena, &machine, content->rows, content->n_rows, set->sources);
    const struct sp_json *steps = validation_steps_table(arena, about.where, name, content->rows, content->n_rows);
    if (steps == NULL) {
        return true;
    }
    set->n_sources = set->sources[0].n_rows > 0 ? 2 : 1;
    struct validation_source *source = &set->sources[set->n_sources - 1];
    *source = about;
    source->name = set->n_sources == 1 ? about.name : sp_format(arena, "%s-steps", about.name);
    return read_steps(request, steps, source, err);
}

static bool read_run(const struct validate_request *request, struct store *store, int64_t id,
                     struct validation_set *set, struct sp_error *err)
{
    struct measure_run_content content;
    return measure_run_read(store, request->context->arena, id, &content, err) &&
           read_content(request, &content, id, set, err);
}

/* Measures, or goes on with what was stopped. */
static bool measure_first(const struct validate_request *request, struct store *store, const char *program, int64_t *id,
                          struct sp_error *err)
{
    const struct measure_request measure = {
        .context = request->context, .store = store, .program = program, .profile = "--quick"};
    struct measure_outcome outcome;
    if (!measure_device_run(&measure, &outcome, err)) {
        return false;
    }
    *id = outcome.id;
    return !outcome.is_interrupted ||
           sp_fail(err, SP_ERROR_IO,
                   "interrupted: %" PRId64 " of %" PRId64 " measurements are kept (the same command goes on)",
                   outcome.n_done, outcome.n_total);
}

static bool read_stored(const struct validate_request *request, struct validation_set *set, struct sp_error *err)
{
    struct sp_arena *arena = request->context->arena;
    const struct validate_typed *typed = &request->options->validate;
    const char *program = NULL;
    struct store *store = NULL;
    int64_t id = typed->run.value;
    if (typed->is_device) {
        if (!measure_device_find(arena, NULL, &program, err) || !store_open(arena, request->options->db, &store, err)) {
            return false;
        }
    } else if (!store_open_existing(arena, request->options->db, &store, err) ||
               (store == NULL && !sp_fail(err, SP_ERROR_INPUT, "no run %" PRId64 ": nothing is stored yet", id))) {
        return false;
    }
    bool is_good = (!typed->is_device || measure_first(request, store, program, &id, err)) &&
                   read_run(request, store, id, set, err);
    store_close(store);
    return is_good;
}

/* ---- the answer --------------------------------------------------------------------------------------------------- */

static bool draw(struct sp_arena *arena, const struct report_validation *validation, const struct validate_typed *typed,
                 struct sp_error *err)
{
    return (typed->plot == NULL ||
            report_validation_plot(arena, validation, REPORT_VALIDATION_SCATTER, typed->plot, err)) &&
           (typed->residuals == NULL ||
            report_validation_plot(arena, validation, REPORT_VALIDATION_RESIDUALS, typed->residuals, err));
}

static bool answer(const struct validate_request *request, const struct validation_set *set, struct sp_error *err)
{
    struct sp_arena *arena = request->context->arena;
    const struct validate_typed *typed = &request->options->validate;
    struct report_style style = command_style(request->context, request->options);
    struct report_validation validation = {.set = set,
                                           .by = typed->by < 0 ? VALIDATION_BY_QUANTITY : (enum validation_by)typed->by,
                                           .roles =
                                               typed->only < 0 ? (unsigned)VALIDATION_ALL : 1U << (unsigned)typed->only,
                                           .has_rows = typed->has_rows};
    if (!draw(arena, &validation, typed, err)) {
        return false;
    }
    if (request->options->format != FORMAT_PAGE) {
        report_validation(&style, arena, &validation);
        return true;
    }
    if (!validation_peers(arena, &validation.peers, err)) {
        return false;
    }
    style.format = REPORT_MARKDOWN;
    report_validation_page(&style, arena, &validation);
    return true;
}

bool cmd_validate(struct command_context *context, int argc, char **argv, struct sp_error *err)
{
    struct command_options options;
    struct sp_texts paths = {.arena = context->arena};
    if (!command_options_parse(context, argc, argv, &options, &paths, err)) {
        return false;
    }
    if (options.wants_help) {
        return true;
    }
    const struct validate_request request = {.context = context, .options = &options, .paths = &paths};
    struct validation_set set = {.n_sources = 0};
    if (!check_options(&request, err)) {
        return false;
    }
    bool is_stored = options.validate.run.is_given || options.validate.is_device;
    return (is_stored ? read_stored(&request, &set, err) : read_files(&request, &set, err)) &&
           answer(&request, &set, err);
}

/* ---- the table of options ----------------------------------------------------------------------------------------- */

#define AT(member) offsetof(struct command_options, validate.member)

static const char run_group[] = "Stored runs";
static const char the_answer[] = "The answer";

const struct sp_option validate_options[] = {
    {.name = "run",
     .type = SP_OPTION_COUNT,
     .offset = AT(run),
     .argument = "ID",
     .group = run_group,
     .help = "the measurements of this stored run, in place of files ('seqplan show runs' lists them)"},
    {.name = "device",
     .type = SP_OPTION_FLAG,
     .offset = AT(is_device),
     .group = run_group,
     .help = "measures on this machine's GPUs first, as 'seqplan measure' does, then takes that run"},
    {.name = "hardware",
     .type = SP_OPTION_TEXT,
     .offset = offsetof(struct command_options, request.hardware),
     .argument = "NAME|PATH",
     .group = run_group,
     .help = "predicts for this node; default: the DGX of the run's GPU"},
    {.name = "attention",
     .type = SP_OPTION_TEXT,
     .offset = offsetof(struct command_options, request.attention),
     .argument = "K",
     .group = run_group,
     .help = "whose attention curve predicts; default seqplan, the kernels that measure runs"},
    {.name = "settings",
     .type = SP_OPTION_TEXT,
     .offset = AT(settings),
     .argument = "OPTIONS",
     .group = "Pricing",
     .help =
         "options of estimate for every row, quoted: what a log leaves out, or a what-if (\"--model llama-3.1-8b\")"},
    {.name = "by",
     .type = SP_OPTION_CHOICE,
     .offset = AT(by),
     .names = validation_by_names,
     .argument = "WHAT",
     .group = the_answer,
     .help = "errors by quantity, method, seq, framework or source; default quantity"},
    {.name = "only",
     .type = SP_OPTION_CHOICE,
     .offset = AT(only),
     .names = validation_role_names,
     .argument = "judge|fit",
     .group = the_answer,
     .help = "lists rows that judge, or rows that something was fitted to; default both"},
    {.name = "rows",
     .type = SP_OPTION_FLAG,
     .offset = AT(has_rows),
     .group = the_answer,
     .help = "all rows in the table; default: the worst, where there are more than 24"},
    {.name = "plot",
     .type = SP_OPTION_TEXT,
     .offset = AT(plot),
     .argument = "FILE",
     .group = the_answer,
     .help = "draws predicted against measured, through gnuplot; FILE ends in .svg, .png or .pdf"},
    {.name = "residuals",
     .type = SP_OPTION_TEXT,
     .offset = AT(residuals),
     .argument = "FILE",
     .group = the_answer,
     .help = "draws the errors against the length of sequences, by source"},
    {.name = "format",
     .type = SP_OPTION_CHOICE,
     .offset = offsetof(struct command_options, format),
     .names = format_names,
     .argument = "F",
     .group = the_answer,
     .help = "default table; page is docs/validation.md, with every row"},
    {.name = NULL},
};
