#include "cmd/command.h"

#include <string.h>

/* A topic by its plural and its singular. */
struct topic {
    const char *name;
    const char *singular;
    const char *argument; /* what follows it in help */
    const char *summary;
    show_function list; /* without a name */
    show_function one;  /* with one, or NULL */
};

static const struct topic topics[] = {
    {"models", "model", "[NAME]", "the models, or one with its dimensions and parameters", show_models, show_model},
    {"hardware", "hardware", "[NAME]", "the nodes, or one with every figure", show_hardware_list, show_hardware},
    {"networks", "network", "[NAME]", "networks between nodes, or one with every figure", show_networks, show_network},
    {"methods", "method", "", "which sequence-parallel method exists in which framework", show_methods, NULL},
    {"frameworks", "framework", "[NAME]", "frameworks, or one's memory policy and fixed costs", show_frameworks,
     show_framework},
    {"kernels", "kernels", "[NAME]", "element-wise kernels, or one's traffic", show_kernels_list, show_kernels},
    {"losses", "loss", "[NAME]", "losses, or one's memory and traffic", show_losses, show_loss},
    {"fields", "fields", "[KIND]", "the paths that --set takes, of an input or of all", show_fields, show_fields},
    {"runs", "run", "[ID]", "stored sweeps and measurements, or one of them (JSON of a sweep: a line a row)", show_runs,
     show_run},
};

void show_help(FILE *file)
{
    (void)fputs("\nTopics:\n", file);
    for (size_t i = 0; i < SP_COUNT_OF(topics); i++) {
        char left[64];
        (void)snprintf(left, sizeof(left), "%s %s", topics[i].name, topics[i].argument);
        (void)fprintf(file, "  %-19s %s\n", left, topics[i].summary);
    }
}

static bool unknown_topic(struct sp_arena *arena, const char *name, struct sp_error *err)
{
    const char *names[SP_COUNT_OF(topics)];
    for (size_t i = 0; i < SP_COUNT_OF(topics); i++) {
        names[i] = topics[i].name;
    }
    const char *nearest = sp_nearest(name, names, SP_COUNT_OF(names));
    if (nearest != NULL) {
        return sp_fail(err, SP_ERROR_USAGE, "unknown topic '%s' of show: did you mean '%s'?", name, nearest);
    }
    return sp_fail(err, SP_ERROR_USAGE, "unknown topic '%s' of show: expected one of %s", name,
                   sp_join(arena, names, SP_COUNT_OF(names), ", "));
}

static const struct topic *find_topic(const char *name)
{
    for (size_t i = 0; i < SP_COUNT_OF(topics); i++) {
        if (strcmp(topics[i].name, name) == 0 || strcmp(topics[i].singular, name) == 0) {
            return &topics[i];
        }
    }
    return NULL;
}

static bool print_answer(const struct show_request *request, const struct show_answer *answer,
                         const struct report_style *style, const char *name, struct sp_error *err)
{
    bool is_readable = style->format == REPORT_TABLE || style->format == REPORT_MARKDOWN;
    if (answer->write != NULL) {
        return answer->write(request, style->file, err);
    }
    if (answer->grid.n_rows == 0 && style->format != REPORT_JSON) { /* a heading without rows says less */
        report_wrap(style->file, 0, "", is_readable && answer->title != NULL ? answer->title : "");
        return true;
    }
    report_grid_document(style, &answer->grid, name, answer->title);
    return true;
}

static bool show_topic(struct command_context *context, const struct command_options *options,
                       const struct sp_texts *words, struct sp_error *err)
{
    const struct topic *topic = find_topic(words->items[0]);
    if (topic == NULL) {
        return unknown_topic(context->arena, words->items[0], err);
    }
    bool has_name = words->count > 1;
    if (words->count > 2 || (has_name && topic->one == NULL)) {
        return sp_fail(err, SP_ERROR_USAGE, "show %s: unexpected argument \"%s\"", topic->name,
                       words->items[words->count - 1]);
    }
    if (options->db != NULL && topic->list != show_runs) {
        return sp_fail(err, SP_ERROR_USAGE, "show %s: --db belongs to 'show runs': leave it out", topic->name);
    }
    if (options->wants_source && topic->list == show_runs) {
        return sp_fail(
            err, SP_ERROR_USAGE,
            "show %s: --source tells where the figures of files come from; a run has its settings: leave it out",
            topic->name);
    }
    const struct report_style style = command_style(context, options);
    const struct show_request request = {.arena = context->arena,
                                         .name = has_name ? words->items[1] : NULL,
                                         .has_source = options->wants_source,
                                         .db = options->db,
                                         .format = (enum report_format)options->format,
                                         .style = &style};
    struct show_answer answer = {.title = NULL};
    if (!(has_name ? topic->one : topic->list)(&request, &answer, err)) {
        return false;
    }
    return print_answer(&request, &answer, &style, has_name ? topic->singular : topic->name, err);
}

bool cmd_show(struct command_context *context, int argc, char **argv, struct sp_error *err)
{
    struct command_options options;
    struct sp_texts words = {.arena = context->arena};
    if (!command_options_parse(context, argc, argv, &options, &words, err)) {
        return false;
    }
    if (options.wants_help) {
        return true;
    }
    if (words.count == 0) {
        return sp_fail(
            err, SP_ERROR_USAGE,
            "show needs a topic: models, hardware, networks, methods, frameworks, kernels, losses, fields, runs");
    }
    return show_topic(context, &options, &words, err);
}
