/* A launcher's lines as one pastes them: a shell's, or a YAML file. */
#include "report/launch.h"

#include <string.h>

static void print_remark(FILE *file, struct sp_arena *arena, const char *prefix, const char *text)
{
    if (text != NULL) {
        (void)fputs(launch_wrap(arena, prefix, text), file);
    }
}

static void print_environment(FILE *file, struct sp_arena *arena, const struct launch *launch, const char *prefix)
{
    for (int i = 0; i < launch->n_items; i++) {
        const struct launch_item *item = &launch->items[i];
        if (item->place == LAUNCH_ENVIRONMENT && item->key != NULL) {
            print_remark(file, arena, "# ", item->remark);
            (void)fprintf(file, "%sexport %s=%s\n", prefix, item->key, report_shell_word(arena, item->value));
        }
    }
}

/* ---- arrays of words -------------------------------------------------------------------------------------------- */

static bool belongs_to(const struct launch_item *item, enum launch_place place)
{
    return item->place == place;
}

static void print_words(FILE *file, struct sp_arena *arena, const struct launch *launch, const struct launch_item *item)
{
    const char *words[LAUNCH_WORDS];
    int n_words = launch_words(arena, launch, item, words);
    (void)fputs("   ", file);
    for (int i = 0; i < n_words; i++) {
        (void)fprintf(file, " %s", report_shell_word(arena, words[i]));
    }
    (void)fputc('\n', file);
}

/* False: there are none. */
static bool print_array(FILE *file, struct sp_arena *arena, const struct launch *launch, enum launch_place place)
{
    int count = 0;
    for (int i = 0; i < launch->n_items; i++) {
        count += belongs_to(&launch->items[i], place) && launch->items[i].key != NULL ? 1 : 0;
    }
    if (count == 0) {
        return false;
    }
    (void)fprintf(file, "%s=(\n", place == LAUNCH_RUNNER ? "RUNNER_ARGS" : "LAYOUT_ARGS");
    for (int i = 0; i < launch->n_items; i++) {
        const struct launch_item *item = &launch->items[i];
        if (belongs_to(item, place)) {
            print_remark(file, arena, "    # ", item->remark);
            if (item->key != NULL) {
                print_words(file, arena, launch, item);
            }
        }
    }
    (void)fputs(")\n", file);
    return true;
}

/* ---- files ------------------------------------------------------------------------------------------------------ */

static void print_here(FILE *file, const char *name, const char *content)
{
    if (content != NULL) {
        (void)fprintf(file, "cat > %s <<'EOF'\n%sEOF\n", name, content);
    }
}

/* JSON has no remarks: those of settings stand above the file, each with its key. */
static void print_setting_remarks(FILE *file, struct sp_arena *arena, const struct launch *launch)
{
    for (int i = 0; i < launch->n_items; i++) {
        const struct launch_item *item = &launch->items[i];
        if (item->place == LAUNCH_SETTING && item->remark != NULL) {
            const char *key = item->key == NULL ? "" : sp_format(arena, "%s: ", item->key);
            print_remark(file, arena, "# ", sp_format(arena, "%s%s", key, item->remark));
        }
    }
}

/* ---- the whole -------------------------------------------------------------------------------------------------- */

static void print_heading(FILE *file, struct sp_arena *arena, const struct launch *launch)
{
    const struct launcher *launcher = launch->launcher;
    print_remark(file, arena, "# ", report_title_text(arena, launch->question));
    print_remark(file, arena, "# ", report_degrees_text(arena, launch->question));
    print_remark(file, arena, "# ", report_settings_text(arena, launch->question));
    const char *engine = launch->engine->title == NULL ? "" : sp_format(arena, " (%s)", launch->engine->title);
    print_remark(file, arena, "# ",
                 sp_format(arena, "for %s%s: the layout only; data, optimizer and checkpoints are yours to add",
                           launcher->title, engine));
    const struct sp_texts *warnings = &launch->question->warnings;
    for (size_t i = 0; i < warnings->count; i++) {
        /* Further lines of a warning stand further in, so that it is told from what follows. */
        const char *lines = launch_wrap(arena, "#   ", sp_format(arena, "warning: %s", warnings->items[i]));
        (void)fprintf(file, "# %s", lines + strlen("#   "));
    }
}

static void print_command(FILE *file, const struct launch *launch, bool has_runner, bool has_arguments)
{
    const char *at = launch->launcher->command;
    for (; *at != '\0'; at++) {
        if (at[0] == '%' && (at[1] == 'R' || at[1] == 'A')) {
            bool is_runner = at[1] == 'R';
            if (is_runner ? has_runner : has_arguments) {
                (void)fprintf(file, " \"${%s[@]}\"", is_runner ? "RUNNER_ARGS" : "LAYOUT_ARGS");
            }
            at++;
        } else {
            (void)fputc(*at, file);
        }
    }
    (void)fputc('\n', file);
}

static void print_shell(FILE *file, struct sp_arena *arena, const struct launch *launch)
{
    const struct launcher *launcher = launch->launcher;
    print_heading(file, arena, launch);
    print_environment(file, arena, launch, "");
    if (launcher->syntax == LAUNCH_JSON) {
        print_setting_remarks(file, arena, launch);
    }
    print_here(file, launcher->file, launch_file_text(arena, launch));
    print_here(file, launcher->code, launch_code_text(arena, launch));
    bool has_runner = print_array(file, arena, launch, LAUNCH_RUNNER);
    bool has_arguments = print_array(file, arena, launch, LAUNCH_ARGUMENT);
    print_command(file, launch, has_runner, has_arguments);
}

static void print_yaml(FILE *file, struct sp_arena *arena, const struct launch *launch)
{
    print_heading(file, arena, launch);
    print_environment(file, arena, launch, "# ");
    print_remark(file, arena, "# ", launch->launcher->command);
    (void)fputs(launch_file_text(arena, launch), file);
}

static void print_text(FILE *file, struct sp_arena *arena, const struct launch *launch)
{
    if (launch->launcher->syntax == LAUNCH_YAML) {
        print_yaml(file, arena, launch);
    } else {
        print_shell(file, arena, launch);
    }
}

void report_launch(const struct report_style *style, struct sp_arena *arena, const struct launch *launch)
{
    switch (style->format) {
    case REPORT_JSON:
        report_tree_write(launch_tree(arena, launch), style->file);
        break;
    case REPORT_CSV: {
        const struct sp_json *const objects[] = {launch_tree(arena, launch)};
        report_csv_write(arena, objects, 1, style->file);
        break;
    }
    case REPORT_MARKDOWN:
        (void)fprintf(style->file, "```%s\n", launch->launcher->syntax == LAUNCH_YAML ? "yaml" : "bash");
        print_text(style->file, arena, launch);
        (void)fputs("```\n", style->file);
        break;
    case REPORT_TABLE:
        print_text(style->file, arena, launch);
        break;
    }
}
