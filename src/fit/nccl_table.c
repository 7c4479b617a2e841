/* What a table of nccl-tests is of. The program prints the bus bandwidth, which is size over time times a factor of the
 * operation and the number of ranks; and count, which is the size, or the share of a rank, over the type. Together they
 * fit one operation over one number of ranks, and tell where a log and what is said of it contradict. */
#include "fit/nccl_log.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { MOST_RANKS = 1 << 20 };

enum factor { FACTOR_ALL_REDUCE, FACTOR_SHARE, FACTOR_ONE }; /* 2 (n - 1) / n, (n - 1) / n, 1 */

static const struct {
    const char *program;
    enum factor factor;
    bool counts_a_share; /* count is what one rank gives or gets, a n-th of the size */
    bool reduces;
    bool has_root;
    bool is_unchecked_in_place; /* "N/A" for wrong values */
    bool must_be_named;         /* hypercube fits where an all-gather of an old version does */
} operations[N_NCCL_OPERATIONS] = {
    [NCCL_ALL_REDUCE] = {.program = "all_reduce_perf", .factor = FACTOR_ALL_REDUCE, .reduces = true},
    [NCCL_ALL_GATHER] = {.program = "all_gather_perf", .factor = FACTOR_SHARE, .counts_a_share = true},
    [NCCL_REDUCE_SCATTER] = {.program = "reduce_scatter_perf",
                             .factor = FACTOR_SHARE,
                             .counts_a_share = true,
                             .reduces = true},
    [NCCL_ALL_TO_ALL] = {.program = "alltoall_perf",
                         .factor = FACTOR_SHARE,
                         .counts_a_share = true,
                         .is_unchecked_in_place = true},
    [NCCL_SEND_RECEIVE] = {.program = "sendrecv_perf", .factor = FACTOR_ONE, .is_unchecked_in_place = true},
    [NCCL_BROADCAST] = {.program = "broadcast_perf", .factor = FACTOR_ONE, .has_root = true},
    [NCCL_REDUCE] = {.program = "reduce_perf", .factor = FACTOR_ONE, .reduces = true, .has_root = true},
    [NCCL_GATHER] = {.program = "gather_perf", .factor = FACTOR_SHARE, .counts_a_share = true, .has_root = true},
    [NCCL_SCATTER] = {.program = "scatter_perf", .factor = FACTOR_SHARE, .counts_a_share = true, .has_root = true},
    [NCCL_HYPERCUBE] = {.program = "hypercube_perf",
                        .factor = FACTOR_SHARE,
                        .counts_a_share = true,
                        .must_be_named = true},
};

const char *const import_operation_names[] = {
    "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "send-recv-ring", "broadcast", "reduce",
    "gather",     "scatter",    "hypercube",      NULL};
_Static_assert(SP_COUNT_OF(import_operation_names) == N_NCCL_OPERATIONS + 1, "a name for each operation");

int nccl_operation_named(const char *line)
{
    int found = -1;
    size_t found_length = 0;
    for (int i = 0; i < N_NCCL_OPERATIONS; i++) {
        /* "reduce_perf" also ends "all_reduce_perf": the longest name is meant */
        size_t length = strlen(operations[i].program);
        if (length > found_length && strstr(line, operations[i].program) != NULL) {
            found = i;
            found_length = length;
        }
    }
    return found;
}

double nccl_sent_share(enum nccl_operation operation, int64_t ranks)
{
    double share = (double)(ranks - 1) / (double)ranks;
    switch (operations[operation].factor) {
    case FACTOR_ALL_REDUCE:
        return 2 * share;
    case FACTOR_SHARE:
        return share;
    case FACTOR_ONE:
        break;
    }
    return 1;
}

/* ---- does a row fit --------------------------------------------------------------------------------------------- */

struct range {
    double low, high;
};

static const double giga = 1e9;
static const double us_per_s = 1e6;

/* Bus bandwidth times time over size: the factor, as far as the printed digits tell. Their rounding is doubled: some
 * versions cut off instead. */
static struct range factor_range(const struct nccl_row *row, const struct nccl_half *half)
{
    double scale = giga / us_per_s / (double)row->bytes;
    double low_us = fmax(half->time_us.value - 2 * half->time_us.half, 0);
    double high_us = half->time_us.value + 2 * half->time_us.half;
    return (struct range){.low = fmax(half->bus_gb.value - 2 * half->bus_gb.half, 0) * low_us * scale,
                          .high = (half->bus_gb.value + 2 * half->bus_gb.half) * high_us * scale};
}

/* The algorithm bandwidth is size over time; versions before 2.10 gave that of a gather and a scatter as the bus's. */
static bool fits_algorithm(const struct nccl_row *row, const struct nccl_half *half, enum nccl_operation operation)
{
    bool is_bus = operations[operation].factor == FACTOR_SHARE &&
                  fabs(half->alg_gb.value - half->bus_gb.value) <= half->alg_gb.half;
    struct nccl_half as_bus = *half;
    as_bus.bus_gb = half->alg_gb;
    struct range range = factor_range(row, &as_bus);
    return is_bus || (range.low <= 1 && 1 <= range.high);
}

static bool fits_size(const struct nccl_row *row, enum nccl_operation operation, int64_t ranks)
{
    double share = operations[operation].counts_a_share ? (double)ranks : 1.0;
    return fabs((double)row->count * (double)row->dtype_bytes * share - (double)row->bytes) <= 0;
}

static bool is_usable(const struct nccl_row *row, int half)
{
    return row->flaw == NULL && row->bytes > 0 && row->halves[half].is_there && row->halves[half].time_us.value > 0;
}

static bool fits_half(const struct nccl_row *row, int half, enum nccl_operation operation, int64_t ranks)
{
    struct range range = factor_range(row, &row->halves[half]);
    double factor = nccl_sent_share(operation, ranks);
    return range.low <= factor && factor <= range.high && fits_algorithm(row, &row->halves[half], operation);
}

/* ---- ranks from the rows ---------------------------------------------------------------------------------------- */

/* Of an operation whose count is a share: size over count. 0: the rows do not agree. */
static int64_t ranks_of_counts(const struct nccl_table *table)
{
    int64_t ranks = 0;
    for (int64_t i = 0; i < table->n_rows; i++) {
        const struct nccl_row *row = &table->rows[i];
        if (row->bytes <= 0 || row->count <= 0) {
            continue;
        }
        double own = (double)row->bytes / (double)row->count / (double)row->dtype_bytes;
        bool is_whole = own >= 1 && own <= MOST_RANKS && floor(own) >= own;
        if (!is_whole || (ranks != 0 && (double)ranks < own) || (ranks != 0 && (double)ranks > own)) {
            return 0;
        }
        ranks = (int64_t)own;
    }
    return ranks;
}

/* Of an all-reduce: the factor 2 (n - 1) / n that all rows have in common, as a range of n. */
static struct range ranks_of_factors(const struct nccl_table *table)
{
    struct range all = {.low = 0, .high = 2};
    for (int64_t i = 0; i < table->n_rows; i++) {
        for (int half = 0; half < 2; half++) {
            if (!is_usable(&table->rows[i], half)) {
                continue;
            }
            struct range own = factor_range(&table->rows[i], &table->rows[i].halves[half]);
            all.low = fmax(all.low, own.low);
            all.high = fmin(all.high, own.high);
        }
    }
    if (all.low > all.high || all.low >= 2) {
        return (struct range){0, 0};
    }
    return (struct range){.low = ceil(2 / (2 - all.low)),
                          .high = all.high >= 2 ? MOST_RANKS : fmin(floor(2 / (2 - all.high)), MOST_RANKS)};
}

/* The one number of ranks that the rows fit, or 0. */
static int64_t ranks_of_rows(const struct nccl_table *table, enum nccl_operation operation)
{
    if (operations[operation].counts_a_share) {
        return ranks_of_counts(table);
    }
    if (operations[operation].factor == FACTOR_ONE) {
        return 0;
    }
    struct range range = ranks_of_factors(table);
    return range.low >= 1 && range.low <= range.high && range.low >= range.high ? (int64_t)range.low : 0;
}

/* ---- which operation -------------------------------------------------------------------------------------------- */

/* Do the columns rule it out? */
static bool is_possible(const struct nccl_table *table, enum nccl_operation operation)
{
    for (int64_t i = 0; i < table->n_rows; i++) {
        const struct nccl_row *row = &table->rows[i];
        if (row->flaw != NULL) {
            continue;
        }
        bool has_redop = row->redop[0] != '\0';
        bool is_other = operation != NCCL_SEND_RECEIVE && has_redop != operations[operation].reduces;
        bool is_rooted = row->root >= 0;
        const struct nccl_half *out = &row->halves[0];
        const struct nccl_half *in = &row->halves[1];
        bool tells_checks = out->is_there && in->is_there && out->has_wrong && !out->is_wrong_unknown;
        bool is_unchecked = tells_checks && in->is_wrong_unknown;
        if (is_other || is_rooted != operations[operation].has_root ||
            (tells_checks && is_unchecked != operations[operation].is_unchecked_in_place)) {
            return false;
        }
    }
    return !operations[operation].must_be_named;
}

/* How many halves of rows are as that operation over so many ranks would print them; ranks 0: over any number. */
static int64_t count_fitting(const struct nccl_table *table, enum nccl_operation operation, int64_t ranks)
{
    struct range any = ranks_of_factors(table);
    bool is_open = ranks == 0 && operations[operation].factor == FACTOR_ALL_REDUCE;
    if (ranks == 0 && operations[operation].factor != FACTOR_ONE && !(is_open && any.low >= 1)) {
        return 0;
    }
    int64_t n_fitting = 0;
    for (int64_t i = 0; i < table->n_rows; i++) {
        const struct nccl_row *row = &table->rows[i];
        for (int half = 0; half < 2; half++) {
            bool is_fitting = is_usable(row, half) && fits_size(row, operation, ranks == 0 ? 1 : ranks) &&
                              (is_open || fits_half(row, half, operation, ranks == 0 ? 1 : ranks));
            n_fitting += is_fitting ? 1 : 0;
        }
    }
    return n_fitting;
}

struct candidates {
    int best; /* operation, or -1 */
    int64_t n_fitting;
    bool is_tied;
};

static struct candidates find_operation(const struct nccl_table *table, int named, int64_t ranks)
{
    struct candidates found = {.best = -1};
    for (int i = 0; i < N_NCCL_OPERATIONS; i++) {
        if (named >= 0 ? i != named : !is_possible(table, (enum nccl_operation)i)) {
            continue;
        }
        int64_t own_ranks = ranks != 0 ? ranks : ranks_of_rows(table, (enum nccl_operation)i);
        int64_t n_fitting = count_fitting(table, (enum nccl_operation)i, own_ranks);
        found.is_tied = n_fitting == found.n_fitting ? n_fitting > 0 : n_fitting < found.n_fitting && found.is_tied;
        if (n_fitting > found.n_fitting) {
            found.best = i;
            found.n_fitting = n_fitting;
        }
    }
    return found;
}

/* ---- an identity ------------------------------------------------------------------------------------------------ */

static int64_t count_usable(const struct nccl_table *table)
{
    int64_t n_usable = 0;
    for (int64_t i = 0; i < table->n_rows; i++) {
        n_usable += is_usable(&table->rows[i], 0) || is_usable(&table->rows[i], 1) ? 1 : 0;
    }
    return n_usable;
}

/* Did each process run alone? Nothing crosses a bus then, however much is "reduced". */
static bool is_alone(const struct nccl_table *table)
{
    bool has_any = false;
    for (int64_t i = 0; i < table->n_rows; i++) {
        for (int half = 0; half < 2; half++) {
            const struct nccl_half *own = &table->rows[i].halves[half];
            if (is_usable(&table->rows[i], half) && own->alg_gb.value >= 1) {
                has_any = true;
                if (own->bus_gb.value > 0) {
                    return false;
                }
            }
        }
    }
    return has_any;
}

static bool fail_table(const struct nccl_table *table, struct sp_error *err, const char *text)
{
    return sp_fail(err, SP_ERROR_INPUT, "table at line %lld: %s", (long long)table->first_line, text);
}

/* Of the list and of the user, who must agree; 0: neither says. */
static bool stated_ranks(struct sp_arena *arena, const struct nccl_table *table, const struct import_given *given,
                         int64_t *ranks, struct sp_error *err)
{
    int64_t listed = table->ranks.highest + 1;
    if (listed > 0 && given->ranks > 0 && listed != given->ranks) {
        return fail_table(table, err,
                          sp_format(arena,
                                    "the list of devices ends with rank %lld, --ranks says %lld: leave --ranks out",
                                    (long long)(listed - 1), (long long)given->ranks));
    }
    *ranks = listed > 0 ? listed : given->ranks > 0 ? given->ranks : table->debug_ranks;
    return true;
}

static const char *misfit_text(struct sp_arena *arena, const struct nccl_table *table, int64_t ranks, int named)
{
    for (int i = 0; i < N_NCCL_OPERATIONS; i++) {
        int64_t own = (named >= 0 ? i == named : is_possible(table, (enum nccl_operation)i))
                          ? ranks_of_rows(table, (enum nccl_operation)i)
                          : 0;
        if (own > 1 && own != ranks && count_fitting(table, (enum nccl_operation)i, own) > 0) {
            return sp_format(arena, "no row fits %lld ranks: sizes and bandwidths are those of %s over %lld ranks",
                             (long long)ranks, import_operation_names[i], (long long)own);
        }
    }
    return sp_format(
        arena,
        "no row fits%s%s%s: expected busbw = size / time x 2(n-1)/n of an all-reduce, (n-1)/n of all-gather, "
        "reduce-scatter and all-to-all, 1 of send and receive",
        named >= 0 ? " " : "", named >= 0 ? import_operation_names[named] : " any operation",
        ranks > 0 ? sp_format(arena, " over %lld ranks", (long long)ranks) : "");
}

static bool find_operation_and_ranks(struct sp_arena *arena, const struct nccl_table *table,
                                     const struct import_given *given, struct nccl_identity *identity,
                                     struct sp_error *err)
{
    int64_t ranks = 0;
    if (!stated_ranks(arena, table, given, &ranks, err)) {
        return false;
    }
    int asked = given->operation == NULL ? -1 : sp_index_of(given->operation, import_operation_names);
    int named = asked >= 0 ? asked : table->operation;
    if (is_alone(table)) {
        return fail_table(table, err,
                          "every row has a bus bandwidth of 0: each process ran on its own rank alone, as nccl-tests "
                          "built without MPI does under mpirun; build with MPI=1 and measure again");
    }
    struct candidates found = find_operation(table, named, ranks);
    if (found.best < 0) {
        return fail_table(table, err, misfit_text(arena, table, ranks, named));
    }
    if (found.is_tied) {
        return fail_table(table, err,
                          "the rows fit more than one operation and the log names none: add --operation, for example "
                          "--operation all-gather");
    }
    identity->operation = (enum nccl_operation)found.best;
    identity->ranks = ranks != 0 ? ranks : ranks_of_rows(table, identity->operation);
    return true;
}

/* Hosts of a whole list, or what the user says; 0: not known. */
static int64_t find_nodes(struct import_result *result, const struct nccl_table *table,
                          const struct import_given *given, int64_t ranks)
{
    bool is_whole = table->ranks.n_listed > 0 && table->ranks.n_listed == ranks;
    int64_t listed = is_whole ? (int64_t)table->ranks.hosts.count : 0;
    int64_t told = table->debug_ranks == ranks ? table->debug_nodes : 0;
    if (given->nodes > 0 && listed > 0 && listed != given->nodes) {
        sp_texts_add(&result->warnings, "the log lists %lld host%s, --nodes says %lld: taken as %lld",
                     (long long)listed, sp_plural(listed), (long long)given->nodes, (long long)given->nodes);
    }
    return given->nodes > 0 ? given->nodes : listed > 0 ? listed : told;
}

static void ask(struct sp_texts *missing, struct sp_texts *options, const char *what, const char *option)
{
    sp_texts_add(missing, "%s", what);
    sp_texts_add(options, "%s", option);
}

static bool check_identity(struct sp_arena *arena, const struct nccl_table *table, const struct nccl_identity *identity,
                           struct sp_error *err)
{
    struct sp_texts missing = {.arena = arena};
    struct sp_texts options = {.arena = arena};
    if (identity->ranks == 0) {
        ask(&missing, &options, "how many ranks", "--ranks N");
    }
    if (identity->nodes == 0) {
        ask(&missing, &options,
            table->ranks.n_listed > 0 ? sp_format(arena, "how many nodes (it lists %lld of %lld ranks)",
                                                  (long long)table->ranks.n_listed, (long long)identity->ranks)
                                      : "how many nodes",
            "--nodes N");
    }
    if (identity->gpu == NULL) {
        ask(&missing, &options, "which GPU", "--gpu NAME");
    }
    if (missing.count > 0) {
        return fail_table(table, err,
                          sp_format(arena, "the log does not say %s: add %s",
                                    sp_join(arena, missing.items, missing.count, ", "),
                                    sp_join(arena, options.items, options.count, " ")));
    }
    assert(identity->nodes > 0); /* else it is missing */
    if (identity->ranks % identity->nodes != 0) {
        return fail_table(table, err,
                          sp_format(arena, "%lld ranks do not divide by %lld nodes: expected as many on each",
                                    (long long)identity->ranks, (long long)identity->nodes));
    }
    return true;
}

bool nccl_identify(struct import_result *result, const struct nccl_table *table, const struct import_given *given,
                   struct nccl_identity *identity, struct sp_error *err)
{
    struct sp_arena *arena = result->arena;
    *identity = (struct nccl_identity){.gpu = NULL};
    if (!import_settle_gpu(result, table->ranks.gpu, given->gpu, &identity->gpu, err)) {
        sp_error_prefix(err, "table at line %lld", (long long)table->first_line);
        return false;
    }
    if (count_usable(table) == 0) {
        return fail_table(table, err, "no row has a size and a time: expected rows that were not cut off");
    }
    if (!find_operation_and_ranks(arena, table, given, identity, err)) {
        return false;
    }
    if (table->ranks.other_gpu != NULL) {
        sp_texts_add(&result->warnings, "ranks ran on different GPUs, %s and %s: the run is kept as one of %s",
                     table->ranks.gpu, table->ranks.other_gpu, identity->gpu);
    }
    if (table->layout.is_cpu_time) {
        return fail_table(table, err, "its times are of the CPU (-C 1), not of the operation: measure without -C");
    }
    identity->nodes = find_nodes(result, table, given, identity->ranks);
    return check_identity(arena, table, identity, err);
}

/* ---- flaws of rows ---------------------------------------------------------------------------------------------- */

const char *nccl_row_flaw(struct sp_arena *arena, const struct nccl_row *row, const struct nccl_identity *identity,
                          const char **text)
{
    if (row->flaw != NULL) {
        *text = row->flaw;
        return row->flaw_class;
    }
    if (row->bytes == 0) {
        *text = "the message has no bytes";
        return "an empty message";
    }
    if (!fits_size(row, identity->operation, identity->ranks)) {
        bool is_share = operations[identity->operation].counts_a_share;
        *text = sp_format(arena, "%lld bytes are not %lld elements of %s%s", (long long)row->bytes,
                          (long long)row->count, row->dtype,
                          is_share ? sp_format(arena, " for each of %lld ranks", (long long)identity->ranks) : "");
        return "size and count contradict";
    }
    return NULL;
}

const char nccl_wrong_result[] = "a wrong result";

const char *nccl_half_flaw(struct sp_arena *arena, const struct nccl_row *row, int half,
                           const struct nccl_identity *identity, const char **text)
{
    const struct nccl_half *own = &row->halves[half];
    const char *where = half == 0 ? "out of place" : "in place";
    if (!(own->time_us.value > 0)) {
        *text = sp_format(arena, "%s: its time is 0", where);
        return "no time";
    }
    bool is_counted = own->has_wrong && !own->is_wrong_unknown && floor(own->n_wrong) >= own->n_wrong;
    if (is_counted && own->n_wrong >= 1) {
        *text = sp_format(arena, "%s: %.0f values of the result were wrong", where, own->n_wrong);
        return nccl_wrong_result;
    }
    if (!fits_half(row, half, identity->operation, identity->ranks)) {
        *text = sp_format(arena,
                          "%s: algbw %g and busbw %g GB/s contradict %lld bytes in %g us: busbw of %s over %lld "
                          "ranks is %.4g x size / time",
                          where, own->alg_gb.value, own->bus_gb.value, (long long)row->bytes, own->time_us.value,
                          import_operation_names[identity->operation], (long long)identity->ranks,
                          nccl_sent_share(identity->operation, identity->ranks));
        return "bandwidth and time contradict";
    }
    return NULL;
}
