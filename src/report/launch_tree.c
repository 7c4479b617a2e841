/* seqplan.launch/1: what a launcher takes, for programs. */
#include "report/launch.h"

static void put_words(struct report_tree *tree, const char *key, const struct launch *launch, enum launch_place place)
{
    report_tree_begin(tree, key, SP_JSON_ARRAY);
    for (int i = 0; i < launch->n_items; i++) {
        if (launch->items[i].place != place || launch->items[i].key == NULL) {
            continue;
        }
        const char *words[LAUNCH_WORDS];
        int n_words = launch_words(tree->arena, launch, &launch->items[i], words);
        for (int word = 0; word < n_words; word++) {
            report_tree_string(tree, NULL, words[word]);
        }
    }
    report_tree_end(tree);
}

static void put_environment(struct report_tree *tree, const struct launch *launch)
{
    report_tree_begin(tree, "environment", SP_JSON_OBJECT);
    for (int i = 0; i < launch->n_items; i++) {
        if (launch->items[i].place == LAUNCH_ENVIRONMENT && launch->items[i].key != NULL) {
            report_tree_string(tree, launch->items[i].key, launch->items[i].value);
        }
    }
    report_tree_end(tree);
}

static void put_file(struct report_tree *tree, const char *name, const char *content)
{
    if (content != NULL) {
        report_tree_begin(tree, NULL, SP_JSON_OBJECT);
        report_tree_string(tree, "name", name);
        report_tree_string(tree, "content", content);
        report_tree_end(tree);
    }
}

static void put_comments(struct report_tree *tree, const struct launch *launch)
{
    struct sp_texts comments = {.arena = tree->arena};
    struct sp_texts sources = {.arena = tree->arena};
    for (int i = 0; i < launch->n_items; i++) {
        const struct launch_item *item = &launch->items[i];
        if (item->remark != NULL) {
            bool has_key = item->key != NULL && item->place != LAUNCH_CODE; /* not a whole statement */
            sp_texts_add(&comments, "%s%s%s", has_key ? item->key : "", has_key ? ": " : "", item->remark);
        }
        sp_texts_add(&sources, "%s", item->source);
    }
    report_tree_texts(tree, "comments", &comments);
    report_tree_texts(tree, "sources", &sources);
}

/* What starts it, without the places of its words: "torchrun", "pretrain_gpt.py". */
static void put_command(struct report_tree *tree, const char *command)
{
    const char *text = "";
    for (; *command != '\0'; command++) {
        bool is_place = command[0] == '%' && (command[1] == 'R' || command[1] == 'A');
        text = is_place ? text : sp_format(tree->arena, "%s%c", text, *command);
        command += is_place ? 1 : 0;
    }
    report_tree_string(tree, "command", text);
}

const struct sp_json *launch_tree(struct sp_arena *arena, const struct launch *launch)
{
    const struct launcher *launcher = launch->launcher;
    struct report_tree tree;
    report_tree_open(&tree, arena);
    report_tree_string(&tree, "schema", "seqplan.launch/1");
    report_tree_string(&tree, "launcher", launcher->name);
    put_command(&tree, launcher->command);
    put_words(&tree, "runner", launch, LAUNCH_RUNNER);
    put_words(&tree, "arguments", launch, LAUNCH_ARGUMENT);
    put_environment(&tree, launch);
    report_tree_begin(&tree, "files", SP_JSON_ARRAY);
    put_file(&tree, launcher->file, launch_file_text(arena, launch));
    put_file(&tree, launcher->code, launch_code_text(arena, launch));
    report_tree_end(&tree);
    put_comments(&tree, launch);
    report_tree_texts(&tree, "warnings", &launch->question->warnings);
    report_tree_value(&tree, "layout", report_layout_tree(arena, launch->question));
    return report_tree_close(&tree);
}
