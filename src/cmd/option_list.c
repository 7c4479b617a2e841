/* Values of one option separated by commas. */
#include "cmd/command.h"

#include <string.h>

static const double LARGEST_COUNT = 0x1p40;

bool option_list_items(const struct option_list *list, struct sp_arena *arena, struct sp_texts *items,
                       struct sp_error *err)
{
    *items = (struct sp_texts){.arena = arena};
    const char *at = list->text;
    while (at != NULL) {
        size_t length = strcspn(at, ",");
        const char *item = sp_strndup(arena, at, length);
        if (length == 0) {
            return sp_fail(err, SP_ERROR_USAGE,
                           "--%s: expected values separated by commas such as \"%s\", found an empty one in \"%.60s\"",
                           list->name, list->example, list->text);
        }
        if (sp_texts_has(items, item)) {
            return sp_fail(err, SP_ERROR_USAGE, "--%s: \"%.60s\" is given twice: leave one out", list->name, item);
        }
        sp_texts_add(items, "%s", item);
        at = at[length] == ',' ? at + length + 1 : NULL;
    }
    return true;
}

/* A value that is another's in other words, as 08 is 8. */
static bool fail_twice(const struct option_list *list, const char *item, struct sp_error *err)
{
    return sp_fail(err, SP_ERROR_USAGE, "--%s: \"%.60s\" is given twice in other words: leave one out", list->name,
                   item);
}

bool option_list_counts(const struct option_list *list, struct sp_arena *arena, struct plan_counts *counts,
                        struct sp_error *err)
{
    struct sp_texts items;
    if (!option_list_items(list, arena, &items, err)) {
        return false;
    }
    int64_t *values = sp_arena_array(arena, items.count, sizeof(*values));
    for (size_t i = 0; i < items.count; i++) {
        struct sp_error ignored = {0};
        double value = 0.0;
        bool is_count = sp_quantity_parse(items.items[i], SP_COUNT, &value, &ignored);
        if (!is_count || value < 1.0 || value > LARGEST_COUNT) {
            return sp_fail(err, SP_ERROR_USAGE,
                           "--%s: expected whole numbers from 1 on such as \"%s\", found \"%.60s\"", list->name,
                           list->example, items.items[i]);
        }
        values[i] = (int64_t)value;
        for (size_t before = 0; before < i; before++) {
            if (values[before] == values[i]) {
                return fail_twice(list, items.items[i], err);
            }
        }
    }
    *counts = (struct plan_counts){.n = (int)items.count, .values = values};
    return true;
}

bool option_list_names(const struct option_list *list, const char *const *names, unsigned *bits, struct sp_error *err)
{
    struct sp_arena *arena = sp_arena_open();
    struct sp_texts items;
    bool is_good = option_list_items(list, arena, &items, err);
    size_t n_names = 0;
    while (names[n_names] != NULL) {
        n_names++;
    }
    *bits = 0;
    for (size_t i = 0; is_good && i < items.count; i++) {
        int index = sp_index_of(items.items[i], names);
        if (index >= 0) {
            *bits |= 1U << (unsigned)index;
            continue;
        }
        const char *nearest = sp_nearest(items.items[i], names, n_names);
        is_good = sp_fail(err, SP_ERROR_USAGE, "--%s: expected some of %s, found \"%.60s\"%s", list->name,
                          sp_join(arena, names, n_names, ", "), items.items[i],
                          nearest == NULL ? "" : sp_format(arena, " (did you mean \"%s\"?)", nearest));
    }
    sp_arena_close(arena);
    return is_good;
}
