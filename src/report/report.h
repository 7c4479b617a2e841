/* report: answers as text: tables, Markdown, CSV, JSON, derivations. The only layer that prints results; it computes no
 * figure of its own beyond sums and shares of rows that it shows.
 *
 * An answer becomes a tree (struct sp_json) once, key by key. JSON prints the tree, CSV flattens it, and the tables of
 * several rows look their columns up in it; so each key of the contract is written in one place (estimate_json.c).
 * Nothing here checks the stream for errors: who opened it does, once, at the end.
 */
#ifndef SEQPLAN_REPORT_H
#define SEQPLAN_REPORT_H

#include "fit/fit.h"
#include "fit/import.h"
#include "search/claim.h"
#include "search/search.h"
#include "sim/sim.h"

enum report_format { REPORT_TABLE, REPORT_MARKDOWN, REPORT_CSV, REPORT_JSON };
extern const char *const report_format_names[]; /* "table", "markdown", "csv", "json", NULL */

enum { REPORT_COLUMNS = 100 }; /* no line of a table is longer */

struct report_tree;

/* How to print: the same for all of a run. */
struct report_style {
    FILE *file;
    enum report_format format;
    bool has_color;
    bool explains;       /* --explain */
    const char *version; /* of the program */
};

/* One priced question. */
struct answer {
    const struct question *question;
    const struct estimate *estimate;
    const char *data_hash;
    const char *suggestion;                /* the line "try", or NULL */
    const struct sensitivity *sensitivity; /* of the layout, or NULL: not asked */
};

/* ---- one layout (estimate_*.c) ---------------------------------------------------------------------------------- */

/* Prints the answer in the style's format. Scratch memory comes from the arena. */
void report_estimate(const struct report_style *style, struct sp_arena *arena, const struct answer *answer);

/* The lines "step", "memory" and "run" of a table, and the lines "warning" and "assumed" below it. */
void report_headline_print(const struct report_style *style, struct sp_arena *arena, const struct answer *answer);
void report_remarks_print(const struct report_style *style, struct sp_arena *arena, const struct answer *answer);
void report_estimate_json(const struct report_style *style, struct sp_arena *arena, const struct answer *answer);
void report_estimate_csv(const struct report_style *style, struct sp_arena *arena, const struct answer *answer);
void report_estimate_table(const struct report_style *style, struct sp_arena *arena, const struct answer *answer);
void report_estimate_markdown(const struct report_style *style, struct sp_arena *arena, const struct answer *answer);
/* Every figure with its formula, inputs and their sources; follows the table or the Markdown. */
void report_explain(const struct report_style *style, struct sp_arena *arena, const struct answer *answer);
/* --only attention: one layer's passes in a table (attention_grid.c). */
struct report_grid report_attention_grid(struct sp_arena *arena, const struct estimate *estimate);

/* The object of "seqplan.estimate/1". Copies everything into the arena: question and estimate may go. */
const struct sp_json *report_answer_tree(const struct report_style *style, struct sp_arena *arena,
                                         const struct answer *answer);
/* The layout alone, as --layout reads it back. */
const struct sp_json *report_layout_tree(struct sp_arena *arena, const struct question *question);

/* What the readable forms share (answer_text.c); all copied into the arena. */
const char *report_cluster_text(struct sp_arena *arena,
                                const struct question *question); /* "8 x H100 (1 node, NVLink)" */
const char *report_degrees_text(struct sp_arena *arena,
                                const struct question *question); /* "tp 8 (NVLink)  sp 8 ..." */
const char *report_settings_text(struct sp_arena *arena,
                                 const struct question *question);                 /* "recompute full, zero 1, ..." */
const char *report_mask_text(struct sp_arena *arena, const struct run_spec *run);  /* "causal", "window:4096" */
const char *report_train_text(struct sp_arena *arena, const struct run_spec *run); /* "full", "lora:16" */
const char *report_tokens_text(struct sp_arena *arena, int64_t tokens); /* "15T": exact, as --tokens takes it */
/* "15T tokens: 41.2 days, 506k GPU-hours, $1.5M, 310 MWh", or NULL without --tokens. */
const char *report_run_text(struct sp_arena *arena, const struct answer *answer);
const char *report_recompute_text(struct sp_arena *arena, const struct layout_spec *layout);
const char *report_order_text(struct sp_arena *arena, const struct layout_spec *layout); /* "tp-cp-ep-dp-pp" */
const char *report_title_text(struct sp_arena *arena,
                              const struct question *question);     /* "llama-3.1-8b, 128K tokens, ..." */
const char *report_words(struct sp_arena *arena, const char *name); /* "tp_exposed" as "tp exposed" */
const char *report_tier_title(enum tier tier);                      /* "NVLink": a tier as tables print it */
/* The headline as parts, to be aligned or joined: step time, tokens/s per GPU, MFU and HFU, what bounds it. */
enum { REPORT_HEADLINE_PARTS = 4 };
struct report_headline {
    const char *step[REPORT_HEADLINE_PARTS];
    const char *memory[REPORT_HEADLINE_PARTS];
};
void report_headline(struct sp_arena *arena, const struct answer *answer, struct report_headline *headline);

/* Lines of figures: a label, the figure in bold, then parts that stand under those of the other lines where there is room. */
struct report_figures {
    const char *label;
    const char *const *parts; /* REPORT_HEADLINE_PARTS of them, "" for none */
};
void report_figures_print(const struct report_style *style, const struct report_figures *lines, int n_lines);
/* "12.3 s (11.9-12.8)", "198 ms (190-207)": with the interval where there is one. */
const char *report_step_text(struct sp_arena *arena, const struct estimate *estimate);
/* "fits, 40.3 GiB left" */
const char *report_fit_text(struct sp_arena *arena, const struct estimate *estimate);
/* What was asked, from the version to the layout, into an open tree (estimate_json.c). */
void report_question_put(struct report_tree *tree, const struct report_style *style, const struct answer *answer);

/* The three tables of an answer (answer_grids.c). Rows of no size are left out; communication that recomputation repeats
 * stands in the row of its forward pass. */
struct report_grid report_time_grid(struct sp_arena *arena, const struct estimate *estimate);
struct report_grid report_memory_grid(struct sp_arena *arena, const struct estimate *estimate);
struct report_grid report_communication_grid(struct sp_arena *arena, const struct estimate *estimate);
extern const char *const report_axis_names[]; /* as answers name them: "sp" for AXIS_CP */

/* ---- several layouts (rows_*.c) --------------------------------------------------------------------------------- */

/* One row of "seqplan.table/1": an answer tree, or {layout, error: {rule, text}}. values[i] belongs to names[i] of the
 * table. Borrowed. */
struct report_row {
    const char *const *values;
    const struct sp_json *answer;
};

struct report_rows {
    const char *const *names; /* what varies, as typed: "seq", "gpu.hbm_bandwidth" */
    int n_names;
    const struct report_row *rows;
    int n_rows;
    bool is_comparison; /* of methods: the first value is the method and names its row; rows have no "vary" */
};

/* {layout, error: {rule, text}} */
const struct sp_json *report_error_tree(struct sp_arena *arena, const struct sp_json *layout,
                                        const struct sp_error *err);
void report_rows(const struct report_style *style, struct sp_arena *arena, const struct report_rows *rows);
/* A row with what varies in it, as JSON and CSV print it. */
const struct sp_json *report_row_tree(struct sp_arena *arena, const struct report_rows *rows, int row);
/* As JSON or CSV. */
void report_rows_listed(const struct report_style *style, struct sp_arena *arena, const struct report_rows *rows);
const struct sp_json *report_row_error(const struct report_rows *rows, int row); /* its text, or NULL */
/* "seq 1M, sp 8": what makes a row this row. Copies into arena. */
const char *report_row_name(struct sp_arena *arena, const struct report_rows *rows, int row);
/* The lines below a table of rows. */
void report_rows_remarks(const struct report_style *style, struct sp_arena *arena, const struct report_rows *rows);
void report_rows_table(const struct report_style *style, struct sp_arena *arena, const struct report_rows *rows);
const struct sp_json *report_rows_first_priced(const struct report_rows *rows); /* or NULL */
/* The fastest per GPU that fits or, when none does, the one that needs the least; -1 when no row is priced. */
int report_rows_best(const struct report_rows *rows, bool *fits);

/* Rows that are read one after another, so that a million of them never stand in memory (rows_stream.c). What a visit
 * is given, and what it puts into scratch, is gone after it. */
typedef bool (*report_row_visit)(void *visitor, const struct report_row *row, struct sp_arena *scratch,
                                 struct sp_error *err);
struct report_row_source {
    const char *const *names;
    int n_names;
    bool is_comparison;
    int64_t n_missing; /* rows that an interrupted run lacks: JSON says so */
    bool (*each)(void *user, report_row_visit visit, void *visitor, struct sp_error *err); /* in order; repeatable */
    void *user;
};
/* As JSON or CSV. Fails when the source does. */
bool report_rows_stream(const struct report_style *style, struct sp_arena *arena,
                        const struct report_row_source *source, struct sp_error *err) SP_MUST_CHECK;

/* A setting of an answer: where it stands, what options call it, and the value that goes without saying (NULL: none,
 * "": never said in a heading). */
struct report_setting {
    const char *path;
    const char *label;
    const char *usual;
};
enum { REPORT_SETTINGS = 30 };
extern const struct report_setting report_settings[REPORT_SETTINGS];
const char *report_setting_text(struct sp_arena *arena, int setting, const struct sp_json *answer); /* "" when absent */
bool report_setting_is_varied(const struct report_rows *rows, int setting);
/* In all rows that are priced. */
bool report_setting_is_same(struct sp_arena *arena, const struct report_rows *rows, int setting);
/* Of a row: overrides that the rows vary themselves are left out. */
const char *report_row_setting_text(struct sp_arena *arena, const struct report_rows *rows, int row, int setting);
/* The line below a heading that says what --set overrides (and in Markdown the one of a list); nothing when `text` is
 * empty. */
void report_overrides(const struct report_style *style, const char *text);
/* "network.bandwidth=10Gb/s gpu.hbm_bandwidth=8TB/s": the overrides that all rows that are priced share. */
const char *report_rows_overrides(struct sp_arena *arena, const struct report_rows *rows);
/* "model llama-3.1-8b, seq 128K, gpus 8, ...": what is the same in all rows, as options are called. */
const char *report_rows_heading(struct sp_arena *arena, const struct report_rows *rows);

/* ---- methods side by side (compare_*.c) ------------------------------------------------------------------------- */

/* What a layout costs when the GPUs are joined by another link. */
struct report_link {
    const char *name;   /* "nvlink", "ib-ndr", "ideal" */
    double bytes_per_s; /* of a GPU (NVLink, PCIe) or of a NIC */
    double step_time_s;
    bool is_bound; /* "ideal": sets what is fastest, and is never the best */
};
enum { REPORT_MAX_LINKS = 6 };
/* The slowest link that costs at most this much against the fastest is the best interconnect. */
extern const double report_link_tolerance_frac;
/* The answer with "best_interconnect" and "interconnects", the links by rate. Borrows the answer's members. */
const struct sp_json *report_answer_with_links(struct sp_arena *arena, const struct sp_json *answer,
                                               const struct report_link *links, int n_links);
/* The table of a comparison, and its lines below: which is faster than which, and why. */
void report_compare_table(const struct report_style *style, struct sp_arena *arena, const struct report_rows *rows);
void report_compare_words(const struct report_style *style, struct sp_arena *arena, const struct report_rows *rows);
/* In any format. */
void report_compare(const struct report_style *style, struct sp_arena *arena, const struct report_rows *rows);
/* Bytes of axis sp in a pass ("forward"), per layer and GPU. */
double report_method_bytes(const struct sp_json *answer, const char *pass);

/* ---- two layouts (diff_*.c) ------------------------------------------------------------------------------------- */

struct report_diff {
    const char *name_a, *name_b; /* as the user typed them */
    const struct sp_json *a, *b; /* whole answers */
};
/* The object of "seqplan.diff/1". Borrows the answers. */
const struct sp_json *report_diff_tree(struct sp_arena *arena, const struct report_diff *diff);
/* Why A is slower or larger than B, in words. */
const char *report_diff_words(struct sp_arena *arena, const struct report_diff *diff);
void report_diff_table(const struct report_style *style, struct sp_arena *arena, const struct report_diff *diff);
/* An item of time or memory ("sp_exposed", "activations"), and by how much A has more of it. */
struct report_item {
    const char *name; /* NULL: none */
    double difference;
};
/* The largest item of a list ("time_s", "memory_bytes") that has this sign and is not `other`. */
struct report_item report_largest_item(const struct report_diff *diff, const char *list, double sign,
                                       const char *other);
/* What makes an item differ: "ring over the network: 14 hops a layer instead of 6", "recompute full instead of none"; ""
 * when nothing is known to (item_cause.c). */
const char *report_item_cause(struct sp_arena *arena, const struct report_diff *diff, const struct report_item *item);
/* A setting of an answer's layout by path ("layout.sp_method", "gpus"); "" where it decides nothing, as a schedule without
 * stages (layout_settings.c). */
const char *report_layout_setting(struct sp_arena *arena, const struct sp_json *answer, const char *path);
/* "recompute full instead of none"; "" when both have the same or one has none. */
const char *report_setting_instead(struct sp_arena *arena, const struct report_diff *diff, const char *key);
/* Where A's layout differs from B's, the most telling settings: "tp 4, sp 16". */
const char *report_layout_difference(struct sp_arena *arena, const struct report_diff *diff);
/* In any format. */
void report_diff(const struct report_style *style, struct sp_arena *arena, const struct report_diff *diff);

/* ---- a plan (plan_*.c, layout_options.c) ------------------------------------------------------------------------- */

struct report_plan {
    const struct plan_question *asked;
    const struct question *base; /* of any layout of the space: what all have in common */
    const struct plan *plan;
    const struct sp_json *const *answers;  /* whole ones, of plan->layouts */
    const struct answer *best;             /* of the first or, when nothing fits, of the nearest miss; NULL: neither */
    const struct sp_json *nearest_miss;    /* the same as a tree; NULL: something fits, or nothing keeps the rules */
    const struct sp_texts *changes;        /* the smallest that would make it fit; NULL: not looked for */
    const struct sensitivity *sensitivity; /* of the winner; NULL: not looked for */
};

/* In any format. */
void report_plan(const struct report_style *style, struct sp_arena *arena, const struct report_plan *plan);
void report_plan_table(const struct report_style *style, struct sp_arena *arena, const struct report_plan *plan);
/* The object of "seqplan.plan/1". Borrows the answers. */
const struct sp_json *report_plan_tree(struct sp_arena *arena, const struct report_plan *plan);
/* What sets plan i apart from the first, in words; of the first: by what it is first. */
const char *report_plan_differs(struct sp_arena *arena, const struct report_plan *plan, int i);
/* The same in short, for a table that has the figures. */
const char *report_plan_brief(struct sp_arena *arena, const struct report_plan *plan, int i);
/* By rank, which layouts stand in a table: the best of each family, or the front thinned and by time. Returns
 * how many; `rows` has room for all (plan_grid.c). */
int report_plan_ranked(const struct report_plan *plan, int *rows);
int report_plan_front(struct sp_arena *arena, const struct report_plan *plan, int *rows, int *n_whole);
/* These layouts with what sets them apart; `has_words`: below each row what makes it differ from the first. */
struct report_grid report_plan_grid(struct sp_arena *arena, const struct report_plan *plan, const int *rows, int n_rows,
                                    bool has_words);
/* Whether its rows differ in placement: those without a word of it have the usual one. */
bool report_plan_shows_orders(const struct report_plan *plan, const int *rows, int n_rows);
/* What was dropped, by reason, with an example each (plan_misses.c). */
struct report_grid report_plan_rejections(struct sp_arena *arena, const struct report_plan *plan);
/* What the nearest miss lacks: memory of a GPU or, when that is enough, of the host; 0 when only another constraint is
 * broken. */
struct report_missing {
    double bytes;
    double allowed_bytes; /* of a GPU: the capacity, or what the constraints leave of it */
    bool is_of_host;
};
struct report_missing report_plan_missing(const struct report_plan *plan);
/* When there are no layouts: what the nearest lacks, or why there is none. */
const char *report_plan_miss_text(struct sp_arena *arena, const struct report_plan *plan);
/* Adds what of the constraints and of the values asked for does nothing. */
void report_plan_remarks(const struct report_plan *plan, struct sp_texts *remarks);
extern const char report_usual_order[]; /* "tp-cp-ep-dp-pp": what goes without saying */
/* A word of a shell's command line: quoted where the shell would read more into it. */
const char *report_shell_word(struct sp_arena *arena, const char *text);
/* "--tp 8 --sp 8 ...": the options of `seqplan estimate` that give the answer of a layout. */
const char *report_layout_options(struct sp_arena *arena, const struct report_plan *plan,
                                  const struct plan_layout *layout);

/* ---- how far an answer depends on the machine (sensitivity_*.c) -------------------------------------------------- */

/* What stands under the key "sensitivity" of an answer or a plan. */
const struct sp_json *report_sensitivity_tree(struct sp_arena *arena, const struct sensitivity *sensitivity);
/* A row a figure; below it the values at which another layout wins. */
struct report_grid report_sensitivity_grid(struct sp_arena *arena, const struct hardware_spec *hardware,
                                           const struct sensitivity *sensitivity);
/* The same below the tables of one layout; nothing where it is not asked for. */
void report_sensitivity_print(const struct report_style *style, struct sp_arena *arena, const struct answer *answer);
const char *report_sensitivity_title(struct sp_arena *arena, const struct hardware_spec *hardware,
                                     enum sensitivity_figure figure); /* "NVLink", "network ib-ndr" */
/* "tp 4 sp 8 zigzag pp 2 dp 1, megatron", "tp 1 sp 16 usp (ulysses 4) pp 1 dp 2 ep 8, megatron" */
const char *report_kept_text(struct sp_arena *arena, const struct plan_layout *kept);
/* The same of a layout that wins in a sensitivity. */
const char *report_winner_text(struct sp_arena *arena, const struct sensitivity *sensitivity, int winner);

/* ---- limits (limits_*.c) ------------------------------------------------------------------------------------------ */

struct report_limits_row {
    int method; /* enum method_id of a row of a list, or -1 */
    struct limits limits;
    const char *refusal, *rule; /* what its layout breaks, or NULL */
};
struct report_limits {
    const struct request *request;
    bool is_any;
    const struct report_limits_row *rows; /* one, or one for each method of a list */
    int n_rows;
};
/* The object of "seqplan.limits/1": of several rows the keys at the top are those of the longest sequence. */
const struct sp_json *report_limits_tree(const struct report_style *style, struct sp_arena *arena,
                                         const struct report_limits *limits);
/* Index of the row with the longest sequence, or else the first that has a limit; 0 when none has. */
int report_limits_best(const struct report_limits *limits);
/* "needs --seq", "beyond the 4096 positions of ...": what to know about a row. */
void report_limits_remarks(const struct report_limits *limits, int row, bool is_in_words, struct sp_texts *warnings);
/* In any format. Whether anything fits: a length on the cluster, without one a cluster. */
bool report_limits(const struct report_style *style, struct sp_arena *arena, const struct report_limits *limits);
void report_limits_table(const struct report_style *style, struct sp_arena *arena, const struct report_limits *limits);

/* ---- claims (check_*.c) ------------------------------------------------------------------------------------------- */

struct report_claim {
    const char *text; /* as typed: "peak_bytes=42GB" */
    struct claim_judgement judgement;
};
struct report_check {
    struct answer answer; /* what the claims are held against */
    const struct report_claim *claims;
    int n_claims;
};
/* Index of the claim with the gravest verdict, the first of them. */
int report_check_worst(const struct report_check *check);
/* In any format; CSV has a row a claim. */
void report_check(const struct report_style *style, struct sp_arena *arena, const struct report_check *check);
/* The object of "seqplan.check/1": of several claims the keys at the top are those of the gravest. */
const struct sp_json *report_check_tree(const struct report_style *style, struct sp_arena *arena,
                                        const struct report_check *check);
/* A figure of a claim in its unit: "2410", "32.1 GiB", "34.8 %". */
const char *report_claim_value(struct sp_arena *arena, const struct claim_quantity *quantity, double value);
/* Why the verdict is what it is, and what the claim would imply. */
const char *report_claim_reason(struct sp_arena *arena, const struct answer *answer,
                                const struct claim_judgement *judgement);
/* "the GPUs of a node counted as one, a factor of 8: divided by it the claim is 0.98 of ..."; NULL: no convention explains it. */
const char *report_claim_cause(struct sp_arena *arena, const struct claim_judgement *judgement);

/* Claims of a document, each with its question (claims_page.c, claims_rows.c). */
struct report_claim_row {
    const char *section; /* where in the document it stands */
    const char *text;    /* the claim in words */
    const char *claimed; /* "48000", "20 % to 30 %" */
    const char *note;    /* why it is not as claimed, or why no question can be made of it; or NULL */
    const char *command; /* options of the question; NULL: none */
    const char *against; /* of the question that the figure is a ratio to; or NULL */
    const struct claim_quantity *quantity;
    double claimed_low, claimed_high;
    double computed;            /* NAN: none */
    const char *reason, *cause; /* of a judgement, or NULL */
    enum claim_finding finding;
};
struct report_claim_document {
    const char *title;
    const char *about;
    const char *path; /* of its file, as the page names it */
    const struct report_claim_row *rows;
    int n_rows;
};
/* As a table, Markdown, CSV or JSON. */
void report_claims(const struct report_style *style, struct sp_arena *arena,
                   const struct report_claim_document *documents, int n_documents);
/* docs/claims.md. */
void report_claims_page(const struct report_style *style, struct sp_arena *arena,
                        const struct report_claim_document *documents, int n_documents);
/* What the model gives: "434 tokens/s per GPU", "0.77 times", "none". */
const char *report_claim_computed(struct sp_arena *arena, const struct report_claim_row *row);

/* ---- a simulated step (simulate_*.c) ------------------------------------------------------------------------------ */

struct report_simulation {
    struct answer answer; /* of the closed form, on the same question */
    const struct sim_result *result;
    const struct sim_options *options;
    const struct sim_result *undisturbed; /* the same step with every GPU and link whole; NULL: nothing is disturbed */
    const char *spans_file;               /* where --trace put them, or NULL */
    bool is_row;                          /* of several: without what another run would not give again (elapsed time) */
};
/* The object of "seqplan.simulate/1". Ranks, layers and micro-batches count from 0, stages from 1. */
const struct sp_json *report_simulation_tree(const struct report_style *style, struct sp_arena *arena,
                                             const struct report_simulation *simulation);
/* In any format. */
void report_simulation(const struct report_style *style, struct sp_arena *arena,
                       const struct report_simulation *simulation);
/* The closed form with the rates of the simulated step: tokens/s, MFU, days and cost of a run. Copies into arena. */
const struct estimate *report_simulated_estimate(struct sp_arena *arena, const struct report_simulation *simulation);

/* One line of what a rank of the slowest stage does in a step, simulated and in the closed form. */
struct report_time_part {
    const char *name;  /* "kernels", "tp transfers", "bubble" */
    const char *brief; /* where there is little room */
    double simulated_s, estimated_s;
    int axis; /* whose transfers it is, or -1 */
};
enum { REPORT_TIME_PARTS = 10 };
void report_time_parts(const struct report_simulation *simulation, struct report_time_part parts[REPORT_TIME_PARTS]);
const struct sim_rank *report_busiest_rank(const struct report_simulation *simulation); /* of the slowest stage */
/* "tp transfers +6.1 s (5.9 s of it: links shared), bubble +3.0 s": why simulation and closed form differ; "" when they
 * agree (simulate_words.c). */
const char *report_simulation_causes(struct sp_arena *arena, const struct report_simulation *simulation);
/* "nic:2.5 at 50 % costs 12.4 %: 3.41 s instead of 3.03 s"; NULL when nothing is disturbed. */
const char *report_disturbance_text(struct sp_arena *arena, const struct report_simulation *simulation);
/* "GPU 3 at 80 % of its speed", one text each. */
void report_disturbances(const struct sim_options *options, struct sp_texts *texts);
/* "stage 1, rank 0, at 12.3 s of the step: layer rebuilt, layer 3, micro-batch 7 (5 micro-batches held)" */
const char *report_peak_text(struct sp_arena *arena, const struct sim_peak *peak, bool has_stages);
const char *report_axes_text(struct sp_arena *arena, unsigned axes); /* "tp + sp"; "" of none */
/* The tables (simulate_grids.c). Of many ranks and links some are shown; n_shown: how many. */
struct report_grid report_time_parts_grid(struct sp_arena *arena, const struct report_simulation *simulation);
struct report_grid report_critical_grid(struct sp_arena *arena, const struct sim_result *result);
struct report_grid report_peak_grid(struct sp_arena *arena, const struct sim_peak *peak);
struct report_grid report_ranks_grid(struct sp_arena *arena, const struct sim_result *result, int *n_shown);
struct report_grid report_links_grid(struct sp_arena *arena, const struct sim_result *result, int *n_shown);
struct report_grid report_delays_grid(struct sp_arena *arena, const struct sim_result *result);

/* ---- a file that appears whole (whole_file.c) -------------------------------------------------------------------- */

/* Written beside its place and moved there at the end, so that whoever looks finds all of it or nothing; a name ending in
 * ".gz" is compressed. What is no regular file (a pipe, /dev/null) is written where it is. Errors of writing are kept for
 * the end. */
struct whole_file;
/* NULL and SP_ERROR_IO where nothing can be written. Copies into arena. */
struct whole_file *whole_file_open(struct sp_arena *arena, const char *path, struct sp_error *err);
void whole_file_print(struct whole_file *file, const char *format, ...) SP_PRINTF(2, 3);
void whole_file_write(struct whole_file *file, const void *bytes, size_t n_bytes); /* below 4 GiB */
bool whole_file_close(struct whole_file *file, struct sp_error *err) SP_MUST_CHECK;
/* Leaves nothing behind. */
void whole_file_drop(struct whole_file *file);

/* ---- every span of a step, for chrome://tracing and ui.perfetto.dev (trace.c) ------------------------------------- */

struct trace;
/* Begins with what the trace is of. NULL and SP_ERROR_IO where it cannot be written. */
struct trace *trace_open(struct sp_arena *arena, const char *path, const struct question *question,
                         struct sp_error *err);
struct sim_sink trace_sink(struct trace *trace);
/* Names the ranks. result: of the run whose spans it got. */
bool trace_close(struct trace *trace, const struct sim_result *result, struct sp_error *err) SP_MUST_CHECK;
void trace_drop(struct trace *trace); /* leaves nothing behind */
int64_t trace_spans(const struct trace *trace);

/* ---- a Gantt chart through gnuplot (gantt_*.c) -------------------------------------------------------------------- */

/* A whole step with a row for each rank, or the attention of one layer with a row for each stream of each rank. */
enum gantt_of { GANTT_STEP, GANTT_LAYER };
extern const char *const gantt_of_names[]; /* "step", "layer", NULL */
struct gantt_request {
    const char *path; /* ends in .svg, .png or .pdf; "-": as text to the style's file */
    enum gantt_of of;
    const struct question *question;
    const struct sim_options *options;
    double expected_s; /* about how long the step takes */
};
/* Whether it can be drawn: SP_ERROR_USAGE for a name that says no format, SP_ERROR_IO where there is no gnuplot. */
bool gantt_check(const char *path, struct sp_error *err) SP_MUST_CHECK;
struct gantt;
struct gantt *gantt_open(struct sp_arena *arena, const struct gantt_request *request);
struct sim_sink gantt_sink(struct gantt *gantt);
/* Of the run whose spans it got. A picture appears whole or not at all. */
bool gantt_draw(const struct gantt *gantt, const struct report_style *style, const struct sim_result *result,
                struct sp_error *err) SP_MUST_CHECK;

/* ---- predicted beside measured (validation_*.c) ------------------------------------------------------------------ */

struct report_validation {
    const struct validation_set *set;
    enum validation_by by;       /* of the table of errors */
    unsigned roles;              /* VALIDATION_*: whose rows are listed */
    bool has_rows;               /* all of them in a table too */
    const struct sp_json *peers; /* the file of what others state (seqplan.peers/1); of the page */
};
/* In any format. */
void report_validation(const struct report_style *style, struct sp_arena *arena,
                       const struct report_validation *validation);
/* The object of "seqplan.validate/1". */
const struct sp_json *report_validation_tree(const struct report_style *style, struct sp_arena *arena,
                                             const struct report_validation *validation);
/* A row as JSON and CSV have it. */
const struct sp_json *report_validation_row(struct sp_arena *arena, const struct validation_source *source,
                                            const struct validation_row *row);
/* docs/validation.md: everything, in Markdown, the same whenever and wherever it is made. */
void report_validation_page(const struct report_style *style, struct sp_arena *arena,
                            const struct report_validation *validation);
/* The errors by what the style asks for; with `has_target` beside what the file of the source sets as a target. */
struct report_grid report_validation_grid(struct sp_arena *arena, const struct validation_summary *summaries, int n,
                                          enum validation_by by);
/* How many rows of a source are of which kind. */
struct report_validation_counts {
    int n_judged, n_fitted, n_left_out;
};
struct report_validation_counts report_validation_count(const struct validation_source *source);
/* "20.9 GiB", "1.23 s", "yes": in the unit of the quantity. */
const char *report_validation_value(struct sp_arena *arena, enum validation_unit unit, double value);
/* "0.004", "4.1", "-40": per cent, with fewer decimals as it grows. */
const char *report_validation_percent(struct sp_arena *arena, double fraction, bool has_sign);
/* "3 not built, 1 refused, 12 not expressible", or "". */
const char *report_validation_left_out(struct sp_arena *arena, const struct validation_summary *summary);
/* "0.90 expected, 41 of 44 inside, p 0.8; mean width 7.1 %" */
const char *report_validation_coverage(struct sp_arena *arena, const struct validation_coverage *coverage);
/* "57 of 60 pairs of methods whose ... are predicted in the same order (95.0 %)" */
const char *report_validation_order(struct sp_arena *arena, const struct validation_order *order);
/* "4.7 % over 5 published sources graded A", or that there is none. */
const char *report_validation_headline(struct sp_arena *arena, const struct validation_headline *headline,
                                       const char *of_what);
/* What was fitted to rows of a source, each with its rows: "step_time_s of TP, PP: host tail". */
void report_validation_fitted(const struct validation_source *source, struct sp_texts *texts);
/* Sources whose judged errors lean one way by more than 5 %, each with its explanation; of steps and peaks, or of all that
 * is whole. */
void report_validation_biases(struct sp_arena *arena, const struct validation_set *set, bool is_whole,
                              struct sp_texts *texts);

/* Predicted against measured, or the error against the length, through gnuplot. The picture appears whole or not at all. */
bool report_validation_can_plot(const char *path, struct sp_error *err) SP_MUST_CHECK; /* a format, and gnuplot */
enum report_validation_picture { REPORT_VALIDATION_SCATTER, REPORT_VALIDATION_RESIDUALS };
bool report_validation_plot(struct sp_arena *arena, const struct report_validation *validation,
                            enum report_validation_picture picture, const char *path,
                            struct sp_error *err) SP_MUST_CHECK;

/* ---- provenance (data_hash.c) ----------------------------------------------------------------------------------- */

uint64_t report_fnv1a(const char *text);
/* 64-bit FNV-1a over the bytes of the data files behind a question, as 16 hexadecimal digits in the arena; what --set
 * overrides is not in it. NULL and *err when a file cannot be read any more. */
const char *report_data_hash(struct sp_arena *arena, const struct question *question, struct sp_error *err);

/* Goes on with the bytes of a file, and of all data files that any question could be answered from. */
bool report_hash_file(uint64_t *hash, const char *path, struct sp_error *err) SP_MUST_CHECK;
bool report_hash_all(struct sp_arena *arena, uint64_t *hash, struct sp_error *err) SP_MUST_CHECK;

/* ---- calibration (calibration_*.c) ------------------------------------------------------------------------------- */

struct report_calibration {
    const struct calibration *calibration;
    const char *path; /* where the hardware was written; NULL: nowhere */
};
/* In any format; CSV has a row a curve. */
void report_calibration(const struct report_style *style, struct sp_arena *arena,
                        const struct report_calibration *report);
void report_calibration_table(const struct report_style *style, struct sp_arena *arena,
                              const struct report_calibration *report);
const struct sp_json *report_calibration_tree(struct sp_arena *arena, const struct report_calibration *report);

/* ---- grids (grid.c) --------------------------------------------------------------------------------------------- */

struct report_column {
    const char *heading; /* of tables and Markdown */
    const char *key;     /* of JSON and CSV; NULL: not in them */
    bool is_right;       /* figures stand right-aligned */
    bool is_note;    /* in a table: on lines of its own below the row, wrapped; in Markdown a column like the others */
    bool is_lowered; /* as is_note; neighbours share a line: "hardware dgx-h100, recompute full" */
    bool has_no_label; /* of notes: the heading does not stand before them */
    bool is_hidden;    /* in neither of them: only in JSON and CSV */
};

struct report_cell {
    const char *text;            /* NULL: empty */
    const struct sp_json *value; /* for JSON and CSV; NULL: the text */
};

/* A table of text under construction. Tables and Markdown leave out columns that are empty in every row. */
struct report_grid {
    struct sp_arena *arena;
    const struct report_column *columns;
    int n_columns;
    int n_rows;
    int capacity;
    int gap; /* spaces between columns of a table; 0: two */
    struct report_cell *cells;
};

void report_grid_init(struct report_grid *grid, struct sp_arena *arena, const struct report_column *columns,
                      int n_columns);
/* Begins a row of empty cells. */
void report_grid_add(struct report_grid *grid);
/* Sets a cell of the last row. Copies into arena. */
void report_grid_text(struct report_grid *grid, int column, const char *format, ...) SP_PRINTF(3, 4);
void report_grid_number(struct report_grid *grid, int column, double value, const char *text);
void report_grid_bool(struct report_grid *grid, int column, bool value, const char *text);
/* Columns that a table needs, its notes left out. */
int report_grid_width(const struct report_grid *grid);
/* The heading and the rows as lines of equal width, without notes: n_rows + 1 of them. Copies into arena. */
const char **report_grid_lines(const struct report_grid *grid);
/* As a table (indented by two) or Markdown, by the style; other formats print nothing. */
void report_grid_print(const struct report_style *style, const struct report_grid *grid);
/* Up to three tables side by side (grid_blocks.c); where the width does not allow it the last one stands below. */
void report_grids_print(const struct report_style *style, const struct report_grid *grids, int n_grids);
/* A whole answer of `show`: heading and grid, {schema, show, rows} in JSON, or the grid alone in CSV. */
void report_grid_document(const struct report_style *style, const struct report_grid *grid, const char *show,
                          const char *title);

/* ---- measurements (measured_*.c) ---------------------------------------------------------------------------------- */

/* A run of measurements, as the store holds it. */
struct report_measured {
    int64_t id;
    const char *key, *profile, *version; /* "" where they are not known */
    const char *begun_at, *changed_at;
    int64_t n_planned; /* 0: not known */
    bool is_finished;
    const struct sp_json *machine;  /* its line */
    const struct measurement *rows; /* timed or refused, in the order they came */
    size_t n_rows;
};
/* In any format. */
void report_measured(const struct report_style *style, struct sp_arena *arena, const struct report_measured *measured);
void report_measured_table(const struct report_style *style, struct sp_arena *arena,
                           const struct report_measured *measured);
/* The timed rows of a group: a line each, or a matrix of what varies; of many some are shown. False: there are none. */
struct report_measured_group {
    struct report_grid grid;
    const char *constants; /* "head_dim 128, dtype bf16": what all of them have, or "" */
    int n_shown, n_timed;
};
bool report_measured_grid(struct sp_arena *arena, const struct report_measured *measured, enum measurement_group group,
                          struct report_measured_group *shown);
/* FLOP or bytes over the median time, whichever the group is known by; 0 where the row has none. */
enum report_metric { REPORT_METRIC_FLOP, REPORT_METRIC_BYTES, REPORT_METRIC_TIME };
enum report_metric report_measured_metric(enum measurement_group group);

/* ---- what was brought in (imported.c) ----------------------------------------------------------------------------- */

struct report_imported {
    const char *name; /* of the file */
    const char *kind;
    const struct import_result *result;
    const char *output; /* the hardware file that came of it, or NULL */
    bool is_verbose;    /* what became of each line */
};
void report_imported(const struct report_style *style, struct sp_arena *arena, const struct report_imported *imported,
                     size_t n_imported);
/* A line for the user while it goes on: what was taken, what was skipped, where it went. */
void report_imported_say(FILE *file, struct sp_arena *arena, const struct report_imported *imported);

/* ---- trees (tree.c, csv.c) -------------------------------------------------------------------------------------- */

enum { REPORT_TREE_DEPTH = 12 };

/* Builds a tree of JSON values in an arena. Strings are copied. key is NULL inside arrays. */
struct report_tree {
    struct sp_arena *arena;
    int depth;
    struct sp_json *groups[REPORT_TREE_DEPTH]; /* the open objects and arrays, outermost first */
    struct sp_json *last[REPORT_TREE_DEPTH];   /* last member of each */
};
void report_tree_open(struct report_tree *tree, struct sp_arena *arena); /* an object */
const struct sp_json *report_tree_close(struct report_tree *tree);
void report_tree_begin(struct report_tree *tree, const char *key, enum sp_json_type type); /* an object or an array */
void report_tree_end(struct report_tree *tree);
void report_tree_string(struct report_tree *tree, const char *key, const char *value); /* NULL puts null */
void report_tree_number(struct report_tree *tree, const char *key, double value);
void report_tree_bool(struct report_tree *tree, const char *key, bool value);
void report_tree_null(struct report_tree *tree, const char *key);
void report_tree_texts(struct report_tree *tree, const char *key, const struct sp_texts *texts);
/* Puts an existing value as a member; its own members are borrowed. */
void report_tree_value(struct report_tree *tree, const char *key, const struct sp_json *value);

/* Members of a struct as keys. */
enum report_key_type {
    REPORT_KEY_STRING,
    REPORT_KEY_INTEGER,
    REPORT_KEY_INT,
    REPORT_KEY_NUMBER,
    REPORT_KEY_BOOL,
    REPORT_KEY_NAME
};
struct report_key {
    const char *key;
    enum report_key_type type; /* const char *, int64_t, int, double, bool, enum */
    size_t offset;
    const char *const *names; /* REPORT_KEY_NAME: of the enum's values */
};
/* The table ends with a row whose key is NULL. */
void report_tree_keys(struct report_tree *tree, const struct report_key *keys, const void *object);

void report_tree_write(const struct sp_json *value, FILE *file);
/* As a part of a larger document. */
void report_tree_put(struct sp_json_writer *writer, const struct sp_json *value, bool is_in_array);
/* An object on one line, without a line break at its end; NULL when there is no memory. Copied into arena. */
char *report_tree_text(struct sp_arena *arena, const struct sp_json *object);
/* The value at a dotted path of an object, or NULL. */
const struct sp_json *report_tree_at(const struct sp_json *object, const char *path);
/* A sheet under construction: one line per object, one column per value: keys joined by dots, lists of texts by "; ".
 * Columns are those of all objects in order of appearance; where an object lacks one, the cell is empty. */
struct report_csv {
    struct sp_arena *arena;   /* of the columns */
    struct sp_arena *scratch; /* of the object that is being read */
    int n_columns;
    int capacity;
    const char **names;
    const struct sp_json **cells; /* of that object, under the names */
    int expected;                 /* column that the next cell belongs to when objects are alike */
};
void report_csv_write(struct sp_arena *arena, const struct sp_json *const *objects, int n_objects, FILE *file);
/* The same for objects that come one at a time: all of them once for the columns, and again for the lines. */
void report_csv_open(struct report_csv *sheet, struct sp_arena *arena);
void report_csv_columns(struct report_csv *sheet, struct sp_arena *scratch, const struct sp_json *object);
void report_csv_heading(const struct report_csv *sheet, FILE *file);
void report_csv_line(struct report_csv *sheet, struct sp_arena *scratch, const struct sp_json *object, FILE *file);
/* An answer as CSV has it: one without overrides needs no column for them. Borrows its members (estimate_csv.c). */
const struct sp_json *report_csv_answer(struct sp_arena *arena, const struct sp_json *answer);

/* ---- words and figures (figure_text.c) -------------------------------------------------------------------------- */

/* Three significant digits without exponent: "0.0123", "12.3", "1230"; from 1e9 on "1.23e+09". Copied into arena. */
const char *report_three(struct sp_arena *arena, double value);
/* With the decimals that give `largest` three significant digits, at least one below 1000, so that a column aligns; what
 * would round to nothing is "<0.1". Copied into arena. */
const char *report_fixed(struct sp_arena *arena, double value, double largest);
const char *report_percent(struct sp_arena *arena, double frac); /* "41.2": without the sign */
/* Three digits with k, M, G, T: "506k". Copied into arena. */
const char *report_scaled(struct sp_arena *arena, double value);
/* Exact below 100000, else three digits: "61007", "81.2M". Copied into arena. */
const char *report_count(struct sp_arena *arena, int64_t count);
/* Step times, never in minutes or hours: "0.0123 s" is "12.3 ms", 3600 s is "3600 s". Copied into arena. */
const char *report_step_time(struct sp_arena *arena, double seconds);
/* Characters on a terminal, one per code point. */
int report_text_width(const char *text);
/* `label` once, then the text broken at spaces, every line indented to the label's end plus one. */
void report_wrap(FILE *file, int indent, const char *label, const char *text);
/* The same for a text of parts with REPORT_PART_GAP between them, which stay whole. */
#define REPORT_PART_GAP "  "
void report_wrap_parts(FILE *file, int indent, const char *text);
/* Bytes of a line without the spaces at its end. */
int report_trimmed_length(const char *line);
/* "a; b; c" of the texts, copied into arena. */
const char *report_join_texts(struct sp_arena *arena, const struct sp_texts *texts);

enum report_color { REPORT_PLAIN, REPORT_BOLD, REPORT_DIM, REPORT_RED, REPORT_GREEN, REPORT_YELLOW };
/* Escape sequence that begins a colour, or "" where the style has none; REPORT_PLAIN ends it. Static text. */
const char *report_color(const struct report_style *style, enum report_color color);

#endif
