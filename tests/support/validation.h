/* Measured runs beside predictions: the files of tests/validation, each a source with its rows (seqplan.validation/1).
 *
 * A row is a command line: its settings are options of `estimate` by name, parsed by the program's own table, so that
 * whatever becomes priceable is compared without a change here. */
#ifndef SEQPLAN_TESTS_VALIDATION_H
#define SEQPLAN_TESTS_VALIDATION_H

#include "step/step.h"

enum validation_state {
    VALIDATION_COMPARED,
    VALIDATION_NOT_BUILT,      /* refused: the program does not price it yet */
    VALIDATION_REFUSED,        /* refused for another reason: an input is missing, a rule is broken */
    VALIDATION_NOT_EXPRESSIBLE /* no option says what was run; the file tells why */
};

/* How a quantity is printed. */
enum validation_unit { UNIT_SECONDS, UNIT_BYTES, UNIT_FLOP_PER_S, UNIT_FRACTION, UNIT_RATE, UNIT_YES_NO };

struct validation_quantity {
    const char *name;
    enum validation_unit unit;
    double (*predict)(const struct question *question, const struct estimate *estimate);
};

struct validation_row { /* one measured quantity of one run */
    const char *name;
    const char *group;
    const struct validation_quantity *quantity;
    enum validation_state state;
    double measured;
    double predicted;
    double error_frac;  /* predicted / measured - 1; of a yes or no: 0 right, 1 wrong */
    const char *reason; /* why it is not compared, or NULL */
    const char *note;   /* or NULL */
};

struct validation_source {
    const char *name; /* file name without ".json" */
    const char *title;
    const char *where;
    const char *year;
    const struct sp_json *unstated; /* texts */
    const struct sp_json *targets;  /* group -> quantity -> largest median error, or NULL */
    const struct sp_json *misses;   /* group -> quantity -> the mechanism found or suspected, or NULL */
    struct validation_row *rows;
    int n_rows;
};

/* One (group, quantity) of a source; group NULL: all groups. Errors are of the rows compared. */
struct validation_summary {
    const char *group;
    const struct validation_quantity *quantity;
    int n_compared, n_not_built, n_refused, n_not_expressible;
    double median_frac, max_frac; /* of |error| */
    double bias_frac;             /* mean error */
    double target_frac;           /* 0: none */
    const char *miss;             /* why the median is far off, or NULL */
};

/* Names of the sources in the folder, sorted. */
bool validation_names(struct sp_arena *arena, const char *folder, struct sp_texts *names,
                      struct sp_error *err) SP_MUST_CHECK;
/* Reads a source and prices its rows. A row that is refused is a result; a bad file is an error. */
bool validation_read(struct sp_arena *arena, const char *folder, const char *name, struct validation_source *source,
                     struct sp_error *err) SP_MUST_CHECK;
/* Every (group, quantity) in the order of the rows. Returns how many were written. */
int validation_summarise(struct sp_arena *arena, const struct validation_source *source, bool by_group,
                         struct validation_summary *summaries, int max);

#endif
