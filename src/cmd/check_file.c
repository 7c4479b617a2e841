/* Files of claims: each claim of a document with the question that it is about, priced and judged. */
#include "cmd/check.h"

#include <math.h>
#include <string.h>

static const char schema[] = "seqplan.claims/1";

struct reading {
    struct sp_arena *arena;
    const struct claim_bounds *bounds;
    const char *path;
    const struct sp_json *defaults; /* options of every question, or NULL */
    const char *place;              /* "$.claims[3]" */
};

/* ---- members ------------------------------------------------------------------------------------------------------ */

static bool check_keys(const struct reading *reading, const struct sp_json *object, const char *const *keys,
                       struct sp_error *err)
{
    size_t n_keys = 0;
    while (keys[n_keys] != NULL) {
        n_keys++;
    }
    for (const struct sp_json *item = object->first; item != NULL; item = item->next) {
        if (sp_index_of(item->key, keys) < 0) {
            return sp_fail(err, SP_ERROR_INPUT, "%s: %s: unknown key \"%.60s\": expected %s", reading->path,
                           reading->place, item->key, sp_join(reading->arena, keys, n_keys, ", "));
        }
    }
    return true;
}

/* A text; NULL where it is not there and not required. */
static bool read_text(const struct reading *reading, const struct sp_json *object, const char *key, bool is_required,
                      const char **text, struct sp_error *err)
{
    const struct sp_json *member = sp_json_member(object, key);
    *text = member != NULL && member->type == SP_JSON_STRING ? member->string : NULL;
    return *text != NULL || (member == NULL && !is_required) ||
           sp_fail(err, SP_ERROR_INPUT, "%s: %s.%s: expected a text, found %s", reading->path, reading->place, key,
                   member == NULL ? "nothing" : "something else");
}

/* ---- questions ---------------------------------------------------------------------------------------------------- */

static bool add_words(const struct reading *reading, const struct sp_json *options, struct sp_texts *words,
                      struct sp_error *err)
{
    for (const struct sp_json *item = options == NULL ? NULL : options->first; item != NULL; item = item->next) {
        if (item->type == SP_JSON_STRING) {
            sp_texts_add(words, "--%s=%s", item->key, item->string);
        } else if (item->type == SP_JSON_NUMBER) {
            sp_texts_add(words, "--%s=%.17g", item->key, item->number);
        } else {
            return sp_fail(err, SP_ERROR_INPUT, "%s: %s: option \"%.40s\": expected a text or a number", reading->path,
                           reading->place, item->key);
        }
    }
    return true;
}

/* "--sp=8" as people type it: "--sp 8" */
static const char *command_text(struct sp_arena *arena, const struct sp_texts *words)
{
    char *text = sp_join(arena, words->items, words->count, " ");
    bool is_name = true;
    for (char *at = text; *at != '\0'; at++) {
        if (*at == '=' && is_name) {
            *at = ' ';
            is_name = false;
        } else if (*at == ' ') {
            is_name = true;
        }
    }
    return text;
}

static bool is_spelled_out(const struct request *request, struct sp_error *err)
{
    bool is_other = request->only != NULL || request->tokens.is_given || request->layout_file != NULL;
    return !is_other || sp_fail(err, SP_ERROR_USAGE,
                                "claims are of whole steps that are spelled out: leave out only, tokens and layout");
}

static bool price_words(struct sp_arena *arena, const struct sp_texts *words, struct claim_subject *subject,
                        struct sp_error *err)
{
    struct command_options *options = sp_arena_alloc(arena, sizeof(*options));
    struct question *question = sp_arena_alloc(arena, sizeof(*question));
    struct estimate *estimate = sp_arena_alloc(arena, sizeof(*estimate));
    char **argv = sp_arena_array(arena, words->count + 2, sizeof(*argv));
    options->vary.arena = arena;
    argv[0] = sp_strdup(arena, "estimate");
    for (size_t i = 0; i < words->count; i++) {
        argv[i + 1] = sp_strdup(arena, words->items[i]);
    }
    request_init(&options->request, arena);
    if (!sp_options_parse(question_options, (int)words->count + 1, argv, options, NULL, err) ||
        !question_options_finish(options, err) || !is_spelled_out(&options->request, err) ||
        !request_is_complete(arena, &options->request, question_example, err) ||
        !question_resolve(&options->request, arena, question, err) || !step_check(question, err)) {
        return false;
    }
    step_estimate(question, estimate);
    step_interval(question, estimate);
    subject->request = &options->request;
    subject->question = question;
    subject->estimate = estimate;
    return true;
}

static bool price(const struct reading *reading, const struct sp_json *options, const char **command,
                  struct claim_subject *subject, struct sp_error *err)
{
    struct sp_texts words = {.arena = reading->arena};
    *subject = (struct claim_subject){.bounds = reading->bounds};
    if (options->type != SP_JSON_OBJECT) {
        return sp_fail(err, SP_ERROR_INPUT, "%s: %s: expected an object of options of estimate as question",
                       reading->path, reading->place);
    }
    if (!add_words(reading, reading->defaults, &words, err) || !add_words(reading, options, &words, err)) {
        return false;
    }
    *command = command_text(reading->arena, &words);
    if (!price_words(reading->arena, &words, subject, err)) {
        sp_error_prefix(err, "%s: %s", reading->path, reading->place);
        err->kind = SP_ERROR_INPUT;
        return false;
    }
    return true;
}

/* ---- one claim ---------------------------------------------------------------------------------------------------- */

static bool read_value(const struct reading *reading, const struct sp_json *claim, const char *key,
                       const struct report_claim_row *row, double *value, struct sp_error *err)
{
    static const struct claim_quantity ratio = {.name = "ratio", .kind = CLAIM_FIGURE, .dimension = SP_FRACTION};
    const char *text = NULL;
    if (!read_text(reading, claim, key, true, &text, err)) {
        return false;
    }
    bool is_ratio = sp_json_member(claim, "against") != NULL;
    if (!claim_value_parse(reading->arena, is_ratio ? &ratio : row->quantity, text, value, err)) {
        sp_error_prefix(err, "%s: %s.%s", reading->path, reading->place, key);
        err->kind = SP_ERROR_INPUT;
        return false;
    }
    return true;
}

/* "value", or "from" and "to". */
static bool read_values(const struct reading *reading, const struct sp_json *claim, struct report_claim_row *row,
                        struct sp_error *err)
{
    const struct sp_json *value = sp_json_member(claim, "value");
    bool is_judged = row->quantity->kind != CLAIM_FIGURE && sp_json_member(claim, "against") == NULL;
    if (value == NULL && is_judged) {
        return sp_fail(err, SP_ERROR_INPUT, "%s: %s.value: expected one value of %s, found none", reading->path,
                       reading->place, row->quantity->name);
    }
    if (!read_value(reading, claim, value != NULL ? "value" : "from", row, &row->claimed_low, err) ||
        !read_value(reading, claim, value != NULL ? "value" : "to", row, &row->claimed_high, err)) {
        return false;
    }
    const char *low = sp_json_member(claim, value != NULL ? "value" : "from")->string;
    if (row->claimed == NULL) {
        row->claimed =
            value != NULL ? low : sp_format(reading->arena, "%s to %s", low, sp_json_member(claim, "to")->string);
    }
    return row->claimed_low <= row->claimed_high ||
           sp_fail(err, SP_ERROR_INPUT, "%s: %s: expected from to be below to, found %s", reading->path, reading->place,
                   row->claimed);
}

static bool read_quantity(const struct reading *reading, const struct sp_json *claim, struct report_claim_row *row,
                          struct sp_error *err)
{
    const char *name = NULL;
    if (!read_text(reading, claim, "quantity", true, &name, err)) {
        return false;
    }
    row->quantity = claim_quantity_find(name);
    struct sp_texts names = {.arena = reading->arena};
    claim_quantity_names(true, &names);
    return row->quantity != NULL ||
           sp_fail(err, SP_ERROR_INPUT, "%s: %s.quantity: unknown quantity \"%.60s\": expected one of %s",
                   reading->path, reading->place, name, sp_join(reading->arena, names.items, names.count, ", "));
}

static void judge_row(const struct reading *reading, const struct claim_subject *subject, struct report_claim_row *row)
{
    struct claim_judgement judgement;
    const struct answer answer = {.question = subject->question, .estimate = subject->estimate};
    claim_judge(subject, row->quantity, row->claimed_low, &judgement);
    row->computed = judgement.computed;
    row->finding = claim_find(&judgement);
    row->reason = report_claim_reason(reading->arena, &answer, &judgement);
    row->cause = report_claim_cause(reading->arena, &judgement);
}

static bool answer_claim(const struct reading *reading, const struct sp_json *claim, struct report_claim_row *row,
                         struct sp_error *err)
{
    struct claim_subject subject;
    struct claim_subject other;
    const struct sp_json *against = sp_json_member(claim, "against");
    if (!price(reading, sp_json_member(claim, "question"), &row->command, &subject, err) ||
        (against != NULL && !price(reading, against, &row->against, &other, err))) {
        return false;
    }
    if (row->quantity->kind != CLAIM_FIGURE && against == NULL) {
        judge_row(reading, &subject, row);
        return true;
    }
    row->computed = row->quantity->compute(&subject);
    row->computed /= against == NULL ? 1 : row->quantity->compute(&other);
    const struct claim_figure figure = {row->quantity, row->claimed_low, row->claimed_high, row->computed,
                                        against != NULL};
    row->finding = claim_compare(&figure);
    return true;
}

static bool read_claim(const struct reading *reading, const struct sp_json *claim, struct report_claim_row *row,
                       struct sp_error *err)
{
    static const char *const keys[] = {"section", "claim", "question", "against", "quantity",    "value",
                                       "from",    "to",    "note",     "claimed", "no_question", NULL};
    const char *reason = NULL;
    *row = (struct report_claim_row){.finding = CLAIM_UNASKED, .computed = NAN};
    if (claim->type != SP_JSON_OBJECT) {
        return sp_fail(err, SP_ERROR_INPUT, "%s: %s: expected an object", reading->path, reading->place);
    }
    if (!check_keys(reading, claim, keys, err) || !read_text(reading, claim, "section", true, &row->section, err) ||
        !read_text(reading, claim, "claim", true, &row->text, err) ||
        !read_text(reading, claim, "note", false, &row->note, err) ||
        !read_text(reading, claim, "claimed", false, &row->claimed, err) ||
        !read_text(reading, claim, "no_question", false, &reason, err)) {
        return false;
    }
    if ((reason != NULL) == (sp_json_member(claim, "question") != NULL)) {
        return sp_fail(err, SP_ERROR_INPUT, "%s: %s: expected either a question or no_question with the reason",
                       reading->path, reading->place);
    }
    if (reason != NULL) {
        row->note = reason;
        return true;
    }
    return read_quantity(reading, claim, row, err) && read_values(reading, claim, row, err) &&
           answer_claim(reading, claim, row, err);
}

/* ---- a file ------------------------------------------------------------------------------------------------------- */

static bool read_rows(struct reading *reading, const struct sp_json *claims, struct report_claim_document *document,
                      struct sp_error *err)
{
    struct report_claim_row *rows = sp_arena_array(reading->arena, (size_t)claims->count + 1, sizeof(*rows));
    document->rows = rows;
    for (const struct sp_json *claim = claims->first; claim != NULL; claim = claim->next) {
        reading->place = sp_format(reading->arena, "$.claims[%d]", document->n_rows);
        if (!read_claim(reading, claim, &rows[document->n_rows++], err)) {
            return false;
        }
    }
    return true;
}

bool check_file_parse(struct sp_arena *arena, const struct sp_json *file, const struct claim_bounds *bounds,
                      struct report_claim_document *document, struct sp_error *err)
{
    static const char *const keys[] = {"schema", "title", "about", "defaults", "claims", NULL};
    struct reading reading = {.arena = arena, .bounds = bounds, .path = document->path, .place = "$"};
    const char *kind = NULL;
    const struct sp_json *claims = file->type == SP_JSON_OBJECT ? sp_json_member(file, "claims") : NULL;
    if (claims == NULL || claims->type != SP_JSON_ARRAY) {
        return sp_fail(err, SP_ERROR_INPUT, "%s: expected an object of schema %s with a list of claims", document->path,
                       schema);
    }
    if (!check_keys(&reading, file, keys, err) || !read_text(&reading, file, "schema", true, &kind, err) ||
        !read_text(&reading, file, "title", true, &document->title, err) ||
        !read_text(&reading, file, "about", true, &document->about, err)) {
        return false;
    }
    reading.defaults = sp_json_member(file, "defaults");
    if (kind == NULL || strcmp(kind, schema) != 0) {
        return sp_fail(err, SP_ERROR_INPUT, "%s: $.schema: expected \"%s\", found \"%.60s\"", document->path, schema,
                       kind == NULL ? "" : kind);
    }
    return read_rows(&reading, claims, document, err);
}

bool check_file_read(struct sp_arena *arena, const char *path, const struct claim_bounds *bounds,
                     struct report_claim_document *document, struct sp_error *err)
{
    *document = (struct report_claim_document){.path = path};
    const struct sp_json *file = sp_json_read(arena, path, err);
    return file != NULL && check_file_parse(arena, file, bounds, document, err);
}
