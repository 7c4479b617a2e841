/* diff A B: two layouts, item by item. */
#include "cmd/command.h"

#include <string.h>

/* "--tp 8 --sp 8" in one argument of its own is a layout, not an option: a space stands before any '=', or a second
 * option follows. */
static bool is_quoted_options(const char *argument)
{
    bool is_option = strncmp(argument, "--", 2) == 0;
    size_t name = strcspn(argument, "= ");
    return is_option && (argument[name] == ' ' || strstr(argument, " --") != NULL);
}

/* With a space before it the parser takes such an argument for what it is. */
static char **protect_quoted(struct sp_arena *arena, int argc, char **argv)
{
    char **own = sp_arena_array(arena, (size_t)argc + 1, sizeof(*own));
    for (int i = 0; i < argc; i++) {
        own[i] = is_quoted_options(argv[i]) ? sp_format(arena, " %s", argv[i]) : argv[i];
    }
    return own;
}

static const char *without_spaces(const char *text)
{
    return text + strspn(text, " \t\n");
}

static bool is_options(const char *text)
{
    return text[0] == '\0' || strncmp(text, "--", 2) == 0;
}

/* Words are set apart by spaces, as in a shell without quotes. */
static bool read_options(struct sp_arena *arena, const char *text, struct command_options *options,
                         struct sp_error *err)
{
    size_t length = strlen(text);
    char **words = sp_arena_array(arena, length + 2, sizeof(*words));
    char program[] = "diff";
    int n_words = 0;
    words[n_words++] = program;
    while (*text != '\0') {
        size_t word = strcspn(text, " \t\n");
        words[n_words++] = sp_strndup(arena, text, word);
        text = without_spaces(text + word);
    }
    return sp_options_parse(question_options, n_words, words, options, NULL, err) &&
           question_options_finish(options, err);
}

struct side {
    char name; /* 'A' or 'B' */
    const char *text;
    const struct sp_json *answer;
    bool fits;
    bool is_attention_only;
};

static bool price_side(struct command_context *context, const struct command_options *shared, struct side *side,
                       struct sp_error *err)
{
    struct sp_arena *arena = context->arena;
    struct command_options options = *shared; /* its lists end where the shared ones do */
    side->text = without_spaces(side->text);
    if (!is_options(side->text)) {
        options.request.layout_file = side->text;
    } else if (!read_options(arena, side->text, &options, err)) {
        return false;
    }
    struct priced *priced = sp_arena_alloc(arena, sizeof(*priced));
    if (!request_is_complete(arena, &options.request, question_example, err) ||
        !price_request(&options.request, arena, priced, err)) {
        return false;
    }
    const struct answer answer = {
        .question = &priced->question, .estimate = &priced->estimate, .data_hash = priced->data_hash};
    const struct report_style style = command_style(context, shared);
    side->answer = report_answer_tree(&style, arena, &answer);
    side->fits = priced->estimate.fits;
    side->is_attention_only = priced->question.run.is_attention_only;
    return true;
}

static bool check_words(const struct command_options *options, const struct sp_texts *words, struct sp_error *err)
{
    if (words->count != 2) {
        return sp_fail(err, SP_ERROR_USAGE,
                       "diff takes two layouts, found %zu: files, or quoted options as in seqplan diff \"--tp 8 --sp "
                       "8\" \"--tp 4 --sp 16\" ...",
                       words->count);
    }
    int n_inputs = options->request.layout_file != NULL && strcmp(options->request.layout_file, "-") == 0 ? 2 : 0;
    for (size_t i = 0; i < words->count; i++) {
        n_inputs += strcmp(words->items[i], "-") == 0 ? 1 : 0;
    }
    return n_inputs < 2 || sp_fail(err, SP_ERROR_USAGE, "diff: standard input can be read once: give the other a file");
}

bool cmd_diff(struct command_context *context, int argc, char **argv, struct sp_error *err)
{
    struct command_options options;
    struct sp_texts words = {.arena = context->arena};
    char **own = protect_quoted(context->arena, argc, argv);
    if (!command_options_parse(context, argc, own, &options, &words, err)) {
        return false;
    }
    if (options.wants_help) {
        return true;
    }
    if (!check_words(&options, &words, err)) {
        return false;
    }
    struct side sides[] = {{.name = 'A', .text = words.items[0]}, {.name = 'B', .text = words.items[1]}};
    for (size_t i = 0; i < SP_COUNT_OF(sides); i++) {
        if (!price_side(context, &options, &sides[i], err)) {
            sp_error_prefix(err, "%c", sides[i].name);
            return false;
        }
    }
    if (sides[0].is_attention_only != sides[1].is_attention_only) {
        return sp_fail(
            err, SP_ERROR_USAGE,
            "diff: one is a whole step, the other the attention of one layer: give both --only attention, or "
            "neither");
    }
    const struct report_diff diff = {
        .name_a = sides[0].text, .name_b = sides[1].text, .a = sides[0].answer, .b = sides[1].answer};
    const struct report_style style = command_style(context, &options);
    report_diff(&style, context->arena, &diff);
    context->status = sides[0].fits || sides[1].fits ? 0 : 1;
    return true;
}
