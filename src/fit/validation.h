/* Measured runs beside predictions. A source is a published table, a user's sheet or a stored run; each of its rows is one
 * measured quantity of one run. Rows that something was fitted to are marked, and never judge.
 *
 * A run of a file is a command line: its settings are options of `estimate` by name, parsed by the program's own table, so
 * that whatever becomes priceable is compared without a change here. The table lies in a higher layer: who reads files
 * gives a function that prices.
 */
#ifndef SEQPLAN_VALIDATION_H
#define SEQPLAN_VALIDATION_H

#include "step/step.h"

struct fit_machine;

enum validation_state {
    VALIDATION_COMPARED,
    VALIDATION_NOT_BUILT,      /* refused: the program does not price it yet */
    VALIDATION_REFUSED,        /* refused for another reason: an input is missing, a rule is broken */
    VALIDATION_NOT_EXPRESSIBLE /* no option says what was run; the file tells why */
};
extern const char *const validation_state_names[]; /* "compared", "not built", ... */

enum validation_role { VALIDATION_JUDGE, VALIDATION_FIT };
extern const char *const validation_role_names[]; /* "judge", "fit", NULL */

/* How a quantity is printed. */
enum validation_unit {
    VALIDATION_SECONDS,
    VALIDATION_BYTES,
    VALIDATION_FLOP_PER_S,
    VALIDATION_FRACTION,
    VALIDATION_RATE,
    VALIDATION_YES_NO
};

/* What a headline counts a quantity to. */
enum validation_family { VALIDATION_OTHER, VALIDATION_STEP, VALIDATION_PEAK };

struct validation_quantity {
    const char *name; /* "step_time_s" */
    enum validation_unit unit;
    enum validation_family family;
    bool is_whole;    /* all that a method does in a layer: what methods are chosen by */
    bool is_of_layer; /* of one layer: a pipeline has none that stands for all */
    double (*predict)(const struct question *question, const struct estimate *estimate); /* NULL: of stored runs */
};
/* By name; NULL: unknown. */
const struct validation_quantity *validation_quantity_find(const char *name);
/* All names that a file may hold, copied into the arena's list. */
void validation_quantity_names(struct sp_texts *names);
/* What a timed line of this group measures. */
const struct validation_quantity *validation_quantity_of(enum measurement_group group);

struct validation_row {
    const char *name;
    const char *group;
    int run; /* of the source: rows of one run share it */
    const struct validation_quantity *quantity;
    enum validation_state state;
    enum validation_role role;
    const char *fitted; /* what was fitted to it, or NULL */
    double measured;
    double predicted;
    double error_frac; /* predicted / measured - 1; of a yes or no: 0 right, 1 wrong */
    bool has_interval;
    double low, high;               /* of the prediction, 90 % */
    const char *framework, *method; /* or NULL: not known */
    int64_t seq;                    /* 0: not known */
    const char *question_key; /* what rows of one question share, whatever method answers it; NULL: not compared */
    const char *method_label; /* "zigzag", or "tp" where tensor parallelism stands in for a method; NULL: not known */
    const char *reason;       /* why it is not compared, or NULL */
    const char *note;         /* or NULL */
};

struct validation_source {
    const char *name; /* file name without its end */
    const char *title;
    const char *where;
    const char *year;
    const char *grade;              /* "A", "A-", "B": how exactly its settings are printed; NULL: not graded */
    bool is_own;                    /* measured by this project, not published by others */
    const struct sp_json *unstated; /* texts, or NULL */
    const struct sp_json *targets;  /* group -> quantity -> largest median error, or NULL */
    const struct sp_json *misses;   /* group -> quantity -> the mechanism found or suspected, or NULL */
    const struct sp_json *biases;   /* quantity -> why all its errors lean one way, or NULL */
    struct validation_row *rows;
    int n_rows;
};

struct validation_set {
    struct validation_source *sources;
    int n_sources;
};

/* ---- reading (validation_file.c, validation_csv.c) --------------------------------------------------------------- */

/* Prices the options of `estimate` ("--seq=8192"). A refusal is a reason, not a failure. */
struct validation_pricer {
    struct sp_arena *arena;          /* of all that is read */
    struct sp_arena *scratch;        /* of one row's pricing; rewound after it */
    const struct sp_option *options; /* what a file may set; ends with a row whose name is NULL */
    bool (*price)(void *user, const struct sp_texts *words, struct question *question, struct estimate *estimate,
                  struct sp_error *err);
    void *user;
};

/* Paths of the tables that the program ships, and of those in folders of SEQPLAN_PATH, by name. SP_ERROR_INPUT where there
 * are none. Copies into arena. */
bool validation_shipped(struct sp_arena *arena, struct sp_texts *paths, struct sp_error *err) SP_MUST_CHECK;
/* Reads a file and prices its rows: a table (seqplan.validation/1), or a sheet when the name ends in ".csv". A row that is
 * refused is a result; a bad file is an error. */
bool validation_read(const struct validation_pricer *pricer, const char *path, struct validation_source *source,
                     struct sp_error *err) SP_MUST_CHECK;
/* A sheet as the JSON of a table: its first line names columns, which are options, measured quantities, or name, group,
 * note and role. name: what errors call it. SP_ERROR_INPUT with line and column. Copies into arena. */
const struct sp_json *validation_csv_parse(struct sp_arena *arena, const struct sp_option *options, const char *name,
                                           const char *text, struct sp_error *err);
/* What others state of their own predictions (seqplan.peers/1): tool, year, data, rows, time, memory, intervals, where;
 * NULL where the file is not there. */
bool validation_peers(struct sp_arena *arena, const struct sp_json **peers, struct sp_error *err) SP_MUST_CHECK;
/* The rows of a table that is parsed already. */
bool validation_read_json(const struct validation_pricer *pricer, const char *path, const struct sp_json *file,
                          struct validation_source *source, struct sp_error *err) SP_MUST_CHECK;

/* ---- stored runs (validation_run.c) ------------------------------------------------------------------------------ */

/* Measurements of single operations are for fits; of methods, layers and steps one half is for fits and the other judges.
 * Which half is decided by the key alone, so that the split is the same on every machine and day. */
enum validation_role validation_role_of(const struct measurement *line);
/* Whole steps of a run (training logs) as a table for validation_read_json(): what the log tells of the layout are settings of
 * its rows; the model and the rest are the pricer's to add. NULL: it has none. Borrows the lines' texts. */
const struct sp_json *validation_steps_table(struct sp_arena *arena, const char *where, const char *hardware,
                                             const struct measurement *lines, size_t n_lines);
/* The other timed lines of a run, predicted for the machine. Lines without a prediction keep their reason. */
void validation_read_run(struct sp_arena *arena, const struct fit_machine *machine, const struct measurement *lines,
                         size_t n_lines, struct validation_source *source);

/* ---- intervals (validation_interval.c) ---------------------------------------------------------------------------- */

/* The 90 % interval of a predicted quantity; false: the estimate gives none. */
bool validation_interval(const struct validation_quantity *quantity, const struct estimate *estimate, double predicted,
                         double interval[2]);

/* ---- summaries (validation_summary.c, validation_coverage.c) ----------------------------------------------------- */

enum validation_by {
    VALIDATION_BY_QUANTITY,
    VALIDATION_BY_METHOD,
    VALIDATION_BY_SEQ,
    VALIDATION_BY_FRAMEWORK,
    VALIDATION_BY_SOURCE,
    VALIDATION_BY_GROUP, /* of a source: a set of one */
    N_VALIDATION_BY
};
extern const char *const validation_by_names[]; /* "quantity", ..., "source", NULL: without the group */

enum { VALIDATION_JUDGED = 1U << VALIDATION_JUDGE, VALIDATION_FITTED = 1U << VALIDATION_FIT, VALIDATION_ALL = 3U };

/* Errors of one quantity, of the rows with that key. */
struct validation_summary {
    const char *key;
    const struct validation_quantity *quantity;
    int n_compared, n_not_built, n_refused, n_not_expressible;
    double mape_frac, median_frac, max_frac; /* of |error| */
    double bias_frac;                        /* mean error */
    int n_intervals, n_within;
    double width_frac;  /* mean of (high - low) / predicted */
    double target_frac; /* of the median, by group; 0: none */
    const char *miss;   /* by group: why the median is far off, or NULL */
};
/* In the order of the rows, what has one key together; by length in the order of lengths. Copies into arena. Returns how many. roles: VALIDATION_*. */
int validation_summarise(struct sp_arena *arena, const struct validation_set *set, enum validation_by by,
                         unsigned roles, struct validation_summary **summaries);

/* How often the truth lies within the intervals of the judged rows. Step time, rate and MFU of one run are one event, so that a run
 * counts once a family, with the first quantity that it has of it; what belongs to no family counts by itself. */
struct validation_coverage {
    int n_judged; /* compared rows that judge, with an interval or without */
    int n, n_within;
    double expected_frac;
    double p_value;    /* two-sided, that the intervals are as wide as they say; 1 of none */
    double width_frac; /* mean of (high - low) / predicted */
    bool is_enough;    /* for a verdict */
};
enum { VALIDATION_COVERAGE_LEAST = 40 };
struct validation_coverage validation_coverage(const struct validation_set *set);
/* Of n rows of which n_within lie within. */
double validation_binomial_p(int n_within, int n, double expected_frac);

/* Rows of one source that differ in method (and in what goes with it: framework, sharding, tp in place of sp), two by two,
 * where the measured figures differ by more than the least gap: whether the predicted ones differ the same way. */
struct validation_order {
    int n, n_right;
    double least_gap_frac;
    struct sp_texts wrong;
};
struct validation_order validation_order(struct sp_arena *arena, const struct validation_set *set, unsigned roles);

/* The median over sources of the median error of their judged rows, one quantity a source: step time or else a rate, peak
 * allocated or else reserved. */
struct validation_headline {
    int n_sources;
    double median_frac;
};
/* grade NULL: any. is_own: measured here, or published. */
struct validation_headline validation_headline(struct sp_arena *arena, const struct validation_set *set,
                                               enum validation_family family, const char *grade, unsigned roles);
/* The summary of a source that a headline counts; false: it has none. */
bool validation_headline_of(struct sp_arena *arena, const struct validation_source *source,
                            enum validation_family family, unsigned roles, struct validation_summary *summary);
/* Why the errors of a quantity lean one way, by the file: "biases", else the misses of its groups; NULL: not explained. */
const char *validation_bias_reason(struct sp_arena *arena, const struct validation_source *source,
                                   const char *quantity);

#endif
