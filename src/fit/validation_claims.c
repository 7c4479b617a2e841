/* What a table says of its rows: every entry names rows that are there, so that a slip of the pen does not make a fitted row judge,
 * or a target hold for nothing. */
#include "fit/validation_internal.h"

#include <string.h>

/* What rows of the source have: of each kind of name, once. */
struct claims {
    const struct validation_reading *reading;
    struct sp_texts groups, quantities, rows;
};

static bool fail_name(const struct claims *claims, const char *place, const char *kind, const char *name,
                      const struct sp_texts *names, struct sp_error *err)
{
    const char *nearest = sp_nearest(name, names->items, names->count);
    return sp_fail(err, SP_ERROR_INPUT, "%s: %s: no row of the file has the %s \"%.80s\"%s%.80s%s",
                   claims->reading->path, place, kind, name, nearest == NULL ? "" : ": did you mean \"",
                   nearest == NULL ? "" : nearest, nearest == NULL ? "" : "\"?");
}

static const char *text_of(const struct sp_json *object, const char *key)
{
    const struct sp_json *member = sp_json_member(object, key);
    return member == NULL ? NULL : member->string;
}

static bool is_of(const char *wanted, const char *found)
{
    return wanted == NULL || strcmp(wanted, found) == 0;
}

/* Some row is of all three; NULL: of any. */
static bool has_row(const struct claims *claims, const char *group, const char *quantity, const char *name)
{
    const struct validation_source *source = claims->reading->source;
    for (int i = 0; i < source->n_rows; i++) {
        const struct validation_row *row = &source->rows[i];
        if (is_of(group, row->group) && is_of(quantity, row->quantity->name) && is_of(name, row->name)) {
            return true;
        }
    }
    return false;
}

static bool check_fitted(const struct claims *claims, struct sp_error *err)
{
    const struct validation_reading *reading = claims->reading;
    const struct {
        const char *key;
        const struct sp_texts *names;
    } kinds[] = {{"group", &claims->groups}, {"quantity", &claims->quantities}, {"row", &claims->rows}};
    int index = 0;
    const struct sp_json *first = reading->fitted == NULL ? NULL : reading->fitted->first;
    for (const struct sp_json *item = first; item != NULL; item = item->next) {
        const char *place = sp_format(reading->arena, "$.fitted[%d]", index++);
        for (size_t i = 0; i < SP_COUNT_OF(kinds); i++) {
            const char *name = text_of(item, kinds[i].key);
            if (name != NULL && !sp_texts_has(kinds[i].names, name)) {
                return fail_name(claims, place, i == 2 ? "name" : kinds[i].key, name, kinds[i].names, err);
            }
        }
        if (!has_row(claims, text_of(item, "group"), text_of(item, "quantity"), text_of(item, "row"))) {
            return sp_fail(err, SP_ERROR_INPUT,
                           "%s: %s: no row has all of it: expected a group, quantity and row that go together",
                           reading->path, place);
        }
    }
    return true;
}

/* group -> quantity -> value */
static bool check_groups(const struct claims *claims, const struct sp_json *groups, const char *key,
                         struct sp_error *err)
{
    const struct validation_reading *reading = claims->reading;
    for (const struct sp_json *group = groups == NULL ? NULL : groups->first; group != NULL; group = group->next) {
        if (!sp_texts_has(&claims->groups, group->key)) {
            return fail_name(claims, sp_format(reading->arena, "$.%s", key), "group", group->key, &claims->groups, err);
        }
        for (const struct sp_json *item = group->first; item != NULL; item = item->next) {
            const char *place = sp_format(reading->arena, "$.%s.%.60s", key, group->key);
            if (!sp_texts_has(&claims->quantities, item->key)) {
                return fail_name(claims, place, "quantity", item->key, &claims->quantities, err);
            }
            if (!has_row(claims, group->key, item->key, NULL)) {
                return sp_fail(err, SP_ERROR_INPUT, "%s: %s: no row of this group measures %s", reading->path, place,
                               item->key);
            }
        }
    }
    return true;
}

static bool check_biases(const struct claims *claims, struct sp_error *err)
{
    const struct sp_json *biases = claims->reading->source->biases;
    for (const struct sp_json *item = biases == NULL ? NULL : biases->first; item != NULL; item = item->next) {
        if (!sp_texts_has(&claims->quantities, item->key)) {
            return fail_name(claims, "$.biases", "quantity", item->key, &claims->quantities, err);
        }
    }
    return true;
}

bool validation_check_claims(const struct validation_reading *reading, struct sp_error *err)
{
    struct sp_arena *arena = reading->arena;
    const struct validation_source *source = reading->source;
    struct claims claims = {reading, {.arena = arena}, {.arena = arena}, {.arena = arena}};
    for (int i = 0; i < source->n_rows; i++) {
        sp_texts_add(&claims.groups, "%s", source->rows[i].group);
        sp_texts_add(&claims.quantities, "%s", source->rows[i].quantity->name);
        sp_texts_add(&claims.rows, "%s", source->rows[i].name);
    }
    return check_fitted(&claims, err) && check_groups(&claims, source->targets, "targets", err) &&
           check_groups(&claims, source->misses, "misses", err) && check_biases(&claims, err);
}
