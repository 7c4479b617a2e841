/* Shared by the files of this layer only; nobody else includes it. */
#ifndef SEQPLAN_SPEC_INTERNAL_H
#define SEQPLAN_SPEC_INTERNAL_H

#include "spec/spec.h"

/* ---- model_family.c --------------------------------------------------------------------------------------------- */

/* Which layers see a window only, unless the file's layer_types says so. */
enum window_rule {
    WINDOW_NONE,          /* the family reads no window */
    WINDOW_OF_ALL_LAYERS, /* sliding_window holds for every layer */
    WINDOW_BY_FLAG,       /* only with use_sliding_window, and then from max_window_layers on */
    WINDOW_ALTERNATES     /* the first layer, the third, ... */
};

/* Names by which a file describes experts; NULL: the family reads no such field. */
struct expert_fields {
    const char *count;
    const char *per_token;
    const char *width;
    const char *shared_count; /* shared experts, each of `width` */
    const char *shared_width; /* or all of them together */
    const char *first;        /* the first layer that has experts; the ones before are dense */
    const char *period;       /* from there every period-th layer has experts */
    bool counts_period_from_1;
    const char *dense_layers; /* a list of layers without experts */
    bool has_router_bias, has_expert_bias, has_shared_gate;
};

/* What differs between the architectures that share the decoder layer. Defaults are those of the family's
 * configuration class in Hugging Face transformers 4.5x, which apply when a file leaves the field out. */
struct model_family {
    const char *architecture;
    bool has_tied_embeddings;  /* tie_word_embeddings left out */
    bool has_qkv_bias;         /* fixed by the family, unless it reads attention_bias */
    bool reads_attention_bias; /* attention_bias gives q, k, v and o a bias */
    bool defaults_attention_bias;
    bool reads_mlp_bias;
    bool has_qk_norm;
    bool has_sinks;
    bool has_latent_attention;
    bool defaults_kv_heads; /* num_key_value_heads left out means one per query head */
    enum window_rule window;
    const int64_t *default_window;       /* sliding_window left out; null in the file still means none */
    const struct expert_fields *experts; /* NULL: a dense family */
};
/* NULL when the architecture is not built. */
const struct model_family *model_family_find(const char *architecture);
/* "LlamaForCausalLM, ...": what is built. */
const char *model_family_list(struct sp_arena *arena);
/* Whether the family reads a field of that name; family NULL: whether all do. */
bool model_family_reads(const struct model_family *family, const char *name);

/* ---- config_fields.c -------------------------------------------------------------------------------------------- */

enum config_use {
    CONFIG_USED,       /* read by the family */
    CONFIG_HARMLESS,   /* changes neither memory nor time */
    CONFIG_UNMODELLED, /* changes them when it is not neutral: a warning */
    CONFIG_UNBUILT,    /* another kind of model when it is not neutral: refused */
    CONFIG_UNKNOWN
};
struct config_field {
    const char *name;
    const char *what; /* CONFIG_UNMODELLED, CONFIG_UNBUILT: what the field brings */
};
/* What a field of a config.json is to a family (NULL: not known yet); *field receives its row when there is one. */
enum config_use config_field_use(const struct model_family *family, const char *name,
                                 const struct config_field **field);
/* Whether any family or list knows the name. */
bool config_field_is_known(const char *name);
/* Null, false, zero, an empty array, object or string: the value that switches a field off. */
bool config_value_is_neutral(const struct sp_json *value);

/* ---- config_reader.c -------------------------------------------------------------------------------------------- */

struct config_reader {
    struct sp_arena *arena;
    const char *file;
    const struct sp_json *json;
    const struct model_family *family;
    struct sp_texts *warnings;
    struct sp_error *err;
};
struct config_integer {
    const char *key;
    int64_t min, max;
    bool is_required;
    int64_t value_if_absent; /* or null */
};
/* What stands in the file, short enough for an error. */
const char *config_found_text(struct sp_arena *arena, const struct sp_json *value);
/* NULL for a member that is absent or null: Hugging Face treats both alike, but where a default is no null. */
const struct sp_json *config_member(const struct config_reader *reader, const char *key);
bool config_fail_missing(const struct config_reader *reader, const char *key);
bool config_read_integer(const struct config_reader *reader, const struct config_integer *field,
                         int64_t *integer) SP_MUST_CHECK;
bool config_read_bool(const struct config_reader *reader, const char *key, bool value_if_absent,
                      bool *flag) SP_MUST_CHECK;

/* ---- model_layers.c --------------------------------------------------------------------------------------------- */

/* Window and experts of every layer; model->n_layers and the sizes are there already. */
bool model_read_layers(const struct config_reader *reader, struct model_spec *model) SP_MUST_CHECK;

/* ---- model_spec.c ----------------------------------------------------------------------------------------------- */

/* Decodes a parsed config.json. Borrows path and json. */
bool model_decode(struct sp_arena *arena, const char *path, const struct sp_json *json, struct model_spec *model,
                  struct sp_texts *warnings, struct sp_error *err) SP_MUST_CHECK;

/* ---- curve_table.c ---------------------------------------------------------------------------------------------- */

/* keys: the group (of several tables read as one), then up to four columns; x and y are the last two columns. */
enum { CURVE_MAX_KEYS = 5, CURVE_MAX_COLUMNS = CURVE_MAX_KEYS + 1 };

struct curve_column {
    const char *name;
    const char *const *names; /* what a key may be; NULL: a number */
};
struct curve_provenance {
    int kind; /* enum sp_figure_kind */
    const char *source;
    const char *note;
    int order;     /* of the table in its file */
    double spread; /* relative standard deviation of a call that is priced through the table; 0: not known */
    const struct sp_json *fit; /* what the fit itself was, kept for who asks; NULL: none */
};
struct curve_table { /* the members that every table has */
    struct curve_provenance from;
    const struct sp_json *columns;
    const struct sp_json *rows;
};
struct curve_point {
    int64_t keys[CURVE_MAX_KEYS];
    double x;
    double y;
    const struct curve_provenance *from;
};
struct curve_points {
    struct sp_arena *arena;
    struct curve_point *items;
    size_t count;
    size_t capacity;
    int n_tables;
};
struct curve_reading {
    const struct sp_decoder *decoder;
    const char *path; /* of the table */
    const struct curve_column *columns;
    size_t n_columns;
};

/* The members that every table has: a struct curve_table lies at `base`, or is called table in struct `owner`. */
#define CURVE_DATA_FIELDS(base)                                                                                        \
    {.key = "columns",                                                                                                 \
     .type = SP_FIELD_CUSTOM,                                                                                          \
     .offset = (base) + offsetof(struct curve_table, columns),                                                         \
     .is_required = true,                                                                                              \
     .help = "names of the columns",                                                                                   \
     .decode = curve_keep_array},                                                                                      \
    {                                                                                                                  \
        .key = "rows", .type = SP_FIELD_CUSTOM, .offset = (base) + offsetof(struct curve_table, rows),                 \
        .is_required = true, .help = "arrays of the columns' values", .decode = curve_keep_array                       \
    }
#define CURVE_TABLE_FIELDS(owner)                                                                                      \
    {.key = "kind",                                                                                                    \
     .type = SP_FIELD_ENUM,                                                                                            \
     .offset = offsetof(struct owner, table.from.kind),                                                                \
     .is_required = true,                                                                                              \
     .help = "where the table comes from",                                                                             \
     .names = sp_figure_kind_names},                                                                                   \
        {.key = "source",                                                                                              \
         .type = SP_FIELD_STRING,                                                                                      \
         .offset = offsetof(struct owner, table.from.source),                                                          \
         .is_required = true,                                                                                          \
         .help = "who measured it"},                                                                                   \
        {.key = "note",                                                                                                \
         .type = SP_FIELD_STRING,                                                                                      \
         .offset = offsetof(struct owner, table.from.note),                                                            \
         .help = "and how"},                                                                                           \
        {.key = "spread",                                                                                              \
         .type = SP_FIELD_PURE,                                                                                        \
         .offset = offsetof(struct owner, table.from.spread),                                                          \
         .min = 0,                                                                                                     \
         .max = 1,                                                                                                     \
         .help = "relative standard deviation of a call that is priced through the table"},                            \
        {.key = "fit",                                                                                                 \
         .type = SP_FIELD_CUSTOM,                                                                                      \
         .offset = offsetof(struct owner, table.from.fit),                                                             \
         .help = "the fit that made it: model, parameters, covariance",                                                \
         .decode = curve_keep_object},                                                                                 \
        CURVE_DATA_FIELDS(offsetof(struct owner, table))

/* A custom decoder that keeps an array as it is (const struct sp_json *). */
bool curve_keep_array(const struct sp_decoder *decoder, const struct sp_json *json, const char *path, void *target,
                      struct sp_error *err);
bool curve_keep_object(const struct sp_decoder *decoder, const struct sp_json *json, const char *path, void *target,
                       struct sp_error *err);
/* Adds the rows of a table. */
bool curve_points_read(const struct curve_reading *reading, const struct curve_table *table, int64_t group,
                       struct curve_points *points, struct sp_error *err) SP_MUST_CHECK;
/* By keys, then x; two rows for one point are an error. */
bool curve_points_sort(const struct sp_decoder *decoder, const char *path, struct curve_points *points,
                       struct sp_error *err) SP_MUST_CHECK;
/* How many points from `first` on share its keys. */
size_t curve_run(const struct curve_points *points, size_t first);
/* Columns of a run as arrays of doubles, in the arena. */
const double *curve_log_x(struct sp_arena *arena, const struct curve_point *points, size_t count);
const double *curve_y(struct sp_arena *arena, const struct curve_point *points, size_t count);
const double *curve_log_y(struct sp_arena *arena, const struct curve_point *points, size_t count);
/* Kind, note and fit of the first table that the points come from, the sources of all; the largest spread, and none where a table
 * has none. */
struct curve_provenance curve_joined(struct sp_arena *arena, const struct curve_point *points, size_t count);

/* ---- attention_tiling.c ----------------------------------------------------------------------------------------- */

/* "tiles" of an entry of "attention": how the kernel cuts its work. */
struct tiling_file {
    int n_tilings;
    const struct attention_tiling *tilings;
    struct attention_clock clock;
    struct attention_harness harness;
};
bool attention_tiling_decode(const struct sp_decoder *decoder, const struct sp_json *json, const char *path,
                             void *target, struct sp_error *err);

/* ---- curve_spec.c ----------------------------------------------------------------------------------------------- */

bool gemm_curve_decode(const struct sp_decoder *decoder, const struct sp_json *json, const char *path, void *target,
                       struct sp_error *err);
/* target: struct gpu_spec */
bool gemm_fp8_decode(const struct sp_decoder *decoder, const struct sp_json *json, const char *path, void *target,
                     struct sp_error *err);
bool copy_curve_decode(const struct sp_decoder *decoder, const struct sp_json *json, const char *path, void *target,
                       struct sp_error *err);
/* target: struct gpu_spec (attention_curve.c) */
bool attention_curves_decode(const struct sp_decoder *decoder, const struct sp_json *json, const char *path,
                             void *target, struct sp_error *err);
/* target: struct intra_spec */
bool collective_lines_decode(const struct sp_decoder *decoder, const struct sp_json *json, const char *path,
                             void *target, struct sp_error *err);
extern const struct sp_field gemm_figure_fields[]; /* the figures of struct gemm_curve */

/* ---- hardware_spec.c -------------------------------------------------------------------------------------------- */

/* Decodes a parsed hardware file. Borrows path and json. */
bool hardware_decode(struct sp_arena *arena, const char *path, const struct sp_json *json,
                     struct hardware_spec *hardware, struct sp_error *err) SP_MUST_CHECK;
/* How the figures of a node fit together; `file` is what the error calls it. */
bool hardware_check(const struct hardware_spec *hardware, const char *file, enum sp_error_kind kind,
                    struct sp_error *err) SP_MUST_CHECK;
/* Fails when the object calls itself another schema. A missing one is left to the field table. */
bool schema_check(const struct sp_decoder *decoder, const struct sp_json *json, const char *path, const char *expected,
                  struct sp_error *err) SP_MUST_CHECK;

/* ---- settings (request.c) --------------------------------------------------------------------------------------- */

/* One "path=value" of --set, split. */
struct setting {
    const char *path;
    const char *value;
};
/* Fails (SP_ERROR_USAGE) without '=' or with an empty path. Copies into arena. */
bool setting_split(struct sp_arena *arena, const char *text, struct setting *setting, struct sp_error *err);
/* True when the root of path ("run" of "run.loss") is root. */
bool setting_has_root(const struct setting *setting, const char *root);
bool request_sets(const struct request *request, const char *path);
/* Fields of one root and the struct they set. */
struct settable {
    const char *root;
    const struct sp_field *fields;
    void *object;
};
/* Applies the settings of that root, in order. */
bool settings_apply(const struct request *request, const struct settable *settable, struct sp_arena *arena,
                    struct sp_error *err) SP_MUST_CHECK;
/* Fails, naming the path, the nearest known one and what is settable. */
bool settings_check_paths(const struct request *request, struct sp_arena *arena, struct sp_error *err);

/* ---- parsing of option values (option_text.c; those that plan reads too are in spec.h) --------------------------- */

/* text NULL: even. Explicit counts are copied into arena. */
bool pp_layers_parse(struct sp_arena *arena, const char *text, struct layout_spec *layout, struct sp_error *err);
bool global_batch_parse(struct sp_arena *arena, const char *text, int64_t seq, int64_t *batch, struct sp_error *err);

bool mask_parse(const char *text, enum mask_kind *mask, int64_t *window, struct sp_error *err);
bool train_parse(const char *text, int64_t *lora_rank, struct sp_error *err);

/* ---- layout_file.c ---------------------------------------------------------------------------------------------- */

/* Puts a parsed layout (or answer) under the request. `name` is what errors call it. */
bool layout_file_apply(struct sp_arena *arena, const char *name, const struct sp_json *json,
                       const struct request *request, struct request *merged, struct sp_error *err) SP_MUST_CHECK;
/* A whole answer (layout_answer.c): model, hardware, network, cluster, sequence, batch, mask, documents, training, and
 * what it assumed. `given` is what the user said, `merged` that and the layout. */
struct answer_source {
    struct sp_arena *arena;
    const char *file;
    const struct sp_json *json;
};
/* Its "set": what --set had overridden when it was priced. */
bool answer_overrides(const struct answer_source *source, const struct request *given, struct sp_texts *overrides,
                      struct sp_error *err) SP_MUST_CHECK;
bool answer_apply(const struct answer_source *source, const struct request *given, struct request *merged,
                  struct sp_error *err) SP_MUST_CHECK;
/* The request with what --layout gives put in where the user gave nothing. */
bool request_merge_layout(const struct request *request, struct sp_arena *arena, struct request *merged,
                          struct sp_error *err) SP_MUST_CHECK;

enum { ZBV_CHUNKS = 2 }; /* virtual stages of a rank under zbv */

/* ---- defaults.c, defaults_run.c --------------------------------------------------------------------------------- */

bool defaults_cluster(const struct request *request, struct question *question, struct sp_error *err) SP_MUST_CHECK;
bool defaults_layout(const struct request *request, struct question *question, struct sp_error *err) SP_MUST_CHECK;
/* Framework, kernels and loss, and what the run does. */
bool defaults_software(const struct request *request, struct question *question, struct sp_error *err) SP_MUST_CHECK;
bool defaults_batch(const struct request *request, struct question *question, struct sp_error *err) SP_MUST_CHECK;

/* ---- assumed.c -------------------------------------------------------------------------------------------------- */

/* Adds the inputs that were defaulted and matter, and the figures in use that are fitted or assumed. */
void assumed_inputs(const struct request *request, struct question *question);
void assumed_figures(struct question *question);

/* ---- rules ------------------------------------------------------------------------------------------------------ */

/* Refuses what is not built yet (rule "not_built"), with what to use instead. True when nothing is. */
bool request_is_built(const struct request *request, struct sp_error *err);
/* Rules by theme (rules_*.c): each adds what it finds broken with sp_fail_rule() and warns; true when all hold. The
 * degrees multiply to at most the cluster by then. */
bool rules_software(struct question *question, struct sp_error *err);
bool rules_degrees(struct question *question, struct sp_error *err);
bool rules_experts(struct question *question, struct sp_error *err);
bool rules_sequence(struct question *question, struct sp_error *err);
bool rules_pipeline(struct question *question, struct sp_error *err);
/* Why the framework has no mask for the run, or NULL. Copies into the arena. */
const char *sequence_refusal(const struct question *question);
/* tp x sp x pp x dp is the cluster. */
bool layout_fills_cluster(const struct question *question);
/* "1, 2, 4, 8": the divisors of n, of more than ten those nearest to `near`. Copies into arena. */
const char *divisors_text(struct sp_arena *arena, int64_t n, int64_t near);
/* "100000, 100016": multiples of unit around value. Copies into arena. */
const char *multiples_text(struct sp_arena *arena, int64_t value, int64_t unit);
/* "7, 8 x 14, 7": layers by stage, runs folded. */
const char *stage_layers_text(struct sp_arena *arena, const struct layout_spec *layout, const struct model_spec *model);

int64_t gcd_of(int64_t a, int64_t b);
int64_t lcm_of(int64_t a, int64_t b);

#endif
