#include "cmd/command.h"

#include <string.h>

static void print_examples(const struct command *command, FILE *file)
{
    if (command->examples == NULL) {
        return;
    }
    (void)fputs("\nExamples:\n", file);
    for (const char *const *example = command->examples; *example != NULL; example++) {
        (void)fprintf(file, "  %s\n", *example);
    }
}

void command_help(struct command_context *context, const struct command *command)
{
    FILE *file = context->out;
    bool has_synopsis = command->synopsis != NULL;
    (void)fprintf(file, "usage: seqplan %s%s%s\n\n%s\n", command->name, has_synopsis ? " " : "",
                  has_synopsis ? command->synopsis : "", command->summary);
    if (command->details != NULL) {
        (void)fprintf(file, "\n%s\n", command->details);
    }
    if (command->run == NULL) {
        (void)fputs("\nnot built yet\n", file);
        return;
    }
    if (command->run == cmd_show) {
        show_help(file);
    }
    const struct sp_option *table = command_option_table(context->arena, command);
    if (table[0].name != NULL) {
        (void)fputc('\n', file);
        sp_options_help(table, file);
    }
    print_examples(command, file);
}

static void print_commands(FILE *file, bool is_built)
{
    for (const struct command *command = commands; command->name != NULL; command++) {
        if ((command->run != NULL) == is_built) {
            (void)fprintf(file, "  %-10s %s\n", command->name, command->summary);
        }
    }
}

static void print_overview(FILE *file)
{
    (void)fputs("usage: seqplan COMMAND [options]\n\n"
                "Which layout to train a model with at a given context length on a given cluster: will it\n"
                "fit, how fast will it go, what bounds it.\n\nCommands:\n",
                file);
    print_commands(file, true);
    (void)fputs("\nNot built yet:\n", file);
    print_commands(file, false);
    (void)fputs("\n'seqplan help COMMAND' lists the options of a command, 'seqplan --version' prints the version.\n",
                file);
}

bool cmd_help(struct command_context *context, int argc, char **argv, struct sp_error *err)
{
    if (argc > 2) {
        return sp_fail(err, SP_ERROR_USAGE, "help takes one command, found %d", argc - 1);
    }
    bool is_overview = argc < 2 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0;
    if (is_overview) {
        print_overview(context->out);
        return true;
    }
    const struct command *command = command_find(argv[1]);
    if (command == NULL) {
        return command_unknown(argv[1], err);
    }
    command_help(context, command);
    return true;
}
