/* The output of nccl-tests as tables: what the files of that importer share. */
#ifndef SEQPLAN_NCCL_LOG_H
#define SEQPLAN_NCCL_LOG_H

#include "fit/import_internal.h"

/* ---- operations (nccl_table.c) ---------------------------------------------------------------------------------- */

enum nccl_operation {
    NCCL_ALL_REDUCE,
    NCCL_ALL_GATHER,
    NCCL_REDUCE_SCATTER,
    NCCL_ALL_TO_ALL,
    NCCL_SEND_RECEIVE, /* each rank sends to the next */
    NCCL_BROADCAST,
    NCCL_REDUCE,
    NCCL_GATHER,
    NCCL_SCATTER,
    NCCL_HYPERCUBE,
    N_NCCL_OPERATIONS
};
/* The operation of a program's name in a line ("all_reduce_perf"), or -1. */
int nccl_operation_named(const char *line);

/* ---- tables (import_nccl.c) ------------------------------------------------------------------------------------- */

/* A number as it was printed: true to half a unit of its last digit. */
struct nccl_figure {
    double value, half;
};
struct nccl_half { /* of a row: out of place, or in place */
    bool is_there;
    bool is_unknown; /* "N/A" in place of a time */
    struct nccl_figure time_us, alg_gb, bus_gb;
    bool has_wrong, is_wrong_unknown; /* "N/A": the test does not check this half */
    double n_wrong;
};
struct nccl_row {
    int64_t line;
    int64_t bytes, count;
    const char *dtype;
    int64_t dtype_bytes;
    const char *redop; /* "": no such column, or "none" */
    int64_t root;      /* -1: no such column, or none */
    struct nccl_half halves[2];
    const char *flaw;       /* why it cannot be read, or NULL */
    const char *flaw_class; /* of many such */
};

enum { NCCL_MOST_COLUMNS = 4 }; /* of a half */
/* The columns that the heading names. */
struct nccl_layout {
    bool is_known; /* there was a heading */
    bool has_redop, has_root, has_wrong, has_error_column, is_cpu_time;
    int n_halves;
};

/* What the environment may ask of NCCL, and changes what is measured. */
enum nccl_setting { NCCL_SETTING_ALGO, NCCL_SETTING_PROTO, NCCL_SETTING_NVLS, N_NCCL_SETTINGS };
extern const char *const nccl_setting_names[]; /* "nccl_algo", ..., NULL: parameters of a measurement */

struct nccl_ranks {  /* the list of devices */
    int64_t highest; /* -1: none is listed */
    int64_t n_listed;
    const char *gpu, *other_gpu; /* NULL: none */
    struct sp_texts hosts;
};

struct nccl_table {
    int64_t first_line;
    struct nccl_layout layout;
    struct nccl_ranks ranks;
    int operation;                         /* of the program's name; -1: not named */
    int64_t iters;                         /* 0: not stated */
    bool has_options;                      /* a line of options was seen */
    const char *nccl;                      /* version, or NULL */
    int64_t debug_ranks, debug_nodes;      /* of the largest communicator in NCCL's own messages; 0: none */
    const char *settings[N_NCCL_SETTINGS]; /* of the environment, or NULL */
    struct nccl_row *rows;
    int64_t n_rows, capacity;
};
struct nccl_log {
    struct nccl_table *tables; /* those with rows */
    int64_t n_tables, capacity;
    int64_t n_failed_checks; /* of a summary "Out of bounds values" */
    bool has_summary;
};
/* Is it a row, or the begin of one? */
bool nccl_is_row(struct sp_arena *arena, const char *line);
void nccl_log_read(struct sp_arena *arena, const struct import_text *text, struct nccl_log *log);

/* ---- what a table is of (nccl_table.c) -------------------------------------------------------------------------- */

struct nccl_identity {
    enum nccl_operation operation;
    int64_t ranks, nodes;
    const char *gpu;
};
/* Of the log, of the user, and of the bandwidths, which fit one operation over one number of ranks. */
bool nccl_identify(struct import_result *result, const struct nccl_table *table, const struct import_given *given,
                   struct nccl_identity *identity, struct sp_error *err) SP_MUST_CHECK;
/* Bytes that a rank sends, over the size of the row: what nccl-tests calls the factor of the bus bandwidth. */
double nccl_sent_share(enum nccl_operation operation, int64_t ranks);
/* What is wrong with a row, or with half of it, as such an operation: NULL, or a class of reasons; *text says it. */
const char *nccl_row_flaw(struct sp_arena *arena, const struct nccl_row *row, const struct nccl_identity *identity,
                          const char **text);
extern const char nccl_wrong_result[]; /* that class of a half */
const char *nccl_half_flaw(struct sp_arena *arena, const struct nccl_row *row, int half,
                           const struct nccl_identity *identity, const char **text);

/* ---- measurements (nccl_lines.c) -------------------------------------------------------------------------------- */

/* Adds the table's run to the result, with a note for each row. */
bool nccl_table_import(struct import_result *result, const struct nccl_table *table,
                       const struct nccl_identity *identity, struct sp_error *err) SP_MUST_CHECK;

#endif
