/* Measuring: the device program is run, and each line that it prints is stored when it comes. A run that was stopped is gone on
 * with: the program gets the keys that are measured already. Whether that is a run of this machine shows only in the first
 * line; where the guess was wrong, the program is started once more. */
#include "cmd/measure.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct measuring {
    const struct measure_request *request;
    struct measure_outcome *outcome;
    struct sp_arena *arena;   /* of all of it */
    struct sp_arena *scratch; /* of the line at hand */
    struct measure_intake intake;
    struct progress progress;
    int64_t expected;                     /* the run whose measurements the program was told of; 0: none */
    struct store_run_listing run;         /* id 0: the machine is not known yet */
    const struct sp_json *machine;        /* of the run */
    char note[MEASUREMENT_KEY_BYTES + 1]; /* key of the last line */
    const char *message;                  /* the last that the program said, not printed yet; or NULL */
    bool is_done;
    bool is_restarted, must_restart;
};

/* ---- what is missing -------------------------------------------------------------------------------------------- */

static bool is_on_path(struct sp_arena *arena, const char *name)
{
    const char *path = getenv("PATH");
    while (path != NULL && *path != '\0') {
        size_t length = strcspn(path, ":");
        if (access(sp_format(arena, "%.*s/%s", (int)length, path, name), X_OK) == 0) {
            return true;
        }
        path += length + (path[length] == ':' ? 1 : 0);
    }
    return false;
}

static bool fail_missing(struct sp_arena *arena, const char *expected, struct sp_error *err)
{
    bool has_compiler = is_on_path(arena, "nvcc");
    bool has_gpu = access("/dev/nvidiactl", F_OK) == 0;
    const char *lacking = has_compiler && has_gpu ? ""
                          : has_gpu               ? " (no nvcc is found here to build it)"
                          : has_compiler          ? " (and no NVIDIA GPU is found here)"
                                                  : " (neither nvcc nor an NVIDIA GPU is found here)";
    return sp_fail(
        err, SP_ERROR_IO,
        "measure: the device program %s is missing%s: run 'make' where nvcc of the CUDA toolkit is installed, "
        "name another one with --device, or read what was measured elsewhere with --from FILE",
        expected, lacking);
}

bool measure_device_find(struct sp_arena *arena, const char *given, const char **program, struct sp_error *err)
{
    if (given != NULL) {
        bool is_here = strchr(given, '/') == NULL && access(given, X_OK) == 0;
        *program = is_here ? sp_format(arena, "./%s", given) : given;
        return given[0] != '\0' || sp_fail(err, SP_ERROR_USAGE, "--device: expected a program, found \"\"");
    }
    const char *folder = data_program_folder(arena);
    *program = sp_format(arena, "%s/seqplan-device", folder == NULL ? "." : folder);
    return access(*program, X_OK) == 0 || fail_missing(arena, *program, err);
}

/* ---- which run -------------------------------------------------------------------------------------------------- */

static bool is_candidate(const struct measuring *measuring, const struct store_run_listing *run)
{
    return !run->is_finished && strcmp(run->run.profile, measuring->request->profile) == 0;
}

/* The last run of this profile that is not finished; machine NULL: of any. id 0 where there is none. */
static bool find_unfinished(const struct measuring *measuring, const struct sp_json *machine,
                            struct store_run_listing *found, struct sp_error *err)
{
    struct store_run_listing *runs = NULL;
    size_t n_runs = 0;
    *found = (struct store_run_listing){.id = 0};
    if (!store_runs_list(measuring->request->store, measuring->arena, &runs, &n_runs, err)) {
        return false;
    }
    for (size_t i = n_runs; i > 0 && found->id == 0; i--) {
        const struct store_run_listing *run = &runs[i - 1];
        if (!is_candidate(measuring, run)) {
            continue;
        }
        const struct sp_json *other = measure_run_machine(measuring->request->store, measuring->arena, run, err);
        if (other == NULL) {
            return false;
        }
        if (machine == NULL || measurement_is_same_machine(machine, other)) {
            *found = *run;
        }
    }
    return true;
}

/* Before the machine is known. */
static bool guess_run(struct measuring *measuring, struct sp_error *err)
{
    const struct measure_request *request = measuring->request;
    measuring->expected = request->resumed;
    if (request->resumed != 0 || request->is_new) {
        return true;
    }
    struct store_run_listing found;
    bool is_good = find_unfinished(measuring, NULL, &found, err);
    measuring->expected = found.id;
    return is_good;
}

/* Two runs are never the same, also where they begin in one second. */
static const char *new_key(struct sp_arena *arena, const struct store_run *run)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    const char *text = sp_format(arena, "%s %s %lld.%09ld %ld", run->machine, run->profile, (long long)now.tv_sec,
                                 now.tv_nsec, (long)getpid());
    return sp_format(arena, "%016" PRIx64, report_fnv1a(text));
}

static bool begin_run(struct measuring *measuring, const struct sp_json *machine, struct sp_error *err)
{
    struct store_run run = {.profile = measuring->request->profile,
                            .version = measuring->request->context->version,
                            .machine = report_tree_text(measuring->arena, machine)};
    if (run.machine == NULL) {
        return sp_fail(err, SP_ERROR_IO, "out of memory: close other programs and run the same again");
    }
    run.key = new_key(measuring->arena, &run);
    int64_t id = 0;
    return store_run_begin(measuring->request->store, &run, &id, err) &&
           measure_run_find(measuring->request->store, measuring->arena, id, &measuring->run, err);
}

/* The run that --resume names must be of this machine. */
static bool take_resumed(struct measuring *measuring, const struct sp_json *machine, struct sp_error *err)
{
    const struct measure_request *request = measuring->request;
    if (!measure_run_find(request->store, measuring->arena, request->resumed, &measuring->run, err)) {
        return false;
    }
    const struct sp_json *other = measure_run_machine(request->store, measuring->arena, &measuring->run, err);
    if (other == NULL) {
        return false;
    }
    return measurement_is_same_machine(machine, other) ||
           sp_fail(err, SP_ERROR_USAGE,
                   "--resume: run %" PRId64
                   " is of another machine (%s, this is %s; driver, CUDA, NCCL and power limit "
                   "count too): leave it out to begin a run",
                   request->resumed, measure_machine_name(measuring->arena, other),
                   measure_machine_name(measuring->arena, machine));
}

static bool choose_run(struct measuring *measuring, const struct sp_json *machine, struct sp_error *err)
{
    const struct measure_request *request = measuring->request;
    if (request->resumed != 0) {
        return take_resumed(measuring, machine, err);
    }
    struct store_run_listing found = {.id = 0};
    if (!request->is_new && !find_unfinished(measuring, machine, &found, err)) {
        return false;
    }
    if (found.id != measuring->expected) {
        if (measuring->is_restarted) {
            return sp_fail(err, SP_ERROR_IO, "measure: the machine changes between two starts of the device program");
        }
        measuring->expected = found.id;
        measuring->must_restart = true;
        return true;
    }
    measuring->run = found;
    return found.id != 0 || begin_run(measuring, machine, err);
}

static void say_resumed(const struct measuring *measuring)
{
    const struct store_run_listing *run = &measuring->run;
    if (measuring->expected != 0) {
        (void)fprintf(stderr, "seqplan: run %" PRId64 " is gone on with: %" PRId64 " measurement%s there already%s\n",
                      run->id, run->n_rows - run->n_refused, run->n_rows - run->n_refused == 1 ? " is" : "s are",
                      measuring->request->resumed == 0 ? " (--new begins another)" : "");
    }
}

/* ---- lines ------------------------------------------------------------------------------------------------------ */

static bool take_machine(struct measuring *measuring, const struct line *text, struct sp_error *err)
{
    if (measuring->run.id != 0) {
        measure_intake_skip(&measuring->intake, "the machine is known already");
        return true;
    }
    struct measurement line; /* kept longer than the scratch */
    if (!measurement_parse(measuring->arena, text->text, text->length, &line, err) ||
        !choose_run(measuring, line.json, err)) {
        return false;
    }
    if (!measuring->must_restart) {
        say_resumed(measuring);
        measuring->outcome->id = measuring->run.id;
        measuring->outcome->n_done = measuring->run.n_rows - measuring->run.n_refused;
        measuring->outcome->n_total = measuring->run.n_planned;
    }
    return true;
}

static bool take_plan(struct measuring *measuring, int64_t total, struct sp_error *err)
{
    struct measure_outcome *outcome = measuring->outcome;
    outcome->n_total = outcome->n_done + total;
    progress_open(&measuring->progress, measuring->request->context->has_progress && outcome->n_total > 0,
                  outcome->n_total, outcome->n_done);
    (void)snprintf(measuring->note, sizeof(measuring->note), "begins");
    measuring->progress.note = measuring->note;
    return store_run_progress(measuring->request->store, measuring->run.id, outcome->n_total, false, err);
}

static bool take_row(struct measuring *measuring, const struct line *text, const struct measurement *line,
                     struct sp_error *err)
{
    const struct store_measurement row = {.key = line->key,
                                          .is_refused = line->kind == MEASUREMENT_REFUSED,
                                          .json = sp_strndup(measuring->scratch, text->text, text->length)};
    struct store_batch batch = {.run_id = measuring->run.id, .rows = &row, .n_rows = 1};
    measuring->outcome->n_done++;
    (void)snprintf(measuring->note, sizeof(measuring->note), "%s", line->key);
    return store_measurements_add(measuring->request->store, &batch, err);
}

static bool take_read_line(struct measuring *measuring, const struct line *text, const struct measurement *line,
                           struct sp_error *err)
{
    switch (line->kind) {
    case MEASUREMENT_MACHINE:
        return take_machine(measuring, text, err);
    case MEASUREMENT_PLAN:
        return take_plan(measuring, line->total, err);
    case MEASUREMENT_TIMED:
    case MEASUREMENT_REFUSED:
        return take_row(measuring, text, line, err);
    case MEASUREMENT_DONE:
        measuring->is_done = true;
        return store_run_progress(measuring->request->store, measuring->run.id, -1, true, err);
    case MEASUREMENT_RUN:
        break;
    }
    measure_intake_skip(&measuring->intake, "a device program names no run");
    return true;
}

static bool take_line(struct measuring *measuring, const struct line *text, struct sp_error *err)
{
    struct sp_arena_mark mark = sp_arena_mark(measuring->scratch);
    struct measurement line;
    bool is_good = true;
    if (measure_intake_read(&measuring->intake, measuring->scratch, text, &line)) {
        if (measuring->run.id == 0 && line.kind != MEASUREMENT_MACHINE) {
            measure_intake_skip(&measuring->intake, "it comes before the line of the machine");
        } else {
            is_good = take_read_line(measuring, text, &line, err);
        }
    }
    sp_arena_rewind(measuring->scratch, mark);
    return is_good;
}

static void print_message(struct measuring *measuring)
{
    if (measuring->message != NULL) {
        progress_clear(&measuring->progress);
        (void)fprintf(stderr, "seqplan-device: %s\n", measuring->message);
        measuring->message = NULL;
    }
}

/* The last one waits: it may be the reason of a failure. */
static void take_message(struct measuring *measuring, const struct line *text)
{
    static const char prefix[] = "seqplan-device: ";
    print_message(measuring);
    const char *message = sp_strndup(measuring->arena, text->text, text->length);
    bool has_prefix = strncmp(message, prefix, strlen(prefix)) == 0;
    measuring->message = message + (has_prefix ? strlen(prefix) : 0);
}

/* ---- one start of the program ----------------------------------------------------------------------------------- */

static bool add_key(void *user, const struct store_measurement *row, struct sp_error *err)
{
    (void)err;
    if (!row->is_refused) {
        (void)fprintf(user, "%s\n", row->key);
    }
    return true;
}

/* The keys that are measured, in a file that is gone with us. *descriptor is -1 where there are none. */
static bool write_done(struct measuring *measuring, FILE **file, int *descriptor, struct sp_error *err)
{
    enum { ABOVE = 10 }; /* of the descriptors of pipes */
    *file = NULL;
    *descriptor = -1;
    if (measuring->expected == 0) {
        return true;
    }
    *file = tmpfile();
    if (*file == NULL) {
        return sp_fail(err, SP_ERROR_IO, "a temporary file cannot be made: %s; make room, or set TMPDIR",
                       strerror(errno));
    }
    if (!store_measurements_visit(measuring->request->store, measuring->expected, add_key, *file, err)) {
        return false;
    }
    if (fflush(*file) != 0) {
        return sp_fail(err, SP_ERROR_IO, "a temporary file cannot be written: %s; make room", strerror(errno));
    }
    *descriptor = fcntl(fileno(*file), F_DUPFD_CLOEXEC, ABOVE);
    return *descriptor >= 0 || sp_fail(err, SP_ERROR_IO, "too many files are open: %s", strerror(errno));
}

static char **arguments(const struct measuring *measuring, bool has_done)
{
    enum { OTHERS = 5 }; /* program, command, --done, its file, NULL */
    struct sp_arena *arena = measuring->arena;
    char *words = sp_strdup(arena, measuring->request->profile);
    char **argv = sp_arena_array(arena, strlen(words) + OTHERS, sizeof(*argv));
    size_t argc = 0;
    argv[argc++] = sp_strdup(arena, measuring->request->program);
    argv[argc++] = sp_strdup(arena, "measure");
    for (char *at = words; *at != '\0';) {
        size_t length = strcspn(at, " ");
        if (length > 0) {
            argv[argc++] = sp_strndup(arena, at, length);
        }
        at += length + (at[length] == ' ' ? 1 : 0);
    }
    if (has_done) {
        argv[argc++] = sp_strdup(arena, "--done");
        argv[argc++] = sp_strdup(arena, DEVICE_DONE_FILE);
    }
    return argv;
}

static bool listen(struct measuring *measuring, struct device_process *device, struct sp_error *err)
{
    bool is_good = true;
    while (is_good && !measuring->must_restart) {
        struct line line;
        enum device_event event = device_next(device, &line);
        if (event == DEVICE_ENDED) {
            return true;
        }
        if (event == DEVICE_LINE) {
            is_good = take_line(measuring, &line, err);
        } else if (event == DEVICE_MESSAGE) {
            take_message(measuring, &line);
        }
        if (interrupt_is_asked() && !measuring->outcome->is_interrupted) {
            measuring->outcome->is_interrupted = true;
            device_stop(device);
        }
        progress_show(&measuring->progress, measuring->outcome->n_done);
    }
    device_stop(device);
    return is_good;
}

/* Why the program did not do all that it should have. */
static bool fail_ended(struct measuring *measuring, const char *how, struct sp_error *err)
{
    const struct measure_outcome *outcome = measuring->outcome;
    const char *reason = how != NULL        ? how
                         : outcome->id == 0 ? "printed no line of a machine: is it a device program of this seqplan?"
                                            : "ended before it was done";
    const char *message = measuring->message;
    measuring->message = NULL;
    (void)sp_fail(err, SP_ERROR_IO, "%s: %s%s%s", measuring->request->program, reason, message == NULL ? "" : ": ",
                  message == NULL ? "" : message);
    if (outcome->id != 0) {
        struct sp_error cause = *err;
        (void)sp_fail(err, SP_ERROR_IO,
                      "%.1800s; run %" PRId64 " keeps what was measured: --resume %" PRId64 " goes on", cause.text,
                      outcome->id, outcome->id);
    }
    return false;
}

static bool start_and_listen(struct measuring *measuring, int done, struct sp_error *err)
{
    struct device_process *device = device_open(measuring->arena, arguments(measuring, done >= 0), done, err);
    if (device == NULL) {
        return false;
    }
    bool is_good = listen(measuring, device, err);
    const char *how = device_close(device);
    progress_close(&measuring->progress);
    bool is_failed = !measuring->is_done || how != NULL;
    if (is_good && is_failed && !measuring->must_restart && !measuring->outcome->is_interrupted) {
        is_good = fail_ended(measuring, how, err);
    }
    print_message(measuring);
    return is_good;
}

static bool run_once(struct measuring *measuring, struct sp_error *err)
{
    FILE *file = NULL;
    int done = -1;
    bool is_good = write_done(measuring, &file, &done, err) && start_and_listen(measuring, done, err);
    if (done >= 0) {
        (void)close(done);
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return is_good;
}

bool measure_device_run(const struct measure_request *request, struct measure_outcome *outcome, struct sp_error *err)
{
    *outcome = (struct measure_outcome){.id = 0};
    struct measuring measuring = {.request = request,
                                  .outcome = outcome,
                                  .arena = request->context->arena,
                                  .intake = {.source = request->program}};
    measuring.intake.progress = &measuring.progress;
    measuring.scratch = sp_arena_open();
    interrupt_watch();
    bool is_good = guess_run(&measuring, err) && run_once(&measuring, err);
    if (is_good && measuring.must_restart && !outcome->is_interrupted) {
        measuring.must_restart = false;
        measuring.is_restarted = true;
        measuring.intake.n_lines = 0;
        is_good = run_once(&measuring, err);
    }
    interrupt_unwatch();
    measure_intake_close(&measuring.intake);
    sp_arena_close(measuring.scratch);
    return is_good;
}
