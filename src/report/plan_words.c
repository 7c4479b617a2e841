/* What sets a layout of a plan apart from the first, in words: built from the two answers. */
#include "report/report.h"

#include <math.h>
#include <string.h>

static const double GIB = 0x1p30;
static const double LEAST_FRAC = 0.0005;  /* rounds to 0.1 % */
static const double LEAST_BYTES = 0x1p27; /* rounds to 0.1 GiB */

static double number_at(const struct sp_json *answer, const char *key)
{
    return sp_json_member(answer, key)->number;
}

/* "0.31 s more sp exposed" */
static const char *amount_text(struct sp_arena *arena, const char *list, const struct report_item *item)
{
    bool is_memory = list[0] == 'm';
    double size = fabs(item->difference);
    const char *amount =
        is_memory ? sp_format(arena, "%s GiB", report_three(arena, size / GIB)) : report_step_time(arena, size);
    return sp_format(arena, "%s %s %s", amount, item->difference > 0.0 ? "more" : "less",
                     report_words(arena, item->name));
}

/* ---- figures ----------------------------------------------------------------------------------------------------- */

enum { MAX_ITEMS = 3 };

/* What is said of one figure: "2.1 % slower", and the items that make it so. */
struct part {
    const char *head;
    const char *list; /* "time_s" or "memory_bytes" */
    int n_items;
    struct report_item items[MAX_ITEMS];
};

/* The largest item in the direction of the whole, then what works against it and the next one, if they matter. */
static void choose_items(const struct report_diff *diff, double whole, struct part *part)
{
    static const double share_that_matters = 0.25; /* of the largest */
    double sign = whole < 0.0 ? -1.0 : 1.0;
    struct report_item first = report_largest_item(diff, part->list, sign, NULL);
    if (first.name == NULL) {
        return;
    }
    struct report_item others[] = {report_largest_item(diff, part->list, sign, first.name),
                                   report_largest_item(diff, part->list, -sign, NULL)};
    part->items[part->n_items++] = first;
    for (size_t i = 0; i < SP_COUNT_OF(others); i++) {
        bool has_item = others[i].name != NULL;
        if (has_item && fabs(others[i].difference) > share_that_matters * fabs(first.difference)) {
            part->items[part->n_items++] = others[i];
        }
    }
}

static struct part speed_part(struct sp_arena *arena, const struct report_diff *diff)
{
    double a = number_at(diff->a, "step_time_s");
    double b = number_at(diff->b, "step_time_s");
    double frac = a > b ? a / b - 1.0 : b / a - 1.0;
    struct part part = {.head = "as fast", .list = "time_s"};
    if (frac >= LEAST_FRAC) {
        part.head = sp_format(arena, "%s %% %s", report_percent(arena, frac), a > b ? "slower" : "faster");
        choose_items(diff, a - b, &part);
    }
    return part;
}

/* Nothing where the two are alike. */
static struct part size_part(struct sp_arena *arena, const struct report_diff *diff)
{
    double difference = number_at(diff->a, "peak_bytes") - number_at(diff->b, "peak_bytes");
    struct part part = {.head = "", .list = "memory_bytes"};
    if (fabs(difference) >= LEAST_BYTES) {
        part.head = sp_format(arena, "%s GiB %s memory", report_three(arena, fabs(difference) / GIB),
                              difference > 0.0 ? "more" : "less");
        choose_items(diff, difference, &part);
    }
    return part;
}

/* Clusters of two sizes: their items are not comparable one by one. */
static struct part cluster_part(struct sp_arena *arena, const struct report_diff *diff)
{
    double ratio = number_at(diff->b, "step_time_s") / number_at(diff->a, "step_time_s");
    const char *speed = ratio >= 1.0 ? sp_format(arena, "%s x as fast", report_three(arena, ratio))
                                     : sp_format(arena, "%s %% slower", report_percent(arena, 1.0 / ratio - 1.0));
    return (struct part){.head = sp_format(arena, "%.0f GPUs instead of %.0f, %s", number_at(diff->a, "gpus"),
                                           number_at(diff->b, "gpus"), speed)};
}

/* What a token costs, in GPU-hours: the price is the same for all. */
static struct part cost_part(struct sp_arena *arena, const struct report_diff *diff)
{
    double a = number_at(diff->a, "step_time_s") * number_at(diff->a, "gpus");
    double b = number_at(diff->b, "step_time_s") * number_at(diff->b, "gpus");
    double frac = a > b ? a / b - 1.0 : b / a - 1.0;
    if (frac < LEAST_FRAC) {
        return (struct part){.head = "as cheap"};
    }
    return (struct part){.head =
                             sp_format(arena, "%s %% %s", report_percent(arena, frac), a > b ? "dearer" : "cheaper")};
}

/* ---- one plan ---------------------------------------------------------------------------------------------------- */

/* Items one after the other; a cause that two share stands once, behind both. */
static const char *reasons_text(struct sp_arena *arena, const struct report_diff *diff, const struct part *part,
                                int n_items)
{
    const struct report_item *items = part->items;
    const char *text = "";
    for (int i = 0; i < n_items; i++) {
        const char *cause = report_item_cause(arena, diff, &items[i]);
        bool is_shared = i + 1 < n_items && strcmp(cause, report_item_cause(arena, diff, &items[i + 1])) == 0;
        const char *own = is_shared || cause[0] == '\0' ? "" : sp_format(arena, " (%s)", cause);
        text = sp_format(arena, "%s%s%s%s", text, i == 0 ? "" : ", ", amount_text(arena, part->list, &items[i]), own);
    }
    return text;
}

enum { MAX_PARTS = 3 };

/* The parts of a difference in the order in which they are told: what counts first, first. */
struct parts {
    int n;
    struct part items[MAX_PARTS];
};

static void add_part(struct parts *parts, const struct part *part)
{
    if (part->head[0] != '\0') {
        parts->items[parts->n++] = *part;
    }
}

static bool is_other_cluster(const struct report_diff *diff)
{
    return fabs(number_at(diff->a, "gpus") - number_at(diff->b, "gpus")) > 0.0;
}

static struct parts parts_of(struct sp_arena *arena, const struct report_plan *plan, const struct report_diff *diff)
{
    const struct part speed = is_other_cluster(diff) ? cluster_part(arena, diff) : speed_part(arena, diff);
    const struct part size = size_part(arena, diff);
    const struct part cost = cost_part(arena, diff);
    struct parts parts = {0};
    if (plan->asked->objective == PLAN_COST) {
        add_part(&parts, &cost);
    }
    bool is_size_first = plan->asked->objective == PLAN_MEMORY;
    add_part(&parts, is_size_first ? &size : &speed);
    add_part(&parts, is_size_first ? &speed : &size);
    return parts;
}

/* The first part with its reasons; the others with theirs too where memory against time is what the layout is for. */
static const char *differs_text(struct sp_arena *arena, const struct report_plan *plan, const struct report_diff *diff,
                                bool is_on_front)
{
    struct parts parts = parts_of(arena, plan, diff);
    const char *texts[MAX_PARTS] = {""};
    bool is_explained = false;
    for (int i = 0; i < parts.n; i++) {
        const struct part *part = &parts.items[i];
        bool has_reasons = part->n_items > 0 && (!is_explained || is_on_front);
        texts[i] = has_reasons ? sp_format(arena, "%s: %s", part->head, reasons_text(arena, diff, part, part->n_items))
                               : part->head;
        is_explained = is_explained || has_reasons;
    }
    return sp_join(arena, texts, (size_t)parts.n, "; ");
}

/* Without what has a column, and no longer than a line if that can be. */
static const char *brief_text(struct sp_arena *arena, const struct report_plan *plan, const struct report_diff *diff)
{
    enum { ROOM = REPORT_COLUMNS - 6 };
    if (is_other_cluster(diff)) {
        return cluster_part(arena, diff).head;
    }
    struct parts parts = parts_of(arena, plan, diff);
    for (int i = 0; i < parts.n; i++) {
        const struct part *part = &parts.items[i];
        for (int n = part->n_items; n > 0; n--) {
            const char *text = reasons_text(arena, diff, part, n);
            if (report_text_width(text) <= ROOM || n == 1) {
                return text;
            }
        }
    }
    return differs_text(arena, plan, diff, false);
}

/* The first one: by what it is first, and how far the next is. */
static const char *first_text(struct sp_arena *arena, const struct report_plan *plan)
{
    static const char *const titles[N_PLAN_OBJECTIVES] = {[PLAN_THROUGHPUT] = "fastest",
                                                          [PLAN_MEMORY] = "smallest peak",
                                                          [PLAN_GPUS] = "fewest GPUs",
                                                          [PLAN_COST] = "cheapest"};
    const char *considered = report_count(arena, plan->plan->considered);
    if (plan->plan->n_layouts == 1) {
        return sp_format(arena, "the only one that fits of %s considered", considered);
    }
    int *rows = sp_arena_array(arena, (size_t)plan->plan->n_layouts, sizeof(*rows));
    int next = report_plan_ranked(plan, rows) > 1 ? rows[1] : 1; /* of another family, if there is one */
    const struct report_diff diff = {.a = plan->answers[next], .b = plan->answers[0]};
    const char *differs = differs_text(arena, plan, &diff, false);
    return sp_format(arena, "%s of %s considered; next best: %s, %.*s", titles[plan->asked->objective], considered,
                     report_layout_difference(arena, &diff), (int)strcspn(differs, ":;"), differs);
}

const char *report_plan_differs(struct sp_arena *arena, const struct report_plan *plan, int i)
{
    if (i == 0) {
        return first_text(arena, plan);
    }
    const struct report_diff diff = {.a = plan->answers[i], .b = plan->answers[0]};
    return differs_text(arena, plan, &diff, plan->plan->layouts[i].is_on_front);
}

const char *report_plan_brief(struct sp_arena *arena, const struct report_plan *plan, int i)
{
    if (i == 0) {
        return first_text(arena, plan);
    }
    const struct report_diff diff = {.a = plan->answers[i], .b = plan->answers[0]};
    return brief_text(arena, plan, &diff);
}
