/* The points of --vary NAME=V1,V2,...: every combination of the values. */
#include "cmd/sweep.h"

#include <string.h>

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
static bool check_name(const struct points *points, struct sp_arena *arena, struct varied *varied, struct sp_error *err)
{
    const struct sp_option *option = command_option_find(points->table, varied->name);
    varied->is_option = option != NULL && option->type != SP_OPTION_LIST;
    if (varied->is_option || strchr(varied->name, '.') != NULL) {
        return true;
    }
    const char *nearest = command_option_nearest(arena, points->table, varied->name);
    if (nearest != NULL) {
        return sp_fail(err, SP_ERROR_USAGE, "--vary %s: unknown option; did you mean \"%s\"?", varied->name, nearest);
    }
    return sp_fail(err, SP_ERROR_USAGE,
                   "--vary %s: expected the name of an option such as \"seq\", or a path of --set such as "
                   "\"gpu.hbm_bandwidth\"",
                   varied->name);
}

static bool set_one(const struct points *points, const struct varied *varied, int value,
                    struct command_options *options, struct sp_error *err)
{
    if (varied->is_option) {
        return command_option_set(points->table, options, varied->name, varied->values[value], err);
    }
    const char *setting = sp_format(options->vary.arena, "%s=%s", varied->name, varied->values[value]);
    return command_option_set(points->table, options, "set", setting, err);
}

/* A value that no option would take fails now, not after hours. */
static bool check_values(const struct points *points, const struct varied *varied, struct sp_error *err)
{
    for (int i = 0; i < varied->n_values; i++) {
        struct command_options options = *points->base;
        if (!set_one(points, varied, i, &options, err)) {
            return false;
        }
    }
    return true;
}

static bool add_varied(struct points *points, struct sp_arena *arena, const char *text, struct sp_error *err)
{
    const char *equals = strchr(text, '=');
    if (equals == NULL || equals == text) {
        return sp_fail(err, SP_ERROR_USAGE, "--vary: expected NAME=V1,V2,... as in seq=128K,1M, found \"%s\"", text);
    }
    struct varied varied = {.name = sp_strndup(arena, text, (size_t)(equals - text))};
    for (int i = 0; i < points->n_varied; i++) {
        if (strcmp(points->varied[i].name, varied.name) == 0) {
            return sp_fail(err, SP_ERROR_USAGE, "--vary %s is given twice; put its values into one: --vary %s=V1,V2",
                           varied.name, varied.name);
        }
    }
    if (points->n_varied == POINTS_MAX_VARIED) {
        return sp_fail(err, SP_ERROR_USAGE, "--vary: more than %d of them", (int)POINTS_MAX_VARIED);
    }
    if (!check_name(points, arena, &varied, err) || !split_values(arena, equals + 1, &varied, err) ||
        !check_values(points, &varied, err)) {
        return false;
    }
    points->names[points->n_varied] = varied.name;
    points->varied[points->n_varied++] = varied;
    return true;
}

static bool count_points(struct points *points, struct sp_error *err)
{
    int64_t n_points = 1;
    for (int i = 0; i < points->n_varied; i++) {
        n_points *= points->varied[i].n_values;
        if (n_points > POINTS_MAX) {
            return sp_fail(err, SP_ERROR_USAGE, "--vary: more than %d combinations; vary fewer values at once",
                           (int)POINTS_MAX);
        }
    }
    points->n_points = n_points;
    return true;
}

bool points_read(const struct sweep *sweep, struct points *points, struct sp_error *err)
{
    struct sp_arena *arena = sweep->context->arena;
    const struct command_options *options = sweep->options;
    *points = (struct points){.base = options, .table = command_question_table(arena, command_find(sweep->command))};
    if (options->request.layout_file != NULL && strcmp(options->request.layout_file, "-") == 0) {
        return sp_fail(err, SP_ERROR_USAGE, "--vary reads the layout again for every row: give --layout a file, not -");
    }
    for (size_t i = 0; i < options->vary.count; i++) {
        if (!add_varied(points, arena, options->vary.items[i], err)) {
            return false;
        }
    }
    return count_points(points, err);
}

/* Which value of each of what varies. */
static void split_point(const struct points *points, int64_t point, int values[POINTS_MAX_VARIED])
{
    for (int i = points->n_varied - 1; i >= 0; i--) { /* the last one varies fastest */
        values[i] = (int)(point % points->varied[i].n_values);
        point /= points->varied[i].n_values;
    }
}

const char **points_values(const struct points *points, struct sp_arena *arena, int64_t point)
{
    int values[POINTS_MAX_VARIED] = {0};
    split_point(points, point, values);
    const char **texts = sp_arena_array(arena, (size_t)points->n_varied, sizeof(*texts));
    for (int i = 0; i < points->n_varied; i++) {
        texts[i] = points->varied[i].values[values[i]];
    }
    return texts;
}

bool points_options(const struct points *points, struct sp_arena *arena, int64_t point, struct command_options *options,
                    struct sp_error *err)
{
    int values[POINTS_MAX_VARIED] = {0};
    split_point(points, point, values);
    *options = *points->base;
    options->vary.arena = arena;
    options->request.set.arena = arena;
    for (int i = points->n_varied - 1; i >= 0; i--) {
        if (!set_one(points, &points->varied[i], values[i], options, err)) {
            return false;
        }
    }
    return true;
}
