/* The device program as a child: started with pipes in place of its standard output and standard error, read without
 * waiting for long, and ended. It stays in our process group: Ctrl-C and Ctrl-Z reach both. */
#include "cmd/measure.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { OUTPUT, MESSAGES, N_PIPES };
enum { DONE_DESCRIPTOR = 3 }; /* of DEVICE_DONE_FILE */

struct device_process {
    struct sp_arena *arena;
    pid_t id;
    struct line_reader readers[N_PIPES];
};

/* ---- starting --------------------------------------------------------------------------------------------------- */

/* Above the descriptors that the child gets, and of no program that it is not meant for. */
static bool raise_descriptor(int *descriptor)
{
    int raised = fcntl(*descriptor, F_DUPFD_CLOEXEC, DONE_DESCRIPTOR + 1);
    (void)close(*descriptor);
    *descriptor = raised;
    return raised >= 0;
}

static bool open_pipe(int ends[2])
{
    if (pipe(ends) != 0) {
        return false;
    }
    bool is_good = raise_descriptor(&ends[0]);
    return raise_descriptor(&ends[1]) && is_good;
}

static void close_pipe(int ends[2])
{
    for (int i = 0; i < 2; i++) {
        if (ends[i] >= 0) {
            (void)close(ends[i]);
        }
    }
}

/* Returns an error number. */
static int add_actions(posix_spawn_file_actions_t *actions, int pipes[N_PIPES][2], int done)
{
    int code = posix_spawn_file_actions_adddup2(actions, pipes[OUTPUT][1], STDOUT_FILENO);
    if (code == 0) {
        code = posix_spawn_file_actions_adddup2(actions, pipes[MESSAGES][1], STDERR_FILENO);
    }
    return code != 0 || done < 0 ? code : posix_spawn_file_actions_adddup2(actions, done, DONE_DESCRIPTOR);
}

/* A pipe whose reader is gone ends the program, also where our caller ignores that. */
static int set_signals(posix_spawnattr_t *attributes)
{
    sigset_t signals;
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGPIPE);
    int code = posix_spawnattr_setsigdefault(attributes, &signals);
    return code == 0 ? posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGDEF) : code;
}

static int spawn(struct device_process *device, char *const *argv, int pipes[N_PIPES][2], int done)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int code = posix_spawn_file_actions_init(&actions);
    if (code != 0) {
        return code;
    }
    code = posix_spawnattr_init(&attributes);
    if (code == 0) {
        code = add_actions(&actions, pipes, done);
        if (code == 0) {
            code = set_signals(&attributes);
        }
        if (code == 0) {
            code = posix_spawnp(&device->id, argv[0], &actions, &attributes, argv, environ);
        }
        (void)posix_spawnattr_destroy(&attributes);
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    return code;
}

struct device_process *device_open(struct sp_arena *arena, char *const *argv, int done, struct sp_error *err)
{
    struct device_process *device = sp_arena_alloc(arena, sizeof(*device));
    int pipes[N_PIPES][2] = {{-1, -1}, {-1, -1}};
    device->arena = arena;
    bool has_pipes = open_pipe(pipes[OUTPUT]) && open_pipe(pipes[MESSAGES]);
    int code = has_pipes ? spawn(device, argv, pipes, done) : errno;
    if (code != 0) {
        close_pipe(pipes[OUTPUT]);
        close_pipe(pipes[MESSAGES]);
        (void)sp_fail(err, SP_ERROR_IO, "%s: cannot be started: %s; name the device program with --device", argv[0],
                      strerror(code));
        return NULL;
    }
    for (int i = 0; i < N_PIPES; i++) {
        (void)close(pipes[i][1]);
        (void)fcntl(pipes[i][0], F_SETFL, O_NONBLOCK);
        line_reader_open(&device->readers[i], arena, pipes[i][0]);
    }
    return device;
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

/* Messages first: they are of what was printed before. */
static enum device_event next_line(struct device_process *device, struct line *line)
{
    if (line_reader_next(&device->readers[MESSAGES], line)) {
        return DEVICE_MESSAGE;
    }
    if (line_reader_next(&device->readers[OUTPUT], line)) {
        return DEVICE_LINE;
    }
    return DEVICE_QUIET;
}

static void read_pipes(struct device_process *device, int wait_ms)
{
    struct pollfd polled[N_PIPES];
    for (int i = 0; i < N_PIPES; i++) {
        const struct line_reader *reader = &device->readers[i];
        polled[i] = (struct pollfd){.fd = reader->is_ended ? -1 : reader->descriptor, .events = POLLIN};
    }
    if (poll(polled, N_PIPES, wait_ms) <= 0) {
        return;
    }
    for (int i = 0; i < N_PIPES; i++) {
        if (polled[i].revents != 0 && !line_reader_fill(&device->readers[i])) {
            device->readers[i].is_ended = true; /* a pipe that fails is at its end */
        }
    }
}

enum device_event device_next(struct device_process *device, struct line *line)
{
    enum { WAIT_MS = 100 };
    enum device_event event = next_line(device, line);
    if (event != DEVICE_QUIET) {
        return event;
    }
    read_pipes(device, WAIT_MS);
    event = next_line(device, line);
    bool is_ended = device->readers[OUTPUT].is_ended && device->readers[MESSAGES].is_ended;
    return event == DEVICE_QUIET && is_ended ? DEVICE_ENDED : event;
}

/* ---- ending ----------------------------------------------------------------------------------------------------- */

void device_stop(struct device_process *device)
{
    (void)kill(device->id, SIGTERM);
}

/* It has closed its pipes, or was asked to end. */
static int wait_for_end(const struct device_process *device)
{
    enum { PATIENCE_MS = 5000, PAUSE_MS = 10, NS_PER_MS = 1000000 };
    int status = 0;
    for (int waited_ms = 0; waited_ms < PATIENCE_MS; waited_ms += PAUSE_MS) {
        if (waitpid(device->id, &status, WNOHANG) != 0) {
            return status;
        }
        const struct timespec pause = {.tv_nsec = (long)PAUSE_MS * NS_PER_MS};
        (void)nanosleep(&pause, NULL);
    }
    (void)kill(device->id, SIGKILL);
    while (waitpid(device->id, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
}

const char *device_close(struct device_process *device)
{
    for (int i = 0; i < N_PIPES; i++) {
        (void)close(device->readers[i].descriptor);
    }
    int status = wait_for_end(device);
    if (WIFSIGNALED(status)) {
        return sp_format(device->arena, "was ended by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    }
    return WEXITSTATUS(status) == 0 ? NULL : sp_format(device->arena, "ended with exit code %d", WEXITSTATUS(status));
}
