/* A run of measurements for reading: the machine, the groups, and what is to be known of them. */
#include "report/report.h"

#include <inttypes.h>
#include <string.h>

static const double PER_MEGA = 1e-6;

static const char *text_of(const struct sp_json *machine, const char *key)
{
    const struct sp_json *member = sp_json_member(machine, key);
    return member == NULL || member->type != SP_JSON_STRING ? "" : member->string;
}

static double number_of(const struct sp_json *machine, const char *key)
{
    const struct sp_json *member = sp_json_member(machine, key);
    return member == NULL || member->type != SP_JSON_NUMBER ? 0.0 : member->number;
}

/* ---- the heading ------------------------------------------------------------------------------------------------ */

static const char *machine_text(struct sp_arena *arena, const struct sp_json *machine)
{
    static const struct {
        const char *key, *title;
    } texts[] = {{"host", "host"}, {"driver", "driver"}, {"cuda", "CUDA"}, {"nccl", "NCCL"}};
    static const struct {
        const char *key, *title, *unit;
        double scale;
    } numbers[] = {{"sm_clock_hz", "SM clock", "MHz", PER_MEGA},
                   {"memory_clock_hz", "memory clock", "MHz", PER_MEGA},
                   {"power_limit_w", "power limit", "W", 1.0}};
    struct sp_texts parts = {.arena = arena};
    double n_gpus = number_of(machine, "gpus");
    double n_nodes = number_of(machine, "nodes");
    sp_texts_add(&parts, "%s%s%s", n_nodes > 1.0 ? sp_format(arena, "%.0f nodes of ", n_nodes) : "",
                 n_gpus > 0.0 ? sp_format(arena, "%.0f x ", n_gpus) : "", text_of(machine, "gpu"));
    for (size_t i = 0; i < SP_COUNT_OF(texts); i++) {
        if (text_of(machine, texts[i].key)[0] != '\0') {
            sp_texts_add(&parts, "%s %s", texts[i].title, text_of(machine, texts[i].key));
        }
    }
    for (size_t i = 0; i < SP_COUNT_OF(numbers); i++) {
        double value = number_of(machine, numbers[i].key);
        if (value > 0.0) {
            sp_texts_add(&parts, "%s %.0f %s", numbers[i].title, value * numbers[i].scale, numbers[i].unit);
        }
    }
    return sp_join(arena, parts.items, parts.count, ", ");
}

static size_t count_refused(const struct report_measured *measured)
{
    size_t n_refused = 0;
    for (size_t i = 0; i < measured->n_rows; i++) {
        n_refused += measured->rows[i].kind == MEASUREMENT_REFUSED ? 1 : 0;
    }
    return n_refused;
}

static const char *run_text(struct sp_arena *arena, const struct report_measured *measured)
{
    size_t n_refused = count_refused(measured);
    const char *date = text_of(measured->machine, "date");
    const char *planned =
        measured->is_finished || measured->n_planned == 0 ? "" : sp_format(arena, " of %" PRId64, measured->n_planned);
    return sp_format(arena, "run %" PRId64 "%s%s, %s: %zu%s measured, %zu refused%s", measured->id,
                     measured->profile[0] == '\0' ? "" : ", ", measured->profile,
                     date[0] == '\0' ? measured->begun_at : date, measured->n_rows - n_refused, planned, n_refused,
                     measured->is_finished ? "" : ", not finished");
}

static void print_heading(const struct report_style *style, struct sp_arena *arena,
                          const struct report_measured *measured)
{
    bool is_markdown = style->format == REPORT_MARKDOWN;
    const char *machine = machine_text(arena, measured->machine);
    (void)fputs(report_color(style, REPORT_BOLD), style->file);
    report_wrap(style->file, 0, "", is_markdown ? sp_format(arena, "**%s**", machine) : machine);
    (void)fputs(report_color(style, REPORT_PLAIN), style->file);
    (void)fputs(is_markdown ? "\n" : "", style->file);
    report_wrap(style->file, 0, "", run_text(arena, measured));
}

/* ---- groups ----------------------------------------------------------------------------------------------------- */

static void print_group(const struct report_style *style, struct sp_arena *arena,
                        const struct report_measured_group *group)
{
    struct sp_texts notes = {.arena = arena};
    (void)fputc('\n', style->file);
    report_grid_print(style, &group->grid);
    if (group->constants[0] != '\0') {
        sp_texts_add(&notes, "%s", group->constants);
    }
    if (group->n_shown < group->n_timed) {
        sp_texts_add(&notes, "%d of %d are shown: --format csv has all", group->n_shown, group->n_timed);
    }
    if (notes.count > 0) {
        (void)fputs(style->format == REPORT_MARKDOWN ? "\n" : "", style->file);
        report_wrap(style->file, style->format == REPORT_MARKDOWN ? 0 : 4, "", report_join_texts(arena, &notes));
    }
}

/* ---- remarks ---------------------------------------------------------------------------------------------------- */

static void print_remark(const struct report_style *style, const char *label, const char *text)
{
    if (style->format == REPORT_MARKDOWN) {
        (void)fprintf(style->file, "- %s: %s\n", label, text);
    } else {
        char padded[16];
        (void)snprintf(padded, sizeof(padded), "%-8s", label);
        report_wrap(style->file, 2, padded, text);
    }
}

/* "12 measurements while power held the clocks down" */
static void remark_throttle(const struct report_style *style, struct sp_arena *arena,
                            const struct report_measured *measured)
{
    struct sp_texts causes = {.arena = arena};
    size_t n_throttled = 0;
    for (size_t i = 0; i < measured->n_rows; i++) {
        const struct measurement *row = &measured->rows[i];
        if (row->kind == MEASUREMENT_TIMED && strcmp(row->throttle, "none") != 0) {
            n_throttled++;
            sp_texts_add(&causes, "%s", row->throttle);
        }
    }
    if (n_throttled > 0) {
        print_remark(style, "warning",
                     sp_format(arena, "%zu measurement%s made while the GPU held its clocks down (%s)", n_throttled,
                               n_throttled == 1 ? " was" : "s were", sp_join(arena, causes.items, causes.count, ", ")));
    }
}

/* What the device program would not report is no figure here either. */
static void remark_refused(const struct report_style *style, struct sp_arena *arena,
                           const struct report_measured *measured)
{
    enum { MOST_NAMED = 8 };
    size_t n_refused = 0;
    for (size_t i = 0; i < measured->n_rows; i++) {
        const struct measurement *row = &measured->rows[i];
        if (row->kind != MEASUREMENT_REFUSED) {
            continue;
        }
        n_refused++;
        if (n_refused <= MOST_NAMED) {
            print_remark(style, "refused",
                         sp_format(arena, "%s, %s: %s", measurement_group_names[row->group], row->key, row->reason));
        }
    }
    if (n_refused > MOST_NAMED) {
        print_remark(style, "refused", sp_format(arena, "%zu more: --format csv has all", n_refused - MOST_NAMED));
    }
}

static void print_remarks(const struct report_style *style, struct sp_arena *arena,
                          const struct report_measured *measured)
{
    (void)fputc('\n', style->file);
    remark_throttle(style, arena, measured);
    remark_refused(style, arena, measured);
    if (!measured->is_finished) {
        print_remark(
            style, "warning",
            sp_format(arena, "this run is not finished: seqplan measure --resume %" PRId64 " goes on", measured->id));
    }
}

static bool has_remarks(const struct report_measured *measured)
{
    bool has_any = !measured->is_finished;
    for (size_t i = 0; i < measured->n_rows && !has_any; i++) {
        const struct measurement *row = &measured->rows[i];
        has_any = row->kind == MEASUREMENT_REFUSED || strcmp(row->throttle, "none") != 0;
    }
    return has_any;
}

void report_measured_table(const struct report_style *style, struct sp_arena *arena,
                           const struct report_measured *measured)
{
    print_heading(style, arena, measured);
    for (int i = 0; i < N_MEASUREMENT_GROUPS; i++) {
        struct report_measured_group group;
        if (report_measured_grid(arena, measured, (enum measurement_group)i, &group)) {
            print_group(style, arena, &group);
        }
    }
    if (has_remarks(measured)) {
        print_remarks(style, arena, measured);
    }
}
