#include "base/base.h"

#include <assert.h>
#include <getopt.h>
#include <string.h>

/* What getopt_long returns for row i of the table: FIRST_CODE + 2 i, one more for its "--no-" form. Above any letter,
 * and above the 1 that stands for a positional argument. */
enum { FIRST_CODE = 1000, NAMES_PER_ROW = 4 };

/* A line of help is at most WIDTH columns; the text starts at most at column TEXT_AT. */
enum { HELP_WIDTH = 100, HELP_TEXT_AT = 34, HELP_TEXT_MIN = 8, HELP_GAP = 2, LEFT_LENGTH = 128 };

static const int64_t DEFAULT_MAX = INT64_C(1) << 40;

struct parser {
    const struct sp_option *options;
    struct sp_arena *arena; /* for this call only */
    int argc;
    char **argv;
    struct option *longs;
    size_t n_longs;
    char *letters;
    char *object;
    struct sp_texts *positional;
    struct sp_error *err;
};

static size_t count_options(const struct sp_option *options)
{
    size_t count = 0;
    while (options[count].name != NULL) {
        count++;
    }
    return count;
}

static size_t count_names(const char *const *names)
{
    size_t count = 0;
    while (names[count] != NULL) {
        count++;
    }
    return count;
}

static bool starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

static void add_long(struct parser *parser, size_t row, const char *name)
{
    bool is_flag = parser->options[row].type == SP_OPTION_FLAG;
    int code = FIRST_CODE + 2 * (int)row;
    parser->longs[parser->n_longs++] =
        (struct option){.name = name, .has_arg = is_flag ? no_argument : required_argument, .val = code};
    if (is_flag && !starts_with(name, "no-")) {
        const char *cleared = sp_format(parser->arena, "no-%s", name);
        parser->longs[parser->n_longs++] = (struct option){.name = cleared, .has_arg = no_argument, .val = code + 1};
    }
}

static void build_tables(struct parser *parser)
{
    size_t n_options = count_options(parser->options);
    parser->longs = sp_arena_array(parser->arena, n_options * NAMES_PER_ROW + 1, sizeof(*parser->longs));
    /* "-": positional arguments come in their place as code 1, and argv stays in order; ":": we print the errors. */
    parser->letters = sp_arena_alloc(parser->arena, 2 * n_options + 3);
    char *letter = parser->letters;
    *letter++ = '-';
    *letter++ = ':';
    for (size_t row = 0; row < n_options; row++) {
        const struct sp_option *option = &parser->options[row];
        add_long(parser, row, option->name);
        if (option->alias != NULL) {
            add_long(parser, row, option->alias);
        }
        if (option->letter != 0) {
            *letter++ = option->letter;
            if (option->type != SP_OPTION_FLAG) {
                *letter++ = ':';
            }
        }
    }
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */

static const char *nearest_long(const struct parser *parser, const char *name)
{
    const char **names = sp_arena_array(parser->arena, parser->n_longs, sizeof(*names));
    for (size_t i = 0; i < parser->n_longs; i++) {
        names[i] = parser->longs[i].name;
    }
    return sp_nearest(name, names, parser->n_longs);
}

/* The row of getopt's table with exactly this name; getopt itself takes unique beginnings too. */
static const struct option *find_long(const struct parser *parser, const char *name)
{
    for (size_t i = 0; i < parser->n_longs; i++) {
        if (strcmp(parser->longs[i].name, name) == 0) {
            return &parser->longs[i];
        }
    }
    return NULL;
}

static bool refuse_unknown(const struct parser *parser, const char *name)
{
    const char *nearest = nearest_long(parser, name);
    const char *hint = nearest == NULL ? "" : sp_format(parser->arena, " (did you mean \"--%s\"?)", nearest);
    return sp_fail(parser->err, SP_ERROR_USAGE, "unknown option \"--%s\"%s", name, hint);
}

static bool refuse_letter(const struct parser *parser, const char *argument)
{
    const char *name = sp_strndup(parser->arena, argument + 1, strcspn(argument + 1, "="));
    if (find_long(parser, name) != NULL) {
        return sp_fail(parser->err, SP_ERROR_USAGE, "unknown option \"%s\" (did you mean \"--%s\"?)", argument, name);
    }
    return sp_fail(parser->err, SP_ERROR_USAGE, "unknown option \"-%c\" in \"%s\"", optopt, argument);
}

/* "--NAME" and "--NAME=VALUE": the name as typed. */
static const char *typed_name(const struct parser *parser, const char *argument)
{
    return sp_strndup(parser->arena, argument + 2, strcspn(argument + 2, "="));
}

static bool is_long(const char *argument)
{
    return starts_with(argument, "--") && argument[2] != '\0';
}

/* getopt_long said '?' or ':' about `argument`. */
static bool refuse_argument(const struct parser *parser, int code, const char *argument)
{
    if (!is_long(argument)) {
        return code == '?' ? refuse_letter(parser, argument)
                           : sp_fail(parser->err, SP_ERROR_USAGE, "option \"-%c\" needs a value", optopt);
    }
    const char *name = typed_name(parser, argument);
    const struct option *found = find_long(parser, name);
    if (found == NULL) {
        return refuse_unknown(parser, name);
    }
    if (found->has_arg == no_argument) {
        return sp_fail(parser->err, SP_ERROR_USAGE, "option \"--%s\" takes no value, found \"%s\"", name,
                       strchr(argument, '=') + 1);
    }
    const char *wanted = parser->options[(found->val - FIRST_CODE) / 2].argument;
    return sp_fail(parser->err, SP_ERROR_USAGE, "option \"--%s\" needs a value%s%s", name, wanted == NULL ? "" : ": ",
                   wanted == NULL ? "" : wanted);
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

/* Appends without looking for duplicates. No list is longer than argv, so room for all of it is made at once. */
static void append(const struct parser *parser, struct sp_texts *texts, const char *text)
{
    assert(texts->arena != NULL); /* whoever owns the list gives it its arena */
    if (texts->count == texts->capacity) {
        size_t capacity = texts->count + (size_t)parser->argc;
        const char **items = sp_arena_array(texts->arena, capacity, sizeof(*items));
        if (texts->count > 0) {
            memcpy(items, texts->items, texts->count * sizeof(*items));
        }
        texts->items = items;
        texts->capacity = capacity;
    }
    texts->items[texts->count++] = text;
}

static bool set_count(const struct parser *parser, const struct sp_option *option, const char *text)
{
    enum sp_dimension dimension = option->type == SP_OPTION_TOKENS ? SP_TOKENS : SP_COUNT;
    double value = 0.0;
    if (!sp_quantity_parse(text, dimension, &value, parser->err)) {
        return false;
    }
    int64_t min = option->min == 0 ? 1 : option->min;
    int64_t max = option->max == 0 ? DEFAULT_MAX : option->max;
    int64_t count = (int64_t)value;
    if (count < min || count > max) {
        return sp_fail(parser->err, SP_ERROR_USAGE, "expected %lld to %lld, found %s", (long long)min, (long long)max,
                       text);
    }
    *(struct sp_option_count *)(void *)(parser->object + option->offset) =
        (struct sp_option_count){.is_given = true, .value = count};
    return true;
}

static bool set_choice(const struct parser *parser, const struct sp_option *option, const char *text)
{
    int index = sp_index_of(text, option->names);
    if (index < 0) {
        size_t n_names = count_names(option->names);
        const char *nearest = sp_nearest(text, option->names, n_names);
        const char *hint = nearest == NULL ? "" : sp_format(parser->arena, " (did you mean \"%s\"?)", nearest);
        return sp_fail(parser->err, SP_ERROR_USAGE, "expected one of %s, found \"%s\"%s",
                       sp_join(parser->arena, option->names, n_names, ", "), text, hint);
    }
    *(int *)(void *)(parser->object + option->offset) = index;
    return true;
}

static bool set_value(const struct parser *parser, const struct sp_option *option, bool is_cleared, const char *text)
{
    void *target = parser->object + option->offset;
    switch (option->type) {
    case SP_OPTION_FLAG:
        *(bool *)target = !is_cleared;
        return true;
    case SP_OPTION_TEXT:
        *(const char **)target = text;
        return true;
    case SP_OPTION_COUNT:
    case SP_OPTION_TOKENS:
        return set_count(parser, option, text);
    case SP_OPTION_CHOICE:
        return set_choice(parser, option, text);
    case SP_OPTION_LIST:
        append(parser, target, text);
        return true;
    default:
        assert(false);
        return false;
    }
}

static const struct sp_option *option_of_letter(const struct parser *parser, int letter)
{
    const struct sp_option *option = parser->options;
    while (option->name != NULL && option->letter != letter) {
        option++;
    }
    assert(option->name != NULL); /* getopt returns only letters that we gave it */
    return option;
}

/* The option as the user wrote it, for errors about its value. */
static const char *written_name(const struct parser *parser, int code, const char *argument)
{
    return code < FIRST_CODE ? sp_format(parser->arena, "-%c", code)
                             : sp_format(parser->arena, "--%s", typed_name(parser, argument));
}

static bool take_positional(const struct parser *parser, const char *argument)
{
    if (parser->positional == NULL) {
        return sp_fail(parser->err, SP_ERROR_USAGE, "unexpected argument \"%s\" (options start with \"--\")", argument);
    }
    append(parser, parser->positional, argument);
    return true;
}

/* One answer of getopt_long; `argument` is the element of argv that it was looking at. */
static bool take(const struct parser *parser, int code, const char *argument)
{
    if (code == 1) {
        return take_positional(parser, optarg);
    }
    if (code == '?' || code == ':') {
        return refuse_argument(parser, code, argument);
    }
    /* Abbreviations would change their meaning with the next option that is added. */
    if (code >= FIRST_CODE && find_long(parser, typed_name(parser, argument)) == NULL) {
        return refuse_unknown(parser, typed_name(parser, argument));
    }
    const struct sp_option *option =
        code >= FIRST_CODE ? &parser->options[(code - FIRST_CODE) / 2] : option_of_letter(parser, code);
    bool is_cleared = code >= FIRST_CODE && (code - FIRST_CODE) % 2 == 1;
    if (!set_value(parser, option, is_cleared, optarg)) {
        sp_error_prefix(parser->err, "%s", written_name(parser, code, argument));
        return false;
    }
    return true;
}

static bool parse_all(const struct parser *parser)
{
    /* 0 makes glibc and musl start anew, also in the middle of the letters that an earlier error left behind. */
    optind = 0;
    opterr = 0;
    for (;;) {
        int at = optind == 0 ? 1 : optind;
        const char *argument = at < parser->argc ? parser->argv[at] : "";
        int code = getopt_long(parser->argc, parser->argv, parser->letters, parser->longs, NULL);
        if (code == -1) {
            break;
        }
        if (!take(parser, code, argument)) {
            return false;
        }
    }
    for (int i = optind; i < parser->argc; i++) { /* what follows "--" */
        if (!take_positional(parser, parser->argv[i])) {
            return false;
        }
    }
    return true;
}

bool sp_options_parse(const struct sp_option *options, int argc, char **argv, void *object, struct sp_texts *positional,
                      struct sp_error *err)
{
    struct parser parser = {
        .options = options,
        .arena = sp_arena_open(),
        .argc = argc,
        .argv = argv,
        .object = object,
        .positional = positional,
        .err = err,
    };
    build_tables(&parser);
    bool is_good = parse_all(&parser);
    sp_arena_close(parser.arena);
    return is_good;
}

/* ---- what is given ---------------------------------------------------------------------------------------------- */

static void add_given(const struct sp_option *option, const char *object, struct sp_texts *texts)
{
    const void *at = object + option->offset;
    switch (option->type) {
    case SP_OPTION_FLAG:
        if (*(const bool *)at) {
            sp_texts_add(texts, "--%s", option->name);
        }
        break;
    case SP_OPTION_TEXT:
        if (*(const char *const *)at != NULL) {
            sp_texts_add(texts, "--%s %s", option->name, *(const char *const *)at);
        }
        break;
    case SP_OPTION_COUNT:
    case SP_OPTION_TOKENS: {
        const struct sp_option_count *count = at;
        if (count->is_given) {
            sp_texts_add(texts, "--%s %lld", option->name, (long long)count->value);
        }
        break;
    }
    case SP_OPTION_CHOICE:
        if (*(const int *)at >= 0) {
            sp_texts_add(texts, "--%s %s", option->name, option->names[*(const int *)at]);
        }
        break;
    case SP_OPTION_LIST: {
        const struct sp_texts *list = at;
        for (size_t i = 0; i < list->count; i++) {
            sp_texts_add(texts, "--%s %zu %s", option->name, i, list->items[i]); /* numbered: texts keep no doubles */
        }
        break;
    }
    }
}

char *sp_options_text(const struct sp_option *options, const void *object, const char *const *except,
                      struct sp_arena *arena)
{
    struct sp_texts texts = {.arena = arena};
    for (const struct sp_option *option = options; option->name != NULL; option++) {
        if (sp_index_of(option->name, except) < 0) {
            add_given(option, object, &texts);
        }
    }
    return sp_join(arena, texts.items, texts.count, "\n");
}

/* ---- help -------------------------------------------------------------------------------------------------------- */

/* "  -m, --model NAME|PATH" */
static void format_left(char left[LEFT_LENGTH], const struct sp_option *option)
{
    char letter[8] = "    ";
    if (option->letter != 0) {
        (void)snprintf(letter, sizeof(letter), "-%c, ", option->letter);
    }
    const char *argument = option->argument == NULL || option->type == SP_OPTION_FLAG ? "" : option->argument;
    int length =
        snprintf(left, LEFT_LENGTH, "  %s--%s%s%s%s%s", letter, option->name, option->alias == NULL ? "" : ", --",
                 option->alias == NULL ? "" : option->alias, argument[0] == '\0' ? "" : " ", argument);
    assert(length > 0 && length < LEFT_LENGTH);
}

/* Where the texts start: after the longest left side that is not overlong. */
static int text_column(const struct sp_option *options)
{
    int column = HELP_TEXT_MIN;
    for (const struct sp_option *option = options; option->name != NULL; option++) {
        char left[LEFT_LENGTH];
        format_left(left, option);
        int wanted = (int)strlen(left) + HELP_GAP;
        if (!option->is_hidden && wanted <= HELP_TEXT_AT && wanted > column) {
            column = wanted;
        }
    }
    return column;
}

/* Words from `at` on; *column is where the line stands. */
static void print_wrapped(FILE *file, const char *words, int indent, int *column)
{
    while (*words != '\0') {
        int length = (int)strcspn(words, " ");
        bool is_first_on_line = *column <= indent;
        if (!is_first_on_line && *column + 1 + length > HELP_WIDTH) {
            (void)fprintf(file, "\n%*s", indent, "");
            *column = indent;
            is_first_on_line = true;
        }
        (void)fprintf(file, "%s%.*s", is_first_on_line ? "" : " ", length, words);
        *column += length + (is_first_on_line ? 0 : 1);
        words += length;
        words += strspn(words, " ");
    }
}

static void print_choices(FILE *file, const char *const *names, int indent, int *column)
{
    for (size_t i = 0; names[i] != NULL; i++) {
        char word[LEFT_LENGTH];
        const char *start = i == 0 ? "(one of " : "";
        (void)snprintf(word, sizeof(word), "%s%s%s", start, names[i], names[i + 1] == NULL ? ")" : ",");
        print_wrapped(file, word, indent, column);
    }
}

static void print_option(FILE *file, const struct sp_option *option, int indent)
{
    char left[LEFT_LENGTH];
    format_left(left, option);
    int column = (int)strlen(left);
    (void)fputs(left, file);
    if (column + HELP_GAP > indent) {
        (void)fputs("\n", file);
        column = 0;
    }
    (void)fprintf(file, "%*s", indent - column, "");
    column = indent;
    print_wrapped(file, option->help == NULL ? "" : option->help, indent, &column);
    if (option->type == SP_OPTION_CHOICE) {
        print_choices(file, option->names, indent, &column);
    }
    (void)fputs("\n", file);
}

static const char *group_of(const struct sp_option *option)
{
    return option->group == NULL ? "Options" : option->group;
}

static bool is_first_of_group(const struct sp_option *options, const struct sp_option *option)
{
    for (const struct sp_option *before = options; before < option; before++) {
        if (strcmp(group_of(before), group_of(option)) == 0) {
            return false;
        }
    }
    return true;
}

void sp_options_help(const struct sp_option *options, FILE *file)
{
    int indent = text_column(options);
    for (const struct sp_option *first = options; first->name != NULL; first++) {
        if (!is_first_of_group(options, first)) {
            continue;
        }
        (void)fprintf(file, "%s%s:\n", first == options ? "" : "\n", group_of(first));
        for (const struct sp_option *option = first; option->name != NULL; option++) {
            if (!option->is_hidden && strcmp(group_of(option), group_of(first)) == 0) {
                print_option(file, option, indent);
            }
        }
    }
}
