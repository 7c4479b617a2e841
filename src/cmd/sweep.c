#include "cmd/sweep.h"

#include "cmd/ranks.h"

bool sweep_options_check(const struct command_options *options, struct sp_error *err)
{
    return options->db == NULL || options->vary.count > 0 ||
           sp_fail(err, SP_ERROR_USAGE, "--db keeps the rows of --vary: give --vary NAME=V1,V2, or leave out --db");
}

bool sweep_fill(struct sweep_run *run, int64_t point, const char **json, struct sp_error *err)
{
    struct command_options options;
    return points_options(&run->points, run->scratch, point, &options, err) &&
           run->sweep->row(run->sweep->user, &options, run->scratch, json, err);
}

/* One process: the points in their order. */
static bool fill_alone(struct sweep_run *run, struct progress *progress, struct sp_error *err)
{
    bool is_good = true;
    for (int64_t point = 0; point < run->points.n_points && is_good && !run->is_stopped; point++) {
        if (run->rows.has[point]) {
            continue;
        }
        const char *json = NULL;
        struct sp_arena_mark mark = sp_arena_mark(run->scratch);
        is_good = sweep_fill(run, point, &json, err) && sweep_rows_add(&run->rows, point, json, err);
        sp_arena_rewind(run->scratch, mark);
        progress_show(progress, run->rows.n_has);
        run->is_stopped = interrupt_is_asked();
    }
    return is_good;
}

/* What is done stays, also when a row fails. */
static bool fill_rows(struct sweep_run *run, struct sp_error *err)
{
    struct progress progress;
    progress_open(&progress, run->sweep->context->has_progress, run->points.n_points, run->rows.n_has);
    interrupt_watch();
    bool is_good = ranks_size() > 1 ? sweep_hand_out(run, &progress, err) : fill_alone(run, &progress, err);
    progress_close(&progress);
    struct sp_error later = {.kind = SP_ERROR_NONE}; /* what failed first is what is said */
    return sweep_rows_flush(&run->rows, is_good ? err : &later) && is_good;
}

static void say_interrupted(const struct sweep_run *run)
{
    const char *hint = run->rows.store == NULL ? "" : " (run the same command to go on)";
    (void)fprintf(stderr, "seqplan: interrupted: %lld of %lld rows, the rest is missing%s\n",
                  (long long)run->rows.n_has, (long long)run->points.n_points, hint);
}

/* The last line on a terminal says that rows are missing; under mpirun, which may not wait for it, the first. */
static bool print_rows(struct sweep_run *run, struct sp_error *err)
{
    struct command_context *context = run->sweep->context;
    bool is_partial = run->rows.n_has < run->points.n_points;
    bool fits = false;
    if (is_partial && ranks_size() > 1) {
        say_interrupted(run);
    }
    if (!sweep_rows_print(&run->rows, &fits, err)) {
        return false;
    }
    context->status = fits ? 0 : 1;
    if (is_partial) {
        context->status = SP_ERROR_IO;
        (void)fflush(context->out);
    }
    if (is_partial && ranks_size() == 1) {
        say_interrupted(run);
    }
    return true;
}

static bool fill_and_print(struct sweep_run *run, struct sp_error *err)
{
    if (ranks_rank() > 0) {
        return sweep_compute(run, err);
    }
    run->rows = (struct sweep_rows){.sweep = run->sweep, .points = &run->points};
    if (!sweep_rows_open(&run->rows, err)) {
        return false;
    }
    bool is_good = fill_rows(run, err) && print_rows(run, err);
    sweep_rows_close(&run->rows);
    return is_good;
}

bool sweep_run(const struct sweep *sweep, struct sp_error *err)
{
    struct sweep_run run = {.sweep = sweep};
    if (!points_read(sweep, &run.points, err)) {
        return false;
    }
    run.scratch = sp_arena_open();
    bool is_good = fill_and_print(&run, err);
    sp_arena_close(run.scratch);
    interrupt_unwatch();
    return is_good;
}
