/* What of two layouts makes an item of time or memory differ: the settings that bear on it, or the transfers behind it. */
#include "report/report.h"

#include <math.h>
#include <string.h>

static const double ALIKE_FRAC = 0.01; /* figures this near are told as the same */

static double number_at(const struct sp_json *object, const char *path)
{
    const struct sp_json *value = object == NULL ? NULL : report_tree_at(object, path);
    return value == NULL || value->type != SP_JSON_NUMBER ? 0.0 : value->number;
}

static bool is_alike(double a, double b)
{
    return fabs(a - b) <= ALIKE_FRAC * fmax(fabs(a), fabs(b));
}

/* ---- settings ---------------------------------------------------------------------------------------------------- */

/* Settings of a layout in the order in which they bear on an item, by key; each as options call it. */
static const struct {
    const char *item;
    const char *settings;
} bearing[] = {
    {"attention", "recompute sp_method tp sp sp_ulysses framework micro_batch"},
    {"gemm", "recompute tp sp micro_batch framework"},
    {"elementwise", "recompute framework kernels tp"},
    {"bubble", "schedule pp vpp dp micro_batch"},
    {"imbalance", "sp_method pp vpp"},
    {"optimizer", "zero offload tp pp framework"},
    {"offload_exposed", "offload recompute micro_batch"},
    {"other", "framework micro_batch pp"},
    {"weights", "zero offload tp pp framework"},
    {"gradients", "zero tp pp framework"},
    {"activations", "recompute offload micro_batch schedule vpp pp tp sp framework"},
    {"attention_buffers", "sp_method sp_ulysses micro_batch tp sp framework"},
    {"logits", "tp sp micro_batch framework"},
    {"communication_buffers", "sp_method zero tp sp micro_batch framework"},
    {"runtime", "framework zero pp"},
};

/* How much a step recomputes, as a share of the model's FLOP. */
static double recomputed_frac(const struct sp_json *answer)
{
    return number_at(answer, "hfu_frac") / number_at(answer, "mfu_frac") - 1.0;
}

/* More recomputation takes time and saves activations. Of time it is named where it makes up half of the item, or where
 * nothing else differs. */
static bool points_that_way(const struct report_diff *diff, const struct report_item *item, bool is_last_resort)
{
    static const double most_of_it = 0.5;
    double more_frac = recomputed_frac(diff->a) - recomputed_frac(diff->b);
    if (strcmp(item->name, "activations") == 0) {
        return more_frac * item->difference < 0.0;
    }
    double item_s = number_at(sp_json_member(diff->b, "time_s"), item->name);
    double expected_s = more_frac / (1.0 + recomputed_frac(diff->b)) * item_s;
    double least = is_last_resort ? 0.0 : most_of_it;
    return expected_s * item->difference > 0.0 && fabs(expected_s) >= least * fabs(item->difference);
}

static const char *first_setting(struct sp_arena *arena, const struct report_diff *diff, const char *settings,
                                 const struct report_item *item, bool is_last_resort)
{
    while (*settings != '\0') {
        size_t length = strcspn(settings, " ");
        const char *key = sp_strndup(arena, settings, length);
        settings += length + (settings[length] == ' ' ? 1 : 0);
        bool is_recompute = strcmp(key, "recompute") == 0;
        const char *text = report_setting_instead(arena, diff, key);
        if (text[0] != '\0' && (!is_recompute || points_that_way(diff, item, is_last_resort))) {
            return text;
        }
    }
    return "";
}

/* The first setting that differs and bears on the item. */
static const char *setting_cause(struct sp_arena *arena, const struct report_diff *diff, const char *settings,
                                 const struct report_item *item)
{
    const char *text = first_setting(arena, diff, settings, item, false);
    return text[0] != '\0' ? text : first_setting(arena, diff, settings, item, true);
}

/* ---- bubble ------------------------------------------------------------------------------------------------------ */

static const char *pipeline_text(struct sp_arena *arena, const struct sp_json *answer, bool has_schedule)
{
    double vpp = number_at(answer, "layout.vpp");
    const char *chunks = vpp > 1.0 ? sp_format(arena, " vpp %.0f", vpp) : "";
    const char *schedule = has_schedule ? report_tree_at(answer, "layout.schedule")->string : "";
    return sp_format(arena, "%s%spp %.0f%s with %.0f", schedule, has_schedule ? " " : "",
                     number_at(answer, "layout.pp"), chunks, number_at(answer, "micro_batches"));
}

/* "pp 7 vpp 2 with 12 micro-batches instead of pp 3 with 24" */
static const char *bubble_cause(struct sp_arena *arena, const struct report_diff *diff)
{
    bool has_schedule = report_setting_instead(arena, diff, "schedule")[0] != '\0';
    const char *a = pipeline_text(arena, diff->a, has_schedule);
    const char *b = pipeline_text(arena, diff->b, has_schedule);
    const char *plural = number_at(diff->a, "micro_batches") > 1.0 ? "es" : "";
    if (!(number_at(diff->b, "layout.pp") > 1.0)) {
        return sp_format(arena, "%s micro-batch%s", a, plural);
    }
    return strcmp(a, b) == 0 ? "" : sp_format(arena, "%s micro-batch%s instead of %s", a, plural, b);
}

/* ---- transfers --------------------------------------------------------------------------------------------------- */

/* All rows of an axis and an operation: what it sends a layer, and how much of it is on the critical path. */
struct traffic {
    const char *operation;
    const char *tier;
    double bytes, messages; /* of a layer and micro-batch */
    double step_bytes, time_s, exposed_s;
};

static const char *tier_text(const char *name)
{
    int tier = sp_index_of(name, tier_names);
    bool is_network = tier == (int)TIER_NETWORK || tier < 0;
    return is_network                ? "the network"
           : tier == (int)TIER_MIXED ? "NVLink and the network"
                                     : report_tier_title((enum tier)tier);
}

static struct traffic traffic_of(const struct sp_json *answer, const char *axis, const char *operation)
{
    struct traffic traffic = {.operation = operation};
    for (const struct sp_json *row = report_tree_at(answer, "communication")->first; row != NULL; row = row->next) {
        bool is_part = strcmp(report_tree_at(row, "axis")->string, axis) == 0 &&
                       strcmp(report_tree_at(row, "operation")->string, operation) == 0;
        if (is_part) {
            traffic.tier = report_tree_at(row, "tier")->string;
            traffic.bytes += number_at(row, "bytes_per_layer_per_gpu");
            traffic.messages += number_at(row, "messages_per_layer");
            traffic.step_bytes += number_at(row, "bytes_per_step_per_gpu");
            traffic.time_s += number_at(row, "time_s");
            traffic.exposed_s += number_at(row, "exposed_s");
        }
    }
    return traffic;
}

/* The operation of an axis whose exposed time differs most in the direction of the item. */
static const char *main_operation(const struct report_diff *diff, const char *axis, double difference)
{
    const struct sp_json *answers[] = {diff->a, diff->b};
    const char *largest = NULL;
    double largest_s = 0.0;
    for (size_t i = 0; i < SP_COUNT_OF(answers); i++) {
        const struct sp_json *row = report_tree_at(answers[i], "communication")->first;
        for (; row != NULL; row = row->next) {
            const char *operation = report_tree_at(row, "operation")->string;
            if (strcmp(report_tree_at(row, "axis")->string, axis) != 0) {
                continue;
            }
            double own_s =
                traffic_of(diff->a, axis, operation).exposed_s - traffic_of(diff->b, axis, operation).exposed_s;
            own_s = difference > 0.0 ? own_s : -own_s;
            if (own_s > largest_s) {
                largest_s = own_s;
                largest = operation;
            }
        }
    }
    return largest;
}

/* What of the same transfer differs: link, hops, bytes, or how much of it hides. */
static const char *transfer_text(struct sp_arena *arena, const struct traffic *a, const struct traffic *b)
{
    static const double mb = 1e6;
    static const double gb = 1e9;
    const char *over = sp_format(arena, "%s over %s", a->operation, tier_text(a->tier));
    if (strcmp(a->tier, b->tier) != 0) {
        return sp_format(arena, "%s instead of %s", over, tier_text(b->tier));
    }
    bool is_ring = strcmp(a->operation, "ring") == 0;
    if (is_ring && !is_alike(a->messages, b->messages)) {
        return sp_format(arena, "%s: %.0f hops a layer instead of %.0f", over, a->messages, b->messages);
    }
    if (!is_alike(a->bytes, b->bytes)) {
        return sp_format(arena, "%s: %s MB a layer instead of %s", over, report_three(arena, a->bytes / mb),
                         report_three(arena, b->bytes / mb));
    }
    if (!is_alike(a->step_bytes, b->step_bytes)) {
        return sp_format(arena, "%s: %s GB a step instead of %s", over, report_three(arena, a->step_bytes / gb),
                         report_three(arena, b->step_bytes / gb));
    }
    if (!(a->time_s > 0.0) || !(b->time_s > 0.0)) {
        return over;
    }
    double hidden_a = 1.0 - a->exposed_s / a->time_s;
    double hidden_b = 1.0 - b->exposed_s / b->time_s;
    if (is_alike(hidden_a, hidden_b) || (hidden_a < hidden_b) != (a->exposed_s > b->exposed_s)) {
        return over;
    }
    return sp_format(arena, "%s: %s %% hidden instead of %s %%", over, report_percent(arena, fmax(hidden_a, 0.0)),
                     report_percent(arena, fmax(hidden_b, 0.0)));
}

static const char *transfer_cause(struct sp_arena *arena, const struct report_diff *diff, const char *axis,
                                  double difference)
{
    const char *operation = main_operation(diff, axis, difference);
    if (operation == NULL) {
        return "";
    }
    struct traffic a = traffic_of(diff->a, axis, operation);
    struct traffic b = traffic_of(diff->b, axis, operation);
    if (a.tier != NULL && b.tier != NULL) {
        return transfer_text(arena, &a, &b);
    }
    const struct traffic *only = a.tier != NULL ? &a : &b;
    return sp_format(arena, "%s%s over %s", a.tier != NULL ? "" : "no ", operation, tier_text(only->tier));
}

/* ---- any item ---------------------------------------------------------------------------------------------------- */

const char *report_item_cause(struct sp_arena *arena, const struct report_diff *diff, const struct report_item *item)
{
    static const char exposed[] = "_exposed";
    const char *suffix = strstr(item->name, exposed);
    if (strcmp(item->name, "bubble") == 0) {
        return bubble_cause(arena, diff);
    }
    if (suffix != NULL && strcmp(item->name, "offload_exposed") != 0) {
        const char *axis = sp_strndup(arena, item->name, (size_t)(suffix - item->name));
        return transfer_cause(arena, diff, axis, item->difference);
    }
    for (size_t i = 0; i < SP_COUNT_OF(bearing); i++) {
        if (strcmp(bearing[i].item, item->name) == 0) {
            return setting_cause(arena, diff, bearing[i].settings, item);
        }
    }
    return "";
}
