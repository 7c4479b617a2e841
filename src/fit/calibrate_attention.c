/* Attention of one kernel: its rate by pass, mask, head dimension, heads and length, and what long calls sustain. */
#include "fit/fit_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double LONG_CALL_S = 50e-3; /* as for the shipped curves (hardware/README.md) */
enum { RATE_DIGITS = 6, MOST_HEAD_DIMS = 16, MASKS = 2, PASSES = 2, N_KINDS = MASKS * PASSES };

static const char *const pass_names[] = {"forward", "backward"};
static const char *const mask_names[] = {"full", "causal"};
static const char next[] = "seqplan measure --full --only attention";

/* One line of the curve: what its points share. */
struct line_key {
    bool is_backward, is_causal;
    int64_t head_dim, heads; /* heads 0: of all numbers */
};

struct call {
    double tokens, log_rate, seconds;
};
struct calls {
    int n;
    struct call *items; /* by tokens */
};

static int by_tokens(const void *a, const void *b)
{
    const struct call *x = a;
    const struct call *y = b;
    if (x->tokens < y->tokens || x->tokens > y->tokens) {
        return x->tokens < y->tokens ? -1 : 1;
    }
    return (x->log_rate > y->log_rate) - (x->log_rate < y->log_rate);
}

static bool is_same(double a, double b)
{
    return a <= b && a >= b;
}

/* Plain calls: what adds to a sum or merges two is priced beside them. */
bool attention_point_is_plain(const struct measurement *line, struct attention_point *point)
{
    struct sp_error err;
    const char *pass = fit_text_or_none(line, "pass");
    return line->group == MEASUREMENT_ATTENTION && line->flop > 0 &&
           (strcmp(pass, "forward") == 0 || strcmp(pass, "backward") == 0) && attention_point_read(line, point, &err);
}

static struct calls calls_of(const struct calibration_work *work, const struct line_key *key)
{
    struct calls calls = {.items = sp_arena_array(work->arena, work->n_lines + 1, sizeof(struct call))};
    for (size_t i = 0; i < work->n_lines; i++) {
        struct attention_point point;
        const struct measurement *line = work->lines[i];
        if (attention_point_is_plain(line, &point) && point.is_backward == key->is_backward &&
            point.is_causal == key->is_causal && (int64_t)point.head_dim == key->head_dim &&
            (key->heads == 0 || (int64_t)point.heads == key->heads)) {
            calls.items[calls.n++] = (struct call){point.tokens, log(line->flop / line->median_s), line->median_s};
        }
    }
    if (calls.n > 0) {
        qsort(calls.items, (size_t)calls.n, sizeof(*calls.items), by_tokens);
    }
    return calls;
}

/* The next larger number of heads of a kind of line, or head_dim (key NULL), among the lines; INT64_MAX: none. */
static int64_t next_value(const struct calibration_work *work, const struct line_key *key, int64_t above)
{
    int64_t least = INT64_MAX;
    for (size_t i = 0; i < work->n_lines; i++) {
        struct attention_point point;
        if (!attention_point_is_plain(work->lines[i], &point)) {
            continue;
        }
        bool is_of_line = key == NULL || (point.is_backward == key->is_backward && point.is_causal == key->is_causal &&
                                          (int64_t)point.head_dim == key->head_dim);
        int64_t value = (int64_t)(key == NULL ? point.head_dim : point.heads);
        least = is_of_line && value > above && value < least ? value : least;
    }
    return least;
}

/* ---- one line --------------------------------------------------------------------------------------------------- */

/* What a kernel's table gathers. */
struct gathered {
    struct sp_json *rows, *ceilings, *fits;
    double noise;   /* what calls of one shape differ by, over all lines */
    double squares; /* of the lines' spreads times their points */
    int n_points;
    int64_t head_dims[MOST_HEAD_DIMS];
    int n_head_dims;
};

static void add_rows(struct sp_arena *arena, const struct line_key *key, const struct rate_curve *rates,
                     struct sp_json *rows)
{
    struct curve_samples samples = rates_sample(arena, rates);
    for (int64_t i = 0; i < samples.n; i++) {
        struct sp_json *row = json_new(arena, SP_JSON_ARRAY);
        json_add(arena, row, NULL, json_text(arena, pass_names[key->is_backward]));
        json_add(arena, row, NULL, json_text(arena, mask_names[key->is_causal]));
        json_add(arena, row, NULL, json_number(arena, (double)key->head_dim));
        json_add(arena, row, NULL, json_number(arena, (double)key->heads));
        json_add(arena, row, NULL, json_number(arena, samples.items[i].x));
        json_add(arena, row, NULL, json_number(arena, json_rounded(samples.items[i].y, RATE_DIGITS)));
        json_add(arena, rows, NULL, row);
    }
}

static const char *line_name(struct sp_arena *arena, const struct line_key *key)
{
    return sp_format(arena, "attention %s %s, %lld heads of %lld", pass_names[key->is_backward],
                     mask_names[key->is_causal], (long long)key->heads, (long long)key->head_dim);
}

static struct rate_points points_of(const struct calibration_work *work, const struct line_key *key)
{
    struct calls calls = calls_of(work, key);
    double *x = sp_arena_array(work->arena, (size_t)calls.n + 1, sizeof(*x));
    double *log_rate = sp_arena_array(work->arena, (size_t)calls.n + 1, sizeof(*log_rate));
    for (int i = 0; i < calls.n; i++) {
        x[i] = calls.items[i].tokens;
        log_rate[i] = calls.items[i].log_rate;
    }
    return (struct rate_points){.n = calls.n, .x = x, .log_rate = log_rate};
}

static bool fit_line(struct calibration_work *work, const struct line_key *key, struct gathered *gathered)
{
    struct sp_arena *arena = work->arena;
    struct rate_points points = points_of(work, key);
    struct calibration_curve *curve = calibration_curve_add(work, MEASUREMENT_ATTENTION, line_name(arena, key));
    struct rate_curve rates;
    struct sp_error err = {.kind = SP_ERROR_NONE};
    curve->n_points = points.n;
    points.noise = gathered->noise;
    if (!rates_fit(arena, &points, &rates, &err)) {
        curve->reason = sp_strdup(arena, err.text);
        curve->advice = next;
        return false;
    }
    curve->model = rates.model == RATE_TABLE ? sp_format(arena, "table of %d lengths", rates.n_sizes)
                                             : rate_model_names[rates.model];
    curve->spread = rates.sigma;
    curve->held_out = rates.held_out;
    curve->n_outliers = rates.n_outliers;
    rates_describe(arena, &rates, "length", curve);
    if (!calibration_curve_holds(arena, curve)) {
        return false;
    }
    add_rows(arena, key, &rates, gathered->rows);
    json_add(arena, gathered->fits, line_name(arena, key), calibration_fit_json(arena, curve));
    gathered->squares += curve->spread * curve->spread * points.n;
    gathered->n_points += points.n;
    return true;
}

/* ---- one head dimension ----------------------------------------------------------------------------------------- */

/* Both passes under both masks, or nothing: a method needs them all. */
static bool has_all_kinds(struct calibration_work *work, int64_t head_dim)
{
    for (int kind = 0; kind < N_KINDS; kind++) {
        const struct line_key key = {kind / MASKS != 0, kind % MASKS != 0, head_dim, 0};
        if (calls_of(work, &key).n == 0) {
            struct calibration_curve *curve = calibration_curve_add(
                work, MEASUREMENT_ATTENTION, sp_format(work->arena, "attention, heads of %lld", (long long)head_dim));
            curve->reason = sp_format(work->arena, "no call of %s %s: a curve needs both passes under both masks",
                                      pass_names[key.is_backward], mask_names[key.is_causal]);
            curve->advice = next;
            return false;
        }
    }
    return true;
}

static void add_ceiling(struct calibration_work *work, const struct line_key *key, struct gathered *gathered)
{
    struct sp_arena *arena = work->arena;
    struct calls calls = calls_of(work, key);
    double *rates = sp_arena_array(arena, (size_t)calls.n + 1, sizeof(*rates));
    int n = 0;
    for (int i = 0; i < calls.n; i++) {
        if (calls.items[i].seconds >= LONG_CALL_S) {
            rates[n++] = calls.items[i].log_rate;
        }
    }
    if (n == 0) {
        return; /* nothing is known of long calls: the table's last rate goes on */
    }
    struct sp_json *row = json_new(arena, SP_JSON_ARRAY);
    json_add(arena, row, NULL, json_text(arena, pass_names[key->is_backward]));
    json_add(arena, row, NULL, json_text(arena, mask_names[key->is_causal]));
    json_add(arena, row, NULL, json_number(arena, (double)key->head_dim));
    json_add(arena, row, NULL, json_number(arena, json_rounded(exp(median_of(arena, rates, n)), RATE_DIGITS)));
    json_add(arena, gathered->ceilings, NULL, row);
}

static void refuse_from(struct calibration_work *work, int64_t first)
{
    for (int64_t i = first; i < work->out->n_curves; i++) {
        if (work->out->curves[i].model != NULL) {
            calibration_curve_refuse(&work->out->curves[i],
                                     "a curve needs both passes under both masks, and another of "
                                     "this head dimension could not be fitted");
        }
    }
}

static bool fit_head_dim(struct calibration_work *work, int64_t head_dim, struct gathered *gathered)
{
    if (!has_all_kinds(work, head_dim)) {
        return false;
    }
    struct gathered here = *gathered;
    const int64_t n_curves = work->out->n_curves;
    bool is_whole = true;
    here.rows = json_new(work->arena, SP_JSON_ARRAY);
    here.fits = json_new(work->arena, SP_JSON_OBJECT);
    for (int kind = 0; kind < N_KINDS; kind++) {
        struct line_key key = {kind / MASKS != 0, kind % MASKS != 0, head_dim, 0};
        bool has_line = false;
        for (key.heads = next_value(work, &key, 0); key.heads < INT64_MAX;
             key.heads = next_value(work, &key, key.heads)) {
            has_line = fit_line(work, &key, &here) || has_line;
        }
        is_whole = is_whole && has_line;
    }
    if (!is_whole) {
        refuse_from(work, n_curves);
        return false;
    }
    for (const struct sp_json *fit = here.fits->first; fit != NULL; fit = fit->next) {
        json_add(work->arena, gathered->fits, fit->key, fit);
    }
    for (const struct sp_json *row = here.rows->first; row != NULL; row = row->next) {
        json_add(work->arena, gathered->rows, NULL, row);
    }
    for (int kind = 0; kind < N_KINDS; kind++) {
        const struct line_key key = {kind / MASKS != 0, kind % MASKS != 0, head_dim, 0};
        add_ceiling(work, &key, gathered);
    }
    gathered->head_dims[gathered->n_head_dims++] = head_dim;
    gathered->squares = here.squares;
    gathered->n_points = here.n_points;
    return true;
}

/* ---- the table -------------------------------------------------------------------------------------------------- */

static bool has_head_dim(const struct sp_json *rows, double head_dim)
{
    for (const struct sp_json *row = rows->first; row != NULL; row = row->next) {
        if (is_same(row->first->next->next->number, head_dim)) {
            return true;
        }
    }
    return false;
}

/* Rows of an old table whose head dimension is not in the new one. */
static struct sp_json *kept_rows(struct sp_arena *arena, const struct sp_json *old, const struct sp_json *fitted)
{
    struct sp_json *kept = json_new(arena, SP_JSON_ARRAY);
    for (const struct sp_json *row = old->first; row != NULL; row = row->next) {
        if (!has_head_dim(fitted, row->first->next->next->number)) {
            json_add(arena, kept, NULL, row);
        }
    }
    return kept;
}

/* The entries of the file, those of the kernel without what was fitted. */
static struct sp_json *kept_entries(struct calibration_work *work, const struct sp_json *fitted)
{
    struct sp_arena *arena = work->arena;
    struct sp_json *entries = json_new(arena, SP_JSON_ARRAY);
    for (const struct sp_json *entry = json_at(work->file, "gpu.attention")->first; entry != NULL;
         entry = entry->next) {
        if (strcmp(sp_json_member(entry, "kernel")->string, work->request->kernel) != 0) {
            json_add(arena, entries, NULL, entry);
            continue;
        }
        struct sp_json *rows = kept_rows(arena, sp_json_member(entry, "rows"), fitted);
        const struct sp_json *ceiling = sp_json_member(entry, "ceiling");
        const struct sp_json *clock = sp_json_member(entry, "clock");
        if (rows->count == 0) {
            continue;
        }
        const struct sp_json *kept = json_with(arena, json_with(arena, entry, "rows", rows), "tiles", NULL);
        if (ceiling != NULL) {
            struct sp_json *limits = kept_rows(arena, sp_json_member(ceiling, "rows"), fitted);
            kept = json_with(arena, kept, "ceiling", json_with(arena, ceiling, "rows", limits));
        }
        if (clock != NULL) {
            struct sp_json *clocks = kept_rows(arena, sp_json_member(clock, "rows"), fitted);
            kept = json_with(arena, kept, "clock", json_with(arena, clock, "rows", clocks));
        }
        json_add(arena, entries, NULL, kept);
    }
    return entries;
}

static struct sp_json *texts_json(struct sp_arena *arena, const char *const *texts, size_t n)
{
    struct sp_json *list = json_new(arena, SP_JSON_ARRAY);
    for (size_t i = 0; i < n; i++) {
        json_add(arena, list, NULL, json_text(arena, texts[i]));
    }
    return list;
}

/* How the kernel cuts its work is its own, on whatever machine: what the file says of that stays. */
static const struct sp_json *old_tiles(const struct calibration_work *work)
{
    for (const struct sp_json *entry = json_at(work->file, "gpu.attention")->first; entry != NULL;
         entry = entry->next) {
        const struct sp_json *tiles = sp_json_member(entry, "tiles");
        if (tiles != NULL && strcmp(sp_json_member(entry, "kernel")->string, work->request->kernel) == 0) {
            return tiles;
        }
    }
    return NULL;
}

static void write_table(struct calibration_work *work, const struct gathered *gathered)
{
    static const char *const columns[] = {"pass", "mask", "head_dim", "heads", "sequence", "flop_per_s"};
    static const char *const limits[] = {"pass", "mask", "head_dim", "flop_per_s"};
    struct sp_arena *arena = work->arena;
    const struct sp_json *tiles = old_tiles(work);
    struct sp_json *entries = kept_entries(work, gathered->rows);
    struct sp_json *entry = json_new(arena, SP_JSON_OBJECT);
    json_add(arena, entry, "kernel", json_text(arena, work->request->kernel));
    json_add(arena, entry, "kind", json_text(arena, "fitted"));
    json_add(arena, entry, "source", json_text(arena, work->out->source));
    json_add(arena, entry, "note",
             json_text(arena, "FLOPs counted 4*s*s*heads*head_dim forward, half when causal, times 2.5 backward; a "
                              "backward call with all it takes. Equal numbers of query heads with other kv heads are "
                              "averaged"));
    json_add(arena, entry, "spread", json_number(arena, json_rounded(sqrt(gathered->squares / gathered->n_points), 3)));
    json_add(arena, entry, "fit", gathered->fits);
    json_add(arena, entry, "columns", texts_json(arena, columns, SP_COUNT_OF(columns)));
    json_add(arena, entry, "rows", gathered->rows);
    if (gathered->ceilings->count > 0) {
        struct sp_json *ceiling = json_new(arena, SP_JSON_OBJECT);
        json_add(arena, ceiling, "source", json_text(arena, work->out->source));
        json_add(arena, ceiling, "note",
                 json_text(arena, "median of the calls of 50 ms and more, by pass, mask and head_dim"));
        json_add(arena, ceiling, "columns", texts_json(arena, limits, SP_COUNT_OF(limits)));
        json_add(arena, ceiling, "rows", gathered->ceilings);
        json_add(arena, entry, "ceiling", ceiling);
    }
    const struct sp_json *clock = calibration_attention_clocks(work, gathered->head_dims, gathered->n_head_dims);
    if (tiles != NULL) {
        json_add(arena, entry, "tiles", tiles); /* and with them a clock */
    } else if (clock != NULL) {
        json_add(arena, entry, "clock", clock);
    }
    json_add(arena, entries, NULL, entry);
    work->file = json_with_at(arena, work->file, "gpu.attention", entries);
}

/* Calls of one shape are those that differ in their kv heads, or were measured in several runs. */
static double noise_of(struct calibration_work *work)
{
    struct rate_noise noise = {.arena = work->arena};
    for (int64_t head_dim = next_value(work, NULL, 0); head_dim < INT64_MAX;
         head_dim = next_value(work, NULL, head_dim)) {
        for (int kind = 0; kind < N_KINDS; kind++) {
            struct line_key key = {kind / MASKS != 0, kind % MASKS != 0, head_dim, 0};
            for (key.heads = next_value(work, &key, 0); key.heads < INT64_MAX;
                 key.heads = next_value(work, &key, key.heads)) {
                struct rate_points points = points_of(work, &key);
                rate_noise_add(&noise, &points);
            }
        }
    }
    return rate_noise_of(&noise);
}

void calibrate_attention(struct calibration_work *work)
{
    struct gathered gathered = {.rows = json_new(work->arena, SP_JSON_ARRAY),
                                .ceilings = json_new(work->arena, SP_JSON_ARRAY),
                                .fits = json_new(work->arena, SP_JSON_OBJECT),
                                .noise = noise_of(work)};
    for (int64_t head_dim = next_value(work, NULL, 0); head_dim < INT64_MAX && gathered.n_head_dims < MOST_HEAD_DIMS;
         head_dim = next_value(work, NULL, head_dim)) {
        (void)fit_head_dim(work, head_dim, &gathered);
    }
    if (gathered.rows->count > 0) {
        write_table(work, &gathered);
        calibrate_tiles(work);
    }
}
