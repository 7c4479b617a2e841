/* Tables of nccl-tests as measurement lines of group "collective", as the device program prints them: message_bytes is
 * what nccl-tests calls the size, the result of an all-gather, the input of a reduce-scatter, the buffer of an all-reduce
 * or an all-to-all, one message of send and receive. */
#include "fit/nccl_log.h"

#include <stdlib.h>
#include <string.h>

struct making {
    struct import_result *result;
    const struct nccl_table *table;
    const struct nccl_identity *identity;
    struct store_measurement *rows;
    size_t n_rows;
    int64_t *repeats[2]; /* of each row, by half */
    int64_t n_wrong;     /* halves whose results had wrong values */
};

static int compare_texts_of(const struct nccl_row *a, const struct nccl_row *b)
{
    int order = strcmp(a->dtype, b->dtype);
    return order != 0 ? order : strcmp(a->redop, b->redop);
}

/* What is measured, but for the half; 0: the same. */
static int compare_identities(const struct nccl_row *a, const struct nccl_row *b)
{
    int order = (a->bytes > b->bytes) - (a->bytes < b->bytes);
    order = order != 0 ? order : (a->root > b->root) - (a->root < b->root);
    return order != 0 ? order : compare_texts_of(a, b);
}

static int compare_rows(const void *a, const void *b)
{
    const struct nccl_row *const *left = a;
    const struct nccl_row *const *right = b;
    int order = compare_identities(*left, *right);
    return order != 0 ? order : ((*left)->line > (*right)->line) - ((*left)->line < (*right)->line);
}

/* How often the half of each row was measured before in this table. */
static void count_repeats(struct making *making)
{
    struct sp_arena *arena = making->result->arena;
    size_t n_rows = (size_t)making->table->n_rows;
    const struct nccl_row **sorted = sp_arena_array(arena, n_rows, sizeof(*sorted));
    for (size_t i = 0; i < n_rows; i++) {
        sorted[i] = &making->table->rows[i];
    }
    qsort(sorted, n_rows, sizeof(*sorted), compare_rows);
    for (int half = 0; half < 2; half++) {
        int64_t n_before = 0;
        making->repeats[half] = sp_arena_array(arena, n_rows, sizeof(*making->repeats[half]));
        for (size_t i = 0; i < n_rows; i++) {
            n_before = i > 0 && compare_identities(sorted[i - 1], sorted[i]) == 0 ? n_before : 0;
            making->repeats[half][sorted[i] - making->table->rows] = n_before;
            n_before += sorted[i]->halves[half].is_there ? 1 : 0;
        }
    }
}

static void put_parameters(struct sp_json_writer *writer, const struct making *making, const struct nccl_row *row,
                           int half, int64_t n_repeats)
{
    sp_json_begin_object(writer, "parameters");
    sp_json_put_string(writer, "operation", import_operation_names[making->identity->operation]);
    sp_json_put_integer(writer, "ranks", making->identity->ranks);
    sp_json_put_integer(writer, "nodes", making->identity->nodes);
    sp_json_put_integer(writer, "message_bytes", row->bytes);
    sp_json_put_integer(writer, "in_place", half);
    sp_json_put_string(writer, "dtype", row->dtype);
    if (row->redop[0] != '\0') {
        sp_json_put_string(writer, "redop", row->redop);
    }
    if (row->root >= 0) {
        sp_json_put_integer(writer, "root", row->root);
    }
    if (n_repeats > 0) {
        sp_json_put_integer(writer, "repeat", n_repeats + 1);
    }
    for (int i = 0; i < N_NCCL_SETTINGS; i++) {
        if (making->table->settings[i] != NULL) {
            sp_json_put_string(writer, nccl_setting_names[i], making->table->settings[i]);
        }
    }
    sp_json_put_string(writer, "beside", "none");
    sp_json_put_string(writer, "timed", "operation");
    sp_json_end_object(writer);
}

static const char *key_of(const struct making *making, const struct nccl_row *row, int half, int64_t n_repeats)
{
    struct sp_arena *arena = making->result->arena;
    const struct nccl_identity *identity = making->identity;
    return sp_format(
        arena, "collective operation=%s ranks=%lld nodes=%lld message_bytes=%lld in_place=%d dtype=%s%s%s%s%s",
        import_operation_names[identity->operation], (long long)identity->ranks, (long long)identity->nodes,
        (long long)row->bytes, half, row->dtype, row->redop[0] == '\0' ? "" : " redop=", row->redop,
        row->root < 0 ? "" : sp_format(arena, " root=%lld", (long long)row->root),
        n_repeats == 0 ? "" : sp_format(arena, " repeat=%lld", (long long)n_repeats + 1));
}

static bool add_half(struct making *making, int64_t index, int half, struct sp_error *err)
{
    static const double us_per_s = 1e6;
    const struct nccl_row *row = &making->table->rows[index];
    int64_t n_repeats = making->repeats[half][index];
    double time_s = row->halves[half].time_us.value / us_per_s;
    double sent = (double)row->bytes * nccl_sent_share(making->identity->operation, making->identity->ranks);
    const struct import_times times = {.median_s = time_s,
                                       .min_s = time_s,
                                       .low_s = time_s,
                                       .high_s = time_s,
                                       .count = making->table->iters > 0 ? making->table->iters : 1,
                                       .bytes = sent};
    struct import_json json;
    const char *key = key_of(making, row, half, n_repeats);
    if (!import_json_open(&json, err)) {
        return false;
    }
    sp_json_put_string(&json.writer, "kind", "measurement");
    sp_json_put_string(&json.writer, "group", measurement_group_names[MEASUREMENT_COLLECTIVE]);
    sp_json_put_string(&json.writer, "key", key);
    put_parameters(&json.writer, making, row, half, n_repeats);
    import_json_times(&json.writer, &times);
    const char *line = import_json_close(&json, making->result->arena, err);
    making->rows[making->n_rows++] = (struct store_measurement){.key = key, .json = line};
    return line != NULL;
}

/* What of a row is a measurement; a note says what is not. */
static bool add_row(struct making *making, int64_t index, struct sp_error *err)
{
    struct import_result *result = making->result;
    const struct nccl_row *row = &making->table->rows[index];
    const char *text = NULL;
    const char *reason = nccl_row_flaw(result->arena, row, making->identity, &text);
    if (reason != NULL) {
        (row->bytes == 0 && row->flaw == NULL ? import_skip : import_reject)(result, row->line, reason, "%s", text);
        return true;
    }
    size_t n_before = making->n_rows;
    const char *lost = "";
    for (int half = 0; half < 2; half++) {
        if (!row->halves[half].is_there) {
            bool is_cut = half == 1 && making->table->layout.n_halves > 1 && !row->halves[half].is_unknown;
            lost = is_cut ? "; its in-place half is cut off" : lost;
            reason = is_cut ? "cut off" : reason;
            continue;
        }
        const char *flaw = nccl_half_flaw(result->arena, row, half, making->identity, &text);
        if (flaw == NULL && !add_half(making, index, half, err)) {
            return false;
        }
        making->n_wrong += flaw != NULL && strcmp(flaw, nccl_wrong_result) == 0 ? 1 : 0;
        reason = flaw != NULL ? flaw : reason;
        lost = flaw != NULL ? sp_format(result->arena, "; %s", text) : lost;
    }
    if (making->n_rows == n_before) {
        import_reject(result, row->line, reason == NULL ? "no time" : reason, "%s",
                      text == NULL ? "neither half has a time" : text);
    } else if (reason != NULL) {
        import_take_half(result, row->line, reason, "%s of %lld bytes, %zu of 2 halves%s",
                         import_operation_names[making->identity->operation], (long long)row->bytes,
                         making->n_rows - n_before, lost);
    } else {
        import_take(result, row->line, "%s of %lld bytes, %zu of 2 halves",
                    import_operation_names[making->identity->operation], (long long)row->bytes,
                    making->n_rows - n_before);
    }
    return true;
}

static const char *machine_of(const struct making *making, struct sp_error *err)
{
    const struct nccl_identity *identity = making->identity;
    struct import_json json;
    if (!import_json_open(&json, err)) {
        return NULL;
    }
    sp_json_put_string(&json.writer, "kind", "machine");
    sp_json_put_string(&json.writer, "schema", "seqplan.device/1");
    sp_json_put_string(&json.writer, "gpu", identity->gpu);
    sp_json_put_integer(&json.writer, "gpus", identity->ranks / identity->nodes);
    sp_json_put_integer(&json.writer, "nodes", identity->nodes);
    if (making->table->nccl != NULL) {
        sp_json_put_string(&json.writer, "nccl", making->table->nccl);
    }
    sp_json_put_string(&json.writer, "imported_from", "nccl-tests");
    return import_json_close(&json, making->result->arena, err);
}

bool nccl_table_import(struct import_result *result, const struct nccl_table *table,
                       const struct nccl_identity *identity, struct sp_error *err)
{
    struct making making = {.result = result, .table = table, .identity = identity};
    making.rows = sp_arena_array(result->arena, 2 * (size_t)table->n_rows, sizeof(*making.rows));
    count_repeats(&making);
    for (int64_t i = 0; i < table->n_rows; i++) {
        if (!add_row(&making, i, err)) {
            return false;
        }
    }
    const char *machine = machine_of(&making, err);
    if (machine == NULL) {
        return false;
    }
    if (making.n_wrong > 0) {
        sp_texts_add(
            &result->warnings,
            "%lld result%s of the table at line %lld had wrong values: look for the cause before you trust the "
            "times of the others",
            (long long)making.n_wrong, sp_plural(making.n_wrong), (long long)table->first_line);
    }
    const struct store_import run = {
        .run = {.profile = sp_format(result->arena, "nccl-tests %s, %lld ranks on %lld node%s",
                                     import_operation_names[identity->operation], (long long)identity->ranks,
                                     (long long)identity->nodes, sp_plural(identity->nodes)),
                .machine = machine},
        .rows = making.rows,
        .n_rows = making.n_rows};
    if (making.n_rows > 0) {
        import_add_run(result, &run);
    }
    return true;
}
