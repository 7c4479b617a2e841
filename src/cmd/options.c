/* Option tables of commands, put together from shared groups and a command's own rows. */
#include "cmd/command.h"

#include <string.h>

static const char the_answer[] = "The answer";

static const struct sp_option vary_options[] = {
    {.name = "vary",
     .type = SP_OPTION_LIST,
     .offset = offsetof(struct command_options, vary),
     .argument = "NAME=V1,V2,...",
     .group = the_answer,
     .help = "repeats the question for each value of an option or a --set path; given twice: the product"},
    {.name = "db",
     .type = SP_OPTION_TEXT,
     .offset = offsetof(struct command_options, db),
     .argument = "FILE",
     .group = the_answer,
     .help = "keeps the rows of --vary in this store as they are done; the same command goes on where it was stopped"},
    {.name = NULL},
};

static const struct sp_option explain_options[] = {
    {.name = "explain",
     .type = SP_OPTION_FLAG,
     .offset = offsetof(struct command_options, explains),
     .group = the_answer,
     .help = "every figure with its formula, inputs and their sources"},
    {.name = NULL},
};

static const struct sp_option store_options[] = {
    {.name = "db",
     .type = SP_OPTION_TEXT,
     .offset = offsetof(struct command_options, db),
     .argument = "FILE",
     .group = the_answer,
     .help = "where runs are stored; default: seqplan/seqplan.db in the user's data folder (XDG_DATA_HOME)"},
    {.name = NULL},
};

static const struct sp_option output_options[] = {
    {.name = "format",
     .type = SP_OPTION_CHOICE,
     .offset = offsetof(struct command_options, format),
     .names = report_format_names,
     .argument = "F",
     .group = the_answer,
     .help = "default table"},
    {.name = "no-color",
     .type = SP_OPTION_FLAG,
     .offset = offsetof(struct command_options, is_colorless),
     .group = the_answer,
     .help = "no colour on a terminal either (as with NO_COLOR set)"},
    {.name = "help",
     .letter = 'h',
     .type = SP_OPTION_FLAG,
     .offset = offsetof(struct command_options, wants_help),
     .group = the_answer,
     .help = "this text"},
    {.name = NULL},
};

static size_t count_options(const struct sp_option *options)
{
    size_t count = 0;
    while (options != NULL && options[count].name != NULL) {
        count++;
    }
    return count;
}

/* A command's own row stands in the place of the shared one with its name; false: there is none of that name. */
static bool put_in_place(struct sp_option *table, size_t n_rows, const struct sp_option *row, bool is_own)
{
    for (size_t i = 0; i < n_rows; i++) {
        if (strcmp(table[i].name, row->name) == 0) {
            table[i] = is_own ? *row : table[i];
            return true;
        }
    }
    return false;
}

const struct sp_option *command_option_table(struct sp_arena *arena, const struct command *command)
{
    const struct sp_option *const parts[] = {
        (command->groups & OPTIONS_QUESTION) != 0 ? question_options : NULL,
        (command->groups & OPTIONS_EXPLAIN) != 0 ? explain_options : NULL,
        (command->groups & OPTIONS_VARY) != 0 ? vary_options : NULL,
        command->extras,
        (command->groups & OPTIONS_STORE) != 0 ? store_options : NULL,
        (command->groups & OPTIONS_OUTPUT) != 0 ? output_options : NULL,
    };
    size_t n_rows = 1;
    for (size_t i = 0; i < SP_COUNT_OF(parts); i++) {
        n_rows += count_options(parts[i]);
    }
    struct sp_option *table = sp_arena_array(arena, n_rows, sizeof(*table));
    size_t at = 0;
    for (size_t i = 0; i < SP_COUNT_OF(parts); i++) {
        size_t count = count_options(parts[i]);
        for (size_t row = 0; row < count; row++) {
            if (!put_in_place(table, at, &parts[i][row], parts[i] == command->extras)) {
                table[at++] = parts[i][row];
            }
        }
    }
    return table; /* the arena zero-fills: the last row has no name */
}

const struct sp_option *command_question_table(struct sp_arena *arena, const struct command *command)
{
    const struct command asking = {.groups = OPTIONS_QUESTION, .extras = command->extras};
    return command_option_table(arena, &asking);
}

const struct sp_option *command_option_find(const struct sp_option *table, const char *name)
{
    for (const struct sp_option *option = table; option->name != NULL; option++) {
        if (strcmp(option->name, name) == 0 || (option->alias != NULL && strcmp(option->alias, name) == 0)) {
            return option;
        }
    }
    return NULL;
}

const char *command_option_nearest(struct sp_arena *arena, const struct sp_option *table, const char *name)
{
    size_t n_options = count_options(table);
    const char **names = sp_arena_array(arena, n_options, sizeof(*names));
    for (size_t i = 0; i < n_options; i++) {
        names[i] = table[i].name;
    }
    return sp_nearest(name, names, n_options);
}

bool command_option_set(const struct sp_option *table, struct command_options *options, const char *name,
                        const char *value, struct sp_error *err)
{
    char *argv[] = {NULL, NULL, NULL, NULL};
    char program[] = "seqplan";
    argv[0] = program;
    argv[1] = sp_format(options->vary.arena, "--%s=%s", name, value);
    return sp_options_parse(table, 2, argv, options, NULL, err) && question_options_finish(options, err);
}

bool command_options_parse(struct command_context *context, int argc, char **argv, struct command_options *options,
                           struct sp_texts *positional, struct sp_error *err)
{
    const struct command *command = command_find(argv[0]);
    *options = (struct command_options){
        .vary = {.arena = context->arena},
        .claims = {.arena = context->arena},
        .simulate = {.slow_gpus = {.arena = context->arena}, .slow_links = {.arena = context->arena}, .gantt_of = -1},
        .validate = {.by = -1, .only = -1},
        .import = {.kind = -1, .operation = -1},
        .launch_for = -1,
        .format = REPORT_TABLE};
    request_init(&options->request, context->arena);
    const struct sp_option *table = command_option_table(context->arena, command);
    if (!sp_options_parse(table, argc, argv, options, positional, err) || !question_options_finish(options, err)) {
        return false;
    }
    if (options->wants_help) {
        command_help(context, command);
    }
    return true;
}

struct report_style command_style(const struct command_context *context, const struct command_options *options)
{
    return (struct report_style){
        .file = context->out,
        .format = (enum report_format)options->format,
        .has_color = context->is_terminal && !options->is_colorless,
        .explains = options->explains,
        .version = context->version,
    };
}
