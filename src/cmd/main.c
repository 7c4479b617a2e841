#include "cmd/ranks.h"
#include "cmd/sweep.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef SEQPLAN_VERSION /* the Makefile gives it; this is for tools that read single files */
#define SEQPLAN_VERSION "unknown"
#endif

static bool wants_color(void)
{
    const char *no_color = getenv("NO_COLOR");
    const char *terminal = getenv("TERM");
    bool is_refused = no_color != NULL && no_color[0] != '\0';
    bool is_dumb = terminal == NULL || strcmp(terminal, "dumb") == 0;
    bool is_terminal =
        isatty(STDOUT_FILENO) == 1 && ranks_launched() == 0; /* mpirun gives ranks one, whatever its own */
    return is_terminal && !is_refused && !is_dumb;
}

static bool asks_for_help(int argc, char **argv)
{
    return argc == 2 && (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0);
}

/* argv[0] is what follows the name of the program. */
static bool dispatch(struct command_context *context, int argc, char **argv, struct sp_error *err)
{
    if (argc == 0) {
        return sp_fail(err, SP_ERROR_USAGE, "no command given: 'seqplan help' lists them");
    }
    if (strcmp(argv[0], "--version") == 0) {
        (void)fprintf(context->out, "seqplan %s\n", context->version);
        return true;
    }
    if (strcmp(argv[0], "-h") == 0 || strcmp(argv[0], "--help") == 0) {
        return cmd_help(context, 1, argv, err);
    }
    if (argv[0][0] == '-') {
        return sp_fail(err, SP_ERROR_USAGE, "unknown option '%s' before a command: 'seqplan help' lists the commands",
                       argv[0]);
    }
    const struct command *command = command_find(argv[0]);
    if (command == NULL) {
        return command_unknown(argv[0], err);
    }
    if (command->run != NULL) {
        return command->run(context, argc, argv, err);
    }
    if (asks_for_help(argc, argv)) {
        command_help(context, command);
        return true;
    }
    return command_not_built(context->arena, command, err);
}

/* A full disk or a closed output is a failure, not a short report. */
static bool check_output(struct sp_error *err)
{
    errno = 0;
    bool is_written = fflush(stdout) == 0 && ferror(stdout) == 0;
    if (is_written) {
        return true;
    }
    return sp_fail(err, SP_ERROR_IO, "standard output cannot be written: %s",
                   errno == 0 ? "an earlier write failed" : strerror(errno));
}

/* A failed assertion has printed its line; it is a bug of ours, and has an exit code of its own. */
static void on_abort(int signal_number)
{
    (void)signal_number;
    _exit(SP_ERROR_BUG);
}

/* The command line, for whoever runs it. */
struct command_line {
    struct command_context *context;
    int argc;
    char **argv;
};

static bool run_command(void *user, struct sp_error *err)
{
    const struct command_line *line = user;
    return dispatch(line->context, line->argc, line->argv, err);
}

/* Of several ranks one runs the command and prints; the others help when it comes to a sweep. */
static bool run_ranks(struct command_line *line, struct sp_error *err)
{
    if (!ranks_open(err)) {
        return false;
    }
    bool is_good = true;
    if (ranks_rank() == 0) {
        is_good = run_command(line, err) && check_output(err);
        sweep_dismiss();
    } else {
        sweep_serve(run_command, line);
        line->context->status = 0;
    }
    ranks_close();
    return is_good;
}

int main(int argc, char **argv)
{
    (void)signal(SIGABRT, on_abort);
    (void)signal(SIGXFSZ, SIG_IGN); /* a limit of file size is a failing write, which says so */
    struct command_context context = {
        .arena = sp_arena_open(),
        .version = SEQPLAN_VERSION,
        .out = stdout,
        .is_terminal = wants_color(),
        .has_progress = isatty(STDERR_FILENO) == 1,
    };
    struct sp_error err = {.kind = SP_ERROR_NONE};
    struct command_line line = {.context = &context, .argc = argc > 0 ? argc - 1 : 0, .argv = argv + 1};
    bool is_good = run_ranks(&line, &err);
    sp_arena_close(context.arena);
    if (is_good) {
        return context.status;
    }
    (void)fprintf(stderr, "seqplan: %s\n", err.text);
    return err.kind == SP_ERROR_NONE ? SP_ERROR_BUG : (int)err.kind;
}
