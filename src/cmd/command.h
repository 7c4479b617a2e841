/* cmd: one file per command: options -> specs -> one call -> report. Adding a command is one file and one row of the
 * table in command_table.c.
 */
#ifndef SEQPLAN_COMMAND_H
#define SEQPLAN_COMMAND_H

#include "report/report.h"
#include "search/search.h"

/* What a command gets from main(), and what it leaves behind. */
struct command_context {
    struct sp_arena *arena; /* of the whole run */
    const char *version;
    FILE *out;
    bool is_terminal;  /* out is one, and the user wants colour: no NO_COLOR */
    bool has_progress; /* standard error is a terminal */
    int status;        /* exit code when the command succeeds: 0, or 1 when nothing fits */
};

/* argv[0] is the name of the command. Prints results to context->out only, and nothing when it fails. */
typedef bool (*command_function)(struct command_context *context, int argc, char **argv, struct sp_error *err);

struct command {
    const char *name;
    const char *summary;            /* one line */
    command_function run;           /* NULL: not built yet */
    const struct sp_option *extras; /* options beside the shared ones */
    unsigned groups;                /* enum option_group, or-ed: which of the shared ones it takes */
    const char *synopsis;           /* after the name */
    const char *details;            /* below the summary, or NULL */
    const char *const *examples;    /* NULL-terminated */
};
extern const struct command commands[]; /* ends with a row whose name is NULL */
const struct command *command_find(const char *name);
/* Fails with the nearest name. */
bool command_unknown(const char *name, struct sp_error *err);
/* Fails, naming what is built. */
bool command_not_built(struct sp_arena *arena, const struct command *command, struct sp_error *err);

bool cmd_estimate(struct command_context *context, int argc, char **argv, struct sp_error *err);
bool cmd_compare(struct command_context *context, int argc, char **argv, struct sp_error *err);
bool cmd_plan(struct command_context *context, int argc, char **argv, struct sp_error *err);
bool cmd_check(struct command_context *context, int argc, char **argv, struct sp_error *err);
bool cmd_limits(struct command_context *context, int argc, char **argv, struct sp_error *err);
bool cmd_simulate(struct command_context *context, int argc, char **argv, struct sp_error *err);
bool cmd_diff(struct command_context *context, int argc, char **argv, struct sp_error *err);
bool cmd_calibrate(struct command_context *context, int argc, char **argv, struct sp_error *err);
bool cmd_measure(struct command_context *context, int argc, char **argv, struct sp_error *err);
bool cmd_import(struct command_context *context, int argc, char **argv, struct sp_error *err);
bool cmd_validate(struct command_context *context, int argc, char **argv, struct sp_error *err);
bool cmd_launch(struct command_context *context, int argc, char **argv, struct sp_error *err);
bool cmd_show(struct command_context *context, int argc, char **argv, struct sp_error *err);
bool cmd_help(struct command_context *context, int argc, char **argv, struct sp_error *err);

/* ---- options (options.c) ---------------------------------------------------------------------------------------- */

enum option_group {
    OPTIONS_QUESTION = 1U,
    OPTIONS_VARY = 2U,
    OPTIONS_OUTPUT = 4U,
    OPTIONS_STORE = 8U,
    OPTIONS_EXPLAIN = 16U
};

/* What plan takes beside a question, as typed: lists of values, one objective, constraints. */
struct plan_typed {
    const char *tp, *sp, *sp_ulysses, *sp_inner, *pp, *vpp, *dp, *ep, *etp, *micro_batch;
    const char *methods, *frameworks, *schedules, *recomputes, *zeros, *offloads, *orders;
    const char *max_memory, *headroom, *min_mfu, *deadline;
    struct sp_option_count top, max_gpus, threads;
    int objective; /* enum plan_objective */
};

/* What simulate takes beside a question, as typed. */
struct simulate_typed {
    bool is_exact;
    struct sp_option_count chunks, seed;
    struct sp_texts slow_gpus;  /* "3=0.8", or several separated by commas */
    struct sp_texts slow_links; /* "nic:2.5=0.5", "nic:2.5=0.1,10ms,2ms" */
    const char *jitter, *background;
    const char *trace, *gantt; /* files, or NULL */
    int gantt_of;              /* enum gantt_of, or -1 */
};

/* What measure takes, as typed. */
struct measure_typed {
    bool is_quick, is_full, is_new;
    const char *only, *device, *from, *output;
    struct sp_option_count resume, run;
};

/* What import takes, as typed. */
struct import_typed {
    int kind;      /* enum import_kind, or -1: as it looks */
    int operation; /* of import_operation_names, or -1 */
    struct sp_option_count ranks, nodes, warmup, global_batch;
    const char *gpu, *network, *output;
    bool is_verbose;
};

/* What calibrate takes, as typed. */
struct calibrate_typed {
    const char *runs, *only, *output;
};

/* What validate takes, as typed. */
struct validate_typed {
    bool is_device, has_rows;
    struct sp_option_count run;
    const char *plot, *residuals; /* files, or NULL */
    const char *settings;         /* options of estimate, or NULL */
    int by, only;                 /* enum validation_by, validation_role, or -1 */
};

/* Everything that a command line can say, whichever command it is of. */
struct command_options {
    struct request request;
    struct sp_texts vary;   /* "NAME=V1,V2,..." */
    struct sp_texts claims; /* check: "QUANTITY=VALUE" */
    const char *tokens;     /* --tokens as typed; question_options_finish() reads it */
    const char *methods;    /* compare, limits --sp-method A,B,... */
    struct plan_typed plan;
    struct simulate_typed simulate;
    struct measure_typed measure;
    struct import_typed import;
    struct calibrate_typed calibrate;
    struct validate_typed validate;
    int format; /* enum report_format */
    bool explains;
    bool wants_sensitivity; /* estimate --sensitivity */
    bool is_colorless;
    bool wants_help;
    bool wants_source; /* show --source */
    int launch_for;    /* index of launcher_names, or -1 */
    const char *db;    /* or NULL: the store in the user's data folder */
};

/* The rows of a command: the shared groups it takes, then its own; one of a shared name stands in for that one. Ends with a row whose name is NULL. */
const struct sp_option *command_option_table(struct sp_arena *arena, const struct command *command);
/* Of these the rows that say what is asked, shared or the command's own: what --vary may vary. */
const struct sp_option *command_question_table(struct sp_arena *arena, const struct command *command);
/* The option of a table by name or alias, and the nearest name; NULL when there is none. */
const struct sp_option *command_option_find(const struct sp_option *table, const char *name);
const char *command_option_nearest(struct sp_arena *arena, const struct sp_option *table, const char *name);
/* As if "--name=value" had been typed last. */
bool command_option_set(const struct sp_option *table, struct command_options *options, const char *name,
                        const char *value, struct sp_error *err) SP_MUST_CHECK;
/* positional may be NULL: none are taken. When the user asks for help it is printed, and wants_help is true. */
bool command_options_parse(struct command_context *context, int argc, char **argv, struct command_options *options,
                           struct sp_texts *positional, struct sp_error *err) SP_MUST_CHECK;
/* Prints the help of a command. */
void command_help(struct command_context *context, const struct command *command);
/* The rows of OPTIONS_QUESTION (question_options.c). */
extern const struct sp_option question_options[];
/* Reads what needs more than a table; after each sp_options_parse() of question_options. */
bool question_options_finish(struct command_options *options, struct sp_error *err) SP_MUST_CHECK;
extern const char question_example[]; /* a command line that has it all */
/* Fails, naming what the question lacks, with an example; a --layout may hold it. */
bool request_is_complete(struct sp_arena *arena, const struct request *request, const char *example,
                         struct sp_error *err) SP_MUST_CHECK;
struct report_style command_style(const struct command_context *context, const struct command_options *options);

/* ---- outputs (output_check.c) ------------------------------------------------------------------------------------ */

/* Fails where -o names a file that is read, by whatever path: "-" among the inputs is standard input, output NULL or "-" none. */
bool command_check_output(const char *output, const struct sp_texts *inputs, struct sp_error *err) SP_MUST_CHECK;
/* The file of --db, or the store that stands for it. */
void command_add_store(struct sp_texts *inputs, const char *db);

/* ---- lists (option_list.c) --------------------------------------------------------------------------------------- */

/* An option whose values are separated by commas. Errors begin with "--NAME: "; an empty, repeated or unknown value is
 * one. */
struct option_list {
    const char *name;    /* without the dashes */
    const char *text;    /* as typed */
    const char *example; /* "1,2,8" */
};
/* The values in order, copied into the arena. */
bool option_list_items(const struct option_list *list, struct sp_arena *arena, struct sp_texts *items,
                       struct sp_error *err) SP_MUST_CHECK;
/* Whole numbers from 1 on. */
bool option_list_counts(const struct option_list *list, struct sp_arena *arena, struct plan_counts *counts,
                        struct sp_error *err) SP_MUST_CHECK;
/* Names of a NULL-terminated list, as bits of their indexes. */
bool option_list_names(const struct option_list *list, const char *const *names, unsigned *bits,
                       struct sp_error *err) SP_MUST_CHECK;

/* ---- plan (plan_options.c) --------------------------------------------------------------------------------------- */

extern const struct sp_option plan_options[]; /* ends with a row whose name is NULL */
/* The space, objective and constraints of a command line; the cluster is still as typed. Copies into arena. */
bool plan_options_read(const struct command_options *options, struct sp_arena *arena, struct plan_question *question,
                       struct sp_error *err) SP_MUST_CHECK;
/* Fails on a degree that divides no cluster of the question; after the cluster is known. */
bool plan_options_check(const struct plan_question *question, struct sp_arena *arena,
                        struct sp_error *err) SP_MUST_CHECK;

/* Fails with the rule that estimate names, where each axis that is asked for has one value and no layout keeps the rules
 * (plan_single.c). */
bool plan_single_check(const struct plan_question *asked, const struct plan_typed *typed, const struct plan *plan,
                       struct sp_arena *arena, struct sp_error *err) SP_MUST_CHECK;

/* ---- simulate (simulate_options.c) ------------------------------------------------------------------------------- */

extern const struct sp_option simulate_options[]; /* ends with a row whose name is NULL */
/* What can be said without the question: numbers, names of files, what goes with what. */
bool simulate_options_check(const struct command_options *options, struct sp_error *err) SP_MUST_CHECK;
/* How the step of a question is run; sink and progress are left out. Copies into arena. */
bool simulate_options_read(const struct command_options *options, const struct question *question,
                           struct sp_arena *arena, struct sim_options *sim, struct sp_error *err) SP_MUST_CHECK;
bool simulate_is_disturbed(const struct sim_options *sim);

/* ---- check (cmd_check.c) ------------------------------------------------------------------------------------------ */

extern const struct sp_option check_options_table[]; /* ends with a row whose name is NULL */

/* ---- measure (cmd_measure.c) ------------------------------------------------------------------------------------- */

extern const struct sp_option measure_options[]; /* ends with a row whose name is NULL */

/* ---- import (cmd_import.c) --------------------------------------------------------------------------------------- */

extern const struct sp_option import_options[]; /* ends with a row whose name is NULL */

/* ---- calibrate (cmd_calibrate.c) ---------------------------------------------------------------------------------- */

extern const struct sp_option calibrate_options[]; /* ends with a row whose name is NULL */

/* ---- launch (cmd_launch.c) ---------------------------------------------------------------------------------------- */

extern const struct sp_option launch_options[]; /* ends with a row whose name is NULL */

/* ---- validate (cmd_validate.c) ------------------------------------------------------------------------------------ */

extern const struct sp_option validate_options[]; /* ends with a row whose name is NULL */
/* How rows of validation files are priced: as `estimate` does. */
struct validate_pricing {
    struct sp_arena *scratch; /* of one row */
    const char *settings;     /* options for every row, after its own: "--model llama-3.1-8b"; or NULL */
    bool is_log;              /* rows are of a training log: what it leaves out is for --settings to say */
};
/* What is read lives in the arena. Borrows the pricing. */
struct validation_pricer validate_pricer(struct sp_arena *arena, struct validate_pricing *pricing);

/* ---- --sp-method A,B,... (methods.c) ----------------------------------------------------------------------------- */

bool method_splits(enum method_id method); /* the sequence, over sp */
/* Unknown ones, with the nearest, and ones given twice are refused. */
bool methods_parse(struct sp_arena *arena, const char *text, enum method_id methods[N_METHODS], int *n_methods,
                   struct sp_error *err) SP_MUST_CHECK;
/* The same request with a method, of its home framework unless one is given; what does not split the sequence has sp 1 and
 * a larger dp. */
struct request methods_request(const struct request *base, enum method_id method);

/* ---- pricing (price.c) ------------------------------------------------------------------------------------------ */

/* A question with its answer. */
struct priced {
    struct question question;
    struct estimate estimate;
    const char *data_hash;
    bool is_resolved; /* question is filled in, although a rule may be broken */
};
/* request -> question -> rules -> estimate -> remarks. */
bool price_request(const struct request *request, struct sp_arena *arena, struct priced *priced,
                   struct sp_error *err) SP_MUST_CHECK;

/* How the rows of a table are priced. */
struct row_pricing {
    const struct report_style *style;
    struct sp_arena *kept;    /* of the answer */
    struct sp_arena *scratch; /* of the work; the caller rewinds it */
};
/* The answer of a row, or {layout, error} when it breaks a rule. NULL and *err: what is wrong is wrong with all rows. */
const struct sp_json *price_row(const struct row_pricing *pricing, const struct request *request, struct priced *priced,
                                struct sp_error *err);

/* ---- links (link_search.c) -------------------------------------------------------------------------------------- */

/* Prices the layout of a row on other links: NVLink (or PCIe) where the cluster is one domain, the node's own network,
 * the fastest and the slowest in use, and the ideal one; a network that cannot be priced is left out. By rate. Returns
 * how many. */
int price_links(const struct request *request, struct sp_arena *scratch, const struct priced *row,
                struct report_link links[REPORT_MAX_LINKS]);

/* ---- show (show_*.c) -------------------------------------------------------------------------------------------- */

/* What was asked: "show hardware dgx-h100 --source". */
struct show_request {
    struct sp_arena *arena;
    const char *name; /* or NULL: all of them */
    bool has_source;
    const char *db; /* or NULL */
    enum report_format format;
    const struct report_style *style;
};
/* What is printed. */
struct show_answer {
    const char *title; /* or NULL */
    struct report_grid grid;
    /* In place of the grid, where it would not hold all that there is; prints nothing when it fails. NULL: the grid. */
    bool (*write)(const struct show_request *request, FILE *file, struct sp_error *err);
};
typedef bool (*show_function)(const struct show_request *request, struct show_answer *answer, struct sp_error *err);

bool show_models(const struct show_request *request, struct show_answer *answer, struct sp_error *err);
bool show_model(const struct show_request *request, struct show_answer *answer, struct sp_error *err);
bool show_hardware_list(const struct show_request *request, struct show_answer *answer, struct sp_error *err);
bool show_hardware(const struct show_request *request, struct show_answer *answer, struct sp_error *err);
bool show_networks(const struct show_request *request, struct show_answer *answer, struct sp_error *err);
bool show_network(const struct show_request *request, struct show_answer *answer, struct sp_error *err);
bool show_methods(const struct show_request *request, struct show_answer *answer, struct sp_error *err);
bool show_frameworks(const struct show_request *request, struct show_answer *answer, struct sp_error *err);
bool show_framework(const struct show_request *request, struct show_answer *answer, struct sp_error *err);
bool show_kernels_list(const struct show_request *request, struct show_answer *answer, struct sp_error *err);
bool show_kernels(const struct show_request *request, struct show_answer *answer, struct sp_error *err);
bool show_losses(const struct show_request *request, struct show_answer *answer, struct sp_error *err);
bool show_loss(const struct show_request *request, struct show_answer *answer, struct sp_error *err);
bool show_fields(const struct show_request *request, struct show_answer *answer, struct sp_error *err);
/* Sweeps and measurements of the store (show_runs.c); a sweep in JSON is one line a row. */
bool show_runs(const struct show_request *request, struct show_answer *answer, struct sp_error *err);
bool show_run(const struct show_request *request, struct show_answer *answer, struct sp_error *err);
/* The topics, as help lists them. */
void show_help(FILE *file);

/* Fields with their values (show_values.c). */
void show_values_init(const struct show_request *request, struct report_grid *grid);
/* One row per figure, switch or choice below the table's row `root` of object; NULL: all. Strings are left out. */
void show_values_add(struct report_grid *grid, const struct sp_field *fields, const void *object, const char *root);
/* A curve: how many points, and where they come from. */
struct show_curve {
    const char *path;
    const char *what;
    int n_points;
    enum sp_figure_kind kind;
    const char *source;
    const char *note;
};
void show_values_curve(struct report_grid *grid, const struct show_curve *curve);

#endif
