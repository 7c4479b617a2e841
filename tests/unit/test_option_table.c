#include "support/support.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const method_names[] = {"none", "ulysses", "ring", "zigzag", NULL};

struct request {
    const char *model;
    struct sp_option_count gpus;
    struct sp_option_count sp;
    struct sp_option_count seq;
    int method;
    bool is_explained;
    bool has_tp_sp;
    bool is_colourless;
    struct sp_texts sets;
};

#define AT(member) .offset = offsetof(struct request, member)

static const struct sp_option options[] = {
    {.name = "model",
     .letter = 'm',
     .type = SP_OPTION_TEXT,
     AT(model),
     .argument = "NAME|PATH",
     .help = "a name in models/, or any Hugging Face config.json as it stands",
     .group = "Question"},
    {.name = "gpus",
     .type = SP_OPTION_COUNT,
     AT(gpus),
     .max = 65536,
     .argument = "N",
     .help = "cluster size",
     .group = "Question"},
    {.name = "seq",
     .letter = 's',
     .type = SP_OPTION_TOKENS,
     AT(seq),
     .argument = "LEN",
     .help = "tokens in one sequence; 128K = 131072, 1M = 1048576, plain integers exact; no default",
     .group = "Question"},
    {.name = "sp",
     .alias = "cp",
     .type = SP_OPTION_COUNT,
     AT(sp),
     .argument = "N",
     .help = "sequence-parallel degree (1)",
     .group = "Layout"},
    {.name = "sp-method",
     .type = SP_OPTION_CHOICE,
     AT(method),
     .names = method_names,
     .argument = "M",
     .help = "how attention crosses the ranks",
     .group = "Layout"},
    {.name = "explain",
     .letter = 'x',
     .type = SP_OPTION_FLAG,
     AT(is_explained),
     .help = "every figure with its formula"},
    {.name = "tp-sp",
     .alias = "sequence-parallel",
     .type = SP_OPTION_FLAG,
     AT(has_tp_sp),
     .group = "Layout",
     .help = "Megatron's sequence parallelism inside the TP group"},
    {.name = "no-color", .type = SP_OPTION_FLAG, AT(is_colourless), .help = "plain text"},
    {.name = "set",
     .type = SP_OPTION_LIST,
     AT(sets),
     .argument = "PATH=VALUE",
     .help = "overrides any field of any input",
     .group = "Question"},
    {.name = NULL},
};

enum { MAX_ARGS = 24 };

/* One call: the words of `line`, split at single spaces ("''" stands for an empty one). */
struct call {
    struct sp_arena *arena;
    struct request request;
    struct sp_texts positional;
    struct sp_error err;
    char *argv[MAX_ARGS + 1];
    int argc;
};

static void open_call(struct call *call, const char *line)
{
    *call = (struct call){.arena = sp_arena_open()};
    call->request.method = -1;
    call->request.sets.arena = call->arena;
    call->positional.arena = call->arena;
    call->argv[call->argc++] = sp_strdup(call->arena, "seqplan");
    while (*line != '\0') {
        size_t length = strcspn(line, " ");
        assert_true(call->argc < MAX_ARGS);
        char *word = sp_strndup(call->arena, line, length);
        call->argv[call->argc++] = strcmp(word, "''") == 0 ? sp_strdup(call->arena, "") : word;
        line += length + (line[length] == ' ' ? 1 : 0);
    }
}

static void parse(struct call *call, const char *line)
{
    open_call(call, line);
    if (!sp_options_parse(options, call->argc, call->argv, &call->request, &call->positional, &call->err)) {
        fail_msg("%s: %s", line, call->err.text);
    }
}

static void close_call(struct call *call)
{
    sp_arena_close(call->arena);
}

static void every_type_is_set(void **state)
{
    (void)state;
    struct call call;
    parse(&call, "--model llama-3.1-70b --gpus 512 --seq 1M --sp 8 --sp-method zigzag --explain --tp-sp --no-color "
                 "--set gpu.memory=192GB");
    assert_string_equal(call.request.model, "llama-3.1-70b");
    assert_true(call.request.gpus.is_given);
    assert_int_equal(call.request.gpus.value, 512);
    assert_true(call.request.seq.is_given);
    assert_int_equal(call.request.seq.value, 1048576);
    assert_int_equal(call.request.sp.value, 8);
    assert_int_equal(call.request.method, 3);
    assert_true(call.request.is_explained);
    assert_true(call.request.has_tp_sp);
    assert_true(call.request.is_colourless);
    assert_int_equal(call.request.sets.count, 1);
    assert_string_equal(call.request.sets.items[0], "gpu.memory=192GB");
    assert_int_equal(call.positional.count, 0);
    close_call(&call);
}

static void nothing_given_sets_nothing(void **state)
{
    (void)state;
    struct call call;
    parse(&call, "");
    assert_null(call.request.model);
    assert_false(call.request.gpus.is_given);
    assert_int_equal(call.request.method, -1);
    assert_int_equal(call.request.sets.count, 0);
    close_call(&call);
}

static void values_may_follow_an_equals_sign(void **state)
{
    (void)state;
    struct call call;
    parse(&call, "--seq=128K --model=a=b --set=run.loss=plain --set= --sp-method=ring");
    assert_int_equal(call.request.seq.value, 131072);
    assert_string_equal(call.request.model, "a=b");
    assert_int_equal(call.request.sets.count, 2);
    assert_string_equal(call.request.sets.items[0], "run.loss=plain");
    assert_string_equal(call.request.sets.items[1], "");
    assert_int_equal(call.request.method, 2);
    close_call(&call);
}

static void what_is_given_has_one_text_however_it_was_typed(void **state)
{
    (void)state;
    static const char *const except[] = {"no-color", NULL};
    static const char *const lines[] = {
        "--model qwen3-8b --seq 393217 --cp 6 --sp-method ring -x --set a=1 --set b=2 --set a=1",
        "-m x --sp=40 --set=a=1 -s 384K --set b=2 --explain --no-color -s393217 --set a=1 --sp-method ring "
        "--cp 6 --model qwen3-8b",
    };
    for (size_t i = 0; i < SP_COUNT_OF(lines); i++) {
        struct call call;
        parse(&call, lines[i]);
        assert_string_equal(sp_options_text(options, &call.request, except, call.arena),
                            "--model qwen3-8b\n--seq 393217\n--sp 6\n--sp-method ring\n--explain\n--set 0 a=1\n"
                            "--set 1 b=2\n--set 2 a=1");
        close_call(&call);
    }
}

static void nothing_given_has_no_text(void **state)
{
    (void)state;
    static const char *const except[] = {NULL};
    struct call call;
    parse(&call, "");
    assert_string_equal(sp_options_text(options, &call.request, except, call.arena), "");
    close_call(&call);
}

static void letters_work_alone_and_together(void **state)
{
    (void)state;
    static const char *const lines[] = {"-x -m qwen3-8b -s 4K", "-xmqwen3-8b -s4K", "-s 4K -xm qwen3-8b"};
    for (size_t i = 0; i < SP_COUNT_OF(lines); i++) {
        struct call call;
        parse(&call, lines[i]);
        assert_true(call.request.is_explained);
        assert_string_equal(call.request.model, "qwen3-8b");
        assert_int_equal(call.request.seq.value, 4096);
        close_call(&call);
    }
}

static void the_last_value_wins(void **state)
{
    (void)state;
    struct call call;
    parse(&call, "--gpus 8 --sp 2 --cp 16 --gpus 64 --sp-method ring --sp-method none --model a -m b");
    assert_int_equal(call.request.gpus.value, 64);
    assert_int_equal(call.request.sp.value, 16);
    assert_int_equal(call.request.method, 0);
    assert_string_equal(call.request.model, "b");
    close_call(&call);
}

static void flags_are_cleared_with_no(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        bool expected;
    } rows[] = {{"--tp-sp", true},
                {"--no-tp-sp", false},
                {"--tp-sp --no-tp-sp", false},
                {"--no-tp-sp --tp-sp", true},
                {"--sequence-parallel", true},
                {"--tp-sp --no-sequence-parallel", false}};
    for (size_t i = 0; i < SP_COUNT_OF(rows); i++) {
        struct call call;
        parse(&call, rows[i].line);
        assert_int_equal(call.request.has_tp_sp, rows[i].expected);
        close_call(&call);
    }
}

static void lists_keep_order_and_duplicates(void **state)
{
    (void)state;
    struct call call;
    parse(&call, "--set a=1 --set b=2 --gpus 8 --set a=1 --set a=3");
    static const char *const expected[] = {"a=1", "b=2", "a=1", "a=3"};
    assert_int_equal(call.request.sets.count, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(call.request.sets.items[i], expected[i]);
    }
    close_call(&call);
}

static void positional_arguments_keep_their_order(void **state)
{
    (void)state;
    struct call call;
    parse(&call, "a.json --gpus 8 b.json - -x c.json -- --gpus -x d.json");
    static const char *const expected[] = {"a.json", "b.json", "-", "c.json", "--gpus", "-x", "d.json"};
    assert_int_equal(call.positional.count, SP_COUNT_OF(expected));
    for (size_t i = 0; i < SP_COUNT_OF(expected); i++) {
        assert_string_equal(call.positional.items[i], expected[i]);
    }
    assert_int_equal(call.request.gpus.value, 8);
    assert_string_equal(call.argv[1], "a.json"); /* argv is not reordered */
    close_call(&call);
}

static void counts_may_be_at_their_bounds(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        int64_t gpus;
        int64_t seq;
    } rows[] = {{"--gpus 1 --seq 1", 1, 1}, {"--gpus 65536 --seq 1024G", 65536, INT64_C(1) << 40}};
    for (size_t i = 0; i < SP_COUNT_OF(rows); i++) {
        struct call call;
        parse(&call, rows[i].line);
        assert_int_equal(call.request.gpus.value, rows[i].gpus);
        assert_int_equal(call.request.seq.value, rows[i].seq);
        close_call(&call);
    }
}

static void lists_may_hold_something_before(void **state)
{
    (void)state;
    struct call call;
    open_call(&call, "--set new=1 --set new=2");
    for (int i = 0; i < 8; i++) { /* as many as there is room for */
        sp_texts_add(&call.request.sets, "from a file, line %d", i);
    }
    assert_true(sp_options_parse(options, call.argc, call.argv, &call.request, &call.positional, &call.err));
    assert_int_equal(call.request.sets.count, 10);
    assert_string_equal(call.request.sets.items[0], "from a file, line 0");
    assert_string_equal(call.request.sets.items[7], "from a file, line 7");
    assert_string_equal(call.request.sets.items[9], "new=2");
    close_call(&call);
}

static const struct {
    const char *line;
    const char *expected;
} bad_lines[] = {
    /* unknown */
    {"--sq 8K", "unknown option \"--sq\" (did you mean \"--seq\"?)"},
    {"--sp-mehtod=ring", "unknown option \"--sp-mehtod\" (did you mean \"--sp-method\"?)"},
    {"--no-explian", "unknown option \"--no-explian\" (did you mean \"--no-explain\"?)"},
    {"--frobnicate", "unknown option \"--frobnicate\""},
    {"--no-gpus", "unknown option \"--no-gpus\""}, /* not a flag */
    {"--no-no-color", "unknown option \"--no-no-color\""},
    {"-q", "unknown option \"-q\" in \"-q\""},
    {"-xq", "unknown option \"-q\" in \"-xq\""},
    {"-gpus 8", "unknown option \"-gpus\" (did you mean \"--gpus\"?)"},
    {"-gpus=8", "unknown option \"-gpus=8\" (did you mean \"--gpus\"?)"},
    /* abbreviations, which getopt_long would take */
    {"--mod llama", "unknown option \"--mod\""},
    {"--mode llama", "unknown option \"--mode\" (did you mean \"--model\"?)"},
    {"--expl", "unknown option \"--expl\""},
    {"--sp-m=ring", "unknown option \"--sp-m\""},
    {"--gpu", "unknown option \"--gpu\" (did you mean \"--gpus\"?)"}, /* and its value is missing */
    {"--gpu 8", "unknown option \"--gpu\" (did you mean \"--gpus\"?)"},
    {"--s 8", "unknown option \"--s\""}, /* ambiguous for getopt */
    {"--=8", "unknown option \"--\""},
    /* missing and unwanted values */
    {"--seq", "option \"--seq\" needs a value: LEN"},
    {"--gpus 8 --model", "option \"--model\" needs a value: NAME|PATH"},
    {"-m", "option \"-m\" needs a value"},
    {"--explain=yes", "option \"--explain\" takes no value, found \"yes\""},
    {"--no-tp-sp=", "option \"--no-tp-sp\" takes no value, found \"\""},
    /* numbers */
    {"--gpus eight", "--gpus: expected a whole number such as \"132\", found \"eight\""},
    {"--gpus 8.5", "--gpus: expected a whole number such as \"132\", found \"8.5\" (not a whole number)"},
    {"--gpus=-8", "--gpus: expected a whole number such as \"132\", found \"-8\" (must not be negative)"},
    {"--gpus 0", "--gpus: expected 1 to 65536, found 0"},
    {"--gpus 65537", "--gpus: expected 1 to 65536, found 65537"},
    {"--gpus 8K", "--gpus: expected a whole number"},
    {"--gpus --seq 8K", "--gpus: expected a whole number such as \"132\", found \"--seq\""},
    {"--seq ''", "--seq: expected a number of tokens such as \"128K\", found an empty text"},
    {"--seq=", "--seq: expected a number of tokens such as \"128K\", found an empty text"},
    {"--seq 128k", "--seq: expected a number of tokens such as \"128K\", found \"128k\" (unknown unit"},
    {"--seq 1025G", "--seq: expected 1 to 1099511627776, found 1025G"},
    {"--cp 0", "--cp: expected 1 to 1099511627776, found 0"},
    {"-s nan", "-s: expected a number of tokens"},
    /* choices */
    {"--sp-method zigzg",
     "--sp-method: expected one of none, ulysses, ring, zigzag, found \"zigzg\" (did you mean \"zigzag\"?)"},
    {"--sp-method Ring", "found \"Ring\" (did you mean \"ring\"?)"},
    {"--sp-method attention", "--sp-method: expected one of none, ulysses, ring, zigzag, found \"attention\""},
};

static void bad_lines_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < SP_COUNT_OF(bad_lines); i++) {
        struct call call;
        open_call(&call, bad_lines[i].line);
        if (sp_options_parse(options, call.argc, call.argv, &call.request, &call.positional, &call.err)) {
            fail_msg("taken: %s", bad_lines[i].line);
        }
        assert_int_equal(call.err.kind, SP_ERROR_USAGE);
        assert_error_contains(&call.err, bad_lines[i].expected);
        close_call(&call);
    }
}

static void suggestions_are_left_out_where_nothing_is_near(void **state)
{
    (void)state;
    static const char *const lines[] = {"--frobnicate", "--sp-method attention", "--mod x", "-q"};
    for (size_t i = 0; i < SP_COUNT_OF(lines); i++) {
        struct call call;
        open_call(&call, lines[i]);
        assert_false(sp_options_parse(options, call.argc, call.argv, &call.request, NULL, &call.err));
        assert_null(strstr(call.err.text, "did you mean"));
        close_call(&call);
    }
}

static void positional_arguments_need_a_place(void **state)
{
    (void)state;
    static const char *const lines[] = {"--gpus 8 stray.json", "stray.json --gpus 8", "-- stray.json"};
    for (size_t i = 0; i < SP_COUNT_OF(lines); i++) {
        struct call call;
        open_call(&call, lines[i]);
        assert_false(sp_options_parse(options, call.argc, call.argv, &call.request, NULL, &call.err));
        assert_int_equal(call.err.kind, SP_ERROR_USAGE);
        assert_error_contains(&call.err, "unexpected argument \"stray.json\"");
        close_call(&call);
    }
}

/* getopt keeps its place in globals, also in the middle of letters that stand together. */
static void calls_do_not_disturb_each_other(void **state)
{
    (void)state;
    static const char *const bad[] = {"-xqx", "--gpus 8 -qx", "--seq", "--sq 1 -x"};
    for (size_t i = 0; i < SP_COUNT_OF(bad); i++) {
        struct call first;
        open_call(&first, bad[i]);
        assert_false(sp_options_parse(options, first.argc, first.argv, &first.request, &first.positional, &first.err));
        struct call second;
        parse(&second, "-m second --gpus 4 rest");
        assert_string_equal(second.request.model, "second");
        assert_int_equal(second.request.gpus.value, 4);
        assert_int_equal(second.positional.count, 1);
        assert_false(second.request.is_explained);
        close_call(&first);
        close_call(&second);
    }
}

static void parse_in_child(void *data)
{
    struct call *call = data;
    if (sp_options_parse(options, call->argc, call->argv, &call->request, NULL, &call->err)) {
        _exit(9); /* these lines are bad */
    }
}

static void getopt_says_nothing_itself(void **state)
{
    (void)state;
    static const char *const lines[] = {"--frobnicate", "--seq", "-q", "-m", "--explain=1", "--s 8"};
    for (size_t i = 0; i < SP_COUNT_OF(lines); i++) {
        struct call call;
        open_call(&call, lines[i]);
        char output[4096];
        assert_int_equal(run_in_child(parse_in_child, &call, output, sizeof(output)), 0);
        assert_string_equal(output, "");
        close_call(&call);
    }
}

static void help_is_grouped_and_aligned(void **state)
{
    (void)state;
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    assert_non_null(file);
    sp_options_help(options, file);
    assert_int_equal(fclose(file), 0);
    assert_string_equal(
        text, "Question:\n"
              "  -m, --model NAME|PATH  a name in models/, or any Hugging Face config.json as it stands\n"
              "      --gpus N           cluster size\n"
              "  -s, --seq LEN          tokens in one sequence; 128K = 131072, 1M = 1048576, plain integers exact;\n"
              "                         no default\n"
              "      --set PATH=VALUE   overrides any field of any input\n"
              "\n"
              "Layout:\n"
              "      --sp, --cp N       sequence-parallel degree (1)\n"
              "      --sp-method M      how attention crosses the ranks (one of none, ulysses, ring, zigzag)\n"
              "      --tp-sp, --sequence-parallel\n"
              "                         Megatron's sequence parallelism inside the TP group\n"
              "\n"
              "Options:\n"
              "  -x, --explain          every figure with its formula\n"
              "      --no-color         plain text\n");
    free(text);
}

static void help_lines_are_at_most_100_columns(void **state)
{
    (void)state;
    static const struct sp_option wordy[] = {
        {.name = "a-name-that-leaves-hardly-any-room",
         .type = SP_OPTION_CHOICE,
         .names = method_names,
         .argument = "ONE-OF-SEVERAL",
         .help = "words and words and words and words and words and words and words and words and words and words and "
                 "words and words and words and words and words and words and words and words and words and words"},
        {.name = "b", .type = SP_OPTION_FLAG},
        /* the text starts after 11 columns: 89 more fit, 90 do not */
        {.name = "c",
         .type = SP_OPTION_FLAG,
         .help = "fits 5678 123456789 123456789 123456789 123456789 123456789 123456789 123456789 xxxxxend1"},
        {.name = "d",
         .type = SP_OPTION_FLAG,
         .help = "long 5678 123456789 123456789 123456789 123456789 123456789 123456789 123456789 xxxxxxend2"},
        {.name = NULL},
    };
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    assert_non_null(file);
    sp_options_help(wordy, file);
    assert_int_equal(fclose(file), 0);
    size_t longest = 0;
    for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1) {
        size_t length = strcspn(line, "\n");
        longest = length > longest ? length : longest;
    }
    assert_int_equal(longest, 100);
    assert_non_null(strstr(text, " xxxxxend1\n"));
    assert_non_null(strstr(text, "\n           xxxxxxend2\n"));
    assert_non_null(strstr(text, "(one of none, ulysses, ring, zigzag)"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_is_set),
        cmocka_unit_test(nothing_given_sets_nothing),
        cmocka_unit_test(values_may_follow_an_equals_sign),
        cmocka_unit_test(what_is_given_has_one_text_however_it_was_typed),
        cmocka_unit_test(nothing_given_has_no_text),
        cmocka_unit_test(letters_work_alone_and_together),
        cmocka_unit_test(the_last_value_wins),
        cmocka_unit_test(flags_are_cleared_with_no),
        cmocka_unit_test(lists_keep_order_and_duplicates),
        cmocka_unit_test(positional_arguments_keep_their_order),
        cmocka_unit_test(counts_may_be_at_their_bounds),
        cmocka_unit_test(lists_may_hold_something_before),
        cmocka_unit_test(bad_lines_are_refused),
        cmocka_unit_test(suggestions_are_left_out_where_nothing_is_near),
        cmocka_unit_test(positional_arguments_need_a_place),
        cmocka_unit_test(calls_do_not_disturb_each_other),
        cmocka_unit_test(getopt_says_nothing_itself),
        cmocka_unit_test(help_is_grouped_and_aligned),
        cmocka_unit_test(help_lines_are_at_most_100_columns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
