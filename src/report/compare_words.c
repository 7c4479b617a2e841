/* The lines below a comparison: the fastest method that fits, then which is faster than the next, and why. */
#include "report/report.h"

#include <assert.h>
#include <string.h>

/* What it means for the slower of two that an item of time is larger. */
static const char *const reasons[N_TIME_ITEMS] = {
    [TIME_ATTENTION] = "whose attention kernels take longer",
    [TIME_GEMM] = "whose matrix products take longer",
    [TIME_ELEMENTWISE] = "whose element-wise kernels take longer",
    [TIME_TP_EXPOSED] = "whose tp traffic is more exposed",
    [TIME_SP_EXPOSED] = "whose merges and copies take longer",
    [TIME_DP_EXPOSED] = "whose weight and gradient traffic is more exposed",
    [TIME_PP_EXPOSED] = "whose pipeline hops are more exposed",
    [TIME_EP_EXPOSED] = "whose expert traffic is more exposed",
    [TIME_BUBBLE] = "whose pipeline idles longer",
    [TIME_IMBALANCE] = "whose ranks wait for the one with most work",
    [TIME_OPTIMIZER] = "whose optimizer step takes longer",
    [TIME_OFFLOAD_EXPOSED] = "whose offload traffic is more exposed",
    [TIME_OTHER] = "whose host takes longer",
};

static double number_at(const struct sp_json *answer, const char *path)
{
    const struct sp_json *value = report_tree_at(answer, path);
    assert(value != NULL);
    return value->number;
}

static double item_of(const struct sp_json *answer, int item)
{
    const struct sp_json *value = sp_json_member(report_tree_at(answer, "time_s"), time_names[item]);
    return value == NULL ? 0.0 : value->number;
}

/* The sp transfers that expose most, as a plural: "all-to-alls". NULL when merges and copies outweigh them. */
static const char *exposed_transfers(struct sp_arena *arena, const struct sp_json *answer)
{
    const struct sp_json *rows = report_tree_at(answer, "communication");
    const char *largest = NULL;
    double largest_s = 0.0;
    double all_s = 0.0;
    for (const struct sp_json *row = rows == NULL ? NULL : rows->first; row != NULL; row = row->next) {
        double exposed_s = number_at(row, "exposed_s");
        if (strcmp(report_tree_at(row, "axis")->string, "sp") != 0) {
            continue;
        }
        all_s += exposed_s;
        if (exposed_s > largest_s) {
            largest_s = exposed_s;
            largest = report_tree_at(row, "operation")->string;
        }
    }
    if (largest == NULL || all_s < item_of(answer, TIME_SP_EXPOSED) / 2.0) {
        return NULL;
    }
    return strcmp(largest, "ring") == 0 ? "ring hops" : sp_format(arena, "%ss", largest);
}

/* Why `slow` takes longer: the item that grows most, and by how much. */
static const char *reason_text(struct sp_arena *arena, const struct sp_json *fast, const struct sp_json *slow)
{
    int largest = 0;
    double growth = item_of(slow, 0) - item_of(fast, 0);
    for (int i = 1; i < (int)N_TIME_ITEMS; i++) {
        double own = item_of(slow, i) - item_of(fast, i);
        if (own > growth) {
            growth = own;
            largest = i;
        }
    }
    const char *reason = reasons[largest];
    const char *transfers = largest == (int)TIME_SP_EXPOSED ? exposed_transfers(arena, slow) : NULL;
    if (transfers != NULL) {
        reason = sp_format(arena, "whose %s are exposed", transfers);
    }
    return sp_format(arena, "%s (+%s)", reason, report_step_time(arena, growth));
}

/* "zigzag: 4.8 % faster than ulysses, whose all-to-alls are exposed (+12.3 s)" */
static const char *pair_text(struct sp_arena *arena, const struct report_rows *rows, int fast, int slow)
{
    static const double least = 0.0005; /* rounds to 0.1 % */
    const struct sp_json *a = rows->rows[fast].answer;
    const struct sp_json *b = rows->rows[slow].answer;
    double gain = number_at(a, "tokens_per_s_per_gpu") / number_at(b, "tokens_per_s_per_gpu") - 1.0;
    const char *first = report_row_name(arena, rows, fast);
    const char *second = report_row_name(arena, rows, slow);
    if (gain < least) {
        return sp_format(arena, "%s: as fast as %s", first, second);
    }
    return sp_format(arena, "%s: %s %% faster than %s, %s", first, report_percent(arena, gain), second,
                     reason_text(arena, a, b));
}

static bool fits(const struct report_rows *rows, int row)
{
    return report_row_error(rows, row) == NULL && report_tree_at(rows->rows[row].answer, "fits")->boolean;
}

/* A bound, which no implementation reaches: not among those that are ranked while a real one fits. */
static bool is_bound(const struct report_rows *rows, int row)
{
    const struct sp_json *framework = report_tree_at(rows->rows[row].answer, "layout.framework");
    return strcmp(framework->string, framework_names[FRAMEWORK_IDEAL]) == 0;
}

/* Rows that fit, bounds or the others, the fastest first; of equals the one that stands first. */
static int rank_rows(const struct report_rows *rows, bool bounds, int *ranked)
{
    int n_ranked = 0;
    for (int row = 0; row < rows->n_rows; row++) {
        if (!fits(rows, row) || is_bound(rows, row) != bounds) {
            continue;
        }
        double rate = number_at(rows->rows[row].answer, "tokens_per_s_per_gpu");
        int at = n_ranked++;
        while (at > 0 && number_at(rows->rows[ranked[at - 1]].answer, "tokens_per_s_per_gpu") < rate) {
            ranked[at] = ranked[at - 1];
            at--;
        }
        ranked[at] = row;
    }
    return n_ranked;
}

static void print_line(const struct report_style *style, const char *label, const char *text)
{
    if (style->format == REPORT_MARKDOWN) {
        (void)fprintf(style->file, "- %s%s%s\n", label, label[0] == '\0' ? "" : ": ", text);
        return;
    }
    char padded[16];
    (void)snprintf(padded, sizeof(padded), "%-8s", label);
    report_wrap(style->file, 2, padded, text);
}

/* Of the rows that keep the rules the one that lacks least memory, a bound only when there is nothing else. */
static int nearest_row(const struct report_rows *rows)
{
    int nearest = -1;
    for (int row = 0; row < rows->n_rows; row++) {
        if (report_row_error(rows, row) != NULL) {
            continue;
        }
        bool is_real = nearest >= 0 && is_bound(rows, nearest) && !is_bound(rows, row);
        bool is_alike = nearest >= 0 && is_bound(rows, nearest) == is_bound(rows, row);
        double headroom = number_at(rows->rows[row].answer, "headroom_bytes");
        bool is_nearer = is_alike && headroom > number_at(rows->rows[nearest].answer, "headroom_bytes");
        nearest = nearest < 0 || is_real || is_nearer ? row : nearest;
    }
    return nearest;
}

static const char *nearest_text(struct sp_arena *arena, const struct report_rows *rows)
{
    static const double gib = 0x1p30;
    int nearest = nearest_row(rows);
    if (nearest < 0) {
        return "no method keeps the rules";
    }
    const struct sp_json *answer = rows->rows[nearest].answer;
    return sp_format(arena, "none fits; nearest: %s (peak %s of %s GiB)", report_row_name(arena, rows, nearest),
                     report_three(arena, number_at(answer, "peak_bytes") / gib),
                     report_three(arena, number_at(answer, "capacity_bytes") / gib));
}

static const char *rate_text(struct sp_arena *arena, const struct report_rows *rows, int row)
{
    return sp_format(arena, "%s (%s tokens/s/GPU)", report_row_name(arena, rows, row),
                     report_three(arena, number_at(rows->rows[row].answer, "tokens_per_s_per_gpu")));
}

void report_compare_words(const struct report_style *style, struct sp_arena *arena, const struct report_rows *rows)
{
    int *ranked = sp_arena_array(arena, (size_t)rows->n_rows + 1, sizeof(*ranked));
    int *bounds = sp_arena_array(arena, (size_t)rows->n_rows + 1, sizeof(*bounds));
    int n_ranked = rank_rows(rows, false, ranked);
    int n_bounds = rank_rows(rows, true, bounds);
    (void)fputc('\n', style->file);
    if (n_ranked + n_bounds == 0) {
        print_line(style, "fastest", nearest_text(arena, rows));
        return;
    }
    if (n_ranked > 0) {
        print_line(style, "fastest", sp_format(arena, "%s of those that fit", rate_text(arena, rows, ranked[0])));
    }
    for (int i = 1; i < n_ranked; i++) {
        print_line(style, i == 1 ? "why" : "", pair_text(arena, rows, ranked[i - 1], ranked[i]));
    }
    bool is_above =
        n_bounds > 0 && (n_ranked == 0 || number_at(rows->rows[bounds[0]].answer, "tokens_per_s_per_gpu") >
                                              number_at(rows->rows[ranked[0]].answer, "tokens_per_s_per_gpu"));
    if (is_above) { /* kernels and loss of a bound can be slower than a framework's */
        print_line(style, "bound",
                   sp_format(arena, "%s at best; no implementation", rate_text(arena, rows, bounds[0])));
    }
}
