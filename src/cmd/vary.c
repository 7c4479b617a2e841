/* --vary NAME=V1,V2,...: the same question with other values, every combination of them. */
#include "cmd/command.h"

#include <assert.h>
#include <string.h>

enum { MAX_VARIED = 8, MAX_ROWS = 20000, PROGRESS_ROWS = 200, PROGRESS_EVERY = 50 };

struct varied {
    const char *name;
    const char **values;
    int n_values;
    bool is_option; /* else a path of --set */
};

/* One run over all combinations. */
struct sweep {
    struct command_context *context;
    const struct command_options *base;
    struct report_style style;
    struct sp_arena *scratch; /* of the row that is being priced */
    struct varied varied[MAX_VARIED];
    int n_varied;
    int n_rows;
    bool fits;
};

static bool split_values(struct sp_arena *arena, const char *text, struct varied *varied, struct sp_error *err)
{
    varied->values = sp_arena_array(arena, strlen(text) + 1, sizeof(*varied->values));
    for (;;) {
        size_t length = strcspn(text, ",");
        if (length == 0) {
            return sp_fail(err, SP_ERROR_USAGE, "--vary %s: expected values as in %s=V1,V2, found an empty one",
                           varied->name, varied->name);
        }
        varied->values[varied->n_values++] = sp_strndup(arena, text, length);
        if (text[length] == '\0') {
            return true;
        }
        text += length + 1;
    }
}

/* An option is meant by a name without dots. */
static bool check_name(struct sp_arena *arena, struct varied *varied, struct sp_error *err)
{
    const struct sp_option *option = question_option_find(varied->name);
    varied->is_option = option != NULL && option->type != SP_OPTION_LIST;
    if (varied->is_option || strchr(varied->name, '.') != NULL) {
        return true;
    }
    const char *nearest = question_option_nearest(arena, varied->name);
    if (nearest != NULL) {
        return sp_fail(err, SP_ERROR_USAGE, "--vary %s: unknown option; did you mean \"%s\"?", varied->name, nearest);
    }
    return sp_fail(err, SP_ERROR_USAGE,
                   "--vary %s: expected the name of an option such as \"seq\", or a path of --set such as "
                   "\"gpu.hbm_bandwidth\"",
                   varied->name);
}

static bool set_one(const struct varied *varied, int value, struct command_options *options, struct sp_error *err)
{
    if (varied->is_option) {
        return question_option_set(options, varied->name, varied->values[value], err);
    }
    const char *setting = sp_format(options->vary.arena, "%s=%s", varied->name, varied->values[value]);
    return question_option_set(options, "set", setting, err);
}

/* A value that no option would take fails now, not after hours. */
static bool check_values(const struct sweep *sweep, const struct varied *varied, struct sp_error *err)
{
    for (int i = 0; i < varied->n_values; i++) {
        struct command_options options = *sweep->base;
        if (!set_one(varied, i, &options, err)) {
            return false;
        }
    }
    return true;
}

/* What varies need not be given beside it. */
static bool is_complete(const struct sweep *sweep, struct sp_error *err)
{
    struct command_options options = *sweep->base;
    for (int i = 0; i < sweep->n_varied; i++) {
        if (!set_one(&sweep->varied[i], 0, &options, err)) {
            return false;
        }
    }
    return request_is_complete(sweep->context->arena, &options.request, err);
}

static bool add_varied(struct sweep *sweep, const char *text, struct sp_error *err)
{
    struct sp_arena *arena = sweep->context->arena;
    const char *equals = strchr(text, '=');
    if (equals == NULL || equals == text) {
        return sp_fail(err, SP_ERROR_USAGE, "--vary: expected NAME=V1,V2,... as in seq=128K,1M, found \"%s\"", text);
    }
    struct varied varied = {.name = sp_strndup(arena, text, (size_t)(equals - text))};
    for (int i = 0; i < sweep->n_varied; i++) {
        if (strcmp(sweep->varied[i].name, varied.name) == 0) {
            return sp_fail(err, SP_ERROR_USAGE, "--vary %s is given twice; put its values into one: --vary %s=V1,V2",
                           varied.name, varied.name);
        }
    }
    if (sweep->n_varied == MAX_VARIED) {
        return sp_fail(err, SP_ERROR_USAGE, "--vary: more than %d of them", (int)MAX_VARIED);
    }
    if (!check_name(arena, &varied, err) || !split_values(arena, equals + 1, &varied, err) ||
        !check_values(sweep, &varied, err)) {
        return false;
    }
    sweep->varied[sweep->n_varied++] = varied;
    return true;
}

static bool count_rows(struct sweep *sweep, struct sp_error *err)
{
    int64_t n_rows = 1;
    for (int i = 0; i < sweep->n_varied; i++) {
        n_rows *= sweep->varied[i].n_values;
        if (n_rows > MAX_ROWS) {
            return sp_fail(err, SP_ERROR_USAGE, "--vary: more than %d combinations; vary fewer values at once",
                           (int)MAX_ROWS);
        }
    }
    sweep->n_rows = (int)n_rows;
    return true;
}

static const struct sp_json *price_one(struct sweep *sweep, const struct request *request, struct sp_error *err)
{
    const struct row_pricing pricing = {&sweep->style, sweep->context->arena, sweep->scratch};
    struct priced *priced = sp_arena_alloc(sweep->scratch, sizeof(*priced));
    const struct sp_json *answer = price_row(&pricing, request, priced, err);
    sweep->fits = sweep->fits || (answer != NULL && priced->estimate.fits);
    return answer;
}

static bool fill_row(struct sweep *sweep, int index, struct report_row *row, struct sp_error *err)
{
    struct sp_arena_mark mark = sp_arena_mark(sweep->scratch);
    const char **values = sp_arena_array(sweep->context->arena, (size_t)sweep->n_varied, sizeof(*values));
    struct command_options options = *sweep->base;
    options.vary.arena = sweep->scratch;
    options.request.set.arena = sweep->scratch;
    int rest = index;
    bool is_set = true;
    for (int i = sweep->n_varied - 1; i >= 0; i--) { /* the last one varies fastest */
        int value = rest % sweep->varied[i].n_values;
        rest /= sweep->varied[i].n_values;
        values[i] = sweep->varied[i].values[value];
        is_set = is_set && set_one(&sweep->varied[i], value, &options, err);
    }
    *row = (struct report_row){.values = values, .answer = is_set ? price_one(sweep, &options.request, err) : NULL};
    sp_arena_rewind(sweep->scratch, mark);
    return row->answer != NULL;
}

static bool price_rows(struct sweep *sweep, struct report_row *rows, struct sp_error *err)
{
    bool has_progress = sweep->context->has_progress && sweep->n_rows > PROGRESS_ROWS;
    bool is_good = true;
    for (int i = 0; i < sweep->n_rows && is_good; i++) {
        if (has_progress && i % PROGRESS_EVERY == 0) {
            (void)fprintf(stderr, "\r%d of %d", i, sweep->n_rows);
        }
        is_good = fill_row(sweep, i, &rows[i], err);
    }
    if (has_progress) {
        (void)fprintf(stderr, "\r%*s\r", 24, "");
    }
    return is_good;
}

bool vary_request(struct command_context *context, const struct command_options *options, struct report_rows *rows,
                  bool *fits, struct sp_error *err)
{
    struct sweep sweep = {.context = context, .base = options, .style = command_style(context, options)};
    if (options->request.layout_file != NULL && strcmp(options->request.layout_file, "-") == 0) {
        return sp_fail(err, SP_ERROR_USAGE, "--vary reads the layout again for every row: give --layout a file, not -");
    }
    for (size_t i = 0; i < options->vary.count; i++) {
        if (!add_varied(&sweep, options->vary.items[i], err)) {
            return false;
        }
    }
    if (!count_rows(&sweep, err) || !is_complete(&sweep, err)) {
        return false;
    }
    struct report_row *filled = sp_arena_array(context->arena, (size_t)sweep.n_rows, sizeof(*filled));
    const char **names = sp_arena_array(context->arena, (size_t)sweep.n_varied, sizeof(*names));
    for (int i = 0; i < sweep.n_varied; i++) {
        names[i] = sweep.varied[i].name;
    }
    sweep.scratch = sp_arena_open();
    bool is_good = price_rows(&sweep, filled, err);
    sp_arena_close(sweep.scratch);
    *rows = (struct report_rows){.names = names, .n_names = sweep.n_varied, .rows = filled, .n_rows = sweep.n_rows};
    *fits = sweep.fits;
    return is_good;
}
