/* The tables of a simulated step: its time beside the closed form, the critical path, the peak, and who was busy, waited or shared. */
#include "report/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double GIB = 0x1p30;
static const double GB = 1e9;
enum { PERCENT = 100 };

/* Seconds, or milliseconds of a short step. */
struct unit {
    const char *name;
    double size;
};

static struct unit unit_of(double step_s)
{
    return step_s < 1.0 ? (struct unit){"ms", 1e-3} : (struct unit){"s", 1.0};
}

static const char *share_text(struct sp_arena *arena, double frac)
{
    return frac * PERCENT < 0.5 ? "<1" : sp_format(arena, "%.0f", frac * PERCENT);
}

/* Columns that a table heads by a unit of its own. */
static struct report_column *columns_of(struct sp_arena *arena, const struct report_column *columns, int n_columns)
{
    struct report_column *own = sp_arena_array(arena, (size_t)n_columns, sizeof(*own));
    memcpy(own, columns, (size_t)n_columns * sizeof(*own));
    return own;
}

/* ---- time -------------------------------------------------------------------------------------------------------- */

struct report_grid report_time_parts_grid(struct sp_arena *arena, const struct report_simulation *simulation)
{
    enum { NAME, SIMULATED, ESTIMATED, N_COLUMNS };
    static const struct report_column columns[N_COLUMNS] = {
        {.heading = ""}, {.heading = "", .is_right = true}, {.heading = "estimate", .is_right = true}};
    struct report_time_part parts[REPORT_TIME_PARTS];
    report_time_parts(simulation, parts);
    double step_s = simulation->result->step_time_s;
    struct unit unit = unit_of(step_s);
    struct report_column *own = columns_of(arena, columns, N_COLUMNS);
    own[NAME].heading = sp_format(arena, "rank %lld", (long long)report_busiest_rank(simulation)->rank);
    own[SIMULATED].heading = unit.name;
    struct report_grid grid;
    report_grid_init(&grid, arena, own, N_COLUMNS);
    for (int i = 0; i < (int)REPORT_TIME_PARTS; i++) {
        if (parts[i].simulated_s > 0.0 || parts[i].estimated_s > 0.0) {
            report_grid_add(&grid);
            report_grid_text(&grid, NAME, "%s", parts[i].brief);
            report_grid_text(&grid, SIMULATED, "%s",
                             report_fixed(arena, parts[i].simulated_s / unit.size, step_s / unit.size));
            report_grid_text(&grid, ESTIMATED, "%s",
                             report_fixed(arena, parts[i].estimated_s / unit.size, step_s / unit.size));
        }
    }
    return grid;
}

struct report_grid report_critical_grid(struct sp_arena *arena, const struct sim_result *result)
{
    enum { NAME, TIME, SHARE, DELAYED, N_COLUMNS };
    static const struct report_column columns[N_COLUMNS] = {{.heading = "critical path"},
                                                            {.heading = "", .is_right = true},
                                                            {.heading = "%", .is_right = true},
                                                            {.heading = "delayed", .is_right = true}};
    struct unit unit = unit_of(result->step_time_s);
    struct report_column *own = columns_of(arena, columns, N_COLUMNS);
    own[TIME].heading = unit.name;
    struct report_grid grid;
    report_grid_init(&grid, arena, own, N_COLUMNS);
    double largest = result->n_critical == 0 ? 0.0 : result->critical[0].time_s / unit.size;
    for (int i = 0; i < result->n_critical; i++) {
        const struct sim_critical_item *item = &result->critical[i];
        report_grid_add(&grid);
        report_grid_text(&grid, NAME, "%s", report_words(arena, time_names[item->item]));
        report_grid_text(&grid, TIME, "%s", report_fixed(arena, item->time_s / unit.size, largest));
        report_grid_text(&grid, SHARE, "%s", share_text(arena, item->time_s / result->step_time_s));
        if (item->delayed_s > 0.0) {
            report_grid_text(&grid, DELAYED, "%s", report_fixed(arena, item->delayed_s / unit.size, largest));
        }
    }
    return grid;
}

struct report_grid report_delays_grid(struct sp_arena *arena, const struct sim_result *result)
{
    enum { NAME, TRANSFER, DELAYED, WAITED, N_COLUMNS };
    static const struct report_column columns[N_COLUMNS] = {{.heading = "transfers"},
                                                            {.heading = "", .is_right = true},
                                                            {.heading = "shared links", .is_right = true},
                                                            {.heading = "late ranks", .is_right = true}};
    struct unit unit = unit_of(result->step_time_s);
    struct report_column *own = columns_of(arena, columns, N_COLUMNS);
    own[TRANSFER].heading = unit.name;
    struct report_grid grid;
    report_grid_init(&grid, arena, own, N_COLUMNS);
    double largest = 0.0;
    for (int axis = 0; axis < (int)N_AXES; axis++) {
        largest = fmax(largest, result->delays[axis].transfer_s / unit.size);
    }
    for (int axis = 0; axis < (int)N_AXES; axis++) {
        const struct sim_axis_delay *delay = &result->delays[axis];
        if (delay->transfer_s > 0.0 || delay->waited_s > 0.0) {
            report_grid_add(&grid);
            report_grid_text(&grid, NAME, "%s", report_axis_names[axis]);
            report_grid_text(&grid, TRANSFER, "%s", report_fixed(arena, delay->transfer_s / unit.size, largest));
            report_grid_text(&grid, DELAYED, "%s", report_fixed(arena, delay->delayed_s / unit.size, largest));
            report_grid_text(&grid, WAITED, "%s", report_fixed(arena, delay->waited_s / unit.size, largest));
        }
    }
    return grid;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

struct report_grid report_peak_grid(struct sp_arena *arena, const struct sim_peak *peak)
{
    static const struct report_column columns[] = {{.heading = "at the peak"}, {.heading = "GiB", .is_right = true}};
    const struct {
        const char *name;
        double bytes;
    } rows[] = {
        {"state", peak->state_bytes},
        {"gradients", peak->gradient_bytes},
        {"saved", peak->saved_bytes},
        {"at work", peak->work_bytes},
        {"runtime", peak->peak_bytes - peak->allocated_bytes},
    };
    struct report_grid grid;
    report_grid_init(&grid, arena, columns, (int)SP_COUNT_OF(columns));
    for (size_t i = 0; i < SP_COUNT_OF(rows); i++) {
        if (rows[i].bytes > 0.0) {
            report_grid_add(&grid);
            report_grid_text(&grid, 0, "%s", rows[i].name);
            report_grid_text(&grid, 1, "%s", report_fixed(arena, rows[i].bytes / GIB, peak->peak_bytes / GIB));
        }
    }
    return grid;
}

/* ---- ranks ------------------------------------------------------------------------------------------------------- */

enum { RANK_NAME, RANK_COUNT, RANK_STAGE, RANK_BUSY, RANK_WAITS, RANK_PEAK = RANK_WAITS + N_SIM_WAITS, RANK_COLUMNS };

static int compare_busy(const void *a, const void *b)
{
    const struct sim_rank *const *left = a;
    const struct sim_rank *const *right = b;
    if ((*left)->busy_s < (*right)->busy_s || (*left)->busy_s > (*right)->busy_s) {
        return (*left)->busy_s < (*right)->busy_s ? 1 : -1;
    }
    return (*left)->rank < (*right)->rank ? -1 : 1;
}

static int compare_ranks(const void *a, const void *b)
{
    const struct sim_rank *const *left = a;
    const struct sim_rank *const *right = b;
    return (*left)->rank < (*right)->rank ? -1 : 1;
}

/* Where there are many kinds: those who work most and those who wait most. */
static int choose_ranks(const struct sim_result *result, struct sp_arena *arena, const struct sim_rank ***chosen)
{
    enum { MOST_RANKS = 8 };
    const struct sim_rank **ranks = sp_arena_array(arena, (size_t)result->n_ranks + 1, sizeof(const struct sim_rank *));
    for (int i = 0; i < result->n_ranks; i++) {
        ranks[i] = &result->ranks[i];
    }
    int n_shown = result->n_ranks;
    if (n_shown > MOST_RANKS) {
        qsort(ranks, (size_t)n_shown, sizeof(*ranks), compare_busy);
        for (int i = 0; i < MOST_RANKS / 2; i++) {
            ranks[MOST_RANKS / 2 + i] = ranks[result->n_ranks - MOST_RANKS / 2 + i];
        }
        n_shown = MOST_RANKS;
    }
    qsort(ranks, (size_t)n_shown, sizeof(*ranks), compare_ranks);
    *chosen = ranks;
    return n_shown;
}

static void add_rank(struct report_grid *grid, const struct sim_rank *rank, double step_s, bool has_stages)
{
    struct sp_arena *arena = grid->arena;
    report_grid_add(grid);
    report_grid_text(grid, RANK_NAME, "rank %lld", (long long)rank->rank);
    report_grid_text(grid, RANK_COUNT, "%lld", (long long)rank->count);
    if (has_stages) {
        report_grid_text(grid, RANK_STAGE, "%lld", (long long)rank->stage + 1);
    }
    report_grid_text(grid, RANK_BUSY, "%s", report_percent(arena, rank->busy_s / step_s));
    for (int wait = 0; wait < (int)N_SIM_WAITS; wait++) {
        if (rank->waits_s[wait] > 0.0) {
            report_grid_text(grid, RANK_WAITS + wait, "%s", report_percent(arena, rank->waits_s[wait] / step_s));
        }
    }
    report_grid_text(grid, RANK_PEAK, "%s", report_three(arena, rank->peak_bytes / GIB));
}

struct report_grid report_ranks_grid(struct sp_arena *arena, const struct sim_result *result, int *n_shown)
{
    static const struct report_column columns[RANK_COLUMNS] = {
        [RANK_NAME] = {.heading = "GPU time in %"},
        [RANK_COUNT] = {.heading = "alike", .is_right = true},
        [RANK_STAGE] = {.heading = "stage", .is_right = true},
        [RANK_BUSY] = {.heading = "busy", .is_right = true},
        [RANK_WAITS + SIM_WAIT_TP] = {.heading = "tp", .is_right = true},
        [RANK_WAITS + SIM_WAIT_SP] = {.heading = "sp", .is_right = true},
        [RANK_WAITS + SIM_WAIT_DP] = {.heading = "dp", .is_right = true},
        [RANK_WAITS + SIM_WAIT_PP] = {.heading = "pp", .is_right = true},
        [RANK_WAITS + SIM_WAIT_EP] = {.heading = "ep", .is_right = true},
        [RANK_WAITS + SIM_WAIT_PEER] = {.heading = "late ranks", .is_right = true},
        [RANK_WAITS + SIM_WAIT_STAGE] = {.heading = "stages", .is_right = true},
        [RANK_WAITS + SIM_WAIT_OFFLOAD] = {.heading = "offload", .is_right = true},
        [RANK_WAITS + SIM_WAIT_HOST] = {.heading = "host", .is_right = true},
        [RANK_WAITS + SIM_WAIT_END] = {.heading = "end", .is_right = true},
        [RANK_PEAK] = {.heading = "GiB", .is_right = true},
    };
    const struct sim_rank **chosen = NULL;
    *n_shown = choose_ranks(result, arena, &chosen);
    bool has_stages = false;
    for (int i = 0; i < result->n_ranks; i++) {
        has_stages = has_stages || result->ranks[i].stage > 0;
    }
    struct report_grid grid;
    report_grid_init(&grid, arena, columns, RANK_COLUMNS);
    for (int i = 0; i < *n_shown; i++) {
        add_rank(&grid, chosen[i], result->step_time_s, has_stages);
    }
    return grid;
}

/* ---- links ------------------------------------------------------------------------------------------------------- */

/* Those where flows were in each other's way come first, then the busiest. */
static int compare_links(const void *a, const void *b)
{
    const struct sim_resource *left = *(const struct sim_resource *const *)a;
    const struct sim_resource *right = *(const struct sim_resource *const *)b;
    if (left->contended_frac < right->contended_frac || left->contended_frac > right->contended_frac) {
        return left->contended_frac < right->contended_frac ? 1 : -1;
    }
    if (left->busy_frac < right->busy_frac || left->busy_frac > right->busy_frac) {
        return left->busy_frac < right->busy_frac ? 1 : -1;
    }
    return left < right ? -1 : 1; /* of one array */
}

static int sort_links(const struct sim_result *result, struct sp_arena *arena, const struct sim_resource ***sorted)
{
    const struct sim_resource **links =
        sp_arena_array(arena, (size_t)result->n_resources + 1, sizeof(const struct sim_resource *));
    int n_links = 0;
    for (int i = 0; i < result->n_resources; i++) {
        if (result->resources[i].is_link) {
            links[n_links++] = &result->resources[i];
        }
    }
    qsort(links, (size_t)n_links, sizeof(*links), compare_links);
    *sorted = links;
    return n_links;
}

struct report_grid report_links_grid(struct sp_arena *arena, const struct sim_result *result, int *n_shown)
{
    enum { MOST_LINKS = 6 };
    enum { NAME, COUNT, RATE, CARRIED, BUSY, CONTENDED, AXES, N_COLUMNS };
    static const struct report_column columns[N_COLUMNS] = {
        [NAME] = {.heading = "links"},
        [COUNT] = {.heading = "alike", .is_right = true},
        [RATE] = {.heading = "GB/s", .is_right = true},
        [CARRIED] = {.heading = "GB", .is_right = true},
        [BUSY] = {.heading = "busy %", .is_right = true},
        [CONTENDED] = {.heading = "contended %", .is_right = true},
        [AXES] = {.heading = "who met"},
    };
    const struct sim_resource **links = NULL;
    int n_links = sort_links(result, arena, &links);
    *n_shown = n_links > MOST_LINKS ? MOST_LINKS : n_links;
    struct report_grid grid;
    report_grid_init(&grid, arena, columns, N_COLUMNS);
    for (int i = 0; i < *n_shown; i++) {
        const struct sim_resource *link = links[i];
        report_grid_add(&grid);
        report_grid_text(&grid, NAME, "%s", link->name);
        report_grid_text(&grid, COUNT, "%lld", (long long)link->count);
        report_grid_text(&grid, RATE, "%s", report_three(arena, link->capacity_bytes_per_s / GB));
        report_grid_text(&grid, CARRIED, "%s", report_three(arena, link->bytes / GB));
        report_grid_text(&grid, BUSY, "%s", report_percent(arena, link->busy_frac));
        report_grid_text(&grid, CONTENDED, "%s", report_percent(arena, link->contended_frac));
        report_grid_text(&grid, AXES, "%s", report_axes_text(arena, link->axes));
    }
    return grid;
}
